//! Writing heads: status lines, request lines and fields into a buffer.
use crate::{Status, date};
use alloc::vec::Vec;

/// A number as decimal text, without allocation.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    /// The text of `value`: no sign, no leading zeros.
    #[must_use]
    pub fn new(mut value: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b"0123456789"[(value % 10) as usize];
            value /= 10;
            if value == 0 {
                return Self { digits, start };
            }
        }
    }

    /// The digits.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

/// Appends `HTTP/1.1 CODE REASON` and a line end: always this server's own version (RFC 9110 §6.2).
pub fn write_status_line(out: &mut Vec<u8>, status: Status) {
    if let Some(line) = status.line() {
        out.extend_from_slice(line.as_bytes());
    } else {
        out.extend_from_slice(b"HTTP/1.1 ");
        write_decimal(out, u64::from(status.0));
        out.extend_from_slice(b" \r\n");
    }
}

/// Appends a request line for HTTP/1.1. `method` is a token; `target` has no spaces.
pub fn write_request_line(out: &mut Vec<u8>, method: &str, target: &[u8]) {
    debug_assert!(!target.iter().any(|&byte| byte <= b' '), "a target is one word");
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Appends `name: value` and a line end. The caller has made or checked both: they hold no line
/// end.
pub fn write_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)), "a value is one line");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a field with a number as its value.
pub fn write_decimal_field(out: &mut Vec<u8>, name: &str, value: u64) {
    write_field(out, name, Decimal::new(value).as_bytes());
}

/// Appends a field with a date as its value: `secs` since 1970.
pub fn write_date_field(out: &mut Vec<u8>, name: &str, secs: i64) {
    write_field(out, name, &date::format(secs));
}

/// Appends a number.
pub fn write_decimal(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(Decimal::new(value).as_bytes());
}

/// Appends the blank line that ends a head.
pub fn end_head(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// Removes the field lines for which `is_meant` is true. It sees all bytes from the start of the
/// line on.
pub fn remove_fields(head: &mut Vec<u8>, is_meant: impl Fn(&[u8]) -> bool) {
    let mut at = 0;
    while let Some(len) = head[at..].iter().position(|&byte| byte == b'\n') {
        if is_meant(&head[at..]) {
            head.drain(at..=at + len);
        } else {
            at += len + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn check(write: impl Fn(&mut Vec<u8>), expected: &str) {
        let mut out = b"+".to_vec();
        write(&mut out);
        assert_eq!(out.escape_ascii().to_string(), expected);
    }

    #[test]
    fn heads_are_written_as_they_are_read() {
        check(|out| write_status_line(out, Status::OK), r"+HTTP/1.1 200 OK\r\n");
        check(|out| write_status_line(out, Status(299)), r"+HTTP/1.1 299 \r\n");
        check(|out| write_request_line(out, "GET", b"/a?b"), r"+GET /a?b HTTP/1.1\r\n");
        check(|out| write_field(out, "A", b"b c"), r"+A: b c\r\n");
        check(|out| write_decimal_field(out, "Age", 0), r"+Age: 0\r\n");
        let date = r"+Date: Thu, 01 Jan 1970 00:00:01 GMT\r\n";
        check(|out| write_date_field(out, "Date", 1), date);
        check(|out| write_decimal(out, u64::MAX), "+18446744073709551615");
        check(end_head, r"+\r\n");
        let mut head = b"HTTP/1.1 200 OK\r\nA: b\r\nB: c\r\nA: d\r\n\r\n".to_vec();
        remove_fields(&mut head, |line| line.starts_with(b"A:"));
        assert_eq!(head, b"HTTP/1.1 200 OK\r\nB: c\r\n\r\n");
    }

    #[test]
    fn numbers_have_as_many_digits_as_they_need() {
        for value in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX - 1, u64::MAX] {
            assert_eq!(Decimal::new(value).as_bytes(), value.to_string().as_bytes());
        }
    }
}
