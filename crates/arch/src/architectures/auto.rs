//! The adaptive server: what is in memory is served inline, as in `sped`; what is not, by helpers
//! of its mount, as in `amped`. The kernel is asked first, without blocking.
use crate::{
    Demand, Driver, Env, Settings, WorkError, WorkerLog,
    architectures::event::{self, EventOptions, EventWorker},
    control::HelperRules,
    disk::{
        at_once::{Completion, Disk, count_residency, front},
        helper_threads::HelperThreads,
        helpers::{HelperJob, HelperPool, HelperTask, Purpose},
        mounts::{ControlMode, MOUNTS_MAX, MountControl, Mounts},
        probed::Probed,
    },
    drive::perform::Below,
    options::{Kind, OptionSpec, joined, options},
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Abandoned, File as _, OpenFault, OpenReq, Outbox, ReadReq, Ticket};
use regatta_sys::{
    OpenResult, Read, Resident, StaticFile, by_nowait, clock, has_gap, open_cached_on_mount,
    read_cached,
};
use std::os::fd::BorrowedFd;

/// The driver.
pub const DRIVER: Driver = Driver { demand, ..Driver::plain(&OPTIONS, event::processes, work) };

const OPTIONS: [OptionSpec; event::OPTIONS.len() + OWN.len()] = joined(event::OPTIONS, OWN);

options! {
    /// The options that no other driver has.
    struct AutoOptions, OWN;

    probe_ms: u64 = OptionSpec {
        key: "auto.probe_ms",
        kind: Kind::Millis { min: 0, max: 3_600_000 },
        default: "1 s",
        doc: "How long a range of a file that was found in memory is sent without another check.",
        long: "0 checks before each send, as does a request for a range within a chunk. A send \
               that takes as long as a stall (event.stall_us) ends the time of all ranges.",
    },
    chunk_bytes: u64 = OptionSpec {
        key: "auto.chunk_bytes",
        kind: Kind::Bytes { min: 4096, max: 16 << 20 },
        default: "256 KiB",
        doc: "How much of a file is checked at once, and read in by a helper.",
        long: "Pieces begin at multiples of it. What is in memory is sent as far as it is, in one \
               call.",
    },
    helpers_min: u32 = OptionSpec {
        key: "auto.helpers_min",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "4",
        doc: "How many helpers a mount may have at the start, and at least, in each worker.",
        long: "Helpers are threads. They are started when tasks wait for one, and half of them \
               are kept when idle. At most auto.helpers_max.",
    },
    helpers_max: u32 = OptionSpec {
        key: "auto.helpers_max",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "64",
        doc: "The most helpers of a mount, in each worker.",
        long: "A controller allows more while tasks wait and more helpers complete more tasks, and \
               fewer when most are idle.",
    },
    wait_us_max: u64 = OptionSpec {
        key: "auto.wait_us_max",
        kind: Kind::Micros { min: 0, max: 10_000_000 },
        default: "1 ms",
        doc: "How long tasks may wait for a helper, on average, before more helpers are tried.",
        long: "",
    },
    control_ms: u32 = OptionSpec {
        key: "auto.control_ms",
        kind: Kind::Millis { min: 10, max: 60_000 },
        default: "100",
        doc: "The least time between two decisions about the helpers of a mount.",
        long: "A decision also takes four tasks for each helper, or a quiet time.",
    },
    freeze: bool = OptionSpec {
        key: "auto.freeze",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether all controllers of auto stand still.",
        long: "Each mount then has auto.helpers_min helpers at most.",
    },
    dry_run: bool = OptionSpec {
        key: "auto.dry_run",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether controllers of auto only count and log their decisions.",
        long: "Each mount then has auto.helpers_min helpers at most.",
    },
    queue_max: usize = OptionSpec {
        key: "auto.queue_max",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "1024",
        doc: "How many tasks may wait for the helpers of a mount before requests for its files \
              are answered with 503.",
        long: "Requests for files of other mounts, and for files in memory, are served all the \
               time. Requests that wait are answered with 503 after limits.disk_ms_max.",
    },
}

