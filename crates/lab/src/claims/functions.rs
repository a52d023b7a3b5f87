//! Claims that take more than comparisons: functions, and the arms that they are about, which they
//! find by options.

use super::curves::{Curves, Side};
use super::derived::waits;
use super::evidence::{
    ARCHITECTURE, BEHIND, Evidence, Family, Found, KNOWN, Knot, ONLY_MAX, Shown, number, option,
    percent, show,
};
use super::shown::{Asked, Part, all_among, any};
use super::{Finding, Verdict};
use crate::claims::model;
use crate::experiment::claim_row::range;
use crate::experiment::{PROCESSORS, Target};
use crate::profile::categories::Category;
use crate::profile::{Profile, Source};
use crate::record::{Cell, Record};
use crate::stats::{Blocks, count, mean, middle, with};

pub(super) fn blocks(target: &Target) -> bool {
    option(target, "event.send") == "blocking"
}

/// Number of its processes; one if it does not say.
pub(super) fn processes(target: &Target) -> u32 {
    option(target, "event.processes").parse().map_or(1, |processes: u32| processes.max(1))
}

/// Number of connections that it takes; all if it does not say.
pub(crate) fn cap(target: &Target) -> u32 {
    option(target, "limits.connections_max").parse().unwrap_or(u32::MAX)
}

/// The arm with one event loop whose `sendfile` does not block, SPED or else SYMPED with one
/// process; of several the one that takes the most connections.
pub(super) fn one<'a>(run: &Evidence<'a>) -> Found<&'a Target> {
    let symped = run.of("symped").filter(|one| option(one, "event.processes") == "1");
    let all: Vec<&Target> = run.of("sped").chain(symped).filter(|one| !blocks(one)).collect();
    let most = all.iter().map(|target| cap(target)).max();
    all.into_iter().find(|target| Some(cap(target)) == most).ok_or_else(|| "sped".to_owned())
}

/// SYMPED with the most processes, several of them, under the same limit as another arm.
pub(super) fn most_symped<'a>(run: &Evidence<'a>, like: &Target) -> Found<&'a Target> {
    let several = run.of("symped").filter(|one| !blocks(one) && processes(one) > 1);
    let alike = several.filter(|one| cap(one) == cap(like));
    alike.max_by_key(|one| processes(one)).ok_or_else(|| "symped with several processes".to_owned())
}

/// A preset of [H], with as many accepts at a time as it comes with.
pub(super) fn preset<'a>(run: &Evidence<'a>, architecture: &str) -> Found<&'a Target> {
    let plain = |target: &&Target| !target.config.contains_key("accept.count");
    run.of(architecture).find(plain).ok_or_else(|| format!("an arm of {architecture}"))
}

/// The event-driven arms whose `sendfile` does not block, one at least.
pub(super) fn events<'a>(run: &Evidence<'a>) -> Found<Vec<&'a Target>> {
    const EVENTS: [&str; 6] = ["sped", "symped", "shared-symped", "n-copy", "amped", "laio"];
    let is_one = |one: &&Target| EVENTS.contains(&option(one, "server.architecture"));
    let all: Vec<&Target> = run.regattas().filter(|one| is_one(one) && !blocks(one)).collect();
    if all.is_empty() { Err("an event-driven server".to_owned()) } else { Ok(all) }
}

fn knot(target: &Target) -> Option<&'static Knot> {
    KNOWN.knots.get(option(target, ARCHITECTURE))
}

/// The arms with a user thread for each connection that send files so.
pub(super) fn sending<'a>(run: &Evidence<'a>, how: &str) -> Vec<&'a Target> {
    let usual =
        |one: &Target| Some(one.config.get("fiber.send").unwrap_or(&knot(one)?.send) == how);
    run.regattas().filter(|one| usual(one) == Some(true)).collect()
}

/// The first of them.
pub(super) fn sends<'a>(run: &Evidence<'a>, how: &str) -> Found<&'a Target> {
    let first = sending(run, how).into_iter().next();
    first.ok_or_else(|| format!("user threads with fiber.send={how} (Knot)"))
}

/// Number of helpers of an arm's user threads.
pub(super) fn helpers(target: &Target) -> u32 {
    let usual = knot(target).map_or(0, |knot| knot.helpers);
    target.config.get("fiber.helpers").map_or(usual, |said| said.parse().unwrap_or(usual))
}

