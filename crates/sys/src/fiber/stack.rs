//! Memory for the stacks of user threads: one mapping, in which a guard lies below each stack.
//!
//! A scheduler of knot makes [`Stacks`] and passes them to [`fiber::scope`](super::scope), which
//! takes one for each user thread.
use crate::stack_pages::PAGE;
use corosensei::stack::{STACK_ALIGNMENT, StackPointer};
use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, MprotectFlags, ProtFlags},
};
use std::{ffi::c_void, io, ops::Range, ptr, rc::Rc};

/// Least size of a stack, bytes.
pub const STACK_BYTES_MIN: usize = 16 << 10;
const _: () = assert!(PAGE.is_multiple_of(STACK_ALIGNMENT));
const _: () = assert!(STACK_BYTES_MIN >= corosensei::stack::MIN_STACK_SIZE);

/// Pages that one mincore(2) call reports on.
const PAGES_LOOKED_AT: usize = 64;

/// `MADV_GUARD_INSTALL` (madvise(2), Linux 6.13).
const GUARD_INSTALL: libc::c_int = 102;

/// Kind of guard page below a stack. An overflow touches it, and the process ends by `SIGSEGV`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A mark in the page table, if [`has_light_guards`]: all stacks are one mapping.
    Light,
    /// A page without access: two mappings per stack.
    Mapping,
}

/// True if the kernel has guards that need no mapping.
#[must_use]
pub fn has_light_guards() -> bool {
    Stacks::new(1, STACK_BYTES_MIN, Guard::Light).is_ok()
}

