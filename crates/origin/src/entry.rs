//! Facts of a file, computed before a request comes, together with prebuilt heads of protocols.
pub(crate) mod heads;

use self::heads::{Heads, Whole};
use crate::{
    Digest, ErrorPage, Forms, ListingFormat, Site, auth, content,
    derive::{forbids, is_compressible, is_digested},
    fields::Amendment,
    listing, validator,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use once_cell::race::OnceBox;
use regatta_http::{
    Status,
    date::DATE_BYTES,
    etag::EntityTag,
    h1::{write_decimal_field, write_field},
    pattern::Names,
    range::ByteRange,
};
use regatta_op::{Coding, Codings, File, FileId, Now, Segment};

/// A regular file in all its content codings.
///
/// Size, time, tag and body of each coding come from one descriptor. A file that changed gets
/// another representation. Within one, only the place of a body changes, and what protocols store
/// together with the facts.
#[derive(Clone, Debug)]
pub struct Representation<F> {
    identity: Coded<F>,
    siblings: [Option<Box<Coded<F>>>; 3],
    facts: Facts,
    /// State of the forms that the server makes of it.
    made: Made,
    /// True if a file changed so shortly before the open that a second change may not show.
    young: bool,
    /// The second in which [`Self::redate`] was called last.
    redated: u64,
}

/// State of the forms that the server makes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// No forms are made: the file has siblings on disk, or is not compressed.
    Never,
    /// No forms are there yet.
    Lacking,
    /// The siblings are such forms; those that are not smaller than the file are absent.
    Done,
}

/// A content coding of a file, or the file unchanged.
#[derive(Clone, Debug)]
pub struct Coded<F> {
    /// Identity of the file; its length is that of the body.
    pub id: FileId,
    /// The coding; `None` for the file as it is.
    pub coding: Option<Coding>,
    /// Time of the last change, seconds since 1970: never after the time when the file was opened.
    pub modified_secs: i64,
    /// The body.
    pub body: Body<F>,
    etag: Box<[u8]>,
    /// Whether the tag will be that of the content, once its digest is known.
    awaits_digest: bool,
    /// Heads of HTTP/1, built for the first response with this coding; within them is the field
    /// block of HTTP/2.
    heads: OnceBox<Heads>,
}

/// Facts that all codings of a file share.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The value of `Content-Type`.
    pub(crate) content_type: Box<str>,
    /// The value of `Content-Encoding` of the file itself; empty for none.
    pub(crate) coded_as: Box<str>,
    /// The value of `Cache-Control`; empty for none.
    pub(crate) cache_control: Box<str>,
    /// True if the response depends on `Accept-Encoding`.
    pub(crate) varies: bool,
    /// True if `X-Content-Type-Options: nosniff` is sent.
    pub(crate) nosniff: bool,
    /// Field lines of the owner's rules, and `Strict-Transport-Security`; those that a 304 has as
    /// well come first.
    pub(crate) fields: Box<[u8]>,
    /// Number of these bytes that a 304 has as well.
    pub(crate) revalidated: usize,
    /// The value of `Server`, if it is configured.
    pub(crate) server_name: Option<Box<str>>,
}

impl Facts {
    /// The facts of the file of this name: those from the name, amended by the owner's rules.
    pub(crate) fn new(name: &[u8], varies: bool, site: &Site) -> Self {
        let private = site.rules.auth(name).is_some();
        let Amendment {
            content_type,
            content_encoding,
            cache_control,
            sniffing,
            mut fields,
            revalidated,
        } = site.rules.amend(content::names(name, site), private);
        let (inner, coding) = match content_encoding {
            Some(_) => (name, None),
            None => content::uncoded(name, site),
        };
        if let Some(rules) = site.transport {
            rules.write_hsts(&mut fields);
        }
        let caching = cache_control.unwrap_or_else(|| content::cache_control(inner, site));
        Self {
            content_type: match content_type {
                Some(ruled) => ruled.into(),
                None => content::content_type(inner, site),
            },
            coded_as: content_encoding.or(coding.map(Coding::name)).unwrap_or_default().into(),
            cache_control: if private { auth::private(caching) } else { caching.into() },
            varies,
            nosniff: site.content.nosniff && !sniffing,
            fields: fields.into_boxed_slice(),
            revalidated,
            server_name: site.server_name.clone(),
        }
    }

