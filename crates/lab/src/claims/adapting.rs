//! [A]'s claim on the response times of a self-adapting server: A-2.

use super::Finding;
use super::arms::adapting;
use super::evidence::{Evidence, Found, number, show};
use crate::experiment::claim_index::range;
use crate::record::Cell;
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
