//! The driver: performs operations of connections, advances time, and shows the judges everything.
use crate::{
    BrokenCheck,
    closing::{Closing, DISK_MS_MAX},
    dice::{Dice, index},
    disk::{Disk, Seen, SimFile, compressible, name_of, unix},
    end::Acted,
    judge::Judge,
    knowledge::Knowledge,
    link::{Asked, Link, Parked, Refusals},
    peer::{NEVER, Peer},
    plant::{Plant, join_records},
    registry::Registry,
    request::{Content, Maker},
    sealing::{ClientSeal, WIRE},
    trace::{self, Event, NOBODY, Stamp},
};
use regatta_op::{
    CloseReason, Done, Fault, File as _, Now, Op, OpKind, OpenFault, OpenReq, Outbox, ReadReq,
    Segment, Tick, Ticket,
};
use regatta_origin::{Admission, Cx, Protocol as _};
use std::net::SocketAddr;

/// Counts of one schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) opened: u64,
    pub(crate) closed: [u64; CloseReason::ALL.len()],
    pub(crate) sent: u64,
    pub(crate) opens: u64,
    pub(crate) siblings: u64,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) replies: u64,
    /// Sealed connections that ended during a `Send`.
    pub(crate) torn: u64,
}

/// State of a schedule.
pub(crate) struct World<'a> {
    pub(crate) cx: Cx<'a, SimFile>,
    pub(crate) dice: Dice,
    pub(crate) stamp: Stamp,
    pub(crate) disk: Disk,
    pub(crate) links: Vec<Link>,
    pub(crate) knowledge: Knowledge,
    pub(crate) registry: Registry,
    pub(crate) totals: Totals,
    pub(crate) plant: Option<Plant>,
    /// Whether a planted mistake that is made only once has been made.
    pub(crate) planted: bool,
    /// Files that are never closed.
    pub(crate) leaked: Vec<SimFile>,
    /// Time of the disk's next change.
    changes: u64,
    drains: u64,
    /// Time of the next sweep through the cache.
    sweeps: u64,
    /// The most that the disk takes, milliseconds.
    disk_ms: u64,
    /// The most that it takes if it is asked before a `Send`, milliseconds.
    warm_ms: u64,
    /// Whether the disk occasionally does not answer at all.
    hangs: bool,
    /// Whether sockets occasionally fail.
    faulty: bool,
    refusals: Refusals,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Perform(usize),
    Answer(usize),
    Expire(usize),
    Act(usize),
    Change,
    Drain,
    Sweep,
}

/// The earliest steps.
struct Agenda {
    now: u64,
    first: u64,
    steps: Vec<Step>,
}

impl Agenda {
    /// Notes a step, unless another one is earlier.
    fn note(&mut self, tick: u64, step: Step) {
        let tick = tick.max(self.now);
        if tick < self.first {
            self.first = tick;
            self.steps.clear();
        }
        if tick == self.first && tick < NEVER {
            self.steps.push(step);
        }
    }
}

impl<'a> World<'a> {
    /// Makes a world with its disk and its peers; sealed, if there are dice for seals.
    pub(crate) fn new(
        cx: Cx<'a, SimFile>,
        mut dice: Dice,
        seals: Option<&mut Dice>,
        plant: Option<Plant>,
    ) -> Self {
        let refusals = Refusals::new(&dice);
        let disk = Disk::new(&mut dice);
        let count = dice.pick(&[1, 2, 3, 4, 6]);
        let links = (0..count).map(|number| {
            let (peer, pipe) = Peer::new(&mut dice);
            Link::new(number, peer, pipe, dice.pick(&[0, 1, 40]))
        });
        let mut links: Vec<_> = links.collect();
        if let Some(seals) = seals {
            for Link { seal, peer, .. } in &mut links {
                *seal = Some(ClientSeal::new(seals, peer));
            }
        }
        Self {
            cx,
            stamp: Stamp { step: 0, tick: 1_000 },
            disk,
            links,
            knowledge: Knowledge::default(),
            registry: Registry::default(),
            totals: Totals::default(),
            plant,
            planted: false,
            leaked: Vec::new(),
            changes: 1_000 + dice.below(2_000),
            drains: if dice.one_in(4) { 1_000 + dice.below(3_000) } else { NEVER },
            sweeps: 1_000,
            hangs: dice.one_in(5),
            faulty: dice.one_in(10),
            refusals,
            disk_ms: dice.pick(&[0, 0, 1, 20, DISK_MS_MAX]),
            warm_ms: dice.pick(&[0, 0, 0, DISK_MS_MAX, 3 * cx.site.deadlines.send_window_ms]),
            dice,
        }
    }