    /// The facts of the listing of a folder. Rules that match its path may change its caching and
    /// add fields.
    fn of_listing(folder: &[u8], format: ListingFormat, site: &Site) -> Self {
        let private = site.rules.auth(folder).is_some();
        let names = Names { path: folder, ..Names::default() };
        let ruled = site.rules.amend(names, private);
        let mut fields = Vec::new();
        write_field(&mut fields, "Vary", b"Accept");
        let revalidated = fields.len() + ruled.revalidated;
        fields.extend_from_slice(&ruled.fields);
        if !fields.split(|byte| *byte == b'\n').any(listing::is_policy) {
            write_field(&mut fields, "Content-Security-Policy", listing::POLICY.as_bytes());
        }
        if let Some(rules) = site.transport {
            rules.write_hsts(&mut fields);
        }
        let caching = ruled.cache_control.unwrap_or("no-cache");
        Self {
            content_type: format.content_type().into(),
            coded_as: Box::default(),
            cache_control: if private { auth::private(caching) } else { caching.into() },
            varies: false,
            nosniff: !ruled.sniffing,
            fields: fields.into_boxed_slice(),
            revalidated,
            server_name: site.server_name.clone(),
        }
    }

    /// Bytes of all texts.
    pub(crate) fn bytes(&self) -> usize {
        let Self { content_type, coded_as, fields, .. } = self;
        let revalidated = self.revalidated_bytes() - self.revalidated;
        revalidated + content_type.len() + coded_as.len() + fields.len()
    }

    /// Bytes of the texts that a 304 has as well.
    pub(crate) fn revalidated_bytes(&self) -> usize {
        let named = self.server_name.as_ref().map_or(0, |name| name.len());
        named + self.cache_control.len() + self.revalidated
    }
}

impl ErrorPage {
    /// Makes the page for an error status from the file of this name. It has the fields that rules
    /// give the file, except those that a 304 repeats, such as those on caching.
    #[must_use]
    pub fn new(status: Status, name: &[u8], body: &[u8], site: &Site) -> Self {
        let facts = Facts::new(name, false, site);
        let mut fields = Vec::new();
        write_decimal_field(&mut fields, "Content-Length", body.len() as u64);
        write_field(&mut fields, "Content-Type", facts.content_type.as_bytes());
        if !facts.coded_as.is_empty() {
            write_field(&mut fields, "Content-Encoding", facts.coded_as.as_bytes());
        }
        if facts.nosniff {
            write_field(&mut fields, "X-Content-Type-Options", b"nosniff");
        }
        fields.extend_from_slice(&facts.fields[facts.revalidated..]);
        Self { status, fields: fields.into_boxed_slice(), body: body.into() }
    }
}

/// Place of a body.
#[derive(Clone, Debug)]
pub enum Body<F> {
    /// In memory; no descriptor is held.
    Memory(Whole),
    /// In an open file.
    File(F),
}

impl<F: File> Representation<F> {
    /// Everything about the file at `path`, just opened, and its siblings. The open was requested
    /// in the second `asked_unix`: the facts may be as old as that.
    #[must_use]
    pub fn new(
        path: &[u8],
        file: F,
        siblings: [Option<F>; 3],
        site: &Site,
        now: Now,
        asked_unix: u64,
    ) -> Self {
        let has_siblings = siblings.iter().any(Option::is_some);
        let mut facts = Facts::new(path, has_siblings, site);
        let made = match !has_siblings
            && is_compressible(path, file.id().len, site)
            && facts.coded_as.is_empty()
            && !forbids(&facts.cache_control)
        {
            true => Made::Lacking,
            false => Made::Never,
        };
        // From the first response on, so that no cache sends one form to all.
        facts.varies |= made == Made::Lacking;
        let mut codings = Coding::ALL.into_iter();
        let siblings = siblings.map(|sibling| {
            let coding = codings.next();
            sibling.map(|file| Box::new(Coded::new(file, coding, site, asked_unix, now)))
        });
        let identity = Coded::new(file, None, site, asked_unix, now);
        let mut all = Self { identity, siblings, facts, made, young: false, redated: 0 };
        let young = all.all().any(|coded| is_young(&coded.id, asked_unix));
        all.young = young;
        all
    }

