//! systems.md §8.6, Knot: user threads in one kernel thread, a connection each, and helpers.

use crate::inspect::tasks;
use crate::prelude::*;

/// Helpers of a preset whose variant names no number.
const HELPERS: usize = 100;
/// Most bytes of its stack that a user thread may use: three quarters of the default, also in a
/// program that is not optimised.
const STACK_BYTES_MAX: u64 = 48 << 10;

pub(crate) fn one_task_and_its_helpers(variant: &Variant) {
    let setting = variant.settings.iter().find_map(|one| one.strip_prefix("fiber.helpers="));
    let helpers = setting.map_or(HELPERS, |number| number.parse().expect("a number"));
    let server = start(variant);
    let worker = worker(&server);
    comes_to(|| tasks(worker), |tasks| *tasks == 1 + helpers);
    let mut clients = server.clients(40);
    (0..3).for_each(|_| burst(&mut clients, "/size-65537.bin"));
    assert_eq!(tasks(worker), 1 + helpers, "under load");
    assert_eq!(server.count("connections_open_max"), 40);
    // Each run of a user thread makes progress.
    server.counts("replies", 120);
    let runs = server.count("fiber_runs");
    assert!((40..=8 * 120).contains(&runs), "{runs} for 120 replies");
}

/// User threads are as many as open connections may be: a further client waits for one.
pub(crate) fn a_connection_each(variant: &Variant) {
    let server = start_with(variant, &["limits.connections_max=3", "accept.when_full=pause"]);
    let mut clients = server.busy_clients(3);
    let mut last = server.asked(get("/small.txt"));
    thread::sleep(Duration::from_millis(200));
    assert_eq!((server.count("accept_ok"), server.open_connections()), (3, 3));
    drop(clients.pop());
    last.answer("GET").expect(200);
    assert_eq!(server.count("accept_ok"), 4);
}

/// Polling without pause, as Capriccio did, uses a whole processor, and serves all the same.
pub(crate) fn a_scheduler_may_spin(variant: &Variant) {
    let server = Launch::new(variant, common()).set("fiber.idle=spin").start();
    let mut client = server.connect();
    client.get("/size-65537.bin").expect(200);
    // No request is pending, and the machine may have other work.
    let before = server.cpu();
    comes_to(|| server.cpu() - before, |used| *used > Duration::from_millis(100));
    client.get("/size-65537.bin").expect(200);
}

pub(crate) fn a_stack_is_long_enough(variant: &Variant) {
    let server = start_with(variant, &["content.precompressed=true", "limits.connections_max=2"]);
    let mut client = server.connect();
    // One run in 256 is measured.
    for _ in 0..200 {
        for path in ["/small.txt", "/size-65537.bin", "/missing.txt", "/"] {
            client.get(path);
        }
    }
    let used = server.count("stack_bytes_max");
    assert!((1..=STACK_BYTES_MAX).contains(&used), "{used} bytes");
}

/// [E] §4.2, the second design: a helper tries, waits for this one client, and gives up.
pub(crate) fn a_helper_waits_for_its_client(variant: &Variant) {
    let server = Launch::new(variant, common()).set("fiber.helper_poll_ms=50").start();
    let _client = server.stuck_client();
    server.reaches("helper_polls_timed_out", 3);
    server.connect().get("/small.txt").expect(200);
}

/// [E] §4.2, the first design: the scheduler waits for the client, and no helper does.
pub(crate) fn the_scheduler_waits_for_the_client(variant: &Variant) {
    let server = start(variant);
    let _client = server.stuck_client();
    thread::sleep(Duration::from_millis(200));
    let before = server.count("helper_tasks_send");
    thread::sleep(Duration::from_millis(200));
    assert_eq!(server.count("helper_tasks_send"), before, "nothing is tried for it");
    assert_eq!(server.count("helper_polls"), 0);
    server.connect().get("/small.txt").expect(200);
}

/// [E] §4.3: one call sends a whole file, also to a client that takes it in pieces.
pub(crate) fn a_helper_sends_with_one_call(variant: &Variant) {
    const CLIENTS: usize = 10;
    let server = start(variant);
    let mut clients = server.clients(CLIENTS);
    send_all(&mut clients, get("/size-5242880.bin"));
    bodies_are(&mut clients, sized(5 << 20));
    assert_eq!(server.count("sendfile_calls"), CLIENTS as u64);
    assert_eq!(server.count("helper_tasks_send"), CLIENTS as u64);
    assert_eq!(server.count("sendfile_would_block"), 0);
}
