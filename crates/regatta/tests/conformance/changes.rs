//! Files that change while they are served: each answer is whole, and soon the new version.

use crate::prelude::*;
use crate::shared::Stop;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::sync::atomic::{AtomicBool, Ordering};

/// Settings under which a change is soon noticed.
const QUICK: [&str; 2] = ["cache.revalidate_ms=50", "cache.negative_ms=50"];

fn start(variant: &Variant, site: &Site) -> Server {
    Launch::new(variant, &site.root()).sets(&QUICK).start()
}

/// Asks until an answer is as wanted; reads every answer strictly.
fn until(server: &Server, target: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
    let mut client = server.connect();
    comes_to(|| client.get(target), wanted)
}

pub(crate) fn replaced(variant: &Variant) {
    let site = Site::with(&[("file.txt", "the old text")]);
    let launch = Launch::new(variant, &site.root()).sets(&QUICK);
    let server = launch.set("content.etag=inode").start();
    let old = until(&server, "/file.txt", |a| a.status == 200);
    // A deployment: a new file, renamed over the old, even with the same time and size.
    site.put("new.tmp", "the new text");
    fs::rename(site.path("new.tmp"), site.path("file.txt")).expect("a rename");
    let new = until(&server, "/file.txt", |a| a.body == b"the new text");
    assert_ne!(old.must("ETag"), new.must("ETag"));
    let fields = [("If-None-Match", old.must("ETag"))];
    // Each process asks the file system itself, when it is time.
    let ask = || server.connect().ask("GET", "/file.txt", &fields);
    comes_to(ask, |answer| answer.body == b"the new text");
}

pub(crate) fn written_in_place(variant: &Variant) {
    let site = Site::with(&[("file.txt", "the old text")]);
    let server = start(variant, &site);
    let old = until(&server, "/file.txt", |a| a.status == 200);
    fs::write(site.path("file.txt"), "a longer new text").expect("a file");
    let new = until(&server, "/file.txt", |a| a.body == b"a longer new text");
    assert_ne!(old.must("ETag"), new.must("ETag"));
    assert_ne!(old.must("Last-Modified"), new.must("Last-Modified"));
    fs::write(site.path("file.txt"), "a LONGER new text").expect("a file");
    until(&server, "/file.txt", |a| a.body == b"a LONGER new text");
}

pub(crate) fn touched(variant: &Variant) {
    let site = Site::with(&[("file.txt", "text")]);
    let server = start(variant, &site);
    until(&server, "/file.txt", |a| a.status == 200);
    set_modified(&site.path("file.txt"), 1_600_000_000);
    let touched = "Sun, 13 Sep 2020 12:26:40 GMT";
    until(&server, "/file.txt", |a| a.must("Last-Modified") == touched);
}

pub(crate) fn removed_and_created(variant: &Variant) {
    let site = Site::with(&[("file.txt", "text")]);
    let server = start(variant, &site);
    until(&server, "/file.txt", |a| a.status == 200);
    fs::remove_file(site.path("file.txt")).expect("a file");
    until(&server, "/file.txt", |a| a.status == 404);
    site.put("file.txt", "back again");
    until(&server, "/file.txt", |a| a.body == b"back again");
    server.connect().get("/later.txt").expect(404);
    site.put("later.txt", "later");
    until(&server, "/later.txt", |a| a.body == b"later");
}

pub(crate) fn a_file_becomes_a_folder(variant: &Variant) {
    let site = Site::with(&[("thing", "a file"), ("other/index.html", "a folder")]);
    let server = start(variant, &site);
    until(&server, "/thing", |a| a.status == 200);
    until(&server, "/other/", |a| a.status == 200);
    fs::remove_file(site.path("thing")).expect("a file");
    fs::rename(site.path("other"), site.path("thing")).expect("a rename");
    until(&server, "/thing", |a| matches!(a.status, 301 | 308));
    until(&server, "/thing/", |a| a.body == b"a folder");
    until(&server, "/other/", |a| a.status == 404);
}

pub(crate) fn siblings_come_and_go(variant: &Variant) {
    let site = Site::with(&[("page.html", "identity")]);
    let server = start(variant, &site);
    let mut client = server.connect();
    let mut coded =
        || client.ask("GET", "/page.html", &[("Accept-Encoding", "gzip")]).expect(200).body;
    assert_eq!(coded(), b"identity");
    site.put("page.html.gz", "coded");
    comes_to(&mut coded, |body| body == b"coded");
    fs::remove_file(site.path("page.html.gz")).expect("a file");
    comes_to(coded, |body| body == b"identity");
}

