//! A client of HTTP/2: what it sends, and the windows that it opens.
use super::{
    compose::{self, Made, Sources},
    encoder::Encoder,
    stream::{ClientStream, Progress},
    violation::{self, push_frame},
};
use crate::{
    dice::{Dice, index},
    peer::Peer,
    plant::Plant,
    talk::Trouble,
    trace::Stamp,
};
use regatta_http::h2::{
    frame::{
        self, END_HEADERS, END_STREAM, ErrorCode, FRAME_BYTES_DEFAULT, FrameKind, PADDED, PREFACE,
        PRIORITY, WINDOW_BYTES_DEFAULT,
    },
    hpack::{HpackDecoder, TABLE_BYTES_DEFAULT},
};
use std::collections::{BTreeMap, VecDeque};

/// The points that a client spends on frames that a server limits.
const POINTS: u32 = 700;
/// Points below which windows are opened wide.
const POINTS_LOW: u32 = 250;
/// Target of a window that is opened wide, bytes.
const WIDE_BYTES: i64 = 1 << 20;

/// Settings on their way to the server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentSettings {
    pub(super) window: Option<u32>,
    pub(super) frame_bytes_max: Option<u32>,
}

/// Habits of a client.
#[derive(Debug)]
struct Habits {
    /// The most streams at once.
    streams: u64,
    /// Windows that it keeps open, bytes: of the connection, and of a stream.
    targets: [i64; 2],
    /// Whether it opens windows as soon as it can.
    is_generous: bool,
    /// Number of granted bytes after which it opens no window.
    stalls_at: u64,
    /// Whether it resets streams, and changes settings.
    resets: bool,
    changes_settings: bool,
    /// Whether the server's first announcement of its end keeps it from more requests.
    heeds: bool,
    /// Offset from which it breaks a rule.
    breaks_at: u64,
    /// Whether it announces its own end after its last request.
    says_goodbye: bool,
}

impl Habits {
    fn new(dice: &mut Dice, breaks: bool) -> Self {
        let is_generous = !dice.one_in(3);
        Self {
            streams: dice.pick(&[1, 2, 5, 30]),
            targets: [
                dice.pick(&[1, 5_000, 65_535, WIDE_BYTES]),
                dice.pick(&[1, 100, 5_000, 65_535, WIDE_BYTES]),
            ],
            is_generous,
            stalls_at: if is_generous || dice.one_in(2) { u64::MAX } else { dice.below(30_000) },
            resets: dice.one_in(3),
            changes_settings: dice.one_in(2),
            heeds: dice.one_in(2),
            breaks_at: if breaks && dice.one_in(2) { 60 + dice.below(1_500) } else { u64::MAX },
            says_goodbye: dice.one_in(8),
        }
    }
}

/// Frames that break a rule: the server must have noticed once they have been delivered.
#[derive(Debug)]
pub(super) struct Broken {
    /// Start and end of the frames in the client's bytes.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) codes: &'static [u32],
    pub(super) is_of_streams: bool,
}

