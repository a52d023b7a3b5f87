//! A hit allocates nothing: counted.
//!
//! A program of its own: the tables of `origin` run on the allocator that programs have.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use regatta_http::pattern::Pattern;
use regatta_metrics::{Arena, Tally};
use regatta_op::{Coding, Done, File, FileId, Modified, Now, Op, OpenFault, OpenReq, Opened, Tick};
use regatta_origin::{
    AuthRule, ClearHttp1, CorsOptions, CorsRule, Cx, HeaderLine, Link, LocalCache, Log,
    Protocol as _, Record, Redirect, Scratch, Site,
};
use regatta_sys::alloc_count::{Counting, allocations};
use std::{net::SocketAddr, sync::Arc, sync::atomic::AtomicU64};

#[global_allocator]
static COUNTING: Counting = Counting;

#[derive(Clone, Debug)]
struct FakeFile(Arc<FileId>);

impl File for FakeFile {
    fn id(&self) -> FileId {
        *self.0
    }
}

struct Listening;

impl Log for Listening {
    fn wants(&self) -> bool {
        true
    }

    fn record(&self, record: &Record<'_>) {
        assert!(record.status < 400);
    }
}

const NOW: Now = Now { tick: Tick(5), unix: 1_700_000_000 };

fn open(req: &OpenReq) -> Result<Opened<FakeFile>, OpenFault> {
    let len = match req.below().1 {
        b"small.html" | b"docs/index.html" | b"index.html" => 4_096,
        b"mid.css" => 40_000,
        b"large.bin" => 1 << 20,
        b"docs" => return Ok(Opened::Directory),
        _ => return Err(OpenFault::NotFound),
    };
    let time = Modified { secs: 1_600_000_000, nanos: 1 };
    let id = FileId { len, modified: time, changed: time, ..FileId::default() };
    let siblings = Coding::ALL.map(|coding| {
        let id = FileId { len: len / 3, ..id };
        req.siblings.has(coding).then(|| FakeFile(Arc::new(id)))
    });
    Ok(Opened::File { file: FakeFile(Arc::new(id)), siblings })
}

/// Feeds `request` and performs what follows, until the next request is awaited.
fn exchange(conn: &mut Link<FakeFile>, request: &[u8], now: Now, cx: &Cx<'_, FakeFile>) {
    while let Some(op) = conn.next_op() {
        match op {
            Op::Recv => conn.complete(Done::Recv(Ok(request)), now, cx),
            Op::Send(mut outbox) => {
                let len = outbox.len();
                outbox.advance(len);
                conn.complete(Done::Send(outbox, Ok(len)), now, cx);
                if conn.is_idle() {
                    return;
                }
            }
            Op::Open(ticket, req) => conn.complete(Done::Open(ticket, open(&req)), now, cx),
            Op::Read(ticket, mut read) => {
                read.buffer.resize(usize::try_from(read.len).unwrap(), b'x');
                conn.complete(Done::Read(ticket, read.buffer, Ok(())), now, cx);
            }
            Op::Stat(ticket, file) => {
                conn.complete(Done::Stat(ticket, Ok(file.id())), now, cx);
            }
            Op::Shut | Op::Close(_) => panic!("it goes on"),
        }
    }
}

fn check(request: &str, log: &dyn Log) {
    let mut site = Site::default();
    let everything = Pattern::parse("/*").unwrap();
    let line = HeaderLine::parse("Content-Security-Policy: default-src 'self'").unwrap();
    site.rules.add_headers(&everything, vec![line], "").unwrap();
    let redirect = Redirect::new(&everything, "/new/:splat", 301, false, "").unwrap();
    site.rules.add_redirect(&everything, redirect).unwrap();
    let docs = Pattern::parse("/docs/*").unwrap();
    let origins = &["https://a.example".to_owned()];
    let options = CorsOptions { origins, headers: &[], expose: &[], max_age_s: 5 };
    site.rules.add_cors(&docs, CorsRule::new(options, "").unwrap()).unwrap();
    // SHA-256 of abc.
    let user = "ann:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let rule = AuthRule::new("r", &[user.to_owned()], "").unwrap();
    site.rules.add_auth(&Pattern::parse("/mid.css").unwrap(), rule).unwrap();
    let own = (vec!["b.example".to_owned()], Site::default());
    let site = site.with_hosts(vec![own]);
    let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
    let arena = Arena::create(&words, 1);
    let cache = LocalCache::new(&site.caching, 7);
    let scratch = Scratch::new(7);
    let tally = Tally::Owned(arena.slot(0));
    let (site, cache, scratch) = (&site, &cache, &scratch);
    let cx = Cx { site, cache, tally, log, scratch, links: &ClearHttp1 };
    let peer = SocketAddr::from(([127, 0, 0, 1], 80)).into();
    let mut conn = Link::new(peer, NOW, &cx);
    for _ in 0..3 {
        exchange(&mut conn, request.as_bytes(), NOW, &cx);
    }
    let before = allocations();
    for step in 0..100 {
        let now = Now { unix: NOW.unix + step / 3, ..NOW };
        exchange(&mut conn, request.as_bytes(), now, &cx);
    }
    assert_eq!(allocations() - before, 0, "{request}");
    assert!(before > 0, "the allocator counts");
}

#[test]
fn a_hit_allocates_nothing() {
    let rows = [
        "GET /small.html HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD /small.html HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /small.html HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "GET /%73mall.html?x=y HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /docs/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /small.html HTTP/1.1\r\nHost: b.example\r\n\r\n",
        "GET /docs/ HTTP/1.1\r\nHost: B.Example.:80\r\n\r\n",
        "GET http://b.example/large.bin HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /docs/ HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\n\r\n",
        "GET /mid.css HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW5uOmFiYw==\r\n\r\n",
        "GET /mid.css HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW5uOmFiYw==\r\n\
         Accept-Encoding: gzip, br\r\n\r\n",
        "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=5-99\r\n\r\n",
        "GET /mid.css HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW5uOmFiYw==\r\n\
         Range: bytes=5-\r\n\r\n",
        "GET /small.html HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
        "GET /small.html HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyz",
    ];
    for request in rows {
        check(request, &regatta_origin::NoLog);
        check(request, &Listening);
        let twice = format!("{request}{request}");
        check(&twice, &Listening);
    }
}
