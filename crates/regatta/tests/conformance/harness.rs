//! Starts the real program and ends it: one `Server` is one master process and its workers.

use crate::client::{Client, Endpoint, get, get_all};
use crate::counters::{count_now, counter};
use crate::identity::identity;
use crate::runner::report;
use crate::shared::descriptors;
use crate::variants::VARIANTS;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Longest time, on a crowded machine, for anything that should happen at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Limits of every server whose test does not set them. The defaults end clients that wait, and on
/// a crowded machine the last of many clients waits long.
pub(crate) const PATIENT: [(&str, &str); 3] = [
    ("limits.first_request_ms_max", "10min"),
    ("limits.head_ms_max", "10min"),
    ("limits.idle_ms_max", "10min"),
];

/// The same for servers whose clients use TLS: a client begins its handshake with its first bytes.
const PATIENT_HANDSHAKE: (&str, &str) = ("tls.handshake_ms_max", "10min");

/// An architecture with settings under which every case holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) architecture: &'static str,
    pub(crate) settings: &'static [&'static str],
    /// Faults to inject, as `regatta_sys::hook::Plan` reads them.
    pub(crate) faults: Option<&'static str>,
    /// Whether clients use TLS.
    pub(crate) tls: bool,
}

impl Variant {
    /// Finds the variant of this name.
    pub(crate) fn find(name: &str) -> &'static Self {
        VARIANTS.iter().find(|variant| variant.name == name).expect("a name of the table")
    }

    /// An architecture as its name alone sets it.
    pub(crate) const fn plain(architecture: &'static str) -> Self {
        Self { name: architecture, architecture, settings: &[], faults: None, tls: false }
    }

    /// Ports that it takes for each of its addresses.
    pub(crate) fn ports(&self) -> usize {
        if self.has("event.copies=2") { 2 } else { 1 }
    }

    /// Whether the settings of the variant include this one.
    pub(crate) fn has(&self, setting: &str) -> bool {
        self.settings.contains(&setting)
    }
}

/// The program under test.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("REGATTA_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_regatta")), PathBuf::from)
}

/// Output and exit code of a finished command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    /// Fails unless standard error has all these parts.
    #[track_caller]
    pub(crate) fn names(&self, parts: &[&str]) {
        parts.iter().for_each(|part| assert!(self.stderr.contains(part), "{part}: {self:?}"));
    }
}

/// Runs a command of the program that must end; kills it when it does not.
pub(crate) fn run(args: &[&str]) -> Said {
    let mut child = Command::new(program())
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let stdout = collect(child.stdout.take().expect("piped"));
    let stderr = collect(child.stderr.take().expect("piped"));
    let status = wait_for(&mut child, PATIENCE);
    if status.is_none() {
        child.kill().expect("our child");
        child.wait().expect("our child");
    }
    let text = |part: Receiver<String>| part.recv_timeout(PATIENCE).expect("output ends");
    let (stdout, stderr) = (text(stdout), text(stderr));
    let status =
        status.unwrap_or_else(|| panic!("regatta {args:?} did not end: {stdout}\n{stderr}"));
    Said { code: status.code(), stdout, stderr }
}

/// Runs a command of the program, which must end with this exit code.
#[track_caller]
pub(crate) fn ends_with(code: i32, args: &[&str]) -> Said {
    let said = run(args);
    assert_eq!(said.code, Some(code), "regatta {args:?}: {said:?}");
    said
}

/// Reads to the end in another thread, and sends the text.
pub(crate) fn collect(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (to, text) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        let _ = to.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

pub(crate) fn wait_for(child: &mut Child, at_most: Duration) -> Option<ExitStatus> {
    let mut status = None;
    eventually(at_most, || {
        status = child.try_wait().expect("our child");
        status.is_some()
    });
    status
}

/// Calls `ask` until it is true or the time is over; returns its last answer. The calls become
/// rarer, since each takes processor time from other tests.
pub(crate) fn eventually(at_most: Duration, mut ask: impl FnMut() -> bool) -> bool {
    const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(25)];
    let start = Instant::now();
    loop {
        if ask() {
            return true;
        }
        let passed = start.elapsed();
        if passed > at_most {
            return false;
        }
        std::thread::sleep((passed / 8).clamp(PAUSES[0], PAUSES[1]));
    }
}

