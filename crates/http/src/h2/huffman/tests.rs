//! The code of RFC 7541, Appendix B: its codes, texts in it and out of it.
use super::*;
use crate::h2::dice::Dice;
use alloc::{format, string::String, vec, vec::Vec};

fn decoded(coded: &[u8]) -> Result<Vec<u8>, HuffmanFault> {
    let mut text = b"+".to_vec();
    decode(coded, &mut text)?;
    Ok(text.split_off(1))
}

fn encoded(text: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    encode(text.iter().copied(), &mut out);
    assert_eq!(encoded_len(text.iter().copied()), out.len());
    out
}

/// The code of a byte, as digits.
fn digits(byte: u8) -> String {
    let (code, len) = TABLES.codes[usize::from(byte)];
    let len = usize::from(len);
    format!("{code:0len$b}")
}

#[test]
fn codes_are_those_of_the_standard() {
    // All codes of five bits, the first and the last of other lengths.
    for (byte, code) in [
        (b'0', "00000"),
        (b'1', "00001"),
        (b'2', "00010"),
        (b'a', "00011"),
        (b'c', "00100"),
        (b'e', "00101"),
        (b'i', "00110"),
        (b'o', "00111"),
        (b's', "01000"),
        (b't', "01001"),
        (b' ', "010100"),
        (b'u', "101101"),
        (b':', "1011100"),
        (b'z', "1111011"),
        (b'&', "11111000"),
        (b'Z', "11111101"),
        (b'!', "1111111000"),
        (b'?', "1111111100"),
        (b'\'', "11111111010"),
        (b'|', "11111111100"),
        (b'#', "111111111010"),
        (b'>', "111111111011"),
        (0, "1111111111000"),
        (b'~', "1111111111101"),
        (b'^', "11111111111100"),
        (b'}', "11111111111101"),
        (b'<', "111111111111100"),
        (b'{', "111111111111110"),
        (b'\\', "1111111111111110000"),
        (128, "11111111111111100110"),
        (153, "111111111111111011100"),
        (129, "1111111111111111010010"),
        (1, "11111111111111111011000"),
        (9, "111111111111111111101010"),
        (199, "1111111111111111111101100"),
        (192, "11111111111111111111100000"),
        (203, "111111111111111111111011110"),
        (2, "1111111111111111111111100010"),
        (249, "1111111111111111111111111110"),
        (10, "111111111111111111111111111100"),
        (22, "111111111111111111111111111110"),
    ] {
        assert_eq!(digits(byte), code, "{byte}");
    }
}

/// Every sequence of bits starts with the code of exactly one symbol.
#[test]
fn the_code_is_complete() {
    let shares = LENGTHS.iter().map(|&len| 1u64 << (BITS_MAX - usize::from(len)));
    assert_eq!(shares.sum::<u64>(), 1 << BITS_MAX);
    assert_eq!(usize::from(*LENGTHS.iter().min().expect("symbols")), BITS_MIN);
    assert_eq!(usize::from(*LENGTHS.iter().max().expect("symbols")), BITS_MAX);
}

#[test]
fn each_byte_is_read_as_it_was_written() {
    for byte in 0..=255u8 {
        for text in [vec![byte], vec![byte; 2], vec![b'0', byte, b'a'], vec![byte; 17]] {
            assert_eq!(decoded(&encoded(&text)), Ok(text));
        }
    }
    assert_eq!(decoded(&[]), Ok(vec![]));
}

#[test]
fn texts_are_read_as_they_were_written() {
    let mut dice = Dice(1);
    for _ in 0..2000 {
        let len = dice.below(60);
        let is_text = dice.below(2) == 0;
        let one = |dice: &mut Dice| match is_text {
            true => dice.pick(b"/index-0.html?q=AZ az~"),
            false => dice.byte(),
        };
        let text: Vec<u8> = (0..len).map(|_| one(&mut dice)).collect();
        let coded = encoded(&text);
        assert_eq!(decoded(&coded), Ok(text));
        assert!(decoded(&coded).is_ok_and(|text| text.len() <= coded.len() * 8 / BITS_MIN));
    }
}

/// Decodes bit by bit.
fn plainly(coded: &[u8]) -> Result<Vec<u8>, HuffmanFault> {
    let bits: String = coded.iter().map(|byte| format!("{byte:08b}")).collect();
    let codes: Vec<String> = (0..=255).map(digits).collect();
    let (mut rest, mut text) = (&*bits, vec![]);
    while let Some(byte) = (0..=255u8).find(|&byte| rest.starts_with(&*codes[usize::from(byte)])) {
        rest = &rest[codes[usize::from(byte)].len()..];
        text.push(byte);
    }
    if rest.len() < 8 && !rest.contains('0') { Ok(text) } else { Err(HuffmanFault) }
}

#[test]
fn any_bytes_are_read_as_the_standard_says() {
    let mut dice = Dice(2);
    for _ in 0..2000 {
        let len = dice.below(12);
        let one = |dice: &mut Dice| if dice.below(3) == 0 { 0xff } else { dice.byte() };
        let coded: Vec<u8> = (0..len).map(|_| one(&mut dice)).collect();
        assert_eq!(decoded(&coded), plainly(&coded), "{coded:02x?}");
    }
}

#[test]
fn padding_is_short_and_of_ones() {
    let check = |coded: &[u8], expected: Result<&[u8], HuffmanFault>| {
        assert_eq!(decoded(coded).as_deref(), expected.as_ref().copied(), "{coded:02x?}");
    };
    check(&[0b0001_1111], Ok(b"a"));
    check(&[0b0001_1110], Err(HuffmanFault));
    check(&[0b0001_1011], Err(HuffmanFault));
    check(&[0b0001_1111, 0xff], Err(HuffmanFault));
    check(&[0xff], Err(HuffmanFault));
    check(&[0xfe], Err(HuffmanFault));
    check(&[0b1111_1000], Ok(b"&"));
    check(&[0b1111_1000, 0xff], Err(HuffmanFault));
    // The end of the string, whole and in part.
    check(&[0xff, 0xff, 0xff, 0xff], Err(HuffmanFault));
    check(&[0xff, 0xff, 0xff, 0xfc, 0x7f], Err(HuffmanFault));
    check(&[0b0001_1111, 0xff, 0xff, 0xff, 0xff, 0xff], Err(HuffmanFault));
}
