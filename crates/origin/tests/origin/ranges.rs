//! Byte ranges, of files in memory and of files on disk.
use crate::rig::{Expected, Rig, check, get, get_with, pattern};
use regatta_op::{Done, Op};
use regatta_origin::{CachingRules, Protocol as _, Site};

/// Every row holds for the same file in memory, copied or not, and on disk.
fn rigs() -> Vec<Rig> {
    let caching = [
        CachingRules::default(),
        CachingRules { copy_bytes_max: 0, ..CachingRules::default() },
        CachingRules { body_bytes_max: 0, ..CachingRules::default() },
        CachingRules { enabled: false, ..CachingRules::default() },
    ];
    caching.map(|caching| Rig::new(Site { caching, ..Site::default() })).into()
}

fn ask(range: &str, more: &str) -> String {
    get_with("/ten.txt", &format!("Range: {range}\r\n{more}"))
}

#[test]
fn one_range() {
    let rows: &[(&str, u16, &str, &[u8])] = &[
        ("bytes=0-0", 206, "bytes 0-0/10", b"0"),
        ("bytes=2-4", 206, "bytes 2-4/10", b"234"),
        ("bytes=5-", 206, "bytes 5-9/10", b"56789"),
        ("bytes=-3", 206, "bytes 7-9/10", b"789"),
        ("bytes=-99", 206, "bytes 0-9/10", b"0123456789"),
        ("bytes=8-99999999999999999999999", 206, "bytes 8-9/10", b"89"),
        ("bytes=0-1,2-3", 206, "bytes 0-3/10", b"0123"),
        ("bytes=10-", 416, "bytes */10", b""),
        ("bytes=-0", 416, "bytes */10", b""),
        ("bytes=5-4", 200, "", b"0123456789"),
        ("bytes=a-b", 200, "", b"0123456789"),
        ("lines=1-2", 200, "", b"0123456789"),
        ("bytes=0-9,0-9", 200, "", b"0123456789"),
        ("bytes=", 200, "", b"0123456789"),
    ];
    for rig in rigs() {
        for (range, status, content_range, body) in rows {
            let fields = [("content-range", *content_range)];
            let body = (*status != 416).then_some(*body);
            check(&rig, &ask(range, ""), &Expected { status: *status, fields: &fields, body });
            let whole = Expected { status: 200, fields: &[("content-range", "")], body: None };
            check(&rig, &ask(range, "").replace("GET", "HEAD"), &whole);
        }
    }
}

#[test]
fn many_ranges() {
    for rig in rigs() {
        let request = ask("bytes=0-1, 4-5, -1", "");
        let got = check(&rig, &request, &Expected { status: 206, fields: &[], body: None });
        let content_type = got.field("content-type").unwrap();
        let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let mut expected = String::new();
        for (range, text) in [("0-1", "01"), ("4-5", "45"), ("9-9", "9")] {
            expected += &format!(
                "\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
                 Content-Range: bytes {range}/10\r\n\r\n{text}"
            );
        }
        expected += &format!("\r\n--{boundary}--\r\n");
        assert_eq!(String::from_utf8(got.body.clone()).unwrap(), expected[2..]);
        assert!(got.field("etag").is_some() && got.field("content-range").is_none());
        // Another response, another boundary.
        let again = check(&rig, &request, &Expected { status: 206, fields: &[], body: None });
        assert_ne!(again.field("content-type").unwrap(), content_type);
    }
}

#[test]
fn more_ranges_than_allowed_are_none() {
    let rig = Rig::new(Site::default());
    let many: Vec<_> = (0..40).map(|at| format!("{at}-{at}")).step_by(2).collect();
    let request = get_with("/small.bin", &format!("Range: bytes={}\r\n", many.join(",")));
    check(&rig, &request, &Expected { status: 200, fields: &[], body: Some(&pattern(4096)) });
}

#[test]
fn if_range() {
    for rig in rigs() {
        let part = Expected { status: 206, fields: &[], body: None };
        let got = check(&rig, &ask("bytes=0-0", ""), &part);
        let tag = got.field("etag").unwrap();
        let date = got.field("last-modified").unwrap();
        let rows = [
            (format!("If-Range: {tag}\r\n"), 206),
            (format!("If-Range: {date}\r\n"), 206),
            (format!("If-Range: W/{tag}\r\n"), 200),
            ("If-Range: \"x\"\r\n".into(), 200),
            ("If-Range: Sun, 13 Sep 2020 12:26:41 GMT\r\n".into(), 200),
        ];
        for (more, status) in rows {
            check(&rig, &ask("bytes=0-0", &more), &Expected { status, ..part });
        }
    }
}

#[test]
fn ranges_of_a_large_file_and_of_a_coding() {
    let rig = Rig::new(Site::default());
    let big = pattern(200 << 10);
    let request = get_with("/big.bin", "Range: bytes=100000-150000\r\n");
    let body = Some(&big[100_000..=150_000]);
    check(&rig, &request, &Expected { status: 206, fields: &[], body });
    let request = get_with("/app.js", "Accept-Encoding: br\r\nRange: bytes=690-\r\n");
    let fields = [("content-encoding", "br"), ("content-range", "bytes 690-699/700")];
    check(&rig, &request, &Expected { status: 206, fields: &fields, body: Some(&[b'b'; 10]) });
}

/// A range is no copy: the body is there once, for any number of slow peers.
#[test]
fn long_ranges_share_the_body() {
    let caching = CachingRules { clear_body_bytes_max: 64 << 10, ..CachingRules::default() };
    let rig = Rig::new(Site { caching, ..Site::default() });
    rig.ask(&get("/mid.bin"));
    // As many as there may be: with the head they are 34 slices of memory, which go with one call.
    let most = (0..16).map(|at| format!("{}-{}", at * 2_500, at * 2_500 + 1_199));
    let most = format!("bytes={}", most.collect::<Vec<_>>().join(","));
    let rows = [
        ("bytes=1-", 1, 40_959),
        ("bytes=1-16384", 0, 16_384),
        ("bytes=1-16385", 1, 16_385),
        ("bytes=0-9,20000-39999", 5, 20_010),
        ("bytes=0-9,20000-29999", 0, 10_010),
        (&*most, 33, 19_200),
    ];
    for (range, segments, len) in rows {
        let request = get_with("/mid.bin", &format!("Range: {range}\r\n"));
        let mut client = rig.connect();
        let mut conn = client.take_conn();
        conn.complete(Done::Recv(Ok(request.as_bytes())), rig.now(), &rig.cx());
        let Some(Op::Send(outbox)) = conn.next_op() else { panic!("{range} is in memory") };
        let own = outbox.head().len();
        assert_eq!(outbox.segments().count(), segments, "{range}");
        assert_eq!(own < 1_000, segments > 0, "{range}: {own} bytes of its own");
        assert!((len..len + 4_000).contains(&outbox.len()), "{range}: {}", outbox.len());
    }
}
