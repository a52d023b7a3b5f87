//! The ways to execute operations. An architecture is one of these plus a topology.
pub mod ledger;
pub mod perform;
pub mod step;
