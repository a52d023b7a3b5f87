//! AMPED, asymmetric multi-process event-driven: an event loop, and helpers for everything that may
//! block on disk (Flash: Pai, Druschel, Zwaenepoel, USENIX 1999).
use crate::{
    Demand, Driver, Env, Settings, WorkError, WorkerLog,
    architectures::event::{self, EventOptions, EventWorker},
    disk::{
        at_once::{Completion, Disk, count_residency, front},
        helper_processes::Processes,
        helper_threads::HelperThreads,
        helpers::{HelperJob, HelperLimits, HelperPool, HelperTask, Helpers, Purpose},
    },
    drive::perform::{self, Below},
    options::{Choice as _, Kind, OptionSpec, choice, joined, options},
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Abandoned, OpenReq, Outbox, ReadReq, Ticket};
use regatta_sys::{OpenResult, Read, Resident, StaticFile, by_cachestat, by_mincore, by_nowait};
use std::os::fd::BorrowedFd;

/// The driver.
pub const DRIVER: Driver = Driver { demand, ..Driver::plain(&OPTIONS, event::processes, work) };

const OPTIONS: [OptionSpec; event::OPTIONS.len() + OWN.len()] = joined(event::OPTIONS, OWN);

options! {
    /// The options that no other driver has.
    struct AmpedOptions, OWN;

    helper_kind: HelperKind = OptionSpec {
        key: "amped.helper_kind",
        kind: Kind::Choice(HelperKind::WORDS),
        default: "threads",
        doc: "Whether helpers are threads or processes.",
        long: "`threads` share the memory and descriptors of the event loop. `processes` are \
               forked by the worker and have one channel each, as in Flash; a fork takes longer \
               the more memory the worker has.",
    },
    helpers_max: usize = OptionSpec {
        key: "amped.helpers_max",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "16",
        doc: "The most helpers of a worker.",
        long: "Helpers are started when tasks wait for one. Tasks that come while all helpers are \
               busy wait in a queue; the number of open connections bounds it.",
    },
    helpers_idle_max: usize = OptionSpec {
        key: "amped.helpers_idle_max",
        kind: Kind::Count { min: 0, max: 1024 },
        default: "8",
        doc: "The most helpers that are kept while they have nothing to do.",
        long: "Others are stopped when they have had nothing to do for a second, at the end of \
               another's task.",
    },
    pass_descriptors: bool = OptionSpec {
        key: "amped.pass_descriptors",
        kind: Kind::Bool,
        default: "true",
        doc: "Whether helper processes pass the files that they open to the event loop.",
        long: "If not, the event loop opens the file again after a helper has found it, as the \
               original Flash did. If the metadata is no longer in memory by then, the loop waits \
               for the disk (Ruan, Pai, USENIX 2004). Helper threads always share what they open.",
    },
    residency: Residency = OptionSpec {
        key: "amped.residency",
        kind: Kind::Choice(Residency::WORDS),
        default: "preadv2",
        doc: "How the event loop finds out whether a range of a file is in memory before it sends \
              or reads it.",
        long: "`preadv2` tries to read it without blocking (RWF_NOWAIT): all of a range up to 16 \
               KiB, samples of a longer one. `mincore`, as in Flash, maps the range; Linux gives \
               a true answer only to users who own the file or may write it. `cachestat` has the \
               same condition, but reports an error instead. `always-ask` gives every range to a \
               helper, `never-ask` none.",
    },
    chunk_bytes: u64 = OptionSpec {
        key: "amped.chunk_bytes",
        kind: Kind::Bytes { min: 4096, max: 16 << 20 },
        default: "256 KiB",
        doc: "How much of a file is tested, read in by a helper, and sent at once.",
        long: "Pieces begin at multiples of it.",
    },
}

choice! {
    /// Kind of helpers (`amped.helper_kind`).
    enum HelperKind {
        /// Threads of the loop's process.
        Threads = "threads",
        /// Processes, as in Flash.
        Processes = "processes",
    }
}

choice! {
    /// Test of whether a range is in memory (`amped.residency`).
    enum Residency {
        /// A read that must not block.
        Preadv2 = "preadv2",
        /// A mapping, as in Flash.
        Mincore = "mincore",
        /// The page cache's own account.
        Cachestat = "cachestat",
        /// Takes every range for absent.
        AlwaysAsk = "always-ask",
        /// Takes every range for present.
        NeverAsk = "never-ask",
    }
}

