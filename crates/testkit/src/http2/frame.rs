//! Frames of HTTP/2 (RFC 9113 §4, §6), and their numbers.

/// Types of frames.
pub mod kind {
    /// Content.
    pub const DATA: u8 = 0;
    /// Start of a field block.
    pub const HEADERS: u8 = 1;
    /// Priority of RFC 7540, which is deprecated.
    pub const PRIORITY: u8 = 2;
    /// End of a stream by an error.
    pub const RST_STREAM: u8 = 3;
    /// Settings, or their acknowledgement.
    pub const SETTINGS: u8 = 4;
    /// Announcement of a pushed response.
    pub const PUSH_PROMISE: u8 = 5;
    /// Probe of the connection.
    pub const PING: u8 = 6;
    /// End of the connection.
    pub const GOAWAY: u8 = 7;
    /// Bytes that the peer may send in addition.
    pub const WINDOW_UPDATE: u8 = 8;
    /// Rest of a field block.
    pub const CONTINUATION: u8 = 9;
    /// Priority of RFC 9218.
    pub const PRIORITY_UPDATE: u8 = 16;
}

/// Codes of errors (RFC 9113 §7).
pub mod code {
    /// No error.
    pub const NO_ERROR: u32 = 0;
    /// A rule of the protocol is broken.
    pub const PROTOCOL_ERROR: u32 = 1;
    /// A fault of the sender.
    pub const INTERNAL_ERROR: u32 = 2;
    /// More bytes than a window permits, or too large a window.
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    /// A frame for a stream that is closed.
    pub const STREAM_CLOSED: u32 = 5;
    /// A frame of a wrong length.
    pub const FRAME_SIZE_ERROR: u32 = 6;
    /// A stream that was not processed.
    pub const REFUSED_STREAM: u32 = 7;
    /// A stream that is no longer needed.
    pub const CANCEL: u32 = 8;
    /// A field block that cannot be decoded.
    pub const COMPRESSION_ERROR: u32 = 9;
    /// A peer that causes too much work.
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

/// Settings (RFC 9113 §6.5.2, RFC 9218 §2.1).
pub mod setting {
    /// Bytes of the decoder's table.
    pub const HEADER_TABLE_SIZE: u16 = 1;
    /// Whether the peer may push.
    pub const ENABLE_PUSH: u16 = 2;
    /// Streams that the peer may have open.
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    /// Window of new streams.
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    /// Longest payload of a frame.
    pub const MAX_FRAME_SIZE: u16 = 5;
    /// Most bytes of a head.
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// Whether priorities of RFC 7540 mean nothing.
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// Flag: the stream ends with this frame.
pub const END_STREAM: u8 = 1;
/// Flag of SETTINGS and PING: an acknowledgement.
pub const ACK: u8 = 1;
/// Flag: the field block ends with this frame.
pub const END_HEADERS: u8 = 4;
/// Flag: the payload has padding.
pub const PADDED: u8 = 8;
/// Flag of HEADERS: a priority of RFC 7540 precedes the fields.
pub const WITH_PRIORITY: u8 = 0x20;

/// Bytes before the payload.
const HEAD_BYTES: usize = 9;
/// Number of frames that a message lists.
pub(super) const TAIL_FRAMES: usize = 12;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Http2Frame {
    /// Type.
    pub(super) kind: u8,
    /// Flags.
    pub(super) flags: u8,
    /// Number of the stream, with the bit before it.
    pub(super) id: u32,
    /// Payload, with padding.
    pub(super) payload: Vec<u8>,
}

impl Http2Frame {
    /// Takes the first frame of received bytes, if it is whole. The error is the length of a
    /// payload that has more than `bytes_max`.
    pub(super) fn take(unread: &mut Vec<u8>, bytes_max: usize) -> Result<Option<Self>, usize> {
        let Some(head) = unread.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [high, middle, low, kind, flags, id @ ..] = *head;
        let len = number(u32::from_be_bytes([0, high, middle, low]));
        if len > bytes_max {
            return Err(len);
        }
        if unread.len() < HEAD_BYTES + len {
            return Ok(None);
        }
        let payload = unread[HEAD_BYTES..HEAD_BYTES + len].to_vec();
        unread.drain(..HEAD_BYTES + len);
        let id = u32::from_be_bytes(id);
        Ok(Some(Self { kind, flags, id, payload }))
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Flags that the type defines.
    pub(super) fn known_flags(&self) -> u8 {
        match self.kind {
            kind::DATA => END_STREAM | PADDED,
            kind::HEADERS => END_STREAM | END_HEADERS | PADDED | WITH_PRIORITY,
            kind::SETTINGS | kind::PING => ACK,
            kind::CONTINUATION => END_HEADERS,
            _ => 0,
        }
    }

    /// Text for messages.
    pub(super) fn describe(&self) -> String {
        let Self { kind, flags, id, payload } = self;
        let kind = match *kind {
            kind::DATA => "DATA",
            kind::HEADERS => "HEADERS",
            kind::RST_STREAM => "RST_STREAM",
            kind::SETTINGS => "SETTINGS",
            kind::PING => "PING",
            kind::GOAWAY => "GOAWAY",
            kind::WINDOW_UPDATE => "WINDOW_UPDATE",
            kind::CONTINUATION => "CONTINUATION",
            _ => "another",
        };
        format!("{kind} of {} bytes, flags {flags:#x}, stream {id}", payload.len())
    }
}

/// Bytes of a frame.
///
/// # Panics
/// The payload has 16 MiB or more.
#[must_use]
pub fn frame_bytes(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("a frame");
    let [none, high, middle, low] = len.to_be_bytes();
    assert_eq!(none, 0, "a payload of {len} bytes");
    let mut bytes = vec![high, middle, low, kind, flags];
    bytes.extend(id.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A number of the wire as a length.
pub(super) fn number(value: u32) -> usize {
    usize::try_from(value).expect("32 bits or more")
}

/// The first four bytes of a payload as a number.
pub(super) fn first_number(payload: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*payload.first_chunk()?))
}
