//! The ways to execute operations. An architecture is one of these plus a topology.
pub mod ledger;
pub mod perform;
pub mod serve;
pub mod step;

use regatta_origin::{Cx, Link};
use regatta_sys::StaticFile;

/// A connection over real files.
pub type FileLink = Link<StaticFile>;
/// What a connection over real files may consult.
pub type FileCx<'a> = Cx<'a, StaticFile>;
