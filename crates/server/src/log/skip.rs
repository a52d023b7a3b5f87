//! Paths whose requests are not logged (`log.skip`).
use regatta_http::{
    pattern::{Full, MatchCost, Pattern, Patterns, Refused, STEPS_MAX},
    target::decode_path,
};

/// Limit of patterns.
const PATTERNS_MAX: usize = 256;

/// Patterns of paths whose requests are not logged.
#[derive(Clone, Debug, Default)]
pub struct SkippedPaths(Patterns<()>);

impl SkippedPaths {
    /// Reads patterns. A pattern that is there twice counts once.
    ///
    /// # Errors
    /// The reason for which a pattern is not taken.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        if texts.len() > PATTERNS_MAX {
            return Err(format!("{} patterns, and there may be {PATTERNS_MAX}", texts.len()));
        }
        let mut patterns = Patterns::default();
        for text in texts {
            // `/**` is what other servers write for all paths below one.
            let below = text.strip_suffix("/**").map(|start| format!("{start}/*"));
            let pattern = Pattern::parse(below.as_deref().unwrap_or(text));
            let pattern = pattern.map_err(|fault| format!("\"{text}\": {}", fault.reason()))?;
            match patterns.insert(&pattern, (), MatchCost::default()) {
                Ok(()) | Err(Refused::Taken(())) => {}
                Err(Refused::Full(Full::Steps | Full::Values)) => {
                    let limit = format!("a path could take more than {STEPS_MAX} steps");
                    return Err(format!("\"{text}\": with it, {limit}"));
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
        SkippedPaths::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
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
