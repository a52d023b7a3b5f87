//! What this process has unpacked of a cache that it shares.
use super::{layout::Layout, place_of};
use regatta_origin::Representation;
use regatta_sys::StaticFile;
use std::sync::{Arc, atomic::Ordering::Acquire};

/// What an entry has been unpacked to.
pub(super) type Unpacked = Arc<Representation<StaticFile>>;

/// By entry: what it was, in which version.
#[derive(Debug, Default)]
pub(super) struct Copies {
    files: Vec<Option<(u64, Unpacked)>>,
}

impl Copies {
    /// What an entry was unpacked to, if that was this version of it.
    #[inline]
    pub(super) fn get(&self, at: u64, version: u64) -> Option<&Unpacked> {
        match self.files.get(place_of(at)) {
            Some(Some((known, file))) if *known == version => Some(file),
            _ => None,
        }
    }

    /// Keeps what a version of an entry has been unpacked to.
    pub(super) fn keep(&mut self, at: u64, version: u64, file: Unpacked) {
        let index = place_of(at);
        if self.files.len() <= index {
            self.files.resize(index + 1, None);
        }
        self.files[index] = Some((version, file));
    }

    /// Lets go of what an entry was, if it has changed.
    pub(super) fn follow(&mut self, at: u64, layout: &Layout) {
        if let Some(place) = self.files.get_mut(place_of(at))
            && let Some((version, _)) = place
            && layout.node(at).version().load(Acquire) != *version
        {
            *place = None;
        }
    }

    /// [`Copies::follow`] for all entries.
    pub(super) fn follow_all(&mut self, layout: &Layout) {
        for at in 0..self.files.len() as u64 {
            self.follow(at, layout);
        }
    }
}
