//! `cargo xtask disk-show`: what blocks when the disk does (claims E-1, E-4, X-3, X-12).

use super::tasks::{Reading, Shares};
use super::{Loaded, Served, Workshop, binary, environment, has, load_average, spread, verdict};
use crate::arguments::Arguments;
use crate::bench::{Interrupt, Random};
use crate::command::output_of;
use regatta_lab::env::spec::{Cpu, Disk, Network, Pages, size};
use regatta_lab::env::{Environment, Spec, build_image, disklog};
use regatta_lab::stats::median;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const HELP: &str = "\
Serves a file set larger than its memory from a simulated disk, over a shaped network, under one
architecture after the other, and says what the papers' claims E-1, E-4, X-3 and X-12 look like.

Usage: cargo xtask disk-show [options]

  --regatta FILE     measure this binary instead of a fresh release build
  --only NAMES       only these arms, separated by commas
  --repeats N        blocks, each with every arm once in random order (default 3)
  --seconds N        length of each of the two measurements of a trial (default 4)
  --workload NAME    a preset of `regatta workload` (default quick: 30 directories, 146 MiB)
  --memory SIZE      the memory of the server, page cache included (default 84M)
  --disk KEY=VALUE,..  the disk; see `cargo xtask env --help` (default seek_ms=2,bandwidth=100MB)
  --connections N    connections of the closed load, which finds the most that an arm can do
                     (default 64)
  --pacing RATE      the fastest that a connection is sent to (default 10MB/s)
  --seed N           order of the arms (default 1)
  --realtime         run before everything else on a machine that others use, too

Example: cargo xtask disk-show --repeats 5
";

/// The arms: a name, and what `regatta serve` is told.
const ARMS: [(&str, &[&str]); 7] = [
    ("sped", &["--architecture", "sped"]),
    ("symped-2", &["--architecture", "symped", "--set", "event.processes=2"]),
    ("symped-4", &["--architecture", "symped", "--set", "event.processes=4"]),
    ("shared-symped-4", &["--architecture", "shared-symped", "--set", "event.processes=4"]),
    ("amped", &["--architecture", "amped"]),
    ("amped-process", &["--architecture", "amped", "--set", "amped.helpers_as=processes"]),
    ("laio", &["--architecture", "laio"]),
];
/// The arm whose most is the measure of the common rate, and that rate's share of it.
const REFERENCE: &str = "symped-4";
const RATE_SHARE: f64 = 0.9;
const REALTIME: u32 = 10;
const LISTEN: &str = "10.9.1.1:8080";
const SERVER_CPU: usize = 0;
const CLIENT_CPU: usize = 1;
/// The beginning of each load is not measured, seconds.
const WARM_UP_S: u64 = 1;
/// An answer later than this is not good.
const DEADLINE: &str = "1s";

