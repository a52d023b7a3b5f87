//! Resources shared by the connections of one worker: buffers, the formatted date, boundaries.
use crate::{
    BodyFiles, Deriver, Lister, READ_BYTES_MAX, ReleaseSource, input::Input, location::Room,
    ongoing::Ongoing, releases::Releases,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::cell::{Cell, RefCell};
use core::{fmt, hash::Hasher as _, sync::atomic::AtomicU32};
use regatta_http::{
    date::{self, DATE_BYTES},
    h1::Seen,
    h2::BlockScratch,
};
use regatta_op::{Now, Op};
use siphasher::sip128::{Hasher128, SipHasher24};

/// The largest buffer kept for later, bytes; a buffer for reads may have [`READ_BYTES_MAX`].
const BUFFER_BYTES_MAX: usize = 128 << 10;

/// The most bytes that each pool of a unit keeps for later. No pool can starve another.
#[derive(Clone, Copy, Debug)]
struct KeptBytes {
    buffers: usize,
    reads: usize,
    inputs: usize,
    ongoing: usize,
}

impl KeptBytes {
    /// 2 MiB, for a unit of many connections.
    const MANY: Self =
        Self { buffers: 896 << 10, reads: 768 << 10, inputs: 192 << 10, ongoing: 192 << 10 };
    /// 32 KiB, for a unit of one connection at a time. A head and the body behind it have room.
    const ONE: Self = Self { buffers: 24 << 10, reads: 0, inputs: 4 << 10, ongoing: 4 << 10 };

    const fn sum(self) -> usize {
        self.buffers + self.reads + self.inputs + self.ongoing
    }
}

/// Bytes that each pool keeps anyway.
const SHRUNK_BYTES: usize = 32 << 10;

const _: () = assert!(KeptBytes::MANY.sum() == 2 << 20 && KeptBytes::ONE.sum() == 32 << 10);

/// Memory that a pool can keep.
trait Keep {
    /// Bytes of memory, with the place in the pool.
    fn memory(&self) -> usize;
}

impl Keep for Vec<u8> {
    #[inline]
    fn memory(&self) -> usize {
        size_of::<Self>() + self.capacity()
    }
}

impl Keep for Box<Input> {
    fn memory(&self) -> usize {
        size_of::<Self>() + size_of::<Input>() + self.capacity()
    }
}

impl<F> Keep for Box<Ongoing<F>> {
    fn memory(&self) -> usize {
        size_of::<Self>() + size_of::<Ongoing<F>>() + self.exchange.capacity()
    }
}

/// Things kept for later, up to a number of bytes.
struct KeptPool<T> {
    kept: RefCell<Vec<T>>,
    /// Memory of what is kept, and the most.
    bytes: Cell<usize>,
    bytes_max: Cell<usize>,
}

impl<T: Keep + Default> KeptPool<T> {
    fn new(bytes_max: usize) -> Self {
        Self { kept: RefCell::default(), bytes: Cell::new(0), bytes_max: Cell::new(bytes_max) }
    }

    /// A thing from the pool, or a new one.
    #[inline(always)]
    fn take(&self) -> T {
        let Some(thing) = self.kept.borrow_mut().pop() else { return T::default() };
        self.bytes.set(self.bytes.get() - thing.memory());
        thing
    }

    /// Keeps it if there is room, and returns it otherwise. It must be empty: its memory counts as
    /// it is now.
    #[inline(always)]
    fn give(&self, thing: T) -> Option<T> {
        let bytes = self.bytes.get() + thing.memory();
        if bytes > self.bytes_max.get() {
            return Some(thing);
        }
        self.bytes.set(bytes);
        self.kept.borrow_mut().push(thing);
        None
    }

    /// Takes out what has been kept longest, until at most an eighth of the most is left, or
    /// [`SHRUNK_BYTES`].
    fn shrink(&self, mut free: impl FnMut(T)) {
        let most = (self.bytes_max.get() / 8).max(SHRUNK_BYTES);
        let (mut kept, mut bytes) = (self.kept.borrow_mut(), self.bytes.get());
        let mut count = 0;
        while bytes > most {
            bytes -= kept[count].memory();
            count += 1;
        }
        kept.drain(..count).for_each(&mut free);
        let left = kept.len();
        kept.shrink_to(2 * left);
        self.bytes.set(bytes);
    }
}

/// Buffers and small state shared by the connections of one worker, so that a response on a cache
/// hit allocates nothing. Not for sharing between threads.
pub struct Scratch<F> {
    buffers: KeptPool<Vec<u8>>,
    /// Buffers for reading files.
    read_buffers: KeptPool<Vec<u8>>,
    inputs: KeptPool<Box<Input>>,
    ongoing: KeptPool<Box<Ongoing<F>>>,
    /// Frees buffers that are not kept.
    free: Cell<fn(Vec<u8>)>,
    /// Buffers in which paths are decoded, and names of candidates are put together.
    pub(crate) decoded: RefCell<Vec<u8>>,
    pub(crate) candidate: RefCell<Room>,
    /// Buffer in which names with the prefix of their host are put together.
    pub(crate) key: RefCell<Vec<u8>>,
    /// Room for the decoding of field blocks.
    pub(crate) blocks: RefCell<BlockScratch>,
    /// Streams of all connections that began here and wait for the disk. A connection keeps it
    /// when another thread takes it over.
    pub(crate) exchanges: Arc<AtomicU32>,
    /// Open files of streams of the process.
    pub(crate) files: Arc<BodyFiles>,
    /// Source of forms and digests of files, if there is one.
    pub(crate) deriver: Option<Arc<dyn Deriver<F>>>,
    /// Source of listings of folders, if there is one.
    pub(crate) lister: Option<Arc<dyn Lister>>,
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
    /// Empty pools, for a unit of many connections. `boundary_key` is
    /// [`crate::Site::boundary_key`].
    #[must_use]
    pub fn new(boundary_key: u128) -> Self {
        let most = KeptBytes::MANY;
        let free: fn(Vec<u8>) = drop;
        Self {
            buffers: KeptPool::new(most.buffers),
            read_buffers: KeptPool::new(most.reads),
            inputs: KeptPool::new(most.inputs),
            ongoing: KeptPool::new(most.ongoing),
            free: Cell::new(free),
            decoded: RefCell::default(),
            candidate: RefCell::default(),
            key: RefCell::default(),
            blocks: RefCell::default(),
            exchanges: Arc::default(),
            files: Arc::default(),
            deriver: None,
            lister: None,
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

    /// Has open files of streams counted with those of the other units of the process.
    #[must_use]
    pub fn counting(self, files: Arc<BodyFiles>) -> Self {
        Self { files, ..self }
    }

    /// Takes compressed forms and digests of files from this source.
    #[must_use]
    pub fn deriving(self, deriver: Option<Arc<dyn Deriver<F>>>) -> Self {
        Self { deriver, ..self }
    }

    /// Takes listings of folders from this source.
    #[must_use]
    pub fn listing(self, lister: Option<Arc<dyn Lister>>) -> Self {
        Self { lister, ..self }
    }

    /// Has the source of listings drop what no client waits for.
    pub fn settle_listings(&self, now: Now) {
        if let Some(lister) = &self.lister {
            lister.settle(now);
        }
    }

    /// Keeps at most 32 KiB from now on, not 2 MiB: the unit has one connection at a time.
    pub fn serve_one(&self) {
        let most = KeptBytes::ONE;
        self.buffers.bytes_max.set(most.buffers);
        self.read_buffers.bytes_max.set(most.reads);
        self.inputs.bytes_max.set(most.inputs);
        self.ongoing.bytes_max.set(most.ongoing);
    }

    /// Frees most of what is kept: a burst of connections is over. 272 KiB may be left.
    pub fn shrink(&self) {
        self.buffers.shrink(|buffer| self.free(buffer));
        self.read_buffers.shrink(|buffer| self.free(buffer));
        self.inputs.shrink(drop);
        self.ongoing.shrink(drop);
    }

    /// Frees buffers that are not kept by this function from now on.
    pub fn free_by(&self, free: fn(Vec<u8>)) {
        self.free.set(free);
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
        self.buffers.take()
    }

    /// Gives a buffer back.
    #[inline]
    pub fn give_buffer(&self, mut buffer: Vec<u8>) {
        // A response in one piece from the cache had none.
        if buffer.capacity() == 0 {
            return;
        }
        buffer.clear();
        let is_short = buffer.capacity() <= BUFFER_BYTES_MAX;
        let excess = if is_short { self.buffers.give(buffer) } else { Some(buffer) };
        if let Some(buffer) = excess {
            self.free(buffer);
        }
    }

    #[cold]
    fn free(&self, buffer: Vec<u8>) {
        (self.free.get())(buffer);
    }

    /// An empty buffer for reads of this many bytes. If there is no memory, the read fails.
    pub(crate) fn take_read_buffer(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.read_buffers.take();
        let _ = buffer.try_reserve_exact(bytes);
        buffer
    }

    /// Gives a buffer for reads back.
    pub(crate) fn give_read_buffer(&self, mut buffer: Vec<u8>) {
        if (1..=READ_BYTES_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            if let Some(buffer) = self.read_buffers.give(buffer) {
                self.free(buffer);
            }
        }
    }

    pub(crate) fn take_input(&self) -> Box<Input> {
        self.inputs.take()
    }

    pub(crate) fn give_input(&self, mut input: Box<Input>) {
        if input.capacity() <= BUFFER_BYTES_MAX {
            input.clear();
            drop(self.inputs.give(input));
        }
    }

    pub(crate) fn take_ongoing(&self) -> Box<Ongoing<F>> {
        self.ongoing.take()
    }

    pub(crate) fn give_ongoing(&self, mut ongoing: Box<Ongoing<F>>) {
        if let Some(Op::Read(_, req)) = ongoing.op.take() {
            self.give_read_buffer(req.buffer);
        }
        ongoing.exchange.clear();
        if ongoing.exchange.capacity() <= BUFFER_BYTES_MAX {
            drop(self.ongoing.give(ongoing));
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
            .field("buffers", &self.buffers.kept.borrow().len())
            .field("inputs", &self.inputs.kept.borrow().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
impl<F> Scratch<F> {
    /// The number of buffers that are kept.
    pub(crate) fn kept_buffers(&self) -> usize {
        self.buffers.kept.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Bytes of memory of all things of a pool.
    fn memory<T: Keep>(pool: &KeptPool<T>) -> usize {
        pool.kept.borrow().iter().map(Keep::memory).sum()
    }

    #[test]
    fn bytes_that_are_kept_are_bounded() {
        for (one, most) in [(false, 2 << 20), (true, 32 << 10)] {
            let scratch = Scratch::<u64>::new(7);
            if one {
                scratch.serve_one();
            }
            for bytes in [100, 4 << 10, 100 << 10] {
                for _ in 0..300 {
                    scratch.give_buffer(Vec::with_capacity(bytes));
                    scratch.give_read_buffer(Vec::with_capacity(bytes));
                    let stash = Vec::with_capacity(bytes);
                    scratch.give_input(Box::new(Input { stash, ..Input::default() }));
                    scratch.give_ongoing(Box::default());
                }
            }
            let bytes = [
                memory(&scratch.buffers),
                memory(&scratch.read_buffers),
                memory(&scratch.inputs),
                memory(&scratch.ongoing),
            ];
            assert!(bytes.iter().sum::<usize>() <= most, "{bytes:?}");
            assert!(bytes[0] >= most / 4, "{bytes:?}");
        }
    }

    #[test]
    fn little_is_kept_when_a_burst_is_over() {
        for (one, most) in [(false, 272 << 10), (true, 32 << 10)] {
            let scratch = Scratch::<u64>::new(7);
            if one {
                scratch.serve_one();
            }
            for _ in 0..2_000 {
                scratch.give_buffer(Vec::with_capacity(4 << 10));
                scratch.give_read_buffer(Vec::with_capacity(96 << 10));
                let stash = Vec::with_capacity(1 << 10);
                scratch.give_input(Box::new(Input { stash, ..Input::default() }));
                scratch.give_ongoing(Box::default());
            }
            let kept = |scratch: &Scratch<u64>| {
                let buffers = memory(&scratch.buffers) + memory(&scratch.read_buffers);
                buffers + memory(&scratch.inputs) + memory(&scratch.ongoing)
            };
            let before = kept(&scratch);
            scratch.shrink();
            assert!(kept(&scratch) <= most, "{} of {before} bytes", kept(&scratch));
            assert!(if one { kept(&scratch) == before } else { before > 4 * most });
            // What is left is used again, and counted.
            let (buffers, bytes) = (scratch.kept_buffers(), scratch.buffers.bytes.get());
            assert!(buffers > 4 && bytes == memory(&scratch.buffers));
            drop(scratch.take_buffer());
            assert_eq!(scratch.kept_buffers(), buffers - 1);
        }
    }

    /// Bytes of buffers that were freed.
    static FREED: AtomicUsize = AtomicUsize::new(0);

    fn free(buffer: Vec<u8>) {
        FREED.fetch_add(buffer.capacity(), Relaxed);
    }

    #[test]
    fn buffers_that_are_not_kept_are_freed_as_the_driver_wants() {
        let scratch = Scratch::<u64>::new(7);
        scratch.free_by(free);
        for _ in 0..100 {
            scratch.give_buffer(Vec::with_capacity(100 << 10));
            scratch.give_read_buffer(Vec::with_capacity(100 << 10));
        }
        scratch.give_buffer(Vec::with_capacity(BUFFER_BYTES_MAX + 1));
        let pools = [&scratch.buffers, &scratch.read_buffers];
        let kept = pools.map(|pool| pool.kept.borrow().iter().map(Vec::capacity).sum::<usize>());
        assert!(kept.iter().all(|bytes| *bytes >= 100 << 10), "{kept:?}");
        let all = 200 * (100 << 10) + BUFFER_BYTES_MAX + 1;
        assert_eq!(FREED.load(Relaxed) + kept[0] + kept[1], all);
    }

    #[test]
    fn a_unit_of_one_connection_keeps_its_buffer() {
        let scratch = Scratch::<u64>::new(7);
        scratch.serve_one();
        let buffer: Vec<u8> = Vec::with_capacity(17 << 10);
        let at = buffer.as_ptr();
        scratch.give_buffer(buffer);
        for _ in 0..100 {
            let buffer = scratch.take_buffer();
            assert_eq!(buffer.as_ptr(), at);
            scratch.give_buffer(buffer);
        }
    }

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
