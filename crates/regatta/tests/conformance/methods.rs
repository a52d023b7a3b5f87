//! Methods: RFC 9110 §9, and the product's rule for each.

use crate::prelude::*;

pub(crate) fn get_and_head_answer(variant: &Variant) {
    let mut client = serve(variant).client();
    client.get("/size-4097.bin").expect(200).has(sized(4097));
    let head = client.ask("HEAD", "/size-4097.bin", &[]).expect(200);
    assert_eq!(head.must("Content-Length"), "4097");
    client.get("/small.txt").expect(200);
}

/// Fails unless an answer lists all our methods.
#[track_caller]
fn allows_all(answer: &Answer, asked: &str) {
    let ours = ["GET", "HEAD", "OPTIONS"];
    assert!(ours.iter().all(|method| answer.lists("Allow", method)), "{asked}: {answer:?}");
}

pub(crate) fn known_but_not_allowed(variant: &Variant) {
    let server = serve(variant);
    for method in ["POST", "PUT", "DELETE", "TRACE", "PATCH"] {
        for target in ["/small.txt", "/missing.txt", "/sub/"] {
            let mut client = server.connect();
            let answer = client.ask(method, target, &[("Content-Length", "0")]).expect(405);
            allows_all(&answer, method);
            assert!(!answer.lists("Allow", method), "{method}: {answer:?}");
        }
    }
}

/// A tunnel is refused as a known method; the bytes meant for it are not parsed.
pub(crate) fn no_tunnels(variant: &Variant) {
    let mut client = serve(variant).client();
    client.send([request("CONNECT", "regatta.test:443", &[]), get("/small.txt")].concat());
    let answer = client.answer("CONNECT").expect(405);
    assert!(answer.closes() && answer.lists("Allow", "GET"), "{answer:?}");
    assert!(!answer.lists("Allow", "CONNECT"), "{answer:?}");
    client.finish();
}

pub(crate) fn unknown_are_not_implemented(variant: &Variant) {
    let server = serve(variant);
    // Methods are case-sensitive (RFC 9110 §9.1): `get` is not GET.
    for method in ["BREW", "get", "Get", "GETT", "GE", "M-SEARCH", "X!#$%&'*+-.^_`|~1"] {
        server.connect().ask(method, "/small.txt", &[]).expect(501);
    }
}

pub(crate) fn refusal_keeps_the_order(variant: &Variant) {
    let mut client = serve(variant).client();
    client.send([request("DELETE", "/small.txt", &[]), get("/small.txt")].concat());
    let refused = client.answer("DELETE").expect(405);
    if refused.closes() {
        client.finish();
    } else {
        assert_eq!(client.answer("GET").expect(200).body, b"small\n");
    }
}

pub(crate) fn options_of_a_resource(variant: &Variant) {
    let mut client = serve(variant).client();
    for target in ["/small.txt", "/"] {
        let answer = client.ask("OPTIONS", target, &[]).expect_one_of(&[200, 204]);
        allows_all(&answer.has(b""), target);
    }
}

pub(crate) fn options_of_the_server(variant: &Variant) {
    let mut client = serve(variant).client();
    let answer = client.ask("OPTIONS", "*", &[]).expect_one_of(&[200, 204]);
    assert!(answer.lists("Allow", "GET"), "{answer:?}");
    client.get("/small.txt").expect(200);
}

pub(crate) fn trace_does_not_echo(variant: &Variant) {
    let fields = [("X-Probe", "echo-me-not")];
    let answer = serve(variant).client().ask("TRACE", "/small.txt", &fields).expect(405);
    assert!(!answer.text().contains("echo-me-not"));
}

pub(crate) fn head_equals_get(variant: &Variant) {
    let mut client = serve(variant).client();
    let etag = client.get("/small.txt").expect(200).must("ETag").to_owned();
    let cases: &[(&str, &[Field], u16)] = &[
        ("/small.txt", &[], 200),
        ("/size-0.bin", &[], 200),
        ("/size-5242880.bin", &[], 200),
        ("/", &[], 200),
        ("/page.html", &[("Accept-Encoding", "br")], 200),
        ("/small.txt", &[("If-None-Match", &etag)], 304),
        ("/small.txt", &[("If-Match", "\"other\"")], 412),
        ("/missing.txt", &[], 404),
        ("/.env", &[], 404),
        ("/sub", &[], 301),
    ];
    for (target, fields, status) in cases {
        let got = client.ask("GET", target, fields);
        let head = client.ask("HEAD", target, fields);
        assert_eq!(got.status, *status, "{target}: {got:?}");
        // RFC 9110 §9.3.2: the same fields as for GET, body length included.
        let fields = |answer: &Answer| {
            let mut fields = answer.fields.clone();
            fields.retain(|(name, _)| !name.eq_ignore_ascii_case("Date"));
            (answer.status, fields)
        };
        assert_eq!(fields(&got), fields(&head), "GET and HEAD of {target}");
    }
}
