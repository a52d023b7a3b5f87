//! One session: bursts of requests with think times between, in one allocation that is reused.

use crate::number::{id, index};
use core::ops::Range;
use regatta_http::Method;

/// Microseconds in a second: think times are kept in whole microseconds.
pub const US_PER_S: u64 = 1_000_000;

/// One request of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Method.
    pub method: Method,
    /// Request target.
    pub target: &'a str,
    /// Request body; empty for none.
    pub contents: &'a [u8],
    /// Bytes that the reply's body must have, when the log says so (our extension).
    pub reply_bytes: Option<u64>,
}

impl<'a> Request<'a> {
    /// GET, without a body.
    pub fn get(target: &'a str) -> Self {
        Self { method: Method::Get, target, contents: b"", reply_bytes: None }
    }
}

/// Requests that belong together: the first is sent alone, the others at once after its reply.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    session: &'a Session,
    first: u32,
    end: u32,
}

impl<'a> Burst<'a> {
    /// Its requests, in order; at least one.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = Request<'a>> + use<'a> {
        let session = self.session;
        let range = index(self.first.into())..index(self.end.into());
        session.requests[range].iter().map(|entry| session.view(entry))
    }

    /// Think time between the last reply of this burst and the next burst, microseconds; `None`
    /// leaves it to the player's default. It means nothing after the last burst.
    pub fn think_us(&self) -> Option<u64> {
        self.session.requests[index(self.first.into())].think_us
    }
}

/// What a session says about itself in our `#!` comments; httperf ignores these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// When it starts, microseconds after the log's start.
    pub at_us: Option<u64>,
    /// Speed of its line, bit/s.
    pub line_bits_per_s: Option<u64>,
    /// Number of the client that it stands for.
    pub client: Option<u64>,
}

/// One session. Building one reuses the memory of the last: [`Session::clear`], then add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// What it says about itself.
    pub hints: Hints,
    text: Vec<u8>,
    requests: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    method: Method,
    starts_burst: bool,
    target: Range<u32>,
    contents: Range<u32>,
    think_us: Option<u64>,
    reply_bytes: Option<u64>,
}

/// The most bytes of one session's targets and contents.
pub const SESSION_BYTES_MAX: usize = 256 << 20;

impl Session {
    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.hints = Hints::default();
        self.text.clear();
        self.requests.clear();
    }

    /// Adds a request to the last burst, or as the first of a new one. The first of a session
    /// always starts a burst.
    pub fn push(&mut self, request: Request<'_>, starts_burst: bool) {
        assert!(self.text.len() < SESSION_BYTES_MAX, "readers bound their sessions");
        let start = id(self.text.len());
        self.text.extend_from_slice(request.target.as_bytes());
        let middle = id(self.text.len());
        self.text.extend_from_slice(request.contents);
        self.requests.push(Entry {
            method: request.method,
            starts_burst: starts_burst || self.requests.is_empty(),
            target: start..middle,
            contents: middle..id(self.text.len()),
            think_us: None,
            reply_bytes: request.reply_bytes,
        });
    }

    /// Sets the think time after the last burst, microseconds. No burst: nothing happens.
    pub fn think(&mut self, think_us: u64) {
        if let Some(entry) = self.requests.iter_mut().rev().find(|entry| entry.starts_burst) {
            entry.think_us = Some(think_us);
        }
    }

    /// Requests in all bursts.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Bytes of targets and contents held.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Its bursts, in order.
    pub fn bursts(&self) -> impl Iterator<Item = Burst<'_>> {
        let mut first = 0;
        core::iter::from_fn(move || {
            let rest = self.requests.get(first..).filter(|rest| !rest.is_empty())?;
            let more = rest[1..].iter().take_while(|entry| !entry.starts_burst).count();
            let burst = Burst { session: self, first: id(first), end: id(first + 1 + more) };
            first += 1 + more;
            Some(burst)
        })
    }

    /// Its requests, in order.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = Request<'_>> {
        self.requests.iter().map(|entry| self.view(entry))
    }

    /// Sum of the think times that the log gives between bursts, microseconds.
    pub fn think_total_us(&self) -> u64 {
        let last = self.requests.iter().rposition(|entry| entry.starts_burst).unwrap_or(0);
        self.requests[..last].iter().filter_map(|entry| entry.think_us).sum()
    }

    fn view(&self, entry: &Entry) -> Request<'_> {
        let text =
            |range: &Range<u32>| &self.text[index(range.start.into())..index(range.end.into())];
        Request {
            method: entry.method,
            target: core::str::from_utf8(text(&entry.target)).expect("pushed as a str"),
            contents: text(&entry.contents),
            reply_bytes: entry.reply_bytes,
        }
    }
}
