//! The program from outside: its output, its end, and its remains.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod admin;
mod children;
mod given;
mod sockets;

use crate::harness::status_of;
use crate::prelude::*;
use crate::runner::{Tests, cases};
use crate::slow_disk::evict;
use regatta_sys::{Resident, StaticFile, by_mincore};
use std::os::unix::{
    net::{UnixListener, UnixStream},
    process::CommandExt,
};
use std::process::{Command, Stdio};

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

/// A site with an index.
fn site() -> Site {
    Site::with(&[("index.html", "hello\n")])
}

/// A server with one worker: it is certain which one dies.
fn launch(site: &Site) -> Launch {
    Launch::new(&Variant::plain("sped"), &site.root())
}

/// The same with these settings, running.
fn start(site: &Site, settings: &[&str]) -> Server {
    launch(site).sets(settings).start()
}

/// A path to listen at, as options name it.
fn place(path: &Path) -> String {
    format!("unix:{}", path.display())
}

/// Fails unless an answer is the index.
#[track_caller]
fn is_index(answer: &Answer) {
    let found = (answer.status, &*answer.reason, &*answer.body);
    assert_eq!(found, (200, "OK", &b"hello\n"[..]), "{answer:?}");
}

/// Fails unless a client gets the index.
#[track_caller]
fn gets_index(mut client: Client) {
    is_index(&client.get("/"));
}

/// A client, a part of whose head has arrived.
fn half_asked(server: &Server) -> Client {
    let client = server.asked("GET / HTTP/1.1\r\nHost: a\r\n");
    thread::sleep(Duration::from_millis(100));
    client
}

/// The first child of the master that is none of these, once there is one.
#[track_caller]
fn child(server: &Server, but: &[u32]) -> u32 {
    let found = || children(server.pid()).into_iter().find(|pid| !but.contains(pid));
    comes_to(found, Option::is_some).expect("it was found")
}

pub(crate) fn it_says_where_it_listens_serves_and_leaves_nothing_behind() {
    let site = site();
    let file = site.beside("pid");
    let mut server = launch(&site).listen("127.0.0.2:0").set_path("server.pid_file", &file).start();
    assert_eq!(server.addresses()[1].ip().to_string(), "127.0.0.2");
    gets_index(server.connect());
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{}\n", server.pid()));
    let worker = worker(&server);
    assert!(server.end(Signal::TERM).success());
    assert!(!file.exists() && !alive(worker));
}

/// The parent may ignore the signals of its children, and that setting is inherited.
pub(crate) fn a_worker_that_dies_is_replaced_at_once() {
    for before in ["true", "trap '' CHLD"] {
        let site = site();
        let mut server = launch(&site).after(before).start();
        let first = worker(&server);
        kill(first, Signal::KILL);
        let begin = Instant::now();
        gets_index(server.connect());
        assert!(begin.elapsed() < Duration::from_secs(2), "{before}: {:?}", begin.elapsed());
        assert_ne!(worker(&server), first);
        assert!(server.end(Signal::TERM).success(), "{before}");
        let killed = format!("worker 0 (process {first}) was killed by signal 9; replaced in 0 ms");
        server.says(&killed);
    }
}

pub(crate) fn draining_lets_exchanges_finish_within_its_time() {
    let site = site();
    let mut server = start(&site, &[]);
    let mut client = half_asked(&server);
    server.signal(Signal::TERM);
    thread::sleep(Duration::from_millis(100));
    client.send("\r\n");
    is_index(&client.answer("GET"));
    drop(client);
    let status = server.exit_within(Duration::from_secs(6));
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

pub(crate) fn draining_ends_when_its_time_is_over() {
    let site = site();
    let mut server = start(&site, &["server.drain_ms_max=300"]);
    let _client = half_asked(&server);
    let begin = Instant::now();
    assert!(server.end(Signal::INT).success());
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(290) && took < Duration::from_secs(5), "{took:?}");
}

pub(crate) fn a_second_signal_or_a_quit_ends_at_once() {
    use Signal as S;
    for signals in [&[S::INT, S::INT][..], &[S::TERM, S::TERM], &[S::QUIT]] {
        let site = site();
        let mut server = start(&site, &[]);
        let _client = half_asked(&server);
        let worker = worker(&server);
        for signal in signals {
            server.signal(*signal);
            // Two at the same time would count as one.
            thread::sleep(Duration::from_millis(300));
        }
        let status = server.exit_within(Duration::from_secs(4));
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
        assert!(!alive(worker));
    }
}

