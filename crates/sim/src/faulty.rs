//! A seal and a protocol that make planted mistakes ([`Plant::SEALED`]).
use crate::{
    plant::Plant,
    records::{FULL_RECORD_BYTES, SHORT_REST_BYTES, SMALL_RECORD_BYTES},
};
use regatta_op::{Abandoned, CloseReason, Done, File, Now, Op, Tick};
use regatta_origin::{
    ClearHttp1, Cx, Handshake, Link, Peer, Progress, Protocol, Seal, SealFault, Toy,
};
use std::mem;

/// Server's end of a seal, which makes one mistake.
#[derive(Debug)]
pub(crate) struct FaultySeal {
    toy: Toy,
    plant: Plant,
    /// Whether the closing alert has been asked for.
    is_asked: bool,
}

impl FaultySeal {
    pub(crate) const fn new(toy: Toy, plant: Plant) -> Self {
        Self { toy, plant, is_asked: false }
    }
}

impl Seal for FaultySeal {
    fn open(
        &mut self,
        wire: &mut [u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<usize, SealFault> {
        let before = reply.len();
        let opened = self.toy.open(wire, plain, reply);
        let waits = self.progress() == Progress::Handshaking && reply.len() == before;
        match (self.plant, opened) {
            (Plant::WholeMessages, Ok(1..)) if waits => return Err(SealFault::Record),
            (Plant::NoAlert, Err(_)) => reply.truncate(before),
            _ => {}
        }
        opened
    }

    fn reply_may_wait(&self) -> bool {
        match self.plant {
            Plant::HandshakeWaits => true,
            Plant::HastyTickets => false,
            _ => self.toy.reply_may_wait(),
        }
    }

    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), SealFault> {
        let has_short_rest = (1..SHORT_REST_BYTES).contains(&(plain.len() % SMALL_RECORD_BYTES));
        let is_split = match self.plant {
            Plant::SmallAgain => plain.len() == FULL_RECORD_BYTES,
            Plant::ShortRest => plain.len() < 2 * SMALL_RECORD_BYTES && has_short_rest,
            _ => false,
        };
        let most = if is_split { SMALL_RECORD_BYTES } else { FULL_RECORD_BYTES };
        plain.chunks(most).try_for_each(|piece| self.toy.seal(piece, wire))
    }

    fn progress(&self) -> Progress {
        self.toy.progress()
    }

    fn handshake(&self) -> Option<Handshake> {
        self.toy.handshake()
    }

    fn agreed(&self) -> &[u8] {
        self.toy.agreed()
    }

    fn server_name(&self) -> Option<&[u8]> {
        self.toy.server_name()
    }

    fn client_subject(&self) -> Option<&[u8]> {
        self.toy.client_subject()
    }

    fn close(&mut self, wire: &mut Vec<u8>) {
        let is_first = !mem::replace(&mut self.is_asked, true);
        let is_lost = match self.plant {
            Plant::LateClosing => is_first,
            Plant::NoClosing => true,
            Plant::UnansweredClosing => self.progress() == Progress::PeerClosed,
            _ => false,
        };
        if !is_lost {
            self.toy.close(wire);
        }
    }
}

/// HTTP/1 that never seems idle to the seal below it: [`Plant::LargeFirst`].
#[derive(Debug)]
pub(crate) struct NeverIdle<F>(Link<F>);

impl<F: File> NeverIdle<F> {
    pub(crate) fn new(peer: Peer, now: Now, cx: &Cx<'_, F>) -> Self {
        Self(Link::new(peer, now, &Cx { links: &ClearHttp1, ..*cx }))
    }
}

impl<F: File> Protocol<F> for NeverIdle<F> {
    fn next_op(&mut self) -> Option<Op<F>> {
        self.0.next_op()
    }

    fn complete(&mut self, done: Done<'_, F>, now: Now, cx: &Cx<'_, F>) {
        self.0.complete(done, now, cx);
    }

    fn deadline(&self) -> Tick {
        self.0.deadline()
    }

    fn expire(&mut self, queued: u64, now: Now, cx: &Cx<'_, F>) {
        self.0.expire(queued, now, cx);
    }

    fn wait_for_disk(&mut self, now: Now, cx: &Cx<'_, F>) {
        self.0.wait_for_disk(now, cx);
    }

    fn disk_answered(&mut self, now: Now, cx: &Cx<'_, F>) {
        self.0.disk_answered(now, cx);
    }

    fn peer_ended(&mut self, now: Now, cx: &Cx<'_, F>) {
        self.0.peer_ended(now, cx);
    }

    fn held_up(&mut self, ms: u64) {
        self.0.held_up(ms);
    }

    fn drain(&mut self, now: Now, cx: &Cx<'_, F>) {
        self.0.drain(now, cx);
    }

    fn cut(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        self.0.cut(reason, now, cx);
    }

    fn turn_away(&mut self, now: Now, cx: &Cx<'_, F>) {
        self.0.turn_away(now, cx);
    }

    fn abandoned(&self) -> Option<Abandoned> {
        self.0.abandoned()
    }

    fn is_idle(&self) -> bool {
        false
    }

    fn awaits_request(&self, bytes: &[u8]) -> bool {
        self.0.awaits_request(bytes)
    }

    fn tries_again(&self) -> bool {
        self.0.tries_again()
    }

    fn requests(&self) -> u32 {
        self.0.requests()
    }

    fn check_invariants(&self) {
        self.0.check_invariants();
    }
}
