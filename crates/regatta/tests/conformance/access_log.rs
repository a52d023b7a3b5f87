//! The access log: one true line for each request, which no client can forge.

use crate::changes::{SHRINKS, shrunk};
use crate::prelude::*;
use std::io::Read;
use std::os::unix::net::UnixStream;

/// A server that logs in this format, and its log, which is next to the root of the site.
pub(crate) fn start(variant: &Variant, format: &str) -> (Site, PathBuf, Server) {
    let site = Site::new();
    let log = site.beside("access.log");
    let launch = Launch::new(variant, common()).log(&log).set(format!("log.format={format}"));
    (site, log, launch.start())
}

/// Ends the server, which must write its buffered lines, and reads the lines of its log.
fn lines(mut server: Server, log: &Path, count: usize) -> Vec<String> {
    server.end(Signal::TERM);
    let text = fs::read_to_string(log).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "a partial line: {text:?}");
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

/// The same for lines in JSON.
pub(crate) fn values(server: Server, log: &Path, count: usize) -> Vec<Value> {
    let lines = lines(server, log, count);
    lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

pub(crate) fn common_format(variant: &Variant) {
    let (_site, log, server) = start(variant, "common");
    let mut client = server.connect();
    client.get("/small.txt?a=b").expect(200);
    client.get("/missing.txt").expect(404);
    client.ask("HEAD", "/size-4096.bin", &[]).expect(200);
    client.ask("GET", "/size-4096.bin", &[("Range", "bytes=0-9")]).expect(206);
    drop(client);
    let lines = lines(server, &log, 4);
    for (line, (text, status, bytes)) in lines.iter().zip([
        ("\"GET /small.txt?a=b HTTP/1.1\"", "200", Some("6")),
        ("\"GET /missing.txt HTTP/1.1\"", "404", None),
        ("\"HEAD /size-4096.bin HTTP/1.1\"", "200", None),
        ("\"GET /size-4096.bin HTTP/1.1\"", "206", Some("10")),
    ]) {
        assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
        let (_, rest) = line.split_once("] ").expect("a time in brackets");
        let rest = rest.strip_prefix(text).unwrap_or_else(|| panic!("{line}"));
        let words: Vec<&str> = rest.split_whitespace().collect();
        assert_eq!(words[0], status, "{line}");
        assert!(bytes.is_none_or(|bytes| words[1] == bytes), "{line}");
        assert!(line.contains(&year()), "{line}");
    }
}

pub(crate) fn skipped_paths_have_no_line(variant: &Variant) {
    let site = Site::new();
    let log = site.beside("access.log");
    let launch = Launch::new(variant, common()).log(&log).set("log.skip=/sub/**,/small.txt");
    let server = launch.start();
    let mut client = server.connect();
    client.get("/small.txt?a=b").expect(200);
    client.get("/sub/file.txt").expect(200);
    client.get("/sub/missing").expect(404);
    client.get("/a.txt").expect(200);
    drop(client);
    let lines = lines(server, &log, 1);
    assert!(lines[0].contains("\"GET /a.txt HTTP/1.1\" 200"), "{lines:?}");
}

/// The year as each line of today has it.
fn year() -> String {
    let date = httpdate::fmt_http_date(std::time::SystemTime::now());
    format!("/{}:", &date[12..16])
}

pub(crate) fn combined_format(variant: &Variant) {
    let (_site, log, server) = start(variant, "combined");
    let fields = [("Referer", "http://from.test/x"), ("User-Agent", "Tester/1.0 (a; b)")];
    let mut client = server.connect();
    client.ask("GET", "/small.txt", &fields).expect(200);
    client.get("/small.txt").expect(200);
    drop(client);
    let lines = lines(server, &log, 2);
    // docs/logging.md: the two columns after those of Apache are the outcome and milliseconds.
    for (line, agents) in
        lines.iter().zip(["\"http://from.test/x\" \"Tester/1.0 (a; b)\"", "\"-\" \"-\""])
    {
        let (line, duration) = line.rsplit_once(' ').expect("columns");
        assert!(line.ends_with(&format!(" 200 6 {agents} complete")), "{line}");
        assert!(duration.parse::<u64>().is_ok_and(|ms| ms < 5000), "{duration}");
    }
}

/// Everything a peer could put into a line to forge another, or to break a reader of it.
const FORGERIES: [&str; 8] = [
    "a\" 200 5 \"-\" \"-",
    "\\",
    "\\\" \\\\\" x",
    "tab\there",
    "caf\u{e9} \u{2028} \u{202e}",
    "\u{85}",
    "%0a%0d",
    "</script><!-- ${jndi:x}",
];

pub(crate) fn no_forgery(variant: &Variant) {
    for format in ["common", "combined", "json"] {
        let (_site, log, server) = start(variant, format);
        let mut client = server.connect();
        for value in FORGERIES {
            client.ask("GET", "/small.txt", &[("User-Agent", value), ("Referer", value)]);
        }
        client.get("/x%0a127.0.0.1%20-%20-%20forged%00%22").expect_one_of(&[400, 404]);
        drop(client);
        let lines = lines(server, &log, FORGERIES.len() + 1);
        for line in lines {
            let plain = line.bytes().all(|b| matches!(b, b' '..=b'~'));
            assert!(plain || format == "json", "raw bytes in {line:?}");
            if format == "json" {
                let value: Value = serde_json::from_str(&line).expect("JSON");
                assert!(value.is_object(), "{line}");
            }
            if format == "combined" {
                assert_eq!(quotes(&line), 6, "{line}");
            }
        }
    }
}

/// Quotes that are not escaped.
fn quotes(line: &str) -> usize {
    let mut escaped = false;
    let mut count = 0;
    for c in line.chars() {
        count += usize::from(c == '"' && !escaped);
        escaped = c == '\\' && !escaped;
    }
    count
}

pub(crate) fn json_format(variant: &Variant) {
    let (_site, log, server) = start(variant, "json");
    let mut client = server.connect();
    client.ask("GET", "/small.txt?x=y", &[("User-Agent", "Te\"st\\er/1.0")]).expect(200);
    client.ask("DELETE", "/small.txt", &[("Content-Length", "0")]).expect(405);
    drop(client);
    let values = values(server, &log, 2);
    let has = |of: usize, wanted: Value| {
        let object = values[of].as_object().expect("an object");
        assert!(object.values().any(|value| *value == wanted), "no {wanted} in {object:?}");
    };
    // docs/logging.md: bytes that need an escape are \xHH, in JSON too.
    let agent = "Te\\x22st\\x5Cer/1.0";
    let texts = ["GET", "/small.txt?x=y", "regatta.test", agent, "complete"];
    texts.into_iter().for_each(|text| has(0, text.into()));
    [200, 6].into_iter().for_each(|number| has(0, number.into()));
    has(1, "DELETE".into());
    has(1, 405.into());
}

/// Bad requests are logged too, and a torn transfer is not logged as a whole one.
pub(crate) fn failures_are_logged(variant: &Variant) {
    let (_site, log, server) = start(variant, "json");
    let mut client = server.asked("GET /small.txt HTTP/1.1\r\nBad Field: x\r\n\r\n");
    client.answer("GET").expect(400);
    drop(client);
    server.tear("/sparse.bin");
    server.has_open(0);
    // Each worker writes its own lines: two connections have no order.
    let lines = lines(server, &log, 2);
    let torn = lines.iter().position(|line| line.contains("/sparse.bin"));
    let torn = torn.unwrap_or_else(|| panic!("no line of the torn transfer: {lines:?}"));
    assert!(lines[torn].contains("\"aborted\""), "the outcome: {}", lines[torn]);
    assert!(lines[1 - torn].contains("400"), "{}", lines[1 - torn]);
}

/// Only JSON has room for the reason. TLS is refused, too: this port speaks HTTP.
pub(crate) fn refusals_are_logged_with_their_reason(variant: &Variant) {
    const REFUSED: [(&[u8], u16, &str); 6] = [
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", 400, "tls"),
        (b"GET /small.txt HTTP/1.1\r\n\r\n", 400, "host"),
        (b"GET /small.txt HTTP/2.0\r\nHost: x\r\n\r\n", 505, "version"),
        (b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "path"),
        (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 501, "unknown-method"),
        (b"GET /", 408, "head-deadline"),
    ];
    let site = Site::new();
    let log = site.beside("access.log");
    let launch = Launch::new(variant, common()).log(&log);
    let server = launch.set("log.format=json").set("limits.head_ms_max=100").start();
    let mut expected = vec![(200, None)];
    server.connect().get("/small.txt").expect(200);
    for (bytes, status, reason) in REFUSED {
        let answer = server.asked(bytes).answer("GET").expect(status);
        let tells = String::from_utf8_lossy(&answer.body).contains("speaks HTTP, not HTTPS");
        assert_eq!(tells, reason == "tls", "{answer:?}");
        expected.push((u64::from(status), Some(reason.to_owned())));
    }
    // Each worker writes its own lines: connections have no order.
    let mut found = Vec::new();
    for line in values(server, &log, expected.len()) {
        let reason = line.get("refused").expect("always there").as_str().map(str::to_owned);
        found.push((line["status"].as_u64().expect("a number"), reason));
    }
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// A file that shrinks while it is sent ends its connection, and is counted and logged as such.
pub(crate) fn a_file_that_shrinks_is_logged(variant: &Variant) {
    let site = Site::new();
    let log = site.beside("access.log");
    let launch = Launch::new(variant, &site.root()).log(&log).set("log.format=json");
    let (server, mut slow) = shrunk(&site, launch);
    slow.drain();
    server.counts("closed_truncated", 1);
    let line = &values(server, &log, 1)[0];
    assert_eq!((&line["outcome"], &line["status"]), (&"truncated".into(), &200.into()), "{line}");
    assert!(line["body_sent_bytes"].as_u64().is_some_and(|sent| sent < SHRINKS), "{line}");
    assert_eq!(line["body_bytes"], SHRINKS, "{line}");
}

/// Lines do not wait for the end of the server: a second is enough (docs/logging.md).
pub(crate) fn lines_are_written_in_time(variant: &Variant) {
    let (_site, log, server) = start(variant, "common");
    server.connect().get("/small.txt").expect(200);
    soon(|| fs::read_to_string(&log).is_ok_and(|text| text.contains("/small.txt")));
}

/// A log that takes no more lines stops no request; lost lines are counted and reported once.
pub(crate) fn a_full_disk_stops_nobody(variant: &Variant) {
    let mut server = Launch::new(variant, common()).set("log.access=/dev/full").start();
    let mut client = server.connect();
    client.repeat(50, "/small.txt");
    server.counts("log_dropped", 50);
    client.get("/small.txt").expect(200);
    drop(client);
    server.end(Signal::TERM);
    // The thread that reads its messages may lag behind its end.
    server.says("/dev/full");
    assert_eq!(server.stderr().matches("/dev/full").count(), 1, "{}", server.stderr());
}

/// `-` is standard error, which the server's own messages share.
pub(crate) fn to_standard_error(variant: &Variant) {
    let server = start_with(variant, &["log.access=-", "log.format=common"]);
    server.connect().get("/small.txt?there").expect(200);
    let line = "\"GET /small.txt?there HTTP/1.1\" 200 6\n";
    server.says(line);
    for _ in 1..variant.ports() {
        assert!(server.stdout_line(PATIENCE).is_some_and(|line| line.starts_with("listening")));
    }
    assert_eq!(server.stdout_line(Duration::from_millis(20)), None);
}

/// systemd provides a socket for standard error: a journal that does not read stops no request.
pub(crate) fn a_socket_that_nobody_reads_stops_nobody() {
    let (mut reader, socket) = UnixStream::pair().expect("sockets");
    let launch = Launch::new(Variant::find("sped_epoll"), common()).set("log.access=-");
    let mut server = launch.set("log.format=common").stderr(socket.into()).start();
    let mut client = server.connect();
    // Several times the room of a socket.
    let target = format!("/small.txt?{}", "x".repeat(1500));
    client.repeat(2000, &target);
    server.reaches("log_dropped", 1);
    drop(client);
    server.end(Signal::TERM);
    reader.set_read_timeout(Some(PATIENCE)).expect("a time");
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("its end");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("GET")).collect();
    assert!(!lines.is_empty());
    for line in lines {
        assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
        assert!(line.ends_with(&format!("\"GET {target} HTTP/1.1\" 200 6")), "{line}");
    }
}

/// Requests after a reload that turns the log off appear neither there nor on standard error.
pub(crate) fn nothing_is_logged_when_off(variant: &Variant) {
    let site = Site::new();
    let log = site.beside("access.log");
    let write = |access: &str| site.configure(format!("[log]\naccess = {access:?}\n"));
    let config = write(log.to_str().expect("our paths are text"));
    let server = Launch::new(variant, common()).config(&config).start();
    server.connect().get("/small.txt?before").expect(200);
    write("off");
    succeed(&server, "reload");
    server.connect().get("/small.txt?after").expect(200);
    // The thread that reads its messages may lag behind.
    thread::sleep(Duration::from_millis(50));
    let said = server.stderr();
    assert!(!said.contains("/small.txt"), "{said}");
    let lines = lines(server, &log, 1);
    assert!(lines[0].contains("/small.txt?before"), "{lines:?}");
}

pub(crate) fn lines_stay_whole(variant: &Variant) {
    let (_site, log, server) = start(variant, "common");
    let mut clients = server.clients(20);
    for round in 0..10 {
        for (i, client) in clients.iter_mut().enumerate() {
            let long = "x".repeat(i * 20);
            client.send(request("GET", &format!("/small.txt?{round}-{i}-{long}"), &[]));
        }
        answer_all(&mut clients, 200);
    }
    drop(clients);
    for line in lines(server, &log, 200) {
        assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
        assert!(line.ends_with(" HTTP/1.1\" 200 6"), "{line}");
    }
}
