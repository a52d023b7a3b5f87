//! Events of a schedule, kept as numbers and rendered as text on demand.
use regatta_op::{CloseReason, OpKind};
use std::{cell::RefCell, fmt};

/// A moment: virtual time, and a number that no two events share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    /// Order: of two events, the one with the lower step was first.
    pub(crate) step: u64,
    /// Milliseconds of virtual time.
    pub(crate) tick: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Accepted,
    Offered(OpKind),
    Received(u64),
    Ended,
    Sent { bytes: u64, left: u64 },
    Opened(&'static str, &'static str),
    Read { asked: u64, brought: u64 },
    Faulted(OpKind),
    Expired { queued: u64, dropped: bool },
    Drained,
    TurnedAway { dropped: bool },
    Closed(CloseReason),
    Answered(u16),
    AsksDisk,
    DiskAnswers,
    PeerSent(u64),
    PeerRead(u64),
    PeerLeft(&'static str),
    DiskChanged { name: &'static str, how: &'static str },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Accepted => write!(f, "accepted"),
            Self::Offered(kind) => write!(f, "  offers {kind:?}"),
            Self::Received(bytes) => write!(f, "receives {bytes}"),
            Self::Ended => write!(f, "receives the end"),
            Self::Sent { bytes, left } => write!(f, "sends {bytes}, {left} left"),
            Self::Opened(name, found) => write!(f, "opens {name}: {found}"),
            Self::Read { asked, brought } => write!(f, "reads {brought} of {asked}"),
            Self::Faulted(kind) => write!(f, "{kind:?} fails"),
            Self::Expired { queued, dropped: false } => write!(f, "goes on, {queued} queued"),
            Self::Expired { queued, .. } => write!(f, "is late, {queued} queued"),
            Self::Drained => write!(f, "is drained"),
            Self::TurnedAway { dropped: false } => write!(f, "is to be turned away"),
            Self::TurnedAway { .. } => write!(f, "is turned away"),
            Self::Closed(reason) => write!(f, "closes: {reason:?}"),
            Self::Answered(status) => write!(f, "  has answered {status}"),
            Self::AsksDisk => write!(f, "  waits for the disk"),
            Self::DiskAnswers => write!(f, "  the disk has answered"),
            Self::PeerSent(bytes) => write!(f, "  peer sends {bytes}"),
            Self::PeerRead(bytes) => write!(f, "  peer reads {bytes}"),
            Self::PeerLeft(how) => write!(f, "  peer leaves: {how}"),
            Self::DiskChanged { name, how } => write!(f, "{name} {how}"),
        }
    }
}

/// Number of an event without a connection.
pub(crate) const NOBODY: usize = usize::MAX;

/// An event with its time and its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line(pub(crate) Stamp, pub(crate) usize, pub(crate) Event);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(stamp, link, event) = self;
        write!(f, "{:>6} {:>8} ms ", stamp.step, stamp.tick)?;
        if *link == NOBODY {
            write!(f, "disk ")?
        } else {
            write!(f, "#{link:<3} ")?
        }
        write!(f, "{event}")
    }
}

thread_local! {
    static TRACE: RefCell<(Replay, Vec<Line>)> = const {
        RefCell::new((Replay { seed: 0, sealed: false, word: "--trace" }, Vec::new()))
    };
}

/// The command that runs a schedule again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replay {
    pub(crate) seed: u64,
    pub(crate) sealed: bool,
    /// Option that chooses the protocol; `--trace` for HTTP/1, whose events it shows.
    pub(crate) word: &'static str,
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, sealed, word } = self;
        let sealed = if *sealed { " --sealed" } else { "" };
        write!(f, "cargo run -p regatta-sim -- {word}{sealed} --seed {seed}")
    }
}

/// Starts the trace of a schedule.
pub(crate) fn start(replay: Replay) {
    TRACE.with_borrow_mut(|(current, lines)| {
        *current = replay;
        lines.clear();
    });
}

pub(crate) fn push(stamp: Stamp, link: usize, event: Event) {
    TRACE.with_borrow_mut(|(_, lines)| lines.push(Line(stamp, link, event)));
}

/// Returns the command that runs the last schedule of this thread again.
pub(crate) fn replay() -> Replay {
    TRACE.with_borrow(|(replay, _)| *replay)
}

/// Returns the connection of the last event that has one.
pub(crate) fn last_link() -> usize {
    TRACE.with_borrow(|(_, lines)| {
        let last = lines.iter().rev().find(|Line(_, link, _)| *link != NOBODY);
        last.map_or(NOBODY, |Line(_, link, _)| *link)
    })
}

/// Returns the last lines of this thread's schedule, at most `most`.
pub(crate) fn tail(most: usize) -> String {
    TRACE.with_borrow(|(_, lines)| {
        let start = lines.len().saturating_sub(most);
        lines[start..].iter().map(|line| format!("{line}\n")).collect()
    })
}
