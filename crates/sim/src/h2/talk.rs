//! Judges what clients of HTTP/2 receive: by the model of HTTP/1's responses.
use super::{
    client::H2Client,
    compose::Sources,
    receive::StreamEvent,
    stream::{ClientStream, Progress},
};
use crate::{
    BrokenCheck,
    dice::Dice,
    disk::{Disk, Seen, unix},
    expect::{Answer, Oracle, content_faults},
    judge::{Conformity, check_date},
    knowledge::{Asker, Knowledge},
    peer::{Peer, due},
    registry::Registry,
    request::Verb,
    talk::{Arrival, DuplexReport, LineEnd, OpenKey, Talk, Trouble},
    trace::Stamp,
};
use regatta_op::CloseReason;
use regatta_origin::Site;
use std::collections::HashMap;

/// Bytes of one `Send`: 64 KiB of content, and other frames.
const SEND_BYTES_MAX: u64 = 96 << 10;

const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

/// Knowledge that all clients of a schedule share.
pub(super) struct H2Talk<'a> {
    site: &'a Site,
    hot: Vec<&'static str>,
    knowledge: Knowledge,
    registry: Registry,
    /// Numbers of the opens that are out: each is noted as one of a connection of its own.
    opens: HashMap<OpenKey, usize>,
    opened: usize,
}

impl<'a> H2Talk<'a> {
    pub(super) fn new(site: &'a Site) -> Self {
        Self {
            site,
            hot: Vec::new(),
            knowledge: Knowledge::default(),
            registry: Registry::default(),
            opens: HashMap::new(),
            opened: 0,
        }
    }

    /// Judges the response of a stream, complete or as far as it has come.
    fn judge(&mut self, client: &H2Client, id: u32, complete: bool) -> Result<(), BrokenCheck> {
        let Some(stream) = client.streams.get(&id) else { return Ok(()) };
        let Some(response) = &stream.response else { return Ok(()) };
        let asked = client.delivered_at(stream.head_end);
        let Some(asked) = asked.filter(|at| at.step <= response.offered.step) else {
            return Err(format!("a response on stream {id} before its request has come").into());
        };
        check_date(response, asked)?;
        let answers = self.possible(client, stream, asked, response.offered);
        let rules = Conformity { site: self.site, registry: &self.registry };
        let head_only = stream.request.verb == Verb::Head;
        let tagged = rules.choose(&answers, response, head_only, complete).map_err(|fault| {
            BrokenCheck::from(format!("no answer to stream {id}:\n{}{fault}", stream.text))
        })?;
        if complete && let Some((tag, shown)) = tagged {
            self.registry.note(&tag, (shown.id, shown.coding, shown.young))?;
        }
        Ok(())
    }

    /// Answers that a request may get.
    fn possible(
        &self,
        client: &H2Client,
        stream: &ClientStream,
        asked: Stamp,
        offered: Stamp,
    ) -> Vec<Answer> {
        let (request, site) = (&stream.request, self.site);
        let mut answers: Vec<_> = request.refusals.iter().copied().map(Answer::Page).collect();
        if answers.is_empty() {
            let asker = Asker { link: None, asked, answered: offered };
            let known = |name: &[u8]| self.knowledge.list(name, asker, &site.caching);
            let oracle =
                Oracle { site, request, known: &known, unix: (unix(asked), unix(offered)) };
            answers = oracle.answers();
            answers.extend(content_faults(request, site).into_iter().map(Answer::Page));
        }
        let has_come = |end| client.delivered_at(end).is_some_and(|at| at.step <= offered.step);
        let excuses = [
            (client.had(Trouble::Overdue, asked), 503),
            (client.had(Trouble::TurnedAway, Stamp::default()), 503),
            (client.had(Trouble::Unreadable, asked), 500),
            (!stream.end.is_some_and(has_come), 408),
            // Padding is discarded, too.
            (stream.sent > site.limits.discard_body_bytes_max, 413),
        ];
        let excuses = excuses.into_iter().filter(|(is_excuse, _)| *is_excuse);
        answers.extend(excuses.map(|(_, status)| Answer::Page(status)));
        answers
    }

