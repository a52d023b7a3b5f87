//! Ranges of files that were in memory when they were last probed. A table of fixed size: an entry
//! that is lost to another costs a probe, and no more.
use regatta_op::FileId;

/// Number of entries, a power of two: 1 GiB of files in chunks of 256 KiB.
const ENTRIES: usize = 4096;

/// Ranges that need no probe for a while.
#[derive(Debug)]
pub struct Probed {
    /// By hash: the hash of a range, and the time until which no probe is needed, nanoseconds. The
    /// kernel provides the pages of the table when they are first written.
    entries: Box<[[u64; 2]]>,
    keep_ns: u64,
}

impl Probed {
    /// An empty table that keeps its entries for this long.
    #[must_use]
    pub fn new(keep_ns: u64) -> Self {
        Self { entries: vec![[0; 2]; ENTRIES].into(), keep_ns }
    }

    /// Whether a chunk of a file was in memory lately.
    #[must_use]
    pub fn contains(&self, file: FileId, chunk: u64, now_ns: u64) -> bool {
        let (at, hash) = place(file, chunk);
        let [found, until] = self.entries[at];
        found == hash && now_ns < until
    }

    /// Notes that all of a chunk was in memory.
    pub fn add(&mut self, file: FileId, chunk: u64, now_ns: u64) {
        let (at, hash) = place(file, chunk);
        self.entries[at] = [hash, now_ns.saturating_add(self.keep_ns)];
    }

    /// Forgets all: memory is short.
    pub fn clear(&mut self) {
        self.entries.fill([0; 2]);
    }
}

/// Index and hash of a chunk. Two chunks with the same hash are taken for one: a send then waits
/// for the disk once.
fn place(FileId { device, inode, .. }: FileId, chunk: u64) -> (usize, u64) {
    let mixed = [device, inode, chunk]
        .iter()
        .fold(0u64, |hash, part| (hash.rotate_left(26) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let hash = mixed ^ mixed >> 32;
    (usize::try_from(hash % ENTRIES as u64).unwrap_or(0), hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_op::Modified;

    const fn file(device: u64, inode: u64) -> FileId {
        let at = Modified { secs: 0, nanos: 0 };
        FileId { device, inode, len: 1, modified: at, changed: at }
    }

    #[test]
    fn a_chunk_is_known_for_as_long_as_entries_are_kept() {
        let mut probed = Probed::new(1_000);
        probed.add(file(1, 7), 3, 500);
        for (of, chunk, now, expect) in [
            (file(1, 7), 3, 500, true),
            (file(1, 7), 3, 1_499, true),
            (file(1, 7), 3, 1_500, false),
            (file(1, 7), 2, 500, false),
            (file(2, 7), 3, 500, false),
            (file(1, 8), 3, 500, false),
        ] {
            assert_eq!(probed.contains(of, chunk, now), expect, "{of:?} {chunk} at {now}");
        }
        probed.clear();
        assert!(!probed.contains(file(1, 7), 3, 500));
    }

    #[test]
    fn without_a_time_nothing_is_kept() {
        let mut probed = Probed::new(0);
        probed.add(file(1, 7), 0, 500);
        assert!(!probed.contains(file(1, 7), 0, 500));
    }

    #[test]
    fn chunks_of_many_files_have_places_of_their_own() {
        let mut probed = Probed::new(1_000);
        let each = || (0..64).flat_map(|inode| (0..8).map(move |chunk| (file(1, inode), chunk)));
        each().for_each(|(file, chunk)| probed.add(file, chunk, 0));
        let kept = each().filter(|(file, chunk)| probed.contains(*file, *chunk, 0)).count();
        assert!(kept > 440, "{kept} of 512");
    }
}
