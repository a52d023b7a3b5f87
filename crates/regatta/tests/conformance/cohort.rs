//! systems.md §8.6, cohort: a visit of a stage serves all that wait there.

use crate::prelude::*;

/// All clients ask while the server is stopped: then each stage has them all in one visit.
pub(crate) fn a_visit_serves_many(variant: &Variant) {
    let server = start(variant);
    let mut clients = server.busy_clients(30);
    let read = || ["queue_takes", "queue_visits"].map(|name| server.count(name));
    let before = read();
    let worker = worker(&server);
    halt(worker);
    send_all(&mut clients, get("/small.txt"));
    kill(worker, Signal::CONT);
    answer_all(&mut clients, 200);
    // Receive, parse, send, and the next request: four stages of each.
    let used = || std::array::from_fn::<u64, 2, _>(|at| read()[at] - before[at]);
    let [takes, visits] = comes_to(used, |used| used[0] >= 4 * 30);
    assert!(takes > 5 * visits, "{takes} in {visits} visits");
    assert_eq!(server.count("queue_puts"), server.count("queue_takes"));
}

/// The policy that it is compared with: the same loop, in which nothing waits.
pub(crate) fn a_loop_without_stages_visits_none(variant: &Variant) {
    let server = Launch::new(variant, common()).set("cohort.policy=run-to-completion").start();
    server.connect().repeat(30, "/small.txt");
    let queues = ["queue_puts", "queue_takes", "queue_visits"];
    assert_eq!(queues.map(|name| server.count(name)), [0; 3]);
}
