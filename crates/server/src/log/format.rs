//! Lines from records: the three formats, and their common escaping.
use regatta_http::{date, h1::write_decimal};
use regatta_origin::{Peer, Record, SealFacts};
use regatta_sys::socket::UNIX;
use std::{io::Write, net::IpAddr};

/// The longest write to a pipe that is taken whole or not at all (`PIPE_BUF`, `pipe(7)`).
pub(super) const PIPE_WRITE_BYTES_MAX: usize = 4096;
/// Format of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The Common Log Format of NCSA httpd.
    Common,
    /// Common Log Format and `Referer`, `User-Agent`, the outcome, and milliseconds.
    #[default]
    Combined,
    /// A JSON object on each line.
    Json,
}

impl Format {
    /// Parses the value of `log.format`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "common" => Some(Self::Common),
            "combined" => Some(Self::Combined),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// Limits of a text from a peer in a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// Bytes of the text.
    text: usize,
    /// Bytes of the escaped text in the line.
    room: usize,
}

impl Limit {
    /// No limit: a peer does not choose the text.
    pub(super) const NONE: Self = Self { text: usize::MAX, room: usize::MAX };
}

/// Limits of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineLimits {
    method: Limit,
    target: Limit,
    host: Limit,
    field: Limit,
    subject: Limit,
}

impl LineLimits {
    /// Limits of a file.
    pub(super) const FILE: Self = Self::with_room(
        METHOD_BYTES_MAX * ESCAPED_BYTES_MAX + DOTS.len(),
        TARGET_BYTES_MAX * ESCAPED_BYTES_MAX + DOTS.len(),
        HOST_BYTES_MAX * ESCAPED_BYTES_MAX + DOTS.len(),
        FIELD_BYTES_MAX * ESCAPED_BYTES_MAX + DOTS.len(),
        SUBJECT_BYTES_MAX * ESCAPED_BYTES_MAX + DOTS.len(),
    );
    /// Limits of a pipe, which takes no longer line as a whole ([`PIPE_WRITE_BYTES_MAX`]).
    pub(super) const PIPE: Self = Self::with_room(160, 2048, 96, 448, 160);

    const fn with_room(
        method: usize,
        target: usize,
        host: usize,
        field: usize,
        subject: usize,
    ) -> Self {
        Self {
            method: Limit { text: METHOD_BYTES_MAX, room: method },
            target: Limit { text: TARGET_BYTES_MAX, room: target },
            host: Limit { text: HOST_BYTES_MAX, room: host },
            field: Limit { text: FIELD_BYTES_MAX, room: field },
            subject: Limit { text: SUBJECT_BYTES_MAX, room: subject },
        }
    }

    /// Maximal length of a line, bytes.
    pub(super) const fn line_bytes_max(&self) -> usize {
        let request = self.method.room + self.target.room + self.host.room + 2 * self.field.room;
        let seal = self.host.room + self.subject.room;
        FIXED_BYTES_MAX + request + seal
    }
}

const _: () = assert!(LineLimits::PIPE.line_bytes_max() <= PIPE_WRITE_BYTES_MAX);

const METHOD_BYTES_MAX: usize = 32;
const TARGET_BYTES_MAX: usize = 8192;
const HOST_BYTES_MAX: usize = 260;
const FIELD_BYTES_MAX: usize = 2048;
const SUBJECT_BYTES_MAX: usize = 256;
/// Mark of a text that was cut.
const DOTS: &[u8] = b"...";
/// Maximal bytes for one byte from the peer: a backslash (two in JSON), `x` and two digits.
const ESCAPED_BYTES_MAX: usize = 5;
/// Generous limit of all bytes in a line that do not come from the peer.
const FIXED_BYTES_MAX: usize = 640;

/// Bytes that need no escape in any format: printable ASCII but quote and backslash.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};

/// Writes lines in one format, and keeps the text of the current second.
#[derive(Debug)]
pub(super) struct Formatter {
    format: Format,
    limits: LineLimits,
    unix: u64,
    stamp: [u8; 26],
    stamp_bytes: usize,
}

impl Formatter {
    pub(super) fn new(format: Format, limits: LineLimits) -> Self {
        let mut formatter = Self { format, limits, unix: 0, stamp: [0; 26], stamp_bytes: 0 };
        formatter.set_stamp(0);
        formatter
    }

    /// Changes the limits, for another destination.
    pub(super) const fn set_limits(&mut self, limits: LineLimits) {
        self.limits = limits;
    }

