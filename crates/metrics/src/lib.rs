//! Counters and histograms in shared memory, readable without cooperation.
//!
//! Everything lies in one slice of words, the arena: a header, the control words, and one slot for
//! each worker. The master makes the arena before anything else and hands a [`Slot`] to each
//! worker, which writes through a [`Tally`]. A reader maps the same words read-only and gets views
//! ([`ArenaView`], [`SlotView`], [`ControlView`]), which have nothing that stores.
//!
//! Sums over slots are no consistent cut. But each counter only ever grows, and that is enough: a
//! rate is a difference of two readings, and a gauge is a difference of two counters.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod arena;
mod counter;
mod film;
mod histogram;
mod markdown;
mod old;
mod openmetrics;
mod slot;
mod snapshot;
mod tally;
#[cfg(test)]
mod tests;

pub use arena::{Arena, ArenaError, ArenaView, Attendant, Control, ControlView, Phase, VERSION};
pub use counter::{Counter, Gauge, Merge};
pub use film::{
    Film, FilmEvent, FilmReader, FilmRecord, FilmRing, FilmSubject, FilmThread, TurnEnd,
    operation_name,
};
pub use histogram::Histogram;
pub use markdown::markdown;
pub use old::OldArena;
pub use openmetrics::{Form, Scrape, WorkerScrape, openmetrics};
pub use slot::{Dial, SLOT_WORDS, Slot, SlotView, ThreadBeat, Totals};
pub use snapshot::{BUCKETS, Bounds, SUB_BUCKETS, Snapshot, VALUE_MAX};
pub use tally::Tally;
