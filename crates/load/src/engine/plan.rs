//! A load made ready: addresses resolved, expected contents at hand, every distinct request once as
//! the bytes that go out, and the sessions that name them.

use super::expect::{Expect, Local, Written};
use super::http2;
use super::options::{LoadOptions, Model, Taken, Verify, take_up};
use super::secure::TlsSetup;
use super::shard::Shard;
use super::url::{Destination, Url};
use crate::number::{id, nanos};
use crate::workload::content::Content;
use crate::workload::fault::Fault;
use crate::workload::files::{self, FileSet};
use crate::workload::manifest::{Way, Workload};
use crate::workload::session::{Reader, Request, Session};
use crate::workload::{alter, specweb};
use regatta_http::Method;
use regatta_sys::affinity;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Distinct sizes that are counted one by one.
const SIZES_MAX: usize = 1_024;
/// Clients that are counted one by one; further ones share.
const CLIENTS_MAX: u32 = 256;
/// Bytes of a local directory that are held for comparison: 4 GiB.
pub(super) const COPIES_BYTES_MAX: u64 = 4 << 30;
/// Sources that a load takes in 127.0.0.0/8 when it is not told: 64 times 28,000 ports.
const SOURCES_SPREAD: u32 = 64;
/// The most sources: 127.0.0.1 to 127.0.255.255.
const SOURCES_MAX: u32 = 65_535;

#[derive(Debug)]
pub struct Plan {
    /// Options, with the workload's settings where they were open.
    pub options: LoadOptions,
    pub taken: Option<Taken>,
    pub(super) altered: Option<alter::Target>,
    /// Clock of its versions; set before the first arrival.
    pub(super) written: Arc<OnceLock<Written>>,
    /// The server's addresses, to which connections go in turn; at least one.
    servers: Vec<Destination>,
    /// Settings of TLS; `None`: in the clear.
    pub(super) tls: Option<TlsSetup>,
    /// Streams of each connection that carry requests; 0: HTTP/1.1.
    pub(super) streams: u32,
    /// Addresses that connections come from, in turn; empty: the kernel's choice.
    sources: Vec<IpAddr>,
    pub(super) script: Script,
    /// Requests of the closed and open models, in order and again.
    pub(super) order: Vec<u32>,
    /// Distinct sizes, in order; 0 for those that are not known.
    pub(super) sizes: Vec<u64>,
    /// Clients that are told apart.
    pub(super) clients: u32,
    /// Part of the load that this is.
    pub(super) shard: Shard,
    /// Threads of this shard.
    pub(super) threads: u32,
    /// Threads of all shards, if each has as many.
    pub(super) workers: u32,
    pub(super) timeout_ns: u64,
    /// Requests have a `Range` field: 206 is a right answer.
    pub(super) asks_parts: bool,
    pub(super) think_timeout_ns: u64,
    pub(super) deadline_ns: u64,
    pub(super) stale_after_ns: u64,
    pub(super) drain_ns: u64,
}

impl Plan {
    /// Checks and reads everything that the options name.
    pub fn new(options: &LoadOptions) -> Result<Self, Vec<String>> {
        let problems = options.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        pins(&options.pin).map_err(|problem| vec![problem])?;
        Self::build(options).map_err(|problem| vec![problem])
    }

