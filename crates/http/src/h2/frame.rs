//! Frames of HTTP/2 (RFC 9113 §4, §6): heads and payloads to values, and values to bytes.
//!
//! These are the rules for a single frame that a server receives. Rules on the order of frames and
//! on the state of a stream are the session's.
use alloc::vec::Vec;

/// Bytes that a client sends first (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of the head of a frame.
pub const FRAME_HEAD_BYTES: usize = 9;
/// The largest payload before any setting, bytes (RFC 9113 §6.5.2).
pub const FRAME_BYTES_DEFAULT: u32 = 1 << 14;
/// The largest payload that a setting can allow, bytes.
pub const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;
/// The initial window of a connection and, before any setting, of a stream, bytes.
pub const WINDOW_BYTES_DEFAULT: u32 = (1 << 16) - 1;
/// The largest window, bytes, and the largest number of a stream.
pub const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Flag of DATA and HEADERS: the last frame of its stream.
pub const END_STREAM: u8 = 0x1;
/// Flag of SETTINGS and PING: an answer.
pub const ACK: u8 = 0x1;
/// Flag of HEADERS and CONTINUATION: the end of the field block.
pub const END_HEADERS: u8 = 0x4;
/// Flag of DATA and HEADERS: the payload is padded.
pub const PADDED: u8 = 0x8;
/// Flag of HEADERS: the payload has a priority of RFC 7540.
pub const PRIORITY: u8 = 0x20;

/// Type of a frame (RFC 9113 §6, RFC 9218 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// Content.
    Data,
    /// The start of a field block.
    Headers,
    /// A priority of RFC 7540, which has no meaning any more.
    Priority,
    /// The end of a stream, with an error.
    RstStream,
    /// Settings of the peer, or the acknowledgement of ours.
    Settings,
    /// A promise, which clients must not make.
    PushPromise,
    /// A test of the connection.
    Ping,
    /// The end of the connection.
    GoAway,
    /// More room in a window.
    WindowUpdate,
    /// More of a field block.
    Continuation,
    /// A priority of RFC 9218.
    PriorityUpdate,
    /// A type that is skipped.
    Unknown(u8),
}

impl FrameKind {
    /// The type with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Data,
            1 => Self::Headers,
            2 => Self::Priority,
            3 => Self::RstStream,
            4 => Self::Settings,
            5 => Self::PushPromise,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            16 => Self::PriorityUpdate,
            other => Self::Unknown(other),
        }
    }

    /// The number of the type.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Headers => 1,
            Self::Priority => 2,
            Self::RstStream => 3,
            Self::Settings => 4,
            Self::PushPromise => 5,
            Self::Ping => 6,
            Self::GoAway => 7,
            Self::WindowUpdate => 8,
            Self::Continuation => 9,
            Self::PriorityUpdate => 16,
            Self::Unknown(other) => other,
        }
    }
}

/// Head of a frame (RFC 9113 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the payload, [`FRAME_BYTES_MAX`] at most.
    pub bytes: u32,
    /// The type.
    pub kind: FrameKind,
    /// The flags; those without a meaning for the type are ignored.
    pub flags: u8,
    /// The stream; 0: the connection.
    pub stream: u32,
}

