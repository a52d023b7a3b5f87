//! Forms of the request target and the rules of Host: RFC 9112 §3.2 and §3.2.1 to §3.2.4.

use crate::harness::{Server, Variant, serve};
use crate::protection::check_location;

/// Status of a request of these exact lines; the connection must end after a 400.
fn status_of(server: &Server, text: &str) -> u16 {
    let mut client = server.connect();
    client.send(text);
    let answer = client.answer("GET");
    if answer.status == 400 {
        assert!(answer.closes(), "{text:?}: {}", answer.brief());
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
    for (host, status) in [
        ("regatta.test", 200),
        ("regatta.test:8080", 200),
        ("regatta.test:", 200),
        ("127.0.0.1:80", 200),
        ("[::1]", 200),
        ("[::1]:8080", 200),
        ("xn--caf-dma.test", 200),
        ("a.", 200),
        (":80", 400),
        (".", 400),
        ("a..b", 400),
        ("a b", 400),
        ("a/b", 400),
        ("a?b", 400),
        ("a#b", 400),
        ("user@a", 400),
        ("a:8x", 400),
        ("a:b:c", 400),
        ("a,b", 400),
        ("[::1", 400),
        ("::1]", 400),
        ("a\\b", 400),
        ("a<b>", 400),
        ("http://a/", 400),
    ] {
        let text = format!("GET /small.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let got = status_of(&server, &text);
        if host == "a,b" {
            // A comma is a sub-delim of reg-name (RFC 3986 §3.2.2) and looks like two hosts.
            assert!(matches!(got, 200 | 400), "{host}: {got}");
        } else {
            assert_eq!(got, status, "{host}");
        }
    }
}

pub(crate) fn absolute_form(variant: &Variant) {
    let server = serve(variant);
    for (target, status) in [
        ("http://regatta.test/small.txt", 200),
        ("HTTP://REGATTA.TEST/small.txt", 200),
        ("http://other.test/small.txt", 200),
        ("http://127.0.0.1:8080/small.txt?q", 200),
        ("http://[::1]:8080/small.txt", 200),
        ("http://regatta.test/missing.txt", 404),
        ("http://regatta.test", 200),
        ("http://regatta.test?query", 200),
        ("http://regatta.test/.env", 404),
        ("http://regatta.test//small.txt", 200),
        ("http:///small.txt", 400),
        ("http:/small.txt", 400),
        ("http:small.txt", 400),
        ("http://a b/small.txt", 400),
        ("http://user@a/small.txt", 400),
        ("http://a:8x/small.txt", 400),
        ("://a/small.txt", 400),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: regatta.test\r\n\r\n");
        assert_eq!(status_of(&server, &text), status, "{target}");
    }
    // RFC 9112 §3.2: Host is required all the same.
    let text = "GET http://regatta.test/small.txt HTTP/1.1\r\n\r\n";
    assert_eq!(status_of(&server, text), 400);
}

pub(crate) fn absolute_form_answers_the_resource(variant: &Variant) {
    let server = serve(variant);
    let mut client = server.connect();
    assert_eq!(client.get("http://other.test/a.txt").expect(200).body, b"the letter a\n");
    let home = client.get("http://other.test").expect(200);
    assert_eq!(home.body, client.get("/").expect(200).body);
    let moved = client.get("http://other.test/sub");
    check_location(&moved, "/sub", "/sub/");
}

pub(crate) fn other_forms(variant: &Variant) {
    let server = serve(variant);
    for (line, status) in [
        ("GET * HTTP/1.1", 400),
        ("GET regatta.test:80 HTTP/1.1", 400),
        ("GET small.txt HTTP/1.1", 400),
        ("GET ?query HTTP/1.1", 400),
        ("GET #fragment HTTP/1.1", 400),
        ("CONNECT regatta.test:80 HTTP/1.1", 405),
        ("CONNECT regatta.test HTTP/1.1", 400),
        ("CONNECT regatta.test: HTTP/1.1", 400),
        ("CONNECT /small.txt HTTP/1.1", 400),
        ("OPTIONS *x HTTP/1.1", 400),
    ] {
        let text = format!("{line}\r\nHost: regatta.test\r\n\r\n");
        assert_eq!(status_of(&server, &text), status, "{line}");
    }
}
