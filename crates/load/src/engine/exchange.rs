//! Replies as they arrive: heads, contents, their comparison with what they should be, and the
//! record of the exchange. One receive for a reply that comes whole; nothing is allocated.

use super::core::{Alarm, Broken, Conn, Core, Exchange, Flight, Order, Reading};
use super::expect::{self, Check, Coded, Comparison, Expect, Head, Local, Read};
use super::fate::Fate;
use super::input::{ConnId, INPUT_BYTES};
use super::options::Model;
use super::plan::Target;
use super::tally::Seen;
use crate::number::index;
use regatta_http::Method;
use regatta_http::chunked::Decoder;
use regatta_http::h1::ResponseBody;
use regatta_sys::{clock, recv};
use std::os::fd::AsFd;
use std::{io, mem};

#[derive(Debug)]
pub(super) enum Step {
    Wait,
    /// An exchange has ended, and been recorded.
    Reply(Reply),
    /// The connection has ended, and been closed.
    Broken(Broken),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    /// Connection of the exchange, or in HTTP/2 its place.
    pub(super) conn: ConnId,
    pub(super) owner: u32,
    pub(super) keep: bool,
}

enum Progress {
    /// All bytes are used; the reply continues.
    More,
    Whole,
    /// The peer does not speak HTTP/1.1.
    Bad,
}

