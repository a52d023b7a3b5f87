//! A protocol with frames of two bytes, for tests. A connection has up to eight exchanges and four
//! disk operations at once, and receives while it sends.
//!
//! The lower three bits of a frame's first byte are the number of an exchange; the upper bits are
//! the frame's [`Kind`]. The second byte depends on the kind:
//!
//! * [`Kind::Ask`]: the file's number. A client sends it in an exchange that it does not use.
//! * [`Kind::Piece`]: the logarithm of the length of the piece that follows. Pieces of several
//!   files alternate.
//! * [`Kind::End`]: 0 after a whole file, otherwise one of the codes below.
//! * [`Kind::GoesAway`]: 0. A server that goes away sends it once, answers what it has received,
//!   and sends no more.
//!
//! Replies arrive in any order.
mod client;
mod session;
mod talk;

pub use client::{Answer, Client};
pub use session::FramesSession;

use regatta_op::{File, Now};
use regatta_origin::{Cx, Links, Peer, Protocol};

/// The most exchanges of a connection at once.
pub const EXCHANGES: usize = 8;
/// End of an exchange: there is no such file.
pub const NOT_FOUND: u8 = 1;
/// End of an exchange: the disk did not answer, or there was no descriptor for long.
pub const UNAVAILABLE: u8 = 2;
/// End of an exchange: the file could not be read, or shrank repeatedly.
pub const FAILED: u8 = 3;
/// Binary logarithm of the longest piece's length.
const PIECE_LOG_MAX: u8 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Requests a file.
    Ask = 0,
    /// A piece of a file follows.
    Piece = 1,
    /// The exchange is over.
    End = 2,
    /// The server answers no more than it has received.
    GoesAway = 3,
}

fn frame(kind: Kind, exchange: usize, more: u8) -> [u8; 2] {
    let exchange = u8::try_from(exchange).expect("there are eight");
    [(kind as u8) << 3 | exchange, more]
}

/// Parses a frame: its kind, exchange and second byte. `None`: not a frame.
fn parse([first, more]: [u8; 2]) -> Option<(Kind, usize, u8)> {
    let kinds = [Kind::Ask, Kind::Piece, Kind::End, Kind::GoesAway];
    let kind = kinds.get(usize::from(first >> 3))?;
    Some((*kind, usize::from(first & 7), more))
}

/// Speaks this protocol on every listener. Only these files exist.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    /// Paths of the files below the root, by number.
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
        Some(Box::new(FramesSession::new(self.names, now, cx)))
    }
}
