//! Servers that lie, fail and keep silent: each is found out, and counted as what it is.

use crate::server::{Answer, Asked, Server};
use crate::{closed, load, ms, open, options, try_load};
use regatta_load::engine::{Fate, LoadOptions, Model, Outcome, RequestOptions, Stamp, Verify};
use regatta_load::workload::content::Content;
use regatta_testkit::folder::Folder;
use std::time::Duration;

const TARGET: &str = "/file_set/dir00000/class1_3";
const BYTES: usize = 4_096;

fn good() -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    Content::new(TARGET).fill(0, &mut bytes);
    bytes
}

fn ask(
    target: &str,
    verify: Verify,
    script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> Outcome {
    let server = Server::new(script);
    let (count, duration) = (Some(20), Some(ms(10_000)));
    let drain = Some(Duration::ZERO);
    let (options, verify) = (options(&server.url(target), closed(2)), Some(verify));
    load(&LoadOptions { count, duration, drain, verify, ..options })
}

/// All 20 replies of a script have this fate.
#[track_caller]
fn check(what: &str, fate: Fate, script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) {
    let outcome = ask(TARGET, Verify::Generated, script);
    assert_eq!(outcome.fates.get(fate), 20, "{what}: {:?}", outcome.fates);
    let stamp = if fate.is_lie() { Stamp::Unverified } else { outcome.stamp };
    assert!(outcome.stamp >= stamp, "{what}: {:?}", outcome.stamp);
}

#[test]
fn the_truth_is_good_however_it_comes() {
    check("whole", Fate::Good, |_| Answer::ok(&good()));
    check("piece by piece", Fate::Good, |_| {
        let whole = Answer::ok(&good()).pieces.remove(0);
        let pieces = whole.chunks(whole.len().div_ceil(23)).map(<[u8]>::to_vec).collect();
        Answer { pieces, ..Answer::bytes("") }
    });
    check("chunked", Fate::Good, |_| {
        let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in good().chunks(1_000) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        Answer::bytes(bytes)
    });
    check("until the end", Fate::Good, |_| {
        Answer::bytes([b"HTTP/1.0 200 OK\r\n\r\n".to_vec(), good()].concat()).closing()
    });
    check("after an interim response", Fate::Good, |_| {
        let interim = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".to_vec();
        let real = Answer::ok(&good()).pieces.remove(0);
        Answer::bytes([interim, real].concat())
    });
    check("with a connection for each", Fate::Good, |_| {
        let text =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\nConnection: close\r\n\r\n");
        Answer::bytes([text.into_bytes(), good()].concat()).closing()
    });
}

#[test]
fn lies_are_told_apart() {
    check("short, and says so", Fate::WrongLength, |_| Answer::ok(&good()[..BYTES - 1]));
    check("padded, and says so", Fate::WrongLength, |_| Answer::ok(&[good(), vec![0]].concat()));
    check("an error page as a success", Fate::WrongLength, |_| Answer::ok(b"<h1>Sorry</h1>"));
    check("one byte wrong", Fate::WrongBytes, |_| {
        let mut bytes = good();
        bytes[4_000] ^= 1;
        Answer::ok(&bytes)
    });
    check("another file", Fate::WrongBytes, |_| {
        let mut bytes = vec![0; BYTES];
        Content::new("/file_set/dir00001/class1_3").fill(0, &mut bytes);
        Answer::ok(&bytes)
    });
    check("short, and does not say so", Fate::Truncated, |_| {
        let mut bytes = Answer::ok(&good()).pieces.remove(0);
        bytes.pop();
        Answer::bytes(bytes).closing()
    });
    check("not HTTP", Fate::Malformed, |_| Answer::bytes("220 smtp.example.com\r\n\r\n"));
    check("framing in doubt", Fate::Malformed, |_| {
        Answer::bytes("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
    });
    check("an error", Fate::Status, |_| {
        Answer::bytes("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
    });
    check("not modified, unasked", Fate::Status, |_| Answer::bytes("HTTP/1.1 304 x\r\n\r\n"));
    check("silence and the end", Fate::Reset, |_| Answer::bytes("").closing());
}

/// Bytes that belong to no request, even when they would pass for the next reply.
#[test]
fn padding_that_is_not_declared_is_found() {
    check("padded", Fate::Malformed, |_| {
        Answer::bytes([&Answer::ok(&good()).pieces[0][..], b"padding"].concat())
    });
    check("answered twice", Fate::Malformed, |_| {
        Answer::bytes(Answer::ok(&good()).pieces[0].repeat(2))
    });
}

#[test]
fn old_versions_are_stale() {
    let server = Server::new(|asked| {
        // Version 10 first, and then 3 for ever.
        let version = if asked.number < 2 { 10 } else { 3 };
        let mut bytes = vec![0; 1_000];
        Content::at_version("altered.html", version).fill(0, &mut bytes);
        Answer::ok(&bytes)
    });
    // A single connection: with two, a request may be under way before the first reply.
    let options = options(&server.url("/altered.html"), closed(1));
    let outcome = load(&LoadOptions { count: Some(20), verify: Some(Verify::Altered), ..options });
    let found = (outcome.fates.get(Fate::Good), outcome.fates.get(Fate::Stale));
    assert_eq!(found, (2, 18), "{:?}", outcome.fates);
}

#[test]
fn a_local_directory_is_what_replies_are_held_against() {
    let root = Folder::new("lies");
    std::fs::create_dir(root.join("a b")).unwrap();
    std::fs::write(root.join("a b/index.html"), "hello").unwrap();
    let directory = || Verify::Directory(root.to_path_buf());
    let outcome = ask("/a%20b/", directory(), |_| Answer::ok(b"hello"));
    assert_eq!((outcome.fates.get(Fate::Good), outcome.verified), (20, 20));
    for lie in ["hell", "hello!", "hallo"] {
        let outcome = ask("/a%20b/", directory(), move |_| Answer::ok(lie.as_bytes()));
        assert_eq!(outcome.fates.get(Fate::WrongBytes), 20, "{lie}");
    }
}

#[test]
fn a_head_request_gets_no_body() {
    let server = Server::new(|asked| {
        assert!(asked.head.starts_with("HEAD / HTTP/1.1\r\nHost: 127.0.0.1:"), "{}", asked.head);
        Answer::bytes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
    });
    let options = options(&server.url("/"), closed(1));
    let request = RequestOptions { head: true, ..RequestOptions::default() };
    let options = LoadOptions { request, count: Some(10), ..options };
    assert_eq!(load(&options).fates.get(Fate::Good), 10);
}

/// A request without a reply is not left out of the percentiles.
#[test]
fn silence_is_a_time_out_and_later_than_anything() {
    let server = Server::new(|asked| match asked.number % 10 {
        0 => Answer::never(),
        _ => Answer::ok(b"x"),
    });
    let (timeout, duration) = (Some(ms(200)), Some(ms(1_000)));
    let options = options(&server.url("/"), open(100.0));
    let outcome = load(&LoadOptions { timeout, duration, ..options });
    assert_eq!(outcome.offered, 100);
    let timeouts = outcome.fates.get(Fate::Timeout);
    assert!((10..=20).contains(&timeouts), "{:?}", outcome.fates);
    assert_eq!(outcome.phases.timeouts[2], timeouts, "while waiting");
    let p95 = outcome.response.as_ref().unwrap().at(0.95);
    assert!(p95.censored && p95.ns >= 200_000_000, "{p95:?}");
    assert!(!outcome.rules[0].breaches.is_empty(), "{:?}", outcome.rules);
}

#[test]
fn late_is_not_good() {
    let server = Server::new(|asked| Answer::ok(b"x").at(asked.at + ms(30)));
    let options = options(&server.url("/"), open(50.0));
    let (deadline, duration) = (Some(ms(10)), Some(ms(400)));
    let outcome = load(&LoadOptions { deadline, duration, ..options });
    assert_eq!(outcome.fates.get(Fate::Late), outcome.offered);
    assert_eq!(outcome.offered, 20);
    assert_eq!(outcome.good_per_s, 0.0);
}

#[test]
fn nobody_is_there() {
    let addr = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{addr}/");
    for model in [open(100.0), closed(3)] {
        // An hour: the test ends early if the first second shows that no server is there.
        let duration = Some(ms(3_600_000));
        let problem = try_load(&LoadOptions { duration, ..options(&url, model) }).unwrap_err();
        assert!(problem.contains(&format!("{addr} refused every connection")), "{problem}");
    }
}

/// A server that leaves in the middle of a run: what it refuses is counted, and asked again now and
/// then.
#[test]
fn everybody_has_left() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let leaves = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let outcome = load(&LoadOptions { duration: Some(ms(500)), ..options(&url, closed(1)) });
    leaves.join().unwrap();
    let refused = outcome.fates.get(Fate::Refused);
    assert!((1..=60).contains(&refused), "{:?}", outcome.fates);
    assert_eq!((outcome.connected, outcome.interrupted), (1, false));
}

/// The service level is judged on all of this.
#[test]
fn service_levels_are_met_or_not() {
    // The client waits most of the time: it is not what limits this.
    let server = Server::new(|asked| Answer::ok(b"x").at(asked.at + ms(3)));
    let run = |slo: &str| {
        let options = options(&server.url("/"), closed(1));
        let slo = Some(slo.to_owned());
        load(&LoadOptions { slo, count: Some(100), ..options })
    };
    let outcome = run("p99<10s,errors<0.1%,goodput>=100%,mean<9s,rate>1");
    assert!(outcome.slo.iter().all(|term| term.met), "{:?}", outcome.slo);
    // Met with the client's own delay is met, whatever the stamp.
    assert!(outcome.meets_slo(), "{:?}", outcome.level);
    let outcome = run("p50<1ns,errors<100%");
    assert_eq!(outcome.slo.iter().map(|term| term.met).collect::<Vec<_>>(), [false, true]);
    assert!(!outcome.meets_slo());
}

/// A model whose connections are few: what waits for one has waited, and counts.
#[test]
fn arrivals_do_not_wait_for_each_other_but_for_connections() {
    let server = Server::new(|asked| Answer::ok(b"x").at(asked.at + ms(50)));
    let rate = regatta_load::engine::Rate::constant(100.0);
    let model = Model::Open { rate: rate.clone(), connections_max: Some(1) };
    let options = |model| LoadOptions {
        duration: Some(ms(250)),
        drain: Some(ms(20_000)),
        ..options(&server.url("/"), model)
    };
    let outcome = load(&options(model));
    // 25 requests at 20 a second: the last waits for a second.
    assert!(outcome.response.as_ref().unwrap().at(0.9).ns > 700_000_000);
    assert!(outcome.service.at(0.5).ns < 700_000_000);
    assert_eq!(outcome.stamp, Stamp::LimitedByClient);
    let free = Model::Open { rate, connections_max: None };
    let outcome = load(&options(free));
    assert!(outcome.connections_most > 1);
}
