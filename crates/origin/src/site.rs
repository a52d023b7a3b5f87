//! Configuration of a site: its rules and limits; fixed after start-up.
use crate::{Hosts, Http2Rules, Rules};
use alloc::{borrow::ToOwned, boxed::Box, string::String, sync::Arc, vec, vec::Vec};
use core::{
    fmt,
    ops::{Deref, DerefMut},
};
use regatta_http::{
    Status,
    h1::{write_decimal, write_field},
    target::Path,
};
use regatta_op::{Coding, OpenReq};

/// Value of the field `Server` unless configured.
pub const SERVER_NAME: &str = "regatta";

/// Configuration of a site: files, rules and limits.
///
/// Every field is public: the server fills them from its table of options, tests from `default`.
#[derive(Clone)]
pub struct Site {
    /// Bounds on what a peer may send.
    pub limits: Limits,
    /// Bounds on how long a peer may take.
    pub deadlines: Deadlines,
    /// Rules for the files that answer targets, and the fields that describe them.
    pub content: ContentRules,
    /// The owner's rules for paths.
    pub rules: Shared<Rules>,
    /// Limits of connections over HTTP/2.
    pub http2: Http2Rules,
    /// Treatment of connections in the clear, where others are encrypted; `None`: all are alike.
    pub transport: Option<TransportRules>,
    /// Value of the field `Server`; empty for none. `None` is [`SERVER_NAME`].
    pub server_name: Option<Box<str>>,
    /// The owner's pages for errors, of each status one at most.
    pub errors: Box<[ErrorPage]>,
    /// The status that answers all requests: no file of this site can be served.
    pub closed: Option<Status>,
    /// Number of the change of roots that brought this site; 0 if the process began with it.
    pub release: u64,
    /// Limits of the cache.
    pub caching: CachingRules,
    /// True if requests may be those of others than the peer ([`crate::Links::client`]).
    pub forwarded: bool,
    /// The media type of a file name.
    pub media_types: &'static dyn MediaTypes,
    /// Seeds the cache's hash and nothing else: values made from it must not be seen outside. A
    /// server draws it at random per worker.
    pub seed: u64,
    /// The key from which the boundaries of multipart responses are made. The same key and the same
    /// requests give the same boundaries; a server draws it at random per worker.
    pub boundary_key: u128,
    /// The number of the host that it is the site of, which is that of its root; 0 is the first.
    pub host: u16,
    /// Name of that host; empty for the first.
    pub host_name: Box<str>,
    /// Hosts that have sites of their own: this is the first one's.
    pub hosts: Hosts,
    /// Their sites, by number from 1 on, with the limits, deadlines and caching of this one.
    pub others: Box<[Self]>,
}

impl Default for Site {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            deadlines: Deadlines::default(),
            content: ContentRules::default(),
            rules: Shared::default(),
            http2: Http2Rules::default(),
            transport: None,
            server_name: None,
            errors: Box::default(),
            closed: None,
            release: 0,
            caching: CachingRules::default(),
            forwarded: false,
            media_types: &CommonTypes,
            seed: 0,
            boundary_key: 0,
            host: 0,
            host_name: Box::default(),
            hosts: Hosts::default(),
            others: Box::default(),
        }
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("limits", &self.limits)
            .field("deadlines", &self.deadlines)
            .field("content", &self.content)
            .field("caching", &self.caching)
            .finish_non_exhaustive()
    }
}

impl Site {
    /// This site, which answers for all hosts but these: each has its names and a site. They are in
    /// the order of their roots, numbered from 1 on. Names are in lower case, without a port.
    ///
    /// # Panics
    /// If they are more than 65,535.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Vec<(Vec<String>, Self)>) -> Self {
        let mut others = Vec::with_capacity(hosts.len());
        for (names, site) in hosts {
            let host = u16::try_from(others.len() + 1).expect("no more hosts than that");
            let host_name = names.first().map(|name| name.as_str().into()).unwrap_or_default();
            names.into_iter().for_each(|name| self.hosts.insert(name, host));
            others.push(Self { host, host_name, ..site });
        }
        Self { others: others.into(), ..self }
    }

    /// The site of the host of this number; `None`: it is this one.
    #[inline(always)]
    pub(crate) fn of_host(&self, number: u16) -> Option<&Self> {
        usize::from(number).checked_sub(1).and_then(|at| self.others.get(at))
    }

    /// The name of a file among those of all hosts, which caches and drivers know it by. It is put
    /// together in `room` if necessary.
    #[inline(always)]
    pub(crate) fn key<'k>(&self, name: &'k [u8], room: &'k mut Vec<u8>) -> &'k [u8] {
        if self.host == 0 {
            return name;
        }
        room.clear();
        room.extend_from_slice(&OpenReq::prefix(self.host));
        room.extend_from_slice(name);
        room
    }
}