fn demand(settings: &Settings, _: usize) -> Demand {
    let own = AmpedOptions::read(settings);
    let with_helpers = Demand::with_helpers(own.helpers_max);
    match own.helper_kind {
        HelperKind::Processes => with_helpers,
        HelperKind::Threads => Demand { descriptors: 0, ..with_helpers },
    }
}

fn work(env: &Env, worker: usize) -> Result<(), WorkError> {
    let options = EventOptions::read(&env.settings);
    let own = AmpedOptions::read(&env.settings);
    let of = EventWorker { env, worker, options: &options, visits: None };
    event::work_with(of, |root, tally, _| {
        let fault = WorkError::preparing("helpers");
        let (below, stall_ns) = (Below { root, rules: env.rules }, options.stall_ns());
        match own.helper_kind {
            HelperKind::Processes => {
                let pass = own.pass_descriptors;
                let pool = Processes::new(root, env.rules, pass, tally).map_err(fault)?;
                Ok(Box::new(HelperDisk::new(&own, stall_ns, below, pool, tally)))
            }
            HelperKind::Threads => {
                let pool = HelperThreads::new(root, env.rules).map_err(fault)?;
                Ok(Box::new(HelperDisk::new(&own, stall_ns, below, pool, tally)))
            }
        }
    })
}

/// Test of whether a range is in memory.
#[derive(Clone, Copy, Debug)]
enum Test {
    By(fn(&StaticFile, u64, u64) -> Resident),
    Always(Resident),
}

/// The disk of a loop with helpers.
struct HelperDisk<'a, C> {
    helpers: Helpers<'a, C>,
    below: Below<'a>,
    test: Test,
    chunk_bytes: u64,
    stall_ns: u64,
    /// Whether the range that is being sent was found in memory.
    vouched: bool,
    tally: Tally<'a>,
}

impl<'a, C: HelperPool> HelperDisk<'a, C> {
    fn new(
        options: &AmpedOptions,
        stall_ns: u64,
        below: Below<'a>,
        pool: C,
        tally: Tally<'a>,
    ) -> Self {
        let &AmpedOptions { helpers_max, helpers_idle_max, chunk_bytes, .. } = options;
        let limits = HelperLimits { helpers_max, helpers_idle_max, ..HelperLimits::PROMPT };
        Self {
            helpers: Helpers::new(pool, limits, tally),
            below,
            test: match options.residency {
                Residency::Preadv2 => Test::By(by_nowait),
                Residency::Mincore => Test::By(by_mincore),
                Residency::Cachestat => Test::By(by_cachestat),
                Residency::AlwaysAsk => Test::Always(Resident::No),
                Residency::NeverAsk => Test::Always(Resident::Yes),
            },
            chunk_bytes,
            stall_ns,
            vouched: false,
            tally,
        }
    }

    fn is_resident(&self, file: &StaticFile, at: u64, len: u64) -> bool {
        match self.test {
            Test::Always(answer) => answer == Resident::Yes,
            Test::By(test) => count_residency(self.tally, test(file, at, len)),
        }
    }
}

