//! Blocks against the text that HTTP/1 sends, prebuilt blocks against written ones, and memory.
use super::*;
use crate::{
    CorsOptions, CorsRule, FileReply, HeaderLine, Refusal, Reply, Representation, Scratch, Site,
    TransportRules, course::Persistence, entry::heads::room, reply_rules::ReplyRules,
};
use alloc::{
    borrow::ToOwned, collections::BTreeSet, format, string::String, string::ToString, sync::Arc,
    vec,
};
use regatta_http::{
    Status,
    date::DATE_BYTES,
    h2::hpack::{HpackDecoder, TABLE_BYTES_DEFAULT},
    pattern::Pattern,
    range::ByteRange,
};
use regatta_op::{Coding, FileId, Modified, Now, Tick};
use regatta_sys::alloc_count::{Counting, allocations, bytes};

#[global_allocator]
static COUNTING: Counting = Counting;

const NOW: Now = Now { tick: Tick(5), unix: 1_700_000_000 };
/// Lines of the owner's rules.
const LINES: [&str; 4] = [
    "X-Custom-Name: Some Value",
    "Content-Security-Policy: default-src 'self'; script-src 'self' https://a.example",
    "Vary: Cookie",
    "Set-Cookie: a=b",
];
const ORIGIN: &[u8] = b"https://a.example";

#[derive(Clone, Copy, Debug, PartialEq)]
struct Plain(FileId);

impl File for Plain {
    fn id(&self) -> FileId {
        self.0
    }
}

type Pair = (String, String);

/// A site with a fallback, HSTS, a rule for scripts of other sites, and these lines for all files.
fn site_with(lines: &[&str]) -> Site {
    let transport = Some(TransportRules { redirect: None, hsts_s: 600 });
    let mut site = Site { transport, ..Site::default() };
    site.content.fallback = "app.html".into();
    let all = Pattern::parse("/*").expect("a pattern");
    let lines = lines.iter().map(|line| HeaderLine::parse(line).expect("a field")).collect();
    assert_eq!(site.rules.add_headers(&all, lines, ""), Ok(()));
    let origins = ["https://a.example".to_owned()];
    let expose = ["X-Custom-Name".to_owned()];
    let options = CorsOptions { origins: &origins, headers: &[], expose: &expose, max_age_s: 5 };
    let rule = CorsRule::new(options, "").expect("a rule");
    assert_eq!(site.rules.add_cors(&all, rule), Ok(()));
    site
}

/// A page of `len` bytes that is in memory, with a sibling in gzip of half the length.
fn page(len: u64, site: &Site) -> Arc<Representation<Plain>> {
    let time = Modified { secs: 1_600_000_000, nanos: 1 };
    let id = FileId { len, modified: time, changed: time, ..FileId::default() };
    let siblings = [None, None, Some(Plain(FileId { len: len / 2, ..id }))];
    let mut page = Representation::new(b"page.html", Plain(id), siblings, site, NOW, NOW.unix);
    let body = |len: u64| vec![b'x'; usize::try_from(len).expect("it is small")];
    page.fill(None, &body(len));
    page.fill(Some(Coding::Gzip), &body(len / 2));
    Arc::new(page)
}

