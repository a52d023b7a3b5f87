//! `regatta top`: the state of a running server, read from its shared counters.
//!
//! The server is not involved: no request, no lock, no signal. It cannot even notice.
mod find;
mod json;
mod memory;
mod succeed;
#[cfg(test)]
mod tests;
mod view;

use crate::{Failure, heartbeat::answers};
use find::attach;
pub(crate) use find::{FindError, attach_to_film};
use memory::Memory;
use regatta_metrics::{ArenaView, Dial, Gauge, Phase, SlotView, Totals};
use regatta_sys::{
    clock, process,
    terminal::{self, INTERRUPT, Keys},
};
use std::{
    cell::RefCell,
    collections::BTreeSet,
    io::{self, IsTerminal, Write},
    mem,
    os::fd::AsFd as _,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
pub use succeed::{done_json, refused_json, succeed};

/// Exit code: done.
pub const DONE: u8 = 0;
/// Exit code: no server was found, or it may not be read.
pub const FAILED: u8 = 1;
/// Exit code: the command was unclear, such as which server is meant.
pub const USAGE: u8 = 2;

/// Rows of a terminal that does not report them.
const ROWS: usize = 24;

/// Options of `regatta top`.
#[derive(Clone, Debug)]
pub struct TopOptions {
    /// Server: its master's process identifier, or a worker's. `None`: the only one that runs.
    pub pid: Option<u32>,
    /// JSON instead of a table: one document, on one line.
    pub json: bool,
    /// Time between two readings. 0 is one reading only, with averages since the start instead of
    /// rates.
    pub interval: Duration,
    /// Whether one document is shown, also on a terminal.
    pub once: bool,
    /// Whether nothing is shown, and the exit code says whether a worker answers.
    pub ready: bool,
}

impl Default for TopOptions {
    fn default() -> Self {
        Self { pid: None, json: false, interval: Duration::from_secs(1), once: false, ready: false }
    }
}

/// Shows the server's counters on standard output: on a terminal again and again until it ends, or
/// `q` or Ctrl-C is pressed; elsewhere once. Errors go to standard error. Returns the exit code.
#[must_use]
pub fn run(options: &TopOptions) -> u8 {
    let stdout = io::stdout();
    let live = !options.once && stdout.is_terminal();
    run_to(options, live, &mut stdout.lock(), &mut io::stderr().lock())
}

/// Server whose counters are read for the document of `regatta top --json`.
pub(crate) struct Reader {
    server: RefCell<Server>,
    /// Whether a later generation is looked for.
    follows: bool,
}

impl Reader {
    /// Reads the server of this process and of its counters.
    pub(crate) const fn own(arena: ArenaView<'static>, server_pid: u32) -> Self {
        Self { server: RefCell::new(Server::new(arena, server_pid)), follows: false }
    }

    /// Reads another server, the one with this process or the only one, and the generations after
    /// it.
    pub(crate) fn other(pid: Option<u32>) -> Result<Self, Failure> {
        let server = attach(pid).map_err(FindError::failure)?;
        Ok(Self { server: RefCell::new(server), follows: true })
    }

    /// Process of the server's master.
    pub(crate) fn pid(&self) -> u32 {
        self.server.borrow().pid
    }

    /// Takes a first reading.
    pub(crate) fn read(&self) -> Reading {
        let mut server = self.server.borrow_mut();
        if self.follows {
            server.follow();
        }
        let sample = server.sample();
        Reading(Server::new(server.arena, server.pid), sample)
    }
}

/// A first reading of a server.
pub(crate) struct Reading(Server, Sample);

impl Reading {
    /// The document, without rates.
    pub(crate) fn document(&self) -> String {
        json::document(&self.1, None)
    }

    /// The document, with rates since this reading.
    pub(crate) fn rates(&self) -> String {
        json::document(&self.0.sample(), Some(&self.1))
    }
}

fn run_to(options: &TopOptions, live: bool, out: &mut impl Write, err: &mut impl Write) -> u8 {
    if live && options.interval.is_zero() {
        return complain(err, USAGE, "an interval of 0 goes with --once only");
    }
    let server = match attach(options.pid) {
        Ok(server) => server,
        Err(error) => return complain(err, error.code(), &error.to_string()),
    };
    if options.ready {
        return match server.is_ready() {
            true => DONE,
            false => complain(err, FAILED, "no worker answers, or the server ends"),
        };
    }
    match show(server, options, live, out) {
        Ok(()) => DONE,
        // The reader has had enough.
        Err(fault) if fault.kind() == io::ErrorKind::BrokenPipe => DONE,
        Err(fault) => complain(err, FAILED, &format!("cannot write: {fault}")),
    }
}

fn complain(err: &mut impl Write, code: u8, message: &str) -> u8 {
    // A standard error that cannot be written leaves no place to report this.
    let _ = writeln!(err, "regatta top: {message}");
    code
}

fn show(
    mut server: Server,
    options: &TopOptions,
    live: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let print = |earlier: Option<&Sample>, now: &Sample, out: &mut dyn Write| {
        let text = match (options.json, live) {
            (true, _) => json::document(now, earlier),
            (false, true) => view::screen(now, earlier, rows()),
            (false, false) => view::page(now, earlier),
        };
        out.write_all(text.as_bytes())?;
        out.flush()
    };
    let mut sample = server.sample();
    if options.interval.is_zero() {
        return print(None, &sample, out);
    }
    let keyboard = io::stdin();
    let keys = if live { Keys::new(&keyboard).ok() } else { None };
    if live {
        print(None, &sample, out)?;
    }
    loop {
        if quits_within(keys.as_ref(), options.interval) {
            return Ok(());
        }
        server.follow();
        let now = server.sample();
        print(Some(&sample), &now, out)?;
        sample = now;
        if !live {
            return Ok(());
        }
        if !process::exists(server.pid) {
            return writeln!(out, "server {} has ended", server.pid);
        }
    }
}

/// Rows of the terminal.
fn rows() -> usize {
    terminal::size(io::stdout().as_fd()).map_or(ROWS, |(rows, _)| rows)
}

/// Waits this long, or until a key that quits is pressed; true for that.
fn quits_within(keys: Option<&Keys<'_>>, time: Duration) -> bool {
    let end = Instant::now() + time;
    let Some(keys) = keys else {
        thread::sleep(time);
        return false;
    };
    loop {
        match keys.wait(end.saturating_duration_since(Instant::now())) {
            Ok(Some(b'q' | b'Q' | INTERRUPT)) => return true,
            Ok(Some(_)) => {}
            Ok(None) => return false,
            // A signal, such as the end of a stop; or there is no keyboard any more.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                thread::sleep(end.saturating_duration_since(Instant::now()));
                return false;
            }
        }
    }
}

