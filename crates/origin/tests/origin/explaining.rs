//! Agreement of `explain` with the answer.
use crate::rig::Rig;
use regatta_origin::{ContentRules, Site};

#[test]
fn the_explained_head_is_the_sent_one() {
    let content =
        ContentRules { clean_urls: true, fallback: "index.html".into(), ..ContentRules::default() };
    let rig = Rig::new(Site { content, ..Site::default() });
    let clean =
        "look: \"docs/guide.html\", the path with .html (content.clean_urls): a file of 5 bytes";
    let fallback =
        "look: \"index.html\", what answers navigations (content.fallback): a file of 14 bytes";
    let lost =
        "look: \"404.html\", the body of 404 responses (content.not_found): a file of 14 bytes";
    let encoded = "path: refused, it has a byte that must be encoded, a % without two hex digits, \
                   %00 or %2F";
    let both = "Accept-Encoding: gzip, br\r\n";
    let long = "content: longer than limits.discard_body_bytes_max";
    let rows = [
        ("GET /", "", "answer: all 14 bytes"),
        ("GET /docs/guide", "", clean),
        ("GET /docs", "", "answer: a directory; its name should end in a slash"),
        ("GET /app.js", both, "codings: precompressed br, gzip; chosen br"),
        ("GET /ten.txt", "Range: bytes=1-2\r\n", "answer: bytes 1 to 2"),
        ("GET /ten.txt", "Range: bytes=99-\r\n", "answer: refused, Range Not Satisfiable"),
        ("GET /ten.txt", "If-None-Match: *\r\n", "answer: not modified, as the conditions find"),
        ("GET /none", "Accept: text/html\r\n", fallback),
        ("GET /none.js", "", lost),
        ("GET /.hidden", "", "path: a name starts with a dot (content.dotfiles is off)"),
        ("GET /a%2fb", "", encoded),
        ("GET /a/../../b", "", "path: refused, .. would leave the root"),
        ("GET /a'\"", "", "request: GET /a'\""),
        ("GET /a'%22%0a%5c%ff%c3%a9", "", "path: \"a'\\\"\\n\\\\\\xff\u{e9}\""),
        ("GET /big.bin", "", "body: sent from the file"),
        ("POST /", "Content-Length: 99999\r\n", long),
        ("OPTIONS *", "", "connection: goes on after the response"),
        ("BREW /", "", "request: BREW /"),
        ("GET x", "", "request: refused, invalid request target; the connection ends"),
    ];
    check(&rig, &rows);
}

#[test]
fn what_was_not_tried_is_explained() {
    let content = ContentRules { fallback: "index.html".into(), ..ContentRules::default() };
    let rig = Rig::new(Site { content: content.clone(), ..Site::default() });
    let document = "fallback: skipped: the fields Sec-Fetch-Dest and Accept ask for no document \
                    (content.fallback_for)";
    let suffix = "fallback: skipped: the last part of the path has a suffix";
    let clean = "hint: \"docs/guide.html\" would answer with content.clean_urls = true";
    let rows = [
        ("GET /none", "", document),
        ("GET /none.js", "Accept: text/html\r\n", suffix),
        ("GET /docs/guide", "", clean),
        ("GET /docs/guide", "", document),
    ];
    check(&rig, &rows);
    let content = ContentRules { fallback_for_all: true, ..content };
    let rig = Rig::new(Site { content, ..Site::default() });
    let fallback =
        "look: \"index.html\", what answers navigations (content.fallback): a file of 14 bytes";
    check(&rig, &[("GET /none", "", fallback), ("GET /none.js", "", suffix)]);
}

#[test]
fn siblings_that_their_owner_may_not_expect() {
    let rig = Rig::new(Site::default());
    rig.put("ten.txt.gz", &[b'g'; 11]);
    rig.put_at("ten.txt.br", b"br", 1_500_000_000);
    let larger = "larger than the file itself (11 bytes, not 10): not sent";
    let older = "older than the file itself: sent; if that has changed, compress it again";
    let (gzip, brotli) = ("Accept-Encoding: gzip\r\n", "Accept-Encoding: br\r\n");
    let rows = [
        ("GET /ten.txt", gzip, &*format!("sibling: \"ten.txt.gz\", {larger}")),
        ("GET /ten.txt", gzip, "codings: precompressed br; chosen identity"),
        ("GET /ten.txt", brotli, &*format!("sibling: \"ten.txt.br\", {older}")),
        ("GET /ten.txt", brotli, "codings: precompressed br; chosen br"),
    ];
    check(&rig, &rows);
}

/// Each request line and its fields, and one of the decisions on it. The head is the one sent.
fn check(rig: &Rig, rows: &[(&str, &str, &str)]) {
    for &(line, fields, expected) in rows {
        let request = format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        rig.decides(&request, expected);
        let (decisions, head) = rig.explain(&request);
        let validator = decisions.iter().find_map(|made| made.strip_prefix("validator: "));
        if let Some(validator) = validator.filter(|_| expected.starts_with("answer: all")) {
            assert!(head.contains(&format!("\r\nETag: {validator}\r\n")), "{validator}");
        }
        assert_eq!(head, rig.respond(&request).head);
    }
}
