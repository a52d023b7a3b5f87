//! Frames that a client receives: their order, their windows, and the state of their streams.
use super::{
    client::H2Client,
    stream::{ClientStream, Progress, content_bytes, read_response},
};
use crate::{
    BrokenCheck,
    dice::index,
    plant::Plant,
    talk::{Arrival, Trouble},
    trace::Stamp,
};
use regatta_http::h2::frame::{
    ACK, END_HEADERS, END_STREAM, FRAME_HEAD_BYTES, FrameHead, FrameKind, PREFACE, WINDOW_BYTES_MAX,
};

/// Numbers of settings of the server that bind a client.
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// Frame from the server.
#[derive(Clone, Debug)]
pub(super) struct Received {
    head: FrameHead,
    payload: Vec<u8>,
    /// Time at which its first byte was offered.
    offered: Stamp,
    /// Earliest time at which it may have been composed.
    composed: Stamp,
    /// Whether it was offered as soon as it was composed.
    is_prompt: bool,
}

/// Event of a stream, to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEvent {
    /// The response has come in full.
    Answered(u32),
    /// The server has reset the stream with this code.
    Reset(u32, u32),
}

type Outcome = Result<Option<StreamEvent>, BrokenCheck>;

impl H2Client {
    /// Adds received bytes.
    pub(super) fn note_bytes(&mut self, bytes: &[u8], arrival: &Arrival) {
        if self.inbox.is_empty() {
            (self.inbox_offered, self.inbox_composed) = (arrival.offered, arrival.composed);
        }
        self.inbox.extend_from_slice(bytes);
    }

    /// Splits the next whole frame from the received bytes.
    pub(super) fn next_frame(
        &mut self,
        arrival: &Arrival,
    ) -> Result<Option<Received>, BrokenCheck> {
        if !self.has_settings && self.inbox.starts_with(b"HTTP/1.1 ") {
            let preface = self.delivered_at(PREFACE.len() as u64);
            let has_come = preface.is_some_and(|at| at.step < self.inbox_offered.step);
            if has_come && !self.had(Trouble::TurnedAway, Stamp::default()) {
                return Err("an answer by HTTP/1 to the preface of HTTP/2".into());
            }
            self.is_text = true;
        }
        if self.is_text {
            self.inbox.clear();
            return Ok(None);
        }
        let Some(head) = FrameHead::read(&self.inbox) else { return Ok(None) };
        if head.bytes > self.frame_bytes_max {
            let most = self.frame_bytes_max;
            return Err(format!("a frame of {} bytes, and {most} are allowed", head.bytes).into());
        }
        let end = FRAME_HEAD_BYTES + index(u64::from(head.bytes));
        if self.inbox.len() < end {
            return Ok(None);
        }
        let payload = self.inbox[FRAME_HEAD_BYTES..end].to_vec();
        self.inbox.drain(..end);
        let (offered, composed) = (self.inbox_offered, self.inbox_composed);
        (self.inbox_offered, self.inbox_composed) = (arrival.offered, arrival.composed);
        Ok(Some(Received { head, payload, offered, composed, is_prompt: arrival.is_prompt }))
    }

    /// Alters a frame, if a mistake is planted; returns a frame to follow it.
    pub(super) fn spoil(&mut self, received: &mut Received) -> Option<Received> {
        let Received { head, payload, .. } = received;
        let is_exhausted = |stream: &ClientStream| {
            i64::from(head.bytes) == stream.window.min(self.window) && head.bytes > 0
        };
        let ends = head.has(END_STREAM);
        match self.plant? {
            Plant::WindowPlusOne
                if head.kind == FrameKind::Data
                    && self.streams.get(&head.stream).is_some_and(is_exhausted) =>
            {
                payload.push(b'+');
                head.bytes += 1;
            }
            Plant::LostEndStream if head.kind == FrameKind::Data && ends => {
                head.flags &= !END_STREAM;
            }
            Plant::SecondTrailers
                if head.kind == FrameKind::Headers && !ends && head.has(END_HEADERS) =>
            {
                return Some(received.clone());
            }
            _ => {}
        }
        None
    }

