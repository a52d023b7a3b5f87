//! A peer of a whole loop: what it asks for, in which pieces, how it takes the answers, and how it
//! behaves.
use super::{
    caller::{Caller, Script, Speech},
    folder::{Excuses, Folder, LAST},
    line::{Line, Sealed},
};
use crate::testing::dice::Dice;
use regatta_sim::BrokenCheck;
use std::{
    io,
    os::unix::net::{SocketAddr, UnixStream},
    time::Duration,
};

/// The most that a peer receives at once, bytes.
const TAKE_MAX: usize = 8_192;

/// The error of a sealed peer that received other records than were sent.
const GARBLED: &str = "a record that is not what was sent";

/// Longest time that the system may take to close a connection.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Sends and takes everything, and leaves; or stays until it is left.
    Keen { stays: bool },
    /// Vanishes when it has sent and taken this many bytes.
    Leaves(usize),
    /// Sends and takes nothing more after this many bytes.
    Stalls(usize),
}

pub(super) struct Peer {
    pub(super) behaviour: Behaviour,
    /// The move before which it does not connect.
    pub(super) comes_at: u64,
    /// The move at which it was checked last.
    pub(super) looked: u64,
    /// Index of the address that it asks.
    pub(super) to: usize,
    line: Line,
    /// Numbers of the requests, in HTTP.
    asks: Vec<usize>,
    /// Client of another protocol than HTTP/1, if the peer speaks that.
    client: Option<Caller>,
    out: Vec<u8>,
    /// End of what precedes the first request in `out`.
    start: usize,
    /// Ends of the requests in `out`.
    ends: Vec<usize>,
    written: usize,
    /// Requests that it pipelines.
    ahead: usize,
    /// Shuts its sending half when it has sent all.
    shuts: bool,
    has_shut: bool,
    /// Index of the answer that is coming, its bytes so far, and which of its two forms it may be.
    /// In frames: the answers that have come, and whether there is part of another.
    at: usize,
    came: usize,
    forms: [bool; 2],
    /// An answer said that it was the last.
    last: bool,
    /// A 408 or 503 has come: nothing more is compared.
    was_late: bool,
    /// The disk may fail: then an answer may be a 503 or end early.
    pub(super) may_fail: bool,
    /// A file may be replaced: then a response that has begun may be broken off.
    pub(super) may_change: bool,
    pub(super) taken: u64,
    pub(super) connected: bool,
    /// The connection is over: the peer has closed it, or the server has.
    pub(super) over: bool,
    /// The peer has closed its connection before the server did.
    has_vanished: bool,
}

