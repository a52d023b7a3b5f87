//! Wishes of a workload: taken up where the options leave it open, and done.

use crate::server::{Answer, Server};
use crate::{closed, load, ms, open, options, try_load};
use regatta_load::engine::{
    Fate, LoadOptions, Model, Plan, Rate, Taken, Verify, Watch, parse_alter, perform,
};
use regatta_load::workload::cli::{self, FromDirOptions, NewOptions};
use regatta_load::workload::fault::unwatched;
use regatta_testkit::folder::Folder;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A workload's directory, which goes when it is dropped.
struct Made(Folder);

impl Made {
    fn new(preset: &str, without_files: bool) -> Self {
        let made = Folder::new(preset);
        let requests = Some(200);
        let new = NewOptions { requests, without_files, ..NewOptions::new(preset, &made) };
        // 1 is a log too short for the rules of long ones.
        assert!(cli::new(&new, &unwatched, &mut Vec::new()).is_ok_and(|code| code < 2));
        Self(made)
    }

    fn options(&self, url: &str, model: Model) -> LoadOptions {
        let workload = Some(self.0.to_path_buf());
        LoadOptions { workload, progress: false, ..LoadOptions::new(url, model) }
    }
}

fn sessions(rate: Option<f64>) -> Model {
    let session_rate = rate.map(Rate::constant);
    Model::PartlyOpen { sessions: Vec::new(), session_rate, think: None }
}

fn taken(options: &LoadOptions) -> Taken {
    Plan::new(options).unwrap().taken.unwrap()
}

const URL: &str = "http://127.0.0.1:1/";

#[test]
fn what_the_options_leave_open_is_the_workloads() {
    let logs = "logs/client-000.log and 1 more";
    for (preset, model, expected) in [
        (
            "spike",
            sessions(Some(40.0)),
            "--sessions LOGS; --session-rate 10@120,40@120,10@120; --duration 360s; --timeout 3s; \
             --verify generated",
        ),
        (
            "spike",
            open(8.0),
            "--requests-from LOGS; --rate 2@120,8@120,2@120; --duration 360s; \
             --timeout 3s; --verify generated",
        ),
        (
            "idle-conns",
            sessions(Some(1.0)),
            "--sessions LOGS; --timeout 3s; --idle 1000; --verify generated",
        ),
        (
            "haboob",
            closed(7),
            "--requests-from LOGS; --think 20ms; --requests-per-connection 5; --timeout 15s; \
             --warm-up 20s; --verify generated",
        ),
        (
            "slow",
            sessions(Some(1.0)),
            "--sessions LOGS; --timeout 30s; --line 400000; --verify generated",
        ),
    ] {
        let made = Made::new(preset, true);
        let found = taken(&made.options(URL, model)).options.join("; ");
        assert_eq!(found, expected.replace("LOGS", logs), "{preset}");
    }
}

#[test]
fn options_go_first_and_what_is_not_done_is_said() {
    let made = Made::new("spike", true);
    let options = LoadOptions {
        duration: Some(ms(500)),
        timeout: Some(ms(700)),
        verify: Some(Verify::Off),
        ..made.options(URL, sessions(Some(4.0)))
    };
    let rate = Rate::ramp(1.0, 5.0, 2.0);
    let log = made.0.join("logs/client-001.log");
    let model = Model::PartlyOpen { sessions: vec![log], session_rate: Some(rate), think: None };
    let found = taken(&LoadOptions { model, ..options });
    assert_eq!((found.name.as_str(), found.options), ("spike", Vec::new()));

    let made = Made::new("disk", true);
    let found = taken(&made.options(URL, sessions(Some(1.0))));
    assert!(found.not_done[0].contains("page cache for 52 %"), "{found:?}");
    let made = Made::new("10k-altered", true);
    let off = LoadOptions { alter: Some(None), ..made.options(URL, sessions(Some(1.0))) };
    assert!(taken(&off).not_done[0].contains("--alter off"));
}

