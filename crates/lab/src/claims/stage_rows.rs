//! The claim on admission control of stages.

use super::rows::{Numbers, but, check, nothing};
use super::*;
use Verdict::{CannotTell as Cannot, Fails, Holds};

#[test]
fn admission() {
    /// The 90th percentile with admission control, and what is answered without.
    fn p90(arm: &str, with: f64, without: f64) -> Numbers {
        let (p90_ms, good) = if arm == "seda-open" { (450.0, without) } else { (with, 0.5) };
        let all = [("answered_p90_ms", p90_ms), ("good_share", good), ("requests", 1_000.0)];
        [&all[..], &[("stage_refused", 480.0)]].concat()
    }
    check(
        "seda-overload",
        &[
            ("X-9", Holds, |arm, _, _| p90(arm, 300.0, 0.5)),
            // Without it all are answered in time: there is nothing to control.
            ("X-9", Cannot, |arm, _, _| p90(arm, 300.0, 1.0)),
            ("X-9", Cannot, |arm, _, _| p90(arm, 600.0, 1.0)),
            ("X-9", Fails, |arm, _, _| p90(arm, 600.0, 0.5)),
            // It refuses far more than it has to.
            ("X-9", Fails, |arm, _, _| p90(arm, 150.0, 0.5)),
            ("X-9", Cannot, |arm, _, _| p90(arm, 360.0, 0.5)),
            // Without it nobody is answered in time.
            ("X-9", Holds, |arm, _, _| match arm {
                "seda-open" => vec![("good_share", 0.0), ("requests", 1_000.0)],
                _ => p90(arm, 300.0, 0.5),
            }),
            // Nearly nobody is, and those at once.
            ("X-9", Holds, |arm, _, _| match arm {
                "seda-open" => but(p90(arm, 300.0, 0.03), &[("answered_p90_ms", 5.0)]),
                _ => p90(arm, 300.0, 0.5),
            }),
            ("X-9", Cannot, nothing),
        ],
    );
}
