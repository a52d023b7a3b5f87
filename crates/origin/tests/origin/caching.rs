//! Contents of the cache: which entries, for how long, and within which bounds.
use crate::rig::{Client, Expected, Response, Rig, check, get, get_with, pattern};
use regatta_http::date;
use regatta_metrics::Counter;
use regatta_op::{CloseReason, Fault, OpKind, OpenFault};
use regatta_origin::{
    Cache as _, CachingRules, ContentRules, ListenerClass, Protocol as _, STALE_PERIODS_MAX, Site,
};

fn with(caching: CachingRules) -> Rig {
    Rig::new(Site { caching, ..Site::default() })
}

pub(crate) fn body(rig: &Rig, path: &str) -> Vec<u8> {
    rig.respond(&get(path)).body
}

#[test]
fn a_change_shows_after_the_time_to_revalidate() {
    let rig = Rig::new(Site::default());
    assert_eq!(body(&rig, "/ten.txt"), b"0123456789");
    rig.put("ten.txt", b"9876543210");
    rig.pass(999);
    assert_eq!(body(&rig, "/ten.txt"), b"0123456789");
    rig.pass(1);
    assert_eq!(body(&rig, "/ten.txt"), b"9876543210");
    rig.delete("ten.txt");
    rig.pass(1_000);
    assert_eq!(body(&rig, "/ten.txt"), b"<h1>lost</h1>\n");
    rig.put("ten.txt", b"back");
    assert_eq!(body(&rig, "/ten.txt"), b"<h1>lost</h1>\n", "a name of nothing is remembered");
    assert!(rig.count(Counter::CacheNegativeHits) > 0);
    rig.pass(1_000);
    assert_eq!(body(&rig, "/ten.txt"), b"back");
}

/// A response in one piece from the cache has the second of its request, also while a slow
/// connection is sending the same bytes with an earlier date.
#[test]
fn every_response_tells_its_own_second() {
    let rig = with(CachingRules { revalidate_ms: 60_000, ..CachingRules::default() });
    let date = || String::from_utf8(date::format(rig.now().unix.cast_signed()).to_vec()).unwrap();
    let check = || {
        let response = rig.respond(&get("/ten.txt"));
        assert_eq!(response.field("date"), Some(date()));
        assert_eq!(response.body, b"0123456789");
    };
    for _ in 0..3 {
        check();
        check();
        let mut slow = rig.connect_full(50, get("/ten.txt").as_bytes());
        let early = date();
        for _ in 0..2 {
            rig.pass(1_000);
            check();
            check();
        }
        slow.release();
        let late = &slow.responses(&[])[0];
        assert_eq!(late.field("date"), Some(early));
        assert_eq!(late.body, b"0123456789");
        rig.pass(1_000);
    }
}

