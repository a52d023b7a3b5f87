//! Several hosts: each has its own files, rules and pages, whatever a connection asked for before.
use crate::rig::{ABC, Expected, Rig, add_auth, add_headers, add_redirect, check};
use regatta_http::Status;
use regatta_op::OpKind;
use regatta_origin::{ContentRules, ErrorPage, Rules, Site};

const ANN: &str = "Authorization: Basic YW5uOmFiYw==\r\n";

/// A site of its own, in which everything says so.
fn own(name: &str, user: &str) -> (Vec<String>, Site) {
    let mut rules = Rules::default();
    add_headers(&mut rules, "/*", &[&format!("X-Host: {name}")], "r.toml:1");
    add_redirect(&mut rules, ["/moved", &format!("/to-{name}")], 301, false, "r.toml:2");
    add_auth(&mut rules, ["/docs/*", name], &format!("{user}:{ABC}"), "r.toml:3");
    let content = ContentRules { charset: name.into(), ..ContentRules::default() };
    let mut site = Site { content, rules: rules.into(), ..Site::default() };
    let pages = [Status::UNAUTHORIZED, Status::SERVICE_UNAVAILABLE, Status::CONTENT_TOO_LARGE];
    let page = |status| ErrorPage::new(status, b"e.html", name.as_bytes(), &site);
    site.errors = pages.into_iter().map(page).collect();
    (vec![format!("{name}.example")], site)
}

fn rig() -> Rig {
    let hosts = vec![own("one", "ann"), own("two", "bob")];
    let rig = Rig::new(Site::default().with_hosts(hosts));
    for (prefix, name) in [("\0\0\u{1}", "one"), ("\0\0\u{2}", "two")] {
        for path in ["index.html", "docs/index.html", "404.html"] {
            rig.put(&format!("{prefix}{path}"), format!("{path} of {name}").as_bytes());
        }
    }
    rig.put("\0\0\u{1}only.html", b"only");
    rig
}

fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\n\r\n")
}

#[test]
fn hosts_never_mix() {
    let rig = rig();
    let first: &[u8] = b"<h1>home</h1>\n";
    // From the disk, from memory, and in one piece.
    for _ in 0..3 {
        for (host, name, body) in [
            ("a", "", first),
            ("one.example", "one", b"index.html of one"),
            ("two.example:80", "two", b"index.html of two"),
            ("TWO.Example.", "two", b"index.html of two"),
            ("three.example", "", first),
        ] {
            let charset =
                format!("text/html; charset={}", if name.is_empty() { "utf-8" } else { name });
            let fields = [("x-host", name), ("content-type", &*charset)];
            for path in ["/", "/index.html"] {
                let expected = Expected { status: 200, fields: &fields, body: Some(body) };
                check(&rig, &get(path, host), &expected);
            }
        }
        let lost =
            Expected { status: 404, fields: &[("x-host", "two")], body: Some(b"404.html of two") };
        check(&rig, &get("/only.html", "two.example"), &lost);
        check(&rig, &get("/only.html", "a"), &Expected { status: 404, fields: &[], body: None });
        let only = Expected { status: 200, fields: &[("x-host", "one")], body: Some(b"only") };
        check(&rig, &get("/only.html", "one.example"), &only);
        let moved = Expected { status: 301, fields: &[("location", "/to-one")], body: None };
        check(&rig, &get("/moved", "one.example"), &moved);
        check(&rig, &get("/moved", "a"), &Expected { status: 404, fields: &[], body: None });
    }
}

/// The authority of an absolute target comes before `Host` (RFC 9112 §3.2.2), and a request without
/// a host gets the first one's.
#[test]
fn the_target_names_the_host() {
    let rig = rig();
    let two = Expected { status: 200, fields: &[("x-host", "two")], body: None };
    check(&rig, &get("http://two.example:8080/", "one.example"), &two);
    check(&rig, &get("http://TWO.example", "a"), &two);
    let first = Expected { status: 200, fields: &[("x-host", "")], body: None };
    check(&rig, &get("http://a/", "one.example"), &first);
    check(&rig, &get("/", ""), &first);
    let response = rig.ask("GET / HTTP/1.0\r\n\r\n");
    assert!(response.ends_with(b"<h1>home</h1>\n"));
}

/// Requests behind one another on a connection, each to another host, while the disk is slow.
#[test]
fn a_request_that_waits_stays_with_its_host() {
    let rig = rig();
    let hosts = ["one.example", "a", "two.example", "one.example", "two.example"];
    let requests: String = hosts.iter().map(|host| get("/docs/", host)).collect();
    let requests = requests.replace("Accept:", &format!("{ANN}Accept:"));
    let mut client = rig.connect_held(OpKind::Open, requests.as_bytes());
    assert_eq!(client.waits_for(), Some(OpKind::Open));
    client.release();
    let responses = client.responses(&[]);
    let bodies: Vec<_> =
        responses.iter().map(|response| String::from_utf8_lossy(&response.body)).collect();
    let one = "docs/index.html of one";
    assert_eq!(bodies, [one, "docs", "two", one, "two"], "Ann is known to the first alone");
    assert_eq!(client.statuses(), [200, 200, 401, 200, 401]);
}

/// Errors are answered with the host's own pages.
#[test]
fn errors_have_the_pages_of_their_host() {
    let rig = rig();
    for (host, page) in [("one.example", "one"), ("two.example", "two")] {
        let mut client = rig.connect_held(OpKind::Open, get("/slow.html", host).as_bytes());
        assert!(client.expire(rig.site.deadlines.disk_ms_max, 0));
        let response = &client.responses(&[])[0];
        assert_eq!((response.status, &*response.body), (503, page.as_bytes()));
        let chunked = "Transfer-Encoding: chunked\r\nAccept:";
        let mut client = rig.connect_with(get("/", host).replace("Accept:", chunked).as_bytes());
        let len = usize::try_from(rig.site.limits.discard_body_bytes_max + 1).unwrap();
        client.feed(format!("{len:x}\r\n{}", "x".repeat(len)).as_bytes());
        let response = &client.responses(&[])[0];
        assert_eq!((response.status, &*response.body), (413, page.as_bytes()));
    }
}

#[test]
fn faults_and_explanations_name_the_host() {
    let rig = rig();
    for (host, expected) in [
        ("two.example", "host: that of two.example ([[hosts]])"),
        ("a", "host: the first (server.root): no other has this name"),
    ] {
        let request = get("http://HOST/", "one.example").replace("HOST", host);
        rig.decides(&request, expected);
        let (decisions, head) = rig.explain(&request);
        let look = "look: \"index.html\", an index name (content.index): a file of";
        assert!(decisions.iter().any(|made| made.starts_with(look)), "{decisions:#?}");
        assert_eq!(head.contains("\r\nX-Host: two\r\n"), host == "two.example");
    }
}
