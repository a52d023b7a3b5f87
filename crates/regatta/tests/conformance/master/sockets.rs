//! Unix sockets to listen on: permission to connect, and removal of the file.
use super::*;
use std::os::unix::fs::MetadataExt;

/// Fails unless a client of the socket gets the index.
#[track_caller]
fn serves(path: &Path) {
    gets_index(Client::connect_to_path(path));
}

pub(crate) fn a_path_is_listened_on_until_the_end() {
    let site = site();
    let (path, log) = (site.beside("socket"), site.beside("log"));
    // Like the leftover of a killed server.
    drop(UnixListener::bind(&path).unwrap());
    let launch = launch(&site).arg("--listen").arg(place(&path)).log(&log);
    let mut server = launch.set("server.socket_mode=0640").start();
    serves(&path);
    gets_index(server.connect());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let other = ends_with(1, &["serve", &site.root_text(), "--listen", &place(&path)]);
    other.names(&[&format!("`ss -lxp src {}`", path.display())]);
    serves(&path);
    assert!(server.end(Signal::TERM).success());
    assert!(!path.exists());
    let logged = fs::read_to_string(&log).unwrap();
    assert_eq!(logged.lines().filter(|line| line.starts_with("unix: - - [")).count(), 2);
}

pub(crate) fn a_socket_that_is_left_behind_is_replaced_and_no_other_is_removed() {
    let site = site();
    let path = site.beside("socket");
    let start = || launch(&site).arg("--listen").arg(place(&path)).start();
    let killed = start();
    let worker = worker(&killed);
    killed.signal(Signal::KILL);
    soon(|| !alive(worker));
    assert!(path.exists());
    let mut server = start();
    serves(&path);
    fs::remove_file(&path).unwrap();
    let _another = UnixListener::bind(&path).unwrap();
    assert!(server.end(Signal::TERM).success());
    assert!(path.exists(), "it is another's");
}

pub(crate) fn a_reload_keeps_the_paths_that_stay() {
    let site = site();
    let [stays, goes, comes] = ["stays", "goes", "comes"].map(|name| site.beside(name));
    // Each process has a separate listener of the socket, and then there are fewer.
    let say = |other: &Path, mode: &str, processes: u32| {
        let (root, listen) = (site.root(), ["127.0.0.1:0", &place(&stays), &place(other)]);
        site.configure(format!(
            "[server]\nroot = {root:?}\nsocket_mode = \"{mode}\"\nlisten = {listen:?}\n\
             [event]\nlisten = \"reuseport\"\nprocesses = {processes}\n"
        ))
    };
    let config = say(&goes, "0666", 2);
    let mut server = Launch::for_program(&program()).config(&config).listens(1).start();
    serves(&stays);
    serves(&goes);
    let inode = fs::metadata(&stays).unwrap().ino();
    say(&comes, "0600", 1);
    server.asks("reload", 0);
    serves(&stays);
    serves(&comes);
    soon(|| !goes.exists());
    // Its socket has not ended with the others.
    serves(&stays);
    let found = fs::metadata(&stays).unwrap();
    assert_eq!((found.ino(), found.permissions().mode() & 0o777), (inode, 0o600));
    assert!(server.end(Signal::TERM).success());
    assert!(!stays.exists() && !comes.exists());
}

/// Another program has taken the path since: that alone makes its socket another's.
pub(crate) fn a_reload_takes_no_socket_of_another_program() {
    let site = site();
    let path = site.beside("socket");
    let mut server = launch(&site).arg("--listen").arg(place(&path)).start();
    serves(&path);
    fs::remove_file(&path).unwrap();
    let _another = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let found = || {
        let facts = fs::metadata(&path).unwrap();
        (facts.mode(), facts.uid(), facts.ino())
    };
    let before = found();
    server.asks("reload", 0);
    gets_index(server.connect());
    assert_eq!(found(), before);
    assert!(server.end(Signal::TERM).success());
    assert_eq!(found(), before, "it is another's");
}

/// An unchanged file need not be written again: a disk may be full by now.
pub(crate) fn a_reload_does_not_write_the_number_of_the_server_again() {
    let site = site();
    let path = site.beside("pid");
    let mut server = launch(&site).set_path("server.pid_file", &path).start();
    let found = || {
        let facts = fs::metadata(&path).unwrap();
        (facts.ino(), facts.mtime_nsec())
    };
    let before = found();
    server.asks("reload", 0);
    assert_eq!(found(), before);
    assert!(server.end(Signal::TERM).success());
    assert!(!path.exists());
}
