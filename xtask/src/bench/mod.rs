//! `cargo xtask bench`: Regatta beside a bare loop and other servers, in randomised interleaved
//! rounds on the same files with the same client. The method is `docs/bench.md`.

mod client;
mod counters;
mod machine;
mod process;
mod report;
mod targets;

use crate::arguments::Arguments;
use crate::command::{cargo, find_program, output_of, require, target_dir};
use client::Wrk;
use counters::{Costs, Counters};
use machine::Machine;
pub(crate) use process::{Interrupt, Launch, Scratch, Spawned};
use regatta_lab::stats::Random;
use regatta_lab::watch::{cores, system_calls::SystemCalls};
use report::{Measured, Report, Trial, size_name};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use targets::{Ours, Place, Target};

const HELP: &str = "\
Compares Regatta with a bare loop, nginx, lighttpd and h2o on cached files: one worker each on one
CPU, the client (wrk) on another, randomised interleaved rounds, a fresh process for every trial.

Usage: cargo xtask bench [options]

  --rounds N          rounds, each with every target and size once (default 7)
  --seconds S         seconds of every timed trial (default 2)
  --sizes LIST        body sizes (default 4k,64k,1m)
  --connections N     connections kept open by the client (default 64)
  --targets LIST      default regatta,regatta-again,null,nginx,lighttpd,h2o; also
                      regatta/ARCHITECTURE, regatta-before, nginx-copy, apache,
                      apache-worker and caddy
  --set KEY=VALUE,... settings for every Regatta target
  --regatta BINARY    measure this binary instead of building one
  --before BINARY     the binary of the target regatta-before
  --profile NAME      build Regatta with this cargo profile (default release)
  --dir FOLDER        where the files are made (default: the system's temporary folder)
  --seed N            seed of the order (default: from the clock, printed)
  --json FILE         writes every trial

Example: cargo xtask bench --rounds 9 --sizes 4k --targets regatta,regatta-again,null,nginx
";
const CONNECTIONS_MAX: u64 = 2000;
const BODY_BYTES_MAX: usize = 1 << 30;
const START_MAX: Duration = Duration::from_secs(5);
const WARM_SECONDS: u64 = 1;
/// How often a trial is made again in which the CPUs moved.
const RETRIES: u32 = 2;

#[derive(Debug)]
struct Options {
    rounds: u64,
    seconds: u64,
    sizes: Vec<usize>,
    connections: u64,
    targets: Vec<String>,
    set: Vec<String>,
    regatta: Option<PathBuf>,
    before: Option<PathBuf>,
    profile: String,
    folder: PathBuf,
    seed: u64,
    json: Option<PathBuf>,
}

impl Options {
    fn new(words: &[String]) -> Result<Self, String> {
        let mut arguments = Arguments::new(words);
        let list = |text: Option<String>, default: &str| -> Vec<String> {
            let text = text.unwrap_or_else(|| default.to_owned());
            text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let options = Self {
            rounds: arguments.number("--rounds", 7)?.max(1),
            seconds: arguments.number("--seconds", 2)?.max(1),
            sizes: list(arguments.text("--sizes")?, "4k,64k,1m")
                .iter()
                .map(|text| size(text))
                .collect::<Result<_, _>>()?,
            connections: arguments.number("--connections", 64)?.clamp(1, CONNECTIONS_MAX),
            targets: list(
                arguments.text("--targets")?,
                "regatta,regatta-again,null,nginx,lighttpd,h2o",
            ),
            set: list(arguments.text("--set")?, ""),
            regatta: arguments.text("--regatta")?.map(PathBuf::from),
            before: arguments.text("--before")?.map(PathBuf::from),
            profile: arguments.text("--profile")?.unwrap_or_else(|| "release".to_owned()),
            folder: arguments.text("--dir")?.map_or_else(std::env::temp_dir, PathBuf::from),
            seed: arguments.number("--seed", clock.map_or(1, |since| since.as_secs()))?,
            json: arguments.text("--json")?.map(PathBuf::from),
        };
        arguments.finish()?;
        for path in [&options.regatta, &options.before].into_iter().flatten() {
            if !path.is_file() {
                return Err(format!("{}: no such file", path.display()));
            }
        }
        Ok(options)
    }
}

/// Reads `700`, `4k`, `1m`.
fn size(text: &str) -> Result<usize, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix('k') {
        Some(digits) => (digits, 1 << 10),
        None => lower.strip_suffix('m').map_or((lower.as_str(), 1), |digits| (digits, 1 << 20)),
    };
    let number: usize = digits.parse().map_err(|_| format!("{text}: not a size such as 4k"))?;
    let bytes = number.checked_mul(unit).filter(|bytes| (1..=BODY_BYTES_MAX).contains(bytes));
    bytes.ok_or_else(|| format!("{text}: from 1 byte to 1024m"))
}

/// Measures and prints; true if every trial was valid and none was left out.
///
/// # Errors
/// If the words are not understood or the comparison cannot start.
pub(crate) fn run(words: &[String]) -> Result<bool, String> {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return Ok(true);
    }
    let options = Options::new(words)?;
    let interrupt = Interrupt::listen()?;
    let wrk = require("wrk", "wrk")?;
    let mut bench = Bench::new(options, interrupt, wrk)?;
    let whole = bench.run_rounds();
    bench.count_calls();
    if bench.again > 0 {
        let note = format!("{} trials were made again, for the CPUs had moved", bench.again);
        bench.report.notes.push(note);
    }
    print!("\n{}", bench.report.text());
    if let Some(path) = &bench.options.json {
        std::fs::write(path, format!("{:#}\n", bench.report.json()))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        println!("every trial is in {}", path.display());
    }
    Ok(whole && bench.report.trials.iter().all(|trial| trial.outcome.is_ok()))
}

