//! A worker: all that a unit of work of any architecture does besides waiting and performing.
//!
//! This is its connections, their timers, accepting, what the master wants, cache, log, counters
//! and clocks. The worker says what is to be done, and never waits: its driver does.
mod accepting;
mod desk;
mod next_root;
mod own;
mod pass;
mod trims;

pub use desk::{Begun, Desk};
pub use next_root::NextRoot;
pub use own::{Own, StageSlot, UnitNumber};
pub use pass::Passed;

use self::trims::{Trim, Trims};
use crate::{
    WorkerLog,
    drive::{FileCx, FileLink, film, ledger::Spent, perform},
};
use crate::{
    cache::shared_cache::SharedCache,
    conn::{
        accept::{Acceptor, LEAVE_MS},
        beats::{Beat, Pulse},
        slab::Slab,
    },
};
use regatta_metrics::{Control, Counter, FilmEvent, FilmSubject, Phase, Slot as TallySlot, Tally};
use regatta_op::{Abandoned, CloseReason, Done, Now, Op, Tick};
use regatta_origin::{Peer, Protocol as _};
use regatta_sys::{
    Bell, StaticFile, clock, heap,
    socket::{self, Connection},
    wait::{Interest, ready_now},
};
use std::{
    collections::VecDeque,
    os::fd::{AsFd, AsRawFd as _},
    sync::Arc,
    time::Duration,
    vec,
};

/// The longest wait, ms: logs are flushed and the heartbeat beats at least this often.
const WAIT_MS_MAX: u64 = 1000;
/// Deadlines that are met between two waits. Many may pass at once, and to end a connection takes
/// up to a millisecond where the kernel holds megabytes for it.
const EXPIRIES_MAX: usize = 16;
/// Pause after which listings that no client waits for are dropped, ms.
const SETTLE_MS: u64 = 1000;

/// Environment of one worker: its context, log and bell, and what the master wants.
#[expect(missing_debug_implementations, reason = "holds trait objects that have none")]
pub struct WorkerEnv<'a> {
    /// Context that connections may consult.
    pub cx: FileCx<'a>,
    /// The worker's place in the arena.
    pub slot: TallySlot<'a>,
    /// State that the master sets.
    pub control: Control<'a>,
    /// Rings when the master wants something else.
    pub bell: &'a Bell,
    /// Log for records; it needs the time.
    pub log: &'a dyn WorkerLog,
    /// A turn or a round at least this long is a stall, nanoseconds.
    pub stall_ns: u64,
    /// The cache that is shared with other processes, as is the table of descriptors.
    pub shared: Option<&'a SharedCache<'a>>,
    /// Source of the next root, if another may come.
    pub root: Option<RootSource<'a>>,
}

