//! The end of a server: drain, deadlines, exit codes; and a worker that dies.

use crate::prelude::*;

/// Fails unless the server ends within the time, with exit code 0.
fn ends(server: &mut Server, at_most: Duration) {
    let begin = Instant::now();
    let workers = server.workers();
    let status = server.exit_within(at_most);
    let status = status.unwrap_or_else(|| panic!("still there after {:?}", begin.elapsed()));
    assert_eq!(status.code(), Some(0), "{status}: {}", server.stderr());
    assert!(workers.iter().all(|worker| !alive(*worker)), "a worker outlived its master");
}

/// Longest time for an end that waits for nothing: half of the default of `server.drain_ms_max`,
/// when an end that waits for connections would come.
const PROMPTLY: Duration = Duration::from_secs(4);

pub(crate) fn idle_ends_promptly(variant: &Variant) {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = start(variant);
        server.connect().get("/small.txt").expect(200);
        server.signal(signal);
        ends(&mut server, PROMPTLY);
    }
}

pub(crate) fn idle_connections_are_closed(variant: &Variant) {
    let mut server = start(variant);
    let mut idle = server.busy_clients(10);
    let mut silent = server.connect();
    // Then the last one has been accepted too.
    server.connect().get("/small.txt").expect(200);
    server.signal(Signal::TERM);
    idle.iter_mut().for_each(Client::finish);
    silent.rest_or_reset();
    ends(&mut server, PROMPTLY);
}

pub(crate) fn transfers_are_completed(variant: &Variant) {
    let mut server = start(variant);
    let mut client = server.slow_reader("/size-5242880.bin");
    server.signal(Signal::TERM);
    thread::sleep(Duration::from_millis(200));
    assert!(server.exit_within(Duration::ZERO).is_none(), "ended within a transfer");
    assert!(client.take(5 << 20) == sized(5 << 20), "other bytes");
    client.finish();
    drop(client);
    ends(&mut server, PATIENCE);
}

/// A head in transit when the drain begins is answered, or its connection ends in order.
pub(crate) fn requests_in_progress_are_answered(variant: &Variant) {
    let mut server = start(variant);
    let mut client = server.connect();
    client.get("/small.txt").expect(200);
    client.send("GET /a.txt HTTP/1.1\r\nHo");
    thread::sleep(Duration::from_millis(50));
    server.signal(Signal::TERM);
    thread::sleep(Duration::from_millis(100));
    if client.try_send("st: x\r\n\r\n") {
        let rest = client.rest_or_reset();
        assert!(rest.is_empty() || rest.ends_with(b"the letter a\n"), "{}", rest.escape_ascii());
    }
    drop(client);
    ends(&mut server, PATIENCE);
}

pub(crate) fn drain_has_a_deadline(variant: &Variant) {
    let mut server = Launch::new(variant, common()).set("server.drain_ms_max=400").start();
    let mut stuck = server.stuck_client();
    let begin = Instant::now();
    server.end(Signal::TERM);
    assert!(begin.elapsed() >= Duration::from_millis(300), "did not wait: {:?}", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?} for 400 ms", begin.elapsed());
    assert!(stuck.drain() < SPARSE_BYTES);
}

pub(crate) fn quit_ends_at_once(variant: &Variant) {
    let mut server = start(variant);
    let workers = server.workers();
    let mut client = server.stuck_client();
    server.signal(Signal::QUIT);
    assert!(server.exit_within(PROMPTLY).is_some(), "SIGQUIT waits: {}", server.stderr());
    // No worker outlives SIGQUIT.
    soon(|| !workers.iter().any(|worker| alive(*worker)));
    assert!(client.drain() < SPARSE_BYTES);
}

pub(crate) fn quit_cuts_a_drain_short(variant: &Variant) {
    let mut server = start(variant);
    let _client = server.stuck_client();
    server.signal(Signal::TERM);
    thread::sleep(Duration::from_millis(100));
    server.signal(Signal::QUIT);
    assert!(server.exit_within(PROMPTLY).is_some(), "SIGQUIT waits for the drain");
}

/// A killed worker is replaced; the listening socket outlives it.
pub(crate) fn a_killed_worker_is_replaced(variant: &Variant) {
    let mut server = start(variant);
    server.connect().get("/small.txt").expect(200);
    for _ in 0..2 {
        assert!(!server.workers().is_empty(), "no worker process");
        let begin = Instant::now();
        // A thread that dies in `accept` takes a connection along, and the first dies first.
        let workers = server.kill_workers();
        // Connects at once: the port never closes.
        let mut client = server.asked(request("GET", "/a.txt", &[("Connection", "close")]));
        client.answer("GET").expect(200).has(b"the letter a\n");
        assert!(begin.elapsed() < Duration::from_secs(5), "back after {:?}", begin.elapsed());
        comes_to(|| server.workers(), |now| !now.iter().any(|worker| workers.contains(worker)));
    }
    get_sizes(&mut server.connect());
    server.signal(Signal::TERM);
    ends(&mut server, PATIENCE);
}

pub(crate) fn a_dying_worker_does_not_hold_up_the_end(variant: &Variant) {
    let mut server = start(variant);
    for _ in 0..5 {
        soon(|| !server.workers().is_empty());
        server.workers().iter().for_each(|worker| kill(*worker, Signal::KILL));
        thread::sleep(Duration::from_millis(20));
    }
    server.signal(Signal::TERM);
    ends(&mut server, PROMPTLY);
}

pub(crate) fn a_killed_master_leaves_nothing(variant: &Variant) {
    let server = start(variant);
    let workers = server.processes().split_off(1);
    assert!(!workers.is_empty(), "no worker process");
    server.signal(Signal::KILL);
    soon(|| !workers.iter().any(|worker| alive(*worker)));
    // The port is closed.
    soon(|| TcpStream::connect(server.address()).is_err());
}
