//! Sockets that a service manager passes (`sd_listen_fds(3)`): they outlast the server.
use super::*;
use crate::shared::Stop;
use std::{
    net::TcpListener,
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// A service manager's work before it executes the server, whose descriptors 0 and 2 are the
/// sockets. The server's messages are appended to the file that `$0` names.
const GIVE_ONE: &str = "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\" 3<&0 </dev/null 2>>\"$0\"";
const GIVE_TWO: &str = "LISTEN_FDS=2 LISTEN_PID=$$ LISTEN_FDNAMES=one:other exec \"$@\" 3<&0 4<&2 \
                        </dev/null 2>>\"$0\"";

/// Starts a server with given sockets, which prints `addresses` addresses.
fn start(folder: &Folder, given: Vec<OwnedFd>, addresses: usize, arguments: &[&str]) -> Server {
    let mut command = Command::new("sh");
    command.args(["-c", if given.len() == 1 { GIVE_ONE } else { GIVE_TWO }]);
    command.arg(folder.path("said")).arg(program());
    command.args(["serve", &folder.path("www")]).args(arguments);
    command.stderr(Stdio::null());
    let mut given = given.into_iter();
    command.stdin(given.next().unwrap());
    if let Some(other) = given.next() {
        command.stderr(other);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(command);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut addresses_of: Vec<SocketAddr> = Vec::new();
    for _ in 0..addresses {
        let line = lines.next().map(Result::unwrap);
        let line = line.unwrap_or_else(|| panic!("it does not serve: {}", read_stderr(folder)));
        let address = line.strip_prefix("listening on ").expect(&line);
        addresses_of
            .extend(address.strip_prefix("http://").map(|of| of.parse::<SocketAddr>().unwrap()));
    }
    Server { child, addresses: addresses_of }
}

fn read_stderr(folder: &Folder) -> String {
    fs::read_to_string(folder.path("said")).unwrap_or_default()
}

/// Waits for the end, and returns the exit code.
fn end(mut server: Server, signal: &str) -> Option<i32> {
    server.signal(signal);
    eventually("it does not end", || server.child.try_wait().unwrap().is_some());
    server.child.wait().unwrap().code()
}

/// Sends a request, and checks the answer.
fn ask(stream: impl Read + Write) {
    let answer = get(stream);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hello\n"), "{answer:?}");
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Makes clients connect and ask repeatedly during `change`; all must be answered.
fn ask_during(address: SocketAddr, mut change: impl FnMut(&AtomicUsize)) {
    let (stop, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    ask(connect(address));
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        change(&answers);
    });
}

/// Waits for `count` more answers.
fn await_answers(answers: &AtomicUsize, count: usize) {
    let wanted = answers.load(Ordering::Relaxed) + count;
    eventually("nobody is answered", || answers.load(Ordering::Relaxed) >= wanted);
}

/// Restarts a server several times under clients; none may be refused or cut off.
fn restart(arguments: &[&str]) -> String {
    let folder = Folder::new();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let give = || vec![OwnedFd::from(socket.try_clone().unwrap())];
    let mut server = Some(start(&folder, give(), 1, arguments));
    assert_eq!(server.as_ref().unwrap().addresses, [address], "nobody has said another");
    ask_during(address, |answers| {
        for _ in 0..3 {
            await_answers(answers, 20);
            assert_eq!(end(server.take().unwrap(), "TERM"), Some(0), "{}", read_stderr(&folder));
            // Either server may answer clients that connect now.
            server = Some(start(&folder, give(), 1, arguments));
        }
        await_answers(answers, 20);
    });
    // Even a server that ends at once does not end the listening.
    assert_eq!(end(server.unwrap(), "QUIT"), Some(0));
    let waits = connect(address);
    let _server = start(&folder, give(), 1, arguments);
    ask(waits);
    read_stderr(&folder)
}

pub(crate) fn no_connection_is_lost_while_one_server_follows_another() {
    let said = restart(&["--architecture", "sped"]);
    assert!(said.contains("server.listen=127.0.0.1:"), "{said}");
    assert!(said.contains("(given by the service manager)"), "{said}");
}

pub(crate) fn workers_with_sockets_of_their_own_share_one_that_was_given_and_say_so() {
    let own = ["--set", "event.listen=reuseport", "--set", "event.processes=2"];
    let said = restart(&[&["--architecture", "symped"][..], &own].concat());
    assert!(said.contains("all workers share it"), "{said}");
}

pub(crate) fn a_worker_that_waits_for_connections_leaves_them_to_the_next() {
    let step = ["--set", "mp.step_ms=100", "--set", "limits.connections_max=8"];
    let _ = restart(&[&["--architecture", "mp"][..], &step].concat());
}

pub(crate) fn a_keeper_leaves_given_sockets_alone() {
    let _ = restart(&["--architecture", "shared-symped", "--set", "event.processes=2"]);
}

pub(crate) fn reloads_keep_given_sockets_beside_others_and_their_files_stay() {
    let folder = Folder::new();
    let [path, own] = ["given", "own"].map(|name| folder.path(name));
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let unix = UnixListener::bind(&path).unwrap();
    let (address, config) = (tcp.local_addr().unwrap(), folder.path("regatta.toml"));
    let say = |listen: &[&str]| {
        fs::write(&config, format!("[server]\nlisten = {listen:?}\n")).unwrap();
    };
    let [tcp_place, given, own_place] =
        [address.to_string(), format!("unix:{path}"), format!("unix:{own}")];
    say(&["127.0.0.1:0", &tcp_place, &own_place, &given]);
    let give = || vec![tcp.try_clone().unwrap().into(), unix.try_clone().unwrap().into()];
    let arguments = ["--config", &config, "--architecture", "sped"];
    let server = start(&folder, give(), 4, &arguments);
    let (pid, bound) = (server.pid(), server.addresses[0]);
    let all_answer = || {
        server.addresses.iter().for_each(|address| ask(connect(*address)));
        [&path, &own].into_iter().for_each(|path| ask(UnixStream::connect(path).unwrap()));
    };
    all_answer();
    for _ in 0..2 {
        let reloaded = server.reload();
        assert_eq!(reloaded.code, Some(0), "{reloaded:?} {}", read_stderr(&folder));
        all_answer();
    }
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(!text(&environment).contains("LISTEN_"), "{}", text(&environment));
    // Connections to a socket without a listener would wait for ever.
    say(&["127.0.0.1:0", &own_place, &given]);
    assert_ne!(server.reload().code, Some(0));
    assert!(read_stderr(&folder).contains(&format!("has given a socket at {tcp_place}")));
    all_answer();
    // A client prolongs the drain: sockets that the server opened itself are closed.
    let mut held = connect(address);
    held.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    eventually("it is taken", || accepted(&server) > 0);
    server.signal("TERM");
    eventually("it listens still", || TcpStream::connect(bound).is_err());
    let waits = (connect(address), UnixStream::connect(&path).unwrap());
    ask(Rest(held));
    assert_eq!(end(server, "CONT"), Some(0), "{}", read_stderr(&folder));
    assert!(Path::new(&path).exists() && !Path::new(&own).exists());
    say(&[&tcp_place, &given]);
    let _next = start(&folder, give(), 2, &arguments);
    ask(waits.0);
    ask(waits.1);
}

/// Number of open connections.
fn accepted(server: &Server) -> u64 {
    let top = run(&["top", "--json", "--pid", &server.pid().to_string()]);
    let top: serde_json::Value = serde_json::from_str(&top.stdout).unwrap();
    top["total"]["gauges"]["connections_open"].as_u64().unwrap()
}

/// A connection whose request line has been sent.
struct Rest(TcpStream);

impl Read for Rest {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Rest {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let line = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.0.write_all(&bytes[line..]).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

pub(crate) fn what_cannot_be_used_is_refused_with_what_to_do() {
    let check = |given: Vec<OwnedFd>, arguments: &[&str], expect: &[&str]| {
        let folder = Folder::new();
        let mut server = start(&folder, given, 0, arguments);
        eventually("it serves", || server.child.try_wait().unwrap().is_some());
        assert_eq!(server.child.wait().unwrap().code(), Some(1), "{}", read_stderr(&folder));
        for part in expect {
            assert!(read_stderr(&folder).contains(part), "{part}: {}", read_stderr(&folder));
        }
    };
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let fd = || OwnedFd::from(socket.try_clone().unwrap());
    let other = ["--listen", "127.0.0.1:0"];
    let hint = format!("add \"{address}\" to server.listen");
    check(vec![fd()], &other, &[&address, &hint, "the socket unit"]);
    check(vec![fd(), fd()], &[], &["descriptor 4", "(\"other\")", "was given twice"]);
    let accepted = TcpStream::connect(&address).unwrap().into();
    check(vec![accepted], &[], &["descriptor 3", "Accept=no"]);
    if thread::available_parallelism().unwrap().get() > 1 {
        let sets = ["--set", "event.copies=2", "--set", "event.partition=steer-cpu"];
        let arguments = [&["--architecture", "n-copy"][..], &sets].concat();
        check(vec![fd()], &arguments, &["event.partition: the service manager"]);
    }
}

pub(crate) fn systemd_gives_a_socket_when_a_client_comes() {
    let activate = "systemd-socket-activate";
    if Command::new(activate).arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("needs systemd-socket-activate");
    }
    let folder = Folder::new();
    let path = folder.path("socket");
    let said = fs::File::create(folder.path("said")).unwrap();
    let child = Command::new(activate)
        .args(["--listen", &path, "--fdname", "site"])
        .arg(program())
        .args(["serve", &folder.path("www")])
        .args(["--architecture", "sped"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .unwrap();
    let server = Server { child, addresses: Vec::new() };
    eventually("nobody listens", || {
        UnixStream::connect(&path).is_ok_and(|it| {
            ask(it);
            true
        })
    });
    assert_eq!(end(server, "TERM"), Some(0));
    assert!(Path::new(&path).exists(), "it is not the server's");
}
