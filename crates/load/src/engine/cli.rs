//! `regatta load`: options in, two lines on the terminal meanwhile, a table or JSON and files out,
//! an exit code. Many threads, or processes of many threads, make one load together.

use super::core::Core;
use super::fate::Fate;
use super::models::{Closed, Open, Sessions};
use super::options::{LoadOptions, Model};
use super::outcome::{Kernel, Outcome};
use super::page;
use super::plan::Plan;
use super::play::{self, Beside, TURN, Times};
use super::report;
use super::slo::short;
use super::tally::{Row, Second, Tally};
use crate::number::nanos;
use crate::workload::fault::{part, write_whole};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use regatta_sys::process::{Child, fork_worker};
use regatta_sys::signal::{ReceivedSignal, Signal, Signals};
use regatta_sys::{affinity, clock, limits, thread};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Everything was done, and the service level, if one was stated, met.
pub const DONE: u8 = 0;
/// The load could not be made, a file could not be written, or the service level was not met.
pub const FAILED: u8 = 1;
/// Bad usage; every problem was listed.
pub const USAGE: u8 = 2;

/// Runs a load and prints its result: the table (or JSON) on standard output, progress and problems
/// on standard error. Ctrl-C ends it with the result so far.
///
/// # Panics
/// With several processes, if this process has more threads than one.
pub fn run(options: &LoadOptions) -> u8 {
    let plan = match Plan::new(options) {
        Ok(plan) => plan,
        Err(problems) => {
            problems.iter().for_each(|problem| say(problem));
            return USAGE;
        }
    };
    let files = [&options.hgrm, &options.csv, &options.html].into_iter().flatten();
    let unwritable: Vec<String> = files.filter_map(|path| writable(path).err()).collect();
    if !unwritable.is_empty() {
        unwritable.iter().for_each(|problem| say(problem));
        return FAILED;
    }
    let signals = Signals::block(&[Signal::Interrupt, Signal::Terminate]).ok();
    let stop = AtomicBool::new(false);
    let bar = progress(&plan.options);
    let mut errors = 0;
    let mut tell = |row: &Row| {
        errors += row.errors;
        bar.set_position(row.second + 1);
        bar.set_prefix(rates(row));
        bar.set_message(state(row, errors));
    };
    let mut watch = Watch { stop: &stop, signals: signals.as_ref(), tell: &mut tell };
    let outcome = perform(&plan, &mut watch);
    bar.finish_and_clear();
    match outcome.and_then(|outcome| publish(options, &outcome).map(|()| outcome)) {
        Ok(outcome) if outcome.meets_slo() => DONE,
        Ok(_) => FAILED,
        Err(problem) => {
            say(&problem);
            FAILED
        }
    }
}

fn publish(options: &LoadOptions, outcome: &Outcome) -> Result<(), String> {
    if let Some(path) = &options.hgrm {
        write_whole(path, &report::hgrm(outcome.latency()))?;
    }
    if let Some(path) = &options.csv {
        write_whole(path, &report::csv(outcome))?;
    }
    if let Some(path) = &options.html {
        write_whole(path, &page::html(outcome)?)?;
    }
    let text = if options.json {
        let mut text = serde_json::to_string_pretty(outcome).map_err(|error| error.to_string())?;
        text.push('\n');
        text
    } else {
        report::table(outcome)
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Checks whether a file can be written there, before the load rather than after it.
fn writable(path: &Path) -> Result<(), String> {
    let wrong = |error: io::Error| format!("{} cannot be written: {error}", path.display());
    if path.is_dir() {
        return Err(wrong(io::ErrorKind::IsADirectory.into()));
    }
    let part = part(path);
    fs::write(&part, "").and_then(|()| fs::remove_file(&part)).map_err(wrong)
}

fn say(problem: &str) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "regatta load: {problem}");
}

