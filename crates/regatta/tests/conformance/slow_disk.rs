//! Disks that are slower than clients may be.

use crate::prelude::*;
use rustix::fs::{Advice, fadvise, fsync};
use rustix::io::{ReadWriteFlags, preadv2};
use rustix::process::geteuid;
use std::io::IoSliceMut;

/// Puts a file on the disk and out of memory.
pub(crate) fn put_cold(site: &Site, name: &str, bytes: &[u8]) {
    site.put(name, bytes);
    evict(site, name, 0);
}

/// Drops a file from memory, from this byte on.
pub(crate) fn evict(site: &Site, name: &str, from: u64) {
    let file = File::open(site.path(name)).expect("our file");
    fsync(&file).expect("our file");
    fadvise(&file, from, None, Advice::DontNeed).expect("our file");
}

/// A server over a simulated disk, as the owner of its files: the system reports only to owners
/// what is in memory.
pub(crate) fn with_disk(variant: &Variant, site: &Site) -> Launch {
    let launch = Launch::new(variant, &site.root()).set("cache.body_bytes_max=4096");
    let launch = launch.set("lab.disk_heads=3");
    if geteuid().is_root() { launch.arg("--user").arg("root") } else { launch }
}

/// Each piece arrives later from the disk than its peer may take for one.
pub(crate) fn the_disk_is_not_the_clients_fault(variant: &Variant) {
    const CLIENTS: usize = 2;
    let site = Site::new();
    // A few pieces.
    let len = match () {
        () if variant.has("event.turn_bytes_max=16384") => 40_000,
        () if variant.has("amped.chunk_bytes=16384") => 40_000,
        () if variant.has("auto.chunk_bytes=16384") => 40_000,
        () if variant.architecture.starts_with("flash") => 100_000,
        () => 500_000,
    };
    (0..CLIENTS).for_each(|at| put_cold(&site, &format!("{at}.bin"), &pattern(len, at)));
    let settings = ["lab.disk_seek_us=500000", "limits.send_window_ms=220"];
    let server = with_disk(variant, &site).sets(&settings).start();
    let begin = Instant::now();
    thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|at| {
            let server: &Server = &server;
            scope.spawn(move || {
                let mut client = server.connect();
                client.send(request("GET", &format!("/{at}.bin"), &[("Connection", "close")]));
                // Its date is as old as the disk is slow.
                let answer = client.rest_or_reset();
                answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(&pattern(len, at))
            })
        });
        let clients: Vec<_> = clients.collect();
        assert!(clients.into_iter().all(|client| client.join().expect("it is answered")));
    });
    if begin.elapsed() < Duration::from_millis(500) {
        skip("needs a file system that lets go of its files");
    }
}

/// A disk that does not answer during a case.
pub(crate) const HANGS: &str = "lab.disk_seek_us=1h";

/// A site with a file to be sent and one to be read, neither in memory; false if the file system
/// keeps files in memory.
fn put_both(site: &Site) -> bool {
    put_cold(site, "large.bin", &pattern(300_000, 1));
    put_cold(site, "small.bin", &pattern(3_000, 2));
    site.put("page.txt", "a page\n");
    // A probe starts to bring in missing pages.
    put_cold(site, "other.bin", &pattern(3_000, 3));
    let file = File::open(site.path("other.bin")).expect("our file");
    let mut byte = [0];
    let into = &mut [IoSliceMut::new(&mut byte)];
    preadv2(&file, into, 0, ReadWriteFlags::NOWAIT).is_err()
}

/// A site with the files of [`put_both`]; `None` if the file system keeps them in memory.
pub(crate) fn cold_site() -> Option<Site> {
    let site = Site::new();
    let is_cold = put_both(&site);
    if !is_cold {
        skip("needs a file system that lets go of its files");
    }
    is_cold.then_some(site)
}

/// Helpers wait in place of user threads: files in memory are served meanwhile.
pub(crate) fn user_threads_do_not_wait(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let server = with_disk(variant, &site).sets(&[HANGS, "fiber.helpers=2"]).start();
    let mut client = server.connect();
    client.get("/page.txt").expect(200);
    let mut stuck = server.clients(2);
    send_all(&mut stuck, get("/small.bin"));
    server.counts("helper_tasks_read", 3);
    (0..10).for_each(|_| drop(client.get("/page.txt").expect(200).has(b"a page\n")));
    assert_eq!(server.open_connections(), 3);
}

