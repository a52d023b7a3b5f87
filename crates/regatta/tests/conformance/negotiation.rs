//! Precompressed siblings by Accept-Encoding: RFC 9110 §12.5.3, §12.5.5 and §8.4.

use crate::fields::has_first_use;
use crate::prelude::*;

const IDENTITY: &[u8] = b"<!doctype html><title>Page</title> the identity form\n";

fn body_of(coding: &str) -> &'static [u8] {
    match coding {
        "br" => b"the br form, not really brotli",
        "zstd" => b"the zst form, not really zstandard",
        "gzip" => b"the gz form, not really gzip at all",
        _ => IDENTITY,
    }
}

fn page(client: &mut Client, accept: &str) -> Answer {
    client.ask("GET", "/page.html", &[("Accept-Encoding", accept)])
}

/// Fails unless the answer is the page in this coding, with all its fields.
fn check(answer: &Answer, accept: &str, coding: &str) {
    assert_eq!(answer.status, 200, "{accept}: {answer:?}");
    let expected = if coding == "identity" { None } else { Some(coding) };
    assert_eq!(answer.field("Content-Encoding"), expected, "{accept}: {answer:?}");
    assert_eq!(answer.body, body_of(coding), "{accept}: {answer:?}");
    // §12.5.5: on every form, or a cache gives the next client the wrong one.
    assert!(answer.lists("Vary", "Accept-Encoding"), "{accept}: {answer:?}");
    assert_eq!(answer.must("Content-Type"), "text/html; charset=utf-8");
}

pub(crate) fn without_the_field(variant: &Variant) {
    check(&serve(variant).client().get("/page.html"), "none", "identity");
}

pub(crate) fn weights(variant: &Variant) {
    let mut client = serve(variant).client();
    let br = "br|BR|gzip, deflate, br, zstd|gzip,br|gzip ,\tbr|*";
    let zstd = "zstd|gzip, zstd|br;q=0, *";
    let gzip = "gzip|GZip|gzip;q=1.0, br;q=0.5|gzip; q=0.9, br; q=0.8, zstd ; q=0.7|\
                br;q=0.001, gzip;q=0.002|br;Q=0.5, gzip;Q=0.6|gzip;q=1.000|br;q=0, gzip|\
                br;q=0.0, zstd;q=0.000, gzip|*;q=0.5, gzip|br;q=0, zstd;q=0, *;q=0.1|\
                gzip, *;q=0|identity;q=0, gzip|identity;q=0.5, gzip";
    let identity = "|,|deflate|deflate, compress|identity|gzip;q=0|gzip;q=0, br;q=0, zstd;q=0|\
                    gzip;q=0.5, identity|gzip;q=0.5, identity;q=0.9|gzipped|x-br";
    for (fields, coding) in [(br, "br"), (zstd, "zstd"), (gzip, "gzip"), (identity, "identity")] {
        for accept in fields.split('|') {
            check(&page(&mut client, accept), accept, coding);
        }
    }
}

pub(crate) fn nothing_acceptable(variant: &Variant) {
    let mut client = serve(variant).client();
    for accept in ["identity;q=0", "*;q=0", "identity;q=0, deflate", "*;q=0, deflate"] {
        // §12.4.1: 406, or the field is disregarded. Our choice is the page without a coding.
        check(&page(&mut client, accept), accept, "identity");
    }
}

pub(crate) fn malformed_weights_break_nothing(variant: &Variant) {
    let mut client = serve(variant).client();
    for accept in
        ["gzip;q=abc", "gzip;q=", "gzip;q=2", "gzip;q=-1", ";q=1", "gzip;q=0.0001", "gzip;x"]
    {
        let answer = page(&mut client, accept).expect(200);
        let coding = answer.field("Content-Encoding").unwrap_or("identity");
        assert!(matches!(coding, "identity" | "gzip"), "{accept}: {answer:?}");
        check(&answer, accept, coding);
    }
}

pub(crate) fn field_in_two_lines(variant: &Variant) {
    let server = serve(variant);
    let fields = [("Accept-Encoding", "gzip;q=0.5"), ("Accept-Encoding", "zstd")];
    check(&server.connect().ask("GET", "/page.html", &fields), "two lines", "zstd");
}

