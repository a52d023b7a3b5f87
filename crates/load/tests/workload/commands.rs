//! The four commands from end to end: what they print, what they leave, and that the same seed
//! leaves the same bytes.
use regatta_load::workload::cli::{
    self, FromDirOptions, FromLogOptions, InspectOptions, NewOptions, What,
};
use regatta_load::workload::fault::{Fault, unwatched};
use regatta_load::workload::report::Questions;
use regatta_load::workload::sha256_hex;
use regatta_testkit::folder::Folder;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

fn inspect(what: What, questions: Questions, check: bool) -> Result<(u8, String), Fault> {
    let mut out = Vec::new();
    let options = InspectOptions { what, dirs: None, questions, check, json: false };
    let code = cli::inspect(&options, &unwatched, &mut out)?;
    Ok((code, String::from_utf8(out).unwrap()))
}

/// `inspect` of a preset prints these lines, with runs of spaces as one.
fn check_preset(name: &str, questions: Questions, lines: &[&str]) {
    let (code, text) = inspect(What::Preset(name.to_owned()), questions, false).unwrap();
    let text: Vec<String> =
        text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(code, 0);
    for line in lines {
        assert!(text.iter().any(|l| l.contains(line)), "{name}: no {line:?} in {text:#?}");
    }
}

#[test]
fn the_papers_sets_are_printed_to_the_byte() {
    check_preset(
        "eurosys07",
        Questions {
            requests_per_s: Some(7_790.0),
            connections_max: Some(10_000),
            cpu_s: Some(1.0 / 10_700.0),
            read_s: Some(0.01),
            off_s_per_request: Some(1.284),
            cache_bytes: Some(1_777 * 1_024_000),
            ..Questions::default()
        },
        &[
            "eurosys07: 24,480 files, 3,481,249,120 bytes (3320.0 MiB), 680 directories",
            "mean reply body 14726.92 bytes",
            "hottest file_set/dir00000 with 14.1 % of the requests",
            "time-out 15,000 ms",
            "requests/s 10000 to 30000 in its paper",
            "page cache 52 % of the files (not by load",
            "5120 680 17.6743 70.840 11.262 12.95",
            "rate at which the connection cap binds 7,788 requests/s",
            "session rate of each load generator 779.00 sessions/s",
            "disk bytes per request 587",
            "of the peak without disk 63.",
        ],
    );
    check_preset(
        "systor12",
        Questions { requests: Some(3_100_000), ..Questions::default() },
        &[
            "systor12: 23,400 files, 3,327,664,600 bytes (3173.5 MiB), 650 directories",
            "% requests 10 30 50 70 80 90 95 100",
            "MiB, in any order 0.5 1.5 8.3 12.2 20.3 94.0 126.4 3173.5",
            "MiB, whole sizes 0.6 1.8 9.2 12.4 20.6 94.9 126.6 3173.5",
            "file size, bytes 409 716 4,096 5,120 7,168 40,960 51,200 921,600",
            "distinct files asked for 21,604 files",
            "their bytes 2,286 MiB",
        ],
    );
}

/// Every file below `dir` with its hash, as one hash.
fn tree_hash(dir: &Path) -> String {
    let mut lines = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().display().to_string();
                lines.push(format!("{name} {}", sha256_hex(&fs::read(&path).unwrap())));
            }
        }
    }
    lines.sort();
    sha256_hex(lines.join("\n").as_bytes())
}

fn smoke(out: &Path) -> NewOptions {
    NewOptions { dirs: Some(2), requests: Some(2_000), ..NewOptions::new("smoke", out) }
}

