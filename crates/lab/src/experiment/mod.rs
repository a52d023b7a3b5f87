//! Experiments as data: a question, what is expected, and how it will be answered.
//!
//! One TOML file each; docs/lab.md describes it. `[scale.quick]`, `[scale.replica]` and
//! `[scale.full]` hold what differs at that scale and are laid over the rest before it is read.

mod check;
pub mod claim_row;
pub(crate) mod client;
mod environment;
mod file;
pub mod library;
mod metrics;
pub(crate) mod multiples;
mod parse;
pub mod plan;
mod read_claims;
#[cfg(test)]
mod tests;

pub use check::CELLS_MAX;
pub use claim_row::{
    ArmAt, ArmNumber, ClaimAsk, ClaimRow, Compared, Comparison, DerivedNumber, LevelChoice, Need,
    RatePlace, ScaleNumber, Tell, TrialNumber,
};
pub use client::{Client, Encryption, RequestFields};
pub(crate) use file::{extends, flatten, nearest};
pub use metrics::is_metric;
pub(crate) use metrics::{more_is_better, words, words_with_unit};
pub(crate) use multiples::rate;
pub use parse::{parse, parse_by};

use crate::env::Spec;
use crate::env::spec::processors;
use crate::programs::Other;
use crate::record::target_option;
use clap::ValueEnum;
use regatta_load::named;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rules of the measured program for its options. The lab itself knows none.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Fault of an option (`section.key`) and its value alone; None: it has none.
    pub fault: fn(&str, &str) -> Option<String>,
    /// Reasons for which the program would not start here with all of these options: they conflict,
    /// or this machine has too little of something. Empty: it would start.
    pub refused: fn(&BTreeMap<String, String>) -> Vec<String>,
}

/// Rules of a program that accepts everything.
impl Default for Rules {
    fn default() -> Self {
        Self { fault: |_, _| None, refused: |_| Vec::new() }
    }
}

named! {
    /// Time that an experiment takes.
    #[derive(Default, PartialOrd, Ord, ValueEnum)]
    pub enum Scale {
        /// Minutes.
        #[default]
        Quick = "quick",
        // systems.md §5.2.
        /// The papers' set-up, scaled to this machine.
        Replica = "replica",
        /// The papers' own sizes.
        Full = "full",
    }
}

/// An experiment at one scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    pub name: String,
    pub question: String,
    /// Expectation, written before the run.
    pub expect: String,
    /// The figures and tables it stands for, such as `[H] figure 3`.
    pub papers: Vec<String>,
    /// The claims to judge afterwards, such as `H-1`.
    pub claims: Vec<String>,
    /// Rows of claims: comparisons of its arms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<ClaimRow>,
    #[serde(default)]
    pub targets: Vec<Target>,
    /// The target that the others are compared with, and that runs twice.
    pub baseline: String,
    #[serde(default)]
    pub factors: Vec<Factor>,
    pub workload: Workload,
    /// Calibration, by which rates written as multiples (`1.5x`) become rates.
    pub calibrate: Option<Calibrate>,
    pub machine: Machine,
    pub environment: Spec,
    pub measure: Measure,
    /// Limits beyond which a trial is worthless.
    pub guards: Guards,
    /// Settings of a saturation search, where one is made.
    pub knee: KneeSearch,
}

impl Experiment {
    /// Whether there is a factor at this path.
    pub(crate) fn varies(&self, path: &str) -> bool {
        self.factors.iter().any(|factor| factor.path == path)
    }

    /// Takes what a run has found before its first trial.
    pub(crate) fn take_found(&mut self, layout: Option<CpuLayout>, seek_ms: Option<f64>) {
        self.machine.layout = layout.unwrap_or(self.machine.layout);
        if let (Some(seek_ms), Some(disk)) = (seek_ms, &mut self.environment.disk) {
            disk.seek_ms = seek_ms;
        }
    }
}

/// A server under one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    pub name: String,
    pub program: Program,
    /// Regatta's options (`section.key`), in order.
    pub config: BTreeMap<String, String>,
    /// The program's file instead of the usual one, such as of another build.
    pub binary: Option<String>,
}

