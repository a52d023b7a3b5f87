//! Options of a load: plain values, checked all at once. What they leave open, the workload says.

use super::arrivals::{Arrivals, Rate, Stretch};
use super::asking::{ProtocolOptions, RequestOptions, STREAMS_MOST};
use super::secure::TlsOptions;
use super::shard::{Shard, parse_start};
use super::slo::{Slo, parse_time};
use super::url::{RouteOptions, Url};
use crate::workload::alter::Target;
use crate::workload::manifest::{self, Altered, Files, Way, Workload};
use crate::workload::think::{Pattern, Think};
use clap::{ArgAction, Args};
use serde::{Deserialize, Serialize};
use std::fmt::{Debug, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The least and the greatest share of a processor that a load holds, per cent.
const PERCENT: std::ops::RangeInclusive<u32> = 5..=95;

/// The three models of the literature (Schroeder et al., NSDI'06).
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A fixed number of connections. Each waits for its reply, thinks, and asks again.
    Closed {
        connections: u32,
        /// Time between a reply and the next request; `None`: the workload's, or none.
        think: Option<Duration>,
    },
    /// Requests arrive on their own and do not wait for each other.
    Open {
        rate: Rate,
        /// Connections at most; `None`: as many as descriptors allow. Arrivals that find none wait,
        /// and their waiting counts.
        connections_max: Option<u32>,
    },
    /// Sessions arrive on their own; inside one, bursts follow replies and think times.
    PartlyOpen {
        /// Session logs in httperf's format, one per client.
        sessions: Vec<PathBuf>,
        /// Sessions per second; `None` takes the times that the logs give (`#! at=`).
        session_rate: Option<Rate>,
        /// Think time where the log gives none; `None`: none.
        think: Option<Duration>,
    },
}

/// No connections: a load that is refused.
impl Default for Model {
    fn default() -> Self {
        Self::Closed { connections: 0, think: None }
    }
}

/// Reference that the bytes of replies are compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Nothing: a run without this is stamped UNVERIFIED.
    #[default]
    Off,
    /// Contents as a pure function of the path ([`crate::workload::content`]).
    Generated,
    /// Generated contents that are rewritten while they are served, each reply one whole version
    /// and none older than one that was seen before.
    Altered,
    /// The SHA-256 that a workload over a user's content noted: for a client that has no copy.
    Hash,
    Directory(PathBuf),
}

impl From<&str> for Verify {
    fn from(text: &str) -> Self {
        match text {
            "off" => Self::Off,
            "generated" => Self::Generated,
            "altered" => Self::Altered,
            "hash" => Self::Hash,
            directory => Self::Directory(directory.into()),
        }
    }
}

/// `None` is off. Without this name clap would take the value of the option for optional.
type Alter = Option<Altered>;

