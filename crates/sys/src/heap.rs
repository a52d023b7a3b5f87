//! Memory that is free in the allocator, and that the kernel could have.
use crate::stack_pages::page_bytes;
use rustix::mm::Advice;
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The usual time between two returns of free memory, milliseconds.
pub const TRIM_MS: u64 = 10_000;

/// The shortest buffer whose pages [`release`] returns, bytes. Shorter ones are left to [`trim`].
const RELEASED_BYTES_MIN: usize = 32 << 10;

/// Time of the last return in this process, milliseconds.
static TRIMMED_MS: AtomicU64 = AtomicU64::new(0);

/// Frees a buffer. The whole pages of a long one go to the kernel at once.
///
/// A loop that closes many connections pays some microseconds for each of their buffers. [`trim`]
/// would pay for all of them in one call.
pub fn release(mut buffer: Vec<u8>) {
    if buffer.capacity() < RELEASED_BYTES_MIN {
        return;
    }
    buffer.clear();
    let room = buffer.spare_capacity_mut();
    let pages = whole_pages(room.as_ptr().addr(), room.len(), page_bytes());
    let Some(pages) = room.get_mut(pages).filter(|pages| !pages.is_empty()) else { return };
    let (from, bytes) = (pages.as_mut_ptr().cast(), pages.len());
    // SAFETY: the pages are within the buffer, which this function owns, and which has no contents.
    // They are private memory of the allocator, and read zeros when they are touched again.
    let released = unsafe { rustix::mm::madvise(from, bytes, Advice::LinuxDontNeed) };
    // Locked memory stays: nothing is lost then.
    let _ = released;
}

/// The place of all whole pages of `page` bytes in a buffer of `len` bytes at `address`.
const fn whole_pages(address: usize, len: usize, page: usize) -> Range<usize> {
    let before = address.next_multiple_of(page) - address;
    before..before + len.saturating_sub(before) / page * page
}

/// Returns free memory to the kernel; false if a thread of this process has done so in the last
/// `pause_ms`. `now_ms`: by one clock of the process.
///
/// The C library does that at the end of its heap alone. After a burst of connections, the last
/// block in use keeps all that is free before it. To return 60 MiB takes 10 to 30 ms, and to find
/// nothing less than one. Long buffers are [released](release) where they are freed, so short
/// blocks alone are left.
pub fn trim(now_ms: u64, pause_ms: u64) -> bool {
    let last = TRIMMED_MS.load(Relaxed);
    let is_due = now_ms.saturating_sub(last) >= pause_ms;
    if is_due && TRIMMED_MS.compare_exchange(last, now_ms, Relaxed, Relaxed).is_ok() {
        // SAFETY: it may be called at any time, by any thread, and leaves blocks in use alone.
        let _ = unsafe { libc::malloc_trim(0) };
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Memory of this process, bytes.
    fn resident() -> usize {
        let status = fs::read_to_string("/proc/self/status").expect("every process has one");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
        number.expect("it is resident") << 10
    }

    /// Checks that this way to free buffers returns their memory, as they lie between connections.
    fn check(free: impl FnOnce(Vec<Vec<u8>>)) {
        let blocks = (0..300).map(|_| (vec![1_u8; 100 << 10], Box::new([1_u8; 100])));
        let (buffers, connections): (Vec<_>, Vec<_>) = blocks.unzip();
        let before = resident();
        free(buffers);
        let after = resident();
        assert!(after + (20 << 20) < before, "{before} bytes before, {after} after");
        drop(connections);
    }

    #[test]
    fn pages_of_every_length_are_within_their_buffer() {
        for page in [4 << 10, 16 << 10, 64 << 10] {
            for address in [page, 9 * page - 16, 9 * page + 16, 9 * page + 4096, 10 * page - 1] {
                for len in [0, 100, 32 << 10, 48 << 10, 64 << 10, (128 << 10) + 9] {
                    let pages = whole_pages(address, len, page);
                    let (from, bytes) = (address + pages.start, pages.len());
                    assert!(from.is_multiple_of(page) && bytes.is_multiple_of(page));
                    assert!(bytes == 0 || pages.end <= len, "{address} {len} {page}");
                    assert!(len < bytes + 2 * page, "{address} {len} {page}: all of them");
                }
            }
        }
        assert!(page_bytes().is_power_of_two());
    }

    // One test: another one at the same time would change the memory of the process.
    #[test]
    fn free_memory_between_blocks_in_use_is_returned() {
        check(|buffers| buffers.into_iter().for_each(release));
        check(|buffers| {
            drop(buffers);
            assert!(trim(TRIM_MS, TRIM_MS));
        });
        assert!(!trim(2 * TRIM_MS - 1, TRIM_MS), "one return at a time");
        assert!(trim(2 * TRIM_MS, TRIM_MS));
        assert!(!trim(2 * TRIM_MS + 9, 10) && trim(2 * TRIM_MS + 10, 10));
    }
}
