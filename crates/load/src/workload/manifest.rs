//! `workload.json`: everything that says what a workload is, so that it can be made again. Its logs
//! are counted in one pass: requests per file, session lengths, off times.

use super::fault::{At, Fault};
use super::files::{FileId, FileSet};
use super::from_dir::hash_file;
use super::from_log::Observed;
use super::model;
use super::popularity::{Law, Mix, Popularity};
use super::session::{self, Session, US_PER_S};
use super::specweb::CLASS_PER_MILLE;
use super::think::Pattern;
use crate::number::{index, share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

pub const FORMAT: u32 = 1;
/// The manifest's name in a workload's directory.
pub const NAME: &str = "workload.json";
/// The list of files, when they are listed.
pub const LIST: &str = "files.tsv";
/// Directory of generated files.
pub const ROOT: &str = "root";

/// A workload: its requests, clients and load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub format: u32,
    /// The preset's name, `from-dir` or `from-log`.
    pub name: String,
    pub source: String,
    pub about: String,
    pub seed: u64,
    pub algorithm: String,
    pub files: Files,
    pub law: Law,
    /// Sessions; `None` when they are a real log's.
    pub pattern: Option<Pattern>,
    pub line_bits_per_s: Option<u64>,
    pub offer: Offer,
    /// Session logs, one per client.
    pub logs: Vec<Log>,
    pub observed: Option<Observed>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Files {
    /// By formula (§3.1).
    Specweb { dirs: u32, prefixes: Vec<String> },
    /// By [`LIST`], with generated contents.
    Listed,
    /// By [`LIST`], the user's own below `root`, with their hashes in the list.
    Users { root: PathBuf },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Sessions arrive on their own; inside one, a request follows the reply before (\[E\] §3.2).
    #[default]
    PartlyOpen,
    /// A fixed number of clients, each waiting for its reply.
    Closed,
    /// The arrival times of a real log.
    Replay,
}

/// A stretch of time with its own load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    pub seconds: u32,
    /// Load as a share of the requested rate, or of the clients.
    pub share: f64,
}

/// Settings for a load generator, besides the logs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offer {
    pub model: Model,
    /// Time-out of a request, milliseconds; 0 for the player's default.
    pub timeout_ms: u64,
    /// Requested rates that the paper swept, requests/s: least and most.
    pub requests_per_s: Option<(f64, f64)>,
    /// Closed model: clients, least and most.
    pub clients: Option<(u32, u32)>,
    /// Page cache over file set that the workload wants; `None`: all of it fits.
    pub cache_ratio: Option<f64>,
    pub idle_connections: u32,
    /// Stretches of load, in order; empty for a constant one.
    pub phases: Vec<Phase>,
    pub warm_up_s: u32,
    pub altered: Option<Altered>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Log {
    pub path: String,
    pub sha256: String,
    pub sessions: u64,
    pub requests: u64,
    pub distinct_files: u64,
    pub distinct_bytes: u64,
    pub requests_per_session: f64,
    pub off_s_per_request: f64,
    /// Requests per file size, bytes → requests; empty when there are over 1,000 sizes.
    pub per_size: BTreeMap<u64, u64>,
}

/// The most sizes that a log's entry counts one by one.
const SIZES_MAX: usize = 1_000;

impl Workload {
    /// The file set, read from `dir` when it is listed.
    pub fn file_set(&self, dir: &Path) -> Result<FileSet, Fault> {
        match &self.files {
            Files::Specweb { dirs, prefixes } => {
                let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
                FileSet::specweb(*dirs, &prefixes)
            }
            Files::Listed | Files::Users { .. } => {
                let path = dir.join(LIST);
                let file = File::open(&path).at(&path)?;
                FileSet::read_list(BufReader::new(file), &path)
            }
        }
    }

    /// Directory of the files, for a workload in `dir`.
    pub fn root(&self, dir: &Path) -> PathBuf {
        match &self.files {
            Files::Users { root } => root.clone(),
            Files::Specweb { .. } | Files::Listed => dir.join(ROOT),
        }
    }

    /// Reads the manifest of the workload in `dir`.
    pub fn read(dir: &Path) -> Result<Self, Fault> {
        let path = dir.join(NAME);
        let text = fs::read(&path).input(&path)?;
        let wrong = |error: serde_json::Error| {
            Fault::format(&path, u64::try_from(error.line()).unwrap_or(0), error.to_string())
        };
        let workload: Self = serde_json::from_slice(&text).map_err(wrong)?;
        if workload.format != FORMAT {
            return Err(Fault::format(&path, 0, format!("format {} is not 1", workload.format)));
        }
        let problems = workload.pattern.map(|p| p.problems()).unwrap_or_default();
        if problems.is_empty() {
            Ok(workload)
        } else {
            Err(Fault::format(&path, 0, problems.join("; ")))
        }
    }

