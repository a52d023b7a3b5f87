//! `regatta-lab film`: what waits behind a cold file, and whether the film is true.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]

use regatta_testkit::executables;
use regatta_testkit::folder::Folder;
use regatta_testkit::skips::skip;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const LAB: &str = env!("CARGO_BIN_EXE_regatta-lab");
/// Tries on a machine that others keep busy.
const TRIES: usize = 5;
/// Largest deviation of a film from other measurements of the same time.
const DEVIATION_MAX: f64 = 0.05;

/// Result of the command; `None` and a report if this machine cannot make the scene.
fn films(lab: &Path, words: &[&str]) -> Option<Value> {
    let mut command = Command::new(lab);
    let output = command.arg("film").args(words).arg("--json").stdin(Stdio::null()).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) && said.contains("cannot be filmed here") {
        skip(&said);
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// Times of the cold file, and of the slowest request for the hot one.
fn times(shot: &Value) -> (f64, f64) {
    let hot = shot["hot_s"].as_array().unwrap().iter().map(seconds);
    (seconds(&shot["cold_s"]), hot.fold(0.0, f64::max))
}

fn span_ns(bar: &Value) -> f64 {
    seconds(&bar["to_ns"]) - seconds(&bar["from_ns"])
}

/// Time in the film of the operations that a counter of the server counts, nanoseconds.
fn bars_ns(shot: &Value, counts: impl Fn(&Value) -> bool) -> f64 {
    shot["film"]["bars"].as_array().unwrap().iter().filter(|bar| counts(bar)).map(span_ns).sum()
}

fn is_near(film: f64, other: f64, what: &str) -> Result<(), String> {
    let deviates = (film / other - 1.0).abs() >= DEVIATION_MAX;
    if deviates { Err(format!("{what}: {film} in the film, not {other}")) } else { Ok(()) }
}

#[test]
fn a_request_waits_behind_a_cold_file_in_sped_and_not_in_amped() {
    // The lab finds the server itself: this makes sure that it is there and not outdated.
    regatta_testkit::programs::regatta();
    let folder = Folder::new("film");
    let page = folder.join("film.html");
    let words = ["sped", "amped", "--out", page.to_str().unwrap()];
    let mut judged = Ok(());
    for _ in 0..TRIES {
        let Some(made) = films(LAB.as_ref(), &words) else { return };
        let shots = made["films"].as_array().unwrap();
        let [sped, amped] = &shots[..] else { panic!("two films: {made}") };
        are_drawn([sped, amped], &fs::read_to_string(&page).unwrap());
        judged = wait_as_they_should(sped, amped);
        if judged.is_ok() {
            break;
        }
    }
    judged.unwrap();
}

/// Both films are complete, and on the page.
fn are_drawn(shots: [&Value; 2], page: &str) {
    for (shot, name) in shots.into_iter().zip(["sped", "amped"]) {
        let name = Value::from(name);
        assert_eq!((&shot["architecture"], &shot["film"]["architecture"]), (&name, &name));
        for seen_by in ["requests", "clients"] {
            assert_eq!(shot["film"][seen_by].as_array().map(Vec::len), Some(4), "{name}");
        }
        assert!(page.contains(&format!("\"architecture\":{name}")), "{name}");
    }
    assert_eq!(page.matches("GET /hot.txt").count(), 6);
}

/// The hot file waits in sped alone. Both servers count the time that they wait for files.
fn wait_as_they_should(sped: &Value, amped: &Value) -> Result<(), String> {
    let ((cold, behind), (alone, at_once)) = (times(sped), times(amped));
    if behind <= cold / 2.0 || at_once >= alone / 2.0 {
        return Err(format!("sped: {cold}, {behind}; amped: {alone}, {at_once}"));
    }
    let is_of_file =
        |bar: &Value| ["open", "read", "stat"].iter().any(|what| bar["what"] == **what);
    let is_cold = |bar: &Value| bar["connection"] == 0 && is_of_file(bar);
    let stalled = seconds(&sped["counters"]["stall_read_ns"]);
    is_near(bars_ns(sped, is_cold), stalled, "files in sped")?;
    let is_helper = |bar: &Value| {
        let unit = usize::try_from(bar["unit"].as_u64().unwrap()).unwrap();
        amped["film"]["units"][unit]["name"].as_str().unwrap().contains("helper")
    };
    let busy = seconds(&amped["counters"]["helper_busy_ns"]);
    is_near(bars_ns(amped, is_helper), busy, "helpers of amped")
}

/// Operations of the seam and the time inside their calls, seconds, from what strace wrote of a
/// worker: those from a request for the cold file until its connection `socket` is closed.
fn traced(trace: &str, socket: u64) -> Vec<(&'static str, f64)> {
    let mut operations: Vec<(&str, f64)> = Vec::new();
    for line in trace.lines().skip_while(|line| !line.contains("GET /cold.txt")) {
        let call = line.split('(').next().unwrap_or_default();
        let last = operations.last().map_or("", |(last, _)| last);
        let operation = match call {
            "recvfrom" => "recv",
            // Opening checks the file, and looks for its siblings.
            "fstat" if last == "open" => "open",
            "openat2" => "open",
            "preadv2" | "pread64" => "read",
            "fstat" => "stat",
            "sendto" | "sendmsg" => "send",
            "shutdown" => "shut",
            _ if line.starts_with(&format!("close({socket})")) => "close",
            // Files are closed, and the standard library checks descriptors, within operations.
            _ => continue,
        };
        let took = line.rsplit_once(" <").and_then(|(_, took)| took.strip_suffix('>'));
        let took: f64 = took.unwrap().parse().unwrap();
        match operations.last_mut() {
            Some((last, sum)) if *last == operation => *sum += took,
            _ => operations.push((operation, took)),
        }
        if operation == "close" {
            break;
        }
    }
    operations
}

#[test]
fn a_film_has_the_operations_that_strace_shows() {
    let strace = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    if !strace.is_ok_and(|status| status.success()) {
        return skip("strace(1), which may trace");
    }
    let folder = Folder::new("film-strace");
    let (lab, traces) = (folder.join("regatta-lab"), folder.join("trace"));
    executables::copy(LAB.as_ref(), &lab);
    // The tracer runs apart (-D), so that the lab has the server itself as its child.
    let regatta = regatta_testkit::programs::regatta();
    let (regatta, traced_to) = (regatta.display(), traces.display());
    let traces_server = format!("strace=\"strace -D -ff -T -o {traced_to}\"");
    let script = format!("[ $1 = serve ] && {traces_server}\nexec $strace {regatta} \"$@\"");
    executables::script(&folder.join("regatta"), &script);
    let page = folder.join("film.html");
    let mut judged = Ok(());
    for _ in 0..TRIES {
        let words = ["sped", "--out", page.to_str().unwrap()];
        let Some(made) = films(&lab, &words) else { return };
        judged = is_as_traced(&made["films"][0], &traces);
        if judged.is_ok() {
            break;
        }
    }
    judged.unwrap();
}

/// The operations of the cold request, in their order, and the time of its read.
fn is_as_traced(shot: &Value, traces: &Path) -> Result<(), String> {
    let film = &shot["film"];
    let connection = &film["connections"][0];
    let trace = traces.with_extension(connection["pid"].to_string());
    let trace = fs::read_to_string(&trace).unwrap();
    let traced = traced(&trace, connection["descriptor"].as_u64().unwrap());
    let records = film["records"].as_array().unwrap().iter();
    let issued = records.filter(|record| record[2] == 0 && record[4] == "issued");
    let issued: Vec<&str> = issued.map(|record| record[5].as_str().unwrap()).collect();
    assert_eq!(traced.iter().map(|one| one.0).collect::<Vec<_>>(), issued, "{trace}");
    let reads = |bar: &Value| bar["connection"] == 0 && bar["what"] == "read";
    let read = traced.iter().find(|one| one.0 == "read").unwrap().1;
    is_near(bars_ns(shot, reads), read * 1e9, "the read of the cold file")
}