    /// A listing of the folder at this path. It has no file: the body is in memory.
    pub(crate) fn of_listing(
        folder: &[u8],
        format: ListingFormat,
        body: Arc<[u8]>,
        site: &Site,
    ) -> Self {
        let facts = Facts::of_listing(folder, format, site);
        let id = FileId { len: body.len() as u64, ..FileId::default() };
        let etag = validator::etag_of_bytes(&body);
        // No time: the tag alone says whether it has changed.
        let identity = Coded::assemble(id, None, 0, Body::Memory(Whole::new(body)), etag);
        let siblings = [None, None, None];
        Self { identity, siblings, facts, made: Made::Never, young: false, redated: 0 }
    }

    /// True if compressed forms would be sent, and it has none yet. False while it is young: its
    /// bytes might change without its facts.
    pub(crate) fn lacks_forms(&self) -> bool {
        self.made == Made::Lacking && !self.young
    }

    /// True if it is compressed at its first use, or has been.
    pub(crate) fn is_compressed_at_use(&self) -> bool {
        self.made != Made::Never
    }

    /// Adds forms that were made of the bytes of the file that has these facts.
    pub(crate) fn add_forms(&mut self, forms: Forms) {
        for (coding, bytes) in Coding::ALL.into_iter().zip(forms) {
            let Some(bytes) = bytes else { continue };
            let Coded { id, modified_secs, .. } = self.identity;
            let etag = validator::etag_of_form(&self.identity.etag, coding);
            let id = FileId { len: bytes.len() as u64, ..id };
            let body = Body::Memory(Whole::new(bytes));
            let coded = Coded::assemble(id, Some(coding), modified_secs, body, etag);
            self.siblings[coding as usize] = Some(Box::new(coded));
        }
        self.made = Made::Done;
    }

    /// True if a coding on disk will have the tag of its content, and has another yet. False while
    /// the file is young: its bytes might change without its facts.
    pub(crate) fn lacks_digest(&self, coding: Option<Coding>) -> bool {
        !self.young && self.coded(coding).is_some_and(|coded| coded.awaits_digest)
    }

    /// Gives a coding the tag of its content. Forms that were made of it get theirs.
    pub(crate) fn add_digest(&mut self, coding: Option<Coding>, digest: &Digest) {
        let tag = validator::etag_of_content(digest, coding);
        if let Some(coding) = coding {
            if let Some(coded) = &mut self.siblings[coding as usize] {
                coded.retag(tag);
            }
            return;
        }
        self.identity.retag(tag);
        let forms = self.siblings.iter_mut().filter(|_| self.made == Made::Done).flatten();
        for (form, coding) in forms.filter_map(|form| form.coding.map(|coding| (form, coding))) {
            form.retag(validator::etag_of_form(&self.identity.etag, coding));
        }
    }

    /// True if its siblings are forms that the server made.
    #[inline]
    pub(crate) fn has_forms(&self) -> bool {
        self.made == Made::Done
    }

    /// The sibling on disk in a coding, if it had one.
    pub(crate) fn on_disk(&self, coding: Option<Coding>) -> Option<&Coded<F>> {
        self.coded(coding).filter(|coded| coded.coding.is_none() || !self.has_forms())
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
        &self.facts.content_type
    }

