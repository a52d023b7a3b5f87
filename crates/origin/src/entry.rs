//! A file with everything about its responses that can be known before a request comes.
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use regatta_http::{
    Status,
    date::DATE_BYTES,
    etag::EntityTag,
    h1::{end_head, write_date_field, write_decimal_field, write_field, write_status_line},
};
use regatta_op::{Coding, Codings, File, FileId, Now, Segment};

use crate::{Site, content, validator};

/// Where the date stands in a head with a status line of 200.
pub(crate) const OK_DATE_AT: usize = b"HTTP/1.1 200 OK\r\nDate: ".len();
/// Where the date stands in a head with a status line of 304.
pub(crate) const NOT_MODIFIED_DATE_AT: usize = b"HTTP/1.1 304 Not Modified\r\nDate: ".len();

/// A regular file in all its content codings, with prebuilt heads.
///
/// Size, time, tag and body of each coding come from one descriptor. A file that changed gets
/// another one: all that changes here is where a body is, and the date in what is sent whole.
#[derive(Clone, Debug)]
pub struct Representation<F> {
    identity: Coded<F>,
    siblings: [Option<Box<Coded<F>>>; 3],
    content_type: Box<str>,
    /// The disk was asked so soon after one of its files had changed that another change may not
    /// show in its facts.
    young: bool,
    /// The second in which [`Self::redate`] was called last.
    redated: u64,
}

/// One content coding of a file, or the file as it is.
#[derive(Clone, Debug)]
pub struct Coded<F> {
    /// Which file this is; its length is that of the body.
    pub id: FileId,
    /// The coding; `None` for the file as it is.
    pub coding: Option<Coding>,
    /// `Last-Modified`, seconds since 1970: never after the time when the file was opened.
    pub modified_secs: i64,
    /// The body.
    pub body: Body<F>,
    etag: Box<[u8]>,
    ok: Box<[u8]>,
    /// Where `Content-Type` starts in `ok`.
    type_at: u16,
    /// Where the fields after `Content-Type` start in `ok`.
    after_type_at: u16,
    not_modified: Box<[u8]>,
}

/// Where a body is.
#[derive(Clone, Debug)]
pub enum Body<F> {
    /// In memory; no descriptor is held.
    Memory(Whole),
    /// In an open file.
    File(F),
}

/// A whole 200 in one piece of memory: the head that HTTP/1.1 has on a connection that goes on, and
/// the body behind it.
///
/// Connections send it as it is, without a copy. Its date is changed in place, when no connection
/// is sending it.
#[derive(Clone, Debug)]
pub struct Whole {
    bytes: Arc<[u8]>,
    body_at: usize,
    /// The second that its date tells; `None` if it was never changed.
    dated: Option<u64>,
}

impl Whole {
    pub(crate) fn new(head: &[u8], body: &[u8]) -> Self {
        Self { bytes: [head, body].concat().into(), body_at: head.len(), dated: None }
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
        Segment::Mem { bytes: self.bytes.clone(), at: self.body_at }
    }

    /// Changes the date, unless a connection is sending the old one.
    fn redate(&mut self, unix: u64, date: &[u8; DATE_BYTES]) {
        if let Some(bytes) = Arc::get_mut(&mut self.bytes) {
            bytes[OK_DATE_AT..OK_DATE_AT + DATE_BYTES].copy_from_slice(date);
            self.dated = Some(unix);
        }
    }
}

impl<F: File> Representation<F> {
    /// Everything about the file at `path`, just opened, and its siblings. The disk was asked in
    /// the second `asked_unix`: their facts may be as old as that.
    #[must_use]
    pub fn new(
        path: &[u8],
        file: F,
        siblings: [Option<F>; 3],
        site: &Site,
        now: Now,
        asked_unix: u64,
    ) -> Self {
        let facts = Facts {
            content_type: content::content_type(path, site),
            cache_control: content::cache_control(path, site),
            varies: siblings.iter().any(Option::is_some),
            nosniff: site.content.nosniff,
            asked_unix,
        };
        let mut codings = Coding::ALL.into_iter();
        let siblings = siblings.map(|sibling| {
            let coding = codings.next();
            sibling.map(|file| Box::new(Coded::new(file, coding, &facts, now)))
        });
        let identity = Coded::new(file, None, &facts, now);
        let content_type = facts.content_type;
        let mut all = Self { identity, siblings, content_type, young: false, redated: 0 };
        let young = all.all().any(|coded| is_young(&coded.id, asked_unix));
        all.young = young;
        all
    }

