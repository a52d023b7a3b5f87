//! SYMPED, seen from outside (systems.md §8.6): p tasks in p processes that share a listener, the
//! counters, and nothing else.

use crate::config::printed;
use crate::inspect::{listeners, owners, shares_only_counters, tasks};
use crate::prelude::*;

fn start(settings: &[&str]) -> Server {
    start_with(&Variant::plain("symped"), settings)
}

/// Opens connections until every worker has some; by worker.
fn spread(server: &Server) -> BTreeMap<u32, Vec<Client>> {
    let workers = server.workers().len();
    let mut by_worker: BTreeMap<u32, Vec<Client>> = BTreeMap::new();
    for _ in 0..200 {
        // Several at once, so that one process alone is not quick enough for all.
        let mut clients = server.clients(16);
        burst(&mut clients, "/small.txt");
        let pids = owners(server, clients.iter().map(Client::socket));
        for (client, pid) in clients.into_iter().zip(pids) {
            let known = by_worker.entry(pid.expect("somebody answered")).or_default();
            if known.len() < 4 {
                known.push(client);
            }
        }
        if by_worker.len() == workers {
            return by_worker;
        }
    }
    panic!("some workers have no connection: {by_worker:?}");
}

pub(crate) fn as_many_tasks_as_processes_on_one_listener() {
    for (processes, listen) in [(1, "shared"), (2, "shared"), (4, "shared"), (3, "exclusive")] {
        let count = format!("event.processes={processes}");
        let server = start(&[&count, &format!("event.listen={listen}")]);
        let workers = server.workers();
        assert_eq!(workers.len(), processes);
        assert!(server.processes().into_iter().all(|pid| tasks(pid) == 1));
        let all: BTreeSet<_> = workers.iter().map(|worker| listeners(*worker)).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all.first().expect("one").len(), 1, "one address, one socket: {all:?}");
    }
}

/// [E] §5.1: blocking variants have a process for each response, and send it by one call.
pub(crate) fn blocking_ones_are_many_and_send_once() {
    for name in ["symped-b", "shared-symped-b"] {
        let table = printed(&["--architecture", name]);
        assert_eq!(table["event"]["processes"].as_integer(), Some(100), "{name}");
        assert_eq!(table["event"]["send"].as_str(), Some("blocking"), "{name}");
        let settings = ["limits.send_window_ms=60s", "event.processes=6"];
        let server = start_with(&Variant::plain(name), &settings);
        assert_eq!(server.workers().len(), 6, "{name}");
        // Each of these occupies a process, which accepts no client meanwhile, and one is left.
        let mut slow: Vec<_> = (0..5).map(|_| server.slow_reader("/size-5242880.bin")).collect();
        server.connect().get("/small.txt").expect(200);
        for client in &mut slow {
            client.take(5 << 20);
        }
        let sent = || {
            let top = server.top();
            ["replies", "sendfile_calls", "sendfile_would_block"].map(|name| counter(&top, name))
        };
        comes_to(|| (name, sent()), |(_, sent)| *sent == [6, 5, 0]);
    }
}

pub(crate) fn a_process_for_each_processor_unless_told_otherwise() {
    let allowed = inspect::processors_at_once();
    assert_eq!(start(&[]).workers().len(), allowed);
}

pub(crate) fn sockets_of_their_own_share_one_port() {
    let server = start(&["event.processes=3", "event.listen=reuseport"]);
    let each: Vec<_> = server.workers().into_iter().map(listeners).collect();
    assert!(each.iter().all(|own| own.len() == 1), "{each:?}");
    assert_eq!(each.iter().flatten().collect::<BTreeSet<_>>().len(), 3, "{each:?}");
    assert_eq!(listeners(server.pid()).len(), 3, "the master keeps them all");
    assert_eq!(server.stdout_line(Duration::from_millis(100)), None, "one line: one address");
    assert_eq!(spread(&server).len(), 3);
}

/// Two processes with room for two connections each. A connection wakes one of them.
fn with_room_for_four(when_full: &str) -> Server {
    let room = ["event.processes=2", "limits.connections_max=4", "event.listen=exclusive"];
    let full = format!("accept.when_full={when_full}");
    start(&[&room[..], &["event.poller=epoll", &full]].concat())
}