/// A comparison under way.
struct Bench {
    options: Options,
    interrupt: Interrupt,
    scratch: Scratch,
    root: PathBuf,
    bodies: Vec<(usize, String, Vec<u8>)>,
    targets: Vec<Target>,
    /// The server's CPU and the client's.
    cpus: [Option<usize>; 2],
    wrk: Wrk,
    /// How far apart those two were when the round's trials of a size began; None: at the first.
    apart_ns: Option<f64>,
    /// Trials that were made again because the CPUs had moved.
    again: u64,
    report: Report,
}

impl Bench {
    fn new(options: Options, interrupt: Interrupt, wrk: PathBuf) -> Result<Self, String> {
        let mut notes = Vec::new();
        let ours = Ours {
            regatta: regatta(&options, &mut notes),
            before: options.before.clone(),
            set: options.set.clone(),
        };
        let mut targets = Vec::new();
        for name in &options.targets {
            match Target::find(name, &ours) {
                Ok(target) => targets.push(target),
                Err(why) => notes.push(format!("{name} is left out: {why}")),
            }
        }
        if targets.is_empty() {
            return Err(format!("nothing to measure\n{}", notes.join("\n")));
        }
        let cpus = machine::cpus();
        let cpus = match cpus[..] {
            [server, client, ..] => [Some(server), Some(client)],
            _ => {
                notes.push("one CPU: server and client share it and measure each other".into());
                [None, None]
            }
        };
        if let [Some(server), Some(client)] = cpus
            && machine::share_a_core(server, client)
        {
            notes.push(format!(
                "CPUs {server} and {client} are threads of one core: the client's work slows the \
                 server's, so cycles move with it; instructions do not"
            ));
        }
        let scratch = Scratch::new(&options.folder)?;
        let root = scratch.path().join("root");
        let bodies = make_bodies(&root, &options.sizes)?;
        let wrk = Wrk::new(wrk, scratch.path(), options.connections, cpus[1])?;
        let report = Report {
            machine: Machine::new(),
            method: method(&options, &root, cpus),
            targets: targets.iter().map(|one| (one.name.clone(), one.version())).collect(),
            sizes: options.sizes.clone(),
            trials: Vec::new(),
            calls: Vec::new(),
            notes,
            seed: options.seed,
        };
        Ok(Self {
            options,
            interrupt,
            scratch,
            root,
            bodies,
            targets,
            cpus,
            wrk,
            apart_ns: None,
            again: 0,
            report,
        })
    }