impl Peer {
    /// A peer that asks for something, in this protocol.
    pub(super) fn new(dice: &mut Dice, folder: &Folder, addresses: usize, speech: Speech) -> Self {
        let client = Caller::new(dice, speech);
        let mut asks = Vec::new();
        for _ in 0..1 + if client.is_some() { 0 } else { dice.below(4) } {
            let ask = dice.below(folder.asks.len());
            asks.push(ask);
            if folder.asks[ask].is_last() {
                break;
            }
        }
        let (mut out, mut ends, mut start) = (Vec::new(), Vec::new(), 0);
        for ask in &asks {
            out.extend_from_slice(&folder.asks[*ask].request);
            ends.push(out.len());
        }
        if let Some(client) = &client {
            Script { out, ends, start } = client.script();
        }
        let may_shut = client.as_ref().is_none_or(Caller::may_shut);
        let most = out.len() + 20_000;
        let behaviour = match dice.below(8) {
            0 => Behaviour::Leaves(dice.below(most)),
            1 => Behaviour::Stalls(dice.below(most)),
            other => Behaviour::Keen { stays: other == 2 },
        };
        Self {
            behaviour,
            comes_at: dice.below(60) as u64,
            looked: 0,
            to: dice.below(addresses),
            line: Line::default(),
            ahead: 1 + dice.below(asks.len()),
            asks,
            client,
            out,
            start,
            ends,
            written: 0,
            shuts: dice.once_in(4) && may_shut,
            has_shut: false,
            at: 0,
            came: 0,
            forms: [true; 2],
            last: false,
            was_late: false,
            may_fail: false,
            may_change: false,
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

    /// True if its connection may have expired. It must not have vanished, nor have all its answers
    /// with the last of them saying so or after having shut its sending half.
    pub(super) const fn may_have_been_waited_for(&self) -> bool {
        !self.has_vanished && !(self.is_answered() && (self.last || self.has_shut))
    }

    /// True if the server closed its connection between two requests, or before the first.
    pub(super) fn was_displaced(&self) -> bool {
        let answered = self.at.checked_sub(1).map_or(0, |last| self.ends[last]);
        let left = self.over && self.connected && !self.has_vanished && !self.is_answered();
        let spoilt = self.line.sealed.as_ref().is_some_and(Sealed::is_spoilt);
        let is_idle = self.written == answered || self.at == 0 && self.written <= self.start;
        left && !spoilt && self.came == 0 && (is_idle || self.line.holds_back())
    }

    /// Answers that have come in full.
    pub(super) const fn answers(&self) -> u64 {
        self.at as u64
    }

    /// True if a schedule need not wait for it: it is over, has all its answers, or has stalled.
    pub(super) fn is_done(&self) -> bool {
        self.over || self.is_answered() || self.is_stalled()
    }

    /// Bytes that it has sent and taken.
    fn moved(&self) -> usize {
        self.line.moved
    }

    fn is_stalled(&self) -> bool {
        matches!(self.behaviour, Behaviour::Stalls(after) if self.moved() >= after)
    }

    /// Does what it does next by chance, or all that it can if `surely`; true if it could do
    /// something. `draining`: the server drains or stops.
    ///
    /// # Errors
    /// The server has sent what it may not send.
    pub(super) fn act(
        &mut self,
        dice: &mut Dice,
        folder: &Folder,
        addresses: &[SocketAddr],
        [draining, surely]: [bool; 2],
    ) -> Result<bool, BrokenCheck> {
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
                // The listener is closed.
                Err(_) => (self.connected, self.over) = (false, true),
            }
            return Ok(true);
        }
        if matches!(self.behaviour, Behaviour::Leaves(after) if self.moved() >= after) {
            // The last bytes counted may be the closing alert of a server that has closed its end.
            self.has_vanished = !self.line.is_left();
            self.leave();
            return Ok(true);
        }
        let stirred = self.stir()?;
        let wrote = (surely || !dice.once_in(4)) && self.write(dice);
        let took = (surely || !dice.once_in(4)) && self.receive_piece(dice, folder, draining)?;
        if self.is_answered() && !self.over && self.behaviour == (Behaviour::Keen { stays: false })
        {
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
        // Half of those that stall do so in their handshake.
        if let Behaviour::Stalls(after) = &mut self.behaviour
            && *after % 2 == 0
        {
            *after %= 64;
        }
        self.line.sealed = Some(sealed);
    }

    /// True if its connection is sealed.
    pub(super) const fn is_sealed(&self) -> bool {
        self.line.sealed.is_some()
    }

    /// Bytes received, sealed or not.
    pub(super) const fn brought(&self) -> u64 {
        self.line.brought
    }

    /// Shakes hands, or sends what has been sealed; true if there was something to do.
    fn stir(&mut self) -> Result<bool, BrokenCheck> {
        match self.line.stir() {
            Ok(stirred) => Ok(stirred),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(GARBLED.into()),
            Err(_) => {
                self.leave();
                Ok(true)
            }
        }
    }

    /// Sends a piece of what it may send; true if some was taken.
    fn write(&mut self, dice: &mut Dice) -> bool {
        let may = match &self.client {
            Some(client) => client.may_send().min(self.out.len()),
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
            // The server has closed its end; what it sent before is still to be received.
            Err(_) => {
                let more = self.written < self.out.len();
                self.out.truncate(self.written);
                more
            }
        }
    }

    /// Takes a piece of what has come; true if there was something, or the end.
    fn receive_piece(
        &mut self,
        dice: &mut Dice,
        folder: &Folder,
        draining: bool,
    ) -> Result<bool, BrokenCheck> {
        // Half of the time much, so that no peer is slower than `send_rate_min`.
        let most = if dice.once_in(2) { TAKE_MAX } else { 1 + dice.below(600) };
        self.take_at_most(most, folder, draining)
    }

    /// Receives at most `most` bytes; true if there were some, or the end.
    fn take_at_most(
        &mut self,
        most: usize,
        folder: &Folder,
        draining: bool,
    ) -> Result<bool, BrokenCheck> {
        if self.line.socket.is_none() {
            return Ok(false);
        }
        let mut buffer = [0; TAKE_MAX];
        match self.line.read(&mut buffer[..most]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(GARBLED.into()),
            Ok(0) | Err(_) => {
                self.leave();
                Ok(true)
            }
            Ok(bytes) => {
                self.taken += bytes as u64;
                self.compare(&buffer[..bytes], folder, draining)?;
                Ok(true)
            }
        }
    }

    /// Compares what was received with the right answers.
    fn compare(
        &mut self,
        mut came: &[u8],
        folder: &Folder,
        draining: bool,
    ) -> Result<(), BrokenCheck> {
        if let Some(client) = &mut self.client {
            let before = client.answers();
            let excuses = Excuses { may_fail: self.may_fail, may_change: self.may_change };
            client.feed(came, &mut |answer| folder.judge(&answer, excuses))?;
            let told = client.is_told() && !draining;
            (self.at, self.came) = (client.answers(), usize::from(client.has_part()));
            debug_assert!(self.at >= before, "answers are not taken back");
            return if told { Err("the server does not go away".into()) } else { Ok(()) };
        }
        while !came.is_empty() && !self.was_late {
            if self.came == 0 && self.is_stalled() && came.starts_with(b"HTTP/1.1 408 ") {
                // The peer has not finished its request in time, and the server says so.
                self.was_late = true;
                return Ok(());
            }
            let ask = self.asks.get(self.at).filter(|_| !self.last);
            let Some(ask) = ask.map(|ask| &folder.asks[*ask]) else {
                return Err(format!("{} bytes behind the last answer", came.len()).into());
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
                return Err(
                    format!("wrong bytes before {} of {request:?}: {what:?}", self.came).into()
                );
            }
            let Some(form) = open.into_iter().find(|form| ask.answers[*form].len() == self.came)
            else {
                continue;
            };
            if form == LAST && !ask.is_last() && !draining {
                return Err("an answer that says that it is the last, and need not be".into());
            }
            self.last = form == LAST;
            (self.at, self.came, self.forms) = (self.at + 1, 0, [true; 2]);
        }
        Ok(())
    }

    /// All loops have returned: receives what is left, and checks it.
    /// `cut`: answers may have been cut short. `left`: requests may have been left unanswered.
    ///
    /// # Errors
    /// The peer did not get what it should.
    pub(super) fn close(
        &mut self,
        folder: &Folder,
        cut: bool,
        left: bool,
    ) -> Result<(), BrokenCheck> {
        if let Some(socket) = &self.line.socket {
            // Another test that looks through the descriptors of this process may hold the other
            // end for a moment longer.
            let patient = socket.set_nonblocking(false);
            patient.and(socket.set_read_timeout(Some(PATIENCE))).map_err(|it| it.to_string())?;
            let rest = self.line.rest().map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => GARBLED,
                _ => "its connection was left open",
            })?;
            self.line.socket = None;
            self.taken += rest.len() as u64;
            self.compare(&rest, folder, left)?;
        }
        if self.may_fail {
            return Ok(());
        }
        if let Behaviour::Keen { .. } = self.behaviour {
            if !cut && self.came > 0 {
                return Err(format!("{} bytes of an answer that never ended", self.came).into());
            }
            if !left && !self.is_answered() && !self.was_displaced() {
                let (at, of) = (self.at, self.ends.len());
                return Err(format!("{at} of {of} requests were answered").into());
            }
        }
        Ok(())
    }

    /// Describes its state, for the report of a failure.
    pub(super) fn state(&self) -> String {
        let Self { behaviour, at, came, written, taken, over, .. } = self;
        let (of, out) = (self.ends.len(), self.out.len());
        let there = if self.line.socket.is_some() { "connected" } else { "not connected" };
        format!(
            "{behaviour:?}, {there}, over: {over}; sent {written} of {out}, took {taken}; \
             answer {at} of {of}, {came} bytes of it"
        )
    }
}
