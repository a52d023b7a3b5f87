//! Words and lines of a head, found eight bytes at a time (RFC 9112 §2.2, §5).

/// Not what a line of a head may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What stands where a field line may start.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next<'a> {
    /// A field line. The name is not yet known to be a token, but has no control character; the
    /// value is without whitespace around it. `end` is where the next line starts.
    Field { name: &'a [u8], value: &'a [u8], end: usize },
    /// The blank line that ends the head; what follows starts here.
    Blank(usize),
    /// Not enough bytes to say.
    Partial,
}

/// Reads the field line at `at`.
///
/// There is no whitespace between name and colon, and no line that goes on with whitespace: the
/// name would not be a token (RFC 9112 §5.1, §5.2).
#[inline]
pub(crate) fn next_field(bytes: &[u8], at: usize) -> Result<Next<'_>, Malformed> {
    let Some(end) = line_end(bytes, at)? else {
        return Ok(Next::Partial);
    };
    if end == at {
        return Ok(Next::Blank(end + 2));
    }
    let colon = find(bytes, at, |word| equal(word, b':')).ok_or(Malformed)?;
    let (Some(name), Some(value)) = (bytes.get(at..colon), bytes.get(colon + 1..end)) else {
        return Err(Malformed);
    };
    Ok(Next::Field { name, value: trim_value(value), end: end + 2 })
}

/// A value without whitespace around it: most have one space before and none after.
#[inline]
fn trim_value(value: &[u8]) -> &[u8] {
    match value {
        [b' ', middle @ ..] if is_trimmed(middle) => middle,
        _ => crate::field::trim(value),
    }
}

#[inline]
fn is_trimmed(text: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !blank(text.first()) && !blank(text.last())
}

/// Index of the CRLF that ends the line at `from`; `None` if it has not come yet.
///
/// A CR or LF that is not part of a CRLF, or any other control character but a tab, is malformed.
#[inline]
pub(crate) fn line_end(bytes: &[u8], from: usize) -> Result<Option<usize>, Malformed> {
    let mut at = from;
    while let Some(hit) = find(bytes, at, controls) {
        match &bytes[hit..] {
            [b'\r', b'\n', ..] => return Ok(Some(hit)),
            [b'\r'] => return Ok(None),
            [b'\t', ..] => at = hit + 1,
            _ => return Err(Malformed),
        }
    }
    Ok(None)
}

/// Index of the first byte at or after `from` that `marks` marks. It returns a word whose lowest
/// set bit is the high bit of the first byte to be found; higher bits may be anything.
#[inline(always)]
pub(crate) fn find(bytes: &[u8], from: usize, marks: impl Fn(u64) -> u64) -> Option<usize> {
    let (words, tail) = bytes.get(from..)?.as_chunks::<8>();
    let mut at = from;
    for word in words {
        let marks = marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return Some(at + first_byte(marks));
        }
        at += 8;
    }
    // The last few bytes are the upper ones of the last word; those that take their place there
    // are 0, and what is found among them is nothing.
    let missing = 8 - tail.len();
    let hit = if missing == 8 {
        return None;
    } else if let Some(last) = bytes.last_chunk::<8>() {
        first_byte(marks(u64::from_le_bytes(*last) >> (8 * missing)))
    } else {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        first_byte(marks(u64::from_le_bytes(word)))
    };
    (hit < tail.len()).then_some(at + hit)
}

/// Index of the byte that has the lowest set bit; 8 if there is none.
#[inline]
const fn first_byte(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

const LOW: u64 = u64::from_le_bytes([0x01; 8]);
const HIGH: u64 = u64::from_le_bytes([0x80; 8]);

/// Marks control characters: below 0x20, and 0x7f.
#[inline]
pub(crate) const fn controls(word: u64) -> u64 {
    outside(word, 0x20)
}

/// Marks control characters and spaces.
#[inline]
pub(crate) const fn blanks(word: u64) -> u64 {
    outside(word, 0x21)
}

/// Marks bytes below `least`, and 0x7f. No sum leaves its byte: 0x7f + 0x80 - 0x20 < 0x100.
#[inline]
const fn outside(word: u64, least: u64) -> u64 {
    let seven = word & !HIGH;
    let at_least = seven + LOW * (0x80 - least);
    let delete = seven + LOW;
    // A delete is also above the least, so the two differ where a byte is allowed.
    !(at_least ^ delete | word) & HIGH
}

/// Marks bytes that are `byte`; above the first of them, also others.
#[inline]
pub(crate) const fn equal(word: u64, byte: u8) -> u64 {
    let zeroed = word ^ (LOW * byte as u64);
    zeroed.wrapping_sub(LOW) & !zeroed & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Looks for what `is` says in texts that have one such byte at each place, or none.
    fn check(marks: impl Fn(u64) -> u64 + Copy, is: impl Fn(u8) -> bool) {
        for len in 0..20 {
            for byte in 0..=255 {
                for place in 0..len {
                    for filler in [b'a', 0x80, 0xff] {
                        let mut text = vec![filler; len];
                        text[place] = byte;
                        for from in 0..=len {
                            let expected = (from..len).find(|&at| is(text[at]));
                            assert_eq!(find(&text, from, marks), expected, "{text:?} {from}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn finders_find_the_first_byte_of_their_kind() {
        check(controls, |byte| byte.is_ascii_control());
        check(blanks, |byte| byte.is_ascii_control() || byte == b' ');
        check(|word| equal(word, b':'), |byte| byte == b':');
    }
}
