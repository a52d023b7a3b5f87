//! Requests of HTTP/2, each made together with its meaning.
use super::encoder::FieldText;
use crate::{
    dice::{Dice, index},
    registry::Registry,
    request::{Content, Expect, Maker, Request},
};
use regatta_http::h1::FIELDS_MAX;
use regatta_origin::Limits;

/// Bytes that each field counts besides its text (RFC 9113 §6.5.2).
const FIELD_BYTES: usize = 32;

/// Request, and what is to be sent of it.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) request: Request,
    pub(super) fields: Vec<FieldText>,
    /// Bytes of content.
    pub(super) content_bytes: u64,
    /// Whether the stream ends with the content or the trailers.
    pub(super) ends: bool,
    pub(super) has_trailers: bool,
    /// Whether the server must reset the stream, or answer with 400.
    pub(super) is_malformed: bool,
}

/// Sources of requests.
pub(super) struct Sources<'a> {
    pub(super) limits: &'a Limits,
    pub(super) hot: &'a [&'static str],
    pub(super) registry: &'a Registry,
}

/// Makes a request, mostly valid.
pub(super) fn make(dice: &mut Dice, sources: &Sources<'_>) -> Made {
    let Sources { limits, hot, registry } = *sources;
    let mut maker = Maker { dice: &mut *dice, limits, hot, registry };
    let (verb, method) = maker.method();
    let (goal, target) = maker.target(verb);
    let mut request = Request::new(verb, goal);
    let mut lines = Vec::new();
    maker.conditions(&mut request, &mut lines);
    if maker.dice.one_in(4) {
        let (range, text) = maker.range();
        lines.push(format!("Range: {text}"));
        request.range = Some(range);
    }
    if maker.dice.one_in(3) {
        request.accept_encoding = Some(maker.codings(&mut lines));
    }
    let mut made = Made { request, ends: true, ..Made::default() };
    add_others(&mut made, dice, limits, &mut lines);
    let path = without_authority(&target);
    made.fields = pseudo_fields(dice, method, path);
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
        made.fields.push((name.to_ascii_lowercase(), value.as_bytes().to_vec()));
    }
    if dice.one_in(40) {
        spoil(&mut made, dice);
    }
    refuse(&mut made, path.len(), limits);
    made
}

/// Adds fields that do not depend on files, and the content.
fn add_others(made: &mut Made, dice: &mut Dice, limits: &Limits, lines: &mut Vec<String>) {
    if dice.one_in(5) {
        made.request.navigation = true;
        lines.push("Accept: image/avif, text/html;q=0.9".to_owned());
    }
    if dice.one_in(30) {
        made.request.expect = Expect::Unknown;
        lines.push("Expect: tea".to_owned());
    }
    if dice.one_in(3) {
        let urgency = dice.below(9);
        lines.push(format!("Priority: u={urgency}{}", dice.pick(&["", ", i", ", i=?0"])));
    }
    if dice.one_in(4) {
        let n = dice.below(40);
        lines.push(format!("X-Fill-{n}: {}", "f\tg h".repeat(index(n))));
    }
    if dice.one_in(6) {
        add_content(made, dice, limits, lines);
    }
}

fn add_content(made: &mut Made, dice: &mut Dice, limits: &Limits, lines: &mut Vec<String>) {
    let most = limits.discard_body_bytes_max;
    let bytes = match dice.below(5) {
        0 => 0,
        1 if most < 1_000 => most,
        2 if most < 1_000 => most + 1,
        _ => dice.below(300),
    };
    made.has_trailers = dice.one_in(3);
    made.content_bytes = bytes;
    if dice.one_in(2) {
        made.request.content = Content::Chunked { bytes, malformed: false };
        return;
    }
    // Content that is refused for its length is never sent in full.
    let announced = if dice.one_in(8) { most + 1 + dice.below(1 << 40) } else { bytes };
    made.ends = announced == bytes;
    made.request.content = Content::Length(announced);
    lines.push(format!("Content-Length: {announced}"));
}

/// The path of a target that may have a scheme and an authority.
fn without_authority(target: &[u8]) -> &[u8] {
    let other = target.strip_prefix(b"http://other").or(target.strip_prefix(b"HTTPS://h:1"));
    other.unwrap_or(target)
}

fn pseudo_fields(dice: &mut Dice, method: &str, path: &[u8]) -> Vec<FieldText> {
    let field = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
    let host = dice.pick(&["sim", "localhost:8080", "[::1]:80", "a%41b"]);
    let scheme = dice.pick(&["http", "https"]);
    let mut fields = vec![
        field(":method", method.as_bytes()),
        field(":scheme", scheme.as_bytes()),
        field(":path", path),
    ];
    if !dice.one_in(4) {
        fields.push(field(":authority", host.as_bytes()));
    }
    let first = index(dice.below(fields.len() as u64));
    fields.rotate_left(first);
    if !fields.iter().any(|(name, _)| name == ":authority") || dice.one_in(6) {
        fields.push(field("host", host.as_bytes()));
    }
    fields
}

/// Breaks a request.
fn spoil(made: &mut Made, dice: &mut Dice) {
    let fields = &mut made.fields;
    let field = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    made.request.refusals.push(400);
    made.is_malformed = true;
    match dice.below(11) {
        0 => fields.push(field("X-Upper", "a")),
        1 => fields.push(field("connection", "close")),
        2 => fields.push(field("te", "gzip")),
        3 => fields.retain(|(name, _)| name != ":path"),
        4 => fields.push(field(":scheme", "https")),
        5 => fields.insert(0, field(":other", "x")),
        6 => fields.push(field("x-space", " a")),
        7 => fields.push(field("host", "another")),
        8 => fields.push(field("transfer-encoding", "chunked")),
        9 => fields.insert(0, field(":method", "GET")),
        _ => {
            // Well-formed, but without a host.
            made.is_malformed = false;
            fields.retain(|(name, _)| name != ":authority" && name != "host");
        }
    }
}

/// Notes the statuses of a request that is over a limit.
fn refuse(made: &mut Made, path_bytes: usize, limits: &Limits) {
    let bytes: usize =
        made.fields.iter().map(|(name, value)| name.len() + value.len() + FIELD_BYTES).sum();
    let count = made.fields.iter().filter(|(name, _)| !name.starts_with(':')).count();
    if bytes > limits.head_bytes_max || count > limits.fields_max.min(FIELDS_MAX) {
        made.request.refusals.push(431);
    }
    if path_bytes > limits.target_bytes_max {
        made.request.refusals.push(414);
    }
}
