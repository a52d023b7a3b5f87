//! SYMPED whose number of processes follows how long they wait for the disk: what [E] §5.1 plans.
//! The processes are those of the event driver; the master starts and retires them.
use crate::{
    Driver, Env, WaitRules, WorkError,
    architectures::event::{self, EventOptions, EventWorker, WORKERS_MAX},
    disk::at_once::InlineDisk,
    drive::perform::Below,
    options::{Kind, OptionSpec, Settings, joined, options},
};

/// The driver.
pub const DRIVER: Driver = Driver {
    waits: |settings| Some(StaffOptions::read(settings).rules()),
    ..Driver::plain(&OPTIONS, processes, work)
};

const OPTIONS: [OptionSpec; event::LOOP_OPTIONS.len() + OWN.len()] =
    joined(&event::LOOP_OPTIONS, OWN);

options! {
    /// The options that no other driver has.
    struct StaffOptions, OWN;

    processes_min: usize = OptionSpec {
        key: "staff.processes_min",
        kind: Kind::Count { min: 0, max: WORKERS_MAX as u64 },
        default: "0",
        doc: "How many processes serve at least, and at the beginning.",
        long: "0 means one for each processor that the server may use.",
    },
    processes_max: usize = OptionSpec {
        key: "staff.processes_max",
        kind: Kind::Count { min: 1, max: WORKERS_MAX as u64 },
        default: "16",
        doc: "How many processes serve at most.",
        long: "No fewer than staff.processes_min. limits.connections_max and the memory for caches \
               are divided evenly among this many, whether they run or not.",
    },
    wait_high_percent: u64 = OptionSpec {
        key: "staff.wait_high_percent",
        kind: Kind::Count { min: 1, max: 100 },
        default: "20",
        doc: "Share of their time that processes wait for the disk from which one more starts.",
        long: "Percent, on average over all processes and a period.",
    },
    wait_low_percent: u64 = OptionSpec {
        key: "staff.wait_low_percent",
        kind: Kind::Count { min: 0, max: 100 },
        default: "5",
        doc: "Share of their time that processes wait for the disk up to which one retires.",
        long: "Percent, as staff.wait_high_percent, and in effect no more than half of it. Between \
               the two the number stays.",
    },
    period_ms: u64 = OptionSpec {
        key: "staff.period_ms",
        kind: Kind::Millis { min: 100, max: 600_000 },
        default: "1 s",
        doc: "How long processes are measured before a decision.",
        long: "The period after a change decides nothing: a new process first fills its cache.",
    },
    calm_periods: u32 = OptionSpec {
        key: "staff.calm_periods",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "10",
        doc: "How many periods in a row must be calm before a process retires.",
        long: "A period is calm if processes wait no more than staff.wait_low_percent.",
    },
    freeze: bool = OptionSpec {
        key: "staff.freeze",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether the number of processes stays as it is at the beginning.",
        long: "Decisions are still made and logged, and nothing follows them.",
    },
}

impl StaffOptions {
    fn rules(&self) -> WaitRules {
        WaitRules {
            processes_min: self.processes_min.max(1),
            high_percent: self.wait_high_percent,
            low_percent: self.wait_low_percent.min(self.wait_high_percent / 2),
            period_ms: self.period_ms,
            calm_periods: self.calm_periods,
            freeze: self.freeze,
        }
    }
}

/// The most processes.
fn processes(settings: &Settings, _processors: usize) -> usize {
    let options = StaffOptions::read(settings);
    options.processes_max.max(options.processes_min)
}

fn work(env: &Env, worker: usize) -> Result<(), WorkError> {
    let options = EventOptions::of_loop(&env.settings);
    let of = EventWorker { env, worker, options: &options, visits: None };
    event::work_with(of, |root, _, _| Ok(Box::new(InlineDisk(Below { root, rules: env.rules }))))
}
