//! Where the processor time goes: a trial of each arm that never counts, under `perf record`.
//!
//! Samples are sorted into the categories of [E] table 1 and folded for flame graphs. Where there
//! is no perf, or no permission, the shares are those that `/proc` gives, and the source says so.

pub mod categories;
pub mod flame;
mod perf;
mod script;
use crate::group::INTERRUPTED;
use crate::journal::Run;
use crate::plan::{AGAIN, Cell};
use crate::record::metrics;
use crate::spec::Experiment;
use crate::trial::Bench;
use crate::watch::{Numbers, Seen};
use categories::{Category, Part, category};
pub(crate) use perf::{Recorder, TAIL_S};
pub(crate) use script::Folded;
use script::Sample;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Where profiles stand in a run's directory.
const FOLDER: &str = "profiles";
const INDEX: &str = "profiles/index.jsonl";
/// With fewer samples than this, shares of a per cent mean nothing.
const SAMPLES_MIN: u64 = 500;
/// Time around a profile's window, seconds: perf's start and end, its unwinding.
const AROUND_S: f64 = 8.0;

/// What a profile was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Samples of `perf record`.
    Perf,
    /// `/proc` and the server's own counters: `user` and `kernel` are all that they tell apart.
    Counters,
}

/// A line of `profiles/index.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// What was profiled.
    pub cell: Cell,
    /// From what.
    pub source: Source,
    /// Share of each category ([`Category::key`]); with [`Source::Counters`] `user` and `kernel`.
    pub categories: BTreeMap<String, f64>,
    /// Good answers while it was watched.
    pub replies: f64,
    /// If the processor counts both.
    pub cycles_per_instruction: Option<f64>,
    /// The folded stacks, from the run's directory.
    pub folded: Option<String>,
    /// The flame graph, from the run's directory.
    pub flame: Option<String>,
    /// Samples that the shares are of.
    pub samples: u64,
    /// Share of the samples in functions whose name or category is not known.
    pub unknown_share: f64,
    /// All system calls for each good answer, by the kernel's tracepoint.
    pub system_calls_per_reply: Option<f64>,
    /// The numbers of its trial. It was disturbed by being watched.
    pub metrics: Numbers,
    /// What is to be known of it.
    pub notes: Vec<String>,
}

