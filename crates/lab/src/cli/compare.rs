//! Compares two runs, or two builds within one run. Runs were not interleaved, so the machine's
//! drift between them is in every difference. The work of a reply (instructions) hardly drifts.

use super::{CompareOptions, Making, failed, made, read};
use crate::analysis::{Analysis, CellSummary};
use crate::experiment::{Mode, Scale, library, words};
use crate::journal::manifest::{ROUND_TRIP, hash};
use crate::journal::{Run, machine_lacks};
use crate::knee::Found;
use crate::record::{AGAIN, Cell};
use crate::report;
use crate::run::saturation;
use crate::stats::{Centre, Effect, Interval, Verdict, judge_together, mean, welch};
use crate::terminal::cut_short;
use crate::units::{At, escaped, filled, show};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const MARKDOWN: &str = include_str!("../../assets/compare.md");
/// Cells that are named where no two are the same.
const NAMED_MAX: usize = 4;
/// The numbers compared besides the one that decides.
const BESIDE: [&str; 3] =
    ["user_instructions_per_reply", "kernel_instructions_per_reply", "cpu_us_per_reply"];

/// Comparison of the cells that two runs share.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// The directory of the run to compare with, or the program.
    before: String,
    /// The directory of the run that is compared, or the program.
    after: String,
    /// For two programs, the directory of the run in which both ran.
    run: Option<String>,
    /// Differences in the request: scale, workload, environment, place and manner of running.
    asked: Vec<Difference>,
    /// Differences found despite the same request: machine, programs.
    found: Vec<Difference>,
    /// Cells that only one of the two has: left out.
    unpaired: [usize; 2],
    /// Arms with a knee in at most one of two saturation searches, and what each search found.
    kneeless: Vec<String>,
    rows: Vec<Row>,
}

/// Something that the runs do not have alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Difference {
    what: String,
    /// None: there is no such thing.
    before: Option<String>,
    after: Option<String>,
}

/// A number of a cell in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    cell: Cell,
    metric: String,
    /// Medians of the trials that count.
    before: f64,
    after: f64,
    /// After over before, by Welch's t test on the logarithms: no interval below four trials on a
    /// side. Its blocks are the trials of the side that has fewer.
    #[serde(flatten)]
    effect: Effect,
    verdict: Verdict,
}

pub(crate) fn compare(before: &Run, after: &Run) -> Result<Comparison, String> {
    let (a, b) = (Analysis::of(before), Analysis::of(after));
    let usable = |analysis: &Analysis| -> BTreeSet<Cell> {
        let usable = analysis.cells.iter().filter(|one| one.trials > 0);
        usable.map(|one| one.cell.clone()).collect()
    };
    let (mine, theirs) = (usable(&a), usable(&b));
    let common = mine.intersection(&theirs).count();
    let asked = differences(&before.asked(), &after.asked());
    let searched = |run: &Run| run.experiment.measure.mode == Mode::Knee;
    let (mut rows, mut kneeless) = (Vec::new(), Vec::new());
    // The trials of a search are at rates of its own choice: what it found can be compared alone.
    if searched(before) && searched(after) {
        (rows, kneeless) = knees_of([&a, &b]);
    }
    let mut metrics = vec![a.metric.as_str()];
    metrics.extend(BESIDE.iter().filter(|name| **name != a.metric));
    metrics.retain(|_| !searched(before) && !searched(after));
    for metric in metrics {
        let cells = a.cells.iter().filter(|one| one.trials > 0);
        rows.extend(cells.filter_map(|cell| row(cell, &b, [before, after], metric)));
    }
    if rows.is_empty() && kneeless.is_empty() {
        return Err(nothing_in_common([before, after], [&mine, &theirs], common, &asked));
    }
    judge_together(rows.iter_mut().map(|row| &mut row.effect), 1);
    rows.iter_mut().for_each(|row| row.verdict = row.effect.verdict());
    Ok(Comparison {
        before: before.directory.display().to_string(),
        after: after.directory.display().to_string(),
        asked,
        found: differences(&found(before), &found(after)),
        unpaired: [mine.len() - common, theirs.len() - common],
        kneeless,
        rows,
        ..Comparison::default()
    })
}

