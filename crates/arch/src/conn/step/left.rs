//! Work that a turn leaves to another stage, and with which the turn of that stage begins.
use super::{Io, ReadySlot, on_disk, park};
use crate::drive::{FileCx, Turn};
use regatta_metrics::FilmEvent;
use regatta_op::{Done, Now, Op, OpKind, Outbox, Tick, Ticket};
use regatta_origin::Protocol as _;
use regatta_sys::{Read, StaticFile};

/// Operations and completions that a loop leaves to other stages; none for an event loop.
///
/// An operation is left when it could be performed: `Recv` where the socket may have something to
/// read. Until then the turn ends as ever, with [`Turn::Wait`]. While another operation of the
/// connection is out, nothing is left: both are performed where both can be waited for. In a
/// pipeline that is rare, because nothing else begins while a `Send` waits ([`Io::in_pipeline`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaves(u16);

impl Leaves {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Bytes are received here, and parsed by another stage.
    pub const PARSE: Self = Self(1 << 8);
    /// Files are read here, and what was read goes to another stage.
    pub const READ_RESULT: Self = Self(1 << 9);

    /// Leaves these operations. With `Recv`, the completion of a `Send` is left too, because it may
    /// parse the next request. `Shut` and `Close` are never left.
    #[must_use]
    pub const fn new(kinds: &[OpKind]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < kinds.len() {
            assert!(!matches!(kinds[at], OpKind::Shut | OpKind::Close), "these wait for nobody");
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// All that either leaves.
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

/// Work that a turn leaves to another stage. It goes with the connection, by value.
#[derive(Debug)]
pub enum Left {
    /// An operation that was offered, and is not performed.
    Op(Op<StaticFile>),
    /// Received bytes that are not parsed: neither the end of the stream nor a fault.
    Received(Vec<u8>),
    /// A `Send` that was sent in full and is not completed, with the bytes that were sent last.
    Sent(Outbox<StaticFile>, u64),
    /// The result of a read from a file, which is not completed.
    Read(Ticket, Read),
    /// Nothing but a buffer, for the head of the next response. The stage that completes a `Send`
    /// gets the buffers of those that encode responses.
    Spare(Vec<u8>),
}

impl Left {
    /// True if it may be the beginning of a request: it is to be parsed, and is neither content nor
    /// of a handshake, nor thrown away.
    pub fn begins(&self, slot: &ReadySlot) -> bool {
        matches!(self, Self::Received(bytes) if slot.conn.awaits_request(bytes))
    }

    /// True if a request may be refused by it: it begins one, or asks the disk for one.
    pub fn asks(&self, slot: &ReadySlot) -> bool {
        let of_disk = |op: &Op<_>| matches!(op.kind(), OpKind::Open | OpKind::Read | OpKind::Stat);
        matches!(self, Self::Op(op) if of_disk(op)) || self.begins(slot)
    }

    /// Returns a buffer to the stage that received what was parsed, with a response that has none.
    pub fn carry(left: &mut Option<Self>, cx: &FileCx<'_>) {
        match left {
            None => *left = Self::spare(cx),
            Some(Self::Op(Op::Send(outbox))) => outbox.carry(|| cx.scratch.take_buffer()),
            Some(_) => {}
        }
    }

    /// Takes a spare buffer, if there is one here.
    pub fn spare(cx: &FileCx<'_>) -> Option<Self> {
        let buffer = cx.scratch.take_buffer();
        (buffer.capacity() > 0).then_some(Self::Spare(buffer))
    }

    /// Settles work of a connection that ends before another stage resumes it. A `Send` that was
    /// sent is completed nevertheless: the response is in the peer's hands.
    pub fn settle(self, slot: &mut ReadySlot, now: Now, cx: &FileCx<'_>) {
        if let Self::Sent(outbox, bytes) = self {
            slot.conn.complete(Done::Send(outbox, Ok(bytes)), now, cx);
        }
    }
}

impl Io<'_> {
    /// Begins the next turn with the work that a turn of another stage left.
    pub fn resume(&mut self, left: Left) {
        debug_assert!(self.first.is_none(), "one turn for each");
        self.first = Some(left);
    }

    /// True if the next turn begins with received bytes.
    pub(crate) const fn begins_with_bytes(&self) -> bool {
        matches!(self.first, Some(Left::Received(_)))
    }

    /// Takes out the work that the next turn would begin with: that turn comes later.
    pub(crate) const fn put_off(&mut self) -> Option<Left> {
        self.first.take()
    }

    /// Takes the work that the turn left, after [`Turn::Left`]; `None` for a `Recv`, which the
    /// connection itself keeps.
    pub const fn take_left(&mut self) -> Option<Left> {
        self.left.take()
    }

    /// Takes out a `Send` that waits, for a connection that goes to another stage: the `Send` goes
    /// with it by value, and its box stays here for the next.
    pub fn unpark(&mut self, slot: &mut ReadySlot) -> Option<Left> {
        let mut parked = slot.drive.take_parked()?;
        let outbox = std::mem::take(&mut *parked);
        self.spares.0.push(parked);
        Some(Left::Op(Op::Send(outbox)))
    }

    /// Keeps a copy of bytes for another stage.
    pub(super) fn leave_received(bytes: &[u8], cx: &FileCx<'_>) -> Left {
        let mut copy = cx.scratch.take_buffer();
        copy.extend_from_slice(bytes);
        Left::Received(copy)
    }
}

/// True if no operation of the connection is out but the one being checked.
const fn is_alone(slot: &ReadySlot) -> bool {
    slot.drive.send.is_none() && slot.pending == 0
}

/// True if a `Send` of the connection waits, and nothing else is due. When the deadline has passed,
/// what the peer has sent comes before the verdict. A connection without one is about to close.
pub(super) fn send_waits(slot: &ReadySlot, now: Now) -> bool {
    let is_due = |deadline: Tick| deadline <= now.tick || deadline == Tick::NEVER;
    slot.drive.send.is_some() && !is_due(slot.conn.deadline())
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

/// True if the completion of a `Send` is left: all is sent, and the connection continues.
pub(super) fn leaves_sent(slot: &ReadySlot, outbox: &Outbox<StaticFile>, leaves: Leaves) -> bool {
    let is_over = outbox.is_empty() && !outbox.ends();
    is_over && leaves.has(OpKind::Recv) && !slot.drive.recv && is_alone(slot)
}

/// True if what was read from a file is left.
pub(super) const fn leaves_read(slot: &ReadySlot, leaves: Leaves) -> bool {
    leaves.includes(Leaves::READ_RESULT) && !slot.drive.recv && is_alone(slot)
}

/// Begins a turn with the work that another turn left. What that turn has performed is in a film
/// already.
#[cold]
pub(super) fn begin(
    slot: &mut ReadySlot,
    key: u64,
    io: &mut Io<'_>,
    now: Now,
    cx: &FileCx<'_>,
) -> Option<Turn> {
    let first = io.first.take()?;
    if let Left::Op(op) = &first {
        slot.film(cx.tally, FilmEvent::Issued(op.kind()));
    }
    match first {
        Left::Received(bytes) => {
            slot.conn.complete(Done::Recv(Ok(&bytes)), now, cx);
            cx.scratch.give_buffer(bytes);
        }
        Left::Sent(outbox, bytes) => slot.conn.complete(Done::Send(outbox, Ok(bytes)), now, cx),
        Left::Read(ticket, (buffer, read)) => {
            slot.conn.complete(Done::Read(ticket, buffer, read), now, cx);
        }
        Left::Spare(buffer) => cx.scratch.give_buffer(buffer),
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
        const SOME: Leaves = Leaves::new(&[OpKind::Recv, OpKind::Stat]);
        assert!(!Leaves::NONE.any() && SOME.any() && Leaves::PARSE.any());
        for kind in [OpKind::Recv, OpKind::Send, OpKind::Open, OpKind::Read, OpKind::Stat] {
            let expect = matches!(kind, OpKind::Recv | OpKind::Stat);
            assert_eq!(SOME.has(kind), expect, "{kind:?}");
            assert_eq!(Leaves::new(&[kind]).has(kind), !Leaves::NONE.has(kind));
            let all = SOME.and(Leaves::PARSE).and(Leaves::READ_RESULT);
            assert_eq!(all.has(kind), expect, "{kind:?}");
            assert!(all.includes(SOME) && all.includes(Leaves::PARSE));
        }
        assert!(!SOME.includes(Leaves::PARSE) && !Leaves::PARSE.includes(Leaves::READ_RESULT));
    }
}
