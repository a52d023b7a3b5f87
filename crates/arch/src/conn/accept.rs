//! The accept component: how a loop takes connections from its listeners ([H] §2.1, [E] §7).
//!
//! Every architecture uses this one component, because the accept strategy confounds every
//! comparison in which it is not the same on both sides.
mod options;

pub use options::{AcceptOptions, OPTIONS};

use crate::{drive::perform, options::choice};
use regatta_metrics::{Counter, Gauge, Histogram, Slot, Tally};
use regatta_op::Tick;
use regatta_origin::ListenerClass;
use regatta_sys::{
    Bell,
    socket::{self, AcceptFault, Connection, Mode},
    wait::{Interest, Poller, ready_now},
};
use std::{
    io,
    net::SocketAddr,
    ops::Range,
    os::fd::{AsFd, OwnedFd},
};

/// Pause of accepting when the process or the system has no descriptors left, ms. A level-triggered
/// listener would otherwise wake the loop without end.
pub const PAUSE_MS: u64 = 100;
/// Time for which a full worker leaves new connections to other workers, or waits until the peer of
/// an idle connection has received the end of its last response, ms.
pub const LEAVE_MS: u64 = 20;

/// Limit of any run of accepts: what the largest backlog holds (`accept.backlog`). More may arrive
/// as fast as the run takes them, and its round has to end.
const RUN_MAX: u32 = 65_535;

choice! {
    /// Reaction to new connections when the worker is full (`accept.when_full`).
    pub enum WhenFull {
        /// Close the longest idle connection for a new one; pause if none is idle.
        CloseIdle = "close-idle",
        /// Keep asking, as the servers of [H] do: each wait says that the listener is ready.
        KeepPolling = "keep-polling",
        /// Stop asking the poller about the listeners until a connection closes.
        Pause = "pause",
    }
}

/// The accept strategy.
#[derive(Clone, Copy, Debug)]
pub struct AcceptRules {
    /// Consecutive accepts per notification; 0: until there are no more (`accept-count`).
    pub count: u32,
    /// Events of a round that allow one more accept after the first; 0: events set no limit.
    pub events_per_accept: u32,
    /// Read a new connection right after it was accepted (`eager-read`).
    pub eager_read: bool,
    /// Accept whenever a connection is closed (`accept-on-close`).
    pub on_close: bool,
    /// Reaction to new connections when full.
    pub when_full: WhenFull,
    /// Connections that may be open at once in one worker.
    pub connections_max: usize,
    /// The mode that accepted sockets are in.
    pub mode: Mode,
    /// A connection wakes one of the workers that wait on a listener, and not all.
    pub exclusive: bool,
}

impl AcceptRules {
    /// Reads the strategy from the options; a worker may have `connections_max` connections.
    #[must_use]
    pub const fn new(
        options: &AcceptOptions,
        connections_max: usize,
        mode: Mode,
        exclusive: bool,
    ) -> Self {
        Self {
            count: options.count,
            events_per_accept: options.events_per_accept,
            eager_read: options.eager_read,
            on_close: options.on_close,
            when_full: match options.when_full {
                // An exclusive wake-up goes to one worker that polls, even if that is full.
                WhenFull::KeepPolling if exclusive => WhenFull::Pause,
                when_full => when_full,
            },
            connections_max,
            mode,
            exclusive,
        }
    }

    /// Most connections that a run of accepts takes in a round of `events` events.
    fn most(&self, events: usize) -> u32 {
        let all = if self.count == 0 { RUN_MAX } else { self.count };
        let Some(more) = events.checked_div(self.events_per_accept as usize) else { return all };
        all.min(u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1))
    }
}

/// Reason why a run of accepts ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The backlog was empty.
    Drained,
    /// The strategy's limit was reached; there may be more.
    Limit,
    /// The worker is full.
    Full,
    /// The worker is full, and other workers on the same listeners have room.
    Left,
    /// No descriptors or memory are left: pause.
    Exhausted,
}

