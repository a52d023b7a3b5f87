//! Field lines, their names and values (RFC 9110 §5).
use alloc::vec::Vec;
use core::{fmt, ops::Range};
use memchr::memchr;

/// A field line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name as the peer wrote it: a token. Names have no case.
    pub name: &'a str,
    /// The value, without whitespace around it.
    pub value: &'a [u8],
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value.escape_ascii())
    }
}

/// The field section of a parsed head. Each read goes through its lines again, so that fields
/// without a reader need no memory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// Whole field lines, without the blank line.
    section: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The lines in `section`; a parser must have checked that each is a field line.
    #[inline]
    pub(crate) const fn new(section: &'a [u8]) -> Self {
        Self { section }
    }

    /// The field lines in order.
    #[must_use]
    pub const fn iter(&self) -> Iter<'a> {
        Iter { section: self.section }
    }

    /// The value of the first line named `name`, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// These lines from the first one named `name` on.
    #[cold]
    fn starting_with(&self, name: &str) -> Self {
        let mut iter = self.iter();
        loop {
            let rest = iter.section;
            match iter.next() {
                Some(field) if !field.name.eq_ignore_ascii_case(name) => {}
                _ => return Self { section: rest },
            }
        }
    }
}

impl<'a> IntoIterator for &Fields<'a> {
    type Item = Field<'a>;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Field lines in order: [`Fields::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    /// The lines that are left.
    section: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let (line, rest) = self.section.split_at(memchr(b'\n', self.section)? + 1);
        let colon = memchr(b':', line)?;
        self.section = rest;
        let name = core::str::from_utf8(&line[..colon]).unwrap_or("");
        Some(Field { name, value: line[colon + 1..].trim_ascii() })
    }
}

/// The lines of one field, in order. Several lines are one list (RFC 9110 §5.3).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FieldLines<'a> {
    lines: Extent<'a>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Extent<'a> {
    #[default]
    Absent,
    /// The value of the only line.
    One(&'a [u8]),
    /// The field section from the first line on.
    Many(Fields<'a>),
}

impl<'a> FieldLines<'a> {
    /// The field is absent.
    pub const ABSENT: Self = Self { lines: Extent::Absent };

    /// [`Self::ABSENT`], written in place.
    #[inline(always)]
    pub(crate) const fn absent() -> Self {
        Self { lines: Extent::Absent }
    }

    /// The field in one line.
    #[must_use]
    #[inline]
    pub const fn one(value: &'a [u8]) -> Self {
        Self { lines: Extent::One(value) }
    }

    /// The lines named `name` of `fields`, which has two or more.
    pub(crate) fn many(name: &str, fields: Fields<'a>) -> Self {
        Self { lines: Extent::Many(fields.starting_with(name)) }
    }

    /// True if the field is absent.
    #[must_use]
    #[inline]
    pub const fn is_absent(&self) -> bool {
        matches!(self.lines, Extent::Absent)
    }

    /// True if the field is present.
    #[must_use]
    #[inline]
    pub const fn is_present(&self) -> bool {
        !self.is_absent()
    }

    /// Takes a line `name: value`, which is one of `fields`.
    #[inline]
    pub(crate) fn extend(&mut self, name: &str, value: &'a [u8], fields: Fields<'a>) {
        self.lines = match self.lines {
            Extent::Absent => Extent::One(value),
            Extent::One(_) => Self::many(name, fields).lines,
            many @ Extent::Many(_) => many,
        };
    }

    /// The value of each line.
    pub fn values(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let (only, lines) = match self.lines {
            Extent::Absent => (None, Fields::default()),
            Extent::One(value) => (Some(value), Fields::default()),
            Extent::Many(lines) => (None, lines),
        };
        let name = lines.iter().next().map_or("", |first| first.name);
        let named = lines.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        only.into_iter().chain(named.map(|field| field.value))
    }

    /// The value of the only line; `None` if there is none or more than one.
    #[must_use]
    pub const fn single(&self) -> Option<&'a [u8]> {
        match self.lines {
            Extent::One(value) => Some(value),
            _ => None,
        }
    }
}

impl FieldLines<'_> {
    /// Appends these lines to `text`, for when the head is gone.
    #[must_use]
    pub fn copy_to(&self, text: &mut Vec<u8>) -> CopiedLines {
        let start = text.len();
        match self.lines {
            Extent::Absent => CopiedLines::Absent,
            Extent::One(value) => {
                text.extend_from_slice(value);
                CopiedLines::One(start..text.len())
            }
            Extent::Many(_) => {
                for value in self.values() {
                    text.extend_from_slice(b"-:");
                    text.extend_from_slice(value);
                    text.push(b'\n');
                }
                CopiedLines::Many(start..text.len())
            }
        }
    }
}

