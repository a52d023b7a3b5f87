//! A seal for tests. It keeps nothing secret, but a byte that is lost, repeated, moved or altered
//! shows, because each record has a key of its own.
use crate::{Handshake, Progress, RECORD_PLAIN_BYTES_MAX, Seal, SealFault};
use alloc::vec::Vec;

const HELLO: u8 = 1;
const TEXT: u8 = 2;
const CLOSE: u8 = 3;
const RENEW: u8 = 4;
const RENEWED: u8 = 5;
const FAULT: u8 = 6;

const HEADER_BYTES: usize = 3;
const TAG_BYTES: usize = 8;
/// The server's part of the handshake, bytes: about as much as a certificate takes.
const FLIGHT_BYTES: usize = 3_000;
/// The longest handshake message, bytes; its length, which precedes it, is not counted.
const MESSAGE_BYTES_MAX: usize = 8 << 10;
const LENGTH_BYTES: usize = 2;

/// End of a sealed connection.
///
/// The client says hello with a number, the server answers with one and as many bytes as a
/// certificate has, and the client shows that it knows both. A message of this handshake may be
/// spread over several records.
#[derive(Debug)]
pub struct Toy {
    is_server: bool,
    /// Parts of the handshake that have come.
    came: u8,
    number: u64,
    peer_number: u64,
    /// Keys of the next record out and in.
    out: u64,
    into: u64,
    peer_closed: bool,
    closed: bool,
    /// The last answer was the ticket.
    is_ticket: bool,
    /// Beginning of a handshake message that has not come whole, with its length.
    message: Vec<u8>,
    /// The most bytes of a handshake message in one record.
    piece_bytes: usize,
    /// Name of the protocol that the handshake agrees on.
    agreed: &'static [u8],
}

impl Toy {
    /// The server's end, with a number of its own.
    #[must_use]
    pub const fn server(number: u64) -> Self {
        Self::new(true, number, [2, 1])
    }

    /// This end, with a handshake that agrees on this protocol.
    #[must_use]
    pub const fn agreeing(mut self, protocol: &'static [u8]) -> Self {
        self.agreed = protocol;
        self
    }

    /// The client's end; its first message goes behind `wire`.
    #[must_use]
    pub fn client(number: u64, wire: &mut Vec<u8>) -> Self {
        Self::client_in_pieces(number, RECORD_PLAIN_BYTES_MAX, wire)
    }

    /// A client's end whose handshake messages are spread over records of at most this many bytes.
    #[must_use]
    pub fn client_in_pieces(number: u64, piece_bytes: usize, wire: &mut Vec<u8>) -> Self {
        let mut toy = Self { piece_bytes, ..Self::new(false, number, [1, 2]) };
        toy.put_message(&number.to_be_bytes(), wire);
        toy
    }

    const fn new(is_server: bool, number: u64, [out, into]: [u64; 2]) -> Self {
        Self {
            is_server,
            came: 0,
            number,
            peer_number: 0,
            out,
            into,
            peer_closed: false,
            closed: false,
            is_ticket: false,
            message: Vec::new(),
            piece_bytes: RECORD_PLAIN_BYTES_MAX,
            agreed: b"",
        }
    }

    /// Asks for an answer that does not concern the protocol above, as for a new key.
    pub fn renew(&mut self, wire: &mut Vec<u8>) {
        self.record(RENEW, b"", wire);
    }

    /// Opens all whole records at the beginning of `inbox`, and takes them out of it.
    ///
    /// # Errors
    /// As [`Seal::open`]. The records before the faulty one have been opened.
    pub fn open_all(
        &mut self,
        inbox: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<(), SealFault> {
        let mut at = 0;
        let opened = loop {
            match self.open(&mut inbox[at..], plain, reply) {
                Ok(0) => break Ok(()),
                Ok(used) => at += used,
                Err(fault) => break Err(fault),
            }
        };
        inbox.drain(..at);
        opened
    }

    /// Proof that both numbers are known.
    const fn secret(&self) -> u64 {
        let (mine, yours) = (mix(self.number), mix(self.peer_number));
        mix(mine.wrapping_mul(yours))
    }

    fn record(&mut self, kind: u8, plain: &[u8], wire: &mut Vec<u8>) {
        let len = u16::try_from(plain.len()).expect("no more than a record holds");
        wire.push(kind);
        wire.extend_from_slice(&len.to_be_bytes());
        let from = wire.len();
        wire.extend_from_slice(plain);
        veil(self.out, &mut wire[from..]);
        let tag = tag(self.out, kind, &wire[from..]);
        wire.extend_from_slice(&tag.to_be_bytes());
        self.out = mix(self.out);
    }

    /// Appends the records of a handshake message.
    fn put_message(&mut self, body: &[u8], wire: &mut Vec<u8>) {
        let len = u16::try_from(body.len()).expect("a message is short");
        let message = [&len.to_be_bytes()[..], body].concat();
        for piece in message.chunks(self.piece_bytes) {
            self.record(HELLO, piece, wire);
        }
    }

    /// Takes a piece of a handshake message, and the message when it is whole.
    fn gather(&mut self, piece: &[u8], reply: &mut Vec<u8>) -> Result<(), SealFault> {
        self.message.extend_from_slice(piece);
        let Some((len, body)) = self.message.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(());
        };
        let len = usize::from(u16::from_be_bytes(*len));
        if len > MESSAGE_BYTES_MAX || body.len() > len {
            return Err(SealFault::Record);
        }
        if body.len() < len {
            return Ok(());
        }
        let message = core::mem::take(&mut self.message);
        self.shake(&message[LENGTH_BYTES..], reply)
    }