/// Memory of our own, which lasts as long as a stack in it.
#[derive(Debug)]
struct Mapping {
    at: *mut c_void,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Self> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let flags = flags | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing of ours.
        let at = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, prot, flags) }?;
        Ok(Self { at, bytes })
    }

    /// Takes a page away: touching it ends the process by `SIGSEGV`.
    fn guard(&self, from: usize, guard: Guard) -> io::Result<()> {
        assert!(from + PAGE <= self.bytes && from.is_multiple_of(PAGE));
        let page = self.at.wrapping_byte_add(from);
        let done = match guard {
            // SAFETY: the page is in the mapping, as is asserted above, and nothing uses it yet.
            Guard::Light => unsafe { libc::madvise(page, PAGE, GUARD_INSTALL) },
            Guard::Mapping => {
                // SAFETY: the page is in the mapping, as before, and nothing uses it yet.
                unsafe { rustix::mm::mprotect(page, PAGE, MprotectFlags::empty()) }?;
                0
            }
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: each stack in the mapping holds this value: they are gone, and nothing refers
        // into it.
        let unmapped = unsafe { rustix::mm::munmap(self.at, self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be undone");
    }
}

/// Memory for a number of stacks, each used once. A page takes memory when it is touched.
#[derive(Debug)]
pub struct Stacks {
    mapping: Rc<Mapping>,
    /// Bytes of one stack, without its guard.
    bytes: usize,
    taken: usize,
    count: usize,
}

impl Stacks {
    /// Reserves memory for `count` stacks of `bytes` bytes, in whole pages.
    ///
    /// # Errors
    /// A stack would be shorter than [`STACK_BYTES_MIN`] or not in whole pages, there is no room
    /// for them, or the kernel has no such guards.
    pub fn new(count: usize, bytes: usize, guard: Guard) -> io::Result<Self> {
        if bytes < STACK_BYTES_MIN || !bytes.is_multiple_of(PAGE) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let all = bytes.checked_add(PAGE).and_then(|place| place.checked_mul(count));
        let mapping = Mapping::new(all.ok_or(io::ErrorKind::OutOfMemory)?)?;
        // SAFETY: this changes how the kernel backs the mapping, and nothing that is in it.
        let advised =
            unsafe { rustix::mm::madvise(mapping.at, mapping.bytes, Advice::LinuxNoHugepage) };
        // A kernel without huge pages rejects the advice.
        advised.or_else(|errno| if errno == Errno::INVAL { Ok(()) } else { Err(errno) })?;
        for at in 0..count {
            mapping.guard(at * (bytes + PAGE), guard)?;
        }
        Ok(Self { mapping: Rc::new(mapping), bytes, taken: 0, count })
    }

    /// Number of stacks not taken yet.
    pub(super) const fn left(&self) -> usize {
        self.count - self.taken
    }

    /// Takes the next stack.
    pub(super) fn take(&mut self) -> Option<Stack> {
        if self.left() == 0 {
            return None;
        }
        self.taken += 1;
        let limit = self.mapping.at.addr() + (self.taken - 1) * (self.bytes + PAGE);
        let [limit, base] = [limit, limit + PAGE + self.bytes].map(StackPointer::new);
        Some(Stack { limit: limit?, base: base?, _mapping: Rc::clone(&self.mapping) })
    }

    /// Bytes from the lowest page of a stack that is in memory to its base.
    pub(super) fn bytes_touched(&self, at: usize) -> usize {
        assert!(at < self.count);
        let lowest = self.mapping.at.wrapping_byte_add(at * (self.bytes + PAGE) + PAGE);
        let (mut found, mut untouched) = ([0_u8; PAGES_LOOKED_AT], 0);
        while untouched * PAGE < self.bytes {
            let pages = (self.bytes / PAGE - untouched).min(PAGES_LOOKED_AT);
            let from = lowest.wrapping_byte_add(untouched * PAGE);
            // SAFETY: the pages are in the stack, and that is in the mapping, as is asserted above;
            // the array has a byte for each of them.
            let asked = unsafe { libc::mincore(from, pages * PAGE, found.as_mut_ptr()) };
            debug_assert_eq!(asked, 0, "the mapping is ours");
            let more = found[..pages].iter().take_while(|page| **page & 1 == 0).count();
            untouched += more;
            if more < pages {
                break;
            }
        }
        self.bytes - untouched * PAGE
    }
}

/// A stack, with the guard below it.
#[derive(Debug)]
pub(super) struct Stack {
    limit: StackPointer,
    base: StackPointer,
    _mapping: Rc<Mapping>,
}

impl Stack {
    /// Addresses of its pages, without the guard.
    pub(super) fn pages(&self) -> Range<usize> {
        self.limit.get() + PAGE..self.base.get()
    }
}

// SAFETY: from the page above `limit`, which is a guard, up to `base` there are `STACK_BYTES_MIN`
// or more bytes of memory. Nothing else uses them: `Stacks::take` gives each place away once. They
// stay mapped as long as this value holds the mapping. Both ends are at pages.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Counts the mappings of the process between the ends of this one.
    fn mappings(mapping: &Mapping) -> usize {
        let (from, to) = (mapping.at.addr(), mapping.at.addr() + mapping.bytes);
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let ends = maps.lines().filter_map(|line| line.split(' ').next()?.split_once('-'));
        ends.filter(|ends| {
            let [low, high] = [ends.0, ends.1].map(|end| usize::from_str_radix(end, 16).unwrap());
            low < to && high > from
        })
        .count()
    }

    #[test]
    fn light_guards_need_no_mappings() {
        const COUNT: usize = 2000;
        if has_light_guards() {
            let light = Stacks::new(COUNT, STACK_BYTES_MIN, Guard::Light).unwrap();
            assert_eq!(mappings(&light.mapping), 1);
        }
        let stacks = Stacks::new(COUNT, STACK_BYTES_MIN, Guard::Mapping).unwrap();
        assert_eq!(mappings(&stacks.mapping), 2 * COUNT);
        assert_eq!(stacks.bytes_touched(COUNT - 1), 0, "memory is taken when it is touched");
    }

    #[test]
    fn stacks_have_a_least_size_and_whole_pages() {
        for (count, bytes, kind) in [
            (1, STACK_BYTES_MIN - PAGE, io::ErrorKind::InvalidInput),
            (1, STACK_BYTES_MIN + 1, io::ErrorKind::InvalidInput),
            (1, 0, io::ErrorKind::InvalidInput),
            (usize::MAX / STACK_BYTES_MIN, STACK_BYTES_MIN, io::ErrorKind::OutOfMemory),
        ] {
            let refused = Stacks::new(count, bytes, Guard::Mapping).unwrap_err();
            assert_eq!(refused.kind(), kind, "{count} of {bytes}");
        }
    }

    #[test]
    fn stacks_do_not_overlap() {
        let mut stacks = Stacks::new(3, STACK_BYTES_MIN, Guard::Mapping).unwrap();
        let taken: Vec<Stack> = std::iter::from_fn(|| stacks.take()).collect();
        assert_eq!(taken.len(), 3);
        for stack in &taken {
            assert_eq!(stack.base.get() - stack.limit.get(), STACK_BYTES_MIN + PAGE);
        }
        assert!(taken.windows(2).all(|two| two[0].base == two[1].limit));
    }
}
