//! Expected replies: heads, and contents that are compared as they arrive, piece by piece.
//!
//! Heads are parsed by the `http` crate once, and then known again by their bytes. A static server
//! says the same for the same target, but for the date. Comparing costs less than parsing, and what
//! is equal to what was accepted is as acceptable.

use super::fate::Fate;
use crate::number::index;
use crate::workload::content::{Content, version_of};
use crate::workload::model::PAGE_BYTES;
use regatta_http::Method;
use regatta_http::date::DATE_BYTES;
use regatta_http::h1::{ResponseBody, Scan, parse_response, scan_head};
use regatta_sys::clock;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;
use std::{fs, io};

/// Expected content of a target.
#[derive(Debug)]
pub(super) enum Expect {
    /// Not known.
    Unknown,
    /// Generated from the path.
    Generated(Content),
    /// Generated from the path and the version in the first line; `highest` is the highest version
    /// seen. A file rewritten `in_place` reaches readers in pages of several versions, whatever the
    /// server does.
    Altered { path: String, in_place: bool, highest: AtomicU64, written: Arc<OnceLock<Written>> },
    /// Only its SHA-256 is known.
    Hash([u8; 32]),
    /// Copies of a file.
    File(Box<Local>),
}

/// Clock of the versions that this load writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// The first version, and its time on the monotonic clock.
    pub(super) first: u64,
    pub(super) started_ns: u64,
    pub(super) period_ns: u64,
    pub(super) stale_after_ns: u64,
}

impl Written {
    /// The version that no reply to a request sent now may be older than; 0 when any will do.
    fn floor(&self, now_ns: u64) -> u64 {
        let passed = now_ns.checked_sub(self.started_ns.saturating_add(self.stale_after_ns));
        passed.map_or(0, |ns| self.first.saturating_add(ns / self.period_ns.max(1)))
    }
}

/// A file whose bytes replies should have. It may change: the copy before is kept.
#[derive(Debug)]
pub(super) struct Local {
    path: PathBuf,
    copies: RwLock<Copies>,
    siblings: [Option<Box<Local>>; CODINGS.len()],
}

/// Contents of a file, now and before.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    now: Arc<Copy>,
    before: Option<Arc<Copy>>,
    /// Time at which `now` was first seen, on the monotonic clock.
    since_ns: u64,
}

#[derive(Debug, PartialEq)]
struct Copy {
    modified: Option<SystemTime>,
    bytes: Box<[u8]>,
}

/// Longest altered content: it is held until its end, since its version may come late.
const ALTERED_BYTES_MAX: usize = 16 << 20;

/// Distance of versions within which pages of one reply are looked for: a read may wait.
const TORN_VERSIONS_MAX: u64 = 256;

impl Local {
    pub(super) fn load(path: &Path) -> io::Result<Self> {
        let copies = Copies { now: Arc::new(Copy::load(path)?), before: None, since_ns: 0 };
        let siblings = [const { None }; CODINGS.len()];
        Ok(Self { path: path.to_owned(), copies: RwLock::new(copies), siblings })
    }

