//! A process for each connection: every call blocks, and only the listeners are shared. MP of Pai,
//! Druschel and Zwaenepoel (1999), and of [E] §2; Apache's prefork.
use crate::{
    Driver, Env, Staffing, WorkError,
    architectures::event::WORKERS_MAX,
    conn::{
        accept::{AcceptOptions, AcceptRules},
        serve::{Blocking, Means, Until, converse, next},
        worker::Own,
    },
    disk::at_once::InlineDisk,
    drive::{ledger::STALL_US, perform::Below},
    options::{Choice as _, Kind, OptionSpec, choice, options},
};
use regatta_origin::LocalCache;
use regatta_sys::socket::{Mode, Steps};
use std::time::Duration;

/// The driver.
pub const DRIVER: Driver = Driver {
    ignores: &["accept.count", "accept.events_per_accept"],
    steps: |settings| Steps::All(MpOptions::read(settings).step()),
    staffing: |settings| MpOptions::read(settings).staffing(),
    ..Driver::plain(OPTIONS, |settings, _| settings.number_as("limits.connections_max"), work)
};

options! {
    /// The options of processes that have a connection each.
    struct MpOptions, OPTIONS;

    control: Control = OptionSpec {
        key: "mp.control",
        kind: Kind::Choice(Control::WORDS),
        default: "idle",
        doc: "How many processes there are.",
        long: "`idle`: as many as it takes for mp.spare_min to mp.spare_max to wait for a \
               connection, as Apache's prefork does it. A check each second starts one process if \
               too few wait, then 2, 4 and so on up to 32 while too few still do. It ends one if \
               too many wait. `fixed`: as many as there may be connections \
               (limits.connections_max), from the beginning.",
    },
    start: usize = OptionSpec {
        key: "mp.start",
        kind: Kind::Count { min: 1, max: WORKERS_MAX as u64 },
        default: "5",
        doc: "How many processes there are at the beginning.",
        long: "No more than limits.connections_max, and one for each address at least. Not with \
               mp.control=fixed.",
    },
    spare_min: usize = OptionSpec {
        key: "mp.spare_min",
        kind: Kind::Count { min: 1, max: WORKERS_MAX as u64 },
        default: "5",
        doc: "The least processes that wait for a connection, while there may be more processes.",
        long: "Of all addresses together; each has processes of its own. Further clients wait in \
               the backlog for the next check. Not with mp.control=fixed.",
    },
    spare_max: usize = OptionSpec {
        key: "mp.spare_max",
        kind: Kind::Count { min: 2, max: WORKERS_MAX as u64 },
        default: "10",
        doc: "The most processes that wait for a connection.",
        long: "If more do, one of them ends each second. Not with mp.control=fixed.",
    },
    requests_max: u64 = OptionSpec {
        key: "mp.requests_max",
        kind: Kind::Count { min: 0, max: u32::MAX as u64 },
        default: "0",
        doc: "How many requests a process serves before it ends, and another may take its place.",
        long: "Of a connection only the first counts, as for Apache's MaxRequestsPerChild. 0 sets \
               no limit.",
    },
    step_ms: u64 = OptionSpec {
        key: "mp.step_ms",
        kind: Kind::Millis { min: 20, max: 250 },
        default: "100",
        doc: "How long a call waits before its process looks at what else there is.",
        long: "A deadline is kept whatever this is. A process that has to end has 300 ms, and a \
               call that sends a file may last two steps.",
    },
    stall_us: u64 = STALL_US,
}

choice! {
    /// Control of the number of processes (`mp.control`).
    enum Control {
        /// Enough processes for some to be idle.
        Idle = "idle",
        /// A process for each connection that may be open.
        Fixed = "fixed",
    }
}

impl MpOptions {
    /// Limits on the number of processes, unless it is fixed.
    fn staffing(&self) -> Option<Staffing> {
        let Self { start, spare_min: idle_min, spare_max: idle_max, .. } = *self;
        (self.control == Control::Idle).then_some(Staffing { start, idle_min, idle_max })
    }

    const fn step(&self) -> Duration {
        Duration::from_millis(self.step_ms)
    }
}

/// Runs a process: one connection after another, from one of the listeners.
fn work(env: &Env, process: usize) -> Result<(), WorkError> {
    let options = MpOptions::read(&env.settings);
    let own = Own::new(env, process, None)?;
    let cache = LocalCache::new(&env.site.caching, env.site.seed);
    let accept = AcceptOptions::read(&env.settings);
    let rules = AcceptRules::new(&accept, 1, Mode::Blocking, false);
    let mut worker = own.worker(&cache, None, rules, options.stall_us * 1000);
    let mut disk = InlineDisk(Below { root: own.root, rules: env.rules });
    let mut means = Means {
        disk: &mut disk,
        buffer: vec![0; env.site.limits.head_bytes_max].into(),
        bytes_max: u64::MAX,
        listener: process % env.listeners(process).len(),
        // The process's only thread has its heartbeat.
        beat: None,
    };
    let mut served = 0;
    while let Some(accepted) = next(&mut worker, options.step(), &mut means) {
        let key = worker.admit(accepted, Blocking::new(options.step()));
        let _closed = converse(&mut worker, key, options.step(), &mut means, Until::Closed);
        served += 1;
        if served == options.requests_max {
            worker.around().slot.retire();
        }
    }
    Ok(())
}
