//! Connections under the simulator: whole schedules, and a sealed connection alone.

mod schedules;
mod sealed;
