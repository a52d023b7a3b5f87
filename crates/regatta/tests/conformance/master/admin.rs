//! Answers to monitors and service managers, which cannot hurt the server.
use super::*;
use crate::client::try_get;
use crate::protection::probes_of_confined;
use crate::reload::manager;
use regatta_testkit::certificates::{MadeCertificate, PKCS_ECDSA_P256_SHA256};

const OPENMETRICS: &str = "application/openmetrics-text";

/// A server whose admin process listens at a path.
fn with_admin(site: &Site, architecture: &'static str) -> Launch {
    let launch = Launch::new(&Variant::plain(architecture), &site.root());
    launch.set(format!("admin.listen={}", place(&site.beside("admin"))))
}

/// Asks the admin process, and returns head and body; `None` while there is none.
fn try_ask(site: &Site, target: &str, accept: &str) -> Option<(String, String)> {
    let stream = UnixStream::connect(site.beside("admin")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (head, body, ended) = try_get(stream, target, ("Accept", accept))?;
    ended.then(|| (head, String::from_utf8(body).unwrap()))
}

fn ask(site: &Site, target: &str) -> String {
    try_ask(site, target, "*/*").expect("an answer").1
}

/// The document that `top` and the admin process have in common.
fn status(site: &Site) -> Value {
    serde_json::from_str(&ask(site, "/status?rates=0")).unwrap()
}

/// Waits for an answer of `/ready` with this status, and returns its body.
#[track_caller]
fn ready(site: &Site, status: &str) -> Value {
    let start = format!("HTTP/1.1 {status} ");
    let is_it = |found: &(String, String)| found.0.starts_with(&start);
    let found = comes_to(|| try_ask(site, "/ready", ""), |found| found.as_ref().is_some_and(is_it));
    serde_json::from_str(&found.unwrap().1).unwrap()
}

/// Values of `/metrics`, by name and labels; times converted to nanoseconds.
fn metrics(site: &Site, accept: &str) -> BTreeMap<String, u64> {
    let (_, body) = try_ask(site, "/metrics", accept).expect("an answer");
    let values = body.lines().filter(|line| !line.starts_with('#'));
    values
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect(line);
            (name.to_owned(), value.replace('.', "").parse().expect(line))
        })
        .collect()
}

/// Fails if a counter of the earlier reading is less in the later one.
fn assert_grown(earlier: &BTreeMap<String, u64>, later: &BTreeMap<String, u64>) {
    for (name, value) in earlier {
        let grows = ["_total", "_bucket", "_count"].iter().any(|part| name.contains(part));
        assert!(!grows || later[name] >= *value, "{name}: {value} and then {}", later[name]);
    }
}

pub(crate) fn metrics_are_what_top_shows_and_only_grow() {
    for architecture in ["symped", "mt", "shared-symped"] {
        let site = site();
        let mut server = with_admin(&site, architecture).start();
        (0..5).for_each(|_| gets_index(server.connect()));
        let earlier = metrics(&site, OPENMETRICS);
        let top = server.top();
        let later = metrics(&site, "*/*");
        assert_eq!(earlier["regatta_requests_total"], 5);
        assert_grown(&earlier, &later);
        for (name, value) in top["total"]["counters"].as_object().unwrap() {
            let Some(first) = earlier.get(&format!("regatta_{name}_total")) else { continue };
            let (value, last) = (value.as_u64().unwrap(), later[&format!("regatta_{name}_total")]);
            // An idle worker still counts its rounds.
            assert!(*first <= value && value <= last, "{architecture}: {name} {value}");
        }
        let of_workers =
            later.iter().filter(|(name, _)| name.starts_with("regatta_worker_requests_total"));
        assert_eq!(of_workers.map(|(_, value)| value).sum::<u64>(), 5, "{architecture}");
        let status = status(&site);
        assert_eq!(status["total"]["counters"]["requests"], 5);
        assert_eq!(status["server"]["architecture"], architecture);
        let config = ask(&site, "/config");
        assert!(config.contains(&format!("architecture = \"{architecture}\"")), "{config}");
        assert!(server.end(Signal::TERM).success());
    }
}

/// The worker and the admin process, once the server is ready.
fn worker_and_admin(site: &Site, server: &Server) -> [u32; 2] {
    assert_eq!(ready(site, "200")["answering"], 1);
    children(server.pid()).try_into().expect("a worker and the admin process")
}