/// Replies of all kinds.
fn replies(page: &Arc<Representation<Plain>>) -> Vec<Reply<Plain>> {
    let of = |coding: Option<Coding>, shape: Shape, role: Role| {
        Reply::File(FileReply { file: Arc::clone(page), coding, shape, role })
    };
    let range = |first: u64, last: u64| ByteRange { first, last };
    vec![
        of(None, Shape::Whole, Role::Itself),
        of(Some(Coding::Gzip), Shape::Whole, Role::Itself),
        of(None, Shape::Whole, Role::Fallback),
        of(None, Shape::Whole, Role::Instead(Status::NOT_FOUND)),
        of(None, Shape::One(range(1, 5)), Role::Itself),
        of(Some(Coding::Gzip), Shape::One(range(0, 999)), Role::Fallback),
        of(None, Shape::Many(vec![range(0, 1), range(5, 9)]), Role::Itself),
        of(Some(Coding::Gzip), Shape::NotModified, Role::Itself),
        of(None, Shape::NotModified, Role::Fallback),
        of(None, Shape::Refused(Status::PRECONDITION_FAILED), Role::Itself),
        of(None, Shape::Refused(Status::RANGE_NOT_SATISFIABLE), Role::Itself),
        Reply::Redirect(Status::MOVED_PERMANENTLY, b"/a/?b=c".to_vec()),
        Reply::Options,
        Reply::Refused(Refusal::Method),
        Reply::Refused(Refusal::TooMany),
        Reply::Refused(Refusal::Overload),
        Reply::Nothing(Status::NOT_FOUND),
        Reply::Nothing(Status::SERVICE_UNAVAILABLE),
        Reply::Ruled(Status::OK, "ok".into()),
        Reply::Ruled(Status::NO_CONTENT, "".into()),
        Reply::Ruled(Status::GONE, "".into()),
        Reply::Unauthorized("Basic realm=\"a b\"".into()),
    ]
}

/// The fields of a head of HTTP/1, but for `Connection`.
fn fields_of(head: &[u8]) -> Vec<Pair> {
    let head = String::from_utf8(head.to_vec()).expect("a head is text");
    let (status_line, lines) = head.split_once("\r\n").expect("a status line");
    let status = status_line.split(' ').nth(1).expect("a code");
    let lines = lines.strip_suffix("\r\n").expect("a blank line");
    let mut fields = vec![(":status".to_owned(), status.to_owned())];
    for line in lines.lines() {
        let (name, value) = line.split_once(": ").expect("a field line");
        let name = name.to_ascii_lowercase();
        if name != "connection" {
            fields.push((name, value.to_owned()));
        }
    }
    fields
}

/// The fields of a block, read by a decoder whose table stays empty.
fn decoded(block: &[u8]) -> Vec<Pair> {
    let mut decoder = HpackDecoder::for_client(TABLE_BYTES_DEFAULT);
    let mut fields = vec![];
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("fields are text");
    let read = decoder.read_fields(block, |name, value| fields.push((text(name), text(value))));
    assert_eq!(read, Ok(()));
    assert_eq!(decoder.entries(), 0, "no table is used");
    fields
}

fn memory(response: &Response<Plain>) -> Vec<u8> {
    response.outbox.slices().flatten().copied().collect()
}

/// All kinds of replies have the same fields and the same body in both protocols. Returns their
/// names and values.
fn check_replies(rules: ReplyRules, persistence: Persistence, site: &Site) -> BTreeSet<Pair> {
    let scratch = Scratch::new(7);
    let mut all = BTreeSet::new();
    // Bodies are copied behind the head, shared in one piece with it, or shared alone.
    for (len, is_dated) in [(3_000, false), (3_000, true), (40_000, true), (40_000, false)] {
        let mut page = page(len, site);
        if is_dated {
            Representation::redate(&mut page, NOW.unix, &scratch.date(NOW.unix));
        }
        for reply in replies(&page) {
            let terms = Terms { site, scratch: &scratch, now: NOW, persistence, rules };
            let mut response = terms.response(reply);
            let sent = memory(&response);
            let (head, body) = sent.split_at(sent.len() - to_len(response.body_bytes));
            let mut block = b"+".to_vec();
            write_response(&mut response, &mut block);
            let fields = decoded(&block[1..]);
            assert_eq!(fields, fields_of(head), "{}", head.escape_ascii());
            assert_eq!(fields[0].1, response.status.0.to_string());
            assert_eq!(memory(&response), body, "only the body is left");
            let mut written = vec![];
            write_fields(head, &mut written);
            assert_eq!(written, block[1..]);
            all.extend(fields);
        }
    }
    all
}

