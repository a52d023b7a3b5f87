//! Rules for a reply that follow from its request and its connection, whatever file answers.
use crate::{ListenerClass, Request, Site, cors::Grant};
use alloc::vec::Vec;
use core::cell::RefCell;
use regatta_http::{
    Method,
    target::{Target, decode_path},
};

/// Rules for the reply to one request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplyRules {
    /// The number of the host that the request is for.
    pub(crate) host: u16,
    /// True for `HEAD`: the same fields and no body.
    pub(crate) head_only: bool,
    /// True where the response may not have `Strict-Transport-Security`: it is in the clear.
    pub(crate) bare: bool,
    /// Result of a rule for scripts of other sites.
    pub(crate) cors: Option<Grant>,
}

impl ReplyRules {
    /// The rules for the reply to `request`, at a listener of this class. The site is that of the
    /// host which the request names. The path may be decoded in `room`.
    #[inline(always)]
    pub(crate) fn new(
        request: &Request<'_>,
        class: ListenerClass,
        site: &Site,
        room: &RefCell<Vec<u8>>,
    ) -> Self {
        let cors =
            if site.rules.has_cors() { grant(request, site, &mut room.borrow_mut()) } else { None };
        let head_only = request.method == Method::Head;
        Self { host: site.host, head_only, cors, ..Self::unread(class, site) }
    }

    /// The rules for the reply to a request that cannot be read, by the site of the first host.
    #[inline(always)]
    pub(crate) fn unread(class: ListenerClass, site: &Site) -> Self {
        let bare = site.transport.is_some() && class == ListenerClass::CLEAR;
        Self { bare, ..Self::default() }
    }
}

/// Result of the rules for scripts of other sites; the path is decoded in `room`.
#[cold]
fn grant(request: &Request<'_>, site: &Site, room: &mut Vec<u8>) -> Option<Grant> {
    let Target::Path(raw) = request.target else { return None };
    let path = decode_path(raw, room).ok()?;
    let fields = request.destination;
    let preflight = request.method == Method::Options
        && fields.field("access-control-request-method").is_some();
    site.rules.grant(path.relative, fields.field("origin"), preflight)
}
