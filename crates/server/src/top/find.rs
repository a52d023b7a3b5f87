//! Which server is meant.
use super::{FAILED, Server, USAGE};
use regatta_metrics::{Arena, ArenaView};
use regatta_sys::shm;
use std::{collections::BTreeMap, fmt::Write, fs};

/// Why there is no server to look at.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) code: u8,
    pub(super) message: String,
}

/// The server with this process, or the only one that runs.
pub(super) fn attach(pid: Option<u32>) -> Result<Server, Problem> {
    match pid {
        Some(pid) => match server_of(pid) {
            Ok((server, _)) => Ok(server),
            Err(message) => Err(Problem { code: FAILED, message }),
        },
        None => only(running()),
    }
}

/// The servers of this user and, if this user may look into them, of root; each once though all its
/// processes can be found. Those of others are for who asks for them.
fn running() -> Vec<Server> {
    let own = effective_user("self");
    let mut servers = BTreeMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let pid = process.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid else { continue };
        if let Ok((server, uid)) = server_of(pid)
            && (uid == 0 || Some(uid) == own)
        {
            servers.entry(server.pid).or_insert(server);
        }
    }
    servers.into_values().collect()
}

/// The server that a process is of, and the user who runs its master. Any process may have memory
/// that is called like a server's, so it must be that of the master which it names.
fn server_of(pid: u32) -> Result<(Server, u32), String> {
    let memory = |pid| shm::attach(pid).map_err(|problem| problem.to_string());
    let found = memory(pid)?;
    let arena =
        Arena::attach(found.words).map_err(|problem| format!("process {pid}: {problem}"))?;
    let server = Server { arena, pid: master(arena, pid) };
    let is_its_own = memory(server.pid).is_ok_and(|its| its.id == found.id)
        && effective_user(&server.pid.to_string()) == Some(found.uid);
    if is_its_own {
        return Ok((server, found.uid));
    }
    let master = server.pid;
    Err(format!("process {pid} has counters that are not those of process {master}, as they say"))
}

/// The user that a process is. The owner of its directory is root too if it may not be traced.
fn effective_user(pid: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

fn only(mut servers: Vec<Server>) -> Result<Server, Problem> {
    match (servers.pop(), servers.is_empty()) {
        (Some(server), true) => Ok(server),
        (Some(last), false) => {
            let mut message = "several servers are running; choose one with --pid:".to_owned();
            for server in servers.iter().chain([&last]) {
                let workers = server.arena.slots().filter(|slot| slot.pid() != 0).count();
                let plural = if workers == 1 { "" } else { "s" };
                write!(message, "\n  --pid {}  ({workers} worker{plural})", server.pid)
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

fn master(arena: ArenaView<'_>, pid: u32) -> u32 {
    match arena.server_pid() {
        0 => pid,
        master => master,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn server(pid: u32) -> Server {
        let words: Vec<AtomicU64> = (0..Arena::words(2)).map(|_| AtomicU64::new(0)).collect();
        let arena = Arena::create(words.leak(), 2);
        arena.slot(0).enter(pid + 1);
        Server { arena: arena.view(), pid }
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
