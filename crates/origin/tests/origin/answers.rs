//! Choice of the file that answers, and the fields that describe it.
use crate::rig::{Expected, Rig, check, get, get_with, pattern};
use regatta_op::{Fault, OpKind, OpenFault};
use regatta_origin::{ContentRules, FileOperation, Site};

fn with(content: ContentRules) -> Rig {
    Rig::new(Site { content, ..Site::default() })
}

#[test]
fn files_directories_and_nothing() {
    let rig = Rig::new(Site::default());
    let small = pattern(4 << 10);
    let (mid, big) = (pattern(40 << 10), pattern(200 << 10));
    let html = ("content-type", "text/html; charset=utf-8");
    let octets = ("content-type", "application/octet-stream");
    let rows: &[(&str, u16, &[(&str, &str)], &[u8])] = &[
        ("/", 200, &[html, ("cache-control", "no-cache")], b"<h1>home</h1>\n"),
        ("/?query", 200, &[html], b"<h1>home</h1>\n"),
        ("/index.html", 200, &[html], b"<h1>home</h1>\n"),
        ("/docs/", 200, &[html], b"docs"),
        ("/docs/guide.html", 200, &[html], b"guide"),
        ("/docs//guide.html", 200, &[html], b"guide"),
        ("/docs/./x/../guide.html", 200, &[html], b"guide"),
        ("/%64ocs/guide%2ehtml", 200, &[html], b"guide"),
        ("http://other/docs/", 200, &[html], b"docs"),
        ("/small.bin", 200, &[octets, ("content-length", "4096")], &small),
        ("/mid.bin", 200, &[octets, ("content-length", "40960")], &mid),
        ("/big.bin", 200, &[octets, ("content-length", "204800")], &big),
        ("/empty.txt", 200, &[("content-length", "0")], b""),
        ("/with%20space.txt", 200, &[("content-type", "text/plain; charset=utf-8")], b"spaced"),
        ("/.well-known/acme", 200, &[], b"yes"),
        ("/docs", 301, &[("location", "./docs/")], b""),
        ("/docs?a=b", 301, &[("location", "./docs/?a=b")], b""),
        ("/x/../docs", 301, &[("location", "./docs/")], b""),
        ("/.hidden", 404, &[html], b"<h1>lost</h1>\n"),
        ("/nothing", 404, &[html, ("etag", ""), ("last-modified", "")], b"<h1>lost</h1>\n"),
        ("/ten.txt/", 404, &[], b"<h1>lost</h1>\n"),
        ("/ten.txt/x", 404, &[], b"<h1>lost</h1>\n"),
        ("/..", 400, &[], b""),
        ("/%00", 400, &[], b""),
        ("/%2e%2e/etc/passwd", 400, &[], b""),
        ("/a%2fb", 400, &[], b""),
        ("/%zz", 400, &[], b""),
    ];
    for (path, status, fields, body) in rows {
        let body = (*status == 200 || *status == 404).then_some(*body);
        let expected = Expected { status: *status, fields, body };
        let got = check(&rig, &get(path), &expected);
        let head = got.head.len();
        if got.status == 200 {
            assert!((180..=300).contains(&head), "{path}: a head of {head} bytes\n{}", got.head);
        }
        // HEAD says the same.
        let request = get(path).replace("GET", "HEAD");
        let headed = check(&rig, &request, &Expected { body: Some(b""), ..expected });
        assert_eq!(headed.head, got.head, "{path}");
    }
}

#[test]
fn a_redirect_leads_nowhere_else() {
    let rig = Rig::new(Site::default());
    rig.put("evil.example/x", b"");
    rig.put("\\evil.example/x", b"");
    rig.put("a:b/x", b"");
    rig.put("javascript:alert(1)/x", b"");
    let rows = [
        ("//evil.example", "./evil.example/"),
        ("///evil.example", "./evil.example/"),
        ("/%5cevil.example", "./%5cevil.example/"),
        ("/\\evil.example", "./%5Cevil.example/"),
        ("/a:b", "./a:b/"),
        ("/javascript:alert(1)", "./javascript:alert(1)/"),
        ("/docs?//evil.example", "./docs/?//evil.example"),
        ("http://evil.example/docs", "./docs/"),
    ];
    for (path, location) in rows {
        // It has no validator: there is nothing a cache could ask with.
        let fields = [("location", location), ("cache-control", ""), ("etag", "")];
        check(&rig, &get(path), &Expected { status: 301, fields: &fields, body: None });
    }
    for path in ["/%2f%2fevil.example", "/%2Fevil.example", "//evil.example/%2f.."] {
        check(&rig, &get(path), &Expected { status: 400, fields: &[("location", "")], body: None });
    }
}

