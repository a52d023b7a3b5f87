//! The claims that are one ratio in one range, a row each: docs/adding-a-claim.md.

use super::arms::preset;
use super::evidence::{Evidence, Found, Shown, option, show};
use super::processes::{needs_cached, waits};
use super::sharing::{first, member};
use super::{Claim, Finding};
use crate::experiment::client::TARGET;
use crate::experiment::{Program, Target};
use crate::programs::Other;

/// A claim of one ratio; its range stands in the index of claims, which makes its sentence of it.
pub(super) struct Row {
    pub(super) id: &'static str,
    /// Whose quantity is divided by whose.
    arms: for<'a> fn(&Evidence<'a>) -> Found<[&'a Target; 2]>,
    quantity: Quantity,
    guard: Guard,
    /// What of the mechanism is told beside it.
    beside: &'static [Beside],
}

/// What of two arms is compared.
#[derive(Clone, Copy)]
enum Quantity {
    /// The best that they answer a second, at any rate.
    Peak,
    /// A metric of theirs near this multiple of saturation.
    Near(f64, &'static str),
    /// A metric of theirs at the highest rate that both have.
    Top(&'static str),
    /// A metric of theirs for a reply of a file: its size, and what is asked for.
    Reply(&'static str, &'static str),
}

/// What has to be so before anything is compared.
#[derive(Clone, Copy)]
enum Guard {
    None,
    /// Somebody waits for a disk.
    Disk,
    /// Nobody does.
    Cached,
    /// The server has so many processors for itself. Peaks of fewer say nothing, so that processor
    /// time is told instead, and nothing is decided.
    Processors(usize),
}

/// One counter of one of the arms over another (over none if that is empty), times `unit`.
struct Beside {
    arm: usize,
    counters: [&'static str; 2],
    unit: f64,
    words: &'static str,
}

const fn beside(arm: usize, counters: [&'static str; 2], unit: f64, words: &'static str) -> Beside {
    Beside { arm, counters, unit, words }
}

const CONTENDED: [Beside; 4] = [
    beside(0, LOCKED, 100.0, "% of locks contended"),
    beside(0, WAITED, 1.0, "ns waited for locks for each reply"),
    beside(1, LOCKED, 100.0, "% of locks contended"),
    beside(1, WAITED, 1.0, "ns waited for locks for each reply"),
];
const LOCKED: [&str; 2] = ["lock_contended", "lock_acquisitions"];
const WAITED: [&str; 2] = ["lock_wait_ns", "replies"];
const RUN: [&str; 2] = ["accepts_per_notification_max", ""];
const LONGEST: &str = "connections in the longest run of accepts";
/// Of the first arm alone: the second shares nothing.
const OF_THE_FIRST: &[Beside] = CONTENDED.split_at(2).0;

pub(super) const ROWS: &[Row] = &[
    Row {
        id: "H-1",
        arms: |run| presets(run, ["accept1", "acceptinf"]),
        quantity: Quantity::Peak,
        guard: Guard::None,
        beside: &[
            beside(0, ["accept_ok", "wait_calls"], 1.0, "connections for each select"),
            beside(0, ["wait_events", "wait_calls"], 1.0, "ready descriptors for each select"),
        ],
    },
    Row {
        id: "H-3",
        arms: |run| presets(run, ["cm", "acceptinf"]),
        quantity: Quantity::Near(1.67, "good_per_s"),
        guard: Guard::None,
        beside: &[
            beside(0, ["recv_would_block", "recv_calls"], 100.0, "% of reads find nothing"),
            beside(0, ["connections_open_at_accept_sum", "accept_ok"], 1.0, "connections open"),
        ],
    },
    Row {
        id: "H-10",
        arms: |run| presets(run, ["accept25", "acceptinf"]),
        quantity: Quantity::Near(1.2, "mean_ms"),
        guard: Guard::None,
        beside: &[],
    },
    Row {
        id: "H-12",
        arms: |run| {
            let is_epoll = |one: &Target| option(one, "event.poller").starts_with("epoll");
            Ok([
                member(run, "accept.count", "25", is_epoll)?,
                member(run, "accept.count", "0", is_epoll)?,
            ])
        },
        quantity: Quantity::Near(1.43, "good_per_s"),
        guard: Guard::None,
        beside: &[beside(0, RUN, 1.0, LONGEST), beside(1, RUN, 1.0, LONGEST)],
    },
    Row {
        id: "E-13",
        arms: |run| Ok([first(run, "shared-symped")?, first(run, "symped")?]),
        quantity: Quantity::Peak,
        guard: Guard::None,
        beside: OF_THE_FIRST,
    },
    Row {
        id: "E-23",
        arms: |run| {
            let pipeline = first(run, "watpipe5").or_else(|_| first(run, "watpipe4"))?;
            Ok([pipeline, first(run, "symped")?])
        },
        quantity: Quantity::Peak,
        guard: Guard::Disk,
        beside: &[],
    },
    Row {
        id: "S-1",
        arms: |run| Ok([first(run, "shared-symped")?, first(run, "symped")?]),
        quantity: Quantity::Peak,
        guard: Guard::Processors(4),
        beside: OF_THE_FIRST,
    },
    Row {
        id: "S-2",
        arms: |run| {
            let of = |lock| member(run, "shared.lock", lock, |_| true);
            Ok([of("global")?, of("two-tier")?])
        },
        quantity: Quantity::Peak,
        guard: Guard::Processors(4),
        beside: &CONTENDED,
    },
    Row {
        id: "S-3",
        arms: |run| {
            let plain = run.of("symped").find(|target| option(target, "event.pin") == "none");
            Ok([first(run, "n-copy")?, plain.ok_or("symped that is not pinned")?])
        },
        quantity: Quantity::Peak,
        guard: Guard::Processors(4),
        beside: &[],
    },
    Row {
        id: "S-4",
        arms: |run| Ok([first(run, "shared-symped")?, first(run, "n-copy")?]),
        quantity: Quantity::Peak,
        guard: Guard::Processors(4),
        beside: OF_THE_FIRST,
    },
    Row {
        id: "X-2",
        arms: |run| {
            let plain = |one: &&Target| !one.config.contains_key("amped.residency");
            Ok([run.of("amped").find(plain).ok_or("amped")?, super::arms::one(run)?])
        },
        quantity: Quantity::Top("cpu_us_per_reply"),
        guard: Guard::Cached,
        beside: &[beside(
            0,
            ["residency_checks", "replies"],
            1.0,
            "tests for pages for each reply",
        )],
    },
    bar("B-1", |run| beside_ours(run, &Program::Null), SMALL),
    bar("B-2", |run| beside_ours(run, &Program::Other(Other::Nginx)), SMALL),
    bar("B-3", |run| beside_ours(run, &Program::Null), MIDDLING),
    bar("B-4", |run| beside_ours(run, &Program::Null), LARGE),
];

/// Files of the preset `bodies`.
pub(super) const SMALL: &str = "/files/0004096";
const MIDDLING: &str = "/files/0065536";
const LARGE: &str = "/files/1048576";

/// A bar of ours: what a reply costs.
const fn bar(
    id: &'static str,
    arms: for<'a> fn(&Evidence<'a>) -> Found<[&'a Target; 2]>,
    file: &'static str,
) -> Row {
    let quantity = Quantity::Reply("cycles_per_reply", file);
    Row { id, arms, quantity, guard: Guard::None, beside: &[] }
}

/// The first of ours, and another program.
fn beside_ours<'a>(run: &Evidence<'a>, program: &Program) -> Found<[&'a Target; 2]> {
    let mut all = run.run.experiment.targets.iter();
    let other = all.find(|target| target.program == *program);
    Ok([ours(run)?, other.ok_or("the bare loop and nginx beside ours")?])
}

/// The first of ours.
pub(super) fn ours<'a>(run: &Evidence<'a>) -> Found<&'a Target> {
    run.regattas().next().ok_or_else(|| "a target of ours".to_owned())
}

fn presets<'a>(run: &Evidence<'a>, names: [&str; 2]) -> Found<[&'a Target; 2]> {
    Ok([preset(run, names[0])?, preset(run, names[1])?])
}

