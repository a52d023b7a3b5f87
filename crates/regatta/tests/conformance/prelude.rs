//! Names that most modules of cases use.

pub(crate) use crate::client::{
    Answer, Client, Field, answer_all, bodies_are, burst, get, get_all, get_sizes, request,
    send_all, send_numbered,
};
pub(crate) use crate::harness::{
    Launch, PATIENCE, Said, Server, Variant, alive, children, ends_with, eventually, halt, kill,
    run, serve, serve_root, serve_with, soon, start, start_with,
};
pub(crate) use crate::site::{SIZES, SPARSE_BYTES, Site, common, pattern, sized};
pub(crate) use rustix::process::Signal;
pub(crate) use std::time::{Duration, Instant};
