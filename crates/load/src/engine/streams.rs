//! Streams of connections in HTTP/2.
//!
//! Models know connections that carry one exchange at a time. Here such a connection is a *stream
//! place*: it has no socket, and asks on a stream of a connection that it shares with others. So
//! models, clocks, fates and verification are those of HTTP/1.1.

use super::core::{Conn, Core, Exchange};
use super::exchange::{Reply, Step};
use super::fate::Fate;
use super::http2::{
    BLOCK_BYTES_MAX, Found, Http2, OUT_BYTES_MAX, ROOM_BYTES, STREAM_MAX, Stream, next_frame,
    read_head,
};
use super::input::ConnId;
use crate::number::index;
use regatta_http::h1::ResponseBody;
use regatta_http::h2::frame::{
    self, END_HEADERS, END_STREAM, ErrorCode, Frame, FrameHead, FrameKind,
};
use regatta_sys::send_last;
use std::os::fd::AsFd;
use std::{io, mem};

/// Progress of a connection with one frame.
enum Followed {
    /// The frame is not complete.
    More,
    Next,
    Whole(Reply),
    /// The server does not speak HTTP/2.
    Bad,
}

impl Core<'_> {
    fn requests_most(&self) -> u64 {
        self.plan.options.requests_per_connection.unwrap_or(0)
    }

    /// Makes a place, on a connection that has room or on a new one.
    pub(super) fn open_place(&mut self, owner: u32) -> Result<ConnId, Fate> {
        let (streams, most) = (self.streams, self.requests_most());
        let of = loop {
            let Some(&last) = self.roomy.last() else {
                let made = self.open_conn(owner, 0)?;
                self.conns[made.at()].http2 = Some(Box::new(Http2::new()));
                self.roomy.push(made);
                continue;
            };
            let http2 = self.conns[last.at()].http2.as_ref().filter(|_| self.is_open(last));
            if http2.is_some_and(|http2| http2.has_room(streams, most)) {
                break last;
            }
            self.roomy.pop();
        };
        let connecting = self.conns[of.at()].connecting;
        let at = self.place();
        let conn = &mut self.conns[at];
        conn.stream = Some(Box::new(Stream { of, number: 0, window: 0, room: 0 }));
        (conn.owner, conn.opened, conn.connecting) = (owner, self.now, connecting);
        let id = conn.id(at);
        if let Some(http2) = &mut self.conns[of.at()].http2 {
            http2.places.push(id);
        }
        Ok(id)
    }

    /// A connection can carry requests: makes those that wait for it.
    pub(super) fn begin_streams(&mut self, of: ConnId) {
        let Some(http2) = &mut self.conns[of.at()].http2 else { return };
        for place in http2.places.clone() {
            self.conns[place.at()].connecting = false;
            if self.is_busy(place) {
                self.ask(place.at());
            }
        }
        self.list(of);
    }

    /// Writes the request of a place, or has it wait for a stream.
    pub(super) fn ask(&mut self, at: usize) {
        let conn = &self.conns[at];
        let Some(of) = conn.stream.as_ref().map(|stream| stream.of) else { return };
        if conn.connecting || !self.is_open(of) {
            return;
        }
        let (plan, now) = (self.plan, self.now);
        let Ok([conn, shared]) = self.conns.get_disjoint_mut([at, of.at()]) else { return };
        let id = conn.id(at);
        let (Some(stream), Some(http2)) = (&mut conn.stream, &mut shared.http2) else { return };
        let Some(flight) = conn.flights.front_mut() else { return };
        let start = flight.start;
        if http2.streams.len() >= index(http2.streams_max.into()) {
            http2.waiting.push_back(id);
        } else {
            let target = &plan.script.targets[index(flight.order.target.into())];
            let (block, content) = target.bytes.split_at(target.block_bytes);
            let flags = if content.is_empty() { END_HEADERS | END_STREAM } else { END_HEADERS };
            let bytes = u32::try_from(block.len()).unwrap_or(u32::MAX);
            (stream.number, http2.next) = (http2.next, http2.next + 2);
            stream.window = http2.peer.window_bytes.into();
            let kind = FrameKind::Headers;
            let head = FrameHead { bytes, kind, flags, stream: stream.number };
            frame::write_head(&mut http2.out, head);
            http2.out.extend_from_slice(block);
            http2.streams.push_back((stream.number, id));
            http2.begun += 1;
            http2.is_ending |= http2.next > STREAM_MAX - 2;
            flight.begun = now;
            if content.is_empty() {
                http2.ends.push_back((http2.out_before + http2.out.len() as u64, id));
            } else {
                http2.contents.push_back((id, 0));
                self.pour(of);
            }
        }
        self.deadline(at, start.saturating_add(plan.timeout_ns));
        self.list(of);
    }

    /// Writes contents of requests as far as windows allow.
    fn pour(&mut self, of: ConnId) {
        let plan = self.plan;
        let Some(mut http2) = self.conns[of.at()].http2.take() else { return };
        for _ in 0..http2.contents.len() {
            let Some((place, mut at)) = http2.contents.pop_front() else { break };
            let Conn { stream: Some(stream), flights, .. } = &mut self.conns[place.at()] else {
                continue;
            };
            let Some(flight) = flights.front() else { continue };
            let target = &plan.script.targets[index(flight.order.target.into())];
            let content = &target.bytes[target.block_bytes..];
            while at < content.len() {
                let window = http2.window.min(stream.window).min(http2.peer.frame_bytes_max.into());
                let bytes = usize::try_from(window).unwrap_or(0).min(content.len() - at);
                if bytes == 0 {
                    break;
                }
                let ends = at + bytes == content.len();
                let head = FrameHead {
                    bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                    kind: FrameKind::Data,
                    flags: if ends { END_STREAM } else { 0 },
                    stream: stream.number,
                };
                frame::write_head(&mut http2.out, head);
                http2.out.extend_from_slice(&content[at..at + bytes]);
                at += bytes;
                http2.window -= bytes as i64;
                stream.window -= bytes as i64;
            }
            if at < content.len() {
                http2.contents.push_back((place, at));
            } else {
                http2.ends.push_back((http2.out_before + http2.out.len() as u64, place));
            }
        }
        self.conns[of.at()].http2 = Some(http2);
        self.list(of);
    }

    /// Notes that a connection has frames to send.
    fn list(&mut self, of: ConnId) {
        if let Some(http2) = &mut self.conns[of.at()].http2
            && !mem::replace(&mut http2.is_listed, true)
        {
            self.listed.push(of);
        }
    }

    /// Sends the frames of all connections that have some.
    pub(super) fn flush_listed(&mut self) {
        while let Some(of) = self.listed.pop() {
            let open = self.is_open(of);
            let conn = &mut self.conns[of.at()];
            if let Some(http2) = conn.http2.as_mut().filter(|_| open) {
                http2.is_listed = false;
                if !conn.connecting {
                    self.flush_frames(of.at());
                }
            }
        }
    }

    /// Sends frames until the kernel takes no more.
    pub(super) fn flush_frames(&mut self, at: usize) {
        let sent = self.send_frames(at);
        let conn = &mut self.conns[at];
        let id = conn.id(at);
        let Some(http2) = &mut conn.http2 else { return };
        if let Err(error) = sent {
            return self.failed.push((id, Fate::of(&error)));
        }
        let all = http2.out_before + http2.out_at as u64;
        // Bytes that TLS has and the kernel has not are not sent.
        if conn.secure.as_ref().is_some_and(|secure| secure.has_unsent()) {
            return;
        }
        while let Some(http2) = &mut self.conns[at].http2
            && let Some(&(end, place)) = http2.ends.front()
            && end <= all
        {
            http2.ends.pop_front();
            if self.is_open(place) && self.is_busy(place) {
                self.sent(place.at(), true);
            }
        }
    }

    fn send_frames(&mut self, at: usize) -> io::Result<()> {
        let Self { conns, tally, .. } = self;
        let Conn { fd: Some(fd), secure, http2: Some(http2), .. } = &mut conns[at] else {
            return Ok(());
        };
        loop {
            if let Some(secure) = secure {
                tally.bytes_sent += secure.send(fd.as_fd())?;
                if secure.has_unsent() {
                    return Ok(());
                }
            }
            let rest = &http2.out[http2.out_at..];
            if rest.is_empty() {
                http2.out_before += http2.out.len() as u64;
                http2.out.clear();
                http2.out_at = 0;
                return Ok(());
            }
            http2.out_at += match secure {
                Some(secure) => secure.encrypt(rest)?,
                None => match send_last(fd.as_fd(), rest) {
                    Ok(bytes) => {
                        tally.bytes_sent += bytes;
                        index(bytes)
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(error),
                },
            };
        }
    }

    /// Advances a connection until an exchange ends or nothing is left to receive.
    pub(super) fn advance_streams(&mut self, id: ConnId) -> Step {
        let at = id.at();
        loop {
            while self.input.at < self.input.end {
                match self.take_frame(id) {
                    Followed::More | Followed::Next => {}
                    Followed::Whole(reply) => return Step::Reply(reply),
                    Followed::Bad => {
                        self.shatter(id, Fate::Malformed);
                        return Step::Wait;
                    }
                }
            }
            if !self.conns[at].more || !self.may_read(id) {
                return Step::Wait;
            }
            let fate = match self.receive(at) {
                Ok(0) => Fate::Reset,
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.conns[at].more = false;
                    continue;
                }
                Err(error) => Fate::of(&error),
            };
            self.shatter(id, fate);
            return Step::Wait;
        }
    }

    /// Ends a connection; what is in flight on it ends with this fate.
    pub(super) fn shatter(&mut self, id: ConnId, fate: Fate) {
        self.forget_input();
        let Some(http2) = self.conns[id.at()].http2.take() else { return };
        for place in http2.places {
            let begun = self.conns[place.at()].exchange.is_begun();
            let fate = if fate == Fate::Reset && begun { Fate::Truncated } else { fate };
            self.failed.push((place, fate));
        }
        self.close(id);
    }

    /// A place is closed: its stream ends, and perhaps its connection.
    pub(super) fn leave(&mut self, id: ConnId, stream: &Stream) {
        let (streams, most) = (self.streams, self.requests_most());
        let of = stream.of;
        if !self.is_open(of) {
            return;
        }
        let Some(http2) = &mut self.conns[of.at()].http2 else { return };
        http2.places.retain(|place| *place != id);
        http2.waiting.retain(|place| *place != id);
        if http2.place(stream.number) == Some(id) {
            http2.forget(stream.number);
            frame::write_rst_stream(&mut http2.out, stream.number, ErrorCode::CANCEL);
        }
        if http2.places.is_empty() && (http2.is_ending || http2.is_used_up(most)) {
            self.close(of);
            return;
        }
        if http2.has_room(streams, most) && !self.roomy.contains(&of) {
            self.roomy.push(of);
        }
        self.begin_waiting(of);
        self.list(of);
    }

    /// Makes requests that waited for a stream.
    fn begin_waiting(&mut self, of: ConnId) {
        while let Some(http2) = &mut self.conns[of.at()].http2
            && http2.streams.len() < index(http2.streams_max.into())
            && let Some(place) = http2.waiting.pop_front()
        {
            self.ask(place.at());
        }
    }

    fn take_frame(&mut self, id: ConnId) -> Followed {
        let Self { conns, input, .. } = self;
        let Some(http2) = &mut conns[id.at()].http2 else { return Followed::Bad };
        if http2.out.len() > OUT_BYTES_MAX {
            return Followed::Bad;
        }
        let found = match next_frame(&mut http2.held, input) {
            Ok(Some(found)) => found,
            Ok(None) => return Followed::More,
            Err(()) => return Followed::Bad,
        };
        let Found { head, is_held, start, end } = found;
        // The bytes are lent, so that all else may change meanwhile.
        let bytes = mem::take(if is_held { &mut http2.held } else { &mut input.bytes });
        let taken = match frame::read_frame(head, &bytes[start..end]) {
            Ok(read) => self.take(id, read),
            Err(_) => Followed::Bad,
        };
        if !is_held {
            self.input.bytes = bytes;
        } else if let Some(http2) = &mut self.conns[id.at()].http2 {
            http2.held = bytes;
            http2.held.clear();
        }
        taken
    }

    fn take(&mut self, id: ConnId, read: Frame<'_>) -> Followed {
        let Some(http2) = &mut self.conns[id.at()].http2 else { return Followed::Bad };
        if http2.block.is_some() && !matches!(read, Frame::Continuation { .. }) {
            return Followed::Bad;
        }
        match read {
            Frame::Data { stream, data, window_bytes, ends_stream } => {
                self.take_data(id, (stream, data), window_bytes, ends_stream)
            }
            Frame::Headers { stream, block, ends_stream, ends_block: true } => {
                self.take_block(id, stream, block, ends_stream)
            }
            Frame::Headers { stream, block, ends_stream, ends_block: false } => {
                http2.block = Some((stream, ends_stream, block.to_vec()));
                Followed::Next
            }
            Frame::Continuation { stream, block, ends_block } => {
                let Some((number, ends, mut whole)) = http2.block.take() else {
                    return Followed::Bad;
                };
                whole.extend_from_slice(block);
                if number != stream || whole.len() > BLOCK_BYTES_MAX {
                    return Followed::Bad;
                }
                if ends_block {
                    return self.take_block(id, stream, &whole, ends);
                }
                http2.block = Some((number, ends, whole));
                Followed::Next
            }
            control => self.take_control(id, control),
        }
    }

    fn take_control(&mut self, id: ConnId, control: Frame<'_>) -> Followed {
        let Some(http2) = &mut self.conns[id.at()].http2 else { return Followed::Bad };
        match control {
            Frame::Settings(payload) => {
                let Some(growth) = http2.settle(payload) else { return Followed::Bad };
                for place in http2.places.clone() {
                    if let Some(stream) = &mut self.conns[place.at()].stream {
                        stream.window += growth;
                    }
                }
                self.begin_waiting(id);
                self.pour(id);
            }
            Frame::Ping(bytes) => {
                frame::write_ping(&mut http2.out, bytes, true);
                self.list(id);
            }
            Frame::WindowUpdate { stream: 0, bytes } => {
                http2.window += i64::from(bytes);
                self.pour(id);
            }
            Frame::WindowUpdate { stream, bytes } => {
                if let Some(place) = http2.place(stream)
                    && let Some(stream) = &mut self.conns[place.at()].stream
                {
                    stream.window += i64::from(bytes);
                    self.pour(id);
                }
            }
            Frame::RstStream { stream, code } => {
                if let Some(place) = http2.place(stream) {
                    http2.forget(stream);
                    self.lose_stream(place, code == ErrorCode::REFUSED_STREAM);
                    self.begin_waiting(id);
                }
            }
            Frame::GoAway { last, .. } => {
                http2.is_ending = true;
                let places = http2.places.clone();
                for place in places {
                    let number = self.conns[place.at()].stream.as_ref().map_or(0, |s| s.number);
                    if number == 0 || number > last {
                        // The server promises that it has done nothing.
                        self.lose_stream(place, true);
                    }
                }
            }
            _ => {}
        }
        Followed::Next
    }

    /// The exchange of a place fails, and the place with it. It may be made again if the server has
    /// promised that it has not begun.
    fn lose_stream(&mut self, place: ConnId, again: bool) {
        let conn = &mut self.conns[place.at()];
        conn.replies = u64::from(again);
        let fate = if conn.exchange.is_begun() { Fate::Truncated } else { Fate::Reset };
        self.failed.push((place, fate));
    }

    fn take_block(&mut self, id: ConnId, number: u32, block: &[u8], ends: bool) -> Followed {
        let (plan, now) = (self.plan, self.now);
        let Some(http2) = &mut self.conns[id.at()].http2 else { return Followed::Bad };
        let Some(place) = http2.place(number) else {
            // A field block of a stream that was given up changes the table all the same.
            return if http2.decoder.skip(block).is_ok() { Followed::Next } else { Followed::Bad };
        };
        let Ok([conn, shared]) = self.conns.get_disjoint_mut([place.at(), id.at()]) else {
            return Followed::Bad;
        };
        let (Some(http2), Some(flight)) = (&mut shared.http2, conn.flights.front_mut()) else {
            return Followed::Bad;
        };
        if flight.first == 0 {
            flight.first = now;
        }
        let exchange = &mut conn.exchange;
        if exchange.head.is_some() {
            // Trailers.
            let fine = http2.decoder.skip(block).is_ok() && ends;
            return if fine { self.finish(id, place, number) } else { Followed::Bad };
        }
        let target = &plan.script.targets[index(flight.order.target.into())];
        let Some(head) = read_head(&mut http2.decoder, block, target.method) else {
            return Followed::Bad;
        };
        if head.status < 200 {
            return if ends { Followed::Bad } else { Followed::Next };
        }
        if head.status == 200 {
            exchange.check = target.expect.check(flight.floor, head.coded);
        }
        exchange.head = Some(head);
        if ends { self.finish(id, place, number) } else { Followed::Next }
    }

    fn take_data(
        &mut self,
        id: ConnId,
        (number, data): (u32, &[u8]),
        window_bytes: u32,
        ends: bool,
    ) -> Followed {
        let plan = self.plan;
        let Some(http2) = &mut self.conns[id.at()].http2 else { return Followed::Bad };
        http2.room += window_bytes;
        let opens = http2.room >= ROOM_BYTES;
        if opens {
            frame::write_window_update(&mut http2.out, 0, mem::take(&mut http2.room));
        }
        let place = http2.place(number);
        if opens {
            self.list(id);
        }
        let Some(place) = place else { return Followed::Next };
        let Ok([conn, shared]) = self.conns.get_disjoint_mut([place.at(), id.at()]) else {
            return Followed::Bad;
        };
        let Conn { exchange, flights, stream: Some(stream), .. } = conn else {
            return Followed::Bad;
        };
        let (Some(flight), Some(http2)) = (flights.front(), &mut shared.http2) else {
            return Followed::Bad;
        };
        if exchange.head.is_none() {
            return Followed::Bad;
        }
        let expect = &plan.script.targets[index(flight.order.target.into())].expect;
        expect.feed(&mut exchange.check, data);
        exchange.bytes += data.len() as u64;
        if ends {
            return self.finish(id, place, number);
        }
        stream.room += window_bytes;
        if stream.room >= ROOM_BYTES {
            frame::write_window_update(&mut http2.out, number, mem::take(&mut stream.room));
            self.list(id);
        }
        Followed::Next
    }

    /// A response is whole.
    fn finish(&mut self, id: ConnId, place: ConnId, number: u32) -> Followed {
        let most = self.requests_most();
        let Ok([conn, shared]) = self.conns.get_disjoint_mut([place.at(), id.at()]) else {
            return Followed::Bad;
        };
        let (Some(stream), Some(http2)) = (&mut conn.stream, &mut shared.http2) else {
            return Followed::Bad;
        };
        let (Some(flight), Some(head)) = (conn.flights.pop_front(), conn.exchange.head.take())
        else {
            return Followed::Bad;
        };
        let Exchange { check, bytes, .. } = mem::take(&mut conn.exchange);
        (stream.number, stream.room, conn.unsent) = (0, 0, 0);
        (conn.replies, conn.deadline) = (conn.replies + 1, u64::MAX);
        let owner = conn.owner;
        let keep = !http2.is_ending && !http2.is_used_up(most);
        http2.forget(number);
        if flight.sent == 0 {
            // The server needs no more of the request (RFC 9113 §8.1).
            frame::write_rst_stream(&mut http2.out, number, ErrorCode::CANCEL);
            self.list(id);
        }
        self.begin_waiting(id);
        let fate = match head.body {
            ResponseBody::Length(length) if length != bytes => Fate::Malformed,
            _ => self.judge(&flight, head, &check, bytes),
        };
        self.answer(&flight, head, fate, bytes);
        Followed::Whole(Reply { conn: place, owner, keep })
    }
}
