//! Servers of other projects: the place of each, its configuration, and its version. The lab starts
//! them from here, and its own programs.

pub(crate) mod own;
#[cfg(test)]
mod tests;

pub use own::{NoServer, OwnPrograms};

use crate::units::At;
use crate::units::filled;
use regatta_load::named;
use serde_json::json;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Connections that each is set up for.
pub const CONNECTIONS_MAX: usize = 8_192;
/// Open files that a server may need: a connection and a file each.
const FILES_MAX: usize = CONNECTIONS_MAX * 2;
/// Threads of each of Apache's processes.
const APACHE_THREADS: usize = 128;
/// Connections of Apache's worker module, each with a thread whether it is open or not: as many as
/// the replicas allow the others need at saturation. More wait in the queue.
const WORKER_CONNECTIONS: usize = 2_048;
/// Threads of each of [A]'s servers, its Apache too.
const POOL_THREADS: usize = 64;
/// Directory of Apache's modules on Debian.
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";
/// nginx's module that sends siblings in Brotli, where Debian puts it. Without it they are sent in
/// gzip.
const NGINX_BROTLI: &str = "/usr/lib/nginx/modules/ngx_http_brotli_static_module.so";
/// The least version of h2load, whose options and log are known.
const H2LOAD_MIN: (u32, u32) = (1, 43);

named! {
    /// A server that the lab has a template for.
    pub enum Other {
        /// nginx: a process for each processor.
        Nginx = "nginx",
        /// nginx with a pool of threads that read files.
        NginxAio = "nginx-aio",
        /// lighttpd: one process.
        Lighttpd = "lighttpd",
        /// h2o: a thread for each processor.
        H2o = "h2o",
        /// Apache httpd with its event module: a process with threads for each processor.
        Apache = "apache",
        /// Apache httpd with its worker module: a thread for each connection, as [S] §7 used it.
        ApacheWorker = "apache-worker",
        /// The same with as many threads as [A]'s servers, §3: one process of 64.
        ApachePool = "apache-pool",
        /// Caddy: goroutines on a thread for each processor.
        Caddy = "caddy",
    }
}

/// Directory that a server serves, and its address.
#[derive(Clone, Copy, Debug)]
pub struct Serving<'a> {
    pub address: SocketAddr,
    pub root: &'a Path,
    /// Directory for its configuration and its own files.
    pub scratch: &'a Path,
    /// Processors that it is to use; at least 1.
    pub workers: usize,
    /// Encrypted service of the same directory, by nginx and h2o.
    pub tls: Option<ServingTls<'a>>,
    /// HTTP/2 of the same directory, by nginx and h2o.
    pub http2: Option<ServingHttp2>,
    /// Whether clients receive precompressed siblings, from nginx and h2o.
    pub codings: bool,
}

/// Service by HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingHttp2 {
    /// With TLS, at its address.
    Encrypted,
    /// In the clear, with prior knowledge. nginx speaks nothing else there.
    Clear(SocketAddr),
}

/// Service by TLS 1.3 alone.
#[derive(Clone, Copy, Debug)]
pub struct ServingTls<'a> {
    /// Address that speaks TLS.
    pub address: SocketAddr,
    /// A certificate and its key, in one PEM file.
    pub certificate: &'a Path,
    /// Whether clients receive session tickets.
    pub tickets: bool,
}