/// Everything about one load. What is `None` is the workload's, and without one what the option
/// says.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct LoadOptions {
    /// The URL to request: `http[s]://HOST[:PORT][/TARGET]`. Of several addresses of HOST, the
    /// first that takes a connection is used.
    #[arg(default_value = "", hide_default_value = true)]
    pub url: String,
    #[command(flatten)]
    pub route: RouteOptions,
    #[command(flatten)]
    pub tls: TlsOptions,
    #[command(flatten)]
    pub protocol: ProtocolOptions,
    /// Arrival of requests.
    #[arg(skip)]
    pub model: Model,
    /// Distribution of arrivals in time.
    #[arg(long, value_enum, default_value = "constant", conflicts_with = "closed")]
    pub arrivals: Arrivals,
    /// Length of the measurement; by default until --count or the log is done, else the workload's,
    /// or 10s.
    #[arg(long, short = 'd', visible_short_alias = 'z')]
    #[arg(value_name = "TIME", value_parser = parse_length)]
    pub duration: Option<Duration>,
    /// Requests (or sessions) after which the load ends.
    #[arg(long, short = 'n', visible_alias = "requests")]
    pub count: Option<u64>,
    /// Time of load before the measurement; by default the workload's, or none.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub warm_up: Option<Duration>,
    /// Time to wait at the end for requests in flight; by default the time-out, but at most 5s.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub drain: Option<Duration>,
    // Sessions have their own.
    /// Requests after which a connection is closed, 0 for never; by default the workload's, or
    /// never.
    #[arg(long, value_name = "COUNT")]
    pub requests_per_connection: Option<u64>,
    /// Closed and open model: send the requests of these session logs, in order and repeatedly.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["sessions", "session_rate"])]
    pub requests_from: Vec<PathBuf>,
    /// A directory made by `regatta workload`: its logs, sizes and contents, and defaults for the
    /// load.
    #[arg(long, value_name = "DIR")]
    pub workload: Option<PathBuf>,
    /// A header field for every request; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = field)]
    pub fields: Vec<(String, String)>,
    #[command(flatten)]
    pub request: RequestOptions,
    // On the wire. In the partly-open model httperf's: armed at the connect, at each partial send,
    // when sent (plus `think_timeout`), and at the first byte of the reply. In the others: for the
    // whole exchange from the first byte sent, and for the connect.
    /// Time-out of a request; by default the workload's, or 10s.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
    /// Partly-open model: added to the time-out while waiting for the first byte; by default none.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "0s")]
    #[arg(hide_default_value = true, conflicts_with_all = ["closed", "rate"])]
    pub think_timeout: Duration,
    // A late reply is [`super::Fate::Late`], and a request not sent by then is not sent.
    /// A reply later than this after its request was due does not count as good.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub deadline: Option<Duration>,
    /// Compare the bytes of every reply: off, generated, altered, hash, or a local directory; by
    /// default what the workload allows, else off.
    #[arg(long, value_name = "HOW|DIR")]
    pub verify: Option<Verify>,
    /// Time for which a server may serve the old version of a changed file, with --verify DIR.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "2s")]
    pub stale_after: Duration,
    /// Idle connections that are kept open, after one request each; by default the workload's, or
    /// none.
    #[arg(long, value_name = "CONNECTIONS")]
    pub idle: Option<u32>,
    /// Rewrite the workload's single file during the load: off, or literal, renamed or forced, with
    /// @TIME between versions; by default the workload's, or off.
    #[arg(long, value_name = "WAY@TIME", value_parser = parse_alter)]
    pub alter: Option<Alter>,
    /// Threads that share the load; 0: one for each processor of --pin, else one.
    #[arg(long, short = 't', default_value_t = 0)]
    pub threads: u32,
    /// Make part I of N of the load, I from 0. N parts on any machines are the whole; `regatta load
    /// merge` adds up their --json.
    #[arg(long, value_name = "I/N", value_parser = Shard::parse, requires = "start_at")]
    pub shard: Option<Shard>,
    /// Start at this time: RFC 3339, seconds since 1970, or a length of time from now.
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    pub start_at: Option<SystemTime>,
    /// Processors to pin threads to, in turn.
    #[arg(long, value_delimiter = ',')]
    pub pin: Vec<usize>,
    /// Source addresses of connections, used in turn.
    #[arg(long = "source")]
    pub sources: Vec<IpAddr>,
    /// Number of source addresses in 127.0.0.0/8 if the server is there; 0: automatic.
    #[arg(long, default_value_t = 0)]
    pub spread: u32,
    /// Use exactly this share of the processor, for a load on the server's own processor: it spins
    /// while it has nothing to do, so that the server has the rest. Best with a real-time priority
    /// (`chrt -f 1 regatta load ...`).
    #[arg(long, value_name = "PERCENT")]
    pub share: Option<u32>,
    // A session's own hint goes first.
    /// Speed at which each connection reads, bit/s, 0 for no limit; by default the workload's, or
    /// none.
    #[arg(long = "line", value_name = "BIT/S")]
    pub line_bits_per_s: Option<u64>,
    /// Random seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The service level: pNN, max, mean with a time, errors, goodput with %, rate. If it is
    /// missed, the exit code is 1.
    #[arg(long, value_name = "p99<50ms,errors<0.1%")]
    pub slo: Option<String>,
    #[command(flatten)]
    pub output: OutputOptions,
    /// Show no progress.
    #[arg(long = "quiet", action = ArgAction::SetFalse)]
    pub progress: bool,
    /// With --json, print an empty line before the first request, when idle connections are held.
    #[arg(long, requires = "json")]
    pub announce: bool,
}

/// Options of what a result is written to.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputOptions {
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write the percentiles in HdrHistogram's text format.
    #[arg(long, value_name = "FILE")]
    pub hgrm: Option<PathBuf>,
    /// Write a CSV line for each second.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write one page with charts, which works offline.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Reads `off`, or `WAY[@TIME]`.
