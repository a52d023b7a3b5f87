//! Connections of one thread: opened, written to, watched, timed, and closed. What to ask for, and
//! what to do when an exchange has ended, is a model's business ([`super::play`]).

use super::expect::{Check, Head, Known};
use super::fate::Fate;
use super::http2::{Http2, Stream};
use super::input::{ConnId, INPUT_BYTES, Input};
use super::options::Model;
use super::plan::Plan;
use super::secure::{CIPHER_BYTES, Secure};
use super::tally::{Phase, Second, Tally};
use super::url::Destination;
use crate::number::{id, index};
use regatta_http::chunked::Decoder;
use regatta_sys::connect::{ConnectSpec, connect, connect_unix, connected};
use regatta_sys::wait::{Exact, WaitChange};
use regatta_sys::{clock, send_last, socket};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) target: u32,
    pub(super) client: u32,
    pub(super) due: u64,
    /// Earlier attempts, on connections that ended.
    pub(super) tries: u8,
}

/// A request that has been made. Times are nanoseconds on the monotonic clock; 0: not yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) order: Order,
    /// First attempt, the connect included.
    pub(super) start: u64,
    /// First byte handed to the kernel.
    pub(super) begun: u64,
    /// Last byte handed to the kernel.
    pub(super) sent: u64,
    /// First byte of the reply.
    pub(super) first: u64,
    /// The version that the content must not be older than.
    pub(super) floor: u64,
}

#[derive(Debug)]
pub(super) struct Broken {
    pub(super) owner: u32,
    pub(super) fate: Fate,
    pub(super) lost: u32,
    /// Requests that can be made again: the connection had carried others and ended before a byte
    /// of their replies (RFC 9110 §9.2.2; httperf reconnects likewise).
    pub(super) again: Vec<Order>,
}

/// Times that a request is made again.
const TRIES_MAX: u8 = 3;

#[derive(Debug, Default)]
pub(super) struct Conn {
    pub(super) fd: Option<OwnedFd>,
    /// TLS on it; `None` in the clear, and until the connection is made.
    pub(super) secure: Option<Box<Secure>>,
    /// Streams on it, in HTTP/2.
    pub(super) http2: Option<Box<Http2>>,
    /// State of a place without a socket, which asks on a stream of another.
    pub(super) stream: Option<Box<Stream>>,
    generation: u32,
    pub(super) owner: u32,
    /// Not made yet, or in the handshake.
    pub(super) connecting: bool,
    /// Receiving may find something.
    pub(super) more: bool,
    /// The peer sends no more: receive until the end.
    pub(super) ended: bool,
    pub(super) opened: u64,
    pub(super) replies: u64,
    pub(super) flights: VecDeque<Flight>,
    /// The first flight that is not wholly sent, and what of it is.
    pub(super) unsent: usize,
    pub(super) sent_bytes: usize,
    pub(super) exchange: Exchange,
    /// Time-out; `u64::MAX`: never.
    pub(super) deadline: u64,
    alarm: u64,
    pub(super) line: Option<Line>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    ns_per_byte: f64,
    /// Bytes that one receive may take: 20 ms worth, so that the speed looks even.
    pub(super) chunk: usize,
    /// Earliest time of the next receive.
    pub(super) next: u64,
    /// An alarm for it is set.
    pub(super) waits: bool,
    /// Content received and the time that its exchanges took: for SPEC's conforming connections.
    pub(super) bytes: u64,
    pub(super) busy: u64,
}

impl Line {
    fn new(bits_per_s: u32) -> Self {
        let bytes_per_s = f64::from(bits_per_s.max(1_000)) / 8.0;
        let chunk = index(u64::from(bits_per_s / 8 / 50)).clamp(256, INPUT_BYTES);
        Self { ns_per_byte: 1e9 / bytes_per_s, chunk, next: 0, waits: false, bytes: 0, busy: 0 }
    }

    pub(super) fn took(&mut self, bytes: usize, now: u64) {
        let seconds = bytes as f64 * self.ns_per_byte / 1e9;
        self.next = self.next.max(now) + crate::number::nanos_of(seconds);
    }
}