/// The progress of one load, on standard error; silent when that is no terminal, or when programs
/// read the result.
fn progress(options: &LoadOptions) -> ProgressBar {
    let warm_up = options.warm_up.unwrap_or_default();
    let seconds = options.duration.map(|time| (time + warm_up).as_secs());
    let target = match options.progress && !options.json {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let style = match seconds {
        Some(_) => ProgressStyle::with_template("{bar:20} {pos}/{len} s  {prefix}\n{msg}"),
        None => ProgressStyle::with_template("{spinner} {pos} s  {prefix}\n{msg}"),
    };
    let style = style.expect("the templates are constant");
    ProgressBar::with_draw_target(seconds, target).with_style(style)
}

fn rates(row: &Row) -> String {
    format!("offered {}/s, good {}/s", row.offered, row.good)
}

/// Times of the last second, and `errors` of all seconds so far.
fn state(row: &Row, errors: u64) -> String {
    let sessions = match row.sessions {
        0 => String::new(),
        sessions => format!(", {sessions} sessions"),
    };
    let [p50, p99] = [row.p50_ns, row.p99_ns].map(|ns| short(ns as f64));
    let in_flight = row.in_flight;
    format!("p50 {p50}, p99 {p99}, {errors} errors, {in_flight} in flight{sessions}")
}

#[derive(Debug, Serialize, Deserialize)]
enum Told {
    Second(Box<Second>),
    Done(Box<Tally>),
    /// The thread could not start or continue.
    Failed(String),
}

/// Descriptors that are not for connections: standard streams, epoll, logs.
const DESCRIPTORS_KEPT: u64 = 64;
/// Time before the first arrival in which threads get ready; per process.
const READY: Duration = Duration::from_millis(20);
/// Files that are checked for changes in one turn.
const FILES_PER_TURN: usize = 256;

/// Handles to watch a load and to end it from outside.
pub struct Watch<'a> {
    /// Set to end the load with what it has.
    pub stop: &'a AtomicBool,
    /// SIGINT and SIGTERM, blocked, when they should end it too.
    pub signals: Option<&'a Signals>,
    /// Called every second, before it is known whether that counts.
    pub tell: &'a mut dyn FnMut(&Row),
}

impl core::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Watch").field("stop", self.stop).finish_non_exhaustive()
    }
}

/// Runs a load to its end.
///
/// # Errors
/// What kept it from running, in one sentence: no processes, threads or descriptors.
///
/// # Panics
/// With several processes, if this process has more threads than one.
pub fn perform(plan: &Plan, watch: &mut Watch<'_>) -> Result<Outcome, String> {
    let hard = limits::raise_descriptors().unwrap_or_else(|_| limits::descriptors().soft);
    let kernel = Kernel::read_of("self");
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let processes = plan.options.processes.max(1);
    let (stop, signals) = (watch.stop, watch.signals);
    let mut beside = Beside::begin(plan, &mut || is_stopped(stop, signals))?;
    let times = times(plan, processes);
    let run = Run { plan, times, stop, signals, descriptors: hard };
    let mut gathered = Gathered::new(plan, stop);
    let mut tell = |told| gathered.take(told, watch.tell);
    if processes == 1 {
        let descriptors = hard.saturating_sub(plan.options.idle.unwrap_or(0).into());
        Run { descriptors, ..run }.threads(0..plan.workers, &mut beside, &mut tell)?;
    } else {
        run.children(processes, &mut beside, &mut tell)?;
    }
    let missing = plan.workers as usize - gathered.tallies.len();
    let lost = || (missing > 0).then(|| format!("{missing} workers ended without a result"));
    let problem = gathered.problem.take().or_else(|| beside.problem().map(str::to_owned));
    if let Some(problem) = problem.or_else(lost) {
        return Err(problem);
    }
    let stopped = watch.stop.load(Ordering::Relaxed);
    let kernel = kernel.until_now();
    let Gathered { tallies, seconds, .. } = gathered;
    let seconds: Vec<Second> = seconds.into_values().map(|(_, second)| second).collect();
    let mut outcome = Outcome::new(plan, &tallies, &seconds, times, kernel, stopped);
    outcome.started_unix_ms = u64::try_from(started.as_millis()).unwrap_or(0);
    (outcome.idle, outcome.altered) = beside.done();
    outcome.judge(plan);
    Ok(outcome)
}

/// Whether the load is to end: by the flag, or by Ctrl-C or SIGTERM.
fn is_stopped(stop: &AtomicBool, signals: Option<&Signals>) -> bool {
    let signal = signals.and_then(|signals| signals.read().ok().flatten());
    if let Some(ReceivedSignal::Known(Signal::Interrupt | Signal::Terminate)) = signal {
        stop.store(true, Ordering::Relaxed);
    }
    stop.load(Ordering::Relaxed)
}

fn times(plan: &Plan, processes: u32) -> Times {
    let ready = nanos(READY) * u64::from(processes.min(50));
    let start = clock::nanos() + ready;
    let from = start.saturating_add(plan.options.warm_up.map_or(0, nanos));
    let until = plan.options.duration.map_or(u64::MAX, |time| from.saturating_add(nanos(time)));
    Times { start, from, until }
}