/// Another worker on the same listeners.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour<'a> {
    /// Slot that counts its connections.
    pub slot: Slot<'a>,
    /// Most connections that it may have.
    pub connections_max: usize,
    /// The bell of its process, if this one has it: where a connection wakes one worker.
    pub bell: Option<&'a Bell>,
}

/// The listeners of one worker, and whether it wants notifications of new connections.
#[derive(Debug)]
pub struct Acceptor<'a> {
    /// The listening sockets.
    pub listeners: &'a [OwnedFd],
    /// Class of each listener of the process. Empty: all connections are in the clear.
    pub classes: &'a [ListenerClass],
    /// Index of the first listener among those of the process.
    pub first: usize,
    /// The strategy.
    pub rules: AcceptRules,
    /// Events of this round.
    pub events: usize,
    /// Accepting is paused until then.
    pub paused_until: Option<Tick>,
    /// The pause also ends when a connection closes.
    briefly: bool,
    /// The worker is full and no connection is idle: it accepts nothing until that changes.
    stopped: bool,
    /// The worker drains: nothing is accepted any more.
    pub draining: bool,
    /// Connections that were closed, and for which accept-on-close has not accepted yet.
    owed: u32,
    /// Listeners that are to be accepted from, the first of them first.
    offered: Range<usize>,
    /// Connections that have been taken from the first of them.
    taken: u32,
    /// The other workers on the same listeners.
    pub others: Vec<Neighbour<'a>>,
    /// Slot that reports whether it watches the listeners: only if a connection wakes one worker.
    pub reports_in: Option<Slot<'a>>,
    /// The last connection was left in the backlog for the other workers.
    left: bool,
    /// The poller watches the listeners.
    watched: bool,
    /// Watch the listeners afresh: the poller then finds what another worker passed on.
    afresh: bool,
    /// Counts the calls of [`Acceptor::in_turn`].
    first_asked: usize,
}

impl<'a> Acceptor<'a> {
    /// An acceptor whose listeners are not polled yet.
    #[must_use]
    pub const fn new(listeners: &'a [OwnedFd], rules: AcceptRules) -> Self {
        Self {
            listeners,
            classes: &[],
            first: 0,
            rules,
            events: 0,
            paused_until: None,
            briefly: false,
            stopped: false,
            draining: false,
            owed: 0,
            offered: 0..0,
            taken: 0,
            others: Vec::new(),
            reports_in: None,
            left: false,
            watched: false,
            afresh: false,
            first_asked: usize::MAX,
        }
    }

    /// Class of the connections from listener `at`.
    #[must_use]
    pub fn class(&self, at: usize) -> ListenerClass {
        if self.classes.is_empty() {
            return ListenerClass::CLEAR;
        }
        self.classes[self.first + at]
    }

    /// True if the worker wants notifications of new connections.
    #[must_use]
    pub const fn is_listening(&self) -> bool {
        self.may_accept() && !self.stopped
    }

    /// Makes a poller watch all listeners, under keys from `first` on, or none, as
    /// [`Acceptor::is_listening`] says.
    ///
    /// # Errors
    /// The error of [`Poller::add_listener`]: none is watched.
    #[inline]
    pub fn watch<P: Poller>(&mut self, poller: &mut P, first: u64) -> io::Result<()> {
        let wanted = self.is_listening();
        if self.watched == wanted && !self.afresh {
            return Ok(());
        }
        self.change_watch(poller, first, wanted)
    }

    #[cold]
    fn change_watch<P: Poller>(
        &mut self,
        poller: &mut P,
        first: u64,
        wanted: bool,
    ) -> io::Result<()> {
        self.afresh = false;
        if std::mem::replace(&mut self.watched, wanted) {
            self.unwatch(poller);
        }
        if !wanted {
            self.pass_on();
            return Ok(());
        }
        // Reported first: a worker that does not see it yet has passed on its connection before,
        // and the poller finds that connection here.
        self.reports_in.iter().for_each(|slot| slot.set_listens(true));
        let added = self
            .in_turn()
            .try_for_each(|at| poller.add_listener(self.listeners[at].as_fd(), first + at as u64));
        if added.is_err() {
            self.watched = false;
            self.unwatch(poller);
            self.pass_on();
        }
        added
    }

