//! The server's end: concurrent exchanges, without I/O.
use super::{EXCHANGES, FAILED, Kind, NOT_FOUND, PIECE_LOG_MAX, UNAVAILABLE, frame, parse};
use regatta_http::{FieldLines, Method, Status, conditional::RequestConditions, target::Target};
use regatta_metrics::Counter;
use regatta_op::{
    Abandoned, CloseReason, DISK_OPS_MAX, Done, File, Now, Op, Outbox, Segment, Tick, Ticket,
};
use regatta_origin::{Cx, Destination, Exchange, Protocol, Reply, Request, Step, Supply};
use std::mem;

/// The most frames of one `Send`.
const FRAMES_MAX: usize = 6;

/// Progress of an exchange.
#[derive(Debug)]
enum Stage<F> {
    /// An operation waits for a ticket.
    Wants(Step<F>),
    /// An operation is out.
    AtDisk(Ticket),
    /// Tried again later.
    Held,
    /// Remainder of its file to be sent.
    Sends(Segment<F>),
    /// Ends with this code.
    Ends(u8),
}

#[derive(Debug)]
struct Ongoing<F> {
    exchange: Box<Exchange<F>>,
    stage: Stage<F>,
    /// Time until which the disk must have answered, or at which it is asked again.
    until: Tick,
    status: Status,
    body_bytes: u64,
}

/// Activity of the connection, apart from exchanges that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No exchange is in progress.
    Idle,
    /// Exchanges wait for the disk, and nothing is to be sent.
    Waits,
    /// A `Send` is due, or out.
    Sends,
    /// The `Send` waits for the disk.
    Warms,
    /// A `Shut` of our half is due, or out.
    Shuts,
    /// Our half is closed; the peer must close its own.
    Lingers,
    /// The connection is over.
    Closes(CloseReason),
}

/// State of a connection.
#[derive(Debug)]
pub struct FramesSession<F> {
    names: &'static [&'static str],
    exchanges: [Option<Ongoing<F>>; EXCHANGES],
    /// First byte of a frame whose second has not arrived, and the deadline of the second.
    half: Option<(u8, Tick)>,
    /// Bytes of the next `Send`.
    out: Outbox<F>,
    /// Exchanges that end with `out` or with the current `Send`: status, and bytes of the body.
    /// Their numbers may be reused, because the frames that end them go first.
    ends: Vec<(Status, u64)>,
    /// Exchange that is checked first.
    turn: usize,
    phase: Phase,
    /// Deadline of the phase.
    deadline: Tick,
    /// Time of the last event, and the disk's limit from then on.
    now: Tick,
    disk_ms_max: u64,
    /// Deadline of the disk after the peer seems to have left.
    leaves: Tick,
    /// Operations that are out: a `Recv`, a `Send` or `Shut`, and those of the disk, by ticket.
    recv: bool,
    send: bool,
    at_disk: [bool; DISK_OPS_MAX],
    abandoned: Option<Abandoned>,
    /// Whether the peer sends no more.
    ended: bool,
    draining: bool,
    /// Whether the next request is turned away: none waited for the disk.
    refuses: bool,
    /// Whether the frame that announces the drain has been put into an outbox.
    said: bool,
    sent: u64,
    delivered: u64,
    requests: u32,
}

impl<F: File> FramesSession<F> {
    /// Makes the session of a connection that was just accepted.
    #[must_use]
    pub fn new(names: &'static [&'static str], now: Now, cx: &Cx<'_, F>) -> Self {
        Self {
            names,
            exchanges: [const { None }; EXCHANGES],
            half: None,
            out: Outbox::default(),
            ends: Vec::new(),
            turn: 0,
            phase: Phase::Idle,
            deadline: now.tick.after(cx.site.deadlines.first_request_ms_max),
            now: now.tick,
            disk_ms_max: cx.site.deadlines.disk_ms_max,
            leaves: Tick::NEVER,
            recv: false,
            send: false,
            at_disk: [false; DISK_OPS_MAX],
            abandoned: None,
            ended: false,
            draining: false,
            refuses: false,
            said: false,
            sent: 0,
            delivered: 0,
            requests: 0,
        }
    }

    /// Number of exchanges in progress.
    #[must_use]
    pub fn exchanges(&self) -> usize {
        self.exchanges.iter().flatten().count()
    }

    const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closes(_))
    }
}

