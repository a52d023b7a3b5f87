//! Fields with a meaning here, and the validity of names and values (RFC 9113 §8.2, §8.3).
use crate::{
    field::{has_controls, is_tchar},
    target::is_host,
};

/// Name of a field, as far as it has a meaning here.
///
/// The order matters: fields with a slot, then others whose values are read, then those whose
/// values are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FieldKind {
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:authority`
    Authority,
    /// `:path`
    Path,
    /// `host`
    Host,
    /// `range`
    Range,
    /// `if-match`
    IfMatch,
    /// `if-none-match`
    IfNoneMatch,
    /// `if-modified-since`
    IfModifiedSince,
    /// `if-unmodified-since`
    IfUnmodifiedSince,
    /// `if-range`
    IfRange,
    /// `accept-encoding`
    AcceptEncoding,
    /// `referer`
    Referer,
    /// `user-agent`
    UserAgent,
    /// `content-length`
    ContentLength,
    /// `expect`
    Expect,
    /// `priority`
    Priority,
    /// `authorization`
    Authorization,
    /// `accept`
    Accept,
    /// `sec-fetch-dest`
    SecFetchDest,
    /// `origin`
    Origin,
    /// `access-control-request-method`
    RequestMethod,
    /// `x-forwarded-for`
    XForwardedFor,
    /// `forwarded`
    Forwarded,
    /// `te`: of no use, but only one value is valid.
    Te,
    /// `cookie`, which clients divide into several fields.
    Cookie,
    /// A field without a meaning here.
    Other,
    /// `:status`, which requests must not have.
    Status,
    /// A field on the connection, which no message may have (RFC 9113 §8.2.2).
    Connection,
    /// No valid name, or that of an unknown pseudo-field.
    Malformed,
}

/// Names of the fields on the connection (RFC 9113 §8.2.2).
const OF_CONNECTION: [&str; 5] =
    ["connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"];

/// True for the name of a field on the connection, in any case.
pub(super) fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Number of kinds with a slot.
pub(super) const SLOTS: usize = FieldKind::UserAgent as usize + 1;

const _: () = assert!((FieldKind::Malformed as u32) < u32::BITS);

impl FieldKind {
    /// The kind with this name, if it is one by name; `None`: another field, or no valid name.
    pub(super) const fn from_known(name: &[u8]) -> Option<Self> {
        Some(match name {
            b":method" => Self::Method,
            b":scheme" => Self::Scheme,
            b":authority" => Self::Authority,
            b":path" => Self::Path,
            b":status" => Self::Status,
            b"host" => Self::Host,
            b"range" => Self::Range,
            b"if-match" => Self::IfMatch,
            b"if-none-match" => Self::IfNoneMatch,
            b"if-modified-since" => Self::IfModifiedSince,
            b"if-unmodified-since" => Self::IfUnmodifiedSince,
            b"if-range" => Self::IfRange,
            b"accept-encoding" => Self::AcceptEncoding,
            b"referer" => Self::Referer,
            b"user-agent" => Self::UserAgent,
            b"content-length" => Self::ContentLength,
            b"expect" => Self::Expect,
            b"priority" => Self::Priority,
            b"authorization" => Self::Authorization,
            b"accept" => Self::Accept,
            b"sec-fetch-dest" => Self::SecFetchDest,
            b"origin" => Self::Origin,
            b"access-control-request-method" => Self::RequestMethod,
            b"x-forwarded-for" => Self::XForwardedFor,
            b"forwarded" => Self::Forwarded,
            b"te" => Self::Te,
            b"cookie" => Self::Cookie,
            // As in `OF_CONNECTION`.
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding"
            | b"upgrade" => Self::Connection,
            _ => return None,
        })
    }

    /// The kind of a field by its name.
    pub(super) fn from_name(name: &[u8]) -> Self {
        match Self::from_known(name) {
            Some(known) => known,
            None if is_lower_token(name) => Self::Other,
            None => Self::Malformed,
        }
    }

    /// The name, if only one field is of this kind.
    pub(super) const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Method => ":method",
            Self::Scheme => ":scheme",
            Self::Authority => ":authority",
            Self::Path => ":path",
            Self::Status => ":status",
            Self::Host => "host",
            Self::Range => "range",
            Self::IfMatch => "if-match",
            Self::IfNoneMatch => "if-none-match",
            Self::IfModifiedSince => "if-modified-since",
            Self::IfUnmodifiedSince => "if-unmodified-since",
            Self::IfRange => "if-range",
            Self::AcceptEncoding => "accept-encoding",
            Self::Referer => "referer",
            Self::UserAgent => "user-agent",
            Self::ContentLength => "content-length",
            Self::Expect => "expect",
            Self::Priority => "priority",
            Self::Authorization => "authorization",
            Self::Accept => "accept",
            Self::SecFetchDest => "sec-fetch-dest",
            Self::Origin => "origin",
            Self::RequestMethod => "access-control-request-method",
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
            Self::Te => "te",
            Self::Cookie => "cookie",
            Self::Other | Self::Connection | Self::Malformed => return None,
        })
    }

    /// The bit of the kind in a set.
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// True for the pseudo-fields of a request.
    pub(super) const fn is_pseudo(self) -> bool {
        matches!(self, Self::Method | Self::Scheme | Self::Authority | Self::Path)
    }

    /// True if values of this kind are read.
    pub(super) fn is_read(self) -> bool {
        self <= Self::Forwarded
    }

    /// True if a field of this kind may have this value.
    pub(super) fn is_valid(self, value: &[u8]) -> bool {
        is_field_value(value)
            && match self {
                Self::Method => !value.is_empty() && value.iter().copied().all(is_tchar),
                Self::Scheme => [&b"https"[..], b"http"].contains(&value),
                Self::Authority => !value.is_empty() && is_host(value),
                Self::Host => is_host(value),
                Self::Path => is_path(value),
                Self::Te => value == b"trailers",
                Self::Malformed => false,
                _ => true,
            }
    }
}

/// True for a token without upper case, as names are in HTTP/2.
fn is_lower_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| is_tchar(byte) && !byte.is_ascii_uppercase())
}

/// True for a value without control characters other than tabs, and without whitespace around it:
/// the values that HTTP/1 accepts, and no others.
fn is_field_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_space(value.first()) && !is_space(value.last()) && !has_controls(value)
}

/// True for a path that HTTP/1 could have in its request line: one word of UTF-8. Its form depends
/// on the method, and is judged later.
fn is_path(value: &[u8]) -> bool {
    let is_word = !value.iter().any(|&byte| byte == b' ' || byte == b'\t');
    is_word && (value.is_ascii() || core::str::from_utf8(value).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_kinds_are_one_to_one() {
        let mut count = 0;
        for name in [
            ":method :scheme :authority :path :status host range if-match if-none-match",
            "if-modified-since if-unmodified-since if-range accept-encoding referer user-agent",
            "content-length expect priority authorization accept sec-fetch-dest origin",
            "access-control-request-method x-forwarded-for forwarded te cookie",
        ]
        .iter()
        .flat_map(|names| names.split(' '))
        {
            let kind = FieldKind::from_name(name.as_bytes());
            assert_eq!(kind.name(), Some(name));
            count += 1;
        }
        // All but three kinds of many names.
        assert_eq!(count, FieldKind::Malformed as usize + 1 - 3);
    }

    #[test]
    fn names_are_lower_case_tokens() {
        let check = |name: &str, expected: FieldKind| {
            assert_eq!(FieldKind::from_name(name.as_bytes()), expected, "{name:?}");
        };
        for name in ["x", "x-y", "x_y", "9", "!#$%&'*+-.^_`|~", "accept-language", "hosts"] {
            check(name, FieldKind::Other);
        }
        for name in OF_CONNECTION {
            check(name, FieldKind::Connection);
            assert!(is_of_connection(name) && is_of_connection(&name.to_ascii_uppercase()));
        }
        assert!(!is_of_connection("te") && !is_of_connection("connection-x"));
        for name in ["", "X", "Host", "a b", "a:", ":", ":other", ":Path", "a\0", "a\r", "\u{e4}"] {
            check(name, FieldKind::Malformed);
        }
    }

    #[test]
    fn values_are_lines() {
        let check = |kind: FieldKind, value: &[u8], expected: bool| {
            assert_eq!(kind.is_valid(value), expected, "{kind:?} {}", value.escape_ascii());
        };
        for value in [&b""[..], b"a", b"a b", b"a\tb", b"\xff", b"\"a\", b"] {
            check(FieldKind::Other, value, true);
            check(FieldKind::Range, value, true);
            check(FieldKind::Malformed, value, false);
        }
        for value in [&b" a"[..], b"a ", b"\ta", b"a\t", b" ", b"a\rb", b"a\nb", b"a\0b", b"\x7f"] {
            check(FieldKind::Other, value, false);
        }
        for (kind, good, bad) in [
            (FieldKind::Method, &["GET", "get", "M-SEARCH"][..], &["", "G T", "G:"][..]),
            (FieldKind::Scheme, &["http", "https"], &["", "HTTP", "ftp", "https:"]),
            (FieldKind::Authority, &["a", "a:80", "[::1]"], &["", "u@a", "a/", "a b", "a:x"]),
            (FieldKind::Host, &["", "a", "a:80", "a,b"], &["u@a", "a/", "a b"]),
            (FieldKind::Path, &["/", "/a?b", "*", "", "\u{e4}"], &["/a b", "/a\tb", "/\x7f"]),
            (FieldKind::Te, &["trailers"], &["", "gzip", "trailers, gzip", "Trailers"]),
        ] {
            good.iter().for_each(|value| check(kind, value.as_bytes(), true));
            bad.iter().for_each(|value| check(kind, value.as_bytes(), false));
        }
        check(FieldKind::Path, b"/\xff", false);
    }
}
