//! Clients that read slowly: ended below the minimum rate, served above it, no harm to others.

use crate::over_tls::encrypted;
use crate::prelude::*;

const SETTINGS: [&str; 2] = ["limits.send_window_ms=250", "limits.send_rate_min=10000"];

pub(crate) fn one_that_never_reads_is_ended(variant: &Variant) {
    let server = Launch::new(variant, common()).sets(&SETTINGS).start();
    let mut stuck = server.connect_narrow();
    let begin = Instant::now();
    stuck.send(get("/sparse.bin"));
    stuck.head_only().expect(200);
    server.has_open(0);
    assert!(begin.elapsed() >= Duration::from_millis(250), "ended within its first window");
    assert!(stuck.drain() < SPARSE_BYTES);
    server.connect().get("/small.txt").expect(200);
}

/// docs/options.md, `event.send`: a blocking send occupies the process for at most one and a half
/// windows, and then the peer is gone.
pub(crate) fn a_blocking_send_is_given_up(variant: &Variant) {
    let server = start_with(variant, &["limits.send_window_ms=1000", "limits.send_rate_min=10000"]);
    let mut stuck = server.stuck_client();
    let begin = Instant::now();
    assert_eq!(server.connect().get("/small.txt").expect(200).body, b"small\n");
    let waited = begin.elapsed();
    assert!(waited >= Duration::from_millis(100), "served after {waited:?}: not blocking");
    assert!(waited < Duration::from_millis(1800), "held up for {waited:?}");
    server.has_open(0);
    let gone = begin.elapsed();
    // Two windows, as where sends do not block: the first has what filled the buffers.
    assert!(gone < Duration::from_millis(2600), "gone after {gone:?}");
    assert!(stuck.drain() < SPARSE_BYTES);
}

pub(crate) fn one_below_the_rate_is_ended(variant: &Variant) {
    let server = Launch::new(variant, common()).sets(&SETTINGS).start();
    let mut slow = server.stuck_client();
    let begin = Instant::now();
    let ended = eventually(PATIENCE, || {
        slow.take_some(50);
        thread::sleep(Duration::from_millis(20));
        server.open_connections() == 0
    });
    assert!(ended, "2500 bytes a second pass for 10000, after {:?}", begin.elapsed());
}

/// About 80 KiB a second against a minimum of 10 000 bytes, for several windows.
pub(crate) fn an_honest_slow_one_is_served(variant: &Variant) {
    let server = serve_with(variant, &["limits.send_window_ms=600", "limits.send_rate_min=10000"]);
    let mut slow = server.slow_reader("/size-5242880.bin");
    let mut body = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1500) {
        body.extend(slow.take(8 << 10));
        thread::sleep(Duration::from_millis(100));
    }
    body.extend(slow.take((5 << 20) - body.len()));
    assert!(body == sized(5 << 20), "other bytes");
    slow.get("/small.txt").expect(200);
}

/// docs/options.md, `http2.unsent_bytes_max`: the kernel takes megabytes for a client that reads
/// nothing, but less where most speak HTTP/2.
pub(crate) fn unsent_bytes_are_limited() {
    const MUCH: u64 = 1 << 20;
    let variant = Variant::find("sped_epoll");
    let sealed = encrypted(variant);
    for (variant, set) in [
        (variant, "http2.clear=true"),
        (sealed, "http2.unsent_bytes_max=0"),
        (sealed, "http2.enabled=false"),
    ] {
        let server = start_with(variant, &[set]);
        let _stuck = server.stuck_client();
        comes_to(|| (set, server.count("bytes_sent")), |(_, sent)| *sent > MUCH);
    }
    let server = start_with(sealed, &[]);
    let _stuck = server.stuck_client();
    comes_to_rest(&server);
    let sent = server.count("bytes_sent");
    assert!(sent < MUCH / 2, "{sent} bytes");
}

/// Clients that ask twice for more than the sockets' buffers hold, and read one head.
fn stuck_in_pipelines(server: &Server, count: usize) -> Vec<Client> {
    let stuck = |_| {
        let mut client = server.connect_narrow();
        client.send(get("/sparse.bin").repeat(2));
        client.head_only().expect(200);
        client
    };
    (0..count).map(stuck).collect()
}

pub(crate) fn others_do_not_wait(variant: &Variant) {
    // They are held for longer than a client of this suite waits.
    let server = Launch::new(variant, common()).set("limits.send_window_ms=10min").start();
    let _slow = stuck_in_pipelines(&server, 10);
    let mut client = server.connect();
    get_sizes(&mut client);
    assert_eq!(server.open_connections(), 11, "those that read nothing are still there");
}

pub(crate) fn waiting_is_free(variant: &Variant) {
    let server = start(variant);
    let _slow = stuck_in_pipelines(&server, 20);
    comes_to_rest(&server);
}

/// Asserts that waiting takes no processor time: spinning would use some in every half second.
fn comes_to_rest(server: &Server) {
    let used = || server.cpu_within(Duration::from_millis(500));
    comes_to(used, |used| *used < Duration::from_millis(100));
}

pub(crate) fn half_closed_waiting_is_free(variant: &Variant) {
    let server = start(variant);
    let mut slow = server.stuck_client();
    slow.half_close();
    comes_to_rest(&server);
    assert_eq!(slow.drain(), SPARSE_BYTES);
}

pub(crate) fn draining_accepts_nobody(variant: &Variant) {
    let mut server = start(variant);
    let mut client = server.slow_reader("/size-5242880.bin");
    server.signal(Signal::TERM);
    soon(|| TcpStream::connect_timeout(&server.address(), PATIENCE).is_err());
    client.take(5 << 20);
    assert!(server.exit_within(PATIENCE).is_some(), "{}", server.stderr());
}

