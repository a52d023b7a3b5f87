//! A plain HPACK decoder, for the tests: a list of texts, and strings of bits. It shares the static
//! table and the Huffman code with the other one, and nothing else.
use super::statics::FIELDS;
use crate::h2::huffman;
use alloc::{string::String, vec::Vec};

/// A field's name and value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// Tables and their limits.
#[derive(Debug)]
pub(super) struct Plain {
    /// Entries, newest first.
    pub(super) table: Vec<Pair>,
    pub(super) size_max: usize,
    pub(super) offered: usize,
}

impl Plain {
    pub(super) fn new() -> Self {
        Self { table: Vec::new(), size_max: 4096, offered: 4096 }
    }

    pub(super) fn size(&self) -> usize {
        self.table.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    }

    /// The fields of a block; `None` if it cannot be decoded.
    pub(super) fn decode(&mut self, block: &[u8]) -> Option<Vec<Pair>> {
        let bits: String = block.iter().map(|byte| alloc::format!("{byte:08b}")).collect();
        let (mut rest, mut fields) = (&*bits, Vec::new());
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("001") {
                let size;
                (size, rest) = integer(after)?;
                if !fields.is_empty() || size > self.offered {
                    return None;
                }
                self.size_max = size;
                self.evict();
                continue;
            }
            if let Some(after) = rest.strip_prefix('1') {
                let index;
                (index, rest) = integer(after)?;
                fields.push(self.get(index)?);
                continue;
            }
            let is_kept = rest.starts_with("01");
            let index;
            (index, rest) = integer(&rest[if is_kept { 2 } else { 4 }..])?;
            let (name, value);
            (name, rest) = if index == 0 { string(rest)? } else { (self.get(index)?.0, rest) };
            (value, rest) = string(rest)?;
            fields.push((name.clone(), value.clone()));
            if is_kept {
                self.table.insert(0, (name, value));
                self.evict();
            }
        }
        Some(fields)
    }

    fn evict(&mut self) {
        while self.size() > self.size_max {
            self.table.pop();
        }
    }

    fn get(&self, index: usize) -> Option<Pair> {
        match index {
            0 => None,
            1..=61 => {
                let (name, value) = FIELDS[index];
                Some((name.into(), value.into()))
            }
            _ => self.table.get(index - 62).cloned(),
        }
    }
}

/// An integer whose prefix extends to the next byte, and the bits behind it.
fn integer(bits: &str) -> Option<(usize, &str)> {
    let prefix_len = if bits.len().is_multiple_of(8) { 8 } else { bits.len() % 8 };
    let (prefix, mut rest) = bits.split_at_checked(prefix_len)?;
    let mut value = usize::from_str_radix(prefix, 2).ok()?;
    if prefix.contains('0') {
        return Some((value, rest));
    }
    for shift in [0, 7, 14, 21] {
        let byte;
        (byte, rest) = rest.split_at_checked(8)?;
        value += usize::from_str_radix(&byte[1..], 2).ok()? << shift;
        if byte.starts_with('0') {
            return Some((value, rest));
        }
    }
    None
}

/// A string, and the bits behind it.
fn string(bits: &str) -> Option<(Vec<u8>, &str)> {
    let is_coded = bits.starts_with('1');
    let (len, rest) = integer(bits.get(1..)?)?;
    let (text, rest) = rest.split_at_checked(len.checked_mul(8)?)?;
    let byte = |at: usize| u8::from_str_radix(&text[at * 8..][..8], 2).ok();
    let raw = (0..len).map(byte).collect::<Option<Vec<u8>>>()?;
    if !is_coded {
        return Some((raw, rest));
    }
    let mut decoded = Vec::new();
    huffman::decode(&raw, &mut decoded).ok()?;
    Some((decoded, rest))
}