fn to_len(bytes: u64) -> usize {
    usize::try_from(bytes).expect("it is in memory")
}

#[test]
fn blocks_have_the_fields_of_heads() {
    let site = site_with(&LINES);
    let grant = |origin: &[u8]| site.rules.grant(b"page.html", Some(origin), false);
    let (granted, refused) = (grant(ORIGIN), grant(b"https://b.example"));
    assert!(granted.is_some() && refused.is_some());
    let usual = ReplyRules::default();
    let mut all = BTreeSet::new();
    for rules in [
        usual,
        ReplyRules { head_only: true, ..usual },
        ReplyRules { cors: granted, ..usual },
        ReplyRules { cors: refused, head_only: true, ..usual },
    ] {
        for persistence in [Persistence::Implied, Persistence::Stated, Persistence::Close] {
            all.extend(check_replies(rules, persistence, &site));
        }
    }
    // The rows above are what they are meant to be.
    let codes: BTreeSet<&str> =
        all.iter().filter(|pair| pair.0 == ":status").map(|pair| &*pair.1).collect();
    let expected = "200 204 206 301 304 401 404 405 410 412 416 429 503";
    assert_eq!(codes.into_iter().collect::<Vec<_>>().join(" "), expected);
    for name in [
        "accept-ranges",
        "access-control-allow-origin",
        "access-control-expose-headers",
        "allow",
        "cache-control",
        "content-encoding",
        "content-length",
        "content-range",
        "content-security-policy",
        "content-type",
        "date",
        "etag",
        "last-modified",
        "location",
        "retry-after",
        "server",
        "set-cookie",
        "strict-transport-security",
        "vary",
        "www-authenticate",
        "x-content-type-options",
        "x-custom-name",
    ] {
        assert!(all.iter().any(|pair| pair.0 == name), "{name}");
    }
    let has = |value: &str| all.iter().any(|pair| pair.1 == value);
    assert!(has("Accept, Sec-Fetch-Dest") && has("Origin") && has("https://a.example"));
    assert!(all.iter().any(|pair| pair.1.starts_with("multipart/byteranges")));
    assert!(!has("keep-alive") && !has("close"));
    let bare = check_replies(ReplyRules { bare: true, ..usual }, Persistence::Implied, &site);
    assert!(bare.iter().all(|pair| pair.0 != "strict-transport-security"), "it is in the clear");
}

#[test]
fn a_prebuilt_block_is_a_written_one() {
    let site = site_with(&LINES);
    let (scratch, page) = (Scratch::new(7), page(3_000, &site));
    for (coding, head_only) in [(None, false), (Some(Coding::Gzip), false), (None, true)] {
        let rules = ReplyRules { head_only, ..ReplyRules::default() };
        let at = |now: Now| Terms {
            site: &site,
            scratch: &scratch,
            now,
            persistence: Persistence::Implied,
            rules,
        };
        let coded = page.coded(coding).expect("it has this coding");
        let plan = Plan { file: &page, coded, shape: Shape::Whole };
        let (mut block, mut written) = (b"+".to_vec(), b"+".to_vec());
        let hit = write_hit(&at(NOW), &plan, Role::Itself, &mut block).expect("a plain 200");
        let mut response = at(NOW).planned(&plan, Role::Itself);
        write_response(&mut response, &mut written);
        assert_eq!(block, written);
        assert_eq!((hit.body_bytes, hit.coded.id), (response.body_bytes, coded.id));
        let body = hit.coded.segment();
        let sent = body.memory().filter(|_| hit.body_bytes > 0);
        assert_eq!(sent.unwrap_or_default(), &*memory(&response));
        // Another date, in its place.
        let later = Now { unix: NOW.unix + 86_400, ..NOW };
        let mut other = b"+".to_vec();
        assert!(write_hit(&at(later), &plan, Role::Itself, &mut other).is_some());
        let date = 1 + BLOCK_DATE_AT..1 + BLOCK_DATE_AT + DATE_BYTES;
        assert_eq!(other[date.clone()], scratch.date(later.unix));
        assert_ne!(other, block);
        other[date.clone()].copy_from_slice(&block[date]);
        assert_eq!(other, block);
    }
}

