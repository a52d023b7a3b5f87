//! LAIO, lazy asynchronous I/O (Elmeleegy, Chanda, Cox, Zwaenepoel, USENIX 2004). Every disk
//! operation completes at once if it can. Otherwise it continues elsewhere.
use crate::{
    Driver, Env, WorkError,
    architectures::event::{self, EventOptions, EventWorker},
    disk::{
        at_once::{Completion, Disk, DiskResult, front},
        helper_threads::HelperThreads,
        helpers::{HelperJob, HelperLimits, HelperPool, HelperTask, Helpers, Purpose},
        waiters::{Sequence, Waiters},
    },
    drive::{ledger::Spent, perform::Below},
    options::{Choice as _, Kind, OptionSpec, choice, joined, options},
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Abandoned, OpenReq, Outbox, ReadReq, Ticket};
use regatta_sys::{
    OpenResult, Read, Resident, Root, StaticFile, by_nowait, open_cached, read_cached,
    uring::{DiskOp, Finished, Ring, Token},
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
    os::fd::{AsFd, BorrowedFd},
};

/// The driver.
pub const DRIVER: Driver = Driver::plain(&OPTIONS, event::processes, work);

const OPTIONS: [OptionSpec; event::OPTIONS.len() + OWN.len()] = joined(event::OPTIONS, OWN);

choice! {
    /// Way in which an operation begins, and what continues it (`laio.engine`).
    enum ContinuedBy {
        /// The kernel: the operation is submitted to io_uring.
        Uring = "uring",
        /// A thread, after a call that must not block has failed.
        Nowait = "nowait",
    }
}

options! {
    /// The options that no other driver has.
    struct LaioOptions, OWN;

    engine: ContinuedBy = OptionSpec {
        key: "laio.engine",
        kind: Kind::Choice(ContinuedBy::WORDS),
        default: "uring",
        doc: "How operations continue that would block.",
        long: "`uring` submits every operation to io_uring, and the kernel continues it; the \
               server does not start if io_uring is forbidden or the kernel is older than Linux \
               6.1. `nowait` first makes the call so that it does not block (RESOLVE_CACHED, \
               RWF_NOWAIT); if it would have blocked, a thread continues it.",
    },
    helpers_max: usize = OptionSpec {
        key: "laio.helpers_max",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "16",
        doc: "The most threads that continue operations, with the engine `nowait`.",
        long: "They are started on demand, and half of them are kept when idle.",
    },
    operations_max: usize = OptionSpec {
        key: "laio.operations_max",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "1024",
        doc: "The most operations that the kernel continues at once, with the engine `uring`.",
        long: "Further operations wait in a queue, for example while a disk hangs, unless they \
               need no disk.",
    },
    chunk_bytes: u64 = OptionSpec {
        key: "laio.chunk_bytes",
        kind: Kind::Bytes { min: 4096, max: 16 << 20 },
        default: "256 KiB",
        doc: "How much of a file is read in and sent at once.",
        long: "Pieces begin at multiples of it.",
    },
}

fn work(env: &Env, worker: usize) -> Result<(), WorkError> {
    let options = EventOptions::read(&env.settings);
    let own = LaioOptions::read(&env.settings);
    let of = EventWorker { env, worker, options: &options, visits: None };
    event::work_with(of, |root, tally, _| {
        let LaioOptions { engine, helpers_max, operations_max, chunk_bytes } = own;
        let below = Below { root, rules: env.rules };
        match engine {
            ContinuedBy::Uring => {
                let own = root.try_clone().map_err(WorkError::Root)?;
                let ring = Ring::new(Some(own), env.rules).map_err(WorkError::UringForLaio)?;
                Ok(Box::new(RingDisk::new(ring, below, operations_max, chunk_bytes, tally)))
            }
            ContinuedBy::Nowait => {
                let pool =
                    HelperThreads::new(root, env.rules).map_err(WorkError::preparing("threads"))?;
                let helpers_idle_max = helpers_max.div_ceil(2);
                let limits = HelperLimits { helpers_max, helpers_idle_max, ..HelperLimits::PROMPT };
                let helpers = Helpers::new(pool, limits, tally);
                Ok(Box::new(NowaitDisk { helpers, below, chunk_bytes, tally }))
            }
        }
    })
}

