//! Schedules of this protocol. A driver has several operations out, or one at a time. A disk is
//! slow, out of order, and hangs. Peers arrive, read and leave as they like.
use super::{Answer, Client, Frames, NOT_FOUND, UNAVAILABLE};
use crate::{
    BrokenCheck,
    dice::{Dice, index},
    disk::{self, Disk, Seen, SimFile, content},
    end::End,
    ledger::SEALED_BYTES_MAX,
    peer::{NEVER, Peer, Pipe},
    sealing::{self, ClientSeal, Sealing, WIRE},
    site,
    world::gather,
};
use regatta_metrics::{Arena, Counter, Gauge, Tally};
use regatta_op::{
    Abandoned, CloseReason, Codings, DISK_OPS_MAX, Done, Fault, Now, Op, OpKind, OpenReq, Outbox,
    Tick, Ticket,
};
use regatta_origin::{Cx, Link, Links, LocalCache, NoLog, Protocol, Scratch};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::atomic::AtomicU64,
};

/// Requested names; the last does not exist.
const NAMES: [&str; 9] = [
    "a.txt",
    "b.html",
    "img.png",
    "empty.txt",
    "big.bin",
    "mid.bin",
    "docs/guide.html",
    "app.3f9c2ab1.js",
    "none",
];
/// The most that the disk takes, milliseconds.
const DISK_MS_MAX: u64 = 60;
/// The most steps of a schedule.
const STEPS_MAX: u64 = 200_000;

/// Sums of events in schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramesReport {
    /// Steps taken.
    pub steps: u64,
    /// Answers that arrived in full, including those that reported a failure.
    pub answers: u64,
    /// Answers that arrived before those of earlier requests.
    pub overtaking: u64,
    /// The most exchanges that a connection had at once.
    pub exchanges_max: usize,
    /// The most operations that the disk had from a connection at once.
    pub disk_ops_max: usize,
    /// Receives while a `Send` was out.
    pub duplex: u64,
    /// Operations of the disk given up while others continued.
    pub given_up: u64,
    /// Connections that took part in a drain.
    pub drained: u64,
    /// Waits of a `Send` for the disk.
    pub warmed: u64,
    /// Sealed connections that ended in the handshake.
    pub unshaken: u64,
    /// Sealed connections that ended because of an altered record.
    pub spoilt: u64,
    /// Requests that were turned away.
    pub refused: u64,
}

impl FramesReport {
    /// Adds the events of another schedule.
    pub const fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.answers += other.answers;
        self.overtaking += other.overtaking;
        self.duplex += other.duplex;
        self.given_up += other.given_up;
        self.drained += other.drained;
        self.warmed += other.warmed;
        self.unshaken += other.unshaken;
        self.spoilt += other.spoilt;
        self.refused += other.refused;
        if self.exchanges_max < other.exchanges_max {
            self.exchanges_max = other.exchanges_max;
        }
        if self.disk_ops_max < other.disk_ops_max {
            self.disk_ops_max = other.disk_ops_max;
        }
    }
}

struct Sending {
    outbox: Outbox<SimFile>,
    ready: u64,
    /// Time of the disk's answer, if it is asked first.
    disk: Option<u64>,
}

/// A connection, and its operations at the driver.
struct Line {
    link: Option<Link<SimFile>>,
    pipe: Pipe,
    peer: Peer,
    client: Client,
    seal: Option<ClientSeal>,
    /// Bytes of the wire that the core has received.
    received: u64,
    /// All bytes that the client sends.
    wire: Vec<u8>,
    /// Number of bytes of `wire` that the peer has decided to send.
    asked: usize,
    lateness: u64,
    recv: bool,
    send: Option<Sending>,
    shut: bool,
    disk: Vec<(Ticket, Op<SimFile>, u64)>,
    /// Time since which an operation other than `Recv` has been out without a pause.
    busy_since: Option<u64>,
    requests: u32,
    faulted: bool,
    /// Number of requests that may still be turned away.
    refused: u32,
    closed: Option<CloseReason>,
}

impl Line {
    /// The peer's end.
    const fn end(&mut self) -> End<'_> {
        End(&mut self.peer, &mut self.pipe, &mut self.seal)
    }

    /// Whether an operation other than `Recv` is out.
    fn is_busy(&self) -> bool {
        self.send.is_some() || self.shut || !self.disk.is_empty()
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

struct World<'a> {
    cx: Cx<'a, SimFile>,
    dice: Dice,
    tick: u64,
    disk: Disk,
    lines: Vec<Line>,
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
    /// Files that have had each name: their numbers and lengths.
    known: BTreeMap<&'static str, BTreeSet<(u64, u64)>>,
    /// Names that were missing at some time, or could not be opened.
    missing: BTreeSet<&'static str>,
    sent: u64,
    report: FramesReport,
}

