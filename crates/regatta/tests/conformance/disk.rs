//! systems.md §8.6, AMPED and LAIO: the task that waits for the disk, and messages between tasks.

use crate::prelude::*;
use crate::shared::descriptors;
use crate::slow_disk::evict;

/// Settings under which every request opens its file and sends it from there.
const UNCACHED: [&str; 2] = ["cache.enabled=false", "cache.body_bytes_max=0"];

pub(crate) fn worker(server: &Server) -> u32 {
    let workers = server.workers();
    assert_eq!(workers.len(), 1, "one worker process: {workers:?}");
    workers[0]
}

/// Names of the tasks of a process, without those of the kernel's own workers.
pub(crate) fn tasks(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("alive").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| !name.starts_with("iou-")).collect()
}

fn ask_for_many(server: &Server) {
    burst(&mut server.clients(30), "/size-65537.bin");
}

/// A single task runs the connections; the others are helpers, started on demand up to the limit.
pub(crate) fn helpers_are_the_other_tasks(variant: &Variant) {
    let launch = Launch::new(variant, common()).sets(&UNCACHED);
    let server = launch.sets(&["amped.helpers_max=3", "amped.helpers_idle_max=2"]).start();
    let main = worker(&server);
    assert_eq!((tasks(main).len(), children(main).len()), (1, 0), "none before they are needed");
    ask_for_many(&server);
    let most = server.count("helpers_open_max");
    assert!((1..=3).contains(&most), "{most} helpers at once");
    let idle = || tasks(main).len() - 1 + children(main).len();
    // The third is stopped when another has had a task a second later.
    let mut client = server.connect();
    let kept = || {
        client.get("/missing.txt").expect(404);
        idle()
    };
    comes_to(kept, |kept| (1..=2).contains(kept));
    // A thread ends a moment after it was released.
    soon(|| server.count("helpers_open") == idle() as u64);
    if variant.has("amped.helper_kind=processes") {
        assert_eq!(tasks(main).len(), 1, "helpers are processes");
        assert!(children(main).iter().all(|pid| tasks(*pid).len() == 1));
    } else {
        assert!(children(main).is_empty(), "helpers are threads");
        assert_eq!(tasks(main).iter().filter(|name| *name == "helper").count(), idle());
    }
    assert!(server.count("helper_tasks_open") >= 30);
    assert_eq!(server.count("helper_tasks_self"), 0);
}

/// sped-readahead: each piece of a file waits for its time, and a body in memory does not.
pub(crate) fn a_piece_is_waited_for_and_a_cached_body_is_not(variant: &Variant) {
    let server = Launch::new(variant, common()).set("readahead.wait_ms=20").start();
    let mut client = server.connect();
    client.get("/small.txt").expect(200);
    let before = server.count("readahead_waits");
    client.repeat(20, "/small.txt");
    assert_eq!(server.count("readahead_waits"), before, "it is sent from memory");
    let begun = Instant::now();
    assert_eq!(client.get("/size-5242880.bin").expect(200).body.len(), 5 << 20);
    // 20 pieces of 256 KiB.
    assert_eq!(server.count("readahead_waits"), before + 20);
    assert!(begun.elapsed() >= Duration::from_millis(20 * 20), "in {:?}", begun.elapsed());
}

/// Helpers are threads of the mount that is served, few at the start. Once one of them has opened a
/// file, opens and sends from memory need none.
pub(crate) fn helpers_serve_what_is_not_in_memory(variant: &Variant) {
    let server = Launch::new(variant, common()).sets(&UNCACHED).start();
    let main = worker(&server);
    assert_eq!((tasks(main).len(), children(main).len()), (1, 0), "none before they are needed");
    assert_eq!(server.count("auto_helpers"), 4, "one mount");
    ask_for_many(&server);
    let helpers = tasks(main).iter().filter(|name| *name == "helper").count();
    assert!((1..=64).contains(&helpers) && children(main).is_empty(), "{helpers} helpers");
    assert_eq!(tasks(main).len(), 1 + helpers);
    assert_eq!(server.count("helper_tasks_self"), 0);
    let (inline, deferred) = (server.count("laio_inline"), server.count("laio_deferred"));
    ask_for_many(&server);
    if server.count("laio_inline") < inline + 60 {
        return skip("needs a file system that opens in memory and reads without blocking");
    }
    assert_eq!(server.count("laio_deferred"), deferred, "all of it is in memory");
}