/// The connections of one thread, and what it counts.
#[derive(Debug)]
pub(super) struct Core<'p> {
    pub(super) plan: &'p Plan,
    /// Now, read after every receive and wait.
    pub(super) now: u64,
    /// The measurement's start and end.
    pub(super) from: u64,
    pub(super) until: u64,
    /// No new requests: the measurement has ended.
    pub(super) ending: bool,
    pub(super) timers: Timers,
    pub(super) tally: Tally,
    pub(super) second: Second,
    /// Requests due and not yet decided.
    pub(super) in_flight: u64,
    /// Connections that are open or on their way.
    pub(super) open: u64,
    pub(super) input: Input,
    /// Encrypted bytes of the last receive; empty in the clear.
    pub(super) cipher: Vec<u8>,
    pub(super) heads: Vec<Known>,
    pub(super) conns: Vec<Conn>,
    pub(super) poll: Exact,
    /// Stream places of a connection; 0: HTTP/1.1.
    pub(super) streams: u32,
    /// Connections that may have room for further places.
    pub(super) roomy: Vec<ConnId>,
    /// Connections with frames to send.
    pub(super) listed: Vec<ConnId>,
    free: Vec<u32>,
    pub(super) failed: Vec<(ConnId, Fate)>,
    next_source: usize,
    next_server: usize,
    /// Whether time-outs are httperf's.
    pub(super) httperf: bool,
}

/// Receive buffer of a slow line, bytes; the kernel doubles it.
const SLOW_BUFFER_BYTES: u32 = 4_096;

impl<'p> Core<'p> {
    pub(super) fn new(plan: &'p Plan, worker: u32) -> io::Result<Self> {
        let clients = usize::try_from(plan.clients).unwrap_or(1);
        Ok(Self {
            plan,
            now: clock::nanos(),
            from: 0,
            until: u64::MAX,
            ending: false,
            timers: Timers::default(),
            tally: Tally::new(clients, plan.sizes.len()),
            second: Second::new(0),
            in_flight: 0,
            open: 0,
            input: Input::new(),
            cipher: vec![0; if plan.tls.is_some() { CIPHER_BYTES } else { 0 }],
            heads: vec![Known::default(); plan.script.targets.len()],
            conns: Vec::new(),
            poll: Exact::new()?,
            streams: plan.streams,
            roomy: Vec::new(),
            listed: Vec::new(),
            free: Vec::new(),
            failed: Vec::new(),
            next_source: usize::try_from(worker).unwrap_or(0) * 7,
            next_server: usize::try_from(worker).unwrap_or(0),
            httperf: matches!(plan.options.model, Model::PartlyOpen { .. }),
        })
    }

    /// Whether this is still the connection that the id was given to.
    pub(super) fn is_open(&self, conn: ConnId) -> bool {
        let found = self.conns.get(conn.at());
        found.is_some_and(|c| {
            (c.fd.is_some() || c.stream.is_some()) && ConnId::new(conn.at(), c.generation) == conn
        })
    }

    /// Whether a request is in flight on it.
    pub(super) fn is_busy(&self, conn: ConnId) -> bool {
        !self.conns[conn.at()].flights.is_empty()
    }

    /// A request became due: it is counted from here on, whatever becomes of it.
    #[inline]
    pub(super) fn offer(&mut self, due: u64) {
        self.in_flight += 1;
        self.second.row.offered += 1;
        self.tally.offered += u64::from((self.from..self.until).contains(&due));
    }

    /// Something due at `due` is taken up now.
    #[inline]
    pub(super) fn lag(&mut self, due: u64) {
        let lag = self.now.saturating_sub(due);
        self.second.row.lag_ns = self.second.row.lag_ns.max(lag);
        if (self.from..self.until).contains(&due) {
            self.tally.lag.record(lag);
        }
    }

    /// Starts a connection for `owner` on a line of that speed (0: the load's). In HTTP/2 it is a
    /// place on a connection, which may be there already.
    pub(super) fn open(&mut self, owner: u32, bits_per_s: u32) -> Result<ConnId, Fate> {
        if self.streams > 0 { self.open_place(owner) } else { self.open_conn(owner, bits_per_s) }
    }

    /// An unused place in the table.
    pub(super) fn place(&mut self) -> usize {
        let at = self.free.pop().map_or(self.conns.len(), |at| index(at.into()));
        if at == self.conns.len() {
            self.conns.push(Conn::closed());
        }
        at
    }

