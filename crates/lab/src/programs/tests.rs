//! Contents of the templates, and service by each installed server with its own.

use super::*;
use crate::folder::Folder;
use crate::group::{Group, STEP};
use crate::servers::make_open;
use regatta_testkit::skips::skip;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

fn serving<'a>(root: &'a Path, scratch: &'a Path, workers: usize) -> Serving<'a> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 8_081));
    Serving { address, root, scratch, workers, tls: None, http2: None, codings: false }
}

#[test]
fn every_server_has_a_name_a_program_and_a_package() {
    for other in Other::ALL {
        assert_eq!(Other::named(other.name()), Some(other));
        assert!(other.needs().contains(other.package()), "{}", other.needs());
        // Experiments keep the name.
        assert_eq!(serde_json::to_value(other).unwrap(), other.name());
    }
    assert_eq!(Other::named("iis"), None);
    assert!(find("sh").is_some_and(|path| path.is_absolute()));
    assert_eq!(find("no-such-program-at-all"), None);
}

#[test]
fn configurations_say_where_what_and_how_much() {
    let place = serving(Path::new("/srv/site"), Path::new("/run/scratch"), 3);
    for (other, parts) in [
        (Other::Nginx, &["worker_processes 3;", "listen 127.0.0.1:8081 ", "sendfile on;"][..]),
        (Other::NginxAio, &["worker_processes 3;", "sendfile on;", "aio threads;"]),
        (Other::Lighttpd, &["server.port = 8081", "\"sendfile\"", "max-worker = 0"]),
        (Other::H2o, &["num-threads: 3", "port: 8081"]),
        (
            Other::Apache,
            &[
                "Listen 127.0.0.1:8081",
                "mpm_event_module",
                "ServerLimit 3",
                "MaxRequestWorkers 384",
                "AsyncRequestWorkerFactor 64",
                "EnableSendfile On",
                "MaxKeepAliveRequests 0",
            ],
        ),
        (
            Other::ApacheWorker,
            &[
                "Listen 127.0.0.1:8081",
                "mpm_worker_module",
                "ThreadsPerChild 128",
                "ServerLimit 16",
                "StartServers 16",
                "MaxRequestWorkers 2048",
                "EnableSendfile On",
            ],
        ),
        (
            Other::ApachePool,
            &["mpm_worker_module", "ThreadsPerChild 64", "ServerLimit 1", "MaxRequestWorkers 64"],
        ),
        (Other::Caddy, &["http://:8081 {", "bind 127.0.0.1", "admin off"]),
    ] {
        let text = other.configuration(&place).unwrap();
        for part in parts.iter().chain(&["/srv/site"]) {
            assert!(text.contains(part), "{}: {part}\n{text}", other.name());
        }
        for costly in ["gzip", "deflate", "encode", "CustomLog", "access-file"] {
            assert!(!text.contains(costly), "{}: {costly}", other.name());
        }
    }
    assert!(!Other::Nginx.configuration(&place).unwrap().contains("aio"));
    // The worker module does not know it, and would not start.
    let text = Other::ApacheWorker.configuration(&place).unwrap();
    assert!(!text.contains("AsyncRequestWorkerFactor"), "{text}");
}

#[test]
fn configurations_with_tls_name_the_address_the_certificate_and_tickets() {
    let plain = serving(Path::new("/srv/site"), Path::new("/run/scratch"), 1);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 8_443));
    let certificate = Path::new("/run/tls.pem");
    for (other, parts, [with, without]) in [
        (
            Other::Nginx,
            &[
                "listen 127.0.0.1:8443 ssl",
                "ssl_certificate /run/tls.pem;",
                "ssl_certificate_key /run/tls.pem;",
                "ssl_protocols TLSv1.3;",
            ][..],
            ["ssl_session_tickets on;", "ssl_session_tickets off;"],
        ),
        (
            Other::H2o,
            &[
                "port: 8443",
                "certificate-file: /run/tls.pem",
                "key-file: /run/tls.pem",
                "minimum-version: TLSv1.3",
            ],
            ["mode: ticket", "mode: off"],
        ),
    ] {
        for tickets in [false, true] {
            let tls = Some(ServingTls { address, certificate, tickets });
            let text = other.configuration(&Serving { tls, ..plain }).unwrap();
            let sessions = if tickets { with } else { without };
            for part in parts.iter().chain(&[sessions, "8081"]) {
                assert!(text.contains(part), "{}: {part}\n{text}", other.name());
            }
        }
        let text = other.configuration(&plain).unwrap();
        assert!(!text.contains("8443") && !text.contains("ssl"), "{text}");
    }
}

