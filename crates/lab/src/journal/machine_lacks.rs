//! Requirements of an experiment that a machine lacks, without those of environments; reported
//! before anything runs.

use crate::experiment::claim_row::Claim;
use crate::experiment::plan::cells;
use crate::experiment::{Experiment, Loop, Rules, multiples};
use crate::programs;
use crate::servers::environments;
use crate::watch::missing_stalls;
use crate::watch::perf::may_see_all;
use perf_event::Builder;
use perf_event::events::Hardware;
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;

/// Descriptors that a load needs besides its connections.
const DESCRIPTORS_BESIDE: u64 = 64;

/// First words of the report that counters are missing.
pub(crate) const NO_COUNTERS: &str = "the processor's counters cannot be read";

#[derive(Clone, Debug)]
struct Here {
    processors: usize,
    /// The most descriptors that a process may have.
    descriptors_max: u64,
    is_root: bool,
    has_perf: bool,
    /// Whether perf may look at all that runs.
    sees_all: bool,
    /// Reason for which the processor's counters cannot be read; None: they can.
    counters: Option<String>,
    /// Causes of stalls that it does not count, with why.
    stalls: Vec<String>,
}

impl Here {
    fn look() -> Self {
        let counter = Builder::new(Hardware::INSTRUCTIONS).build();
        Self {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            descriptors_max: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
            is_root: rustix::process::geteuid().is_root(),
            has_perf: programs::find("perf").is_some(),
            sees_all: may_see_all(),
            counters: counter.err().map(|error| error.to_string()),
            stalls: missing_stalls(),
        }
    }

    fn lacks(&self, experiment: &Experiment) -> Vec<String> {
        let mut lacks = self.processors(experiment);
        let machine = &experiment.machine;
        if !self.is_root && (machine.realtime || machine.drop_caches) {
            let what = "realtime and drop_caches take root: others' work will be measured too";
            lacks.push(what.to_owned());
        }
        if experiment.measure.profile && !self.has_perf {
            lacks.push(
                "profiles need perf (apt-get install linux-perf): only the shares of user and \
                 kernel are told, without stacks"
                    .to_owned(),
            );
        } else if experiment.measure.profile && !self.sees_all {
            lacks.push(
                "profiles show the server alone, without the soft interrupts between processes: \
                 needs root or kernel.perf_event_paranoid below 1"
                    .to_owned(),
            );
        }
        if let Some(why) = &self.counters {
            lacks.push(format!("{NO_COUNTERS} ({why}): no instructions, no cycles"));
        }
        if experiment.measure.stalls && !self.stalls.is_empty() {
            let stalls = self.stalls.join("; ");
            lacks.push(format!("stalls cannot be counted by every cause: {stalls}"));
        }
        let most = connections(experiment);
        let needed = most.saturating_add(DESCRIPTORS_BESIDE);
        if needed > self.descriptors_max {
            let limit = self.descriptors_max;
            lacks.push(format!(
                "{most} connections of a load take {needed} descriptors, and {limit} are allowed: \
                 raise the limit (ulimit -n, LimitNOFILE=)"
            ));
        }
        lacks
    }

    /// Processors that are not there, that are shared, or too few for a claim.
    fn processors(&self, experiment: &Experiment) -> Vec<String> {
        let machine = &experiment.machine;
        let mut lacks = Vec::new();
        let asked = machine.server_cpus.iter().chain(&machine.client_cpus).max();
        if let Some(most) = asked.filter(|most| **most >= self.processors) {
            let there = self.processors;
            lacks.push(format!("there is no processor {most}: {there} may be used"));
        }
        let shared = machine.server_cpus.iter().any(|cpu| machine.client_cpus.contains(cpu));
        if shared {
            lacks.push("server and client share processors: times are of both".to_owned());
        }
        let there = machine.server_cpus.iter().filter(|cpu| **cpu < self.processors).count();
        let own = if shared { 0 } else { there };
        let mut claims: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for id in &experiment.claims {
            let needed = Claim::named(id).map_or(0, |claim| claim.processors);
            if needed > own {
                claims.entry(needed).or_default().push(id.as_str());
            }
        }
        lacks.extend(claims.iter().map(|(needed, ids)| {
            format!(
                "claims that need {needed} processors for the server alone, which has {own}, \
                 cannot be told: {}",
                ids.join(", ")
            )
        }));
        lacks
    }
}

/// Requirements of an experiment that this machine lacks, a sentence each.
pub(crate) fn lacks(experiment: &Experiment) -> Vec<String> {
    Here::look().lacks(experiment)
}

/// Refusals of the measured program here, by arm: each reason once.
pub(crate) fn refused(experiment: &Experiment, rules: Rules) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for cell in cells(experiment) {
        let target = experiment.targets.iter().find(|target| target.name == cell.target);
        let Some(target) = target.filter(|target| target.is_ours()) else { continue };
        let mut options = target.config.clone();
        options.extend(cell.options());
        multiples::resolve(&mut options, None);
        let network = experiment.environment_at(&cell.levels).network;
        let listen = environments::addresses(network.map_or(1, |network| network.addresses));
        let listen: Vec<String> = listen.iter().map(ToString::to_string).collect();
        options.insert("server.listen".to_owned(), listen.join(","));
        for why in (rules.refused)(&options) {
            let said = format!("{} does not start here: {why}", cell.target);
            if !all.contains(&said) {
                all.push(said);
            }
        }
    }
    all
}

