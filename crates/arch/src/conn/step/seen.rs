//! Statistics of the turns of this thread.
use super::{ReadySlot, left};
use regatta_op::Now;
use std::cell::Cell;

thread_local! {
    pub(crate) static PENDING_MAX: Cell<usize> = const { Cell::new(0) };
    pub(crate) static BOTH: Cell<u64> = const { Cell::new(0) };
    static BESIDE_SEND: Cell<u64> = const { Cell::new(0) };
}

/// Forgets the turns of earlier tests in this thread.
pub(crate) fn reset() {
    PENDING_MAX.with(|most| most.set(0));
    BOTH.with(|turns| turns.set(0));
    BESIDE_SEND.with(|ops| ops.set(0));
}

/// Notes that an operation of the disk, or a `Recv`, is performed.
pub(super) fn note_beside_send(slot: &ReadySlot, now: Now) {
    let waits = u64::from(left::send_waits(slot, now));
    BESIDE_SEND.with(|ops| ops.set(ops.get() + waits));
}

/// The most operations that the disk had of a connection at once.
pub(crate) fn pending_max() -> usize {
    PENDING_MAX.with(Cell::get)
}

/// Operations of the disk, and of `Recv`, that were performed while a `Send` waited.
pub(crate) fn beside_send() -> u64 {
    BESIDE_SEND.with(Cell::get)
}

/// Turns after which the socket was watched for both directions.
pub(crate) fn both_directions() -> u64 {
    BOTH.with(Cell::get)
}
