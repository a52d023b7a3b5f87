//! A peer of a whole loop: what it asks for, in which pieces, how it takes the answers, and how it
//! behaves.
use super::{
    line::{Line, Sealed},
    place::{LAST, NAMES, Place},
};
use crate::kit::dice::Dice;
use regatta_sim::Client;
use std::{
    io,
    os::unix::net::{SocketAddr, UnixStream},
    time::Duration,
};

/// The most that a peer takes at once, bytes.
const TAKE_MAX: usize = 8_192;

/// What a sealed peer says that has got other records than were sent.
const GARBLED: &str = "a record that is not what was sent";

/// How long the machine may take to close a connection.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a peer behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Sends and takes everything, and leaves; or stays until it is left.
    Keen { stays: bool },
    /// Vanishes when it has sent and taken so many bytes.
    Leaves(usize),
    /// From then on neither sends nor takes anything.
    Stalls(usize),
}

/// A peer.
pub(super) struct Peer {
    pub(super) manner: Manner,
    /// The move before which it does not connect.
    pub(super) comes_at: u64,
    /// The move at which it was looked at last.
    pub(super) looked: u64,
    /// Which of the addresses it asks.
    to: usize,
    line: Line,
    /// Numbers of the requests, in HTTP.
    asks: Vec<usize>,
    /// It speaks frames.
    client: Option<Client>,
    out: Vec<u8>,
    /// Where each request ends in `out`.
    ends: Vec<usize>,
    written: usize,
    /// Requests that it sends ahead of their answers.
    ahead: usize,
    /// It says that it sends no more when it has sent all.
    shuts: bool,
    has_shut: bool,
    /// Which answer is coming, how much of it has come, and which of its two forms it may be. In
    /// frames: how many have come, and if there is anything of another.
    at: usize,
    came: usize,
    forms: [bool; 2],
    /// An answer said that it was the last.
    last: bool,
    /// The server has said that it does not wait any longer for the rest of a request.
    was_late: bool,
    /// The disk may have no answer: then it is told so, or its answer ends early.
    pub(super) may_fail: bool,
    pub(super) taken: u64,
    pub(super) connected: bool,
    /// It has left, or has been left.
    pub(super) over: bool,
    /// It has left before it was left.
    has_vanished: bool,
}

impl Peer {
    /// One that asks for something, in frames or in HTTP.
    pub(super) fn new(dice: &mut Dice, place: &Place, addresses: usize, frames: bool) -> Self {
        let client = frames.then(|| {
            let count = 1 + dice.below(24);
            let file = |_| u8::try_from(dice.below(NAMES.len() + 1)).expect("few");
            Client::new((0..count).map(file).collect())
        });
        let mut asks = Vec::new();
        for _ in 0..1 + if frames { 0 } else { dice.below(4) } {
            let ask = dice.below(place.asks.len());
            asks.push(ask);
            if place.asks[ask].is_last() {
                break;
            }
        }
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        for ask in &asks {
            out.extend_from_slice(&place.asks[*ask].request);
            ends.push(out.len());
        }
        if let Some(client) = &client {
            out = client.wire();
            ends = (1..=out.len() / 2).map(|request| 2 * request).collect();
        }
        let most = out.len() + 20_000;
        let manner = match dice.below(8) {
            0 => Manner::Leaves(dice.below(most)),
            1 => Manner::Stalls(dice.below(most)),
            other => Manner::Keen { stays: other == 2 },
        };
        Self {
            manner,
            comes_at: dice.below(60) as u64,
            looked: 0,
            to: dice.below(addresses),
            line: Line::default(),
            ahead: 1 + dice.below(asks.len()),
            asks,
            client,
            out,
            ends,
            written: 0,
            shuts: dice.once_in(4),
            has_shut: false,
            at: 0,
            came: 0,
            forms: [true; 2],
            last: false,
            was_late: false,
            may_fail: false,
            taken: 0,
            connected: false,
            over: false,
            has_vanished: false,
        }
    }

    /// True if all its answers have come.
    pub(super) const fn is_answered(&self) -> bool {
        self.at == self.ends.len() || self.last
    }

    /// True if its connection may have expired: it has not left, nor said that it sends
    /// no more and got its answers, nor been told that one of them was the last.
    pub(super) const fn may_have_been_waited_for(&self) -> bool {
        !self.has_vanished && !(self.is_answered() && (self.last || self.has_shut))
    }

    /// True if it was left between two requests, or before the first: nothing that it had sent was
    /// lost.
    pub(super) fn was_displaced(&self) -> bool {
        let answered = self.at.checked_sub(1).map_or(0, |last| self.ends[last]);
        let left = self.over && self.connected && !self.has_vanished && !self.is_answered();
        let spoilt = self.line.sealed.as_ref().is_some_and(Sealed::is_spoilt);
        left && !spoilt && self.came == 0 && (self.written == answered || self.line.holds_back())
    }

