//! `regatta workload new | inspect | from-dir | from-log`: options in, files and text out.
//!
//! The command line reads the options; every check of their values is here, and all problems are
//! named at once.

use super::alter::{self, Rewriting};
use super::fault::{At, Fault, Partial, Progress, Watch, tell};
use super::files::{FileSet, Listed};
use super::from_dir::{self, Ranks};
use super::from_log::{self, Distilled, Rules};
use super::manifest::{
    self, Altered, FORMAT, Files, Log, LogWriter, Model, Offer, Tally, Workload,
};
use super::popularity::{ALGORITHM, Law, Mix, Popularity};
use super::presets::{self, Preset, Shape};
use super::report::{self, Questions, Report, Subject};
use super::session::Reader;
use super::specweb::{self, dirs_for_load};
use super::think::{Pattern, Think, Trace, TraceSpec};
use crate::number::rounded;
use crate::with_defaults;
use clap::Args;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of files that `new` and `from-log` make without being told more: 16 GiB.
pub const BYTES_MAX: u64 = 16 << 30;
/// The most load generators of a workload.
pub const CLIENTS_MAX: u32 = 10_000;

/// `workload new`.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct NewOptions {
    /// The preset; any other name lists them.
    pub preset: String,
    /// The directory to make.
    pub out: PathBuf,
    /// Random seed: the same seed makes the same bytes.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Directories of a SPECweb99-like set.
    #[arg(long)]
    pub dirs: Option<u32>,
    /// SPEC's load, which gives the directories by SPEC's formula.
    #[arg(long, conflicts_with = "dirs")]
    pub load: Option<u64>,
    /// Prefix of the directories; several are used in turn.
    #[arg(long = "prefix")]
    pub prefixes: Vec<String>,
    /// Load generators, each with its own session log.
    #[arg(long)]
    pub clients: Option<u32>,
    /// Requests in each log.
    #[arg(long)]
    pub requests: Option<u64>,
    /// The most sessions in each log, 0 for no limit; httperf as packaged takes 1000.
    #[arg(long, default_value_t = 0)]
    pub sessions_max: u64,
    /// Session pattern: p10 or spec.
    #[arg(long)]
    pub pattern: Option<Pattern>,
    /// Think times: constant (the papers'), surge (Pareto and Weibull) or none.
    #[arg(long)]
    pub think: Option<Think>,
    /// Factor by which think times are multiplied.
    #[arg(long, allow_negative_numbers = true)]
    pub scale: Option<f64>,
    /// Method of drawing classes.
    #[arg(long)]
    pub mix: Option<Mix>,
    /// Line speed of each session, bit/s.
    #[arg(long = "line", value_name = "LINE")]
    pub line_bits_per_s: Option<u64>,
    /// Make only logs and manifest, no files.
    #[arg(long)]
    pub without_files: bool,
    /// The most bytes to write; more is refused.
    #[arg(long, default_value_t = BYTES_MAX)]
    pub bytes_max: u64,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

impl NewOptions {
    /// Preset `preset` into `out`, seed 1, nothing changed.
    pub fn new(preset: &str, out: &Path) -> Self {
        with_defaults(&[preset.as_ref(), out.as_ref()])
    }

    /// The preset with these options applied, or every problem.
    fn preset(&self) -> Result<Preset, Fault> {
        let Some(mut preset) = presets::find(&self.preset) else {
            let what = format!("no preset {:?}; there are {}", self.preset, preset_names());
            return Err(Fault::usage(what));
        };
        let mut problems = Vec::new();
        self.apply_dirs(&mut preset, &mut problems);
        preset.clients = self.clients.unwrap_or(preset.clients);
        preset.requests = self.requests.unwrap_or(preset.requests);
        preset.pattern = self.pattern.unwrap_or(preset.pattern);
        preset.pattern.think = self.think.unwrap_or(preset.pattern.think);
        preset.pattern.scale = self.scale.unwrap_or(preset.pattern.scale);
        preset.line_bits_per_s = self.line_bits_per_s.or(preset.line_bits_per_s);
        match (self.mix, preset.law) {
            (Some(mix), Law::Specweb { .. }) => preset.law = Law::Specweb { mix },
            (Some(_), _) => problems.push("a mix is for SPECweb99-like sets".to_owned()),
            (None, _) => {}
        }
        problems.extend(preset.pattern.problems());
        if !(1..=CLIENTS_MAX).contains(&preset.clients) {
            problems.push(format!("clients must be 1 to {CLIENTS_MAX}"));
        }
        if preset.requests == 0 {
            problems.push("requests must be at least 1".to_owned());
        }
        if preset.line_bits_per_s == Some(0) {
            problems.push("a line of 0 bit/s never delivers".to_owned());
        }
        Fault::if_any(problems).map(|()| preset)
    }

