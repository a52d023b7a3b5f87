//! The one table of options: it makes the help texts, `docs/options.md`, `--print-config` and the
//! names that a configuration file may use.
use regatta_arch::{
    ARCHITECTURES, Architecture,
    kit::accept::WhenFull,
    options::{Choice as _, Kind, OptionSpec, Settings, Value},
};
use std::fmt::Write as _;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// A section of the configuration file: the first part of an option's name.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// What its options are about.
    pub doc: &'static str,
}

/// The sections, in the order in which they are shown; those of architectures come after them.
pub const SECTIONS: &[Section] = &[
    Section { name: "server", doc: "What is served, where, and by whom." },
    Section { name: "limits", doc: "What a peer may ask for, and how long it may take." },
    Section { name: "content", doc: "How a path becomes an answer." },
    Section { name: "cache", doc: "What each worker keeps in memory." },
    Section { name: "log", doc: "What is written down." },
    Section { name: "accept", doc: "How connections are taken from the kernel." },
    Section { name: "lab", doc: "A disk that is simulated, for tests and measurements." },
];

/// Options that have a flag of their own, besides `--set`.
pub const FLAGS: &[(&str, &str)] = &[
    ("ROOT", "server.root"),
    ("--listen", "server.listen"),
    ("--architecture", "server.architecture"),
    ("--user", "server.user"),
];

const fn option(
    key: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
    long: &'static str,
) -> OptionSpec {
    OptionSpec { key, kind, default, doc, long, since: "0.1" }
}

const fn bytes(min: u64, max: u64) -> Kind {
    Kind::Bytes { min, max }
}

const fn millis(min: u64, max: u64) -> Kind {
    Kind::Millis { min, max }
}

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max }
}

