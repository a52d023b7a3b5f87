//! Response heads: parsed by the `http` crate once, and then known again by their bytes.
//!
//! A static server says the same for the same target, but for the date. Comparing costs less than
//! parsing, and what is equal to what was accepted is as acceptable.

use regatta_http::Method;
use regatta_http::date::DATE_BYTES;
use regatta_http::h1::{ResponseBody, Scan, parse_response, scan_head};

/// Longest response head, bytes.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;

/// Content codings whose siblings a directory may have: the name of each, and its suffix.
pub(super) const CODINGS: [(&str, &str); 3] = [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")];

/// Content coding of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Coded {
    /// None: the content is the file's.
    #[default]
    No,
    /// The one at this place of [`CODINGS`].
    By(usize),
    /// Another one, or several.
    Otherwise,
}

impl Coded {
    fn read(fields: &regatta_http::Fields<'_>) -> Self {
        let Some(value) = fields.get("content-encoding") else { return Self::No };
        let value = value.trim_ascii();
        if value.eq_ignore_ascii_case(b"identity") {
            return Self::No;
        }
        let is_it = |(name, _): &(&str, &str)| value.eq_ignore_ascii_case(name.as_bytes());
        CODINGS.iter().position(is_it).map_or(Self::Otherwise, Self::By)
    }
}

/// What matters of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Status code.
    pub(super) status: u16,
    /// The content that follows.
    pub(super) body: ResponseBody,
    /// Whether the connection may carry another exchange.
    pub(super) keep: bool,
    /// Content-Length as stated, when the content itself does not come (HEAD).
    pub(super) stated: Option<u64>,
    /// The coding of the content.
    pub(super) coded: Coded,
}

/// How far a head has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// It goes on.
    Partial,
    /// It is this many bytes long.
    Whole(Head, usize),
    /// It is none.
    Bad,
}

/// The last head that a target had.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    bytes: Vec<u8>,
    /// Where the date's value starts; the length if there is none.
    date: usize,
    head: Option<Head>,
}

impl Known {
    /// The head at the start of `bytes`, if it is the last one again.
    #[inline]
    pub(super) fn same(&self, bytes: &[u8]) -> Option<(Head, usize)> {
        let head = self.head?;
        let own = self.bytes.as_slice();
        let bytes = bytes.get(..own.len())?;
        if bytes[..self.date] != own[..self.date] {
            return None;
        }
        let (date, rest) = bytes[self.date..].split_at(DATE_BYTES.min(own.len() - self.date));
        // A line end in the date would end the head elsewhere.
        let plain = date.iter().fold(true, |plain, b| plain & (0x20..0x7f).contains(b));
        (plain && rest == &own[self.date + date.len()..]).then_some((head, own.len()))
    }

    fn learn(&mut self, bytes: &[u8], head: Head) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.date = date_of(bytes);
        self.head = Some(head);
    }
}

/// Where the value of the first Date field starts, if it has its proper length.
fn date_of(bytes: &[u8]) -> usize {
    let lines = bytes.split_inclusive(|&b| b == b'\n');
    let mut at = 0;
    for line in lines {
        let name = line.get(..6).is_some_and(|name| name.eq_ignore_ascii_case(b"date: "));
        if name && line.len() == 6 + DATE_BYTES + 2 {
            return at + 6;
        }
        at += line.len();
    }
    bytes.len()
}

/// Reads the head at the start of `bytes`, of which the first `seen` were there before. `known`
/// learns what comes whole.
pub(super) fn read(bytes: &[u8], seen: usize, method: Method, known: &mut Known) -> Read {
    if seen == 0
        && let Some((head, len)) = known.same(bytes)
    {
        return Read::Whole(head, len);
    }
    let len = match scan_head(bytes, seen) {
        Scan::Partial if bytes.len() > HEAD_BYTES_MAX => return Read::Bad,
        Scan::Partial => return Read::Partial,
        Scan::End(len) => len,
        Scan::Bad => return Read::Bad,
    };
    let Ok(parsed) = parse_response(&bytes[..len], method) else { return Read::Bad };
    let stated = match parsed.body {
        ResponseBody::None => stated_length(&parsed.fields),
        _ => None,
    };
    let head = Head {
        status: parsed.status.0,
        body: parsed.body,
        keep: parsed.persistent,
        stated,
        coded: Coded::read(&parsed.fields),
    };
    if head.status >= 200 {
        known.learn(&bytes[..len], head);
    }
    Read::Whole(head, len)
}