/// A value that clones share: thousands of hosts may have the same rules. A clone that is changed
/// has a copy of its own from then on.
#[derive(Clone, Debug, Default)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// True if both have one value together.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

/// Treatment of connections in the clear, where others are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportRules {
    /// Port with TLS to which requests in the clear are redirected, except those of certificate
    /// authorities; `None`: they are answered.
    pub redirect: Option<u16>,
    /// Time for which clients shall use TLS alone (RFC 6797), seconds; 0: responses do not say so.
    /// Those in the clear never do.
    pub hsts_s: u32,
}

impl TransportRules {
    /// Appends `Strict-Transport-Security` to field lines, unless a rule of the owner has set it.
    pub(crate) fn write_hsts(&self, out: &mut Vec<u8>) {
        if self.hsts_s > 0 && !out.split(|byte| *byte == b'\n').any(is_hsts) {
            let mut value = b"max-age=".to_vec();
            write_decimal(&mut value, u64::from(self.hsts_s));
            write_field(out, "Strict-Transport-Security", &value);
        }
    }
}

/// True for the start of a field line with `Strict-Transport-Security`.
pub(crate) fn is_hsts(line: &[u8]) -> bool {
    const START: &[u8] = b"strict-transport-security:";
    line.get(..START.len()).is_some_and(|start| start.eq_ignore_ascii_case(START))
}

/// A page of the owner's for an error. It is in memory: the disk may be the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    pub(crate) status: Status,
    /// The field lines that it always has; none limits how long it may be kept.
    pub(crate) fields: Box<[u8]>,
    pub(crate) body: Arc<[u8]>,
}

/// Bounds on what a peer may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request head, bytes, from the request line to the blank line; more is 431, or 414 if
    /// not even the request line fits. Drivers receive no more at once, so that a connection keeps
    /// at most twice as many bytes behind the request that it answers.
    pub head_bytes_max: usize,
    /// Longest request target, bytes; more is 414.
    pub target_bytes_max: usize,
    /// Most field lines in a request head; more is 431. At most [`regatta_http::h1::FIELDS_MAX`].
    pub fields_max: usize,
    /// Longest request body that is read and discarded, bytes, to keep the connection open; more is
    /// 413 and the end of the connection. Over HTTP/2 the padding of its frames counts, too.
    pub discard_body_bytes_max: u64,
    /// Requests answered on one connection before it is closed; 0 is no limit.
    pub requests_max: u32,
    /// Requests per second that one client may send in the long run; more are 429. 0 is no limit.
    pub client_rate: u32,
    /// Most ranges of a `Range` field; more, and the whole representation is sent.
    pub ranges_max: usize,
    /// Bytes discarded after our half of a connection is closed before it is closed altogether.
    pub linger_bytes_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16 << 10,
            target_bytes_max: 8 << 10,
            fields_max: 64,
            discard_body_bytes_max: 64 << 10,
            requests_max: 0,
            client_rate: 0,
            ranges_max: 16,
            linger_bytes_max: 4 << 20,
        }
    }
}

/// Bounds on how long a peer may take, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From the first byte of a request head to its last; also for a body that is discarded.
    pub head_ms_max: u64,
    /// For the PROXY header of a connection, and then for its handshake if it is encrypted.
    pub handshake_ms_max: u64,
    /// From the acceptance of a connection, or the end of its handshake, to a request's first byte.
    pub first_request_ms_max: u64,
    /// From the end of a response to the next request's first byte.
    pub idle_ms_max: u64,
    /// Interval at which a response's progress is checked.
    pub send_window_ms: u64,
    /// Bytes per second that the peer must take within each window.
    pub send_rate_min: u64,
    /// Time that the disk may take for one operation.
    pub disk_ms_max: u64,
    /// Part of that time for a peer that sends no more, and may have left.
    pub half_closed_ms_max: u64,
    /// From the end of our half of a connection to the end of the peer's.
    pub linger_ms_max: u64,
    /// Time in which an idle connection may still send a request while the server is going away;
    /// the response to it is marked as the last. 0 closes idle connections at once.
    pub drain_idle_ms: u64,
}

impl Deadlines {
    /// True if the peer has taken enough since the last check, and at least one byte. `has`: bytes
    /// that it has, `had`: those at the last check. `first_ms`: time to the first check.
    pub(crate) fn flows(&self, has: u64, had: &mut u64, first_ms: u64) -> bool {
        let gained = has.saturating_sub(*had);
        *had = has.max(*had);
        gained >= self.least_bytes(self.send_window_ms.min(first_ms))
    }

