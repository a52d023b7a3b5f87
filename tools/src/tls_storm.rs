//! `cargo xtask tls-storm`: thousands of handshakes with every architecture while workers are
//! killed. Compares all randoms of servers, all bodies, resumed sessions, descriptors and memory
//! with their bounds.

mod client;

use crate::command::build_release;
use crate::interrupt;
use crate::served::{PATIENCE, TaskServer, children, open_files, pss};
use crate::task_error::TaskError;
use clap::{Args, builder::PossibleValuesParser};
use client::{ClientResults, LENS, NAME, Progress, StormClient, StormFault, StormFiles, StormSpan};
use regatta_arch::{ARCHITECTURES, Architecture};
use regatta_lab_core::group::Group;
use regatta_testkit::certificates::Authority;
use regatta_testkit::folder::Folder;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Architectures to try; without any, all of them.
    #[arg(
        value_name = "ARCHITECTURE",
        value_parser = PossibleValuesParser::new(ARCHITECTURES.iter().map(|one| one.name))
    )]
    architectures: Vec<String>,
    /// Divide the numbers of handshakes by 100.
    #[arg(long)]
    quick: bool,
    /// Seed of files, clients and kills.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Try this binary instead of building one.
    #[arg(long, value_name = "BINARY")]
    regatta: Option<PathBuf>,
}

/// Architectures with the most handshakes: one of each driver.
const LONG: [&str; 17] = [
    "symped",
    "hybrid-adapt",
    "sped-readahead",
    "coloured",
    "amped",
    "flash-linux",
    "laio",
    "auto",
    "uring",
    "cohort",
    "mp",
    "mt",
    "knot-c",
    "hybrid",
    "self-adapting",
    "watpipe5",
    "seda",
];
/// Handshakes with each of those, and with each other architecture.
const HANDSHAKES: [u64; 2] = [10_000, 1_000];
/// Divisor of the numbers of handshakes with `--quick`.
const QUICK: u64 = 100;
/// Clients, each with one connection at a time.
const CLIENTS: usize = 16;
/// Handshakes before the first measurement, so that all workers have the memory that serving takes.
const WARM: u64 = 64;
/// Shortest time between kills, and its range, milliseconds.
const KILL_MS_MIN: u64 = 1_000;
const KILL_MS_RANGE: u64 = 2_000;
/// Time of a round: a base, and more for each handshake.
const ROUND_MAX: Duration = Duration::from_secs(60);
const HANDSHAKE_MAX: Duration = Duration::from_millis(30);
/// Time for connections to close before the first measurement.
const SETTLE: Duration = Duration::from_millis(500);
/// Time between two checks.
const STEP: Duration = Duration::from_millis(5);
/// Descriptors that the master, and a worker, may have more at the end. A worker keeps files open,
/// and has channels to helpers.
const MASTER_MORE: usize = 4;
const WORKER_MORE: usize = 64 + LENS.len();
/// Memory that each worker may have more at the end, bytes.
const MEMORY_MORE: u64 = 8 << 20;
/// Findings that are printed for an architecture.
const PRINTED_MAX: usize = 6;

/// Runs the storm; false if an architecture has failed.
pub(crate) fn run(options: Options) -> Result<bool, TaskError> {
    let Options { architectures: names, quick, seed, regatta: binary } = options;
    let stop = interrupt()?;
    let storm = Storm::new(binary.map_or_else(|| build_release("regatta"), Ok)?, seed, stop)?;
    println!("seed {seed}, {CLIENTS} clients; a worker is killed about every 2 s");
    println!("{}", StormReport::header());
    let mut held = true;
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    for one in ARCHITECTURES.iter().filter(|one| is_wanted(one.name)) {
        let wanted = HANDSHAKES[usize::from(!LONG.contains(&one.name))];
        match storm.architecture(one, if quick { wanted / QUICK } else { wanted }) {
            Ok(report) => {
                held &= report.findings.is_empty();
                print!("{report}");
            }
            Err(TaskError::Interrupted) => return Err(TaskError::Interrupted),
            Err(error) => {
                held = false;
                println!("{error}");
            }
        }
    }
    Ok(held)
}

/// Files, certificate and program of all servers.
#[derive(Debug)]
struct Storm {
    binary: PathBuf,
    seed: u64,
    stop: Arc<AtomicBool>,
    authority: Authority,
    /// Value of `tls.certificate`, below `keys`.
    certificate: String,
    _keys: Folder,
    site: Folder,
    files: StormFiles,
}

/// A server of the storm.
#[derive(Debug)]
struct StormServer {
    group: Group,
    /// Whether a keeper is between the master and its workers.
    is_kept: bool,
    name: &'static str,
}

