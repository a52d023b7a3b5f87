//! A client's encoder of fields (RFC 7541): a dynamic table, and any representation of a field.
use crate::dice::Dice;
use regatta_http::h2::{hpack, huffman};
use std::collections::VecDeque;

/// Number of the first entry of the dynamic table (RFC 7541 §2.3.3).
const DYNAMIC_FIRST: usize = 62;
/// Bytes that an entry counts besides its text (RFC 7541 §4.1).
const ENTRY_BYTES: usize = 32;

/// Field of a message: name and value.
pub(super) type FieldText = (String, Vec<u8>);

/// Encoder of a connection, which chooses representations at random.
#[derive(Debug)]
pub(super) struct Encoder {
    /// Entries of the table, the newest first.
    table: VecDeque<FieldText>,
    bytes: usize,
    bytes_max: usize,
}

impl Encoder {
    pub(super) const fn new() -> Self {
        Self { table: VecDeque::new(), bytes: 0, bytes_max: hpack::TABLE_BYTES_DEFAULT }
    }

    /// Encodes a section of fields.
    pub(super) fn encode(&mut self, dice: &mut Dice, fields: &[FieldText]) -> Vec<u8> {
        let mut block = Vec::new();
        if dice.one_in(12) {
            self.bytes_max = dice.pick(&[0, 100, hpack::TABLE_BYTES_DEFAULT]);
            self.evict(0);
            write_integer(&mut block, 0x20, 5, self.bytes_max);
        }
        for field in fields {
            self.write(dice, field, &mut block);
        }
        block
    }

    fn write(&mut self, dice: &mut Dice, field: &FieldText, block: &mut Vec<u8>) {
        let (name, value) = field;
        let known = self.table.iter().position(|entry| entry == field);
        if let Some(at) = known.filter(|_| !dice.one_in(4)) {
            return write_integer(block, 0x80, 7, DYNAMIC_FIRST + at);
        }
        let is_lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
        match dice.below(6) {
            0..3 if is_lower => hpack::write_field(block, name, value),
            3 | 4 => {
                self.write_literal(dice, [0x40, 6], field, block);
                self.insert(field.clone());
            }
            // Never indexed, or not indexed now.
            _ => {
                let first = dice.pick(&[0x10, 0]);
                self.write_literal(dice, [first, 4], field, block);
            }
        }
    }

    /// Appends a literal; `form` has its first bits, and the number of bits that follow them.
    fn write_literal(
        &self,
        dice: &mut Dice,
        form: [u8; 2],
        (name, value): &FieldText,
        block: &mut Vec<u8>,
    ) {
        let [first, prefix_bits] = form;
        let named = self.table.iter().position(|(other, _)| other == name);
        match named.filter(|_| dice.one_in(2)) {
            Some(at) => write_integer(block, first, prefix_bits, DYNAMIC_FIRST + at),
            None => {
                block.push(first);
                write_string(dice, name.as_bytes(), block);
            }
        }
        write_string(dice, value, block);
    }

    fn insert(&mut self, field: FieldText) {
        let bytes = entry_bytes(&field);
        self.evict(bytes);
        if bytes <= self.bytes_max {
            self.bytes += bytes;
            self.table.push_front(field);
        }
    }

    /// Evicts entries until there is room for this many bytes.
    fn evict(&mut self, bytes: usize) {
        while self.bytes + bytes > self.bytes_max {
            let Some(last) = self.table.pop_back() else { return };
            self.bytes -= entry_bytes(&last);
        }
    }
}

fn entry_bytes((name, value): &FieldText) -> usize {
    name.len() + value.len() + ENTRY_BYTES
}

/// Appends an integer (RFC 7541 §5.1).
fn write_integer(block: &mut Vec<u8>, first: u8, prefix_bits: u8, value: usize) {
    let mask = (1_usize << prefix_bits) - 1;
    if value < mask {
        return block.push(first | byte(value));
    }
    block.push(first | byte(mask));
    let mut rest = value - mask;
    while rest >= 0x80 {
        block.push(0x80 | byte(rest & 0x7f));
        rest >>= 7;
    }
    block.push(byte(rest));
}

fn byte(value: usize) -> u8 {
    u8::try_from(value).expect("it is less than 256")
}

/// Appends a string, in the Huffman code or not (RFC 7541 §5.2).
fn write_string(dice: &mut Dice, text: &[u8], block: &mut Vec<u8>) {
    if dice.one_in(2) {
        write_integer(block, 0, 7, text.len());
        return block.extend_from_slice(text);
    }
    write_integer(block, 0x80, 7, huffman::encoded_len(text.iter().copied()));
    huffman::encode(text.iter().copied(), block);
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_http::h2::hpack::HpackDecoder;

    #[test]
    fn every_representation_is_read_back() {
        let mut dice = Dice::seeded(3);
        let (mut encoder, mut decoder) =
            (Encoder::new(), HpackDecoder::for_client(hpack::TABLE_BYTES_DEFAULT));
        for _ in 0..2_000 {
            let fields: Vec<FieldText> = (0..dice.below(6))
                .map(|_| {
                    let name = dice.pick(&[":path", "range", "x-a", "accept-encoding"]);
                    let value = vec![b'v'; usize::from(dice.pick(&[0_u8, 1, 30, 200]))];
                    (name.to_owned(), value)
                })
                .collect();
            let block = encoder.encode(&mut dice, &fields);
            let mut found = Vec::new();
            let read = decoder.read_fields(&block, |name, value| {
                found.push((String::from_utf8_lossy(name).into_owned(), value.to_vec()));
            });
            assert_eq!((read, found), (Ok(()), fields));
        }
    }
}
