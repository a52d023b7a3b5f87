//! Bytes from the client: the preface, and frames in their order.
use super::{
    CONTROL_BYTES_MAX, FieldBlock, NEW_STREAMS_MAX, Phase, Session, Timer, exchange::StreamPlace,
};
use crate::{Cx, ReplyOutcome, h2::budget::Glitch, multi::Slot};
use alloc::boxed::Box;
use core::mem;
use regatta_http::{
    h2::{
        frame::{
            ACK, ErrorCode, FRAME_BYTES_DEFAULT, FRAME_HEAD_BYTES, Frame, FrameHead, FrameKind,
            PREFACE, WINDOW_BYTES_MAX, WholeFrame, read_frame, split_frame, write_ping,
        },
        write_settings_ack,
    },
    priority::Priority,
};
use regatta_metrics::Counter;
use regatta_op::{CloseReason, File, Now, Tick};

/// The most frames that continue a field block, unless heads may be longer than they carry.
const CONTINUATIONS_MAX: u8 = 8;
/// A window that grows by fewer bytes, or DATA with fewer, costs more than it brings.
pub(super) const SMALL_BYTES: u32 = 256;
/// Streams whose windows SETTINGS can change for a point. Clients that adapt their windows to the
/// network do that some ten times.
const STREAMS_PER_HINT: u64 = 2;

impl<F: File> Session<F> {
    /// Takes bytes from the client that arrived before the session was there.
    pub(crate) fn receive(&mut self, bytes: &[u8], now: Now, cx: &Cx<'_, F>) {
        self.now = now.tick;
        if !self.is_over() && !bytes.is_empty() {
            self.on_recv(bytes, now, cx);
            self.settle(now, cx);
        }
    }

    /// Takes bytes from the client, at least one.
    pub(super) fn on_recv(&mut self, bytes: &[u8], now: Now, cx: &Cx<'_, F>) {
        if self.flags.discards {
            return self.on_discarded(bytes.len(), now, cx);
        }
        if self.inbox.is_empty() {
            // The common case: whole frames are read in the driver's buffer.
            let used = self.read(bytes, now, cx);
            if used < bytes.len() {
                self.inbox = cx.scratch.take_buffer();
                self.inbox.extend_from_slice(&bytes[used..]);
            }
            self.await_rest(used, now, cx);
        } else {
            self.inbox.extend_from_slice(bytes);
            self.read_inbox(now, cx);
        }
    }

    /// Reads the frames that wait, if any.
    pub(super) fn read_backlog(&mut self, now: Now, cx: &Cx<'_, F>) {
        if self.flags.has_backlog && !self.is_over() {
            self.read_inbox(now, cx);
        }
    }

    fn read_inbox(&mut self, now: Now, cx: &Cx<'_, F>) {
        let mut inbox = mem::take(&mut self.inbox);
        let used = self.read(&inbox, now, cx);
        inbox.drain(..used);
        if inbox.is_empty() {
            cx.scratch.give_buffer(inbox);
        } else {
            self.inbox = inbox;
        }
        self.await_rest(used, now, cx);
    }

    /// Sets the deadline of a frame, or of the preface, if a part of it has arrived. `used`: bytes
    /// that have just been read.
    fn await_rest(&mut self, used: usize, now: Now, cx: &Cx<'_, F>) {
        let has_part = !self.inbox.is_empty() || self.has_part_of_preface();
        if !has_part || self.flags.has_backlog || self.flags.discards {
            self.set_timer(Timer::Frame, Tick::NEVER);
        } else if self.timer(Timer::Frame) == Tick::NEVER || used > 0 && self.has_preface() {
            self.set_timer(Timer::Frame, now.tick.after(cx.site.deadlines.head_ms_max));
        }
        if !self.flags.has_backlog {
            self.flags.turns_away = false;
        }
    }

    pub(super) fn has_part_of_preface(&self) -> bool {
        self.preface > 0 && !self.has_preface()
    }

    fn has_preface(&self) -> bool {
        usize::from(self.preface) == PREFACE.len()
    }

