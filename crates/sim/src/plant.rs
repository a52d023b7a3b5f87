//! Mistakes planted between the core and the world: the model must see each.

/// Planted mistake. Some are made once, as soon as possible; others wherever possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A byte of a response is lost.
    DropByte,
    /// A byte of a response is sent twice.
    DoubleByte,
    /// A byte of a body is altered.
    FlipBody,
    /// A response is not sent at all.
    SkipResponse,
    /// A response is sent twice.
    RepeatResponse,
    /// Bytes missing from a file that shrank are padded.
    PadShrunk,
    /// A read returns wrong bytes, as if from another file.
    OtherFile,
    /// The cache calls everything fresh.
    NeverStale,
    /// Deadlines are not checked.
    NoDeadlines,
    /// Deadlines are checked long before they have passed.
    EarlyDeadlines,
    /// The core does not learn that a `Send` has to wait for the disk.
    SlowDisk,
    /// A request too many is counted with each receive.
    Miscount,
    /// A file is never closed.
    LeakFile,
    /// A `Stat` returns the facts from the opening of the file.
    OldFacts,
    /// A byte sent by the peer of another connection arrives first.
    SwapInput,
    /// The connection is closed while a response is being sent.
    EarlyClose,
    /// The kernel appears to hold all that was sent.
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
    /// The log forgets its records.
    ForgetRecord,
}

impl Plant {
    /// All mistakes.
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

    /// Text that does not arrive as sent, and its replacement of the same length.
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
