//! The readiness loop that SPED and its relatives have in common: one thread, one poller, many
//! connections. It waits, hands what it is told to its worker, and does what that says.
#[cfg(test)]
pub(crate) mod schedule;

use super::{
    disk::Disk,
    step::{Io, Readiness, ReadySlot, Rules, forget, next_completion, step},
    worker::{Accepted, Action, Waited, Worker},
};
use crate::drive::{Turn, ledger::Spent};
use regatta_op::{Abandoned, CloseReason};
use regatta_sys::{
    socket,
    wait::{Event, Interest, Poller},
};
use std::{io, os::fd::AsFd};

/// Events of a round for which there is room from the beginning.
const EVENTS: usize = 1024;
/// Keys with the top bit are the loop's own.
const BELL: u64 = u64::MAX;
const DISK: u64 = u64::MAX - 1;
const LISTENERS: u64 = 1 << 63;

/// One loop.
#[expect(missing_debug_implementations, reason = "its worker has none")]
pub struct EventLoop<'a, P> {
    poller: P,
    worker: Worker<'a, Readiness>,
    io: Io<'a>,
}

impl<'a, P: Poller> EventLoop<'a, P> {
    /// A loop that is not listening yet.
    pub fn new(
        poller: P,
        worker: Worker<'a, Readiness>,
        rules: Rules,
        disk: &'a mut dyn Disk,
    ) -> Self {
        let rules = Rules { edge: poller.edge(), ..rules };
        let io = Io::new(disk, rules, &worker.around().cx.site.limits);
        Self { poller, worker, io }
    }

    /// Serves until the master says otherwise and the last connection has ended.
    ///
    /// # Errors
    /// If the poller fails, which leaves nothing to go on with.
    pub fn run(mut self) -> io::Result<()> {
        self.poller.add_level(self.worker.around().bell.as_fd(), BELL, Interest::READ)?;
        if let Some(source) = self.io.disk.source() {
            self.poller.add_level(source, DISK, Interest::READ)?;
        }
        self.worker.watch_listeners(&mut self.poller, LISTENERS)?;
        let mut events = Vec::with_capacity(EVENTS);
        while self.worker.goes_on() {
            self.wait(&mut events)?;
            for event in events.drain(..) {
                self.dispatch(event);
                while let Some(action) = self.worker.next_accept() {
                    self.perform(action);
                }
            }
            while let Some(action) = self.worker.next_action() {
                self.perform(action);
            }
        }
        Ok(())
    }

    /// Waits for events.
    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        // It pauses if they cannot be watched.
        let _ = self.worker.watch_listeners(&mut self.poller, LISTENERS);
        let wait = self.worker.begin_wait();
        let events = self.poller.wait(events, Some(wait.timeout))?;
        let (watched, changes) = (self.poller.len(), self.poller.changes());
        let renewed = self.worker.end_wait(wait, Waited { events, watched, changes });
        self.io.begin_round(renewed);
        Ok(())
    }

    /// Hands on what the poller said.
    #[inline]
    fn dispatch(&mut self, event: Event) {
        match event.key {
            BELL => drop(self.worker.around().bell.clear()),
            DISK => self.complete(),
            key if key >= LISTENERS => {
                self.worker.offer(usize::try_from(key - LISTENERS).expect("few listeners"));
            }
            key => self.turn(key, |slot| {
                slot.drive.note(&event);
                slot.unless_queued(Spent::default())
            }),
        }
    }

    /// Does what the worker says.
    fn perform(&mut self, action: Action) {
        match action {
            Action::Close(key, reason) => self.close(key, reason),
            Action::Admit(accepted) => self.admit(accepted),
            Action::Drain => self.worker.offer_backlog(),
            Action::Turn(key) => self.turn(key, plain),
            Action::Late(key) => {
                if self.worker.slot(key).is_some_and(|slot| slot.pending > 0) {
                    self.complete();
                }
                self.turn(key, |slot| {
                    slot.drive.look(&slot.socket);
                    Some(Spent::default())
                });
            }
            Action::Expired(key, what) => {
                let held_ms = self.worker.held_ms();
                if let Some(slot) = self.worker.slot(key) {
                    // Where its window goes on, it does from now.
                    slot.drive.held_ms = held_ms;
                    if let Some(what) = what {
                        forget(slot, key, what, self.io.disk);
                    }
                }
                self.turn(key, plain);
            }
        }
    }

    /// Makes a connection of an accepted socket, and runs it.
    fn admit(&mut self, accepted: Accepted) {
        let eager = self.worker.accept_rules().eager_read;
        let key = self.worker.admit(accepted, Readiness::new(eager, self.worker.held_ms()));
        let Some(slot) = self.worker.slot(key) else { return };
        if let Some(patience) = self.io.rules.patience {
            // Without it a peer that takes nothing would hold the process in `send` for ever.
            let _ = socket::set_timeouts(slot.socket.as_fd(), None, Some(patience));
        }
        self.turn(key, plain);
    }

    /// Completes what the disk has finished, and gives a turn to whatever waited for it.
    fn complete(&mut self) {
        while let Some((key, spent)) = next_completion(&mut self.worker, self.io.disk) {
            self.turn(key, |slot| slot.unless_queued(spent));
        }
    }

    /// Runs one connection until it would block, after `first`, which says what time has been spent
    /// for it already, or that it has no turn now.
    #[inline]
    fn turn(&mut self, key: u64, first: impl FnOnce(&mut ReadySlot) -> Option<Spent>) {
        let Some((slot, desk)) = self.worker.turn(key) else { return };
        let Some(spent) = first(slot) else { return };
        let goes_on = match step(slot, desk, key, spent, &mut self.io) {
            Turn::Wait(wanted) => slot.drive.watch(&slot.socket, key, wanted, &mut self.poller),
            // No other stage is there to which anything could be left.
            Turn::Parked | Turn::Left(_) => {
                slot.drive.watch(&slot.socket, key, Interest::NONE, &mut self.poller)
            }
            Turn::Again => true,
            Turn::Closed(_) => false,
        };
        if !goes_on {
            // Of a socket that cannot be watched; any other has said why it ends.
            self.close(key, CloseReason::Failed);
        }
    }

    /// Forgets a connection, whatever it waits for.
    fn close(&mut self, key: u64, reason: CloseReason) {
        let Some(slot) = self.worker.slot(key) else { return };
        forget(slot, key, Abandoned::All, self.io.disk);
        if slot.drive.interest.is_some() {
            self.poller.forget(slot.socket.as_fd());
        }
        self.worker.close(key, reason);
    }
}

/// A turn for which no time has been spent yet.
fn plain(slot: &mut ReadySlot) -> Option<Spent> {
    slot.unless_queued(Spent::default())
}