impl Storm {
    fn new(binary: PathBuf, seed: u64, stop: Arc<AtomicBool>) -> Result<Self, TaskError> {
        let (keys, site) = (Folder::new("storm-keys"), Folder::new("storm-site"));
        let (authority, files) = (Authority::new(), StormFiles::new(seed));
        let certificate = authority.issue(&[NAME]).write(&keys, "");
        files.write(&site).map_err(TaskError::attempting("fill", site.display()))?;
        Ok(Self { binary, seed, stop, authority, certificate, _keys: keys, site, files })
    }

    /// Performs this many handshakes with an architecture. The last quarter is without kills: no
    /// measurement shows the leaks of a worker that has been killed.
    fn architecture(&self, one: &Architecture, wanted: u64) -> Result<StormReport, TaskError> {
        let begin = Instant::now();
        let ports = ports(one);
        let (binary, root) = (&*self.binary, &*self.site);
        let certificate = Some(&*self.certificate);
        let server = TaskServer { binary, root, architecture: one.name, certificate, ports };
        let (group, first) = server.start(&settings(one))?;
        let is_kept = one.axes.contains(&("event.share", "descriptors-and-cache"));
        let mut server = StormServer { group, is_kept, name: one.name };
        let place = |more| SocketAddr::new(first.ip(), first.port() + more);
        let places: Vec<SocketAddr> = (0..ports).map(place).collect();
        let client = || StormClient::new(&self.authority, &places, &self.files, self.seed);
        let clients: Vec<_> = (0..CLIENTS).map(|_| client()).collect();

        let mut round = StormRound::default();
        self.round(&mut server, &clients, WARM, false, &mut round)?;
        thread::sleep(SETTLE);
        let before = self.settled(&server.group, None)?;
        let calm = wanted / 4;
        self.round(&mut server, &clients, wanted - calm, true, &mut round)?;
        self.round(&mut server, &clients, calm, false, &mut round)?;
        let after = self.settled(&server.group, Some(before))?;
        let mut findings = round.findings();
        findings.extend(after.findings(before));
        let took = begin.elapsed();
        Ok(StormReport { name: one.name, round, before, after, findings, took })
    }

    /// Has the clients perform handshakes, and kills workers meanwhile or not.
    fn round(
        &self,
        server: &mut StormServer,
        clients: &[StormClient<'_>],
        wanted: u64,
        has_kills: bool,
        round: &mut StormRound,
    ) -> Result<(), TaskError> {
        let progress = &Progress::new(wanted, round.next, has_kills);
        let more = HANDSHAKE_MAX.saturating_mul(u32::try_from(wanted).unwrap_or(u32::MAX));
        let limit = ROUND_MAX.saturating_add(more);
        let watched = thread::scope(|scope| {
            let clients = clients.iter();
            let running: Vec<_> =
                clients.map(|client| scope.spawn(move || client.run(progress))).collect();
            let have_ended = || running.iter().all(|client| client.is_finished());
            let watched = self.watch(server, progress, limit, have_ended);
            progress.end();
            for client in running {
                round.results.add(client.join().expect("a client returns its faults"));
            }
            watched
        });
        round.next = progress.unused();
        round.done += progress.done();
        round.wanted += wanted;
        round.kills.extend(watched?);
        Ok(())
    }

    /// Kills workers until the clients have ended or the time is over.
    fn watch(
        &self,
        server: &mut StormServer,
        progress: &Progress,
        limit: Duration,
        have_ended: impl Fn() -> bool,
    ) -> Result<Vec<StormSpan>, TaskError> {
        let begin = Instant::now();
        let (mut kills, mut due) = (Vec::new(), Instant::now() + self.pause(0));
        while !have_ended() && begin.elapsed() < limit {
            if self.stop.load(Ordering::Relaxed) {
                return Err(TaskError::Interrupted);
            }
            if server.group.has_ended() {
                return Err(TaskError::Ended(server.name.to_owned()));
            }
            if progress.has_kills() && (Instant::now() >= due || progress.needs_kill()) {
                let drawn = client::mix(client::mix(self.seed) ^ progress.unused());
                if let Some(kill) = server.kill_worker(drawn) {
                    kills.push(kill);
                    progress.has_killed();
                }
                // Also if there is none: the next serves for a while before its end.
                due = Instant::now() + self.pause(progress.unused());
            }
            thread::sleep(STEP);
        }
        Ok(kills)
    }

    /// Time until the next kill, drawn from a number.
    fn pause(&self, number: u64) -> Duration {
        let drawn = client::mix(self.seed.wrapping_add(client::mix(number)));
        Duration::from_millis(KILL_MS_MIN + drawn % KILL_MS_RANGE)
    }

    /// Measures until the resources are within the bounds that those before set, for [`PATIENCE`]
    /// at most.
    fn settled(&self, server: &Group, before: Option<Resources>) -> Result<Resources, TaskError> {
        let start = Instant::now();
        loop {
            let measured = Resources::measure(server);
            let is_last = start.elapsed() > PATIENCE;
            let fits = |now: Resources| before.is_none_or(|it| now.findings(it).is_empty());
            match measured {
                Ok(now) if is_last || fits(now) => return Ok(now),
                Err(error) if is_last => return Err(error),
                // A process may have ended while it was measured.
                Ok(_) | Err(_) => {}
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(TaskError::Interrupted);
            }
            thread::sleep(SETTLE);
        }
    }
}

/// Ports of an architecture: each of its copies has one, and two copies are enough.
fn ports(one: &Architecture) -> u16 {
    if one.axes.contains(&("event.copies", "0")) { 2 } else { 1 }
}

/// Settings with which a storm harms no request but those of a killed worker.
fn settings(one: &Architecture) -> Vec<String> {
    let mut settings = Vec::new();
    // Workers that start again are late: no request is too old.
    if one.driver.takes("stages.target_ms") {
        settings.push("stages.target_ms=10 min".to_owned());
    }
    // Enough threads, where all start at once; or where user threads take connections in turn, so
    // that in time each has a stack in memory.
    if one.driver.takes("threads.start") || one.driver.takes("fiber.stack_bytes") {
        settings.push("limits.connections_max=256".to_owned());
    }
    if ports(one) > 1 {
        settings.push(format!("event.copies={}", ports(one)));
    }
    settings
}

impl StormServer {
    /// Workers: children of the master, or of its keepers.
    fn workers(&self) -> Vec<u32> {
        let of_master = children(&self.group, self.group.id());
        if !self.is_kept {
            return of_master;
        }
        of_master.into_iter().flat_map(|keeper| children(&self.group, keeper)).collect()
    }

