//! Connections of a worker: how they are accepted, kept, timed and served.
pub mod accept;
pub mod beats;
pub mod budget;
pub mod chain;
pub mod clients;
pub mod idle;
pub mod maps;
pub mod serve;
pub mod slab;
pub mod step;
pub mod units;
pub mod wheel;
pub mod worker;
