//! Many connections at once, and the limit on them.

use crate::prelude::*;

pub(crate) fn two_hundred_connections(variant: &Variant) {
    let server = serve(variant);
    // Fewer where each needs a process.
    let each = if variant.architecture == "mp" { 15 } else { 50 };
    thread::scope(|scope| {
        for thread in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut clients = server.clients(each);
                for round in 0..4 {
                    let size = |i: usize| SIZES[(i + round + thread) % 8];
                    for (i, client) in clients.iter_mut().enumerate() {
                        client.send(get(&format!("/size-{}.bin", size(i))));
                    }
                    for (i, client) in clients.iter_mut().enumerate() {
                        client.answer("GET").expect(200).has(sized(size(i)));
                    }
                }
            });
        }
    });
}

pub(crate) fn a_thousand_short_connections(variant: &Variant) {
    let server = serve(variant);
    for _ in 0..50 {
        let mut clients = server.clients(20);
        send_all(&mut clients, "GET /small.txt HTTP/1.0\r\n\r\n");
        bodies_are(&mut clients, b"small\n");
        clients.iter_mut().for_each(Client::finish);
    }
}

/// At the limit further connections wait; each that closes lets one in; none is refused.
fn full(variant: &Variant, setting: &str) {
    let server = start_with(variant, &["limits.connections_max=4", setting]);
    let mut inside = server.busy_clients(4);
    let mut waiting = server.clients(3);
    send_all(&mut waiting, get("/a.txt"));
    let mut first = waiting.remove(0);
    assert!(first.silent_for(Duration::from_millis(200)), "a fifth connection was served");
    server.has_open(4);
    get_all(&mut inside, "/small.txt");
    inside.pop();
    assert_eq!(first.answer("GET").expect(200).body, b"the letter a\n");
    drop(inside);
    bodies_are(&mut waiting, b"the letter a\n");
    drop(waiting);
    drop(first);
    server.has_open(0);
    server.connect().get("/small.txt").expect(200);
}

pub(crate) fn full_and_leaving_them(variant: &Variant) {
    full(variant, "accept.when_full=keep-polling");
}

pub(crate) fn full_and_not_listening(variant: &Variant) {
    full(variant, "accept.when_full=pause");
}

/// At the limit the connection idle for longest is closed: first those that have had an answer,
/// then those without a request yet. Connections with a request stay.
pub(crate) fn full_and_closing_the_idle(variant: &Variant) {
    let server = start_with(variant, &["limits.connections_max=4", "accept.when_full=close-idle"]);
    if server.workers().len() > 1 {
        return full_together(&server);
    }
    let mut inside = server.clients(4);
    for at in [3, 1, 2, 3] {
        inside[at].get("/small.txt").expect(200);
        soon(|| all_are_back(&server));
    }
    inside[2].send("GET /small.txt HT");
    server.has_open(4);
    // Time for the client's kernel to acknowledge the last answer.
    thread::sleep(Duration::from_millis(300));
    let mut newcomer = server.connect();
    newcomer.get("/a.txt").expect(200);
    inside[1].finish();
    server.connect().get("/a.txt").expect(200);
    inside[3].finish();
    newcomer.get("/a.txt").expect(200);
    inside[2].send("TP/1.1\r\nHost: a\r\n\r\n");
    inside[2].answer("GET").expect(200);
    inside[0].get("/small.txt").expect(200);
    soon(|| server.stderr().lines().filter(|line| line.contains("is full")).count() == 1);
}

/// A thread returns a connection a moment after its answer arrives. Until then the server does not
/// know that it is idle.
fn all_are_back(server: &Server) -> bool {
    let top = server.top();
    counter(&top, "hand_overs") == counter(&top, "hand_backs")
}

/// Several workers share the limit: each newcomer is answered, and no connection with a pending
/// answer is closed.
fn full_together(server: &Server) {
    let mut idle = Vec::new();
    for _ in 0..12 {
        idle.extend(server.busy_clients(1));
        assert!(server.open_connections() <= 4);
    }
}

