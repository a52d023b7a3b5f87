//! Connections under the simulator: whole schedules, and a sealed connection alone.

mod http2;
mod schedules;
mod sealed;
