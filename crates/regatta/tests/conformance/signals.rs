//! Signals that do not end a server, its user, and its output.

use crate::harness::{status_of, uid_of};
use crate::prelude::*;

pub(crate) fn one_line_for_each_address(variant: &Variant) {
    let server = Launch::new(variant, common()).listen("127.0.0.1:0").start();
    let [one, two] = server.addresses() else { panic!("{:?}", server.addresses()) };
    assert_ne!(one, two);
    for address in [one, two] {
        assert_ne!(address.port(), 0);
        server.connect_to(*address).get("/small.txt").expect(200);
    }
    // Copies with separate ports print theirs too.
    for _ in 2..2 * variant.ports() {
        let line = server.stdout_line(PATIENCE).expect("one line for each port");
        let address = line.strip_prefix("listening on ").and_then(|line| line.split_once("://"));
        let Some(Ok(address)) = address.map(|(_, address)| address.parse()) else {
            panic!("stdout said {line:?}")
        };
        server.connect_to(address).get("/small.txt").expect(200);
    }
    assert_eq!(server.stdout_line(Duration::from_millis(100)), None, "and nothing else");
}

pub(crate) fn accepts_when_it_says_so(variant: &Variant) {
    for _ in 0..5 {
        let server = start(variant);
        server.connect().get("/small.txt").expect(200);
    }
}

/// A server of a small site, and its configuration with one option, which can be replaced.
fn with_nosniff(variant: &Variant) -> (Site, PathBuf, Server) {
    let site = Site::with(&[("file.txt", "text")]);
    let config = site.configure("[content]\nnosniff = true\n");
    let server = Launch::new(variant, &site.root()).config(&config).start();
    (site, config, server)
}

/// A folder for logs that the serving user may write.
fn folder_of_logs(site: &Site) -> PathBuf {
    let folder = site.beside("logs");
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("ours");
    folder
}

pub(crate) fn hangup_reloads_or_says_why_not(variant: &Variant) {
    let (_site, config, server) = with_nosniff(variant);
    let get = || server.connect().get("/file.txt").expect(200);
    assert!(get().field("X-Content-Type-Options").is_some());
    fs::write(&config, "[content]\nnosniff = false\n").expect("a file");
    server.signal(Signal::HUP);
    soon(|| get().field("X-Content-Type-Options").is_none());
}

pub(crate) fn hangup_with_an_error_changes_nothing(variant: &Variant) {
    let (_site, config, mut server) = with_nosniff(variant);
    fs::write(&config, "[content]\nnosniff = 17\nnonsense = [\n").expect("a file");
    server.signal(Signal::HUP);
    server.says("regatta.toml:");
    for _ in 0..10 {
        let answer = server.connect().get("/file.txt").expect(200);
        assert!(answer.field("X-Content-Type-Options").is_some(), "{answer:?}");
    }
    assert!(server.exit_within(Duration::ZERO).is_none(), "ended: {}", server.stderr());
}

pub(crate) fn usr1_reopens_the_log(variant: &Variant) {
    let site = Site::with(&[("file.txt", "text")]);
    let folder = folder_of_logs(&site);
    let (log, old) = (folder.join("access.log"), folder.join("access.log.1"));
    let mut server = Launch::new(variant, &site.root()).log(&log).start();
    let has =
        |path: &Path, word: &str| fs::read_to_string(path).is_ok_and(|text| text.contains(word));
    server.connect().get("/file.txt?before").expect(200);
    fs::rename(&log, &old).expect("a rename");
    server.connect().get("/file.txt?between").expect(200);
    server.signal(Signal::USR1);
    soon(|| log.exists());
    // The master makes the log and the workers write it; each worker gets it in its time.
    comes_to(|| holds(&server, &folder, &["access.log"]), Vec::is_empty);
    server.connect().get("/file.txt?after").expect(200);
    // The end writes all waiting lines, sooner than their age would.
    server.end(Signal::TERM);
    assert!(has(&log, "?after"), "no line in the new log");
    let is_somewhere = |word| has(&log, word) || has(&old, word);
    assert!(is_somewhere("?before") && is_somewhere("?between"), "a line is lost");
    assert!(!has(&old, "?after"), "the old log goes on");
}

/// Files of this folder that have been renamed or deleted and that a process of the server, helpers
/// included, still has open.
fn holds(server: &Server, folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    let processes = server.processes().into_iter();
    let processes = processes.flat_map(|pid| [vec![pid], children(pid)].concat());
    let links = processes.flat_map(|pid| descriptors(pid).into_values());
    let of_now: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    links.filter(|link| link.starts_with(folder) && !of_now.contains(link)).collect()
}

