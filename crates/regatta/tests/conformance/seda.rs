//! Stages with queues, pools of threads and controllers, seen from outside (systems.md §8.6).

use crate::prelude::*;
use crate::slow_disk::{HANGS, cold_site, put_cold, with_disk};
pub(crate) use crate::threads::a_thousand_slow_clients;

/// Role of each slot of counters: the first thread, the stations, the control thread.
const ROLES: [&str; 9] =
    ["listen", "read", "write", "parse", "recv", "cache", "miss", "disk", "control"];
/// Stations that a request passes on its way to be sent.
const PASSED: [&str; 6] = ["parse", "recv", "cache", "miss", "disk", "write"];

/// A counter of one role.
fn of_role(top: &Value, role: &str, name: &str) -> u64 {
    let at = ROLES.iter().position(|known| *known == role).expect("a role");
    top["workers"][at]["counters"][name].as_u64().unwrap_or(0)
}

/// Requests put into each queue so far.
fn puts(server: &Server) -> [u64; 6] {
    let top = server.top();
    PASSED.map(|role| of_role(&top, role, "queue_puts"))
}

/// The first thread listens. Each stage has one thread while there is little to do, and one more
/// controls them. In cohort-sandstorm all but two stages share threads.
pub(crate) fn tasks_are_those_of_the_source(variant: &Variant) {
    let server = start(variant);
    let pid = worker(&server);
    let expect = match variant.architecture {
        "cohort-sandstorm" => vec!["read", "stages", "stages", "write"],
        _ => vec!["cache", "control", "disk", "miss", "parse", "read", "recv", "write"],
    };
    let named = || {
        let mut names = tasks(pid);
        names.sort();
        names.retain(|name| expect.contains(&name.as_str()));
        names
    };
    // A thread gets its name a moment after its start.
    let right = || named() == expect && tasks(pid).len() == 1 + expect.len();
    assert!(eventually(PATIENCE, right), "{:?}", tasks(pid));
    server.connect().get("/small.txt").expect(200);
    assert!(right(), "{:?}", tasks(pid));
}

/// Passes each queue once, as in the source, and those of files and the one before them as often as
/// a file is opened and has been read.
pub(crate) fn a_hit_passes_four_queues_a_miss_seven(variant: &Variant) {
    let server = start_with(variant, &["cache.body_bytes_max=65536", "cache.revalidate_ms=1h"]);
    let mut client = server.connect();
    // A count follows its event after a moment.
    let expect = |passed: [u64; 6]| {
        comes_to(|| (PASSED, passed, puts(&server)), |(_, passed, puts)| puts == passed);
    };
    client.get("/size-4096.bin").expect(200);
    expect([1, 1, 1, 2, 1, 1]);
    client.repeat(20, "/size-4096.bin");
    expect([21, 21, 21, 2, 1, 21]);
    let top = server.top();
    for role in PASSED {
        assert_eq!(of_role(&top, role, "queue_takes"), of_role(&top, role, "queue_puts"), "{role}");
    }
    assert_eq!(of_role(&top, "read", "recv_calls"), server.count("recv_calls"));
    assert_eq!(of_role(&top, "write", "send_calls"), server.count("send_calls"));
}

/// The same with more files that are not in memory, `0.bin` to `11.bin`.
fn cold_files() -> Option<Site> {
    let site = cold_site()?;
    (0..12).for_each(|at| put_cold(&site, &format!("{at}.bin"), &pattern(3000, at)));
    Some(site)
}

/// Threads read while requests wait for the disk. No other stage has more than one.
pub(crate) fn the_disk_stage_grows_and_shrinks(variant: &Variant) {
    let Some(site) = cold_files() else { return };
    let controls = ["stages.pool_every=1", "stages.disk_ms=10", "stages.disk_threshold=1"];
    let bounds = ["stages.pool_threshold=1000", "seda.disk_max=4", "seda.idle_ms=300"];
    let launch = with_disk(variant, &site).set("lab.disk_seek_us=300000");
    let server = launch.set("stages.decisions=changes").sets(&controls).sets(&bounds).start();
    let mut clients = server.clients(12);
    send_numbered(&mut clients);
    for (at, client) in clients.iter_mut().enumerate() {
        assert!(client.answer("GET").expect(200).body == pattern(3000, at));
    }
    let top = server.top();
    assert_eq!(of_role(&top, "disk", "threads_open_max"), 4);
    for role in ["parse", "recv", "cache", "miss"] {
        assert_eq!(of_role(&top, role, "threads_open_max"), 1, "{role}");
    }
    assert!(of_role(&top, "disk", "decisions_changed") >= 3);
    let reads = |tasks: &Vec<String>| tasks.iter().filter(|name| *name == "disk").count();
    comes_to(|| tasks(worker(&server)), |tasks| reads(tasks) == 1);
    server.says("stage disk: threads=4: queue=");
}

