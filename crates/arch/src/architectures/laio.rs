//! LAIO, lazy asynchronous I/O (Elmeleegy, Chanda, Cox, Zwaenepoel, USENIX 2004). Every disk
//! operation completes at once if it can. Otherwise it continues elsewhere.
use crate::{
    Driver, Env, WorkError, WorkerLog,
    architectures::event::{self, EventOptions, EventWorker},
    disk::{
        at_once::{Completion, Disk, front},
        helper_threads::HelperThreads,
        helpers::{HelperJob, HelperLimits, HelperPool, HelperTask, Helpers, Purpose},
        ring_disk::{Engine, RingDisk, count},
    },
    drive::perform::Below,
    options::{Choice as _, Kind, OptionSpec, choice, joined, options},
};
use regatta_metrics::Tally;
use regatta_op::{Abandoned, OpenReq, Outbox, ReadReq, Ticket};
use regatta_sys::{
    OpenResult, Read, Resident, Root, StaticFile, by_nowait, open_cached, read_cached,
    uring::{DiskOp, Finished, Ring, Token},
};
use std::{
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

impl Engine for Ring {
    fn start(&mut self, op: DiskOp) -> Result<Finished, Token> {
        Self::start(self, op)
    }

    fn finished(&mut self, out: &mut Vec<(Token, Finished)>) -> io::Result<()> {
        Self::finished(self, out)
    }

    fn describe(&self, token: Token) -> String {
        self.subject(token).map_or_else(String::new, |subject| subject.to_string())
    }

    fn source(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn set_root(&mut self, root: &Root) {
        Self::set_root(self, root);
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

    fn check(&mut self, now_ns: u64, log: &dyn WorkerLog) {
        self.helpers.check("", now_ns, log);
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
                DiskOp::Fill { .. } => unreachable!("a lazy disk has no pipe"),
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

        fn describe(&self, _: Token) -> String {
            String::new()
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
