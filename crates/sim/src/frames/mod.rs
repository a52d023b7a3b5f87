//! A protocol of frames of two bytes, for tests: eight exchanges at once over one connection, up to
//! four disk operations at once, receiving while it sends.
//!
//! The first byte of a frame has the number of an exchange in its lower three bits, and above them
//! what the frame is ([`Kind`]); the second says more. A client asks for a file with [`Kind::Ask`]
//! in an exchange that it does not use. It is sent the file in pieces, each behind a frame that
//! says how long it is, between those of others, and at last [`Kind::End`], which says how it went.
//! The second byte of `Ask` is the file's number; that of `Piece` is the logarithm of the piece's
//! length; that of `End` is 0 if this was all of the file, otherwise one of the codes below.
//! Replies come in any order. A server that goes away says so once, answers what it has received,
//! and sends no more.
mod client;
mod session;
mod world;

pub use client::{Answer, Client};
pub use session::Session;
pub use world::{FramesReport, run_frames, run_sealed_frames};

use regatta_op::{File, Now};
use regatta_origin::{Cx, Links, Peer, Protocol};

/// Exchanges that a connection may have at once.
pub const EXCHANGES: usize = 8;
/// The end of an exchange: there is no such file.
pub const NOT_FOUND: u8 = 1;
/// The end of an exchange: the disk did not answer, or there was no descriptor for long.
pub const UNAVAILABLE: u8 = 2;
/// The end of an exchange: the file could not be read, or became shorter again and again.
pub const FAILED: u8 = 3;
/// The longest piece has so many bytes: 2 to the power of this.
const PIECE_LOG_MAX: u8 = 12;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A file is asked for.
    Ask = 0,
    /// A piece of a file follows.
    Piece = 1,
    /// The exchange is over.
    End = 2,
    /// No more is answered than has been received.
    GoesAway = 3,
}

/// A frame.
fn frame(kind: Kind, exchange: usize, more: u8) -> [u8; 2] {
    let exchange = u8::try_from(exchange).expect("there are eight");
    [(kind as u8) << 3 | exchange, more]
}

/// What a frame is, of which exchange, and what it says more; `None` if it is no frame.
fn parse([first, more]: [u8; 2]) -> Option<(Kind, usize, u8)> {
    let kinds = [Kind::Ask, Kind::Piece, Kind::End, Kind::GoesAway];
    let kind = kinds.get(usize::from(first >> 3))?;
    Some((*kind, usize::from(first & 7), more))
}

/// Speaks this protocol on every listener. The files are these; others are not there.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    /// By number: the path of a file below the root.
    pub names: &'static [&'static str],
}

impl<F: File + Send + Sync + 'static> Links<F> for Frames {
    fn protocol(
        &self,
        _: Peer,
        _: &[u8],
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Option<Box<dyn Protocol<F> + Send>> {
        Some(Box::new(Session::new(self.names, now, cx)))
    }
}
