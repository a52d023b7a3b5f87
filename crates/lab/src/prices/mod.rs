//! Prices of operations, and the processor time of a reply as counts times prices.
//!
//! A price comes from a paper ([`papers`]), or is measured on this machine. Counts come from the
//! trials of a run.

mod counts;
mod demand;
mod list;

pub use counts::{COUNTS, ReplyCounts};
pub use demand::PriceDraw;
pub use list::{Price, PriceBasis, PriceError, PriceList, PriceUnit, papers};
