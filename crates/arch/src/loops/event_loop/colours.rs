//! An event loop among others of its process, each in a thread of its own. A connection is a colour
//! (libasync-smp): its events are processed by the loop that has it, and by no other. A loop with
//! nothing to do takes a connection that can continue from a loop that has several.
use super::{EventLoop, LISTENERS, plain};
use crate::{
    conn::{step::Readiness, worker::Passed},
    loops::peers::Peers,
};
use regatta_metrics::Counter;
use regatta_op::CloseReason;
use regatta_sys::wait::{Event, Interest, Poller};
use std::{collections::VecDeque, io, mem, os::fd::AsFd, time::Duration};

/// A connection on its way from one loop to another, with the events that have not been processed.
#[derive(Debug)]
pub struct Colour {
    passed: Passed,
    drive: Readiness,
}

/// Place of a loop among the others.
pub(super) struct LoopSeat<'a> {
    peers: &'a Peers<Colour>,
    /// Number of the loop.
    at: usize,
    /// Whether it asks for a connection.
    asks: bool,
    /// Connections that it was given during its last wait.
    given: VecDeque<Colour>,
}

impl LoopSeat<'_> {
    /// True if all loops end because one has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.peers.failure().is_some()
    }

    /// Wakes the other loops: the master wants something else.
    pub(super) fn wake_others(&self) {
        self.peers.wake_others(self.at);
    }

    /// Clears its own bell.
    pub(super) fn clear_bell(&self) {
        self.peers.bell(self.at).clear();
    }
}

impl<'a, P: Poller> EventLoop<'a, P> {
    /// Makes it number `at` of several loops.
    #[must_use]
    pub fn beside(mut self, peers: &'a Peers<Colour>, at: usize) -> Self {
        self.io = self.io.with_beat(self.worker.beat().cloned());
        self.seat = Some(LoopSeat { peers, at, asks: false, given: VecDeque::new() });
        self
    }

    /// Has the poller watch the bell by which other loops wake it.
    pub(super) fn watch_seat(&mut self, key: u64) -> io::Result<()> {
        match &self.seat {
            Some(LoopSeat { peers, at, .. }) => {
                self.poller.add_level(peers.bell(*at).as_fd(), key, Interest::READ)
            }
            None => Ok(()),
        }
    }

    /// Asks the others for a connection before a wait of `timeout`, if it has nothing to do and
    /// room for one.
    pub(super) fn ask(&mut self, timeout: Duration) {
        let Some(seat) = &mut self.seat else { return };
        if seat.peers.steals && !timeout.is_zero() && self.worker.is_listening() {
            seat.asks = true;
            seat.peers.ask(seat.at, 1);
            self.worker.around().cx.tally.add(Counter::ColourStealTries, 1);
        }
    }

    /// Stops asking, after the wait and before anything is accepted.
    pub(super) fn stop_asking(&mut self) {
        if let Some(LoopSeat { peers, at, asks, given }) = &mut self.seat
            && mem::take(asks)
        {
            peers.stop_asking(*at, given);
        }
    }

    /// The next connection that it was given, by its key here.
    fn adopt_next(&mut self) -> Option<u64> {
        let Colour { passed, mut drive } = self.seat.as_mut()?.given.pop_front()?;
        drive.moves(self.worker.held_ms());
        Some(self.worker.adopt(passed, drive))
    }

    /// Takes in what it was given, and continues with it.
    pub(super) fn adopt_given(&mut self) {
        while let Some(key) = self.adopt_next() {
            self.worker.around().cx.tally.add(Counter::ColourSteals, 1);
            self.turn(key, plain);
        }
    }

    /// Closes what it was given, when it cannot continue.
    pub(super) fn end_given(&mut self) {
        self.stop_asking();
        while let Some(key) = self.adopt_next() {
            self.worker.close(key, CloseReason::Drained);
        }
    }

    /// Gives connections to loops that ask before the first of these events is processed, which
    /// may take as long as a disk. Keeps one event at least.
    pub(super) fn share_out(&mut self, events: &mut Vec<Event>) {
        let mut at = events.len();
        while at > 1 && self.seat.as_ref().is_some_and(|seat| seat.peers.is_asked()) {
            at -= 1;
            if self.gives(&events[at]) {
                events.swap_remove(at);
            }
        }
    }

    /// Gives the connection of an event to a loop that asks, if nothing of the connection is out
    /// and it waits for no turn here.
    #[inline]
    pub(super) fn gives(&mut self, event: &Event) -> bool {
        match &self.seat {
            Some(seat) if event.key < LISTENERS && seat.peers.is_asked() => self.give(event),
            _ => false,
        }
    }

    #[cold]
    fn give(&mut self, event: &Event) -> bool {
        let Self { worker, poller, seat: Some(seat), .. } = self else { return false };
        seat.peers.give(|| {
            let held_ms = worker.held_ms();
            let slot = worker.slot(event.key)?;
            if slot.pending > 0 || slot.queued || slot.shaking {
                return None;
            }
            slot.drive.note(event);
            if slot.drive.interest.is_some() {
                let _ = poller.remove(slot.socket.as_fd());
            }
            slot.drive.moves(held_ms);
            worker.pass(event.key).map(|(passed, drive)| Colour { passed, drive })
        })
    }
}
