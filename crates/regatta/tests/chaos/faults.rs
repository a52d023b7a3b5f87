//! Single faults and what must come of each.

use crate::client::{Client, get};
use crate::harness::{Launch, Variant};
use crate::site::{common, sized};
use std::time::{Duration, Instant};

fn plain(plan: &str) -> Launch {
    let variant = Variant { name: "sped", architecture: "sped", settings: &[], chaos: None };
    Launch::new(&variant, common()).arg("--chaos").arg(plan)
}

/// systems.md §8.6, SPED: a cold file holds up the one task, and with it a request for a file
/// that is cached.
#[test]
fn sped_waits_for_its_disk() {
    let plan = "slow_open_per_mille=1000,slow_open_us=400000";
    let server = plain(plan).set("cache.revalidate_ms=60000").start();
    let mut warm = server.connect();
    warm.get("/size-4096.bin").expect(200);
    let opens = || server.top()["total"]["counters"]["opens"].as_u64().expect("a counter");
    let before = opens();
    warm.get("/size-4096.bin").expect(200);
    assert_eq!(opens(), before, "a cached file needs no open");
    let mut cold = server.connect();
    let begin = Instant::now();
    cold.send(get("/size-65537.bin"));
    std::thread::sleep(Duration::from_millis(50));
    warm.get("/size-4096.bin").expect(200);
    let waited = begin.elapsed();
    assert!(waited >= Duration::from_millis(400), "served after {waited:?}: not one task");
    assert!(cold.answer("GET").expect(200).body == sized(65_537));
    let top = server.top();
    let stalls = top["total"]["counters"]["stall_open"].as_u64().expect("a counter");
    assert!(stalls >= 2, "{stalls} stalls of an open in the ledger");
}

/// A full table of descriptors delays connections; it loses none, and burns no processor time.
#[test]
fn a_full_table_delays_accepts() {
    let server = plain("seed=8,emfile_accept_per_mille=300").start();
    for _ in 0..3 {
        let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(get("/small.txt"));
        }
        for client in &mut clients {
            assert_eq!(client.answer("GET").expect(200).body, b"small\n");
        }
    }
    let used = server.cpu();
    assert!(used < Duration::from_secs(2), "{used:?} for sixty requests");
    let pauses = server.top()["total"]["counters"]["accept_emfile_pauses"].as_u64();
    assert!(pauses.expect("a counter") > 0, "no fault has struck");
}

/// Faults strike at all: what the other tests show is not an idle plan.
#[test]
fn faults_strike() {
    let server = plain("seed=9,short_per_mille=900").start();
    let mut client = server.connect();
    assert!(client.get("/size-1048577.bin").expect(200).body == sized((1 << 20) + 1));
    let top = server.top();
    let calls = ["send_calls", "sendfile_calls"]
        .map(|name| top["total"]["counters"][name].as_u64().expect("a counter"));
    assert!(calls.iter().sum::<u64>() > 3, "{calls:?} calls for one response");
}