/// Abandoned reads fill the queue: then reads fail at once, and files in memory are served.
pub(crate) fn tasks_are_bounded(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let one = ["limits.connections_max=1", "fiber.helpers=1", "limits.disk_ms_max=200"];
    let server = with_disk(variant, &site).set(HANGS).sets(&one).start();
    server.connect().get("/page.txt").expect(200);
    // One has begun, and two wait.
    for _ in 0..6 {
        let answer = server.connect().get("/small.bin");
        assert!(answer.status >= 500, "{answer:?}");
    }
    assert_eq!(server.count("queue_refused"), 3);
    server.connect().get("/page.txt").expect(200);
}

/// Clients leave while the disk hangs. Their places are free at once, whatever helpers and kernel
/// still do, and files in memory are served all the time.
pub(crate) fn who_leaves_frees_its_place(variant: &Variant) {
    const CLIENTS: usize = 20;
    let Some(site) = cold_site() else { return };
    let launch = with_disk(variant, &site).sets(&[HANGS, "cache.revalidate_ms=1h"]);
    let server = launch.set(format!("limits.connections_max={}", CLIENTS + 1)).start();
    let caches = !variant.has("cache.enabled=false");
    let mut page = server.connect();
    page.get("/page.txt").expect(200);
    for round in 0..3 {
        let mut clients = server.clients(CLIENTS);
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(get(["/large.bin", "/small.bin"][at % 2]));
        }
        server.has_open(CLIENTS + 1);
        thread::sleep(Duration::from_millis(100));
        if caches {
            page.get("/page.txt").expect(200);
        }
        let left = Instant::now();
        for client in clients {
            // A connection closed with unread bytes breaks. `select` reports no hang-up behind an
            // unread record.
            let selects =
                variant.has("event.poller=select") || variant.architecture == "flash-1999";
            let is_heard = !(variant.tls && selects);
            if round > 0 && is_heard { drop(client) } else { client.abort() }
        }
        server.has_open(1);
        let took = left.elapsed();
        assert!(took < Duration::from_secs(2), "their places are free after {took:?}");
    }
    assert_eq!(server.count("connections_open"), 1);
    if caches {
        page.get("/page.txt").expect(200);
        server.connect().get("/page.txt").expect(200);
    }
}

/// A client that stays gets an error, or is cut off where its answer has begun.
pub(crate) fn the_disk_has_a_deadline(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let server = with_disk(variant, &site).sets(&[HANGS, "limits.disk_ms_max=500"]).start();
    let (mut small, mut large) = (server.connect(), server.connect());
    small.send(get("/small.bin"));
    large.send(get("/large.bin"));
    let begin = Instant::now();
    if !variant.has("cache.enabled=false") {
        let answer = small.answer("GET").expect(503);
        assert!(answer.closes() && answer.field("Retry-After").is_some(), "{answer:?}");
        assert!(begin.elapsed() >= Duration::from_millis(500));
    }
    assert!(small.rest_or_reset().is_empty() || variant.has("cache.enabled=false"));
    assert!(large.rest_or_reset().len() < 10_000);
    drop((small, large));
    server.has_open(0);
    assert_eq!(server.count("closed_disk_deadline"), 2);
}

/// A thread that waits for the disk receives no messages; the server ends all the same.
pub(crate) fn a_disk_that_hangs_does_not_delay_the_end(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let mut server = with_disk(variant, &site).sets(&[HANGS, "server.drain_ms_max=400"]).start();
    let mut clients = ["/small.bin", "/large.bin"].map(|path| server.asked(get(path)));
    assert!(clients[0].silent_for(Duration::from_millis(100)), "the disk has answered");
    server.connect().get("/page.txt").expect(200);
    let begin = Instant::now();
    server.end(Signal::TERM);
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?} for 400 ms", begin.elapsed());
}

/// A client that sends no more may still be there, and is answered if that does not take long.
pub(crate) fn a_half_closed_client_is_answered(variant: &Variant) {
    let site = Site::new();
    put_both(&site);
    let settings = ["lab.disk_seek_us=50000", "limits.half_closed_ms_max=5000"];
    let server = with_disk(variant, &site).sets(&settings).start();
    for (name, bytes) in [("large.bin", pattern(300_000, 1)), ("small.bin", pattern(3_000, 2))] {
        put_cold(&site, name, &bytes);
        let mut client = server.asked(get(&format!("/{name}")));
        client.half_close();
        client.answer("GET").expect(200).has(&bytes);
    }
}
