//! [A]'s claims on blocking, asynchronous and self-adapting servers.

use super::Finding;
use super::arms::adapting;
use super::evidence::{Evidence, Found, Shown, counted, number, option, percent, show};
use crate::experiment::Target;
use crate::experiment::claim_index::range;
use crate::record::{Cell, Record};
use crate::stats::with;

/// The highest rate is to be so far past the knee of the first server.
const PAST: f64 = 1.3;

/// The cells of the three at the lowest rate and at the highest.
fn ends(run: &Evidence<'_>) -> Found<[[Cell; 3]; 2]> {
    let names = adapting(run)?.map(|target| target.name.as_str());
    let mut all = run.common(names)?;
    let (last, top) = all.pop().ok_or("rates")?;
    let (first, low) = all.into_iter().next().ok_or("several rates")?;
    if last < PAST || first > 0.5 {
        return Err("a rate of 0.3 times saturation and one of 1.4 or more".to_owned());
    }
    Ok([low, top])
}

/// Below BIO's knee the self-adapting server answers as fast as BIO, beyond it as AIO.
pub(super) fn a2(run: &Evidence<'_>) -> Found<Finding> {
    let metric = "p50_ms";
    let [[bio, aio, adapts], [bio_past, aio_past, adapts_past]] = ends(run)?;
    let (own, other) = (run.ratio(&adapts, &bio, metric)?, run.ratio(&adapts, &aio, metric)?);
    let far = |from: &Cell| {
        let of = |cell| run.blocks(cell, |record| number(record, metric).filter(|ms| *ms > 0.0));
        with(&of(&adapts_past), &of(from), |ms, from| (ms / from).ln().abs())
    };
    let nearer = run.compared(("AIO", &far(&aio_past)), ("BIO", &far(&bio_past)))?;
    let times = [&bio_past, &aio_past, &adapts_past].map(|cell| run.metric(cell, metric));
    let [blocking, asynchronous, adapting] = times;
    let ours = format!(
        "at the lowest rate its median over BIO's {}, over AIO's {}; at the highest {:.1} ms, \
         BIO's {:.1}, AIO's {:.1}",
        show(&own),
        show(&other),
        adapting?,
        blocking?,
        asynchronous?
    );
    let missed = [&bio_past, &aio_past, &adapts_past].map(|cell| run.unanswered(cell)).join(", ");
    let asked = [
        own.asks(range("A-2", 0), "its median response time over BIO's at the lowest rate"),
        other.asks(range("A-2", 1), "its median response time over AIO's at the lowest rate"),
        nearer.asks(range("A-2", 2), "its distance from AIO over that from BIO at the highest"),
    ];
    let why =
        format!("distances are of logarithms; times are of the answered, not answered {missed}");
    Ok(Finding::all(ours, why, &asked))
}

/// Past its knee BIO's response times grow, the others' stay short.
pub(super) fn a3(run: &Evidence<'_>) -> Found<Finding> {
    // Where nobody was answered there is no mean.
    let mean = |record: &Record| number(record, "mean_ms").filter(|ms| *ms > 0.0);
    let [[bio, ..], [bio_past, others @ ..]] = ends(run)?;
    let grows = run.times((&bio_past, &bio), mean)?;
    let mut told = vec![format!("{}'s mean time grows {} times", bio.arm, show(&grows))];
    let mut asked = vec![grows.asks(range("A-3", 0), "BIO's mean time past its knee over before")];
    for cell in &others {
        let shown = run.shown("mean_ms", cell, mean)?;
        let missed = run.unanswered(cell);
        told.push(format!("{}'s is {} ms, not answered {missed}", cell.arm, show(&shown)));
        asked.push(shown.asks(range("A-3", 1), format!("{}'s mean time, ms,", cell.arm)));
    }
    let missed = run.unanswered(&bio_past);
    let why =
        format!("at the lowest rate and the highest; times are of the answered, BIO left {missed}");
    Ok(Finding::all(told.join("; "), why, &asked))
}

/// The share of the reads that were decided to be asynchronous.
fn asynchronous(record: &Record) -> Option<f64> {
    let (now, later) = (counted(record, "decided_blocking")?, counted(record, "decided_async")?);
    (now + later > 0.0).then(|| later / (now + later))
}

/// How many wait for a thread when it is decided.
fn waiting(record: &Record) -> Option<f64> {
    let all = counted(record, "decided_blocking")? + counted(record, "decided_async")?;
    (all > 0.0).then(|| counted(record, "decided_queue_sum").map(|sum| sum / all))?
}

/// The share that is read asynchronously follows the queue.
pub(super) fn a4(run: &Evidence<'_>) -> Found<Finding> {
    let [[.., low], [.., top]] = ends(run)?;
    let shares: [Shown; 2] =
        [run.shown("decisions", &low, asynchronous)?, run.shown("decisions", &top, asynchronous)?];
    let ours = format!(
        "{} at the lowest rate, {} at the highest",
        percent(&shares[0]),
        percent(&shares[1])
    );
    let mean = |cell| run.middle("the queue", cell, waiting);
    let why = format!(
        "the server's own account; {:.2} and {:.1} connections wait for a thread at a decision",
        mean(&low)?,
        mean(&top)?
    );
    let asked = [
        shares[0].asks(range("A-4", 0), "the share at the lowest rate"),
        shares[1].asks(range("A-4", 1), "the share at the highest"),
    ];
    Ok(Finding::all(ours, why, &asked))
}

/// The poller's part of the server's processor time.
fn of_the_poller(record: &Record) -> Option<f64> {
    let all = number(record, "cpu_s").filter(|s| *s > 0.0)?;
    Some(counted(record, "aio_poller_ns")? / 1e9 / all)
}

/// A poller that spins wastes its processor at low load, and one that waits loses nothing.
pub(super) fn a5(run: &Evidence<'_>) -> Found<Finding> {
    let families = run.families("adapt.completions");
    let of = |family: &[(&'_ Target, &str)], value: &str| {
        family.iter().position(|(_, has)| *has == value)
    };
    let (mut told, mut asked, mut seen) = (Vec::new(), Vec::new(), false);
    for family in &families {
        let (Some(spins), Some(waits)) = (of(family, "spin"), of(family, "wait")) else { continue };
        let (spins, waits) = (family[spins].0, family[waits].0);
        let peaks = run.peak_ratio(&waits.name, &spins.name)?;
        let what = format!("{}'s peak over {}'s", waits.name, spins.name);
        told.push(format!("{what}: {}", show(&peaks)));
        asked.push(peaks.asks(range("A-5", 1), what));
        // One that adapts has nothing to poll for at low load.
        if option(spins, "server.architecture") != "aio" {
            continue;
        }
        seen = true;
        let cells = run.bottoms([&spins.name, &waits.name])?;
        let cost = run.ratio(&cells[0], &cells[1], "cpu_us_per_reply")?;
        let what = format!("{}'s processor time per reply over {}'s", spins.name, waits.name);
        told.push(format!("{what} at the lowest rate: {}", show(&cost)));
        asked.push(cost.asks(range("A-5", 0), what));
        // The thread that polls responds, too: its share is no waste, and is told only.
        for cell in &cells {
            if let Ok(share) = run.shown("the poller's time", cell, of_the_poller) {
                told.push(format!("{}'s poller has {} of it", cell.arm, percent(&share)));
            }
        }
    }
    if !seen {
        return Err(
            "aio with a poller that spins and with one that waits (adapt.completions)".to_owned()
        );
    }
    Ok(Finding::all(told.join("; "), "a tenth more for each reply is a waste", &asked))
}
