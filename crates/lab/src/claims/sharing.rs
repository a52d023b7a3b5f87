//! The claim on what a process costs in memory ([S] §8): S-12.

use super::Finding;
use super::arms::processes;
use super::evidence::{Blocks, Evidence, Found, number};
use crate::stats::{middle, with};
use std::collections::BTreeMap;

/// MiB that a process more costs, block by block: the slope of memory over processes by least
/// squares, over all the arms of an architecture.
fn slopes(run: &Evidence<'_>, architecture: &str) -> Found<Blocks> {
    let mut points: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    let mut arms = 0;
    for target in run.of(architecture) {
        arms += 1;
        let cell = run.top(&target.name)?;
        for (block, memory) in run.blocks(&cell, |record| number(record, "pss_mib")) {
            points.entry(block).or_default().push((f64::from(processes(target)), memory));
        }
    }
    points.retain(|_, points| points.len() == arms);
    let slope = |(block, points): (u32, Vec<(f64, f64)>)| Some((block, least_squares(&points)?));
    let slopes: Blocks = points.into_iter().filter_map(slope).collect();
    if slopes.is_empty() {
        return Err(format!("{architecture} with several numbers of processes"));
    }
    Ok(slopes)
}

/// The slope of a line through points; None if they have one x.
pub(super) fn least_squares(points: &[(f64, f64)]) -> Option<f64> {
    let n = crate::stats::count(points.len());
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    let together: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    (spread > 0.0).then(|| together / spread)
}

/// A process with a private cache costs much more than one that shares it.
pub(super) fn s12(run: &Evidence<'_>) -> Found<Finding> {
    let (private, shared) = (slopes(run, "symped")?, slopes(run, "shared-symped")?);
    let ours = format!(
        "{:.2} MiB for each private process, {:.2} for each sharing one",
        middle(&private),
        middle(&shared)
    );
    let above = with(&private, &shared, |private, shared| private - 10.0 * shared);
    let above: Vec<f64> = above.into_values().collect();
    let above = run.of_values(&above).ok_or("the memory of all processes in four blocks")?;
    let why = "slopes of the memory over processes, shared pages counted once; ten times as much \
               is asked ([S]: 12), and a pipeline's writers are threads";
    let asked = [above.above(0.0, "a private process less ten sharing ones, MiB,")];
    Ok(Finding::all(ours, why, &asked))
}
