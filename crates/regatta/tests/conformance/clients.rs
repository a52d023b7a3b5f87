//! Limits of one client, whichever worker it reaches.

use crate::prelude::*;
use std::net::Ipv4Addr;

const ONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const LIMITS: [&str; 3] =
    ["limits.client_connections_max=2", "limits.client_rate=1", "limits.client_burst=8"];

/// Listens at a path, too. Copies with ports of their own then have addresses of their own: the
/// last has the path.
fn at_path(launch: Launch, variant: &Variant, path: &Path) -> Launch {
    let launch = launch.arg("--listen").arg(format!("unix:{}", path.display()));
    match variant.ports() {
        // Copies cannot share a path by processor.
        1 if variant.has("event.partition=steer-cpu") => {
            launch.set("event.partition=addresses").set("event.copies=1")
        }
        1 => launch,
        _ => launch.set("event.partition=addresses"),
    }
}

fn read_log(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}

/// All cases over a Unix socket, whose clients have only the addresses that a proxy names.
fn is_served_without_limits(path: &Path) {
    let mut clients: Vec<Client> = (0..5).map(|_| Client::connect_to_path(path)).collect();
    get_all(&mut clients, "/small.txt");
    let last = clients.last_mut().expect("five");
    for len in [0, 1, 65_537, (1 << 20) + 1] {
        last.get(&format!("/size-{len}.bin")).expect(200).has(sized(len));
    }
    // A proxy there names the clients of its requests.
    let mut of = |who| last.ask("GET", "/small.txt", &[("X-Forwarded-For", who)]);
    let mut statuses = (0..20).map(|_| of("203.0.113.9, 192.0.2.7").status);
    assert!(statuses.any(|status| status == 429), "20 requests are more than 8");
    of("192.0.2.8").expect(200);
    last.send([get("/small.txt"), get("/missing")].concat());
    last.answer("GET").expect(200);
    last.answer("GET").expect(404);
    let answer = last.ask("GET", "/size-65537.bin", &[("Connection", "close")]);
    answer.expect(200).has(sized(65_537));
    assert_eq!(last.rest_or_reset(), b"");
}

pub(crate) fn one_client_is_limited(variant: &Variant) {
    let site = Site::new();
    let path = site.beside("socket");
    let log = site.beside("access.log");
    let launch = at_path(Launch::new(variant, common()).sets(&LIMITS), variant, &path).log(&log);
    let forwarded = ["server.trusted=unix:", "server.forwarded=x-forwarded-for"];
    let server = launch.sets(&forwarded).start();
    is_served_without_limits(&path);
    let connect = |from| server.connect_from(from);
    let mut held = [connect(ONE), connect(ONE)];
    get_all(&mut held, "/small.txt");
    let mut limited = [connect(ONE), connect(ONE)];
    for client in &mut limited {
        let answer = client.get("/small.txt").expect(429);
        assert!(answer.closes(), "{answer:?}");
        assert_eq!(answer.must("Retry-After"), "1");
    }
    let mut refused = connect(ONE);
    refused.try_send(get("/small.txt"));
    assert_eq!(refused.rest_or_reset(), b"", "twice as many");
    let untrusted = connect(OTHER).ask("GET", "/small.txt", &[("X-Forwarded-For", "192.0.2.7")]);
    untrusted.expect(200);
    held[0].get("/small.txt").expect(200);
    let all = ["192.0.2.7 ", "192.0.2.8 ", "127.0.0.3 ", "unix: "];
    let names = |said: &String, who: &str| said.lines().any(|line| line.starts_with(who));
    comes_to(|| read_log(&log), |said| all.iter().all(|who| names(said, who)));
    // The connections of a killed worker no longer count.
    server.kill_workers();
    let mut client = connect(ONE);
    soon(|| {
        let served = client.get("/small.txt").status == 200;
        if !served {
            client = connect(ONE);
        }
        served
    });
    // This many requests at once, and then one a second.
    let late = (0..20).map(|_| client.get("/small.txt")).find(|answer| answer.status != 200);
    let late = late.expect("20 requests are more than 8").expect(429);
    assert!(!late.closes(), "{late:?}");
    assert_eq!(late.must("Retry-After"), "1");
    client.get("/small.txt").expect_one_of(&[200, 429]);
    connect(OTHER).get("/small.txt").expect(200);
    // New workers have the socket, too.
    Client::connect_to_path(&path).get("/small.txt").expect(200);
}

pub(crate) fn a_proxy_names_its_clients(variant: &Variant) {
    let site = Site::new();
    let (log, path) = (site.beside("access.log"), site.beside("socket"));
    let trusted = "server.trusted=127.0.0.1,127.0.0.8/30,unix:";
    let proxy = ["server.proxy_protocol=true", trusted, "log.format=json"];
    let launch = Launch::new(variant, common()).sets(&LIMITS).sets(&proxy).log(&log);
    let server = at_path(launch, variant, &path).start();
    let request = get("/small.txt");
    let header = b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\n";
    // At once, in pieces, and in version 2.
    let mut held = [server.connect(), server.connect(), server.connect()];
    held[0].send([&header[..], &request].concat());
    for piece in header.chunks(7) {
        held[1].send(piece);
        thread::sleep(Duration::from_millis(2));
    }
    held[1].send(&request);
    let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x08\x7f\0\0\x01\x12\x67\0\x50";
    held[2].send([&binary[..], &request].concat());
    answer_all(&mut held, 200);
    // 192.0.2.7 has two connections.
    server.asked([&header[..], &request].concat()).answer("GET").expect(429);
    // The proxy itself is not limited.
    for _ in 0..5 {
        let mut own = server.asked([&b"PROXY UNKNOWN\r\n"[..], &request].concat());
        own.answer("GET").expect(200);
        held[2].get("/small.txt").expect(200);
    }
    assert_eq!(server.asked(&request).rest_or_reset(), b"", "not a header");
    let mut stranger = server.connect_from(ONE);
    stranger.try_send([&header[..], &request].concat());
    assert_eq!(stranger.rest_or_reset(), b"", "not trusted");
    let own = &b"PROXY UNKNOWN\r\n"[..];
    for header in [own, own, own, b"PROXY TCP4 192.0.2.9 127.0.0.1 4711 80\r\n"] {
        let mut client = Client::connect_to_path(&path);
        client.send([header, &request].concat());
        client.answer("GET").expect(200);
    }
    let all = ["192.0.2.7", "192.0.2.8", "192.0.2.9", "unix:"];
    let all = all.map(|who| format!("\"peer\":\"{who}\""));
    comes_to(|| read_log(&log), |said| all.iter().all(|who| said.contains(who)));
}