    /// Appends the line of a record, with its line feed.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        if record.unix != self.unix {
            self.set_stamp(record.unix);
        }
        match self.format {
            Format::Common => self.common(out, record),
            Format::Combined => {
                self.common(out, record);
                self.combined(out, record);
            }
            Format::Json => self.json(out, record),
        }
        out.push(b'\n');
    }

    fn set_stamp(&mut self, unix: u64) {
        self.unix = unix;
        self.stamp_bytes = match self.format {
            Format::Common | Format::Combined => {
                self.stamp = ncsa_stamp(unix);
                26
            }
            Format::Json => {
                self.stamp[..20].copy_from_slice(&rfc3339_stamp(unix));
                20
            }
        };
    }

    fn stamp(&self) -> &[u8] {
        &self.stamp[..self.stamp_bytes]
    }

    fn common(&self, out: &mut Vec<u8>, record: &Record<'_>) {
        write_address(out, record.peer);
        out.extend_from_slice(b" - - [");
        out.extend_from_slice(self.stamp());
        out.extend_from_slice(b"] \"");
        if record.method.is_empty() {
            out.push(b'-');
        } else {
            escape(out, record.method, self.limits.method, br"\x");
            out.push(b' ');
            escape(out, record.target, self.limits.target, br"\x");
            out.push(b' ');
            out.extend_from_slice(record.version.as_bytes());
        }
        out.extend_from_slice(b"\" ");
        write_decimal(out, u64::from(record.status));
        out.push(b' ');
        write_decimal(out, record.body_sent_bytes);
    }

    fn combined(&self, out: &mut Vec<u8>, record: &Record<'_>) {
        for field in [record.referer, record.user_agent] {
            out.extend_from_slice(b" \"");
            escape(out, field.unwrap_or(b"-"), self.limits.field, br"\x");
            out.push(b'"');
        }
        out.push(b' ');
        out.extend_from_slice(record.outcome.name().as_bytes());
        out.push(b' ');
        write_decimal(out, record.duration_ms);
    }

    fn json(&self, out: &mut Vec<u8>, record: &Record<'_>) {
        let limits = self.limits;
        out.extend_from_slice(b"{\"time\":\"");
        out.extend_from_slice(self.stamp());
        out.extend_from_slice(b"\",\"peer\":\"");
        write_address(out, record.peer);
        out.push(b'"');
        let port = record.peer.address().map_or(0, |address| address.port());
        member_decimal(out, "port", u64::from(port));
        member_text(out, "method", Some(record.method), limits.method);
        member_text(out, "target", Some(record.target), limits.target);
        member_text(out, "host", record.host, limits.host);
        member_text(out, "version", Some(record.version.as_bytes()), Limit::NONE);
        member_decimal(out, "status", u64::from(record.status));
        member_decimal(out, "body_bytes", record.body_bytes);
        member_decimal(out, "sent_bytes", record.sent_bytes);
        member_decimal(out, "body_sent_bytes", record.body_sent_bytes);
        member_text(out, "outcome", Some(record.outcome.name().as_bytes()), Limit::NONE);
        let refused = record.refused.map(|refusal| refusal.name().as_bytes());
        member_text(out, "refused", refused, Limit::NONE);
        member_decimal(out, "duration_ms", record.duration_ms);
        out.extend_from_slice(b",\"keep_alive\":");
        out.extend_from_slice(if record.keep_alive { b"true" } else { b"false" });
        member_text(out, "referer", record.referer, limits.field);
        member_text(out, "user_agent", record.user_agent, limits.field);
        self.json_seal(out, record.seal.as_ref());
        out.push(b'}');
    }

    /// Appends the members of an encrypted connection; without one, they are null.
    fn json_seal(&self, out: &mut Vec<u8>, seal: Option<&SealFacts<'_>>) {
        let scheme = if seal.is_some() { "https" } else { "http" };
        member_text(out, "scheme", Some(scheme.as_bytes()), Limit::NONE);
        let version = seal.and_then(|seal| seal.handshake.version_name()).map(str::as_bytes);
        member_text(out, "tls", version, Limit::NONE);
        let suite = seal.map(|seal| seal.handshake.suite.as_bytes());
        member_text(out, "suite", suite, Limit::NONE);
        let agreed = seal.map(|seal| seal.agreed).filter(|agreed| !agreed.is_empty());
        member_text(out, "alpn", agreed, Limit::NONE);
        out.extend_from_slice(match seal.map(|seal| seal.handshake.resumed) {
            None => b",\"resumed\":null",
            Some(true) => b",\"resumed\":true",
            Some(false) => b",\"resumed\":false",
        });
        let name = seal.and_then(|seal| seal.server_name);
        member_text(out, "sni", name, self.limits.host);
        let subject = seal.and_then(|seal| seal.client_subject);
        member_text(out, "client_subject", subject, self.limits.subject);
    }
}