impl Target {
    /// Whether it is regatta as it runs here, and no other build of it.
    pub(crate) fn is_ours(&self) -> bool {
        self.program == Program::Regatta && self.binary.is_none()
    }
}

/// The programs that the lab knows how to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    Regatta,
    /// The bare loop, `regatta null`: the ceiling.
    Null,
    /// The bare loop over io_uring.
    NullUring,
    /// Any command; `{host}`, `{port}` and `{root}` are filled in.
    Command(Vec<String>),
    /// Another server with a template of ours.
    #[serde(untagged)]
    Other(Other),
}

impl Program {
    /// Whether it is a bare loop, which sends the same bytes whatever is asked for.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(self, Self::Null | Self::NullUring)
    }
}

/// The factor that rates are.
pub(crate) const RATE: &str = "workload.rate";
/// The factor of connections.
pub(crate) const CONNECTIONS: &str = "workload.connections";
/// The factor of think times.
pub(crate) const THINK: &str = "workload.think";
/// The factor that says how many of its processors the server gets.
pub(crate) const PROCESSORS: &str = "machine.processors";
/// The factor that is the layout: a word of [`CpuLayout`].
pub(crate) const LAYOUT: &str = "machine.layout";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Path: `workload.rate`, `workload.connections`, `workload.target`, `workload.fields`,
    /// `workload.tls`, `workload.streams`, `machine.processors`, `environment.KEY`, or
    /// `targets.NAME.config.section.key`.
    pub path: String,
    pub levels: Vec<String>,
}

impl Factor {
    /// The target that it belongs to and the option it sets; None if it concerns all targets.
    pub fn of_target(&self) -> Option<(&str, &str)> {
        target_option(&self.path)
    }

    /// Last words of the path, for axes and headings.
    pub fn label(&self) -> &str {
        match self.of_target() {
            Some((_, key)) => key,
            None => ["workload.", "environment.", "machine."]
                .iter()
                .find_map(|part| self.path.strip_prefix(part))
                .unwrap_or(&self.path),
        }
    }
}

/// Timing of requests: after responses, or on a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// Connections that wait for their replies.
    #[default]
    Closed,
    /// Requests that arrive on their own.
    Open,
    /// Sessions that arrive on their own.
    PartlyOpen,
}

/// With a directory of one's own, or by wrk or h2load: what is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// `workload.target`, always.
    #[default]
    Target,
    /// Every file, the popular ones more often (Zipf).
    Files,
    /// Requests of `workload.log`.
    Log,
    /// The files of a preset that are asked for, one after another.
    Rotation,
}

/// Requests to the servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The preset of `regatta workload` whose files are served and asked for.
    pub preset: Option<String>,
    /// Directories of its file set, instead of the preset's.
    pub dirs: Option<u32>,
    /// Requests in each of its logs, instead of the preset's.
    pub requests: Option<u32>,
    /// A directory to serve instead of a preset.
    pub root: Option<String>,
    /// With `root`: whether one target is asked for, or all files.
    pub ask: Ask,
    /// The access log that says what is asked for, and how often.
    pub log: Option<String>,
    /// With `root` and one target, and of wrk and h2load always: that. In a rotation it is the file
    /// whose replies are compared.
    pub target: String,
    #[serde(default)]
    pub client: Client,
    /// Field lines of the requests of wrk or h2load.
    #[serde(default)]
    pub fields: RequestFields,
    /// Encryption of the connections of wrk or h2load.
    #[serde(default)]
    pub tls: Encryption,
    /// Requests that h2load has open on a connection.
    #[serde(default = "one_stream")]
    pub streams: u32,
    #[serde(rename = "loop", alias = "model")]
    pub model: Loop,
    /// Requests (or sessions) per second: a number, or a multiple of the calibrated rate (`1.5x`).
    #[serde(deserialize_with = "multiples::rate_text")]
    pub rate: String,
    /// `constant`, `poisson` or `uniform`.
    pub arrivals: String,
    pub connections: u32,
    /// Connections that are asked once and then held, silent, instead of the preset's.
    pub idle: Option<u32>,
    /// Requests on one connection; 0: no limit.
    pub requests_per_connection: u32,
    /// Whether sessions have their think times, `kept`, or none.
    pub think: String,
    /// Time-out on the wire, such as `900ms`.
    pub timeout: String,
    /// The service level, such as `p99<50ms,errors<1%`.
    pub slo: Option<String>,
    /// Whether every byte of every reply is compared.
    pub verify: bool,
}