/// Fails unless this is so within [`PATIENCE`]. The report of a server that a failed test had in
/// use has its standard error.
#[track_caller]
pub(crate) fn soon(is_so: impl FnMut() -> bool) {
    assert!(eventually(PATIENCE, is_so), "not within {PATIENCE:?}");
}

/// Reads a value until it is as expected, and returns it. Fails unless it soon is.
#[track_caller]
pub(crate) fn comes_to<V: Debug>(mut read: impl FnMut() -> V, holds: impl Fn(&V) -> bool) -> V {
    let mut value = read();
    eventually(PATIENCE, || {
        if !holds(&value) {
            value = read();
        }
        holds(&value)
    });
    assert!(holds(&value), "not as expected within {PATIENCE:?}: {value:?}");
    value
}

/// Options to start a server with.
#[derive(Debug, Default)]
pub(crate) struct Launch {
    program: PathBuf,
    args: Vec<String>,
    listeners: usize,
    /// Words for a shell, which then becomes the program.
    before: Option<String>,
    stdin: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    environment: BTreeMap<&'static str, String>,
    patient: bool,
    tls: Option<TlsListeners>,
}

/// Addresses of a server whose clients use TLS.
#[derive(Clone, Debug)]
struct TlsListeners {
    addresses: Vec<String>,
    /// Number of further addresses, in the clear.
    clear: usize,
    /// Value of `tls.certificate`.
    certificate: String,
}

impl Launch {
    /// A server of this variant over this root, on one port of the kernel's choice. Its clients may
    /// wait as long as [`PATIENT`] allows.
    pub(crate) fn new(variant: &Variant, root: &Path) -> Self {
        let root = root.to_str().expect("our paths are text").to_owned();
        let tls = variant.tls.then(|| TlsListeners {
            addresses: Vec::new(),
            clear: 0,
            certificate: identity().certificate.clone(),
        });
        let launch = Self { patient: true, tls, ..Self::for_program(&program()) }.arg(root);
        let launch = launch.listen("127.0.0.1:0");
        let launch = launch.arg("--architecture").arg(variant.architecture);
        let launch = launch.sets(variant.settings);
        variant.faults.into_iter().fold(launch, Self::faults)
    }

    /// A server of this program, configured by a file alone.
    pub(crate) fn for_program(program: &Path) -> Self {
        Self { program: program.to_owned(), args: vec!["serve".into()], ..Self::default() }
    }

    /// Expects `more` addresses in its output besides those set here.
    pub(crate) fn listens(self, more: usize) -> Self {
        Self { listeners: self.listeners + more, ..self }
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds the configuration of this file.
    pub(crate) fn config(self, path: &Path) -> Self {
        self.arg("--config").arg(path.to_str().expect("our paths are text"))
    }

    /// Writes the access log to this file.
    pub(crate) fn log(self, path: &Path) -> Self {
        self.set_path("log.access", path)
    }

    /// Adds a `--set key=path`.
    pub(crate) fn set_path(self, key: &str, path: &Path) -> Self {
        self.set(format!("{key}={}", path.display()))
    }

    /// Adds an address to listen on: by TLS where clients use that.
    pub(crate) fn listen(mut self, address: &str) -> Self {
        self.listeners += 1;
        if let Some(tls) = &mut self.tls {
            tls.addresses.push(address.to_owned());
            return self;
        }
        self.arg("--listen").arg(address)
    }

    /// Listens in the clear, too, where clients use TLS.
    pub(crate) fn listen_in_the_clear(mut self) -> Self {
        self.tls.as_mut().expect("a variant with TLS").clear += 1;
        self.arg("--listen").arg("127.0.0.1:0")
    }

    /// Replaces the certificates of a server whose clients use TLS.
    pub(crate) fn certificate(mut self, certificate: String) -> Self {
        self.tls.as_mut().expect("a variant with TLS").certificate = certificate;
        self
    }

    /// Adds a `--set key=value`.
    pub(crate) fn set(self, setting: impl Into<String>) -> Self {
        self.arg("--set").arg(setting)
    }

    /// Adds several settings.
    pub(crate) fn sets(self, settings: &[&str]) -> Self {
        settings.iter().fold(self, |launch, setting| launch.set(*setting))
    }

    /// Runs these words in a shell, which then becomes the program: the process id stays.
    pub(crate) fn after(self, words: impl Into<String>) -> Self {
        Self { before: Some(words.into()), ..self }
    }

    /// Passes this descriptor as standard input.
    pub(crate) fn stdin(self, stdin: OwnedFd) -> Self {
        Self { stdin: Some(stdin), ..self }
    }

    /// Sets a variable of the environment.
    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.insert(name, value.into());
        self
    }

