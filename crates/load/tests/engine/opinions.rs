//! Second opinions: httperf and wrk of Debian on the same server, where they are installed.

use crate::server::{Answer, Asked, Server};
use crate::{attempts, closed, load, ms, near, open, options, replay};
use regatta_load::engine::{Fate, LoadOptions};
use regatta_testkit::skips::skip;
use std::io::ErrorKind;
use std::process::Command;

/// Output of a program; `None`, and a word about it, when it is not installed.
fn run(program: &str, args: &[&str]) -> Option<String> {
    match Command::new(program).args(args).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip(&format!("needs {program}"));
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// The number that follows `label` in `text`.
fn number(text: &str, label: &str) -> Option<f64> {
    let rest = text.split_once(label)?.1.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn slow(asked: &Asked) -> Answer {
    Answer::ok(&[b'x'; 1_000]).at(asked.at + ms(10))
}

#[test]
fn wrk_agrees_on_rate_and_median() {
    if run("wrk", &["-v"]).is_none() {
        return;
    }
    let server = Server::new(slow);
    let url = server.url("/");
    attempts("wrk", || {
        let before = server.count();
        let text = run("wrk", &["-t1", "-c8", "-d1s", "--latency", &url]).unwrap();
        let theirs = server.count() - before;
        let requests = text.lines().find_map(|line| line.trim().split_once(" requests in"));
        let requests: f64 =
            requests.and_then(|(n, _)| n.trim().parse().ok()).ok_or(text.clone())?;
        // wrk leaves those that are in flight at its end uncounted.
        near("wrk's own count", requests, theirs as f64, 9.0)?;
        let median = number(&text, "50%").ok_or(text.clone())?;
        let duration = Some(ms(1_000));
        let ours = load(&LoadOptions { duration, ..options(&url, closed(8)) });
        let per_s = number(&text, "Requests/sec:").ok_or(text)?;
        near("requests a second", ours.good_per_s, per_s, 0.1 * per_s)?;
        near("median, ms", ours.service.at(0.5).ns as f64 / 1e6, median, 0.1 * median)
    });
}

#[test]
fn httperf_agrees_on_counts_and_times() {
    if run("httperf", &["--version"]).is_none() {
        return;
    }
    let server = Server::new(slow);
    let port = server.addr.port().to_string();
    attempts("httperf", || {
        let args = ["--hog", "--server", "127.0.0.1", "--port", &port, "--rate", "100"];
        let args = [&args[..], &["--num-conns", "50", "--timeout", "5"]].concat();
        let before = server.count();
        let text = run("httperf", &args).unwrap();
        let theirs = server.count() - before;
        let options = LoadOptions {
            duration: Some(ms(500)),
            requests_per_connection: Some(1),
            ..options(&server.url("/"), open(100.0))
        };
        let ours = load(&options);
        let found = (theirs, number(&text, "Total: connections"), number(&text, "replies"));
        if found != (50, Some(50.0), Some(50.0)) {
            return Err(format!("httperf made {found:?}: {text}"));
        }
        assert_eq!((ours.offered, server.count() - before - theirs), (50, 50));
        let reply = number(&text, "Reply time [ms]: response").ok_or(text)?;
        // Both see what the server does and what a busy machine adds.
        near("reply time, ms", ours.phases.wait.mean() / 1e6, reply, 2.0 + 0.3 * reply)
    });
}

/// Requests that the server receives, sorted.
fn replayed(play: impl FnOnce(&Server)) -> Vec<String> {
    let server = Server::new(|_| Answer::ok(b"x"));
    play(&server);
    let mut targets: Vec<String> = server.asked().into_iter().map(|a| a.target).collect();
    targets.sort_unstable();
    targets
}

#[test]
fn httperf_replays_our_session_logs() {
    if run("httperf", &["--version"]).is_none() {
        return;
    }
    let text = "#! client=0 line=400000\n/a think=0.05\n /a1\n /a2\n/b\n\n/c think=0.02\n/d\n\n";
    let (scratch, model) = replay(text, 50.0);
    let log = scratch.join("log");
    let theirs = replayed(|server| {
        let port = server.addr.port().to_string();
        let spec = format!("10,0,{}", log.display());
        let args = ["--hog", "--server", "127.0.0.1", "--port", &port, "--rate", "50"];
        run("httperf", &[&args[..], &["--wsesslog", &spec, "--timeout", "5"]].concat());
    });
    let ours = replayed(|server| {
        let outcome = load(&LoadOptions { count: Some(10), ..options(&server.url("/"), model) });
        assert_eq!(outcome.fates.get(Fate::Good), 30);
    });
    assert_eq!(theirs, ours, "the same requests, as often");
}