    fn unwatch<P: Poller>(&self, poller: &mut P) {
        for listener in self.listeners {
            // A listener that was not added need not be removed.
            let _ = poller.remove(listener.as_fd());
        }
    }

    /// Reports that it does not watch the listeners, and rings the bells of those that do: a
    /// connection may have woken this worker alone, which does not accept it. Each of them watches
    /// afresh, and either accepts or passes it on in the same way; so one that gets room later
    /// knows of the connection.
    pub fn pass_on(&self) {
        let Some(own) = self.reports_in else { return };
        own.set_listens(false);
        let listening = self.others.iter().filter(|other| other.slot.listens());
        listening.filter_map(|other| other.bell).for_each(Bell::ring);
    }

    /// Notes that the bell has rung: another worker may have passed on a connection.
    pub const fn watch_afresh(&mut self) {
        self.afresh = self.watched && self.reports_in.is_some();
    }

    /// True if it still leaves connections to others at the end of a pause. Those in the backlog
    /// are passed on once more: the first worker that heard of them may be busy.
    pub fn still_leaves(&mut self, open: usize) -> bool {
        let leaves = self.rules.exclusive && open >= self.rules.connections_max && self.leaves();
        let ready = |listener: &OwnedFd| {
            ready_now(listener.as_fd(), Interest::READ).is_ok_and(|event| event.readable)
        };
        if leaves && self.listeners.iter().any(ready) {
            self.pass_on();
        }
        leaves
    }

    /// Returns the indices of the listeners, each time starting with another one. Where there is
    /// room for one connection at a time, none is to be the first always.
    pub fn in_turn(&mut self) -> impl Iterator<Item = usize> + use<> {
        self.first_asked = self.first_asked.wrapping_add(1);
        let (from, all) = (self.first_asked, self.listeners.len());
        (0..all).map(move |at| (from + at) % all)
    }

    /// True if a connection may be accepted now, if there is room for it.
    #[must_use]
    pub const fn may_accept(&self) -> bool {
        !self.draining && self.paused_until.is_none() && !self.listeners.is_empty()
    }

    /// Accepts nothing for `ms` milliseconds.
    pub const fn pause(&mut self, now: Tick, ms: u64) {
        self.paused_until = Some(now.after(ms));
        // A worker that leaves connections to others does so all the pause: it passes few on.
        self.briefly = ms == LEAVE_MS && !(self.rules.exclusive && self.left);
        self.stopped = false;
    }

    /// True if a pause has just ended.
    pub fn ends_pause(&mut self, now: Tick) -> bool {
        self.paused_until.take_if(|until| *until <= now).is_some()
    }

    /// Accepts nothing any more; others may.
    pub const fn withdraw(&mut self) {
        self.draining = true;
        self.paused_until = None;
    }

    /// Accepts nothing any more, nor does any other worker.
    pub fn drain(&mut self) {
        self.withdraw();
        for listener in self.listeners {
            // Another worker may have been first.
            let _ = socket::stop_listening(listener.as_fd());
        }
    }

    /// A connection has been closed: there is room for another.
    pub const fn note_room(&mut self) {
        if std::mem::replace(&mut self.briefly, false) {
            self.paused_until = None;
        }
        self.stopped = false;
        if self.rules.on_close && self.may_accept() {
            self.owed += 1;
        }
    }

    /// A connection is idle: it may be closed to make room for a new one.
    pub const fn note_idle(&mut self) {
        self.stopped = false;
    }

    /// This listener has new connections.
    pub const fn offer(&mut self, at: usize) {
        (self.offered, self.taken) = (at..at + 1, 0);
    }

    /// The worker drains: it accepts all that is left in its backlog.
    pub const fn offer_backlog(&mut self) {
        // No other worker may be there to take what a pause would leave.
        (self.paused_until, self.briefly) = (None, false);
        (self.rules.count, self.rules.events_per_accept) = (0, 0);
        (self.offered, self.taken) = (0..self.listeners.len(), 0);
    }