/// The server's own options. [`all`] has those of the architectures too.
pub static OPTIONS: &[OptionSpec] = &[
    option(
        "server.root",
        Kind::Text,
        ".",
        "The directory whose files are served.",
        "The kernel keeps every request below it (openat2, RESOLVE_BENEATH). The path is looked at \
         every second, and at once after SIGHUP: if it names another directory, by a link that \
         leads elsewhere or by renaming, that is served within 2 seconds, and nothing of the old \
         one stays open but what is being sent (docs/decisions/the-root-is-a-path.md). The \
         serving user must be able to reach it by its path, which starts at the working directory \
         if it is relative. Keep named pipes and \
         devices out of it: they are not served, but a request for one opens it, which who waits \
         at the other end may notice.",
    ),
    option(
        "server.listen",
        Kind::List,
        "127.0.0.1:8080",
        "Addresses to listen on, each as host:port.",
        "Port 0 lets the kernel choose; the line on standard output says what it chose. IPv6 \
         addresses are written in brackets: [::1]:8080. A host name is looked up once, at start, \
         and its first address is used.",
    ),
    option(
        "server.architecture",
        Kind::Text,
        "symped",
        "The concurrency architecture that serves.",
        "`regatta architectures` lists them. The default is an event loop for each processor \
         (docs/decisions/default-architecture.md).",
    ),
    option(
        "server.user",
        Kind::Text,
        "nobody",
        "The user, by name or number, that workers become if the server is started by root.",
        "UID:GID needs no /etc/passwd. Addresses are bound and the root is opened before; what \
         lies below the root must be readable to this user. Started by anyone else, the server \
         stays that user.",
    ),
    option(
        "server.drain_ms_max",
        millis(0, HOUR_MS),
        "8000",
        "How long exchanges in progress may take to finish after SIGTERM or SIGINT.",
        "Then their connections are closed.",
    ),
    option(
        "server.pid_file",
        Kind::Path,
        "",
        "A file to hold the number of the master process; removed at exit.",
        "It replaces what has that name, but not a link, nor the file of a server that runs.",
    ),
    option(
        "limits.head_bytes_max",
        bytes(512, MIB),
        "16384",
        "The longest request head.",
        "A longer one is answered 431. No more is received at once either (64 KiB if this is \
         longer), so of requests that a peer sends ahead of its answers a connection keeps at most \
         twice as much; the rest waits in the kernel.",
    ),
    option(
        "limits.target_bytes_max",
        bytes(64, MIB),
        "8192",
        "The longest request target.",
        "A longer one is answered 414.",
    ),
    option(
        "limits.fields_max",
        count(1, 1024),
        "64",
        "The most field lines in a request head.",
        "More are answered 431. Up to 64 take no memory but what is there anyway; raise \
         limits.head_bytes_max if more are to fit.",
    ),
    option(
        "limits.head_ms_max",
        millis(1, DAY_MS),
        "10000",
        "How long a request head may take from its first byte to its last.",
        "A slower one is answered 408; so is content that takes longer to come after it, all of \
         which is discarded.",
    ),
    option(
        "limits.first_request_ms_max",
        millis(1, DAY_MS),
        "10000",
        "How long a new connection may be silent.",
        "Then it is closed without a word. A load balancer that connects ahead of its requests may \
         need more.",
    ),
    option(
        "limits.idle_ms_max",
        millis(1, DAY_MS),
        "60000",
        "How long a connection may be idle between requests.",
        "",
    ),
    option(
        "limits.send_window_ms",
        millis(1, DAY_MS),
        "10000",
        "How often it is checked that a peer takes its response fast enough.",
        "In each such window the peer must take limits.send_rate_min times the window.",
    ),
    option(
        "limits.send_rate_min",
        Kind::Rate { min: 0, max: GIB },
        "256",
        "The slowest that a peer may take a response, bytes per second.",
        "Measured over limits.send_window_ms. 0 asks only for progress.",
    ),
    option(
        "limits.disk_ms_max",
        millis(1, DAY_MS),
        "30000",
        "How long the disk may take to open a file, or to bring a piece of one.",
        "Then the request is answered 503, and the connection is closed; within a body it is \
         closed at once. 30 s is when Linux itself takes a command to a disk for lost. A loop that \
         waits for the disk itself (sped and its kin) cannot look at the time meanwhile.",
    ),
    option(
        "limits.half_closed_ms_max",
        millis(0, DAY_MS),
        "500",
        "How long a client is waited for that has closed its half, while the disk is asked for it.",
        "It may have left, or only have sent all that it has to send: nobody can tell. If the disk \
         answers in this time so does the server; if not the connection is closed. One that broke \
         (RST) is closed at once, by an architecture that does not wait for the disk itself.",
    ),
    option(
        "limits.linger_ms_max",
        millis(0, HOUR_MS),
        "2000",
        "How long a closing connection waits for the peer to close too (RFC 9112 §9.6).",
        "Without it the peer could lose the end of its last response.",
    ),
    option(
        "limits.drain_idle_ms",
        millis(0, HOUR_MS),
        "250",
        "When the server is going away: how long an idle connection may still send a request.",
        "It is answered and told that it is the last. A client whose request crosses the end of \
         its connection would lose it. 0 closes idle connections as soon as what they have sent \
         has been read.",
    ),
    option(
        "limits.linger_bytes_max",
        bytes(0, GIB),
        "4194304",
        "How much a closing connection takes from its peer, and throws away, before it is closed.",
        "",
    ),
    option(
        "limits.drain_body_bytes_max",
        bytes(0, GIB),
        "65536",
        "The longest request body that is read and discarded, so that the connection can go on.",
        "A longer one is answered 413, and the connection is closed.",
    ),
    option(
        "limits.requests_max",
        count(0, u32::MAX as u64),
        "0",
        "How many requests one connection may carry.",
        "0 sets no limit.",
    ),
    option(
        "limits.ranges_max",
        count(0, 64),
        "16",
        "The most byte ranges that one response holds.",
        "A request for more gets the whole representation. 0 ignores all ranges.",
    ),
    option(
        "limits.connections_max",
        count(0, u32::MAX as u64),
        "0",
        "The most connections at once, split evenly among the workers.",
        "One that has its part leaves new ones to the others. 0 gives each worker what the limit \
         on descriptors (RLIMIT_NOFILE, raised as far as it may be) leaves beside the cache. Where \
         many are sent large files that the cache does not keep, each needs a second descriptor: \
         if there is none, the cache gives up some of its own, then the request waits for another \
         to end, and after ten seconds it is answered 503. A peer that sends requests and takes no \
         answers makes its connection keep up to twice limits.head_bytes_max of them.",
    ),
    option(
        "content.index",
        Kind::List,
        "index.html",
        "File names that answer for a directory; the first that exists does.",
        "Without any, directories are answered 404. There are no listings.",
    ),
    option(
        "content.clean_urls",
        Kind::Bool,
        "false",
        "Whether /page may be answered from page.html.",
        "",
    ),
    option(
        "content.fallback",
        Kind::Path,
        "",
        "A file below the root that answers, with 200, for pages that do not exist.",
        "For applications that route in the browser: content.fallback=index.html. It \
         answers who asks for a page (Sec-Fetch-Dest: document, or Accept with text/html; not curl \
         with its */*), and never for a missing asset, that is, for a path whose last segment has \
         an extension other than .html.",
    ),
    option(
        "content.not_found",
        Kind::Path,
        "404.html",
        "A file below the root that is the body of 404 responses, if it exists.",
        "",
    ),
    option(
        "content.precompressed",
        Kind::Bool,
        "true",
        "Whether name.br, name.zst and name.gz are sent for name to those who accept them.",
        "One that is larger than name is not sent; one that is older is, as by nginx: compress \
         again what you change (`regatta explain` names both). Who accepts none of them is sent \
         name itself, also where Accept-Encoding refuses that too (identity;q=0): a server may \
         disregard the field (RFC 9110 §12.4.1), and nginx and h2o do so. The presets that \
         replicate a server of the papers have false by default: none of those looked for them.",
    ),
    option(
        "content.dotfiles",
        Kind::Bool,
        "false",
        "Whether names that start with a dot are served.",
        "What is in .well-known at the root (RFC 8615) is in any case, but for names in it that \
         start with a dot themselves.",
    ),
    option(
        "content.symlinks",
        Kind::Bool,
        "false",
        "Whether symbolic links are followed, as far as they stay below the root.",
        "The kernel enforces it. A link out of the root is never followed.",
    ),
    option(
        "content.charset",
        Kind::Text,
        "utf-8",
        "The charset parameter of text types.",
        "Empty for none.",
    ),
    option(
        "content.types",
        Kind::List,
        "",
        "Media types by extension, each as ext=type/subtype, that go before the built-in ones.",
        "As in --set content.types=log=text/plain,dat=application/x-thing.",
    ),
    option(
        "content.cache_control_page",
        Kind::Text,
        "no-cache",
        "Cache-Control of HTML pages.",
        "Empty for none. no-cache lets caches keep them but makes them ask each time.",
    ),
    option(
        "content.cache_control_asset",
        Kind::Text,
        "public, max-age=31536000, immutable",
        "Cache-Control of assets whose name has a hash of their content.",
        "Empty for none.",
    ),
    option(
        "content.cache_control_other",
        Kind::Text,
        "no-cache",
        "Cache-Control of all else.",
        "Empty for none. An unhashed script must match the page that names it, and asking costs a \
         304.",
    ),
    option(
        "content.nosniff",
        Kind::Bool,
        "true",
        "Whether responses carry X-Content-Type-Options: nosniff.",
        "",
    ),
    option(
        "cache.enabled",
        Kind::Bool,
        "true",
        "Whether open files, their facts and small bodies are kept between requests.",
        "",
    ),
    option(
        "cache.entries_max",
        count(1, 1 << 24),
        "32768",
        "The most names of files and directories that are remembered.",
        "",
    ),
    option(
        "cache.negatives_max",
        count(0, 1 << 24),
        "4096",
        "The most names that are remembered not to exist.",
        "",
    ),
    option(
        "cache.descriptors_max",
        count(0, 1 << 20),
        "8192",
        "The most files kept open.",
        "Files whose body is kept in memory need none. Unless it is set, it is at most a quarter \
         of the limit on descriptors (RLIMIT_NOFILE).",
    ),
    option(
        "cache.bytes_max",
        bytes(0, TIB),
        "256 MiB",
        "The most memory for names, heads and bodies.",
        "Each cache may take so much: each worker has one, or all share one, and what they unpack \
         of that takes as much again at most. Unless it is set, it is less where memory is small: \
         half of the memory, less 2 MiB for each worker, divided by the number of caches (two if \
         it is shared), but 256 KiB at least. The memory is that of the machine, or less if a \
         control group has a limit (memory.max, memory.high; memory.limit_in_bytes of version 1; \
         the smallest of the groups that it is in). The other half is for sockets' buffers and \
         bodies that are being sent. `regatta check` says what is chosen, and warns if what is \
         set exceeds the memory.",
    ),
    option(
        "cache.body_bytes_max",
        bytes(0, 64 * MIB),
        "65536",
        "The largest body that is kept in memory; larger ones are sent from their file.",
        "",
    ),
    option(
        "cache.copy_bytes_max",
        bytes(0, MIB),
        "16384",
        "The largest body that is copied behind its head, so that one plain write sends both.",
        "Where head and body are not kept in one piece: for HTTP/1.0, say, or for error pages.",
    ),
    option(
        "cache.revalidate_ms",
        Kind::MillisOrNever { min: 0, max: DAY_MS },
        "1000",
        "How long an entry is used before the file system is asked again.",
        "Whatever changes on disk is seen after this time, if the file system answers at once. \
         While it takes longer, one request waits for it and others are answered with what is \
         known, for four times this long; then all wait. A file that changed within the last two \
         seconds has a weak entity tag, because another change might not show in its facts; when \
         it is looked at later it gets a strong one. never: until there is no room for it, \
         as the servers of [E], [S] and [H] did; the presets that replicate one have it by default \
         (`regatta check` says so), and whoever serves users with one sets 1000 again.",
    ),
    option(
        "cache.negative_ms",
        millis(0, DAY_MS),
        "1000",
        "How long it is remembered that a file does not exist.",
        "",
    ),
    option(
        "cache.inactive_ms",
        Kind::MillisOrNever { min: 100, max: DAY_MS },
        "10000",
        "What nobody has asked for in this time is forgotten, and its files are closed.",
        "It may take an eighth longer. A deleted file gives its room on the disk free when the \
         last process has closed it: one that is still asked for, when it is looked at again \
         (cache.revalidate_ms). never: when there is no room for it, as with cache.revalidate_ms.",
    ),
    option(
        "log.access",
        Kind::Text,
        "off",
        "Where finished exchanges are logged: a file, - for standard error, or off.",
        "SIGUSR1 opens it anew.",
    ),
    option(
        "log.format",
        Kind::Choice(&["common", "combined", "json"]),
        "combined",
        "The form of the access log.",
        "common is that of Apache; combined is too, with two columns behind it, the outcome and \
         the milliseconds; json is one object on each line.",
    ),
    option(
        "log.error",
        Kind::Text,
        "-",
        "Where the server's own messages go: a file, - for standard error, or off.",
        "SIGUSR1 opens it anew.",
    ),
    option(
        "accept.count",
        count(0, 1 << 20),
        "0",
        "How many connections are accepted each time the listener is ready.",
        "0 goes on until none is left (Accept-inf of Chandra and Mosberger; \
         Brecht, Pariag and Gammo).",
    ),
    option(
        "accept.eager_read",
        Kind::Bool,
        "false",
        "Whether a new connection is read at once, before it is known to be readable.",
        "",
    ),
    option(
        "accept.eager_write",
        Kind::Bool,
        "true",
        "Whether a response is written at once, before the socket is known to be writable.",
        "",
    ),
    option(
        "accept.on_close",
        Kind::Bool,
        "false",
        "Whether a connection is accepted whenever one is closed.",
        "",
    ),
    option(
        "accept.full_read",
        Kind::Bool,
        "false",
        "Whether a socket is read until it has no more, before the request is answered.",
        "",
    ),
    option(
        "accept.backlog",
        count(1, 65535),
        "1024",
        "How many connections the kernel keeps waiting.",
        "The kernel cuts it to net.core.somaxconn.",
    ),
    option(
        "accept.when_full",
        Kind::Choice(WhenFull::WORDS),
        "close-idle",
        "What happens at limits.connections_max.",
        "close-idle closes the connection that has been idle for longest, after its last answer \
         or else without a first request, and takes the new one; other workers that have room are \
         given a moment to take it. While none is idle, new ones wait in the kernel's queue. With \
         stop they always do, and the listener is not asked about until a connection closes; \
         leave goes on asking, as the servers of [H] do, and every wait returns at once. With \
         event.listen=exclusive leave is stop, and nobody who is full asks while others have room: \
         it would be woken in their place. The error log says that connections are at their limit, \
         once in 10 s.",
    ),
    option(
        "accept.defer",
        Kind::Bool,
        "false",
        "Whether the kernel keeps a connection until its first bytes are there.",
        "TCP_DEFER_ACCEPT, for ten seconds at most.",
    ),
    option(
        "accept.send_buffer_bytes",
        bytes(0, GIB),
        "0",
        "The send buffer of each connection.",
        "SO_SNDBUF. 0 leaves it to the kernel, which lets it grow as needed.",
    ),
    option(
        "accept.pacing_rate",
        Kind::Rate { min: 0, max: TIB },
        "0",
        "The fastest that a connection is sent to, bytes per second.",
        "SO_MAX_PACING_RATE. 0 sets no limit.",
    ),
    option(
        "lab.disk_heads",
        count(0, 64),
        "0",
        "How many heads the simulated disk has; 0: there is none.",
        "Whoever opens a name, or reads or sends a range, that is not in memory gets the head that \
         is free first and sleeps for as long as it takes, and then does it as always. All workers \
         and helpers ask the same disk; io_uring waits likewise, and what must not block is \
         refused. What is in memory the kernel tells (cachestat, mincore) to the owner of the \
         files alone: workers must be that user, or root. Where the lab may not make a disk \
         outside of the server it measures with this one, and says so (docs/environments.md).",
    ),
    option(
        "lab.disk_seek_us",
        Kind::Micros { min: 0, max: 3_600_000_000 },
        "3 ms",
        "How long a head of the simulated disk is under way to what it reads.",
        "Each request takes it once, whatever was read before.",
    ),
    option(
        "lab.disk_bandwidth",
        Kind::Rate { min: 0, max: TIB },
        "100 MB",
        "What a head of the simulated disk reads, bytes per second.",
        "Only what is not in memory is counted. 0 sets no limit.",
    ),
];

