//! Traffic of each model, as the server sees it.

use crate::server::{Answer, Asked, Server};
use crate::{closed, load, ms, open, options, replay, try_load};
use regatta_http::Method;
use regatta_load::engine::{
    Fate, LoadOptions, Model, Outcome, Plan, RequestOptions, Resolved, RouteOptions, Watch, perform,
};
use regatta_testkit::folder::Folder;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Plays `count` sessions of a log.
fn play(server: &Server, text: &str, count: u64) -> Outcome {
    let (_log, model) = replay(text, 100.0);
    let options = options(&server.url("/"), model);
    load(&LoadOptions { count: Some(count), duration: Some(ms(10_000)), ..options })
}

fn targets(asked: &[Asked]) -> Vec<&str> {
    asked.iter().map(|asked| asked.target.as_str()).collect()
}

#[test]
fn a_burst_follows_its_first_reply_and_the_think_time_its_last() {
    let server = Server::new(|asked| Answer::ok(b"x").at(asked.at + ms(20)));
    let outcome = play(&server, "/page think=0.2\n /a\n /b\n/next\n", 1);
    let asked = server.asked();
    assert_eq!(targets(&asked), ["/page", "/a", "/b", "/next"]);
    assert!(asked.iter().all(|one| one.conn == asked[0].conn), "one connection");
    assert!(!asked[0].followed, "the first is sent alone");
    assert!(asked[1].at - asked[0].at >= ms(20));
    assert!(asked[3].at - asked[2].at >= ms(220), "the reply and the think time");
    let sessions = outcome.sessions.unwrap();
    assert_eq!((sessions.arrived, sessions.done, sessions.failed), (1, 1, 0));
    assert_eq!(sessions.lengths, [0, 0, 0, 0, 1]);
    assert!(sessions.lifetime.min() >= 270_000_000);
}

#[test]
fn a_server_that_closes_gets_up_to_four_connections_for_a_burst() {
    let server = Server::new(|asked| {
        let reply = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx";
        Answer::bytes(reply).at(asked.at + ms(50)).closing()
    });
    let outcome = play(&server, "/p\n /1\n /2\n /3\n /4\n /5\n /6\n", 1);
    assert_eq!(outcome.fates.get(Fate::Good), 7);
    let asked = server.asked();
    assert_eq!(asked.len(), 7);
    // The first round was pipelined on nothing: four at once, then the other two.
    let first = asked[1].at;
    let early = asked[1..].iter().filter(|asked| asked.at - first < ms(40)).count();
    assert!(early <= 4, "{early} at once");
    assert_eq!(outcome.sessions.unwrap().done, 1);
}

#[test]
fn what_was_pipelined_behind_a_close_is_asked_for_again() {
    let server = Server::new(|asked| match (asked.target.as_str(), asked.conn) {
        ("/1", 0) => {
            let reply = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx";
            Answer::bytes(reply).closing()
        }
        _ => Answer::ok(b"x"),
    });
    let outcome = play(&server, "/p\n /1\n /2\n /3\n", 1);
    assert_eq!(outcome.fates.get(Fate::Good), 4, "{:?}", outcome.fates);
    // The reply too may be lost, when the server closes with requests unread (RFC 9112 §9.6).
    assert!((2..=3).contains(&outcome.again), "{}", outcome.again);
}

/// If a server ends all that idle at once, another of them is no better: a request that one of
/// them lost is made again on a new connection.
#[test]
fn what_an_idle_connection_lost_is_asked_for_on_a_new_one() {
    const IDLE: u64 = 12;
    let idle_from = Instant::now() + ms(300);
    let server = Server::new(move |asked| match (asked.conn < IDLE, asked.on_conn) {
        (true, 0) => Answer::ok(b"x").at(idle_from),
        (true, _) => Answer::bytes("").closing(),
        (false, _) => Answer::ok(b"x"),
    });
    let options = options(&server.url("/"), open(100.0));
    let outcome = load(&LoadOptions { duration: Some(ms(600)), ..options });
    assert_eq!(outcome.fates.get(Fate::Good), outcome.offered, "{:?}", outcome.fates);
    assert!(outcome.again > 0);
}

#[test]
fn a_time_out_fails_the_session_and_the_rest_is_never_sent() {
    let server = Server::new(|asked| match asked.target.as_str() {
        "/silent" => Answer::never(),
        _ => Answer::ok(b"x"),
    });
    let (_log, model) = replay("/a\n/silent\n/never\n\n/b\n/c\n", 50.0);
    let options = options(&server.url("/"), model);
    let (count, timeout) = (Some(4), Some(ms(300)));
    let outcome = load(&LoadOptions { count, timeout, ..options });
    let sessions = outcome.sessions.as_ref().unwrap();
    assert_eq!((sessions.arrived, sessions.done, sessions.failed), (4, 2, 2));
    assert_eq!(outcome.fates.get(Fate::Timeout), 2);
    assert_eq!(outcome.offered, 8, "what was never due is not counted");
    assert!(!targets(&server.asked()).contains(&"/never"));
}

