//! A representation as bytes, for a cache that several processes share.
//!
//! Files are not in the bytes: the cache keeps them in its own way, and supplies them by place.
use crate::{
    entry::heads::Whole,
    entry::{Body, Coded, Facts, Representation},
};
use alloc::{boxed::Box, vec::Vec};
use regatta_op::{Coding, File, FileId, Modified};

/// Number of content codings that a representation can have: the file unchanged, and its siblings.
pub const CODINGS: usize = 4;

/// Places of the body of a packed coding.
const ABSENT: u8 = 0;
const IN_MEMORY: u8 = 1;
const IN_FILE: u8 = 2;

impl<F: File> Representation<F> {
    /// Appends this representation to `out`, and returns the files of its codings.
    pub fn pack(&self, out: &mut Vec<u8>) -> [Option<F>; CODINGS] {
        let Facts {
            content_type,
            coded_as,
            cache_control,
            varies,
            nosniff,
            fields,
            revalidated,
            server_name,
        } = self.facts();
        put_bytes(out, content_type.as_bytes());
        put_bytes(out, coded_as.as_bytes());
        put_bytes(out, cache_control.as_bytes());
        put_bytes(out, fields);
        put(out, *revalidated as u64);
        put_bytes(out, server_name.as_deref().unwrap_or_default().as_bytes());
        out.push(u8::from(server_name.is_some()));
        out.push(u8::from(*varies));
        out.push(u8::from(*nosniff));
        out.push(u8::from(self.young()));
        let mut files = [const { None }; CODINGS];
        for (coding, file) in codings().zip(&mut files) {
            match self.on_disk(coding) {
                None => out.push(ABSENT),
                Some(coded) => *file = coded.pack(out),
            }
        }
        files
    }

    /// The representation that [`Representation::pack`] wrote. `file` returns the file for a place
    /// and an identity. `None` if the bytes are not one, or a file is missing.
    pub fn unpack(
        mut bytes: &[u8],
        mut file: impl FnMut(usize, FileId) -> Option<F>,
    ) -> Option<Self> {
        let content_type = str::from_utf8(take_bytes(&mut bytes)?).ok()?.into();
        let coded_as = str::from_utf8(take_bytes(&mut bytes)?).ok()?.into();
        let cache_control = str::from_utf8(take_bytes(&mut bytes)?).ok()?.into();
        let fields: Box<[u8]> = take_bytes(&mut bytes)?.into();
        let revalidated = usize::try_from(take(&mut bytes)?).ok()?;
        if revalidated > fields.len() {
            return None;
        }
        let server_name = str::from_utf8(take_bytes(&mut bytes)?).ok()?;
        let server_name = (take_byte(&mut bytes)? != 0).then(|| server_name.into());
        let (varies, nosniff) = (take_byte(&mut bytes)? != 0, take_byte(&mut bytes)? != 0);
        let facts = Facts {
            content_type,
            coded_as,
            cache_control,
            varies,
            nosniff,
            fields,
            revalidated,
            server_name,
        };
        let young = take_byte(&mut bytes)? != 0;
        let mut all = [const { None }; CODINGS];
        for (at, (coding, place)) in codings().zip(&mut all).enumerate() {
            *place = Coded::unpack(&mut bytes, coding, |id| file(at, id))?;
        }
        let [identity, siblings @ ..] = all;
        let siblings = siblings.map(|coded| coded.map(Box::new));
        Some(Self::assemble(identity?, siblings, facts, young))
    }
}

impl<F: File> Coded<F> {
    fn pack(&self, out: &mut Vec<u8>) -> Option<F> {
        let (how, file) = match &self.body {
            Body::Memory(_) => (IN_MEMORY, None),
            Body::File(file) => (IN_FILE, Some(file.clone())),
        };
        out.push(how);
        let FileId { device, inode, len, modified, changed } = self.id;
        for word in [device, inode, len] {
            put(out, word);
        }
        for time in [modified, changed] {
            put(out, time.secs.cast_unsigned());
            put(out, u64::from(time.nanos));
        }
        put(out, self.modified_secs.cast_unsigned());
        put_bytes(out, self.etag_text());
        if let Body::Memory(whole) = &self.body {
            put_bytes(out, whole.body());
        }
        file
    }

    /// `Some(None)`: the coding is absent. The outer `None`: malformed bytes, or no file.
    #[expect(clippy::option_option, reason = "absent is not malformed")]
    fn unpack(
        from: &mut &[u8],
        coding: Option<Coding>,
        file: impl FnOnce(FileId) -> Option<F>,
    ) -> Option<Option<Self>> {
        let Some(packed) = Packed::take(from)? else { return Some(None) };
        let body = match packed.body {
            Some(body) => Body::Memory(Whole::new(body.into())),
            None => Body::File(file(packed.id)?),
        };
        let Packed { id, modified_secs, etag, .. } = packed;
        Some(Some(Self::assemble(id, coding, modified_secs, body, etag.into())))
    }
}