impl<F: File> Protocol<F> for FramesSession<F> {
    fn next_op(&mut self) -> Option<Op<F>> {
        self.abandoned = None;
        match self.phase {
            Phase::Closes(reason) => return Some(Op::Close(reason)),
            Phase::Sends if !self.send => {
                self.send = true;
                return Some(Op::Send(mem::take(&mut self.out)));
            }
            Phase::Shuts if !self.send => {
                self.send = true;
                return Some(Op::Shut);
            }
            _ => {}
        }
        let op = self.disk_op();
        if op.is_some() || self.recv || self.ended {
            return op;
        }
        self.recv = true;
        Some(Op::Recv)
    }

    fn complete(&mut self, done: Done<'_, F>, now: Now, cx: &Cx<'_, F>) {
        let was_out = match &done {
            Done::Recv(_) => mem::take(&mut self.recv),
            Done::Send(..) | Done::Shut => mem::take(&mut self.send),
            Done::Open(ticket, _) | Done::Read(ticket, ..) | Done::Stat(ticket, _) => {
                self.at_disk.get_mut(usize::from(ticket.0)).is_some_and(mem::take)
            }
        };
        assert!(was_out, "an operation is completed once, as it is: {:?}", done.kind());
        if let Done::Send(_, Ok(n)) = &done {
            self.sent += n;
            cx.tally.add(Counter::BytesSent, *n);
        }
        if self.is_over() {
            return; // It was out when it ended.
        }
        match done {
            Done::Recv(Ok([])) => {
                self.ended = true;
                if self.half.is_some() {
                    return self.close(CloseReason::PeerAborted, cx);
                }
            }
            Done::Recv(Ok(bytes)) => self.receive(bytes, now, cx),
            Done::Send(out, Ok(n)) => self.on_sent(out, n, now, cx),
            Done::Recv(Err(fault)) | Done::Send(_, Err(fault)) => {
                return self.close(fault.into(), cx);
            }
            Done::Open(ticket, found) => self.supply(ticket, Supply::Opened(found), now, cx),
            Done::Read(ticket, buffer, read) => {
                self.supply(ticket, Supply::Read(buffer, read), now, cx);
            }
            Done::Stat(ticket, found) => self.supply(ticket, Supply::Stat(found), now, cx),
            Done::Shut => self.enter(Phase::Lingers, cx.site.deadlines.linger_ms_max, now),
        }
        self.settle(now, cx);
    }

    fn deadline(&self) -> Tick {
        if self.is_over() {
            return Tick::NEVER;
        }
        let half = self.half.iter().map(|(_, until)| *until);
        let exchanges = self.exchanges.iter().flatten().map(|ongoing| ongoing.until);
        half.chain(exchanges).fold(self.deadline.min(self.leaves), Tick::min)
    }

    fn expire(&mut self, queued: u64, now: Now, cx: &Cx<'_, F>) {
        let is_due = |tick: Tick| tick <= now.tick;
        if self.is_over() || !is_due(self.deadline()) {
            return;
        }
        if is_due(self.leaves) {
            return self.cut(CloseReason::PeerAborted, now, cx);
        }
        if self.half.is_some_and(|(_, until)| is_due(until)) {
            return self.cut(CloseReason::HeadDeadline, now, cx);
        }
        if is_due(self.deadline) {
            return self.look_at_peer(queued, now, cx);
        }
        let overdue = |it: &Option<Ongoing<F>>| it.as_ref().is_some_and(|it| is_due(it.until));
        let Some(at) = self.exchanges.iter().position(overdue) else { return };
        if matches!(self.exchanges[at], Some(Ongoing { stage: Stage::Held, .. })) {
            self.resume(at, Supply::Again, now, cx);
        } else {
            self.give_up(at);
        }
        self.settle(now, cx);
    }