#[test]
fn methods() {
    let rig = Rig::new(Site::default());
    let allow = ("allow", "GET, HEAD, OPTIONS");
    let rows: &[(&str, u16, &[(&str, &str)])] = &[
        ("OPTIONS / HTTP/1.1", 204, &[allow, ("content-length", "")]),
        ("OPTIONS * HTTP/1.1", 204, &[allow]),
        ("POST / HTTP/1.1", 405, &[allow]),
        ("PUT /x HTTP/1.1", 405, &[allow]),
        ("DELETE / HTTP/1.1", 405, &[allow]),
        ("TRACE / HTTP/1.1", 405, &[allow]),
        ("PATCH / HTTP/1.1", 405, &[allow]),
        ("BREW / HTTP/1.1", 501, &[("allow", "")]),
        ("get / HTTP/1.1", 501, &[]),
    ];
    for (line, status, fields) in rows {
        let request = format!("{line}\r\nHost: a\r\n\r\n");
        check(&rig, &request, &Expected { status: *status, fields, body: None });
    }
}

#[test]
fn content_codings() {
    let rig = Rig::new(Site::default());
    let [br, gz, plain] = [vec![b'b'; 700], vec![b'g'; 900], vec![b'j'; 3000]];
    let rows: &[(&str, &str, &[u8])] = &[
        ("", "", &plain),
        ("gzip", "gzip", &gz),
        ("x-gzip", "gzip", &gz),
        ("br", "br", &br),
        ("gzip, deflate, br, zstd", "br", &br),
        ("br;q=0.5, gzip", "gzip", &gz),
        ("zstd", "", &plain),
        ("*", "br", &br),
        ("br;q=0, *", "gzip", &gz),
        ("identity, br;q=0.1", "", &plain),
        ("identity", "", &plain),
        ("br;q=0", "", &plain),
    ];
    let mut tags = Vec::new();
    for (accept, coding, body) in rows {
        let field = format!("Accept-Encoding: {accept}\r\n");
        let request = get_with("/app.js", if accept.is_empty() { "" } else { &field });
        let fields = [
            ("content-encoding", *coding),
            ("vary", "Accept-Encoding"),
            ("content-type", "text/javascript; charset=utf-8"),
        ];
        let expected = Expected { status: 200, fields: &fields, body: Some(body) };
        let got = check(&rig, &request, &expected);
        tags.push((*coding, got.field("etag").unwrap()));
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3, "one strong tag for each coding: {tags:?}");
    assert!(tags.iter().all(|(_, tag)| tag.starts_with('"')));

    let ask = |path: &str, accept: &str| get_with(path, &format!("Accept-Encoding: {accept}\r\n"));
    // The client refuses all forms: it gets the file unchanged, rather than none.
    let fields = [("vary", "Accept-Encoding"), ("content-encoding", "")];
    let unchanged = Expected { status: 200, fields: &fields, body: None };
    check(&rig, &ask("/app.js", "identity;q=0, zstd"), &unchanged);
    // No siblings: no negotiation.
    let fields = [("vary", ""), ("content-encoding", "")];
    let expected = Expected { status: 200, fields: &fields, body: None };
    check(&rig, &ask("/ten.txt", "br"), &expected);
    let rig = with(ContentRules { precompressed: false, ..ContentRules::default() });
    check(&rig, &ask("/app.js", "br"), &Expected { body: Some(&plain), ..expected });
}

#[test]
fn clean_urls() {
    let rig = with(ContentRules { clean_urls: true, ..ContentRules::default() });
    rig.put("about.html", b"about");
    rig.put("both.html", b"page");
    rig.put("both/index.html", b"index");
    rig.put("both/x", b"x");
    let rows: &[(&str, u16, &[u8])] = &[
        ("/about", 200, b"about"),
        ("/about.html", 200, b"about"),
        ("/about/", 404, b"<h1>lost</h1>\n"),
        ("/both", 200, b"page"),
        ("/both/", 200, b"index"),
        ("/docs", 301, b""),
        ("/docs/guide", 200, b"guide"),
        ("/none", 404, b"<h1>lost</h1>\n"),
    ];
    for (path, status, body) in rows {
        let body = (*status != 301).then_some(*body);
        check(&rig, &get(path), &Expected { status: *status, fields: &[], body });
    }
}

