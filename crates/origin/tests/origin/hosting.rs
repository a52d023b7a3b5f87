//! Several hosts: each has its own files, rules and pages, whatever a connection asked for before.
use crate::rig::{Expected, Rig, check};
use regatta_http::{Status, pattern::Pattern};
use regatta_op::OpKind;
use regatta_origin::{
    AuthRule, ContentRules, ErrorPage, HeaderLine, ListenerClass, Redirect, Rules, Site, explain,
};

/// SHA-256 of `abc`.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const ANN: &str = "Authorization: Basic YW5uOmFiYw==\r\n";

/// A site of its own, in which everything says so.
fn own(name: &str, user: &str) -> (Vec<String>, Site) {
    let mut rules = Rules::default();
    let all = Pattern::parse("/*").unwrap();
    let line = HeaderLine::parse(&format!("X-Host: {name}")).unwrap();
    rules.add_headers(&all, vec![line], "r.toml:1").unwrap();
    let moved = Pattern::parse("/moved").unwrap();
    let redirect = Redirect::new(&moved, &format!("/to-{name}"), 301, false, "r.toml:2").unwrap();
    rules.add_redirect(&moved, redirect).unwrap();
    let rule = AuthRule::new(name, &[format!("{user}:{ABC}")], "r.toml:3").unwrap();
    rules.add_auth(&Pattern::parse("/docs/*").unwrap(), rule).unwrap();
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
                check(
                    &rig,
                    &get(path, host),
                    &Expected { status: 200, fields: &fields, body: Some(body) },
                );
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
    let mut client = rig.connect();
    client.hold_opens = true;
    let hosts = ["one.example", "a", "two.example", "one.example", "two.example"];
    let requests: String = hosts.iter().map(|host| get("/docs/", host)).collect();
    client.feed(requests.replace("Accept:", &format!("{ANN}Accept:")).as_bytes());
    assert_eq!(client.waits_for(), Some(OpKind::Open));
    client.hold_opens = false;
    client.run();
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
        let mut client = rig.connect();
        client.hold_opens = true;
        client.feed(get("/slow.html", host).as_bytes());
        assert!(client.expire(rig.site.deadlines.disk_ms_max, 0));
        let response = &client.responses(&[])[0];
        assert_eq!((response.status, &*response.body), (503, page.as_bytes()));
        let mut client = rig.connect();
        let chunked = "Transfer-Encoding: chunked\r\nAccept:";
        client.feed(get("/", host).replace("Accept:", chunked).as_bytes());
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
        let explained = explain(
            request.as_bytes(),
            ListenerClass::CLEAR,
            &mut |req| rig.open(req),
            &rig.site,
            rig.now(),
        );
        let lines: Vec<_> = explained.decisions.iter().map(ToString::to_string).collect();
        assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
        let look = "look: \"index.html\", an index name (content.index): a file of";
        assert!(lines.iter().any(|line| line.starts_with(look)), "{lines:#?}");
        let field = String::from_utf8(explained.head).unwrap();
        assert_eq!(field.contains("\r\nX-Host: two\r\n"), host == "two.example");
    }
}