    fn apply_dirs(&self, preset: &mut Preset, problems: &mut Vec<String>) {
        let by_load = self.load.map(|load| u32::try_from(dirs_for_load(load.min(1 << 40))));
        let dirs = match (self.dirs, by_load) {
            (Some(_), Some(_)) => {
                problems.push("give directories or a load, not both".to_owned());
                return;
            }
            (dirs, load) => dirs.or(load.map(|load| load.unwrap_or(u32::MAX))),
        };
        match (dirs, &mut preset.shape) {
            (None, _) => {}
            (Some(given), Shape::Specweb { dirs }) => *dirs = given,
            (Some(_), _) => problems.push(format!("{} has no directories", self.preset)),
        }
    }

    fn workload(&self, preset: &Preset) -> Workload {
        Workload {
            format: FORMAT,
            name: preset.name.clone(),
            source: preset.source.clone(),
            about: preset.about.clone(),
            seed: self.seed,
            algorithm: ALGORITHM.to_owned(),
            files: preset.shape.files(&self.prefixes()),
            law: preset.law,
            pattern: Some(preset.pattern),
            line_bits_per_s: preset.line_bits_per_s,
            offer: preset.offer.clone(),
            logs: Vec::new(),
            observed: None,
        }
    }

    fn prefixes(&self) -> Vec<&str> {
        if self.prefixes.is_empty() {
            vec!["file_set"]
        } else {
            self.prefixes.iter().map(String::as_str).collect()
        }
    }
}

fn preset_names() -> String {
    presets::all().iter().map(|preset| &*preset.name).collect::<Vec<_>>().join(", ")
}

/// Makes a workload: files, session logs, manifest; prints what [`inspect`] says of it. A failure
/// leaves nothing behind.
pub fn new(options: &NewOptions, watch: Watch<'_>, out: &mut dyn Write) -> Result<u8, Fault> {
    let preset = options.preset()?;
    let set = preset.shape.file_set(options.seed, &options.prefixes())?;
    let workload = options.workload(&preset);
    let popularity = manifest::popularity(workload.law, &set)?;
    if !options.without_files {
        room_for(&set, options.bytes_max)?;
    }
    let partial = Partial::begin(&options.out)?;
    if !options.without_files {
        let root = partial.path().join(manifest::ROOT);
        set.create(&root, watch)?;
        if let Some(altered) = workload.offer.altered {
            for file in set.ids() {
                alter::write(&root, &set.path(file), set.bytes(file), 0, altered.way)?;
            }
        }
    }
    let spec = TraceSpec {
        sessions_max: options.sessions_max,
        line_bits_per_s: preset.line_bits_per_s,
        ..TraceSpec::new(options.seed, preset.requests, preset.pattern)
    };
    let logs = make_logs(&set, &popularity, &spec, preset.clients, partial.path(), watch)?;
    finish(workload, set, popularity, logs, partial, options.json, out)
}

fn room_for(set: &FileSet, bytes_max: u64) -> Result<(), Fault> {
    let bytes = set.total_bytes();
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Fault::usage(format!("the set has {bytes} bytes, over the limit of {bytes_max}")))
}

