//! `regatta lab`: options in, a run and what it says out, an exit code.

mod compare;
mod grow;
mod prices;

use crate::claims::{Verdict, judge};
use crate::env::Spec;
use crate::experiment::plan::{cells, order, whole_s};
use crate::experiment::{
    Experiment, KneeSearch, Mode, Rules, Scale, library, nearest, parse, parse_by,
};
use crate::group::INTERRUPTED;
use crate::journal::manifest::Manifest;
use crate::journal::{Run, machine_lacks, write_archive};
use crate::machines::{Far, destination};
use crate::profile::{self, Profile};
use crate::programs::OwnPrograms;
use crate::record::levels;
use crate::run::{self, Ended, Options, Progress};
pub use crate::terminal::{DONE, FAILED, Form, USAGE};
use crate::terminal::{
    REPORTING, Working, code, cut_short, fresh, print, print_as, print_json, progress_bar, publish,
    publish_after, say, show, warn,
};
use crate::units::{self, minutes};
use crate::verdicts::{Verdicts, of_one_origin};
use clap::Args;
use compare::Comparison;
use grow::Grow;
pub use prices::{PricesOptions, prices};
use regatta_load::engine::parse_time;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The most names that are suggested for one.
const ALIKE_MAX: usize = 5;

/// Options of `regatta lab run`.
#[derive(Args, Clone, Debug)]
pub struct RunOptions {
    /// The name of an experiment, or the file of one (docs/lab.md).
    pub which: String,
    /// The size: minutes, the papers' set-up scaled to this machine, or the papers' own sizes.
    #[arg(long, value_enum, default_value = "quick")]
    pub scale: Scale,
    /// The run's directory. If it has a run of this experiment already, that is continued.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run the load on another machine, over ssh; the servers run here (docs/lab.md).
    #[arg(long, value_name = "ssh://[USER@]HOST[:PORT]", value_parser = destination)]
    #[arg(conflicts_with = "plan")]
    pub load: Option<String>,
    /// Continue, block by block, until every claim of the experiment is decided.
    #[arg(long, conflicts_with = "plan")]
    pub until_decided: bool,
    /// The most time that --until-decided may take.
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "until_decided",
        value_parser = parse_time)]
    pub budget: Duration,
    /// Only print what would be done, and how long it would take.
    #[arg(long)]
    pub plan: bool,
    /// Exit with 1 if a claim of the experiment fails.
    #[arg(long, conflicts_with = "plan")]
    pub fail_on_claims: bool,
    /// Keep what later runs can be compared with in this file (`regatta lab compare FILE DIR`).
    #[arg(long = "save-baseline", value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Measure the installed `regatta` though its version differs from that of `regatta-lab`.
    #[arg(long)]
    pub any_version: bool,
    /// The server's program and the lab's.
    #[arg(skip)]
    pub programs: OwnPrograms,
    /// Rules of the server's program for its options.
    #[arg(skip)]
    pub rules: Rules,
    /// Format of the plan or the result.
    #[arg(skip = Form::Text)]
    pub form: Form,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    question: String,
    papers: Vec<String>,
    claims: Vec<String>,
    /// Time at each scale, by its name.
    seconds: BTreeMap<&'static str, f64>,
}

impl Listed {
    fn of((name, text): &(&'static str, &'static str)) -> Self {
        // The scales differ in time alone.
        let at = |scale| parse(name, text, scale).expect("a test reads every one of them");
        let seconds = |scale: Scale| {
            let experiment = at(scale);
            (scale.name(), whole_s(&experiment))
        };
        let Experiment { question, papers, claims, .. } = at(Scale::Quick);
        Self { name: *name, question, papers, claims, seconds: Scale::ALL.map(seconds).into() }
    }

    fn words(&self) -> String {
        let time =
            |scale: Scale| format!("{} {}", scale.name(), minutes(self.seconds[scale.name()]));
        let times = Scale::ALL.map(time).join(", ");
        let mut out = format!("{}\n  {}\n  {times}\n", self.name, self.question);
        if !self.papers.is_empty() {
            let _ = writeln!(out, "  {}", self.papers.join(", "));
        }
        if !self.claims.is_empty() {
            let _ = writeln!(out, "  claims {}", self.claims.join(", "));
        }
        out
    }
}

pub fn list(form: Form) -> u8 {
    let all: Vec<Listed> = library::EXPERIMENTS.iter().map(Listed::of).collect();
    print_as(form, &all, || all.iter().map(Listed::words).collect())
}