    /// The file as it is.
    #[must_use]
    pub const fn identity(&self) -> &Coded<F> {
        &self.identity
    }

    /// The file in a coding, if it has that sibling; `None` is the file as it is.
    #[must_use]
    pub fn coded(&self, coding: Option<Coding>) -> Option<&Coded<F>> {
        match coding {
            None => Some(&self.identity),
            Some(coding) => self.siblings[coding as usize].as_deref(),
        }
    }

    /// The codings in which the file has a sibling.
    #[must_use]
    pub fn codings(&self) -> Codings {
        Coding::ALL.into_iter().fold(Codings::NONE, |codings, coding| {
            if self.siblings[coding as usize].is_some() { codings.with(coding) } else { codings }
        })
    }

    /// The value of `Content-Type`.
    #[must_use]
    pub const fn content_type(&self) -> &str {
        &self.content_type
    }

    /// True if these are the same files with the same content, and their facts can tell that: of
    /// files that were young they cannot, and it is false.
    #[must_use]
    pub fn is_same(&self, file: &F, siblings: &[Option<F>; 3]) -> bool {
        let same = |coded: Option<&Coded<F>>, file: Option<&F>| {
            coded.map(|coded| coded.id) == file.map(File::id)
        };
        !self.young
            && same(Some(&self.identity), Some(file))
            && self.siblings.iter().zip(siblings).all(|(a, b)| same(a.as_deref(), b.as_ref()))
    }

    /// True if these tell the same of the same files, wherever their bodies are.
    pub(crate) fn tells_of(&self, other: &Self) -> bool {
        let ids = |file: &Self| {
            [None, Some(Coding::Brotli), Some(Coding::Zstd), Some(Coding::Gzip)]
                .map(|coding| file.coded(coding).map(|coded| coded.id))
        };
        self.young == other.young && ids(self) == ids(other)
    }

    /// Puts the body of one coding into memory and lets go of its descriptor.
    ///
    /// # Panics
    /// If it is not as long as it should be: a short read is not a body.
    pub(crate) fn fill(&mut self, coding: Option<Coding>, bytes: &[u8]) {
        let coded = match coding {
            None => Some(&mut self.identity),
            Some(coding) => self.siblings[coding as usize].as_deref_mut(),
        };
        let coded = coded.expect("only a coding that exists is filled");
        assert_eq!(bytes.len() as u64, coded.id.len, "a body is as long as its head says");
        coded.body = Body::Memory(Whole::new(&coded.ok, bytes));
    }

    /// The second in which [`Self::redate`] was called last.
    #[inline]
    pub(crate) const fn redated(&self) -> u64 {
        self.redated
    }

    /// Brings the date in what is sent whole up to date: `date` is that of `unix`. What a
    /// connection is sending keeps the old one, and others get copies.
    #[cold]
    pub(crate) fn redate(file: &mut Arc<Self>, unix: u64, date: &[u8; DATE_BYTES]) {
        if let Some(file) = Arc::get_mut(file) {
            file.redated = unix;
            let siblings = file.siblings.iter_mut().filter_map(Option::as_deref_mut);
            for coded in siblings.chain([&mut file.identity]) {
                if let Body::Memory(whole) = &mut coded.body {
                    whole.redate(unix, date);
                }
            }
        }
    }

