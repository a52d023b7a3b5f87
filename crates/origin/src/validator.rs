//! Entity tags: what tells one content of a file from another in ETag (RFC 9110 §8.8.3).
use alloc::{boxed::Box, vec::Vec};
use regatta_op::{Coding, FileId, Modified};

/// The strong tag of a file's content, in quotes: 64 bits of its length, its modification time and
/// its change time, and the coding's name.
///
/// The change time is part of it because modification times can be set back (`rsync`, archives,
/// reproducible builds). The price is that two hosts never give the same tag to their copies of a
/// file; one that is wrong now and then would cost more.
pub(crate) fn etag(id: &FileId, coding: Option<Coding>) -> Box<[u8]> {
    let mut state = mix(id.len);
    for time in [id.modified, id.changed] {
        state = mix(state ^ nanoseconds(time));
    }
    let mut tag = Vec::with_capacity(18);
    tag.push(b'"');
    for place in 0..11 {
        let digit = (state >> (place * 6)) & 63;
        tag.push(DIGITS[usize::try_from(digit).expect("six bits")]);
    }
    if let Some(coding) = coding {
        tag.push(b'-');
        tag.extend_from_slice(coding.name().as_bytes());
    }
    tag.push(b'"');
    tag.into_boxed_slice()
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.";

fn nanoseconds(time: Modified) -> u64 {
    time.secs.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(u64::from(time.nanos))
}

/// The output function of splitmix64: a bijection, so no two lengths or times collide by
/// themselves.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_fact_changes_the_tag() {
        let at = |secs, nanos| Modified { secs, nanos };
        let base = FileId { len: 7, modified: at(1, 2), changed: at(3, 4), ..FileId::default() };
        let others = [
            FileId { len: 8, ..base },
            FileId { modified: at(1, 3), ..base },
            FileId { modified: at(2, 2), ..base },
            FileId { changed: at(3, 5), ..base },
            FileId { modified: at(3, 4), changed: at(1, 2), ..base },
        ];
        let tag = etag(&base, None);
        assert_eq!(tag.len(), 13);
        for other in others {
            assert_ne!(etag(&other, None), tag);
        }
        assert!(etag(&base, Some(Coding::Brotli)).ends_with(b"-br\""));
    }
}
