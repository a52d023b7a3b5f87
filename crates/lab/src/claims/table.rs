//! The claims that are ratios in ranges, a row each: docs/adding-a-claim.md.

use super::arms::{
    adapting, blocks, copies, events, flash, one, pipelines, preset, processes, threads,
};
use super::evidence::{Evidence, Found, GOOD, Shown, counted, number, option, show};
use super::processes::{needs_cached, waits};
use super::sharing::{first, member};
use super::{Claim, Finding, Verdict};
use crate::experiment::client::TARGET;
use crate::experiment::{PROCESSORS, Program, Target};
use crate::programs::Other;
use crate::record::Record;
use crate::stats::{Blocks, with};
use Quantity::{Change, Near, Peak, Reply, Top};

/// Whose quantity is divided by whose.
type Arms = for<'a> fn(&Evidence<'a>) -> Found<Vec<[&'a Target; 2]>>;

/// A claim of ratios. Its ranges stand in the index of claims, which makes its sentence of them:
/// the first pair is asked for the first, the next for the next, and so on round and round, until
/// every pair was asked and every quantity.
pub(super) struct Row {
    pub(super) id: &'static str,
    arms: Arms,
    /// One for each range, or one for all.
    quantity: &'static [Quantity],
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
    /// The peak at the highest level of this factor over that at the lowest.
    Change(&'static str),
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

/// One counter or metric of one of the arms over another (over none if that is empty), times
/// `unit`; nothing where it was not counted.
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
const SWITCHES: [&str; 2] = ["context_switches_per_s", ""];
const SWITCHES_OF_BOTH: [Beside; 2] = of_both(SWITCHES, 1.0, "switches a second");
const DISK_OF_BOTH: [Beside; 4] = {
    let [one, other] =
        of_both(["disk_requests_per_s", GOOD], 1e3, "requests of the disk for 1,000 replies");
    let [busy, busy_other] =
        of_both(["disk_busy_share", ""], 100.0, "% of the time the disk is busy");
    [one, other, busy, busy_other]
};

const fn of_both(counters: [&'static str; 2], unit: f64, words: &'static str) -> [Beside; 2] {
    [beside(0, counters, unit, words), beside(1, counters, unit, words)]
}
/// Of the first arm alone: the second shares nothing.
const OF_THE_FIRST: &[Beside] = CONTENDED.split_at(2).0;

/// Peaks, wherever they are measured.
const PEAK: Row = Row {
    id: "",
    arms: |_| Err(String::new()),
    quantity: &[Peak],
    guard: Guard::None,
    beside: &[],
};

pub(super) const ROWS: &[Row] = &[
    Row {
        id: "H-1",
        arms: |run| presets(run, ["accept1", "acceptinf"]),
        beside: &[
            beside(0, ["accept_ok", "wait_calls"], 1.0, "connections for each select"),
            beside(0, ["wait_events", "wait_calls"], 1.0, "ready descriptors for each select"),
        ],
        ..PEAK
    },
    Row {
        id: "H-3",
        arms: |run| presets(run, ["cm", "acceptinf"]),
        quantity: &[Near(1.67, "good_per_s")],
        beside: &[
            beside(0, ["recv_would_block", "recv_calls"], 100.0, "% of reads find nothing"),
            beside(0, ["connections_open_at_accept_sum", "accept_ok"], 1.0, "connections open"),
        ],
        ..PEAK
    },
    Row {
        id: "H-10",
        arms: |run| presets(run, ["accept25", "acceptinf"]),
        quantity: &[Near(1.2, "mean_ms")],
        ..PEAK
    },
    Row {
        id: "H-12",
        arms: |run| {
            let is_epoll = |one: &Target| option(one, "event.poller").starts_with("epoll");
            let of = |count| member(run, "accept.count", count, is_epoll);
            pair(of("25"), of("0"))
        },
        quantity: &[Near(1.43, "good_per_s")],
        beside: &[beside(0, RUN, 1.0, LONGEST), beside(1, RUN, 1.0, LONGEST)],
        ..PEAK
    },
    Row {
        id: "S-1",
        arms: |run| pair(first(run, "shared-symped"), first(run, "symped")),
        guard: Guard::Processors(4),
        beside: OF_THE_FIRST,
        ..PEAK
    },
    Row {
        id: "S-2",
        arms: |run| {
            let of = |lock| member(run, "shared.lock", lock, |_| true);
            pair(of("global"), of("two-tier"))
        },
        guard: Guard::Processors(4),
        beside: &CONTENDED,
        ..PEAK
    },
    Row {
        id: "S-3",
        arms: |run| {
            let plain = run.of("symped").find(|target| option(target, "event.pin") == "none");
            pair(first(run, "n-copy"), plain.ok_or("symped that is not pinned".to_owned()))
        },
        guard: Guard::Processors(4),
        ..PEAK
    },
    Row {
        id: "S-4",
        arms: |run| pair(first(run, "shared-symped"), first(run, "n-copy")),
        guard: Guard::Processors(4),
        beside: OF_THE_FIRST,
        ..PEAK
    },
    Row {
        id: "S-15",
        arms: |run| {
            let all = pipelines(run)?;
            let of = |is_one: bool| all.iter().copied().find(|one| (copies(one) == 1) == is_one);
            let missing = || "a pipeline, and copies of it (event.copies)".to_owned();
            pair(of(true).ok_or_else(missing), of(false).ok_or_else(missing))
        },
        guard: Guard::Processors(4),
        beside: OF_THE_FIRST,
        ..PEAK
    },
    Row {
        id: "E-29",
        arms: |run| {
            let threads = threads(run)?;
            Ok(events(run)?.into_iter().map(|event| [event, threads]).collect())
        },
        quantity: &[Change("workload.connections")],
        guard: Guard::Cached,
        ..PEAK
    },
    Row {
        id: "E-30",
        arms: |run| pair(first(run, "means"), first(run, "symped")),
        quantity: &[Change(PROCESSORS)],
        guard: Guard::Processors(4),
        beside: &[beside(0, ["fiber_runs", "replies"], 1.0, "runs of user threads for each reply")],
    },
    Row {
        id: "G-4",
        arms: |run| pair(first(run, "symped"), threads(run)),
        quantity: &[Change(PROCESSORS)],
        guard: Guard::Processors(4),
        ..PEAK
    },
    Row {
        id: "A-1",
        arms: |run| {
            let [blocking, other, adapts] = adapting(run)?;
            Ok(vec![[other, blocking], [adapts, other]])
        },
        ..PEAK
    },
    Row {
        id: "A-6",
        arms: |run| {
            let size = |one: &&Target| option(one, "adapt.threads").parse().unwrap_or(64);
            let adapts = first(run, "self-adapting")?;
            let alike = run.of("bio").find(|one| size(one) == size(&adapts));
            let alike = alike.ok_or("bio with as many threads as self-adapting")?;
            gains(run, adapts, alike, ADAPTING_GAINS)?;
            let blocking = run.of("bio").max_by_key(size).filter(|one| size(one) > size(&adapts));
            pair(blocking.ok_or("bio with more threads than self-adapting".to_owned()), Ok(adapts))
        },
        beside: &[beside(1, ["decided_queue_sum", "replies"], 1.0, "waiting for a thread")],
        ..PEAK
    },
    Row {
        id: "X-2",
        arms: |run| {
            let plain = |one: &&Target| !one.config.contains_key("amped.residency");
            let sped = one(run)?;
            let all: Vec<_> = run.of("amped").find(plain).into_iter().chain(flash(run)).collect();
            if all.is_empty() {
                return Err("amped".to_owned());
            }
            Ok(all.into_iter().map(|one| [one, sped]).collect())
        },
        quantity: &[Top("cpu_us_per_reply")],
        guard: Guard::Cached,
        beside: &[beside(
            0,
            ["residency_checks", "replies"],
            1.0,
            "tests for pages for each reply",
        )],
    },
    Row {
        id: "X-3",
        arms: |run| beside_processes(run, run.of("amped").take(1).chain(flash(run)).collect()),
        guard: Guard::Disk,
        beside: &DISK_OF_BOTH,
        ..PEAK
    },
    Row {
        id: "X-12",
        arms: |run| {
            let pairs = beside_processes(run, run.of("laio").take(1).collect())?;
            gains(run, pairs[0][1], pairs[1][1], SEVERAL_GAIN)?;
            Ok(vec![pairs[0]])
        },
        guard: Guard::Disk,
        beside: &DISK_OF_BOTH,
        ..PEAK
    },
    Row {
        id: "X-6",
        arms: |run| {
            let (short, events) = (pipelines(run)?[0], first(run, "symped")?);
            Ok(vec![[first(run, "seda")?, short], [first(run, "seda")?, events]])
        },
        quantity: &[Top("switches_per_reply"), Top("switches_per_reply"), Peak, Peak],
        guard: Guard::Cached,
        beside: &SWITCHES_OF_BOTH,
    },
    Row {
        id: "X-7",
        arms: |run| {
            let of = |value| member(run, "stages.batch_control", value, |_| true);
            pair(of("true"), of("false"))
        },
        quantity: &[Top("switches_per_reply"), Peak],
        guard: Guard::Cached,
        beside: &SWITCHES_OF_BOTH,
    },
    Row {
        id: "X-16",
        arms: |run| {
            let of = |value| member(run, "cohort.policy", value, |_| true);
            pair(of("cohort"), of("run-to-completion"))
        },
        quantity: &[Top("cycles_per_instruction"), Top("p50_ms")],
        guard: Guard::Cached,
        beside: &[beside(0, ["queue_takes", "queue_visits"], 1.0, "connections for each visit")],
    },
    bar("B-1", |run| beside_ours(run, &Program::Null), &[cycles(SMALL)]),
    bar("B-2", |run| beside_ours(run, &Program::Other(Other::Nginx)), &[cycles(SMALL)]),
    bar("B-3", |run| beside_ours(run, &Program::Null), &[cycles("/files/0065536")]),
    bar("B-4", |run| beside_ours(run, &Program::Null), &[cycles("/files/1048576")]),
];

/// A file of the preset `bodies`.
pub(super) const SMALL: &str = "/files/0004096";

const fn cycles(file: &'static str) -> Quantity {
    Reply("cycles_per_reply", file)
}

/// A bar of ours: what a reply costs.
const fn bar(id: &'static str, arms: Arms, quantity: &'static [Quantity]) -> Row {
    Row { id, arms, quantity, ..PEAK }
}

/// The first of ours, and another program.
fn beside_ours<'a>(run: &Evidence<'a>, program: &Program) -> Found<Vec<[&'a Target; 2]>> {
    let mut all = run.run.experiment.targets.iter();
    let other = all.find(|target| target.program == *program);
    pair(ours(run), other.ok_or("the bare loop and nginx beside ours".to_owned()))
}

/// The first of ours.
pub(super) fn ours<'a>(run: &Evidence<'a>) -> Found<&'a Target> {
    run.regattas().next().ok_or_else(|| "a target of ours".to_owned())
}

fn presets<'a>(run: &Evidence<'a>, names: [&str; 2]) -> Found<Vec<[&'a Target; 2]>> {
    pair(preset(run, names[0]), preset(run, names[1]))
}

