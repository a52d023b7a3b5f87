//! Agreement of `explain` with the answer.
use crate::rig::{Response, Rig};
use regatta_origin::{ContentRules, ListenerClass, Site, explain};

#[test]
fn the_explained_head_is_the_sent_one() {
    let content =
        ContentRules { clean_urls: true, fallback: "index.html".into(), ..ContentRules::default() };
    let rig = Rig::new(Site { content, ..Site::default() });
    let rows = [
        ("GET /", "", "answer: all 14 bytes"),
        (
            "GET /docs/guide",
            "",
            "look: \"docs/guide.html\", the path with .html (content.clean_urls): \
             a file of 5 bytes",
        ),
        ("GET /docs", "", "answer: a directory; its name should end in a slash"),
        (
            "GET /app.js",
            "Accept-Encoding: gzip, br\r\n",
            "codings: precompressed br, gzip; chosen br",
        ),
        ("GET /ten.txt", "Range: bytes=1-2\r\n", "answer: bytes 1 to 2"),
        ("GET /ten.txt", "Range: bytes=99-\r\n", "answer: refused, Range Not Satisfiable"),
        ("GET /ten.txt", "If-None-Match: *\r\n", "answer: not modified, as the conditions find"),
        (
            "GET /none",
            "Accept: text/html\r\n",
            "look: \"index.html\", what answers navigations (content.fallback): a file of 14 bytes",
        ),
        (
            "GET /none.js",
            "",
            "look: \"404.html\", the body of 404 responses (content.not_found): a file of 14 bytes",
        ),
        ("GET /.hidden", "", "path: a name starts with a dot (content.dotfiles is off)"),
        (
            "GET /a%2fb",
            "",
            "path: refused, it has a byte that must be encoded, a % without two hex digits, %00 \
             or %2F",
        ),
        ("GET /a/../../b", "", "path: refused, .. would leave the root"),
        ("GET /a'\"", "", "request: GET /a'\""),
        ("GET /a'%22%0a%5c%ff%c3%a9", "", "path: \"a'\\\"\\n\\\\\\xff\u{e9}\""),
        ("GET /big.bin", "", "body: sent from the file"),
        (
            "POST /",
            "Content-Length: 99999\r\n",
            "content: longer than limits.discard_body_bytes_max",
        ),
        ("OPTIONS *", "", "connection: goes on after the response"),
        ("BREW /", "", "request: BREW /"),
        ("GET x", "", "request: refused, invalid request target; the connection ends"),
    ];
    check(&rig, &rows);
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
        let mut open = |req: &regatta_op::OpenReq| rig.open(req);
        let explained =
            explain(request.as_bytes(), ListenerClass::CLEAR, &mut open, &rig.site, rig.now());
        let found = explained.decisions.iter().any(|decision| decision.to_string() == expected);
        assert!(found, "{line}: {:#?}", explained.decisions);
        let validator = explained.decisions.iter().find(|decision| decision.about == "validator");
        if let Some(validator) = validator.filter(|_| expected.starts_with("answer: all")) {
            let head = String::from_utf8_lossy(&explained.head);
            assert!(head.contains(&format!("\r\nETag: {}\r\n", validator.says)), "{validator}");
        }
        let sent = Response::parse(&rig.ask(&request), false).0;
        assert_eq!(String::from_utf8(explained.head).unwrap(), sent.head);
    }
}