    /// Bytes that a peer must take in this time, whatever the limits say at least one.
    pub(crate) fn least_bytes(&self, ms: u64) -> u64 {
        (self.send_rate_min.saturating_mul(ms) / 1000).max(1)
    }

    /// Time in which a connection may still send its first request while the server is going away.
    /// It is four times that of an idle one, since a new client is about to ask.
    #[must_use]
    pub const fn drain_first_ms(&self) -> u64 {
        self.drain_idle_ms.saturating_mul(4)
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            head_ms_max: 10_000,
            handshake_ms_max: 10_000,
            first_request_ms_max: 10_000,
            idle_ms_max: 60_000,
            send_window_ms: 10_000,
            send_rate_min: 256,
            disk_ms_max: 30_000,
            half_closed_ms_max: 500,
            linger_ms_max: 2_000,
            drain_idle_ms: 250,
        }
    }
}

/// Facts of a file that its entity tag is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagFacts {
    /// Length, and modification time in seconds: equal copies on several machines have equal tags.
    /// A file with a meaningless time has the tag of [`Self::Inode`].
    #[default]
    MtimeSize,
    /// Length, device, inode, modification time and change time: no change is missed.
    Inode,
    /// A hash of the bytes, once it is known ([`crate::Deriver`]), and the facts of [`Self::Inode`]
    /// before. Files that are too long keep the latter.
    Content,
}

/// Rules for the files that answer targets, and the fields that describe them.
///
/// Paths are relative to the root, decoded, with `/` between segments and none at either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentRules {
    /// Names tried in a directory, in this order.
    pub index: Box<[Box<str>]>,
    /// Answer `/name` from `name.html` where there is no `name`.
    pub clean_urls: bool,
    /// File that answers a navigation to a missing path (the shell of an application); empty is
    /// none.
    pub fallback: Box<str>,
    /// Whether the fallback answers all requests for paths without a suffix, not only navigations.
    pub fallback_for_all: bool,
    /// The body of 404 responses; empty is none.
    pub not_found: Box<str>,
    /// List folders without an index ([`crate::Lister`]).
    pub listing: bool,
    /// Serve `name.br`, `name.zst`, `name.gz` for `name` to clients that accept them.
    pub precompressed: bool,
    /// Send text files without siblings compressed, once that is done ([`crate::Deriver`]).
    pub compress: bool,
    /// Send files whose names say how they are coded as what they hold: `x.js.br`, `x.svgz`.
    pub coded_names: bool,
    /// Facts of a file that its entity tag is made from.
    pub etag: TagFacts,
    /// Serve names that start with a dot. `.well-known` at the root is served, but not such names
    /// in it.
    pub dotfiles: bool,
    /// `_headers` and `_redirects` at the root hold rules: they are not served.
    pub rules_files: bool,
    /// The `charset` of text; empty is none.
    pub charset: Box<str>,
    /// `Cache-Control` of pages (`text/html`); empty is none.
    pub cache_control_page: Box<str>,
    /// `Cache-Control` of files with a hash of their content in their name; empty is none.
    pub cache_control_asset: Box<str>,
    /// `Cache-Control` of everything else; empty is none.
    pub cache_control_other: Box<str>,
    /// Send `X-Content-Type-Options: nosniff`.
    pub nosniff: bool,
}

impl Default for ContentRules {
    fn default() -> Self {
        Self {
            index: vec!["index.html".into()].into_boxed_slice(),
            clean_urls: false,
            fallback: "".into(),
            fallback_for_all: false,
            not_found: "404.html".into(),
            listing: false,
            precompressed: true,
            compress: false,
            coded_names: false,
            etag: TagFacts::MtimeSize,
            dotfiles: false,
            rules_files: false,
            charset: "utf-8".into(),
            cache_control_page: "no-cache".into(),
            cache_control_asset: "public, max-age=31536000, immutable".into(),
            // An unhashed script must match the page that names it: asking costs a 304.
            cache_control_other: "no-cache".into(),
            nosniff: true,
        }
    }
}