/// Fails unless the client gets an error and the end, or the end alone.
fn is_turned_away(client: &mut Client, is_told: bool) {
    if is_told {
        let answer = client.answer("GET").expect(503);
        assert!(answer.closes() && answer.field("Retry-After").is_some(), "{answer:?}");
        client.finish();
    } else {
        assert!(client.rest_or_reset().is_empty(), "it receives nothing");
    }
}

/// At the limit of requests inside, the next gets an error, or its connection is closed.
pub(crate) fn who_is_too_many_is_turned_away(variant: &Variant) {
    let Some(site) = cold_files() else { return };
    let server = with_disk(variant, &site).sets(&[HANGS, "seda.requests_max=2"]).start();
    let mut page = server.connect();
    // An answered request is outside.
    page.repeat(5, "/page.txt");
    // A client that sends a request's content makes only itself wait, and not the server.
    let mut uploads = server.connect();
    uploads
        .send([&request("GET", "/page.txt", &[("Content-Length", "10")]), &b"12345"[..]].concat());
    comes_to(|| of_role(&server.top(), "parse", "queue_puts"), |parsed| *parsed == 6);
    let mut stuck = [server.connect(), server.connect()];
    send_numbered(&mut stuck);
    // The page was read once.
    comes_to(|| of_role(&server.top(), "disk", "queue_puts"), |puts| *puts == 3);
    page.send(get("/page.txt"));
    is_turned_away(&mut page, variant.architecture != "haboob-2002");
    uploads.send("67890");
    uploads.answer("GET").expect(200);
    server.counts("closed_refused", 1);
    assert_eq!(server.count("stage_refused"), 1);
    assert_eq!(of_role(&server.top(), "read", "stage_refused"), 1, "where it is received");
}

/// A thread hangs with its disk: waiters for that thread are refused at the disk's deadline.
pub(crate) fn who_waits_for_a_hung_disk_is_turned_away(variant: &Variant) {
    let Some(site) = cold_files() else { return };
    let settings = [HANGS, "seda.pool_min=1", "seda.disk_max=1", "limits.disk_ms_max=200"];
    let server = with_disk(variant, &site).set("cache.revalidate_ms=1h").sets(&settings).start();
    server.connect().get("/page.txt").expect(200);
    let _hangs = server.asked(get("/0.bin"));
    // The page was read, too.
    comes_to(|| of_role(&server.top(), "disk", "queue_takes"), |begun| *begun == 2);
    is_turned_away(&mut server.asked(get("/1.bin")), variant.architecture == "seda");
    server.counts("closed_refused", 1);
    assert_eq!(of_role(&server.top(), "read", "stage_refused"), 1);
    if variant.architecture != "cohort-sandstorm" {
        server.connect().get("/page.txt").expect(200);
    }
}

/// With room for one request, there is room for the next whatever the outcome.
pub(crate) fn places_are_given_back(variant: &Variant) {
    let server = Launch::new(variant, common()).set("seda.requests_max=1").start();
    let mut client = server.connect();
    for _ in 0..5 {
        client.get("/small.txt").expect(200);
        client.ask("HEAD", "/small.txt", &[]).expect(200);
        client.get("/missing.txt").expect(404);
        client.get("/size-1048577.bin").expect(200);
        // Half a head is no request yet.
        client.send("GET /small.txt HTTP/1.1\r\nHo");
        thread::sleep(Duration::from_millis(20));
        client.send("st: a\r\n\r\n");
        client.answer("GET").expect(200);
        client.send([get("/small.txt"), get("/a.txt"), get("/missing.txt")].concat());
        for status in [200, 200, 404] {
            client.answer("GET").expect(status);
        }
        let mut bad = server.asked("nonsense\r\n\r\n");
        bad.answer("GET").expect(400);
        bad.finish();
    }
    assert_eq!(server.count("stage_refused"), 0);
    for _ in 0..5 {
        server.asked(get("/sparse.bin")).abort();
    }
    // Those who have left are no longer inside.
    soon(|| is_served(server.connect(), ""));
}