#[derive(Debug)]
struct Options {
    binary: PathBuf,
    arms: Vec<(&'static str, &'static [&'static str])>,
    repeats: u64,
    seconds: u64,
    memory: u64,
    disk: Disk,
    connections: u64,
    pacing: String,
    seed: u64,
    realtime: bool,
    workshop: Workshop,
    log: PathBuf,
}

/// What one load of a trial found.
#[derive(Clone, Debug, Default)]
struct Phase {
    good_per_s: f64,
    mbit_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    shares: Shares,
    disk: disklog::Summary,
    stamp: String,
    wrong: f64,
}

/// Runs the show; false if a body was wrong or a trial failed.
pub(crate) fn run(words: &[String]) -> Result<bool, String> {
    let mut arguments = Arguments::new(words);
    if arguments.flag("--help") {
        print!("{HELP}");
        return Ok(true);
    }
    let interrupt = Interrupt::listen()?;
    let options = Options::read(arguments)?;
    let load_before = load_average();
    let most = calibrate(&options, &interrupt)?;
    let rate = (most * RATE_SHARE).round();
    println!("{REFERENCE} alone: {most:.0} replies/s; common rate: {rate:.0}/s\n");
    let mut found: BTreeMap<&str, Vec<[Phase; 2]>> = BTreeMap::new();
    let mut random = Random::new(options.seed);
    let mut all_right = true;
    for block in 0..options.repeats {
        let mut arms = options.arms.clone();
        random.shuffle(&mut arms);
        for (name, words) in arms {
            let phases = trial(&options, words, Some(rate), &interrupt)?;
            for (kind, phase) in ["most", "rate"].iter().zip(&phases) {
                println!("block {block} {name:<16} {kind}  {}", phase.line());
                all_right &= phase.wrong == 0.0;
            }
            found.entry(name).or_default().push(phases);
        }
    }
    print_table(&options, &found, 0, "closed load: the most that each can do");
    print_table(&options, &found, 1, &format!("open load, {rate:.0}/s, deadline {DEADLINE}"));
    print_verdicts(&found);
    println!("\nload average: {load_before} before, {} after", load_average());
    Ok(all_right)
}

impl Options {
    fn read(mut arguments: Arguments) -> Result<Self, String> {
        let named = arguments.text("--regatta")?;
        let only = arguments.text("--only")?;
        let workload = arguments.text("--workload")?.unwrap_or_else(|| "quick".to_owned());
        let text = arguments.text("--disk")?;
        let disk = Disk::parse(text.as_deref().unwrap_or("seek_ms=2,bandwidth=100MB"))?;
        let memory = arguments.text("--memory")?.map_or(Ok(84 << 20), |text| size(&text))?;
        let (repeats, seconds) =
            (arguments.number("--repeats", 3)?, arguments.number("--seconds", 4)?);
        let connections = arguments.number("--connections", 64)?;
        let pacing = arguments.text("--pacing")?.unwrap_or_else(|| "10MB/s".to_owned());
        let seed = arguments.number("--seed", 1)?;
        let realtime = arguments.flag("--realtime");
        arguments.finish()?;
        let binary = binary(named)?;
        let wanted = |name: &str| only.as_ref().is_none_or(|o| o.split(',').any(|n| n == name));
        let mut arms: Vec<_> = ARMS.into_iter().filter(|(name, _)| wanted(name)).collect();
        arms.retain(|(name, words)| {
            let known = has(&binary, words[1]);
            if !known {
                println!("{name}: not in this build");
            }
            known
        });
        let workshop = Workshop::new()?;
        let files = workshop.0.join("workload");
        let mut new = Command::new(&binary);
        output_of(new.args(["workload", "new", &workload]).arg(&files))
            .ok_or_else(|| format!("regatta workload new {workload} failed"))?;
        build_image(Some(&files.join("root")), 0, &workshop.0.join("image"))?;
        let log = workshop.0.join("requests.tsv");
        let options = Self {
            binary,
            arms,
            repeats,
            seconds,
            memory,
            disk,
            connections,
            pacing,
            seed,
            realtime,
            workshop,
            log,
        };
        options.print(&workload);
        Ok(options)
    }

    fn print(&self, workload: &str) {
        let Disk { seek_ms, bandwidth, heads, .. } = self.disk;
        println!(
            "workload {workload}, memory {} MiB, disk {seek_ms} ms + {} MB/s x {heads}, MTU 1500 \
             without segmentation offload, tcp_wmem to 128 KiB, {} per connection\nserver on CPU \
             {SERVER_CPU}, client and disk on CPU {CLIENT_CPU}, {}; every body compared; cache of \
             descriptors and heads only",
            self.memory >> 20,
            bandwidth / 1_000_000,
            self.pacing,
            if self.realtime { "with real-time priority" } else { "at nice -15" }
        );
    }

    fn spec(&self) -> Spec {
        let disk = Disk {
            image: Some(self.workshop.0.join("image")),
            log: Some(self.log.clone()),
            ..self.disk.clone()
        };
        Spec {
            network: Some(Network {
                tcp_wmem: "4096 16384 131072".to_owned(),
                single_packets: true,
                ..Network::default()
            }),
            memory_bytes: self.memory,
            cpu: Cpu {
                server: vec![SERVER_CPU],
                client: vec![CLIENT_CPU],
                nice: if self.realtime { 0 } else { -15 },
                realtime: if self.realtime { REALTIME } else { 0 },
                ..Cpu::default()
            },
            disk: Some(disk),
            pages: Pages::Warm,
            accounting: true,
            ..Spec::default()
        }
    }

    fn server_words(&self, words: &[&str]) -> Vec<String> {
        let mut all: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let pacing = format!("accept.pacing_rate={}", self.pacing);
        for set in [
            pacing.as_str(),
            // As in the papers: descriptors and ready heads; bodies come from the page cache.
            "cache.body_bytes_max=0",
            "cache.copy_bytes_max=0",
            "cache.descriptors_max=4500",
            "cache.revalidate_ms=86400000",
        ] {
            all.extend(["--set".to_owned(), set.to_owned()]);
        }
        all
    }
}

/// The most that the reference can do.
fn calibrate(options: &Options, interrupt: &Interrupt) -> Result<f64, String> {
    let words = ARMS.iter().find(|(name, _)| *name == REFERENCE).expect("it is an arm").1;
    Ok(trial(options, words, None, interrupt)?[0].good_per_s)
}

/// One arm in an environment of its own: first the most that it can do, then the common rate.
fn trial(
    options: &Options,
    words: &[&str],
    rate: Option<f64>,
    interrupt: &Interrupt,
) -> Result<[Phase; 2], String> {
    let environment = environment(&options.spec())?;
    let served =
        Served::start(&environment, &options.binary, LISTEN, &options.server_words(words))?;
    let connections = options.connections.to_string();
    let closed = ["--closed".to_owned(), connections];
    let most = load(options, &environment, &served, &closed, interrupt)?;
    let at_rate = match rate {
        None => Phase::default(),
        Some(rate) => {
            let words = ["--rate", &rate.to_string(), "--connections-max", "8000"];
            let more = ["--arrivals", "poisson", "--deadline", DEADLINE, "--timeout", "5s"];
            let words: Vec<_> = words.iter().chain(&more).map(|w| (*w).to_owned()).collect();
            load(options, &environment, &served, &words, interrupt)?
        }
    };
    drop(served);
    environment.end()?;
    Ok([most, at_rate])
}

fn load(
    options: &Options,
    environment: &Environment,
    served: &Served,
    words: &[String],
    interrupt: &Interrupt,
) -> Result<Phase, String> {
    let files = options.workshop.0.join("workload");
    let log = files.join("logs/client-000.log");
    let mut all = vec![served.url.clone()];
    all.extend_from_slice(words);
    for (name, value) in [
        ("--workload", files.display().to_string()),
        ("--requests-from", log.display().to_string()),
        ("--verify", "generated".to_owned()),
        ("--warm-up", format!("{WARM_UP_S}s")),
        ("--duration", format!("{}s", options.seconds)),
        ("--drain", "1s".to_owned()),
    ] {
        all.extend([name.to_owned(), value]);
    }
    let mut seen = None;
    let window = Duration::from_secs(options.seconds);
    let whole = window + Duration::from_secs(WARM_UP_S);
    let loaded = Loaded::run(environment, &options.binary, &all, whole, interrupt, || {
        std::thread::sleep(Duration::from_secs(WARM_UP_S) + Duration::from_millis(200));
        let before = (Reading::take(served.child.id(), SERVER_CPU), now_ns());
        std::thread::sleep(window - Duration::from_millis(400));
        seen = Some((before, (Reading::take(served.child.id(), SERVER_CPU), now_ns())));
        Ok(())
    })?;
    let ((before, from_ns), (after, to_ns)) = seen.ok_or("nothing was read")?;
    let rows = disklog::read(&options.log).map_err(|error| error.to_string())?;
    let place = if loaded.0.get("response").is_some_and(|r| !r.is_null()) {
        "/response"
    } else {
        "/service"
    };
    Ok(Phase {
        good_per_s: loaded.number("/good_per_s"),
        mbit_per_s: loaded.number("/good_mbit_per_s"),
        p50_ms: loaded.quantile_ms(place, 0.5),
        p99_ms: loaded.quantile_ms(place, 0.99),
        shares: before.until(&after),
        disk: disklog::Summary::of(&rows, options.disk.heads, from_ns, to_ns),
        stamp: loaded.worth(),
        wrong: loaded.wrong(),
    })
}

/// `CLOCK_MONOTONIC`, as in the disk's log.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let parts = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    parts.0.unwrap_or(0) * 1_000_000_000 + parts.1.unwrap_or(0)
}

impl Phase {
    fn line(&self) -> String {
        let Shares { used, loops_wait, waiting, idle, kept, refaulted, active } = self.shares;
        format!(
            "{:7.0}/s {:6.0} Mbit/s p50 {:7.2} p99 {:8.2} ms | CPU used {:3.0} % idle {:3.0} % \
             kept {:3.0} %, loops wait {:3.0} %, waiting {waiting:.2} | disk {:5.0}/s busy \
             {:3.0} % depth {:.2} request {:.0} KiB run {:.0} KiB late {:.2} ms, {:.0} KiB/s came \
             back, {:.0} % active | {}",
            self.good_per_s,
            self.mbit_per_s,
            self.p50_ms,
            self.p99_ms,
            used * 100.0,
            idle * 100.0,
            kept * 100.0,
            loops_wait * 100.0,
            self.disk.requests_per_s,
            self.disk.busy * 100.0,
            self.disk.depth,
            self.disk.request_bytes / 1024.0,
            self.disk.run_bytes / 1024.0,
            self.disk.late_ms,
            refaulted / 1024.0,
            active * 100.0,
            self.stamp
        )
    }
}

/// A column: its name, a value of a phase, digits behind the point.
type Column = (&'static str, fn(&Phase) -> f64, usize);

const COLUMNS: [Column; 12] = [
    ("replies/s", |p| p.good_per_s, 0),
    ("Mbit/s", |p| p.mbit_per_s, 0),
    ("p50 ms", |p| p.p50_ms, 2),
    ("p99 ms", |p| p.p99_ms, 1),
    ("CPU us/reply", |p| p.shares.used / p.good_per_s * 1e6, 0),
    ("CPU unused %", |p| (1.0 - p.shares.used) * 100.0, 0),
    ("loops wait %", |p| p.shares.loops_wait * 100.0, 0),
    ("disk req/1000", |p| p.disk.requests_per_s / p.good_per_s * 1e3, 1),
    ("KiB/disk req", |p| p.disk.request_bytes / 1024.0, 0),
    ("came back KiB/reply", |p| p.shares.refaulted / 1024.0 / p.good_per_s, 2),
    ("disk busy %", |p| p.disk.busy * 100.0, 0),
    ("queue", |p| p.disk.depth, 2),
];

type Found<'a> = BTreeMap<&'a str, Vec<[Phase; 2]>>;

fn print_table(options: &Options, found: &Found<'_>, phase: usize, title: &str) {
    println!("\n{title}: median (least-most) of {} trials", options.repeats);
    print!("{:<16}", "");
    COLUMNS.iter().for_each(|(name, _, _)| print!(" {name:>22}"));
    println!("  stamps");
    for (name, _) in &options.arms {
        let Some(trials) = found.get(name) else { continue };
        print!("{name:<16}");
        for (_, of, digits) in COLUMNS {
            let values: Vec<f64> = trials.iter().map(|phases| of(&phases[phase])).collect();
            print!(" {:>22}", spread(&values, digits));
        }
        let stamp = |phases: &[Phase; 2]| {
            phases[phase].stamp.split(':').next().unwrap_or_default().to_owned()
        };
        let mut stamps: Vec<_> = trials.iter().map(stamp).collect();
        stamps.sort_unstable();
        stamps.dedup();
        println!("  {}", stamps.join(" "));
    }
}

fn middle(found: &Found<'_>, arm: &str, phase: usize, of: fn(&Phase) -> f64) -> Option<f64> {
    let trials = found.get(arm)?;
    Some(median(&trials.iter().map(|phases| of(&phases[phase])).collect::<Vec<_>>()))
}

/// What an arm asks of the disk, in words.
fn disk_use(found: &Found<'_>, arm: &str) -> String {
    let of = |of| middle(found, arm, 0, of).unwrap_or(f64::NAN);
    format!(
        "asks the disk {:.1} times for 1000 replies, which is {:.0} % busy; its loops wait {:.0} %",
        of(|p| p.disk.requests_per_s / p.good_per_s * 1e3),
        of(|p| p.disk.busy * 100.0),
        of(|p| p.shares.loops_wait * 100.0)
    )
}

/// The least and most of one arm's value over another's, block by block.
fn ratio(found: &Found<'_>, one: &str, other: &str, of: fn(&Phase) -> f64) -> Option<[f64; 3]> {
    let pairs = found.get(one)?.iter().zip(found.get(other)?);
    let mut ratios: Vec<f64> = pairs.map(|(a, b)| of(&a[0]) / of(&b[0])).collect();
    ratios.sort_by(f64::total_cmp);
    Some([*ratios.first()?, median(&ratios), *ratios.last()?])
}

/// The most that others may keep a single loop from its processor before nothing is concluded.
const KEPT_MAX: f64 = 0.10;

fn print_verdicts(found: &Found<'_>) {
    println!();
    let kept = middle(found, "sped", 0, |phase| phase.shares.kept).unwrap_or(f64::NAN);
    if kept.is_nan() || kept > KEPT_MAX {
        println!(
            "E-1, E-4, X-3, X-12 CANNOT BE TOLD: sped was not run, or others kept it from its \
             processor ({:.0} % of the time, {:.0} % at most); --realtime helps",
            kept * 100.0,
            KEPT_MAX * 100.0
        );
        return;
    }
    let unused: fn(&Phase) -> f64 = |phase| (1.0 - phase.shares.used) * 100.0;
    let most: fn(&Phase) -> f64 = |phase| phase.good_per_s;
    if let Some(here) = middle(found, "sped", 0, unused) {
        let wait = middle(found, "sped", 0, |p| p.shares.loops_wait * 100.0).unwrap_or(f64::NAN);
        println!(
            "E-1  {}: at its most, SPED leaves {here:.0} % of its core unused and waits for the \
             disk {wait:.0} % of the time (paper 33 %, asked: both at least 20 %)",
            verdict(here >= 20.0 && wait >= 20.0)
        );
    }
    if let (Some([low, mid, high]), Some(one), Some(two)) = (
        ratio(found, "symped-2", "sped", most),
        middle(found, "sped", 0, unused),
        middle(found, "symped-2", 0, unused),
    ) {
        println!(
            "E-4  {}: a second process takes {mid:.2} times as much ({low:.2}-{high:.2}; paper \
             1.38, asked 1.20) and leaves {two:.0} % unused instead of {one:.0} % (asked: half)",
            verdict(mid >= 1.2 && two <= one / 2.0)
        );
    }
    for (claim, arm) in [("X-3 ", "amped"), ("X-3 ", "amped-process"), ("X-12", "laio")] {
        let (Some([low, mid, high]), Some([_, over, _])) =
            (ratio(found, arm, REFERENCE, most), ratio(found, arm, "sped", most))
        else {
            println!("{claim} CANNOT BE TOLD: {arm} is not in this build or was not run");
            continue;
        };
        let (here, there) = (disk_use(found, arm), disk_use(found, REFERENCE));
        println!(
            "{claim} {}: {arm} with one loop does {mid:.2} of {REFERENCE} ({low:.2}-{high:.2}; \
             asked at least 0.95) and {over:.2} of sped (asked 1.20)\n     {arm} {here}; \
             {REFERENCE} {there}",
            verdict(mid >= 0.95 && over >= 1.2)
        );
    }
    println!(
        "CPU unused: of the server's core, by the server; at nice -15 others get little of it"
    );
}

#[cfg(test)]
mod tests {
    use super::{Found, Phase, middle, ratio};
    use std::path::Path;

    fn phases(most: f64) -> [Phase; 2] {
        [Phase { good_per_s: most, ..Phase::default() }, Phase::default()]
    }

    #[test]
    fn arms_are_compared_block_by_block() {
        let found: Found<'_> = [
            ("sped", vec![phases(100.0), phases(200.0), phases(100.0)]),
            ("symped-2", vec![phases(150.0), phases(240.0), phases(140.0)]),
        ]
        .into();
        let of = |phase: &Phase| phase.good_per_s;
        assert_eq!(middle(&found, "sped", 0, of), Some(100.0));
        assert_eq!(ratio(&found, "symped-2", "sped", of), Some([1.2, 1.4, 1.5]));
        assert_eq!(ratio(&found, "laio", "sped", of), None);
        assert!(!super::has(Path::new("/nonexistent"), "sped"));
    }
}
