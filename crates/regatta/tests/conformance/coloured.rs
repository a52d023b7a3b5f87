//! systems.md §2.19, libasync-smp: several event loops in threads, and connections that they take
//! from each other.

use crate::prelude::*;
use crate::structure::epolls;

/// Loops of the variant.
const LOOPS: usize = 2;

/// Values of a counter by loop.
fn count_each(server: &Server, name: &str) -> Vec<u64> {
    let top = server.top();
    let rows = top["workers"].as_array().expect("rows").iter();
    rows.map(|row| row["counters"][name].as_u64().expect("a counter")).collect()
}

pub(crate) fn a_thread_and_a_poller_for_each_loop(variant: &Variant) {
    let server = start(variant);
    let main = worker(&server);
    let named = || tasks(main).iter().filter(|task| *task == "loop").count();
    comes_to(|| (named(), tasks(main).len()), |all| *all == (LOOPS - 1, LOOPS));
    comes_to(|| epolls(main), |epolls| *epolls == LOOPS);
    let mut clients = server.clients(40);
    (0..3).for_each(|_| burst(&mut clients, "/size-65537.bin"));
    assert_eq!(tasks(main).len(), LOOPS, "under load");
    assert_eq!(server.count("accept_ok"), 40);
}

/// All clients ask at once, again and again: a loop with nothing to do gets some of them. Whichever
/// loop has them answers.
pub(crate) fn an_idle_loop_takes_connections(variant: &Variant) {
    let server = start(variant);
    let mut clients = server.clients(32);
    let took = eventually(PATIENCE, || {
        burst(&mut clients, "/size-65537.bin");
        server.count("colour_steals") > 0
    });
    assert!(took, "asked for {} times", server.count("colour_steal_tries"));
    (0..20).for_each(|_| burst(&mut clients, "/size-65537.bin"));
    assert_eq!(server.open_connections(), clients.len());
    drop(clients);
    let ends = || ["connections_opened", "connections_closed"].map(|name| server.count(name));
    comes_to(ends, |ends| *ends == [32, 32]);
}

/// Without stealing, a connection is closed by the loop that accepted it.
pub(crate) fn a_loop_keeps_its_connections_if_that_is_asked(variant: &Variant) {
    let server = Launch::new(variant, common()).set("coloured.steal=false").start();
    let mut clients = server.clients(16);
    (0..20).for_each(|_| burst(&mut clients, "/size-65537.bin"));
    drop(clients);
    let ends =
        || ["connections_opened", "connections_closed"].map(|name| count_each(&server, name));
    comes_to(ends, |[opened, closed]| opened == closed && opened.iter().sum::<u64>() == 16);
    assert_eq!(["colour_steals", "colour_steal_tries"].map(|name| server.count(name)), [0, 0]);
}