/// Server that is shown.
struct Server {
    arena: ArenaView<'static>,
    /// Process of its master, or the requested one if the master is not known.
    pid: u32,
    /// Memory of the master at the last search for another generation, and how often it is still to
    /// be mapped.
    seen: Vec<(u64, u64)>,
    attempts_left: u32,
}

/// Reading of the counters.
struct Sample {
    at_ns: u64,
    pid: u32,
    generation: u64,
    architecture: String,
    started_unix_ms: u64,
    uptime: Duration,
    phase: Phase,
    log_generation: u64,
    workers: Vec<Worker>,
    totals: Totals,
}

/// Slot of a worker, as read.
struct Worker {
    slot: usize,
    /// Process; 0: it has ended, and no other has taken its place.
    pid: u32,
    /// Whether it was told to retire, or has retired; no other need take its place.
    retired: bool,
    incarnation: u64,
    heartbeat_age_ms: u64,
    /// Stage of a pipeline that counts there; empty: none.
    role: String,
    /// Settings of that stage, in the order of `Dial::ALL`.
    dials: [u64; Dial::ALL.len()],
    /// Memory of its process, if it is there.
    memory: Option<Memory>,
    totals: Totals,
}

/// Stage of a pipeline: the sums of the slots of one name.
struct Stage<'a> {
    name: &'a str,
    /// Since the start.
    totals: Totals,
    /// Since an earlier reading; without one, since the start.
    since: Totals,
    dials: [u64; Dial::ALL.len()],
}

impl Stage<'_> {
    /// Sum or maximum of a setting in all processes; 0 if it has never been reported.
    fn dial(&self, dial: Dial) -> u64 {
        self.dials[dial as usize]
    }
}

impl Server {
    const fn new(arena: ArenaView<'static>, pid: u32) -> Self {
        Self { arena, pid, seen: Vec::new(), attempts_left: 0 }
    }

    /// True if the server does not end, and a worker has had a heartbeat recently.
    fn is_ready(&self) -> bool {
        let now = clock::now().tick;
        self.arena.control().phase() == Phase::Run
            && self.arena.slots().any(|slot| answers(&slot, now))
    }

