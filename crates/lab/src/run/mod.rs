//! Runs an experiment: what is missing of it, in its order, until done or told to stop.

mod at_once;
pub(crate) mod own_files;
pub(crate) mod saturation;
mod seek;

use crate::env::Lack;
use crate::experiment::plan::{Planned, cells, order, predicted_s, profiled};
use crate::experiment::{CpuLayout, Experiment, Mode, Scale, Workload};
use crate::group::INTERRUPTED;
use crate::journal::Run;
use crate::journal::manifest::{Manifest, Other};
use crate::machines::Far;
use crate::profile;
use crate::programs::OwnPrograms;
use crate::record::{Cell, levels};
use crate::servers::environments::Rooms;
use crate::servers::make_open;
use crate::trial::load_command::{NO_THINK, list_files};
use crate::trial::{Attempt, Bench};
use crate::units::At;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Begins a run in `directory`, or continues the one that is there.
///
/// # Errors
/// Another experiment is there, the baseline's program is missing, or the machine allows no
/// simulated disk where one is asked for.
pub fn open(
    directory: &Path,
    text: &str,
    mut experiment: Experiment,
    scale: Scale,
    options: &Options<'_>,
) -> Result<Run, String> {
    if directory.join("manifest.json").exists() {
        let run = Run::open(directory)?;
        run.manifest.found_for(&mut experiment);
        if !run.manifest.looks.is_empty() {
            experiment.measure.blocks = run.experiment.measure.blocks;
        }
        if run.experiment != experiment || run.manifest.scale != scale {
            return Err(format!("{} has another experiment's run", directory.display()));
        }
        run.manifest.same_programs(options.programs)?;
        run.manifest.same_machines(options.far.map(Far::destination))?;
        run.mend()?;
        return Ok(run);
    }
    let mut manifest = match options.far {
        Some(far) => far.manifest(&experiment, scale, options.programs)?,
        None => Manifest::take(&experiment, scale, options.programs),
    };
    manifest.command = format!("regatta lab run {} --scale {}", experiment.name, scale.name());
    if let Some(Other { destination, .. }) = &manifest.other {
        let _ = write!(manifest.command, " --load {destination}");
    }
    if let Some(why) = manifest.refusal(&experiment) {
        return Err(why);
    }
    Run::begin(directory, text, experiment, manifest)
}

/// Makes the trials that are missing.
///
/// # Errors
/// What made going on impossible. What was measured is kept.
pub fn perform(run: &mut Run, options: &Options<'_>) -> Result<Ended, String> {
    match make_missing(run, options) {
        Err(why) if why == INTERRUPTED => Ok(Ended::Interrupted),
        made => made.map(|()| Ended::Done),
    }
}

fn make_missing(run: &mut Run, options: &Options<'_>) -> Result<(), String> {
    // Servers have working directories of their own.
    let directory = fs::canonicalize(&run.directory).map_err(|error| error.to_string())?;
    // Servers that drop root's privileges enter it too.
    make_open(&directory.join("scratch"))?;
    if rustix::process::geteuid().is_root() {
        all_may_search(&directory)?;
    }
    let asked = run.experiment.clone();
    let cells = cells(&asked);
    let mut planned = planned(run, &cells);
    let tell = |all: usize, done: usize, what: &str| {
        let left_s = predicted_s(&asked, all - done.min(all));
        (options.tell)(&Progress { done, all, left_s, what });
    };
    let all = planned.len();
    tell(all, 0, "making the workload");
    let lacking = run.manifest.lacking.clone();
    let mut bench = bench(run, (&asked, &lacking), options, &directory)?;
    // On two machines there is nothing to choose.
    if asked.machine.layout == CpuLayout::Auto && options.far.is_none() {
        tell(all, 0, "choosing the layout");
        choose_layout(run, &bench)?;
    }
    if seek::is_wanted(run) {
        tell(all, 0, "calibrating the disk");
        seek::calibrate(run, &bench, &lacking, options, &directory)?;
    }
    let experiment = run.experiment.clone();
    (bench.experiment, bench.rooms.experiment) = (&experiment, &experiment);
    if bench.unit.is_none() {
        tell(all, 0, "calibrating");
        calibrate(run, &mut bench)?;
    }
    match experiment.measure.mode {
        Mode::Trials => trials(run, &planned, &cells, &mut bench, &|at, what| tell(all, at, what)),
        Mode::Knee => {
            saturation::perform(run, &planned, &cells, &bench, &|at, what| tell(all, at, what))
        }
    }?;
    while let Some(blocks) = (options.more)(run)? {
        run.experiment.measure.blocks = blocks;
        planned = self::planned(run, &cells);
        let all = planned.len();
        trials(run, &planned, &cells, &mut bench, &|at, what| tell(all, at, what))?;
    }
    let all = planned.len();
    profiles(run, &planned, &cells, &bench, &|at, what| tell(all, at, what))?;
    // The folder is kept only if the run will continue.
    let _ = fs::remove_dir_all(&bench.scratch);
    let _ = fs::remove_dir_all(run.directory.join("workload"));
    bench.rooms.clear();
    tell(all, all, "done");
    Ok(())
}

