//! Table tests of whole connections: what a request on a set of files is answered with.
#![allow(clippy::unwrap_used, clippy::type_complexity, reason = "tests are tables, and may panic")]

mod answers;
mod beginning;
mod caching;
mod changing;
mod closing;
mod deriving;
mod describing;
mod exchanging;
mod explaining;
mod framing;
mod hosting;
mod ranges;
mod rig;
mod ruling;
mod securing;
mod soup;
