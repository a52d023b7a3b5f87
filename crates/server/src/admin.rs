//! Admin process: answers questions about the server over HTTP, and changes nothing. `regatta top
//! --web` answers some of them about a server that has no admin process.
//!
//! A single thread runs an event loop: a client that sends nothing, or reads nothing, holds up no
//! other.
mod http;
mod listener;
#[cfg(test)]
mod tests;
mod web;

use crate::{expiry::seconds_until, heartbeat::answers, top};
use http::{Answer, Asked, encode, refuse, request, scan};
pub(crate) use listener::{listen, try_listening};
use regatta_http::Status;
use regatta_metrics::{
    ArenaView, Form, Phase, Scrape, SlotView, Totals, WorkerScrape, openmetrics,
};
use regatta_op::Tick;
use regatta_sys::{
    clock,
    socket::{self, AcceptFault, Mode},
    wait::{Event, Interest, Poll, Poller as _},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    net::IpAddr,
    ops::{Range, RangeInclusive},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
    time::{Duration, Instant, SystemTime},
};
pub use web::show_page;

/// Limit of a request and its answer.
pub(crate) const EXCHANGE_MAX: Duration = Duration::from_secs(1);

/// Limit of clients at once. One more displaces the oldest: a quick client is never refused because
/// others are slow.
const CLIENTS_MAX: usize = 128;

/// Wait for descriptors or memory before the next connection is accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Time between the two readings for rates, unless the request names another one.
const INTERVAL: Duration = Duration::from_millis(100);

/// Times that a request may name, milliseconds.
const INTERVAL_MS: RangeInclusive<u64> = 100..=5_000;

/// Longest wait: there is a heartbeat at least this often.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// Limit of bytes that a client may send after its request; they are discarded.
const REST_BYTES_MAX: usize = 64 << 10;

/// Bytes that one call receives.
const READ_BYTES: usize = 4 << 10;

/// Key of the listener in the poller; clients have their number.
const LISTENER: u64 = u64::MAX;

/// Paths with an answer of an admin process, and of `regatta top --web`.
const PATHS: [&str; 2] = ["/, /metrics, /live, /ready, /status, /config", "/, /status"];

/// The page that shows `/status`, live.
const PAGE: &str = include_str!("../assets/live.html");

/// Sources of the answers.
pub(crate) struct About {
    /// The server, whose counters are read.
    pub(crate) reader: top::Reader,
    /// Hosts that a request may name.
    pub(crate) hosts: Hosts,
    /// Sources of an admin process.
    pub(crate) own: Option<OwnServer>,
}

/// Facts that an admin process has from its master.
pub(crate) struct OwnServer {
    /// Counters of the server.
    pub(crate) arena: ArenaView<'static>,
    /// Slots of each worker.
    pub(crate) slots: Vec<Range<usize>>,
    /// Configuration, with every option written out.
    pub(crate) config: String,
    /// Time at which the next certificate expires; `None`: there is none.
    pub(crate) next_expiry: Option<SystemTime>,
}

/// Hosts whose requests are answered. A stranger's page can have a browser request any address
/// under a name of the stranger's own (DNS rebinding), and would read the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// All: no browser connects to a Unix socket.
    All,
    /// Addresses, `localhost`, and this name.
    Named(String),
}

impl Hosts {
    /// True if a request with this `Host` is answered.
    fn answer(&self, host: &str) -> bool {
        let Self::Named(own) = self else { return true };
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let is_name = |of: &str| name.eq_ignore_ascii_case(of);
        name.parse::<IpAddr>().is_ok() || is_name("localhost") || is_name(own)
    }
}

/// Answers requests, each with its answer within `time_max`. `beat` is called between waits.
/// Returns only when the listener can accept no more.
pub(crate) fn serve(
    listener: BorrowedFd<'_>,
    about: &About,
    time_max: Duration,
    beat: &dyn Fn(Tick),
) -> io::Error {
    let mut clients = Clients::new(about, time_max);
    match clients.listen(listener, beat) {
        Ok(()) => io::ErrorKind::NotConnected.into(),
        Err(error) => error,
    }
}

/// All clients.
struct Clients<'a> {
    about: &'a About,
    time_max: Duration,
    poller: Poll,
    /// By arrival.
    all: BTreeMap<u64, Client>,
    next: u64,
}

