//! A disk that is simulated in the reading process. A read of what is not in memory waits as for a
//! disk with a few heads, which all processes of a server share.
//!
//! A head is a word with the time until which it is busy. A request takes the head that is free
//! first, and sleeps until the end of its time there. So no process holds anything that could be
//! lost. What a process has begun when it dies ends at its time, as on a disk.
//!
//! The kernel says what is in memory (cachestat(2), mincore(2)). After the wait the read is a
//! normal one, so pages come and go as usual. The time of the real disk is added, and so is that of
//! files that a test makes slow ([`hook`]).
use crate::{
    StaticFile, clock, crew, hook,
    page_cache::{Resident, by_cachestat, pages_absent, pull},
    shm,
};
use regatta_op::File;
use rustix::fs::{Advice, fadvise};
use std::{
    io,
    os::fd::AsFd,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Performance of a simulated disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Time to reach what is read, microseconds.
    pub seek_us: u64,
    /// Bytes per second that a head reads; 0 is unlimited.
    pub bandwidth: u64,
    /// Requests that are served at the same time; at least 1.
    pub heads: usize,
}

/// Block: the least that a disk reads, bytes.
const BLOCK_BYTES: u64 = 4096;

/// Most bytes that one request of a sender reads; such windows have fixed places in the file. AMPED
/// and LAIO prepare as much at once, so that all pay equally often for the seek.
const WINDOW_BYTES: u64 = 256 << 10;

/// Size of a scratch read into memory, bytes.
const SCRATCH_BYTES: usize = 64 << 10;

/// Disk of this process, if it has one.
static DISK: OnceLock<Disk> = OnceLock::new();

#[derive(Debug)]
struct Disk {
    model: Model,
    /// By head: time when it will have served all its requests, on the precise clock.
    busy_until: &'static [AtomicU64],
}

/// Gives this process, and those that it forks from here on, a simulated disk.
///
/// # Errors
/// No memory or descriptors left.
///
/// # Panics
/// If one is installed already, or `heads` is 0.
pub fn install(model: Model) -> io::Result<()> {
    assert!(model.heads > 0, "a disk has a head");
    let busy_until = shm::create_named("regatta-disk", model.heads)?.words();
    assert!(DISK.set(Disk { model, busy_until }).is_ok(), "one disk per process");
    Ok(())
}

/// Waits for a head, its seek and one block: for a name that is not in memory, for example. Does
/// not wait without a simulated disk.
pub fn wait_for_block() {
    if let Some(disk) = DISK.get() {
        sleep_until(disk.ask(BLOCK_BYTES, clock::nanos()));
    }
}

/// Waits as an open must; `is_cached` says whether the disk is not needed at all.
#[inline]
pub(crate) fn before_open(is_cached: impl FnOnce() -> bool) {
    hook::slow_open();
    if DISK.get().is_some() && !is_cached() {
        wait_for_block();
    }
}

/// Waits for the part of a range that is not in memory, before a read of the range.
#[inline]
pub(crate) fn before_read(file: &StaticFile, at: u64, len: u64) {
    hook::slow_read(file.id().inode);
    if let Some(disk) = DISK.get()
        && let Some(end) = disk.read(file, at, len)
    {
        sleep_until(end);
    }
}

/// Bytes of a non-empty range that can be sent: all if it is in memory. Otherwise the rest of the
/// file's window in which it begins, after waiting for it.
#[inline]
pub(crate) fn before_sendfile(file: &StaticFile, at: u64, len: u64) -> u64 {
    hook::slow_read(file.id().inode);
    DISK.get().map_or(len, |disk| disk.ready(file, at, len))
}

/// True if a read of the range would have to wait here, whatever the kernel says.
#[inline]
pub(crate) fn is_cold(file: &StaticFile, at: u64, len: u64) -> bool {
    hook::cold_us(file.id().inode) > 0 || DISK.get().is_some() && bytes_absent(file, at, len) > 0
}

