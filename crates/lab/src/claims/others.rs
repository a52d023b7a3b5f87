//! Claims on kernels and workloads: S-16, S-17.

use super::Finding;
use super::curves::{Curves, Side};
use super::evidence::{Evidence, Found};
use super::shown::{Part, any};
use crate::stats::{median, middle, of_rows_and_columns};

/// By so much more read-ahead is to move a peak than the server does, as a standard deviation.
const MORE: f64 = 0.05;

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
    let in_block = |block: &u32| -> Option<[f64; 2]> {
        let all: Option<Vec<f64>> = peaks.iter().map(|side| side.get(block).copied()).collect();
        let rows: Vec<Vec<f64>> = all?.chunks(arms.len()).map(<[f64]>::to_vec).collect();
        of_rows_and_columns(&rows)
    };
    let blocks: Vec<[f64; 2]> = peaks[0].keys().filter_map(in_block).collect();
    let more: Vec<f64> = blocks.iter().map(|[kernel, server]| kernel - server).collect();
    let missing = || "blocks with valid trials of every arm at every read-ahead: four".to_owned();
    let more = run.of_values(&more).ok_or_else(missing)?;
    let moves = |at: usize| {
        let all: Vec<f64> = blocks.iter().map(|block| block[at]).collect();
        100.0 * median(&all).max(0.0).sqrt()
    };
    let ours = format!(
        "read-ahead moves a peak by {:.0} %, the server by {:.0} % (standard deviations)",
        moves(0),
        moves(1)
    );
    let why = "variances of the logarithms of peaks that either makes, without that of the noise; \
               a standard deviation of 5 % more is more";
    let what = "the variance by read-ahead less that by the server";
    Ok(Finding::all(ours, why, &[more.above(MORE * MORE, what)]))
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