#[test]
fn the_fallback_answers_navigations_only() {
    let rig = with(ContentRules { fallback: "index.html".into(), ..ContentRules::default() });
    let rows = [
        ("/users/7", "Accept: text/html,application/xhtml+xml", 200),
        ("/users/7", "Accept: */*, text/html;q=0.5", 200),
        ("/users/7", "Sec-Fetch-Dest: document", 200),
        ("/users/7/", "Accept: text/html", 200),
        ("/users/old.html", "Accept: text/html", 200),
        ("/users/7", "Accept: */*", 404),
        ("/users/7", "Accept: application/json", 404),
        ("/users/7", "Sec-Fetch-Dest: script", 404),
        ("/users/7", "Sec-Fetch-Dest: iframe", 200),
        // `Sec-Fetch-Dest` decides, whatever else the client accepts.
        ("/users/7", "Accept: text/html\r\nSec-Fetch-Dest: script", 404),
        ("/users/7", "Sec-Fetch-Dest: document\r\nAccept: */*", 200),
        ("/users/7", "X: y", 404),
        ("/app.3f9c2ab1.js", "Accept: text/html", 404),
        ("/logo.png", "Sec-Fetch-Dest: document", 404),
        ("/.hidden", "Accept: text/html", 404),
    ];
    for (path, field, status) in rows {
        let request = get_with(path, &format!("{field}\r\n"));
        let body: &[u8] = if status == 200 { b"<h1>home</h1>\n" } else { b"<h1>lost</h1>\n" };
        // Also in the 404: a cache must not serve it to a client that asks for a page.
        let fields = [("vary", "Accept, Sec-Fetch-Dest")];
        check(&rig, &request, &Expected { status, fields: &fields, body: Some(body) });
    }
    let content = ContentRules {
        fallback: "index.html".into(),
        not_found: "".into(),
        ..ContentRules::default()
    };
    let fields = [("vary", "Accept, Sec-Fetch-Dest")];
    let expected = Expected { status: 404, fields: &fields, body: None };
    check(&with(content), &get("/app.js.map"), &expected);
    // Parts of it and its not having changed depend on the same fields (RFC 9110 §15.4.5).
    for (field, status) in
        [("Range: bytes=0-1", 206), ("Range: bytes=0-1,5-6", 206), ("If-None-Match: *", 304)]
    {
        let request = get_with("/users/7", &format!("Accept: text/html\r\n{field}\r\n"));
        check(&rig, &request, &Expected { status, ..expected });
    }
}

#[test]
fn faults_of_the_disk() {
    let rig = Rig::new(Site::default());
    let rows = [
        ("denied", OpenFault::Denied, 403, ("retry-after", "")),
        ("outside", OpenFault::Outside, 404, ("retry-after", "")),
        ("fifo", OpenFault::NotAFile, 404, ("retry-after", "")),
        ("odd", OpenFault::Other(5), 500, ("retry-after", "")),
    ];
    for (path, fault, status, field) in rows {
        rig.faults.borrow_mut().insert(path.into(), fault);
        let expected = Expected { status, fields: &[field], body: None };
        check(&rig, &get(&format!("/{path}")), &expected);
    }
    // The cause of the 500 is for the operator, each time, because it is not remembered. A lack of
    // permission is for the operator too, and it is remembered.
    let mut faults = rig.log.faults.take();
    assert_eq!(faults.iter().filter(|(name, ..)| name == "odd").count(), 3);
    faults.dedup();
    let named = |name: &str, errno| (name.to_owned(), FileOperation::Open, errno);
    assert_eq!(faults, [named("denied", 13), named("odd", 5)]);
    // A page for 404 that cannot be read is no reason for anything worse.
    rig.faults.borrow_mut().insert("404.html".into(), OpenFault::Denied);
    rig.pass(5_000);
    check(&rig, &get("/none"), &Expected { status: 404, fields: &[], body: None });
}