impl Row {
    /// What became of the claim.
    pub(super) fn judge(&self, run: &Evidence<'_>, claim: &Claim) -> Found<Finding> {
        match self.guard {
            Guard::Disk => drop(waits(run)?),
            Guard::Cached => needs_cached(run)?,
            Guard::None | Guard::Processors(_) => {}
        }
        let [arm, baseline] = (self.arms)(run)?;
        let shared = matches!(self.guard, Guard::Processors(_)) && run.processors(1).is_err();
        let quantity = if shared { Quantity::Top("cpu_us_per_reply") } else { self.quantity };
        let (ratio, what, missed) = compared(run, quantity, [arm, baseline])?;
        let what = format!("{}'s {what} over {}'s", arm.name, baseline.name);
        let ours = format!("{what}: {}", show(&ratio));
        let told = self.beside.iter().map(|one| one.told(run, [arm, baseline]));
        let told = told.collect::<Found<Vec<String>>>()?;
        let why = [vec![claim.ranges[0].words()], missed, told].concat().join("; ");
        let finding = Finding::all(ours, why, &[ratio.asks(claim.ranges[0], what)]);
        Ok(match self.guard {
            Guard::Processors(wanted) => finding.on(run.processors(wanted)),
            _ => finding,
        })
    }
}

/// The ratio, what it is of, and what was not answered where it is of times.
fn compared(
    run: &Evidence<'_>,
    quantity: Quantity,
    [arm, baseline]: [&Target; 2],
) -> Found<(Shown, String, Vec<String>)> {
    let names = [arm.name.as_str(), baseline.name.as_str()];
    let (cells, metric, at) = match quantity {
        Quantity::Reply(metric, file) => {
            (run.with(TARGET, file).tops(names)?, metric, format!(" for {file}"))
        }
        Quantity::Peak => {
            return Ok((run.peak_ratio(names[0], names[1])?, "peak".to_owned(), Vec::new()));
        }
        Quantity::Near(multiple, metric) => {
            (run.near(names, multiple)?, metric, format!(" at {multiple} S"))
        }
        Quantity::Top(metric) => (run.tops(names)?, metric, String::new()),
    };
    let missed = cells.each_ref().map(|cell| run.unanswered(cell));
    let missed = format!("times are of the answered: not answered were {}", missed.join(" and "));
    let (words, missed) = match metric {
        "good_per_s" => ("throughput", Vec::new()),
        "mean_ms" => ("mean response time", vec![missed]),
        "cpu_us_per_reply" => ("processor time per reply", Vec::new()),
        "cycles_per_reply" => ("cycles per reply", Vec::new()),
        other => (other, Vec::new()),
    };
    Ok((run.ratio(&cells[0], &cells[1], metric)?, format!("{words}{at}"), missed))
}

impl Beside {
    fn told(&self, run: &Evidence<'_>, arms: [&Target; 2]) -> Found<String> {
        let arm = &arms[self.arm].name;
        let cell = run.top(arm)?;
        let share = match self.counters {
            [counter, ""] => run.counter(&cell, counter)?,
            [part, whole] => run.share(&cell, part, whole)?,
        };
        Ok(format!("{arm}: {:.2} {}", self.unit * share, self.words))
    }
}
