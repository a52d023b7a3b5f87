//! Mapped ranges of files (mmap(2)): the kernel reports which of their pages are in memory, and
//! sends from them.
//!
//! This process reads no byte of them. If a file has become shorter meanwhile, a read would end the
//! process by `SIGBUS`. The kernel's own copy only fails.
use crate::{
    StaticFile, fstat, hook, hook::Call, page_cache::PAGE, retry_interrupted, simulated_disk,
};
use regatta_op::{File, Outbox, Segment};
use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, ProtFlags},
};
use std::{
    ffi::c_void,
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    ptr,
};

/// Pages that one mincore(2) call reports on.
const PAGES_LOOKED_AT: usize = 64;

/// Range of a file, in whole pages, mapped for the kernel to read. Processes forked later do not
/// have it: they would keep a deleted file on its disk as long as they live.
#[derive(Debug)]
pub struct Map {
    base: *mut c_void,
    /// Start in the file: at a page.
    start: u64,
    /// Length, in whole pages.
    bytes: u64,
}

impl Map {
    /// Maps a range of a file, within its length at the time of opening.
    ///
    /// # Errors
    /// No memory or no mappings are left (`vm.max_map_count`), or the file cannot be mapped.
    pub fn new(file: &StaticFile, at: u64, len: u64) -> io::Result<Self> {
        let start = at - at % PAGE;
        let bytes = (at + len.max(1)).div_ceil(PAGE) * PAGE - start;
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing of ours. Only
        // the kernel reads it, so that a file that shrinks cannot fault in this process.
        let base = unsafe {
            let (prot, flags) = (ProtFlags::READ, MapFlags::SHARED);
            rustix::mm::mmap(ptr::null_mut(), length, prot, flags, file.as_fd(), start)
        }?;
        let map = Self { base, start, bytes };
        // SAFETY: this changes what a fork copies of the mapping, which is ours and `length` bytes
        // long, and nothing for this process.
        unsafe { rustix::mm::madvise(base, length, Advice::LinuxDontFork) }?;
        Ok(map)
    }

    /// Address space of the mapping, bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of bytes from `at` on, at most `len`, that are in memory without a gap (mincore(2)).
    /// `None` if some of them are not mapped, or the system does not say.
    ///
    /// Unless this process owns the file or may write to it, Linux says that all are in memory.
    #[must_use]
    pub fn resident(&self, file: &StaticFile, at: u64, len: u64) -> Option<u64> {
        if hook::cold_us(file.id().inode) > 0 {
            return Some(0);
        }
        let from = self.place(at, len)?;
        let (mut page, end) = (from / PAGE, (from + len).div_ceil(PAGE));
        let mut found = [0_u8; PAGES_LOOKED_AT];
        while page < end {
            let count = (end - page).min(PAGES_LOOKED_AT as u64);
            let (first, bytes) = (self.at(page * PAGE)?, usize::try_from(count * PAGE).ok()?);
            // SAFETY: the pages are in the mapping, because `place` found the range there; the
            // array has a byte for each of them.
            if unsafe { libc::mincore(first, bytes, found.as_mut_ptr()) } != 0 {
                return None;
            }
            let told = found.iter().zip(0..count);
            let there = told.take_while(|(state, _)| **state & 1 == 1).count() as u64;
            page += there;
            if there < count {
                break;
            }
        }
        Some((page * PAGE).saturating_sub(from).min(len))
    }

    /// Offset in the mapping of a range of the file, if all of it is there.
    fn place(&self, at: u64, len: u64) -> Option<u64> {
        let from = at.checked_sub(self.start)?;
        (from.checked_add(len)? <= self.bytes).then_some(from)
    }

