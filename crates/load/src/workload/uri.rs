//! File names as request targets and back (RFC 3986 §2.1).

/// Appends the percent-encoded form of `path`: unreserved characters and `/` stay.
pub fn encode(path: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Decodes percent-encoding once; `None` for a bad escape or bytes that are not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let (&[high, low], tail) = rest.split_first_chunk()?;
            let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
            out.push(digit(high)? << 4 | digit(low)?);
            rest = tail;
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

/// Longest file name of one segment, bytes (`NAME_MAX` on Linux).
pub const SEGMENT_BYTES_MAX: usize = 255;
/// Longest path in a file set, bytes.
pub const PATH_BYTES_MAX: usize = 2_048;

/// The file below a root that a request target names: query and fragment cut, decoded once, `//`
/// collapsed, `index.html` added to a directory. `None` for targets that name no file that we would
/// dare to create: dot segments, control characters, over-long names, other forms than `/...`.
pub fn file_of_target(target: &str) -> Option<String> {
    let target = target
        .strip_prefix("http://")
        .map_or(target, |rest| rest.find('/').map_or("/", |slash| &rest[slash..]));
    let path = target.split(['?', '#']).next().unwrap_or("").strip_prefix('/')?;
    let decoded = decode(path)?;
    let mut file = String::with_capacity(decoded.len());
    for segment in decoded.split('/').filter(|s| !s.is_empty()) {
        let bad = segment.len() > SEGMENT_BYTES_MAX || segment.chars().any(char::is_control);
        if bad || segment == "." || segment == ".." {
            return None;
        }
        if !file.is_empty() {
            file.push('/');
        }
        file.push_str(segment);
    }
    if decoded.is_empty() || decoded.ends_with('/') {
        file.push_str(if file.is_empty() { "index.html" } else { "/index.html" });
    }
    (file.len() <= PATH_BYTES_MAX).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_round_trip() {
        for (path, uri) in [
            ("file_set/dir00012/class1_4", "file_set/dir00012/class1_4"),
            ("a b/100%.html", "a%20b/100%25.html"),
            ("ü?#\t", "%C3%BC%3F%23%09"),
            ("", ""),
        ] {
            let mut out = String::new();
            encode(path, &mut out);
            assert_eq!(out, uri);
            assert_eq!(decode(&out).as_deref(), Some(path));
        }
    }

    #[test]
    fn targets_name_files_below_the_root_only() {
        for (target, file) in [
            ("/", Some("index.html")),
            ("/a/", Some("a/index.html")),
            ("/a/b.html?q=1", Some("a/b.html")),
            ("//a///b", Some("a/b")),
            ("http://host/x", Some("x")),
            ("http://host", Some("index.html")),
            ("/%61%20b", Some("a b")),
            ("/../etc/passwd", None),
            ("/a/%2e%2e/%2e%2e/etc/passwd", None),
            ("/a%2f..%2fb", None),
            ("/./a", None),
            ("/a%00b", None),
            ("/a%0ab", None),
            ("/%zz", None),
            ("/%f", None),
            ("/%ff", None),
            ("*", None),
            ("host:443", None),
            ("", None),
        ] {
            assert_eq!(file_of_target(target).as_deref(), file, "{target}");
        }
        assert_eq!(file_of_target(&format!("/{}", "x".repeat(256))), None);
    }
}
