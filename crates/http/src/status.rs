//! Status codes and their reason phrases (RFC 9110 §15).

/// A status code, 100 to 599 where this crate makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u16);

/// Names each status once: its constant, its number and its reason phrase.
macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal),+ $(,)?) => {
        impl Status {
            $(
                #[doc = concat!("`", $code, " ", $reason, "`")]
                pub const $name: Self = Self($code);
            )+

            /// The statuses that have a name here, ascending.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The registered reason phrase; `Unknown` for a code without a name here.
            #[must_use]
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)+
                    _ => "Unknown",
                }
            }

            /// The whole status line with its line end; `None` for a code without a name here.
            #[must_use]
            pub(crate) const fn line(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n")),)+
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    CONTINUE 100 "Continue",
    OK 200 "OK",
    NO_CONTENT 204 "No Content",
    PARTIAL_CONTENT 206 "Partial Content",
    MOVED_PERMANENTLY 301 "Moved Permanently",
    FOUND 302 "Found",
    SEE_OTHER 303 "See Other",
    NOT_MODIFIED 304 "Not Modified",
    TEMPORARY_REDIRECT 307 "Temporary Redirect",
    PERMANENT_REDIRECT 308 "Permanent Redirect",
    BAD_REQUEST 400 "Bad Request",
    UNAUTHORIZED 401 "Unauthorized",
    FORBIDDEN 403 "Forbidden",
    NOT_FOUND 404 "Not Found",
    METHOD_NOT_ALLOWED 405 "Method Not Allowed",
    REQUEST_TIMEOUT 408 "Request Timeout",
    GONE 410 "Gone",
    PRECONDITION_FAILED 412 "Precondition Failed",
    CONTENT_TOO_LARGE 413 "Content Too Large",
    URI_TOO_LONG 414 "URI Too Long",
    RANGE_NOT_SATISFIABLE 416 "Range Not Satisfiable",
    EXPECTATION_FAILED 417 "Expectation Failed",
    TOO_MANY_REQUESTS 429 "Too Many Requests",
    REQUEST_HEADER_FIELDS_TOO_LARGE 431 "Request Header Fields Too Large",
    INTERNAL_SERVER_ERROR 500 "Internal Server Error",
    NOT_IMPLEMENTED 501 "Not Implemented",
    SERVICE_UNAVAILABLE 503 "Service Unavailable",
    HTTP_VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported",
}

impl Status {
    /// The first digit: 1 to 5 for a valid code.
    #[must_use]
    pub const fn class(self) -> u16 {
        self.0 / 100
    }

    /// True if a response with this status never has content: 1xx, 204, 304 (RFC 9110 §6.4.1).
    #[must_use]
    pub const fn is_bodiless(self) -> bool {
        matches!(self.0, 100..=199 | 204 | 304)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn check(status: Status, class: u16, bodiless: bool) {
        assert_eq!(status.class(), class, "{status:?}");
        assert_eq!(status.is_bodiless(), bodiless, "{status:?}");
    }

    #[test]
    fn classes_and_bodies() {
        check(Status::CONTINUE, 1, true);
        check(Status::OK, 2, false);
        check(Status::NO_CONTENT, 2, true);
        check(Status::NOT_MODIFIED, 3, true);
        check(Status::REQUEST_HEADER_FIELDS_TOO_LARGE, 4, false);
        check(Status::HTTP_VERSION_NOT_SUPPORTED, 5, false);
    }

    #[test]
    fn every_status_has_its_line() {
        for status in Status::ALL {
            let line = format!("HTTP/1.1 {} {}\r\n", status.0, status.reason());
            assert_eq!(status.line(), Some(line.as_str()));
        }
        assert!(Status::ALL.is_sorted());
        assert_eq!(Status(299).line(), None);
        assert_eq!(Status(299).reason(), "Unknown");
    }
}
