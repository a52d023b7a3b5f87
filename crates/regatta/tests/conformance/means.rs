//! systems.md §2.13, MEANS: several kernel threads, each with user threads, a poller and helpers.

use crate::disk::{tasks, worker};
use crate::prelude::*;
use crate::structure::epolls;

/// Number that a variant sets an option to.
fn setting(variant: &Variant, key: &str) -> usize {
    let value = variant.settings.iter().find_map(|one| one.strip_prefix(key)?.strip_prefix('='));
    value.expect("the variant says so").parse().expect("a number")
}

/// Values of a counter by scheduler. The last row, that of all helpers, is left out.
fn count_each(server: &Server, name: &str) -> Vec<u64> {
    let top = server.top();
    let rows = top["workers"].as_array().expect("rows").iter();
    let value = |row: &serde_json::Value| row["counters"][name].as_u64().expect("a counter");
    let mut values: Vec<u64> = rows.map(value).collect();
    values.pop();
    values
}

/// Scheduler that answers a client, when all earlier replies have been counted.
fn answered_by(server: &Server, client: &mut Client) -> usize {
    let before = count_each(server, "replies");
    client.get("/small.txt").expect(200);
    let mut by = None;
    let found = eventually(PATIENCE, || {
        let after = count_each(server, "replies");
        by = (0..before.len()).find(|at| after[*at] > before[*at]);
        by.is_some()
    });
    assert!(found, "nobody has counted the reply");
    by.expect("it was found")
}

pub(crate) fn a_poller_and_helpers_for_each_scheduler(variant: &Variant) {
    let schedulers = setting(variant, "fiber.schedulers");
    let helpers = setting(variant, "fiber.helpers");
    let server = start(variant);
    let main = worker(&server);
    let named = |name: &str| tasks(main).iter().filter(|task| *task == name).count();
    let all = || (named("sched"), named("helper"), tasks(main).len());
    let expect = (schedulers - 1, schedulers * helpers, schedulers * (1 + helpers));
    assert!(eventually(PATIENCE, || all() == expect), "{:?}", tasks(main));
    assert!(eventually(PATIENCE, || epolls(main) == schedulers), "{} epolls", epolls(main));
    let mut clients: Vec<Client> = (0..40).map(|_| server.connect()).collect();
    (0..3).for_each(|_| burst(&mut clients, "/size-65537.bin"));
    assert_eq!(all(), expect, "under load");
    assert_eq!(server.count("accept_ok"), 40);
}

pub(crate) fn a_connection_stays_with_its_scheduler(variant: &Variant) {
    const CLIENTS: u64 = 16;
    const BURSTS: u64 = 20;
    let server = start(variant);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    let homes = |clients: &mut [Client]| -> Vec<usize> {
        clients.iter_mut().map(|client| answered_by(&server, client)).collect()
    };
    let before = homes(&mut clients);
    (0..BURSTS).for_each(|_| burst(&mut clients, "/size-65537.bin"));
    soon(|| server.count("replies") == CLIENTS * (1 + BURSTS));
    assert_eq!(homes(&mut clients), before);
    drop(clients);
    let ends =
        || ["connections_opened", "connections_closed"].map(|name| count_each(&server, name));
    let balance = || {
        let [opened, closed] = ends();
        opened == closed && opened.iter().sum::<u64>() == CLIENTS
    };
    assert!(eventually(PATIENCE, balance), "{:?}", ends());
    assert_eq!(["fiber_steals", "fiber_steal_tries"].map(|name| server.count(name)), [0, 0]);
}

/// All busy connections are with one scheduler: another without any gets some of them.
pub(crate) fn an_idle_scheduler_takes_connections(variant: &Variant) {
    let server = start(variant);
    let mut clients: Vec<Client> = (0..32).map(|_| server.connect()).collect();
    let schedulers = setting(variant, "fiber.schedulers");
    let mut with_each: Vec<Vec<Client>> = (0..schedulers).map(|_| Vec::new()).collect();
    while let Some(mut client) = clients.pop() {
        let at = answered_by(&server, &mut client);
        with_each[at].push(client);
    }
    with_each.sort_by_key(Vec::len);
    let mut clients = with_each.pop().expect("several schedulers");
    drop(with_each);
    server.has_open(clients.len());
    let busy = answered_by(&server, &mut clients[0]);
    let taken = || -> u64 {
        let steals = count_each(&server, "fiber_steals");
        steals.iter().enumerate().filter(|(at, _)| *at != busy).map(|(_, steals)| *steals).sum()
    };
    let took = eventually(PATIENCE, || {
        burst(&mut clients, "/size-65537.bin");
        taken() > 0
    });
    assert!(took, "asked for {} times", server.count("fiber_steal_tries"));
    // Whichever scheduler has them answers.
    (0..20).for_each(|_| burst(&mut clients, "/size-65537.bin"));
    assert_eq!(server.open_connections(), clients.len());
    drop(clients);
    let ends = || ["connections_opened", "connections_closed"].map(|name| server.count(name));
    assert!(eventually(PATIENCE, || ends() == [32, 32]), "{:?}", ends());
}
