//! A driver's view of one connection: HTTP/1 in the clear, a sealed protocol, or another one.
mod sealed;
#[cfg(feature = "test-seal")]
mod toy;

pub use sealed::Sealed;
#[cfg(feature = "test-seal")]
pub use toy::Toy;

use crate::{Conn, Cx, Peer, Protocol};
use alloc::boxed::Box;
use core::fmt;
use regatta_op::{Abandoned, CloseReason, Done, File, Now, Op, Tick};

/// One connection of any protocol.
///
/// HTTP/1 in the clear costs one branch per call and no memory of its own.
pub enum Link<F> {
    /// HTTP/1 in the clear.
    Http1(Conn<F>),
    /// A protocol behind a seal.
    Sealed(Box<Sealed<F>>),
    /// Another protocol.
    Other(Box<dyn Protocol<F> + Send>),
}

impl<F: fmt::Debug> fmt::Debug for Link<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http1(conn) => f.debug_tuple("Http1").field(conn).finish(),
            Self::Sealed(sealed) => f.debug_tuple("Sealed").field(sealed).finish(),
            Self::Other(_) => f.write_str("Other"),
        }
    }
}

// The same as `Conn` alone.
const _: () = assert!(size_of::<Link<u64>>() <= 144);

impl<F: File> Link<F> {
    /// A connection that was accepted just now.
    #[must_use]
    pub fn new(peer: Peer, now: Now, cx: &Cx<'_, F>) -> Self {
        match cx.links.seal(peer.listener()) {
            None => Self::agreed(peer, b"", now, cx),
            Some(seal) => Self::Sealed(Box::new(Sealed::new(seal, peer, now, cx))),
        }
    }

    /// One of the protocol that a handshake agreed on.
    fn agreed(peer: Peer, name: &[u8], now: Now, cx: &Cx<'_, F>) -> Self {
        match cx.links.protocol(peer, name, now, cx) {
            None => Self::Http1(Conn::new(peer, now, cx)),
            Some(other) => Self::Other(other),
        }
    }
}

/// Calls a method of the protocol.
macro_rules! of {
    ($link:expr, $it:ident => $call:expr) => {
        match $link {
            Link::Http1($it) => $call,
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
        of!(self, it => it.complete(done, now, cx));
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

    fn requests(&self) -> u32 {
        of!(self, it => it.requests())
    }

    fn check_invariants(&self) {
        of!(self, it => it.check_invariants());
    }
}
