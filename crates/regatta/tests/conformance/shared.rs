//! systems.md §8.6, shared-SYMPED: one table of descriptors, one cache, locks that outlive holders.

use crate::client::try_get;
use crate::harness::uid_of;
use crate::prelude::*;
use regatta_metrics::OldArena;
use regatta_sys::{process::share_descriptors, shm::SharedWords};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Bodies from descriptors, not from memory.
const FILES_ONLY: &str = "cache.body_bytes_max=0";

/// Descriptors of a process by number; none if it has ended, as short-lived children do.
pub(crate) fn descriptors(pid: u32) -> BTreeMap<u32, PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse().ok();
    let pair = |path: PathBuf| Some((number(&path)?, fs::read_link(&path).ok()?));
    entries.flatten().filter_map(|entry| pair(entry.path())).collect()
}

/// Opens connections until every worker has served one; each has its worker's share of requests.
fn clients(server: &Server) -> Vec<Client> {
    (0..40).map(|_| server.connect()).collect()
}

pub(crate) fn descriptors_are_of_all(variant: &Variant) {
    let server = Launch::new(variant, common()).set(FILES_ONLY).start();
    let mut clients = clients(&server);
    clients[0].get("/size-65537.bin").expect(200);
    let processes = server.processes().split_off(1);
    assert!(processes.len() > 2, "{processes:?}");
    // Reading a table of descriptors opens none in it. Two reads of one table differ while
    // connections are accepted, and while the keeper opens the descriptor that reports the end of
    // its last worker.
    let mut tables = Vec::new();
    let stood_still = eventually(PATIENCE, || {
        tables = processes.iter().map(|pid| descriptors(*pid)).collect();
        descriptors(processes[0]) == tables[0]
    });
    let first = &tables[0];
    assert!(stood_still, "{first:?}");
    assert!(first.values().any(|link| link.ends_with("size-65537.bin")), "{first:?}");
    for (pid, table) in processes.iter().zip(&tables) {
        assert_eq!(table, first, "process {pid}");
    }
    for pid in &processes[1..] {
        assert_eq!(inspect::tasks(*pid), 1, "processes, not threads");
        assert_ne!(maps(*pid, "[heap]"), Vec::<String>::new(), "memory of its own");
    }
}

/// A process that shares a table with a worker uses whatever the worker puts under its numbers. So
/// the master, which may be root, shares none, and the keeper has the workers' user.
pub(crate) fn the_master_has_a_table_of_its_own(variant: &Variant) {
    let server = start(variant);
    let check = |server: &Server| {
        let (master, keeper) = (server.pid(), server.keeper());
        let missing = [ErrorKind::Unsupported, ErrorKind::PermissionDenied];
        let shared = |one, other| match share_descriptors(one, other) {
            Err(error) if missing.contains(&error.kind()) => {
                skip(&format!("needs kcmp(2): {error}"));
                None
            }
            shared => Some(shared.expect("both live")),
        };
        let Some(with_keeper) = shared(master, keeper) else { return };
        assert!(!with_keeper, "the keeper has the master's table");
        for worker in server.workers() {
            assert_eq!(shared(master, worker), Some(false), "worker {worker}");
            assert_eq!(shared(keeper, worker), Some(true), "worker {worker}");
            assert_eq!(uid_of(keeper), uid_of(worker), "keeper and worker {worker}");
        }
    };
    check(&server);
    // A worker that was started later than the others.
    let (workers, first) = (server.workers().len(), server.workers()[0]);
    kill(first, Signal::KILL);
    soon(|| server.workers().len() == workers && !server.workers().contains(&first));
    check(&server);
}

/// The end of the keeper ends its workers; others begin with another table.
pub(crate) fn a_killed_keeper_is_replaced(variant: &Variant) {
    let mut server = Launch::new(variant, common()).set(FILES_ONLY).start();
    let mut clients = clients(&server);
    get_all(&mut clients, "/size-65537.bin");
    let before = server.processes().split_off(1);
    let workers = server.workers().len();
    kill(server.keeper(), Signal::KILL);
    clients.into_iter().for_each(|mut client| drop(client.rest_or_reset()));
    soon(|| !before.iter().any(|pid| alive(*pid)));
    comes_to(|| server.workers(), |now| now.len() == workers);
    server.says("the keeper (process");
    server.connect().get("/size-65537.bin").expect(200);
    server.counts("connections_open", 0);
    assert!(server.end(Signal::TERM).success());
}

/// Workers that exit as ordered are not replaced, though the keeper has not noticed the order. The
/// words with the order are there before its bell rings, and in this test it does not ring.
pub(crate) fn who_leaves_before_the_keeper_knows_is_not_replaced(variant: &Variant) {
    let server = start(variant);
    let mut all = descriptors(server.pid()).into_iter();
    let (number, _) = all
        .find(|(_, what)| what.to_string_lossy().contains("regatta-arena"))
        .expect("it has counters");
    let path = format!("/proc/{}/fd/{number}", server.pid());
    let memory = File::options().read(true).write(true).open(path).expect("it is ours");
    let memory = SharedWords::adopt(memory.into()).expect("counters");
    let keeper = server.keeper();
    // A deadline that has passed: every reader exits.
    OldArena::attach(memory.words()).expect("counters").control().leave(0);
    soon(|| !alive(keeper));
    let replaced = |line: &str| line.contains(": worker ") && line.contains("replaced in");
    assert!(!server.stderr().lines().any(replaced), "{}", server.stderr());
}

