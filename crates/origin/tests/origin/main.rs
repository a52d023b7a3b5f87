//! Table tests of whole connections: what a request on a set of files is answered with.
mod answers;
mod caching;
mod closing;
mod framing;
mod ranges;
mod rig;
