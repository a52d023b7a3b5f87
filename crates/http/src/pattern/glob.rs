//! Globs of paths, as in `**/*.css` and `/docs/*.{js,css}`, as patterns with one `*` each.
use super::PatternFault;
use alloc::{borrow::ToOwned, string::String, vec, vec::Vec};

/// The most patterns of one glob.
pub const ALTERNATIVES_MAX: usize = 64;

/// The patterns that together match what a glob matches, each once. Whether they are well-formed,
/// [`super::Pattern::parse`] finds out.
///
/// * `{a,b}` is either text. Braces without a comma are themselves.
/// * `**` is `*`, and `**/` before a name is any number of folders, also none.
/// * A glob that starts with `*` needs no slash before it.
///
/// # Errors
/// Braces are malformed, or there are more than [`ALTERNATIVES_MAX`] patterns.
pub fn expand(glob: &str) -> Result<Vec<String>, PatternFault> {
    let slash = if glob.starts_with('*') { "/" } else { "" };
    let mut patterns = Vec::new();
    for text in alternatives(slash.to_owned() + glob)? {
        for pattern in without_double_stars(text) {
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
    }
    if patterns.len() > ALTERNATIVES_MAX { Err(PatternFault::Braces) } else { Ok(patterns) }
}

/// The texts that a text with braces stands for.
fn alternatives(text: String) -> Result<Vec<String>, PatternFault> {
    let (mut done, mut open) = (Vec::new(), vec![text]);
    while let Some(text) = open.pop() {
        let Some((before, inside, after)) = first_braces(&text)? else {
            done.push(text);
            continue;
        };
        // The first of them is the next to be taken.
        open.extend(inside.rsplit(',').map(|one| [before, one, after].concat()));
        if done.len() + open.len() > ALTERNATIVES_MAX {
            return Err(PatternFault::Braces);
        }
    }
    Ok(done)
}

/// The first braces with a comma: the text before them, in them and behind them.
fn first_braces(text: &str) -> Result<Option<(&str, &str, &str)>, PatternFault> {
    let mut from = 0;
    while let Some(start) = text[from..].find('{').map(|at| from + at) {
        let inside = &text[start + 1..];
        let end = inside.find(['{', '}']);
        let is_list = |inside: &str| inside.contains(',');
        match end {
            Some(end) if inside.as_bytes()[end] == b'}' => {
                if is_list(&inside[..end]) {
                    return Ok(Some((&text[..start], &inside[..end], &inside[end + 1..])));
                }
                from = start + end + 2;
            }
            // Braces within braces, or without an end.
            _ if is_list(inside) => return Err(PatternFault::Braces),
            Some(end) => from = start + 1 + end,
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// A text with `*` for each `**`. Where a name follows `**/`, another one is without that.
fn without_double_stars(text: String) -> Vec<String> {
    let Some(at) = text.find("/**") else { return vec![text] };
    let (before, behind) = (&text[..at], &text[at + 3..]);
    let Some(rest) = behind.strip_prefix('/') else {
        // `/a/**` is `/a/*`. In a longer segment `**` is a fault.
        return if behind.is_empty() { vec![[before, "/*"].concat()] } else { vec![text] };
    };
    let rest = rest.trim_start_matches('/');
    match rest.trim_start_matches("**/") {
        "" | "*" | "**" => vec![[before, "/*"].concat()],
        // `**/*.css` is `*.css`, because `*` stands for slashes, too.
        rest if rest.starts_with('*') => vec![[before, "/", rest].concat()],
        rest => vec![[before, "/", rest].concat(), [before, "/*/", rest].concat()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use alloc::format;

    #[test]
    fn globs_are_patterns() {
        for (glob, expected) in [
            ("/a/:b/*.js", "/a/:b/*.js"),
            ("*.css", "/*.css"),
            ("**/*.css", "/*.css"),
            ("/**/*.css", "/*.css"),
            ("**", "/*"),
            ("/docs/**", "/docs/*"),
            ("/docs/**/", "/docs/*"),
            ("/docs/**/*", "/docs/*"),
            ("/docs/**/**/*.js", "/docs/*.js"),
            ("**/sw.js", "/sw.js /*/sw.js"),
            ("/a/**/b/c.js", "/a/b/c.js /a/*/b/c.js"),
            ("*.{js,css}", "/*.js /*.css"),
            ("**/*.{js,css}", "/*.js /*.css"),
            ("/{a,b}/{c,d}", "/a/c /a/d /b/c /b/d"),
            ("/{a,b,a}", "/a /b"),
            ("/a{,.html}", "/a /a.html"),
            ("/{a}/b}", "/{a}/b}"),
            ("/{a{b,c}", ""),
            ("/{a,b", ""),
            ("/{a,{b,c}}", ""),
            ("/{a", "/{a"),
            ("a.css", "a.css"),
        ] {
            let expanded = expand(glob).unwrap_or_default();
            assert_eq!(expanded.join(" "), expected, "{glob}");
        }
    }

    /// Only those with more than one `*` are none.
    #[test]
    fn patterns_of_globs_have_one_star() {
        for glob in ["**/a*b.css", "/**/a/*.js", "/a**", "/**a", "/*/**/b", "/**/a/**"] {
            let patterns = expand(glob).expect("braces are well-formed");
            let is_fault = |pattern: &String| Pattern::parse(pattern) == Err(PatternFault::Star);
            assert!(patterns.iter().any(is_fault), "{patterns:?}");
        }
    }

    #[test]
    fn a_glob_has_a_limit_of_patterns() {
        let all = "{a,b,c,d,e,f,g,h}";
        assert_eq!(expand(&format!("/{all}{all}")).map(|found| found.len()), Ok(64));
        assert_eq!(expand(&format!("/{all}{all}{{a,b}}")), Err(PatternFault::Braces));
        assert_eq!(expand(&format!("**/{all}/{all}")), Err(PatternFault::Braces));
        assert_eq!(expand(&"{a,b}".repeat(1 << 16)), Err(PatternFault::Braces));
    }
}
