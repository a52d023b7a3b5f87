//! N-copy, seen from outside (systems.md §8.6). Copies share no listener, and no memory but the
//! counters. Each is on a separate port, address or steered socket, and stays where it is pinned.

use crate::inspect::{listeners, owner, owners, processors, shares_only_counters, tasks};
use crate::prelude::*;
use regatta_sys::affinity;
use rustix::thread::{CpuSet, sched_setaffinity};

fn launch(settings: &[&str]) -> Launch {
    Launch::new(&Variant::plain("n-copy"), common()).sets(settings)
}

/// Allowed processors, neighbours side by side.
fn allowed() -> Vec<usize> {
    affinity::neighbours(processors(std::process::id()), Path::new(affinity::CPUS))
}

/// Reads further addresses that the server prints.
fn more_addresses(server: &Server, count: usize) -> Vec<SocketAddr> {
    let mut addresses = server.addresses().to_vec();
    for _ in 0..count {
        let line = server.stdout_line(PATIENCE).expect("one line for each address");
        let address = line.strip_prefix("listening on http://").expect("an address");
        addresses.push(address.parse().expect("an address"));
    }
    assert_eq!(server.stdout_line(Duration::from_millis(100)), None, "and nothing else");
    addresses
}

/// Nothing is shared but the counters: listeners, memory, processors.
fn check_apart(server: &Server, copies: usize) {
    let workers = server.workers();
    assert_eq!(workers.len(), copies);
    let each: Vec<_> = workers.iter().map(|worker| listeners(*worker)).collect();
    assert!(each.iter().all(|own| own.len() == 1), "{each:?}");
    assert_eq!(each.iter().flatten().collect::<BTreeSet<_>>().len(), copies, "{each:?}");
    for (at, worker) in workers.iter().enumerate() {
        assert_eq!(tasks(*worker), 1);
        shares_only_counters(*worker);
        assert_eq!(processors(*worker), [allowed()[at % allowed().len()]], "copy {at}");
    }
}

/// A connection from this processor: on loopback, it handles the packets there too.
fn connect_from(cpu: usize, address: SocketAddr) -> Client {
    thread::scope(|scope| {
        let connect = move || {
            let mut set = CpuSet::new();
            set.set(cpu);
            sched_setaffinity(None, &set).expect("it is allowed");
            Client::connect(address)
        };
        scope.spawn(connect).join().expect("connected")
    })
}

pub(crate) fn copies_have_ports_of_their_own() {
    let server = launch(&["event.copies=3"]).start();
    check_apart(&server, 3);
    let addresses = more_addresses(&server, 2);
    assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), 3, "{addresses:?}");
    each_has_an_address(&server, &addresses);
    for worker in server.top()["workers"].as_array().expect("rows") {
        assert_eq!(worker["counters"]["cache_fills"], 1, "each has its cache");
    }
}

/// Given a port, copy i has the port i above it.
pub(crate) fn ports_are_counted_up() {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Below the range from which the kernel chooses ports.
    let base = (20_000..30_000).step_by(7).find(|port| free(*port) && free(*port + 1));
    let base = base.expect("two free ports");
    let server = launch(&["event.copies=2"]).listen(&format!("127.0.0.1:{base}")).start();
    let addresses = more_addresses(&server, 2);
    let fixed = addresses.iter().map(SocketAddr::port).filter(|port| *port >= base);
    let fixed: BTreeSet<_> = fixed.filter(|port| *port <= base + 1).collect();
    assert_eq!(fixed, BTreeSet::from([base, base + 1]), "{addresses:?}");
}

pub(crate) fn copies_have_addresses_of_their_own() {
    let launch = launch(&["event.copies=0", "event.partition=addresses"]);
    let server = launch.listen("127.0.0.2:0").start();
    check_apart(&server, 2);
    each_has_an_address(&server, server.addresses());
}

/// Fails unless each worker answers at its own address.
fn each_has_an_address(server: &Server, addresses: &[SocketAddr]) {
    for (address, worker) in addresses.iter().zip(server.workers()) {
        let mut client = Client::connect(*address);
        client.get("/small.txt").expect(200);
        assert_eq!(owner(server, client.socket()), Some(worker), "{address}");
    }
}