    /// Takes a frame.
    pub(super) fn take(&mut self, received: &Received) -> Outcome {
        let Received { head, payload, .. } = received;
        let FrameHead { kind, stream, .. } = *head;
        if !self.has_settings && (kind != FrameKind::Settings || head.has(ACK)) {
            return Err(format!("{kind:?} is the first frame").into());
        }
        if self.broken.is_some() && kind != FrameKind::GoAway {
            // What the server has taken of it is not known.
            self.has_settings = true;
            return Ok(None);
        }
        if self.block.is_some() && kind != FrameKind::Continuation {
            return Err(format!("{kind:?} within a field block").into());
        }
        match kind {
            FrameKind::Data => self.take_data(received),
            FrameKind::Headers => {
                self.check_sender(received)?;
                if head.flags & !(END_STREAM | END_HEADERS) != 0 {
                    return Err(format!("HEADERS with the flags {:#x}", head.flags).into());
                }
                self.block = Some((stream, head.flags, Vec::new()));
                self.take_block(received)
            }
            FrameKind::Continuation => self.take_block(received),
            FrameKind::RstStream => self.take_reset(received),
            FrameKind::Settings => self.take_settings(received).map(|()| None),
            FrameKind::Ping => {
                if payload.len() != 8 || stream != 0 {
                    return Err("a malformed PING".into());
                }
                if !head.has(ACK) {
                    let mut answer = FrameHead { flags: ACK, ..*head }.to_bytes().to_vec();
                    answer.extend_from_slice(payload);
                    self.owed.push_back(answer);
                } else if payload[..] != [9; 8] {
                    return Err("an answer to no PING".into());
                }
                Ok(None)
            }
            FrameKind::GoAway => self.take_goaway(received).map(|()| None),
            FrameKind::WindowUpdate => self.take_room(received).map(|()| None),
            _ => Err(format!("{kind:?} from a server").into()),
        }
    }

    /// Checks that the server may send HEADERS or DATA on the stream of a frame.
    fn check_sender(&self, received: &Received) -> Result<(), BrokenCheck> {
        let FrameHead { kind, stream: id, .. } = received.head;
        let Some(stream) = self.streams.get(&id) else {
            return Err(format!("{kind:?} on stream {id}, in which nothing was asked").into());
        };
        let is_late = match stream.progress {
            Progress::Open => false,
            // What was composed before it came is still sent.
            Progress::ResetByClient(end) => {
                let delivered = self.delivered_at(end);
                let knows = delivered.is_some_and(|at| at.step < received.offered.step);
                received.is_prompt && knows
            }
            _ => true,
        };
        if is_late {
            let progress = stream.progress;
            return Err(format!("{kind:?} on stream {id}, which has ended: {progress:?}").into());
        }
        Ok(())
    }

    fn take_data(&mut self, received: &Received) -> Outcome {
        self.check_sender(received)?;
        let Received { head, payload, .. } = received;
        let (id, ends) = (head.stream, head.has(END_STREAM));
        if head.flags & !END_STREAM != 0 {
            return Err(format!("DATA with the flags {:#x}", head.flags).into());
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(None) };
        let bytes = i64::from(head.bytes);
        for (of, window) in [("the connection", self.window), ("the stream", stream.window)] {
            if bytes > window && bytes > 0 {
                return Err(format!(
                    "{bytes} bytes on stream {id}, and the window has {window}: {of}"
                )
                .into());
            }
        }
        self.window -= bytes;
        stream.window -= bytes;
        let before = self.contents.last().map_or(0, |(_, total)| *total);
        self.contents.push((received.composed.tick, before + u64::from(head.bytes)));
        let Some(response) = &mut stream.response else {
            return Err(format!("DATA on stream {id} before its response").into());
        };
        if bytes == 0 && !response.body.is_empty() {
            return Err(format!("an empty DATA behind the content of stream {id}").into());
        }
        response.body.extend_from_slice(payload);
        let (came, promised) = (response.body.len() as u64, response.promised);
        if came > promised || ends && came < promised {
            return Err(format!("{came} bytes of {promised} on stream {id}").into());
        }
        if came == promised && !ends {
            return Err(format!("stream {id} does not end with its content").into());
        }
        Ok(ends.then(|| self.end_stream(id)).flatten())
    }

    /// Notes that the response of a stream has ended.
    fn end_stream(&mut self, id: u32) -> Option<StreamEvent> {
        let stream = self.streams.get_mut(&id).filter(|it| it.progress == Progress::Open)?;
        stream.progress = Progress::Answered;
        Some(StreamEvent::Answered(id))
    }

