//! Lines, and their way to a file.
use super::{format::*, *};
use crate::{folder::Folder, messages};
use regatta_arch::WorkerLog;
use regatta_http::h1::HeadFault;
use regatta_metrics::{Arena, Counter, SlotView, Tally};
use regatta_op::{Now, Tick};
use regatta_origin::{
    FileFault, FileOperation, Handshake, Log, Peer, Record, Refusal, ReplyOutcome, SealFacts,
};
use regatta_testkit::counters::arena;
use serde_json::Value;
use std::{
    fs::{self, File},
    io::Read,
    net::SocketAddr,
    os::unix::{
        fs::{MetadataExt, OpenOptionsExt, symlink},
        net::UnixListener,
    },
    path::Path,
    process::Command,
    sync::Arc,
    thread,
};

fn record() -> Record<'static> {
    Record {
        unix: 784_111_777,
        peer: "192.0.2.7:4711".parse::<SocketAddr>().unwrap().into(),
        method: b"GET",
        target: b"/a?b=c",
        host: Some(b"h.example:80"),
        version: "HTTP/1.1",
        status: 200,
        body_bytes: 1000,
        sent_bytes: 1200,
        body_sent_bytes: 1000,
        outcome: ReplyOutcome::Complete,
        refused: None,
        referer: Some(b"http://x/"),
        user_agent: Some(b"curl/8"),
        duration_ms: 3,
        keep_alive: true,
        seal: None,
    }
}

fn line_within(limits: LineLimits, format: Format, record: &Record<'_>) -> String {
    let mut out = Vec::new();
    Formatter::new(format, limits).write(&mut out, record);
    String::from_utf8(out).unwrap()
}

fn line(format: Format, record: &Record<'_>) -> String {
    line_within(LineLimits::FILE, format, record)
}

fn json(record: &Record<'_>) -> Value {
    serde_json::from_str(&line(Format::Json, record)).unwrap()
}

fn options(path: &Path, format: Format) -> AccessLogOptions {
    let destination = LogDestination::Path(path.into());
    let (skip, owner, stall_ns) = (Arc::default(), None, 10_000_000);
    AccessLogOptions { destination, format, skip, owner, stall_ns, has_units: false }
}