#[test]
fn configurations_with_http2_name_where_it_is_spoken() {
    let plain = serving(Path::new("/srv/site"), Path::new("/run/scratch"), 1);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 8_443));
    let certificate = Path::new("/run/tls.pem");
    let tls = Some(ServingTls { address, certificate, tickets: false });
    let nginx = |serving: &Serving<'_>| Other::Nginx.configuration(serving).unwrap();
    let encrypted = nginx(&Serving { tls, http2: Some(ServingHttp2::Encrypted), ..plain });
    assert!(encrypted.contains("listen 127.0.0.1:8443 ssl http2 backlog=1024;"), "{encrypted}");
    let clear = nginx(&Serving { http2: Some(ServingHttp2::Clear(address)), ..plain });
    assert!(clear.contains("listen 127.0.0.1:8443 http2 backlog=1024;"), "{clear}");
    assert!(clear.contains("listen 127.0.0.1:8081 backlog=1024;"), "one for HTTP/1.1: {clear}");
    for text in [nginx(&Serving { tls, ..plain }), nginx(&plain)] {
        assert!(!text.contains("http2"), "{text}");
    }
}

#[test]
fn configurations_with_codings_send_siblings() {
    let plain = serving(Path::new("/srv/site"), Path::new("/run/scratch"), 1);
    let coded = Serving { codings: true, ..plain };
    for (other, part) in [(Other::Nginx, "gzip_static on;"), (Other::H2o, "send-compressed: ON")] {
        assert!(other.configuration(&coded).unwrap().contains(part), "{}", other.name());
        assert!(!other.configuration(&plain).unwrap().contains(part), "{}", other.name());
    }
}

#[test]
fn h2load_has_a_version_that_is_known() {
    for known in ["h2load nghttp2/1.43.0\n", "h2load nghttp2/1.64.0", "h2load nghttp2/2.0.0-DEV"] {
        assert_eq!(check_h2load(known), Ok(()), "{known}");
    }
    for other in ["h2load nghttp2/1.40.0", "h2load nghttp2/0.99.1", "h2load", "", "1"] {
        assert!(check_h2load(other).is_err_and(|why| why.contains("1.43 or later")), "{other}");
    }
}

/// Requests a file until a server answers, and returns the answer.
fn answer(address: SocketAddr, path: &str) -> Vec<u8> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if let Ok(mut stream) = TcpStream::connect(address) {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
                .unwrap();
            let mut all = Vec::new();
            if stream.read_to_end(&mut all).is_ok() && !all.is_empty() {
                return all;
            }
        }
        std::thread::sleep(STEP);
    }
    Vec::new()
}

#[test]
fn each_that_is_installed_serves_the_bytes() {
    for other in Other::ALL {
        let Some(program) = find(other.program()) else {
            skip(&format!("{} {}", other.name(), other.needs()));
            continue;
        };
        let folder = Folder::new("lab-test");
        let (root, scratch) = (folder.join("root"), folder.join("scratch"));
        // Some become another user.
        for one in [&*folder, &root, &scratch] {
            make_open(one).unwrap();
        }
        let body: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
        fs::write(root.join("body.bin"), &body).unwrap();
        // Another test may take the port in between: then again.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let place = Serving { address: port, ..serving(&root, &scratch, 1) };
        let words = other.command(&program, &place).unwrap();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
        let errors = folder.join("errors");
        command.stderr(fs::File::create(&errors).unwrap());
        let group = Group::start(&mut command, &[], Duration::from_secs(2)).unwrap();
        let got = answer(port, "/body.bin");
        let said = fs::read_to_string(&errors).unwrap_or_default();
        drop(group);
        let head = got.windows(4).position(|four| four == b"\r\n\r\n");
        let head = head.unwrap_or_else(|| panic!("{} does not serve: {said}", other.name()));
        let text = String::from_utf8_lossy(&got[..head]).into_owned();
        assert!(text.starts_with("HTTP/1.1 200"), "{}: {text}", other.name());
        assert!(text.to_ascii_lowercase().contains("content-length: 80000"), "{text}");
        assert_eq!(got[head + 4..], body[..], "{}", other.name());
        assert!(other.version(&program).is_some_and(|version| !version.is_empty()));
    }
}