/// Makes a log for each client, and counts over all.
fn make_logs(
    set: &FileSet,
    popularity: &Popularity,
    spec: &TraceSpec,
    clients: u32,
    dir: &Path,
    watch: Watch<'_>,
) -> Result<(Vec<Log>, Tally), Fault> {
    let (mut logs, mut tally) = (Vec::new(), Tally::new(set));
    let (mut done, total) = (0, spec.requests * u64::from(clients));
    for client in 0..clients {
        let head = format!("regatta session log 1: seed {}, client {client}", spec.seed);
        let mut log = LogWriter::create(set, dir, client, &head)?;
        for session in Trace::new(set, popularity, &TraceSpec { client, ..*spec }) {
            log.write(&session)?;
            done += session.len() as u64;
            if done % 4_096 < session.len() as u64 {
                tell(watch, Progress { what: "requests", done, total })?;
            }
        }
        let (entry, counts) = log.finish()?;
        logs.push(entry);
        tally.merge(&counts);
    }
    Ok((logs, tally))
}

/// Writes the manifest, gives the directory its name, and prints what [`inspect`] says of it.
fn finish(
    mut workload: Workload,
    set: FileSet,
    popularity: Popularity,
    (logs, tally): (Vec<Log>, Tally),
    partial: Partial,
    json: bool,
    out: &mut dyn Write,
) -> Result<u8, Fault> {
    workload.logs = logs;
    workload.write(&set, partial.path())?;
    partial.commit()?;
    let (name, logs) = (workload.name.clone(), Some((tally, workload.logs.len() as u64)));
    let subject = Subject { name, set, popularity, workload: Some(workload), logs };
    print(&report::inspect(&subject, &Questions::default())?, json, out)
}

fn print(report: &Report, json: bool, out: &mut dyn Write) -> Result<u8, Fault> {
    let written = if json {
        let text = serde_json::to_string_pretty(report).expect("numbers, strings and lists");
        writeln!(out, "{text}")
    } else {
        report::write(report, out)
    };
    written.at(Path::new("standard output"))?;
    let accepted = report.logs.as_ref().is_none_or(|logs| logs.problems.is_empty());
    Ok(u8::from(!accepted))
}

/// Subject of `workload inspect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A preset as it would be made: nothing is read.
    Preset(String),
    /// A workload's directory, a directory of files, or a session log.
    Path(PathBuf),
}

impl From<&str> for What {
    fn from(text: &str) -> Self {
        let preset = presets::find(text).is_some();
        if preset { Self::Preset(text.to_owned()) } else { Self::Path(text.into()) }
    }
}

/// `workload inspect`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct InspectOptions {
    /// A preset's name, or the path of a workload, a directory, or a session log.
    pub what: What,
    /// Directories of a SPECweb99-like set.
    #[arg(long)]
    pub dirs: Option<u32>,
    /// Questions to the calculator.
    #[command(flatten)]
    pub questions: Questions,
    /// Read every file and compare it with its expected content.
    #[arg(long)]
    pub check: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Prints what a file set and its logs contain, and what the models predict of them. Returns 1 when
/// logs miss the acceptance rules of §3.4.
pub fn inspect(
    options: &InspectOptions,
    watch: Watch<'_>,
    out: &mut dyn Write,
) -> Result<u8, Fault> {
    let found = match &options.what {
        What::Preset(name) => find_preset(name, options.dirs)?,
        What::Path(path) if path.join(manifest::NAME).exists() => find_workload(path, watch)?,
        What::Path(path) if path.is_dir() => find_root(path, watch)?,
        What::Path(path) if path.exists() => find_log(path)?,
        What::Path(path) => {
            let (what, names) = (path.display(), preset_names());
            let what = format!("{what} is no workload, directory, log or preset; presets: {names}");
            return Err(Fault::usage(what));
        }
    };
    if options.check
        && let What::Path(path) = &options.what
    {
        check(&found, path, watch)?;
    }
    let mut questions = options.questions;
    let ratio = found.workload.as_ref().and_then(|workload| workload.offer.cache_ratio);
    let wanted = ratio.map(|ratio| rounded(ratio * found.set.total_bytes() as f64));
    questions.cache_bytes = questions.cache_bytes.or(wanted);
    print(&report::inspect(&found, &questions)?, options.json, out)
}

fn find_preset(name: &str, dirs: Option<u32>) -> Result<Subject, Fault> {
    let options = NewOptions { dirs, ..NewOptions::new(name, Path::new("-")) };
    let preset = options.preset()?;
    let set = preset.shape.file_set(options.seed, &options.prefixes())?;
    let workload = options.workload(&preset);
    let popularity = manifest::popularity(workload.law, &set)?;
    Ok(Subject { name: name.to_owned(), set, popularity, workload: Some(workload), logs: None })
}