fn member_decimal(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    write_decimal(out, value);
}

fn member_text(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>, limit: Limit) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    match value {
        None => out.extend_from_slice(b"\":null"),
        Some(value) => {
            out.extend_from_slice(b"\":\"");
            escape(out, value, limit, br"\\x");
            out.push(b'"');
        }
    }
}

/// Appends text from a peer. Bytes that are not plain become `prefix` and two hexadecimal digits.
/// Text above `limit` is cut and ends in three dots.
///
/// Without quotes, backslashes, controls and bytes above ASCII, no peer can end a line, close a
/// field or command a terminal. Every backslash is ours, so the bytes can be restored.
pub(super) fn escape(out: &mut Vec<u8>, text: &[u8], limit: Limit, prefix: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let kept = &text[..fitting(text, limit, prefix.len() + 2)];
    let mut rest = kept;
    loop {
        let plain = rest.iter().position(|&byte| !PLAIN[usize::from(byte)]);
        let Some(plain) = plain else { break };
        out.extend_from_slice(&rest[..plain]);
        let byte = usize::from(rest[plain]);
        out.extend_from_slice(prefix);
        out.extend_from_slice(&[DIGITS[byte >> 4], DIGITS[byte & 15]]);
        rest = &rest[plain + 1..];
    }
    out.extend_from_slice(rest);
    if kept.len() < text.len() {
        out.extend_from_slice(DOTS);
    }
}

/// Number of bytes of the text that are kept; a byte that is not plain takes `escaped` bytes.
fn fitting(text: &[u8], limit: Limit, escaped: usize) -> usize {
    if text.len() <= limit.text && text.len() <= limit.room / escaped {
        return text.len();
    }
    let (mut taken, mut with_dots) = (0, 0);
    for (at, &byte) in text.iter().enumerate().take(limit.text) {
        taken += if PLAIN[usize::from(byte)] { 1 } else { escaped };
        if taken > limit.room {
            return with_dots;
        }
        if taken + DOTS.len() <= limit.room {
            with_dots = at + 1;
        }
    }
    if text.len() > limit.text { with_dots } else { text.len() }
}

fn write_address(out: &mut Vec<u8>, peer: Peer) {
    match peer.ip() {
        None => out.extend_from_slice(UNIX.as_bytes()),
        Some(IpAddr::V4(address)) => {
            for (index, octet) in address.octets().into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                write_decimal(out, u64::from(octet));
            }
        }
        Some(IpAddr::V6(address)) => {
            write!(out, "{address}").expect("writing to memory cannot fail");
        }
    }
}

/// `06/Nov/1994:08:49:37 +0000`
fn ncsa_stamp(unix: u64) -> [u8; 26] {
    let date = imf_fixdate(unix);
    let mut stamp = *b"01/Jan/1970:00:00:00 +0000";
    stamp[..2].copy_from_slice(&date[5..7]);
    stamp[3..6].copy_from_slice(&date[8..11]);
    stamp[7..11].copy_from_slice(&date[12..16]);
    stamp[12..20].copy_from_slice(&date[17..25]);
    stamp
}

/// `1994-11-06T08:49:37Z`
pub(crate) fn rfc3339_stamp(unix: u64) -> [u8; 20] {
    const MONTHS: [&[u8; 3]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let date = imf_fixdate(unix);
    let month = MONTHS.iter().position(|month| month[..] == date[8..11]);
    let month = month.expect("a month of the table that wrote it") + 1;
    let mut stamp = *b"1970-01-01T00:00:00Z";
    stamp[..4].copy_from_slice(&date[12..16]);
    stamp[5] = b"01"[month / 10];
    stamp[6] = b"0123456789"[month % 10];
    stamp[8..10].copy_from_slice(&date[5..7]);
    stamp[11..19].copy_from_slice(&date[17..25]);
    stamp
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(unix: u64) -> [u8; date::DATE_BYTES] {
    date::format(i64::try_from(unix).unwrap_or(i64::MAX))
}
