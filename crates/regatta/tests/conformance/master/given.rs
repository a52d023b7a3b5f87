//! Sockets that a service manager passes (`sd_listen_fds(3)`): they outlast the server.
use super::*;
use crate::shared::Stop;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Starts a server with given sockets, which prints this many addresses. The words are a service
/// manager's work before it executes the server, whose descriptors 0 and 2 are the sockets. Then
/// a file gets the server's messages.
fn start(site: &Site, given: Vec<OwnedFd>, addresses: usize, arguments: &[&str]) -> Server {
    let launch = Launch::for_program(&program()).arg(site.root_text()).listens(addresses);
    let launch = arguments.iter().fold(launch, |launch, argument| launch.arg(*argument));
    let mut given = given.into_iter();
    let launch = launch.stdin(given.next().unwrap());
    let Some(other) = given.next() else {
        let words = "exec 3<&0 </dev/null && export LISTEN_FDS=1 LISTEN_PID=$$";
        return launch.after(words).start();
    };
    let names = "LISTEN_FDS=2 LISTEN_PID=$$ LISTEN_FDNAMES=one:other";
    let said = site.beside("said").display().to_string();
    let words = format!("exec 3<&0 4<&2 </dev/null 2>>'{said}' && export {names}");
    launch.stderr(other).after(words).start()
}

/// Messages of a server of this module.
fn said(site: &Site, server: &Server) -> String {
    server.stderr() + &fs::read_to_string(site.beside("said")).unwrap_or_default()
}

/// Makes clients connect and ask repeatedly during `change`; all must be answered.
fn ask_during(address: SocketAddr, mut change: impl FnMut(&AtomicUsize)) {
    let (stop, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    gets_index(Client::connect(address));
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        change(&answers);
    });
}

/// Waits for 20 more answers.
fn await_answers(answers: &AtomicUsize) {
    let before = answers.load(Ordering::Relaxed);
    comes_to(|| answers.load(Ordering::Relaxed), |now| *now >= before + 20);
}

/// Restarts a server several times under clients; none may be refused or cut off. The last one
/// says this.
fn restart(arguments: &[&str], says: &[&str]) {
    let site = site();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let start = || start(&site, vec![socket.try_clone().unwrap().into()], 1, arguments);
    let mut server = start();
    assert_eq!(server.addresses(), [address], "nobody has said another");
    ask_during(address, |answers| {
        for _ in 0..3 {
            await_answers(answers);
            assert!(server.end(Signal::TERM).success(), "{}", server.stderr());
            // Either server may answer clients that connect now.
            server = start();
        }
        await_answers(answers);
    });
    // Even a server that ends at once does not end the listening.
    assert!(server.end(Signal::QUIT).success());
    let waits = Client::connect(address);
    let server = start();
    gets_index(waits);
    says.iter().for_each(|part| server.says(part));
}

pub(crate) fn no_connection_is_lost_while_one_server_follows_another() {
    let says = ["server.listen=127.0.0.1:", "(given by the service manager)"];
    restart(&["--architecture", "sped"], &says);
}

pub(crate) fn workers_with_sockets_of_their_own_share_one_that_was_given_and_say_so() {
    let own = ["--set", "event.listen=reuseport", "--set", "event.processes=2"];
    restart(&[&["--architecture", "symped"][..], &own].concat(), &["all workers share it"]);
}

pub(crate) fn a_worker_that_waits_for_connections_leaves_them_to_the_next() {
    let step = ["--set", "mp.step_ms=100", "--set", "limits.connections_max=8"];
    restart(&[&["--architecture", "mp"][..], &step].concat(), &[]);
}

pub(crate) fn a_keeper_leaves_given_sockets_alone() {
    restart(&["--architecture", "shared-symped", "--set", "event.processes=2"], &[]);
}

pub(crate) fn reloads_keep_given_sockets_beside_others_and_their_files_stay() {
    let site = site();
    let [path, own] = ["given", "own"].map(|name| site.beside(name));
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let unix = UnixListener::bind(&path).unwrap();
    let address = tcp.local_addr().unwrap();
    let say = |listen: &[&str]| site.configure(format!("[server]\nlisten = {listen:?}\n"));
    let [tcp_place, given, own_place] = [address.to_string(), place(&path), place(&own)];
    let config = say(&["127.0.0.1:0", &tcp_place, &own_place, &given]);
    let give = || vec![tcp.try_clone().unwrap().into(), unix.try_clone().unwrap().into()];
    let arguments = ["--config", config.to_str().unwrap(), "--architecture", "sped"];
    let mut server = start(&site, give(), 2, &arguments);
    let all_answer = |server: &Server| {
        server.addresses().iter().for_each(|address| gets_index(Client::connect(*address)));
        [&path, &own].iter().for_each(|path| gets_index(Client::connect_to_path(path)));
    };
    all_answer(&server);
    for _ in 0..2 {
        server.asks("reload", 0);
        all_answer(&server);
    }
    let environment = fs::read(format!("/proc/{}/environ", server.pid())).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    assert!(!environment.contains("LISTEN_"), "{environment}");
    // Connections to a socket without a listener would wait for ever.
    say(&["127.0.0.1:0", &own_place, &given]);
    server.asks("reload", 1);
    assert!(said(&site, &server).contains(&format!("has given a socket at {tcp_place}")));
    all_answer(&server);
    // A client prolongs the drain: sockets that the server opened itself are closed.
    let mut held = Client::connect(address);
    held.send("GET / HTTP/1.1\r\n");
    server.reaches("connections_open", 1);
    server.signal(Signal::TERM);
    soon(|| TcpStream::connect(server.address()).is_err());
    let waits = (Client::connect(address), Client::connect_to_path(&path));
    held.send("Host: a\r\nConnection: close\r\n\r\n");
    is_index(&held.answer("GET"));
    drop(held);
    let status = server.exit_within(PATIENCE);
    assert!(status.is_some_and(|status| status.success()), "{}", said(&site, &server));
    assert!(path.exists() && !own.exists());
    say(&[&tcp_place, &given]);
    let _next = start(&site, give(), 1, &arguments);
    gets_index(waits.0);
    gets_index(waits.1);
}

pub(crate) fn what_cannot_be_used_is_refused_with_what_to_do() {
    let check = |given: Vec<OwnedFd>, arguments: &[&str], expect: &[&str]| {
        let site = site();
        let mut server = start(&site, given, 0, arguments);
        let status = server.exit_within(PATIENCE).expect("it serves");
        assert_eq!(status.code(), Some(1), "{}", said(&site, &server));
        let has_all = |said: &String| expect.iter().all(|part| said.contains(part));
        comes_to(|| said(&site, &server), has_all);
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
    let site = site();
    let path = site.beside("socket");
    let words =
        format!("exec {activate} --listen '{}' --fdname site \"$0\" \"$@\"", path.display());
    let launch = Launch::for_program(&program()).arg(site.root_text()).after(words);
    let mut server = launch.arg("--architecture").arg("sped").start();
    soon(|| UnixStream::connect(&path).is_ok());
    gets_index(Client::connect_to_path(&path));
    assert!(server.end(Signal::TERM).success());
    assert!(path.exists(), "it is not the server's");
}
