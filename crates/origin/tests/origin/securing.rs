//! Connections in the clear where others are encrypted: redirects, and the order to use TLS alone.
use crate::rig::{Rig, add_headers};
use regatta_http::Status;
use regatta_origin::{ErrorPage, ListenerClass, Rules, Site, TransportRules, explain};

/// Class of a listener with TLS. The rig has no seal, which these rules do not look for.
const TLS: ListenerClass = ListenerClass(1);
const HSTS: &str = "\r\nStrict-Transport-Security: max-age=300\r\n";

fn rig(redirect: Option<u16>, hsts_s: u32) -> Rig {
    let transport = Some(TransportRules { redirect, hsts_s });
    let mut site = Site { transport, ..Site::default() };
    let page = ErrorPage::new(Status::BAD_REQUEST, b"e.html", b"own", &site);
    site.errors = Box::new([page]);
    let rig = Rig::new(site);
    rig.put(".well-known/acme-challenge/token", b"proof");
    rig
}

fn ask(rig: &Rig, request: &str) -> String {
    String::from_utf8(rig.ask(request)).unwrap()
}

#[test]
fn requests_in_the_clear_are_redirected_to_tls() {
    let (rig, other_port) = (rig(Some(443), 0), rig(Some(8443), 0));
    let up = "https://h/.well-known/acme-challenge/../../a";
    for (line, host, location) in [
        ("GET /a?b=c", "h.example", "https://h.example/a?b=c"),
        ("GET /", "h.example:8080", "https://h.example/"),
        ("HEAD /none", "h.example", "https://h.example/none"),
        ("POST /form", "h.example", "https://h.example/form"),
        ("DELETE /", "h.example", "https://h.example/"),
        ("OPTIONS /", "h.example", "https://h.example/"),
        ("GET //x.example/%2e/y%20", "[::1]:80", "https://[::1]//x.example/%2e/y%20"),
        ("GET http://other.example:80/x", "h.example", "https://other.example/x"),
        ("GET http://other.example", "h.example", "https://other.example/"),
        ("GET http://other.example?q", "h.example", "https://other.example/?q"),
        ("GET /.well-known/acme-challenge", "h", "https://h/.well-known/acme-challenge"),
        ("GET /.well-known/acme-challenge/../../a", "h", up),
    ] {
        let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = ask(&rig, &request);
        assert!(answer.starts_with("HTTP/1.1 308 Permanent Redirect\r\n"), "{line}: {answer}");
        assert!(answer.contains(&format!("\r\nLocation: {location}\r\n")), "{line}: {answer}");
        assert_eq!(answer.ends_with("\r\n\r\n"), line.starts_with("HEAD"), "{line}: {answer}");
        let (host, path) = location["https://".len()..].split_once('/').unwrap();
        let with_port = format!("https://{host}:8443/{path}");
        let answer = ask(&other_port, &request);
        assert!(answer.contains(&format!("\r\nLocation: {with_port}\r\n")), "{line}: {answer}");
    }
}