/// Delay of an open that another thread performs meanwhile; see [`before_open`].
pub(crate) fn open_delay(is_cached: impl FnOnce() -> bool) -> Option<Duration> {
    if hook::blocks() {
        return Some(Duration::from_micros(hook::slow_open_us()));
    }
    let (disk, now) = (DISK.get().filter(|_| !is_cached())?, clock::nanos());
    Some(until(disk.ask(BLOCK_BYTES, now), now))
}

/// Delay of a read that another thread performs meanwhile; [`delayed`] follows.
pub(crate) fn read_delay(file: &StaticFile, at: u64, len: u64) -> Option<Duration> {
    let us = hook::cold_us(file.id().inode);
    if us > 0 {
        return Some(Duration::from_micros(us));
    }
    let (disk, now) = (DISK.get()?, clock::nanos());
    Some(until(disk.read(file, at, len)?, now))
}

/// Asks for the part of a range that is not in memory, and does not wait: time when it will have
/// been read.
pub(crate) fn ahead(file: &StaticFile, at: u64, len: u64) -> Option<u64> {
    DISK.get()?.read(file, at, len)
}

/// Waits for a range that [`ahead`] has asked for, which is in memory then.
pub(crate) fn arrive(file: &StaticFile, at: u64, len: u64, end: u64) {
    sleep_until(end);
    // The call that follows reports what cannot be read.
    let _ = pull(file, at, len, &mut vec![0; SCRATCH_BYTES]);
}

/// Ends the [`read_delay`] of this file.
pub(crate) fn delayed(file: &StaticFile) {
    hook::warm(file.id().inode);
}

fn sleep_until(end: u64) {
    crew::assert_unlocked();
    thread::sleep(until(end, clock::nanos()));
}

const fn until(end: u64, now: u64) -> Duration {
    Duration::from_nanos(end.saturating_sub(now))
}

/// Bytes of a range that are not in memory, in whole pages; 0 where the kernel does not say.
fn bytes_absent(file: &StaticFile, at: u64, len: u64) -> u64 {
    let len = len.min(file.len().saturating_sub(at));
    // One call, without the address space that helpers share. On an overlay it finds no page at
    // all, and the second call knows better.
    if len == 0 || by_cachestat(file, at, len) == Resident::Yes {
        return 0;
    }
    pages_absent(file.as_fd(), at, len).unwrap_or(0) * BLOCK_BYTES
}

impl Disk {
    /// Time when a request that arrives `now` will have been served.
    fn ask(&self, bytes: u64, now: u64) -> u64 {
        let takes = self.model.takes(bytes);
        loop {
            let heads = self.busy_until.iter().map(|until| (until, until.load(Relaxed)));
            let first = heads.min_by_key(|(_, until)| *until);
            let (head, until) = first.expect("a disk has a head");
            let end = until.max(now).saturating_add(takes);
            // If another request was quicker, some head may be free sooner than this one.
            if head.compare_exchange(until, end, Relaxed, Relaxed).is_ok() {
                return end;
            }
        }
    }

    /// Time when the missing part of a range will have been read; `None` if all is in memory.
    fn read(&self, file: &StaticFile, at: u64, len: u64) -> Option<u64> {
        let bytes = bytes_absent(file, at, len);
        if bytes == 0 {
            return None;
        }
        // No unpaid pages come into memory ahead of time. A kernel that ignores the advice reads
        // more.
        let _ = fadvise(file, 0, None, Advice::Random);
        Some(self.ask(bytes, clock::nanos()))
    }

    fn ready(&self, file: &StaticFile, at: u64, len: u64) -> u64 {
        if bytes_absent(file, at, len) == 0 {
            return len;
        }
        let window = len.min(WINDOW_BYTES - at % WINDOW_BYTES);
        if let Some(end) = self.read(file, at, window) {
            sleep_until(end);
            // The peer may take less of it now: the rest has been paid for, too. The call that
            // follows reports what cannot be read.
            let _ = pull(file, at, window, &mut vec![0; SCRATCH_BYTES]);
        }
        window
    }
}