/// Prints the file of an experiment that comes with the program, or lists those whose names have
/// `name` in them.
pub fn print_file(name: &str) -> u8 {
    if let Some(text) = library::find(name) {
        return print(text);
    }
    let all = library::EXPERIMENTS.iter().filter(|(known, _)| has_in_it(known, name));
    let found: String = all.map(|one| Listed::of(one).words()).collect();
    if !found.is_empty() {
        return print(&found);
    }
    code(Err((USAGE, format!("{name}: no such experiment; `regatta lab list` shows all"))))
}

/// Whether a name has a text in it, hyphens and case apart.
fn has_in_it(name: &str, text: &str) -> bool {
    let plain = |text: &str| text.replace(['-', '_', '.'], "").to_ascii_lowercase();
    plain(name).contains(&plain(text))
}

/// Experiments whose names are like this one, as a question.
fn did_you_mean(name: &str) -> String {
    let all = || library::EXPERIMENTS.iter().map(|(known, _)| *known);
    let alike: Vec<&str> = all().filter(|known| has_in_it(known, name)).take(ALIKE_MAX).collect();
    let alike = if alike.is_empty() { nearest(name, all()).into_iter().collect() } else { alike };
    match alike.is_empty() {
        true => String::new(),
        false => format!("; did you mean {}?", alike.join(", ")),
    }
}

/// Runs an experiment, or continues it.
pub fn run(options: &RunOptions, stop: &AtomicBool) -> u8 {
    code(try_run(options, stop))
}

fn try_run(options: &RunOptions, stop: &AtomicBool) -> Result<u8, (u8, String)> {
    let (text, experiment) = experiment(&options.which, options.scale, options.rules)?;
    let connect = |other: &str| {
        // Connecting takes a while.
        let _working = Working::on("connecting to the other machine");
        Far::connect(other, &options.programs, stop)
    };
    let far = options.load.as_deref().map(connect).transpose().map_err(failed)?;
    let refused = machine_lacks::refused(&experiment, options.rules);
    if options.plan {
        let mut manifest = Manifest::take(&experiment, options.scale, &options.programs);
        manifest.lacks.extend(refused);
        return Ok(match options.form {
            Form::Json => print_json(&plan_json(&experiment, &manifest)),
            Form::Text => {
                warn(&manifest);
                if let Some(why) = manifest.refusal(&experiment) {
                    say(&format!("would not be begun: {why}"));
                }
                print(&plan(&experiment))
            }
        });
    }
    let RunOptions { scale, out, programs, .. } = options;
    let budget = options.until_decided.then_some(options.budget);
    let making = Making { scale: *scale, out, programs, refused, far: far.as_ref(), budget };
    let (run, cut) = made(&text, &experiment, making, stop)?;
    if let Some(why) = cut {
        // The report so far can be read already.
        publish(&run, options.form).map_err(failed)?;
        return Err(cut_short(&run, &why));
    }
    options.baseline.as_ref().map_or(Ok(()), |path| run.save(path)).map_err(failed)?;
    let printed = publish(&run, options.form).map_err(failed)?;
    let fails = || judge(&run).iter().any(|claim| claim.verdict == Verdict::Fails);
    Ok(if options.fail_on_claims && fails() { FAILED } else { printed })
}

fn failed(why: String) -> (u8, String) {
    (FAILED, why)
}

/// Settings of a run; its fields are those of [`RunOptions`].
struct Making<'a> {
    scale: Scale,
    out: &'a Option<PathBuf>,
    programs: &'a OwnPrograms,
    /// Objections of the program to the experiment, for the manifest.
    refused: Vec<String>,
    far: Option<&'a Far>,
    budget: Option<Duration>,
}

fn made(
    text: &str,
    experiment: &Experiment,
    Making { scale, out, programs, refused, far, budget }: Making<'_>,
    stop: &AtomicBool,
) -> Result<(Run, Option<String>), (u8, String)> {
    let directory = out.clone().unwrap_or_else(|| fresh(&experiment.name));
    let bar = progress_bar();
    let tell = |progress: &Progress<'_>| show(&bar, progress);
    let asked = Options { programs, far, stop, tell: &tell, more: &|_| Ok(None) };
    let opened = run::open(&directory, text, experiment.clone(), scale, &asked);
    let mut run = opened.map_err(failed)?;
    if refused.iter().any(|why| !run.manifest.lacks.contains(why)) {
        run.manifest.lacks.retain(|lack| !refused.contains(lack));
        run.manifest.lacks.extend(refused);
        run.save_manifest().map_err(failed)?;
    }
    warn(&run.manifest);
    let ended = match budget {
        None => run::perform(&mut run, &asked),
        Some(budget) => {
            let grow = Grow::begin(&mut run, experiment, budget).map_err(|why| (USAGE, why))?;
            run::perform(&mut run, &Options { more: &|run| grow.more(run), ..asked })
        }
    };
    bar.finish_and_clear();
    match ended.map_err(failed)? {
        Ended::Done => Ok((run, None)),
        Ended::Interrupted => {
            let lost = far.and_then(Far::lost).filter(|why| why != INTERRUPTED);
            Ok((run, Some(lost.unwrap_or_else(|| INTERRUPTED.to_owned()))))
        }
    }
}

