//! Layout of the shared words: an identifying header, control words, and a slot for each worker.
//! Then come two slots for workers of other arenas, and a directory for other builds.
use crate::{
    BUCKETS, Counter, Histogram, SLOT_WORDS, Slot, SlotView, counter::COUNTERS,
    histogram::HISTOGRAMS,
};
use alloc::string::String;
use core::{
    fmt,
    ops::Deref,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
};

/// The version of the layout. Raise it when the meaning of a word changes in another way than by
/// the tables: the header has a hash of those.
pub const VERSION: u64 = 7;

/// `regatta` and a line feed, in the order of bytes in memory.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"regatta\n");

pub(crate) const MAGIC_AT: usize = 0;
const SERVER_PID: usize = 8;
const STARTED_UNIX_MS: usize = 9;
/// A name up to the control words, in the order of bytes in memory, filled up with zeros.
const ARCHITECTURE: usize = 10;
const CONTROL_AT: usize = 16;
pub(crate) const SLOTS_AT: usize = 32;

const PHASE: usize = CONTROL_AT;
const DRAIN_DEADLINE_MS: usize = CONTROL_AT + 1;
const LOG_GENERATION: usize = CONTROL_AT + 2;
const ROOT_GENERATION: usize = CONTROL_AT + 3;
const LISTENERS_STAY: usize = CONTROL_AT + 4;
const GENERATION: usize = CONTROL_AT + 5;
const RELOADS: usize = CONTROL_AT + 6;
const RELOADS_REFUSED: usize = CONTROL_AT + 7;
const RELOADS_PENDING: usize = CONTROL_AT + 8;
/// Heartbeats of processes that are no workers: those of the keeper and of the admin process.
const BEATS_AT: usize = CONTROL_AT + 9;
const _: () = assert!(BEATS_AT + Attendant::ALL.len() <= SLOTS_AT);

/// Bits of [`LISTENERS_STAY`]: the first for workers that serve in place of these, the second for
/// the owner of the listeners.
const FOR_OTHERS: u64 = 1;
const FOR_OWNER: u64 = 2;

/// Slots behind those of the workers: see [`ArenaView::departed`] and [`Arena::ended`].
pub(crate) const GONE_SLOTS: usize = 2;
const DEPARTED: usize = 0;
const ENDED: usize = 1;

/// A hash for each counter and each histogram, behind the slots.
const DIRECTORY_WORDS: usize = (COUNTERS + HISTOGRAMS).next_multiple_of(16);

/// Header words from word 1 on, behind the magic number: names, and values of this program.
pub(crate) const GEOMETRY: [(&str, u64); 6] = [
    ("layout version", VERSION),
    ("words in a slot", SLOT_WORDS as u64),
    ("number of counters", COUNTERS as u64),
    ("number of histograms", HISTOGRAMS as u64),
    ("buckets in a histogram", BUCKETS as u64),
    ("hash of the tables", table_hash()),
];
pub(crate) const SLOT_COUNT: usize = 1 + GEOMETRY.len();
const _: () = assert!(SLOT_COUNT < SERVER_PID && ARCHITECTURE < CONTROL_AT);

/// Reason why words are not an arena that this program can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArenaError {
    /// The words do not start with the magic number.
    Magic,
    /// The header differs from what this program expects: another build wrote it.
    Differs {
        /// Name of the value that differs.
        what: &'static str,
        /// Value in the header.
        found: u64,
        /// Value that this program expects.
        expected: u64,
    },
    /// Fewer words than the header announces.
    Short {
        /// Number of words found.
        found: usize,
        /// Number of words expected.
        expected: u64,
    },
}

impl fmt::Display for ArenaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => write!(f, "not an arena of regatta: it does not start like one"),
            Self::Differs { what, found, expected } => write!(
                f,
                "the arena was made by another build of regatta: {what} is {found:#x} there and \
                 {expected:#x} here"
            ),
            Self::Short { found, expected } => {
                write!(f, "the arena has {found} words where its header says {expected}")
            }
        }
    }
}

