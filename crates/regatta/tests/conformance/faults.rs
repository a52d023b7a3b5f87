//! Single faults and the required outcome of each.

use crate::chaos;
use crate::prelude::*;
use crate::shared::{is_served, sized_files_open, under_load};
use crate::site::MODIFIED_S;
use std::sync::atomic::Ordering::Relaxed;

/// systems.md §8.6, SPED: a cold file blocks the one task, and with it a request for a cached file.
pub(crate) fn sped_waits_for_its_disk() {
    all_wait_for_an_open("sped_epoll");
}

/// Knot: helpers read and send, but the one thread of all user threads opens names.
pub(crate) fn user_threads_wait_for_names() {
    all_wait_for_an_open("knot_c");
    all_wait_for_an_open("knot_nb");
}

/// Many user threads wait for a disk, one after another: their thread checks for other work.
pub(crate) fn user_threads_that_wait_for_names_do_not_hang() {
    let plan = "slow_open_per_mille=1000,slow_open_us=45000";
    let server = start_under(chaos::find("knot_c"), plan);
    thread::scope(|scope| {
        for at in 0..80 {
            let mut client = server.connect();
            scope.spawn(move || client.get(&format!("/missing-{at}")).expect(404));
        }
    });
    assert!(!server.stderr().contains("has not answered"), "{}", server.stderr());
}

fn all_wait_for_an_open(name: &str) {
    let plan = "slow_open_per_mille=1000,slow_open_us=400000";
    let settings = &["cache.revalidate_ms=60000"];
    let server = start_under(&Variant { settings, ..*chaos::find(name) }, plan);
    let mut warm = server.connect();
    warm.get("/size-4096.bin").expect(200);
    let opens = || server.count("opens");
    let before = opens();
    warm.get("/size-4096.bin").expect(200);
    assert_eq!(opens(), before, "a cached file needs no open");
    let mut cold = server.connect();
    let begin = Instant::now();
    cold.send(get("/size-65537.bin"));
    thread::sleep(Duration::from_millis(50));
    warm.get("/size-4096.bin").expect(200);
    let waited = begin.elapsed();
    assert!(waited >= Duration::from_millis(400), "served after {waited:?}: not one task");
    cold.answer("GET").expect(200).has(sized(65_537));
    let stalls = server.count("stall_open");
    assert!(stalls >= 2, "{stalls} stalls of an open in the ledger");
}

/// The variant under another plan.
pub(crate) fn start_under(variant: &Variant, plan: &'static str) -> Server {
    Launch::new(&Variant { faults: Some(plan), ..*variant }, common()).start()
}

/// A full table of descriptors delays connections; it loses none, and burns no processor time.
pub(crate) fn a_full_table_delays_accepts(variant: &Variant) {
    let server = start_under(variant, "seed=8,emfile_accept_per_mille=100");
    // Each strike pauses accepting: one observed strike is proof.
    for round in 0.. {
        let mut clients = server.clients(20);
        send_all(&mut clients, get("/small.txt"));
        bodies_are(&mut clients, b"small\n");
        if server.count("accept_emfile_pauses") > 0 {
            break;
        }
        assert!(round < 50, "no fault has struck");
    }
    let used = server.cpu();
    assert!(used < Duration::from_secs(2), "{used:?} for a few dozen requests");
}

/// Each call moves few bytes, and the whole arrives.
pub(crate) fn short_calls_are_continued(variant: &Variant) {
    let server = start_under(variant, "seed=9,short_per_mille=900");
    server.connect().get("/size-1048577.bin").expect(200).has(sized((1 << 20) + 1));
    let calls = server.count("send_calls") + server.count("sendfile_calls");
    assert!(calls > 3, "{calls} calls for one response: no fault has struck");
}

/// A disk that is slow at every open: all clients ask at once for all files, and some leave.
pub(crate) fn slow_opens_lose_nothing(variant: &Variant) {
    const SLOW: Duration = Duration::from_millis(20);
    let server = start_under(variant, "seed=12,slow_open_per_mille=1000,slow_open_us=20000");
    let begin = Instant::now();
    let mut clients = server.clients(24);
    for (client, size) in clients.iter_mut().zip(SIZES.into_iter().cycle()) {
        client.send(get(&format!("/size-{size}.bin")));
    }
    // All read at once: a send that blocks waits for its own client, whoever asked first.
    thread::scope(|scope| {
        for (at, (mut client, size)) in
            clients.into_iter().zip(SIZES.into_iter().cycle()).enumerate()
        {
            if at % 3 == 1 {
                // Its file may still be on the way, and its outcome does not matter.
                continue;
            }
            scope.spawn(move || drop(client.answer("GET").expect(200).has(sized(size))));
        }
    });
    assert!(begin.elapsed() >= SLOW, "no fault has struck");
    server.connect().get("/small.txt").expect(200);
}