/// One arm over another, and no more.
fn pair<'a>(above: Found<&'a Target>, below: Found<&'a Target>) -> Found<Vec<[&'a Target; 2]>> {
    Ok(vec![[above?, below?]])
}

/// By so much one that adapts has to be ahead of one that blocks, that there is a gain to remove.
const ADAPTING_GAINS: f64 = 1.02;
/// By so much several processes have to be ahead of one, that one has something to reach.
const SEVERAL_GAIN: f64 = 1.05;

/// An error where one arm is not surely ahead of another by so much.
fn gains(run: &Evidence<'_>, above: &Target, below: &Target, least: f64) -> Found<()> {
    let gain = run.peak_ratio(&above.name, &below.name)?;
    match gain.above(least, String::new()).verdict(1) {
        Verdict::Holds => Ok(()),
        _ => Err(format!(
            "a gain of {} over {}: {}, which is not surely above {least}",
            above.name,
            below.name,
            show(&gain)
        )),
    }
}

/// Arms of one loop that does not block, each beside several processes that do and beside one.
fn beside_processes<'a>(run: &Evidence<'a>, loops: Vec<&'a Target>) -> Found<Vec<[&'a Target; 2]>> {
    let several = run.of("symped").filter(|one| !blocks(one)).max_by_key(|one| processes(one));
    let (several, sped) = (several.ok_or("symped with several processes")?, one(run)?);
    if loops.is_empty() {
        return Err("one loop whose disk operations are made elsewhere (amped, laio)".to_owned());
    }
    Ok(loops.into_iter().flat_map(|one| [[one, several], [one, sped]]).collect())
}

