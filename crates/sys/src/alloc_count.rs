//! A counting global allocator, for tests that say "allocates nothing".
use crate::crew::is_locked;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static UNDER_LOCKS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting. A test installs it with `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

/// Allocations and reallocations of this thread since it started; 0 unless [`Counting`] is
/// installed.
#[must_use]
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Bytes that this thread has allocated less those that it has freed. Wraps.
#[must_use]
pub fn bytes() -> u64 {
    BYTES.get()
}

/// Allocations of this thread while it held a lock of a [`crate::crew`], for which others wait.
/// Always 0 without debug assertions.
#[must_use]
pub fn allocations_under_locks() -> u64 {
    UNDER_LOCKS.get()
}

/// Counting cannot allocate: the cells need neither initialisation nor destruction.
fn count(freed: usize, bytes: usize) {
    BYTES.set(BYTES.get().wrapping_add(bytes as u64).wrapping_sub(freed as u64));
    if bytes == 0 {
        return;
    }
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    UNDER_LOCKS.set(UNDER_LOCKS.get() + u64::from(is_locked()));
}

// SAFETY: every method hands its arguments to `System`, which is a correct allocator, and returns
// what that returned.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: the caller's promise: the layout has a size above 0.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: the caller's promise: the layout has a size above 0.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), size);
        // SAFETY: the caller's promise: `at` came from here, hence from `System`, with `layout`.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        // SAFETY: the caller's promise: `at` came from here, hence from `System`, with `layout`.
        unsafe { System.dealloc(at, layout) }
    }
}
