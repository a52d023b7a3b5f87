//! What the connections of one worker lend each other: buffers, the formatted date, randomness.
use crate::{validator::mix, work::Work};
use alloc::{boxed::Box, vec::Vec};
use core::cell::{Cell, RefCell};
use core::fmt;
use regatta_http::{
    date::{self, DATE_BYTES},
    h1::Seen,
};

/// The most buffers kept for later.
const BUFFERS_MAX: usize = 256;

/// The largest buffer kept for later, bytes.
const BUFFER_BYTES_MAX: usize = 128 << 10;

/// Buffers and small state shared by the connections of one worker, so that a response on a cache
/// hit allocates nothing. Not for sharing between threads.
pub struct Scratch {
    buffers: RefCell<Vec<Vec<u8>>>,
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    works: RefCell<Vec<Box<Work>>>,
    /// Where paths are decoded, and where names of candidates are put together.
    pub(crate) decoded: RefCell<Vec<u8>>,
    pub(crate) candidate: RefCell<Vec<u8>>,
    /// Field sections of requests that came before.
    pub(crate) seen: RefCell<Seen>,
    second: Cell<u64>,
    date: Cell<[u8; DATE_BYTES]>,
    random: Cell<u64>,
}

impl Scratch {
    /// An empty pool. `seed` starts the boundaries of multipart responses; a server draws it at
    /// random for each worker, after the fork.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            buffers: RefCell::default(),
            works: RefCell::default(),
            decoded: RefCell::default(),
            candidate: RefCell::default(),
            seen: RefCell::default(),
            second: Cell::new(0),
            date: Cell::new(date::format(0)),
            random: Cell::new(seed),
        }
    }

    /// An empty buffer, with whatever room it had before.
    #[inline(always)]
    pub(crate) fn take_buffer(&self) -> Vec<u8> {
        self.buffers.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives a buffer back.
    #[inline]
    pub(crate) fn give_buffer(&self, mut buffer: Vec<u8>) {
        // What was sent whole from the cache had none.
        if buffer.capacity() == 0 {
            return;
        }
        let mut buffers = self.buffers.borrow_mut();
        if buffer.capacity() <= BUFFER_BYTES_MAX && buffers.len() < BUFFERS_MAX {
            buffer.clear();
            buffers.push(buffer);
        }
    }

    pub(crate) fn take_work(&self) -> Box<Work> {
        self.works.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_work(&self, mut work: Box<Work>) {
        let mut works = self.works.borrow_mut();
        if works.len() < BUFFERS_MAX && work.capacity() <= BUFFER_BYTES_MAX {
            work.clear();
            works.push(work);
        }
    }

    /// Writes the date over 29 bytes at `at`.
    #[inline]
    pub(crate) fn patch_date(&self, head: &mut [u8], at: usize, unix: u64) {
        head[at..at + DATE_BYTES].copy_from_slice(&self.date(unix));
    }

    /// The date, formatted once a second.
    #[inline]
    pub(crate) fn date(&self, unix: u64) -> [u8; DATE_BYTES] {
        if self.second.get() != unix {
            self.format_date(unix);
        }
        self.date.get()
    }

    #[cold]
    fn format_date(&self, unix: u64) {
        self.second.set(unix);
        self.date.set(date::format(i64::try_from(unix).unwrap_or(i64::MAX)));
    }

    /// The next number of the seeded sequence (splitmix64).
    pub(crate) fn random(&self) -> u64 {
        let state = self.random.get();
        self.random.set(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        mix(state)
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("buffers", &self.buffers.borrow().len())
            .field("works", &self.works.borrow().len())
            .finish_non_exhaustive()
    }
}