/// Source of the next root of a process.
#[derive(Clone, Copy, Debug)]
pub enum RootSource<'a> {
    /// This unit, with what the master sends.
    Master(NextRoot<'a>),
    /// Another unit, whose slot says which root the process has.
    Unit(TallySlot<'a>),
}

/// A connection, its socket, and what its driver keeps of it.
#[derive(Debug)]
pub struct ConnSlot<S> {
    /// The conversation.
    pub conn: FileLink,
    /// The socket.
    pub socket: Connection,
    /// Operations that the disk has been asked for and has not answered.
    pub pending: u8,
    /// Queued for another turn, which comes whatever happens.
    pub queued: bool,
    /// The next `Recv` may continue a handshake ([`regatta_origin::Protocol::is_shaking_hands`]).
    /// The driver that completes a `Recv` of such a connection keeps this up to date.
    pub shaking: bool,
    /// Number of times that each byte it sends counts against the budget of its turn.
    pub weight: u8,
    /// State of the driver: operations that are under way, and what it waits for.
    pub drive: S,
    /// The tick for which its timer is filed.
    timer_at: Tick,
    /// Time at which the request being timed was about to be read, nanoseconds; 0: none.
    timed_from: u64,
}

impl<S> ConnSlot<S> {
    /// Slot of a connection in the clear: nothing of it is pending, queued, timed or filed.
    const fn new(conn: FileLink, socket: Connection, drive: S) -> Self {
        Self {
            conn,
            socket,
            pending: 0,
            queued: false,
            shaking: false,
            weight: 1,
            drive,
            timer_at: Tick::NEVER,
            timed_from: 0,
        }
    }

    /// The connection, for records of a film.
    pub(crate) fn subject(&self) -> FilmSubject {
        film::subject_of(&self.conn, &self.socket)
    }

    /// Writes a record, if a film is made.
    #[inline(always)]
    pub(crate) fn film(&self, tally: Tally<'_>, event: FilmEvent) {
        if film::is_on(tally) {
            self.write(tally, event);
        }
    }

    /// Writes a record, far from the code of a reply.
    #[cold]
    #[inline(never)]
    fn write(&self, tally: Tally<'_>, event: FilmEvent) {
        film::write(tally, self.subject(), event);
    }

    /// The next operation that the connection asks for.
    #[inline(always)]
    pub fn next_op(&mut self, tally: Tally<'_>) -> Option<Op<StaticFile>> {
        let op = self.conn.next_op();
        if let Some(op) = &op {
            self.film(tally, FilmEvent::Issued(op.kind()));
        }
        op
    }

    /// Completes an operation.
    #[inline(always)]
    pub fn complete(&mut self, done: Done<'_, StaticFile>, now: Now, cx: &FileCx<'_>) {
        self.film(cx.tally, FilmEvent::Done(done.kind()));
        self.conn.complete(done, now, cx);
    }

    /// `spent`, unless the connection is queued, or may shake hands. It has one turn a round,
    /// whatever happens; and a round has few handshakes.
    #[inline]
    pub fn unless_held(&self, spent: Spent) -> Option<Spent> {
        // One test for both: nearly all turns are of connections in the clear.
        (!(self.queued | self.shaking)).then_some(spent)
    }

    /// Checks whether a connection that was shaking hands still is; true if it no longer is.
    pub fn has_shaken_hands(&mut self) -> bool {
        // A connection in the clear is not asked.
        let is_over = self.shaking && !self.conn.is_shaking_hands();
        self.shaking &= !is_over;
        is_over
    }

    /// Reports to a connection whose handshake waits for its turn that the peer has begun it, if
    /// there is something to receive.
    pub fn check_begun(&mut self) {
        let ready = ready_now(self.socket.as_fd(), Interest::READ);
        if ready.is_ok_and(|event| event.readable) {
            self.conn.peer_began();
        }
    }
}

/// A connection that has been accepted, and not admitted.
#[derive(Debug)]
pub struct Accepted {
    /// An idle connection that must be closed for it first.
    displaces: Option<u64>,
    socket: Connection,
    peer: Peer,
}

/// A wait that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Longest duration of the wait.
    pub timeout: Duration,
    since: u64,
}

/// Outcome of a wait, for the counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitTally {
    /// Events that it reported.
    pub events: usize,
    /// Descriptors that are watched.
    pub watched: usize,
    /// Changes of that set since the beginning.
    pub changes: u64,
}

/// Next step of a driver.
#[derive(Debug)]
pub enum Action {
    /// Stop watching the connection, forget or cancel what is in flight for it, and
    /// [close](Worker::close) it for this reason.
    Close(u64, CloseReason),
    /// Admit this connection, and give it a turn.
    Admit(Accepted),
    /// Give the connection a turn, unless it is queued for one.
    Turn(u64),
    /// The connection's deadline has passed. A driver that others may have held up first tries what
    /// the connection waits for. What is in the socket by now, or has room there, comes before the
    /// deadline.
    Late(u64),
    /// The worker has expired the connection, if its deadline had still passed. Forget or cancel
    /// what it has given up, and give it a turn, unless it is queued for one.
    Expired(u64, Option<Abandoned>),
    /// The worker is going to drain: [`Worker::offer_backlog`] takes what is left in the backlog.
    Drain,
}

/// Stage of a round, after its events.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Turns of those that were queued when it began.
    Queue,
    /// Deadlines that have passed.
    Deadlines,
    /// The driver has been given this connection as late.
    Late(u64),
    /// The last connections are accepted.
    Backlog,
    /// Turns of those that have been told to finish.
    Drain,
    /// The worker leaves, and closes all.
    Leave,
}

