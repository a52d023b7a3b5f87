//! A disk whose operations a ring of the kernel performs.
use crate::{
    WorkerLog,
    disk::{
        at_once::{Completion, Disk, DiskResult, Wire, front},
        helpers::Purpose,
        silence::{Longest, Silence},
        waiters::{Sequence, Waiters},
    },
    drive::{
        ledger::Spent,
        perform::{self, Below},
    },
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Abandoned, OpenReq, Outbox, ReadReq, Ticket};
use regatta_sys::{
    OpenResult, Read, Resident, Root, StaticFile, by_nowait, clock, open_cached, read_cached,
    uring::{DiskOp, Finished, SentBytes, Token},
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
    os::fd::BorrowedFd,
};

/// Counts an operation as completed inline or deferred.
pub fn count<T>(over: Option<T>, tally: Tally<'_>) -> Option<T> {
    let counter = if over.is_some() { Counter::LaioInline } else { Counter::LaioDeferred };
    tally.add(counter, 1);
    over
}

/// Counts a send that a ring has completed, and returns its result.
pub fn sent_result(of: SentBytes, tally: Tally<'_>) -> DiskResult {
    DiskResult::Sent(of.outbox, perform::sent(of.sent, tally))
}

/// A ring, or its counterpart in a test. A lazy one completes operations at once if it can. A ring
/// with a [`Wire`] has the operations of sockets, too.
pub trait Engine {
    /// Begins an operation.
    ///
    /// # Errors
    /// The operation is in flight: the token under which it will be reported.
    fn start(&mut self, op: DiskOp) -> Result<Finished, Token>;
    /// Takes what has completed since the last call.
    ///
    /// # Errors
    /// Nothing more will be reported.
    fn finished(&mut self, out: &mut Vec<(Token, Finished)>) -> io::Result<()>;
    /// Purpose of an operation in flight, as a message says it.
    fn describe(&self, token: Token) -> String;
    /// Readable while there may be completions.
    fn source(&self) -> BorrowedFd<'_>;
    /// Opens below another root from now on.
    fn set_root(&mut self, root: &Root);

    /// True if operations complete at once if they can, and whether they do is counted.
    fn is_lazy(&self) -> bool {
        true
    }
    /// The part for sockets. It sends pieces of files from memory.
    fn wire(&mut self) -> Option<&mut dyn Wire> {
        None
    }
    /// True if a head and the piece of a file behind it are sent together.
    fn sends_pieces(&self) -> bool {
        false
    }
    /// Takes the next send that has completed.
    fn next_sent(&mut self) -> Option<SentBytes> {
        None
    }
    /// Gives up the send of a connection.
    fn forget_send(&mut self, _key: u64) {}
    /// Bytes of the file range at the front of an outbox that are in memory for it.
    fn piece_bytes(&mut self, _key: u64, _outbox: &Outbox<StaticFile>) -> u64 {
        0
    }
    /// Operation that prepares a range of a file to be sent.
    fn prepare(&mut self, _key: u64, file: &StaticFile, at: u64, len: u64) -> DiskOp {
        DiskOp::Prefetch { file: file.clone(), at, len }
    }
    /// Takes the result of that operation.
    fn prepared(&mut self, _key: u64, _finished: Finished) {}
}

/// Disk of a loop for which the kernel continues operations that would block. Their number is
/// limited, since they cannot be cancelled.
#[expect(missing_debug_implementations, reason = "a ring need not have one")]
pub struct RingDisk<'a, E> {
    ring: E,
    waiters: Waiters,
    /// Operations in the ring, by token. The ring reuses a token as soon as it has reported it.
    in_flight: HashMap<Token, Pending>,
    /// Operations for which the ring has no room, oldest first.
    queue: BTreeMap<Sequence, (Pending, DiskOp)>,
    /// Operations that have completed and have not been reported yet.
    done: VecDeque<(Pending, Finished)>,
    below: Below<'a>,
    /// The most operations that may be in the ring at once.
    operations_max: usize,
    chunk_bytes: u64,
    silence: Silence,
    tally: Tally<'a>,
}

struct Pending {
    key: u64,
    sequence: Sequence,
    purpose: Purpose,
    /// Bytes that may be sent when the range is in memory.
    bytes: u64,
    /// Time at which it was begun or queued, by the precise clock.
    since: u64,
}

impl<'a, E: Engine> RingDisk<'a, E> {
    /// A disk with at most `operations_max` operations in its ring, which prepares ranges of
    /// `chunk_bytes` to be sent.
    pub fn new(
        ring: E,
        below: Below<'a>,
        operations_max: usize,
        chunk_bytes: u64,
        tally: Tally<'a>,
    ) -> Self {
        let (waiters, in_flight) = (Waiters::default(), HashMap::new());
        let (queue, done, silence) = (BTreeMap::new(), VecDeque::new(), Silence::default());
        Self {
            ring,
            waiters,
            in_flight,
            queue,
            done,
            below,
            operations_max,
            chunk_bytes,
            silence,
            tally,
        }
    }

