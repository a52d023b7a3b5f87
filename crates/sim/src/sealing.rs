//! A peer's end of a sealed connection: records in both directions. Its draws in a schedule come
//! from a stream of its own.
use crate::{
    BrokenCheck,
    dice::{Dice, index, mix},
    faulty::FaultySeal,
    peer::{Peer, Pipe},
    plant::Plant,
};
use regatta_op::{File, Now, Ticket};
use regatta_origin::{
    Admission, Cx, Links, ListenerClass, Progress, Protocol, RECORD_PLAIN_BYTES_MAX, Seal, Toy,
};
use std::{cell::Cell, collections::VecDeque, ops::Range};

/// Seals every connection, and lets `inner` choose the protocol inside.
#[derive(Debug)]
pub(crate) struct Sealing<L> {
    inner: L,
    seed: u64,
    number: Cell<u64>,
    plant: Option<Plant>,
    /// Name of the protocol that handshakes agree on.
    protocol: &'static [u8],
}

impl<L> Sealing<L> {
    pub(crate) const fn new(inner: L, seed: u64, plant: Option<Plant>) -> Self {
        Self { inner, seed, number: Cell::new(seed), plant, protocol: b"" }
    }

    /// Agrees on HTTP/2 in every handshake.
    pub(crate) fn for_http2(inner: L, seed: u64) -> Self {
        Self { protocol: b"h2", ..Self::new(inner, seed, None) }
    }
}

impl<F: File + Send + Sync + 'static, L: Links<F>> Links<F> for Sealing<L> {
    /// Some connections are one too many, in an eighth of the schedules. No draw is taken here, so
    /// that known seeds keep their meaning.
    fn opened(&self, _: regatta_origin::Peer, fd: i32, _: Now) -> Admission {
        let has_limit = self.seed % 8 == 1;
        if has_limit && mix(self.seed ^ u64::from(fd.unsigned_abs())).is_multiple_of(2) {
            Admission::Limited
        } else {
            Admission::Admitted
        }
    }

    fn seal(&self, _: ListenerClass) -> Option<Box<dyn Seal>> {
        self.number.set(mix(self.number.get()));
        let toy = Toy::server(self.number.get()).agreeing(self.protocol);
        let seal: Box<dyn Seal> = match self.plant {
            Some(plant) => Box::new(FaultySeal::new(toy, plant)),
            None => Box::new(toy),
        };
        Some(seal)
    }

    fn protocol(
        &self,
        peer: regatta_origin::Peer,
        agreed: &[u8],
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Option<Box<dyn Protocol<F> + Send>> {
        self.inner.protocol(peer, agreed, now, cx)
    }
}

/// Ticket with which a sealed connection reads bytes that it then seals.
pub(crate) const WIRE: Ticket = Ticket(u16::MAX);

/// Stream of draws for the seals of a seed.
pub(crate) fn dice(seed: u64) -> Dice {
    Dice::seeded(seed ^ 0x5ea1_5ea1_0000_0000)
}

/// Bytes that a record has besides its content.
const RECORD_ADDS_BYTES: u64 = 11;

/// End of a record: on the wire, and in the stream of plain bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    wire: u64,
    plain: u64,
}

/// The client's end. Records from the server are opened when the server's kernel takes them, like
/// all that is judged. They are answered when the peer has read them.
#[derive(Debug)]
pub(crate) struct ClientSeal {
    toy: Toy,
    dice: Dice,
    /// Bytes received and not opened.
    inbox: Vec<u8>,
    /// End of the client's hello on the wire.
    hello_end: u64,
    /// Bytes of the wire that have been opened.
    opened: u64,
    /// End on the wire of the last record with plain bytes.
    plain_end: u64,
    /// Ends of the server's records.
    from_server: Vec<Mark>,
    /// Client's second part of the handshake, and the bytes that the peer must first have read.
    answer: Option<(u64, Vec<u8>)>,
    /// Ends of records with plain bytes, and of the last one of the handshake.
    marks: Vec<Mark>,
    said: Mark,
    /// End of the record that announces that the client sends no more.
    last: Option<u64>,
    /// Index of the byte that is altered in flight.
    spoils: Option<u64>,
    /// Whether the server has sent its alert, as it does after such a byte.
    refused: bool,
    /// Whether the client has asked for an answer that is no response.
    renews: bool,
}