    /// Runs until every connection has ended.
    pub(crate) fn run(&mut self) -> Result<(), BrokenCheck> {
        for link in &mut self.links {
            link.peer.next += self.stamp.tick;
        }
        while let Some((tick, step)) = self.next_step() {
            self.stamp.step += 1;
            self.stamp.tick = self.stamp.tick.max(tick);
            if self.stamp.step > 200_000 {
                return Err("it goes on and on".into());
            }
            match step {
                Step::Perform(at) => self.perform(at)?,
                Step::Answer(at) => self.disk_answers(at)?,
                Step::Expire(at) => self.expire(at)?,
                Step::Act(at) => self.act(at)?,
                Step::Change => {
                    let (name, how) = self.disk.change(self.stamp.tick, &mut self.dice);
                    trace::push(self.stamp, NOBODY, Event::DiskChanged { name, how });
                    self.changes = self.stamp.tick + 1 + self.dice.below(400);
                }
                Step::Drain => self.drain()?,
                Step::Sweep => {
                    let on = self.cx.cache.sweep(Tick(self.stamp.tick), &self.cx.tally);
                    // An empty cache is checked again a while later.
                    self.sweeps = on.map_or(self.stamp.tick + 10, |on| on.0);
                }
            }
            self.check_patience()?;
        }
        match self.links.iter().find(|link| link.closed.is_none()) {
            Some(link) => Err(format!("#{} never ends", link.number).into()),
            None => Ok(()),
        }
    }

    /// Picks one of the earliest steps.
    fn next_step(&mut self) -> Option<(u64, Step)> {
        let mut agenda = Agenda { now: self.stamp.tick, first: NEVER, steps: Vec::new() };
        let mut open = false;
        for link in self.links.iter().filter(|link| link.closed.is_none()) {
            open = true;
            agenda.note(link.ready(), Step::Perform(link.number));
            agenda.note(link.disk_answers(), Step::Answer(link.number));
            agenda.note(link.peer.next, Step::Act(link.number));
            if let Some(conn) = &link.conn {
                let deadline = match self.plant {
                    Some(Plant::NoDeadlines) => NEVER,
                    Some(Plant::EarlyDeadlines) => conn.deadline().0 / 4 * 3,
                    _ => conn.deadline().0,
                };
                agenda.note(deadline.saturating_add(link.lateness), Step::Expire(link.number));
            }
        }
        if !open || agenda.steps.is_empty() {
            return None;
        }
        agenda.note(self.changes, Step::Change);
        agenda.note(self.drains, Step::Drain);
        agenda.note(self.sweeps, Step::Sweep);
        Some((agenda.first, self.dice.pick(&agenda.steps)))
    }

    /// Clocks of the core.
    pub(crate) fn now(&self) -> Now {
        Now { tick: Tick(self.stamp.tick), unix: unix(self.stamp) }
    }

