//! Checks of an experiment as a whole. A fault begins with the key that it is about, if it is about
//! one: that is where it is shown.

use super::client::{self, FIELDS, STREAMS, STREAMS_MAX, TARGET, TLS};
use super::{
    Ask, CONNECTIONS, Calibrate, Client, CpuLayout, Encryption, Experiment, LAYOUT, Loop, Measure,
    Mode, PROCESSORS, RATE, RequestFields, THINK, Target, Warm, Workload, environment, file,
    metrics, multiples,
};
use crate::experiment::claim_row::CLAIMS;
use crate::experiment::plan::at_a_time;
use regatta_load::engine::{Slo, parse_time};
use regatta_load::workload::presets;

/// Cells of a plan at most, the baseline's second run not counted.
pub const CELLS_MAX: usize = 4_096;
/// Think times of sessions.
const THINKS: [&str; 2] = ["kept", "none"];
/// The least share of a processor that the load of an arm among others may hold, per cent. With
/// twelve of 5 each, loads were late, and probing the servers took as long as the measurement.
const LOAD_SHARE_MIN: u32 = 10;
/// The shortest trial whose warm-up can be found, seconds: four batches of five.
const FOUND_S_MIN: f64 = 20.0;
/// Multiples of a saturation search at most.
const OVERLOADS_MAX: usize = 8;

/// Faults of an experiment whose values have the right types.
pub(super) fn faults(experiment: &Experiment) -> Vec<String> {
    let mut found = of_values(experiment);
    let of_whole = of_whole(experiment).into_iter().filter(|(wrong, _)| *wrong);
    found.extend(of_whole.map(|(_, what)| what.to_owned()));
    found.extend(of_names(experiment));
    found.extend(phases(experiment));
    found.extend(client::faults(experiment));
    found.extend(multiples::fault(experiment));
    if is_too_large(experiment) {
        found.push(format!("the factors cross to over {CELLS_MAX} cells"));
    } else {
        found.extend(at_once(experiment));
        found.extend(environment::faults(experiment));
    }
    found
}

/// Faults of values alone.
fn of_values(experiment: &Experiment) -> Vec<String> {
    let Experiment { workload, measure, knee, .. } = experiment;
    let mut found = Vec::new();
    let mut say = |key: &str, why: String| found.push(format!("{key}: {why}"));
    // An unknown claim of a row is reported already.
    let has_row = |id: &str| experiment.rows.iter().any(|row| row.id == id);
    let is_known = |id: &str| has_row(id) || CLAIMS.iter().any(|claim| claim.id == id);
    for id in experiment.claims.iter().filter(|id| !is_known(id)) {
        let meant = file::meant(id, CLAIMS.iter().map(|claim| claim.id.as_str()));
        say("experiment.claims", format!("{id:?} is no claim of the papers{meant}"));
    }
    if workload.preset.as_deref().is_some_and(|preset| presets::find(preset).is_none()) {
        let names: Vec<&str> = presets::all().iter().map(|preset| &*preset.name).collect();
        say("workload.preset", format!("no such preset; there are {}", names.join(", ")));
    }
    if let Err(why) = parse_time(&workload.timeout) {
        say("workload.timeout", why);
    }
    if let Some(Err(problems)) = workload.slo.as_deref().map(Slo::parse) {
        problems.into_iter().for_each(|problem| say("workload.slo", problem));
    }
    let arrivals = none_of(&workload.arrivals, &["constant", "poisson", "uniform"]);
    arrivals.into_iter().for_each(|fault| say("workload.arrivals", fault));
    none_of(&workload.think, &THINKS).into_iter().for_each(|fault| say(THINK, fault));
    metrics::fault(&measure.metric).into_iter().for_each(|fault| say("measure.metric", fault));
    let also = measure.also.iter().filter_map(|name| metrics::fault(name));
    also.for_each(|fault| say("measure.also", fault));
    let right = |times: &f64| (1.0..=10.0).contains(times);
    if knee.overload.len() > OVERLOADS_MAX || !knee.overload.iter().all(right) {
        let what = format!("expected up to {OVERLOADS_MAX} multiples of the knee, 1 to 10");
        say("knee.overload", what);
    }
    found
}

