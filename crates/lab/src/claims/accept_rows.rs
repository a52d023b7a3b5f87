//! The claims on how connections are accepted and found out about, against worlds in which they are
//! true and in which not.

use super::rows::{Numbers, but, check, check_text, found, good, nothing};
use super::*;
use crate::record::Cell;
use Verdict::{CannotTell as Cannot, Fails, Holds};

#[test]
fn dispatch() {
    check(
        "hpl01-fig13",
        &[
            ("H-12", Fails, nothing),
            ("H-12", Holds, |arm, rate, _| {
                let keeps = if arm == "epoll-25" { 1.2 } else { 1.0 };
                vec![("good_per_s", 800.0 * rate.min(1.0) * keeps)]
            }),
        ],
    );
    /// Accept1 costs the one poll server much and the others nothing.
    fn confounded(arm: &str, rate: f64, _: &Cell) -> Numbers {
        let keeps = if arm == "sped-1" { 0.6 } else { 1.0 };
        vec![("good_per_s", 1_000.0 * rate.min(1.0) * keeps)]
    }
    check(
        "accept-strategies",
        &[
            ("E-26", Fails, nothing),
            ("E-26", Holds, confounded),
            ("H-13", Fails, nothing),
            // The same is best everywhere, or as good as the best.
            ("H-13", Fails, confounded),
            ("H-13", Holds, |arm, rate, _| {
                let best = if arm.starts_with("sped") { "-25" } else { "-inf" };
                let keeps = if arm.ends_with(best) { 1.0 } else { 0.85 };
                vec![("good_per_s", 1_000.0 * rate.min(1.0) * keeps)]
            }),
        ],
    );
    fn costs(arm: &str, epoll: f64) -> Numbers {
        vec![("cpu_us_per_reply", if arm == "epoll" { epoll } else { 100.0 })]
    }
    check(
        "pollers",
        &[
            ("E-27", Holds, |arm, _, _| costs(arm, 80.0)),
            ("E-27", Cannot, nothing),
            ("E-27", Fails, |arm, _, _| costs(arm, 120.0)),
            ("E-27", Cannot, |arm, _, _| but(costs(arm, 80.0), &[("wait_interest_sum", 10_000.0)])),
            ("E-27", Fails, |arm, rate, _| {
                let peak = if arm == "epoll" { 1.3 } else { 1.0 };
                but(costs(arm, 80.0), &good(rate, peak))
            }),
            // It costs less, and is not as good.
            ("E-27", Fails, |arm, rate, _| {
                let peak = if arm == "epoll" { 0.7 } else { 1.0 };
                but(costs(arm, 90.0), &good(rate, peak))
            }),
        ],
    );
}

#[test]
fn accepts() {
    /// At 0.7 S a tenth of the time is select's beside the idle time, at 2.4 S half.
    fn selects(rate: f64) -> Numbers {
        let (used, inside) = if rate < 1.0 { (0.175, 0.37) } else { (0.25, 0.5) };
        vec![("server_cpu", used), ("wait_ns", 1e9 * inside)]
    }
    /// Eager is lower, and all else falls beyond a rate.
    fn crossing(arm: &str, rate: f64, from: f64) -> Numbers {
        let past = (rate - from).max(0.0);
        let good = if arm == "eager" { rate.min(0.9) } else { rate.min(1.0) - past };
        vec![("good_per_s", 1_000.0 * good)]
    }
    /// So many calls of accept for 1,000 that succeed on a close.
    fn on_close(arm: &str, calls: f64) -> Numbers {
        let close = arm == "eager+close";
        let (calls, runs) = if close { (calls, 1_200.0) } else { (1_140.0, 143.0) };
        vec![("accept_calls", calls), ("accept_runs", runs)]
    }
    check(
        "hpl01",
        &[
            ("H-2", Fails, nothing),
            ("H-2", Holds, |_, rate, _| selects(rate)),
            // Select has more of the time, and requests have as much as before.
            ("H-2", Fails, |_, rate, _| {
                but(selects(rate), &[("replies", if rate < 1.0 { 700.0 } else { 1_100.0 })])
            }),
            ("H-1", Holds, |arm, rate, _| good(rate, if arm == "accept1" { 0.74 } else { 1.0 })),
            ("H-1", Fails, nothing),
            ("H-1", Fails, |arm, rate, _| good(rate, if arm == "accept1" { 0.2 } else { 1.0 })),
            // It crosses, but too late.
            ("H-6", Fails, |arm, rate, _| crossing(arm, rate, 1.3)),
            ("H-6", Holds, |arm, rate, _| crossing(arm, rate, 1.0)),
            // As many reads find nothing where nothing collapses.
            ("H-4", Cannot, |_, rate, _| {
                vec![("recv_would_block", if rate < 1.5 { 450.0 } else { 470.0 })]
            }),
            // One limit is behind, and others may not be.
            ("H-7", Cannot, |arm, rate, _| {
                good(rate, if arm == "accept25" && rate > 1.1 { 0.72 } else { 1.0 })
            }),
            ("H-8", Fails, nothing),
            ("H-8", Holds, |arm, _, _| on_close(arm, 1_075.0)),
            // Less than one at a time, and every other one finds nothing.
            ("H-8", Fails, |arm, _, _| on_close(arm, 2_000.0)),
        ],
    );
}

#[test]
fn accepts_of_several_kinds() {
    check(
        "hpl01-limits",
        &[
            ("H-7", Fails, nothing),
            // All but one fall past saturation.
            ("H-7", Holds, |arm, rate, _| {
                good(rate, if arm == "accept50" || rate < 1.1 { 1.0 } else { 0.85 })
            }),
        ],
    );
    /// What some keep at the highest rate.
    fn past(rate: f64, keeps: f64) -> Numbers {
        good(rate, if rate > 2.0 { keeps } else { 1.0 })
    }
    let longer = found("hpl01").replace("\nblocks = 5\n", "\nblocks = 20\n");
    check_text(
        &longer,
        &[
            ("H-5", Fails, nothing),
            ("H-5", Holds, |arm, rate, _| past(rate, if arm == "cm" { 0.6 } else { 1.0 })),
            // Full-read does the same harm alone.
            ("H-5", Fails, |arm, rate, _| {
                past(rate, if ["cm", "eager+full"].contains(&arm) { 0.6 } else { 1.0 })
            }),
        ],
    );
}