#[test]
fn the_same_seed_makes_the_same_workload() {
    let scratch = Folder::new("new");
    let mut hashes = Vec::new();
    for (name, seed) in [("a", 1), ("b", 1), ("c", 2)] {
        let out = scratch.join(name);
        let options = NewOptions { seed, ..smoke(&out) };
        assert_eq!(cli::new(&options, &unwatched, &mut Vec::new()).unwrap(), 0);
        hashes.push(tree_hash(&out));
        let (code, text) = inspect(What::Path(out), Questions::default(), true).unwrap();
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("smoke: 72 files, 10,238,968 bytes"), "{text}");
        assert!(text.contains("2 with "), "{text}");
    }
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
    assert_eq!(hashes[0], GOLDEN, "the bytes of a workload are a format");
    let bare = scratch.join("a/root");
    let (_, text) = inspect(What::Path(bare.clone()), Questions::default(), true).unwrap();
    assert!(text.contains("72 files") && text.contains("2 directories"), "{text}");
    let log = scratch.join("a/logs/client-000.log");
    let (_, text) = inspect(What::Path(log), Questions::default(), false).unwrap();
    assert!(text.contains("2,000 requests in 2,000 bursts"), "{text}");
    fs::write(bare.join("file_set/dir00000/class0_0"), b"other").unwrap();
    let found = inspect(What::Path(scratch.join("a")), Questions::default(), true);
    assert!(matches!(found, Err(Fault::Damaged { files: 1, .. })), "{found:?}");
}

const GOLDEN: &str = "a97827aa5f32a6ddcefd6f32919a0fd4b27f6ffcc07f703fb5f0d82621d3a680";

#[test]
fn every_preset_is_made_and_accepted() {
    let scratch = Folder::new("presets");
    for preset in regatta_load::workload::presets::all() {
        let out = scratch.join(&preset.name);
        let mut printed = Vec::new();
        let options = NewOptions {
            requests: Some(preset.requests.min(3_000)),
            clients: Some(2),
            without_files: preset.name != "10k-forced",
            ..NewOptions::new(&preset.name, &out)
        };
        let code = cli::new(&options, &unwatched, &mut printed).unwrap();
        assert_eq!(code, 0, "{}: {}", preset.name, String::from_utf8_lossy(&printed));
        let (code, _) = inspect(What::Path(out), Questions::default(), true).unwrap();
        assert_eq!(code, 0);
    }
}

#[test]
fn bad_usage_names_every_problem() {
    let scratch = Folder::new("usage");
    let out = scratch.join("out");
    let new = |options: &NewOptions| cli::new(options, &unwatched, &mut Vec::new());
    let many = NewOptions {
        dirs: Some(1),
        load: Some(1),
        clients: Some(0),
        requests: Some(0),
        scale: Some(-1.0),
        ..NewOptions::new("smoke", &out)
    };
    let cases = [
        (NewOptions::new("none", &out), 1),
        (many, 4),
        (NewOptions { dirs: Some(0), ..smoke(&out) }, 1),
        (NewOptions { dirs: Some(5), ..NewOptions::new("onebyte", &out) }, 1),
        (NewOptions { bytes_max: 1_000, ..smoke(&out) }, 1),
        (NewOptions { out: scratch.to_path_buf(), ..smoke(&out) }, 1),
    ];
    fs::write(scratch.join("occupied"), "").unwrap();
    for (options, count) in cases {
        let Err(fault @ Fault::Usage(_)) = new(&options) else { panic!("accepted {options:?}") };
        assert_eq!(fault.exit_code(), 2);
        assert_eq!(fault.to_string().lines().count(), count, "{fault}");
    }
    let left = fs::read_dir(&*scratch).unwrap().map(|e| e.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["occupied"]);
}

#[test]
fn a_stopped_command_leaves_nothing() {
    let scratch = Folder::new("stop");
    let stop = |_| ControlFlow::Break(());
    let found = cli::new(&smoke(&scratch.join("out")), &stop, &mut Vec::new());
    assert!(matches!(found, Err(Fault::Stopped)));
    assert_eq!(fs::read_dir(&*scratch).unwrap().count(), 0);
}

