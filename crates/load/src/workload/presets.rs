//! Every workload of §3.8 and the papers' own, full and scaled, by name.

use super::files::{FileSet, Listed};
use super::manifest::{Altered, Way};
use super::manifest::{Files, Model, Offer, Phase};
use super::popularity::{Law, Mix, Purpose, stream, unit};
use super::specweb::LINE_BITS_PER_S;
use super::think::{Gaps, Lengths, Pattern, Think, surge};
use crate::number::{index, rounded};
use rand_distr::{Distribution, LogNormal, Pareto};

/// A workload by name: what `regatta workload new NAME` makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Where it is from, with the mark of §0.1.
    pub source: &'static str,
    /// One sentence on what it is for.
    pub about: &'static str,
    /// The files.
    pub shape: Shape,
    /// Their popularity.
    pub law: Law,
    /// Sessions.
    pub pattern: Pattern,
    /// Load generators, each with its own log.
    pub clients: u32,
    /// Requests in each log.
    pub requests: u64,
    /// Line speed of each session, bit/s.
    pub line_bits_per_s: Option<u64>,
    /// How it is offered.
    pub offer: Offer,
}

/// The files of a preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// SPECweb99-like directories (§3.1).
    Specweb {
        /// How many.
        dirs: u32,
    },
    /// Files of one size: `index.html` when there is one, `files/NNNNNN` otherwise.
    Equal {
        /// How many.
        files: u32,
        /// Bytes of each.
        bytes: u64,
    },
    /// One file of each of these sizes, `files/` and the size in seven digits: paths, and so
    /// requests, of one length.
    Sizes(&'static [u64]),
    /// A page with everything that it needs: its files, and those that are precompressed once more
    /// in each coding. Only the files themselves are asked for.
    Page(&'static [PageAsset]),
    /// SURGE's sizes \[mem\]: lognormal below 133 KB, Pareto above, in random order.
    Surge {
        /// How many.
        files: u32,
    },
}

/// A file of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAsset {
    /// Path below the root.
    pub path: &'static str,
    /// Length.
    pub bytes: u64,
    /// Bytes of its siblings in Brotli and gzip, if it has those.
    pub coded: Option<[u64; 2]>,
}

const fn text(path: &'static str, bytes: u64, coded: [u64; 2]) -> PageAsset {
    PageAsset { path, bytes, coded: Some(coded) }
}

const fn binary(path: &'static str, bytes: u64) -> PageAsset {
    PageAsset { path, bytes, coded: None }
}

/// The static profiles of HttpArena: its names and totals (842 KB, 219 KB with Brotli). Sizes of
/// single files are within its ranges as far as the totals leave room for them.
const ARENA: [PageAsset; 20] = [
    text("static/reset.css", 8_000, [2_000, 2_300]),
    text("static/layout.css", 25_000, [4_500, 5_200]),
    text("static/theme.css", 15_000, [3_000, 3_450]),
    text("static/components.css", 200_000, [20_000, 23_000]),
    text("static/utilities.css", 20_000, [3_400, 3_900]),
    text("static/analytics.js", 12_000, [3_300, 3_800]),
    text("static/helpers.js", 15_000, [4_200, 4_800]),
    text("static/app.js", 22_500, [6_500, 7_500]),
    text("static/vendor.js", 300_000, [52_000, 59_800]),
    text("static/router.js", 20_000, [5_600, 6_450]),
    text("static/header.html", 5_500, [1_500, 1_700]),
    text("static/footer.html", 12_000, [2_900, 3_350]),
    binary("static/regular.woff2", 18_000),
    binary("static/bold.woff2", 22_000),
    text("static/logo.svg", 15_000, [3_300, 3_800]),
    text("static/icon-sprite.svg", 70_000, [7_000, 8_050]),
    binary("static/hero.webp", 45_000),
    binary("static/thumb1.webp", 8_000),
    binary("static/thumb2.webp", 6_000),
    text("static/manifest.json", 3_000, [800, 900]),
];

