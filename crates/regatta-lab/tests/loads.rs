//! The commands `load`, `workload` and `null` from outside: output, end, and leftovers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use regatta_testkit::folder;

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_regatta-lab");

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a workload in `w`, removed when it is dropped.
struct Folder(folder::Folder);

impl Folder {
    fn new(preset: &str) -> Self {
        let folder = Self(folder::Folder::new("loads"));
        let made = regatta(&["workload", "new", preset, &folder.path("w"), "--requests", "500"]);
        // 1 means a log too short for the rules of long ones.
        assert!(made.status.code().is_some_and(|code| code < 2), "{made:?}");
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&*self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }
}

/// A server of that folder's files; killed at the end. It has one cache, so no reply is older than
/// one before it.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(folder: &Folder) -> Self {
        let (root, log) = (folder.path("w/root"), "log.access=off");
        let mut regatta = Command::new(regatta_testkit::programs::regatta());
        regatta.args(["serve", &root, "--listen", "127.0.0.1:0", "--set", log]);
        Self::of(regatta.args(["--architecture", "sped"]))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").map(str::to_owned);
        Self { url: url.unwrap_or_else(|| panic!("{line:?}, {child:?}")), child }
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn regatta(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

const TARGET: &str = "/file_set/dir00000/class0_4";

#[test]
fn a_level_that_is_not_met_is_exit_code_one() {
    let folder = Folder::new("smoke");
    let server = Server::start(&folder);
    let url = format!("{}{TARGET}", server.url);
    let run = |slo: &str| {
        let arguments = ["load", &url, "--closed", "2", "--count", "50", "--json", "--slo", slo];
        regatta(&[&arguments[..], &["--verify", "generated"]].concat())
    };
    let output = run("p50<1ns,errors<50%");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let result = json(&output);
    assert_eq!(result["fates"]["good"], 50);
    assert_eq!(result["verified"], 50);
    assert_eq!((&result["slo"][0]["met"], &result["slo"][1]["met"]), (&false.into(), &true.into()));
    assert!(result["times"]["service"]["p50"]["ns"].as_u64().unwrap() > 0);
    // The client is the limit if other processes use its processor: then no level is met.
    let output = run("errors<50%");
    let limited = json(&output)["stamp"] == "LIMITED-BY-CLIENT";
    assert_eq!(output.status.code(), Some(limited.into()), "{output:?}");
}

#[test]
fn problems_are_named_before_anything_is_sent() {
    let folder = Folder::new("smoke");
    let gone = folder.path("gone/x.csv");
    for (arguments, what) in [
        (&["/index.html", "--closed", "1"][..], "say which host"),
        (&["ftp://127.0.0.1/", "--closed", "1"], "only http and https"),
        (&["http://127.0.0.1:1/", "--rate", "5", "--think", "1s"], "cannot be used with"),
        (&["--rate", "5"], "no URL: give http"),
        (&["http://127.0.0.1:1/", "--shard", "0/2"], "--start-at"),
        (&["http://127.0.0.1:1/", "--shard", "2/2", "--start-at", "1s"], "say 0/4"),
        (&["http://127.0.0.1:1/", "--start-at", "noon"], "RFC 3339"),
        (&["merge"], "FILE"),
        (&["http://127.0.0.1:1/", "--rate", "1", "--alter", "often"], "literal, renamed or forced"),
    ] {
        let output = regatta(&[&["load"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(what), "{what}: {output:?}");
        assert!(output.stdout.is_empty());
    }
    let output = regatta(&["load", "http://127.0.0.1:1/", "--closed", "1", "--csv", &gone]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("cannot be written"), "{output:?}");
    let output = regatta(&["load", "http://127.0.0.1:1/", "--closed", "3", "-d", "1h"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("127.0.0.1:1 refused every connection"), "{said}");
    let output = regatta(&["workload", "inspect", &folder.path("nothing")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("presets: eurosys07"), "{output:?}");
}

/// Code 2 is for an input that is missing or malformed, code 1 for an output that cannot be made.
#[test]
fn wrong_inputs_of_workloads_are_wrong_usage() {
    let folder = Folder::new("smoke");
    let (none, text, out) = (folder.path("none"), folder.path("text"), folder.path("out"));
    fs::write(&text, "no access log\n").unwrap();
    for (words, code) in [
        (&["from-dir", &none, &out][..], 2),
        (&["from-dir", &text, &out], 2),
        (&["from-log", &none, &out], 2),
        (&["from-log", &text, &out], 2),
        (&["alter", &none], 2),
        (&["inspect", &text], 2),
        (&["new", "smoke", &text], 1),
    ] {
        let output = regatta(&[&["workload"], words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
    }
}

/// Whether the process reads SIGINT instead of dying of it.
fn blocks_interrupts(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let mask = blocked.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << 1 != 0)
}

/// `regatta workload inspect ... | head -1` is no failure.
#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(PROGRAM)
        .args(["workload", "inspect", "smoke"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Ctrl-C in the middle: the partial result is there, marked, and nothing else remains.
#[test]
fn what_is_interrupted_is_marked_and_leaves_nothing() {
    let folder = Folder::new("smoke");
    let server = Server::start(&folder);
    for threads in ["1", "2"] {
        let (csv, hgrm) = (folder.path("rows.csv"), folder.path("times.hgrm"));
        let workload = folder.path("w");
        let load = Command::new(PROGRAM)
            .args(["load", &server.url, "--workload", &workload, "--session-rate", "100"])
            .args(["-d", "1h", "--threads", threads, "--idle", "5", "--json"])
            .args(["--csv", &csv, "--hgrm", &hgrm])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = load.id().to_string();
        let begun = Instant::now();
        while !blocks_interrupts(&pid) {
            assert!(begun.elapsed() < PATIENCE, "it never took Ctrl-C over");
            thread::sleep(Duration::from_millis(10));
        }
        // By now it has probably sent something; the amount does not matter.
        thread::sleep(Duration::from_millis(700));
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let begun = Instant::now();
        let output = load.wait_with_output().unwrap();
        assert!(begun.elapsed() < PATIENCE);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let result = json(&output);
        assert_eq!(result["interrupted"], true);
        assert_eq!(result["idle"]["wanted"], 5);
        assert_eq!(result["workload"]["name"], "smoke");
        let offered = result["offered"].as_u64().unwrap();
        let fates = result["fates"].as_object().unwrap().values();
        assert_eq!(fates.map(|count| count.as_u64().unwrap()).sum::<u64>(), offered);
        assert!(fs::read_to_string(&csv).unwrap().starts_with("second,counts,offered,good"));
        assert!(fs::read_to_string(&hgrm).unwrap().contains("Percentile"));
        assert_eq!(folder.names(), ["rows.csv", "times.hgrm", "w"]);
    }
}

/// Four processes make the load of one, and their results are one. A shard without a result is
/// reported; two of one shard are refused.
#[test]
fn shards_make_one_load() {
    let folder = Folder::new("smoke");
    let server = Server::start(&folder);
    let url = format!("{}{TARGET}", server.url);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let start_at = format!("{}", now.as_secs() + 4);
    let load = |index: usize| {
        let (shard, out) = (format!("{index}/4"), folder.path(&format!("{index}.json")));
        Command::new(PROGRAM)
            .args(["load", &url, "--rate", "403", "-d", "1s", "--arrivals", "poisson", "--json"])
            .args(["--shard", &shard, "--start-at", &start_at, "--threads", "2"])
            .stdout(fs::File::create(out).unwrap())
            .spawn()
            .unwrap()
    };
    let loads: Vec<Child> = (0..4).map(load).collect();
    for mut load in loads {
        assert_eq!(load.wait().unwrap().code(), Some(0));
    }
    let merge = |indices: &[usize]| {
        let files: Vec<String> =
            indices.iter().map(|n| folder.path(&format!("{n}.json"))).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        regatta(&[&["load", "merge", "--json"][..], &files].concat())
    };
    let arguments = ["--rate", "403", "-d", "1s", "--arrivals", "poisson", "--json"];
    let whole = json(&regatta(&[&["load", &url][..], &arguments].concat()));
    let output = merge(&[0, 1, 2, 3]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let merged = json(&output);
    assert_eq!(merged["offered"], whole["offered"]);
    assert_eq!(merged["shards"]["missing"], Value::Array(Vec::new()));
    assert_eq!((&merged["shards"]["apart_ms"], &merged["part"]), (&0.into(), &Value::Null));
    assert_eq!(merged["workers"].as_array().unwrap().len(), 8);
    let output = merge(&[0, 3, 1]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(json(&output)["shards"]["missing"][0], 2);
    assert_eq!(json(&output)["stamp"], "LIMITED-BY-CLIENT");
    let output = merge(&[0, 1, 1, 2, 3]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty());
    // One that died while it wrote.
    let file = folder.path("2.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() / 2]).unwrap();
    let output = merge(&[0, 1, 2, 3]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("2.json: not a whole result"));
    assert_eq!(json(&output)["shards"]["missing"][0], 2);
}

/// Answers fifty requests on one connection, and ends.
fn answer_fifty(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let (mut held, mut buffer) = (Vec::new(), [0; 4096]);
    for _ in 0..50 {
        while !held.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            let n = stream.read(&mut buffer).unwrap();
            held.extend_from_slice(&buffer[..n]);
        }
        held.clear();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx").unwrap();
    }
}

/// A server that dies in the middle: unanswered requests are counted, and the load continues.
#[test]
fn a_server_that_dies_is_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let dies = thread::spawn(move || answer_fifty(&listener));
    let arguments = ["--rate", "200", "-d", "2s", "--json", "--connections-max", "1"];
    let output = regatta(&[&["load", &url][..], &arguments].concat());
    dies.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let result = json(&output);
    let count = |fate: &str| result["fates"][fate].as_u64().unwrap();
    assert_eq!((&result["offered"], count("good")), (&400.into(), 50), "{}", result["fates"]);
    assert_eq!(count("refused") + count("reset") + count("unfinished"), 350, "{}", result["fates"]);
    assert!(count("refused") > 0, "{}", result["fates"]);
}

/// The altered file's workload works without help: load rewrites the file that the server serves.
#[test]
fn the_altered_workload_is_played() {
    let folder = Folder::new("10k-renamed");
    let server = Server::start(&folder);
    let workload = folder.path("w");
    let arguments = ["load", &server.url, "--workload", &workload, "--session-rate", "100"];
    let output = regatta(&[&arguments[..], &["--timeout", "20s", "-d", "1s", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let result = json(&output);
    assert_eq!(result["fates"]["good"], 100, "{}", result["fates"]);
    assert_eq!(result["verified"], 100);
    let altered = |name: &str| result["altered"][name].as_u64().unwrap();
    assert!(altered("versions") > 1);
    assert!(altered("versions") + altered("missed") >= 50);
    let taken = result["workload"]["options"].to_string();
    assert!(taken.contains("--alter renamed@10ms") && taken.contains("altered"), "{taken}");
}

#[test]
fn the_bare_loop_answers_whatever_comes() {
    let folder = Folder::new("smoke");
    let (file, large, content) =
        (folder.path("file"), folder.path("large"), "0123456789abcdef".repeat(4096));
    fs::write(&file, "hello\n").unwrap();
    fs::write(&large, &content).unwrap();
    let answers = [
        (["--body", "5"], "xxxxx"),
        (["--file", &file], "hello\n"),
        (["--file", &large], &content),
    ];
    let each = ["epoll", "uring"].iter().flat_map(|engine| answers.map(|one| (engine, one)));
    for (engine, (what, expect)) in each {
        let mut bare = Command::new(PROGRAM);
        let listen = ["null", "--engine", engine, "--listen", "127.0.0.1:0"];
        let server = Server::of(bare.args(listen).args(what));
        let address = server.url.trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        for _ in 0..3 {
            stream.write_all(b"anything\r\n\r\n").unwrap();
            let mut response = Vec::new();
            while !response.ends_with(expect.as_bytes()) {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                response.push(byte[0]);
            }
            let head = format!("Content-Length: {}\r\n\r\n", expect.len());
            let response = String::from_utf8_lossy(&response);
            assert!(response.contains(&head), "{response}");
        }
        // More connections than it has buffers, and others after they have ended.
        for _ in 0..2 {
            let mut peers: Vec<TcpStream> =
                (0..300).map(|_| TcpStream::connect(&address).unwrap()).collect();
            for peer in &mut peers {
                peer.set_read_timeout(Some(PATIENCE)).unwrap();
                peer.write_all(b"anything\r\n\r\n").unwrap();
            }
            for peer in &mut peers {
                let mut status = [0; 15];
                peer.read_exact(&mut status).unwrap();
                assert_eq!(&status, b"HTTP/1.1 200 OK");
            }
        }
    }
}

/// Wrong options are code 2, an address in use code 1; each with advice.
#[test]
fn the_bare_loop_says_why_it_does_not_run() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _held = TcpListener::bind(taken).unwrap();
    let taken = taken.to_string();
    for (words, code, part) in [
        (["--listen", "8080"], 2, "a host and a port, as in 127.0.0.1:8080"),
        (["--body", "1073741825"], 2, "1073741825 is more than"),
        (["--file", "/none"], 2, "\"/none\" cannot be sent"),
        (["--file", "/dev/null"], 2, "the file is empty"),
        (["--listen", &taken], 1, "another process has it"),
    ] {
        let output = regatta(&[&["null"][..], &words].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(part), "{words:?}: {said}");
    }
}