/// Client on a connection.
#[derive(Debug)]
pub(super) struct H2Client {
    dice: Dice,
    habits: Habits,
    encoder: Encoder,
    pub(super) decoder: HpackDecoder,
    /// Bytes received that are no whole frame, the time at which the first was offered, and the
    /// earliest at which it may have been composed.
    pub(super) inbox: Vec<u8>,
    pub(super) inbox_offered: Stamp,
    pub(super) inbox_composed: Stamp,
    /// Stream, flags and bytes of a field block that is not complete.
    pub(super) block: Option<(u32, u8, Vec<u8>)>,
    pub(super) streams: BTreeMap<u32, ClientStream>,
    pub(super) next: u32,
    /// Number of bytes said so far.
    said: u64,
    /// Bytes that the core has received, and the times: ends of pieces.
    received: Vec<(u64, Stamp)>,
    /// Answers that must precede everything else.
    pub(super) owed: VecDeque<Vec<u8>>,
    /// Bytes that the server may send on the connection, and the initial window of its streams.
    pub(super) window: i64,
    pub(super) initial: i64,
    pub(super) frame_bytes_max: u32,
    pub(super) settings: VecDeque<SentSettings>,
    /// Bytes that the client may send on the connection and initially on a stream.
    pub(super) room: i64,
    pub(super) initial_room: i64,
    pub(super) streams_max: u32,
    pub(super) has_settings: bool,
    /// Last announcement of the server's end: the last stream, and the code.
    pub(super) goaway: Option<(u32, u32)>,
    /// Earliest time at which it may have been composed, and the time at which it was offered.
    pub(super) goaway_composed: Stamp,
    pub(super) goaway_offered: Stamp,
    /// Whether a window was too small when it came.
    pub(super) was_starving: bool,
    /// Bytes of content received by each of the earliest times at which it may have been composed.
    pub(super) contents: Vec<(u64, u64)>,
    /// End of the last frame in the client's bytes that opened a window, or reset a stream.
    grants_end: u64,
    said_goodbye: bool,
    granted: u64,
    points: u32,
    pub(super) troubles: Vec<(Trouble, Stamp)>,
    /// Whether the server has answered an unfinished preface by HTTP/1.
    pub(super) is_text: bool,
    pub(super) broken: Option<Broken>,
    /// Whether a field block is longer than the server's limit.
    pub(super) is_oversized: bool,
    pub(super) plant: Option<Plant>,
}

impl H2Client {
    pub(super) fn new(
        dice: &mut Dice,
        peer: &mut Peer,
        breaks: bool,
        plant: Option<Plant>,
    ) -> Self {
        let mut dice = Dice::seeded(dice.below(1 << 60));
        // It leaves when all requests are answered, or earlier.
        peer.burst = if dice.one_in(8) { 2 } else { 1 };
        let habits = Habits::new(&mut dice, breaks);
        Self {
            dice,
            habits,
            encoder: Encoder::new(),
            decoder: HpackDecoder::for_client(TABLE_BYTES_DEFAULT),
            inbox: Vec::new(),
            inbox_offered: Stamp::default(),
            inbox_composed: Stamp::default(),
            block: None,
            streams: BTreeMap::new(),
            next: 1,
            said: 0,
            received: Vec::new(),
            owed: VecDeque::new(),
            window: i64::from(WINDOW_BYTES_DEFAULT),
            initial: i64::from(WINDOW_BYTES_DEFAULT),
            frame_bytes_max: FRAME_BYTES_DEFAULT,
            settings: VecDeque::new(),
            room: i64::from(WINDOW_BYTES_DEFAULT),
            initial_room: i64::from(WINDOW_BYTES_DEFAULT),
            streams_max: u32::MAX,
            has_settings: false,
            goaway: None,
            goaway_composed: Stamp::default(),
            goaway_offered: Stamp::default(),
            was_starving: false,
            contents: Vec::new(),
            grants_end: 0,
            said_goodbye: false,
            granted: 0,
            points: POINTS,
            troubles: Vec::new(),
            is_text: false,
            broken: None,
            is_oversized: false,
            plant,
        }
    }

    /// Notes that the core has received the first `end` bytes.
    pub(super) fn note_received(&mut self, end: u64, now: Stamp) {
        if self.received.last().is_none_or(|(before, _)| *before < end) {
            self.received.push((end, now));
        }
    }

    /// Time at which the core had received the first `offset` bytes.
    pub(super) fn delivered_at(&self, offset: u64) -> Option<Stamp> {
        let at = self.received.partition_point(|(end, _)| *end < offset);
        self.received.get(at).map(|(_, stamp)| *stamp)
    }

    /// Whether the core has received the bytes that break a rule.
    pub(super) fn has_broken(&self) -> bool {
        self.broken_at().is_some()
    }

    /// Time at which the core had received all bytes that break a rule.
    pub(super) fn broken_at(&self) -> Option<Stamp> {
        self.broken.as_ref().and_then(|broken| self.delivered_at(broken.end))
    }

    /// Whether some bytes of the breach have been delivered: more frames may be behind the fault.
    pub(super) fn may_have_broken(&self) -> bool {
        self.broken.as_ref().is_some_and(|broken| self.delivered_at(broken.start + 1).is_some())
    }

