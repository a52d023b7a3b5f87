//! A seal that makes planted mistakes ([`Plant::SEALED`]).
use crate::{
    plant::Plant,
    records::{FULL_RECORD_BYTES, SHORT_REST_BYTES, SMALL_RECORD_BYTES},
};
use regatta_origin::{Handshake, Progress, Seal, SealFault, Toy};
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