fn stated_length(fields: &regatta_http::Fields<'_>) -> Option<u64> {
    core::str::from_utf8(fields.get("content-length")?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &[u8] = b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
        Content-Length: 5\r\n\r\n";

    fn ok(body: ResponseBody) -> Head {
        Head { status: 200, body, keep: true, stated: None, coded: Coded::No }
    }

    #[test]
    fn a_head_is_known_again_but_for_its_date() {
        let mut known = Known::default();
        let five = ok(ResponseBody::Length(5));
        assert_eq!(read(FIRST, 0, Method::Get, &mut known), Read::Whole(five, FIRST.len()));
        let text = core::str::from_utf8(FIRST).unwrap();
        for (from, to, same) in [
            ("", "", true),
            ("37 GMT", "59 GMT", true),
            ("37 GMT", "3\r\nGMT", false),
            ("37 GMT", "37 GMTx", false),
            ("200", "404", false),
            ("Length: 5", "Length: 6", false),
            ("Length", "length", false),
            ("\r\n\r\n", "\r\nA: b\r\n\r\n", false),
            ("\r\n\r\n", "\r\n", false),
        ] {
            let other = format!("{}body", text.replacen(from, to, 1));
            assert_eq!(known.same(other.as_bytes()).is_some(), same, "{from:?} as {to:?}");
        }
        assert_eq!(known.same(&FIRST[..FIRST.len() - 1]), None);
        assert_eq!(Known::default().same(FIRST), None);
    }

    #[test]
    fn codings_are_read() {
        for (field, coded) in [
            ("", Coded::No),
            ("Content-Encoding: identity\r\n", Coded::No),
            ("content-encoding: GZIP\r\n", Coded::By(2)),
            ("Content-Encoding: br\r\n", Coded::By(0)),
            ("Content-Encoding: br, gzip\r\n", Coded::Otherwise),
        ] {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{field}\r\n");
            let read = read(text.as_bytes(), 0, Method::Get, &mut Known::default());
            let Read::Whole(head, _) = read else { panic!("{text}") };
            assert_eq!(head.coded, coded, "{field}");
        }
    }

    #[test]
    fn heads_without_a_date_are_known_too() {
        let mut known = Known::default();
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let empty = ok(ResponseBody::Length(0));
        assert_eq!(read(bytes, 0, Method::Get, &mut known), Read::Whole(empty, bytes.len()));
        assert_eq!(known.same(bytes), Some((empty, bytes.len())));
    }

    #[test]
    fn heads_come_in_pieces_or_not_at_all() {
        let mut known = Known::default();
        for cut in 1..FIRST.len() {
            assert_eq!(read(&FIRST[..cut], 0, Method::Get, &mut known), Read::Partial);
            let whole = Read::Whole(ok(ResponseBody::Length(5)), FIRST.len());
            assert_eq!(read(FIRST, cut, Method::Get, &mut Known::default()), whole);
        }
        let endless = vec![b'a'; HEAD_BYTES_MAX + 1];
        for bad in [&endless[..], b"\x01", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\nA: b\n\n"] {
            assert_eq!(read(bad, 0, Method::Get, &mut known), Read::Bad);
        }
        let Read::Whole(head, _) = read(FIRST, 0, Method::Head, &mut known) else { panic!() };
        assert_eq!((head.body, head.stated), (ResponseBody::None, Some(5)));
    }
}