/// More connections dropped than this share of requests is dropping.
const DROPS: f64 = 0.001;
/// The part of the cells that has to be sure.
const SURE: f64 = 0.75;

/// The kernel drops connections exactly when replies fall behind requests.
pub(super) fn h11(run: &Evidence<'_>) -> Found<Finding> {
    let mut cells = Vec::new();
    for target in [preset(run, "acceptinf")?, preset(run, "accept25")?] {
        let arm = target.name.as_str();
        for (rate, [cell]) in run.common([arm])? {
            let share = |record: &Record| {
                Some(number(record, "listen_overflows_per_s")? / number(record, "offered_per_s")?)
            };
            let drops = run.shown("overflows", &cell, share)?;
            let good = run.shown("good_share", &cell, |record| number(record, "good_share"))?;
            cells.push((format!("{arm} at {rate} S"), drops, good));
        }
    }
    let sides = |looks: usize| cells.iter().map(move |(_, drops, good)| side(drops, good, looks));
    let agree = sides(1).filter(|side| matches!(side, Some((a, b)) if a == b)).count();
    let behind = sides(1).filter(|side| *side == Some((true, true))).count();
    let odd = sides(2 * cells.len()).position(|side| side.is_some_and(|(a, b)| a != b));
    let all = cells.len();
    let most = cells.iter().map(|(_, drops, _)| drops.typical()).fold(0.0, f64::max);
    let ours = format!(
        "they surely go together in {agree} of {all} cells, {behind} of them behind; at most \
         {:.1} % are dropped",
        100.0 * most
    );
    let why = "overflows of the listener's queue over a thousandth of the requests, and less than \
               98 % answered";
    if let Some((name, drops, good)) = odd.and_then(|at| cells.get(at)) {
        let (drops, good) = (100.0 * drops.typical(), 100.0 * good.typical());
        let odd = format!("{name} {drops:.2} % are dropped and {good:.1} % answered; {why}");
        return Ok(Finding::decided(ours, Verdict::Fails, odd));
    }
    let enough = count(agree) >= SURE * count(all);
    if enough && behind > 0 && behind < agree {
        return Ok(Finding::decided(ours, Verdict::Holds, why));
    }
    let needs = "three in four cells that are sure, some behind and some not, are needed";
    Ok(Finding::hidden(ours, format!("{needs}: more blocks, or rates on both sides; {why}")))
}

/// Whether a cell surely drops connections, and whether it surely falls behind.
fn side(drops: &Shown, good: &Shown, looks: usize) -> Option<(bool, bool)> {
    let is = |verdict| match verdict {
        Verdict::Holds => Some(true),
        Verdict::Fails => Some(false),
        Verdict::CannotTell => None,
    };
    let drops = drops.above(DROPS, String::new()).verdict(looks);
    Some((is(drops)?, is(good.below(BEHIND, String::new()).verdict(looks))?))
}

/// The disk inefficiency index of a cell, block by block.
pub(super) fn index(run: &Evidence<'_>, cell: &Cell, items: &[model::Item]) -> Found<Blocks> {
    let of = |record: &Record| {
        let cache = number(record, "page_cache_mib")?;
        let good = number(record, "good_per_s")?;
        model::inefficiency(items, cache, good, number(record, "disk_mbyte_per_s")?)
    };
    let found = run.blocks(cell, of);
    if found.is_empty() {
        let arm = &cell.arm;
        return Err(format!(
            "page_cache_mib, good_per_s, disk_mbyte_per_s of {arm} (and a page cache smaller than \
             the files)"
        ));
    }
    Ok(found)
}

/// Blocking reads what whole files evicted one by one would cost; non-blocking reads more.
pub(super) fn s8b(run: &Evidence<'_>) -> Found<Finding> {
    let items = model::items(&run.run.experiment.workload)
        .ok_or("a workload whose popularity is known (a SPECweb99-like preset)")?;
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for target in run.regattas() {
        let [cell] = run.tops([&target.name])?;
        let index = index(run, &cell, &items)?;
        told.push(format!("{} {:.2}", target.name, middle(&index)));
        let values: Vec<f64> = index.into_values().collect();
        let missing = || format!("the index of {} in four blocks", cell.arm);
        let shown = run.of_values(&values).ok_or_else(missing)?;
        let what = format!("the index of {}", target.name);
        asked.push(shown.asks(range("S-8b", usize::from(!blocks(target))), what));
    }
    let why = "bytes read over those that Che's model of whole files predicts for the page cache";
    Ok(Finding::all(told.join(", "), why, &asked))
}

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