/// A worker, whose driver keeps an `S` of each connection.
#[expect(missing_debug_implementations, reason = "its surroundings have none")]
pub struct Worker<'a, S> {
    slots: Slab<ConnSlot<S>>,
    desk: Desk<'a>,
    /// Keys whose timers have fired and have not been checked.
    fired: VecDeque<u64>,
    /// Deadlines that may yet be met in this round.
    expiries: usize,
    /// Latest time at which the sweep through the cache resumes.
    sweep_on: Option<Tick>,
    /// Time at which listings are settled again.
    settle_on: Tick,
    /// Connections whose memory is not back with the kernel.
    trims: Trims,
    /// Root that the cache is about, if another unit replaces that.
    root_generation: u64,
    stage: Stage,
    /// Connections that were queued when the round began, and have not had their turn.
    queued: usize,
    /// All connections. Each has a turn, or is closed, at the end of a round.
    rest: vec::IntoIter<u64>,
    /// Accepted, and to be admitted when the connection has been closed that it displaces.
    displacing: Option<Accepted>,
    /// Connections that it has lent to other units.
    away: usize,
    /// The worker ends alone.
    retired: bool,
    /// The worker serves no longer.
    left: bool,
    /// Part in the beats of its process, if those are watched.
    pulse: Option<Pulse<'a>>,
    /// Whether a ring has received something of a connection, if one receives.
    received: Option<&'a dyn Fn(u64) -> bool>,
}

impl<'a, S> Worker<'a, S> {
    /// Size of a slot, bytes, with its timer and its place among those that are idle.
    pub const SLOT_BYTES: usize = Slab::<ConnSlot<S>>::SLOT_BYTES + Desk::ENTRY_BYTES;

    /// A worker without connections.
    pub fn new(acceptor: Acceptor<'a>, around: WorkerEnv<'a>) -> Self {
        let root_generation = match around.root {
            Some(RootSource::Unit(first)) => first.root_generation(),
            _ => 0,
        };
        let connections_max = acceptor.rules.connections_max;
        Self {
            root_generation,
            slots: Slab::expecting(connections_max),
            desk: Desk::new(acceptor, around),
            fired: VecDeque::with_capacity(connections_max.min(EXPIRIES_MAX)),
            expiries: 0,
            sweep_on: None,
            settle_on: Tick::default(),
            trims: Trims::default(),
            stage: Stage::Queue,
            queued: 0,
            rest: Vec::new().into_iter(),
            displacing: None,
            away: 0,
            retired: false,
            left: false,
            pulse: None,
            received: None,
        }
    }

    /// Sets its part in the beats of its process.
    #[must_use]
    pub fn with_pulse(mut self, pulse: Pulse<'a>) -> Self {
        self.pulse = Some(pulse);
        self
    }

    /// Sets what knows whether a ring has received something of a connection.
    #[must_use]
    pub fn with_received(mut self, received: &'a dyn Fn(u64) -> bool) -> Self {
        self.received = Some(received);
        self
    }

    /// Beat of its thread, if that is watched.
    #[must_use]
    pub fn beat(&self) -> Option<&Arc<Beat>> {
        match &self.pulse {
            Some(Pulse::Other(beat)) => Some(beat),
            Some(Pulse::First(_)) | None => None,
        }
    }

    /// Beats: the thread has come back to its work, in the middle of a round.
    #[inline]
    pub fn beats(&self) {
        if let Some(beat) = self.beat() {
            beat.beat();
        }
    }

