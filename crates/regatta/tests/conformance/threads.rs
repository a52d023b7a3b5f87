//! Architectures with a thread or a process for each connection: they have those, and no others.

use crate::prelude::*;
use crate::structure::epolls;

/// Fails unless the worker gets `threads` threads for connections, and one other task.
fn has_threads(server: &Server, threads: usize) {
    let count = |tasks: &Vec<String>| tasks.iter().filter(|name| *name == "conn").count();
    let found = || (threads, tasks(worker(server)));
    let (_, found) = comes_to(found, |(threads, tasks)| count(tasks) == *threads);
    assert_eq!(found.len(), threads + 1, "{found:?}");
}

/// A thread per allowed connection; or, on demand, one per connection and a few more.
pub(crate) fn tasks_are_those_of_connections(variant: &Variant) {
    let server = Launch::new(variant, common()).set("limits.connections_max=12").start();
    let on_demand = variant.has("threads.start=on-demand");
    has_threads(&server, if on_demand { 2 } else { 12 });
    let mut clients = Vec::new();
    for number in 1..=8 {
        clients.push(server.connect());
        clients[number - 1].get("/size-65537.bin").expect(200);
        has_threads(&server, if on_demand { number + 2 } else { 12 });
    }
    drop(clients);
    has_threads(&server, if on_demand { 4 } else { 12 });
}

/// A process of one task per allowed connection; all share the listener and the counters.
pub(crate) fn processes_are_those_of_connections(variant: &Variant) {
    let server = Launch::new(variant, common()).set("limits.connections_max=5").start();
    let mut clients = server.clients(5);
    get_all(&mut clients, "/size-65537.bin");
    let workers = server.workers();
    assert_eq!(workers.len(), 5);
    assert!(server.processes().into_iter().all(|pid| inspect::tasks(pid) == 1));
    let listeners: BTreeSet<_> = workers.iter().map(|pid| inspect::listeners(*pid)).collect();
    assert_eq!(listeners.len(), 1, "{listeners:?}");
    inspect::shares_only_counters(workers[0]);
    let mut sixth = server.waiting_client("/small.txt", "there is no process for a sixth");
    drop(clients.pop());
    sixth.answer("GET").expect(200);
}

/// No poller waits for events of connections; the first of several threads waits for the master's.
pub(crate) fn no_poller_is_asked(variant: &Variant) {
    let server = start(variant);
    let mut clients = server.clients(5);
    let (begin, before) = (Instant::now(), read(&server, "accept_ok", 5));
    for client in &mut clients {
        (0..100).for_each(|_| drop(client.get("/small.txt").expect(200).has(b"small\n")));
    }
    let after = read(&server, "replies", 500);
    let waits = counter(&after, "wait_calls") - counter(&before, "wait_calls");
    assert!(waits <= 5 + begin.elapsed().as_secs(), "{waits} waits for 500 replies");
    assert!(server.workers().into_iter().all(|worker| epolls(worker) == 0));
}

pub(crate) fn a_slow_reader_has_a_worker_of_its_own(variant: &Variant) {
    let server = Launch::new(variant, common()).set("limits.connections_max=4").start();
    let mut slow: Vec<Client> = (0..3).map(|_| server.stuck_client()).collect();
    let mut fourth = server.connect();
    let begin = Instant::now();
    (0..20).for_each(|_| drop(fourth.get("/size-65537.bin").expect(200).has(sized(65_537))));
    assert!(begin.elapsed() < Duration::from_secs(3), "waited {:?}", begin.elapsed());
    let mut fifth = server.waiting_client("/small.txt", "there is no worker for a fifth");
    slow.pop().expect("three").abort();
    fifth.answer("GET").expect(200);
}

/// Threads that block in a send to a client that does not read, or wait for a head, do not delay a
/// server that is to exit at once. The master need not kill it, unless the machine is so busy that
/// the process is late by 100 ms.
pub(crate) fn who_blocks_does_not_delay_the_end(variant: &Variant) {
    assert!((0..3).any(|_| ends_by_itself(variant)), "killed three times");
}

fn ends_by_itself(variant: &Variant) -> bool {
    let steps = if variant.architecture == "hybrid" { "pool.step_ms" } else { "threads.step_ms" };
    // Few threads: the end of hundreds takes a crowded machine longer than the master waits.
    let mut server = start_with(variant, &["limits.connections_max=8", &format!("{steps}=30s")]);
    let _slow: Vec<Client> = (0..3).map(|_| server.stuck_client()).collect();
    let _half = server.asked("GET /small.txt HTT");
    read(&server, "accept_ok", 4);
    let begin = Instant::now();
    server.signal(Signal::QUIT);
    let status = server.exit_within(PATIENCE).expect("it ends");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert!(status.success(), "{status}");
    !server.stderr().contains("killed")
}

/// Others are served while a thousand clients send their heads slowly.
pub(crate) fn a_thousand_slow_clients(variant: &Variant) {
    const CLIENTS: usize = 1000;
    let own = ["limits.connections_max=1010", "limits.head_ms_max=60s", "threads.step_ms=1s"];
    let server = start_with(variant, &own);
    let mut slow = server.clients(CLIENTS);
    send_all(&mut slow, "GET /small.txt HTTP/1.1\r\nHost:");
    read(&server, "accept_ok", CLIENTS as u64);
    let begin = Instant::now();
    server.connect().get("/size-65537.bin").expect(200);
    assert!(begin.elapsed() < Duration::from_secs(2), "waited {:?}", begin.elapsed());
    send_all(&mut slow, " x\r\n\r\n");
    bodies_are(&mut slow, b"small\n");
}