pub(crate) fn without_a_cache_at_once(variant: &Variant) {
    let site = Site::with(&[("file.txt", "one")]);
    let server = Launch::new(variant, &site.root()).set("cache.enabled=false").start();
    let mut client = server.connect();
    assert_eq!(client.get("/file.txt").expect(200).body, b"one");
    fs::write(site.path("file.txt"), "two").expect("a file");
    assert_eq!(client.get("/file.txt").expect(200).body, b"two");
    fs::remove_file(site.path("file.txt")).expect("a file");
    client.get("/file.txt").expect(404);
}

/// A folder that becomes a link out of the root and back, as fast as it can: no race defeats the
/// kernel's resolution below the root (static-servers.md §4). Some requests find the folder,
/// and some find the link.
pub(crate) fn no_race_out_of_the_root(variant: &Variant) {
    let site = Site::with(&[("folder/secret.txt", "harmless"), ("small.txt", "small\n")]);
    fs::create_dir(site.beside("outside")).expect("a folder");
    fs::write(site.beside("outside/secret.txt"), SECRET).expect("a file");
    site.link("other", "../outside");
    let launch = Launch::new(variant, &site.root());
    let server = launch.set("cache.enabled=false").set("content.symlinks=true").start();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&over);
        scope.spawn(|| {
            let (one, two) = (site.path("folder"), site.path("other"));
            while !over.load(Ordering::Relaxed) {
                let exchange = RenameFlags::EXCHANGE;
                renameat_with(CWD, &one, CWD, &two, exchange).expect("a file system that can");
            }
        });
        let (mut asked, mut served) = (0_u32, 0_u32);
        let is_enough = eventually(PATIENCE, || {
            let mut client = server.connect();
            for _ in 0..600 {
                let answer = client.get("/folder/secret.txt");
                assert!(matches!(answer.status, 200 | 403 | 404 | 503), "{answer:?}");
                let harmless = answer.status != 200 || answer.body == b"harmless";
                assert!(harmless, "{answer:?}");
                served += u32::from(answer.status == 200);
                asked += 1;
            }
            (1..asked).contains(&served)
        });
        assert!(is_enough, "{served} of {asked} requests found the folder");
    });
    server.connect().get("/small.txt").expect(200);
}

/// Readers during rewrites: each answer is one of the versions, whole.
pub(crate) fn replaced_again_and_again(variant: &Variant) {
    let site = Site::new();
    let version = |i: usize| vec![b'a' + u8::try_from(i % 26).expect("small"); 1000 + 3000 * i];
    site.put("file.txt", version(0));
    let server = start(variant, &site);
    let mut client = server.connect();
    for i in 1..30 {
        site.put("new.tmp", version(i));
        fs::rename(site.path("new.tmp"), site.path("file.txt")).expect("a rename");
        thread::sleep(Duration::from_millis(5));
        let answer = client.get("/file.txt").expect(200);
        let letter = answer.body[0];
        let seen = usize::from(letter - b'a');
        assert!(answer.body.iter().all(|b| *b == letter), "a mixture of versions");
        let lens = [1000 + 3000 * seen, 1000 + 3000 * (seen + 26)];
        assert!(lens.contains(&answer.body.len()), "{letter}: {} bytes", answer.body.len());
    }
}

/// Length of a file that shrinks.
pub(crate) const SHRINKS: u64 = 64 << 20;

/// A server that sends a file of [`SHRINKS`] bytes, and a client that has received 20,000 of them.
/// Now the file has 10 bytes.
pub(crate) fn shrunk(site: &Site, launch: Launch) -> (Server, Client) {
    site.resize("big.bin", SHRINKS);
    let server = launch.set("cache.body_bytes_max=65536").start();
    let mut slow = server.connect_narrow();
    slow.send(get("/big.bin"));
    let head = slow.head_only().expect(200);
    assert_eq!(head.must("Content-Length"), SHRINKS.to_string());
    slow.take(20_000);
    site.resize("big.bin", 10);
    (server, slow)
}

/// A file that shrinks while it is sent: the connection ends, nothing is padded, nothing spins.
pub(crate) fn shrunk_while_sent(variant: &Variant) {
    let site = Site::with(&[("small.txt", "small\n")]);
    let (server, mut slow) = shrunk(&site, Launch::new(variant, &site.root()).sets(&QUICK));
    let before = server.cpu();
    let received = 20_000 + slow.drain();
    assert!(received < SHRINKS, "padded to {received}");
    thread::sleep(Duration::from_millis(300));
    let used = server.cpu() - before;
    assert!(used < Duration::from_millis(250), "{used:?} of processor time after the end");
    assert_eq!(server.connect().get("/small.txt").expect(200).body, b"small\n");
    until(&server, "/big.bin", |a| a.body == [0; 10]);
}

