//! Profiles of processor time: a trial of each arm that never counts, under `perf record`.
//!
//! Samples are sorted into the categories of [E] table 1 and folded for flame graphs. Without perf
//! or permission the shares are those that `/proc` gives, and the source says so.

pub mod categories;
pub mod flame;

use crate::group::INTERRUPTED;
use crate::journal::{PROFILES, Run, append, write_whole};
use crate::record::{Cell, Numbers};
use crate::trial::{Bench, metrics};
use crate::units::At;
use crate::watch::Seen;
use crate::watch::perf::Recorder;
use crate::watch::perf_script::{Folded, Sample};
use categories::{Category, Part, category};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Place of profiles in a run's directory.
const FOLDER: &str = "profiles";
/// With fewer samples than this, shares of a per cent mean nothing.
const SAMPLES_MIN: u64 = 500;
/// Source of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Samples of `perf record`.
    Perf,
    /// `/proc` and the server's own counters: `user` and `kernel` are all that they tell apart.
    #[default]
    Counters,
}

/// A line of `profiles/index.jsonl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    pub cell: Cell,
    pub source: Source,
    /// Share of each category ([`Category::name`]); with [`Source::Counters`] `user` and `kernel`.
    pub categories: BTreeMap<String, f64>,
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
    pub notes: Vec<String>,
}

impl Profile {
    /// All profiles of a run's directory; a line that cannot be read is left out.
    pub fn all(directory: &Path) -> Vec<Self> {
        Self::read(&fs::read_to_string(directory.join(PROFILES)).unwrap_or_default())
    }

    /// All profiles of a run; a line that cannot be read is left out.
    pub(crate) fn of(run: &Run) -> Vec<Self> {
        let lines = run.profiles().into_iter();
        lines.filter_map(|line| serde_json::from_value(line).ok()).map(Self::checked).collect()
    }

    /// The profiles of an index. A line that cannot be read is left out, and so is a path that no
    /// run of ours has: it would be read, or linked from the report.
    pub fn read(index: &str) -> Vec<Self> {
        let lines = index.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.map(Self::checked).collect()
    }

    /// The same profile, without paths that no run of ours has.
    fn checked(mut self) -> Self {
        for path in [&mut self.folded, &mut self.flame] {
            if let Some(wrong) = path.take_if(|path| !is_own(path)) {
                self.notes.push(format!("{wrong:?} is no file of a profile"));
            }
        }
        self
    }

    /// The share of a category; 0 if no sample fell into it.
    pub fn share(&self, category: Category) -> f64 {
        self.categories.get(category.name()).copied().unwrap_or_default()
    }

    /// The share of a category by its key, or of the kernel's (`vmlinux`) or the program's
    /// (`user-space`) together; None without samples, or of a name that is none.
    pub fn named_share(&self, name: &str) -> Option<f64> {
        let of = |part| move |one: &Category| one.part() == part;
        let sum =
            |part| Category::ALL.into_iter().filter(of(part)).map(|one| self.share(one)).sum();
        match (self.source, name) {
            (Source::Counters, _) => None,
            (Source::Perf, "vmlinux") => Some(sum(Part::Kernel)),
            (Source::Perf, "user-space") => Some(sum(Part::User)),
            (Source::Perf, name) => Category::named(name).map(|one| self.share(one)),
        }
    }

    pub(crate) fn stacks(&self, directory: &Path) -> Option<Folded> {
        let text = fs::read_to_string(directory.join(self.folded.as_ref()?)).ok()?;
        Some(Folded::parse(&text))
    }
}

/// Writes how each arm's stacks differ from the baseline's: where an arm has several, its last.
pub(crate) fn differences(run: &Run) -> Result<(), String> {
    let mut sampled = Profile::of(run);
    sampled.retain(|profile| profile.folded.is_some());
    for (baseline, other) in compared(&sampled, &run.experiment.baseline) {
        difference(&run.directory, baseline, other)?;
    }
    Ok(())
}

/// The last profile of each arm, with the baseline's at the same levels, or else its last.
fn compared<'p>(profiles: &'p [Profile], baseline: &str) -> Vec<(&'p Profile, &'p Profile)> {
    let is_last = |(at, one): &(usize, &Profile)| {
        profiles[at + 1..].iter().all(|later| later.cell.arm != one.cell.arm)
    };
    let of_baseline = || profiles.iter().rev().filter(move |one| one.cell.arm == baseline);
    let others = profiles.iter().enumerate().filter(is_last).map(|(_, one)| one);
    others
        .filter(|one| one.cell.arm != baseline)
        .filter_map(|one| {
            let same = of_baseline().find(|before| before.cell.levels == one.cell.levels);
            Some((same.or_else(|| of_baseline().next())?, one))
        })
        .collect()
}

/// Profiles an arm and adds it to the run's index, unless it is there. A server that does not serve
/// is no error: it has no profile, as its trials say.
pub(crate) fn take(run: &Run, bench: &Bench<'_>, cell: &Cell, seed: u64) -> Result<(), String> {
    let taken = Profile::of(run);
    if taken.iter().any(|profile| profile.cell == *cell) {
        return Ok(());
    }
    let folder = run.directory.join(FOLDER);
    fs::create_dir_all(&folder).at(&folder)?;
    let machine = bench.experiment.machine.at(&cell.levels);
    let mut recorder = Recorder::new(machine, bench.scratch.clone(), bench.stop);
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
    let stem = format!("{:02}-{}", taken.len(), file_name(&cell.arm));
    let mut profile = Profile {
        cell: cell.clone(),
        categories: by_counters(&seen),
        replies,
        cycles_per_instruction: numbers.get("cycles_per_instruction").copied(),
        metrics: numbers,
        ..Profile::default()
    };
    match recorder.calls_per_s {
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
                write_whole(&run.directory.join(path), &text)?;
            }
            (profile.folded, profile.flame) = (Some(folded), Some(flame));
        }
        Ok(()) => notes.push("perf: not one sample of the server".to_owned()),
        Err(why) => notes.push(why),
    }
    profile.notes = notes;
    append(&run.directory.join(PROFILES), &profile)
}