impl FrameHead {
    /// The head that `bytes` start with; `None` if they are fewer than nine.
    #[must_use]
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, d, e, f, g] = *bytes.first_chunk::<FRAME_HEAD_BYTES>()?;
        Some(Self {
            bytes: u32::from_be_bytes([0, a, b, c]),
            kind: FrameKind::from_number(kind),
            flags,
            // The first bit is reserved and ignored.
            stream: u32::from_be_bytes([d, e, f, g]) & WINDOW_BYTES_MAX,
        })
    }

    /// The head as it is sent.
    #[must_use]
    #[inline]
    pub const fn to_bytes(self) -> [u8; FRAME_HEAD_BYTES] {
        let [_, a, b, c] = self.bytes.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind.number(), self.flags, d, e, f, g]
    }

    /// True if the head has this flag.
    #[must_use]
    #[inline]
    pub const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Code of an error (RFC 9113 §7). A peer may send codes without a name here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// `NO_ERROR`
    pub const NO_ERROR: Self = Self(0);
    /// `PROTOCOL_ERROR`
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// `INTERNAL_ERROR`
    pub const INTERNAL_ERROR: Self = Self(2);
    /// `FLOW_CONTROL_ERROR`
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// `SETTINGS_TIMEOUT`
    pub const SETTINGS_TIMEOUT: Self = Self(4);
    /// `STREAM_CLOSED`
    pub const STREAM_CLOSED: Self = Self(5);
    /// `FRAME_SIZE_ERROR`
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// `REFUSED_STREAM`
    pub const REFUSED_STREAM: Self = Self(7);
    /// `CANCEL`
    pub const CANCEL: Self = Self(8);
    /// `COMPRESSION_ERROR`
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// `CONNECT_ERROR`
    pub const CONNECT_ERROR: Self = Self(10);
    /// `ENHANCE_YOUR_CALM`
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
    /// `INADEQUATE_SECURITY`
    pub const INADEQUATE_SECURITY: Self = Self(12);
    /// `HTTP_1_1_REQUIRED`
    pub const HTTP_1_1_REQUIRED: Self = Self(13);

    /// The code's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NO_ERROR => "NO_ERROR",
            Self::PROTOCOL_ERROR => "PROTOCOL_ERROR",
            Self::INTERNAL_ERROR => "INTERNAL_ERROR",
            Self::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
            Self::SETTINGS_TIMEOUT => "SETTINGS_TIMEOUT",
            Self::STREAM_CLOSED => "STREAM_CLOSED",
            Self::FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR",
            Self::REFUSED_STREAM => "REFUSED_STREAM",
            Self::CANCEL => "CANCEL",
            Self::COMPRESSION_ERROR => "COMPRESSION_ERROR",
            Self::CONNECT_ERROR => "CONNECT_ERROR",
            Self::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
            Self::INADEQUATE_SECURITY => "INADEQUATE_SECURITY",
            Self::HTTP_1_1_REQUIRED => "HTTP_1_1_REQUIRED",
            _ => "UNKNOWN",
        }
    }
}

/// A frame that a server receives, without its padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// DATA
    Data {
        /// The stream.
        stream: u32,
        /// The content.
        data: &'a [u8],
        /// Bytes that count against the windows: all of the payload (RFC 9113 §6.9.1).
        window_bytes: u32,
        /// True if the content ends with it.
        ends_stream: bool,
    },
    /// HEADERS
    Headers {
        /// The stream.
        stream: u32,
        /// The field block, or its first part.
        block: &'a [u8],
        /// True if no content and no trailers follow the block.
        ends_stream: bool,
        /// True if the block is complete.
        ends_block: bool,
    },
    /// PRIORITY, of RFC 7540: without a meaning.
    Priority {
        /// The stream, which may have any state.
        stream: u32,
    },
    /// RST_STREAM
    RstStream {
        /// The stream.
        stream: u32,
        /// Reason of its end.
        code: ErrorCode,
    },
    /// SETTINGS: for [`super::PeerSettings::apply`].
    Settings(&'a [u8]),
    /// The acknowledgement of our settings.
    SettingsAck,
    /// PING: the bytes to answer with.
    Ping([u8; 8]),
    /// The answer to a PING of ours.
    PingAck([u8; 8]),
    /// GOAWAY
    GoAway {
        /// The last stream of ours that the client has seen.
        last: u32,
        /// Reason of the end.
        code: ErrorCode,
    },
    /// WINDOW_UPDATE
    WindowUpdate {
        /// The stream; 0: the connection.
        stream: u32,
        /// Bytes of room, from 1 to [`WINDOW_BYTES_MAX`].
        bytes: u32,
    },
    /// CONTINUATION
    Continuation {
        /// The stream.
        stream: u32,
        /// The next part of the field block.
        block: &'a [u8],
        /// True if the block is complete.
        ends_block: bool,
    },
    /// PRIORITY_UPDATE
    PriorityUpdate {
        /// The stream that it is about, which need not be open yet.
        stream: u32,
        /// The priority: for [`crate::priority::Priority::take`].
        value: &'a [u8],
    },
    /// A frame of an unknown type, which is skipped (RFC 9113 §4.1).
    Unknown,
}

/// Fault of a frame. It ends the connection, unless [`Self::stream`] has a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameFault {
    /// A payload longer than was allowed.
    TooLong(FrameKind),
    /// A payload of a wrong length for its type.
    Length(FrameKind),
    /// A frame of a stream on the connection, or the reverse.
    Stream(FrameKind),
    /// Padding of more bytes than the payload has.
    Padding,
    /// A stream that depends on itself, by RFC 7540.
    SelfDependency,
    /// PUSH_PROMISE from a client.
    PushPromise,
    /// No room for the window of the connection.
    NoRoom,
    /// No room for the window of this stream, which is reset.
    NoStreamRoom(u32),
}

