//! Memory of a film: what each kernel thread of a server does, in a ring of its own.
//!
//! The server reserves the words at its start and leaves them alone. A reader that wants a film
//! calls [`Film::begin`] and marks the slots ([`Slot::set_filmed`](crate::Slot::set_filmed)). A
//! thread whose slot is marked takes a ring and writes [`FilmRecord`]s. No side waits for the
//! other: a ring has one writer, and a late reader knows how many records it has lost.
use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use regatta_op::OpKind;

/// Rings: the most kernel threads of a film.
const RINGS: usize = 64;
/// Records that a ring keeps: 64 KiB.
const RECORDS: usize = 4096;
const RECORD_WORDS: usize = 2;

/// `film`, a digit for the layout, and a line feed, in the order of bytes in memory.
const MAGIC: u64 = u64::from_le_bytes(*b"film  1\n");
const MAGIC_AT: usize = 0;
/// Number of this film among those of the memory; 0: there was none.
const NUMBER: usize = 1;
/// Begin and end by the monotonic clock, nanoseconds. An end of 0 stops it.
const BEGIN_NS: usize = 2;
const END_NS: usize = 3;
/// Rings that were taken, and asked for when there were no more.
const TAKEN: usize = 4;
const HEADER_WORDS: usize = 8;

/// Words of a ring before its records: film, process and thread, name, records written.
const OWNER: usize = 0;
const THREAD: usize = 1;
const NAME: usize = 2;
const WRITTEN: usize = 4;
const RING_HEADER: usize = 8;
const RING_WORDS: usize = RING_HEADER + RECORDS * RECORD_WORDS;

/// Bits of a record's second word: of the request and of the unit. The rest is the connection's.
const REQUEST_BITS: u32 = 16;
const UNIT_BITS: u32 = 24;
/// Bits of a record's first word behind the time.
const EVENT_BITS: u32 = 16;

/// Thing that a turn waits for when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// The client: its bytes, or room for them.
    Client,
    /// The disk, or a helper that is to ask it.
    Disk,
    /// The kernel, which performs its operation in a ring.
    Kernel,
    /// Another turn: its budget was spent.
    Turn,
    /// Another stage of the pipeline.
    Stage,
    /// Nothing: the connection is to be closed.
    Close,
}

impl TurnEnd {
    const ALL: [Self; 6] =
        [Self::Client, Self::Disk, Self::Kernel, Self::Turn, Self::Stage, Self::Close];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Disk => "disk",
            Self::Kernel => "kernel",
            Self::Turn => "turn",
            Self::Stage => "stage",
            Self::Close => "close",
        }
    }
}

/// Operations, in the order of their codes.
const OPERATIONS: [OpKind; 7] = [
    OpKind::Recv,
    OpKind::Send,
    OpKind::Open,
    OpKind::Read,
    OpKind::Stat,
    OpKind::Shut,
    OpKind::Close,
];

/// Name of an operation.
#[must_use]
pub const fn operation_name(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Recv => "recv",
        OpKind::Send => "send",
        OpKind::Open => "open",
        OpKind::Read => "read",
        OpKind::Stat => "stat",
        OpKind::Shut => "shut",
        OpKind::Close => "close",
    }
}

/// Event in the life of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilmEvent {
    /// The connection was accepted.
    Accepted,
    /// The socket is being closed.
    Closed,
    /// A unit begins to work for it.
    TurnBegins,
    /// The unit turns to others, and why.
    TurnEnds(TurnEnd),
    /// The connection asks for an operation.
    Issued(OpKind),
    /// The operation is done. It does not know yet.
    Done(OpKind),
    /// A helper has been given a part of the operation.
    HelperBegins(OpKind),
    /// The helper's result has come.
    HelperEnds(OpKind),
}

