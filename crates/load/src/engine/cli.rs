//! `regatta load`: options in, two lines on the terminal meanwhile, a result out, an exit code.
//! Many threads make one load together: each is a shard of the shard that this process is.

use super::core::Core;
use super::fate::Fate;
use super::judge::judged;
use super::kernel::Kernel;
use super::models::{Closed, Open, Sessions};
use super::options::{LoadOptions, Model};
use super::outcome::Outcome;
use super::part::{Part, Shards};
use super::plan::Plan;
use super::play::{self, Beside, Times};
use super::slo::{short, show};
use super::tally::{Row, Second, Tally};
use crate::number::nanos;
use crate::page::date;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use regatta_sys::signal::{ReceivedSignal, Signal, Signals};
use regatta_sys::{affinity, clock, limits, thread};
use std::collections::BTreeMap;
use std::io::{self, Write};
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
pub fn run(options: &LoadOptions) -> u8 {
    let plan = match Plan::new(options) {
        Ok(plan) => plan,
        Err(problems) => {
            problems.iter().for_each(|problem| say(problem));
            return USAGE;
        }
    };
    let unwritable = options.output.problems();
    if !unwritable.is_empty() {
        unwritable.iter().for_each(|problem| say(problem));
        return FAILED;
    }
    let signals = Signals::block(&[Signal::Interrupt, Signal::Terminate]).ok();
    let stop = AtomicBool::new(false);
    let bar = progress(&plan.options);
    if let Some(at) = options.start_at {
        bar.set_prefix(format!("starts at {}", date(unix_ms(at))));
        bar.tick();
    }
    let mut errors = 0;
    let mut tell = |row: &Row| {
        errors += row.errors;
        bar.set_prefix(rates(row));
        bar.set_message(state(row, errors));
        bar.set_position(row.second + 1);
    };
    let mut begin = || {
        if options.announce {
            // Standard output may be closed, which the result's printing reports.
            let _ = io::stdout().write_all(b"\n").and_then(|()| io::stdout().flush());
        }
    };
    let signals = signals.as_ref();
    let mut watch = Watch { stop: &stop, signals, begin: &mut begin, tell: &mut tell };
    let outcome = perform(&plan, &mut watch);
    bar.finish_and_clear();
    match outcome.and_then(|outcome| options.output.publish(&outcome).map(|()| outcome)) {
        Ok(outcome) if outcome.meets_slo() => DONE,
        Ok(_) => FAILED,
        Err(problem) => {
            say(&problem);
            FAILED
        }
    }
}

pub(super) fn say(problem: &str) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "regatta load: {problem}");
}