fn experiment(
    which: &str,
    scale: Scale,
    rules: Rules,
) -> Result<(String, Experiment), (u8, String)> {
    let text = match library::find(which) {
        Some(text) => text.to_owned(),
        None => fs::read_to_string(which).map_err(|error| {
            let alike = did_you_mean(which);
            let hint = "`regatta lab list` shows those that come with the program";
            let file = match error.kind() {
                std::io::ErrorKind::NotFound => "no such file".to_owned(),
                _ => error.to_string(),
            };
            (USAGE, format!("{which} is no experiment, and as a file: {file}{alike} ({hint})"))
        })?,
    };
    let experiment = read(rules, which, &text, scale)?;
    Ok((text, experiment))
}

fn read(rules: Rules, name: &str, text: &str, scale: Scale) -> Result<Experiment, (u8, String)> {
    let read = parse_by(Some(rules), name, text, scale);
    read.map_err(|problems| (USAGE, problems.join("\n")))
}

fn plan(experiment: &Experiment) -> String {
    let cells = cells(experiment);
    let trials = order(experiment).len();
    let mut out = format!("{}\n  expected: {}\n", experiment.question, experiment.expect);
    let time = minutes(whole_s(experiment));
    let (count, blocks) = (cells.len(), experiment.measure.blocks);
    let _ = match experiment.measure.mode {
        Mode::Trials => writeln!(out, "{count} cells in {blocks} blocks: {trials} trials, {time}"),
        Mode::Knee => {
            let search = search_words(&experiment.knee);
            writeln!(out, "{count} cells, {search}: at most {trials} trials, {time}")
        }
    };
    for cell in &cells {
        let _ = writeln!(out, "  {} {}", cell.arm, levels(cell));
    }
    // Places that differ only in processors are reported as one.
    let mut places: Vec<String> = Vec::new();
    for spec in experiment.specs() {
        let parts = spec.words().into_iter().map(|(part, what)| format!("{part} {what}"));
        let place = parts.collect::<Vec<_>>().join("; ");
        if !places.contains(&place) {
            let _ = writeln!(out, "in: {place}");
            places.push(place);
        }
    }
    out
}

/// Describes the search in each cell.
fn search_words(knee: &KneeSearch) -> String {
    let probes = format!(
        "each searched by up to {} probes until its knee is known within {} %",
        knee.trials_max,
        units::show(100.0 * knee.goal)
    );
    let times: Vec<String> = knee.overload.iter().map(f64::to_string).collect();
    match times.as_slice() {
        [] => probes,
        times => format!("{probes}, then loaded to {} times that", times.join(", ")),
    }
}

/// Plan for programs, with what this machine lacks.
fn plan_json(experiment: &Experiment, manifest: &Manifest) -> Value {
    let cells = cells(experiment);
    let trials = order(experiment).len();
    // A search has rounds until it is done, and no blocks.
    let (blocks, search) = match experiment.measure.mode {
        Mode::Trials => (Some(experiment.measure.blocks), None),
        Mode::Knee => (None, Some(&experiment.knee)),
    };
    let words =
        |spec: &Spec| -> BTreeMap<&'static str, String> { spec.words().into_iter().collect() };
    json!({
        "name": experiment.name,
        "scale": manifest.scale,
        "question": experiment.question,
        "expect": experiment.expect,
        "baseline": experiment.baseline,
        "seconds": whole_s(experiment),
        "blocks": blocks,
        "search": search,
        "trials": trials,
        "cells": cells,
        "environments": experiment.specs().iter().map(words).collect::<Vec<_>>(),
        "left_out": manifest.left_out,
        "lacks": manifest.lacks,
        "lacking": manifest.lacking,
        "label": manifest.label,
        "refusal": manifest.refusal(experiment),
    })
}

/// Writes the report of a run, whole or partial, and says what it says.
pub fn report(directory: &Path, form: Form) -> u8 {
    let working = Working::on(REPORTING);
    let told = Run::open(directory).map_err(|why| (USAGE, why));
    code(told.and_then(|run| publish_after(working, &run, form).map_err(|why| (FAILED, why))))
}

