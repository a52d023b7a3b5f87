//! File contents as a pure function of (path, offset), made and checked without a stored copy.
//!
//! The layout is SPEC's \[src\]. The first line has the size in nine columns and the file's name. A
//! newline ends every 64 bytes, and the file's marker character is at every 4,096. Printable bytes
//! (33 to 123) fill the rest. The random bytes depend on the path, the version and the line number,
//! so a byte that is missing, doubled, swapped or from another file is found.

use super::specweb;
use core::fmt;

/// Bytes of a line with its newline \[src\].
pub const LINE_BYTES: u64 = 64;
/// A marker character stands at every multiple of this many bytes \[src\].
pub const MARKER_BYTES: u64 = 4_096;

/// The first byte that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub offset: u64,
    pub expected: u8,
    pub found: u8,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} is {:#04x}, not {:#04x}", self.offset, self.found, self.expected)
    }
}

/// The contents of one file: 64 bytes of memory that know all of its bytes.
///
/// A leading `/` of the path does not count, so the name in a file set and the target of a request
/// mean the same contents.
#[derive(Clone, Debug)]
pub struct Content {
    first: Box<[u8]>,
    first_lines: u64,
    seed: u64,
    marker: u8,
}

impl Content {
    /// The contents of `path`, unaltered.
    pub fn new(path: &str) -> Self {
        Self::build(path, None)
    }

    /// The contents of `path` as rewritten for the `version`-th time. The version follows the name
    /// in the first line and changes every line, so a torn reply is found (\[A\], altered file).
    pub fn at_version(path: &str, version: u64) -> Self {
        Self::build(path, Some(version))
    }

    fn build(path: &str, version: Option<u64>) -> Self {
        let path = path.strip_prefix('/').unwrap_or(path);
        let size = specweb::bytes_of_name(path);
        let size = size.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        let mut first = format!("{size:>9} {path}");
        if let Some(version) = version {
            first.push_str(&format!(" v{version:020}"));
        }
        first.push('\n');
        let seed = mixed(fnv(first.as_bytes()));
        let marker = printable(mixed(seed)).to_le_bytes()[0];
        let first: Box<[u8]> = first.into_bytes().into();
        let first_lines = first.len().div_ceil(64) as u64;
        Self { first, first_lines, seed, marker }
    }

    /// Fills `out` with the bytes from `offset` on. Pure: no state is kept.
    pub fn fill(&self, offset: u64, out: &mut [u8]) {
        let (skip, mut number) = (skip_of(offset), offset / LINE_BYTES);
        let first = if skip == 0 { 0 } else { (64 - skip).min(out.len()) };
        let (head, body) = out.split_at_mut(first);
        if !head.is_empty() {
            head.copy_from_slice(&self.line(number)[skip..skip + first]);
            number += 1;
        }
        let (lines, tail) = body.as_chunks_mut::<64>();
        for line in lines {
            *line = self.line(number);
            number += 1;
        }
        tail.copy_from_slice(&self.line(number)[..tail.len()]);
    }

    /// Compares `bytes` with what belongs at `offset`, in one pass.
    pub fn check(&self, offset: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        let (skip, mut number) = (skip_of(offset), offset / LINE_BYTES);
        let first = if skip == 0 { 0 } else { (64 - skip).min(bytes.len()) };
        let (head, body) = bytes.split_at(first);
        if !head.is_empty() {
            same(&self.line(number)[skip..skip + first], head, offset)?;
            number += 1;
        }
        let (lines, tail) = body.as_chunks::<64>();
        for line in lines {
            let expected = self.line(number);
            if expected != *line {
                same(&expected, line, number.saturating_mul(LINE_BYTES))?;
            }
            number += 1;
        }
        same(&self.line(number)[..tail.len()], tail, number.saturating_mul(LINE_BYTES))
    }

    /// The 64 bytes of line `number`, first-line text included.
    #[inline]
    fn line(&self, number: u64) -> [u8; 64] {
        let seed = mixed(self.seed ^ number.wrapping_mul(LINE_STEP));
        let mut line = [0; 64];
        let (words, _) = line.as_chunks_mut::<8>();
        for (word, step) in words.iter_mut().zip(WORD_STEPS) {
            *word = printable(scrambled(seed ^ step)).to_le_bytes();
        }
        line[63] = b'\n';
        if number.is_multiple_of(MARKER_BYTES / LINE_BYTES) {
            line[0] = self.marker;
        }
        if number < self.first_lines {
            self.put_first(number, &mut line);
        }
        line
    }

    #[cold]
    fn put_first(&self, number: u64, line: &mut [u8; 64]) {
        let (pieces, last) = self.first.as_chunks::<64>();
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let text = pieces.get(at).map_or(last, |piece| piece.as_slice());
        line[..text.len()].copy_from_slice(text);
    }
}

fn skip_of(offset: u64) -> usize {
    usize::from((offset % LINE_BYTES).to_le_bytes()[0])
}

fn same(expected: &[u8], found: &[u8], offset: u64) -> Result<(), Mismatch> {
    match expected.iter().zip(found).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => {
            let (expected, found) = (expected[at], found[at]);
            Err(Mismatch { offset: offset.saturating_add(at as u64), expected, found })
        }
    }
}

/// The version that the start of a reply claims, for [`Content::at_version`]; `None` when the first
/// line is not that of an altered `path`.
pub fn version_of(path: &str, start: &[u8]) -> Option<u64> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let text = start.get(10..)?.strip_prefix(path.as_bytes())?.strip_prefix(b" v")?;
    let digits = core::str::from_utf8(text.get(..20)?).ok()?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Odd constants from the golden ratio and its kin; lines and words never share a start.
