//! Pipelines, seen from outside (systems.md §8.6): threads of each stage, their work and
//! processors.

use crate::inspect::processors;
use crate::over_tls::encrypted;
use crate::prelude::*;
use crate::slow_disk::{cold_site, put_cold, with_disk};
pub(crate) use crate::threads::a_thousand_slow_clients;
use std::process;

/// Tasks of the one worker process, by name: each with the processors that it may run on.
fn tasks(server: &Server) -> BTreeMap<String, Vec<String>> {
    let workers = server.workers();
    assert_eq!(workers.len(), 1, "one worker process: {workers:?}");
    let mut tasks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let entries = fs::read_dir(format!("/proc/{}/task", workers[0])).expect("alive").flatten();
    for entry in entries {
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.expect("a field of every task").trim().to_owned()
        };
        tasks.entry(field("Name")).or_default().push(field("Cpus_allowed_list"));
    }
    tasks
}

/// Number of threads of a kind that the variant sets.
fn asked(variant: &Variant, option: &str) -> Option<usize> {
    let value = |setting: &&str| setting.strip_prefix(option)?.strip_prefix('=')?.parse().ok();
    variant.settings.iter().find_map(value)
}

/// Waits until the tasks have these names and numbers, the first task aside. A thread gets its name
/// a moment after its start.
fn wait_for(server: &Server, expect: &[(&str, usize)]) {
    let all: usize = expect.iter().map(|(_, threads)| threads).sum();
    let is_right = |found: &BTreeMap<String, Vec<String>>| {
        let count = |name: &str| found.get(name).map_or(0, Vec::len);
        expect.iter().all(|(name, threads)| count(name) == *threads)
            && found.values().map(Vec::len).sum::<usize>() == 1 + all
    };
    comes_to(|| (expect, tasks(server)), |(_, found)| is_right(found));
}

/// Threads of a variant, without the first, which accepts.
fn threads(variant: &Variant) -> [(&'static str, usize); 4] {
    let readers = match variant.architecture {
        "watpipe4" => 0,
        _ => asked(variant, "watpipe.readers").unwrap_or_else(|| processors(process::id()).len()),
    };
    let writers = asked(variant, "watpipe.writers").expect("the variant says so");
    [("read", 1), ("write-poll", 1), ("reader", readers), ("write", writers)]
}

/// A single thread accepts, two wait for sockets, and others read and write, whatever the load.
pub(crate) fn tasks_are_those_of_the_paper(variant: &Variant) {
    let server = start(variant);
    wait_for(&server, &threads(variant));
    let mut clients = server.clients(40);
    send_all(&mut clients, get("/size-65537.bin"));
    wait_for(&server, &threads(variant));
    bodies_are(&mut clients, sized(65_537));
}

/// Slots of counters: the station where responses wait for writers, the writers, and the readers.
const STATION: usize = 4;
const WRITERS: usize = 8;
const READERS: usize = 40;
const SLOTS: usize = 56;

/// Role of a slot. The first are those of the first thread, of others that accept, of the four
/// stations, and of the pollers.
fn role(slot: usize) -> &'static str {
    let first = ["accept", "accept", "read", "write-poll", "write", "reader", "read", "write-poll"];
    match slot {
        slot if slot < WRITERS => first[slot],
        slot if slot < READERS => "write",
        _ => "reader",
    }
}

/// Value of a counter in one slot.
fn of_slot(top: &Value, slot: usize, name: &str) -> u64 {
    top["workers"][slot]["counters"][name].as_u64().expect("a slot and a counter")
}

/// Value of a counter in all slots of a role.
fn of_role(top: &Value, of: &str, name: &str) -> u64 {
    let slots = (0..SLOTS).filter(|slot| role(*slot) == of);
    slots.map(|slot| of_slot(top, slot, name)).sum()
}