    pub(super) fn open_conn(&mut self, owner: u32, bits_per_s: u32) -> Result<ConnId, Fate> {
        self.tally.connects += 1;
        let all = self.plan.options.line_bits_per_s;
        let all = u32::try_from(all.unwrap_or(0)).unwrap_or(u32::MAX);
        let bits_per_s = if bits_per_s == 0 { all } else { bits_per_s };
        let line = (bits_per_s > 0).then(|| Line::new(bits_per_s));
        let recv_buffer_bytes = line.map_or(0, |_| SLOW_BUFFER_BYTES);
        let (from, to) = (self.plan.source(self.next_source), self.plan.server(self.next_server));
        self.next_source = self.next_source.wrapping_add(1);
        self.next_server = self.next_server.wrapping_add(1);
        let made = match to {
            &Destination::Inet(to) => connect(&ConnectSpec { to, from, recv_buffer_bytes }),
            Destination::Unix(path) => connect_unix(path),
        };
        let at = self.place();
        let key = ConnId::new(at, self.conns[at].generation);
        let made = made.and_then(|fd| self.poll.add(fd.as_fd(), key.0).map(|()| fd));
        let fd = match made {
            Ok(fd) => fd,
            Err(error) => {
                self.free.push(id(at));
                let fate = Fate::of(&error);
                self.tally.health.descriptors_refused += u64::from(fate == Fate::NoDescriptor);
                self.tally.health.ports_refused += u64::from(fate == Fate::NoAddress);
                return Err(fate);
            }
        };
        let now = self.now;
        let conn = &mut self.conns[at];
        conn.fd = Some(fd);
        (conn.owner, conn.line, conn.opened, conn.connecting) = (owner, line, now, true);
        self.open += 1;
        self.tally.connections_most = self.tally.connections_most.max(self.open);
        self.deadline(at, now.saturating_add(self.plan.timeout_ns));
        Ok(key)
    }

    /// Makes a request on a connection, behind those that it has in flight.
    #[inline]
    pub(super) fn request(&mut self, conn: ConnId, order: Order) {
        let at = conn.at();
        let floor = self.plan.script.targets[index(order.target.into())].expect.floor(self.now);
        let now = self.now;
        let conn = &mut self.conns[at];
        let start = if conn.connecting && conn.flights.is_empty() { conn.opened } else { now };
        conn.flights.push_back(Flight { order, start, begun: 0, sent: 0, first: 0, floor });
        if conn.stream.is_some() {
            self.ask(at);
        } else if !conn.connecting {
            self.flush(at);
        }
    }

    /// Sends what is not yet sent, until the kernel takes no more.
    fn flush(&mut self, at: usize) {
        if self.conns[at].http2.is_some() {
            return self.flush_frames(at);
        }
        if self.conns[at].secure.is_some() {
            return self.flush_secure(at);
        }
        loop {
            let conn = &mut self.conns[at];
            let (Some(flight), Some(fd)) = (conn.flights.get_mut(conn.unsent), &conn.fd) else {
                return;
            };
            let target = &self.plan.script.targets[index(flight.order.target.into())];
            let rest = &target.bytes[conn.sent_bytes..];
            if flight.begun == 0 {
                flight.begun = self.now;
            }
            match send_last(fd.as_fd(), rest) {
                Ok(bytes) => {
                    self.tally.bytes_sent += bytes;
                    conn.sent_bytes += index(bytes);
                    let whole = index(bytes) == rest.len();
                    self.sent(at, whole);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    let id = ConnId::new(at, conn.generation);
                    self.failed.push((id, Fate::of(&error)));
                    return;
                }
            }
        }
    }

    /// The kernel has taken the first unsent request of a connection, or a part of it.
    #[inline]
    pub(super) fn sent(&mut self, at: usize, whole: bool) {
        let now = clock::nanos();
        let conn = &mut self.conns[at];
        let flight = &mut conn.flights[conn.unsent];
        let start = flight.start;
        if whole {
            flight.sent = now;
            (conn.unsent, conn.sent_bytes) = (conn.unsent + 1, 0);
        }
        let think = if whole { self.plan.think_timeout_ns } else { 0 };
        let since = if self.httperf { now.saturating_add(think) } else { start };
        self.deadline(at, since.saturating_add(self.plan.timeout_ns));
    }

