//! Tests of answers, and of the hosts that get them.
use super::*;
use regatta_metrics::{Arena, Counter, Slot, Tally};
use regatta_testkit::counters::arena;
use serde_json::Value;
use std::{
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

const CONFIG: &str = "[server]\nroot = \"/srv\"\n";

/// A server that has not started its three workers, the second with two slots.
fn server() -> (Arena<'static>, About) {
    let arena = arena(4);
    arena.set_server(4_193_999, 1_700_000_000_000, "sped");
    arena.set_generation(1);
    let own = OwnServer {
        arena: arena.view(),
        slots: vec![0..1, 1..3, 3..4],
        config: CONFIG.to_owned(),
        next_expiry: None,
    };
    let reader = top::Reader::own(arena.view(), 4_193_999);
    let about = About { reader, hosts: Hosts::All, own: Some(own) };
    (arena, about)
}

fn health(about: &About, now_ms: u64) -> Health {
    about.own.as_ref().unwrap().health(Tick(now_ms))
}

fn enter(slot: Slot<'_>, pid: u32, heartbeat_ms: u64) {
    slot.enter(pid);
    slot.set_heartbeat_ms(heartbeat_ms);
}

/// Serves one connection to its end.
fn exchange(about: &About, server: UnixStream, time_max: Duration) {
    server.set_nonblocking(true).unwrap();
    let (mut clients, mut events) = (Clients::new(about, time_max), Vec::new());
    clients.add(server.into());
    while !clients.all.is_empty() {
        clients.round(&mut events).unwrap();
    }
}

/// Returns the answer to a client that sends these bytes and then waits for the end.
fn ask(about: &About, request: &[u8]) -> (Vec<String>, String) {
    let (mut client, server) = UnixStream::pair().unwrap();
    client.write_all(request).unwrap();
    let answering = thread::scope(|scope| {
        let client = scope.spawn(move || {
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            text
        });
        exchange(about, server, Duration::from_secs(60));
        client.join().unwrap()
    });
    let (head, body) = answering.split_once("\r\n\r\n").unwrap();
    (head.split("\r\n").map(str::to_owned).collect(), body.to_owned())
}

fn get(about: &About, target: &str) -> (Vec<String>, String) {
    ask(about, format!("GET {target} HTTP/1.1\r\nHost: admin\r\n\r\n").as_bytes())
}

fn status_line(about: &About, request: &[u8]) -> String {
    ask(about, request).0.swap_remove(0)
}

#[test]
fn a_server_is_ready_while_a_worker_answers_and_it_does_not_drain() {
    let (arena, about) = server();
    let at = |now_ms| health(&about, now_ms);
    assert_eq!(at(0), Health { drains: false, workers: 0, answering: 0 });
    assert!(!at(0).is_ready());

    enter(arena.slot(0), 10, 1_000);
    // Among several units of a process, the first has the heartbeat of all.
    enter(arena.slot(1), 11, 3_000);
    enter(arena.slot(2), 11, 0);
    assert_eq!(at(3_999), Health { drains: false, workers: 2, answering: 2 });
    assert_eq!(at(4_000), Health { drains: false, workers: 2, answering: 1 });
    assert!(at(4_000).is_ready());
    assert!(!at(6_000).is_ready(), "nobody has answered for three seconds");

    // One has crashed and is to be replaced; another has retired.
    Slot::settle(&[arena.slot(0)], Counter::ClosedWorkerDied, false);
    enter(arena.slot(3), 12, 3_000);
    arena.slot(3).retire();
    Slot::settle(&[arena.slot(3)], Counter::ClosedDrained, false);
    assert_eq!(at(4_000), Health { drains: false, workers: 2, answering: 1 });

    arena.control().leave(9_000);
    assert!(at(4_000).is_ready(), "others take over");
    let (arena, about) = server();
    enter(arena.slot(0), 10, 3_000);
    arena.control().drain(9_000);
    assert!(!health(&about, 4_000).is_ready());
    assert_eq!(health(&about, 4_000).answering, 1);
}

#[test]
fn readiness_is_a_status_for_balancers_and_numbers_for_people() {
    let (arena, about) = server();
    let (head, body) = get(&about, "/ready");
    assert_eq!(head[0], "HTTP/1.1 503 Service Unavailable");
    assert_eq!(body, "{\"ready\":false,\"workers\":0,\"answering\":0,\"generation\":1}\n");
    enter(arena.slot(0), 10, clock::now().tick.0);
    enter(arena.slot(3), 11, 0);
    let (head, body) = get(&about, "/ready");
    assert_eq!(head[0], "HTTP/1.1 200 OK");
    assert!(head.contains(&"Content-Type: application/json".to_owned()), "{head:?}");
    let body: Value = serde_json::from_str(&body).unwrap();
    // The clock of a machine that has just started is too young to show the second one's age.
    assert_eq!((&body["ready"], &body["workers"]), (&Value::from(true), &Value::from(2)));
    assert_eq!(get(&about, "/live").0[0], "HTTP/1.1 200 OK");
}

#[test]
fn metrics_come_in_the_form_that_is_accepted() {
    let (arena, about) = server();
    enter(arena.slot(1), 11, clock::now().tick.0);
    Tally::Owned(arena.slot(1)).add(Counter::Requests, 40);
    Tally::Owned(arena.slot(2)).add(Counter::Requests, 2);
    Tally::Owned(arena.departed()).add(Counter::Requests, 100);
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2,*/*;q=0.1";
    let forms = [
        (prometheus, Form::OpenMetrics),
        ("Application/OpenMetrics-Text", Form::OpenMetrics),
        ("*/*", Form::Text),
        ("text/plain, application/openmetrics-text; q=0.9", Form::Text),
        ("application/openmetrics-text;q=0", Form::Text),
        ("application/openmetrics-text;Q=0", Form::Text),
        ("application/openmetrics-text;q=much", Form::Text),
        ("", Form::Text),
    ];
    for (accept, form) in forms {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
        let (head, body) = ask(&about, request.as_bytes());
        let content_type = format!("Content-Type: {}", form.content_type());
        assert!(head.contains(&content_type), "{accept}: {head:?}");
        assert_eq!(body.ends_with("# EOF\n"), form == Form::OpenMetrics, "{accept}");
        assert!(body.contains("\nregatta_requests_total 142\n"));
        assert!(body.contains("\nregatta_worker_requests_total{worker=\"1\"} 42\n"));
        assert!(body.contains("\nregatta_worker_up{worker=\"1\"} 1\n"));
        assert!(!body.contains("{worker=\"2\"}"), "it is a unit of the same worker");
        assert!(body.contains("architecture=\"sped\"} 1\n"));
    }
}

