//! The admin process: it answers questions about the server over HTTP, and changes nothing.
//!
//! A few threads each answer one request at a time: a client that sends nothing keeps one of them
//! for no longer than an exchange may take.
mod http;
mod listener;
#[cfg(test)]
mod tests;

use crate::{heartbeat::answers, top};
use http::{Answer, Asked, exchange};
pub(crate) use listener::{listen, try_listening};
use regatta_http::Status;
use regatta_metrics::{
    ArenaView, Form, Phase, Scrape, SlotView, Totals, WorkerScrape, openmetrics,
};
use regatta_op::Tick;
use regatta_sys::{
    clock,
    socket::{self, AcceptFault, Mode},
};
use std::{io, ops::Range, os::fd::BorrowedFd, thread, time::Duration};

/// How long a request and its answer may take.
pub(crate) const EXCHANGE_MAX: Duration = Duration::from_secs(1);

/// Clients that are answered at once; others wait in the backlog.
const CLIENTS_MAX: usize = 16;

/// The wait for descriptors or memory before the next connection is accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Between the two readings that rates are calculated from.
const INTERVAL: Duration = Duration::from_millis(100);

/// What there is to ask for.
const PATHS: &str = "/metrics, /live, /ready, /status, /config";

/// What the answers are made from.
#[derive(Debug)]
pub(crate) struct About {
    /// The counters of the server.
    pub(crate) arena: ArenaView<'static>,
    /// The process identifier of the master.
    pub(crate) server_pid: u32,
    /// The slots of each worker.
    pub(crate) slots: Vec<Range<usize>>,
    /// The configuration, with every option written out.
    pub(crate) config: String,
}

/// Answers requests, each with its answer within `time_max`. Returns only when the listener, which
/// must block, can accept no more.
pub(crate) fn serve(listener: BorrowedFd<'_>, about: &About, time_max: Duration) -> io::Error {
    thread::scope(|scope| {
        for _ in 1..CLIENTS_MAX {
            // If there can be no more threads, there are fewer: this one is there.
            let _ =
                thread::Builder::new().spawn_scoped(scope, || answer(listener, about, time_max));
        }
        answer(listener, about, time_max)
    })
}

/// Answers one request after the other.
fn answer(listener: BorrowedFd<'_>, about: &About, time_max: Duration) -> io::Error {
    loop {
        match socket::accept(listener, Mode::Blocking) {
            // That a client is too slow, or gone, is no matter to the others.
            Ok((socket, _)) => {
                let _ = exchange(socket.into(), time_max, |asked| about.answer(asked));
            }
            Err(error) => match socket::accept_fault(&error) {
                AcceptFault::Aborted => {}
                AcceptFault::WouldBlock | AcceptFault::Exhausted => thread::sleep(PAUSE),
                AcceptFault::Closed | AcceptFault::Other(_) => return error,
            },
        }
    }
}

/// Whether the server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Health {
    drains: bool,
    /// Workers that are there or should be.
    workers: usize,
    /// Of those, the ones with a recent heartbeat.
    answering: usize,
}

impl Health {
    /// One worker that answers is enough: a balancer that takes the whole server out because one of
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
    fn answer(&self, asked: &Asked<'_>) -> Answer {
        match asked.path {
            "/metrics" => self.metrics(asked),
            "/live" => Answer::text(Status::OK, "live\n"),
            "/ready" => self.health(clock::now().tick).answer(self.arena.generation()),
            "/status" => {
                let interval = (asked.query != "rates=0").then_some(INTERVAL);
                let document = top::status(self.arena, self.server_pid, interval);
                Answer::json(Status::OK, document)
            }
            "/config" => Answer::text(Status::OK, self.config.as_str()),
            _ => Answer::text(Status::NOT_FOUND, format!("there is {PATHS}\n")),
        }
    }

    /// The workers that are there or should be: their slots, of which the first has the heartbeat.
    fn workers(&self) -> Vec<(usize, Vec<SlotView<'static>>)> {
        let all: Vec<SlotView<'static>> = self.arena.slots().collect();
        let workers = self.slots.iter().map(|range| (range.start, all[range.clone()].to_vec()));
        workers.filter(|(_, slots)| is_wanted(&slots[0])).collect()
    }

    fn health(&self, now: Tick) -> Health {
        let (workers, control) = (self.workers(), self.arena.control());
        let drains = match control.phase() {
            Phase::Run => false,
            // Others serve, of whom another process is about to answer.
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
            .map(|(at, slots)| WorkerScrape::of(*at, answers(&slots[0], now), slots))
            .collect();
        let totals = Totals::of(self.arena.slots().chain([self.arena.departed()]));
        let architecture = self.arena.architecture();
        let scrape = Scrape {
            version: env!("CARGO_PKG_VERSION"),
            architecture: &architecture,
            started_unix_ms: self.arena.started_unix_ms(),
            generation: self.arena.generation(),
            totals: &totals,
            workers: &workers,
        };
        let mut body = String::new();
        openmetrics(&mut body, form, &scrape);
        Answer { status: Status::OK, content_type: form.content_type(), body }
    }
}

/// True if there is a worker, or there should be: it has not left as it was to.
fn is_wanted(slot: &SlotView<'_>) -> bool {
    slot.pid() != 0 || slot.incarnation() > 0 && !slot.is_retired()
}

/// True if `Accept` names OpenMetrics, and does not prefer plain text.
fn wants_openmetrics(accept: &str) -> bool {
    let weight = |wanted: &str| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_it = parts.next()?.eq_ignore_ascii_case(wanted);
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            is_it.then(|| weight.map_or(1.0, |weight| weight.parse::<f32>().unwrap_or(0.0)))
        });
        ranges.fold(0.0, f32::max)
    };
    let open = weight("application/openmetrics-text");
    open > 0.0 && open >= weight("text/plain")
}
