//! Writing field blocks (RFC 7541 §6): static entries and literals. The encoder has no state.
//!
//! *No dynamic table.* A block is the same on all connections, so blocks of cached files can be
//! prebuilt. A connection needs no memory for an encoder, and streams do not depend on each other.
//! The head of a page has 319 bytes in HTTP/1 and 208 in such a block. A table could save another
//! 120 on a warm connection. Nearly always a body follows, which is many times as long.
//!
//! *No Huffman code in responses.* [`write_raw_field`] and [`write_head`] write strings unchanged.
//! The code would save 43 of those 208 bytes, for two passes over each string here and a decoder by
//! bits at the client. A raw date can be replaced in place. [`write_field`] is for requests: it
//! takes the code where it is shorter.
use super::statics::{FIELDS, alike};
use crate::{
    Fields, Status,
    h1::Decimal,
    h2::{huffman, known::is_of_connection},
};
use alloc::vec::Vec;
use core::ops::Range;
use memchr::memchr;

/// First bits of an indexed field, of a literal without indexing, and of a table size.
const INDEXED: u8 = 0x80;
const LITERAL: u8 = 0;
const TABLE_SIZE: u8 = 0x20;
/// First bit of a string in the Huffman code.
const HUFFMAN: u8 = 0x80;

/// Appends the statement that the encoder's table has no room: at the start of a connection's first
/// block. Then no setting of the peer can ever demand another one (RFC 7541 §4.2).
pub fn write_no_table(out: &mut Vec<u8>) {
    write_integer(out, TABLE_SIZE, 5, 0);
}

/// Appends `:status`.
pub fn write_status(out: &mut Vec<u8>, status: Status) {
    write_field(out, ":status", Decimal::new(u64::from(status.0)).as_bytes());
}

/// Appends a field; its name is written in lower case, and its value in the Huffman code if that is
/// shorter. The caller has made or checked both.
pub fn write_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    let found = find(name, value);
    if found.is_whole {
        return write_integer(out, INDEXED, 7, found.index);
    }
    write_integer(out, LITERAL, 4, found.index);
    if found.index == 0 {
        write_string(out, name.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    write_string(out, value.iter().copied());
}

/// Appends a field as [`write_field`] does, but without the Huffman code. A value that no static
/// entry has, such as a date, can later be replaced by another one of the same length.
#[inline]
pub fn write_raw_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    let found = find(name, value);
    if found.is_whole {
        return write_integer(out, INDEXED, 7, found.index);
    }
    write_integer(out, LITERAL, 4, found.index);
    if found.index == 0 {
        write_integer(out, 0, 7, name.len());
        out.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    write_integer(out, 0, 7, value.len());
    out.extend_from_slice(value);
}

/// Place of the code in a status line of [`crate::h1::write_status_line`].
const CODE: Range<usize> = b"HTTP/1.1 ".len()..b"HTTP/1.1 200".len();

/// Appends the fields of a response whose head HTTP/1 would send as `head`: status line, field
/// lines and blank line, as the functions of [`crate::h1`] write them.
///
/// `:status` comes first, the other fields follow in their order. Fields on the connection are left
/// out (RFC 9113 §8.2.2), and so are the version and the reason phrase. If `Date` is the first
/// field line and the static table has the status, its value starts at [`DATE_AT`].
pub fn write_head(out: &mut Vec<u8>, head: &[u8]) {
    let line_end = memchr(b'\n', head).map_or(head.len(), |at| at + 1);
    let (status_line, section) = head.split_at(line_end);
    write_raw_field(out, ":status", status_line.get(CODE).unwrap_or_default());
    // The blank line has no colon: it ends the fields.
    for field in &Fields::new(section) {
        if !is_of_connection(field.name) {
            write_raw_field(out, field.name, field.value);
        }
    }
}

/// Offset of the date in a block of [`write_head`]: one byte is the status, two are the name, and
/// one is the length.
pub const DATE_AT: usize = 4;

/// Entry of the static table for a field.
#[derive(Clone, Copy)]
struct StaticMatch {
    /// Index of an entry with this name; 0: there is none.
    index: usize,
    /// True if the entry has the value as well.
    is_whole: bool,
}

/// Finds the best entry for a field.
#[inline]
fn find(name: &str, value: &[u8]) -> StaticMatch {
    let mut named = 0;
    for index in alike(name) {
        let (known, text) = FIELDS[index];
        if known.eq_ignore_ascii_case(name) {
            if text.as_bytes() == value {
                return StaticMatch { index, is_whole: true };
            }
            named = if named == 0 { index } else { named };
        }
    }
    StaticMatch { index: named, is_whole: false }
}

/// Appends a string (RFC 7541 §5.2).
fn write_string(out: &mut Vec<u8>, text: impl ExactSizeIterator<Item = u8> + Clone) {
    let (raw, coded) = (text.len(), huffman::encoded_len(text.clone()));
    if coded < raw {
        write_integer(out, HUFFMAN, 7, coded);
        huffman::encode(text, out);
    } else {
        write_integer(out, 0, 7, raw);
        out.extend(text);
    }
}

/// Appends an integer with a prefix of this many bits, below the bits of `first` (RFC 7541 §5.1).
pub(super) fn write_integer(out: &mut Vec<u8>, first: u8, prefix_bits: u32, value: usize) {
    let mask: u8 = 0xff >> (8 - prefix_bits);
    if let Ok(value) = u8::try_from(value)
        && value < mask
    {
        out.push(first | value);
        return;
    }
    out.push(first | mask);
    let mut rest = value - usize::from(mask);
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f).to_le_bytes()[0]);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}