    fn accept(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let (now, cx) = (self.now(), self.cx);
        let peer = regatta_origin::Peer::from(SocketAddr::from(([127, 0, 0, 1], 4000)));
        let fd = i32::try_from(at).expect("few connections");
        let mut conn = regatta_origin::Link::new(peer, now, &cx);
        if self.plant != Some(Plant::LostLimit) {
            conn.admit(peer, fd, now, &cx);
        }
        let link = &mut self.links[at];
        link.limited = cx.links.opened(peer, fd, now) == Admission::Limited;
        link.conn = Some(conn);
        (link.rested, link.active) = (self.stamp, self.stamp.tick);
        self.totals.opened += 1;
        trace::push(self.stamp, at, Event::Accepted);
        self.take_op(at)
    }

    fn take_op(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let now = self.stamp;
        let link = &mut self.links[at];
        let conn = link.conn.as_mut().ok_or("it is called after its end")?;
        let op = conn.next_op().ok_or("no operation is offered though none is out")?;
        let kind = op.kind();
        self.check_alone(at, kind)?;
        let link = &mut self.links[at];
        let conn = link.conn.as_mut().ok_or("it is called after its end")?;
        conn.check_invariants();
        if std::mem::take(&mut link.held) && kind != OpKind::Shut {
            return Err(
                format!("{kind:?} is offered while the kernel holds bytes for `Shut`").into()
            );
        }
        trace::push(now, at, Event::Offered(kind));
        let disk = matches!(kind, OpKind::Open | OpKind::Read);
        let deadline = conn.deadline().0;
        if deadline < now.tick && deadline != link.deadline {
            return Err(format!("a new deadline at {deadline}, which has passed").into());
        }
        link.deadline = deadline;
        let delay = match kind {
            OpKind::Open | OpKind::Read if self.hangs && self.dice.one_in(8) => NEVER - now.tick,
            OpKind::Open | OpKind::Read => self.dice.below(self.disk_ms + 1),
            _ if self.dice.one_in(8) => self.dice.below(20),
            _ => 0,
        };
        if kind == OpKind::Send {
            link.sending_since.get_or_insert(now.tick);
            link.offered.get_or_insert(now);
        } else if kind != OpKind::Close {
            link.sending_since = None;
        }
        if disk {
            self.ask_disk(at, &op)?;
        }
        if let Op::Send(outbox) = &op {
            self.check_facts(at, outbox)?;
        }
        if let Op::Close(reason) = op {
            return self.close(at, reason);
        }
        let warms = matches!(&op, Op::Send(outbox) if outbox.at_file()) && self.warm_ms > 0;
        let disk = if warms && self.dice.one_in(2) { self.prefetch(at) } else { NEVER };
        self.links[at].parked = Some(Parked { op, ready: now.tick + delay, disk });
        self.notice(at)
    }

    /// Checks that no operation is offered alongside this one. In the clear none may be. Behind a
    /// seal none may be alongside a `Send` of the handshake: a driver that blocks would have to
    /// poll. Others are not asked for here, because this driver performs one at a time.
    fn check_alone(&mut self, at: usize, kind: OpKind) -> Result<(), BrokenCheck> {
        let Link { conn, seal, wire_received, .. } = &mut self.links[at];
        let greets = seal.as_ref().is_some_and(|seal| seal.greets(*wire_received));
        let in_handshake = seal.is_some() && kind == OpKind::Send && !greets;
        let is_alone = seal.is_none() || in_handshake;
        let more = is_alone && conn.as_mut().is_some_and(|conn| conn.next_op().is_some());
        if more || in_handshake && self.plant == Some(Plant::RecvInHandshake) {
            return Err("two operations are out".into());
        }
        let waits = |seal: &ClientSeal| seal.awaits_answer(*wire_received);
        if kind == OpKind::Recv && seal.as_ref().is_some_and(waits) {
            return Err("it receives, and the client's hello is not answered".into());
        }
        Ok(())
    }

