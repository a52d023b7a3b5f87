//! Claims on connections held and response times ([E] §8): E-3, E-25.

use super::Finding;
use super::arms::{blocks, cap, one};
use super::evidence::{Evidence, Found, show};
use super::processes::waits;

/// In overload SPED holds few connections and is not slower to answer them.
pub(super) fn e3(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let sped = one(run)?;
    let mut symped = run.of("symped").filter(|one| cap(one) == cap(sped) && !blocks(one));
    let other = symped.next().ok_or("symped under the same limit")?;
    let [alone, several] = run.tops([&sped.name, &other.name])?;
    let held = run.ratio(&alone, &several, "connections_open")?;
    let time = run.ratio(&alone, &several, "mean_ms")?;
    let ours = format!(
        "{} has {:.0} connections at the end of the highest rate, {} {:.0}; mean time {}",
        sped.name,
        run.metric(&alone, "connections_open")?,
        other.name,
        run.metric(&several, "connections_open")?,
        show(&time)
    );
    let why = format!(
        "of {} that are allowed; a third of the others' and no more than a tenth slower is asked; \
         times are of the answered, and not answered were {} and {}",
        cap(sped),
        run.unanswered(&alone),
        run.unanswered(&several)
    );
    let asked = [
        held.below(1.0 / 3.0, "the ratio of connections"),
        time.below(1.1, "the ratio of mean times"),
    ];
    Ok(Finding::all(ours, why, &asked))
}

/// Response times grow with the limit on connections, and a lower one costs little.
pub(super) fn e25(run: &Evidence<'_>) -> Found<Finding> {
    let (mut told, mut failed, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    for mut family in run.families("limits.connections_max") {
        family.sort_by_key(|(target, _)| cap(target));
        let (fewer, more) = (&family[0].0.name, &family[family.len() - 1].0.name);
        let [below, above] = run.tops([fewer, more])?;
        let time = run.ratio(&below, &above, "mean_ms")?;
        let good = run.ratio(&below, &above, "good_per_s")?;
        told.push(format!(
            "{fewer} over {more}: mean time {}, throughput {}",
            show(&time),
            show(&good)
        ));
        failed.push(format!("{} and {}", run.unanswered(&below), run.unanswered(&above)));
        asked.push(time.below(1.0, format!("mean time of {fewer} over {more}")));
        asked.push(good.above(0.9, format!("throughput of {fewer} over {more}")));
    }
    if asked.is_empty() {
        return Err("an arm under two limits on connections".to_owned());
    }
    let why = format!(
        "at the highest rate; a tenth of the throughput may be lost; times are of the answered, \
         and not answered were {}",
        failed.join(", ")
    );
    Ok(Finding::all(told.join("; "), why, &asked))
}