/// A silent newcomer has less time than a client that has had an answer.
pub(crate) fn silent_newcomers_are_closed(variant: &Variant) {
    let server = Launch::new(variant, common()).set("limits.first_request_ms_max=300").start();
    let (mut silent, mut idle) = (server.connect(), server.connect());
    idle.get("/small.txt").expect(200);
    let began = Instant::now();
    silent.finish();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(idle.silent_for(Duration::from_millis(100)));
    idle.get("/small.txt").expect(200);
}

/// Waiting at the limit costs no processor time when the listener is not watched.
pub(crate) fn full_is_free(variant: &Variant) {
    let server = start_with(variant, &["limits.connections_max=2", "accept.when_full=pause"]);
    let _inside = server.busy_clients(2);
    let _waiting = server.clients(3);
    thread::sleep(Duration::from_millis(50));
    let used = server.cpu_within(Duration::from_millis(400));
    assert!(used < Duration::from_millis(80), "{used:?} at the limit");
}

pub(crate) fn fewer_descriptors_than_clients(variant: &Variant) {
    // A policy that keeps polling would spin while the table is full.
    let launch = Launch::new(variant, common()).set("accept.when_full=pause");
    let server = launch.set("limits.connections_max=0").after("ulimit -n 160").start();
    let mut clients = server.clients(200);
    send_all(&mut clients, get("/size-4096.bin"));
    thread::sleep(Duration::from_millis(100));
    let used = server.cpu_within(Duration::from_millis(300));
    assert!(used < Duration::from_millis(100), "{used:?} without a descriptor");
    // In any order: a waiting client is let in when one inside leaves.
    clients.into_iter().for_each(|client| bodies_are(&mut [client], sized(4096)));
    server.connect().get("/size-1048577.bin").expect(200);
}

/// A cache far too small for the site gives the same answers and stays within its bounds.
pub(crate) fn more_files_than_the_cache_may_hold(variant: &Variant) {
    let small = ["cache.descriptors_max=4", "cache.entries_max=6", "cache.bytes_max=70000"];
    let server = start_with(variant, &small);
    let mut client = server.connect();
    for _ in 0..3 {
        get_sizes(&mut client);
        for missing in 0..30 {
            client.get(&format!("/missing-{missing}")).expect(404);
        }
    }
    for worker in server.workers() {
        let held = fs::read_dir(format!("/proc/{worker}/fd")).expect("alive").count();
        assert!(held < 40, "{held} descriptors with a cache of four");
    }
}

/// Settings of sockets change how bytes travel, never the bytes.
pub(crate) fn every_kind_of_socket(variant: &Variant) {
    for setting in [
        "accept.defer=true",
        "accept.backlog=1",
        "accept.send_buffer_bytes=16384",
        "accept.pacing_rate=200MB/s",
    ] {
        let server = Launch::new(variant, common()).set(setting).start();
        let mut clients = server.clients(4);
        thread::sleep(Duration::from_millis(20));
        send_all(&mut clients, [get("/small.txt"), get("/size-1048577.bin")].concat());
        for client in &mut clients {
            assert_eq!(client.answer("GET").expect(200).body, b"small\n", "{setting}");
            assert!(client.answer("GET").expect(200).body == sized((1 << 20) + 1), "{setting}");
        }
    }
}

/// A body kept in memory, one copied after its head, and one sent from its file are the same.
pub(crate) fn every_way_to_send(variant: &Variant) {
    for settings in [
        ["cache.body_bytes_max=0", "cache.copy_bytes_max=0"],
        ["cache.body_bytes_max=1000000", "cache.copy_bytes_max=0"],
        ["cache.body_bytes_max=100000", "cache.copy_bytes_max=70000"],
    ] {
        let server = Launch::new(variant, common()).sets(&settings).start();
        let mut client = server.connect();
        for _ in 0..2 {
            client.send(SIZES.map(|size| get(&format!("/size-{size}.bin"))).concat());
            for size in SIZES {
                let answer = client.answer("GET").expect(200);
                assert!(answer.body == sized(size), "{settings:?} {size}");
            }
        }
        let answer = client.ask("GET", "/size-65537.bin", &[("Range", "bytes=65000-")]);
        assert!(answer.expect(206).body == sized(65_537)[65_000..], "{settings:?}");
    }
}