const LINE_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD_STEPS: [u64; 8] = [
    0x0000_0000_0000_0000,
    0xd1b5_4a32_d192_ed03,
    0xa36a_9465_a325_da06,
    0x751f_de98_74b8_c709,
    0x46d5_28cb_464b_b40c,
    0x188a_72fe_17de_a10f,
    0xea3f_bd30_e971_8e12,
    0xbbf5_0763_bb04_7b15,
];

/// Shifts, one addition and one exclusive or: what every processor does to several words at once.
#[inline]
const fn scrambled(value: u64) -> u64 {
    let value = value.wrapping_add(value << 21);
    value ^ (value >> 31)
}

/// Eight bytes from 33 to 123: 33 + 0..=63 + a subset of the bits of 27.
#[inline]
const fn printable(value: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    (value & (ONES * 0x3f)) + ((value >> 5) & (ONES * 0x1b)) + ONES * 33
}

/// `SplitMix64`'s finaliser.
const fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// FNV-1a, 64 bits: stable for ever, and names are short.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::sha256_hex;

    fn whole(path: &str, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        Content::new(path).fill(0, &mut out);
        out
    }

    fn check(path: &str, offset: usize, bytes: &[u8]) -> Result<(), Mismatch> {
        Content::new(path).check(offset as u64, bytes)
    }

    #[test]
    fn layout_is_specs() {
        let path = "file_set/dir00012/class1_4";
        let bytes = whole(path, 12_000);
        assert!(bytes.starts_with(b"     5120 file_set/dir00012/class1_4\n"));
        let first = 37;
        for (at, &byte) in bytes.iter().enumerate().skip(first) {
            match at {
                _ if at % 64 == 63 => assert_eq!(byte, b'\n', "{at}"),
                4096 | 8192 => assert_eq!(byte, bytes[4096], "{at}"),
                _ => assert!((33..=123).contains(&byte), "{at}: {byte}"),
            }
        }
        let distinct: std::collections::BTreeSet<&[u8]> = bytes.chunks(8).collect();
        assert_eq!(distinct.len(), bytes.len() / 8, "no eight bytes repeat");
        assert!(whole("a/b", 40).starts_with(b"        - a/b\n"));
    }

    #[test]
    fn any_range_is_the_same_bytes() {
        let long = format!("{}/x", "deep/".repeat(40));
        for path in ["file_set/dir00003/class0_2", "/x", &long, ""] {
            let all = whole(path, 9_000);
            for (offset, len) in [(0, 1), (1, 63), (63, 2), (64, 64), (4_095, 4_000), (200, 8_800)]
            {
                let mut part = vec![0; len];
                Content::new(path).fill(offset as u64, &mut part);
                assert_eq!(part, all[offset..offset + len], "{path} {offset} {len}");
                assert_eq!(check(path, offset, &part), Ok(()));
            }
        }
        assert_eq!(whole("/a", 500), whole("a", 500));
    }

    /// Faults of servers are found at the right place.
    #[test]
    fn damage_is_found() {
        let path = "file_set/dir00000/class1_0";
        let good = whole(path, 1024);
        type Damage = fn(&mut Vec<u8>);
        let cases: [(&str, Damage, u64); 6] = [
            ("a flipped bit", |b| b[700] ^= 1, 700),
            ("a flipped last byte", |b| b[1023] ^= 1, 1023),
            ("a line lost", |b| drop(b.drain(128..192)), 128),
            ("a line doubled", |b| b.copy_within(128..192, 192), 192),
            ("two lines swapped", |b| b[256..384].rotate_left(64), 256),
            ("zeroes", |b| b[512..].fill(0), 512),
        ];
        for (what, damage, offset) in cases {
            let mut bad = good.clone();
            damage(&mut bad);
            let found = check(path, 0, &bad).unwrap_err();
            assert_eq!(found.offset, offset, "{what}");
            assert_eq!(found.expected, good[usize::try_from(offset).unwrap()], "{what}");
        }
        assert!(check("file_set/dir00000/class1_1", 0, &good).is_err());
        assert!(check(path, 64, &good).is_err());
    }

    #[test]
    fn versions_are_named_and_differ() {
        let mut bytes = vec![0; 10_240];
        Content::at_version("/altered.html", 7).fill(0, &mut bytes);
        assert_eq!(version_of("altered.html", &bytes), Some(7));
        assert_eq!(version_of("other.html", &bytes), None);
        assert_eq!(version_of("altered.html", &whole("altered.html", 100)), None);
        assert_eq!(version_of("altered.html", b""), None);
        let next = Content::at_version("altered.html", 8);
        assert!(next.check(64, &bytes[64..]).is_err(), "a torn reply is found in any line");
    }

    /// The bytes are a format: a change breaks every stored file set.
    #[test]
    fn golden() {
        let found = [
            ("file_set/dir00000/class0_0", 102),
            ("file_set/dir00679/class3_8", 921_600),
            ("index.html", 10_240),
        ]
        .map(|(path, len)| sha256_hex(&whole(path, len)));
        assert_eq!(found, GOLDEN);
    }

    const GOLDEN: [&str; 3] = [
        "5c07bbdae5359f281859987667f69ee70d6031b2ae3a312f9c859ebb7cc66967",
        "4eb66e439e4d5cfafb0fb69b3a470a105c5940ff2644e5df42ad090abf6ad8b2",
        "2c8f761bb855649e3ec6c4a625a1099bdcbcc54655a6e7517da5a122702fba5b",
    ];
}
