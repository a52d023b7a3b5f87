//! `regatta load`: flags to the options of the library.
use crate::{USAGE, say};
use clap::{Args, ValueEnum};
use regatta_load::engine::{
    Arrivals, LoadOptions, Model, Rate, Verify, cli, parse_alter, parse_time,
};
use regatta_load::workload::manifest::Altered;
use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("model").required(true).multiple(true)
    .args(["closed", "rate", "sessions", "workload"]))]
pub(crate) struct Load {
    /// The URL to request: `http://HOST[:PORT][/TARGET]`.
    url: String,
    /// Another address of the server; connections use all addresses in turn; may be repeated.
    #[arg(long, value_name = "ADDR")]
    also: Vec<SocketAddr>,
    /// Closed model: the number of connections; each waits for a reply before its next request.
    #[arg(long, value_name = "CONNECTIONS", conflicts_with_all = ["rate", "sessions"])]
    closed: Option<u32>,
    /// Open model: requests per second, which do not wait for replies: `R`, `FROM:TO` (a ramp
    /// over the duration), or `R@SECONDS,R@SECONDS...`.
    #[arg(long, value_name = "RATE", conflicts_with = "sessions")]
    rate: Option<String>,
    /// Partly-open model: session logs in httperf's format, one per client; may be repeated. By
    /// default those of the workload.
    #[arg(long, value_name = "LOG")]
    sessions: Vec<PathBuf>,
    /// Partly-open model: sessions per second, as --rate; by default the times in the logs.
    #[arg(long, value_name = "RATE", conflicts_with_all = ["closed", "rate"])]
    session_rate: Option<String>,
    /// How arrivals are distributed in time.
    #[arg(long, value_enum, default_value = "constant", conflicts_with = "closed")]
    arrivals: ArrivalsArg,
    /// The most connections, in the open model.
    #[arg(long, requires = "rate")]
    connections_max: Option<u32>,
    /// Time between a reply and the next request, if no log has it; by default the workload's, or
    /// none.
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "rate")]
    think: Option<Duration>,
    /// Length of the measurement; by default until --count or the log is done, else the workload's,
    /// or 10s.
    #[arg(long, short = 'd', value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
    /// Requests (or sessions) after which the load ends.
    #[arg(long)]
    count: Option<u64>,
    /// Time of load before the measurement; by default the workload's, or none.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    warm_up: Option<Duration>,
    /// How long to wait at the end for requests in flight; by default the time-out, but at most 5s.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    drain: Option<Duration>,
    /// Requests after which a connection is closed, 0 for never; by default the workload's, or
    /// never.
    #[arg(long, value_name = "COUNT")]
    requests_per_connection: Option<u64>,
    /// Closed and open model: send the requests of these session logs, in order and repeatedly.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["sessions", "session_rate"])]
    requests_from: Vec<PathBuf>,
    /// A directory made by `regatta workload`: its logs, sizes and contents, and defaults for the
    /// load.
    #[arg(long, value_name = "DIR")]
    workload: Option<PathBuf>,
    /// A header field for every request; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = field)]
    headers: Vec<(String, String)>,
    /// Send HEAD requests.
    #[arg(long)]
    head: bool,
    /// Time-out of a request; by default the workload's, or 10s.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,
    /// Partly-open model: added to the time-out while waiting for the first byte; by default none.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    #[arg(conflicts_with_all = ["closed", "rate"])]
    think_timeout: Option<Duration>,
    /// A reply later than this after its request was due does not count as good.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    deadline: Option<Duration>,
    /// Compare the bytes of every reply: off, generated, altered, hash, or a local directory; by
    /// default what the workload allows, else off.
    #[arg(long, value_name = "HOW|DIR")]
    verify: Option<String>,
    /// How long a server may serve the old version of a changed file, with --verify DIR.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "2s")]
    stale_after: Duration,
    /// Idle connections that are kept open, after one request each; by default the workload's, or
    /// none.
    #[arg(long, value_name = "CONNECTIONS")]
    idle: Option<u32>,
    /// Rewrite the workload's single file during the load: off, or literal, renamed or forced, with
    /// @TIME between versions; by default the workload's, or off.
    #[arg(long, value_name = "WAY@TIME", value_parser = offered_alter)]
    alter: Option<Alter>,
    /// Client processes.
    #[arg(long, default_value_t = 1)]
    processes: u32,
    /// Threads of each process; 0: one for each processor of --pin, else one.
    #[arg(long, default_value_t = 0)]
    threads: u32,
    /// Processors to pin threads to, in turn.
    #[arg(long, value_delimiter = ',')]
    pin: Vec<usize>,
    /// Source addresses of connections, used in turn.
    #[arg(long = "source")]
    sources: Vec<IpAddr>,
    /// How many addresses of 127.0.0.0/8 to use as sources if the server is there; 0: automatic.
    #[arg(long, default_value_t = 0)]
    spread: u32,
    /// Use exactly this share of the processor, for a load on the server's own processor: it spins
    /// while it has nothing to do, so that the server has the rest. Best with a real-time priority
    /// (`chrt -f 1 regatta load ...`).
    #[arg(long, value_name = "PERCENT")]
    share: Option<u32>,
    /// Speed at which each connection reads, bit/s, 0 for no limit; by default the workload's, or
    /// none.
    #[arg(long, value_name = "BIT/S")]
    line: Option<u64>,
    /// Random seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The service level: pNN, max, mean with a time, errors, goodput with %, rate. If it is
    /// missed, the exit code is 1.
    #[arg(long, value_name = "p99<50ms,errors<0.1%")]
    slo: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Write the percentiles in HdrHistogram's text format.
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
    /// Write a CSV line for each second.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ArrivalsArg {
    /// Equal gaps.
    Constant,
    /// A Poisson process.
    Poisson,
    /// Gaps uniform between nothing and twice the mean.
    Uniform,
}

