//! Schedules of protocols with several exchanges of a connection at once. A driver has several
//! operations out, or one at a time. A disk is slow, out of order, and hangs. Peers arrive, read
//! and leave as they like. What they send and expect is their protocol's: see [`Talk`].
use crate::{
    BrokenCheck,
    closing::DISK_MS_MAX,
    dice::{Dice, index},
    disk::{self, Disk, SimFile},
    end::{End, is_slow},
    ledger::SEALED_BYTES_MAX,
    peer::{NEVER, Peer, Pipe},
    plant::Plant,
    sealing::{ClientSeal, WIRE},
    talk::{Arrival, DuplexReport, LineEnd, Talk, Trouble, is_whole},
    trace::Stamp,
    world::{check_open, gather},
};
use regatta_metrics::{Counter, Gauge};
use regatta_op::{
    Abandoned, CloseReason, DISK_OPS_MAX, Done, Fault, Now, Op, OpKind, Outbox, Segment, Tick,
    Ticket,
};
use regatta_origin::{Cx, Link, Protocol as _};
use std::net::SocketAddr;

/// The most steps of a schedule.
const STEPS_MAX: u64 = 200_000;

struct Sending {
    outbox: Outbox<SimFile>,
    ready: u64,
    /// Time of the disk's answer, if it is asked first.
    disk: Option<u64>,
}

/// A connection, and its operations at the driver.
struct Line<C> {
    link: Option<Link<SimFile>>,
    pipe: Pipe,
    peer: Peer,
    client: C,
    seal: Option<ClientSeal>,
    /// Bytes of the wire that the core has received.
    received: u64,
    lateness: u64,
    recv: bool,
    send: Option<Sending>,
    /// First offer of the bytes that are being sent.
    offered: Option<Stamp>,
    /// Earliest time at which those bytes may have been composed.
    composed: Stamp,
    /// First offer of the last bytes that the kernel took as a whole, and the time of that.
    taken: Option<(Stamp, Stamp)>,
    shut: bool,
    disk: Vec<(Ticket, Op<SimFile>, u64)>,
    /// Time since which an operation other than `Recv` has been out without a pause.
    busy_since: Option<Stamp>,
    requests: u32,
    /// Whether the core has given up a `Send`.
    is_cut: bool,
    faulted: bool,
    closed: Option<CloseReason>,
}

impl<C> Line<C> {
    /// The peer's end.
    const fn end(&mut self) -> End<'_> {
        End(&mut self.peer, &mut self.pipe, &mut self.seal)
    }

    /// Whether an operation other than `Recv` is out.
    fn is_busy(&self) -> bool {
        self.send.is_some() || self.shut || !self.disk.is_empty()
    }

    /// Notes that bytes are offered. Behind a seal they may have waited for those before, but not
    /// since before these were offered. A driver of single operations may have let them wait for as
    /// long as it was busy.
    fn note_offer(&mut self, now: Stamp, single: bool) {
        if self.offered.is_none() {
            let before = self.taken.filter(|(_, end)| self.seal.is_some() && *end == now);
            let waited = if single { self.busy_since } else { before.map(|(offered, _)| offered) };
            (self.offered, self.composed) = (Some(now), waited.unwrap_or(now));
        }
    }

    /// Forgets an operation of the disk that was given up.
    fn forget(&mut self, ticket: Ticket) -> Result<(), BrokenCheck> {
        let place = self.disk.iter().position(|(of, ..)| *of == ticket);
        self.disk.swap_remove(place.ok_or("what is given up was not out")?);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Receive(usize),
    Send(usize),
    Warm(usize),
    Shut(usize),
    Disk(usize, Ticket),
    Expire(usize),
    Act(usize),
    Change,
    Drain,
    Sweep,
}