impl core::error::Error for ArenaError {}

/// An arena, to be read: nothing here stores.
#[derive(Clone, Copy, Debug)]
pub struct ArenaView<'a> {
    words: &'a [AtomicU64],
    slots: &'a [[AtomicU64; SLOT_WORDS]],
    gone: &'a [[AtomicU64; SLOT_WORDS]],
}

impl<'a> ArenaView<'a> {
    /// Views exactly the words that an arena with this many slots takes.
    fn new(words: &'a [AtomicU64], slots: usize) -> Self {
        let (chunks, _directory) = words[SLOTS_AT..].as_chunks::<SLOT_WORDS>();
        let (slots, gone) = chunks.split_at(slots);
        Self { words, slots, gone }
    }

    /// Totals of workers of other arenas in the same server: the generations before this one. The
    /// master adds them up once a second.
    #[must_use]
    pub const fn departed(&self) -> SlotView<'a> {
        SlotView::new(&self.gone[DEPARTED])
    }

    /// Number of this generation of the server's workers: 1 is the first, 0 is none yet.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.control().generation()
    }

    /// The process identifier of the server's master; 0 if it is not set.
    #[must_use]
    pub fn server_pid(&self) -> u32 {
        self.control().server_pid()
    }

    /// Start of the server, in milliseconds since 1970-01-01T00:00:00Z; 0 if it is not set.
    #[must_use]
    pub fn started_unix_ms(&self) -> u64 {
        self.words[STARTED_UNIX_MS].load(Relaxed)
    }

    /// The name of the server's architecture, as far as the header has room for it and it can be
    /// printed; empty if it is not set.
    #[must_use]
    pub fn architecture(&self) -> String {
        let words = self.words[ARCHITECTURE..CONTROL_AT].iter();
        let bytes = words.flat_map(|word| word.load(Relaxed).to_le_bytes());
        bytes.take_while(u8::is_ascii_graphic).map(char::from).collect()
    }

    /// The slots, one for each worker, used or not.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = SlotView<'a>> + use<'a> {
        self.slots.iter().map(SlotView::new)
    }

    /// Control words, by which the master directs its workers.
    #[must_use]
    pub const fn control(&self) -> ControlView<'a> {
        ControlView(self.words)
    }
}

/// An arena, to be written by the master that made it and the workers that inherit it.
#[derive(Clone, Copy, Debug)]
pub struct Arena<'a>(ArenaView<'a>);

impl<'a> Arena<'a> {
    /// Words, 8 bytes each, that an arena with this many slots takes.
    #[must_use]
    pub const fn count_words(slots: usize) -> usize {
        SLOTS_AT + (slots + GONE_SLOTS) * SLOT_WORDS + DIRECTORY_WORDS
    }

    /// Makes an arena of words that are all zero, as fresh memory is.
    ///
    /// # Panics
    /// If there are fewer words than [`Arena::count_words`] of `slots`.
    #[must_use]
    pub fn create(words: &'a [AtomicU64], slots: usize) -> Self {
        let words = &words[..Self::count_words(slots)];
        for (word, (_, value)) in words[1..].iter().zip(GEOMETRY) {
            word.store(value, Relaxed);
        }
        words[SLOT_COUNT].store(slots as u64, Relaxed);
        // Readers of several arenas prefer any other until the generation is set.
        words[GENERATION].store(0, Release);
        let directory_at = words.len() - DIRECTORY_WORDS;
        for (word, hash) in words[directory_at..].iter().zip(directory()) {
            word.store(hash, Relaxed);
        }
        // Last: a reader that sees the magic number sees the rest.
        words[MAGIC_AT].store(MAGIC, Release);
        Self(ArenaView::new(words, slots))
    }

