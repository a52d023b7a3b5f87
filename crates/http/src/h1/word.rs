//! Looking at eight bytes at once: which of them are of some kind.

/// Bytes that are looked at together.
pub(crate) const LANES: usize = 8;

/// The high bit of byte `n` is set if byte `n` is of the kind asked for; no other bit is.
pub(crate) type Marks = u64;

const LOW: u64 = u64::from_le_bytes([0x01; LANES]);
const HIGH: u64 = u64::from_le_bytes([0x80; LANES]);

/// Marks control characters: below 0x20, and 0x7f.
#[inline(always)]
pub(crate) const fn controls(word: u64) -> Marks {
    !(inside(word, 0x20) | word) & HIGH
}

/// Marks what is not a visible ASCII character: control characters, spaces, and above 0x7f.
#[inline(always)]
pub(crate) const fn invisibles(word: u64) -> Marks {
    (!inside(word, 0x21) | word) & HIGH
}

/// Marks what is neither an ASCII letter nor a hyphen, of which nearly all field names consist. For
/// text without control characters: setting bit 5 makes a hyphen of a CR.
#[inline(always)]
pub(crate) const fn not_in_plain_names(word: u64) -> Marks {
    let lower = word | (LOW * 0x20);
    let seven = lower & !HIGH;
    let at_least_a = seven + LOW * (0x80 - b'a' as u64);
    let above_z = seven + LOW * (0x7f - b'z' as u64);
    let not_a_hyphen = (seven ^ (LOW * b'-' as u64)) + !HIGH;
    // Only what is a letter is at least `a` and not above `z`.
    (!(at_least_a ^ above_z) & not_a_hyphen | word) & HIGH
}

/// Sets the high bit of each byte whose lower seven bits are `least` to 0x7e; the other bits may be
/// anything. No sum leaves its byte: 0x7f + 0x80 - 0x20 < 0x100.
#[inline(always)]
const fn inside(word: u64, least: u64) -> u64 {
    let seven = word & !HIGH;
    let at_least = seven + LOW * (0x80 - least);
    let delete = seven + LOW;
    at_least ^ delete
}

/// Index of the first byte of `kind` at or after `from`.
#[inline(always)]
pub(crate) fn find(bytes: &[u8], from: usize, kind: impl Fn(u64) -> Marks) -> Option<usize> {
    let (words, tail) = bytes.get(from..)?.as_chunks::<LANES>();
    let mut at = from;
    for word in words {
        let marks = kind(u64::from_le_bytes(*word));
        if marks != 0 {
            return Some(at + first(marks));
        }
        at += LANES;
    }
    if tail.is_empty() {
        return None;
    }
    // The last few bytes are the upper ones of the last whole word, shifted down.
    let Some(word) = bytes.last_chunk() else {
        return find_short(tail, kind).map(|hit| at + hit);
    };
    let marks = kind(u64::from_le_bytes(*word)) >> (8 * (LANES - tail.len()));
    (marks != 0).then_some(at + first(marks))
}

/// As [`find`], in less than a word.
#[cold]
fn find_short(bytes: &[u8], kind: impl Fn(u64) -> Marks) -> Option<usize> {
    bytes.iter().position(|&byte| kind(LOW * u64::from(byte)) != 0)
}

/// Index of the first byte that is marked.
#[inline(always)]
const fn first(marks: Marks) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Looks for what `is` says in texts that have one such byte at each place, or none.
    fn check(kind: impl Fn(u64) -> Marks + Copy, is: impl Fn(u8) -> bool) {
        for (len, byte) in (0..20).flat_map(|len| (0..=255).map(move |byte| (len, byte))) {
            for (place, filler) in (0..len).flat_map(|at| [(at, b'a'), (at, 0x80), (at, 0xff)]) {
                let mut text = vec![filler; len];
                text[place] = byte;
                for from in 0..=len + 1 {
                    let expected = (from..len).find(|&at| is(text[at]));
                    assert_eq!(find(&text, from, kind), expected, "{text:?} {from}");
                }
            }
        }
    }

    #[test]
    fn finders_find_the_bytes_of_their_kind() {
        check(controls, |byte| byte.is_ascii_control());
        check(invisibles, |byte| !byte.is_ascii_graphic());
        let plain = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'\r');
        check(not_in_plain_names, |byte| !plain(byte));
    }
}