/// A helper reports its end in a record of fixed length: no content passes its channel.
pub(crate) fn helpers_pass_no_content(variant: &Variant) {
    let launch = Launch::new(variant, common()).sets(&UNCACHED);
    let server = launch.set("amped.residency=always-ask").start();
    let mut client = server.connect();
    assert_eq!(client.get("/size-5242880.bin").expect(200).body.len(), 5 << 20);
    client.get("/missing.txt").expect(404);
    let replies = server.count("helper_completions");
    assert!(replies > 20, "{replies} notices for 20 pieces");
    let bytes = server.count("helper_completion_bytes");
    let processes = variant.has("amped.helper_kind=processes");
    assert_eq!(bytes, if processes { 8 * replies } else { 0 });
    let passed = server.count("helper_descriptors");
    let passes = processes && !variant.has("amped.pass_descriptors=false");
    assert_eq!(passed > 0, passes, "{passed} descriptors passed");
    assert!(server.count("helper_tasks_prefetch") >= 20);
    assert_eq!(server.count("residency_checks"), 0);
}

pub(crate) fn a_killed_helper_is_replaced(variant: &Variant) {
    let server = Launch::new(variant, common()).sets(&UNCACHED).start();
    let main = worker(&server);
    for round in 1..=3 {
        ask_for_many(&server);
        let helpers = children(main);
        assert!(!helpers.is_empty(), "there are helpers");
        helpers.iter().for_each(|pid| kill(*pid, Signal::KILL));
        ask_for_many(&server);
        assert!(server.count("helpers_lost") >= round);
    }
    assert_eq!(worker(&server), main, "the worker has survived");
    let gone = server.count("helpers_lost") + server.count("helpers_stopped");
    assert!(server.count("helpers_started") > gone);
}

/// Reads from memory are never deferred; others are, and are answered all the same.
pub(crate) fn only_what_would_block_is_deferred(variant: &Variant) {
    let site = Site::new();
    let (page, small) = (vec![7_u8; 300_000], vec![8_u8; 3000]);
    site.put("page.bin", &page);
    site.put("small.bin", &small);
    let launch = Launch::new(variant, &site.root()).set("cache.body_bytes_max=4096");
    let server = launch.set("cache.enabled=false").start();
    let mut client = server.connect();
    // The siblings' absence has to be looked up once.
    client.get("/page.bin").expect(200);
    client.get("/small.bin").expect(200);
    let before = server.count("laio_deferred");
    assert!(before <= 2, "{before} deferrals of two opens");
    for _ in 0..3 {
        client.get("/page.bin").expect(200).has(&page);
        client.get("/small.bin").expect(200).has(&small);
    }
    assert_eq!(server.count("laio_deferred"), before, "all of it was in memory");
    let inline = server.count("laio_inline");
    assert!(inline > 2, "{inline} operations at once");
    evict(&site, "page.bin", 0);
    client.get("/page.bin").expect(200).has(&page);
    let deferred = server.count("laio_deferred");
    if deferred == before {
        return skip("needs a file system that lets go of its files");
    }
    assert!(deferred <= before + 2, "{deferred} deferrals for two pieces");
    client.get("/page.bin").expect(200).has(&page);
    assert_eq!(server.count("laio_deferred"), deferred, "it is in memory again");
    assert_eq!(server.count("disk_completions_dropped"), 0);
}

pub(crate) fn cold_files_go_to_who_asked(variant: &Variant) {
    let site = Site::new();
    let bytes = |at: usize| pattern(600_000 + at, at);
    (0..24).for_each(|at| site.put(&format!("{at}.bin"), bytes(at)));
    let server = Launch::new(variant, &site.root()).start();
    for _ in 0..3 {
        (0..24).for_each(|at| evict(&site, &format!("{at}.bin"), 0));
        let mut clients = server.clients(24);
        send_numbered(&mut clients);
        for (at, client) in clients.iter_mut().enumerate() {
            client.answer("GET").expect(200).has(&bytes(at));
        }
    }
}

/// Each worker has a ring and no poller, and makes no call of its own to move bytes.
pub(crate) fn the_ring_has_the_sockets(variant: &Variant) {
    let server = Launch::new(variant, common()).sets(&UNCACHED).start();
    ask_for_many(&server);
    for worker in server.workers() {
        let links = descriptors(worker).into_values();
        let links: Vec<_> = links.map(|link| link.to_string_lossy().into_owned()).collect();
        let count = |what: &str| links.iter().filter(|link| link.contains(what)).count();
        assert_eq!((count("[io_uring]"), count("[eventpoll]")), (1, 0), "{links:?}");
    }
    assert_eq!(server.count("sendfile_calls"), 0);
    // One call for many operations.
    assert_eq!(server.count("send_would_block"), 0);
}

pub(crate) fn the_ring_needs_no_task(variant: &Variant) {
    let server = Launch::new(variant, common()).sets(&UNCACHED).start();
    ask_for_many(&server);
    let main = worker(&server);
    assert_eq!((tasks(main).len(), children(main).len()), (1, 0));
    assert_eq!(server.count("helpers_started"), 0);
}
