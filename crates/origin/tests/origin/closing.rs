//! Ends of connections: their cause, their time, and the fate of bytes on their way.
use crate::rig::{Client, Expected, Rig, check, get};
use regatta_metrics::Counter;
use regatta_op::{CloseReason, Done, Fault, OpKind, OpenFault};
use regatta_origin::{CachingRules, Deadlines, Limits, Protocol as _, ReplyOutcome, Site};

const TEN: &[u8] = b"GET /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n";
const BIG: &[u8] = b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n";

/// A rig whose log is on.
fn logged(site: Site) -> Rig {
    let rig = Rig::new(site);
    rig.log.on.set(true);
    rig
}

#[track_caller]
fn ends(client: &Client<'_>, reason: CloseReason) {
    assert_eq!(client.closed, Some(reason));
    assert_eq!(client.rig.count(Counter::closed(reason as usize)), 1);
}

#[test]
fn who_ends_the_connection() {
    let rows: &[(&str, &str, bool)] = &[
        ("GET /ten.txt HTTP/1.1\r\nHost: a\r\n", "", true),
        ("GET /ten.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", "close", false),
        ("GET /ten.txt HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n", "close", false),
        ("GET /ten.txt HTTP/1.0\r\n", "close", false),
        ("GET /ten.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n", "keep-alive", true),
        ("GET /nothing HTTP/1.0\r\nConnection: keep-alive\r\n", "keep-alive", true),
        ("GET /docs HTTP/1.0\r\n", "close", false),
        ("GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", "close", false),
    ];
    for (head, connection, goes_on) in rows {
        let rig = Rig::new(Site::default());
        let request = format!("{head}\r\n");
        let fields = [("connection", *connection)];
        let status = match head.split(' ').nth(1) {
            Some("/ten.txt") => 200,
            Some("/docs") => 301,
            _ => 404,
        };
        check(&rig, &request, &Expected { status, fields: &fields, body: None });
        let client = rig.connect_with(request.as_bytes());
        // A client that asked for the end and sent nothing more needs no lingering.
        let lasts = |client: &Client<'_>, kinds: &[OpKind]| client.kinds.ends_with(kinds);
        assert_eq!(lasts(&client, &[OpKind::Send, OpKind::Shut, OpKind::Close]), !goes_on);
        assert_eq!(client.closed.is_none(), *goes_on, "{head}");
        // A client that sends more after all might not get the answer without.
        let client = rig.connect_with(format!("{request}GET / HTTP/1.1\r\n").as_bytes());
        assert_eq!(lasts(&client, &[OpKind::Send, OpKind::Shut, OpKind::Recv]), !goes_on, "{head}");
    }
}

/// The kernel may hold the last bytes until then.
#[test]
fn the_last_bytes_are_followed_by_shut() {
    use OpKind::{Close, Recv, Send, Shut};
    let close = "HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    let rows: [(String, &[OpKind]); 7] = [
        (format!("GET /ten.txt {close}\r\n"), &[Send, Shut, Close]),
        (format!("HEAD /big.bin {close}\r\n"), &[Send, Shut, Close]),
        (format!("GET /ten.txt {close}If-None-Match: *\r\n\r\n"), &[Send, Shut, Close]),
        (format!("GET /none {close}\r\n"), &[Send, Shut, Close]),
        (format!("GET /big.bin {close}\r\n"), &[Send, Shut, Close]),
        (format!("GET /big.bin {close}Range: bytes=0-1,8-9\r\n\r\n"), &[Send, Shut, Close]),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), &[Send, Shut, Recv]),
    ];
    for (request, last) in rows {
        for send_bytes_max in [u64::MAX, 100, 1] {
            let rig = Rig::new(Site::default());
            let mut client = rig.connect();
            client.send_bytes_max = send_bytes_max;
            client.feed(request.as_bytes());
            assert!(client.kinds.ends_with(last), "{request}: {:?}", client.kinds);
        }
    }
}

