//! Connections of a worker: how they are accepted, kept, timed and served.
//!
//! * [`worker`] is the center: the state and duties that every driver has in each unit.
//! * [`accept`] decides when to accept, [`wheel`] keeps deadlines, [`idle`] selects what to close.
//! * [`step`] serves without blocking, within a [`budget`]; [`serve`] blocks.
//! * [`slab`] and [`chain`] are containers; [`maps`] keeps mapped chunks of files.
//! * [`units`] starts threads, and [`beats`] watches that they return from their calls.
//! * [`clients`] counts the connections of each client address in all processes.
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