impl FilmEvent {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Closed => "closed",
            Self::TurnBegins => "turn_begins",
            Self::TurnEnds(_) => "turn_ends",
            Self::Issued(_) => "issued",
            Self::Done(_) => "done",
            Self::HelperBegins(_) => "helper_begins",
            Self::HelperEnds(_) => "helper_ends",
        }
    }

    /// The operation, or what is waited for; empty if neither.
    #[must_use]
    pub const fn detail(self) -> &'static str {
        match self {
            Self::Accepted | Self::Closed | Self::TurnBegins => "",
            Self::TurnEnds(end) => end.name(),
            Self::Issued(kind)
            | Self::Done(kind)
            | Self::HelperBegins(kind)
            | Self::HelperEnds(kind) => operation_name(kind),
        }
    }

    #[inline]
    const fn code(self) -> u64 {
        let (kind, detail) = match self {
            Self::Accepted => (1, 0),
            Self::Closed => (2, 0),
            Self::TurnBegins => (3, 0),
            Self::TurnEnds(end) => (4, end as u64),
            Self::Issued(kind) => (5, kind as u64),
            Self::Done(kind) => (6, kind as u64),
            Self::HelperBegins(kind) => (7, kind as u64),
            Self::HelperEnds(kind) => (8, kind as u64),
        };
        kind << 8 | detail
    }

    fn of_code(code: u64) -> Option<Self> {
        let detail = usize::try_from(code & 0xFF).ok()?;
        let kind = || OPERATIONS.iter().copied().find(|kind| *kind as usize == detail);
        match code >> 8 {
            1 => Some(Self::Accepted),
            2 => Some(Self::Closed),
            3 => Some(Self::TurnBegins),
            4 => TurnEnd::ALL.get(detail).copied().map(Self::TurnEnds),
            5 => kind().map(Self::Issued),
            6 => kind().map(Self::Done),
            7 => kind().map(Self::HelperBegins),
            8 => kind().map(Self::HelperEnds),
            _ => None,
        }
    }
}

/// Connection that a record is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilmSubject {
    /// Descriptor of its socket: unique in its process until it is closed. The lower 24 bits.
    pub connection: u32,
    /// Requests that have come on it. The lower 16 bits.
    pub request: u16,
}

/// Record of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilmRecord {
    /// Time since the begin of the film, nanoseconds.
    pub at_ns: u64,
    /// Connection that it is about.
    pub subject: FilmSubject,
    /// Unit within the kernel thread: the number of a user thread, or of a helper that works for
    /// it, from 1 on; 0: the thread itself. The lower 24 bits.
    pub unit: u32,
    /// Event.
    pub event: FilmEvent,
}

impl FilmRecord {
    #[inline]
    const fn words(&self) -> [u64; RECORD_WORDS] {
        let FilmSubject { connection, request } = self.subject;
        let unit = self.unit as u64 & ((1 << UNIT_BITS) - 1);
        let who = (connection as u64) << (REQUEST_BITS + UNIT_BITS);
        [self.at_ns << EVENT_BITS | self.event.code(), who | (request as u64) << UNIT_BITS | unit]
    }

    fn of_words([when, who]: [u64; RECORD_WORDS]) -> Option<Self> {
        let part = |word: u64, bits: u32| word & ((1 << bits) - 1);
        let connection = u32::try_from(who >> (REQUEST_BITS + UNIT_BITS)).ok()?;
        let request = u16::try_from(part(who >> UNIT_BITS, REQUEST_BITS)).ok()?;
        Some(Self {
            at_ns: when >> EVENT_BITS,
            subject: FilmSubject { connection, request },
            unit: u32::try_from(part(who, UNIT_BITS)).ok()?,
            event: FilmEvent::of_code(part(when, EVENT_BITS))?,
        })
    }
}

/// The memory of films.
#[derive(Clone, Copy, Debug)]
pub struct Film<'a>(&'a [AtomicU64; Film::WORDS]);

impl<'a> Film<'a> {
    /// Words that it takes, 8 bytes each.
    pub const WORDS: usize = HEADER_WORDS + RINGS * RING_WORDS;

    /// Makes the memory of words that are all zero.
    #[must_use]
    pub fn create(words: &'a [AtomicU64]) -> Option<Self> {
        let film = Self(words.first_chunk()?);
        film.0[MAGIC_AT].store(MAGIC, Release);
        Some(film)
    }