/// Compares two programs that ran at the same time in a run: its baseline and the other target.
fn compare_builds(run: &Run, [before, after]: [String; 2]) -> Result<Comparison, String> {
    let analysis = Analysis::of(run);
    let effects = analysis.effects.iter().filter(|one| !one.cell.arm.ends_with(AGAIN));
    let median = |arm: &str, of: &Cell| analysis.cell(arm, &of.levels)?.median(&analysis.metric);
    let rows: Vec<Row> = effects
        .filter_map(|one| {
            Some(Row {
                before: median(&run.experiment.baseline, &one.cell)?,
                after: median(&one.cell.arm, &one.cell)?,
                cell: one.cell.clone(),
                metric: analysis.metric.clone(),
                effect: one.effect,
                verdict: one.verdict,
            })
        })
        .collect();
    if rows.is_empty() {
        let directory = run.directory.display();
        return Err(format!("no trial that counts of one of them: {directory} says why"));
    }
    let run = Some(run.directory.display().to_string());
    Ok(Comparison { before, after, run, rows, ..Comparison::default() })
}

/// Explains why nothing can be compared, and what to do about it.
fn nothing_in_common(
    runs: [&Run; 2],
    cells: [&BTreeSet<Cell>; 2],
    common: usize,
    asked: &[Difference],
) -> String {
    let metric = &runs[0].experiment.measure.metric;
    let mut out = if common > 0 {
        format!("no trial that counts has {metric} in both runs")
    } else {
        "the two runs have no cell in common".to_owned()
    };
    for (run, cells) in runs.iter().zip(cells) {
        let names: Vec<String> = cells.iter().take(NAMED_MAX).map(Cell::name).collect();
        let more = if cells.len() > NAMED_MAX { ", ..." } else { "" };
        let named =
            if names.is_empty() { "not one trial that counts".into() } else { names.join(", ") };
        // Writing to a String cannot fail.
        let _ = write!(out, "\n  {} has {named}{more}", run.directory.display());
    }
    for one in asked {
        let _ = write!(out, "\n  {one}");
    }
    out.push_str(
        "\nRun the same experiment at the same scale with both programs, or put both into one \
         experiment, each as a target with its `binary` (`regatta lab list template-builds`, \
         which `regatta lab compare OLD NEW` runs with two programs).",
    );
    out
}

fn found(run: &Run) -> BTreeMap<String, String> {
    let manifest = &run.manifest;
    let passing = |name: &str| name.contains("load average") || name == ROUND_TRIP;
    let mut all: BTreeMap<String, String> =
        manifest.machine.iter().filter(|(name, _)| !passing(name)).map(owned).collect();
    for (name, version) in &manifest.versions {
        all.insert(format!("program of {name}"), version.clone());
    }
    for (name, why) in &manifest.left_out {
        all.insert(format!("program of {name}"), format!("left out: {why}"));
    }
    let versions = manifest.programs.iter();
    all.extend(versions.map(|(name, said)| (format!("version of {name}"), said.clone())));
    let hashes = [("regatta", &manifest.regatta_sha256), ("regatta-lab", &manifest.lab_sha256)];
    all.extend(hashes.map(|(name, sha256)| (format!("SHA-256 of {name}"), hash(sha256))));
    all.insert("not possible".to_owned(), manifest.lacks.join("; "));
    all.extend(manifest.label.iter().map(|label| ("label".to_owned(), label.clone())));
    all
}

fn owned((name, value): (&String, &String)) -> (String, String) {
    (name.clone(), value.clone())
}

fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let difference = |name: &String| {
        let (before, after) = (before.get(name).cloned(), after.get(name).cloned());
        (before != after).then(|| Difference { what: name.clone(), before, after })
    };
    names.into_iter().filter_map(difference).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |value: &Option<String>| match value.as_deref() {
            None | Some("") => "nothing".to_owned(),
            Some(value) => value.to_owned(),
        };
        write!(f, "{}: {} before, {} after", self.what, said(&self.before), said(&self.after))
    }
}

/// Metric of a row about knees.
const KNEE: &str = "knee_per_s";