    /// Descriptors held.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.all().filter(|coded| matches!(coded.body, Body::File(_))).count()
    }

    /// Bytes of heads and bodies.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let body = |coded: &Coded<F>| match &coded.body {
            Body::Memory(whole) => whole.bytes.len(),
            Body::File(_) => 0,
        };
        let of = |coded: &Coded<F>| {
            body(coded) + coded.ok.len() + coded.not_modified.len() + coded.etag.len()
        };
        self.all().map(|coded| size_of::<Coded<F>>() + of(coded)).sum::<usize>()
            + self.content_type.len()
    }

    /// A representation of parts that [`crate::pack`] has taken apart.
    pub(crate) fn assemble(
        identity: Coded<F>,
        siblings: [Option<Box<Coded<F>>>; 3],
        content_type: Box<str>,
        young: bool,
    ) -> Self {
        Self { identity, siblings, content_type, young, redated: 0 }
    }

    /// For [`crate::pack`].
    pub(crate) const fn young(&self) -> bool {
        self.young
    }

    fn all(&self) -> impl Iterator<Item = &Coded<F>> {
        let siblings = self.siblings.iter().filter_map(Option::as_deref);
        core::iter::once(&self.identity).chain(siblings)
    }
}

/// True if a file had changed less than one to two seconds before the disk was asked.
///
/// Most kernels (Linux before 6.13) tell the times of files in ticks of up to 10 ms. What is
/// written, read by us and written again with the same length within one has the same facts as
/// before: it is racy in the sense of git's index. A second is more than any tick. Every write sets
/// the change time, which nobody can set back.
fn is_young(id: &FileId, asked_unix: u64) -> bool {
    id.changed.secs.saturating_add(1) >= i64::try_from(asked_unix).unwrap_or(i64::MAX)
}

/// The siblings that are worth sending: none is larger than the file itself.
pub(crate) fn worthwhile<F: File>(file: &F, siblings: [Option<F>; 3]) -> [Option<F>; 3] {
    siblings.map(|sibling| sibling.filter(|sibling| sibling.id().len <= file.id().len))
}

/// What the heads of all codings of a file have in common.
struct Facts<'a> {
    content_type: Box<str>,
    cache_control: &'a str,
    varies: bool,
    nosniff: bool,
    asked_unix: u64,
}

impl<F: File> Coded<F> {
    fn new(file: F, coding: Option<Coding>, facts: &Facts<'_>, now: Now) -> Self {
        let id = file.id();
        // RFC 9110 §8.8.2.1: no later than the response's own date.
        let today = i64::try_from(now.unix).unwrap_or(i64::MAX);
        let modified_secs = id.modified.secs.min(today);
        let etag = validator::etag(&id, coding, is_young(&id, facts.asked_unix));
        let mut coded = Self {
            id,
            coding,
            modified_secs,
            body: Body::File(file),
            etag,
            ok: Box::default(),
            type_at: 0,
            after_type_at: 0,
            not_modified: Box::default(),
        };
        coded.build_ok(facts, now);
        coded.build_not_modified(facts, now);
        if id.len == 0 {
            coded.body = Body::Memory(Whole::new(&coded.ok, &[]));
        }
        coded
    }

    /// The head of a 200 on a connection that HTTP/1.1 keeps: its date is 29 bytes at
    /// [`OK_DATE_AT`], its length comes before its type, and all that a 206 shares comes last.
    fn build_ok(&mut self, facts: &Facts<'_>, now: Now) {
        let mut out = Vec::with_capacity(320);
        start_head(&mut out, Status::OK, now);
        write_decimal_field(&mut out, "Content-Length", self.id.len);
        self.type_at = offset(&out);
        write_field(&mut out, "Content-Type", facts.content_type.as_bytes());
        self.after_type_at = offset(&out);
        if let Some(coding) = self.coding {
            write_field(&mut out, "Content-Encoding", coding.name().as_bytes());
        }
        write_field(&mut out, "ETag", &self.etag);
        write_date_field(&mut out, "Last-Modified", self.modified_secs);
        write_field(&mut out, "Accept-Ranges", b"bytes");
        self.write_caching(&mut out, facts);
        if facts.nosniff {
            write_field(&mut out, "X-Content-Type-Options", b"nosniff");
        }
        end_head(&mut out);
        self.ok = out.into_boxed_slice();
    }

