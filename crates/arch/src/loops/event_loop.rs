//! The readiness loop that SPED and its relatives have in common: one thread, one poller, many
//! connections. It waits, passes events to its worker, and does what the worker says.
pub mod cohort;
pub mod colours;
mod handshakes;
#[cfg(test)]
pub(crate) mod schedule;

use self::{cohort::Cohort, colours::LoopSeat, handshakes::Handshakes};
use crate::drive::{Turn, ledger::Spent};
use crate::{
    conn::{
        step::{
            Io, Leaves, Left, Readiness, ReadySlot, TurnRules, forget, next_completion,
            on_completion, step,
        },
        worker::{Accepted, Action, WaitTally, Worker},
    },
    disk::at_once::Disk,
    loops::line::{StageJob, poll::PollStage},
};
use regatta_metrics::Counter;
use regatta_op::{Abandoned, CloseReason, OpKind, Tick};
use regatta_origin::Protocol as _;
use regatta_sys::{
    clock, hook, socket,
    wait::{Event, Interest, Poller},
};
use std::{io, os::fd::AsFd, time::Duration};

/// Events of a round for which there is room from the beginning.
const EVENTS: usize = 1024;
/// Most completions that are taken before others have their turn: each may ask for more at once,
/// and the disk be faster than this loop.
const COMPLETIONS_MAX: usize = 1024;
/// Time between two checks of the disk, milliseconds.
const CHECK_MS: u64 = 1_000;
/// Keys with the top bit are the loop's own.
const BELL: u64 = u64::MAX;
const DISK: u64 = u64::MAX - 1;
const STAGE: u64 = u64::MAX - 2;
const PEERS: u64 = u64::MAX - 3;
const LISTENERS: u64 = 1 << 63;

/// A readiness loop.
#[expect(missing_debug_implementations, reason = "its worker has none")]
pub struct EventLoop<'a, P> {
    poller: P,
    worker: Worker<'a, Readiness>,
    io: Io<'a>,
    /// State as a stage of a pipeline, if it is one.
    stage: Option<PollStage<'a>>,
    /// Queues of its own stages, if it serves by those.
    cohort: Option<Cohort>,
    handshakes: Handshakes,
    /// Place among other loops of its process, if there are several.
    seat: Option<LoopSeat<'a>>,
    /// The disk may have finished more than was taken.
    has_finished: bool,
    /// Time at which the disk is checked again.
    check_on: Tick,
}

impl<'a, P: Poller> EventLoop<'a, P> {
    /// A loop that is not listening yet.
    pub fn new(
        poller: P,
        worker: Worker<'a, Readiness>,
        rules: TurnRules,
        disk: &'a mut dyn Disk,
    ) -> Self {
        let rules = TurnRules { edge: poller.edge(), ..rules };
        let io = Io::new(disk, rules, &worker.around().cx.site.limits);
        let handshakes = Handshakes::new(rules.handshakes_per_round);
        let (stage, cohort, seat, check_on) = (None, None, None, Tick(0));
        Self { poller, worker, io, stage, cohort, handshakes, seat, has_finished: false, check_on }
    }

    /// Makes it a stage of a pipeline.
    #[must_use]
    pub fn at_stage(mut self, stage: PollStage<'a>) -> Self {
        if !stage.accepts() {
            self.worker = self.worker.fed();
        }
        self.io = self.io.with_beat(self.worker.beat().cloned()).in_pipeline();
        self.stage = Some(stage);
        self
    }

    /// Serves until the master says otherwise and the last connection has ended, or the line that
    /// it is a stage of is closed.
    ///
    /// # Errors
    /// If the poller fails, which leaves nothing to continue with.
    pub fn run(mut self) -> io::Result<()> {
        let ran = self.rounds();
        if let (Err(_), Some(stage)) = (&ran, &self.stage) {
            stage.fails();
        }
        self.leave_line(ran.is_err());
        ran
    }

