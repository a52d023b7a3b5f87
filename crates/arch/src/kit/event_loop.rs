//! The readiness loop that SPED and its relatives have in common: one thread, one poller, many
//! connections.
#[cfg(test)]
pub(crate) mod schedule;

use super::{
    accept::{Acceptor, Ended, LEAVE_MS, PAUSE_MS, WhenFull},
    disk::{Disk, Report},
    idle::Idle,
    shared_cache::SharedCache,
    slab::Slab,
    wheel::Wheel,
};
use crate::{
    WorkerLog,
    drive::{
        ledger::{Round, Spent, enter, enter_round},
        step::{FileConn, FileCx, Io, Rules, Slot, Spares, Turn, step},
    },
};
use regatta_metrics::{Control, Counter, Histogram, Phase, Slot as TallySlot};
use regatta_op::{CloseReason, Now, Tick};
use regatta_origin::Peer;
use regatta_sys::{
    Bell, Root,
    channel::Channel,
    clock,
    socket::{self, Connection},
    wait::{Event, Interest, Poller},
};
use std::{collections::VecDeque, io, net::SocketAddr, os::fd::AsFd, time::Duration};

/// The most bytes that one `recv` takes, however long a head may be.
const RECV_BYTES_MAX: usize = 64 << 10;
/// Where in the buffer received bytes land: the target of a `GET` then starts where a word does,
/// and is looked at in words (std's check that it is UTF-8, which `httparse` makes).
const LANDING: usize = 4;
/// The longest wait, ms: logs are flushed and the heartbeat beats at least this often.
const WAIT_MS_MAX: u64 = 1000;
/// How late the date may be, ms.
const DATE_MS: u64 = 64;
/// Deadlines that are met between two waits. Many may pass at once, and to end a connection takes
/// up to a millisecond where the kernel holds megabytes for it.
const EXPIRIES_MAX: usize = 16;
/// A round may send as much as so many whole turns.
const ROUND_TURNS: u64 = 16;
/// What a turn may send however little is left to its round, bytes.
const TURN_BYTES: u64 = 64 << 10;
/// One turn in so many is timed.
const TURNS_PER_SAMPLE: u32 = 64;
/// What an idle connection takes of the worker's memory at most, bytes: a slot, a timer, and its
/// place among those that are idle.
const CONNECTION_BYTES_MAX: usize = 256;
const _: () = assert!(
    Slab::<Slot>::SLOT_BYTES + Wheel::ENTRY_BYTES + Idle::ENTRY_BYTES <= CONNECTION_BYTES_MAX
);
/// Idle connections that are looked at for one that can be closed for another.
const LOOKS_MAX: usize = 8;
/// Keys with the top bit are the loop's own.
const BELL: u64 = u64::MAX;
const DISK: u64 = u64::MAX - 1;
const LISTENERS: u64 = 1 << 63;

/// What surrounds one loop.
#[expect(missing_debug_implementations, reason = "holds trait objects that have none")]
pub struct Surroundings<'a> {
    /// What connections may consult.
    pub cx: FileCx<'a>,
    /// The worker's place in the arena.
    pub slot: TallySlot<'a>,
    /// What the master wants.
    pub control: Control<'a>,
    /// Rings when the master wants something else.
    pub bell: &'a Bell,
    /// Where records go; it wants to be told the time.
    pub log: &'a dyn WorkerLog,
    /// A turn or a round at least this long is a stall, nanoseconds.
    pub stall_ns: u64,
    /// The cache that is shared with other processes, as is the table of descriptors.
    pub shared: Option<&'a SharedCache<'a>>,
    /// Where another root comes from, if one may come.
    pub root: Option<RootSource<'a>>,
}

/// The root of a loop and its disk, and where the one comes from that takes its place.
#[derive(Clone, Copy, Debug)]
pub struct RootSource<'a> {
    /// What is served.
    pub root: &'a Root,
    /// Each record brings a root, and says which it is.
    pub channel: &'a Channel,
}

