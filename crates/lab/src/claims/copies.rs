//! Claims on what each processor brings: how many copies of a server how many of them want ([G]
//! table III), and how fast they stream through memory: G-1, G-2, G-8.

use super::Finding;
use super::evidence::{Evidence, Family, Found, Shown, number, show};
use super::shown::{Asked, all_among, any, any_part};
use crate::experiment::PROCESSORS;
use crate::experiment::claim_index::range;
use crate::stats::count;

/// Peaks that differ by less are the same.
const SAME: f64 = 0.02;

/// Numbers of processors that a run has, ascending, and what of its cells has each.
type Places<'a> = Vec<(usize, Evidence<'a>)>;

/// Copies of one server, and the numbers of processors that they were seen with.
fn copies<'a>(run: &Evidence<'a>) -> Found<(Family<'a>, Places<'a>)> {
    let all = Evidence::everywhere(run.run);
    let family = all.families("event.copies").into_iter().next();
    let family = family.ok_or("one server in several numbers of copies (event.copies)")?;
    Ok((family, places(&all)?))
}

/// What of a run's cells has each number of processors.
fn places<'a>(all: &Evidence<'a>) -> Found<Places<'a>> {
    let (path, levels) = all.levels(PROCESSORS)?;
    let place = |level: &'a String| Some((level.parse().ok()?, all.with(path, level)));
    let mut places: Places<'a> = levels.iter().filter_map(place).collect();
    places.sort_by_key(|(processors, _)| *processors);
    Ok(places)
}

/// The arms with no more copies than there are processors, with their number, ascending.
fn fitting<'a>(family: &Family<'a>, processors: usize) -> Vec<(&'a str, usize)> {
    let of = |(target, copies): &(&'a crate::experiment::Target, &str)| {
        Some((target.name.as_str(), copies.parse().ok()?))
    };
    let mut fitting: Vec<(&str, usize)> = family.iter().filter_map(of).collect();
    fitting.retain(|(_, copies)| (1..=processors).contains(copies));
    fitting.sort_by_key(|(_, copies)| *copies);
    fitting
}

/// With some of the processors a few copies beat one, and one for each processor.
pub(super) fn g1(run: &Evidence<'_>) -> Found<Finding> {
    let (family, places) = copies(run)?;
    let (mut told, mut few) = (Vec::new(), Vec::new());
    // Neither the fewest processors nor all of them.
    for (processors, place) in places.iter().skip(1).rev().skip(1) {
        let fitting = fitting(&family, *processors);
        let [(one, 1), between @ .., (all, most)] = fitting.as_slice() else { continue };
        if most != processors {
            continue;
        }
        for (arm, copies) in between {
            let (over_one, over_all) = (place.peak_ratio(arm, one)?, place.peak_ratio(arm, all)?);
            let name = format!("{copies} copies on {processors} processors");
            told.push(format!(
                "{name}: {} of one, {} of {processors}",
                show(&over_one),
                show(&over_all)
            ));
            few.push([
                over_one.above(1.0, format!("{name} over one")),
                over_all.above(1.0, format!("{name} over {processors}")),
            ]);
        }
    }
    if few.is_empty() {
        return Err("some of the processors, with one copy, one for each and a number between \
                    (four of eight)"
            .to_owned());
    }
    let parts = few.iter().map(|both| all_among(both, few.len())).collect();
    let why = "peaks; one number of copies is enough, with one number of processors";
    Ok(Finding::parts(told.join("; "), why, vec![any_part(parts)]).on(run.processors(4)))
}

/// No number of copies is the best with every number of processors.
pub(super) fn g2(run: &Evidence<'_>) -> Found<Finding> {
    let (family, places) = copies(run)?;
    let most = places.last().map_or(0, |(processors, _)| *processors);
    let (mut told, mut parts) = (Vec::new(), Vec::new());
    for (_, wanted) in fitting(&family, most) {
        let mut behind: Vec<Asked> = Vec::new();
        for (processors, place) in &places {
            let fitting = fitting(&family, *processors);
            // As many as there are processors for.
            let Some((own, copies)) = fitting.iter().rfind(|(_, copies)| *copies <= wanted) else {
                continue;
            };
            for (other, more) in fitting.iter().filter(|(other, _)| other != own) {
                let ratio: Shown = place.peak_ratio(own, other)?;
                let what = format!("{copies} copies over {more} on {processors} processors");
                if *copies == wanted {
                    told.push(format!("{what} {}", show(&ratio)));
                }
                behind.push(ratio.below(1.0 / (1.0 + SAME), what));
            }
        }
        parts.push(any(&behind));
    }
    if parts.len() < 2 || places.len() < 2 {
        return Err("several numbers of copies with several numbers of processors".to_owned());
    }
    let why = "each number of copies (as many of them as there are processors) is more than 2 % \
               behind another with one number of processors at least";
    Ok(Finding::parts(told.join("; "), why, parts).on(run.processors(8)))
}

/// Processors that all stream through memory get less each than one alone.
pub(super) fn g8(run: &Evidence<'_>) -> Found<Finding> {
    let (metric, arm) = ("stream_mbyte_per_s", run.run.experiment.baseline.as_str());
    let places = places(&Evidence::everywhere(run.run))?;
    let ((few, alone), (many, all)) = (&places[0], &places[places.len() - 1]);
    let ([one], [whole]) = (alone.tops([arm])?, all.tops([arm])?);
    // Nobody is served while memory streams, so that whose processors they are does not matter.
    let enough = match *many {
        4.. => Ok(()),
        have => Err(format!("4 processors: there are {have}")),
    };
    let more = count(*many) / count(*few);
    let each = |whole: f64, one: f64| whole / more / one;
    let shown = run.between(metric, (&whole, &one), |trial| number(trial, metric), each)?;
    let what = format!("{many} processors' memory streams, for each, over those of {few}");
    let [speed_one, speed] = [&one, &whole].map(|cell| run.metric(cell, metric));
    let (speed_one, speed) = (speed_one? / 1e3, speed? / 1e3);
    let ours = format!("{what}: {} ({speed_one:.1} and {speed:.1} GB/s)", show(&shown));
    let asked = [shown.asks(range("G-8", 0), what)];
    Ok(Finding::all(ours, "copies of 32 MiB, before each trial", &asked).on(enough))
}