/// The knees that both searches found, and what was found where one of them has none.
fn knees_of(runs: [&Analysis; 2]) -> (Vec<Row>, Vec<String>) {
    let known = |row: &saturation::Row| match &row.knee.found {
        Found::Knee { rate, interval, .. } => Some((*rate, Centre::of_ratio(*rate, *interval))),
        _ => None,
    };
    let (mut rows, mut kneeless) = (Vec::new(), Vec::new());
    for old in &runs[0].knees {
        let Some(new) = runs[1].knees.iter().find(|new| new.cell == old.cell) else { continue };
        let (Some((before, from)), Some((after, to))) = (known(old), known(new)) else {
            kneeless.push(format!(
                "before, {}; after, {}",
                saturation::words(old),
                saturation::words(new)
            ));
            continue;
        };
        let probes = old.knee.tried.len().min(new.knee.tried.len());
        rows.push(Row {
            cell: old.cell.clone(),
            metric: KNEE.to_owned(),
            before,
            after,
            effect: Effect::new(to.less(from), probes, 1),
            verdict: Verdict::CannotTell,
        });
    }
    (rows, kneeless)
}

fn row(cell: &CellSummary, other: &Analysis, runs: [&Run; 2], metric: &str) -> Option<Row> {
    let same = other.cell(&cell.cell.arm, &cell.cell.levels)?;
    let (old, new) = (cell.metrics.get(metric)?, same.metrics.get(metric)?);
    let [below, above] = runs.map(|run| -> Vec<f64> {
        let trials = run.valid().filter(|record| record.cell == cell.cell);
        let values = trials.filter_map(|record| record.metrics.get(metric).copied());
        values.filter(|value| *value > 0.0 && value.is_finite()).map(f64::ln).collect()
    });
    let least = above.len().min(below.len());
    if least == 0 {
        return None;
    }
    // A single trial on a side has no interval.
    let alone = || Centre { mean: mean(&above) - mean(&below), ..Centre::default() };
    let apart = welch(&above, &below).unwrap_or_else(alone);
    Some(Row {
        cell: cell.cell.clone(),
        metric: metric.to_owned(),
        before: old.median,
        after: new.median,
        effect: Effect::new(apart, least, 1),
        verdict: Verdict::CannotTell,
    })
}

impl Row {
    fn words(&self) -> String {
        let ratio = match self.effect.interval {
            None => format!("{:.3}", self.effect.ratio),
            Some(Interval { low, high }) => {
                format!("{:.3} ({low:.3} to {high:.3})", self.effect.ratio)
            }
        };
        let told = match self.verdict {
            Verdict::More => "more",
            Verdict::Less => "less",
            Verdict::NoDifference => "no difference seen",
            Verdict::CannotTell => "too few trials",
        };
        let (old, new) = (show(self.before), show(self.after));
        let name = escaped(&self.cell.name());
        format!("| {name} | {old} | {new} | {ratio} | {:.4} | {told} |", self.effect.p)
    }
}

impl Comparison {
    pub(crate) fn markdown(&self) -> Result<String, String> {
        let said = |all: &[Difference]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let table = |rows: &[Row]| {
            json!({ "words": words(&rows[0].metric),
                "rows": rows.iter().map(Row::words).collect::<Vec<_>>() })
        };
        let tables = self.rows.chunk_by(|a, b| a.metric == b.metric).map(table);
        let values = json!({ "before": self.before, "after": self.after, "run": self.run,
            "asked": said(&self.asked), "found": said(&self.found), "unpaired": self.unpaired,
            "kneeless": self.kneeless, "tables": tables.collect::<Vec<_>>() });
        filled("compare.md", MARKDOWN, &values)
    }
}

/// The experiment, and what of it the programs replace.
const TEMPLATE: &str = "template-builds";
const PROGRAMS: [&str; 2] = ["\"./regatta-old\"", "\"./regatta-new\""];

/// Whether it is a file that can be executed: runs are directories, baselines are not executable.
pub(super) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|is| is.is_file() && is.permissions().mode() & 0o111 != 0)
}

