//! Prices of operations, and the processor time of a reply as counts times prices.
//!
//! A price comes from a paper ([`papers`]) or from a micro-loop on this machine ([`measure`]).
//! Counts come from the trials of a run. Peaks follow from processor time and disk time by a closed
//! network. So a claim has a verdict on the prices of its paper ([`priced`]). That is no
//! measurement, and the two are never mixed.

mod arms;
mod check;
mod counts;
mod list;
mod micro;
mod tier;

pub use check::{CheckedArm, CheckedPeak, PriceCheck};
pub use counts::ReplyCounts;
pub use list::{Price, PriceBasis, PriceDraw, PriceList, PriceUnit, papers};
pub use micro::measure;
pub use tier::{PricedClaim, priced};

use crate::stats::order_statistic_interval;

/// 95 % interval of the median of some values; below six of them, all.
fn interval(values: &[f64]) -> [f64; 2] {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let found = order_statistic_interval(values, 0.5, 0.95);
    found.map_or([lowest, highest], |found| [found.low, found.high])
}