/// Places of lines in the text to which [`FieldLines::copy_to`] has copied them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CopiedLines {
    /// No line.
    #[default]
    Absent,
    /// The value of the only line.
    One(Range<usize>),
    /// A field section of them alone, without their name.
    Many(Range<usize>),
}

impl CopiedLines {
    /// The lines, of the text that they were copied to.
    #[must_use]
    pub fn lines<'a>(&self, text: &'a [u8]) -> FieldLines<'a> {
        let lines = match self {
            Self::Absent => Extent::Absent,
            Self::One(range) => Extent::One(&text[range.clone()]),
            Self::Many(range) => Extent::Many(Fields::new(&text[range.clone()])),
        };
        FieldLines { lines }
    }
}

impl fmt::Debug for FieldLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values().map(<[u8]>::escape_ascii)).finish()
    }
}

/// True if `text` is a token (RFC 9110 §5.6.2), as names of fields are.
#[must_use]
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_tchar)
}

/// True if there are control characters other than tabs in `text`. Checks all of it, so that the
/// compiler can check many at once.
pub(crate) fn has_controls(text: &[u8]) -> bool {
    let control = |byte: u8| byte.is_ascii_control() & (byte != b'\t');
    text.iter().fold(false, |found, &byte| found | control(byte))
}

/// True for a byte that may be in a token (RFC 9110 §5.6.2).
#[must_use]
#[inline]
pub(crate) fn is_tchar(byte: u8) -> bool {
    TCHAR[usize::from(byte)]
}

static TCHAR: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x21u8;
    while byte < 0x7f {
        table[byte as usize] = !matches!(
            byte,
            b'"' | b'(' | b')' | b',' | b'/' | b':'..=b'@' | b'['..=b']' | b'{' | b'}'
        );
        byte += 1;
    }
    table
};

/// True if `text` is `known` in any case; quick if its case is the same, as it nearly always is.
#[must_use]
#[inline(always)]
pub(crate) fn same<const N: usize>(text: &[u8], known: &[u8; N]) -> bool {
    text == known || text.eq_ignore_ascii_case(known)
}

/// The members of a list of tokens, without whitespace around them and without empty ones (RFC 9110
/// §5.6.1.2). Not for lists with members that may hold a comma in quotes.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// The value of a string of digits, or `None` if there are none, anything else, or too large a
/// value for 64 bits. Leading zeros are fine.
#[must_use]
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn tokens() {
        for byte in 0..=255u8 {
            let expected = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            assert_eq!(is_tchar(byte), expected, "{byte}");
        }
    }

    fn check(list: &str, expected: &[&str]) {
        let found: Vec<&[u8]> = members(list.as_bytes()).collect();
        assert_eq!(found, expected.iter().map(|text| text.as_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn lists() {
        check("", &[]);
        check(" ,\t, ", &[]);
        check("a", &["a"]);
        check(" a\t,b c ,,d", &["a", "b c", "d"]);
    }

    #[test]
    fn decimals() {
        for (text, value) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("1a", None),
            ("-1", None),
        ] {
            assert_eq!(decimal(text.as_bytes()), value, "{text}");
        }
    }
}
