//! The chunked transfer coding, decoded as it arrives (RFC 9112 §7.1).
use crate::field::is_tchar;

/// The most bytes that chunk extensions and trailer fields may have, all together in one message.
pub const EXTRA_BYTES_MAX: u32 = 8 << 10;

/// The most digits in a chunk size: 64 bits.
const SIZE_DIGITS_MAX: u8 = 16;

/// Content that is not chunked as it should be: its end cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkFault;

/// Progress of [`Decoder::feed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// Bytes that belong to this message: all of them, unless it is done.
    pub used: usize,
    /// True if the message is complete. The bytes behind it belong to the next one.
    pub done: bool,
}

/// Decodes one message's chunks, byte by byte if need be.
///
/// Strict: every line ends in CRLF, sizes have 1 to 16 digits, and extensions and trailer fields,
/// which mean nothing here, must look like what they are.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    state: State,
    /// Bytes left in the chunk, or the size that is being read.
    left: u64,
    extra_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In a chunk's size, after this many digits.
    Size(u8),
    /// In whitespace after the size or an extension, which only another extension may follow.
    Blank,
    /// Before an extension's name.
    Extension,
    /// In its name, and in whitespace behind it.
    ExtensionName,
    ExtensionNameEnd,
    /// Before its value.
    ExtensionValue,
    /// In a value that is a token.
    Token,
    /// In a value that is a quoted string, after a backslash in it, and behind it.
    Quoted,
    Escaped,
    QuotedEnd,
    /// After the CR of a size line.
    SizeEnd,
    /// In a chunk's data.
    Data,
    /// After a chunk's data.
    DataEnd,
    /// After the CR behind a chunk's data.
    DataEndLf,
    /// At the start of a line after the last chunk.
    Line,
    /// In a trailer field's name.
    Name,
    /// In a trailer field's value.
    Value,
    /// After the CR of a trailer field.
    ValueEnd,
    /// After the CR of the blank line.
    LastLf,
    Done,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the start of a message's content.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: State::Size(0), left: 0, extra_bytes: 0 }
    }

    /// True if the message is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes the next bytes and discards the data in them.
    ///
    /// # Errors
    /// [`ChunkFault`]: answer 400 and close. The decoder is of no more use.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Fed, ChunkFault> {
        self.feed_data(bytes, |_| {})
    }

    /// Takes the next bytes and gives each piece of data in them to `sink`. No piece is empty.
    ///
    /// # Errors
    /// As [`Decoder::feed`].
    pub fn feed_data(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(&[u8]),
    ) -> Result<Fed, ChunkFault> {
        let mut used = 0;
        while self.state != State::Done {
            let rest = &bytes[used..];
            let Some(&byte) = rest.first() else {
                return Ok(Fed { used, done: false });
            };
            if self.state == State::Data {
                let count = usize::try_from(self.left).map_or(rest.len(), |n| n.min(rest.len()));
                sink(&rest[..count]);
                used += count;
                self.left -= count as u64;
                if self.left == 0 {
                    self.state = State::DataEnd;
                }
            } else {
                self.state = self.step(byte)?;
                used += 1;
            }
        }
        Ok(Fed { used, done: true })
    }

    /// The state after `byte`, which is not data.
    fn step(&mut self, byte: u8) -> Result<State, ChunkFault> {
        Ok(match (self.state, byte) {
            (State::Size(digits), _) if byte.is_ascii_hexdigit() => self.digit(digits, byte)?,
            (State::Size(1..) | State::ExtensionName | State::Token | State::QuotedEnd, b'\r') => {
                State::SizeEnd
            }
            (State::Size(1..), _) => self.extension(State::Blank, byte)?,
            (State::Blank | State::Extension, _)
            | (State::ExtensionName | State::ExtensionNameEnd | State::ExtensionValue, _)
            | (State::Token | State::Quoted | State::Escaped | State::QuotedEnd, _) => {
                self.extension(self.state, byte)?
            }
            (State::SizeEnd, b'\n') if self.left == 0 => State::Line,
            (State::SizeEnd, b'\n') => State::Data,
            (State::DataEnd, b'\r') => State::DataEndLf,
            (State::DataEndLf, b'\n') => State::Size(0),
            (State::Line, b'\r') => State::LastLf,
            (State::Line | State::Name, _) if is_tchar(byte) => self.extra(State::Name)?,
            (State::Name, b':') => self.extra(State::Value)?,
            (State::Value, b'\r') => State::ValueEnd,
            (State::Value, _) if is_text(byte) => self.extra(State::Value)?,
            (State::ValueEnd, b'\n') => State::Line,
            (State::LastLf, b'\n') => State::Done,
            _ => return Err(ChunkFault),
        })
    }

    /// The state after a byte of an extension (RFC 9112 §7.1.1).
    fn extension(&mut self, state: State, byte: u8) -> Result<State, ChunkFault> {
        use State::{
            Blank, Escaped, Extension, ExtensionName, ExtensionNameEnd, ExtensionValue, Quoted,
            QuotedEnd, Token,
        };
        self.extra(match (state, byte) {
            (Quoted, b'"') => QuotedEnd,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, _) if is_text(byte) => Quoted,
            (Blank | ExtensionName | ExtensionNameEnd | Token | QuotedEnd, b';') => Extension,
            (ExtensionName | ExtensionNameEnd, b'=') => ExtensionValue,
            (ExtensionValue, b'"') => Quoted,
            (Extension | ExtensionName, _) if is_tchar(byte) => ExtensionName,
            (ExtensionValue | Token, _) if is_tchar(byte) => Token,
            (Extension | ExtensionValue, b' ' | b'\t') => state,
            (ExtensionName | ExtensionNameEnd, b' ' | b'\t') => ExtensionNameEnd,
            (Blank | Token | QuotedEnd, b' ' | b'\t') => Blank,
            _ => return Err(ChunkFault),
        })
    }

    /// Takes a digit of a size, the one after `digits` others.
    fn digit(&mut self, digits: u8, byte: u8) -> Result<State, ChunkFault> {
        let value = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20) - b'a' + 10,
        };
        if digits == SIZE_DIGITS_MAX {
            return Err(ChunkFault);
        }
        self.left = self.left << 4 | u64::from(value);
        Ok(State::Size(digits + 1))
    }

    /// Counts a byte of an extension or a trailer field.
    fn extra(&mut self, next: State) -> Result<State, ChunkFault> {
        self.extra_bytes += 1;
        if self.extra_bytes > EXTRA_BYTES_MAX { Err(ChunkFault) } else { Ok(next) }
    }
}