pub(crate) fn a_worker_that_hangs_is_killed_at_the_end() {
    let site = site();
    let mut server = start(&site, &["server.drain_ms_max=0"]);
    let worker = worker(&server);
    halt(worker);
    assert!(server.end(Signal::TERM).success());
    server.says("worker 0 did not end in time: killed");
    assert!(!alive(worker));
}

pub(crate) fn a_worker_that_says_nothing_is_named() {
    let site = site();
    let server = start(&site, &[]);
    let worker = worker(&server);
    gets_index(server.connect());
    halt(worker);
    server.says(&format!("worker 0 (process {worker}) has not answered for "));
    kill(worker, Signal::CONT);
    server.says(&format!("worker 0 (process {worker}) answers again after "));
    gets_index(server.connect());
}

/// Arguments of setpriv(1) that start the program as a user without rights.
const AS_NOBODY: &str = "--reuid=65534 --regid=65534 --clear-groups \"$0\" \"$@\"";

/// Whether another user may run the program here. Reports it if not.
fn may_run_as_nobody() -> bool {
    let mut version = Command::new(program());
    version.arg("--version").uid(65_534).stdout(Stdio::null());
    let may = version.status().is_ok_and(|status| status.success());
    if !may {
        skip("needs root, and a program that all users may run");
    }
    may
}

/// The right to read all files serves for keys of certificates, and not for clients, whatever
/// `server.sandbox` says.
pub(crate) fn the_right_to_read_all_files_stays_with_the_master() {
    if !may_run_as_nobody() {
        return;
    }
    let site = site();
    site.put("secret.txt", "secret\n");
    site.mode("secret.txt", 0o600);
    // As the packaged unit does it.
    let rights = "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search";
    let launch = launch(&site).after(format!("exec setpriv {rights} {AS_NOBODY}"));
    let launch = launch.sets(&["server.sandbox=off", "tls.listen=127.0.0.1:0"]);
    let server = launch.set(format!("tls.certificate={}", identity().certificate)).start();
    let sealed = server.stdout_line(PATIENCE).expect("an address");
    assert!(sealed.starts_with("listening on https://"), "{sealed}");
    gets_index(server.connect());
    server.connect().get("/secret.txt").expect(403);
    assert_eq!(status_of(server.pid(), "CapPrm"), "0000000000000004");
    assert_eq!(status_of(worker(&server), "CapPrm"), "0000000000000000");
}

pub(crate) fn a_simulated_disk_is_told_and_waited_for_by_who_may_know() {
    let site = site();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        let said = ends_with(2, &["check", &site.root_text(), "--set", "lab.disk_heads=1"]);
        said.names(&["lab.disk_heads: the kernel tells only the owner"]);
    }
    let launch = launch(&site).arg("--user").arg("root");
    let mut server = launch.sets(&["lab.disk_heads=1", "lab.disk_seek_us=300 ms"]).start();
    evict(&site, "index.html", 0);
    let file = File::open(site.path("index.html")).unwrap();
    // Not every file system forgets a file.
    let forgets = by_mincore(&StaticFile::adopt(file.into()).unwrap(), 0, 1) == Resident::No;
    let begin = Instant::now();
    gets_index(server.connect());
    if !forgets {
        skip("needs a file system that lets go of its files");
    }
    assert!(!forgets || begin.elapsed() >= Duration::from_millis(300), "{:?}", begin.elapsed());
    assert!(server.end(Signal::TERM).success());
    if is_root {
        server.says("warning[serves-as-root]: serving as root: ");
    }
    server.says("the disk is simulated in process: lab.disk_heads = 1,");
}

pub(crate) fn logs_are_opened_anew() {
    let site = site();
    let [log, old] = ["access.log", "access.1"].map(|name| site.beside(name));
    let mut server = launch(&site).log(&log).start();
    gets_index(server.connect());
    fs::rename(&log, &old).unwrap();
    server.signal(Signal::USR1);
    soon(|| log.exists());
    // The worker has the log open once it has passed its bell.
    thread::sleep(Duration::from_millis(200));
    gets_index(server.connect());
    assert!(server.end(Signal::TERM).success());
    for path in [log, old] {
        let lines = fs::read_to_string(&path).unwrap();
        assert_eq!(lines.matches("\"GET / HTTP/1.1\" 200").count(), 1, "{path:?}: {lines}");
    }
}