#[test]
fn what_does_not_fit_says_what_to_do() {
    let says = |options: LoadOptions, what: &str| {
        let found = Plan::new(&options).unwrap_err().join("; ");
        assert!(found.contains(what), "{found}");
    };
    let check = |preset, model, what| says(Made::new(preset, true).options(URL, model), what);
    check("haboob", sessions(None), "give --closed N, 1 to 1024");
    check("eurosys07", sessions(None), "give --session-rate");
    check("eurosys07", sessions(None), "10000 to 30000 requests/s in its paper are 1");
    check("10k-altered", sessions(Some(1.0)), "make the workload with its files");
    let alter = Some(parse_alter("renamed@5ms").unwrap());
    let made = Made::new("smoke", true);
    let bare = || LoadOptions::new(URL, open(1.0));
    let smoke = LoadOptions { alter, ..made.options(URL, open(1.0)) };
    says(smoke, "only a workload of one file");
    says(LoadOptions { alter, ..bare() }, "--workload");
    let workload = Some("/nonexistent".into());
    says(LoadOptions { workload, ..bare() }, "regatta workload new");
    let verify = Some(Verify::Directory("generate".into()));
    says(LoadOptions { verify, ..bare() }, "say off, generated, altered, hash");
    let each = |count| LoadOptions {
        requests_per_connection: Some(count),
        ..made.options(URL, sessions(Some(1.0)))
    };
    says(each(5), "for --closed and --rate");
    assert!(Plan::new(&each(0)).is_ok(), "0 is what sessions do");
    says(LoadOptions { pin: vec![0, 100_000], ..bare() }, "--pin 100000: no such processor");
    let sources = vec!["203.0.113.1".parse().unwrap()];
    says(LoadOptions { sources, ..bare() }, "--source 203.0.113.1");
}

/// Sessions at the times of a log: the load ends with the log, however long that is.
#[test]
fn a_log_with_times_is_played_to_its_end() {
    let made = Folder::new("times");
    let log = made.join("log");
    fs::write(&log, "#! at=0.1\n/a\n/b\n\n#! at=0.3\n/c\n\n").unwrap();
    let model = Model::PartlyOpen { sessions: vec![log], session_rate: None, think: None };
    let server = Server::new(|_| Answer::ok(b"x"));
    let options = options(&server.url("/"), model);
    assert_eq!(Plan::new(&options).unwrap().options.duration, None);
    let outcome = load(&options);
    assert_eq!((outcome.offered, outcome.fates.get(Fate::Good)), (3, 3), "{:?}", outcome.fates);
    assert!(outcome.seconds >= 0.3 && !outcome.interrupted);
}

#[test]
fn ways_to_alter_are_read() {
    let shown = |text: &str| parse_alter(text).map(|wanted| wanted.map(|a| a.to_string()));
    assert_eq!(shown("off"), Ok(None));
    assert_eq!(shown("renamed"), Ok(Some("renamed@10ms".to_owned())));
    assert_eq!(shown("forced@1.5s"), Ok(Some("forced@1500ms".to_owned())));
    for bad in ["", "rename", "literal@", "literal@0s", "literal@5", "forced@1us"] {
        assert!(shown(bad).is_err(), "{bad}");
    }
}

/// Idle connections are asked once each and held; those that the server closes are made again.
#[test]
fn idle_connections_are_held() {
    // The first connections are the idle ones; one of them is closed after its reply.
    let server = Server::new(|asked| match asked.conn {
        3 => Answer::ok(b"x").closing(),
        _ => Answer::ok(b"x"),
    });
    let options = options(&server.url("/"), open(100.0));
    let duration = Some(ms(500));
    let outcome = load(&LoadOptions { duration, idle: Some(20), ..options });
    let idle = outcome.idle.unwrap();
    assert_eq!(outcome.offered, 50);
    assert_eq!((idle.wanted, idle.again), (20, 1), "{idle:?}");
    assert_eq!(server.count(), 50 + 20 + 1, "each once, and the load");
}

