//! Predictions from a file set and its popularity, without running anything (§3.9).
//!
//! Each function states its formula; `docs/workload.md` prints them with the papers' numbers that
//! they recover.

use super::files::FileSet;
use super::popularity::Popularity;
use crate::number::rounded;
use serde::Serialize;

/// Bytes of a page of the page cache.
pub const PAGE_BYTES: u64 = 4_096;
/// Bytes that the kernel reads ahead at most, by default.
pub const READAHEAD_BYTES: u64 = 128 << 10;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// Share of requests, p.
    pub share: f64,
    pub bytes: u64,
}

pub fn items(set: &FileSet, popularity: &Popularity) -> Vec<Item> {
    set.ids().map(|f| Item { share: popularity.share(f), bytes: set.bytes(f) }).collect()
}

/// Mean reply body, bytes: Σ p·s.
pub fn mean_bytes(items: &[Item]) -> f64 {
    items.iter().map(|item| item.share * item.bytes as f64).sum()
}

/// Distinct files that a number of requests is expected to touch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distinct {
    /// Σ (1 − (1 − p)^N).
    pub files: f64,
    /// Standard deviation of the number of files, at most (draws exclude each other).
    pub files_sigma: f64,
    /// Σ s·(1 − (1 − p)^N), bytes.
    pub bytes: f64,
}

/// Distinct files and bytes after `requests` independent draws \[inf\].
pub fn distinct(items: &[Item], requests: f64) -> Distinct {
    let mut sum = Distinct { files: 0.0, files_sigma: 0.0, bytes: 0.0 };
    let mut variance = 0.0;
    for item in items {
        let touched = -(requests * (-item.share).ln_1p()).exp_m1();
        sum.files += touched;
        variance += touched * (1.0 - touched);
        sum.bytes += touched * item.bytes as f64;
    }
    sum.files_sigma = variance.sqrt();
    sum
}

/// Effect of a page cache on a workload, by Che's approximation of LRU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageCache {
    /// Cache over set, both in whole pages.
    pub ratio: f64,
    /// Share of requests that find their file.
    pub request_hit: f64,
    pub byte_hit: f64,
    pub miss_bytes: f64,
    /// Reads of [`READAHEAD_BYTES`] per request.
    pub reads: f64,
    /// Requests that a file outlives in the cache without being asked for, T.
    pub horizon: f64,
}

/// Che's approximation: T solves Σ s·(1 − e^(−p·T)) = M, with s in whole pages and M the cache's
/// bytes; file i is found with probability 1 − e^(−p·T) (§3.9) \[inf\].
pub fn page_cache(items: &[Item], cache_bytes: u64) -> PageCache {
    let pages = |item: &Item| (item.bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES) as f64;
    let whole: f64 = items.iter().map(pages).sum();
    let horizon = solve_horizon(items, cache_bytes as f64, whole);
    let mut found = PageCache {
        ratio: if whole > 0.0 { cache_bytes as f64 / whole } else { 1.0 },
        request_hit: 1.0,
        byte_hit: 1.0,
        miss_bytes: 0.0,
        reads: 0.0,
        horizon,
    };
    let mut misses = 0.0;
    for item in items {
        let missed = item.share * (-item.share * horizon).exp();
        misses += missed;
        found.miss_bytes += missed * item.bytes as f64;
        found.reads += missed * item.bytes.div_ceil(READAHEAD_BYTES) as f64;
    }
    found.request_hit = 1.0 - misses;
    found.byte_hit = 1.0 - found.miss_bytes / mean_bytes(items).max(f64::MIN_POSITIVE);
    found
}

/// T by bisection over its logarithm; infinite when everything that is asked for fits.
fn solve_horizon(items: &[Item], cache: f64, whole: f64) -> f64 {
    let pages = |item: &Item| (item.bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES) as f64;
    let asked = items.iter().filter(|item| item.share > 0.0);
    let asked: Vec<(f64, f64)> = asked.map(|item| (pages(item), item.share)).collect();
    let wanted: f64 = asked.iter().map(|(pages, _)| pages).sum();
    if cache >= wanted.min(whole) {
        return f64::INFINITY;
    }
    let held =
        |t: f64| -> f64 { asked.iter().map(|(pages, share)| pages * -(-share * t).exp_m1()).sum() };
    let (mut low, mut high) = (-2.0_f64, 45.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if held(middle.exp()) < cache { low = middle } else { high = middle }
    }
    f64::midpoint(low, high).exp()
}

