//! Finding the end of a head as its bytes arrive (RFC 9112 §2.2).
//!
//! The server parses the first bytes of a head at once, since most heads arrive whole. It scans
//! here if they are not a whole head, and when more arrive. The admin process scans every head.
use crate::field::has_controls;
use memchr::memchr;

/// The most empty lines that are skipped before a request line.
pub const LEADING_LINES_MAX: usize = 2;

/// Result of [`scan_head`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// No end yet, and nothing wrong so far.
    Partial,
    /// The head is this many bytes long, with leading empty lines and the blank line at its end.
    End(usize),
    /// These bytes can be no head: answer 400 and close.
    Bad,
}

/// Finds the end of a head in `bytes`, which are all that have come so far. An earlier call has
/// returned [`Scan::Partial`] for the first `seen` of them (0 at the first call).
///
/// Refuses at once a CR or LF that is not part of a CRLF, any other control character but a tab,
/// and more than [`LEADING_LINES_MAX`] empty lines at the start. Request heads and response heads
/// are scanned alike. The caller limits how long a head may grow: [`super::HeadFault::oversized`].
#[must_use]
pub fn scan_head(bytes: &[u8], seen: usize) -> Scan {
    let Some(start) = skip_empty_lines(bytes) else {
        return Scan::Bad;
    };
    // A CR that came last is scanned again, now that it has a successor.
    let again = usize::from(bytes[..seen].ends_with(b"\r"));
    let mut at = start.max(seen - again);
    while let Some(length) = memchr(b'\n', &bytes[at..]) {
        let next = at + length + 1;
        match bytes[at..next].strip_suffix(b"\r\n") {
            Some(line) if !has_controls(line) => {}
            _ => return Scan::Bad,
        }
        if bytes[..next].ends_with(b"\r\n\r\n") {
            return Scan::End(next);
        }
        at = next;
    }
    let line = &bytes[at..];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if has_controls(line) { Scan::Bad } else { Scan::Partial }
}

/// Offset of the first line that is not empty; `None` if too many are, or one is a bare LF.
#[inline]
pub(super) fn skip_empty_lines(bytes: &[u8]) -> Option<usize> {
    if let [b'\r' | b'\n', ..] = bytes { leading(bytes) } else { Some(0) }
}

#[cold]
fn leading(bytes: &[u8]) -> Option<usize> {
    let lines = bytes.chunks_exact(2).take_while(|&pair| pair == b"\r\n").count();
    let start = lines * 2;
    (lines <= LEADING_LINES_MAX && !bytes[start..].starts_with(b"\n")).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Scan::{Bad, End, Partial};

    /// Scans `text` whole, and as it grows from each length to each other one.
    fn check(text: &str, expected: Scan) {
        let bytes = text.as_bytes();
        assert_eq!(scan_head(bytes, 0), expected, "{text:?}");
        for first in 0..bytes.len() {
            for second in first..bytes.len() {
                let seen = [0, first, second].into_iter().zip([first, second, bytes.len()]);
                let found = seen.map(|(seen, end)| scan_head(&bytes[..end], seen));
                let found = found.clone().find(|&found| found != Partial);
                assert_eq!(found.unwrap_or(Partial), expected, "{text:?} {first} {second}");
            }
        }
    }

    #[test]
    fn heads_end_where_they_end() {
        check("", Partial);
        check("G", Partial);
        check("\r", Partial);
        check("\r\n", Partial);
        check("GET / HTTP/1.1\r\nA: b\r\n\r", Partial);
        check("a\r\n\r\n", End(5));
        check("GET / HTTP/1.1\r\nA:\t\u{fc}\r\n\r\n", End(25));
        check("\r\na\r\n\r\n", End(7));
        check("\r\n\r\na\r\n\r\n", End(9));
        check("a\r\n\r\n\x01\n\r", End(5));
        check("\r\n\r\n\r\n", Bad);
        check("a\n\n", Bad);
        check("a\r\n\n", Bad);
        check("a\n\r\n", Bad);
        check("a\rb\r\n", Bad);
        check("a\r\r\n", Bad);
        check("\na", Bad);
        check("\ra", Bad);
        check("a\0", Bad);
        check("a\x7f", Bad);
        check("abcdefgh\x1b[0m", Bad);
    }
}