/// A connection wakes one process (EPOLLEXCLUSIVE), which must not be a full one. Of successive
/// connections each is served while any process has room.
pub(crate) fn an_exclusive_wake_goes_to_who_has_room() {
    for when_full in ["keep-polling", "pause", "close-idle"] {
        let server = with_room_for_four(when_full);
        let _inside: Vec<_> = (0..4).map(|_| server.busy_clients(1)).collect();
        assert!(eventually(PATIENCE, || server.open_connections() == 4), "{when_full}");
    }
}

/// A connection may wake a full worker alone, which leaves it to the other.
pub(crate) fn a_full_worker_passes_on_what_wakes_it() {
    for when_full in ["pause", "close-idle"] {
        let server = with_room_for_four(when_full);
        let mut inside: Vec<Client> = Vec::new();
        // Each time another worker has the room, and the kernel wakes either.
        for turn in 0..16 {
            if inside.len() == 4 {
                drop(inside.remove(turn % 2));
                // The other policy may have closed that connection before, for a newcomer.
                let is_out = || server.open_connections() == 3 || when_full != "pause";
                assert!(eventually(PATIENCE, is_out), "{when_full}");
            }
            // No other arrives until it is answered.
            inside.extend(server.busy_clients(1));
        }
    }
}

pub(crate) fn counters_are_all_they_share() {
    let server = start(&["event.processes=3"]);
    let clients = spread(&server);
    for pid in server.workers() {
        shares_only_counters(pid);
    }
    // Each has a separate cache and separate counters.
    let top = server.top();
    let fills = |worker: &Value| worker["counters"]["cache_fills"].as_u64();
    let workers = top["workers"].as_array().expect("rows");
    assert_eq!(workers.len(), 3);
    assert!(workers.iter().all(|worker| fills(worker) == Some(1)), "{top}");
    drop(clients);
}

pub(crate) fn killing_one_leaves_the_others_serving() {
    let server = start(&["event.processes=3"]);
    let mut clients = spread(&server);
    let before = listeners(server.workers()[0]);
    let (victim, _lost) = clients.pop_first().expect("three");
    kill(victim, Signal::KILL);
    for client in clients.values_mut().flatten() {
        client.get("/small.txt").expect(200);
    }
    (0..30).for_each(|_| drop(server.busy_clients(1)));
    assert!(clients.keys().all(|worker| alive(*worker)));
    comes_to(
        || server.workers(),
        |now| now.len() == 3 && !now.contains(&victim) && now.iter().all(|pid| tasks(*pid) == 1),
    );
    soon(|| server.workers().into_iter().all(|worker| listeners(worker) == before));
}

pub(crate) fn a_process_that_stands_still_delays_nobody_else() {
    let server = start(&["event.processes=3"]);
    let mut clients = spread(&server);
    let (still, mut stuck) = clients.pop_first().expect("three");
    halt(still);
    for client in clients.values_mut().flatten() {
        client.get("/small.txt").expect(200);
    }
    (0..30).for_each(|_| drop(server.busy_clients(1)));
    let first = &mut stuck[0];
    first.send(get("/small.txt"));
    assert!(first.silent_for(Duration::from_millis(200)), "a stopped process answered");
    kill(still, Signal::CONT);
    first.answer("GET").expect(200);
}

pub(crate) fn a_queue_outlives_its_process() {
    let server = start(&["event.processes=2", "event.listen=reuseport"]);
    let still = server.workers()[0];
    halt(still);
    let mut clients = server.clients(64);
    send_all(&mut clients, get("/small.txt"));
    let mut waiting: Vec<_> = clients
        .into_iter()
        .filter_map(|mut client| client.silent_for(Duration::from_millis(30)).then_some(client))
        .collect();
    assert!(!waiting.is_empty(), "the kernel asks nobody who is busy");
    kill(still, Signal::KILL);
    answer_all(&mut waiting, 200);
}

pub(crate) fn connections_are_split_evenly() {
    let stop = "accept.when_full=pause";
    let server = start(&["event.processes=2", "limits.connections_max=6", stop]);
    let mut clients = server.busy_clients(6);
    let mut each: BTreeMap<Option<u32>, usize> = BTreeMap::new();
    for owner in owners(&server, clients.iter().map(Client::socket)) {
        *each.entry(owner).or_default() += 1;
    }
    assert_eq!(each.into_values().collect::<Vec<_>>(), [3, 3]);
    let mut seventh = server.waiting_client("/small.txt", "a seventh was served");
    clients.pop();
    seventh.answer("GET").expect(200);
}
