//! Candidates of the race: architectures and options, with ranges that content and machine suggest;
//! the content that is to be served.

use crate::units::walk;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub(crate) const ARCHITECTURE: &str = "server.architecture";
const PROCESSES: &str = "event.processes";
/// The largest body that is kept in memory unless told otherwise, bytes (docs/options.md).
const BODY_BYTES_MAX: u64 = 65_536;
/// Memory for the cache of each worker unless told otherwise, bytes.
const CACHE_BYTES_MAX: u64 = 256 << 20;
/// Files kept open unless told otherwise.
const DESCRIPTORS_MAX: usize = 8_192;

/// A configuration that takes part: what differs from the server's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Candidate {
    /// Options (`section.key`) and their values.
    pub config: BTreeMap<String, String>,
}

/// The name of the configuration that changes nothing.
pub const DEFAULT: &str = "default";

impl Candidate {
    pub(crate) fn of(options: &[(&str, &str)]) -> Self {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Self { config: options.iter().map(pair).collect() }
    }

    /// Name: the architecture and the other options that are set.
    pub fn name(&self) -> String {
        let mut words: Vec<String> = self.config.get(ARCHITECTURE).cloned().into_iter().collect();
        let others = self.config.iter().filter(|(key, _)| *key != ARCHITECTURE);
        words.extend(others.map(|(key, value)| {
            let key = key.split_once('.').map_or(key.as_str(), |(_, key)| key);
            format!("{key}={value}")
        }));
        if words.is_empty() { DEFAULT.to_owned() } else { words.join(" ") }
    }

    /// With one option set, or as the architecture has it (None).
    fn with(&self, key: &str, value: Option<&str>) -> Self {
        let mut config = self.config.clone();
        match value {
            Some(value) => config.insert(key.to_owned(), value.to_owned()),
            None => config.remove(key),
        };
        Self { config }
    }

    /// Whether it says how many processes there are, and not how many for each processor.
    pub(crate) fn counts_processes(&self) -> bool {
        self.config.contains_key(PROCESSES)
    }

    /// The options in which it differs from another.
    pub(crate) fn differs(&self, other: &Self) -> Vec<String> {
        let mut keys: Vec<&String> = self.config.keys().chain(other.config.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let differs = |key: &&&String| self.config.get(**key) != other.config.get(**key);
        keys.iter().filter(differs).map(|key| (**key).clone()).collect()
    }
}

/// An option that can be moved.
#[derive(Clone, Debug, PartialEq)]
struct Knob {
    key: &'static str,
    /// Values; None leaves the architecture's own.
    levels: Vec<Option<String>>,
    /// Architectures that have it; empty: all.
    only: &'static [&'static str],
}

/// Everything that may take part.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// Candidates at the start of the race, the most promising first.
    pub first: Vec<Candidate>,
    knobs: Vec<Knob>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Means {
    pub cpus: usize,
    pub memory: u64,
    #[serde(default)]
    pub descriptors: u64,
}

impl Space {
    /// Space that content and machine suggest.
    pub fn of(site: &Site, means: Means) -> Self {
        Self { first: first(means.cpus), knobs: knobs(site, means) }
    }

    /// Every configuration that is one option away from a candidate.
    pub fn neighbours(&self, of: &Candidate) -> Vec<Candidate> {
        let architecture = of.config.get(ARCHITECTURE).map_or("symped", String::as_str);
        let mut found = Vec::new();
        for knob in &self.knobs {
            if !knob.only.is_empty() && !knob.only.contains(&architecture) {
                continue;
            }
            let there = of.config.get(knob.key);
            let others = knob.levels.iter().filter(|level| level.as_ref() != there);
            found.extend(others.map(|level| of.with(knob.key, level.as_deref())));
        }
        found
    }

    /// A candidate with everything that each of `moves` changes in it, if there are two or more.
    pub(crate) fn combined(of: &Candidate, moves: &[Candidate]) -> Option<Candidate> {
        let mut all = of.clone();
        for one in moves {
            for key in one.differs(of) {
                all = all.with(&key, one.config.get(&key).map(String::as_str));
            }
        }
        (moves.len() > 1).then_some(all)
    }
}

const SEVERAL: &[&str] = &["symped", "shared-symped"];
/// Architectures whose connections wait in event loops, and never in threads of their own.
const LOOPS: &[&str] = &["symped", "shared-symped", "sped", "amped", "laio", "n-copy"];

