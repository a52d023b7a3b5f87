//! Table of the server's own options about encryption, protocols, logs, monitors and the lab.
use super::table::{DAY_MS, GIB, MIB, TIB, bytes, count, millis, option};
use regatta_arch::options::{Kind, OptionSpec};

/// Options of these sections.
pub static FURTHER: &[OptionSpec] = &[
    option(
        "tls.listen",
        Kind::List,
        "",
        "Addresses and Unix sockets with HTTPS, each as host:port or unix:/path.",
        "In the form of server.listen. A server with HTTPS alone sets server.listen to an empty \
         list. These addresses need tls.certificate.",
    ),
    option(
        "tls.client_listen",
        Kind::List,
        "",
        "Addresses and Unix sockets with HTTPS whose clients must show a certificate.",
        "One that tls.client_ca has issued; without it the handshake fails. Each connection \
         shows it again: no session is resumed.",
    ),
    option(
        "tls.certificate",
        Kind::List,
        "",
        "Certificates and their keys, each as CHAIN.pem:KEY.pem, or FILE.pem with both.",
        "The chain begins with the certificate of the server. A client receives the certificate \
         for the name that it asks for: a name of a subjectAltName, else a wildcard, else the \
         first in this list. If a name has certificates with several kinds of keys, the first \
         that the client supports counts. The user that starts the server reads the files at the \
         start and at each reload; the serving user need not read them.",
    ),
    option(
        "tls.version_min",
        Kind::Choice(&["1.2", "1.3"]),
        "1.2",
        "The oldest version of TLS that clients may use.",
        "",
    ),
    option(
        "tls.client_ca",
        Kind::Path,
        "",
        "A PEM file with the authorities that issue certificates of clients.",
        "For tls.client_listen.",
    ),
    option(
        "tls.crl",
        Kind::Path,
        "",
        "A PEM file with lists of certificates of clients that were revoked.",
        "With it, each authority in the chain of a client needs a list there; clients of others \
         are refused. A list that is past its next update still counts.",
    ),
    option(
        "tls.ocsp",
        Kind::List,
        "",
        "Responses of OCSP to send with certificates, each as CHAIN.pem:RESPONSE.der.",
        "CHAIN.pem is a chain of tls.certificate. The server does not fetch responses: a program \
         that does, and then reloads the server, keeps them current.",
    ),
    option(
        "tls.redirect",
        Kind::Bool,
        "false",
        "Whether requests in the clear (server.listen) are redirected to TLS.",
        "With status 308, to the same host and target, and to the port of the first address with \
         TLS. Requests below /.well-known/acme-challenge/ are answered in the clear: a certificate \
         authority sends them before there is a certificate. A request without Host gets 400.",
    ),
    option(
        "tls.hsts_s",
        count(0, 315_360_000),
        "0",
        "For how many seconds clients shall use this host with TLS alone; 0 is not at all.",
        "Responses over TLS have Strict-Transport-Security: max-age=N (RFC 6797), except 304. A \
         rule of [[headers]] with this field has precedence. Begin with 300: browsers do not \
         connect in the clear before that time is over. It needs tls.redirect, unless \
         server.listen is empty.",
    ),
    option(
        "tls.handshake_ms_max",
        millis(1, DAY_MS),
        "10000",
        "How long a handshake may take, from accept to its end.",
        "Then the connection is closed. The PROXY header of server.proxy_protocol has the same \
         limit.",
    ),
    option(
        "tls.handshake_bytes_max",
        bytes(0, MIB),
        "0",
        "The most bytes that a connection keeps of an incomplete handshake message.",
        "0 is 16 KiB, and 64 KiB where clients show certificates (tls.client_listen), whose chains \
         may be long. A whole record, of up to 16 KiB, is always kept.",
    ),
    option(
        "tls.ticket_rotate_s",
        count(0, 7 * DAY_MS / 1_000),
        "21600",
        "The seconds after which another key seals new session tickets; 0 for no tickets.",
        "A client that returns with a ticket resumes its session, which costs a fraction of a full \
         handshake. All workers share the keys, which outlive reloads and upgrades. A key opens \
         tickets until the second rotation after its first use, and a ticket is valid for 12 h at \
         most (docs/decisions/tickets.md). Clients that must show a certificate receive no \
         tickets.",
    ),
    option(
        "tls.ticket_keys",
        Kind::List,
        "",
        "Files with the keys of session tickets, for several machines with the same names.",
        "At most 3. The first seals new tickets, all of them open tickets, and nothing rotates: \
         replace the files on all machines, then reload. A file has 48 random bytes (`(umask 077; \
         openssl rand -out FILE 48)`), or 80 as for nginx's ssl_session_ticket_key. It may not be \
         open to all users. Without this option the server draws its own keys.",
    ),
    option(
        "http2.enabled",
        Kind::Bool,
        "true",
        "Whether clients may use HTTP/2.",
        "Over TLS a client chooses it in the handshake (ALPN), and most browsers do. In the clear \
         it needs http2.clear. Browsers then send all requests over one connection. Under \
         architectures that read files in the thread of a connection, a slow file delays all of \
         them (docs/arch).",
    ),
    option(
        "http2.clear",
        Kind::Bool,
        "true",
        "Whether a connection in the clear is one of HTTP/2 if it begins so.",
        "By prior knowledge (RFC 9113 §3.3): the first bytes are those of HTTP/2. Proxies and \
         tools do this, browsers do not. Connections that begin with a request of HTTP/1 are not \
         affected, and Upgrade: h2c is ignored.",
    ),
    option(
        "http2.streams_max",
        count(1, 128),
        "100",
        "How many requests of a connection may be open at once.",
        "The client learns the number from the first frame of the server \
         (SETTINGS_MAX_CONCURRENT_STREAMS). Streams beyond it are refused, and the client sends \
         them again.",
    ),
    option(
        "http2.table_bytes",
        bytes(0, 64 << 10),
        "4096",
        "The most bytes that a connection keeps of fields that the client sent before.",
        "The table of HPACK (RFC 7541 §4.1), which grows as the client uses it. Clients refer to \
         its fields instead of sending them again. With 0 they send all fields with each request.",
    ),
    option(
        "http2.exchanges_max",
        count(1, MIB),
        "4096",
        "How many streams of a worker may wait for the disk at once.",
        "Those of all connections together. Streams beyond it are refused, and the client sends \
         them again. It limits memory: http2.streams_max times limits.connections_max would be \
         much more. Streams that the cache answers do not count.",
    ),
    option(
        "http2.unsent_bytes_max",
        bytes(0, GIB),
        "65536",
        "Unsent bytes of a connection from which the kernel takes no more; 0 is no limit.",
        "TCP_NOTSENT_LOWAT, on tls.listen and tls.client_listen: server.listen has no limit. Bytes \
         on the way to the client do not count. Without a limit the kernel \
         takes megabytes of one response, and a more urgent one waits behind them. Connections of \
         HTTP/1 have the same listeners, and the same limit. Expect more calls where a client is \
         slower than the server: one for each 32 KiB or more. 1 MiB to a slow client takes 13 \
         calls, to a fast one 1. A client that reads nothing costs the \
         kernel 0.2 MB instead of 4 MB. A thread or process that serves a slow one is busy for \
         longer. 0 is as HTTP/1 alone would have it. Unix sockets have no such limit.",
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
        "log.skip",
        Kind::List,
        "",
        "Patterns of paths whose requests the access log leaves out, as in /healthz, /assets/**.",
        "In the form of [[headers]] (docs/rules.md). All requests for these paths are left out, \
         also those that fail, on all hosts; counters have them. At most 256 patterns.",
    ),
    option(
        "log.error",
        Kind::Text,
        "-",
        "Where the server's own messages go: a file, - for standard error, or off.",
        "SIGUSR1 reopens the file.",
    ),
    option(
        "admin.listen",
        Kind::Text,
        "",
        "Where a process of its own answers monitors: host:port, or unix:/path.",
        "Nowhere by default. /metrics has the counters as Prometheus reads them (docs/metrics.md; \
         deploy/grafana.json draws them). /live answers 200. /ready answers 200 while a worker \
         answers, and 503 while none does or the server drains. /status has what `regatta top \
         --json` prints, and /config every option. Only the user who starts the server may connect \
         to a Unix socket. Whoever can connect to an address can read all of that.",
    ),
    option(
        "lab.disk_heads",
        count(0, 64),
        "0",
        "How many heads the simulated disk has; 0 for no simulated disk.",
        "A worker or a helper that opens a name, or reads or sends a range, waits for this disk if \
         that is not in memory. It waits until a head is free, sleeps for as long as the disk \
         takes, and then makes the real system call. All workers and helpers use the same disk; \
         operations of io_uring wait in the same way, and calls that must not block are refused. \
         The kernel tells only the owner of a file what is in memory (cachestat, mincore), so \
         workers must run as that user or as root. The lab uses this disk, and says so, where it \
         may not set up a slow disk outside the server (docs/environments.md).",
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
