//! Surroundings of the loops of a schedule: peers, time, master; and what must hold at each wait.
use super::{
    Case, SEALED,
    folder::{BEGIN_NS, Folder, UNIX},
    peer::{Behaviour, Peer},
};
use crate::{
    conn::accept::{AcceptRules, PAUSE_MS, WhenFull},
    testing::dice::Dice,
};
use regatta_metrics::{Arena, Counter, Gauge, Phase};
use regatta_op::CloseReason;
use regatta_origin::ListenerClass;
use regatta_sys::{Bell, hook};
use rustix::io::Errno;
use std::{
    collections::VecDeque,
    ops::Range,
    os::unix::net::SocketAddr,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// Moves without a change after which time passes in larger steps: enough that every peer has had
/// its turn and every late event has been reported.
const STILL_MOVES: u64 = 80;
/// The most moves of a schedule.
const MOVES_MAX: u64 = 30_000;
/// The longest time without a change while a peer is connected, nanoseconds: more than twice any
/// deadline of [`super::site`].
const STILL_NS_MAX: u64 = 30_000_000_000;
/// Waits in a row that true events may end without any change. A connection may have the facts of
/// some thirty open files checked one after another, which changes nothing that is counted.
const SAME_MAX: u32 = 30;
/// Lines that a failure shows.
const TAIL: usize = 80;
const MS: u64 = 1_000_000;

/// The counters that count as progress.
const MARKS: [Counter; 26] = [
    Counter::AcceptOk,
    Counter::AcceptFaults,
    Counter::AcceptEmfilePauses,
    Counter::ConnectionsClosed,
    Counter::RecvBytes,
    Counter::RecvFaults,
    Counter::SendBytes,
    Counter::SendfileBytes,
    Counter::SendFaults,
    Counter::Requests,
    Counter::Replies,
    Counter::RepliesCut,
    Counter::Opens,
    Counter::Reads,
    Counter::CacheFills,
    Counter::HelperTasksOpen,
    Counter::HelperTasksRead,
    Counter::HelperTasksPrefetch,
    Counter::HelperTasksSelf,
    Counter::HelperCompletions,
    Counter::HelpersLost,
    Counter::LaioInline,
    Counter::LaioDeferred,
    Counter::DiskCompletionsDropped,
    Counter::ClosedDisplaced,
    Counter::FlashCoalesced,
];

/// End of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shutdown {
    /// Once all peers have their answers, and the last connection has been closed.
    Quiet,
    /// At that move the server begins to drain, for `ms` milliseconds.
    Drain { at: u64, ms: u64 },
    /// At that move it stops.
    Stop { at: u64 },
}

impl Shutdown {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        let at = 20 + dice.below(200) as u64;
        match dice.below(8) {
            0 => Self::Stop { at },
            1 => Self::Drain { at, ms: dice.below(50) as u64 },
            2 | 3 => Self::Drain { at, ms: 60_000 },
            _ => Self::Quiet,
        }
    }

    /// Answers may be cut short.
    const fn cuts(self) -> bool {
        matches!(self, Self::Stop { .. } | Self::Drain { ms: 0..1_000, .. })
    }
}

/// A loop, and what was counted when it last waited.
#[derive(Default)]
struct LoopState {
    /// The loop has not returned.
    there: bool,
    /// Events of listeners that were reported when its wait ended.
    notified: u64,
    /// Events of any kind.
    events: u64,
    /// The wait ended because of a true event, or because the loop asked for none.
    pushed: bool,
    /// Changes by then.
    changes: u64,
    /// Such waits in a row without a change.
    same: u32,
    marks: [u64; MARKS.len()],
    accepts_on_close: u64,
    calls: u64,
    /// Connections that were open.
    open: u64,
    /// Turns that had ended because their budget was spent.
    budgets: u64,
    /// Operations that helpers have done.
    helped: u64,
    /// The poller has refused to watch a listener since.
    accept_paused: bool,
    /// Begin of its round, nanoseconds: before now if the disk has held it up.
    began: u64,
    /// End of its pause in accepting, milliseconds.
    paused_until: u64,
    /// The phase was `Run` when its wait ended.
    ran: bool,
    /// Waits that ended because their time was up.
    timed_out: u64,
}