#[test]
fn what_is_not_redirected_is_answered() {
    let rig = rig(Some(443), 300);
    for (head, status, part) in [
        ("GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: h\r\n", "200", "proof"),
        ("GET /x/..//.well-known/./acme-challenge/token HTTP/1.1\r\nHost: h\r\n", "200", "proof"),
        ("GET /.well-known/acme-challenge/none HTTP/1.1\r\nHost: h\r\n", "404", "lost"),
        ("OPTIONS * HTTP/1.1\r\nHost: h\r\n", "204", "Allow: "),
        ("GET /%zz HTTP/1.1\r\nHost: h\r\n", "400", "own"),
        ("GET / HTTP/1.1\r\n", "400", "own"),
        ("GET / HTTP/1.1\r\nHost:\r\n", "400", "own"),
        ("GET / HTTP/1.0\r\n", "400", "own"),
        ("GET / HTTP/1.1\r\nHost: h\r\n", "308", "Location: https://h/"),
    ] {
        let request = format!("{head}\r\n");
        // From the disk, and from memory.
        for _ in 0..3 {
            let answer = ask(&rig, &request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
            assert!(answer.contains(part), "{request}: {answer}");
            assert!(!answer.contains("Strict-Transport-Security"), "{request}: {answer}");
        }
    }
    rig.class.set(TLS);
    assert!(ask(&rig, "GET / HTTP/1.1\r\nHost: h\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn responses_over_tls_have_the_order_once() {
    let rig = rig(None, 300);
    rig.class.set(TLS);
    for (line, fields, status) in [
        ("GET /", "", "200"),
        ("GET /mid.bin", "", "200"),
        ("GET /big.bin", "", "200"),
        ("HEAD /app.js", "Accept-Encoding: br\r\n", "200"),
        ("GET /", "Connection: close\r\n", "200"),
        ("GET /ten.txt", "Range: bytes=1-2\r\n", "206"),
        ("GET /ten.txt", "Range: bytes=1-2,4-5\r\n", "206"),
        ("GET /ten.txt", "Range: bytes=20-\r\n", "416"),
        ("GET /docs", "", "301"),
        ("GET /none", "", "404"),
        ("POST /", "", "405"),
        ("OPTIONS /", "", "204"),
        ("GET /%zz", "", "400"),
    ] {
        // From the disk, from memory, and in one piece.
        for _ in 0..3 {
            let answer = rig.ask(&format!("{line} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
            let answer = String::from_utf8_lossy(&answer);
            let (head, _) = answer.split_once("\r\n\r\n").unwrap();
            let head = format!("{head}\r\n");
            assert_eq!(head.matches(HSTS).count(), 1, "{line} {fields}: {head}");
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {head}");
        }
    }
}

#[test]
fn a_rule_of_the_owner_has_precedence() {
    let mut rules = Rules::default();
    let line = "strict-transport-security: max-age=1; preload";
    add_headers(&mut rules, "/ten.txt", &[line], "r.toml:1");
    let transport = Some(TransportRules { redirect: None, hsts_s: 300 });
    let rig = Rig::new(Site { transport, rules: rules.into(), ..Site::default() });
    rig.class.set(TLS);
    let answer = ask(&rig, "GET /ten.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(answer.contains("\r\nstrict-transport-security: max-age=1; preload\r\n"), "{answer}");
    assert!(!answer.contains(HSTS), "{answer}");
}

#[test]
fn explanations_know_the_listener() {
    let rig = rig(Some(8443), 300);
    let explained = |path: &str, class| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut open = |req: &regatta_op::OpenReq| rig.open(req);
        let explained = explain(request.as_bytes(), class, &mut open, None, &rig.site, rig.now());
        rig.class.set(class);
        let sent = ask(&rig, &request);
        let head = String::from_utf8(explained.head).unwrap();
        assert!(sent.starts_with(&head), "{sent}\n{head}");
        explained.decisions.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (clear, token) = (ListenerClass::CLEAR, "/.well-known/acme-challenge/token");
    for (path, class, decision) in [
        ("/ten.txt", clear, "redirect: to TLS (tls.redirect)"),
        ("/ten.txt", clear, "answer: 308 Permanent Redirect: https://h:8443/ten.txt"),
        (token, clear, "redirect: none for this request (tls.redirect)"),
        ("/ten.txt", TLS, "hsts: TLS alone for 300 s (tls.hsts_s)"),
        ("/ten.txt", TLS, "answer: all 10 bytes"),
    ] {
        let decisions = explained(path, class);
        assert!(decisions.iter().any(|made| made == decision), "{path}: {decisions:#?}");
    }
}

/// An explanation has the order that is sent: that of a rule, else that of the option, and none in
/// a 304 or in the clear.
#[test]
fn explanations_have_the_order_that_is_sent() {
    let mut rules = Rules::default();
    let line = "strict-transport-security: max-age=1; preload";
    add_headers(&mut rules, "/ten.txt", &[line], "r.toml:1");
    for (hsts_s, of_others) in [(300, Some("TLS alone for 300 s (tls.hsts_s)")), (0, None)] {
        let transport = Some(TransportRules { redirect: None, hsts_s });
        let rig = Rig::new(Site { transport, rules: rules.clone().into(), ..Site::default() });
        let of_rule = Some("max-age=1; preload (a rule for headers)");
        for (path, fields, class, expected) in [
            ("/ten.txt", "", TLS, of_rule),
            ("/ten.txt", "", ListenerClass::CLEAR, None),
            ("/", "", TLS, of_others),
            ("/none", "", TLS, of_others),
            ("/", "If-None-Match: *\r\n", TLS, None),
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let mut open = |req: &regatta_op::OpenReq| rig.open(req);
            let made = explain(request.as_bytes(), class, &mut open, None, &rig.site, rig.now());
            let orders = made.decisions.iter().filter(|decision| decision.about == "hsts");
            let orders: Vec<&str> = orders.map(|decision| &*decision.says).collect();
            assert_eq!(orders, Vec::from_iter(expected), "{path} {fields} {hsts_s}");
        }
    }
}
