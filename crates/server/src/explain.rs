//! `regatta explain`: the origin's own account of how it would answer one request.
use crate::{
    Failure, Sources, WorkFault,
    config::{
        allowance::Chosen,
        raw::{Location, Problem},
    },
    examine,
    front::Trust,
    listens::{TLS, speaks_http2},
    listing::PromptLister,
    log::{SKIP_KEY, SkippedPaths},
    messages,
    site::Builder,
};
use regatta_arch::options::Settings;
use regatta_http::h1::{HeadLimits, parse_request};
use regatta_op::OpenReq;
use regatta_origin::{Decision, Explanation, ListenerClass, Peer};
use regatta_sys::{OpenRules, clock, open_below, process::set_user, socket::UNIX};
use serde_json::json;
use std::{fmt::Write as _, net::SocketAddr, sync::Arc};

/// Request to explain.
#[derive(Clone, Debug)]
pub struct ExplainRequest {
    /// The method.
    pub method: String,
    /// The request target, as a client sends it.
    pub target: String,
    /// Field lines, each `name: value`.
    pub headers: Vec<String>,
    /// Peer: an address, or `unix:`. `None` leaves it open.
    pub from: Option<String>,
    /// Whether it comes over TLS; one for an `https` URL always does.
    pub https: bool,
    /// Whether it comes over HTTP/2.
    pub http2: bool,
}

/// Explains the answer to a request. This process becomes the serving user, as a worker does, since
/// the files that it may open are part of the answer.
///
/// Faults of the configuration or the request.
pub fn run(request: &ExplainRequest, sources: &Sources<'_>) -> Result<Explanation, Failure> {
    let bytes = bytes_of(request).map_err(Failure::Configuration)?;
    let from = request.from.as_deref().map(peer).transpose().map_err(Failure::Configuration)?;
    let (config, found) = examine(sources)?;
    let rules = OpenRules { symlinks: config.settings().flag("content.symlinks") };
    if let Some(user) = &found.user {
        set_user(user).map_err(|error| {
            let name = config.settings().text("server.user");
            Failure::Work(WorkFault::User(name.to_owned(), error))
        })?;
    }
    let (builder, of_hosts) =
        Builder::new(&config.said.settings, &config.plain, config.hosts, &found.releases);
    let site = builder.first(of_hosts, &found.releases);
    let root = Arc::new(found.root);
    let lister = Arc::new(PromptLister { root: Arc::clone(&root), rules });
    let mut open = |req: &OpenReq| open_below(&root, req, rules);
    let over_tls = request.https || of_https(&request.target).is_some();
    let class = if over_tls { TLS } else { ListenerClass::CLEAR };
    let now = clock::now();
    let mut explained = regatta_origin::explain(&bytes, class, &mut open, Some(lister), &site, now);
    if request.http2 {
        explained = over_http2(explained, &config.said.settings, class);
    }
    let who = from.map(|from| explain_client(&config.said.settings, from, &bytes));
    explained.decisions.splice(0..0, who.into_iter().flatten());
    explained.decisions.extend(explain_log(&config.said.settings, &bytes));
    let decides = |chosen: &&Chosen| {
        chosen.key.starts_with("content.") || chosen.key == "cache.revalidate_ms"
    };
    let named = config.chosen.iter().filter(decides);
    let decisions = named.map(|chosen| Decision { about: "option", says: chosen.to_string() });
    explained.decisions.extend(decisions);
    Ok(explained)
}

/// The same answer over HTTP/2, and whether clients can use it there.
fn over_http2(explained: Explanation, settings: &Settings, class: ListenerClass) -> Explanation {
    let says = match (speaks_http2(settings, class), class) {
        (true, ListenerClass::CLEAR) => "HTTP/2, if the connection begins with it (http2.clear)",
        (true, _) => "HTTP/2, if the client offers it in the handshake (ALPN)",
        (false, _) => "HTTP/2 is off (http2.enabled, http2.clear); it would have this",
    };
    let mut explained = explained.over_http2();
    explained.decisions.insert(0, Decision { about: "protocol", says: says.to_owned() });
    explained
}

/// Authority and target of an `https` URL; clients do not send it as a whole.
fn of_https(target: &str) -> Option<(&str, &str)> {
    const SCHEME: &str = "https://";
    let (scheme, rest) = target.split_at_checked(SCHEME.len())?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    scheme.eq_ignore_ascii_case(SCHEME).then(|| rest.split_at(end))
}

