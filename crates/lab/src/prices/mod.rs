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