    pub(crate) const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// True if these are the same files with the same content, as far as their facts show it. False
    /// for files that were young when they were opened.
    #[must_use]
    pub fn is_same(&self, file: &F, siblings: &[Option<F>; 3]) -> bool {
        let same = |coded: Option<&Coded<F>>, file: Option<&F>| {
            coded.map(|coded| coded.id) == file.map(File::id)
        };
        !self.young
            && same(Some(&self.identity), Some(file))
            && Coding::ALL
                .into_iter()
                .zip(siblings)
                .all(|(coding, file)| same(self.on_disk(Some(coding)), file.as_ref()))
    }

    /// True if these have the same facts of the same files, wherever their bodies are.
    pub(crate) fn tells_of(&self, other: &Self) -> bool {
        let ids = |file: &Self| {
            [None, Some(Coding::Brotli), Some(Coding::Zstd), Some(Coding::Gzip)]
                .map(|coding| file.on_disk(coding).map(|coded| coded.id))
        };
        self.young == other.young && ids(self) == ids(other)
    }

    /// Puts the body of one coding into memory and closes its descriptor.
    ///
    /// # Panics
    /// If it is not as long as it should be: a short read is not a body.
    pub(crate) fn fill(&mut self, coding: Option<Coding>, bytes: &[u8]) {
        let coded = match coding {
            None => Some(&mut self.identity),
            Some(coding) => self.siblings[coding as usize].as_deref_mut(),
        };
        let coded = coded.expect("only a coding that exists is filled");
        assert_eq!(bytes.len() as u64, coded.id.len, "a body is as long as its file");
        coded.body = Body::Memory(Whole::new(bytes.into()));
    }

    /// The second in which [`Self::redate`] was called last.
    #[inline]
    pub(crate) const fn redated(&self) -> u64 {
        self.redated
    }

    /// Updates the date in HTTP/1's prebuilt heads: `date` is that of `unix`. Responses that are
    /// being sent keep the old date.
    #[cold]
    pub(crate) fn redate(file: &mut Arc<Self>, unix: u64, date: &[u8; DATE_BYTES]) {
        if let Some(Self { identity, siblings, facts, redated, .. }) = Arc::get_mut(file) {
            *redated = unix;
            for coded in siblings.iter_mut().filter_map(Option::as_deref_mut).chain([identity]) {
                if matches!(coded.body, Body::Memory(_)) {
                    coded.heads(facts);
                }
                if let (Body::Memory(whole), Some(heads)) = (&mut coded.body, coded.heads.get()) {
                    whole.redate(heads, unix, date);
                }
            }
        }
    }

