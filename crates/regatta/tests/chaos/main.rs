//! The conformance cases that do not depend on time, run while the system misbehaves.
//!
//! Short reads and writes, interruptions, calls that find nothing to do, a full table of
//! descriptors, slow opens. Test builds of the program inject them as `REGATTA_INJECT` says, with
//! the keys of `regatta_sys::hook::Plan`.
#![expect(dead_code, reason = "only some of the cases of the other suite are run here")]

#[macro_use]
#[path = "../conformance/topics.rs"]
mod topics;

#[path = "../conformance/bodies.rs"]
mod bodies;
#[path = "../conformance/client.rs"]
mod client;
#[path = "../conformance/closing.rs"]
mod closing;
#[path = "../conformance/conditionals.rs"]
mod conditionals;
mod faults;
#[path = "../conformance/framing.rs"]
mod framing;
#[path = "../conformance/harness.rs"]
mod harness;
#[path = "../conformance/load.rs"]
mod load;
mod matrix;
#[path = "../conformance/negotiation.rs"]
mod negotiation;
#[path = "../conformance/pipelining.rs"]
mod pipelining;
#[path = "../conformance/ranges.rs"]
mod ranges;
#[path = "../conformance/shared.rs"]
mod shared;
#[path = "../conformance/site.rs"]
mod site;
#[path = "../conformance/structure.rs"]
mod structure;
mod variants;