    /// True if there is a listener to accept from ([`Acceptor::next_listener`]).
    #[inline]
    pub fn has_offers(&self) -> bool {
        self.owed > 0 || !self.offered.is_empty()
    }

    /// Returns the listener to accept from next, and how many have been taken from it. That is one
    /// that was offered, or each of them, once for every connection that has been closed.
    #[inline]
    pub fn next_listener(&mut self, tally: Tally<'_>) -> Option<(usize, u32)> {
        if self.offered.is_empty() {
            self.owed = self.owed.checked_sub(1)?;
            tally.add(Counter::AcceptOnClose, 1);
            self.offered = 0..self.listeners.len();
        }
        Some((self.offered.start, self.taken))
    }

    /// A connection has been taken from that listener; or none, which ends its run of accepts.
    pub const fn note_taken(&mut self, one: bool) {
        if one {
            self.taken += 1;
        } else {
            (self.offered.start, self.taken) = (self.offered.start + 1, 0);
        }
    }

    /// Ends a run of `taken` accepts, and pauses or stops accepting if `ended` says so.
    pub fn end(&mut self, ended: Ended, taken: u32, has_idle: bool, now: Tick, tally: Tally<'_>) {
        tally.add(Counter::AcceptRuns, 1);
        tally.record(Histogram::AcceptsPerNotification, u64::from(taken));
        tally.max(Counter::AcceptsPerNotificationMax, u64::from(taken));
        match ended {
            // Listeners are level-triggered: the poller reports again what is left in the backlog.
            Ended::Drained | Ended::Limit => {}
            Ended::Full if self.rules.when_full == WhenFull::KeepPolling => {}
            Ended::Full if self.rules.exclusive && self.leaves() => self.pause(now, LEAVE_MS),
            Ended::Full if !has_idle => self.stopped = true,
            Ended::Full | Ended::Left => self.pause(now, LEAVE_MS),
            Ended::Exhausted => self.pause(now, PAUSE_MS),
        }
    }

