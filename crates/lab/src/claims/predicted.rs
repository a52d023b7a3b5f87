//! Our own claim P-1: the calculator of systems.md §3.9 predicts what a disk does.

use super::Finding;
use super::arms::{blocks, cap, most_symped, one, processes};
use super::evidence::{Blocks, Evidence, Found, Shown, number, show};
use super::processes::waits;
use super::shown::Asked;
use crate::claims::model;
use crate::record::Record;
use crate::stats::median;

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

fn middle(all: &Blocks) -> f64 {
    median(&all.values().copied().collect::<Vec<_>>())
}

/// `of` of what two say in each block that both have.
fn with(one: &Blocks, other: &Blocks, of: impl Fn(f64, f64) -> f64) -> Blocks {
    let both = |(block, one): (&u32, &f64)| Some((*block, of(*one, *other.get(block)?)));
    one.iter().filter_map(both).collect()
}

/// Seconds of the disk for each reply.
fn disk_s(record: &Record) -> Option<f64> {
    let good = number(record, "good_per_s").filter(|good| *good > 0.0)?;
    Some(number(record, "disk_busy_share")? / good)
}

/// The calculator predicts peaks, disk bytes and what a cap allows within 15 %.
pub(super) fn p1(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let workload = &run.run.experiment.workload;
    let mut all = Predictions::default();
    let sped = one(run)?;
    let symped = most_symped(run, sped)?;
    let [cell, several] = run.tops([&sped.name, &symped.name])?;
    let left = run.left();
    let cpu_s = |record: &Record| Some(number(record, "cpu_us_per_reply")? / 1e6 / left);
    let (cpu, disk) = (run.blocks(&several, cpu_s), run.blocks(&cell, disk_s));
    let peaks = run.peak_ratio(&sped.name, &symped.name)?;
    let predicted =
        with(&cpu, &disk, |cpu, disk| model::peak_ratio(1, processes(symped), cpu, disk));
    let ratio = run.peak_ratio_over(&sped.name, &symped.name, &predicted)?;
    all.take(format!("{} over {}", sped.name, symped.name), &predicted, peaks.typical(), &ratio);
    if let Some(items) = model::items(workload)
        && let Ok(index) = super::blocking::index(run, &cell, &items)
    {
        let ideal: Blocks = index.keys().map(|block| (*block, 1.0)).collect();
        all.add(run, format!("bytes that {} reads, over the model's", sped.name), &ideal, &index)?;
    }
    if let Some(off_s) = model::off_s_per_request(workload) {
        let most = run.metric(&several, "good_per_s")?;
        for target in run.regattas().filter(|one| cap(one) < cap(sped) && !blocks(one)) {
            let [top] = run.tops([&target.name])?;
            // As long as a request holds its connection; from when it was due it also waits, in
            // the queue before the cap, to get one.
            let rate = |record: &Record| {
                let response_s = number(record, "service_p50_ms")? / 1e3;
                Some(model::rate_cap(cap(target).into(), off_s, response_s))
            };
            // A cap that binds nothing predicts nothing.
            if run.middle("service_p50_ms", &top, rate)? < most {
                let good = run.blocks(&top, |record| number(record, "good_per_s"));
                let what = format!("{}'s plateau, replies a second", target.name);
                all.add(run, what, &run.blocks(&top, rate), &good)?;
            }
        }
    }
    let why = format!(
        "two queues with {:.0} us of processor and {:.0} us of disk for each request; peaks {}; \
         15 % either way are asked",
        1e6 * middle(&cpu),
        1e6 * middle(&disk),
        show(&peaks)
    );
    Ok(Finding::all(all.told.join("; "), why, &all.asked))
}
