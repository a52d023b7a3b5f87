//! What a load is asked to be: plain values, checked all at once.

use super::arrivals::{Arrivals, Rate};
use super::held::PERCENT;
use super::slo::Slo;
use crate::workload::manifest::Altered;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// The three models of the literature (Schroeder et al., NSDI'06).
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A fixed number of connections, each of which waits for its reply, thinks, and asks again.
    Closed {
        /// Connections.
        connections: u32,
        /// Time between a reply and the next request; `None`: the workload's, or none.
        think: Option<Duration>,
    },
    /// Requests arrive on their own and do not wait for each other.
    Open {
        /// Requests per second.
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

/// What the replies' bytes are compared with.
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
    /// The files below a local directory.
    Directory(PathBuf),
}

/// Everything about one load. [`LoadOptions::new`] leaves open what a workload may say: what is
/// `None` is then the workload's, and without one the value that stands beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadOptions {
    /// `http://HOST[:PORT][/TARGET]`.
    pub url: String,
    /// Further addresses of the server: connections go to the URL's and to these in turn.
    pub also: Vec<SocketAddr>,
    /// How requests arrive.
    pub model: Model,
    /// How arrivals are spread, in the open and partly-open models.
    pub arrivals: Arrivals,
    /// Length of the measurement; `None`: with a count, or at the times of a log, until that is
    /// done, else as long as the workload's phases, or 10 s.
    pub duration: Option<Duration>,
    /// Time before the measurement, whose requests count for nothing; `None`: none.
    pub warm_up: Option<Duration>,
    /// How long requests in flight at the end are waited for; `None`: the time-out, 5 s at most.
    pub drain: Option<Duration>,
    /// Requests (sessions in the partly-open model) after which the load ends.
    pub count: Option<u64>,
    /// Requests after which a connection is closed; 0 and `None`: never. Sessions have their own.
    pub requests_per_connection: Option<u64>,
    /// Session logs whose requests the closed and open models ask for, in order and again.
    pub requests_from: Vec<PathBuf>,
    /// A workload's directory (`regatta workload new`): its logs and its files' sizes and contents.
    pub workload: Option<PathBuf>,
    /// Further field lines of every request.
    pub fields: Vec<(String, String)>,
    /// Ask with HEAD where no log says otherwise.
    pub head: bool,
    /// Time-out on the wire. In the partly-open model httperf's: armed at the connect, at each
    /// partial send, when sent (plus `think_timeout`), and at the first byte of the reply. In the
    /// others: for the whole exchange from the first byte sent, and for the connect. `None`: 10 s.
    pub timeout: Option<Duration>,
    /// Added to the time-out while waiting for the first byte (httperf `--think-timeout`).
    pub think_timeout: Duration,
    /// An answer later than this after the request was due is [`super::Fate::Late`], and a request
    /// not sent by then is not sent.
    pub deadline: Option<Duration>,
    /// What bytes are compared with; `None`: what the workload knows of them, else nothing.
    pub verify: Option<Verify>,
    /// How long a server may go on serving a file that changed in [`Verify::Directory`].
    pub stale_after: Duration,
    /// Idle connections that are held open meanwhile; `None`: none.
    pub idle: Option<u32>,
    /// How the file of a workload of one file is rewritten meanwhile; `Some(None)`: not.
    pub alter: Option<Option<Altered>>,
    /// Processes; 0 and 1: this one.
    pub processes: u32,
    /// Threads of each process; 0: one per processor that is pinned to, else one.
    pub threads: u32,
    /// Processors that the threads are pinned to, in turn; empty: none.
    pub pin: Vec<usize>,
    /// Addresses that connections come from, in turn; empty: [`LoadOptions::spread`].
    pub sources: Vec<IpAddr>,
    /// Take so many addresses of 127.0.0.0/8 as sources when the server is there; 0: decide.
    pub spread: u32,
    /// The share of its processor that each thread holds, per cent, for a load on the server's own
    /// processor: it spins while it has nothing to do, and sleeps for the rest. `None`: it takes
    /// what it needs.
    pub share: Option<u32>,
    /// Speed at which each connection reads, bit/s; 0 and `None`: as fast as it comes. A session's
    /// own hint goes first.
    pub line_bits_per_s: Option<u64>,
    /// Seed of every random stream.
    pub seed: u64,
    /// The service level, such as `p99<50ms,errors<0.1%`.
    pub slo: Option<String>,
    /// Print the result as JSON.
    pub json: bool,
    /// Where the percentiles go in HdrHistogram's text format.
    pub hgrm: Option<PathBuf>,
    /// Where a CSV line per second goes.
    pub csv: Option<PathBuf>,
    /// Show progress on a terminal.
    pub progress: bool,
}

/// The most connections of a closed model.
pub(super) const CONNECTIONS_MAX: u32 = 1_000_000;
/// The most threads, all processes together.
pub(super) const WORKERS_MAX: u32 = 1_024;
/// The longest time that an option may give.
pub(super) const TIME_MAX: Duration = Duration::from_secs(366 * 86_400);

