//! `cargo xtask overload-show`: how a select server takes new connections decides what is left of
//! it under overload (claims H-1, H-3, H-7).

use super::{
    Loaded, Served, Workshop, binary, environment, grown, has, load_average, spread, verdict,
};
use crate::arguments::Arguments;
use crate::bench::{Interrupt, Random};
use regatta_lab::env::Spec;
use regatta_lab::env::spec::{Cpu, Network};
use regatta_lab::stats::median;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const HELP: &str = "\
Offers connections with one request for one byte each, at 0.7 to 2 times what the server can do, to
the select servers of [H], and says what the claims H-1, H-3 and H-7 look like.

Usage: cargo xtask overload-show [options]

  --regatta FILE     measure this binary instead of a fresh release build
  --repeats N        blocks, each with every point once in random order (default 3)
  --millis N         length of the measurement of a point (default 2500)
  --slow PERCENT     what is left of the server's processor, so that the client can offer twice
                     what the server can do from one as fast (default 15)
  --saturation RATE  take this rate for AcceptInf's most instead of measuring it
  --realtime         run the client before everything else on a machine that others use, too
  --seed N           order of the points (default 1)

Example: cargo xtask overload-show --repeats 5
";

/// A strategy: its name here, and what `regatta serve` is told.
type Arm = (&'static str, &'static [&'static str]);

const ACCEPT_1: Arm = ("Accept1", &["--architecture", "accept1"]);
const ACCEPT_INF: Arm = ("AcceptInf", &["--architecture", "acceptinf"]);
const ACCEPT_25: Arm = ("Accept25", &["--architecture", "accept25"]);
const CM: Arm = ("CM", &["--architecture", "cm"]);
const EAGER: Arm = ("Eager", &["--architecture", "eager"]);
const ACCEPT_10: Arm = ("Accept10", &["--architecture", "accept25", "--set", "accept.count=10"]);
const ACCEPT_125: Arm = ("Accept125", &["--architecture", "accept25", "--set", "accept.count=125"]);

/// Multiples of the saturation rate; 1.67 is [H]'s 7,000 of 4,200.
const TIMES: [f64; 5] = [0.7, 1.0, 1.2, 1.67, 2.0];
/// Where H-7 compares, and H-3.
const AFTER: f64 = 1.2;
const OVER: f64 = 1.67;
const LISTEN: &str = "127.0.0.1:8080";
const WARM_UP_MS: u64 = 500;
/// Below a second, so that no connection lives on a SYN sent again (systems.md §0.3).
const TIMEOUT: &str = "900ms";
const CONNECTIONS_MAX: &str = "15000";

#[derive(Debug)]
struct Options {
    binary: PathBuf,
    repeats: u64,
    millis: u64,
    left: u32,
    realtime: bool,
    workshop: Workshop,
}

/// What one point found.
#[derive(Clone, Debug, Default)]
struct Point {
    good_per_s: f64,
    p50_ms: f64,
    /// Share of the time in `select`.
    select: f64,
    /// How long a `select` takes, us: waiting for something to happen included.
    select_us: f64,
    /// Share of the reads that found nothing.
    vain: f64,
    /// Open connections, mean over the accepts.
    open: f64,
    /// Connections for each call of `select`.
    per_wait: f64,
    overflows_per_s: f64,
    limited: bool,
    wrong: f64,
    worth: String,
}

/// By arm and multiple: the points, one for each block.
type Found = BTreeMap<(&'static str, u64), Vec<Point>>;

/// Runs the show; false if a body was wrong.
pub(crate) fn run(words: &[String]) -> Result<bool, String> {
    let mut arguments = Arguments::new(words);
    if arguments.flag("--help") {
        print!("{HELP}");
        return Ok(true);
    }
    let interrupt = Interrupt::listen()?;
    let (seed, given) = (arguments.number("--seed", 1)?, arguments.number("--saturation", 0)?);
    let options = Options::read(arguments)?;
    let load_before = load_average();
    let saturation = match given {
        0 => saturation(&options, &interrupt)?,
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        given => given as f64,
    };
    println!("AcceptInf at its most, S: {saturation:.0} replies/s\n");
    let mut found = Found::new();
    let mut random = Random::new(seed);
    let mut all_right = true;
    for block in 0..options.repeats {
        let mut points = points();
        random.shuffle(&mut points);
        for (arm, times) in points {
            let point = measure(&options, arm, saturation * times, &interrupt)?;
            println!("block {block} {:<10} {times:4} S  {}", arm.0, point.line());
            all_right &= point.wrong == 0.0;
            found.entry((arm.0, key(times))).or_default().push(point);
        }
    }
    print_tables(&found, saturation);
    print_verdicts(&found);
    println!("\nload average: {load_before} before, {} after", load_average());
    Ok(all_right)
}

/// Each strategy at each multiple; those that only H-7 asks for where it compares.
fn points() -> Vec<(Arm, f64)> {
    let everywhere = [ACCEPT_1, ACCEPT_INF, ACCEPT_25, CM].into_iter();
    let mut all: Vec<_> =
        everywhere.flat_map(|arm| TIMES.into_iter().map(move |times| (arm, times))).collect();
    all.extend([EAGER, ACCEPT_10, ACCEPT_125].map(|arm| (arm, AFTER)));
    all
}

/// A multiple as a key: hundredths.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2")]
fn key(times: f64) -> u64 {
    (times * 100.0).round() as u64
}

impl Options {
    fn read(mut arguments: Arguments) -> Result<Self, String> {
        let named = arguments.text("--regatta")?;
        let (repeats, millis) =
            (arguments.number("--repeats", 3)?, arguments.number("--millis", 2_500)?);
        let left = arguments.number("--slow", 15)?;
        let left = u32::try_from(left).map_err(|_| format!("--slow {left}: too much"))?;
        let realtime = arguments.flag("--realtime");
        arguments.finish()?;
        let binary = binary(named)?;
        for (name, words) in [ACCEPT_1, ACCEPT_INF, ACCEPT_25, CM, EAGER] {
            if !has(&binary, words[1]) {
                return Err(format!("{name}: not in this build"));
            }
        }
        let workshop = Workshop::new()?;
        let root = workshop.0.join("root");
        std::fs::create_dir(&root)
            .and_then(|()| std::fs::write(root.join("one"), "1"))
            .map_err(|error| format!("{}: {error}", root.display()))?;
        println!(
            "one file of one byte, one request for each connection, open load, time-out {TIMEOUT}; \
             select, no cache, backlog 128\nserver on CPU 0 of which {left} % is left, client on \
             CPU 1{}; a new server and namespace for each point",
            if realtime { ", both with real-time priority" } else { "" }
        );
        Ok(Self { binary, repeats, millis, left, realtime, workshop })
    }

    fn spec(&self) -> Spec {
        Spec {
            network: Some(Network::default()),
            cpu: Cpu {
                server: vec![0],
                client: vec![1],
                left_percent: self.left,
                nice: if self.realtime { 0 } else { -15 },
                realtime: if self.realtime { 10 } else { 0 },
                ..Cpu::default()
            },
            files: Some(self.workshop.0.join("root")),
            ..Spec::default()
        }
    }
}

/// What AcceptInf can do at its most: in the closed model, so that nothing is offered too much.
fn saturation(options: &Options, interrupt: &Interrupt) -> Result<f64, String> {
    let closed = ["--closed".to_owned(), "64".to_owned()];
    let runs: Result<Vec<f64>, String> =
        (0..3).map(|_| Ok(load(options, ACCEPT_INF, &closed, interrupt)?.good_per_s)).collect();
    Ok(median(&runs?))
}

fn measure(options: &Options, arm: Arm, rate: f64, interrupt: &Interrupt) -> Result<Point, String> {
    let words = ["--rate", &format!("{rate:.0}"), "--connections-max", CONNECTIONS_MAX];
    load(options, arm, &words.map(str::to_owned), interrupt)
}

fn load(
    options: &Options,
    arm: Arm,
    model: &[String],
    interrupt: &Interrupt,
) -> Result<Point, String> {
    let environment = environment(&options.spec())?;
    let words: Vec<String> = arm.1.iter().map(|word| (*word).to_owned()).collect();
    let served = Served::start(&environment, &options.binary, LISTEN, &words)?;
    let mut all = vec![format!("{}/one", served.url)];
    all.extend_from_slice(model);
    for (name, value) in [
        ("--requests-per-connection", "1".to_owned()),
        // As in [H] the server closes: else each connection has a second read, for its end.
        ("--header", "Connection: close".to_owned()),
        ("--timeout", TIMEOUT.to_owned()),
        ("--verify", options.workshop.0.join("root").display().to_string()),
        ("--warm-up", format!("{WARM_UP_MS}ms")),
        ("--duration", format!("{}ms", options.millis)),
        ("--drain", "1s".to_owned()),
    ] {
        all.extend([name.to_owned(), value]);
    }
    let mut seen = None;
    let window = Duration::from_millis(options.millis);
    let whole = window + Duration::from_millis(WARM_UP_MS);
    let loaded = Loaded::run(&environment, &options.binary, &all, whole, interrupt, || {
        std::thread::sleep(Duration::from_millis(WARM_UP_MS + 100));
        let before = (served.counters(&options.binary)?, Instant::now());
        std::thread::sleep(window - Duration::from_millis(300));
        seen = Some((before, (served.counters(&options.binary)?, Instant::now())));
        Ok(())
    })?;
    let ((before, from), (after, to)) = seen.ok_or("nothing was read")?;
    drop(served);
    environment.end()?;
    Ok(Point::new(&loaded, &before, &after, (to - from).as_secs_f64()))
}

impl Point {
    fn new(loaded: &Loaded, before: &Value, after: &Value, seconds: f64) -> Self {
        let grown = |name| grown(before, after, name);
        let place = if loaded.0["response"].is_null() { "/service" } else { "/response" };
        Self {
            good_per_s: loaded.number("/good_per_s"),
            p50_ms: loaded.quantile_ms(place, 0.5),
            select: grown("wait_ns") / 1e9 / seconds,
            // A server that accepts whenever a connection closes may never come back to it.
            select_us: grown("wait_ns") / 1e3 / grown("wait_calls").max(1.0),
            vain: grown("recv_would_block") / grown("recv_calls"),
            open: grown("connections_open_at_accept_sum") / grown("accept_ok"),
            per_wait: grown("accept_ok") / grown("wait_calls"),
            overflows_per_s: loaded.number("/kernel/listen_overflows") / loaded.number("/seconds"),
            limited: loaded.is_limited_by_client(),
            wrong: loaded.wrong(),
            worth: loaded.worth(),
        }
    }

    fn line(&self) -> String {
        format!(
            "{:6.0} replies/s p50 {:6.1} ms | select {:3.0} % {:5.0} us reads in vain {:4.1} % \
             open {:6.0} accepts/wait {:5.2} overflows {:5.0}/s | {}",
            self.good_per_s,
            self.p50_ms,
            self.select * 100.0,
            self.select_us,
            self.vain * 100.0,
            self.open,
            self.per_wait,
            self.overflows_per_s,
            self.worth
        )
    }
}

const ROWS: [&str; 7] =
    ["Accept1", "AcceptInf", "Accept25", "CM", "Eager", "Accept10", "Accept125"];

fn print_tables(found: &Found, saturation: f64) {
    for (title, of, digits) in [
        ("replies/s", (|p| p.good_per_s) as fn(&Point) -> f64, 0),
        ("time in select, %", |p| p.select * 100.0, 0),
        ("us for a select", |p| p.select_us, 0),
        ("reads in vain, %", |p| p.vain * 100.0, 1),
        ("open connections, mean at accepts", |p| p.open, 0),
        ("listen overflows/s", |p| p.overflows_per_s, 0),
    ] {
        println!("\n{title}: median (least-most); * where the client was the limit");
        print!("{:<11}", "offered");
        for times in TIMES {
            print!(" {:>24}", format!("{times} S = {:.0}/s", times * saturation));
        }
        println!();
        for row in ROWS {
            print!("{row:<11}");
            for times in TIMES {
                let text = found.get(&(row, key(times))).map_or_else(String::new, |points| {
                    let values: Vec<f64> = points.iter().map(of).collect();
                    let mark = if points.iter().any(|point| point.limited) { "*" } else { "" };
                    format!("{}{mark}", spread(&values, digits))
                });
                print!(" {text:>24}");
            }
            println!();
        }
    }
}

/// The median of a value, unless the client was the limit in most of the blocks.
fn middle(found: &Found, arm: &'static str, times: f64, of: fn(&Point) -> f64) -> Option<f64> {
    let points = found.get(&(arm, key(times)))?;
    let sound: Vec<f64> = points.iter().filter(|point| !point.limited).map(of).collect();
    (sound.len() * 2 > points.len()).then(|| median(&sound))
}

/// The ratio of two arms at a multiple, of medians and block by block: least, median, most.
fn ratio(found: &Found, one: &'static str, other: &'static str, times: f64) -> Option<[f64; 3]> {
    let of: fn(&Point) -> f64 = |point| point.good_per_s;
    middle(found, one, times, of)?;
    middle(found, other, times, of)?;
    let pairs = found.get(&(one, key(times)))?.iter().zip(found.get(&(other, key(times)))?);
    let sound = pairs.filter(|(a, b)| !a.limited && !b.limited);
    ordered(sound.map(|(a, b)| a.good_per_s / b.good_per_s).collect())
}

/// The most that an arm reached in each block, at any multiple.
fn peaks(found: &Found, arm: &'static str) -> Vec<f64> {
    let rows: Vec<_> = TIMES.iter().filter_map(|t| found.get(&(arm, key(*t)))).collect();
    let blocks = rows.iter().map(|points| points.len()).min().unwrap_or(0);
    let sound = |point: &Point| if point.limited { 0.0 } else { point.good_per_s };
    (0..blocks)
        .map(|block| rows.iter().map(|points| sound(&points[block])).fold(0.0, f64::max))
        .collect()
}

fn peak_ratio(found: &Found, one: &'static str, other: &'static str) -> Option<[f64; 3]> {
    // A peak is known only where the client could go beyond it.
    let beyond = |arm| {
        let past = [AFTER, OVER, 2.0].iter();
        past.filter(|times| middle(found, arm, **times, |p| p.good_per_s).is_some()).count() > 0
    };
    if !beyond(one) || !beyond(other) {
        return None;
    }
    let pairs = peaks(found, one).into_iter().zip(peaks(found, other));
    ordered(pairs.map(|(a, b)| a / b).filter(|ratio| ratio.is_finite()).collect())
}

fn ordered(mut ratios: Vec<f64>) -> Option<[f64; 3]> {
    ratios.sort_by(f64::total_cmp);
    Some([*ratios.first()?, median(&ratios), *ratios.last()?])
}

const CLIENT: &str = "CANNOT BE TOLD: LIMITED-BY-CLIENT where it is compared; a lower --slow helps";

fn print_verdicts(found: &Found) {
    println!();
    // What the server counted holds whatever the client was.
    let text = |arm, times, of: fn(&Point) -> f64| match found.get(&(arm, key(times))) {
        Some(points) => format!("{:.0}", median(&points.iter().map(of).collect::<Vec<_>>())),
        None => "?".to_owned(),
    };
    let select = |arm| {
        let share = text(arm, OVER, |p| p.select * 100.0);
        format!("{} us each, {share} %", text(arm, OVER, |p| p.select_us))
    };
    match peak_ratio(found, "Accept1", "AcceptInf") {
        None => println!("H-1  {CLIENT}"),
        Some([low, mid, high]) => println!(
            "H-1  {}: Accept1's peak is {mid:.2} of AcceptInf's ({low:.2}-{high:.2}; paper \
             0.74, asked below 0.90 in every block)\n     select at {OVER} S: Accept1 {} of \
             its time (paper 26 to 40 %) among {} connections, AcceptInf {}",
            verdict(high < 0.9),
            select("Accept1"),
            text("Accept1", OVER, |p| p.open),
            select("AcceptInf")
        ),
    }
    let vain = |times| text("CM", times, |p| p.vain * 100.0);
    match ratio(found, "CM", "AcceptInf", OVER) {
        None => println!("H-3  {CLIENT}"),
        Some([low, mid, high]) => println!(
            "H-3  {}: at {OVER} S CM does {mid:.2} of AcceptInf ({low:.2}-{high:.2}; paper \
             0.25, asked below 0.50)\n     CM's reads in vain: {} % at 1 S, {} % at {OVER} S, \
             {} % at 2 S (paper 5 to 26 %), with {} connections open (paper 15000) and {} us for \
             a select",
            verdict(mid < 0.5),
            vain(1.0),
            vain(OVER),
            vain(2.0),
            text("CM", OVER, |p| p.open),
            text("CM", OVER, |p| p.select_us)
        ),
    }
    print_interior(found);
}

/// H-7: some limit between 10 and 75 keeps the peak and beats both ends after it.
fn print_interior(found: &Found) {
    let at = |arm| middle(found, arm, AFTER, |point| point.good_per_s);
    let (Some([_, peak, _]), Some([low, inf, high]), Some([_, eager, _])) = (
        peak_ratio(found, "Accept25", "AcceptInf"),
        ratio(found, "Accept25", "AcceptInf", AFTER),
        ratio(found, "Accept25", "Eager", AFTER),
    ) else {
        println!("H-7  {CLIENT}");
        return;
    };
    let ends = [at("Accept10"), at("Accept25"), at("Accept125")];
    let ends = ends.map(|v| v.map_or("?".to_owned(), |value| format!("{value:.0}"))).join(", ");
    println!(
        "H-7  {}: Accept25's peak is {peak:.2} of AcceptInf's (asked 0.97); at {AFTER} S it does \
         {inf:.2} of AcceptInf ({low:.2}-{high:.2}) and {eager:.2} of Eager (asked 1.05 of both); \
         limits of 10, 25, 125: {ends} replies/s",
        verdict(peak >= 0.97 && inf >= 1.05 && eager >= 1.05)
    );
}

#[cfg(test)]
mod tests {
    use super::{Found, Point, key, middle, peak_ratio, points, ratio};

    fn point(good_per_s: f64, limited: bool) -> Point {
        Point { good_per_s, limited, ..Point::default() }
    }

    fn found() -> Found {
        let rows = [
            ("Accept1", [70.0, 74.0, 60.0, 50.0, 40.0]),
            ("AcceptInf", [70.0, 100.0, 95.0, 90.0, 80.0]),
        ];
        let times = [0.7, 1.0, 1.2, 1.67, 2.0];
        let cells = rows.iter().flat_map(|(name, values)| {
            times.iter().zip(values).map(|(t, v)| ((*name, key(*t)), vec![point(*v, false)]))
        });
        cells.collect()
    }

    #[test]
    fn peaks_are_compared_wherever_they_are() {
        let mut found = found();
        assert_eq!(peak_ratio(&found, "Accept1", "AcceptInf"), Some([0.74; 3]));
        assert_eq!(ratio(&found, "Accept1", "AcceptInf", 2.0), Some([0.5; 3]));
        assert_eq!(ratio(&found, "CM", "AcceptInf", 2.0), None);
        // Where the client was the limit, nothing is concluded.
        for times in [1.2, 1.67, 2.0] {
            found.insert(("AcceptInf", key(times)), vec![point(90.0, true)]);
        }
        assert_eq!(middle(&found, "AcceptInf", 2.0, |p| p.good_per_s), None);
        assert_eq!(peak_ratio(&found, "Accept1", "AcceptInf"), None);
        assert_eq!(ratio(&found, "Accept1", "AcceptInf", 2.0), None);
    }

    #[test]
    fn every_point_is_asked_for_once() {
        let mut keys: Vec<_> = points().iter().map(|((name, _), t)| (*name, key(*t))).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!((keys.len(), all), (23, 23));
    }
}
