//! What encrypts: bytes to records and back, without I/O.
use alloc::vec::Vec;
use core::fmt::Debug;

/// The most plain bytes that a record holds (RFC 8446 §5.1).
pub const RECORD_PLAIN_BYTES_MAX: usize = 16 << 10;

/// The longest record on the wire: 256 bytes more than it holds, and its header (RFC 8446 §5.2).
pub const RECORD_BYTES_MAX: usize = RECORD_PLAIN_BYTES_MAX + 256 + 5;

/// Encrypts one connection.
pub trait Seal: Debug + Send {
    /// Takes the record at the front of `wire`, which it may decrypt in place: what was in it goes
    /// behind `plain`, what must be answered behind `reply`. Says how many bytes are done with; 0
    /// if the record is not whole.
    ///
    /// # Errors
    /// It is malformed, or another than was sent; `reply` may say so to the peer.
    fn open(
        &mut self,
        wire: &mut [u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<usize, SealFault>;

    /// Puts one record that holds `plain`, of at most [`RECORD_PLAIN_BYTES_MAX`], behind `wire`.
    ///
    /// # Errors
    /// No more can be encrypted.
    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), SealFault>;

    /// How far the conversation is.
    fn progress(&self) -> Progress;

    /// What the peers agreed on that is spoken above (ALPN, RFC 7301); empty if on nothing.
    fn agreed(&self) -> &[u8];

    /// Puts what says that we send no more behind `wire`; once, and not during the handshake.
    fn close(&mut self, wire: &mut Vec<u8>);
}

/// How far a sealed conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The peers have not agreed on keys yet.
    Handshaking,
    /// Bytes can be sealed and opened.
    Open,
    /// The peer has said that it sends no more.
    PeerClosed,
}

/// A record could not be opened, or not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealFault;
