//! The peer: its sends, reads and departure, and the pipe between.
use crate::dice::{Dice, index};
use regatta_origin::Deadlines;
use std::collections::VecDeque;

/// Tick of an event that never happens.
pub(crate) const NEVER: u64 = u64::MAX;

/// The two kernels and the network of one connection. Only counts are kept of what the server
/// sends; the bytes are judged when the server's kernel takes them.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    /// Bytes that the peer has sent and the server has not received.
    pub(crate) inbound: VecDeque<u8>,
    pub(crate) inbound_max: u64,
    /// Whether the peer sends no more.
    pub(crate) fin: bool,
    /// Whether the peer is gone.
    pub(crate) reset: bool,
    /// Bytes taken from the server that the peer's kernel has not acknowledged.
    pub(crate) queued: u64,
    pub(crate) queued_max: u64,
    /// Total of bytes that the peer's kernel has acknowledged.
    pub(crate) acked: u64,
    /// Times, and the bytes that it had acknowledged by each.
    acks: Vec<(u64, u64)>,
    pub(crate) window: u64,
    /// Bytes that the peer has read.
    pub(crate) read: u64,
    /// Whether the server sends no more.
    pub(crate) shut: bool,
}

impl Pipe {
    /// Number of bytes that the server's kernel takes.
    pub(crate) fn room(&self) -> u64 {
        self.queued_max.saturating_sub(self.queued)
    }

    /// Number of bytes that the peer can send.
    pub(crate) fn inbound_room(&self) -> u64 {
        self.inbound_max.saturating_sub(self.inbound.len() as u64)
    }

    /// Moves what fits from one kernel to the other.
    pub(crate) fn pump(&mut self) {
        if self.reset {
            return;
        }
        let moved = self.queued.min(self.window.saturating_sub(self.acked - self.read));
        self.queued -= moved;
        self.acked += moved;
    }

    /// Notes the bytes acknowledged by now.
    pub(crate) fn note_acked(&mut self, tick: u64) {
        if self.acks.last().map_or(0, |(_, acked)| *acked) < self.acked {
            self.acks.push((tick, self.acked));
        }
    }

    /// Bytes that the peer had acknowledged before `tick`.
    pub(crate) fn acked_before(&self, tick: u64) -> u64 {
        let at = self.acks.partition_point(|(when, _)| *when < tick);
        at.checked_sub(1).map_or(0, |at| self.acks[at].1)
    }

    /// Bytes that the peer acknowledged from `tick` on.
    pub(crate) fn acked_since(&self, tick: u64) -> u64 {
        self.acked - self.acked_before(tick)
    }
}

/// Bytes that a peer must take in this many milliseconds.
pub(crate) fn due(deadlines: &Deadlines, ms: u64) -> u64 {
    (deadlines.send_rate_min * ms / 1000).max(1)
}

/// Way in which a peer reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All that has arrived, at once.
    #[default]
    Prompt,
    /// At most this many bytes at a time.
    Slow(u64),
    /// This many bytes, and no more.
    Until(u64),
}

/// Act of a peer without further requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    #[default]
    Silence,
    HalfClose,
    Reset,
}

/// A peer's habits, and its remaining acts.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// Number of requests that it still has to make.
    pub(crate) left: u64,
    /// The most unanswered requests at once.
    pub(crate) burst: u64,
    pub(crate) out: VecDeque<u8>,
    pub(crate) sent: u64,
    /// The most bytes in one piece.
    piece: u64,
    /// The longest pause between two actions, milliseconds.
    pace: u64,
    /// A pause that it makes before some requests, milliseconds.
    think: u64,
    pub(crate) reading: Reading,
    ending: Ending,
    /// Sent bytes at which it leaves, whatever is in progress.
    leaves_at: u64,
    pub(crate) left_how: Option<Ending>,
    /// Whether it closes its half after the server has closed its own.
    polite: bool,
    /// Time of its next act.
    pub(crate) next: u64,
}