    /// Replaces the server's standard error by this descriptor; its output is not kept.
    pub(crate) fn stderr(self, stderr: OwnedFd) -> Self {
        Self { stderr: Some(stderr), ..self }
    }

    /// Injects these faults instead of the variant's.
    pub(crate) fn faults(self, plan: impl Into<String>) -> Self {
        self.env("REGATTA_INJECT", plan)
    }

    /// Arguments that make the server patient, except for limits that the test sets.
    fn patience(&self) -> Vec<String> {
        let sets = |key: &str| self.args.iter().any(|arg| arg.split('=').next() == Some(key));
        let of_tls = self.tls.iter().map(|_| &PATIENT_HANDSHAKE);
        let all = PATIENT.iter().chain(of_tls).filter(|(key, _)| self.patient && !sets(key));
        all.flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")]).collect()
    }

    /// Arguments for TLS. Without other addresses there is none in the clear.
    fn tls_args(&self) -> Vec<String> {
        let Some(tls) = &self.tls else { return Vec::new() };
        let mut settings = vec![
            format!("tls.listen={}", tls.addresses.join(",")),
            format!("tls.certificate={}", tls.certificate),
        ];
        if !self.args.iter().any(|arg| arg == "--listen") {
            settings.push("server.listen=".to_owned());
        }
        settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]).collect()
    }

    fn command(&self) -> Command {
        let shell = self.before.as_ref().map(|_| Path::new("sh"));
        let mut command = Command::new(shell.unwrap_or(&self.program));
        if let Some(words) = &self.before {
            command.arg("-c").arg(format!("{words} && exec \"$0\" \"$@\"")).arg(&self.program);
        }
        command.envs(&self.environment);
        command
    }

    /// Starts the server and waits until it accepts connections.
    pub(crate) fn start(mut self) -> Server {
        let (stdin, stderr) = (self.stdin.take(), self.stderr.take());
        let mut child = self
            .command()
            .args(&self.args)
            .args(self.patience())
            .args(self.tls_args())
            .stdin(stdin.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::piped())
            .stderr(stderr.map_or_else(Stdio::piped, Stdio::from))
            .spawn()
            .expect("the program starts");
        let (to, stdout) = channel();
        each_line(child.stdout.take().expect("piped"), move |line| drop(to.send(line)));
        let stdout = Mutex::new(stdout);
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(from) = child.stderr.take() {
            let stderr = Arc::clone(&stderr);
            each_line(from, move |line| keep_last(&stderr, line));
        }
        let (addresses, clear, listening) = (Vec::new(), Vec::new(), HashSet::new());
        let kept = self.args.iter().any(|arg| arg.starts_with("shared-symped"));
        let is_tls = self.tls.is_some();
        let mut server =
            Server { child, addresses, clear, is_tls, stdout, stderr, listening, kept };
        self.read_addresses(&mut server);
        server.listening = sockets(server.pid());
        server
    }

    /// Reads the addresses that the server reports, as many as it was given.
    fn read_addresses(&self, server: &mut Server) {
        let parse = |line: &str, scheme: &str| -> Option<SocketAddr> {
            line.strip_prefix("listening on ")?.strip_prefix(scheme)?.parse().ok()
        };
        let (scheme, clear) =
            self.tls.as_ref().map_or(("http://", 0), |tls| ("https://", tls.clear));
        while server.addresses.len() < self.listeners || server.clear.len() < clear {
            let line = server.stdout_line(PATIENCE);
            let line = line.unwrap_or_else(|| panic!("no `listening on` for {:?}", self.args));
            // Those in the clear come first, and a path may be among them.
            if let Some(address) = parse(&line, scheme) {
                server.addresses.push(address);
            } else if let Some(address) = parse(&line, "http://") {
                server.clear.push(address);
            } else {
                let is_path = line.starts_with("listening on unix:");
                assert!(is_path && self.tls.is_some(), "stdout said {line:?}");
            }
        }
    }
}

