//! Loop of one thread: arrivals that are due, alarms that have rung, sockets that have changed.
//! Alongside, in the thread that listens to the workers, idle connections are held, each asked
//! once, and a file is rewritten.
//!
//! If load and server run on one processor, the scheduler decides how much of it the load takes,
//! and the server's capacity varies with that. A load that holds a share takes exactly that share.
//! It runs for a slice, spins while it has nothing to do, and sleeps until the slice is its share.
//! With a real-time priority the server then has exactly the rest.

use super::arrivals::{Arrival, Rate, Schedule};
use super::core::{Alarm, Broken, Core, Order};
use super::exchange::{Reply, Step};
use super::expect::Written;
use super::fate::Fate;
use super::input::ConnId;
use super::plan::Plan;
use super::tally::Second;
use crate::number::{NS_PER_S, index};
use crate::workload::alter::{Rewriting, Rewritten};
use regatta_sys::wait::Exact;
use regatta_sys::{clock, thread};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A model: what is asked for when, and what happens after a reply.
pub(super) trait Play {
    fn begin(&mut self, _core: &mut Core<'_>) {}
    /// The arrivals that are still to come; `None` in a model that has none.
    #[inline]
    fn coming(&mut self) -> Option<&mut Coming> {
        None
    }
    /// Handles an arrival that was due at `due`.
    fn arrive(&mut self, _core: &mut Core<'_>, _arrival: Arrival, _due: u64) {}
    /// An alarm of its own has rung, which was set for `due`.
    fn alarm(&mut self, _core: &mut Core<'_>, _payload: u64, _due: u64) {}
    /// An exchange has ended; the connection is still open.
    fn reply(&mut self, core: &mut Core<'_>, conn: ConnId, reply: Reply);
    fn broken(&mut self, core: &mut Core<'_>, conn: ConnId, broken: Broken);
    fn is_done(&self, core: &Core<'_>) -> bool;
    /// The run is over: decides what never went out.
    fn give_up(&mut self, _core: &mut Core<'_>) {}
    fn sessions(&self) -> u64 {
        0
    }
}

/// Times of a run, nanoseconds on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// The first arrival.
    pub(super) start: u64,
    /// Start of the measurement.
    pub(super) from: u64,
    pub(super) until: u64,
}

/// Arrivals that are taken up before sockets are looked at again.
const ARRIVALS_PER_TURN: usize = 64;
/// The longest wait, so that a wish to stop is noticed.
const WAIT_NS_MAX: u64 = 50_000_000;

/// Runs a model in this thread until its time or its work is over. `tell` gets every second.
pub(super) fn run<P: Play>(
    core: &mut Core<'_>,
    play: &mut P,
    times: Times,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Second),
) -> io::Result<()> {
    let early = times.start.saturating_sub(clock::nanos());
    std::thread::sleep(Duration::from_nanos(early));
    core.now = clock::nanos();
    (core.from, core.until) = (times.from, times.until);
    let mut turn = Turn::new(times, Held::new(core.plan.options.share));
    play.begin(core);
    while !turn.is_over(core, play, stop, tell) {
        let coming = play.coming().filter(|_| !core.ending);
        let due = coming.map_or(u64::MAX, |coming| coming.due());
        let next = due.min(core.timers.next()).min(turn.next(core));
        let changes = turn.held.wait(&mut core.poll, next.min(core.now + WAIT_NS_MAX))?;
        core.now = clock::nanos();
        for at in 0..changes {
            let change = core.poll.change(at);
            if let Some(conn) = core.change(change) {
                go_on(core, play, conn);
            }
            failures(core, play);
            arrivals(core, play);
            core.flush_listed();
        }
    }
    // The last second, which is not a whole one.
    turn.tell_second(core, play, tell);
    Ok(())
}

/// Handles the arrivals that are due, some at a time.
#[inline]
fn arrivals<P: Play>(core: &mut Core<'_>, play: &mut P) {
    if core.ending {
        return;
    }
    for _ in 0..ARRIVALS_PER_TURN {
        let coming = play.coming().and_then(|coming| coming.take(core.now, core.until));
        let Some((arrival, due)) = coming else { return };
        core.lag(due);
        play.arrive(core, arrival, due);
        core.now = clock::nanos();
    }
}

/// Follows a connection as far as it goes.
#[inline]
fn go_on<P: Play>(core: &mut Core<'_>, play: &mut P, conn: ConnId) {
    loop {
        match core.advance(conn) {
            Step::Wait => return,
            Step::Reply(reply) => {
                play.reply(core, reply.conn, reply);
                if !core.is_open(conn) {
                    core.forget_input();
                    return;
                }
            }
            Step::Broken(broken) => {
                play.broken(core, conn, broken);
                return;
            }
        }
    }
}

fn failures<P: Play>(core: &mut Core<'_>, play: &mut P) {
    while let Some((conn, broken)) = core.failure() {
        play.broken(core, conn, broken);
    }
}

/// Work of each turn of the loop: seconds, start and end of the measurement, the drain.
struct Turn {
    times: Times,
    drain_until: u64,
    second_end: u64,
    held: Held,
    /// Processor time that was used and time kept from the processor at the measurement's start.
    before: Option<(u64, u64)>,
    cpu_told: u64,
}

impl Turn {
    fn new(times: Times, held: Held) -> Self {
        let second_end = times.start + NS_PER_S;
        Self { times, drain_until: u64::MAX, second_end, held, before: None, cpu_told: 0 }
    }

    /// Time at which something is due again.
    fn next(&self, core: &Core<'_>) -> u64 {
        let end = if core.ending { self.drain_until } else { core.until };
        let from = if self.before.is_none() { self.times.from } else { u64::MAX };
        self.second_end.min(end).min(from)
    }

    /// Processor time of this thread without that in which it held its share for nothing.
    fn used_nanos(&self) -> u64 {
        thread::cpu_nanos().saturating_sub(self.held.spun_ns)
    }

    /// Does what is due, and says whether the run is over.
    fn is_over<P: Play>(
        &mut self,
        core: &mut Core<'_>,
        play: &mut P,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Second),
    ) -> bool {
        core.now = clock::nanos();
        if self.before.is_none() && core.now >= self.times.from {
            self.before = Some((self.used_nanos(), kept_nanos()));
        }
        while core.now >= self.second_end {
            self.tell_second(core, play, tell);
        }
        // Before the end: what was due by then is part of the load, however late it is taken up.
        arrivals(core, play);
        let stopped = stop.load(Ordering::Relaxed);
        let done = play.is_done(core);
        if !core.ending && (core.now >= core.until || stopped || done) {
            self.end(core);
            let drain = if stopped || done { 0 } else { core.plan.drain_ns };
            self.drain_until = core.until.saturating_add(drain);
        }
        if core.ending && (core.in_flight == 0 || core.now >= self.drain_until || stopped) {
            play.give_up(core);
            core.abandon();
            return true;
        }
        while let Some((due, alarm)) = core.timers.rung(core.now) {
            ring(core, play, due, alarm);
        }
        failures(core, play);
        core.flush_listed();
        false
    }

    /// The measurement ends, in time or now.
    fn end(&mut self, core: &mut Core<'_>) {
        core.ending = true;
        core.until = core.until.min(core.now);
        let used = self.used_nanos();
        let health = &mut core.tally.health;
        health.wall_ns = core.until.saturating_sub(core.from);
        health.available_ns = self.held.available_ns(health.wall_ns);
        if let Some((cpu, kept)) = self.before {
            // Slices end a little late, which the rests make up for.
            health.cpu_ns = used.saturating_sub(cpu).min(health.available_ns);
            health.kept_ns = kept_nanos().saturating_sub(kept);
        }
    }

    fn tell_second<P: Play>(
        &mut self,
        core: &mut Core<'_>,
        play: &P,
        tell: &mut dyn FnMut(Second),
    ) {
        let next = Second::new(core.second.row.second + 1);
        let mut second = core::mem::replace(&mut core.second, next);
        second.row.in_flight = core.in_flight;
        second.row.connections = core.open;
        second.row.sessions = play.sessions();
        let cpu = self.used_nanos();
        let told = core::mem::replace(&mut self.cpu_told, cpu);
        second.row.cpu_ns = cpu.saturating_sub(told);
        self.second_end += NS_PER_S;
        tell(second);
    }
}

fn ring<P: Play>(core: &mut Core<'_>, play: &mut P, due: u64, alarm: Alarm) {
    match alarm {
        Alarm::Deadline(conn) => {
            if let Some(broken) = core.rung(ConnId(conn)) {
                play.broken(core, ConnId(conn), broken);
            }
        }
        Alarm::Read(conn) => {
            let conn = ConnId(conn);
            if core.is_open(conn) {
                core.read_on(conn);
                go_on(core, play, conn);
            }
        }
        Alarm::Play(payload) => play.alarm(core, payload, due),
    }
}

/// Time for which this thread was ready to run and did not (the second number of `schedstat`,
/// proc(5)); 0 where the kernel does not say.
fn kept_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_ascii_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// A slice and the sleep after it together, ns. No tick of the kernel (1, 3 1/3, 4 or 10 ms) is a
/// multiple of it or nearly so: `/proc/stat` counts the task that runs at a tick.
pub const PERIOD_NS: u64 = 514_137;

/// Waits for one thread; holds its share if it has one.
#[derive(Debug)]
pub(super) struct Held {
    /// Per cent; `None`: it sleeps while it has nothing to do, and takes what it needs.
    percent: Option<u32>,
    begun: u64,
    /// Processor time of this thread when the last slice ended, ns.
    used_until: u64,
    /// Time by which this slice is longer, as the last sleep was, ns.
    extra_ns: u64,
    /// Time in which it had nothing to do and spun, ns.
    pub(super) spun_ns: u64,
}

impl Held {
    /// For the thread that calls, whose processor time is counted.
    pub(super) fn new(percent: Option<u32>) -> Self {
        let (begun, used_until) = (clock::nanos(), thread::cpu_nanos());
        Self { percent, begun, used_until, extra_ns: 0, spun_ns: 0 }
    }

    /// Part of `wall_ns` that is this thread's.
    pub(super) fn available_ns(&self, wall_ns: u64) -> u64 {
        wall_ns * u64::from(self.percent.unwrap_or(100)) / 100
    }

    /// Waits until something changes or until `next`, and returns how many changes there are.
    pub(super) fn wait(&mut self, poll: &mut Exact, next: u64) -> io::Result<usize> {
        let mut now = clock::nanos();
        let Some(percent) = self.percent else {
            return poll.wait(Some(Duration::from_nanos(next.saturating_sub(now))));
        };
        loop {
            if now.saturating_sub(self.begun) >= slice_ns(percent) + self.extra_ns {
                // Falling asleep and waking are part of the share.
                let used = thread::cpu_nanos();
                let of_slice = (used - self.used_until).saturating_sub(self.extra_ns);
                let rest = rest_ns(of_slice, percent);
                self.used_until = used;
                std::thread::sleep(Duration::from_nanos(rest));
                self.begun = clock::nanos();
                self.extra_ns = extra_ns(self.begun - now, rest, percent);
                now = self.begun;
            }
            let changes = poll.wait(Some(Duration::ZERO))?;
            let after = clock::nanos();
            if changes > 0 || after >= next {
                return Ok(changes);
            }
            self.spun_ns += after - now;
            now = after;
        }
    }
}

/// Time of a slice that is this share of a period.
pub const fn slice_ns(percent: u32) -> u64 {
    PERIOD_NS * percent as u64 / 100
}

/// Time that others run after a slice of `used_ns` of processor time. A slice that took longer,
/// because much happened at once, is made up for.
const fn rest_ns(used_ns: u64, percent: u32) -> u64 {
    used_ns * (100 - percent as u64) / percent as u64
}

/// The most that a sleep may be too long and be made up for, ns. In longer ones the whole machine
/// stands still.
const LATE_MAX_NS: u64 = 8 * PERIOD_NS;

/// Time that a slice of `percent` is longer after a sleep of `slept_ns` that was to last `rest_ns`.
/// A task is not preempted in the kernel: in one long call of io_uring it would have several
/// slices.
pub const fn extra_ns(slept_ns: u64, rest_ns: u64, percent: u32) -> u64 {
    let late = slept_ns.saturating_sub(rest_ns);
    let late = if late < LATE_MAX_NS { late } else { LATE_MAX_NS };
    if percent >= 100 { 0 } else { late * percent as u64 / (100 - percent as u64) }
}

/// Share of one thread in the arrivals of an open or partly-open model.
pub(super) struct Coming {
    arrivals: Box<dyn Iterator<Item = Arrival>>,
    next: Option<Arrival>,
    start: u64,
}

impl Coming {
    /// The share of `worker`, from `start` on: at `rate`, or without one when the plan's sessions
    /// say. The number of an arrival is that of its session then.
    pub(super) fn new(plan: &Plan, worker: u32, rate: Option<&Rate>, start: u64) -> Self {
        let (options, workers) = (&plan.options, plan.workers);
        let count = options.count.unwrap_or(u64::MAX);
        let mut arrivals: Box<dyn Iterator<Item = Arrival>> = if let Some(rate) = rate {
            let all = Schedule::new(rate, options.arrivals, options.seed, worker, workers);
            Box::new(all.take_while(move |arrival| arrival.number < count))
        } else {
            let parts = (0_u64..).zip(&plan.script.sessions);
            let at = |(number, part): (u64, &super::plan::Part)| Arrival {
                number,
                at_ns: part.at_us.unwrap_or(0).saturating_mul(1_000),
            };
            let mut times: Vec<Arrival> = parts.map(at).collect();
            times.sort_by_key(|arrival| arrival.at_ns);
            times.truncate(index(count));
            let (first, step) = (index(worker.into()), index(workers.into()));
            Box::new(times.into_iter().skip(first).step_by(step))
        };
        let next = arrivals.next();
        Self { arrivals, next, start }
    }

    /// Due time of the next arrival, nanoseconds on the monotonic clock; `u64::MAX`: never.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        self.next.map_or(u64::MAX, |arrival| self.start.saturating_add(arrival.at_ns))
    }

    /// The next arrival and when it is due, if that is by `now` and before `until`.
    #[inline]
    pub(super) fn take(&mut self, now: u64, until: u64) -> Option<(Arrival, u64)> {
        let due = self.due();
        let arrival = self.next.filter(|_| due <= now && due < until)?;
        self.next = self.arrivals.next();
        Some((arrival, due))
    }

    pub(super) fn is_over(&self) -> bool {
        self.next.is_none()
    }
}

/// Idle connections that may be unanswered at once: a listener's queue is short.
const UNANSWERED_MAX: u64 = 64;
const WAIT: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idled {
    pub wanted: u32,
    /// The least that were held at any time of the run.
    pub least: u32,
    /// Connections that the server closed, and that were made again.
    pub again: u64,
}

impl Idled {
    /// Adds those of another shard.
    pub(super) fn add(&mut self, other: Self) {
        self.wanted += other.wanted;
        self.least += other.least;
        self.again += other.again;
    }
}

/// The idle connections of a load, in a core of their own.
#[derive(Debug)]
pub(super) struct Idle<'p> {
    core: Core<'p>,
    held: HeldOpen,
}

/// A model: each connection is asked once and then held.
#[derive(Debug)]
struct HeldOpen {
    /// Whether each connection has been answered.
    answered: Vec<bool>,
    empty: Vec<u32>,
    count: u32,
    /// A connection ended in the last turn.
    refused: bool,
    /// Fate of the last connection that ended.
    last: Option<Fate>,
    done: Idled,
}

impl HeldOpen {
    fn fail(&mut self, number: u32, fate: Fate) {
        (self.refused, self.last) = (true, Some(fate));
        self.empty.push(number);
    }
}

impl Play for HeldOpen {
    fn reply(&mut self, _core: &mut Core<'_>, _conn: ConnId, reply: Reply) {
        let answered = &mut self.answered[index(reply.owner.into())];
        self.count += u32::from(!core::mem::replace(answered, true));
    }

    fn broken(&mut self, _core: &mut Core<'_>, _conn: ConnId, broken: Broken) {
        let was_held = core::mem::take(&mut self.answered[index(broken.owner.into())]);
        self.count -= u32::from(was_held);
        let by_server = was_held || matches!(broken.fate, Fate::Reset | Fate::Truncated);
        self.done.again += u64::from(by_server);
        self.fail(broken.owner, broken.fate);
    }

    fn is_done(&self, _core: &Core<'_>) -> bool {
        false
    }
}

impl<'p> Idle<'p> {
    /// Makes all of them, and waits until each has been answered once, or `stopped` says so.
    pub(super) fn hold(
        plan: &'p Plan,
        wanted: u32,
        stopped: &mut dyn FnMut() -> bool,
    ) -> Result<Self, String> {
        let mut core = Core::new(plan, 0).map_err(|error| format!("idle connections: {error}"))?;
        core.streams = core.streams.min(1);
        let held = HeldOpen {
            answered: vec![false; index(wanted.into())],
            empty: (0..wanted).collect(),
            count: 0,
            refused: false,
            last: None,
            done: Idled { wanted, ..Idled::default() },
        };
        let mut idle = Self { core, held };
        let timeout = Duration::from_nanos(plan.timeout_ns.min(3_600_000_000_000));
        let mut progress = (0, Instant::now());
        while idle.held.count < wanted && !stopped() {
            idle.turn(WAIT)?;
            if idle.held.refused {
                std::thread::sleep(WAIT);
            }
            let count = idle.held.count;
            if count > progress.0 {
                progress = (count, Instant::now());
            }
            if progress.1.elapsed() > timeout {
                let why = idle.held.last.map_or(String::new(), |fate| format!(": {}", fate.name()));
                return Err(format!("{count} of {wanted} idle connections could be made{why}"));
            }
        }
        idle.held.done.least = idle.held.count;
        Ok(idle)
    }

    /// Makes again what the server has closed. Waits for changes for at most `wait`.
    pub(super) fn turn(&mut self, wait: Duration) -> Result<(), String> {
        let Self { core, held } = self;
        core.now = clock::nanos();
        held.refused = false;
        // The load's line is for its own connections.
        let line = core.plan.options.line_bits_per_s.map_or(0, |_| u32::MAX);
        while core.open - u64::from(held.count) < UNANSWERED_MAX
            && !held.refused
            && let Some(number) = held.empty.pop()
        {
            match core.open(number, line) {
                Ok(conn) => {
                    let due = core.now;
                    core.offer(due);
                    core.request(conn, Order { target: 0, client: 0, due, tries: 0 });
                }
                Err(fate) => held.fail(number, fate),
            }
        }
        core.flush_listed();
        let changes = core.poll.wait(Some(wait)).map_err(|e| format!("idle connections: {e}"))?;
        core.now = clock::nanos();
        for at in 0..changes {
            let change = core.poll.change(at);
            if let Some(conn) = core.change(change) {
                go_on(core, held, conn);
            }
        }
        while let Some((due, alarm)) = core.timers.rung(core.now) {
            ring(core, held, due, alarm);
        }
        failures(core, held);
        core.flush_listed();
        held.done.least = held.done.least.min(held.count);
        Ok(())
    }
}

/// Time between checks of signals, files and idle connections.
const TURN: Duration = Duration::from_millis(50);

/// Idle connections and the altered file; neither in most loads.
#[derive(Debug, Default)]
pub(super) struct Beside<'p> {
    idle: Option<Idle<'p>>,
    rewriting: Option<Rewriting>,
    problem: Option<String>,
}

impl<'p> Beside<'p> {
    /// Makes the idle connections that the plan wants, and starts to rewrite its file.
    pub(super) fn begin(plan: &'p Plan, stopped: &mut dyn FnMut() -> bool) -> Result<Self, String> {
        let idle = match plan.idle() {
            0 => None,
            wanted => Some(Idle::hold(plan, wanted, stopped)?),
        };
        let start = |target| Rewriting::start(target, clock::nanos());
        let rewriting = plan.altered.clone().map(start).transpose();
        let rewriting = rewriting.map_err(|fault| fault.to_string())?;
        if let Some((first, started_ns, period_ns)) = rewriting.as_ref().map(Rewriting::clock) {
            let stale_after_ns = plan.stale_after_ns;
            let written = Written { first, started_ns, period_ns, stale_after_ns };
            plan.written.set(written).map_err(|_| "a plan is carried out once".to_owned())?;
        }
        Ok(Self { idle, rewriting, problem: None })
    }

