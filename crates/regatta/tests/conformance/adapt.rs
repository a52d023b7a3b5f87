//! systems.md §8.6, BIO, AIO and the self-adapting server: readers, responders, and reasons.

use crate::prelude::*;
use crate::slow_disk::{HANGS, cold_site, with_disk};

/// Time without bytes that shows that a thread is waited for.
const SILENCE: Duration = Duration::from_millis(300);

fn count_tasks(server: &Server, name: &str) -> usize {
    tasks(worker(server)).iter().filter(|task| *task == name).count()
}

/// The dispatcher, the threads of the pool and, where reads may be asynchronous, one poller thread
/// and at most `adapt.aio_threads` that read, whatever the load.
pub(crate) fn tasks_are_those_of_the_paper(variant: &Variant) {
    let server = start_with(variant, &["adapt.threads=3", "adapt.aio_threads=2"]);
    let pollers = usize::from(variant.architecture != "bio");
    let counts = || ["pool", "poller"].map(|name| count_tasks(&server, name));
    comes_to(counts, |counts| *counts == [3, pollers]);
    let mut clients = server.clients(60);
    send_all(&mut clients, get("/size-65537.bin"));
    for client in &mut clients {
        client.answer("GET").expect(200);
        let readers = count_tasks(&server, "aio");
        assert_eq!(tasks(worker(&server)).len() - readers.min(2), 4 + pollers);
    }
    assert_eq!(server.count("threads_started"), 3);
}

/// The asked thread does not read: it continues with others while a read takes its time.
pub(crate) fn a_read_holds_no_thread(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let server = with_disk(variant, &site).sets(&[HANGS, "adapt.threads=1"]).start();
    let mut cold = server.asked(get("/small.bin"));
    server.counts("aio_started", 1);
    (0..5).for_each(|_| drop(server.connect().get("/page.txt").expect(200)));
    server.counts("aio_completed", 5);
    assert!(cold.silent_for(Duration::from_millis(10)));
}

pub(crate) fn a_read_holds_its_thread(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let settings = ["lab.disk_seek_us=2s", "adapt.threads=1"];
    let server = with_disk(variant, &site).sets(&settings).start();
    let (mut cold, mut other) = (server.connect(), server.connect());
    cold.send(get("/small.bin"));
    server.reaches("hand_overs", 1);
    other.send(get("/page.txt"));
    assert!(other.silent_for(SILENCE), "there is a second thread");
    cold.answer("GET").expect(200);
    other.answer("GET").expect(200);
    assert_eq!(server.count("aio_started"), 0);
}

/// Lines of the trace: how a read was made, and how many connections waited for a thread.
fn decisions(server: &Server) -> Vec<(String, usize)> {
    let line = |line: &str| {
        let (_, said) = line.split_once(" notice[controller-decision]: read ")?;
        let (way, rest) = said.split_once(": rule=queue queue=")?;
        let queue = rest.split(' ').next()?.parse().expect("a number");
        Some((way.to_owned(), queue))
    };
    server.stderr().lines().filter_map(line).collect()
}

/// A read is asynchronous exactly if a connection waits for a thread at the decision.
pub(crate) fn reads_follow_the_queue(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let settings = ["lab.disk_seek_us=1s", "adapt.threads=1", "adapt.trace=true"];
    let server = with_disk(variant, &site).sets(&settings).start();
    let (mut first, mut page) = (server.connect(), server.connect());
    page.get("/page.txt").expect(200);
    first.send(get("/small.bin"));
    let decided = |reads: usize| comes_to(|| decisions(&server), |all| all.len() == reads);
    decided(2);
    // The only thread reads: these clients wait for it.
    let mut waiting = server.clients(3);
    send_all(&mut waiting, get("/page.txt"));
    first.answer("GET").expect(200);
    answer_all(&mut waiting, 200);
    let decisions = decided(5);
    for (way, queue) in &decisions {
        assert_eq!(way == "async", *queue > 0, "{decisions:?}");
    }
    assert_eq!(decisions[1], ("blocking".to_owned(), 0), "{decisions:?}");
    let all = server.count("decided_async");
    assert!(all >= 1, "{decisions:?}");
    assert_eq!(server.count("decided_blocking") + all, 5);
    assert_eq!(server.count("aio_started"), all);
}

