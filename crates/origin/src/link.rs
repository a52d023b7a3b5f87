//! A driver's view of one connection: HTTP/1 in the clear, HTTP/2, a sealed protocol, or another.
mod greeting;
mod sealed;
#[cfg(feature = "test-seal")]
mod toy;

pub use greeting::Greeting;
pub use sealed::Sealed;
#[cfg(feature = "test-seal")]
pub use toy::Toy;

use crate::{Admission, Conn, Cx, Peer, Protocol, Seal, h1::preface::PriorKnowledge, h2::Session};
use alloc::boxed::Box;
use core::fmt;
use regatta_metrics::Counter;
use regatta_op::{Abandoned, CloseReason, Done, File, Now, Op, Tick};

/// Name of HTTP/2 in handshakes (ALPN, RFC 9113 §3.1).
const HTTP2: &[u8] = b"h2";

/// Connection of any protocol.
///
/// HTTP/1 in the clear costs one branch per call and no memory of its own.
pub enum Link<F> {
    /// HTTP/1 in the clear.
    Http1(Conn<F>),
    /// HTTP/2: behind a seal by agreement, in the clear by its preface.
    Http2(Box<Session<F>>),
    /// A connection that begins with a PROXY header; after it, another variant.
    Greeting(Box<Greeting<F>>),
    /// A protocol behind a seal.
    Sealed(Box<Sealed<F>>),
    /// Another protocol.
    Other(Box<dyn Protocol<F> + Send>),
}

impl<F: fmt::Debug> fmt::Debug for Link<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http1(conn) => f.debug_tuple("Http1").field(conn).finish(),
            Self::Http2(session) => f.debug_tuple("Http2").field(session).finish(),
            Self::Greeting(greeting) => f.debug_tuple("Greeting").field(greeting).finish(),
            Self::Sealed(sealed) => f.debug_tuple("Sealed").field(sealed).finish(),
            Self::Other(_) => f.write_str("Other"),
        }
    }
}

// The size of `Conn` alone: what else a session of HTTP/2 needs is in its box.
const _: () = assert!(size_of::<Link<u64>>() <= 144);

impl<F: File> Link<F> {
    /// A connection that was accepted just now.
    #[must_use]
    pub fn new(peer: Peer, now: Now, cx: &Cx<'_, F>) -> Self {
        match cx.links.greets(peer) {
            None => Self::of_client(peer, cx.links.seal(peer.class()), now, cx),
            Some(trusted) => Self::Greeting(Box::new(Greeting::new(peer, trusted, now, cx))),
        }
    }

    /// A connection of this client, behind a possible PROXY header. `seal`: that of its class.
    fn of_client(peer: Peer, seal: Option<Box<dyn Seal>>, now: Now, cx: &Cx<'_, F>) -> Self {
        match seal {
            None => Self::agreed(peer, b"", now, cx),
            Some(seal) => Self::Sealed(Box::new(Sealed::new(seal, peer, now, cx))),
        }
    }

    /// Asks what the client may have ([`crate::Links::opened`]), once the client is known. `fd` is
    /// the connection's descriptor. False if the connection ends.
    pub fn admit(&mut self, peer: Peer, fd: i32, now: Now, cx: &Cx<'_, F>) -> bool {
        if let Self::Greeting(greeting) = self {
            greeting.fd = fd;
            return true;
        }
        match cx.links.opened(peer, fd, now) {
            Admission::Admitted => {}
            Admission::Untracked => cx.tally.add(Counter::ClientsUntracked, 1),
            Admission::Limited => {
                cx.tally.add(Counter::ConnectionsLimited, 1);
                self.limit(now, cx);
            }
            Admission::Refused => {
                cx.tally.add(Counter::ConnectionsRefused, 1);
                self.cut(CloseReason::Refused, now, cx);
                return false;
            }
        }
        true
    }

    /// Refuses the first request: the client has too many connections.
    fn limit(&mut self, now: Now, cx: &Cx<'_, F>) {
        match self {
            Self::Http1(conn) => conn.limit(),
            Self::Http2(session) => session.limit(),
            Self::Sealed(sealed) => sealed.limit(),
            // It is turned away for another reason.
            other => other.turn_away(now, cx),
        }
    }

