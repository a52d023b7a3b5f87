//! The programs that the lab starts as servers: how each is told what to serve and where.

use crate::env::Environment;
use crate::group::{INTERRUPTED, STEP};
use crate::process::{Launch, Running, output_of};
use crate::spec::{Machine, Program, Target};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a server has to start.
const START_MAX: Duration = Duration::from_secs(15);
/// Connections that nginx, lighttpd and h2o are set up for.
const CONNECTIONS_MAX: u32 = 8_192;

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Server {
    /// Its processes.
    pub(crate) running: Running,
    /// `http://HOST:PORT`.
    pub(crate) url: String,
}

/// What a server is to serve, and where its own files may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The directory that is served.
    pub(crate) root: &'a Path,
    /// Its own files.
    pub(crate) scratch: &'a Path,
    /// The regatta program.
    pub(crate) regatta: &'a Path,
    /// Where it runs.
    pub(crate) machine: &'a Machine,
    /// The environment it runs in, if not the machine's own.
    pub(crate) inside: Option<&'a Environment>,
}

/// The program's file.
pub(crate) fn binary(target: &Target, regatta: &Path) -> PathBuf {
    let usual = || match &target.program {
        Program::Regatta | Program::Null => regatta.to_owned(),
        Program::Nginx => "nginx".into(),
        Program::Lighttpd => "lighttpd".into(),
        Program::H2o => "h2o".into(),
        Program::Command(words) => words.first().map(PathBuf::from).unwrap_or_default(),
    };
    target.binary.as_ref().map_or_else(usual, PathBuf::from)
}

/// The program's own word for its version; None if it cannot be run.
pub(crate) fn version(target: &Target, regatta: &Path) -> Option<String> {
    let flag = match target.program {
        Program::Regatta | Program::Null => "--version",
        Program::Nginx | Program::Lighttpd | Program::H2o => "-v",
        Program::Command(_) => return Some("a command".to_owned()),
    };
    let said = output_of(&[binary(target, regatta).to_str()?, flag])?;
    said.lines().next().map(|line| line.trim().to_owned())
}

/// Starts `target` with further options, and waits until it takes connections.
///
/// # Errors
/// Why it does not serve, in one sentence.
pub(crate) fn start(
    target: &Target,
    more: &BTreeMap<String, String>,
    place: &Place<'_>,
    stop: &AtomicBool,
) -> Result<Server, String> {
    let port = free_port()?;
    let words = words(target, more, place, port)?;
    let (out, errors) = (place.scratch.join("server.out"), place.scratch.join("server.err"));
    let launch = Launch {
        words,
        cpus: &place.machine.server_cpus,
        realtime: place.machine.realtime,
        inside: place.inside,
        as_nobody: matches!(target.program, Program::Lighttpd | Program::H2o),
        out: &out,
        errors: &errors,
    };
    let mut running = Running::start(&launch)?;
    let start = Instant::now();
    // Regatta listens before it forks; the others are asked until they answer.
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if stop.load(Ordering::Relaxed) {
            return Err(INTERRUPTED.to_owned());
        }
        if running.has_ended() || start.elapsed() > START_MAX {
            let said = fs::read_to_string(&errors).unwrap_or_default();
            let said = said.lines().last().unwrap_or("it said nothing").to_owned();
            return Err(format!("{} does not serve: {said}", target.name));
        }
        std::thread::sleep(STEP);
    }
    Ok(Server { running, url: format!("http://127.0.0.1:{port}") })
}

/// A port that nobody listens on now. Another program may take it before ours does; the trial is
/// then invalid and made again.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

fn words(
    target: &Target,
    more: &BTreeMap<String, String>,
    place: &Place<'_>,
    port: u16,
) -> Result<Vec<OsString>, String> {
    let program = binary(target, place.regatta).into_os_string();
    let address = format!("127.0.0.1:{port}");
    let mut words = vec![program];
    let mut configuration = |text: String, words_of: &dyn Fn(&Path) -> Vec<OsString>| {
        let path = place.scratch.join("server.conf");
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        words.extend(words_of(&path));
        Ok::<(), String>(())
    };
    let os = |word: &str| OsString::from(word);
    match &target.program {
        Program::Regatta => {
            words.extend([os("serve"), place.root.into(), os("--listen"), address.into()]);
            let mut config = target.config.clone();
            config.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
            let sets = config
                .iter()
                .flat_map(|(key, value)| [os("--set"), OsString::from(format!("{key}={value}"))]);
            words.extend(sets);
        }
        Program::Null => words.extend([os("null"), os("--listen"), address.into()]),
        Program::Nginx => configuration(nginx(place, &address), &|path| {
            vec![os("-p"), place.scratch.into(), os("-c"), path.into(), os("-e"), os("stderr")]
        })?,
        Program::Lighttpd => {
            configuration(lighttpd(place, port), &|path| vec![os("-D"), os("-f"), path.into()])?
        }
        Program::H2o => configuration(h2o(place, port), &|path| vec![os("-c"), path.into()])?,
        Program::Command(given) => {
            let root = place.root.to_string_lossy().into_owned();
            let fill = |word: &String| {
                OsString::from(word.replace("{port}", &port.to_string()).replace("{root}", &root))
            };
            words.extend(given.iter().skip(1).map(fill));
        }
    }
    Ok(words)
}

/// nginx: `sendfile` with `tcp_nopush`, open files cached, no log, connections never closed.
fn nginx(place: &Place<'_>, address: &str) -> String {
    let (root, workers) = (place.root.display(), place.machine.server_cpus.len().max(1));
    let files = CONNECTIONS_MAX * 2;
    format!(
        "daemon off;
user nobody nogroup;
worker_processes {workers};
worker_rlimit_nofile {files};
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

/// lighttpd: one process, `sendfile`, no modules but the static file part, no log.
fn lighttpd(place: &Place<'_>, port: u16) -> String {
    let (root, files) = (place.root.display(), CONNECTIONS_MAX * 2);
    format!(
        "server.bind = \"127.0.0.1\"
server.port = {port}
server.document-root = \"{root}\"
server.modules = ()
server.event-handler = \"linux-sysepoll\"
server.network-backend = \"sendfile\"
server.max-worker = 0
server.max-connections = {CONNECTIONS_MAX}
server.max-fds = {files}
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = 60
mimetype.assign = ( \".html\" => \"text/html\", \"\" => \"application/octet-stream\" )
"
    )
}

/// h2o: a thread for each processor, its own file cache as it comes, no log.
fn h2o(place: &Place<'_>, port: u16) -> String {
    let (root, threads) = (place.root.display(), place.machine.server_cpus.len().max(1));
    format!(
        "num-threads: {threads}
max-connections: {CONNECTIONS_MAX}
listen:
  host: 127.0.0.1
  port: {port}
hosts:
  default:
    paths:
      /:
        file.dir: {root}
"
    )
}