pub(crate) fn a_burst_is_answered_or_refused(variant: &Variant) {
    const BOUND: u64 = 64;
    let bounds = ["seda.queue_max=64", "seda.requests_max=64", "seda.on_full=refuse"];
    let server = Launch::new(variant, common()).set("accept.backlog=4096").sets(&bounds).start();
    let mut clients = server.clients(2000);
    send_all(&mut clients, get("/small.txt"));
    let mut refused = 0;
    for client in &mut clients {
        let answer = client.answer("GET").expect_one_of(&[200, 503]);
        refused += u64::from(answer.status == 503);
    }
    // Their ends, all at once, wait in no queue either.
    drop(clients);
    server.counts("connections_closed", 2000);
    let top = server.top();
    assert_eq!(of_role(&top, "read", "stage_refused"), refused);
    for role in ["parse", "recv", "cache", "miss", "disk"] {
        let most = of_role(&top, role, "queue_len_max");
        assert!(most <= BOUND, "{most} waited for {role}");
    }
    server.connect().get("/small.txt").expect(200);
}

/// Settings that admit one request a second, and one at once.
const ONE_A_SECOND: [&str; 4] =
    ["stages.rate_first=1", "stages.rate_max=1", "stages.bucket=1", "stages.target_ms=10 min"];

/// Whether the only request of a client, after the bytes `before`, is answered with the file.
fn is_served(mut client: Client, before: &str) -> bool {
    let close = request("GET", "/small.txt", &[("Connection", "close")]);
    client.send([before.as_bytes(), &close].concat());
    client.rest_or_reset().starts_with(b"HTTP/1.1 200 OK")
}

/// Admits one request a second, and one at once: others are refused until a second has passed. That
/// includes clients that a proxy names.
pub(crate) fn a_rate_is_kept(variant: &Variant) {
    let proxy = ["server.proxy_protocol=true", "server.trusted=127.0.0.1"];
    let launch = Launch::new(variant, common()).set("stages.admission=direct");
    let server = launch.sets(&ONE_A_SECOND).sets(&proxy).start();
    let header = "PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\n";
    let is_admitted = || is_served(server.connect(), header);
    let begin = Instant::now();
    let admitted = (0..10).filter(|_| is_admitted()).count() as u64;
    let most = 2 + begin.elapsed().as_secs();
    assert!((1..=most).contains(&admitted), "{admitted} admitted, {most} at most");
    soon(is_admitted);
}

pub(crate) fn a_head_in_pieces_is_admitted_once(variant: &Variant) {
    let launch = Launch::new(variant, common()).set("stages.admission=direct");
    let server = launch.sets(&ONE_A_SECOND).start();
    let mut client = server.asked("GET /small.txt HTTP/1.1\r\nHo");
    thread::sleep(Duration::from_millis(50));
    client.send("st: a\r\nConnection: close\r\n\r\n");
    assert!(client.rest_or_reset().starts_with(b"HTTP/1.1 200 OK"));
    assert_eq!(server.count("stage_refused"), 0);
}