    /// Reads an arena that another process made. Stores nothing, so the words may be read-only.
    ///
    /// # Errors
    /// If the words are no arena, or one of another build; the first difference is named.
    pub fn attach(words: &'a [AtomicU64]) -> Result<ArenaView<'a>, ArenaError> {
        let header = ControlView::expecting(words, &GEOMETRY)?.0;
        let count = header[SLOT_COUNT].load(Relaxed);
        let rest = Self::count_words(0) as u64;
        let expected = count.saturating_mul(SLOT_WORDS as u64).saturating_add(rest);
        let end = usize::try_from(expected).ok().filter(|end| *end <= words.len());
        let end = end.ok_or(ArenaError::Short { found: words.len(), expected })?;
        let slots = (end - Self::count_words(0)) / SLOT_WORDS;
        Ok(ArenaView::new(&words[..end], slots))
    }

    /// Finds an arena that another process made, to mark its slots
    /// ([`Slot::set_filmed`](crate::Slot::set_filmed)).
    ///
    /// # Errors
    /// As [`Arena::attach`].
    pub fn attach_to_film(words: &'a [AtomicU64]) -> Result<Self, ArenaError> {
        Self::attach(words).map(Self)
    }

    /// Stores the number of this generation of workers. A reader of it sees what was stored before.
    pub fn set_generation(&self, generation: u64) {
        self.0.words[GENERATION].store(generation, Release);
    }

    /// [`ArenaView::departed`], to be written by the master.
    #[must_use]
    pub const fn departed(&self) -> Slot<'a> {
        Slot::new(&self.0.gone[DEPARTED])
    }

    /// The final part of [`ArenaView::departed`]: generations without a worker left. The next image
    /// of the master begins with it. For the master alone.
    #[must_use]
    pub const fn ended(&self) -> Slot<'a> {
        Slot::new(&self.0.gone[ENDED])
    }

    /// Stores the identity of the server: its master's process identifier, its start in
    /// milliseconds since 1970-01-01T00:00:00Z, and the first 48 bytes of its architecture's name.
    pub fn set_server(&self, pid: u32, started_unix_ms: u64, architecture: &str) {
        let mut bytes = architecture.bytes();
        for word in &self.0.words[ARCHITECTURE..CONTROL_AT] {
            let eight = core::array::from_fn(|_| bytes.next().unwrap_or(0));
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
        self.0.words[STARTED_UNIX_MS].store(started_unix_ms, Relaxed);
        self.0.words[SERVER_PID].store(u64::from(pid), Relaxed);
    }

    /// The slot of the worker with this index.
    ///
    /// # Panics
    /// If there are fewer slots.
    #[must_use]
    pub const fn slot(&self, index: usize) -> Slot<'a> {
        Slot::new(&self.0.slots[index])
    }

    /// The slots, one for each worker, used or not.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = Slot<'a>> + use<'a> {
        self.0.slots.iter().map(Slot::new)
    }

    /// Control words, by which the master directs its workers.
    #[must_use]
    pub const fn control(&self) -> Control<'a> {
        Control(self.0.control())
    }

    /// The same arena, to be read.
    #[must_use]
    pub const fn view(&self) -> ArenaView<'a> {
        self.0
    }
}

impl<'a> Deref for Arena<'a> {
    type Target = ArenaView<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A process that serves no connections, and has a heartbeat as workers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Attendant {
    /// The process between the master and workers that share one table of descriptors.
    Keeper,
    /// The process that answers monitors.
    Admin,
}

impl Attendant {
    /// Every attendant, in the order of their words.
    pub const ALL: [Self; 2] = [Self::Keeper, Self::Admin];
}

/// Phase that the master asks its workers to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Phase {
    /// Serve.
    Run = 0,
    /// Accept no more, finish what is in progress, and exit at the deadline at the latest.
    Drain = 1,
    /// Exit at once.
    Stop = 2,
}

/// The control words, to be read.
#[derive(Clone, Copy, Debug)]
pub struct ControlView<'a>(&'a [AtomicU64]);

impl<'a> ControlView<'a> {
    /// Reads the control words of an arena that another build may have made, with other counters.
    ///
    /// # Errors
    /// If the words are no arena, or of another version.
    pub fn attach(words: &'a [AtomicU64]) -> Result<Self, ArenaError> {
        Self::expecting(words, &GEOMETRY[..1])
    }