    /// Environment of the worker.
    #[must_use]
    pub const fn around(&self) -> &WorkerEnv<'a> {
        &self.desk.around
    }

    /// Time at which the round began.
    #[must_use]
    pub const fn now(&self) -> Tick {
        self.desk.now.tick
    }

    /// [`Desk::held_ms`].
    #[must_use]
    pub const fn held_ms(&self) -> u32 {
        self.desk.held_ms
    }

    /// Adds `ms` that all connections have waited for other units, unknown to their peers.
    pub fn held_by_others(&mut self, ms: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
        let ms = ms as u32;
        self.desk.held_ms = self.desk.held_ms.wrapping_add(ms);
    }

    /// A connection, unless it is gone.
    #[must_use]
    pub fn slot(&mut self, key: u64) -> Option<&mut ConnSlot<S>> {
        self.slots.get_mut(key)
    }

    /// A connection that is to have a turn, unless it is gone, and what the turn is entered in.
    #[inline]
    pub fn turn(&mut self, key: u64) -> Option<(&mut ConnSlot<S>, &mut Desk<'a>)> {
        Some((self.slots.get_mut(key)?, &mut self.desk))
    }

    /// The keys of all connections.
    #[must_use]
    pub fn keys(&self) -> Vec<u64> {
        self.slots.keys()
    }

    /// Ends a round, and begins a wait, which ends at once if there is more to be done.
    pub fn begin_wait(&mut self) -> Wait {
        debug_assert!(self.desk.timers() <= self.slots.len(), "timers leave with connections");
        let since = self.desk.end_round();
        let more = !self.desk.again.is_empty() || !self.fired.is_empty();
        let timeout = if more { Duration::ZERO } else { self.timeout() };
        Wait { timeout, since }
    }

    /// Ends a wait, and begins a round: events first, then what [`Worker::next_action`] says. True
    /// if the root is another from now on: whoever opens files must know.
    pub fn end_wait(&mut self, wait: Wait, waited: WaitTally) -> bool {
        self.desk.begin_round(wait.since, wait.timeout, waited);
        self.desk.acceptor.events = waited.events;
        self.queued = self.desk.again.len();
        self.renew_root()
    }

    /// Returns the next action besides events; `None` at the end of the round. Connections are
    /// accepted first, if one has been closed. Then come turns of those that were queued when the
    /// round began, deadlines, and what the master wants.
    pub fn next_action(&mut self) -> Option<Action> {
        loop {
            let accepts = self.next_accept();
            if accepts.is_some() {
                return accepts;
            }
            match self.stage {
                Stage::Queue => {
                    if let Some(key) = self.next_queued() {
                        return Some(Action::Turn(key));
                    }
                    self.expire();
                    self.stage = Stage::Deadlines;
                }
                Stage::Deadlines => {
                    if let Some(key) = self.due() {
                        self.stage = Stage::Late(key);
                        return Some(Action::Late(key));
                    }
                    self.tick();
                    if self.is_to_drain() {
                        self.stage = Stage::Backlog;
                        // A worker that retires leaves the backlog to the others.
                        if !self.retires() {
                            return Some(Action::Drain);
                        }
                        continue;
                    }
                    if !self.is_to_leave() {
                        break;
                    }
                    self.leave();
                }
                Stage::Late(key) => {
                    self.stage = Stage::Deadlines;
                    return Some(Action::Expired(key, self.give_up(key)));
                }
                Stage::Backlog => {
                    self.drain();
                    self.stage = Stage::Drain;
                }
                Stage::Drain => match self.rest.next() {
                    Some(key) => return Some(Action::Turn(key)),
                    None if self.is_to_leave() => self.leave(),
                    None => break,
                },
                Stage::Leave => {
                    let Some(key) = self.rest.next() else {
                        self.around().log.flush();
                        return None;
                    };
                    return Some(Action::Close(key, CloseReason::Drained));
                }
            }
        }
        self.stage = Stage::Queue;
        None
    }

    /// Ends the last round: all connections are closed.
    fn leave(&mut self) {
        // A connection that is closed now leaves no room to others.
        self.desk.acceptor.draining = true;
        // The worker does not wait again, so nothing else would.
        self.desk.acceptor.pass_on();
        self.rest = self.slots.keys().into_iter();
        (self.stage, self.left) = (Stage::Leave, true);
    }

    /// The next of those that were queued when the round began.
    fn next_queued(&mut self) -> Option<u64> {
        while let Some(rest) = self.queued.checked_sub(1) {
            self.queued = rest;
            let key = self.desk.again.pop_front()?;
            if let Some(slot) = self.slots.get_mut(key) {
                slot.queued = false;
                return Some(key);
            }
        }
        None
    }

    /// True until the round ends in which the worker leaves: the master has said so, or the last
    /// connection or the time to drain has ended.
    #[must_use]
    pub const fn goes_on(&self) -> bool {
        !self.left
    }

    fn timeout(&self) -> Duration {
        let most = Duration::from_millis(WAIT_MS_MAX);
        match self.sweep_on {
            Some(on) => self.patience(most).min(self.until(on)),
            None => self.patience(most),
        }
    }

    /// Time that a thread may wait for the one connection that it serves, or for another: at most
    /// `most`. A deadline, the end of a pause or that of the drain ends it earlier.
    pub fn patience(&self, most: Duration) -> Duration {
        let Desk { acceptor, around, .. } = &self.desk;
        let drains = acceptor.draining && !self.retires();
        let leave = drains.then(|| Tick(around.control.drain_deadline_ms()));
        let due = self.desk.next_timer().into_iter().chain(acceptor.paused_until).chain(leave);
        due.min().map_or(most, |due| most.min(self.until(due)))
    }

    fn until(&self, due: Tick) -> Duration {
        Duration::from_millis(due.since(self.desk.now.tick).saturating_add(1))
    }

    /// Reads the clocks after a call that may have waited. True if the root is another from now on,
    /// as after [`Worker::end_wait`].
    pub fn read_clocks(&mut self) -> bool {
        self.desk.read_clocks();
        self.queued = self.desk.again.len();
        self.renew_root()
    }

    /// True if the root is another: takes the one that the master has sent, or sees that another
    /// unit has. Forgets all that is known of the old one.
    fn renew_root(&mut self) -> bool {
        let WorkerEnv { cx, slot, control, shared, root, .. } = &self.desk.around;
        let root = match root {
            None => return false,
            Some(RootSource::Master(next)) => next,
            Some(RootSource::Unit(first)) => {
                let is_another =
                    first.root_generation() != self.root_generation || cx.scratch.is_behind();
                if is_another {
                    self.root_generation = first.root_generation();
                    cx.scratch.renew_sites();
                    if !cx.cache.is_shared() {
                        cx.cache.clear(self.desk.now.tick, &cx.tally);
                    }
                }
                return is_another;
            }
        };
        if control.root_generation() == slot.root_generation() {
            return false;
        }
        let mut renewed = None;
        cx.cache.renew(&cx.tally, &mut || {
            renewed = match shared {
                None => root.renew(),
                Some(shared) => shared.member().acquire(|| root.renew()),
            };
            // Files that another thread opens from now on are of this root.
            renewed.map(|_| clock::now().tick)
        });
        match renewed {
            Some((generation, true)) => slot.set_root_generation(generation),
            // The master sends it again; let there be room for it.
            Some((_, false)) | None => drop(cx.cache.relieve(&cx.tally)),
        }
        if renewed.is_some() {
            cx.scratch.renew_sites();
        }
        renewed.is_some()
    }

    /// Does what is due once in a round: lets the cache forget a little of what is not asked for,
    /// reports the time to the log, beats, and returns memory.
    fn tick(&mut self) {
        let (WorkerEnv { cx, slot, root, .. }, now) = (&self.desk.around, self.desk.now);
        if self.sweep_on.is_none_or(|on| on <= now.tick) {
            self.sweep_on = cx.cache.sweep(now.tick, &cx.tally);
        }
        if self.settle_on <= now.tick {
            cx.scratch.settle_listings(now);
            self.settle_on = now.tick.after(SETTLE_MS);
        }
        self.tick_log();
        match &self.pulse {
            Some(Pulse::First(beats)) => beats.check(now.tick, *slot),
            Some(Pulse::Other(beat)) => beat.beat(),
            None => {}
        }
        // The heartbeat of a process is its first unit's, whichever others count there.
        if !matches!(root, Some(RootSource::Unit(first)) if first.is(slot)) {
            slot.set_heartbeat_ms(now.tick.0);
        }
        self.trim(now.tick);
    }

    /// Returns free memory to the kernel, a while after connections were closed. After a burst,
    /// buffers go too that were kept for later.
    fn trim(&mut self, now: Tick) {
        let Some(trim) = self.trims.due(now) else { return };
        if trim == Trim::Burst {
            self.desk.around.cx.scratch.shrink();
        }
        self.trims.has_tried(trim, heap::trim(now.0, trim.pause_ms()), now);
    }

    /// Reports the time to the log, and to the cache that others change.
    fn tick_log(&self) {
        let (WorkerEnv { cx, log, shared, .. }, now) = (&self.desk.around, self.desk.now);
        let Some(shared) = shared else { return log.tick(now) };
        shared.follow(&cx.tally);
        if !log.is_due() {
            return log.tick(now);
        }
        // The files that are open may be closed, and others are opened.
        let mut closing = Vec::new();
        log.each_own(&mut |fd| closing.push(shared.member().closing(fd)));
        shared.member().acquire(|| {
            log.tick(now);
            log.each_own(&mut |fd| shared.member().claim(fd));
        });
    }

    /// True if it ends alone, while others continue.
    fn retires(&self) -> bool {
        self.retired && self.desk.around.control.phase() == Phase::Run
    }

    /// True if the master wants it to drain, or it retires, and it has not begun.
    fn is_to_drain(&self) -> bool {
        let drains = || self.desk.around.control.phase() == Phase::Drain || self.retires();
        !self.desk.acceptor.draining && drains()
    }

    /// True if the master wants it to leave, or it has drained, or has no more time to.
    fn is_to_leave(&self) -> bool {
        let Desk { acceptor, around: WorkerEnv { control, .. }, now, .. } = &self.desk;
        // A worker without listeners is fed by others, which retire it when nothing more comes.
        let is_fed = acceptor.listeners.is_empty() && !self.retired;
        let has_drained = || self.slots.is_empty() && self.away == 0 && !is_fed;
        match control.phase() {
            Phase::Run => acceptor.draining && has_drained(),
            Phase::Drain => {
                let is_over = control.drain_deadline_ms() <= now.tick.0;
                acceptor.draining && (has_drained() || is_over)
            }
            Phase::Stop => true,
        }
    }

    /// Stops accepting, and makes every connection finish what it is doing. What was in the backlog
    /// has been accepted before, or is left to others.
    fn drain(&mut self) {
        if self.retires() {
            self.desk.acceptor.withdraw();
        } else {
            self.stop_listening();
        }
        let keys = self.slots.keys();
        for key in &keys {
            if let Some(slot) = self.slots.get_mut(*key) {
                slot.conn.drain(self.desk.now, &self.desk.around.cx);
                self.desk.file(*key, slot);
            }
        }
        self.rest = keys.into_iter();
    }

    /// Forgets a connection and closes its socket, which no poller watches any more: for this
    /// reason, if it has not given one. No operation of it is out.
    pub fn close(&mut self, key: u64, reason: CloseReason) {
        let Some(mut slot) = self.slots.remove(key) else { return };
        let desk = &mut self.desk;
        self.trims.note_close(desk.now.tick);
        slot.conn.cut(reason, desk.now, &desk.around.cx);
        if reason == CloseReason::Displaced
            && let Some(Op::Send(mut last)) = slot.conn.next_op()
        {
            // An idle connection has room for an alert. If it fails, its peer is gone.
            let (spent, tally) = (&mut Spent::default(), desk.around.cx.tally);
            let _sent = perform::send(&slot.socket, &mut last, u64::MAX, spent, tally);
        }
        slot.film(desk.around.cx.tally, FilmEvent::Closed);
        desk.forget(key);
        desk.around.cx.tally.add(Counter::ConnectionsClosed, 1);
        desk.around.cx.links.closing(slot.socket.as_fd().as_raw_fd());
        let closing = |fd| desk.around.shared.map(|shared| shared.member().closing(fd));
        let closing = closing(slot.socket.as_fd());
        drop(slot);
        drop(closing);
        // A displaced connection leaves room to the one that is there already.
        if reason != CloseReason::Displaced {
            desk.acceptor.note_room();
        }
    }

    /// Checks whether a pause is over, and which timers have fired.
    fn expire(&mut self) {
        let now = self.desk.now.tick;
        if self.desk.acceptor.ends_pause(now) {
            let open = self.open();
            if self.desk.acceptor.still_leaves(open) {
                self.pause(LEAVE_MS);
            }
        }
        self.desk.fire(&mut self.fired);
        self.expiries = EXPIRIES_MAX;
    }

    /// The next connection, of the first few whose deadlines have passed.
    fn due(&mut self) -> Option<u64> {
        while self.expiries > 0
            && let Some(key) = self.fired.pop_front()
        {
            let Some(slot) = self.slots.get_mut(key) else { continue };
            slot.timer_at = Tick::NEVER;
            if slot.conn.deadline() <= self.desk.now.tick {
                self.expiries -= 1;
                return Some(key);
            }
            self.desk.file(key, slot);
        }
        None
    }

    /// Expires a connection, if its deadline has still passed, and returns what the connection
    /// gives up of that which was out.
    fn give_up(&mut self, key: u64) -> Option<Abandoned> {
        let (slot, now) = (self.slots.get_mut(key)?, self.desk.now);
        let mut abandoned = None;
        if slot.conn.deadline() <= now.tick {
            // What the kernel holds has not reached the peer: progress is measured there.
            let queued = socket::queued_bytes(slot.socket.as_fd()).unwrap_or(0);
            slot.conn.expire(queued, now, &self.desk.around.cx);
            abandoned = slot.conn.abandoned();
        }
        self.desk.file(key, slot);
        abandoned
    }
}
