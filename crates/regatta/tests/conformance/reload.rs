//! Reloads and upgrades: the process stays, its workers are replaced, and no request fails.

use crate::client::{Endpoint, try_get};
use crate::harness::PATIENT;
use crate::prelude::*;
use crate::shared::Stop;
use regatta_testkit::certificates::{MadeCertificate, PKCS_ECDSA_P256_SHA256};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of clients. Every second one keeps its connection, the others open one for each request.
const CLIENTS: usize = 6;
/// Pause between two requests of a client: much less than an idle connection has in a drain.
const BETWEEN: Duration = Duration::from_millis(20);
/// An address with a port of the kernel's choice.
const ANY: &str = "127.0.0.1:0";
/// Idle time after which, on a crowded machine, a connection may have been closed. The client must
/// repeat a request that crosses that (RFC 9112 §9.3.1).
const IDLE_MAX: Duration = Duration::from_millis(100);

/// Asks until `stop` is set; each answer must be good.
fn ask(to: Endpoint, keep: bool, stop: &AtomicBool) -> u64 {
    let mut kept: Option<(Client, Instant)> = None;
    let mut answers = 0;
    let closing = [("Connection", "close")];
    let fields = if keep { &closing[..0] } else { &closing[..] };
    while !stop.load(Ordering::Relaxed) {
        let usable = kept.take().filter(|(_, at)| at.elapsed() < IDLE_MAX);
        let mut client = usable.map_or_else(|| Client::connect_to(to), |(client, _)| client);
        let answer = client.ask("GET", "/small.txt", fields).expect(200);
        answers += 1;
        if keep && !answer.closes() {
            kept = Some((client, Instant::now()));
        }
        thread::sleep(BETWEEN);
    }
    answers
}

/// Makes a change while clients ask for a file; none of them may fail.
fn ask_during(to: impl Into<Endpoint>, change: impl FnOnce()) {
    let to = to.into();
    let stop = AtomicBool::new(false);
    let answers: u64 = thread::scope(|scope| {
        let stopping = Stop(&stop);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let stop = &stop;
                scope.spawn(move || ask(to, client % 2 == 0, stop))
            })
            .collect();
        thread::sleep(Duration::from_millis(100));
        change();
        thread::sleep(Duration::from_millis(50));
        drop(stopping);
        clients.into_iter().map(|client| client.join().expect("no request fails")).sum()
    });
    assert!(answers > CLIENTS as u64, "{answers}");
}

/// Asks for another generation, and waits until all processes of the earlier one have ended.
pub(crate) fn succeed(server: &Server, command: &str) {
    let before = children(server.pid());
    server.asks(command, 0);
    soon(|| !before.iter().any(|pid| alive(*pid)));
    assert!(!children(server.pid()).is_empty());
}

pub(crate) fn under_load(variant: &Variant) {
    let server = start(variant);
    let mut counted = 0;
    for command in ["reload", "upgrade"] {
        ask_during(server.endpoint(), || {
            succeed(&server, command);
            let now = server.count("requests");
            assert!(now > counted, "{now} after {counted}");
            counted = now;
        });
    }
    // All answers, by whichever generation.
    let total = server.count("requests");
    server.connect().get("/small.txt").expect(200);
    server.counts("requests", total + 1);
}

/// Whether a new connection gets this text.
fn serves(server: &Server, text: &str) -> bool {
    server.connect().get("/small.txt").expect(200).body == text.as_bytes()
}

/// A server over a configuration file that can be replaced.
struct Configured<'a> {
    variant: &'a Variant,
    site: Site,
    server: Server,
}

impl<'a> Configured<'a> {
    /// Starts a server on a separate address, and on one that the file names.
    fn new(variant: &'a Variant, program: &Path) -> Self {
        let site = Site::with(&[("small.txt", "text"), ("other/small.txt", "other")]);
        // A file cannot override the command line.
        let text = Self::text(variant.architecture, &site.root_text(), &[ANY], variant.settings);
        let config = site.configure(text);
        let server = Launch::for_program(program).config(&config).listens(1).start();
        Self { variant, site, server }
    }