impl Row {
    /// What became of the claim.
    pub(super) fn judge(&self, run: &Evidence<'_>, claim: &Claim) -> Found<Finding> {
        match self.guard {
            Guard::Disk => drop(waits(run)?),
            Guard::Cached => needs_cached(run)?,
            Guard::None | Guard::Processors(_) => {}
        }
        let shared = matches!(self.guard, Guard::Processors(_)) && run.processors(1).is_err();
        let (mut ours, mut asked) = (Vec::new(), Vec::new());
        let mut why: Vec<String> = claim.ranges.iter().map(|range| range.words()).collect();
        let pairs = (self.arms)(run)?;
        let times = pairs.len().max(self.quantity.len());
        for (at, [arm, baseline]) in pairs.into_iter().cycle().take(times).enumerate() {
            let own = self.quantity[at % self.quantity.len()];
            let quantity = if shared { Top("cpu_us_per_reply") } else { own };
            let (ratio, what, missed) = compared(run, quantity, [arm, baseline])?;
            let what = format!("{}'s {what} over {}'s", arm.name, baseline.name);
            ours.push(format!("{what}: {}", show(&ratio)));
            let told = self.beside.iter().filter_map(|one| one.told(run, [arm, baseline]));
            for told in missed.into_iter().chain(told) {
                if !why.contains(&told) {
                    why.push(told);
                }
            }
            asked.push(ratio.asks(claim.ranges[at % claim.ranges.len()], what));
        }
        let finding = Finding::all(ours.join("; "), why.join("; "), &asked);
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
        Peak => return Ok((run.peak_ratio(names[0], names[1])?, "peak".to_owned(), Vec::new())),
        Change(factor) => return change(run, factor, names),
        Reply(metric, file) => {
            (run.with(TARGET, file).tops(names)?, metric, format!(" for {file}"))
        }
        Near(multiple, metric) => (run.near(names, multiple)?, metric, format!(" at {multiple} S")),
        Top(metric) => (run.tops(names)?, metric, String::new()),
    };
    let missed = cells.each_ref().map(|cell| run.unanswered(cell));
    let missed = format!("times are of the answered: not answered were {}", missed.join(" and "));
    let (words, missed) = match metric {
        GOOD => ("throughput", Vec::new()),
        "mean_ms" => ("mean response time", vec![missed]),
        "cpu_us_per_reply" => ("processor time per reply", Vec::new()),
        "cycles_per_reply" => ("cycles per reply", Vec::new()),
        other => (other, Vec::new()),
    };
    Ok((run.ratio(&cells[0], &cells[1], metric)?, format!("{words}{at}"), missed))
}

