//! A lab killed at any moment of a run in an environment leaves nothing, and its run continues:
//! SIGKILL, SIGINT and SIGTERM at 20 moments.
//!
//! A program of its own: it compares settings of the machine, which other runs change too.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]

use regatta_lab_core::env::list;
use regatta_testkit::folder::Folder;
use regatta_testkit::skips::skip;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of times that a lab is killed.
const KILLS: usize = 20;
/// Most runs, as some end before their moment: more would not end the test.
const TRIES_MAX: usize = 8 * KILLS;
const SEED: u64 = 2_007;
/// EPERM, EACCES, ENODEV, EROFS and ENOSYS in the reasons of a trial: a container may refuse what
/// looks allowed.
const REFUSALS: [&str; 8] = [
    "(os error 1)",
    "(os error 13)",
    "(os error 19)",
    "(os error 30)",
    "(os error 38)",
    "Operation not permitted",
    "Permission denied",
    "Read-only file system",
];

/// A separate directory, whose path also marks our processes: they inherit it as a variable of
/// their environment.
struct Place(Folder);

impl Place {
    fn new() -> Self {
        let path = Folder::new("killed");
        fs::create_dir(path.join("site")).unwrap();
        fs::write(path.join("site/index.html"), [b'x'; 100_000]).unwrap();
        for open in [&*path, &path.join("site")] {
            fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let text = format!(
            r#"experiment = {{ name = "killed", question = "?", expect = "!" }}
targets.sped = {{ program = "regatta" }}
workload.root = "{}/site"
workload.target = "/index.html"
workload.loop = "open"
workload.rate = 200
workload.connections = 2
measure = {{ warm_s = 0.1, window_s = 0.5, blocks = 1 }}
guards = {{ lag_p99_ms_max = 1e6, client_busy_max = 1, foreign_max = 1, steal_max = 1 }}
[environment]
memory = "64MiB"
pages = "warm"
accounting = true
[environment.network]
layout = "pair"
[environment.disk]
seek_ms = 0.5
read_ahead_kb = 64
"#,
            path.display()
        );
        fs::write(path.join("killed.toml"), text).unwrap();
        Self(path)
    }

    fn lab(&self, out: &Path, more: &[&str]) -> Command {
        // The lab finds the server itself: this makes sure that it is there and not outdated.
        regatta_testkit::programs::regatta();
        let mut command = Command::new(env!("CARGO_BIN_EXE_regatta-lab"));
        command.args(["lab", "run"]).arg(self.0.join("killed.toml")).arg("--out").arg(out);
        command.args(more).stdin(Stdio::null()).env("REGATTA_TEST", &*self.0);
        command
    }

    fn start(&self, out: &Path) -> Child {
        let quiet = || Stdio::from(fs::File::create(self.0.join("said")).unwrap());
        self.lab(out, &[]).stdout(Stdio::null()).stderr(quiet()).spawn().unwrap()
    }

    /// Leftovers on this machine of the labs with these process numbers.
    fn left_over(&self, labs: &BTreeSet<u32>) -> Vec<String> {
        let mut found = Vec::new();
        let mark = format!("REGATTA_TEST={}", self.0.display());
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let words = fs::read(entry.path().join("environ")).unwrap_or_default();
            if words.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()) {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                found.push(format!("process {}: {line}", entry.file_name().display()));
            }
        }
        let listed = list();
        let ours = listed.iter().filter(|entry| labs.contains(&entry.asker));
        found.extend(ours.map(|entry| format!("ledger {}", entry.id)));
        let ids: Vec<&str> = listed.iter().map(|entry| entry.id.as_str()).collect();
        // An environment of another user has a ledger while it has anything.
        let is_orphan = |name: &str| name.starts_with("regatta-") && !ids.contains(&name);
        for hierarchy in ["unified", "memory", "cpu", "pids", "."] {
            let root = Path::new("/sys/fs/cgroup").join(hierarchy);
            for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
                if is_orphan(&entry.file_name().to_string_lossy()) {
                    found.push(format!("group {}", entry.path().display()));
                }
            }
        }
        for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let file = entry.path().join("loop/backing_file");
            let file = fs::read_to_string(file).unwrap_or_default();
            let name = file.trim().rsplit('/').next().unwrap().trim_end_matches(".ext4");
            if is_orphan(name) {
                found.push(format!("device {}: {file}", entry.path().display()));
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        found.extend(mounts.lines().filter(|l| l.contains("regatta-lab")).map(str::to_owned));
        found
    }

    /// Fails unless all leftovers vanish in time. Namespaces end with their last process.
    #[track_caller]
    fn nothing_is_left(&self, labs: &BTreeSet<u32>, when: &str) {
        let start = Instant::now();
        loop {
            let found = self.left_over(labs);
            if found.is_empty() {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "seed {SEED}, {when}: {found:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Numbers from 0 to below 1 (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        f64::from(u32::try_from((bits ^ (bits >> 31)) >> 32).unwrap()) / 2f64.powi(32)
    }
}

fn records(out: &Path) -> Vec<Value> {
    let text = fs::read_to_string(out.join("results.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Fails unless a completed run has every trial once, and nothing but results.
#[track_caller]
fn is_whole(out: &Path) {
    let made = records(out);
    let trials: Vec<u64> = made.iter().map(|record| record["trial"].as_u64().unwrap()).collect();
    assert_eq!(trials, [0, 1], "{made:?}");
    for record in &made {
        assert_eq!(record["valid"], true, "{record}");
        assert!(record["metrics"]["disk_requests_per_s"].is_number(), "{record}");
        assert!(record["metrics"]["page_cache_mib"].as_f64().unwrap() > 0.0, "{record}");
    }
    for gone in ["scratch", "disk.ext4", "disk.part"] {
        assert!(!out.join(gone).exists(), "{gone}");
    }
}

/// Waits for the end of a process; `None` if it takes longer than `limit`.
#[track_caller]
fn ended(lab: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = lab.try_wait().unwrap() {
            return Some(status);
        }
        if start.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2).min(limit));
    }
}

/// Settings of the whole machine that the runs change; `None` while another environment may have
/// changed them.
fn machine() -> Option<Vec<Option<String>>> {
    let quiet = || list().iter().all(|entry| !entry.owner.is_alive());
    let files = (0..8).map(|i| format!("/sys/block/loop{i}/queue/read_ahead_kb"));
    let files = files.chain(["/proc/sys/kernel/task_delayacct".to_owned()]);
    let found = quiet().then(|| files.map(|file| fs::read_to_string(file).ok()).collect())?;
    quiet().then_some(found)
}

/// Reason why this machine cannot run the test, if the plan has one.
fn lacking(place: &Place) -> Option<String> {
    let output = place.lab(&place.0.join("none"), &["--plan", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Unlike counters and claims, parts of the environment are necessary here.
    plan["lacking"].as_array().unwrap().first().map(Value::to_string)
}

#[test]
fn a_lab_killed_at_any_moment_leaves_nothing_and_its_run_goes_on() {
    let place = Place::new();
    if let Some(lack) = lacking(&place) {
        return skip(&lack);
    }
    let before = machine();
    let mut labs = BTreeSet::new();
    let start = Instant::now();
    let mut lab = place.start(&place.0.join("whole"));
    labs.insert(lab.id());
    // Leftovers exist while it runs, so the check can find them.
    while !place.left_over(&labs).iter().any(|what| what.starts_with("ledger")) {
        assert!(ended(&mut lab, Duration::ZERO).is_none(), "no environment was seen");
    }
    assert!(place.left_over(&labs).iter().any(|what| what.starts_with("process")));
    let status = ended(&mut lab, PATIENCE).unwrap();
    let whole = start.elapsed();
    assert_eq!(status.code(), Some(0), "{}", fs::read_to_string(place.0.join("said")).unwrap());
    let refused =
        |record: &Value| REFUSALS.iter().any(|why| record["reasons"].to_string().contains(why));
    if let Some(record) = records(&place.0.join("whole")).iter().find(|record| refused(record)) {
        return skip(&format!("needs what this machine refuses: {}", record["reasons"]));
    }
    is_whole(&place.0.join("whole"));
    place.nothing_is_left(&labs, "after a whole run");

    let mut chance = Chance(SEED);
    let (mut kills, mut runs) = (0, 0);
    for _ in 0..TRIES_MAX {
        if kills == KILLS {
            break;
        }
        // A killed run continues; a completed one is followed by another.
        let out = place.0.join(format!("run-{runs}"));
        let at = whole.mul_f64(chance.next());
        let mut lab = place.start(&out);
        labs.insert(lab.id());
        let (name, signal) =
            [("kill", Signal::KILL), ("int", Signal::INT), ("term", Signal::TERM)][kills % 3];
        let when = format!("kill {kills} ({name}) after {at:?} of {whole:?}");
        match ended(&mut lab, at) {
            Some(status) => {
                assert_eq!(status.code(), Some(0), "{when}");
                is_whole(&out);
                runs += 1;
            }
            None => {
                let pid = Pid::from_raw(i32::try_from(lab.id()).unwrap()).unwrap();
                kill_process(pid, signal).unwrap();
                assert!(ended(&mut lab, PATIENCE).is_some(), "{when}: it does not end");
                kills += 1;
            }
        }
        place.nothing_is_left(&labs, &when);
    }
    assert_eq!(kills, KILLS, "runs end too early to be killed");
    let out = place.0.join(format!("run-{runs}"));
    let output = place.lab(&out, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    is_whole(&out);
    for (before, after) in before.iter().flatten().zip(machine().iter().flatten()) {
        // A loop device that was never used before exists from now on.
        assert!(before.is_none() || before == after, "the machine's settings: {after:?}");
    }
}
