//! Experiments that show a claim of the papers in miniature, each in environments of its own.

pub(crate) mod disk;
pub(crate) mod overload;
mod tasks;

use crate::bench::Interrupt;
use crate::command::{cargo, output_of, target_dir};
use regatta_lab::env::{Environment, Place, Spec};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The stamp of a run whose generator could not keep up: it says nothing about the server.
const LIMITED: &str = "LIMITED-BY-CLIENT";
/// How long a server may take to listen.
const START_MAX: Duration = Duration::from_secs(20);
/// How long a load may take beyond its own length.
const LATE_MAX: Duration = Duration::from_secs(30);

/// The server's binary: the one that was named, or a fresh build.
fn binary(named: Option<String>) -> Result<PathBuf, String> {
    if let Some(path) = named {
        return Path::new(&path).canonicalize().map_err(|error| format!("{path}: {error}"));
    }
    let built = cargo().args(["build", "--package", "regatta", "--release"]).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("regatta does not build".to_owned());
    }
    Ok(target_dir().join("release/regatta"))
}

/// Whether a build has an architecture.
fn has(binary: &Path, architecture: &str) -> bool {
    let known = output_of(Command::new(binary).arg("architectures")).unwrap_or_default();
    known.lines().any(|line| line.split(' ').next() == Some(architecture))
}

/// Makes an environment, or prints what this machine does not allow.
fn environment(spec: &Spec) -> Result<Environment, String> {
    Environment::make(spec).map_err(|fault| format!("not allowed here, or failed: {fault}"))
}

/// A server in an environment, which ends with it.
#[derive(Debug)]
struct Served {
    child: Child,
    url: String,
}

