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

/// Architecture with the measurement that its film has to match.
struct Compared {
    architecture: &'static str,
    /// Counter of the server for its wait for files; `None`: it has none, as the kernel waits.
    counter: Option<&'static str>,
    /// Operations of the cold request that the counter counts; none: all that helpers do.
    counted: &'static [&'static str],
    /// Operations that a ring performs: of them a trace shows that the ring was entered.
    in_ring: &'static [&'static str],
}

const COMPARED: [Compared; 7] = [
    by_counter("sped", "stall_read_ns", &["open", "read", "stat"]),
    by_counter("amped", "helper_busy_ns", &[]),
    by_counter("mt", "stall_read_ns", &["open", "read", "stat"]),
    by_counter("knot-b", "helper_busy_ns", &[]),
    by_counter("watpipe5", "stall_send_ns", &["send"]),
    by_counter("seda", "stall_read_ns", &["read"]),
    Compared {
        architecture: "uring",
        counter: None,
        counted: &[],
        in_ring: &["recv", "read", "send"],
    },
];

const fn by_counter(
    architecture: &'static str,
    counter: &'static str,
    counted: &'static [&'static str],
) -> Compared {
    Compared { architecture, counter: Some(counter), counted, in_ring: &[] }
}

/// Result of the command; `None` and a report if this machine cannot make the scene.
fn films(lab: &Path, words: &[&str]) -> Option<Value> {
    let mut command = Command::new(lab);
    let output = command.arg("film").args(words).arg("--json").stdin(Stdio::null()).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let has_no_disk = output.status.code() == Some(2) && said.contains("cannot be filmed here");
    if has_no_disk || said.contains("the system refuses io_uring") {
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

/// Number of the connection for the cold file, which is open for the longest time. Several threads
/// may accept another before it, and one from before the film may still be closing.
fn cold_of(film: &Value) -> usize {
    let open_ns = |it: &Value| Some(it["closed_ns"].as_u64()? - it["accepted_ns"].as_u64()?);
    let connections = film["connections"].as_array().unwrap().iter().map(open_ns).enumerate();
    connections.max_by_key(|(_, open_ns)| *open_ns).unwrap().0
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

/// The hot file waits in sped alone.
fn wait_as_they_should(sped: &Value, amped: &Value) -> Result<(), String> {
    let ((cold, behind), (alone, at_once)) = (times(sped), times(amped));
    if behind <= cold / 2.0 || at_once >= alone / 2.0 {
        return Err(format!("sped: {cold}, {behind}; amped: {alone}, {at_once}"));
    }
    Ok(())
}

#[test]
fn a_film_has_the_times_that_counters_show() {
    regatta_testkit::programs::regatta();
    let folder = Folder::new("film-counters");
    let page = folder.join("film.html");
    for compared in &COMPARED {
        let words = [compared.architecture, "--out", page.to_str().unwrap()];
        let mut judged = Ok(());
        for _ in 0..TRIES {
            let Some(made) = films(LAB.as_ref(), &words) else { break };
            let shot = &made["films"][0];
            has_bars_of(&fs::read_to_string(&page).unwrap(), &shot["film"]);
            judged = is_as_counted(shot, compared);
            if judged.is_ok() {
                break;
            }
        }
        judged.unwrap();
    }
}

/// The page draws the bars that `--json` prints.
fn has_bars_of(page: &str, film: &Value) {
    let drawn = page.split("var SCENES = [").nth(1).unwrap().split("];\n").next().unwrap();
    let drawn: Value = serde_json::from_str(drawn).unwrap();
    for part in ["units", "connections", "bars", "waits", "handovers"] {
        assert_eq!(drawn[part], film[part], "{part}");
    }
}

/// The wait for the cold file, by the server's counter. Without one, the client's wait has to be
/// nearly all of it.
fn is_as_counted(shot: &Value, compared: &Compared) -> Result<(), String> {
    let Compared { architecture, counter, counted, .. } = compared;
    let cold = cold_of(&shot["film"]);
    let Some(counter) = counter else {
        let waits = shot["film"]["waits"].as_array().unwrap().iter();
        let on_disk = waits.filter(|wait| wait["connection"] == cold && wait["for"] == "disk");
        let waited = on_disk.map(span_ns).sum();
        return is_near(waited, times(shot).0 * 1e9, &format!("disk of {architecture}"));
    };
    let is_counted = |bar: &Value| {
        if counted.is_empty() {
            return unit_of(&shot["film"], &bar["unit"])["name"]
                .as_str()
                .unwrap()
                .contains("helper");
        }
        bar["connection"] == cold && counted.iter().any(|what| bar["what"] == **what)
    };
    let count = seconds(&shot["counters"][counter]);
    is_near(bars_ns(shot, is_counted), count, &format!("{counter} of {architecture}"))
}

fn unit_of<'v>(film: &'v Value, unit: &Value) -> &'v Value {
    &film["units"][usize::try_from(unit.as_u64().unwrap()).unwrap()]
}

/// Operations that a ring performs, as traces show them.
const RING: &str = "ring";

/// Operation of the cold request, and the kernel's thread that performed it.
#[derive(Debug, PartialEq)]
struct Performed {
    operation: String,
    /// `None`: a process without a lane of its own.
    thread: Option<u64>,
}

/// Operation in a trace.
struct TracedOperation {
    operation: &'static str,
    /// Thread of its longest call.
    thread: u64,
    longest_s: f64,
    /// Time inside all its calls.
    total_s: f64,
}

/// Lines of all traces by their time, each with its thread. A line begins with its time.
fn trace_lines(traces: &Path) -> Vec<(u64, String)> {
    let mut lines = Vec::new();
    for trace in fs::read_dir(traces).unwrap().map(|trace| trace.unwrap().path()) {
        let thread: u64 = trace.extension().unwrap().to_str().unwrap().parse().unwrap();
        let text = String::from_utf8_lossy(&fs::read(&trace).unwrap()).into_owned();
        lines.extend(text.lines().map(|line| (thread, line.to_owned())));
    }
    // Times have digits enough to be compared as text.
    lines.sort_by(|(_, one), (_, other)| one.cmp(other));
    lines
}

/// Operation of the seam that a call is part of, after these operations.
fn operation_of(call: &str, before: &[TracedOperation]) -> Option<&'static str> {
    let has_opened = before.iter().any(|one| one.operation == "open");
    let opens = before.last().is_some_and(|last| last.operation == "open");
    Some(match call {
        "accept4" => "accept",
        "recvfrom" => "recv",
        // Opening checks the file, and looks for its siblings. A ring opens without a call.
        "fstat" if opens || !has_opened => "open",
        "openat2" => "open",
        "preadv2" | "pread64" => "read",
        "fstat" => "stat",
        "sendto" | "sendmsg" | "sendfile" => "send",
        "shutdown" => "shut",
        "close" => "close",
        "io_uring_enter" => RING,
        // The standard library checks descriptors, and pollers watch them, between operations.
        _ => return None,
    })
}