/// State of a schedule.
pub(crate) struct World<'a, T: Talk> {
    cx: Cx<'a, SimFile>,
    talk: T,
    dice: Dice,
    stamp: Stamp,
    disk: Disk,
    lines: Vec<Line<T::Client>>,
    /// Whether one operation is out at a time.
    single: bool,
    changes: u64,
    drains: u64,
    sweeps: u64,
    disk_ms: u64,
    warms: bool,
    hangs: bool,
    faulty: bool,
    /// Decides which requests are turned away; `None` in most schedules.
    refusals: Option<Dice>,
    plant: Option<Plant>,
    /// Whether files of bodies may be closed and opened again.
    closes_files: bool,
    sent: u64,
    /// Whether a connection has taken part in a drain.
    drained: bool,
    /// Sum over this schedule and earlier ones.
    pub(crate) report: DuplexReport,
}

impl<'a, T: Talk> World<'a, T> {
    /// Makes a world with its disk and its peers; sealed, if there are dice for seals. `client`
    /// makes the client of a peer.
    pub(crate) fn new(
        cx: Cx<'a, SimFile>,
        talk: T,
        mut dice: Dice,
        mut seals: Option<&mut Dice>,
        mut client: impl FnMut(&mut Dice, &mut Peer) -> T::Client,
    ) -> Self {
        let mut refusals = dice.apart(0x4ef0_5ed0_0000_0000);
        let disk = Disk::new(&mut dice);
        let lines = (0..dice.between(1, 3)).map(|_| {
            let (mut peer, pipe) = Peer::new(&mut dice);
            let client = client(&mut dice, &mut peer);
            peer.next += 1_000;
            let seal = seals.as_mut().map(|seals| ClientSeal::new(seals, &mut peer));
            Line {
                link: None,
                pipe,
                peer,
                seal,
                received: 0,
                client,
                lateness: dice.pick(&[0, 1, 40]),
                recv: false,
                send: None,
                offered: None,
                composed: Stamp::default(),
                taken: None,
                shut: false,
                disk: Vec::new(),
                busy_since: None,
                requests: 0,
                is_cut: false,
                faulted: false,
                closed: None,
            }
        });
        let lines = lines.collect();
        let mut world = Self {
            cx,
            talk,
            stamp: Stamp { step: 0, tick: 1_000 },
            disk,
            lines,
            single: dice.one_in(4),
            changes: if dice.one_in(2) { 1_000 + dice.below(2_000) } else { NEVER },
            drains: if dice.one_in(4) { 1_000 + dice.below(2_000) } else { NEVER },
            sweeps: 1_000,
            disk_ms: dice.pick(&[0, 1, 20, DISK_MS_MAX]),
            warms: dice.one_in(2),
            hangs: dice.one_in(5),
            faulty: dice.one_in(10),
            refusals: refusals.one_in(4).then_some(refusals),
            plant: None,
            closes_files: false,
            sent: 0,
            drained: false,
            report: DuplexReport::default(),
            dice,
        };
        world.talk.note_files(&world.disk);
        world
    }

    /// Plants a mistake.
    pub(crate) const fn plant(&mut self, plant: Option<Plant>) {
        self.plant = plant;
    }

    /// Notes whether files of bodies may be closed and opened again.
    pub(crate) const fn closes_files(&mut self, closes: bool) {
        self.closes_files = closes;
    }

    /// Virtual time, milliseconds.
    pub(crate) const fn tick(&self) -> u64 {
        self.stamp.tick
    }

    /// Whether the disk may take longer than its limit.
    const fn is_slow(&self) -> bool {
        self.disk_ms >= self.cx.site.deadlines.disk_ms_max
    }

    /// Whether an operation may have waited for this driver for longer than the disk's limit:
    /// behind a seal its time runs meanwhile.
    fn queued_too_long(&self, line: &Line<T::Client>) -> bool {
        let most = self.cx.site.deadlines.disk_ms_max;
        let busy = line.busy_since.is_some_and(|since| self.stamp.tick - since.tick >= most);
        self.single && line.seal.is_some() && busy
    }

    const fn now(&self) -> Now {
        Now { tick: Tick(self.stamp.tick), unix: disk::unix(self.stamp) }
    }