/// Connections open at a reply rate, by Little's law:
/// N = rate · (off time per request + response time) (§3.3) \[inf\].
pub fn open_connections(replies_per_s: f64, off_s_per_request: f64, response_s: f64) -> f64 {
    replies_per_s * (off_s_per_request + response_s)
}

/// The reply rate at which a cap on connections stops the workload, by Little's law:
/// cap / (off time per request + response time) (§0.3-4) \[inf\].
pub fn rate_cap(connections_max: f64, off_s_per_request: f64, response_s: f64) -> f64 {
    connections_max / (off_s_per_request + response_s)
}

/// The session rate that offers `requests_per_s` from `processes` load generators (§3.6) \[inf\].
pub fn session_rate(requests_per_s: f64, requests_per_session: f64, processes: f64) -> f64 {
    requests_per_s / (requests_per_session * processes)
}

/// Capacity of event loops that block on a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    pub requests_per_s: f64,
    /// Share of the peak without disk.
    pub of_peak: f64,
    /// Share of the processor that idles.
    pub cpu_idle: f64,
}

/// `processes` event loops that block on a disk (SPED is one): a closed network of two queues with
/// `cpu_s` and `disk_s` of service per request, by mean value analysis (§3.9) \[inf\]. With one
/// process, X = 1/(D_cpu + D_disk) and the idle share is X·D_disk.
pub fn processes(processes: u32, cpu_s: f64, disk_s: f64) -> Capacity {
    let (mut at_cpu, mut at_disk, mut rate) = (0.0, 0.0, 0.0);
    for n in 1..=processes.max(1) {
        let (cpu, disk) = (cpu_s * (1.0 + at_cpu), disk_s * (1.0 + at_disk));
        rate = f64::from(n) / (cpu + disk);
        (at_cpu, at_disk) = (rate * cpu, rate * disk);
    }
    Capacity { requests_per_s: rate, of_peak: rate * cpu_s, cpu_idle: 1.0 - rate * cpu_s }
}

/// \[S\] Table 1, and ours: memory that answers a share of the requests, in order of file size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reach {
    /// Share of requests asked about.
    pub requests: f64,
    /// The first size whose cumulative share reaches it, bytes.
    pub file_bytes: u64,
    /// Bytes of all files up to and with this size.
    pub memory: u64,
    /// Bytes up to where the share is reached, when the files of one size lie in any order: the
    /// line between the sizes. \[S\]'s row lies on it.
    pub memory_within: u64,
}

/// The shares of \[S\] Table 1.
pub const REACHES: [f64; 8] = [0.10, 0.30, 0.50, 0.70, 0.80, 0.90, 0.95, 1.0];

/// Answers each share of `wanted`, in ascending order. `requests` bounds the memory to the files
/// expected to be asked for by that many draws; infinity means every file.
pub fn reaches(items: &[Item], wanted: &[f64], requests: f64) -> Vec<Reach> {
    let mut sizes = std::collections::BTreeMap::<u64, (f64, f64)>::new();
    for item in items {
        let touched =
            if requests.is_finite() { -(requests * (-item.share).ln_1p()).exp_m1() } else { 1.0 };
        let size = sizes.entry(item.bytes).or_default();
        size.0 += item.share;
        size.1 += touched * item.bytes as f64;
    }
    let (mut upto, mut memory) = (0.0, 0.0);
    let mut rows = Vec::with_capacity(wanted.len());
    let last = sizes.last_key_value().map_or(0, |(&bytes, _)| bytes);
    let mut wanted = wanted.iter().copied().peekable();
    for (&bytes, &(share, size_memory)) in &sizes {
        // Shares add up to 1 only to the rounding, so the last size reaches what is left.
        while let Some(requests) = wanted.next_if(|&w| upto + share >= w || bytes == last) {
            let within =
                if share > 0.0 { ((requests - upto) / share).clamp(0.0, 1.0) } else { 1.0 };
            rows.push(Reach {
                requests,
                file_bytes: bytes,
                memory: rounded(memory + size_memory),
                memory_within: rounded(memory + size_memory * within),
            });
        }
        upto += share;
        memory += size_memory;
    }
    rows
}

