//! `cargo xtask memory`: memory of a connection, a process and a cache entry in each architecture,
//! by regression, compared with the formulas of [S] §8 (systems.md §2.4, S-12). See docs/memory.md.

use crate::command::build_release;
use crate::interrupt;
use crate::served::{PATIENCE, TaskServer, open_files, pss};
use crate::task_error::TaskError;
use clap::Args;
use regatta_lab_core::group::Group;
use regatta_testkit::{
    certificates::Authority,
    folder::Folder,
    tls::{TlsClient, TlsOffer},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Architectures to measure; without any, all of them.
    #[arg(value_name = "ARCHITECTURE", value_parser = ARCHITECTURES.map(|(name, ..)| name))]
    architectures: Vec<String>,
    /// Measure this binary instead of building one.
    #[arg(long, value_name = "BINARY")]
    regatta: Option<PathBuf>,
}

/// Architectures whose memory differs, and the formulas of [S] for three of them.
const ARCHITECTURES: [(&str, &str, &[usize]); 7] = [
    ("symped", "810 c + p (7667536 + s)", &PROCESSES),
    ("shared-symped", "806 c + p (216100 + 8 c + 20 p + s) + 8404368 N", &PROCESSES),
    ("amped", "-", &PROCESSES),
    ("laio", "-", &PROCESSES),
    // Each connection has a thread.
    ("mt", "-", &[1]),
    // Or a user thread.
    ("knot-c", "-", &[1]),
    (PIPELINE, "934 c + 9798888 N + p s", &WRITERS),
];
/// A pipeline is one process, and p is the number of its sending threads.
const PIPELINE: &str = "watpipe5";
const WRITERS: [usize; 4] = [1, 50, 100, 200];
/// Architectures whose encrypted connections differ: in events, threads and user threads.
const OVER_TLS: [&str; 3] = ["symped", "mt", "knot-c"];
/// Name in the certificate.
const NAME: &str = "localhost";

const PROCESSES: [usize; 4] = [1, 2, 4, 8];
const CONNECTIONS: [usize; 4] = [0, 1000, 2000, 4000];
const ENTRIES: [usize; 4] = [0, 1000, 2000, 4000];
/// Connections that ask for files, per process: the kernel spreads them.
const ASKERS_PER_PROCESS: usize = 8;
/// Time for memory to settle after the last request.
const SETTLE: Duration = Duration::from_millis(300);
/// Descriptors that we need besides those of connections.
const DESCRIPTORS_MORE: u64 = 256;

/// Measures; false if a server misbehaved.
pub(crate) fn run(options: Options) -> Result<bool, TaskError> {
    let Options { architectures: names, regatta: binary } = options;
    let most = (CONNECTIONS[CONNECTIONS.len() - 1]) as u64 + DESCRIPTORS_MORE;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current.is_some_and(|now| now < most) && setrlimit(Resource::Nofile, raised).is_err() {
        return Err(TaskError::Descriptors(most));
    }
    let stop = interrupt()?;
    let (site, certificate) = (Site::make()?, Certificate::make());
    let binary = binary.map_or_else(|| build_release("regatta"), Ok)?;
    let rig = Rig { binary, site, certificate, stop };
    println!("{:<14}{:>10}{:>12}{:>12}{:>14}", "bytes", "one", "process", "entry", "connection");
    for (name, paper, processes) in ARCHITECTURES {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            rig.architecture(name, paper, processes)?;
        }
    }
    Ok(true)
}

/// Files of one kibibyte, named from `0` on, as many as the most entries. Removed with this value.
struct Site(PathBuf);

