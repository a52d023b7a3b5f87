//! The servers that are compared, each as its own manual says it is fastest and with one worker.

use super::process::{Launch, Scratch};
use crate::command::{output_of, require};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A body of at least this many bytes is sent by the bare loop with `sendfile`.
const SENDFILE_BYTES_MIN: usize = 64 * 1024;
const CONNECTIONS_MAX: u64 = 4096;

/// A server under one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The name in the table.
    pub(crate) name: String,
    kind: Kind,
    program: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Our server under an architecture, with further `--set` words.
    Regatta(String, Vec<String>),
    /// Our bare loop.
    Null,
    /// With or without `sendfile`.
    Nginx(Sendfile),
    Lighttpd,
    H2o,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sendfile {
    On,
    Off,
}

/// Our own binaries.
#[derive(Debug, Clone)]
pub(crate) struct Ours {
    /// The one that is measured; None if it could not be built.
    pub(crate) regatta: Option<PathBuf>,
    /// One to compare it with.
    pub(crate) before: Option<PathBuf>,
    /// `key=value` for every Regatta.
    pub(crate) set: Vec<String>,
}

/// The names that `--targets` takes.
pub(crate) const NAMES: &str =
    "regatta regatta-again regatta/ARCHITECTURE regatta-before null nginx nginx-copy lighttpd h2o";

impl Target {
    /// Finds what a name stands for and, where possible, installs what it needs.
    ///
    /// # Errors
    /// One phrase that says why this target cannot be measured here.
    pub(crate) fn find(name: &str, ours: &Ours) -> Result<Self, String> {
        let regatta = || ours.regatta.clone().ok_or("needs the regatta binary".to_owned());
        let sped = || Kind::Regatta("sped".to_owned(), ours.set.clone());
        let (kind, program) = match name {
            "regatta" | "regatta-again" => (sped(), regatta()?),
            "regatta-before" => {
                (sped(), ours.before.clone().ok_or("needs --before BINARY".to_owned())?)
            }
            "null" => {
                let program = regatta()?;
                let mut asked = Command::new(&program);
                if output_of(asked.args(["null", "--help"])).is_none() {
                    return Err("this regatta has no `null`".to_owned());
                }
                (Kind::Null, program)
            }
            "nginx" => (Kind::Nginx(Sendfile::On), require("nginx", "nginx-light")?),
            "nginx-copy" => (Kind::Nginx(Sendfile::Off), require("nginx", "nginx-light")?),
            "lighttpd" => (Kind::Lighttpd, require("lighttpd", "lighttpd")?),
            "h2o" => (Kind::H2o, require("h2o", "h2o")?),
            other => match other.strip_prefix("regatta/") {
                Some(name) => (Kind::Regatta(name.to_owned(), ours.set.clone()), regatta()?),
                None => return Err(format!("no such target; there are: {NAMES}")),
            },
        };
        Ok(Self { name: name.to_owned(), kind, program })
    }

    /// The program's own word for its version.
    pub(crate) fn version(&self) -> String {
        let mut command = Command::new(&self.program);
        match self.kind {
            Kind::Regatta(..) | Kind::Null => command.arg("--version"),
            Kind::Nginx(_) | Kind::Lighttpd | Kind::H2o => command.arg("-v"),
        };
        // nginx says it on standard error.
        let said = command.output().map(|output| [output.stdout, output.stderr].concat());
        let said = said.unwrap_or_default();
        String::from_utf8_lossy(&said).lines().next().unwrap_or("unknown").trim().to_owned()
    }

    /// What it must answer with instead of the file of `bytes` bytes, if it has bytes of its own.
    pub(crate) fn own_body(&self, bytes: usize) -> Option<Vec<u8>> {
        (self.kind == Kind::Null && bytes < SENDFILE_BYTES_MIN).then(|| vec![b'x'; bytes])
    }