/// A run's cells by their number of processors.
fn places<'a>(all: &Evidence<'a>) -> Found<Places<'a>> {
    let (path, levels) = all.levels(PROCESSORS)?;
    let place = |level: &'a String| Some((level.parse().ok()?, all.with(path, level)));
    let mut places: Places<'a> = levels.iter().filter_map(place).collect();
    places.sort_by_key(|(processors, _)| *processors);
    Ok(places)
}

/// The arms with no more copies than there are processors, with their number, ascending.
fn fitting<'a>(family: &Family<'a>, processors: usize) -> Vec<(&'a str, usize)> {
    let of =
        |(target, copies): &(&'a Target, &str)| Some((target.name.as_str(), copies.parse().ok()?));
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
    Ok(Finding::parts(told.join("; "), why, vec![Part::some(parts)]).on(run.processors(4)))
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
            // The most copies that the processors allow.
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
    // No client is served while memory streams, so the processors may be the client's.
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

/// Read-ahead is to move peaks by more than the server does, by this logarithm.
const MORE: f64 = 0.05;

/// Distance between the largest and the smallest of some means.
fn spread(means: impl Iterator<Item = f64> + Clone) -> f64 {
    means.clone().fold(f64::NEG_INFINITY, f64::max) - means.fold(f64::INFINITY, f64::min)
}

/// The kernel's read-ahead decides more than the server does.
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

/// The most that a prediction may be off.
const WITHIN: f64 = 0.15;

/// The calculator's number and the measured one, for one thing after the other.
#[derive(Default)]
struct Predictions {
    told: Vec<String>,
    asked: Vec<Asked>,
}

impl Predictions {
    fn add(
        &mut self,
        run: &Evidence<'_>,
        what: String,
        predicted: &Blocks,
        measured: &Blocks,
    ) -> Found<()> {
        let ratio = run.compared((&what, measured), ("its prediction", predicted))?;
        self.take(what, predicted, middle(measured), &ratio);
        Ok(())
    }

    /// The `ratio` is of what was measured to what was predicted.
    fn take(&mut self, what: String, predicted: &Blocks, measured: f64, ratio: &Shown) {
        let predicted = middle(predicted);
        self.told.push(format!("{what}: predicted {predicted:.2}, measured {measured:.2}"));
        self.asked.push(ratio.equal(WITHIN, format!("{what}, measured over predicted,")));
    }
}

/// Seconds for each reply of what takes a share of the time.
fn each_reply(share: impl Fn(&Record) -> Option<f64>) -> impl Fn(&Record) -> Option<f64> {
    move |record| {
        let good = number(record, "good_per_s").filter(|good| *good > 0.0)?;
        Some(share(record)? / good)
    }
}

/// The peak of one process over that of several by two queues, in each block, with the demands of
/// each from the lowest rate that both have. The disk demand of one process is its waiting time,
/// without what is read ahead meanwhile. Several wait for each other, so theirs is the time in
/// which the disk is busy, less the same part.
fn peaks_by_demand(run: &Evidence<'_>, one: &Target, several: &Target) -> Found<[Blocks; 3]> {
    let both = run.common([&one.name, &several.name])?;
    let (_, [cell, beside]) = both.first().ok_or("rates")?;
    let left = run.left();
    let cpu = |record: &Record| Some(number(record, "cpu_us_per_reply")? / 1e6 / left);
    let busy = each_reply(|record| number(record, "disk_busy_share"));
    let wait = each_reply(|record| {
        Some(number(record, "disk_wait_s")? / number(record, "window_s").filter(|s| *s > 0.0)?)
    });
    let (cpu_one, cpu_several) = (run.blocks(cell, cpu), run.blocks(beside, cpu));
    let waited = run.blocks(cell, &wait);
    let part = with(&waited, &run.blocks(cell, &busy), |waited, busy| waited / busy);
    let shared = with(&run.blocks(beside, &busy), &part, |busy, part| busy * part);
    let rate = |processes| move |cpu, disk| model::rate(processes, cpu, disk);
    let alone = with(&cpu_one, &waited, rate(1));
    let together = with(&cpu_several, &shared, rate(processes(several)));
    let predicted = with(&alone, &together, |one, several| one / several);
    if predicted.is_empty() {
        return Err("processor time, waits for the disk and its busy time of each arm".to_owned());
    }
    Ok([predicted, cpu_one, waited])
}

/// A cap that leaves more of the peak than this may leave it to other things.
const BINDS: f64 = 0.9;

/// A server that answers less than this share of its peak is not overloaded: the time of a request
/// is its own.
const RESTS: f64 = 0.8;

/// A plateau under a cap on connections, in replies a second.
struct Plateau<'a> {
    target: &'a Target,
    predicted: Blocks,
    measured: Blocks,
}

/// The plateaus of all arms that do not block, by Little's law: the cap over the time between
/// requests and that of a request. The request's time is from the same server under the largest cap
/// at its lowest rate, if that is below its peak. A trial's own time would only yield its own
/// throughput.
fn plateaus<'a>(run: &Evidence<'a>) -> Found<Vec<Plateau<'a>>> {
    let Some(off_s) = model::off_s_per_request(&run.run.experiment.workload) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for mut family in run.families("limits.connections_max") {
        family.sort_by_key(|(target, _)| cap(target));
        let Some(((free, _), held)) = family.split_last() else { continue };
        if blocks(free) {
            continue;
        }
        let rates = run.rates(&free.name)?;
        let (_, lowest) = rates.first().ok_or("rates")?;
        let most = middle(&run.peaks(&free.name, "good_per_s")?);
        if run.metric(lowest, "good_per_s")? > RESTS * most {
            continue;
        }
        for (target, _) in held {
            let rate = |record: &Record| {
                let response_s = number(record, "service_p50_ms")? / 1e3;
                Some(model::rate_cap(cap(target).into(), off_s, response_s))
            };
            let predicted = run.blocks(lowest, rate);
            if predicted.is_empty() || middle(&predicted) > BINDS * most {
                continue;
            }
            let [top] = run.tops([&target.name])?;
            let measured = run.blocks(&top, |record| number(record, "good_per_s"));
            found.push(Plateau { target, predicted, measured });
        }
    }
    Ok(found)
}