/// Accepts, reads and sends each belong to one stage; and connections circulate.
pub(crate) fn each_stage_does_its_part(variant: &Variant) {
    let server = start(variant);
    let mut client = server.connect();
    for _ in 0..20 {
        client.get("/small.txt").expect(200);
        // Several in one piece: the thread that read them continues when the first is sent.
        client.send([get("/small.txt"), get("/size-65537.bin"), get("/small.txt")].concat());
        for len in [6, 65_537, 6] {
            assert_eq!(client.answer("GET").expect(200).body.len(), len);
        }
    }
    let top = read(&server, "replies", 80);
    let of = |role: &str, name: &str| of_role(&top, role, name);
    let reads = if variant.architecture == "watpipe4" { "read" } else { "reader" };
    for (name, does) in [("accept_ok", "accept"), ("recv_calls", reads)] {
        assert_eq!(of(does, name), counter(&top, name), "{name} is for {does}");
    }
    for name in ["send_calls", "sendfile_calls"] {
        assert_eq!(of("write", name), counter(&top, name), "{name} is for write");
    }
    // A writer that parsed the next request would have counted it.
    let parsed = of("read", "requests") + of("reader", "requests");
    assert_eq!(parsed, counter(&top, "requests"));
    let [puts, takes] = ["queue_puts", "queue_takes"];
    assert!(of("read", puts) >= 41, "accepted once, and 40 times sent: {}", of("read", puts));
    assert!(of("write", takes) >= 80, "{}", of("write", takes));
    assert_eq!(of("write", takes), of("write", puts));
    assert_eq!(counter(&top, "barrier_batches") > 0, variant.architecture == "watpipe4");
}

/// Readers and writers of a part are bound to its processor; all others run anywhere.
pub(crate) fn threads_run_where_they_should(variant: &Variant) {
    let server = start(variant);
    let all = processors(process::id());
    let is_one = |list: &String| list.parse::<usize>().is_ok_and(|cpu| all.contains(&cpu));
    let right = |(name, lists): (&String, &Vec<String>)| {
        let is_bound = variant.architecture != "watpipe4" && ["write", "reader"].contains(&&**name);
        if !is_bound && all.len() > 1 {
            return !lists.iter().any(is_one);
        }
        let cpus: BTreeSet<&String> = lists.iter().collect();
        lists.iter().all(is_one) && cpus.len() == all.len().min(lists.len())
    };
    wait_for(&server, &threads(variant));
    // A thread moves there a moment after it has its name.
    comes_to(|| tasks(&server), |tasks| tasks.iter().all(right));
}