/// Operations for the connection `socket` that asks for the cold file, from `accept` to `close`.
fn traced(lines: &[(u64, String)], socket: u64) -> Vec<TracedOperation> {
    let accepts = format!(" = {socket}<socket:");
    let asks = lines.iter().position(|(_, line)| line.contains("cold.txt")).unwrap();
    let accepted =
        |(_, line): &(u64, String)| line.contains(" accept4(") && line.contains(&accepts);
    let begin = lines[..asks].iter().rposition(accepted).unwrap();
    // Other processes have descriptors of the same number: the socket is known by its inode.
    let (_, accept) = &lines[begin];
    let socket = accept.rsplit_once(" = ").and_then(|(_, name)| name.split_once("]>")).unwrap().0;
    let socket = format!("{socket}]>");
    let mut operations: Vec<TracedOperation> = Vec::new();
    for (thread, line) in &lines[begin..] {
        let (call, words) = line.split_once(' ').unwrap().1.split_once('(').unwrap_or_default();
        let last = operations.last().map_or("", |last| last.operation);
        let is_of_socket = words.starts_with(&socket) || operations.is_empty();
        let is_of_file = line.contains("cold.txt") && call != "close";
        let is_of_ring = call == "io_uring_enter";
        let operation = operation_of(call, &operations);
        let operation = operation.filter(|_| is_of_socket || is_of_file || is_of_ring);
        let Some(operation) = operation else { continue };
        let took = line.rsplit_once(" <").and_then(|(_, took)| took.strip_suffix('>'));
        let took: f64 = took.unwrap().parse().unwrap();
        if last != operation {
            let (thread, longest_s, total_s) = (*thread, 0.0, 0.0);
            operations.push(TracedOperation { operation, thread, longest_s, total_s });
        }
        let traced = operations.last_mut().unwrap();
        traced.total_s += took;
        if took >= traced.longest_s {
            (traced.thread, traced.longest_s) = (*thread, took);
        }
        if operation == "close" {
            break;
        }
    }
    operations
}

