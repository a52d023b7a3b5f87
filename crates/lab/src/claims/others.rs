//! Claims on kernels and workloads: S-16, S-17.

use super::Finding;
use super::curves::{Curves, Side};
use super::evidence::{Evidence, Found};
use super::shown::{Part, any};
use crate::stats::{Blocks, mean, middle, with};

/// Read-ahead is to move peaks by more than the server does, by this logarithm.
const MORE: f64 = 0.05;

/// Distance between the largest and the smallest of some means.
fn spread(means: impl Iterator<Item = f64> + Clone) -> f64 {
    means.clone().fold(f64::NEG_INFINITY, f64::max) - means.fold(f64::INFINITY, f64::min)
}

/// How far the kernel reads ahead decides more than the server does.
pub(super) fn s16(run: &Evidence<'_>) -> Found<Finding> {
    let (path, levels) = run.levels("environment.disk.read_ahead_kb")?;
    let arms: Vec<&str> = run.regattas().map(|target| target.name.as_str()).collect();
    if arms.len() < 2 {
        return Err("two arms".to_owned());
    }
    // All arms at the first level, then all at the next.
    let mut sides: Vec<Side<'_, '_>> = Vec::new();
    for level in levels {
        sides.extend(arms.iter().map(|arm| (run.with(path, level), *arm)));
    }
    let peaks = Curves::of(&sides)?.each_peak();
    let spread_over = |by_server: bool| -> Blocks {
        let in_block = |block: &u32| {
            let all: Option<Vec<f64>> = peaks.iter().map(|side| side.get(block).copied()).collect();
            let all = all?;
            let rows = || all.chunks(arms.len());
            let column = |at: usize| mean(&rows().map(|row| row[at]).collect::<Vec<f64>>());
            let spread = match by_server {
                true => spread((0..arms.len()).map(column)),
                false => spread(rows().map(mean)),
            };
            Some((*block, spread))
        };
        peaks[0].keys().filter_map(in_block).collect()
    };
    let [kernel, server] = [false, true].map(spread_over);
    let more = with(&kernel, &server, |kernel, server| kernel - server);
    let missing = || "blocks with valid trials of every arm at every read-ahead: four".to_owned();
    let more = run.of_values(&more.into_values().collect::<Vec<f64>>()).ok_or_else(missing)?;
    let ours = format!(
        "read-ahead moves a peak by {:.0} %, the server by {:.0} %",
        100.0 * middle(&kernel).exp_m1(),
        100.0 * middle(&server).exp_m1()
    );
    let why = "the largest ratio of peaks between amounts of read-ahead, over all servers, and \
               between servers, over all amounts; 5 % more is more";
    let what = "the logarithm of the ratio by read-ahead less that by the server";
    Ok(Finding::all(ours, why, &[more.above(MORE, what)]))
}

/// The arm with the largest area under its curve among the cells that `run` looks at.
fn winner<'a>(run: &Evidence<'a>, arms: &[&'a str]) -> Found<&'a str> {
    let sides: Vec<Side<'_, '_>> = arms.iter().map(|arm| (*run, *arm)).collect();
    let areas = Curves::of(&sides)?.areas();
    let best = arms.iter().zip(&areas).max_by(|a, b| middle(a.1).total_cmp(&middle(b.1)));
    best.map(|(arm, _)| *arm).ok_or_else(|| "valid trials".to_owned())
}

/// An area this much below another's is as large.
const AS_LARGE: f64 = 0.98;

/// No server is the best both when all is cached and when half is on a disk.
pub(super) fn s17(run: &Evidence<'_>) -> Found<Finding> {
    let (path, levels) = run.levels("environment.memory")?;
    let (first, last) = (&levels[0], &levels[levels.len() - 1]);
    let places = [first, last].map(|level| (run.with(path, level), level.as_str()));
    let arms: Vec<&str> = run.regattas().map(|target| target.name.as_str()).collect();
    let (best, other) = (winner(&places[0].0, &arms)?, winner(&places[1].0, &arms)?);
    let ours = format!("{best} has the largest area at {first} of the files, {other} at {last}");
    let parts: Found<Vec<_>> = arms.iter().map(|arm| smaller(places, arm, &arms)).collect();
    let why = "each server has to be more than 2 % behind another at one of the two";
    Ok(Finding::parts(ours, why, parts?))
}

/// Whether an arm surely has a smaller area than another at one of these places at least.
fn smaller(places: [(Evidence<'_>, &str); 2], arm: &str, all: &[&str]) -> Found<Part> {
    let mut asked = Vec::new();
    for (run, place) in places {
        for other in all.iter().filter(|other| **other != arm) {
            let what = format!("{arm}'s area over {other}'s at {place} of the files");
            asked.push(run.area_ratio(arm, other)?.below(AS_LARGE, what));
        }
    }
    Ok(any(&asked))
}