    /// Notices that a peer left while its operation waits for the disk.
    fn notice(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let (now, cx, link) = (self.now(), self.cx, &mut self.links[at]);
        let (Some(kind), Some(conn)) = (link.at_disk(), &mut link.conn) else { return Ok(()) };
        if link.pipe.reset {
            link.broke = Some(kind);
            conn.cut(CloseReason::Reset, now, &cx);
            link.parked = None;
            return self.take_op(at);
        }
        if link.pipe.fin {
            conn.peer_ended(now, &cx);
            conn.check_invariants();
            link.deadline = conn.deadline().0;
        }
        Ok(())
    }

    /// Asks the disk before a `Send`; returns the time of its answer.
    fn prefetch(&mut self, at: usize) -> u64 {
        let (now, cx, link) = (self.now(), self.cx, &mut self.links[at]);
        if let Some(conn) = &mut link.conn
            && self.plant != Some(Plant::SlowDisk)
        {
            conn.wait_for_disk(now, &cx);
            conn.check_invariants();
        }
        trace::push(self.stamp, at, Event::AsksDisk);
        let never = self.hangs && self.dice.one_in(8);
        let answers = now.tick.0 + self.dice.below(self.warm_ms + 1);
        // The disk gets faster, so that a large body in small pieces ends.
        self.warm_ms -= self.warm_ms / 16;
        if never { NEVER - 1 } else { answers }
    }

    /// Notes that the disk has answered: the bytes can be sent.
    fn disk_answers(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let (now, cx, link) = (self.now(), self.cx, &mut self.links[at]);
        let (parked, conn) = (link.parked.as_mut(), link.conn.as_mut());
        let (parked, conn) = parked.zip(conn).ok_or("the disk answers nobody")?;
        parked.disk = NEVER;
        if self.plant != Some(Plant::SlowDisk) {
            conn.disk_answered(now, &cx);
            conn.check_invariants();
        }
        (link.deadline, link.waited) = (conn.deadline().0, now.tick.0);
        trace::push(self.stamp, at, Event::DiskAnswers);
        Ok(())
    }

    /// Checks that the description of a file still fits when the file begins to be sent.
    fn check_facts(&self, at: usize, outbox: &Outbox<SimFile>) -> Result<(), BrokenCheck> {
        let link = &self.links[at];
        let asked = link.requests.get(link.reader.count).map(|asked| &asked.request.content);
        // While content was discarded first, the file may have changed.
        if link.offered != Some(self.stamp) || asked != Some(&Content::None) {
            return Ok(());
        }
        let changed = outbox.segments().any(|segment| match segment {
            Segment::File { file, .. } => file.id() != file.stat(),
            Segment::Mem { .. } => false,
        });
        if changed { Err("a file is sent that is not what it was".into()) } else { Ok(()) }
    }

    /// Checks a request to the disk, and notes it.
    fn ask_disk(&mut self, at: usize, op: &Op<SimFile>) -> Result<(), BrokenCheck> {
        match op {
            Op::Open(_, req) => {
                check_open(req)?;
                let rules = &self.cx.site;
                let wanted = if rules.content.precompressed {
                    compressible(&req.path)
                } else {
                    regatta_op::Codings::NONE
                };
                let spared = !rules.caching.enabled && req.siblings.is_empty();
                if req.siblings != wanted && !spared {
                    return Err(format!("siblings asked for: {req:?}").into());
                }
                self.knowledge.ask(&req.path, at, self.stamp, self.stamp);
            }
            Op::Read(_, req)
                if req.buffer.capacity() < index(req.len)
                    || !req.buffer.is_empty()
                    || req.len > self.cx.site.caching.read_bytes_max as u64 =>
            {
                return Err(format!("a read without a buffer for it: {req:?}").into());
            }
            Op::Read(_, req) if req.len == 0 || req.at + req.len > file_len(req) => {
                return Err(format!("a read beyond its file: {req:?}").into());
            }
            _ => {}
        }
        Ok(())
    }