/// The most connections that a load holds open at once, where the experiment says it.
fn connections(experiment: &Experiment) -> u64 {
    let idle = experiment.workload.idle.map_or(0, u64::from);
    if experiment.workload.model != Loop::Closed {
        return idle;
    }
    let factors = experiment.factors.iter().filter(|factor| factor.path == "workload.connections");
    let levels = factors.flat_map(|factor| &factor.levels);
    let most = levels.filter_map(|level| level.parse().ok()).max();
    idle + most.unwrap_or(u64::from(experiment.workload.connections))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Scale, parse};

    const TEXT: &str = r#"
experiment = { name = "x", question = "?", expect = "!", claims = ["S-1", "S-2", "E-5"] }
targets.a.program = "regatta"
targets.a.config.event.processes = 2
targets.b.program = "nginx"
workload = { root = ".", connections = 7 }
machine = { server_cpus = "0-1", client_cpus = "2", realtime = true }
measure.profile = true
[factors]
"workload.connections" = [10, 50000]
"targets.a.config.limits.connections_max" = [1, 20000]
"#;

    fn here() -> Here {
        Here {
            processors: 8,
            descriptors_max: 100_000,
            is_root: true,
            has_perf: true,
            sees_all: true,
            counters: None,
            stalls: vec!["stalled_memory: no event".to_owned()],
        }
    }

    fn said(here: &Here, text: &str) -> Vec<String> {
        here.lacks(&parse("x", text, Scale::Quick).unwrap())
    }

    #[test]
    fn a_machine_that_has_all_lacks_nothing() {
        let text = TEXT.replace("0-1", "0-3").replace("\"2\"", "\"4\"");
        assert_eq!(said(&here(), &text), Vec::<String>::new());
    }

    #[test]
    fn everything_that_is_missing_is_told() {
        let poor = Here {
            processors: 2,
            descriptors_max: 20_000,
            is_root: false,
            has_perf: false,
            counters: Some("no such file".to_owned()),
            ..here()
        };
        let all = said(&poor, TEXT);
        for (line, part) in all.iter().zip([
            "there is no processor 2: 2 may be used",
            "claims that need 4 processors for the server alone, which has 2, cannot be told: \
             S-1, S-2",
            "realtime and drop_caches take root",
            "profiles need perf (apt-get install linux-perf)",
            "the processor's counters cannot be read (no such file)",
            "50000 connections of a load take 50064 descriptors, and 20000 are allowed",
        ]) {
            assert!(line.starts_with(part), "{part}: {all:#?}");
        }
        assert_eq!(all.len(), 6, "{all:#?}");
        let idle = TEXT.replace("connections = 7", "connections = 7, idle = 30000");
        let line = "80000 connections of a load take 80064 descriptors";
        assert!(said(&poor, &idle).iter().any(|told| told.starts_with(line)));
        let all = said(&Here { sees_all: false, ..here() }, TEXT);
        assert!(all.iter().any(|line| line.contains("perf_event_paranoid")), "{all:?}");
        let all = said(&here(), &TEXT.replace("measure.profile", "measure.stalls"));
        let line = "stalls cannot be counted by every cause: stalled_memory: no event";
        assert!(all.iter().any(|told| told == line), "{all:?}");
        let all = said(&here(), &TEXT.replace("\"2\"", "\"1\""));
        for part in ["share processors", "which has 0"] {
            assert!(all.iter().any(|line| line.contains(part)), "{part}: {all:?}");
        }
    }

    #[test]
    fn what_the_program_would_refuse_is_told_once_for_each_target() {
        let rules = Rules {
            fault: |_, _| None,
            refused: |options| {
                assert_eq!(options["event.processes"], "2", "what it says itself");
                assert_eq!(options["server.listen"], "10.9.1.1:8080,10.9.2.1:8080");
                let many = options["limits.connections_max"] == "20000";
                if many { vec!["too many connections".to_owned()] } else { Vec::new() }
            },
        };
        let text = format!("{TEXT}[environment.network]\naddresses = 2\n");
        let experiment = parse("x", &text, Scale::Quick).unwrap();
        let wanted = ["a does not start here: too many connections"];
        assert_eq!(refused(&experiment, rules), wanted);
    }

    /// Two of these have no words that a program would find a number in.
    #[test]
    fn every_claim_that_needs_processors_is_told() {
        let claims = r#"claims = ["G-7", "G-2", "S-18", "E-5"]"#;
        let text = TEXT.replace(r#"claims = ["S-1", "S-2", "E-5"]"#, claims);
        let all = said(&here(), &text);
        for (needed, ids) in [(4, "S-18, G-7"), (8, "G-2")] {
            let line = format!(
                "claims that need {needed} processors for the server alone, which has 2, cannot be \
                 told: {ids}"
            );
            assert!(all.contains(&line), "{line}: {all:#?}");
        }
    }
}