/// A watch of the server leaves out the making of idle connections.
#[test]
fn a_load_begins_when_its_idle_connections_are_held() {
    let idle_until = Instant::now() + ms(200);
    let server = Server::new(move |asked| match asked.number {
        0..20 => Answer::ok(b"x").at(idle_until),
        _ => Answer::ok(b"x"),
    });
    let base = options(&server.url("/"), open(100.0));
    let options = LoadOptions { duration: Some(ms(200)), idle: Some(20), ..base };
    let plan = Plan::new(&options).unwrap();
    let (stop, mut asked) = (AtomicBool::new(false), Vec::new());
    let mut begin = || asked.push(server.count());
    let mut watch = Watch { stop: &stop, signals: None, begin: &mut begin, tell: &mut |_| {} };
    let outcome = perform(&plan, &mut watch).unwrap();
    assert_eq!((asked, outcome.offered), (vec![20], 20));
}

#[test]
fn idle_connections_that_cannot_be_made_are_a_problem() {
    let server = Server::new(|_| Answer::never());
    let model = open(10.0);
    let timeout = Some(ms(100));
    let options =
        LoadOptions { timeout, idle: Some(2), ..LoadOptions::new(&server.url("/"), model) };
    let problem = try_load(&options).unwrap_err();
    assert!(problem.contains("0 of 2 idle connections"), "{problem}");
}

/// A workload over a user's content: by the copy where it is, by the hashes where it is not.
#[test]
fn a_users_content_is_compared_with_its_copy_or_its_hash() {
    let made = Folder::new("content");
    let (site, dir) = (made.join("site"), made.join("w"));
    fs::create_dir_all(&site).unwrap();
    fs::write(site.join("a.txt"), "hello").unwrap();
    let from = FromDirOptions { requests: 50, ..FromDirOptions::new(&site, &dir) };
    assert!(cli::from_dir(&from, &unwatched, &mut Vec::new()).is_ok_and(|code| code < 2));
    for (body, fate) in [(&b"hello"[..], Fate::Good), (b"jello", Fate::WrongBytes)] {
        for gone in [false, true] {
            let server = Server::new(move |_| Answer::ok(body));
            let hidden = made.join("hidden");
            if gone {
                fs::rename(&site, &hidden).unwrap();
            }
            let options = options(&server.url("/"), closed(1));
            let (workload, count) = (Some(dir.clone()), Some(20));
            let outcome = load(&LoadOptions { workload, count, ..options });
            if gone {
                fs::rename(&hidden, &site).unwrap();
            }
            let verify = outcome.workload.as_ref().unwrap().options.join(" ");
            assert_eq!(verify.contains("--verify hash"), gone, "{verify}");
            assert_eq!(outcome.fates.get(fate), 20, "{:?}", outcome.fates);
        }
    }
}

fn serve_file(path: &Path, always_first: bool) -> Server {
    let (path, first) = (path.to_owned(), fs::read(path).unwrap());
    Server::new(move |_| {
        let now = fs::read(&path).unwrap();
        Answer::ok(if always_first { &first } else { &now })
    })
}

/// The file changes while it is served; a server that keeps the old one is found out.
#[test]
fn the_altered_file_is_rewritten_while_it_is_served() {
    let made = Made::new("10k-renamed", false);
    let file = made.0.join("root/index.html");
    for always_first in [false, true] {
        let server = serve_file(&file, always_first);
        let options = LoadOptions {
            duration: Some(ms(600)),
            alter: Some(parse_alter("renamed@5ms").unwrap()),
            stale_after: ms(200),
            timeout: Some(Duration::from_secs(20)),
            ..made.options(&server.url("/"), open(100.0))
        };
        let outcome = load(&options);
        let altered = outcome.altered.unwrap();
        assert!(altered.versions > 1, "{altered:?}");
        assert!(altered.versions + altered.missed >= 60, "{altered:?}");
        let (good, stale) = (outcome.fates.get(Fate::Good), outcome.fates.get(Fate::Stale));
        assert_eq!(good + stale, 60, "{:?}", outcome.fates);
        assert_eq!(stale > 0, always_first, "{:?}", outcome.fates);
    }
    let left = fs::read_dir(made.0.join("root")).unwrap();
    assert_eq!(left.count(), 1, "nothing is left beside it");
}
