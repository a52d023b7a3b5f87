//! Unix sockets to listen on: permission to connect, and removal of the file.
use super::*;
use std::os::unix::{
    fs::{MetadataExt, PermissionsExt},
    net::{UnixListener, UnixStream},
};

/// Answer to a request for the index over the socket.
fn get(path: &str) -> String {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    super::get(stream)
}

pub(crate) fn a_path_is_listened_on_until_the_end() {
    let folder = Folder::new();
    let (path, log) = (folder.path("socket"), folder.path("log"));
    // Like the leftover of a killed server.
    drop(UnixListener::bind(&path).unwrap());
    let (listen, access) = (format!("unix:{path}"), format!("log.access={log}"));
    let more = ["--listen", &listen, "--set", &access, "--set", "server.socket_mode=0640"];
    let server = Server::serve(&folder, &more);
    assert!(get(&path).ends_with("hello\n") && server.get().ends_with("hello\n"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let other = run(&["serve", &folder.path("www"), "--listen", &listen]);
    assert_eq!(other.code, Some(1));
    assert!(other.stderr.contains(&format!("`ss -lxp src {path}`")), "{other:?}");
    assert!(get(&path).ends_with("hello\n"), "it was left alone");
    server.ends("TERM");
    assert!(!Path::new(&path).exists());
    let logged = fs::read_to_string(&log).unwrap();
    assert_eq!(logged.lines().filter(|line| line.starts_with("unix: - - [")).count(), 2);
}

pub(crate) fn a_socket_that_is_left_behind_is_replaced_and_no_other_is_removed() {
    let folder = Folder::new();
    let path = folder.path("socket");
    let listen = format!("unix:{path}");
    let mut killed = Server::serve(&folder, &["--listen", &listen]);
    let worker = killed.worker();
    killed.child.kill().unwrap();
    eventually("it listens still", || is_gone(worker));
    assert!(Path::new(&path).exists());
    let server = Server::serve(&folder, &["--listen", &listen]);
    assert!(get(&path).ends_with("hello\n"));
    fs::remove_file(&path).unwrap();
    let _another = UnixListener::bind(&path).unwrap();
    server.ends("TERM");
    assert!(Path::new(&path).exists(), "it is another's");
}

pub(crate) fn a_reload_keeps_the_paths_that_stay() {
    let folder = Folder::new();
    let [stays, goes, comes] = ["stays", "goes", "comes"].map(|name| folder.path(name));
    let config = folder.path("regatta.toml");
    // Each process has a separate listener of the socket, and then there are fewer.
    let say = |other: &str, mode: &str, processes: u32| {
        let root = folder.path("www");
        let text = format!(
            "[server]\nroot = \"{root}\"\nsocket_mode = \"{mode}\"\n\
             listen = [\"127.0.0.1:0\", \"unix:{stays}\", \"unix:{other}\"]\n\
             [event]\nlisten = \"reuseport\"\nprocesses = {processes}\n"
        );
        fs::write(&config, text).unwrap();
    };
    say(&goes, "0666", 2);
    let server = Server::start(1, &["serve", "--config", &config]);
    assert!(get(&stays).ends_with("hello\n") && get(&goes).ends_with("hello\n"));
    let inode = fs::metadata(&stays).unwrap().ino();
    say(&comes, "0600", 1);
    let reloaded = server.reload();
    if reloaded.code != Some(0) {
        server.signal("TERM");
        panic!("{reloaded:?} {:?}", server.end());
    }
    assert!(get(&stays).ends_with("hello\n") && get(&comes).ends_with("hello\n"));
    eventually("it is configured no more", || !Path::new(&goes).exists());
    assert!(get(&stays).ends_with("hello\n"), "its socket has not ended with the others");
    let found = fs::metadata(&stays).unwrap();
    assert_eq!((found.ino(), found.permissions().mode() & 0o777), (inode, 0o600));
    server.ends("TERM");
    assert!(!Path::new(&stays).exists() && !Path::new(&comes).exists());
}

/// Another program has taken the path since: that alone makes its socket another's.
pub(crate) fn a_reload_takes_no_socket_of_another_program() {
    let folder = Folder::new();
    let (path, log) = (folder.path("socket"), folder.path("log"));
    let (listen, errors) = (format!("unix:{path}"), format!("log.error={log}"));
    let server = Server::serve(&folder, &["--listen", &listen, "--set", &errors]);
    assert!(get(&path).ends_with("hello\n"));
    fs::remove_file(&path).unwrap();
    let _another = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let before = fs::metadata(&path).unwrap();
    let reload = server.reload();
    assert_eq!(reload.code, Some(0), "{}", fs::read_to_string(&log).unwrap());
    assert!(server.get().ends_with("hello\n"));
    let after = fs::metadata(&path).unwrap();
    let of = |facts: &fs::Metadata| (facts.mode(), facts.uid(), facts.ino());
    assert_eq!(of(&after), of(&before));
    server.ends("TERM");
    assert_eq!(of(&fs::metadata(&path).unwrap()), of(&before), "it is another's");
}

/// An unchanged file need not be written again: a disk may be full by now.
pub(crate) fn a_reload_does_not_write_the_number_of_the_server_again() {
    let folder = Folder::new();
    let (path, log) = (folder.path("pid"), folder.path("log"));
    let sets = [format!("server.pid_file={path}"), format!("log.error={log}")];
    let server = Server::serve(&folder, &["--set", &sets[0], "--set", &sets[1]]);
    let before = fs::metadata(&path).unwrap();
    let reload = server.reload();
    assert_eq!(reload.code, Some(0), "{}", fs::read_to_string(&log).unwrap());
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.ino(), after.mtime_nsec()), (before.ino(), before.mtime_nsec()));
    server.ends("TERM");
    assert!(!Path::new(&path).exists());
}
