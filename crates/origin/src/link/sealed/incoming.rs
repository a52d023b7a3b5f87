//! Bytes from the peer of a sealed connection: the handshake, and records for the protocol above.
use super::{REPLY_BYTES_MAX, Sealed};
use crate::{
    Cx, Handshake, Link, Progress, Protocol, RECORD_BYTES_MAX, RECORD_PLAIN_BYTES_MAX, SealFault,
};
use core::mem;
use regatta_http::date;
use regatta_metrics::Counter;
use regatta_op::{CloseReason, Done, Fault, File, Now, Tick};

/// Answer to a request in the clear, before and after its date.
const NOT_TLS: [&[u8]; 2] = [
    b"HTTP/1.1 400 Bad Request\r\nDate: ",
    b"\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 37\r\n\r\n\
    This address expects TLS: use https.\n",
];

impl<F: File> Sealed<F> {
    pub(super) fn on_recv(&mut self, received: Result<&[u8], Fault>, now: Now, cx: &Cx<'_, F>) {
        if self.is_over() {
            return self.discard(received, cx);
        }
        match received {
            Ok([]) => self.ended = true,
            Ok(bytes) => {
                self.received += bytes.len() as u64;
                if self.inbox.capacity() == 0 {
                    self.inbox = cx.scratch.take_buffer();
                }
                self.inbox.drain(..mem::take(&mut self.inbox_at));
                self.inbox.extend_from_slice(bytes);
            }
            Err(fault) => {
                self.ended = true;
                self.shut = true;
                match &self.upper {
                    Some(_) => self.supply(Err(fault), now, cx),
                    None => self.fail(fault.into(), now, cx),
                }
            }
        }
    }

    /// Passes over bytes that came when only the end was left, up to a bound.
    fn discard(&mut self, received: Result<&[u8], Fault>, cx: &Cx<'_, F>) {
        self.shut |= received.is_err();
        let bytes = received.map_or(0, <[u8]>::len) as u64;
        self.received += bytes;
        let most = u64::from(cx.site.limits.linger_bytes_max);
        let within = self.spoilt.is_some_and(|start| self.received - start <= most);
        if bytes == 0 || !within {
            self.stop_lingering();
        }
    }

    /// True if more may be opened: all answers have been sent, or nearly.
    pub(super) fn may_open(&self) -> bool {
        self.records.len() <= REPLY_BYTES_MAX
    }

    /// Opens the record at the front of the inbox; false if it is not whole.
    fn open_one(&mut self) -> Result<bool, SealFault> {
        let wire = &mut self.inbox[self.inbox_at..];
        if wire.is_empty() {
            return Ok(false);
        }
        let before = self.records.len();
        let used = self.seal.open(wire, &mut self.plain, &mut self.records)?;
        if before == self.waiting && self.seal.reply_may_wait() {
            self.waiting = self.records.len();
        }
        if used == 0 && wire.len() >= RECORD_BYTES_MAX {
            return Err(SealFault::Record);
        }
        if self.shut && self.seal.passes_over() && self.seal.progress() == Progress::Open {
            // Our half is closed. The protocol discards what it receives now, up to a bound.
            let passed = &self.inbox[self.inbox_at..][..used.min(RECORD_PLAIN_BYTES_MAX)];
            self.plain.extend_from_slice(passed);
        }
        self.inbox_at += used;
        Ok(used > 0)
    }