pub(crate) fn what_is_killed_is_replaced_and_its_counts_stay() {
    let site = site();
    let mut server = with_admin(&site, "sped").start();
    gets_index(server.connect());
    let before = worker_and_admin(&site, &server);
    let earlier = metrics(&site, OPENMETRICS);
    let [worker, admin] = before;
    [admin, worker].into_iter().for_each(|killed| kill(killed, Signal::KILL));
    let begin = Instant::now();
    gets_index(server.connect());
    ready(&site, "200");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    let later = metrics(&site, OPENMETRICS);
    assert_grown(&earlier, &later);
    assert_eq!(later["regatta_requests_total"], 2);
    let after = children(server.pid());
    assert!(after.len() == 2 && after.iter().all(|pid| !before.contains(pid)), "{after:?}");
    let socket = site.beside("admin");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(server.end(Signal::TERM).success());
    server
        .says(&format!("the admin process (process {admin}) was killed by signal 9; replaced in"));
    assert!(!after.into_iter().any(alive) && !socket.exists());
}

/// The worker has the keys of session tickets, and the admin process does not.
pub(crate) fn the_admin_process_has_no_keys() {
    let site = site();
    let made = MadeCertificate::new(&["a.example"], 2020..2100, &PKCS_ECDSA_P256_SHA256);
    let certificate = site.beside("a.pem");
    made.write(&certificate);
    let launch = with_admin(&site, "sped").set_path("tls.certificate", &certificate);
    let mut server = launch.set(format!("tls.listen={}", place(&site.beside("tls")))).start();
    gets_index(server.connect());
    let [worker, admin] = worker_and_admin(&site, &server);
    let maps = |pid: u32| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let has_keys = |pid: u32| maps(pid).contains("regatta-tickets");
    assert_eq!([server.pid(), worker, admin].map(has_keys), [true, true, false]);
    assert!(server.end(Signal::TERM).success());
}

/// An attacker who makes the admin process run foreign code finds its descriptors, and no file.
pub(crate) fn the_admin_process_is_confined_as_workers_are() {
    if landlock_version() == 0 {
        return skip("needs Landlock (lsm=landlock,…)");
    }
    let site = site();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let launch = with_admin(&site, "sped").set("server.sandbox=required");
    let launch = launch.set_path("log.error", &site.beside("error.log"));
    let mut server = launch.faults(format!("probe_port={port}")).start();
    let [_, admin] = worker_and_admin(&site, &server);
    let memory = &status(&site)["total"]["memory"].to_string();
    assert!(memory.contains(|digit| matches!(digit, '1'..='9')), "{memory}");
    let rights = ["NoNewPrivs", "CapPrm"].map(|field| status_of(admin, field));
    assert_eq!(rights, ["1".to_owned(), "0".repeat(16)]);
    assert!(server.end(Signal::TERM).success());
    let probes = || -> Vec<String> {
        let said = server.stderr();
        said.lines().filter(|line| line.starts_with("probe: ")).map(str::to_owned).collect()
    };
    // The worker's and the admin process's.
    assert_eq!(comes_to(probes, |probes| probes.len() >= 2), vec![probes_of_confined(); 2]);
}

pub(crate) fn the_socket_of_another_program_at_the_same_path_stays() {
    let site = site();
    let mut server = with_admin(&site, "sped").start();
    ready(&site, "200");
    fs::remove_file(site.beside("admin")).unwrap();
    let _other = UnixListener::bind(site.beside("admin")).unwrap();
    assert!(server.end(Signal::TERM).success());
    UnixStream::connect(site.beside("admin")).expect("it is the other's");
}

pub(crate) fn a_socket_that_a_reload_moves_leaves_no_file() {
    let site = site();
    let [first, admin] = ["first", "admin"].map(|name| site.beside(name));
    let write =
        |at: &Path| site.configure(format!("[admin]\nlisten = \"unix:{}\"\n", at.display()));
    let mut server = launch(&site).config(&write(&first)).start();
    assert!(first.exists());
    write(&admin);
    server.asks("reload", 0);
    assert_eq!(ready(&site, "200")["generation"], 2);
    soon(|| !first.exists());
    assert!(server.end(Signal::TERM).success());
    assert!(!admin.exists());
}