/// Client, and the progress of its exchange.
struct Client {
    stream: File,
    until: Instant,
    stage: Stage,
}

/// Step of an exchange.
enum Stage {
    /// Waits for the rest of the head; this part has been received.
    Head(Vec<u8>),
    /// Waits for the time of the second reading.
    Reading { first: Box<top::Reading>, due: Instant, with_body: bool },
    /// Waits for room for the rest of the answer.
    Answer { bytes: Vec<u8>, sent: usize },
    /// Waits for the end of the stream: a socket closed with unread bytes resets the connection,
    /// and the answer may be lost.
    Rest(usize),
}

/// The result of a request.
enum Answered {
    Now(Answer),
    /// After a second reading, this much later.
    Later(Box<top::Reading>, Duration),
}

impl<'a> Clients<'a> {
    fn new(about: &'a About, time_max: Duration) -> Self {
        Self { about, time_max, poller: Poll::new(), all: BTreeMap::new(), next: 0 }
    }

    /// Serves all clients, until the listener fails.
    fn listen(&mut self, listener: BorrowedFd<'_>, beat: &dyn Fn(Tick)) -> io::Result<()> {
        socket::set_mode(listener, Mode::Nonblocking)?;
        self.poller.add(listener, LISTENER, Interest::READ)?;
        let mut events = Vec::new();
        loop {
            beat(clock::now().tick);
            self.round(&mut events)?;
            if events.iter().any(|event| event.key == LISTENER) {
                self.accept(listener)?;
            }
        }
    }

    /// Waits once, and serves the clients that are ready or due.
    fn round(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        let now = Instant::now();
        let due = self.all.values().map(Client::due).min();
        let wait = due.map_or(WAIT_MAX, |due| due.saturating_duration_since(now).min(WAIT_MAX));
        self.poller.wait(events, Some(wait))?;
        for event in events.iter().filter(|event| event.key != LISTENER) {
            self.turn(event.key);
        }
        let now = Instant::now();
        let due = self.all.iter().filter(|(_, client)| client.due() <= now);
        for key in due.map(|(key, _)| *key).collect::<Vec<_>>() {
            match self.all.get(&key) {
                Some(client) if client.until > now => self.turn(key),
                _ => self.leave(key),
            }
        }
        Ok(())
    }

    /// Accepts waiting connections.
    fn accept(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        for _ in 0..CLIENTS_MAX {
            match socket::accept(listener, Mode::Nonblocking) {
                Ok((socket, _)) => self.add(socket.into()),
                Err(error) => match socket::accept_fault(&error) {
                    AcceptFault::Aborted => {}
                    AcceptFault::WouldBlock => break,
                    AcceptFault::Exhausted => {
                        match self.all.first_key_value() {
                            Some((oldest, _)) => self.leave(*oldest),
                            None => thread::sleep(PAUSE),
                        }
                        break;
                    }
                    AcceptFault::Closed | AcceptFault::Other(_) => return Err(error),
                },
            }
        }
        Ok(())
    }

    fn add(&mut self, socket: OwnedFd) {
        while self.all.len() >= CLIENTS_MAX
            && let Some((oldest, _)) = self.all.first_key_value()
        {
            self.leave(*oldest);
        }
        let (key, until) = (self.next, Instant::now() + self.time_max);
        self.next += 1;
        // A client that cannot be watched is closed.
        if self.poller.add(socket.as_fd(), key, Interest::READ).is_ok() {
            let stage = Stage::Head(Vec::new());
            self.all.insert(key, Client { stream: File::from(socket), until, stage });
            self.turn(key);
        }
    }

    /// Continues with one client, until it must wait.
    fn turn(&mut self, key: u64) {
        let Some(client) = self.all.get_mut(&key) else { return };
        let interest = loop {
            match client.advance(self.about) {
                Ok(true) => {}
                Ok(false) => break Ok(client.interest()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    break Ok(client.interest());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The loss of a client does not affect the others.
                Err(error) => break Err(error),
            }
        };
        let watched =
            interest.and_then(|interest| self.poller.set(client.stream.as_fd(), key, interest));
        if watched.is_err() {
            self.leave(key);
        }
    }

    fn leave(&mut self, key: u64) {
        if let Some(client) = self.all.remove(&key) {
            let _ = self.poller.remove(client.stream.as_fd());
        }
    }
}

impl Client {
    /// Time at which it is due, whatever it sends.
    fn due(&self) -> Instant {
        match &self.stage {
            Stage::Reading { due, .. } => self.until.min(*due),
            _ => self.until,
        }
    }