    /// Performs the operation that is out.
    fn perform(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let (now, cx) = (self.now(), self.cx);
        if self.refusals.turn_away(&mut self.links[at], self.stamp, now, &cx) {
            return self.take_op(at);
        }
        let parked = self.links[at].parked.take().ok_or("nothing is out")?;
        match parked.op {
            Op::Recv => self.receive(at),
            Op::Send(outbox) => self.send(at, outbox),
            Op::Open(ticket, req) => self.open(at, ticket, &req),
            Op::Read(ticket, req) => self.read(at, ticket, req),
            Op::Stat(ticket, file) => {
                let old = self.plant == Some(Plant::OldFacts);
                let id = if old { file.id() } else { file.stat() };
                // A body that has been read is remembered now, unless its file has changed.
                if let Some(name) = self.links[at].asking.take()
                    && id == file.id()
                {
                    self.knowledge.put(&name, at, self.stamp);
                }
                self.complete(at, Done::Stat(ticket, Ok(id)))
            }
            Op::Shut => {
                self.links[at].pipe.shut = true;
                self.links[at].shut = Some(self.stamp);
                self.links[at].peer.wake(self.stamp.tick);
                self.complete(at, Done::Shut)
            }
            Op::Close(_) => Err("it is closed already".into()),
        }
    }

    /// Passes a result to the core, checks the core, and takes its next operation.
    fn complete(&mut self, at: usize, done: Done<'_, SimFile>) -> Result<(), BrokenCheck> {
        let (now, cx) = (self.now(), self.cx);
        let conn = self.links[at].conn.as_mut().ok_or("it is told something after its end")?;
        conn.complete(done, now, &cx);
        conn.check_invariants();
        if conn.abandoned().is_some() {
            return Err("it has abandoned what was completed".into());
        }
        self.take_op(at)
    }

    fn receive(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let now = self.stamp;
        if let Some(fault) = self.fault(at, OpKind::Recv) {
            return self.complete(at, Done::Recv(Err(fault)));
        }
        let link = &mut self.links[at];
        let there = link.pipe.inbound.len() as u64;
        if there == 0 {
            link.ended = true;
            trace::push(now, at, Event::Ended);
            return self.complete(at, Done::Recv(Ok(&[])));
        }
        let n = if self.dice.one_in(4) { self.dice.between(1, there) } else { there };
        let mut bytes: Vec<u8> = link.pipe.inbound.drain(..index(n)).collect();
        if link.pipe.shut {
            link.lingered += n;
        }
        link.receive(n, now);
        trace::push(now, at, Event::Received(n));
        self.check_late_head(at)?;
        self.links[at].peer.wake(self.stamp.tick);
        self.spoil_input(at, &mut bytes);
        self.complete(at, Done::Recv(Ok(&bytes)))
    }

    fn send(&mut self, at: usize, mut outbox: Outbox<SimFile>) -> Result<(), BrokenCheck> {
        if self.plant == Some(Plant::EarlyClose) && self.dice.one_in(4) {
            return self.close(at, CloseReason::Finished);
        }
        if let Some(fault) = self.fault(at, OpKind::Send) {
            return self.complete(at, Done::Send(outbox, Err(fault)));
        }
        let room = self.links[at].pipe.room().min(outbox.len());
        if outbox.is_empty() || room == 0 {
            return Err("an empty outbox is sent".into());
        }
        let most = if self.dice.one_in(3) { self.dice.between(1, room) } else { room };
        let whole = self.dice.one_in(2);
        let mut bytes = gather(&outbox, most, whole);
        if bytes.is_empty() && self.plant == Some(Plant::PadShrunk) {
            bytes = vec![0; index(most)];
        }
        let n = bytes.len() as u64;
        outbox.advance(n);
        let left = outbox.len();
        if n == 0 {
            self.links[at].shrank = true;
        }
        self.spoil_output(&mut bytes, left);
        self.deliver(at, &bytes, n, left)?;
        self.links[at].held = left == 0 && outbox.ends();
        self.complete(at, Done::Send(outbox, Ok(n)))
    }