/// A flame graph of the difference: its path from the run's directory, written there.
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
    write_whole(&directory.join(&path), &svg)?;
    Ok(path)
}

/// Path of the drawn difference of two arms, from the run's directory.
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

fn file_name(arm: &str) -> String {
    arm.chars().take(60).map(|c| if is_plain(c) { c } else { '-' }).collect()
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_+".contains(c)
}

/// Whether a path is of the form that ours have: a plain name right below the folder.
fn is_own(path: &str) -> bool {
    let name = path.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/'));
    let name = name.and_then(|name| name.strip_suffix(".folded").or(name.strip_suffix(".svg")));
    name.is_some_and(|name| !name.is_empty() && name.chars().all(is_plain))
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
        let share = |count: u64| crate::units::real(count) / crate::units::real(self.total);
        profile.source = Source::Perf;
        profile.samples = self.total;
        profile.unknown_share = share(self.unknown);
        let named =
            |(category, count): (&Category, &u64)| (category.name().to_owned(), share(*count));
        profile.categories = self.by_category.iter().map(named).collect();
        if self.total < SAMPLES_MIN {
            notes.push(format!("only {} samples: shares are rough", self.total));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Scale, parse, plan};

    const TEXT: &str = r#"
experiment = { name = "x", question = "?", expect = "!", baseline = "a" }
targets.a.program = "regatta"
targets.b.program = "nginx"
workload = { root = ".", loop = "open" }
factors = { "workload.rate" = [100, 200, 300] }
measure.profile = true
measure.warm_s = 1
measure.window_s = 2
"#;

    fn read(more: &str) -> Result<Experiment, Vec<String>> {
        parse("x", &format!("{TEXT}{more}"), Scale::Quick)
    }

    fn chosen(more: &str) -> Vec<Cell> {
        let experiment = read(more).unwrap();
        let cells = plan::profiled(&experiment, &plan::cells(&experiment));
        let seconds = crate::stats::count(cells.len()) * (1.0 + 2.0 + plan::PROFILE_S);
        assert!((plan::profiles_s(&experiment) - seconds).abs() < 1e-9);
        cells
    }

    fn words(cells: &[Cell]) -> Vec<(&str, &str)> {
        cells.iter().map(|cell| (cell.arm.as_str(), &*cell.levels["workload.rate"])).collect()
    }

    #[test]
    fn every_arm_is_profiled_at_the_levels_that_are_asked_for() {
        assert_eq!(words(&chosen("")), [("a", "300"), ("b", "300")]);
        let one = chosen(r#"measure.profile_at = { "workload.rate" = "200" }"#);
        assert_eq!(words(&one), [("a", "200"), ("b", "200")]);
        let two = chosen(r#"measure.profile_at = { "workload.rate" = [100, 300] }"#);
        assert_eq!(words(&two), [("a", "100"), ("a", "300"), ("b", "100"), ("b", "300")]);
        let said = read(r#"measure.profile_at = { "workload.rate" = [100, 400] }"#).unwrap_err();
        let wanted = "measure.profile_at: \"workload.rate\" has no level \"400\"";
        assert!(said.len() == 1 && said[0].ends_with(wanted), "{said:?}");
    }

    #[test]
    fn arms_are_compared_with_the_baseline_at_their_last_levels() {
        let profile = |cell: &Cell| Profile { cell: cell.clone(), ..Profile::default() };
        let cells = chosen(r#"measure.profile_at = { "workload.rate" = [100, 300] }"#);
        let all: Vec<Profile> = cells.iter().map(profile).collect();
        let pairs = |all: &[Profile]| -> Vec<(Cell, Cell)> {
            let pairs = compared(all, "a").into_iter();
            pairs.map(|(before, after)| (before.cell.clone(), after.cell.clone())).collect()
        };
        assert_eq!(pairs(&all), [(cells[1].clone(), cells[3].clone())]);
        // An arm that has only the lower one.
        assert_eq!(pairs(&all[..3]), [(cells[0].clone(), cells[2].clone())]);
        assert_eq!(pairs(&all[1..3]), [(cells[1].clone(), cells[2].clone())]);
        assert_eq!(pairs(&all[2..]), []);
    }

    #[test]
    fn paths_of_an_index_stay_in_its_folder() {
        let line = |path: &str| {
            let [folded, flame] = [path, path].map(|path| Some(path.to_owned()));
            let profile = Profile { folded, flame, ..Profile::default() };
            serde_json::to_string(&profile).unwrap() + "\n"
        };
        for path in ["profiles/00-sped.svg", "profiles/12-a_b+c--d.folded"] {
            let found = Profile::read(&line(path));
            assert_eq!(found[0].folded.as_deref(), Some(path));
            assert_eq!(found[0].flame.as_deref(), Some(path));
            assert!(found[0].notes.is_empty());
        }
        for path in [
            "/etc/passwd",
            "profiles/../../x.svg",
            "profiles//x.svg",
            "profiles/.svg",
            "profilesx.svg",
            "javascript:alert(1)//.svg",
            "profiles/a\"onclick=.svg",
            "profiles/a.html",
            "",
        ] {
            let found = Profile::read(&line(path));
            assert_eq!((&found[0].folded, &found[0].flame), (&None, &None), "{path}");
            assert_eq!(found[0].notes.len(), 2, "{path}");
        }
        assert_eq!(Profile::read(&format!("{{\n{}", line("x"))).len(), 1);
    }
}