    /// Reads frames from the front of `bytes`; returns how many bytes are not needed any more.
    fn read(&mut self, bytes: &[u8], now: Now, cx: &Cx<'_, F>) -> usize {
        (self.opened, self.flags.has_backlog) = (0, false);
        let mut rest = match self.skip_preface(bytes) {
            Ok(rest) => rest,
            Err(code) => {
                self.fail(code, CloseReason::BadRequest, ReplyOutcome::Aborted, now, cx);
                return bytes.len();
            }
        };
        while !self.flags.discards && self.phase == Phase::Serves {
            let frame = match split_frame(rest, FRAME_BYTES_DEFAULT) {
                Ok(Some(frame)) => frame,
                Ok(None) => return bytes.len() - rest.len(),
                Err(fault) => {
                    self.fail(
                        fault.code(),
                        CloseReason::BadRequest,
                        ReplyOutcome::Aborted,
                        now,
                        cx,
                    );
                    break;
                }
            };
            if self.opened >= NEW_STREAMS_MAX || self.control.len() > CONTROL_BYTES_MAX {
                self.flags.has_backlog = true;
                return bytes.len() - rest.len();
            }
            rest = frame.rest;
            if let Err(code) = self.on_frame(&frame, now, cx) {
                self.fail(code, CloseReason::BadRequest, ReplyOutcome::Aborted, now, cx);
            }
        }
        bytes.len()
    }