    /// Judges a reset by the server.
    fn judge_reset(
        &mut self,
        client: &mut H2Client,
        (id, code): (u32, u32),
        offered: Stamp,
    ) -> Result<(), BrokenCheck> {
        let Some(stream) = client.streams.get(&id) else { return Ok(()) };
        let asked = client.delivered_at(stream.head_end).unwrap_or_default();
        let was_answered = stream.progress == Progress::Answered;
        let fits = match code {
            // The rest of the request is of no use.
            NO_ERROR => was_answered,
            PROTOCOL_ERROR => stream.is_malformed,
            INTERNAL_ERROR | CANCEL => {
                let causes = [Trouble::Unreadable, Trouble::Reopened, Trouble::Overdue];
                causes.into_iter().any(|cause| client.had(cause, asked))
            }
            REFUSED_STREAM => stream.response.is_none(),
            _ => false,
        };
        if !fits {
            return Err(format!("stream {id} is reset with code {code} at {offered:?}").into());
        }
        if was_answered {
            if let Some(stream) = client.streams.get_mut(&id) {
                (stream.ends, stream.content_left) = (false, 0);
            }
            return Ok(());
        }
        self.judge(client, id, false)?;
        if let Some(stream) = client.streams.get_mut(&id) {
            stream.progress = Progress::ResetByServer;
        }
        Ok(())
    }

    /// Checks that the server has announced its end where it could.
    fn said_goodbye(client: &H2Client, end: &LineEnd) -> Result<(), BrokenCheck> {
        let is_due = matches!(
            end.reason,
            CloseReason::IdleDeadline
                | CloseReason::Drained
                | CloseReason::Finished
                | CloseReason::BadRequest
        );
        let could = end.is_quick && !end.is_gone && !end.is_broken && client.has_settings;
        if is_due && could && client.goaway.is_none() {
            return Err(format!("it ends as {:?} without GOAWAY", end.reason).into());
        }
        Ok(())
    }

    /// Whether a server that has received all of a breach may end the connection for this reason.
    /// After the last GOAWAY that it sends of its own accord, it may discard what it receives.
    fn may_ignore_breach(client: &H2Client, reason: CloseReason) -> bool {
        match reason {
            CloseReason::IdleDeadline | CloseReason::Drained | CloseReason::Finished => {
                let decided = Self::goodbye_decided(client, reason);
                decided.zip(client.broken_at()).is_some_and(|(at, broken)| at <= broken)
            }
            // It has read all that the client sent.
            CloseReason::PeerClosed => false,
            _ => true,
        }
    }

    /// Earliest time from which a breach may have no effect because the server goes away. Frames of
    /// streams above the last one of GOAWAY are ignored before GOAWAY can be composed.
    fn goodbye_decided(client: &H2Client, reason: CloseReason) -> Option<Stamp> {
        let (last, _) = client.goaway?;
        let is_of_streams = client.broken.as_ref().is_some_and(|broken| broken.is_of_streams);
        let decided = match reason {
            CloseReason::Finished if is_of_streams => {
                client.streams.get(&last).and_then(|stream| client.delivered_at(stream.head_end))
            }
            CloseReason::Drained if is_of_streams => {
                let mut troubles = client.troubles.iter();
                troubles.find(|(it, _)| *it == Trouble::Drained).map(|(_, at)| *at)
            }
            _ => None,
        };
        Some(decided.map_or(client.goaway_composed, |at| at.min(client.goaway_composed)))
    }

    /// Checks the end after a client has broken a rule.
    fn judge_broken(client: &H2Client, end: &LineEnd) -> Result<(), BrokenCheck> {
        let Some(broken) = client.broken.as_ref().filter(|broken| !broken.codes.is_empty()) else {
            return Ok(());
        };
        let could = end.is_quick && !end.is_gone && !end.is_broken && client.has_settings;
        match client.goaway {
            _ if end.reason != CloseReason::BadRequest => {
                if Self::may_ignore_breach(client, end.reason) {
                    return Ok(());
                }
                Err(format!("a broken rule has no effect, and it ends as {:?}", end.reason).into())
            }
            None if !could => Ok(()),
            Some((_, code)) if broken.codes.contains(&code) => Ok(()),
            other => Err(format!("GOAWAY {other:?} where {:?} belong", broken.codes).into()),
        }
    }
}