    /// Checks that the header starts with these values.
    fn expecting(
        words: &'a [AtomicU64],
        geometry: &[(&'static str, u64)],
    ) -> Result<Self, ArenaError> {
        let Some(header) = words.get(..SLOTS_AT) else {
            return Err(ArenaError::Short { found: words.len(), expected: SLOTS_AT as u64 });
        };
        if acquire(&header[MAGIC_AT]) != MAGIC {
            return Err(ArenaError::Magic);
        }
        for (word, &(what, expected)) in header[1..].iter().zip(geometry) {
            let found = word.load(Relaxed);
            if found != expected {
                return Err(ArenaError::Differs { what, found, expected });
            }
        }
        Ok(Self(header))
    }

    /// [`ArenaView::generation`].
    #[must_use]
    pub fn generation(&self) -> u64 {
        acquire(&self.0[GENERATION])
    }

    /// [`ArenaView::server_pid`].
    #[must_use]
    pub fn server_pid(&self) -> u32 {
        u32::try_from(self.0[SERVER_PID].load(Relaxed)).unwrap_or(0)
    }

    /// Phase that the workers are to be in.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match acquire(&self.0[PHASE]) {
            0 => Phase::Run,
            1 => Phase::Drain,
            _ => Phase::Stop,
        }
    }

    /// Deadline of draining, milliseconds of the monotonic clock. Meaningful from [`Phase::Drain`]
    /// on.
    #[must_use]
    pub fn drain_deadline_ms(&self) -> u64 {
        acquire(&self.0[DRAIN_DEADLINE_MS])
    }

    /// True if the listeners are not these workers' alone: they end accepting and must not end
    /// listening. Meaningful from [`Phase::Drain`] on.
    #[must_use]
    pub fn listeners_stay(&self) -> bool {
        acquire(&self.0[LISTENERS_STAY]) != 0
    }

    /// True if others have taken the place of these workers. Meaningful from [`Phase::Drain`] on.
    #[must_use]
    pub fn others_serve(&self) -> bool {
        acquire(&self.0[LISTENERS_STAY]) & FOR_OTHERS != 0
    }

    /// Number of requests for another generation carried out since the server started.
    #[must_use]
    pub fn reloads(&self) -> u64 {
        acquire(&self.0[RELOADS])
    }

    /// Number of requests for another generation that were refused or failed.
    #[must_use]
    pub fn reloads_refused(&self) -> u64 {
        acquire(&self.0[RELOADS_REFUSED])
    }

    /// Number of requests for another generation under way. A reader that loads this number first
    /// finds all that have ended in those above.
    #[must_use]
    pub fn reloads_pending(&self) -> u64 {
        acquire(&self.0[RELOADS_PENDING])
    }

    /// The last heartbeat of an attendant, milliseconds of the monotonic clock; 0: there was none.
    #[must_use]
    pub fn heartbeat_ms(&self, of: Attendant) -> u64 {
        acquire(&self.0[BEATS_AT + of as usize])
    }

    /// Number of requests to reopen the logs: a worker that sees another number than last time
    /// reopens them.
    #[must_use]
    pub fn log_generation(&self) -> u64 {
        acquire(&self.0[LOG_GENERATION])
    }

    /// Number of times that the root has been replaced: a worker that sees another number than its
    /// own takes the new root from the master.
    #[must_use]
    pub fn root_generation(&self) -> u64 {
        acquire(&self.0[ROOT_GENERATION])
    }
}

/// The control words, to be written by the master.
#[derive(Clone, Copy, Debug)]
pub struct Control<'a>(ControlView<'a>);

impl<'a> Deref for Control<'a> {
    type Target = ControlView<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a> Control<'a> {
    /// Control words of an arena with this layout, of any build.
    pub(crate) const fn new(words: &'a [AtomicU64]) -> Self {
        Self(ControlView(words))
    }

