//! A load of several processes, in a program of one thread: forking needs that.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use regatta_load::engine::{Fate, LoadOptions, Model, Plan, Rate, Watch, perform};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Answers every request with a byte, until it is killed.
fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while stream.read(&mut buffer).is_ok_and(|n| n > 0) {
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
        });
    }
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        serve();
        return;
    }
    let mut server = Command::new(std::env::current_exe().unwrap());
    let mut server = server.arg("serve").stdout(Stdio::piped()).spawn().unwrap();
    let mut addr = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut addr).unwrap();
    let url = format!("http://{}/", addr.trim());

    let model = Model::Open { rate: Rate::constant(400.0), connections_max: None };
    let options = LoadOptions {
        processes: 3,
        threads: 2,
        duration: Some(Duration::from_millis(500)),
        ..LoadOptions::new(&url, model)
    };
    let plan = Plan::new(&options).unwrap();
    let (stop, mut seconds) = (AtomicBool::new(false), 0);
    let mut tell = |_: &_| seconds += 1;
    let watch = &mut Watch { stop: &stop, signals: None, tell: &mut tell };
    let outcome = perform(&plan, watch).unwrap();
    assert_eq!(outcome.offered, 200);
    assert_eq!(outcome.fates.get(Fate::Good), 200, "{:?}", outcome.fates);
    assert_eq!((outcome.workers.len(), seconds), (6, 1));
    let clients: Vec<u64> = outcome.clients.iter().map(|client| client.requests).collect();
    assert_eq!(clients, [34, 34, 33, 33, 33, 33], "each its share of one schedule");

    // A load that is stopped passes the signal on to its processes.
    let options = LoadOptions { duration: Some(Duration::from_secs(3_600)), ..options };
    let plan = Plan::new(&options).unwrap();
    let mut tell = |_: &_| stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let watch = &mut Watch { stop: &stop, signals: None, tell: &mut tell };
    let outcome = perform(&plan, watch);
    server.kill().unwrap();
    server.wait().unwrap();
    let outcome = outcome.unwrap();
    assert!(outcome.interrupted && outcome.offered > 300, "{}", outcome.offered);
    println!("test processes ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored");
}