/// Refuses a directory that servers without privileges cannot reach: no trial would count.
fn all_may_search(directory: &Path) -> Result<(), String> {
    for place in directory.ancestors() {
        let mode = fs::metadata(place).at(place)?.permissions().mode();
        if mode & 0o001 == 0 {
            return Err(format!(
                "{}: servers run without privileges, and others may not search {}; hint: --out \
                 with a directory below /var/tmp, or chmod o+x {}",
                directory.display(),
                place.display(),
                place.display()
            ));
        }
    }
    Ok(())
}

/// Finds what 1x is, and notes it.
fn calibrate(run: &mut Run, bench: &mut Bench<'_>) -> Result<(), String> {
    bench.unit = bench.calibrate(&run.directory.join("outcomes/calibration.json"))?;
    run.manifest.unit = bench.unit;
    run.manifest.connections_per_s = bench.connections_per_s();
    run.save_manifest()
}

/// Finds what 1x is in a block, where each has its own, unless that is known already.
fn calibrate_block(run: &mut Run, bench: &mut Bench<'_>, block: u32) -> Result<(), String> {
    if bench.experiment.calibrate.as_ref().is_none_or(|calibrate| !calibrate.each_block) {
        return Ok(());
    }
    let known = run.manifest.units.get(&block).copied();
    // The first block's was found just now.
    bench.unit = match known.or(run.manifest.unit.filter(|_| run.manifest.units.is_empty())) {
        None => bench.calibrate(&run.directory.join("outcomes/calibration.json"))?,
        unit => unit,
    };
    run.manifest.units.extend(bench.unit.map(|unit| (block, unit)));
    if known.is_none() { run.save_manifest() } else { Ok(()) }
}

fn planned(run: &Run, cells: &[Cell]) -> Vec<Planned> {
    let possible = |next: &Planned| !run.manifest.left_out.contains_key(&cells[next.cell].target);
    order(&run.experiment).into_iter().filter(possible).collect()
}

/// Makes the workload and the places of trials.
fn bench<'a>(
    run: &Run,
    (experiment, lacking): (&'a Experiment, &'a [Lack]),
    options: &Options<'a>,
    directory: &Path,
) -> Result<Bench<'a>, String> {
    let served = workload(run, &experiment.workload, options)?;
    let bench = bench_of((experiment, lacking), served, options, directory)?;
    if let Some(far) = options.far {
        far.bring(&bench.root, bench.workload.as_deref(), options.stop)?;
    }
    Ok(Bench { unit: run.manifest.unit, ..bench })
}

/// Prepares trials that serve a directory, of a workload if one was made.
pub(crate) fn bench_of<'a>(
    (experiment, lacking): (&'a Experiment, &'a [Lack]),
    (root, workload): (PathBuf, Option<PathBuf>),
    options: &Options<'a>,
    directory: &Path,
) -> Result<Bench<'a>, String> {
    let rooms = Rooms::new(experiment, lacking, root.clone(), directory)?;
    rooms.build(options.stop)?;
    if let Some(workload) = workload.as_deref().filter(|_| experiment.measure.warm_requests > 0) {
        list_files(&root, workload)?;
    }
    Ok(Bench {
        experiment,
        programs: options.programs,
        requests_per_session: requests_per_session(workload.as_deref())?,
        root,
        workload,
        scratch: directory.join("scratch"),
        rooms,
        unit: None,
        far: options.far,
        stop: options.stop,
        beside: None,
    })
}