fn sink(arena: &Arena<'static>, path: &Path, errors: &Path) -> LogSink<'static> {
    let control = arena.view().control();
    let errors = ErrorLog::open(LogDestination::Path(errors.into()), None, Some(control)).unwrap();
    let log = AccessLog::open(options(path, Format::Combined)).unwrap();
    log.sink(Tally::Owned(arena.slot(0)), control, errors)
}

/// A log of exchanges that is off.
fn off(arena: &Arena<'static>, errors: ErrorLog) -> LogSink<'static> {
    let options = options(Path::new(""), Format::Json);
    let options = AccessLogOptions { destination: LogDestination::from("off"), ..options };
    let log = AccessLog::open(options).unwrap();
    log.sink(Tally::Owned(arena.slot(0)), arena.view().control(), errors)
}

fn counters(arena: &Arena<'static>) -> SlotView<'static> {
    arena.view().slots().next().unwrap()
}

fn at(ms: u64) -> Now {
    Now { tick: Tick(ms), unix: ms / 1000 }
}

#[test]
fn lines_in_each_form() {
    let common = "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b=c HTTP/1.1\" 200 1000";
    assert_eq!(line(Format::Common, &record()), format!("{common}\n"));
    let combined = format!("{common} \"http://x/\" \"curl/8\" complete 3\n");
    assert_eq!(line(Format::Combined, &record()), combined);
    assert_eq!(
        line(Format::Json, &record()),
        "{\"time\":\"1994-11-06T08:49:37Z\",\"peer\":\"192.0.2.7\",\"port\":4711,\
         \"method\":\"GET\",\"target\":\"/a?b=c\",\"host\":\"h.example:80\",\
         \"version\":\"HTTP/1.1\",\"status\":200,\"body_bytes\":1000,\
         \"sent_bytes\":1200,\"body_sent_bytes\":1000,\
         \"outcome\":\"complete\",\"refused\":null,\"duration_ms\":3,\"keep_alive\":true,\
         \"referer\":\"http://x/\",\"user_agent\":\"curl/8\",\
         \"scheme\":\"http\",\"tls\":null,\"suite\":null,\"alpn\":null,\"resumed\":null,\
         \"sni\":null,\"client_subject\":null}\n"
    );
}

/// docs/logging.md: a stream has a line as a request of HTTP/1 does, with its version.
#[test]
fn streams_of_http2_have_lines_with_their_version() {
    let outcome = ReplyOutcome::Aborted;
    let record = Record { version: "HTTP/2.0", outcome, body_sent_bytes: 300, ..record() };
    let common = "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b=c HTTP/2.0\" 200 300\n";
    assert_eq!(line(Format::Common, &record), common);
    let combined = line(Format::Combined, &record);
    assert!(combined.ends_with("\" 200 300 \"http://x/\" \"curl/8\" aborted 3\n"), "{combined}");
    let seal = SealFacts { agreed: b"h2", ..sealed(b"h.example", b"CN=a") };
    let json = json(&Record { seal: Some(seal), ..record });
    for (member, value) in [("version", "HTTP/2.0"), ("alpn", "h2"), ("outcome", "aborted")] {
        assert_eq!(json[member], value, "{json}");
    }
}

/// Facts of an encrypted connection with these texts of the client.
fn sealed<'a>(name: &'a [u8], subject: &'a [u8]) -> SealFacts<'a> {
    let suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
    SealFacts {
        handshake: Handshake { resumed: false, version: 0x0304, suite, nanos: 150_000 },
        agreed: b"http/1.1",
        server_name: Some(name),
        client_subject: Some(subject),
    }
}

#[test]
fn encrypted_connections_have_their_facts_in_json() {
    let record = Record { seal: Some(sealed(b"h.example", b"CN=a\\,b")), ..record() };
    assert!(!line(Format::Combined, &record).contains("TLS"));
    let json = json(&record);
    let expected: [(&str, Value); 7] = [
        ("scheme", "https".into()),
        ("tls", "TLSv1.3".into()),
        ("suite", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256".into()),
        ("alpn", "http/1.1".into()),
        ("resumed", false.into()),
        ("sni", "h.example".into()),
        ("client_subject", "CN=a\\x5C,b".into()),
    ];
    for (member, value) in expected {
        assert_eq!(json[member], value, "{member}: {json}");
    }
}

#[test]
fn what_is_missing_has_its_sign() {
    let record = Record {
        method: b"",
        target: b"",
        version: "",
        status: 400,
        refused: Some(Refusal::Head(HeadFault::Tls)),
        body_bytes: 0,
        sent_bytes: 90,
        body_sent_bytes: 0,
        referer: None,
        user_agent: Some(b""),
        peer: "[2001:db8::1]:80".parse::<SocketAddr>().unwrap().into(),
        ..record()
    };
    let combined =
        "2001:db8::1 - - [06/Nov/1994:08:49:37 +0000] \"-\" 400 0 \"-\" \"\" complete 3\n";
    assert_eq!(line(Format::Combined, &record), combined);
    let json = json(&record);
    assert!(json["referer"].is_null());
    assert_eq!(json["user_agent"], "");
    assert_eq!(json["method"], "");
    assert_eq!(json["refused"], "tls");
}

#[test]
fn a_peer_over_a_unix_socket_has_no_address() {
    let record = Record { peer: Peer::default(), ..record() };
    let common = line(Format::Common, &record);
    assert!(common.starts_with("unix: - - [06/Nov/1994"), "{common}");
    let json = json(&record);
    assert_eq!((&json["peer"], &json["port"]), (&"unix:".into(), &0.into()));
}

#[test]
fn a_response_cut_short_is_logged_as_such() {
    // The head has 200 bytes, which do not count for the body.
    for (outcome, sent_bytes, body_sent_bytes, logged) in [
        (ReplyOutcome::Truncated, 1100, 900, " 200 900 "),
        (ReplyOutcome::Aborted, 0, 0, " 200 0 "),
        (ReplyOutcome::Slow, 199, 0, " 200 0 "),
        (ReplyOutcome::Cut, 1199, 999, " 200 999 "),
        (ReplyOutcome::Complete, 1200, 1000, " 200 1000 "),
    ] {
        let record = Record { outcome, sent_bytes, body_sent_bytes, ..record() };
        let common = line(Format::Common, &record);
        assert!(common.ends_with(&format!("{}\n", logged.trim_end())), "{common}");
        let combined = line(Format::Combined, &record);
        assert!(combined.contains(logged), "{combined}");
        assert!(combined.ends_with(&format!(" {} 3\n", outcome.name())), "{combined}");
        let json = json(&record);
        assert_eq!(json["outcome"], outcome.name());
        assert_eq!(json["sent_bytes"], sent_bytes);
        assert_eq!(json["body_sent_bytes"], body_sent_bytes);
    }
}

#[test]
fn the_stamp_follows_the_second() {
    let mut out = Vec::new();
    let mut formatter = Formatter::new(Format::Common, LineLimits::FILE);
    for unix in [784_111_777, 784_111_777, 784_111_778, 0, 784_111_777] {
        formatter.write(&mut out, &Record { unix, ..record() });
    }
    let text = String::from_utf8(out).unwrap();
    let stamps: Vec<&str> = text.lines().map(|line| &line[15..41]).collect();
    assert_eq!(stamps[0], "06/Nov/1994:08:49:37 +0000");
    assert_eq!(stamps[2], "06/Nov/1994:08:49:38 +0000");
    assert_eq!(stamps[3], "01/Jan/1970:00:00:00 +0000");
    assert_eq!((stamps[1], stamps[4]), (stamps[0], stamps[0]));
    // From 2024-01-15 on, every 30 days: once in each month.
    for (month, unix) in (1..=12).zip((0..).map(|days: u64| 1_705_276_800 + days * 30 * 86_400)) {
        let stamp = String::from_utf8(rfc3339_stamp(unix).to_vec()).unwrap();
        assert!(stamp.starts_with(&format!("2024-{month:02}-")), "{stamp}");
    }
}

/// Texts that peers have put in logs.
fn hostile() -> Vec<Vec<u8>> {
    let mut corpus: Vec<Vec<u8>> = [
        &b"\r\n127.0.0.1 - - [01/Jan/2000:00:00:00 +0000] \"GET /forged HTTP/1.1\" 200 1"[..],
        b"\" 200 0 \"-\" \"x",
        b"\\\" 200 0",
        b"\\",
        b"\",\"status\":500,\"x\":\"",
        b"\\u0022,\\\"",
        b"\x1b]0;owned\x07\x1b[2J",
        b"\xc2\x9b31m",
        b"\xe2\x80\xae\xe2\x80\xa8",
        b"\xff\xfe\x00\xc0\xaf",
        b"\xed\xa0\x80",
        b"\x00",
        b"\x7f\x80",
        b"${jndi:ldap://x/}",
        b"%n%s%0d%0a",
        b"</script>",
        b"\\x22",
        b"",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    corpus.extend((0..=255).map(|byte| vec![byte]));
    corpus.push((0..=255).collect());
    corpus
}

/// Decodes an escaped text.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'\\' {
            assert_eq!(after[0], b'x', "{text}");
            let digits = std::str::from_utf8(&after[1..3]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &after[3..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    bytes
}

#[test]
fn nothing_a_peer_sends_gets_out_of_its_field() {
    for text in hostile() {
        let record = Record {
            method: if text.is_empty() { b"GET" } else { &text },
            target: &text,
            host: Some(&text),
            referer: Some(&text),
            user_agent: Some(&text),
            seal: Some(sealed(&text, &text)),
            ..record()
        };
        let combined = line(Format::Combined, &record);
        assert!(combined.trim_end_matches('\n').bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        assert_eq!(combined.matches('\n').count(), 1);
        let fields: Vec<&str> = combined.split('"').collect();
        assert_eq!(fields.len(), 7, "{combined}");
        assert_eq!(fields[2], " 200 1000 ");
        assert_eq!(unescape(fields[3]), text);
        assert_eq!(unescape(fields[5]), text);
        assert!(fields[1].ends_with(" HTTP/1.1"));

        let json = line(Format::Json, &record);
        assert_eq!(json.matches('\n').count(), 1);
        assert!(json.trim_end_matches('\n').bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json.as_object().unwrap().len(), 24);
        assert_eq!(json["status"], 200);
        for member in ["target", "host", "referer", "user_agent", "sni", "client_subject"] {
            assert_eq!(unescape(json[member].as_str().unwrap()), text, "{member}");
        }
    }
}

#[test]
fn long_texts_are_cut_and_no_line_is_too_long() {
    let text = vec![0xff; 20_000];
    let record = Record {
        method: &text,
        target: &text,
        host: Some(&text),
        referer: Some(&text),
        user_agent: Some(&text),
        seal: Some(sealed(&text, &text)),
        ..record()
    };
    for format in [Format::Common, Format::Combined, Format::Json] {
        for limits in [LineLimits::FILE, LineLimits::PIPE] {
            let line = line_within(limits, format, &record);
            assert!(line.len() <= limits.line_bytes_max(), "{}", line.len());
            assert!(line.contains("FF..."));
            if format == Format::Json {
                serde_json::from_str::<Value>(&line).unwrap();
            }
        }
    }
}

#[test]
fn a_text_that_just_fits_is_not_cut() {
    for (bytes, is_cut) in [(2048, false), (2049, true), (8193, true)] {
        let plain = vec![b'x'; bytes];
        let record = Record { target: &plain, ..record() };
        let line = line_within(LineLimits::PIPE, Format::Common, &record);
        assert_eq!(line.contains("..."), is_cut, "{bytes}");
        assert_eq!(line.contains("xxx... HTTP"), is_cut, "{bytes}");
        assert!(line.len() < 2300, "{}", line.len());
    }
}

#[test]
fn formats_have_names() {
    assert_eq!(Format::parse("json"), Some(Format::Json));
    assert_eq!(Format::parse("common"), Some(Format::Common));
    assert_eq!(Format::parse("combined"), Some(Format::Combined));
    assert_eq!(Format::parse("xml"), None);
}

#[test]
fn a_buffer_is_written_when_full_old_or_flushed() {
    let folder = Folder::new("buffer");
    let (path, arena) = (folder.join("access"), arena(1));
    let sink = sink(&arena, &path, &folder.join("error"));
    let written = || fs::metadata(&path).unwrap().len();

    sink.record(&record());
    sink.tick(at(5000));
    sink.tick(at(5999));
    assert_eq!(written(), 0);
    sink.tick(at(6000));
    let line_bytes = written();
    assert_eq!(line_bytes, line(Format::Combined, &record()).len() as u64);

    sink.record(&record());
    sink.tick(at(6001));
    assert_eq!(written(), line_bytes);
    sink.flush();
    assert_eq!(written(), 2 * line_bytes);
    sink.flush();
    assert_eq!(counters(&arena).get(Counter::LogWrites), 2);

    let fills = (BUFFER_BYTES_MAX as u64).div_ceil(line_bytes);
    for _ in 1..fills {
        sink.record(&record());
    }
    assert_eq!(written(), 2 * line_bytes);
    sink.record(&record());
    assert_eq!(written(), (2 + fills) * line_bytes);

    let counters = counters(&arena);
    assert_eq!(counters.get(Counter::LogLines), 2 + fills);
    assert_eq!(counters.get(Counter::LogBytes), written());
    assert_eq!(counters.get(Counter::LogWrites), 3);
    assert_eq!(counters.get(Counter::LogDropped), 0);
    assert_eq!(fs::metadata(folder.join("error")).unwrap().len(), 0);
}

#[test]
fn a_log_that_is_dropped_writes_first() {
    let folder = Folder::new("drop");
    let path = folder.join("access");
    let sink = sink(&arena(1), &path, &folder.join("error"));
    sink.record(&record());
    drop(sink);
    assert_eq!(fs::read_to_string(&path).unwrap(), line(Format::Combined, &record()));
}

#[test]
fn off_wants_nothing() {
    let arena = arena(1);
    let errors = ErrorLog::open(LogDestination::from("off"), None, None).unwrap();
    errors.note(messages::FILE_FAULT, format_args!("unheard"));
    let sink = off(&arena, errors);
    assert!(!sink.wants());
    sink.record(&record());
    arena.control().reopen_logs();
    sink.tick(at(0));
    sink.flush();
    assert_eq!(counters(&arena).get(Counter::LogLines), 0);
}

#[test]
fn a_new_generation_opens_the_file_anew() {
    let folder = Folder::new("reopen");
    let (path, old, arena) = (folder.join("access"), folder.join("access.1"), arena(1));
    let sink = sink(&arena, &path, &folder.join("error"));
    sink.record(&record());
    fs::rename(&path, &old).unwrap();
    arena.control().reopen_logs();
    sink.record(&record());
    sink.tick(at(1));
    assert_eq!(fs::read_to_string(&old).unwrap().lines().count(), 2);
    sink.record(&Record { target: b"/new", ..record() });
    sink.tick(at(2));
    sink.flush();
    assert!(fs::read_to_string(&path).unwrap().contains("/new"));
    assert_eq!(fs::read_to_string(&old).unwrap().lines().count(), 2);
    assert_eq!(fs::metadata(folder.join("error")).unwrap().len(), 0);
}

#[test]
fn a_file_that_cannot_be_opened_anew_stays_in_use_and_is_reported() {
    let folder = Folder::new("stay");
    let below = folder.join("below");
    fs::create_dir(&below).unwrap();
    let (path, moved, arena) = (below.join("access"), folder.join("moved"), arena(1));
    let sink = sink(&arena, &path, &folder.join("error"));
    fs::rename(&below, &moved).unwrap();
    arena.control().reopen_logs();
    sink.tick(at(1));
    sink.record(&record());
    sink.flush();
    assert_eq!(fs::read_to_string(moved.join("access")).unwrap().lines().count(), 1);
    let said = fs::read_to_string(folder.join("error")).unwrap();
    assert!(said.contains("still logging to the old file: log.access: cannot open"), "{said}");
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn a_full_disk_drops_lines_counts_them_and_is_reported_once() {
    let folder = Folder::new("full");
    let (disk, arena) = (folder.join("disk"), arena(1));
    symlink("/dev", &disk).unwrap();
    let path = disk.join("full");
    let sink = sink(&arena, &path, &folder.join("error"));
    for _ in 0..3 {
        sink.record(&record());
        sink.record(&record());
        sink.flush();
    }
    assert_eq!(counters(&arena).get(Counter::LogDropped), 6);
    assert_eq!(counters(&arena).get(Counter::LogBytes), 0);
    let said = fs::read_to_string(folder.join("error")).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("error[access-log-failed]: log.access: writing to"), "{said}");

    fs::remove_file(&disk).unwrap();
    fs::create_dir(&disk).unwrap();
    arena.control().reopen_logs();
    sink.tick(at(1));
    sink.record(&record());
    sink.flush();
    assert_eq!(fs::read_to_string(&path).unwrap(), line(Format::Combined, &record()));
    let said = fs::read_to_string(folder.join("error")).unwrap();
    assert!(said.ends_with("works again; 6 lines were dropped\n"), "{said}");
}

/// A log that several units of one process write to, and its errors.
fn beside_each_other(arena: &Arena<'static>, path: &Path, errors: &Path) -> (AccessLog, ErrorLog) {
    let control = arena.view().control();
    let errors = ErrorLog::open(LogDestination::Path(errors.into()), None, Some(control)).unwrap();
    let options = AccessLogOptions { has_units: true, ..options(path, Format::Combined) };
    (AccessLog::open(options).unwrap(), errors)
}

#[test]
fn lines_of_units_are_whole_in_one_file_also_when_it_is_opened_anew() {
    const UNITS: usize = 8;
    const LINES: usize = 2_000;
    let (folder, arena) = (Folder::new("units"), arena(1));
    let (path, old) = (folder.join("access"), folder.join("access.1"));
    let (log, errors) = beside_each_other(&arena, &path, &folder.join("error"));
    let unit = |unit: usize| {
        let sink = log.sink(Tally::Striped(arena.slot(0)), arena.view().control(), errors.clone());
        for number in 0..LINES {
            let target = format!("/{unit}/{number}/{}", "x".repeat(number % 300));
            sink.record(&Record { target: target.as_bytes(), ..record() });
            if unit == 0 && number == LINES / 2 {
                fs::rename(&path, &old).unwrap();
                arena.control().reopen_logs();
            }
            sink.tick(at(1));
        }
    };
    thread::scope(|scope| {
        for number in 0..UNITS {
            scope.spawn(move || unit(number));
        }
    });
    let all = [&old, &path].map(|path| fs::read_to_string(path).unwrap()).concat();
    let mut next = [0; UNITS];
    for line in all.lines() {
        let (head, rest) = line.split_once("\"GET /").unwrap();
        assert!(head.starts_with("192.0.2.7 - - [") && rest.ends_with(" complete 3"), "{line}");
        let mut parts = rest.split([' ', '/']);
        let mut number = || parts.next().unwrap().parse::<usize>().unwrap();
        let (unit, number) = (number(), number());
        assert_eq!(parts.next().unwrap().len(), number % 300, "{line}");
        assert_eq!(number, next[unit], "lines of a unit are in its order, and none is missing");
        next[unit] += 1;
    }
    assert_eq!(next, [LINES; UNITS]);
    assert!(!fs::read_to_string(&path).unwrap().is_empty());
    let counters = counters(&arena);
    assert_eq!(counters.get(Counter::LogLines), (UNITS * LINES) as u64);
    assert_eq!(counters.get(Counter::LogBytes), all.len() as u64);
    assert_eq!(counters.get(Counter::LogDropped), 0);
    assert_eq!(fs::metadata(folder.join("error")).unwrap().len(), 0);
}

#[test]
fn a_unit_that_says_nothing_does_not_keep_the_lines_of_another() {
    let (folder, arena) = (Folder::new("beside"), arena(1));
    let path = folder.join("access");
    let (log, errors) = beside_each_other(&arena, &path, &folder.join("error"));
    let unit = || log.sink(Tally::Owned(arena.slot(0)), arena.view().control(), errors.clone());
    let (one, other) = (unit(), unit());
    one.record(&record());
    other.tick(at(0));
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    other.tick(at(BUFFER_AGE_MS_MAX));
    assert_eq!(fs::read_to_string(&path).unwrap(), line(Format::Combined, &record()));
    assert_eq!(counters(&arena).get(Counter::LogWrites), 1);
}

#[test]
fn a_full_disk_drops_the_lines_of_all_units_and_is_reported_once() {
    let (folder, arena) = (Folder::new("full-units"), arena(1));
    let disk = folder.join("disk");
    symlink("/dev", &disk).unwrap();
    let (log, errors) = beside_each_other(&arena, &disk.join("full"), &folder.join("error"));
    let unit = || log.sink(Tally::Owned(arena.slot(0)), arena.view().control(), errors.clone());
    let (one, other) = (unit(), unit());
    for sink in [&one, &other, &one] {
        sink.record(&record());
        sink.flush();
    }
    assert_eq!(counters(&arena).get(Counter::LogDropped), 3);
    assert_eq!(fs::read_to_string(folder.join("error")).unwrap().lines().count(), 1);
}

#[test]
fn a_torn_line_is_cut_off_unless_others_have_written() {
    let folder = Folder::new("torn");
    let path = folder.join("log");
    let open = || LogFile::open(&LogDestination::Path(path.clone()), None).unwrap().unwrap();
    let (one, other) = (open(), open());
    let says = || fs::read_to_string(&path).unwrap();
    one.write(b"one\ntw");
    assert!(one.take_back(2));
    assert_eq!(says(), "one\n");
    one.write(b"thr");
    other.write(b"four\n");
    assert!(!one.take_back(3), "others have written");
    assert_eq!(says(), "one\nthrfour\n");
    let null = LogFile::open(&LogDestination::Path("/dev/null".into()), None).unwrap().unwrap();
    assert!(!null.take_back(0), "only files have an end");
}

/// Like standard error: its offset would stay behind the end, and all its owners move it.
#[test]
fn nothing_is_cut_off_a_file_that_was_given() {
    let folder = Folder::new("given");
    let path = folder.join("log");
    let given = LogFile::given(File::create(&path).unwrap()).unwrap();
    given.write(b"one\ntw");
    assert!(!given.take_back(2));
    given.write(b"\nthree\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntw\nthree\n");
}

#[test]
fn a_pipe_that_nobody_empties_stops_no_worker_and_tears_no_line() {
    let folder = Folder::new("pipe");
    let (path, arena) = (folder.join("pipe"), arena(1));
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let fault = AccessLog::open(options(&path, Format::Combined)).unwrap_err();
    assert!(fault.to_string().contains("it is a pipe without a reader"), "{fault}");

    let mut reader = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
    let sink = sink(&arena, &path, &folder.join("error"));
    for _ in 0..5000 {
        sink.record(&record());
    }
    sink.flush();
    drop(sink);
    let mut bytes = Vec::new();
    // All is in the pipe; a child that another test is starting may hold its other end a moment.
    if let Err(error) = reader.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
    let text = String::from_utf8(bytes).unwrap();
    let expected = line(Format::Combined, &record());
    assert!(text.split_inclusive('\n').all(|line| line == expected));
    let counters = counters(&arena);
    let dropped = counters.get(Counter::LogDropped);
    assert!(dropped > 0);
    assert_eq!(text.lines().count() as u64 + dropped, 5000);
    assert_eq!(counters.get(Counter::LogBytes), text.len() as u64);
}

#[test]
fn only_a_new_file_is_given_to_the_server_s_user() {
    let folder = Folder::new("owner");
    let (old, new) = (folder.join("old"), folder.join("new"));
    File::create(&old).unwrap();
    let mine = fs::metadata(&old).unwrap().uid();
    let owner = Owner { uid: 65_534, gid: 65_534 };
    LogFile::open(&LogDestination::Path(old.clone()), Some(owner)).unwrap();
    assert_eq!(fs::metadata(&old).unwrap().uid(), mine);
    let made = LogFile::open(&LogDestination::Path(new.clone()), Some(owner));
    if mine == 0 {
        made.unwrap();
        assert_eq!(fs::metadata(&new).unwrap().uid(), owner.uid);
    } else {
        assert_eq!(made.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    }
}

/// Files that another user with write access to the folder can put in place of the log.
#[test]
fn a_name_in_a_hostile_folder_leads_nowhere() {
    let folder = Folder::new("hostile");
    let (theirs, text) = (folder.join("theirs"), "somebody else's\n");
    fs::write(&theirs, text).unwrap();
    symlink(&theirs, folder.join("link")).unwrap();
    symlink(folder.join("new"), folder.join("dangling")).unwrap();
    fs::hard_link(&theirs, folder.join("hard")).unwrap();
    fs::create_dir(folder.join("folder")).unwrap();
    let _socket = UnixListener::bind(folder.join("socket")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap().success());
    let refused = |name: &str, part: &str| {
        let fault = AccessLog::open(options(&folder.join(name), Format::Json)).unwrap_err();
        let (fault, name) = (fault.to_string(), format!("/{name} for appending: "));
        assert!(fault.contains(&name) && fault.contains(part), "{fault}");
        assert!(fault.contains("; "), "it says what to do: {fault}");
        assert_eq!(fs::read_to_string(&theirs).unwrap(), text);
        assert!(!folder.join("new").exists());
    };
    refused("link", "symbolic links are not followed here");
    refused("dangling", "symbolic links are not followed here");
    refused("hard", "it has another name too (a hard link)");
    refused("folder", "Is a directory");
    refused("pipe", "it is a pipe without a reader");
    refused("socket", "No such device or address");
    // The rest needs another user.
    let somebody = |name| std::os::unix::fs::lchown(folder.join(name), Some(4711), None);
    fs::write(folder.join("of-another"), text).unwrap();
    symlink(&*folder, folder.join("way")).unwrap();
    LogFile::open(&LogDestination::Path(folder.join("way/mine")), None).unwrap();
    if somebody("way").is_ok() {
        refused("way/mine", "the symbolic link \"way\" on the way is user 4711's");
        refused("way/none", "the symbolic link \"way\" on the way is user 4711's");
        somebody("of-another").unwrap();
        refused("of-another", "it belongs to user 4711, neither to root nor to the server's user");
    }
}

#[test]
fn what_cannot_be_opened_is_said_with_its_option() {
    let folder = Folder::new("fault");
    let path = folder.join("none/access");
    let fault = AccessLog::open(options(&path, Format::Json)).unwrap_err().to_string();
    assert!(fault.starts_with("log.access: cannot open /"), "{fault}");
    assert!(fault.ends_with("; its directory must exist"), "{fault}");
    let fault = ErrorLog::open(LogDestination::Path(folder.to_path_buf()), None, None).unwrap_err();
    assert!(fault.to_string().starts_with("log.error: cannot open"), "{fault}");
}

#[test]
fn messages_of_the_server_are_one_line_each() {
    let (folder, arena) = (Folder::new("error"), arena(1));
    let path = folder.join("error");
    let control = Some(arena.view().control());
    let log = ErrorLog::open(LogDestination::Path(path.clone()), None, control).unwrap();
    log.note(messages::DRAINING, format_args!("a \"Größe\"\n\x1b[2J\\ {}", "x".repeat(2000)));
    log.clone().note(messages::WORKER_FULL, format_args!("second"));
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    let id = std::process::id();
    let head = format!(" regatta[{id}] notice[draining]: a \"Größe\"\\x0A\\x1B[2J\\x5C x");
    assert_eq!(&lines[0][20..20 + head.len()], head);
    assert!(lines[0].ends_with("xx...") && lines[0].len() < 1100);
    assert!(lines[1].ends_with("warning[worker-full]: second"));

    fs::rename(&path, folder.join("error.1")).unwrap();
    arena.control().reopen_logs();
    // A master does not open it: another process does, and hands it over.
    log.note(messages::FILE_FAULT, format_args!("third"));
    let old = fs::read_to_string(folder.join("error.1")).unwrap();
    assert!(old.ends_with("error[file-fault]: third\n"), "{old}");
    assert!(!path.exists());
    log.install(log.make().unwrap().expect("it is a file")).unwrap();
    log.note(messages::FILE_FAULT, format_args!("fourth"));
    assert!(fs::read_to_string(&path).unwrap().ends_with("error[file-fault]: fourth\n"));

    fs::remove_file(&path).unwrap();
    arena.control().reopen_logs();
    log.tick();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}

/// The cause of a 500 is reported, also where exchanges are not logged. A dead disk does not fill
/// another with lines.
#[test]
fn faults_of_files_are_said_now_and_then() {
    let folder = Folder::new("faults");
    let (path, arena) = (folder.join("error"), arena(1));
    let errors = ErrorLog::open(LogDestination::Path(path.clone()), None, None).unwrap();
    let sink = off(&arena, errors);
    for wanted in [FileOperation::Open, FileOperation::Read, FileOperation::Read] {
        let host = "h";
        sink.fault(&FileFault { host, path: b"a/b\n\xff", wanted, errno: libc::EIO });
    }
    let said = fs::read_to_string(&path).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(r#"error[file-fault]: cannot open "a/b\x0A\xEF\xBF\xBD": "#), "{said}");
    assert!(said.trim_end().ends_with(": Input/output error (os error 5), for h"), "{said}");
}

#[test]
fn pieces_for_pipes_end_where_lines_end() {
    struct Pieces(Vec<Vec<u8>>);
    impl std::io::Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut pieces = Pieces(Vec::new());
    let written = file::write_lines(&mut pieces, b"ab\ncd\nlonger\nef\n", 6);
    assert!(written.fault.is_none());
    assert_eq!(written.bytes, 16);
    assert_eq!(pieces.0, [&b"ab\ncd\n"[..], b"longer\n", b"ef\n"]);
    assert_eq!(written.calls, 3);
}
