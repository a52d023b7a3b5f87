//! What a comparison found, as a table for people and as JSON.

use super::counters::Event;
use super::machine::Machine;
use regatta_lab::stats::{Effect, compare, median};
use regatta_lab::watch::cores::Distances;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// One run of one server at one size in one round.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    /// The round, from 0.
    pub(crate) round: u64,
    /// The server's name.
    pub(crate) target: String,
    /// The body's bytes.
    pub(crate) bytes: usize,
    /// What was measured, or why it does not count.
    pub(crate) outcome: Result<Measured, String>,
}

/// What was measured in a valid trial.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Answers in the time.
    pub(crate) requests: f64,
    /// The time in seconds.
    pub(crate) seconds: f64,
    /// Median and 99th percentile of the service time in microseconds, in a closed loop.
    pub(crate) service_us: (f64, f64),
    /// Totals of the events, in the order of [`Event::ALL`].
    pub(crate) totals: [Option<f64>; 4],
    /// The smallest share of the time that a counter was counting.
    pub(crate) coverage: f64,
    /// Seconds in which the server's and the client's CPU were busy, with whatever it was.
    pub(crate) cpus_busy: [Option<f64>; 2],
    /// How far apart the server's and the client's CPU were before and afterwards: the round trip
    /// of a cache line, nanoseconds. A hypervisor may move them.
    pub(crate) apart_ns: [Option<f64>; 2],
}

impl Measured {
    fn rate(&self) -> f64 {
        self.requests / self.seconds
    }

    fn per_request(&self, event: Event) -> Option<f64> {
        self.totals[event as usize].map(|total| total / self.requests)
    }

    /// The share of its CPU that the server used.
    fn busy(&self) -> Option<f64> {
        self.totals[Event::CpuNanoseconds as usize].map(|ns| ns / 1e9 / self.seconds)
    }

    /// The share of the server's CPU that something else used, or another guest of the host.
    fn foreign(&self) -> Option<f64> {
        Some((self.cpus_busy[0]? / self.seconds - self.busy()?).max(0.0))
    }

    /// The share of the client's CPU that was used: near 1, the client may be the limit.
    fn client_busy(&self) -> Option<f64> {
        self.cpus_busy[1].map(|busy| busy / self.seconds)
    }
}

/// Everything that a comparison found.
#[derive(Debug)]
pub(crate) struct Report {
    /// The machine.
    pub(crate) machine: Machine,
    /// How it was measured: one `name: value` a line.
    pub(crate) method: Vec<(String, String)>,
    /// The servers in the order of the table, and their versions.
    pub(crate) targets: Vec<(String, String)>,
    /// The sizes in the order of the tables.
    pub(crate) sizes: Vec<usize>,
    /// Every trial in the order it was run.
    pub(crate) trials: Vec<Trial>,
    /// System calls per request by target and size, or why not; from a run of its own.
    pub(crate) calls: Vec<(String, usize, Result<f64, String>)>,
    /// What could not be counted, and other things to know.
    pub(crate) notes: Vec<String>,
    /// The seed of the order.
    pub(crate) seed: u64,
}

/// Rounds that may stand together: of one size, with the CPUs in like places.
struct Group {
    bytes: usize,
    /// How far apart the CPUs were, as words; empty if nobody can tell.
    apart: String,
    rounds: BTreeSet<u64>,
}

/// A bar of the product: the cost of `above` against `below` at a size.
struct Bar {
    bytes: usize,
    below: &'static str,
    ratio_max: f64,
    what: &'static str,
}

const BARS: [Bar; 4] = [
    Bar { bytes: 4096, below: "null", ratio_max: 1.10, what: "cycles/request, 4 KiB" },
    Bar { bytes: 4096, below: "nginx", ratio_max: 0.55, what: "cycles/request, 4 KiB" },
    Bar { bytes: 1 << 16, below: "null", ratio_max: 1.08, what: "cycles/request, 64 KiB" },
    Bar { bytes: 1 << 20, below: "null", ratio_max: 1.05, what: "cycles/MiB, 1 MiB" },
];

/// At most so many user instructions for a request, at 4 KiB.
const USER_INSTRUCTIONS_MAX: f64 = 2_000.0;
const USER_INSTRUCTIONS_BYTES: usize = 4096;

