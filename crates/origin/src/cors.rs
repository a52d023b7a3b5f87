//! Permissions for scripts of other sites to read responses: CORS, as in the Fetch standard.
use alloc::{boxed::Box, string::String, vec::Vec};
use regatta_http::{
    field::is_token,
    h1::{remove_fields, write_decimal_field, write_field},
};

/// The most origins of a rule.
const ORIGINS_MAX: usize = 256;

/// Origins that may read responses for the paths matching a pattern.
#[derive(Clone, Debug)]
pub struct CorsRule {
    origins: Box<[Box<str>]>,
    /// Field lines of responses that a script may read.
    read: Box<[u8]>,
    /// Field lines of the response that lets a script ask.
    preflight: Box<[u8]>,
    pub(crate) place: Box<str>,
}

/// Parts of a rule.
#[derive(Clone, Copy, Debug)]
pub struct CorsOptions<'a> {
    /// The origins, each `scheme://host` and perhaps `:port`.
    pub origins: &'a [String],
    /// Fields that a script may send.
    pub headers: &'a [String],
    /// Fields that a script may read, besides those that it always may.
    pub expose: &'a [String],
    /// Seconds for which a browser may remember that a script may ask.
    pub max_age_s: u64,
}

/// Reason why a rule cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorsFault {
    /// No origin, or too many.
    Count,
    /// The origin with this number is none.
    Origin(usize),
    /// The name with this number is no name of a field that a script may send.
    Header(usize),
    /// The name with this number is no name of a field that a script may read.
    Expose(usize),
}

impl CorsFault {
    /// Sentence for people: the fault, and what helps.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Count => "there must be an origin, and 256 at most",
            Self::Origin(_) => {
                "an origin is as browsers send it, in lower case and without a slash at the end, \
                 as in https://app.example.com; for everybody, set Access-Control-Allow-Origin: * \
                 in [[headers]]"
            }
            Self::Header(_) | Self::Expose(_) => "it is no name of a field",
        }
    }
}

impl CorsRule {
    /// A rule.
    ///
    /// # Errors
    /// The fault of the rule.
    pub fn new(options: CorsOptions<'_>, place: &str) -> Result<Self, CorsFault> {
        let CorsOptions { origins, headers, expose, max_age_s } = options;
        if origins.is_empty() || origins.len() > ORIGINS_MAX {
            return Err(CorsFault::Count);
        }
        if let Some(at) = origins.iter().position(|origin| !is_origin(origin)) {
            return Err(CorsFault::Origin(at));
        }
        if let Some(at) = headers.iter().position(|name| !is_token(name)) {
            return Err(CorsFault::Header(at));
        }
        if let Some(at) = expose.iter().position(|name| !is_token(name)) {
            return Err(CorsFault::Expose(at));
        }
        let (mut read, mut preflight) = (Vec::new(), Vec::new());
        if !expose.is_empty() {
            write_field(&mut read, "Access-Control-Expose-Headers", expose.join(", ").as_bytes());
        }
        write_field(&mut preflight, "Access-Control-Allow-Methods", b"GET, HEAD");
        if !headers.is_empty() {
            let names = headers.join(", ");
            write_field(&mut preflight, "Access-Control-Allow-Headers", names.as_bytes());
        }
        write_decimal_field(&mut preflight, "Access-Control-Max-Age", max_age_s);
        Ok(Self {
            origins: origins.iter().map(|origin| origin.as_str().into()).collect(),
            read: read.into_boxed_slice(),
            preflight: preflight.into_boxed_slice(),
            place: place.into(),
        })
    }
}

/// True for a valid origin of a page on the web.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else {
        return false;
    };
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._:[]".contains(&byte);
    matches!(scheme, "http" | "https") && !host.is_empty() && host.bytes().all(allowed)
}

/// Result of a rule for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The rule's number.
    pub(crate) rule: u16,
    /// The number of the origin, if it is one of the rule's.
    origin: Option<u16>,
    /// True for the request by which a browser finds out what the script may send.
    preflight: bool,
}

impl Grant {
    /// Applies the rule of this number to a script of `origin`, or to its `preflight`.
    pub(crate) fn new(
        rule: &CorsRule,
        number: u16,
        origin: Option<&[u8]>,
        preflight: bool,
    ) -> Self {
        let known = rule.origins.iter().position(|known| origin == Some(known.as_bytes()));
        let origin = known.and_then(|at| u16::try_from(at).ok());
        Self { rule: number, origin, preflight }
    }