    /// Kills a worker, and waits until its parent has noticed. `None` if there is none now.
    fn kill_worker(&self, drawn: u64) -> Option<StormSpan> {
        let workers = self.workers();
        let chosen = drawn.checked_rem(workers.len() as u64)?;
        let chosen = *workers.get(usize::try_from(chosen).ok()?)?;
        let pid = Pid::from_raw(i32::try_from(chosen).ok()?)?;
        let from = Instant::now();
        kill_process(pid, Signal::KILL).ok()?;
        let path = format!("/proc/{chosen}");
        while Path::new(&path).exists() && from.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        Some(StormSpan { from, until: Instant::now() })
    }
}

/// Descriptors and memory of a server without connections.
#[derive(Clone, Copy, Debug, Default)]
struct Resources {
    master_files: usize,
    workers: usize,
    /// Descriptors of the process below the master that has most.
    most_files: usize,
    /// Memory of all processes.
    bytes: u64,
}

impl Resources {
    fn measure(server: &Group) -> Result<Self, TaskError> {
        let pids = server.pids();
        let workers = &pids[1..];
        Ok(Self {
            master_files: open_files(server.id()),
            workers: workers.len(),
            most_files: workers.iter().map(|pid| open_files(*pid)).max().unwrap_or(0),
            bytes: pids.iter().map(|pid| pss(*pid)).sum::<Result<u64, TaskError>>()?,
        })
    }

    /// Compares with those before the kills. The master has a descriptor for each worker.
    fn findings(self, before: Self) -> Vec<Finding> {
        let own = |one: Self| one.master_files.saturating_sub(one.workers);
        let workers = before.workers.max(self.workers) as u64;
        let mut findings = Vec::new();
        if own(self) > own(before) + MASTER_MORE {
            findings.push(Finding::MasterFiles(before.master_files, self.master_files));
        }
        if self.most_files > before.most_files + WORKER_MORE {
            findings.push(Finding::WorkerFiles(before.most_files, self.most_files));
        }
        if self.bytes > before.bytes + workers * MEMORY_MORE {
            findings.push(Finding::Memory(before.bytes, self.bytes));
        }
        findings
    }
}

/// Results of all rounds with an architecture.
#[derive(Debug, Default)]
struct StormRound {
    results: ClientResults,
    kills: Vec<StormSpan>,
    wanted: u64,
    done: u64,
    /// Number of the next handshake.
    next: u64,
}

impl StormRound {
    /// Moves faults out of the results, and judges the rest.
    fn findings(&mut self) -> Vec<Finding> {
        let mut findings: Vec<Finding> =
            self.results.faults.drain(..).map(Finding::Client).collect();
        let Self { results, kills, wanted, done, .. } = self;
        if done < wanted {
            findings.push(Finding::Late { done: *done, wanted: *wanted });
        }
        if kills.is_empty() {
            findings.push(Finding::NoKill);
        }
        findings.extend(kills.iter().filter_map(|kill| {
            (kill.until.duration_since(kill.from) >= PATIENCE).then_some(Finding::NotReaped)
        }));
        let mut seen = HashSet::new();
        let repeated = results.randoms.iter().filter(|random| !seen.insert(**random)).count();
        if repeated > 0 {
            findings.push(Finding::Repeated(repeated));
        }
        let losses = Losses::count(&results.lost, kills);
        if losses.stray > 0 {
            findings.push(Finding::Stray(losses.stray));
        }
        if losses.most > CLIENTS {
            findings.push(Finding::Crowd(losses.most));
        }
        // Each client begins without a ticket in both versions, and a lost connection costs one.
        let full = results.keeping - results.resumed;
        if full > 2 * CLIENTS + results.lost.len() {
            findings.push(Finding::NotResumed(full));
        }
        findings
    }
}

/// Lost connections, as far as kills explain them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Losses {
    /// Number without a kill at the same time.
    stray: usize,
    /// The most that one kill explains.
    most: usize,
}