/// How two arms' peaks grow from the lowest level of a factor to the highest, one over the other.
fn change(
    run: &Evidence<'_>,
    factor: &str,
    [arm, baseline]: [&str; 2],
) -> Found<(Shown, String, Vec<String>)> {
    let all = Evidence::everywhere(run.run);
    let (path, levels) = all.levels(factor)?;
    let mut levels: Vec<&str> = levels.iter().map(String::as_str).collect();
    levels.sort_by_key(|level| level.parse::<u32>().unwrap_or_default());
    let (least, most) = (levels[0], levels[levels.len() - 1]);
    let gain = |arm: &str| -> Found<Blocks> {
        let [few, many] = [least, most].map(|level| all.with(path, level).peaks(arm, GOOD));
        let (few, many) = (few?, many?);
        Ok(with(&many, &few, |many, few| many / few))
    };
    let gains = |one: &str, other: &str| run.compared((one, &gain(one)?), (other, &gain(other)?));
    let ratio = run.beside_itself(gains(arm, baseline)?, gains);
    Ok((ratio, format!("peak with {path}={most} over that with {least},"), Vec::new()))
}

impl Beside {
    fn told(&self, run: &Evidence<'_>, arms: [&Target; 2]) -> Option<String> {
        let arm = &arms[self.arm].name;
        let cell = run.top(arm).ok()?;
        let of = |record: &Record| {
            let one = |name| counted(record, name).or_else(|| number(record, name));
            let part = one(self.counters[0])?;
            match self.counters[1] {
                "" => Some(part),
                whole => Some(part / one(whole).filter(|whole| *whole > 0.0)?),
            }
        };
        let share = run.middle(self.words, &cell, of).ok()?;
        Some(format!("{arm}: {:.2} {}", self.unit * share, self.words))
    }
}
