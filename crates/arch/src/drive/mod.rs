//! Parts shared by all ways to execute operations: system calls, turns, and the ledger of stalls.
pub mod film;
pub mod ledger;
pub mod perform;

use regatta_metrics::TurnEnd;
use regatta_op::{CloseReason, OpKind};
use regatta_origin::{Cx, Link};
use regatta_sys::{StaticFile, wait::Interest};

/// A connection over real files.
pub type FileLink = Link<StaticFile>;
/// Context that a connection over real files may consult.
pub type FileCx<'a> = Cx<'a, StaticFile>;

/// End of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Come back when the socket is ready for this, or with a completion from the disk.
    Wait(Interest),
    /// Come back with a completion from the disk: there is nothing else to wait for.
    Parked,
    /// An operation of this kind, or its completion, is for another stage: `Io::take_left` has it.
    Left(OpKind),
    /// The budget is spent: come back after the others' turns.
    Again,
    /// The conversation is over.
    Closed(CloseReason),
}

impl Turn {
    /// Reason for the end, as a film shows it. `on_disk`: an operation is pending there.
    pub(crate) const fn end(self, on_disk: bool) -> TurnEnd {
        match self {
            // Protocols with streams also receive while the disk is at work.
            Self::Wait(Interest { write: false, .. }) if on_disk => TurnEnd::Disk,
            Self::Wait(_) => TurnEnd::Client,
            Self::Parked if on_disk => TurnEnd::Disk,
            // A user thread lets others go first.
            Self::Parked => TurnEnd::Turn,
            Self::Left(_) => TurnEnd::Stage,
            Self::Again => TurnEnd::Turn,
            Self::Closed(_) => TurnEnd::Close,
        }
    }
}
