//! Several ranges of one representation in one response (RFC 9110 §14.6).
use alloc::{string::String, vec::Vec};
use core::fmt::Write as _;
use regatta_http::{
    h1::{end_head, write_decimal, write_field},
    range::ByteRange,
};

/// Separator of the parts.
pub(crate) struct Boundary(String);

impl Boundary {
    /// A boundary from a number that looks random: no file contains it by accident, or on purpose.
    pub(crate) fn new(number: u128) -> Self {
        let mut text = String::with_capacity(32);
        write!(text, "{number:032x}").expect("a string takes all text");
        Self(text)
    }

    /// The value of `Content-Type`.
    pub(crate) fn content_type(&self) -> String {
        let mut text = String::from("multipart/byteranges; boundary=");
        text.push_str(&self.0);
        text
    }

    /// Bytes before the content of a part.
    pub(crate) fn part(
        &self,
        type_line: &[u8],
        range: &ByteRange,
        len: u64,
        first: bool,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        out.extend_from_slice(if first { b"--" } else { b"\r\n--" });
        out.extend_from_slice(self.0.as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(type_line);
        write_content_range(&mut out, range, len);
        end_head(&mut out);
        out
    }

    /// Bytes after the last part.
    pub(crate) fn end(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(self.0.as_bytes());
        out.extend_from_slice(b"--\r\n");
        out
    }
}

/// `Content-Range` of a part of `len` bytes (RFC 9110 §14.4).
pub(crate) fn write_content_range(out: &mut Vec<u8>, range: &ByteRange, len: u64) {
    out.extend_from_slice(b"Content-Range: bytes ");
    write_decimal(out, range.first);
    out.push(b'-');
    write_decimal(out, range.last);
    out.push(b'/');
    write_decimal(out, len);
    out.extend_from_slice(b"\r\n");
}

/// `Content-Range` of an unsatisfiable range: the length of the representation (RFC 9110 §15.5.17).
pub(crate) fn write_unsatisfied_range(out: &mut Vec<u8>, len: u64) {
    let mut value = Vec::with_capacity(28);
    value.extend_from_slice(b"bytes */");
    write_decimal(&mut value, len);
    write_field(out, "Content-Range", &value);
}
