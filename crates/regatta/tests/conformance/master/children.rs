//! Children of the master that are stopped or killed, or wait for something that never arrives.
//! Each is noticed, and none blocks the master.
use super::*;
use crate::client::try_get;

/// Waits until `is_so` is true: some children have 30 s before they are killed.
#[track_caller]
fn wait_for(what: &str, is_so: impl FnMut() -> bool) {
    assert!(eventually(2 * PATIENCE, is_so), "never: {what}");
}

/// A server of one worker process, with an error log.
struct Watched {
    site: Site,
    server: Server,
}

impl Watched {
    fn start(architecture: &str, settings: &[&str]) -> Self {
        let site = site();
        let config = site.beside("regatta.toml");
        write_config(&site, &config, architecture, "");
        Self::with(site, &config, settings)
    }

    /// Starts a server with this configuration, and waits until it answers.
    fn with(site: Site, config: &Path, settings: &[&str]) -> Self {
        let launch = Launch::for_program(&program()).config(config).listens(1);
        let this = Self { site, server: launch.sets(settings).start() };
        this.answers();
        this
    }

    fn log(&self) -> String {
        fs::read_to_string(self.site.beside("error.log")).unwrap()
    }

    #[track_caller]
    fn logs(&self, part: &str) {
        wait_for(part, || self.log().contains(part));
    }

    /// Gets an answer, even if some connections fail meanwhile.
    #[track_caller]
    fn answers(&self) {
        let answered =
            eventually(PATIENCE, || self.try_get().is_some_and(|body| body == b"hello\n"));
        assert!(answered, "no answer: {}", self.log());
    }

    fn try_get(&self) -> Option<Vec<u8>> {
        let stream = TcpStream::connect(self.server.address()).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        let (_, body, ended) = try_get(stream, "/", ("Connection", "close"))?;
        ended.then_some(body)
    }

    /// Makes the configuration a FIFO without a writer, and reloads. Returns the trial, which
    /// waits for the file, and the worker.
    fn hang_a_trial(&self) -> (u32, u32) {
        let (config, worker) = (self.site.beside("regatta.toml"), child(&self.server, &[]));
        fs::remove_file(&config).unwrap();
        assert!(Command::new("mkfifo").arg(config).status().unwrap().success());
        self.server.signal(Signal::HUP);
        (child(&self.server, &[worker]), worker)
    }

    /// Writes a good configuration again, which the next reload applies.
    fn repair(&self) {
        write_config(&self.site, &self.site.beside("regatta.toml"), "sped", "");
    }

    /// Kills the worker, and fails unless another serves at once.
    fn replaces_at_once(&self, worker: u32) {
        kill(worker, Signal::KILL);
        self.logs(&format!("worker 0 (process {worker}) was killed by signal 9; replaced in 0 ms"));
        self.answers();
    }

    fn ends(mut self) {
        assert!(self.server.end(Signal::TERM).success());
    }
}

fn write_config(site: &Site, path: &Path, architecture: &str, more: &str) {
    let (www, log) = (site.root(), site.beside("error.log"));
    let text = format!(
        "[server]\nroot = {www:?}\nlisten = [\"127.0.0.1:0\"]\narchitecture = \
         {architecture:?}\n{more}\n[log]\nerror = {log:?}\naccess = \"off\"\n"
    );
    // Atomically: the server may read it now.
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}

pub(crate) fn every_child_that_is_stopped_is_replaced() {
    let cases: [(&str, &[&str]); 5] = [
        ("symped", &["event.processes=1"]),
        ("shared-symped", &["event.processes=1"]),
        ("mt", &[]),
        ("mp", &["mp.start=1", "mp.spare_min=1", "mp.spare_max=2"]),
        ("seda", &[]),
    ];
    thread::scope(|scope| {
        for (architecture, settings) in cases {
            scope.spawn(move || {
                let watched = Watched::start(architecture, settings);
                let child = child(&watched.server, &[]);
                kill(child, Signal::STOP);
                watched.logs(&format!("(process {child}) has not answered for "));
                wait_for(architecture, || !alive(child));
                assert!(watched.log().contains("another takes its place"), "{architecture}");
                watched.answers();
                watched.ends();
            });
        }
    });
}

/// The stopped keeper alone could replace the workers, and cannot see that they have ended.
pub(crate) fn a_keeper_that_is_stopped_while_its_workers_end_is_replaced() {
    let watched = Watched::start("shared-symped", &["event.processes=2"]);
    let keeper = child(&watched.server, &[]);
    let workers = children(keeper);
    assert_eq!(workers.len(), 2);
    kill(keeper, Signal::STOP);
    workers.iter().for_each(|worker| kill(*worker, Signal::KILL));
    watched.logs(&format!("the keeper (process {keeper}) has not answered for "));
    watched.answers();
    assert!(!alive(keeper) && !workers.into_iter().any(alive));
    watched.ends();
}