impl Profile {
    /// All profiles of a run; a line that cannot be read is left out.
    #[must_use]
    pub fn all(directory: &Path) -> Vec<Self> {
        let text = fs::read_to_string(directory.join(INDEX)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The share of a category; 0 if no sample fell into it.
    #[must_use]
    pub fn share(&self, category: Category) -> f64 {
        self.categories.get(category.key()).copied().unwrap_or_default()
    }

    /// The share of a category by its key, or of the kernel's (`vmlinux`) or the program's
    /// (`user-space`) together; None without samples, or of a name that is none.
    #[must_use]
    pub fn named_share(&self, name: &str) -> Option<f64> {
        let of = |part| move |one: &Category| one.part() == part;
        let sum =
            |part| Category::ALL.into_iter().filter(of(part)).map(|one| self.share(one)).sum();
        match (self.source, name) {
            (Source::Counters, _) => None,
            (Source::Perf, "vmlinux") => Some(sum(Part::Kernel)),
            (Source::Perf, "user-space") => Some(sum(Part::User)),
            (Source::Perf, name) => {
                Category::ALL.into_iter().find(|one| one.key() == name).map(|one| self.share(one))
            }
        }
    }

    /// The folded stacks.
    pub(crate) fn stacks(&self, directory: &Path) -> Option<Folded> {
        let text = fs::read_to_string(directory.join(self.folded.as_ref()?)).ok()?;
        Some(Folded::parse(&text))
    }
}

/// The cells that are profiled: each arm at the levels that `measure.profile_at` names, at the
/// last level of other factors, the baseline once.
pub(crate) fn cells(experiment: &Experiment, all: &[Cell]) -> Vec<Cell> {
    if !experiment.measure.profile {
        return Vec::new();
    }
    let at = |path: &str| {
        let factor = experiment.factors.iter().find(|factor| factor.path == path)?;
        experiment.measure.profile_at.get(path).or_else(|| factor.levels.last()).cloned()
    };
    let here = |cell: &&Cell| {
        !cell.arm.ends_with(AGAIN)
            && cell.levels.iter().all(|(path, level)| at(path).as_ref() == Some(level))
    };
    all.iter().filter(here).cloned().collect()
}

/// How long the profiles of an experiment take, seconds.
pub(crate) fn predicted_s(experiment: &Experiment) -> f64 {
    let measure = &experiment.measure;
    let arms = if measure.profile { experiment.targets.len() } else { 0 };
    crate::stats::count(arms) * (measure.warm_s + measure.window_s + AROUND_S)
}

/// Writes how each arm's stacks differ from the baseline's.
///
/// # Errors
/// What could not be written.
pub(crate) fn differences(run: &Run) -> Result<(), String> {
    let all = Profile::all(&run.directory);
    let sampled = |profile: &&Profile| profile.folded.is_some();
    let baseline = all.iter().filter(sampled).find(|p| p.cell.arm == run.experiment.baseline);
    let Some(baseline) = baseline else { return Ok(()) };
    for other in all.iter().filter(sampled).filter(|other| other.cell.arm != baseline.cell.arm) {
        difference(&run.directory, baseline, other)?;
    }
    Ok(())
}

/// Profiles an arm and adds it to the run's index, unless it is there.
///
/// # Errors
/// That it was interrupted, or what could not be written. A server that does not serve is no error:
/// it has no profile, as its trials say.
pub(crate) fn take(run: &Run, bench: &Bench<'_>, cell: &Cell, seed: u64) -> Result<(), String> {
    if Profile::all(&run.directory).iter().any(|profile| profile.cell == *cell) {
        return Ok(());
    }
    let folder = run.directory.join(FOLDER);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut recorder = Recorder::new(bench);
    let outcome = folder.join("outcome.json");
    let measured = bench.profile(cell, seed, &outcome, &mut recorder);
    let _ = fs::remove_file(&outcome);
    let (found, seen) = match measured {
        Ok(measured) => measured,
        Err(why) if why == INTERRUPTED => return Err(why),
        Err(_) => return Ok(()),
    };
    let numbers = metrics(&found, &seen);
    let replies = found.good_per_s * seen.seconds;
    let mut tally = Tally::default();
    let mut notes = seen.missing.clone();
    let recorded = recorder.read(|sample, own| tally.add(&sample, own));
    let stem = format!("{:02}-{}", Profile::all(&run.directory).len(), file_name(&cell.arm));
    let mut profile = Profile {
        cell: cell.clone(),
        source: Source::Counters,
        categories: by_counters(&seen),
        replies,
        cycles_per_instruction: numbers.get("cycles_per_instruction").copied(),
        folded: None,
        flame: None,
        samples: 0,
        unknown_share: 0.0,
        system_calls_per_reply: None,
        metrics: numbers,
        notes: Vec::new(),
    };
    match recorder.calls_per_s() {
        Ok(calls) => profile.system_calls_per_reply = Some(calls / found.good_per_s),
        Err(why) => notes.push(why),
    }
    match recorded {
        Ok(()) if tally.total > 0 => {
            tally.enter(&mut profile, &mut notes);
            let (folded, flame) =
                (format!("{FOLDER}/{stem}.folded"), format!("{FOLDER}/{stem}.svg"));
            let svg = flame::flame(&cell.arm, &tally.folded);
            for (path, text) in [(&folded, tally.folded.text()), (&flame, svg)] {
                let path = run.directory.join(path);
                fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            (profile.folded, profile.flame) = (Some(folded), Some(flame));
        }
        Ok(()) => notes.push("perf: not one sample of the server".to_owned()),
        Err(why) => notes.push(why),
    }
    profile.notes = notes;
    append(&run.directory.join(INDEX), &profile)
}

fn append(path: &Path, profile: &Profile) -> Result<(), String> {
    let mut line = serde_json::to_string(profile).map_err(|error| error.to_string())?;
    line.push('\n');
    let file = File::options().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// A flame graph of the difference: its path from the run's directory, written there.
///
/// # Errors
/// If one has no stacks, or it cannot be written.
pub(crate) fn difference(
    directory: &Path,
    first: &Profile,
    second: &Profile,
) -> Result<String, String> {
    let stacks = |profile: &Profile| {
        let none = || format!("{} has no stacks: perf saw none", profile.cell.arm);
        profile.stacks(directory).ok_or_else(none)
    };
    let (before, after) = (&first.cell.arm, &second.cell.arm);
    let svg = flame::difference((before, &stacks(first)?), (after, &stacks(second)?));
    let path = difference_path(before, after);
    let whole = directory.join(&path);
    fs::write(&whole, svg).map_err(|error| format!("{}: {error}", whole.display()))?;
    Ok(path)
}

/// Where the difference of two arms is drawn, from the run's directory.
pub(crate) fn difference_path(before: &str, after: &str) -> String {
    format!("{FOLDER}/diff-{}-{}.svg", file_name(before), file_name(after))
}

/// All that `/proc` tells apart.
fn by_counters(seen: &Seen) -> BTreeMap<String, f64> {
    let of = |name: &str| seen.server.get(name).copied().unwrap_or_default();
    let all = of("user_s") + of("kernel_s");
    let share = |name: &str| (all > 0.0).then(|| of(name) / all);
    [("user", share("user_s")), ("kernel", share("kernel_s"))]
        .into_iter()
        .filter_map(|(name, share)| Some((name.to_owned(), share?)))
        .collect()
}

/// An arm's name as part of a file's.
fn file_name(arm: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_+".contains(c) { c } else { '-' };
    arm.chars().take(60).map(plain).collect()
}

/// Samples by category.
#[derive(Debug, Default)]
struct Tally {
    by_category: BTreeMap<Category, u64>,
    unknown: u64,
    total: u64,
    folded: Folded,
}

impl Tally {
    /// Adds a sample of the server's, or (`own` false) of a processor that served no process: of
    /// those the soft interrupts count, which bring the server its packets.
    fn add(&mut self, sample: &Sample, own: bool) {
        let names = || sample.frames.iter().filter_map(|frame| frame.symbol.as_deref());
        if !own && !names().any(|name| name.contains("softirq") || name == "net_rx_action") {
            return;
        }
        let (category, known) = category(sample.frames.first());
        *self.by_category.entry(category).or_default() += 1;
        self.unknown += u64::from(!known);
        self.total += 1;
        self.folded.add(sample);
    }

    fn enter(&self, profile: &mut Profile, notes: &mut Vec<String>) {
        let share = |count: u64| crate::record::real(count) / crate::record::real(self.total);
        profile.source = Source::Perf;
        profile.samples = self.total;
        profile.unknown_share = share(self.unknown);
        let named =
            |(category, count): (&Category, &u64)| (category.key().to_owned(), share(*count));
        profile.categories = self.by_category.iter().map(named).collect();
        if self.total < SAMPLES_MIN {
            notes.push(format!("only {} samples: shares are rough", self.total));
        }
    }
}