    /// Writes the manifest, and the list of `set` when it is listed, into `dir`.
    pub fn write(&self, set: &FileSet, dir: &Path) -> Result<(), Fault> {
        if !matches!(self.files, Files::Specweb { .. }) {
            let path = dir.join(LIST);
            let mut out = BufWriter::new(File::create(&path).at(&path)?);
            set.write_list(&mut out).and_then(|()| out.flush()).at(&path)?;
        }
        let path = dir.join(NAME);
        let text = serde_json::to_string_pretty(self).expect("numbers, strings and lists");
        fs::write(&path, text + "\n").at(&path)
    }
}

/// The popularity that `law` gives to `set`, which it must suit.
pub fn popularity(law: Law, set: &FileSet) -> Result<Popularity, Fault> {
    if set.is_empty() {
        return Err(Fault::usage("a file set without files cannot be asked for"));
    }
    match (law, set.dirs()) {
        (Law::Specweb { mix }, Some(dirs)) => Ok(Popularity::specweb(dirs, mix)),
        (Law::Specweb { .. }, None) => {
            Err(Fault::usage("SPEC's popularity is for SPECweb99-like sets"))
        }
        (Law::Zipf { exponent }, _) if !(0.0..=10.0).contains(&exponent) => {
            Err(Fault::usage(format!("Zipf exponent {exponent} is not within 0 and 10")))
        }
        (Law::Zipf { exponent }, _) => Ok(Popularity::zipf(set.len(), exponent)),
        (Law::Uniform, _) => Ok(Popularity::uniform(set.len())),
        (Law::Counted, _) => {
            let weights: Vec<f64> = set.ids().map(|file| set.weight(file)).collect();
            if weights.iter().any(|&weight| weight > 0.0) {
                Ok(Popularity::counted(weights))
            } else {
                Err(Fault::usage("every weight in the list is 0"))
            }
        }
    }
}

#[derive(Debug)]
pub struct LogWriter<'a> {
    out: BufWriter<File>,
    set: &'a FileSet,
    name: String,
    path: PathBuf,
    tally: Tally,
}

impl<'a> LogWriter<'a> {
    /// Starts log number `client` of a workload in `dir`.
    pub fn create(set: &'a FileSet, dir: &Path, client: u32, head: &str) -> Result<Self, Fault> {
        let name = format!("logs/client-{client:03}.log");
        let path = dir.join(&name);
        let logs = dir.join("logs");
        fs::create_dir_all(&logs).at(&logs)?;
        let file = File::create(&path).at(&path)?;
        let mut out = BufWriter::with_capacity(1 << 16, file);
        for line in head.lines() {
            writeln!(out, "# {line}").at(&path)?;
        }
        out.write_all(b"\n").at(&path)?;
        Ok(Self { out, set, name, path, tally: Tally::new(set) })
    }

    pub fn write(&mut self, session: &Session) -> Result<(), Fault> {
        self.tally.add(self.set, session);
        session::write(session, &mut self.out).at(&self.path)
    }

    /// Ends the log: its entry for the manifest, and the counts.
    pub fn finish(mut self) -> Result<(Log, Tally), Fault> {
        self.out.flush().at(&self.path)?;
        let sha256 = hash_file(&self.path)?;
        let tally = self.tally;
        let (distinct_files, distinct_bytes) = tally.distinct(self.set);
        let mut per_size = tally.per_size(self.set);
        if per_size.len() > SIZES_MAX {
            per_size.clear();
        }
        let log = Log {
            path: self.name,
            sha256,
            sessions: tally.sessions,
            requests: tally.requests,
            distinct_files,
            distinct_bytes,
            requests_per_session: tally.mean_requests(),
            off_s_per_request: tally.off_s_per_request(),
            per_size,
        };
        Ok((log, tally))
    }
}

crate::named! {
    /// Way in which the file is rewritten (§2.16).
    pub enum Way {
        /// In place, through the page cache: what \[A\] says, and what forces no disk read, since
        /// the new pages are cached. A reply may be torn between two versions.
        Literal = "literal",
        /// A new file renamed over the old one: replies are whole; servers must notice the change.
        Renamed = "renamed",
        /// In place, then written to disk and dropped from the page cache: the next read is the
        /// disk's.
        Forced = "forced",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Altered {
    pub way: Way,
    pub period_ms: u64,
}

impl fmt::Display for Altered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}ms", self.way.name(), self.period_ms)
    }
}

/// Session lengths are counted one by one up to this many requests, and together above.
pub const LENGTH_MAX: usize = 1_000;

/// Counts over one or many logs of one file set. Eight bytes per file.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    per_file: Vec<u64>,
    /// Sessions per length, shortest first; those above [`LENGTH_MAX`] count as that.
    pub lengths: BTreeMap<usize, u64>,
    pub sessions: u64,
    pub requests: u64,
    pub bursts: u64,
    /// Requests for targets that the set does not have.
    pub unknown: u64,
    /// Sum of the think times between bursts, microseconds.
    pub think_us: u64,
}

