//! systems.md §2.20, hybrid-adapt: the number of processes follows how long they wait for the disk.

use crate::faults::start_under;
use crate::prelude::*;

/// Each open waits for the disk, and nothing is cached.
const SLOW: &str = "slow_open_per_mille=1000,slow_open_us=20000";
const QUICK: [&str; 5] = [
    "staff.processes_min=1",
    "staff.processes_max=3",
    "staff.period_ms=200",
    "staff.calm_periods=3",
    "cache.enabled=false",
];
const FROZEN: [&str; 6] = [QUICK[0], QUICK[1], QUICK[2], QUICK[3], QUICK[4], "staff.freeze=true"];

pub(crate) fn as_many_begin_as_should_at_least(variant: &Variant) {
    let server = Launch::new(variant, common()).set("staff.processes_max=4").start();
    assert_eq!(server.workers().len(), 2);
    burst(&mut server.clients(20), "/size-65537.bin");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(server.workers().len(), 2, "all is in memory");
    assert_eq!(server.count("staff_starts"), 0);
}

/// Asks for files until `enough`; false if that lasts too long.
fn asked_until(server: &Server, enough: impl Fn() -> bool) -> bool {
    eventually(2 * PATIENCE, || {
        // New connections, so that all workers get some.
        burst(&mut server.clients(12), "/size-4096.bin");
        enough()
    })
}

pub(crate) fn one_starts_for_each_wait_and_retires_after_it(variant: &Variant) {
    let server = start_under(&Variant { settings: &QUICK, ..*variant }, SLOW);
    assert_eq!(server.workers().len(), 1);
    let all = asked_until(&server, || server.workers().len() == 3);
    assert!(all, "{} processes: {}", server.workers().len(), server.stderr());
    assert_eq!(server.count("staff_starts"), 2, "one by one");
    assert!(server.count("staff_wait_ns") > 0);
    let mut client = server.connect();
    client.get("/small.txt").expect(200);
    let alone = eventually(2 * PATIENCE, || server.workers().len() == 1);
    assert!(alone, "{} processes: {}", server.workers().len(), server.stderr());
    assert_eq!(server.count("staff_retires"), 2, "one by one");
    assert!(server.stderr().contains("one more starts"), "{}", server.stderr());
    server.connect().get("/small.txt").expect(200);
}

pub(crate) fn a_frozen_number_stays(variant: &Variant) {
    let server = start_under(&Variant { settings: &FROZEN, ..*variant }, SLOW);
    let said = asked_until(&server, || server.stderr().contains("if staff.freeze were not set"));
    assert!(said, "{}", server.stderr());
    assert_eq!((server.workers().len(), server.count("staff_starts")), (1, 0));
}
