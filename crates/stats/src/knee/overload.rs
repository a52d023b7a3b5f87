//! Past the knee: how much is still served there, and how long it takes to come back.

use serde::{Deserialize, Serialize};

/// A load that passes through calm, overload and calm again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overload {
    /// The knee, requests per second.
    pub knee: f64,
    /// The overload as a multiple of the knee, such as 2.
    pub times: f64,
    /// Length of each of the three stretches, seconds.
    pub stretch_s: f64,
}

/// The calm rate as a share of the knee.
const CALM: f64 = 0.7;
/// Goodput that is as much as offered, as a share of it.
const KEEPS_UP: f64 = 0.95;
/// Seconds in a row that must keep up before it has recovered.
const SETTLED_S: usize = 3;

impl Overload {
    /// The rates as `regatta load --rate` takes them: `R@S,R@S,R@S`.
    pub fn rates(&self) -> String {
        let calm = self.calm();
        let (high, s) = (self.knee * self.times, self.stretch_s);
        format!("{calm:.1}@{s},{high:.1}@{s},{calm:.1}@{s}")
    }

    /// The calm rate, requests per second.
    pub fn calm(&self) -> f64 {
        self.knee * CALM
    }
}

/// Seconds from the end of the overload until goodput keeps up again for three seconds. `good` are
/// the good answers of each second after the overload, `rate` what is offered then. None if that
/// did not happen within the series.
pub fn recovery_s(good: &[f64], rate: f64) -> Option<usize> {
    good.windows(SETTLED_S).position(|few| few.iter().all(|one| *one >= KEEPS_UP * rate))
}
