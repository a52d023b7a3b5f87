//! One thread's loop: arrivals that are due, alarms that have rung, sockets that have changed.

use super::arrivals::Arrival;
use super::coming::Coming;
use super::core::{Broken, ConnId, Core};
use super::exchange::{Reply, Step};
use super::held::Held;
use super::tally::Second;
use super::timers::Alarm;
use crate::number::NS_PER_S;
use regatta_sys::{clock, thread};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A model: what is asked for when, and what happens after a reply.
pub(super) trait Play {
    /// The run starts now.
    fn begin(&mut self, _core: &mut Core<'_>) {}
    /// The arrivals that are still to come; `None` in a model that has none.
    #[inline]
    fn coming(&mut self) -> Option<&mut Coming> {
        None
    }
    /// Takes up an arrival that was due at `due`.
    fn arrive(&mut self, _core: &mut Core<'_>, _arrival: Arrival, _due: u64) {}
    /// An alarm of its own has rung, which was set for `due`.
    fn alarm(&mut self, _core: &mut Core<'_>, _payload: u64, _due: u64) {}
    /// An exchange has ended; the connection is still open.
    fn reply(&mut self, core: &mut Core<'_>, conn: ConnId, reply: Reply);
    /// A connection has ended.
    fn broken(&mut self, core: &mut Core<'_>, conn: ConnId, broken: Broken);
    /// Whether everything that was to be done is done.
    fn is_done(&self, core: &Core<'_>) -> bool;
    /// The run is over: decides what never went out.
    fn give_up(&mut self, _core: &mut Core<'_>) {}
    /// Sessions at this time.
    fn sessions(&self) -> u64 {
        0
    }
}

/// When a run happens, nanoseconds on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// The first arrival.
    pub(super) start: u64,
    /// The measurement starts.
    pub(super) from: u64,
    /// The measurement ends.
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
        }
    }
    // The last second, which is not a whole one.
    turn.tell_second(core, play, tell);
    Ok(())
}

/// Takes up the arrivals that are due, some at a time.
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
                play.reply(core, conn, reply);
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

/// What happens once a turn of the loop, and when the next such thing is.
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

    /// When it has something to do again.
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