/// Counts of what happened in schedules, by which a test checks that they covered what they should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) schedules: u64,
    pub(crate) connections: u64,
    pub(crate) answers: u64,
    /// Answers over sealed connections.
    pub(crate) sealed_answers: u64,
    pub(crate) waits: u64,
    /// Events that were reported late, and false ones.
    pub(crate) late: u64,
    pub(crate) spurious: u64,
    /// Sends that found a full socket.
    pub(crate) full_sockets: u64,
    pub(crate) pauses: u64,
    pub(crate) refused: u64,
    /// Listeners that the poller would not watch.
    pub(crate) accept_paused: u64,
    /// Idle connections that were closed for others.
    pub(crate) displaced: u64,
    pub(crate) expired: u64,
    pub(crate) drained: u64,
    /// Connections that were closed because a record did not open, or the handshake was too slow.
    pub(crate) unopened: u64,
    pub(crate) unshaken: u64,
    /// Connections that were closed because the disk did not answer.
    pub(crate) given_up: u64,
    /// Operations that held a loop up.
    pub(crate) held_up: u64,
    /// Completions of the disk, and those that were dropped.
    pub(crate) later: u64,
    pub(crate) dropped: u64,
    /// Connections that went from one loop to another.
    pub(crate) stolen: u64,
    /// Files that were closed while their streams waited.
    pub(crate) files_closed: u64,
}

pub(super) struct World<'a> {
    pub(super) dice: Dice,
    /// The command that replays this schedule.
    replay: String,
    parts: WorldParts<'a>,
    peers: Vec<Peer>,
    rules: AcceptRules,
    loops: Vec<LoopState>,
    shutdown: Shutdown,
    /// Move at which a file is replaced.
    replaces_at: Option<u64>,
    /// No false events are reported: an edge that was reported once is not reported again.
    pub(super) honest: bool,
    /// Nanoseconds.
    pub(super) now: u64,
    moves: u64,
    /// Changes that peers and loops have made, and the move and the time of the last.
    changes: u64,
    changed: (u64, u64),
    /// Loop whose turn it is.
    turn: usize,
    /// A loop has panicked: the others no longer wait for their turns.
    failed: bool,
    tail: VecDeque<(u64, u64, &'static str, [u64; 4])>,
    /// Sum over this schedule and earlier ones.
    pub(super) sums: Sums,
}

/// Parts that a world is made of.
pub(super) struct WorldParts<'a> {
    pub(super) folder: &'a Folder,
    pub(super) addresses: &'a [SocketAddr],
    pub(super) arena: Arena<'a>,
    /// A bell of each loop.
    pub(super) bells: &'a [Bell],
    /// Number of listeners of each loop.
    pub(super) listeners: usize,
    pub(super) case: Case,
}

impl<'a> World<'a> {
    pub(super) fn new(
        mut dice: Dice,
        replay: String,
        rules: AcceptRules,
        sums: Sums,
        parts: WorldParts<'a>,
    ) -> Self {
        let WorldParts { folder, addresses, bells, case, .. } = parts;
        let peers = 2 + dice.below(5);
        let peers =
            (0..peers).map(|_| Peer::new(&mut dice, folder, addresses.len(), case.speech()));
        let peers = peers.collect();
        let begin = |_| LoopState { there: true, began: BEGIN_NS, ..LoopState::default() };
        Self {
            shutdown: Shutdown::draw(&mut dice),
            replaces_at: None,
            honest: dice.once_in(2),
            dice,
            replay,
            parts,
            peers,
            rules,
            loops: bells.iter().map(begin).collect(),
            now: BEGIN_NS,
            moves: 0,
            changes: 0,
            changed: (0, BEGIN_NS),
            turn: 0,
            failed: false,
            tail: VecDeque::new(),
            sums,
        }
    }