/// True for a byte that may be in a field's value: no control character but a tab.
const fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=0x7e | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::String, vec::Vec};

    /// Decodes `text` in pieces of `step` bytes: the data and the bytes used, if it is complete.
    fn decode(text: &[u8], step: usize) -> Result<Option<(Vec<u8>, usize)>, ChunkFault> {
        let (mut decoder, mut data, mut used) = (Decoder::new(), Vec::new(), 0);
        for piece in text.chunks(step) {
            let fed = decoder.feed_data(piece, |bytes| {
                assert!(!bytes.is_empty());
                data.extend_from_slice(bytes);
            })?;
            used += fed.used;
            assert_eq!(fed.done, decoder.is_done());
            if fed.done {
                return Ok(Some((data, used)));
            }
            assert_eq!(fed.used, piece.len());
        }
        Ok(None)
    }

    fn check(text: &str, expected: Result<Option<(&str, usize)>, ChunkFault>) {
        let expected =
            expected.map(|done| done.map(|(data, used)| (data.as_bytes().to_vec(), used)));
        for step in 1..=text.len().clamp(1, 40) {
            assert_eq!(decode(text.as_bytes(), step), expected, "{text:?} {step}");
        }
        assert_eq!(decode(text.as_bytes(), usize::MAX), expected, "{text:?}");
    }

    #[test]
    fn complete_messages() {
        for (text, data) in [
            ("0\r\n\r\n", ""),
            ("000\r\n\r\n", ""),
            ("5\r\nhello\r\n0\r\n\r\n", "hello"),
            ("1\r\na\r\nA\r\n0123456789\r\n0\r\n\r\n", "a0123456789"),
            ("a\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n\r\n\r\n\r\n"),
            ("0000000000000001\r\na\r\n0\r\n\r\n", "a"),
            ("1;a\r\na\r\n0;b=c\r\n\r\n", "a"),
            ("1 ;\ta=\"\u{fc};\"\r\na\r\n0\t;b\r\n\r\n", "a"),
            ("1;a;b = c ; d\t=\"\\\"\\\\=\" ;e=\"\"\r\na\r\n0\r\n\r\n", "a"),
            ("0\r\nA: b\r\nC:\r\n\r\n", ""),
            ("0\r\nA:\tb: \u{fc}\r\n\r\n", ""),
        ] {
            check(text, Ok(Some((data, text.len()))));
            check(&format!("{text}GET / HTTP/1.1\r\n"), Ok(Some((data, text.len()))));
            for end in 0..text.len() {
                assert_eq!(decode(&text.as_bytes()[..end], 3), Ok(None), "{text:?} {end}");
            }
        }
    }

    #[test]
    fn anything_else_is_a_fault() {
        // Sizes and extensions, each before the end of its line.
        for line in [
            "", "x", " 1", "-1", "+1", "0x1", "1 ", "1\t", "1 1", "1g", ";a", "1;", "1;;a", "1;a=",
            "1;a ", "1;a b", "1;a=b=c", "1;a=b ", "1;a@", "1;=a", "1,",
        ] {
            check(&format!("{line}\r\n"), Err(ChunkFault));
        }
        for line in ["1;a=\"b\"c", "1;a=b\"c\"", "00000000000000000", "10000000000000000"] {
            check(&format!("{line}\r\n"), Err(ChunkFault));
        }
        // Ends of lines, bytes in extensions, and data.
        for text in [
            "\n", "1\n", "1\r\r", "1\ra", "1;a\n", "1;a\rb", "1;\0", "1;\x7f", "1\r\nab",
            "1\r\na\n",
        ] {
            check(text, Err(ChunkFault));
        }
        for text in ["1;a=\"b\r", "1\r\na\r\r", "1\r\na1", "1\r\na\r\n\r\n", "fffffffffffffffff"] {
            check(text, Err(ChunkFault));
        }
        for text in ["0\n", "0\r\n\n", "0\r\n\r\r"] {
            check(text, Err(ChunkFault));
        }
        for trailer in
            [":", " a:", "a :", "a\r", "a:\0", "a:\n", "a: b\rc", "a\u{fc}:", "a: b\r\n c"]
        {
            check(&format!("0\r\n{trailer}"), Err(ChunkFault));
        }
    }

    #[test]
    fn the_largest_chunk_is_counted_right() {
        let mut decoder = Decoder::new();
        assert_eq!(decoder.feed(b"ffffffffffffffff\r\nabc"), Ok(Fed { used: 21, done: false }));
        assert_eq!(decoder.left, u64::MAX - 3);
    }

    #[test]
    fn extensions_and_trailers_are_bounded_together() {
        let max = EXTRA_BYTES_MAX as usize;
        let extension = |bytes: usize| format!("0;{}\r\n\r\n", "a".repeat(bytes - 1));
        let trailer = |bytes: usize| format!("0\r\nA:{}\r\n\r\n", "b".repeat(bytes - 2));
        let many = |count: usize| -> String {
            let chunks: String = (0..count).map(|_| "1;a\r\nx\r\n").collect();
            format!("{chunks}0\r\n\r\n")
        };
        for (fits, too_long) in [
            (extension(max), extension(max + 1)),
            (trailer(max), trailer(max + 1)),
            (many(max / 2), many(max / 2 + 1)),
        ] {
            assert_eq!(decode(fits.as_bytes(), 1000).unwrap().unwrap().1, fits.len());
            assert_eq!(decode(too_long.as_bytes(), 1000), Err(ChunkFault));
        }
    }
}
