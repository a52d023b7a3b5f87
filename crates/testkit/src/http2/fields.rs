//! Field blocks of HTTP/2 (RFC 7541): an encoder of literals, and a strict decoder.

use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;

/// Name and value of a field.
pub type FieldLine = (String, String);

/// Bytes of an entry besides its name and value (RFC 7541 §4.1).
const ENTRY_BYTES: usize = 32;

/// Appends fields as literals that no table keeps, in plain text.
pub(super) fn write_literals(fields: &[(&str, &str)], block: &mut Vec<u8>) {
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            write_len(text.len(), block);
            block.extend_from_slice(text.as_bytes());
        }
    }
}

/// Appends the length of a text that is not in Huffman's code (RFC 7541 §5.1, §5.2).
fn write_len(len: usize, block: &mut Vec<u8>) {
    const MOST: usize = 127;
    let low = |number: usize| number.to_le_bytes()[0];
    if len < MOST {
        block.push(low(len));
        return;
    }
    block.push(low(MOST));
    let mut rest = len - MOST;
    while rest >= 128 {
        block.push(low(rest % 128) | 128);
        rest /= 128;
    }
    block.push(low(rest));
}

/// Decoder of a connection's field blocks, with the table that the server's encoder fills.
#[derive(Debug)]
pub(super) struct FieldDecoder {
    /// Entries, the newest first.
    table: VecDeque<FieldLine>,
    bytes: usize,
    bytes_max: usize,
    /// The most that the client has permitted as `bytes_max`.
    permitted: usize,
}

impl FieldDecoder {
    /// A decoder whose table may have this many bytes.
    pub(super) fn new(permitted: usize) -> Self {
        Self { table: VecDeque::new(), bytes: 0, bytes_max: permitted, permitted }
    }

    /// Changes the most that the table may have.
    pub(super) fn permit(&mut self, permitted: usize) {
        self.permitted = permitted;
    }

    /// Decodes a block.
    ///
    /// # Errors
    /// The block breaks a rule of RFC 7541.
    pub(super) fn decode(&mut self, mut block: &[u8]) -> Result<Vec<FieldLine>, &'static str> {
        let mut fields = Vec::new();
        while let Some(&first) = block.first() {
            match first {
                0x80..=0xff => {
                    let index = read_integer(&mut block, 7)?;
                    fields.push(self.entry(index)?);
                }
                0x40..=0x7f => {
                    let field = self.read_literal(&mut block, 6)?;
                    self.insert(field.clone());
                    fields.push(field);
                }
                0x20..=0x3f => {
                    let bytes_max = read_integer(&mut block, 5)?;
                    if !fields.is_empty() {
                        return Err("a table changes its size after a field (RFC 7541 §4.2)");
                    }
                    if bytes_max > self.permitted {
                        return Err("a table is larger than permitted (RFC 7541 §6.3)");
                    }
                    self.bytes_max = bytes_max;
                    self.evict();
                }
                _ => fields.push(self.read_literal(&mut block, 4)?),
            }
        }
        Ok(fields)
    }

    fn read_literal(&self, block: &mut &[u8], bits: u32) -> Result<FieldLine, &'static str> {
        let name = match read_integer(block, bits)? {
            0 => read_text(block)?,
            index => self.entry(index)?.0,
        };
        Ok((name, read_text(block)?))
    }

    fn entry(&self, index: usize) -> Result<FieldLine, &'static str> {
        let at = index.checked_sub(1).ok_or("index 0 (RFC 7541 §6.1)")?;
        if let Some((name, value)) = STATIC.get(at) {
            return Ok(((*name).to_owned(), (*value).to_owned()));
        }
        let entry = self.table.get(at - STATIC.len());
        entry.cloned().ok_or("an index beyond the table (RFC 7541 §2.3.3)")
    }

    fn insert(&mut self, (name, value): FieldLine) {
        self.bytes += name.len() + value.len() + ENTRY_BYTES;
        self.table.push_front((name, value));
        self.evict();
    }

    fn evict(&mut self) {
        while self.bytes > self.bytes_max {
            let Some((name, value)) = self.table.pop_back() else { return };
            self.bytes -= name.len() + value.len() + ENTRY_BYTES;
        }
    }
}

/// Reads a number whose first byte has this many bits for it (RFC 7541 §5.1).
fn read_integer(block: &mut &[u8], bits: u32) -> Result<usize, &'static str> {
    let most = (1_usize << bits) - 1;
    let mut number = usize::from(read_byte(block)?) & most;
    if number < most {
        return Ok(number);
    }
    for shift in [0, 7, 14, 21] {
        let byte = read_byte(block)?;
        number += usize::from(byte & 127) << shift;
        if byte < 128 {
            return Ok(number);
        }
    }
    Err("a number of more than 28 bits")
}

fn read_byte(block: &mut &[u8]) -> Result<u8, &'static str> {
    let (first, rest) = block.split_first().ok_or("a block ends within a field")?;
    *block = rest;
    Ok(*first)
}