impl LoadOptions {
    /// A load of `url` with everything at its default.
    pub fn new(url: &str, model: Model) -> Self {
        Self {
            url: url.to_owned(),
            model,
            stale_after: Duration::from_secs(2),
            processes: 1,
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
        if let Err(problem) = Url::parse(&self.url) {
            problems.push(problem);
        }
        let workers = self.processes.max(1).saturating_mul(self.threads.max(1));
        if workers > WORKERS_MAX {
            problems.push(format!("{workers} threads: at most {WORKERS_MAX}"));
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
        for (name, value) in &self.fields {
            let bad = |text: &str| text.bytes().any(|b| b < 0x20 || b == 0x7f);
            if name.is_empty() || bad(name) || name.contains([':', ' ']) || bad(value) {
                problems.push(format!("{name:?}: {value:?} is not a field line"));
            }
        }
        let sessions = matches!(self.model, Model::PartlyOpen { .. });
        if sessions && self.requests_per_connection.is_some_and(|count| count > 0) {
            let what = "a session's connection lasts as long as it: --requests-per-connection is \
                        for --closed and --rate";
            problems.push(what.to_owned());
        }
        problems
    }

    fn check_model(&self, problems: &mut Vec<String>) {
        match &self.model {
            Model::Closed { connections, .. } if !(1..=CONNECTIONS_MAX).contains(connections) => {
                problems.push(format!("connections are 1 to {CONNECTIONS_MAX}"));
            }
            Model::Open { rate, connections_max } => {
                problems.extend(rate.problem());
                if *connections_max == Some(0) {
                    problems.push("0 connections carry nothing".to_owned());
                }
            }
            Model::PartlyOpen { sessions, session_rate, .. } => {
                problems.extend(session_rate.as_ref().and_then(Rate::problem));
                if sessions.is_empty() && self.workload.is_none() {
                    problems.push("the partly-open model needs a session log".to_owned());
                }
            }
            Model::Closed { .. } => {}
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

/// The parts of a URL that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Host and port as given: the Host field.
    pub authority: String,
    /// Path and query.
    pub target: String,
}

impl Url {
    /// Reads `http://HOST[:PORT][/TARGET]`.
    ///
    /// # Errors
    /// What is wrong with it, in one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with("https:") {
            let what = "https is not spoken here, only plain HTTP/1.1: load the server's port for \
                        http, or the one behind what ends its TLS";
            return Err(what.to_owned());
        }
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let (authority, target) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        let target = target.split('#').next().unwrap_or("/");
        if authority.is_empty() || !plain(authority) || !plain(target) || authority.contains('@') {
            let hint = if text.starts_with('/') { ": say which host" } else { "" };
            return Err(format!("{text:?} is not http://HOST[:PORT][/TARGET]{hint}"));
        }
        Ok(Self { authority: authority.to_owned(), target: target.to_owned() })
    }

    /// The server's address; the first, when its name has several.
    ///
    /// # Errors
    /// What could not be found, in one sentence.
    pub fn address(&self) -> Result<SocketAddr, String> {
        let with_port = self.authority.to_socket_addrs();
        let found = with_port.or_else(|_| format!("{}:80", self.authority).to_socket_addrs());
        let found = found.map_err(|error| format!("{}: {error}", self.authority))?.next();
        found.ok_or_else(|| format!("{} has no address", self.authority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_a_target() {
        for (text, parts) in [
            ("http://127.0.0.1:8080/a/b?c=d#e", Some(("127.0.0.1:8080", "/a/b?c=d"))),
            ("http://localhost", Some(("localhost", "/"))),
            ("127.0.0.1:80", Some(("127.0.0.1:80", "/"))),
            ("http://[::1]:8080/", Some(("[::1]:8080", "/"))),
            ("https://localhost/", None),
            ("http:///x", None),
            ("http://user@host/", None),
            ("http://host/a b", None),
            ("http://host/\r\nX: y", None),
            ("", None),
        ] {
            let url = Url::parse(text).ok();
            let found = url.as_ref().map(|url| (url.authority.as_str(), url.target.as_str()));
            assert_eq!(found, parts, "{text}");
        }
        let url = Url::parse("http://127.0.0.1/x").unwrap();
        assert_eq!(url.address().unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(Url::parse("[::1]").unwrap().address().unwrap().port(), 80);
    }

    #[test]
    fn every_problem_is_named() {
        let closed = Model::Closed { connections: 0, think: None };
        let mut options = LoadOptions::new("https://x", closed);
        options.duration = Some(Duration::ZERO);
        options.timeout = Some(Duration::ZERO);
        options.slo = Some("p99<x".to_owned());
        options.fields.push(("A\r\nB".to_owned(), String::new()));
        options.threads = 2_000;
        options.share = Some(100);
        assert_eq!(options.problems().len(), 8, "{:#?}", options.problems());
        let rate = Rate::constant(1.0);
        let open = Model::Open { rate, connections_max: None };
        assert!(LoadOptions::new("http://127.0.0.1:1/", open).problems().is_empty());
    }
}
