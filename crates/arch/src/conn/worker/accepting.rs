//! Listening and accepting of a worker. Loops that poll watch its listeners before each wait, and
//! take [`Worker::next_accept`] after each event. Units that block call [`Worker::accept`].
use super::{Accepted, Action, ConnSlot, Desk, Worker};
use crate::{
    conn::{
        accept::{AcceptRules, Ended, PAUSE_MS, WhenFull},
        budget::SEALED_WEIGHT,
    },
    drive::FileLink,
};
use regatta_metrics::{Counter, FilmEvent};
use regatta_op::CloseReason;
use regatta_origin::{Peer, Protocol as _};
use regatta_sys::{socket, wait::Poller};
use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
};

/// Idle connections that are checked for one that can be closed for another.
const CANDIDATES_MAX: usize = 8;

impl<'a, S> Worker<'a, S> {
    /// Accepts nothing any more, and ends listening: threads that wait for a connection are woken.
    /// If the listeners stay for others, such threads see it when their wait ends.
    pub fn stop_listening(&mut self) {
        if self.desk.around.control.listeners_stay() {
            self.desk.acceptor.withdraw();
        } else {
            self.desk.acceptor.drain();
        }
    }

    /// The sockets that it accepts from.
    #[must_use]
    pub const fn listeners(&self) -> &'a [OwnedFd] {
        self.desk.acceptor.listeners
    }

    /// [`Acceptor::in_turn`].
    pub fn listeners_in_turn(&mut self) -> impl Iterator<Item = usize> + use<S> {
        self.desk.acceptor.in_turn()
    }

    /// The accept strategy.
    #[must_use]
    pub const fn accept_rules(&self) -> &AcceptRules {
        &self.desk.acceptor.rules
    }

    /// True if it wants notifications of new connections.
    #[must_use]
    pub const fn is_listening(&self) -> bool {
        self.desk.acceptor.is_listening()
    }

    /// Has a poller watch the listeners, under keys from `first` on, or no longer watch them. A
    /// failure pauses accepting.
    ///
    /// # Errors
    /// The poller cannot watch them.
    #[inline]
    pub fn watch_listeners<P: Poller>(&mut self, poller: &mut P, first: u64) -> io::Result<()> {
        let watched = self.desk.acceptor.watch(poller, first);
        watched.inspect_err(|_| self.pause(PAUSE_MS))
    }

    /// Clears its bell, and checks for connections that another worker has passed on. True if the
    /// bell had rung: another thread may have cleared it.
    pub fn answer_bell(&mut self) -> bool {
        self.desk.acceptor.watch_afresh();
        self.desk.around.bell.clear()
    }

    /// [`Acceptor::pass_on`], by a worker that ends.
    pub fn pass_on(&self) {
        self.desk.acceptor.pass_on();
    }

    /// Accepts nothing for `ms` milliseconds.
    pub(super) const fn pause(&mut self, ms: u64) {
        self.desk.acceptor.pause(self.desk.now.tick, ms);
    }

    /// This listener has new connections.
    pub const fn offer(&mut self, at: usize) {
        self.desk.acceptor.offer(at);
    }

    /// Takes all that is left in the backlog, whatever the strategy: the worker goes away.
    pub fn offer_backlog(&mut self) {
        // Nothing is left to others.
        self.desk.acceptor.others.clear();
        self.desk.acceptor.offer_backlog();
    }

    /// Admits the next connection, or first closes the one that it displaces. An offered listener
    /// yields as many as the strategy says; a closed connection offers all listeners.
    #[inline]
    pub fn next_accept(&mut self) -> Option<Action> {
        // Asked after every event: after nearly all there is nothing to accept.
        let accepts = self.displacing.is_some() || self.desk.acceptor.has_offers();
        if accepts { self.accept_next() } else { None }
    }

    #[inline(never)]
    fn accept_next(&mut self) -> Option<Action> {
        if let Some(accepted) = self.displacing.take() {
            return Some(Action::Admit(accepted));
        }
        loop {
            let (at, taken) = self.desk.acceptor.next_listener(self.desk.around.cx.tally)?;
            let accepted = self.accept(at, taken);
            self.desk.acceptor.note_taken(accepted.is_ok());
            let Ok(accepted) = accepted else { continue };
            let Some(idle) = accepted.displaces else { return Some(Action::Admit(accepted)) };
            self.displacing = Some(accepted);
            return Some(Action::Close(idle, CloseReason::Displaced));
        }
    }

    /// Takes a connection from listener `at`, from which `taken` have been for this notification.
    ///
    /// # Errors
    /// The reason why there is none, which is entered: this notification is over.
    pub fn accept(&mut self, at: usize, taken: u32) -> Result<Accepted, Ended> {
        if !self.desk.acceptor.may_accept() {
            return Err(Ended::Drained);
        }
        let displaces = self.idle_to_close();
        self.accept_from(at, taken, displaces).inspect_err(|ended| {
            let Desk { acceptor, idle, around, now, .. } = &mut self.desk;
            acceptor.end(*ended, taken, idle.first().is_some(), now.tick, around.cx.tally);
        })
    }

    /// Connections that it has accepted and that are open, here or elsewhere.
    pub(super) const fn open(&self) -> usize {
        self.slots.len() + self.away
    }

    fn accept_from(
        &mut self,
        at: usize,
        taken: u32,
        displaces: Option<u64>,
    ) -> Result<Accepted, Ended> {
        let open = self.open() - usize::from(displaces.is_some());
        let Desk { acceptor, around, .. } = &mut self.desk;
        if displaces.is_some() && acceptor.leaves() {
            return Err(Ended::Left);
        }
        let take = || acceptor.take(at, open, taken, around.cx.tally);
        let (socket, peer) = match around.shared {
            None => take(),
            Some(shared) => shared
                .member()
                .acquire(|| take().inspect(|(socket, _)| shared.member().claim(socket.as_fd()))),
        }?;
        let peer = Peer::from(peer).in_class(acceptor.class(at));
        Ok(Accepted { displaces, socket, peer })
    }

    /// Returns the idle connection to close if there is another to accept, only where there is no
    /// room otherwise. Of those that have been idle for longest, it is the first with no unread
    /// bytes that has taken all of its last response.
    fn idle_to_close(&mut self) -> Option<u64> {
        let rules = &self.desk.acceptor.rules;
        if rules.when_full != WhenFull::CloseIdle || self.open() < rules.connections_max {
            return None;
        }
        for _ in 0..CANDIDATES_MAX {
            let key = self.desk.idle.first()?;
            let fd = self.slots.get_mut(key)?.socket.as_fd();
            let bytes = [socket::unread_bytes(fd), socket::queued_bytes(fd)];
            let is_new = || self.received.is_some_and(|received| received(key));
            if bytes.into_iter().all(|bytes| bytes.is_ok_and(|bytes| bytes == 0)) && !is_new() {
                return Some(key);
            }
            self.desk.idle.postpone(key);
        }
        None
    }

    /// Makes a connection of an accepted socket; the one that it displaces has been closed.
    pub fn admit(&mut self, accepted: Accepted, drive: S) -> u64 {
        let Accepted { socket, peer, .. } = accepted;
        let cx = &self.desk.around.cx;
        let now = self.desk.now;
        let mut conn = FileLink::new(peer, now, cx);
        let _goes_on = conn.admit(peer, socket.as_fd().as_raw_fd(), now, cx);
        cx.tally.add(Counter::ConnectionsOpened, 1);
        cx.tally.add(Counter::ConnectionsOpenAtAcceptSum, self.open() as u64);
        cx.tally.max(Counter::ConnectionsOpenMax, self.open() as u64 + 1);
        let shaking = conn.is_shaking_hands();
        // All connections that will be sealed begin with a handshake.
        let weight = if shaking { SEALED_WEIGHT } else { 1 };
        let slot = ConnSlot { shaking, weight, ..ConnSlot::new(conn, socket, drive) };
        slot.film(cx.tally, FilmEvent::Accepted);
        self.slots.insert(slot)
    }
}
