//! Listings of folders (`content.listing`): the request for one, and the names that it may show.
//!
//! A [`Lister`] reads the folder outside of event loops. The exchange asks it again until the page
//! is there, so a listing needs no operation of its own, and every architecture has it.
use crate::{Request, Rules, Shared, Site, site::is_rules_file};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::fmt;
use percent_encoding::percent_decode;
use regatta_http::target::{Path, is_hidden};
use regatta_op::{Coding, Now, OpenFault};

/// Styles of a page. System colours follow the reader's choice of light or dark.
pub const LISTING_STYLE: &str = "\
:root{background:Canvas;color:CanvasText;color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem}\
h1{font-size:1.25rem;overflow-wrap:anywhere}\
table{border-collapse:collapse;margin-block:1rem;width:100%}\
th,td{padding:.25rem .5rem;text-align:start;vertical-align:top}\
thead th{border-bottom:1px solid}\
tbody th{font-weight:400;overflow-wrap:anywhere}\
td{white-space:nowrap}\
tbody tr:nth-child(even){background:color-mix(in srgb,CanvasText 6%,Canvas)}\
a{display:inline-block;min-height:1.5rem}\
nav a{margin-inline-end:1rem}\
a:focus-visible{outline:2px solid;outline-offset:2px}";

/// `Content-Security-Policy` of a listing: nothing is loaded or run, and only [`LISTING_STYLE`]
/// applies, which has this hash.
pub(crate) const POLICY: &str = "default-src 'none'; style-src \
     'sha256-F5hAWdiANAWTQMIzIO00l7m9zLNPn/4OeVWV1/lqk2I='; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// True for the start of a field line with a `Content-Security-Policy`.
pub(crate) fn is_policy(line: &[u8]) -> bool {
    const START: &[u8] = b"content-security-policy:";
    line.get(..START.len()).is_some_and(|start| start.eq_ignore_ascii_case(START))
}

/// Page of a listing, or the reason why there is none.
pub type ListingPage = Result<Arc<[u8]>, OpenFault>;

/// Source of listings. The units of a process share it.
pub trait Lister: fmt::Debug + Send + Sync {
    /// The page that is wanted, if it is ready. Otherwise a later call may return it.
    ///
    /// Called for folders without an index, never on a hit. Must not wait.
    fn page(&self, wanted: &ListingRequest, now: Now) -> Option<ListingPage>;

    /// Takes the pages that are there by now, and drops those that are too old. Their clients may
    /// have left. Called now and then; must not wait.
    fn settle(&self, now: Now);
}

/// Form of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingFormat {
    /// A page for people.
    Html,
    /// An object for programs.
    Json,
}

impl ListingFormat {
    /// The value of `Content-Type`.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

/// Page of a listing that a request wants. Equal requests want the same page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingRequest {
    /// Path of the folder with the prefix of its root, as [`regatta_op::OpenReq::path`] has it.
    pub key: Box<[u8]>,
    /// Path of the folder, decoded and relative; empty is the root.
    pub folder: Box<[u8]>,
    /// Last name of the page before, with a slash behind the name of a folder; empty: the first
    /// page is wanted. The peer chooses it.
    pub after: Box<[u8]>,
    /// Form of the page.
    pub format: ListingFormat,
    /// Rules for the names in it.
    pub rules: ListingRules,
}

impl ListingRequest {
    /// The page that a request wants of the folder at `path`, which has this key.
    pub(crate) fn new(request: &Request<'_>, path: &Path<'_>, key: &[u8], site: &Site) -> Self {
        let json = request.destination.prefers_json();
        Self {
            key: key.into(),
            folder: path.relative.into(),
            after: after(path.query).into(),
            format: if json { ListingFormat::Json } else { ListingFormat::Html },
            rules: ListingRules::new(site),
        }
    }
}

/// The name behind which the page begins: the value of `after` in a query, decoded.
fn after(query: Option<&[u8]>) -> Vec<u8> {
    let members = query.unwrap_or_default().split(|&byte| byte == b'&');
    let value = members.filter_map(|member| member.strip_prefix(b"after=")).next();
    percent_decode(value.unwrap_or_default()).collect()
}

/// Rules for the names that a listing shows.
#[derive(Clone)]
pub struct ListingRules {
    dotfiles: bool,
    rules_files: bool,
    precompressed: bool,
    rules: Shared<Rules>,
}

impl fmt::Debug for ListingRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListingRules").field("dotfiles", &self.dotfiles).finish_non_exhaustive()
    }
}