pub(crate) fn only_the_siblings_that_exist(variant: &Variant) {
    let mut client = serve(variant).client();
    let accept = [("Accept-Encoding", "br, zstd, gzip")];
    let style = client.ask("GET", "/style.css", &accept).expect(200).has(b"style in gz");
    assert_eq!(style.must("Content-Encoding"), "gzip");
    let plain = client.ask("GET", "/plain.css", &accept).expect(200).has(b"p { color: black }\n");
    assert_eq!(plain.field("Content-Encoding"), None);
}

pub(crate) fn siblings_that_are_no_files(variant: &Variant) {
    let mut client = serve(variant).client();
    for accept in ["br", "gzip", "zstd", "br, gzip, zstd"] {
        let answer = client.ask("GET", "/odd.html", &[("Accept-Encoding", accept)]).expect(200);
        assert_eq!(answer.field("Content-Encoding"), None, "{accept}");
        assert_eq!(answer.body, b"<!doctype html><title>Odd</title>\n", "{accept}");
    }
}

pub(crate) fn a_sibling_that_is_larger(variant: &Variant) {
    let site = Site::with(&[("a.txt", "0123456789"), ("a.txt.gz", "0123456789a")]);
    let server = serve_root(variant, &site.root(), &["cache.revalidate_ms=50"]);
    let mut client = server.connect();
    let accept = [("Accept-Encoding", "gzip, br")];
    let answer = client.ask("GET", "/a.txt", &accept).expect(200).has(b"0123456789");
    assert_eq!((answer.field("Content-Encoding"), answer.field("Vary")), (None, None));
    site.put("a.txt.br", "of the same");
    site.put("a.txt", "0123456789b");
    let ask = || server.connect().ask("GET", "/a.txt", &accept).expect(200);
    comes_to(ask, |answer| answer.body == b"of the same");
}

pub(crate) fn a_sibling_asked_for_by_name(variant: &Variant) {
    let mut client = serve(variant).client();
    let answer = client.ask("GET", "/page.html.gz", &[("Accept-Encoding", "gzip")]).expect(200);
    assert_eq!(answer.field("Content-Encoding"), None, "{answer:?}");
    assert_eq!(answer.body, body_of("gzip"));
}

/// Files whose names say how they are coded are sent as what they hold, by the option or a rule:
/// Unity asks for `x.wasm.gz`, and pages show `x.svgz`.
pub(crate) fn a_file_that_is_coded_itself(variant: &Variant) {
    let names = ["x.wasm.gz", "x.js.br", "x.svgz", "x.tar.gz", "plain"];
    let site = Site::with(&names.map(|name| (name, "coded")));
    site.put("rules.toml", "[[headers]]\npath = \"/plain\"\nset = [\"Content-Encoding: zstd\"]\n");
    let rules = site.path("rules.toml");
    let on = Launch::new(variant, &site.root()).config(&rules).set("content.coded_names=true");
    let off = Launch::new(variant, &site.root());
    let javascript = "text/javascript; charset=utf-8";
    for (launch, cases) in [
        (
            on,
            [
                ("/x.wasm.gz", "application/wasm", "gzip"),
                ("/x.js.br", javascript, "br"),
                ("/x.svgz", "image/svg+xml", "gzip"),
                ("/x.tar.gz", "application/gzip", ""),
                ("/plain", "application/octet-stream", "zstd"),
            ],
        ),
        (
            off,
            [
                ("/x.wasm.gz", "application/gzip", ""),
                ("/x.js.br", "application/octet-stream", ""),
                ("/x.svgz", "application/gzip", ""),
                ("/x.tar.gz", "application/gzip", ""),
                ("/plain", "application/octet-stream", ""),
            ],
        ),
    ] {
        let server = launch.start();
        let mut client = server.connect();
        for (target, media_type, coding) in cases {
            let answer = client.get(target).expect(200).has(b"coded");
            assert_eq!(answer.must("Content-Type"), media_type, "{target}");
            assert_eq!(answer.field("Content-Encoding").unwrap_or(""), coding, "{target}");
        }
    }
}

