//! The running server that `regatta top`, `regatta reload` or `regatta upgrade` means.
//!
//! Counters are in memory that every process of a server has open, so they are found below `/proc`.
use super::{FAILED, Server, USAGE, processes};
use crate::{Failure, UsageFault, WorkFault, handover::INHERIT};
use regatta_metrics::{self as metrics, Arena, ArenaView, ControlView, Film, Phase};
use regatta_sys::{
    process,
    shm::{self, Foreign, Writable},
    terminal::COLUMNS,
};
use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::Read as _,
    path::Path,
    sync::atomic::AtomicU64,
};

/// User that may read and signal the servers of all users.
const ROOT: u32 = 0;

/// Arguments of a process that are read, bytes. Another user's process may have any number.
const ARGUMENTS_BYTES_MAX: u64 = 4096;

/// Number of attempts to map new memory of a master. At the first, the memory may exist but not yet
/// belong to a generation.
const ATTEMPTS_MAX: u32 = 2;

/// Reason why a command has no server.
#[derive(Debug)]
pub enum FindError {
    /// The memory of a process cannot be mapped.
    Memory(shm::AttachError),
    /// The counters of a process are not those of this build.
    Counters(u32, metrics::ArenaError),
    /// A process, and the master that its counters name, which does not have them.
    Stray(u32, u32),
    /// The server with this process has no memory for films.
    NoFilm(u32),
    /// Their processes and descriptions.
    Several(Vec<(u32, String)>),
    /// No server runs.
    None,
    /// No server of this user runs.
    NoneOfUser,
    /// Root has this one.
    OnlyOfRoot(u32),
}

impl FindError {
    /// Exit code.
    pub(super) const fn code(&self) -> u8 {
        match self {
            Self::Several(_) => USAGE,
            _ => FAILED,
        }
    }

    /// Failure of a command that needs a server.
    pub(super) const fn failure(self) -> Failure {
        match self.code() {
            USAGE => Failure::Usage(UsageFault::Server(self)),
            _ => Failure::Work(WorkFault::Server(self)),
        }
    }
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => write!(f, "{error}"),
            Self::Counters(pid, error) => write!(f, "process {pid}: {error}"),
            Self::Stray(pid, master) => write!(
                f,
                "process {pid} has counters that are not those of process {master}, as they say"
            ),
            Self::NoFilm(pid) => write!(
                f,
                "process {pid} cannot be filmed: it is of another build, or had no memory for it \
                 at its start"
            ),
            Self::Several(servers) => {
                f.write_str("several servers are running; choose one with --pid:")?;
                servers.iter().try_for_each(|(pid, description)| {
                    write!(f, "\n{}", cut(&format!("  --pid {pid}  {description}")))
                })
            }
            Self::None => f.write_str("found no running server"),
            Self::NoneOfUser => {
                f.write_str("found no running server of this user; root finds those of all users")
            }
            Self::OnlyOfRoot(pid) => write!(
                f,
                "found no running server of this user, but root runs one (process {pid}); repeat \
                 the command as root, with --pid {pid}"
            ),
        }
    }
}

/// A server that runs, of this build or of another one.
pub(super) struct Running {
    words: &'static [AtomicU64],
    pub(super) control: ControlView<'static>,
    pub(super) pid: u32,
    /// User of its master.
    uid: u32,
}

impl Running {
    fn arena(&self) -> Result<ArenaView<'static>, FindError> {
        Arena::attach(self.words).map_err(|error| FindError::Counters(self.pid, error))
    }
}

/// The counters of the server with this process, or of the only one that this user may mean.
pub(super) fn attach(pid: Option<u32>) -> Result<Server, FindError> {
    let running = find(pid)?;
    Ok(Server::new(running.arena()?, running.pid))
}

/// Memory of a running server in which a film is made.
pub(crate) struct Filmable {
    /// Process of its master.
    pub(crate) pid: u32,
    /// Counters of its latest generation.
    pub(crate) arena: Arena<'static>,
    pub(crate) film: Film<'static>,
    /// Memory of the film, which is locked while one is made.
    pub(crate) memory: Writable,
}