    /// Whether there was this trouble at `since` or later.
    pub(super) fn had(&self, trouble: Trouble, since: Stamp) -> bool {
        self.troubles.iter().any(|(it, at)| *it == trouble && at.step >= since.step)
    }

    /// Whether the server may wait for a window for long.
    pub(super) fn may_stall(&self) -> bool {
        let is_starved = self.streams.values().any(|stream| stream.is_starved);
        !self.habits.is_generous || is_starved || self.broken.is_some()
    }

    /// Whether the client has announced its end.
    pub(super) const fn has_said_goodbye(&self) -> bool {
        self.said_goodbye
    }

    /// Number of streams whose response is missing.
    pub(super) fn open(&self) -> u64 {
        let open = self.streams.values().filter(|stream| stream.progress == Progress::Open);
        open.count() as u64
    }

    /// Whether it has something to send later.
    pub(super) fn will_say(&self) -> bool {
        if self.said == 0 || self.broken.is_some() {
            return false;
        }
        let grants = !self.is_stalled() && self.is_starving();
        grants || !self.owed.is_empty() || self.sending().next().is_some()
    }

    const fn is_stalled(&self) -> bool {
        self.granted >= self.habits.stalls_at
    }

    /// Bytes by which a window is too small: of a stream, or of the connection (0).
    fn grant(&self, stream: u32) -> i64 {
        let [of_connection, of_stream] = self.habits.targets;
        let is_low = self.points < POINTS_LOW;
        let wide = |target: i64| if is_low { WIDE_BYTES } else { target };
        let (target, window) = match self.streams.get(&stream) {
            Some(stream) => (wide(of_stream), stream.window),
            None => (wide(of_connection), self.window),
        };
        // A window that is opened wide is opened by much.
        let least = if is_low { WIDE_BYTES / 2 } else { 1 };
        let missing = target - window;
        if missing < least { 0 } else { missing }
    }

    /// Whether a window is too small.
    pub(super) fn is_starving(&self) -> bool {
        self.grant(0) > 0 || self.starving().next().is_some()
    }

    /// Whether a server that stops to wait for a window may do so. The client had not opened it, or
    /// reset the stream, `window_ms` before. Since then, it has been sent less than `due` bytes of
    /// content, and it must have used what it was sent before.
    pub(super) fn opens_late(&self, window_ms: u64, due: u64) -> bool {
        let opened = self.delivered_at(self.grants_end).map(|at| at.tick);
        let is_late = opened.is_none_or(|at| at + window_ms > self.goaway_composed.tick);
        // Of 65,535 bytes it uses 2 KiB at least from check to check.
        let is_idle = (1..=32).all(|windows| {
            let sent = self.sent_lately(windows * window_ms).min(WINDOW_BYTES_DEFAULT.into());
            sent < windows * due.max(2_048)
        });
        let moves = self.sent_lately(window_ms) >= due;
        is_idle && !moves && (is_late || self.was_starving || self.may_stall())
    }

    /// Bytes of content that were certainly composed in the time before the server's last words.
    fn sent_lately(&self, ms: u64) -> u64 {
        let start = self.goaway_offered.tick.saturating_sub(ms);
        let before = self.contents.partition_point(|(tick, _)| *tick <= start);
        let total = |at: usize| at.checked_sub(1).map_or(0, |at| self.contents[at].1);
        total(self.contents.len()) - total(before)
    }