fn find_workload(dir: &Path, watch: Watch<'_>) -> Result<Subject, Fault> {
    let workload = Workload::read(dir)?;
    let set = workload.file_set(dir)?;
    let popularity = manifest::popularity(workload.law, &set)?;
    let mut tally = Tally::new(&set);
    for log in &workload.logs {
        let path = dir.join(&log.path);
        for session in Reader::new(BufReader::new(File::open(&path).at(&path)?), &path) {
            tally.add(&set, &session?);
            if tally.sessions.is_multiple_of(1 << 14) {
                let done = tally.sessions;
                tell(watch, Progress { what: "sessions", done, total: 0 })?;
            }
        }
    }
    let logs = (!workload.logs.is_empty()).then_some((tally, workload.logs.len() as u64));
    Ok(Subject { name: workload.name.clone(), set, popularity, workload: Some(workload), logs })
}

/// A directory without a manifest: SPECweb99-like when its names say so, uniform otherwise.
fn find_root(root: &Path, watch: Watch<'_>) -> Result<Subject, Fault> {
    let listed = from_dir::scan(root, Ranks::ByName, false, 0, watch)?.whole()?;
    let (set, law) = match as_specweb(&listed) {
        Some(set) => (set, Law::Specweb { mix: Mix::Iid }),
        None => (listed, Law::Uniform),
    };
    let popularity = manifest::popularity(law, &set)?;
    Ok(Subject { name: root.display().to_string(), set, popularity, workload: None, logs: None })
}

/// The SPECweb99-like set that has exactly these files, if there is one with a single prefix.
fn as_specweb(listed: &FileSet) -> Option<FileSet> {
    let first = listed.path(super::files::FileId(0));
    let prefix = first.rsplitn(3, '/').nth(2)?;
    let set = FileSet::specweb(listed.len() / specweb::FILES_PER_DIR, &[prefix]).ok()?;
    let same = set.len() == listed.len()
        && set.ids().all(|file| {
            let there = listed.find(&set.path(file));
            there.is_some_and(|there| listed.bytes(there) == set.bytes(file))
        });
    same.then_some(set)
}

/// A session log on its own: the files it asks for, with the sizes that names or hints tell.
fn find_log(path: &Path) -> Result<Subject, Fault> {
    let open = || -> Result<_, Fault> {
        Ok(Reader::new(BufReader::new(File::open(path).input(path)?), path))
    };
    let mut targets = BTreeMap::<String, (u64, u64)>::new();
    for session in open()? {
        for request in session?.requests() {
            let Some(file) = super::files::file_of_target(request.target) else { continue };
            let bytes = request.reply_bytes.or_else(|| specweb::bytes_of_name(&file));
            let seen = targets.entry(file).or_default();
            *seen = (seen.0 + 1, seen.1.max(bytes.unwrap_or(0)));
        }
    }
    let listed =
        |(path, (count, bytes))| Listed { path, bytes, weight: count as f64, sha256: None };
    let set = FileSet::listed(targets.into_iter().map(listed))?;
    let popularity = manifest::popularity(Law::Counted, &set)?;
    let mut tally = Tally::new(&set);
    for session in open()? {
        tally.add(&set, &session?);
    }
    let name = path.display().to_string();
    Ok(Subject { name, set, popularity, workload: None, logs: Some((tally, 1)) })
}

/// Compares files with their contents, and logs with their hashes.
fn check(found: &Subject, path: &Path, watch: Watch<'_>) -> Result<(), Fault> {
    let Some(workload) = &found.workload else {
        return if path.is_dir() { found.set.verify(path, watch) } else { Ok(()) };
    };
    for log in &workload.logs {
        let full = path.join(&log.path);
        if from_dir::hash_file(&full)? != log.sha256 {
            return Err(Fault::Damaged { files: 1, first: format!("{}: its hash", log.path) });
        }
    }
    let root = workload.root(path);
    match workload.files {
        Files::Users { .. } => from_dir::verify(&found.set, &root, watch),
        // A file that is rewritten while it is served has any version.
        _ if workload.offer.altered.is_some() || !root.exists() => Ok(()),
        _ => found.set.verify(&root, watch),
    }
}