/// Files of SURGE above the lognormal body, as a share \[mem\].
const SURGE_TAIL_SHARE: f64 = 0.07;
/// Largest file of the `surge` set, bytes: Pareto's tail has no end.
const SURGE_BYTES_MAX: f64 = 1e8;

impl Shape {
    /// The set, with `seed` for random sizes and `prefixes` for SPECweb99-like ones.
    pub fn file_set(self, seed: u64, prefixes: &[&str]) -> Result<FileSet, super::fault::Fault> {
        match self {
            Self::Specweb { dirs } => FileSet::specweb(dirs, prefixes),
            Self::Equal { files: 1, bytes } => FileSet::listed([listed("index.html", bytes)]),
            Self::Equal { files, bytes } => {
                FileSet::listed((0..files).map(|n| listed(&format!("files/{n:06}"), bytes)))
            }
            Self::Sizes(sizes) => FileSet::listed(
                sizes.iter().map(|&bytes| listed(&format!("files/{bytes:07}"), bytes)),
            ),
            Self::Page(files) => {
                let own = files.iter().map(|file| listed(file.path, file.bytes));
                let sibling = |file: &PageAsset| {
                    let of = |(coding, bytes): (&str, u64)| Listed {
                        weight: 0.0,
                        ..listed(&format!("{}.{coding}", file.path), bytes)
                    };
                    file.coded.map(|[br, gz]| [("br", br), ("gz", gz)].map(of))
                };
                FileSet::listed(own.chain(files.iter().filter_map(sibling).flatten()))
            }
            Self::Surge { files } => {
                let sizes = surge_sizes(files, seed);
                let numbered = (0..files).zip(sizes);
                FileSet::listed(numbered.map(|(n, bytes)| listed(&format!("files/{n:06}"), bytes)))
            }
        }
    }

    /// How a manifest says it.
    pub fn files(self, prefixes: &[&str]) -> Files {
        match self {
            Self::Specweb { dirs } => {
                Files::Specweb { dirs, prefixes: prefixes.iter().map(|&p| p.to_owned()).collect() }
            }
            Self::Equal { .. } | Self::Sizes(_) | Self::Page(_) | Self::Surge { .. } => {
                Files::Listed
            }
        }
    }
}

fn listed(path: &str, bytes: u64) -> Listed {
    Listed { path: path.to_owned(), bytes, weight: 1.0, sha256: None }
}

fn surge_sizes(files: u32, seed: u64) -> Vec<u64> {
    let body = LogNormal::new(surge::BODY_MU, surge::BODY_SIGMA).expect("SURGE's are positive");
    let tail = Pareto::new(surge::TAIL_K_BYTES, surge::TAIL_ALPHA).expect("SURGE's are positive");
    let mut random = stream(seed, 0, Purpose::Size);
    let mut size = || {
        if unit(&mut random) < SURGE_TAIL_SHARE {
            return tail.sample(&mut random).min(SURGE_BYTES_MAX);
        }
        loop {
            let bytes = body.sample(&mut random);
            if bytes <= surge::TAIL_K_BYTES {
                return bytes.max(1.0);
            }
        }
    };
    (0..index(files.into())).map(|_| rounded(size())).collect()
}

/// The preset of a name.
pub fn find(name: &str) -> Option<Preset> {
    all().into_iter().find(|preset| preset.name == name)
}

/// Every preset, papers first.
pub fn all() -> Vec<Preset> {
    let mut all = papers();
    all.extend(sizes());
    all.extend(single_files());
    all.extend(variations());
    all.extend(extremes());
    all
}

const SPECWEB: Law = Law::Specweb { mix: Mix::Iid };
const SCALED: Pattern = Pattern { scale: 0.1, ..Pattern::P10 };
const ONE_REQUEST: Pattern = Pattern {
    lengths: Lengths::fixed(1),
    gaps: Gaps::Independent { inactive_share: 0.0 },
    think: Think::None,
    scale: 1.0,
};

/// The default scaled replica: 60 directories, two clients, think times scaled by 0.1 (§5.2).
fn replica(name: &'static str, source: &'static str, about: &'static str) -> Preset {
    Preset {
        name,
        source,
        about,
        shape: Shape::Specweb { dirs: 60 },
        law: SPECWEB,
        pattern: SCALED,
        clients: 2,
        requests: 150_000,
        line_bits_per_s: None,
        offer: Offer { timeout_ms: 1_500, ..Offer::default() },
    }
}

