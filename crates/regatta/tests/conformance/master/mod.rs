//! The program from outside: its output, its end, and its remains.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod admin;
mod children;
mod given;
mod sockets;

use crate::folder;
use crate::harness::{Said, children, collect, program, run};
use crate::runner::{Tests, cases};
use regatta_sys::{Resident, StaticFile, by_mincore};
use regatta_testkit::{certificates::Authority, skips::skip, waits::until};
use rustix::fs::{Advice, fadvise};
use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tests of the modules of this one.
pub(crate) const TESTS: Tests = cases! {
    in master;
    admin: metrics_are_what_top_shows_and_only_grow what_is_killed_is_replaced_and_its_counts_stay
        the_admin_process_has_no_keys
        the_admin_process_is_confined_as_workers_are
        the_socket_of_another_program_at_the_same_path_stays
        a_socket_that_a_reload_moves_leaves_no_file monitors_are_answered_through_reloads
        a_worker_that_stays_stopped_is_seen_and_replaced
        an_admin_process_that_stays_stopped_is_replaced
        the_admin_process_ends_with_a_master_that_is_killed
        the_service_manager_hears_of_start_life_reloads_and_end;
    children: every_child_that_is_stopped_is_replaced
        a_keeper_that_is_stopped_while_its_workers_end_is_replaced
        a_configuration_that_blocks_holds_up_no_master
        the_server_ends_while_a_trial_waits_for_its_configuration
        a_trial_that_is_stopped_or_killed_refuses_the_reload what_a_trial_starts_ends_with_it
        a_file_server_that_hangs_holds_up_no_master;
    given: no_connection_is_lost_while_one_server_follows_another
        workers_with_sockets_of_their_own_share_one_that_was_given_and_say_so
        a_worker_that_waits_for_connections_leaves_them_to_the_next
        a_keeper_leaves_given_sockets_alone
        reloads_keep_given_sockets_beside_others_and_their_files_stay
        what_cannot_be_used_is_refused_with_what_to_do systemd_gives_a_socket_when_a_client_comes;
    sockets: a_path_is_listened_on_until_the_end
        a_socket_that_is_left_behind_is_replaced_and_no_other_is_removed
        a_reload_keeps_the_paths_that_stay a_reload_takes_no_socket_of_another_program
        a_reload_does_not_write_the_number_of_the_server_again;
};

/// A directory that is removed at the end.
struct Folder(folder::Folder);