/// Runs the schedule of a seed.
///
/// # Errors
/// The fault, and the command that replays it.
pub fn run_frames(seed: u64) -> Result<FramesReport, BrokenCheck> {
    schedule(seed, None)
}

/// Runs the schedule of a seed, as [`run_frames`], with every connection sealed.
///
/// # Errors
/// The fault, and the command that replays it.
pub fn run_sealed_frames(seed: u64) -> Result<FramesReport, BrokenCheck> {
    schedule(seed, Some(sealing::dice(seed)))
}

fn schedule(seed: u64, mut seals: Option<Dice>) -> Result<FramesReport, BrokenCheck> {
    // The seed is altered, so that the site differs from that of the same seed for HTTP/1.
    let mut dice = Dice::seeded(seed ^ 0xf4a3_e500_0000_0000);
    let mut site = site::site(&mut dice);
    site.content.not_found = "".into();
    site.content.fallback = "".into();
    site.content.clean_urls = false;
    let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
    let arena = Arena::create(&words, 1);
    let cache = LocalCache::new(&site.caching, site.seed);
    let scratch = Scratch::new(site.boundary_key);
    let frames = Frames { names: &NAMES };
    let (tally, sealing) = (Tally::Owned(arena.slot(0)), Sealing::new(frames, seed, None));
    let links: &dyn Links<_> = if seals.is_some() { &sealing } else { &frames };
    let cx = Cx { site: &site, cache: &cache, tally, log: &NoLog, scratch: &scratch, links };
    let mut world = World::new(cx, dice, seals.as_mut());
    let ended = world.run().and_then(|()| world.balance());
    let sealed = if seals.is_some() { " --sealed" } else { "" };
    let replay = format!("replay: cargo run -p regatta-sim -- --frames{sealed} --seed");
    let replay = |what: BrokenCheck| {
        BrokenCheck::from(format!("seed {seed}, {} ms: {what}\n{replay} {seed}", world.tick))
    };
    ended.map(|()| world.report).map_err(replay)
}

impl<'a> World<'a> {
    fn new(cx: Cx<'a, SimFile>, mut dice: Dice, mut seals: Option<&mut Dice>) -> Self {
        let mut refusals = dice.apart(0x4ef0_5ed0_0000_0000);
        let disk = Disk::new(&mut dice);
        let lines = (0..dice.between(1, 3)).map(|_| {
            let (mut peer, pipe) = Peer::new(&mut dice);
            peer.burst = dice.pick(&[1, 4, 8, 8, 20]);
            let file = |_| u8::try_from(dice.below(NAMES.len() as u64)).expect("few");
            let client = Client::new((0..peer.left).map(file).collect());
            peer.next += 1_000;
            let seal = seals.as_mut().map(|seals| ClientSeal::new(seals, &mut peer));
            Line {
                link: None,
                pipe,
                peer,
                seal,
                received: 0,
                wire: client.wire(),
                client,
                asked: 0,
                lateness: dice.pick(&[0, 1, 40]),
                recv: false,
                send: None,
                shut: false,
                disk: Vec::new(),
                busy_since: None,
                requests: 0,
                faulted: false,
                refused: 0,
                closed: None,
            }
        });
        let lines = lines.collect();
        let mut world = Self {
            cx,
            tick: 1_000,
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
            known: BTreeMap::new(),
            missing: BTreeSet::new(),
            sent: 0,
            report: FramesReport::default(),
            dice,
        };
        world.look_at_files();
        world
    }

    /// Notes the files that exist.
    fn look_at_files(&mut self) {
        for name in NAMES {
            let req = OpenReq { path: name.as_bytes().into(), siblings: Codings::NONE };
            match self.disk.open(&req).0 {
                Seen::File { main, .. } => {
                    self.known.entry(name).or_default().insert((main.inode, main.len));
                }
                _ => drop(self.missing.insert(name)),
            }
        }
    }

    /// Whether the disk may take longer than its limit.
    const fn is_slow(&self) -> bool {
        self.disk_ms >= self.cx.site.deadlines.disk_ms_max
    }

