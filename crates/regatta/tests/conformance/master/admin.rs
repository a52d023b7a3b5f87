//! Answers to monitors and service managers, which cannot hurt the server.
use super::*;
use crate::protection::probes_of_confined;
use regatta_sys::sandbox::landlock_version;
use regatta_testkit::certificates::{MadeCertificate, PKCS_ECDSA_P256_SHA256};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::TcpListener,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixDatagram, UnixListener, UnixStream},
    },
};

const OPENMETRICS: &str = "application/openmetrics-text";

/// A server whose admin process listens at a path.
fn serve(folder: &Folder, more: &[&str]) -> Server {
    let set = format!("admin.listen=unix:{}", folder.path("admin"));
    Server::start(
        1,
        &[&["serve", &folder.path("www"), "--listen", "127.0.0.1:0", "--set", &set], more].concat(),
    )
}

/// Asks the admin process, and returns head and body; `None` while there is none.
fn try_ask(folder: &Folder, target: &str, accept: &str) -> Option<(String, String)> {
    let mut stream = UnixStream::connect(folder.path("admin")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

fn ask(folder: &Folder, target: &str) -> (String, String) {
    try_ask(folder, target, "*/*").expect("an answer")
}

/// Waits for an answer of `/ready` with this status, and returns its body.
fn ready(folder: &Folder, status: &str) -> Value {
    let mut found = None;
    eventually(&format!("/ready is never {status}"), || {
        found = try_ask(folder, "/ready", "");
        found.as_ref().is_some_and(|(head, _)| head.starts_with(&format!("HTTP/1.1 {status} ")))
    });
    serde_json::from_str(&found.unwrap().1).unwrap()
}

/// Values of `/metrics`, by name and labels; times converted to nanoseconds.
fn metrics(folder: &Folder, accept: &str) -> BTreeMap<String, u64> {
    let (_, body) = try_ask(folder, "/metrics", accept).expect("an answer");
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
        let folder = Folder::new();
        let server = serve(&folder, &["--architecture", architecture]);
        for _ in 0..5 {
            assert!(server.get().ends_with("hello\n"));
        }
        let earlier = metrics(&folder, OPENMETRICS);
        let pid = server.pid().to_string();
        let top = run(&["top", "--once", "--interval", "0", "--json", "--pid", &pid]);
        let later = metrics(&folder, "*/*");
        assert_eq!(earlier["regatta_requests_total"], 5);
        assert_grown(&earlier, &later);
        let document: Value = serde_json::from_str(&top.stdout).unwrap();
        for (name, value) in document["total"]["counters"].as_object().unwrap() {
            let Some(first) = earlier.get(&format!("regatta_{name}_total")) else { continue };
            let (value, last) = (value.as_u64().unwrap(), later[&format!("regatta_{name}_total")]);
            // An idle worker still counts its rounds.
            assert!(*first <= value && value <= last, "{architecture}: {name} {value}");
        }
        let per_worker: u64 = later
            .iter()
            .filter(|(name, _)| name.starts_with("regatta_worker_requests_total"))
            .map(|(_, value)| value)
            .sum();
        assert_eq!(per_worker, 5, "{architecture}");
        let status: Value = serde_json::from_str(&ask(&folder, "/status?rates=0").1).unwrap();
        assert_eq!(status["total"]["counters"]["requests"], 5);
        assert_eq!(status["server"]["architecture"], architecture);
        let (_, config) = ask(&folder, "/config");
        assert!(config.contains(&format!("architecture = \"{architecture}\"")), "{config}");
        server.ends("TERM");
    }
}

pub(crate) fn what_is_killed_is_replaced_and_its_counts_stay() {
    let folder = Folder::new();
    let server = serve(&folder, &["--architecture", "sped"]);
    assert!(server.get().ends_with("hello\n"));
    assert_eq!(ready(&folder, "200")["answering"], 1);
    let earlier = metrics(&folder, OPENMETRICS);
    let before = children(server.pid());
    let [worker, admin] = before[..] else { panic!("a worker and the admin process: {before:?}") };
    for killed in [admin, worker] {
        signal(killed, "KILL");
    }
    let start = Instant::now();
    assert!(server.get().ends_with("hello\n"));
    ready(&folder, "200");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let later = metrics(&folder, OPENMETRICS);
    assert_grown(&earlier, &later);
    assert_eq!(later["regatta_requests_total"], 2);
    let after = children(server.pid());
    assert!(after.len() == 2 && after.iter().all(|pid| !before.contains(pid)), "{after:?}");
    let mode = fs::metadata(folder.path("admin")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let said = server.ends("TERM");
    let expect = format!("the admin process (process {admin}) was killed by signal 9; replaced in");
    assert!(said.contains(&expect), "{said}");
    assert!(after.into_iter().all(is_gone) && !Path::new(&folder.path("admin")).exists());
}

/// The worker has the keys of session tickets, and the admin process does not.
pub(crate) fn the_admin_process_has_no_keys() {
    let folder = Folder::new();
    let made = MadeCertificate::new(&["a.example"], 2020..2100, &PKCS_ECDSA_P256_SHA256);
    let (tls, certificate) = (folder.path("tls"), folder.path("a.pem"));
    made.write(Path::new(&certificate));
    let sets = [format!("tls.listen=unix:{tls}"), format!("tls.certificate={certificate}")];
    let server = serve(&folder, &["--architecture", "sped", "--set", &sets[0], "--set", &sets[1]]);
    assert!(server.get().ends_with("hello\n"));
    assert_eq!(ready(&folder, "200")["answering"], 1);
    let all = children(server.pid());
    let [worker, admin] = all[..] else { panic!("a worker and the admin process: {all:?}") };
    let has_keys = |pid: u32| {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        maps.contains("regatta-tickets")
    };
    assert_eq!([server.pid(), worker, admin].map(has_keys), [true, true, false]);
    server.ends("TERM");
}

/// An attacker who makes the admin process run foreign code finds its descriptors, and no file.
pub(crate) fn the_admin_process_is_confined_as_workers_are() {
    if landlock_version() == 0 {
        return skip("needs Landlock (lsm=landlock,…)");
    }
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (socket, log) = (folder.path("admin"), folder.path("error.log"));
    let mut command = Command::new(program());
    command
        .args(["serve", &folder.path("www"), "--listen", "127.0.0.1:0", "--architecture", "sped"])
        .args(["--set", &format!("admin.listen=unix:{socket}"), "--set", "server.sandbox=required"])
        .args(["--set", &format!("log.error={log}")])
        .env("REGATTA_INJECT", format!("probe_port={port}"));
    let server = Server::spawn(&mut command, 1);
    ready(&folder, "200");
    let status: Value = serde_json::from_str(&ask(&folder, "/status?rates=0").1).unwrap();
    let memory = &status["total"]["memory"];
    assert!(memory.to_string().contains(|digit| matches!(digit, '1'..='9')), "{status}");
    let worker = status["workers"][0]["pid"].as_u64().unwrap();
    let all = children(server.pid());
    let admin = all.iter().find(|pid| u64::from(**pid) != worker).expect("the admin process");
    let kernel = fs::read_to_string(format!("/proc/{admin}/status")).unwrap();
    let of = |name: &str| {
        let line = kernel.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim().to_owned()).unwrap_or_default()
    };
    assert_eq!((of("NoNewPrivs:"), of("CapPrm:")), ("1".to_owned(), "0".repeat(16)));
    let said = server.ends("TERM");
    let probes: Vec<&str> = said.lines().filter(|line| line.starts_with("probe: ")).collect();
    let expected = probes_of_confined();
    assert_eq!(probes, [expected.as_str(); 2], "the worker's and the admin process's: {said}");
}

pub(crate) fn the_socket_of_another_program_at_the_same_path_stays() {
    let folder = Folder::new();
    let server = serve(&folder, &["--architecture", "sped"]);
    ready(&folder, "200");
    fs::remove_file(folder.path("admin")).unwrap();
    let _other = UnixListener::bind(folder.path("admin")).unwrap();
    server.ends("TERM");
    UnixStream::connect(folder.path("admin")).expect("it is the other's");
}

pub(crate) fn a_socket_that_a_reload_moves_leaves_no_file() {
    let folder = Folder::new();
    let config = folder.path("regatta.toml");
    let write = |name: &str| {
        let (www, at) = (folder.path("www"), folder.path(name));
        let text = format!(
            "[server]\nroot = {www:?}\nlisten = [\"127.0.0.1:0\"]\n\
             architecture = \"sped\"\n[admin]\nlisten = \"unix:{at}\"\n"
        );
        fs::write(&config, text).unwrap();
    };
    write("first");
    let server = Server::start(1, &["serve", "--config", &config]);
    assert!(Path::new(&folder.path("first")).exists());
    write("admin");
    assert_eq!(server.reload().code, Some(0));
    assert_eq!(ready(&folder, "200")["generation"], 2);
    eventually("the file of the first is left", || !Path::new(&folder.path("first")).exists());
    server.ends("TERM");
    assert!(!Path::new(&folder.path("admin")).exists());
}

/// Each answer is good, except one in progress when the process changes, and none counts less than
/// the one before. The values of workers start again with the workers.
pub(crate) fn monitors_are_answered_through_reloads() {
    let folder = Folder::new();
    let server = serve(&folder, &["--architecture", "symped"]);
    assert!(server.get().ends_with("hello\n"));
    let of_server = || {
        let mut values = metrics(&folder, OPENMETRICS);
        values.retain(|name, _| !name.starts_with("regatta_worker_"));
        values
    };
    let mut earlier = of_server();
    for generation in 2..5 {
        let before = children(server.pid());
        server.signal("HUP");
        let (start, mut cut) = (Instant::now(), 0);
        loop {
            assert!(start.elapsed() < PATIENCE, "generation {generation} never serves");
            match try_ask(&folder, "/ready", "") {
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
        eventually("old ones are left", || before.iter().all(|pid| is_gone(*pid)));
    }
    server.ends("TERM");
    assert!(!Path::new(&folder.path("admin")).exists());
}

pub(crate) fn a_worker_that_stays_stopped_is_seen_and_replaced() {
    for architecture in ["sped", "shared-symped"] {
        let folder = Folder::new();
        let log = folder.path("error.log");
        let more = ["--architecture", architecture, "--set", "event.processes=1", "--set"];
        let server = serve(&folder, &[&more[..], &[&format!("log.error={log}")]].concat());
        assert!(server.get().ends_with("hello\n"));
        let worker = || {
            let (_, body) = ask(&folder, "/status?rates=0");
            let status: Value = serde_json::from_str(&body).unwrap();
            u32::try_from(status["workers"][0]["pid"].as_u64().unwrap()).unwrap()
        };
        let stopped = worker();
        signal(stopped, "STOP");
        let start = Instant::now();
        let seen = ready(&folder, "503");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        assert_eq!((&seen["workers"], &seen["answering"]), (&Value::from(1), &Value::from(0)));
        assert_eq!(metrics(&folder, "")["regatta_worker_up{worker=\"0\"}"], 0);
        ready(&folder, "200");
        let replaced = start.elapsed();
        assert!(replaced < Duration::from_secs(5), "{replaced:?}");
        assert!(server.get().ends_with("hello\n"), "{architecture}");
        let said = fs::read_to_string(&log).unwrap();
        assert!(said.contains("and the process is killed: another takes its place"), "{said}");
        assert!(worker() != stopped && is_gone(stopped), "{architecture}");
    }
}

pub(crate) fn an_admin_process_that_stays_stopped_is_replaced() {
    for architecture in ["sped", "shared-symped"] {
        let folder = Folder::new();
        let log = folder.path("error.log");
        let said = format!("log.error={log}");
        let server = serve(&folder, &["--architecture", architecture, "--set", &said]);
        ready(&folder, "200");
        let admin = *children(server.pid()).last().expect("it is started last");
        signal(admin, "STOP");
        eventually(architecture, || is_gone(admin));
        ready(&folder, "200");
        let said = fs::read_to_string(&log).unwrap();
        let killed = format!("the admin process (process {admin}) has not answered for ");
        assert!(said.contains(&killed), "{said}");
        assert!(server.get().ends_with("hello\n"), "{architecture}");
    }
}

pub(crate) fn the_admin_process_ends_with_a_master_that_is_killed() {
    let folder = Folder::new();
    let mut server = serve(&folder, &["--architecture", "sped"]);
    ready(&folder, "200");
    let all = children(server.pid());
    assert_eq!(all.len(), 2);
    server.child.kill().unwrap();
    eventually("they outlive their master", || all.iter().all(|pid| is_gone(*pid)));
    // Its leftovers are no obstacle.
    let _server = serve(&folder, &["--architecture", "sped"]);
    ready(&folder, "200");
}

/// Next message to the service manager, watchdog messages aside.
fn hear_other(hear: &dyn Fn() -> String) -> String {
    loop {
        let message = hear();
        if message != "WATCHDOG=1\n" {
            break message;
        }
    }
}

pub(crate) fn the_service_manager_hears_of_start_life_reloads_and_end() {
    let folder = Folder::new();
    let manager = UnixDatagram::bind(folder.path("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut bytes = [0; 256];
        let count = manager.recv(&mut bytes).unwrap();
        text(&bytes[..count]).to_owned()
    };
    let mut command = Command::new(program());
    command
        .args(["serve", &folder.path("www"), "--listen", "127.0.0.1:0", "--architecture", "sped"])
        .env("NOTIFY_SOCKET", folder.path("notify"))
        .env("WATCHDOG_USEC", "400000");
    let server = Server::spawn(&mut command, 1);
    let first_of = |other: &str| assert_eq!(hear_other(&hear), other);
    first_of("READY=1\nSTATUS=serving with 1 worker (sped), generation 1\n");
    let start = Instant::now();
    assert_eq!([hear(), hear()], ["WATCHDOG=1\n"; 2]);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    server.signal("HUP");
    let reloading = hear_other(&hear);
    let asked = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(asked.lines().next().is_some_and(|us| us.parse::<u64>().is_ok()), "{asked}");
    first_of("READY=1\nSTATUS=serving with 1 worker (sped), generation 2\n");
    // A refused reload ends in the same state.
    fs::rename(folder.path("www"), folder.path("away")).unwrap();
    server.signal("HUP");
    assert!(hear_other(&hear).starts_with("RELOADING=1\n"));
    assert!(hear_other(&hear).starts_with("READY=1\nSTATUS=serving as before"));
    server.signal("TERM");
    first_of("STOPPING=1\n");
    assert_eq!(server.end().0, Some(0));
}
