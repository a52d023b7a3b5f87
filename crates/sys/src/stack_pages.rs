//! Pages of a stack that are in memory and that nothing uses: those below the frames of the present
//! calls.
use rustix::mm::Advice;
use std::{hint, ops::Range, ptr};

pub(crate) const PAGE: usize = 4096;

/// The size of this kernel's pages, bytes. On some processors they are longer than [`PAGE`], and
/// the kernel extends a range to the end of its last page.
pub(crate) fn page_bytes() -> usize {
    /// The longest pages of any processor.
    const LONGEST: usize = 64 << 10;
    // SAFETY: it reads a number that the C library has.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(LONGEST)
}

/// Bytes below a local variable of [`release_unused`] for its frame and those of its own calls.
const MARGIN: usize = 2 * PAGE;

/// Releases the pages below the frames of the present calls, if they are on this stack: whole pages
/// from the lowest address to the highest. They take memory again when they are touched. Does
/// nothing if another stack is in use.
///
/// # Safety
/// The addresses are those of a stack, mapped while this runs, that grows downward. Nothing but
/// frames is in its pages below the frames that are in use.
#[inline(never)]
pub(crate) unsafe fn release_unused(stack: &Range<usize>) {
    let local = 0_u8;
    let here = ptr::from_ref(hint::black_box(&local)).addr();
    if !stack.contains(&here) {
        return;
    }
    let page = page_bytes();
    let end = here.saturating_sub(MARGIN) / page * page;
    let Some(bytes) = end.checked_sub(stack.start).filter(|bytes| *bytes > 0) else { return };
    let from = ptr::without_provenance_mut(stack.start);
    // SAFETY: `here` is on this stack, so this call runs there. All frames in use are above it,
    // except those of this call, which has the margin: it calls nothing but this. The pages below
    // hold what calls that have returned left there, as the caller promises. New ones read zeros.
    let released = unsafe { rustix::mm::madvise(from, bytes, Advice::LinuxDontNeed) };
    // Locked memory stays: nothing is lost then.
    let _ = released;
}

/// Bytes of these pages that are in memory.
#[cfg(test)]
pub(crate) fn resident_bytes(pages: &Range<usize>) -> usize {
    let mut found = vec![0_u8; pages.len() / PAGE];
    let from = ptr::without_provenance_mut(pages.start);
    // SAFETY: it reads no memory but the page table, and the vector has a byte for each page.
    let asked = unsafe { libc::mincore(from, found.len() * PAGE, found.as_mut_ptr()) };
    assert_eq!(asked, 0, "the pages are mapped");
    found.iter().filter(|page| **page & 1 == 1).count() * PAGE
}