/// Ranges up to this length are probed whole, and have no gap that a probe does not see.
const PROBED_WHOLE: u64 = 16 << 10;

fn demand(settings: &Settings, _: usize) -> Demand {
    let helpers = Demand::with_helpers(AutoOptions::read(settings).helpers_max as usize);
    // A bell for each mount, and a poller for the bells.
    Demand { descriptors: 1 + MOUNTS_MAX as u64, ..helpers }
}

fn work(env: &Env, worker: usize) -> Result<(), WorkError> {
    let options = EventOptions::read(&env.settings);
    let own = AutoOptions::read(&env.settings);
    let of = EventWorker { env, worker, options: &options, visits: None };
    event::work_owning(of, |worker, _| {
        let (root, tally) = (worker.root, worker.tally);
        let below = Below { root, rules: env.rules };
        let make = Box::new(move || HelperThreads::noting(root, below.rules));
        let control = MountControl { rules: own.bounds(), mode: own.mode(), log: worker.log() };
        let mounts = Mounts::new(make, below, control, tally);
        let mounts = mounts.map_err(WorkError::preparing("helpers"))?;
        Ok(Box::new(AutoDisk::new(mounts, below, own.rules(&options), tally)))
    })
}

impl AutoOptions {
    fn bounds(&self) -> HelperRules {
        let &Self { helpers_min, helpers_max, control_ms: period_ms, wait_us_max, .. } = self;
        let helpers_min = helpers_min.min(helpers_max);
        HelperRules { helpers_min, helpers_max, period_ms, wait_us_max }
    }

    const fn mode(&self) -> ControlMode {
        match (self.freeze, self.dry_run) {
            (true, _) => ControlMode::Frozen,
            (false, true) => ControlMode::DryRun,
            (false, false) => ControlMode::Acts,
        }
    }

    const fn rules(&self, event: &EventOptions) -> AutoRules {
        AutoRules {
            probe_ns: self.probe_ms.saturating_mul(1_000_000),
            chunk_bytes: self.chunk_bytes,
            send_bytes_max: event.turn_bytes_max,
            queue_max: self.queue_max,
            stall_ns: event.stall_ns(),
        }
    }
}

/// Rules of a disk.
#[derive(Clone, Copy, Debug)]
struct AutoRules {
    probe_ns: u64,
    chunk_bytes: u64,
    /// Most bytes that one turn sends.
    send_bytes_max: u64,
    queue_max: usize,
    stall_ns: u64,
}

/// The disk of a loop that serves inline what is in memory.
struct AutoDisk<'a, C> {
    mounts: Mounts<'a, C>,
    below: Below<'a>,
    rules: AutoRules,
    probed: Probed,
    /// Whether the kernel reports to this user which pages it caches.
    sees_gaps: bool,
    /// Whether the range that is being sent was found in memory.
    vouched: bool,
    tally: Tally<'a>,
}

impl<'a, C: HelperPool> AutoDisk<'a, C> {
    fn new(mounts: Mounts<'a, C>, below: Below<'a>, rules: AutoRules, tally: Tally<'a>) -> Self {
        let probed = Probed::new(rules.probe_ns);
        Self { mounts, below, rules, probed, sees_gaps: true, vouched: false, tally }
    }

    /// Counts an operation as performed inline, or by a helper.
    fn count(&self, inline: bool) {
        let counter = if inline { Counter::LaioInline } else { Counter::LaioDeferred };
        self.tally.add(counter, 1);
    }