impl Site {
    fn make() -> Result<Self, TaskError> {
        use std::os::unix::fs::PermissionsExt;
        let root = std::env::temp_dir().join(format!("regatta-memory-{}", std::process::id()));
        let fault = TaskError::attempting("fill", root.display());
        std::fs::create_dir(&root).map_err(&fault)?;
        let site = Self(root.clone());
        for name in 0..ENTRIES[ENTRIES.len() - 1] {
            std::fs::write(root.join(name.to_string()), [b'x'; 1024]).map_err(&fault)?;
        }
        // Workers may run as another user.
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&root, all).map_err(&fault)?;
        Ok(site)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Certificate of the servers, and the client that trusts it.
struct Certificate {
    /// Directory of its files.
    _folder: Folder,
    /// Value of `tls.certificate`.
    option: String,
    /// Clients that speak HTTP/1.1 and HTTP/2.
    clients: [TlsClient; 2],
}

impl Certificate {
    fn make() -> Self {
        let (folder, authority) = (Folder::new("memory"), Authority::new());
        let option = authority.issue(&[NAME]).write(&folder, "");
        let clients = [["http/1.1"], ["h2"]].map(|protocols| {
            TlsClient::new(&authority, TlsOffer { protocols: &protocols, ..TlsOffer::default() })
        });
        Self { _folder: folder, option, clients }
    }
}

/// Connection of a client, in the clear or encrypted.
trait Duplex: Read + Write {}

impl<T: Read + Write> Duplex for T {}

/// Address of a server, with the client if it speaks TLS there.
struct Service<'a> {
    address: SocketAddr,
    tls: Option<&'a TlsClient>,
    /// Whether it is asked over HTTP/2.
    http2: bool,
}

impl Service<'_> {
    fn connect(&self) -> std::io::Result<Box<dyn Duplex>> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let stream: Box<dyn Duplex> = match self.tls {
            Some(client) => Box::new(client.connect(stream, NAME)),
            None => Box::new(stream),
        };
        Ok(stream)
    }
}

struct Rig {
    binary: PathBuf,
    site: Site,
    certificate: Certificate,
    stop: Arc<AtomicBool>,
}

/// State that a server is brought into.
#[derive(Clone, Copy)]
struct Load {
    processes: usize,
    connections: usize,
    entries: usize,
    /// Whether connections are encrypted.
    tls: bool,
    /// Whether they speak HTTP/2.
    http2: bool,
}

impl Rig {
    /// Prints the lines of one architecture.
    fn architecture(
        &self,
        name: &str,
        paper: &str,
        numbers: &'static [usize],
    ) -> Result<(), TaskError> {
        let empty = Load { processes: 1, connections: 0, entries: 0, tls: false, http2: false };
        let ends = match numbers {
            [one] => {
                println!("{name:<14}{:>10}", self.memory(name, empty)?);
                vec![*one]
            }
            _ => {
                let line = self.fit(name, numbers, |processes| Load { processes, ..empty })?;
                let (first, more) = (line.at(1.0), line.slope);
                println!("{name:<14}{first:>10.0}{more:>12.0}{:>26}   r² {:.4}", "", line.r2);
                vec![1, numbers[numbers.len() - 1]]
            }
        };
        for processes in ends {
            let empty = Load { processes, ..empty };
            let entries = self.fit(name, &ENTRIES, |entries| Load { entries, ..empty })?;
            let connections =
                self.fit(name, &CONNECTIONS, |connections| Load { connections, ..empty })?;
            println!(
                "{:<36}{:>12.0}{:>14.0}   r² {:.4}, {:.4}",
                format!("    with p = {processes}"),
                entries.slope,
                connections.slope,
                entries.r2,
                connections.r2
            );
        }
        if OVER_TLS.contains(&name) {
            for (http2, protocol) in [(false, "TLS"), (true, "TLS and HTTP/2")] {
                let encrypted = |connections| Load { connections, tls: true, http2, ..empty };
                let line = self.fit(name, &CONNECTIONS, encrypted)?;
                let head = format!("    over {protocol}, with p = 1");
                println!("{head:<36}{:>26.0}   r² {:.4}", line.slope, line.r2);
            }
        }
        println!("    [S] §8: {paper}");
        Ok(())
    }

