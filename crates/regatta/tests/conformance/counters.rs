//! `regatta top --json`: the counters agree with the requests to the server.

use crate::prelude::*;
use crate::shared::descriptors;
use regatta_metrics::{Arena, Counter, Gauge, Totals};
use std::sync::atomic::AtomicU64;

/// The value of a counter or gauge, all workers together, as in the memory of the server with this
/// process: without the program and the document of `regatta top --json`, which take the time of
/// twenty requests. `None`: the server is another build.
fn in_memory(pid: u32, name: &str) -> Option<u64> {
    let counter = Counter::ALL.iter().find(|counter| counter.name() == name);
    let gauge = Gauge::ALL.iter().find(|gauge| gauge.name() == name);
    let value = |words: Vec<AtomicU64>| {
        let arena = Arena::attach(&words).ok()?;
        let totals = Totals::counters_of(arena.slots().chain([arena.departed()]));
        let value = match (counter, gauge) {
            (Some(counter), _) => totals.get(*counter),
            (None, Some(gauge)) => totals.gauge(*gauge),
            (None, None) => panic!("no counter {name}"),
        };
        Some((arena.generation(), value))
    };
    let memories = descriptors(pid).into_iter();
    let memories = memories.filter(|(_, what)| what.to_string_lossy().contains("regatta-arena"));
    let words = memories.filter_map(|(number, _)| {
        let bytes = fs::read(format!("/proc/{pid}/fd/{number}")).ok()?;
        let words = bytes.as_chunks().0.iter();
        Some(words.map(|word| AtomicU64::new(u64::from_ne_bytes(*word))).collect())
    });
    // The last generation has the counts of those before it.
    words.filter_map(value).max().map(|(_, value)| value)
}

/// The value of a counter or gauge at once: a loop that has sent a reply may count it later.
pub(crate) fn count_now(server: &Server, name: &str) -> u64 {
    in_memory(server.pid(), name).unwrap_or_else(|| server.count(name))
}

/// The value of a counter or gauge, all workers together.
pub(crate) fn counter(top: &Value, name: &str) -> u64 {
    let total = &top["total"];
    let value = total["counters"].get(name).or_else(|| total["gauges"].get(name));
    value.and_then(Value::as_u64).unwrap_or_else(|| panic!("no counter {name} in {top}"))
}

/// Reads the counters until one has this value, and fails if it never has.
#[track_caller]
pub(crate) fn read(server: &Server, name: &str, value: u64) -> Value {
    server.counts(name, value);
    let top = server.top();
    assert_eq!(counter(&top, name), value, "{name}");
    top
}

/// Fails unless counters have these values: `name=value name=value`.
#[track_caller]
fn expect(top: &Value, counts: &str) {
    for count in counts.split(' ') {
        let (name, value) = count.split_once('=').expect("name=value");
        assert_eq!(counter(top, name).to_string(), value, "{name}");
    }
}

pub(crate) fn of_replies(variant: &Variant) {
    let server = start(variant);
    let mut client = server.connect();
    let etag = client.get("/small.txt").expect(200).must("ETag").to_owned();
    client.get("/size-4096.bin").expect(200);
    client.get("/size-5242880.bin").expect(200);
    client.ask("HEAD", "/size-5242880.bin", &[]).expect(200);
    client.get("/missing.txt").expect(404);
    client.ask("GET", "/small.txt", &[("If-None-Match", &etag)]).expect(304);
    client.ask("GET", "/small.txt", &[("If-Match", "\"x\"")]).expect(412);
    client.ask("GET", "/size-4096.bin", &[("Range", "bytes=0-1")]).expect(206);
    client.ask("GET", "/size-4096.bin", &[("Range", "bytes=9999-")]).expect(416);
    client.ask("DELETE", "/small.txt", &[("Content-Length", "0")]).expect(405);
    client.get("/sub").expect(301);
    drop(client);
    let mut bad = server.asked("nonsense\r\n\r\n");
    bad.answer("GET").expect(400);
    bad.finish();
    drop(bad);
    let top = read(&server, "connections_closed", 2);
    let counts = "accept_ok=2 connections_opened=2 connections_open=0 requests=12 replies=12 \
                  replies_cut=0 replies_200=4 replies_206=1 replies_2xx=5 replies_304=1 \
                  replies_3xx=2 replies_404=1 replies_4xx=5 replies_5xx=0 replies_from_1m=1 \
                  replies_below_10k=1 closed_peer_closed=1 closed_bad_request=1";
    expect(&top, counts);
    assert!(counter(&top, "bytes_sent") > (5 << 20) + 4096);
    assert!(counter(&top, "bytes_sent") < (5 << 20) + 16_384);
}