/// The progress of one load, on standard error; silent when that is no terminal, or when programs
/// read the result.
fn progress(options: &LoadOptions) -> ProgressBar {
    let warm_up = options.warm_up.unwrap_or_default();
    let seconds = options.duration.map(|time| (time + warm_up).as_secs());
    let target = match options.progress && !options.output.json {
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

enum Told {
    Second(Box<Second>),
    Done(Box<Tally>),
    /// The thread could not start or continue.
    Failed(String),
}

/// Descriptors that are not for connections: standard streams, epoll, logs.
const DESCRIPTORS_KEPT: u64 = 64;
/// Time before the first arrival in which threads get ready.
const READY: Duration = Duration::from_millis(20);
/// Files that are checked for changes in one turn.
const FILES_PER_TURN: usize = 256;

/// Handles to watch a load and to end it from outside.
pub struct Watch<'a> {
    /// Set to end the load with what it has.
    pub stop: &'a AtomicBool,
    /// SIGINT and SIGTERM, blocked, when they should end it too.
    pub signals: Option<&'a Signals>,
    /// Called before the first request, when idle connections are held.
    pub begin: &'a mut dyn FnMut(),
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
/// What kept it from running, in one sentence: no threads, no descriptors, or a start that is over.
pub fn perform(plan: &Plan, watch: &mut Watch<'_>) -> Result<Outcome, String> {
    let hard = limits::raise_descriptors().unwrap_or_else(|_| limits::descriptors().soft);
    let (stop, signals) = (watch.stop, watch.signals);
    let mut stopped = || is_stopped(stop, signals);
    let kernel = Kernel::read_of("self");
    let mut beside = Beside::begin(plan, &mut stopped)?;
    let times = times(plan, &mut beside, &mut stopped)?;
    (watch.begin)();
    let started_unix_ms = unix_ms(plan.options.start_at.unwrap_or_else(SystemTime::now));
    let descriptors = hard.saturating_sub(plan.idle().into());
    let run = Run { plan, times, stop, signals, descriptors };
    let mut gathered = Gathered::new(plan, stop);
    run.threads(&mut beside, &mut |told| gathered.take(told, watch.tell))?;
    let missing = plan.threads as usize - gathered.tallies.len();
    let lost = || (missing > 0).then(|| format!("{missing} workers ended without a result"));
    let problem = gathered.problem.take().or_else(|| beside.problem().map(str::to_owned));
    if let Some(problem) = problem.or_else(lost) {
        return Err(problem);
    }
    let Gathered { tallies, seconds, .. } = gathered;
    let seconds = seconds.into_values().map(|(_, second)| second).collect();
    let mut part = Part::new(plan, &tallies, seconds);
    part.interrupted = watch.stop.load(Ordering::Relaxed);
    part.started_unix_ms = started_unix_ms;
    part.kernel = kernel.until_now();
    (part.idle, part.altered) = beside.done();
    let mut outcome = judged(&part, plan.options.shard.map(Shards::one));
    outcome.part = plan.options.shard.map(|_| Box::new(part));
    Ok(outcome)
}

fn unix_ms(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}

/// Whether the load is to end: by the flag, or by Ctrl-C or SIGTERM.
fn is_stopped(stop: &AtomicBool, signals: Option<&Signals>) -> bool {
    let signal = signals.and_then(|signals| signals.read().ok().flatten());
    if let Some(ReceivedSignal::Known(Signal::Interrupt | Signal::Terminate)) = signal {
        stop.store(true, Ordering::Relaxed);
    }
    stop.load(Ordering::Relaxed)
}

/// Times of the run. Waits for that of `--start-at`, and holds idle connections meanwhile.
fn times(
    plan: &Plan,
    beside: &mut Beside<'_>,
    stopped: &mut dyn FnMut() -> bool,
) -> Result<Times, String> {
    let mut start = clock::nanos() + nanos(READY);
    if let Some(at) = plan.options.start_at {
        let over = |late: Duration| {
            let late = show(nanos(late) as f64);
            format!("--start-at was {late} ago when the load was ready: give a later time")
        };
        let left = at.duration_since(SystemTime::now()).map_err(|e| over(e.duration()))?;
        start = clock::nanos().saturating_add(nanos(left));
        while !stopped() && beside.problem().is_none() {
            let left = start.saturating_sub(clock::nanos() + nanos(READY));
            if left == 0 {
                break;
            }
            std::thread::sleep(beside.turn().min(Duration::from_nanos(left)));
        }
        // What is stopped before its start waits no longer.
        start = start.min(clock::nanos() + nanos(READY));
    }
    let from = start.saturating_add(plan.options.warm_up.map_or(0, nanos));
    let until = plan.options.duration.map_or(u64::MAX, |time| from.saturating_add(nanos(time)));
    Ok(Times { start, from, until })
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
                if *count == self.plan.threads {
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

/// Values that all threads share.
#[derive(Clone, Copy)]
struct Run<'a> {
    plan: &'a Plan,
    times: Times,
    stop: &'a AtomicBool,
    signals: Option<&'a Signals>,
    /// Descriptors for connections of the threads.
    descriptors: u64,
}

impl Run<'_> {
    /// Runs the threads, and passes on what they say.
    fn threads(self, beside: &mut Beside<'_>, tell: &mut dyn FnMut(Told)) -> Result<(), String> {
        let ours = u64::from(self.plan.threads).max(1);
        let each = self.descriptors.saturating_sub(DESCRIPTORS_KEPT) / ours;
        let (sender, told) = channel();
        std::thread::scope(|scope| {
            for number in 0..self.plan.threads {
                let sender = sender.clone();
                let name = std::thread::Builder::new().name(format!("load {number}"));
                let made = name.spawn_scoped(scope, move || {
                    let result = self.work(number, each, &sender);
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

    /// Runs one thread from its first to its last request.
    fn work(self, number: u32, descriptors: u64, sender: &Sender<Told>) -> io::Result<Box<Tally>> {
        let Self { plan, times, stop, .. } = self;
        let pins = &plan.options.pin;
        if !pins.is_empty() {
            affinity::pin(&[pins[usize::try_from(number).unwrap_or(0) % pins.len()]])?;
        }
        let worker = plan.shard.worker(number);
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