    fn wait_for_disk(&mut self, now: Now, cx: &Cx<'_, F>) {
        assert!(
            self.phase == Phase::Sends && self.send,
            "only a `Send` may have to wait like that"
        );
        self.enter(Phase::Warms, cx.site.deadlines.disk_ms_max, now);
    }

    fn disk_answered(&mut self, now: Now, cx: &Cx<'_, F>) {
        assert_eq!(self.phase, Phase::Warms, "it has been told that it waits");
        self.leaves = Tick::NEVER;
        self.enter(Phase::Sends, cx.site.deadlines.send_window_ms, now);
    }

    fn peer_ended(&mut self, now: Now, cx: &Cx<'_, F>) {
        let until = now.tick.after(cx.site.deadlines.half_closed_ms_max);
        self.leaves = self.leaves.min(until);
    }

    fn held_up(&mut self, ms: u64) {
        let half = self.half.iter_mut().map(|(_, until)| until);
        let exchanges = self.exchanges.iter_mut().flatten().map(|ongoing| &mut ongoing.until);
        let all = half.chain(exchanges).chain([&mut self.deadline, &mut self.leaves]);
        all.filter(|tick| **tick != Tick::NEVER).for_each(|tick| *tick = tick.after(ms));
    }

    fn drain(&mut self, now: Now, cx: &Cx<'_, F>) {
        self.draining = true;
        self.settle(now, cx);
    }

    fn cut(&mut self, reason: CloseReason, _: Now, cx: &Cx<'_, F>) {
        if !self.is_over() {
            (self.recv, self.send, self.at_disk) = (false, false, [false; DISK_OPS_MAX]);
            self.abandoned = Some(Abandoned::All);
            self.close(reason, cx);
        }
    }

    fn turn_away(&mut self, now: Now, cx: &Cx<'_, F>) {
        match self.oldest_at_disk() {
            Some(at) => {
                self.give_up(at);
                self.settle(now, cx);
            }
            None => self.refuses = true,
        }
    }

    fn abandoned(&self) -> Option<Abandoned> {
        self.abandoned
    }

    fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.half.is_none()
    }

    fn awaits_request(&self, _: &[u8]) -> bool {
        false
    }

    /// Never: other exchanges may be answered meanwhile.
    fn tries_again(&self) -> bool {
        false
    }

    fn requests(&self) -> u32 {
        self.requests
    }

    fn check_invariants(&self) {
        let mut tickets = self.at_disk;
        for ongoing in self.exchanges.iter().flatten() {
            let waits = matches!(ongoing.stage, Stage::AtDisk(_) | Stage::Held);
            assert_eq!(waits, ongoing.until != Tick::NEVER, "the disk has a deadline, or none");
            if let Stage::AtDisk(ticket) = ongoing.stage {
                let out = mem::take(&mut tickets[usize::from(ticket.0)]);
                assert!(out, "one exchange has an operation with this ticket, which is out");
            }
        }
        assert!(self.is_over() || tickets == [false; DISK_OPS_MAX], "what is out is waited for");
        assert!(self.phase != Phase::Idle || self.exchanges() == 0, "what goes on is not idle");
        let sends = self.phase == Phase::Sends && !self.send;
        assert_eq!(!self.out.is_empty(), sends, "what is to be sent is offered");
        let more = self.is_over() || self.find(|stage| matches!(stage, Stage::Wants(_))).is_some();
        assert!(self.deadline() != Tick::NEVER || more, "what waits has a deadline");
    }
}