/// Finds the layout that tells two equal servers apart least, and notes it.
fn choose_layout(run: &mut Run, bench: &Bench<'_>) -> Result<(), String> {
    let choice = bench.choose_layout(&run.directory.join("outcomes/layout.json"))?;
    // Environments of trials that count nothing are not recorded.
    drop(bench.rooms.found());
    run.experiment.machine.layout = choice.layout;
    run.manifest.layout = Some(choice);
    run.save_manifest()
}

fn trials(
    run: &mut Run,
    planned: &[Planned],
    cells: &[Cell],
    bench: &mut Bench<'_>,
    tell: &dyn Fn(usize, &str),
) -> Result<(), String> {
    if bench.experiment.measure.at_once {
        let mut done = 0;
        for set in at_once::sets(planned, cells) {
            calibrate_block(run, bench, set[0].block)?;
            tell(done, &format!("{} at once {}", set.len(), levels(&cells[set[0].cell])));
            at_once::make(run, set, cells, bench)?;
            done += set.len();
        }
        return Ok(());
    }
    let retries = bench.experiment.guards.retries;
    for (at, next) in planned.iter().enumerate() {
        let cell = &cells[next.cell];
        loop {
            let tried: Vec<_> = run.records.iter().filter(|r| r.trial == next.trial).collect();
            let attempt = u32::try_from(tried.len()).unwrap_or(u32::MAX);
            if attempt > retries || tried.iter().any(|record| record.valid) {
                break;
            }
            calibrate_block(run, bench, next.block)?;
            tell(at, &format!("{} {}", cell.arm, levels(cell)));
            let outcome = run.outcome_path(next.trial, attempt);
            let attempt = Attempt { number: attempt, like: run.apart_in(next.block) };
            let record = bench.trial(next, cell, attempt, &outcome);
            run.add(record.map_err(|_| INTERRUPTED)?)?;
            bench.note_environments(run)?;
        }
    }
    Ok(())
}

/// Profiles every arm that can run, after all that counts.
fn profiles(
    run: &Run,
    planned: &[Planned],
    cells: &[Cell],
    bench: &Bench<'_>,
    tell: &dyn Fn(usize, &str),
) -> Result<(), String> {
    for cell in profiled(bench.experiment, cells) {
        let Some(next) = planned.iter().find(|planned| cells[planned.cell] == cell) else {
            continue;
        };
        tell(planned.len(), &format!("profile of {} {}", cell.arm, levels(&cell)));
        profile::take(run, bench, &cell, next.seed)?;
    }
    profile::differences(run)
}

/// Makes the preset's files and logs, unless they are there: what is served, and the workload.
pub(crate) fn workload(
    run: &Run,
    asked: &Workload,
    options: &Options<'_>,
) -> Result<(PathBuf, Option<PathBuf>), String> {
    let Some(preset) = &asked.preset else {
        let root = PathBuf::from(asked.root.as_deref().unwrap_or("."));
        let root = fs::canonicalize(&root).at(&root)?;
        let made = own_files::make(&run.directory, &root, asked, options)?;
        return Ok((root, made));
    };
    let directory = fs::canonicalize(&run.directory).map_err(|error| error.to_string())?;
    let out = directory.join("workload");
    if !out.exists() {
        remove_partial(&directory);
        let mut words: Vec<OsString> = vec!["workload".into(), "new".into(), preset.into()];
        words.push(out.clone().into());
        for (flag, value) in [("--dirs", asked.dirs), ("--requests", asked.requests)] {
            if let Some(value) = value {
                words.extend([flag.into(), value.to_string().into()]);
            }
        }
        own_files::made(&format!("the workload {preset}"), words, &out, &directory, options)?;
    }
    without_think(&out).at(&out)?;
    Ok((out.join("root"), Some(out)))
}

/// Makes a second set of logs, whole or not at all: the same sessions without think times.
fn without_think(workload: &Path) -> std::io::Result<()> {
    let (logs, out) = (workload.join("logs"), workload.join(NO_THINK));
    if out.exists() || !logs.exists() {
        return Ok(());
    }
    let part = out.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    fs::create_dir(&part)?;
    for log in fs::read_dir(&logs)? {
        let log = log?;
        let text = fs::read_to_string(log.path())?;
        let lines = text.lines().map(thoughtless);
        fs::write(part.join(log.file_name()), lines.map(|line| line + "\n").collect::<String>())?;
    }
    fs::rename(part, out)
}