/// A text is sent as it is at first, and compressed soon. Ranges are of the file.
pub(crate) fn compressed_after_the_first_use(variant: &Variant) {
    let text = "all work and no play ".repeat(1_000);
    let site = Site::with(&[("a.html", &*text), ("short.html", "short"), ("a.bin", &*text)]);
    crate::site::age();
    let sets = ["content.compress=true", "cache.revalidate_ms=50"];
    let server = serve_root(variant, &site.root(), &sets);
    let accept = [("Accept-Encoding", "gzip")];
    let first = server.connect().ask("GET", "/a.html", &accept).expect(200).has(text.as_bytes());
    assert_eq!(first.field("Content-Encoding"), None);
    assert_eq!(first.lists("Vary", "Accept-Encoding"), has_first_use(variant), "{first:?}");
    let ask = || server.connect().ask("GET", "/a.html", &accept).expect(200);
    if has_first_use(variant) {
        let coded = comes_to(ask, |answer| answer.field("Content-Encoding") == Some("gzip"));
        assert!(coded.body.starts_with(&[0x1f, 0x8b]) && coded.body.len() < text.len() / 10);
        assert!(coded.must("ETag").starts_with("W/"), "{coded:?}");
        assert!(coded.lists("Vary", "Accept-Encoding"), "{coded:?}");
    }
    server.connect().get("/a.html").expect(200).has(text.as_bytes());
    let range = [("Accept-Encoding", "gzip"), ("Range", "bytes=0-2")];
    let part = server.connect().ask("GET", "/a.html", &range).expect(206).has(b"all");
    assert_eq!(part.field("Content-Encoding"), None);
    site.put("a.html", "another text");
    comes_to(ask, |answer| answer.body == b"another text");
    for target in ["/short.html", "/a.bin"] {
        let answer = server.connect().ask("GET", target, &accept).expect(200);
        assert_eq!((answer.field("Content-Encoding"), answer.field("Vary")), (None, None));
    }
}

pub(crate) fn each_form_has_its_tag(variant: &Variant) {
    let mut client = serve(variant).client();
    let forms = ["identity", "br", "zstd", "gzip"];
    let tags = forms.map(|coding| page(&mut client, coding).must("ETag").to_owned());
    assert_eq!(tags.iter().collect::<HashSet<_>>().len(), 4, "{tags:?}");
    for (i, coding) in forms.iter().enumerate() {
        for (j, tag) in tags.iter().enumerate() {
            let fields = [("Accept-Encoding", *coding), ("If-None-Match", tag.as_str())];
            let answer = client.ask("GET", "/page.html", &fields);
            assert_eq!(answer.status, if i == j { 304 } else { 200 }, "{coding} {tag}");
            assert!(answer.lists("Vary", "Accept-Encoding"), "{answer:?}");
        }
    }
}

pub(crate) fn ranges_of_a_coded_form(variant: &Variant) {
    let mut client = serve(variant).client();
    for coding in ["br", "zstd", "gzip"] {
        let whole = body_of(coding);
        let fields = [("Accept-Encoding", coding), ("Range", "bytes=4-9")];
        let answer = client.ask("GET", "/page.html", &fields).expect(206);
        assert_eq!(answer.must("Content-Encoding"), coding);
        assert_eq!(answer.must("Content-Range"), format!("bytes 4-9/{}", whole.len()));
        assert_eq!(answer.body, &whole[4..=9]);
        let fields = [("Accept-Encoding", coding), ("Range", "bytes=40-")];
        let answer = client.ask("GET", "/page.html", &fields).expect(416);
        assert_eq!(answer.must("Content-Range"), format!("bytes */{}", whole.len()));
    }
    let identity = page(&mut client, "identity").must("ETag").to_owned();
    let fields =
        [("Accept-Encoding", "br"), ("Range", "bytes=0-3"), ("If-Range", identity.as_str())];
    check(&client.ask("GET", "/page.html", &fields), "another form's tag", "br");
}

pub(crate) fn head_of_a_coded_form(variant: &Variant) {
    let mut client = serve(variant).client();
    let answer = client.ask("HEAD", "/page.html", &[("Accept-Encoding", "gzip")]).expect(200);
    assert_eq!(answer.must("Content-Encoding"), "gzip");
    assert_eq!(answer.must("Content-Length"), body_of("gzip").len().to_string());
}

pub(crate) fn siblings_are_a_setting(variant: &Variant) {
    let mut client = serve_with(variant, &["content.precompressed=false"]).client();
    let answer = page(&mut client, "br, gzip").expect(200).has(IDENTITY);
    assert_eq!(answer.field("Content-Encoding"), None);
    assert_eq!(answer.field("Vary"), None);
}