/// The Zipf exponent that fits counts best, by maximum likelihood over ranks; `None` for fewer than
/// two files. Solves Σ c·ln r / Σ c = Σ r^−a·ln r / Σ r^−a.
pub fn zipf_exponent(counts: &mut [u64]) -> Option<f64> {
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let counts = &counts[..counts.iter().take_while(|&&count| count > 0).count()];
    let logs: Vec<f64> = (1..=counts.len()).map(|rank| (rank as f64).ln()).collect();
    if counts.len() < 2 {
        return None;
    }
    let total: u64 = counts.iter().sum();
    let seen = counts.iter().zip(&logs).map(|(&c, ln)| c as f64 * ln).sum::<f64>() / total as f64;
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..50 {
        let exponent = f64::midpoint(low, high);
        let (mut weight, mut weighted) = (0.0, 0.0);
        for ln in &logs {
            let w = (-exponent * ln).exp();
            weight += w;
            weighted += w * ln;
        }
        if weighted / weight > seen { low = exponent } else { high = exponent }
    }
    Some(f64::midpoint(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::popularity::Mix;

    fn specweb(dirs: u32) -> Vec<Item> {
        let set = FileSet::specweb(dirs, &["file_set"]).unwrap();
        items(&set, &Popularity::specweb(dirs, Mix::Iid))
    }

    fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{what}: {found} is not {expected}");
    }

    /// §3.9's table: (directories, cache MB, bytes of that MB) and its columns. \[E\]'s megabytes
    /// are 1,000 KiB, \[S\]'s are MiB.
    #[test]
    fn page_cache_table_is_recovered() {
        let (kkib, mib) = (1_024_000, 1 << 20);
        let half = 55 * 60 * 5_119_484 / 100;
        for (dirs, cache, ratio, hit, byte_hit, miss, misses, reads) in [
            (680, 1_777 * kkib, 0.52, 99.85, 96.0, 587.0, 15.0, 0.0053),
            (680, 751 * kkib, 0.22, 98.2, 86.9, 1_935.0, 180.0, f64::NAN),
            (650, 1_522 * mib, 0.47, 99.81, 95.3, 698.0, 19.0, f64::NAN),
            (650, 1_364 * mib, 0.43, 99.73, 94.3, 845.0, 27.0, f64::NAN),
            (60, half, 0.54, 99.81, 94.7, 788.0, 19.0, 0.0071),
            (60, 150 * mib, 0.51, 99.77, 93.8, 915.0, 23.0, f64::NAN),
            (60, 64 * mib, 0.22, 97.4, 80.4, 2_890.0, 263.0, f64::NAN),
            (120, 300 * mib, 0.51, 99.80, 94.5, 804.0, 20.0, 0.0073),
            (30, 75 * mib, 0.51, 99.74, 92.8, 1_055.0, 26.0, 0.0095),
        ] {
            let found = page_cache(&specweb(dirs), cache);
            let what = format!("{dirs} directories, {cache} bytes: {found:?}");
            near(&what, found.ratio, ratio, 0.01);
            near(&what, 100.0 * found.request_hit, hit, 0.051);
            near(&what, 100.0 * found.byte_hit, byte_hit, 0.053);
            near(&what, found.miss_bytes, miss, miss * 0.002 + 0.5);
            near(&what, 1e4 * (1.0 - found.request_hit), misses, 0.8);
            if !reads.is_nan() {
                near(&what, found.reads, reads, 0.00006);
            }
        }
    }

    /// \[S\] Table 3 against the model: (page cache MB, replies/s, model MB/s, measured MB/s).
    #[test]
    fn disk_reads_of_six_servers_are_recovered() {
        let items = specweb(650);
        for (cache, rate, model, measured, ratio) in [
            (1_519, 37_902.0, 26.6, 30.3, 1.14),
            (1_476, 41_161.0, 30.4, 31.1, 1.02),
            (1_530, 38_253.0, 26.5, 29.2, 1.10),
            (1_364, 38_139.0, 32.2, 32.5, 1.01),
            (1_556, 37_489.0, 25.1, 28.6, 1.14),
            (1_522, 39_951.0, 27.9, 28.2, 1.01),
        ] {
            let found = page_cache(&items, cache << 20).miss_bytes * rate / 1e6;
            near("MB/s", found, model, 0.06);
            near("measured / model", measured / found, ratio, 0.006);
        }
    }

    #[test]
    fn caches_at_the_ends() {
        let items = specweb(13);
        let all = page_cache(&items, 1 << 40);
        near("everything fits", all.request_hit, 1.0, 1e-12);
        assert_eq!((all.miss_bytes, all.reads), (0.0, 0.0));
        let none = page_cache(&items, 0);
        near("nothing fits", none.byte_hit, 0.0, 0.01);
        near("no files", page_cache(&[], 0).request_hit, 1.0, 0.0);
    }

    /// §3.2's distinct files of 650 directories.
    #[test]
    fn distinct_files_are_recovered() {
        let items = specweb(650);
        for (requests, files, mib) in [
            (1e6, 19_759.0, 1_496.0),
            (2e6, 20_946.0, 1_976.0),
            (3e6, 21_557.0, 2_263.0),
            (3.1e6, 21_604.0, 2_286.0),
            (5e6, 22_244.0, 2_599.0),
            (1e7, 22_944.0, 2_948.0),
        ] {
            let found = distinct(&items, requests);
            near("files", found.files, files, 1.0);
            near("MiB", found.bytes / f64::from(1 << 20), mib, 1.0);
        }
    }

    /// \[S\] Table 1: sizes exact, memory of whole sizes as §3.2 computes it, and the printed row
    /// within 1.5 % of the line between the sizes.
    #[test]
    fn table_1_is_recovered() {
        let mib = f64::from(1 << 20);
        let rows = reaches(&specweb(650), &REACHES, 3.1e6);
        let sizes = [409, 716, 4_096, 5_120, 7_168, 40_960, 51_200, 921_600];
        let whole = [0.63, 1.78, 9.20, 12.38, 20.63, 94.86, 126.60, 2_285.6];
        let printed = [0.5, 1.5, 8.4, 12.2, 20.1, 94.3, 126.5, 2_291.6];
        assert_eq!(rows.len(), 8);
        for (((row, bytes), whole), printed) in rows.iter().zip(sizes).zip(whole).zip(printed) {
            assert_eq!(row.file_bytes, bytes);
            near("MiB of whole sizes", row.memory as f64 / mib, whole, 0.06);
            let within = row.memory_within as f64 / mib;
            near("MB printed in [S]", within, printed, 0.05_f64.max(printed * 0.015));
        }
        assert!(reaches(&[], &REACHES, f64::INFINITY).is_empty());
    }

    /// §3.3 and §3.9: connection caps, one process on a disk, several.
    #[test]
    fn caps_and_capacities_are_recovered() {
        near("[E] 10K", rate_cap(10_000.0, 1.284, 0.0), 7_790.0, 3.0);
        near("[E] 15K", open_connections(10_050.0, 1.284, 0.0), 12_900.0, 10.0);
        near("sessions", session_rate(30_000.0, 10.0, 8.0), 375.0, 0.0);
        for (read_s, of_peak, idle) in [(1.0 / 100.0, 0.64, 0.36), (1.0 / 120.0, 0.68, 0.32)] {
            let one = processes(1, 1.0 / 10_700.0, 0.0053 * read_s);
            near("SPED's peak", one.of_peak, of_peak, 0.005);
            near("SPED's idle", one.cpu_idle, idle, 0.005);
        }
        let idle = [(1, 6_830.0, 36.0), (2, 8_870.0, 17.0), (3, 9_750.0, 9.0), (4, 10_190.0, 5.0)];
        for (n, rate, percent) in idle {
            let found = processes(n, 93.5e-6, 53e-6);
            near("X(p)", found.requests_per_s, rate, 10.0);
            near("idle %", 100.0 * found.cpu_idle, percent, 0.5);
        }
    }

    #[test]
    fn zipf_exponents_are_fitted() {
        for exponent in [0.6, 0.8, 1.0, 1.3] {
            let mut counts: Vec<u64> =
                (1..=500).map(|r| rounded(1e7 * f64::from(r).powf(-exponent))).collect();
            near("exponent", zipf_exponent(&mut counts).unwrap(), exponent, 0.002);
        }
        near("uniform", zipf_exponent(&mut [7; 50]).unwrap(), 0.0, 0.001);
        assert_eq!(zipf_exponent(&mut [5, 0]), None);
    }
}
