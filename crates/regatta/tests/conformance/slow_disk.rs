//! Disks that are slower than clients may be.

use crate::client::{Client, request};
use crate::harness::{Launch, Server, Variant};
use crate::site::{Site, pattern};
use crate::skips::skip;
use rustix::fs::{Advice, fadvise, fsync};
use rustix::process::geteuid;
use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

/// Puts a file on the disk and out of memory.
fn put_cold(site: &Site, name: &str, bytes: &[u8]) {
    site.put(name, bytes);
    let file = File::open(site.path(name)).expect("our file");
    fsync(&file).expect("our file");
    fadvise(&file, 0, None, Advice::DontNeed).expect("our file");
}

/// A server over a disk that is simulated, as the owner of its files: only they are told what is in
/// memory.
fn with_disk(variant: &Variant, site: &Site) -> Launch {
    let launch = Launch::new(variant, &site.root()).set("cache.body_bytes_max=4096");
    let launch = launch.set("lab.disk_heads=3");
    if geteuid().is_root() { launch.arg("--user").arg("root") } else { launch }
}

/// Each piece of a file takes longer to come from the disk than its peer has to take one, also
/// where several wait for each other's.
pub(crate) fn the_disk_is_not_the_clients_fault(variant: &Variant) {
    const CLIENTS: usize = 2;
    let site = Site::new();
    // A few pieces.
    let len = match () {
        () if variant.has("event.turn_bytes_max=16384") => 40_000,
        () if variant.has("amped.chunk_bytes=16384") => 40_000,
        () => 500_000,
    };
    for at in 0..CLIENTS {
        put_cold(&site, &format!("{at}.bin"), &pattern(len, at));
    }
    let settings = ["lab.disk_seek_us=900000", "limits.send_window_ms=400"];
    let server = with_disk(variant, &site).sets(&settings).start();
    let begin = Instant::now();
    thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|at| {
            let server: &Server = &server;
            scope.spawn(move || {
                let mut client = Client::connect(server.address());
                let close = [("Connection", "close")];
                client.send(request("GET", &format!("/{at}.bin"), &close));
                // Its date is as old as the disk is slow.
                let answer = client.rest_or_reset();
                answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(&pattern(len, at))
            })
        });
        let clients: Vec<_> = clients.collect();
        assert!(clients.into_iter().all(|client| client.join().expect("it is answered")));
    });
    if begin.elapsed() < Duration::from_millis(900) {
        skip("needs a file system that lets go of its files");
    }
}
