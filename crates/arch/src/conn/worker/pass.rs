//! Connections that go from one unit of a process to another: each is in one [`Worker`], or on its
//! way as a value. Dispatchers lend connections to threads of a pool, stages of a pipeline pass
//! them on, and schedulers of fibers steal them.
use super::{ConnSlot, Worker};
use crate::drive::{FileLink, film};
use regatta_metrics::{FilmEvent, FilmSubject, TurnEnd};
use regatta_op::Tick;
use regatta_origin::Protocol as _;
use regatta_sys::socket::Connection;
use std::thread;

/// A connection on its way between units of one process. Operations that are out go with it, in
/// whatever carries both. A worker takes it in, if only to close it.
#[derive(Debug)]
#[must_use = "a connection that is dropped is neither counted nor logged"]
pub struct Passed {
    conn: FileLink,
    socket: Connection,
    shaking: bool,
    weight: u8,
    timed_from: u64,
    carried: Carried,
}

impl Passed {
    /// Socket, for a helper that sends on it.
    #[must_use]
    pub const fn socket(&self) -> &Connection {
        &self.socket
    }

    /// The connection, for records of a film.
    pub(crate) fn subject(&self) -> FilmSubject {
        film::subject_of(&self.conn, &self.socket)
    }

    /// True if received bytes may continue its handshake.
    #[must_use]
    pub const fn is_shaking_hands(&self) -> bool {
        self.shaking
    }

    /// Deadline at which a worker expires it: its carrier brings it back about then.
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.conn.deadline()
    }
}

/// Finds connections that were dropped on their way.
#[derive(Debug)]
struct Carried;

impl Carried {
    const fn arrives(self) {
        std::mem::forget(self);
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        debug_assert!(thread::panicking(), "a worker takes a connection in, if only to close it");
    }
}

impl<S> Worker<'_, S> {
    /// Lends a connection: it counts as open here until it is [taken back](Self::take_back), or
    /// [`Worker::ended_away`] is called for it. A worker that drains waits for it.
    pub fn lend(&mut self, key: u64) -> Option<(Passed, S)> {
        let lent = self.take_out(key)?;
        self.away += 1;
        Some(lent)
    }

    /// Takes a connection in that it has lent: as [`Worker::adopt`].
    pub fn take_back(&mut self, passed: Passed, drive: S) -> u64 {
        self.returns();
        self.adopt(passed, drive)
    }

    /// A connection that it has lent has been closed: there is room for another.
    pub fn ended_away(&mut self) {
        self.returns();
        self.desk.acceptor.note_room();
    }

    fn returns(&mut self) {
        debug_assert!(self.away > 0, "what comes back has been lent");
        self.away = self.away.saturating_sub(1);
    }

    /// Connections that it has lent.
    #[must_use]
    pub const fn away(&self) -> usize {
        self.away
    }

    /// Gives a connection away for good: it counts where it is taken in, and there is room for
    /// another here.
    pub fn pass(&mut self, key: u64) -> Option<(Passed, S)> {
        let passed = self.take_out(key)?;
        self.desk.acceptor.note_room();
        Some(passed)
    }

    /// Takes a connection out; nothing of it is pending, and it is not queued for a turn. Its key
    /// finds nothing from now on.
    fn take_out(&mut self, key: u64) -> Option<(Passed, S)> {
        debug_assert!(self.desk.around.shared.is_none(), "processes pass no connections");
        let mut slot = self.slots.remove(key)?;
        slot.has_shaken_hands();
        slot.film(self.desk.around.cx.tally, FilmEvent::TurnEnds(TurnEnd::Stage));
        let ConnSlot { conn, socket, pending, queued, shaking, weight, drive, timed_from, .. } =
            slot;
        debug_assert!(pending == 0 && !queued, "{pending} operations are pending, or a turn is");
        self.desk.forget(key);
        let carried = Carried;
        Some((Passed { conn, socket, shaking, weight, timed_from, carried }, drive))
    }

    /// Takes a connection in, under a new key, and files its timer. It is to have a turn, as one
    /// that has been admitted: where the worker drains, it is to finish.
    pub fn adopt(&mut self, passed: Passed, drive: S) -> u64 {
        let Passed { mut conn, socket, shaking, weight, timed_from, carried } = passed;
        carried.arrives();
        if self.desk.acceptor.draining {
            conn.drain(self.desk.now, &self.desk.around.cx);
        }
        let slot = ConnSlot::new(conn, socket, drive);
        let key = self.slots.insert(ConnSlot { shaking, weight, timed_from, ..slot });
        if let Some(slot) = self.slots.get_mut(key) {
            self.desk.file(key, slot);
        }
        key
    }

    /// A worker without listeners, whose connections others pass to it: it stays in a drain,
    /// although it has none, until it [retires](Self::retire), or the time to drain is over.
    #[must_use]
    pub fn fed(mut self) -> Self {
        self.desk.acceptor.listeners = &[];
        self
    }

    /// A worker that accepts from one of its listeners, and leaves the others to other units.
    #[must_use]
    pub fn accepts_only(mut self, listener: usize) -> Self {
        let acceptor = &mut self.desk.acceptor;
        acceptor.listeners = &acceptor.listeners[listener..=listener];
        acceptor.first += listener;
        self
    }

    /// Ends this unit alone, when its last connection ends. It accepts nothing more, and others
    /// still accept from its listeners.
    pub const fn retire(&mut self) {
        self.retired = true;
    }
}
