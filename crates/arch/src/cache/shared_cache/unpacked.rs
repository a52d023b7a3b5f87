//! The entries of a shared cache that this process has unpacked.
use super::{layout::MemoryLayout, place_of};
use regatta_metrics::{Counter, Tally};
use regatta_origin::Representation;
use regatta_sys::StaticFile;
use std::sync::{Arc, atomic::Ordering::Acquire};

/// Content that an entry has been unpacked to.
pub(super) type Unpacked = Arc<Representation<StaticFile>>;

/// Unpacked entries with their versions, by number. Together they take at most `bytes_max`.
#[derive(Debug)]
pub(super) struct UnpackedEntries {
    files: Vec<Option<(u64, Unpacked)>>,
    bytes: usize,
    bytes_max: usize,
    /// Start of the search for the next one to evict. Eviction is round-robin: to know which is
    /// used most, a hit would have to write.
    hand: usize,
}

impl UnpackedEntries {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { files: Vec::new(), bytes: 0, bytes_max, hand: 0 }
    }

    /// The unpacked entry, if it is of this version.
    #[inline]
    pub(super) fn get(&self, at: u64, version: u64) -> Option<&Unpacked> {
        match self.files.get(place_of(at)) {
            Some(Some((known, file))) if *known == version => Some(file),
            _ => None,
        }
    }

    /// Keeps the unpacked version of an entry, if there can be room for it.
    pub(super) fn keep(&mut self, at: u64, version: u64, file: &Unpacked, tally: &Tally<'_>) {
        let (index, bytes) = (place_of(at), file.bytes());
        self.let_go(index, tally);
        if bytes > self.bytes_max {
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            self.hand = (self.hand + 1) % self.files.len();
            self.let_go(self.hand, tally);
        }
        if self.files.len() <= index {
            self.files.resize(index + 1, None);
        }
        self.files[index] = Some((version, Arc::clone(file)));
        self.bytes += bytes;
        tally.add(Counter::CacheUnpackedBytesAdded, bytes as u64);
    }

    fn let_go(&mut self, index: usize, tally: &Tally<'_>) {
        if let Some((_, file)) = self.files.get_mut(index).and_then(Option::take) {
            self.bytes -= file.bytes();
            tally.add(Counter::CacheUnpackedBytesRemoved, file.bytes() as u64);
        }
    }

    /// Drops the unpacked entry if the entry has changed since.
    pub(super) fn follow(&mut self, at: u64, layout: &MemoryLayout, tally: &Tally<'_>) {
        let index = place_of(at);
        if let Some(Some((version, _))) = self.files.get(index)
            && layout.node(at).version().load(Acquire) != *version
        {
            self.let_go(index, tally);
        }
    }

    /// [`UnpackedEntries::follow`] for all entries.
    pub(super) fn follow_all(&mut self, layout: &MemoryLayout, tally: &Tally<'_>) {
        for at in 0..self.files.len() as u64 {
            self.follow(at, layout, tally);
        }
    }
}