    /// Runs until every connection has ended, and checks the counters.
    pub(crate) fn run(&mut self) -> Result<(), BrokenCheck> {
        while let Some((tick, event)) = self.next_event() {
            self.stamp.tick = self.stamp.tick.max(tick);
            self.stamp.step += 1;
            self.report.steps += 1;
            if self.stamp.step > STEPS_MAX {
                return Err("it goes on and on".into());
            }
            match event {
                Event::Receive(at) => self.receive(at)?,
                Event::Send(at) => self.send(at)?,
                Event::Warm(at) => {
                    let (now, cx, line) = (self.now(), self.cx, &mut self.lines[at]);
                    let sending = line.send.as_mut().expect("it waits");
                    sending.disk = None;
                    line.link.as_mut().expect("it waits").disk_answered(now, &cx);
                    self.ask(at)?;
                }
                Event::Shut(at) => {
                    self.lines[at].shut = false;
                    self.lines[at].pipe.shut = true;
                    self.lines[at].peer.wake(self.stamp.tick);
                    self.complete(at, Done::Shut)?;
                }
                Event::Disk(at, ticket) => self.disk_answers(at, ticket)?,
                Event::Expire(at) => self.expire(at)?,
                Event::Act(at) => self.act(at)?,
                Event::Change => {
                    self.disk.change(self.stamp.tick, &mut self.dice);
                    self.talk.note_files(&self.disk);
                    self.changes = self.stamp.tick + 1 + self.dice.below(400);
                }
                Event::Drain => self.drain()?,
                Event::Sweep => {
                    let on = self.cx.cache.sweep(Tick(self.stamp.tick), &self.cx.tally);
                    self.sweeps = on.map_or(self.stamp.tick + 10, |on| on.0);
                }
            }
            for line in &mut self.lines {
                let since = line.busy_since.unwrap_or(self.stamp);
                line.busy_since = line.is_busy().then_some(since);
            }
        }
        let open = self.lines.iter().position(|line| line.closed.is_none());
        match open {
            Some(at) => Err(format!("#{at} never ends").into()),
            None => self.balance(),
        }
    }

    /// Picks one of the earliest events.
    fn next_event(&mut self) -> Option<(u64, Event)> {
        let mut events = Vec::new();
        for (at, line) in self.lines.iter().enumerate().filter(|(_, line)| line.closed.is_none()) {
            events.push((line.peer.next, Event::Act(at)));
            let Some(link) = &line.link else { continue };
            let deadline = link.deadline().0;
            events.push((deadline.saturating_add(line.lateness), Event::Expire(at)));
            let pipe = &line.pipe;
            let comes = !pipe.inbound.is_empty() || pipe.fin || pipe.reset;
            if line.recv && comes && !(self.single && line.is_busy()) {
                events.push((self.stamp.tick, Event::Receive(at)));
            }
            match &line.send {
                Some(Sending { disk: Some(disk), .. }) => events.push((*disk, Event::Warm(at))),
                Some(Sending { ready, .. }) if pipe.room() > 0 || pipe.reset => {
                    events.push((*ready, Event::Send(at)));
                }
                _ => {}
            }
            if line.shut {
                events.push((self.stamp.tick, Event::Shut(at)));
            }
            let disk = line.disk.iter();
            events.extend(disk.map(|(ticket, _, ready)| (*ready, Event::Disk(at, *ticket))));
        }
        if events.iter().all(|(tick, _)| *tick == NEVER) {
            return None;
        }
        events.extend([(self.changes, Event::Change), (self.drains, Event::Drain)]);
        events.push((self.sweeps, Event::Sweep));
        let first = events.iter().map(|(tick, _)| (*tick).max(self.stamp.tick)).min()?;
        events.retain(|(tick, _)| (*tick).max(self.stamp.tick) == first);
        Some(self.dice.pick(&events))
    }

