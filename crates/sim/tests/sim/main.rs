//! Connections under the simulator: whole schedules, and a sealed connection alone.

mod exchanges;
mod schedules;
mod sealed;