impl Core<'_> {
    /// Advances a connection until an exchange or the connection ends, or nothing is left to
    /// receive. Call it until it returns [`Step::Wait`] or [`Step::Broken`].
    #[inline]
    pub(super) fn advance(&mut self, id: ConnId) -> Step {
        let at = id.at();
        if self.conns[at].http2.is_some() {
            return self.advance_streams(id);
        }
        loop {
            if self.input.at < self.input.end {
                match self.consume(at) {
                    Progress::More => continue,
                    Progress::Whole => return Step::Reply(self.complete(at)),
                    Progress::Bad => return self.broken(id, Fate::Malformed),
                }
            }
            if !self.conns[at].more || !self.may_read(id) {
                return Step::Wait;
            }
            match self.receive(at) {
                Ok(0) => {
                    let until_close =
                        matches!(self.conns[at].exchange.reading, Reading::UntilClose);
                    if until_close {
                        self.conns[at].more = false;
                        return Step::Reply(self.complete(at));
                    }
                    return self.broken(id, Fate::Reset);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.conns[at].more = false;
                }
                Err(error) => return self.broken(id, Fate::of(&error)),
            }
        }
    }

    /// Drops the input: its connection is closed.
    pub(super) fn forget_input(&mut self) {
        (self.input.at, self.input.end) = (0, 0);
    }

    /// The connection has ended; a reset or the end of the stream may have cut a reply off.
    fn broken(&mut self, id: ConnId, fate: Fate) -> Step {
        self.forget_input();
        let begun = self.conns[id.at()].exchange.is_begun();
        let fate = if fate == Fate::Reset && begun { Fate::Truncated } else { fate };
        Step::Broken(self.end(id, fate))
    }

    /// Whether a slow line may read now; if not, it is woken up when it may.
    pub(super) fn may_read(&mut self, id: ConnId) -> bool {
        let conn = &mut self.conns[id.at()];
        let Some(line) = conn.line.as_mut().filter(|line| line.next > self.now) else {
            return true;
        };
        conn.more = false;
        // A single alarm, however often more arrives meanwhile.
        if !mem::replace(&mut line.waits, true) {
            self.timers.set(line.next, Alarm::Read(id.0));
        }
        false
    }

    pub(super) fn read_on(&mut self, id: ConnId) {
        let conn = &mut self.conns[id.at()];
        conn.more = true;
        if let Some(line) = &mut conn.line {
            line.waits = false;
        }
    }

    pub(super) fn receive(&mut self, at: usize) -> io::Result<usize> {
        let conn = &mut self.conns[at];
        let Some(fd) = &conn.fd else { return Ok(0) };
        if conn.secure.is_some() {
            return self.receive_secure(at);
        }
        let most = conn.line.map_or(INPUT_BYTES, |line| line.chunk);
        let received = recv(fd.as_fd(), &mut self.input.bytes[..most]);
        self.now = clock::nanos();
        let bytes = received?;
        // A short one has taken all there was; only the end may follow unannounced.
        conn.more = bytes == most || conn.ended;
        if let Some(line) = &mut conn.line {
            line.took(bytes, self.now);
        }
        (self.input.at, self.input.end) = (0, bytes);
        self.tally.bytes_received += bytes as u64;
        Ok(bytes)
    }

    #[inline]
    fn consume(&mut self, at: usize) -> Progress {
        if matches!(self.conns[at].exchange.reading, Reading::Head) {
            return self.consume_head(at);
        }
        let Self { conns, input, plan, .. } = self;
        let Conn { exchange, flights, .. } = &mut conns[at];
        let Some(flight) = flights.front() else { return Progress::Bad };
        let expect = &plan.script.targets[index(flight.order.target.into())].expect;
        let rest = &input.bytes[input.at..input.end];
        match &mut exchange.reading {
            Reading::Head => Progress::Bad,
            Reading::Length(left) => {
                let take = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                expect.feed(&mut exchange.check, &rest[..take]);
                exchange.bytes += take as u64;
                input.at += take;
                *left -= take as u64;
                if *left == 0 { Progress::Whole } else { Progress::More }
            }
            Reading::Chunked(decoder) => {
                let (check, bytes) = (&mut exchange.check, &mut exchange.bytes);
                let fed = decoder.feed_data(rest, |data| {
                    expect.feed(check, data);
                    *bytes += data.len() as u64;
                });
                let Ok(fed) = fed else { return Progress::Bad };
                input.at += fed.used;
                if fed.done { Progress::Whole } else { Progress::More }
            }
            Reading::UntilClose => {
                expect.feed(&mut exchange.check, rest);
                exchange.bytes += rest.len() as u64;
                input.at = input.end;
                Progress::More
            }
        }
    }

    #[inline]
    fn consume_head(&mut self, at: usize) -> Progress {
        let Self { conns, input, plan, heads, now, .. } = self;
        let Conn { exchange, flights, .. } = &mut conns[at];
        // Bytes that no request asked for.
        let Some(flight) = flights.front_mut() else { return Progress::Bad };
        let first_bytes = flight.first == 0;
        if first_bytes {
            flight.first = *now;
        }
        let target = index(flight.order.target.into());
        let Target { method, expect, .. } = &plan.script.targets[target];
        let seen = exchange.held.len();
        let rest = &input.bytes[input.at..input.end];
        let read = if seen == 0 {
            expect::read(rest, 0, *method, &mut heads[target])
        } else {
            exchange.held.extend_from_slice(rest);
            expect::read(&exchange.held, seen, *method, &mut heads[target])
        };
        let progress = match read {
            Read::Partial => {
                if seen == 0 {
                    exchange.held.extend_from_slice(rest);
                }
                input.at = input.end;
                Progress::More
            }
            Read::Bad => Progress::Bad,
            Read::Whole(head, len) => {
                input.at += len.saturating_sub(seen);
                exchange.held.clear();
                if head.status == 101 {
                    Progress::Bad
                } else if head.status < 200 {
                    Progress::More
                } else {
                    if head.status == 200 {
                        exchange.check = expect.check(flight.floor, head.coded);
                    }
                    exchange.begin(head)
                }
            }
        };
        if first_bytes && self.httperf {
            // Once more, and not again for this reply (httperf's core.c).
            self.deadline(at, self.now.saturating_add(self.plan.timeout_ns));
        }
        progress
    }

    #[inline]
    fn complete(&mut self, at: usize) -> Reply {
        let conn = &mut self.conns[at];
        let flight = conn.flights.pop_front().expect("a reply belongs to a flight");
        let exchange = &mut conn.exchange;
        let head = exchange.head.take().expect("a reply has a head");
        let check = mem::take(&mut exchange.check);
        let bytes = mem::take(&mut exchange.bytes);
        exchange.reading = Reading::Head;
        conn.replies += 1;
        // A reply before the request was out leaves the rest of the request in the way.
        let keep = head.keep && conn.unsent > 0 && !(conn.ended && conn.flights.is_empty());
        let most = self.plan.options.requests_per_connection.unwrap_or(0);
        let keep = keep && (most == 0 || conn.replies < most);
        conn.unsent = conn.unsent.saturating_sub(1);
        let (id, owner) = (conn.id(at), conn.owner);
        let mut extra = false;
        if conn.flights.is_empty() {
            conn.deadline = u64::MAX;
            extra = self.input.at < self.input.end;
        }
        if let Some(line) = &mut conn.line {
            line.bytes += bytes;
            line.busy += self.now.saturating_sub(flight.start);
        }
        let mut fate = self.judge(&flight, head, &check, bytes);
        if extra {
            // More than was asked for must not pass for the reply to the next request.
            self.forget_input();
            fate = Fate::Malformed;
        }
        self.answer(&flight, head, fate, bytes);
        Reply { conn: id, owner, keep: keep && !extra }
    }

    /// Records an exchange that has a whole answer.
    #[inline]
    pub(super) fn answer(&mut self, flight: &Flight, head: Head, fate: Fate, bytes: u64) {
        let class = usize::from(head.status / 100).min(5);
        if (self.from..self.until).contains(&flight.order.due) {
            self.tally.statuses[class] += 1;
            if head.status != 200 {
                *self.tally.codes.entry(head.status).or_default() += 1;
            }
        }
        self.record(flight, fate, bytes);
    }

    #[inline]
    pub(super) fn judge(&mut self, flight: &Flight, head: Head, check: &Check, bytes: u64) -> Fate {
        let target = &self.plan.script.targets[index(flight.order.target.into())];
        let verifies = !matches!(target.expect, Expect::Unknown);
        // A part of a file is not compared.
        let is_part = head.status == 206 && self.plan.asks_parts;
        if head.status >= 400 || verifies && head.status != 200 && !is_part {
            return Fate::Status;
        }
        // The comparison with copies of a file knows its length, old and new.
        let sized = target.size.filter(|_| !matches!(target.expect, Expect::File(_)));
        let sized = sized.filter(|_| head.coded == Coded::No);
        let found = if is_part {
            Comparison::Nothing
        } else if target.method == Method::Head {
            let size = match (&target.expect, head.coded) {
                (_, Coded::No) => target.size,
                (Expect::File(local), coded) => local.coded(coded).map(Local::len),
                _ => None,
            };
            match (size, head.stated) {
                (Some(size), Some(stated)) if size != stated => {
                    Comparison::Wrong(Fate::WrongLength)
                }
                (Some(_), Some(_)) => Comparison::Right,
                _ => Comparison::Nothing,
            }
        } else if head.status == 200 && sized.is_some_and(|size| size != bytes) {
            Comparison::Wrong(Fate::WrongLength)
        } else {
            target.expect.end(check, flight.start, self.plan.stale_after_ns)
        };
        let counts = (self.from..self.until).contains(&flight.order.due);
        match found {
            Comparison::Right => self.tally.verified += u64::from(counts),
            Comparison::Wrong(fate) => {
                self.tally.verified += u64::from(counts);
                return fate;
            }
            Comparison::Changed => self.tally.changed += u64::from(counts),
            Comparison::Nothing => {}
        }
        let late = self.now.saturating_sub(flight.order.due) > self.plan.deadline_ns;
        if late { Fate::Late } else { Fate::Good }
    }

    /// Counter of an order's client and size.
    pub(super) fn seen(&mut self, order: Order) -> Option<&mut Seen> {
        let slot = self.plan.script.targets[index(order.target.into())].slot;
        let at = index(order.client.into()) * self.plan.sizes.len() + index(slot.into());
        self.tally.seen.get_mut(at)
    }

    #[inline]
    pub(super) fn record(&mut self, flight: &Flight, fate: Fate, bytes: u64) {
        let now = self.now;
        let order = flight.order;
        let open = !matches!(self.plan.options.model, Model::Closed { .. });
        let (response, service) = (now.saturating_sub(order.due), now.saturating_sub(flight.start));
        let time = if open { response } else { service };
        self.in_flight -= 1;
        if fate != Fate::Unfinished {
            self.second.times.record(time);
        }
        if fate == Fate::Good {
            self.second.row.bytes += bytes;
            if (self.from..self.until).contains(&now) {
                self.tally.good_within += 1;
                self.tally.bytes_within += bytes;
            }
        }
        self.second.fates.count(fate);
        if !(self.from..self.until).contains(&order.due) {
            return;
        }
        self.tally.fates.count(fate);
        if fate.is_answer() {
            self.tally.service.times.record(service);
            let phases = &mut self.tally.phases;
            phases.send.record(flight.sent.saturating_sub(flight.begun));
            phases.wait.record(flight.first.saturating_sub(flight.sent));
            phases.receive.record(now.saturating_sub(flight.first));
        } else {
            self.tally.service.censor(service, fate.is_given_up());
            if fate == Fate::Status || fate.is_lie() {
                self.tally.failed.record(service);
            }
        }
        match (open, fate.is_answer()) {
            (true, true) => self.tally.response.times.record(response),
            (true, false) => self.tally.response.censor(response, fate.is_given_up()),
            (false, _) => {}
        }
        let class = usize::from(self.plan.script.targets[index(order.target.into())].class);
        self.tally.classes[class].count(fate, bytes, time);
        if let Some(seen) = self.seen(order) {
            seen.add(&Seen {
                requests: 1,
                good: u64::from(fate == Fate::Good),
                timeouts: u64::from(fate == Fate::Timeout),
                unseen: 0,
                bytes: if fate == Fate::Good { bytes } else { 0 },
            });
        }
    }
}

