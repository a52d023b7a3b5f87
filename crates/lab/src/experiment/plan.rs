//! Trials of a run, their order, and their time.

use crate::experiment::{CpuLayout, Experiment, Factor, Loop, Measure, Mode, Target};
use crate::record::{AGAIN, Cell};
use crate::stats::{Random, count};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Starting, settling and stopping, seconds for each trial, in whatever environment: of 26 runs
/// from 0.1, where connections are kept, to 1.1.
const AROUND_S: f64 = 0.8;

/// Rates of the open loops that calibrate, as multiples of the closed one's.
pub(crate) const OPEN_MULTIPLES: [f64; 6] = [0.75, 0.8, 0.85, 0.9, 0.95, 1.0];

/// Warm-up and window of a trial of a disk's seek, seconds, and how many there are as a rule.
pub(crate) const SEEK_TRIAL_S: (f64, f64) = (2.0, 20.0);
const SEEK_TRIALS: f64 = 3.0;

/// A request that warms a cache, seconds.
const WARM_REQUEST_S: f64 = 30e-6;
/// Directories of the papers' scaled presets, and files of each.
const DIRS: u32 = 60;
const FILES_OF_DIR: u32 = 36;

/// Trials in each layout before one is chosen, and their warm-up and window, seconds. Where one
/// layout is four times as noisy as the other, the wrong one is taken once in a hundred times.
pub(crate) const LAYOUT_TRIALS: u32 = 6;
pub(crate) const LAYOUT_TRIAL_S: (f64, f64) = (0.3, 1.0);

/// Time around a profile's window, seconds: perf's start and end, its unwinding.
pub(crate) const PROFILE_S: f64 = 8.0;

/// The shortest stretch of an overload, seconds.
const STRETCH_S_MIN: f64 = 6.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub trial: u32,
    pub block: u32,
    /// Index in [`cells`].
    pub cell: usize,
    /// Seed of its load: the same for all arms of a block, another in the next.
    pub seed: u64,
}

/// Every arm at every setting of the factors that concern it, in the order of the file.
pub fn cells(experiment: &Experiment) -> Vec<Cell> {
    let mut cells = Vec::new();
    for target in &experiment.targets {
        let concerns =
            |factor: &&Factor| factor.of_target().is_none_or(|(name, _)| name == target.name);
        let mut settings = vec![BTreeMap::new()];
        for factor in experiment.factors.iter().filter(concerns) {
            settings = cross(&settings, factor);
        }
        let cell = |arm: String, levels: &BTreeMap<String, String>| Cell {
            arm,
            target: target.name.clone(),
            levels: levels.clone(),
        };
        cells.extend(settings.iter().map(|levels| cell(target.name.clone(), levels)));
        if experiment.measure.again && target.name == experiment.baseline {
            let again = format!("{}{AGAIN}", target.name);
            cells.extend(settings.iter().map(|levels| cell(again.clone(), levels)));
        }
    }
    cells
}

fn cross(settings: &[BTreeMap<String, String>], factor: &Factor) -> Vec<BTreeMap<String, String>> {
    let with = |levels: &BTreeMap<String, String>, level: &String| {
        let mut levels = levels.clone();
        levels.insert(factor.path.clone(), level.clone());
        levels
    };
    settings.iter().flat_map(|have| factor.levels.iter().map(|level| with(have, level))).collect()
}

/// The places of the cells of each setting.
fn settings(experiment: &Experiment) -> Vec<Vec<usize>> {
    let cells = cells(experiment);
    let mut settings: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, cell) in cells.iter().enumerate() {
        settings.entry(cell.setting()).or_default().push(at);
    }
    settings.into_values().collect()
}

/// Most trials that run at the same time.
pub(crate) fn at_a_time(experiment: &Experiment) -> usize {
    let all = settings(experiment);
    let arms = all.iter().map(Vec::len).max().filter(|_| experiment.measure.at_once);
    arms.unwrap_or(1).max(1)
}

/// The settings in random order, and the arms of each: what is compared runs one after the other.
fn turns(settings: &[Vec<usize>], random: &mut Random) -> Vec<usize> {
    let mut settings = settings.to_vec();
    random.shuffle(&mut settings);
    settings.iter_mut().for_each(|arms| random.shuffle(arms));
    settings.concat()
}

/// Blocks of every cell once, each block in an order of its own. A pure function of the experiment,
/// so that an interrupted run resumes where it stopped.
pub fn order(experiment: &Experiment) -> Vec<Planned> {
    let mut random = Random::new(experiment.measure.seed);
    let settings = settings(experiment);
    let mut planned = Vec::new();
    for block in 0..rounds(experiment) {
        let turns = turns(&settings, &mut random);
        // JSON readers hold whole numbers up to 2^53.
        let seed = random.bits() >> 12;
        for cell in turns {
            let trial = u32::try_from(planned.len()).unwrap_or(u32::MAX);
            planned.push(Planned { trial, block, cell, seed });
        }
    }
    planned
}

/// Blocks of a plan. A saturation search goes in rounds of one probe of each cell, as many as it
/// may take at most, and then a round for each overload.
fn rounds(experiment: &Experiment) -> u32 {
    match experiment.measure.mode {
        Mode::Trials => experiment.measure.blocks,
        Mode::Knee => {
            let overload = u32::try_from(experiment.knee.overload.len()).unwrap_or(u32::MAX);
            experiment.knee.trials_max.saturating_add(overload)
        }
    }
}