pub fn parse_alter(text: &str) -> Result<Option<Altered>, String> {
    if text == "off" {
        return Ok(None);
    }
    let (name, time) = text.split_once('@').unwrap_or((text, "10ms"));
    let way = Way::named(name).ok_or_else(|| {
        format!("{name:?} is not off, literal, renamed or forced, with @TIME between versions")
    })?;
    let period = parse_time(time)?;
    let period_ms = u64::try_from(period.as_millis()).unwrap_or(0);
    if !(1..=86_400_000).contains(&period_ms) {
        return Err("the time between versions is 1ms to a day".to_owned());
    }
    Ok(Some(Altered { way, period_ms }))
}

/// Reads the length of a measurement: a time, or seconds without a unit, as in wrk.
fn parse_length(text: &str) -> Result<Duration, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { parse_time(&format!("{text}s")) } else { parse_time(text) }
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

pub(super) const CONNECTIONS_MAX: u32 = 1_000_000;
/// The most threads.
pub(super) const WORKERS_MAX: u32 = 1_024;
pub(super) const TIME_MAX: Duration = Duration::from_secs(366 * 86_400);

impl LoadOptions {
    /// A load of `url` with everything at its default.
    pub fn new(url: &str, model: Model) -> Self {
        Self {
            url: url.to_owned(),
            model,
            stale_after: Duration::from_secs(2),
            seed: 1,
            progress: true,
            ..Self::default()
        }
    }

    /// Everything that is wrong with the values, one sentence each; what they name is looked at by
    /// [`super::Plan::new`].
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        self.check_model(&mut problems);
        self.check_times(&mut problems);
        match Url::parse(&self.url) {
            _ if self.url.is_empty() => {
                let what = "no URL: give http[s]://HOST[:PORT][/TARGET], or merge FILE...";
                problems.push(what.to_owned());
            }
            Ok(url) if !url.is_https && self.tls != TlsOptions::default() => {
                let own = TlsOptions { insecure: true, ..TlsOptions::default() };
                let hint = match self.tls == own {
                    true => ". -k is --insecure; connections are kept alive (ab's -k) without it",
                    false => "",
                };
                problems.push(format!("{}: options of TLS need a URL with https{hint}", self.url));
            }
            Ok(_) => {}
            Err(problem) => problems.push(problem),
        }
        problems.extend(self.route.problem());
        if self.protocol.streams.is_some_and(|streams| !(1..=STREAMS_MOST).contains(&streams)) {
            problems.push(format!("streams are 1 to {STREAMS_MOST}"));
        }
        let threads = self.threads.max(self.threads());
        if threads > WORKERS_MAX {
            problems.push(format!("{threads} threads: at most {WORKERS_MAX}"));
        }
        if self.line_bits_per_s.is_some_and(|line| (1..1_000).contains(&line)) {
            problems.push("a line below 1,000 bit/s never delivers; 0 is no line".to_owned());
        }
        if self.idle.is_some_and(|idle| idle > CONNECTIONS_MAX) {
            problems.push(format!("idle connections are at most {CONNECTIONS_MAX}"));
        }
        if self.share.is_some_and(|share| !PERCENT.contains(&share)) {
            let (least, most) = (PERCENT.start(), PERCENT.end());
            problems.push(format!("a share is {least} to {most} per cent"));
        }
        if self.count == Some(0) {
            problems.push("a count is at least 1".to_owned());
        }
        if let Some(Err(found)) = self.slo.as_deref().map(Slo::parse) {
            problems.extend(found);
        }
        let kind = self.request.content_type.iter();
        let kind = kind.map(|value| ("Content-Type".to_owned(), value.clone()));
        for (name, value) in self.fields.iter().cloned().chain(kind) {
            let bad = |text: &str| text.bytes().any(|b| b < 0x20 || b == 0x7f);
            if name.is_empty() || bad(&name) || name.contains([':', ' ']) || bad(&value) {
                problems.push(format!("{name:?}: {value:?} is not a field line"));
            }
        }
        let sessions = matches!(self.model, Model::PartlyOpen { .. });
        if sessions && self.protocol.http2 {
            let what = "sessions are played by HTTP/1.1: --http2 is for --closed and --rate";
            problems.push(what.to_owned());
        }
        if sessions && self.requests_per_connection.is_some_and(|count| count > 0) {
            let what = "a session's connection lasts as long as it: --requests-per-connection is \
                        for --closed and --rate";
            problems.push(what.to_owned());
        }
        problems
    }

    /// Threads of this shard. In a closed loop each has a connection.
    pub(super) fn threads(&self) -> u32 {
        let of_pin = u32::try_from(self.pin.len()).unwrap_or(u32::MAX).max(1);
        let wanted = if self.threads == 0 { of_pin } else { self.threads };
        match self.model {
            Model::Closed { connections, .. } => {
                wanted.min(self.shard.unwrap_or_default().share(connections)).max(1)
            }
            _ => wanted,
        }
    }

    /// Threads of all shards, if each has as many.
    pub(super) fn workers(&self) -> u32 {
        self.threads().saturating_mul(self.shard.unwrap_or_default().count)
    }

    fn check_model(&self, problems: &mut Vec<String>) {
        match &self.model {
            Model::Closed { connections, .. } if !(1..=CONNECTIONS_MAX).contains(connections) => {
                problems.push(format!("connections are 1 to {CONNECTIONS_MAX}"));
            }
            Model::Closed { connections, .. } => {
                let count = self.shard.unwrap_or_default().count;
                if *connections < count {
                    problems
                        .push(format!("{connections} connections: {count} shards need one each"));
                }
            }
            Model::Open { rate, connections_max } => {
                problems.extend(rate.problem());
                let workers = self.workers();
                if connections_max.is_some_and(|most| most < workers) {
                    problems.push(format!("{workers} threads need a connection each"));
                }
            }
            Model::PartlyOpen { sessions, session_rate, .. } => {
                problems.extend(session_rate.as_ref().and_then(Rate::problem));
                if sessions.is_empty() && self.workload.is_none() {
                    problems.push("the partly-open model needs a session log".to_owned());
                }
            }
        }
    }

    fn check_times(&self, problems: &mut Vec<String>) {
        let think = match self.model {
            Model::Closed { think, .. } | Model::PartlyOpen { think, .. } => think,
            Model::Open { .. } => None,
        };
        for (name, time, least) in [
            ("duration", self.duration, Duration::from_millis(10)),
            ("time-out", self.timeout, Duration::from_millis(1)),
            ("deadline", self.deadline, Duration::from_micros(1)),
            ("drain", self.drain, Duration::ZERO),
            ("warm-up", self.warm_up, Duration::ZERO),
            ("think time-out", Some(self.think_timeout), Duration::ZERO),
            ("think time", think, Duration::ZERO),
        ] {
            if time.is_some_and(|time| !(least..=TIME_MAX).contains(&time)) {
                problems.push(format!("a {name} is {least:?} to a year"));
            }
        }
    }
}