impl RootSource<'_> {
    /// Replaces the root by the last that has come, and says which it is; `None` if none has, or
    /// there is no descriptor to take it with.
    #[must_use]
    pub fn renew(&self) -> Option<u64> {
        let (mut record, mut roots) = ([0; 8], Vec::new());
        while let Ok(8) = self.channel.recv(&mut record, &mut roots, false) {
            // All but the last are closed.
            roots.drain(..roots.len() - 1);
        }
        self.root.replace(roots.pop()?.as_fd()).ok()?;
        Some(u64::from_ne_bytes(record))
    }
}

/// One loop.
#[expect(missing_debug_implementations, reason = "its surroundings have none")]
pub struct EventLoop<'a, P> {
    poller: P,
    slots: Slab<Slot>,
    wheel: Wheel,
    /// Entered only where idle connections are closed for others.
    idle: Idle,
    acceptor: Acceptor<'a>,
    rules: Rules,
    around: Surroundings<'a>,
    /// Keys whose timers have fired and have not been looked at.
    fired: VecDeque<u64>,
    /// Bytes that are left to this round, of which each turn may send a share.
    round_bytes: u64,
    /// Keys whose turn ended because its budget was spent.
    again: VecDeque<u64>,
    buffer: Box<[u8]>,
    spares: Spares,
    now: Now,
    /// The precise clock after the last wait.
    stamp: u64,
    /// Turns so far.
    turns: u32,
    /// The next request is to be timed.
    sample_due: bool,
    /// Time that the disk may have taken since the last wait, nanoseconds.
    disk_ns: u64,
    /// Changes of the interest set that have been counted.
    changes: u64,
    draining: bool,
    /// When the sweep through the cache goes on, at the latest.
    sweep_on: Option<Tick>,
    /// Inside an accept that a close has caused: what its own closes cause comes after it.
    accepting: bool,
    /// Closes that have not caused their accept yet.
    owed: u32,
}

impl<'a, P: Poller> EventLoop<'a, P> {
    /// A loop that is not listening yet.
    pub fn new(poller: P, acceptor: Acceptor<'a>, rules: Rules, around: Surroundings<'a>) -> Self {
        let now = clock::now();
        let rules = Rules { edge: poller.edge(), ..rules };
        // What comes behind a request is kept until that is answered, so no more is taken at once
        // than a head may need: a connection keeps two such lengths at most.
        let recv_bytes = around.cx.site.limits.head_bytes_max.min(RECV_BYTES_MAX);
        Self {
            poller,
            slots: Slab::default(),
            wheel: Wheel::new(now.tick),
            idle: Idle::default(),
            acceptor,
            rules,
            around,
            fired: VecDeque::with_capacity(EXPIRIES_MAX),
            round_bytes: 0,
            again: VecDeque::new(),
            buffer: vec![0; LANDING + recv_bytes].into(),
            spares: Spares::default(),
            now,
            stamp: clock::nanos(),
            turns: 0,
            sample_due: false,
            disk_ns: 0,
            changes: 0,
            draining: false,
            sweep_on: None,
            accepting: false,
            owed: 0,
        }
    }

    /// Serves until the master says otherwise and the last connection has ended.
    ///
    /// # Errors
    /// If the poller fails, which leaves nothing to go on with.
    pub fn run(mut self, disk: &mut dyn Disk) -> io::Result<()> {
        self.poller.add_level(self.around.bell.as_fd(), BELL, Interest::READ)?;
        if let Some(source) = disk.source() {
            self.poller.add_level(source, DISK, Interest::READ)?;
        }
        self.listen()?;
        let mut events = Vec::with_capacity(1024);
        loop {
            self.wait(&mut events)?;
            self.renew_root(disk);
            // Who is queued in this round has its next turn in the next one.
            let queued = self.again.len();
            for event in events.drain(..) {
                match event.key {
                    BELL => drop(self.around.bell.clear()),
                    DISK => self.hear(disk),
                    key if key >= LISTENERS => drop(self.accept(key, disk)),
                    key => self.event(key, event, disk),
                }
            }
            for _ in 0..queued {
                let Some(key) = self.again.pop_front() else { break };
                self.turn_after(key, disk, |slot| {
                    slot.queued = false;
                    Spent::default()
                });
            }
            self.expire(disk);
            self.sweep();
            self.tick();
            self.around.slot.set_heartbeat_ms(self.now.tick.0);
            if self.heed(disk)? {
                break;
            }
        }
        for key in self.slots.keys() {
            self.forget(key, CloseReason::Drained);
        }
        self.around.log.flush();
        Ok(())
    }

