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
        Some(pid) => {
            let arena = arena_of(pid).map_err(|message| Problem { code: FAILED, message })?;
            Ok(Server { arena, pid: master(arena, pid) })
        }
        None => only(running()),
    }
}

/// The servers that this user may look into, each once though all its processes can be found.
fn running() -> Vec<Server> {
    let mut servers = BTreeMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let pid = process.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid else { continue };
        if let Ok(arena) = arena_of(pid) {
            let pid = master(arena, pid);
            servers.entry(pid).or_insert(Server { arena, pid });
        }
    }
    servers.into_values().collect()
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
            let message = "found no running server that this user may look into; \
                           counters are for root and for the user that started the server";
            Err(Problem { code: FAILED, message: message.to_owned() })
        }
    }
}

fn arena_of(pid: u32) -> Result<ArenaView<'static>, String> {
    let words = shm::attach(pid).map_err(|problem| problem.to_string())?;
    Arena::attach(words).map_err(|problem| format!("process {pid}: {problem}"))
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
