//! Connections and requests of each client, counted for all processes together: a table of constant
//! size in memory that they share.
//!
//! A client is an IPv4 address, or the first 64 bits of an IPv6 address, which is what one customer
//! of a provider has. The table is 4-way. An address that finds its set full of others is served
//! without limits, so a flood from many addresses costs the limits and not the service. Nothing
//! waits here: one compare-and-swap changes a word. Two processes that meet a new client at once
//! may enter it twice. A request may be charged to the client that takes the entry over at that
//! moment. Limits are that much off, and counts are not.
//!
//! Workers ask through [`Links`](regatta_origin::Links), which the server implements. The master
//! releases the connections of an ended worker, and takes over charges in a reload.
#[cfg(test)]
mod schedule;

use foldhash::fast::FixedState;
use regatta_origin::Admission;
use std::{
    fmt,
    hash::BuildHasher,
    net::IpAddr,
    os::fd::RawFd,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Clients that a table has room for.
pub const ENTRIES: usize = 1 << 16;
/// Entries in which a client may be.
const WAYS: usize = 4;
/// Words of an entry: the client's tag and its open connections, and the time up to which requests
/// have been charged, nanoseconds.
const ENTRY_WORDS: usize = 2;
/// Bits of the first word that count connections. The others are the client's tag, which is not 0.
const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// The highest limit on a client's connections.
pub const CONNECTIONS_LIMIT_MAX: u32 = 1 << 22;
/// Bits of a note.
const NOTE_BITS: usize = 32;
const NOTE: u64 = (1 << NOTE_BITS) - 1;
const SECOND_NS: u64 = 1_000_000_000;

const _: () = assert!(ENTRIES * ENTRY_WORDS * size_of::<AtomicU64>() == 1 << 20, "1 MiB");
const _: () = assert!(2 * (CONNECTIONS_LIMIT_MAX as u64) < COUNT, "they can be counted");

/// Limits of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Connections at once, at most [`CONNECTIONS_LIMIT_MAX`]; 0 is no limit.
    pub connections_max: u32,
    /// Requests per second in the long run; 0 is no limit.
    pub rate: u32,
    /// Requests at once after a rest, at least 1.
    pub burst: u32,
}

/// Shared words with a note for each connection: its process and its client.
#[derive(Clone, Copy, Debug)]
pub struct ClientNotes<'a> {
    /// Words, as many as [`Clients::note_words`].
    pub words: &'a [AtomicU64],
    /// Descriptors of each process.
    pub descriptors: usize,
}

/// The table, and which process has which client's connections.
#[derive(Clone, Copy)]
pub struct Clients<'a> {
    entries: &'a [AtomicU64],
    /// For each process, a word with the highest descriptor that has a note, plus 1, and a note for
    /// each descriptor: the number of the client's entry, plus 1.
    notes: &'a [AtomicU64],
    /// Descriptors of each process.
    descriptors: usize,
    limits: ClientLimits,
    seed: u64,
}

impl fmt::Debug for Clients<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl<'a> Clients<'a> {
    /// Words of a table with room for [`ENTRIES`].
    pub const WORDS: usize = ENTRIES * ENTRY_WORDS;

    /// Words of the notes of `processes` processes with `descriptors` descriptors each. They are
    /// touched only as far as descriptors are used.
    #[must_use]
    pub const fn note_words(processes: usize, descriptors: usize) -> usize {
        processes * Self::note_stride(descriptors)
    }

    const fn note_stride(descriptors: usize) -> usize {
        1 + descriptors.div_ceil(2)
    }

    /// A table in shared words, which were all 0 when the first process that shares it began. All
    /// use the same secret seed: a client that knew which addresses meet in a set could fill it.
    ///
    /// # Panics
    /// If the words are not a power of two of sets, or the limit on connections is too high.
    #[must_use]
    pub fn new(
        entries: &'a [AtomicU64],
        notes: ClientNotes<'a>,
        seed: u64,
        limits: ClientLimits,
    ) -> Self {
        let sets = entries.len() / (WAYS * ENTRY_WORDS);
        let is_whole = entries.len().is_multiple_of(WAYS * ENTRY_WORDS) && sets.is_power_of_two();
        assert!(is_whole, "{} words are no table", entries.len());
        assert!(limits.connections_max <= CONNECTIONS_LIMIT_MAX, "{limits:?} cannot be counted");
        let ClientNotes { words, descriptors } = notes;
        Self { entries, notes: words, descriptors, limits, seed }
    }