    const fn interest(&self) -> Interest {
        match self.stage {
            Stage::Head(_) | Stage::Rest(_) => Interest::READ,
            Stage::Answer { .. } => Interest { read: false, write: true },
            Stage::Reading { .. } => Interest::NONE,
        }
    }

    /// Makes a step; false if it must wait for a time.
    ///
    /// `WouldBlock` if it must wait for the client; otherwise the exchange is over.
    fn advance(&mut self, about: &About) -> io::Result<bool> {
        let mut bytes = [0; READ_BYTES];
        match &mut self.stage {
            Stage::Head(head) => {
                let count = self.stream.read(&mut bytes)?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if let Some(scanned) = scan(head, &bytes[..count]) {
                    self.stage = match scanned {
                        Ok(()) => about.begin(head),
                        Err(fault) => Stage::answer(refuse(fault)),
                    };
                    if let Stage::Reading { due, .. } = &self.stage {
                        self.until += due.saturating_duration_since(Instant::now());
                    }
                }
            }
            Stage::Reading { first, due, with_body } => {
                if Instant::now() < *due {
                    return Ok(false);
                }
                let document = first.rates();
                self.stage = Stage::answer(encode(&Answer::json(Status::OK, document), *with_body));
            }
            Stage::Answer { bytes, sent } => {
                *sent += self.stream.write(&bytes[*sent..])?;
                if *sent == bytes.len() {
                    socket::shutdown_write(self.stream.as_fd())?;
                    self.stage = Stage::Rest(0);
                }
            }
            Stage::Rest(seen) => {
                *seen += match self.stream.read(&mut bytes)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => count,
                };
                if *seen > REST_BYTES_MAX {
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
        Ok(true)
    }
}

impl Stage {
    const fn answer(bytes: Vec<u8>) -> Self {
        Self::Answer { bytes, sent: 0 }
    }
}

/// Whether the server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Health {
    drains: bool,
    /// Workers that are there or should be.
    workers: usize,
    /// Workers among them with a recent heartbeat.
    answering: usize,
}

impl Health {
    /// A single answering worker is enough: a balancer that removes the whole server because one of
    /// several is stopped makes it worse.
    const fn is_ready(self) -> bool {
        !self.drains && self.answering > 0
    }

    fn answer(self, generation: u64) -> Answer {
        let Self { workers, answering, .. } = self;
        let ready = self.is_ready();
        let status = if ready { Status::OK } else { Status::SERVICE_UNAVAILABLE };
        let body = format!(
            "{{\"ready\":{ready},\"workers\":{workers},\"answering\":{answering},\
             \"generation\":{generation}}}\n"
        );
        Answer::json(status, body)
    }
}

impl About {
    /// Answers a head, or takes the first reading for its answer.
    fn begin(&self, head: &[u8]) -> Stage {
        let asked = match request(head) {
            Ok(asked) => asked,
            Err(refusal) => return Stage::answer(refusal),
        };
        let with_body = asked.with_body;
        match self.answer(&asked) {
            Answered::Now(answer) => Stage::answer(encode(&answer, with_body)),
            Answered::Later(first, interval) => {
                Stage::Reading { first, due: Instant::now() + interval, with_body }
            }
        }
    }

    fn answer(&self, asked: &Asked<'_>) -> Answered {
        if let Some(host) = asked.host.filter(|host| !self.hosts.answer(host)) {
            let why = format!(
                "this server is not \"{host}\": ask for its address, localhost, or the name in \
                 admin.listen\n"
            );
            return Answered::Now(Answer::text(Status::FORBIDDEN, why));
        }
        if asked.path == "/status" && asked.query != "rates=0" {
            return match interval(asked.query) {
                Some(interval) => Answered::Later(Box::new(self.reader.read()), interval),
                None => Answered::Now(Answer::text(
                    Status::BAD_REQUEST,
                    format!(
                        "interval_ms is a number from {} to {}\n",
                        INTERVAL_MS.start(),
                        INTERVAL_MS.end()
                    ),
                )),
            };
        }
        Answered::Now(self.answer_now(asked))
    }