/// Passes each line on, in another thread.
fn each_line(from: impl Read + Send + 'static, mut pass_on: impl FnMut(String) + Send + 'static) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            pass_on(String::from_utf8_lossy(&line).into_owned());
        }
    });
}

const STDERR_LINES_MAX: usize = 200;

fn keep_last(kept: &Mutex<VecDeque<String>>, line: String) {
    let mut kept = lock(kept);
    if kept.len() == STDERR_LINES_MAX {
        kept.pop_front();
    }
    kept.push_back(line);
}

/// Locks data that a failed test may have had locked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running server. Dropping it kills the master and every worker, whatever their state.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    addresses: Vec<SocketAddr>,
    /// Further addresses, in the clear, of a server whose clients use TLS.
    clear: Vec<SocketAddr>,
    is_tls: bool,
    stdout: Mutex<Receiver<String>>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    /// Sockets of the master before there were connections.
    listening: HashSet<PathBuf>,
    /// Whether a keeper is between the master and workers that share a table of descriptors.
    kept: bool,
}

impl Server {
    /// First address that it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// All addresses that it reported.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The address in the clear of a server whose clients use TLS.
    pub(crate) fn clear_address(&self) -> SocketAddr {
        self.clear[0]
    }

    /// First address that it listens on, and whether clients use TLS there.
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint_at(self.address())
    }

    /// An address that it reported, and whether clients use TLS there.
    pub(crate) fn endpoint_at(&self, address: SocketAddr) -> Endpoint {
        Endpoint { address, is_tls: self.is_tls }
    }

    /// Opens a new connection.
    pub(crate) fn connect(&self) -> Client {
        Client::connect_to(self.endpoint())
    }

    /// Opens a connection to one of the addresses that it reported.
    pub(crate) fn connect_to(&self, address: SocketAddr) -> Client {
        Client::connect_to(self.endpoint_at(address))
    }

    /// Opens a connection with a small receive buffer.
    pub(crate) fn connect_narrow(&self) -> Client {
        Client::connect_narrow(self.endpoint())
    }

    /// Opens a connection from this address of our own.
    pub(crate) fn connect_from(&self, own: Ipv4Addr) -> Client {
        Client::connect_from(own, self.endpoint())
    }

    /// Opens the connection of a test that needs no other: it keeps the server running.
    pub(crate) fn client(self: Arc<Self>) -> Client {
        self.connect().keeping(self)
    }

    /// Opens a connection and sends these bytes.
    pub(crate) fn asked(&self, bytes: impl AsRef<[u8]>) -> Client {
        let mut client = self.connect();
        client.send(bytes);
        client
    }

    /// Opens this many connections.
    pub(crate) fn clients(&self, count: usize) -> Vec<Client> {
        (0..count).map(|_| self.connect()).collect()
    }

    /// Opens connections that have an answer each: workers have accepted them.
    #[track_caller]
    pub(crate) fn busy_clients(&self, count: usize) -> Vec<Client> {
        let mut clients = self.clients(count);
        get_all(&mut clients, "/small.txt");
        clients
    }

    /// A client with small buffers that has read the head of an answer, and no more.
    #[track_caller]
    pub(crate) fn slow_reader(&self, target: &str) -> Client {
        let mut client = self.connect_narrow();
        client.send(get(target));
        client.head_only().expect(200);
        client
    }

    /// A slow reader of more than the sockets' buffers hold.
    #[track_caller]
    pub(crate) fn stuck_client(&self) -> Client {
        self.slow_reader("/sparse.bin")
    }

    /// Resets a connection in the middle of an answer.
    pub(crate) fn tear(&self, target: &str) {
        let mut client = self.connect_narrow();
        client.send(get(target));
        client.take(1000);
        client.abort();
    }

    /// A client that has asked for a target, and gets no answer yet.
    #[track_caller]
    pub(crate) fn waiting_client(&self, target: &str, unless: &str) -> Client {
        let mut client = self.asked(get(target));
        assert!(client.silent_for(Duration::from_millis(300)), "{unless}");
        client
    }

    /// Process number of the master.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Process numbers of the workers: children of the master, or of the keeper if there is one.
    pub(crate) fn workers(&self) -> Vec<u32> {
        let children_of_master = children(self.pid());
        if self.kept {
            children_of_master.into_iter().flat_map(children).collect()
        } else {
            children_of_master
        }
    }

    /// The keeper of workers that share a table of descriptors. It shares the table, too.
    pub(crate) fn keeper(&self) -> u32 {
        assert!(self.kept, "only shared-symped has one");
        *children(self.pid()).first().expect("a keeper")
    }

    /// Every process of the server: the master first, then the keeper if there is one.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut all = vec![self.pid()];
        all.extend(if self.kept { children(self.pid()) } else { Vec::new() });
        all.extend(self.workers());
        all
    }

    /// Processor time that all its processes have used.
    pub(crate) fn cpu(&self) -> Duration {
        self.processes().into_iter().map(cpu_of).sum()
    }

    /// Processor time that all its processes use in this time.
    pub(crate) fn cpu_within(&self, time: Duration) -> Duration {
        let before = self.cpu();
        std::thread::sleep(time);
        self.cpu() - before
    }

    /// Connections that the workers have open: their sockets, except the listening ones and those
    /// to their helpers.
    pub(crate) fn open_connections(&self) -> usize {
        let held: HashSet<PathBuf> = self.workers().into_iter().flat_map(sockets).collect();
        let local = local_sockets();
        held.difference(&self.listening).filter(|socket| !local.contains(*socket)).count()
    }

    /// Runs `regatta reload` or `regatta upgrade` for the server, which must end with this code.
    #[track_caller]
    pub(crate) fn asks(&self, command: &str, code: i32) -> Said {
        ends_with(code, &[command, "--pid", &self.pid().to_string()])
    }

    /// Fails unless the workers soon have this many connections open.
    #[track_caller]
    pub(crate) fn has_open(&self, count: usize) {
        comes_to(|| self.open_connections(), |open| *open == count);
    }

    /// Kills all workers, and waits until they are reaped. Returns what their numbers were.
    pub(crate) fn kill_workers(&self) -> Vec<u32> {
        let workers = self.workers();
        workers.iter().for_each(|worker| kill(*worker, Signal::KILL));
        let reaped = |worker: &u32| !Path::new(&format!("/proc/{worker}")).exists();
        soon(|| workers.iter().all(reaped));
        workers
    }

    /// Sends the master a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }

    /// Waits for the master to end. Returns its exit code, or `None` after the time.
    pub(crate) fn exit_within(&mut self, at_most: Duration) -> Option<ExitStatus> {
        wait_for(&mut self.child, at_most)
    }

    /// Ends the server by this signal.
    #[track_caller]
    pub(crate) fn end(&mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.exit_within(PATIENCE).unwrap_or_else(|| panic!("no end: {}", self.stderr()))
    }

    /// Next line of standard output, if one arrives in time.
    pub(crate) fn stdout_line(&self, at_most: Duration) -> Option<String> {
        lock(&self.stdout).recv_timeout(at_most).ok()
    }

    /// Lines of its standard error.
    pub(crate) fn stderr(&self) -> String {
        lock(&self.stderr).iter().fold(String::new(), |text, line| text + line + "\n")
    }

    /// Fails unless the server soon says this on standard error.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        let said = eventually(PATIENCE, || self.stderr().contains(text));
        assert!(said, "never said: {text}");
    }

    /// Value of a counter or gauge, all workers together.
    #[track_caller]
    pub(crate) fn count(&self, name: &str) -> u64 {
        counter(&self.top(), name)
    }

    /// Fails unless a counter or gauge soon has this value.
    #[track_caller]
    pub(crate) fn counts(&self, name: &str, value: u64) {
        comes_to(|| (name, count_now(self, name)), |(_, found)| *found == value);
    }

    /// Fails unless a counter or gauge soon is at least this.
    #[track_caller]
    pub(crate) fn reaches(&self, name: &str, least: u64) {
        comes_to(|| (name, count_now(self, name)), |(_, found)| *found >= least);
    }

    /// Output of `regatta top` about the server.
    #[track_caller]
    pub(crate) fn page(&self, more: &[&str]) -> String {
        let pid = self.pid().to_string();
        ends_with(0, &[&["top", "--pid", &pid, "--once", "--interval", "0"], more].concat()).stdout
    }

    /// Counters as `regatta top --json` prints them.
    #[track_caller]
    pub(crate) fn top(&self) -> Value {
        let page = self.page(&["--json"]);
        // Made where the library is optimised: `from_str` would be made here.
        page.parse().unwrap_or_else(|e| panic!("{e}: {page}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let others = self.processes().split_off(1);
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        for other in others {
            if alive(other) {
                kill(other, Signal::KILL);
            }
        }
        if std::thread::panicking() {
            report(&format!("--- the server's standard error:\n{}---\n", self.stderr()));
        }
    }
}

/// Sends a signal; a process that is gone already is no error.
pub(crate) fn kill(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    let _ = rustix::process::kill_process(pid, signal);
}

/// Stops a process by `SIGSTOP`, and waits until it has stopped: that takes a moment.
pub(crate) fn halt(pid: u32) {
    kill(pid, Signal::STOP);
    comes_to(|| stat(pid), |fields| fields.as_ref().is_none_or(|fields| fields[0] == "T"));
}

/// Whether a process exists and is not a zombie. Its first task may be one before the others.
pub(crate) fn alive(pid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let mut tasks = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
    tasks.any(|task| stat(task).is_some_and(|fields| fields[0] != "Z" && fields[0] != "X"))
}

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The user numbers of a process: real, effective, saved, that of the file system.
pub(crate) fn uid_of(pid: u32) -> String {
    status_of(pid, "Uid").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A field of `/proc/PID/status`.
pub(crate) fn status_of(pid: u32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("alive");
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| *name == field).expect("Linux has it").1.trim().to_owned()
}

/// The sockets of a process, by their names in its table of descriptors.
fn sockets(pid: u32) -> HashSet<PathBuf> {
    let links = descriptors(pid).into_values();
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).collect()
}