    /// Processes received records; true if that may have changed what is to be done.
    pub(super) fn open(&mut self, now: Now, cx: &Cx<'_, F>) -> bool {
        if self.is_over() {
            return false;
        }
        if self.upper.is_none() {
            return self.shake_hands(now, cx);
        }
        if !self.wants {
            return false;
        }
        if self.plain.capacity() == 0 {
            self.plain = cx.scratch.take_buffer();
        }
        while self.plain_at == self.plain.len() {
            self.plain_at = 0;
            self.plain.clear();
            if !self.may_open() {
                return false;
            }
            match self.open_one() {
                Err(fault) => {
                    cx.tally.add(fault.counter(), 1);
                    self.inbox.clear();
                    self.inbox_at = 0;
                    self.note_spoilt();
                    self.ended = true;
                    self.supply(Err(Fault::Record), now, cx);
                    return true;
                }
                Ok(true) if self.seal.progress() != Progress::PeerClosed => {}
                Ok(more) => {
                    let over = more || self.ended || self.seal.progress() == Progress::PeerClosed;
                    if over {
                        self.ended = true;
                        self.supply(Ok(()), now, cx);
                    }
                    return over;
                }
            }
        }
        self.supply(Ok(()), now, cx);
        true
    }

    /// Continues the handshake; true if it is over.
    fn shake_hands(&mut self, now: Now, cx: &Cx<'_, F>) -> bool {
        if self.records.capacity() == 0 {
            self.records = cx.scratch.take_buffer();
        }
        while self.seal.progress() == Progress::Handshaking && self.may_open() {
            match self.open_one() {
                Ok(true) => {}
                Ok(false) if self.ended => {
                    let reason = match self.received {
                        0 => CloseReason::PeerClosed,
                        _ => CloseReason::PeerAborted,
                    };
                    self.fail(reason, now, cx);
                    return true;
                }
                Ok(false) => return false,
                Err(fault) => {
                    cx.tally.add(fault.counter(), 1);
                    self.note_spoilt();
                    if fault == SealFault::NotTls {
                        let date = date::format(i64::try_from(now.unix).unwrap_or(i64::MAX));
                        let answer = [NOT_TLS[0], &date, NOT_TLS[1]];
                        answer.iter().for_each(|part| self.records.extend_from_slice(part));
                    }
                    self.fail(CloseReason::BadRecord, now, cx);
                    return true;
                }
            }
        }
        match self.seal.progress() {
            Progress::Handshaking => false,
            Progress::PeerClosed => {
                self.fail(CloseReason::PeerAborted, now, cx);
                true
            }
            Progress::Open => {
                self.count_handshake(cx);
                let mut upper = Link::agreed(self.peer, self.seal.agreed(), now, cx);
                if self.limited {
                    upper.limit(now, cx);
                }
                if self.is_draining() {
                    upper.drain(now, cx);
                }
                self.upper = Some(upper);
                (self.wants, self.deadline) = (false, Tick::NEVER);
                self.greeted = self.sent + self.records.len() as u64 + self.out.len();
                self.shaken = self.greeted - self.waiting as u64;
                true
            }
        }
    }

    /// A record cannot be opened.
    fn note_spoilt(&mut self) {
        self.spoilt = (!self.ended).then_some(self.received);
    }

    /// Counts the handshake, which is over.
    fn count_handshake(&self, cx: &Cx<'_, F>) {
        let Some(Handshake { resumed, nanos, .. }) = self.seal.handshake() else { return };
        let kind = if resumed { Counter::TlsHandshakesResumed } else { Counter::TlsHandshakesFull };
        cx.tally.add(kind, 1);
        cx.tally.add(Counter::TlsHandshakeNs, nanos);
    }

    /// Gives the upper protocol as many of the opened bytes as it takes at once; none is the end.
    fn supply(&mut self, result: Result<(), Fault>, now: Now, cx: &Cx<'_, F>) {
        if !mem::take(&mut self.wants) {
            return;
        }
        if self.upper.as_ref().is_some_and(Protocol::is_idle) {
            self.position = 0;
        }
        let plain = mem::take(&mut self.plain);
        let end = plain.len().min(self.plain_at + cx.site.limits.head_bytes_max);
        let bytes = &plain[self.plain_at..end];
        self.complete_upper(Done::Recv(result.map(|()| bytes)), now, cx);
        (self.plain, self.plain_at) = (plain, end);
    }
}