/// Memory for a film of the server with this process, or of the only one that this user may mean.
pub(crate) fn attach_to_film(pid: Option<u32>) -> Result<Filmable, Failure> {
    let failed = |error: FindError| error.failure();
    let Running { pid, uid, .. } = find(pid).map_err(failed)?;
    let words = |name| {
        let all = shm::attach_to_write(pid, name).map_err(FindError::Memory)?;
        Ok(all.into_iter().filter(|memory| memory.uid == uid).collect::<Vec<_>>())
    };
    let films = match words(shm::FILM_NAME) {
        Err(FindError::Memory(shm::AttachError::NotAServer(_))) => Vec::new(),
        films => films.map_err(failed)?,
    };
    let film = films.into_iter().find_map(|memory| Some((Film::attach(memory.words)?, memory)));
    let (film, memory) = film.ok_or(FindError::NoFilm(pid)).map_err(failed)?;
    let arenas = words(shm::NAME).map_err(failed)?;
    let arenas = arenas.into_iter().map(|memory| Arena::attach_to_film(memory.words));
    let mut fault = FindError::NoFilm(pid);
    let latest = arenas
        .filter_map(|arena| arena.map_err(|error| fault = FindError::Counters(pid, error)).ok())
        .max_by_key(|arena| arena.generation());
    let arena = latest.ok_or(fault).map_err(failed)?;
    Ok(Filmable { pid, arena, film, memory })
}

impl Server {
    /// Switches to the counters of the next generation, if this one leaves and there is another.
    pub(super) fn follow(&mut self) {
        if self.arena.control().phase() == Phase::Run {
            return;
        }
        // For a moment it may have none that can be read; the next look is soon.
        let Ok(there) = shm::ids(self.pid) else { return };
        if there != self.seen {
            (self.seen, self.attempts_left) = (there, ATTEMPTS_MAX);
        }
        if self.attempts_left == 0 {
            return;
        }
        let Ok(server) = attach(Some(self.pid)) else { return };
        self.attempts_left -= 1;
        self.arena = server.arena;
    }
}

/// The server with this process, or the only one that this user may mean.
pub(super) fn find(pid: Option<u32>) -> Result<Running, FindError> {
    match pid {
        Some(pid) => server_of(pid),
        None => choose(running(), process::effective_user(), masters_of_root, describe),
    }
}

/// Chooses among the running servers without `--pid`: the only one of this user or, for root, the
/// only one of all users. `of_root` lists the masters that another user may not signal.
fn choose(
    mut servers: Vec<Running>,
    caller: u32,
    of_root: impl FnOnce() -> Vec<u32>,
    describe: impl Fn(&Running) -> String,
) -> Result<Running, FindError> {
    servers.retain(|server| caller == ROOT || caller == server.uid);
    if servers.len() > 1 {
        let described = servers.iter().map(|server| (server.pid, describe(server)));
        return Err(FindError::Several(described.collect()));
    }
    servers.pop().ok_or_else(|| match caller {
        ROOT => FindError::None,
        _ => of_root().first().map_or(FindError::NoneOfUser, |pid| FindError::OnlyOfRoot(*pid)),
    })
}

/// Describes a server in a list: user, workers, and configuration or root.
fn describe(server: &Running) -> String {
    let workers = match server.arena() {
        Ok(arena) => match processes(arena.slots().map(|slot| slot.pid())) {
            1 => "1 worker".to_owned(),
            workers => format!("{workers} workers"),
        },
        Err(_) => "another build".to_owned(),
    };
    let user = user_name(server.uid);
    match configured_by(&arguments(server.pid)) {
        text if text.is_empty() => format!("user {user}, {workers}"),
        text => format!("user {user}, {workers}: {text}"),
    }
}