/// Counters after fifty requests for a target, in one pipeline on connection number `connection`.
fn after_fifty(server: &Server, target: &str, status: u16, connection: u64) -> Value {
    let mut client = server.asked(get(target).repeat(50));
    (0..50).for_each(|_| drop(client.answer("GET").expect(status)));
    drop(client);
    read(server, "connections_closed", connection)
}

pub(crate) fn of_the_cache(variant: &Variant) {
    let server = start(variant);
    let top = after_fifty(&server, "/small.txt", 200, 1);
    if variant.has("cache.enabled=false") {
        // Every request opens its file.
        expect(&top, "requests=50 cache_hits=0 cache_entries=0");
        assert!(counter(&top, "opens") >= 50);
        return;
    }
    let counts = "requests=50 cache_lookups=50 cache_fills=1 cache_evictions=0 cache_entries=1 \
                  cache_negative_hits=0";
    expect(&top, counts);
    // An entry is revalidated after a second, should this machine be that slow.
    let again = counter(&top, "cache_revalidations");
    assert_eq!(counter(&top, "cache_hits"), 49 - again);
    let top = after_fifty(&server, "/missing.txt", 404, 2);
    assert!(counter(&top, "cache_negative_hits") >= 45, "{top}");
    assert!(counter(&top, "opens") <= 8, "{top}");
}

pub(crate) fn of_the_ends_of_connections(variant: &Variant) {
    let server = start_with(variant, &["limits.idle_ms_max=300", "limits.head_ms_max=300"]);
    let mut idle = server.connect();
    idle.get("/small.txt").expect(200);
    let mut partial = server.asked("GET /sm");
    idle.rest();
    partial.rest();
    let mut last = server.connect();
    last.ask("GET", "/small.txt", &[("Connection", "close")]).expect(200);
    last.finish();
    drop((idle, partial, last));
    server.tear("/sparse.bin");
    let top = read(&server, "connections_closed", 4);
    let counts = "closed_idle_deadline=1 closed_head_deadline=1 closed_finished=1 closed_reset=1 \
                  replies_cut=1 connections_open=0 requests_open=0";
    expect(&top, counts);
}

/// Deadlines that pass together are met a few at a time (`EXPIRIES_MAX`). In between the loop
/// checks for other work, with a wait.
pub(crate) fn of_many_deadlines(variant: &Variant) {
    // A busy machine may take longer than the first to connect all and to read the counters.
    let seen = ["600", "3s", "15s"].iter().any(|deadline| sees_many_end(variant, deadline));
    assert!(seen, "all ended before the first reading");
}

/// Whether many connections end by their deadline between two readings, which are then checked.
fn sees_many_end(variant: &Variant, deadline: &str) -> bool {
    let limit = format!("limits.first_request_ms_max={deadline}");
    let server = Launch::new(variant, common()).set(limit).start();
    let mut clients = server.clients(320);
    let before = read(&server, "connections_opened", 320);
    clients.iter_mut().for_each(|client| drop(client.rest_or_reset()));
    let after = read(&server, "connections_closed", 320);
    expect(&after, "closed_idle_deadline=320");
    let grown = |name| counter(&after, name) - counter(&before, name);
    let workers = after["workers"].as_array().map_or(0, Vec::len) as u64;
    let (closed, waits) = (grown("connections_closed"), grown("wait_calls"));
    assert!(closed <= (waits + workers) * 16, "{closed} ended between {waits} waits");
    closed > 0
}