#[test]
fn other_replies_have_no_prebuilt_block() {
    let site = site_with(&LINES);
    let (scratch, page) = (Scratch::new(7), page(3_000, &site));
    let usual = ReplyRules::default();
    let cors = site.rules.grant(b"page.html", None, false);
    assert!(cors.is_some());
    for (shape, role, rules) in [
        (Shape::NotModified, Role::Itself, usual),
        (Shape::One(ByteRange { first: 0, last: 1 }), Role::Itself, usual),
        (Shape::Refused(Status::RANGE_NOT_SATISFIABLE), Role::Itself, usual),
        (Shape::Whole, Role::Fallback, usual),
        (Shape::Whole, Role::Instead(Status::NOT_FOUND), usual),
        (Shape::Whole, Role::Itself, ReplyRules { bare: true, ..usual }),
        (Shape::Whole, Role::Itself, ReplyRules { cors, ..usual }),
    ] {
        let persistence = Persistence::Implied;
        let terms = Terms { site: &site, scratch: &scratch, now: NOW, persistence, rules };
        let plan = Plan { file: &page, coded: page.identity(), shape };
        let mut block = vec![];
        assert!(write_hit(&terms, &plan, role, &mut block).is_none(), "{plan:?} {role:?}");
        assert!(block.is_empty());
    }
}

#[test]
fn a_block_has_room_in_the_account_of_its_file() {
    let long = format!("X-Long-Name: {}", "v".repeat(6_000));
    let longer = format!("X-Longer-Name: {}", "v".repeat(6_000));
    let short: Vec<String> = (0..20).map(|number| format!("X-{number}: v")).collect();
    let many: Vec<&str> = short.iter().map(String::as_str).chain([&*long, &*longer]).collect();
    for lines in [&LINES[..1], &LINES[..], &many[..]] {
        let page = page(3_000, &site_with(lines));
        let accounted = page.bytes();
        for coding in [None, Some(Coding::Gzip)] {
            let (coded, before) = (page.coded(coding).expect("it has this coding"), bytes());
            let block = coded.block(page.facts()).len();
            let (held, room) = (bytes().wrapping_sub(before), room(page.facts(), None) as u64);
            assert!((block as u64..=room).contains(&held), "{block} {held} {room}");
            assert!(block < coded.heads(page.facts()).ok().len());
        }
        assert_eq!(page.bytes(), accounted, "whether the block is built or not");
    }
}

#[test]
fn a_warm_reply_allocates_nothing() {
    let site = site_with(&LINES);
    let (scratch, page) = (Scratch::new(7), page(3_000, &site));
    let plan = |shape: Shape| Plan { file: &page, coded: page.identity(), shape };
    let (whole, not_modified) = (plan(Shape::Whole), plan(Shape::NotModified));
    let mut frames = Vec::with_capacity(64 << 10);
    let mut reply = |now: Now| {
        let (persistence, rules) = (Persistence::Implied, ReplyRules::default());
        let terms = Terms { site: &site, scratch: &scratch, now, persistence, rules };
        frames.clear();
        let hit = write_hit(&terms, &whole, Role::Itself, &mut frames).expect("a plain 200");
        let body = hit.coded.segment();
        frames.extend_from_slice(body.memory().expect("it is in memory"));
        let mut response = terms.planned(&not_modified, Role::Itself);
        write_response(&mut response, &mut frames);
        scratch.give_buffer(response.outbox.into_buffer());
    };
    for _ in 0..3 {
        reply(NOW);
    }
    let before = allocations();
    for step in 0..100 {
        reply(Now { unix: NOW.unix + step / 3, ..NOW });
    }
    assert_eq!(allocations() - before, 0);
    assert!(before > 0, "the allocator counts");
}