    fn answer_now(&self, asked: &Asked<'_>) -> Answer {
        match (asked.path, &self.own) {
            ("/", _) => Answer::html(PAGE),
            ("/status", _) => Answer::json(Status::OK, self.reader.read().document()),
            ("/live", Some(_)) => Answer::text(Status::OK, "live\n"),
            ("/metrics", Some(own)) => own.metrics(asked),
            ("/ready", Some(own)) => own.health(clock::now().tick).answer(own.arena.generation()),
            ("/config", Some(own)) => Answer::text(Status::OK, own.config.as_str()),
            (_, own) => {
                let paths = PATHS[usize::from(own.is_none())];
                Answer::text(Status::NOT_FOUND, format!("there is {paths}\n"))
            }
        }
    }
}

impl OwnServer {
    /// Lists the workers that are there or should be, with their slots; the first has the
    /// heartbeat.
    fn workers(&self) -> Vec<(usize, Vec<SlotView<'static>>)> {
        let all: Vec<SlotView<'static>> = self.arena.slots().collect();
        let workers = self.slots.iter().map(|range| (range.start, all[range.clone()].to_vec()));
        workers.filter(|(_, slots)| is_wanted(&slots[0])).collect()
    }

    fn health(&self, now: Tick) -> Health {
        let (workers, control) = (self.workers(), self.arena.control());
        let drains = match control.phase() {
            Phase::Run => false,
            // Others serve, and another process is about to answer for them.
            Phase::Drain => !control.others_serve(),
            Phase::Stop => true,
        };
        Health {
            drains,
            workers: workers.len(),
            answering: workers.iter().filter(|(_, slots)| answers(&slots[0], now)).count(),
        }
    }

    fn metrics(&self, asked: &Asked<'_>) -> Answer {
        let form = if wants_openmetrics(asked.accept) { Form::OpenMetrics } else { Form::Text };
        let now = clock::now().tick;
        let workers: Vec<WorkerScrape> = self
            .workers()
            .iter()
            .map(|(at, slots)| WorkerScrape::new(*at, answers(&slots[0], now), slots))
            .collect();
        let totals = Totals::from_slots(self.arena.slots().chain([self.arena.departed()]));
        let architecture = self.arena.architecture();
        let scrape = Scrape {
            version: env!("CARGO_PKG_VERSION"),
            architecture: &architecture,
            started_unix_ms: self.arena.started_unix_ms(),
            generation: self.arena.generation(),
            totals: &totals,
            workers: &workers,
            certificate_s: self.next_expiry.map(|expiry| seconds_until(expiry, SystemTime::now())),
        };
        let mut body = String::new();
        openmetrics(&mut body, form, &scrape);
        Answer { status: Status::OK, content_type: form.content_type(), body }
    }
}

/// The time between two readings that a query names; `None` if it names none that is possible.
fn interval(query: &str) -> Option<Duration> {
    let Some(named) = query.strip_prefix("interval_ms=") else { return Some(INTERVAL) };
    let ms = named.parse().ok().filter(|ms| INTERVAL_MS.contains(ms))?;
    Some(Duration::from_millis(ms))
}

/// True if there is a worker, or should be: it has not retired.
fn is_wanted(slot: &SlotView<'_>) -> bool {
    slot.pid() != 0 || slot.incarnation() > 0 && !slot.is_retired()
}

/// True if `Accept` names OpenMetrics, and does not prefer plain text.
fn wants_openmetrics(accept: &str) -> bool {
    let weight = |wanted: &str| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_it = parts.next()?.eq_ignore_ascii_case(wanted);
            let weight = parts.find_map(|part| part.strip_prefix(['q', 'Q'])?.strip_prefix('='));
            is_it.then(|| weight.map_or(1.0, |weight| weight.parse::<f32>().unwrap_or(0.0)))
        });
        ranges.fold(0.0, f32::max)
    };
    let open = weight("application/openmetrics-text");
    open > 0.0 && open >= weight("text/plain")
}