const fn one_stream() -> u32 {
    1
}

/// A rate found before the trials, that others are multiples of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibrate {
    /// The target whose highest rate it is: the baseline unless the file says another.
    pub target: String,
    /// Kind of load. A closed one gives its own rate, an open one the most good answers.
    #[serde(rename = "loop", default)]
    pub model: Loop,
    /// Share of the time for which one event loop is to wait for the simulated disk. The disk's
    /// seek is found for that; 0: it is as the file says.
    #[serde(default)]
    pub disk_wait: f64,
    pub connections: u32,
    pub seconds: f64,
    /// Tries; the median counts.
    pub tries: u32,
    /// Whether it is found again before each block, whose multiples are of its own.
    #[serde(default)]
    pub each_block: bool,
}

named! {
    #[derive(Default)]
    pub enum CpuLayout {
        /// Each its own. What they share moves between processors, and how long that takes changes
        /// where a hypervisor moves them.
        #[default]
        Apart = "apart",
        /// The load on the first of the server's processors, with a fixed share of it. The server
        /// has exactly the rest. A simulated disk stays on the client's.
        Together = "together",
        /// The one of both that tells two equal servers apart least, found before the first trial.
        Auto = "auto",
    }
}

/// Share of a processor left to a server that shares it with the load, per cent, where the
/// experiment does not say (`server_left`).
const LEFT_TOGETHER: u32 = 50;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Placement of the load on these.
    #[serde(default)]
    pub layout: CpuLayout,
    #[serde(deserialize_with = "processors")]
    pub server_cpus: Vec<usize>,
    /// Processors of the load generator, and of a simulated disk.
    #[serde(deserialize_with = "processors")]
    pub client_cpus: Vec<usize>,
    /// Run the load before everything else on the machine (`chrt -f`), and the server before all
    /// ordinary work (nice -20), if we are root.
    pub realtime: bool,
    /// Share of each of the server's processors that is left, per cent
    /// ([`crate::env::spec::Cpu::left_percent`]); 100: all. With less, one generator can offer more
    /// than the server can answer.
    pub server_left: u32,
    /// Drop the page cache before each trial (takes root).
    pub drop_caches: bool,
}

impl Machine {
    /// With the layout of a cell's levels, and the processors that they give the server: the first
    /// of its own.
    #[must_use]
    pub fn at(&self, levels: &BTreeMap<String, String>) -> Self {
        let mut at = self.clone();
        let processors = levels.get(PROCESSORS).and_then(|level| level.parse().ok());
        at.server_cpus.truncate(processors.unwrap_or(usize::MAX));
        at.layout = levels.get(LAYOUT).and_then(|name| CpuLayout::named(name)).unwrap_or(at.layout);
        at
    }

    /// The processors that the load runs on.
    pub(crate) fn load_cpus(&self) -> &[usize] {
        match (self.layout, self.server_cpus.first()) {
            (CpuLayout::Together, Some(_)) => &self.server_cpus[..1],
            _ => &self.client_cpus,
        }
    }

    /// The processors that a simulated disk runs on where the load is elsewhere; empty: the load's.
    pub(crate) fn disk_cpus(&self) -> &[usize] {
        if self.layout == CpuLayout::Together { &self.client_cpus } else { &[] }
    }

    /// The share of the server's processor that the load holds, per cent; None: it has its own.
    pub(crate) fn load_share(&self) -> Option<u32> {
        (self.layout == CpuLayout::Together).then(|| 100 - self.left())
    }

    /// Share of each of its processors that the server has, per cent.
    pub(crate) fn left(&self) -> u32 {
        match (self.layout, self.server_left) {
            (CpuLayout::Together, 100) => LEFT_TOGETHER,
            (_, left) => left,
        }
    }

    /// The share of the server's processors that the load holds, from 0 to 1.
    pub(crate) fn held(&self) -> f64 {
        let processors = crate::stats::count(self.server_cpus.len().max(1));
        self.load_share().map_or(0.0, |share| f64::from(share) / 100.0 / processors)
    }