fn first(cpus: usize) -> Vec<Candidate> {
    let mut counts: Vec<usize> = vec![2, cpus, 4, 2 * cpus, 8];
    let mut seen = BTreeSet::new();
    counts.retain(|count| *count > 1 && seen.insert(*count));
    let mut all = Vec::new();
    let plain = |name: &str| Candidate::of(&[(ARCHITECTURE, name)]);
    // A number equal to that of processors is the default, on any machine.
    let several = |name: &str, count: usize| {
        let count = (count != cpus).then(|| count.to_string());
        plain(name).with(PROCESSES, count.as_deref())
    };
    // The default is a symped process for each processor.
    let new = |name: &str, count: usize| name != "symped" || count != cpus;
    all.extend(new("symped", counts[0]).then(|| several("symped", counts[0])));
    all.push(plain("amped"));
    all.push(plain("laio"));
    all.push(several("shared-symped", counts[0]));
    all.push(plain("hybrid"));
    all.push(plain("mt"));
    all.push(plain("means"));
    all.push(plain("sped").with("event.poller", Some("epoll-edge")));
    for count in &counts[1..] {
        let names = SEVERAL.iter().filter(|name| new(name, *count));
        all.extend(names.map(|name| several(name, *count)));
    }
    if cpus > 1 {
        all.push(plain("sped"));
    }
    all.push(plain("laio").with("laio.engine", Some("nowait")));
    all.push(plain("sped").with("cache.body_bytes_max", Some("0")));
    if cpus > 1 {
        all.push(plain("n-copy").with("event.partition", Some("steer-cpu")));
    }
    all
}

fn knob(key: &'static str, levels: &[impl ToString], only: &'static [&'static str]) -> Knob {
    let levels = levels.iter().map(|level| Some(level.to_string()));
    Knob { key, levels: [None].into_iter().chain(levels).collect(), only }
}

fn knobs(site: &Site, means: Means) -> Vec<Knob> {
    let mut counts: Vec<usize> = vec![2, 3, 4, 6, 8, 12, 16];
    counts.retain(|count| *count <= (4 * means.cpus).max(8) && *count != means.cpus);
    // Bodies in memory, or sent from the file; no level that no file of the site is concerned by.
    let mut bodies: Vec<u64> = vec![0, 4 << 10, 16 << 10, 256 << 10, 1 << 20, 8 << 20];
    bodies.retain(|bytes| *bytes < BODY_BYTES_MAX || site.largest > BODY_BYTES_MAX);
    bodies.retain(|bytes| *bytes < site.largest.max(1).saturating_mul(4));
    // More of the site in memory, if it fits together with the page cache, or less.
    let room = means.memory / 2;
    let whole = site.bytes + site.bytes / 4;
    let mut sizes: Vec<u64> = vec![8 << 20, 64 << 20];
    sizes.extend([whole].into_iter().filter(|size| *size > CACHE_BYTES_MAX && *size < room));
    sizes.retain(|size| *size < site.bytes || *size > CACHE_BYTES_MAX);
    let mut knobs = vec![
        knob(PROCESSES, &counts, SEVERAL),
        knob("event.poller", &["epoll-edge"], LOOPS),
        knob("cache.body_bytes_max", &bodies, &[]),
        knob("accept.count", &["1", "25"], LOOPS),
        knob("event.listen", &["exclusive"], SEVERAL),
        knob("accept.defer", &["true"], &[]),
        knob("event.turn_bytes_max", &["262144", "16777216"], LOOPS),
        knob("cache.bytes_max", &sizes, &[]),
    ];
    if site.files > DESCRIPTORS_MAX {
        let mut files = vec![site.files + site.files / 4, 1_024];
        // Connections have descriptors, too.
        files.retain(|files| *files as u64 <= means.descriptors / 2);
        knobs.push(knob("cache.descriptors_max", &files, &[]));
    }
    knobs.extend([
        knob("amped.helpers_max", &["4", "64"], &["amped"]),
        knob("amped.chunk_bytes", &["65536", "1048576"], &["amped"]),
        knob("laio.engine", &["nowait"], &["laio"]),
        knob("laio.chunk_bytes", &["65536", "1048576"], &["laio"]),
        knob("pool.threads", &["8", "128"], &["hybrid"]),
        knob("threads.spare_max", &["1000"], &["mt"]),
        knob("fiber.steal", &["true"], &["means"]),
    ]);
    if means.cpus > 1 {
        knobs.push(knob("event.pin", &["cpu"], LOOPS));
    }
    knobs
}

/// The most files that are counted, as `regatta workload from-dir` has it.
const FILES_MAX: usize = 1_000_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    pub files: usize,
    pub bytes: u64,
    pub largest: u64,
    /// Files of up to 1 KiB, 10 KiB, 100 KiB, 1 MiB, and larger.
    pub sizes: Vec<usize>,
}

/// Upper ends of the sizes' classes, bytes.
const CLASSES: [u64; 4] = [1 << 10, 10 << 10, 100 << 10, 1 << 20];