    /// Takes a part of a field block, and the block if it is complete.
    fn take_block(&mut self, received: &Received) -> Outcome {
        let Received { head, payload, .. } = received;
        let id = head.stream;
        let Some((of, flags, mut block)) = self.block.take().filter(|(of, ..)| *of == id) else {
            return Err(format!("CONTINUATION on stream {id} without HEADERS").into());
        };
        block.extend_from_slice(payload);
        if !head.has(END_HEADERS) {
            self.block = Some((of, flags, block));
            return Ok(None);
        }
        let mut response = read_response(&mut self.decoder, &block, received.offered)?;
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(None) };
        if stream.response.is_some() {
            return Err(format!("HEADERS behind the fields of its response: stream {id}").into());
        }
        response.promised = content_bytes(&response, stream)?;
        response.head_done = true;
        let ends = flags & END_STREAM != 0;
        let (promised, bodiless) = (response.promised, stream.is_bodiless(response.status));
        stream.response = Some(response);
        if ends && promised > 0 || bodiless && !ends {
            return Err(format!("HEADERS of stream {id}, {promised} bytes, ends: {ends}").into());
        }
        Ok(ends.then(|| self.end_stream(id)).flatten())
    }

    fn take_reset(&mut self, received: &Received) -> Outcome {
        let id = received.head.stream;
        let code = number_at(&received.payload, 0).ok_or("a malformed RST_STREAM")?;
        match self.streams.get(&id).map(|stream| stream.progress) {
            None => Err(format!("RST_STREAM of stream {id}, in which nothing was asked").into()),
            Some(Progress::ResetByServer) => Err(format!("stream {id} is reset twice").into()),
            // They cross.
            Some(Progress::ResetByClient(_)) => Ok(None),
            Some(_) => Ok(Some(StreamEvent::Reset(id, code))),
        }
    }

    fn take_settings(&mut self, received: &Received) -> Result<(), BrokenCheck> {
        let Received { head, payload, .. } = received;
        if head.stream != 0 || !payload.len().is_multiple_of(6) {
            return Err("malformed SETTINGS".into());
        }
        if head.has(ACK) {
            let sent = self.settings.pop_front().filter(|_| payload.is_empty());
            let sent = sent.ok_or("an acknowledgement of no settings")?;
            self.frame_bytes_max = sent.frame_bytes_max.unwrap_or(self.frame_bytes_max);
            if let Some(window) = sent.window {
                let change = i64::from(window) - self.initial;
                self.initial += change;
                self.streams.values_mut().for_each(|stream| stream.window += change);
            }
            return Ok(());
        }
        for setting in payload.chunks_exact(6) {
            let id = u16::from_be_bytes([setting[0], setting[1]]);
            let value = number_at(setting, 2).unwrap_or_default();
            match id {
                MAX_CONCURRENT_STREAMS => self.streams_max = value,
                INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - self.initial_room;
                    self.initial_room += change;
                    self.streams.values_mut().for_each(|stream| stream.room += change);
                }
                _ => {}
            }
        }
        self.has_settings = true;
        let ack = FrameHead { bytes: 0, flags: ACK, ..*head };
        self.owed.push_back(ack.to_bytes().to_vec());
        Ok(())
    }

    fn take_goaway(&mut self, received: &Received) -> Result<(), BrokenCheck> {
        let (last, code) = number_at(&received.payload, 0)
            .zip(number_at(&received.payload, 4))
            .ok_or("a malformed GOAWAY")?;
        if self.goaway.is_some_and(|(before, _)| last > before) {
            return Err(format!("GOAWAY with stream {last}, after an earlier one").into());
        }
        self.goaway = Some((last, code));
        (self.goaway_composed, self.goaway_offered) = (received.composed, received.offered);
        self.was_starving = self.is_starving();
        if self.broken.is_some() {
            return Ok(());
        }
        // Errors of a peer, which this one has not made.
        if matches!(code, 1 | 3 | 5 | 6 | 9) && !self.is_oversized {
            return Err(format!("GOAWAY with code {code} to a client that kept the rules").into());
        }
        for (id, stream) in self.streams.iter_mut().filter(|(id, _)| **id > last) {
            if stream.response.is_some() || stream.progress == Progress::ResetByServer {
                return Err(format!("GOAWAY with stream {last}, and {id} was answered").into());
            }
            if stream.progress == Progress::Open {
                stream.progress = Progress::Unprocessed;
            }
        }
        Ok(())
    }

    fn take_room(&mut self, received: &Received) -> Result<(), BrokenCheck> {
        let id = received.head.stream;
        let bytes = number_at(&received.payload, 0).ok_or("a malformed WINDOW_UPDATE")?;
        let bytes = i64::from(bytes);
        let room = match self.streams.get_mut(&id) {
            Some(stream) => &mut stream.room,
            None if id == 0 => &mut self.room,
            None => return Err(format!("WINDOW_UPDATE of stream {id}, which is idle").into()),
        };
        *room += bytes;
        if bytes == 0 || *room > i64::from(WINDOW_BYTES_MAX) {
            return Err(format!("WINDOW_UPDATE of stream {id} by {bytes}: {room}").into());
        }
        Ok(())
    }
}

/// The number in four bytes at this place.
fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}
