//! Accept strategies of the select server of [H] §2.1, by their counters (systems.md §8.6).

use crate::config::printed;
use crate::prelude::*;

/// A row of systems.md §2.1.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    count: u64,
    eager_read: bool,
    eager_write: bool,
    full_read: bool,
    on_close: bool,
    cache: bool,
}

const OFF: Row = Row {
    name: "accept1",
    count: 1,
    eager_read: false,
    eager_write: false,
    full_read: false,
    on_close: false,
    cache: false,
};
const EAGER: Row = Row { name: "eager", count: 0, eager_read: true, eager_write: true, ..OFF };

const ROWS: &[Row] = &[
    OFF,
    Row { name: "acceptinf", count: 0, ..OFF },
    Row { name: "accept25", count: 25, ..OFF },
    Row { name: "accept25+$", count: 25, cache: true, ..OFF },
    EAGER,
    Row { name: "eager+full", full_read: true, ..EAGER },
    Row { name: "eager+close", on_close: true, ..EAGER },
    Row { name: "cm", full_read: true, on_close: true, ..EAGER },
];

fn start(row: &Row) -> Server {
    Launch::new(&Variant::plain(row.name), common()).start()
}

/// Servers of papers look up no file twice, nor its siblings, unless options say so.
pub(crate) fn a_replica_looks_once() {
    let look = |architecture, settings: &[&str], again: bool| {
        let site = Site::with(&[("a.txt", "old"), ("a.txt.br", "br")]);
        let launch = Launch::new(&Variant::plain(architecture), &site.root());
        let server = launch.set("event.processes=1").sets(settings).start();
        let mut client = server.connect();
        let coded = client.ask("GET", "/a.txt", &[("Accept-Encoding", "br")]);
        let expect: &[u8] = if again { b"br" } else { b"old" };
        assert_eq!(coded.body, expect, "{architecture} {settings:?}");
        client.get("/a.txt").expect(200);
        site.put("new.tmp", "new");
        fs::rename(site.path("new.tmp"), site.path("a.txt")).expect("a rename");
        // Longer than the default of cache.revalidate_ms.
        thread::sleep(Duration::from_millis(1200));
        let expect: &[u8] = if again { b"new" } else { b"old" };
        assert_eq!(client.get("/a.txt").body, expect, "{architecture} {settings:?}");
    };
    let replicas = ["accept25+$", "symped-b", "shared-symped-b"];
    thread::scope(|scope| {
        for name in replicas {
            scope.spawn(move || look(name, &[], false));
            let back = &["cache.revalidate_ms=1000", "content.precompressed=true"];
            scope.spawn(move || look(name, back, true));
        }
        scope.spawn(|| look("shared-symped", &[], true));
    });
}

/// Connections that all wait before the server's first accept.
fn crowd(server: &Server, count: usize) -> Vec<Client> {
    let workers = server.workers();
    assert_eq!(workers.len(), 1);
    halt(workers[0]);
    let clients = server.clients(count);
    kill(workers[0], Signal::CONT);
    clients
}

pub(crate) fn each_name_stands_for_its_row() {
    for row in ROWS {
        let table = printed(&["--architecture", row.name]);
        let flag = |section: &str, key: &str| table[section][key].as_bool().expect("a flag");
        let number = |section: &str, key: &str| table[section][key].as_integer().expect("a number");
        let text = |section: &str, key: &str| table[section][key].as_str().expect("a text");
        let count = i64::try_from(row.count).expect("a few");
        assert_eq!(number("accept", "count"), count, "{}", row.name);
        for (key, expect) in [
            ("eager_read", row.eager_read),
            ("eager_write", row.eager_write),
            ("full_read", row.full_read),
            ("on_close", row.on_close),
        ] {
            assert_eq!(flag("accept", key), expect, "{} {key}", row.name);
        }
        assert_eq!(flag("cache", "enabled"), row.cache, "{}", row.name);
        assert_eq!(number("accept", "backlog"), 128);
        assert_eq!(text("accept", "when_full"), "keep-polling");
        assert_eq!(text("event", "poller"), "select");
        assert_eq!(number("event", "processes"), 1);
        assert!((1..=15_000).contains(&number("limits", "connections_max")));
    }
}