impl Site {
    /// Looks at a directory. Links and what is hidden are left out, as the server leaves them out.
    pub fn scan(root: &Path) -> Result<Self, String> {
        let mut site = Self { sizes: vec![0; CLASSES.len() + 1], ..Self::default() };
        walk(root, |path, kind| {
            let name = path.file_name().unwrap_or_default();
            let hidden = name.as_encoded_bytes().starts_with(b".") && name != ".well-known";
            if kind.is_file() && !hidden && site.files < FILES_MAX {
                site.add(path.symlink_metadata()?.len());
            }
            Ok(!hidden)
        })?;
        if site.files == 0 {
            return Err(format!("{} has no file to serve", root.display()));
        }
        Ok(site)
    }

    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        let class = CLASSES.iter().position(|end| bytes <= *end).unwrap_or(CLASSES.len());
        self.sizes[class] += 1;
    }

    pub fn words(&self) -> String {
        let names = ["to 1 KiB", "to 10 KiB", "to 100 KiB", "to 1 MiB", "larger"];
        let sizes: Vec<String> = self
            .sizes
            .iter()
            .zip(names)
            .filter(|(files, _)| **files > 0)
            .map(|(files, name)| format!("{files} {name}"))
            .collect();
        let mib = crate::units::real(self.bytes) / f64::from(1 << 20);
        format!("{} files, {mib:.1} MiB: {}", self.files, sizes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: Site = Site { files: 100, bytes: 1_000_000, largest: 30_000, sizes: Vec::new() };

    #[test]
    fn names_tell_what_differs() {
        let two = Candidate::of(&[(ARCHITECTURE, "symped"), (PROCESSES, "2")]);
        assert_eq!(two.name(), "symped processes=2");
        assert_eq!(Candidate::default().name(), "default");
        let edge = two.with("event.poller", Some("epoll-edge"));
        assert_eq!(edge.differs(&two), ["event.poller"]);
        let three = two.with(PROCESSES, Some("3"));
        let both = Space::combined(&two, &[edge.clone(), three]).unwrap();
        assert_eq!(both.name(), "symped poller=epoll-edge processes=3");
        assert_eq!(Space::combined(&two, &[edge]), None);
    }

    #[test]
    fn knobs_are_those_that_the_architecture_has_and_the_content_concerns() {
        let space = Space::of(&SITE, Means { cpus: 1, memory: 1 << 30, descriptors: 20_000 });
        let keys = |of: &Candidate| -> Vec<String> {
            let near = space.neighbours(of);
            assert!(near.iter().all(|one| one.differs(of).len() == 1));
            near.iter().flat_map(|one| one.differs(of)).collect()
        };
        let sped = keys(&Candidate::of(&[(ARCHITECTURE, "sped")]));
        assert!(!sped.iter().any(|key| key == PROCESSES || key.starts_with("amped")), "{sped:?}");
        let amped = keys(&Candidate::of(&[(ARCHITECTURE, "amped")]));
        assert!(amped.iter().any(|key| key == "amped.helpers_max"), "{amped:?}");
        let mt = keys(&Candidate::of(&[(ARCHITECTURE, "mt")]));
        assert!(mt.iter().any(|key| key == "threads.spare_max"), "{mt:?}");
        assert!(!mt.iter().any(|key| key.starts_with("event.")), "{mt:?}");
        let bodies: Vec<Candidate> = space
            .neighbours(&Candidate::default())
            .into_iter()
            .filter(|one| one.config.contains_key("cache.body_bytes_max"))
            .collect();
        assert_eq!(bodies.len(), 3, "no file is larger than the default keeps: {bodies:?}");
        let large = Site { bytes: 1 << 30, largest: 1 << 20, files: 50_000, ..SITE };
        let machine = Means { cpus: 8, memory: 8 << 30, descriptors: 20_000 };
        let space = Space::of(&large, machine);
        let near = space.neighbours(&Candidate::default());
        for key in ["cache.bytes_max", "cache.descriptors_max", "event.pin"] {
            assert!(near.iter().any(|one| one.config.contains_key(key)), "{key}");
        }
        let of_files = |means: Means| -> Vec<String> {
            let near = Space::of(&large, means).neighbours(&Candidate::default());
            near.iter().filter_map(|one| one.config.get("cache.descriptors_max").cloned()).collect()
        };
        assert_eq!(of_files(machine), ["1024"], "20,000 descriptors do not hold 50,000 files");
        assert_eq!(of_files(Means { descriptors: 1 << 20, ..machine }), ["62500", "1024"]);
        let raced: Vec<String> = space.first.iter().map(Candidate::name).collect();
        for name in ["symped processes=16", "shared-symped", "sped", "hybrid", "mt", "means"] {
            assert!(raced.iter().any(|one| one == name), "{name}: {raced:?}");
        }
        assert!(!raced.contains(&"symped processes=8".to_owned()), "the default on 8 processors");
    }
}

#[cfg(test)]
mod site_tests {
    use super::*;
    use crate::folder::Folder;
    use std::fs;

    #[test]
    fn what_is_served_is_counted() {
        let root = Folder::new("lab-test");
        fs::create_dir_all(root.join("a/.hidden")).unwrap();
        assert!(Site::scan(&root).unwrap_err().contains("no file"));
        fs::write(root.join("a/one"), vec![0; 500]).unwrap();
        fs::write(root.join("two"), vec![0; 5_000]).unwrap();
        fs::write(root.join("a/.hidden/three"), "x").unwrap();
        fs::write(root.join(".four"), "x").unwrap();
        let site = Site::scan(&root).unwrap();
        assert_eq!((site.files, site.bytes, site.largest), (2, 5_500, 5_000));
        assert_eq!(site.words(), "2 files, 0.0 MiB: 1 to 1 KiB, 1 to 10 KiB");
        fs::remove_dir_all(&*root).unwrap();
        assert!(Site::scan(&root).is_err());
    }
}