    /// Sets the time-out of a connection (`u64::MAX`: never).
    #[inline]
    pub(super) fn deadline(&mut self, at: usize, at_ns: u64) {
        let conn = &mut self.conns[at];
        conn.deadline = at_ns;
        if at_ns < conn.alarm {
            conn.alarm = at_ns;
            self.timers.set(at_ns, Alarm::Deadline(ConnId::new(at, conn.generation).0));
        }
    }

    /// Takes note of a change; answers the connection if there is something to receive on it.
    #[inline]
    pub(super) fn change(&mut self, change: WaitChange) -> Option<ConnId> {
        let id = ConnId(change.key);
        if !self.is_open(id) {
            return None;
        }
        let at = id.at();
        let conn = &self.conns[at];
        let is_new = conn.connecting;
        if is_new && (change.writable || conn.secure.is_some()) {
            self.now = clock::nanos();
            self.made(id);
        }
        if (change.writable || is_new) && !self.conns[at].connecting {
            self.flush(at);
        }
        let conn = &mut self.conns[at];
        conn.more |= change.readable && !conn.connecting;
        conn.ended |= change.ended;
        conn.more.then_some(id)
    }

    /// A connection is made, or its handshake continues.
    fn made(&mut self, id: ConnId) {
        let conn = &mut self.conns[id.at()];
        let Some(fd) = &conn.fd else { return };
        if conn.secure.is_some() {
            return self.shake_hands(id);
        }
        if let Err(error) = connected(fd.as_fd()) {
            self.failed.push((id, Fate::of(&error)));
            return;
        }
        if (self.from..self.until).contains(&conn.opened) {
            self.tally.phases.connect.record(self.now.saturating_sub(conn.opened));
        }
        if let Some(setup) = &self.plan.tls {
            match Secure::begin(setup, self.now) {
                Ok(secure) => {
                    conn.secure = Some(secure);
                    self.shake_hands(id);
                }
                Err(error) => self.distrust(id, &error),
            }
            return;
        }
        self.ready(id);
    }

    /// Requests can go out on a connection.
    pub(super) fn ready(&mut self, id: ConnId) {
        let conn = &mut self.conns[id.at()];
        conn.connecting = false;
        self.tally.connected += 1;
        self.second.connected += 1;
        if conn.flights.is_empty() {
            self.deadline(id.at(), u64::MAX);
        }
        self.begin_streams(id);
    }

    /// The next connection that failed outside of a receive.
    pub(super) fn failure(&mut self) -> Option<(ConnId, Broken)> {
        while let Some((conn, fate)) = self.failed.pop() {
            if !self.is_open(conn) {
                continue;
            }
            if self.conns[conn.at()].http2.is_none() {
                return Some((conn, self.end(conn, fate)));
            }
            self.shatter(conn, fate);
        }
        None
    }

    /// A deadline may have passed. Answers the end of the connection if it has.
    pub(super) fn rung(&mut self, id: ConnId) -> Option<Broken> {
        if !self.is_open(id) {
            return None;
        }
        let at = id.at();
        let conn = &mut self.conns[at];
        conn.alarm = u64::MAX;
        let deadline = conn.deadline;
        if deadline > self.now {
            if deadline < u64::MAX {
                self.deadline(at, deadline);
            }
            return None;
        }
        if conn.http2.is_some() {
            self.shatter(id, Fate::Timeout);
            return None;
        }
        Some(self.end(id, Fate::Timeout))
    }

    /// Ends a connection, and decides its requests: lost, or to be made again.
    pub(super) fn end(&mut self, id: ConnId, fate: Fate) -> Broken {
        let at = id.at();
        let conn = &mut self.conns[at];
        let owner = conn.owner;
        let phase = conn.phase();
        let unseen = match (phase, &conn.fd) {
            (Phase::Connect, _) => true,
            (Phase::Wait, Some(fd)) => socket::queued_bytes(fd.as_fd()).is_ok_and(|n| n > 0),
            _ => false,
        };
        let reusable = fate == Fate::Reset && conn.replies > 0 && !conn.exchange.is_begun();
        let flights = core::mem::take(&mut conn.flights);
        self.close(id);
        let (mut lost, mut again) = (0, Vec::new());
        for flight in flights {
            let mut order = flight.order;
            if reusable && flight.first == 0 && order.tries < TRIES_MAX {
                order.tries += 1;
                self.tally.again += 1;
                again.push(order);
                continue;
            }
            if fate == Fate::Timeout {
                self.timed_out(&flight, phase, unseen);
            }
            self.record(&flight, fate, 0);
            lost += 1;
        }
        Broken { owner, fate, lost, again }
    }