    fn sample(&self) -> Sample {
        let at_ns = clock::nanos();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_unix_ms = self.arena.started_unix_ms();
        let control = self.arena.control();
        let slots: Vec<SlotView<'_>> = self.arena.slots().collect();
        let used = slots.iter().enumerate().filter(|(_, slot)| slot.incarnation() > 0);
        let mut last = 0;
        let workers = used.map(|(index, slot)| Worker {
            slot: index,
            pid: slot.pid(),
            retired: slot.is_retired(),
            incarnation: slot.incarnation(),
            heartbeat_age_ms: (at_ns / 1_000_000).saturating_sub(slot.heartbeat_ms()),
            // Among units that are threads of one process, the first has it.
            memory: (mem::replace(&mut last, slot.pid()) != slot.pid())
                .then(|| Memory::read(slot.pid()))
                .flatten(),
            role: slot.role(),
            dials: Dial::ALL.map(|dial| slot.dial(dial)),
            totals: Totals::from_slots([*slot]),
        });
        let workers: Vec<Worker> = workers.collect();
        let mut totals = Totals::default();
        for worker in &workers {
            totals.merge(&worker.totals);
        }
        // Counts of earlier generations of the server.
        totals.merge(&Totals::from_slots([self.arena.departed()]));
        Sample {
            at_ns,
            pid: self.pid,
            generation: self.arena.generation(),
            architecture: self.arena.architecture(),
            started_unix_ms,
            uptime: match started_unix_ms {
                0 => Duration::ZERO,
                started => unix.saturating_sub(Duration::from_millis(started)),
            },
            phase: control.phase(),
            log_generation: control.log_generation(),
            workers,
            totals,
        }
    }
}

impl Sample {
    /// Counts between two readings, and the seconds between them; without an earlier one, since the
    /// start.
    fn since(&self, earlier: Option<&Self>) -> (Totals, f64) {
        match earlier {
            Some(earlier) => (self.totals.since(&earlier.totals), self.seconds_since(earlier)),
            None => (self.totals.clone(), self.uptime.as_secs_f64()),
        }
    }

    fn seconds_since(&self, earlier: &Self) -> f64 {
        Duration::from_nanos(self.at_ns.saturating_sub(earlier.at_ns)).as_secs_f64()
    }

    /// Counts of the worker in one slot, likewise.
    fn worker_since(&self, worker: &Worker, earlier: Option<&Self>) -> Totals {
        // Others had the slots of an earlier generation; these began after that reading.
        let earlier = earlier.filter(|sample| sample.generation == self.generation);
        let earlier = earlier.and_then(|sample| sample.worker(worker.slot));
        match earlier {
            Some(earlier) => worker.totals.since(&earlier.totals),
            None => worker.totals.clone(),
        }
    }

    /// Lists the workers that are there, or should be. The totals include the counts of retired
    /// ones.
    fn listed(&self) -> impl Iterator<Item = &Worker> {
        self.workers.iter().filter(|worker| worker.pid != 0 || !worker.retired)
    }

    /// Number of worker processes, however many slots each counts in.
    fn processes(&self) -> usize {
        processes(self.workers.iter().map(|worker| worker.pid))
    }

    /// Threads that serve connections, where those are not the first of their processes.
    fn threads(&self) -> u64 {
        self.totals.gauge(Gauge::ThreadsOpen)
    }

    /// Memory of all workers that are there.
    fn memory(&self) -> Memory {
        Memory::sum(self.workers.iter().filter_map(|worker| worker.memory))
    }

    /// Lists the stages in the order of their first slots; none where workers have none.
    fn stages(&self, earlier: Option<&Self>) -> Vec<Stage<'_>> {
        let mut stages: Vec<Stage<'_>> = Vec::new();
        for worker in self.listed().filter(|worker| !worker.role.is_empty()) {
            let since = self.worker_since(worker, earlier);
            match stages.iter_mut().find(|stage| stage.name == worker.role) {
                Some(stage) => {
                    stage.totals.merge(&worker.totals);
                    stage.since.merge(&since);
                    for dial in Dial::ALL {
                        let at = dial as usize;
                        stage.dials[at] = merged(dial, stage.dials[at], worker.dials[at]);
                    }
                }
                None => stages.push(Stage {
                    name: &worker.role,
                    totals: worker.totals.clone(),
                    since,
                    dials: worker.dials,
                }),
            }
        }
        stages
    }

    fn worker(&self, slot: usize) -> Option<&Worker> {
        self.workers.iter().find(|worker| worker.slot == slot)
    }
}

/// Counts the processes of these slots; 0 is none.
fn processes(pids: impl Iterator<Item = u32>) -> usize {
    pids.filter(|pid| *pid != 0).collect::<BTreeSet<_>>().len()
}

/// Merges a dial of two slots: settings of each slot add up; of the rest the higher one counts.
fn merged(dial: Dial, one: u64, other: u64) -> u64 {
    match dial {
        Dial::Threads | Dial::AdmitMilliPerS | Dial::Decisions => one.saturating_add(other),
        Dial::BatchMost | Dial::QueueMax | Dial::AgeP90Ns => one.max(other),
    }
}

/// Word for the phase of a server.
const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Run => "run",
        Phase::Drain => "drain",
        Phase::Stop => "stop",
    }
}