    /// Charges clients what an earlier table of the same seed and size has charged them. Their
    /// connections stay with that table.
    pub fn adopt_charges(&self, earlier: &[AtomicU64]) {
        for (at, entry) in earlier.chunks_exact(ENTRY_WORDS).enumerate() {
            let [holder, charged] = [&entry[0], &entry[1]].map(|word| word.load(Relaxed));
            if charged > 0 && at < self.entries.len() / ENTRY_WORDS {
                self.holder(at).store(holder & !COUNT, Relaxed);
                self.charged(at).store(charged, Relaxed);
            }
        }
    }

    /// Enters a client's connection, which a process has accepted under this number. If it counts,
    /// [`Clients::close`] is called before the descriptor is closed.
    #[must_use]
    pub fn open(&self, who: IpAddr, fd: RawFd, process: usize, now_ns: u64) -> Admission {
        let most = u64::from(self.limits.connections_max);
        if most == 0 {
            return Admission::Admitted;
        }
        let Some(note) = self.note(fd, process) else { return Admission::Untracked };
        let Some((at, tag)) = self.find(who, now_ns) else { return Admission::Untracked };
        let is_same = |word: u64| word >> COUNT_BITS == tag;
        let more = |word| (is_same(word) && word & COUNT < 2 * most).then_some(word + 1);
        let open = match self.holder(at).fetch_update(Relaxed, Relaxed, more) {
            Ok(word) => word & COUNT,
            Err(word) if is_same(word) => return Admission::Refused,
            // Another client has taken the entry over at this moment.
            Err(_) => return Admission::Untracked,
        };
        // A process that is killed between the two leaves the client one connection less.
        note.set(at as u64 + 1);
        self.notes[note.first].fetch_max(note.fd as u64 + 1, Relaxed);
        if open < most { Admission::Admitted } else { Admission::Limited }
    }

    /// A process is about to close a connection, or has passed it on to another process.
    pub fn close(&self, fd: RawFd, process: usize) {
        if self.limits.connections_max > 0
            && let Some(note) = self.note(fd, process)
        {
            self.release(&note);
        }
    }

    /// A process has ended: its connections are closed. Returns how many counted.
    pub fn release_all(&self, process: usize) -> u64 {
        if self.limits.connections_max == 0 {
            return 0;
        }
        let first = process * Self::note_stride(self.descriptors);
        let highest = self.notes[first].swap(0, Relaxed);
        // A worker that writes nonsense there costs the master no more than its own descriptors.
        let highest = highest.min(self.descriptors as u64);
        let fds = 0..RawFd::try_from(highest).unwrap_or(RawFd::MAX);
        let notes = fds.filter_map(|fd| self.note(fd, process));
        notes.map(|note| u64::from(self.release(&note))).sum()
    }

    /// Charges a client for a request; false if it asks too often.
    #[must_use]
    pub fn may_ask(&self, who: IpAddr, now_ns: u64) -> bool {
        let ClientLimits { rate, burst, .. } = self.limits;
        let Some(each_ns) = SECOND_NS.checked_div(u64::from(rate)) else { return true };
        let Some((at, _)) = self.find(who, now_ns) else { return true };
        // The generic cell rate algorithm (ITU-T I.371): charges may be this far ahead of the time.
        // A client that is refused may ask again within a second.
        let ahead_max = each_ns * u64::from(burst.max(1) - 1);
        let charged = self.charged(at).fetch_update(Relaxed, Relaxed, |until| {
            let until = until.max(now_ns);
            (until - now_ns <= ahead_max).then_some(until + each_ns)
        });
        charged.is_ok()
    }

    /// The client's entry and tag; `None` if its set is full of others.
    fn find(&self, who: IpAddr, now_ns: u64) -> Option<(usize, u64)> {
        let hash = FixedState::with_seed(self.seed).hash_one(key(who));
        let sets = self.entries.len() / (WAYS * ENTRY_WORDS);
        let set = usize::try_from(hash & (sets as u64 - 1)).unwrap_or(0);
        let ways = set * WAYS..(set + 1) * WAYS;
        let tag = (hash >> COUNT_BITS).max(1);
        // Each time that another was faster, there is one way less that it can be.
        for _ in 0..WAYS {
            let holds = |at: &usize| self.holder(*at).load(Relaxed) >> COUNT_BITS == tag;
            if let Some(at) = ways.clone().find(holds) {
                return Some((at, tag));
            }
            // No connections, and nothing to pay off: nothing is lost with it.
            let free = ways.clone().find_map(|at| {
                let old = self.holder(at).load(Relaxed);
                let is_free = old & COUNT == 0 && self.charged(at).load(Relaxed) <= now_ns;
                is_free.then_some((at, old))
            });
            let (at, old) = free?;
            let new = tag << COUNT_BITS;
            if self.holder(at).compare_exchange(old, new, Relaxed, Relaxed).is_ok() {
                return Some((at, tag));
            }
        }
        None
    }