/// A file known without its body, and shorter before that is read, is answered as it is now.
pub(crate) fn shrunk_before_it_is_read(variant: &Variant) {
    let site = Site::with(&[("file.txt", "a text that is cut here: and this goes")]);
    let mut client = serve_root(variant, &site.root(), &["cache.revalidate_ms=60000"]).client();
    client.ask("HEAD", "/file.txt", &[]).expect(200);
    site.resize("file.txt", 23);
    assert_eq!(client.get("/file.txt").expect(200).body, b"a text that is cut here");
}

/// A file that was cached whole or in part and shrinks between two requests: nothing is made up.
pub(crate) fn shrunk_between_requests(variant: &Variant) {
    for len in [5000_u64, 200_000] {
        let site = Site::new();
        site.put("file.bin", vec![b'x'; usize::try_from(len).expect("small")]);
        // Bodies in memory as by default, whatever the architecture has there.
        let launch = Launch::new(variant, &site.root()).sets(&QUICK);
        let server = launch.set("cache.body_bytes_max=65536").start();
        server.connect().get("/file.bin").expect(200);
        site.resize("file.bin", 100);
        // A body in memory may still be the old one; one sent from its file is the current one.
        let mut client = server.asked(request("GET", "/file.bin", &[("Connection", "close")]));
        let promised: u64 = client.head_only().must("Content-Length").parse().expect("a length");
        let received = client.drain();
        assert_eq!(received, promised);
        assert!(len == 5000 || received == 100, "{received}");
        thread::sleep(Duration::from_millis(200));
        until(&server, "/file.bin", |a| a.body == [b'x'; 100]);
    }
}

/// A file that grows while it is sent: the promised length, no more.
pub(crate) fn grown_while_sent(variant: &Variant) {
    const LEN: u64 = 8 << 20;
    let site = Site::with(&[("small.txt", "small\n")]);
    site.resize("big.bin", LEN);
    let server = start(variant, &site);
    let mut slow = server.connect_narrow();
    slow.send([get("/big.bin"), get("/small.txt")].concat());
    slow.head_only().expect(200);
    site.resize("big.bin", LEN * 2);
    slow.take(usize::try_from(LEN).expect("small"));
    assert_eq!(slow.answer("GET").expect(200).body, b"small\n");
}

/// A file that is removed while it is sent arrives whole: the server holds it open.
pub(crate) fn removed_while_sent(variant: &Variant) {
    const LEN: usize = 8 << 20;
    let site = Site::new();
    site.resize("big.bin", LEN as u64);
    let server = start(variant, &site);
    let mut slow = server.slow_reader("/big.bin");
    fs::remove_file(site.path("big.bin")).expect("a file");
    slow.take(LEN);
    until(&server, "/big.bin", |a| a.status == 404);
}

/// Another program has a lease, as Samba does: the server waits, and drops nothing for that.
pub(crate) fn leased_by_another(variant: &Variant) {
    let site = Site::with(&[("leased.txt", "mine")]);
    site.put("big.bin", vec![b'x'; 200_000]);
    let server = start(variant, &site);
    server.connect().get("/big.bin").expect(200);
    let lease = site.lease("leased.txt");
    let mut client = server.waiting_client("/leased.txt", "there is something to wait for");
    server.connect().get("/big.bin").expect(200);
    drop(lease);
    assert_eq!(client.answer("GET").expect(200).body, b"mine");
    assert_eq!(server.count("cache_evictions"), 0);
}

/// Deleted files free their room on the disk, whether they are requested again or not.
pub(crate) fn deleted_files_are_closed(variant: &Variant) {
    let site = Site::new();
    let names: Vec<_> = (0..20).map(|at| format!("old/{at}.bin")).collect();
    names.iter().for_each(|name| site.put(name, vec![b'x'; 100_000]));
    let server = Launch::new(variant, &site.root()).set("cache.inactive_ms=400").start();
    let mut clients = server.clients(4);
    for client in &mut clients {
        names.iter().for_each(|name| drop(client.get(&format!("/{name}")).expect(200)));
    }
    fs::remove_dir_all(site.path("old")).expect("a folder");
    let open = || server.processes().into_iter().flat_map(|pid| descriptors(pid).into_values());
    let is_deleted = |link: &PathBuf| link.to_string_lossy().ends_with(".bin (deleted)");
    // Each loop checks at least once a second.
    comes_to(|| open().filter(is_deleted).count(), |deleted| *deleted == 0);
}