/// The option that names the configuration, or all arguments of `regatta serve`. A reload and an
/// upgrade add `--inherit`, which says nothing to a reader.
fn configured_by(arguments: &[String]) -> String {
    let after = arguments.get(2..).unwrap_or_default();
    let after = match after {
        [word, after @ ..] if word.starts_with(INHERIT) => after,
        _ => after,
    };
    let names = |word: &String| word == "--config" || word.starts_with("--config=");
    match after.iter().position(names) {
        Some(at) if after[at] == "--config" => after[at..after.len().min(at + 2)].join(" "),
        Some(at) => after[at].clone(),
        None => after.join(" "),
    }
}

/// Cuts a line that is too wide.
fn cut(line: &str) -> String {
    if line.chars().count() <= COLUMNS {
        return line.to_owned();
    }
    line.chars().take(COLUMNS - 1).chain(['…']).collect()
}

/// Lists the servers that this user may read, each once, though all its processes can be found.
fn running() -> Vec<Running> {
    let mut servers = BTreeMap::new();
    for server in pids().filter_map(|pid| server_of(pid).ok()) {
        servers.entry(server.pid).or_insert(server);
    }
    servers.into_values().collect()
}

/// Lists processes of root that run `regatta serve`. Another user cannot read their counters.
fn masters_of_root() -> Vec<u32> {
    let serves = |pid: &u32| {
        let words = arguments(*pid);
        let program = words.first().map(Path::new).and_then(Path::file_name);
        program.is_some_and(|name| name == "regatta")
            && words.get(1).is_some_and(|word| word == "serve")
            && effective_user(&pid.to_string()) == Some(ROOT)
    };
    let all: Vec<u32> = pids().filter(serves).collect();
    // Children have the arguments of their master.
    let is_master = |pid: &u32| {
        let parent = status(&pid.to_string(), "PPid:", 0);
        parent.is_none_or(|parent| !all.contains(&parent))
    };
    all.iter().copied().filter(is_master).collect()
}

/// Lists all processes.
fn pids() -> impl Iterator<Item = u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| process.file_name().to_str()?.parse().ok())
}

/// The server that a process is of. Any process may have memory that is called like a server's, so
/// it must be that of the master which it names.
fn server_of(pid: u32) -> Result<Running, FindError> {
    let mut fault = FindError::Memory(shm::AttachError::NotAServer(pid));
    let attach = |found: Foreign| match ControlView::attach(found.words) {
        Ok(control) => Some((found, control)),
        Err(error) => {
            fault = FindError::Counters(pid, error);
            None
        }
    };
    let all = shm::attach_all(pid).map_err(FindError::Memory)?;
    // Those of earlier generations are added up in the last.
    let last = all.into_iter().filter_map(attach).max_by_key(|(_, of)| of.generation());
    let Some((Foreign { words, id, uid }, control)) = last else { return Err(fault) };
    let master = match control.server_pid() {
        0 => pid,
        master => master,
    };
    let is_its_own = shm::attach_all(master).is_ok_and(|its| its.iter().any(|its| its.id == id))
        && effective_user(&master.to_string()) == Some(uid);
    if is_its_own {
        return Ok(Running { words, control, pid: master, uid });
    }
    Err(FindError::Stray(pid, master))
}

/// The effective user of a process. The owner of its directory is root too if it may not be traced.
fn effective_user(process: &str) -> Option<u32> {
    status(process, "Uid:", 1)
}

/// A number from the status of a process.
fn status(process: &str, field: &str, column: usize) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let values = status.lines().find_map(|line| line.strip_prefix(field))?;
    values.split_whitespace().nth(column)?.parse().ok()
}

/// The arguments of a process, its program first. They may be another user's, so control characters
/// are escaped.
fn arguments(pid: u32) -> Vec<String> {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{pid}/cmdline"));
    let read = file.and_then(|file| file.take(ARGUMENTS_BYTES_MAX).read_to_end(&mut bytes));
    if read.is_err() || bytes.is_empty() {
        return Vec::new();
    }
    let words = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|byte| *byte == 0);
    words.map(|word| String::from_utf8_lossy(word).escape_debug().to_string()).collect()
}