    /// Whether the loop is a pipeline: its stages have rounds and time-outs of their own.
    const fn has_stages(&self) -> bool {
        self.parts.case.line.is_some()
    }

    /// Seals the connections to listeners of the class that is sealed, with dice of their own.
    /// `classes`: that of each address.
    pub(super) fn seal(&mut self, seed: u64, classes: &[ListenerClass]) {
        for (at, peer) in (0..).zip(&mut self.peers) {
            if classes[peer.to] == SEALED {
                peer.seal(!seed << 8 | at);
            }
        }
    }

    /// The disk may fail if it hangs. At this move, a file is replaced.
    pub(super) fn allow_faults(&mut self, replaces_at: Option<u64>) {
        self.replaces_at = replaces_at;
        for peer in &mut self.peers {
            (peer.may_fail, peer.may_change) = (self.parts.case.hangs, replaces_at.is_some());
        }
    }

    /// Keeps a line for the report of a failure.
    pub(super) fn note(&mut self, what: &'static str, numbers: [u64; 4]) {
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back((self.moves, self.now / MS, what, numbers));
    }

    /// Reports what is wrong, what came before, and how to replay it.
    fn fail(&self, what: &str) -> ! {
        for (at, ms, what, numbers) in &self.tail {
            eprintln!("move {at}, {ms} ms: {what} {numbers:?}");
        }
        for (number, peer) in self.peers.iter().enumerate() {
            eprintln!("peer {number}: {}", peer.state());
        }
        for number in 0..self.loops.len() {
            eprintln!("loop {number}: {} open, {:?}", self.open(number), self.rules);
            let ends = CloseReason::ALL.map(|it| (it, Counter::closed(it as usize)));
            let ends = ends.map(|(it, counter)| (it, self.parts.arena.slot(number).get(counter)));
            eprintln!("closed: {:?}", ends.into_iter().filter(|it| it.1 > 0).collect::<Vec<_>>());
        }
        panic!("{what}\n{:?}, move {}\nreplay: {}", self.shutdown, self.moves, self.replay)
    }

