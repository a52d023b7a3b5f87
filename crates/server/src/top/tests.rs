//! A server in another process, read while it counts.
use super::*;
use regatta_metrics::{Arena, Counter, Dial, Gauge, Histogram, Slot, Tally};
use regatta_sys::terminal::COLUMNS;
use regatta_testkit::counters::arena;
use serde_json::Value;
use std::{
    env,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, Stdio, id},
};

/// Variable by which a test, started once more, knows that it is the server.
const SERVER: &str = "REGATTA_TEST_TOP_SERVER";

/// A process with an arena whose worker counts until standard input ends.
struct Counting(Child, BufReader<ChildStdout>);

impl Counting {
    fn start() -> Self {
        Self::claiming(1)
    }

    /// Starts one that names another process as its master, unless that is process 1.
    fn claiming(master: u32) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "top::tests::server", "--nocapture"])
            .env(SERVER, master.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        assert!(out.by_ref().lines().any(|line| line.unwrap().contains("counting")));
        Self(child, out)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.1.read_to_end(&mut Vec::new());
        let _ = self.0.wait();
    }
}

fn count(slot: Slot<'_>, round: u64) {
    let tally = Tally::Owned(slot);
    tally.add(Counter::ConnectionsOpened, 2);
    tally.add(Counter::ConnectionsClosed, 1);
    tally.add(Counter::Requests, 1);
    tally.reply(200, 4096);
    tally.add(Counter::BytesSent, 4200);
    tally.record(Histogram::TurnNs, round % 10_000);
}

/// Runs the server; does nothing unless a test started it.
#[test]
fn server() {
    if env::var_os(SERVER).is_none() {
        return;
    }
    let shared = regatta_sys::shm::create(Arena::count_words(3)).unwrap();
    let arena = Arena::create(shared.words(), 3);
    let claim = env::var(SERVER).ok().and_then(|claim| claim.parse().ok());
    let claim = claim.filter(|claim| *claim > 1).unwrap_or_else(id);
    arena.set_server(claim, 1_700_000_000_000, "shared-symped");
    arena.slot(1).enter(id());
    thread::spawn(move || {
        for round in 0.. {
            count(arena.slot(1), round);
        }
    });
    arena.set_generation(1);
    println!("counting");
    let mut line = String::new();
    let next = io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0).then(|| {
        let next = regatta_sys::shm::create(Arena::count_words(1)).unwrap();
        let arena = Arena::create(next.words(), 1);
        arena.set_server(claim, 1_700_000_000_000, "sped");
        arena.set_generation(2);
        next
    });
    arena.control().leave(0);
    let _ = io::stdin().read_to_end(&mut Vec::new());
    drop(next);
    // Keeps the memory findable until here.
    drop(shared);
}

fn options(pid: u32) -> TopOptions {
    TopOptions { pid: Some(pid), interval: Duration::ZERO, once: true, ..TopOptions::default() }
}

fn output(options: &TopOptions, live: bool) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run_to(options, live, &mut out, &mut err);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

fn document(options: &TopOptions) -> Value {
    let (code, out, err) = output(&TopOptions { json: true, ..options.clone() }, false);
    assert_eq!((code, err.as_str()), (DONE, ""));
    assert_eq!(out.lines().count(), 1);
    serde_json::from_str(&out).unwrap()
}