/// A line of a log that the lab made itself, without its think time.
fn thoughtless(line: &str) -> String {
    if line.starts_with('#') {
        return line.to_owned();
    }
    let target = line.trim_start();
    let burst = &line[..line.len() - target.len()];
    let words = target.split(' ').filter(|word| !word.starts_with("think="));
    format!("{burst}{}", words.collect::<Vec<_>>().join(" "))
}

/// Mean number of requests in a session of the workload's logs.
fn requests_per_session(workload: Option<&Path>) -> Result<f64, String> {
    let Some(directory) = workload else { return Ok(1.0) };
    let logs = regatta_load::workload::manifest::Workload::read(directory)
        .map_err(|fault| fault.to_string())?
        .logs;
    let requests: u64 = logs.iter().map(|log| log.requests).sum();
    let sessions: u64 = logs.iter().map(|log| log.sessions).sum();
    if sessions == 0 {
        return Ok(1.0);
    }
    Ok(crate::units::real(requests) / crate::units::real(sessions))
}

/// Removes what a run that was killed had made of a workload.
fn remove_partial(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("workload.partial-") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Input of [`perform`](perform) besides the experiment.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    pub programs: &'a OwnPrograms,
    /// The machine that has the loads, if that is another one.
    pub far: Option<&'a Far>,
    /// Becomes true when the user or the system asks to stop.
    pub stop: &'a AtomicBool,
    /// Called before each trial and at the end.
    pub tell: &'a dyn Fn(&Progress<'_>),
    /// Called when all blocks are there: how many there are to be instead; None: no more.
    pub more: &'a More<'a>,
}

/// Number of blocks that a run is to have, by what it has.
pub type More<'a> = dyn Fn(&mut Run) -> Result<Option<u32>, String> + 'a;

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("programs", &self.programs).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    pub done: usize,
    pub all: usize,
    pub left_s: f64,
    pub what: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Done,
    /// The run was stopped; what it has is usable, and the same command continues.
    Interrupted,
}

#[cfg(test)]
mod tests {
    use super::{NO_THINK, all_may_search, thoughtless, without_think};
    use crate::folder::Folder;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    /// Each trial failed with the server's message, and the run took its full time.
    #[test]
    fn a_directory_that_others_may_not_search_is_refused_before_the_first_trial() {
        let place = Folder::new("lab-test");
        let inner = place.join("inner");
        fs::create_dir(&inner).unwrap();
        let searchable_by = |mode| fs::set_permissions(&*place, fs::Permissions::from_mode(mode));
        searchable_by(0o700).unwrap();
        let why = all_may_search(&inner).unwrap_err();
        assert!(why.contains(&format!("chmod o+x {}", place.display())), "{why}");
        searchable_by(0o711).unwrap();
        all_may_search(&inner).unwrap();
    }

    /// An interruption leaves nothing that is taken for the whole.
    #[test]
    fn logs_without_think_times_are_there_whole_or_not_at_all() {
        let place = Folder::new("lab-test");
        let logs = place.join("logs");
        fs::create_dir_all(logs.join("no-log")).unwrap();
        fs::write(logs.join("a.log"), "/a think=1\n\n/b\n").unwrap();
        without_think(&place).unwrap_err();
        assert!(!place.join(NO_THINK).exists());
        fs::remove_dir(logs.join("no-log")).unwrap();
        fs::write(logs.join("b.log"), "/c think=2\n").unwrap();
        without_think(&place).unwrap();
        let read = |name: &str| fs::read_to_string(place.join(NO_THINK).join(name)).unwrap();
        assert_eq!((read("a.log"), read("b.log")), ("/a\n\n/b\n".into(), "/c\n".into()));
        assert_eq!(fs::read_dir(&*place).unwrap().count(), 2, "the logs, with and without");
    }

    #[test]
    fn think_times_leave_a_log_and_nothing_else_does() {
        for (line, without) in [
            ("/a think=0.343", "/a"),
            (" /b method=HEAD think=3", " /b method=HEAD"),
            ("/think=3", "/think=3"),
            ("#! at=12.5 line=400000", "#! at=12.5 line=400000"),
            ("", ""),
        ] {
            assert_eq!(thoughtless(line), without);
        }
    }
}