#[test]
fn the_last_request_of_a_connection_says_so() {
    let limits = Limits { requests_max: 2, ..Limits::default() };
    let rig = Rig::new(Site { limits, ..Site::default() });
    let mut client = rig.connect_with(&TEN.repeat(3));
    let fields: Vec<_> =
        client.responses(&[]).iter().map(|response| response.field("connection")).collect();
    assert_eq!(fields, [None, Some("close".into())]);
    assert!(client.shut);
    client.end();
    ends(&client, CloseReason::Finished);
}

#[test]
fn half_closed_peers_get_their_answers() {
    let rig = Rig::new(Site::default());
    let mut client = rig.connect_with(&TEN.repeat(2));
    client.end();
    assert_eq!(client.statuses(), [200, 200]);
    ends(&client, CloseReason::PeerClosed);
}

#[test]
fn a_peer_that_leaves_too_early() {
    let rig = Rig::new(Site::default());
    let mut client = rig.connect_with(b"GET / HT");
    client.end();
    ends(&client, CloseReason::PeerAborted);
    assert!(client.output.is_empty());

    let rig = Rig::new(Site::default());
    let mut client = rig.connect_with(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    client.end();
    ends(&client, CloseReason::PeerAborted);
    assert_eq!(rig.count(Counter::RepliesCut), 1);

    for (fault, reason) in
        [(Fault::Reset, CloseReason::Reset), (Fault::Other(5), CloseReason::Failed)]
    {
        let rig = Rig::new(Site::default());
        let mut client = rig.connect();
        client.fail(fault);
        ends(&client, reason);

        let rig = Rig::new(Site::default());
        let mut client = rig.connect_full(1000, BIG);
        client.fail(fault);
        ends(&client, reason);
        assert_eq!(rig.count(Counter::RepliesCut), 1);
        assert_eq!(rig.count(Counter::Replies), 0);
    }
}

#[test]
fn idle_connections_end_silently() {
    let rig = Rig::new(Site::default());
    let mut silent = rig.connect();
    assert!(!silent.expire(9_999, 0));
    assert!(silent.expire(1, 0), "a first request comes sooner");
    ends(&silent, CloseReason::IdleDeadline);
    assert!(silent.output.is_empty());
    let rig = Rig::new(Site::default());
    let mut client = rig.connect();
    assert!(!client.expire(9_999, 0));
    client.feed(TEN);
    assert!(client.conn.is_idle());
    assert!(!client.expire(59_999, 0), "the time starts again with each response");
    let sent = client.output.len();
    assert!(client.expire(1, 0));
    ends(&client, CloseReason::IdleDeadline);
    assert_eq!(client.output.len(), sent);
}

#[test]
fn a_head_has_a_total_time() {
    let rig = Rig::new(Site::default());
    let mut client = rig.connect_with(b"GET / HTTP/1.1\r\n");
    for _ in 0..9 {
        assert!(!client.expire(1_000, 0));
        client.feed(b"X: y\r\n"); // a byte now and then buys no time
    }
    assert!(!client.conn.is_idle());
    assert!(client.expire(1_000, 0));
    assert_eq!(client.statuses(), [408]);
    assert!(client.shut);
    assert_eq!(client.waits_for(), Some(OpKind::Recv));
    assert!(client.expire(2_000, 0));
    ends(&client, CloseReason::HeadDeadline);
}

#[test]
fn a_content_has_a_total_time() {
    let rig = Rig::new(Site::default());
    let mut client = rig.connect_with(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n");
    for _ in 0..9 {
        assert!(!client.expire(1_000, 0));
        client.feed(b"x");
    }
    assert!(client.expire(1_000, 0));
    assert_eq!(client.statuses(), [408]);
    client.end();
    ends(&client, CloseReason::HeadDeadline);
    assert_eq!(rig.count(Counter::Requests), rig.count(Counter::Replies));
}

#[test]
fn a_slow_reader_may_be_slow_but_not_too_slow() {
    let deadlines = Deadlines { send_window_ms: 1_000, send_rate_min: 100, ..Deadlines::default() };
    let rig = logged(Site { deadlines, ..Site::default() });
    let mut client = rig.connect_full(50_000, BIG);
    assert_eq!(client.waits_for(), Some(OpKind::Send));
    // The kernel took 50,000 bytes. The peer takes 100 in each window: just enough.
    for window in 1..=20 {
        assert!(!client.expire(1_000, 50_000 - window * 100), "window {window}");
    }
    // It takes 99: too slow.
    assert!(client.expire(1_000, 50_000 - 2_099));
    ends(&client, CloseReason::SendDeadline);
    assert_eq!(rig.count(Counter::RepliesCut), 1);
    let records = rig.log.records.borrow();
    assert_eq!((records[0].outcome, records[0].sent_bytes), (ReplyOutcome::Slow, 50_000));
    assert_eq!(records[0].body_bytes, 200 << 10);
}

#[test]
fn bytes_in_the_kernel_are_not_cut_off_while_they_flow() {
    let deadlines = Deadlines {
        idle_ms_max: 1_000,
        linger_ms_max: 1_000,
        send_window_ms: 1_000,
        send_rate_min: 100,
        ..Deadlines::default()
    };
    // Idle after a large response, of which the kernel still has most, or lingering after one.
    let usual = Limits::default().requests_max;
    for (requests_max, queued, reason) in
        [(usual, 199_600, CloseReason::IdleDeadline), (1, 0, CloseReason::Finished)]
    {
        let limits = Limits { requests_max, ..Limits::default() };
        let rig = Rig::new(Site { deadlines: deadlines.clone(), limits, ..Site::default() });
        let mut client = rig.connect_with(BIG);
        assert!(if requests_max == 1 { client.shut } else { client.conn.is_idle() });
        for window in 1..5 {
            assert!(!client.expire(1_000, 200_000 - window * 100));
        }
        assert!(client.expire(1_000, queued));
        ends(&client, reason);
    }
}

#[test]
fn a_wait_shorter_than_a_window_asks_for_less() {
    let rows = [
        // Rate, bytes taken in each of three looks, and whether they are enough.
        (100, [100, 1_000, 1_000], [true, true, true]),
        (100, [99, 0, 0], [false, false, false]),
        (0, [1, 1, 0], [true, true, false]),
        (1, [1, 0, 0], [true, false, false]),
    ];
    // Idle after a large response, or lingering after the last.
    let cases = [Limits::default().requests_max, 1].map(|most| rows.map(|row| (most, row)));
    for (requests_max, (send_rate_min, taken, flows)) in cases.into_iter().flatten() {
        let deadlines = Deadlines {
            idle_ms_max: 1_000,
            linger_ms_max: 1_000,
            send_rate_min,
            ..Deadlines::default()
        };
        let limits = Limits { requests_max, ..Limits::default() };
        let rig = Rig::new(Site { deadlines, limits, ..Site::default() });
        let mut client = rig.connect_with(BIG);
        assert!(if requests_max == 1 { client.shut } else { client.conn.is_idle() });
        let (mut queued, mut ms) = (u64::try_from(client.output.len()).unwrap(), 1_000);
        for (taken, flows) in taken.into_iter().zip(flows) {
            if client.closed.is_none() {
                queued -= taken;
                assert_eq!(client.expire(ms, queued), !flows, "{send_rate_min} {taken}");
                ms = 10_000;
            }
        }
        assert_eq!(client.closed.is_some(), flows.contains(&false));
    }
}

#[test]
fn lingering_is_bounded_in_bytes() {
    let limits = Limits { linger_bytes_max: 1_000, ..Limits::default() };
    let rig = Rig::new(Site { limits, ..Site::default() });
    let mut client = rig.connect_with(b"rubbish\n");
    assert!(client.shut);
    client.feed(&[b'x'; 1_000]);
    assert_eq!(client.closed, None);
    client.feed(b"x");
    ends(&client, CloseReason::BadRequest);
}

#[test]
fn a_file_that_shrinks_ends_the_connection() {
    let rig = logged(Site::default());
    let file = rig.put("shrinks.bin", &[7; 100_000]);
    let mut client = rig.connect_full(30_000, get("/shrinks.bin").as_bytes());
    file.truncate(40_000);
    client.release();
    ends(&client, CloseReason::Truncated);
    let head = client.output.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(client.output.len() - head, 40_000, "never padded");
    let records = rig.log.records.borrow();
    assert_eq!(records[0].outcome, ReplyOutcome::Truncated);
    assert_eq!(records[0].sent_bytes, 40_000 + head as u64);
    assert_eq!((records[0].body_sent_bytes, records[0].body_bytes), (40_000, 100_000));
    assert_eq!(rig.count(Counter::RepliesCut), 1);
}

/// A file that is remembered without its body may have become shorter long ago.
#[test]
fn a_file_that_shrank_before_it_is_read_is_looked_for_again() {
    let rig = Rig::new(Site::default());
    let shrink = |name: &str| {
        let known = rig.put(name, &[7; 100]);
        rig.ask(&get(&format!("/{name}")).replace("GET", "HEAD"));
        known.truncate(60);
        rig.put(name, &[8; 60]);
    };
    shrink("shrinks.txt");
    let request = get("/shrinks.txt").into_bytes();
    let mut client = rig.connect_with(&[&request[..], TEN, &request].concat());
    let lens = client.responses(&[]).iter().map(|one| one.body.len()).collect::<Vec<_>>();
    assert_eq!((client.statuses(), lens), (vec![200; 3], vec![60, 10, 60]));
    assert_eq!((rig.count(Counter::ClosedTruncated), rig.count(Counter::RepliesCut)), (0, 0));
    // On a persistent connection, it may happen to another request, too.
    shrink("other.txt");
    client.feed(get("/other.txt").as_bytes());
    assert_eq!(client.statuses(), [200; 4]);
}

#[test]
fn a_file_that_goes_on_shrinking_is_not_answered() {
    let rig = Rig::new(Site::default());
    rig.put("shrinks.txt", &[7; 100]).truncate(99);
    let client = rig.connect_with(get("/shrinks.txt").as_bytes());
    ends(&client, CloseReason::Truncated);
    assert!(client.output.is_empty());
    assert_eq!(rig.opens.get(), 3, "it was looked for three times");
    // Nor remembered.
    rig.put("shrinks.txt", b"new");
    let new = Expected { status: 200, fields: &[], body: Some(b"new") };
    check(&rig, &get("/shrinks.txt"), &new);
}

/// A rig in which an idle connection has this time to drain.
fn draining(drain_idle_ms: u64) -> Rig {
    let deadlines = Deadlines { drain_idle_ms, ..Deadlines::default() };
    Rig::new(Site { deadlines, ..Site::default() })
}

/// A request that was on its way is answered, and so is one that was in its head. The response is
/// marked as the last.
#[test]
fn a_draining_connection_answers_what_comes() {
    let [start, rest]: [&[u8]; 2] = [b"GET /ten.txt HTTP/1.1\r\n", b"Host: a\r\n\r\n"];
    for (drain_idle_ms, before, after) in [(250, TEN, TEN), (250, start, rest), (0, b"", TEN)] {
        let rig = draining(drain_idle_ms);
        let mut client = rig.connect();
        if !before.is_empty() {
            client.feed(before);
        }
        client.drain();
        client.feed(after);
        let last = client.responses(&[]).pop().expect("a response");
        assert_eq!(last.field("connection").as_deref(), Some("close"));
        client.end();
        ends(&client, CloseReason::Drained);
    }
}

/// If nothing comes, it closes when the time is up, and not before. A new connection is about to
/// send its first request, and has four times as long.
#[test]
fn draining_an_idle_connection() {
    for (drain_idle_ms, is_new, early, late) in [(250, false, 200, 100), (250, true, 900, 200)] {
        let rig = draining(drain_idle_ms);
        let mut client = if is_new { rig.connect() } else { rig.connect_with(TEN) };
        client.drain();
        assert!(!client.expire(early, 0));
        assert!(client.expire(late, 0));
        ends(&client, CloseReason::Drained);
    }
    let rig = draining(0);
    let mut client = rig.connect();
    client.drain();
    assert!(client.expire(0, 0));
    ends(&client, CloseReason::Drained);
}

/// Bytes that a drained peer is still to receive are not checked again at once.
#[test]
fn draining_a_connection_whose_peer_still_reads() {
    for drain_idle_ms in [0, 250] {
        let rig = draining(drain_idle_ms);
        let mut client = rig.connect_with(BIG);
        client.drain();
        assert!(!client.expire(drain_idle_ms, 5));
        let next = client.conn.deadline();
        assert!(next > rig.now().tick && next <= rig.now().tick.after(250), "{next:?}");
        assert!(client.expire(250, 0));
        ends(&client, CloseReason::Drained);
    }
}

/// A response in progress had promised more: the next request is answered, and is the last.
#[test]
fn draining_a_busy_connection() {
    let rig = Rig::new(Site::default());
    let mut client = rig.connect_full(1_000, &[BIG, TEN].concat());
    client.drain();
    client.release();
    assert_eq!(client.statuses(), [200, 200]);
    assert!(client.shut);
    client.end();
    ends(&client, CloseReason::Drained);
}

#[test]
fn the_log_is_told() {
    let rig = logged(Site::default());
    let request = "GET /ten.txt?q HTTP/1.1\r\nHost: a\r\nUser-Agent: me\r\n\r\n";
    let requests = format!("{request}{request}HEAD / HTTP/1.0\r\n\r\n");
    let client = rig.connect_with(requests.as_bytes());
    let records = rig.log.records.borrow().clone();
    assert!(records.iter().all(|record| record.outcome == ReplyOutcome::Complete));
    assert_eq!(records.len(), 3);
    assert_eq!(records[0].line, "GET /ten.txt?q HTTP/1.1");
    assert_eq!((records[0].status, records[0].body_bytes, records[0].keep_alive), (200, 10, true));
    assert_eq!(records[0], records[1]);
    assert_eq!((records[2].body_bytes, records[2].keep_alive), (0, false));
    assert_eq!(records[0].agent, "me");
    assert!(records.iter().all(|records| records.body_sent_bytes == records.body_bytes));
    let sent: u64 = records.iter().map(|records| records.sent_bytes).sum();
    assert_eq!(sent, client.output.len() as u64);
    // A head that takes its time, and one that is none.
    rig.connect_with(b"rubbish\n");
    let records = rig.log.records.borrow().last().cloned().unwrap();
    assert_eq!((records.line.as_str(), records.status), ("  ", 400));
}

#[test]
fn the_log_is_told_why() {
    let limits =
        Limits { head_bytes_max: 400, target_bytes_max: 100, fields_max: 5, ..Limits::default() };
    let rig = logged(Site { limits, ..Site::default() });
    let request = |fields: &str| format!("GET /ten.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let long = "x".repeat(500);
    for (text, status, refused) in [
        (request(""), 200, None),
        (request("Range: bytes=99-\r\n"), 416, None),
        (request("").replace("ten", "none"), 404, None),
        ("rubbish\n".to_owned(), 400, Some("request-line")),
        (request("a : b\r\n"), 400, Some("field-line")),
        (request("Host: a\r\n"), 400, Some("host")),
        (request("Content-Length: x\r\n"), 400, Some("framing")),
        (request("").replace("/ten", "ten"), 400, Some("target")),
        (request("").replace("/ten", "/%zz"), 400, Some("path")),
        (request("").replace("/ten", &format!("/{}", &long[..100])), 414, Some("target-too-long")),
        (request(&format!("A: {long}\r\n")), 431, Some("head-too-large")),
        (request(&"A: b\r\n".repeat(5)), 431, Some("too-many-fields")),
        (request("").replace("1.1", "2.0"), 505, Some("version")),
        ("\x16\x03\x01\x02\0\x01\0\x01\u{7c}\x03\x03".to_owned(), 400, Some("tls")),
        (request("Content-Length: 99999999\r\n"), 413, Some("content-too-large")),
        (request("Transfer-Encoding: chunked\r\n") + "x\r\n", 400, Some("chunks")),
        (request("Expect: b\r\n"), 417, Some("expectation")),
        (request("").replace("GET", "PUT"), 405, Some("method")),
        (request("").replace("GET", "BREW"), 501, Some("unknown-method")),
    ] {
        rig.connect().feed(text.as_bytes());
        let records = rig.log.records.take();
        let records: Vec<_> =
            records.iter().map(|records| (records.status, records.refused)).collect();
        assert_eq!(records, [(status, refused)], "{text:?}");
    }
    for (text, refused) in [
        ("GET /".to_owned(), "head-deadline"),
        (request("Content-Length: 9\r\n") + "x", "content-deadline"),
    ] {
        let mut client = rig.connect_with(text.as_bytes());
        client.expire(rig.site.deadlines.head_ms_max, 0);
        let records = rig.log.records.take();
        assert_eq!((records[0].status, records[0].refused), (408, Some(refused)), "{text:?}");
    }
    // A request after a refusal is not refused with it.
    rig.connect().feed((request("").replace("GET", "PUT") + &request("")).as_bytes());
    let records = rig.log.records.take();
    assert_eq!((records[0].refused, records[1].refused), (Some("method"), None));
}

#[test]
fn what_the_server_ends_is_told_as_cut_short() {
    for reason in [CloseReason::Drained, CloseReason::Failed, CloseReason::Refused] {
        // In a response.
        let rig = logged(Site::default());
        let mut client = rig.connect_full(1_000, BIG);
        client.cut(reason);
        ends(&client, reason);
        let head = client.output.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let records = rig.log.records.borrow().clone();
        assert_eq!(records.len(), 1);
        assert_eq!((records[0].outcome, records[0].status), (ReplyOutcome::Cut, 200));
        assert_eq!((records[0].sent_bytes, records[0].body_bytes), (1_000, 200 << 10));
        assert_eq!(records[0].body_sent_bytes, 1_000 - head as u64);
        assert!(!records[0].keep_alive);
        assert_eq!(rig.count(Counter::RepliesCut), 1);
        // It has said why it ends, and does so once.
        client.cut(CloseReason::Drained);
        ends(&client, reason);
        assert_eq!(rig.log.records.borrow().len(), 1);

        // While the disk is asked: there is no response yet.
        let rig = logged(Site::default());
        let mut client = rig.connect_held(OpKind::Open, TEN);
        client.cut(reason);
        ends(&client, reason);
        let records = rig.log.records.borrow().clone();
        assert_eq!((records[0].outcome, records[0].status), (ReplyOutcome::Cut, 0));
        assert_eq!(records[0].sent_bytes, 0);

        // Between requests: there is nothing to tell.
        let rig = logged(Site::default());
        let mut client = rig.connect();
        client.cut(reason);
        ends(&client, reason);
        assert!(rig.log.records.borrow().is_empty());
        assert_eq!(rig.count(Counter::RepliesCut), 0);
    }
}

#[test]
fn expiry_leaves_a_half_close_alone_and_the_disk_its_time() {
    use OpKind::{Close, Open, Read, Recv, Send, Shut, Stat};
    let rig = Rig::new(Site::default());
    let cx = rig.cx();
    let mut client = rig.connect();
    // By hand: an Open, a Read, a Stat, a Shut is in flight when the time comes.
    let mut conn = client.take_conn();
    conn.complete(Done::Recv(Ok(b"GET /ten.txt HTTP/1.0\r\n\r\nx")), rig.now(), &cx);
    let mut kinds = Vec::new();
    while let Some(op) = conn.next_op() {
        kinds.push(op.kind());
        rig.pass(if op.kind() == Shut { 1_000_000 } else { 29_999 });
        let held = matches!(op.kind(), Open | Read | Stat | Shut);
        if held {
            conn.expire(0, rig.now(), &cx);
            assert!(conn.abandoned().is_none() && conn.next_op().is_none());
        }
        conn.check_invariants();
        if op.kind() == Recv {
            rig.pass(1_000_000);
            conn.expire(0, rig.now(), &cx);
            assert!(conn.abandoned().is_some());
            continue;
        }
        let Some(done) = rig.perform(op) else { break };
        conn.complete(done, rig.now(), &cx);
        conn.check_invariants();
    }
    assert_eq!(kinds, [Open, Read, Stat, Send, Shut, Recv, Close]);
}

/// While the disk is asked before something is sent, the peer is not to blame for the delay.
#[test]
fn the_time_of_the_disk_is_not_the_peers() {
    let deadlines = Deadlines { send_window_ms: 1_000, send_rate_min: 100, ..Deadlines::default() };
    let rig = Rig::new(Site { deadlines, ..Site::default() });
    let mut client = rig.connect_full(50_000, BIG);
    assert_eq!(client.waits_for(), Some(OpKind::Send));
    assert!(!client.expire(1_000, 49_900), "it takes just enough");
    rig.pass(999);
    client.conn.wait_for_disk(rig.now(), &rig.cx());
    client.conn.check_invariants();
    assert!(!client.expire(29_999, 49_900), "it could not take anything");
    client.conn.disk_answered(rig.now(), &rig.cx());
    client.conn.check_invariants();
    assert!(!client.expire(999, 49_900), "it has a whole window");
    assert!(client.expire(1, 49_900), "its own time is over");
    ends(&client, CloseReason::SendDeadline);
    // A driver that performs disk operations itself is held up with all its peers.
    let mut client = rig.connect_full(50_000, BIG);
    client.conn.held_up(5_000);
    assert!(!client.expire(5_999, 50_000));
    assert!(client.expire(1, 50_000));
}

/// `Open`, `Read`, and a `Send` that waits for the disk, which never answers.
#[test]
fn a_disk_that_does_not_answer_is_not_waited_for() {
    let caching = CachingRules { body_bytes_max: 8 << 10, ..CachingRules::default() };
    let site = || Site { caching: caching.clone(), ..Site::default() };
    for (method, of, body) in
        [("GET", OpKind::Open, true), ("HEAD", OpKind::Open, false), ("GET", OpKind::Read, true)]
    {
        let rig = logged(site());
        let request = format!("{method} /small.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /");
        let mut client = rig.connect_held(of, request.as_bytes());
        assert_eq!(client.waits_for(), Some(of));
        assert!(!client.expire(29_999, 0));
        assert!(client.expire(1, 0), "it is abandoned");
        let text = String::from_utf8_lossy(&client.output).into_owned();
        assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("Connection: close"), "{text}");
        assert!(text.contains("Retry-After: 1") && text.ends_with("\r\n\r\n") != body, "{text}");
        client.end();
        ends(&client, CloseReason::DiskDeadline);
        assert_eq!((rig.count(Counter::Requests), rig.count(Counter::Replies)), (1, 1));
        assert_eq!(rig.log.records.borrow()[0].status, 503);
    }
    let rig = Rig::new(site());
    let mut client = rig.connect_full(1_000, BIG);
    client.conn.wait_for_disk(rig.now(), &rig.cx());
    assert!(client.expire(30_000, 0));
    ends(&client, CloseReason::DiskDeadline);
    assert_eq!(rig.count(Counter::RepliesCut), 1);
}

/// A peer that sends no more is waited for a little, and answered if the disk does.
#[test]
fn the_disk_has_less_time_for_a_peer_that_sends_no_more() {
    for answers in [true, false] {
        let rig = Rig::new(Site::default());
        let mut client = rig.connect_held(OpKind::Open, b"GET /ten.txt HTTP/1.0\r\n\r\n");
        client.conn.peer_ended(rig.now(), &rig.cx());
        assert!(!client.expire(400, 0));
        client.conn.peer_ended(rig.now(), &rig.cx());
        assert!(!client.expire(99, 0), "that it is said again changes nothing");
        if answers {
            client.release();
            assert_eq!(client.statuses(), [200]);
        } else {
            assert!(client.expire(1, 0));
            ends(&client, CloseReason::PeerAborted);
            assert!(client.output.is_empty());
        }
    }
}

/// A refused request causes no look-up, open or read, and nothing behind it is answered.
#[test]
fn the_next_request_is_turned_away() {
    let rows = [
        ("GET", "1.1", "", true),
        ("HEAD", "1.1", "", false),
        ("GET", "1.0", "", true),
        ("POST", "1.1", "Content-Length: 9\r\n", true),
        ("GET", "1.1", "Expect: nonsense\r\n", true),
    ];
    for (method, version, fields, has_body) in rows {
        let rig = logged(Site::default());
        let mut client = rig.connect_with(TEN);
        client.feed(format!("{method} /ten.txt HT").as_bytes());
        let lookups = rig.count(Counter::CacheLookups);
        assert!(!client.turn_away(), "its `Recv` stays out");
        client.feed(format!("TP/{version}\r\nHost: a\r\n{fields}\r\nGET / HTTP").as_bytes());
        let heads: &[usize] = if has_body { &[] } else { &[1] };
        let answers = client.responses(heads);
        assert_eq!((answers[0].status, answers[1].status, answers.len()), (200, 503, 2));
        assert_eq!(answers[1].field("retry-after").as_deref(), Some("1"));
        assert_eq!(answers[1].field("connection").as_deref(), Some("close"));
        assert_eq!(answers[1].body.is_empty(), !has_body, "{method}");
        assert_eq!((rig.opens.get(), rig.count(Counter::CacheLookups)), (1, lookups));
        client.end();
        ends(&client, CloseReason::Refused);
        let counted = [Counter::Requests, Counter::Replies, Counter::Replies5xx];
        assert_eq!(counted.map(|counter| rig.count(counter)), [2, 2, 1]);
        let records = rig.log.records.borrow();
        assert_eq!((records[1].status, records[1].refused), (503, Some("overload")));
        assert!(records[1].line.starts_with(method), "{}", records[1].line);
    }
    // Without a request there is nothing to answer, and what cannot be read is malformed.
    let rig = Rig::new(Site::default());
    let mut silent = rig.connect();
    silent.turn_away();
    silent.end();
    ends(&silent, CloseReason::PeerClosed);
    let mut wrong = rig.connect();
    wrong.turn_away();
    wrong.feed(b"GET\r\n\r\n");
    assert_eq!(wrong.statuses(), [400]);
}

/// A request that waits for the disk is answered without it; a response in progress continues.
#[test]
fn a_request_that_waits_for_the_disk_is_turned_away() {
    let caching = CachingRules { body_bytes_max: 8 << 10, ..CachingRules::default() };
    for (method, of) in [("GET", OpKind::Open), ("HEAD", OpKind::Open), ("GET", OpKind::Read)] {
        let rig = logged(Site { caching: caching.clone(), ..Site::default() });
        let request = format!("{method} /small.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /");
        let mut client = rig.connect_held(of, request.as_bytes());
        assert_eq!(client.waits_for(), Some(of));
        assert!(client.turn_away(), "what was out is given up");
        let heads: &[usize] = if method == "HEAD" { &[0] } else { &[] };
        let answers = client.responses(heads);
        assert_eq!((answers[0].status, answers.len()), (503, 1));
        assert_eq!(answers[0].field("retry-after").as_deref(), Some("1"));
        client.end();
        ends(&client, CloseReason::Refused);
        let records = rig.log.records.borrow();
        assert_eq!((records[0].status, records[0].refused), (503, Some("overload")));
    }
    let rig = Rig::new(Site::default());
    rig.faults.borrow_mut().insert(b"ten.txt".to_vec(), OpenFault::Exhausted);
    let mut held = rig.connect_with(TEN);
    assert_eq!(held.waits_for(), Some(OpKind::Recv), "it is to be tried again");
    assert!(held.turn_away());
    assert_eq!(held.statuses(), [503]);
    let mut answered = rig.connect_full(1_000, BIG);
    assert!(!answered.turn_away());
    answered.release();
    answered.feed(BIG);
    assert_eq!(answered.statuses(), [200, 200]);
}