    fn text(architecture: &str, root: &str, listen: &[&str], settings: &[&str]) -> String {
        let mut text = format!(
            "server.architecture = \"{architecture}\"\nserver.root = \"{root}\"\n\
             server.listen = {listen:?}\n"
        );
        for setting in settings {
            let (key, value) = setting.split_once('=').expect("a setting");
            let is_flag = ["true", "false"].contains(&value);
            let value = if is_flag { value.to_owned() } else { format!("{value:?}") };
            text.push_str(&format!("{key} = {value}\n"));
        }
        PATIENT.iter().for_each(|(key, value)| text.push_str(&format!("{key} = {value:?}\n")));
        text
    }

    fn write(&self, text: &str) {
        self.site.configure(text);
    }

    /// Text for the same architecture and root: these addresses, and more settings.
    fn same(&self, listen: &[&str], more: &[&str]) -> String {
        let settings = [self.variant.settings, more].concat();
        Self::text(self.variant.architecture, &self.site.root_text(), listen, &settings)
    }

    /// Whether the generation before the serving one is gone.
    fn has_one_generation(&self) -> bool {
        let errors = self.server.stderr();
        let mut lines = errors.lines().rev().filter_map(|line| line.strip_suffix(" serves"));
        let last = lines.find_map(|line| line.rsplit_once("generation ")?.1.parse().ok());
        last.is_none_or(|it: u64| errors.contains(&format!("generation {} is gone", it - 1)))
    }

    /// Checks that a request for another generation is refused with a reason, and changes nothing.
    fn refuses(&self, command: &str, why: &str) {
        soon(|| self.has_one_generation());
        let workers = self.server.workers();
        ask_during(self.server.address(), || {
            let said = self.server.asks(command, 1);
            self.server.says(why);
            // The command has the faults of the log, without the words before them.
            let fault = why.strip_prefix("reload: ").unwrap_or(why);
            assert!(said.stderr.contains(fault), "{fault}: {said:?}");
        });
        // Those that could not begin may still be exiting.
        comes_to(|| self.server.workers(), |now| *now == workers);
    }
}

pub(crate) fn changes_everything(variant: &Variant) {
    let mut own = Configured::new(variant, &program());
    let first = own.server.address();
    let other = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let (root, other_text) = (own.site.root_text(), other.to_string());
    let listen = [ANY, &*other_text];
    let others: [(&str, &[&str]); 3] = [
        ("symped", &["event.processes=3"]),
        ("knot-nptl", &["limits.connections_max=16"]),
        (variant.architecture, variant.settings),
    ];
    for (architecture, settings) in others {
        own.write(&Configured::text(architecture, &format!("{root}/other"), &listen, settings));
        ask_during(first, || succeed(&own.server, "reload"));
        assert_eq!(own.server.top()["server"]["architecture"], architecture);
        for address in [first, other] {
            assert_eq!(Client::connect(address).get("/small.txt").expect(200).body, b"other");
        }
    }
    // A removed address refuses connections after a moment.
    own.write(&Configured::text("sped", &root, &[ANY], &[]));
    ask_during(first, || succeed(&own.server, "reload"));
    soon(|| TcpStream::connect(other).is_err());
    assert_eq!(Client::connect(first).get("/small.txt").expect(200).body, b"text");
    assert!(own.server.end(Signal::TERM).success());
}

pub(crate) fn faults_change_nothing(variant: &Variant) {
    let own = Configured::new(variant, &program());
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let two = [ANY, &*taken.local_addr().expect("ours").to_string()];
    let good = own.same(&[ANY], &[]);
    let new_log = own.site.beside("new.log");
    let logs = format!("log.access={}", new_log.display());
    let faults = [
        (own.same(&two, &[&logs]), "another process has it"),
        (format!("{good}[server\n"), "regatta.toml:"),
        (format!("{good}server.nonsense = 1\n"), "server.nonsense"),
        (good.replace(&own.site.root_text(), "/nowhere/at/all"), "regatta.toml:2:15: "),
        (own.same(&two, &[]), "another process has it"),
        (own.same(&two, &[]), "regatta.toml:3:17: server.listen: "),
        (own.same(&[ANY], &["log.access=/nowhere/log"]), "/nowhere/log"),
        (
            own.same(&[ANY], &["tls.listen=127.0.0.1:0", "tls.certificate=/nowhere/a.pem"]),
            "tls.certificate: \"/nowhere/a.pem\": the file cannot be read",
        ),
    ];
    for (fault, why) in faults {
        own.write(&fault);
        own.refuses("reload", why);
    }
    assert!(!new_log.exists(), "a trial has made a log");
    own.write(&good);
    ask_during(own.server.address(), || succeed(&own.server, "reload"));
}

