//! A connection in the simulator: the core, the pipe, the peer, and the traffic.
use crate::{
    BrokenCheck,
    dice::Dice,
    disk::SimFile,
    end::End,
    peer::{NEVER, Peer, Pipe},
    reader::{Reader, Response},
    records::SentRecords,
    request::Request,
    sealing::ClientSeal,
    trace::{self, Event, Stamp},
};
use regatta_op::{CloseReason, Now, Op, OpKind};
use regatta_origin::{Cx, Protocol as _};

/// A request and its place in the stream.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) start: u64,
    pub(crate) head_end: u64,
    pub(crate) end: u64,
}

#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) op: Op<SimFile>,
    /// Time from which it can be performed.
    pub(crate) ready: u64,
    /// Time of the disk's answer, if it is asked first.
    pub(crate) disk: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) number: usize,
    pub(crate) conn: Option<regatta_origin::Link<SimFile>>,
    pub(crate) parked: Option<Parked>,
    pub(crate) pipe: Pipe,
    pub(crate) peer: Peer,
    /// The peer's end of the seal, if there is one.
    pub(crate) seal: Option<ClientSeal>,
    /// Bytes of the wire that the core has received.
    pub(crate) wire_received: u64,
    /// The deadline at the last check.
    pub(crate) deadline: u64,
    /// Delay of the checks of this connection's deadlines, milliseconds.
    pub(crate) lateness: u64,
    pub(crate) requests: Vec<Asked>,
    pub(crate) reader: Reader,
    /// Bytes of requests that the core has received, and the times: ends of pieces.
    pub(crate) received: Vec<(u64, Stamp)>,
    /// Whether the core knows that the peer's stream has ended.
    pub(crate) ended: bool,
    /// Bytes that the kernel has taken.
    pub(crate) sent: u64,
    /// Whether the kernel has taken bytes of a response, and more of the same `Send` will follow.
    pub(crate) moved: bool,
    /// Whether the kernel may hold the last bytes of a response until `Shut`.
    pub(crate) held: bool,
    /// Ends of responses in the stream.
    pub(crate) ends: Vec<u64>,
    /// First offer of the response that is being sent.
    pub(crate) offered: Option<Stamp>,
    pub(crate) drained: Option<Stamp>,
    /// The request that is turned away.
    pub(crate) refused: Option<usize>,
    /// Whether the client has too many connections: its first request is refused.
    pub(crate) limited: bool,
    /// Records of the `Send` that is out.
    records: SentRecords,
    /// The operation whose fault the core has received.
    pub(crate) broke: Option<OpKind>,
    /// Whether a file turned out to be shorter than before.
    pub(crate) shrank: bool,
    /// The response that waits for another attempt to open its file.
    pub(crate) postponed: Option<usize>,
    /// Times at which a body could not be read.
    pub(crate) unreadable: Vec<Stamp>,
    /// Name of the opened file, to be remembered once its body has been read and matches the facts.
    pub(crate) asking: Option<Vec<u8>>,
    /// Time at which an operation of the disk was last given up.
    pub(crate) overdue: Option<Stamp>,
    /// Time at which a deadline first gave something up after the last response, and the bytes
    /// acknowledged then. An idle connection ends there; behind a seal it still sends its end.
    pub(crate) given_up: (Stamp, u64),
    /// Time until which a `Send` has waited for the disk.
    pub(crate) waited: u64,
    /// Time since which bytes have been sent without a pause.
    pub(crate) sending_since: Option<u64>,
    /// End of the last response, or beginning of the connection.
    pub(crate) rested: Stamp,
    /// Time of the peer's last act.
    pub(crate) active: u64,
    /// The status of the last response.
    pub(crate) last_status: u16,
    /// Whether the last response announced the end of the connection.
    pub(crate) terminal: bool,
    /// Time at which our half was closed.
    pub(crate) shut: Option<Stamp>,
    /// Bytes received after our half was closed.
    pub(crate) lingered: u64,
    pub(crate) closed: Option<CloseReason>,
}

impl Link {
    /// Makes a connection that has not been accepted.
    pub(crate) fn new(number: usize, peer: Peer, pipe: Pipe, lateness: u64) -> Self {
        Self { number, peer, pipe, lateness, ..Self::default() }
    }

