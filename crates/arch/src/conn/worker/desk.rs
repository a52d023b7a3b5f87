//! State of a worker besides its connections: clocks, timers, the idle ones, the ledger of stalls.
use super::{ConnSlot, WaitTally, WorkerEnv};
use crate::{
    conn::{
        accept::{Acceptor, WhenFull},
        idle::Idle,
        wheel::Timers,
    },
    drive::{
        Turn,
        ledger::{Round, Spent, enter, enter_round},
    },
};
use regatta_metrics::{Counter, FilmEvent, Histogram};
use regatta_op::{CloseReason, Now, Tick};
use regatta_origin::Protocol as _;
use regatta_sys::{clock, socket};
use std::{collections::VecDeque, os::fd::AsFd, time::Duration};

/// Most that the date may be late, ms.
const DATE_MS: u64 = 64;
/// Most connections queued for another turn that have room from the beginning.
const QUEUED: usize = 1024;
/// Turns per timed turn.
const TURNS_PER_SAMPLE: u32 = 64;

/// State of a worker besides its connections, in which turns are entered.
#[expect(missing_debug_implementations, reason = "a worker's surroundings have none")]
pub struct Desk<'a> {
    /// The time of this round.
    pub now: Now,
    /// Time for which the disk has held all connections up so far, in turns that took it a
    /// millisecond or more, ms. It wraps.
    pub held_ms: u32,
    /// Environment of the worker.
    pub around: WorkerEnv<'a>,
    pub(super) acceptor: Acceptor<'a>,
    /// Entered only where idle connections are closed for others.
    pub(super) idle: Idle,
    timers: Timers,
    /// Connections whose turn ended because its budget was spent: each has another one.
    pub(super) again: VecDeque<u64>,
    /// Changes of what is watched that have been counted.
    changes: u64,
    /// The precise clock after the last wait.
    stamp: u64,
    /// Turns so far.
    turns: u32,
    /// The next request is to be timed.
    sample_due: bool,
    /// Time that the disk may have taken since the last wait, nanoseconds.
    disk_ns: u64,
}

/// A turn that has begun: when, if it is timed.
#[derive(Clone, Copy, Debug)]
pub struct Begun(Option<u64>);

impl<'a> Desk<'a> {
    /// Size of a connection's entries here, bytes.
    pub(super) const ENTRY_BYTES: usize = Timers::ENTRY_BYTES + Idle::ENTRY_BYTES;

    pub(super) fn new(acceptor: Acceptor<'a>, around: WorkerEnv<'a>) -> Self {
        let (now, most) = (clock::now(), acceptor.rules.connections_max);
        Self {
            now,
            held_ms: 0,
            around,
            acceptor,
            idle: Idle::default(),
            timers: Timers::new(now.tick, most),
            again: VecDeque::with_capacity(most.min(QUEUED)),
            changes: 0,
            stamp: clock::nanos(),
            turns: 0,
            sample_due: false,
            disk_ns: 0,
        }
    }

    /// Begins a turn of a connection; `readable` if its socket may have something to read.
    #[inline]
    pub fn begin<S>(&mut self, slot: &mut ConnSlot<S>, readable: bool) -> Begun {
        // The precise clock costs more than anything else here: it is read for a sample, and by
        // whoever touches the disk.
        self.turns = self.turns.wrapping_add(1);
        slot.film(self.around.cx.tally, FilmEvent::TurnBegins);
        let started = self.turns.is_multiple_of(TURNS_PER_SAMPLE).then(clock::nanos);
        self.sample_due |= started.is_some();
        if readable {
            self.sample(slot);
        }
        Begun(started)
    }

    /// A request is about to be read, now or when its connection's turn has come: it is timed from
    /// now, if one is to be.
    #[inline]
    pub fn sample<S>(&mut self, slot: &mut ConnSlot<S>) {
        if self.sample_due && slot.conn.is_idle() {
            self.sample_due = false;
            slot.timed_from = clock::nanos();
        }
    }

