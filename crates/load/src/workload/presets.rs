//! Every workload of §3.8 and the papers' own, full and scaled, by name: `assets/presets.toml`.

use super::files::{FileSet, Listed};
use super::manifest::{Files, Offer};
use super::popularity::{Law, Mix, Purpose, stream, unit};
use super::think::{Pattern, surge};
use crate::number::{index, rounded};
use rand_distr::{Distribution, LogNormal, Pareto};
use serde::Deserialize;
use std::sync::LazyLock;

/// A workload by name: what `regatta workload new NAME` makes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Preset {
    pub name: String,
    /// Origin, with the mark of §0.1.
    pub source: String,
    pub about: String,
    pub shape: Shape,
    pub law: Law,
    pub pattern: Pattern,
    /// Load generators, each with its own log.
    pub clients: u32,
    /// Requests in each log.
    pub requests: u64,
    pub line_bits_per_s: Option<u64>,
    pub offer: Offer,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Shape {
    /// SPECweb99-like directories (§3.1).
    Specweb { dirs: u32 },
    /// Files of one size: `index.html` when there is one, `files/NNNNNN` otherwise.
    Equal { files: u32, bytes: u64 },
    /// A file of each of these sizes, `files/` and the size in seven digits: paths, and so
    /// requests, of one length.
    Sizes(Vec<u64>),
    /// A page with everything that it needs: its files, and those that are precompressed once more
    /// in each coding. Only the files themselves are asked for.
    Page(Vec<PageAsset>),
    /// SURGE's sizes \[mem\]: lognormal below 133 KB, Pareto above, in random order.
    Surge { files: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageAsset {
    pub path: String,
    pub bytes: u64,
    /// Bytes of its siblings in Brotli and gzip, if it has those.
    pub coded: Option<[u64; 2]>,
}

/// The scaled replica: 60 directories, two clients, think times scaled by 0.1 (§5.2).
impl Default for Preset {
    fn default() -> Self {
        Self {
            name: String::new(),
            source: String::new(),
            about: String::new(),
            shape: Shape::Specweb { dirs: 60 },
            law: Law::Specweb { mix: Mix::Iid },
            pattern: Pattern { scale: 0.1, ..Pattern::P10 },
            clients: 2,
            requests: 150_000,
            line_bits_per_s: None,
            offer: Offer { timeout_ms: 1_500, ..Offer::default() },
        }
    }
}

#[derive(Debug, Deserialize)]
struct Presets {
    preset: Vec<Preset>,
}

static PRESETS: LazyLock<Presets> = LazyLock::new(|| {
    toml::from_str(include_str!("../../assets/presets.toml")).expect("a test reads it")
});

/// Files of SURGE above the lognormal body, as a share \[mem\].
const SURGE_TAIL_SHARE: f64 = 0.07;
/// Largest file of the `surge` set, bytes: Pareto's tail has no end.
const SURGE_BYTES_MAX: f64 = 1e8;

impl Shape {
    /// The set, with `seed` for random sizes and `prefixes` for SPECweb99-like ones.
    pub fn file_set(&self, seed: u64, prefixes: &[&str]) -> Result<FileSet, super::fault::Fault> {
        match self {
            Self::Specweb { dirs } => FileSet::specweb(*dirs, prefixes),
            Self::Equal { files: 1, bytes } => FileSet::listed([listed("index.html", *bytes)]),
            Self::Equal { files, bytes } => {
                FileSet::listed((0..*files).map(|n| listed(&format!("files/{n:06}"), *bytes)))
            }
            Self::Sizes(sizes) => FileSet::listed(
                sizes.iter().map(|&bytes| listed(&format!("files/{bytes:07}"), bytes)),
            ),
            Self::Page(files) => {
                let own = files.iter().map(|file| listed(&file.path, file.bytes));
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
                let sizes = surge_sizes(*files, seed);
                let numbered = (0..*files).zip(sizes);
                FileSet::listed(numbered.map(|(n, bytes)| listed(&format!("files/{n:06}"), bytes)))
            }
        }
    }

    /// The files as a manifest names them.
    pub fn files(&self, prefixes: &[&str]) -> Files {
        match self {
            Self::Specweb { dirs } => {
                let prefixes = prefixes.iter().map(|&p| p.to_owned()).collect();
                Files::Specweb { dirs: *dirs, prefixes }
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

pub fn find(name: &str) -> Option<Preset> {
    all().iter().find(|preset| preset.name == name).cloned()
}

pub fn all() -> &'static [Preset] {
    &PRESETS.preset
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
        check("tiny", 8_000, 8_192_000, 10.0, 0.1289);
        check("names", 100_000, 102_400_000, 10.0, 0.1289);
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
        let Shape::Page(page) = &arena.shape else { panic!("{:?}", arena.shape) };
        assert_eq!(page.iter().map(least).sum::<u64>(), 219_000);
        assert!(set.find("/static/app.js.br").is_some() && set.find("/static/app.js.gz").is_some());
        assert!(set.find("/static/hero.webp.br").is_none());
    }

    #[test]
    fn names_are_distinct_and_patterns_possible() {
        let all = all();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|p| &*p.name).collect();
        assert_eq!(names.len(), all.len());
        for preset in all {
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
