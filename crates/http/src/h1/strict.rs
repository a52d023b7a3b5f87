//! Checks for what `httparse` accepts in a head and we do not: lines that end in a bare LF.
use crate::Fields;

/// The most field lines that a request head may have, whatever the limits say.
pub const FIELDS_MAX: usize = 1024;

/// Field lines that fit on the stack while a head is parsed. If a request has more, its field
/// section is parsed again, with room from the heap.
pub const FIELDS_USUAL: usize = 64;

/// The field section of `text`, exactly one head, with its `lines` in order; `None` unless each
/// line of the head, the request or status line with them, ends in CRLF.
///
/// Each line starts where the one before it ended, after an LF, so that only the byte before that
/// is in question. Inside a line `httparse` takes neither CR nor LF.
#[inline(always)]
pub(super) fn section<'a>(text: &'a [u8], lines: &[httparse::Header<'a>]) -> Option<Fields<'a>> {
    let blank = text.strip_suffix(b"\r\n")?;
    let mut good = blank.ends_with(b"\r\n");
    let mut start = blank.len();
    for line in lines.iter().rev() {
        start = offset(text, line.name.as_bytes());
        good &= text[..start].ends_with(b"\r\n");
    }
    good.then(|| Fields::new(&blank[start..]))
}

/// Offset of `part` in `text`, which contains it.
#[inline]
pub(super) fn offset(text: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

/// True if `rest` starts with an HTTP version that is neither 1.0 nor 1.1 (RFC 9112 §2.3).
pub(super) fn is_unknown_version(rest: &[u8]) -> bool {
    match rest {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0' | b'1', ..] => false,
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9', ..] => true,
        _ => false,
    }
}