fn papers() -> Vec<Preset> {
    let offer = |timeout_ms, rates, cache_ratio| Offer {
        timeout_ms,
        requests_per_s: Some(rates),
        cache_ratio,
        ..Offer::default()
    };
    let full = |name, source, about, dirs, clients, requests, offer| Preset {
        shape: Shape::Specweb { dirs },
        pattern: Pattern::P10,
        clients,
        requests,
        offer,
        ..replica(name, source, about)
    };
    let paced = |name, source, about, cache_ratio, timeout_ms| Preset {
        offer: Offer { timeout_ms, cache_ratio, ..Offer::default() },
        ..replica(name, source, about)
    };
    let e = offer(15_000, (10_000.0, 30_000.0), Some(0.52));
    let s = offer(10_000, (25_000.0, 70_000.0), Some(0.47));
    let g = offer(15_000, (1_000.0, 20_000.0), None);
    vec![
        full(
            "eurosys07",
            "[E] §3",
            "the 24,480 files of the uniprocessor paper",
            680,
            8,
            450_000,
            e,
        ),
        paced("eurosys07-scaled", "[E], §5.2", "its replica in 293 MiB", Some(0.52), 1_500),
        full("systor12", "[S] §5", "the 650 directories of the 4-core paper", 650, 16, 194_000, s),
        paced("systor12-scaled", "[S], §5.2", "its replica in 293 MiB", Some(0.47), 1_000),
        full("geneves", "[G] §II", "the same set, all in memory", 680, 210, 17_000, g),
        paced("geneves-scaled", "[G], §5.2", "its replica in 293 MiB, in memory", None, 1_500),
        single("hpl01", "[H]", "one byte, one request per connection", 1, (10, 100_000), 3_000),
        single("hpl01-scaled", "[H], §0.3-9", "the same, shorter time-out", 1, (2, 50_000), 900),
        single("azzedin", "[A]", "one 10 KB file, 10 clients", 10_240, (10, 20_000), 15_000),
        single("azzedin-scaled", "[A]", "the same, 2 clients", 10_240, (2, 20_000), 1_500),
    ]
}

fn sizes() -> Vec<Preset> {
    let sized = |name, about, dirs, requests| Preset {
        shape: Shape::Specweb { dirs },
        requests,
        ..replica(name, "§3.1", about)
    };
    vec![
        sized("smoke", "13 directories: a check that things run", 13, 5_000),
        sized("quick", "30 directories: the smallest set worth measuring", 30, 50_000),
        sized("scaled", "60 directories: the default replica", 60, 150_000),
        sized("long", "120 directories: for long runs", 120, 300_000),
    ]
}

/// One file, one request per connection, no think time.
fn single(
    name: &'static str,
    source: &'static str,
    about: &'static str,
    bytes: u64,
    (clients, requests): (u32, u64),
    timeout_ms: u64,
) -> Preset {
    Preset {
        shape: Shape::Equal { files: 1, bytes },
        law: Law::Uniform,
        pattern: ONE_REQUEST,
        clients,
        requests,
        offer: Offer { timeout_ms, ..Offer::default() },
        ..replica(name, source, about)
    }
}

fn single_files() -> Vec<Preset> {
    let one = |name, source, about, bytes| single(name, source, about, bytes, (2, 50_000), 3_000);
    let altered = |name, about, way| Preset {
        offer: Offer {
            timeout_ms: 3_000,
            altered: Some(Altered { way, period_ms: 10 }),
            ..Offer::default()
        },
        ..one(name, "[A] exp. 2", about, 10_240)
    };
    vec![
        one("onebyte", "[H]", "one byte: the server's fixed costs", 1),
        one("2k", "[H] §7", "one 2 KB file", 2_048),
        Preset {
            shape: Shape::Sizes(&[4 << 10, 64 << 10, 1 << 20]),
            ..one("bodies", "docs/bench.md", "a file of 4 KiB, of 64 KiB and of 1 MiB", 0)
        },
        Preset {
            shape: Shape::Page(&ARENA),
            law: Law::Counted,
            ..one("arena", "HttpArena", "the 20 files of a page, with precompressed siblings", 0)
        },
        one("10k-cached", "[A] exp. 1", "one 10 KB file, unchanged", 10_240),
        altered("10k-altered", "the file is rewritten in place every 10 ms", Way::Literal),
        altered("10k-renamed", "the file is replaced every 10 ms", Way::Renamed),
        altered("10k-forced", "the file is rewritten and read from disk again", Way::Forced),
    ]
}

