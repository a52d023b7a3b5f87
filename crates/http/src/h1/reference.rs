//! A plain definition of a head, for the tests. It splits the whole text at its line ends, and
//! shares no code with the parsers or with `httparse`.
use alloc::{string::String, vec::Vec};

/// A field's name and value.
pub(super) type Pair = (String, String);

/// A head as its lines say it, without their meaning. Each character is one byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plain {
    /// The parts of the first line.
    pub(super) start: [String; 3],
    /// Names and values in order.
    pub(super) fields: Vec<Pair>,
    /// Bytes of the head.
    pub(super) len: usize,
}

/// The request head that `bytes` start with.
pub(super) fn request(bytes: &[u8]) -> Option<Plain> {
    let (line, fields, len) = lines(bytes)?;
    let parts: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = parts[..] else {
        return None;
    };
    let visible = |c: char| c.is_ascii_graphic() || !c.is_ascii();
    let bytes: Vec<u8> = target.chars().map(|c| u8::try_from(c).unwrap_or_default()).collect();
    let visible =
        !target.is_empty() && target.chars().all(visible) && core::str::from_utf8(&bytes).is_ok();
    let minor = version.strip_prefix("HTTP/1.").filter(|minor| minor.len() == 1);
    let known = minor.is_some_and(|minor| minor.as_bytes()[0].is_ascii_digit());
    let good = is_token(method) && visible && known;
    // Later versions than 1.1 are read as 1.1.
    let version = if version == "HTTP/1.0" { version } else { "HTTP/1.1" };
    let start = [method.into(), target.into(), version.into()];
    good.then_some(Plain { start, fields, len })
}

/// The response head that `bytes` start with.
pub(super) fn response(bytes: &[u8]) -> Option<Plain> {
    let (line, fields, len) = lines(bytes)?;
    let mut parts = line.splitn(3, ' ');
    let (version, code, reason) = (parts.next()?, parts.next()?, parts.next().unwrap_or(""));
    let number: u16 = code.parse().ok()?;
    let good = matches!(version, "HTTP/1.0" | "HTTP/1.1")
        && code.len() == 3
        && code.chars().all(|c| c.is_ascii_digit())
        && (100..=599).contains(&number);
    let start = [version.into(), code.into(), reason.into()];
    good.then_some(Plain { start, fields, len })
}

/// The first line, the field lines, and the length with the blank line and leading empty ones.
fn lines(bytes: &[u8]) -> Option<(String, Vec<Pair>, usize)> {
    let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
    let one = text.strip_prefix("\r\n").unwrap_or(&text);
    let rest = one.strip_prefix("\r\n").unwrap_or(one);
    let (head, after) = rest.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let first = lines.next().filter(|line| is_plain(line))?;
    let fields = lines.map(|line| {
        let (name, value) = line.split_once(':').filter(|_| is_plain(line))?;
        let value = value.trim_matches([' ', '\t']);
        is_token(name).then(|| (name.into(), value.into()))
    });
    let fields: Option<Vec<_>> = fields.collect();
    Some((first.into(), fields?, bytes.len() - after.chars().count()))
}

/// No control characters but tabs.
fn is_plain(line: &str) -> bool {
    line.chars().all(|c| c == '\t' || !c.is_ascii_control())
}

fn is_token(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(allowed)
}