/// The serving user may have planted anything in its own folder of logs: root follows none of it.
pub(crate) fn a_hostile_folder_of_logs_gains_nothing() {
    let site = site();
    let (theirs, logs) = (site.beside("root-s"), site.beside("logs"));
    fs::write(&theirs, "root's\n").unwrap();
    fs::create_dir(&logs).unwrap();
    if std::os::unix::fs::chown(&logs, Some(65_534), Some(65_534)).is_err() {
        return skip("needs root");
    }
    let (root, log) = (site.root_text(), logs.join("x.log"));
    let shown = log.display().to_string();
    let untouched = || fs::read_to_string(&theirs).unwrap() == "root's\n";
    for key in ["log.access", "log.error"] {
        let set = format!("{key}={shown}");
        let refuse = |verbs: &[&str], part: &str| {
            for verb in verbs {
                let said = ends_with(2, &[*verb, &root, "--listen", "127.0.0.1:0", "--set", &set]);
                said.names(&[&shown, part]);
                assert!(untouched(), "{key}");
            }
            fs::remove_file(&log).unwrap();
        };
        symlink(&theirs, &log).unwrap();
        refuse(&["serve", "check"], "symbolic links are not followed");
        fs::hard_link(&theirs, &log).unwrap();
        refuse(&["serve", "check"], "a hard link");
        // Root's own file, which workers may not open, is not passed on to them either.
        fs::write(&log, "").unwrap();
        refuse(&["serve"], &format!("`chown nobody {shown}`"));
    }
    let mut server = launch(&site).log(&log).start();
    gets_index(server.connect());
    fs::remove_file(&log).unwrap();
    symlink(&theirs, &log).unwrap();
    server.signal(Signal::USR1);
    thread::sleep(Duration::from_millis(200));
    kill(worker(&server), Signal::KILL);
    gets_index(server.connect());
    assert!(server.end(Signal::TERM).success());
    let fault = format!("log.access: cannot open {shown} for appending: ");
    server.says(&format!("still logging to the old file: {fault}"));
    server.says("lines are dropped until SIGUSR1");
    assert!(untouched());
}

/// Root has more than its own servers to choose from.
pub(crate) fn top_of_root_counts_the_servers_of_other_users() {
    if !may_run_as_nobody() {
        return;
    }
    let site = site();
    let launch = Launch::new(&Variant::plain("symped"), &site.root());
    let server = launch.after(format!("exec setpriv {AS_NOBODY}")).start();
    let pid = server.pid();
    let unasked = run(&["top", "--once", "--interval", "0"]);
    // Alone it is shown. If others run, it is in their list.
    let is_listed = unasked.stderr.contains(&format!("--pid {pid} "));
    assert!(is_listed || unasked.stdout.contains(&pid.to_string()), "{unasked:?}");
    let asked = server.page(&[]);
    assert!(asked.starts_with(&format!("symped {pid} ")), "{asked}");
}

pub(crate) fn nobody_needs_to_read_what_it_prints() {
    let site = site();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut server = launch(&site).set("log.access=-").stderr(writer.into()).start();
    drop(reader);
    for _ in 0..3 {
        gets_index(server.connect());
        kill(child(&server, &[]), Signal::KILL);
    }
    gets_index(server.connect());
    assert!(server.end(Signal::TERM).success());
}

pub(crate) fn all_problems_are_listed_and_nothing_is_started() {
    let site = Site::new();
    let text = "[limits]\nidel_ms_max = 1\n[server]\nroot = \"nowhere\"\n";
    let (config, pid) = (site.configure(text).display().to_string(), site.beside("pid"));
    let set = format!("server.pid_file={}", pid.display());
    for command in ["serve", "check"] {
        let args = ["--config", &config, "--listen", "80", "--set", "x.y=1", "--set", &set];
        let said = ends_with(2, &[&[command], &args[..]].concat());
        assert_eq!(said.stdout, "");
        said.names(&[
            "regatta.toml:2:1: unknown option limits.idel_ms_max\n  hint: did you mean limits.idle",
            "regatta.toml:4:8: server.root: there is no \"nowhere\"",
            "--listen: server.listen: \"80\": an address has a host and a port",
            "--set x.y=1: unknown option x.y",
            "4 problems; nothing has been started",
        ]);
        assert!(!pid.exists());
    }
}
