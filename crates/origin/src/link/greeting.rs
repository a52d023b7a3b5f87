//! A connection that begins with a PROXY header, which names the client.
use super::Link;
use crate::{Cx, Peer, Protocol, Seal};
use alloc::{boxed::Box, vec::Vec};
use core::marker::PhantomData;
use regatta_http::proxy::{HEADER_BYTES_MAX, parse};
use regatta_metrics::Counter;
use regatta_op::{Abandoned, CloseReason, Done, File, Now, Op, Tick};

/// A connection before its PROXY header is complete. It receives the header, and then gives way to
/// the [`Link`] of the client that the header names.
#[derive(Debug)]
pub struct Greeting<F> {
    /// The proxy.
    peer: Peer,
    /// The number of its descriptor.
    pub(super) fd: i32,
    /// The beginning of the header, if it came in pieces.
    received: Vec<u8>,
    /// Seal of its class, for the link that follows.
    seal: Option<Box<dyn Seal>>,
    deadline: Tick,
    /// Reason for which it ends.
    ending: Option<CloseReason>,
    in_flight: InFlight,
    /// Deadline for the peer to begin while the server is going away; else never.
    drain_until: Tick,
    /// The peer has begun, although the driver may not have received it.
    begun: bool,
    turned_away: bool,
    /// The link that replaces it.
    link: PhantomData<fn() -> Link<F>>,
}

/// The operation that the driver has: `Recv`, or in the end `Close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InFlight {
    Nothing,
    Recv,
    Abandoned,
}

impl<F: File> Greeting<F> {
    /// A connection that was accepted just now. It has [`crate::Deadlines::handshake_ms_max`] to
    /// send the header. A peer that is not trusted is closed at once.
    pub(super) fn new(peer: Peer, trusted: bool, now: Now, cx: &Cx<'_, F>) -> Self {
        let mut this = Self {
            peer,
            fd: -1,
            received: Vec::new(),
            seal: if trusted { cx.links.seal(peer.class()) } else { None },
            deadline: now.tick.after(cx.site.deadlines.handshake_ms_max),
            ending: None,
            in_flight: InFlight::Nothing,
            drain_until: Tick::NEVER,
            begun: false,
            turned_away: false,
            link: PhantomData,
        };
        if !trusted {
            this.end(CloseReason::BadRecord, cx);
        }
        this
    }

    fn end(&mut self, reason: CloseReason, cx: &Cx<'_, F>) {
        if self.ending.is_none() {
            self.ending = Some(reason);
            (self.deadline, self.drain_until) = (Tick::NEVER, Tick::NEVER);
            if self.in_flight == InFlight::Recv {
                self.in_flight = InFlight::Abandoned;
            }
            self.received = Vec::new();
            cx.tally.add(Counter::closed(reason as usize), 1);
        }
    }

    /// Takes received bytes. Returns the client's connection once the header is complete; it has
    /// taken the bytes behind the header.
    pub(super) fn receive(
        &mut self,
        done: Done<'_, F>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Option<Link<F>> {
        self.in_flight = InFlight::Nothing;
        let bytes = match done {
            Done::Recv(Ok(bytes)) if !bytes.is_empty() => bytes,
            Done::Recv(Ok(_)) if self.received.is_empty() => {
                self.end(CloseReason::PeerClosed, cx);
                return None;
            }
            Done::Recv(Err(fault)) => {
                self.end(fault.into(), cx);
                return None;
            }
            _ => {
                self.end(CloseReason::PeerAborted, cx);
                return None;
            }
        };
        let before = self.received.len();
        self.received.extend_from_slice(&bytes[..self.room(bytes)]);
        match parse(&self.received) {
            Ok(Some(header)) => {
                let source =
                    header.source.map(|source| Peer::from(source).in_class(self.peer.class()));
                let rest = &bytes[header.bytes - before..];
                Some(self.link(source.unwrap_or(self.peer), rest, now, cx))
            }
            Ok(None) if self.received.len() < HEADER_BYTES_MAX => None,
            Ok(None) | Err(_) => {
                self.end(CloseReason::BadRecord, cx);
                None
            }
        }
    }