pub(crate) fn a_steered_connection_stays_on_its_processor() {
    let server = launch(&["event.partition=steer-cpu"]).start();
    let allowed = allowed();
    check_apart(&server, inspect::processors_at_once());
    assert_eq!(server.stdout_line(Duration::from_millis(100)), None, "one port, one line");
    for (cpu, worker) in allowed.iter().zip(server.workers()) {
        let mut clients: Vec<_> = (0..10).map(|_| connect_from(*cpu, server.address())).collect();
        get_all(&mut clients, "/small.txt");
        let owners = owners(&server, clients.iter().map(Client::socket));
        assert_eq!(owners, [Some(worker); 10], "from processor {cpu}");
    }
}

pub(crate) fn copies_may_have_several_processes() {
    let server = launch(&["event.copies=2", "event.processes=2"]).start();
    let workers = server.workers();
    let each: Vec<_> = workers.iter().map(|worker| listeners(*worker)).collect();
    assert!(each[0] == each[1] && each[2] == each[3] && each[1] != each[2], "{each:?}");
    let cpus: Vec<_> = workers.iter().map(|worker| processors(*worker)).collect();
    assert!(cpus[0] == cpus[1] && cpus[2] == cpus[3], "{cpus:?}");
    let free = launch(&["event.copies=2", "event.pin=none"]).start();
    let all = processors(std::process::id());
    assert!(free.workers().into_iter().all(|worker| processors(worker) == all));
}

/// [G] §IV-D: a copy may have several processors; its processes run on all of them, or on one each.
pub(crate) fn copies_may_have_several_processors() {
    let allowed = allowed();
    let copies = if allowed.len().is_multiple_of(2) { allowed.len() / 2 } else { 1 };
    let each = allowed.len() / copies;
    for pin in ["share", "cpu"] {
        let launch = launch(&["event.processes=2"]).set(format!("event.copies={copies}"));
        let server = launch.set(format!("event.pin={pin}")).start();
        let workers = server.workers();
        assert_eq!(workers.len(), 2 * copies);
        for (at, worker) in workers.into_iter().enumerate() {
            let share = &allowed[at / 2 * each..][..each];
            // Two processes among these processors are as far apart as possible.
            let place = if each > 2 { at % 2 * each / 2 } else { at % 2 % each };
            let mut expect = if pin == "share" { share } else { &share[place..][..1] }.to_vec();
            expect.sort_unstable();
            let bound = || processors(worker) == expect;
            assert!(eventually(PATIENCE, bound), "{pin}: process {at} is not on {expect:?}");
        }
    }
}

pub(crate) fn a_copy_that_is_replaced_keeps_its_socket() {
    for partition in ["ports", "steer-cpu"] {
        let server = launch(&[&format!("event.partition={partition}")]).start();
        let workers = server.workers();
        let before: BTreeSet<_> = workers.iter().map(|worker| listeners(*worker)).collect();
        let socket = listeners(workers[0]);
        let cpu = processors(workers[0]);
        kill(workers[0], Signal::KILL);
        // No other copy answers here: the client waits for the successor.
        let mut client = match partition {
            "ports" => server.connect(),
            _ => connect_from(cpu[0], server.address()),
        };
        client.get("/small.txt").expect(200);
        let pid = owner(&server, client.socket()).expect("somebody answered");
        assert_eq!((listeners(pid), processors(pid)), (socket, cpu), "{partition}");
        let now = || server.workers().into_iter().map(listeners).collect::<BTreeSet<_>>();
        comes_to(|| (partition, now()), |(_, now)| *now == before);
    }
}

pub(crate) fn a_port_is_not_shared_with_strangers() {
    let server = launch(&["event.partition=steer-cpu"]).start();
    let place = ["serve", common_text(), "--listen", &server.address().to_string()];
    let set = ["--architecture", "n-copy", "--set", "event.partition=steer-cpu"];
    ends_with(1, &[place, set].concat()).names(&["another process has it"]);
    assert!(TcpStream::connect(server.address()).is_ok());
}