    fn timed_out(&mut self, flight: &Flight, phase: Phase, unseen: bool) {
        if (self.from..self.until).contains(&flight.order.due) {
            self.tally.phases.timeouts[phase as usize] += 1;
            if let Some(seen) = self.seen(flight.order) {
                seen.unseen += u64::from(unseen);
            }
        }
    }

    /// Closes a connection, whatever it was doing.
    pub(super) fn close(&mut self, id: ConnId) {
        if !self.is_open(id) {
            return;
        }
        let conn = &mut self.conns[id.at()];
        if let Some((secure, fd)) = conn.parts() {
            secure.end(fd);
        }
        if let Some(Line { bytes, busy, .. }) = conn.line.take() {
            self.tally.lines.count(bytes, busy);
        }
        let (stream, has_socket) = (conn.stream.take(), conn.fd.is_some());
        let generation = conn.generation.wrapping_add(1);
        // Reuses its allocations.
        let mut flights = core::mem::take(&mut conn.flights);
        flights.clear();
        *conn = Conn { generation, flights, ..Conn::closed() };
        self.free.push(crate::number::id(id.at()));
        self.open -= u64::from(has_socket);
        if let Some(stream) = stream {
            self.leave(id, &stream);
        }
    }

    /// All requests in flight have run out of time: the run is over.
    pub(super) fn abandon(&mut self) {
        for at in 0..self.conns.len() {
            let id = ConnId::new(at, self.conns[at].generation);
            if self.is_open(id) {
                self.end(id, Fate::Unfinished);
            }
        }
    }

    /// A request that never went out.
    pub(super) fn lose(&mut self, order: Order, fate: Fate) {
        let now = self.now;
        let flight = Flight { order, start: now, begun: 0, sent: 0, first: 0, floor: 0 };
        self.record(&flight, fate, 0);
    }
}

impl Conn {
    /// The connection in this place.
    pub(super) fn id(&self, at: usize) -> ConnId {
        ConnId::new(at, self.generation)
    }

    /// TLS and socket of a connection that has both.
    pub(super) fn parts(&mut self) -> Option<(&mut Secure, BorrowedFd<'_>)> {
        Some((self.secure.as_deref_mut()?, self.fd.as_ref()?.as_fd()))
    }

    fn closed() -> Self {
        Self { deadline: u64::MAX, alarm: u64::MAX, ..Self::default() }
    }

    /// Phase of the first request in flight.
    fn phase(&self) -> Phase {
        match self.flights.front() {
            _ if self.connecting => Phase::Connect,
            _ if self.unsent == 0 => Phase::Send,
            Some(flight) if flight.first > 0 => Phase::Receive,
            _ => Phase::Wait,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) reading: Reading,
    /// The start of a head that came in pieces.
    pub(super) held: Vec<u8>,
    pub(super) head: Option<Head>,
    pub(super) check: Check,
    pub(super) bytes: u64,
}

#[derive(Debug, Default)]
pub(super) enum Reading {
    #[default]
    Head,
    Length(u64),
    Chunked(Decoder),
    UntilClose,
}

impl Exchange {
    pub(super) fn is_begun(&self) -> bool {
        self.head.is_some() || !self.held.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    Deadline(u64),
    Read(u64),
    Play(u64),
}

#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(u64, Alarm)>>);

impl Timers {
    pub(super) fn set(&mut self, at_ns: u64, alarm: Alarm) {
        self.0.push(Reverse((at_ns, alarm)));
    }

    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.0.peek().map_or(u64::MAX, |Reverse((at, _))| *at)
    }

    /// The next alarm that has rung by `now`, and when it was to.
    #[inline]
    pub(super) fn rung(&mut self, now: u64) -> Option<(u64, Alarm)> {
        if self.next() > now {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }
}