/// Decisions about the peer.
fn explain_client(settings: &Settings, from: Peer, request: &[u8]) -> Vec<Decision> {
    let trust = Trust::read(settings);
    let head = parse_request(request, &HeadLimits::default());
    let fields = head.map(|head| head.fields).unwrap_or_default();
    let mut decisions = vec![Decision { about: "client", says: trust.explain(from, &fields) }];
    let keys = ["limits.client_connections_max", "limits.client_rate"];
    let set = keys.map(|key| (key, settings.number(key))).into_iter().filter(|set| set.1 > 0);
    let set: Vec<String> = set.map(|(key, number)| format!("{key} = {number}")).collect();
    if !set.is_empty() {
        let says = match trust.limits(trust.client(from, &fields)) {
            true => set.join(", "),
            false => "none, for a proxy or a Unix socket".to_owned(),
        };
        decisions.push(Decision { about: "limits", says });
    }
    decisions
}

/// Decision that the request has no line in the access log, if there is such a log.
fn explain_log(settings: &Settings, request: &[u8]) -> Option<Decision> {
    let head = parse_request(request, &HeadLimits::default()).ok()?;
    let skipped = SkippedPaths::parse(settings.list(SKIP_KEY)).ok()?;
    let is_skipped = settings.text("log.access") != "off" && skipped.has(head.target, &mut vec![]);
    is_skipped.then(|| Decision { about: "log", says: format!("no line ({SKIP_KEY})") })
}

/// Parses a peer.
fn peer(text: &str) -> Result<Peer, Vec<Problem>> {
    let address = text.parse().map(|ip| SocketAddr::new(ip, 0)).or_else(|_| text.parse());
    match address {
        _ if text == UNIX => Ok(Peer::default()),
        Ok(address) => Ok(address.into()),
        Err(_) => {
            let place = Location::Argument(format!("--from {text:?}"));
            let problem = Problem::new(messages::BAD_ARGUMENT, place, "not an address");
            Err(vec![problem.hint("as in 192.0.2.7, or unix: for a Unix socket")])
        }
    }
}

/// An explanation for people: the decisions, then the head.
#[must_use]
pub fn text(explained: &Explanation) -> String {
    let mut text = String::new();
    for decision in &explained.decisions {
        let _ = writeln!(text, "{decision}");
    }
    let _ = write!(text, "\n{}", head_text(explained));
    text
}

/// An explanation for programs: one JSON object.
#[must_use]
pub fn json(explained: &Explanation) -> String {
    let head = head_text(explained);
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    // HTTP/2 has the pseudo-field :status in its place.
    let status_line = (!first.starts_with(':')).then_some(first);
    let status = first.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
    let fields = lines.filter_map(|line| line.split_once(": "));
    let decisions = explained.decisions.iter();
    let object = json!({
        "status": status,
        "status_line": status_line,
        "fields": fields.map(|(name, value)| json!({"name": name, "value": value}))
            .collect::<Vec<_>>(),
        "decisions": decisions.map(|made| json!({"about": made.about, "says": made.says}))
            .collect::<Vec<_>>(),
    });
    format!("{object:#}\n")
}

fn head_text(explained: &Explanation) -> String {
    String::from_utf8_lossy(&explained.head).replace('\r', "")
}

