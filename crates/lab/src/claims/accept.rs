//! The claims of [H] on accept strategies (systems.md §2.1). Rates are multiples of S, the highest
//! closed-loop rate of `acceptinf`.

use super::evidence::{Evidence, Found, show};
use super::{Finding, Verdict};
use crate::stats::Effect;

/// Accept1 saturates below AcceptInf.
pub(super) fn h1(run: &Evidence<'_>) -> Found<Finding> {
    let effect = run.peak_ratio("accept1", "acceptinf")?;
    let below = effect.interval.is_some_and(|interval| interval.high < 1.0);
    let cell = run.top("accept1")?;
    let events = run.share(&cell, "wait_events", "wait_calls")?;
    let accepts = run.share(&cell, "accept_ok", "wait_calls")?;
    let holds = effect.ratio < 0.9 && below;
    Ok(Finding::surely(
        holds,
        &effect,
        0.9,
        format!("peak ratio {}", show(&effect)),
        format!(
            "at its highest rate accept1 takes {accepts:.2} connections and finds {events:.1} \
             ready descriptors for each select"
        ),
    ))
}

/// The share of a single process's busy time that is inside `select`, by its own clock: time inside
/// the waits, less the time in which there was nothing to do.
fn select_share(run: &Evidence<'_>, multiple: f64) -> Found<f64> {
    let cell = run.at("accept1", multiple)?;
    let window_s = run.metric(&cell, "window_s")?;
    let busy_s = (run.metric(&cell, "server_cpu")? / run.left()).min(1.0) * window_s;
    let inside_s = run.counter(&cell, "wait_ns")? / 1e9;
    if busy_s <= 0.0 {
        return Err("processor time of accept1".to_owned());
    }
    Ok(((inside_s - (window_s - busy_s)) / busy_s).clamp(0.0, 1.0))
}

/// After saturation more and more of Accept1's time is select's.
pub(super) fn h2(run: &Evidence<'_>) -> Found<Finding> {
    let (before, after) = (select_share(run, 0.7)?, select_share(run, 2.4)?);
    let cell = run.at("accept1", 2.4)?;
    let accepts = run.share(&cell, "accept_ok", "wait_calls")?;
    let asked = run.share(&cell, "wait_interest_sum", "wait_calls")?;
    let ours = format!(
        "select has {:.0} % of the busy time at 0.7 S and {:.0} % at 2.4 S",
        100.0 * before,
        100.0 * after
    );
    let why = format!(
        "by the server's clock, idle time taken out; at 2.4 S each select asks about {asked:.1} \
         descriptors and brings {accepts:.2} connections"
    );
    Ok(Finding::of(after >= 2.0 * before && after > 0.1, ours, why))
}

/// CM collapses under overload.
pub(super) fn h3(run: &Evidence<'_>) -> Found<Finding> {
    let (cm, inf) = (run.at("cm", 1.67)?, run.at("acceptinf", 1.67)?);
    let effect = run.ratio(&cm, &inf, "good_per_s")?;
    let vain = run.share(&cm, "recv_would_block", "recv_calls")?;
    let open = run.share(&cm, "connections_open_at_accept_sum", "accept_ok")?;
    Ok(Finding::surely(
        effect.ratio < 0.5,
        &effect,
        0.5,
        format!("throughput ratio {} at 1.67 S", show(&effect)),
        format!("{:.0} % of cm's reads find nothing; {open:.0} connections open", 100.0 * vain),
    ))
}

/// The collapse coincides with reads in vain.
pub(super) fn h4(run: &Evidence<'_>) -> Found<Finding> {
    let share = |multiple| {
        let cell = run.at("cm", multiple)?;
        run.share(&cell, "recv_would_block", "recv_calls")
    };
    let (before, after) = (share(1.43)?, share(1.67)?);
    Ok(Finding::of(
        after > before && after > 0.15,
        format!("{:.1} % at 1.43 S, {:.1} % at 1.67 S", 100.0 * before, 100.0 * after),
        "share of cm's reads that find nothing",
    ))
}

/// Full-read alone is harmless, but not together with accept-on-close.
pub(super) fn h5(run: &Evidence<'_>) -> Found<Finding> {
    let full = run.peak_ratio("eager+full", "eager")?;
    let both = run.peak_ratio("cm", "eager+close")?;
    let harmless = full.interval.is_some_and(|i| i.low > 0.97 && i.high < 1.03);
    let (cm, close) = (run.top("cm")?, run.top("eager+close")?);
    let past = run.ratio(&cm, &close, "good_per_s")?;
    let differs = past.interval.is_some_and(|interval| !interval.contains(1.0));
    let ours = format!(
        "eager+full to eager {} at the peak; cm to eager+close {} at the peak, {} at the highest \
         rate",
        show(&full),
        show(&both),
        show(&past)
    );
    if full.detectable > 0.06 {
        return Ok(Finding {
            ours,
            verdict: Verdict::CannotTell,
            why: format!(
                "so few blocks find differences of {:.0} %, and 3 % is asked for",
                100.0 * full.detectable
            ),
        });
    }
    Ok(Finding::of(harmless && differs, ours, "equal within 3 % alone, different together"))
}