/// More than this share of other work on the server's CPU makes a trial noisy.
const FOREIGN_SHARE_MAX: f64 = 0.05;

impl Report {
    /// The whole as text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |text: String| {
            out.push_str(&text);
            out.push('\n');
        };
        line(format!("machine     {}", self.machine.processor));
        line(format!("kernel      {}", self.machine.kernel));
        line(format!("mitigations {}", self.machine.mitigations));
        line(format!("commit      {}", self.machine.commit));
        for (name, value) in &self.method {
            line(format!("{name:11} {value}"));
        }
        for (name, version) in &self.targets {
            line(format!("{name:16} {version}"));
        }
        let (groups, moved) = self.groups();
        for group in &groups {
            line(format!("\n{} bodies{}", size_name(group.bytes), group.apart));
            line(aligned(&self.absolute(group)));
            line(aligned(&self.paired(group)));
        }
        for bar in &BARS {
            let here = groups.iter().filter(|group| group.bytes == bar.bytes);
            here.filter_map(|group| self.verdict(bar, group)).for_each(&mut line);
        }
        if let Some(verdict) = self.verdict_on_instructions() {
            line(verdict);
        }
        for ((target, bytes, why), rounds) in self.invalid() {
            let size = size_name(bytes);
            line(format!("invalid: {target}, {size}, in round {}: {why}", rounds.join(", ")));
        }
        for note in self.notes.iter().chain(self.noise().as_ref()).chain(moved.as_ref()) {
            line(format!("note: {note}"));
        }
        out
    }

    /// Puts the rounds of each size together in which the CPUs were equally far apart all the time.
    /// Beside them, which rounds are left out.
    fn groups(&self) -> (Vec<Group>, Option<String>) {
        let valid = || self.trials.iter().filter_map(|t| Some((t, t.outcome.as_ref().ok()?)));
        let apart = Distances::of(valid().flat_map(|(_, one)| one.apart_ns).flatten());
        let mut classes: BTreeMap<(usize, u64), BTreeSet<usize>> = BTreeMap::new();
        for (trial, one) in valid() {
            let here = one.apart_ns.map(|ns| apart.class(ns));
            classes.entry((trial.bytes, trial.round)).or_default().extend(here);
        }
        let mut groups: BTreeMap<(usize, usize), BTreeSet<u64>> = BTreeMap::new();
        let mut moved: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for ((bytes, round), classes) in classes {
            match classes.first().filter(|_| classes.len() == 1) {
                Some(class) => drop(groups.entry((bytes, *class)).or_default().insert(round)),
                None => moved.entry(bytes).or_default().push((round + 1).to_string()),
            }
        }
        let place = |bytes: usize| self.sizes.iter().position(|size| *size == bytes);
        let mut groups: Vec<Group> = groups
            .into_iter()
            .map(|((bytes, class), rounds)| {
                let words = |(near, far): &(f64, f64)| {
                    format!(", CPUs {near:.0} to {far:.0} ns apart ({} rounds)", rounds.len())
                };
                let apart = apart.classes().get(class).map_or(String::new(), words);
                Group { bytes, apart, rounds }
            })
            .collect();
        groups.sort_by_key(|group| place(group.bytes));
        let moved: Vec<String> = moved
            .into_iter()
            .map(|(bytes, rounds)| format!("{}: {}", size_name(bytes), rounds.join(", ")))
            .collect();
        let said = format!("the CPUs moved, rounds that are left out: {}", moved.join("; "));
        (groups, (!moved.is_empty()).then_some(said))
    }

    /// Says so if other work shared the server's CPU: times are then noisy, counts much less.
    fn noise(&self) -> Option<String> {
        let valid: Vec<&Measured> =
            self.trials.iter().filter_map(|trial| trial.outcome.as_ref().ok()).collect();
        let noisy = valid.iter().filter(|one| one.foreign() > Some(FOREIGN_SHARE_MAX)).count();
        (noisy > 0).then(|| {
            format!(
                "NOISY: in {noisy} of {} trials other work used more than {:.0} % of the \
                 server's CPU; do not trust the times",
                valid.len(),
                FOREIGN_SHARE_MAX * 100.0
            )
        })
    }

    /// Trials that do not count, those of one cause together, with their rounds.
    fn invalid(&self) -> BTreeMap<(&str, usize, &str), Vec<String>> {
        let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for trial in &self.trials {
            if let Err(why) = &trial.outcome {
                let key = (trial.target.as_str(), trial.bytes, why.as_str());
                found.entry(key).or_default().push((trial.round + 1).to_string());
            }
        }
        found
    }

    fn measured(&self, target: &str, group: &Group) -> impl Iterator<Item = (u64, &Measured)> {
        self.trials
            .iter()
            .filter(move |trial| trial.target == target && trial.bytes == group.bytes)
            .filter(|trial| group.rounds.contains(&trial.round))
            .filter_map(|trial| Some((trial.round, trial.outcome.as_ref().ok()?)))
    }

    /// The table of medians over the rounds.
    fn absolute(&self, group: &Group) -> Vec<Vec<String>> {
        let bytes = group.bytes;
        let heads = [
            "medians",
            "req/s",
            "cycles/req",
            "user instr/req",
            "kernel instr/req",
            "CPU us/req",
            "calls/req",
            "server %",
            "foreign %",
            "client %",
            "p50 us",
            "p99 us",
            "valid",
        ];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        for (name, _) in &self.targets {
            let all: Vec<&Measured> = self.measured(name, group).map(|(_, one)| one).collect();
            let of = |value: &dyn Fn(&Measured) -> Option<f64>, decimals: usize| {
                let values: Vec<f64> = all.iter().filter_map(|one| value(one)).collect();
                match median(&values) {
                    middle if middle.is_nan() => "-".to_owned(),
                    middle => grouped(middle, decimals),
                }
            };
            let calls = self.calls_of(name, bytes);
            let tried = self.trials.iter().filter(|t| t.target == *name && t.bytes == bytes);
            let decimals = if bytes >= 1 << 16 { 1 } else { 2 };
            rows.push(vec![
                name.clone(),
                of(&|one| Some(one.rate()), 0),
                of(&|one| one.per_request(Event::Cycles), 0),
                of(&|one| one.per_request(Event::UserInstructions), 0),
                of(&|one| one.per_request(Event::KernelInstructions), 0),
                of(&|one| one.per_request(Event::CpuNanoseconds).map(|ns| ns / 1e3), decimals),
                calls.map_or("-".to_owned(), |calls| grouped(calls, 2)),
                of(&|one| one.busy().map(|share| share * 100.0), 0),
                of(&|one| one.foreign().map(|share| share * 100.0), 0),
                of(&|one| one.client_busy().map(|share| share * 100.0), 0),
                of(&|one| Some(one.service_us.0), 0),
                of(&|one| Some(one.service_us.1), 0),
                format!("{}/{}", all.len(), tried.count()),
            ]);
        }
        rows
    }

    fn calls_of(&self, target: &str, bytes: usize) -> Option<f64> {
        let one = self.calls.iter().find(|(name, size, _)| name == target && *size == bytes)?;
        one.2.as_ref().ok().copied()
    }

    /// The table of ratios, round by round, with intervals.
    fn paired(&self, group: &Group) -> Vec<Vec<String>> {
        let bases: Vec<&str> = ["null", "nginx"]
            .into_iter()
            .filter(|base| self.targets.iter().any(|(name, _)| name == base))
            .collect();
        let mut heads = vec!["ratios by round [95 %]".to_owned()];
        for base in &bases {
            heads.extend(["cycles", "instr", "req/s"].map(|what| format!("{what} : {base}")));
        }
        let again = self.targets.iter().any(|(name, _)| name == "regatta-again");
        if again {
            heads.extend(["cycles", "instr", "req/s"].map(|what| format!("{what} : regatta")));
        }
        let mut rows = vec![heads];
        for (name, _) in &self.targets {
            let mut row = vec![name.clone()];
            let mut add = |base: &str, shown: bool| {
                let shown = shown && name != base;
                let show = |ratio: Option<Effect>| match ratio {
                    Some(ratio) if shown => ratio_text(&ratio),
                    _ => "-".to_owned(),
                };
                for value in [cycles, instructions, rate] {
                    row.push(show(self.ratio(name, base, group, value)));
                }
            };
            for base in &bases {
                add(base, true);
            }
            if again {
                add("regatta", name.starts_with("regatta"));
            }
            rows.push(row);
        }
        rows
    }

    /// The ratio of a value of two servers over the rounds in which both were valid.
    fn ratio(
        &self,
        above: &str,
        below: &str,
        group: &Group,
        value: fn(&Measured) -> Option<f64>,
    ) -> Option<Effect> {
        compare(&self.pairs(above, below, group, value))
    }

    /// A value of two servers in the rounds in which both have it.
    fn pairs(
        &self,
        above: &str,
        below: &str,
        group: &Group,
        value: fn(&Measured) -> Option<f64>,
    ) -> Vec<(f64, f64)> {
        self.measured(above, group)
            .filter_map(|(round, one)| {
                let (_, other) = self.measured(below, group).find(|(other, _)| *other == round)?;
                Some((value(one)?, value(other)?))
            })
            .collect()
    }

    /// Judges a bar over the rounds in which nobody else worked on the server's CPU.
    fn verdict(&self, bar: &Bar, group: &Group) -> Option<String> {
        let all = self.pairs("regatta", bar.below, group, cycles).len();
        let quiet = self.pairs("regatta", bar.below, group, quiet_cycles);
        let (what, below, most) = (bar.what, bar.below, bar.ratio_max);
        let head = format!("bar: {what}{} against {below} at most {most:.2}", group.apart);
        let Some(ratio) = compare(&quiet) else {
            return (all > 0).then(|| format!("{head}: cannot tell: no round was quiet"));
        };
        let word = match ratio.interval {
            Some(interval) if interval.high <= bar.ratio_max => "met",
            Some(interval) if interval.low > bar.ratio_max => "NOT MET",
            Some(_) => "cannot tell: the interval holds the bar",
            None => "cannot tell: so few rounds have no interval",
        };
        let of = quiet.len();
        Some(format!("{head}: {} in {of} quiet rounds of {all} -> {word}", ratio_text(&ratio)))
    }

    /// Judges the user instructions of a request: by the dearest round, for counts hardly vary.
    fn verdict_on_instructions(&self) -> Option<String> {
        let ours =
            |trial: &&Trial| trial.target == "regatta" && trial.bytes == USER_INSTRUCTIONS_BYTES;
        let valid = self.trials.iter().filter(ours).filter_map(|trial| trial.outcome.as_ref().ok());
        let all: Vec<f64> =
            valid.filter_map(|one| one.per_request(Event::UserInstructions)).collect();
        let most = all.iter().copied().reduce(f64::max)?;
        let word = if most <= USER_INSTRUCTIONS_MAX { "met" } else { "NOT MET" };
        Some(format!(
            "bar: user instructions/request, 4 KiB, at most {}: {} in the dearest of {} rounds -> \
             {word}",
            grouped(USER_INSTRUCTIONS_MAX, 0),
            grouped(most, 0),
            all.len()
        ))
    }

    /// The whole as JSON: every trial, also the invalid ones.
    pub(crate) fn json(&self) -> Value {
        let trials: Vec<Value> = self
            .trials
            .iter()
            .map(|trial| {
                let mut value = json!({
                    "round": trial.round, "target": trial.target, "body_bytes": trial.bytes,
                });
                match &trial.outcome {
                    Err(why) => value["invalid"] = json!(why),
                    Ok(one) => value["measured"] = measured_json(one),
                }
                value
            })
            .collect();
        let calls: Vec<Value> = self
            .calls
            .iter()
            .map(|(target, bytes, calls)| {
                json!({ "target": target, "body_bytes": bytes,
                    "system_calls_per_request": calls.as_ref().ok(),
                    "missing": calls.as_ref().err() })
            })
            .collect();
        json!({
            "machine": { "processor": self.machine.processor, "kernel": self.machine.kernel,
                "mitigations": self.machine.mitigations, "commit": self.machine.commit },
            "method": self.method.iter().cloned()
                .collect::<BTreeMap<String, String>>(),
            "versions": self.targets.iter().cloned()
                .collect::<BTreeMap<String, String>>(),
            "seed": self.seed,
            "trials": trials,
            "system_calls": calls,
            "notes": self.notes,
        })
    }
}