    /// Time from which the operation that is out can be performed.
    pub(crate) fn ready(&self) -> u64 {
        let Some(parked) = &self.parked else { return NEVER };
        if parked.disk < NEVER {
            return NEVER;
        }
        let pipe = &self.pipe;
        let can = match parked.op {
            Op::Recv => !pipe.inbound.is_empty() || pipe.fin || pipe.reset,
            Op::Send(_) => pipe.room() > 0 || pipe.reset,
            _ => true,
        };
        if can { parked.ready } else { NEVER }
    }

    /// Time of the disk's answer to a waiting `Send`.
    pub(crate) fn disk_answers(&self) -> u64 {
        self.parked.as_ref().map_or(NEVER, |parked| parked.disk)
    }

    /// The operation that is out, if it waits for the disk.
    pub(crate) fn at_disk(&self) -> Option<OpKind> {
        let Parked { op, disk, .. } = self.parked.as_ref()?;
        let kind = op.kind();
        (matches!(kind, OpKind::Open | OpKind::Read) || *disk < NEVER).then_some(kind)
    }

    /// Time at which a `Send` last waited for the disk: now, or the end of the wait.
    pub(crate) fn last_wait(&self, now: u64) -> u64 {
        if self.disk_answers() < NEVER { now } else { self.waited }
    }

    /// Notes that the core receives `n` bytes of the wire.
    pub(crate) fn receive(&mut self, n: u64, now: Stamp) {
        let before = self.wire_received;
        self.wire_received += n;
        let Some(seal) = &self.seal else { return self.received.push((self.wire_received, now)) };
        let end = seal.plain(self.wire_received);
        self.ended |= seal.ends(self.wire_received);
        if seal.greets(self.wire_received) && !seal.greets(before) {
            self.rested = now;
        }
        if end > self.delivered() {
            self.received.push((end, now));
        }
    }