    /// Runs every round; false if it was interrupted.
    fn run_rounds(&mut self) -> bool {
        let mut random = Random::new(self.options.seed);
        let cells = self.bodies.len() * self.targets.len();
        let trials = self.options.rounds * u64::try_from(cells).unwrap_or(u64::MAX);
        let each = self.options.seconds + WARM_SECONDS + 1;
        eprintln!("{trials} trials, about {} s; seed {}", trials * each, self.options.seed);
        for round in 0..self.options.rounds {
            let order = order(self.bodies.len(), self.targets.len(), &mut random);
            for (at, (body, target)) in order.into_iter().enumerate() {
                if at % self.targets.len() == 0 {
                    self.apart_ns = None;
                }
                let outcome = self.trial_in_place(body, target);
                if self.interrupt.is_set() {
                    self.report.notes.push(format!("interrupted in round {}", round + 1));
                    return false;
                }
                let bytes = self.bodies[body].0;
                let target = self.targets[target].name.clone();
                progress(round, &target, bytes, &outcome);
                self.report.trials.push(Trial { round, target, bytes, outcome });
            }
        }
        true
    }

    /// One timed trial, made again if the CPUs moved meanwhile, or are not where they were when the
    /// round's trials of this size began.
    fn trial_in_place(&mut self, body: usize, target: usize) -> Result<Measured, String> {
        for _ in 0..RETRIES {
            let measured = self.trial(body, target)?;
            if cores::moved(measured.apart_ns, self.apart_ns, cores::MOVED_MIN).is_none() {
                self.apart_ns = self.apart_ns.or(measured.apart_ns[0]);
                return Ok(measured);
            }
            self.again += 1;
        }
        self.trial(body, target)
    }

    /// One timed trial: a fresh server, verified, warmed, measured, verified again.
    fn trial(&mut self, body: usize, target: usize) -> Result<Measured, String> {
        let (server, address) = self.start(body, target)?;
        let path = &self.bodies[body].1;
        self.verify(body, target, address)?;
        self.wrk.run(address, path, WARM_SECONDS, &self.interrupt)?;
        let mut counters = Counters::attach(&server.pids());
        for (event, why) in counters.missing() {
            let note = format!("{event:?} cannot be counted on this machine: {why}");
            if !self.report.notes.contains(&note) {
                self.report.notes.push(note);
            }
        }
        let busy = || self.cpus.map(|cpu| cpu.and_then(machine::busy_seconds));
        let apart = || cores::round_trip_ns(self.cpus[0]?, self.cpus[1]?);
        if let Some(like) = self.apart_ns {
            cores::wait(like, cores::MOVED_MIN, apart, || self.interrupt.is_set());
        }
        let apart_before = apart();
        let before = busy();
        counters.start();
        let load = self.wrk.run(address, path, self.options.seconds, &self.interrupt)?;
        let Costs { totals, coverage } = counters.stop();
        let after = busy();
        let apart_ns = [apart_before, apart()];
        let spent = |at: usize| Some(after[at]? - before[at]?);
        self.verify(body, target, address)?;
        match load.fault {
            Some(fault) => Err(fault),
            None => Ok(Measured {
                requests: load.requests,
                seconds: load.seconds,
                service_us: (load.p50_us, load.p99_us),
                totals,
                coverage,
                cpus_busy: [spent(0), spent(1)],
                apart_ns,
            }),
        }
    }

    /// Asks once and compares with what the target must answer.
    fn verify(&self, body: usize, target: usize, address: SocketAddr) -> Result<(), String> {
        let (bytes, path, file) = &self.bodies[body];
        let own = self.targets[target].own_body(*bytes);
        client::verify(address, path, own.as_ref().unwrap_or(file))
    }

