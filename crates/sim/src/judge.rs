//! Judges whether a response is possible for its request.
use crate::{
    BrokenCheck,
    disk::{UNIX, content, unix},
    expect::{Answer, Oracle, Role, Shown, UNDATED_SECS_MAX, content_faults},
    knowledge::{Asker, Knowledge},
    link::Link,
    reader::{Response, parts},
    registry::{Registry, Tagged},
    request::Verb,
    trace::Stamp,
};
use regatta_http::date;
use regatta_origin::Site;

pub(crate) struct Judge<'a> {
    pub(crate) site: &'a Site,
    pub(crate) knowledge: &'a Knowledge,
    pub(crate) link: &'a Link,
}

pub(crate) struct Verdict {
    /// Whether the connection ends after it.
    pub(crate) terminal: bool,
    /// The file that it describes and its tag, if only one file is possible.
    pub(crate) tagged: Option<(Vec<u8>, Shown)>,
}

impl Judge<'_> {
    /// Judges a response, complete or (`complete` is false) as far as it arrived.
    pub(crate) fn judge(
        &self,
        number: usize,
        response: &Response,
        registry: &Registry,
        complete: bool,
    ) -> Result<Verdict, BrokenCheck> {
        if self.link.terminal {
            return Err("a response after the one that said it was the last".into());
        }
        let begun = self.link.delivered_at(self.start_of(number) + 1);
        let Some(begun) = begun.filter(|begun| begun.step <= response.offered.step) else {
            return Err(format!("response {number} to nothing: {response:?}").into());
        };
        let since = self.link.requests.get(number).and_then(|asked| {
            self.link.delivered_at(asked.head_end).filter(|at| at.step <= response.offered.step)
        });
        check_date(response, begun)?;
        let mut tagged = None;
        let refused = match since {
            _ if response.status == 408 => {
                self.timed_out(number, response, begun).map(|()| true)?
            }
            Some(asked) => {
                let found = self.answered(number, response, asked, registry, complete)?;
                tagged = found.1;
                found.0
            }
            None => self.refused(number, response).map(|()| true)?,
        };
        let terminal = self.check_connection(number, response, refused, since)?;
        Ok(Verdict { terminal, tagged })
    }

    fn start_of(&self, number: usize) -> u64 {
        self.link.requests.get(number).map_or(u64::MAX - 1, |asked| asked.start)
    }

    /// Checks that 408 responds to a late head or late content, and not too early.
    fn timed_out(
        &self,
        number: usize,
        response: &Response,
        begun: Stamp,
    ) -> Result<(), BrokenCheck> {
        let asked = &self.link.requests[number];
        let stays = asked.request.content_stays(&self.site.limits);
        let end = if stays { asked.head_end } else { asked.end };
        let whole = self.link.delivered_at(end).filter(|at| at.step < response.offered.step);
        if whole.is_some() && asked.request.refusals.is_empty() {
            return Err("408 to a request that had come".into());
        }
        let since = self.link.delivered_at(asked.head_end).unwrap_or(begun);
        if response.offered.tick < since.tick + self.site.deadlines.head_ms_max {
            return Err(format!("408 too early: {since:?} {:?}", response.offered).into());
        }
        page(response, 408, self.link.is_head(number))
    }

    /// Checks the refusal of a malformed head, possibly before the head is complete.
    fn refused(&self, number: usize, response: &Response) -> Result<(), BrokenCheck> {
        let request = &self.link.requests[number].request;
        if !request.refusals.contains(&response.status) {
            let text = String::from_utf8_lossy(&request.wire);
            return Err(format!("{} before the head of {text:?} had come", response.status).into());
        }
        page(response, response.status, false)
    }

    /// Judges the response to a whole head. Returns whether it must end the connection, and its
    /// file.
    #[expect(clippy::type_complexity, reason = "used once")]
    fn answered(
        &self,
        number: usize,
        response: &Response,
        asked: Stamp,
        registry: &Registry,
        complete: bool,
    ) -> Result<(bool, Option<(Vec<u8>, Shown)>), BrokenCheck> {
        let (request, end) = (&self.link.requests[number].request, self.link.requests[number].end);
        if !request.refusals.is_empty() {
            return self.refused(number, response).map(|()| (true, None));
        }
        if let Some(status) = self.link.turned_away(number) {
            return page(response, status, request.verb == Verb::Head).map(|()| (true, None));
        }
        let overdue = self.link.overdue.is_some_and(|at| at.step >= asked.step);
        if overdue
            && response.status == 503
            && response.text("connection").as_deref() == Some("close")
        {
            return page(response, 503, request.verb == Verb::Head).map(|()| (true, None));
        }
        let faults = content_faults(request, self.site);
        if !faults.is_empty() {
            return match faults.contains(&response.status) {
                true => page(response, response.status, request.verb == Verb::Head)
                    .map(|()| (true, None)),
                false => Err(format!("{} for content that is no good", response.status).into()),
            };
        }
        let whole = self.link.delivered_at(end).filter(|at| at.step <= response.offered.step);
        if whole.is_none() && !request.content_stays(&self.site.limits) {
            return Err("an answer before the content had come".into());
        }
        let asker = Asker { link: Some(self.link.number), asked, answered: response.offered };
        let known = |name: &[u8]| self.knowledge.list(name, asker, &self.site.caching);
        let unix = (unix(asked), unix(response.offered));
        let oracle = Oracle { site: self.site, request, known: &known, unix };
        let mut answers = oracle.answers();
        if self.link.unreadable.iter().any(|at| at.step >= asked.step) {
            answers.push(Answer::Page(500));
        }
        let head_only = request.verb == Verb::Head;
        let rules = Conformity { site: self.site, registry };
        let tagged = rules.choose(&answers, response, head_only, complete).map_err(|fault| {
            let text = String::from_utf8_lossy(&request.wire);
            BrokenCheck::from(format!("no answer to request {number} {text:?}:\n{fault}"))
        })?;
        Ok((false, tagged))
    }

    /// Checks the field `Connection`. Returns whether the response ends the connection.
    fn check_connection(
        &self,
        number: usize,
        response: &Response,
        refused: bool,
        asked: Option<Stamp>,
    ) -> Result<bool, BrokenCheck> {
        let request = &self.link.requests[number].request;
        let limits = &self.site.limits;
        let count = u32::try_from(number + 1).expect("few requests");
        let last = limits.requests_max > 0 && count >= limits.requests_max;
        let mut must = refused || last || !request.persistent || request.content_stays(limits);
        let mut may = must;
        if let (Some(drained), Some(asked)) = (self.link.drained, asked) {
            must |= drained.step < asked.step;
            may |= drained.step <= response.offered.step;
        }
        match response.text("connection").as_deref() {
            Some("close") if may => Ok(true),
            Some("close") => Err("it says close without a reason".into()),
            other if must => Err(format!("it must say close, and says {other:?}").into()),
            Some("keep-alive") if request.http10 => Ok(false),
            None if !request.http10 => Ok(false),
            other => Err(format!("Connection: {other:?}").into()),
        }
    }
}

