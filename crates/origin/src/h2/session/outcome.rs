//! Operations that the session offers, and their outcomes.
use super::{CONTROL_BYTES_MAX, Phase, Session, Timer};
use crate::{
    Cx, ReplyOutcome, Supply,
    exchange::OPEN_RETRY_MS,
    multi::{Reopening, Slot, Waiter},
};
use alloc::vec::Vec;
use regatta_http::h2::frame::ErrorCode;
use regatta_metrics::Counter;
use regatta_op::{Fault, File, Now, Op, OpenFault, Outbox, Tick, Ticket};

impl<F: File> Session<F> {
    /// The next operation of the disk: that of an exchange, or a part of a body.
    pub(super) fn disk_op(&mut self) -> Option<Op<F>> {
        if self.phase != Phase::Serves {
            return None;
        }
        let until = self.now.after(self.disk_ms_max);
        let read = if self.streams.prefers_load() { self.load(until) } else { None };
        read.or_else(|| self.streams.disk_op(until)).or_else(|| self.load(until))
    }

    fn load(&mut self, until: Tick) -> Option<Op<F>> {
        let window = self.free_window();
        self.streams.load(window, until, &mut self.spare)
    }

    /// True if a `Recv` is offered: not while received frames wait, nor before the last frames have
    /// been sent.
    pub(super) const fn may_receive(&self) -> bool {
        let may_read = match self.phase {
            Phase::Serves => {
                let has_room = self.control.len() <= CONTROL_BYTES_MAX;
                has_room && !self.flags.has_backlog && !self.flags.discards
            }
            Phase::Lingers => true,
            Phase::Shuts | Phase::Closes(_) | Phase::Closed => false,
        };
        may_read && !self.lent.recv && !self.flags.has_ended
    }

    pub(super) fn on_sent(&mut self, out: Outbox<F>, n: u64, now: Now, cx: &Cx<'_, F>) {
        if !out.is_empty() {
            self.out = out;
            debug_assert!(n > 0, "frames are memory, which does not shrink");
            return;
        }
        cx.scratch.give_buffer(out.into_buffer());
        self.set_timer(Timer::Send, Tick::NEVER);
        self.streams.land();
        self.finish_replies(ReplyOutcome::Complete, now, cx);
        self.read_backlog(now, cx);
    }

    /// The connection broke.
    pub(super) fn on_fault(&mut self, fault: Fault, now: Now, cx: &Cx<'_, F>) {
        let reason = match (self.phase, self.leaving) {
            (Phase::Lingers, Some(reason)) => reason,
            _ => fault.into(),
        };
        self.close(reason, now, cx);
    }

    /// A part of a body has been read, or a file for an exchange.
    pub(super) fn on_read(
        &mut self,
        ticket: Ticket,
        buffer: Vec<u8>,
        read: Result<(), Fault>,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        self.set_timer(Timer::Peer, Tick::NEVER);
        match self.streams.disk_done(ticket) {
            Waiter::Open(at) => self.resume(at, Supply::Read(buffer, read), now, cx),
            Waiter::Body(at, bytes) => {
                cx.tally.add(Counter::Reads, 1);
                if read.is_ok() && buffer.len() as u64 == bytes {
                    cx.tally.add(Counter::ReadBytes, bytes);
                    let before = self.streams.loaded(at, buffer);
                    return cx.scratch.give_read_buffer(before);
                }
                cx.scratch.give_read_buffer(buffer);
                self.reset(at, ErrorCode::INTERNAL_ERROR, ReplyOutcome::Truncated, now, cx);
            }
            Waiter::Reset(stream) => {
                cx.scratch.give_read_buffer(buffer);
                self.forget(stream, cx);
            }
            Waiter::File(_) => unreachable!("a file is opened, and not read"),
        }
        self.read_backlog(now, cx);
    }

    /// An operation of an exchange is done.
    pub(super) fn supply(&mut self, ticket: Ticket, supply: Supply<F>, now: Now, cx: &Cx<'_, F>) {
        self.set_timer(Timer::Peer, Tick::NEVER);
        match self.streams.disk_done(ticket) {
            Waiter::Open(at) => self.resume(at, supply, now, cx),
            Waiter::Reset(stream) => self.forget(stream, cx),
            Waiter::File(at) => self.on_reopened(at, supply, now, cx),
            Waiter::Body(..) => unreachable!("a body is read, and nothing else"),
        }
        self.read_backlog(now, cx);
    }

    /// The file of a body has been opened again, or could not be.
    fn on_reopened(&mut self, at: Slot, supply: Supply<F>, now: Now, cx: &Cx<'_, F>) {
        let Supply::Opened(found) = supply else {
            unreachable!("a file is opened, and nothing else")
        };
        cx.tally.add(Counter::Opens, 1);
        match self.streams.reopened(at, found) {
            Reopening::Done => {}
            Reopening::Later(OpenFault::Exhausted) if cx.cache.relieve(&cx.tally) => {
                self.streams.retry_file(at);
            }
            Reopening::Later(_) => {
                self.streams.hold_file(at, now.tick.after(OPEN_RETRY_MS));
            }
            Reopening::Changed => {
                self.reset(at, ErrorCode::INTERNAL_ERROR, ReplyOutcome::Truncated, now, cx);
            }
        }
    }
}