/// The calculator predicts peaks, disk bytes and what a cap allows within 15 %.
pub(super) fn p1(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let mut all = Predictions::default();
    let sped = one(run)?;
    let symped = most_symped(run, sped)?;
    let [cell, _] = run.tops([&sped.name, &symped.name])?;
    let peaks = run.peak_ratio(&sped.name, &symped.name)?;
    let [predicted, cpu, disk] = peaks_by_demand(run, sped, symped)?;
    let ratio = run.peak_ratio_over(&sped.name, &symped.name, &predicted)?;
    all.take(format!("{} over {}", sped.name, symped.name), &predicted, peaks.typical(), &ratio);
    let items = model::items(&run.run.experiment.workload);
    let index = items.and_then(|items| index(run, &cell, &items).ok());
    if let Some(index) = &index {
        let ideal: Blocks = index.keys().map(|block| (*block, 1.0)).collect();
        all.add(run, format!("bytes that {} reads, over the model's", sped.name), &ideal, index)?;
    }
    let plateaus = plateaus(run)?;
    for Plateau { target, predicted, measured } in &plateaus {
        let what = format!("{}'s plateau, replies a second", target.name);
        all.add(run, what, predicted, measured)?;
    }
    let missing = match (index.is_some(), plateaus.is_empty()) {
        (true, false) => None,
        (true, true) => Some("it takes a cap on connections that binds, too"),
        (false, _) => Some("it takes what the disk reads, too"),
    };
    let why = format!(
        "two queues with {:.0} us of processor and {:.0} us of disk for each request of {}; peaks \
         {}; 15 % either way are asked",
        1e6 * middle(&cpu),
        1e6 * middle(&disk),
        sped.name,
        show(&peaks)
    );
    Ok(Finding::all(all.told.join("; "), why, &all.asked).without(missing))
}