    /// Number of these bytes that may belong to the header.
    fn room(&self, bytes: &[u8]) -> usize {
        bytes.len().min(HEADER_BYTES_MAX - self.received.len())
    }

    fn link(&mut self, peer: Peer, rest: &[u8], now: Now, cx: &Cx<'_, F>) -> Link<F> {
        let mut link = Link::of_client(peer, self.seal.take(), now, cx);
        if !link.admit(peer, self.fd, now, cx) {
            return link;
        }
        if self.is_draining() {
            link.drain(now, cx);
        }
        if self.turned_away {
            link.turn_away(now, cx);
        }
        if !rest.is_empty() && matches!(link.next_op(), Some(Op::Recv)) {
            link.complete(Done::Recv(Ok(rest)), now, cx);
        }
        link
    }

    /// True if the peer has begun its header.
    const fn has_begun(&self) -> bool {
        self.begun || !self.received.is_empty()
    }

    const fn is_draining(&self) -> bool {
        self.drain_until.0 < Tick::NEVER.0
    }
}

impl<F: File> Protocol<F> for Greeting<F> {
    fn next_op(&mut self) -> Option<Op<F>> {
        if self.in_flight == InFlight::Recv {
            return None;
        }
        self.in_flight = InFlight::Recv;
        Some(self.ending.map_or(Op::Recv, Op::Close))
    }

    fn complete(&mut self, _: Done<'_, F>, _: Now, _: &Cx<'_, F>) {
        unreachable!("the link gives it what has come");
    }

    fn deadline(&self) -> Tick {
        if self.has_begun() { self.deadline } else { self.deadline.min(self.drain_until) }
    }

    fn expire(&mut self, _: u64, now: Now, cx: &Cx<'_, F>) {
        if self.deadline() <= now.tick {
            let idle = self.is_draining() && !self.has_begun();
            let reason = match idle {
                true => CloseReason::Drained,
                false => CloseReason::HandshakeDeadline,
            };
            self.end(reason, cx);
        }
    }

    fn wait_for_disk(&mut self, _: Now, _: &Cx<'_, F>) {}

    fn disk_answered(&mut self, _: Now, _: &Cx<'_, F>) {}

    fn peer_ended(&mut self, _: Now, _: &Cx<'_, F>) {}

    fn held_up(&mut self, ms: u64) {
        self.deadline = self.deadline.after(ms);
        self.drain_until = self.drain_until.after(ms);
    }

    fn peer_began(&mut self) {
        self.begun = true;
    }

    fn drain(&mut self, now: Now, cx: &Cx<'_, F>) {
        if self.ending.is_none() {
            let until = now.tick.after(cx.site.deadlines.drain_first_ms());
            self.drain_until = self.drain_until.min(until);
        }
    }

    fn cut(&mut self, reason: CloseReason, _: Now, cx: &Cx<'_, F>) {
        self.end(reason, cx);
    }

    fn turn_away(&mut self, _: Now, _: &Cx<'_, F>) {
        self.turned_away = true;
    }

    fn abandoned(&self) -> Option<Abandoned> {
        (self.in_flight == InFlight::Abandoned).then_some(Abandoned::All)
    }

    fn is_idle(&self) -> bool {
        self.received.is_empty()
    }

    /// True only if the header ends before these bytes do.
    fn awaits_request(&self, bytes: &[u8]) -> bool {
        let all = [&*self.received, &bytes[..self.room(bytes)]].concat();
        let header = parse(&all).ok().flatten();
        header.is_some_and(|header| header.bytes < self.received.len() + bytes.len())
    }

    /// The bytes behind the header may be those of a handshake.
    fn is_shaking_hands(&self) -> bool {
        self.seal.is_some() && self.ending.is_none()
    }

    fn tries_again(&self) -> bool {
        false
    }

    fn requests(&self) -> u32 {
        0
    }

    fn check_invariants(&self) {
        assert!(self.received.len() < HEADER_BYTES_MAX, "a header is no longer");
    }
}
