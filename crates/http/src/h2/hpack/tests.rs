//! RFC 7541, Appendix C; faults; the decoder against a plain one; its memory.
use super::{
    reference::{Pair, Plain},
    *,
};
use crate::{Status, h2::dice::Dice};
use alloc::{format, string::String, vec, vec::Vec};

/// The bytes that hexadecimal digits say.
fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<char> = digits.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| {
        let text: String = pair.iter().collect();
        u8::from_str_radix(&text, 16).expect("two digits")
    };
    digits.chunks(2).map(byte).collect()
}

fn fields(decoder: &mut HpackDecoder, block: &[u8]) -> Result<Vec<Pair>, HpackFault> {
    let mut found = vec![];
    decoder.read_fields(block, |name, value| found.push((name.to_vec(), value.to_vec())))?;
    Ok(found)
}

/// The entries of the table, newest first.
fn table(decoder: &mut HpackDecoder) -> Vec<Pair> {
    let mut block = vec![];
    for number in 0..decoder.entries() {
        encode::write_integer(&mut block, 0x80, 7, FIELDS.len() + number);
    }
    fields(decoder, &block).expect("entries of the table")
}

fn pairs(texts: &[(&str, &str)]) -> Vec<Pair> {
    texts.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

/// A client and a server that decode the same blocks of examples.
struct Decoders {
    client: HpackDecoder,
    server: HpackDecoder,
}

impl Decoders {
    fn new() -> Self {
        let client = HpackDecoder::for_client(TABLE_BYTES_DEFAULT);
        Self { client, server: HpackDecoder::new(TABLE_BYTES_DEFAULT) }
    }

    /// Decodes a block: its fields, and the table after it with its size in bytes.
    #[track_caller]
    fn check(
        &mut self,
        digits: &str,
        expected: &[(&str, &str)],
        (entries, table_bytes): (&[(&str, &str)], usize),
    ) {
        let block = bytes(digits);
        assert_eq!(fields(&mut self.client, &block), Ok(pairs(expected)), "{digits}");
        assert_eq!(self.server.skip(&block), Ok(()));
        assert_eq!(table(&mut self.client), pairs(entries), "{digits}");
        for decoder in [&self.client, &self.server] {
            assert_eq!(decoder.table_bytes(), table_bytes, "{digits}");
            assert_eq!(decoder.entries(), entries.len());
        }
    }
}

#[test]
fn c_1_integers() {
    for (prefix_bits, value, expected) in [
        (5, 10, &[0b01010u8][..]),
        (5, 1337, &[0b11111, 0b1001_1010, 0b0000_1010]),
        (8, 42, &[0b0010_1010]),
        (5, 30, &[30]),
        (5, 31, &[31, 0]),
        (7, 127, &[127, 0]),
        (7, 255, &[127, 128, 1]),
        (4, 15 + 0x0fff_ffff, &[15, 0xff, 0xff, 0xff, 0x7f]),
    ] {
        let mut out = vec![];
        encode::write_integer(&mut out, 0, prefix_bits, value);
        assert_eq!(out, expected);
        let mut at = 0;
        assert_eq!(integer(&out, &mut at, prefix_bits), Ok(value));
        assert_eq!(at, out.len());
        for len in 0..out.len() {
            assert_eq!(integer(&out[..len], &mut 0, prefix_bits), Err(HpackFault::Truncated));
        }
    }
    for long in [&[15, 0x80, 0x80, 0x80, 0x80, 0][..], &[15, 0xff, 0xff, 0xff, 0xff, 1]] {
        assert_eq!(integer(long, &mut 0, 4), Err(HpackFault::Integer));
    }
    assert_eq!(integer(&[15, 0x80, 0x80, 0x80, 0], &mut 0, 4), Ok(15));
}

#[test]
fn c_2_representations() {
    let literal = [("custom-key", "custom-header")];
    let block = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    Decoders::new().check(block, &literal, (&literal, 55));
    let alone = |block, name, value| Decoders::new().check(block, &[(name, value)], (&[], 0));
    alone("040c 2f73 616d 706c 652f 7061 7468", ":path", "/sample/path");
    alone("1008 7061 7373 776f 7264 0673 6563 7265 74", "password", "secret");
    alone("82", ":method", "GET");
}

/// Appendices C.3 and C.4: the same requests, without and with the Huffman code.
fn check_requests(blocks: [&str; 3]) {
    let start = [(":method", "GET"), (":scheme", "http"), (":path", "/")];
    let host = (":authority", "www.example.com");
    let cache = ("cache-control", "no-cache");
    let custom = ("custom-key", "custom-value");
    let secure = [start[0], (":scheme", "https"), (":path", "/index.html"), host, custom];
    let [first, second, third] = blocks;
    let mut decoders = Decoders::new();
    decoders.check(first, &[&start[..], &[host]].concat(), (&[host], 57));
    decoders.check(second, &[&start[..], &[host, cache]].concat(), (&[cache, host], 110));
    decoders.check(third, &secure, (&[custom, cache, host], 164));
}

#[test]
fn c_3_requests() {
    check_requests([
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ]);
}

#[test]
fn c_4_requests_in_the_huffman_code() {
    check_requests([
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ]);
}

/// Appendices C.5 and C.6: responses with a table of 256 bytes, from which entries are evicted.
fn check_responses(blocks: [&str; 3]) {
    let status = |code| (":status", code);
    let cache = ("cache-control", "private");
    let dates =
        [("date", "Mon, 21 Oct 2013 20:13:21 GMT"), ("date", "Mon, 21 Oct 2013 20:13:22 GMT")];
    let location = ("location", "https://www.example.com");
    let coding = ("content-encoding", "gzip");
    let cookie = ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
    let [first, second, third] = blocks;
    let mut decoders = Decoders::new();
    let found = [status("302"), cache, dates[0], location];
    let kept = [location, dates[0], cache, status("302")];
    decoders.check(&format!("3fe101 {first}"), &found, (&kept, 222));
    let found = [status("307"), cache, dates[0], location];
    let kept = [status("307"), location, dates[0], cache];
    decoders.check(second, &found, (&kept, 222));
    let found = [status("200"), cache, dates[1], location, coding, cookie];
    decoders.check(third, &found, (&[cookie, coding, dates[1]], 215));
}

#[test]
fn c_5_responses() {
    check_responses([
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 \
         2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 \
         6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d \
         54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 \
         5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e \
         3d31",
    ]);
}

#[test]
fn c_6_responses_in_the_huffman_code() {
    check_responses([
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab \
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f \
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ]);
}

#[test]
fn blocks_that_cannot_be_decoded() {
    let strings = ["ff", "40", "0001", "0001 61", "0001 6102 61", "04ff ffff ff7f 61"];
    for (fault, blocks) in [
        (HpackFault::Index, &["80", "be", "ff00", "7f00 0161", "0f2f 0161"][..]),
        (HpackFault::Integer, &["ff80 8080 8000"]),
        (HpackFault::Truncated, &strings),
        (HpackFault::Huffman, &["0481 ff", "0484 ffff ffff", "0081 1b00"]),
        (HpackFault::LateTableSize, &["8220"]),
        (HpackFault::TableSize, &["3fe2 1f82"]),
    ] {
        assert!(!fault.reason().is_empty());
        for block in blocks {
            for mut decoder in [HpackDecoder::new(4096), HpackDecoder::for_client(4096)] {
                assert_eq!(decoder.skip(&bytes(block)), Err(fault), "{block}");
            }
        }
    }
}

/// Sizes at the start of a block are taken, however many, up to the table's offered size.
#[test]
fn the_peer_sets_the_size_of_the_table() {
    let mut decoder = HpackDecoder::for_client(TABLE_BYTES_DEFAULT);
    let entry = bytes("4001 6101 62");
    assert_eq!(fields(&mut decoder, &entry), Ok(pairs(&[("a", "b")])));
    assert_eq!((decoder.entries(), decoder.table_bytes()), (1, 34));
    // 33 bytes: less than the entry. Then 4096.
    assert_eq!(decoder.skip(&bytes("3f02 3fe1 1f")), Ok(()));
    assert_eq!((decoder.entries(), decoder.table_bytes()), (0, 0));
    let block = [&bytes("3f02")[..], &entry].concat();
    assert_eq!(fields(&mut decoder, &block), Ok(pairs(&[("a", "b")])));
    assert_eq!(decoder.entries(), 0, "larger than the table");
    let block = [&bytes("3f03")[..], &entry, &entry].concat();
    assert_eq!(decoder.skip(&block), Ok(()));
    assert_eq!(decoder.entries(), 1, "as large as the table");
    assert_eq!(decoder.skip(&bytes("4002 6161 0162")), Ok(()));
    assert_eq!(decoder.entries(), 0, "one too large empties it");
    assert_eq!(decoder.skip(&bytes("20")), Ok(()));
    assert_eq!(decoder.skip(&bytes("3fe1 1f")), Ok(()));
}

#[test]
fn a_smaller_table_must_be_acknowledged() {
    let mut decoder = HpackDecoder::new(100);
    assert_eq!(decoder.skip(&bytes("82")), Ok(()), "the settings are on their way");
    decoder.acknowledge();
    assert_eq!(decoder.skip(&bytes("82")), Err(HpackFault::NoTableSize));
    assert_eq!(decoder.skip(&bytes("3f46 82")), Err(HpackFault::TableSize));
    assert_eq!(decoder.skip(&bytes("3f45 82")), Ok(()));
    assert_eq!(decoder.skip(&bytes("82")), Ok(()));
    decoder.acknowledge();
    assert_eq!(decoder.skip(&bytes("82")), Ok(()));
    let mut decoder = HpackDecoder::new(10_000);
    decoder.acknowledge();
    assert_eq!(decoder.skip(&bytes("82")), Ok(()));
    assert_eq!(decoder.skip(&bytes("3ff1 4d82")), Ok(()));
    assert_eq!(decoder.skip(&bytes("3ff2 4d82")), Err(HpackFault::TableSize));
    let mut decoder = HpackDecoder::new(0);
    decoder.acknowledge();
    assert_eq!(decoder.skip(&bytes("2040 0161 0162")), Ok(()));
    assert_eq!((decoder.entries(), decoder.capacity()), (0, 0));
}

/// A block with fields of all representations, valid or nearly, for a table of this many entries.
fn any_block(dice: &mut Dice, mut entries: usize) -> Vec<u8> {
    let mut block = vec![];
    if dice.below(8) == 0 {
        let size = dice.pick(&[0, 40, 100, 500, 4096, 4096, 4097]);
        encode::write_integer(&mut block, 0x20, 5, size);
        entries = 0;
    }
    for _ in 0..dice.below(12) {
        let index = match dice.below(400) {
            0 => 80,
            1..200 if entries > 0 => FIELDS.len() + dice.below(entries),
            _ => dice.pick(&[1, 2, 16, 31, 38, 50]),
        };
        let forms = [(0x80, 7), (0x80, 7), (0x40, 6), (0x40, 6), (0, 4), (0x10, 4)];
        let (first, prefix_bits) = dice.pick(&forms);
        if first == 0x80 {
            encode::write_integer(&mut block, first, prefix_bits, index);
            continue;
        }
        let index = if dice.below(2) == 0 { 0 } else { index };
        encode::write_integer(&mut block, first, prefix_bits, index);
        let strings = if index == 0 { 2 } else { 1 };
        for _ in 0..strings {
            let text =
                dice.pick(&["", "a", "range", "bytes=0-1", "x-long-name", "A\n", "text/html"]);
            let text = text.repeat(dice.pick(&[1, 1, 1, 2, 30]));
            if dice.below(2) == 0 {
                encode::write_integer(&mut block, 0, 7, text.len());
                block.extend_from_slice(text.as_bytes());
            } else {
                let len = huffman::encoded_len(text.bytes());
                encode::write_integer(&mut block, 0x80, 7, len);
                huffman::encode(text.bytes(), &mut block);
            }
        }
    }
    if dice.below(30) == 0 && !block.is_empty() {
        let at = dice.below(block.len());
        block[at] = dice.byte();
    }
    block
}

/// Decoders of both kinds and the plain one agree, block after block, also on the first fault.
#[test]
fn decoders_agree() {
    let mut faults = 0;
    for seed in 0..3000 {
        let mut dice = Dice(seed);
        let (mut client, mut server) = (HpackDecoder::for_client(4096), HpackDecoder::new(4096));
        let mut plain = Plain::new();
        for _ in 0..12 {
            let block = any_block(&mut dice, plain.table.len());
            let (found, skipped) = (fields(&mut client, &block), server.skip(&block));
            let expected = plain.decode(&block);
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{seed}: {block:02x?} {found:?}");
            assert_eq!(found.as_ref().err(), skipped.as_ref().err(), "{seed}");
            if found.is_err() {
                faults += 1;
                break;
            }
            assert_eq!(table(&mut client), plain.table, "{seed}");
            for decoder in [&client, &server] {
                let size = (decoder.entries(), decoder.table_bytes());
                assert_eq!(size, (plain.table.len(), plain.size()), "{seed}");
            }
        }
    }
    assert!((1..3000).contains(&faults), "{faults} of 3000 end in a fault");
}

/// Written blocks are read as the same fields, in lower case, and need no table.
#[test]
fn written_fields_are_read() {
    let mut block = vec![];
    write_no_table(&mut block);
    for status in [Status::OK, Status::NOT_MODIFIED, Status(299)] {
        write_status(&mut block, status);
    }
    write_field(&mut block, ":method", b"GET");
    write_field(&mut block, "Content-Type", b"text/html; charset=utf-8");
    write_field(&mut block, "X-Odd", b"\xff\xfe\xfd");
    write_raw_field(&mut block, "Date", b"Sun, 06 Nov 1994 08:49:37 GMT");
    write_raw_field(&mut block, "X-Raw", b"aaaaaaaaaaaa");
    let mut decoder = HpackDecoder::for_client(0);
    decoder.acknowledge();
    let mut expected = pairs(&[
        (":status", "200"),
        (":status", "304"),
        (":status", "299"),
        (":method", "GET"),
        ("content-type", "text/html; charset=utf-8"),
        ("x-odd", ""),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("x-raw", "aaaaaaaaaaaa"),
    ]);
    expected[5].1 = b"\xff\xfe\xfd".to_vec();
    assert_eq!(fields(&mut decoder, &block), Ok(expected));
    assert_eq!(block[..3], [0x20, 0x88, 0x8b]);
    let at = block.windows(4).position(|four| four == b"Sun,").expect("the date is as it is");
    assert_eq!(block[at - 1], 29);
}

/// The fields of a response over HTTP/1 are written in their order, in lower case and raw. Static
/// entries are used, and fields on the connection left out.
#[test]
fn heads_of_http_1_are_written() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let check = |lines: &str, expected: &[(&str, &str)], start: &str| {
        let mut block = vec![];
        write_head(&mut block, lines.as_bytes());
        let mut decoder = HpackDecoder::for_client(TABLE_BYTES_DEFAULT);
        assert_eq!(fields(&mut decoder, &block), Ok(pairs(expected)), "{lines}");
        assert_eq!(decoder.entries(), 0);
        assert!(block.starts_with(&bytes(start)), "{lines}: {block:02x?}");
        block
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nDate: {date}\r\nServer: a\r\nContent-Length: 5\r\nConnection: close\r\n\
         X-Odd: a: b\r\nKEEP-ALIVE: 5\r\nTransfer-Encoding: chunked\r\nX-Empty:\r\nAllow: \r\n\r\n"
    );
    let expected = [
        (":status", "200"),
        ("date", date),
        ("server", "a"),
        ("content-length", "5"),
        ("x-odd", "a: b"),
        ("x-empty", ""),
        ("allow", ""),
    ];
    let block = check(&head, &expected, "88 0f12 1d");
    assert_eq!(block[DATE_AT..][..date.len()], *date.as_bytes());
    let mut rest =
        bytes("0f27 0161 0f0d 0135 0005 782d 6f64 6404 613a 2062 0007 782d 656d 7074 79");
    // `allow` without a value is an entry of the table.
    rest.extend([0, 0x80 | 22]);
    assert_eq!(block[DATE_AT + date.len()..], rest);
    for (code, start) in [("304", "8b"), ("404", "8d"), ("500", "8e"), ("206", "8a"), ("204", "89")]
    {
        check(&format!("HTTP/1.1 {code} Some Words\r\n\r\n"), &[(":status", code)], start);
    }
    check("HTTP/1.1 429 Too Many Requests\r\n\r\n", &[(":status", "429")], "08 0334 3239");
    check("HTTP/1.1 299 \r\n\r\n", &[(":status", "299")], "08 0332 3939");
    check("", &[(":status", "")], "0800");
}