impl Other {
    pub fn program(self) -> &'static str {
        match self {
            Self::NginxAio => "nginx",
            Self::Apache | Self::ApacheWorker | Self::ApachePool => "apache2",
            other => other.name(),
        }
    }

    /// The Debian package that has the program, and as little else as possible.
    pub fn package(self) -> &'static str {
        match self {
            Self::Nginx | Self::NginxAio => "nginx-light",
            Self::Apache | Self::ApacheWorker | Self::ApachePool => "apache2-bin",
            other => other.name(),
        }
    }

    /// Whether it must be started without privileges, as it does not drop root's itself.
    pub fn as_nobody(self) -> bool {
        matches!(self, Self::Lighttpd | Self::H2o | Self::Caddy)
    }

    /// The program's own word for its version; None if it cannot be run.
    pub fn version(self, program: &Path) -> Option<String> {
        let ask = if self == Self::Caddy { "version" } else { "-v" };
        let output = Command::new(program).arg(ask).stdin(Stdio::null()).output().ok()?;
        // nginx says it on standard error.
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let line = said.lines().next()?.trim();
        let named = if self == Self::Caddy { format!("caddy {line}") } else { line.to_owned() };
        output.status.success().then_some(named)
    }

    /// Configuration that its own manual calls the fastest for static files: connections that stay
    /// open, `sendfile`, no log, no compression, and as many workers as it has processors.
    pub fn configuration(self, serving: &Serving<'_>) -> Result<String, String> {
        let template = match self {
            Self::Nginx | Self::NginxAio => include_str!("../../assets/programs/nginx.conf"),
            Self::Lighttpd => include_str!("../../assets/programs/lighttpd.conf"),
            Self::H2o => include_str!("../../assets/programs/h2o.conf"),
            Self::Apache | Self::ApacheWorker | Self::ApachePool => {
                include_str!("../../assets/programs/apache.conf")
            }
            Self::Caddy => include_str!("../../assets/programs/caddy.conf"),
        };
        let workers = serving.workers.max(1);
        // Numbers for Apache. The worker module has all threads from the start, however many
        // processors there are; with those of [A]'s servers, further clients wait.
        let (module, processes, each) = match self {
            Self::ApacheWorker => ("worker", WORKER_CONNECTIONS / APACHE_THREADS, APACHE_THREADS),
            Self::ApachePool => ("worker", 1, POOL_THREADS),
            _ => ("event", workers, APACHE_THREADS),
        };
        let tls = serving.tls.map(|tls| {
            json!({ "address": tls.address, "host": tls.address.ip(), "port": tls.address.port(),
                "certificate": tls.certificate.display().to_string(), "tickets": tls.tickets })
        });
        let brotli = Some(NGINX_BROTLI).filter(|module| Path::new(module).is_file());
        let clear_http2 = match serving.http2 {
            Some(ServingHttp2::Clear(address)) => Some(address),
            Some(ServingHttp2::Encrypted) | None => None,
        };
        let values = json!({ "address": serving.address, "host": serving.address.ip(),
            "port": serving.address.port(), "root": serving.root.display().to_string(),
            "scratch": serving.scratch.display().to_string(), "workers": workers,
            "connections_max": CONNECTIONS_MAX, "files_max": FILES_MAX, "module": module,
            "processes": processes, "each": each, "modules": APACHE_MODULES, "tls": tls,
            "http2": serving.http2 == Some(ServingHttp2::Encrypted), "clear_http2": clear_http2,
            "codings": serving.codings, "brotli": brotli, "aio": self == Self::NginxAio });
        filled(&format!("{}.conf", self.name()), template, &values)
    }

    /// Writes its configuration into `serving.scratch` and gives the whole command that starts it
    /// there, in the foreground.
    pub fn command(self, program: &Path, serving: &Serving<'_>) -> Result<Vec<OsString>, String> {
        let path = serving.scratch.join(format!("{}.conf", self.name()));
        fs::write(&path, self.configuration(serving)?).at(&path)?;
        let (scratch, path) = (serving.scratch.as_os_str(), path.into_os_string());
        let mut words: Vec<OsString> = Vec::new();
        if self == Self::Caddy {
            // Go takes a thread for each processor that it may use; where it is bound to none, it
            // is to have no more than the others. It looks for its own files in the home.
            let threads = format!("GOMAXPROCS={}", serving.workers.max(1));
            let mut home = OsString::from("HOME=");
            home.push(scratch);
            words.extend(["env".into(), threads.into(), home]);
        }
        words.push(program.into());
        match self {
            Self::Nginx | Self::NginxAio => {
                words.extend(["-p".into(), scratch.into(), "-c".into(), path]);
                words.extend(["-e", "stderr"].map(OsString::from));
            }
            Self::Lighttpd => words.extend(["-D".into(), "-f".into(), path]),
            Self::H2o => words.extend(["-c".into(), path]),
            Self::Apache | Self::ApacheWorker | Self::ApachePool => {
                words.extend(["-D".into(), "FOREGROUND".into(), "-f".into(), path]);
            }
            Self::Caddy => {
                words.extend(["run".into(), "--config".into(), path]);
                words.extend(["--adapter", "caddyfile"].map(OsString::from));
            }
        }
        Ok(words)
    }

    pub fn needs(self) -> String {
        format!("needs {} (apt-get install {})", self.program(), self.package())
    }
}

/// The path of a program, looked for where a shell would and in the system's own folders, which
/// only root's shell looks into.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = env::split_paths(&path).chain(usual);
    folders.find_map(|folder| Some(folder.join(name)).filter(|candidate| candidate.is_file()))
}

pub(crate) fn wrk() -> Result<PathBuf, String> {
    load_program("wrk", "wrk")
}

/// h2load, which can be a load's program, if its version is known.
pub(crate) fn h2load() -> Result<PathBuf, String> {
    let program = load_program("h2load", "nghttp2-client")?;
    let said = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("{}: {error}", program.display()))?;
    check_h2load(&String::from_utf8_lossy(&said.stdout))?;
    Ok(program)
}

fn load_program(name: &str, package: &str) -> Result<PathBuf, String> {
    let missing = || format!("workload.client = {name:?} needs {name} (apt-get install {package})");
    find(name).ok_or_else(missing)
}

/// Whether h2load says that its version is known, as in `h2load nghttp2/1.52.0`.
fn check_h2load(said: &str) -> Result<(), String> {
    let version = said.trim().rsplit('/').next().unwrap_or_default();
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    let found = numbers.next().zip(numbers.next());
    if found.is_some_and(|found| found >= H2LOAD_MIN) {
        return Ok(());
    }
    let (major, minor) = H2LOAD_MIN;
    Err(format!(
        "h2load has version {version:?}: workload.client = \"h2load\" needs {major}.{minor} or \
         later"
    ))
}