impl Model {
    /// Time that a head takes to seek and to read `bytes`, nanoseconds.
    fn takes(self, bytes: u64) -> u64 {
        let nanos = u128::from(bytes) * 1_000_000_000;
        let reading = nanos.checked_div(self.bandwidth.into()).unwrap_or(0);
        u64::try_from(reading).unwrap_or(u64::MAX).saturating_add(self.seek_us * 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::tests::with;

    const MS: u64 = 1_000_000;

    /// A disk on which each request takes 5 ms and 1 ns for each byte.
    fn disk(heads: usize) -> Disk {
        let words: Box<[AtomicU64]> = (0..heads).map(|_| AtomicU64::new(0)).collect();
        let model = Model { seek_us: 5000, bandwidth: 1_000_000_000, heads };
        Disk { model, busy_until: Box::leak(words) }
    }

    #[test]
    fn a_request_takes_the_way_and_its_bytes() {
        let model = Model { seek_us: 3000, bandwidth: 100_000_000, heads: 1 };
        assert_eq!(model.takes(1_000_000), 3 * MS + 10 * MS);
        assert_eq!(Model { bandwidth: 0, ..model }.takes(1 << 40), 3 * MS);
        assert_eq!(Model { bandwidth: 1, ..model }.takes(u64::MAX), u64::MAX);
    }

    #[test]
    fn as_many_are_served_at_once_as_there_are_heads() {
        let disk = disk(3);
        let ends: Vec<u64> = (0..7).map(|_| disk.ask(0, 100 * MS) / MS).collect();
        assert_eq!(ends, [105, 105, 105, 110, 110, 110, 115]);
        // A request that arrives when all are done does not wait, even if the processes have died.
        assert_eq!(disk.ask(1000, 200 * MS), 205 * MS + 1000);
        assert_eq!(disk.ask(0, 203 * MS), 208 * MS, "another head is free");
    }

    #[test]
    fn no_head_serves_two_whoever_asks() {
        let disk = disk(2);
        let ask = || (0..100).map(|_| disk.ask(0, 0)).collect::<Vec<u64>>();
        let mut ends: Vec<u64> = thread::scope(|scope| {
            let askers: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            askers.into_iter().flat_map(|asker| asker.join().unwrap()).collect()
        });
        ends.sort_unstable();
        let pairs = (1..=200).flat_map(|turn| [5 * MS * turn; 2]);
        assert!(ends.into_iter().eq(pairs), "each head has been busy all the time");
    }

    #[test]
    fn only_what_is_not_in_memory_is_waited_for() {
        with("stand-in", 600_000, |file| {
            let disk = disk(1);
            let busy_until = || disk.busy_until[0].load(Relaxed);
            assert_eq!(disk.read(file, 0, 600_000), None, "it was just written");
            assert_eq!(disk.ready(file, 5, 599_995), 599_995);
            assert_eq!(disk.read(file, 1 << 40, 9), None, "behind the end");
            rustix::fs::fsync(file).unwrap();
            fadvise(file, 0, None, Advice::DontNeed).unwrap();
            // Not every file system forgets.
            let absent = bytes_absent(file, 0, 600_000);
            if absent < 600_000 {
                return;
            }
            let at = WINDOW_BYTES - 10_000;
            assert_eq!(disk.ready(file, at, 500_000), 10_000, "to the end of the window");
            let paid = busy_until();
            assert!(paid > 0);
            assert_eq!(disk.ready(file, at, 10_000), 10_000);
            assert_eq!(busy_until(), paid, "it is in memory now");
            fadvise(file, 0, None, Advice::DontNeed).unwrap();
            let (now, end) = (clock::nanos(), disk.read(file, 0, 1).expect("and now it is not"));
            assert!(end >= now.max(paid) + disk.model.takes(BLOCK_BYTES));
        });
    }
}
