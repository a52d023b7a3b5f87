//! Field lines, their names and values, and where a parser puts them (RFC 9110 §5).
use core::{fmt, mem::MaybeUninit};

/// The most field lines that any head may have, whatever the limits say.
pub const FIELDS_CAPACITY: usize = 64;

/// One field line: `name` is a token as the peer wrote it, `value` has no whitespace around it.
pub type Field<'a> = httparse::Header<'a>;

/// Where a parser puts the field lines of one head. Nothing in it is initialised, so that a new one
/// costs nothing; it belongs on the stack, next to the parsed head.
pub struct FieldStore<'a> {
    pub(crate) slots: [MaybeUninit<Field<'a>>; FIELDS_CAPACITY],
}

impl FieldStore<'_> {
    /// An empty store.
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self { slots: [const { MaybeUninit::uninit() }; FIELDS_CAPACITY] }
    }
}

impl Default for FieldStore<'_> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FieldStore<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldStore").finish_non_exhaustive()
    }
}

/// The lines of one field, in order. Several lines are one list (RFC 9110 §5.3).
///
/// It borrows the head's field section from the field's first line to its last, so a field given
/// twice costs no memory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FieldLines<'a> {
    span: &'a [Field<'a>],
}

impl<'a> FieldLines<'a> {
    /// The field is absent.
    pub const ABSENT: Self = Self { span: &[] };

    /// The lines in `span` that have the name of its first line.
    #[must_use]
    #[inline]
    pub const fn new(span: &'a [Field<'a>]) -> Self {
        Self { span }
    }

    /// True if the field is absent.
    #[must_use]
    #[inline]
    pub const fn is_absent(&self) -> bool {
        self.span.is_empty()
    }

    /// True if the field is present.
    #[must_use]
    #[inline]
    pub const fn is_present(&self) -> bool {
        !self.span.is_empty()
    }

    /// Takes the line at index `at` of `fields` into the list; it comes after those already in it.
    #[inline]
    pub(crate) fn extend(&mut self, fields: &'a [Field<'a>], at: usize) {
        let first = if self.is_absent() { at } else { first_named(fields, at) };
        self.span = &fields[first..=at];
    }

    /// The value of each line.
    pub fn values(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let name = self.span.first().map_or("", |first| first.name);
        let lines = self.span.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        lines.map(|field| field.value)
    }

    /// The value of the only line; `None` if there is none or more than one.
    #[must_use]
    pub fn single(&self) -> Option<&'a [u8]> {
        match self.span {
            [only] => Some(only.value),
            _ => None,
        }
    }
}

impl fmt::Debug for FieldLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values().map(<[u8]>::escape_ascii)).finish()
    }
}

/// Index of the first line that has the name of the one at index `at`.
#[cold]
fn first_named(fields: &[Field<'_>], at: usize) -> usize {
    let name = fields[at].name;
    fields.iter().position(|field| field.name.eq_ignore_ascii_case(name)).unwrap_or(at)
}

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
