//! A scheduler beside others: when it asks them for connections, and which of its own it gives.
use super::State;
use crate::kit::{
    fibers::{peers::Peers, task::Fibered},
    worker::Passed,
};
use regatta_metrics::Counter;
use regatta_op::CloseReason;
use regatta_sys::wait::Poller;
use std::{collections::VecDeque, mem, os::fd::AsFd, time::Duration};

/// A scheduler among others.
pub(super) struct Seat<'a> {
    pub(super) peers: &'a Peers,
    /// Which it is.
    pub(super) at: usize,
    /// It has asked for connections.
    asks: bool,
    /// What it was given during its last wait.
    given: VecDeque<Passed>,
    /// Connections that it has given since then.
    gave: usize,
}

impl<'a, P: Poller> State<'a, P> {
    /// The same, as number `at` of several schedulers.
    #[must_use]
    pub fn beside(mut self, peers: &'a Peers, at: usize) -> Self {
        self.seat = Some(Seat { peers, at, asks: false, given: VecDeque::new(), gave: 0 });
        self
    }

    /// Before a wait of so long: asks others for connections, if there is nothing to run. For no
    /// more than there are user threads without one.
    pub(super) fn ask(&mut self, timeout: Duration) {
        let room = self.accepting.len();
        let is_idle = self.ready.is_empty() && !timeout.is_zero() && self.worker.is_listening();
        let Some(seat) = &mut self.seat else { return };
        seat.gave = 0;
        if seat.peers.steals && is_idle && room > 0 {
            seat.asks = true;
            seat.peers.ask(seat.at, room);
            self.tally().add(Counter::FiberStealTries, 1);
        }
    }

    /// After the wait, and before anything is accepted: it asks no more.
    pub(super) fn stops_asking(&mut self) {
        if let Some(Seat { peers, at, asks, given, .. }) = &mut self.seat
            && mem::take(asks)
        {
            peers.stop_asking(*at, given);
        }
    }

    fn next_given(&mut self) -> Option<Passed> {
        self.seat.as_mut()?.given.pop_front()
    }

    /// Takes in what it was given: user threads of its own go on with that.
    pub(super) fn adopt_given(&mut self) {
        while let Some(passed) = self.next_given() {
            let at = self.accepting.pop_front().expect("it asks for no more than it has room for");
            // What is out of it is a `Recv`, and nothing is known of its time here.
            let drive = Fibered { recv: true, ..Fibered::new(at, self.worker.held_ms()) };
            let key = self.worker.adopt(passed, drive);
            self.gets(at, key);
            self.tally().add(Counter::FiberSteals, 1);
        }
    }

    /// Closes what it was given, where it cannot go on.
    pub(super) fn end_given(&mut self) {
        self.stops_asking();
        while let Some(passed) = self.next_given() {
            let key = self.worker.adopt(passed, Fibered::new(0, 0));
            self.worker.close(key, CloseReason::Drained);
        }
    }

    /// Gives a connection that can go on to a scheduler that asks: if nothing is out of it but a
    /// `Recv`, and no more of them than are ready to run here.
    pub(super) fn gives(&mut self, key: u64) -> bool {
        let Self { worker, poller, ready, seat, .. } = self;
        let Some(seat) = seat else { return false };
        if seat.gave >= ready.len() || !seat.peers.is_asked() {
            return false;
        }
        let gives = seat.peers.give(|| {
            let slot = worker.slot(key)?;
            let drive = &mut slot.drive;
            if !drive.recv || drive.send.is_some() || slot.pending > 0 || slot.queued {
                return None;
            }
            if drive.interest.take().is_some() {
                let _ = poller.remove(slot.socket.as_fd());
            }
            worker.pass(key).map(|(passed, _)| passed)
        });
        seat.gave += usize::from(gives);
        gives
    }
}