/// Sessions of a log need not stand in order of their times.
#[test]
fn a_count_takes_the_first_sessions_by_their_times() {
    let server = Server::new(|_| Answer::ok(b"x"));
    let (_log, mut model) = replay("#! at=0\n/0\n\n#! at=0.4\n/2\n\n#! at=0.1\n/1\n", 1.0);
    if let Model::PartlyOpen { session_rate, .. } = &mut model {
        *session_rate = None;
    }
    let options = options(&server.url("/"), model);
    let outcome = load(&LoadOptions { count: Some(2), duration: Some(ms(5_000)), ..options });
    assert_eq!(outcome.sessions.unwrap().arrived, 2);
    assert_eq!(targets(&server.asked()), ["/0", "/1"]);
}

#[test]
fn a_connection_that_ends_between_bursts_is_made_again() {
    let server = Server::new(|_| Answer::ok(b"x").closing());
    let outcome = play(&server, "/a think=0.05\n/b think=0.05\n/c\n", 3);
    assert_eq!(outcome.fates.get(Fate::Good), 9, "{:?}", outcome.fates);
    assert_eq!(outcome.sessions.unwrap().done, 3);
    assert_eq!(server.asked().iter().map(|a| a.conn).collect::<BTreeSet<_>>().len(), 9);
}

#[test]
fn methods_contents_and_clients_come_from_the_log() {
    let server = Server::new(|_| Answer::ok(b"x"));
    let text = "#! client=3\n/a method=POST contents=\"x=1\"\n\n#! client=1\n/b method=HEAD\n";
    let (_log, model) = replay(text, 100.0);
    let base = options(&server.url("/"), model);
    let fields = vec![("X-Test".to_owned(), "yes".to_owned())];
    // The answer to HEAD has a byte that must not be there.
    let outcome = load(&LoadOptions { count: Some(1), fields, ..base });
    let head = &server.asked()[0].head;
    assert!(head.starts_with("POST /a HTTP/1.1\r\nHost: "), "{head}");
    assert!(head.contains("\r\nX-Test: yes\r\nContent-Length: 3\r\n\r\n"), "{head}");
    let requests: Vec<u64> = outcome.clients.iter().map(|client| client.requests).collect();
    assert_eq!(requests, [0, 0, 0, 1]);
}

/// A slow line takes its time, on both sides of the kernel's buffers.
#[test]
fn slow_readers_read_at_the_speed_of_their_line() {
    let server = Server::new(|_| Answer::ok(&vec![b'x'; 60_000]));
    let base = options(&server.url("/"), closed(2));
    let line_bits_per_s = Some(800_000);
    let outcome = load(&LoadOptions { line_bits_per_s, count: Some(2), ..base });
    assert_eq!(outcome.fates.get(Fate::Good), 2);
    // 60,000 bytes at 100,000 a second, the last piece being free.
    let least = outcome.service.times.min();
    assert!((550_000_000..5_000_000_000).contains(&least), "{least} ns");
    assert_eq!((outcome.lines.connections, outcome.lines.conforming), (2, 2));
}

#[test]
fn connections_go_to_every_address_in_turn() {
    let servers = [0, 1, 2].map(|_| Server::new(|_| Answer::ok(b"x")));
    let also = servers[1..].iter().map(|server| server.addr).collect();
    let options = LoadOptions {
        route: RouteOptions { also, ..RouteOptions::default() },
        count: Some(30),
        duration: Some(ms(10_000)),
        requests_per_connection: Some(1),
        ..options(&servers[0].url("/"), open(300.0))
    };
    let outcome = load(&options);
    assert_eq!(outcome.fates.get(Fate::Good), 30, "{:?}", outcome.fates);
    for server in servers {
        assert_eq!(server.count(), 10);
        assert!(server.asked().iter().all(|asked| asked.on_conn == 0));
    }
}

#[test]
fn sources_are_spread() {
    let server = Server::new(|_| Answer::ok(b"x"));
    let base = options(&server.url("/"), open(200.0));
    let (duration, requests_per_connection) = (Some(ms(200)), Some(1));
    let spread = 5;
    load(&LoadOptions { duration, requests_per_connection, spread, ..base });
    let asked = server.asked();
    let sources: BTreeSet<_> = asked.iter().map(|asked| asked.from).collect();
    assert_eq!((sources.len(), asked.len()), (5, 40));
    assert!(asked.iter().all(|asked| asked.on_conn == 0));
}

#[test]
fn connections_live_as_long_as_they_are_told() {
    let server = Server::new(|_| Answer::ok(b"x"));
    let base = options(&server.url("/"), closed(3));
    let (count, requests_per_connection) = (Some(90), Some(10));
    let outcome = load(&LoadOptions { count, requests_per_connection, ..base });
    // The three share the count: one may be ahead of the others.
    assert!((9..=11).contains(&outcome.connects), "{}", outcome.connects);
    // Each is a client, and none starves.
    assert_eq!((outcome.clients.len(), outcome.fairness), (3, 1.0), "{:?}", outcome.clients);
    assert_eq!(server.count(), 90);
    assert!(server.asked().iter().all(|asked| asked.on_conn < 10));
}