    /// How to start it at `place`. Its own files go into `scratch`, what it says into `errors`.
    ///
    /// # Errors
    /// If its configuration cannot be written.
    pub(crate) fn launch<'a>(
        &self,
        place: &Place<'_>,
        scratch: &Scratch,
        errors: &'a Path,
    ) -> Result<Launch<'a>, String> {
        let mut command = Command::new(&self.program);
        let configuration = scratch.path().join(format!("{}.conf", self.name.replace('/', "-")));
        let text = match &self.kind {
            Kind::Regatta(architecture, set) => {
                command.arg("serve").arg(place.root);
                command.args(["--listen", &place.address.to_string()]);
                command.args(["--architecture", architecture]);
                command.args(set.iter().flat_map(|pair| ["--set", pair]));
                None
            }
            Kind::Null => {
                command.args(["null", "--listen", &place.address.to_string()]);
                command.args(null_words(place));
                None
            }
            Kind::Nginx(sendfile) => {
                command.arg("-p").arg(scratch.path()).arg("-c").arg(&configuration);
                command.args(["-e", "stderr"]);
                Some(nginx(place, *sendfile))
            }
            Kind::Lighttpd => {
                command.arg("-D").arg("-f").arg(&configuration);
                Some(lighttpd(place))
            }
            Kind::H2o => {
                command.arg("-c").arg(&configuration);
                Some(h2o(place))
            }
        };
        if let Some(text) = text {
            std::fs::write(&configuration, text)
                .map_err(|error| format!("{}: {error}", configuration.display()))?;
        }
        let as_nobody = matches!(self.kind, Kind::Lighttpd | Kind::H2o);
        Ok(Launch { command, cpu: place.cpu, errors: Some(errors), as_nobody })
    }
}

/// Where a server is to serve what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The folder that it serves.
    pub(crate) root: &'a Path,
    /// The file below it that will be asked for.
    pub(crate) file: &'a str,
    /// The file's length in bytes.
    pub(crate) bytes: usize,
    /// The CPU that it may use.
    pub(crate) cpu: Option<usize>,
}

/// The bare loop answers every request alike: with bytes from memory, or with the file.
fn null_words(place: &Place<'_>) -> Vec<std::ffi::OsString> {
    if place.bytes >= SENDFILE_BYTES_MIN {
        vec!["--file".into(), place.root.join(place.file).into()]
    } else {
        vec!["--body".into(), place.bytes.to_string().into()]
    }
}

/// nginx: `sendfile` with `tcp_nopush`, open files cached, no log, connections never closed.
fn nginx(place: &Place<'_>, sendfile: Sendfile) -> String {
    // `tcp_nopush` only has a meaning with `sendfile`.
    let sendfile = match sendfile {
        Sendfile::On => "sendfile on;\n  tcp_nopush on;",
        Sendfile::Off => "sendfile off;",
    };
    let (address, root) = (place.address, place.root.display());
    format!(
        "daemon off;
user nobody nogroup;
worker_processes 1;
worker_rlimit_nofile {files};
pid nginx.pid;
error_log stderr warn;
events {{
  use epoll;
  multi_accept on;
  worker_connections {CONNECTIONS_MAX};
}}
http {{
  access_log off;
  server_tokens off;
  default_type application/octet-stream;
  types {{ text/html html; }}
  {sendfile}
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
  server {{
    listen {address} backlog=1024;
    root {root};
  }}
}}
",
        files = CONNECTIONS_MAX * 2
    )
}

/// lighttpd: one process, `sendfile`, no modules but the static file handler, no log. Its limit of
/// requests on a connection is a 16-bit number.
fn lighttpd(place: &Place<'_>) -> String {
    let (port, root) = (place.address.port(), place.root.display());
    format!(
        "server.bind = \"{host}\"
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
",
        host = place.address.ip(),
        files = CONNECTIONS_MAX * 2
    )
}

/// h2o: one thread, its own file cache as it comes, no log.
fn h2o(place: &Place<'_>) -> String {
    let (address, root) = (place.address, place.root.display());
    format!(
        "num-threads: 1
max-connections: {CONNECTIONS_MAX}
listen:
  host: {host}
  port: {port}
hosts:
  default:
    paths:
      /:
        file.dir: {root}
",
        host = address.ip(),
        port = address.port()
    )
}

#[cfg(test)]
mod tests {
    use super::{Ours, Target};

    #[test]
    fn unknown_targets_are_refused() {
        let ours = Ours { regatta: None, before: None, set: Vec::new() };
        assert!(Target::find("apache", &ours).is_err_and(|why| why.contains("regatta-again")));
        assert!(Target::find("regatta", &ours).is_err_and(|why| why.contains("needs")));
        assert!(Target::find("regatta-before", &ours).is_err_and(|why| why.contains("--before")));
    }
}
