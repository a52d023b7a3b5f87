//! The processors that this process may run on.
