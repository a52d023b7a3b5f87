//! Protocol of clients in schedules of several exchanges of a connection at once.
use crate::{
    BrokenCheck,
    dice::Dice,
    disk::{Disk, Seen},
    peer::Peer,
    trace::Stamp,
};
use regatta_op::CloseReason;

/// Sums of events in schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DuplexReport {
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
    /// Exchanges that clients ended before their answers.
    pub resets: u64,
    /// Connections whose server announced its end.
    pub goodbyes: u64,
    /// Connections whose client broke the rules.
    pub violations: u64,
    /// Files that were closed while their responses waited.
    pub files_closed: u64,
}

/// Operation of the disk: its connection and its ticket.
pub(crate) type OpenKey = (usize, u16);

/// Event that may change what a connection answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The disk has not answered in time.
    Overdue,
    /// A read has failed, or brought too little.
    Unreadable,
    /// The file of a body may have been opened again, and may have changed.
    Reopened,
    /// Requests are turned away from now on, or the next one is.
    TurnedAway,
    /// The server goes away.
    Drained,
}

/// Circumstances of bytes that a client receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Time of the first offer of their `Send`.
    pub(crate) offered: Stamp,
    /// Earliest time at which they may have been composed.
    pub(crate) composed: Stamp,
    /// Whether requests may fail in this schedule for reasons of the disk.
    pub(crate) excused: bool,
    /// Whether an operation may have waited for the driver for longer than the disk's limit.
    pub(crate) queued: bool,
    /// Whether bytes are offered as soon as they are composed.
    pub(crate) is_prompt: bool,
}

/// End of a connection, for its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineEnd {
    pub(crate) reason: CloseReason,
    /// Requests that the core has counted.
    pub(crate) requests: u32,
    /// Whether the peer takes and sends everything at once.
    pub(crate) is_quick: bool,
    /// Whether the core could learn that the peer is gone, or sends no more.
    pub(crate) is_gone: bool,
    /// Whether the peer sends no more.
    pub(crate) is_silent: bool,
    /// Whether a handshake is over, if there is one.
    pub(crate) greets: bool,
    /// Whether a record was altered, or an operation failed.
    pub(crate) is_broken: bool,
}

impl LineEnd {
    /// Whether a connection that ends for this reason has answered all that it received.
    pub(crate) const fn is_whole(&self) -> bool {
        is_whole(self.reason)
    }
}

/// Protocol of a schedule: what its clients send, and how they judge what they receive.
pub(crate) trait Talk {
    /// A peer's end of the protocol on one connection.
    type Client;

    /// Longest `Send` in the clear, bytes; `None`: a `Send` may also have ranges of files.
    const SEND_BYTES_MAX: Option<u64>;

    /// Notes the files that exist.
    fn note_files(&mut self, disk: &Disk);

    /// Notes that a name is to be opened, which was decided at this time or later.
    fn note_open(&mut self, _key: OpenKey, _path: &[u8], _decided: Stamp, _now: Stamp) {}

    /// Notes the result of an open.
    fn note_opened(&mut self, _key: OpenKey, _path: &[u8], _seen: Seen, _now: Stamp) {}

    /// Notes an event of a client's connection.
    fn note_trouble(&mut self, client: &mut Self::Client, trouble: Trouble, now: Stamp);

    /// Notes that the core has received the client's first `end` bytes.
    fn note_received(&mut self, _client: &mut Self::Client, _end: u64, _now: Stamp) {}

    /// Returns the next bytes of a client; `None`: nothing for now.
    fn say(
        &mut self,
        client: &mut Self::Client,
        peer: &mut Peer,
        dice: &mut Dice,
    ) -> Option<Vec<u8>>;

    /// Whether a client has something to send later, without being asked for it.
    fn will_say(&self, _client: &Self::Client) -> bool {
        false
    }

    /// Judges received bytes.
    fn feed(
        &mut self,
        client: &mut Self::Client,
        bytes: &[u8],
        arrival: &Arrival,
        report: &mut DuplexReport,
    ) -> Result<(), BrokenCheck>;

    /// Number of requests whose answers have arrived in full.
    fn answers(&self, client: &Self::Client) -> usize;

    /// Whether the connection may have ended with an answer to a beginning of a request, which is
    /// counted and is no request of the connection.
    fn may_be_unread(&self, _: &Self::Client) -> bool {
        false
    }

    /// Number of requests that were sent and have not been answered.
    fn unanswered(&self, client: &Self::Client) -> u64;

    /// Whether a connection may end for a reason of this protocol alone.
    fn may_end(&self, client: &Self::Client, end: &LineEnd) -> bool;

    /// Judges the end of a connection, whose reason is possible.
    fn judge_end(
        &mut self,
        client: &mut Self::Client,
        end: &LineEnd,
        report: &mut DuplexReport,
    ) -> Result<(), BrokenCheck>;
}

/// Whether a connection that ends for this reason has answered all that it received.
pub(crate) const fn is_whole(reason: CloseReason) -> bool {
    matches!(reason, CloseReason::PeerClosed | CloseReason::Drained | CloseReason::IdleDeadline)
}
