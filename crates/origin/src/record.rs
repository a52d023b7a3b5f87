//! The facts of a finished exchange, for the access log.
use crate::{Refusal, SealFacts};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::ops::Range;
use regatta_op::{CloseReason, Now, Tick};

/// Class of a listener: the row of the configuration that its address is from. All sockets of an
/// address have the same class, in each process and after each reload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerClass(pub u8);

impl ListenerClass {
    /// Connections in the clear.
    pub const CLEAR: Self = Self(0);
}

/// The peer's address and the class of its listener, in 19 bytes. IPv4 addresses are kept in
/// IPv4-mapped form, and `[::]:0`, which no peer has, stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    address: [u8; 16],
    port: [u8; 2],
    class: ListenerClass,
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        let octets = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        Self { address: octets, port: address.port().to_ne_bytes(), class: ListenerClass::CLEAR }
    }
}

impl From<Option<SocketAddr>> for Peer {
    /// A peer over a Unix socket has no address.
    fn from(address: Option<SocketAddr>) -> Self {
        address.map_or_else(Self::default, Self::from)
    }
}

impl Peer {
    /// The same peer, at a listener of this class.
    #[must_use]
    pub const fn in_class(self, class: ListenerClass) -> Self {
        Self { class, ..self }
    }

    /// Class of the listener that accepted the connection.
    #[must_use]
    pub const fn class(self) -> ListenerClass {
        self.class
    }

    /// The address, if there is one; an IPv4-mapped one comes back as IPv4.
    #[must_use]
    pub fn address(self) -> Option<SocketAddr> {
        let (ip, port) = (Ipv6Addr::from(self.address), u16::from_ne_bytes(self.port));
        let is_none = ip.is_unspecified() && port == 0;
        (!is_none).then(|| SocketAddr::new(ip.to_canonical(), port))
    }

    /// [`Self::address`] without its port.
    #[must_use]
    pub fn ip(self) -> Option<IpAddr> {
        self.address().map(|address| address.ip())
    }
}

/// Outcome of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyOutcome {
    /// The kernel has every byte of the response.
    Complete,
    /// The file shrank under the response.
    Truncated,
    /// The peer left before the end.
    Aborted,
    /// The peer took the response too slowly.
    Slow,
    /// The server ended it: overloaded, going away, or failed by the disk or the system.
    Cut,
}

impl ReplyOutcome {
    /// Outcome of an exchange whose connection ends for this reason.
    pub(crate) const fn from_reason(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Truncated => Self::Truncated,
            CloseReason::SendDeadline => Self::Slow,
            CloseReason::DiskDeadline
            | CloseReason::Drained
            | CloseReason::Failed
            | CloseReason::Refused => Self::Cut,
            _ => Self::Aborted,
        }
    }

    /// Name of the outcome: a lower-case word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Truncated => "truncated",
            Self::Aborted => "aborted",
            Self::Slow => "slow",
            Self::Cut => "cut",
        }
    }
}

/// The facts of one exchange. Text comes from the peer as it was sent: a log must escape it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Time at which the response was finished, seconds since 1970-01-01T00:00:00Z.
    pub unix: u64,
    /// The client.
    pub peer: Peer,
    /// The method as sent; empty if the request line could not be read.
    pub method: &'a [u8],
    /// The request target as sent; empty if the request line could not be read.
    pub target: &'a [u8],
    /// Host and port, as sent: from the target, or `Host`.
    pub host: Option<&'a [u8]>,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`; empty if the request line could not be read.
    pub version: &'static str,
    /// The status code; 0 if the connection ended before there was one.
    pub status: u16,
    /// Bytes of the response's body, as promised.
    pub body_bytes: u64,
    /// Bytes of head and body that the kernel has taken.
    pub sent_bytes: u64,
    /// Bytes of the body that the kernel has taken: fewer than promised if it was cut short.
    pub body_sent_bytes: u64,
    /// Outcome of the exchange.
    pub outcome: ReplyOutcome,
    /// Reason why the request was refused, if it was.
    pub refused: Option<Refusal>,
    /// `Referer`, as sent.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, as sent.
    pub user_agent: Option<&'a [u8]>,
    /// From parsing the request to the end, milliseconds.
    pub duration_ms: u64,
    /// True if the connection was to stay open after it.
    pub keep_alive: bool,
    /// Encryption of the connection, if it is encrypted.
    pub seal: Option<SealFacts<'a>>,
}

/// An error of the system with a file that was to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFault<'a> {
    /// Name of the host; empty for the first.
    pub host: &'a str,
    /// The path below its root, decoded.
    pub path: &'a [u8],
    /// The operation that failed.
    pub wanted: FileOperation,
    /// The error's number.
    pub errno: i32,
}

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// To open it.
    Open,
    /// To read it.
    Read,
}