    /// Finds the memory that a server of this layout made; `None` if it is another's.
    #[must_use]
    pub fn attach(words: &'a [AtomicU64]) -> Option<Self> {
        let film = Self(words.first_chunk()?);
        (film.0[MAGIC_AT].load(Acquire) == MAGIC).then_some(film)
    }

    /// Begins a film that ends by itself after `for_ns`. Callers exclude each other.
    pub fn begin(&self, now_ns: u64, for_ns: u64) {
        self.end();
        self.0[BEGIN_NS].store(now_ns, Relaxed);
        self.0[TAKEN].store(0, Relaxed);
        self.0[NUMBER].store(self.0[NUMBER].load(Relaxed).wrapping_add(1).max(1), Relaxed);
        // A thread that sees the end sees the rest.
        self.0[END_NS].store(now_ns.saturating_add(for_ns), Release);
    }

    /// Nanoseconds that the film still lasts; 0: there is none.
    #[must_use]
    pub fn left_ns(&self, now_ns: u64) -> u64 {
        self.0[END_NS].load(Relaxed).saturating_sub(now_ns)
    }

    /// Ends the film.
    pub fn end(&self) {
        self.0[END_NS].store(0, Release);
    }

    /// Number of the current film, and its begin, if it has not ended.
    #[must_use]
    #[inline]
    pub fn current(&self, now_ns: u64) -> Option<(u64, u64)> {
        let lasts = self.0[END_NS].load(Acquire) > now_ns;
        lasts.then(|| (self.0[NUMBER].load(Relaxed), self.0[BEGIN_NS].load(Relaxed)))
    }

    /// Takes a ring for a thread, for film number `number`; `None` if there are no more.
    #[must_use]
    pub fn take_ring(
        &self,
        number: u64,
        [pid, thread]: [u32; 2],
        name: &str,
    ) -> Option<FilmRing<'a>> {
        let at = usize::try_from(self.0[TAKEN].fetch_add(1, Relaxed)).ok()?;
        let ring = self.rings().get(at)?;
        ring[WRITTEN].store(0, Relaxed);
        ring[THREAD].store(u64::from(pid) << 32 | u64::from(thread), Relaxed);
        let mut bytes = name.bytes();
        for word in &ring[NAME..WRITTEN] {
            let eight = core::array::from_fn(|_| bytes.next().unwrap_or(0));
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
        // A reader that sees the owner sees the rest.
        ring[OWNER].store(number, Release);
        Some(FilmRing(ring))
    }

    fn rings(&self) -> &'a [[AtomicU64; RING_WORDS]] {
        self.0[HEADER_WORDS..].as_chunks().0
    }
}

/// Ring of a thread, to be written by it.
#[derive(Clone, Copy, Debug)]
pub struct FilmRing<'a>(&'a [AtomicU64; RING_WORDS]);

impl FilmRing<'_> {
    /// Writes a record in the place of the oldest.
    #[inline]
    pub fn push(&self, record: &FilmRecord) {
        let written = self.0[WRITTEN].load(Relaxed);
        // A reader that sees a part of this record sees that the ring has come so far.
        fence(Release);
        for (word, value) in self.0[place(written)..].iter().zip(record.words()) {
            word.store(value, Relaxed);
        }
        self.0[WRITTEN].store(written.wrapping_add(1), Release);
    }
}

/// Place of a record in its ring, by its number.
fn place(number: u64) -> usize {
    let at = number % RECORDS as u64;
    RING_HEADER + usize::try_from(at).unwrap_or(0) * RECORD_WORDS
}

/// Thread whose ring is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilmThread {
    /// Process.
    pub pid: u32,
    /// The kernel's number of the thread.
    pub thread: u32,
    /// The name, as far as it can be printed.
    pub name: String,
    /// Records so far, in their order.
    pub records: Vec<FilmRecord>,
    /// Records that were overwritten before they were read.
    pub lost: u64,
    /// Places in `records` before which some are missing.
    pub gaps: Vec<usize>,
    /// Number of the next record to read.
    next: u64,
}

/// Reader of a film that is being made.
#[derive(Debug)]
pub struct FilmReader<'a> {
    film: Film<'a>,
    number: u64,
    /// Threads by the places of their rings.
    threads: BTreeMap<usize, FilmThread>,
}

