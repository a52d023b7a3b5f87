//! Frames to the client: control frames first, then heads and bodies by priority.
use super::{
    CONTROL_BYTES_MAX, KEPT_ENDS, Phase, SEND_BYTES_MAX, Session, Timer, exchange::number,
    receive::SMALL_BYTES,
};
use crate::{Cx, multi::Slot};
use alloc::vec::Vec;
use core::mem;
use regatta_http::h2::{
    frame::{
        END_HEADERS, END_STREAM, FRAME_HEAD_BYTES, FrameHead, FrameKind, write_head,
        write_window_update,
    },
    hpack::write_no_table,
};
use regatta_op::{File, Now, Outbox};

/// The largest payload of DATA: frame and head fill a record of TLS.
const DATA_BYTES_MAX: u64 = 16_375;
/// Room that is too short for a part of a longer body.
const DATA_ROOM_MIN: u64 = 1 << 10;
/// Frames with which a client answers DATA: it permits as many bytes to the stream and to the
/// connection.
const UPDATES_PER_DATA: u32 = 2;
/// The most windows of a few bytes that are free at a time: a client may permit the ends of many
/// short bodies one by one.
const FREE_TRICKLES_MAX: u8 = 128;
/// Content that is permitted again without other frames to send, bytes. The client has room for
/// three times as many left.
const CREDIT_BYTES_MIN: u32 = 16 << 10;

impl<F: File> Session<F> {
    /// Puts the frames of the next `Send` together, unless one is due or in flight.
    pub(super) fn compose(&mut self, now: Now, cx: &Cx<'_, F>) {
        if self.phase != Phase::Serves || self.lent.send || !self.out.is_empty() {
            return;
        }
        let has_streams = !self.flags.discards && self.streams.has_sender(self.free_window());
        let is_due = self.credit >= CREDIT_BYTES_MIN;
        if self.control.is_empty() && !has_streams && !is_due {
            return;
        }
        let credit = mem::take(&mut self.credit);
        if credit > 0 && !self.flags.discards {
            write_window_update(&mut self.control, 0, credit);
        }
        // Control frames are in a small buffer, which is of no use to others.
        let mut frames = cx.scratch.take_buffer();
        frames.append(&mut mem::take(&mut self.control));
        while has_streams && self.compose_next(&mut frames, now, cx) {}
        // A stream may have been reset behind its last frame.
        debug_assert!(self.control.len() <= CONTROL_BYTES_MAX, "few streams end at once");
        frames.append(&mut mem::take(&mut self.control));
        self.out = Outbox::new(frames);
        self.set_timer(Timer::Send, now.tick.after(cx.site.deadlines.send_window_ms));
    }

    /// Appends frames of the stream that is next by priority; false if there is none, or no room.
    fn compose_next(&mut self, frames: &mut Vec<u8>, now: Now, cx: &Cx<'_, F>) -> bool {
        let room = SEND_BYTES_MAX.saturating_sub(frames.len() + FRAME_HEAD_BYTES) as u64;
        let window = self.free_window();
        let Some(at) = self.streams.next_sender(window) else { return false };
        let stream = self.streams.get(at);
        let (head_bytes, rest) = (stream.head_bytes(), stream.rest());
        let bytes = if head_bytes > 0 {
            if head_bytes > room && !frames.is_empty() {
                return false;
            }
            self.write_headers(at, frames);
            head_bytes
        } else {
            let frame_max = u64::from(self.settings.frame_bytes_max).min(DATA_BYTES_MAX);
            let most = stream.sendable(window).min(frame_max);
            if most > room && room < DATA_ROOM_MIN {
                return false;
            }
            let bytes = most.min(room);
            let flags = if bytes == rest { END_STREAM } else { 0 };
            let len = u32::try_from(bytes).unwrap_or(u32::MAX);
            let id = number(stream.id);
            write_head(frames, FrameHead { bytes: len, kind: FrameKind::Data, flags, stream: id });
            self.updates = self.updates.saturating_add(UPDATES_PER_DATA);
            self.flags.has_sent_much |= len >= SMALL_BYTES;
            let is_whole = len >= SMALL_BYTES || bytes == rest;
            self.free_trickles = (self.free_trickles + u8::from(is_whole)).min(FREE_TRICKLES_MAX);
            stream.copy_to(frames, bytes);
            bytes
        };
        let body = self.streams.frame(at, bytes);
        self.window = self.window.saturating_sub(body);
        self.framed = self.framed.saturating_add(body);
        let stream = self.streams.get_mut(at);
        if let Some(buffer) = stream.take_used() {
            cx.scratch.give_read_buffer(buffer);
        }
        // A stream that waits for a window keeps no buffer meanwhile.
        if let Some(buffer) = stream.take_used_head() {
            cx.scratch.give_buffer(buffer);
        }
        if bytes == rest {
            self.finish(at, now, cx);
        }
        true
    }

    /// Appends the field block of a response, in as many frames as the client demands.
    fn write_headers(&mut self, at: Slot, frames: &mut Vec<u8>) {
        let is_first = !mem::replace(&mut self.flags.has_sent_block, true);
        let mut statement = Vec::new();
        if is_first {
            write_no_table(&mut statement);
        }
        let frame_max = self.settings.frame_bytes_max as usize;
        let stream = self.streams.get(at);
        let id = number(stream.id);
        let head_bytes = usize::try_from(stream.head_bytes()).unwrap_or(usize::MAX);
        let block = stream.out().head().get(..head_bytes).unwrap_or_default();
        let ends = if stream.head_bytes() == stream.rest() { END_STREAM } else { 0 };
        let (mut kind, mut flags) = (FrameKind::Headers, ends);
        let mut rest = block;
        loop {
            let (part, behind) = rest.split_at(rest.len().min(frame_max - statement.len()));
            if behind.is_empty() {
                flags |= END_HEADERS;
            }
            let bytes = u32::try_from(statement.len() + part.len()).unwrap_or(u32::MAX);
            write_head(frames, FrameHead { bytes, kind, flags, stream: id });
            frames.append(&mut statement);
            frames.extend_from_slice(part);
            if behind.is_empty() {
                return;
            }
            (kind, flags, rest) = (FrameKind::Continuation, 0, behind);
        }
    }

    /// Takes a buffer for the next part of a body in a file, if one can be read now.
    pub(super) fn prepare_load(&mut self, cx: &Cx<'_, F>) {
        let bytes = self.streams.next_load(self.free_window());
        if bytes == 0 || self.phase != Phase::Serves {
            if let Some(buffer) = self.spare.take() {
                cx.scratch.give_read_buffer(buffer);
            }
            return;
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if self.spare.as_ref().is_none_or(|buffer| buffer.capacity() < bytes) {
            if let Some(buffer) = self.spare.take() {
                cx.scratch.give_read_buffer(buffer);
            }
            self.spare = Some(cx.scratch.take_read_buffer(bytes));
        }
    }

    /// Releases memory that nothing needs.
    pub(super) fn trim(&mut self) {
        if self.ends.is_empty() {
            self.ends.shrink_to(KEPT_ENDS);
        }
        if self.streams.all().is_empty() && self.late.is_empty() {
            self.late = Vec::new();
        }
    }
}