    /// True if a new connection is left to other workers that have room. Every other time only,
    /// because they may be busy; always where a connection wakes one worker, because they hear of
    /// it when this one no longer watches.
    pub fn leaves(&mut self) -> bool {
        let exclusive = self.rules.exclusive;
        let has_room = |Neighbour { slot, connections_max, .. }: &Neighbour<'_>| {
            slot.gauge(Gauge::ConnectionsOpen) < *connections_max as u64
                && !slot.is_retired()
                && (!exclusive || slot.listens())
        };
        self.left = (exclusive || !self.left) && self.others.iter().any(has_room);
        self.left
    }

    /// Accepts one connection from listener `at`, as the strategy says: `open` connections are
    /// open, and `taken` have been accepted for this notification.
    ///
    /// # Errors
    /// The reason why this run of accepts ends here.
    pub fn take(
        &self,
        at: usize,
        open: usize,
        taken: u32,
        tally: Tally<'_>,
    ) -> Result<(Connection, Option<SocketAddr>), Ended> {
        // The cap is checked here and not where the loop decides to poll, as in [H] §2.1.
        if open >= self.rules.connections_max {
            tally.add(Counter::AcceptSkippedFull, 1);
            return Err(Ended::Full);
        }
        if taken >= self.rules.most(self.events) {
            return Err(Ended::Limit);
        }
        loop {
            match perform::accept(&self.listeners[at], self.rules.mode, tally) {
                Ok(accepted) => return Ok(accepted),
                Err(AcceptFault::WouldBlock | AcceptFault::Closed) => return Err(Ended::Drained),
                // This peer left while it was in the backlog: others may be behind it.
                Err(AcceptFault::Aborted) => {}
                Err(AcceptFault::Exhausted | AcceptFault::Other(_)) => {
                    return Err(Ended::Exhausted);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        options::Settings,
        testing::dice::{Dice, SEEDS},
    };
    use regatta_sys::{
        socket::{ListenSpec, listen, local_addr},
        wait::{Interest, Poll},
    };
    use regatta_testkit::counters::arena;
    use std::{net::TcpStream, time::Duration};

    fn defaults() -> Settings {
        Settings::defaults(OPTIONS)
    }

    fn wait(listener: &OwnedFd) {
        let (mut poller, mut events) = (Poll::new(), Vec::new());
        poller.add(listener.as_fd(), 1, Interest::READ).unwrap();
        assert!(poller.wait(&mut events, Some(Duration::from_secs(60))).unwrap() > 0);
    }

    #[test]
    fn a_run_takes_its_share_of_a_round() {
        for (count, events_per_accept, events, most) in [
            (0, 0, 1, RUN_MAX),
            (25, 0, 1, 25),
            (0, 16, 1, 1),
            (0, 16, 15, 1),
            (0, 16, 16, 2),
            (0, 16, 512, 33),
            (25, 16, 512, 25),
            (25, 1, 8, 9),
        ] {
            let options =
                AcceptOptions { count, events_per_accept, ..AcceptOptions::read(&defaults()) };
            let rules = AcceptRules::new(&options, 1, Mode::Nonblocking, false);
            assert_eq!(rules.most(events), most, "{count} {events_per_accept} {events}");
        }
    }

    /// Clients connect and connections close at random: each strategy accepts what it says.
    #[test]
    fn random_schedules_take_what_the_strategy_says() {
        let arena = arena(1);
        let tally = Tally::Owned(arena.slot(0));
        let spec = ListenSpec::new("127.0.0.1:0".parse().unwrap());
        let listeners = [listen(&spec).unwrap()];
        let address = local_addr(listeners[0].as_fd()).unwrap();
        let (mut calls, mut accepted) = (0, 0);
        for seed in 0..SEEDS {
            let mut dice = Dice::new(seed);
            let rules = AcceptRules {
                count: u32::try_from(dice.below(5)).unwrap(),
                events_per_accept: 0,
                eager_read: false,
                on_close: false,
                when_full: WhenFull::KeepPolling,
                connections_max: 1 + dice.below(6),
                mode: Mode::Nonblocking,
                exclusive: false,
            };
            let acceptor = Acceptor::new(&listeners, rules);
            let (mut clients, mut open, mut queued) = (Vec::new(), Vec::new(), 0);
            for _ in 0..12 {
                for _ in 0..dice.below(4) {
                    clients.push(TcpStream::connect(address).unwrap());
                    queued += 1;
                }
                let mut taken = 0;
                let ended = loop {
                    let room = open.len() < rules.connections_max;
                    let may = rules.count == 0 || taken < rules.count;
                    let expect = match (room, may, queued > 0) {
                        (false, _, _) => Some(Ended::Full),
                        (_, false, _) => Some(Ended::Limit),
                        (_, _, false) => Some(Ended::Drained),
                        _ => None,
                    };
                    calls += u64::from(room && may);
                    match acceptor.take(0, open.len(), taken, tally) {
                        Ok((socket, peer)) => {
                            assert_eq!(expect, None, "seed {seed}");
                            assert!(peer.is_some_and(|peer| peer.ip().is_loopback()));
                            open.push(socket);
                            (taken, queued, accepted) = (taken + 1, queued - 1, accepted + 1);
                        }
                        // The last packet of a handshake may be on the way yet.
                        Err(Ended::Drained) if expect.is_none() => wait(&listeners[0]),
                        Err(ended) => break (ended, expect),
                    }
                };
                assert_eq!(Some(ended.0), ended.1, "seed {seed}");
                for _ in 0..dice.below(4) {
                    drop(dice.take(&mut open));
                }
            }
            // Empty the backlog for the next seed.
            while queued > 0 {
                match acceptor.take(0, 0, 0, tally) {
                    Ok(_) => (accepted, queued) = (accepted + 1, queued - 1),
                    Err(ended) => {
                        assert_eq!(ended, Ended::Drained);
                        wait(&listeners[0]);
                    }
                }
                calls += 1;
            }
        }
        let slot = arena.slot(0);
        assert_eq!(slot.get(Counter::AcceptOk), accepted);
        assert_eq!(slot.get(Counter::AcceptCalls), calls);
        assert_eq!(slot.get(Counter::AcceptCalls), accepted + slot.get(Counter::AcceptWouldBlock));
    }
}
