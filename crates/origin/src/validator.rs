//! Entity tags: they distinguish one content of a file from another in ETag (RFC 9110 §8.8.3).
use alloc::{boxed::Box, vec::Vec};
use regatta_op::{Coding, FileId, Modified};

/// The tag of a file's content. In quotes it has 64 bits, made from length, device, inode,
/// modification time and change time, and the coding's name.
///
/// The change time is part of it because modification times can be set back (`rsync`, archives,
/// reproducible builds). The inode is, because another file may have taken the place within one
/// tick of the clock. The price is that two hosts never give the same tag to their copies of a
/// file; a tag that is wrong now and then would cost more.
///
/// If the file is `young`, so that another change may not show, the tag is weak. It also differs
/// from the later tag of the file: content that changed after all does not keep the earlier tag.
pub(crate) fn etag(id: &FileId, coding: Option<Coding>, young: bool) -> Box<[u8]> {
    let mut state = mix(id.len);
    for fact in [id.device, id.inode, nanoseconds(id.modified), nanoseconds(id.changed)] {
        state = mix(state ^ fact);
    }
    let mut tag = Vec::with_capacity(20);
    if young {
        state = mix(state);
        tag.extend_from_slice(b"W/");
    }
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

/// The output function of splitmix64, a bijection: no two lengths or times collide by themselves.
const fn mix(value: u64) -> u64 {
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
            FileId { device: 1, ..base },
            FileId { inode: 1, ..base },
            FileId { modified: at(1, 3), ..base },
            FileId { modified: at(2, 2), ..base },
            FileId { changed: at(3, 5), ..base },
            FileId { modified: at(3, 4), changed: at(1, 2), ..base },
        ];
        let tag = etag(&base, None, false);
        assert_eq!(tag.len(), 13);
        for other in others {
            assert_ne!(etag(&other, None, false), tag);
        }
        assert!(etag(&base, Some(Coding::Brotli), false).ends_with(b"-br\""));
        let young = etag(&base, None, true);
        assert!(young.starts_with(b"W/\"") && !young.ends_with(&tag));
    }
}