    /// The peer's end.
    pub(crate) const fn end(&mut self) -> End<'_> {
        End(&mut self.peer, &mut self.pipe, &mut self.seal)
    }

    /// Whether the peer may send requests because the handshake is over.
    pub(crate) fn may_send(&self) -> bool {
        self.seal.as_ref().is_none_or(ClientSeal::may_send)
    }

    /// Opens bytes from the server's kernel; returns plain bytes, and their ends on the wire.
    pub(crate) fn open(&mut self, bytes: &[u8]) -> Result<Vec<(Vec<u8>, u64)>, BrokenCheck> {
        match &mut self.seal {
            Some(seal) => seal.open(bytes, self.wire_received),
            None => Ok(vec![(bytes.to_vec(), self.sent)]),
        }
    }

    /// Status that refuses the request with this number: the client has too many connections, or
    /// the request is turned away.
    pub(crate) fn turned_away(&self, number: usize) -> Option<u16> {
        if self.limited && number == 0 {
            return Some(429);
        }
        (self.refused == Some(number)).then_some(503)
    }

    /// Whether the response with this number is to a request that came while the connection was
    /// idle.
    pub(crate) fn was_idle(&self, number: usize) -> bool {
        let begun = self.requests.get(number).and_then(|asked| self.delivered_at(asked.start + 1));
        begun.is_some_and(|begun| begun >= self.rested)
    }

    /// Notes a record that has been sent, behind a seal. `response` is the one that it belongs to.
    pub(crate) fn note_record(
        &mut self,
        bytes: usize,
        response: Option<&Response>,
        is_last: bool,
        was_idle: bool,
    ) {
        if self.seal.is_some() {
            let status = response.map_or(0, |response| response.status);
            self.records.note(bytes, status, is_last, was_idle);
        }
    }

    /// Checks a `Send` that the kernel has taken as a whole, in records. `is_empty`: without plain
    /// bytes.
    pub(crate) fn check_records(&mut self, is_empty: bool) -> Result<(), BrokenCheck> {
        let Some(seal) = &self.seal else { return Ok(()) };
        if is_empty && !seal.may_be_empty(self.wire_received) {
            return Err("a ticket is sent alone".into());
        }
        self.records.check()
    }

    /// Checks that the closing alert follows the last response in the same `Send`.
    pub(crate) fn check_last(&self) -> Result<(), BrokenCheck> {
        match &self.seal {
            Some(seal) if self.terminal && !seal.is_told() && !seal.is_refused() => {
                Err("the last response is sent without the closing alert".into())
            }
            _ => Ok(()),
        }
    }

    /// Number of bytes on the wire of the peer's first `plain` bytes.
    pub(crate) fn wire_of(&self, plain: u64) -> u64 {
        self.seal.as_ref().map_or(plain, |seal| seal.wire(plain))
    }

    /// Bytes of responses still in flight.
    pub(crate) fn on_their_way(&self) -> u64 {
        let end = self.seal.as_ref().map_or(self.sent, ClientSeal::plain_end);
        end.saturating_sub(self.pipe.acked)
    }

    /// Bytes of requests that the core has received.
    pub(crate) fn delivered(&self) -> u64 {
        self.received.last().map_or(0, |(end, _)| *end)
    }

    /// Number of bytes that the core has discarded since our half was closed. Behind a seal this is
    /// the maximum: bytes that arrived earlier and were not opened are discarded then, too.
    pub(crate) fn lingered(&self, piece_max: u64) -> u64 {
        let last = self.reader.count.checked_sub(1).and_then(|last| self.requests.get(last));
        let (Some(seal), Some(last)) = (&self.seal, last) else { return self.lingered };
        // A head may be refused from its first byte on.
        let in_head = matches!(self.last_status, 400 | 408 | 414 | 431 | 505);
        let taken = if in_head { last.start + 1 } else { last.head_end };
        self.delivered().saturating_sub(seal.piece_end(taken, piece_max))
    }

    /// Time at which the core had received the first `offset` bytes.
    pub(crate) fn delivered_at(&self, offset: u64) -> Option<Stamp> {
        let at = self.received.partition_point(|(end, _)| *end < offset);
        self.received.get(at).map(|(_, stamp)| *stamp)
    }

    /// Number of requests that the core has received in full.
    pub(crate) fn complete(&self) -> usize {
        let delivered = self.delivered();
        self.requests.iter().take_while(|asked| asked.end <= delivered).count()
    }

    /// Number of requests to which the peer has read no response.
    pub(crate) fn unanswered(&self) -> u64 {
        let read = self.ends.iter().filter(|&&end| end <= self.pipe.read).count();
        self.requests.len().saturating_sub(read) as u64
    }

    /// Whether the bytes being sent are a response, and not part of a handshake.
    pub(crate) fn is_answered(&self) -> bool {
        let begun = self.reader.unfinished().is_some();
        self.seal.is_none() || begun || self.complete() > self.reader.count
    }

    /// Whether response number `number` answers a `HEAD` that the server could read as one.
    pub(crate) fn is_head(&self, number: usize) -> bool {
        self.requests.get(number).is_some_and(|asked| {
            asked.request.verb == crate::request::Verb::Head
                && asked.request.refusals.is_empty()
                && asked.head_end <= self.delivered()
        })
    }
}

/// Decides which requests the core turns away, as an overloaded server does.
#[derive(Debug)]
pub(crate) struct Refusals {
    /// `None` in most schedules.
    dice: Option<Dice>,
}

impl Refusals {
    /// Makes the decisions of a schedule, with dice of its own.
    pub(crate) fn new(dice: &Dice) -> Self {
        let mut dice = dice.apart(0x4ef0_5ed0_0000_0000);
        Self { dice: dice.one_in(6).then_some(dice) }
    }

    /// Occasionally turns a request away: the one that waits for the disk, or the next. Returns
    /// whether the current operation was given up for it.
    pub(crate) fn turn_away(
        &mut self,
        link: &mut Link,
        at: Stamp,
        now: Now,
        cx: &Cx<'_, SimFile>,
    ) -> bool {
        let (Some(parked), Some(conn)) = (&link.parked, &mut link.conn) else { return false };
        let meant = matches!(parked.op, Op::Recv | Op::Open(..) | Op::Read(..));
        if !meant || !self.dice.as_mut().is_some_and(|dice| dice.one_in(8)) {
            return false;
        }
        conn.turn_away(now, cx);
        conn.check_invariants();
        let dropped = conn.abandoned().is_some();
        trace::push(at, link.number, Event::TurnedAway { dropped });
        if dropped {
            link.parked = None;
        }
        let next = link.reader.count;
        let greeted = link.seal.as_ref().is_none_or(|seal| seal.greets(link.wire_received));
        let has_head =
            link.requests.get(next).is_some_and(|asked| asked.head_end <= link.delivered());
        if dropped || greeted && !has_head && !link.terminal {
            link.refused = Some(next);
        }
        dropped
    }
}