/// Prints the verdict of all runs in these directories on every claim of the papers, and keeps the
/// runs in a file.
pub fn verdicts(directories: &[PathBuf], keep: Option<&Path>, form: Form) -> u8 {
    let working = Working::on("judging the claims");
    let (runs, mut unread) = Run::all_below(directories);
    let (runs, others) = of_one_origin(runs);
    unread.extend(others);
    unread.iter().for_each(|why| say(&format!("not read: {why}")));
    if runs.is_empty() {
        drop(working);
        let all: Vec<String> = directories.iter().map(|one| one.display().to_string()).collect();
        let why = format!(
            "no run in {} or below; make one with `regatta lab run quick --out DIR`, or name the \
             directory of one",
            all.join(", ")
        );
        return code(Err((USAGE, why)));
    }
    let kept = keep.map_or(Ok(()), |path| write_archive(&runs, path));
    let verdicts = Verdicts::of(runs, unread);
    let text = kept.and_then(|()| verdicts.markdown());
    drop(working);
    code(text.map(|text| print_as(form, &verdicts, || text)).map_err(|why| (FAILED, why)))
}

/// Options of `regatta lab compare`.
#[derive(Args, Clone, Debug)]
pub struct CompareOptions {
    /// First to compare: a run's directory, a file of `lab run --save-baseline`, or a program.
    pub before: PathBuf,
    /// Second to compare: a run, or a program if the first is one.
    pub after: PathBuf,
    /// Directory of the run that compares two programs. A run that is there is continued.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The server's program and the lab's, which makes the load.
    #[arg(skip)]
    pub programs: OwnPrograms,
    /// Rules of the server's program for its options.
    #[arg(skip)]
    pub rules: Rules,
    /// Format of the result.
    #[arg(skip = Form::Text)]
    pub form: Form,
}

/// Prints what differs between two runs: first in what was asked of them, then in what they show.
/// Two programs run side by side. Without a cell that both have, it fails.
pub fn compare(options: &CompareOptions, stop: &AtomicBool) -> u8 {
    code(compared(options, stop).and_then(|compared| {
        let text = compared.markdown().map_err(failed)?;
        Ok(print_as(options.form, &compared, || text))
    }))
}

fn compared(options: &CompareOptions, stop: &AtomicBool) -> Result<Comparison, (u8, String)> {
    let CompareOptions { before, after, .. } = options;
    match [before, after].map(|path| compare::is_program(path)) {
        [true, true] => return compare::run_builds(options, stop),
        [false, false] => {}
        _ => {
            let why = "one is a program and the other a run: give two programs, or two runs";
            return Err((USAGE, why.to_owned()));
        }
    }
    let _working = Working::on("comparing the runs");
    match (Run::open(before), Run::open(after)) {
        (Ok(before), Ok(after)) => compare::compare(&before, &after).map_err(failed),
        (before, after) => {
            let whys: Vec<String> = [before.err(), after.err()].into_iter().flatten().collect();
            Err((USAGE, whys.join("\n")))
        }
    }
}

/// Draws flame graphs of a run's profiles: of one arm, or of the difference between two; without
/// arms, says which there are.
pub fn flame(directory: &Path, arms: &[String], form: Form) -> u8 {
    code(flames(directory, arms).map(|(json, words)| print_as(form, &json, || words)))
}

