//! Field lines, their names and values (RFC 9110 §5).
use crate::h1::line::{Lines, Next};
use core::fmt;

/// One field line.
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

/// The field section of a parsed head. It is read again line by line, so that no memory is needed
/// for fields that nobody asks for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// Whole field lines, without the blank line.
    section: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The lines in `section`, of which a parser has seen that each is one.
    #[inline]
    pub(crate) const fn new(section: &'a [u8]) -> Self {
        Self { section }
    }

    /// The field lines in order.
    #[must_use]
    pub const fn iter(&self) -> Iter<'a> {
        Iter { section: self.section, at: 0 }
    }

    /// The value of the first line named `name`, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// These lines from the first one named `name` on.
    #[cold]
    fn starting_with(&self, name: &[u8]) -> Self {
        let mut iter = self.iter();
        loop {
            let rest = &self.section[iter.at..];
            match iter.next() {
                Some(field) if !field.name.as_bytes().eq_ignore_ascii_case(name) => {}
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
    section: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let mut lines = Lines::new(self.section, self.at);
        let Ok(Next::Field { name, value }) = lines.next_field() else {
            return None;
        };
        self.at = lines.at();
        Some(Field { name: core::str::from_utf8(name).unwrap_or(""), value })
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
    /// The field section from the first line to the last, with what is between them.
    Many(Fields<'a>),
}

impl<'a> FieldLines<'a> {
    /// The field is absent.
    pub const ABSENT: Self = Self { lines: Extent::Absent };

    /// The field in one line.
    #[must_use]
    #[inline]
    pub const fn one(value: &'a [u8]) -> Self {
        Self { lines: Extent::One(value) }
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

    /// Takes a line `name: value`. `fields` are all lines of the head up to it, with it.
    #[inline]
    pub(crate) fn extend(&mut self, name: &[u8], value: &'a [u8], fields: &'a [u8]) {
        self.lines = match self.lines {
            Extent::Absent => Extent::One(value),
            _ => Extent::Many(Fields::new(fields).starting_with(name)),
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

impl fmt::Debug for FieldLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values().map(<[u8]>::escape_ascii)).finish()
    }
}

/// True if `text` is a token (RFC 9110 §5.6.2).
#[must_use]
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_tchar(byte))
}

/// True for a byte that may be in a token.
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

/// True if `text` is `lower` in any case.
///
/// `lower` has only lower-case letters, digits and hyphens, and `text` no control characters: then
/// setting bit 5 maps a letter's two cases, and nothing else, to the lower one.
#[must_use]
#[inline]
pub(crate) fn same<const N: usize>(text: &[u8], lower: &[u8; N]) -> bool {
    let Ok(text) = <&[u8; N]>::try_from(text) else {
        return false;
    };
    let mut difference = 0;
    for at in 0..N {
        difference |= (text[at] | 0x20) ^ lower[at];
    }
    difference == 0
}

/// The members of a list of tokens, without whitespace around them and without empty ones
/// (RFC 9110 §5.6.1.2). Not for lists whose members may hold a comma in quotes.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim).filter(|member| !member.is_empty())
}

/// `text` without spaces and tabs at its ends.
#[must_use]
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
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
            assert_eq!(is_token(&[byte]), expected, "{byte}");
            assert_eq!(is_token(&[b'a', byte]), expected, "{byte}");
        }
        assert!(!is_token(b""));
    }

    #[test]
    fn only_case_is_ignored_in_names() {
        for byte in 0x20..=255u8 {
            assert_eq!(same(&[b'x', byte], b"x-"), byte == b'-', "{byte}");
            assert_eq!(same(&[byte, b'x'], b"kx"), byte.eq_ignore_ascii_case(&b'k'), "{byte}");
        }
        assert!(!same(b"ranges", b"range"));
        assert!(!same(b"rang", b"range"));
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