    /// Requests operations until there are no more, or one if `single`.
    fn ask(&mut self, at: usize) -> Result<(), BrokenCheck> {
        loop {
            let (now, cx, line) = (self.now(), self.cx, &mut self.lines[at]);
            if self.single && line.is_busy() {
                return Ok(());
            }
            let before = line.recv;
            let Some(link) = &mut line.link else { return Ok(()) };
            link.check_invariants();
            match link.next_op() {
                None => return Ok(()),
                Some(Op::Recv) if before => return Err("a second Recv is out".into()),
                Some(Op::Recv) => {
                    line.recv = true;
                    return Ok(());
                }
                Some(Op::Send(_)) if line.send.is_some() => {
                    return Err("a second Send is out".into());
                }
                Some(Op::Send(outbox)) => {
                    let is_clear = line.seal.is_none();
                    check_outbox(&outbox, T::SEND_BYTES_MAX.filter(|_| is_clear))?;
                    let slow = if self.dice.one_in(4) { self.dice.below(20) } else { 0 };
                    let asks = self.warms && outbox.at_file() && self.dice.one_in(2);
                    let disk = asks.then(|| {
                        link.wait_for_disk(now, &cx);
                        self.report.warmed += 1;
                        let hangs = self.hangs && self.dice.one_in(16);
                        if hangs { NEVER } else { self.stamp.tick + self.dice.below(DISK_MS_MAX) }
                    });
                    line.send = Some(Sending { outbox, ready: self.stamp.tick + slow, disk });
                    line.note_offer(self.stamp, self.single);
                }
                Some(Op::Shut) if line.send.is_some() => {
                    return Err("it is to be shut while a Send is out".into());
                }
                Some(Op::Shut) => line.shut = true,
                Some(Op::Close(reason)) => {
                    line.requests = link.requests();
                    (line.link, line.send, line.closed) = (None, None, Some(reason));
                    line.disk.clear();
                    return self.judge(at, reason);
                }
                Some(op) => self.ask_disk(at, op)?,
            }
        }
    }

    /// Gives the disk one operation.
    fn ask_disk(&mut self, at: usize, op: Op<SimFile>) -> Result<(), BrokenCheck> {
        let (Op::Open(ticket, _) | Op::Read(ticket, _) | Op::Stat(ticket, _)) = op else {
            return Err(format!("{:?} is no operation of a disk", op.kind()).into());
        };
        let hangs = self.hangs && op.kind() != OpKind::Stat && self.dice.one_in(10);
        let ready = if hangs { NEVER } else { self.stamp.tick + self.dice.below(self.disk_ms + 1) };
        let line = &mut self.lines[at];
        let ticket = match line.disk.first() {
            Some((other, ..)) if self.plant == Some(Plant::EarlyTicket) => *other,
            _ => ticket,
        };
        if let Op::Open(_, req) = &op {
            check_open(req)?;
            let decided = line.busy_since.unwrap_or(self.stamp);
            self.talk.note_open((at, ticket.0), &req.path, decided, self.stamp);
        }
        if line.disk.iter().any(|(other, ..)| *other == ticket) {
            return Err(format!("{ticket:?} names two operations").into());
        }
        line.disk.push((ticket, op, ready));
        let out = line.disk.iter().filter(|(other, ..)| *other != WIRE).count();
        self.report.disk_ops_max = self.report.disk_ops_max.max(out);
        if out > DISK_OPS_MAX {
            Err(format!("{out} operations of the disk").into())
        } else {
            Ok(())
        }
    }

    fn complete(&mut self, at: usize, done: Done<'_, SimFile>) -> Result<(), BrokenCheck> {
        let (now, cx) = (self.now(), self.cx);
        let link = self.lines[at].link.as_mut().ok_or("it is told something after its end")?;
        link.complete(done, now, &cx);
        let requests = index(u64::from(link.requests()));
        let open = requests.saturating_sub(self.talk.answers(&self.lines[at].client));
        self.report.exchanges_max = self.report.exchanges_max.max(open);
        self.ask(at)
    }

    fn fault(&mut self, at: usize) -> Option<Fault> {
        let line = &mut self.lines[at];
        let other = self.faulty && self.dice.one_in(200);
        line.faulted |= other;
        if line.pipe.reset { Some(Fault::Reset) } else { other.then_some(Fault::Other(110)) }
    }