/// Longest wait between checks whether to stop.
const TURN: Duration = Duration::from_millis(50);

/// Rewrites the one file of the workload in `dir`, without `altered` as its manifest says, until
/// the time is over or `watch` says so.
pub fn alter(
    dir: &Path,
    altered: Option<Altered>,
    duration: Option<Duration>,
    watch: Watch<'_>,
    out: &mut dyn Write,
) -> Result<u8, Fault> {
    let workload = Workload::read(dir)?;
    let plain = || Fault::usage("this workload says nothing of altering: give --way renamed@10ms");
    let altered = altered.or(workload.offer.altered).ok_or_else(plain)?;
    let target = alter::Target::of(&workload, dir, altered)?;
    let mut rewriting = Rewriting::start(target, 0)?;
    let started = Instant::now();
    let total = duration.map_or(0, |duration| duration.as_secs());
    loop {
        let now = started.elapsed();
        if duration.is_some_and(|duration| now >= duration) {
            break;
        }
        let wait = rewriting.turn(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))?;
        if tell(watch, Progress { what: "seconds", done: now.as_secs(), total }).is_err() {
            break;
        }
        std::thread::sleep(wait.min(TURN));
    }
    let done = rewriting.done;
    let (versions, missed, late_ms) = (done.versions, done.missed, done.late_ns as f64 / 1e6);
    let line =
        writeln!(out, "{altered}: {versions} versions, {missed} missed, {late_ms:.2} ms late");
    line.at(Path::new("standard output")).map(|()| 0)
}

/// `workload from-dir`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct FromDirOptions {
    /// The directory that has the files to request.
    pub root: PathBuf,
    /// The directory to make.
    pub out: PathBuf,
    /// Exponent of Zipf's law; 0 requests all files equally often.
    #[arg(long, default_value_t = 1.0, hide_default_value = true)]
    pub exponent: f64,
    /// Choice of the popular files.
    #[arg(long, value_enum, default_value_t, hide_default_value = true)]
    pub ranks: Ranks,
    /// Random seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Load generators, each with its own session log.
    #[arg(long, default_value_t = 2, hide_default_value = true)]
    pub clients: u32,
    /// Requests in each log.
    #[arg(long, default_value_t = 50_000, hide_default_value = true)]
    pub requests: u64,
    /// Session pattern: p10 or spec.
    #[arg(long)]
    pub pattern: Option<Pattern>,
    /// Do not compute the files' SHA-256; replies can then be verified only where the files are.
    #[arg(long)]
    pub without_hashes: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

impl FromDirOptions {
    /// Sessions as in the papers with think times scaled by 0.1, all else as it comes.
    pub fn new(root: &Path, out: &Path) -> Self {
        with_defaults(&[root.as_ref(), out.as_ref()])
    }
}

/// Makes a workload over the user's own files, which are only read. [`Fault::Unread`] comes once
/// the workload is made of the files that can be read.
pub fn from_dir(
    options: &FromDirOptions,
    watch: Watch<'_>,
    out: &mut dyn Write,
) -> Result<u8, Fault> {
    let pattern = options.pattern.unwrap_or(Pattern { scale: 0.1, ..Pattern::P10 });
    let mut problems = pattern.problems();
    if !(1..=CLIENTS_MAX).contains(&options.clients) || options.requests == 0 {
        problems.push(format!("clients must be 1 to {CLIENTS_MAX}, requests at least 1"));
    }
    Fault::if_any(problems)?;
    let root = fs::canonicalize(&options.root)
        .and_then(|root| fs::read_dir(&root).map(|_| root))
        .input(&options.root)?;
    let scanned =
        from_dir::scan(&root, options.ranks, !options.without_hashes, options.seed, watch)?;
    let from_dir::Scanned { set, faults } = scanned;
    let exponent = options.exponent;
    let law = if exponent == 0.0 { Law::Uniform } else { Law::Zipf { exponent } };
    let workload = Workload {
        format: FORMAT,
        name: "from-dir".to_owned(),
        source: root.display().to_string(),
        about: "the user's own content".to_owned(),
        seed: options.seed,
        algorithm: ALGORITHM.to_owned(),
        files: Files::Users { root },
        law,
        pattern: Some(pattern),
        line_bits_per_s: None,
        offer: Offer::default(),
        logs: Vec::new(),
        observed: None,
    };
    let popularity = manifest::popularity(workload.law, &set)?;
    let partial = Partial::begin(&options.out)?;
    let spec = TraceSpec::new(options.seed, options.requests, pattern);
    let logs = make_logs(&set, &popularity, &spec, options.clients, partial.path(), watch)?;
    let code = finish(workload, set, popularity, logs, partial, options.json, out)?;
    if faults.is_empty() { Ok(code) } else { Err(Fault::Unread(faults)) }
}