#[test]
fn a_load_can_be_ended_from_outside_and_says_so() {
    let server = Server::new(|_| Answer::ok(b"x"));
    let base = options(&server.url("/"), open(500.0));
    let options = LoadOptions {
        duration: Some(Duration::from_secs(3_600)),
        slo: Some("errors<100%".to_owned()),
        ..base
    };
    let plan = Plan::new(&options).unwrap();
    let stop = AtomicBool::new(false);
    let mut tell = |_: &_| stop.store(true, Ordering::Relaxed);
    let mut begin = || {};
    let mut watch = Watch { stop: &stop, signals: None, begin: &mut begin, tell: &mut tell };
    let outcome = perform(&plan, &mut watch).unwrap();
    assert!(outcome.interrupted && !outcome.meets_slo());
    assert!((400..5_000).contains(&outcome.offered), "{}", outcome.offered);
    assert_eq!(outcome.fates.total(), outcome.offered);
    assert_eq!(outcome.fates.errors(), 0, "what was cut off is no error");
}

#[test]
fn warm_up_does_not_count() {
    let server = Server::new(|asked| match asked.number {
        0..25 => Answer::bytes("HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n"),
        _ => Answer::ok(b"x"),
    });
    let base = options(&server.url("/"), open(100.0));
    let (warm_up, duration) = (Some(ms(250)), Some(ms(250)));
    let outcome = load(&LoadOptions { warm_up, duration, ..base });
    assert_eq!((outcome.offered, outcome.fates.get(Fate::Good)), (25, 25));
}

/// The host of the URL stays in the requests, wherever they go.
#[test]
fn a_name_is_resolved_as_told() {
    let server = Server::new(|_| Answer::ok(b"x"));
    let port = server.addr.port();
    let resolve = vec![Resolved { host: "site.test".to_owned(), port, ip: server.addr.ip() }];
    let options = LoadOptions {
        route: RouteOptions { resolve, ..RouteOptions::default() },
        request: RequestOptions { method: Some(Method::Put), ..RequestOptions::default() },
        count: Some(5),
        ..options(&format!("http://site.test:{port}/a"), closed(2))
    };
    assert_eq!(load(&options).fates.get(Fate::Good), 5);
    let head = server.asked()[0].head.clone();
    assert!(head.starts_with(&format!("PUT /a HTTP/1.1\r\nHost: site.test:{port}\r\n")), "{head}");
}

#[test]
fn a_unix_socket_is_loaded() {
    let folder = Folder::new("unix");
    let path = folder.join("socket");
    let route = RouteOptions { unix_socket: Some(path.clone()), ..RouteOptions::default() };
    let options = options("http://localhost/", closed(3));
    let options = LoadOptions { route, count: Some(30), ..options };
    let problem = try_load(&LoadOptions { count: None, ..options.clone() }).unwrap_err();
    assert!(problem.contains("socket refused every connection"), "{problem}");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let outcome = load(&options);
    assert_eq!((outcome.fates.get(Fate::Good), outcome.connected), (30, 3));
}

/// The log goes first: its own methods and contents stay.
#[test]
fn contents_go_with_requests_that_have_none() {
    let server = Server::new(|_| Answer::ok(b"x"));
    let log = Folder::new("log");
    let path = log.join("log");
    std::fs::write(&path, "/a\n/b method=PUT contents=\"own\"\n").unwrap();
    let request = RequestOptions {
        body: Some("GET /in-it HTTP/1.1\r\n\r\n".to_owned()),
        content_type: Some("text/plain".to_owned()),
        ..RequestOptions::default()
    };
    let options = options(&server.url("/"), closed(1));
    let options = LoadOptions { request, requests_from: vec![path], count: Some(2), ..options };
    assert_eq!(load(&options).fates.get(Fate::Good), 2);
    let asked = server.asked();
    for (asked, start, content) in [
        (&asked[0], "POST /a HTTP/1.1\r\n", "GET /in-it HTTP/1.1\r\n\r\n"),
        (&asked[1], "PUT /b HTTP/1.1\r\n", "own"),
    ] {
        assert!(asked.head.starts_with(start), "{}", asked.head);
        assert!(asked.head.contains("\r\nContent-Type: text/plain\r\n"), "{}", asked.head);
        assert_eq!(asked.content, content.as_bytes());
    }
}

#[test]
fn urls_of_a_file_are_asked_for_in_order() {
    let server = Server::new(|_| Answer::ok(b"x"));
    let folder = Folder::new("urls");
    let path = folder.join("urls");
    std::fs::write(&path, format!("/a\n{}\n/c\n", server.url("/b"))).unwrap();
    let request = RequestOptions { urls: Some(path), ..RequestOptions::default() };
    let options = options(&server.url("/"), closed(1));
    let options = LoadOptions { request, count: Some(6), ..options };
    assert_eq!(load(&options).fates.get(Fate::Good), 6);
    assert_eq!(targets(&server.asked()), ["/a", "/b", "/c", "/a", "/b", "/c"]);
}