    fn rounds(&mut self) -> io::Result<()> {
        self.watch_own()?;
        let mut events = Vec::with_capacity(EVENTS);
        while self.goes_on() {
            self.round(&mut events)?;
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.worker.goes_on()
            && !self.stage.as_ref().is_some_and(PollStage::is_over)
            && !self.seat.as_ref().is_some_and(LoopSeat::has_failed)
    }

    fn round(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        self.wait(events)?;
        while let Some((job, is_late)) = self.stage.as_mut().and_then(PollStage::next_job) {
            self.take_in(job, is_late);
        }
        self.adopt_given();
        self.share_out(events);
        let mut left = events.len();
        for event in events.drain(..) {
            left -= 1;
            if left == 0 || !self.gives(&event) {
                self.dispatch(event);
            }
            while let Some(action) = self.worker.next_accept() {
                self.perform(action);
            }
        }
        if self.has_finished {
            self.complete();
        }
        self.visit_stages();
        self.shake_hands();
        while let Some(action) = self.worker.next_action() {
            self.perform(action);
        }
        if let Some(stage) = &mut self.stage {
            stage.end_round(&mut self.worker);
        }
        Ok(())
    }

    /// Watches what is not a connection.
    fn watch_own(&mut self) -> io::Result<()> {
        if self.stage.as_ref().is_none_or(PollStage::hears) {
            self.poller.add_level(self.worker.around().bell.as_fd(), BELL, Interest::READ)?;
        }
        if let Some(source) = self.io.disk.source() {
            self.poller.add_level(source, DISK, Interest::READ)?;
        }
        if let Some(stage) = &self.stage {
            self.poller.add_level(stage.source(), STAGE, Interest::READ)?;
        }
        self.watch_seat(PEERS)?;
        self.worker.watch_listeners(&mut self.poller, LISTENERS)
    }

    /// Waits for events.
    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        // Accepting pauses if they cannot be watched.
        let _ = self.worker.watch_listeners(&mut self.poller, LISTENERS);
        let mut wait = self.worker.begin_wait();
        let stays_awake = self.has_finished
            || !self.handshakes.is_empty()
            || self.cohort.as_ref().is_some_and(|cohort| !cohort.is_empty())
            || self.stage.as_ref().is_some_and(|stage| !stage.falls_asleep(&self.worker));
        if stays_awake {
            wait.timeout = Duration::ZERO;
        }
        let due = self.io.disk.due_in();
        if let Some(due) = due {
            wait.timeout = wait.timeout.min(due);
        }
        self.ask(wait.timeout);
        let events = self.poller.wait(events, Some(wait.timeout));
        self.stop_asking();
        if let Some(stage) = &mut self.stage {
            stage.wakes(&mut self.worker);
        }
        let (watched, changes) = (self.poller.len(), self.poller.changes());
        let renewed = self.worker.end_wait(wait, WaitTally { events: events?, watched, changes });
        self.io.begin_round(renewed);
        self.has_finished |=
            due.is_some() && self.io.disk.due_in().is_some_and(|due| due.is_zero());
        self.handshakes.begin_round();
        self.check_disk();
        Ok(())
    }

    /// Has the disk report files that are not answered.
    fn check_disk(&mut self) {
        let now = self.worker.now();
        if self.check_on <= now {
            self.check_on = now.after(CHECK_MS);
            self.io.disk.check(clock::nanos(), self.worker.around().log);
        }
    }

    /// Hands on what the poller said.
    #[inline]
    fn dispatch(&mut self, event: Event) {
        match event.key {
            BELL => {
                // Among several loops, the first that hears the master wakes the others.
                if self.worker.answer_bell() {
                    self.seat.iter().for_each(LoopSeat::wake_others);
                }
                if self.worker.around().slot.is_retired() {
                    self.worker.retire();
                }
                self.stage.iter().for_each(PollStage::calls);
            }
            DISK => self.has_finished = true,
            STAGE => {}
            PEERS => self.seat.iter().for_each(LoopSeat::clear_bell),
            key if key >= LISTENERS => match &mut self.cohort {
                Some(cohort) => cohort.offer(key - LISTENERS, self.worker.around().cx.tally),
                None => self.offer(key - LISTENERS),
            },
            key => self.turn(key, |slot| {
                slot.drive.note(&event);
                slot.unless_held(Spent::default())
            }),
        }
    }

    fn offer(&mut self, listener: u64) {
        self.worker.offer(usize::try_from(listener).expect("few listeners"));
    }

    /// Does what the worker says.
    fn perform(&mut self, action: Action) {
        match action {
            Action::Close(key, reason) => {
                self.settle_send(key);
                self.close(key, reason);
            }
            Action::Admit(accepted) => self.admit(accepted),
            Action::Drain => self.worker.offer_backlog(),
            Action::Turn(key) => self.turn(key, plain),
            Action::Late(key) => {
                self.reap();
                // As long as it has waited here, it is not the peer that is late.
                let waited = self.leave_stage(key);
                let Some(slot) = self.worker.slot(key) else { return };
                if slot.shaking {
                    return self.shake_late(key, waited);
                }
                if let Some(left) = waited {
                    slot.queued = false;
                    left.into_iter().for_each(|left| self.io.resume(left));
                } else if slot.pending > 0 {
                    self.complete();
                }
                self.probe(key);
                self.past_stages(|this| this.turn(key, |_| Some(Spent::default())));
            }
            Action::Expired(key, what) => {
                let held_ms = self.worker.held_ms();
                if let Some(slot) = self.worker.slot(key) {
                    // If its window continues, it does so from now.
                    slot.drive.held_ms = held_ms;
                    if let Some(what) = what {
                        forget(slot, key, what, self.io.disk);
                    }
                    if slot.shaking {
                        self.has_expired(key);
                    }
                }
                self.turn(key, plain);
            }
        }
    }