/// Time-out when neither options nor workload say.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Length of the measurement when neither options nor workload say.
const DURATION: Duration = Duration::from_secs(10);

/// Settings that a load took from its workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The workload's name: a preset's, `from-dir` or `from-log`.
    pub name: String,
    /// Settings taken, as the options that say the same.
    pub options: Vec<String>,
    /// Wishes of the workload that a load generator cannot fulfil, in words.
    pub not_done: Vec<String>,
}

/// Fills in what the options leave open: from the workload in `dir`, if there is one.
pub(super) fn take_up(
    options: &mut LoadOptions,
    workload: Option<(&Workload, &Path)>,
) -> Result<(Option<Taken>, Option<Target>), String> {
    let mut taken = None;
    let mut altered = None;
    if let Some((workload, dir)) = workload {
        let mut of = Taken { name: workload.name.clone(), ..Taken::default() };
        logs(options, workload, dir, &mut of)?;
        model(options, workload, &mut of)?;
        times(options, workload, &mut of);
        bodies(options, workload, &mut of);
        altered = alter(options, workload, dir, &mut of)?;
        if let Some(ratio) = workload.offer.cache_ratio {
            let percent = 100.0 * ratio;
            of.not_done.push(format!(
                "page cache for {percent:.0} % of the files: limit the memory of the server"
            ));
        }
        taken = Some(of);
    } else if options.alter.is_some() {
        return Err("only a workload's file is altered: give its directory (--workload)".into());
    }
    options.timeout.get_or_insert(TIMEOUT);
    options.warm_up.get_or_insert(Duration::ZERO);
    options.requests_per_connection.get_or_insert(0);
    options.idle.get_or_insert(0);
    options.verify.get_or_insert(Verify::Off);
    // The times of a log end by themselves.
    let ends = matches!(options.model, Model::PartlyOpen { session_rate: None, .. });
    if options.count.is_none() && !ends {
        options.duration.get_or_insert(DURATION);
    }
    Ok((taken, altered))
}

