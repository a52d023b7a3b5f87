//! Judges ends of connections: they must match the counted reason, and leave nothing undone.
use crate::{
    BrokenCheck, end::is_slow, judge::Judge, link::Link, peer::due, registry::Registry,
    sealing::ClientSeal, trace::Stamp,
};
use regatta_op::CloseReason;
use regatta_origin::Site;

/// End of a connection.
pub(crate) struct Closing<'a> {
    pub(crate) site: &'a Site,
    pub(crate) link: &'a Link,
    pub(crate) reason: CloseReason,
    pub(crate) now: Stamp,
}

impl Closing<'_> {
    /// Judges this end.
    pub(crate) fn judge(&self, judge: &Judge<'_>, registry: &Registry) -> Result<(), BrokenCheck> {
        let link = self.link;
        let cut = link.reader.unfinished();
        if let Some(response) = cut
            && response.status > 0
        {
            judge.judge(link.reader.count, response, registry, false)?;
        }
        let excused = matches!(
            self.reason,
            CloseReason::Reset
                | CloseReason::Failed
                | CloseReason::SendDeadline
                | CloseReason::DiskDeadline
                | CloseReason::Truncated
        ) || self.gave_up_half();
        if cut.is_some() && !excused {
            return Err(format!("a response is cut, and it ends as {:?}", self.reason).into());
        }
        let (answered, asked) = (link.reader.count, link.complete());
        // A server that is draining finishes the exchange in progress and no other.
        let drained = self.reason == CloseReason::Drained && link.pipe.shut;
        // While a file waits to be opened again, the connection receives.
        let broken = self.reason == CloseReason::BadRecord && link.postponed == Some(answered);
        if !excused && !drained && !broken && !link.terminal && answered != asked {
            return Err(
                format!("{asked} requests, {answered} answers, and it ends properly").into()
            );
        }
        match &link.seal {
            Some(seal) if !seal.greets(link.wire_received) => self.in_handshake(seal)?,
            _ => self.reasoned()?,
        }
        self.said_so()?;
        self.awaited_the_peer()?;
        self.nothing_lost(excused)
    }

    /// Checks that the connection may end for this reason.
    fn reasoned(&self) -> Result<(), BrokenCheck> {
        let link = self.link;
        let deadlines = &self.site.deadlines;
        let rest = link.reader.count.checked_sub(1).map(|last| &link.requests[last]);
        let partial = link.delivered() > rest.map_or(0, |asked| asked.end);
        let idle_ms = self.now.tick - link.rested.tick;
        let status = link.last_status;
        let held = match self.reason {
            CloseReason::PeerClosed => link.ended && !partial && !link.terminal,
            CloseReason::PeerAborted if self.gave_up_half() => true,
            CloseReason::PeerAborted => link.ended && partial && !link.terminal,
            CloseReason::Reset => link.broke.is_some() && link.pipe.reset,
            CloseReason::Failed => link.broke.is_some() && !link.pipe.reset,
            CloseReason::Finished => {
                let answered = !matches!(status, 400 | 408 | 414 | 431 | 505)
                    || status == 400 && self.last_is_bad_path();
                link.terminal && answered && status != 429 && link.refused.is_none()
            }
            CloseReason::Refused => {
                let turned_away = status == 503 && link.refused.is_some();
                link.terminal && (turned_away || status == 429 && link.limited)
            }
            CloseReason::HandshakeDeadline => false,
            CloseReason::BadRecord => {
                link.seal.as_ref().is_some_and(|seal| seal.is_spoilt(link.wire_received))
            }
            CloseReason::BadRequest => link.terminal && matches!(status, 400 | 414 | 431 | 505),
            CloseReason::HeadDeadline => link.terminal && status == 408,
            CloseReason::IdleDeadline => {
                let first = link.reader.count == 0;
                let most =
                    if first { deadlines.first_request_ms_max } else { deadlines.idle_ms_max };
                !partial && !link.terminal && idle_ms >= most
            }
            CloseReason::SendDeadline => {
                let start = self.now.tick.saturating_sub(deadlines.send_window_ms);
                let own = link.last_wait(self.now.tick) <= start;
                own && is_slow(&link.pipe, link.seal.as_ref(), deadlines, self.now.tick)
            }
            CloseReason::DiskDeadline => {
                link.overdue.is_some() && (!link.terminal || status == 503)
            }
            CloseReason::Truncated => link.shrank,
            CloseReason::Drained => link.drained.is_some(),
            // No connection makes room for another here.
            CloseReason::Displaced => false,
        };
        if held {
            return Ok(());
        }
        Err(format!(
            "no reason for {:?}: last status {status}, terminal {}, partial {partial}, idle \
             {idle_ms} ms, ended {}, broke {:?}, acked {}",
            self.reason, link.terminal, link.ended, link.broke, link.pipe.acked
        )
        .into())
    }

    /// Checks an end in the handshake, and that its reason may occur there.
    fn in_handshake(&self, seal: &ClientSeal) -> Result<(), BrokenCheck> {
        let (link, came) = (self.link, self.link.wire_received > 0);
        let held = match self.reason {
            CloseReason::PeerClosed => link.ended && !came,
            CloseReason::PeerAborted => link.ended && came,
            CloseReason::Reset => link.broke.is_some() && link.pipe.reset,
            CloseReason::Failed => link.broke.is_some() && !link.pipe.reset,
            CloseReason::HandshakeDeadline => {
                self.now.tick - link.rested.tick >= self.site.deadlines.handshake_ms_max
            }
            CloseReason::BadRecord => seal.is_spoilt(link.wire_received),
            CloseReason::Drained => link.drained.is_some() && !came,
            _ => false,
        };
        let (reason, came) = (self.reason, link.wire_received);
        if held {
            Ok(())
        } else {
            Err(format!("{reason:?} in the handshake, {came} bytes came").into())
        }
    }

    /// Checks that the peer of a sealed connection is informed of the end.
    fn said_so(&self) -> Result<(), BrokenCheck> {
        let link = self.link;
        let Some(seal) = &link.seal else { return Ok(()) };
        let greets = seal.greets(link.wire_received);
        let (is_due, is_told) = match self.reason {
            CloseReason::Finished
            | CloseReason::IdleDeadline
            | CloseReason::HeadDeadline
            | CloseReason::BadRequest
            | CloseReason::Refused
            | CloseReason::Drained => (greets && !link.ended, seal.is_told()),
            // Its own closing alert is answered (RFC 8446 §6.1).
            CloseReason::PeerClosed => (greets && seal.ends(link.wire_received), seal.is_told()),
            CloseReason::BadRecord => (true, seal.is_refused()),
            _ => (false, true),
        };
        // After a part of a record, the peer could open nothing.
        let whole = link.offered.is_none() && link.broke.is_none();
        if is_due && !is_told && whole && !link.pipe.reset && link.peer.is_prompt() {
            return Err(format!("it ends as {:?}, and its peer is not told", self.reason).into());
        }
        Ok(())
    }

    /// Checks that a peer has time to receive the alert after a record that could not be opened.
    fn awaited_the_peer(&self) -> Result<(), BrokenCheck> {
        let link = self.link;
        let over = link.ended || link.broke.is_some() || link.pipe.reset || link.offered.is_some();
        let is_refused = link.seal.as_ref().is_some_and(ClientSeal::is_refused);
        if self.reason != CloseReason::BadRecord || over || !is_refused {
            return Ok(());
        }
        let linger_ms = self.site.deadlines.linger_ms_max;
        let waited = link.shut.is_some_and(|shut| self.now.tick - shut.tick >= linger_ms);
        let too_much = link.lingered > u64::from(self.site.limits.linger_bytes_max);
        if waited || too_much {
            return Ok(());
        }
        Err("it ends as BadRecord, and its peer may still be sending".into())
    }

    /// Whether the connection stopped waiting for the disk because the peer had closed its half.
    /// Behind a seal it then still answers the peer's closing alert (RFC 8446 §6.1).
    fn gave_up_half(&self) -> bool {
        let Link { overdue, seal, wire_received, rested, pipe, .. } = self.link;
        let answers = seal.as_ref().is_some_and(|it| it.ends(*wire_received) && it.is_told());
        let gave_up = overdue.is_some_and(|at| at.step == self.now.step || answers && at > *rested);
        self.reason == CloseReason::PeerAborted && gave_up && pipe.fin
    }

    /// Whether the last request has only a malformed path; its 400 does not end the connection.
    fn last_is_bad_path(&self) -> bool {
        let last = self.link.requests.get(self.link.reader.count - 1);
        last.is_some_and(|asked| asked.request.refusals.is_empty())
    }

    /// A peer that reads and follows the rules gets all that was sent. Closing a socket with unread
    /// bytes destroys bytes in flight (RFC 9112 §9.6).
    fn nothing_lost(&self, excused: bool) -> Result<(), BrokenCheck> {
        let link = self.link;
        let dead = link.pipe.reset || link.broke.is_some();
        let destroyed = !dead && !link.pipe.inbound.is_empty() && link.on_their_way() > 0;
        let said_it_was_done = link
            .requests
            .iter()
            .any(|asked| !asked.request.persistent && link.wire_of(asked.end) < link.peer.sent);
        let limits = &self.site.limits;
        let lingered = link.lingered(limits.head_bytes_max as u64);
        let too_much = lingered > u64::from(limits.linger_bytes_max);
        // After a record that could not be opened, nothing is sent or awaited (RFC 8446 §6.2).
        let broken = link.seal.as_ref().is_some_and(|seal| seal.is_spoilt(link.wire_received));
        // A server that drains closes idle connections at once, whatever is in flight.
        let at_once = self.reason == CloseReason::Drained && !link.pipe.shut;
        let deadlines = &self.site.deadlines;
        let idle = self.reason == CloseReason::IdleDeadline;
        let (decided, acked) = if idle { link.given_up } else { (self.now, link.pipe.acked) };
        let first_ms = if idle { deadlines.idle_ms_max } else { deadlines.linger_ms_max };
        let check_ms = first_ms.min(deadlines.send_window_ms);
        let had = link.pipe.acked_before(decided.tick.saturating_sub(check_ms) + 1);
        let added = link.seal.as_ref().map_or(0, |seal| seal.added_max(had..acked));
        let slow = (acked - had).saturating_sub(added) < due(deadlines, check_ms);
        let excused = excused || at_once || slow || broken;
        if destroyed && link.peer.is_prompt() && !said_it_was_done && !too_much && !excused {
            return Err(format!("{} bytes are lost on their way", link.on_their_way()).into());
        }
        Ok(())
    }
}

/// Longest that a connection can last after the last act of its peer, milliseconds.
pub(crate) fn patience(site: &Site, link: &Link) -> u64 {
    let deadlines = &site.deadlines;
    let once = deadlines.head_ms_max + deadlines.send_window_ms * 3 + link.lateness * 4;
    // A body whose file changes is read up to three times.
    let disk = 30 * deadlines.disk_ms_max.max(DISK_MS_MAX);
    // Requests that the peer has sent may be answered one after another.
    let waiting = link.requests.len() as u64 + 1;
    let idle = deadlines.idle_ms_max.max(deadlines.first_request_ms_max);
    let greeting = link.seal.as_ref().map_or(0, |_| deadlines.handshake_ms_max);
    greeting + idle + deadlines.linger_ms_max + waiting * (once + disk)
}

/// The longest that a disk operation takes, milliseconds.
pub(crate) const DISK_MS_MAX: u64 = 60;