/// Runs the load and returns its exit code.
pub(crate) fn run(load: Load) -> u8 {
    match load.options() {
        Ok(options) => cli::run(&options),
        Err(problem) => {
            say(&format!("regatta load: {problem}\n"));
            USAGE
        }
    }
}

impl Load {
    fn options(self) -> Result<LoadOptions, String> {
        let model = self.model()?;
        let given = LoadOptions::new(&self.url, model);
        Ok(LoadOptions {
            also: self.also,
            arrivals: match self.arrivals {
                ArrivalsArg::Constant => Arrivals::Constant,
                ArrivalsArg::Poisson => Arrivals::Poisson,
                ArrivalsArg::Uniform => Arrivals::Uniform,
            },
            duration: self.duration,
            warm_up: self.warm_up,
            drain: self.drain,
            count: self.count,
            requests_per_connection: self.requests_per_connection,
            requests_from: self.requests_from,
            workload: self.workload,
            fields: self.headers,
            head: self.head,
            timeout: self.timeout,
            think_timeout: self.think_timeout.unwrap_or_default(),
            deadline: self.deadline,
            verify: self.verify.map(|verify| match verify.as_str() {
                "off" => Verify::Off,
                "generated" => Verify::Generated,
                "altered" => Verify::Altered,
                "hash" => Verify::Hash,
                directory => Verify::Directory(directory.into()),
            }),
            stale_after: self.stale_after,
            idle: self.idle,
            alter: self.alter.map(|alter| alter.0),
            processes: self.processes,
            threads: self.threads,
            pin: self.pin,
            sources: self.sources,
            spread: self.spread,
            share: self.share,
            line_bits_per_s: self.line,
            seed: self.seed,
            slo: self.slo,
            json: self.json,
            hgrm: self.hgrm,
            csv: self.csv,
            progress: !self.quiet,
            ..given
        })
    }

    fn model(&self) -> Result<Model, String> {
        // A ramp without a length goes over the default duration.
        let ramp_s = self.duration.unwrap_or(Duration::from_secs(10)).as_secs_f64();
        let rate = |text: &String| Rate::parse(text, ramp_s);
        if let Some(connections) = self.closed {
            return Ok(Model::Closed { connections, think: self.think });
        }
        if let Some(text) = &self.rate {
            return Ok(Model::Open { rate: rate(text)?, connections_max: self.connections_max });
        }
        let session_rate = self.session_rate.as_ref().map(rate).transpose()?;
        Ok(Model::PartlyOpen { sessions: self.sessions.clone(), session_rate, think: self.think })
    }
}

/// What `--alter` says: `None` is off.
#[derive(Clone, Copy, Debug)]
struct Alter(Option<Altered>);

fn offered_alter(text: &str) -> Result<Alter, String> {
    parse_alter(text).map(Alter)
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