/// Limits of the cache: sizes and ages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachingRules {
    /// False: every request opens, sends and closes its file (the server of Brecht et al. 2004).
    pub enabled: bool,
    /// Most names of files and directories remembered.
    pub entries_max: usize,
    /// Most names of nothing remembered.
    pub negatives_max: usize,
    /// Most open descriptors held by the cache.
    pub descriptors_max: usize,
    /// Most memory for names, heads and bodies, bytes.
    pub bytes_max: usize,
    /// Longest file with its body held in memory, bytes; it needs no descriptor then.
    pub body_bytes_max: u64,
    /// The same for clients of HTTP/1 in the clear, to which the kernel can send a file itself.
    pub clear_body_bytes_max: u64,
    /// Most bytes of a body read at once, into a buffer that the worker lends. Longer ones take
    /// several.
    pub read_bytes_max: usize,
    /// Longest held body that is copied behind the head into one buffer, bytes, unless the two are
    /// kept in one piece. A longer one is a segment of its own.
    pub copy_bytes_max: usize,
    /// Age at which a remembered file is opened again to see whether it changed, milliseconds.
    pub revalidate_ms: u64,
    /// Age at which a name of nothing is forgotten, milliseconds.
    pub negative_ms: u64,
    /// Time after which an unused entry is forgotten, milliseconds, or a sweep later.
    pub inactive_ms: u64,
}

/// [`CachingRules::read_bytes_max`] of every server: a disk brings as much in a few milliseconds.
pub const READ_BYTES_MAX: usize = 256 << 10;

impl CachingRules {
    /// Longest body that is sent from memory, bytes, to a client to which the kernel can send a
    /// file itself, or to another.
    pub(crate) fn body_bytes_max_of(&self, takes_files: bool) -> u64 {
        let clear = if takes_files { self.clear_body_bytes_max } else { u64::MAX };
        clear.min(self.body_bytes_max)
    }

    /// Pause after a sweep for inactive entries, milliseconds. None ever is inactive if
    /// [`CachingRules::inactive_ms`] is the largest number.
    #[must_use]
    pub fn sweep_ms(&self) -> u64 {
        if self.inactive_ms == u64::MAX { u64::MAX } else { (self.inactive_ms / 8).max(1) }
    }
}

impl Default for CachingRules {
    fn default() -> Self {
        Self {
            enabled: true,
            entries_max: 32 << 10,
            negatives_max: 4 << 10,
            descriptors_max: 8 << 10,
            bytes_max: 256 << 20,
            body_bytes_max: 64 << 10,
            clear_body_bytes_max: 32 << 10,
            read_bytes_max: READ_BYTES_MAX,
            copy_bytes_max: 16 << 10,
            revalidate_ms: 1_000,
            negative_ms: 1_000,
            inactive_ms: 10_000,
        }
    }
}

/// Knows the media type of a file by its name.
pub trait MediaTypes: Sync {
    /// The type without parameters, such as `text/html`, of the file at `path`; `None` if unknown,
    /// which is served as `application/octet-stream`. `charset` is added by the origin.
    fn media_type(&self, path: &[u8]) -> Option<&'static str>;
}

/// The types that most sites consist of: the default, which needs no library.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommonTypes;

impl MediaTypes for CommonTypes {
    fn media_type(&self, path: &[u8]) -> Option<&'static str> {
        let suffix = suffix(path)?.to_ascii_lowercase();
        TYPES.iter().find(|(name, _)| name.as_bytes() == suffix).map(|(_, media_type)| *media_type)
    }
}

/// The part of a path's last segment behind the last dot; `None` if only a leading dot, or none.
pub(crate) fn suffix(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    (dot > 0).then(|| &name[dot + 1..])
}

/// Files with rules at the root, if [`ContentRules::rules_files`] is set.
pub const RULES_FILES: [&str; 2] = ["_headers", "_redirects"];

impl ContentRules {
    /// Reason why no file may answer for a path; `None` if one may.
    #[inline]
    pub(crate) fn hides(&self, path: &Path<'_>) -> Option<&'static str> {
        if path.hidden && !self.dotfiles {
            return Some("a name starts with a dot (content.dotfiles is off)");
        }
        if self.holds_rules(path.relative) {
            return Some("it holds rules (content.rules_files)");
        }
        None
    }

    /// True if the file of this name holds rules, compressed or not.
    #[inline]
    pub(crate) fn holds_rules(&self, name: &[u8]) -> bool {
        self.rules_files && is_rules_file(name)
    }

    /// These rules with another list of index names.
    #[must_use]
    pub fn with_index(mut self, names: &[&str]) -> Self {
        self.index = names.iter().map(|&name| name.to_owned().into_boxed_str()).collect();
        self
    }
}

/// True for the name of a file with rules, compressed or not.
pub(crate) fn is_rules_file(name: &[u8]) -> bool {
    RULES_FILES.iter().any(|file| {
        name.strip_prefix(file.as_bytes()).is_some_and(|rest| {
            let sibling = |coding: Coding| coding.suffix().as_bytes() == rest;
            rest.is_empty() || Coding::ALL.into_iter().any(sibling)
        })
    })
}

const TYPES: [(&str, &str); 30] = [
    ("avif", "image/avif"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];