/// The name of a user, or its number if `/etc/passwd` has none.
fn user_name(uid: u32) -> String {
    let table = fs::read_to_string("/etc/passwd").unwrap_or_default();
    // name:password:uid:gid:…, passwd(5)
    let name = table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| uid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(pid: u32, uid: u32) -> Running {
        let words: Vec<AtomicU64> = (0..Arena::count_words(2)).map(|_| AtomicU64::new(0)).collect();
        let words = words.leak();
        let arena = Arena::create(words, 2);
        arena.slot(0).enter(pid + 1);
        Running { words, control: arena.view().control(), pid, uid }
    }

    /// Decides for this user among servers, each a process and its user.
    fn decide(caller: u32, servers: &[(u32, u32)], of_root: &[u32]) -> Result<u32, FindError> {
        let servers = servers.iter().map(|&(pid, uid)| server(pid, uid)).collect();
        let describe = |server: &Running| format!("user {}", server.uid);
        choose(servers, caller, || of_root.to_vec(), describe).map(|server| server.pid)
    }

    #[test]
    fn the_only_server_is_taken() {
        for (caller, servers, expect) in [
            (ROOT, &[(7, ROOT)][..], 7),
            (ROOT, &[(9, 1000)], 9),
            (1000, &[(9, 1000)], 9),
            (1000, &[(7, ROOT), (8, 1001), (9, 1000)], 9),
        ] {
            assert_eq!(decide(caller, servers, &[7]).ok(), Some(expect), "{caller}: {servers:?}");
        }
    }

    #[test]
    fn several_servers_are_listed_and_for_root_those_of_all_users() {
        for (caller, servers, expect) in [
            (ROOT, &[(7, ROOT), (9, 1000)][..], [(7, 0), (9, 1000)]),
            (ROOT, &[(8, 1001), (9, 1000)], [(8, 1001), (9, 1000)]),
            (1000, &[(7, ROOT), (8, 1000), (9, 1000)], [(8, 1000), (9, 1000)]),
        ] {
            let expect = expect.map(|(pid, user)| format!("  --pid {pid}  user {user}"));
            let error = decide(caller, servers, &[]).expect_err("there are two");
            assert_eq!(error.code(), USAGE);
            assert_eq!(error.to_string().lines().skip(1).collect::<Vec<_>>(), expect);
        }
    }

    #[test]
    fn a_user_without_a_server_gets_the_process_of_roots() {
        let none = decide(1000, &[(8, 1001)], &[]).expect_err("it is another user's");
        assert!(matches!(none, FindError::NoneOfUser) && none.code() == FAILED, "{none:?}");
        let of_root = decide(1000, &[], &[7]).expect_err("it is root's");
        assert!(of_root.code() == FAILED && of_root.to_string().contains("as root, with --pid 7"));
        let none = decide(ROOT, &[], &[]).expect_err("there is none");
        assert!(matches!(none, FindError::None) && none.code() == FAILED, "{none:?}");
    }

    #[test]
    fn servers_are_described_by_their_configuration_within_a_line() {
        let of =
            |words: &str| configured_by(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("regatta serve --set a=b --config /etc/a.toml"), "--config /etc/a.toml");
        assert_eq!(of("regatta serve --config=/etc/a.toml --set a=b"), "--config=/etc/a.toml");
        assert_eq!(of("regatta serve ./www --listen :80"), "./www --listen :80");
        assert_eq!(of("regatta serve"), "");
        assert_eq!(of("regatta serve --inherit=9 ./www"), "./www");
        assert_eq!(cut(&"ä".repeat(COLUMNS)).chars().count(), COLUMNS);
        assert_eq!(cut(&"ä".repeat(COLUMNS + 1)).chars().count(), COLUMNS);
        let text = describe(&server(u32::MAX - 1, ROOT));
        assert_eq!(text, "user root, 1 worker");
    }
}