    /// Whether an operation may have waited for this driver for longer than the disk's limit:
    /// behind a seal its time runs meanwhile.
    fn queued_too_long(&self, line: &Line) -> bool {
        let most = self.cx.site.deadlines.disk_ms_max;
        let busy = line.busy_since.is_some_and(|since| self.tick - since >= most);
        self.single && line.seal.is_some() && busy
    }

    const fn now(&self) -> Now {
        Now { tick: Tick(self.tick), unix: disk::UNIX + self.tick / 1000 }
    }

    fn run(&mut self) -> Result<(), BrokenCheck> {
        while let Some((tick, event)) = self.next_event() {
            self.tick = self.tick.max(tick);
            self.report.steps += 1;
            if self.report.steps > STEPS_MAX {
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
                    self.lines[at].peer.wake(self.tick);
                    self.complete(at, Done::Shut)?;
                }
                Event::Disk(at, ticket) => self.disk_answers(at, ticket)?,
                Event::Expire(at) => self.expire(at)?,
                Event::Act(at) => self.act(at)?,
                Event::Change => {
                    self.disk.change(self.tick, &mut self.dice);
                    self.look_at_files();
                    self.changes = self.tick + 1 + self.dice.below(400);
                }
                Event::Drain => self.drain()?,
                Event::Sweep => {
                    let on = self.cx.cache.sweep(Tick(self.tick), &self.cx.tally);
                    self.sweeps = on.map_or(self.tick + 10, |on| on.0);
                }
            }
            for line in &mut self.lines {
                let since = line.busy_since.unwrap_or(self.tick);
                line.busy_since = line.is_busy().then_some(since);
            }
        }
        let open = self.lines.iter().position(|line| line.closed.is_none());
        open.map_or(Ok(()), |at| Err(format!("#{at} never ends").into()))
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
                events.push((self.tick, Event::Receive(at)));
            }
            match &line.send {
                Some(Sending { disk: Some(disk), .. }) => events.push((*disk, Event::Warm(at))),
                Some(Sending { ready, .. }) if pipe.room() > 0 || pipe.reset => {
                    events.push((*ready, Event::Send(at)));
                }
                _ => {}
            }
            if line.shut {
                events.push((self.tick, Event::Shut(at)));
            }
            let disk = line.disk.iter();
            events.extend(disk.map(|(ticket, _, ready)| (*ready, Event::Disk(at, *ticket))));
        }
        if events.iter().all(|(tick, _)| *tick == NEVER) {
            return None;
        }
        events.extend([(self.changes, Event::Change), (self.drains, Event::Drain)]);
        events.push((self.sweeps, Event::Sweep));
        let first = events.iter().map(|(tick, _)| (*tick).max(self.tick)).min()?;
        events.retain(|(tick, _)| (*tick).max(self.tick) == first);
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
                    let slow = if self.dice.one_in(4) { self.dice.below(20) } else { 0 };
                    let asks = self.warms && outbox.at_file() && self.dice.one_in(2);
                    let disk = asks.then(|| {
                        link.wait_for_disk(now, &cx);
                        self.report.warmed += 1;
                        let hangs = self.hangs && self.dice.one_in(16);
                        if hangs { NEVER } else { self.tick + self.dice.below(DISK_MS_MAX) }
                    });
                    line.send = Some(Sending { outbox, ready: self.tick + slow, disk });
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
        let ready = if hangs { NEVER } else { self.tick + self.dice.below(self.disk_ms + 1) };
        let line = &mut self.lines[at];
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
        let open = index(u64::from(link.requests())) - self.lines[at].client.answers();
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
        if n > 0 && self.refusals.as_mut().is_some_and(|dice| dice.one_in(8)) {
            let (now, cx, line) = (self.now(), self.cx, &mut self.lines[at]);
            line.link.as_mut().ok_or("it receives after its end")?.turn_away(now, &cx);
            line.refused += 1;
        }
        self.lines[at].peer.wake(self.tick);
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
        let excused = self.hangs || self.faulty || self.changes < NEVER || self.is_slow();
        let queued = self.queued_too_long(&self.lines[at]);
        let Self { lines, known, missing, report, .. } = self;
        let Line { pipe, client, seal, received, refused, .. } = &mut lines[at];
        pipe.queued += n;
        pipe.pump();
        let mut last = None;
        let plain = match seal {
            Some(seal) => seal.open(&bytes, *received)?,
            None => vec![(bytes, 0)],
        };
        for (bytes, _) in plain {
            self.sent += bytes.len() as u64;
            client.feed(&bytes, &mut |answer| {
                report.answers += 1;
                report.overtaking += u64::from(last.is_some_and(|last| last > answer.number));
                last = Some(answer.number);
                let unavailable = answer.code == UNAVAILABLE;
                let excused = excused || queued && unavailable;
                if unavailable && !excused && *refused > 0 {
                    *refused -= 1;
                    report.refused += 1;
                    return Ok(());
                }
                check(&answer, known, missing, excused)
            })?;
        }
        self.lines[at].peer.wake(self.tick);
        self.complete(at, Done::Send(outbox, Ok(n)))
    }

    fn disk_answers(&mut self, at: usize, ticket: Ticket) -> Result<(), BrokenCheck> {
        let disk = &mut self.lines[at].disk;
        let place = disk.iter().position(|(of, ..)| *of == ticket).ok_or("nobody asked")?;
        match disk.swap_remove(place).1 {
            Op::Open(_, req) => {
                let found = self.disk.open(&req).1;
                self.complete(at, Done::Open(ticket, found))
            }
            Op::Read(_, req) if self.faulty && self.dice.one_in(10) => {
                self.lines[at].faulted = true;
                self.complete(at, Done::Read(ticket, req.buffer, Err(Fault::Other(5))))
            }
            Op::Read(_, req) => self.complete(at, Done::Read(ticket, disk::read(req), Ok(()))),
            Op::Stat(_, file) => self.complete(at, Done::Stat(ticket, Ok(file.stat()))),
            op => Err(format!("{:?} is no operation of a disk", op.kind()).into()),
        }
    }

    fn expire(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let (now, cx, line) = (self.now(), self.cx, &mut self.lines[at]);
        let link = line.link.as_mut().ok_or("it is called after its end")?;
        link.expire(line.pipe.queued, now, &cx);
        match link.abandoned() {
            Some(Abandoned::All) => {
                (line.recv, line.send, line.shut) = (false, None, false);
                line.disk.clear();
            }
            Some(Abandoned::One(ticket)) => {
                let place = line.disk.iter().position(|(of, ..)| *of == ticket);
                line.disk.swap_remove(place.ok_or("what is given up was not out")?);
                self.report.given_up += u64::from(line.send.is_some() || !line.disk.is_empty());
            }
            None => {}
        }
        self.ask(at)
    }

    fn drain(&mut self) -> Result<(), BrokenCheck> {
        self.drains = NEVER;
        let (now, cx) = (self.now(), self.cx);
        for at in 0..self.lines.len() {
            if let Some(link) = &mut self.lines[at].link {
                link.drain(now, &cx);
                self.report.drained += 1;
                self.ask(at)?;
            }
        }
        Ok(())
    }

    /// Performs an act of a peer.
    fn act(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let (now, cx, dice) = (self.now(), self.cx, &mut self.dice);
        let line = &mut self.lines[at];
        let comes = line.link.is_none();
        if comes {
            let address = SocketAddr::from(([127, 0, 0, 1], 4000));
            line.link = Some(Link::new(address.into(), now, &cx));
        }
        let mut acted = line.end().read();
        let is_open = line.seal.as_ref().is_none_or(ClientSeal::may_send);
        let unanswered = |line: &Line| (line.asked / 2 - line.client.answers()) as u64;
        while is_open && line.asked < line.client.may_send() && line.peer.asks(unanswered(line)) {
            let frame = [line.wire[line.asked], line.wire[line.asked + 1]];
            line.end().append(&frame);
            line.asked += 2;
            line.peer.left -= 1;
            acted.fresh = true;
            if dice.one_in(3) {
                break;
            }
        }
        let all_read = line.pipe.read == line.pipe.acked && line.pipe.queued == 0;
        let answered = unanswered(line) == 0 && all_read;
        line.end().go_on(&mut acted, answered, self.tick, dice);
        if comes { self.ask(at) } else { Ok(()) }
    }

    /// Judges the end of a connection: its reason must be possible, and its answers complete.
    fn judge(&mut self, at: usize, reason: CloseReason) -> Result<(), BrokenCheck> {
        let line = &self.lines[at];
        let said = line.seal.as_ref().is_some_and(|seal| seal.ends(line.received));
        let spoilt = line.seal.as_ref().is_some_and(|seal| seal.is_spoilt(line.received));
        let greets = line.seal.as_ref().is_none_or(|seal| seal.greets(line.received));
        let gone = line.pipe.fin || line.pipe.reset || said;
        let drained = self.report.drained > 0;
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
            CloseReason::Drained => drained,
            CloseReason::IdleDeadline | CloseReason::HeadDeadline => true,
            CloseReason::SendDeadline => !line.peer.is_prompt() || self.single || gone,
            _ => false,
        };
        self.report.unshaken += u64::from(!greets);
        self.report.spoilt += u64::from(reason == CloseReason::BadRecord);
        if !fits {
            return Err(format!("#{at} ends for no reason: {reason:?}").into());
        }
        let whole = is_whole(reason);
        let answers = line.client.answers();
        if whole && greets && (answers != index(u64::from(line.requests)) || line.client.has_part())
        {
            return Err(
                format!("#{at}: {answers} of {} answered, {reason:?}", line.requests).into()
            );
        }
        Ok(())
    }

    /// Compares the counters with the events, after all connections have ended.
    fn balance(&mut self) -> Result<(), BrokenCheck> {
        let slot = self.cx.tally.slot();
        let get = |counter| slot.get(counter);
        let requests: u64 = self.lines.iter().map(|line| u64::from(line.requests)).sum();
        let closed: u64 =
            CloseReason::ALL.iter().map(|it| get(Counter::closed(*it as usize))).sum();
        // After an unfinished `Send`, a sealed connection knows only roughly what was taken.
        let torn = |line: &&Line| line.seal.is_some() && !line.closed.is_some_and(is_whole);
        let torn = self.lines.iter().filter(torn).count() as u64;
        let sent = get(Counter::BytesSent);
        let near = sent.abs_diff(self.sent) <= torn * SEALED_BYTES_MAX;
        let rows = [
            ("requests", get(Counter::Requests), requests),
            ("replies", get(Counter::Replies) + get(Counter::RepliesCut), requests),
            ("bytes", sent, if near { sent } else { self.sent }),
            ("ends", closed, self.lines.len() as u64),
            ("descriptors", self.disk.live(), slot.gauge(Gauge::CacheFds)),
        ];
        let wrong = rows.into_iter().find(|(_, counted, are)| counted != are);
        wrong.map_or(Ok(()), |row| Err(format!("counted, and are: {row:?}").into()))
    }
}