impl PartialEq for ListingRules {
    fn eq(&self, other: &Self) -> bool {
        let flags = |of: &Self| (of.dotfiles, of.rules_files, of.precompressed);
        flags(self) == flags(other) && self.rules.is_same(&other.rules)
    }
}

impl Eq for ListingRules {}

impl ListingRules {
    /// The rules of a site.
    #[must_use]
    pub fn new(site: &Site) -> Self {
        let content = &site.content;
        Self {
            dotfiles: content.dotfiles,
            rules_files: content.rules_files,
            precompressed: content.precompressed,
            rules: site.rules.clone(),
        }
    }

    /// Whether a request for this name in this folder could be answered with its file. A path that
    /// needs another password than the folder is not shown.
    #[must_use]
    pub fn shows(&self, folder: &[u8], name: &[u8]) -> bool {
        let is_top = folder.is_empty();
        if is_hidden(usize::from(!is_top), name) && !self.dotfiles
            || self.rules_files && is_top && is_rules_file(name)
        {
            return false;
        }
        if !self.rules.has_auth() {
            return true;
        }
        let path = if is_top { name.to_vec() } else { [folder, b"/", name].concat() };
        self.rules.auth_beside(folder, &path).is_none()
    }

    /// The file that would have this name as a precompressed sibling, if siblings are served in
    /// place of their files.
    #[must_use]
    pub fn sibling_of<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        let mut codings = Coding::ALL.into_iter().filter(|_| self.precompressed);
        let file = codings.find_map(|coding| name.strip_suffix(coding.suffix().as_bytes()));
        file.filter(|file| !file.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AuthRule, Body, ClearHttp1, ContentRules, Cx, Exchange, HeaderLine, ListenerClass,
        LocalCache, NoLog, Redirect, Reply, Scratch, Step, Supply, explain,
        request::tests::request_of,
    };
    use alloc::{format, string::String};
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
    use regatta_http::{
        h1::{HeadLimits, parse_request},
        pattern::Pattern,
    };
    use regatta_metrics::{Arena, Tally};
    use regatta_op::{File, FileId, OpenReq, Opened};
    use sha2::{Digest as _, Sha256};

    #[derive(Clone, Debug)]
    struct Plain;

    impl File for Plain {
        fn id(&self) -> FileId {
            FileId { len: 3, ..FileId::default() }
        }
    }

    fn open(req: &OpenReq) -> Result<Opened<Plain>, OpenFault> {
        match &*req.path {
            b"pub" | b"pub/" | b"pub/sub/" | b".well-known/" => Ok(Opened::Directory),
            b"docs/index.html" => Ok(Opened::File { file: Plain, siblings: [None, None, None] }),
            _ => Err(OpenFault::NotFound),
        }
    }

    /// Lister whose pages are ready after some calls. A page says what was wanted.
    #[derive(Debug, Default)]
    struct Source {
        waits: AtomicU32,
        fault: Option<OpenFault>,
    }

    impl Lister for Source {
        fn page(&self, wanted: &ListingRequest, _now: Now) -> Option<ListingPage> {
            let waits = self.waits.load(Relaxed);
            if waits > 0 {
                self.waits.store(waits - 1, Relaxed);
                return None;
            }
            assert_eq!(wanted.key, wanted.folder, "the first host has no prefix");
            let format = format!("{:?}", wanted.format);
            let page = [format.as_bytes(), &*wanted.folder, &*wanted.after].join(&b' ');
            Some(self.fault.map_or_else(|| Ok(page.into()), Err))
        }

        fn settle(&self, _now: Now) {}
    }

    fn site() -> Site {
        let content = ContentRules { listing: true, ..ContentRules::default() };
        Site { content, ..Site::default() }
    }

    fn get(target: &str, fields: &str) -> String {
        format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
    }

