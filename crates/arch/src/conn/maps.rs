//! Chunks of files that flash maps and sends from. The least recently used make room for others.
use crate::conn::{chain::Chains, slab::Slab};
use regatta_metrics::{Counter, Tally};
use regatta_op::{File, FileId};
use regatta_sys::{Map, StaticFile};
use std::collections::HashMap;

/// A content, and the number of a chunk of it.
type Name = (FileId, u64);

/// The most chunks, however small: half of the mappings that Linux lets a process have
/// (`vm.max_map_count`). Its memory takes of the others.
const CHUNKS_MAX: usize = 32_768;

/// The mapped chunks of one loop. Chunks begin at multiples of their size in the file.
#[derive(Debug)]
pub struct Maps<'a> {
    chunk_bytes: u64,
    /// Address space that they may take; one chunk there may be whatever it takes.
    bytes_max: u64,
    chunks_max: usize,
    bytes: u64,
    places: HashMap<Name, u64>,
    chunks: Slab<(Name, Map)>,
    /// Their places, the least recently used first.
    order: Chains,
    tally: Tally<'a>,
}

impl<'a> Maps<'a> {
    /// None yet.
    #[must_use]
    pub fn new(chunk_bytes: u64, bytes_max: u64, tally: Tally<'a>) -> Self {
        let (places, chunks, order) = (HashMap::new(), Slab::default(), Chains::new(1));
        let chunks_max = CHUNKS_MAX;
        Self { chunk_bytes, bytes_max, chunks_max, bytes: 0, places, chunks, order, tally }
    }

    /// Size of a chunk, bytes.
    #[must_use]
    pub const fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// The chunk that this byte of a file is in, if it is mapped; it has been used then.
    pub fn get(&mut self, file: &StaticFile, at: u64) -> Option<&Map> {
        let place = *self.places.get(&self.name(file, at))?;
        self.order.leave(place);
        self.order.join(place, 0);
        self.chunks.get_mut(place).map(|(_, map)| &*map)
    }

    /// The same, mapped if it was not; `None` if it cannot be.
    pub fn get_or_map(&mut self, file: &StaticFile, at: u64) -> Option<&Map> {
        let name = self.name(file, at);
        if !self.places.contains_key(&name) {
            self.add(name, file)?;
        }
        self.get(file, at)
    }

    /// Unmaps the chunk that this byte of a file is in.
    pub fn remove(&mut self, file: &StaticFile, at: u64) {
        if let Some(place) = self.places.get(&self.name(file, at)).copied() {
            self.unmap(place);
        }
    }

    /// Unmaps all.
    pub fn clear(&mut self) {
        for place in self.chunks.keys() {
            self.unmap(place);
        }
    }

    fn name(&self, file: &StaticFile, at: u64) -> Name {
        (file.id(), at / self.chunk_bytes)
    }

    fn add(&mut self, name: Name, file: &StaticFile) -> Option<()> {
        let start = name.1 * self.chunk_bytes;
        let len = file.len().checked_sub(start)?.min(self.chunk_bytes);
        let map = Map::new(file, start, len).ok()?;
        self.bytes += map.bytes();
        self.tally.add(Counter::MapsAdded, 1);
        self.tally.add(Counter::MapBytesAdded, map.bytes());
        let place = self.chunks.insert((name, map));
        self.places.insert(name, place);
        self.order.join(place, 0);
        while (self.bytes > self.bytes_max || self.places.len() > self.chunks_max)
            && let Some(first) = self.order.first(0).filter(|first| *first != place)
        {
            self.unmap(first);
        }
        Some(())
    }

    fn unmap(&mut self, place: u64) {
        self.order.leave(place);
        if let Some((name, map)) = self.chunks.remove(place) {
            self.places.remove(&name);
            self.bytes -= map.bytes();
            self.tally.add(Counter::MapsRemoved, 1);
            self.tally.add(Counter::MapBytesRemoved, map.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::at_once::schedule::Folder;
    use regatta_metrics::Gauge;
    use regatta_testkit::counters::arena;

    const CHUNK: u64 = 8 << 10;

    #[test]
    fn the_least_recently_used_makes_room() {
        let folder = Folder::new();
        let arena = arena(1);
        let gauges = || [Gauge::MapsOpen, Gauge::MapBytes].map(|of| arena.slot(0).gauge(of));
        let (file, len) = folder.longest();
        let mut maps = Maps::new(CHUNK, 3 * CHUNK, Tally::Owned(arena.slot(0)));
        assert!(maps.get(&file, 0).is_none(), "nothing is mapped yet");
        for at in [0, CHUNK, 2 * CHUNK + 5, 5] {
            assert!(maps.get_or_map(&file, at).is_some(), "{at}");
        }
        assert_eq!(gauges(), [3, 3 * CHUNK]);
        assert!(maps.get_or_map(&file, len - 1).is_some());
        assert_eq!(gauges(), [3, 3 * CHUNK], "the last chunk takes whole pages");
        assert!(maps.get(&file, CHUNK).is_none(), "it was used least recently");
        for at in [CHUNK - 1, 2 * CHUNK, len - 1] {
            assert!(maps.get(&file, at).is_some(), "{at}");
        }
        maps.remove(&file, len - 2);
        maps.remove(&file, CHUNK);
        assert_eq!(gauges(), [2, 2 * CHUNK]);
        maps.chunks_max = 2;
        assert!(maps.get_or_map(&file, CHUNK).is_some());
        assert_eq!(gauges(), [2, 2 * CHUNK], "there is room, and not for so many");
        maps.clear();
        assert_eq!(gauges(), [0, 0]);
        assert!(maps.places.is_empty() && maps.order.is_empty() && maps.bytes == 0);
    }

    #[test]
    fn one_chunk_is_mapped_whatever_it_takes() {
        let folder = Folder::new();
        let arena = arena(1);
        let (file, len) = folder.longest();
        let mut maps = Maps::new(CHUNK, 1, Tally::Owned(arena.slot(0)));
        for at in [0, CHUNK, 0] {
            assert!(maps.get_or_map(&file, at).is_some(), "{at}");
        }
        assert_eq!(arena.slot(0).gauge(Gauge::MapsOpen), 1);
        assert!(maps.get_or_map(&file, len + CHUNK).is_none(), "there is no such chunk");
    }
}