    fn must(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(&what());
        }
    }

    const fn change(&mut self) {
        self.changes += 1;
        self.changed = (self.moves, self.now);
    }

    fn phase(&self) -> Phase {
        self.parts.arena.control().phase()
    }

    /// Connections that this loop has open.
    fn open(&self, me: usize) -> u64 {
        self.parts.arena.slot(me).gauge(Gauge::ConnectionsOpen)
    }

    /// True if the loop is full and polls its listeners all the same.
    pub(super) fn leaves_listeners(&self, me: usize) -> bool {
        let AcceptRules { when_full, connections_max, .. } = self.rules;
        when_full == WhenFull::KeepPolling && self.open(me) >= connections_max as u64
    }

    /// True if the poller refuses to watch a listener of the loop again, which may happen whenever
    /// the kernel has no memory.
    pub(super) fn refuses_listener(&mut self, me: usize) -> bool {
        let refuses = self.loops[me].ran && self.phase() == Phase::Run && self.dice.once_in(4);
        self.loops[me].accept_paused |= refuses;
        self.sums.accept_paused += u64::from(refuses);
        refuses
    }

    /// True if the loop gets nowhere: nothing else may proceed until that is settled.
    pub(super) fn is_watched(&self, me: usize) -> bool {
        self.loops[me].same > 0
    }

    /// Watches the loop no longer: it got no event this time, so it makes no idle rounds.
    pub(super) fn watch_no_longer(&mut self, me: usize) {
        self.loops[me].same = 0;
    }

    /// Peers act and time passes, but not beyond `until`.
    pub(super) fn go_on(&mut self, until: u64) {
        self.moves += 1;
        if self.replaces_at.take_if(|at| *at <= self.moves).is_some() {
            self.parts.folder.replace();
            self.note("a file has been replaced", [0; 4]);
        }
        for _ in 0..self.dice.below(3) {
            self.look_at_a_peer();
        }
        let still = self.moves - self.changed.0 > STILL_MOVES;
        let most = MS * if still { 400 } else { 4 };
        let passes = self.dice.below(usize::try_from(most).expect("64 bits")) as u64;
        self.now = (self.now + passes).min(until.max(self.now));
        self.must(self.moves < MOVES_MAX, || "it does not end".to_owned());
        let still_ns = self.now - self.changed.1;
        self.must(still_ns < STILL_NS_MAX, || "a connection has been forgotten".to_owned());
        self.end_if_due();
    }

    /// The loop whose turn it is waits for the disk; the peers do all that they can meanwhile.
    pub(super) fn hold_up(&mut self, ms: u64, dice: &mut Dice) {
        self.now += ms * MS;
        hook::set_time(self.now, UNIX);
        self.sums.held_up += 1;
        self.note("the disk holds the loop up, ms:", [ms, 0, 0, 0]);
        let draining = self.phase() != Phase::Run;
        while (0..self.peers.len()).fold(false, |acts, at| {
            let peer = &mut self.peers[at];
            if peer.comes_at > self.moves {
                return acts;
            }
            match peer.act(dice, self.parts.folder, self.parts.addresses, [draining, true]) {
                Ok(act) => acts || act,
                Err(what) => self.fail(&format!("peer {at}: {what}")),
            }
        }) {
            self.change();
        }
    }

    fn look_at_a_peer(&mut self) {
        self.moves += 1;
        let here = self.peers.iter().filter(|peer| peer.comes_at <= self.moves);
        let Some(longest) = here.map(|peer| peer.looked).min() else { return };
        let mut at = self.dice.below(self.peers.len());
        if self.moves - longest > 3 * self.peers.len() as u64 {
            let due = |peer: &Peer| peer.comes_at <= self.moves && peer.looked == longest;
            at = self.peers.iter().position(due).expect("a peer was found just now");
        }
        let draining = self.phase() != Phase::Run;
        // Before time passes in larger steps every peer does all that it can.
        let surely = self.moves - self.changed.0 > STILL_MOVES / 2;
        let peer = &mut self.peers[at];
        if peer.comes_at > self.moves {
            return;
        }
        peer.looked = self.moves;
        match peer.act(&mut self.dice, self.parts.folder, self.parts.addresses, [draining, surely])
        {
            Ok(false) => {}
            Ok(true) => {
                let (taken, answers) = (peer.taken, peer.answers());
                let numbers = [at as u64, taken, answers, u64::from(peer.over)];
                self.note("peer: number, bytes taken, answers, over:", numbers);
                self.change();
            }
            Err(what) => self.fail(&format!("peer {at}: {what}")),
        }
    }

    fn end_if_due(&mut self) {
        if self.phase() != Phase::Run {
            return;
        }
        match self.shutdown {
            Shutdown::Quiet if self.is_quiet() => self.parts.arena.control().stop(),
            Shutdown::Stop { at } if at <= self.moves => self.parts.arena.control().stop(),
            Shutdown::Drain { at, ms } if at <= self.moves => {
                self.parts.arena.control().drain(self.now / MS + ms);
                self.sums.drained += 1;
            }
            _ => return,
        }
        self.note("the master has spoken", [0; 4]);
        self.change();
        self.parts.bells.iter().for_each(Bell::ring);
    }

    /// True if all peers are done and all connections closed.
    fn is_quiet(&self) -> bool {
        let all = |counter| self.sum(0..self.loops.len(), counter);
        let connected = self.peers.iter().filter(|peer| peer.connected).count() as u64;
        self.peers.iter().all(|peer| peer.is_done() && peer.connected)
            && all(Counter::AcceptOk) == connected
            && all(Counter::ConnectionsOpened) == all(Counter::ConnectionsClosed)
    }

    /// A counter of several loops.
    fn sum(&self, loops: Range<usize>, counter: Counter) -> u64 {
        loops.map(|me| self.parts.arena.slot(me).get(counter)).sum()
    }

    /// Checks what must hold after a round of loop `me`.
    pub(super) fn look_back(&mut self, me: usize) {
        self.sums.waits += 1;
        let slot = self.parts.arena.slot(me);
        let side = &self.loops[me];
        let AcceptRules { count, events_per_accept, connections_max, .. } = self.rules;
        let most = connections_max as u64;
        let open = self.open(me).max(slot.get(Counter::ConnectionsOpenMax));
        // What one loop opens another may close.
        self.must(self.parts.case.steals || open <= most, || {
            format!("{open} connections, and {most} may be open")
        });
        let marks = MARKS.map(|counter| slot.get(counter));
        let accepted = marks[0] - side.marks[0];
        let on_close = slot.get(Counter::AcceptOnClose);
        let runs = side.notified + (on_close - side.accepts_on_close) * self.parts.listeners as u64;
        let share =
            side.events.checked_div(events_per_accept.into()).map_or(u64::MAX, |more| more + 1);
        let each = if count == 0 { share } else { share.min(count.into()) };
        let may = runs.saturating_mul(each);
        let runs_free = side.ran && self.phase() == Phase::Run;
        // User threads accept without a notification.
        let anytime = self.parts.case.fibers || self.phase() == Phase::Drain;
        self.must(anytime || accepted <= may && (runs > 0 || accepted == 0), || {
            format!("{accepted} accepted after {runs} notifications of {each} each")
        });
        let calls = slot.get(Counter::AcceptCalls);
        let paused = side.paused_until > self.now / MS && runs_free;
        self.must(!paused || calls == side.calls, || "it accepted in a pause".to_owned());
        let budgets = slot.get(Counter::StallBudget);
        // After a hold-up each connection has one more turn before it expires.
        let turns = 1 + u64::from(side.began < self.now);
        // What a helper has done gives its connection a turn besides.
        let helped = slot.get(Counter::HelperCompletions);
        let of = turns * (side.open + accepted) + (helped - side.helped);
        let spent = budgets - side.budgets;
        self.must(self.parts.case.steals || self.has_stages() || spent <= of, || {
            format!("{spent} budgets spent in a round with {of} turns")
        });
        let (changed, changes) = (marks != side.marks, self.changes);
        let pauses = marks[2] > side.marks[2] || side.accept_paused;
        // Accept-on-close does not accept for a connection that was displaced.
        let closed = marks[3] - side.marks[3] - (marks[24] - side.marks[24]);
        let owes = self.rules.on_close && runs_free && !pauses && side.paused_until == 0;
        self.must(!owes || on_close - side.accepts_on_close == closed, || {
            format!("{closed} closed, and no accept for each")
        });
        let same =
            if side.pushed && !changed && changes == side.changes { side.same + 1 } else { 0 };
        let most = if self.has_stages() { 2 * SAME_MAX } else { SAME_MAX };
        self.must(same <= most, || format!("{same} rounds for nothing"));
        let until = if pauses { side.began / MS + PAUSE_MS } else { side.paused_until };
        let open = self.open(me);
        let side = &mut self.loops[me];
        (side.open, side.budgets, side.accept_paused) = (open, budgets, false);
        side.helped = helped;
        (side.marks, side.same, side.calls) = (marks, same, calls);
        (side.accepts_on_close, side.paused_until) = (on_close, until);
        if changed {
            self.change();
        }
    }

    /// Ends the wait of loop `me`, with `events` events; `notified` of them are of its listeners.
    pub(super) fn enter_round(
        &mut self,
        me: usize,
        notified: u64,
        events: u64,
        pushed: bool,
        timed_out: bool,
    ) {
        if self.phase() == Phase::Run && self.dice.once_in(40) {
            let accidents = [Errno::MFILE, Errno::NFILE, Errno::CONNABORTED, Errno::NOBUFS];
            hook::fail_next_accept(accidents[self.dice.below(4)].raw_os_error());
        }
        let (changes, ran) = (self.changes, self.phase() == Phase::Run);
        let side = &mut self.loops[me];
        side.began = self.now;
        (side.notified, side.events) = (notified, events);
        (side.pushed, side.changes, side.ran) = (pushed, changes, ran);
        side.timed_out += u64::from(timed_out);
    }

    /// All loops have returned: checks that the counters balance and every peer got what it should.
    pub(super) fn close(mut self) -> Sums {
        let (mut sent, mut faultless, before) = (0, true, self.sums);
        // One loop may close what another opens: then all balance together.
        let beside = if self.parts.case.steals { self.loops.len() } else { 1 };
        for me in (0..self.loops.len()).step_by(beside) {
            let loops = me..me + beside;
            let get = |counter| self.sum(loops.clone(), counter);
            let opened = get(Counter::ConnectionsOpened);
            let closed: u64 =
                (0..CloseReason::ALL.len()).map(|reason| get(Counter::closed(reason))).sum();
            let all = [get(Counter::AcceptOk), get(Counter::ConnectionsClosed), closed];
            self.must(all == [opened; 3], || {
                format!("loop {me}: {opened} opened; accepted, closed, for a reason: {all:?}")
            });
            let ended = get(Counter::Replies) + get(Counter::RepliesCut);
            self.must(get(Counter::Requests) == ended, || format!("loop {me}: requests are open"));
            let outcomes = get(Counter::AcceptOk)
                + get(Counter::AcceptWouldBlock)
                + get(Counter::AcceptFaults)
                + get(Counter::AcceptEmfilePauses);
            self.must(get(Counter::AcceptCalls) == outcomes, || "accepts without outcome".into());
            let timed_out = self.loops[loops.clone()].iter().map(|side| side.timed_out);
            let waits = [get(Counter::WaitTimedOut), timed_out.sum::<u64>()];
            self.must(self.has_stages() || waits[0] == waits[1], || {
                format!("waits that timed out: {waits:?}")
            });
            let bytes = get(Counter::SendBytes) + get(Counter::SendfileBytes);
            self.must(self.parts.case.sealed || get(Counter::BytesSent) == bytes, || {
                "bytes sent that were not".into()
            });
            sent += bytes;
            loops.for_each(|me| self.sum_up(me));
        }
        let (cut, left) = (self.shutdown.cuts(), self.shutdown != Shutdown::Quiet);
        for at in 0..self.peers.len() {
            if let Err(what) = self.peers[at].close(self.parts.folder, cut, left) {
                self.fail(&format!("peer {at}: {what}"));
            }
            let leaves = matches!(self.peers[at].behaviour, Behaviour::Leaves(_));
            faultless &= !leaves && !self.peers[at].may_fail;
            self.sums.answers += self.peers[at].answers();
            if self.peers[at].is_sealed() {
                self.sums.sealed_answers += self.peers[at].answers();
            }
        }
        let (displaced, closed) = (
            self.peers.iter().filter(|peer| !left && peer.was_displaced()).count() as u64,
            self.sums.displaced - before.displaced,
        );
        self.must(displaced <= closed, || {
            format!("{displaced} were closed, and {closed} for others")
        });
        let silent = self.peers.iter().filter(|peer| peer.may_have_been_waited_for()).count();
        let expired = self.sums.expired - before.expired;
        self.must(expired <= silent as u64, || {
            format!("{expired} connections expired, and only {silent} may have been silent")
        });
        let taken: u64 = self.peers.iter().map(Peer::brought).sum();
        // A peer that has all its answers does not wait for a closing alert or GOAWAY.
        let whole = faultless && !self.parts.case.sealed && !self.parts.case.http2;
        self.must(taken == sent || !whole && taken < sent, || {
            format!("{sent} bytes sent, and {taken} taken")
        });
        self.sums.schedules += 1;
        self.sums
    }

    /// Adds the counters of one loop.
    fn sum_up(&mut self, me: usize) {
        let slot = self.parts.arena.slot(me);
        let get = |counter| slot.get(counter);
        let sums = &mut self.sums;
        sums.connections += get(Counter::ConnectionsOpened);
        sums.full_sockets += get(Counter::SendWouldBlock) + get(Counter::SendfileWouldBlock);
        sums.pauses += get(Counter::AcceptEmfilePauses);
        sums.refused += get(Counter::AcceptSkippedFull);
        sums.displaced += get(Counter::ClosedDisplaced);
        sums.expired += get(Counter::ClosedIdleDeadline)
            + get(Counter::ClosedHeadDeadline)
            + get(Counter::ClosedSendDeadline)
            + get(Counter::ClosedHandshakeDeadline);
        sums.unopened += get(Counter::ClosedBadRecord);
        sums.unshaken += get(Counter::ClosedHandshakeDeadline);
        sums.given_up += get(Counter::ClosedDiskDeadline);
        sums.later += get(Counter::HelperCompletions)
            + get(Counter::LaioDeferred)
            + get(Counter::ReadaheadWaits);
        sums.dropped += get(Counter::DiskCompletionsDropped);
        sums.stolen += get(Counter::FiberSteals) + get(Counter::ColourSteals);
        sums.files_closed += get(Counter::Http2FilesClosed);
    }
}