    /// Share of each of the server's processors that the simulated task leaves, per cent; None:
    /// there is no such task.
    pub(crate) fn slowed_to(&self) -> Option<u32> {
        let slowed = self.layout != CpuLayout::Together && self.server_left < 100;
        slowed.then_some(self.server_left)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Measurement of each cell: trials, or a saturation search.
    pub mode: Mode,
    /// Start of the measurement.
    pub warm: Warm,
    pub warm_s: f64,
    /// Requests for each file and process before the load: each process opens every file, so that
    /// its own cache holds them all. 0: none.
    #[serde(default)]
    pub warm_requests: u32,
    pub window_s: f64,
    /// Blocks: every cell once in each, in random order.
    pub blocks: u32,
    /// Seed of the order, and of the loads: the same for all arms of a block.
    pub seed: u64,
    /// The number that decides, by its name in the results.
    pub metric: String,
    /// Other numbers that the answer tells of.
    #[serde(default)]
    pub also: Vec<String>,
    /// Whether the baseline runs twice (the A/A arm).
    pub again: bool,
    /// Whether the arms of a setting run at the same time, each with an equal part of the load.
    #[serde(default)]
    pub at_once: bool,
    /// Whether the processor's and the kernel's counters are read of each of the server's tasks.
    /// They cost each switch from one task to another something, on virtual machines much.
    pub counters: bool,
    /// Whether the cycles in which the processor stood still are counted, by cause. They take turns
    /// with the other counters.
    pub stalls: bool,
    /// Whether it is measured before each trial how fast the server's processors stream through
    /// memory of their own.
    #[serde(default)]
    pub streaming: bool,
    pub profile: bool,
    /// At which level of factors that is, or levels with commas between them; of others at their
    /// last level.
    #[serde(deserialize_with = "file::levels")]
    pub profile_at: BTreeMap<String, String>,
}

impl Measure {
    /// Every level that an entry of `profile_at` names.
    pub(crate) fn each_level(asked: &str) -> impl Iterator<Item = &str> {
        asked.split(',')
    }
}

/// Limits beyond which a trial is invalid. The record keeps it with its reasons, and it is
/// repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guards {
    /// The most schedule lag (99th percentile) of the generator, ms.
    pub lag_p99_ms_max: f64,
    /// The most of a generator thread's time on its processor.
    pub client_busy_max: f64,
    /// The most that others may use of the server's processors.
    pub foreign_max: f64,
    /// The most processor time that the hypervisor may take.
    pub steal_max: f64,
    /// The most requests that may fail; 1 allows all (for overload).
    pub errors_max: f64,
    /// The most connections that the server's listeners may drop, as a share of what was offered;
    /// 1 allows all (for overload).
    pub syn_drops_max: f64,
    /// The most replies that may go without the comparison that `workload.verify` asks for.
    pub unverified_max: f64,
    /// Largest factor by which the distance of the server's and the client's processors may differ
    /// from that before the block's first trial ([`crate::watch::cores`]); None: any.
    #[serde(default)]
    pub moved_max: Option<f64>,
    /// Most repetitions of an invalid trial.
    pub retries: u32,
}

impl Guards {
    /// The same for a load that may be more than the server can answer: what fails then, and what
    /// its queues drop, is what is measured.
    #[must_use]
    pub fn overloaded(&self) -> Self {
        Self { errors_max: 1.0, syn_drops_max: 1.0, ..self.clone() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    #[default]
    Trials,
    /// A saturation search: the highest rate at which `workload.slo` holds.
    Knee,
}

/// Start of a trial's measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warm {
    /// After `warm_s`.
    #[default]
    Fixed,
    /// Once the seconds show that it has settled, not before `warm_s`.
    Found,
}

/// Settings of a saturation search ([`crate::knee`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KneeSearch {
    /// Share of the knee within which the whole interval must lie for the search to end.
    pub goal: f64,
    pub trials_max: u32,
    /// Loads beyond the knee, as multiples of it, each between two calm stretches.
    pub overload: Vec<f64>,
    /// Whether to report the time that goodput takes to recover after the highest of them.
    pub recovery: bool,
}
