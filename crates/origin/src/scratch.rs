//! Resources shared by the connections of one worker: buffers, the formatted date, boundaries.
use crate::{
    READ_BYTES_MAX, ReleaseSource, input::Input, location::Room, ongoing::Ongoing,
    releases::Releases,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::cell::{Cell, RefCell};
use core::{fmt, hash::Hasher as _};
use regatta_http::{
    date::{self, DATE_BYTES},
    h1::Seen,
};
use regatta_op::Op;
use siphasher::sip128::{Hasher128, SipHasher24};

/// The most buffers kept for later.
const BUFFERS_MAX: usize = 256;

/// The largest buffer kept for later, bytes.
const BUFFER_BYTES_MAX: usize = 128 << 10;

/// The most buffers for reads kept for later; each has [`crate::READ_BYTES_MAX`] of room at most.
const READ_BUFFERS_MAX: usize = 8;

/// Buffers and small state shared by the connections of one worker, so that a response on a cache
/// hit allocates nothing. Not for sharing between threads.
pub struct Scratch<F> {
    buffers: RefCell<Vec<Vec<u8>>>,
    /// Buffers for reading files.
    read_buffers: RefCell<Vec<Vec<u8>>>,
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    inputs: RefCell<Vec<Box<Input>>>,
    ongoing: RefCell<Vec<Box<Ongoing<F>>>>,
    /// Buffers in which paths are decoded, and names of candidates are put together.
    pub(crate) decoded: RefCell<Vec<u8>>,
    pub(crate) candidate: RefCell<Room>,
    /// Buffer in which names with the prefix of their host are put together.
    pub(crate) key: RefCell<Vec<u8>>,
    /// Field sections of earlier requests.
    pub(crate) seen: RefCell<Seen>,
    second: Cell<u64>,
    date: Cell<[u8; DATE_BYTES]>,
    boundary_key: [u8; 16],
    /// Number of boundaries made so far.
    boundaries: Cell<u64>,
    /// Sites that changed with their roots, if any may.
    pub(crate) releases: Option<Releases>,
}

impl<F> Scratch<F> {
    /// An empty pool. `boundary_key` is [`crate::Site::boundary_key`].
    #[must_use]
    pub fn new(boundary_key: u128) -> Self {
        Self {
            buffers: RefCell::default(),
            read_buffers: RefCell::default(),
            inputs: RefCell::default(),
            ongoing: RefCell::default(),
            decoded: RefCell::default(),
            candidate: RefCell::default(),
            key: RefCell::default(),
            seen: RefCell::default(),
            second: Cell::new(0),
            date: Cell::new(date::format(0)),
            boundary_key: boundary_key.to_le_bytes(),
            boundaries: Cell::new(0),
            releases: None,
        }
    }

    /// Has these buffers follow the sites of a process, which change with their roots.
    #[must_use]
    pub fn following(self, process: Arc<dyn ReleaseSource>) -> Self {
        Self { releases: Some(Releases::new(process)), ..self }
    }

    /// Takes the sites that the process has now. Not during a call to a connection.
    pub fn renew_sites(&self) {
        self.releases.iter().for_each(Releases::renew);
    }

    /// True if files may have been opened below other roots than the unit's sites are of.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.releases.as_ref().is_some_and(Releases::is_behind)
    }

    /// An empty buffer: one that was given back, if there is one.
    #[must_use]
    #[inline(always)]
    pub fn take_buffer(&self) -> Vec<u8> {
        self.buffers.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives a buffer back.
    #[inline]
    pub fn give_buffer(&self, mut buffer: Vec<u8>) {
        // A response in one piece from the cache had none.
        if buffer.capacity() == 0 {
            return;
        }
        let mut buffers = self.buffers.borrow_mut();
        if buffer.capacity() <= BUFFER_BYTES_MAX && buffers.len() < BUFFERS_MAX {
            buffer.clear();
            buffers.push(buffer);
        }
    }

    /// An empty buffer for reads of this many bytes. If there is no memory, the read fails.
    pub(crate) fn take_read_buffer(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.read_buffers.borrow_mut().pop().unwrap_or_default();
        let _ = buffer.try_reserve_exact(bytes);
        buffer
    }

    /// Gives a buffer for reads back.
    pub(crate) fn give_read_buffer(&self, mut buffer: Vec<u8>) {
        let mut buffers = self.read_buffers.borrow_mut();
        let fits = (1..=READ_BYTES_MAX).contains(&buffer.capacity());
        if fits && buffers.len() < READ_BUFFERS_MAX {
            buffer.clear();
            buffers.push(buffer);
        }
    }

    pub(crate) fn take_input(&self) -> Box<Input> {
        self.inputs.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_input(&self, mut input: Box<Input>) {
        let mut inputs = self.inputs.borrow_mut();
        if inputs.len() < BUFFERS_MAX && input.capacity() <= BUFFER_BYTES_MAX {
            input.clear();
            inputs.push(input);
        }
    }

    pub(crate) fn take_ongoing(&self) -> Box<Ongoing<F>> {
        self.ongoing.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_ongoing(&self, mut ongoing: Box<Ongoing<F>>) {
        if let Some(Op::Read(_, req)) = ongoing.op.take() {
            self.give_read_buffer(req.buffer);
        }
        ongoing.exchange.clear();
        let mut kept = self.ongoing.borrow_mut();
        if kept.len() < BUFFERS_MAX && ongoing.exchange.capacity() <= BUFFER_BYTES_MAX {
            kept.push(ongoing);
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

    /// The number of the next boundary. A keyed one-way function makes them, so that peers cannot
    /// compute the key or the next one.
    pub(crate) fn boundary(&self) -> u128 {
        let number = self.boundaries.get();
        self.boundaries.set(number + 1);
        let mut hasher = SipHasher24::new_with_key(&self.boundary_key);
        hasher.write_u64(number);
        hasher.finish128().as_u128()
    }
}

impl<F> fmt::Debug for Scratch<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("buffers", &self.buffers.borrow().len())
            .field("inputs", &self.inputs.borrow().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    /// No boundary comes twice, and those of one worker do not reveal those of another.
    #[test]
    fn boundaries_depend_on_the_whole_key() {
        let keys = [0, 1, 1 << 64, u128::MAX];
        let scratches = keys.map(Scratch::<u64>::new);
        let boundaries: BTreeSet<u128> =
            (0..400).map(|at| scratches[at % scratches.len()].boundary()).collect();
        assert_eq!(boundaries.len(), 400);
        assert_eq!(Scratch::<u64>::new(7).boundary(), Scratch::<u64>::new(7).boundary());
    }
}
