//! Children of the master that are stopped or killed, or wait for something that never arrives.
//! Each is noticed, and none blocks the master.
use super::{Folder, PATIENCE, Server, is_gone, signal, skip};
use crate::harness::children;
use regatta_testkit::executables;
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// Waits until `is_so` is true.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < 2 * PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A server of one worker process, with an error log.
struct Watched {
    folder: Folder,
    server: Server,
}

impl Watched {
    fn start(architecture: &str, more: &[&str]) -> Self {
        let folder = Folder::new();
        let config = folder.path("regatta.toml");
        write_config(&folder, &config, architecture, "");
        let server = Server::start(1, &[&["serve", "--config", &config][..], more].concat());
        let this = Self { folder, server };
        assert!(this.get().ends_with("hello\n"), "{architecture}");
        this
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path("error.log")).unwrap()
    }

    fn logs(&self, part: &str) {
        wait_for(part, || self.log().contains(part));
    }

    fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Gets an answer, even if some connections fail meanwhile.
    fn get(&self) -> String {
        let start = Instant::now();
        loop {
            if let Some(answer) = self.try_get().filter(|text| text.ends_with("hello\n")) {
                return answer;
            }
            assert!(start.elapsed() < PATIENCE, "no answer: {}", self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn try_get(&self) -> Option<String> {
        let mut stream = TcpStream::connect(self.server.addresses[0]).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Waits for a child other than these.
    fn other_child(&self, but: &[u32]) -> u32 {
        let mut other = None;
        wait_for("another child", || {
            other = children(self.pid()).into_iter().find(|pid| !but.contains(pid));
            other.is_some()
        });
        other.unwrap()
    }

    /// Makes the configuration a FIFO without a writer, and reloads. Returns the trial, which
    /// waits for the file, and the worker.
    fn hang_a_trial(&self, config: &str) -> (u32, u32) {
        let worker = children(self.pid())[0];
        fs::remove_file(config).unwrap();
        assert!(Command::new("mkfifo").arg(config).status().unwrap().success());
        self.server.signal("HUP");
        (self.other_child(&[worker]), worker)
    }

    /// Kills the worker, and fails unless another serves at once.
    fn replaces_at_once(&self, worker: u32) {
        signal(worker, "KILL");
        self.logs(&format!("worker 0 (process {worker}) was killed by signal 9; replaced in 0 ms"));
        self.get();
    }

    fn ends(self) {
        self.server.ends("TERM");
    }
}

fn write_config(folder: &Folder, path: &str, architecture: &str, more: &str) {
    let (www, log) = (folder.path("www"), folder.path("error.log"));
    let text = format!(
        "[server]\nroot = {www:?}\nlisten = [\"127.0.0.1:0\"]\narchitecture = \
         {architecture:?}\n{more}\n[log]\nerror = {log:?}\naccess = \"off\"\n"
    );
    // Atomically: the server may read it now.
    let new = format!("{path}.new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}

pub(crate) fn every_child_that_is_stopped_is_replaced() {
    let one = ["--set", "event.processes=1"];
    let cases: [(&str, &[&str]); 5] = [
        ("symped", &one),
        ("shared-symped", &one),
        ("mt", &[]),
        ("mp", &["--set", "mp.start=1", "--set", "mp.spare_min=1", "--set", "mp.spare_max=2"]),
        ("seda", &[]),
    ];
    thread::scope(|scope| {
        for (architecture, more) in cases {
            scope.spawn(move || {
                let watched = Watched::start(architecture, more);
                let child = children(watched.pid())[0];
                signal(child, "STOP");
                let name = format!("(process {child}) has not answered for ");
                watched.logs(&name);
                wait_for(architecture, || is_gone(child));
                assert!(watched.log().contains("another takes its place"), "{architecture}");
                watched.get();
                watched.ends();
            });
        }
    });
}

/// The stopped keeper alone could replace the workers, and cannot see that they have ended.
pub(crate) fn a_keeper_that_is_stopped_while_its_workers_end_is_replaced() {
    let watched = Watched::start("shared-symped", &["--set", "event.processes=2"]);
    let keeper = children(watched.pid())[0];
    let workers = children(keeper);
    assert_eq!(workers.len(), 2);
    signal(keeper, "STOP");
    workers.iter().for_each(|worker| signal(*worker, "KILL"));
    watched.logs(&format!("the keeper (process {keeper}) has not answered for "));
    watched.get();
    assert!(is_gone(keeper) && workers.iter().all(|worker| is_gone(*worker)));
    watched.ends();
}

/// The file is a FIFO without a writer: its readers wait. The master does not.
pub(crate) fn a_configuration_that_blocks_holds_up_no_master() {
    let watched = Watched::start("sped", &[]);
    let (config, begun) = (watched.folder.path("regatta.toml"), Instant::now());
    let (trial, worker) = watched.hang_a_trial(&config);
    watched.replaces_at_once(worker);
    fs::rename(watched.folder.path("error.log"), watched.folder.path("old.log")).unwrap();
    watched.server.signal("USR1");
    wait_for("another log", || Path::new(&watched.folder.path("error.log")).exists());
    watched.logs("reload: it took too long to try, and was killed");
    assert!(is_gone(trial));
    assert!(begun.elapsed() < 3 * PATIENCE, "{:?}", begun.elapsed());
    write_config(&watched.folder, &config, "sped", "");
    let reload = watched.server.reload();
    assert_eq!(reload.code, Some(0), "{}", reload.stderr);
    watched.logs("reload: generation 2 serves");
    watched.get();
    watched.ends();
}

pub(crate) fn the_server_ends_while_a_trial_waits_for_its_configuration() {
    let watched = Watched::start("sped", &[]);
    let (trial, _) = watched.hang_a_trial(&watched.folder.path("regatta.toml"));
    watched.ends();
    wait_for("the trial ends", || is_gone(trial));
}

pub(crate) fn a_trial_that_is_stopped_or_killed_refuses_the_reload() {
    for (name, says) in [
        ("STOP", "and the process is killed: the reload is refused"),
        ("KILL", "reload: the program was killed by signal 9 when it was tried"),
    ] {
        let watched = Watched::start("sped", &[]);
        let config = watched.folder.path("regatta.toml");
        let (trial, _) = watched.hang_a_trial(&config);
        signal(trial, name);
        watched.logs(says);
        watched.logs("reload: it was refused: the workers that serve go on as they are");
        write_config(&watched.folder, &config, "sped", "");
        watched.server.signal("HUP");
        watched.logs("reload: generation 2 serves");
        watched.get();
        watched.ends();
    }
}

/// A program that a trial has started does not outlive it, nor keep its inheritance.
pub(crate) fn what_a_trial_starts_ends_with_it() {
    let folder = Folder::new();
    let (program, mark) = (folder.path("regatta"), folder.path("mark"));
    executables::copy(&super::program(), Path::new(&program));
    let www = folder.path("www");
    let serve = ["serve", &www, "--listen", "127.0.0.1:0", "--architecture", "sped"];
    let server = Server::start_program(&program, 1, &serve);
    // A wrapper that leaves a process behind and waits.
    let script = format!("sleep 600 &\necho $! >{mark}.new\nmv {mark}.new {mark}\nwait");
    fs::remove_file(&program).unwrap();
    executables::script(Path::new(&program), &script);
    server.signal("USR2");
    wait_for("the wrapper runs", || Path::new(&mark).exists());
    let left: u32 = fs::read_to_string(&mark).unwrap().trim().parse().unwrap();
    server.ends("TERM");
    wait_for("what it has started ends", || is_gone(left));
}

/// A file system that never answers, mounted over a directory.
struct Hung {
    directory: String,
    /// The program's end: every call waits as long as it is open.
    device: Option<fs::File>,
}

impl Hung {
    /// `None` if this process may not mount one.
    fn mount(directory: &str) -> Option<Self> {
        let device = fs::File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let line = format!(
            "mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 hung {directory} 3<&0"
        );
        let end = device.try_clone().ok()?;
        let mounted = Command::new("sh").args(["-c", &line]).stdin(end).status().ok()?;
        let (directory, device) = (directory.to_owned(), Some(device));
        mounted.success().then_some(Self { directory, device })
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        // Waiting calls fail now, those of umount(8) too.
        drop(self.device.take());
        let _ = Command::new("umount").args(["-l", &self.directory]).status();
    }
}

/// Configuration, rotated log and number of the server are on a file server that hangs.
pub(crate) fn a_file_server_that_hangs_holds_up_no_master() {
    let folder = Folder::new();
    let state = folder.path("state");
    fs::create_dir(&state).unwrap();
    let config = format!("{state}/regatta.toml");
    write_config(&folder, &config, "sped", &format!("pid_file = \"{state}/pid\""));
    let server = Server::start(1, &["serve", "--config", &config]);
    let watched = Watched { folder, server };
    watched.get();
    let worker = children(watched.pid())[0];
    let Some(hung) = Hung::mount(&state) else { return skip("needs /dev/fuse and root") };
    watched.server.signal("HUP");
    let trial = watched.other_child(&[worker]);
    watched.replaces_at_once(worker);
    watched.logs("reload: it took too long to try, and was killed");
    wait_for("the trial ends", || is_gone(trial));
    drop(hung);
    watched.server.signal("HUP");
    watched.logs("reload: generation 2 serves");
    let hung = Hung::mount(&state);
    // The file with its number is there, and cannot be removed.
    let Watched { folder, server } = watched;
    server.signal("TERM");
    let (code, said, _) = server.end();
    drop(hung);
    drop(folder);
    assert_eq!(code, Some(0), "{said}");
}