    /// Loads the siblings for replies with a content coding.
    pub(super) fn load_siblings(&mut self) -> io::Result<()> {
        for (place, (_, suffix)) in self.siblings.iter_mut().zip(CODINGS) {
            let mut path = self.path.as_os_str().to_owned();
            path.push(suffix);
            match Self::load(Path::new(&path)) {
                Ok(sibling) => *place = Some(Box::new(sibling)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // The server takes a directory of this name for no sibling.
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.siblings.iter().flatten().map(|sibling| &**sibling))
    }

    /// The file whose bytes a reply in this coding has, if it is known.
    pub(super) fn coded(&self, coded: Coded) -> Option<&Self> {
        match coded {
            Coded::No => Some(self),
            Coded::By(place) => self.siblings[place].as_deref(),
            Coded::Otherwise => None,
        }
    }

    fn copies(&self) -> Copies {
        // No thread panics while writing, and a half-written value could not exist anyway.
        self.copies.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the file again if it has changed. A file that is gone or half-written keeps its copy.
    pub(super) fn refresh(&self) -> bool {
        let copies = self.copies();
        let modified = fs::metadata(&self.path).and_then(|meta| meta.modified()).ok();
        if modified.is_none() || modified == copies.now.modified {
            return false;
        }
        let Ok(copy) = Copy::load(&self.path) else { return false };
        let next =
            Copies { now: Arc::new(copy), before: Some(copies.now), since_ns: clock::nanos() };
        *self.copies.write().unwrap_or_else(PoisonError::into_inner) = next;
        true
    }

    pub(super) fn len(&self) -> u64 {
        self.copies().now.bytes.len() as u64
    }
}

impl Copy {
    fn load(path: &Path) -> io::Result<Self> {
        // The time first: a change in between shows as another time later.
        let modified = fs::metadata(path)?.modified().ok();
        Ok(Self { modified, bytes: fs::read(path)?.into() })
    }
}

#[derive(Debug, Default)]
pub(super) enum Check {
    /// Nothing is compared.
    #[default]
    None,
    /// Against generated contents.
    Generated { offset: u64, wrong: bool },
    /// By its SHA-256 until here.
    Hash(Sha256),
    /// Held until the end; `floor` is the version that it must not be older than.
    Altered { held: Vec<u8>, floor: u64, long: bool },
    /// Against copies of a file.
    File { coded: Coded, copies: Copies, offset: usize, now: bool, before: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Right,
    Wrong(Fate),
    /// The file changed meanwhile, so that nothing can be said.
    Changed,
    Nothing,
}

impl Expect {
    /// Version that no reply to a request sent now may be older than.
    pub(super) fn floor(&self, now_ns: u64) -> u64 {
        match self {
            Self::Altered { highest, written, .. } => {
                let seen = highest.load(Ordering::Relaxed);
                written.get().map_or(seen, |written| seen.max(written.floor(now_ns)))
            }
            _ => 0,
        }
    }

    /// A comparison for a reply in this coding to a request that was sent at that floor. A reply in
    /// a coding can be compared with the sibling of a file alone.
    pub(super) fn check(&self, floor: u64, coded: Coded) -> Check {
        match self {
            Self::Unknown => Check::None,
            Self::File(local) => match local.coded(coded) {
                Some(local) => {
                    let copies = local.copies();
                    let before = copies.before.is_some();
                    Check::File { coded, copies, offset: 0, now: true, before }
                }
                None => Check::None,
            },
            _ if coded != Coded::No => Check::None,
            Self::Generated(_) => Check::Generated { offset: 0, wrong: false },
            Self::Hash(_) => Check::Hash(Sha256::new()),
            Self::Altered { .. } => Check::Altered { held: Vec::new(), floor, long: false },
        }
    }

    #[inline]
    pub(super) fn feed(&self, check: &mut Check, bytes: &[u8]) {
        match (self, check) {
            (Self::Generated(content), Check::Generated { offset, wrong }) => {
                *wrong |= content.check(*offset, bytes).is_err();
                *offset += bytes.len() as u64;
            }
            (_, Check::Hash(hash)) => hash.update(bytes),
            (_, Check::Altered { held, long, .. }) => {
                *long |= held.len() + bytes.len() > ALTERED_BYTES_MAX;
                if !*long {
                    held.extend_from_slice(bytes);
                }
            }
            (_, Check::File { copies, offset, now, before, .. }) => {
                let same = |copy: &Copy| {
                    copy.bytes.get(*offset..*offset + bytes.len()).is_some_and(|own| own == bytes)
                };
                *now = *now && same(&copies.now);
                *before = *before && copies.before.as_deref().is_some_and(same);
                *offset += bytes.len();
            }
            _ => {}
        }
    }

    /// The verdict at the content's end, for a request that was sent at `sent_ns`.
    pub(super) fn end(&self, check: &Check, sent_ns: u64, stale_after_ns: u64) -> Comparison {
        match (self, check) {
            (Self::Generated(_), Check::Generated { wrong: false, .. }) => Comparison::Right,
            (Self::Generated(_), Check::Generated { wrong: true, .. }) => {
                Comparison::Wrong(Fate::WrongBytes)
            }
            (Self::Hash(expected), Check::Hash(hash)) => {
                let same = hash.clone().finalize()[..] == expected[..];
                if same { Comparison::Right } else { Comparison::Wrong(Fate::WrongBytes) }
            }
            (
                Self::Altered { path, in_place, highest, .. },
                Check::Altered { held, floor, long: false },
            ) => {
                let Some(version) = version_of(path, held) else {
                    return Comparison::Wrong(Fate::WrongBytes);
                };
                if Content::at_version(path, version).check(0, held).is_err() {
                    let torn = *in_place && is_torn(path, held, version, *floor);
                    return if torn {
                        Comparison::Changed
                    } else {
                        Comparison::Wrong(Fate::WrongBytes)
                    };
                }
                highest.fetch_max(version, Ordering::Relaxed);
                if version < *floor { Comparison::Wrong(Fate::Stale) } else { Comparison::Right }
            }
            (Self::File(local), Check::File { coded, copies, offset, now, before }) => {
                let whole = |copy: &Copy| copy.bytes.len() == *offset;
                if *now && whole(&copies.now) {
                    return Comparison::Right;
                }
                if *before && copies.before.as_deref().is_some_and(whole) {
                    let late = sent_ns > copies.since_ns.saturating_add(stale_after_ns);
                    return if late { Comparison::Wrong(Fate::Stale) } else { Comparison::Right };
                }
                let Some(local) = local.coded(*coded) else { return Comparison::Nothing };
                let changed = local.refresh() || local.copies().now != copies.now;
                if changed { Comparison::Changed } else { Comparison::Wrong(Fate::WrongBytes) }
            }
            _ => Comparison::Nothing,
        }
    }
}

/// True if each page of `held` is one of some version from `floor` on, as of a read while the file
/// was rewritten in place.
fn is_torn(path: &str, held: &[u8], version: u64, floor: u64) -> bool {
    let first = floor.max(version.saturating_sub(TORN_VERSIONS_MAX));
    let all = first..=version.saturating_add(TORN_VERSIONS_MAX);
    held.chunks(index(PAGE_BYTES)).zip(0..).all(|(page, number)| {
        let offset = number * PAGE_BYTES;
        all.clone().any(|version| Content::at_version(path, version).check(offset, page).is_ok())
    })
}

pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;

/// Content codings whose siblings a directory may have: the name of each, and its suffix.
pub(super) const CODINGS: [(&str, &str); 3] = [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Coded {
    /// None: the content is the file's.
    #[default]
    No,
    /// The coding at this place of [`CODINGS`].
    By(usize),
    /// Another one, or several.
    Otherwise,
}

impl Coded {
    fn read(fields: &regatta_http::Fields<'_>) -> Self {
        fields.get("content-encoding").map_or(Self::No, Self::of)
    }

    /// The coding that a Content-Encoding names.
    pub(super) fn of(value: &[u8]) -> Self {
        let value = value.trim_ascii();
        if value.eq_ignore_ascii_case(b"identity") {
            return Self::No;
        }
        let is_it = |(name, _): &(&str, &str)| value.eq_ignore_ascii_case(name.as_bytes());
        CODINGS.iter().position(is_it).map_or(Self::Otherwise, Self::By)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) body: ResponseBody,
    pub(super) keep: bool,
    /// Content-Length as stated, when the content itself does not come (HEAD).
    pub(super) stated: Option<u64>,
    pub(super) coded: Coded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Partial,
    /// The head and its length.
    Whole(Head, usize),
    Bad,
}

/// The last head that a target had.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    bytes: Vec<u8>,
    /// Start of the date's value; the length if there is none.
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

/// Start of the first Date field's value, if that has its proper length.
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

/// Reads the head at the start of `bytes`; the first `seen` were there before. `known` learns what
/// comes whole.
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
    use crate::folder::Folder;

    fn verdict(expect: &Expect, pieces: &[&[u8]], floor: u64, sent_ns: u64) -> Comparison {
        let mut check = expect.check(floor, Coded::No);
        pieces.iter().for_each(|piece| expect.feed(&mut check, piece));
        expect.end(&check, sent_ns, 1_000)
    }

    #[test]
    fn generated_contents_are_compared_in_pieces() {
        let expect = Expect::Generated(Content::new("a/b"));
        let mut bytes = [0; 300];
        Content::new("a/b").fill(0, &mut bytes);
        assert_eq!(verdict(&expect, &[&bytes[..10], &bytes[10..]], 0, 0), Comparison::Right);
        let lie = verdict(&expect, &[&bytes[..10], &bytes[11..]], 0, 0);
        assert_eq!(lie, Comparison::Wrong(Fate::WrongBytes));
        assert_eq!(verdict(&Expect::Unknown, &[&bytes], 0, 0), Comparison::Nothing);
    }

    #[test]
    fn contents_are_known_by_their_hash() {
        let expect = Expect::Hash(Sha256::digest("hello").into());
        assert_eq!(verdict(&expect, &[b"hel", b"lo"], 0, 0), Comparison::Right);
        for wrong in [&b"hello "[..], b"hell", b""] {
            assert_eq!(verdict(&expect, &[wrong], 0, 0), Comparison::Wrong(Fate::WrongBytes));
        }
    }

    /// The first bytes of a version of the file `x`.
    fn version<const BYTES: usize>(version: u64) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        Content::at_version("x", version).fill(0, &mut bytes);
        bytes
    }

    #[test]
    fn versions_may_not_go_back() {
        let (path, written) = ("x".to_owned(), Arc::<OnceLock<Written>>::default());
        let (in_place, highest) = (false, 0.into());
        let expect = Expect::Altered { path, in_place, highest, written: Arc::clone(&written) };
        let [three, five] = [3, 5].map(version::<200>);
        assert_eq!(verdict(&expect, &[&three], expect.floor(0), 0), Comparison::Right);
        assert_eq!(
            verdict(&expect, &[&five[..70], &five[70..]], expect.floor(0), 0),
            Comparison::Right
        );
        assert_eq!(verdict(&expect, &[&three], 4, 0), Comparison::Wrong(Fate::Stale));
        assert_eq!(expect.floor(0), 5);
        let torn = verdict(&expect, &[&five[..128], &three[128..]], 5, 0);
        assert_eq!(torn, Comparison::Wrong(Fate::WrongBytes));
        assert_eq!(verdict(&expect, &[b"hello"], 5, 0), Comparison::Wrong(Fate::WrongBytes));
        // The writer of the versions knows which is the oldest that may still arrive.
        let (first, started_ns, period_ns, stale_after_ns) = (3, 1_000, 10, 200);
        written.set(Written { first, started_ns, period_ns, stale_after_ns }).unwrap();
        assert_eq!([0, 1_199, 1_219, 1_230, 1_300].map(|now| expect.floor(now)), [5, 5, 5, 6, 13]);
    }

    /// A read during a write in place gets pages of several versions: nothing can be said then.
    #[test]
    fn replies_of_a_file_rewritten_in_place_may_be_torn_between_pages() {
        let expect = |in_place| {
            let (path, written) = ("x".to_owned(), Arc::default());
            Expect::Altered { path, in_place, highest: 0.into(), written }
        };
        let [three, five] = [3, 5].map(version::<10_240>);
        let told = |in_place, pieces: &[&[u8]], floor| verdict(&expect(in_place), pieces, floor, 0);
        let torn: &[&[u8]] = &[&five[..4_096], &three[4_096..]];
        assert_eq!(told(true, torn, 3), Comparison::Changed);
        assert_eq!(told(true, &[&three[..8_192], &five[8_192..]], 0), Comparison::Changed);
        let wrong = Comparison::Wrong(Fate::WrongBytes);
        assert_eq!(told(false, torn, 3), wrong, "a file that was renamed is whole");
        assert_eq!(told(true, torn, 4), wrong, "too old a page");
        assert_eq!(told(true, &[&five[..4_000], &three[4_000..]], 3), wrong, "within a page");
        assert_eq!(told(true, &[&five[..4_096], &five[..6_144]], 3), wrong, "another page");
    }

    #[test]
    fn coded_replies_are_compared_with_siblings() {
        let folder = Folder::new("coded");
        let path = folder.join("file");
        fs::write(&path, "one").unwrap();
        fs::write(folder.join("file.gz"), "coded").unwrap();
        let mut local = Local::load(&path).unwrap();
        local.load_siblings().unwrap();
        let expect = Expect::File(Box::new(local));
        let verdict = |coded, bytes: &[u8]| {
            let mut check = expect.check(0, coded);
            expect.feed(&mut check, bytes);
            expect.end(&check, 0, 1_000)
        };
        let wrong = Comparison::Wrong(Fate::WrongBytes);
        assert_eq!(verdict(Coded::By(2), b"coded"), Comparison::Right);
        assert_eq!(verdict(Coded::By(2), b"one"), wrong);
        assert_eq!(verdict(Coded::No, b"coded"), wrong);
        assert_eq!(verdict(Coded::By(0), b"?"), Comparison::Nothing);
        assert_eq!(verdict(Coded::Otherwise, b"?"), Comparison::Nothing);
    }

    #[test]
    fn files_may_change_and_old_bytes_are_stale_after_a_while() {
        let folder = Folder::new("local");
        let path = folder.join("file");
        fs::write(&path, "one").unwrap();
        let expect = Expect::File(Box::new(Local::load(&path).unwrap()));
        assert_eq!(verdict(&expect, &[b"on", b"e"], 0, 0), Comparison::Right);
        for short in ["", "on", "onee", "two"] {
            let found = verdict(&expect, &[short.as_bytes()], 0, 0);
            assert_eq!(found, Comparison::Wrong(Fate::WrongBytes), "{short}");
        }
        fs::write(&path, "three").unwrap();
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        // Not yet known to have changed: nothing can be said.
        assert_eq!(verdict(&expect, &[b"three"], 0, 0), Comparison::Changed);
        assert_eq!(verdict(&expect, &[b"three"], 0, 0), Comparison::Right);
        assert_eq!(verdict(&expect, &[b"one"], 0, 0), Comparison::Right, "in its time of grace");
        assert_eq!(verdict(&expect, &[b"one"], 0, u64::MAX), Comparison::Wrong(Fate::Stale));
    }
}

#[cfg(test)]
mod head_tests {
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