fn variations() -> Vec<Preset> {
    let cached = |name, source, about, cache_ratio| Preset {
        offer: Offer { timeout_ms: 1_500, cache_ratio, ..Offer::default() },
        ..replica(name, source, about)
    };
    let short =
        Pattern { lengths: Lengths { least: 1, most: 3, ..Lengths::fixed(1) }, ..ONE_REQUEST };
    let spike = [(120, 0.25), (120, 1.0), (120, 0.25)];
    let phases = spike.map(|(seconds, share)| Phase { seconds, share }).to_vec();
    vec![
        cached("inmem", "[G], [S] 4 GB", "everything in the page cache", None),
        cached("disk", "[E], [S] 2 GB", "memory for half of the set", Some(0.52)),
        cached("less-io", "[E] §9", "memory for most of the set", Some(0.8)),
        cached("more-io", "[E] §9", "memory for a fifth of the set", Some(0.2)),
        Preset {
            shape: Shape::Specweb { dirs: 13 },
            pattern: short,
            ..replica("short", "[E] §9", "short connections, no think time, cached")
        },
        Preset {
            pattern: Pattern { scale: 1.0, ..SCALED },
            line_bits_per_s: Some(LINE_BITS_PER_S),
            offer: Offer { timeout_ms: 30_000, ..Offer::default() },
            ..replica("slow", "SPECweb99 [src]", "every session on a line of 400,000 bit/s")
        },
        Preset {
            offer: Offer { timeout_ms: 3_000, phases, ..Offer::default() },
            ..replica("spike", "SEDA's client [src]", "120 s low, 120 s high, 120 s low")
        },
        Preset {
            offer: Offer { timeout_ms: 3_000, idle_connections: 1_000, ..Offer::default() },
            ..replica("idle-conns", "[web] Gammo 2004", "1,000 idle connections and a light load")
        },
    ]
}