pub(crate) fn unread_answers_stop_the_requests(variant: &Variant) {
    let server = serve(variant);
    let mut client = server.connect_narrow();
    let patience = Some(Duration::from_millis(300));
    client.socket().set_write_timeout(patience).expect("a time");
    let batch = get("/size-65537.bin").repeat(500);
    let mut taken = 0_usize;
    while taken < 64 << 20 && client.try_send(&batch) {
        taken += batch.len();
    }
    assert!(taken < 64 << 20, "64 MiB of requests taken, and none of their answers read");
    server.connect().get("/small.txt").expect(200);
}

/// Descriptors that a worker has neither for connections nor for files. More than usual are
/// reserved where processes share one table, threads have pollers, or helpers are processes. A
/// pipeline's listener may have a thread.
pub(crate) fn reserved_descriptors(variant: &Variant) -> usize {
    match variant.architecture.split('-').next() {
        Some("amped") if variant.has("amped.helper_kind=processes") => 64 + 2 * 16,
        Some("auto") => 64 + 1 + 32,
        Some("flash") => 64 + 2 * (2 + 4),
        Some("shared") => 64 + 3 * 11,
        Some("coloured" | "means") => 64 + 3,
        Some("uring") if variant.has("uring.body=splice") => 64 + 3 + 2 * 16,
        Some("uring") => 64 + 3,
        Some("watpipe4" | "watpipe5" | "seda") => 64 + 2,
        _ => 64,
    }
}

/// Each reader gets another file: one without a descriptor waits until another ends.
pub(crate) fn more_files_than_descriptors(variant: &Variant) {
    const CLIENTS: usize = 64;
    let site = Site::new();
    for number in 0..CLIENTS {
        // More than any variant keeps in memory, and more than small sockets take.
        site.resize(&format!("{number}.bin"), 2 << 20);
    }
    // A socket for each client.
    let files = format!("ulimit -n {}", reserved_descriptors(variant) + CLIENTS);
    let launch = Launch::new(variant, &site.root()).after(files);
    let launch = launch.sets(&["limits.connections_max=64", "cache.descriptors_max=0"]);
    // Threads that fill sockets of megabytes at once leave no processor to other cases.
    let launch = launch.set("accept.send_buffer_bytes=16384");
    // The kernel gives one worker more than its share: those not yet inside wait.
    let server = launch.set("accept.when_full=pause").start();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect_narrow()).collect();
    send_numbered(&mut clients);
    // Time for the server to open all that it can.
    thread::sleep(Duration::from_millis(300));
    let answered = eventually(PATIENCE, || {
        let (ready, waiting) = clients.drain(..).partition::<Vec<_>, _>(Client::has_bytes);
        clients = waiting;
        for mut client in ready {
            client.head_only().expect(200);
            client.abort();
        }
        clients.is_empty()
    });
    assert!(answered, "{} clients wait", clients.len());
}

/// Default of `uring.chunk_bytes`.
const URING_PIECE_BYTES: u64 = 256 << 10;

/// docs/logging.md: a transfer that the server's end cuts short has a line that says so. A ring may
/// have sent a piece whose completion is not awaited (docs/arch/uring.md).
pub(crate) fn what_the_end_cuts_short_is_logged(variant: &Variant) {
    let piece = if variant.architecture == "uring" { URING_PIECE_BYTES } else { 0 };
    for signal in [Signal::TERM, Signal::QUIT] {
        let (line, received) = line_of_what_the_end_cuts_short(variant, "json", signal);
        let line: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&line["outcome"], &line["status"]), (&"cut".into(), &200.into()), "{line}");
        assert_eq!(line["body_bytes"], SPARSE_BYTES, "{line}");
        let sent = line["body_sent_bytes"].as_u64().expect("a number");
        assert!(
            (received.saturating_sub(piece)..SPARSE_BYTES).contains(&sent),
            "{received} came: {line}"
        );
    }
    let (line, received) = line_of_what_the_end_cuts_short(variant, "common", Signal::QUIT);
    let sent = line.rsplit_once(" 200 ").and_then(|(_, sent)| sent.parse::<u64>().ok());
    let short =
        sent.is_some_and(|sent| (received.saturating_sub(piece)..SPARSE_BYTES).contains(&sent));
    assert!(short, "{received} of {SPARSE_BYTES} came: {line}");
}

/// Line of a transfer in progress when the server ends, and the received bytes of its body.
///
/// A worker that cannot exit in time is killed and loses its lines, as documented. On a crowded
/// machine that may happen, and the function retries with another server.
fn line_of_what_the_end_cuts_short(
    variant: &Variant,
    format: &str,
    signal: Signal,
) -> (String, u64) {
    for _ in 0..5 {
        let site = Site::new();
        let log = site.beside("access.log");
        let launch = Launch::new(variant, common()).log(&log).set(format!("log.format={format}"));
        // A thread whose send fills a socket exits after four steps.
        let launch = launch.sets(&["threads.step_ms=20", "pool.step_ms=20", "adapt.step_ms=20"]);
        let mut server = launch.set("server.drain_ms_max=200").start();
        let mut stuck = server.stuck_client();
        let one_task = server.workers().into_iter().all(|worker| inspect::tasks(worker) == 1);
        server.end(signal);
        let text = fs::read_to_string(&log).expect("a log");
        if let Some(line) = text.lines().find(|line| line.contains("/sparse.bin")) {
            return (line.to_owned(), stuck.drain());
        }
        // The thread that reads its messages may lag behind its end. A process without threads that
        // block too long exits in time.
        let killed = || server.stderr().contains("did not end in time: killed");
        assert!(!one_task || eventually(PATIENCE, killed), "no line: {text:?}");
    }
    panic!("five workers had 300 ms to leave, and did not take them");
}