impl<'a> FilmReader<'a> {
    /// Reader of the film that has just begun.
    #[must_use]
    pub fn new(film: Film<'a>) -> Self {
        Self { film, number: film.0[NUMBER].load(Relaxed), threads: BTreeMap::new() }
    }

    /// Copies records that have been written since.
    pub fn read(&mut self) {
        let rings = self.film.rings();
        let taken = usize::try_from(self.film.0[TAKEN].load(Relaxed)).unwrap_or(RINGS);
        for (at, ring) in rings.iter().enumerate().take(taken) {
            // Another owner's may be taken this moment.
            if self.threads.contains_key(&at) || ring[OWNER].load(Acquire) != self.number {
                continue;
            }
            let [pid, thread] = [32, 0].map(|bits| {
                u32::try_from(ring[THREAD].load(Relaxed) >> bits & u64::from(u32::MAX)).unwrap_or(0)
            });
            let words = ring[NAME..WRITTEN].iter();
            let bytes = words.flat_map(|word| word.load(Relaxed).to_le_bytes());
            let name = bytes.take_while(u8::is_ascii_graphic).map(char::from).collect();
            self.threads.insert(at, FilmThread::new([pid, thread], name));
        }
        for (at, thread) in &mut self.threads {
            thread.read(&rings[*at]);
        }
    }

    /// Records so far.
    #[must_use]
    pub fn records(&self) -> usize {
        self.threads.values().map(|thread| thread.records.len()).sum()
    }

    /// Threads that had no ring.
    #[must_use]
    pub fn threads_left_out(&self) -> u64 {
        self.film.0[TAKEN].load(Relaxed).saturating_sub(RINGS as u64)
    }

    /// Threads with their records.
    #[must_use]
    pub fn into_threads(self) -> Vec<FilmThread> {
        self.threads.into_values().collect()
    }
}

impl FilmThread {
    /// A thread, by the numbers of its process and its own, without records.
    #[must_use]
    pub const fn new([pid, thread]: [u32; 2], name: String) -> Self {
        Self { pid, thread, name, records: Vec::new(), lost: 0, gaps: Vec::new(), next: 0 }
    }

