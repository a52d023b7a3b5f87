//! Our own claim P-1: the calculator of systems.md §3.9 predicts what a disk does.

use super::Finding;
use super::evidence::{Evidence, Found, option, show};
use super::processes::waits;
use crate::model;
use crate::spec::Target;

/// How far a prediction may be off.
const WITHIN: f64 = 0.15;

/// The calculator predicts peaks, disk bytes and what a cap allows within 15 %.
pub(super) fn p1(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let mut told = Vec::new();
    let mut all = true;
    let mut add = |what: String, predicted: f64, measured: f64| {
        all &= (predicted / measured).ln().abs() <= WITHIN.ln_1p();
        told.push(format!("{what}: predicted {predicted:.2}, measured {measured:.2}"));
    };
    let sped = run.of("sped").next().ok_or("sped")?;
    let several = run
        .of("symped")
        .filter(|target| option(target, "event.send") != "blocking")
        .filter(|target| cap(target) == cap(sped))
        .max_by_key(|target| processes(target));
    let symped = several.ok_or("symped with several processes")?;
    let cell = run.top(&sped.name)?;
    let cpu_s = run.metric(&run.top(&symped.name)?, "cpu_us_per_reply")? / 1e6 / run.left();
    let names = ["disk_busy_share", "good_per_s"];
    let disk_s = run.each(&cell, names, |[busy, good]| Some(busy / good))?;
    let measured = run.peak_ratio(&sped.name, &symped.name)?;
    let ratio = model::peak_ratio(1, processes(symped), cpu_s, disk_s);
    add(format!("{} over {}", sped.name, symped.name), ratio, measured.ratio);
    if let Some(items) = model::items(&run.run.experiment.workload)
        && let Ok(index) = super::blocking::index(run, &cell, &items)
    {
        add(format!("bytes that {} reads, over the model's", sped.name), 1.0, index);
    }
    if let Some(off_s) = model::off_s_per_request(&run.run.experiment.workload) {
        let few = run.regattas().filter(|target| cap(target) < cap(sped) && !blocking(target));
        for target in few {
            let top = run.top(&target.name)?;
            // As long as a request holds its connection; from when it was due it also waits, in
            // the queue before the cap, to get one.
            let response_s = run.metric(&top, "service_p50_ms")? / 1e3;
            let rate = model::rate_cap(cap(target).into(), off_s, response_s);
            let peaks = run.peaks(&target.name, "good_per_s")?;
            let peak = peaks.values().copied().fold(0.0, f64::max);
            // A cap that binds nothing predicts nothing.
            if rate < run.metric(&run.top(&symped.name)?, "good_per_s")? {
                add(format!("{}'s plateau, replies a second", target.name), rate, peak);
            }
        }
    }
    let why = format!(
        "two queues with {:.0} us of processor and {:.0} us of disk for each request; peaks {}",
        1e6 * cpu_s,
        1e6 * disk_s,
        show(&measured)
    );
    Ok(Finding::of(all, told.join("; "), why))
}

fn cap(target: &Target) -> u32 {
    option(target, "limits.connections_max").parse().unwrap_or(u32::MAX)
}

fn processes(target: &Target) -> u32 {
    option(target, "event.processes").parse().unwrap_or(1)
}

fn blocking(target: &Target) -> bool {
    option(target, "event.send") == "blocking"
}