    /// Passes bytes to the kernel: they are judged, and sent on.
    fn deliver(&mut self, at: usize, bytes: &[u8], n: u64, left: u64) -> Result<(), BrokenCheck> {
        let now = self.stamp;
        let site = self.cx.site;
        trace::push(now, at, Event::Sent { bytes: n, left });
        let link = &mut self.links[at];
        link.sent += n;
        link.pipe.queued += n;
        link.pipe.pump();
        link.pipe.note_acked(now.tick);
        let offered = link.offered.ok_or("it was not offered")?;
        let mut reader = std::mem::take(&mut link.reader);
        let mut ended = Vec::new();
        let mut records = link.open(bytes)?;
        join_records(self.plant, &mut records);
        for (plain, end) in records {
            self.totals.sent += plain.len() as u64;
            link.moved = true;
            let was_idle = link.was_idle(reader.count);
            reader.feed(
                &plain,
                offered,
                |number| link.is_head(number),
                |number, response| {
                    ended.push((number, response, end));
                    Ok(())
                },
            )?;
            let begun = reader.unfinished();
            let response = begun.or(ended.last().map(|(_, response, _)| response));
            link.note_record(plain.len(), response, begun.is_none(), was_idle);
        }
        if left == 0 {
            link.offered = None;
            let moved = std::mem::take(&mut link.moved);
            if moved {
                link.rested = now;
            }
            link.check_records(!moved)?;
        }
        link.reader = reader;
        for (number, response, end) in ended {
            let judge = Judge { site, knowledge: &self.knowledge, link: &self.links[at] };
            let verdict = judge.judge(number, &response, &self.registry, true)?;
            if let Some((tag, shown)) = verdict.tagged {
                self.registry.note(&tag, (shown.id, shown.coding, shown.young))?;
            }
            trace::push(now, at, Event::Answered(response.status));
            self.totals.replies += 1;
            let link = &mut self.links[at];
            (link.terminal, link.last_status) = (verdict.terminal, response.status);
            // A body that was sent without a check of its file is not remembered.
            link.asking = None;
            link.ends.push(if link.seal.is_some() { end } else { response.end });
        }
        if left == 0 {
            self.links[at].check_last()?;
        }
        self.links[at].peer.wake(self.stamp.tick);
        Ok(())
    }

    fn open(&mut self, at: usize, ticket: Ticket, req: &OpenReq) -> Result<(), BrokenCheck> {
        let (seen, found) = self.disk.open(req);
        self.totals.opens += 1;
        let asked = regatta_op::Coding::ALL.into_iter().filter(|c| req.siblings.has(*c));
        self.totals.siblings += asked.count() as u64;
        trace::push(
            self.stamp,
            at,
            Event::Opened(name_of(&req.path), if found.is_ok() { "found" } else { "not there" }),
        );
        if let Ok(regatta_op::Opened::File { file, .. }) = &found
            && self.plant == Some(Plant::LeakFile)
        {
            self.leaked.push(file.clone());
        }
        let second = unix(self.stamp);
        self.knowledge.opened(&req.path, at, seen, self.stamp, second);
        let waits = matches!(seen, Seen::Fault(OpenFault::Exhausted | OpenFault::Busy));
        let link = &mut self.links[at];
        link.postponed = waits.then_some(link.reader.count);
        self.complete(at, Done::Open(ticket, found))?;
        // A file whose body is not read first is in the cache now.
        let link = &mut self.links[at];
        let reads = matches!(
            &link.parked, Some(Parked { op: Op::Read(ticket, _), .. }) if *ticket != WIRE
        );
        if reads && matches!(seen, Seen::File { .. }) {
            link.asking = Some(req.path.to_vec());
        } else {
            self.knowledge.put(&req.path, at, self.stamp);
        }
        Ok(())
    }