/// The most that Little's law may be off what a cap allows, and one number of workers from another.
const WITHIN_CAP: f64 = 0.1;

/// A cap limits throughput to what Little's law says, with however many workers.
pub(super) fn e17(run: &Evidence<'_>) -> Found<Finding> {
    let plateaus = plateaus(run)?;
    if plateaus.is_empty() {
        return Err("sessions with think times, a cap that binds and one that does not".to_owned());
    }
    let (mut told, mut asked, mut workers) = (Vec::new(), Vec::new(), 0);
    for (at, Plateau { target, predicted, measured }) in plateaus.iter().enumerate() {
        let ratio = run.compared((&target.name, measured), ("its prediction", predicted))?;
        told.push(format!(
            "{} under a limit of {}: predicted {:.0}, measured {:.0} replies a second",
            target.name,
            cap(target),
            middle(predicted),
            middle(measured)
        ));
        asked.push(ratio.equal(WITHIN_CAP, format!("{}, measured over predicted,", target.name)));
        for other in plateaus[at + 1..].iter().filter(|one| cap(one.target) == cap(target)) {
            workers += 1;
            let ratio =
                run.compared((&other.target.name, &other.measured), (&target.name, measured))?;
            let what = format!("{} over {}", other.target.name, target.name);
            asked.push(ratio.equal(WITHIN_CAP, what));
        }
    }
    if workers == 0 {
        return Err("two numbers of workers under the same cap".to_owned());
    }
    let threads = plateaus.iter().all(|one| helpers(one.target) > 0);
    let whose = if threads { "" } else { "connections stand for the paper's threads; " };
    let why = format!(
        "{whose}Little's law with the time of a request under no cap, 10 % either way, and as much \
         with one number of workers as with another"
    );
    Ok(Finding::all(told.join("; "), why, &asked))
}

/// The share of the processor that an arm's last profile gives to a category.
fn profiled(run: &Evidence<'_>, arm: &str, category: Category) -> Option<Shown> {
    let all = Profile::of(run.run);
    let own = all.iter().rfind(|one| one.cell.arm == arm && one.source == Source::Perf)?;
    Some(Shown::sampled(own.share(category), own.samples)?.among(run.looks))
}

/// User threads cost a part of the processor, and events win.
pub(super) fn e19(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    let knots = ["inline", "try-first", "blocking"].map(|how| sending(run, how)).concat();
    for target in knots {
        if let Some(share) = profiled(run, &target.name, Category::Thread) {
            told.push(format!("threads cost {} {}", target.name, percent(&share)));
            asked.push(
                share.asks(range("E-19", 0), format!("the threads' share of {}", target.name)),
            );
        }
    }
    if asked.is_empty() {
        return Err("profiles of user threads (measure.profile, and perf)".to_owned());
    }
    let best = sends(run, "blocking")?;
    let events = events(run)?;
    let above: Vec<_> = events.iter().map(|one| (*run, one.name.as_str())).collect();
    let ahead = Evidence::best_of(&above, &[(*run, best.name.as_str())])?;
    let what = format!("the best event-driven peak over {}'s", best.name);
    told.push(format!("{what}: {}", show(&ahead)));
    asked.push(ahead.asks(range("E-19", 1), what));
    let why =
        "shares of one profile each, as the paper's: their intervals are of its samples alone";
    Ok(Finding::all(told.join("; "), why, &asked))
}

/// By so much the best versions may differ.
const APART: f64 = 0.1;
/// The most options of one server that may vary: memory and processors may, too.
const OWN_MAX: usize = ONLY_MAX - 2;

/// A server under a setting of its options that vary.
#[derive(Clone, Debug)]
struct Version<'a> {
    target: &'a Target,
    /// Paths and levels of the factors that are its own.
    own: Vec<(&'a str, &'a str)>,
}

