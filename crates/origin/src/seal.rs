//! Encryption: bytes to records and back, without I/O.
use alloc::vec::Vec;
use core::fmt::Debug;
use regatta_metrics::Counter;

/// The most plain bytes that a record holds (RFC 8446 §5.1).
pub const RECORD_PLAIN_BYTES_MAX: usize = 16 << 10;

/// The longest record on the wire: 256 bytes more than it holds, and its header (RFC 8446 §5.2).
pub const RECORD_BYTES_MAX: usize = RECORD_PLAIN_BYTES_MAX + 256 + 5;

/// Encrypts one connection.
pub trait Seal: Debug + Send {
    /// Takes the record at the front of `wire`, which it may decrypt in place: appends its contents
    /// to `plain`, and any answer to `reply`. Returns the bytes used; 0 if the record is not
    /// complete. The beginning of a handshake message whose rest is in later records is kept, up to
    /// a bound.
    ///
    /// # Errors
    /// The record is malformed, or was altered, or a message is too long; `reply` may hold an alert
    /// for the peer.
    fn open(
        &mut self,
        wire: &mut [u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<usize, SealFault>;

    /// True if the last call of [`open`](Self::open) answered with session tickets alone. They may
    /// be sent with the next records. Data of a handshake and alerts never wait.
    fn reply_may_wait(&self) -> bool;

    /// Appends one record with `plain`, at most [`RECORD_PLAIN_BYTES_MAX`], to `wire`.
    ///
    /// # Errors
    /// Nothing more can be encrypted.
    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), SealFault>;

    /// The state of the connection.
    fn progress(&self) -> Progress;

    /// Facts about the handshake, once it is over.
    fn handshake(&self) -> Option<Handshake>;

    /// The application protocol that the peers agreed on (ALPN, RFC 7301); empty if none.
    fn agreed(&self) -> &[u8];

    /// The name of the server that the client asked for (SNI, RFC 6066 §3), as it was sent.
    fn server_name(&self) -> Option<&[u8]>;

    /// The subject of the client's certificate (RFC 4514), if the client has shown one.
    fn client_subject(&self) -> Option<&[u8]>;

    /// Appends a notice that we send no more to `wire`, the first time; not during the handshake.
    /// Of all answers, only alerts may follow it.
    fn close(&mut self, wire: &mut Vec<u8>);

    /// True if [`open`](Self::open) passes over records, since nothing in them matters any more.
    fn passes_over(&self) -> bool {
        false
    }
}

/// The state of a sealed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The peers have not agreed on keys yet.
    Handshaking,
    /// Bytes can be sealed and opened.
    Open,
    /// The peer has said that it sends no more.
    PeerClosed,
}

/// Facts about a handshake that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// True if an earlier session was resumed.
    pub resumed: bool,
    /// The version of the protocol, as on the wire: 0x0304 is TLS 1.3.
    pub version: u16,
    /// Registered name of the cipher suite; empty if it has none.
    pub suite: &'static str,
    /// Processor time that it took, nanoseconds; 0 if the seal does not measure it.
    pub nanos: u64,
}

impl Handshake {
    /// Name of the version, as in `TLSv1.3`; `None` if it is neither 1.2 nor 1.3.
    #[must_use]
    pub const fn version_name(&self) -> Option<&'static str> {
        match self.version {
            0x0303 => Some("TLSv1.2"),
            0x0304 => Some("TLSv1.3"),
            _ => None,
        }
    }
}

/// Facts about the seal of a connection, for the log.
#[derive(Clone, Copy, Debug)]
pub struct SealFacts<'a> {
    /// The handshake.
    pub handshake: Handshake,
    /// [`Seal::agreed`].
    pub agreed: &'a [u8],
    /// [`Seal::server_name`].
    pub server_name: Option<&'a [u8]>,
    /// [`Seal::client_subject`].
    pub client_subject: Option<&'a [u8]>,
}

impl<'a> SealFacts<'a> {
    /// Facts of this seal, once its handshake is over.
    pub(crate) fn from_seal(seal: &'a dyn Seal) -> Option<Self> {
        Some(Self {
            handshake: seal.handshake()?,
            agreed: seal.agreed(),
            server_name: seal.server_name(),
            client_subject: seal.client_subject(),
        })
    }
}

/// Reason why a record could not be opened or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealFault {
    /// The first bytes are not those of a handshake.
    NotTls,
    /// The peer offers no version that we accept.
    Version,
    /// The peers have no cipher suite, group, signature scheme or protocol in common.
    NothingInCommon,
    /// The peer's certificate is missing or not valid.
    Certificate,
    /// A record is malformed, was altered, or is not allowed here.
    Record,
    /// The peer has sent an alert that is fatal.
    Alert,
    /// Another reason.
    Other,
}

impl SealFault {
    /// Counter of the connections that ended for this reason.
    pub(crate) const fn counter(self) -> Counter {
        match self {
            Self::NotTls => Counter::TlsFaultsNotTls,
            Self::Version => Counter::TlsFaultsVersion,
            Self::NothingInCommon => Counter::TlsFaultsNothingInCommon,
            Self::Certificate => Counter::TlsFaultsCertificate,
            Self::Record => Counter::TlsFaultsRecord,
            Self::Alert => Counter::TlsFaultsAlert,
            Self::Other => Counter::TlsFaultsOther,
        }
    }
}
