//! What the connections of one worker lend each other: buffers, the formatted date, randomness.
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;

/// Buffers and small state shared by the connections of one worker, so that a response on a cache
/// hit allocates nothing. Not for sharing between threads.
pub struct Scratch {
    buffers: RefCell<Vec<Vec<u8>>>,
    random: Cell<u64>,
}

impl Scratch {
    /// An empty pool. `seed` starts the boundaries of multipart responses; a server draws it at
    /// random for each worker, after the fork.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { buffers: RefCell::default(), random: Cell::new(seed) }
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("buffers", &self.buffers.borrow().len())
            .field("random", &self.random.get())
            .finish()
    }
}
