//! Deadlines and the end of a connection.
use super::{Phase, Session, Timer};
use crate::{
    Cx, Deadlines, ReplyOutcome, Supply,
    multi::{Overdue, Slot},
};
use alloc::vec::Vec;
use core::mem;
use regatta_http::h2::frame::{ErrorCode, WINDOW_BYTES_DEFAULT, write_goaway};
use regatta_metrics::Counter;
use regatta_op::{Abandoned, CloseReason, File, Now, Tick};

/// Fewest bytes that a client is assumed to use between two checks. A window of the initial size
/// (RFC 9113 §6.9.2) is used up after 32 of them.
const USED_MIN: u64 = (WINDOW_BYTES_DEFAULT as u64).div_ceil(32);

// After an event.
impl<F: File> Session<F> {
    /// Does all that can be done without waiting, and sets the deadlines.
    pub(super) fn settle(&mut self, now: Now, cx: &Cx<'_, F>) {
        if self.is_over() {
            return;
        }
        loop {
            if self.flags.is_limited && self.requests > 0 {
                self.leave(CloseReason::Refused);
            }
            self.compose(now, cx);
            // Frames that wait are read after the next `Send`. The disk may take longer.
            if !self.flags.has_backlog || self.sends() {
                break;
            }
            self.read_backlog(now, cx);
        }
        self.prepare_load(cx);
        self.close_files(cx);
        self.advance(now, cx);
        self.trim();
    }

    /// Closes files of streams that wait, if the worker has too many open.
    fn close_files(&mut self, cx: &Cx<'_, F>) {
        self.files.set_own(self.streams.open_files());
        if self.files.own() == 0 || self.files.excess() == 0 {
            return;
        }
        let (excess, is_short) = (self.files.excess(), self.files.are_short());
        let closed = self.streams.close_files(excess, self.free_window(), is_short);
        self.files.set_own(self.streams.open_files());
        cx.tally.add(Counter::Http2FilesClosed, closed.into());
    }

    /// True if a `Send` is due or in flight.
    fn sends(&self) -> bool {
        self.lent.send || !self.out.is_empty()
    }

    /// Decides whether the connection ends, and until when it waits.
    fn advance(&mut self, now: Now, cx: &Cx<'_, F>) {
        if self.phase != Phase::Serves {
            return;
        }
        self.set_waits(now, cx);
        let is_done = self.streams.in_use().is_empty();
        if self.leaving.is_some() && is_done {
            if !self.sends() {
                self.shut(now, cx);
            } else if !self.out.is_empty() {
                // Nothing may follow: what is read from now on would be answered.
                self.out.set_ends(true);
                self.discard(cx);
            }
            return;
        }
        if self.flags.has_ended && !self.sends() && !self.flags.has_backlog {
            let stalls = self.streams.is_stalled(self.free_window());
            let is_last = self.streams.are_all_sending();
            if is_done {
                let is_draining = self.flags.is_draining;
                let reason =
                    if is_draining { CloseReason::Drained } else { CloseReason::PeerClosed };
                return self.close(reason, now, cx);
            }
            if stalls && is_last && self.streams.unsent() == 0 {
                // No window can be opened any more, and nothing else is to be answered.
                self.close(CloseReason::PeerAborted, now, cx);
            }
        }
    }

    /// Sets the deadlines of an idle connection, and of bodies that wait for windows.
    fn set_waits(&mut self, now: Now, cx: &Cx<'_, F>) {
        let deadlines = &cx.site.deadlines;
        if self.leaving.is_some() || !self.streams.all().is_empty() {
            self.set_timer(Timer::Idle, Tick::NEVER);
        } else if self.timer(Timer::Idle) == Tick::NEVER {
            self.set_timer(Timer::Idle, now.tick.after(deadlines.idle_ms_max));
        }
        let stalls = self.streams.has_stalled(self.free_window());
        // A window that opens by a few bytes does not move the deadline.
        if !self.streams.is_sending() {
            self.set_timer(Timer::Window, Tick::NEVER);
        } else if stalls && self.timer(Timer::Window) == Tick::NEVER {
            cx.tally.add(Counter::Http2WindowStalls, 1);
            // What was sent before is no progress from now on.
            self.use_sent(0);
            self.set_timer(Timer::Window, now.tick.after(deadlines.send_window_ms));
        }
    }

    /// All has been sent: our half is closed next.
    fn shut(&mut self, now: Now, cx: &Cx<'_, F>) {
        self.phase = Phase::Shuts;
        self.discard(cx);
        self.stop_timers();
        self.set_timer(Timer::End, now.tick.after(cx.site.deadlines.linger_ms_max));
    }