    fn read(
        &mut self,
        at: usize,
        ticket: Ticket,
        req: ReadReq<SimFile>,
    ) -> Result<(), BrokenCheck> {
        self.totals.reads += 1;
        let seals = ticket == WIRE;
        if self.dice.one_in(60) {
            trace::push(self.stamp, at, Event::Faulted(OpKind::Read));
            let link = &mut self.links[at];
            if seals {
                link.broke = Some(OpKind::Read);
            } else {
                link.unreadable.push(self.stamp);
                link.asking = None;
            }
            // A part may have arrived before the failure.
            let mut buffer = req.buffer;
            buffer.resize(index(self.dice.below(req.len + 1)), 0);
            return self.complete(at, Done::Read(ticket, buffer, Err(Fault::Other(5))));
        }
        let asked = req.len;
        let mut bytes = crate::disk::read(req);
        if self.plant == Some(Plant::OtherFile) {
            bytes.iter_mut().for_each(|byte| *byte ^= 1);
        }
        let brought = bytes.len() as u64;
        self.totals.read_bytes += brought;
        if brought < asked {
            self.links[at].shrank = true;
            self.links[at].asking = None;
        }
        trace::push(self.stamp, at, Event::Read { asked, brought });
        self.complete(at, Done::Read(ticket, bytes, Ok(())))
    }

    /// Ends a connection, and judges the end.
    fn close(&mut self, at: usize, reason: CloseReason) -> Result<(), BrokenCheck> {
        trace::push(self.stamp, at, Event::Closed(reason));
        let site = self.cx.site;
        self.totals.closed[reason as usize] += 1;
        let link = &mut self.links[at];
        link.closed = Some(reason);
        (link.conn, link.parked) = (None, None);
        self.totals.torn += u64::from(link.seal.is_some() && link.offered.is_some());
        let link = &self.links[at];
        let judge = Judge { site, knowledge: &self.knowledge, link };
        Closing { site, link, reason, now: self.stamp }.judge(&judge, &self.registry)
    }

    /// Handles a deadline that has passed.
    fn expire(&mut self, at: usize) -> Result<(), BrokenCheck> {
        let (now, cx) = (self.now(), self.cx);
        let link = &mut self.links[at];
        let conn = link.conn.as_mut().ok_or("it is called after its end")?;
        let before = conn.deadline();
        let queued =
            if self.plant == Some(Plant::AllQueued) { link.sent } else { link.pipe.queued };
        let now = match self.plant {
            Some(Plant::EarlyDeadlines) => Now { tick: before, ..now },
            _ => now,
        };
        conn.expire(queued, now, &cx);
        conn.check_invariants();
        let dropped = conn.abandoned().is_some();
        trace::push(self.stamp, at, Event::Expired { queued, dropped });
        if dropped {
            if link.given_up.0 <= link.rested {
                link.given_up = (self.stamp, link.pipe.acked);
            }
            if link.at_disk().is_some() {
                (link.overdue, link.waited) = (Some(self.stamp), self.stamp.tick);
            }
            link.parked = None;
            return self.take_op(at);
        }
        link.deadline = conn.deadline().0;
        if conn.deadline() <= before {
            return Err("a deadline has passed and nothing happens".into());
        }
        Ok(())
    }

    /// Drains every connection, as a server that goes away does.
    fn drain(&mut self) -> Result<(), BrokenCheck> {
        self.drains = NEVER;
        let (now, cx) = (self.now(), self.cx);
        for at in 0..self.links.len() {
            let link = &mut self.links[at];
            let Some(conn) = &mut link.conn else { continue };
            conn.drain(now, &cx);
            conn.check_invariants();
            link.deadline = conn.deadline().0;
            link.drained.get_or_insert(self.stamp);
            trace::push(self.stamp, at, Event::Drained);
        }
        Ok(())
    }