/// The same operations in a film: the thread is that of the outcome, or of the helper.
fn filmed(film: &Value) -> Vec<Performed> {
    let mut operations: Vec<Performed> = Vec::new();
    let (cold, mut is_helped) = (cold_of(film), false);
    for record in film["records"].as_array().unwrap().iter().filter(|record| record[2] == cold) {
        let unit = unit_of(film, &record[1]);
        let is_apart = unit["name"].as_str().unwrap().starts_with("helper ");
        let thread = unit["thread"].as_u64().filter(|_| !is_apart);
        match (record[4].as_str().unwrap(), operations.last_mut()) {
            ("accepted", _) => {
                operations.push(Performed { operation: "accept".to_owned(), thread });
            }
            ("issued", last) => {
                let operation = record[5].as_str().unwrap();
                if last.is_none_or(|last| last.operation != operation) {
                    operations.push(Performed { operation: operation.to_owned(), thread });
                    is_helped = false;
                }
            }
            ("helper_ends", Some(last)) => (last.thread, is_helped) = (thread, true),
            ("done", Some(last)) if !is_helped => last.thread = thread,
            _ => {}
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
    let (lab, traces) = (folder.join("regatta-lab"), folder.join("traces"));
    executables::copy(LAB.as_ref(), &lab);
    // The tracer runs apart (-D), so that the lab has the server itself as its child.
    let regatta = regatta_testkit::programs::regatta();
    let (regatta, traced_to) = (regatta.display(), traces.join("of").display().to_string());
    let traces_server = format!("strace=\"strace -D -ff -T -ttt -y -s 64 -o {traced_to}\"");
    let script = format!("[ $1 = serve ] && {traces_server}\nexec $strace {regatta} \"$@\"");
    executables::script(&folder.join("regatta"), &script);
    let page = folder.join("film.html");
    for compared in &COMPARED {
        let words = [compared.architecture, "--out", page.to_str().unwrap()];
        let mut judged = Ok(());
        for _ in 0..TRIES {
            fs::create_dir(&traces).unwrap();
            let made = films(&lab, &words);
            if made.as_ref().is_some_and(|made| made["label"].is_string()) {
                return skip("a disk apart: servers that simulate it make other calls");
            }
            judged = made.map_or(Ok(()), |made| {
                let (shot, lines) = (&made["films"][0], trace_lines(&traces));
                let traced = has_operations_of(&shot["film"], &lines, compared);
                is_as_traced(shot, &traced, compared)
            });
            fs::remove_dir_all(&traces).unwrap();
            if judged.is_ok() {
                break;
            }
        }
        judged.unwrap();
    }
}

/// Operations of the cold request in a trace. The film has them in their order, each in its thread.
fn has_operations_of(
    film: &Value,
    lines: &[(u64, String)],
    compared: &Compared,
) -> Vec<TracedOperation> {
    let descriptor = &film["connections"][cold_of(film)]["descriptor"];
    let traced = traced(lines, descriptor.as_u64().unwrap());
    let units = film["units"].as_array().unwrap();
    let has_lane = |thread: u64| units.iter().any(|unit| unit["thread"] == thread);
    let in_trace = traced.iter().map(|one| Performed {
        operation: one.operation.to_owned(),
        thread: Some(one.thread).filter(|thread| has_lane(*thread)),
    });
    let in_trace: Vec<_> = in_trace.collect();
    let mut in_film = filmed(film);
    for one in in_film.iter_mut().filter(|one| compared.in_ring.contains(&&*one.operation)) {
        one.operation = RING.to_owned();
    }
    assert_eq!(in_film, in_trace, "{}: {film}", compared.architecture);
    traced
}

/// The time of the operation that waits for the disk.
fn is_as_traced(
    shot: &Value,
    traced: &[TracedOperation],
    compared: &Compared,
) -> Result<(), String> {
    if compared.counter.is_none() {
        return Ok(());
    }
    let cold = cold_of(&shot["film"]);
    // The file is read, or sent with sendfile(2).
    let of_bodies = traced.iter().filter(|one| ["read", "send"].contains(&one.operation));
    let slowest = of_bodies.max_by(|one, other| one.total_s.total_cmp(&other.total_s)).unwrap();
    let is_it = |bar: &Value| bar["connection"] == cold && bar["what"] == slowest.operation;
    let what = format!("{} of {}", slowest.operation, compared.architecture);
    is_near(bars_ns(shot, is_it), slowest.total_s * 1e9, &what)
}