impl Folder {
    fn new() -> Self {
        let folder = folder::Folder::new("master");
        fs::create_dir_all(folder.join("www")).unwrap();
        fs::write(folder.join("www/index.html"), "hello\n").unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

/// A program that listens; killed at the end if it still runs.
struct Server {
    child: Child,
    addresses: Vec<SocketAddr>,
}

impl Server {
    fn start(addresses: usize, arguments: &[&str]) -> Self {
        Self::start_program(program(), addresses, arguments)
    }

    fn start_program(program: impl AsRef<OsStr>, addresses: usize, arguments: &[&str]) -> Self {
        Self::spawn(Command::new(program).args(arguments), addresses)
    }

    /// Runs a command that prints this many addresses.
    fn spawn(command: &mut Command, addresses: usize) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let addresses = (0..addresses)
            .map(|_| {
                let line = lines.next().expect("a line for each address").unwrap();
                line.strip_prefix("listening on http://").expect(&line).parse().unwrap()
            })
            .collect();
        // From here on its output is not read.
        Self { child, addresses }
    }

    fn serve(folder: &Folder, more: &[&str]) -> Self {
        let root = folder.path("www");
        // One worker, so that it is certain which one dies.
        let first = ["serve", &root, "--listen", "127.0.0.1:0", "--architecture", "sped"];
        Self::start(1, &[&first, more].concat())
    }

    fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    fn worker(&self) -> u32 {
        let mut worker = None;
        eventually("no worker", || {
            worker = children(self.pid()).first().copied();
            worker.is_some()
        });
        worker.unwrap()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addresses[0]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A connection over which a part of a request has arrived.
    fn half_asked(&self) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").unwrap();
        thread::sleep(Duration::from_millis(100));
        stream
    }

    fn get(&self) -> String {
        get(self.connect())
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs `regatta reload` for the server.
    fn reload(&self) -> Said {
        run(&["reload", "--pid", &self.pid().to_string()])
    }

    /// Ends the server by a signal, in order, and returns its standard error.
    #[track_caller]
    fn ends(self, signal: &str) -> String {
        self.signal(signal);
        let (code, said, _) = self.end();
        assert_eq!(code, Some(0), "{said}");
        said
    }

    /// Waits for the end. Returns the exit code, the standard error, and the duration.
    fn end(mut self) -> (Option<i32>, String, Duration) {
        let start = Instant::now();
        // Read meanwhile: a server that fills the pipe would wait.
        let said = collect(self.child.stderr.take().unwrap());
        eventually("it does not end", || self.child.try_wait().unwrap().is_some());
        let took = start.elapsed();
        let said = said.recv_timeout(PATIENCE).expect("its standard error ends");
        (self.child.wait().unwrap().code(), said, took)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(pid: u32, name: &str) {
    let kill = format!("kill -{name} {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

/// True if the process has ended, reaped or not.
fn is_gone(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_or(true, |stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

/// Waits until this is so, and fails for the given reason if it never is.
#[track_caller]
fn eventually(reason: &str, is_so: impl FnMut() -> bool) {
    until(PATIENCE, reason, is_so);
}

/// Asks for the index over a connection, and returns the answer.
fn get(mut stream: impl Read + Write) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

pub(crate) fn it_says_where_it_listens_serves_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let pid_file = folder.path("pid");
    let set = format!("server.pid_file={pid_file}");
    let root = folder.path("www");
    let listen = ["--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0"];
    let server = Server::start(2, &[&["serve", &root, "--set", &set][..], &listen].concat());
    assert_eq!(server.addresses[1].ip().to_string(), "127.0.0.2");
    assert!(server.get().starts_with("HTTP/1.1 200 OK\r\n"));
    let pid = server.pid();
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), format!("{pid}\n"));
    let worker = server.worker();
    server.ends("TERM");
    assert!(!Path::new(&pid_file).exists());
    assert!(is_gone(worker));
}

pub(crate) fn a_worker_that_dies_is_replaced_at_once() {
    let folder = Folder::new();
    let server = Server::serve(&folder, &[]);
    let first = server.worker();
    signal(first, "KILL");
    let start = Instant::now();
    assert!(server.get().ends_with("hello\n"));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_ne!(server.worker(), first);
    let said = server.ends("TERM");
    let expect = format!("worker 0 (process {first}) was killed by signal 9; replaced in 0 ms");
    assert!(said.contains(&expect), "{said}");
}

pub(crate) fn draining_lets_exchanges_finish_within_its_time() {
    let folder = Folder::new();
    let server = Server::serve(&folder, &[]);
    let mut stream = server.half_asked();
    server.signal("TERM");
    thread::sleep(Duration::from_millis(100));
    stream.write_all(b"\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("hello\n"));
    drop(stream);
    let (code, _, took) = server.end();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(6), "{took:?}");
}

pub(crate) fn draining_ends_when_its_time_is_over() {
    let folder = Folder::new();
    let server = Server::serve(&folder, &["--set", "server.drain_ms_max=300"]);
    let _stream = server.half_asked();
    server.signal("INT");
    let (code, _, took) = server.end();
    assert_eq!(code, Some(0));
    assert!(took >= Duration::from_millis(290) && took < Duration::from_secs(5), "{took:?}");
}

pub(crate) fn a_second_signal_or_a_quit_ends_at_once() {
    for signals in [&["INT", "INT"][..], &["TERM", "TERM"], &["QUIT"]] {
        let folder = Folder::new();
        let server = Server::serve(&folder, &[]);
        let _stream = server.half_asked();
        let worker = server.worker();
        for name in signals {
            server.signal(name);
            // Two at the same time would count as one.
            thread::sleep(Duration::from_millis(300));
        }
        let (code, _, took) = server.end();
        assert_eq!(code, Some(0));
        assert!(took < Duration::from_secs(4), "{took:?}");
        assert!(is_gone(worker));
    }
}

/// The parent may ignore the signals of its children, and that setting is inherited.
pub(crate) fn it_hears_of_its_workers_whatever_started_it() {
    let folder = Folder::new();
    let (program, root) = (program(), folder.path("www"));
    let served = format!("trap '' CHLD; exec {} serve {root}", program.display());
    let line = format!("{served} --listen 127.0.0.1:0 --architecture sped");
    let server = Server::start_program("sh", 1, &["-c", &line]);
    let worker = server.worker();
    signal(worker, "KILL");
    eventually("it is not replaced", || server.worker() != worker);
    assert!(server.get().ends_with("hello\n"));
    server.ends("QUIT");
}

pub(crate) fn a_worker_that_hangs_is_killed_at_the_end() {
    let folder = Folder::new();
    let server = Server::serve(&folder, &["--set", "server.drain_ms_max=0"]);
    let worker = server.worker();
    signal(worker, "STOP");
    let said = server.ends("TERM");
    assert!(said.contains("worker 0 did not end in time: killed"), "{said}");
    assert!(is_gone(worker));
}

pub(crate) fn a_worker_that_says_nothing_is_named() {
    let folder = Folder::new();
    let log = folder.path("error.log");
    let server = Server::serve(&folder, &["--set", &format!("log.error={log}")]);
    let worker = server.worker();
    let says = |part: &str| eventually(part, || fs::read_to_string(&log).unwrap().contains(part));
    assert!(server.get().ends_with("hello\n"));
    signal(worker, "STOP");
    says(&format!("worker 0 (process {worker}) has not answered for "));
    signal(worker, "CONT");
    says(&format!("worker 0 (process {worker}) answers again after "));
    assert!(server.get().ends_with("hello\n"));
}

pub(crate) fn workers_do_not_outlive_their_master() {
    let folder = Folder::new();
    let mut server = Server::serve(&folder, &[]);
    let worker = server.worker();
    assert!(server.get().ends_with("hello\n"));
    server.child.kill().unwrap();
    eventually("it outlives its master", || is_gone(worker));
}

pub(crate) fn started_by_root_it_serves_as_nobody() {
    let ours = fs::read_to_string("/proc/self/status").unwrap();
    if !ours.contains("\nUid:\t0\t") {
        return skip("needs root");
    }
    let folder = Folder::new();
    let server = Server::serve(&folder, &["--set", "limits.idle_ms_max=1s"]);
    assert!(server.get().ends_with("hello\n"));
    let status = fs::read_to_string(format!("/proc/{}/status", server.worker())).unwrap();
    let uid = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    assert!(!uid.split_whitespace().skip(1).any(|number| number == "0"), "{uid}");
    assert!(status.contains("\nCapEff:\t0000000000000000\n"), "{status}");
}

/// The right to read all files serves for keys of certificates, and not for clients, whatever
/// `server.sandbox` says.
pub(crate) fn the_right_to_read_all_files_stays_with_the_master() {
    let folder = Folder::new();
    let mut version = Command::new(program());
    version.arg("--version").uid(65_534).stdout(Stdio::null());
    if !version.status().is_ok_and(|status| status.success()) {
        return skip("needs root, and a program that all users may run");
    }
    let certificate = Authority::new().issue(&["a.test"]).write(&folder.0, "");
    let (root, secret) = (folder.path("www"), folder.path("www/secret.txt"));
    fs::write(&secret, "secret\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    // As the packaged unit does it.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]);
    command.arg(program()).args(["serve", &root, "--architecture", "sped"]);
    command.args(["--listen", "127.0.0.1:0", "--set", "tls.listen=127.0.0.1:0"]);
    command.args(["--set", "server.sandbox=off"]);
    command.arg("--set").arg(format!("tls.certificate={certificate}"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let [clear, sealed] = [(); 2].map(|()| lines.next().expect("an address").unwrap());
    let address = clear.strip_prefix("listening on http://").expect(&clear).parse().unwrap();
    assert!(sealed.starts_with("listening on https://"), "{sealed}");
    let server = Server { child, addresses: vec![address] };
    assert!(server.get().ends_with("hello\n"));
    let mut stream = server.connect();
    stream.write_all(b"GET /secret.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
    let rights = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:\t"));
        line.expect("Linux has it").to_owned()
    };
    assert_eq!(rights(server.pid()), "0000000000000004");
    assert_eq!(rights(server.worker()), "0000000000000000");
}

pub(crate) fn a_simulated_disk_is_told_and_waited_for_by_who_may_know() {
    let folder = Folder::new();
    let root = folder.path("www");
    let ours = fs::read_to_string("/proc/self/status").unwrap();
    if ours.contains("\nUid:\t0\t") {
        let refused = run(&["check", &root, "--set", "lab.disk_heads=1"]);
        assert_eq!(refused.code, Some(2));
        let said = refused.stderr;
        assert!(said.contains("lab.disk_heads: the kernel tells only the owner"), "{said}");
    }
    let sets = ["--user", "root", "--set", "lab.disk_heads=1", "--set", "lab.disk_seek_us=300 ms"];
    let server = Server::serve(&folder, &sets);
    let file = fs::File::open(folder.path("www/index.html")).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    // Not every file system forgets a file.
    let forgets = by_mincore(&StaticFile::adopt(file.into()).unwrap(), 0, 1) == Resident::No;
    let start = Instant::now();
    assert!(server.get().ends_with("hello\n"));
    if !forgets {
        skip("needs a file system that lets go of its files");
    }
    assert!(!forgets || start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
    let said = server.ends("TERM");
    if ours.contains("\nUid:\t0\t") {
        assert!(said.contains("warning[serves-as-root]: serving as root: "), "{said}");
    }
    assert!(said.contains("the disk is simulated in process: lab.disk_heads = 1,"), "{said}");
}

pub(crate) fn logs_are_opened_anew() {
    let folder = Folder::new();
    let log = folder.path("access.log");
    let server = Server::serve(&folder, &["--set", &format!("log.access={log}")]);
    let _ = server.get();
    fs::rename(&log, folder.path("access.1")).unwrap();
    server.signal("USR1");
    eventually("no new log", || Path::new(&log).exists());
    // The worker has the log open once it has passed its bell.
    thread::sleep(Duration::from_millis(200));
    let _ = server.get();
    server.ends("TERM");
    for name in ["access.log", "access.1"] {
        let lines = fs::read_to_string(folder.path(name)).unwrap();
        assert_eq!(lines.matches("\"GET / HTTP/1.1\" 200").count(), 1, "{name}: {lines}");
    }
}

/// The serving user may have planted anything in its own folder of logs: root follows none of it.
pub(crate) fn a_hostile_folder_of_logs_gains_nothing() {
    let folder = Folder::new();
    let (theirs, logs) = (folder.path("root-s"), folder.path("logs"));
    fs::write(&theirs, "root's\n").unwrap();
    fs::create_dir(&logs).unwrap();
    if std::os::unix::fs::chown(&logs, Some(65_534), Some(65_534)).is_err() {
        return skip("needs root");
    }
    let (root, log) = (folder.path("www"), folder.path("logs/x.log"));
    let untouched = || fs::read_to_string(&theirs).unwrap() == "root's\n";
    for key in ["log.access", "log.error"] {
        let set = format!("{key}={log}");
        let command = ["serve", &root, "--listen", "127.0.0.1:0", "--set", &set];
        let refuses = |part: &str| {
            for verb in ["serve", "check"] {
                let output = run(&[&[verb], &command[1..]].concat());
                let said = output.stderr;
                assert_eq!(output.code, Some(2), "{said}");
                assert!(said.contains(&log) && said.contains(part), "{said}");
                assert!(untouched(), "{key}");
            }
        };
        std::os::unix::fs::symlink(&theirs, &log).unwrap();
        refuses("symbolic links are not followed");
        fs::remove_file(&log).unwrap();
        fs::hard_link(&theirs, &log).unwrap();
        refuses("a hard link");
        fs::remove_file(&log).unwrap();
        // Root's own file, which workers may not open, is not passed on to them either.
        fs::write(&log, "").unwrap();
        let output = run(&command);
        assert_eq!(output.code, Some(2));
        let said = output.stderr;
        assert!(said.contains(&format!("`chown nobody {log}`")), "{said}");
        fs::remove_file(&log).unwrap();
    }
    let set = format!("log.access={log}");
    let server = Server::serve(&folder, &["--set", &set]);
    let _ = server.get();
    fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink(&theirs, &log).unwrap();
    server.signal("USR1");
    thread::sleep(Duration::from_millis(200));
    signal(server.worker(), "KILL");
    let _ = server.get();
    let said = server.ends("TERM");
    let expect =
        format!("still logging to the old file: log.access: cannot open {log} for appending: ");
    assert!(said.contains(&expect), "{said}");
    assert!(said.contains("lines are dropped until SIGUSR1"), "{said}");
    assert!(untouched());
}

/// Root has more than its own servers to choose from.
pub(crate) fn top_of_root_counts_the_servers_of_other_users() {
    let folder = Folder::new();
    let args = ["serve", &folder.path("www"), "--listen", "127.0.0.1:0"];
    let Ok(mut child) = Command::new(program())
        .args(args)
        .uid(65_534)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
    else {
        return skip("needs root");
    };
    let _ = BufReader::new(child.stdout.take().unwrap()).lines().next();
    let server = Server { child, addresses: Vec::new() };
    let pid = server.pid().to_string();
    let top = |more: &[&str]| run(&[&["top", "--once", "--interval", "0"], more].concat());
    let unasked = top(&[]);
    // Alone it is shown. If others run, it is in their list.
    let (shown, listed) = (&unasked.stdout, &unasked.stderr);
    assert!(shown.contains(&pid) || listed.contains(&format!("--pid {pid} ")), "{unasked:?}");
    let asked = top(&["--pid", &pid]);
    assert!(asked.stdout.starts_with(&format!("symped {pid} ")), "{asked:?}");
}

pub(crate) fn nobody_needs_to_read_what_it_prints() {
    let folder = Folder::new();
    let mut server = Server::serve(&folder, &["--set", "log.access=-"]);
    drop(server.child.stderr.take());
    for _ in 0..3 {
        assert!(server.get().ends_with("hello\n"));
        signal(server.worker(), "KILL");
    }
    assert!(server.get().ends_with("hello\n"));
    server.signal("TERM");
    eventually("it does not end", || server.child.try_wait().unwrap().is_some());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

pub(crate) fn all_problems_are_listed_and_nothing_is_started() {
    let folder = Folder::new();
    let config = folder.path("r.toml");
    fs::write(&config, "[limits]\nidel_ms_max = 1\n[server]\nroot = \"nowhere\"\n").unwrap();
    let pid = format!("server.pid_file={}", folder.path("pid"));
    for command in ["serve", "check"] {
        let output =
            run(&[command, "--config", &config, "--listen", "80", "--set", "x.y=1", "--set", &pid]);
        assert_eq!(output.code, Some(2));
        assert_eq!(output.stdout, "");
        let said = output.stderr;
        for expect in [
            "r.toml:2:1: unknown option limits.idel_ms_max\n  hint: did you mean limits.idle",
            "r.toml:4:8: server.root: there is no \"nowhere\"",
            "--listen: server.listen: \"80\": an address has a host and a port",
            "--set x.y=1: unknown option x.y",
            "4 problems; nothing has been started",
        ] {
            assert!(said.contains(expect), "{command}: {said}");
        }
        assert!(!Path::new(&folder.path("pid")).exists());
    }
    let root = folder.path("www");
    assert_eq!(run(&["check", &root]).code, Some(0));
    assert_eq!(run(&["serve", "--frobnicate"]).code, Some(2));
}

pub(crate) fn an_address_that_is_taken_is_a_failure() {
    let folder = Folder::new();
    let server = Server::serve(&folder, &[]);
    let root = folder.path("www");
    let output = run(&["serve", &root, "--listen", &server.addresses[0].to_string()]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("another process has it"));
    assert_eq!(output.stdout, "");
}

pub(crate) fn a_printed_configuration_is_one() {
    let folder = Folder::new();
    let sets = ["--set", "limits.idle_ms_max=3 s", "--set", "content.index=a.html,b.html"];
    let first = run(&[&["serve", "--print-config"][..], &sets].concat());
    assert_eq!(first.code, Some(0));
    assert!(first.stdout.contains("\nidle_ms_max = 3000\n"));
    let config = folder.path("r.toml");
    fs::write(&config, &first.stdout).unwrap();
    let again = run(&["serve", "--config", &config, "--print-config"]);
    assert_eq!(again.stdout, first.stdout);
}

pub(crate) fn explanations_and_lists() {
    let folder = Folder::new();
    let root = folder.path("www");
    let output = run(&["explain", "GET", "/", "-H", "accept-encoding: br", &root]);
    let said = output.stdout;
    for expect in ["\"index.html\"", "a file of 6 bytes\n", "\n\nHTTP/1.1 200 OK\n"] {
        assert!(said.contains(expect), "{said}");
    }
    let forwarded = ["--set", "server.forwarded=x-forwarded-for", "--set", "server.trusted=unix:"];
    let named = ["--from", "unix:", "-H", "X-Forwarded-For: 192.0.2.7"];
    let asks = ["explain", "GET", "/", &root, "--set", "limits.client_rate=5"];
    let output = run(&[&asks[..], &forwarded, &named].concat());
    let expect = "client: 192.0.2.7, as X-Forwarded-For says; unix: is trusted\n\
                  limits: limits.client_rate = 5\nrequest: ";
    assert!(output.stdout.starts_with(expect), "{output:?}");
    let output = run(&["explain", "GET", "/", "--from", "nobody", &root]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("as in 192.0.2.7, or unix:"), "{output:?}");
    assert!(run(&["architectures"]).stdout.contains("\n  sped "));
    assert!(run(&["architectures", "--json"]).stdout.contains("\"name\": \"sped\""));
}