    fn receive(&mut self, at: usize) -> Result<(), BrokenCheck> {
        self.lines[at].recv = false;
        if let Some(fault) = self.fault(at) {
            return self.complete(at, Done::Recv(Err(fault)));
        }
        let line = &mut self.lines[at];
        self.report.duplex += u64::from(line.send.is_some() && !line.pipe.inbound.is_empty());
        let there = line.pipe.inbound.len() as u64;
        let n = if there > 0 && self.dice.one_in(3) { self.dice.between(1, there) } else { there };
        let bytes: Vec<u8> = line.pipe.inbound.drain(..index(n)).collect();
        line.received += n;
        let end = line.seal.as_ref().map_or(line.received, |seal| seal.plain(line.received));
        self.talk.note_received(&mut line.client, end, self.stamp);
        if n > 0 && self.refusals.as_mut().is_some_and(|dice| dice.one_in(8)) {
            let (now, cx, line) = (self.now(), self.cx, &mut self.lines[at]);
            line.link.as_mut().ok_or("it receives after its end")?.turn_away(now, &cx);
            self.talk.note_trouble(&mut line.client, Trouble::TurnedAway, self.stamp);
            if self.forget(at)? {
                return self.ask(at);
            }
        }
        self.lines[at].peer.wake(self.stamp.tick);
        self.complete(at, Done::Recv(Ok(&bytes)))
    }

    fn send(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let Sending { mut outbox, .. } = self.lines[at].send.take().ok_or("nothing is out")?;
        if let Some(fault) = self.fault(at) {
            return self.complete(at, Done::Send(outbox, Err(fault)));
        }
        let room = self.lines[at].pipe.room().min(outbox.len());
        if room == 0 {
            return Err("an empty outbox is sent".into());
        }
        let most = if self.dice.one_in(3) { self.dice.between(1, room) } else { room };
        let bytes = gather(&outbox, most, self.dice.one_in(2));
        let n = bytes.len() as u64;
        outbox.advance(n);
        let left = outbox.len();
        let line = &self.lines[at];
        let arrival = Arrival {
            offered: line.offered.ok_or("it was not offered")?,
            composed: line.composed,
            excused: self.hangs || self.faulty || self.changes < NEVER || self.is_slow(),
            queued: self.queued_too_long(line),
            is_prompt: line.seal.is_none() && !self.single,
        };
        let Self { lines, talk, report, .. } = self;
        let Line { pipe, client, seal, received, offered, taken, .. } = &mut lines[at];
        if left == 0 {
            *taken = offered.take().map(|offered| (offered, self.stamp));
        }
        pipe.queued += n;
        pipe.pump();
        pipe.note_acked(self.stamp.tick);
        let plain = match seal {
            Some(seal) => seal.open(&bytes, *received)?,
            None => vec![(bytes, 0)],
        };
        for (bytes, _) in plain {
            self.sent += bytes.len() as u64;
            talk.feed(client, &bytes, &arrival, report)?;
        }
        self.lines[at].peer.wake(self.stamp.tick);
        self.complete(at, Done::Send(outbox, Ok(n)))
    }

    fn disk_answers(&mut self, at: usize, ticket: Ticket) -> Result<(), BrokenCheck> {
        let line = &mut self.lines[at];
        let place = line.disk.iter().position(|(of, ..)| *of == ticket).ok_or("nobody asked")?;
        match line.disk.swap_remove(place).1 {
            Op::Open(_, req) => {
                let (seen, mut found) = self.disk.open(&req);
                if let Ok(opened) = &mut found
                    && self.plant == Some(Plant::OldIdentity)
                {
                    disk::disguise(&req, opened);
                }
                // A body does not continue if its file has changed since it was closed.
                if self.closes_files && req.siblings.is_empty() && self.changes < NEVER {
                    self.talk.note_trouble(&mut line.client, Trouble::Reopened, self.stamp);
                }
                self.talk.note_opened((at, ticket.0), &req.path, seen, self.stamp);
                self.complete(at, Done::Open(ticket, found))
            }
            Op::Read(_, req) if self.faulty && self.dice.one_in(10) => {
                line.faulted = true;
                self.talk.note_trouble(&mut line.client, Trouble::Unreadable, self.stamp);
                self.complete(at, Done::Read(ticket, req.buffer, Err(Fault::Other(5))))
            }
            Op::Read(_, req) => {
                let asked = req.len;
                let bytes = disk::read(req);
                if (bytes.len() as u64) < asked {
                    self.talk.note_trouble(&mut line.client, Trouble::Unreadable, self.stamp);
                }
                self.complete(at, Done::Read(ticket, bytes, Ok(())))
            }
            Op::Stat(_, file) => self.complete(at, Done::Stat(ticket, Ok(file.stat()))),
            op => Err(format!("{:?} is no operation of a disk", op.kind()).into()),
        }
    }