/// All options: the server's, then each architecture's.
///
/// Drivers may take the same options, which are listed once.
pub fn all() -> impl Iterator<Item = &'static OptionSpec> {
    let theirs = ARCHITECTURES.iter().enumerate().flat_map(|(at, architecture)| {
        let before = &ARCHITECTURES[..at];
        let listed = move |spec: &&OptionSpec| {
            let mut keys = before.iter().flat_map(|other| other.driver.options);
            keys.any(|other| other.key == spec.key)
        };
        architecture.driver.options.iter().filter(move |spec| !listed(spec))
    });
    OPTIONS.iter().chain(theirs)
}

/// Looks an option up by its full name.
#[must_use]
pub fn find(key: &str) -> Option<&'static OptionSpec> {
    all().find(|spec| spec.key == key)
}

/// The default of an option.
///
/// # Panics
/// If there is none of that name, or its default is none of its values: a fault in our own tables.
#[must_use]
pub fn default(key: &str) -> Value {
    let spec = find(key).expect("code names options of the table");
    spec.kind.parse(spec.default).expect("a default is a value of its option")
}

/// The one-sentence documentation of an option.
///
/// # Panics
/// If there is none of that name: a fault in the command line's own table.
#[must_use]
pub fn doc(key: &str) -> &'static str {
    find(key).expect("the command line names options of the table").doc
}