// Events.
impl<F: File> FramesSession<F> {
    /// Decides after the deadline of the phase has passed.
    fn look_at_peer(&mut self, queued: u64, now: Now, cx: &Cx<'_, F>) {
        let flows = self.flows(queued);
        let reason = match self.phase {
            Phase::Idle | Phase::Lingers if queued == 0 || !flows => {
                if self.draining {
                    CloseReason::Drained
                } else {
                    CloseReason::IdleDeadline
                }
            }
            Phase::Sends if !flows => CloseReason::SendDeadline,
            Phase::Warms => CloseReason::DiskDeadline,
            _ => {
                self.deadline = now.tick.after(cx.site.deadlines.send_window_ms);
                return;
            }
        };
        self.cut(reason, now, cx);
    }

    /// Parses received bytes.
    fn receive(&mut self, bytes: &[u8], now: Now, cx: &Cx<'_, F>) {
        for &byte in bytes {
            let Some((first, _)) = self.half.take() else {
                self.half = Some((byte, now.tick.after(cx.site.deadlines.head_ms_max)));
                continue;
            };
            match parse([first, byte]) {
                // The server goes away: later requests are not answered.
                _ if self.draining => {}
                Some((Kind::Ask, at, file)) if self.exchanges[at].is_none() => {
                    self.start(at, file, now, cx);
                }
                _ => return self.close(CloseReason::BadRequest, cx),
            }
        }
    }

    fn start(&mut self, at: usize, file: u8, now: Now, cx: &Cx<'_, F>) {
        self.requests += 1;
        cx.tally.add(Counter::Requests, 1);
        if mem::take(&mut self.refuses) {
            let (exchange, stage) = (Box::default(), Stage::Ends(UNAVAILABLE));
            let (until, status) = (Tick::NEVER, Status::SERVICE_UNAVAILABLE);
            self.exchanges[at] = Some(Ongoing { exchange, stage, until, status, body_bytes: 0 });
            return;
        }
        let name = self.names.get(usize::from(file)).copied().unwrap_or("nothing");
        let path = [b"/", name.as_bytes()].concat();
        let request = Request {
            method: Method::Get,
            target: Target::Path(&path),
            conditions: &RequestConditions::default(),
            range: None,
            accept_encoding: FieldLines::ABSENT,
            destination: Destination::Known { document: false, json: false, authorization: None },
            expects_unknown: false,
            too_large: false,
        };
        let mut exchange = Box::new(Exchange::default());
        let step = exchange.start(&request, now, cx);
        let (stage, until, status) = (Stage::Ends(0), Tick::NEVER, Status::OK);
        self.exchanges[at] = Some(Ongoing { exchange, stage, until, status, body_bytes: 0 });
        self.follow(at, step, now);
    }

    /// Performs a step of an exchange.
    fn follow(&mut self, at: usize, step: Step<F>, now: Now) {
        let (stage, until) = match step {
            Step::Hold(ms) => (Stage::Held, now.tick.after(ms)),
            Step::Open(_) | Step::Read(_) | Step::Stat(_) => (Stage::Wants(step), Tick::NEVER),
            Step::Cut => return self.end(at, Status::INTERNAL_SERVER_ERROR),
            Step::Reply(Reply::Nothing(status)) => return self.end(at, status),
            Step::Reply(Reply::File(file)) => match file.whole() {
                Some((Status::OK, body)) => (Stage::Sends(body), Tick::NEVER),
                _ => return self.end(at, Status::NOT_FOUND),
            },
            // A directory; no other request is refused here.
            Step::Reply(_) => return self.end(at, Status::NOT_FOUND),
        };
        let ongoing = self.exchanges[at].as_mut().expect("it goes on");
        (ongoing.stage, ongoing.until) = (stage, until);
        if let Stage::Sends(body) = &ongoing.stage {
            ongoing.body_bytes = body.len();
        }
    }

