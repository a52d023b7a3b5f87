//! Mistakes that are put between the core and the world on purpose: the model must see each.

/// A mistake. Some are made once, as soon as they can be; others wherever they can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// One byte of a response is lost.
    DropByte,
    /// One byte of a response is sent twice.
    DoubleByte,
    /// One byte of a body is altered.
    FlipBody,
    /// One response is not sent at all.
    SkipResponse,
    /// One response is sent twice.
    RepeatResponse,
    /// What is missing from a file that shrank is padded.
    PadShrunk,
    /// A read brings the bytes of another file.
    OtherFile,
    /// The cache calls everything fresh.
    NeverStale,
    /// Deadlines are not looked at.
    NoDeadlines,
    /// Deadlines are looked at long before they have passed.
    EarlyDeadlines,
    /// The core is not told that what it sends has to wait for the disk.
    SlowDisk,
    /// A request is counted twice.
    Miscount,
    /// A file is never closed.
    LeakFile,
    /// A `Stat` brings the facts of when the file was opened.
    OldFacts,
    /// A byte that another connection's peer has sent comes first.
    SwapInput,
    /// The connection is closed while a response is being sent.
    EarlyClose,
    /// The kernel is said to hold all that was sent.
    AllQueued,
    /// `HEAD` arrives as `GET`.
    HeadAsGet,
    /// `Range` does not arrive.
    HideRange,
    /// `If-None-Match` does not arrive.
    HideCondition,
    /// `Accept-Encoding` does not arrive.
    HideCodings,
    /// `Connection` does not arrive.
    HideConnection,
    /// A status is altered.
    OtherStatus,
    /// The log forgets what it is told.
    ForgetRecord,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::DropByte,
        Self::DoubleByte,
        Self::FlipBody,
        Self::SkipResponse,
        Self::RepeatResponse,
        Self::PadShrunk,
        Self::OtherFile,
        Self::NeverStale,
        Self::NoDeadlines,
        Self::EarlyDeadlines,
        Self::SlowDisk,
        Self::Miscount,
        Self::LeakFile,
        Self::OldFacts,
        Self::SwapInput,
        Self::EarlyClose,
        Self::AllQueued,
        Self::HeadAsGet,
        Self::HideRange,
        Self::HideCondition,
        Self::HideCodings,
        Self::HideConnection,
        Self::OtherStatus,
        Self::ForgetRecord,
    ];

    /// A text that does not arrive as it was sent, and what arrives instead: of the same length.
    pub(crate) const fn rewrites(self) -> Option<(&'static [u8], &'static [u8])> {
        match self {
            Self::HeadAsGet => Some((b"HEAD /", b"GET //")),
            Self::HideRange => Some((b"\r\nRange:", b"\r\nXange:")),
            Self::HideCondition => Some((b"\r\nIf-None-Match:", b"\r\nXf-None-Match:")),
            Self::HideCodings => Some((b"\r\nAccept-Encoding:", b"\r\nXccept-Encoding:")),
            Self::HideConnection => Some((b"\r\nConnection: close", b"\r\nXonnection: close")),
            _ => None,
        }
    }
}