    /// Streams whose windows are too small.
    fn starving(&self) -> impl Iterator<Item = u32> {
        let open = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.progress == Progress::Open && !stream.is_starved);
        open.map(|(id, _)| *id).filter(move |id| self.grant(*id) > 0)
    }

    /// Streams with content to send, and room for it.
    fn sending(&self) -> impl Iterator<Item = u32> {
        let sending = self.streams.iter().filter(move |(_, stream)| {
            let has_room = stream.content_left == 0 || stream.room > 0 && self.room > 0;
            stream.has_content() && has_room
        });
        sending.map(|(id, _)| *id)
    }

    /// Returns the next bytes; `None`: nothing for now.
    pub(super) fn say(&mut self, peer: &mut Peer, sources: &Sources<'_>) -> Option<Vec<u8>> {
        if peer.left_how.is_some() || !peer.out.is_empty() || self.broken.is_some() {
            return None;
        }
        let bytes = if self.said == 0 {
            self.begin()
        } else if let Some(owed) = self.owed.pop_front() {
            owed
        } else if self.said >= self.habits.breaks_at {
            let breach = violation::draw(&mut self.dice, self.next, &mut self.encoder);
            let (start, end) = (self.said, self.said + breach.bytes.len() as u64);
            let violation::Breach { bytes, codes, is_of_streams } = breach;
            self.broken = Some(Broken { start, end, codes, is_of_streams });
            peer.left = 0;
            bytes
        } else {
            self.choose(peer, sources)?
        };
        self.said += bytes.len() as u64;
        Some(bytes)
    }

    /// Preface and settings.
    fn begin(&mut self) -> Vec<u8> {
        let mut out = PREFACE.to_vec();
        out.extend(self.new_settings());
        out
    }

    fn new_settings(&mut self) -> Vec<u8> {
        let (mut payload, mut sent) = (Vec::new(), SentSettings::default());
        let mut setting = |id: u8, value: u32| {
            payload.extend_from_slice(&[0, id]);
            payload.extend_from_slice(&value.to_be_bytes());
        };
        if self.dice.one_in(2) {
            let window = self.dice.pick(&[0, 1, 100, 16_384, 65_535, 1 << 20]);
            setting(4, window);
            sent.window = Some(window);
        }
        if self.dice.one_in(3) {
            let most = self.dice.pick(&[16_384, 20_000, 1 << 20]);
            setting(5, most);
            sent.frame_bytes_max = Some(most);
        }
        for (id, values) in [(1, [0, 4_096]), (2, [0, 0]), (9, [0, 1]), (0xaa, [7, 8])] {
            // RFC 9218 §2.1.1: this setting must not change.
            if self.dice.one_in(3) && (id != 9 || self.said == 0) {
                setting(id, self.dice.pick(&values));
            }
        }
        self.settings.push_back(sent);
        let mut out = Vec::new();
        push_frame(&mut out, FrameKind::Settings.number(), 0, 0, &payload);
        out
    }

    /// Chooses something to send.
    fn choose(&mut self, peer: &mut Peer, sources: &Sources<'_>) -> Option<Vec<u8>> {
        let may_ask = peer.left > 0
            && self.open() < self.habits.streams.min(u64::from(self.streams_max))
            && !self.is_last();
        if self.habits.says_goodbye && peer.left == 0 && !self.said_goodbye {
            self.said_goodbye = true;
            let mut out = Vec::new();
            frame::write_goaway(&mut out, 0, ErrorCode::NO_ERROR);
            return Some(out);
        }
        if self.is_last() {
            peer.left = 0;
        }
        if self.dice.one_in(6)
            && let Some(extra) = self.extra()
        {
            return Some(extra);
        }
        if !self.is_stalled()
            && (self.habits.is_generous || self.dice.one_in(3))
            && let Some(update) = self.enlarge()
        {
            return Some(update);
        }
        let sending: Vec<u32> = self.sending().collect();
        if !sending.is_empty() && (!may_ask || self.dice.one_in(2)) {
            let stream = self.dice.pick(&sending);
            return Some(self.send_content(stream));
        }
        if may_ask {
            peer.left -= 1;
            return Some(self.ask(sources));
        }
        None
    }

    /// Whether the server's end keeps it from more requests.
    fn is_last(&self) -> bool {
        self.goaway.is_some_and(|(last, _)| self.habits.heeds || last < u32::MAX >> 1)
    }

    /// A frame that no request needs: a reset, settings, a ping, a priority, or an unknown one.
    fn extra(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let kind = self.dice.below(7);
        let open = |stream: &&ClientStream| stream.progress == Progress::Open;
        let any = self.dice.below(u64::from(self.next) + 4);
        let any = u32::try_from(any).expect("few streams") | 1;
        // Settings may open the windows of all streams, by little.
        let of_settings = 6 + 9 * u32::try_from(self.open()).expect("few streams");
        let cost = [11, of_settings, 6, 2, 2, 1, 1][index(kind)];
        if self.points < POINTS_LOW + cost {
            return None;
        }
        match kind {
            0 if self.habits.resets => {
                let open = self.streams.iter().filter(|(_, stream)| open(stream));
                let open: Vec<u32> = open.map(|(id, _)| *id).collect();
                if open.is_empty() {
                    return None;
                }
                let id = self.dice.pick(&open);
                let code = self.dice.pick(&[ErrorCode::CANCEL, ErrorCode::NO_ERROR]);
                frame::write_rst_stream(&mut out, id, code);
                let end = self.said + out.len() as u64;
                self.streams.get_mut(&id)?.progress = Progress::ResetByClient(end);
                self.grants_end = end;
            }
            1 if self.habits.changes_settings => out = self.new_settings(),
            2 => frame::write_ping(&mut out, [9; 8], false),
            3 => {
                // It depends on no stream.
                push_frame(&mut out, FrameKind::Priority.number(), 0, any, &[0, 0, 0, 0, 7]);
            }
            4 => {
                let urgency = self.dice.below(8).to_le_bytes()[0] + b'0';
                let mut payload = any.to_be_bytes().to_vec();
                payload.extend_from_slice(&[b'u', b'=', urgency]);
                payload.extend_from_slice(self.dice.pick(&[&b""[..], b", i", b";x, i=?0"]));
                push_frame(&mut out, FrameKind::PriorityUpdate.number(), 0, 0, &payload);
            }
            5 => push_frame(&mut out, 0xfa, 0xff, any, b"unknown"),
            _ => return None,
        }
        self.points = self.points.saturating_sub(cost);
        (!out.is_empty()).then_some(out)
    }

    /// Opens a window that is too small.
    fn enlarge(&mut self) -> Option<Vec<u8>> {
        let starving: Vec<u32> = self.starving().collect();
        let of_connection = self.grant(0) > 0;
        let stream = match starving[..] {
            [] if !of_connection => return None,
            [] => 0,
            _ if of_connection && self.dice.one_in(2) => 0,
            _ => self.dice.pick(&starving),
        };
        let missing = self.grant(stream).cast_unsigned();
        let bytes = if self.dice.one_in(3) && self.points >= POINTS_LOW {
            self.dice.between(1, missing)
        } else {
            missing
        };
        let cost = if bytes < 256 { 10 } else { 1 };
        self.points = self.points.saturating_sub(cost);
        self.granted += bytes;
        let grant = u32::try_from(bytes).expect("targets are small");
        let mut out = Vec::new();
        match self.streams.get_mut(&stream) {
            Some(stream) => stream.window += i64::from(grant),
            None => self.window += i64::from(grant),
        }
        if stream == 0 && self.forgets_window() {
            push_frame(&mut out, 0xfa, 0, 0, b"");
            return Some(out);
        }
        frame::write_window_update(&mut out, stream, grant);
        self.grants_end = self.said + out.len() as u64;
        Some(out)
    }

    /// Whether a planted mistake loses what was to be given back for a stream that was reset.
    fn forgets_window(&self) -> bool {
        let is_reset =
            |stream: &ClientStream| matches!(stream.progress, Progress::ResetByClient(_));
        self.plant == Some(Plant::ResetCounted) && self.streams.values().any(is_reset)
    }

    /// Makes a request, and sends its fields.
    fn ask(&mut self, sources: &Sources<'_>) -> Vec<u8> {
        let Made { request, fields, content_bytes, ends, has_trailers, is_malformed } =
            compose::make(&mut self.dice, sources);
        let block = self.encoder.encode(&mut self.dice, &fields);
        self.is_oversized |= block.len() > sources.limits.head_bytes_max;
        let has_content = content_bytes > 0 || has_trailers || !ends || self.dice.one_in(12);
        // The server may reset what it answers before the content has come.
        self.points = self.points.saturating_sub(if has_content || is_malformed { 10 } else { 0 });
        let flags = if has_content { 0 } else { END_STREAM };
        let id = self.next;
        self.next += 2;
        let out = self.fields_in_frames(id, flags, &block);
        let head_end = self.said + out.len() as u64;
        let text = fields.iter().map(|(name, value)| format!("{name}: {}\n", value.escape_ascii()));
        let stream = ClientStream {
            request,
            text: text.collect(),
            is_malformed,
            head_end,
            end: (!has_content).then_some(head_end),
            content_left: if ends { content_bytes } else { content_bytes.min(100) },
            sent: 0,
            ends,
            has_trailers,
            window: self.initial,
            room: self.initial_room,
            response: None,
            progress: Progress::Open,
            is_starved: !self.habits.is_generous && self.dice.one_in(10),
        };
        self.streams.insert(id, stream);
        out
    }

    /// Sends a field block in HEADERS and CONTINUATION, perhaps with padding and a priority.
    fn fields_in_frames(&mut self, id: u32, flags: u8, block: &[u8]) -> Vec<u8> {
        let (mut out, mut payload, mut flags) = (Vec::new(), Vec::new(), flags);
        let padding = if self.dice.one_in(6) { self.dice.below(20).to_le_bytes()[0] } else { 0 };
        if padding > 0 {
            flags |= PADDED;
            payload.push(padding);
        }
        if self.dice.one_in(6) {
            flags |= PRIORITY;
            payload.extend_from_slice(&[0x80, 0, 0, 0, 3]);
        }
        let parts = if self.dice.one_in(4) { self.dice.between(1, 4) } else { 0 };
        let first =
            if parts > 0 { index(self.dice.below(block.len() as u64 + 1)) } else { block.len() };
        let (now, mut rest) = block.split_at(first);
        payload.extend_from_slice(now);
        payload.extend(std::iter::repeat_n(0, usize::from(padding)));
        flags |= if parts == 0 { END_HEADERS } else { 0 };
        push_frame(&mut out, FrameKind::Headers.number(), flags, id, &payload);
        for part in 1..=parts {
            let most = rest.len() as u64;
            let bytes = if part == parts { rest.len() } else { index(self.dice.below(most + 1)) };
            let (now, later) = rest.split_at(bytes);
            rest = later;
            let flags = if part == parts { END_HEADERS } else { 0 };
            let cost = if now.is_empty() { 5 } else { 0 };
            self.points = self.points.saturating_sub(cost);
            push_frame(&mut out, FrameKind::Continuation.number(), flags, id, now);
        }
        out
    }

    /// Sends content of a stream, or its trailers.
    fn send_content(&mut self, id: u32) -> Vec<u8> {
        let Some(stream) = self.streams.get_mut(&id) else { return Vec::new() };
        if stream.content_left == 0 && stream.has_trailers {
            let block = self.encoder.encode(
                &mut self.dice,
                &[("x-sum".to_owned(), b"1".to_vec()), ("x-more".to_owned(), Vec::new())],
            );
            let out = self.fields_in_frames(id, END_STREAM, &block);
            let end = self.said + out.len() as u64;
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.end = Some(end);
            }
            return out;
        }
        let room = stream.room.min(self.room).max(0).cast_unsigned();
        let most = stream.content_left.min(room).min(8_000);
        let bytes = if most > 1 && self.dice.one_in(2) { self.dice.between(1, most) } else { most };
        // Padding counts, too.
        let spare = room - bytes;
        let padding = if spare > 30 && self.dice.one_in(5) { self.dice.between(1, 20) } else { 0 };
        let mut payload = Vec::new();
        payload.extend((padding > 0).then_some(padding.to_le_bytes()[0]));
        payload.extend(std::iter::repeat_n(b'c', index(bytes)));
        payload.extend(std::iter::repeat_n(0, index(padding)));
        stream.content_left -= bytes;
        stream.sent += payload.len() as u64;
        let is_last = stream.content_left == 0 && stream.ends && !stream.has_trailers;
        let counted = i64::try_from(payload.len()).expect("a frame is short");
        stream.room -= counted;
        self.room -= counted;
        let cost = match bytes {
            0 => 5,
            1..256 => 1,
            _ => 0,
        };
        self.points = self.points.saturating_sub(cost);
        let padded = if padding > 0 { PADDED } else { 0 };
        let flags = if is_last { padded | END_STREAM } else { padded };
        let mut out = Vec::new();
        push_frame(&mut out, FrameKind::Data.number(), flags, id, &payload);
        stream.end = is_last.then_some(self.said + out.len() as u64);
        out
    }
}