    fn holder(&self, at: usize) -> &'a AtomicU64 {
        &self.entries[at * ENTRY_WORDS]
    }

    fn charged(&self, at: usize) -> &'a AtomicU64 {
        &self.entries[at * ENTRY_WORDS + 1]
    }

    /// Note of the entry that a descriptor's connection counts in; `None` if it has no room.
    fn note(&self, fd: RawFd, process: usize) -> Option<Note<'a>> {
        let fd = usize::try_from(fd).ok().filter(|fd| *fd < self.descriptors)?;
        let first = process * Self::note_stride(self.descriptors);
        let word = self.notes.get(first + 1 + fd / 2)?;
        Some(Note { first, fd, word, shift: fd % 2 * NOTE_BITS })
    }

    /// Counts a connection no longer, if it has been counted.
    fn release(&self, note: &Note<'_>) -> bool {
        let at = note.take().checked_sub(1).and_then(|at| usize::try_from(at).ok());
        let Some(at) = at.filter(|at| *at < self.entries.len() / ENTRY_WORDS) else { return false };
        // No other client takes over an entry with connections.
        let fewer = |word: u64| (word & COUNT > 0).then(|| word - 1);
        let released = self.holder(at).fetch_update(Relaxed, Relaxed, fewer).is_ok();
        debug_assert!(released, "what has a note has been counted");
        released
    }
}

/// Half a word, which only the descriptor's owner changes.
#[derive(Debug)]
struct Note<'a> {
    /// The first word of its process.
    first: usize,
    fd: usize,
    word: &'a AtomicU64,
    shift: usize,
}

impl Note<'_> {
    fn set(&self, value: u64) {
        debug_assert!(value <= NOTE, "entries are few");
        self.take();
        self.word.fetch_or(value << self.shift, Relaxed);
    }

    fn take(&self) -> u64 {
        self.word.fetch_and(!(NOTE << self.shift), Relaxed) >> self.shift & NOTE
    }
}