    /// Does what is due; says how long it is until the next, [`TURN`] at most. After a problem
    /// nothing more is done.
    pub(super) fn turn(&mut self) -> Duration {
        let done = self.try_turn();
        done.unwrap_or_else(|problem| {
            *self = Self { problem: Some(problem), ..Self::default() };
            TURN
        })
    }

    fn try_turn(&mut self) -> Result<Duration, String> {
        if let Some(idle) = &mut self.idle {
            idle.turn(Duration::ZERO)?;
        }
        let Some(rewriting) = &mut self.rewriting else { return Ok(TURN) };
        let next = rewriting.turn(clock::nanos()).map_err(|fault| fault.to_string())?;
        Ok(next.min(TURN))
    }

    /// Reason for which it ended early.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub(super) fn done(&self) -> (Option<Idled>, Option<Rewritten>) {
        let rewritten = self.rewriting.as_ref().map(|rewriting| rewriting.done);
        (self.idle.as_ref().map(|idle| idle.held.done), rewritten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_that_took_longer_is_followed_by_a_longer_rest() {
        assert_eq!((slice_ns(50), rest_ns(slice_ns(50), 50)), (257_068, 257_068));
        assert_eq!(rest_ns(slice_ns(20), 20), 411_308);
        assert_eq!(rest_ns(1_000_000, 50), 1_000_000);
        assert_eq!(Held::new(Some(20)).available_ns(1_000), 200);
        assert_eq!(Held::new(None).available_ns(1_000), 1_000);
    }

    /// Whatever the sleeps were, the share of the whole time is as wanted, unless a machine stood
    /// still.
    #[test]
    fn a_sleep_that_took_longer_is_followed_by_a_longer_slice() {
        for percent in [20, 60, 75] {
            let (mut taken, mut left, mut extra) = (0, 0, 0);
            for late in [0, 0, 2_000_000, 900, 0, 4_000_000] {
                taken += slice_ns(percent) + extra;
                let rest = rest_ns(slice_ns(percent), percent);
                left += rest + late;
                extra = extra_ns(rest + late, rest, percent);
            }
            taken += extra;
            let share = taken as f64 / (taken + left) as f64;
            assert!((share * 100.0 - f64::from(percent)).abs() < 0.01, "{percent}: {share}");
        }
        assert_eq!(extra_ns(100, 300, 50), 0);
        assert_eq!(extra_ns(1_000_000_000, 0, 50), LATE_MAX_NS);
        assert_eq!(extra_ns(300, 0, 100), 0);
    }

    /// Idle, it takes its share and no more, and says that it did nothing with it.
    #[test]
    fn an_idle_load_takes_its_share() {
        thread::set_timer_slack(Duration::from_nanos(1)).unwrap();
        let mut poll = Exact::new().unwrap();
        // Others may keep it from the processor, which makes its share smaller.
        let mut most = 0.0_f64;
        for _ in 0..5 {
            let mut held = Held::new(Some(40));
            let (start, cpu) = (clock::nanos(), thread::cpu_nanos());
            assert_eq!(held.wait(&mut poll, start + 100_000_000).unwrap(), 0);
            let (wall, cpu) = (clock::nanos() - start, thread::cpu_nanos() - cpu);
            let share = cpu as f64 / wall as f64;
            assert!(share < 0.44, "{share}");
            // A virtual machine may need a fifth of it to fall asleep and to wake.
            assert!(held.spun_ns * 2 > cpu, "{} of {cpu}", held.spun_ns);
            most = most.max(share);
        }
        assert!(most > 0.02, "{most}");
    }
}
