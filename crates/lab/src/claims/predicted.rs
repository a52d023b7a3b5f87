//! What is predicted before it is measured: P-1, that the calculator of systems.md §3.9 says what
//! a disk and a cap do, and E-17, that Little's law says what a cap does.

use super::Finding;
use super::arms::{blocks, cap, helpers, most_symped, one, processes};
use super::evidence::{Blocks, Evidence, Found, Shown, number, show};
use super::processes::waits;
use super::shown::Asked;
use crate::claims::model;
use crate::experiment::Target;
use crate::record::Record;
use crate::stats::{middle, with};

/// How far a prediction may be off.
const WITHIN: f64 = 0.15;

/// What the calculator says, and what was measured, of one thing after the other.
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

/// The peak of one process over that of several by two queues, in each block: with the demands of
/// each of them, from the lowest rate that both have. The disk's is what one process waits for it,
/// without what is read ahead meanwhile; of the several, who wait for each other, it is what keeps
/// the disk busy, less the same part.
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
/// requests and that of a request. That is from the same server under the largest cap at its lowest
/// rate, if that is below its peak: a trial's own time would give its own throughput, whatever that
/// is.
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
    let index = items.and_then(|items| super::blocking::index(run, &cell, &items).ok());
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

/// How far Little's law may be off what a cap allows, and one number of workers from another.
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