/// Takes the record of each finished exchange.
pub trait Log {
    /// False: records are not wanted, and nothing is kept to make them.
    fn wants(&self) -> bool;
    /// Takes one record. Must not wait: a log that is behind drops lines and counts them.
    fn record(&self, record: &Record<'_>);

    /// Takes the cause of a 500, or of one that was averted, for the operator. Must not wait, and
    /// may drop frequent ones.
    #[expect(unused_variables, reason = "a log that is for exchanges only")]
    fn fault(&self, fault: &FileFault<'_>) {}
}

/// A log that wants nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Log for NoLog {
    fn wants(&self) -> bool {
        false
    }

    fn record(&self, _: &Record<'_>) {}
}

/// Bytes of text that most requests have for the log, at most.
const NOTE_BYTES_USUAL: usize = 512;

/// Facts of a request for its [`Record`]: the request is gone by then. The buffer is reused.
#[derive(Debug, Default)]
pub(crate) struct Note {
    text: Vec<u8>,
    method: Range<usize>,
    target: Range<usize>,
    host: Option<Range<usize>>,
    referer: Option<Range<usize>>,
    user_agent: Option<Range<usize>>,
    version: &'static str,
    refused: Option<Refusal>,
    taken: bool,
    client: Peer,
    started: Tick,
    sent_before: u64,
    head_bytes: u64,
    body_bytes: u64,
}

/// The request in a [`Record`], as it was sent; empty if it could not be read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestText<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) version: &'static str,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) user_agent: Option<&'a [u8]>,
}

impl<'a> RequestText<'a> {
    /// Cuts the texts to `most` bytes in all: the last ones in this order are cut first.
    pub(crate) fn cut(self, most: usize) -> Self {
        let mut rest = most;
        let mut cut = |text: &'a [u8]| {
            let (kept, _) = text.split_at(text.len().min(rest));
            rest -= kept.len();
            kept
        };
        Self {
            version: self.version,
            host: self.host.map(&mut cut),
            method: cut(self.method),
            target: cut(self.target),
            user_agent: self.user_agent.map(&mut cut),
            referer: self.referer.map(&mut cut),
        }
    }

    /// Bytes of all texts.
    fn len(&self) -> usize {
        let optional = [self.host, self.referer, self.user_agent];
        let bytes: usize = optional.into_iter().flatten().map(<[u8]>::len).sum();
        bytes + self.method.len() + self.target.len()
    }
}

/// The response in a [`Record`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyFacts {
    pub(crate) status: u16,
    pub(crate) sent: u64,
    pub(crate) outcome: ReplyOutcome,
    pub(crate) keep_alive: bool,
}

impl Note {
    /// Notes a request of this client. `sent`: bytes that were sent before, by the same count as
    /// [`ReplyFacts::sent`]: of the connection, or 0 where each stream has a count of its own.
    pub(crate) fn take(&mut self, request: &RequestText<'_>, client: Peer, sent: u64, now: Now) {
        self.clear();
        // A long buffer, of an earlier request, would be kept as long as the response is sent.
        let bytes = request.len();
        if self.text.capacity() > (2 * bytes).max(NOTE_BYTES_USUAL) {
            self.text = Vec::new();
        }
        // A buffer of twice the length would be freed for the next short request.
        self.text.reserve_exact(bytes);
        (self.taken, self.started, self.sent_before) = (true, now.tick, sent);
        self.client = client;
        self.version = request.version;
        self.method = self.keep(request.method);
        self.target = self.keep(request.target);
        self.host = request.host.map(|text| self.keep(text));
        self.referer = request.referer.map(|text| self.keep(text));
        self.user_agent = request.user_agent.map(|text| self.keep(text));
    }

    /// Notes the lengths of the response's head and body.
    pub(crate) const fn promise(&mut self, head_bytes: u64, body_bytes: u64) {
        (self.head_bytes, self.body_bytes) = (head_bytes, body_bytes);
    }

    /// Notes the reason why the request is refused.
    pub(crate) const fn refuse(&mut self, refusal: Refusal) {
        self.refused = Some(refusal);
    }

    /// True if there is a request to log.
    pub(crate) const fn is_taken(&self) -> bool {
        self.taken
    }

    /// Forgets the request but not the buffer.
    pub(crate) fn clear(&mut self) {
        let mut text = core::mem::take(&mut self.text);
        text.clear();
        *self = Self { text, ..Self::default() };
    }

    pub(crate) fn capacity(&self) -> usize {
        self.text.capacity()
    }

    /// Logs the exchange.
    pub(crate) fn log(&self, log: &dyn Log, facts: &ReplyFacts, now: Now) {
        let text = |range: &Range<usize>| &self.text[range.clone()];
        let sent_bytes = facts.sent - self.sent_before;
        log.record(&Record {
            unix: now.unix,
            peer: self.client,
            method: text(&self.method),
            target: text(&self.target),
            host: self.host.as_ref().map(text),
            version: self.version,
            status: facts.status,
            body_bytes: self.body_bytes,
            sent_bytes,
            body_sent_bytes: sent_bytes.saturating_sub(self.head_bytes),
            outcome: facts.outcome,
            refused: self.refused,
            referer: self.referer.as_ref().map(text),
            user_agent: self.user_agent.as_ref().map(text),
            duration_ms: now.tick.since(self.started),
            keep_alive: facts.keep_alive,
            // A sealed connection adds it.
            seal: None,
        });
    }

    fn keep(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        start..self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_usual_lengths_share_a_buffer() {
        let (mut note, long) = (Note::default(), [b'a'; 2_000]);
        let now = Now { tick: Tick(0), unix: 0 };
        let mut capacity = |bytes: usize| {
            let text = RequestText { target: &long[..bytes], ..RequestText::default() };
            note.take(&text, Peer::default(), 0, now);
            note.capacity()
        };
        capacity(260);
        let most = capacity(300);
        for bytes in [240, 1, 300, 100, 260] {
            assert_eq!(capacity(bytes), most, "{bytes}");
        }
        // A long one leaves no buffer to a short one.
        assert!(capacity(2_000) >= 2_000 && capacity(100) <= NOTE_BYTES_USUAL);
    }
}
