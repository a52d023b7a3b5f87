//! The whole porting surface: seven operations and their outcomes.
use crate::{File, FileId, Outbox};
use alloc::{boxed::Box, vec::Vec};

/// Names a disk operation among those that a connection has out; always 0 in HTTP/1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticket(pub u16);

/// The most disk operations that a connection has out at once, each with a ticket of its own. A
/// `Recv` and a `Send` may be out at the same time.
pub const DISK_OPS_MAX: usize = 4;

/// Operations that a connection had out and has given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// All of them.
    All,
    /// The disk operation with this ticket. The others are out as before.
    One(Ticket),
}

/// An operation that a connection asks for. It owns what it needs, so it can be retried in place,
/// queued to another thread, or lent to the kernel.
#[derive(Debug)]
pub enum Op<F> {
    /// Read some bytes from the peer, into any buffer the driver likes.
    Recv,
    /// Write some of these bytes to the peer.
    Send(Outbox<F>),
    /// Open and stat below the document root, with the siblings asked for. May block on disk.
    Open(Ticket, OpenReq),
    /// Read a file range into memory: the origin or the wire must see the bytes. May block on disk.
    Read(Ticket, ReadReq<F>),
    /// Fetch the facts of an open file again, before it is sent if it was opened earlier, or after
    /// its body has been read. Does not wait for a disk: the facts of an open file are in memory.
    Stat(Ticket, F),
    /// Half-close: no more bytes from us (RFC 9112 §9.6).
    Shut,
    /// The conversation is over: forget the connection and close its socket.
    Close(CloseReason),
}

/// The outcome of an operation.
#[derive(Debug)]
pub enum Done<'a, F> {
    /// Bytes from the peer; an empty slice is the end of its stream.
    Recv(Result<&'a [u8], Fault>),
    /// The outbox, advanced past the bytes that the kernel took, and their number. `Ok(0)` with
    /// bytes left means that the file behind them shrank.
    Send(Outbox<F>, Result<u64, Fault>),
    /// The opened file or directory.
    Open(Ticket, Result<Opened<F>, OpenFault>),
    /// The lent buffer, and whether it has the bytes of the range; fewer than asked for mean that
    /// the file shrank. After a fault its content means nothing.
    Read(Ticket, Vec<u8>, Result<(), Fault>),
    /// The facts of the file as they are now.
    Stat(Ticket, Result<FileId, Fault>),
    /// Our half is closed, or the socket was gone already: the difference does not matter.
    Shut,
}

/// An operation's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// [`Op::Recv`]
    Recv,
    /// [`Op::Send`]
    Send,
    /// [`Op::Open`]
    Open,
    /// [`Op::Read`]
    Read,
    /// [`Op::Stat`]
    Stat,
    /// [`Op::Shut`]
    Shut,
    /// [`Op::Close`]
    Close,
}

/// A path to open below a root, already decoded and free of dot segments.
///
/// The path is relative, with `/` between its segments and none at either end; the empty path is
/// the root itself. It holds no NUL, unless it is below another root than the first: then it starts
/// with that root's [`prefix`](Self::prefix). With a slash behind it, only a folder is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenReq {
    /// The path, with the prefix of its root.
    pub path: Box<[u8]>,
    /// Content codings with a precompressed sibling (`path` + `.br`, `.zst`, `.gz`) to open too, if
    /// `path` is a regular file.
    pub siblings: Codings,
}

impl OpenReq {
    /// First bytes of paths below the root of this number, which is not 0: NUL and the number. A
    /// path thus names a file of one host everywhere. Paths of the first host have no prefix.
    #[must_use]
    pub const fn prefix(root: u16) -> [u8; 3] {
        let [high, low] = root.to_be_bytes();
        [0, high, low]
    }

    /// The number of the root, and the path below it.
    #[must_use]
    pub fn below(&self) -> (u16, &[u8]) {
        match &*self.path {
            [0, high, low, path @ ..] => (u16::from_be_bytes([*high, *low]), path),
            path => (0, path),
        }
    }
}

/// A content coding with a precompressed form on disk (RFC 9110 §8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Coding {
    /// `br` (RFC 7932), sibling `.br`.
    Brotli = 0,
    /// `zstd` (RFC 8878), sibling `.zst`.
    Zstd = 1,
    /// `gzip` (RFC 1952), sibling `.gz`.
    Gzip = 2,
}

impl Coding {
    /// All codings, in the order in which the server prefers them.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// The registered name of the coding, as in `Content-Encoding`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// The suffix of the sibling file.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }
}

/// A set of content codings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Codings(u8);

impl Codings {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// All of [`Coding::ALL`].
    pub const ALL: Self = Self(0b111);

    /// This set and `coding`.
    #[must_use]
    pub const fn with(self, coding: Coding) -> Self {
        Self(self.0 | 1 << coding as u8)
    }

    /// True if `coding` is in the set.
    #[must_use]
    pub const fn has(self, coding: Coding) -> bool {
        self.0 & (1 << coding as u8) != 0
    }