/// The fault is noticed before anything changes; a file with this server's number is no obstacle.
pub(crate) fn the_pid_file_of_another_server_changes_nothing() {
    let variant = Variant::find("sped_epoll");
    let own = Configured::new(variant, &program());
    let [file, taken] = ["own.pid", "other.pid"].map(|name| own.site.beside(name));
    let other = Launch::new(variant, common()).set_path("server.pid_file", &taken).start();
    let set = |file: &Path| format!("server.pid_file={}", file.display());
    let write = |file: &Path| own.write(&own.same(&[ANY], &[&set(file)]));
    write(&file);
    succeed(&own.server, "reload");
    succeed(&own.server, "reload");
    write(&taken);
    own.refuses("reload", "reload: it was refused");
    let why = format!("it is of the server that runs as process {}", other.pid());
    assert!(own.server.stderr().contains(&why), "{}", own.server.stderr());
    assert_eq!(fs::read_to_string(&taken).expect("its file"), format!("{}\n", other.pid()));
    write(&file);
    succeed(&own.server, "reload");
}

/// Last line of a script: it becomes the program.
const SERVE: &str = "exec PROGRAM \"$@\"";

/// A copy of the program that can be replaced.
struct Program(PathBuf);

impl Program {
    fn new(name: &str) -> Self {
        let of = program();
        let path = of.with_file_name(format!("regatta-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        fs::hard_link(of, &path).expect("a link");
        Self(path)
    }

    /// Replaces the program by a script, which may run the real program.
    fn replace(&self, script: &str) {
        let new = self.0.with_extension("new");
        let script = script.replace("PROGRAM", program().to_str().expect("text"));
        executables::script(&new, &script);
        fs::rename(&new, &self.0).expect("ours");
    }

    /// Replaces the program by a script that runs `serve`. From the second time on it runs `act`
    /// before: the first run is the trial, the second is real. `mark` distinguishes them.
    fn acts_in_earnest(&self, mark: &Path, act: &str, serve: &str) {
        let mark = mark.display();
        self.replace(&format!("[ -e {mark} ] && {act}\n: > {mark}\n{serve}"));
    }
}

/// Part of a script that waits. It uses no child: the shell would not notice its end where the
/// master's signals are blocked.
fn waits(begun: &Path, until: &Path) -> String {
    format!(": > {} && while [ ! -e {} ]; do :; done", begun.display(), until.display())
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A program that cannot start, or refuses, changes nothing. Nor does one that passes the trial and
/// then cannot begin: the old workers serve on, until a better one comes.
pub(crate) fn a_program_that_fails(variant: &Variant) {
    let program = Program::new(variant.name);
    let own = Configured::new(variant, &program.0);
    program.replace("exit 1");
    own.refuses("upgrade", "exited with code 1");
    // The master does not wait for a process that the program leaves behind.
    let start = Instant::now();
    program.replace("sleep 20 > /dev/null 2>&1 &\nexit 3");
    own.refuses("upgrade", "exited with code 3");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    // Success is not enough: the program may be no server, or one that would not be the master.
    program.replace("exit 0");
    own.refuses("upgrade", "exited with code 0");
    program.replace("PROGRAM \"$@\"\nexit");
    own.refuses("upgrade", "can serve");
    fs::set_permissions(&program.0, fs::Permissions::from_mode(0o644)).expect("ours");
    own.refuses("upgrade", "cannot execute");
    cannot_begin(&own, &program);
    assert!(own.server.stderr().contains("go on as they are"), "{}", own.server.stderr());
    // Its workers die before they are ready; those of a keeper as long as it starts others.
    if variant.architecture != "shared-symped" {
        program.replace("exec env REGATTA_INJECT=nonsense PROGRAM \"$@\"");
        own.refuses("upgrade", "its workers could not begin");
    }
    program.replace("exec env -u REGATTA_INJECT PROGRAM \"$@\"");
    ask_during(own.server.address(), || succeed(&own.server, "upgrade"));
}

/// The program passes its trial but cannot listen in the real run. A master without workers of its
/// own then supervises the old ones.
fn cannot_begin(own: &Configured<'_>, program: &Program) {
    let [mark, socket] = ["mark", "socket"].map(|name| own.site.beside(name));
    let at = socket.display();
    own.write(&own.same(&[ANY, &format!("unix:{at}")], &[]));
    program.acts_in_earnest(&mark, &format!("mkdir {at}"), SERVE);
    own.refuses("upgrade", "its workers could not begin");
    fs::remove_dir(&socket).expect("ours");
    own.write(&own.same(&[ANY], &[]));
}

pub(crate) fn a_master_that_waits_opens_its_log_anew() {
    let program = Program::new("waits-and-logs");
    let own = Configured::new(Variant::find("sped_epoll"), &program.0);
    let [mark, socket, log, old] =
        ["mark", "socket", "log", "log.1"].map(|name| own.site.beside(name));
    let place = format!("unix:{}", socket.display());
    own.write(&own.same(&[ANY, &place], &[&format!("log.error={}", log.display())]));
    // The trial can listen there. The real run, with its log open, cannot.
    program.acts_in_earnest(&mark, &format!("mkdir {}", socket.display()), SERVE);
    let refused = |log: &Path, why: &str| {
        own.server.asks("upgrade", 1);
        soon(|| fs::read_to_string(log).is_ok_and(|text| text.contains(why)));
    };
    refused(&log, "its workers could not begin");
    fs::rename(&log, &old).expect("ours");
    own.server.signal(Signal::USR1);
    let is_open = || descriptors(own.server.pid()).into_values().any(|open| open == old);
    soon(|| log.exists() && !is_open());
    refused(&log, "reload: it was refused");
}

/// A service manager at this path. Each call returns its next message.
pub(crate) fn manager(place: &Path) -> impl Fn() -> String {
    let socket = UnixDatagram::bind(place).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    move || {
        let mut bytes = [0; 256];
        let count = socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }
}

/// `READY` for the generation in progress comes before `RELOADING` for the next.
pub(crate) fn a_service_manager_is_told_of_each_reload_by_itself() {
    let program = Program::new("tells");
    let own = Configured::new(Variant::find("sped_epoll"), &program.0);
    let [notify, mark, begins, go] =
        ["notify", "mark", "begins", "go"].map(|name| own.site.beside(name));
    let hear = manager(&notify);
    let hears = |start: &str, end: &str| {
        let said = hear();
        assert!(said.starts_with(start) && said.ends_with(end), "{start} {end}: {said}");
    };
    let serve = format!("NOTIFY_SOCKET={} {SERVE}", notify.display());
    program.replace(&serve);
    succeed(&own.server, "upgrade");
    hears("READY=1\n", "generation 2\n");
    program.acts_in_earnest(&mark, &waits(&begins, &go), &serve);
    own.server.signal(Signal::USR2);
    soon(|| begins.exists());
    own.server.signal(Signal::HUP);
    fs::write(&go, "").expect("ours");
    hears("RELOADING=1\n", "begins\n");
    hears("READY=1\n", "generation 3\n");
    hears("RELOADING=1\n", "begins\n");
    hears("READY=1\n", "generation 4\n");
}

/// A command does not take an earlier operation's end for its answer.
pub(crate) fn a_command_waits_for_what_it_has_asked_for() {
    let program = Program::new("waits-for-another");
    let own = Configured::new(Variant::find("sped_epoll"), &program.0);
    let [mark, begins, go] = ["mark", "begins", "go"].map(|name| own.site.beside(name));
    // The trial reads the file. The real run takes its time.
    program.acts_in_earnest(&mark, &waits(&begins, &go), SERVE);
    own.server.signal(Signal::USR2);
    soon(|| begins.exists());
    own.write("[server\n");
    thread::scope(|scope| {
        scope.spawn(|| own.server.asks("reload", 1));
        thread::sleep(Duration::from_secs(1));
        fs::write(&go, "").expect("ours");
    });
    for part in ["generation 2 serves", "regatta.toml:", "reload: it was refused"] {
        own.server.says(part);
    }
}

/// No client waits there. The next workers do listen there.
pub(crate) fn new_paths_of_workers_that_cannot_begin_are_removed() {
    let program = Program::new("new-paths");
    let own = Configured::new(Variant::find("sped_epoll"), &program.0);
    let paths = ["socket", "admin"].map(|name| own.site.beside(name));
    let [place, admin] = [0, 1].map(|at| format!("unix:{}", paths[at].display()));
    own.write(&own.same(&[ANY, &place], &[&format!("admin.listen={admin}")]));
    program.replace("exec env REGATTA_INJECT=nonsense PROGRAM \"$@\"");
    for attempt in 0..2 {
        own.refuses("upgrade", "its workers could not begin");
        assert!(!paths.iter().any(|path| path.exists()), "{attempt}: {}", own.server.stderr());
    }
    program.replace("exec env -u REGATTA_INJECT PROGRAM \"$@\"");
    succeed(&own.server, "upgrade");
    for path in &paths {
        let stream = UnixStream::connect(path).expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        let answer = try_get(stream, "/", ("Connection", "close"));
        let is_answer =
            |(head, _, ended): &(String, _, bool)| *ended && head.starts_with("HTTP/1.1 ");
        assert!(answer.as_ref().is_some_and(is_answer), "{}: {answer:?}", path.display());
    }
}

/// A signal sent twice at once, as timeout(1) does, counts once, also where only the old workers
/// serve. They still answer pending requests.
pub(crate) fn the_old_drain_too(variant: &Variant) {
    let program = Program::new(&format!("{}-drains", variant.name));
    let mut own = Configured::new(variant, &program.0);
    cannot_begin(&own, &program);
    let mut held = own.server.asked("GET /small.txt HTTP/1.1\r\nHost: a\r\n");
    thread::sleep(Duration::from_millis(50));
    own.server.signal(Signal::TERM);
    thread::sleep(Duration::from_millis(20));
    own.server.signal(Signal::TERM);
    thread::sleep(Duration::from_millis(50));
    held.send("\r\n");
    held.answer("GET").expect(200);
    assert!(own.server.exit_within(PATIENCE).is_some_and(|status| status.success()));
}

pub(crate) fn kills_in_between(variant: &Variant) {
    let mut server = start(variant);
    // Keeps the first generation until its drain is over.
    let mut held = server.asked("GET /small.txt HTTP/1.1\r\nHost: a\r\n");
    thread::sleep(Duration::from_millis(50));
    let before = children(server.pid());
    server.asks("reload", 0);
    let of_now = || children(server.pid()).into_iter().filter(|pid| !before.contains(pid));
    let killed = of_now().next().expect("a worker of now");
    kill(killed, Signal::KILL);
    soon(|| of_now().any(|pid| pid != killed) && !alive(killed));
    assert!(TcpStream::connect(server.address()).is_ok());
    server.connect().get("/small.txt").expect(200);
    held.send("\r\n");
    held.answer("GET").expect(200);
    assert!(server.end(Signal::TERM).success());
}

/// A deployment can point the root to where confined workers may not read: others serve it.
pub(crate) fn a_root_out_of_reach(variant: &Variant) {
    let site = Site::with(&[("small.txt", "text")]);
    let other = Site::with(&[("small.txt", "other")]);
    site.lead("current", site.root());
    let server = Launch::new(variant, &site.beside("current")).start();
    assert!(serves(&server, "text"));
    site.lead("current", other.root());
    soon(|| serves(&server, "other"));
    if landlock_version() > 0 {
        let said = ["(server.sandbox): reloading", "generation 2 serves"];
        soon(|| said.iter().all(|said| server.stderr().contains(said)));
    }
}

/// No command has asked to read the file, whatever it says by then.
pub(crate) fn a_moved_root_keeps_the_configuration(variant: &Variant) {
    let own = Configured::new(variant, &program());
    let others = ["one", "two", "three"].map(|text| (text, Site::with(&[("small.txt", text)])));
    let [first, second, third] = &others;
    own.site.lead("current", first.1.root());
    let root = own.site.beside("current").display().to_string();
    own.write(&own.same(&[ANY], &[]).replace(&own.site.root_text(), &root));
    succeed(&own.server, "reload");
    assert!(serves(&own.server, first.0));
    // Half written; then complete, but not to be applied yet.
    let changed = Configured::text("symped", &own.site.root_text(), &[ANY], &[]);
    for ((text, site), file) in [(second, "[server\n"), (third, &*changed)] {
        own.write(file);
        own.site.lead("current", site.root());
        assert!(eventually(PATIENCE, || serves(&own.server, text)), "{text}");
        assert_eq!(own.server.top()["server"]["architecture"], variant.architecture);
    }
    // The generation answers before the log says that it serves.
    own.server.says("generation 4 serves");
    own.write("[server\n");
    own.refuses("reload", "regatta.toml:");
}

/// A certificate that has expired stops neither a start, nor a reload of the server that has it.
/// One that a reload would bring is refused.
pub(crate) fn an_expired_certificate_is_served(variant: &Variant) {
    let home = Site::new();
    let [first, second] = ["one", "two"].map(|text| (text, Site::with(&[("small.txt", text)])));
    home.lead("current", first.1.root());
    let certificate = home.beside("old.pem");
    let expires_in = |year: i32| {
        let made = MadeCertificate::new(&["a.example"], 2020..year, &PKCS_ECDSA_P256_SHA256);
        made.write(&certificate);
    };
    expires_in(2021);
    let launch = Launch::new(variant, &home.beside("current")).set("tls.listen=127.0.0.1:0");
    let server = launch.set_path("tls.certificate", &certificate).start();
    assert!(serves(&server, first.0));
    server.says("[tls-expired]");
    home.lead("current", second.1.root());
    soon(|| serves(&server, second.0));
    succeed(&server, "reload");
    expires_in(2022);
    server.asks("reload", 1);
    server.says("expired on Sat, 01 Jan 2022");
    server.says("reload: it was refused");
    assert!(serves(&server, second.0));
}

pub(crate) fn logs_that_the_server_made(variant: &Variant) {
    let site = Site::with(&[("small.txt", "text")]);
    let logs = site.beside("logs");
    fs::create_dir(&logs).expect("a folder");
    fs::set_permissions(&logs, fs::Permissions::from_mode(0o1777)).expect("ours");
    let launch = Launch::new(variant, &site.root()).log(&logs.join("access"));
    let server = launch.set_path("log.error", &logs.join("error")).start();
    server.asks("reload", 0);
}

/// The server adds them once, however many upgrades follow, and a reload keeps them.
pub(crate) fn a_program_that_adds_arguments(variant: &Variant) {
    let program = Program::new(&format!("{}-adds", variant.name));
    let own = Configured::new(variant, &program.0);
    program.replace("exec PROGRAM \"$@\" --set limits.idle_ms_max=4321");
    let says = || {
        let words = fs::read(format!("/proc/{}/cmdline", own.server.pid())).expect("alive");
        String::from_utf8_lossy(&words).matches("limits.idle_ms_max=4321").count()
    };
    assert_eq!(says(), 0);
    for command in ["upgrade", "upgrade", "reload", "upgrade"] {
        succeed(&own.server, command);
        assert_eq!(says(), 1, "{command}");
    }
    program.replace(SERVE);
    succeed(&own.server, "upgrade");
    assert_eq!(says(), 0, "what lies there says what is added");
}

pub(crate) fn a_client_has_its_requests_once(variant: &Variant) {
    let server = start_with(variant, &["limits.client_rate=1", "limits.client_burst=60"]);
    let begun = Instant::now();
    // Asks until it is refused, and counts the answers.
    let granted = || {
        let mut client = server.connect();
        (0..).take_while(|_| client.get("/small.txt").status == 200).count() as u64
    };
    let first = granted();
    succeed(&server, "reload");
    let then = granted();
    let allowed = 60 + begun.elapsed().as_secs() + 1;
    assert!(first >= 60 && first + then <= allowed, "{first} and {then} of {allowed}");
}

/// After many reloads the master has no more descriptors open than after the first.
pub(crate) fn nothing_is_left(variant: &Variant) {
    let server = start(variant);
    let open = || descriptors(server.pid()).len();
    let reloads = |generations: std::ops::Range<u64>| {
        for generation in generations {
            succeed(&server, "reload");
            server.says(&format!("generation {generation} is gone"));
        }
        // The master forgets a generation a moment after reporting its end.
        thread::sleep(Duration::from_millis(100));
    };
    reloads(1..2);
    let first = open();
    reloads(2..6);
    comes_to(open, |open| *open <= first);
}