/// The loops of a schedule take turns: one runs at a time, from one wait to the next, and the dice
/// choose the next one.
pub(super) struct Stage<'a> {
    world: Mutex<World<'a>>,
    turned: Condvar,
}

impl<'a> Stage<'a> {
    pub(super) fn new(world: World<'a>) -> Self {
        Self { world: Mutex::new(world), turned: Condvar::new() }
    }

    /// The world, for the loop whose turn it is.
    pub(super) fn world(&self) -> MutexGuard<'_, World<'a>> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of loop `me`.
    pub(super) fn enter(&self, me: usize) -> MutexGuard<'_, World<'a>> {
        self.wait(self.world(), me)
    }

    fn wait<'s>(
        &'s self,
        world: MutexGuard<'s, World<'a>>,
        me: usize,
    ) -> MutexGuard<'s, World<'a>> {
        let world = self.turned.wait_while(world, |world| world.turn != me && !world.failed);
        let world = world.unwrap_or_else(PoisonError::into_inner);
        assert!(!world.failed, "another loop has failed");
        world
    }

    /// Gives the turn to any loop, perhaps to itself again, and waits for it.
    pub(super) fn pass<'s>(
        &'s self,
        mut world: MutexGuard<'s, World<'a>>,
        me: usize,
    ) -> MutexGuard<'s, World<'a>> {
        turn_to_any(&mut world);
        if world.turn == me {
            return world;
        }
        self.turned.notify_all();
        self.wait(world, me)
    }

    /// The loop has returned, and waits no more.
    fn leave(&self, me: usize) {
        let mut world = self.enter(me);
        world.loops[me].there = false;
        turn_to_any(&mut world);
        self.turned.notify_all();
    }

    /// The world, when all loops have returned.
    pub(super) fn into_world(self) -> World<'a> {
        self.world.into_inner().expect("no loop has panicked")
    }
}

fn turn_to_any(world: &mut World<'_>) {
    let there: Vec<usize> = (0..world.loops.len()).filter(|at| world.loops[*at].there).collect();
    if !there.is_empty() {
        world.turn = there[world.dice.below(there.len())];
    }
}

/// A running loop, until it returns or panics.
pub(super) struct Seat<'s, 'a>(pub(super) &'s Stage<'a>, pub(super) usize);

impl Drop for Seat<'_, '_> {
    fn drop(&mut self) {
        hook::clear();
        let Self(stage, me) = self;
        if std::thread::panicking() {
            stage.world.lock().unwrap_or_else(PoisonError::into_inner).failed = true;
            stage.turned.notify_all();
        } else {
            stage.leave(*me);
        }
    }
}