impl ClientSeal {
    /// Makes the end of a peer, which begins with the first bytes of the handshake.
    pub(crate) fn new(dice: &mut Dice, peer: &mut Peer) -> Self {
        let mut dice = Dice::seeded(dice.below(1 << 60));
        let (mut wire, number) = (Vec::new(), dice.below(1 << 60));
        // Some clients spread the messages of their handshake over several records.
        let piece_bytes = match number % 4 {
            0 => 1,
            1 => 3,
            _ => RECORD_PLAIN_BYTES_MAX,
        };
        let toy = Toy::client_in_pieces(number, piece_bytes, &mut wire);
        if dice.one_in(8) {
            peer.stalls_at(dice.below(45));
        }
        let range = dice.pick(&[40, 400, 4_000]);
        let spoils = dice.one_in(6).then(|| dice.below(range));
        let mut seal = Self {
            toy,
            dice,
            inbox: Vec::new(),
            hello_end: 0,
            opened: 0,
            plain_end: 0,
            from_server: Vec::new(),
            answer: None,
            marks: Vec::new(),
            said: Mark::default(),
            last: None,
            spoils,
            refused: false,
            renews: false,
        };
        seal.put(wire, &mut peer.out);
        seal.hello_end = seal.said.wire;
        seal
    }

    /// Sends records; one byte of them may be altered.
    fn put(&mut self, mut wire: Vec<u8>, out: &mut VecDeque<u8>) {
        let at = self.spoils.and_then(|at| at.checked_sub(self.said.wire));
        if let Some(byte) = at.and_then(|at| wire.get_mut(usize::try_from(at).ok()?)) {
            *byte ^= 1 << self.dice.below(8);
        }
        self.said.wire += wire.len() as u64;
        out.extend(wire);
    }

    /// Continues the handshake if the peer has read enough of the wire, and returns whether it did.
    pub(crate) fn answer(&mut self, read: u64, out: &mut VecDeque<u8>) -> bool {
        let due = self.answer.take_if(|(end, _)| *end <= read);
        let Some((_, wire)) = due else { return false };
        self.put(wire, out);
        self.marks.push(self.said);
        true
    }

    /// Whether the client may send plain bytes because its part of the handshake is over.
    pub(crate) fn may_send(&self) -> bool {
        !self.marks.is_empty() && !self.refused
    }

    /// Seals the peer's plain bytes, in records of any size.
    pub(crate) fn seal(&mut self, mut plain: &[u8], out: &mut VecDeque<u8>) {
        if self.dice.one_in(8) {
            let mut wire = Vec::new();
            self.renews = true;
            self.toy.renew(&mut wire);
            self.put(wire, out);
        }
        while !plain.is_empty() {
            let most = plain.len().min(RECORD_PLAIN_BYTES_MAX);
            let some = self.dice.below(most as u64 + 1);
            let n = if self.dice.one_in(2) { most } else { index(some) };
            let (record, rest) = plain.split_at(n);
            plain = rest;
            let mut wire = Vec::new();
            self.toy.seal(record, &mut wire).expect("it has not said that this was all");
            self.put(wire, out);
            self.said.plain += record.len() as u64;
            self.marks.push(self.said);
        }
    }

    /// Notes that the peer leaves. It may announce that if all its bytes have been sent.
    pub(crate) fn leave(&mut self, peer: &mut Peer, pipe: &mut Pipe) {
        if self.may_send() && peer.out.is_empty() && !pipe.reset && self.dice.one_in(2) {
            let mut wire = Vec::new();
            self.toy.close(&mut wire);
            self.put(wire, &mut pipe.inbound);
            self.last = Some(self.said.wire);
            peer.sent = self.said.wire;
        }
    }