impl FrameFault {
    /// The code to end the connection or the stream with.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::TooLong(_) | Self::Length(_) => ErrorCode::FRAME_SIZE_ERROR,
            _ => ErrorCode::PROTOCOL_ERROR,
        }
    }

    /// The stream that alone is reset; `None`: the connection ends.
    #[must_use]
    pub const fn stream(self) -> Option<u32> {
        match self {
            Self::NoStreamRoom(stream) => Some(stream),
            _ => None,
        }
    }

    /// A few words for a log.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::TooLong(_) => "a frame is longer than was allowed",
            Self::Length(_) => "a frame has a wrong length for its type",
            Self::Stream(_) => "a frame is on a stream that its type must not be on",
            Self::Padding => "a frame has more padding than payload",
            Self::SelfDependency => "a stream depends on itself",
            Self::PushPromise => "the client promises a stream",
            Self::NoRoom | Self::NoStreamRoom(_) => "a window is enlarged by nothing",
        }
    }
}

/// Frame that is complete, and the bytes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeFrame<'a> {
    /// First nine bytes, as values.
    pub head: FrameHead,
    /// Bytes that the head announces.
    pub payload: &'a [u8],
    /// Bytes behind the frame.
    pub rest: &'a [u8],
}

/// Splits the first frame from `bytes`. `None` if it is not complete.
///
/// # Errors
/// The payload is longer than `frame_bytes_max`, which the head already says.
#[inline]
pub fn split_frame(
    bytes: &[u8],
    frame_bytes_max: u32,
) -> Result<Option<WholeFrame<'_>>, FrameFault> {
    let Some(head) = FrameHead::read(bytes) else { return Ok(None) };
    if head.bytes > frame_bytes_max {
        return Err(FrameFault::TooLong(head.kind));
    }
    let split = bytes[FRAME_HEAD_BYTES..].split_at_checked(head.bytes as usize);
    Ok(split.map(|(payload, rest)| WholeFrame { head, payload, rest }))
}

/// Reads a frame from its head and its whole payload.
///
/// # Errors
/// The frame is malformed, or must not be sent by a client.
#[inline]
pub fn read_frame(head: FrameHead, payload: &[u8]) -> Result<Frame<'_>, FrameFault> {
    let FrameHead { kind, stream, .. } = head;
    if !is_on_right_stream(kind, stream) {
        return Err(FrameFault::Stream(kind));
    }
    match kind {
        FrameKind::Data => Ok(Frame::Data {
            stream,
            data: unpadded(head, payload)?,
            window_bytes: head.bytes,
            ends_stream: head.has(END_STREAM),
        }),
        FrameKind::Headers => Ok(Frame::Headers {
            stream,
            block: without_priority(head, unpadded(head, payload)?)?,
            ends_stream: head.has(END_STREAM),
            ends_block: head.has(END_HEADERS),
        }),
        FrameKind::Continuation => {
            Ok(Frame::Continuation { stream, block: payload, ends_block: head.has(END_HEADERS) })
        }
        _ => read_control(head, payload),
    }
}

/// True if a frame of this type may be on this stream. Unknown types may be on any.
fn is_on_right_stream(kind: FrameKind, stream: u32) -> bool {
    use FrameKind::{GoAway, Ping, PriorityUpdate, PushPromise, Settings, Unknown, WindowUpdate};
    match kind {
        Settings | Ping | GoAway | PriorityUpdate => stream == 0,
        WindowUpdate | PushPromise | Unknown(_) => true,
        _ => stream != 0,
    }
}

