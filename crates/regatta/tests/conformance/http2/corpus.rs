//! The same requests over HTTP/1 and HTTP/2: equal statuses, fields, content and lines of the log,
//! except what belongs to the protocol.

use super::{connect, whole};
use crate::prelude::{Answer, Client, Field, Launch, SIZES, Server, Signal, Site, Variant, common};
use crate::prelude::{request, soon};
use regatta_testkit::http2::Http2Client;
use serde_json::Value;
use std::path::Path;

/// A request, with names of fields in lower case.
#[derive(Debug)]
struct Asked {
    method: &'static str,
    target: String,
    fields: Vec<Field<'static>>,
}

/// Requests of every kind that both protocols can express.
fn corpus() -> Vec<Asked> {
    let mut corpus = Vec::new();
    let mut add = |method, target: &str, fields: &[Field<'static>]| {
        corpus.push(Asked { method, target: target.to_owned(), fields: fields.to_vec() });
    };
    let targets = "/ /sub /sub/ /missing /.env /empty/ /%zz /link-in.txt /types/none \
                   /types/file.svg /app.3f2a9c1b4d5e6f70.js /epoch.txt /caf%C3%A9.txt /sub?a=b";
    for target in targets.split(' ') {
        add("GET", target, &[]);
        add("HEAD", target, &[]);
    }
    for size in SIZES {
        let target = format!("/size-{size}.bin");
        add("GET", &target, &[]);
        add("GET", &target, &[("range", "bytes=1-4095")]);
    }
    for field in [
        ("accept-encoding", "br"),
        ("accept-encoding", "gzip;q=0.5, zstd;q=0.7"),
        ("if-none-match", "*"),
        ("if-match", "\"x\""),
        ("if-modified-since", crate::site::MODIFIED),
        ("if-unmodified-since", "Mon, 13 Nov 2023 22:13:20 GMT"),
        ("range", "bytes=-3"),
        ("range", "bytes=900-"),
        ("origin", "https://other.test"),
        ("user-agent", "Tester/1.0 (\"a\"; b)"),
        ("referer", "https://from.test/x"),
    ] {
        add("GET", "/page.html", &[field]);
    }
    for method in ["POST", "OPTIONS", "BREW", "TRACE", "DELETE"] {
        add(method, "/small.txt", &[("content-length", "0")]);
    }
    corpus
}

/// Fields that say how a connection continues, and the time of the response.
const OF_THE_MOMENT: [&str; 3] = ["connection", "keep-alive", "date"];

/// An answer as both protocols must have it, with its fields sorted.
type Comparable = (u16, Vec<(String, String)>, Vec<u8>);

fn comparable(answer: Answer) -> Comparable {
    let fields = answer.fields.into_iter().map(|(name, value)| (name.to_lowercase(), value));
    let fields = fields.filter(|(name, _)| !OF_THE_MOMENT.contains(&name.as_str()));
    let mut fields: Vec<(String, String)> = fields.collect();
    fields.sort();
    (answer.status, fields, answer.body)
}

/// Answers over HTTP/1, each request on a connection of its own: some errors end it.
fn over_http1(connect: impl Fn() -> Client, corpus: &[Asked]) -> Vec<Comparable> {
    let answer = |Asked { method, target, fields }: &Asked| {
        let mut client = connect();
        client.send(request(method, target, fields));
        comparable(client.answer(method))
    };
    corpus.iter().map(answer).collect()
}

/// Answers over one connection of HTTP/2, in bundles of streams.
fn over_http2(mut client: Http2Client, corpus: &[Asked]) -> Vec<Comparable> {
    let mut answers = Vec::new();
    for bundle in corpus.chunks(7) {
        let ask = |one: &Asked| client.ask(one.method, &one.target, &one.fields);
        let ids: Vec<u32> = bundle.iter().map(ask).collect();
        answers.extend(ids.into_iter().map(|id| comparable(whole(&mut client, id))));
    }
    answers
}

#[track_caller]
fn assert_same(corpus: &[Asked], one: &[Comparable], other: &[Comparable], protocols: &str) {
    assert_eq!(one.len(), other.len(), "{protocols}");
    for ((asked, one), other) in corpus.iter().zip(one).zip(other) {
        let heads = ((one.0, &one.1), (other.0, &other.1));
        assert_eq!(heads.0, heads.1, "{protocols}: {asked:?}");
        assert!(one.2 == other.2, "{protocols}: other content: {asked:?}");
    }
}

/// HTTP/2 comes first and last, so that files and entries of the cache are compared.
pub(crate) fn answers_do_not_depend_on_the_protocol(variant: &Variant) {
    let (corpus, launch) = (corpus(), Launch::new(variant, common()));
    let server = if variant.tls { launch.listen_in_the_clear() } else { launch }.start();
    let first = over_http2(connect(&server), &corpus);
    let in_http1 = over_http1(|| server.connect(), &corpus);
    assert_same(&corpus, &first, &in_http1, "HTTP/2 and HTTP/1");
    let again = over_http2(connect(&server), &corpus);
    assert_same(&corpus, &again, &in_http1, "HTTP/2 again and HTTP/1");
    if variant.tls {
        let clear = over_http1(|| Client::connect(server.clear_address()), &corpus);
        assert_same(&corpus, &in_http1, &clear, "HTTP/1 over TLS and in the clear");
    }
}

/// Members of a line that belong to the connection, or to the moment.
const OF_THE_CONNECTION: [&str; 8] =
    ["time", "port", "version", "sent_bytes", "duration_ms", "keep_alive", "alpn", "suite"];

/// Lines of a log, in any order, without what belongs to the connection.
fn lines(log: &Path, count: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(log).unwrap_or_default();
    soon(|| read().lines().count() >= count);
    let text = read();
    let comparable = |line: &str| {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        let members = line.as_object_mut().expect("an object");
        members.retain(|name, _| !OF_THE_CONNECTION.contains(&name.as_str()));
        line.to_string()
    };
    let mut lines: Vec<String> = text.lines().map(comparable).collect();
    lines.sort();
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

/// Lines of a server's log about the corpus.
fn logged(variant: &Variant, ask: impl FnOnce(&Server, &[Asked])) -> Vec<String> {
    let (site, corpus) = (Site::new(), corpus());
    let log = site.beside("access.log");
    let mut server = Launch::new(variant, common()).log(&log).set("log.format=json").start();
    ask(&server, &corpus);
    server.end(Signal::TERM);
    lines(&log, corpus.len())
}

pub(crate) fn log_lines_do_not_depend_on_the_protocol(variant: &Variant) {
    let of_http1 = logged(variant, |server, corpus| {
        over_http1(|| server.connect(), corpus);
    });
    let of_http2 = logged(variant, |server, corpus| {
        over_http2(connect(server), corpus);
    });
    for (one, two) in of_http1.iter().zip(&of_http2) {
        assert_eq!(one, two, "over HTTP/1 and over HTTP/2");
    }
}
