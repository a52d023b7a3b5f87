//! Reading a request and writing its answer.
use regatta_http::{
    Method, Status,
    h1::{
        HeadFault, HeadLimits, Scan, end_head, parse_request, scan_head, write_date_field,
        write_decimal_field, write_field, write_status_line,
    },
    target::Target,
};
use regatta_sys::clock;

/// Media type of a page.
const HTML: &str = "text/html; charset=utf-8";

/// Rights of a page: its own style and script, and requests to this server.
const POLICY: &[u8] =
    b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                        connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                        frame-ancestors 'none'";

/// The longest head, bytes.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// Request of a monitor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// Path, as it was sent.
    pub(super) path: &'a str,
    /// Query, without its question mark; may be empty.
    pub(super) query: &'a str,
    /// `Accept`; may be empty.
    pub(super) accept: &'a str,
    /// `Host`; `None` from a client of HTTP/1.0.
    pub(super) host: Option<&'a str>,
    /// Whether the answer has a body, too.
    pub(super) with_body: bool,
}

/// Answer to a monitor.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl Answer {
    /// A text for people.
    pub(super) fn text(status: Status, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    /// A page for people.
    pub(super) fn html(body: &str) -> Self {
        Self { status: Status::OK, content_type: HTML, body: body.to_owned() }
    }

    /// A document for programs.
    pub(super) fn json(status: Status, body: String) -> Self {
        Self { status, content_type: "application/json", body }
    }
}

/// Adds received bytes to a head. `Some` once it is whole, and cut off at its end, or if it is
/// none.
pub(super) fn scan(head: &mut Vec<u8>, bytes: &[u8]) -> Option<Result<(), HeadFault>> {
    let seen = head.len();
    head.extend_from_slice(bytes);
    match scan_head(head, seen) {
        Scan::End(length) if length <= HEAD_BYTES_MAX => {
            head.truncate(length);
            Some(Ok(()))
        }
        Scan::Bad => Some(Err(HeadFault::FieldLine)),
        Scan::Partial if head.len() < HEAD_BYTES_MAX => None,
        Scan::End(_) | Scan::Partial => Some(Err(HeadFault::HeadTooLarge)),
    }
}

/// Parses a head; the whole answer if the request is refused.
pub(super) fn request(head: &[u8]) -> Result<Asked<'_>, Vec<u8>> {
    let limits = HeadLimits { head_bytes_max: HEAD_BYTES_MAX, ..HeadLimits::default() };
    let head = parse_request(head, &limits).map_err(refuse)?;
    if !matches!(head.method, Method::Get | Method::Head) {
        let why = "GET and HEAD are all that is answered here; signals change the server\n";
        return Err(encode(&Answer::text(Status::METHOD_NOT_ALLOWED, why), true));
    }
    let target = match head.names {
        Target::Path(target) => str::from_utf8(target).unwrap_or_default(),
        Target::Server | Target::Tunnel => "",
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let field = |name| head.fields.get(name).map(|value| str::from_utf8(value).unwrap_or_default());
    let (accept, host) = (field("Accept").unwrap_or_default(), field("Host"));
    Ok(Asked { path, query, accept, host, with_body: head.method == Method::Get })
}

pub(super) fn refuse(fault: HeadFault) -> Vec<u8> {
    encode(&Answer::text(fault.status(), format!("{}\n", fault.reason())), true)
}

/// Encodes an answer.
pub(super) fn encode(answer: &Answer, with_body: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(512 + answer.body.len());
    write_status_line(&mut out, answer.status);
    write_date_field(&mut out, "Date", i64::try_from(clock::now().unix).unwrap_or(0));
    write_field(&mut out, "Content-Type", answer.content_type.as_bytes());
    write_decimal_field(&mut out, "Content-Length", answer.body.len() as u64);
    write_field(&mut out, "Cache-Control", b"no-store");
    write_field(&mut out, "X-Content-Type-Options", b"nosniff");
    if answer.content_type == HTML {
        write_field(&mut out, "Content-Security-Policy", POLICY);
    }
    if answer.status == Status::METHOD_NOT_ALLOWED {
        write_field(&mut out, "Allow", b"GET, HEAD");
    }
    write_field(&mut out, "Connection", b"close");
    end_head(&mut out);
    if with_body {
        out.extend_from_slice(answer.body.as_bytes());
    }
    out
}