/// A peer that fills the table, evicts, or refers to nothing it has, takes a bounded memory.
#[test]
fn memory_is_bounded() {
    for size in [1, 60, 700, 4000, 9000] {
        let mut decoder = HpackDecoder::for_client(4096);
        let mut block = vec![];
        for number in 0..40 {
            encode::write_integer(&mut block, 0x40, 6, 0);
            for text in [format!("x-{number}"), "v".repeat(size)] {
                encode::write_integer(&mut block, 0, 7, text.len());
                block.extend_from_slice(text.as_bytes());
            }
        }
        for _ in 0..20 {
            assert_eq!(decoder.skip(&block), Ok(()));
            decoder.trim();
            // The text twice, and entries of at least 32 bytes in a deque that doubles.
            let entries = 2 * (4096 / ENTRY_BYTES) * size_of::<TableEntry>();
            assert!(decoder.capacity() <= 2 * 4096 + entries, "{size}: {}", decoder.capacity());
        }
    }
    assert!(size_of::<TableEntry>() <= 16);
}

/// A server keeps no values that it never reads.
#[test]
fn a_server_forgets_other_values() {
    let mut server = HpackDecoder::new(4096);
    // cookie: a=b; x: secret; range: a line end; connection: close.
    for block in [
        "6003 613d 62",
        "4001 7806 7365 6372 6574",
        "7201 0a",
        "400a 636f 6e6e 6563 7469 6f6e 0161",
    ] {
        assert_eq!(server.skip(&bytes(block)), Ok(()));
    }
    assert_eq!((server.entries(), server.table.text()), (4, &b""[..]));
    assert_eq!(server.skip(&bytes("7205 6279 7465 73")), Ok(()));
    assert_eq!((server.entries(), server.table.text()), (5, &b"bytes"[..]));
}