    /// Whether a range of a chunk is in memory, as far as is known or a probe finds out.
    fn is_resident(&mut self, file: &StaticFile, at: u64, len: u64, now_ns: u64) -> bool {
        let chunk = at / self.rules.chunk_bytes;
        if self.probed.contains(file.id(), chunk, now_ns) {
            return true;
        }
        let mut found = by_nowait(file, at, len);
        // The probes of a long range are samples. The page cache's own account finds what they
        // miss, but counts pages that are still being read.
        if found == Resident::Yes && len > PROBED_WHOLE && self.sees_gaps {
            let gap = has_gap(file, at, len);
            self.sees_gaps = gap.is_some();
            if gap == Some(true) {
                found = Resident::No;
            }
        }
        let is_resident = count_residency(self.tally, found);
        let (end, chunk_bytes) = (at + len, self.rules.chunk_bytes);
        let is_whole = at.is_multiple_of(chunk_bytes)
            && (end.is_multiple_of(chunk_bytes) || end >= file.len());
        if is_resident && is_whole {
            self.probed.add(file.id(), chunk, now_ns);
        }
        is_resident
    }

    /// Bytes of a range that are in memory, from its beginning.
    fn resident(&mut self, file: &StaticFile, at: u64, len: u64) -> u64 {
        let (now_ns, chunk_bytes) = (clock::nanos(), self.rules.chunk_bytes);
        let most = len.min(self.rules.send_bytes_max);
        let mut there = 0;
        while there < most {
            let next = at + there;
            let piece = (len - there).min(chunk_bytes - next % chunk_bytes);
            if !self.is_resident(file, next, piece, now_ns) {
                break;
            }
            there += piece;
        }
        there
    }
}

impl<C: HelperPool> Disk for AutoDisk<'_, C> {
    fn open(&mut self, key: u64, ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        let Below { root, rules } = self.below;
        if self.mounts.opens_in_memory(&req)
            && let Some(found) = open_cached_on_mount(root, &req, rules)
        {
            self.count(true);
            return Some(found);
        }
        let mount = self.mounts.of_path(&req);
        if self.mounts.queued(mount) >= self.rules.queue_max {
            self.tally.add(Counter::HelperTasksRefused, 1);
            return Some(Err(OpenFault::Busy));
        }
        self.count(false);
        let job = HelperJob::new(key, Purpose::Open(ticket), HelperTask::Open(req));
        self.mounts.submit_or_run(mount, job)?.opened()
    }

    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        let req = match read_cached(req) {
            Ok(read) => {
                self.count(true);
                return Some(read);
            }
            Err(req) => req,
        };
        self.count(false);
        let mount = self.mounts.of_device(req.file.id().device);
        let job = HelperJob::new(key, Purpose::Read(ticket), HelperTask::Read(req));
        self.mounts.submit_or_run(mount, job)?.read()
    }

    fn prefetch(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64> {
        let Some((file, at, len)) = front(outbox, u64::MAX) else { return Some(u64::MAX) };
        let there = self.resident(file, at, len);
        self.vouched = there > 0;
        self.count(self.vouched);
        if self.vouched {
            return Some(there);
        }
        let len = len.min(self.rules.chunk_bytes - at % self.rules.chunk_bytes);
        let req = ReadReq::new(file.clone(), at, len);
        let job = HelperJob::new(key, Purpose::Prefetch, HelperTask::Touch(req));
        let mount = self.mounts.of_device(file.id().device);
        self.mounts.submit_or_run(mount, job).map(|_| len)
    }

    fn sent(&mut self, ns: u64) {
        if std::mem::take(&mut self.vouched) && ns >= self.rules.stall_ns {
            self.tally.add(Counter::ResidencyFalse, 1);
            // Memory is short, or the machine is busy: ask again.
            self.probed.clear();
        }
    }

    fn forget(&mut self, key: u64, what: Abandoned) {
        self.mounts.forget(key, what);
    }

    fn renew_root(&mut self) {
        self.mounts.renew_root();
    }

    fn source(&self) -> Option<BorrowedFd<'_>> {
        Some(self.mounts.source())
    }

    fn check(&mut self, now_ns: u64, log: &dyn WorkerLog) {
        self.mounts.check(now_ns, log);
    }

    fn next_completion(&mut self) -> Option<Completion> {
        self.mounts.next_completion()
    }
}

#[cfg(test)]
mod tests;