/// Connections of a dead worker do not stay open.
pub(crate) fn of_a_worker_that_died(variant: &Variant) {
    let server = start(variant);
    let _clients = server.busy_clients(3);
    read(&server, "replies_200", 3);
    server.workers().iter().for_each(|worker| kill(*worker, Signal::KILL));
    // A reading may fall between the two counters that the master changes.
    read(&server, "closed_worker_died", 3);
    let top = read(&server, "connections_open", 0);
    expect(&top, "closed_worker_died=3 connections_open=0 replies_200=3");
    server.connect().get("/small.txt").expect(200);
    let top = read(&server, "connections_closed", 4);
    // The counters of the dead worker are kept: they only grow.
    expect(&top, "replies_200=4 connections_opened=4");
    if !variant.has("cache.enabled=false") {
        expect(&top, "cache_entries=1");
    }
}

pub(crate) fn of_histograms(variant: &Variant) {
    let server = start(variant);
    let mut client = server.connect();
    client.repeat(200, "/small.txt");
    let count = |top: &Value, name: &str| {
        let histogram = &top["total"]["histograms"][name];
        histogram["count"].as_u64().unwrap_or_else(|| panic!("no histogram {name} in {top}"))
    };
    let mut top = read(&server, "replies", 200);
    // One connection may wake all workers that share a listener.
    let workers = top["workers"].as_array().map_or(0, Vec::len) as u64;
    // A server that reads until it fails may answer many requests without a wait between, so only
    // the calls are known. Each worker may be read between two of its additions.
    let waits = |top: &Value, counted: &str| {
        let waits = counter(top, "wait_calls");
        waits > 0 && waits.abs_diff(count(top, counted)) <= workers
    };
    // An eager reader may have answered all before its first run of accepts ended. During one
    // reading a worker may also get far.
    eventually(PATIENCE, || {
        top = server.top();
        let whole = ["loop_ns", "events_per_wait"].iter().all(|counted| waits(&top, counted));
        whole && count(&top, "accepts_per_notification") > 0
    });
    for counted in ["loop_ns", "events_per_wait"] {
        assert!(waits(&top, counted), "{counted}: {top}");
    }
    let count = |name: &str| count(&top, name);
    assert!((1..=workers).contains(&count("accepts_per_notification")), "{top}");
    // One turn in 64 is timed, and the request that begins in it.
    // A server that reads until it fails may answer all in a few turns.
    let reads_on = |one: &&str| *one == "accept.full_read=true" || one.starts_with("fiber.");
    let least = u64::from(!variant.settings.iter().any(reads_on));
    for sampled in ["request_ns", "turn_ns"] {
        assert!((least..=200).contains(&count(sampled)), "{} of {sampled}", count(sampled));
    }
}

pub(crate) fn of_accepts(variant: &Variant) {
    let server = start(variant);
    let clients = server.busy_clients(25);
    let top = read(&server, "connections_open", 25);
    expect(&top, "accept_ok=25 accept_skipped_full=0");
    let workers = top["workers"].as_array().expect("rows").iter();
    let most = workers.filter_map(|worker| worker["counters"]["connections_open_max"].as_u64());
    let most: u64 = most.sum();
    // Idle loops of coloured take connections from busy ones, which then accept others.
    let moves = variant.architecture == "coloured";
    assert!(most == 25 || moves && (1..25).contains(&most), "each of its own: {top}");
    drop(clients);
    // Counted at the end of a run of accepts. An eager reader's need not have ended before it
    // answered all; no connection is closed within one.
    let top = read(&server, "connections_open", 0);
    let most = counter(&top, "accepts_per_notification_max");
    assert!((1..=25).contains(&most), "{most} accepts at one notification");
    if variant.has("accept.count=1") {
        assert_eq!(most, 1, "systems.md §8.6: Accept1 takes one a notification");
    }
}

/// systems.md §2.1: AcceptN takes at most N at one notification.
pub(crate) fn accept_count_is_a_bound(variant: &Variant) {
    for count in [1, 3] {
        let server = start_with(variant, &[&format!("accept.count={count}")]);
        let clients = server.busy_clients(40);
        read(&server, "accept_ok", 40);
        drop(clients);
        let top = read(&server, "connections_open", 0);
        let most = counter(&top, "accepts_per_notification_max");
        assert!((1..=count).contains(&most), "{most} of {count}");
    }
}

