//! Settings of HTTP/2.

/// Limits of connections over HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Rules {
    /// Whether a connection in the clear is one of HTTP/2 if it begins with its preface.
    pub clear: bool,
    /// Streams of a connection that may be open at once.
    pub streams_max: u8,
    /// Bytes of the table in which the decoder of a connection keeps fields (RFC 7541 §4.1).
    pub table_bytes: u32,
    /// Streams of all connections of a worker that may wait for the disk at once.
    pub exchanges_max: u32,
}

impl Default for Http2Rules {
    fn default() -> Self {
        Self { clear: true, streams_max: 100, table_bytes: 4 << 10, exchanges_max: 4_096 }
    }
}
