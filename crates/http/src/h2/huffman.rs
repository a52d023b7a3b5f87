//! The Huffman code of HPACK and QPACK (RFC 7541 §5.2, Appendix B), in both directions.
//!
//! The code is canonical: the lengths of the codes determine the codes. Text is nearly always in
//! codes of up to ten bits, each found with a single look-up. Longer ones are searched by length.
use alloc::vec::Vec;

/// Symbols: all bytes, and the end of the string, whose code serves as padding.
const SYMBOLS: usize = 257;
/// Bits of the longest code.
const BITS_MAX: usize = 30;
/// Bits of the longest code that a single look-up finds.
const QUICK_BITS: usize = 10;
/// Bits of the shortest code.
const BITS_MIN: usize = 5;

/// Text that is not in this code: padding of eight bits or more or not of ones, or the code of the
/// end of the string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HuffmanFault;

/// Appends the decoded text to `text`: at most 8/5 of the bytes of `coded`.
///
/// # Errors
/// The text is not in this code; `text` then has an unspecified part of it.
pub fn decode(coded: &[u8], text: &mut Vec<u8>) -> Result<(), HuffmanFault> {
    text.reserve(coded.len() * 8 / BITS_MIN);
    // Unread bits, from the highest one on; the others are 0.
    let (mut bits, mut count) = (0u64, 0u32);
    let mut rest = coded;
    loop {
        if count <= 32 {
            (bits, count, rest) = refill(bits, count, rest);
        }
        let mut found = TABLES.quick[((bits >> (64 - QUICK_BITS)) & QUICK_MASK) as usize];
        if found[1] == 0 {
            found = search(bits).ok_or(HuffmanFault)?;
        }
        let [symbol, len] = found;
        if u32::from(len) > count {
            break;
        }
        text.push(symbol);
        bits <<= len;
        count -= u32::from(len);
    }
    // Padding is fewer than eight ones. As many ones from the highest bit on are all that is there.
    if count < 8 && (!bits).leading_zeros() >= count { Ok(()) } else { Err(HuffmanFault) }
}

/// Adds bytes to at most 32 unread bits: four bytes, or fewer at the end.
#[inline(always)]
fn refill(mut bits: u64, mut count: u32, rest: &[u8]) -> (u64, u32, &[u8]) {
    if let Some((four, after)) = rest.split_first_chunk::<4>() {
        bits |= u64::from(u32::from_be_bytes(*four)) << (32 - count);
        return (bits, count + 32, after);
    }
    for byte in rest {
        bits |= u64::from(*byte) << (56 - count);
        count += 8;
    }
    (bits, count, &[])
}

/// The symbol that `bits` start with and the length of its code, which is long; `None` for the end
/// of the string.
#[cold]
fn search(bits: u64) -> Option<[u8; 2]> {
    let top = bits >> 32;
    let len = (QUICK_BITS + 1..=BITS_MAX).find(|&len| top < TABLES.ends[len])?;
    let code = u32::try_from(top >> (32 - len)).ok()?;
    let rank = TABLES.ranks[len] + (code - TABLES.firsts[len]);
    let symbol = TABLES.sorted.get(rank as usize)?;
    Some([*symbol, u8::try_from(len).ok()?])
}

/// Bytes of `text` in this code.
#[must_use]
pub fn encoded_len(text: impl Iterator<Item = u8>) -> usize {
    text.map(|byte| usize::from(TABLES.codes[usize::from(byte)].1)).sum::<usize>().div_ceil(8)
}

/// Appends `text` to `out` in this code.
pub fn encode(text: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    // The lowest `count` bits are yet to be written.
    let (mut bits, mut count) = (0u64, 0u32);
    for byte in text {
        let (code, len) = TABLES.codes[usize::from(byte)];
        bits = bits << len | u64::from(code);
        count += u32::from(len);
        while count >= 8 {
            count -= 8;
            out.push((bits >> count).to_le_bytes()[0]);
        }
    }
    if count > 0 {
        let padding = 0xffu64 >> count;
        out.push((bits << (8 - count) | padding).to_le_bytes()[0]);
    }
}

/// Bits of each symbol's code.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const QUICK_MASK: u64 = (1 << QUICK_BITS) - 1;

/// Tables that follow from the lengths.
struct Tables {
    /// The code of each byte, and its length.
    codes: [(u32, u8); 256],
    /// The symbol and the length of the code that these bits start with; length 0: a longer code.
    quick: [[u8; 2]; 1 << QUICK_BITS],
    /// For each length: the end of its codes, as the high bits of 32.
    ends: [u64; BITS_MAX + 1],
    /// For each length: its first code.
    firsts: [u32; BITS_MAX + 1],
    /// For each length: the number of shorter codes.
    ranks: [u32; BITS_MAX + 1],
    /// Bytes in the order of their codes. The end of the string would be the last.
    sorted: [u8; 256],
}

static TABLES: Tables = Tables::new();

impl Tables {
    const fn new() -> Self {
        let mut counts = [0u32; BITS_MAX + 1];
        let mut symbol = 0;
        while symbol < SYMBOLS {
            counts[LENGTHS[symbol] as usize] += 1;
            symbol += 1;
        }
        let mut tables = Self {
            codes: [(0, 0); 256],
            quick: [[0; 2]; 1 << QUICK_BITS],
            ends: [0; BITS_MAX + 1],
            firsts: [0; BITS_MAX + 1],
            ranks: [0; BITS_MAX + 1],
            sorted: [0; 256],
        };
        let (mut code, mut rank, mut len) = (0u32, 0u32, 1);
        while len <= BITS_MAX {
            (tables.firsts[len], tables.ranks[len]) = (code, rank);
            tables.ends[len] = ((code + counts[len]) as u64) << (32 - len);
            rank += counts[len];
            code = (code + counts[len]) << 1;
            len += 1;
        }
        tables.number_bytes();
        tables
    }

    /// Gives each byte its code: within a length, in the order of the bytes.
    const fn number_bytes(&mut self) {
        let (mut codes, mut ranks) = (self.firsts, self.ranks);
        let mut byte = 0u16;
        while byte < 256 {
            let [symbol, _] = byte.to_le_bytes();
            let len = LENGTHS[symbol as usize];
            let bits = len as usize;
            self.codes[symbol as usize] = (codes[bits], len);
            self.sorted[ranks[bits] as usize] = symbol;
            if bits <= QUICK_BITS {
                let start = (codes[bits] as usize) << (QUICK_BITS - bits);
                let mut at = 0;
                while at < 1 << (QUICK_BITS - bits) {
                    self.quick[start + at] = [symbol, len];
                    at += 1;
                }
            }
            codes[bits] += 1;
            ranks[bits] += 1;
            byte += 1;
        }
    }
}

#[cfg(test)]
mod tests;