    /// An address in the mapping.
    fn at(&self, place: u64) -> Option<*mut c_void> {
        Some(self.base.wrapping_byte_add(usize::try_from(place).ok()?))
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let length = usize::try_from(self.bytes).unwrap_or(0);
        // SAFETY: the mapping was made by `new` and is undone once. Its address goes only to the
        // kernel, in calls that are over: nothing refers into it.
        let unmapped = unsafe { rustix::mm::munmap(self.base, length) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be undone");
    }
}

/// Sends an outbox's head and, from a mapping, up to `budget_bytes` of the file range that follows,
/// with one `sendmsg`. Advances the outbox by the bytes that the kernel took, and returns their
/// number. `budget_bytes` is more than 0.
///
/// `None` if the mapping does not have the range, or the file has become shorter: nothing was sent,
/// and [`send`](crate::send) finds out what there is. A mapping extends to the end of a page, with
/// zeros beyond the file. So each call checks the file's length first.
///
/// # Errors
/// As [`send`](crate::send).
pub fn send_mapped(
    fd: BorrowedFd<'_>,
    outbox: &mut Outbox<StaticFile>,
    map: &Map,
    budget_bytes: u64,
) -> io::Result<Option<u64>> {
    let Some(Segment::File { file, at, len }) = outbox.segments().next() else { return Ok(None) };
    let len = (*len).min(budget_bytes);
    let Some(place) = map.place(*at, len).and_then(|place| map.at(place)) else { return Ok(None) };
    let len = simulated_disk::before_sendfile(file, *at, len);
    if !fstat(file).is_ok_and(|now| now.len >= at + len) {
        return Ok(None);
    }
    let head = outbox.head();
    let more = head.len() as u64 + len < outbox.len();
    let Ok(body) = usize::try_from(len) else { return Ok(None) };
    let all = hook::shorten(Call::Send, head.len() + body);
    let head_bytes = all.min(head.len());
    let head = libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head_bytes };
    let body = libc::iovec { iov_base: place, iov_len: all - head_bytes };
    let mut slices = [head, body];
    // SAFETY: a message is numbers and pointers, and all may be 0 and null.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (slices.as_mut_ptr(), slices.len());
    // The last bytes wait for the end of the stream. Others do not wait: the disk may be next.
    let last = if outbox.ends() && !more { libc::MSG_MORE } else { 0 };
    let sent = retry_interrupted(Call::Send, || {
        // SAFETY: both slices are memory for the length of the call. The outbox keeps the rest of
        // the head meanwhile, and `place` has found the other part in the mapping. The kernel
        // writes to neither.
        let n =
            unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | last) };
        u64::try_from(n)
            .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    });
    match sent {
        Ok(bytes) => {
            outbox.advance(bytes);
            Ok(Some(bytes))
        }
        // The file has become shorter since the check, by whole pages: the kernel's copy fails,
        // where one by this process would end it.
        Err(Errno::FAULT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Resident, by_mincore, read::tests::with, send};
    use rustix::{
        fs::{Advice, fadvise, fsync, ftruncate},
        process::{Uid, geteuid},
        thread::set_thread_res_uid,
    };
    use std::{fs, io::Read, num::NonZeroU64, os::unix::net::UnixStream, path::PathBuf, thread};

    fn outbox(head: &[u8], file: &StaticFile, at: u64, len: u64) -> Outbox<StaticFile> {
        let mut outbox = Outbox::new(head.to_vec());
        outbox.push(Segment::File { file: file.clone(), at, len });
        outbox
    }

    /// Path of an open file.
    fn path(file: &StaticFile) -> PathBuf {
        let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        fs::read_link(link).unwrap()
    }

    #[test]
    fn a_head_and_a_part_of_a_file_go_out_in_one_call() {
        with("mapped", 20_000, |file| {
            let map = Map::new(file, 4096, 10_000).unwrap();
            assert_eq!(map.bytes(), 12_288);
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut waiting = outbox(b"head", file, 5_000, 9_000);
            let sent = send_mapped(ours.as_fd(), &mut waiting, &map, 6_000).unwrap();
            assert_eq!((sent, waiting.len()), (Some(6_004), 3_000));
            let sent = send_mapped(ours.as_fd(), &mut waiting, &map, 6_000).unwrap();
            assert_eq!((sent, waiting.is_empty()), (Some(3_000), true));
            drop(ours);
            let mut received = Vec::new();
            theirs.read_to_end(&mut received).unwrap();
            assert_eq!(received, [&b"head"[..], &[7; 9_000]].concat());
        });
    }

    #[test]
    fn what_is_not_mapped_is_not_sent() {
        with("unmapped", 20_000, |file| {
            let map = Map::new(file, 4096, 4096).unwrap();
            let (ours, _theirs) = UnixStream::pair().unwrap();
            for (at, len) in [(0, 10), (4095, 10), (8190, 3), (12_000, 1)] {
                let mut waiting = outbox(b"head", file, at, len);
                let sent = send_mapped(ours.as_fd(), &mut waiting, &map, u64::MAX).unwrap();
                assert_eq!((sent, waiting.len()), (None, 4 + len), "{len} at {at}");
                assert_eq!(map.resident(file, at, len), None, "{len} at {at}");
            }
        });
    }

    /// Filled neither by zeros up to the end of a page, nor by a fault.
    #[test]
    fn a_file_that_became_shorter_is_not_filled_up() {
        with("shorter", 20_000, |file| {
            let map = Map::new(file, 0, 20_000).unwrap();
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let short = fs::File::options().write(true).open(path(file)).unwrap();
            ftruncate(&short, 5_000).unwrap();
            for (at, still_there) in [(0, Some(3_000)), (16_384, None)] {
                let mut waiting = outbox(b"", file, at, 3_000);
                let sent = send_mapped(ours.as_fd(), &mut waiting, &map, u64::MAX).unwrap();
                assert_eq!(sent, still_there, "at {at}");
            }
            let mut waiting = outbox(b"", file, 4_000, 4_000);
            assert_eq!(send_mapped(ours.as_fd(), &mut waiting, &map, u64::MAX).unwrap(), None);
            assert_eq!(send(ours.as_fd(), &mut waiting, u64::MAX).unwrap().bytes, 1_000);
            drop(ours);
            let mut received = Vec::new();
            theirs.read_to_end(&mut received).unwrap();
            assert_eq!(received, [7; 4_000]);
        });
    }

    /// The length is checked in one file, and another is mapped, as if it had become shorter
    /// between the check and the call.
    #[test]
    fn a_file_that_becomes_shorter_before_the_call_is_no_signal() {
        with("looked-at", 20_000, |long| {
            with("cut", 20_000, |cut| {
                let map = Map::new(cut, 0, 20_000).unwrap();
                let short = fs::File::options().write(true).open(path(cut)).unwrap();
                ftruncate(&short, 5_000).unwrap();
                let (ours, _theirs) = UnixStream::pair().unwrap();
                let mut waiting = outbox(b"head", long, 8_192, 9_000);
                let sent = send_mapped(ours.as_fd(), &mut waiting, &map, u64::MAX).unwrap();
                assert_eq!((sent, waiting.len()), (None, 9_004));
                let mut waiting = outbox(b"head", long, 0, 20_000);
                let sent = send_mapped(ours.as_fd(), &mut waiting, &map, u64::MAX).unwrap();
                assert!(sent.is_none_or(|bytes| bytes <= 4 + 8_192), "{sent:?}");
                assert_eq!(waiting.len() + sent.unwrap_or(0), 20_004);
            });
        });
    }

    /// Linux answers truthfully only to owners and writers of a file, and says yes to all others.
    /// Their sends then take as long as the disk does, and contain the file.
    #[test]
    fn where_the_system_does_not_tell_all_is_in_memory() {
        let nobody = Uid::from_raw(65_534);
        with("hidden", 100_000, |file| {
            fsync(file).unwrap();
            fadvise(file, 0, None, Advice::DontNeed).unwrap();
            if !geteuid().is_root() || by_mincore(file, 0, 1) != Resident::No {
                return;
            }
            let asked_as_nobody = || {
                // Only this thread changes its user.
                set_thread_res_uid(None, nobody, None).unwrap();
                let map = Map::new(file, 0, 100_000).unwrap();
                let found = map.resident(file, 0, 100_000);
                let (ours, mut theirs) = UnixStream::pair().unwrap();
                let mut waiting = outbox(b"", file, 0, 50_000);
                let sent = send_mapped(ours.as_fd(), &mut waiting, &map, u64::MAX).unwrap();
                drop(ours);
                let mut received = Vec::new();
                theirs.read_to_end(&mut received).unwrap();
                (found, sent, received)
            };
            let found = thread::scope(|scope| scope.spawn(asked_as_nobody).join().unwrap());
            assert_eq!(found, (Some(100_000), Some(50_000), vec![7; 50_000]));
        });
    }

    #[test]
    fn what_is_in_memory_is_counted_up_to_the_first_page_that_is_not() {
        with("prefix", 100_000, |file| {
            let map = Map::new(file, 0, 100_000).unwrap();
            for (at, len) in [(0, 100_000), (5, 10), (4_095, 2), (99_999, 1)] {
                assert_eq!(map.resident(file, at, len), Some(len), "{len} at {at}");
            }
            fsync(file).unwrap();
            // The end of a large folio of what was written at once: parts of one are not dropped.
            let tail = NonZeroU64::new(100_000 - 65_536);
            fadvise(file, 65_536, tail, Advice::DontNeed).unwrap();
            // Only a file system that forgets, and reports that to us, can be tested.
            if by_mincore(file, 65_536, 1) != Resident::No {
                return;
            }
            assert_eq!(map.resident(file, 0, 100_000), Some(65_536));
            assert_eq!(map.resident(file, 60_000, 10_000), Some(5_536));
            assert_eq!(map.resident(file, 65_536, 10_000), Some(0));
        });
    }
}