    /// Fits a line through the memory under several loads.
    fn fit(
        &self,
        name: &str,
        numbers: &[usize],
        load: impl Fn(usize) -> Load,
    ) -> Result<Line, TaskError> {
        let point = |number: &usize| Ok((*number as f64, self.memory(name, load(*number))? as f64));
        let points: Vec<_> = numbers.iter().map(point).collect::<Result<_, TaskError>>()?;
        Ok(Line::fit_points(&points))
    }

    /// Bytes of a fresh server under this load.
    fn memory(&self, name: &str, load: Load) -> Result<u64, TaskError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(TaskError::Interrupted);
        }
        let (mut server, service) = self.start(name, load)?;
        let fault = TaskError::attempting("measure", name);
        let asked = |connections: usize| -> std::io::Result<Vec<Box<dyn Duplex>>> {
            (0..connections).map(|_| ask_for(&service, 0..1)).collect()
        };
        // Every process has served once, so that all have the memory that serving takes.
        drop(asked(load.processes * ASKERS_PER_PROCESS).map_err(&fault)?);
        let held = asked(load.connections).map_err(&fault)?;
        if load.entries > 0 {
            self.fill(name, &server, &service, load)?;
        }
        std::thread::sleep(SETTLE);
        if server.has_ended() {
            return Err(TaskError::Ended(name.to_owned()));
        }
        let bytes = server.pids().into_iter().map(pss).sum::<Result<u64, TaskError>>()?;
        drop(held);
        Ok(bytes)
    }

    fn start(&self, name: &str, load: Load) -> Result<(Group, Service<'_>), TaskError> {
        let Load { processes, tls, http2, .. } = load;
        let sized = match name {
            PIPELINE => [format!("watpipe.writers={processes}"), "watpipe.readers=1".to_owned()],
            // The kernel gives each process its share of the connections.
            _ => [format!("event.processes={processes}"), "event.listen=reuseport".to_owned()],
        };
        let mut settings = Vec::from(sized);
        // As in the papers: descriptors and heads, no bodies; nothing is revalidated.
        let fixed = [
            "cache.body_bytes_max=0",
            "cache.revalidate_ms=600000",
            "cache.inactive_ms=600000",
            "limits.idle_ms_max=600000",
        ];
        settings.extend(fixed.map(str::to_owned));
        let entries_max = ENTRIES[ENTRIES.len() - 1];
        settings.push(format!("cache.entries_max={}", 2 * entries_max));
        settings.push(format!("cache.descriptors_max={}", entries_max + 8));
        let encryption = tls.then_some(&self.certificate);
        let certificate = encryption.map(|encryption| &*encryption.option);
        let (binary, root) = (&*self.binary, &*self.site.0);
        let server = TaskServer { binary, root, architecture: name, certificate, ports: 1 };
        let (server, address) = server.start(&settings)?;
        let tls = encryption.map(|encryption| &encryption.clients[usize::from(http2)]);
        Ok((server, Service { address, tls, http2 }))
    }

    /// Asks for files until every serving process has them all open.
    fn fill(
        &self,
        name: &str,
        server: &Group,
        service: &Service<'_>,
        load: Load,
    ) -> Result<(), TaskError> {
        let start = Instant::now();
        let caches = if name == PIPELINE { 1 } else { load.processes };
        loop {
            for _ in 0..caches {
                let asked = ask_for(service, 0..load.entries);
                asked.map_err(TaskError::attempting("measure", name))?;
            }
            // The master, which comes first, has only the files that all share.
            let full = |pid: &u32| open_files(*pid) >= load.entries;
            if server.pids().iter().skip(1).filter(|pid| full(pid)).count() >= caches {
                return Ok(());
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(TaskError::Interrupted);
            }
            if start.elapsed() > PATIENCE {
                return Err(TaskError::NotFull(name.to_owned()));
            }
        }
    }
}

