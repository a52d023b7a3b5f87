//! Writing field blocks (RFC 7541 §6): static entries and literals. The encoder has no state.
use super::statics::FIELDS;
use crate::{Status, h1::Decimal, h2::huffman};
use alloc::vec::Vec;

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
    let mut named = 0;
    for (index, (known, text)) in FIELDS.iter().enumerate().skip(1) {
        if known.len() == name.len() && known.eq_ignore_ascii_case(name) {
            if text.as_bytes() == value {
                return write_integer(out, INDEXED, 7, index);
            }
            named = if named == 0 { index } else { named };
        }
    }
    write_name(out, named, name);
    write_string(out, value.iter().copied());
}

/// Appends a field with its value as it is, so that a value of the same length can replace it.
pub fn write_raw_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    let mut known = FIELDS.iter().skip(1);
    let at = known.position(|(known, _)| known.eq_ignore_ascii_case(name));
    write_name(out, at.map_or(0, |at| at + 1), name);
    write_integer(out, 0, 7, value.len());
    out.extend_from_slice(value);
}

/// Appends the start of a literal: the index of its name, or its name if that is 0.
fn write_name(out: &mut Vec<u8>, index: usize, name: &str) {
    write_integer(out, LITERAL, 4, index);
    if index == 0 {
        write_string(out, name.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
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