fn logs(
    options: &mut LoadOptions,
    workload: &Workload,
    dir: &Path,
    taken: &mut Taken,
) -> Result<(), String> {
    let logs: Vec<PathBuf> = workload.logs.iter().map(|log| dir.join(&log.path)).collect();
    let (to, name) = match &mut options.model {
        Model::PartlyOpen { sessions, .. } => (sessions, "--sessions"),
        Model::Closed { .. } | Model::Open { .. } => {
            (&mut options.requests_from, "--requests-from")
        }
    };
    if !to.is_empty() {
        return Ok(());
    }
    let Some(first) = workload.logs.first() else {
        return Err(format!("{} holds no session log", dir.display()));
    };
    let more = match logs.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    taken.options.push(format!("{name} {}{more}", first.path));
    *to = logs;
    Ok(())
}

fn model(options: &mut LoadOptions, workload: &Workload, taken: &mut Taken) -> Result<(), String> {
    let offer = &workload.offer;
    let say = &mut taken.options;
    match &mut options.model {
        Model::PartlyOpen { session_rate: None, .. } => match offer.model {
            manifest::Model::Closed => {
                let (least, most) = offer.clients.unwrap_or((1, 1));
                return Err(format!(
                    "{} is a closed workload: give --closed N, {least} to {most} in its paper",
                    workload.name
                ));
            }
            manifest::Model::PartlyOpen => return Err(no_rate(workload)),
            manifest::Model::Replay => {}
        },
        Model::PartlyOpen { session_rate: Some(rate), .. } => {
            phases(rate, &mut options.duration, options.count, offer, "--session-rate", say);
        }
        Model::Open { rate, .. } => {
            phases(rate, &mut options.duration, options.count, offer, "--rate", say);
        }
        Model::Closed { think, .. } => {
            let pattern = workload.pattern.filter(|_| offer.model == manifest::Model::Closed);
            fill(think, pattern.and_then(even_think), "--think", say);
            let lengths = pattern.map(|pattern| pattern.lengths);
            let fixed = lengths.filter(|l| l.least == l.most && l.single_share == 0.0);
            let fixed = fixed.map(|lengths| u64::from(lengths.least));
            fill(&mut options.requests_per_connection, fixed, "--requests-per-connection", say);
            if !offer.phases.is_empty() {
                let what = "its phases: they are of a rate, and a closed model has none";
                taken.not_done.push(what.to_owned());
            }
        }
    }
    Ok(())
}

/// The think time of a pattern in which all are the same.
fn even_think(pattern: Pattern) -> Option<Duration> {
    match pattern.think {
        Think::Constant { inactive_us, active_us } if inactive_us == active_us => {
            Some(Duration::from_micros(inactive_us).mul_f64(pattern.scale))
        }
        _ => None,
    }
}

fn no_rate(workload: &Workload) -> String {
    let mut what = "give --session-rate: the logs do not say when sessions start".to_owned();
    let (sessions, requests) = workload.logs.iter().fold((0, 0), |(sessions, requests), log| {
        (sessions + log.sessions, requests + log.requests)
    });
    if let Some((least, most)) = workload.offer.requests_per_s.filter(|_| requests > 0) {
        let each = sessions as f64 / requests as f64;
        let (from, to) = (least * each, most * each);
        // Writing to a String cannot fail.
        let _ = write!(
            what,
            " ({least:.0} to {most:.0} requests/s in its paper are {from:.0} to {to:.0} sessions/s)"
        );
    }
    what
}

/// Stretches of load, as shares of a rate that is one number.
fn phases(
    rate: &mut Rate,
    duration: &mut Option<Duration>,
    count: Option<u64>,
    offer: &manifest::Offer,
    name: &str,
    say: &mut Vec<String>,
) {
    let [Stretch { from, to, .. }] = rate.stretches[..] else { return };
    if offer.phases.is_empty() || from != to {
        return;
    }
    let stretch = |phase: &manifest::Phase| {
        let rate = from * phase.share;
        Stretch { seconds: phase.seconds.into(), from: rate, to: rate }
    };
    *rate = Rate { stretches: offer.phases.iter().map(stretch).collect() };
    let parts = rate.stretches.iter().map(|s| format!("{}@{}", s.from, s.seconds));
    say.push(format!("{name} {}", parts.collect::<Vec<_>>().join(",")));
    if count.is_none() {
        let whole = offer.phases.iter().map(|phase| u64::from(phase.seconds)).sum();
        fill(duration, Some(Duration::from_secs(whole)), "--duration", say);
    }
}