/// Reads a frame of any other type.
fn read_control(head: FrameHead, payload: &[u8]) -> Result<Frame<'_>, FrameFault> {
    let FrameHead { kind, stream, .. } = head;
    let wrong = FrameFault::Length(kind);
    match kind {
        FrameKind::Priority => {
            let fields: &[u8; 5] = payload.try_into().map_err(|_| wrong)?;
            check_dependency(stream, fields)?;
            Ok(Frame::Priority { stream })
        }
        FrameKind::RstStream => {
            let code = ErrorCode(u32::from_be_bytes(payload.try_into().map_err(|_| wrong)?));
            Ok(Frame::RstStream { stream, code })
        }
        FrameKind::Settings if head.has(ACK) => {
            if payload.is_empty() {
                Ok(Frame::SettingsAck)
            } else {
                Err(wrong)
            }
        }
        FrameKind::Settings if payload.len().is_multiple_of(6) => Ok(Frame::Settings(payload)),
        FrameKind::Settings => Err(wrong),
        FrameKind::Ping => {
            let bytes = payload.try_into().map_err(|_| wrong)?;
            Ok(if head.has(ACK) { Frame::PingAck(bytes) } else { Frame::Ping(bytes) })
        }
        FrameKind::GoAway => {
            let (last, rest) = payload.split_first_chunk().ok_or(wrong)?;
            let code = rest.first_chunk().ok_or(wrong)?;
            let last = u32::from_be_bytes(*last) & WINDOW_BYTES_MAX;
            Ok(Frame::GoAway { last, code: ErrorCode(u32::from_be_bytes(*code)) })
        }
        FrameKind::WindowUpdate => {
            let bytes = u32::from_be_bytes(payload.try_into().map_err(|_| wrong)?);
            match (bytes & WINDOW_BYTES_MAX, stream) {
                (0, 0) => Err(FrameFault::NoRoom),
                (0, _) => Err(FrameFault::NoStreamRoom(stream)),
                (bytes, _) => Ok(Frame::WindowUpdate { stream, bytes }),
            }
        }
        FrameKind::PriorityUpdate => {
            let (stream, value) = payload.split_first_chunk().ok_or(wrong)?;
            match u32::from_be_bytes(*stream) & WINDOW_BYTES_MAX {
                0 => Err(FrameFault::Stream(kind)),
                stream => Ok(Frame::PriorityUpdate { stream, value }),
            }
        }
        FrameKind::PushPromise => Err(FrameFault::PushPromise),
        FrameKind::Data | FrameKind::Headers | FrameKind::Continuation | FrameKind::Unknown(_) => {
            Ok(Frame::Unknown)
        }
    }
}

/// The payload without its padding (RFC 9113 §6.1).
#[inline]
fn unpadded(head: FrameHead, payload: &[u8]) -> Result<&[u8], FrameFault> {
    if !head.has(PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(FrameFault::Length(head.kind))?;
    let len = rest.len().checked_sub(usize::from(*padding)).ok_or(FrameFault::Padding)?;
    Ok(&rest[..len])
}

/// The payload of HEADERS without its priority (RFC 9113 §6.2).
#[inline]
fn without_priority(head: FrameHead, payload: &[u8]) -> Result<&[u8], FrameFault> {
    if !head.has(PRIORITY) {
        return Ok(payload);
    }
    let (fields, block) = payload.split_first_chunk().ok_or(FrameFault::Length(head.kind))?;
    check_dependency(head.stream, fields)?;
    Ok(block)
}

/// Checks a priority of RFC 7540, which has no other meaning: a stream may not depend on itself
/// (RFC 7540 §5.3.1).
fn check_dependency(stream: u32, fields: &[u8; 5]) -> Result<(), FrameFault> {
    let [a, b, c, d, _weight] = *fields;
    let on = u32::from_be_bytes([a, b, c, d]) & WINDOW_BYTES_MAX;
    if on == stream { Err(FrameFault::SelfDependency) } else { Ok(()) }
}

/// Appends the head of a frame. Its payload of `head.bytes` bytes must follow.
#[inline]
pub fn write_head(out: &mut Vec<u8>, head: FrameHead) {
    out.extend_from_slice(&head.to_bytes());
}

/// Appends RST_STREAM.
pub fn write_rst_stream(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write_head(out, FrameHead { bytes: 4, kind: FrameKind::RstStream, flags: 0, stream });
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends a PING, or the answer to one.
pub fn write_ping(out: &mut Vec<u8>, bytes: [u8; 8], is_answer: bool) {
    let flags = if is_answer { ACK } else { 0 };
    write_head(out, FrameHead { bytes: 8, kind: FrameKind::Ping, flags, stream: 0 });
    out.extend_from_slice(&bytes);
}

/// Appends GOAWAY: no stream behind `last` was or will be processed.
pub fn write_goaway(out: &mut Vec<u8>, last: u32, code: ErrorCode) {
    write_head(out, FrameHead { bytes: 8, kind: FrameKind::GoAway, flags: 0, stream: 0 });
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends WINDOW_UPDATE, of 1 to [`WINDOW_BYTES_MAX`] bytes; stream 0 is the connection.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    debug_assert!(bytes > 0 && bytes <= WINDOW_BYTES_MAX, "room of {bytes} bytes");
    write_head(out, FrameHead { bytes: 4, kind: FrameKind::WindowUpdate, flags: 0, stream });
    out.extend_from_slice(&bytes.to_be_bytes());
}

#[cfg(test)]
mod tests;