impl Exchange {
    fn begin(&mut self, head: Head) -> Progress {
        self.head = Some(head);
        self.reading = match head.body {
            ResponseBody::None | ResponseBody::Length(0) => return Progress::Whole,
            ResponseBody::Length(length) => Reading::Length(length),
            ResponseBody::Chunked => Reading::Chunked(Decoder::new()),
            ResponseBody::UntilClose => Reading::UntilClose,
        };
        Progress::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Rate;
    use crate::engine::options::LoadOptions;
    use crate::engine::plan::Plan;
    use std::iter;
    use std::net::TcpListener;

    /// However often more comes, one alarm is set, and the next when that has rung.
    #[test]
    fn a_slow_line_sets_one_alarm() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let model = Model::Open { rate: Rate::constant(1.0), connections_max: None };
        let line_bits_per_s = Some(8_000);
        let plan = Plan::new(&LoadOptions { line_bits_per_s, ..LoadOptions::new(&url, model) });
        let plan = plan.unwrap();
        let mut core = Core::new(&plan, 0).unwrap();
        let conn = core.open(0, 0).unwrap();
        assert!(core.may_read(conn), "nothing was read yet");
        let alarms = |core: &mut Core<'_>| {
            let rung = iter::from_fn(|| core.timers.rung(u64::MAX));
            rung.filter(|(_, alarm)| *alarm == Alarm::Read(conn.0)).count()
        };
        let now = core.now;
        core.conns[conn.at()].line.as_mut().unwrap().took(256, now);
        for _ in 0..2 {
            assert!(!core.may_read(conn) && !core.may_read(conn) && !core.may_read(conn));
            assert_eq!(alarms(&mut core), 1);
            core.read_on(conn);
        }
    }
}
