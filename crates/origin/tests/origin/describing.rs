//! The fields that describe a file, and those that are left out; heads that are refused.
use crate::rig::{Expected, FakeFile, Rig, check, get, get_with};
use regatta_http::pattern::Pattern;
use regatta_metrics::Counter;
use regatta_op::Now;
use regatta_origin::{ContentRules, HeaderLine, Limits, Links, Peer, Site};

/// A file that is found as an index, or without its suffix, has the fields of that path as well.
#[test]
fn a_file_has_the_fields_of_all_its_paths() {
    let content = ContentRules { clean_urls: true, ..ContentRules::default() };
    let mut site = Site { content, ..Site::default() };
    for (path, line) in [
        ("/", "X-Home: yes"),
        ("/docs/", "X-Docs: yes"),
        ("/docs/guide", "X-Guide: yes"),
        ("/*/guide.html", "X-File: yes"),
        ("/*", "X-All: yes"),
    ] {
        let pattern = Pattern::parse(path).unwrap();
        let line = HeaderLine::parse(line).unwrap();
        site.rules.merge_headers(&pattern, vec![line], "r.toml:1").unwrap();
    }
    let rig = Rig::new(site);
    for (path, home, docs, guide) in [
        ("/", "yes", "", ""),
        ("/index.html", "yes", "", ""),
        ("/docs/", "", "yes", ""),
        ("/docs/guide", "", "", "yes"),
        ("/docs/guide.html", "", "", "yes"),
        ("/ten.txt", "", "", ""),
    ] {
        let fields = [
            ("x-home", home),
            ("x-docs", docs),
            ("x-guide", guide),
            ("x-file", guide),
            ("x-all", "yes"),
        ];
        check(&rig, &get(path), &Expected { status: 200, fields: &fields, body: None });
    }
}

#[test]
fn only_the_very_date_of_a_file_finds_it_unchanged() {
    let rig = Rig::new(Site::default());
    rig.put_at("nix.css", b"body", 1);
    rig.put_at("zip.css", b"body", 315_532_800);
    for (path, modified, since, status) in [
        // 1,600,000,000 seconds after 1970.
        ("/ten.txt", "Sun, 13 Sep 2020 12:26:40 GMT", "Sun, 13 Sep 2020 12:26:40 GMT", 304),
        ("/ten.txt", "Sun, 13 Sep 2020 12:26:40 GMT", "Sun, 13 Sep 2020 12:26:41 GMT", 200),
        ("/ten.txt", "Sun, 13 Sep 2020 12:26:40 GMT", "Sun, 13 Sep 2020 12:26:39 GMT", 200),
        ("/nix.css", "", "Thu, 01 Jan 1970 00:00:01 GMT", 200),
        ("/zip.css", "", "Tue, 01 Jan 1980 00:00:00 GMT", 200),
    ] {
        let plain = Expected { status: 200, fields: &[("last-modified", modified)], body: None };
        check(&rig, &get(path), &plain);
        let request = get_with(path, &format!("If-Modified-Since: {since}\r\n"));
        check(&rig, &request, &Expected { status, fields: &[], body: None });
    }
}

#[test]
fn an_empty_sibling_is_not_sent() {
    let rig = Rig::new(Site::default());
    rig.put("app.js.br", b"");
    for (accepted, coding) in [("br", ""), ("br, gzip", "gzip")] {
        let request = get_with("/app.js", &format!("Accept-Encoding: {accepted}\r\n"));
        let fields = [("content-encoding", coding)];
        check(&rig, &request, &Expected { status: 200, fields: &fields, body: None });
    }
}

#[test]
fn a_charset_may_be_long() {
    let charset = "x".repeat(70_000);
    let content = ContentRules { charset: charset.as_str().into(), ..ContentRules::default() };
    let rig = Rig::new(Site { content, ..Site::default() });
    let media_type = format!("text/plain; charset={charset}");
    let fields = [("content-type", media_type.as_str())];
    let whole = Expected { status: 200, fields: &fields, body: Some(b"0123456789") };
    check(&rig, &get("/ten.txt"), &whole);
    let part = Expected { status: 206, fields: &fields, body: Some(b"12") };
    check(&rig, &get_with("/ten.txt", "Range: bytes=1-2\r\n"), &part);
}

/// Links by which no client may ask for anything more.
struct Exhausted;

impl Links<FakeFile> for Exhausted {
    fn may_ask(&self, _: Peer, _: Now) -> bool {
        false
    }
}

#[test]
fn refused_heads_are_charged_to_their_client() {
    let limits =
        Limits { client_rate: 1, target_bytes_max: 10, head_bytes_max: 100, ..Limits::default() };
    let mut rig = Rig::new(Site { limits, ..Site::default() });
    let requests = [
        ("GET  / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (get("/01234567890"), 414),
        (get_with("/", &format!("A: {}\r\n", "b".repeat(100))), 431),
    ];
    for (request, status) in &requests {
        check(&rig, request, &Expected { status: *status, fields: &[], body: None });
    }
    assert_eq!(rig.count(Counter::RequestsLimited), 0);
    rig.links = &Exhausted;
    for (request, _) in &requests {
        let fields = [("retry-after", "1"), ("connection", "close")];
        check(&rig, request, &Expected { status: 429, fields: &fields, body: None });
    }
    assert_eq!(rig.count(Counter::RequestsLimited), 6);
}