    /// Lets the cache forget a little of what nobody asks for.
    fn sweep(&mut self) {
        if self.sweep_on.is_none_or(|on| on <= self.now.tick) {
            let cx = &self.around.cx;
            self.sweep_on = cx.cache.sweep(self.now.tick, &cx.tally);
        }
    }

    /// Takes the new root if the master has sent one, and forgets all that is known of the old one.
    fn renew_root(&self, disk: &mut dyn Disk) {
        let Surroundings { cx, slot, control, shared, root, .. } = &self.around;
        let behind = control.root_generation() != slot.root_generation();
        let Some(root) = root.filter(|_| behind) else { return };
        let renewed = match shared {
            None => root.renew(),
            Some(shared) => shared.member().acquire(|| root.renew()),
        };
        if let Some(generation) = renewed {
            disk.renew_root();
            cx.cache.clear(self.now.tick, &cx.tally);
            slot.set_root_generation(generation);
        } else {
            // The master sends it again; let there be room for it.
            cx.cache.relieve(&cx.tally);
        }
    }

    /// Tells the time to the log, and to the cache that others change.
    fn tick(&self) {
        let log = self.around.log;
        let Some(shared) = self.around.shared else { return log.tick(self.now) };
        shared.follow(&self.around.cx.tally);
        if !log.is_due() {
            return log.tick(self.now);
        }
        // The files that are open may be closed, and others are opened.
        let mut closing = Vec::new();
        log.each_own(&mut |fd| closing.push(shared.member().closing(fd)));
        shared.member().acquire(|| {
            log.tick(self.now);
            log.each_own(&mut |fd| shared.member().own(fd));
        });
    }

