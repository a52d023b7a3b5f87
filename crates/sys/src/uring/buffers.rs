//! Memory that the kernel receives into: a ring of provided buffers. A socket without input owns
//! none of them.
use io_uring::{Submitter, types::BufRingEntry};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::{
    ffi::c_void,
    io, ptr, slice,
    sync::atomic::{AtomicU16, Ordering::Release},
};

/// Group of the buffers: a ring has no other.
pub(super) const GROUP: u16 = 0;
/// Number of no buffer.
pub(super) const NONE: u16 = u16::MAX;
/// Start of the buffers behind the ring of entries is a multiple of this.
const PAGE: usize = 4096;

/// Provided buffers, all of one size.
pub(super) struct Buffers {
    /// A page-aligned mapping: entries, then buffers.
    base: *mut c_void,
    mapped: usize,
    /// Offset of the first buffer.
    start: usize,
    size: usize,
    count: u16,
    tail: u16,
    /// For each buffer that is ours: its bytes, and the next one of the same socket.
    filled: Box<[(u32, u16)]>,
}

impl Buffers {
    /// Registers `count` buffers of `size` bytes each. `count` is rounded up to a power of two, at
    /// most 32768.
    ///
    /// # Errors
    /// No memory, or the kernel is older than 5.19.
    pub(super) fn new(submitter: &Submitter<'_>, count: u16, size: usize) -> io::Result<Self> {
        let count = count.clamp(1, 1 << 15).next_power_of_two();
        let start = (usize::from(count) * size_of::<BufRingEntry>()).next_multiple_of(PAGE);
        let mapped = start + usize::from(count) * size;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing of ours.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let filled = vec![(0, NONE); usize::from(count)].into();
        let mut buffers = Self { base, mapped, start, size, count, tail: 0, filled };
        // SAFETY: the entries are mapped, page-aligned and zero. They stay mapped as long as the
        // kernel may use them: `leak` keeps the mapping where operations are in flight.
        let registered =
            unsafe { submitter.register_buf_ring_with_flags(base as u64, count, GROUP, 0) };
        if let Err(error) = registered {
            // SAFETY: the kernel has refused them, so it uses none.
            unsafe { buffers.unmap() };
            return Err(error);
        }
        (0..count).for_each(|at| buffers.give(at));
        Ok(buffers)
    }

    /// Gives a buffer to the kernel.
    pub(super) fn give(&mut self, at: u16) {
        debug_assert!(at < self.count, "a buffer of this ring");
        let place = usize::from(self.tail & (self.count - 1));
        let entries = self.base.cast::<BufRingEntry>();
        let address = self.base.wrapping_byte_add(self.start + usize::from(at) * self.size);
        let entry = entries.wrapping_add(place);
        // SAFETY: `place` is below the number of entries, which are in the mapping. The kernel does
        // not read an entry before the tail, below, has passed it, and it has done with the entry
        // that was there before: there are no more buffers than entries.
        let entry = unsafe { &mut *entry };
        entry.set_addr(address as u64);
        entry.set_len(u32::try_from(self.size).expect("buffers are small"));
        entry.set_bid(at);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `entries` leads to the first entry, which is mapped.
        let tail = unsafe { BufRingEntry::tail(entries) }.cast_mut();
        // SAFETY: the tail is a part of the first entry that `set_addr` and the others leave alone;
        // it is aligned and mapped. The kernel only reads it.
        unsafe { AtomicU16::from_ptr(tail) }.store(self.tail, Release);
    }

    /// Notes that the kernel has filled a buffer, which is ours from now on.
    pub(super) fn fill(&mut self, at: u16, bytes: u32) {
        self.filled[usize::from(at)] = (bytes, NONE);
    }

    /// Puts one filled buffer behind another of the same socket.
    pub(super) fn link(&mut self, last: u16, next: u16) {
        self.filled[usize::from(last)].1 = next;
    }

    /// The next buffer of the same socket.
    pub(super) fn next(&self, at: u16) -> u16 {
        self.filled[usize::from(at)].1
    }

    /// Bytes in a buffer that is ours.
    pub(super) fn bytes(&self, at: u16) -> &[u8] {
        let (bytes, _) = self.filled[usize::from(at)];
        let bytes = (bytes as usize).min(self.size);
        let offset = self.start + usize::from(at) * self.size;
        // SAFETY: the buffer is in the mapping and initialised: a mapping begins as zeros. The
        // kernel has reported it and writes to it only after `give`, which needs `&mut self`.
        unsafe { slice::from_raw_parts(self.base.wrapping_byte_add(offset).cast(), bytes) }
    }

    /// Size of each buffer.
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    /// Unmaps the buffers.
    ///
    /// # Safety
    /// The kernel no longer uses them: no operation that selects a buffer is in flight.
    pub(super) unsafe fn unmap(&mut self) {
        // SAFETY: the mapping was made by `new` and is undone once, as the caller drops this; by
        // contract nothing else refers into it.
        let unmapped = unsafe { munmap(self.base, self.mapped) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be undone");
    }
}
