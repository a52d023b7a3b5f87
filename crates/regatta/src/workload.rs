//! `regatta workload`: flags to the options of the library.
use crate::{DONE, FAILED, USAGE, say};
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use regatta_load::engine::{parse_alter, parse_time};
use regatta_load::workload::{
    cli::{self, BYTES_MAX, FromDirOptions, FromLogOptions, InspectOptions, NewOptions, What},
    fault::{Fault, Progress},
    from_dir::Ranks,
    manifest::Altered,
    popularity::Mix,
    presets,
    report::Questions,
    think::{Pattern, Think},
};
use std::{
    io::{self, IsTerminal, Write},
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How long a command runs before it shows its progress.
const SILENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Make a workload from a preset: files, session logs and a manifest.
    #[command(after_help = "Example: regatta workload new quick ./w && regatta serve ./w/root")]
    New(New),
    /// Describe a workload, a directory or a log, and predict how a server will do with it.
    #[command(after_help = "Example: regatta workload inspect ./w --rate 2000 --connections 1000")]
    Inspect(Inspect),
    /// Rewrite the single file of a workload, version after version, until Ctrl-C. Run this where
    /// the files are if `regatta load --alter off` runs on another machine.
    #[command(after_help = "Example: regatta workload alter ./w --way renamed@10ms -d 30s")]
    Alter(Alter),
    /// Make a workload over your own content.
    #[command(after_help = "Example: regatta workload from-dir ./public ./w --exponent 0.9")]
    FromDir(FromDir),
    /// Make a workload from a real access log (common, combined or JSON).
    #[command(after_help = "Example: regatta workload from-log access.log ./w --session-gap 60")]
    FromLog(FromLog),
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// The preset; any other name lists them.
    preset: String,
    /// The directory to make.
    out: PathBuf,
    /// Random seed: the same seed makes the same bytes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directories of a SPECweb99-like set.
    #[arg(long)]
    dirs: Option<u32>,
    /// SPEC's load, which gives the directories by SPEC's formula.
    #[arg(long, conflicts_with = "dirs")]
    load: Option<u64>,
    /// Prefix of the directories; several are used in turn.
    #[arg(long = "prefix")]
    prefixes: Vec<String>,
    /// Load generators, each with its own session log.
    #[arg(long)]
    clients: Option<u32>,
    /// Requests in each log.
    #[arg(long)]
    requests: Option<u64>,
    /// The most sessions in each log, 0 for no limit; httperf as packaged takes 1000.
    #[arg(long, default_value_t = 0)]
    sessions_max: u64,
    /// Session pattern: p10 or spec.
    #[arg(long, value_parser = pattern)]
    pattern: Option<Pattern>,
    /// Think times: constant (the papers'), surge (Pareto and Weibull) or none.
    #[arg(long, value_parser = think)]
    think: Option<Think>,
    /// Factor by which think times are multiplied.
    #[arg(long, allow_negative_numbers = true)]
    scale: Option<f64>,
    /// How classes are drawn.
    #[arg(long)]
    mix: Option<MixArg>,
    /// Line speed of each session, bit/s.
    #[arg(long)]
    line: Option<u64>,
    /// Make only logs and manifest, no files.
    #[arg(long)]
    without_files: bool,
    /// The most bytes to write; more is refused.
    #[arg(long, default_value_t = BYTES_MAX)]
    bytes_max: u64,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MixArg {
    /// Each draw on its own.
    Iid,
    /// From a shuffled deck, SPEC's method.
    Deck,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RanksArg {
    /// No relation between size, name and popularity.
    Shuffled,
    /// By name.
    ByName,
    /// Smallest first.
    SmallestFirst,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A preset's name, or the path of a workload, a directory, or a session log.
    what: String,
    /// Directories of a SPECweb99-like set.
    #[arg(long)]
    dirs: Option<u32>,
    /// Requested rate, requests per second.
    #[arg(long)]
    rate: Option<f64>,
    /// Page cache, bytes.
    #[arg(long, value_name = "BYTES")]
    cache: Option<u64>,
    /// Cap on connections.
    #[arg(long)]
    connections: Option<u32>,
    /// Mean response time, seconds.
    #[arg(long, default_value_t = 0.0)]
    response: f64,
    /// Off time per request, seconds; by default that of the logs.
    #[arg(long)]
    off: Option<f64>,
    /// Processor time of a request, seconds.
    #[arg(long)]
    cpu: Option<f64>,
    /// Time of one disk read, seconds.
    #[arg(long)]
    read: Option<f64>,
    /// Blocking event loops that share processor and disk.
    #[arg(long)]
    processes: Option<u32>,
    /// Requests in all logs; by default as many as the logs have.
    #[arg(long)]
    requests: Option<u64>,
    /// Load generators; by default one for each log.
    #[arg(long)]
    generators: Option<u32>,
    /// Read every file and compare it with its expected content.
    #[arg(long)]
    check: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Alter {
    /// The directory of a workload of one file, such as 10k-altered.
    workload: PathBuf,
    /// How: literal, renamed or forced, with @TIME between versions; by default the workload's way.
    #[arg(long, value_name = "WAY@TIME", value_parser = way)]
    way: Option<Altered>,
    /// How long; by default until Ctrl-C.
    #[arg(long, short = 'd', value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
}

fn way(text: &str) -> Result<Altered, String> {
    let off = || "off alters nothing: say literal, renamed or forced".to_owned();
    parse_alter(text)?.ok_or_else(off)
}

#[derive(Debug, Args)]
pub(crate) struct FromDir {
    /// The directory that has the files to request.
    root: PathBuf,
    /// The directory to make.
    out: PathBuf,
    /// Exponent of Zipf's law; 0 requests all files equally often.
    #[arg(long)]
    exponent: Option<f64>,
    /// Which files are the popular ones.
    #[arg(long)]
    ranks: Option<RanksArg>,
    /// Random seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Load generators, each with its own session log.
    #[arg(long)]
    clients: Option<u32>,
    /// Requests in each log.
    #[arg(long)]
    requests: Option<u64>,
    /// Session pattern: p10 or spec.
    #[arg(long, value_parser = pattern)]
    pattern: Option<Pattern>,
    /// Do not compute the files' SHA-256; replies can then be verified only where the files are.
    #[arg(long)]
    without_hashes: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FromLog {
    /// The access log; `-` is standard input.
    log: PathBuf,
    /// The directory to make.
    out: PathBuf,
    /// A client that is silent for longer starts a new session, seconds.
    #[arg(long)]
    session_gap: Option<u64>,
    /// Requests closer than this to the one before belong to its burst, milliseconds.
    #[arg(long)]
    burst_gap: Option<u32>,
    /// Tell clients behind one address apart by their user agent.
    #[arg(long)]
    split_agents: bool,
    /// Seed of the times within a second, when the log has whole seconds.
    #[arg(long)]
    seed: Option<u64>,
    /// The most distinct files.
    #[arg(long)]
    files_max: Option<usize>,
    /// Load generators, among which sessions are divided in turn.
    #[arg(long, default_value_t = 1)]
    clients: u32,
    /// Do not make files with the names and sizes of the log.
    #[arg(long)]
    without_files: bool,
    /// The most bytes to write; more is refused.
    #[arg(long, default_value_t = BYTES_MAX)]
    bytes_max: u64,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs one command and returns its exit code.
pub(crate) fn run(command: Workload) -> u8 {
    let watcher = match Watcher::new() {
        Ok(watcher) => watcher,
        Err(error) => {
            say(&format!("regatta: cannot take Ctrl-C: {error}\n"));
            return FAILED;
        }
    };
    let watch = |progress: Progress| watcher.see(&progress);
    let mut out = io::stdout().lock();
    let done = match command {
        Workload::New(new) => cli::new(&new.options(), &watch, &mut out),
        Workload::Inspect(inspect) => cli::inspect(&inspect.options(), &watch, &mut out),
        Workload::Alter(alter) => {
            cli::alter(&alter.workload, alter.way, alter.duration, &watch, &mut out)
        }
        Workload::FromDir(from) => cli::from_dir(&from.options(), &watch, &mut out),
        Workload::FromLog(from) => cli::from_log(&from.options(), &watch, &mut out),
    };
    watcher.bar.finish_and_clear();
    let flushed = out.flush();
    match done {
        // A reader that has seen enough is no failure.
        Ok(code) if flushed.as_ref().is_err_and(is_enough) || flushed.is_ok() => code,
        Err(Fault::Io { source, .. }) if is_enough(&source) => DONE,
        Ok(_) => FAILED,
        Err(Fault::Usage(problems)) => {
            problems.iter().for_each(|problem| say(&format!("regatta: {problem}\n")));
            USAGE
        }
        Err(fault) => {
            say(&format!("regatta: {fault}\n"));
            fault.exit_code()
        }
    }
}

fn is_enough(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

impl New {
    fn options(self) -> NewOptions {
        NewOptions {
            seed: self.seed,
            dirs: self.dirs,
            load: self.load,
            prefixes: self.prefixes,
            clients: self.clients,
            requests: self.requests,
            sessions_max: self.sessions_max,
            pattern: self.pattern,
            think: self.think,
            scale: self.scale,
            mix: self.mix.map(|mix| match mix {
                MixArg::Iid => Mix::Iid,
                MixArg::Deck => Mix::Deck,
            }),
            line_bits_per_s: self.line,
            without_files: self.without_files,
            bytes_max: self.bytes_max,
            json: self.json,
            ..NewOptions::new(&self.preset, &self.out)
        }
    }
}

impl Inspect {
    fn options(self) -> InspectOptions {
        let preset = presets::find(&self.what).is_some();
        InspectOptions {
            what: if preset { What::Preset(self.what) } else { What::Path(self.what.into()) },
            dirs: self.dirs,
            questions: Questions {
                requests_per_s: self.rate,
                cache_bytes: self.cache,
                connections_max: self.connections,
                response_s: self.response,
                off_s_per_request: self.off,
                cpu_s: self.cpu,
                read_s: self.read,
                processes: self.processes,
                requests: self.requests,
                generators: self.generators,
            },
            check: self.check,
            json: self.json,
        }
    }
}

impl FromDir {
    fn options(self) -> FromDirOptions {
        let given = FromDirOptions::new(&self.root, &self.out);
        FromDirOptions {
            exponent: self.exponent.unwrap_or(given.exponent),
            ranks: self.ranks.map_or(given.ranks, |ranks| match ranks {
                RanksArg::Shuffled => Ranks::Shuffled,
                RanksArg::ByName => Ranks::ByName,
                RanksArg::SmallestFirst => Ranks::SmallestFirst,
            }),
            seed: self.seed,
            clients: self.clients.unwrap_or(given.clients),
            requests: self.requests.unwrap_or(given.requests),
            pattern: self.pattern.unwrap_or(given.pattern),
            hash: !self.without_hashes,
            json: self.json,
            ..given
        }
    }
}

impl FromLog {
    fn options(self) -> FromLogOptions {
        let mut options = FromLogOptions::new(&self.log, &self.out);
        let rules = &mut options.rules;
        rules.session_gap_s = self.session_gap.unwrap_or(rules.session_gap_s);
        rules.burst_gap_ms = self.burst_gap.unwrap_or(rules.burst_gap_ms);
        rules.split_agents = self.split_agents;
        rules.seed = self.seed.unwrap_or(rules.seed);
        rules.files_max = self.files_max.unwrap_or(rules.files_max);
        FromLogOptions {
            clients: self.clients,
            with_files: !self.without_files,
            bytes_max: self.bytes_max,
            json: self.json,
            ..options
        }
    }
}

/// Shows progress on a terminal, and notices Ctrl-C.
struct Watcher {
    bar: ProgressBar,
    started: Instant,
    interrupted: Arc<AtomicBool>,
}

impl Watcher {
    fn new() -> io::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(Self { bar: ProgressBar::hidden(), started: Instant::now(), interrupted })
    }

    fn see(&self, progress: &Progress) -> ControlFlow<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        if self.bar.is_hidden() && io::stderr().is_terminal() && self.started.elapsed() > SILENCE {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {percent}% {eta} left");
            self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            self.bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        }
        self.bar.set_message(progress.what);
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
        ControlFlow::Continue(())
    }
}

fn think(name: &str) -> Result<Think, String> {
    Think::named(name).ok_or_else(|| "expected constant, surge or none".to_owned())
}

fn pattern(name: &str) -> Result<Pattern, String> {
    Pattern::named(name).ok_or_else(|| "expected p10 or spec".to_owned())
}
