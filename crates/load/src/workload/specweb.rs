//! The SPECweb99-like file set and its popularity as formulas: sizes, names, shares.
//!
//! Source: `E` §3.1, `S` §5, `G` §II, and SPEC's own programs; see `docs/workload.md` for each.

/// Size classes per directory \[E\].
pub const CLASSES: u32 = 4;
/// Files of each class in a directory \[E\].
pub const FILES_PER_CLASS: u32 = 9;
/// Files in a directory: 36 distinct sizes \[E\].
pub const FILES_PER_DIR: u32 = CLASSES * FILES_PER_CLASS;
/// Bytes in one directory \[E\]; the sum of its 36 sizes.
pub const DIR_BYTES: u64 = 5_119_484;
/// Base size of each class, bytes; file k has `BASE · (k + 1) / 10` \[src\].
pub const BASE_BYTES: [u64; 4] = [1_024, 10_240, 102_400, 1_024_000];
/// Requests of each class per 1,000 \[src\]: 35, 50, 14 and 1 %.
pub const CLASS_PER_MILLE: [u16; 4] = [350, 500, 140, 10];
/// File index by popularity rank within its class: rank 1 is file 4 \[src\].
pub const RANK_ORDER: [u32; 9] = [4, 3, 5, 2, 6, 1, 7, 8, 0];
/// The most directories: five digits in a name.
pub const DIRS_MAX: u32 = 100_000;
/// The least speed of a conforming connection, bit/s \[src\].
pub const CONFORMING_BITS_PER_S: u64 = 320_000;

/// Bytes of file `k` (0..9) of `class` (0..4) \[src\].
pub const fn file_bytes(class: u32, k: u32) -> u64 {
    BASE_BYTES[class as usize] * (k as u64 + 1) / 10
}

/// Directories for SPEC load `load` (simultaneous connections):
/// `int(25 + ((400000 / 122000) · L) / 5)` \[src\], in whole numbers.
pub const fn dirs_for_load(load: u64) -> u64 {
    25 + load * 40 / 61
}

/// The harmonic number `Σ 1/i` for i in 1..=n.
pub fn harmonic(n: u32) -> f64 {
    (1..=n).rev().map(|i| 1.0 / f64::from(i)).sum()
}

/// Share of one class's requests that file `k` gets: Zipf, exponent 1, over nine ranks \[src\].
pub fn file_share(k: u32) -> f64 {
    let rank = (1..).zip(RANK_ORDER).find(|&(_, file)| file == k).map_or(0, |(rank, _)| rank);
    assert!(rank > 0, "a class has nine files, 0 to 8");
    1.0 / f64::from(rank) / harmonic(FILES_PER_CLASS)
}

/// Share of all requests that class `class` file `k` gets, over all directories \[src\].
pub fn size_share(class: u32, k: u32) -> f64 {
    f64::from(CLASS_PER_MILLE[class as usize]) / 1000.0 * file_share(k)
}

/// Directory, class and file number of a name that ends in `dirNNNNN/classC_K`; `None` for others.
pub fn parse_name(path: &str) -> Option<(u32, u32, u32)> {
    let (head, name) = path.rsplit_once('/')?;
    let dir = head.rsplit_once('/').map_or(head, |(_, dir)| dir).strip_prefix("dir")?;
    let [b'c', b'l', b'a', b's', b's', class @ b'0'..=b'3', b'_', k @ b'0'..=b'8'] =
        name.as_bytes()
    else {
        return None;
    };
    if dir.len() != 5 || !dir.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((dir.parse().ok()?, u32::from(class - b'0'), u32::from(k - b'0')))
}

/// Bytes that a file with this name has in a SPECweb99-like set; `None` for other names.
pub fn bytes_of_name(path: &str) -> Option<u64> {
    parse_name(path).map(|(_, class, k)| file_bytes(class, k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_give_the_papers_numbers() {
        assert_eq!((dirs_for_load(1000), dirs_for_load(954)), (680, 650));
        let shares = [0.0393, 0.0589, 0.0884, 0.1767, 0.3535, 0.1178, 0.0707, 0.0505, 0.0442];
        for (k, share) in (0..).zip(shares) {
            assert!((file_share(k) - share).abs() <= 0.00005, "{k}: {}", file_share(k));
        }
    }

    #[test]
    fn names_are_read() {
        for (path, expected) in [
            ("file_set/dir00012/class1_4", Some((12, 1, 4))),
            ("/disk1/file_set/dir99999/class3_8", Some((99_999, 3, 8))),
            ("dir00000/class0_0", Some((0, 0, 0))),
            ("file_set/dir0012/class1_4", None),
            ("file_set/dir+0012/class1_4", None),
            ("file_set/dir00012/class4_4", None),
            ("file_set/dir00012/class1_9", None),
            ("file_set/dir00012/class1_44", None),
            ("class1_4", None),
        ] {
            assert_eq!(parse_name(path), expected, "{path}");
        }
    }
}