    /// Has a ring report what has completed by now, before a deadline is checked.
    fn reap(&mut self) {
        if self.poller.completes()
            && let Some(wire) = self.io.disk.wire()
        {
            wire.reap();
        }
    }

    /// Completes the `Send` of a connection that the worker ends, as far as a ring has performed it
    /// by now: what has been sent counts.
    fn settle_send(&mut self, key: u64) {
        if !self.poller.completes() {
            return;
        }
        let Some((slot, desk)) = self.worker.turn(key) else { return };
        let Some(wire) = self.io.disk.wire().filter(|_| slot.drive.is_sending()) else { return };
        if let Some(result) = wire.settle(key, desk.around.cx.tally) {
            on_completion(slot, result, desk.now, &desk.around.cx);
        }
    }

    /// Whether a ring has received something of a connection.
    fn has_input(&mut self, key: u64) -> bool {
        let Some(slot) = self.worker.slot(key).filter(|_| self.poller.completes()) else {
            return false;
        };
        self.io.disk.wire().is_some_and(|wire| wire.has_input(key, &slot.socket))
    }

    /// Finds out what a socket is ready for: the poller may not have reported that yet.
    fn probe(&mut self, key: u64) {
        let has_input = self.has_input(key);
        let Some(slot) = self.worker.slot(key) else { return };
        if self.poller.completes() {
            slot.drive.readable |= has_input;
        } else {
            slot.drive.probe(&slot.socket);
        }
    }

    /// Runs a turn of a connection whose deadline is checked next: nothing of it is to wait in the
    /// loop's own stages by then.
    fn past_stages(&mut self, turn: impl FnOnce(&mut Self)) {
        let leaves = self.io.rules.leaves;
        if self.cohort.is_some() {
            self.io.rules.leaves = Leaves::NONE;
        }
        turn(self);
        self.io.rules.leaves = leaves;
    }

    /// Makes a connection of an accepted socket, and runs it.
    fn admit(&mut self, accepted: Accepted) {
        let eager = self.worker.accept_rules().eager_read;
        let key = self.worker.admit(accepted, Readiness::new(eager, self.worker.held_ms()));
        if let Some(stage) = self.stage.as_mut().filter(|stage| stage.accepts()) {
            return stage.leave_accepted(&mut self.worker, key);
        }
        let Some(slot) = self.worker.slot(key) else { return };
        if let Some(patience) = self.io.rules.patience {
            // Without it a peer that takes nothing would hold the process in `send` for ever.
            let _ = socket::set_timeouts(slot.socket.as_fd(), None, Some(patience));
        }
        self.turn(key, plain);
    }

    /// Completes what the disk has finished, and gives a turn to whatever waited for it.
    fn complete(&mut self) {
        for _ in 0..COMPLETIONS_MAX {
            let Some((key, spent)) = next_completion(&mut self.worker, self.io.disk) else {
                return self.has_finished = false;
            };
            self.turn(key, |slot| slot.unless_held(spent));
        }
        self.has_finished = true;
    }

    /// Takes in a connection that another stage left, and runs it. If it `is_late`, its request is
    /// turned away: no other stage comes to it.
    fn take_in(&mut self, job: StageJob, is_late: bool) {
        hook::hang_in_visit();
        // A stage may take in as many at once as there are connections.
        self.worker.beats();
        let StageJob { passed, mut drive, left, entered } = job;
        drive.moves(self.worker.held_ms());
        let key = self.worker.adopt(passed, drive);
        let slot = self.worker.slot(key);
        if let (Some(stage), Some(slot)) = (&self.stage, &slot) {
            stage.has_arrived(slot, entered, is_late);
        }
        let is_late =
            is_late && left.as_ref().zip(slot).is_some_and(|(left, slot)| left.asks(slot));
        if is_late {
            let drops = self.stage.as_ref().is_some_and(PollStage::drops);
            return self.turn_away(key, left, drops);
        }
        if let Some(left) = left {
            self.io.resume(left);
        }
        self.turn(key, plain);
    }