/// AcceptInf peaks higher, Eager falls less: the curves cross.
pub(super) fn h6(run: &Evidence<'_>) -> Found<Finding> {
    let peak = run.peak_ratio("eager", "acceptinf")?;
    let mut crossing = None;
    for (multiple, eager) in run.rates("eager")? {
        let Ok(inf) = run.at("acceptinf", multiple) else { continue };
        let Ok(effect) = run.ratio(&eager, &inf, "good_per_s") else { continue };
        if multiple > 1.0 && effect.interval.is_some_and(|interval| interval.low > 1.0) {
            crossing = crossing.or(Some((multiple, effect)));
        }
    }
    let ours = match &crossing {
        Some((multiple, effect)) => {
            format!("eager ahead from {multiple} S on: {}; peaks {}", show(effect), show(&peak))
        }
        None => format!("eager is nowhere surely ahead; peaks {}", show(&peak)),
    };
    let why = "eager's throughput over acceptinf's at each rate above S";
    let not_higher = peak.interval.is_some_and(|interval| interval.low <= 1.0);
    Ok(Finding::of(crossing.is_some() && not_higher, ours, why))
}

/// The accept counts that [H] tried, as arms.
const LIMITED: [(&str, u32); 6] = [
    ("accept10", 10),
    ("accept25", 25),
    ("accept50", 50),
    ("accept75", 75),
    ("accept100", 100),
    ("accept125", 125),
];

/// An accept count in the middle is best past saturation.
pub(super) fn h7(run: &Evidence<'_>) -> Found<Finding> {
    let (inf, eager) = (run.at("acceptinf", 1.2)?, run.at("eager", 1.2)?);
    let mut best: Option<(u32, Effect, String)> = None;
    for (arm, limit) in LIMITED {
        let Ok(cell) = run.at(arm, 1.2) else { continue };
        let (over_inf, over_eager) =
            (run.ratio(&cell, &inf, "good_per_s")?, run.ratio(&cell, &eager, "good_per_s")?);
        let worst = if over_inf.ratio < over_eager.ratio { over_inf } else { over_eager };
        if best.as_ref().is_none_or(|(_, most, _)| worst.ratio > most.ratio) {
            let ours = format!(
                "best limit {limit}: {} to acceptinf, {} to eager at 1.2 S",
                show(&over_inf),
                show(&over_eager)
            );
            best = Some((limit, worst, ours));
        }
    }
    let (limit, effect, ours) = best.ok_or("valid trials with an accept limit near 1.2 S")?;
    let why = "an interior optimum, and 5 % better than no limit and than eager";
    let holds = effect.ratio >= 1.05 && (10..=75).contains(&limit);
    Ok(Finding::surely(holds, &effect, 1.05, ours, why))
}

/// Accept-on-close accepts with success, less than one at a time.
pub(super) fn h8(run: &Evidence<'_>) -> Found<Finding> {
    let (close, inf) = (run.at("eager+close", 0.95)?, run.at("acceptinf", 0.95)?);
    let success = |cell| run.share(cell, "accept_ok", "accept_calls");
    let (close_success, inf_success) = (success(&close)?, success(&inf)?);
    let on_close = run.share(&close, "accept_on_close", "accept_calls")?;
    Ok(Finding::of(
        close_success > inf_success,
        format!(
            "{:.0} % of eager+close's accepts succeed, {:.0} % of acceptinf's",
            100.0 * close_success,
            100.0 * inf_success
        ),
        format!("{:.0} % of eager+close's accept calls follow a close", 100.0 * on_close),
    ))
}

/// Open connections in overload: Accept1 < Accept25 < AcceptInf < CM.
pub(super) fn h9(run: &Evidence<'_>) -> Found<Finding> {
    let mut open = Vec::new();
    for arm in ["accept1", "accept25", "acceptinf", "cm"] {
        let cell = run.top(arm)?;
        open.push((arm, run.share(&cell, "connections_open_at_accept_sum", "accept_ok")?));
    }
    let ordered = open.windows(2).all(|two| two[0].1 < two[1].1);
    let ours: Vec<String> = open.iter().map(|(arm, open)| format!("{arm} {open:.0}")).collect();
    let why = "mean of the open connections, taken at each accept, at the highest rate";
    Ok(Finding::of(ordered, ours.join(", "), why))
}

/// Accept25's gain costs no mean response time.
pub(super) fn h10(run: &Evidence<'_>) -> Found<Finding> {
    let (limited, inf) = (run.at("accept25", 1.2)?, run.at("acceptinf", 1.2)?);
    let effect = run.ratio(&limited, &inf, "mean_ms")?;
    let above = effect.interval.is_some_and(|interval| interval.low > 1.1);
    let ours = format!("mean time ratio {} at 1.2 S", show(&effect));
    let why = "accept25's mean response time over acceptinf's, of the answered";
    Ok(Finding::of(!above, ours, why))
}

/// The kernel drops connections exactly when replies fall behind requests.
pub(super) fn h11(run: &Evidence<'_>) -> Found<Finding> {
    let (mut agree, mut all, mut most) = (0, 0, 0.0_f64);
    for arm in ["acceptinf", "accept25"] {
        for (_, cell) in run.rates(arm)? {
            let drops = run.metric(&cell, "listen_overflows_per_s")?;
            let behind = run.metric(&cell, "good_share")? < 0.98;
            all += 1;
            agree += u32::from((drops > 0.0) == behind);
            most = most.max(drops);
        }
    }
    let ours = format!("they go together in {agree} of {all} cells; {most:.0} a second at most");
    let why = "overflows of the listener's queue, and less than 98 % answered";
    Ok(Finding::of(agree == all && most > 0.0, ours, why))
}