    /// True if no coding is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Result of an [`Op::Open`] that succeeded.
#[derive(Clone, Debug)]
pub enum Opened<F> {
    /// A regular file, and the siblings that exist as regular files, indexed by [`Coding`].
    File {
        /// The file itself.
        file: F,
        /// The precompressed siblings.
        siblings: [Option<F>; 3],
    },
    /// A directory.
    Directory,
}

/// A range to read into memory, and the memory.
#[derive(Debug)]
pub struct ReadReq<F> {
    /// The file to read.
    pub file: F,
    /// Offset of the first byte.
    pub at: u64,
    /// Number of bytes; the site limits how many are asked for at once.
    pub len: u64,
    /// Buffer for the bytes: empty, and with room for them unless there is no memory. It is lent
    /// and returns with [`Done::Read`].
    pub buffer: Vec<u8>,
}

impl<F> ReadReq<F> {
    /// A range for which no buffer is lent: the reader makes one.
    #[must_use]
    pub const fn new(file: F, at: u64, len: u64) -> Self {
        Self { file, at, len, buffer: Vec::new() }
    }
}

/// Reason why an operation on the peer or on an open file failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The peer is gone: reset, broken pipe, timed out on the wire.
    Reset,
    /// A record could not be opened, or none could be made: the bytes received are not those sent.
    Record,
    /// The system refused with this error number.
    Other(i32),
}

/// Reason why an [`Op::Open`] found nothing to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFault {
    /// No such file.
    NotFound,
    /// No such file, but the root is being replaced: a retry soon searches the new one.
    RootReplaced,
    /// The file exists, but this process may not read it.
    Denied,
    /// The path leaves the root, or crosses a symbolic link where those are not allowed.
    Outside,
    /// The path names neither a regular file nor a directory.
    NotAFile,
    /// No descriptor or memory left; trying again later may work.
    Exhausted,
    /// In use: a lease on the file is being broken (fcntl(2)), or the tree kept changing under the
    /// resolution; trying again later may work.
    Busy,
    /// The system refused with this error number.
    Other(i32),
}

impl OpenFault {
    /// A code of three bits and an error number: a fault for shared memory or another process.
    #[must_use]
    pub const fn code(self) -> (u8, i32) {
        match self {
            Self::NotFound => (0, 0),
            Self::Denied => (1, 0),
            Self::Outside => (2, 0),
            Self::NotAFile => (3, 0),
            Self::Exhausted => (4, 0),
            Self::Busy => (5, 0),
            Self::RootReplaced => (6, 0),
            Self::Other(errno) => (7, errno),
        }
    }

    /// The fault that has this [`OpenFault::code`].
    #[must_use]
    pub const fn from_code(code: u8, errno: i32) -> Self {
        match code {
            0 => Self::NotFound,
            1 => Self::Denied,
            2 => Self::Outside,
            3 => Self::NotAFile,
            4 => Self::Exhausted,
            5 => Self::Busy,
            6 => Self::RootReplaced,
            _ => Self::Other(errno),
        }
    }
}

/// Every way in which a connection can end. Each is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CloseReason {
    /// The peer closed between requests.
    PeerClosed,
    /// The peer closed in the middle of a request.
    PeerAborted,
    /// The connection broke.
    Reset,
    /// The last response that this connection was to carry has been sent.
    Finished,
    /// No request came in time.
    IdleDeadline,
    /// A request head, or a body to be discarded, did not come in time.
    HeadDeadline,
    /// The peer took a response too slowly.
    SendDeadline,
    /// The disk did not answer in time.
    DiskDeadline,
    /// The request was malformed and has been answered accordingly.
    BadRequest,
    /// The file behind a response shrank while it was sent.
    Truncated,
    /// The server is going away.
    Drained,
    /// The system failed us.
    Failed,
    /// The connection was idle, and another one had no room.
    Displaced,
    /// The handshake was not over in time.
    HandshakeDeadline,
    /// Bytes from the peer could not be decrypted.
    BadRecord,
    /// A request was refused because the server had too much to do; the refusal has been sent.
    Refused,
}

impl From<Fault> for CloseReason {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Reset => Self::Reset,
            Fault::Record => Self::BadRecord,
            Fault::Other(_) => Self::Failed,
        }
    }
}

impl CloseReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::PeerClosed,
        Self::PeerAborted,
        Self::Reset,
        Self::Finished,
        Self::IdleDeadline,
        Self::HeadDeadline,
        Self::SendDeadline,
        Self::DiskDeadline,
        Self::BadRequest,
        Self::Truncated,
        Self::Drained,
        Self::Failed,
        Self::Displaced,
        Self::HandshakeDeadline,
        Self::BadRecord,
        Self::Refused,
    ];
}

impl<F> Op<F> {
    /// The name of this operation.
    #[must_use]
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::Recv => OpKind::Recv,
            Self::Send(_) => OpKind::Send,
            Self::Open(..) => OpKind::Open,
            Self::Read(..) => OpKind::Read,
            Self::Stat(..) => OpKind::Stat,
            Self::Shut => OpKind::Shut,
            Self::Close(_) => OpKind::Close,
        }
    }
}

impl<F: File> Done<'_, F> {
    /// The name of the operation that has this outcome.
    #[must_use]
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::Recv(_) => OpKind::Recv,
            Self::Send(..) => OpKind::Send,
            Self::Open(..) => OpKind::Open,
            Self::Read(..) => OpKind::Read,
            Self::Stat(..) => OpKind::Stat,
            Self::Shut => OpKind::Shut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_faults_name_one_each() {
        for code in 0..8 {
            let fault = OpenFault::from_code(code, 5);
            let errno = if matches!(fault, OpenFault::Other(_)) { 5 } else { 0 };
            assert_eq!(fault.code(), (code, errno));
        }
    }
}