/// The section of an option: its name without the last part.
#[must_use]
pub fn section(key: &str) -> &str {
    key.rsplit_once('.').map_or("", |(section, _)| section)
}

/// The names of all sections, in the order of their first option.
#[must_use]
pub fn sections() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for spec in all() {
        let name = section(spec.key);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The list of options for the end of `regatta serve --help`.
#[must_use]
pub fn help() -> String {
    let mut text =
        String::from("Options for --set and the configuration file (docs/options.md):\n");
    for spec in all() {
        let default = if spec.default.is_empty() { "none" } else { spec.default };
        let _ = write!(text, "\n  {} [default: {default}]\n      {}\n", spec.key, spec.doc);
    }
    text
}

/// The text of `docs/options.md`.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(MARKDOWN_HEAD);
    for section in sections() {
        let doc = SECTIONS.iter().find(|known| known.name == section);
        let doc = doc.map_or_else(|| driver_doc(section), |known| known.doc.to_owned());
        let _ = write!(text, "\n## `[{section}]`\n\n{}\n", wrapped(&doc));
        for spec in all().filter(|spec| self::section(spec.key) == section) {
            push_markdown(&mut text, spec);
        }
    }
    text
}

fn driver_doc(section: &str) -> String {
    let takes = |architecture: &&Architecture| {
        architecture.driver.options.iter().any(|spec| self::section(spec.key) == section)
    };
    let names: Vec<_> = ARCHITECTURES.iter().filter(takes).map(|known| known.name).collect();
    format!("Of the architectures {}.", names.join(", "))
}