/// Clients that do not read occupy no reader: others still get what fits their sockets. Where sends
/// block, each occupies a writer of its part, and there is one more.
pub(crate) fn slow_readers_stop_no_reader(variant: &Variant) {
    let server = start(variant);
    let writers = asked(variant, "watpipe.writers").expect("the variant says so");
    let parts = processors(process::id()).len().min(writers);
    let is_blocking = variant.architecture == "watpipe5-b";
    let slow = if is_blocking { writers / parts - 1 } else { 3 * writers };
    let _slow: Vec<Client> = (0..slow).map(|_| server.stuck_client()).collect();
    let begin = Instant::now();
    let mut others = server.clients(4);
    for _ in 0..10 {
        for client in &mut others {
            assert!(client.get("/size-65537.bin").expect(200).body == sized(65_537));
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "waited {:?}", begin.elapsed());
}

/// Clients that do not read can occupy all writers where sends block. Requests are read all the
/// same, and answered when a writer is free again.
pub(crate) fn readers_go_on_when_no_writer_does(variant: &Variant) {
    let parts = processors(process::id()).len();
    let writers = format!("watpipe.writers={parts}");
    let server = Launch::new(variant, common()).set(writers).start();
    // They go to the parts round-robin.
    let slow: Vec<Client> = (0..parts).map(|_| server.stuck_client()).collect();
    let mut others = server.clients(5);
    send_all(&mut others, get("/small.txt"));
    let requests = (parts + others.len()) as u64;
    read(&server, "requests", requests);
    assert!(others[0].silent_for(Duration::from_millis(200)), "there is no writer");
    slow.into_iter().for_each(Client::abort);
    bodies_are(&mut others, b"small\n");
}

/// A writer that waits for the disk delays files in memory where the write poller and the writers
/// take turns; elsewhere it does not.
pub(crate) fn who_waits_for_a_disk_holds_up_its_batch(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let server = with_disk(variant, &site).set("lab.disk_seek_us=1500000").start();
    let mut client = server.connect();
    client.get("/page.txt").expect(200);
    let taken = || of_role(&server.top(), "write", "queue_takes");
    let before = taken();
    let _cold = server.asked(get("/large.bin"));
    // A writer has it.
    soon(|| taken() > before);
    let begin = Instant::now();
    assert_eq!(client.get("/page.txt").expect(200).body, b"a page\n");
    let waited = begin.elapsed();
    let is_held_up = variant.architecture == "watpipe4";
    assert_eq!(waited > Duration::from_millis(700), is_held_up, "waited {waited:?}");
}

/// [S] §4: each address has a thread that accepts only there; [E] §6: one does for all.
pub(crate) fn one_accepts_for_each_address(variant: &Variant) {
    let server = Launch::new(variant, common()).listen("127.0.0.2:0").start();
    let is_alone = variant.architecture == "watpipe4";
    let mut expect = threads(variant).to_vec();
    if !is_alone {
        expect.push(("accept", 1));
    }
    wait_for(&server, &expect);
    for address in server.addresses() {
        server.connect_to(*address).get("/small.txt").expect(200);
    }
    let top = read(&server, "replies", 2);
    let accepted = [0, 1].map(|slot| of_slot(&top, slot, "accept_ok"));
    assert_eq!(accepted, if is_alone { [2, 0] } else { [1, 1] });
}

/// [S] §4: requests to one address are read and answered on one processor.
pub(crate) fn queues_are_by_processor(variant: &Variant) {
    let server = Launch::new(variant, common()).listen("127.0.0.2:0").start();
    let second = server.addresses()[1];
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect_to(second)).collect();
    for client in &mut clients {
        (0..10).for_each(|_| assert_eq!(client.get("/small.txt").expect(200).body, b"small\n"));
    }
    let top = read(&server, "replies", 40);
    let [_, _, (_, readers), (_, writers)] = threads(variant);
    let parts = processors(process::id()).len().min(readers).min(writers);
    for (first, threads) in [(READERS, readers), (WRITERS, writers)] {
        let takes = |thread: usize| of_slot(&top, first + thread, "queue_takes");
        let (own, others): (Vec<usize>, Vec<usize>) =
            (0..threads).partition(|thread| thread % parts == 1 % parts);
        assert!(own.into_iter().map(takes).sum::<u64>() >= 40, "it serves its address");
        assert_eq!(others.into_iter().map(takes).sum::<u64>(), 0, "it serves the other");
    }
}

pub(crate) fn a_burst_of_two_thousand(variant: &Variant) {
    let server = Launch::new(variant, common()).set("accept.backlog=4096").start();
    let mut clients = server.clients(2000);
    send_all(&mut clients, get("/small.txt"));
    bodies_are(&mut clients, b"small\n");
    let top = read(&server, "replies", 2000);
    let values = ["accept_ok", "connections_open", "closed_reset"].map(|name| counter(&top, name));
    assert_eq!(values, [2000, 2000, 0]);
}

/// E-24: with a queue for each writer, all send equally much.
pub(crate) fn writers_have_even_parts() {
    let variant = Variant::plain("watpipe5");
    for share in ["watpipe.share=round-robin", "watpipe.share=batch"] {
        let server = Launch::new(&variant, common()).sets(&["watpipe.writers=4", share]).start();
        let mut client = server.connect();
        (0..40).for_each(|_| assert_eq!(client.get("/small.txt").expect(200).body, b"small\n"));
        let top = read(&server, "replies", 40);
        let takes = [0, 1, 2, 3].map(|at| of_slot(&top, WRITERS + at, "queue_takes"));
        assert!(takes.iter().all(|taken| taken.abs_diff(10) <= 1), "{share}: {takes:?}");
    }
}

