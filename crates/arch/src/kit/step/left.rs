//! What a turn leaves to another stage, and how the turn of that stage begins with it.
use super::{Io, ReadySlot, on_disk, park};
use crate::drive::{FileCx, Turn};
use regatta_op::{Done, Fault, Now, Op, OpKind, Outbox, Ticket};
use regatta_origin::Protocol as _;
use regatta_sys::{Read, StaticFile};

/// Buffers that are kept for bytes that are received and not parsed yet.
const BUFFERS_MAX: usize = 64;

/// What a loop leaves to other stages: operations, and completions. Nothing for an event loop.
///
/// An operation is left when it could be performed: `Recv` where the socket may have something to
/// read. Until then the turn ends as ever, with [`Turn::Wait`]. While another operation of the
/// connection is out beside it, nothing is left: both are performed where both can be waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaves(u16);

impl Leaves {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Bytes are received here, and parsed by another stage.
    pub const PARSE: Self = Self(1 << 8);
    /// Files are read here, and what was read goes to another stage.
    pub const READ_RESULT: Self = Self(1 << 9);

    /// These operations. Who leaves `Recv` leaves the completion of a `Send` too, because it may
    /// parse the next request. `Shut` and `Close` are never left.
    #[must_use]
    pub const fn of(kinds: &[OpKind]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < kinds.len() {
            assert!(!matches!(kinds[at], OpKind::Shut | OpKind::Close), "these wait for nobody");
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// What either leaves.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if this operation is left.
    #[must_use]
    #[inline]
    pub const fn has(self, kind: OpKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// True if all is left that the other leaves.
    #[must_use]
    #[inline]
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if anything is left.
    #[must_use]
    #[inline]
    pub const fn any(self) -> bool {
        self.0 != 0
    }
}

/// What a turn has left to another stage. It goes with the connection, by value.
#[derive(Debug)]
pub enum Left {
    /// An operation that was offered, and is not performed.
    Op(Op<StaticFile>),
    /// What was received, and is not parsed.
    Received(Result<Vec<u8>, Fault>),
    /// The whole of a `Send` was sent, so many bytes of it last: that is not completed.
    Sent(Outbox<StaticFile>, u64),
    /// What was read from a file: that is not completed.
    Read(Ticket, Read),
}

impl Io<'_> {
    /// The next turn begins with what a turn of another stage has left.
    pub fn resume(&mut self, left: Left) {
        debug_assert!(self.first.is_none(), "one turn for each");
        self.first = Some(left);
    }

    /// What the turn has left, after [`Turn::Left`]; `None` for a `Recv`, which the connection
    /// itself keeps.
    pub const fn take_left(&mut self) -> Option<Left> {
        self.left.take()
    }

    /// Keeps a copy of bytes for another stage.
    pub(super) fn leave_received(
        buffers: &mut Vec<Vec<u8>>,
        received: Result<&[u8], Fault>,
    ) -> Left {
        Left::Received(received.map(|bytes| {
            let mut copy = buffers.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(bytes);
            copy
        }))
    }
}

/// True if no operation of the connection is out but the one that is looked at.
const fn is_alone(slot: &ReadySlot) -> bool {
    slot.drive.send.is_none() && slot.drive.prefetching.is_none() && slot.pending == 0
}

/// True if the `Recv` that is out is left, now that there may be something to read.
pub(super) const fn leaves_recv(slot: &ReadySlot, leaves: Leaves) -> bool {
    leaves.has(OpKind::Recv) && is_alone(slot)
}

/// True if bytes that were received are left to be parsed.
pub(super) const fn leaves_received(slot: &ReadySlot, leaves: Leaves) -> bool {
    leaves.includes(Leaves::PARSE) && is_alone(slot)
}

/// True if an operation is left that has been offered.
pub(super) fn leaves(slot: &ReadySlot, op: Option<&Op<StaticFile>>, leaves: Leaves) -> bool {
    let kind = op.map(Op::kind).filter(|kind| *kind != OpKind::Recv);
    kind.is_some_and(|kind| leaves.has(kind)) && !slot.drive.recv && is_alone(slot)
}

/// True if the completion of a `Send` is left: all has gone, and the connection goes on.
pub(super) fn leaves_sent(slot: &ReadySlot, outbox: &Outbox<StaticFile>, leaves: Leaves) -> bool {
    let is_over = outbox.is_empty() && !outbox.ends();
    is_over && leaves.has(OpKind::Recv) && !slot.drive.recv && is_alone(slot)
}

/// True if what was read from a file is left.
pub(super) const fn leaves_read(slot: &ReadySlot, leaves: Leaves) -> bool {
    leaves.includes(Leaves::READ_RESULT) && !slot.drive.recv && is_alone(slot)
}

/// Begins a turn with what another has left.
#[cold]
pub(super) fn begin(
    slot: &mut ReadySlot,
    key: u64,
    io: &mut Io<'_>,
    now: Now,
    cx: &FileCx<'_>,
) -> Option<Turn> {
    match io.first.take()? {
        Left::Received(received) => {
            let bytes = received.as_deref().map_err(|fault| *fault);
            slot.conn.complete(Done::Recv(bytes), now, cx);
            io.buffers.extend(received.ok().filter(|_| io.buffers.len() < BUFFERS_MAX));
        }
        Left::Sent(outbox, bytes) => slot.conn.complete(Done::Send(outbox, Ok(bytes)), now, cx),
        Left::Read(ticket, (buffer, read)) => {
            slot.conn.complete(Done::Read(ticket, buffer, read), now, cx);
        }
        // It is sent as soon as it may be.
        Left::Op(Op::Send(outbox)) => park(slot, outbox, io),
        Left::Op(op) => return on_disk(slot, key, op, io, now, cx),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_was_said() {
        const SOME: Leaves = Leaves::of(&[OpKind::Recv, OpKind::Stat]);
        assert!(!Leaves::NONE.any() && SOME.any() && Leaves::PARSE.any());
        for kind in [OpKind::Recv, OpKind::Send, OpKind::Open, OpKind::Read, OpKind::Stat] {
            let expect = matches!(kind, OpKind::Recv | OpKind::Stat);
            assert_eq!(SOME.has(kind), expect, "{kind:?}");
            assert_eq!(Leaves::of(&[kind]).has(kind), !Leaves::NONE.has(kind));
            let all = SOME.and(Leaves::PARSE).and(Leaves::READ_RESULT);
            assert_eq!(all.has(kind), expect, "{kind:?}");
            assert!(all.includes(SOME) && all.includes(Leaves::PARSE));
        }
        assert!(!SOME.includes(Leaves::PARSE) && !Leaves::PARSE.includes(Leaves::READ_RESULT));
    }
}
