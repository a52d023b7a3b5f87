//! The claims of [H] on accept strategies (systems.md §2.1). Rates are multiples of S, the highest
//! closed-loop rate of `acceptinf`.

use super::arms::{limited, preset as target};
use super::evidence::{BEHIND, Evidence, Found, GOOD, Shown, counted, number, quotient, show};
use super::shown::{all, all_among, any, any_part};
use super::{Finding, Verdict};
use crate::record::{Cell, Record};

/// The name of a preset's arm.
fn preset<'a>(run: &Evidence<'a>, architecture: &str) -> Found<&'a str> {
    target(run, architecture).map(|target| target.name.as_str())
}

/// The share of a single process's busy time that is inside `select`, by its own clock: time inside
/// the waits, less the time in which there was nothing to do.
fn select_share(left: f64) -> impl Fn(&Record) -> Option<f64> {
    move |record| {
        let window_s = number(record, "window_s")?;
        let busy_s = (number(record, "server_cpu")? / left).min(1.0) * window_s;
        let inside_s = counted(record, "wait_ns")? / 1e9;
        (busy_s > 0.0).then(|| ((inside_s - (window_s - busy_s)) / busy_s).clamp(0.0, 1.0))
    }
}

/// Replies for each second in which the process was busy: so much of it goes to reads, writes,
/// opens and closes, of which each reply takes the same.
fn replies_by_time(left: f64) -> impl Fn(&Record) -> Option<f64> {
    move |record| {
        let busy_s = number(record, "server_cpu")? / left * number(record, "window_s")?;
        (busy_s > 0.0).then_some(counted(record, "replies")? / busy_s)
    }
}

/// After saturation more and more of Accept1's time is select's, and less that of requests.
pub(super) fn h2(run: &Evidence<'_>) -> Found<Finding> {
    let one = preset(run, "accept1")?;
    let ([before], [after]) = (run.near([one], 0.7)?, run.near([one], 2.4)?);
    let share = select_share(run.left());
    let part = |cell| run.middle("time in select", cell, &share);
    let accepts = run.share(&after, "accept_ok", "wait_calls")?;
    let asks = run.share(&after, "wait_interest_sum", "wait_calls")?;
    let ours = format!(
        "select has {:.0} % of the busy time at 0.7 S and {:.0} % at 2.4 S",
        100.0 * part(&before)?,
        100.0 * part(&after)?
    );
    let fewer = run.times((&after, &before), replies_by_time(run.left()))?;
    let ours = format!("{ours}; replies for each busy second change by {}", show(&fewer));
    let why = format!(
        "by the server's clock, idle time taken out; at 2.4 S each select asks about {asks:.1} \
         descriptors and brings {accepts:.2} connections"
    );
    let times = |late: f64, early: f64| late - 2.0 * early;
    let grown = run.between("time in select", (&after, &before), &share, times)?;
    let late = run.shown("time in select", &after, &share)?;
    let asked = [
        grown.above(0.0, "the share at 2.4 S less twice that at 0.7 S"),
        late.above(0.1, "the share at 2.4 S"),
        fewer.below(1.0, "replies for each busy second at 2.4 S over those at 0.7 S"),
    ];
    Ok(Finding::all(ours, why, &asked))
}

/// What is left of the throughput after a collapse, at most.
const COLLAPSED: f64 = 0.9;

/// The collapse coincides with reads that find nothing.
pub(super) fn h4(run: &Evidence<'_>) -> Found<Finding> {
    let cm = preset(run, "cm")?;
    let ([before], [after]) = (run.near([cm], 1.43)?, run.near([cm], 1.67)?);
    let share = quotient("recv_would_block", "recv_calls");
    let grown = run.between("reads", (&after, &before), &share, |late, early| late - early)?;
    let late = run.shown("reads", &after, &share)?;
    let ours = format!(
        "{:.1} % at 1.43 S, {:.1} % at 1.67 S",
        100.0 * run.middle("reads", &before, &share)?,
        100.0 * run.middle("reads", &after, &share)?
    );
    let left = run.ratio(&after, &before, GOOD)?;
    let why =
        format!("share of cm's reads that find nothing; throughput changes by {}", show(&left));
    let collapse = left.below(COLLAPSED, "cm's throughput at 1.67 S over that at 1.43 S");
    match collapse.verdict(1) {
        Verdict::Holds => {}
        Verdict::CannotTell => return Ok(Finding::all(ours, why, &[collapse])),
        Verdict::Fails => {
            return Ok(Finding::undecided(ours, format!("a collapse is needed; {why}")));
        }
    }
    let asked = [
        grown.above(0.0, "the share at 1.67 S less that at 1.43 S"),
        late.above(0.15, "the share at 1.67 S"),
    ];
    Ok(Finding::all(ours, why, &asked))
}