/// The file is a FIFO without a writer: its readers wait. The master does not.
pub(crate) fn a_configuration_that_blocks_holds_up_no_master() {
    let watched = Watched::start("sped", &[]);
    let begun = Instant::now();
    let (trial, worker) = watched.hang_a_trial();
    watched.replaces_at_once(worker);
    let log = watched.site.beside("error.log");
    fs::rename(&log, watched.site.beside("old.log")).unwrap();
    watched.server.signal(Signal::USR1);
    wait_for("another log", || log.exists());
    watched.logs("reload: it took too long to try, and was killed");
    assert!(!alive(trial));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    watched.repair();
    watched.server.asks("reload", 0);
    watched.logs("reload: generation 2 serves");
    watched.answers();
    watched.ends();
}

pub(crate) fn the_server_ends_while_a_trial_waits_for_its_configuration() {
    let watched = Watched::start("sped", &[]);
    let (trial, _) = watched.hang_a_trial();
    watched.ends();
    wait_for("the trial ends", || !alive(trial));
}

pub(crate) fn a_trial_that_is_stopped_or_killed_refuses_the_reload() {
    for (signal, says) in [
        (Signal::STOP, "and the process is killed: the reload is refused"),
        (Signal::KILL, "reload: the program was killed by signal 9 when it was tried"),
    ] {
        let watched = Watched::start("sped", &[]);
        let (trial, _) = watched.hang_a_trial();
        kill(trial, signal);
        watched.logs(says);
        watched.logs("reload: it was refused: the workers that serve go on as they are");
        watched.repair();
        watched.server.signal(Signal::HUP);
        watched.logs("reload: generation 2 serves");
        watched.answers();
        watched.ends();
    }
}

/// A program that a trial has started does not outlive it, nor keep its inheritance.
pub(crate) fn what_a_trial_starts_ends_with_it() {
    let site = site();
    let (copy, mark) = (site.beside("regatta"), site.beside("mark"));
    executables::copy(&program(), &copy);
    let launch = Launch::for_program(&copy).arg(site.root_text()).listen("127.0.0.1:0");
    let mut server = launch.arg("--architecture").arg("sped").start();
    // A wrapper that leaves a process behind and waits.
    let shown = mark.display();
    let script = format!("sleep 600 &\necho $! >{shown}.new\nmv {shown}.new {shown}\nwait");
    fs::remove_file(&copy).unwrap();
    executables::script(&copy, &script);
    server.signal(Signal::USR2);
    wait_for("the wrapper runs", || mark.exists());
    let left: u32 = fs::read_to_string(&mark).unwrap().trim().parse().unwrap();
    assert!(server.end(Signal::TERM).success());
    wait_for("what it has started ends", || !alive(left));
}

/// A file system that never answers, mounted over a directory.
struct Hung {
    directory: PathBuf,
    /// The program's end: every call waits as long as it is open.
    device: Option<File>,
}

impl Hung {
    /// `None` if this process may not mount one.
    fn mount(directory: &Path) -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let line = "mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 hung \"$0\" 3<&0";
        let end = device.try_clone().ok()?;
        let mounted =
            Command::new("sh").args(["-c", line]).arg(directory).stdin(end).status().ok()?;
        let (directory, device) = (directory.to_owned(), Some(device));
        mounted.success().then_some(Self { directory, device })
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        // Waiting calls fail now, those of umount(8) too.
        drop(self.device.take());
        let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
    }
}

/// Configuration, rotated log and number of the server are on a file server that hangs.
pub(crate) fn a_file_server_that_hangs_holds_up_no_master() {
    let site = site();
    let state = site.beside("state");
    fs::create_dir(&state).unwrap();
    let config = state.join("regatta.toml");
    write_config(&site, &config, "sped", &format!("pid_file = {:?}", state.join("pid")));
    let mut watched = Watched::with(site, &config, &[]);
    let worker = child(&watched.server, &[]);
    let Some(hung) = Hung::mount(&state) else { return skip("needs /dev/fuse and root") };
    watched.server.signal(Signal::HUP);
    let trial = child(&watched.server, &[worker]);
    watched.replaces_at_once(worker);
    watched.logs("reload: it took too long to try, and was killed");
    wait_for("the trial ends", || !alive(trial));
    drop(hung);
    watched.server.signal(Signal::HUP);
    watched.logs("reload: generation 2 serves");
    let _hung = Hung::mount(&state);
    // The file with its number is there, and cannot be removed.
    assert!(watched.server.end(Signal::TERM).success());
}