    /// Opens received bytes; returns plain bytes, and the end of their record on the wire. The
    /// server has received `received` bytes.
    pub(crate) fn open(
        &mut self,
        bytes: &[u8],
        received: u64,
    ) -> Result<Vec<(Vec<u8>, u64)>, BrokenCheck> {
        let mut found = Vec::new();
        if self.refused {
            return Ok(found);
        }
        self.inbox.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let (mut plain, mut answer) = (Vec::new(), Vec::new());
            match self.toy.open(&mut self.inbox[at..], &mut plain, &mut answer) {
                Ok(0) => break,
                Ok(used) => {
                    at += used;
                    self.opened += used as u64;
                }
                Err(_) if self.is_spoilt(received) => {
                    self.refused = true;
                    break;
                }
                Err(_) => return Err("a record that cannot be opened".into()),
            }
            if !answer.is_empty() {
                self.answer = Some((self.opened, answer));
            }
            let before = self.from_server.last().map_or(0, |mark| mark.plain);
            let end = Mark { wire: self.opened, plain: before + plain.len() as u64 };
            self.from_server.push(end);
            if !plain.is_empty() {
                self.plain_end = self.opened;
                found.push((plain, self.opened));
            }
        }
        self.inbox.drain(..at);
        Ok(found)
    }

    /// The most bytes of a range of the wire that are no response to the server: records add some,
    /// and those of the seal itself have no other. The first and the last record may be cut.
    pub(crate) fn added_max(&self, wire: Range<u64>) -> u64 {
        let added_by = |end: u64| {
            let at = self.from_server.partition_point(|mark| mark.wire <= end);
            at.checked_sub(1).map_or(0, |at| self.from_server[at].wire - self.from_server[at].plain)
        };
        added_by(wire.end) - added_by(wire.start) + 2 * RECORD_ADDS_BYTES
    }

    /// Number of plain bytes that the server can open in the peer's first `wire` bytes.
    pub(crate) fn plain(&self, wire: u64) -> u64 {
        let good = wire.min(self.spoils.unwrap_or(u64::MAX));
        let at = self.marks.partition_point(|mark| mark.wire <= good);
        at.checked_sub(1).map_or(0, |at| self.marks[at].plain)
    }

    /// Number of bytes on the wire of the first `plain` bytes.
    pub(crate) fn wire(&self, plain: u64) -> u64 {
        let at = self.marks.partition_point(|mark| mark.plain < plain);
        self.marks.get(at).map_or(u64::MAX, |mark| mark.wire)
    }

    /// End of the piece with byte number `plain`; a record is passed on in pieces of `most` bytes.
    pub(crate) fn piece_end(&self, plain: u64, most: u64) -> u64 {
        let at = self.marks.partition_point(|mark| mark.plain < plain);
        let Some(end) = self.marks.get(at) else { return u64::MAX };
        let start = at.checked_sub(1).map_or(0, |before| self.marks[before].plain);
        (start + (plain - start).next_multiple_of(most)).min(end.plain)
    }

    /// Whether these bytes of the wire end the handshake.
    pub(crate) fn greets(&self, wire: u64) -> bool {
        let good = wire.min(self.spoils.unwrap_or(u64::MAX));
        self.marks.first().is_some_and(|mark| mark.wire <= good)
    }

    /// Whether the client's hello is in these bytes of the wire, and has not been answered.
    pub(crate) fn awaits_answer(&self, wire: u64) -> bool {
        let good = wire.min(self.spoils.unwrap_or(u64::MAX));
        self.hello_end <= good && self.opened == 0
    }

    /// Whether a `Send` may have no plain bytes after these bytes of the wire: it is part of the
    /// handshake, answers the client, or ends the connection.
    pub(crate) fn may_be_empty(&self, wire: u64) -> bool {
        !self.greets(wire) || self.renews || self.refused || self.is_told()
    }

    /// Whether these bytes of the wire announce that the client sends no more.
    pub(crate) fn ends(&self, wire: u64) -> bool {
        let good = wire.min(self.spoils.unwrap_or(u64::MAX));
        self.last.is_some_and(|last| last <= good)
    }

    /// Whether one of these bytes of the wire was altered.
    pub(crate) fn is_spoilt(&self, wire: u64) -> bool {
        self.spoils.is_some_and(|at| at < wire)
    }

    /// End on the wire of the last record with plain bytes.
    pub(crate) const fn plain_end(&self) -> u64 {
        self.plain_end
    }

    /// Whether the server has sent an alert because of an altered byte.
    pub(crate) const fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether the server has announced that it sends no more.
    pub(crate) fn is_told(&self) -> bool {
        self.toy.progress() == Progress::PeerClosed
    }
}