#[test]
fn counters_of_a_running_process_are_seen_to_grow() {
    let server = Counting::start();
    let pid = server.0.id();
    let first = document(&options(pid));
    let requests = |document: &Value| document["total"]["counters"]["requests"].as_u64().unwrap();
    // After a hundred laps of its values, the lap in progress moves the median by 1 % at most.
    let mut second = document(&options(pid));
    for _ in 0..600 {
        if requests(&second) >= 1_000_000 {
            break;
        }
        thread::sleep(Duration::from_millis(50));
        second = document(&options(pid));
    }
    assert!(requests(&first) < requests(&second));
    assert_eq!(second["server"]["pid"], pid);
    assert_eq!(second["server"]["phase"], "run");
    assert_eq!(second["server"]["architecture"], "shared-symped");
    let (_, page, _) = output(&options(pid), false);
    assert!(page.starts_with(&format!("shared-symped {pid}  run  1 worker  ")), "{page}");
    assert!(second["server"]["uptime_s"].as_f64().unwrap() > 1e6);
    assert!(second["total"].get("interval").is_none());
    let workers = second["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 1);
    assert_eq!((&workers[0]["slot"], &workers[0]["pid"]), (&Value::from(1), &Value::from(pid)));
    for (kind, names) in [
        ("counters", Counter::ALL.iter().map(|counter| counter.name()).collect::<Vec<_>>()),
        ("gauges", Gauge::ALL.iter().map(|gauge| gauge.name()).collect()),
        ("histograms", Histogram::ALL.iter().map(|histogram| histogram.name()).collect()),
    ] {
        assert!(names.iter().all(|name| workers[0][kind].get(name).is_some()));
        assert_eq!(workers[0][kind].as_object().unwrap().len(), names.len());
    }
    for memory in [&workers[0]["memory"], &second["total"]["memory"]] {
        let of = |name: &str| memory[name].as_u64().unwrap();
        assert!(of("resident_bytes") > of("anonymous_bytes") && of("page_tables_bytes") > 0);
        assert_eq!(of("kernel_stacks_bytes"), of("tasks") * (16 << 10), "{memory}");
        assert!(of("tasks") >= 2, "one counts and one waits");
    }
    let turns = &second["total"]["histograms"]["turn_ns"];
    let p50 = turns["p50"].as_f64().unwrap();
    assert!((4_900.0..5_400.0).contains(&p50), "{p50}");
    assert_eq!(turns["max"], 9_999);
}

#[test]
fn memory_that_another_server_is_said_to_own_is_not_believed() {
    let server = Counting::start();
    for claimed in [server.0.id(), id()] {
        let liar = Counting::claiming(claimed);
        let (code, out, err) = output(&options(liar.0.id()), false);
        assert_eq!((code, out.as_str()), (FAILED, ""));
        assert!(err.contains(&format!("not those of process {claimed}")), "{err}");
    }
    assert_eq!(document(&options(server.0.id()))["server"]["pid"], server.0.id());
}

#[test]
fn two_readings_make_rates() {
    let server = Counting::start();
    let interval = Duration::from_millis(100);
    let document = document(&TopOptions { interval, ..options(server.0.id()) });
    for part in [&document["total"], &document["workers"][0]] {
        let interval = &part["interval"];
        assert!(interval["seconds"].as_f64().unwrap() >= 0.1);
        let rates = &interval["rates"];
        let requests = rates["requests"].as_f64().unwrap();
        assert!(requests > 0.0);
        let opened = rates["connections_opened"].as_f64().unwrap();
        assert!((1.5..2.5).contains(&(opened / requests)));
        assert!(rates.get("connections_open_max").is_none());
        assert!(interval["histograms"]["turn_ns"]["count"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_process_without_counters_is_no_server() {
    let (code, out, err) = output(&options(id()), false);
    assert_eq!((code, out.as_str()), (FAILED, ""));
    assert!(err.contains(&format!("process {} is not a regatta server", id())), "{err}");
    let (code, _, err) = output(&options(u32::MAX - 1), false);
    assert_eq!(code, FAILED);
    assert!(err.contains("there is no process"), "{err}");
}

#[test]
fn a_live_view_needs_an_interval_and_ends_with_the_server() {
    let server = Counting::start();
    let pid = server.0.id();
    assert_eq!(output(&options(pid), true).0, USAGE);
    let interval = Duration::from_millis(20);
    let options = TopOptions { interval, once: false, ..options(pid) };
    let end = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        drop(server);
    });
    let (code, out, _) = output(&options, true);
    end.join().unwrap();
    assert_eq!(code, DONE);
    assert!(out.matches("\x1b[H").count() > 1);
    assert!(out.ends_with(&format!("server {pid} has ended\n")));
}

/// Has the server reload after its first output, and end after that of the next generation.
struct Reloading {
    server: Option<Counting>,
    reloaded: bool,
    seen: String,
    screens: u32,
}

impl Write for Reloading {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let screen = String::from_utf8_lossy(bytes);
        self.screens += 1;
        assert!(self.screens < 1000, "the next generation is not shown: {}", self.seen);
        if let Some(Counting(child, _)) = &mut self.server
            && !self.reloaded
        {
            child.stdin.as_mut().unwrap().write_all(b"reload\n")?;
            self.reloaded = true;
        }
        if screen.starts_with("\x1b[Hsped ") {
            self.server = None;
        }
        self.seen.push_str(&screen);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_live_view_goes_on_with_the_next_generation() {
    let server = Counting::start();
    let pid = server.0.id();
    let interval = Duration::from_millis(20);
    let options = TopOptions { interval, once: false, ..options(pid) };
    let (server, seen) = (Some(server), String::new());
    let mut out = Reloading { server, reloaded: false, seen, screens: 0 };
    assert_eq!(run_to(&options, true, &mut out, &mut Vec::new()), DONE);
    let Reloading { seen, .. } = out;
    let [first, next] = ["\x1b[Hshared-symped ", "\x1b[Hsped "].map(|name| seen.find(name));
    assert!(first.is_some() && first < next, "{seen}");
    assert!(seen.ends_with(&format!("server {pid} has ended\n")), "{seen}");
}

#[test]
fn a_reader_who_leaves_is_no_failure() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let server = Counting::start();
    assert_eq!(run_to(&options(server.0.id()), false, &mut Gone, &mut Vec::new()), DONE);
}

/// A server in this process, with much to show.
fn busy(workers: usize) -> Server {
    staged(workers, &[])
}

/// Likewise, with stages in the first slots.
fn staged(workers: usize, stages: &[&str]) -> Server {
    let arena = arena(workers);
    arena.set_server(4_193_999, 0, "shared-symped-b");
    for (slot, pid) in arena.slots().zip(4_194_000..) {
        slot.enter(pid);
        let tally = Tally::Owned(slot);
        for &counter in Counter::ALL {
            tally.add(counter, 1 << 40);
        }
        for gauge in Gauge::ALL {
            tally.add(gauge.up(), 30_000 + (1 << 42));
        }
        for &histogram in Histogram::ALL {
            (0..40).for_each(|bit| tally.record(histogram, 1 << bit));
        }
    }
    for (slot, stage) in arena.slots().zip(stages) {
        slot.set_role(stage);
        Dial::ALL.into_iter().for_each(|dial| slot.set_dial(dial, 1 << 40));
    }
    Server::new(arena.view(), 4_193_999)
}

/// Takes a sample two seconds after an earlier one.
fn later(server: &Server, earlier: &Sample) -> Sample {
    Sample { at_ns: earlier.at_ns + 2_000_000_000, ..server.sample() }
}

/// Samples of a busy server between which these counters grew.
fn growing(counts: &[(Counter, u64)]) -> (Sample, Sample) {
    let server = busy(1);
    let earlier = server.sample();
    let mut now = later(&server, &earlier);
    for &(counter, more) in counts {
        now.totals.merge(&grown(counter, more));
    }
    (earlier, now)
}

/// Lines of a screen of this many rows.
fn screen_lines(sample: &Sample, earlier: Option<&Sample>, rows: usize) -> Vec<String> {
    let screen = view::screen(sample, earlier, rows);
    let text = screen.strip_prefix("\x1b[H").unwrap().strip_suffix("\x1b[J").unwrap();
    text.split_terminator("\x1b[K\n").map(str::to_owned).collect()
}

#[test]
fn a_screen_fits_80_columns_and_24_rows() {
    for (workers, rows, shown) in [(1, 24, 1), (4, 24, 2), (64, 24, 2), (64, 40, 18)] {
        let server = busy(workers);
        let mut sample = server.sample();
        sample.uptime = Duration::from_secs(86_400 * 400);
        for earlier in [None, Some(&server.sample())] {
            let lines = screen_lines(&sample, earlier, rows);
            assert!(lines.len() < rows && lines[0].ends_with("  q: quit"), "{lines:#?}");
            assert!(lines.iter().any(|line| line.starts_with("closes/s")), "{lines:#?}");
            let of_workers = lines.iter().filter(|line| line.contains(" 4194")).count();
            assert_eq!(of_workers, shown, "{lines:#?}");
            let page = view::page(&sample, earlier);
            let widest = page.lines().skip(1).max_by_key(|line| line.chars().count()).unwrap();
            assert!(widest.chars().count() <= COLUMNS, "{widest}");
            assert_eq!(workers > shown, lines.iter().any(|line| line.contains(" more")));
            let pids = page.lines().filter(|line| line.contains(" 4194")).count();
            assert_eq!(pids, workers);
        }
    }
}

#[test]
fn a_screen_of_stages_fits_as_well() {
    let stages = ["listen", "read", "parse", "recv", "cache", "miss", "disk", "write", "send"];
    let names = [&stages[..], &["pools-control"]].concat();
    let server = staged(names.len(), &names);
    let mut sample = server.sample();
    sample.uptime = Duration::from_secs(86_400 * 400);
    for earlier in [None, Some(&server.sample())] {
        let lines = screen_lines(&sample, earlier, 24);
        assert!(lines.len() < 24, "{lines:#?}");
        let lines = screen_lines(&sample, earlier, 40);
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:#?}");
        for name in &names {
            let begin = format!("{name:.10} ");
            assert!(lines.iter().any(|line| line.starts_with(&begin)), "{name}: {lines:#?}");
        }
    }
}

#[test]
fn the_slots_of_a_stage_are_one_row() {
    let arena = arena(5);
    let server = Server::new(arena.view(), 1);
    for (slot, role) in arena.slots().zip(["accept", "read", "write", "write", "write"]) {
        slot.enter(1000);
        slot.set_role(role);
    }
    let earlier = server.sample();
    let station = Tally::Owned(arena.slot(2));
    station.add(Counter::QueuePuts, 42);
    station.max(Counter::QueueLenMax, 7);
    for (slot, takes) in [(3, 30), (4, 10)] {
        let tally = Tally::Owned(arena.slot(slot));
        tally.add(Counter::ThreadsStarted, 1);
        tally.add(Counter::QueueTakes, takes);
        tally.add(Counter::QueueVisits, 10);
        tally.add(Counter::QueueWaitNs, takes * 2_000);
        tally.add(Counter::StageNs, takes * 5_000);
    }
    arena.slot(2).set_dial(Dial::BatchMost, 12);
    arena.slot(2).set_dial(Dial::AdmitMilliPerS, 850_000);
    arena.slot(2).set_dial(Dial::AgeP90Ns, 900_000_000);
    arena.slot(4).set_dial(Dial::Threads, 3);
    let now = later(&server, &earlier);
    let page = view::page(&now, Some(&earlier));
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("write")).collect();
    let [row] = &rows[..] else { panic!("{page}") };
    let row: Vec<&str> = row.split_whitespace().collect();
    let counted = ["write", "3", "2", "7", "21", "2.0us", "2.0", "5.0us", "0"];
    assert_eq!(row[..9], counted, "{page}");
    assert_eq!(row[9..], ["12", "850/s", "900ms"], "{page}");
    assert!(page.contains("1 worker, 2 threads ") && !page.contains("helpers"), "{page}");
    assert!(!page.contains(" 1000 "), "its slots have no rows: {page}");
    let document: Value = serde_json::from_str(&json::document(&now, Some(&earlier))).unwrap();
    let stages: Vec<&Value> = document["stages"].as_array().unwrap().iter().collect();
    let names: Vec<&Value> = stages.iter().map(|stage| &stage["stage"]).collect();
    assert_eq!(names, ["accept", "read", "write"]);
    let write = stages[2];
    assert_eq!(write["counters"]["queue_takes"], 40);
    assert_eq!(write["gauges"]["queue_items"], 2);
    assert_eq!(write["interval"]["rates"]["queue_takes"], 20.0);
    assert_eq!(write["dials"]["threads"], 3);
    assert_eq!(write["dials"]["batch_most"], 12);
    assert_eq!(document["workers"][3]["role"], "write");
}

#[test]
fn rows_show_the_rates_of_each_worker() {
    let server = busy(2);
    let earlier = server.sample();
    let page = view::page(&later(&server, &earlier), Some(&earlier));
    assert!(page.contains("over 2.0 s"), "{page}");
    let row: Vec<&str> = page.lines().nth(3).unwrap().split_whitespace().collect();
    let idle = ["0", "4194000", "0", "4.4T", "0", "0", "-", "-", "0", "0", "-"];
    assert_eq!(row, idle, "{page}");
}

/// systems.md §2.10: the numbers of helpers, of busy ones, and of tasks that wait for one.
#[test]
fn helpers_are_shown_with_their_queue() {
    let (earlier, now) = growing(&[
        (Counter::HelpersStarted, 5),
        (Counter::HelpersStopped, 2),
        (Counter::HelpersLost, 1),
        (Counter::HelperBusyNs, 3_000_000_000),
        (Counter::HelperWaitNs, 9_000_000_000),
        (Counter::ResidencyFalse, 6),
    ]);
    let now_open = now.totals.gauge(Gauge::HelpersOpen);
    assert_eq!(now_open, earlier.totals.gauge(Gauge::HelpersOpen) + 2);
    let page = view::page(&now, Some(&earlier));
    let line = page.lines().find(|line| line.starts_with("helpers")).unwrap();
    assert!(line.contains("busy 1.5  queued 4.5 "), "{line}");
    assert!(line.ends_with("unknown/s 0  false/s 3.0"), "{line}");
}

/// Inputs and decisions of the controllers of auto.
#[test]
fn controllers_of_helpers_are_shown() {
    check_line_of(
        "auto  ",
        &[
            (Counter::AutoHelpersAdded, 9),
            (Counter::AutoHelpersRemoved, 3),
            (Counter::HelperCompletions, 100),
            (Counter::HelperWaitNs, 200_000_000),
            (Counter::HelperBusyNs, 850_000_000),
            (Counter::AutoGrown, 4),
            (Counter::AutoShrunk, 2),
            (Counter::AutoUndone, 1),
            (Counter::AutoHung, 6),
        ],
        "auto      most 4.4T  wait ms 2.0  task ms 8.5  up/s 2.0  down/s 1.5  hung/s 3.0",
    );
}

/// Checks the line of a part that has none while it is idle.
fn check_line_of(part: &str, counts: &[(Counter, u64)], shown: &str) {
    let idle = Server::new(arena(1).view(), 1).sample();
    assert!(!view::page(&idle, None).contains(part));
    let (earlier, now) = growing(counts);
    let page = view::page(&now, Some(&earlier));
    let (start, _) = shown.split_once(' ').unwrap();
    assert_eq!(page.lines().find(|line| line.starts_with(start)), Some(shown), "{page}");
}

#[test]
fn handshakes_have_a_line_when_there_are_any() {
    let counts = [
        (Counter::TlsHandshakesFull, 5),
        (Counter::TlsHandshakesResumed, 15),
        (Counter::TlsHandshakeNs, 2_000_000),
        (Counter::TlsFaultsAlert, 4),
        (Counter::TlsFaultsNotTls, 2),
        (Counter::SealedBytes, 6_000_000),
    ];
    let shown = "tls/s     handshakes 10  resumed 75.0 %  each 100us  faults 3.0  MB 3.0";
    check_line_of("handshakes", &counts, shown);
}

#[test]
fn http2_has_a_line_once_a_client_uses_it() {
    let counts = [
        (Counter::ConnectionsHttp2, 2),
        (Counter::StreamsOpened, 40),
        (Counter::StreamsRefused, 6),
        (Counter::StreamsResetByClient, 4),
        (Counter::StreamsResetByUs, 2),
        (Counter::Http2WindowStalls, 8),
        (Counter::Http2FilesClosed, 5),
    ];
    let shown = "http2/s   conns 1.0  streams 20  refused 3.0  reset 3.0  stall 4.0  files 2.5";
    check_line_of("http2", &counts, shown);
}

/// Totals of one counter.
fn grown(counter: Counter, by: u64) -> Totals {
    let arena = arena(1);
    Tally::Owned(arena.slot(0)).add(counter, by);
    Totals::from_slots(arena.view().slots())
}

/// systems.md §1.7: the cost of locks is shown for each worker, and the busiest workers are shown.
#[test]
fn the_busiest_are_shown_when_not_all_can_be() {
    let arena = arena(40);
    let server = Server::new(arena.view(), 1);
    (0..40).for_each(|slot| arena.slot(slot).enter(1000 + u32::try_from(slot).unwrap()));
    let earlier = server.sample();
    for slot in 20..40 {
        let tally = Tally::Owned(arena.slot(slot));
        tally.add(Counter::Requests, slot as u64);
        tally.add(Counter::LockWaitNs, 6_000_000);
    }
    let now = later(&server, &earlier);
    let screen = screen_lines(&now, Some(&earlier), 24).join("\n");
    let rows = |text: &str| -> Vec<usize> {
        let lines = text.lines().skip(1);
        lines.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
    };
    let page = view::page(&now, Some(&earlier));
    assert_eq!(rows(&page), (0..40).collect::<Vec<_>>(), "{page}");
    assert_eq!(rows(&screen), (35..40).collect::<Vec<_>>(), "{screen}");
    assert!(screen.contains("and 35 more"), "{screen}");
    let last = screen.lines().find(|line| line.contains(" 1039 ")).unwrap();
    assert_eq!(last.split_whitespace().nth(9), Some("3.0"), "ms/s of locks: {last}");
}

/// Workers that are gone have no row, and their counts are not lost.
#[test]
fn who_has_retired_is_counted_and_not_listed() {
    let arena = arena(3);
    for (slot, pid) in arena.slots().zip(1000..) {
        slot.enter(pid);
        Tally::Owned(slot).add(Counter::Requests, 5);
    }
    // The first is to leave, and has not yet; the second has; the third has died.
    arena.slot(0).retire();
    arena.slot(1).retire();
    Slot::settle(&[arena.slot(1)], Counter::ClosedDrained, false);
    Slot::settle(&[arena.slot(2)], Counter::ClosedWorkerDied, false);
    let sample = Server::new(arena.view(), 1).sample();
    let page = view::page(&sample, None);
    let row = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = page.lines().skip(3).take(3).map(row).collect();
    assert_eq!(rows, ["0 1000", "2 ended", "all 0"], "{page}");
    assert!(page.contains("1 worker ") && !page.contains(" more"), "{page}");
    assert_eq!(sample.totals.get(Counter::Requests), 15);
}

/// Counters of a server keep growing while one generation of its workers follows another.
#[test]
fn totals_have_what_earlier_generations_counted() {
    let arena = arena(1);
    let server = Server::new(arena.view(), 1);
    arena.slot(0).enter(1000);
    Tally::Owned(arena.slot(0)).add(Counter::Requests, 5);
    arena.departed().set(&grown(Counter::Requests, 37));
    let sample = server.sample();
    assert_eq!(sample.totals.get(Counter::Requests), 42);
    assert_eq!(sample.listed().count(), 1, "only workers are listed");
}

/// A process may have several slots, not next to each other: of its threads, or of stages that all
/// of them serve.
#[test]
fn processes_are_workers_and_threads_are_threads() {
    let arena = arena(9);
    arena.set_server(4_193_999, 0, "mt");
    for (slot, pid) in arena.slots().zip([7, 8, 9].into_iter().cycle()) {
        slot.enter(pid);
        Tally::Owned(slot).add(Counter::ThreadsStarted, 4);
        Tally::Owned(slot).add(Counter::ThreadsEnded, 1);
    }
    let sample = Server::new(arena.view(), 4_193_999).sample();
    let page = view::page(&sample, None);
    assert!(page.contains("  3 workers, 27 threads  "), "{page}");
    let document: Value = serde_json::from_str(&json::document(&sample, None)).unwrap();
    let numbers = ["workers", "threads"].map(|name| document["server"][name].as_u64());
    assert_eq!(numbers, [Some(3), Some(27)]);
    assert_eq!(document["workers"].as_array().unwrap().len(), 9, "a row for each set of counters");
}
