//! Redirects of requests in the clear to addresses with TLS.
use crate::{Refusal, Reply, Request, TransportRules, hosts::without_port, location::with_tls};
use alloc::vec::Vec;
use regatta_http::{
    Status,
    h1::HeadFault,
    target::{Target, decode_path},
};

/// Paths that are answered in the clear: a certificate authority asks for them before there is a
/// certificate (RFC 8555 §8.3).
const CHALLENGES: &[u8] = b".well-known/acme-challenge/";

/// The reply to a request in the clear to `authority` that should come over TLS; `None`: it is
/// answered as any other. Its path is decoded in `room`.
pub(crate) fn redirect<F>(
    rules: TransportRules,
    request: &Request<'_>,
    authority: Option<&[u8]>,
    room: &mut Vec<u8>,
) -> Option<Reply<F>> {
    let port = rules.redirect?;
    let Target::Path(raw) = request.target else { return None };
    // A path that does not decode is refused.
    let path = decode_path(raw, room).ok()?;
    if path.relative.starts_with(CHALLENGES) {
        return None;
    }
    let host = authority.map(without_port).filter(|host| !host.is_empty());
    Some(match host {
        Some(host) => Reply::Redirect(Status::PERMANENT_REDIRECT, with_tls(host, port, raw)),
        None => Reply::Refused(Refusal::Head(HeadFault::Host)),
    })
}