    /// Enters how a turn ended, and what it spent on files. Files the connection's timer, or queues
    /// it for another turn. `blocking`: the turn may have waited for the peer.
    #[inline]
    pub fn end<S>(
        &mut self,
        key: u64,
        slot: &mut ConnSlot<S>,
        begun: Begun,
        turn: Turn,
        spent: &Spent,
        blocking: bool,
    ) {
        let cx = &self.around.cx;
        slot.film(cx.tally, FilmEvent::TurnEnds(turn.end(slot.pending > 0)));
        if let Begun(Some(started)) = begun {
            cx.tally.record(Histogram::TurnNs, clock::nanos() - started);
        }
        if slot.timed_from > 0 {
            self.time_request(slot, turn);
        }
        if spent.total() > 0 || turn == Turn::Again {
            self.disk_ns += spent.total();
            spent.count(cx.tally);
            enter(turn, spent, self.around.stall_ns, cx.tally);
            let held_up_ms = spent.total() / 1_000_000;
            if !blocking {
                slot.conn.held_up(held_up_ms);
                #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
                let held_ms = held_up_ms as u32;
                self.held_ms = self.held_ms.wrapping_add(held_ms);
            }
            if held_up_ms > 0 {
                // The windows of connections that have their turns after it begin now.
                self.set_now(clock::nanos());
            }
        }
        if self.acceptor.rules.when_full == WhenFull::CloseIdle {
            if slot.conn.is_idle() && !matches!(turn, Turn::Left(_)) {
                self.idle.enter(key, slot.conn.requests());
                self.acceptor.note_idle();
            } else {
                self.idle.remove(key);
            }
        }
        match turn {
            Turn::Wait(_) | Turn::Parked | Turn::Left(_) => self.file(key, slot),
            Turn::Again => {
                if !std::mem::replace(&mut slot.queued, true) {
                    self.again.push_back(key);
                }
            }
            Turn::Closed(CloseReason::SendDeadline) => {
                // What the peer did not take would stay in the kernel for minutes.
                let _ = socket::reset_on_close(slot.socket.as_fd());
            }
            Turn::Closed(_) => {}
        }
    }

    /// A connection waits for its turn, and not for its peer: it is not closed for another before
    /// that.
    pub fn keep_open(&mut self, key: u64) {
        self.idle.remove(key);
    }

    /// Records how long the request took that is being timed, if it has been answered. With several
    /// streams it is timed from the first one until the connection is idle.
    #[cold]
    fn time_request<S>(&self, slot: &mut ConnSlot<S>, turn: Turn) {
        let answered = match turn {
            Turn::Closed(reason) => matches!(reason, CloseReason::Finished | CloseReason::Drained),
            // The connection does not know yet what has been received or sent.
            Turn::Left(_) => false,
            _ => slot.conn.is_idle(),
        };
        if answered {
            let tally = self.around.cx.tally;
            tally.record(Histogram::RequestNs, clock::nanos() - slot.timed_from);
        }
        if answered || matches!(turn, Turn::Closed(_)) {
            slot.timed_from = 0;
        }
    }

    /// Files the timer of a connection whose deadline comes before it.
    #[inline]
    pub(crate) fn file<S>(&mut self, key: u64, slot: &mut ConnSlot<S>) {
        let deadline = slot.conn.deadline();
        if deadline < slot.timer_at {
            slot.timer_at = deadline;
            self.timers.insert(key, deadline);
        }
    }

    /// Moves the keys whose timers are due to `fired`.
    pub(super) fn fire(&mut self, fired: &mut VecDeque<u64>) {
        self.timers.turn(self.now.tick, fired);
    }

    pub(super) const fn timers(&self) -> usize {
        self.timers.len()
    }

    /// Time at which the next timer is due.
    pub(super) fn next_timer(&self) -> Option<Tick> {
        self.timers.next()
    }

    pub(super) fn forget(&mut self, key: u64) {
        self.timers.remove(key);
        self.idle.remove(key);
    }

    /// Enters a round in the ledger; says when it ended.
    pub(super) fn end_round(&mut self) -> u64 {
        let (tally, end) = (self.around.cx.tally, clock::nanos());
        let busy = end - self.stamp;
        tally.record(Histogram::LoopNs, busy);
        let round = Round { busy, disk: std::mem::take(&mut self.disk_ns) };
        enter_round(round, self.around.stall_ns, tally);
        end
    }

    /// Reads the clocks.
    pub fn read_clocks(&mut self) {
        self.stamp = clock::nanos();
        self.set_now(self.stamp);
    }

    /// Sets the time to `nanos`; the date is read when it may have changed.
    fn set_now(&mut self, nanos: u64) {
        let tick = Tick(nanos / 1_000_000);
        if tick.0 / DATE_MS != self.now.tick.0 / DATE_MS {
            self.now.unix = clock::now().unix;
        }
        self.now.tick = tick;
    }

    /// Reads the clocks after a wait, and counts that.
    pub(super) fn begin_round(&mut self, since: u64, timeout: Duration, waited: WaitTally) {
        self.read_clocks();
        let tally = self.around.cx.tally;
        let WaitTally { events, watched, changes } = waited;
        tally.add(Counter::WaitInterestSum, watched as u64);
        tally.max(Counter::WaitInterestMax, watched as u64);
        tally.add(Counter::WaitChanges, changes - std::mem::replace(&mut self.changes, changes));
        let (waited, events) = (self.stamp - since, events as u64);
        tally.add(Counter::WaitCalls, 1);
        tally.add(Counter::WaitNs, waited);
        tally.add(Counter::WaitEvents, events);
        tally.record(Histogram::EventsPerWait, events);
        if events == 0 {
            tally.add(Counter::WaitZero, 1);
            if !timeout.is_zero() && u128::from(waited) >= timeout.as_nanos() {
                tally.add(Counter::WaitTimedOut, 1);
            }
        }
    }
}