fn cycles(one: &Measured) -> Option<f64> {
    one.per_request(Event::Cycles)
}

/// Cycles, unless others worked on the server's CPU meanwhile.
fn quiet_cycles(one: &Measured) -> Option<f64> {
    if one.foreign() > Some(FOREIGN_SHARE_MAX) { None } else { cycles(one) }
}

fn instructions(one: &Measured) -> Option<f64> {
    Some(one.per_request(Event::UserInstructions)? + one.per_request(Event::KernelInstructions)?)
}

#[expect(clippy::unnecessary_wraps, reason = "stands beside values that may be missing")]
fn rate(one: &Measured) -> Option<f64> {
    Some(one.rate())
}

fn measured_json(one: &Measured) -> Value {
    json!({
        "requests": one.requests, "seconds": one.seconds, "requests_per_second": one.rate(),
        "service_us_p50": one.service_us.0, "service_us_p99": one.service_us.1,
        "user_instructions_per_request": one.per_request(Event::UserInstructions),
        "kernel_instructions_per_request": one.per_request(Event::KernelInstructions),
        "cycles_per_request": one.per_request(Event::Cycles),
        "cpu_ns_per_request": one.per_request(Event::CpuNanoseconds),
        "counter_coverage": one.coverage,
        "server_cpu_share": one.busy(), "foreign_cpu_share": one.foreign(),
        "client_cpu_share": one.client_busy(),
        "round_trip_of_a_cache_line_ns": one.apart_ns,
    })
}