    /// Descriptors held.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.all().filter(|coded| matches!(coded.body, Body::File(_))).count()
    }

    /// Bytes of bodies and facts, with room for prebuilt heads and field blocks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of = |coded: &Coded<F>| {
            let body = match &coded.body {
                Body::Memory(whole) => Some(whole.body().len()),
                Body::File(_) => None,
            };
            size_of::<Coded<F>>() + coded.etag.len() + heads::room(&self.facts, body)
        };
        self.all().map(of).sum::<usize>() + self.facts.bytes()
    }

    /// A representation from its parts, for [`crate::pack`].
    pub(crate) fn assemble(
        identity: Coded<F>,
        siblings: [Option<Box<Coded<F>>>; 3],
        facts: Facts,
        young: bool,
    ) -> Self {
        // A cache of several processes has no forms.
        Self { identity, siblings, facts, made: Made::Never, young, redated: 0 }
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

/// True if a file had changed less than one to two seconds before the open was requested.
///
/// Most kernels (Linux before 6.13) keep file times in ticks of up to 10 ms. A file may be written,
/// opened by us, and written again with the same length within one tick. Its facts are then the
/// same as before: it is racy in the sense of git's index. A second is more than any tick. Every
/// write sets the change time, which cannot be set back.
fn is_young(id: &FileId, asked_unix: u64) -> bool {
    id.changed.secs.saturating_add(1) >= i64::try_from(asked_unix).unwrap_or(i64::MAX)
}

/// The siblings worth sending: none is larger than the file itself, and none is empty, because no
/// coding has an empty result.
pub(crate) fn worthwhile<F: File>(file: &F, siblings: [Option<F>; 3]) -> [Option<F>; 3] {
    let worth = |sibling: &F| (1..=file.id().len).contains(&sibling.id().len);
    siblings.map(|sibling| sibling.filter(worth))
}

impl<F: File> Coded<F> {
    fn new(file: F, coding: Option<Coding>, site: &Site, asked_unix: u64, now: Now) -> Self {
        let id = file.id();
        // RFC 9110 §8.8.2.1: no later than the response's own date.
        let today = i64::try_from(now.unix).unwrap_or(i64::MAX);
        let modified_secs = id.modified.secs.min(today);
        let young = is_young(&id, asked_unix);
        let etag = validator::etag(&id, coding, young, site.content.etag);
        let body = match id.len {
            0 => Body::Memory(Whole::new(Arc::default())),
            _ => Body::File(file),
        };
        let awaits_digest = is_digested(id.len, site);
        Self { awaits_digest, ..Self::assemble(id, coding, modified_secs, body, etag) }
    }

    /// Replaces the tag by that of the content. Prebuilt heads have the old one.
    fn retag(&mut self, etag: Box<[u8]>) {
        (self.etag, self.awaits_digest, self.heads) = (etag, false, OnceBox::new());
        if let Body::Memory(whole) = &mut self.body {
            *whole = Whole::new(whole.body().into());
        }
    }

    /// All of the body.
    pub(crate) fn segment(&self) -> Segment<F> {
        match &self.body {
            Body::Memory(whole) => whole.body_segment(),
            Body::File(file) => Segment::File { file: file.clone(), at: 0, len: self.len() },
        }
    }

    /// A range of the body, without a copy of bytes in memory.
    pub(crate) fn range_segment(&self, range: &ByteRange) -> Segment<F> {
        match &self.body {
            Body::Memory(whole) => whole.range_segment(range),
            Body::File(file) => {
                Segment::File { file: file.clone(), at: range.first, len: range.len() }
            }
        }
    }
}

impl<F> Coded<F> {
    pub(crate) fn assemble(
        id: FileId,
        coding: Option<Coding>,
        modified_secs: i64,
        body: Body<F>,
        etag: Box<[u8]>,
    ) -> Self {
        let (awaits_digest, heads) = (false, OnceBox::new());
        Self { id, coding, modified_secs, body, etag, awaits_digest, heads }
    }

    /// The heads of HTTP/1, built when they are first used.
    #[inline]
    pub(crate) fn heads(&self, facts: &Facts) -> &Heads {
        self.heads.get_or_init(|| Box::new(Heads::new(self, facts)))
    }

    /// The field block of a 200 over HTTP/2, built when it is first used. Its date is 29 bytes at
    /// [`heads::BLOCK_DATE_AT`], which must be replaced in a copy.
    #[inline]
    pub(crate) fn block(&self, facts: &Facts) -> &[u8] {
        self.heads(facts).block()
    }

    /// `Last-Modified`, seconds since 1970; `None` if the time of the file is meaningless.
    #[must_use]
    pub fn last_modified(&self) -> Option<i64> {
        Some(self.modified_secs).filter(|secs| !validator::is_meaningless(*secs))
    }

    /// Bytes of the body.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length, not a collection")]
    pub const fn len(&self) -> u64 {
        self.id.len
    }

    /// The value of `ETag`: a strong tag, unless the file was young.
    #[must_use]
    pub const fn etag_text(&self) -> &[u8] {
        &self.etag
    }

    /// Whether the tag will be that of the content, once its digest is known.
    pub(crate) const fn awaits_digest(&self) -> bool {
        self.awaits_digest
    }

    /// The entity tag, for comparisons.
    #[must_use]
    pub fn etag(&self) -> EntityTag<'_> {
        let (weak, quoted) = match &*self.etag {
            [b'W', b'/', quoted @ ..] => (true, quoted),
            quoted => (false, quoted),
        };
        EntityTag { weak, opaque: &quoted[1..quoted.len() - 1] }
    }
}