#[test]
fn a_body_that_cannot_be_read() {
    let rig = Rig::new(Site::default());
    let mut client = rig.connect_held(OpKind::Read, get("/ten.txt").as_bytes());
    client.fail(Fault::Other(5));
    assert_eq!(client.statuses(), [500]);
    assert_eq!(rig.log.faults.take(), [("ten.txt".to_owned(), FileOperation::Read, 5)]);
    // Nor is that remembered.
    let served = Expected { status: 200, fields: &[], body: Some(b"0123456789") };
    check(&rig, &get("/ten.txt"), &served);
}

#[test]
fn fields_can_be_left_out() {
    let rig = with(ContentRules {
        nosniff: false,
        charset: "".into(),
        cache_control_page: "".into(),
        not_found: "".into(),
        dotfiles: true,
        index: Box::default(),
        ..ContentRules::default()
    });
    let fields = [
        ("x-content-type-options", ""),
        ("cache-control", ""),
        ("content-type", "text/html"),
        ("accept-ranges", "bytes"),
        ("server", "regatta"),
        ("date", "Tue, 14 Nov 2023 22:13:21 GMT"),
        ("last-modified", "Sun, 13 Sep 2020 12:26:40 GMT"),
    ];
    check(&rig, &get("/index.html"), &Expected { status: 200, fields: &fields, body: None });
    check(&rig, &get("/.hidden"), &Expected { status: 200, fields: &[], body: Some(b"no") });
    let page = b"<!doctype html><title>404 Not Found</title><h1>404 Not Found</h1>\n";
    let fields = [("x-content-type-options", "nosniff")];
    check(&rig, &get("/"), &Expected { status: 404, fields: &fields, body: Some(page) });
}

#[test]
fn conditions() {
    let rig = Rig::new(Site::default());
    let page = check(&rig, &get("/ten.txt"), &Expected { status: 200, fields: &[], body: None });
    let tag = page.field("etag").unwrap();
    let date = page.field("last-modified").unwrap();
    let old = "Sun, 13 Sep 2020 12:26:39 GMT";
    let rows = [
        (format!("If-None-Match: {tag}"), 304),
        (format!("If-None-Match: W/{tag}"), 304),
        (format!("If-None-Match: \"x\", {tag}"), 304),
        (format!("If-None-Match: \"x\"\r\nIf-None-Match: {tag}"), 304),
        ("If-None-Match: *".into(), 304),
        ("If-None-Match: \"x\"".into(), 200),
        (format!("If-Modified-Since: {date}"), 304),
        (format!("If-Modified-Since: {old}"), 200),
        ("If-Modified-Since: yesterday".into(), 200),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {date}"), 200),
        (format!("If-Match: {tag}"), 200),
        ("If-Match: *".into(), 200),
        ("If-Match: \"x\"".into(), 412),
        (format!("If-Match: W/{tag}"), 412),
        (format!("If-Unmodified-Since: {date}"), 200),
        (format!("If-Unmodified-Since: {old}"), 412),
        (format!("If-Match: {tag}\r\nIf-Unmodified-Since: {old}"), 200),
        (format!("If-Match: {tag}\r\nIf-None-Match: {tag}"), 304),
        (format!("If-Match: \"x\"\r\nIf-None-Match: {tag}"), 412),
        (format!("If-None-Match: {tag}\r\nRange: bytes=0-1"), 304),
        (format!("If-Match: {tag}\r\nRange: bytes=0-1"), 206),
    ];
    for (fields, status) in rows {
        let request = get_with("/ten.txt", &format!("{fields}\r\n"));
        let expected = Expected { status, fields: &[], body: None };
        let got = check(&rig, &request, &expected);
        if status == 304 {
            assert_eq!(got.field("etag").as_ref(), Some(&tag));
            assert_eq!(got.field("content-length"), None);
            assert_eq!(got.field("cache-control").as_deref(), Some("no-cache"));
        }
        if status != 206 {
            let head = check(&rig, &request.replace("GET", "HEAD"), &expected).head;
            assert_eq!(head, got.head);
        }
    }
    // The tag of one coding is not that of another.
    let request = get_with("/app.js", "Accept-Encoding: br\r\n");
    let coded = check(&rig, &request, &Expected { status: 200, fields: &[], body: None });
    let tag = coded.field("etag").unwrap();
    for (accept, status) in [("br", 304), ("gzip", 200)] {
        let fields = format!("Accept-Encoding: {accept}\r\nIf-None-Match: {tag}\r\n");
        let vary = Expected { status, fields: &[("vary", "Accept-Encoding")], body: None };
        check(&rig, &get_with("/app.js", &fields), &vary);
    }
}