const MARKDOWN_HEAD: &str = "\
# Options

Made from the table in `crates/server/src/config/options.rs` and those of the architectures; do not
edit. `cargo test -p regatta-server` says when it is out of date, and with
`cargo run --example options-doc -p regatta-server` it is written anew.

An option is set on the command line, `regatta serve --set limits.idle_ms_max=30s`, or in a file
that `--config` names:

```toml
[limits]
idle_ms_max = \"30 s\"
```

Where one is set twice, `--set` wins over flags, flags win over the file, and the file wins over the
default. Numbers are in the unit that the name ends in; as text they may carry another one: sizes B,
KiB, MiB, GiB, TiB, kB, MB, GB, TB; durations us, ms, s, min, h, d; rates a size followed by `/s`.
Lists are arrays in the file, and separated by commas on the command line. `regatta check` lists all
that is wrong with a configuration; `regatta serve --print-config` prints the one in effect, with
every option written out.
";

fn push_markdown(text: &mut String, spec: &OptionSpec) {
    let name = spec.key.rsplit_once('.').map_or(spec.key, |(_, name)| name);
    let value = spec.kind.parse(spec.default).map_or_else(|_| String::new(), |value| toml(&value));
    let doc = wrapped(format!("{} {}", spec.doc, spec.long).trim_end());
    let flag = FLAGS.iter().find(|(_, key)| *key == spec.key);
    let flag = flag.map_or_else(String::new, |(flag, _)| format!(" Flag: `{flag}`."));
    let takes = spec.kind.describe();
    let takes = wrapped(&format!("Takes {takes}.{flag} Since {}.", spec.since));
    let _ = write!(text, "\n### `{name} = {value}`\n\n{doc}\n\n{takes}\n");
}

