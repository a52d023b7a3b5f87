//! The lines of a head (RFC 9112 §2.2, §5).
use super::word::{controls, find, not_in_plain_names};
use crate::field::{is_tchar, trim};

/// Not what a line of a head may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Reads the lines of a head one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    /// Where the next line starts.
    at: usize,
}

/// What stands where a field line may start.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next<'a> {
    /// A field line. The name is a token; the value is without whitespace around it.
    Field { name: &'a [u8], value: &'a [u8] },
    /// The blank line that ends the head.
    Blank,
    /// Not enough bytes to say.
    Partial,
}

impl<'a> Lines<'a> {
    /// Lines of `bytes` from index `at` on.
    #[inline(always)]
    pub(crate) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Where the next line starts.
    #[inline(always)]
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// The next line, without its line end; `None` if that has not come yet.
    ///
    /// A CR or LF that is not part of a CRLF, or any other control character but a tab, is
    /// malformed.
    #[inline(always)]
    pub(crate) fn next_line(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let mut from = self.at;
        while let Some(hit) = find(self.bytes, from, controls) {
            match self.bytes[hit..] {
                [b'\r', b'\n', ..] => {
                    let line = &self.bytes[self.at..hit];
                    self.at = hit + 2;
                    return Ok(Some(line));
                }
                [b'\r'] => return Ok(None),
                [b'\t', ..] => from = hit + 1,
                _ => return Err(Malformed),
            }
        }
        Ok(None)
    }

    /// Reads the next line as a field line or the end of them.
    ///
    /// There is no whitespace between name and colon, and no line that goes on with whitespace:
    /// the name would not be a token (RFC 9112 §5.1, §5.2).
    #[inline(always)]
    pub(crate) fn next_field(&mut self) -> Result<Next<'a>, Malformed> {
        let start = self.at;
        if self.bytes[start..].starts_with(b"\r\n") {
            self.at = start + 2;
            return Ok(Next::Blank);
        }
        let Some(line) = self.next_line()? else {
            return Ok(Next::Partial);
        };
        let end = start + line.len();
        let colon = self.name_end(start)?;
        let (Some(name), Some(value)) =
            (self.bytes.get(start..colon), self.bytes.get(colon + 1..end))
        else {
            return Err(Malformed);
        };
        Ok(Next::Field { name, value: trim_value(value) })
    }

    /// Index of the colon behind the field name at `start`, in a line that has been looked at for
    /// control characters.
    #[inline(always)]
    fn name_end(&self, start: usize) -> Result<usize, Malformed> {
        match find(self.bytes, start, not_in_plain_names) {
            Some(end) if self.bytes[end] == b':' && end > start => Ok(end),
            _ => rare_name_end(self.bytes, start),
        }
    }
}

/// Index of the colon behind a field name that is not only letters and hyphens.
#[inline(never)]
fn rare_name_end(bytes: &[u8], start: usize) -> Result<usize, Malformed> {
    let name = bytes[start..].iter().take_while(|&&byte| is_tchar(byte)).count();
    match bytes.get(start + name) {
        Some(b':') if name > 0 => Ok(start + name),
        _ => Err(Malformed),
    }
}

/// A value without whitespace around it: most have one space before and none after.
#[inline(always)]
fn trim_value(value: &[u8]) -> &[u8] {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    match value {
        [b' ', middle @ ..] if !blank(middle.first()) && !blank(middle.last()) => middle,
        _ => trim(value),
    }
}