/// Local sockets of this machine (unix(7)), by their names in tables of descriptors.
fn local_sockets() -> HashSet<PathBuf> {
    let text = std::fs::read_to_string("/proc/net/unix").expect("Linux has them");
    let inodes = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(6));
    inodes.map(|inode| PathBuf::from(format!("socket:[{inode}]"))).collect()
}

/// Fields of `/proc/PID/stat` from the state (the third) on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = &text[text.rfind(')')? + 1..];
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Start of a process, as time since the machine's start.
pub(crate) fn started(pid: u32) -> Option<Duration> {
    let ticks: u64 = stat(pid)?[19].parse().ok()?;
    Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

fn cpu_of(pid: u32) -> Duration {
    let Some(fields) = stat(pid) else { return Duration::ZERO };
    let ticks: u64 = [11, 12].iter().filter_map(|at| fields[*at].parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// Servers in use by several tests at once, by their arguments. The lock of one is held while it
/// starts: tests of other servers do not wait for that.
static SHARED: Mutex<BTreeMap<String, Arc<Mutex<Weak<Server>>>>> = Mutex::new(BTreeMap::new());

/// A server over the common site, for one test alone.
pub(crate) fn start(variant: &Variant) -> Server {
    start_with(variant, &[])
}

/// A server over the common site with more settings, for one test alone.
pub(crate) fn start_with(variant: &Variant, settings: &[&str]) -> Server {
    Launch::new(variant, crate::site::common()).sets(settings).start()
}

/// A server over the common site; tests that run at the same time share it.
pub(crate) fn serve(variant: &Variant) -> Arc<Server> {
    serve_with(variant, &[])
}

/// A server over the common site with more settings; shared likewise.
pub(crate) fn serve_with(variant: &Variant, settings: &[&str]) -> Arc<Server> {
    serve_root(variant, crate::site::common(), settings)
}

/// A server over a site that no test changes, with more settings; shared likewise.
pub(crate) fn serve_root(variant: &Variant, root: &Path, settings: &[&str]) -> Arc<Server> {
    let launch = Launch::new(variant, root).sets(settings);
    let key = format!("{:?}", (&launch.args, &launch.environment, &launch.tls));
    let shared = Arc::clone(lock(&SHARED).entry(key).or_default());
    let mut shared = lock(&shared);
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(launch.start());
        *shared = Arc::downgrade(&server);
        server
    })
}