/// A file, and the entity tag that a response gives it.
pub(crate) type TaggedFile = (Vec<u8>, Shown);

/// Comparison of responses with answers, in any version of HTTP.
pub(crate) struct Conformity<'a> {
    pub(crate) site: &'a Site,
    pub(crate) registry: &'a Registry,
}

impl Conformity<'_> {
    /// Finds the answers that a response, complete or not, may be. Returns its tag and file, if
    /// only one file is possible.
    pub(crate) fn choose(
        &self,
        answers: &[Answer],
        response: &Response,
        head_only: bool,
        complete: bool,
    ) -> Result<Option<TaggedFile>, BrokenCheck> {
        let mut faults = Vec::new();
        let mut fitting: Vec<&Answer> = Vec::new();
        for answer in answers {
            match self.fits(answer, response, head_only, complete) {
                Ok(()) => fitting.push(answer),
                Err(fault) => faults.push(format!("  not {answer:?}:\n    {fault}")),
            }
        }
        let Some(first) = fitting.first() else {
            let fields = response
                .fields
                .iter()
                .map(|(name, value)| format!("  {name}: {}\n", String::from_utf8_lossy(value)));
            return Err(format!(
                "  {}, {} bytes\n{}it could be\n{}",
                response.status,
                response.body.len(),
                fields.collect::<String>(),
                faults.join("\n")
            )
            .into());
        };
        let alone = fitting.iter().all(|other| tag_of(other) == tag_of(first));
        let tag = response.field("etag").filter(|_| alone).map(<[u8]>::to_vec);
        Ok(tag.zip(shown(first).cloned()))
    }

    /// Compares one possible answer with the response.
    fn fits(
        &self,
        answer: &Answer,
        response: &Response,
        head_only: bool,
        complete: bool,
    ) -> Result<(), BrokenCheck> {
        match answer {
            Answer::Page(status) => page(response, *status, head_only),
            Answer::Options => {
                is("status", response.status, 204)?;
                has(response, "allow", Some("GET, HEAD, OPTIONS"))
            }
            Answer::Redirect(to) => {
                has(response, "location", Some(&String::from_utf8_lossy(to)))?;
                page(response, 301, head_only)
            }
            Answer::Unsatisfiable(len) => {
                has(response, "content-range", Some(&format!("bytes */{len}")))?;
                page(response, 416, head_only)
            }
            Answer::NotModified(shown) => {
                is("status", response.status, 304)?;
                has(response, "content-type", None)?;
                self.describes(shown, response)
            }
            Answer::Whole(shown) => {
                let missing = shown.role == Role::NotFound;
                is("status", response.status, if missing { 404 } else { 200 })?;
                has(response, "content-length", Some(&shown.id.len.to_string()))?;
                has(response, "content-type", Some(media_type(&shown.name)))?;
                has(response, "content-range", None)?;
                self.describes(shown, response)?;
                let len = if head_only { 0 } else { shown.id.len };
                body(&response.body, shown, 0, len, complete)
            }
            Answer::Parts(shown, ranges) => {
                is("status", response.status, 206)?;
                self.describes(shown, response)?;
                self.parts(shown, ranges, response, complete)
            }
        }
    }

    fn parts(
        &self,
        shown: &Shown,
        ranges: &[(u64, u64)],
        response: &Response,
        complete: bool,
    ) -> Result<(), BrokenCheck> {
        let says = |(first, last): (u64, u64)| format!("bytes {first}-{last}/{}", shown.id.len);
        if let [(first, last)] = ranges[..] {
            has(response, "content-range", Some(&says((first, last))))?;
            has(response, "content-type", Some(media_type(&shown.name)))?;
            is("length", response.promised, last - first + 1)?;
            return body(&response.body, shown, first, last - first + 1, complete);
        }
        has(response, "content-range", None)?;
        let content_type = response.text("content-type").unwrap_or_default();
        if !complete {
            return Ok(());
        }
        let found = parts(&response.body, &content_type)?;
        is("parts", found.len(), ranges.len())?;
        for (part, range) in found.iter().zip(ranges) {
            is("range", &*part.content_range, &*says(*range))?;
            is("type", &*part.content_type, media_type(&shown.name))?;
            body(part.bytes, shown, range.0, range.1 - range.0 + 1, true)?;
        }
        Ok(())
    }

    /// Checks the fields that describe a file.
    fn describes(&self, shown: &Shown, response: &Response) -> Result<(), BrokenCheck> {
        let rules = &self.site.content;
        let unchanged = response.status == 304;
        has(response, "server", Some("regatta"))?;
        let nosniff = (rules.nosniff && !unchanged).then_some("nosniff");
        has(response, "x-content-type-options", nosniff)?;
        if shown.role == Role::NotFound {
            has(response, "etag", None)?;
            has(response, "last-modified", None)?;
            has(response, "content-encoding", None)?;
            has(response, "vary", self.vary_of_404())?;
            return has(response, "cache-control", Some(&rules.cache_control_page));
        }
        let caching = match media_type(&shown.name) {
            "text/html; charset=utf-8" => &rules.cache_control_page,
            _ if is_asset(&shown.name) => &rules.cache_control_asset,
            _ => &rules.cache_control_other,
        };
        has(response, "cache-control", Some(caching))?;
        let coding = shown.coding.map(regatta_op::Coding::name).filter(|_| !unchanged);
        has(response, "content-encoding", coding)?;
        has(response, "accept-ranges", (!unchanged).then_some("bytes"))?;
        let vary = match (shown.varies, shown.role == Role::Fallback) {
            (false, false) => None,
            (true, false) => Some("Accept-Encoding"),
            (false, true) => Some("Accept, Sec-Fetch-Dest"),
            (true, true) => Some("Accept-Encoding, Accept, Sec-Fetch-Dest"),
        };
        has(response, "vary", vary)?;
        modified(shown, response)?;
        let Some(tag) = response.field("etag") else {
            return Err("no ETag".into());
        };
        match self.registry.find(tag) {
            Some(of) if of != tagged(shown) => Err(format!("the tag of {of:?}").into()),
            _ if tag.len() < 3 || !tag.ends_with(b"\"") => Err("no tag".into()),
            _ if !tag.starts_with(if shown.young { b"W/\"" } else { b"\"" }) => {
                Err("a strong tag where a weak one belongs, or the other way round".into())
            }
            _ => Ok(()),
        }
    }

    /// Value of `Vary` in a 404: a request for a page may get the fallback instead.
    fn vary_of_404(&self) -> Option<&'static str> {
        (!self.site.content.fallback.is_empty()).then_some("Accept, Sec-Fetch-Dest")
    }
}

