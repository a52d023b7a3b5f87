//! The SPECweb99-like file set and its popularity as formulas: sizes, names, shares.
//!
//! Source: `E` §3.1, `S` §5, `G` §II, and SPEC's own programs; see `docs/workload.md` for each.

use crate::number::index;

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
/// SPEC's line speed of one user, bit/s; the `slow` workload's \[src\].
pub const LINE_BITS_PER_S: u64 = 400_000;
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

/// Share of requests that go to the hottest of `dirs` directories \[src\]: 1 / H(dirs).
pub fn hottest_share(dirs: u32) -> f64 {
    1.0 / harmonic(dirs)
}

/// Mean body of a reply, bytes: 14,726.92 \[inf\].
pub fn mean_body_bytes() -> f64 {
    sizes().map(|(class, k, bytes)| size_share(class, k) * bytes as f64).sum()
}

/// Mean body of a reply of one class, bytes \[inf\].
pub fn class_mean_bytes(class: u32) -> f64 {
    (0..FILES_PER_CLASS).map(|k| file_share(k) * file_bytes(class, k) as f64).sum()
}

/// Every (class, file, bytes), smallest first.
pub fn sizes() -> impl Iterator<Item = (u32, u32, u64)> {
    (0..CLASSES).flat_map(|c| (0..FILES_PER_CLASS).map(move |k| (c, k, file_bytes(c, k))))
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

/// One row of the acceptance table: the files of one size in a set of `dirs` directories.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeRow {
    /// Size class, 0..4.
    pub class: u32,
    /// File number in its class, 0..9.
    pub k: u32,
    /// Bytes of one such file.
    pub bytes: u64,
    /// Share of requests.
    pub share: f64,
    /// Share of requests up to and with this size.
    pub requests_upto: f64,
    /// Share of reply bytes up to and with this size.
    pub bytes_upto: f64,
    /// Bytes of all files up to and with this size.
    pub memory_upto: u64,
}

/// The acceptance table of the generator: 36 rows, smallest size first \[inf\].
pub fn table(dirs: u32) -> Vec<SizeRow> {
    let mean = mean_body_bytes();
    let mut rows = Vec::with_capacity(index(FILES_PER_DIR.into()));
    let (mut requests_upto, mut bytes_upto, mut memory_upto) = (0.0, 0.0, 0);
    for (class, k, bytes) in sizes() {
        let share = size_share(class, k);
        requests_upto += share;
        bytes_upto += share * bytes as f64 / mean;
        memory_upto += bytes * u64::from(dirs);
        rows.push(SizeRow { class, k, bytes, share, requests_upto, bytes_upto, memory_upto });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(what: &str, found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{what}: {found} is not {expected}");
    }

    /// systems.md §3.1 and §3.2, number by number.
    #[test]
    fn formulas_give_the_papers_numbers() {
        let mib = f64::from(1 << 20);
        check("directories at load 1000", dirs_for_load(1000) as f64, 680.0, 0.0);
        check("directories at load 954", dirs_for_load(954) as f64, 650.0, 0.0);
        check("bytes of a directory", sizes().map(|s| s.2).sum::<u64>() as f64, 5_119_484.0, 0.0);
        check("mean body", mean_body_bytes(), 14_726.92, 0.01);
        for (class, mean) in [(0, 501.0), (1, 5_018.0), (2, 50_177.0), (3, 501_773.0)] {
            check("class mean", class_mean_bytes(class), mean, 0.6);
        }
        let shares = [0.0393, 0.0589, 0.0884, 0.1767, 0.3535, 0.1178, 0.0707, 0.0505, 0.0442];
        for (k, share) in (0..).zip(shares) {
            check("file share", file_share(k), share, 0.00005);
        }
        for (dirs, mib_total, hottest) in [
            (13, 63.5, 31.5),
            (30, 146.5, 25.0),
            (60, 292.9, 21.4),
            (120, 585.9, 18.6),
            (650, 3_173.5, 14.2),
            (680, 3_320.0, 14.1),
        ] {
            check("MiB", f64::from(dirs) * DIR_BYTES as f64 / mib, mib_total, 0.05);
            check("hottest directory, %", 100.0 * hottest_share(dirs), hottest, 0.056);
        }
    }

    /// Every row of the acceptance table: size, P %, cumulative requests %, cumulative bytes %,
    /// MiB of 650 directories, MiB of 680.
    const TABLE: &str = include_str!("specweb_table.txt");

    #[test]
    fn acceptance_table_matches_row_by_row() {
        let mib = f64::from(1 << 20);
        let (of_650, of_680) = (table(650), table(680));
        for ((line, a), b) in TABLE.lines().zip(&of_650).zip(&of_680) {
            let row: Vec<f64> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
            check("size", a.bytes as f64, row[0], 0.0);
            check("P", 100.0 * a.share, row[1], 0.00005);
            check("requests", 100.0 * a.requests_upto, row[2], 0.0005);
            check("bytes", 100.0 * a.bytes_upto, row[3], 0.0005);
            check("memory of 650", a.memory_upto as f64 / mib, row[4], 0.0051);
            check("memory of 680", b.memory_upto as f64 / mib, row[5], 0.0051);
        }
        assert_eq!((TABLE.lines().count(), of_650.len()), (36, 36));
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
