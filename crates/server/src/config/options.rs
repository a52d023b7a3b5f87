//! The one table of options: it makes the help texts, `docs/options.md`, `--print-config` and the
//! names that a configuration file may use.
use regatta_arch::{
    ARCHITECTURES,
    kit::accept,
    options::{Kind, OptionSpec, Settings, Value},
};
use std::fmt::Write as _;

mod markdown;

pub use markdown::markdown;

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
    Section { name: "server", doc: "What is served, on which addresses, and as which user." },
    Section {
        name: "limits",
        doc: "Limits on what a client may send and ask for, and on how long it may take.",
    },
    Section { name: "content", doc: "How a request path is answered with a file." },
    Section {
        name: "cache",
        doc: "The cache of open files, their metadata and small bodies, one for each worker.",
    },
    Section { name: "log", doc: "The access log and the error log." },
    Section { name: "lab", doc: "A simulated disk, for tests and measurements." },
    Section { name: "accept", doc: "How connections are accepted." },
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
        "The kernel keeps every request below it (openat2, RESOLVE_BENEATH). The server looks the \
         path up again every second, and at once after SIGHUP. If it then leads to another \
         directory, because a link was changed or a directory was renamed, that directory is \
         served within 2 seconds; of the old one, only files that are being sent stay open \
         (docs/decisions/the-root-is-a-path.md). The serving user must be able to reach the \
         directory by this path; a relative path starts at the working directory. Keep named \
         pipes and devices out of the directory: they are not served, but a request for one opens \
         it, which a process at the other end of a pipe may notice.",
    ),
    option(
        "server.listen",
        Kind::List,
        "127.0.0.1:8080",
        "Addresses to listen on, each as host:port.",
        "Port 0 lets the kernel choose; the server prints the port on standard output. IPv6 \
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
        "The user, by name or number, that workers run as if root starts the server.",
        "UID:GID works without /etc/passwd. The server binds its addresses and opens the root \
         directory before it changes to this user; files below the root must be readable to it. \
         If another user than root starts the server, it keeps running as that user.",
    ),
    option(
        "server.drain_ms_max",
        millis(0, HOUR_MS),
        "8000",
        "How long requests in progress may take to finish after SIGTERM or SIGINT.",
        "Then their connections are closed.",
    ),
    option(
        "server.pid_file",
        Kind::Path,
        "",
        "A file that holds the process ID of the master; removed at exit.",
        "An existing file is replaced, but not a link, nor the file of a server that is running.",
    ),
    option(
        "limits.head_bytes_max",
        bytes(512, MIB),
        "16384",
        "The longest request head: request line and header fields.",
        "A longer one is answered with 431. No more than this is received at once (64 KiB if this \
         is longer), so a connection keeps at most twice as much of pipelined requests; the rest \
         stays in the kernel.",
    ),
    option(
        "limits.target_bytes_max",
        bytes(64, MIB),
        "8192",
        "The longest request target: path and query.",
        "A longer one is answered with 414.",
    ),
    option(
        "limits.fields_max",
        count(1, 1024),
        "64",
        "The most header fields in a request.",
        "More are answered with 431. Up to 64 take no additional memory. For many long fields, \
         raise limits.head_bytes_max too.",
    ),
    option(
        "limits.head_ms_max",
        millis(1, DAY_MS),
        "10000",
        "How long a request head may take from its first byte to its last.",
        "A slower one is answered with 408. The same limit holds for the request body, which is \
         read and discarded.",
    ),
    option(
        "limits.first_request_ms_max",
        millis(1, DAY_MS),
        "10000",
        "How long a new connection may send nothing.",
        "Then it is closed without a response. Raise this for a load balancer that opens \
         connections before it has requests for them.",
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
        "How often the server checks that a client receives its response fast enough.",
        "In each such window the client must take at least limits.send_rate_min times the window.",
    ),
    option(
        "limits.send_rate_min",
        Kind::Rate { min: 0, max: GIB },
        "256",
        "The slowest rate at which a client may receive a response, bytes per second.",
        "Measured over limits.send_window_ms. 0 requires only that something is received in each \
         window.",
    ),
    option(
        "limits.disk_ms_max",
        millis(1, DAY_MS),
        "30000",
        "How long the disk may take to open a file, or to read a piece of one.",
        "Then the request is answered with 503 and the connection is closed; if the response has \
         already begun, the connection is closed at once. Linux itself gives up a disk command \
         after 30 s. Where the event loop itself waits for the disk (sped, symped and their \
         variants), it cannot check this limit while it waits.",
    ),
    option(
        "limits.half_closed_ms_max",
        millis(0, DAY_MS),
        "500",
        "How long a request may wait for the disk after its client has closed its sending side.",
        "The client may be gone, or may only have nothing more to send: the server cannot tell. If \
         the disk answers within this time, the client gets its response; if not, the connection \
         is closed. After a reset (RST) it is closed at once, unless the event loop itself waits \
         for the disk.",
    ),
    option(
        "limits.linger_ms_max",
        millis(0, HOUR_MS),
        "2000",
        "How long a connection that the server closes waits for the client to close too (RFC 9112 \
         §9.6).",
        "Without this the client could lose the end of its last response.",
    ),
    option(
        "limits.drain_idle_ms",
        millis(0, HOUR_MS),
        "250",
        "How long an idle connection may still send a request while the server shuts down.",
        "The response to such a request says that it is the last. Without this time, a request \
         that is on its way when the server closes the connection is lost. 0 closes idle \
         connections as soon as what they have already sent has been read.",
    ),
    option(
        "limits.linger_bytes_max",
        bytes(0, GIB),
        "4194304",
        "How much a closing connection reads from the client and discards before it is closed.",
        "",
    ),
    option(
        "limits.discard_body_bytes_max",
        bytes(0, GIB),
        "65536",
        "The longest request body that is read and discarded so that the connection can stay open.",
        "A longer one is answered with 413, and the connection is closed.",
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
        "The most byte ranges in one response.",
        "A request for more gets the whole representation. 0 ignores all ranges.",
    ),
    option(
        "limits.connections_max",
        count(0, u32::MAX as u64),
        "0",
        "The most connections at once, split evenly among the workers.",
        "A worker that has reached its share leaves new connections to the others. With 0, each \
         worker takes as many as its limit on descriptors (RLIMIT_NOFILE, raised as far as \
         allowed) leaves after those of the cache; a thread for each takes as many as the system \
         has room for (RLIMIT_NPROC, pids.max, kernel.pid_max, vm.max_map_count, RLIMIT_AS). A \
         connection that is sent a file that is not in the cache needs a second descriptor. If \
         none is left, the cache closes some of its files; if that does not help, the request \
         waits until another one ends, and after ten seconds it is answered with 503. A client \
         that sends requests but reads no responses makes its connection keep up to twice \
         limits.head_bytes_max.",
    ),
    option(
        "content.index",
        Kind::List,
        "index.html",
        "File names tried for a directory, in this order.",
        "The first that exists is served. If none does, the answer is 404: there are no directory \
         listings.",
    ),
    option(
        "content.clean_urls",
        Kind::Bool,
        "false",
        "Whether /page may be answered with page.html.",
        "",
    ),
    option(
        "content.fallback",
        Kind::Path,
        "",
        "A file below the root that is sent, with 200, for pages that do not exist.",
        "For applications that route in the browser: content.fallback=index.html. It is sent only \
         if the request is for a page (Sec-Fetch-Dest: document, or Accept with text/html; not \
         the */* of curl), and never for a missing asset, that is, for a path whose last segment \
         has an extension other than .html.",
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
        "Whether clients that accept it are sent name.br, name.zst or name.gz in place of name.",
        "A compressed file that is larger than the original is not sent. One that is older is \
         sent, as nginx does: compress again after each change (`regatta explain` points out both \
         cases). A client that accepts none of them is sent the original, even if its \
         Accept-Encoding excludes that too (identity;q=0): a server may disregard the field (RFC \
         9110 §12.4.1), and nginx and h2o do so. Presets that replicate a server from the papers \
         have false by default: those servers did not look for compressed files.",
    ),
    option(
        "content.dotfiles",
        Kind::Bool,
        "false",
        "Whether names that start with a dot are served.",
        "Files in /.well-known (RFC 8615) are always served, unless their own names start with a \
         dot.",
    ),
    option(
        "content.symlinks",
        Kind::Bool,
        "false",
        "Whether symbolic links that stay below the root are followed.",
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
        "Media types by extension, each as ext=type/subtype; they override the built-in ones.",
        "For example --set content.types=log=text/plain,dat=application/x-thing.",
    ),
    option(
        "content.cache_control_page",
        Kind::Text,
        "no-cache",
        "Cache-Control of HTML pages.",
        "Empty for none. no-cache lets caches keep a page but makes them revalidate it each time.",
    ),
    option(
        "content.cache_control_asset",
        Kind::Text,
        "public, max-age=31536000, immutable",
        "Cache-Control of assets that have a hash of their content in their name.",
        "Empty for none.",
    ),
    option(
        "content.cache_control_other",
        Kind::Text,
        "no-cache",
        "Cache-Control of all other files.",
        "Empty for none. The default makes caches revalidate, which costs a 304: a script without \
         a hash in its name must match the page that loads it.",
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
        "Whether open files, their metadata and small bodies are kept between requests.",
        "",
    ),
    option(
        "cache.entries_max",
        count(1, 1 << 24),
        "32768",
        "The most files and directories in a cache.",
        "",
    ),
    option(
        "cache.negatives_max",
        count(0, 1 << 24),
        "4096",
        "The most names in a cache that are known not to exist.",
        "",
    ),
    option(
        "cache.descriptors_max",
        count(0, 1 << 20),
        "8192",
        "The most files that a cache keeps open.",
        "Files whose body is kept in memory need no open descriptor. The default is lowered to a \
         quarter of the limit on descriptors (RLIMIT_NOFILE) if that is less.",
    ),
    option(
        "cache.bytes_max",
        bytes(0, TIB),
        "256 MiB",
        "The most memory that a cache uses for names, heads and bodies.",
        "Each worker has a cache, or all workers share one; the copies that they unpack from a \
         shared cache may take as much again. The default is lowered on a machine with little \
         memory: to half of the memory, less 2 MiB for each worker, divided by the number of \
         caches (a shared one counts twice), but to 256 KiB at least. The memory is that of the \
         machine, or the limit of a control group if that is less (memory.max, memory.high; \
         memory.limit_in_bytes of version 1; the smallest of all groups that the server is in). \
         The other half is for socket buffers and for bodies that are being sent. `regatta check` \
         prints the value in effect, and warns if a value that you set exceeds the memory.",
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
        "The largest body that is copied behind its head, so that one write sends both.",
        "It matters where head and body are not cached in one piece, for example for HTTP/1.0 and \
         for error pages.",
    ),
    option(
        "cache.revalidate_ms",
        Kind::MillisOrNever { min: 0, max: DAY_MS },
        "1000",
        "How long an entry is used before the file system is asked again.",
        "A change on disk is seen after this time if the file system answers at once. While it \
         takes longer, one request waits for it and the others are sent the old entry, for four \
         times this long; then all wait. A file that changed within the last two seconds has a \
         weak entity tag, because one more change in that time might leave the same metadata; the \
         next revalidation gives it a strong one. never: an entry is used until it is evicted, as \
         in the servers of [E], [S] and [H]. Presets that replicate one of those have never by \
         default (`regatta check` says so); set 1000 if one of them serves real users.",
    ),
    option(
        "cache.negative_ms",
        millis(0, DAY_MS),
        "1000",
        "How long a cache remembers that a file does not exist.",
        "",
    ),
    option(
        "cache.inactive_ms",
        Kind::MillisOrNever { min: 100, max: DAY_MS },
        "10000",
        "How long an entry that nobody asks for stays in a cache; then its file is closed.",
        "It may take an eighth longer. The disk space of a deleted file becomes free when the last \
         process closes it: if clients still ask for the file, at the next revalidation \
         (cache.revalidate_ms). never: entries are removed only to make room for others.",
    ),
    option(
        "log.access",
        Kind::Text,
        "off",
        "Where requests are logged: a file, - for standard error, or off.",
        "SIGUSR1 reopens the file.",
    ),
    option(
        "log.format",
        Kind::Choice(&["common", "combined", "json"]),
        "combined",
        "The format of the access log.",
        "common is the format of Apache, and so is combined, with two more columns at the end: the \
         outcome and the milliseconds. json is one object on each line. docs/logging.md describes \
         all three.",
    ),
    option(
        "log.error",
        Kind::Text,
        "-",
        "Where the server's own messages go: a file, - for standard error, or off.",
        "SIGUSR1 reopens the file.",
    ),
    option(
        "lab.disk_heads",
        count(0, 64),
        "0",
        "How many heads the simulated disk has; 0 for no simulated disk.",
        "When a worker or a helper opens a name, or reads or sends a range, that is not in memory, \
         it waits until a head is free, sleeps for as long as the simulated disk takes, and then \
         makes the real system call. All workers and helpers use the same disk; operations of \
         io_uring wait in the same way, and calls that must not block are refused. The kernel \
         tells only the owner of a file what is in memory (cachestat, mincore), so workers must \
         run as that user or as root. The lab uses this disk, and says so, where it may not set \
         up a slow disk outside the server (docs/environments.md).",
    ),
    option(
        "lab.disk_seek_us",
        Kind::Micros { min: 0, max: 3_600_000_000 },
        "3 ms",
        "How long a head of the simulated disk takes to reach what it reads.",
        "Each request takes this once, whatever was read before.",
    ),
    option(
        "lab.disk_bandwidth",
        Kind::Rate { min: 0, max: TIB },
        "100 MB",
        "How fast a head of the simulated disk reads, bytes per second.",
        "Only bytes that are not in memory count. 0 sets no limit.",
    ),
];

/// The options that are there whatever the architecture.
fn ours() -> impl Iterator<Item = &'static OptionSpec> {
    OPTIONS.iter().chain(accept::OPTIONS)
}

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
    ours().chain(theirs)
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
            let ours = ours().any(|ours| std::ptr::eq(ours, spec));
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
}
