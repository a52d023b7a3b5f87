//! Finding the end of a head as its bytes arrive (RFC 9112 §2.2).

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
/// and more than [`LEADING_LINES_MAX`] empty lines at the start. Both kinds of head are scanned
/// so. The caller limits how long a head may grow: [`super::HeadFault::oversized`].
#[must_use]
pub fn scan_head(bytes: &[u8], seen: usize) -> Scan {
    let mut at = match bytes {
        [b'\r', ..] => match leading(bytes) {
            Some(lead) => lead.max(seen.saturating_sub(1)),
            None => return Scan::Bad,
        },
        _ => seen.saturating_sub(1),
    };
    // Eight bytes at a time; only words with a control character are looked at closely.
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let mut controls = controls(u64::from_le_bytes(*word));
        while controls != 0 {
            let hit = at + (controls.trailing_zeros() / 8) as usize;
            match judge(bytes, hit) {
                None => {}
                Some(verdict) => return verdict,
            }
            controls &= controls - 1;
        }
        at += 8;
    }
    for hit in at..bytes.len() {
        if bytes[hit] < b' ' || bytes[hit] == 0x7f {
            match judge(bytes, hit) {
                None => {}
                Some(verdict) => return verdict,
            }
        }
    }
    Scan::Partial
}

/// What the control character at `at` means: nothing, or the verdict.
#[inline]
fn judge(bytes: &[u8], at: usize) -> Option<Scan> {
    match bytes[at] {
        b'\n' => match bytes[..at] {
            [.., b'\n', b'\r'] => Some(Scan::End(at + 1)),
            [.., b'\r'] => None,
            _ => Some(Scan::Bad),
        },
        b'\r' => match bytes.get(at + 1) {
            None | Some(b'\n') => None,
            Some(_) => Some(Scan::Bad),
        },
        b'\t' => None,
        _ => Some(Scan::Bad),
    }
}

/// The high bit of each byte that is a control character.
#[inline]
const fn controls(word: u64) -> u64 {
    const LOW: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let seven = word & !HIGH;
    // No carry leaves a byte: 0x7f + 0x60 and 0x7f + 0x01 stay below 0x100.
    let at_least_space = seven + LOW * 0x60;
    let delete = seven + LOW;
    (!at_least_space | delete) & !word & HIGH
}

/// Bytes of the empty lines at the start of `bytes`, or `None` if there are too many.
#[cold]
fn leading(bytes: &[u8]) -> Option<usize> {
    let lines = bytes.chunks_exact(2).take_while(|&pair| pair == b"\r\n").count();
    (lines <= LEADING_LINES_MAX).then_some(lines * 2)
}