    /// Leaves a connection to another stage, unless it is turned away.
    #[cold]
    fn leave(&mut self, key: u64, kind: OpKind) {
        if self.cohort.is_some() {
            return self.keep(key);
        }
        let left = self.io.take_left();
        let (Some(stage), Some(slot)) = (&mut self.stage, self.worker.slot(key)) else {
            return debug_assert!(false, "an event loop by itself leaves nothing to others");
        };
        let entered = match stage.admits(slot, left.as_ref()) {
            Ok(entered) => entered,
            Err(gate) => return self.turn_away(key, left, gate.drops()),
        };
        if slot.drive.interest.is_some() {
            // Another poller may watch it, or a thread close it, which this one must not see.
            let _ = self.poller.remove(slot.socket.as_fd());
        }
        stage.leave(&mut self.worker, key, kind, left, entered);
    }

    /// Answers here that there is no room, or only closes the connection.
    fn turn_away(&mut self, key: u64, left: Option<Left>, drops: bool) {
        self.worker.around().cx.tally.add(Counter::StageRefused, 1);
        if drops {
            return self.close(key, CloseReason::Refused);
        }
        let Some((slot, desk)) = self.worker.turn(key) else { return };
        slot.conn.turn_away(desk.now, &desk.around.cx);
        // The turn that begins with what is left is this one, also if it was queued for another.
        slot.queued = false;
        match left {
            // It goes with the request that it was for.
            Some(Left::Op(_)) if slot.conn.abandoned().is_some() => {}
            Some(Left::Op(_)) => return self.close(key, CloseReason::Refused),
            Some(left) => self.io.resume(left),
            None => {}
        }
        // All of it is done here, at once if there is room in the socket: a refusal is to cost less
        // than an answer.
        let rules = self.io.rules;
        self.io.rules = TurnRules { leaves: Leaves::NONE, eager_write: true, ..rules };
        self.turn(key, plain);
        self.io.rules = rules;
    }

    /// Closes what it has when it ends before its connections. Where others share the table of
    /// descriptors, none may stay entered that ends with this loop.
    fn leave_line(&mut self, failed: bool) {
        let reason = if failed { CloseReason::Failed } else { CloseReason::Drained };
        self.end_given();
        if failed {
            self.worker.pass_on();
        }
        if failed || self.stage.is_some() || self.seat.is_some() {
            self.worker.keys().into_iter().for_each(|key| self.close(key, reason));
        }
        if let Some(stage) = &mut self.stage {
            stage.ends(self.worker.around().cx.tally);
            self.worker.around().log.flush();
        }
    }

    /// Runs one connection until it would block, after `first`, which says what time has been spent
    /// for it already, or that it is held: it is queued, or may shake hands.
    #[inline]
    fn turn(&mut self, key: u64, first: impl FnOnce(&mut ReadySlot) -> Option<Spent>) {
        let Some((slot, desk)) = self.worker.turn(key) else { return };
        let Some(spent) = first(slot) else { return self.hold(key) };
        // The poller's type decides: no loop tests this at run time.
        let turn = if self.poller.completes() {
            step::<true>(slot, desk, key, spent, &mut self.io)
        } else {
            step::<false>(slot, desk, key, spent, &mut self.io)
        };
        let goes_on = match turn {
            Turn::Wait(wanted) => slot.drive.watch(&slot.socket, key, wanted, &mut self.poller),
            Turn::Parked => slot.drive.watch(&slot.socket, key, Interest::NONE, &mut self.poller),
            Turn::Left(kind) => return self.leave(key, kind),
            Turn::Again => true,
            Turn::Closed(_) => false,
        };
        if !goes_on {
            // A socket that cannot be watched; any other has said why it ends.
            self.close(key, CloseReason::Failed);
        }
    }

    /// Forgets a connection, whatever it waits for.
    fn close(&mut self, key: u64, reason: CloseReason) {
        self.give_up_stage(key);
        self.give_up_handshake(key);
        let Some(slot) = self.worker.slot(key) else { return };
        forget(slot, key, Abandoned::All, self.io.disk);
        if slot.drive.interest.is_some() || self.poller.completes() {
            self.poller.forget(slot.socket.as_fd());
        }
        let place = slot.drive.place;
        self.worker.close(key, reason);
        if let Some(stage) = &self.stage {
            stage.ended(place);
        }
    }
}

/// A turn for which no time has been spent yet.
fn plain(slot: &mut ReadySlot) -> Option<Spent> {
    slot.unless_held(Spent::default())
}