    /// Answers that have come in full.
    pub(super) const fn answers(&self) -> u64 {
        self.at as u64
    }

    /// True if nobody need wait for it: it has got all that it wants, or wants nothing any more.
    pub(super) fn is_done(&self) -> bool {
        self.over || self.is_answered() || self.is_stalled()
    }

    /// Bytes that it has sent and taken.
    fn moved(&self) -> usize {
        self.line.moved
    }

    fn is_stalled(&self) -> bool {
        matches!(self.manner, Manner::Stalls(after) if self.moved() >= after)
    }

    /// Does what it likes to do next, or surely all that it can; true if it could do something.
    /// `draining`: the server is going away.
    ///
    /// # Errors
    /// It has been sent what it may not be sent.
    pub(super) fn act(
        &mut self,
        dice: &mut Dice,
        place: &Place,
        addresses: &[SocketAddr],
        [draining, surely]: [bool; 2],
    ) -> Result<bool, String> {
        if self.over || self.connected && self.is_stalled() {
            return Ok(false);
        }
        if self.line.socket.is_none() {
            self.connected = true;
            match UnixStream::connect_addr(&addresses[self.to]) {
                Ok(socket) => {
                    socket.set_nonblocking(true).map_err(|error| error.to_string())?;
                    self.line.socket = Some(socket);
                }
                // Nobody listens any more.
                Err(_) => (self.connected, self.over) = (false, true),
            }
            return Ok(true);
        }
        if matches!(self.manner, Manner::Leaves(after) if self.moved() >= after) {
            // What it counted last may be the closing alert of a server that has left it.
            self.has_vanished = !self.line.is_left();
            self.leave();
            return Ok(true);
        }
        let stirred = self.stir()?;
        let wrote = (surely || !dice.once_in(4)) && self.write(dice);
        let took = (surely || !dice.once_in(4)) && self.take(dice, place, draining)?;
        if self.is_answered() && !self.over && self.manner == (Manner::Keen { stays: false }) {
            self.has_vanished = true;
            self.leave();
            return Ok(true);
        }
        Ok(wrote || took || stirred)
    }

    fn leave(&mut self) {
        self.line.socket = None;
        self.over = true;
    }

    /// Makes it one whose connection is sealed.
    pub(super) fn seal(&mut self, seed: u64) {
        let sealed = Sealed::new(seed);
        self.may_fail |= sealed.is_spoilt();
        self.line.sealed = Some(sealed);
    }

    /// Bytes that the wire has brought.
    pub(super) const fn brought(&self) -> u64 {
        self.line.brought
    }

    /// Shakes hands, or sends what has been sealed; true if it could.
    fn stir(&mut self) -> Result<bool, String> {
        match self.line.stir() {
            Ok(stirred) => Ok(stirred),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(GARBLED.to_owned()),
            Err(_) => {
                self.leave();
                Ok(true)
            }
        }
    }