    /// Waits for events and reads the clocks.
    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        let tally = self.around.cx.tally;
        debug_assert!(self.wheel.len() <= self.slots.len(), "timers leave with connections");
        let before = clock::nanos();
        let busy = before - self.stamp;
        tally.record(Histogram::LoopNs, busy);
        let round = Round { busy, disk: std::mem::take(&mut self.disk_ns) };
        enter_round(round, self.around.stall_ns, tally);
        let timeout = self.timeout();
        self.poller.wait(events, Some(timeout))?;
        self.read_clocks();
        self.round_bytes = self.rules.bytes_max.saturating_mul(ROUND_TURNS);
        let waited = self.stamp - before;
        tally.add(Counter::WaitCalls, 1);
        tally.add(Counter::WaitNs, waited);
        tally.add(Counter::WaitEvents, events.len() as u64);
        tally.record(Histogram::EventsPerWait, events.len() as u64);
        if events.is_empty() {
            tally.add(Counter::WaitZero, 1);
            if !timeout.is_zero() && u128::from(waited) >= timeout.as_nanos() {
                tally.add(Counter::WaitTimedOut, 1);
            }
        }
        let watched = self.poller.len() as u64;
        tally.add(Counter::WaitInterestSum, watched);
        tally.max(Counter::WaitInterestMax, watched);
        let changes = self.poller.changes();
        tally.add(Counter::WaitChanges, changes - self.changes);
        self.changes = changes;
        Ok(())
    }

    /// Reads the precise clock; and the date, when that may have changed.
    fn read_clocks(&mut self) {
        self.stamp = clock::nanos();
        let tick = Tick(self.stamp / 1_000_000);
        if tick.0 / DATE_MS != self.now.tick.0 / DATE_MS {
            self.now.unix = clock::now().unix;
        }
        self.now.tick = tick;
    }

    fn timeout(&self) -> Duration {
        if !self.again.is_empty() || !self.fired.is_empty() {
            return Duration::ZERO;
        }
        let leave = self.draining.then(|| Tick(self.around.control.drain_deadline_ms()));
        let due = self
            .wheel
            .next()
            .into_iter()
            .chain(self.acceptor.paused_until)
            .chain(leave)
            .chain(self.sweep_on)
            .min();
        let ms = due.map_or(WAIT_MS_MAX, |due| due.since(self.now.tick) + 1).min(WAIT_MS_MAX);
        Duration::from_millis(ms)
    }

    /// Adds the listeners to the interest set: all of them, or none.
    fn listen(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.acceptor.polled, true) {
            return Ok(());
        }
        for (listener, at) in self.acceptor.listeners.iter().zip(LISTENERS..) {
            self.poller.add_listener(listener.as_fd(), at).inspect_err(|_| self.deafen())?;
        }
        Ok(())
    }

    /// Takes the listeners out of the interest set.
    fn deafen(&mut self) {
        if !std::mem::take(&mut self.acceptor.polled) {
            return;
        }
        for listener in self.acceptor.listeners {
            // One that was not added need not be removed.
            let _ = self.poller.remove(listener.as_fd());
        }
    }

    /// Listens, or tries again in a while.
    fn listen_or_pause(&mut self) {
        if self.listen().is_err() {
            self.pause(PAUSE_MS);
        }
    }

    /// Does not accept for so long.
    fn pause(&mut self, ms: u64) {
        self.acceptor.paused_until = Some(self.now.tick.after(ms));
        self.acceptor.briefly = ms == LEAVE_MS;
        self.deafen();
    }

    /// Takes new connections from the listener that `key` names, as many as the strategy says.
    fn accept(&mut self, key: u64, disk: &mut dyn Disk) -> Ended {
        if self.draining || self.acceptor.paused_until.is_some() {
            return Ended::Drained;
        }
        let at = usize::try_from(key - LISTENERS).expect("few listeners");
        let tally = self.around.cx.tally;
        let mut taken = 0;
        let ended = loop {
            let idle = self.idle_to_close();
            if idle.is_some() && self.acceptor.leaves() {
                break Ended::Left;
            }
            let open = self.slots.len() - usize::from(idle.is_some());
            let take = || self.acceptor.take(at, open, taken, tally);
            let accepted = match self.around.shared {
                None => take(),
                Some(shared) => shared
                    .member()
                    .acquire(|| take().inspect(|(socket, _)| shared.member().own(socket.as_fd()))),
            };
            match accepted {
                Ok((socket, peer)) => {
                    if let Some(key) = idle {
                        self.forget(key, CloseReason::Displaced);
                    }
                    self.admit(socket, peer, disk);
                }
                Err(ended) => break ended,
            }
            taken += 1;
        };
        tally.record(Histogram::AcceptsPerNotification, u64::from(taken));
        tally.max(Counter::AcceptsPerNotificationMax, u64::from(taken));
        match ended {
            // The listener is watched level-triggered: what is left in the queue is reported again.
            Ended::Drained | Ended::Limit => {}
            Ended::Full if self.acceptor.rules.when_full == WhenFull::Leave => {}
            Ended::Full if self.idle.first().is_none() => self.deafen(),
            Ended::Full | Ended::Left => self.pause(LEAVE_MS),
            Ended::Exhausted => self.pause(PAUSE_MS),
        }
        ended
    }

    /// The idle connection that is closed if there is another to accept: only where it has no room
    /// otherwise. Of those that have been idle for longest, the first that has sent nothing which
    /// has not been read, and has taken all of its last response.
    fn idle_to_close(&mut self) -> Option<u64> {
        let rules = &self.acceptor.rules;
        if rules.when_full != WhenFull::CloseIdle || self.slots.len() < rules.connections_max {
            return None;
        }
        for _ in 0..LOOKS_MAX {
            let key = self.idle.first()?;
            let fd = self.slots.get_mut(key)?.socket.as_fd();
            let bytes = [socket::unread_bytes(fd), socket::queued_bytes(fd)];
            if bytes.into_iter().all(|bytes| bytes.is_ok_and(|bytes| bytes == 0)) {
                return Some(key);
            }
            self.idle.postpone(key);
        }
        None
    }

    /// Makes a connection of an accepted socket.
    fn admit(&mut self, socket: Connection, peer: SocketAddr, disk: &mut dyn Disk) {
        let cx = &self.around.cx;
        if let Some(patience) = self.rules.patience {
            // Without it a peer that takes nothing would hold the process in `send` for ever.
            let _ = socket::set_timeouts(socket.as_fd(), None, Some(patience));
        }
        let conn = FileConn::new(Peer::from(peer), self.now, cx);
        cx.tally.add(Counter::ConnectionsOpened, 1);
        cx.tally.add(Counter::ConnectionsOpenAtAcceptSum, self.slots.len() as u64);
        cx.tally.max(Counter::ConnectionsOpenMax, self.slots.len() as u64 + 1);
        let eager = self.acceptor.rules.eager_read;
        let key = self.slots.insert(Slot::new(conn, socket, eager));
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.interest = Interest::READ;
        if self.poller.add(slot.socket.as_fd(), key, Interest::READ).is_err() {
            cx.tally.add(Counter::AcceptFaults, 1);
            self.forget(key, CloseReason::Failed);
            return;
        }
        self.turn(key, disk);
    }

    /// Notes what the poller said of a connection and gives it a turn.
    fn event(&mut self, key: u64, event: Event, disk: &mut dyn Disk) {
        self.turn_after(key, disk, |slot| {
            slot.note(&event);
            Spent::default()
        });
    }

    /// Takes what the disk has finished, and gives a turn to each connection that waited for it.
    fn hear(&mut self, disk: &mut dyn Disk) {
        while let Some(Report { key, news, spent }) = disk.news() {
            let Some(slot) = self.slots.get_mut(key) else {
                // The client has left; what was opened for it is closed here.
                self.around.cx.tally.add(Counter::DiskNewsDropped, 1);
                continue;
            };
            slot.hear(news, self.now, &self.around.cx);
            self.turn_after(key, disk, |_| spent);
        }
    }

    /// Runs one connection until it would block, and does what its turn asks for.
    fn turn(&mut self, key: u64, disk: &mut dyn Disk) {
        self.turn_after(key, disk, |_| Spent::default());
    }

    /// [`EventLoop::turn`], after `first`, which says what time has been spent for the connection
    /// already.
    #[inline]
    fn turn_after(
        &mut self,
        key: u64,
        disk: &mut dyn Disk,
        first: impl FnOnce(&mut Slot) -> Spent,
    ) {
        let Self { slots, poller, wheel, idle, around, buffer, spares, .. } = self;
        let Some(slot) = slots.get_mut(key) else { return };
        let spent = first(slot);
        if slot.queued {
            return; // One turn a round, whatever the poller says meanwhile.
        }
        // The precise clock costs more than anything else here: it is read for a sample, and by
        // whoever touches the disk.
        self.turns = self.turns.wrapping_add(1);
        let started = self.turns.is_multiple_of(TURNS_PER_SAMPLE).then(clock::nanos);
        self.sample_due |= started.is_some();
        if self.sample_due && slot.is_about_to_read() {
            self.sample_due = false;
            slot.timed_from = clock::nanos();
        }
        let buffer = &mut buffer[LANDING..];
        let bytes = share(self.round_bytes, self.rules.bytes_max);
        let mut io = Io { disk, buffer, spares, rules: &self.rules, bytes, spent };
        let turn = step(slot, key, &mut io, self.now, &around.cx);
        self.round_bytes = self.round_bytes.saturating_sub(bytes - io.bytes);
        let spent = io.spent;
        if let Some(started) = started {
            around.cx.tally.record(Histogram::TurnNs, clock::nanos() - started);
        }
        if slot.timed_from > 0 {
            time_request(slot, turn, &around.cx);
        }
        if spent.total() > 0 || turn == Turn::Again {
            self.disk_ns += spent.total();
            spent.count(around.cx.tally);
            enter(turn, &spent, around.stall_ns, around.cx.tally);
            if self.rules.patience.is_none() {
                slot.conn.held_up(spent.total() / 1_000_000);
            }
        }
        let closes_idle = self.acceptor.rules.when_full == WhenFull::CloseIdle;
        let is_idle = closes_idle && slot.conn.is_idle();
        if is_idle {
            idle.enter(key, slot.conn.requests());
        } else if closes_idle {
            idle.remove(key);
        }
        let closed = match turn {
            Turn::Wait(wanted) => settle(slot, key, wanted, poller, wheel),
            Turn::Parked => settle(slot, key, Interest::NONE, poller, wheel),
            Turn::Again => {
                slot.queued = true;
                self.again.push_back(key);
                false
            }
            Turn::Closed(reason) => {
                if reason == CloseReason::SendDeadline {
                    // What the peer did not take would stay in the kernel for minutes.
                    let _ = socket::reset_on_close(slot.socket.as_fd());
                }
                true
            }
        };
        if closed {
            // Of a socket that cannot be watched; any other has said why it ends.
            slot.conn.cut(CloseReason::Failed, self.now, &around.cx);
            self.close_at(key, disk);
            self.closed(disk);
        } else if is_idle {
            self.listen_again();
        }
    }

    /// Forgets a connection that may have asked the disk for something.
    fn close_at(&mut self, key: u64, disk: &mut dyn Disk) {
        if self.slots.get_mut(key).is_some_and(|slot| slot.asked) {
            disk.forget(key);
        }
        self.close(key);
    }

    /// Forgets a connection and closes its socket.
    fn close(&mut self, key: u64) {
        if let Some(slot) = self.slots.remove(key) {
            self.wheel.remove(key);
            self.idle.remove(key);
            self.around.cx.tally.add(Counter::ConnectionsClosed, 1);
            // Closing the socket removes it from an epoll set in any case.
            let _ = self.poller.remove(slot.socket.as_fd());
            let socket = slot.socket.as_fd();
            let closing = self.around.shared.map(|shared| shared.member().closing(socket));
            drop(slot);
            drop(closing);
        }
    }

    /// Closes a connection that had no chance to say why.
    fn forget(&mut self, key: u64, reason: CloseReason) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.conn.cut(reason, self.now, &self.around.cx);
        }
        self.close(key);
    }

    /// There may be room for another connection: listens, if it does not.
    fn listen_again(&mut self) {
        if !self.acceptor.polled && !self.draining && self.acceptor.paused_until.is_none() {
            self.listen_or_pause();
        }
    }

    /// There is room for another connection: accept on close, or listen again.
    fn closed(&mut self, disk: &mut dyn Disk) {
        if std::mem::take(&mut self.acceptor.briefly) {
            self.acceptor.paused_until = None;
        }
        self.listen_again();
        if self.draining || self.acceptor.paused_until.is_some() {
            return;
        }
        if self.acceptor.rules.on_close {
            self.owed += 1;
            if self.accepting {
                return;
            }
            self.accepting = true;
            while self.owed > 0 {
                self.owed -= 1;
                self.around.cx.tally.add(Counter::AcceptOnClose, 1);
                for at in 0..self.acceptor.listeners.len() {
                    self.accept(LISTENERS + at as u64, disk);
                }
            }
            self.accepting = false;
        }
    }

    /// Asks connections whose timers have fired what their deadline is now: of many, the first few.
    fn expire(&mut self, disk: &mut dyn Disk) {
        if self.acceptor.paused_until.is_some_and(|until| until <= self.now.tick) {
            self.acceptor.paused_until = None;
            // Who has room elsewhere is woken only where this loop does not ask.
            if self.acceptor.exclusive && self.idle_to_close().is_some() && self.acceptor.leaves() {
                self.pause(LEAVE_MS);
            } else {
                self.listen_or_pause();
            }
        }
        self.wheel.turn(self.now.tick, &mut self.fired);
        let mut left = EXPIRIES_MAX;
        while left > 0
            && let Some(key) = self.fired.pop_front()
        {
            let Some(slot) = self.slots.get_mut(key) else { continue };
            slot.timer_at = Tick::NEVER;
            if slot.conn.deadline() <= self.now.tick {
                left -= 1;
                // What the kernel holds has not reached the peer: progress is measured there.
                let queued = socket::queued_bytes(slot.socket.as_fd()).unwrap_or(0);
                slot.conn.expire(queued, self.now, &self.around.cx);
                if slot.conn.abandoned() {
                    Self::abandon(slot, key, disk);
                    self.turn(key, disk);
                    continue;
                }
            }
            // It goes on with what it was doing: nothing is sent because a timer has fired.
            let interest = slot.interest;
            if settle(slot, key, interest, &mut self.poller, &mut self.wheel) {
                Self::abandon(slot, key, disk);
                self.forget(key, CloseReason::Failed);
            }
        }
    }

    /// The connection has given up what it had asked for.
    fn abandon(slot: &mut Slot, key: u64, disk: &mut dyn Disk) {
        slot.forget();
        if std::mem::take(&mut slot.asked) {
            disk.forget(key);
        }
    }

    /// Does what the master wants; true if that is to leave.
    fn heed(&mut self, disk: &mut dyn Disk) -> io::Result<bool> {
        match self.around.control.phase() {
            Phase::Run => Ok(false),
            Phase::Stop => Ok(true),
            Phase::Drain => {
                if !self.draining {
                    self.drain(disk)?;
                }
                let over = self.around.control.drain_deadline_ms() <= self.now.tick.0;
                Ok(over || self.slots.is_empty())
            }
        }
    }

    /// Takes the last connections from the queue, stops listening, and tells every connection to
    /// finish what it is doing.
    fn drain(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        self.acceptor.others.clear();
        for at in 0..self.acceptor.listeners.len() {
            while self.accept(LISTENERS + at as u64, disk) == Ended::Limit {}
        }
        self.draining = true;
        self.acceptor.paused_until = None;
        self.deafen();
        for listener in self.acceptor.listeners {
            // Another worker may have been first.
            let _ = socket::stop_listening(listener.as_fd());
        }
        for key in self.slots.keys() {
            if let Some(slot) = self.slots.get_mut(key) {
                slot.conn.drain(self.now, &self.around.cx);
                self.turn(key, disk);
            }
        }
        Ok(())
    }
}