/// systems.md §8.6, shared-SYMPED: workers that die in the middle of changes of the cache, while
/// they hold its locks, block no other. The others find them, empty the cache, and continue.
pub(crate) fn deaths_with_a_lock_hang_nobody() {
    ["shared_global", "shared_two_tier"].map(chaos::find).into_iter().for_each(deaths_with_a_lock);
}

fn deaths_with_a_lock(variant: &Variant) {
    const SMALL: [usize; 6] = [0, 1, 4095, 4096, 4097, 65_535];
    let site = Site::new();
    SIZES.iter().for_each(|size| site.put(&format!("size-{size}.bin"), sized(*size)));
    // One change of the cache after another, by all workers. This seed kills at the 41st point,
    // when others wait for the worker's locks.
    let settings = [
        "event.processes=4",
        "cache.entries_max=4",
        "cache.descriptors_max=3",
        "cache.body_bytes_max=0",
        "cache.revalidate_ms=0",
    ];
    let variant =
        Variant { faults: Some("seed=292,die_locked_per_mille=10,die_locked_us=5000"), ..*variant };
    let server = Launch::new(&variant, &site.root()).sets(&settings).start();
    let deaths = || ["lock_holders_died", "cache_repairs"].map(|name| server.count(name));
    under_load(&server, |served| {
        // Changed files are replaced in place in the cache.
        let mut now_s = MODIFIED_S;
        let died = eventually(6 * PATIENCE, || {
            now_s += 1;
            SMALL.iter().for_each(|size| {
                set_modified(&site.path(&format!("size-{size}.bin")), now_s);
            });
            deaths().iter().all(|count| *count >= 5)
        });
        assert!(died, "{}: {:?} deaths: {}", variant.name, deaths(), server.stderr());
        let before = served.load(Relaxed);
        let goes_on = eventually(6 * PATIENCE, || served.load(Relaxed) > before + 20);
        assert!(goes_on, "{}: nobody is served: {}", variant.name, server.stderr());
    });
    // All that the dead had open is closed, except what the cache still holds. Nothing changes any
    // more, so no worker dies.
    let (address, files) = (server.address(), || sized_files_open(&server));
    let clean = eventually(6 * PATIENCE, || is_served(address, 4096) && files() <= 3);
    assert!(clean, "{}: {} files, 3 allowed: {}", variant.name, files(), server.stderr());
}

/// A thread of a stage that panics ends its process: all its connections, queued ones included,
/// end. Each is counted, and the next process serves.
pub(crate) fn a_stage_that_dies_leaves_nobody_waiting() {
    // A request passes five threads of seda on its way.
    for (name, plan) in [
        ("watpipe4", "seed=5,panic_in_visit_per_mille=5"),
        ("watpipe5", "seed=5,panic_in_visit_per_mille=5"),
        ("seda", "seed=5,panic_in_visit_per_mille=1"),
    ] {
        stages_die(chaos::find(name), plan);
    }
}

fn stages_die(variant: &Variant, plan: &'static str) {
    let server = start_under(variant, plan);
    under_load(&server, |served| {
        // About four end with each process: several have died.
        let died = || server.count("closed_worker_died") > 8;
        assert!(eventually(6 * PATIENCE, died), "{}: {}", variant.name, server.stderr());
        let before = served.load(Relaxed);
        let goes_on = eventually(6 * PATIENCE, || served.load(Relaxed) > before + 20);
        assert!(goes_on, "{}: nobody is served: {}", variant.name, server.stderr());
    });
    let ends = || ["connections_opened", "connections_closed"].map(|name| server.count(name));
    comes_to(|| (variant.name, ends()), |(_, [opened, closed])| opened == closed);
}