impl<C: HelperPool> Disk for HelperDisk<'_, C> {
    fn open(&mut self, key: u64, ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        let job = HelperJob::new(key, Purpose::Open(ticket), HelperTask::Open(req));
        self.helpers.submit_or_run(job, self.below)?.opened()
    }

    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        if self.is_resident(&req.file, req.at, req.len) {
            return Some(perform::read(req));
        }
        let job = HelperJob::new(key, Purpose::Read(ticket), HelperTask::Touch(req));
        self.helpers.submit_or_run(job, self.below)?.read()
    }

    fn prefetch(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64> {
        let Some((file, at, len)) = front(outbox, self.chunk_bytes) else { return Some(u64::MAX) };
        self.vouched = self.is_resident(file, at, len);
        if self.vouched {
            return Some(len);
        }
        let req = ReadReq::new(file.clone(), at, len);
        let job = HelperJob::new(key, Purpose::Prefetch, HelperTask::Touch(req));
        self.helpers.submit_or_run(job, self.below).map(|_| len)
    }

    fn sent(&mut self, ns: u64) {
        if std::mem::take(&mut self.vouched) && ns >= self.stall_ns {
            self.tally.add(Counter::ResidencyFalse, 1);
        }
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
        loops::event_loop::schedule::{
            Case, LOOP_SEEDS, Setting, check, check_frames, check_http2, check_sealed, run_all,
        },
        testing::dice::SEEDS,
    };
    use regatta_op::DISK_OPS_MAX;
    use regatta_sys::{OpenRules, Root};
    use regatta_testkit::counters::arena;

    /// A disk with these helpers and this residency test.
    fn disk<'a, C: HelperPool>(
        root: &'a Root,
        pool: C,
        test: Test,
        tally: Tally<'a>,
    ) -> HelperDisk<'a, C> {
        let limits = HelperLimits { helpers_max: 3, helpers_idle_max: 1, ..HelperLimits::PROMPT };
        HelperDisk {
            helpers: Helpers::new(pool, limits, tally),
            below: Below { root, rules: OpenRules::default() },
            test,
            chunk_bytes: CHUNK,
            stall_ns: u64::MAX,
            vouched: false,
            tally,
        }
    }

    #[test]
    fn every_operation_ends_once_whoever_leaves_or_dies() {
        let (folder, mut sums) = (Folder::new(), Sums::default());
        let rules = OpenRules::default();
        for seed in 0..SEEDS {
            let arena = arena(1);
            let tally = Tally::Owned(arena.slot(0));
            let test = match seed % 4 {
                0 => Test::By(by_nowait),
                1 => Test::By(by_mincore),
                _ => Test::Always(Resident::No),
            };
            if seed % 8 < 2 {
                let pool = HelperThreads::new(&folder.root, rules).unwrap();
                let mut disk = disk(&folder.root, pool, test, tally);
                run(&mut disk, seed, &folder, &mut sums, |_, _, _| ());
                continue;
            }
            let pool = RandomHelpers::new(seed, Some((&folder.root, rules)));
            let mut disk = disk(&folder.root, pool, test, tally);
            run(&mut disk, seed, &folder, &mut sums, |disk, dice, over| {
                disk.helpers.stir(dice, over);
            });
        }
        assert!(sums.at_once > 100 && sums.later > 1000 && sums.left > 300, "{sums:?}");
        assert!(sums.given_up > 300 && sums.wishes_max == DISK_OPS_MAX, "{sums:?}");
    }
    /// Helpers reply in any order, fail to start, and die.
    #[test]
    fn a_loop_with_helpers_forgets_none() {
        fn make<'a>(setting: &Setting<'a>) -> Box<dyn Disk + 'a> {
            let &Setting { seed, root, tally, .. } = setting;
            let pool = RandomHelpers::new(seed, Some((root, OpenRules::default()))).unpaced();
            let test = match seed % 4 {
                0 => Test::By(by_nowait),
                _ => Test::Always(Resident::No),
            };
            Box::new(disk(root, pool, test, tally))
        }
        let test = "a_loop_with_helpers_forgets_none";
        check(&run_all(Case::one(test), &make), 5);
        check_frames(&run_all(Case::frames(test), &make), 5);
        check_http2(&run_all(Case::http2(test), &make), 3);
        check_sealed(&run_all(Case { sealed: true, ..Case::one(test) }, &make), 3);
        check_sealed(&run_all(Case { sealed: true, ..Case::frames(test) }, &make), 3);
    }
    /// Helpers that never reply: every connection ends, and its slot is freed.
    #[test]
    fn a_disk_that_never_answers_keeps_no_slot() {
        fn make<'a>(setting: &Setting<'a>) -> Box<dyn Disk + 'a> {
            let &Setting { seed, root, tally, .. } = setting;
            let pool =
                RandomHelpers::new(seed, Some((root, OpenRules::default()))).unpaced().hanging();
            Box::new(disk(root, pool, Test::Always(Resident::No), tally))
        }
        let test = "a_disk_that_never_answers_keeps_no_slot";
        for frames in [false, true] {
            let sums = run_all(Case { hangs: true, frames, ..Case::one(test) }, &make);
            assert!(sums.schedules < LOOP_SEEDS || sums.given_up > LOOP_SEEDS / 4, "{sums:?}");
        }
    }
}