/// E-14: p processes have one descriptor per file, and one entry.
pub(crate) fn the_cache_is_one(variant: &Variant) {
    let server = Launch::new(variant, common())
        .sets(&[FILES_ONLY, "cache.revalidate_ms=60000", "cache.negative_ms=60000"])
        .start();
    let mut clients = clients(&server);
    clients.iter_mut().for_each(get_sizes);
    let fills = server.count("cache_fills");
    let names = SIZES.len() as u64;
    assert_eq!(fills, names, "each name is filled once, whoever asks");
    assert_eq!(server.count("cache_entries"), names);
    let links = descriptors(server.keeper());
    for size in SIZES.iter().filter(|size| **size > 0) {
        let name = format!("size-{size}.bin");
        let held = links.values().filter(|link| link.ends_with(&name)).count();
        assert_eq!(held, 1, "{name}");
    }
    assert!(server.count("lock_acquisitions") >= 40 * names);
}

/// Mappings of a process that have this name.
fn maps(pid: u32, name: &str) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("alive");
    maps.lines().filter(|line| line.contains(name)).map(str::to_owned).collect()
}

/// The memory of cache and locks is one mapping, at one place, shared and writable.
pub(crate) fn locks_are_in_shared_memory(variant: &Variant) {
    let server = start(variant);
    let processes = server.processes().split_off(1).into_iter();
    let all: Vec<_> = processes.map(|pid| maps(pid, "memfd:regatta-cache")).collect();
    assert_eq!(all[0].len(), 1, "{all:?}");
    assert!(all[0][0].contains(" rw-s "), "{all:?}");
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
}

pub(crate) fn hits_are_those_of_one_process(variant: &Variant) {
    let settings = [
        "cache.entries_max=5",
        "cache.descriptors_max=3",
        "cache.revalidate_ms=600000",
        "cache.negative_ms=600000",
        "cache.body_bytes_max=1000",
    ];
    let hits = [Variant::find("sped_epoll"), variant].map(|variant| {
        let server = Launch::new(variant, common()).sets(&settings).start();
        let mut clients = server.clients(8);
        let mut dice = 7_u64;
        for turn in 0..400 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Small numbers are more frequent than large ones.
            let of = SIZES.len() as u64;
            let pick = (dice >> 33) % of * ((dice >> 13) % of) / of;
            let name = format!("/size-{}.bin", SIZES[usize::try_from(pick).expect("small")]);
            clients[turn % 8].get(&name).expect(200);
        }
        ["cache_lookups", "cache_hits", "cache_fills", "cache_evictions"]
            .map(|name| server.count(name))
    });
    assert_eq!(hits[0], hits[1], "lookups, hits, fills, evictions");
    assert!(hits[0][3] > 10, "{hits:?}");
}

/// A worker that dies leaves no client waiting, and no descriptor open.
pub(crate) fn clients_of_the_dead_are_told(variant: &Variant) {
    let server = Launch::new(variant, common()).set(FILES_ONLY).start();
    server.connect().get("/size-65537.bin").expect(200);
    let workers = server.workers();
    let before = descriptors(server.keeper()).len();
    let mut clients = clients(&server);
    get_all(&mut clients, "/size-65537.bin");
    // Some are in the middle of a response.
    let narrow: Vec<_> = (0..8).map(|_| server.stuck_client()).collect();
    let begin = Instant::now();
    workers.iter().for_each(|worker| kill(*worker, Signal::KILL));
    for mut client in clients {
        client.rest_or_reset();
    }
    for mut client in narrow {
        client.drain();
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "told after {:?}", begin.elapsed());
    comes_to(|| server.workers(), |now| now.len() == workers.len());
    server.connect().get("/size-65537.bin").expect(200);
    // One more descriptor: that of a large file.
    comes_to(|| descriptors(server.keeper()), |open| open.len() <= before + 1);
}

/// Waits of each worker.
fn waits(server: &Server) -> Vec<u64> {
    let top = server.top();
    let workers = top["workers"].as_array().expect("rows").iter();
    workers.map(|worker| worker["counters"]["wait_calls"].as_u64().expect("a counter")).collect()
}

