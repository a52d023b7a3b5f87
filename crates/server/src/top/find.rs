//! Which server is meant.
use super::{FAILED, Server, USAGE, processes};
use regatta_metrics::{Arena, ArenaView, ControlView, Phase};
use regatta_sys::shm::{self, Foreign};
use std::{collections::BTreeMap, fmt::Write, fs, sync::atomic::AtomicU64};

/// How often memory is mapped that a master did not have before: at the first look it may be there,
/// and not yet be a generation's.
const LOOKS: u32 = 2;

/// Why there is no server to look at.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) code: u8,
    pub(super) message: String,
}

/// A server that runs, of this build or of another one.
pub(super) struct Running {
    words: &'static [AtomicU64],
    pub(super) control: ControlView<'static>,
    pub(super) pid: u32,
    /// Who runs its master.
    uid: u32,
}

impl Running {
    fn arena(&self) -> Result<ArenaView<'static>, String> {
        Arena::attach(self.words).map_err(|problem| format!("process {}: {problem}", self.pid))
    }
}

/// The counters of the server with this process, or of the only one that runs.
pub(super) fn attach(pid: Option<u32>) -> Result<Server, Problem> {
    let running = find(pid)?;
    let arena = running.arena().map_err(|message| Problem { code: FAILED, message })?;
    Ok(Server::new(arena, running.pid))
}

impl Server {
    /// If these workers were told to leave, goes on with those that follow them, if there are some.
    pub(super) fn follow(&mut self) {
        if self.arena.control().phase() == Phase::Run {
            return;
        }
        // For a moment it may have none that can be read; the next look is soon.
        let Ok(there) = shm::ids(self.pid) else { return };
        if there != self.seen {
            (self.seen, self.looks) = (there, LOOKS);
        }
        if self.looks == 0 {
            return;
        }
        let Ok(server) = attach(Some(self.pid)) else { return };
        self.looks -= 1;
        self.arena = server.arena;
    }
}

/// The server with this process, or the only one that runs.
pub(super) fn find(pid: Option<u32>) -> Result<Running, Problem> {
    match pid {
        Some(pid) => server_of(pid).map_err(|message| Problem { code: FAILED, message }),
        None => only(running()),
    }
}

/// The servers of this user and, if this user may look into them, of root; each once though all its
/// processes can be found. Those of others are for who asks for them.
fn running() -> Vec<Running> {
    let own = effective_user("self");
    let mut servers = BTreeMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let pid = process.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid else { continue };
        if let Ok(server) = server_of(pid)
            && (server.uid == 0 || Some(server.uid) == own)
        {
            servers.entry(server.pid).or_insert(server);
        }
    }
    servers.into_values().collect()
}

/// The server that a process is of. Any process may have memory that is called like a server's, so
/// it must be that of the master which it names.
fn server_of(pid: u32) -> Result<Running, String> {
    let memory = |pid| shm::attach_all(pid).map_err(|problem| problem.to_string());
    let mut fault = String::new();
    let attach = |found: Foreign| match ControlView::attach(found.words) {
        Ok(control) => Some((found, control)),
        Err(problem) => {
            fault = format!("process {pid}: {problem}");
            None
        }
    };
    // Those of earlier generations are added up in the last.
    let last = memory(pid)?.into_iter().filter_map(attach).max_by_key(|(_, of)| of.generation());
    let Some((Foreign { words, id, uid }, control)) = last else { return Err(fault) };
    let master = match control.server_pid() {
        0 => pid,
        master => master,
    };
    let is_its_own = memory(master).is_ok_and(|its| its.iter().any(|its| its.id == id))
        && effective_user(&master.to_string()) == Some(uid);
    if is_its_own {
        return Ok(Running { words, control, pid: master, uid });
    }
    Err(format!("process {pid} has counters that are not those of process {master}, as they say"))
}

/// The user that a process is. The owner of its directory is root too if it may not be traced.
fn effective_user(pid: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

fn only(mut servers: Vec<Running>) -> Result<Running, Problem> {
    match (servers.pop(), servers.is_empty()) {
        (Some(server), true) => Ok(server),
        (Some(last), false) => {
            let mut message = "several servers are running; choose one with --pid:".to_owned();
            for server in servers.iter().chain([&last]) {
                let what = match server.arena() {
                    Ok(arena) => match processes(arena.slots().map(|slot| slot.pid())) {
                        1 => "1 worker".to_owned(),
                        workers => format!("{workers} workers"),
                    },
                    Err(_) => "another build".to_owned(),
                };
                write!(message, "\n  --pid {}  ({what})", server.pid)
                    .expect("writing to a string cannot fail");
            }
            Err(Problem { code: USAGE, message })
        }
        (None, _) => {
            let message = "found no running server of this user; counters are for root and for \
                           the user that started the server, and root names another user's with \
                           --pid";
            Err(Problem { code: FAILED, message: message.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(pid: u32) -> Running {
        let words: Vec<AtomicU64> = (0..Arena::words(2)).map(|_| AtomicU64::new(0)).collect();
        let words = words.leak();
        let arena = Arena::create(words, 2);
        arena.slot(0).enter(pid + 1);
        Running { words, control: arena.view().control(), pid, uid: 0 }
    }

    #[test]
    fn one_server_is_taken_and_several_are_listed() {
        assert_eq!(only(vec![server(7)]).map(|server| server.pid).ok(), Some(7));
        let none = only(Vec::new()).err().expect("there is none");
        assert_eq!(none.code, FAILED);
        let several = only(vec![server(7), server(9)]).err().expect("there are two");
        assert_eq!(several.code, USAGE);
        let lines: Vec<&str> = several.message.lines().skip(1).collect();
        assert_eq!(lines, ["  --pid 7  (1 worker)", "  --pid 9  (1 worker)"]);
    }
}