    /// True if the script may read the response.
    pub(crate) const fn allows(self) -> bool {
        self.origin.is_some()
    }

    /// Writes the field lines of the response. All responses for the path vary with the origin,
    /// also those to requests without one.
    pub(crate) fn write(self, rule: &CorsRule, out: &mut Vec<u8>) {
        write_field(out, "Vary", b"Origin");
        let origin = self.origin.and_then(|at| rule.origins.get(usize::from(at)));
        if let Some(origin) = origin {
            write_field(out, "Access-Control-Allow-Origin", origin.as_bytes());
            out.extend_from_slice(if self.preflight { &rule.preflight } else { &rule.read });
        }
    }
}

/// True for the name of a field that permits something to scripts of other sites.
pub(crate) fn grants(name: &[u8]) -> bool {
    const START: &[u8] = b"access-control-allow-";
    name.get(..START.len()).is_some_and(|start| start.eq_ignore_ascii_case(START))
}

/// Removes the field lines that [`grants`] finds.
pub(crate) fn remove_grants(head: &mut Vec<u8>) {
    remove_fields(head, grants);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origins: &[&str], headers: &[&str], expose: &[&str]) -> Result<CorsRule, CorsFault> {
        let [origins, headers, expose] = [origins, headers, expose]
            .map(|texts| texts.iter().map(|text| String::from(*text)).collect::<Vec<_>>());
        let (origins, headers, expose) = (&origins[..], &headers[..], &expose[..]);
        CorsRule::new(CorsOptions { origins, headers, expose, max_age_s: 600 }, "r.toml:1")
    }

    fn written(rule: &CorsRule, origin: Option<&[u8]>, preflight: bool) -> String {
        let mut out = Vec::new();
        Grant::new(rule, 0, origin, preflight).write(rule, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn only_origins_of_the_list_are_allowed() {
        let origins = ["https://a.example", "http://[::1]:8080"];
        let rule = rule(&origins, &["X-A", "Range"], &["ETag"]).expect("a rule");
        let plain = "Vary: Origin\r\n";
        assert_eq!(written(&rule, None, false), plain);
        let alike = ["https://a.example.evil.com", "https://a.example:443", "https://A.example"];
        for origin in alike.into_iter().chain(["", "null", "http://a.example"]) {
            assert_eq!(written(&rule, Some(origin.as_bytes()), false), plain, "{origin}");
            assert_eq!(written(&rule, Some(origin.as_bytes()), true), plain, "{origin}");
        }
        let read = "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n\
                    Access-Control-Expose-Headers: ETag\r\n";
        assert_eq!(written(&rule, Some(b"https://a.example"), false), read);
        let preflight = "Vary: Origin\r\nAccess-Control-Allow-Origin: http://[::1]:8080\r\n\
                         Access-Control-Allow-Methods: GET, HEAD\r\n\
                         Access-Control-Allow-Headers: X-A, Range\r\n\
                         Access-Control-Max-Age: 600\r\n";
        assert_eq!(written(&rule, Some(b"http://[::1]:8080"), true), preflight);
    }

    #[test]
    fn what_others_say_is_removed() {
        for (head, expected) in [
            ("", ""),
            ("HTTP/1.1 200 OK\r\nVary: a\r\n", "HTTP/1.1 200 OK\r\nVary: a\r\n"),
            ("H\r\naccess-control-ALLOW-origin: *\r\nA: b\r\n", "H\r\nA: b\r\n"),
            ("H\r\nAccess-Control-Allow-A: b\r\nAccess-Control-Allow-B: c\r\n", "H\r\n"),
            ("H\r\nX: Access-Control-Allow-A: b\r\n", "H\r\nX: Access-Control-Allow-A: b\r\n"),
        ] {
            let mut out = head.as_bytes().to_vec();
            remove_grants(&mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn rules_are_read_or_explained() {
        let good = ["https://a"];
        let fault = |origins: &[&str]| rule(origins, &[], &[]).err();
        assert_eq!(fault(&good), None);
        assert_eq!(fault(&[]), Some(CorsFault::Count));
        for wrong in ["*", "null", "a", "https://", "https://a/", "https://A", "file://a", ""] {
            assert_eq!(fault(&["https://a", wrong]), Some(CorsFault::Origin(1)), "{wrong}");
        }
        assert_eq!(rule(&good, &["a b"], &[]).err(), Some(CorsFault::Header(0)));
        assert_eq!(rule(&good, &[], &["a:"]).err(), Some(CorsFault::Expose(0)));
    }
}