/// Threads like glibc's do not exceed their limit, and end when they have nothing to read.
pub(crate) fn threads_that_read_end(variant: &Variant) {
    let server = start_with(variant, &["adapt.aio_threads=2", "adapt.aio_idle_ms=300"]);
    let mut clients = server.clients(20);
    let mut most = 0;
    for _ in 0..3 {
        send_all(&mut clients, get("/size-65537.bin"));
        for client in &mut clients {
            client.answer("GET").expect(200);
            most = most.max(count_tasks(&server, "aio"));
        }
    }
    assert!((1..=2).contains(&most), "{most} threads read");
    comes_to(|| count_tasks(&server, "aio"), |readers| *readers == 0);
    clients[0].get("/small.txt").expect(200);
}

pub(crate) fn the_poller_waits_for_no_client(variant: &Variant) {
    let site = Site::with(&[("page.txt", "a page\n")]);
    site.put("long.bin", pattern(1_000_000, 1));
    let server = Launch::new(variant, &site.root()).set("adapt.threads=8").start();
    let mut slow: Vec<Client> = (0..4).map(|_| server.slow_reader("/long.bin")).collect();
    (0..10).for_each(|_| drop(server.connect().get("/page.txt").expect(200)));
    for client in &mut slow {
        assert!(client.take(1_000_000) == pattern(1_000_000, 1));
    }
}

/// A client whose file does not arrive gets an error, and its thread is free.
pub(crate) fn a_read_that_hangs_is_given_up(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let settings = [HANGS, "adapt.threads=1", "limits.disk_ms_max=500"];
    let mut server = with_disk(variant, &site).sets(&settings).start();
    let mut clients = [server.connect(), server.connect()];
    send_all(&mut clients, get("/small.bin"));
    for client in &mut clients {
        assert!(client.answer("GET").expect(503).closes());
    }
    server.connect().get("/page.txt").expect(200);
    server.end(Signal::TERM);
}

/// A read is asynchronous if the file is not in memory, and by the thread if it is.
pub(crate) fn reads_follow_residency(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let server = with_disk(variant, &site).set("adapt.rule=residency").start();
    let decided = || {
        let names = ["decided_async", "decided_absent", "decided_blocking", "decided_resident"];
        names.map(|name| server.count(name))
    };
    let mut client = server.connect();
    client.get("/page.txt").expect(200);
    assert_eq!(decided(), [0, 0, 1, 1]);
    client.get("/small.bin").expect(200);
    assert_eq!(decided(), [1, 1, 1, 1]);
    client.get("/small.bin").expect(200);
    assert_eq!(decided(), [1, 1, 2, 2], "it is in memory now");
}

/// From the second concurrent read on they are asynchronous, even if no connection waits.
pub(crate) fn reads_follow_the_disk(variant: &Variant) {
    let Some(site) = cold_site() else { return };
    let settings = ["adapt.rule=disk", "adapt.reads_min=1", "adapt.wait_us=1min"];
    let server = with_disk(variant, &site).set("lab.disk_seek_us=5s").sets(&settings).start();
    let (mut first, mut second) = (server.connect(), server.connect());
    first.send(get("/small.bin"));
    server.counts("decided_blocking", 1);
    second.get("/page.txt").expect(200);
    assert_eq!(server.count("decided_async"), 1);
    assert!(!first.has_bytes(), "it is being read");
    first.answer("GET").expect(200);
    first.get("/page.txt").expect(200);
    assert_eq!(server.count("decided_blocking"), 2, "nothing is read meanwhile");
}
