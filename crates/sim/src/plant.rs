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
    /// A `Recv` is offered alongside a `Send` of the handshake.
    RecvInHandshake,
    /// Bytes of the handshake wait as tickets do.
    HandshakeWaits,
    /// A message of the handshake must be whole in its record.
    WholeMessages,
    /// The handshake makes the core forget that the client has too many connections.
    LostLimit,
    /// A ticket does not wait for the first response.
    HastyTickets,
    /// Records are small again with each piece of a response.
    SmallAgain,
    /// Records stay large after the connection was idle.
    LargeFirst,
    /// The short rest of a response has a record of its own.
    ShortRest,
    /// The closing alert does not go with the last response.
    LateClosing,
    /// The closing alert is missing.
    NoClosing,
    /// The peer's closing alert is not answered.
    UnansweredClosing,
    /// No alert follows a record that cannot be opened.
    NoAlert,
    /// A byte more is sent than a window allows.
    WindowPlusOne,
    /// The ticket of an operation that is still out is used again.
    EarlyTicket,
    /// The fields of a response are sent again behind it, as trailers.
    SecondTrailers,
    /// A stream that is to end does not.
    LostEndStream,
    /// Bytes of a reset stream still count against the window of the connection.
    ResetCounted,
    /// A file that is opened again for a body is another one, with the facts of before.
    OldIdentity,
}

impl Plant {
    /// Mistakes that do not need a seal.
    pub const CLEAR: [Self; 24] = [
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

    /// Mistakes that need a seal, each with words of the violation that is to show it.
    pub const SEALED: [(Self, &'static str); 12] = [
        (Self::RecvInHandshake, "two operations are out"),
        (Self::HandshakeWaits, "the client's hello is not answered"),
        (Self::WholeMessages, "BadRecord in the handshake"),
        (Self::LostLimit, "where 429 belongs"),
        (Self::HastyTickets, "a ticket is sent alone"),
        (Self::SmallAgain, "and more follow"),
        (Self::LargeFirst, "after the connection was idle"),
        (Self::ShortRest, "have a record of their own"),
        (Self::LateClosing, "without the closing alert"),
        (Self::NoClosing, "ends as IdleDeadline, and its peer is not told"),
        (Self::UnansweredClosing, "ends as PeerClosed, and its peer is not told"),
        (Self::NoAlert, "ends as BadRecord, and its peer is not told"),
    ];

    /// Mistakes of HTTP/2, each with words of the violation that is to show it.
    pub const HTTP2: [(Self, &'static str); 6] = [
        (Self::WindowPlusOne, "and the window has"),
        (Self::EarlyTicket, "names two operations"),
        (Self::SecondTrailers, "fields of its response"),
        (Self::LostEndStream, "does not end with its content"),
        (Self::ResetCounted, "it ends for no reason: SendDeadline"),
        (Self::OldIdentity, "no answer to stream"),
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

/// Joins opened records, each with its end on the wire, if that mistake is planted.
pub(crate) fn join_records(plant: Option<Plant>, records: &mut Vec<(Vec<u8>, u64)>) {
    if plant == Some(Plant::LargeFirst)
        && let Some((mut last, end)) = records.pop()
    {
        let mut joined: Vec<u8> = records.drain(..).flat_map(|(plain, _)| plain).collect();
        joined.append(&mut last);
        records.push((joined, end));
    }
}