/// `workload from-log`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct FromLogOptions {
    /// The access log; `-` is standard input.
    pub log: PathBuf,
    /// The directory to make.
    pub out: PathBuf,
    /// Rules for the log.
    #[command(flatten)]
    pub rules: Rules,
    /// Load generators, among which sessions are divided in turn.
    #[arg(long, default_value_t = 1)]
    pub clients: u32,
    /// Do not make files with the names and sizes of the log.
    #[arg(long)]
    pub without_files: bool,
    /// The most bytes to write; more is refused.
    #[arg(long, default_value_t = BYTES_MAX)]
    pub bytes_max: u64,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

impl FromLogOptions {
    /// The default rules, one load generator, files made.
    pub fn new(log: &Path, out: &Path) -> Self {
        with_defaults(&[log.as_ref(), out.as_ref()])
    }
}

/// Makes a workload from a real access log: its files by name and size, its sessions at their
/// times. A failure leaves nothing behind.
pub fn from_log(
    options: &FromLogOptions,
    watch: Watch<'_>,
    out: &mut dyn Write,
) -> Result<u8, Fault> {
    let input: Box<dyn BufRead> = if options.log == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        if options.log.is_dir() {
            return Err(Fault::usage(format!("{}: is a directory", options.log.display())));
        }
        let file = File::open(&options.log).input(&options.log)?;
        Box::new(BufReader::with_capacity(1 << 18, file))
    };
    let mut problems = options.rules.problems();
    if !(1..=CLIENTS_MAX).contains(&options.clients) {
        problems.push(format!("clients must be 1 to {CLIENTS_MAX}"));
    }
    Fault::if_any(problems)?;
    let partial = Partial::begin(&options.out)?;
    let distilled = from_log::distil(input, &options.log, options.rules, watch)?;
    let Distilled { set, mut observed, sessions } = distilled;
    if !options.without_files {
        room_for(&set, options.bytes_max)?;
        set.create(&partial.path().join(manifest::ROOT), watch)?;
    }
    let head = format!("regatta session log 1: from {}", options.log.display());
    let mut writers = (0..options.clients)
        .map(|client| LogWriter::create(&set, partial.path(), client, &head))
        .collect::<Result<Vec<_>, _>>()?;
    let mut turns = (0..writers.len()).cycle();
    observed.sessions = sessions.drain(&set, |session| {
        let turn = turns.next().expect("there is at least one");
        writers[turn].write(session)
    })?;
    let (mut logs, mut tally) = (Vec::new(), Tally::new(&set));
    for writer in writers {
        let (log, counts) = writer.finish()?;
        logs.push(log);
        tally.merge(&counts);
    }
    let workload = Workload {
        format: FORMAT,
        name: "from-log".to_owned(),
        source: options.log.display().to_string(),
        about: "the sessions of a real access log, at their times".to_owned(),
        seed: options.rules.seed,
        algorithm: ALGORITHM.to_owned(),
        files: Files::Listed,
        law: Law::Counted,
        pattern: None,
        line_bits_per_s: None,
        offer: Offer { model: Model::Replay, ..Offer::default() },
        logs: Vec::new(),
        observed: Some(observed),
    };
    let popularity = manifest::popularity(workload.law, &set)?;
    finish(workload, set, popularity, (logs, tally), partial, options.json, out)
}