    /// Our half is closed.
    pub(super) fn on_shut(&mut self, now: Now, cx: &Cx<'_, F>) {
        let reason = self.leaving.unwrap_or(CloseReason::Finished);
        if self.flags.has_ended {
            return self.close(reason, now, cx);
        }
        self.phase = Phase::Lingers;
        self.set_timer(Timer::End, now.tick.after(cx.site.deadlines.linger_ms_max));
    }

    /// The peer sends no more.
    pub(super) fn on_end_of_stream(&mut self, now: Now, cx: &Cx<'_, F>) {
        self.flags.has_ended = true;
        match (self.phase, self.leaving) {
            (Phase::Lingers, reason) => {
                self.close(reason.unwrap_or(CloseReason::Finished), now, cx);
            }
            (Phase::Serves, None) => {
                let has_part = !self.inbox.is_empty() || self.has_part_of_preface();
                if self.block.is_some() || has_part && !self.flags.has_backlog {
                    self.close(CloseReason::PeerAborted, now, cx);
                }
            }
            _ => {}
        }
    }

    /// Received bytes are not read any more.
    pub(super) fn on_discarded(&mut self, bytes: usize, now: Now, cx: &Cx<'_, F>) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.lingered = self.lingered.saturating_add(bytes);
        if self.phase == Phase::Lingers && self.lingered > cx.site.limits.linger_bytes_max {
            let reason = self.leaving.unwrap_or(CloseReason::Finished);
            self.end(reason, now, cx);
        }
    }
}

// Deadlines.
impl<F: File> Session<F> {
    /// A deadline has passed.
    pub(super) fn on_deadline(&mut self, queued: u64, now: Now, cx: &Cx<'_, F>) {
        let deadlines = &cx.site.deadlines;
        let window = now.tick.after(deadlines.send_window_ms);
        let Some(timer) = Timer::ALL.into_iter().find(|timer| self.timer(*timer) <= now.tick)
        else {
            return self.on_overdue(now, cx);
        };
        match timer {
            Timer::Peer => self.end(CloseReason::PeerAborted, now, cx),
            Timer::Frame | Timer::Block => {
                let (code, reason) = (ErrorCode::NO_ERROR, CloseReason::HeadDeadline);
                self.fail(code, reason, ReplyOutcome::Aborted, now, cx);
            }
            Timer::Send if self.flows(queued, timer, deadlines) => {
                self.set_timer(Timer::Send, window);
            }
            Timer::Send => self.end(CloseReason::SendDeadline, now, cx),
            Timer::Window => self.on_window_deadline(now, cx),
            Timer::Drain => {
                self.set_timer(Timer::Drain, Tick::NEVER);
                self.leave(CloseReason::Drained);
            }
            Timer::Idle if self.sends() || queued > 0 && self.flows(queued, timer, deadlines) => {
                self.set_timer(Timer::Idle, window);
            }
            Timer::Idle => self.leave(CloseReason::IdleDeadline),
            Timer::End if self.phase == Phase::Shuts => self.set_timer(Timer::End, window),
            Timer::End if queued > 0 && self.flows(queued, timer, deadlines) => {
                self.set_timer(Timer::End, window);
            }
            Timer::End => {
                let reason = self.leaving.unwrap_or(CloseReason::Finished);
                self.end(reason, now, cx);
            }
        }
    }

    /// A body waits for a window. Since the last check, the client must have been sent as many
    /// bytes of bodies as it must take in that time. Or it still uses what it was sent before:
    /// clients open windows when they have used much, not byte by byte. What a client permits
    /// proves nothing: it may be for another window than the one that is shut. A `Send` in flight
    /// and the disk have deadlines of their own.
    fn on_window_deadline(&mut self, now: Now, cx: &Cx<'_, F>) {
        let deadlines = &cx.site.deadlines;
        let least = deadlines.least_bytes(deadlines.send_window_ms);
        let moves = self.framed >= least;
        let uses = self.use_sent(least.max(USED_MIN));
        let window = self.free_window();
        let waits = self.sends() || self.streams.body_awaits_disk(window);
        if !self.streams.has_stalled(window) {
            self.set_timer(Timer::Window, Tick::NEVER);
        } else if moves || uses || waits {
            self.set_timer(Timer::Window, now.tick.after(deadlines.send_window_ms));
        } else {
            let (code, reason) = (ErrorCode::NO_ERROR, CloseReason::SendDeadline);
            self.fail(code, reason, ReplyOutcome::Slow, now, cx);
        }
    }

    /// Counts that many bytes of what the client was sent as used; false if it was sent less. Of
    /// the rest, it keeps a window of the initial size at most.
    fn use_sent(&mut self, bytes: u64) -> bool {
        let unused = self.unused.saturating_add(mem::take(&mut self.framed));
        self.unused = unused.saturating_sub(bytes).min(WINDOW_BYTES_DEFAULT.into());
        unused >= bytes
    }