impl Tally {
    pub fn new(set: &FileSet) -> Self {
        Self { per_file: vec![0; index(set.len().into())], ..Self::default() }
    }

    pub fn add(&mut self, set: &FileSet, session: &Session) {
        self.sessions += 1;
        self.requests += session.len() as u64;
        self.bursts += session.bursts().count() as u64;
        self.think_us += session.think_total_us();
        *self.lengths.entry(session.len().min(LENGTH_MAX)).or_default() += 1;
        for request in session.requests() {
            match set.find(request.target) {
                Some(file) => self.per_file[index(file.0.into())] += 1,
                None => self.unknown += 1,
            }
        }
    }

    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.per_file.len(), other.per_file.len(), "tallies of one file set");
        for (mine, theirs) in self.per_file.iter_mut().zip(&other.per_file) {
            *mine += theirs;
        }
        for (&length, &count) in &other.lengths {
            *self.lengths.entry(length).or_default() += count;
        }
        self.sessions += other.sessions;
        self.requests += other.requests;
        self.bursts += other.bursts;
        self.unknown += other.unknown;
        self.think_us += other.think_us;
    }

    pub fn of(&self, file: FileId) -> u64 {
        self.per_file[index(file.0.into())]
    }

    pub fn distinct(&self, set: &FileSet) -> (u64, u64) {
        set.ids()
            .filter(|&file| self.of(file) > 0)
            .fold((0, 0), |(files, bytes), file| (files + 1, bytes + set.bytes(file)))
    }

    pub fn reply_bytes(&self, set: &FileSet) -> u64 {
        set.ids().map(|file| self.of(file) * set.bytes(file)).sum()
    }

    pub fn per_size(&self, set: &FileSet) -> BTreeMap<u64, u64> {
        let mut sizes = BTreeMap::new();
        for file in set.ids() {
            *sizes.entry(set.bytes(file)).or_default() += self.of(file);
        }
        sizes
    }

    pub fn per_class(&self, set: &FileSet) -> [u64; 4] {
        let mut classes = [0; 4];
        for file in set.ids() {
            classes[usize::from(set.class(file))] += self.of(file);
        }
        classes
    }

    pub fn mean_requests(&self) -> f64 {
        share(self.requests, self.sessions)
    }

    pub fn off_s_per_request(&self) -> f64 {
        share(self.think_us, self.requests) / US_PER_S as f64
    }

    /// §3.4's acceptance rules: per-size counts within 4σ of `popularity`, class counts exact in
    /// deck mode, distinct files within 1 % of Σ(1 − (1 − p)^N). Empty when all are met. Where
    /// counts are too small for that, chance is given its due: 16/3 requests below 100 expected, 5σ
    /// for more than 36 sizes, 4σ of the distinct files.
    pub fn problems(&self, set: &FileSet, popularity: &Popularity) -> Vec<String> {
        let mut problems = Vec::new();
        if self.unknown > 0 {
            problems.push(format!("{} requests for files outside the set", self.unknown));
        }
        let known = self.requests as f64;
        let mut shares: BTreeMap<u64, f64> = BTreeMap::new();
        for file in set.ids() {
            *shares.entry(set.bytes(file)).or_default() += popularity.share(file);
        }
        let sigmas = if shares.len() > 36 { 5.0 } else { 4.0 };
        for (bytes, count) in self.per_size(set) {
            let share = shares.get(&bytes).copied().unwrap_or(0.0);
            let mean = known * share;
            let sigma = (mean * (1.0 - share)).sqrt();
            let slack = if mean < 100.0 { sigmas * sigmas / 3.0 } else { 1e-6 };
            if (count as f64 - mean).abs() > sigmas * sigma + slack {
                problems.push(format!("{count} requests of {bytes} bytes, not {mean:.0}"));
            }
        }
        if popularity.law() == (Law::Specweb { mix: Mix::Deck }) {
            let classes = self.per_class(set);
            let exact = classes.iter().zip(CLASS_PER_MILLE);
            let rest = self.requests % 1000;
            if exact.clone().any(|(&n, m)| n.abs_diff(self.requests / 1000 * u64::from(m)) > rest) {
                problems.push(format!("the deck dealt {classes:?} of the classes"));
            }
        }
        let expected = model::distinct(&model::items(set, popularity), known);
        let (files, _) = self.distinct(set);
        let slack = (expected.files * 0.01).max(4.0 * expected.files_sigma + 1e-6);
        if (files as f64 - expected.files).abs() > slack {
            problems.push(format!("{files} distinct files, not {:.0}", expected.files));
        }
        problems
    }
}
