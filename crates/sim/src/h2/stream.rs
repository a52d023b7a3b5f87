//! A stream, as its client sees it, and the strict reader of response heads.
use crate::{
    BrokenCheck,
    reader::Response,
    request::{Request, Verb},
    trace::Stamp,
};
use regatta_http::h2::hpack::HpackDecoder;

/// State of the response of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The response has not come in full.
    Open,
    /// The response has come in full.
    Answered,
    /// The client has reset the stream; RST_STREAM ends at this offset.
    ResetByClient(u64),
    /// The server has reset the stream.
    ResetByServer,
    /// The server has announced that it does not process the stream.
    Unprocessed,
}

/// Stream of a client.
#[derive(Debug)]
pub(super) struct ClientStream {
    pub(super) request: Request,
    /// Fields, for a report.
    pub(super) text: String,
    pub(super) is_malformed: bool,
    /// End of the field block in the client's bytes.
    pub(super) head_end: u64,
    /// End of the request, once all of it has been sent.
    pub(super) end: Option<u64>,
    /// Bytes of content that are still to be sent.
    pub(super) content_left: u64,
    /// Bytes of content and of its padding that have been sent.
    pub(super) sent: u64,
    pub(super) ends: bool,
    pub(super) has_trailers: bool,
    /// Bytes that the server may send.
    pub(super) window: i64,
    /// Bytes that the client may send.
    pub(super) room: i64,
    pub(super) response: Option<Response>,
    pub(super) progress: Progress,
    /// Whether the client never enlarges the window.
    pub(super) is_starved: bool,
}

impl ClientStream {
    /// Whether the client still has something of its request to send.
    pub(super) fn has_content(&self) -> bool {
        let is_open = matches!(self.progress, Progress::Open | Progress::Answered);
        is_open && self.end.is_none() && (self.ends || self.content_left > 0)
    }

    /// Whether the response has no content, whatever its fields say.
    pub(super) fn is_bodiless(&self, status: u16) -> bool {
        self.request.verb == Verb::Head || matches!(status, 204 | 304)
    }
}

/// Reads the head of a response.
pub(super) fn read_response(
    decoder: &mut HpackDecoder,
    block: &[u8],
    offered: Stamp,
) -> Result<Response, BrokenCheck> {
    let mut response = Response { offered, ..Response::default() };
    let (mut fault, mut statuses) = (None, 0);
    let read = decoder.read_fields(block, |name, value| {
        if let Err(what) = take_field(&mut response, &mut statuses, name, value) {
            fault.get_or_insert(what);
        }
    });
    if let Err(what) = read {
        return Err(format!("a field block that cannot be decoded: {what:?}").into());
    }
    if let Some(what) = fault {
        return Err(what);
    }
    if statuses != 1 {
        return Err(format!("a response with {statuses} fields :status").into());
    }
    Ok(response)
}

/// Takes a field of a response. Of the fields in these responses, only `vary` is a list.
fn take_field(
    response: &mut Response,
    statuses: &mut u32,
    name: &[u8],
    value: &[u8],
) -> Result<(), BrokenCheck> {
    let shown = format!("{}: {}", name.escape_ascii(), value.escape_ascii());
    let wrong = |what: &str| Err(BrokenCheck::from(format!("{what}: {shown}")));
    if name == b":status" {
        *statuses += 1;
        let text = str::from_utf8(value).ok().filter(|text| text.len() == 3);
        let status = text.and_then(|text| text.parse().ok()).filter(|it| (200..600).contains(it));
        response.status = match status {
            Some(status) if response.fields.is_empty() => status,
            Some(_) => return wrong("a status behind other fields"),
            None => return wrong("no final status"),
        };
        return Ok(());
    }
    let is_token = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    if name.is_empty() || !name.iter().all(is_token) {
        return wrong("no name in lower case");
    }
    let is_hop = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]
        .iter()
        .any(|hop| name == hop.as_bytes());
    if is_hop {
        return wrong("a field of a connection");
    }
    let is_text = value.iter().all(|byte| (0x20..0x7f).contains(byte));
    if value.is_empty() || !is_text || value.trim_ascii() != value {
        return wrong("no proper value");
    }
    let name = String::from_utf8_lossy(name).into_owned();
    match response.fields.iter_mut().find(|(other, _)| *other == name) {
        Some((_, vary)) if name == "vary" => {
            vary.extend_from_slice(b", ");
            vary.extend_from_slice(value);
        }
        Some(_) => return wrong("a field twice"),
        None => response.fields.push((name, value.to_vec())),
    }
    Ok(())
}

/// Checks the announced length of a response; returns the bytes of content that must follow.
pub(super) fn content_bytes(
    response: &Response,
    stream: &ClientStream,
) -> Result<u64, BrokenCheck> {
    let status = response.status;
    let length = match response.text("content-length").map(|text| text.parse::<u64>()) {
        Some(Err(_)) => return Err("a content-length that is no number".into()),
        Some(Ok(length)) => Some(length),
        None => None,
    };
    if matches!(status, 204 | 304) == length.is_some() {
        return Err(format!("{status} with content-length {length:?}").into());
    }
    Ok(if stream.is_bodiless(status) { 0 } else { length.unwrap_or(0) })
}