fn ratio_text(effect: &Effect) -> String {
    match effect.interval {
        Some(interval) => {
            format!("{:.3} [{:.3}, {:.3}]", effect.ratio, interval.low, interval.high)
        }
        None => format!("{:.3} [no interval]", effect.ratio),
    }
}

/// `4 KiB`, `1 MiB`, `700 B`.
pub(crate) fn size_name(bytes: usize) -> String {
    match bytes {
        whole if whole >= 1 << 20 && whole % (1 << 20) == 0 => format!("{} MiB", whole >> 20),
        whole if whole >= 1 << 10 && whole % (1 << 10) == 0 => format!("{} KiB", whole >> 10),
        other => format!("{other} B"),
    }
}

/// A number with thin groups of three: `21 400`, `4.25`.
fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, part) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && !out.ends_with('-') {
            out.push(' ');
        }
        out.push(digit);
    }
    out + part
}

/// Rows with their columns aligned: words to the left, numbers to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if at == 0 {
                write!(line, "  {cell:width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Event, Measured, Report, Trial, aligned, grouped, size_name};
    use crate::bench::machine::Machine;

    fn report<const ROUNDS: usize>(costs: &[(&str, [f64; ROUNDS])]) -> Report {
        let text = || "-".to_owned();
        let mut trials = Vec::new();
        for (target, cycles) in costs {
            for (round, cycles) in (0..).zip(cycles) {
                let measured = Measured {
                    requests: 10.0,
                    seconds: 2.0,
                    service_us: (1.0, 2.0),
                    totals: [Some(1.0), Some(2.0), Some(cycles * 10.0), None],
                    coverage: 1.0,
                    cpus_busy: [Some(1.0), None],
                    apart_ns: [None, None],
                };
                let outcome = if *cycles > 0.0 { Ok(measured) } else { Err("broke".to_owned()) };
                trials.push(Trial { round, target: (*target).to_owned(), bytes: 4096, outcome });
            }
        }
        Report {
            machine: Machine {
                processor: text(),
                kernel: text(),
                mitigations: text(),
                commit: text(),
            },
            method: Vec::new(),
            targets: costs.iter().map(|(name, _)| ((*name).to_owned(), text())).collect(),
            sizes: vec![4096],
            trials,
            calls: vec![("nginx".to_owned(), 4096, Ok(6.0))],
            notes: Vec::new(),
            seed: 1,
        }
    }

    #[test]
    fn bars_are_judged_by_the_interval() {
        let good = report(&[("regatta", [100.0; 3]), ("null", [95.0; 3]), ("nginx", [200.0; 3])]);
        let text = good.text();
        assert!(text.contains("null at most 1.10: 1.053 [1.053, 1.053] in 3"), "{text}");
        assert!(text.contains("nginx at most 0.55: 0.500 [0.500, 0.500] in 3"), "{text}");
        assert_eq!(text.matches("quiet rounds of 3 -> met").count(), 2, "{text}");
        let torn = report(&[("regatta", [100.0, 111.0, 120.0]), ("null", [100.0; 3])]);
        assert!(torn.text().contains("cannot tell"), "{}", torn.text());
        let bad = report(&[("regatta", [120.0; 3]), ("null", [100.0; 3])]);
        assert!(bad.text().contains("NOT MET"), "{}", bad.text());
    }

    #[test]
    fn rounds_that_others_disturbed_judge_no_bar() {
        let costs = [("regatta", [100.0, 300.0, 100.0, 100.0]), ("null", [100.0; 4])];
        let mut report = report(&costs);
        let disturb = |trial: &mut Trial| {
            let one = trial.outcome.as_mut().expect("valid");
            // The server used half of what its CPU was busy with.
            (one.totals[3], one.cpus_busy[0]) = (Some(1e9), Some(2.0));
        };
        disturb(&mut report.trials[1]);
        let text = report.text();
        assert!(text.contains("1.000 [1.000, 1.000] in 3 quiet rounds of 4 -> met"), "{text}");
        disturb(&mut report.trials[0]);
        let text = report.text();
        assert!(text.contains("1.000 [no interval] in 2 quiet rounds of 4 -> cannot"), "{text}");
        report.trials.iter_mut().for_each(disturb);
        assert!(report.text().contains("cannot tell: no round was quiet"), "{}", report.text());
    }

    #[test]
    fn rounds_stand_together_if_the_cpus_did_not_move() {
        let costs = [("regatta", [100.0, 900.0, 100.0, 900.0, 100.0, 400.0]), ("null", [100.0; 6])];
        let mut report = report(&costs);
        for trial in &mut report.trials {
            let one = trial.outcome.as_mut().expect("valid");
            one.apart_ns =
                if trial.round % 2 == 0 { [80.0, 95.0] } else { [430.0, 400.0] }.map(Some);
        }
        // In one round they moved between the trials, in another within one.
        report.trials[5].outcome.as_mut().expect("valid").apart_ns = [Some(90.0); 2];
        report.trials[8].outcome.as_mut().expect("valid").apart_ns[1] = Some(420.0);
        let text = report.text();
        assert!(text.contains("4 KiB bodies, CPUs 80 to 95 ns apart (2 rounds)"), "{text}");
        assert!(text.contains("4 KiB bodies, CPUs 400 to 430 ns apart (2 rounds)"), "{text}");
        assert!(text.contains("ns apart (2 rounds) against null at most 1.10: 1.000 "), "{text}");
        assert!(text.contains("ns apart (2 rounds) against null at most 1.10: 9.000 "), "{text}");
        assert!(text.contains("the CPUs moved, rounds that are left out: 4 KiB: 3, 6"), "{text}");
    }

    #[test]
    fn instructions_are_judged_by_the_dearest_round() {
        let mut report = report(&[("regatta", [100.0; 3])]);
        let mut cost = |round: usize, each: f64| {
            let one = report.trials[round].outcome.as_mut().expect("valid");
            one.totals[Event::UserInstructions as usize] = Some(each * one.requests);
            report.text()
        };
        assert!(cost(0, 1_999.0).contains("1 999 in the dearest of 3 rounds -> met"));
        assert!(cost(2, 2_001.0).contains("2 001 in the dearest of 3 rounds -> NOT MET"));
    }

    #[test]
    fn invalid_trials_are_shown_and_not_counted() {
        let torn = report(&[("nginx", [100.0, 0.0, 120.0])]);
        let text = torn.text();
        assert!(text.contains("2/3") && text.contains("110") && text.contains("6.00"), "{text}");
        assert!(text.contains("invalid: nginx, 4 KiB, in round 2: broke"), "{text}");
        assert_eq!(torn.json()["trials"][1]["invalid"], "broke");
        assert_eq!(torn.json()["trials"][2]["measured"]["cycles_per_request"], 120.0);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(1_234_567.4, 0), "1 234 567");
        assert_eq!(grouped(123.456, 2), "123.46");
        assert_eq!(size_name(1 << 16), "64 KiB");
        assert_eq!(size_name(700), "700 B");
        let rows = [vec!["a".to_owned(), "10".to_owned()], vec!["bb".to_owned(), "9".to_owned()]];
        assert_eq!(aligned(&rows), "  a   10\n  bb   9\n");
    }
}