    /// The reply to a request: its status, and the body of a listing. Also the waits before it.
    fn ask(source: Source, text: &str) -> (u16, Vec<u8>, Vec<u64>) {
        let (site, scratch) = (site(), Scratch::new(7).listing(Some(Arc::new(source))));
        let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
        let cx = Cx {
            site: &site,
            cache: &LocalCache::new(&site.caching, 0),
            tally: Tally::Owned(Arena::create(&words, 1).slot(0)),
            log: &NoLog,
            scratch: &scratch,
            links: &ClearHttp1,
        };
        let head = parse_request(text.as_bytes(), &HeadLimits::default()).expect(text);
        let request = request_of(&head);
        let (mut exchange, mut waits) = (Exchange::default(), Vec::new());
        let mut step = exchange.start(&request, Now::default(), &cx);
        loop {
            let supply = match step {
                Step::Open(req) => Supply::Opened(open(&req)),
                Step::Hold(ms) => {
                    waits.push(ms);
                    Supply::Again
                }
                Step::Reply(Reply::File(file)) => {
                    let Body::Memory(whole) = &file.coded().body else { panic!("{file:?}") };
                    let (status, _) = file.whole().expect("neither conditions nor ranges");
                    return (status.0, whole.body().to_vec(), waits);
                }
                // A file answers.
                Step::Read(_) => return (200, Vec::new(), waits),
                Step::Reply(Reply::Nothing(status)) => return (status.0, Vec::new(), waits),
                other => panic!("{other:?}"),
            };
            step = exchange.resume(supply, Now::default(), &cx);
        }
    }

    #[test]
    fn folders_without_an_index_are_listed() {
        for (target, fields, expected) in [
            ("/pub/", "", "Html pub "),
            ("/pub/?after=a%2Fb", "", "Html pub a/b"),
            ("/pub/sub/", "Accept: */*\r\n", "Html pub/sub "),
            ("/pub/", "Accept: application/json\r\n", "Json pub "),
            ("/pub/", "Accept: application/json;q=0.5, text/html;q=0.4\r\n", "Json pub "),
            ("/pub/", "Accept: text/html, application/json\r\n", "Html pub "),
            ("/", "", "Html  "),
            ("/.well-known/", "", "Html .well-known "),
        ] {
            for waits in [0, 7] {
                let source = Source { waits: waits.into(), fault: None };
                let (status, body, held) = ask(source, &get(target, fields));
                assert_eq!((status, &*String::from_utf8_lossy(&body)), (200, expected), "{target}");
                assert_eq!(held, [1, 1, 1, 1, 5, 5, 5][..waits as usize]);
            }
        }
        for (target, expected) in [("/docs/", 200), ("/none/", 404), ("/.hidden/", 404)] {
            let (status, body, _) = ask(Source::default(), &get(target, ""));
            assert_eq!((status, body.len()), (expected, 0), "{target}");
        }
    }

    #[test]
    fn a_page_that_cannot_be_had_has_its_status() {
        for (fault, expected) in [
            (OpenFault::NotFound, 404),
            (OpenFault::Denied, 403),
            (OpenFault::Exhausted, 503),
            (OpenFault::Other(7), 500),
        ] {
            let source = Source { fault: Some(fault), ..Source::default() };
            assert_eq!(ask(source, &get("/pub/", "")).0, expected, "{fault:?}");
        }
        let (status, _, waits) = ask(Source { waits: u32::MAX.into(), fault: None }, &get("/", ""));
        assert_eq!((status, waits.len()), (503, 2_000));
    }