    /// Streams have waited long enough: all of them at once, but one operation of the disk at most.
    /// A driver may take some time until it calls again.
    fn on_overdue(&mut self, now: Now, cx: &Cx<'_, F>) {
        for _ in 0..Slot::COUNT {
            match self.streams.overdue(now.tick) {
                Some(Overdue::Retry(at)) => self.resume(at, Supply::Again, now, cx),
                Some(Overdue::Reopen(at)) => self.streams.retry_file(at),
                Some(Overdue::Disk(at)) => {
                    let ticket = self.streams.ticket(at);
                    self.end_wait(at, now, cx);
                    self.abandoned = ticket.map(Abandoned::One);
                    return;
                }
                Some(Overdue::Request(at)) => {
                    self.reset(at, ErrorCode::NO_ERROR, ReplyOutcome::Complete, now, cx);
                }
                None => return,
            }
        }
    }

    /// True if the peer has taken enough since the last check. `timer` has expired.
    fn flows(&mut self, queued: u64, timer: Timer, deadlines: &Deadlines) -> bool {
        let first_ms = match timer {
            Timer::Idle => deadlines.idle_ms_max,
            Timer::End if self.phase == Phase::Lingers => deadlines.linger_ms_max,
            _ => deadlines.send_window_ms,
        };
        let has = self.sent.saturating_sub(queued);
        deadlines.flows(has, &mut self.delivered, first_ms)
    }

    fn stop_timers(&mut self) {
        for timer in Timer::ALL {
            self.set_timer(timer, Tick::NEVER);
        }
    }
}

// The end.
impl<F: File> Session<F> {
    /// Announces the end: the streams that are open finish, and later ones are ignored.
    pub(super) fn leave(&mut self, reason: CloseReason) {
        if self.leaving.is_none() {
            self.leaving = Some(reason);
            self.last_processed = self.last;
            write_goaway(&mut self.control, self.last, ErrorCode::NO_ERROR);
            self.set_timer(Timer::Idle, Tick::NEVER);
            self.set_timer(Timer::Drain, Tick::NEVER);
        }
    }

    /// Ends the connection with a code: all streams are over.
    pub(super) fn fail(
        &mut self,
        code: ErrorCode,
        reason: CloseReason,
        outcome: ReplyOutcome,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        if self.flags.discards {
            return;
        }
        match code {
            ErrorCode::NO_ERROR => {}
            ErrorCode::ENHANCE_YOUR_CALM => cx.tally.add(Counter::Http2Calmed, 1),
            _ => cx.tally.add(Counter::Http2Glitches, 1),
        }
        self.drop_streams(outcome, now, cx);
        self.leaving = Some(reason);
        self.last_processed = self.last_processed.min(self.last);
        write_goaway(&mut self.control, self.last_processed, code);
        self.discard(cx);
        let send = self.timer(Timer::Send);
        self.stop_timers();
        self.set_timer(Timer::Send, send);
    }

    /// Drops what has been received: nothing more is read.
    fn discard(&mut self, cx: &Cx<'_, F>) {
        (self.flags.discards, self.flags.has_backlog) = (true, false);
        self.block = None;
        self.set_timer(Timer::Frame, Tick::NEVER);
        self.set_timer(Timer::Block, Tick::NEVER);
        cx.scratch.give_buffer(mem::take(&mut self.inbox));
    }

    /// Counts and logs all streams as ended by this.
    fn drop_streams(&mut self, outcome: ReplyOutcome, now: Now, cx: &Cx<'_, F>) {
        for at in self.streams.in_use().places() {
            self.drop_stream(at, outcome, now, cx);
        }
    }

    /// Ends the connection now; operations in flight are given up.
    pub(super) fn end(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        self.close(reason, now, cx);
        (self.lent.recv, self.lent.send) = (false, false);
        self.abandoned = Some(Abandoned::All);
    }

    /// Only `Close` follows.
    pub(super) fn close(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        let outcome = ReplyOutcome::from_reason(reason);
        self.drop_streams(outcome, now, cx);
        self.finish_replies(outcome, now, cx);
        // The driver forgets the operations of streams that were reset.
        for at in self.streams.all().places() {
            self.streams.give_up(at);
            let stream = self.streams.close(at);
            self.forget(stream, cx);
        }
        self.files.set_own(0);
        self.discard(cx);
        self.control = Vec::new();
        cx.scratch.give_buffer(mem::take(&mut self.out).into_buffer());
        if let Some(buffer) = self.spare.take() {
            cx.scratch.give_read_buffer(buffer);
        }
        cx.tally.add(Counter::closed(reason as usize), 1);
        self.stop_timers();
        self.phase = Phase::Closes(reason);
    }
}