    /// A connection of the protocol that a handshake agreed on.
    fn agreed(peer: Peer, name: &[u8], now: Now, cx: &Cx<'_, F>) -> Self {
        match cx.links.protocol(peer, name, now, cx) {
            Some(other) => Self::Other(other),
            None if name == HTTP2 => Self::Http2(Box::new(Session::new(peer, now, cx))),
            None => Self::Http1(Conn::new(peer, now, cx)),
        }
    }

    /// Replaces a connection of HTTP/1 whose peer has begun HTTP/2. The session receives the same
    /// bytes, and is in the same state towards its client and the server.
    #[cold]
    #[inline(never)]
    fn begin_http2(&mut self, now: Now, cx: &Cx<'_, F>) {
        let Self::Http1(conn) = self else { return };
        let PriorKnowledge { peer, received, is_limited, is_refused, is_draining } =
            conn.hand_over(cx);
        let mut session = Box::new(Session::new(peer, now, cx));
        if is_limited {
            session.limit();
        } else if is_refused {
            session.turn_away(now, cx);
        }
        if is_draining {
            session.drain(now, cx);
        }
        session.receive(&received, now, cx);
        cx.scratch.give_buffer(received);
        *self = Self::Http2(session);
    }
}

/// Calls a method of the protocol.
macro_rules! of {
    ($link:expr, $it:ident => $call:expr) => {
        match $link {
            Link::Http1($it) => $call,
            Link::Http2($it) => $call,
            Link::Greeting($it) => $call,
            Link::Sealed($it) => $call,
            Link::Other($it) => $call,
        }
    };
}

impl<F: File> Protocol<F> for Link<F> {
    #[inline]
    fn next_op(&mut self) -> Option<Op<F>> {
        of!(self, it => it.next_op())
    }

    #[inline]
    fn complete(&mut self, done: Done<'_, F>, now: Now, cx: &Cx<'_, F>) {
        match self {
            Self::Http1(conn) => {
                conn.complete(done, now, cx);
                if conn.has_preface() {
                    self.begin_http2(now, cx);
                }
            }
            Self::Http2(session) => session.complete(done, now, cx),
            Self::Greeting(greeting) => {
                if let Some(link) = greeting.receive(done, now, cx) {
                    *self = link;
                }
            }
            Self::Sealed(sealed) => sealed.complete(done, now, cx),
            Self::Other(other) => other.complete(done, now, cx),
        }
    }

    #[inline]
    fn deadline(&self) -> Tick {
        of!(self, it => it.deadline())
    }

    fn expire(&mut self, queued: u64, now: Now, cx: &Cx<'_, F>) {
        of!(self, it => it.expire(queued, now, cx));
    }

    fn wait_for_disk(&mut self, now: Now, cx: &Cx<'_, F>) {
        of!(self, it => it.wait_for_disk(now, cx));
    }

    fn disk_answered(&mut self, now: Now, cx: &Cx<'_, F>) {
        of!(self, it => it.disk_answered(now, cx));
    }

    fn peer_ended(&mut self, now: Now, cx: &Cx<'_, F>) {
        of!(self, it => it.peer_ended(now, cx));
    }

    fn held_up(&mut self, ms: u64) {
        of!(self, it => it.held_up(ms));
    }

    fn peer_began(&mut self) {
        of!(self, it => it.peer_began());
    }

    fn drain(&mut self, now: Now, cx: &Cx<'_, F>) {
        of!(self, it => it.drain(now, cx));
    }

    fn cut(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        of!(self, it => it.cut(reason, now, cx));
    }

    fn turn_away(&mut self, now: Now, cx: &Cx<'_, F>) {
        of!(self, it => it.turn_away(now, cx));
    }

    fn abandoned(&self) -> Option<Abandoned> {
        of!(self, it => it.abandoned())
    }

    #[inline]
    fn is_idle(&self) -> bool {
        of!(self, it => it.is_idle())
    }

    fn awaits_request(&self, bytes: &[u8]) -> bool {
        of!(self, it => it.awaits_request(bytes))
    }

    fn is_shaking_hands(&self) -> bool {
        of!(self, it => it.is_shaking_hands())
    }

    fn sends_on(&self) -> bool {
        of!(self, it => it.sends_on())
    }

    fn tries_again(&self) -> bool {
        of!(self, it => it.tries_again())
    }

    fn requests(&self) -> u32 {
        of!(self, it => it.requests())
    }

    fn check_invariants(&self) {
        of!(self, it => it.check_invariants());
    }
}
