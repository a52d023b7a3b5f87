//! The configurations: each server as its own manual says it is fastest on static files, with
//! connections that stay open, `sendfile`, no log, no compression, and as many workers as it has
//! processors.

use super::{CONNECTIONS_MAX, Serving};

/// Open files that a server may need: a connection and a file each.
const FILES_MAX: usize = CONNECTIONS_MAX * 2;
/// Threads of each of Apache's processes.
const APACHE_THREADS: usize = 128;
/// Connections of Apache's worker module, each with a thread whether it is open or not: as many as
/// the replicas allow the others need at saturation. More wait in the queue.
const WORKER_CONNECTIONS: usize = 2_048;
/// Threads of each of [A]'s servers, its Apache too.
const POOL_THREADS: usize = 64;
/// Where Debian puts Apache's modules.
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";

/// nginx: `sendfile` with `tcp_nopush`, open files cached, connections never closed.
pub(super) fn nginx(serving: &Serving<'_>) -> String {
    let (address, root) = (serving.address, serving.root.display());
    let workers = serving.workers.max(1);
    // `tcp_nopush` only has a meaning with `sendfile`.
    format!(
        "daemon off;
user nobody nogroup;
worker_processes {workers};
worker_rlimit_nofile {FILES_MAX};
pid nginx.pid;
error_log stderr warn;
events {{ use epoll; multi_accept on; worker_connections {CONNECTIONS_MAX}; }}
http {{
  access_log off;
  server_tokens off;
  default_type application/octet-stream;
  types {{ text/html html; }}
  sendfile on;
  tcp_nopush on;
  tcp_nodelay on;
  keepalive_timeout 75s;
  keepalive_requests 1000000000;
  open_file_cache max=10000 inactive=60s;
  open_file_cache_valid 60s;
  open_file_cache_min_uses 1;
  client_body_temp_path t1;
  proxy_temp_path t2;
  fastcgi_temp_path t3;
  uwsgi_temp_path t4;
  scgi_temp_path t5;
  server {{ listen {address} backlog=1024; root {root}; }}
}}
"
    )
}

/// lighttpd: one process, no modules but the static file part. Its limit of requests on a
/// connection is a 16-bit number.
pub(super) fn lighttpd(serving: &Serving<'_>) -> String {
    let (host, port) = (serving.address.ip(), serving.address.port());
    let root = serving.root.display();
    format!(
        "server.bind = \"{host}\"
server.port = {port}
server.document-root = \"{root}\"
server.modules = ()
server.event-handler = \"linux-sysepoll\"
server.network-backend = \"sendfile\"
server.max-worker = 0
server.max-connections = {CONNECTIONS_MAX}
server.max-fds = {FILES_MAX}
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = 60
mimetype.assign = ( \".html\" => \"text/html\", \"\" => \"application/octet-stream\" )
"
    )
}

/// h2o: a thread for each processor, its own file cache as it comes.
pub(super) fn h2o(serving: &Serving<'_>) -> String {
    let (host, port) = (serving.address.ip(), serving.address.port());
    let (root, threads) = (serving.root.display(), serving.workers.max(1));
    format!(
        "num-threads: {threads}
max-connections: {CONNECTIONS_MAX}
listen:
  host: {host}
  port: {port}
hosts:
  default:
    paths:
      /:
        file.dir: {root}
"
    )
}

/// Apache: the event module, a process for each processor that never ends. Idle connections cost it
/// no thread: each thread stands for as many as make up the connections that all are set up for.
pub(super) fn apache(serving: &Serving<'_>) -> String {
    let (workers, each) = (serving.workers.max(1), CONNECTIONS_MAX / APACHE_THREADS);
    let threads = threads_of(workers, APACHE_THREADS);
    let pool = format!("{threads}AsyncRequestWorkerFactor {each}\n");
    apache_with("event", &pool, serving)
}

/// Apache: the worker module, as [S] §7 used it: a connection has a thread as long as it is open.
/// All threads are there from the start, however many processors there are.
pub(super) fn apache_worker(serving: &Serving<'_>) -> String {
    let processes = WORKER_CONNECTIONS / APACHE_THREADS;
    apache_with("worker", &threads_of(processes, APACHE_THREADS), serving)
}

/// Apache: the worker module with the threads of [A]'s servers; further clients wait.
pub(super) fn apache_pool(serving: &Serving<'_>) -> String {
    apache_with("worker", &threads_of(1, POOL_THREADS), serving)
}

/// So many processes, which never end, and so many threads of each.
fn threads_of(processes: usize, each: usize) -> String {
    let threads = processes * each;
    format!(
        "ThreadLimit {each}
ThreadsPerChild {each}
ServerLimit {processes}
StartServers {processes}
MinSpareThreads 1
MaxSpareThreads {threads}
MaxRequestWorkers {threads}
MaxConnectionsPerChild 0
"
    )
}

/// Apache with a module for processes and threads: no `.htaccess`, no `lstat` of every directory
/// on the way.
fn apache_with(module: &str, pool: &str, serving: &Serving<'_>) -> String {
    let (address, host) = (serving.address, serving.address.ip());
    let (root, scratch) = (serving.root.display(), serving.scratch.display());
    format!(
        "ServerRoot \"{scratch}\"
DefaultRuntimeDir \"{scratch}\"
PidFile \"{scratch}/apache.pid\"
ServerName {host}
Listen {address}
User nobody
Group nogroup
<IfModule !mpm_{module}_module>
LoadModule mpm_{module}_module {APACHE_MODULES}/mod_mpm_{module}.so
</IfModule>
<IfModule !authz_core_module>
LoadModule authz_core_module {APACHE_MODULES}/mod_authz_core.so
</IfModule>
ErrorLog /dev/stderr
LogLevel error
ServerTokens Prod
DocumentRoot \"{root}\"
<Directory />
  AllowOverride None
  Options FollowSymLinks
  Require all granted
  ForceType application/octet-stream
</Directory>
<FilesMatch \"\\.html$\">
  ForceType text/html
</FilesMatch>
EnableSendfile On
HostnameLookups Off
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 75
ListenBacklog 1024
{pool}"
    )
}

/// Caddy: plain HTTP, no administration, no certificates, its file server as it comes.
pub(super) fn caddy(serving: &Serving<'_>) -> String {
    let (host, port) = (serving.address.ip(), serving.address.port());
    let root = serving.root.display();
    format!(
        "{{
  admin off
  auto_https off
  log default {{
    output stderr
    level ERROR
  }}
}}
http://:{port} {{
  bind {host}
  root * {root}
  file_server
}}
"
    )
}
