//! State that a connection of HTTP/1 needs only while it has unread bytes.
use crate::course::Course;
use alloc::vec::Vec;
use regatta_http::{chunked::Decoder, h1};

/// Unread bytes of a connection. Most requests have none; an empty box goes back to the pool.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// Received bytes; those before `at` have been used.
    pub(crate) stash: Vec<u8>,
    pub(crate) at: usize,
    /// Number of the unused bytes that have been searched for the end of a head.
    pub(crate) seen: usize,
    /// Content of the request that is still to be discarded.
    pub(crate) content: Content,
    /// Effects of that request, for an error that is sent in place of its response.
    pub(crate) course: Course,
    /// Bytes discarded after our half was closed.
    pub(crate) lingered: u32,
}

impl Input {
    /// True if it is empty.
    pub(crate) fn is_spare(&self) -> bool {
        self.at == self.stash.len() && self.content == Content::None
    }

    /// Resets it, but keeps its buffer.
    pub(crate) fn clear(&mut self) {
        self.stash.clear();
        *self = Self { stash: core::mem::take(&mut self.stash), ..Self::default() };
    }

    /// Bytes of memory held by its buffer.
    pub(crate) fn capacity(&self) -> usize {
        self.stash.capacity()
    }
}

/// Content of a request, which is discarded (RFC 9110 §9.3.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Content {
    /// None, or all of it has been discarded.
    #[default]
    None,
    /// This many bytes are left.
    Length(u64),
    /// Chunks: at most this many bytes may still come, with their framing.
    Chunked(Decoder, u64),
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        matches!((self, other), (Self::None, Self::None))
    }
}

/// Reason why content cannot be discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentFault {
    /// Content over the limit: 413.
    TooLarge,
    /// Malformed chunks: 400.
    Malformed,
}

impl Content {
    /// The content that a request announces; at most `bytes_max` of chunks.
    pub(crate) const fn new(body: h1::RequestBody, bytes_max: u64) -> Self {
        match body {
            h1::RequestBody::None | h1::RequestBody::Length(0) => Self::None,
            h1::RequestBody::Length(length) => Self::Length(length),
            h1::RequestBody::Chunked => Self::Chunked(Decoder::new(), bytes_max),
        }
    }

    /// Discards content from the front of `bytes`, and returns how much. The last byte makes it
    /// `None`.
    pub(crate) fn discard(&mut self, bytes: &[u8]) -> Result<usize, ContentFault> {
        match self {
            Self::None => Ok(0),
            Self::Length(left) => {
                let used = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= used as u64;
                if *left == 0 {
                    *self = Self::None;
                }
                Ok(used)
            }
            Self::Chunked(decoder, left) => {
                // One byte over the limit shows that it is too large, before later bytes can look
                // malformed.
                let look = usize::try_from(*left + 1).map_or(bytes.len(), |n| n.min(bytes.len()));
                let fed = decoder.feed(&bytes[..look]).map_err(|_| ContentFault::Malformed)?;
                *left = left.checked_sub(fed.used as u64).ok_or(ContentFault::TooLarge)?;
                if fed.done {
                    *self = Self::None;
                }
                Ok(fed.used)
            }
        }
    }
}
