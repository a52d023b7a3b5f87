//! systems.md §2.13, MEANS: several kernel threads, each with user threads, a poller and helpers.

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
    let value = |row: &Value| row["counters"][name].as_u64().expect("a counter");
    let mut values: Vec<u64> = rows.map(value).collect();
    values.pop();
    values
}

/// Scheduler that answers a client, when all earlier replies have been counted.
fn answered_by(server: &Server, client: &mut Client) -> usize {
    let before = count_each(server, "replies");
    client.get("/small.txt").expect(200);
    let by = || {
        let after = count_each(server, "replies");
        (0..before.len()).find(|at| after[*at] > before[*at])
    };
    comes_to(by, Option::is_some).expect("it was found")
}

pub(crate) fn a_poller_and_helpers_for_each_scheduler(variant: &Variant) {
    let schedulers = setting(variant, "fiber.schedulers");
    let helpers = setting(variant, "fiber.helpers");
    let server = start(variant);
    let main = worker(&server);
    let named = |name: &str| tasks(main).iter().filter(|task| *task == name).count();
    let all = || (named("sched"), named("helper"), tasks(main).len());
    let expect = (schedulers - 1, schedulers * helpers, schedulers * (1 + helpers));
    comes_to(all, |all| *all == expect);
    comes_to(|| epolls(main), |epolls| *epolls == schedulers);
    let mut clients = server.clients(40);
    (0..3).for_each(|_| burst(&mut clients, "/size-65537.bin"));
    assert_eq!(all(), expect, "under load");
    assert_eq!(server.count("accept_ok"), 40);
}

pub(crate) fn a_connection_stays_with_its_scheduler(variant: &Variant) {
    let server = start(variant);
    let mut clients = server.clients(16);
    let homes = |clients: &mut [Client]| -> Vec<usize> {
        clients.iter_mut().map(|client| answered_by(&server, client)).collect()
    };
    let before = homes(&mut clients);
    (0..20).for_each(|_| burst(&mut clients, "/size-65537.bin"));
    server.counts("replies", 16 * (1 + 20));
    assert_eq!(homes(&mut clients), before);
    drop(clients);
    let ends =
        || ["connections_opened", "connections_closed"].map(|name| count_each(&server, name));
    comes_to(ends, |[opened, closed]| opened == closed && opened.iter().sum::<u64>() == 16);
    assert_eq!(["fiber_steals", "fiber_steal_tries"].map(|name| server.count(name)), [0, 0]);
}

/// All busy connections are with one scheduler: another without any gets some of them.
pub(crate) fn an_idle_scheduler_takes_connections(variant: &Variant) {
    let server = start(variant);
    let mut clients = server.clients(32);
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
    comes_to(ends, |ends| *ends == [32, 32]);
}
