//! Request methods (RFC 9110 §9, RFC 5789).

/// A request method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `OPTIONS`
    Options,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `TRACE`
    Trace,
    /// `CONNECT`
    Connect,
    /// `PATCH` (RFC 5789)
    Patch,
    /// Any other token; its text is in the request head.
    Other,
}

impl Method {
    /// The method that `text` names. Methods are case-sensitive (RFC 9110 §9.1).
    #[must_use]
    #[inline]
    pub const fn from_text(text: &[u8]) -> Self {
        // Nearly all are.
        if let b"GET" = text {
            return Self::Get;
        }
        Self::rare(text)
    }

    #[cold]
    const fn rare(text: &[u8]) -> Self {
        match text {
            b"HEAD" => Self::Head,
            b"OPTIONS" => Self::Options,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"TRACE" => Self::Trace,
            b"CONNECT" => Self::Connect,
            b"PATCH" => Self::Patch,
            _ => Self::Other,
        }
    }

    /// The method's name; `OTHER` for [`Method::Other`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Trace => "TRACE",
            Self::Connect => "CONNECT",
            Self::Patch => "PATCH",
            Self::Other => "OTHER",
        }
    }

    /// True for `GET` and `HEAD`, the methods that select a representation to send or describe.
    #[must_use]
    pub const fn is_get_or_head(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Method) {
        assert_eq!(Method::from_text(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn names_and_methods_are_one_to_one() {
        use Method::{Connect, Delete, Get, Head, Options, Other, Patch, Post, Put, Trace};
        for method in [Get, Head, Options, Post, Put, Delete, Trace, Connect, Patch] {
            check(method.name(), method);
            check(&method.name().to_ascii_lowercase(), Other);
        }
        for text in ["", "G", "GETS", "GE", "PROPFIND", "OTHER", "get"] {
            check(text, Other);
        }
    }
}
