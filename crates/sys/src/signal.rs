//! Signals, as something to read.