    /// Sends a piece of what it may send; true if some was taken.
    fn write(&mut self, dice: &mut Dice) -> bool {
        let may = match &self.client {
            Some(client) => client.may_send(),
            None => self.ends[(self.at + self.ahead).min(self.ends.len()) - 1],
        };
        let left = self.out.get(self.written..may).unwrap_or_default();
        if left.is_empty() {
            let shuts = self.shuts && self.written == self.out.len() && !self.has_shut;
            self.has_shut |= shuts && self.line.shut();
            return shuts && self.has_shut;
        }
        let most = if dice.once_in(2) { left.len() } else { left.len().min(30) };
        let len = if dice.once_in(2) { most } else { 1 + dice.below(most) };
        match self.line.write(&left[..len]) {
            Ok(bytes) => {
                self.written += bytes;
                bytes > 0
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            // The other end is gone: what it said before is to be taken yet.
            Err(_) => {
                let more = self.written < self.out.len();
                self.out.truncate(self.written);
                more
            }
        }
    }

    /// Takes a piece of what has come; true if there was something, or the end.
    fn take(&mut self, dice: &mut Dice, place: &Place, draining: bool) -> Result<bool, String> {
        // Half of the time much, so that nobody is too slow for the server's patience.
        let most = if dice.once_in(2) { TAKE_MAX } else { 1 + dice.below(600) };
        self.take_at_most(most, place, draining)
    }

    /// Takes up to so many bytes; true if there were some, or the end.
    fn take_at_most(&mut self, most: usize, place: &Place, draining: bool) -> Result<bool, String> {
        if self.line.socket.is_none() {
            return Ok(false);
        }
        let mut buffer = [0; TAKE_MAX];
        match self.line.read(&mut buffer[..most]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(GARBLED.to_owned()),
            Ok(0) | Err(_) => {
                self.leave();
                Ok(true)
            }
            Ok(bytes) => {
                self.taken += bytes as u64;
                self.compare(&buffer[..bytes], place, draining)?;
                Ok(true)
            }
        }
    }

    /// Compares what has come with what must come.
    fn compare(&mut self, mut came: &[u8], place: &Place, draining: bool) -> Result<(), String> {
        if let Some(client) = &mut self.client {
            let (before, may_fail) = (client.answers(), self.may_fail);
            client.feed(came, &mut |answer| place.judge(&answer, may_fail))?;
            let told = client.is_told() && !draining;
            (self.at, self.came) = (client.answers(), usize::from(client.has_part()));
            debug_assert!(self.at >= before, "answers are not taken back");
            return if told { Err("the server does not go away".to_owned()) } else { Ok(()) };
        }
        while !came.is_empty() && !self.was_late {
            if self.came == 0 && self.is_stalled() && came.starts_with(b"HTTP/1.1 408 ") {
                // It has not finished its request in time, and is told so.
                self.was_late = true;
                return Ok(());
            }
            let ask = self.asks.get(self.at).filter(|_| !self.last);
            let Some(ask) = ask.map(|ask| &place.asks[*ask]) else {
                return Err(format!("{} bytes behind the last answer", came.len()));
            };
            let is_open = |form: &usize| self.forms[*form] && !ask.answers[*form].is_empty();
            let open: Vec<usize> = [0, LAST].into_iter().filter(is_open).collect();
            let left = open.iter().map(|form| ask.answers[*form].len() - self.came).min();
            let bytes = left.unwrap_or(0).min(came.len());
            let (now, later) = came.split_at(bytes);
            for form in open {
                self.forms[form] = ask.answers[form][self.came..][..bytes] == *now;
            }
            self.came += bytes;
            came = later;
            let is_open = |form: &usize| self.forms[*form] && !ask.answers[*form].is_empty();
            let open: Vec<usize> = [0, LAST].into_iter().filter(is_open).collect();
            let before = self.came - bytes;
            let status = b"HTTP/1.1 ".len();
            if self.may_fail && open.is_empty() && before <= status && now[status - before] == b'5'
            {
                // 503: nothing follows it.
                (self.was_late, self.last) = (true, true);
                return Ok(());
            }
            if open.is_empty() || bytes == 0 {
                let request = String::from_utf8_lossy(&ask.request);
                let what = String::from_utf8_lossy(&now[..now.len().min(200)]).into_owned();
                return Err(format!("wrong bytes before {} of {request:?}: {what:?}", self.came));
            }
            let Some(form) = open.into_iter().find(|form| ask.answers[*form].len() == self.came)
            else {
                continue;
            };
            if form == LAST && !ask.is_last() && !draining {
                return Err("an answer that says that it is the last, and need not be".to_owned());
            }
            self.last = form == LAST;
            (self.at, self.came, self.forms) = (self.at + 1, 0, [true; 2]);
        }
        Ok(())
    }

    /// The server is gone: takes what is left, and says whether this peer got what it should.
    /// `cut`: answers may have been cut short. `left`: requests may have been left unanswered.
    ///
    /// # Errors
    /// It did not.
    pub(super) fn close(&mut self, place: &Place, cut: bool, left: bool) -> Result<(), String> {
        if let Some(socket) = &self.line.socket {
            // Another test that looks through the descriptors of this process may hold the other
            // end for a moment longer.
            let patient = socket.set_nonblocking(false);
            patient.and(socket.set_read_timeout(Some(PATIENCE))).map_err(|it| it.to_string())?;
            let rest = self.line.rest().map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => GARBLED.to_owned(),
                _ => "its connection was left open".to_owned(),
            })?;
            self.line.socket = None;
            self.taken += rest.len() as u64;
            self.compare(&rest, place, left)?;
        }
        if self.may_fail {
            return Ok(());
        }
        if let Manner::Keen { .. } = self.manner {
            if !cut && self.came > 0 {
                return Err(format!("{} bytes of an answer that never ended", self.came));
            }
            if !left && !self.is_answered() && !self.was_displaced() {
                let (at, of) = (self.at, self.ends.len());
                return Err(format!("{at} of {of} requests were answered"));
            }
        }
        Ok(())
    }

    /// Where it stands, for whoever looks for what is wrong.
    pub(super) fn tell(&self) -> String {
        let Self { manner, at, came, written, taken, over, .. } = self;
        let (of, out) = (self.ends.len(), self.out.len());
        let there = if self.line.socket.is_some() { "connected" } else { "not connected" };
        format!(
            "{manner:?}, {there}, over: {over}; sent {written} of {out}, took {taken}; answer {at} \
             of {of}, {came} bytes of it"
        )
    }
}
