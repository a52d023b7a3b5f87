//! Versions of HTTP/1, and the end of a message's content (RFC 9112 §6).
use crate::field::{decimal, same};

/// A protocol version that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `HTTP/1.0`
    Http10,
    /// `HTTP/1.1`
    Http11,
}

impl Version {
    /// The version as it is written in a request line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

/// The content that follows a request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// None.
    None,
    /// This many bytes; 0 if the request says `Content-Length: 0`.
    Length(u64),
    /// Chunks: for [`crate::chunked::Decoder`].
    Chunked,
}

/// The content that follows a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// None, whatever the fields say: a response to `HEAD`, or 1xx, 204, 304.
    None,
    /// This many bytes.
    Length(u64),
    /// Chunks: for [`crate::chunked::Decoder`].
    Chunked,
    /// All that comes before the connection closes.
    UntilClose,
}

/// The message's framing is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ambiguous;

/// Framing fields of one head, gathered line by line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Framing {
    length: Option<u64>,
    chunked: bool,
}

impl Framing {
    /// Takes a `Content-Length` line. A second one is refused even if it says the same, and so is
    /// a list: RFC 9112 §6.3 allows either to be an error.
    pub(super) fn content_length(&mut self, value: &[u8]) -> Result<(), Ambiguous> {
        if self.length.is_some() {
            return Err(Ambiguous);
        }
        self.length = Some(decimal(value).ok_or(Ambiguous)?);
        Ok(())
    }

    /// Takes a `Transfer-Encoding` line. Only one that is exactly `chunked` is understood.
    pub(super) fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Ambiguous> {
        if self.chunked || !same(value, b"chunked") {
            return Err(Ambiguous);
        }
        self.chunked = true;
        Ok(())
    }

    /// The extent of the content; `None` if no field gives it. HTTP/1.0 has no transfer codings,
    /// and a message with both fields is an attack until shown otherwise (RFC 9112 §6.1, §6.3).
    #[inline]
    pub(super) fn body(self, version: Version) -> Result<Option<RequestBody>, Ambiguous> {
        match self {
            Self { length: None, chunked: false } => Ok(None),
            Self { length: Some(length), chunked: false } => Ok(Some(RequestBody::Length(length))),
            Self { length: None, chunked: true } if version == Version::Http11 => {
                Ok(Some(RequestBody::Chunked))
            }
            Self { .. } => Err(Ambiguous),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        length: Option<&str>,
        coding: Option<&str>,
        expected: Result<Option<RequestBody>, Ambiguous>,
    ) {
        let body = || {
            let mut framing = Framing::default();
            length.map_or(Ok(()), |value| framing.content_length(value.as_bytes()))?;
            coding.map_or(Ok(()), |value| framing.transfer_encoding(value.as_bytes()))?;
            framing.body(Version::Http11)
        };
        assert_eq!(body(), expected, "{length:?} {coding:?}");
    }

    #[test]
    fn one_length_or_one_coding() {
        check(None, None, Ok(None));
        check(Some("00"), None, Ok(Some(RequestBody::Length(0))));
        check(Some("18446744073709551615"), None, Ok(Some(RequestBody::Length(u64::MAX))));
        check(None, Some("Chunked"), Ok(Some(RequestBody::Chunked)));
        for value in ["", " 1", "1 ", "+1", "-0", "1,1", "1\r", "18446744073709551616"] {
            check(Some(value), None, Err(Ambiguous));
        }
        for value in ["", " chunked", "chunked ", "chunked,", "gzip"] {
            check(None, Some(value), Err(Ambiguous));
        }
        check(Some("1"), Some("chunked"), Err(Ambiguous));
    }
}
