//! The load generator: one engine, three models, named as the literature names them.
//!
//! Closed (N connections that wait), open (requests arrive on their own), partly open (sessions
//! arrive on their own, and wait inside). Every request has two clocks: when it was due, and when
//! it was tried. What the generator cannot do in time is part of the result ([`Stamp`]). See
//! `docs/load.md`.

pub mod arrivals;
mod asking;
pub mod cli;
mod core;
mod exchange;
mod expect;
mod fate;
mod http2;
mod input;
mod judge;
mod kernel;
pub mod merge;
mod models;
mod options;
mod outcome;
mod output;
mod page;
mod part;
mod plan;
mod play;
mod report;
mod sealed;
mod secure;
mod shard;
mod slo;
mod streams;
mod tally;
mod url;

pub use arrivals::{Arrivals, Rate};
pub use asking::{ProtocolOptions, RequestOptions};
pub use cli::{Watch, perform};
pub use fate::{Fate, Fates};
pub use kernel::Kernel;
pub use options::{LoadOptions, Model, OutputOptions, Taken, Verify, parse_alter};
pub use outcome::{Outcome, Reason, Ruling, Stamp};
pub use part::{Part, Shards};
pub use plan::Plan;
pub use play::{Idled, PERIOD_NS, extra_ns, slice_ns};
pub use secure::TlsOptions;
pub use shard::Shard;
pub use slo::{Judged, Level, Slo, Verdict, parse_time};
pub use tally::{
    Class, Handshakes, Hdr, Health, Lines, Percentile, Phase, Phases, Row, Seen, Sessions,
    Spectrum, Summary,
};
pub use url::{Resolved, RouteOptions, Url};