    fn expire(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let (now, cx, line) = (self.now(), self.cx, &mut self.lines[at]);
        let link = line.link.as_mut().ok_or("it is called after its end")?;
        link.expire(line.pipe.queued, now, &cx);
        self.forget(at)?;
        self.ask(at)
    }

    /// Forgets what the core has given up. Returns whether that was everything.
    fn forget(&mut self, at: usize) -> Result<bool, BrokenCheck> {
        let line = &mut self.lines[at];
        let link = line.link.as_ref().ok_or("it is called after its end")?;
        let (was_at_disk, abandoned) = (!line.disk.is_empty(), link.abandoned());
        match abandoned {
            Some(Abandoned::All) => {
                line.is_cut |= line.send.is_some();
                (line.recv, line.send, line.shut, line.offered) = (false, None, false, None);
                line.disk.clear();
            }
            Some(Abandoned::One(ticket)) => {
                line.forget(ticket)?;
                self.report.given_up += u64::from(line.send.is_some() || !line.disk.is_empty());
            }
            None => {}
        }
        if was_at_disk && abandoned.is_some() {
            self.talk.note_trouble(&mut line.client, Trouble::Overdue, self.stamp);
        }
        Ok(matches!(abandoned, Some(Abandoned::All)))
    }

    fn drain(&mut self) -> Result<(), BrokenCheck> {
        self.drains = NEVER;
        let (now, cx) = (self.now(), self.cx);
        for at in 0..self.lines.len() {
            if let Some(link) = &mut self.lines[at].link {
                link.drain(now, &cx);
                self.talk.note_trouble(&mut self.lines[at].client, Trouble::Drained, self.stamp);
                self.report.drained += 1;
                self.drained = true;
                self.ask(at)?;
            }
        }
        Ok(())
    }

    /// Performs an act of a peer.
    fn act(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let (now, cx) = (self.now(), self.cx);
        let Self { lines, talk, dice, .. } = self;
        let line = &mut lines[at];
        let comes = line.link.is_none();
        if comes {
            let address = SocketAddr::from(([127, 0, 0, 1], 4000));
            line.link = Some(Link::new(address.into(), now, &cx));
        }
        let mut acted = line.end().read();
        line.pipe.note_acked(self.stamp.tick);
        let may_say = line.seal.as_ref().is_none_or(ClientSeal::may_send);
        while may_say && let Some(bytes) = talk.say(&mut line.client, &mut line.peer, dice) {
            line.end().append(&bytes);
            acted.fresh = true;
            if dice.one_in(3) {
                break;
            }
        }
        let may_go_on = may_say && line.peer.left_how.is_none() && line.peer.out.is_empty();
        acted.fresh |= may_go_on && talk.will_say(&line.client);
        let all_read = line.pipe.read == line.pipe.acked && line.pipe.queued == 0;
        let answered = talk.unanswered(&line.client) == 0 && all_read;
        line.end().go_on(&mut acted, answered, self.stamp.tick, dice);
        if comes { self.ask(at) } else { Ok(()) }
    }