/// A packed coding.
struct Packed<'a> {
    id: FileId,
    modified_secs: i64,
    etag: &'a [u8],
    /// `None`: in a file.
    body: Option<&'a [u8]>,
}

impl<'a> Packed<'a> {
    /// `Some(None)`: the coding is absent. The outer `None`: the bytes are malformed.
    #[expect(clippy::option_option, reason = "absent is not malformed")]
    fn take(from: &mut &'a [u8]) -> Option<Option<Self>> {
        let how = take_byte(from)?;
        if how == ABSENT {
            return Some(None);
        }
        let [device, inode, len] = [take(from)?, take(from)?, take(from)?];
        let [modified, changed] = [take_time(from)?, take_time(from)?];
        let id = FileId { device, inode, len, modified, changed };
        let modified_secs = take(from)?.cast_signed();
        let etag = take_bytes(from)?;
        let body = match how {
            IN_MEMORY => Some(take_bytes(from)?),
            _ => None,
        };
        Some(Some(Self { id, modified_secs, etag, body }))
    }
}

/// True if two packed representations have the same facts of the same files; bodies may differ.
#[must_use]
pub fn packed_alike(a: &[u8], b: &[u8]) -> bool {
    ids(a).is_some_and(|a| ids(b) == Some(a))
}

/// Identities of the files of a packed representation, by coding, and whether they were young.
fn ids(mut bytes: &[u8]) -> Option<([Option<FileId>; CODINGS], u8)> {
    for _ in 0..4 {
        take_bytes(&mut bytes)?;
    }
    take(&mut bytes)?;
    take_bytes(&mut bytes)?;
    for _ in 0..3 {
        take_byte(&mut bytes)?;
    }
    let young = take_byte(&mut bytes)?;
    let mut ids = [None; CODINGS];
    for id in &mut ids {
        *id = Packed::take(&mut bytes)?.map(|packed| packed.id);
    }
    Some((ids, young))
}

fn codings() -> impl Iterator<Item = Option<Coding>> {
    core::iter::once(None).chain(Coding::ALL.into_iter().map(Some))
}

fn put(out: &mut Vec<u8>, word: u64) {
    out.extend_from_slice(&word.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_byte(from: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = from.split_first()?;
    *from = rest;
    Some(byte)
}

fn take(from: &mut &[u8]) -> Option<u64> {
    let (word, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u64::from_le_bytes(*word))
}

fn take_time(from: &mut &[u8]) -> Option<Modified> {
    let secs = take(from)?.cast_signed();
    Some(Modified { secs, nanos: u32::try_from(take(from)?).ok()? })
}

fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take(from)?).ok()?;
    let (bytes, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeaderLine, Site};
    use alloc::format;
    use regatta_http::pattern::Pattern;
    use regatta_op::{Now, Tick};

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Plain(u64);

    impl File for Plain {
        fn id(&self) -> FileId {
            // Recent enough for a young representation.
            let changed = Modified { secs: 1_700_000_000, nanos: 5 };
            FileId { inode: self.0, len: 10 * self.0, changed, ..FileId::default() }
        }
    }

    #[test]
    fn what_is_packed_comes_back() {
        let now = Now { tick: Tick(1), unix: 1_700_000_000 };
        let siblings = [None, Some(Plain(2)), Some(Plain(3))];
        let mut site = Site { server_name: Some("a/1".into()), ..Site::default() };
        let lines = ["Vary: Cookie", "X-A: b", "Content-Encoding: br"]
            .map(|line| HeaderLine::parse(line).expect("a field"));
        let pattern = Pattern::parse("/a/*").expect("a pattern");
        assert_eq!(site.rules.add_headers(&pattern, lines.into(), ""), Ok(()));
        let mut file = Representation::new(b"a/page.html", Plain(1), siblings, &site, now, 5);
        file.fill(Some(Coding::ALL[1]), &[7; 20]);
        let mut bytes = Vec::new();
        let files = file.pack(&mut bytes);
        assert_eq!(files, [Some(Plain(1)), None, None, Some(Plain(3))]);
        let back = Representation::unpack(&bytes, |at, id| {
            assert_eq!(Some(id), files[at].map(|file| file.id()));
            files[at]
        });
        let back = back.expect("whole");
        assert_eq!(format!("{back:?}"), format!("{file:?}"));
        assert!(Representation::<Plain>::unpack(&bytes, |_, _| None).is_none());
        let mut without = Vec::new();
        Representation::new(b"a/page.html", Plain(1), siblings, &site, now, 5).pack(&mut without);
        assert!(bytes != without && packed_alike(&bytes, &without), "wherever the bodies are");
        let mut other = Vec::new();
        Representation::new(b"a/page.html", Plain(4), siblings, &site, now, 5).pack(&mut other);
        assert!(!packed_alike(&bytes, &other) && !packed_alike(&bytes[..9], &bytes[..9]));
        for len in 0..bytes.len() {
            assert!(Representation::unpack(&bytes[..len], |at, _| files[at]).is_none(), "{len}");
        }
    }
}