    /// Ends an exchange without a file.
    fn end(&mut self, at: usize, status: Status) {
        let ongoing = self.exchanges[at].as_mut().expect("it goes on");
        let code = match status {
            Status::NOT_FOUND => NOT_FOUND,
            Status::SERVICE_UNAVAILABLE => UNAVAILABLE,
            _ => FAILED,
        };
        (ongoing.stage, ongoing.until, ongoing.status) = (Stage::Ends(code), Tick::NEVER, status);
    }

    /// Ends an exchange without what it waits for. The disk's operation for it is given up.
    fn give_up(&mut self, at: usize) {
        let stage = self.exchanges[at].as_ref().map(|ongoing| &ongoing.stage);
        if let Some(&Stage::AtDisk(ticket)) = stage {
            self.at_disk[usize::from(ticket.0)] = false;
            self.abandoned = Some(Abandoned::One(ticket));
        }
        self.end(at, Status::SERVICE_UNAVAILABLE);
    }

    /// Resumes an exchange with the result that it waited for.
    fn resume(&mut self, at: usize, supply: Supply<F>, now: Now, cx: &Cx<'_, F>) {
        let ongoing = self.exchanges[at].as_mut().expect("it waits");
        let step = ongoing.exchange.resume(supply, now, cx);
        self.follow(at, step, now);
    }

    /// Passes a result of the disk to the exchange with this ticket.
    fn supply(&mut self, ticket: Ticket, supply: Supply<F>, now: Now, cx: &Cx<'_, F>) {
        self.leaves = Tick::NEVER;
        let at = self.find(|stage| matches!(stage, Stage::AtDisk(of) if *of == ticket));
        self.resume(at.expect("who has a ticket waits"), supply, now, cx);
    }

    fn on_sent(&mut self, out: Outbox<F>, n: u64, now: Now, cx: &Cx<'_, F>) {
        if !out.is_empty() {
            self.out = out;
            if n == 0 {
                self.close(CloseReason::Truncated, cx);
            }
            return;
        }
        for (status, body_bytes) in self.ends.drain(..) {
            cx.tally.reply(status.0, body_bytes);
        }
        // The next phase is decided after this.
        self.enter(Phase::Waits, 0, now);
    }

    /// First exchange at such a stage, from the one whose turn it is.
    fn find(&self, is_meant: impl Fn(&Stage<F>) -> bool) -> Option<usize> {
        let mut all = (0..EXCHANGES).map(|at| (self.turn + at) % EXCHANGES);
        all.find(|at| self.exchanges[*at].as_ref().is_some_and(|it| is_meant(&it.stage)))
    }

    /// The exchange whose operation has been out longest.
    fn oldest_at_disk(&self) -> Option<usize> {
        let all = (0..EXCHANGES).map(|at| (self.turn + at) % EXCHANGES);
        let out = all.filter_map(|at| match &self.exchanges[at] {
            Some(Ongoing { stage: Stage::AtDisk(_), until, .. }) => Some((at, *until)),
            _ => None,
        });
        out.min_by_key(|(_, until)| *until).map(|(at, _)| at)
    }

    /// Gives a ticket to the next exchange that wants one, if any is free.
    fn disk_op(&mut self) -> Option<Op<F>> {
        let free = self.at_disk.iter().position(|out| !out)?;
        let ticket = Ticket(u16::try_from(free).expect("there are few"));
        let at = self.find(|stage| matches!(stage, Stage::Wants(_)))?;
        let ongoing = self.exchanges[at].as_mut()?;
        self.at_disk[free] = true;
        ongoing.until = self.now.after(self.disk_ms_max);
        match mem::replace(&mut ongoing.stage, Stage::AtDisk(ticket)) {
            Stage::Wants(Step::Open(req)) => Some(Op::Open(ticket, req)),
            Stage::Wants(Step::Read(req)) => Some(Op::Read(ticket, req)),
            Stage::Wants(Step::Stat(file)) => Some(Op::Stat(ticket, file)),
            _ => unreachable!("it waits for no operation"),
        }
    }