impl Losses {
    /// Assigns each lost connection to the last kill before its end.
    fn count(lost: &[StormSpan], kills: &[StormSpan]) -> Self {
        let mut stray = 0;
        let mut explained = vec![0; kills.len()];
        for one in lost {
            let overlaps = |kill: &StormSpan| kill.from <= one.until && one.from <= kill.until;
            match kills.iter().rposition(overlaps) {
                Some(kill) => explained[kill] += 1,
                None => stray += 1,
            }
        }
        Self { stray, most: explained.into_iter().max().unwrap_or(0) }
    }
}

/// Failure of an architecture.
#[derive(Debug)]
enum Finding {
    Client(StormFault),
    /// Successful handshakes, and those that were to be.
    Late {
        done: u64,
        wanted: u64,
    },
    NoKill,
    NotReaped,
    /// Number of randoms that an earlier handshake has had.
    Repeated(usize),
    /// Lost connections without a kill.
    Stray(usize),
    /// Connections lost to one kill.
    Crowd(usize),
    /// Full handshakes of clients that have tickets.
    NotResumed(usize),
    /// Descriptors before and after.
    MasterFiles(usize, usize),
    WorkerFiles(usize, usize),
    /// Bytes before and after.
    Memory(u64, u64),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(fault) => write!(f, "{fault}"),
            Self::Late { done, wanted } => write!(f, "{done} of {wanted} handshakes in time"),
            Self::NoKill => f.write_str("no worker was there to kill"),
            Self::NotReaped => f.write_str("the server did not notice the end of a worker"),
            Self::Repeated(count) => write!(f, "{count} randoms of the server were repeated"),
            Self::Stray(count) => write!(f, "{count} connections ended early without a kill"),
            Self::Crowd(count) => write!(f, "{count} connections were lost to one kill"),
            Self::NotResumed(count) => write!(f, "{count} handshakes did not resume a session"),
            Self::MasterFiles(before, after) => {
                write!(f, "the master had {before} descriptors, and {after} at the end")
            }
            Self::WorkerFiles(before, after) => {
                write!(f, "a worker had {before} descriptors at most, and {after} at the end")
            }
            Self::Memory(before, after) => {
                write!(f, "memory was {} KiB, and {} KiB at the end", before >> 10, after >> 10)
            }
        }
    }
}

/// Line of an architecture, and its failures.
#[derive(Debug)]
struct StormReport {
    name: &'static str,
    round: StormRound,
    before: Resources,
    after: Resources,
    findings: Vec<Finding>,
    took: Duration,
}

impl StormReport {
    /// Titles of the columns.
    fn header() -> String {
        format!(
            "{:<16}{:>7}{:>8}{:>6}{:>6}{:>13}{:>11}{:>6}",
            "architecture", "done", "resumed", "kills", "lost", "descriptors", "MiB", "s"
        )
    }
}

impl fmt::Display for StormReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, round, before, after, findings, took } = self;
        let files = format!("{} -> {}", before.most_files, after.most_files);
        let memory = format!("{}->{}", before.bytes >> 20, after.bytes >> 20);
        writeln!(
            f,
            "{name:<16}{:>7}{:>8}{:>6}{:>6}{files:>13}{memory:>11}{:>6}  {}",
            round.done,
            round.results.resumed,
            round.kills.len(),
            round.results.lost.len(),
            took.as_secs(),
            if findings.is_empty() { "ok" } else { "wrong" },
        )?;
        for finding in findings.iter().take(PRINTED_MAX) {
            writeln!(f, "  {finding}")?;
        }
        match findings.len().checked_sub(PRINTED_MAX) {
            None | Some(0) => Ok(()),
            Some(more) => writeln!(f, "  and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests;