pub(crate) fn a_notification_brings_as_many_as_the_strategy_takes() {
    for row in ROWS {
        let server = start(row);
        let _clients = crowd(&server, 60);
        read(&server, "accept_ok", 60);
        let expect = if row.count == 0 { 60 } else { row.count };
        // Counted at the end of the run of accepts, a moment after the last of them.
        read(&server, "accepts_per_notification_max", expect);
    }
}

/// A silent new connection is read once before the next wait, without a result, or not at all.
pub(crate) fn eager_reads_come_before_the_next_wait() {
    for row in ROWS {
        let server = start(row);
        let _clients = crowd(&server, 20);
        let top = read(&server, "connections_opened", 20);
        let expect = if row.eager_read { 20 } else { 0 };
        assert_eq!(counter(&top, "recv_calls"), expect, "{}", row.name);
        assert_eq!(counter(&top, "recv_would_block"), expect, "{}", row.name);
    }
}

/// Full reading means one more read after each request, which fails if the next is not there yet.
pub(crate) fn full_reads_go_on_until_one_fails() {
    for row in ROWS {
        let server = start(row);
        let mut client = server.connect();
        read(&server, "connections_opened", 1);
        let mut vain = u64::from(row.eager_read);
        for replies in 1..=5 {
            client.get("/small.txt").expect(200);
            read(&server, "replies", replies);
            vain += u64::from(row.full_read);
            read(&server, "recv_would_block", vain);
        }
        assert_eq!(counter(&server.top(), "recv_calls"), vain + 5, "{}", row.name);
    }
}

/// Without eager writes the poller is asked first: one more wait for each response.
pub(crate) fn writes_wait_unless_they_are_eager() {
    for row in ROWS {
        let server = start(row);
        let mut client = server.connect();
        client.get("/small.txt").expect(200);
        let before = counter(&read(&server, "replies", 1), "wait_events");
        client.repeat(20, "/small.txt");
        let used = counter(&read(&server, "replies", 21), "wait_events") - before;
        let expect = match (row.eager_write, row.full_read) {
            (false, _) => 40..=42,
            (true, false) => 20..=22,
            // A request that arrives fast enough is read without a wait.
            (true, true) => 0..=22,
        };
        assert!(expect.contains(&used), "{}: {used} events", row.name);
    }
}

pub(crate) fn accepts_on_close_are_as_many_as_closes() {
    for row in ROWS {
        let server = start(row);
        for _ in 0..4 {
            let mut clients = crowd(&server, 15);
            send_all(&mut clients, "GET /small.txt HTTP/1.0\r\n\r\n");
            for client in &mut clients {
                client.answer("GET").expect(200);
                client.finish();
            }
        }
        let top = read(&server, "connections_closed", 60);
        let expect = if row.on_close { 60 } else { 0 };
        assert_eq!(counter(&top, "accept_on_close"), expect, "{}", row.name);
        // A run for each, and those that notifications began.
        assert!(counter(&top, "accept_runs") > expect, "{}: {top}", row.name);
    }
}

/// No client is lost between a strategy's limit and the next notification.
pub(crate) fn everybody_is_served() {
    for row in ROWS {
        let server = start(row);
        let mut clients = crowd(&server, 100);
        for client in &mut clients {
            client.send([get("/size-4097.bin"), get("/small.txt")].concat());
        }
        for client in &mut clients {
            assert_eq!(client.answer("GET").expect(200).body.len(), 4097, "{}", row.name);
            client.answer("GET").expect(200);
        }
    }
}

/// Open, read, write, close for each request ([H] §3), and nothing else.
pub(crate) fn without_a_cache_a_request_is_one_open_and_one_read() {
    for row in ROWS.iter().filter(|row| !row.cache) {
        let server = start(row);
        let mut client = server.connect();
        for _ in 0..10 {
            client.ask("GET", "/small.txt", &[("Accept-Encoding", "br, gzip")]).expect(200);
        }
        let top = read(&server, "replies", 10);
        for (name, count) in [("opens", 10), ("open_siblings", 0), ("reads", 10)] {
            assert_eq!(counter(&top, name), count, "{name} of {}", row.name);
        }
    }
}