impl Talk for H2Talk<'_> {
    type Client = H2Client;

    const SEND_BYTES_MAX: Option<u64> = Some(SEND_BYTES_MAX);

    fn note_files(&mut self, disk: &Disk) {
        self.hot.clone_from(&disk.hot);
    }

    fn note_open(&mut self, key: OpenKey, path: &[u8], decided: Stamp, now: Stamp) {
        self.opened += 1;
        self.opens.insert(key, self.opened);
        self.knowledge.ask(path, self.opened, decided, now);
    }

    fn note_opened(&mut self, key: OpenKey, path: &[u8], seen: Seen, now: Stamp) {
        let Some(number) = self.opens.remove(&key) else { return };
        self.knowledge.opened(path, number, seen, now, unix(now));
        self.knowledge.may_put(path, number, now);
    }

    fn note_trouble(&mut self, client: &mut H2Client, trouble: Trouble, now: Stamp) {
        client.troubles.push((trouble, now));
    }

    fn note_received(&mut self, client: &mut H2Client, end: u64, now: Stamp) {
        client.note_received(end, now);
    }

    fn say(&mut self, client: &mut H2Client, peer: &mut Peer, _: &mut Dice) -> Option<Vec<u8>> {
        let (limits, registry) = (&self.site.limits, &self.registry);
        client.say(peer, &Sources { limits, hot: &self.hot, registry })
    }

    fn will_say(&self, client: &H2Client) -> bool {
        client.will_say()
    }

    fn feed(
        &mut self,
        client: &mut H2Client,
        bytes: &[u8],
        arrival: &Arrival,
        report: &mut DuplexReport,
    ) -> Result<(), BrokenCheck> {
        client.note_bytes(bytes, arrival);
        while let Some(mut frame) = client.next_frame(arrival)? {
            let second = client.spoil(&mut frame);
            for frame in [Some(frame), second].into_iter().flatten() {
                match client.take(&frame)? {
                    None => {}
                    Some(StreamEvent::Answered(id)) => {
                        report.answers += 1;
                        let mut earlier = client.streams.range(..id);
                        let overtakes =
                            earlier.any(|(_, stream)| stream.progress == Progress::Open);
                        report.overtaking += u64::from(overtakes);
                        let status = client.streams[&id].response.as_ref().map(|it| it.status);
                        let is_refused = client.had(Trouble::TurnedAway, Stamp::default());
                        report.refused += u64::from(is_refused && status == Some(503));
                        self.judge(client, id, true)?;
                    }
                    Some(StreamEvent::Reset(id, code)) => {
                        self.judge_reset(client, (id, code), arrival.offered)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn answers(&self, client: &H2Client) -> usize {
        let streams = client.streams.values();
        streams.filter(|stream| stream.progress != Progress::Open).count()
    }

    /// HTTP/1 answers a part of the preface; the rest may arrive behind that.
    fn may_be_unread(&self, client: &H2Client) -> bool {
        client.is_text || self.answers(client) == 0
    }

    fn unanswered(&self, client: &H2Client) -> u64 {
        client.open()
    }

    fn may_end(&self, client: &H2Client, end: &LineEnd) -> bool {
        let requests_max = self.site.limits.requests_max;
        match end.reason {
            // A body has waited for a window: the server announces the end.
            CloseReason::SendDeadline => {
                let deadlines = &self.site.deadlines;
                let due = due(deadlines, deadlines.send_window_ms);
                client.goaway.is_some() && client.opens_late(deadlines.send_window_ms, due)
            }
            CloseReason::BadRequest => client.may_have_broken() || client.is_oversized,
            CloseReason::Finished => {
                let is_last = requests_max > 0 && end.requests >= requests_max;
                is_last || client.has_said_goodbye() || client.broken.is_some()
            }
            CloseReason::PeerClosed | CloseReason::PeerAborted => client.has_said_goodbye(),
            CloseReason::Refused => client.had(Trouble::TurnedAway, Stamp::default()),
            _ => client.has_broken(),
        }
    }

    fn judge_end(
        &mut self,
        client: &mut H2Client,
        end: &LineEnd,
        report: &mut DuplexReport,
    ) -> Result<(), BrokenCheck> {
        let resets = client.streams.values();
        let is_reset = |it: &&ClientStream| matches!(it.progress, Progress::ResetByClient(_));
        report.resets += resets.filter(is_reset).count() as u64;
        report.goodbyes += u64::from(client.goaway.is_some());
        if client.broken.is_some() {
            report.violations += u64::from(client.has_broken());
            return if client.has_broken() { Self::judge_broken(client, end) } else { Ok(()) };
        }
        if !end.greets || client.is_text {
            return Ok(());
        }
        Self::said_goodbye(client, end)?;
        let is_whole = (end.is_whole() || end.reason == CloseReason::Finished) && !end.is_broken;
        let last = client.goaway.map_or(u32::MAX, |(last, _)| last);
        for (id, stream) in &client.streams {
            if stream.progress == Progress::Answered {
                continue;
            }
            self.judge(client, *id, false)?;
            let has_come = client.delivered_at(stream.head_end).is_some() && *id <= last;
            let is_pending = stream.progress == Progress::Open && has_come;
            let is_complete = stream.end.is_some_and(|end| client.delivered_at(end).is_some());
            if is_whole && is_pending && (is_complete || !end.is_silent) {
                return Err(format!(
                    "stream {id} is not answered, and it ends as {:?}:\n{}",
                    end.reason, stream.text
                )
                .into());
            }
        }
        Ok(())
    }
}