impl<'a> Version<'a> {
    fn all(run: &Evidence<'a>, target: &'a Target) -> Vec<Self> {
        let mut all = vec![Self { target, own: Vec::new() }];
        for factor in &run.run.experiment.factors {
            if factor.of_target().is_some_and(|(name, _)| name == target.name) {
                let with = |one: &Self, level: &'a String| {
                    let mut own = one.own.clone();
                    own.push((factor.path.as_str(), level.as_str()));
                    Self { target, own }
                };
                let each = |one: &Self| -> Vec<Self> {
                    factor.levels.iter().map(|level| with(one, level)).collect()
                };
                all = all.iter().flat_map(each).collect();
            }
        }
        all
    }

    fn architecture(&self) -> &'a str {
        let own = self.own.iter().find(|(path, _)| path.ends_with(ARCHITECTURE));
        own.map_or_else(|| option(self.target, ARCHITECTURE), |(_, level)| *level)
    }

    fn name(&self) -> String {
        let key =
            |path: &'a str| -> &'a str { path.split_once(".config.").map_or(path, |(_, key)| key) };
        let own = self.own.iter().map(|&(path, level)| format!(" {}={level}", key(path)));
        self.target.name.clone() + &own.collect::<String>()
    }

    /// This server alone, among the cells that `run` looks at.
    fn side(&self, run: &Evidence<'a>) -> Side<'a, 'a> {
        let own = self.own.iter().fold(*run, |run, &(path, level)| run.with(path, level));
        (own, self.target.name.as_str())
    }
}

/// The settings of each architecture, in the file's order.
fn versions<'a>(run: &Evidence<'a>) -> Found<Vec<(&'a str, Vec<Version<'a>>)>> {
    let mut all: Vec<(&str, Vec<Version<'_>>)> = Vec::new();
    for version in run.regattas().flat_map(|target| Version::all(run, target)) {
        if version.own.len() > OWN_MAX {
            return Err(format!("{OWN_MAX} options of one server that vary, at most"));
        }
        let architecture = version.architecture();
        match all.iter_mut().find(|(name, _)| *name == architecture) {
            Some((_, versions)) => versions.push(version),
            None => all.push((architecture, vec![version])),
        }
    }
    Ok(all)
}

/// The one that looks best, for its name.
fn best<'v, 'a>(run: &Evidence<'a>, versions: &'v [Version<'a>]) -> Found<&'v Version<'a>> {
    let peaks = Curves::of(&sides(run, versions))?.each_peak();
    let best = versions.iter().zip(&peaks).max_by(|a, b| middle(a.1).total_cmp(&middle(b.1)));
    best.map(|(version, _)| version).ok_or_else(|| "settings".to_owned())
}

fn sides<'a>(run: &Evidence<'a>, versions: &[Version<'a>]) -> Vec<Side<'a, 'a>> {
    versions.iter().map(|version| version.side(run)).collect()
}

/// Tuned, the best of each architecture differ by a tenth at most, with every amount of memory.
pub(super) fn s18(run: &Evidence<'_>) -> Found<Finding> {
    let (tuned, alone): (Vec<_>, Vec<_>) =
        versions(run)?.into_iter().partition(|(_, versions)| versions.len() > 1);
    if tuned.len() < 2 {
        return Err("architectures with several settings each: two at least".to_owned());
    }
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for (place, run) in &run.memories() {
        let best: Found<Vec<_>> = tuned.iter().map(|(_, versions)| best(run, versions)).collect();
        let best = best?;
        for (at, one) in best.iter().enumerate() {
            for (beside, other) in best.iter().enumerate().skip(at + 1) {
                // Not of those that look best: that would choose and test by the same blocks.
                let [one_s, other_s] = [at, beside].map(|at| sides(run, &tuned[at].1));
                let ratio = Evidence::best_of(&one_s, &other_s)?;
                let what = format!("{} over {}{place}", one.name(), other.name());
                told.push(format!("{what}: {}", show(&ratio)));
                asked.push(ratio.equal(APART, what));
            }
        }
    }
    let settings = |(name, versions): &(&str, Vec<_>)| format!("{} of {name}", versions.len());
    let settings: Vec<String> = tuned.iter().map(settings).collect();
    let left: Vec<&str> = alone.iter().map(|(name, _)| *name).collect();
    let left = match left.as_slice() {
        [] => String::new(),
        left => format!("; with one setting and left out: {}", left.join(", ")),
    };
    let why = format!(
        "all that may be the best of an architecture stand for it, of the settings {}; equal \
         within 10 %{left}",
        settings.join(", ")
    );
    Ok(Finding::all(told.join("; "), why, &asked).on(run.processors(4)))
}
