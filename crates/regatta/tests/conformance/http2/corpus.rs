//! The same requests over HTTP/1 and HTTP/2: equal statuses, fields, content and lines of the log,
//! except what belongs to the protocol.

use super::{connect, whole};
use crate::access_log;
use crate::equality::{Asked, corpus};
use crate::prelude::*;
use regatta_testkit::http2::Http2Client;

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

/// Lines of a server's log about the corpus, in any order, without what belongs to the connection.
fn logged(variant: &Variant, ask: impl FnOnce(&Server, &[Asked])) -> Vec<String> {
    let (_site, log, server) = access_log::start(variant, "json");
    let corpus = corpus();
    ask(&server, &corpus);
    let comparable = |mut line: Value| {
        let members = line.as_object_mut().expect("an object");
        members.retain(|name, _| !OF_THE_CONNECTION.contains(&name.as_str()));
        line.to_string()
    };
    let lines = access_log::values(server, &log, corpus.len()).into_iter();
    let mut lines: Vec<String> = lines.map(comparable).collect();
    lines.sort();
    lines
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