const fn shown(answer: &Answer) -> Option<&Shown> {
    match answer {
        Answer::Whole(shown) | Answer::Parts(shown, _) | Answer::NotModified(shown) => Some(shown),
        _ => None,
    }
}

fn tag_of(answer: &Answer) -> Option<Tagged> {
    shown(answer).map(tagged)
}

fn tagged(shown: &Shown) -> Tagged {
    (shown.id, shown.coding, shown.young)
}

fn is<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), BrokenCheck> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what} is {found:?} where {expected:?} belongs").into())
}

/// Checks a field's value, or that it is absent.
fn has(response: &Response, name: &str, expected: Option<&str>) -> Result<(), BrokenCheck> {
    is(name, response.text(name).as_deref(), expected)
}

/// Checks a small page with the status.
pub(crate) fn page(response: &Response, status: u16, head_only: bool) -> Result<(), BrokenCheck> {
    is("status", response.status, status)?;
    has(response, "content-type", Some("text/html; charset=utf-8"))?;
    has(response, "x-content-type-options", Some("nosniff"))?;
    has(response, "etag", None)?;
    has(response, "last-modified", None)?;
    has(response, "content-encoding", None)?;
    has(response, "allow", (status == 405).then_some("GET, HEAD, OPTIONS"))?;
    has(response, "retry-after", matches!(status, 429 | 503).then_some("1"))?;
    if response.body.len() as u64 == response.promised && !head_only {
        let body = String::from_utf8_lossy(&response.body);
        if !body.contains(&status.to_string()) || !body.ends_with('\n') || body.len() > 400 {
            return Err(format!("the page is {body:?}").into());
        }
    }
    Ok(())
}

