//! The claim that the best accept strategy depends on the architecture.

use super::rows::{Numbers, check, nothing};
use super::*;
use crate::record::Cell;
use Verdict::{Fails, Holds};

#[test]
fn dispatch() {
    /// Accept1 costs the one poll server much and the others nothing.
    fn confounded(arm: &str, rate: f64, _: &Cell) -> Numbers {
        let keeps = if arm == "sped-1" { 0.6 } else { 1.0 };
        vec![("good_per_s", 1_000.0 * rate.min(1.0) * keeps)]
    }
    check(
        "accept-strategies",
        &[
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
}
