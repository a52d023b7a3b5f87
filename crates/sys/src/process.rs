//! Workers as processes.