/// Full-read alone is harmless, but not together with accept-on-close.
pub(super) fn h5(run: &Evidence<'_>) -> Found<Finding> {
    let (eager, full) = (preset(run, "eager")?, preset(run, "eager+full")?);
    let (close, cm) = (preset(run, "eager+close")?, preset(run, "cm")?);
    let alone = run.peak_ratio(full, eager)?;
    let both = run.peak_ratio(cm, close)?;
    let past = |arms: [&str; 2]| {
        let [above, below] = run.tops(arms)?;
        run.ratio(&above, &below, GOOD)
    };
    let (alone_past, both_past) = (past([full, eager])?, past([cm, close])?);
    let ours = format!(
        "at the peak eager+full to eager {}, cm to eager+close {}; at the highest rate {} and {}",
        show(&alone),
        show(&both),
        show(&alone_past),
        show(&both_past)
    );
    let asked = [
        alone.equal(0.03, "eager+full's peak over eager's"),
        alone_past.equal(0.03, "eager+full over eager at the highest rate"),
        both_past.unequal(0.03, "cm over eager+close at the highest rate"),
    ];
    Ok(Finding::all(ours, "equal within 3 % alone, different by more together", &asked))
}

/// Where the curves are to cross, as multiples of S.
const CROSSING: std::ops::RangeInclusive<f64> = 1.02..=1.25;

/// AcceptInf peaks higher, Eager falls less: the curves cross.
pub(super) fn h6(run: &Evidence<'_>) -> Found<Finding> {
    let (eager, inf) = (preset(run, "eager")?, preset(run, "acceptinf")?);
    let peak = run.peak_ratio(eager, inf)?;
    let (mut past, mut told) = (Vec::new(), Vec::new());
    for (multiple, [above, below]) in run.common([eager, inf])? {
        if CROSSING.contains(&multiple) {
            let ratio = run.ratio(&above, &below, "good_per_s")?;
            told.push(format!("{} at {multiple} S", show(&ratio)));
            past.push(ratio.above(1.0, format!("eager over acceptinf at {multiple} S")));
        }
    }
    if past.is_empty() {
        return Err("rates from 1.02 to 1.25 S".to_owned());
    }
    let ours = format!("eager over acceptinf: peaks {}; {}", show(&peak), told.join(", "));
    let lower = all(&[peak.below(1.0, "eager's peak over acceptinf's")]);
    let why = "a lower peak, and ahead at one rate from 1.02 to 1.25 S at least";
    Ok(Finding::parts(ours, why, vec![lower, any(&past)]))
}

/// The limits that may be the best one.
const INTERIOR: std::ops::RangeInclusive<u32> = 10..=75;
/// Those of them that the paper tried.
const TRIED: [u32; 4] = [10, 25, 50, 75];