/// Logs are among the descriptors of a worker.
pub(crate) fn logs_of_the_dead_are_closed(variant: &Variant) {
    let site = Site::with(&[("a.txt", "a")]);
    let logs = ["access.log", "error.log"].map(|name| site.beside(name));
    let launch = Launch::new(variant, &site.root()).log(&logs[0]);
    let server = launch.set_path("log.error", &logs[1]).start();
    let open = || {
        let links = descriptors(server.keeper()).into_values();
        links.filter(|link| logs.iter().any(|log| log.file_name() == link.file_name())).count()
    };
    let workers = server.workers().len();
    // Each worker has separate descriptors of both, and the master has an error log.
    let most = 1 + workers * 2;
    for _ in 0..3 {
        comes_to(open, |open| *open == most);
        // A worker that has waited again since has entered its descriptors.
        let begin = waits(&server);
        // Idle loops wait again every second.
        soon(|| waits(&server).iter().zip(&begin).all(|(now, then)| now > then));
        // While logs are reopened the old ones may make up the number for a moment.
        comes_to(open, |open| *open == most);
        let before = server.workers();
        before.iter().for_each(|worker| kill(*worker, Signal::KILL));
        let others = || server.workers().iter().filter(|worker| !before.contains(worker)).count();
        comes_to(others, |others| *others == workers);
        comes_to(open, |open| *open == most);
        server.signal(Signal::USR1);
        assert_eq!(server.connect().get("/a.txt").expect(200).body, b"a");
    }
}

/// Processes are stopped, so that others wait for them, and die anywhere. No byte is wrong.
pub(crate) fn deaths_under_load_hang_nobody(variant: &Variant) {
    // Everything changes all the time, so locks are held long and often. Of four workers one is
    // always not waiting for its restart.
    let settings =
        ["cache.entries_max=4", "cache.revalidate_ms=0", "cache.descriptors_max=3", FILES_ONLY];
    let server = Launch::new(variant, common()).sets(&settings).set("event.processes=4").start();
    under_load(&server, |served| {
        let mut dice = 1_u64;
        for _ in 0..25 {
            let workers = comes_to(|| server.workers(), |now| now.len() > 1);
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let victim = workers[(dice >> 40) as usize % workers.len()];
            thread::sleep(Duration::from_micros(dice >> 50));
            kill(victim, Signal::STOP);
            thread::sleep(Duration::from_millis(3));
            kill(victim, Signal::KILL);
            let before = served.load(Relaxed);
            let goes_on = eventually(PATIENCE, || served.load(Relaxed) > before + 4);
            assert!(goes_on, "nobody is served after {victim}: {}", server.stderr());
        }
    });
    soon(|| server.workers().iter().all(|worker| alive(*worker)));
    for size in SIZES {
        server.connect().get(&format!("/size-{size}.bin")).expect(200).has(sized(size));
    }
    // Idle processes release what they had unpacked within a second.
    comes_to(|| sized_files_open(&server), |files| *files <= 3);
}

pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Number of files with a size in their names that the keeper of workers has open.
pub(crate) fn sized_files_open(server: &Server) -> usize {
    let links = descriptors(server.keeper());
    links.values().filter(|link| link.to_string_lossy().contains("size-")).count()
}

/// Calls `act` while four clients ask without end. It gets the number of their whole answers.
pub(crate) fn under_load(server: &Server, act: impl FnOnce(&AtomicU64)) {
    let (stop, served, address) = (AtomicBool::new(false), AtomicU64::new(0), server.address());
    thread::scope(|scope| {
        // Even if this thread fails.
        let _stop = Stop(&stop);
        for load in 0..4 {
            let (stop, served) = (&stop, &served);
            scope.spawn(move || loads(address, load, stop, served));
        }
        act(&served);
    });
}

/// Asks without end; replaces a connection that breaks.
fn loads(address: SocketAddr, load: usize, stop: &AtomicBool, served: &AtomicU64) {
    // One client is enough for files of megabytes: events come with requests, not with bytes.
    let sizes = &SIZES[..if load == 0 { SIZES.len() } else { SIZES.len() - 2 }];
    for turn in load.. {
        if stop.load(Relaxed) {
            return;
        }
        served.fetch_add(u64::from(is_served(address, sizes[turn % sizes.len()])), Relaxed);
    }
}

/// Asks for the file of this size, on a connection that may break. The received bytes must be
/// right; true if they are all.
pub(crate) fn is_served(address: SocketAddr, size: usize) -> bool {
    let Ok(stream) = TcpStream::connect(address) else { return false };
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let answer = try_get(stream, &format!("/size-{size}.bin"), ("Connection", "close"));
    let Some((head, body, ended)) = answer else { return false };
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains(&format!("Content-Length: {size}\r\n")), "{size}: {head}");
    assert!(sized(size).starts_with(&body), "wrong bytes of {size}, {} of them", body.len());
    ended && body.len() == size
}

/// A server shared by tests works for this architecture too.
pub(crate) fn processes_serve_the_same_bytes() {
    serve_the_same_bytes(VARIANTS.iter());
}

pub(crate) fn serve_the_same_bytes<'a>(variants: impl Iterator<Item = &'a Variant>) {
    for variant in variants.filter(|variant| variant.architecture == "shared-symped") {
        let server = serve(variant);
        for client in &mut (0..16).map(|_| server.connect()).collect::<Vec<_>>() {
            assert_eq!(client.get("/a.txt").expect(200).body, b"the letter a\n");
        }
    }
}