#[test]
fn reading_a_body_makes_a_file_no_younger() {
    let rig = Rig::new(Site::default());
    rig.ask("HEAD /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.pass(999);
    assert_eq!(body(&rig, "/ten.txt"), b"0123456789");
    assert_eq!(rig.opens.get(), 1);
    rig.put("ten.txt", b"9876543210");
    rig.pass(1);
    assert_eq!(body(&rig, "/ten.txt"), b"9876543210");
}

#[test]
fn what_is_read_late_replaces_nothing_younger() {
    let rig = Rig::new(Site::default());
    let mut late = rig.connect_held(OpKind::Read, get("/ten.txt").as_bytes());
    rig.put("ten.txt", b"9876543210");
    rig.pass(1);
    assert_eq!(body(&rig, "/ten.txt"), b"9876543210");
    late.release();
    assert!(late.output.ends_with(b"0123456789"), "it was opened before");
    assert_eq!(body(&rig, "/ten.txt"), b"9876543210");
}

/// Others may get the known entry while one caller checks it, but not for ever.
#[test]
fn a_disk_that_hangs_does_not_keep_what_is_stale() {
    let rig = Rig::new(Site::default());
    assert_eq!(body(&rig, "/ten.txt"), b"0123456789");
    rig.put("ten.txt", b"9876543210");
    let ask = || rig.connect_held(OpKind::Open, get("/ten.txt").as_bytes());
    // One asker of each period waits; the others are answered.
    let mut waiting = Vec::new();
    for _ in 0..=STALE_PERIODS_MAX {
        rig.pass(1_000);
        waiting.push(ask());
        assert_eq!(waiting.last().and_then(Client::waits_for), Some(OpKind::Open));
        if waiting.len() as u64 <= STALE_PERIODS_MAX {
            assert!(ask().output.ends_with(b"0123456789"));
        }
    }
    let mut last = ask();
    assert_eq!(last.waits_for(), Some(OpKind::Open), "nobody is given what is so old");
    assert!(last.output.is_empty());
    last.release();
    assert!(last.output.ends_with(b"9876543210"));
    assert!(ask().output.ends_with(b"9876543210"), "it is known from now on");
}

/// A disk that answers after the next request has asked it again still brings the new file.
#[test]
fn a_slow_read_is_remembered_though_others_look_meanwhile() {
    let rig = Rig::new(Site::default());
    assert_eq!(body(&rig, "/ten.txt"), b"0123456789");
    rig.put("ten.txt", b"9876543210");
    rig.pass(1_000);
    let mut slow = rig.connect_held(OpKind::Read, get("/ten.txt").as_bytes());
    rig.pass(1_000);
    let other = rig.connect_held(OpKind::Read, get("/ten.txt").as_bytes());
    assert_eq!((slow.waits_for(), other.waits_for()), (Some(OpKind::Read), Some(OpKind::Read)));
    slow.release();
    assert!(slow.output.ends_with(b"9876543210"));
    let opens = rig.opens.get();
    let mut third = rig.connect_held(OpKind::Open, get("/ten.txt").as_bytes());
    third.release();
    assert!(third.output.ends_with(b"9876543210"));
    assert!(rig.opens.get() <= opens + 1);
}

#[test]
fn what_did_not_change_is_opened_again_but_not_read() {
    let rig = Rig::new(Site::default());
    let mut client = rig.connect_with(get("/ten.txt").as_bytes());
    rig.pass(1_000);
    client.kinds.clear();
    client.feed(get("/ten.txt").as_bytes());
    client.feed(get("/ten.txt").as_bytes());
    use OpKind::{Open, Recv, Send};
    assert_eq!(client.kinds, [Open, Send, Recv, Send, Recv]);
    assert_eq!(rig.count(Counter::CacheRevalidations), 1);
    assert_eq!(rig.count(Counter::Reads), 1);
    // A sibling that appears is a change, too.
    rig.put("ten.txt.gz", b"zip");
    rig.pass(1_000);
    let request = get_with("/ten.txt", "Accept-Encoding: gzip\r\n");
    let fields = [("content-encoding", "gzip")];
    check(&rig, &request, &Expected { status: 200, fields: &fields, body: Some(b"zip") });
}

/// A sibling that is larger than the file itself is none; that it is there is no change.
#[test]
fn a_larger_sibling_is_none() {
    let rig = Rig::new(Site::default());
    rig.put("ten.txt.gz", &[b'g'; 11]);
    let request = "GET /ten.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
    let fields = [("content-encoding", ""), ("vary", "")];
    let plain = Expected { status: 200, fields: &fields, body: Some(b"0123456789") };
    for _ in 0..2 {
        check(&rig, request, &plain);
        rig.pass(1_000);
    }
    assert_eq!(rig.count(Counter::CacheRevalidations), 1);
    assert_eq!(rig.count(Counter::Reads), 1);
    rig.put("ten.txt.gz", &[b'g'; 10]);
    let fields = [("content-encoding", "gzip"), ("vary", "Accept-Encoding")];
    check(&rig, request, &Expected { status: 200, fields: &fields, body: Some(&[b'g'; 10]) });
    // The file itself becomes smaller than it.
    rig.put("ten.txt", b"nine char");
    rig.pass(1_000);
    check(&rig, request, &Expected { body: Some(b"nine char"), ..plain });
}

/// A body from 32 KiB on is not read if the kernel can send the file itself.
#[test]
fn a_middling_body_is_read_for_clients_that_need_it_in_memory() {
    use OpKind::{Open, Read, Recv, Send, Stat};
    let rig = with(CachingRules::default());
    rig.put("middle.bin", &pattern(48 << 10));
    let kinds = |class| {
        rig.class.set(class);
        let client = rig.connect_with(get("/middle.bin").as_bytes());
        assert!(client.output.ends_with(&pattern(48 << 10)));
        let mut kinds = client.kinds[1..].to_vec();
        kinds.dedup();
        kinds
    };
    let (clear, other) = (ListenerClass::CLEAR, ListenerClass(1));
    assert_eq!(kinds(clear), [Open, Send, Recv]);
    assert_eq!(kinds(clear), [Stat, Send, Recv]);
    assert_eq!(kinds(other), [Read, Stat, Send, Recv]);
    assert_eq!(kinds(clear), [Send, Recv], "what is in memory anyway is sent from there");
}

/// A body longer than is read at once comes in parts, all by one buffer, which others have later.
#[test]
fn a_long_body_is_read_in_parts() {
    let rig = with(CachingRules {
        body_bytes_max: 1 << 20,
        clear_body_bytes_max: 1 << 20,
        ..CachingRules::default()
    });
    rig.put("long.bin", &pattern(600_000));
    let mut client = rig.connect_held(OpKind::Read, get("/long.bin").as_bytes());
    let part = 256 << 10;
    let parts = [client.read_once(), client.read_once(), client.read_once()];
    let [(0, a, first), (at, b, second), (_, c, third)] = parts else { panic!("{parts:?}") };
    assert_eq!((a, at, b, c), (part, part, part, 600_000 - 2 * part));
    assert!(first == second && second == third, "{parts:?}");
    assert!(client.output.ends_with(&pattern(600_000)));
    assert_eq!(rig.count(Counter::Reads), 3);
    assert_eq!(rig.count(Counter::ReadBytes), 600_000);
    client.output.clear();
    client.feed(get("/long.bin").as_bytes());
    assert!(client.output.ends_with(&pattern(600_000)), "from memory");
    client.feed(get("/ten.txt").as_bytes());
    assert_eq!(client.read_once().2, first);
    assert_eq!(rig.count(Counter::Reads), 4);
}

/// A fault in the middle of a body leaves nothing of it, and returns the buffer.
#[test]
fn parts_of_a_body_that_does_not_come_whole_are_forgotten() {
    let rig = with(CachingRules { read_bytes_max: 4, ..CachingRules::default() });
    let file = rig.put("twelve.txt", b"abcdefghijkl");
    let mut client = rig.connect_held(OpKind::Read, get("/twelve.txt").as_bytes());
    let (.., first) = client.read_once();
    client.fail(Fault::Other(5));
    client.release();
    assert_eq!(client.statuses(), [500]);
    // The file gets shorter while it is read: it is opened again, and read from its start.
    let mut client = rig.connect_held(OpKind::Read, get("/twelve.txt").as_bytes());
    assert_eq!(client.read_once(), (0, 4, first));
    file.truncate(6);
    rig.put("twelve.txt", b"now other");
    client.release();
    assert!(client.output.ends_with(b"\r\n\r\nnow other"));
    // The connection that is cut in the middle takes its buffer along; others have others.
    rig.put("other.txt", b"0123456789");
    let mut client = rig.connect_held(OpKind::Read, get("/other.txt").as_bytes());
    client.read_once();
    client.cut(CloseReason::Failed);
    assert_eq!(body(&rig, "/other.txt"), b"0123456789");
}

/// Most kernels keep file times in ticks. A file written twice within one, with the same length,
/// has the same facts, and is read again until it has settled.
#[test]
fn a_rewrite_within_a_tick_shows_too() {
    let rig = Rig::new(Site::default());
    let file = rig.put_at("young.txt", b"before", rig.now().unix.cast_signed());
    assert_eq!(body(&rig, "/young.txt"), b"before");
    file.rewrite(b"behind");
    for (second, reads) in [(1, 2), (2, 3), (3, 3), (4, 3)] {
        rig.pass(1_000);
        assert_eq!(body(&rig, "/young.txt"), b"behind", "in second {second}");
        assert_eq!(rig.count(Counter::Reads), reads, "in second {second}");
    }
    assert_eq!(rig.opens.get(), 5, "it is looked at all the same");
}

#[test]
fn one_asker_revalidates() {
    let rig = Rig::new(Site::default());
    body(&rig, "/big.bin");
    let opens = rig.opens.get();
    rig.pass(5_000);
    for _ in 0..10 {
        body(&rig, "/big.bin");
    }
    assert_eq!(rig.opens.get(), opens + 1);
}

#[test]
fn descriptors_are_held_only_for_bodies_on_disk() {
    let rig = Rig::new(Site::default());
    for path in ["/ten.txt", "/app.js", "/big.bin", "/small.bin", "/empty.txt"] {
        body(&rig, path);
    }
    // big.bin, and the two siblings of app.js that are unused so far.
    assert_eq!(rig.cache.descriptors(), 3);
    let ask = "GET /app.js HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n";
    rig.ask(ask);
    assert_eq!(rig.cache.descriptors(), 2);
    let fds = rig.count(Counter::CacheFdsAdded) - rig.count(Counter::CacheFdsRemoved);
    assert_eq!(fds, 2);
}

#[test]
fn without_a_cache_every_request_opens_and_closes() {
    let rig = with(CachingRules { enabled: false, ..CachingRules::default() });
    let small = rig.put("small.bin", &pattern(4096));
    let big = rig.put("big.bin", &pattern(200 << 10));
    let mut client = rig.connect();
    for _ in 0..2 {
        client.kinds.clear();
        client.feed(get("/small.bin").as_bytes());
        use OpKind::{Open, Read, Recv, Send, Stat};
        assert_eq!(client.kinds, [Open, Read, Stat, Send, Recv]);
        client.kinds.clear();
        client.feed(get("/big.bin").as_bytes());
        assert_eq!(client.kinds[..2], [Open, Send]);
    }
    assert_eq!((small.holders(), big.holders()), (2, 2), "one here, one in the file system");
    assert_eq!(rig.cache.entries(), 0);
    assert_eq!(rig.count(Counter::CacheLookups), 0);
    // Each time: `Vary` shows whether a file has siblings, also to clients that take none.
    assert_eq!(rig.count(Counter::OpenSiblings), 4 * 3);
}

#[test]
fn a_sender_keeps_its_file_when_the_cache_lets_go() {
    let rig = with(CachingRules { descriptors_max: 1, ..CachingRules::default() });
    let file = rig.put("a.bin", &pattern(100_000));
    rig.put("b.bin", &pattern(100_000));
    let mut client = rig.connect_full(50_000, get("/a.bin").as_bytes());
    body(&rig, "/b.bin");
    assert_eq!(rig.cache.descriptors(), 1);
    assert_eq!(file.holders(), 3, "here, the file system, the sender");
    client.release();
    assert_eq!(client.responses(&[])[0].body, pattern(100_000));
    drop(client);
    assert_eq!(file.holders(), 2);
}

#[test]
fn every_bound_holds() {
    let rules = CachingRules {
        entries_max: 100,
        negatives_max: 50,
        descriptors_max: 20,
        bytes_max: 300_000,
        ..CachingRules::default()
    };
    let content = ContentRules { precompressed: false, ..ContentRules::default() };
    let rig = Rig::new(Site { caching: rules, content, ..Site::default() });
    for at in 0..300 {
        rig.put(&format!("f{at}"), &pattern(10 * at));
        rig.put(&format!("d{at}/x"), b"");
    }
    for at in 0..60 {
        rig.put(&format!("large{at}"), &pattern(100_000));
    }
    let mut client = rig.connect();
    for at in 0..5_000 {
        let name = at * 7919 % 4001;
        let path = match at % 4 {
            0 => format!("/f{}", name % 300),
            1 => format!("/d{}", name % 300),
            2 => format!("/large{}", name % 60),
            _ => format!("/none{name}{}", "x".repeat(name % 400)),
        };
        client.feed(get(&path).as_bytes());
        client.output.clear();
        assert!(rig.cache.entries() <= 100 && rig.cache.negatives() <= 50);
        assert!(rig.cache.descriptors() <= 20 && rig.cache.bytes() <= 300_000);
    }
    let count = |counter| rig.count(counter);
    assert!(count(Counter::CacheEvictions) > 1_000);
    let entries = count(Counter::CacheEntriesAdded) - count(Counter::CacheEntriesRemoved);
    assert_eq!(entries, (rig.cache.entries() + rig.cache.negatives()) as u64);
    let bytes = count(Counter::CacheBytesAdded) - count(Counter::CacheBytesRemoved);
    assert_eq!(bytes, rig.cache.bytes() as u64);
}

#[test]
fn what_is_asked_for_often_stays() {
    let rig = with(CachingRules { entries_max: 10, ..CachingRules::default() });
    for at in 0..200 {
        rig.put(&format!("f{at}"), b"x");
    }
    let mut client = rig.connect();
    for at in 0..200 {
        client.feed(get("/f0").as_bytes());
        client.feed(get(&format!("/f{at}")).as_bytes());
    }
    let opens = rig.opens.get();
    client.feed(get("/f0").as_bytes());
    assert_eq!(rig.opens.get(), opens, "a scan does not put out what is popular");
}

#[test]
fn a_scan_for_nothing_puts_out_no_file() {
    let rig = with(CachingRules { entries_max: 10, negatives_max: 10, ..CachingRules::default() });
    body(&rig, "/ten.txt");
    for at in 0..1_000 {
        body(&rig, &format!("/none{at}"));
    }
    let opens = rig.opens.get();
    body(&rig, "/ten.txt");
    assert_eq!(rig.opens.get(), opens);
    assert_eq!(rig.cache.negatives(), 10);
}

#[test]
fn a_fault_of_the_moment_is_not_remembered_and_hides_nothing() {
    let rig = Rig::new(Site::default());
    let get_ten = get("/ten.txt");
    rig.faults.borrow_mut().insert(b"ten.txt".to_vec(), OpenFault::Other(5));
    check(&rig, &get_ten, &Expected { status: 500, fields: &[], body: None });
    rig.faults.borrow_mut().clear();
    let served = Expected { status: 200, fields: &[], body: Some(b"0123456789") };
    check(&rig, &get_ten, &served);
    rig.faults.borrow_mut().insert(b"ten.txt".to_vec(), OpenFault::Exhausted);
    rig.pass(5_000);
    check(&rig, &get_ten, &served);
    rig.faults.borrow_mut().insert(b"ten.txt".to_vec(), OpenFault::Denied);
    rig.pass(5_000);
    check(&rig, &get_ten, &Expected { status: 403, fields: &[], body: None });
}

#[test]
fn index_names_are_tried_in_order() {
    let content = ContentRules::default().with_index(&["a.html", "b.html", "index.html"]);
    let rig = Rig::new(Site { content, ..Site::default() });
    rig.put("x/b.html", b"b");
    rig.put("y/a.html", b"a");
    rig.put("y/b.html", b"b");
    rig.put("z/a.html/deep", b"");
    rig.put("z/index.html", b"i");
    for (path, expected) in [("/x/", "b"), ("/y/", "a"), ("/z/", "i"), ("/docs/", "docs")] {
        let body = Some(expected.as_bytes());
        check(&rig, &get(path), &Expected { status: 200, fields: &[], body });
    }
}

/// Checks that a waiting request has this answer after this number of tries, and none before.
#[track_caller]
fn gets(client: &mut Client<'_>, status: u16, tries: u32) {
    for _ in 0..tries {
        assert_eq!(client.output.len(), 0);
        client.expire(50, 0);
    }
    assert_eq!(client.statuses(), [status]);
}

/// No descriptor is free to open a name with: another may be in a while.
#[test]
fn who_finds_no_descriptor_waits_for_one() {
    let rig = Rig::new(Site::default());
    let exhaust = || rig.faults.borrow_mut().insert(b"ten.txt".to_vec(), OpenFault::Exhausted);
    let ask = || {
        let client = rig.connect_with(get("/ten.txt").as_bytes());
        assert_eq!((client.waits_for(), client.output.len()), (Some(OpKind::Recv), 0));
        assert!(client.conn.tries_again() && !client.conn.awaits_request(b""));
        client
    };
    // It comes, and so do more requests meanwhile.
    exhaust();
    let mut client = ask();
    client.feed(get("/app.js").as_bytes());
    assert!(!client.expire(49, 0), "it is tried again, but not at once");
    assert!(client.expire(1, 0));
    rig.faults.borrow_mut().clear();
    assert!(client.expire(50, 0));
    assert_eq!(client.statuses(), [200, 200]);
    assert!(!client.conn.tries_again());
    rig.pass(10_000);
    // It does not come.
    let rig = Rig::new(Site::default());
    rig.faults.borrow_mut().insert(b"ten.txt".to_vec(), OpenFault::Exhausted);
    let mut client = rig.connect_with(get("/ten.txt").as_bytes());
    gets(&mut client, 503, 200);
    assert_eq!(client.responses(&[])[0].field("retry-after").as_deref(), Some("1"));
    assert_eq!(rig.opens.get(), 201);
    // Its client ends its half, or sends far too much: the answer comes now.
    for early in [Vec::new(), get("/").repeat(1_000).into_bytes()] {
        let mut client = rig.connect_with(get("/ten.txt").as_bytes());
        client.feed(&early);
        assert_eq!(client.statuses()[0], 503);
    }
    // Its client is gone.
    let mut client = rig.connect_with(get("/ten.txt").as_bytes());
    client.fail(Fault::Reset);
    assert_eq!(client.closed, Some(CloseReason::Reset));
}

/// A name that is missing while the root is being replaced is tried again, for three seconds.
#[test]
fn what_is_missing_waits_for_the_new_root() {
    let rig = Rig::new(Site::default());
    let replaced = || rig.faults.borrow_mut().insert(b"ten.txt".to_vec(), OpenFault::RootReplaced);
    let ask = || rig.connect_with(get("/ten.txt").as_bytes());
    replaced();
    let mut client = ask();
    client.expire(50, 0);
    assert_eq!(client.output.len(), 0);
    rig.faults.borrow_mut().clear();
    gets(&mut client, 200, 1);
    // Known entries are as good as if nothing were being replaced.
    rig.pass(1000);
    replaced();
    let mut client = ask();
    assert_eq!(client.output.len(), 0);
    gets(&mut client, 200, 1);
    // It does not come.
    rig.cx().cache.clear(rig.now().tick, &rig.cx().tally);
    gets(&mut ask(), 404, 120);
    // Its client ends its half: the answer comes now.
    rig.pass(10_000);
    let mut client = ask();
    client.end();
    assert_eq!(client.statuses(), [404]);
}

/// A file that was opened below the old root, and arrives later, is sent and not remembered.
#[test]
fn nothing_of_the_old_root_is_remembered() {
    let rig = Rig::new(Site::default());
    let ten = || body(&rig, "/ten.txt");
    let first = ten();
    let opens = rig.opens.get();
    assert_eq!((ten(), rig.opens.get()), (first.clone(), opens));
    rig.cx().cache.clear(rig.now().tick, &rig.cx().tally);
    rig.cache.check_invariants();
    assert_eq!((rig.cache.entries(), rig.cache.negatives(), rig.cache.bytes()), (0, 0, 0));
    for again in 1..3 {
        assert_eq!(
            (ten(), rig.opens.get()),
            (first.clone(), opens + again),
            "looked up in that tick"
        );
    }
    rig.pass(1);
    ten();
    assert_eq!((ten(), rig.opens.get()), (first, opens + 3));
}

/// Files that the cache keeps open are closed first when descriptors are needed.
#[test]
fn the_cache_gives_up_descriptors_that_are_needed() {
    let rig = Rig::new(Site::default());
    for at in 0..40 {
        rig.put(&format!("large{at}"), &pattern(100_000));
        body(&rig, &format!("/large{at}"));
    }
    assert_eq!(rig.cache.descriptors(), 40);
    rig.faults.borrow_mut().insert(b"ten.txt".to_vec(), OpenFault::Exhausted);
    let mut client = rig.connect_with(get("/ten.txt").as_bytes());
    assert_eq!((rig.cache.descriptors(), client.output.len()), (0, 0));
    rig.cache.check_invariants();
    rig.faults.borrow_mut().clear();
    gets(&mut client, 200, 1);
}

/// A busy file needs no descriptors of ours.
#[test]
fn a_file_that_is_busy_is_waited_for() {
    let rig = Rig::new(Site::default());
    body(&rig, "/big.bin");
    rig.faults.borrow_mut().insert(b"ten.txt".to_vec(), OpenFault::Busy);
    let mut client = rig.connect_with(get("/ten.txt").as_bytes());
    assert!(client.expire(50, 0));
    assert_eq!((rig.cache.descriptors(), client.output.len()), (1, 0));
    rig.faults.borrow_mut().clear();
    gets(&mut client, 200, 1);
    rig.pass(1_000);
    rig.faults.borrow_mut().insert(b"ten.txt".to_vec(), OpenFault::Busy);
    assert_eq!(body(&rig, "/ten.txt"), b"0123456789", "what is known is served meanwhile");
    rig.faults.borrow_mut().insert(b"app.js".to_vec(), OpenFault::Busy);
    client.feed(get("/app.js").as_bytes());
    for _ in 0..200 {
        assert_eq!(client.statuses(), [200]);
        client.expire(50, 0);
    }
    assert_eq!(client.statuses(), [200, 503]);
}

/// A file that has just changed may change again without showing it. Its tag is weak until it has
/// aged, and another one then: a client with the first content is not told that it is current.
#[test]
fn what_has_just_changed_has_a_weak_tag() {
    let rig = Rig::new(Site::default());
    let ask = |fields: &str| rig.respond(&get_with("/new.txt", fields));
    let now = rig.now().unix.cast_signed();
    let file = rig.put_at("new.txt", b"before", now);
    let young = ask("").field("etag").unwrap();
    assert!(young.starts_with("W/\""), "{young}");
    assert_eq!(ask(&format!("If-None-Match: {young}\r\n")).status, 304);
    assert_eq!(ask(&format!("If-Match: {young}\r\n")).status, 412);
    let strong = &young[2..];
    let date = String::from_utf8(date::format(now).to_vec()).unwrap();
    for value in [&young, strong, &date] {
        let fields = format!("Range: bytes=0-1\r\nIf-Range: {value}\r\n");
        assert_eq!(ask(&fields).status, 200, "{value}");
    }
    assert_eq!(ask("Range: bytes=0-1\r\n").status, 206, "who asks for no more than that gets it");
    file.rewrite(b"after!");
    rig.pass(2_000);
    let answer = ask(&format!("If-None-Match: {young}\r\n"));
    assert_eq!((answer.status, &*answer.body), (200, &b"after!"[..]));
    let old = answer.field("etag").unwrap();
    assert!(old.starts_with('"') && old != strong, "{old}");
    rig.pass(5_000);
    assert_eq!(ask(&format!("If-None-Match: {old}\r\n")).status, 304);
    let fields = format!("Range: bytes=0-1\r\nIf-Range: {old}\r\n");
    assert_eq!(ask(&fields).status, 206);
}

/// Age counts from when the disk was asked: it may have looked any time since.
#[test]
fn a_slow_open_makes_a_file_no_younger() {
    let rig = Rig::new(Site::default());
    let mut slow = rig.connect_held(OpKind::Open, get("/ten.txt").as_bytes());
    rig.pass(600);
    slow.release();
    rig.put("ten.txt", b"9876543210");
    rig.pass(399);
    assert_eq!(body(&rig, "/ten.txt"), b"0123456789");
    rig.pass(1);
    assert_eq!(body(&rig, "/ten.txt"), b"9876543210");
}

/// Unused entries are closed in small pieces, wherever they are; the rest stays.
#[test]
fn what_is_inactive_is_forgotten() {
    const FILES: u64 = 100;
    let rules = CachingRules { inactive_ms: 8_000, revalidate_ms: 60_000, ..Default::default() };
    let rig = with(rules);
    let sweep = || rig.cache.sweep(rig.now().tick, &rig.cx().tally);
    assert_eq!(sweep(), None, "nothing is there");
    let held = rig.put("large7", &pattern(100_000));
    for at in 0..FILES {
        rig.put(&format!("large{at}"), &pattern(100_000));
        body(&rig, &format!("/large{at}"));
    }
    drop(held);
    body(&rig, "/ten.txt");
    rig.ask(&get("/missing"));
    let lived = |ms: u64| {
        let end = rig.tick.get() + ms;
        while let Some(on) = sweep().filter(|on| on.0 < end) {
            rig.tick.set(on.0.max(rig.tick.get() + 1));
        }
        rig.tick.set(end);
    };
    for _ in 0..4 {
        lived(2_500);
        assert_eq!(body(&rig, "/large42").len(), 100_000);
    }
    assert_eq!((rig.cache.descriptors(), rig.cache.entries(), rig.cache.negatives()), (1, 1, 0));
    assert_eq!(rig.opens.get(), FILES + 3);
    lived(10_000);
    assert_eq!((rig.cache.bytes(), sweep()), (0, None));
    assert_eq!(rig.count(Counter::CacheInactive), rig.count(Counter::CacheEntriesAdded));
    rig.cache.check_invariants();
}

/// The bytes of an open file are current, so its facts are checked before they are sent.
#[test]
fn an_open_file_is_sent_as_what_it_is_now() {
    let rig = with(CachingRules { revalidate_ms: 60_000, ..CachingRules::default() });
    let file = rig.put("large.bin", &pattern(100_000));
    let tag = rig.respond(&get("/large.bin")).field("etag").unwrap();
    let resume = || {
        let fields = format!("Range: bytes=50000-\r\nIf-Range: {tag}\r\n");
        rig.respond(&get_with("/large.bin", &fields))
    };
    assert_eq!((resume().status, resume().body.len(), rig.opens.get()), (206, 50_000, 1));
    // A changed file is opened again, once; the old one is forgotten, and nothing is spliced.
    file.truncate(60_000);
    let new = rig.put("large.bin", &pattern(90_000));
    let whole = resume();
    assert_eq!((whole.status, whole.body.len(), rig.opens.get()), (200, 90_000, 2));
    assert_ne!(whole.field("etag").unwrap(), tag);
    assert_eq!(file.holders(), 1, "the cache has let go of it");
    // No check happens if no bytes of the file are sent.
    new.truncate(10);
    let mut client = rig.connect_with(b"HEAD /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!client.kinds.contains(&OpKind::Stat));
    client.feed(get("/ten.txt").as_bytes());
    client.kinds.clear();
    client.feed(get("/ten.txt").as_bytes());
    assert!(!client.kinds.contains(&OpKind::Stat), "what is in memory is sent as it is");
}

/// The bytes read from an open file are current, too: a file that was opened for a `HEAD` and
/// written in place since is not kept under its old facts.
#[test]
fn an_open_file_is_read_as_what_it_is_now() {
    let rig = with(CachingRules { revalidate_ms: 60_000, ..CachingRules::default() });
    let (old, new) = (pattern(3_000), pattern(5_000));
    let file = rig.put("page.html", &old);
    let output = rig.ask("HEAD /page.html HTTP/1.1\r\nHost: a\r\n\r\n");
    let tag = Response::parse(&output, true).0.field("etag");
    file.overwrite(&new);
    rig.put("page.html", &new);
    for _ in 0..2 {
        let page = rig.respond(&get("/page.html"));
        assert!(page.body == new, "{}", page.head);
        assert!(page.field("etag").is_some() && page.field("etag") != tag, "{}", page.head);
    }
    assert_eq!((rig.opens.get(), rig.count(Counter::Reads)), (2, 2));
    assert_eq!(file.holders(), 1, "the cache has let go of it");
}

/// A file may be written between two parts of its body, and whenever it is read. No body is put
/// together from two contents, and no client waits for a file that never stays the same.
#[test]
fn parts_of_two_contents_are_not_put_together() {
    let rig = with(CachingRules { read_bytes_max: 4, ..CachingRules::default() });
    let file = rig.put("twelve.txt", b"abcdefghijkl");
    let mut client = rig.connect_held(OpKind::Read, get("/twelve.txt").as_bytes());
    client.read_once();
    file.overwrite(b"ABCDEFGHIJKLMN");
    rig.put("twelve.txt", b"ABCDEFGHIJKLMN");
    client.release();
    assert!(client.output.ends_with(b"\r\n\r\nABCDEFGHIJKLMN"));
    assert_eq!(body(&rig, "/twelve.txt"), b"ABCDEFGHIJKLMN");
    let rig = Rig::new(Site::default());
    let mut file = rig.put("busy.log", &pattern(10));
    let mut client = rig.connect_held(OpKind::Read, get("/busy.log").as_bytes());
    for len in 11..14 {
        assert!(client.output.is_empty());
        file.overwrite(&pattern(len));
        file = rig.put("busy.log", &pattern(len));
        client.read_once();
    }
    assert_eq!((client.statuses(), rig.opens.get()), (vec![200], 3));
    assert!(client.output.ends_with(&[&b"\r\n\r\n"[..], &pattern(12)].concat()));
    // No check has shown that it is of one content: it is not remembered.
    assert_eq!((body(&rig, "/busy.log"), rig.opens.get()), (pattern(13), 4));
}