/// An accept count in the middle keeps the peak and is best past saturation.
pub(super) fn h7(run: &Evidence<'_>) -> Found<Finding> {
    let (inf, eager) = (preset(run, "acceptinf")?, preset(run, "eager")?);
    let (mut told, mut candidates, mut missing) = (Vec::new(), Vec::new(), TRIED.to_vec());
    for (arm, limit) in limited(run).into_iter().filter(|(_, limit)| INTERIOR.contains(limit)) {
        let Ok([cell, unlimited, other]) = run.near([arm, inf, eager], 1.2) else { continue };
        let over_inf = run.ratio(&cell, &unlimited, "good_per_s")?;
        let over_eager = run.ratio(&cell, &other, "good_per_s")?;
        let peak = run.peak_ratio(arm, inf)?;
        missing.retain(|one| *one != limit);
        told.push(format!(
            "limit {limit}: {} to acceptinf and {} to eager at 1.2 S, {} at the peak",
            show(&over_inf),
            show(&over_eager),
            show(&peak)
        ));
        candidates.push([
            over_inf.above(1.05, format!("{arm} over acceptinf at 1.2 S")),
            over_eager.above(1.05, format!("{arm} over eager at 1.2 S")),
            peak.above(0.95, format!("{arm}'s peak over acceptinf's")),
        ]);
    }
    if candidates.is_empty() {
        return Err("valid trials with an accept limit near 1.2 S".to_owned());
    }
    let looks = candidates.len();
    let parts = candidates.iter().map(|asked| all_among(asked, looks)).collect();
    let why = "one limit from 10 to 75 that keeps the peak within 5 % and then gains 5 %";
    let missing: Vec<String> = missing.iter().map(u32::to_string).collect();
    let others = (!missing.is_empty()).then(|| format!("limits of {}, too", missing.join(", ")));
    Ok(Finding::parts(told.join("; "), why, vec![any_part(parts)]).untried(others))
}

/// Accept-on-close accepts with success, less than one at a time.
pub(super) fn h8(run: &Evidence<'_>) -> Found<Finding> {
    let [close, inf] = run.near([preset(run, "eager+close")?, preset(run, "acceptinf")?], 0.95)?;
    let success = quotient("accept_ok", "accept_calls");
    let more = run.between("accepts", (&close, &inf), &success, |close, inf| close - inf)?;
    let each = quotient("accept_ok", "accept_runs");
    let at_once = run.shown("runs of accepts", &close, &each)?;
    let share = |cell: &Cell| run.middle("accepts", cell, &success);
    let ours = format!(
        "{:.1} % of eager+close's accepts succeed, {:.1} % of acceptinf's; {} connections for each \
         run of accepts, of acceptinf's {:.1}",
        100.0 * share(&close)?,
        100.0 * share(&inf)?,
        show(&at_once),
        run.middle("runs of accepts", &inf, &each)?
    );
    let on_close = run.share(&close, "accept_on_close", "accept_runs")?;
    let why = format!("{:.0} % of eager+close's runs follow a close", 100.0 * on_close);
    let asked = [
        more.above(0.0, "eager+close's success less acceptinf's"),
        at_once.below(1.0, "eager+close's connections for each run"),
    ];
    Ok(Finding::all(ours, why, &asked))
}

/// Open connections in overload: Accept1 < Accept25 < AcceptInf < CM.
pub(super) fn h9(run: &Evidence<'_>) -> Found<Finding> {
    const ORDER: [&str; 4] = ["accept1", "accept25", "acceptinf", "cm"];
    let mut arms = [""; 4];
    for (arm, name) in arms.iter_mut().zip(ORDER) {
        *arm = preset(run, name)?;
    }
    let cells = run.tops(arms)?;
    let open = || quotient("connections_open_at_accept_sum", "accept_ok");
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for (at, cell) in cells.iter().enumerate() {
        told.push(format!("{} {:.0}", arms[at], run.middle("open connections", cell, open())?));
        if let Some(before) = at.checked_sub(1) {
            let ratio = run.times((cell, &cells[before]), open())?;
            asked.push(ratio.above(1.0, format!("{} over {}", arms[at], arms[before])));
        }
    }
    let why = "mean of the open connections, taken at each accept, at the highest rate";
    Ok(Finding::all(told.join(", "), why, &asked))
}

/// More connections dropped than this share of requests is dropping.
const DROPS: f64 = 0.001;
/// So large a part of the cells has to be sure.
const SURE: f64 = 0.75;

/// The kernel drops connections exactly when replies fall behind requests.
pub(super) fn h11(run: &Evidence<'_>) -> Found<Finding> {
    let mut cells = Vec::new();
    for arm in [preset(run, "acceptinf")?, preset(run, "accept25")?] {
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
    let enough = crate::stats::count(agree) >= SURE * crate::stats::count(all);
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