/// What the next turn may send of what is left to its round. Where many connections are ready each
/// sends less, so that nobody waits until hundreds have had megabytes.
const fn share(round_bytes: u64, turn_bytes_max: u64) -> u64 {
    let least = if turn_bytes_max < TURN_BYTES { turn_bytes_max } else { TURN_BYTES };
    let share = round_bytes / ROUND_TURNS;
    if share < least { least } else { share }
}

/// Records how long the request took that is being timed, if it has been answered.
#[cold]
fn time_request(slot: &mut Slot, turn: Turn, cx: &FileCx<'_>) {
    let answered = match turn {
        Turn::Closed(reason) => matches!(reason, CloseReason::Finished | CloseReason::Drained),
        _ => slot.conn.is_idle(),
    };
    if answered {
        cx.tally.record(Histogram::RequestNs, clock::nanos() - slot.timed_from);
    }
    if answered || matches!(turn, Turn::Closed(_)) {
        slot.timed_from = 0;
    }
}

/// Brings interest and timer up to date after a turn; true if the connection must be closed.
#[inline]
fn settle<P: Poller>(
    slot: &mut Slot,
    key: u64,
    wanted: Interest,
    poller: &mut P,
    wheel: &mut Wheel,
) -> bool {
    let deadline = slot.conn.deadline();
    if deadline < slot.timer_at {
        slot.timer_at = deadline;
        wheel.insert(key, deadline);
    }
    slot.interest != wanted && !ask(slot, key, wanted, poller)
}

/// Tells the poller what a connection waits for now; false if that cannot be watched.
#[cold]
fn ask<P: Poller>(slot: &mut Slot, key: u64, wanted: Interest, poller: &mut P) -> bool {
    // Who is told of a change once can leave asked for what it has asked for.
    let wanted = if poller.edge() { slot.interest.and(wanted) } else { wanted };
    if slot.interest == wanted {
        return true;
    }
    slot.interest = wanted;
    poller.set(slot.socket.as_fd(), key, wanted).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many connections are ready, a round sends hardly more than its share.
    #[test]
    fn a_round_shares_out_what_it_may_send() {
        const MOST: u64 = 2 << 20;
        let mut left = MOST * ROUND_TURNS;
        assert_eq!(share(left, MOST), MOST, "a turn alone has all of its own");
        let mut sent = 0;
        for _ in 0..1000 {
            let bytes = share(left, MOST);
            assert!((TURN_BYTES..=MOST).contains(&bytes), "{bytes}");
            left = left.saturating_sub(bytes);
            sent += bytes;
        }
        assert!(sent <= MOST * ROUND_TURNS + 1000 * TURN_BYTES, "{sent}");
        assert_eq!(share(0, 4096), 4096, "what is asked for is never exceeded");
    }
}