/// The flame graphs that were asked for, for programs and in words.
fn flames(directory: &Path, arms: &[String]) -> Result<(Value, String), (u8, String)> {
    let profiles = Profile::all(directory);
    let find = |arm: &String| {
        // The last of several counts, as in the report.
        let found = profiles.iter().rfind(|profile| profile.cell.arm == *arm);
        let names: Vec<&str> = profiles.iter().map(|one| one.cell.arm.as_str()).collect();
        let why = || format!("no profile of {arm}; there are: {}", names.join(", "));
        found.ok_or_else(|| (USAGE, why()))
    };
    let path =
        |one: &Profile| one.flame.as_ref().map(|path| directory.join(path).display().to_string());
    let told = |one: &Profile| -> Value {
        json!({ "arm": one.cell.arm, "flame": path(one), "notes": one.notes })
    };
    match arms {
        [] if profiles.is_empty() => {
            let why = "has no profiles: give the experiment `measure.profile = true`";
            Err((USAGE, format!("{} {why}", directory.display())))
        }
        [] => {
            let line = |one: &Profile| {
                let flame = path(one).unwrap_or_else(|| "-".to_owned());
                format!("{}  {flame}\n", one.cell.arm)
            };
            Ok((profiles.iter().map(told).collect(), profiles.iter().map(line).collect()))
        }
        [arm] => {
            let one = find(arm)?;
            let why = || failed(format!("{arm} has no stacks: {}", one.notes.join("; ")));
            Ok((told(one), path(one).ok_or_else(why)? + "\n"))
        }
        [before, after, ..] => {
            let path =
                profile::difference(directory, find(before)?, find(after)?).map_err(failed)?;
            let flame = directory.join(path).display().to_string();
            Ok((json!({ "before": before, "after": after, "flame": flame }), flame + "\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::synthetic;
    use crate::record::Cell;
    use crate::report::tests::profiled::profiled;

    #[test]
    fn every_experiment_can_be_planned_at_every_scale() {
        for (name, text) in library::EXPERIMENTS {
            for scale in Scale::ALL {
                let experiment = parse(name, text, scale).unwrap();
                let plan = plan(&experiment);
                assert!(plan.starts_with(&experiment.question), "{name}: {plan}");
                for target in &experiment.targets {
                    assert!(plan.contains(&format!("\n  {} ", target.name)), "{name}: {plan}");
                }
            }
        }
    }

    /// A search does not use `measure.blocks`, which are six unless the file says otherwise.
    #[test]
    fn the_plan_of_a_search_says_what_a_search_does() {
        let planned = |name| {
            let run = synthetic(library::find(name).unwrap(), &|_| BTreeMap::new());
            (plan(&run.experiment), plan_json(&run.experiment, &run.manifest))
        };
        let (words, json) = planned("knee");
        let line = "\n3 cells, each searched by up to 24 probes until its knee is known within \
                    3.00 %, then loaded to 1.5, 2 times that: at most 78 trials, ";
        assert!(words.contains(line), "{words}");
        assert!(!words.contains("blocks") && json["blocks"].is_null(), "{words}{json}");
        assert_eq!((&json["search"]["trials_max"], &json["trials"]), (&json!(24), &json!(78)));
        let (words, json) = planned("quick");
        assert!(words.contains("blocks: ") && json["blocks"].is_number(), "{words}{json}");
        assert!(json["search"].is_null(), "{json}");
    }

    #[test]
    fn names_that_are_alike_are_suggested() {
        for (name, suggestion) in [
            ("eurosys07fig4", "did you mean eurosys07-fig4"),
            ("quik", "did you mean quick?"),
            ("EUROSYS07", "eurosys07-fig3"),
            ("zzzzzzzz", ""),
        ] {
            let found = did_you_mean(name);
            assert!(found.contains(suggestion), "{name}: {found}");
            assert_eq!(found.is_empty(), suggestion.is_empty(), "{name}: {found}");
        }
    }

    #[test]
    fn flame_graphs_are_told_of_in_text_and_json() {
        let metrics = |_: &Cell| BTreeMap::<String, f64>::new();
        let stacks = |_: &Cell| "regatta;serve 7\n".to_owned();
        let (run, _folder) = profiled("systor12-table2", &metrics, &stacks, &[]);
        let directory = run.directory.as_path();
        let told = |arms: &[String]| flames(directory, arms).unwrap();
        let (all, words) = told(&[]);
        let all = all.as_array().unwrap();
        assert!(all.len() > 1 && words.lines().count() == all.len(), "{words}");
        let arms = [&all[0], &all[1]].map(|one| one["arm"].as_str().unwrap().to_owned());
        let (one, words) = told(&arms[..1]);
        assert_eq!(one, all[0]);
        assert_eq!(words.trim_end(), directory.join("profiles/00.svg").display().to_string());
        let (difference, words) = told(&arms);
        assert_eq!(difference["after"], *arms[1]);
        assert_eq!(difference["flame"], *words.trim_end());
        assert!(Path::new(words.trim_end()).exists());
        let (code, why) = flames(directory, &["nobody".to_owned()]).unwrap_err();
        assert!(code == USAGE && why.contains(&arms[1]), "{why}");
    }

    #[test]
    fn the_documentation_lists_every_experiment_with_its_claims() {
        let page = include_str!("../../../../docs/lab.md");
        for (name, text) in library::EXPERIMENTS {
            let claims = parse(name, text, Scale::Quick).unwrap().claims.join(", ");
            let start = format!("| `{name}` |");
            let row = page.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
            assert!(row.contains(&format!("| {claims} |")), "{name}: {row:?}, claims {claims}");
        }
    }
}
