//! The load generator: one engine, three models, named as the literature names them.
//!
//! Closed (N connections that wait), open (requests arrive on their own), partly open (sessions
//! arrive on their own, and wait inside). Every request has two clocks: when it was due, and when
//! it was tried. What the generator cannot do in time is part of the result ([`Stamp`]). See
//! `docs/load.md`.

pub mod arrivals;
mod beside;
pub mod cli;
mod closed;
mod coming;
mod core;
mod crew;
mod exchange;
mod expect;
mod fate;
mod hdr;
mod head;
mod health;
mod held;
mod idle;
mod judge;
mod live;
mod offer;
mod open;
mod options;
mod outcome;
mod plan;
mod play;
mod reply;
mod report;
mod script;
mod sessions;
mod slo;
mod stamp;
mod tally;
mod timers;

pub use arrivals::{Arrivals, Rate};
pub use crew::{Watch, perform};
pub use fate::{Fate, Fates};
pub use hdr::{Hdr, Percentile, Spectrum, Summary};
pub use health::Kernel;
pub use held::PERIOD_NS;
pub use idle::Idled;
pub use offer::Taken;
pub use options::{LoadOptions, Model, Url, Verify, parse_alter};
pub use outcome::{Outcome, Ruling};
pub use plan::Plan;
pub use slo::{Judged, Level, Slo, Verdict, parse_time};
pub use stamp::{Reason, Stamp};
pub use tally::{Class, Health, Lines, Phase, Phases, Row, Seen, Sessions};