/// Time of `trials` trials, seconds; for a saturation search the most.
pub fn predicted_s(experiment: &Experiment, trials: usize) -> f64 {
    let measure = &experiment.measure;
    let trial = warm_requests_s(experiment) + measure.warm_s + measure.window_s + AROUND_S;
    let each = match measure.mode {
        Mode::Trials => trial,
        Mode::Knee => {
            let overloads = count(experiment.knee.overload.len());
            let all = overloads + f64::from(experiment.knee.trials_max);
            let more = 3.0 * stretch_s(measure) - measure.warm_s - measure.window_s;
            trial + more * overloads / all
        }
    };
    let before = experiment.calibrate.as_ref().map_or(0.0, |calibrate| {
        let cells = count(cells(experiment).len().max(1));
        let times = if calibrate.each_block { (count(trials) / cells).max(1.0) } else { 1.0 };
        let rates = if calibrate.model == Loop::Open { 1 + OPEN_MULTIPLES.len() } else { 1 };
        let (warm_s, window_s) = SEEK_TRIAL_S;
        let seek_s = SEEK_TRIALS * (warm_s + window_s + AROUND_S);
        times * count(rates) * f64::from(calibrate.tries) * (calibrate.seconds + AROUND_S)
            + if calibrate.disk_wait > 0.0 { seek_s } else { 0.0 }
    });
    let layout = match experiment.machine.layout {
        CpuLayout::Auto => {
            let (warm_s, window_s) = LAYOUT_TRIAL_S;
            2.0 * f64::from(LAYOUT_TRIALS) * (warm_s + window_s + AROUND_S)
        }
        CpuLayout::Apart | CpuLayout::Together => 0.0,
    };
    each * count(trials) / count(at_a_time(experiment)) + layout + before + profiles_s(experiment)
}

/// Time in which caches are warmed before a trial, seconds, on average over its targets.
fn warm_requests_s(experiment: &Experiment) -> f64 {
    let Experiment { workload, measure, targets, .. } = experiment;
    let processes = |target: &Target| {
        let option = |key: &str| target.config.get(key)?.parse::<u32>().ok();
        f64::from(option("event.processes").or(option("event.copies")).unwrap_or(1).max(1))
    };
    let mean = targets.iter().map(processes).sum::<f64>() / count(targets.len().max(1));
    let files = f64::from(workload.dirs.unwrap_or(DIRS) * FILES_OF_DIR);
    WARM_REQUEST_S * f64::from(measure.warm_requests) * files * mean
}

/// Time of an experiment, seconds; for a search the most.
pub(crate) fn whole_s(experiment: &Experiment) -> f64 {
    predicted_s(experiment, order(experiment).len())
}

/// Time of a block, seconds.
pub(crate) fn block_s(experiment: &Experiment) -> f64 {
    let cells = cells(experiment).len();
    predicted_s(experiment, 2 * cells) - predicted_s(experiment, cells)
}

/// Length of each stretch of an overload, whole seconds: long enough to see it settle again.
pub(crate) fn stretch_s(measure: &Measure) -> f64 {
    measure.window_s.max(STRETCH_S_MIN).ceil()
}

/// The cells that are profiled: each arm at the levels that `measure.profile_at` names, at the
/// last level of other factors, the baseline once.
pub(crate) fn profiled(experiment: &Experiment, all: &[Cell]) -> Vec<Cell> {
    if !experiment.measure.profile {
        return Vec::new();
    }
    let at = |(path, level): (&String, &String)| {
        if let Some(asked) = experiment.measure.profile_at.get(path) {
            return Measure::each_level(asked).any(|one| one == level);
        }
        let factor = experiment.factors.iter().find(|factor| factor.path == *path);
        factor.is_some_and(|factor| factor.levels.last() == Some(level))
    };
    let here = |cell: &&Cell| !cell.arm.ends_with(AGAIN) && cell.levels.iter().all(at);
    all.iter().filter(here).cloned().collect()
}

/// Time of an experiment's profiles, seconds.
pub(crate) fn profiles_s(experiment: &Experiment) -> f64 {
    let measure = &experiment.measure;
    let profiles = profiled(experiment, &cells(experiment)).len();
    count(profiles) * (measure.warm_s + measure.window_s + PROFILE_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Scale, parse};

    const TEXT: &str = r#"
experiment = { name = "x", question = "?", expect = "!", baseline = "b" }
targets.a = { program = "nginx" }
targets.b = { program = "regatta" }
workload = { root = "." }
measure = { blocks = 5, seed = 7, warm_s = 1, window_s = 2 }
[factors]
"workload.connections" = [1, 8]
"targets.b.config.event.processes" = [1, 2, 4]
"#;

    #[test]
    fn every_cell_once_in_each_block_and_the_baseline_twice() {
        let experiment = parse("x", TEXT, Scale::Quick).unwrap();
        let cells = cells(&experiment);
        let of = |arm: &str| cells.iter().filter(|cell| cell.arm == arm).count();
        assert_eq!((of("a"), of("b"), of("b (again)"), cells.len()), (2, 6, 6, 14));
        let order = order(&experiment);
        assert_eq!(order.len(), 70);
        for block in order.chunks(14) {
            let mut seen: Vec<usize> = block.iter().map(|planned| planned.cell).collect();
            assert!(block.iter().all(|planned| planned.seed == block[0].seed));
            seen.sort_unstable();
            assert_eq!(seen, (0..14).collect::<Vec<_>>());
        }
        // Seven arms of the one number of connections, then seven of the other.
        let connections = |at: &Planned| cells[at.cell].levels["workload.connections"].clone();
        for setting in order.chunks(7) {
            assert!(setting.iter().all(|at| connections(at) == connections(&setting[0])));
        }
        let turns = |block: usize| order[block * 14..][..14].iter().map(|p| p.cell);
        assert!(turns(0).ne(turns(1)) && order[0].seed != order[14].seed);
        assert_eq!(super::order(&experiment), order, "a pure function");
        assert!((predicted_s(&experiment, 70) - 70.0 * 3.8).abs() < 1e-9);
    }
}
