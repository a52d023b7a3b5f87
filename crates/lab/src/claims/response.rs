//! Claims on connections held and response times ([E] §8): E-3, E-25.

use super::Finding;
use super::evidence::{Evidence, Found, option, show};
use super::processes::waits;
use crate::stats::Effect;

/// In overload SPED holds few connections and is not slower to answer them.
pub(super) fn e3(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let sped = run.of("sped").next().ok_or("sped")?;
    let most = run
        .of("symped")
        .filter(|target| {
            option(target, "limits.connections_max") == option(sped, "limits.connections_max")
        })
        .find(|target| option(target, "event.send") != "blocking");
    let other = most.ok_or("symped under the same limit")?;
    let (one, several) = (run.top(&sped.name)?, run.top(&other.name)?);
    let held = |cell| run.metric(cell, "connections_open");
    let (few, many) = (held(&one)?, held(&several)?);
    let time = run.ratio(&one, &several, "mean_ms")?;
    let ours = format!(
        "{} has {few:.0} connections at the end of the highest rate, {} {many:.0}; mean time {}",
        sped.name,
        other.name,
        show(&time)
    );
    let slower = time.interval.is_some_and(|interval| interval.low > 1.1);
    let why = format!(
        "of {} that are allowed; a third of the others' is asked",
        option(sped, "limits.connections_max")
    );
    Ok(Finding::of(few * 3.0 <= many && !slower, ours, why))
}

/// Response times grow with the limit on connections, and a lower one costs little.
pub(super) fn e25(run: &Evidence<'_>) -> Found<Finding> {
    let (mut told, mut worst): (Vec<String>, Option<Effect>) = (Vec::new(), None);
    let mut cheap = true;
    for mut family in run.families("limits.connections_max") {
        family.sort_by_key(|(_, cap)| cap.parse::<u32>().unwrap_or(u32::MAX));
        let (fewer, more) = (family[0].0, family[family.len() - 1].0);
        let (below, above) = (run.top(&fewer.name)?, run.top(&more.name)?);
        let time = run.ratio(&below, &above, "mean_ms")?;
        let good = run.ratio(&below, &above, "good_per_s")?;
        cheap &= good.interval.is_some_and(|interval| interval.high > 0.9);
        told.push(format!(
            "{} over {}: mean time {}, throughput {}",
            fewer.name,
            more.name,
            show(&time),
            show(&good)
        ));
        if worst.is_none_or(|worst| time.ratio > worst.ratio) {
            worst = Some(time);
        }
    }
    let worst = worst.ok_or("an arm under two limits on connections")?;
    let why = "at the highest rate, of the answered; a tenth of the throughput may be lost";
    Ok(Finding::surely(worst.ratio < 1.0 && cheap, &worst, 1.0, told.join("; "), why))
}