#[test]
fn status_is_the_document_of_top() {
    let (arena, about) = server();
    enter(arena.slot(0), 10, 0);
    Tally::Owned(arena.slot(0)).add(Counter::Replies, 3);
    for (target, rates) in [("/status?rates=0", false), ("/status", true)] {
        let (head, body) = get(&about, target);
        assert!(head.contains(&"Content-Type: application/json".to_owned()));
        let document: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(document["server"]["architecture"], "sped");
        assert_eq!(document["total"]["counters"]["replies"], 3);
        assert_eq!(document["total"].get("interval").is_some(), rates, "{target}");
    }
    assert_eq!(get(&about, "/config").1, CONFIG);
}

/// Rates are of the time that is asked for, which the client has in addition to its own.
#[test]
fn a_reading_takes_as_long_as_it_is_told() {
    let (arena, about) = server();
    enter(arena.slot(0), 10, 0);
    let (_, body) = get(&about, "/status?interval_ms=300");
    let document: Value = serde_json::from_str(&body).unwrap();
    assert!(document["total"]["interval"]["seconds"].as_f64().unwrap() >= 0.3, "{body}");
    for impossible in ["99", "5001", "", "-1", "1e3"] {
        let (head, body) = get(&about, &format!("/status?interval_ms={impossible}"));
        assert_eq!(head[0], "HTTP/1.1 400 Bad Request", "{impossible}");
        assert!(body.contains("100 to 5000"), "{body}");
    }
    let (mut client, server) = UnixStream::pair().unwrap();
    client.write_all(b"GET /status?interval_ms=400 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    exchange(&about, server, Duration::from_millis(200));
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("}\n"), "{text}");
}

/// The page is whole in itself, and its policy forbids the rest.
#[test]
fn the_page_asks_nobody_else() {
    let (_, mut about) = server();
    let (head, body) = get(&about, "/");
    assert_eq!(head[0], "HTTP/1.1 200 OK");
    let policy = head.iter().find(|line| line.starts_with("Content-Security-Policy:")).unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"));
    assert!(body.starts_with("<!doctype html>") && body.ends_with("</html>\n"));
    assert!(!body.contains("http://") && !body.contains("https://"), "it names another place");
    // Without the sources of an admin process there are the page and its numbers.
    about.own = None;
    assert_eq!(get(&about, "/").1, body);
    let (_, status) = get(&about, "/status?rates=0");
    assert!(status.contains("\"architecture\":\"sped\""), "{status}");
    for path in ["/config", "/metrics", "/ready", "/live"] {
        let (head, body) = get(&about, path);
        assert_eq!(head[0], "HTTP/1.1 404 Not Found", "{path}");
        assert_eq!(body, "there is /, /status\n");
    }
}

/// The page names counters, gauges and histograms that there are.
#[test]
fn the_page_shows_numbers_that_exist() {
    let (arena, about) = server();
    enter(arena.slot(0), 10, 0);
    let (_, body) = get(&about, "/status");
    let document: Value = serde_json::from_str(&body).unwrap();
    let total = &document["total"];
    let groups = [
        ("rates.", &total["interval"]["rates"]),
        ("gauges.", &total["gauges"]),
        ("counters.", &total["counters"]),
        ("histograms.", &total["interval"]["histograms"]),
        ("times.", &total["interval"]["histograms"]),
        ("total.memory.", &total["memory"]),
        ("server.", &document["server"]),
    ];
    for (group, values) in groups {
        let named: Vec<&str> = PAGE.split(group).skip(1).collect();
        assert!(!named.is_empty(), "{group}");
        for rest in named {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            // The end of a sentence.
            if name.is_empty() {
                continue;
            }
            assert!(values.get(name).is_some(), "{group}{name}");
        }
    }
}