/// Future work of [E] and [H]: a controller of SEDA's gives the writers' queue more threads while
/// responses wait in it, and logs why. They end when they have nothing to do.
pub(crate) fn a_controller_starts_writers() {
    const FILES: usize = 8;
    let Some(site) = cold_site() else { return };
    (0..FILES).for_each(|at| put_cold(&site, &format!("{at}.bin"), &pattern(100_000, at)));
    let variant = Variant::plain("watpipe5");
    let server = with_disk(&variant, &site)
        .sets(&["watpipe.writers=2", "watpipe.writers_max=4", "watpipe.parts=none"])
        .sets(&["stages.pool_control=queue", "stages.pool_ms=20ms", "stages.pool_every=1"])
        .sets(&["stages.pool_threshold=1", "lab.disk_seek_us=400000", "stages.decisions=changes"])
        .start();
    let writers = || tasks(&server).get("write").map_or(0, Vec::len);
    comes_to(writers, |writers| *writers == 2);
    let mut clients = server.clients(FILES);
    send_numbered(&mut clients);
    comes_to(writers, |writers| *writers == 4);
    for (at, client) in clients.iter_mut().enumerate() {
        client.answer("GET").expect(200).has(&pattern(100_000, at));
    }
    comes_to(writers, |writers| *writers == 2);
    let said = server.stderr();
    assert!(said.contains("stage write: threads=3: queue="), "{said}");
}

/// All writers are under one controller: its decisions show in one place, whichever ended a batch.
pub(crate) fn a_controller_shows_once_what_it_sets() {
    let variant = Variant::plain("watpipe5");
    let server = Launch::new(&variant, common())
        .sets(&["watpipe.writers=4", "watpipe.share=round-robin"])
        .sets(&["stages.batch_control=true", "stages.batch_ms=1ms"])
        .start();
    let mut client = server.connect();
    let decided = || {
        client.repeat(50, "/small.txt");
        counter(&server.top(), "decisions") >= 12
    };
    soon(decided);
    // The value shows just after it is counted.
    let shown = || {
        let top = server.top();
        let of = |slot: usize| top["workers"][slot]["dials"]["decisions"].as_u64();
        let shown: Vec<_> =
            (0..SLOTS).map(|slot| (slot, of(slot))).filter(|(_, dial)| *dial != Some(0)).collect();
        (shown, vec![(STATION, Some(counter(&top, "decisions")))])
    };
    comes_to(shown, |(shown, expect)| shown == expect);
}

/// Writers keep little memory for later, however many responses they have sealed.
pub(crate) fn writers_keep_little_memory() {
    const BYTES: usize = 200_000;
    let site = Site::new();
    site.put("large.bin", pattern(BYTES, 1));
    let variant = encrypted(&Variant::plain("watpipe4"));
    let server = Launch::new(variant, &site.root())
        .sets(&["watpipe.writers=4", "watpipe.share=round-robin"])
        .start();
    let close = ("Connection", "close");
    let ask = || {
        let mut client = server.connect();
        client.ask("GET", "/large.bin", &[close]).expect(200).has(&pattern(BYTES, 1));
        client.finish();
    };
    (0..8).for_each(|_| ask());
    let before = anonymous_kib(server.workers()[0]);
    (0..100).for_each(|_| ask());
    let after = anonymous_kib(server.workers()[0]);
    assert!(after < before + 1024, "{before} KiB before, {after} KiB after");
}

/// Memory of a process that is of no file, KiB.
fn anonymous_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("alive");
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    kib.expect("a field of every process")
}