/// Connects, and asks for these files until all are answered.
fn ask_for(
    service: &Service<'_>,
    files: std::ops::Range<usize>,
) -> std::io::Result<Box<dyn Duplex>> {
    let mut stream = service.connect()?;
    if service.http2 {
        stream.write_all(PREFACE)?;
        for (id, file) in (1..).step_by(2).zip(files) {
            ask_by_http2(&mut *stream, id, file)?;
        }
        return Ok(stream);
    }
    let mut bytes = [0; 4096];
    for file in files {
        stream.write_all(format!("GET /{file} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())?;
        let mut answer = Vec::new();
        loop {
            let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
            if end.is_some_and(|end| answer.len() >= end + 4 + 1024) {
                break;
            }
            match stream.read(&mut bytes)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                n => answer.extend_from_slice(&bytes[..n]),
            }
        }
        if !answer.starts_with(b"HTTP/1.1 200") {
            return Err(std::io::Error::other(format!("file {file} is refused")));
        }
    }
    Ok(stream)
}

/// Beginning of a connection over HTTP/2: the client's preface, and SETTINGS without any.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Confirmation of the server's SETTINGS.
const SETTINGS_ACK: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";

/// Asks for a file on a new stream, and reads until its response has ended.
fn ask_by_http2(stream: &mut dyn Duplex, id: u32, file: usize) -> std::io::Result<()> {
    use std::io::Error;
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    const END_STREAM: u8 = 1;
    let path = format!("/{file}");
    let bytes = u8::try_from(path.len()).map_err(Error::other)?;
    // GET and https are in the static table; the authority and the path are literals.
    let block = [&[0x82, 0x87, 0x01, 1, b'a', 0x04, bytes][..], path.as_bytes()].concat();
    let length = u8::try_from(block.len()).map_err(Error::other)?;
    let head = [&[0, 0, length, HEADERS, 0x4 | END_STREAM][..], &id.to_be_bytes()].concat();
    stream.write_all(&[head, block].concat())?;
    let mut received = 0;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [high, middle, low, kind, flags, of @ ..] = head;
        let mut content = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        stream.read_exact(&mut content)?;
        match kind {
            SETTINGS if flags == 0 => stream.write_all(SETTINGS_ACK)?,
            RST_STREAM | GOAWAY => return Err(Error::other(format!("file {file} is refused"))),
            DATA => received += content.len(),
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && of == id.to_be_bytes() && flags & END_STREAM > 0 {
            break;
        }
    }
    if received == 1024 { Ok(()) } else { Err(Error::other(format!("file {file} is refused"))) }
}

/// A line, and the share of the points' variance that it explains.
struct Line {
    slope: f64,
    start: f64,
    r2: f64,
}

impl Line {
    /// Line of least squares.
    fn fit_points(points: &[(f64, f64)]) -> Self {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            points.iter().map(|point| of(point.0 - x, point.1 - y)).sum()
        };
        let (xx, xy, yy) = (sum(&|dx, _| dx * dx), sum(&|dx, dy| dx * dy), sum(&|_, dy| dy * dy));
        let slope = xy / xx;
        let r2 = if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 };
        Self { slope, start: y - slope * x, r2 }
    }

    fn at(&self, x: f64) -> f64 {
        self.start + self.slope * x
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn a_line_is_found() {
        let line = Line::fit_points(&[(0.0, 5.0), (1.0, 8.0), (4.0, 17.0)]);
        assert!((line.slope - 3.0).abs() < 1e-9 && (line.at(2.0) - 11.0).abs() < 1e-9);
        assert!((line.r2 - 1.0).abs() < 1e-9);
        let line = Line::fit_points(&[(0.0, 0.0), (1.0, 1.0), (2.0, 0.0)]);
        assert!(line.slope.abs() < 1e-9 && line.r2 < 1e-9);
    }
}