/// After a rotation no process has the old logs open, renamed or deleted: their space is free.
pub(crate) fn usr1_lets_go_of_the_old_logs(variant: &Variant) {
    let site = Site::with(&[("file.txt", "text")]);
    let folder = folder_of_logs(&site);
    let names = ["access.log", "error.log"];
    let launch = Launch::new(variant, &site.root()).log(&folder.join(names[0]));
    let server = launch.set_path("log.error", &folder.join(names[1])).start();
    // More than two: a worker may look for the new file before the master has passed it on.
    for round in 0..6 {
        server.connect().get("/file.txt").expect(200);
        for name in names {
            let path = folder.join(name);
            match round % 2 {
                0 => fs::rename(&path, folder.join(format!("{name}.1"))).expect("a rename"),
                _ => fs::remove_file(&path).expect("a file"),
            }
        }
        server.signal(Signal::USR1);
        comes_to(|| (round, holds(&server, &folder, &names)), |(_, held)| held.is_empty());
        assert!(names.iter().all(|name| folder.join(name).exists()), "{round}: not made anew");
    }
}

pub(crate) fn other_signals_end_nothing(variant: &Variant) {
    let mut server = start(variant);
    for signal in [Signal::ALARM, Signal::PIPE, Signal::WINCH, Signal::CHILD] {
        server.signal(signal);
    }
    server.says("warning[signal-ignored]: SIGALRM has no meaning here and was ignored");
    server.connect().get("/small.txt").expect(200);
    assert!(server.exit_within(Duration::ZERO).is_none());
}

/// Only the master acts on signals: a Ctrl-C reaches both and ends the server once.
pub(crate) fn workers_leave_signals_to_their_master(variant: &Variant) {
    let mut server = start(variant);
    let workers = server.processes().split_off(1);
    use Signal as S;
    for signal in [S::TERM, S::INT, S::HUP, S::USR1, S::USR2, S::ALARM, S::PIPE] {
        workers.iter().for_each(|worker| kill(*worker, signal));
    }
    thread::sleep(Duration::from_millis(50));
    server.connect().get("/small.txt").expect(200);
    assert_eq!(server.processes()[1..], workers, "a worker has been replaced");
    assert!(server.exit_within(Duration::ZERO).is_none());
}

/// Started as root, workers run as an unprivileged user; started as another, they stay that.
pub(crate) fn workers_are_not_root(variant: &Variant) {
    let server = start(variant);
    server.connect().get("/small.txt").expect(200);
    let own = rustix::process::getuid();
    let expected = if own.is_root() { nobody() } else { own.as_raw().to_string() };
    for worker in server.workers() {
        assert_eq!(uid_of(worker), [expected.as_str(); 4].join(" "), "worker {worker}");
    }
}

fn nobody() -> String {
    let users = fs::read_to_string("/etc/passwd").expect("users");
    let line = users.lines().find(|line| line.starts_with("nobody:")).expect("nobody");
    line.split(':').nth(2).expect("an id").to_owned()
}

pub(crate) fn workers_have_no_capabilities(variant: &Variant) {
    let server = start(variant);
    for worker in server.workers() {
        let sets = ["CapEff", "CapPrm"].map(|name| status_of(worker, name));
        assert_eq!(sets, [(); 2].map(|()| "0".repeat(16)), "worker {worker}");
    }
}

pub(crate) fn unreadable_root_is_an_error(variant: &Variant) {
    let site = Site::with(&[("file.txt", "text")]);
    let is_root = rustix::process::getuid().is_root();
    site.mode("", if is_root { 0o700 } else { 0 });
    let root = &*site.root_text();
    let args = ["serve", root, "--listen", "127.0.0.1:0", "--architecture", variant.architecture];
    let said = ends_with(2, &args);
    if is_root {
        assert!(!said.stdout.contains("listening"), "{said:?}");
        // Who may not read it.
        said.names(&[root, "nobody"]);
    }
    site.mode("", 0o755);
}

pub(crate) fn pid_file(variant: &Variant) {
    let site = Site::with(&[("file.txt", "text")]);
    let path = site.beside("regatta.pid");
    let set = format!("server.pid_file={}", path.display());
    let mut server = Launch::new(variant, &site.root()).set(&*set).start();
    let text = fs::read_to_string(&path).expect("a pid file");
    assert_eq!(text.trim(), server.pid().to_string());
    // Another server does not take it over, and names its owner.
    let args = ["serve", &site.root_text(), "--listen", "127.0.0.1:0", "--set", &set];
    let whose = format!("it is of the server that runs as process {}", server.pid());
    ends_with(2, &args).names(&[&whose]);
    assert_eq!(fs::read_to_string(&path).expect("a pid file"), text);
    server.end(Signal::TERM);
    assert!(!path.exists(), "the pid file is left behind");
    // The target of a link is not written to.
    let theirs = site.beside("theirs");
    fs::write(&theirs, "theirs").expect("a file");
    symlink(&theirs, &path).expect("a link");
    ends_with(2, &args).names(&["symbolic links"]);
    assert_eq!(fs::read_to_string(&theirs).expect("a file"), "theirs");
}

pub(crate) fn a_port_in_use_is_an_error(variant: &Variant) {
    let server = start(variant);
    let (root, address) = (common_text(), server.address().to_string());
    let args = ["serve", root, "--listen", &address, "--architecture", variant.architecture];
    let said = ends_with(1, &args);
    said.names(&[&address, "another process has it"]);
    assert_eq!(said.stdout, "", "{said:?}");
    server.connect().get("/small.txt").expect(200);
}