    /// Compares the start of `bytes` with the rest of the preface; returns the bytes behind it.
    fn skip_preface<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], ErrorCode> {
        let expected = &PREFACE[usize::from(self.preface)..];
        let (start, rest) = bytes.split_at(expected.len().min(bytes.len()));
        if !expected.starts_with(start) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        self.preface += u8::try_from(start.len()).unwrap_or(u8::MAX);
        Ok(rest)
    }

    /// Takes a frame, if it may come now.
    ///
    /// # Errors
    /// The code to end the connection with.
    fn on_frame(
        &mut self,
        frame: &WholeFrame<'_>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<(), ErrorCode> {
        let head = frame.head;
        let continues = head.kind == FrameKind::Continuation;
        if self.block.as_ref().is_some_and(|block| !continues || head.stream != block.stream) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        let is_settings = head.kind == FrameKind::Settings && !head.has(ACK);
        if !is_settings && !self.flags.has_settings {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        match read_frame(head, frame.payload) {
            Ok(frame) => self.take(frame, now, cx),
            Err(fault) => match fault.stream().map(|stream| self.place(stream)) {
                None | Some(StreamPlace::Idle) => Err(fault.code()),
                Some(StreamPlace::Open(at)) => self.reset_faulty(at, fault.code(), now, cx),
                Some(StreamPlace::Late | StreamPlace::Closed | StreamPlace::Ignored) => {
                    self.charge(Glitch::Fault, cx)
                }
            },
        }
    }

    fn take(&mut self, frame: Frame<'_>, now: Now, cx: &Cx<'_, F>) -> Result<(), ErrorCode> {
        match frame {
            Frame::Data { stream, data, window_bytes, ends_stream } => {
                if window_bytes < SMALL_BYTES && !ends_stream {
                    let is_empty = window_bytes == 0;
                    self.charge(if is_empty { Glitch::Empty } else { Glitch::Hint }, cx)?;
                }
                self.permit_content(window_bytes)?;
                self.on_data(stream, data.len() as u64, window_bytes, ends_stream, now, cx)
            }
            Frame::Headers { stream, block, ends_stream, ends_block: true } => {
                self.on_block(stream, block, ends_stream, now, cx)
            }
            Frame::Headers { stream, block, ends_stream, ends_block: false } => {
                let block =
                    FieldBlock { stream, ends_stream, bytes: block.to_vec(), continuations: 0 };
                self.block = Some(Box::new(block));
                self.set_timer(Timer::Block, now.tick.after(cx.site.deadlines.head_ms_max));
                Ok(())
            }
            Frame::Continuation { block, ends_block, .. } => {
                self.on_continuation(block, ends_block, now, cx)
            }
            Frame::Priority { .. } => self.charge(Glitch::Hint, cx),
            Frame::PriorityUpdate { stream, value } => self.on_priority(stream, value, cx),
            Frame::RstStream { stream, .. } => self.on_reset(stream, now, cx),
            Frame::Settings(payload) => self.on_settings(payload, cx),
            Frame::SettingsAck => self.on_settings_ack(cx),
            Frame::Ping(bytes) => {
                write_ping(&mut self.control, bytes, true);
                self.charge(Glitch::Control, cx)
            }
            // The client opens no more streams, and closes the connection when it has its answers.
            Frame::PingAck(_) | Frame::GoAway { .. } => self.charge(Glitch::Control, cx),
            Frame::WindowUpdate { stream, bytes } => {
                let has_reason = self.updates > 0;
                self.updates = self.updates.saturating_sub(1);
                if bytes < SMALL_BYTES || !has_reason {
                    self.charge(Glitch::Hint, cx)?;
                }
                self.on_window(stream, bytes, now, cx)
            }
            Frame::Unknown => self.charge(Glitch::Hint, cx),
        }
    }

    fn on_continuation(
        &mut self,
        part: &[u8],
        ends_block: bool,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<(), ErrorCode> {
        if part.is_empty() && !ends_block {
            self.charge(Glitch::Empty, cx)?;
        }
        let Some(mut block) = self.block.take() else { return Err(ErrorCode::PROTOCOL_ERROR) };
        // A block that is a little too large is refused with a status. Of a larger one too much
        // would have to be kept.
        let bytes_max = cx.site.limits.head_bytes_max + FRAME_BYTES_DEFAULT as usize;
        // A long block needs more of them.
        let most = usize::from(CONTINUATIONS_MAX).max(bytes_max / FRAME_BYTES_DEFAULT as usize);
        block.continuations = block.continuations.saturating_add(1);
        let is_many = usize::from(block.continuations) > most;
        if is_many || block.bytes.len() + part.len() > bytes_max {
            return Err(ErrorCode::ENHANCE_YOUR_CALM);
        }
        block.bytes.extend_from_slice(part);
        if !ends_block {
            self.block = Some(block);
            return Ok(());
        }
        self.set_timer(Timer::Block, Tick::NEVER);
        self.on_block(block.stream, &block.bytes, block.ends_stream, now, cx)
    }

    /// Takes a priority of an open stream. That of a stream which is not open yet is ignored: its
    /// request can state one. Streams of the server's are never opened, so that none has a priority
    /// (RFC 9218 §7.1).
    fn on_priority(&mut self, stream: u32, value: &[u8], cx: &Cx<'_, F>) -> Result<(), ErrorCode> {
        if stream.is_multiple_of(2) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        if let StreamPlace::Open(at) = self.place(stream) {
            let mut priority = Priority::default();
            priority.take(value);
            self.streams.set_priority(at, priority);
        }
        self.charge(Glitch::Hint, cx)
    }

    fn on_reset(&mut self, stream: u32, now: Now, cx: &Cx<'_, F>) -> Result<(), ErrorCode> {
        match self.place(stream) {
            StreamPlace::Idle => return Err(ErrorCode::PROTOCOL_ERROR),
            StreamPlace::Open(at) => {
                cx.tally.add(Counter::StreamsResetByClient, 1);
                self.drop_stream(at, ReplyOutcome::Aborted, now, cx);
            }
            StreamPlace::Late => self.late.retain(|late| *late != stream),
            // Its response has been sent: the reset saves the client's network, and costs nothing.
            StreamPlace::Closed | StreamPlace::Ignored => return self.charge(Glitch::Hint, cx),
        }
        self.charge(Glitch::Reset, cx)
    }

    fn on_settings(&mut self, payload: &[u8], cx: &Cx<'_, F>) -> Result<(), ErrorCode> {
        let before = i64::from(self.settings.window_bytes);
        self.settings.apply(payload).map_err(|fault| fault.code())?;
        let bytes = i64::from(self.settings.window_bytes) - before;
        if bytes != 0 {
            let widened = self.streams.widen_all(bytes, WINDOW_BYTES_MAX.into());
            widened.map_err(|_| ErrorCode::FLOW_CONTROL_ERROR)?;
            self.charge_windows(cx)?;
        }
        write_settings_ack(&mut self.control);
        if mem::replace(&mut self.flags.has_settings, true) {
            self.charge(Glitch::Control, cx)?;
        }
        Ok(())
    }

    /// Charges a change of all open streams' windows by their number. Those that let a body
    /// continue by few bytes cost more. The window that is left counts: a client can open it by
    /// many bytes and take most of them back.
    fn charge_windows(&mut self, cx: &Cx<'_, F>) -> Result<(), ErrorCode> {
        let short = self.streams.short_windows(SMALL_BYTES.into());
        let others = self.streams.all().len() - short;
        if short > 0 {
            self.charge_times(Glitch::Trickle, short.into(), cx)?;
        }
        if others > 0 {
            self.charge_times(Glitch::Hint, u64::from(others).div_ceil(STREAMS_PER_HINT), cx)?;
        }
        Ok(())
    }

    /// Charges a window of the connection if it lets a body continue by few bytes. A client that
    /// permits as much as it was sent has been sent frames before.
    fn charge_connection_window(&mut self, cx: &Cx<'_, F>) -> Result<(), ErrorCode> {
        let is_short = self.free_window() < u64::from(SMALL_BYTES);
        if !is_short || !self.streams.share_window() {
            return Ok(());
        }
        match self.free_trickles.checked_sub(1) {
            Some(free) => self.free_trickles = free,
            None => self.charge(Glitch::Trickle, cx)?,
        }
        Ok(())
    }

    fn on_settings_ack(&mut self, cx: &Cx<'_, F>) -> Result<(), ErrorCode> {
        if mem::replace(&mut self.flags.is_acknowledged, true) {
            return self.charge(Glitch::Control, cx);
        }
        self.decoder.acknowledge();
        Ok(())
    }

    fn on_window(
        &mut self,
        stream: u32,
        bytes: u32,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<(), ErrorCode> {
        if stream == 0 {
            let window = self.window + u64::from(bytes);
            if window > u64::from(WINDOW_BYTES_MAX) {
                return Err(ErrorCode::FLOW_CONTROL_ERROR);
            }
            self.window = window;
            return self.charge_connection_window(cx);
        }
        match self.place(stream) {
            StreamPlace::Idle => Err(ErrorCode::PROTOCOL_ERROR),
            StreamPlace::Open(at) => self.widen(at, bytes, now, cx),
            StreamPlace::Late | StreamPlace::Closed | StreamPlace::Ignored => Ok(()),
        }
    }

    fn widen(&mut self, at: Slot, bytes: u32, now: Now, cx: &Cx<'_, F>) -> Result<(), ErrorCode> {
        if self.streams.widen(at, bytes.into(), WINDOW_BYTES_MAX.into()).is_err() {
            return self.reset_faulty(at, ErrorCode::FLOW_CONTROL_ERROR, now, cx);
        }
        let is_little = bytes < SMALL_BYTES && self.streams.is_short(at, SMALL_BYTES.into());
        // Few windows are a multiple of a frame: after long frames a short one is due.
        if is_little && !mem::take(&mut self.flags.has_sent_much) {
            self.charge(Glitch::Trickle, cx)?;
        }
        Ok(())
    }

    /// True if these bytes, received next, may contain a request.
    pub(super) fn may_have_request(&self, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return self.streams.all().is_empty();
        }
        if !self.inbox.is_empty() || !self.has_preface() {
            return true;
        }
        let mut rest = bytes;
        while let Some(head) = FrameHead::read(rest) {
            if matches!(head.kind, FrameKind::Headers | FrameKind::Continuation) {
                return true;
            }
            let len = FRAME_HEAD_BYTES + head.bytes as usize;
            rest = rest.get(len..).unwrap_or_default();
        }
        // A part of a head may be that of a request.
        !rest.is_empty()
    }
}
