//! Paths whose requests are not logged (`log.skip`).
use regatta_http::{
    pattern::{MatchCost, Pattern, PatternFault, Patterns, Refused, STEPS_MAX, expand},
    target::decode_path,
};
use std::fmt;

/// Limit of patterns.
const PATTERNS_MAX: usize = 256;

/// Reason why patterns are not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipFault {
    /// This many patterns are too many.
    Count(usize),
    /// A text is no pattern.
    Pattern(String, PatternFault),
    /// With this pattern, a path would cost too much.
    Full(String),
}

impl fmt::Display for SkipFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count} patterns, and there may be {PATTERNS_MAX}"),
            Self::Pattern(text, fault) => write!(f, "\"{text}\": {}", fault.reason()),
            Self::Full(text) => {
                write!(f, "\"{text}\": with it, a path could take more than {STEPS_MAX} steps")
            }
        }
    }
}

/// Patterns of paths whose requests are not logged.
#[derive(Clone, Debug, Default)]
pub struct SkippedPaths(Patterns<()>);

impl SkippedPaths {
    /// Reads patterns. A pattern that is there twice counts once.
    ///
    /// # Errors
    /// The reason for which a pattern is not taken.
    pub fn parse(texts: &[String]) -> Result<Self, SkipFault> {
        if texts.len() > PATTERNS_MAX {
            return Err(SkipFault::Count(texts.len()));
        }
        let mut patterns = Patterns::default();
        for text in texts {
            let fault = |fault| SkipFault::Pattern(text.clone(), fault);
            for plain in expand(text).map_err(fault)? {
                let pattern = Pattern::parse(&plain).map_err(fault)?;
                match patterns.insert(&pattern, (), MatchCost::default()) {
                    Ok(()) | Err(Refused::Taken(())) => {}
                    Err(Refused::Full(_)) => return Err(SkipFault::Full(text.clone())),
                }
            }
        }
        Ok(Self(patterns))
    }

    /// True if no path is skipped.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if requests for this target are not logged. A target without a path, or with a
    /// malformed one, is logged. `room` is used for paths that must be decoded.
    #[must_use]
    pub fn has(&self, target: &[u8], room: &mut Vec<u8>) -> bool {
        let Ok(path) = decode_path(path_of(target), room) else { return false };
        self.0.visit(path.relative, &mut |(), _| true)
    }
}

/// The path of a target: an absolute one has scheme and authority before it.
fn path_of(target: &[u8]) -> &[u8] {
    if target.first() == Some(&b'/') {
        return target;
    }
    let after =
        target.windows(3).position(|three| three == b"://").map_or(target.len(), |at| at + 3);
    let rest = &target[after..];
    rest.iter().position(|byte| b"/?".contains(byte)).map_or(b"/", |at| match rest[at] {
        b'/' => &rest[at..],
        _ => b"/",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> Result<SkippedPaths, String> {
        let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
        SkippedPaths::parse(&texts).map_err(|fault| fault.to_string())
    }

    #[test]
    fn targets_are_skipped_by_their_path() {
        let skipped = parse(&["/healthz", "/assets/**", "/*.ico", "/healthz"]).unwrap();
        let mut room = Vec::new();
        for (target, expected) in [
            ("/healthz", true),
            ("/healthz?probe=1", true),
            ("/%68ealthz/", true),
            ("/x/../healthz", true),
            ("http://h:80/healthz", true),
            ("/assets", true),
            ("/assets/a/b.js", true),
            ("/a/favicon.ico", true),
            ("/", false),
            ("/healthz/x", false),
            ("/?/healthz", false),
            ("http://h?/healthz", false),
            ("http://h", false),
            ("*", false),
            ("", false),
            ("h:443", false),
            ("/%zz", false),
            ("/../healthz", false),
        ] {
            assert_eq!(skipped.has(target.as_bytes(), &mut room), expected, "{target}");
        }
        let none = SkippedPaths::default();
        assert!(none.is_empty() && !skipped.is_empty() && !none.has(b"/", &mut room));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let fault = |texts: &[&str]| parse(texts).unwrap_err();
        assert!(fault(&["healthz"]).starts_with("\"healthz\": a pattern starts with a slash"));
        assert!(fault(&["/a/*/*"]).starts_with("\"/a/*/*\": a pattern has one *"));
        assert!(fault(&["/a"; 257]).starts_with("257 patterns, and there may be 256"));
    }
}
