//! systems.md §8.6, Flash: two kinds of helper processes, their tasks, and mapped files.

use crate::prelude::*;
use crate::slow_disk::{HANGS, cold_site, evict, put_cold, with_disk};
use regatta_sys::{Resident, StaticFile, by_mincore};
use std::thread::{scope, sleep};

/// Makes a server look up names that do not exist, all at once.
fn ask_for_names(server: &Server) {
    let mut clients = server.clients(20);
    for (at, client) in clients.iter_mut().enumerate() {
        client.send(get(&format!("/missing-{at}.txt")));
    }
    answer_all(&mut clients, 404);
}

/// A single task runs the connections. The others are processes: at most two look up names, and at
/// most four read. They pass neither content nor descriptors, and end after a long time
/// without work.
pub(crate) fn helpers_are_processes_of_two_kinds(variant: &Variant) {
    let launch = Launch::new(variant, common()).set("cache.enabled=false");
    let server = launch.sets(&["flash.start_delay_ms=0", "flash.helper_idle_ms=100"]).start();
    let main = worker(&server);
    assert_eq!((tasks(main).len(), children(main).len()), (1, 0), "none before they are needed");
    let asked_for_names = || {
        ask_for_names(&server);
        children(main)
    };
    comes_to(asked_for_names, |helpers| helpers.len() == 2);
    assert_eq!(server.count("helpers_open_max"), 2);
    let mut client = server.connect();
    let asked_by_one = || {
        client.get("/missing.txt").expect(404);
        children(main)
    };
    comes_to(asked_by_one, |helpers| helpers.len() == 1);
    let mut clients = server.clients(30);
    burst(&mut clients, "/size-65537.bin");
    let helpers = children(main);
    assert!((2..=6).contains(&helpers.len()), "{} helpers", helpers.len());
    assert!(helpers.iter().all(|pid| tasks(*pid).len() == 1) && tasks(main).len() == 1);
    let replies = server.count("helper_completions");
    assert_eq!(server.count("helper_completion_bytes"), 8 * replies);
    for none in ["helper_descriptors", "helper_tasks_self", "sendfile_calls"] {
        assert_eq!(server.count(none), 0, "{none}");
    }
}

/// Head and file go out together, with one `sendmsg`.
pub(crate) fn a_reply_is_one_call(variant: &Variant) {
    const REPLIES: u64 = 20;
    let server = start(variant);
    let mut client = server.connect();
    let first = client.get("/size-4096.bin").expect(200).body;
    server.reaches("replies", 1);
    let before = server.count("send_calls");
    (0..REPLIES).for_each(|_| drop(client.get("/size-4096.bin").expect(200).has(&first)));
    server.reaches("replies", 1 + REPLIES);
    assert_eq!(server.count("send_calls") - before, REPLIES);
    assert_eq!((server.count("sendfile_calls"), server.count("maps_added")), (0, 1));
    assert_eq!(server.count("helper_tasks_prefetch"), 1, "mapped, it takes no helper");
}

/// A connection that wants a chunk for which a helper has a task waits for that task.
pub(crate) fn clients_of_one_file_share_a_task(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let body = pattern(60_000, 4);
    put_cold(&site, "one.bin", &body);
    let server = with_disk(variant, &site).set("lab.disk_seek_us=3000000").start();
    let (mut first, mut second) = (server.connect(), server.connect());
    first.send(get("/one.bin"));
    server.reaches("helper_tasks_prefetch", 1);
    second.send(get("/one.bin"));
    server.reaches("flash_coalesced", 1);
    bodies_are(&mut [first, second], &body);
    assert_eq!(server.count("helper_tasks_prefetch"), 1);
    assert_eq!(server.count("flash_coalesced"), 1);
}

pub(crate) fn helpers_are_started_one_by_one(variant: &Variant) {
    const DELAY: Duration = Duration::from_secs(2);
    let Some(site) = cold_site() else { return };
    (0..4).for_each(|at| put_cold(&site, &format!("{at}.bin"), &pattern(10_000, at)));
    let server = with_disk(variant, &site).sets(&[HANGS, "flash.start_delay_ms=2000"]).start();
    let mut clients = server.clients(4);
    send_numbered(&mut clients[..3]);
    server.reaches("helper_tasks_prefetch", 3);
    assert_eq!(server.count("helpers_started"), 2, "one for names, and one that reads");
    assert!(server.count("flash_delayed") >= 2);
    sleep(DELAY);
    assert_eq!(server.count("helpers_started"), 2, "nothing has come since");
    clients[3].send(get("/3.bin"));
    server.reaches("helpers_started", 3);
    server.reaches("helper_tasks_prefetch", 4);
    assert_eq!(server.count("helpers_started"), 3);
}

/// If a mapped chunk is partly in memory, that part is sent before a helper is asked.
pub(crate) fn what_is_in_memory_goes_first(variant: &Variant) {
    const LEN: usize = 1_000_000;
    const KEPT: u64 = 512 << 10;
    let site = Site::new();
    put_cold(&site, "file.bin", &pattern(LEN, 5));
    let launch = with_disk(variant, &site).set("lab.disk_seek_us=1000");
    let server = launch.set("flash.chunk_bytes=1048576").start();
    let mut client = server.connect();
    // The request maps the chunk and touches the first pages, which the system then keeps.
    client.ask("GET", "/file.bin", &[("Range", "bytes=0-99")]).expect(206);
    evict(&site, "file.bin", KEPT);
    let file = File::open(site.path("file.bin")).expect("our file");
    let file = StaticFile::adopt(file.into()).expect("a file");
    let found = [(0, KEPT), (KEPT, 1)].map(|(at, len)| by_mincore(&file, at, len));
    if found != [Resident::Yes, Resident::No] {
        return skip("needs a file system that lets go of a part of a file");
    }
    let before = server.count("helper_tasks_prefetch");
    assert!(client.get("/file.bin").expect(200).body == pattern(LEN, 5));
    assert!(server.count("flash_prefix_sends") >= 1);
    assert_eq!(server.count("helper_tasks_prefetch"), before + 1, "for the rest");
}

/// A mapped file may become shorter at any time: that ends a connection, and no process.
pub(crate) fn no_length_ends_the_worker(variant: &Variant) {
    const LEN: u64 = 300_000;
    let site = Site::with(&[("other.txt", "other")]);
    site.put("file.bin", pattern(300_000, 6));
    let server = Launch::new(variant, &site.root()).set("cache.enabled=false").start();
    let main = worker(&server);
    let file = File::options().write(true).open(site.path("file.bin")).expect("our file");
    let ask = || {
        for _ in 0..200 {
            let mut client = server.asked(request("GET", "/file.bin", &[("Connection", "close")]));
            let answer = client.rest_or_reset();
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
    };
    scope(|scope| {
        let clients = scope.spawn(ask);
        while !clients.is_finished() {
            for len in [5_000, LEN, 0, LEN] {
                file.set_len(len).expect("a length");
            }
        }
    });
    assert_eq!(worker(&server), main);
    assert_eq!(server.connect().get("/other.txt").expect(200).body, b"other");
    assert!(server.count("maps_added") > 1);
}
