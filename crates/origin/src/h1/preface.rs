//! The preface of HTTP/2 in place of a first request: prior knowledge (RFC 9113 §3.3).
use crate::{Conn, Cx, ListenerClass, Peer, h1::conn::State};
use alloc::vec::Vec;
use core::mem;
use regatta_http::h2::frame::PREFACE;
use regatta_op::{CloseReason, File, Now};

/// Bytes of the preface that a connection of HTTP/1 awaits: they would be a whole head. However
/// they come, the same bytes have the same meaning.
const HEAD_BYTES: usize = b"PRI * HTTP/2.0\r\n\r\n".len();

/// Facts of a connection whose peer speaks HTTP/2, for the session that replaces it.
#[derive(Debug)]
pub(crate) struct PriorKnowledge {
    pub(crate) peer: Peer,
    /// Bytes received: the preface and the frames behind it, or the beginning of them.
    pub(crate) received: Vec<u8>,
    /// True if the client has too many connections.
    pub(crate) is_limited: bool,
    /// True if the first request is turned away.
    pub(crate) is_refused: bool,
    pub(crate) is_draining: bool,
}

impl<F: File> Conn<F> {
    /// True if the peer speaks HTTP/2. A session is to replace this connection, which has no
    /// operation in flight.
    #[inline(always)]
    pub(crate) const fn has_preface(&self) -> bool {
        matches!(self.state(), State::Preface)
    }

    /// True if these bytes, a request of another version than HTTP/1, begin with the preface or are
    /// a part of it. Only the first request counts, and only in the clear: over TLS, the handshake
    /// has agreed on the protocol.
    #[cold]
    pub(super) fn begins_http2(&self, bytes: &[u8], cx: &Cx<'_, F>) -> bool {
        let len = bytes.len().min(PREFACE.len());
        cx.site.http2.clear
            && self.requests == 0
            && self.peer.class() == ListenerClass::CLEAR
            && bytes[..len] == PREFACE[..len]
    }

    /// Keeps a beginning of the preface: for the rest of the head, or for a session.
    pub(super) fn await_http2(&mut self, bytes: &[u8], now: Now, cx: &Cx<'_, F>) {
        let state = if bytes.len() < HEAD_BYTES { State::Head } else { State::Preface };
        self.set_state(state, now.tick.after(cx.site.deadlines.head_ms_max));
    }

    /// Takes out what the session needs. The connection is dropped afterwards.
    pub(crate) fn hand_over(&mut self, cx: &Cx<'_, F>) -> PriorKnowledge {
        debug_assert!(self.has_preface(), "only HTTP/2 replaces a connection");
        let input = self.input_mut(cx);
        let mut received = mem::take(&mut input.stash);
        received.drain(..mem::take(&mut input.at));
        input.seen = 0;
        self.settle(cx);
        PriorKnowledge {
            peer: self.peer,
            received,
            is_limited: self.is_limited(),
            is_refused: self.reason == CloseReason::Refused,
            is_draining: self.draining,
        }
    }
}