#[test]
fn only_reading_is_answered() {
    let (_, about) = server();
    let (head, body) = ask(&about, b"HEAD /config HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head[0].as_str(), body.as_str()), ("HTTP/1.1 200 OK", ""));
    let length = format!("Content-Length: {}", CONFIG.len());
    assert!(head.contains(&length) && head.contains(&"Connection: close".to_owned()), "{head:?}");
    let post = b"POST /live HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nagain";
    let (head, _) = ask(&about, post);
    assert_eq!(head[0], "HTTP/1.1 405 Method Not Allowed");
    assert!(head.contains(&"Allow: GET, HEAD".to_owned()));
    let (head, body) = get(&about, "/metricz");
    assert_eq!(head[0], "HTTP/1.1 404 Not Found");
    assert!(body.contains("/metrics"), "{body}");
    let star = b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(status_line(&about, star), "HTTP/1.1 405 Method Not Allowed");
}

#[test]
fn what_is_no_request_is_refused() {
    let (_, about) = server();
    assert_eq!(status_line(&about, b"GET /live\n\n"), "HTTP/1.1 400 Bad Request");
    assert_eq!(status_line(&about, b"GET /live HTTP/1.1\r\n\r\n"), "HTTP/1.1 400 Bad Request");
    let long = format!("GET /live HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(5_000));
    let line = status_line(&about, long.as_bytes());
    assert_eq!(line, "HTTP/1.1 431 Request Header Fields Too Large");
}

/// A page of a stranger has a browser ask under a name of the stranger's own.
#[test]
fn only_requests_for_this_server_are_answered() {
    let (_, mut about) = server();
    about.hosts = Hosts::Named("monitor.example".to_owned());
    let line = |host: &str| {
        status_line(&about, format!("GET /live HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
    };
    let addresses = ["127.0.0.1", "10.0.0.7:9000", "[::1]:9000", "[::1]"];
    let names = ["localhost", "LocalHost:9000", "monitor.example", "Monitor.Example:9000"];
    for own in addresses.into_iter().chain(names) {
        assert_eq!(line(own), "HTTP/1.1 200 OK", "{own}");
    }
    for other in ["evil.example", "evil.example:9000", "127.0.0.1.evil.example", "localhost.evil"] {
        assert_eq!(line(other), "HTTP/1.1 403 Forbidden", "{other}");
    }
    let (_, body) = ask(&about, b"GET /config HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(body.contains("evil.example") && !body.contains("root"), "{body}");
    // A browser always names a host.
    assert_eq!(status_line(&about, b"GET /live HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 OK");
}

#[test]
fn a_slow_client_has_its_time_and_no_more() {
    let (_, about) = server();
    // One client does not finish its request, the other does not close.
    for request in [&b"GET /live HTTP/1.1\r\nHo"[..], b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(request).unwrap();
        exchange(&about, server, Duration::from_millis(100));
        // The server closes it, though it is still there.
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text.ends_with("live\n"), request.ends_with(b"\n"), "{text}");
    }
}

/// More slow clients than the limit do not end within this test: all requests are answered, and the
/// process has heartbeats.
#[test]
fn slow_clients_hold_up_no_other_until_listening_ends() {
    let (_, about) = server();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Far longer than the others' wait.
    let (time_max, patience) = (Duration::from_secs(600), Duration::from_secs(60));
    let beats = AtomicU64::new(0);
    let beat = |_: Tick| _ = beats.fetch_add(1, Relaxed);
    thread::scope(|scope| {
        let listening = listener.as_fd();
        let serving = scope.spawn(move || serve(listening, &about, time_max, &beat));
        let stuck: Vec<TcpStream> = (0..200)
            .map(|number| {
                let mut client = TcpStream::connect(address).unwrap();
                let piece: &[u8] = if number % 2 == 0 { b"" } else { b"GET /live HTTP/1.1\r\n" };
                client.write_all(piece).unwrap();
                client
            })
            .collect();
        let texts = [(); 3].map(|()| {
            let mut client = TcpStream::connect(address).unwrap();
            client.set_read_timeout(Some(patience)).unwrap();
            client.write_all(b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut text = String::new();
            let read = client.read_to_string(&mut text);
            read.map(|_| text)
        });
        drop(stuck);
        socket::stop_listening(listener.as_fd()).unwrap();
        let error = serving.join().unwrap();
        assert_eq!(socket::accept_fault(&error), AcceptFault::Closed);
        assert!(beats.load(Relaxed) > 0);
        for text in texts {
            let text = text.expect("an answer");
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
            assert!(text.ends_with("\r\n\r\nlive\n"), "{text}");
        }
    });
}