    fn start(&mut self, op: DiskOp, key: u64, purpose: Purpose, bytes: u64) -> Option<Finished> {
        let full = self.in_flight.len() >= self.operations_max;
        let begun = if full {
            self.finish_cached(op).map_err(Err)
        } else {
            self.ring.start(op).map_err(Ok)
        };
        let left = match begun {
            Ok(finished) => return self.count(Some(finished)),
            Err(left) => left,
        };
        let (sequence, since) = (self.waiters.add(key, purpose.ticket()), clock::nanos());
        let pending = Pending { key, sequence, purpose, bytes, since };
        match left {
            Ok(token) => drop(self.in_flight.insert(token, pending)),
            Err(op) => drop(self.queue.insert(pending.sequence, (pending, op))),
        }
        self.count(None)
    }

    fn count<T>(&self, over: Option<T>) -> Option<T> {
        if self.ring.is_lazy() { count(over, self.tally) } else { over }
    }

    /// Performs an operation without the ring if it needs no disk; else returns it.
    fn finish_cached(&self, op: DiskOp) -> Result<Finished, DiskOp> {
        match op {
            DiskOp::Read(req) => read_cached(req).map(Finished::Read).map_err(DiskOp::Read),
            DiskOp::Open(req) => match open_cached(self.below.root, &req, self.below.rules) {
                Some(found) => Ok(Finished::Opened(found)),
                None => Err(DiskOp::Open(req)),
            },
            DiskOp::Fill { .. } => Err(op),
            DiskOp::Prefetch { ref file, at, len } => match by_nowait(file, at, len) {
                Resident::Yes => Ok(Finished::Prefetched),
                _ => Err(op),
            },
        }
    }

    /// Begins queued operations while the ring has room.
    fn begin_queued(&mut self) {
        while self.in_flight.len() < self.operations_max
            && let Some((_, (pending, op))) = self.queue.pop_first()
        {
            match self.ring.start(op) {
                Ok(finished) => self.done.push_back((pending, finished)),
                Err(token) => drop(self.in_flight.insert(token, pending)),
            }
        }
    }

    fn take_finished(&mut self) {
        let mut finished = Vec::new();
        // A ring that cannot be entered any more has no completions.
        if self.ring.finished(&mut finished).is_ok() {
            let reported = finished.into_iter().filter_map(|(token, finished)| {
                self.in_flight.remove(&token).map(|pending| (pending, finished))
            });
            self.done.extend(reported);
        }
        self.begin_queued();
    }
}

impl<E: Engine> Disk for RingDisk<'_, E> {
    fn open(&mut self, key: u64, ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        match self.start(DiskOp::Open(req), key, Purpose::Open(ticket), 0)? {
            Finished::Opened(found) => Some(found),
            _ => None,
        }
    }

    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        match self.start(DiskOp::Read(req), key, Purpose::Read(ticket), 0)? {
            Finished::Read(read) => Some(read),
            _ => None,
        }
    }

    fn prefetch(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64> {
        let Some((file, at, len)) = front(outbox, self.chunk_bytes) else { return Some(u64::MAX) };
        let there = self.ring.piece_bytes(key, outbox);
        if there > 0 {
            return Some(there);
        }
        let op = self.ring.prepare(key, file, at, len);
        let finished = self.start(op, key, Purpose::Prefetch, len)?;
        self.ring.prepared(key, finished);
        Some(len)
    }

    fn forget(&mut self, key: u64, what: Abandoned) {
        self.waiters.forget(key, what, |sequence| drop(self.queue.remove(&sequence)));
        if what == Abandoned::All {
            self.ring.forget_send(key);
        }
    }

    fn maps(&self) -> bool {
        self.ring.sends_pieces()
    }

    fn wire(&mut self) -> Option<&mut dyn Wire> {
        self.ring.wire()
    }

    fn check(&mut self, now_ns: u64, log: &dyn WorkerLog) {
        let operations = self.in_flight.len() + self.queue.len();
        let oldest = self.in_flight.iter().min_by_key(|(_, pending)| pending.since);
        let longest = oldest.map(|(token, Pending { since, .. })| Longest {
            since: *since,
            subject: self.ring.describe(*token),
            operations,
        });
        self.silence.check("", longest, now_ns, log);
    }

    fn renew_root(&mut self) {
        self.ring.set_root(self.below.root);
    }

    fn source(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.source())
    }

    fn next_completion(&mut self) -> Option<Completion> {
        if let Some(sent) = self.ring.next_sent() {
            let (key, result) = (sent.key, sent_result(sent, self.tally));
            return Some(Completion { key, result, spent: Spent::default() });
        }
        if self.done.is_empty() {
            self.take_finished();
        }
        while let Some((pending, finished)) = self.done.pop_front() {
            let Pending { key, sequence, purpose, bytes, .. } = pending;
            let result = match (purpose, finished) {
                (Purpose::Open(ticket), Finished::Opened(found)) => {
                    DiskResult::Opened(ticket, found)
                }
                (Purpose::Read(ticket), Finished::Read(read)) => DiskResult::Read(ticket, read),
                (_, finished) => {
                    if self.waiters.contains(key, sequence) {
                        self.ring.prepared(key, finished);
                    }
                    DiskResult::Prefetched(bytes)
                }
            };
            if self.waiters.remove(key, sequence) {
                return Some(Completion { key, result, spent: Spent::default() });
            }
            self.tally.add(Counter::DiskCompletionsDropped, 1);
        }
        None
    }
}
