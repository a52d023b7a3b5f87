//! Prebuilt parts of responses: heads of a file for HTTP/1, small bodies in one piece with them,
//! and field blocks for HTTP/2.
use super::{Coded, Facts};
use crate::SERVER_NAME;
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use once_cell::race::OnceBox;
use regatta_http::{
    Status,
    date::DATE_BYTES,
    h1::{end_head, write_date_field, write_decimal_field, write_field, write_status_line},
    h2::hpack::{self, write_head},
    range::ByteRange,
};
use regatta_op::{Now, Segment};

/// Offset of the date in a head with a status line of 200.
pub(crate) const OK_DATE_AT: usize = b"HTTP/1.1 200 OK\r\nDate: ".len();
/// Offset of the date in a head with a status line of 304.
pub(crate) const NOT_MODIFIED_DATE_AT: usize = b"HTTP/1.1 304 Not Modified\r\nDate: ".len();
/// Offset of the date in a field block of a 200.
pub(crate) const BLOCK_DATE_AT: usize = hpack::DATE_AT;

/// The heads of one coding of a file.
#[derive(Clone, Debug)]
pub(crate) struct Heads {
    ok: Box<[u8]>,
    /// Offset of `Content-Type` in `ok`.
    type_at: u32,
    /// Offset of the fields after `Content-Type` in `ok`.
    after_type_at: u32,
    not_modified: Box<[u8]>,
    /// The field block of `ok`, built for the first response over HTTP/2.
    block: OnceBox<Box<[u8]>>,
}

impl Heads {
    pub(crate) fn new<F>(coded: &Coded<F>, facts: &Facts) -> Self {
        let (ok, type_at, after_type_at) = Self::build_ok(coded, facts);
        let not_modified = Self::build_not_modified(coded, facts);
        debug_assert!(ok.len() <= ok_room(facts) && not_modified.len() <= not_modified_room(facts));
        Self { ok, type_at, after_type_at, not_modified, block: OnceBox::new() }
    }

    /// The head of a 200 on a connection that HTTP/1.1 keeps. Its date is 29 bytes at
    /// [`OK_DATE_AT`], its length comes before its type, and all that a 206 shares comes last.
    fn build_ok<F>(coded: &Coded<F>, facts: &Facts) -> (Box<[u8]>, u32, u32) {
        let mut out = Vec::with_capacity(ok_room(facts));
        start_head(&mut out, Status::OK, Now::default(), facts.server_name.as_deref());
        write_decimal_field(&mut out, "Content-Length", coded.len());
        let type_at = offset(&out);
        write_field(&mut out, "Content-Type", facts.content_type.as_bytes());
        let after_type_at = offset(&out);
        let coding = match coded.coding {
            Some(coding) => coding.name(),
            None => &facts.coded_as,
        };
        if !coding.is_empty() {
            write_field(&mut out, "Content-Encoding", coding.as_bytes());
        }
        write_field(&mut out, "ETag", coded.etag_text());
        if let Some(modified) = coded.last_modified() {
            write_date_field(&mut out, "Last-Modified", modified);
        }
        write_field(&mut out, "Accept-Ranges", b"bytes");
        write_caching(&mut out, facts);
        if facts.nosniff {
            write_field(&mut out, "X-Content-Type-Options", b"nosniff");
        }
        out.extend_from_slice(&facts.fields);
        end_head(&mut out);
        (out.into_boxed_slice(), type_at, after_type_at)
    }

    /// The head of a 304: the fields of RFC 9110 §15.4.5 and no others.
    fn build_not_modified<F>(coded: &Coded<F>, facts: &Facts) -> Box<[u8]> {
        let mut out = Vec::with_capacity(not_modified_room(facts));
        let server = facts.server_name.as_deref();
        start_head(&mut out, Status::NOT_MODIFIED, Now::default(), server);
        write_field(&mut out, "ETag", coded.etag_text());
        write_caching(&mut out, facts);
        out.extend_from_slice(&facts.fields[..facts.revalidated]);
        end_head(&mut out);
        out.into_boxed_slice()
    }

    /// The head of a 200, with a date at [`OK_DATE_AT`] that must be replaced.
    pub(crate) const fn ok(&self) -> &[u8] {
        &self.ok
    }

    /// The head of a 304, with a date at [`NOT_MODIFIED_DATE_AT`] that must be replaced.
    pub(crate) const fn not_modified(&self) -> &[u8] {
        &self.not_modified
    }

    /// The field block of [`Self::ok`] for HTTP/2, with a date at [`BLOCK_DATE_AT`] that must be
    /// replaced.
    #[inline]
    pub(crate) fn block(&self) -> &[u8] {
        self.block.get_or_init(|| Box::new(Self::build_block(&self.ok)))
    }

