//! A scheduler among others: when it asks them for connections, and which of its own it gives.
use super::State;
use crate::{
    conn::worker::Passed,
    loops::{
        fibers::task::{Fibered, Shake},
        peers::Peers,
    },
};
use regatta_metrics::Counter;
use regatta_op::CloseReason;
use regatta_sys::wait::Poller;
use std::{collections::VecDeque, mem, os::fd::AsFd, time::Duration};

pub(super) struct Seat<'a> {
    pub(super) peers: &'a Peers,
    /// Number of the scheduler.
    pub(super) at: usize,
    /// Whether it asks for connections.
    asks: bool,
    /// Connections that it was given during its last wait.
    given: VecDeque<Passed>,
    /// Connections that it has given since then.
    gave: usize,
}

impl<'a, P: Poller> State<'a, P> {
    /// Makes it number `at` of several schedulers.
    #[must_use]
    pub fn beside(mut self, peers: &'a Peers, at: usize) -> Self {
        self.seat = Some(Seat { peers, at, asks: false, given: VecDeque::new(), gave: 0 });
        self
    }

    /// Asks others for connections before a wait of `timeout`, if there is nothing to run. Asks for
    /// no more than there are user threads without one.
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

    /// Stops asking, after the wait and before anything is accepted.
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

    /// Takes in what it was given: user threads of its own continue with that.
    pub(super) fn adopt_given(&mut self) {
        while let Some(passed) = self.next_given() {
            let at = self.accepting.pop_front().expect("it asks for no more than it has room for");
            // Only a `Recv` is out, and nothing is known of its time here.
            let drive = Fibered { recv: true, ..Fibered::new(at, self.worker.held_ms()) };
            let key = self.worker.adopt(passed, drive);
            self.gets(at, key);
            self.tally().add(Counter::FiberSteals, 1);
        }
    }

    /// Closes what it was given, when it cannot continue.
    pub(super) fn end_given(&mut self) {
        self.stops_asking();
        while let Some(passed) = self.next_given() {
            let key = self.worker.adopt(passed, Fibered::new(0, 0));
            self.worker.close(key, CloseReason::Drained);
        }
    }

    /// Gives a connection that can continue to a scheduler that asks, if nothing is out but a
    /// `Recv`. Gives no more of them than are ready to run here.
    pub(super) fn gives(&mut self, key: u64) -> bool {
        let Self { worker, poller, ready, seat, .. } = self;
        let Some(seat) = seat else { return false };
        if seat.gave >= ready.len() || !seat.peers.is_asked() {
            return false;
        }
        let gives = seat.peers.give(|| {
            let slot = worker.slot(key)?;
            let drive = &mut slot.drive;
            let is_held = slot.queued || drive.shake != Shake::Apart;
            if !drive.recv || drive.send.is_some() || slot.pending > 0 || is_held {
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