/// A hit costs its system calls and no more: one to read, one to write.
pub(crate) fn calls_of_a_hit(variant: &Variant) {
    // Whatever the architecture keeps in memory.
    let server = Launch::new(variant, common()).set("cache.body_bytes_max=65536").start();
    let mut client = server.connect();
    // An entry is checked again one second after it was read.
    let begin = Instant::now();
    client.get("/small.txt").expect(200);
    let before = read(&server, "replies", 1);
    client.repeat(100, "/small.txt");
    let quick = begin.elapsed() < Duration::from_millis(800);
    let after = read(&server, "replies", 101);
    let used = |name| counter(&after, name) - counter(&before, name);
    let sends = used("send_calls") + used("sendfile_calls");
    assert!(used("recv_calls") <= 200 + 2, "{} reads", used("recv_calls"));
    if variant.has("cache.enabled=false") {
        // A body that is not kept may be sent by a separate call.
        assert!((100..=200).contains(&sends), "{sends} sends");
        return;
    }
    assert_eq!(sends, 100);
    if quick {
        assert_eq!(used("cache_hits"), 100);
        assert_eq!(used("opens"), 0);
    }
}

/// A process that is no server has no counters, and the command says so.
pub(crate) fn top_of_another_process() {
    let said = ends_with(1, &["top", "--pid", &std::process::id().to_string(), "--json"]);
    assert!(!said.stderr.is_empty(), "{said:?}");
}

/// The slots of a pipeline are its stages: one row each, and the sum of their counts.
pub(crate) fn top_of_a_pipeline() {
    const REPLIES: u64 = 20;
    let server = start(Variant::find("watpipe4"));
    let mut client = server.connect();
    client.repeat(REPLIES, "/small.txt");
    let top = read(&server, "replies", REPLIES);
    let stages = top["stages"].as_array().expect("the stages");
    let names: Vec<&str> = stages.iter().filter_map(|stage| stage["stage"].as_str()).collect();
    assert_eq!(names, ["accept", "read", "write-poll", "write"]);
    let of = |at: usize, name: &str| stages[at]["counters"][name].as_u64().expect("a counter");
    assert_eq!(of(0, "accept_ok"), 1);
    assert!(of(3, "queue_takes") >= REPLIES, "each reply is a writer's: {}", stages[3]);
    for name in ["accept_ok", "recv_calls", "queue_puts", "queue_takes", "replies"] {
        let sum: u64 = (0..names.len()).map(|at| of(at, name)).sum();
        assert_eq!(sum, counter(&top, name), "{name}");
    }
    let page = server.page(&[]);
    for name in names {
        let rows = page.lines().filter(|line| line.split_whitespace().next() == Some(name));
        assert_eq!(rows.count(), 1, "{name}: {page}");
    }
}

/// `top --web` serves a page with the numbers of `top`, and ends with the server.
pub(crate) fn top_on_a_page() {
    use crate::harness::{program, wait_for};
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::process::Stdio;
    let mut server = start(Variant::find("sped_epoll"));
    server.connect().repeat(3, "/small.txt");
    read(&server, "replies", 3);
    let pid = server.pid().to_string();
    let mut command = std::process::Command::new(program());
    command.args(["top", "--web", "--pid", &pid]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut page = command.spawn().expect("the program starts");
    let mut said = BufReader::new(page.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    let address = line.split("http://").nth(1).and_then(|rest| rest.trim().strip_suffix('/'));
    let address = address.unwrap_or_else(|| panic!("no address: {line}"));
    let get = |path: &str| {
        let mut client = TcpStream::connect(address).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        client.write_all(request.as_bytes()).expect("it reads");
        let mut text = String::new();
        client.read_to_string(&mut text).expect("it answers");
        text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).expect("a head")
    };
    assert!(get("/").contains("fetch(\"status?interval_ms="));
    let status: Value = serde_json::from_str(&get("/status?interval_ms=100")).expect("JSON");
    assert_eq!(counter(&status, "replies"), 3);
    server.end(Signal::TERM);
    let ended = wait_for(&mut page, PATIENCE);
    if ended.is_none() {
        page.kill().expect("our child");
    }
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}: {rest}");
    assert!(rest.ends_with(&format!("server {pid} has ended\n")), "{rest}");
}