#[test]
fn the_users_content_becomes_a_workload() {
    let scratch = Folder::new("from-dir");
    let root = scratch.join("site");
    fs::create_dir_all(root.join("img")).unwrap();
    for (name, bytes) in [("index.html", 5_000), ("a.css", 900), ("img/x.png", 150_000)] {
        fs::write(root.join(name), vec![b'x'; bytes]).unwrap();
    }
    for exponent in [0.0, 1.0] {
        let out = scratch.join(format!("w{exponent}"));
        let options = FromDirOptions { exponent, ..FromDirOptions::new(&root, &out) };
        let mut text = Vec::new();
        assert_eq!(cli::from_dir(&options, &unwatched, &mut text).unwrap(), 0);
        assert!(String::from_utf8(text).unwrap().contains("from-dir: 3 files, 155,900 bytes"));
        assert_eq!(inspect(What::Path(out), Questions::default(), true).unwrap().0, 0);
    }
    fs::write(root.join("a.css"), vec![b'y'; 900]).unwrap();
    let found = inspect(What::Path(scratch.join("w1")), Questions::default(), true);
    assert!(matches!(found, Err(Fault::Damaged { files: 1, .. })), "{found:?}");
}

#[test]
fn an_access_log_becomes_a_workload() {
    let scratch = Folder::new("from-log");
    let log = scratch.join("access.log");
    let mut text = String::new();
    for n in 0..3_000_u32 {
        let (client, page) = (n % 37, 1 + n * n % 50);
        let (minute, second, bytes) = (n / 60 % 60, n % 60, page * 100);
        text.push_str(&format!(
            "10.0.0.{client} - - [10/Oct/2000:13:{minute:02}:{second:02} -0700] \
             \"GET /p/{page}.html HTTP/1.1\" 200 {bytes}\n",
        ));
    }
    fs::write(&log, text).unwrap();
    let mut hashes = Vec::new();
    for name in ["a", "b"] {
        let out = scratch.join(name);
        let options = FromLogOptions { clients: 2, ..FromLogOptions::new(&log, &out) };
        let mut text = Vec::new();
        assert_eq!(cli::from_log(&options, &unwatched, &mut text).unwrap(), 0);
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("Session logs: 2 with ") && text.contains("3,000 requests"),
            "{text}"
        );
        assert_eq!(inspect(What::Path(out.clone()), Questions::default(), true).unwrap().0, 0);
        hashes.push(tree_hash(&out));
        let left = fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["files.tsv", "logs", "root", "workload.json"], "runs are removed");
    }
    assert_eq!(hashes[0], hashes[1]);
}

/// The companion of a load that runs where the files are not.
#[test]
fn a_file_is_altered_until_the_time_is_over() {
    let scratch = Folder::new("alter");
    let dir = scratch.join("w");
    let new = NewOptions { requests: Some(100), ..NewOptions::new("10k-renamed", &dir) };
    assert!(cli::new(&new, &unwatched, &mut Vec::new()).unwrap() < 2);
    let before = fs::read(dir.join("root/index.html")).unwrap();
    let mut out = Vec::new();
    let tenth = Some(Duration::from_millis(100));
    assert_eq!(cli::alter(&dir, None, tenth, &unwatched, &mut out).unwrap(), 0);
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("renamed@10ms: ") && text.contains(" versions, "), "{text}");
    let after = fs::read(dir.join("root/index.html")).unwrap();
    assert!(after.len() == before.len() && after != before);
    // Ctrl-C is its ordinary end.
    let stopped = |_: regatta_load::workload::fault::Progress| ControlFlow::Break(());
    assert_eq!(cli::alter(&dir, None, None, &stopped, &mut Vec::new()).unwrap(), 0);
    let smoke = scratch.join("smoke");
    let new =
        NewOptions { requests: Some(100), without_files: true, ..NewOptions::new("smoke", &smoke) };
    assert!(cli::new(&new, &unwatched, &mut Vec::new()).unwrap() < 2);
    let refused = cli::alter(&smoke, None, tenth, &unwatched, &mut Vec::new()).unwrap_err();
    assert!(refused.to_string().contains("--way renamed@10ms"), "{refused}");
}