    /// Asks the workers to drain until the deadline, in milliseconds of the monotonic clock.
    pub fn drain(&self, deadline_ms: u64) {
        self.0.0[DRAIN_DEADLINE_MS].store(deadline_ms, Release);
        self.0.0[PHASE].store(Phase::Drain as u64, Release);
    }

    /// Asks the workers to drain as [`Control::drain`] does, and leaves the listeners to those that
    /// the master has started in their place.
    pub fn leave(&self, deadline_ms: u64) {
        self.0.0[LISTENERS_STAY].fetch_or(FOR_OTHERS, Release);
        self.drain(deadline_ms);
    }

    /// Keeps the listeners listening when the workers end: another process owns the sockets.
    pub fn keep_listeners(&self) {
        self.0.0[LISTENERS_STAY].fetch_or(FOR_OWNER, Release);
    }

    /// Asks the workers to exit at once.
    pub fn stop(&self) {
        self.0.0[PHASE].store(Phase::Stop as u64, Release);
    }

    /// Stores the heartbeat of an attendant, which stores it itself.
    pub fn set_heartbeat_ms(&self, of: Attendant, tick_ms: u64) {
        self.0.0[BEATS_AT + of as usize].store(tick_ms, Release);
    }

    /// Asks the workers to reopen their logs.
    pub fn reopen_logs(&self) {
        self.0.0[LOG_GENERATION].fetch_add(1, Release);
    }

    /// Stores the numbers of requests for another generation that succeeded, and that did not.
    pub fn set_reloads(&self, done: u64, refused: u64) {
        self.0.0[RELOADS].store(done, Release);
        self.0.0[RELOADS_REFUSED].store(refused, Release);
    }

    /// Stores the number of requests for another generation under way, after the outcome of others.
    pub fn set_reloads_pending(&self, pending: u64) {
        self.0.0[RELOADS_PENDING].store(pending, Release);
    }

    /// Reports that the master has sent another root.
    pub fn replace_root(&self) {
        self.0.0[ROOT_GENERATION].fetch_add(1, Release);
    }
}

/// An acquiring load in the form that is also allowed on memory mapped read-only: a relaxed load
/// and a fence (`core::sync::atomic`, "Atomic accesses to read-only memory").
pub(crate) fn acquire(word: &AtomicU64) -> u64 {
    let value = word.load(Relaxed);
    fence(Acquire);
    value
}

/// The hash of no bytes.
pub(crate) const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// A hash for each counter and then for each histogram, in the order of a slot.
pub(crate) fn directory() -> impl Iterator<Item = u64> {
    let counters = Counter::ALL.iter().map(|counter| hash_counter(HASH_START, *counter));
    let histograms = Histogram::ALL.iter().map(|of| hash_histogram(HASH_START, *of));
    counters.chain(histograms)
}

/// A hash (FNV-1a) of every name, unit and way of merging, in order.
const fn table_hash() -> u64 {
    let mut hash = HASH_START;
    let mut index = 0;
    while index < COUNTERS {
        hash = hash_counter(hash, Counter::ALL[index]);
        index += 1;
    }
    index = 0;
    while index < HISTOGRAMS {
        hash = hash_histogram(hash, Histogram::ALL[index]);
        index += 1;
    }
    hash
}

pub(crate) const fn hash_counter(hash: u64, counter: Counter) -> u64 {
    let hash = hash_bytes(hash, counter.name().as_bytes());
    let hash = hash_bytes(hash, counter.unit().as_bytes());
    hash_bytes(hash, &[counter.merge() as u8])
}

pub(crate) const fn hash_histogram(hash: u64, histogram: Histogram) -> u64 {
    let hash = hash_bytes(hash, histogram.name().as_bytes());
    hash_bytes(hash, histogram.unit().as_bytes())
}

const fn hash_bytes(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut index = 0;
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u64).wrapping_mul(0x100_0000_01b3);
        index += 1;
    }
    // No byte of UTF-8: two texts never look like one.
    (hash ^ 0xff).wrapping_mul(0x100_0000_01b3)
}
