//! Processes that come and go, as in Apache's prefork: their number depends on how many are idle.

use crate::harness::started;
use crate::prelude::*;

/// Starts three processes; two to four are to be idle.
fn start(variant: &Variant) -> Server {
    let own = ["limits.connections_max=30", "mp.start=3", "mp.spare_min=2", "mp.spare_max=4"];
    let server = start_with(variant, &own);
    assert_eq!(server.workers().len(), 3);
    server
}

/// Counts processes: most at once so far, present, and idle.
fn processes(server: &Server) -> [usize; 3] {
    let top = server.top();
    let all = top["workers"].as_array().expect("rows");
    let there: Vec<&Value> = all.iter().filter(|one| one["pid"].is_u64()).collect();
    let idle = there.iter().filter(|one| one["gauges"]["connections_open"] == 0).count();
    [all.len(), there.len(), idle]
}

/// Fails unless two to four processes become idle alongside `busy` busy ones, and then none starts
/// or ends for longer than the interval between two checks.
fn settles(server: &Server, busy: usize) {
    let mut found = [0; 3];
    let settled = eventually(2 * PATIENCE, || {
        let before = server.workers();
        thread::sleep(Duration::from_millis(1500));
        found = processes(server);
        let [_, there, idle] = found;
        server.workers() == before && there == busy + idle && (2..=4).contains(&idle)
    });
    assert!(settled, "{found:?}, {busy} of them busy: {}", server.stderr());
}

/// Each check that finds too few idle starts twice as many processes as the one before. A process
/// that has not accepted by the next check counts as idle, and then that check may start none: the
/// test leaves out a machine where a process is so late.
pub(crate) fn a_burst_starts_twice_as_many_each_second(variant: &Variant) {
    const LATE: Duration = Duration::from_millis(500);
    let server = start(variant);
    let mut clients = server.clients(12);
    // Each client has its own process, in the order of their starts.
    let answered = |client: &mut Client| {
        client.get("/small.txt").expect(200);
        since_boot()
    };
    let answered: Vec<Duration> = clients.iter_mut().map(answered).collect();
    let starts = starts(&server);
    let late = answered.iter().zip(&starts).map(|(end, start)| end.saturating_sub(*start)).max();
    if late.is_some_and(|late| late > LATE) {
        return skip("needs a machine where a new process accepts within half a second");
    }
    soon(|| processes(&server) == [18, 16, 4]);
    // Two of the last eight have retired, as they were too many.
    assert_eq!(started_at_once(&server), [3, 1, 2, 4, 6]);
}

/// Starts of all present processes, from the first on, as times since the machine's start.
fn starts(server: &Server) -> Vec<Duration> {
    let mut starts: Vec<Duration> = server.workers().into_iter().filter_map(started).collect();
    starts.sort_unstable();
    starts
}

/// Time since the machine's start.
fn since_boot() -> Duration {
    let text = fs::read_to_string("/proc/uptime").expect("Linux has it");
    let seconds = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_secs_f64(seconds.expect("a number of seconds"))
}

/// Present processes that were started at the beginning, and at each check.
fn started_at_once(server: &Server) -> Vec<usize> {
    let starts = starts(server);
    let mut groups = vec![1];
    for pair in starts.windows(2) {
        if pair[1] - pair[0] > Duration::from_millis(500) {
            groups.push(0);
        }
        *groups.last_mut().expect("there is one") += 1;
    }
    groups
}

/// More start while too few are idle; they retire one by one while too many are.
pub(crate) fn as_many_are_idle_as_should_be(variant: &Variant) {
    let server = start(variant);
    let clients = server.busy_clients(5);
    // 3, 4, 6 and 10 processes: 5 are idle, one too many.
    settles(&server, 5);
    drop(clients);
    settles(&server, 0);
    let _client = server.busy_clients(1);
    settles(&server, 1);
    let said = server.stderr();
    assert!(!said.contains("(process "), "nothing to complain about: {said}");
}

/// No client is refused, no connection is cut short, and the counts of ended processes remain.
pub(crate) fn who_retires_cuts_nobody_short(variant: &Variant) {
    let own = ["limits.connections_max=8", "mp.start=8", "mp.spare_min=1", "mp.spare_max=2"];
    let server = start_with(variant, &own);
    let mut kept = server.connect();
    kept.get("/small.txt").expect(200);
    let mut connections = 1;
    let retired = eventually(2 * PATIENCE, || {
        server.connect().get("/small.txt").expect(200);
        connections += 1;
        server.workers().len() <= 3
    });
    assert!(retired, "{:?} processes", processes(&server));
    kept.get("/small.txt").expect(200);
    drop(kept);
    let top = read(&server, "connections_closed", connections);
    let of = |name| counter(&top, name);
    assert_eq!(of("replies_200"), connections + 1);
    assert_eq!([of("closed_drained"), of("closed_worker_died"), of("connections_open")], [0; 3]);
    let page = server.page(&[]);
    assert!(page.contains("workers ") && !page.contains(" ended"), "{page}");
}

pub(crate) fn a_reload_begins_with_as_many_as_are_busy(variant: &Variant) {
    let server = start(variant);
    let clients = server.busy_clients(12);
    server.asks("reload", 0);
    let [posts, ..] = processes(&server);
    assert_eq!(posts, 15, "3 as always, and 12");
    drop(clients);
    let _clients = server.busy_clients(12);
    settles(&server, 12);
}

pub(crate) fn a_killed_one_is_replaced(variant: &Variant) {
    let server = start(variant);
    let killed = server.workers()[0];
    kill(killed, Signal::KILL);
    comes_to(|| server.workers(), |now| now.len() == 3 && !now.contains(&killed));
    server.connect().get("/small.txt").expect(200);
    server.says(&format!("(process {killed}) was killed by signal 9; replaced in 0 ms"));
    // Checks that find nothing to do.
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(processes(&server), [3, 3, 3]);
}

/// The limit counts connections, whatever each carries. The log reports no fault.
pub(crate) fn one_ends_after_its_requests(variant: &Variant) {
    let server = start_with(variant, &["limits.connections_max=1", "mp.requests_max=2"]);
    let mut pids = BTreeSet::new();
    for _ in 0..6 {
        let mut client = server.connect();
        client.repeat(3, "/small.txt");
        pids.extend(server.workers());
    }
    assert_eq!(pids.len(), 3, "{pids:?}");
    let said = server.stderr();
    assert!(!said.contains("(process "), "nothing to complain about: {said}");
}