    /// Composes frames of one `Send`, from one exchange after another.
    fn compose(&mut self) {
        for _ in 0..FRAMES_MAX {
            let sends = |stage: &Stage<F>| matches!(stage, Stage::Sends(_) | Stage::Ends(_));
            let Some(at) = self.find(sends) else { break };
            self.turn = (at + 1) % EXCHANGES;
            let mut ongoing = self.exchanges[at].take().expect("it was found");
            let code = match &mut ongoing.stage {
                Stage::Sends(body) if !body.is_empty() => {
                    let log = u8::try_from(body.len().ilog2()).expect("64 bits").min(PIECE_LOG_MAX);
                    let piece = split_front(body, 1 << log);
                    self.push(frame(Kind::Piece, at, log));
                    self.out.push(piece);
                    self.exchanges[at] = Some(ongoing);
                    continue;
                }
                Stage::Ends(code) => *code,
                _ => 0,
            };
            self.ends.push((ongoing.status, ongoing.body_bytes));
            self.push(frame(Kind::End, at, code));
        }
        if self.draining && !mem::replace(&mut self.said, true) {
            self.push(frame(Kind::GoesAway, 0, 0));
        }
    }

    fn push(&mut self, frame: [u8; 2]) {
        if self.out.is_empty() {
            self.out.start(frame.into());
        } else {
            self.out.push(Segment::mem(frame));
        }
    }

    /// Decides the next phase.
    fn settle(&mut self, now: Now, cx: &Cx<'_, F>) {
        self.now = now.tick;
        let deadlines = &cx.site.deadlines;
        let busy = matches!(self.phase, Phase::Idle | Phase::Waits);
        if !busy {
            // Also while a part of a `Send` has gone out.
            return;
        }
        self.compose();
        let has_exchanges = self.exchanges() > 0;
        if !self.out.is_empty() {
            self.enter(Phase::Sends, deadlines.send_window_ms, now);
        } else if has_exchanges {
            (self.phase, self.deadline) = (Phase::Waits, Tick::NEVER);
        } else if self.ended {
            let reason = if self.draining { CloseReason::Drained } else { CloseReason::PeerClosed };
            self.close(reason, cx);
        } else if self.draining {
            self.enter(Phase::Shuts, deadlines.linger_ms_max, now);
        } else if self.phase != Phase::Idle {
            self.enter(Phase::Idle, deadlines.idle_ms_max, now);
        }
    }

    const fn enter(&mut self, phase: Phase, ms: u64, now: Now) {
        (self.phase, self.deadline) = (phase, now.tick.after(ms));
    }

    /// Whether the peer has taken bytes since the last check.
    const fn flows(&mut self, queued: u64) -> bool {
        let has = self.sent.saturating_sub(queued);
        let flows = has > self.delivered;
        self.delivered = if flows { has } else { self.delivered };
        flows
    }

    /// Ends the connection: only `Close` follows. Operations that are out stay so until then.
    fn close(&mut self, reason: CloseReason, cx: &Cx<'_, F>) {
        let cut = self.exchanges.iter_mut().filter_map(Option::take).count() + self.ends.len();
        cx.tally.add(Counter::RepliesCut, cut as u64);
        cx.tally.add(Counter::closed(reason as usize), 1);
        (self.out, self.half) = (Outbox::default(), None);
        self.phase = Phase::Closes(reason);
    }
}

/// Takes this many bytes from the front.
fn split_front<F: File>(body: &mut Segment<F>, bytes: u64) -> Segment<F> {
    match body {
        Segment::File { file, at, len } => {
            let piece = Segment::File { file: file.clone(), at: *at, len: bytes };
            (*at, *len) = (*at + bytes, *len - bytes);
            piece
        }
        Segment::Mem { bytes: memory, at, .. } => {
            let end = *at + u32::try_from(bytes).expect("a piece is short");
            let piece = Segment::Mem { bytes: memory.clone(), at: *at, end };
            *at = end;
            piece
        }
    }
}
