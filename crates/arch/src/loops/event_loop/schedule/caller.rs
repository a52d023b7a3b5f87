//! Protocols with several exchanges of a connection at once, from the side of their peers.
use super::folder::NAMES;
use crate::testing::dice::Dice;
use regatta_sim::{Answer, BrokenCheck, Client, Http2Fetcher};

/// Protocol of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Speech {
    #[default]
    Http1,
    /// Frames of two bytes, in eight exchanges.
    Frames,
    /// HTTP/2 in the clear: each request is a stream. Windows are wide.
    Http2,
}

/// Client of a peer.
pub(super) enum Caller {
    Frames(Client),
    Http2(Http2Fetcher),
}

/// Bytes that a client sends.
pub(super) struct Script {
    pub(super) out: Vec<u8>,
    /// Ends of the requests.
    pub(super) ends: Vec<usize>,
    /// End of what precedes the first request.
    pub(super) start: usize,
}

impl Caller {
    /// A client that requests random files; `None` for HTTP/1.
    pub(super) fn new(dice: &mut Dice, speech: Speech) -> Option<Self> {
        if speech == Speech::Http1 {
            return None;
        }
        let count = 1 + dice.below(24);
        let file = |_| u8::try_from(dice.below(NAMES.len() + 1)).expect("few");
        let files = (0..count).map(file).collect();
        Some(match speech {
            Speech::Http2 => Self::Http2(Http2Fetcher::new(&NAMES, files)),
            Speech::Frames | Speech::Http1 => Self::Frames(Client::new(files)),
        })
    }

    pub(super) fn script(&self) -> Script {
        match self {
            Self::Frames(client) => {
                let out = client.wire();
                let ends = (1..=out.len() / 2).map(|request| 2 * request).collect();
                Script { out, ends, start: 0 }
            }
            Self::Http2(client) => {
                let (out, ends) = client.wire();
                let empty = Http2Fetcher::new(&NAMES, Vec::new());
                Script { out, ends, start: empty.wire().0.len() }
            }
        }
    }

    /// Number of bytes that it may have sent by now.
    pub(super) fn may_send(&self) -> usize {
        match self {
            Self::Frames(client) => client.may_send(),
            Self::Http2(_) => usize::MAX,
        }
    }

    /// Number of answered requests.
    pub(super) fn answers(&self) -> usize {
        match self {
            Self::Frames(client) => client.answers(),
            Self::Http2(client) => client.answers(),
        }
    }

    /// Whether an answer has arrived in part.
    pub(super) fn has_part(&self) -> bool {
        match self {
            Self::Frames(client) => client.has_part(),
            Self::Http2(client) => client.has_part(),
        }
    }

    /// Whether the server has announced its end, as it may only while it drains. HTTP/2 announces
    /// every end.
    pub(super) const fn is_told(&self) -> bool {
        match self {
            Self::Frames(client) => client.is_told(),
            Self::Http2(_) => false,
        }
    }

    /// Whether a server answers after the client has closed its half.
    pub(super) const fn may_shut(&self) -> bool {
        matches!(self, Self::Frames(_))
    }

    /// Takes received bytes, and passes each whole answer to `judge`.
    ///
    /// # Errors
    /// Bytes that must not arrive, or the error of `judge`.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        judge: &mut dyn FnMut(Answer) -> Result<(), BrokenCheck>,
    ) -> Result<(), BrokenCheck> {
        match self {
            Self::Frames(client) => client.feed(bytes, judge),
            Self::Http2(client) => client.feed(bytes, judge),
        }
    }
}