    fn build(options: &LoadOptions) -> Result<Self, String> {
        let url = Url::parse(&options.url)?;
        let servers = options.route.destinations(&url)?;
        let (host, _) = url.host_and_port();
        let streams = options.protocol.streams();
        let protocol: &[u8] = if streams > 0 { http2::PROTOCOL } else { b"http/1.1" };
        let tls = url.is_https.then(|| options.tls.set_up(host, &[protocol])).transpose()?;
        let mut options = options.clone();
        let mut maker = Maker::new(&url, &mut options)?;
        let mut order: Vec<u32> = if let Model::PartlyOpen { sessions, .. } = &options.model {
            maker.load(sessions)?;
            Vec::new()
        } else if options.requests_from.is_empty() {
            let targets = options.request.targets(&url)?;
            let made = targets.iter().map(|target| maker.target(Request::get(target)));
            made.collect::<Result<_, String>>()?
        } else {
            maker.load(&options.requests_from)?;
            maker.script.steps.iter().map(|step| step.target).collect()
        };
        options.request.arrange(&mut order, options.seed);
        let Maker { mut script, taken, altered, written, .. } = maker;
        if let Model::PartlyOpen { session_rate: None, .. } = options.model
            && script.sessions.iter().any(|part| part.at_us.is_none())
        {
            let what = "give --session-rate: the log does not say when its sessions start";
            return Err(what.to_owned());
        }
        let shard = options.shard.unwrap_or_default();
        let workers = options.workers();
        let clients = match options.model {
            Model::PartlyOpen { .. } => {
                script.sessions.iter().map(|part| part.client + 1).max().unwrap_or(1)
            }
            // Each connection, for fairness.
            Model::Closed { connections, .. } => connections.max(1),
            Model::Open { .. } => workers,
        };
        let clients = clients.min(CLIENTS_MAX);
        for part in &mut script.sessions {
            part.client %= clients;
        }
        let drain = options.timeout.unwrap_or(Duration::MAX).min(Duration::from_secs(5));
        Ok(Self {
            sources: sources(&options, &servers)?,
            servers,
            tls,
            streams,
            order,
            sizes: script.number_sizes(),
            clients,
            shard,
            threads: options.threads(),
            workers,
            timeout_ns: options.timeout.map_or(u64::MAX, nanos),
            asks_parts: has_field(&options, "range"),
            think_timeout_ns: nanos(options.think_timeout),
            deadline_ns: options.deadline.map_or(u64::MAX, nanos),
            stale_after_ns: nanos(options.stale_after),
            drain_ns: nanos(options.drain.unwrap_or(drain)),
            script,
            options,
            taken,
            // One shard rewrites the file; the others are like loads with --alter off.
            altered: altered.filter(|_| shard.index == 0),
            written,
        })
    }

    /// Address to which connection `number` goes.
    pub(super) fn server(&self, number: usize) -> &Destination {
        &self.servers[number % self.servers.len()]
    }

    /// Address from which connection `number` comes; `None`: the kernel's choice.
    pub(super) fn source(&self, number: usize) -> Option<IpAddr> {
        self.sources.get(number % self.sources.len().max(1)).copied()
    }

    /// Share of `worker` in a whole that all threads divide.
    pub(super) fn share(&self, worker: u32, whole: u64) -> u64 {
        let workers = u64::from(self.workers);
        whole / workers + u64::from(u64::from(worker) < whole % workers)
    }

    /// Idle connections of this shard.
    pub(super) fn idle(&self) -> u32 {
        self.shard.share(self.options.idle.unwrap_or(0))
    }

