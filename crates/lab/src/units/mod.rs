//! Numbers and times as people and files have them.

pub(crate) mod date;
