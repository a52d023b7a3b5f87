//! The readiness loop that SPED and its relatives have in common: one thread, one poller, many
//! connections. It waits, hands what it is told to its worker, and performs.
#[cfg(test)]
pub(crate) mod schedule;

use super::{
    accept::{Ended, PAUSE_MS},
    budget::Budget,
    disk::{Completion, Disk},
    worker::{Accepted, Worker},
};
use crate::drive::{
    ledger::Spent,
    step::{Io, Readiness, ReadySlot, Rules, Spares, Turn, forget, on_completion, step},
};
use regatta_metrics::{Counter, Phase};
use regatta_op::{Abandoned, CloseReason};
use regatta_sys::{
    socket,
    wait::{Event, Interest, Poller},
};
use std::{collections::VecDeque, io, os::fd::AsFd};

/// The most bytes that one `recv` takes, however long a head may be.
const RECV_BYTES_MAX: usize = 64 << 10;
/// Where in the buffer received bytes land: the target of a `GET` then starts where a word does,
/// and is looked at in words (std's check that it is UTF-8, which `httparse` makes).
const LANDING: usize = 4;
/// Events of a round, and connections that are queued, for which there is room from the beginning.
const EVENTS: usize = 1024;
/// What an idle connection takes of the worker's memory at most, bytes.
const CONNECTION_BYTES_MAX: usize = 256;
const _: () = assert!(Worker::<Readiness>::SLOT_BYTES <= CONNECTION_BYTES_MAX);
/// Keys with the top bit are the loop's own.
const BELL: u64 = u64::MAX;
const DISK: u64 = u64::MAX - 1;
const LISTENERS: u64 = 1 << 63;

/// One loop.
#[expect(missing_debug_implementations, reason = "its worker has none")]
pub struct EventLoop<'a, P> {
    poller: P,
    worker: Worker<'a, Readiness>,
    rules: Rules,
    /// The listeners are in the poller's interest set.
    listening: bool,
    budget: Budget,
    /// Keys whose turn ended because its budget was spent.
    again: VecDeque<u64>,
    buffer: Box<[u8]>,
    spares: Spares,
    /// Changes of the interest set that have been counted.
    changes: u64,
}

impl<'a, P: Poller> EventLoop<'a, P> {
    /// A loop that is not listening yet.
    pub fn new(poller: P, worker: Worker<'a, Readiness>, rules: Rules) -> Self {
        let rules = Rules { edge: poller.edge(), ..rules };
        // What comes behind a request is kept until that is answered, so no more is taken at once
        // than a head may need: a connection keeps two such lengths at most.
        let recv_bytes = worker.around().cx.site.limits.head_bytes_max.min(RECV_BYTES_MAX);
        Self {
            poller,
            worker,
            rules,
            listening: false,
            budget: Budget::new(rules.bytes_max),
            again: VecDeque::with_capacity(EVENTS),
            buffer: vec![0; LANDING + recv_bytes].into(),
            spares: Spares::default(),
            changes: 0,
        }
    }