    fn read(&mut self, ring: &[AtomicU64; RING_WORDS]) {
        let written = ring[WRITTEN].load(Acquire);
        // The oldest may be overwritten now.
        let first = self.next.max(written.saturating_sub(RECORDS as u64 - 1));
        let begin = self.records.len();
        let mut read = Vec::new();
        for number in first..written {
            let at = place(number);
            read.push([ring[at].load(Relaxed), ring[at + 1].load(Relaxed)]);
        }
        fence(Acquire);
        let kept = ring[WRITTEN].load(Relaxed).saturating_sub(RECORDS as u64 - 1).max(first);
        let skip = usize::try_from(kept - first).unwrap_or(usize::MAX);
        self.records.extend(read.into_iter().skip(skip).filter_map(FilmRecord::of_words));
        let seen = (self.records.len() - begin) as u64;
        let lost = written.saturating_sub(self.next).saturating_sub(seen);
        if lost > 0 {
            self.lost = self.lost.saturating_add(lost);
            self.gaps.push(begin);
        }
        self.next = written;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{thread, vec::Vec};

    fn words() -> Vec<AtomicU64> {
        (0..Film::WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn record(at_ns: u64, event: FilmEvent) -> FilmRecord {
        let subject = FilmSubject { connection: 0xABCDEF, request: 0x1234 };
        FilmRecord { at_ns, subject, unit: 0x56_789A, event }
    }

    #[test]
    fn every_event_is_read_as_it_was_written() {
        let words = words();
        assert!(Film::attach(&words).is_none() && Film::create(&words[1..]).is_none());
        let film = Film::create(&words).unwrap();
        assert!(Film::attach(&words).is_some());
        film.begin(1_000, 500);
        assert_eq!(film.current(1_499), Some((1, 1_000)));
        let ring = film.take_ring(1, [7, 8], "a thread's name").unwrap();
        let mut events = std::vec![FilmEvent::Accepted, FilmEvent::Closed, FilmEvent::TurnBegins];
        events.extend(TurnEnd::ALL.map(FilmEvent::TurnEnds));
        events.extend(OPERATIONS.iter().flat_map(|kind| {
            [FilmEvent::Issued, FilmEvent::Done, FilmEvent::HelperBegins, FilmEvent::HelperEnds]
                .map(|event| event(*kind))
        }));
        let all: Vec<_> = (0..).zip(&events).map(|(at, event)| record(at, *event)).collect();
        let mut reader = FilmReader::new(film);
        let (first, rest) = all.split_at(5);
        first.iter().for_each(|record| ring.push(record));
        reader.read();
        rest.iter().for_each(|record| ring.push(record));
        reader.read();
        assert_eq!(reader.threads_left_out(), 0);
        let [thread] = &reader.into_threads()[..] else { panic!("one thread") };
        assert_eq!((thread.pid, thread.thread, &*thread.name), (7, 8, "a"));
        assert_eq!((&thread.records, thread.lost), (&all, 0));
    }

    #[test]
    fn each_film_has_rings_of_its_own_and_ends_by_itself() {
        let words = words();
        let film = Film::create(&words).unwrap();
        film.begin(1_000, 500);
        assert_eq!(film.left_ns(1_100), 400);
        assert_eq!(film.current(1_500), None, "it ends by itself");
        for thread in 0..RINGS {
            assert!(film.take_ring(1, [1, u32::try_from(thread).unwrap()], "").is_some());
        }
        let mut reader = FilmReader::new(film);
        assert!(film.take_ring(1, [1, 99], "").is_none());
        reader.read();
        assert_eq!((reader.threads_left_out(), reader.into_threads().len()), (1, RINGS));
        film.begin(1_600, 500);
        let mut next = FilmReader::new(film);
        next.read();
        assert!(next.into_threads().is_empty(), "rings of the film before");
        film.end();
        assert_eq!((film.current(1_700), film.left_ns(1_700)), (None, 0));
    }

    #[test]
    fn a_reader_that_comes_too_late_knows_what_it_lost() {
        let words = words();
        let film = Film::create(&words).unwrap();
        film.begin(0, 500);
        let ring = film.take_ring(1, [1, 1], "loop").unwrap();
        let mut reader = FilmReader::new(film);
        let all = RECORDS as u64 + 1_000;
        (0..all).for_each(|at| ring.push(&record(at, FilmEvent::TurnBegins)));
        reader.read();
        (all..all + 10).for_each(|at| ring.push(&record(at, FilmEvent::TurnBegins)));
        reader.read();
        let thread = &reader.into_threads()[0];
        let times: Vec<_> = thread.records.iter().map(|record| record.at_ns).collect();
        assert_eq!(times, (thread.lost..all + 10).collect::<Vec<_>>());
        assert_eq!((thread.lost, &*thread.gaps), (1_001, &[0][..]));
    }

    /// Records that are read while others are written are whole, and in their order.
    #[test]
    fn records_are_whole_while_others_are_written() {
        let words = words();
        let film = Film::create(&words).unwrap();
        film.begin(0, 500);
        let ring = film.take_ring(1, [1, 1], "loop").unwrap();
        let mut reader = FilmReader::new(film);
        let most = 20 * RECORDS as u64;
        let of = |at: u64| {
            let request = u16::try_from(at % 65_536).unwrap();
            let subject = FilmSubject { connection: 1, request };
            FilmRecord { at_ns: at, subject, unit: 0, event: FilmEvent::Accepted }
        };
        thread::scope(|scope| {
            let writer = scope.spawn(|| (0..most).for_each(|at| ring.push(&of(at))));
            while !writer.is_finished() {
                reader.read();
            }
        });
        reader.read();
        let thread = &reader.into_threads()[0];
        assert!(thread.records.iter().all(|record| *record == of(record.at_ns)));
        assert!(thread.records.windows(2).all(|two| two[0].at_ns < two[1].at_ns));
        assert_eq!(thread.records.len() as u64 + thread.lost, most);
    }
}