impl Peer {
    /// Draws the habits of a peer.
    pub(crate) fn new(dice: &mut Dice) -> (Self, Pipe) {
        let reading = match dice.below(10) {
            0 => Reading::Slow(dice.between(1, 40)),
            1 => Reading::Slow(dice.between(100, 5_000)),
            2 => Reading::Until(dice.pick(&[0, 0, 100, 3_000])),
            _ => Reading::Prompt,
        };
        let peer = Self {
            left: dice.pick(&[0, 1, 2, 3, 5, 9, 20, 30]),
            burst: dice.pick(&[1, 1, 1, 2, 4, 20]),
            piece: dice.pick(&[1 << 20, 1 << 20, 1 << 20, 300, 40, 5, 1]),
            pace: dice.pick(&[0, 0, 2, 20, 200]),
            think: dice.pick(&[0, 0, 10, 300, 1_500, 70_000]),
            reading,
            ending: dice.pick(&[
                Ending::Silence,
                Ending::HalfClose,
                Ending::HalfClose,
                Ending::Reset,
            ]),
            leaves_at: if dice.one_in(12) { dice.below(1_000) } else { NEVER },
            polite: !dice.one_in(4),
            next: dice.below(300),
            ..Self::default()
        };
        let pipe = Pipe {
            inbound_max: dice.pick(&[1 << 20, 4_096, 64]),
            queued_max: dice.pick(&[1 << 20, 1 << 16, 5_000, 700]),
            window: dice.pick(&[1 << 20, 1 << 16, 2_000, 100]),
            ..Pipe::default()
        };
        (peer, pipe)
    }

    /// Stops the peer after this many sent bytes; it stays connected.
    pub(crate) const fn stalls_at(&mut self, bytes: u64) {
        (self.leaves_at, self.ending) = (bytes, Ending::Silence);
    }

    /// Whether it reads all that arrives, at once.
    pub(crate) fn is_prompt(&self) -> bool {
        self.reading == Reading::Prompt
    }

    /// Whether it reads all at once, and sends without long pauses.
    pub(crate) fn is_quick(&self) -> bool {
        self.is_prompt() && self.piece >= 300 && self.pace <= 20 && self.think <= 300
    }

    /// Reads, and returns the number of bytes.
    pub(crate) fn read(&self, pipe: &mut Pipe) -> u64 {
        let there = pipe.acked - pipe.read;
        let taken = match self.reading {
            _ if self.left_how == Some(Ending::Reset) => 0,
            Reading::Prompt => there,
            // It gets faster with time, so that every schedule ends.
            Reading::Slow(most) => there.min(most + pipe.read / 64),
            Reading::Until(end) => there.min(end.saturating_sub(pipe.read)),
        };
        pipe.read += taken;
        pipe.pump();
        taken
    }

    /// Sends a piece, and returns the number of bytes.
    pub(crate) fn send(&mut self, pipe: &mut Pipe, dice: &mut Dice) -> u64 {
        if self.left_how.is_some() {
            return 0;
        }
        let most = self.piece.min(pipe.inbound_room()).min(self.leaves_at - self.sent);
        let most = most.min(self.out.len() as u64);
        if most == 0 {
            return 0;
        }
        let n = if dice.one_in(2) { most } else { dice.between(1, most) };
        pipe.inbound.extend(self.out.drain(..index(n)));
        self.sent += n;
        n
    }

    /// Decides whether it leaves now. `answered`: it has read a response to each request.
    pub(crate) fn leaves(&mut self, pipe: &mut Pipe, answered: bool) -> bool {
        if self.left_how.is_some() {
            return false;
        }
        let done = self.out.is_empty() && self.left == 0 && (answered || self.burst > 1);
        let told = pipe.shut && pipe.read == pipe.acked && pipe.queued == 0 && self.polite;
        if !(done || told || self.sent >= self.leaves_at) {
            return false;
        }
        let how = if told { Ending::HalfClose } else { self.ending };
        self.left_how = Some(how);
        match how {
            Ending::Silence => {}
            Ending::HalfClose => pipe.fin = true,
            Ending::Reset => pipe.reset = true,
        }
        true
    }

    /// Whether it may send another request while this many responses are missing.
    pub(crate) fn asks(&self, unanswered: u64) -> bool {
        self.left_how.is_none() && self.out.is_empty() && self.left > 0 && unanswered < self.burst
    }

    /// Schedules an act soon, because something has changed for the peer.
    pub(crate) fn wake(&mut self, tick: u64) {
        let pause = if self.is_prompt() { 0 } else { 5 };
        self.next = self.next.min(tick + pause);
    }

    /// Milliseconds to the next action; `fresh`: before a request.
    pub(crate) fn pause(&self, fresh: bool, dice: &mut Dice) -> u64 {
        let think = if fresh && dice.one_in(4) { self.think } else { 0 };
        let slow = if self.is_prompt() { 0 } else { 5 };
        think + slow + dice.below(self.pace + 1)
    }
}