    /// The field block of the head of a 200. The date is raw, as all values are.
    #[cold]
    fn build_block(ok: &[u8]) -> Box<[u8]> {
        let mut out = Vec::with_capacity(ok.len());
        write_head(&mut out, ok);
        let date = |text: &[u8], at: usize| text[at..at + DATE_BYTES].to_vec();
        debug_assert_eq!(date(&out, BLOCK_DATE_AT), date(ok, OK_DATE_AT), "the date is in place");
        out.into_boxed_slice()
    }

    /// The fields from `Content-Type` to the end of the head.
    pub(crate) fn fields(&self) -> &[u8] {
        &self.ok[place(self.type_at)..]
    }

    /// The `Content-Type` line.
    pub(crate) fn type_line(&self) -> &[u8] {
        &self.ok[place(self.type_at)..place(self.after_type_at)]
    }

    /// The fields after `Content-Type`, to the end of the head.
    pub(crate) fn fields_after_type(&self) -> &[u8] {
        &self.ok[place(self.after_type_at)..]
    }
}

/// Bytes that one coding takes with its heads, whether they are built yet or not. `body` is the
/// length of its body, if that is in memory.
pub(crate) fn room(facts: &Facts, body: Option<usize>) -> usize {
    let whole = body.map_or(0, |body| ok_room(facts) + body);
    // A field block is shorter than its head: a name of the static table saves more than the length
    // of a long value costs.
    let block = size_of::<Box<[u8]>>() + ok_room(facts);
    size_of::<Heads>() + ok_room(facts) + not_modified_room(facts) + block + whole
}

/// Length limit of the head of a 200.
fn ok_room(facts: &Facts) -> usize {
    332 + facts.bytes()
}

/// Length limit of the head of a 304.
fn not_modified_room(facts: &Facts) -> usize {
    172 + facts.revalidated_bytes()
}

fn write_caching(out: &mut Vec<u8>, facts: &Facts) {
    if !facts.cache_control.is_empty() {
        write_field(out, "Cache-Control", facts.cache_control.as_bytes());
    }
    if facts.varies {
        write_field(out, "Vary", b"Accept-Encoding");
    }
}

/// Writes the start of every head: status line, `Date`, and `Server` unless its value is empty.
pub(crate) fn start_head(out: &mut Vec<u8>, status: Status, now: Now, server: Option<&str>) {
    write_status_line(out, status);
    write_date_field(out, "Date", i64::try_from(now.unix).unwrap_or(i64::MAX));
    let server = server.unwrap_or(SERVER_NAME);
    if !server.is_empty() {
        write_field(out, "Server", server.as_bytes());
    }
}

fn offset(head: &[u8]) -> u32 {
    u32::try_from(head.len()).expect("a head is made of a configuration, which is short")
}

const fn place(offset: u32) -> usize {
    offset as usize
}

/// A body in memory, and from the first hit on a whole 200 in one piece: before the body, the head
/// that HTTP/1.1 has on a persistent connection.
///
/// Connections send it unchanged, without a copy. While none does, its date is changed in place.
#[derive(Clone, Debug)]
pub struct Whole {
    bytes: Arc<[u8]>,
    /// 0 before there is a head.
    body_at: usize,
    /// The second of its date; `None` before it has one.
    dated: Option<u64>,
}

impl Whole {
    /// A body, before which nothing is yet.
    pub(crate) const fn new(body: Arc<[u8]>) -> Self {
        Self { bytes: body, body_at: 0, dated: None }
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body_at..]
    }

    /// The response, if its date is this one.
    #[inline]
    pub(crate) fn dated(&self, unix: u64) -> Option<&Arc<[u8]>> {
        (self.dated == Some(unix)).then_some(&self.bytes)
    }

    /// The body, to be sent behind another head.
    pub(crate) fn body_segment<F>(&self) -> Segment<F> {
        Segment::mem_range(self.bytes.clone(), self.body_at..self.bytes.len())
    }

    /// A range of the body, to be sent behind another head.
    pub(crate) fn range_segment<F>(&self, range: &ByteRange) -> Segment<F> {
        let offset = |at: u64| usize::try_from(at).expect("a range lies within its body");
        let (first, last) = (offset(range.first), offset(range.last));
        let bytes = self.body_at + first..self.body_at + last + 1;
        Segment::mem_range(self.bytes.clone(), bytes)
    }

    /// Puts the head before it, if that is not there yet, and changes the date, unless a connection
    /// is sending the old one.
    pub(crate) fn redate(&mut self, heads: &Heads, unix: u64, date: &[u8; DATE_BYTES]) {
        if self.body_at == 0 {
            self.bytes = [heads.ok(), &self.bytes].concat().into();
            self.body_at = heads.ok().len();
        }
        if let Some(bytes) = Arc::get_mut(&mut self.bytes) {
            bytes[OK_DATE_AT..OK_DATE_AT + DATE_BYTES].copy_from_slice(date);
            self.dated = Some(unix);
        }
    }
}
