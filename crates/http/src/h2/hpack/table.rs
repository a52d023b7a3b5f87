//! The dynamic table of a decoder (RFC 7541 §2.3.2, §4).
use crate::h2::known::FieldKind;
use alloc::{collections::VecDeque, vec::Vec};
use core::ops::Range;

/// Bytes that each entry counts besides its name and value (RFC 7541 §4.1).
pub(super) const ENTRY_BYTES: usize = 32;

/// An entry: the facts about its field, and the place of the text that was kept of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableEntry {
    pub(super) kind: FieldKind,
    pub(super) is_valid: bool,
    /// Bytes of the name and of the value, kept or not.
    name_bytes: u16,
    value_bytes: u16,
    /// The start of the kept text, and its end.
    start: u32,
    end: u32,
}

impl TableEntry {
    /// Bytes of the name.
    pub(super) fn name_bytes(&self) -> usize {
        usize::from(self.name_bytes)
    }

    /// Size of the entry (RFC 7541 §4.1).
    pub(super) fn size(&self) -> usize {
        usize::from(self.name_bytes) + usize::from(self.value_bytes) + ENTRY_BYTES
    }

    /// The kept text.
    pub(super) const fn kept(&self) -> Range<u32> {
        self.start..self.end
    }
}

/// The lengths and the facts of a new entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewEntry {
    pub(super) kind: FieldKind,
    pub(super) is_valid: bool,
    pub(super) name_bytes: usize,
    pub(super) value_bytes: usize,
}

/// Entries, oldest first, and their text.
///
/// Text moves only in [`Self::compact`], so places in it stay valid while a block is read, also
/// those of entries that were evicted meanwhile.
#[derive(Debug)]
pub(super) struct Table {
    entries: VecDeque<TableEntry>,
    text: Vec<u8>,
    /// The sum of the entries' sizes.
    size: usize,
    /// The most that it may be.
    size_max: usize,
}

impl Table {
    pub(super) const fn new(size_max: usize) -> Self {
        Self { entries: VecDeque::new(), text: Vec::new(), size: 0, size_max }
    }

    /// The entry with this number; 0 is the newest.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&TableEntry> {
        self.entries.get(self.entries.len().checked_sub(number + 1)?)
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(super) const fn size(&self) -> usize {
        self.size
    }

    pub(super) const fn size_max(&self) -> usize {
        self.size_max
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory held.
    pub(super) fn capacity(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<TableEntry>()
    }

    /// Sets the most that the sizes may sum up to, and evicts what is over it (RFC 7541 §4.3).
    pub(super) fn resize(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict_to(size_max);
    }

    /// Adds an entry, with the text that `keep` appends. An entry larger than the table empties it
    /// instead (RFC 7541 §4.4).
    pub(super) fn insert(&mut self, new: NewEntry, keep: impl FnOnce(&mut Vec<u8>)) {
        let NewEntry { kind, is_valid, name_bytes, value_bytes } = new;
        let size = name_bytes + value_bytes + ENTRY_BYTES;
        self.evict_to(self.size_max.saturating_sub(size));
        let (Ok(name_bytes), Ok(value_bytes), Ok(start)) =
            (u16::try_from(name_bytes), u16::try_from(value_bytes), u32::try_from(self.text.len()))
        else {
            return;
        };
        if size > self.size_max {
            return;
        }
        keep(&mut self.text);
        let end = u32::try_from(self.text.len()).unwrap_or(start);
        self.entries.push_back(TableEntry { kind, is_valid, name_bytes, value_bytes, start, end });
        self.size += size;
    }

    fn evict_to(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_front()
        {
            self.size -= oldest.size();
        }
    }

    /// Removes the text of evicted entries, if that is half of the text or more, or if a block has
    /// added more text than the table may have. Places in the text are not valid after it.
    #[inline]
    pub(super) fn compact(&mut self) {
        let evicted = self.entries.front().map_or(self.text.len(), |oldest| oldest.start as usize);
        let is_large = self.text.capacity() > 2 * self.size_max;
        if is_large || evicted > 0 && evicted * 2 >= self.text.len() {
            self.remove(evicted, is_large);
        }
    }

    #[inline(never)]
    fn remove(&mut self, evicted: usize, is_large: bool) {
        self.text.drain(..evicted);
        for entry in &mut self.entries {
            let start = entry.start as usize - evicted;
            entry.end -= entry.start;
            entry.start = u32::try_from(start).unwrap_or(0);
            entry.end += entry.start;
        }
        if is_large {
            self.text.shrink_to(self.size_max);
        }
    }
}