/// Each answer is good, except one in progress when the process changes, and none counts less than
/// the one before. The values of workers start again with the workers.
pub(crate) fn monitors_are_answered_through_reloads() {
    let site = site();
    let mut server = with_admin(&site, "symped").start();
    gets_index(server.connect());
    let of_server = || {
        let mut values = metrics(&site, OPENMETRICS);
        values.retain(|name, _| !name.starts_with("regatta_worker_"));
        values
    };
    let mut earlier = of_server();
    for generation in 2..5 {
        let before = children(server.pid());
        server.signal(Signal::HUP);
        let (begin, mut cut) = (Instant::now(), 0);
        loop {
            assert!(begin.elapsed() < PATIENCE, "generation {generation} never serves");
            match try_ask(&site, "/ready", "") {
                Some((head, body)) => {
                    assert!(head.starts_with("HTTP/1.1 200 "), "{head} {body}");
                    let body: Value = serde_json::from_str(&body).unwrap();
                    if body["generation"] == generation {
                        break;
                    }
                }
                None => cut += 1,
            }
        }
        assert!(cut <= 1, "{cut} answers were cut off");
        let later = of_server();
        assert_grown(&earlier, &later);
        assert_eq!(later["regatta_generation"], generation);
        earlier = later;
        soon(|| !before.iter().any(|pid| alive(*pid)));
    }
    assert!(server.end(Signal::TERM).success());
    assert!(!site.beside("admin").exists());
}

pub(crate) fn a_worker_that_stays_stopped_is_seen_and_replaced() {
    for architecture in ["sped", "shared-symped"] {
        let site = site();
        let server = with_admin(&site, architecture).set("event.processes=1").start();
        gets_index(server.connect());
        let worker =
            || u32::try_from(status(&site)["workers"][0]["pid"].as_u64().unwrap()).unwrap();
        let stopped = worker();
        kill(stopped, Signal::STOP);
        let begin = Instant::now();
        let seen = ready(&site, "503");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        assert_eq!((&seen["workers"], &seen["answering"]), (&Value::from(1), &Value::from(0)));
        assert_eq!(metrics(&site, "")["regatta_worker_up{worker=\"0\"}"], 0);
        ready(&site, "200");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        gets_index(server.connect());
        server.says("and the process is killed: another takes its place");
        assert!(worker() != stopped && !alive(stopped), "{architecture}");
    }
}

pub(crate) fn an_admin_process_that_stays_stopped_is_replaced() {
    for architecture in ["sped", "shared-symped"] {
        let site = site();
        let server = with_admin(&site, architecture).start();
        ready(&site, "200");
        let admin = *children(server.pid()).last().expect("it is started last");
        kill(admin, Signal::STOP);
        soon(|| !alive(admin));
        ready(&site, "200");
        server.says(&format!("the admin process (process {admin}) has not answered for "));
        gets_index(server.connect());
    }
}

pub(crate) fn the_admin_process_ends_with_a_master_that_is_killed() {
    let site = site();
    let server = with_admin(&site, "sped").start();
    let all = worker_and_admin(&site, &server);
    server.signal(Signal::KILL);
    soon(|| !all.into_iter().any(alive));
    // Its leftovers are no obstacle.
    let _server = with_admin(&site, "sped").start();
    ready(&site, "200");
}

pub(crate) fn the_service_manager_hears_of_start_life_reloads_and_end() {
    let site = site();
    let place = site.beside("notify");
    let hear = manager(&place);
    // Watchdog messages aside.
    let hear_other = || loop {
        let message = hear();
        if message != "WATCHDOG=1\n" {
            break message;
        }
    };
    let launch = launch(&site).env("NOTIFY_SOCKET", place.to_str().unwrap());
    let mut server = launch.env("WATCHDOG_USEC", "400000").start();
    let first_of = |other: &str| assert_eq!(hear_other(), other);
    first_of("READY=1\nSTATUS=serving with 1 worker (sped), generation 1\n");
    let begin = Instant::now();
    assert_eq!([hear(), hear()], ["WATCHDOG=1\n"; 2]);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    server.signal(Signal::HUP);
    let reloading = hear_other();
    let asked = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(asked.lines().next().is_some_and(|us| us.parse::<u64>().is_ok()), "{asked}");
    first_of("READY=1\nSTATUS=serving with 1 worker (sped), generation 2\n");
    // A refused reload ends in the same state.
    fs::rename(site.root(), site.beside("away")).unwrap();
    server.signal(Signal::HUP);
    assert!(hear_other().starts_with("RELOADING=1\n"));
    assert!(hear_other().starts_with("READY=1\nSTATUS=serving as before"));
    server.signal(Signal::TERM);
    first_of("STOPPING=1\n");
    assert!(server.exit_within(PATIENCE).is_some_and(|status| status.success()));
}
