//! Table of the server's own options about files and clients.
use regatta_arch::{
    conn::clients::CONNECTIONS_LIMIT_MAX,
    options::{Kind, OptionSpec},
};
use regatta_origin::SERVER_NAME;

const HOUR_MS: u64 = 3_600_000;
pub(super) const DAY_MS: u64 = 24 * HOUR_MS;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
pub(super) const TIB: u64 = 1 << 40;

pub(super) const fn option(
    key: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
    long: &'static str,
) -> OptionSpec {
    OptionSpec { key, kind, default, doc, long }
}

pub(super) const fn bytes(min: u64, max: u64) -> Kind {
    Kind::Bytes { min, max }
}

pub(super) const fn millis(min: u64, max: u64) -> Kind {
    Kind::Millis { min, max }
}

pub(super) const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max }
}

/// Options of the server about files and clients. [`FURTHER`](super::FURTHER) has the others,
/// [`all`](super::all) those of the architectures too.
pub static OPTIONS: &[OptionSpec] = &[
    option(
        "server.root",
        Kind::Text,
        ".",
        "The directory whose files are served.",
        "The kernel keeps every request below it (openat2, RESOLVE_BENEATH). The server looks the \
         path up again every second. If it then leads to another directory (a changed link, a \
         renamed directory), that one is served within 2 seconds. Of the old one, only files that \
         are being sent stay open (docs/decisions/the-root-is-a-path.md). The serving user must be \
         able to reach the directory by this path; a relative path starts at the working \
         directory. Keep named pipes and devices out of the directory. They are not served, but a \
         request for one opens it. A process at the other end of a pipe may notice that.",
    ),
    option(
        "server.listen",
        Kind::List,
        "127.0.0.1:8080",
        "Addresses and Unix sockets to listen on, each as host:port or unix:/path.",
        "Port 0 lets the kernel choose; the server prints the port on standard output. IPv6 \
         addresses are written in brackets: [::1]:8080. A host name is looked up once, at start, \
         and all its addresses are used (with port 0, the first). The file of a Unix socket is \
         made at start and removed at the end; a file without a listener is replaced. A socket \
         that the service manager gives (LISTEN_FDS) is used for the same address or path; if \
         this option is not set, all that are given are. If no address is configured or given, \
         0.0.0.0 with the port in the variable PORT of the environment is used. Who connects to a \
         Unix socket has no address: logs say `unix:`, and no limit on one client holds for it.",
    ),
    option(
        "server.socket_mode",
        Kind::Text,
        "0666",
        "The permissions of the files of Unix sockets: who may write to one may connect.",
        "In octal. The default lets everybody connect who can reach the path, as that of nginx \
         does; the directories that lead there may be narrower.",
    ),
    option(
        "server.socket_owner",
        Kind::Text,
        "",
        "The owner of the files of Unix sockets: a user, or user and group as in root:www-data.",
        "By name or number, as server.user. Without it they are those of who starts the server; \
         only root can give them to others.",
    ),
    option(
        "server.architecture",
        Kind::Text,
        "symped",
        "Division of work among processes and threads, by the name of an architecture.",
        "`regatta architectures` lists the names. The default is an event loop for each processor \
         (docs/decisions/default-architecture.md). If files do not fit in memory and the disk is \
         slow, try amped.",
    ),
    option(
        "server.user",
        Kind::Text,
        "nobody",
        "The user that workers become if root starts the server: a name or a number.",
        "UID:GID works without /etc/passwd. The server binds its addresses and opens the root \
         directory before it changes to this user; files below the root must be readable to it. \
         If another user than root starts the server, it keeps running as that user.",
    ),
    option(
        "server.sandbox",
        Kind::Choice(&["best-effort", "required", "off"]),
        "best-effort",
        "Whether workers and the admin process give up all that they do not need to serve.",
        "They give up capabilities, and the privileges that programs bring. By Landlock (Linux \
         5.13 or later) they can open no files except those below the root and those where a \
         deployment puts the next one. The latter are the directories of the root and of the link \
         to it, except /. They can append to logs, and run no programs. Since Linux 6.7 they can \
         bind and connect no TCP socket, since 6.12 signal no other process. The admin process \
         (admin.listen) reads /proc alone, for the memory of processes. The error log says what \
         took effect. `required` does not serve without Landlock (docs/decisions/protection.md).",
    ),
    option(
        "server.trusted",
        Kind::List,
        "",
        "Proxies that speak for their clients: addresses, prefixes as in 10.0.0.0/8, or unix:.",
        "No limit on one client holds for them, but for the clients that they name \
         (server.proxy_protocol, server.forwarded). `unix:` is whoever connects to a Unix socket.",
    ),
    option(
        "server.proxy_protocol",
        Kind::Bool,
        "false",
        "Whether each connection begins with a PROXY header, which names the client.",
        "Of version 1 or 2, as HAProxy, nginx and the balancers of clouds send it. Logs and limits \
         are about the client that it names. Connections of others than server.trusted, and those \
         that begin with something else, are closed without an answer (closed_bad_record).",
    ),
    option(
        "server.forwarded",
        Kind::Choice(&["off", "x-forwarded-for", "forwarded"]),
        "off",
        "The field in which trusted proxies name the client of each request.",
        "Logs and limits.client_rate are about the last address in it that server.trusted does not \
         have: what stands before that, the client may have written itself. Name the field that \
         your proxy adds to, and no other. Requests of others than server.trusted are their own, \
         whatever they say (docs/operating.md).",
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
        "server.name",
        Kind::Text,
        SERVER_NAME,
        "The value of the field Server in responses; none leaves the field out.",
        "Any text of visible ASCII characters and spaces, of at most 64 bytes.",
    ),
    option(
        "limits.head_bytes_max",
        bytes(512, MIB),
        "16384",
        "The longest request head: request line and header fields.",
        "A longer one is answered with 431. No more than this is received at once (64 KiB if this \
         is longer). A connection therefore keeps at most twice as much of pipelined requests; the \
         rest stays in the kernel.",
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
        "limits.client_connections_max",
        count(0, CONNECTIONS_LIMIT_MAX as u64),
        "0",
        "How many connections one client may have open; 0 is no limit.",
        "A client is an IPv4 address, or the first 64 bits of an IPv6 address, in all workers \
         together. On each further connection the first request is answered with 429 and the \
         connection is closed; a client with twice as many gets no answer any more. Up to 65,536 \
         clients are counted, in 1 MiB; if there is no room for one, it is served without limits \
         (docs/decisions/protection.md).",
    ),
    option(
        "limits.client_rate",
        count(0, 1_000_000),
        "0",
        "How many requests per second one client may send in the long run; 0 is no limit.",
        "More are answered with 429 and Retry-After. Clients are told apart as for \
         limits.client_connections_max.",
    ),
    option(
        "limits.client_burst",
        count(0, 1_000_000),
        "0",
        "How many requests one client may send at once after a rest; 0 is those of two seconds.",
        "Only where limits.client_rate is set.",
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
        "In each such window the client must take at least limits.send_rate_min times the window. \
         Over HTTP/2, a client that opens no window may first use what it has been sent, 65,535 \
         bytes at most, for 33 such windows at most.",
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
         that is on its way when the server closes the connection is lost. A connection that has \
         sent no request yet has four times as long. 0 closes idle connections as soon as what \
         they have already sent has been read.",
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
        "A longer one is answered with 413, and the connection is closed. Over HTTP/2 the padding \
         of its frames counts, too.",
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
         allowed) leaves after those of the cache. Architectures with a thread for each connection \
         take as many as the system has room for (RLIMIT_NPROC, pids.max, kernel.pid_max, \
         vm.max_map_count, RLIMIT_AS). A connection that is sent a file that is not in the cache \
         needs a second descriptor. If none is left, the cache closes some of its files. If that \
         does not help, the request waits until another one ends. After ten seconds it is answered \
         with 503. A client that sends requests but reads no responses makes its connection keep \
         up to twice limits.head_bytes_max.",
    ),
    option(
        "content.index",
        Kind::List,
        "index.html",
        "File names tried for a directory, in this order.",
        "The first that exists is served. If none does, the folder is listed (content.listing), or \
         the answer is 404.",
    ),
    option(
        "content.listing",
        Kind::Bool,
        "false",
        "Whether folders without an index file are listed.",
        "As a page, or as JSON for requests with Accept: application/json (docs/operating.md). A \
         page has 1,000 names: folders first, then files, each in the order of their bytes. Names \
         that are not served are not shown: hidden ones, links that are not followed, special \
         files, and files that the user of the workers cannot read. Nor are files with rules, \
         precompressed siblings, and paths that need another password than the folder. A thread, \
         or a child process where workers fork, reads the folder outside of event loops, at the \
         lowest priority. A page is reused for a second. Each worker builds 4 pages at once, or 1 \
         where workers fork, and keeps 8, of 1 MiB at most. A folder of more than 1,000,000 names \
         is not listed: 500.",
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
         if the request is for a page (Sec-Fetch-Dest: document, or Accept with text/html; not the \
         */* of curl). It is never sent for a missing asset, that is, for a path whose last \
         segment has an extension other than .html.",
    ),
    option(
        "content.fallback_for",
        Kind::Choice(&["documents", "paths-without-extension"]),
        "documents",
        "Which requests the fallback answers: navigations, or all without a suffix in the path.",
        "Browsers say in Sec-Fetch-Dest, or in Accept, that they want a document. Programs such as \
         curl and the makers of link previews do not: for them, too, paths-without-extension \
         sends the fallback. A path whose last part has a suffix other than .html is 404 either \
         way. `regatta explain` says why the fallback was skipped.",
    ),
    option(
        "content.not_found",
        Kind::Path,
        "404.html",
        "A file below the root that is the body of 404 responses, if it exists.",
        "",
    ),
    option(
        "content.error_pages",
        Kind::List,
        "",
        "Files below the root that are the bodies of other errors, each as status=path.",
        "For example --set content.error_pages=503=errors/503.html,403=errors/403.html. They are \
         read with the root and at each reload, so that an error needs no disk: at most 64 KiB \
         each. They have the fields that rules say of them, but none that says how long they may \
         be kept.",
    ),
    option(
        "content.precompressed",
        Kind::Bool,
        "true",
        "Whether clients that accept it are sent name.br, name.zst or name.gz in place of name.",
        "A compressed file that is larger than the original is not sent. One that is older is \
         sent, as nginx does: run `regatta precompress` after each change (`regatta explain` \
         points out both cases). A client that accepts none of them is sent the original, even if \
         its Accept-Encoding excludes that too (identity;q=0). A server may disregard the field \
         (RFC 9110 §12.4.1), and nginx and h2o do so. Presets that replicate a server from the \
         papers have false by default: those servers did not look for compressed files.",
    ),
    option(
        "content.compress",
        Kind::Bool,
        "false",
        "Whether text files without precompressed siblings are compressed after their first use.",
        "Files of 1 KiB to 4 MiB of a textual type, by gzip and zstd. A thread of each worker \
         process compresses, at the lowest priority. Until it has, and to clients that accept \
         neither, the file is sent unchanged. The compressed form is sent once the entry has been \
         revalidated (cache.revalidate_ms), or opened again. Workers keep 64 MiB of forms \
         together, at least 2 MiB each, in addition to their caches. A file whose forms exceed \
         the share of a worker is sent by gzip alone, or unchanged. Ranges are of the unchanged \
         file. Files with Cache-Control: no-transform are never compressed. A file that changed \
         is compressed again. `regatta precompress` makes smaller files. No effect where helpers \
         are processes, and with event.share.",
    ),
    option(
        "content.coded_names",
        Kind::Bool,
        "false",
        "Whether name.js.br, name.wasm.gz and name.svgz are sent as what they hold.",
        "A request for such a name gets the type of the inner name, and Content-Encoding: br, zstd \
         or gzip, whatever it accepts. Programs that name coded files in their pages, such as \
         exports of Unity, need this. Files with an inner name of unknown type, and archives such \
         as name.tar.gz, are sent as before. A rule in [[headers]] may set Content-Encoding for \
         other names, or remove it.",
    ),
    option(
        "content.etag",
        Kind::Choice(&["mtime-size", "inode", "content"]),
        "mtime-size",
        "What the entity tag of a file is made from.",
        "mtime-size: its length and its modification time in seconds, as nginx does. Several \
         servers with copies of a file then send one tag, if the copies keep the time. inode: \
         also its device, its inode, and the time of its last change of any kind. Choose it if a \
         file may change while length and modification time stay the same. Files with a time \
         before 1980-01-03, as reproducible builds have, have tags by inode instead. content: \
         a hash of the bytes, 128 bits of SHA-256. Copies have one tag on all servers, whatever \
         their times, and a deploy that leaves a file's bytes unchanged leaves its tag. A thread \
         of each worker process hashes a file after its first use, at the lowest priority. The tag \
         changes once the entry has been revalidated (cache.revalidate_ms), or opened again. Until \
         then, and for files over 256 MiB, tags are by inode: a tag must never match other bytes. \
         A client with such a tag receives the file once more. Where helpers are processes, and \
         with event.share, all tags are by inode.",
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
        "content.rules_files",
        Kind::Bool,
        "false",
        "Whether _headers and _redirects at the root hold rules.",
        "They change with the root, and are never served. The serving user must be able to read \
         them (docs/rules.md).",
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
         shared cache may take as much again. On a machine with little memory the default is \
         lower: half of the memory, less 2 MiB for each worker, divided by the number of caches (a \
         shared one counts twice). It is 256 KiB at least. The memory is that of the machine, or \
         the limit of the server's control groups if that is less. The smallest of their limits \
         counts (memory.max, memory.high; memory.limit_in_bytes of version 1). The other half is \
         for socket buffers and for bodies that are being sent. `regatta check` prints the value \
         in effect, and warns if a value that you set exceeds the memory.",
    ),
    option(
        "cache.body_bytes_max",
        bytes(0, 64 * MIB),
        "65536",
        "The largest body that is kept in memory; larger ones are sent from their file.",
        "See cache.clear_body_bytes_max for clients without TLS.",
    ),
    option(
        "cache.clear_body_bytes_max",
        bytes(0, 64 * MIB),
        "32768",
        "The same limit for clients of HTTP/1 in the clear, if it is smaller.",
        "To these clients the kernel can send a file itself (`sendfile`), which is cheaper than a \
         copy from memory for a body of 48 KiB or more. TLS and HTTP/2 send from memory only. A \
         body that is in memory for one of their clients is sent from there to all. Where only \
         cache.body_bytes_max is set, it holds for all clients.",
    ),
    option(
        "cache.copy_bytes_max",
        bytes(0, MIB),
        "16384",
        "The largest body that is copied behind its head, so that one write sends both.",
        "It matters where head and body are not cached in one piece, for example for HTTP/1.0, for \
         ranges and for error pages.",
    ),
    option(
        "cache.revalidate_ms",
        Kind::MillisOrNever { min: 0, max: DAY_MS },
        "1000",
        "How long an entry is used before the file system is asked again.",
        "A change on disk is seen after this time if the file system answers at once. While it \
         takes longer, one request waits for it and the others are sent the old entry, for four \
         times this long; then all wait. A file that changed within the last two seconds has a \
         weak entity tag: one more change in that time might leave the same metadata. The next \
         revalidation gives it a strong one. never: an entry is used until it is evicted, as in \
         the servers of [E], [S] and [H]. Presets that replicate one of those have never by \
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
        "How long an entry without requests stays in a cache; then its file is closed.",
        "It may take an eighth longer. The disk space of a deleted file becomes free when the last \
         process closes it: if clients still ask for the file, at the next revalidation \
         (cache.revalidate_ms). never: entries are removed only to make room for others.",
    ),
];