    #[test]
    fn listings_have_fields_of_their_own_and_of_rules() {
        let mut site = site();
        let rules = &mut *site.rules;
        let lines = ["Cache-Control: max-age=5", "X-Own: yes", "Content-Security-Policy: a"];
        let lines = lines.map(|line| HeaderLine::parse(line).expect(line)).to_vec();
        let parse = |path| Pattern::parse(path).expect("a pattern");
        rules.add_headers(&parse("/pub/sub"), lines, "h").expect("a rule");
        let from = parse("/pub/moved");
        let redirect = Redirect::new(&from, "/to", 302, true, "r").expect("a redirect");
        rules.add_redirect(&from, redirect).expect("a rule");
        let user = format!("user:{}", "0".repeat(64));
        let auth = AuthRule::new("area", &[user], "a").expect("a rule");
        rules.add_auth(&parse("/.well-known"), auth).expect("a rule");
        let explained = |request: String| {
            let (source, class) = (Arc::new(Source::default()), ListenerClass::CLEAR);
            let now = Now::default();
            explain(request.as_bytes(), class, &mut open, Some(source), &site, now)
        };
        let head = |target: &str, fields: &str| {
            String::from_utf8(explained(get(target, fields)).head).expect("ASCII")
        };
        let own = head("/pub/", "");
        let tag = own.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag");
        for line in [
            "HTTP/1.1 200 OK",
            "Content-Length: 9",
            "Content-Type: text/html; charset=utf-8",
            "Cache-Control: no-cache",
            "X-Content-Type-Options: nosniff",
            "Vary: Accept",
            &format!("Content-Security-Policy: {POLICY}"),
        ] {
            assert!(own.lines().any(|other| other == line), "{line}: {own}");
        }
        assert!(!own.contains("Last-Modified"), "{own}");
        let json = head("/pub/", "Accept: application/json\r\n");
        assert!(json.contains("Content-Type: application/json\r\n") && !json.contains(tag));
        let unchanged = head("/pub/", &format!("If-None-Match: {tag}\r\n"));
        assert!(unchanged.starts_with("HTTP/1.1 304 ") && unchanged.contains("Vary: Accept\r\n"));
        assert!(head("/pub/", "Range: bytes=0-3\r\n").starts_with("HTTP/1.1 206 "));
        let ruled = head("/pub/sub/", "");
        for line in ["Cache-Control: max-age=5", "X-Own: yes", "Content-Security-Policy: a"] {
            assert!(ruled.lines().any(|other| other == line), "{line}: {ruled}");
        }
        assert_eq!(ruled.matches("Content-Security-Policy").count(), 1, "{ruled}");
        assert!(head("/pub/moved/", "").starts_with("HTTP/1.1 302 "));
        assert!(head("/.well-known/", "").starts_with("HTTP/1.1 401 "));
        assert!(head("/pub", "").starts_with("HTTP/1.1 301 "));
        let decisions = explained(get("/pub/sub/", "")).decisions;
        let decisions: Vec<_> = decisions.iter().map(|made| format!("{made}")).collect();
        for made in [
            "look: \"pub/sub/\", the folder to list (content.listing): a directory",
            "headers: the rule at h",
            "answer: a listing of the folder, 13 bytes (content.listing)",
        ] {
            assert!(decisions.iter().any(|other| other == made), "{made}: {decisions:#?}");
        }
    }

    #[test]
    fn the_policy_has_the_hash_of_the_style() {
        let mut room = [0; 44];
        let len = STANDARD.encode_slice(Sha256::digest(LISTING_STYLE), &mut room);
        let hash = core::str::from_utf8(&room).expect("digits");
        assert_eq!(len, Ok(44));
        assert!(POLICY.contains(&format!("'sha256-{hash}'")), "the hash is {hash}");
        assert!(is_policy(b"CONTENT-Security-Policy: x") && !is_policy(b"Content-Security: x"));
    }

    #[test]
    fn a_query_says_where_a_page_begins() {
        for (query, expected) in [
            (None, &b""[..]),
            (Some("after=a.txt"), b"a.txt"),
            (Some("q=1&after=b%2F&after=c"), b"b/"),
            (Some("after=%3C%0a%ff%"), b"<\n\xff%"),
            (Some("After=a&xafter=b"), b""),
            (Some("after"), b""),
        ] {
            assert_eq!(after(query.map(str::as_bytes)), expected, "{query:?}");
        }
    }

    #[test]
    fn names_that_are_not_served_are_not_shown() {
        let mut rules = Rules::default();
        for path in ["/private/*", "/docs/*.pdf"] {
            let user = format!("user:{}", "0".repeat(64));
            let rule = AuthRule::new("area", &[user], path).expect("a rule");
            assert!(rules.add_auth(&Pattern::parse(path).expect("a pattern"), rule).is_ok());
        }
        let rules = Shared::from(rules);
        let make = |on| ListingRules {
            dotfiles: on,
            rules_files: !on,
            precompressed: !on,
            rules: rules.clone(),
        };
        let [strict, lax] = [make(false), make(true)];
        // Whether the strict rules show the name, and the others.
        for (folder, name, expected) in [
            ("", "a.html", (true, true)),
            ("", ".env", (false, true)),
            ("", ".well-known", (true, true)),
            ("docs", ".well-known", (false, true)),
            ("", "_headers", (false, true)),
            ("", "_redirects.gz", (false, true)),
            ("docs", "_headers", (true, true)),
            ("docs", "a.pdf", (false, false)),
            ("docs", "a.txt", (true, true)),
            ("private", "a.txt", (true, true)),
        ] {
            let shown = |by: &ListingRules| by.shows(folder.as_bytes(), name.as_bytes());
            assert_eq!((shown(&strict), shown(&lax)), expected, "{folder}/{name}");
        }
        assert_eq!(strict.sibling_of(b"a.js.br"), Some(&b"a.js"[..]));
        assert_eq!((strict.sibling_of(b".gz"), strict.sibling_of(b"a.js")), (None, None));
        assert_eq!(lax.sibling_of(b"a.js.br"), None);
        assert!(strict == strict.clone() && strict != lax);
    }
}