fn body(
    found: &[u8],
    shown: &Shown,
    first: u64,
    len: u64,
    complete: bool,
) -> Result<(), BrokenCheck> {
    let came = found.len() as u64;
    if complete && came != len || came > len {
        return Err(format!("{came} bytes where {len} belong").into());
    }
    if came == 0 {
        return Ok(());
    }
    let expected = content(shown.id.inode, first..first + came);
    match found.iter().zip(&expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => Err(format!("byte {} of {len} is another", first + at as u64).into()),
    }
}

fn modified(shown: &Shown, response: &Response) -> Result<(), BrokenCheck> {
    let text = response.text("last-modified");
    if response.status == 304 {
        return is("last-modified", text, None);
    }
    if text.is_none() && shown.modified.is_none_or(|secs| secs <= UNDATED_SECS_MAX) {
        return Ok(());
    }
    let Some(secs) = text.as_ref().and_then(|text| date::parse(text.as_bytes(), UNIX)) else {
        return Err(format!("Last-Modified: {text:?}").into());
    };
    if secs <= UNDATED_SECS_MAX {
        return Err(format!("Last-Modified: {text:?} says nothing").into());
    }
    match shown.modified {
        Some(expected) => is("last-modified", secs, expected),
        None if secs < shown.id.changed.secs || secs > shown.id.modified.secs => {
            Err(format!("Last-Modified: {text:?} is neither then nor now").into())
        }
        None => Ok(()),
    }
}

/// Checks that `Date` is the time of the response, and the latest date (RFC 9110 §8.8.2.1).
pub(crate) fn check_date(response: &Response, begun: Stamp) -> Result<(), BrokenCheck> {
    let read = |name: &str| {
        response.field(name).and_then(|text| date::parse(text, UNIX)).map(i64::cast_unsigned)
    };
    let Some(secs) = read("date") else {
        return Err("no Date".into());
    };
    if secs < unix(begun) || secs > unix(response.offered) {
        return Err(format!("Date is {secs}, between {begun:?} and {:?}", response.offered).into());
    }
    match read("last-modified") {
        Some(modified) if modified.cast_signed() > secs.cast_signed() => {
            Err("Last-Modified after Date".into())
        }
        _ => Ok(()),
    }
}

/// Whether this is the one name with a hash in it; its siblings are not files of a bundler.
fn is_asset(name: &[u8]) -> bool {
    name.windows(12).any(|window| window == b".3f9c2ab1.js") && name.ends_with(b".js")
}

fn media_type(name: &[u8]) -> &'static str {
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let suffix = match name.iter().rposition(|&byte| byte == b'.') {
        None | Some(0) => return "application/octet-stream",
        Some(dot) => &name[dot + 1..],
    };
    match suffix {
        b"html" | b"htm" => "text/html; charset=utf-8",
        b"txt" => "text/plain; charset=utf-8",
        b"css" => "text/css; charset=utf-8",
        b"js" => "text/javascript; charset=utf-8",
        b"png" => "image/png",
        b"gz" => "application/gzip",
        _ => "application/octet-stream",
    }
}
