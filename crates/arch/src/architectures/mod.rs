//! Drivers: ways to run connections, each named after the architecture that uses it first.
pub mod amped;
pub mod auto;
pub mod azzedin;
pub mod cohort;
pub mod coloured;
pub mod event;
pub mod flash;
pub mod hybrid;
pub mod hybrid_adapt;
pub mod knot;
pub mod laio;
pub mod mp;
pub mod mt;
pub(crate) mod pipeline;
pub mod readahead;
pub mod seda;
pub mod watpipe;