/// Runs both and compares what a reply costs.
pub(super) fn run_builds(
    options: &CompareOptions,
    stop: &AtomicBool,
) -> Result<Comparison, (u8, String)> {
    let builds = [&options.before, &options.after];
    let text = experiment(builds.map(AsRef::as_ref)).map_err(failed)?;
    let experiment = read(options.rules, TEMPLATE, &text, Scale::Quick)?;
    let CompareOptions { out, programs, rules, .. } = options;
    let refused = machine_lacks::refused(&experiment, *rules);
    let making = Making { scale: Scale::Quick, out, programs, refused, far: None, budget: None };
    let (run, cut) = made(&text, &experiment, making, stop)?;
    report::write(&run).map_err(failed)?;
    match cut {
        Some(why) => Err(cut_short(&run, &why)),
        None => compare_builds(&run, builds.map(|one| one.display().to_string())).map_err(failed),
    }
}

fn experiment(programs: [&Path; 2]) -> Result<String, String> {
    let template = library::find(TEMPLATE).expect("a test looks for it");
    let mut text = template.replace(&format!("\"{TEMPLATE}\""), "\"builds\"");
    for (program, place) in programs.into_iter().zip(PROGRAMS) {
        let path = fs::canonicalize(program).at(program)?;
        let path = toml::Value::String(path.display().to_string()).to_string();
        text = text.replacen(place, &path, 1);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{synthetic, synthetic_at};
    use crate::experiment::{Scale, parse};
    use crate::run::saturation::tests::searched_at;

    const TEXT: &str = r#"
experiment = { name = "made-up", question = "?", expect = "!" }
targets.a.program = "regatta"
workload.root = "."
measure.blocks = 12
scale.full.measure.window_s = 60
"#;

    fn work(text: &str, scale: Scale, instructions: f64) -> Run {
        synthetic_at(text, scale, &move |_| {
            BTreeMap::from([
                ("good_per_s".to_owned(), 1_000.0),
                ("user_instructions_per_reply".to_owned(), instructions),
            ])
        })
    }

    #[test]
    fn what_changed_is_told_with_its_interval() {
        let [before, after] =
            [2_000.0, 2_200.0].map(|instructions| work(TEXT, Scale::Quick, instructions));
        let compared = compare(&before, &after).unwrap();
        let text = compared.markdown().unwrap();
        let row = "| a | 2,000 | 2,200 | 1.100 (1.100 to 1.100) | 0.0000 | more |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("no difference seen"), "{text}");
        assert!(text.contains("different times"), "{text}");
        assert!(!text.contains("Not the same was asked"), "{text}");
        let json = serde_json::to_value(&compared).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), 4, "two arms, two numbers");
        assert!(json["rows"].as_array().unwrap().iter().any(|row| row["verdict"] == "more"));
    }

    #[test]
    fn builds_that_ran_at_once_are_compared_by_pairs() {
        let text = TEXT
            .replace("targets.a.program", "targets.old.program = \"regatta\"\ntargets.new.program");
        let costs = |cost: f64| {
            synthetic(&text, &move |cell| {
                let cost = if cell.arm == "new" { cost } else { 100.0 };
                BTreeMap::from([("good_per_s".to_owned(), cost)])
            })
        };
        let names = || ["./old", "./new"].map(str::to_owned);
        let compared = compare_builds(&costs(95.0), names()).unwrap();
        let [row] = compared.rows.as_slice() else { panic!("{compared:?}") };
        assert_eq!(row.verdict, Verdict::Less, "{compared:?}");
        let said = compared.markdown().unwrap();
        assert!(
            said.contains("./old and ./new") && said.contains("They ran at the same time"),
            "{said}"
        );
        let mut none = costs(95.0);
        none.records.retain(|record| record.cell.arm != "new");
        assert!(compare_builds(&none, names()).unwrap_err().contains("no trial that counts"));
    }

    #[test]
    fn what_was_not_asked_alike_is_said_first() {
        let before = work(TEXT, Scale::Quick, 2_000.0);
        let other = TEXT.replace("workload.root", "workload.connections = 8\nworkload.root");
        let mut after = work(&other, Scale::Full, 2_000.0);
        after.manifest.scale = Scale::Full;
        after.manifest.unit = Some(3_000.0);
        after.manifest.machine.insert("processors".to_owned(), "2".to_owned());
        let text = compare(&before, &after).unwrap().markdown().unwrap();
        for line in [
            "* scale: quick before, full after",
            "* what 1x is, requests per second: 1,000 before, 3,000 after",
            "* workload.connections: 64 before, 8 after",
            "* measure.window_s: 5.0 before, 60.0 after",
            "* processors: nothing before, 2 after",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let at = |part: &str| text.find(part).unwrap();
        assert!(at("Not the same was asked") < at("Made with") && at("Made with") < at("| arm |"));
    }

    /// The trials of a search are at rates of its own choice, so only what it found is compared.
    #[test]
    fn of_searches_the_knees_are_compared() {
        let [before, mut after] = [(800.0, 9), (640.0, 10)].map(|(b, seed)| searched_at(b, seed));
        let compared = compare(&before, &after).unwrap();
        assert!(compared.rows.iter().all(|row| row.metric == KNEE), "{compared:?}");
        let told: Vec<(&str, Verdict)> =
            compared.rows.iter().map(|row| (row.cell.arm.as_str(), row.verdict)).collect();
        let same = Verdict::NoDifference;
        assert_eq!(told, [("a", same), ("a (again)", same), ("b", Verdict::Less)]);
        assert!((compared.rows[2].effect.ratio / 0.8 - 1.0).abs() < 0.05, "{compared:?}");
        let text = compared.markdown().unwrap();
        assert!(text.contains("highest rate at which"), "{text}");
        after.records.truncate(5);
        let text = compare(&before, &after).unwrap().markdown().unwrap();
        assert!(text.contains("No knee in one of them: before, b: "), "{text}");
    }

    #[test]
    fn runs_without_a_common_cell_are_not_compared() {
        let before = work(TEXT, Scale::Quick, 2_000.0);
        let after = work(&TEXT.replace("targets.a", "targets.b"), Scale::Quick, 2_000.0);
        let why = compare(&before, &after).unwrap_err();
        assert!(why.contains("no cell in common") && why.contains("has a, a (again)"), "{why}");
        assert!(why.contains("baseline: a before, b after"), "{why}");
        assert!(why.contains("each as a target with its `binary`"), "{why}");
        let mut after = work(TEXT, Scale::Quick, 2_000.0);
        after.records.iter_mut().for_each(|record| record.valid = false);
        let why = compare(&before, &after).unwrap_err();
        assert!(why.contains("not one trial that counts"), "{why}");
    }

    /// 60 pairs of runs of the same program: hardly one finds a difference anywhere, although each
    /// looks at eight rows.
    #[test]
    fn chance_is_told_as_a_difference_no_more_often_than_is_promised() {
        let text = format!("{TEXT}[factors]\n\"workload.connections\" = [1, 2, 3, 4]\n");
        let mut runs = Vec::new();
        let quiet = synthetic(&text, &|_| BTreeMap::from([("good_per_s".to_owned(), 1_000.0)]));
        let mut random = crate::stats::Random::new(11);
        for _ in 0..120 {
            let mut run = Run {
                directory: "x".into(),
                records: quiet.records.clone(),
                experiment: quiet.experiment.clone(),
                manifest: quiet.manifest.clone(),
                profiles_kept: Vec::new(),
            };
            for record in &mut run.records {
                let value = 1_000.0 * (0.02 * random.normal()).exp();
                record.metrics.insert("good_per_s".to_owned(), value);
            }
            runs.push(run);
        }
        let wrong = runs
            .chunks(2)
            .filter(|pair| {
                let found = compare(&pair[0], &pair[1]).unwrap();
                found.rows.iter().any(|row| row.verdict != Verdict::NoDifference)
            })
            .count();
        assert!(wrong <= 6, "{wrong} of 60");
    }

    #[test]
    fn the_template_takes_two_programs() {
        let own = std::env::current_exe().unwrap();
        let text = experiment([&own, Path::new("/bin/sh")]).unwrap();
        let read = parse("builds", &text, Scale::Quick).unwrap();
        let binaries: Vec<_> = read.targets.iter().map(|one| one.binary.clone()).collect();
        assert_eq!(read.name, "builds");
        let named = |path: &Path| Some(fs::canonicalize(path).unwrap().display().to_string());
        assert_eq!(binaries, [named(&own), named(Path::new("/bin/sh"))]);
        assert!(is_program(&own) && !is_program(Path::new("Cargo.toml")));
        assert!(!is_program(Path::new("/")), "a directory is a run");
        assert!(experiment([&own, Path::new("/nobody")]).unwrap_err().contains("/nobody"));
    }
}