/// Encodes the request, or names the parts that cannot be sent.
fn bytes_of(request: &ExplainRequest) -> Result<Vec<u8>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut wrong = |what: &str, text: &str, hint: &str| {
        let place = Location::Argument(format!("{what} {text:?}"));
        problems.push(Problem::new(messages::BAD_ARGUMENT, place, "cannot be sent").hint(hint));
    };
    let control = |text: &str| text.contains(|c: char| c.is_control() || c == ' ');
    if request.method.is_empty() || control(&request.method) {
        wrong("METHOD", &request.method, "as in GET");
    }
    if request.target.is_empty() || control(&request.target) {
        wrong("PATH", &request.target, "as in /docs/; a space is written %20");
    }
    let is_host = |header: &String| {
        header.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case("host"))
    };
    let has_host = request.headers.iter().any(is_host);
    let of_url = of_https(&request.target);
    let (host, target) = of_url.unwrap_or(("localhost", request.target.as_str()));
    let root = if of_url.is_some() && !target.starts_with('/') { "/" } else { "" };
    let mut text = format!("{} {root}{target} HTTP/1.1\r\n", request.method);
    if !has_host {
        let _ = write!(text, "Host: {host}\r\n");
    }
    for header in &request.headers {
        if !header.contains(':') || header.contains(['\r', '\n', '\0']) {
            wrong("-H", header, "as in -H 'accept-encoding: br'");
        }
        let _ = write!(text, "{header}\r\n");
    }
    text.push_str("\r\n");
    if problems.is_empty() { Ok(text.into_bytes()) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::raw::tests::of_sets;

    fn request(method: &str, target: &str, headers: &[&str]) -> ExplainRequest {
        let headers = headers.iter().map(|header| (*header).to_owned()).collect();
        let (method, target) = (method.to_owned(), target.to_owned());
        ExplainRequest { method, target, headers, from: None, https: false, http2: false }
    }

    #[test]
    fn an_explanation_is_text_or_json() {
        let made = |about, says: &str| Decision { about, says: says.to_owned() };
        let explained = Explanation {
            decisions: vec![made("path", "\"a\""), made("answer", "nothing")],
            head: b"HTTP/1.1 404 Not Found\r\nAllow: GET\r\n\r\n".to_vec(),
        };
        let expect = "path: \"a\"\nanswer: nothing\n\nHTTP/1.1 404 Not Found\nAllow: GET\n\n";
        assert_eq!(text(&explained), expect);
        let read: serde_json::Value = serde_json::from_str(&json(&explained)).unwrap();
        let expect = json!({
            "status": 404,
            "status_line": "HTTP/1.1 404 Not Found",
            "fields": [{"name": "Allow", "value": "GET"}],
            "decisions": [
                {"about": "path", "says": "\"a\""},
                {"about": "answer", "says": "nothing"},
            ],
        });
        assert_eq!(read, expect);
    }

    #[test]
    fn an_explanation_of_http2_has_its_fields() {
        let head = b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\nConnection: close\r\n\r\n".to_vec();
        let says = "ends, as the request asks".to_owned();
        let decisions = vec![Decision { about: "connection", says }];
        let explained = Explanation { decisions, head };
        let check = |sets: &[&str], class, protocol: &str| {
            let explained = over_http2(explained.clone(), &of_sets(sets).settings, class);
            let text = text(&explained);
            let (decisions, head) = text.split_once("\n\n").unwrap();
            let decisions: Vec<&str> = decisions.lines().collect();
            assert!(decisions[0].starts_with(protocol), "{text}");
            assert_eq!(decisions[1], "connection: continues; the stream ends with the response");
            assert!(decisions[2].starts_with("fields: a block of "), "{text}");
            assert!(decisions[2].ends_with(" bytes; the head of HTTP/1 has 49"), "{text}");
            assert_eq!(head, ":status: 200\netag: \"a\"\n\n");
            let read: serde_json::Value = serde_json::from_str(&json(&explained)).unwrap();
            assert_eq!((&read["status"], &read["status_line"]), (&json!(200), &json!(null)));
            assert_eq!(read["fields"], json!([{"name": "etag", "value": "\"a\""}]));
        };
        check(&[], ListenerClass::CLEAR, "protocol: HTTP/2, if the connection begins");
        check(&[], TLS, "protocol: HTTP/2, if the client offers");
        check(&["http2.clear=false"], ListenerClass::CLEAR, "protocol: HTTP/2 is off");
        check(&["http2.enabled=false"], TLS, "protocol: HTTP/2 is off");
    }

    #[test]
    fn requests_without_a_line_in_the_log_are_named() {
        let explained = |sets: &[&str], target| {
            let bytes = bytes_of(&request("GET", target, &[])).unwrap();
            explain_log(&of_sets(sets).settings, &bytes).map(|made| made.to_string())
        };
        let sets = ["log.access=-", "log.skip=/healthz,/assets/**"];
        assert_eq!(explained(&sets, "/assets/a.js").as_deref(), Some("log: no line (log.skip)"));
        assert_eq!(explained(&sets, "/a.js"), None);
        assert_eq!(explained(&sets[1..], "/healthz"), None);
    }

    #[test]
    fn requests_are_written_as_a_client_would() {
        for (target, headers, expect) in [
            ("/", &[][..], "GET / HTTP/1.1\r\nHost: localhost"),
            ("/", &["host: b"], "GET / HTTP/1.1\r\nhost: b"),
            ("https://h:1/a?b", &[], "GET /a?b HTTP/1.1\r\nHost: h:1"),
            ("HTTPS://h", &[], "GET / HTTP/1.1\r\nHost: h"),
            ("https://h?b", &[], "GET /?b HTTP/1.1\r\nHost: h"),
            ("http://h/a", &[], "GET http://h/a HTTP/1.1\r\nHost: localhost"),
        ] {
            let bytes = bytes_of(&request("GET", target, headers)).unwrap();
            assert_eq!(bytes, format!("{expect}\r\n\r\n").as_bytes(), "{target}");
        }
        let wrong = request("G ET", "a b", &["x", "a: b\r\nc: d"]);
        assert_eq!(bytes_of(&wrong).unwrap_err().len(), 4);
    }
}