/// Counts an operation as completed inline or deferred.
fn count<T>(over: Option<T>, tally: Tally<'_>) -> Option<T> {
    let counter = if over.is_some() { Counter::LaioInline } else { Counter::LaioDeferred };
    tally.add(counter, 1);
    over
}

/// Begins operations so that they complete at once if they can, and continues the others.
trait Engine {
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
    /// Readable while there may be completions.
    fn source(&self) -> BorrowedFd<'_>;
    /// Opens below another root from now on.
    fn set_root(&mut self, root: &Root);
}

impl Engine for Ring {
    fn start(&mut self, op: DiskOp) -> Result<Finished, Token> {
        Self::start(self, op)
    }

    fn finished(&mut self, out: &mut Vec<(Token, Finished)>) -> io::Result<()> {
        Self::finished(self, out)
    }

    fn source(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn set_root(&mut self, root: &Root) {
        Self::set_root(self, root);
    }
}

/// Disk of a loop for which the kernel continues operations that would block. Their number is
/// limited, since they cannot be cancelled.
struct RingDisk<'a, E> {
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
    tally: Tally<'a>,
}

struct Pending {
    key: u64,
    sequence: Sequence,
    purpose: Purpose,
    /// Bytes that may be sent when the range is in memory.
    bytes: u64,
}

impl<'a, E: Engine> RingDisk<'a, E> {
    fn new(
        ring: E,
        below: Below<'a>,
        operations_max: usize,
        chunk_bytes: u64,
        tally: Tally<'a>,
    ) -> Self {
        let (waiters, in_flight) = (Waiters::default(), HashMap::new());
        let (queue, done) = (BTreeMap::new(), VecDeque::new());
        Self { ring, waiters, in_flight, queue, done, below, operations_max, chunk_bytes, tally }
    }

    fn start(&mut self, op: DiskOp, key: u64, purpose: Purpose, bytes: u64) -> Option<Finished> {
        let full = self.in_flight.len() >= self.operations_max;
        let begun = if full {
            self.finish_cached(op).map_err(Err)
        } else {
            self.ring.start(op).map_err(Ok)
        };
        let left = match begun {
            Ok(finished) => return count(Some(finished), self.tally),
            Err(left) => left,
        };
        let pending =
            Pending { key, sequence: self.waiters.add(key, purpose.ticket()), purpose, bytes };
        match left {
            Ok(token) => drop(self.in_flight.insert(token, pending)),
            Err(op) => drop(self.queue.insert(pending.sequence, (pending, op))),
        }
        count(None, self.tally)
    }

    /// Performs an operation without the ring if it needs no disk; else returns it.
    fn finish_cached(&self, op: DiskOp) -> Result<Finished, DiskOp> {
        match op {
            DiskOp::Read(req) => read_cached(req).map(Finished::Read).map_err(DiskOp::Read),
            DiskOp::Open(req) => match open_cached(self.below.root, &req, self.below.rules) {
                Some(found) => Ok(Finished::Opened(found)),
                None => Err(DiskOp::Open(req)),
            },
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
            Finished::Read(_) | Finished::Prefetched => None,
        }
    }

    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        match self.start(DiskOp::Read(req), key, Purpose::Read(ticket), 0)? {
            Finished::Read(read) => Some(read),
            Finished::Opened(_) | Finished::Prefetched => None,
        }
    }

    fn prefetch(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64> {
        let Some((file, at, len)) = front(outbox, self.chunk_bytes) else { return Some(u64::MAX) };
        let op = DiskOp::Prefetch { file: file.clone(), at, len };
        self.start(op, key, Purpose::Prefetch, len).map(|_| len)
    }

    fn forget(&mut self, key: u64, what: Abandoned) {
        self.waiters.forget(key, what, |sequence| drop(self.queue.remove(&sequence)));
    }

    fn renew_root(&mut self) {
        self.ring.set_root(self.below.root);
    }

    fn source(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.source())
    }

    fn next_completion(&mut self) -> Option<Completion> {
        if self.done.is_empty() {
            self.take_finished();
        }
        while let Some((pending, finished)) = self.done.pop_front() {
            let Pending { key, sequence, purpose, bytes } = pending;
            let result = match (purpose, finished) {
                (Purpose::Open(ticket), Finished::Opened(found)) => {
                    DiskResult::Opened(ticket, found)
                }
                (Purpose::Read(ticket), Finished::Read(read)) => DiskResult::Read(ticket, read),
                _ => DiskResult::Prefetched(bytes),
            };
            if self.waiters.remove(key, sequence) {
                return Some(Completion { key, result, spent: Spent::default() });
            }
            self.tally.add(Counter::DiskCompletionsDropped, 1);
        }
        None
    }
}