impl Served {
    /// Starts it and waits until it listens.
    fn start(
        environment: &Environment,
        binary: &Path,
        listen: &str,
        words: &[String],
    ) -> Result<Self, String> {
        let root = environment.root().ok_or("no files to serve")?;
        let mut command = environment.command(Place::Server, binary);
        command.arg("serve").arg(root).args(["--listen", listen]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let out = child.stdout.take().ok_or("no standard output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).map_err(|error| error.to_string())?;
        let url = line.trim().strip_prefix("listening on ").map(str::to_owned);
        let Some(url) = url else { return Err(format!("the server said: {line}")) };
        let served = Self { child, url };
        let start = Instant::now();
        while served.counters(binary).is_err() {
            if start.elapsed() > START_MAX {
                return Err("the server counts nothing".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(served)
    }

    /// Its counters, summed over its workers.
    fn counters(&self, binary: &Path) -> Result<Value, String> {
        let pid = self.child.id().to_string();
        let mut top = Command::new(binary);
        top.args(["top", "--once", "--json", "--interval", "0", "--pid", &pid]);
        let text = output_of(&mut top).ok_or("regatta top failed")?;
        let all: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        all.pointer("/total/counters").cloned().ok_or_else(|| "no counters".to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a load found, as `regatta load --json` says it.
#[derive(Debug)]
struct Loaded(Value);

impl Loaded {
    /// Runs a load; `during` is called as soon as it runs.
    fn run(
        environment: &Environment,
        binary: &Path,
        words: &[String],
        length: Duration,
        interrupt: &Interrupt,
        during: impl FnOnce() -> Result<(), String>,
    ) -> Result<Self, String> {
        let mut command = environment.command(Place::Client, binary);
        command.arg("load").args(words).args(["--json", "--quiet"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut out = child.stdout.take().ok_or("no standard output")?;
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).map(|_| text)
        });
        let looked = during();
        let start = Instant::now();
        while !matches!(child.try_wait(), Ok(Some(_))) {
            if interrupt.is_set() || start.elapsed() > length + LATE_MAX {
                let _ = child.kill();
                let _ = child.wait();
                return Err("the load was interrupted, or did not end".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        looked?;
        let text = reader.join().map_err(|_| "the reader panicked")?;
        let text = text.map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map(Self).map_err(|error| format!("load: {error}: {text}"))
    }

    fn number(&self, pointer: &str) -> f64 {
        self.0.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// A quantile of the times at a place, ms; failed requests count as later than all others.
    fn quantile_ms(&self, place: &str, q: f64) -> f64 {
        let pairs = self.0.pointer(&format!("{place}/times/pairs")).and_then(Value::as_array);
        let censored = self.number(&format!("{place}/censored")).max(0.0);
        quantile(&pairs.map(|pairs| ns_counts(pairs)).unwrap_or_default(), censored, q) / 1e6
    }

    /// What the run is worth, in the load generator's words.
    fn stamp(&self) -> String {
        let text = self.0.pointer("/stamp").and_then(Value::as_str).unwrap_or("?");
        text.to_owned()
    }

    fn is_limited_by_client(&self) -> bool {
        self.stamp() == LIMITED
    }

    /// The stamp, and if it is not the best, why.
    fn worth(&self) -> String {
        let stamp = self.stamp();
        let reasons = self.0.pointer("/reasons").and_then(Value::as_array);
        let why = reasons.into_iter().flatten().find(|reason| reason["stamp"] == stamp.as_str());
        match why.and_then(|reason| reason["why"].as_str()).filter(|_| stamp != "VALID") {
            Some(why) => format!("{stamp}: {why}"),
            None => stamp,
        }
    }

    /// Bodies that were not the right bytes.
    fn wrong(&self) -> f64 {
        ["wrong-bytes", "wrong-length", "malformed", "truncated", "stale"]
            .iter()
            .map(|fate| self.number(&format!("/fates/{fate}")))
            .sum()
    }
}

fn ns_counts(pairs: &[Value]) -> Vec<(f64, f64)> {
    let at = |pair: &Value, i| pair.get(i).and_then(Value::as_f64).unwrap_or(0.0);
    pairs.iter().map(|pair| (at(pair, 0), at(pair, 1))).collect()
}

/// A quantile of counted values in rising order, with `beyond` more above all of them.
fn quantile(counts: &[(f64, f64)], beyond: f64, q: f64) -> f64 {
    let all = counts.iter().map(|(_, count)| count).sum::<f64>() + beyond;
    let mut below = 0.0;
    for (value, count) in counts {
        below += count;
        if below >= q * all && all > 0.0 {
            return *value;
        }
    }
    f64::INFINITY
}

/// The difference of a counter between two readings.
fn grown(before: &Value, after: &Value, name: &str) -> f64 {
    let of = |reading: &Value| reading.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
    of(after) - of(before)
}

/// The median of some numbers, and the least and most of them, as text.
fn spread(values: &[f64], digits: usize) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let text = |value: f64| match value.is_finite() {
        true => format!("{value:.digits$}"),
        false => "none".to_owned(),
    };
    let end = |value: Option<&f64>| text(value.copied().unwrap_or(f64::NAN));
    // With an even count the lower of the two in the middle: one of them may be infinite.
    let middle = end(sorted.get(sorted.len().saturating_sub(1) / 2));
    format!("{middle} ({}-{})", end(sorted.first()), end(sorted.last()))
}

/// The load average, which belongs to every time measured.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn verdict(holds: bool) -> &'static str {
    if holds { "HOLDS" } else { "FAILS" }
}

/// Where big files of a show lie, until it ends.
#[derive(Debug)]
struct Workshop(PathBuf);

impl Workshop {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("regatta-show-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{quantile, spread};

    #[test]
    fn quantiles_count_what_never_came() {
        let counts = [(1.0, 50.0), (2.0, 49.0), (9.0, 1.0)];
        assert_eq!(quantile(&counts, 0.0, 0.5), 1.0);
        assert_eq!(quantile(&counts, 0.0, 0.99), 2.0);
        assert_eq!(quantile(&counts, 0.0, 1.0), 9.0);
        assert_eq!(quantile(&counts, 100.0, 0.9), f64::INFINITY);
        assert_eq!(quantile(&[], 0.0, 0.5), f64::INFINITY);
    }

    #[test]
    fn a_spread_has_its_middle_first() {
        assert_eq!(spread(&[3.0, 1.0, 2.0], 1), "2.0 (1.0-3.0)");
        assert_eq!(spread(&[f64::INFINITY, 1.0], 0), "1 (1-none)");
    }
}