    /// Performs an act of a peer.
    fn act(&mut self, at: usize) -> Result<(), BrokenCheck> {
        if self.links[at].conn.is_none() {
            self.accept(at)?;
        }
        let now = self.stamp;
        let (dice, limits) = (&mut self.dice, &self.cx.site.limits);
        let link = &mut self.links[at];
        let mut acted = link.end().read();
        link.pipe.note_acked(now.tick);
        while link.may_send() && link.peer.asks(link.unanswered()) {
            let request =
                Maker { dice: &mut *dice, limits, hot: &self.disk.hot, registry: &self.registry }
                    .make();
            let start = link.requests.last().map_or(0, |last| last.end);
            let head_end = start + request.head_bytes;
            let end = start + request.wire.len() as u64;
            link.end().append(&request.wire);
            link.peer.left -= 1;
            link.requests.push(Asked { request, start, head_end, end });
            acted.fresh = true;
            if dice.one_in(3) {
                break;
            }
        }
        let answered = link.unanswered() == 0;
        if link.end().go_on(&mut acted, answered, now.tick, dice) {
            link.active = now.tick;
        }
        let Acted { read, sent, left, .. } = acted;
        for (n, event) in [(read, Event::PeerRead(read)), (sent, Event::PeerSent(sent))] {
            if n > 0 {
                trace::push(now, at, event);
            }
        }
        if left {
            let how = if link.pipe.reset { "reset" } else { "silence or half-close" };
            trace::push(now, at, Event::PeerLeft(how));
        }
        if left { self.notice(at) } else { Ok(()) }
    }

    /// Renders the requests of a connection.
    pub(crate) fn requests(&self, at: usize) -> String {
        let asked = self.links.get(at).map_or(&[][..], |link| &link.requests);
        let line = |(number, asked): (usize, &Asked)| {
            format!("#{at} request {number}: {}\n", asked.request.wire.escape_ascii())
        };
        asked.iter().enumerate().map(line).collect()
    }

    /// Draws a fault of the peer's socket, if any.
    fn fault(&mut self, at: usize, kind: OpKind) -> Option<Fault> {
        let link = &mut self.links[at];
        let fault = if link.pipe.reset {
            Fault::Reset
        } else if self.faulty && self.dice.one_in(100) {
            Fault::Other(110)
        } else {
            return None;
        };
        link.broke = Some(kind);
        trace::push(self.stamp, at, Event::Faulted(kind));
        Some(fault)
    }
}

/// Bytes of one call: of memory, then of a file; of both if `whole`.
pub(crate) fn gather(outbox: &Outbox<SimFile>, most: u64, whole: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(index(most.min(4096)));
    bytes.extend_from_slice(outbox.head());
    for segment in outbox.segments() {
        if bytes.len() as u64 >= most {
            break;
        }
        match segment {
            Segment::Mem { .. } => bytes.extend_from_slice(segment.memory().unwrap_or_default()),
            Segment::File { .. } if !bytes.is_empty() && !whole => break,
            Segment::File { file, at, len } => {
                let before = bytes.len() as u64;
                file.read(*at, (*len).min(most - before), &mut bytes);
                if bytes.len() as u64 - before < *len {
                    break;
                }
            }
        }
    }
    bytes.truncate(index(most));
    bytes
}

fn file_len(req: &ReadReq<SimFile>) -> u64 {
    regatta_op::File::len(&req.file)
}

/// Checks that a path to open is relative and has no segment that leads elsewhere.
pub(crate) fn check_open(req: &OpenReq) -> Result<(), BrokenCheck> {
    let bad = |segment: &[u8]| matches!(segment, b"" | b"." | b"..") || segment.contains(&0);
    if !req.path.is_empty() && req.path.split(|&byte| byte == b'/').any(bad) {
        return Err(format!("a path that must not be opened: {req:?}").into());
    }
    Ok(())
}
