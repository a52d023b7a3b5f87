//! The access log between processes, and its cost.

use regatta_arch::WorkerLog;
use regatta_metrics::{Arena, Tally};
use regatta_origin::{Log, Record, ReplyOutcome};
use regatta_server::log::{AccessLog, AccessLogOptions, ErrorLog, Format, LogDestination, LogSink};
use regatta_sys::alloc_count;
use regatta_testkit::counters::arena;
use regatta_testkit::folder::Folder;
use std::{
    collections::HashMap,
    env, fs,
    net::SocketAddr,
    path::Path,
    process::{Command, id},
    sync::Arc,
};

#[global_allocator]
static ALLOCATOR: alloc_count::Counting = alloc_count::Counting;

const WRITERS: usize = 4;
const LINES: usize = 20_000;
/// Variable by which a test, started once more, gets its path.
const PATH: &str = "REGATTA_TEST_LOG";

fn sink<'a>(arena: &Arena<'a>, path: &Path, format: Format) -> LogSink<'a> {
    let destination = LogDestination::Path(path.into());
    let (skip, owner, stall_ns) = (Arc::default(), None, 10_000_000);
    let options = AccessLogOptions { destination, format, skip, owner, stall_ns, has_units: false };
    let errors = ErrorLog::open(LogDestination::Off, None, None).expect("off cannot fail");
    let log = AccessLog::open(options).expect("the folder can be written to");
    log.sink(Tally::Owned(arena.slot(0)), arena.view().control(), errors)
}

fn record<'a>(unix: u64, target: &'a [u8]) -> Record<'a> {
    Record {
        unix,
        peer: "[2001:db8::7]:4711".parse::<SocketAddr>().expect("a literal").into(),
        method: b"GET",
        target,
        host: Some(b"h.example"),
        version: "HTTP/1.1",
        status: 200,
        body_bytes: 1000,
        sent_bytes: 1200,
        body_sent_bytes: 1000,
        outcome: ReplyOutcome::Complete,
        refused: None,
        referer: Some(b"http://example.org/"),
        user_agent: Some(b"Mozilla/5.0 (X11; Linux x86_64) \"quoted\""),
        duration_ms: 3,
        keep_alive: true,
        seal: None,
    }
}

/// Runs one of the writers; does nothing unless the test below started it.
#[test]
fn writer() {
    let Some(path) = env::var_os(PATH) else { return };
    let arena = arena(1);
    let sink = sink(&arena, path.as_ref(), Format::Json);
    for line in 0..LINES {
        let target = format!("/{}/{line}/{}", id(), "x".repeat(line % 300));
        sink.record(&record(line as u64 / 1000, target.as_bytes()));
    }
    sink.flush();
}

#[test]
fn lines_of_several_processes_do_not_mix() {
    let folder = Folder::new("log-processes");
    let path = folder.join("log");
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", "writer"]).env(PATH, &path);
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    for writer in &mut writers {
        assert!(writer.wait().unwrap().success());
    }
    let text = fs::read_to_string(&path).unwrap();
    let mut next = HashMap::new();
    for line in text.lines() {
        let json: serde_json::Value = serde_json::from_str(line).expect(line);
        let mut target = json["target"].as_str().unwrap().split('/').skip(1);
        let next = next.entry(target.next().unwrap().to_owned()).or_insert(0usize);
        assert_eq!(target.next(), Some(next.to_string().as_str()));
        assert_eq!(target.next().unwrap().len(), *next % 300);
        *next += 1;
    }
    assert!(text.ends_with('\n'));
    assert_eq!(next.len(), WRITERS);
    assert!(next.values().all(|lines| *lines == LINES), "{next:?}");
}

#[test]
fn a_line_allocates_nothing() {
    let arena = arena(1);
    for format in [Format::Common, Format::Combined, Format::Json] {
        let sink = sink(&arena, "/dev/null".as_ref(), format);
        let before = alloc_count::allocations();
        for line in 0..10_000 {
            sink.record(&record(line / 1000, b"/index.html"));
        }
        sink.flush();
        assert_eq!(alloc_count::allocations(), before, "{format:?}");
    }
}