/// Blocks of an encoder with a table, `hpack` 4.2.0 for Python, on 14 connections. Each has the
/// number of entries and the size of the table after it, then its fields.
const VECTORS: &str = include_str!("vectors.txt");

#[test]
fn blocks_of_another_encoder() {
    let mut client = HpackDecoder::for_client(TABLE_BYTES_DEFAULT);
    let mut server = HpackDecoder::new(TABLE_BYTES_DEFAULT);
    let (mut blocks, mut found) = (0, vec![]);
    let mut expected: Vec<Pair> = vec![];
    for line in VECTORS.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["connection"] => {
                client = HpackDecoder::for_client(TABLE_BYTES_DEFAULT);
                server = HpackDecoder::new(TABLE_BYTES_DEFAULT);
            }
            ["block", digits, entries, size] => {
                let block = bytes(digits);
                found.extend(fields(&mut client, &block).expect(line));
                assert_eq!(server.skip(&block), Ok(()), "{line}");
                for decoder in [&client, &server] {
                    assert_eq!(decoder.entries(), entries.parse::<usize>().expect(line));
                    assert_eq!(decoder.table_bytes(), size.parse::<usize>().expect(line));
                }
                blocks += 1;
            }
            _ => {
                let (name, value) = line.split_once(' ').expect("a name and a value");
                expected.push((name.into(), value.into()));
            }
        }
    }
    assert_eq!(found, expected);
    assert_eq!(blocks, 67);
}