/// A thread of a stage that loops for ever, or that sleeps for longer than a disk may take, is
/// named within 5 s, whichever stage it is. Its process is replaced. Other threads report on time.
pub(crate) fn a_stage_that_hangs_is_replaced() {
    // Number of the first request's visit: each stage that it passes, in that order.
    let stages: [(&str, &[&str]); 3] = [
        ("watpipe4", &["read", "write-poll", "write"]),
        ("watpipe5", &["read", "reader"]),
        ("seda", &["read", "parse"]),
    ];
    let sleeps = stages.into_iter().flat_map(|(name, stages)| {
        let visits = (1..).zip(stages);
        visits.map(move |(visit, stage)| (name, *stage, format!("sleep_at_visit={visit}")))
    });
    // One alone, which takes a processor from all other tests.
    let spins = ("watpipe5", "reader", "spin_at_visit=2".to_owned());
    thread::scope(|scope| {
        for (name, stage, plan) in sleeps.chain([spins]) {
            scope.spawn(move || hangs_and_is_replaced(chaos::find(name), stage, plan));
        }
    });
}

fn hangs_and_is_replaced(variant: &Variant, stage: &str, plan: String) {
    let launch = Launch::new(variant, common()).faults(plan.clone());
    let server = launch.set("limits.disk_ms_max=200").start();
    let workers = server.workers();
    let told = |what: &str| {
        let stderr = server.stderr();
        let mut lines = stderr.lines().filter(|line| line.contains(&format!("({stage}) has ")));
        lines.any(|line| line.contains(what))
    };
    let mut client = server.asked(get("/small.txt"));
    let is_named = eventually(PATIENCE, || told("has not answered for "));
    assert!(is_named, "{} {plan}", variant.name);
    // The threads of the other cases use the processor, too.
    let is_killed = eventually(6 * PATIENCE, || told("the process is killed"));
    assert!(is_killed, "{} {plan}", variant.name);
    client.rest_or_reset();
    let is_replaced = |now: &Vec<u32>| now.len() == workers.len() && *now != workers;
    comes_to(|| (variant.name, &plan, server.workers()), |(.., now)| is_replaced(now));
    server.counts("closed_worker_died", 1);
}

/// The same for threads that serve one connection at a time, and for those of a pool.
pub(crate) fn a_thread_that_hangs_is_replaced() {
    thread::scope(|scope| {
        let threads = [
            ("threads_on_demand", "conn", "spin"),
            ("hybrid", "pool", "sleep"),
            ("bio", "pool", "sleep"),
        ];
        for (name, thread, hangs) in threads {
            let plan = format!("{hangs}_at_visit=1");
            scope.spawn(move || hangs_and_is_replaced(chaos::find(name), thread, plan));
        }
    });
}

/// Threads without work, or waiting for a disk beyond its limit, do not hang.
pub(crate) fn a_stage_that_waits_is_not_replaced() {
    let names = "watpipe4 watpipe5 watpipe5_b seda cohort_sandstorm threads hybrid bio";
    thread::scope(|scope| {
        for variant in names.split(' ').map(chaos::find) {
            scope.spawn(move || waits_and_stays(variant));
        }
    });
}

fn waits_and_stays(variant: &Variant) {
    let plan = "slow_read_per_mille=1000,slow_read_us=9000000";
    let settings = ["limits.disk_ms_max=200", "limits.send_window_ms=60s"];
    let server = Launch::new(variant, common()).faults(plan).sets(&settings).start();
    let workers = server.workers();
    let _client = server.asked(get("/size-1048577.bin"));
    // Longer than a thread may hang.
    thread::sleep(Duration::from_secs(8));
    assert_eq!(server.workers(), workers, "{}: {}", variant.name, server.stderr());
    assert!(!server.stderr().contains("has not answered"), "{}", server.stderr());
}

/// The disk hangs, and so do the threads of a stage and all that is in its queue. The server exits
/// at the end of its drain, and every client sees an end.
pub(crate) fn a_drain_with_full_queues_has_a_deadline() {
    ["watpipe4", "watpipe5"].map(chaos::find).into_iter().for_each(drains_with_full_queues);
}

fn drains_with_full_queues(variant: &Variant) {
    let plan = "slow_read_per_mille=1000,slow_read_us=5000000";
    let variant = Variant { faults: Some(plan), ..*variant };
    let settings = ["watpipe.writers=1", "server.drain_ms_max=400", "cache.body_bytes_max=0"];
    let mut server = Launch::new(&variant, common()).sets(&settings).start();
    let mut clients = server.clients(200);
    send_all(&mut clients, get("/size-65537.bin"));
    let longest = || (variant.name, server.count("queue_len_max"));
    comes_to(longest, |(_, longest)| *longest >= 100);
    let begin = Instant::now();
    server.end(Signal::TERM);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?} for 400 ms", begin.elapsed());
    clients.iter_mut().for_each(|client| drop(client.rest_or_reset()));
}