pub(crate) fn each_address_has_its_class(variant: &Variant) {
    let launch = Launch::new(variant, common()).listen("127.0.0.1:0").sets(&ONE_A_SECOND);
    let server = launch.set("stages.admission=multiclass").start();
    let is_admitted = |at: usize| is_served(server.connect_to(server.addresses()[at]), "");
    let begin = Instant::now();
    assert!(is_admitted(0) && is_admitted(1), "one has taken the other's place");
    let again = is_admitted(0);
    assert!(!again || begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(tasks(worker(&server)).iter().any(|name| name == "listen"));
}

pub(crate) fn decisions_come_at_their_times(variant: &Variant) {
    let settings = ["stages.decisions=all", "stages.pool_ms=200", "stages.pool_every=1"];
    let server = Launch::new(variant, common()).sets(&settings).set("stages.disk_ms=190").start();
    let of = |said: &str, stage: &str| {
        let line = format!("stage {stage}: unchanged: queue=0 threads=1");
        said.lines().filter(|said| said.contains(&line)).count()
    };
    let decided = || of(&server.stderr(), "parse");
    let (before, begin) = (comes_to(decided, |decided| *decided >= 1), Instant::now());
    soon(|| decided() >= before + 5);
    // The first of them may have been imminent.
    assert!(begin.elapsed() >= Duration::from_millis(4 * 200 - 50), "{:?}", begin.elapsed());
    // Neither has waited for two periods of the other.
    let said = server.stderr();
    let [parse, disk] = ["parse", "disk"].map(|stage| of(&said, stage));
    assert!(disk <= parse + parse / 2, "{disk} of the disk, {parse} of who parses");
}

pub(crate) fn decisions_are_not_logged_unasked(variant: &Variant) {
    let server = start_with(variant, &["stages.batch_control=true", "stages.batch_ms=1"]);
    let mut client = server.connect();
    let decided = || {
        client.repeat(20, "/small.txt");
        of_role(&server.top(), "parse", "decisions_changed") >= 2
    };
    soon(decided);
    assert!(!server.stderr().contains("stage "), "{}", server.stderr());
}

/// Ages in the gate's log lines.
fn ages_ms(server: &Server) -> Vec<f64> {
    let said = server.stderr();
    let of = |line: &str| line.split_once("age_ms=")?.1.split(' ').next()?.parse().ok();
    said.lines().filter(|line| line.contains("stage gate:")).filter_map(of).collect()
}

/// Settings under which the gate logs the age of every request.
const EVERY_AGE: [&str; 4] = [
    "stages.decisions=all",
    "stages.samples=1",
    "stages.sample_ms=60 s",
    "stages.admission=proportional",
];

/// Time for which a server is halted, so that requests become old.
const HALTED: Duration = Duration::from_millis(400);

/// The time counts from arrival, even if no thread could read it or accept its connection.
pub(crate) fn an_age_begins_when_the_request_came(variant: &Variant) {
    let server = Launch::new(variant, common()).sets(&EVERY_AGE).start();
    let pid = worker(&server);
    let mut old = server.connect();
    old.get("/small.txt").expect(200);
    soon(|| ages_ms(&server).len() == 1);
    halt(pid);
    let mut both = [old, server.connect()];
    send_all(&mut both, get("/small.txt"));
    thread::sleep(HALTED);
    kill(pid, Signal::CONT);
    answer_all(&mut both, 200);
    let ages_ms = comes_to(|| ages_ms(&server), |ages| ages.len() >= 2);
    // The new age counts for three tenths of the reported one.
    let new_ms = (ages_ms[1] - 0.7 * ages_ms[0]) / 0.3;
    assert!(ages_ms[0] < 300.0 && new_ms > 350.0, "{ages_ms:?}");
}

/// A request whose file has to be tried again has not been served, however soon that is known. One
/// whose content is to follow has, at its age: it is the first in the log.
pub(crate) fn what_is_tried_again_is_not_served(variant: &Variant) {
    let site = Site::with(&[("leased.txt", "mine")]);
    let server = Launch::new(variant, &site.root()).sets(&EVERY_AGE).start();
    let pid = worker(&server);
    let lease = site.lease("leased.txt");
    let mut client = server.waiting_client("/leased.txt", "there is something to wait for");
    drop(lease);
    client.answer("GET").expect(200).has(b"mine");
    halt(pid);
    let uploads = request("GET", "/leased.txt", &[("Content-Length", "10")]);
    client.send([&uploads[..], b"12345"].concat());
    thread::sleep(HALTED);
    kill(pid, Signal::CONT);
    let ages_ms = comes_to(|| ages_ms(&server), |ages| !ages.is_empty());
    assert!(ages_ms[0] > 350.0, "{ages_ms:?}");
}

/// Several ranges of a file that is opened are encoded by one stage, and those of one in memory by
/// another. Even where one thread serves both, no two responses have the same boundary.
pub(crate) fn no_boundary_comes_twice(variant: &Variant) {
    let server = Launch::new(variant, common()).set("seda.pool_min=1").start();
    let mut client = server.connect();
    let ranges = [("Range", "bytes=0-1,2000-2001")];
    let mut types = BTreeSet::new();
    for _ in 0..4 {
        let answer = client.ask("GET", "/size-4096.bin", &ranges).expect(206);
        types.insert(answer.must("Content-Type").to_owned());
    }
    assert!(types.iter().all(|it| it.starts_with("multipart/byteranges; boundary=")), "{types:?}");
    assert_eq!(types.len(), 4, "{types:?}");
}

pub(crate) fn within_the_bounds_nobody_is_turned_away(variant: &Variant) {
    let server = start(variant);
    let mut clients = server.clients(200);
    burst(&mut clients, "/size-4096.bin");
    assert_eq!(server.count("stage_refused"), 0);
    let parse = of_role(&server.top(), "parse", "queue_len_max");
    assert!((1..=200).contains(&parse), "{parse} waited");
}