/// Key of a client: its family, and its address or network.
fn key(who: IpAddr) -> (bool, u64) {
    match who.to_canonical() {
        IpAddr::V4(v4) => (false, u64::from(v4.to_bits())),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            let network = [a, b, c, d].iter().fold(0, |sum, part| sum << 16 | u64::from(*part));
            (true, network)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shared words, as if of all processes.
    pub(crate) fn zeros(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    pub(crate) const LIMITS: ClientLimits = ClientLimits { connections_max: 2, rate: 10, burst: 3 };
    const FDS: usize = 64;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Connections that are counted.
    pub(crate) fn counted(entries: &[AtomicU64]) -> u64 {
        entries.iter().step_by(ENTRY_WORDS).map(|word| word.load(Relaxed) & COUNT).sum()
    }

    /// Notes of processes with [`FDS`] descriptors each.
    const fn make_notes(words: &[AtomicU64]) -> ClientNotes<'_> {
        ClientNotes { words, descriptors: FDS }
    }

    #[test]
    fn a_client_has_so_many_connections() {
        let (entries, notes) = (zeros(1024), zeros(Clients::note_words(2, FDS)));
        let clients = Clients::new(&entries, make_notes(&notes), 7, LIMITS);
        let open = |who, fd, process| clients.open(ip(who), fd, process, 0);
        assert_eq!(open("192.0.2.1", 10, 0), Admission::Admitted);
        assert_eq!(open("192.0.2.1", 10, 1), Admission::Admitted, "of another process");
        assert_eq!(open("::ffff:192.0.2.1", 11, 0), Admission::Limited, "the same client");
        assert_eq!(open("192.0.2.1", 12, 0), Admission::Limited);
        assert_eq!(open("192.0.2.1", 13, 0), Admission::Refused);
        assert_eq!(open("192.0.2.2", 13, 0), Admission::Admitted, "another client");
        assert_eq!(open("2001:db8::1", 14, 0), Admission::Admitted);
        assert_eq!(open("2001:db8::2", 15, 0), Admission::Admitted);
        assert_eq!(open("2001:db8::ffff:0:0:3", 16, 0), Admission::Limited, "the same network");
        assert_eq!(open("2001:db8:0:1::1", 17, 0), Admission::Admitted);
        assert_eq!(open("192.0.2.3", 64, 0), Admission::Untracked, "no room for a note");
        assert_eq!(counted(&entries), 9);
        for fd in [10, 11, 12, 12, 63, 64] {
            clients.close(fd, 0);
        }
        assert_eq!(counted(&entries), 6, "once each");
        assert_eq!(open("192.0.2.1", 20, 0), Admission::Admitted, "there is room again");
        assert_eq!(clients.release_all(1), 1);
        assert_eq!((clients.release_all(0), counted(&entries)), (6, 0));
        // Whatever a process has noted as its highest descriptor.
        notes[0].store(u64::MAX, Relaxed);
        assert_eq!((clients.release_all(0), clients.release_all(1)), (0, 0));
        assert!(notes.iter().all(|word| word.load(Relaxed) == 0));
    }

    #[test]
    fn a_client_asks_so_often() {
        const MS: u64 = 1_000_000;
        let (entries, notes) = (zeros(1024), zeros(Clients::note_words(1, FDS)));
        let clients = Clients::new(&entries, make_notes(&notes), 7, LIMITS);
        let (one, other) = (ip("192.0.2.1"), ip("192.0.2.2"));
        let at = |ms| 5000 * MS + ms * MS;
        for _ in 0..3 {
            assert!(clients.may_ask(one, at(0)));
        }
        assert!(!clients.may_ask(one, at(0)), "a burst of three");
        assert!(!clients.may_ask(one, at(99)));
        assert!(clients.may_ask(other, at(99)), "another client");
        assert!(clients.may_ask(one, at(100)), "ten a second");
        assert!(!clients.may_ask(one, at(100)), "refusals are not charged");
        let asked = (101..=2100).filter(|ms| clients.may_ask(one, at(*ms))).count();
        assert_eq!(asked, 20);
        for _ in 0..3 {
            assert!(clients.may_ask(one, at(9000)), "after a rest");
        }
        let slow = ClientLimits { rate: 1, burst: 1, ..LIMITS };
        let slow = Clients::new(&entries, make_notes(&notes), 8, slow);
        assert!(slow.may_ask(one, at(20_000)));
        assert!(!slow.may_ask(one, at(20_001)));
        let free = ClientLimits { connections_max: 0, rate: 0, burst: 1 };
        let free = Clients::new(&entries, make_notes(&notes), 7, free);
        assert!((0..100).all(|_| free.may_ask(one, at(0))));
        assert!((0..60).all(|fd| free.open(one, fd, 0, at(0)) == Admission::Admitted));
    }

    #[test]
    fn charges_outlast_a_table() {
        let [old, new] = [(); 2].map(|()| zeros(1024));
        let [one_notes, two_notes] = [(); 2].map(|()| zeros(Clients::note_words(1, FDS)));
        let earlier = Clients::new(&old, make_notes(&one_notes), 7, LIMITS);
        let (one, other) = (ip("192.0.2.1"), ip("192.0.2.2"));
        assert_eq!(earlier.open(one, 10, 0, 0), Admission::Admitted);
        assert!((0..3).all(|_| earlier.may_ask(one, SECOND_NS)));
        let later = Clients::new(&new, make_notes(&two_notes), 7, LIMITS);
        later.adopt_charges(&old);
        assert!(!later.may_ask(one, SECOND_NS), "the burst has been taken");
        assert!(later.may_ask(other, SECOND_NS));
        assert_eq!((counted(&old), counted(&new)), (1, 0), "connections stay where they are");
    }

    #[test]
    fn who_finds_a_full_set_is_served() {
        // One set: room for four.
        let (entries, notes) = (zeros(WAYS * ENTRY_WORDS), zeros(Clients::note_words(1, FDS)));
        let clients = Clients::new(&entries, make_notes(&notes), 7, LIMITS);
        let who = |n: u8| IpAddr::from([192, 0, 2, n]);
        for n in 0..4 {
            assert_eq!(clients.open(who(n), i32::from(n), 0, 0), Admission::Admitted);
        }
        assert_eq!(clients.open(who(4), 4, 0, 0), Admission::Untracked);
        assert!((0..10).all(|_| clients.may_ask(who(4), 0)), "not limited");
        // A client that has asked lately keeps the entry without a connection.
        assert!(clients.may_ask(who(2), 1000));
        clients.close(2, 0);
        assert_eq!(clients.open(who(4), 4, 0, 1000), Admission::Untracked);
        assert_eq!(clients.open(who(4), 4, 0, SECOND_NS), Admission::Admitted);
        assert_eq!(clients.open(who(2), 2, 0, SECOND_NS), Admission::Untracked);
        assert_eq!((counted(&entries), clients.release_all(0)), (4, 4));
    }
}