/// Whether a connection that ends for this reason has answered all that it received.
const fn is_whole(reason: CloseReason) -> bool {
    matches!(reason, CloseReason::PeerClosed | CloseReason::Drained | CloseReason::IdleDeadline)
}

/// Checks that an answer is a whole file that once had this name, or a valid reason for none.
fn check(
    answer: &Answer,
    known: &BTreeMap<&'static str, BTreeSet<(u64, u64)>>,
    missing: &BTreeSet<&'static str>,
    excused: bool,
) -> Result<(), BrokenCheck> {
    let Answer { number, file, code, body } = answer;
    let name = NAMES[usize::from(*file)];
    let is_it = |inode: u64| {
        let mut bytes = body.iter().zip(0..);
        bytes.all(|(byte, at)| *byte == content(inode, at))
    };
    let right = match *code {
        0 => known.get(name).is_some_and(|files| {
            files.iter().any(|(inode, len)| *len == body.len() as u64 && is_it(*inode))
        }),
        NOT_FOUND => missing.contains(name),
        // A fault of the disk, or no answer from it.
        _ => excused,
    };
    let len = body.len();
    if right {
        Ok(())
    } else {
        Err(format!("{name}, request {number}: code {code}, {len} bytes").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_all(run: fn(u64) -> Result<FramesReport, BrokenCheck>, seeds: u64) -> FramesReport {
        let mut sums = FramesReport::default();
        for seed in 0..seeds {
            match run(seed) {
                Ok(report) => sums.add(&report),
                Err(what) => panic!("{what}"),
            }
        }
        println!("{sums:?}");
        assert_eq!((sums.exchanges_max, sums.disk_ops_max), (8, DISK_OPS_MAX), "{sums:?}");
        sums
    }

    #[test]
    fn eight_exchanges_go_on_at_once() {
        let sums = run_all(run_frames, 512);
        assert!(sums.answers > 2_000 && sums.overtaking > 100, "{sums:?}");
        assert!(sums.duplex > 100 && sums.warmed > 100, "{sums:?}");
        assert!(sums.given_up > 10 && sums.drained > 50 && sums.refused > 20, "{sums:?}");
    }

    #[test]
    fn eight_exchanges_go_on_at_once_behind_a_seal() {
        let sums = run_all(run_sealed_frames, 256);
        assert!(sums.answers > 1_000 && sums.overtaking > 30, "{sums:?}");
        assert!(sums.duplex > 100 && sums.unshaken > 50, "{sums:?}");
        assert!(sums.given_up > 5 && sums.drained > 25 && sums.spoilt > 10, "{sums:?}");
    }
}