fn extremes() -> Vec<Preset> {
    let delay = Think::Constant { inactive_us: 20_000, active_us: 20_000 };
    let haboob = Offer {
        model: Model::Closed,
        timeout_ms: 15_000,
        clients: Some((1, 1_024)),
        warm_up_s: 20,
        ..Offer::default()
    };
    let surging = Pattern { gaps: Gaps::Surge, think: Think::Surge, scale: 0.1, ..Pattern::P10 };
    vec![
        Preset {
            shape: Shape::Specweb { dirs: 680 },
            pattern: Pattern { lengths: Lengths::fixed(5), think: delay, ..ONE_REQUEST },
            offer: haboob,
            ..replica("haboob", "SEDA [src]", "closed loop, 5 requests each, 20 ms between")
        },
        Preset {
            shape: Shape::Equal { files: 6_000, bytes: 51_200 },
            law: Law::Zipf { exponent: 1.0 },
            ..replica("50kb", "[web] Radhakrishnan 2019", "6,000 files of 50 KB, Zipf")
        },
        Preset {
            shape: Shape::Surge { files: 2_000 },
            law: Law::Zipf { exponent: 1.0 },
            pattern: surging,
            ..replica("surge", "SURGE [mem]", "sizes, pages and think times of SURGE")
        },
        Preset {
            shape: Shape::Equal { files: 8, bytes: 64 << 20 },
            law: Law::Uniform,
            pattern: ONE_REQUEST,
            requests: 2_000,
            offer: Offer { timeout_ms: 60_000, ..Offer::default() },
            ..replica("big", "§3.8", "8 files of 64 MiB: the cost of a byte")
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::manifest::popularity;

    /// Files and bytes of a preset, and the means of its sessions.
    fn check(name: &str, files: u32, bytes: u64, requests: f64, off_s: f64) {
        let preset = find(name).unwrap();
        let set = preset.shape.file_set(1, &["file_set"]).unwrap();
        assert_eq!((set.len(), set.total_bytes()), (files, bytes), "{name}");
        popularity(preset.law, &set).unwrap();
        assert!((preset.pattern.lengths.mean() - requests).abs() < 0.001, "{name}");
        if let Some(found) = preset.pattern.off_s_per_request() {
            assert!((found - off_s).abs() < 0.001, "{name}: {found} s");
        }
    }

    #[test]
    fn presets_are_what_they_say() {
        check("eurosys07", 24_480, 3_481_249_120, 10.0, 1.2892);
        check("systor12", 23_400, 3_327_664_600, 10.0, 1.2892);
        check("geneves", 24_480, 3_481_249_120, 10.0, 1.2892);
        for name in ["eurosys07-scaled", "systor12-scaled", "geneves-scaled", "scaled", "disk"] {
            check(name, 2_160, 307_169_040, 10.0, 0.1289);
        }
        check("smoke", 468, 66_553_292, 10.0, 0.1289);
        check("quick", 1_080, 153_584_520, 10.0, 0.1289);
        check("long", 4_320, 614_338_080, 10.0, 0.1289);
        check("onebyte", 1, 1, 1.0, 0.0);
        check("hpl01", 1, 1, 1.0, 0.0);
        check("azzedin", 1, 10_240, 1.0, 0.0);
        check("bodies", 3, 1_118_208, 1.0, 0.0);
        check("arena", 50, 842_000 + 120_000 + 138_000, 1.0, 0.0);
        check("10k-forced", 1, 10_240, 1.0, 0.0);
        check("slow", 2_160, 307_169_040, 10.0, 1.2892);
        check("short", 468, 66_553_292, 2.0, 0.0);
        check("haboob", 24_480, 3_481_249_120, 5.0, 0.016);
        check("50kb", 6_000, 307_200_000, 10.0, 0.1289);
        check("big", 8, 512 << 20, 1.0, 0.0);
    }

    #[test]
    fn a_page_is_asked_for_without_its_siblings() {
        let arena = find("arena").unwrap();
        let set = arena.shape.file_set(1, &[]).unwrap();
        let asked: Vec<_> = set.ids().filter(|file| set.weight(*file) > 0.0).collect();
        let bytes: u64 = asked.iter().map(|file| set.bytes(*file)).sum();
        assert_eq!((asked.len(), bytes), (20, 842_000));
        let least = |file: &PageAsset| file.coded.map_or(file.bytes, |[br, _]| br);
        assert_eq!(ARENA.iter().map(least).sum::<u64>(), 219_000);
        assert!(set.find("/static/app.js.br").is_some() && set.find("/static/app.js.gz").is_some());
        assert!(set.find("/static/hero.webp.br").is_none());
    }

    #[test]
    fn names_are_distinct_and_patterns_possible() {
        let all = all();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|p| p.name).collect();
        assert_eq!(names.len(), all.len());
        for preset in &all {
            assert_eq!(preset.pattern.problems(), Vec::<String>::new(), "{}", preset.name);
            assert!(!preset.about.is_empty() && !preset.source.is_empty());
        }
    }

    #[test]
    fn surge_sizes_have_their_median_and_tail() {
        let mut sizes = surge_sizes(20_000, 1);
        assert_eq!(sizes, surge_sizes(20_000, 1));
        let above = sizes.iter().filter(|&&b| b > 133_000).count() as f64 / 20_000.0;
        assert!((above - SURGE_TAIL_SHARE).abs() < 0.01, "{above}");
        sizes.sort_unstable();
        // e^9.357 = 11,580, a little higher with the tail, lower with the cut.
        assert!((10_000..14_000).contains(&sizes[10_000]), "{}", sizes[10_000]);
    }
}