/// Disk of a loop for which threads continue operations that would block.
struct NowaitDisk<'a, C> {
    helpers: Helpers<'a, C>,
    below: Below<'a>,
    chunk_bytes: u64,
    tally: Tally<'a>,
}

impl<C: HelperPool> Disk for NowaitDisk<'_, C> {
    fn open(&mut self, key: u64, ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        let over = count(open_cached(self.below.root, &req, self.below.rules), self.tally);
        if over.is_some() {
            return over;
        }
        let job = HelperJob::new(key, Purpose::Open(ticket), HelperTask::Open(req));
        self.helpers.submit_or_run(job, self.below)?.opened()
    }

    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        let req = match read_cached(req) {
            Ok(read) => return count(Some(read), self.tally),
            Err(req) => req,
        };
        count(None::<Read>, self.tally);
        let job = HelperJob::new(key, Purpose::Read(ticket), HelperTask::Read(req));
        self.helpers.submit_or_run(job, self.below)?.read()
    }

    fn prefetch(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64> {
        let Some((file, at, len)) = front(outbox, self.chunk_bytes) else { return Some(u64::MAX) };
        let there = (by_nowait(file, at, len) == Resident::Yes).then_some(len);
        if count(there, self.tally).is_some() {
            return there;
        }
        let req = ReadReq::new(file.clone(), at, len);
        let job = HelperJob::new(key, Purpose::Prefetch, HelperTask::Touch(req));
        self.helpers.submit_or_run(job, self.below).map(|_| len)
    }

    fn forget(&mut self, key: u64, what: Abandoned) {
        self.helpers.forget(key, what);
    }

    fn renew_root(&mut self) {
        self.helpers.renew_root();
    }

    fn source(&self) -> Option<BorrowedFd<'_>> {
        Some(self.helpers.source())
    }

    fn next_completion(&mut self) -> Option<Completion> {
        self.helpers.next_completion(self.below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        disk::{
            at_once::schedule::{CHUNK, Folder, Sums, run},
            helpers::schedule::RandomHelpers,
        },
        loops::event_loop::schedule::{Case, Setting, check, check_frames, check_sealed, run_all},
        testing::dice::{Dice, SEEDS},
    };
    use regatta_sys::{Bell, OpenRules, open_below, read_range};
    use regatta_testkit::{counters::arena, skips::skip};

    const LIMITS: HelperLimits =
        HelperLimits { helpers_max: 3, helpers_idle_max: 1, ..HelperLimits::PROMPT };
    /// Also operations that the kernel continues, however long that takes.
    #[test]
    fn every_operation_of_a_ring_ends_once() {
        let (folder, mut sums) = (Folder::new(), Sums::default());
        for seed in 0..SEEDS {
            let arena = arena(1);
            let root = &folder.root;
            let Ok(ring) = Ring::new(Some(root.try_clone().unwrap()), OpenRules::default()) else {
                return skip("needs io_uring");
            };
            let tally = Tally::Owned(arena.slot(0));
            let below = Below { root, rules: OpenRules::default() };
            let operations_max = [1, 3, 100][(seed % 3) as usize];
            let mut disk = RingDisk::new(ring, below, operations_max, CHUNK, tally);
            run(&mut disk, seed, &folder, &mut sums, |_, _, _| ());
        }
        assert!(sums.at_once > 1000, "{sums:?}");
    }

    #[test]
    fn every_operation_of_helpers_ends_once() {
        let (folder, mut sums) = (Folder::new(), Sums::default());
        let rules = OpenRules::default();
        for seed in 0..SEEDS {
            let arena = arena(1);
            let tally = Tally::Owned(arena.slot(0));
            let root = &folder.root;
            let below = Below { root, rules };
            if seed % 8 == 0 {
                let helpers = Helpers::new(HelperThreads::new(root, rules).unwrap(), LIMITS, tally);
                let mut disk = NowaitDisk { helpers, below, chunk_bytes: CHUNK, tally };
                run(&mut disk, seed, &folder, &mut sums, |_, _, _| ());
                continue;
            }
            let pool = RandomHelpers::new(seed, Some((root, rules)));
            let helpers = Helpers::new(pool, LIMITS, tally);
            let mut disk = NowaitDisk { helpers, below, chunk_bytes: CHUNK, tally };
            run(&mut disk, seed, &folder, &mut sums, |disk, dice, over| {
                disk.helpers.stir(dice, over);
            });
        }
        assert!(sums.at_once > 1000 && sums.given_up > 10, "{sums:?}");
        assert_eq!(sums.wishes_max, regatta_op::DISK_OPS_MAX, "{sums:?}");
    }
    /// A ring that completes operations at once or later, in random order.
    struct Scripted<'a> {
        dice: Dice,
        root: &'a Root,
        bell: Bell,
        /// Operations in flight, by token.
        jobs: Vec<Option<DiskOp>>,
    }

    impl Scripted<'_> {
        fn finish(&self, op: DiskOp) -> Finished {
            match op {
                DiskOp::Open(req) => {
                    Finished::Opened(open_below(self.root, &req, OpenRules::default()))
                }
                DiskOp::Read(req) => Finished::Read(read_range(req)),
                DiskOp::Prefetch { .. } => Finished::Prefetched,
            }
        }
    }

    impl Engine for Scripted<'_> {
        fn start(&mut self, op: DiskOp) -> Result<Finished, Token> {
            if self.dice.once_in(3) {
                return Ok(self.finish(op));
            }
            // Like a real ring, reuses a token as soon as its operation has been reported.
            let free = self.jobs.iter().position(Option::is_none);
            let token = free.unwrap_or(self.jobs.len());
            self.jobs.resize_with(self.jobs.len().max(token + 1), || None);
            self.jobs[token] = Some(op);
            Err(token as Token)
        }

        fn finished(&mut self, out: &mut Vec<(Token, Finished)>) -> io::Result<()> {
            let mut there: Vec<usize> = (0..self.jobs.len()).collect();
            there.retain(|token| self.jobs[*token].is_some());
            while let Some(token) = self.dice.take(&mut there)
                && !self.dice.once_in(4)
            {
                if let Some(op) = self.jobs[token].take() {
                    out.push((token as Token, self.finish(op)));
                }
            }
            Ok(())
        }

        fn source(&self) -> BorrowedFd<'_> {
            self.bell.as_fd()
        }
        fn set_root(&mut self, _: &Root) {}
    }

    #[test]
    fn a_loop_with_a_ring_forgets_none() {
        fn make<'a>(setting: &Setting<'a>) -> Box<dyn Disk + 'a> {
            let &Setting { seed, root, tally, .. } = setting;
            let (dice, bell) = (Dice::new(!seed), Bell::new().unwrap());
            let ring = Scripted { dice, root, bell, jobs: Vec::new() };
            let below = Below { root, rules: OpenRules::default() };
            Box::new(RingDisk::new(ring, below, [1, 100][(seed % 2) as usize], CHUNK, tally))
        }
        let test = "a_loop_with_a_ring_forgets_none";
        check(&run_all(Case::one(test), &make), 5);
        check_frames(&run_all(Case::frames(test), &make), 5);
        check_sealed(&run_all(Case { sealed: true, ..Case::one(test) }, &make), 3);
    }
}