    /// Serves until the master says otherwise and the last connection has ended.
    ///
    /// # Errors
    /// If the poller fails, which leaves nothing to go on with.
    pub fn run(mut self, disk: &mut dyn Disk) -> io::Result<()> {
        self.poller.add_level(self.worker.around().bell.as_fd(), BELL, Interest::READ)?;
        if let Some(source) = disk.source() {
            self.poller.add_level(source, DISK, Interest::READ)?;
        }
        self.watch_listeners()?;
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            self.wait(&mut events, disk)?;
            // Who is queued in this round has its next turn in the next one.
            let queued = self.again.len();
            for event in events.drain(..) {
                match event.key {
                    BELL => drop(self.worker.around().bell.clear()),
                    DISK => self.on_completion(disk),
                    key if key >= LISTENERS => {
                        let at = usize::try_from(key - LISTENERS).expect("few listeners");
                        self.accept(at, disk);
                    }
                    key => self.event(key, event, disk),
                }
                self.accept_on_close(disk);
            }
            for _ in 0..queued {
                let Some(key) = self.again.pop_front() else { break };
                self.turn_after(key, disk, |slot| {
                    slot.drive.queued = false;
                    Some(Spent::default())
                });
                self.accept_on_close(disk);
            }
            self.expire(disk);
            self.worker.tick();
            let mut phase = self.worker.heed();
            if phase == Phase::Drain {
                self.drain(disk);
                phase = self.worker.heed();
            }
            if phase == Phase::Stop {
                break;
            }
        }
        for key in self.worker.keys() {
            self.close(key, CloseReason::Drained, disk);
        }
        self.worker.around().log.flush();
        Ok(())
    }

    /// Waits for events.
    fn wait(&mut self, events: &mut Vec<Event>, disk: &mut dyn Disk) -> io::Result<()> {
        if self.watch_listeners().is_err() {
            self.worker.pause(PAUSE_MS);
        }
        let wait = self.worker.begin_wait(!self.again.is_empty());
        self.poller.wait(events, Some(wait.timeout))?;
        if self.worker.end_wait(wait, events.len()) {
            disk.renew_root();
        }
        self.budget.renew();
        let tally = self.worker.around().cx.tally;
        let watched = self.poller.len() as u64;
        tally.add(Counter::WaitInterestSum, watched);
        tally.max(Counter::WaitInterestMax, watched);
        let changes = self.poller.changes();
        tally.add(Counter::WaitChanges, changes - self.changes);
        self.changes = changes;
        Ok(())
    }

    /// Adds the listeners to the interest set or removes them, as the worker wants: all of them, or
    /// none.
    fn watch_listeners(&mut self) -> io::Result<()> {
        let wanted = self.worker.is_listening();
        if std::mem::replace(&mut self.listening, wanted) == wanted {
            return Ok(());
        }
        let listeners = self.worker.listeners();
        let mut added = Ok(());
        if wanted {
            let mut all = listeners.iter().zip(LISTENERS..);
            added = all.try_for_each(|(fd, key)| self.poller.add_listener(fd.as_fd(), key));
        }
        if !wanted || added.is_err() {
            self.listening = false;
            for listener in listeners {
                // One that was not added need not be removed.
                let _ = self.poller.remove(listener.as_fd());
            }
        }
        added
    }

    /// Takes new connections from a listener, as many as the strategy says.
    fn accept(&mut self, at: usize, disk: &mut dyn Disk) -> Ended {
        let mut taken = 0;
        loop {
            match self.worker.accept(at, taken) {
                Ok(accepted) => self.admit(accepted, disk),
                Err(ended) => return ended,
            }
            taken += 1;
        }
    }

    /// Accepts for each connection that has been closed, if that is the strategy.
    fn accept_on_close(&mut self, disk: &mut dyn Disk) {
        while self.worker.owes_accept() {
            for at in 0..self.worker.listeners().len() {
                self.accept(at, disk);
            }
        }
    }

    /// Makes a connection of an accepted socket, and runs it.
    fn admit(&mut self, accepted: Accepted, disk: &mut dyn Disk) {
        if let Some(idle) = accepted.displaces {
            self.close(idle, CloseReason::Displaced, disk);
        }
        let eager = self.worker.accept_rules().eager_read;
        let key = self.worker.admit(accepted, Readiness::new(eager));
        let Some(slot) = self.worker.slot(key) else { return };
        if let Some(patience) = self.rules.patience {
            // Without it a peer that takes nothing would hold the process in `send` for ever.
            let _ = socket::set_timeouts(slot.socket.as_fd(), None, Some(patience));
        }
        self.turn(key, disk);
    }

    /// Notes what the poller said of a connection and gives it a turn.
    fn event(&mut self, key: u64, event: Event, disk: &mut dyn Disk) {
        self.turn_after(key, disk, |slot| {
            slot.drive.note(&event);
            slot.drive.unless_queued(Spent::default())
        });
    }

    /// Takes what the disk has finished, and gives a turn to each connection that waited for it.
    fn on_completion(&mut self, disk: &mut dyn Disk) {
        while let Some(Completion { key, result, spent }) = disk.next_completion() {
            let Some((slot, desk)) = self.worker.turn(key) else {
                // The client has left; what was opened for it is closed here.
                self.worker.around().cx.tally.add(Counter::DiskCompletionsDropped, 1);
                continue;
            };
            on_completion(slot, result, desk.now, &desk.around.cx);
            self.turn_after(key, disk, |slot| slot.drive.unless_queued(spent));
        }
    }

    /// Runs one connection until it would block, and does what its turn asks for.
    fn turn(&mut self, key: u64, disk: &mut dyn Disk) {
        self.turn_after(key, disk, |slot| slot.drive.unless_queued(Spent::default()));
    }

    /// [`EventLoop::turn`], after `first`, which says what time has been spent for the connection
    /// already, or that it has no turn now.
    #[inline]
    fn turn_after(
        &mut self,
        key: u64,
        disk: &mut dyn Disk,
        first: impl FnOnce(&mut ReadySlot) -> Option<Spent>,
    ) {
        let Self { worker, poller, rules, budget, again, buffer, spares, .. } = self;
        let Some((slot, desk)) = worker.turn(key) else { return };
        let Some(spent) = first(slot) else { return };
        let readable = slot.drive.readable;
        let begun = desk.begin(slot, readable);
        let (buffer, bytes) = (&mut buffer[LANDING..], budget.share());
        let mut io = Io { disk, buffer, spares, rules, bytes, spent };
        let turn = step(slot, key, &mut io, desk.now, &desk.around.cx);
        budget.spend(bytes - io.bytes);
        desk.end(key, slot, begun, turn, &io.spent, rules.patience.is_some());
        let goes_on = match turn {
            Turn::Wait(wanted) => watch(slot, key, wanted, poller),
            Turn::Parked => watch(slot, key, Interest::NONE, poller),
            Turn::Again => {
                if !std::mem::replace(&mut slot.drive.queued, true) {
                    again.push_back(key);
                }
                true
            }
            Turn::Closed(_) => false,
        };
        if !goes_on {
            // Of a socket that cannot be watched; any other has said why it ends.
            self.close(key, CloseReason::Failed, disk);
        }
    }

    /// Forgets a connection, whatever it waits for.
    fn close(&mut self, key: u64, reason: CloseReason, disk: &mut dyn Disk) {
        let Some(slot) = self.worker.slot(key) else { return };
        if slot.pending > 0 {
            disk.forget(key, Abandoned::All);
        }
        if slot.drive.interest.is_some() {
            self.poller.forget(slot.socket.as_fd());
        }
        self.worker.close(key, reason);
    }

    /// Gives turns to connections whose deadlines have passed. Whatever has held the loop up is
    /// not the peer's fault: what is in the socket, or has room there, comes before the deadline.
    fn expire(&mut self, disk: &mut dyn Disk) {
        self.worker.expire();
        while let Some(key) = self.worker.due() {
            if self.worker.slot(key).is_some_and(|slot| slot.pending > 0) {
                self.on_completion(disk);
            }
            self.turn_after(key, disk, |slot| {
                slot.drive.look(&slot.socket);
                Some(Spent::default())
            });
            if let (Some(what), Some(slot)) = (self.worker.give_up(key), self.worker.slot(key)) {
                forget(slot, key, what, disk);
            }
            self.turn(key, disk);
            self.accept_on_close(disk);
        }
    }

    /// Takes the last connections from the queue, and tells every connection to finish.
    fn drain(&mut self, disk: &mut dyn Disk) {
        for at in 0..self.worker.listeners().len() {
            while self.accept(at, disk) == Ended::Limit {}
        }
        for key in self.worker.drain() {
            self.turn(key, disk);
        }
    }
}

/// Tells the poller what a connection waits for; false if that cannot be watched.
#[inline]
fn watch<P: Poller>(slot: &mut ReadySlot, key: u64, wanted: Interest, poller: &mut P) -> bool {
    slot.drive.interest == Some(wanted) || ask(slot, key, wanted, poller)
}

#[cold]
fn ask<P: Poller>(slot: &mut ReadySlot, key: u64, wanted: Interest, poller: &mut P) -> bool {
    // Who is told of a change once can leave asked for what it has asked for, and is always told
    // of what can be received.
    let before = slot.drive.interest;
    let wanted = if poller.edge() { before.unwrap_or(Interest::READ).and(wanted) } else { wanted };
    let asked = match before {
        // It ends with its first turn or not at all: until then nobody need watch it.
        None => poller.add(slot.socket.as_fd(), key, wanted),
        Some(before) if before == wanted => Ok(()),
        Some(_) => poller.set(slot.socket.as_fd(), key, wanted),
    };
    if asked.is_ok() {
        slot.drive.interest = Some(wanted);
    }
    asked.is_ok()
}