    /// SHA-256 of the requests in their order. Shards of one load have the same.
    pub(super) fn requests_sha256(&self) -> String {
        let mut hash = Sha256::new();
        for target in &self.script.targets {
            hash.update((target.bytes.len() as u64).to_le_bytes());
            hash.update(&target.bytes);
        }
        self.order.iter().for_each(|target| hash.update(target.to_le_bytes()));
        for step in &self.script.steps {
            hash.update(step.target.to_le_bytes());
            hash.update(step.think_us.to_le_bytes());
            hash.update([u8::from(step.starts_burst)]);
        }
        for part in &self.script.sessions {
            hash.update(part.first.to_le_bytes());
            hash.update(part.at_us.unwrap_or(u64::MAX).to_le_bytes());
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Requests that `connections` carry at a time.
    pub(super) fn places(&self, connections: u64) -> u64 {
        connections.saturating_mul(self.streams.max(1).into())
    }

    /// Think time after a burst, nanoseconds.
    pub(super) fn think_ns(&self, think_us: u32) -> u64 {
        match (think_us, &self.options.model) {
            (THINK_DEFAULT, Model::PartlyOpen { think, .. }) => think.map_or(0, nanos),
            (THINK_DEFAULT, _) => 0,
            (us, _) => u64::from(us) * 1_000,
        }
    }

    /// The files whose copies should be looked after.
    pub(super) fn locals(&self) -> Vec<&Local> {
        let expects = self.script.targets.iter().map(|target| &target.expect);
        expects
            .filter_map(|expect| match expect {
                Expect::File(local) => Some(local.all()),
                _ => None,
            })
            .flatten()
            .collect()
    }
}

fn pins(pins: &[usize]) -> Result<(), String> {
    let ours = affinity::allowed().map_err(|error| format!("--pin: {error}"))?;
    match pins.iter().find(|pin| !ours.contains(pin)) {
        None => Ok(()),
        Some(odd) => {
            let ours: Vec<String> = ours.iter().map(ToString::to_string).collect();
            Err(format!("--pin {odd}: no such processor here; there are {}", ours.join(",")))
        }
    }
}

fn has_field(options: &LoadOptions, name: &str) -> bool {
    options.fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
}

/// Makes targets of requests and remembers those that it has made.
#[derive(Debug)]
struct Maker {
    script: Script,
    made: HashMap<(&'static str, String, Vec<u8>), u32>,
    url: Url,
    /// Fields of every request.
    own_fields: Vec<(String, String)>,
    /// The same as lines, the Host first, each with its line end.
    fields: String,
    is_http2: bool,
    /// Method and content where the request says GET.
    method: Method,
    content: Arc<[u8]>,
    content_type: Option<String>,
    verify: Verify,
    files: Option<FileSet>,
    /// Bytes held for comparison.
    copied: u64,
    written: Arc<OnceLock<Written>>,
    taken: Option<Taken>,
    altered: Option<alter::Target>,
    /// The file is rewritten in place, by this load or by another.
    in_place: bool,
    /// Replies may have a content coding.
    coded: bool,
}

impl Maker {
    /// Reads the workload, if there is one, and lets it fill in what the options leave open.
    fn new(url: &Url, options: &mut LoadOptions) -> Result<Self, String> {
        let dir = options.workload.clone();
        let read = |dir: &Path| {
            let read = Workload::read(dir).and_then(|read| Ok((read.file_set(dir)?, read)));
            read.map_err(|fault| unread(dir, &fault))
        };
        let (files, workload) = dir.as_deref().map(read).transpose()?.unzip();
        let asked = workload.as_ref().and_then(|workload| workload.offer.altered);
        let in_place = options.alter.flatten().or(asked).is_some_and(|a| a.way != Way::Renamed);
        let (taken, altered) = take_up(options, workload.as_ref().zip(dir.as_deref()))?;
        let verify = options.verify.clone().unwrap_or_default();
        if let Verify::Directory(root) = &verify
            && !root.is_dir()
        {
            let root = root.display();
            return Err(format!(
                "--verify {root}: no such directory; say off, generated, altered, hash, or a \
                 directory"
            ));
        }
        let mut fields = String::new();
        if !has_field(options, "host") {
            fields = format!("Host: {}\r\n", url.authority);
        }
        fields.extend(options.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        Ok(Self {
            script: Script::default(),
            made: HashMap::new(),
            url: url.clone(),
            own_fields: options.fields.clone(),
            fields,
            is_http2: options.protocol.http2,
            method: options.request.method(),
            content: options.request.content()?.into(),
            content_type: options.request.content_type.clone(),
            verify,
            files,
            copied: 0,
            written: Arc::default(),
            taken,
            altered,
            in_place,
            coded: has_field(options, "accept-encoding"),
        })
    }

    /// The content of a request target and its length.
    fn expect(
        &mut self,
        target: &str,
        reply_bytes: Option<u64>,
    ) -> Result<(Expect, Option<u64>), String> {
        let path = files::file_of_target(target);
        let in_set = self.files.as_ref().and_then(|set| set.find(target).map(|f| set.bytes(f)));
        let by_name = || path.as_deref().and_then(specweb::bytes_of_name);
        let size = reply_bytes.or(in_set);
        let unknown = || format!("{target} names no file whose contents could be known");
        match &self.verify {
            Verify::Off => Ok((Expect::Unknown, size)),
            Verify::Generated => {
                let path = path.as_deref().ok_or_else(unknown)?;
                Ok((Expect::Generated(Content::new(path)), size.or_else(by_name)))
            }
            Verify::Hash => {
                let set = self.files.as_ref().ok_or("--verify hash needs a --workload")?;
                let hash = set.find(target).and_then(|file| set.sha256(file));
                let bytes = hash.and_then(from_hex);
                let bytes = bytes.ok_or_else(|| format!("{target}: the list has no hash"))?;
                Ok((Expect::Hash(bytes), size))
            }
            Verify::Altered => {
                let path = path.ok_or_else(unknown)?;
                let path = path.strip_prefix('/').unwrap_or(&path).to_owned();
                let written = Arc::clone(&self.written);
                let (in_place, highest) = (self.in_place, 0.into());
                Ok((Expect::Altered { path, in_place, highest, written }, size))
            }
            Verify::Directory(root) => {
                let full = root.join(path.ok_or_else(unknown)?);
                let wrong = |error| format!("{}: {error}", full.display());
                let mut local = Local::load(&full).map_err(wrong)?;
                if self.coded {
                    local.load_siblings().map_err(wrong)?;
                }
                self.copied += local.all().map(Local::len).sum::<u64>();
                if self.copied > COPIES_BYTES_MAX {
                    return Err(format!("more than {COPIES_BYTES_MAX} bytes to compare with"));
                }
                let size = local.len();
                Ok((Expect::File(Box::new(local)), Some(size)))
            }
        }
    }

    /// Adds the request, if it is new, and answers which it is.
    fn target(&mut self, request: Request<'_>) -> Result<u32, String> {
        let content = Arc::clone(&self.content);
        let own = request.contents;
        let (method, request) = match request.method {
            Method::Get if own.is_empty() => {
                (self.method, Request { contents: &content, ..request })
            }
            Method::Get => (self.method, request),
            method => (method, request),
        };
        let key = (method.name(), request.target.to_owned(), own.to_vec());
        if let Some(&target) = self.made.get(&key) {
            return Ok(target);
        }
        let (expect, size) = match method {
            Method::Get | Method::Head => self.expect(request.target, request.reply_bytes)?,
            _ => (Expect::Unknown, request.reply_bytes),
        };
        let class = size.map_or(CLASS_UNKNOWN, files::class_of);
        let head = match self.is_http2 {
            true => self.block(method, request)?,
            false => self.head(method, request),
        };
        let block_bytes = head.len();
        let bytes = [head.as_slice(), request.contents].concat().into();
        let number = id(self.script.targets.len());
        let target = Target { bytes, block_bytes, method, size, class, slot: 0, expect };
        self.script.targets.push(target);
        self.made.insert(key, number);
        Ok(number)
    }

    /// Head of a request in HTTP/1.1.
    fn head(&self, method: Method, request: Request<'_>) -> Vec<u8> {
        let method = method.name();
        let mut head = format!("{method} {} HTTP/1.1\r\n{}", request.target, self.fields);
        if !request.contents.is_empty() {
            head += &format!("Content-Length: {}\r\n", request.contents.len());
            if let Some(kind) = &self.content_type {
                head += &format!("Content-Type: {kind}\r\n");
            }
        }
        head += "\r\n";
        head.into_bytes()
    }

    /// Field block of a request in HTTP/2.
    fn block(&self, method: Method, request: Request<'_>) -> Result<Vec<u8>, String> {
        let mut block = Vec::new();
        let mut fields = self.own_fields.clone();
        if !request.contents.is_empty() {
            fields.push(("content-length".to_owned(), request.contents.len().to_string()));
            fields.extend(self.content_type.iter().map(|k| ("content-type".to_owned(), k.clone())));
        }
        let place = (self.url.authority.as_str(), request.target);
        http2::write_request(&mut block, method, self.url.scheme(), place, &fields);
        let (bytes, most) = (block.len(), http2::REQUEST_BLOCK_BYTES_MAX);
        if bytes > most {
            return Err(format!("fields of {bytes} bytes: HTTP/2 sends at most {most} here"));
        }
        Ok(block)
    }

    /// Loads the logs, one session of each in turn, so that each client's share is the same at all
    /// times.
    fn load(&mut self, logs: &[PathBuf]) -> Result<(), String> {
        let mut readers = VecDeque::new();
        for (client, path) in (0_u32..).zip(logs) {
            let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
            readers.push_back((client, Reader::new(BufReader::with_capacity(1 << 20, file), path)));
        }
        while let Some((number, mut reader)) = readers.pop_front() {
            let Some(session) = reader.next() else { continue };
            let session = session.map_err(|fault| fault.to_string())?;
            let own = session.hints.client.and_then(|client| u32::try_from(client).ok());
            let client = if logs.len() == 1 { own.unwrap_or(0) } else { number };
            self.session(&session, client.min(1 << 20))?;
            readers.push_back((number, reader));
        }
        if self.script.steps.is_empty() {
            return Err("the session logs hold no request".to_owned());
        }
        Ok(())
    }

    fn session(&mut self, session: &Session, client: u32) -> Result<(), String> {
        let first = id(self.script.steps.len());
        for burst in session.bursts() {
            let think_us = burst.think_us().map_or(THINK_DEFAULT, |us| {
                u32::try_from(us).unwrap_or(u32::MAX).min(THINK_DEFAULT - 1)
            });
            for (at, request) in burst.requests().enumerate() {
                let target = self.target(request)?;
                self.script.steps.push(Step { target, starts_burst: at == 0, think_us });
            }
        }
        let (end, at_us) = (id(self.script.steps.len()), session.hints.at_us);
        let line = session.hints.line_bits_per_s.unwrap_or(0);
        let line_bits_per_s = u32::try_from(line).unwrap_or(u32::MAX);
        self.script.sessions.push(Part { first, end, client, line_bits_per_s, at_us });
        Ok(())
    }
}

/// Explains why a workload could not be read.
fn unread(dir: &Path, fault: &Fault) -> String {
    match fault {
        Fault::Input { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            let dir = dir.display();
            format!("{dir} is no workload: make one with `regatta workload new PRESET {dir}`")
        }
        fault => fault.to_string(),
    }
}

/// 64 hexadecimal digits as bytes.
fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0_usize..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    (text.len() == 64).then_some(bytes)
}

/// Sources: as given, or addresses of 127.0.0.0/8 if the server is there, or the kernel's choice.
fn sources(options: &LoadOptions, servers: &[Destination]) -> Result<Vec<IpAddr>, String> {
    let inet = |to: &Destination| match to {
        Destination::Inet(to) => Some(*to),
        Destination::Unix(_) => None,
    };
    let Some(servers) = servers.iter().map(inet).collect::<Option<Vec<SocketAddr>>>() else {
        let named = !options.sources.is_empty() || options.spread > 0;
        let what = "connections to a Unix socket have no address: leave out --source and --spread";
        return if named { Err(what.to_owned()) } else { Ok(Vec::new()) };
    };
    for to in &servers {
        if let Some(odd) = options.sources.iter().find(|ip| ip.is_ipv4() != to.is_ipv4()) {
            return Err(format!("{odd} cannot speak to {to}"));
        }
    }
    if !options.sources.is_empty() {
        for &source in &options.sources {
            // Binding a free port shows whether the address is ours at all.
            UdpSocket::bind((source, 0)).map_err(|error| format!("--source {source}: {error}"))?;
        }
        return Ok(options.sources.clone());
    }
    let is_loopback = |to: &&SocketAddr| matches!(to.ip(), IpAddr::V4(ip) if ip.is_loopback());
    let beyond = servers.iter().find(|to| !is_loopback(to));
    let few = matches!(options.model, Model::Closed { connections, .. } if connections < 10_000)
        && options.requests_per_connection.unwrap_or(0) == 0;
    let count = match options.spread {
        0 if beyond.is_some() || few => return Ok(Vec::new()),
        0 => SOURCES_SPREAD,
        count => count.min(SOURCES_MAX),
    };
    if let Some(to) = beyond {
        return Err(format!("{to} is not in 127.0.0.0/8: name the sources"));
    }
    let base = u32::from(Ipv4Addr::LOCALHOST);
    Ok((0..count).map(|n| Ipv4Addr::from(base + n).into()).collect())
}

#[derive(Debug)]
pub(super) struct Target {
    pub(super) bytes: Box<[u8]>,
    /// Bytes of the head, or in HTTP/2 of the field block; the others are the content.
    pub(super) block_bytes: usize,
    pub(super) method: Method,
    pub(super) size: Option<u64>,
    /// Size class, 0 to 3; [`CLASS_UNKNOWN`] when the size is not known.
    pub(super) class: u8,
    /// Place in the table of sizes.
    pub(super) slot: u32,
    pub(super) expect: Expect,
}

/// The class of targets whose size is not known.
pub(super) const CLASS_UNKNOWN: u8 = 4;
/// Classes with that one.
pub(super) const CLASSES: usize = 5;

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) target: u32,
    /// Whether it starts a burst.
    pub(super) starts_burst: bool,
    /// Think time after its burst, microseconds; [`THINK_DEFAULT`] when the log does not say. Only
    /// where a burst starts.
    pub(super) think_us: u32,
}

/// The log gives no think time.
pub(super) const THINK_DEFAULT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) first: u32,
    /// Step after the last.
    pub(super) end: u32,
    pub(super) client: u32,
    /// Speed of its line, bit/s; 0 when it has no own.
    pub(super) line_bits_per_s: u32,
    /// Start according to the log, microseconds.
    pub(super) at_us: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) targets: Vec<Target>,
    pub(super) steps: Vec<Step>,
    pub(super) sessions: Vec<Part>,
}

impl Script {
    /// Numbers the distinct sizes, and answers them in order; 0 stands for all that are not known
    /// or come after the first [`SIZES_MAX`].
    fn number_sizes(&mut self) -> Vec<u64> {
        let known = self.targets.iter().filter_map(|target| target.size);
        let mut sizes: Vec<u64> = known.chain([0]).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.truncate(SIZES_MAX);
        for target in &mut self.targets {
            let at = target.size.and_then(|size| sizes.binary_search(&size).ok());
            target.slot = at.map_or(0, id);
        }
        sizes
    }
}