/// Faults of values that do not go together.
fn of_whole(experiment: &Experiment) -> [(bool, &'static str); 16] {
    let Experiment { name, question, expect, workload, machine, measure, .. } = experiment;
    let Workload { preset, root, ask, log, slo, model, .. } = workload;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_+.".contains(c);
    let odd = !name.chars().all(plain) || name.starts_with('.');
    let of_root = [Ask::Files, Ask::Log].contains(ask);
    let lays = machine.layout != CpuLayout::Apart || experiment.varies(LAYOUT);
    let knee = measure.mode == Mode::Knee;
    let rates = experiment.factors.iter().filter(|factor| factor.path == RATE);
    let mut rates = rates.flat_map(|factor| &factor.levels).chain([&workload.rate]);
    let multiple = rates.any(|rate| rate.ends_with('x'));
    [
        (name.is_empty(), "experiment.name is missing"),
        (question.is_empty(), "experiment.question is missing"),
        (expect.is_empty(), "experiment.expect is missing"),
        (odd, "experiment.name takes letters, digits, - _ + . only"),
        (preset.is_some() == root.is_some(), "workload needs either `preset` or `root`"),
        (
            (*ask == Ask::Log) != log.is_some(),
            "workload.ask = \"log\" and workload.log go together",
        ),
        (of_root && root.is_none(), "workload.ask is about the files of workload.root"),
        (
            *ask == Ask::Rotation && preset.is_none(),
            "workload.ask = \"rotation\" takes workload.preset",
        ),
        (multiple && experiment.calibrate.is_none(), "a rate such as \"1.5x\" needs [calibrate]"),
        (
            experiment.calibrate.as_ref().is_some_and(|calibrate| match calibrate.model {
                Loop::Closed => false,
                Loop::Open => *model != Loop::Open,
                Loop::PartlyOpen => true,
            }),
            "calibrate.loop is closed, or with workload.loop = \"open\" open",
        ),
        (
            experiment.calibrate.as_ref().is_some_and(|calibrate| calibrate.disk_wait > 0.0)
                && experiment.environment.disk.is_none(),
            "calibrate.disk_wait takes environment.disk",
        ),
        (measure.stalls && !measure.counters, "measure.stalls takes measure.counters"),
        (
            lays && machine.server_cpus.is_empty(),
            "a layout takes machine.server_cpus, on which the load may run",
        ),
        (knee && slo.is_none(), "a saturation search needs workload.slo, such as \"p99<50ms\""),
        (
            knee && *model == Loop::Closed,
            "a saturation search needs workload.loop open or partly-open",
        ),
        (knee && experiment.varies(RATE), "a saturation search finds the rate: it is no factor"),
    ]
}

/// Names of targets, factors and levels that there are not, and trials that are too short.
fn of_names(experiment: &Experiment) -> Vec<String> {
    let Experiment { targets, baseline, factors, calibrate, measure, .. } = experiment;
    let mut found = Vec::new();
    let is_target = |name: &str| targets.iter().any(|target| target.name == name);
    if !targets.is_empty() && !is_target(baseline) {
        found.push(format!("the baseline {baseline:?} is no target"));
    }
    for factor in factors {
        if let Some((name, _)) = factor.of_target().filter(|(name, _)| !is_target(name)) {
            let path = &factor.path;
            found.push(format!("the factor {path:?} is about {name:?}, which is no target"));
        }
    }
    for (path, asked) in &measure.profile_at {
        let factor = factors.iter().find(|factor| factor.path == *path);
        let levels = factor.map_or(&[][..], |factor| factor.levels.as_slice());
        for level in Measure::each_level(asked).filter(|one| !levels.iter().any(|l| l == one)) {
            found.push(format!("measure.profile_at: {path:?} has no level {level:?}"));
        }
    }
    if let Some(Calibrate { target, .. }) = calibrate.as_ref().filter(|one| !is_target(&one.target))
    {
        found.push(format!("calibrate.target {target:?} is no target"));
    }
    if measure.warm == Warm::Found && measure.warm_s + measure.window_s < FOUND_S_MIN {
        let least = FOUND_S_MIN;
        found
            .push(format!("measure.warm = \"found\" takes trials of {least} s: warm_s + window_s"));
    }
    found
}

/// Whether it has more cells than [`CELLS_MAX`], found without making them.
fn is_too_large(experiment: &Experiment) -> bool {
    let of = |target: &Target| {
        let factors = experiment.factors.iter();
        let own = factors.filter(|f| f.of_target().is_none_or(|(name, _)| name == target.name));
        own.fold(1, |cells: usize, factor| cells.saturating_mul(factor.levels.len()))
    };
    experiment.targets.iter().map(of).fold(0, usize::saturating_add) > CELLS_MAX
}

/// Fault of a factor's level alone. The server has `own` processors.
pub(super) fn level_fault(path: &str, level: &str, own: usize) -> Option<String> {
    let within = |least: u32, most: u32| {
        let right = level.parse().is_ok_and(|count: u32| (least..=most).contains(&count));
        (!right).then(|| format!("{level} is not from {least} to {most}"))
    };
    match path {
        FIELDS => none_of(level, &RequestFields::ALL.map(RequestFields::name)),
        TLS => none_of(level, &Encryption::ALL.map(Encryption::name)),
        THINK => none_of(level, &THINKS),
        LAYOUT => none_of(level, &["apart", "together"]),
        STREAMS => within(1, STREAMS_MAX),
        CONNECTIONS => within(0, u32::MAX),
        PROCESSORS => within(1, u32::try_from(own).unwrap_or(u32::MAX))
            .map(|fault| format!("{fault}, as many as machine.server_cpus names")),
        TARGET if !client::is_target(level) => {
            Some(format!("{level:?} is no path such as \"/a.html\""))
        }
        RATE if multiples::rate(level).is_none() => Some(multiples::NO_RATE.to_owned()),
        _ => environment::level_fault(path, level),
    }
}

fn none_of(word: &str, words: &[&str]) -> Option<String> {
    (!words.contains(&word)).then(|| format!("{word:?} is none of {}", words.join(", ")))
}

/// Reason why a preset whose rate changes over time is not offered as it is meant.
fn phases(experiment: &Experiment) -> Option<String> {
    let Experiment { workload, measure, .. } = experiment;
    let preset = presets::find(workload.preset.as_deref()?)?;
    let name = &preset.name;
    let whole: u32 = preset.offer.phases.iter().map(|phase| phase.seconds).sum();
    if whole == 0 {
        return None;
    }
    if workload.model == Loop::Closed {
        return Some(format!(
            "the rate of workload.preset {name:?} changes over time, and connections that wait for \
             replies have none: give workload.loop = \"open\" or \"partly-open\""
        ));
    }
    let trial_s = measure.warm_s + measure.window_s;
    (trial_s < f64::from(whole)).then(|| {
        format!(
            "the phases of workload.preset {name:?} last {whole} s, and a trial {trial_s}: give \
             measure.window_s = {whole}"
        )
    })
}

/// Reason why the arms of a setting cannot run at once.
fn at_once(experiment: &Experiment) -> Option<String> {
    let Experiment { measure, machine, workload, .. } = experiment;
    if !measure.at_once {
        return None;
    }
    let arms = at_a_time(experiment);
    let most = machine.load_share().map_or(0, |share| (share / LOAD_SHARE_MIN) as usize);
    let takes = match () {
        () if machine.layout != CpuLayout::Together => "machine.layout = \"together\"".to_owned(),
        () if machine.server_cpus.len() != 1 => "one processor in machine.server_cpus".to_owned(),
        () if experiment.varies(LAYOUT) || experiment.varies(PROCESSORS) => {
            "the same processor at every level".to_owned()
        }
        () if workload.model == Loop::Closed => "workload.loop = \"open\"".to_owned(),
        () if workload.client != Client::Regatta => "workload.client = \"regatta\"".to_owned(),
        () if measure.mode == Mode::Knee => "measure.mode = \"trials\"".to_owned(),
        () if !experiment.specs().is_empty() => "no [environment]".to_owned(),
        () if arms > most => format!("at most {most} arms, the baseline's second run included"),
        () => return None,
    };
    Some(format!("measure.at_once takes {takes}"))
}