    /// Takes the next message of the handshake.
    fn shake(&mut self, body: &[u8], reply: &mut Vec<u8>) -> Result<(), SealFault> {
        let number = *body.first_chunk().ok_or(SealFault::Record)?;
        let number = u64::from_be_bytes(number);
        match (self.is_server, self.came) {
            (true, 0) => {
                self.peer_number = number;
                let mut flight = [7; FLIGHT_BYTES];
                flight[..8].copy_from_slice(&self.number.to_be_bytes());
                self.put_message(&flight, reply);
            }
            (true, 1) if number == self.secret() => {
                self.take_keys();
                // Like a ticket that the client has not asked for.
                self.record(RENEWED, &[9; 100], reply);
                self.is_ticket = true;
            }
            (false, 0) => {
                self.peer_number = number;
                let secret = self.secret();
                self.put_message(&secret.to_be_bytes(), reply);
                self.take_keys();
            }
            _ => return Err(SealFault::NothingInCommon),
        }
        self.came += 1;
        Ok(())
    }

    const fn take_keys(&mut self) {
        let keys = [mix(self.secret() ^ 1), mix(self.secret() ^ 2)];
        (self.out, self.into) = (keys[self.is_server as usize], keys[!self.is_server as usize]);
    }

    fn accept(
        &mut self,
        kind: u8,
        body: &[u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<(), SealFault> {
        match (kind, self.progress()) {
            (HELLO, Progress::Handshaking) => return self.gather(body, reply),
            (TEXT, Progress::Open) => plain.extend_from_slice(body),
            (CLOSE, Progress::Open) => self.peer_closed = true,
            (RENEW, Progress::Open) if !self.closed => self.record(RENEWED, b"", reply),
            (RENEW | RENEWED, Progress::Open) => {}
            (FAULT, _) => return Err(SealFault::Alert),
            _ => return Err(SealFault::Record),
        }
        Ok(())
    }
}

impl Seal for Toy {
    fn open(
        &mut self,
        wire: &mut [u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<usize, SealFault> {
        let Some(&[kind, high, low]) = wire.first_chunk::<HEADER_BYTES>() else { return Ok(0) };
        let end = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
        let fits = end <= HEADER_BYTES + RECORD_PLAIN_BYTES_MAX;
        if fits && wire.len() < end + TAG_BYTES {
            return Ok(0);
        }
        let said = wire.get(end..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        let there = end.min(wire.len());
        let body = &mut wire[HEADER_BYTES..there];
        let right = fits && u64::from_be_bytes(said) == tag(self.into, kind, body);
        veil(self.into, body);
        self.into = mix(self.into);
        self.is_ticket = false;
        let opened =
            if right { self.accept(kind, body, plain, reply) } else { Err(SealFault::Record) };
        match opened {
            Ok(()) => Ok(end + TAG_BYTES),
            Err(fault) => {
                self.closed = true;
                self.record(FAULT, b"", reply);
                Err(fault)
            }
        }
    }

    fn reply_may_wait(&self) -> bool {
        self.is_ticket
    }

    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), SealFault> {
        if self.closed || self.progress() == Progress::Handshaking {
            return Err(SealFault::Other);
        }
        self.record(TEXT, plain, wire);
        Ok(())
    }

    fn progress(&self) -> Progress {
        match self.came {
            _ if self.peer_closed => Progress::PeerClosed,
            came if came > u8::from(self.is_server) => Progress::Open,
            _ => Progress::Handshaking,
        }
    }

    fn handshake(&self) -> Option<Handshake> {
        let is_over = self.progress() != Progress::Handshaking;
        is_over.then_some(Handshake { resumed: false, version: 0, suite: "", nanos: 0 })
    }

    fn agreed(&self) -> &[u8] {
        self.agreed
    }

    fn server_name(&self) -> Option<&[u8]> {
        None
    }

    fn client_subject(&self) -> Option<&[u8]> {
        None
    }

    fn close(&mut self, wire: &mut Vec<u8>) {
        if !core::mem::replace(&mut self.closed, true) {
            self.record(CLOSE, b"", wire);
        }
    }
}

/// Mixes the bits of a number (splitmix64).
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

fn veil(key: u64, bytes: &mut [u8]) {
    for (at, part) in (0..).zip(bytes.chunks_mut(8)) {
        let word = (word(part) ^ mix(key ^ at)).to_be_bytes();
        part.copy_from_slice(&word[..part.len()]);
    }
}

fn tag(key: u64, kind: u8, bytes: &[u8]) -> u64 {
    let start = mix(key ^ u64::from(kind) << 32 ^ bytes.len() as u64);
    bytes.chunks(8).fold(start, |sum, part| mix(sum ^ word(part)))
}

/// At most eight bytes, and zeros after them.
fn word(part: &[u8]) -> u64 {
    // Almost every part is whole. This way is quicker in tests, without optimisation.
    if let Ok(whole) = <[u8; 8]>::try_from(part) {
        return u64::from_be_bytes(whole);
    }
    let mut word = [0; 8];
    word[..part.len()].copy_from_slice(part);
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Moves bytes on the wire to the other end; returns those opened there.
    fn carry(to: &mut Toy, wire: &mut Vec<u8>) -> Result<(Vec<u8>, Vec<u8>), SealFault> {
        let (mut plain, mut reply, mut at) = (Vec::new(), Vec::new(), 0);
        while at < wire.len() {
            at += to.open(&mut wire[at..], &mut plain, &mut reply)?;
        }
        wire.clear();
        Ok((plain, reply))
    }

    fn greeted() -> (Toy, Toy) {
        let mut wire = Vec::new();
        let (mut client, mut server) = (Toy::client(3, &mut wire), Toy::server(5));
        let (_, mut flight) = carry(&mut server, &mut wire).unwrap();
        assert_eq!(server.handshake(), None);
        let (_, mut last) = carry(&mut client, &mut flight).unwrap();
        let (_, mut ticket) = carry(&mut server, &mut last).unwrap();
        assert_eq!(carry(&mut client, &mut ticket).unwrap().0, b"");
        assert_eq!([client.progress(), server.progress()], [Progress::Open; 2]);
        assert!(client.handshake().is_some() && server.handshake().is_some());
        (client, server)
    }

    #[test]
    fn a_handshake_message_is_gathered_up_to_a_bound() {
        for piece_bytes in [1, 3, 9, 10] {
            let mut wire = Vec::new();
            let mut client = Toy::client_in_pieces(3, piece_bytes, &mut wire);
            let records = 10_usize.div_ceil(piece_bytes);
            assert_eq!(wire.len(), 10 + records * (HEADER_BYTES + TAG_BYTES));
            let mut server = Toy::server(5);
            let (_, mut flight) = carry(&mut server, &mut wire).unwrap();
            let (_, mut last) = carry(&mut client, &mut flight).unwrap();
            carry(&mut server, &mut last).unwrap();
            assert_eq!([client.progress(), server.progress()], [Progress::Open; 2]);
        }
        let (mut client, mut wire) = (Toy::new(false, 3, [1, 2]), Vec::new());
        client.put_message(&[0; MESSAGE_BYTES_MAX + 1], &mut wire);
        assert_eq!(carry(&mut Toy::server(5), &mut wire), Err(SealFault::Record));
    }

    #[test]
    fn faults_have_reasons() {
        let (mut client, mut server) = greeted();
        let mut wire = vec![b'G'; 40];
        assert_eq!(carry(&mut server, &mut wire), Err(SealFault::Record));
        let (mut plain, mut alert) = (Vec::new(), Vec::new());
        let (_, mut other) = greeted();
        other.open(&mut [0; 40], &mut plain, &mut alert).unwrap_err();
        assert_eq!(carry(&mut client, &mut alert), Err(SealFault::Alert));
        assert_eq!(server.seal(b"more", &mut wire), Err(SealFault::Other));
    }

    #[test]
    fn only_what_was_sent_is_opened() {
        let sealed = |client: &mut Toy| {
            let mut wire = Vec::new();
            client.seal(b"one", &mut wire).unwrap();
            let first = wire.len();
            client.seal(b"two", &mut wire).unwrap();
            (wire, first)
        };
        let (mut client, mut server) = greeted();
        assert_eq!(carry(&mut server, &mut sealed(&mut client).0).unwrap().0, b"onetwo");
        let spoils: [fn(&mut Vec<u8>, usize); 4] = [
            |wire, first| drop(wire.drain(..first)),
            |wire, first| wire.rotate_left(first),
            |wire, first| wire.copy_within(..first, first),
            |wire, first| wire[first - 1] ^= 1,
        ];
        for spoil in spoils {
            let (mut client, mut server) = greeted();
            let (mut wire, first) = sealed(&mut client);
            spoil(&mut wire, first);
            assert_eq!(carry(&mut server, &mut wire), Err(SealFault::Record));
        }
    }
}