/// Messages of the threads so far.
struct Gathered<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    tallies: Vec<Tally>,
    seconds: BTreeMap<u64, (u32, Second)>,
    problem: Option<String>,
}

impl<'a> Gathered<'a> {
    fn new(plan: &'a Plan, stop: &'a AtomicBool) -> Self {
        let (tallies, seconds) = (Vec::new(), BTreeMap::new());
        Self { plan, stop, tallies, seconds, problem: None }
    }

    fn take(&mut self, told: Told, tell: &mut dyn FnMut(&Row)) {
        match told {
            Told::Done(tally) => self.tallies.push(*tally),
            Told::Failed(problem) => self.problem = self.problem.take().or(Some(problem)),
            Told::Second(second) => {
                let number = second.row.second;
                let new = || (0, Second::new(number));
                let (count, sum) = self.seconds.entry(number).or_insert_with(new);
                sum.add(&second);
                *count += 1;
                if *count == self.plan.workers {
                    tell(&sum.row());
                    if number == 0
                        && let Some(problem) = hopeless(sum, self.plan)
                    {
                        self.problem.get_or_insert(problem);
                        self.stop.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

/// A sentence if no connection of the first second was of use.
fn hopeless(first: &Second, plan: &Plan) -> Option<String> {
    let (to, fault) = (plan.server(0), &first.tls_fault);
    if first.connected > 0 {
        None
    } else if !fault.is_empty() {
        Some(format!(
            "{to}: every handshake of TLS failed: {fault}; --cacert FILE trusts an authority, \
             --insecure any certificate, --sni NAME asks for another name"
        ))
    } else if first.fates.get(Fate::Refused) > 0 {
        Some(format!("{to} refused every connection: is the server running?"))
    } else {
        None
    }
}

/// Values that all threads of a process share.
#[derive(Clone, Copy)]
struct Run<'a> {
    plan: &'a Plan,
    times: Times,
    stop: &'a AtomicBool,
    signals: Option<&'a Signals>,
    /// Descriptors that the process may use.
    descriptors: u64,
}

impl Run<'_> {
    /// Runs these workers as threads of this process, and passes on what they say.
    fn threads(
        self,
        workers: Range<u32>,
        beside: &mut Beside<'_>,
        tell: &mut dyn FnMut(Told),
    ) -> Result<(), String> {
        let ours = u64::from(workers.end - workers.start).max(1);
        let each = self.descriptors.saturating_sub(DESCRIPTORS_KEPT) / ours;
        let (sender, told) = channel();
        std::thread::scope(|scope| {
            for worker in workers {
                let sender = sender.clone();
                let name = std::thread::Builder::new().name(format!("load {worker}"));
                let made = name.spawn_scoped(scope, move || {
                    let result = self.work(worker, each, &sender);
                    let last = result.map_or_else(|e| Told::Failed(e.to_string()), Told::Done);
                    // Sending fails only when this process is ending.
                    let _ = sender.send(last);
                });
                if let Err(error) = made {
                    self.stop.store(true, Ordering::Relaxed);
                    return Err(format!("no thread: {error}"));
                }
            }
            drop(sender);
            self.listen(&told, beside, tell);
            Ok(())
        })
    }

    /// Passes messages on until all threads have ended. Checks signals and files meanwhile.
    fn listen(self, told: &Receiver<Told>, beside: &mut Beside<'_>, tell: &mut dyn FnMut(Told)) {
        let locals = self.plan.locals();
        let mut next = 0;
        loop {
            let until_next = beside.turn();
            if beside.problem().is_some() {
                self.stop.store(true, Ordering::Relaxed);
            }
            match told.recv_timeout(until_next) {
                Ok(told) => tell(told),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let end = (next + FILES_PER_TURN).min(locals.len());
                    for local in &locals[next..end] {
                        local.refresh();
                    }
                    next = if end == locals.len() { 0 } else { end };
                }
            }
            is_stopped(self.stop, self.signals);
        }
    }

    /// Runs one worker from its first to its last request.
    fn work(self, worker: u32, descriptors: u64, sender: &Sender<Told>) -> io::Result<Box<Tally>> {
        let Self { plan, times, stop, .. } = self;
        let pins = &plan.options.pin;
        if !pins.is_empty() {
            affinity::pin(&[pins[usize::try_from(worker).unwrap_or(0) % pins.len()]])?;
        }
        thread::set_timer_slack(Duration::from_nanos(1))?;
        let mut core = Core::new(plan, worker)?;
        let mut tell = |second| {
            // Sending fails only when this process is ending.
            let _ = sender.send(Told::Second(Box::new(second)));
        };
        match &plan.options.model {
            Model::Closed { connections, think } => {
                let mut play = Closed::new(plan, worker, *connections, think.unwrap_or_default());
                play::run(&mut core, &mut play, times, stop, &mut tell)?;
            }
            Model::Open { rate, connections_max } => {
                let most = connections_max.map_or(u64::MAX, |all| plan.share(worker, all.into()));
                let most = plan.places(most.min(descriptors));
                let mut play = Open::new(plan, worker, rate, most, times.start);
                play::run(&mut core, &mut play, times, stop, &mut tell)?;
            }
            Model::PartlyOpen { session_rate, .. } => {
                let mut play = Sessions::new(plan, worker, session_rate.as_ref(), times.start);
                play::run(&mut core, &mut play, times, stop, &mut tell)?;
            }
        }
        Ok(Box::new(core.tally))
    }

    /// Runs the workers in processes, which report in lines of JSON.
    fn children(
        self,
        processes: u32,
        beside: &mut Beside<'_>,
        tell: &mut dyn FnMut(Told),
    ) -> Result<(), String> {
        let each = self.plan.workers / processes;
        let made = (0..processes).map(|number| self.child(number * each..(number + 1) * each));
        let made: Vec<_> = made.collect::<io::Result<_>>().map_err(|e| format!("fork: {e}"))?;
        let (sender, told) = channel();
        let (kids, pipes): (Vec<Child>, Vec<PipeReader>) = made.into_iter().unzip();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for pipe in pipes {
                let sender = sender.clone();
                scope.spawn(move || read_told(pipe, &sender));
            }
            drop(sender);
            scope.spawn(|| pass_stop_on(self.stop, &over, &kids));
            self.listen(&told, beside, tell);
            over.store(true, Ordering::Relaxed);
        });
        kids.into_iter().try_for_each(|kid| {
            kid.wait().map(drop).map_err(|error| format!("a process was lost: {error}"))
        })
    }

    fn child(self, workers: Range<u32>) -> io::Result<(Child, PipeReader)> {
        let (reader, writer) = io::pipe()?;
        let child = fork_worker(&[writer.as_fd()], || {
            // The parent's copy is closed by now; this one is the child's.
            let stop = AtomicBool::new(false);
            let signals = Signals::block(&[Signal::Interrupt, Signal::Terminate]).ok();
            let run = Run { stop: &stop, signals: signals.as_ref(), ..self };
            let mut tell = |told| send(&writer, &told);
            if let Err(problem) = run.threads(workers, &mut Beside::default(), &mut tell) {
                send(&writer, &Told::Failed(problem));
            }
            0
        })?;
        Ok((child, reader))
    }
}

/// Passes a stop on to the processes; returns when all is over.
fn pass_stop_on(stop: &AtomicBool, over: &AtomicBool, kids: &[Child]) {
    while !over.load(Ordering::Relaxed) {
        if stop.load(Ordering::Relaxed) {
            // A child that has ended needs no signal.
            kids.iter().for_each(|kid| drop(kid.kill(Signal::Interrupt)));
            return;
        }
        std::thread::sleep(TURN);
    }
}

fn read_told(pipe: PipeReader, sender: &Sender<Told>) {
    for line in BufReader::with_capacity(1 << 20, pipe).split(b'\n') {
        let Ok(line) = line else { return };
        let told = serde_json::from_slice(&line);
        let told = told.unwrap_or_else(|error| Told::Failed(format!("a worker's words: {error}")));
        if sender.send(told).is_err() {
            return;
        }
    }
}

fn send(mut out: &PipeWriter, told: &Told) {
    let mut line = serde_json::to_vec(told).expect("plain values are JSON");
    line.push(b'\n');
    // The parent reads until the end; if it is gone, so is this process.
    let _ = out.write_all(&line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_fit_a_terminal() {
        let row = Row {
            offered: 1_234_567,
            good: 1_234_567,
            errors: 1_234_567,
            p50_ns: 999_900_000,
            p99_ns: 83_400_000_000,
            in_flight: 1_234_567,
            sessions: 1_234_567,
            ..Row::default()
        };
        let first = format!("{:20} 86400/86400 s  {}", "", rates(&row));
        let second = state(&row, 1_234_567_890);
        assert!(first.len() <= 80 && second.len() <= 80, "{first}\n{second}");
    }
}