    /// The head of a 304: the fields of RFC 9110 §15.4.5 and no others.
    fn build_not_modified(&mut self, facts: &Facts<'_>, now: Now) {
        let mut out = Vec::with_capacity(192);
        start_head(&mut out, Status::NOT_MODIFIED, now);
        write_field(&mut out, "ETag", &self.etag);
        self.write_caching(&mut out, facts);
        end_head(&mut out);
        self.not_modified = out.into_boxed_slice();
    }

    fn write_caching(&self, out: &mut Vec<u8>, facts: &Facts<'_>) {
        if !facts.cache_control.is_empty() {
            write_field(out, "Cache-Control", facts.cache_control.as_bytes());
        }
        if facts.varies {
            write_field(out, "Vary", b"Accept-Encoding");
        }
    }
}

/// Tag, head of a 200 with two places in it, head of a 304.
pub(crate) type Parts<'a> = (&'a [u8], &'a [u8], u16, u16, &'a [u8]);

impl<F> Coded<F> {
    pub(crate) fn parts(&self) -> Parts<'_> {
        (&self.etag, &self.ok, self.type_at, self.after_type_at, &self.not_modified)
    }

    pub(crate) fn assemble(
        id: FileId,
        coding: Option<Coding>,
        modified_secs: i64,
        body: Body<F>,
        (etag, ok, type_at, after_type_at, not_modified): Parts<'_>,
    ) -> Self {
        Self {
            id,
            coding,
            modified_secs,
            body,
            etag: etag.into(),
            ok: ok.into(),
            type_at,
            after_type_at,
            not_modified: not_modified.into(),
        }
    }

    /// Bytes of the body.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length, not a collection")]
    pub const fn len(&self) -> u64 {
        self.id.len
    }

    /// Its entity tag as it stands in `ETag`: strong, unless the file was young.
    #[must_use]
    pub const fn etag_text(&self) -> &[u8] {
        &self.etag
    }

    /// Its entity tag, for comparisons.
    #[must_use]
    pub fn etag(&self) -> EntityTag<'_> {
        let (weak, quoted) = match &*self.etag {
            [b'W', b'/', quoted @ ..] => (true, quoted),
            quoted => (false, quoted),
        };
        EntityTag { weak, opaque: &quoted[1..quoted.len() - 1] }
    }

    /// The head of a 200, with a date at [`OK_DATE_AT`] that must be replaced.
    pub(crate) const fn ok(&self) -> &[u8] {
        &self.ok
    }

    /// The head of a 304, with a date at [`NOT_MODIFIED_DATE_AT`] that must be replaced.
    pub(crate) const fn not_modified(&self) -> &[u8] {
        &self.not_modified
    }

    /// The fields from `Content-Type` to the end of the head.
    pub(crate) fn fields(&self) -> &[u8] {
        &self.ok[usize::from(self.type_at)..]
    }

    /// The `Content-Type` line.
    pub(crate) fn type_line(&self) -> &[u8] {
        &self.ok[usize::from(self.type_at)..usize::from(self.after_type_at)]
    }

    /// The fields after `Content-Type`, to the end of the head.
    pub(crate) fn fields_after_type(&self) -> &[u8] {
        &self.ok[usize::from(self.after_type_at)..]
    }
}

/// Writes what every head starts with: status line, `Date`, `Server`.
pub(crate) fn start_head(out: &mut Vec<u8>, status: Status, now: Now) {
    write_status_line(out, status);
    write_date_field(out, "Date", i64::try_from(now.unix).unwrap_or(i64::MAX));
    write_field(out, "Server", b"regatta");
}

fn offset(head: &[u8]) -> u16 {
    u16::try_from(head.len()).expect("a head's fields before its type are short")
}
