//! Forms of the request target and the rules of Host: RFC 9112 §3.2 and §3.2.1 to §3.2.4.

use crate::prelude::*;

/// Status of a request of these exact lines; the connection must end after a 400.
fn status_of(server: &Server, text: &str) -> u16 {
    let mut client = server.asked(text);
    let answer = client.answer("GET");
    if answer.status == 400 {
        assert!(answer.closes(), "{text:?}: {answer:?}");
        client.finish();
    }
    answer.status
}

pub(crate) fn host_is_required_once(variant: &Variant) {
    let server = serve(variant);
    for (fields, status) in [
        ("", 400),
        ("Host: a\r\nHost: b\r\n", 400),
        ("Host: a\r\nHost: a\r\n", 400),
        ("Host: a\r\nX: y\r\nhost: a\r\n", 400),
        ("Host: a\r\n", 200),
        ("HOST:a\r\n", 200),
        ("host:  a  \r\n", 200),
    ] {
        let text = format!("GET /small.txt HTTP/1.1\r\n{fields}\r\n");
        assert_eq!(status_of(&server, &text), status, "{fields:?}");
    }
}

pub(crate) fn host_is_optional_in_the_old_version(variant: &Variant) {
    let server = serve(variant);
    assert_eq!(status_of(&server, "GET /small.txt HTTP/1.0\r\n\r\n"), 200);
    let twice = "GET /small.txt HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n";
    assert_eq!(status_of(&server, twice), 400);
}

pub(crate) fn host_must_be_valid(variant: &Variant) {
    let server = serve(variant);
    let valid = "regatta.test regatta.test:8080 regatta.test: 127.0.0.1:80 [::1] [::1]:8080 \
                 xn--caf-dma.test a.";
    let invalid = ":80|.|a..b|a b|a/b|a?b|a#b|user@a|a:8x|a:b:c|[::1|::1]|a\\b|a<b>|http://a/";
    let status = |host: &str| {
        let text = format!("GET /small.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
        status_of(&server, &text)
    };
    valid.split(' ').for_each(|host| assert_eq!(status(host), 200, "{host}"));
    invalid.split('|').for_each(|host| assert_eq!(status(host), 400, "{host}"));
    // A comma is a sub-delim of reg-name (RFC 3986 §3.2.2) and looks like two hosts.
    let got = status("a,b");
    assert!(matches!(got, 200 | 400), "a,b: {got}");
}

pub(crate) fn absolute_form(variant: &Variant) {
    let server = serve(variant);
    let found = "http://regatta.test/small.txt|HTTP://REGATTA.TEST/small.txt|\
                 http://other.test/small.txt|http://127.0.0.1:8080/small.txt?q|\
                 http://[::1]:8080/small.txt|http://regatta.test|http://regatta.test?query|\
                 http://regatta.test//small.txt";
    let missing = "http://regatta.test/missing.txt|http://regatta.test/.env";
    let bad = "http:///small.txt|http:/small.txt|http:small.txt|http://a b/small.txt|\
               http://user@a/small.txt|http://a:8x/small.txt|://a/small.txt";
    for (targets, status) in [(found, 200), (missing, 404), (bad, 400)] {
        for target in targets.split('|') {
            let text = format!("GET {target} HTTP/1.1\r\nHost: regatta.test\r\n\r\n");
            assert_eq!(status_of(&server, &text), status, "{target}");
        }
    }
    // RFC 9112 §3.2: Host is required all the same.
    assert_eq!(status_of(&server, "GET http://regatta.test/small.txt HTTP/1.1\r\n\r\n"), 400);
}

pub(crate) fn absolute_form_answers_the_resource(variant: &Variant) {
    let mut client = serve(variant).client();
    assert_eq!(client.get("http://other.test/a.txt").expect(200).body, b"the letter a\n");
    let home = client.get("http://other.test").expect(200);
    assert_eq!(home.body, client.get("/").expect(200).body);
    let moved = client.get("http://other.test/sub");
    check_location(&moved, "/sub", "/sub/");
}

pub(crate) fn other_forms(variant: &Variant) {
    let server = serve(variant);
    let bad = "GET *|GET regatta.test:80|GET small.txt|GET ?query|GET #fragment|\
               CONNECT regatta.test|CONNECT regatta.test:|CONNECT /small.txt|OPTIONS *x";
    for (starts, status) in [(bad, 400), ("CONNECT regatta.test:80", 405)] {
        for start in starts.split('|') {
            let text = format!("{start} HTTP/1.1\r\nHost: regatta.test\r\n\r\n");
            assert_eq!(status_of(&server, &text), status, "{start}");
        }
    }
}
