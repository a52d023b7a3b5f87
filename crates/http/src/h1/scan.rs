//! Finding the end of a head as its bytes arrive (RFC 9112 §2.2).
use super::line::{Lines, Malformed};

/// The most empty lines that are skipped before a request line.
pub const LEADING_LINES_MAX: usize = 2;

/// What [`scan_head`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// No end yet, and nothing wrong so far.
    Partial,
    /// The head is this many bytes long, with leading empty lines and the blank line at its end.
    End(usize),
    /// This can be no head: answer 400 and close.
    Bad,
}

/// Finds the end of a head in `bytes`, all that has come so far, of which the first `seen` were
/// there at an earlier call that returned [`Scan::Partial`] (0 at the first call).
///
/// Refuses at once a CR or LF that is not part of a CRLF, any other control character but a tab,
/// and more than [`LEADING_LINES_MAX`] empty lines at the start. Request heads and response heads
/// are scanned alike. The caller limits how long a head may grow:
/// [`super::HeadFault::oversized`].
#[must_use]
pub fn scan_head(bytes: &[u8], seen: usize) -> Scan {
    let Ok(start) = skip_empty_lines(bytes) else {
        return Scan::Bad;
    };
    // A CR that came last is looked at again, now that it has a successor.
    let again = usize::from(bytes[..seen].ends_with(b"\r"));
    let mut lines = Lines::new(bytes, start.max(seen - again));
    loop {
        let at = lines.at();
        match lines.next_line() {
            Ok(Some(line)) if bytes[..at + line.len()].ends_with(b"\r\n") => {
                return Scan::End(lines.at());
            }
            Ok(Some(_)) => {}
            Ok(None) => return Scan::Partial,
            Err(Malformed) => return Scan::Bad,
        }
    }
}

/// Where the first line that is not empty starts.
#[inline]
pub(super) fn skip_empty_lines(bytes: &[u8]) -> Result<usize, Malformed> {
    if let [b'\r', ..] = bytes { leading(bytes) } else { Ok(0) }
}

#[cold]
fn leading(bytes: &[u8]) -> Result<usize, Malformed> {
    let lines = bytes.chunks_exact(2).take_while(|&pair| pair == b"\r\n").count();
    if lines > LEADING_LINES_MAX { Err(Malformed) } else { Ok(lines * 2) }
}
