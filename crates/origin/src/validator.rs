//! Entity tags: they distinguish one content of a file from another in ETag (RFC 9110 §8.8.3).
use crate::{Digest, TagFacts};
use alloc::{boxed::Box, vec::Vec};
use regatta_op::{Coding, FileId, Modified};
use siphasher::sip::SipHasher24;

/// The tag of a file's content. In quotes it has 64 bits, made from these facts of the file, and
/// the coding's name.
///
/// With the inode and the change time, a tag never stays where the content changes. Modification
/// times can be set back (`rsync`, archives, reproducible builds), and another file may have taken
/// the place within one tick of the clock. The price is that two machines never give the same tag
/// to their copies of a file. Without these facts they do, as long as the copies keep the time.
/// Seconds are what archives and most ways of copying keep.
///
/// If the file is `young`, so that another change may not show, the tag is weak, and its time is in
/// nanoseconds. It also differs from the later tag of the file: content that changed after all does
/// not keep the earlier tag.
///
/// With [`TagFacts::Content`] it is the tag until the digest of the content is known: of all facts,
/// because it must not match other bytes. It is strong, so that downloads can be resumed.
pub(crate) fn etag(id: &FileId, coding: Option<Coding>, young: bool, facts: TagFacts) -> Box<[u8]> {
    let mut state = mix(id.len);
    let mut add = |fact: u64| state = mix(state ^ fact);
    if facts != TagFacts::MtimeSize || is_meaningless(id.modified.secs) {
        for fact in [id.device, id.inode, nanoseconds(id.modified), nanoseconds(id.changed)] {
            add(fact);
        }
    } else if young {
        add(nanoseconds(id.modified));
    } else {
        add(id.modified.secs.cast_unsigned());
    }
    if young {
        state = mix(state);
    }
    let tag = quoted(u128::from(state), 11, coding);
    if young { weak(&tag) } else { tag }
}

/// The tag of content with this digest. Equal contents have equal tags on all machines.
pub(crate) fn etag_of_content(digest: &Digest, coding: Option<Coding>) -> Box<[u8]> {
    quoted(u128::from_be_bytes(*digest), 22, coding)
}

/// The tag of a form that the server makes of a file with the tag `plain`. Versions of libraries
/// make different bytes, so it is weak: no range of one form is put together with another's.
pub(crate) fn etag_of_form(plain: &[u8], coding: Coding) -> Box<[u8]> {
    let (open, quote) = plain.split_at(plain.len() - 1);
    weak(&[open, b"-", coding.name().as_bytes(), quote].concat())
}

/// A tag of this many digits, six bits each, the last ones first.
fn quoted(bits: u128, digits: u32, coding: Option<Coding>) -> Box<[u8]> {
    let mut tag = Vec::with_capacity(32);
    tag.push(b'"');
    for place in 0..digits {
        let digit = (bits >> (place * 6)) & 63;
        tag.push(DIGITS[usize::try_from(digit).expect("six bits")]);
    }
    if let Some(coding) = coding {
        tag.push(b'-');
        tag.extend_from_slice(coding.name().as_bytes());
    }
    tag.push(b'"');
    tag.into_boxed_slice()
}

fn weak(tag: &[u8]) -> Box<[u8]> {
    [b"W/", tag].concat().into()
}

/// The tag of these bytes, which are no file's. Equal bytes have one tag on every machine.
pub(crate) fn etag_of_bytes(bytes: &[u8]) -> Box<[u8]> {
    quoted(u128::from(SipHasher24::new().hash(bytes)), 11, None)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.";

fn nanoseconds(time: Modified) -> u64 {
    time.secs.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(u64::from(time.nanos))
}

/// The output function of splitmix64, a bijection: no two lengths or times collide by themselves.
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Times up to 1980-01-02, seconds since 1970, are not those of a change. Reproducible builds and
/// image layers give all files one time: 0, 1, or the first that a ZIP archive can have.
const MEANINGLESS_SECS_MAX: i64 = 315_619_200;

/// True for a time that is not that of a change, seconds since 1970.
pub(crate) const fn is_meaningless(secs: i64) -> bool {
    secs <= MEANINGLESS_SECS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_fact_changes_the_tag() {
        let at = |secs, nanos| Modified { secs, nanos };
        let time = 1_700_000_000;
        let base = FileId { len: 7, modified: at(time, 2), changed: at(3, 4), ..FileId::default() };
        // Whether the tag without the inode changes as well, and that of a young file.
        let others = [
            (FileId { len: 8, ..base }, true, true),
            (FileId { modified: at(time + 1, 2), ..base }, true, true),
            (FileId { device: 1, ..base }, false, false),
            (FileId { inode: 1, ..base }, false, false),
            (FileId { modified: at(time, 3), ..base }, false, true),
            (FileId { changed: at(3, 5), ..base }, false, false),
            (FileId { changed: at(time, 2), ..base }, false, false),
        ];
        for (facts, all) in
            [(TagFacts::Inode, true), (TagFacts::Content, true), (TagFacts::MtimeSize, false)]
        {
            let tag = etag(&base, None, false, facts);
            assert_eq!(tag.len(), 13);
            let young = etag(&base, None, true, facts);
            for (other, matters, matters_young) in &others {
                let differs = etag(other, None, false, facts) != tag;
                assert_eq!(differs, all || *matters, "{other:?} {facts:?}");
                let differs = etag(other, None, true, facts) != young;
                assert_eq!(differs, all || *matters_young, "{other:?} {facts:?}");
            }
            assert!(etag(&base, Some(Coding::Brotli), false, facts).ends_with(b"-br\""));
            assert!(young.starts_with(b"W/\"") && !young.ends_with(&tag));
        }
    }

    /// Every bit of a digest counts, and its tags are none of those made from facts.
    #[test]
    fn tags_of_content_are_of_the_whole_digest() {
        let tag = |bits: u128| etag_of_content(&bits.to_be_bytes(), None);
        let zero = tag(0);
        assert_eq!(*zero, *b"\"AAAAAAAAAAAAAAAAAAAAAA\"");
        for bit in 0..128 {
            assert_ne!(tag(1 << bit), zero, "bit {bit}");
        }
        assert_ne!(tag(1), tag(2));
        let coded = etag_of_content(&[0; 16], Some(Coding::Brotli));
        assert_eq!(*coded, *b"\"AAAAAAAAAAAAAAAAAAAAAA-br\"");
        assert_eq!(*etag_of_form(&zero, Coding::Zstd), *b"W/\"AAAAAAAAAAAAAAAAAAAAAA-zstd\"");
    }

    /// All files of a reproducible build may have one time: it tells no two contents apart.
    #[test]
    fn meaningless_times_make_no_tag() {
        for secs in [-1, 0, 1, 315_532_800] {
            let modified = Modified { secs, nanos: 0 };
            let one = FileId { len: 7, modified, inode: 1, ..FileId::default() };
            let tags = [1, 2]
                .map(|inode| etag(&FileId { inode, ..one }, None, false, TagFacts::MtimeSize));
            assert_ne!(tags[0], tags[1], "{secs}");
        }
    }
}