    /// Starts a server and waits until it accepts connections.
    fn start(&self, body: usize, target: usize) -> Result<(Spawned, SocketAddr), String> {
        let (bytes, path, _) = &self.bodies[body];
        let address = free_address()?;
        let place = Place {
            address,
            root: &self.root,
            file: path.trim_start_matches('/'),
            bytes: *bytes,
            cpu: self.cpus[0],
        };
        let errors = self.scratch.path().join("errors");
        let launch = self.targets[target].launch(&place, &self.scratch, &errors)?;
        let mut server = Spawned::start(launch)?;
        let start = Instant::now();
        while TcpStream::connect_timeout(&address, START_MAX).is_err() {
            if server.has_ended() || start.elapsed() > START_MAX {
                let said = std::fs::read_to_string(&errors).unwrap_or_default();
                let said: Vec<&str> = said.lines().take(3).collect();
                return Err(format!("does not start: {}", said.join(" / ")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok((server, address))
    }

    /// Counts system calls per request, each target and size in a short run of its own, since
    /// counting slows every call.
    fn count_calls(&mut self) {
        let mut how = None;
        for body in 0..self.bodies.len() {
            for target in 0..self.targets.len() {
                if self.interrupt.is_set() {
                    return;
                }
                let (bytes, name) = (self.bodies[body].0, self.targets[target].name.clone());
                let is_this = |trial: &&Trial| trial.target == name && trial.bytes == bytes;
                if !self.report.trials.iter().filter(is_this).any(|t| t.outcome.is_ok()) {
                    continue;
                }
                let counted = self.calls(body, target);
                let calls = match counted {
                    Ok((calls, by)) => {
                        how = Some(by);
                        Ok(calls)
                    }
                    Err(why) => {
                        let note = format!("calls/req of {name}, {}: {why}", size_name(bytes));
                        self.report.notes.push(note);
                        Err(why)
                    }
                };
                self.report.calls.push((name, bytes, calls));
            }
        }
        if let Some(by) = how {
            self.report.notes.push(format!("calls/req is from a run of its own, counted by {by}"));
        }
    }

    fn calls(&self, body: usize, target: usize) -> Result<(f64, &'static str), String> {
        let (server, address) = self.start(body, target)?;
        let path = &self.bodies[body].1;
        self.verify(body, target, address)?;
        self.wrk.run(address, path, WARM_SECONDS, &self.interrupt)?;
        match SystemCalls::start(&server.pids()) {
            Ok(counter) => {
                let load = self.wrk.run(address, path, 1, &self.interrupt)?;
                Ok((counter.stop() / load.requests, "the tracepoint raw_syscalls:sys_enter"))
            }
            Err(tracepoint) => {
                let strace = require("strace", "strace")
                    .map_err(|why| format!("{tracepoint}; without it, {why}"))?;
                let (calls, requests) = self.calls_by_strace(&strace, &server, address, path)?;
                Ok((calls / requests, "strace -c"))
            }
        }
    }

    fn calls_by_strace(
        &self,
        strace: &Path,
        server: &Spawned,
        address: SocketAddr,
        path: &str,
    ) -> Result<(f64, f64), String> {
        let written = self.scratch.path().join("strace");
        let mut command = Command::new(strace);
        command.args(["-f", "-c", "-U", "calls", "-o"]).arg(&written);
        for pid in server.pids() {
            command.args(["-p", &pid.to_string()]);
        }
        let launch = Launch { command, cpu: None, errors: None, as_nobody: false };
        let tracer = Spawned::start(launch)?;
        std::thread::sleep(Duration::from_millis(300));
        let load = self.wrk.run(address, path, 1, &self.interrupt)?;
        tracer.signal(rustix::process::Signal::INT);
        std::thread::sleep(Duration::from_millis(300));
        drop(tracer);
        let text = std::fs::read_to_string(&written).unwrap_or_default();
        let total = text.lines().rev().find_map(|line| line.trim().split(' ').next()?.parse().ok());
        Ok((total.ok_or("strace counted nothing")?, load.requests))
    }
}

/// The trials of a round, body and target: sizes in random order, and the targets in random order
/// within each, so that what is compared is measured close together in time.
fn order(bodies: usize, targets: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let mut shuffled = |length: usize| {
        let mut items: Vec<usize> = (0..length).collect();
        random.shuffle(&mut items);
        items
    };
    let bodies = shuffled(bodies).into_iter();
    bodies.flat_map(|body| shuffled(targets).into_iter().map(move |at| (body, at))).collect()
}

/// The binary to measure: the one that was named, or a fresh build.
fn regatta(options: &Options, notes: &mut Vec<String>) -> Option<PathBuf> {
    if let Some(path) = &options.regatta {
        return Some(path.clone());
    }
    let wanted = |name: &String| name == "null" || name.starts_with("regatta");
    if !options.targets.iter().any(wanted) {
        return None;
    }
    let built = cargo()
        .args(["build", "--package", "regatta", "--profile", &options.profile])
        .status()
        .is_ok_and(|status| status.success());
    if !built {
        notes.push("regatta does not build".to_owned());
        return None;
    }
    Some(target_dir().join(&options.profile).join("regatta"))
}

/// Writes one file of each size and gives size, path in the URL and bytes.
fn make_bodies(root: &Path, sizes: &[usize]) -> Result<Vec<(usize, String, Vec<u8>)>, String> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir(root).map_err(|error| format!("{}: {error}", root.display()))?;
    let mut random = Random::new(20_261_121);
    let mut bodies = Vec::new();
    for size in sizes {
        let mut bytes: Vec<u8> = std::iter::repeat_with(|| random.bits().to_le_bytes())
            .take(size / 8 + 1)
            .flatten()
            .collect();
        bytes.truncate(*size);
        let name = format!("body-{size:09}.bin");
        let path = root.join(&name);
        std::fs::write(&path, &bytes)
            .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        bodies.push((*size, format!("/{name}"), bytes));
    }
    for folder in [root, root.parent().unwrap_or(root)] {
        let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755));
    }
    Ok(bodies)
}

/// How it is measured, for the head of the report.
fn method(
    options: &Options,
    root: &Path,
    [server_cpu, client_cpu]: [Option<usize>; 2],
) -> Vec<(String, String)> {
    let cpu = |cpu: Option<usize>| cpu.map_or("any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let wrk = find_program("wrk").map(|program| {
        // `wrk -v` leaves with an error after saying its version.
        let said = Command::new(program).arg("-v").output().map(|o| o.stdout).unwrap_or_default();
        String::from_utf8_lossy(&said).split(" [").next().unwrap_or_default().trim().to_owned()
    });
    let rustc = output_of(Command::new("rustc").arg("--version")).unwrap_or_default();
    let binary = match &options.regatta {
        Some(path) => path.display().to_string(),
        None => format!("profile {}, {rustc}", options.profile),
    };
    let pairs = [
        ("server", format!("{}, one worker, access log off", cpu(server_cpu))),
        (
            "client",
            format!(
                "{} on {}, 1 thread, {} connections, closed loop",
                wrk.unwrap_or_default(),
                cpu(client_cpu),
                options.connections
            ),
        ),
        ("files", format!("on {}, cached", file_system(root))),
        (
            "trials",
            format!(
                "{} rounds of {} s after {WARM_SECONDS} s of warm-up, a fresh process each, \
                 random order, seed {}",
                options.rounds, options.seconds, options.seed
            ),
        ),
        ("regatta", format!("{binary}; settings: {}", settings(&options.set))),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn settings(set: &[String]) -> String {
    if set.is_empty() { "as they come".to_owned() } else { set.join(" ") }
}

/// The kind of file system that a path lies on.
fn file_system(path: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?, words.next()?))
        })
        .filter(|(folder, _)| path.starts_with(folder))
        .max_by_key(|(folder, _)| folder.len())
        .map_or("an unknown file system", |(_, kind)| kind)
        .to_owned()
}