fn read_text(block: &mut &[u8]) -> Result<String, &'static str> {
    let is_coded = block.first().is_some_and(|first| *first >= 0x80);
    let len = read_integer(block, 7)?;
    let (bytes, rest) = block.split_at_checked(len).ok_or("a block ends within a text")?;
    *block = rest;
    let bytes = if is_coded { decode_huffman(bytes)? } else { bytes.to_vec() };
    String::from_utf8(bytes).map_err(|_| "a field that is not text")
}

/// Decodes a text, bit by bit (RFC 7541 §5.2).
fn decode_huffman(coded: &[u8]) -> Result<Vec<u8>, &'static str> {
    let (mut text, mut code, mut len) = (Vec::new(), 0_u32, 0_u32);
    for byte in coded {
        for bit in (0..8).rev() {
            code = (code << 1) | u32::from((byte >> bit) & 1);
            len += 1;
            if let Some(symbol) = codes().get(&(len, code)) {
                text.push(*symbol);
                (code, len) = (0, 0);
            } else if len == CODE_BITS_MAX {
                return Err("the code of the end of the string (RFC 7541 §5.2)");
            }
        }
    }
    let is_padding = len < 8 && code == (1 << len) - 1;
    if is_padding { Ok(text) } else { Err("padding that is too long, or not of ones") }
}

/// Length of the longest code, bits.
const CODE_BITS_MAX: u32 = 30;

/// The byte of each code, by the length of the code and its bits. Codes of one length are
/// consecutive, in the order of their bytes.
fn codes() -> &'static HashMap<(u32, u32), u8> {
    static CODES: OnceLock<HashMap<(u32, u32), u8>> = OnceLock::new();
    CODES.get_or_init(|| {
        let (mut codes, mut code) = (HashMap::new(), 0);
        for len in 1..=CODE_BITS_MAX {
            for byte in 0..=u8::MAX {
                if u32::from(CODE_BITS[usize::from(byte)]) == len {
                    codes.insert((len, code), byte);
                    code += 1;
                }
            }
            code <<= 1;
        }
        codes
    })
}

/// Length of each byte's code (RFC 7541, Appendix B). The end of the string has the last code.
#[rustfmt::skip]
const CODE_BITS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The static table (RFC 7541, Appendix A).
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""),
    ("via", ""), ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(fields: &[(&str, &str)]) -> Vec<FieldLine> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        fields.iter().map(owned).collect()
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
        let pair = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair[1]).expect("two digits");
        digits.chunks(2).map(pair).collect()
    }

    #[test]
    fn literals_are_read_again() {
        let long = "x".repeat(100_000);
        for value in ["", "a", &long[..126], &long[..127], &long[..300], &long] {
            let fields = [(":path", "/"), ("name", value)];
            let mut block = Vec::new();
            write_literals(&fields, &mut block);
            assert_eq!(FieldDecoder::new(0).decode(&block), Ok(owned(&fields)));
        }
    }

    /// RFC 7541 §C.6: responses in Huffman's code, with a table of 256 bytes.
    #[test]
    fn the_examples_of_responses_are_decoded() {
        let mut decoder = FieldDecoder::new(256);
        let (date, location) = ("Mon, 21 Oct 2013 20:13:21 GMT", "https://www.example.com");
        let private = ("cache-control", "private");
        let first = "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff\
                     6e919d29ad171863c78f0b97c8e9ae82ae43d3";
        let fields = [(":status", "302"), private, ("date", date), ("location", location)];
        assert_eq!(decoder.decode(&bytes(first)), Ok(owned(&fields)));
        let fields = [(":status", "307"), private, ("date", date), ("location", location)];
        assert_eq!(decoder.decode(&bytes("4883640effc1c0bf")), Ok(owned(&fields)));
        let third = "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7\
                     821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed\
                     4ee5b1063d5007";
        let cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
        let date = "Mon, 21 Oct 2013 20:13:22 GMT";
        let coding = ("content-encoding", "gzip");
        let fields = [
            (":status", "200"),
            private,
            ("date", date),
            ("location", location),
            coding,
            ("set-cookie", cookie),
        ];
        assert_eq!(decoder.decode(&bytes(third)), Ok(owned(&fields)));
        assert_eq!((decoder.table.len(), decoder.bytes), (3, 215));
    }

    #[test]
    fn faults_are_found() {
        for block in [
            &[0x80][..],               // Index 0.
            &[0xbe],                   // Beyond an empty table.
            &[0x88, 0x20],             // A change of size after a field.
            &[0x3f, 0xff, 0x7f],       // A table of 16 KiB, where 4 KiB are permitted.
            &[0xff],                   // A number without an end.
            &[0, 1],                   // A text without its bytes.
            &[0, 0x81, 0, 0],          // Padding of zeros.
            &[0, 0x82, 0x07, 0xff, 0], // Padding of more than seven bits.
        ] {
            assert!(FieldDecoder::new(4096).decode(block).is_err(), "{block:x?}");
        }
    }

    #[test]
    fn codes_fill_the_space() {
        let part = |bits: u8| 1_u64 << (32 - u32::from(bits));
        // The missing code is that of the end of the string.
        assert_eq!(CODE_BITS.iter().map(|bits| part(*bits)).sum::<u64>(), (1 << 32) - (1 << 2));
        assert_eq!(codes().len(), 256);
    }
}