/// The text in lines of at most 100 characters, as far as words are not longer.
fn wrapped(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let len = word.chars().count();
        if width > 0 && width + 1 + len > 100 {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += len;
    }
    lines
}

/// Settings as a configuration file in which every option is written out.
#[must_use]
pub fn print(settings: &Settings) -> String {
    let mut text = String::new();
    for section in sections() {
        let _ = writeln!(text, "{}[{section}]", if text.is_empty() { "" } else { "\n" });
        for spec in all().filter(|spec| self::section(spec.key) == section) {
            let name = spec.key.rsplit_once('.').map_or(spec.key, |(_, name)| name);
            let value = settings.get(spec.key).expect("settings hold every option");
            let _ = writeln!(text, "{name} = {}", toml(value));
        }
    }
    text
}

/// A value as TOML.
#[must_use]
pub fn toml(value: &Value) -> String {
    match value {
        Value::Flag(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Never => quoted("never"),
        Value::Text(text) => quoted(text),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// A TOML basic string. Values have no control characters, so two escapes are all it needs.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_well_formed() {
        let mut keys: Vec<_> = all().map(|spec| spec.key).collect();
        let _ = Settings::defaults(all());
        for spec in all() {
            assert!(spec.doc.ends_with('.') && !spec.doc.ends_with(".."), "{}", spec.key);
            assert!(spec.long.is_empty() || spec.long.ends_with('.'), "{}", spec.key);
            let section = section(spec.key);
            let known = SECTIONS.iter().any(|known| known.name == section);
            let ours = OPTIONS.iter().any(|ours| std::ptr::eq(ours, spec));
            assert_eq!(known, ours, "{}", spec.key);
        }
        keys.sort_unstable();
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), all, "an option is in the table twice");
    }

    #[test]
    fn every_flag_names_an_option() {
        for (flag, key) in FLAGS {
            assert!(find(key).is_some(), "{flag}");
        }
    }

    #[test]
    fn the_committed_page_is_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page == markdown(), "run cargo run --example options-doc -p regatta-server");
    }
}
