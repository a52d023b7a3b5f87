//! From a request of any protocol to its answer: a refusal, a cached file, or an exchange.
use crate::{
    Cx, Destination, Exchange, ListenerClass, Peer, Refusal, Reply, Representation, Request, Step,
    exchange::{admits, challenge},
    plan::{Plan, plan},
    reply_rules::ReplyRules,
    resolve::{Resolved, Role, Search, Target},
    transport::redirect,
};
use alloc::sync::Arc;
use regatta_http::target::decode_path;
use regatta_metrics::Counter;
use regatta_op::{File, Now};

/// A request, as a connection received it.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) request: &'a Request<'a>,
    /// Host and port that it names.
    pub(crate) authority: Option<&'a [u8]>,
    /// The other end of the connection.
    pub(crate) peer: &'a Peer,
    /// Refusal of every request now, whatever it asks for.
    pub(crate) refusal: Option<Refusal>,
}

/// The result of [`answer`].
pub(crate) enum Answer<R, F> {
    /// A cached file answers, and was served.
    Hit(R),
    /// The next need of an exchange, or the reply.
    Step(Step<F>),
}

/// Part of a protocol in the answer to one request.
pub(crate) trait Serve<F> {
    /// The result of serving a cached file.
    type Served;

    /// Notes the request of this client for the log: its exchange keeps the text as it was sent.
    fn note(&mut self, client: Peer, now: Now, cx: &Cx<'_, F>);

    /// The exchange of the request, which is not answered at once.
    fn exchange(&mut self, cx: &Cx<'_, F>) -> &mut Exchange<F>;

    /// True if the kernel can send a file itself to a client of this class of listeners.
    fn takes_files(&self, class: ListenerClass) -> bool;

    /// Updates what the protocol stores together with the facts of the file.
    fn prepare(&mut self, file: &mut Arc<Representation<F>>, now: Now, cx: &Cx<'_, F>);

    /// Serves the plan, with the site of the request's host.
    fn serve(
        &mut self,
        plan: &Plan<'_, F>,
        role: Role,
        rules: &ReplyRules,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Self::Served;
}

/// Answers a request of any protocol.
///
/// Counts and notes it, finds its host, and asks whether the client may have an answer. Then has a
/// cached file served if one look-up is enough, else starts the exchange. Sets `rules`, by which a
/// reply is encoded. Inlined into its caller: it is the path of every hit.
#[inline(always)]
pub(crate) fn answer<F: File, S: Serve<F>>(
    arrival: &Arrival<'_>,
    rules: &mut ReplyRules,
    now: Now,
    cx: &Cx<'_, F>,
    serve: &mut S,
) -> Answer<S::Served, F> {
    let Arrival { request, authority, peer, refusal } = *arrival;
    cx.tally.add(Counter::Requests, 1);
    if cx.log.wants() {
        serve.note(client(request, *peer, cx), now, cx);
    }
    let (changed, mut room) = (cx.changed_sites(), None);
    let cx = cx.of_host(cx.site.hosts.find(authority), &changed, &mut room);
    *rules = ReplyRules::new(request, peer.class(), cx.site, &cx.scratch.decoded);
    if let Some(refusal) = refusal {
        return Answer::Step(Step::Reply(Reply::Refused(refusal)));
    }
    if cx.site.limits.client_rate > 0 && !cx.links.may_ask(client(request, *peer, cx), now) {
        cx.tally.add(Counter::RequestsLimited, 1);
        return Answer::Step(Step::Reply(Reply::Refused(Refusal::TooMany)));
    }
    if rules.bare
        && let Some(transport) = cx.site.transport
    {
        let mut decoded = cx.scratch.decoded.borrow_mut();
        if let Some(reply) = redirect(transport, request, authority, &mut decoded) {
            return Answer::Step(Step::Reply(reply));
        }
    }
    find(request, peer.class(), rules, now, cx, serve)
}

/// The client of a request that the peer sent.
#[inline]
fn client<F>(request: &Request<'_>, peer: Peer, cx: &Cx<'_, F>) -> Peer {
    match request.destination {
        Destination::Fields(fields) if cx.site.forwarded => cx.links.client(peer, &fields),
        _ => peer,
    }
}

/// Calls `serve` with a cached file if one look-up is enough, else starts the exchange.
#[inline(always)]
fn find<F: File, S: Serve<F>>(
    request: &Request<'_>,
    class: ListenerClass,
    rules: &ReplyRules,
    now: Now,
    cx: &Cx<'_, F>,
    serve: &mut S,
) -> Answer<S::Served, F> {
    let mut decoded = cx.scratch.decoded.borrow_mut();
    let raw = match request.raw_path() {
        Ok(raw) => raw,
        Err(refusal) => return Answer::Step(Step::Reply(Reply::without_file(refusal))),
    };
    // By reference, and without its fault: a path is seven words.
    let Ok(path) = &decode_path(raw, &mut decoded) else {
        return Answer::Step(Step::Reply(Reply::Refused(Refusal::Path)));
    };
    if let Some(status) = cx.site.closed {
        return Answer::Step(Step::Reply(Reply::Nothing(status)));
    }
    if cx.site.rules.has_auth()
        && let Some(challenge) =
            challenge(cx.site.rules.auth_of_request(path.relative), request, cx)
    {
        return Answer::Step(Step::Reply(Reply::Unauthorized(challenge)));
    }
    let target = Target::new(path, request, cx.site, serve.takes_files(class));
    let found = Search::start(&target);
    let hit = match &found {
        Resolved::Next(next) if next.is_itself() => {
            hit(path.relative, Role::Itself, &target, rules, now, cx, serve)
        }
        Resolved::Next(next) => hit_other(*next, &target, rules, now, cx, serve),
        _ => None,
    };
    match hit {
        Some(hit) => Answer::Hit(hit),
        None => Answer::Step(serve.exchange(cx).begin(&target, found, now, cx)),
    }
}

/// Calls `serve` with the plan for the cached file `name`, in its `role`, if it needs no disk.
#[inline(always)]
fn hit<F: File, S: Serve<F>>(
    name: &[u8],
    role: Role,
    target: &Target<'_>,
    rules: &ReplyRules,
    now: Now,
    cx: &Cx<'_, F>,
    serve: &mut S,
) -> Option<S::Served> {
    let mut hit = None;
    if cx.site.caching.enabled {
        let mut room;
        let key = if cx.site.host == 0 {
            name
        } else {
            room = cx.scratch.key.borrow_mut();
            cx.site.key(name, &mut room)
        };
        cx.cache.hit(key, now.tick, &cx.tally, &mut |file| {
            // Another thread may have cached it of another release.
            if cx.scratch.is_behind() {
                return false;
            }
            serve.prepare(file, now, cx);
            let plan = plan(target.request, file, role, cx.site.limits.ranges_max, now.unix);
            let method = target.request.method;
            let fill = plan.fill(method, target.body_bytes_max);
            if fill.is_none() && !plan.sends_file(method) {
                hit = Some(serve.serve(&plan, role, rules, now, cx));
            }
            hit.is_some()
        });
    }
    hit
}

/// [`hit`] by a name that must be put together, such as an index name.
#[inline(never)]
fn hit_other<F: File, S: Serve<F>>(
    search: Search,
    target: &Target<'_>,
    rules: &ReplyRules,
    now: Now,
    cx: &Cx<'_, F>,
    serve: &mut S,
) -> Option<S::Served> {
    let mut room = cx.scratch.candidate.borrow_mut();
    let name = search.name(target, &mut room)?;
    let guard = cx.site.rules.auth_beside(target.path.relative, name);
    if guard.is_some_and(|rule| !admits(rule, target.request)) {
        return None;
    }
    hit(name, search.role(), target, rules, now, cx, serve)
}
