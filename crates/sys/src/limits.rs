//! Limits of the process.