/// Time-out, warm-up, line speed and idle connections.
fn times(options: &mut LoadOptions, workload: &Workload, taken: &mut Taken) {
    let offer = &workload.offer;
    let say = &mut taken.options;
    let timeout = (offer.timeout_ms > 0).then(|| Duration::from_millis(offer.timeout_ms));
    fill(&mut options.timeout, timeout, "--timeout", say);
    let warm_up = (offer.warm_up_s > 0).then(|| Duration::from_secs(offer.warm_up_s.into()));
    fill(&mut options.warm_up, warm_up, "--warm-up", say);
    fill(&mut options.line_bits_per_s, workload.line_bits_per_s, "--line", say);
    let idle = Some(offer.idle_connections).filter(|idle| *idle > 0);
    fill(&mut options.idle, idle, "--idle", say);
}

/// Fills in what an option leaves open, and says the option that would have said the same.
fn fill<T: Copy + Debug>(
    option: &mut Option<T>,
    wanted: Option<T>,
    name: &str,
    say: &mut Vec<String>,
) {
    if let (None, Some(value)) = (*option, wanted) {
        *option = wanted;
        say.push(format!("{name} {value:?}"));
    }
}

/// Takes what bodies are compared with: a workload knows.
fn bodies(options: &mut LoadOptions, workload: &Workload, taken: &mut Taken) {
    let given = options.verify.is_some();
    if !matches!(options.verify, None | Some(Verify::Generated)) {
        return;
    }
    let (verify, name) = match &workload.files {
        Files::Users { root } if root.is_dir() => {
            (Verify::Directory(root.clone()), root.display().to_string())
        }
        // The content is on another machine.
        Files::Users { .. } => (Verify::Hash, "hash".to_owned()),
        _ if workload.offer.altered.is_some() => (Verify::Altered, "altered".to_owned()),
        Files::Specweb { .. } | Files::Listed => (Verify::Generated, "generated".to_owned()),
    };
    if !given || verify != Verify::Generated {
        taken.options.push(format!("--verify {name}"));
    }
    options.verify = Some(verify);
}

fn alter(
    options: &LoadOptions,
    workload: &Workload,
    dir: &Path,
    taken: &mut Taken,
) -> Result<Option<Target>, String> {
    let Some(altered) = options.alter.unwrap_or(workload.offer.altered) else {
        if workload.offer.altered.is_some() {
            let what = "rewriting its file (--alter off): somebody else does it";
            taken.not_done.push(what.to_owned());
        }
        return Ok(None);
    };
    let target = Target::of(workload, dir, altered).map_err(|fault| fault.to_string())?;
    if options.alter.is_none() {
        taken.options.push(format!("--alter {altered}"));
    }
    Ok(Some(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_of_other_tools_are_understood() {
        assert_eq!(parse_length("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_length("1.5s"), Ok(Duration::from_millis(1_500)));
        assert!(parse_length("1.5").is_err() && parse_length("").is_err());
    }

    #[test]
    fn every_problem_is_named() {
        let closed = Model::Closed { connections: 0, think: None };
        let mut options = LoadOptions::new("ftp://x", closed);
        options.duration = Some(Duration::ZERO);
        options.timeout = Some(Duration::ZERO);
        options.slo = Some("p99<x".to_owned());
        options.fields.push(("A\r\nB".to_owned(), String::new()));
        options.threads = 2_000;
        options.share = Some(100);
        assert_eq!(options.problems().len(), 8, "{:#?}", options.problems());
        let rate = Rate::constant(1.0);
        let open = Model::Open { rate, connections_max: None };
        let mut options = LoadOptions::new("http://127.0.0.1:1/", open);
        assert!(options.problems().is_empty());
        options.threads = 2_048;
        assert_eq!(options.problems(), ["2048 threads: at most 1024"]);
        let rate = Rate::constant(1.0);
        options.threads = 1;
        options.shard = Some(Shard { index: 1, count: 8 });
        options.model = Model::Closed { connections: 7, think: None };
        assert_eq!(options.problems(), ["7 connections: 8 shards need one each"]);
        options.model = Model::Open { rate, connections_max: Some(3) };
        (options.shard, options.threads) = (Some(Shard { index: 1, count: 2 }), 2);
        assert_eq!(options.problems(), ["4 threads need a connection each"]);
    }
}