    /// Judges the end of a connection: its reason must be possible, and its answers complete.
    fn judge(&mut self, at: usize, reason: CloseReason) -> Result<(), BrokenCheck> {
        let line = &self.lines[at];
        let said = line.seal.as_ref().is_some_and(|seal| seal.ends(line.received));
        let spoilt = line.seal.as_ref().is_some_and(|seal| seal.is_spoilt(line.received));
        let greets = line.seal.as_ref().is_none_or(|seal| seal.greets(line.received));
        let gone = line.pipe.fin || line.pipe.reset || said;
        let end = LineEnd {
            reason,
            requests: line.requests,
            is_quick: line.peer.is_quick(),
            is_gone: gone,
            is_silent: line.peer.left_how.is_some(),
            greets,
            is_broken: spoilt || line.faulted,
        };
        let fits = match reason {
            CloseReason::HandshakeDeadline => !greets,
            CloseReason::BadRecord => spoilt,
            CloseReason::PeerClosed => line.pipe.fin || said,
            CloseReason::PeerAborted => gone,
            CloseReason::Reset => line.pipe.reset,
            CloseReason::Failed => line.faulted,
            CloseReason::Truncated => self.changes < NEVER,
            CloseReason::DiskDeadline => {
                self.hangs || self.warms || self.is_slow() || self.queued_too_long(line)
            }
            CloseReason::Drained => self.drained,
            CloseReason::IdleDeadline | CloseReason::HeadDeadline => true,
            CloseReason::SendDeadline => {
                let is_sending = line.is_cut || self.single;
                let (seal, deadlines) = (line.seal.as_ref(), &self.cx.site.deadlines);
                is_sending && is_slow(&line.pipe, seal, deadlines, self.stamp.tick)
            }
            _ => false,
        };
        self.report.unshaken += u64::from(!greets);
        self.report.spoilt += u64::from(reason == CloseReason::BadRecord);
        let Self { lines, talk, report, .. } = self;
        let client = &mut lines[at].client;
        let judged = if fits || talk.may_end(client, &end) {
            talk.judge_end(client, &end, report)
        } else {
            Err(format!("it ends for no reason: {reason:?}").into())
        };
        judged.map_err(|what| BrokenCheck::from(format!("#{at}: {what}")))
    }

    /// Compares the counters with the events, after all connections have ended.
    fn balance(&mut self) -> Result<(), BrokenCheck> {
        let slot = self.cx.tally.slot();
        let get = |counter| slot.get(counter);
        let requests: u64 = self.lines.iter().map(|line| u64::from(line.requests)).sum();
        let closed: u64 =
            CloseReason::ALL.iter().map(|it| get(Counter::closed(*it as usize))).sum();
        // After an unfinished `Send`, a sealed connection knows only roughly what was taken.
        let torn =
            |line: &&Line<T::Client>| line.seal.is_some() && !line.closed.is_some_and(is_whole);
        let torn = self.lines.iter().filter(torn).count() as u64;
        let sent = get(Counter::BytesSent);
        let near = sent.abs_diff(self.sent) <= torn * SEALED_BYTES_MAX;
        let counted = get(Counter::Requests);
        let unread = self.lines.iter().filter(|line| self.talk.may_be_unread(&line.client));
        let unread = counted.saturating_sub(requests).min(unread.count() as u64);
        let rows = [
            ("requests", counted, requests + unread),
            ("replies", get(Counter::Replies) + get(Counter::RepliesCut), counted),
            ("bytes", sent, if near { sent } else { self.sent }),
            ("ends", closed, self.lines.len() as u64),
            ("descriptors", self.disk.live(), slot.gauge(Gauge::CacheFds)),
        ];
        let wrong = rows.into_iter().find(|(_, counted, are)| counted != are);
        wrong.map_or(Ok(()), |row| Err(format!("counted, and are: {row:?}").into()))
    }
}

/// Checks the outbox of a `Send`: with a limit it has memory alone, and no more bytes than that.
fn check_outbox(outbox: &Outbox<SimFile>, bytes_max: Option<u64>) -> Result<(), BrokenCheck> {
    let Some(most) = bytes_max else { return Ok(()) };
    if outbox.segments().any(|segment| matches!(segment, Segment::File { .. })) {
        return Err("a range of a file is sent where memory alone may be".into());
    }
    if outbox.len() > most {
        return Err(format!("{} bytes are sent at once, {most} at most", outbox.len()).into());
    }
    Ok(())
}