/// An address on loopback that nobody listens at.
fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map_err(|error| error.to_string())
}

fn progress(round: u64, target: &str, bytes: usize, outcome: &Result<Measured, String>) {
    let said = match outcome {
        Ok(one) => format!("{:.0} req/s", one.requests / one.seconds),
        Err(why) => format!("invalid: {why}"),
    };
    eprintln!("round {:2}  {:8} {target:16} {said}", round + 1, size_name(bytes));
}

#[cfg(test)]
mod tests {
    use super::{Options, Random, file_system, order, size};
    use std::path::Path;

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("4k"), Ok(4096));
        assert_eq!(size("1M"), Ok(1 << 20));
        assert_eq!(size("700"), Ok(700));
        for wrong in ["", "k", "0", "-1", "2g", "99999m"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_round_has_every_cell_and_keeps_a_size_together() {
        let mut random = Random::new(3);
        let round = order(3, 4, &mut random);
        assert_ne!(round, order(3, 4, &mut random), "each round has an order of its own");
        for size in round.chunks(4) {
            assert!(size.iter().all(|(body, _)| *body == size[0].0), "{round:?}");
        }
        let mut sorted = round;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..12).map(|at| (at / 4, at % 4)).collect::<Vec<_>>());
    }

    #[test]
    fn options_are_strict() {
        let read = |text: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            Options::new(&words)
        };
        let options = read("--rounds 3 --sizes 4k,700 --targets nginx").expect("they are good");
        assert_eq!((options.rounds, options.sizes), (3, vec![4096, 700]));
        assert_eq!(options.targets, ["nginx"]);
        assert!(read("--round 3").is_err());
        assert!(read("--sizes big").is_err());
    }

    #[test]
    fn file_systems_have_names() {
        assert_eq!(file_system(Path::new("/proc/self")), "proc");
    }
}
