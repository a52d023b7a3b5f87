//! The lab from outside: runs that end, continue, and are stopped.
//!
//! A program of its own, as `lab_remote` and `loads` are. Linked into one, four tests failed on a
//! busy machine; limits of time are suspected, not proven.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]

use regatta_lab_core::claims::KNOWN;
use regatta_testkit::executables;
use regatta_testkit::folder::Folder;
use regatta_testkit::skips::skip;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The lab may not depend on the architectures, and has to know which names are variants.
#[test]
fn the_lab_knows_the_variants() {
    let axes = |name: &str| {
        let found = regatta_arch::presets::find(name).expect("an architecture");
        let mut axes = found.axes.to_vec();
        axes.sort_unstable();
        axes
    };
    for (name, variant) in &KNOWN.variants {
        let mut expected = axes(&variant.architecture);
        expected.retain(|(key, _)| !variant.sets.contains_key(*key));
        expected.extend(variant.sets.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        expected.sort_unstable();
        assert_eq!(axes(name), expected, "{name}");
    }
    let is_variant = |name: &str| KNOWN.variants.contains_key(name);
    for one in regatta_arch::presets::ARCHITECTURES {
        let blocks = one.axes.contains(&("event.send", "blocking"));
        assert_eq!(blocks, is_variant(one.name), "{}", one.name);
    }
}

/// The lab has to know the call by which each of them waits, too.
#[test]
fn the_lab_knows_the_pollers() {
    for one in regatta_arch::presets::ARCHITECTURES {
        let mut axes = one.axes.iter();
        let set = axes.find(|(key, _)| ["event.poller", "fiber.poller"].contains(key));
        let known = KNOWN.pollers.get(one.name).map(String::as_str);
        assert_eq!(known, set.map(|(_, call)| *call), "{}", one.name);
    }
}

/// Claims on user threads find them by their way to send files.
#[test]
fn the_lab_knows_the_user_threads() {
    for (name, knot) in &KNOWN.knots {
        let found = regatta_arch::presets::find(name).expect("an architecture");
        let set = |key: &str| found.axes.iter().find(|axis| axis.0 == key).map(|axis| axis.1);
        assert_eq!(set("fiber.send").unwrap_or("inline"), knot.send, "{name}");
        assert_eq!(set("fiber.helpers"), Some(&*knot.helpers.to_string()), "{name}");
    }
    assert_eq!(KNOWN.knots.len(), 3);
}

const PATIENCE: Duration = Duration::from_secs(120);
const LAB: &str = env!("CARGO_BIN_EXE_regatta-lab");

/// A separate directory, with a site that all users may read.
struct Place(Folder);

impl Place {
    fn new(name: &str) -> Self {
        let path = Folder::new(&format!("lab-{name}"));
        fs::create_dir(path.join("site")).unwrap();
        fs::write(path.join("site/index.html"), "hello\n".repeat(100)).unwrap();
        for open in [&*path, &path.join("site")] {
            fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(path)
    }

    /// Writes an experiment over the site. Its guards accept everything, so a busy machine is fine.
    fn experiment(&self, window_s: f64) -> PathBuf {
        let text = format!(
            r#"experiment = {{ name = "tiny", question = "?", expect = "!" }}
targets.sped = {{ program = "regatta" }}
targets.two.program = "regatta"
targets.two.config.server.architecture = "symped"
targets.two.config.event.processes = 2
factors."workload.connections" = [2]
workload = {{ root = "{}/site", loop = "closed" }}
measure = {{ warm_s = 0.1, window_s = {window_s}, blocks = 2 }}
[guards]
lag_p99_ms_max = 1e6
client_busy_max = 1
foreign_max = 1
steal_max = 1
errors_max = 1
"#,
            self.0.display()
        );
        let file = self.0.join("tiny.toml");
        fs::write(&file, text).unwrap();
        file
    }
}

fn lab(words: &[&Path]) -> Command {
    // The lab finds the server itself: this makes sure that it is there and not outdated.
    regatta_testkit::programs::regatta();
    let mut command = Command::new(LAB);
    command.arg("lab").args(words).stdin(Stdio::null());
    command
}

fn run(words: &[&Path]) -> Output {
    lab(words).output().unwrap()
}

#[track_caller]
fn done(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn records(out: &Path) -> Vec<Value> {
    let text = fs::read_to_string(out.join("results.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn has_wrk() -> bool {
    Command::new("wrk").arg("--version").output().is_ok_and(|said| !said.stdout.is_empty())
}

/// Leaves out the trials that were repeated because wrk was late: whether each of `cells` has one
/// that was not.
fn calm(made: &mut Vec<Value>, cells: usize) -> bool {
    let all: HashSet<String> = made.iter().map(|record| record["cell"].to_string()).collect();
    made.retain(|record| {
        record["valid"] == true || !record["reasons"].to_string().contains("the machine is busy")
    });
    all.len() < cells || made.len() >= cells
}

/// Checks that wrk's trial has all that ours has, and that claims can fail a command.
#[test]
fn wrk_makes_the_load() {
    if !has_wrk() {
        return skip("needs wrk (apt-get install wrk)");
    }
    let place = Place::new("wrk");
    let text = fs::read_to_string(place.experiment(1.0)).unwrap();
    let text = text
        .replace("loop =", "client = \"wrk\", target = \"/index.html\", loop =")
        .replace("warm_s = 0.1", "warm_s = 1")
        .replace("workload.connections\" = [2]", "workload.fields\" = [\"host\", \"cookie\"]")
        .replace("expect = \"!\"", "expect = \"!\", claims = [\"B-5\"]")
        .replace("[guards]", "[guards]\nretries = 9");
    let text = format!(
        "targets.null.program = \"null\"\n\
         targets.liar = {{ program = \"command\", command = [\"{}\", \"null\", \"--listen\", \
         \"{{host}}:{{port}}\", \"--body\", \"600\"] }}\n{}",
        LAB,
        text.replace("blocks = 2", "blocks = 1, again = false")
    );
    let (file, out) = (place.0.join("wrk.toml"), place.0.join("out"));
    fs::write(&file, text).unwrap();
    let flag = Path::new("--fail-on-claims");
    let said = done(&run(&["run".as_ref(), &file, "--out".as_ref(), &out, flag]));
    assert!(said.contains("B-5: "), "{said}");
    let made = records(&out);
    let (mut lies, mut made): (Vec<_>, Vec<_>) =
        made.into_iter().partition(|record| record["cell"]["target"] == "liar");
    if !calm(&mut made, 6) {
        return skip("needs a machine with time for wrk: it was late ten times");
    }
    let told: Vec<_> = made.iter().map(|record| (&record["cell"], &record["reasons"])).collect();
    assert_eq!(made.len(), 6, "the bare loop, sped and two, with two kinds of fields: {told:#?}");
    for record in &made {
        assert_eq!(record["valid"], true, "{record}");
        let number = |name: &str| record["metrics"][name].as_f64().unwrap();
        assert!(number("good_per_s") > 0.0 && number("mbit_per_s") > 0.0, "{record}");
        assert!(number("cpu_us_per_reply") > 0.0 && number("p50_ms") > 0.0, "{record}");
        assert!(number("client_cpu") > 0.0 && number("window_s") < 1.5, "{record}");
        if let Some(replies) = record["counters"]["replies"].as_f64() {
            let asked = number("good_per_s") * number("window_s");
            assert!((0.98..1.02).contains(&(replies / asked)), "{replies} {asked}");
        }
    }
    // The reply announces N bytes, and has others.
    let why = "/index.html is not answered as it should be: wrong-bytes";
    assert_eq!(lies.len(), 20, "ten times each");
    assert!(calm(&mut lies, 2), "{lies:?}");
    assert!(lies.iter().all(|record| record["reasons"][0] == why), "{lies:?}");
}

#[test]
fn wrk_makes_an_encrypted_load() {
    if !has_wrk() {
        return skip("needs wrk (apt-get install wrk)");
    }
    let place = Place::new("tls");
    let text = fs::read_to_string(place.experiment(1.0)).unwrap();
    let text = text
        .replace("loop =", "client = \"wrk\", target = \"/index.html\", loop =")
        .replace("loop =", "connections = 4, requests_per_connection = 1, loop =")
        .replace("warm_s = 0.1", "warm_s = 1")
        .replace("blocks = 2", "blocks = 1, again = false")
        .replace("workload.connections\" = [2]", "workload.tls\" = [\"full\", \"resumed\"]")
        .replace("[guards]", "[guards]\nretries = 9");
    let (file, out) = (place.0.join("tls.toml"), place.0.join("out"));
    fs::write(&file, text).unwrap();
    done(&run(&["run".as_ref(), &file, "--out".as_ref(), &out]));
    let mut made = records(&out);
    if !calm(&mut made, 4) {
        return skip("needs a machine with time for wrk: it was late ten times");
    }
    assert_eq!(made.len(), 4, "two servers, with full and with resumed handshakes: {made:#?}");
    for record in &made {
        assert_eq!(record["valid"], true, "{record}");
        let number = |name: &str| record["metrics"][name].as_f64().unwrap();
        assert!(number("good_per_s") > 0.0 && number("error_share") < 0.01, "{record}");
        if record["counters"]["replies"].is_number() {
            let counted = |how: &str| record["counters"][how].as_f64().unwrap_or_default();
            let full = counted("tls_handshakes_full");
            let resumed = counted("tls_handshakes_resumed");
            let resumes = record["cell"]["levels"]["workload.tls"] == "resumed";
            assert_eq!((full > resumed, resumed > full), (!resumes, resumes), "{record}");
        }
    }
}

/// Both arms and the baseline's second run at the same time, each with a third of the rate.
#[test]
fn arms_run_at_once() {
    let place = Place::new("at-once");
    let text = fs::read_to_string(place.experiment(0.5)).unwrap();
    let text = text
        .replace("loop = \"closed\"", "loop = \"open\", rate = 300")
        .replace(
            "factors.\"workload.connections\" = [2]",
            "machine = { server_cpus = \"0\", layout = \"together\" }",
        )
        .replace("blocks = 2", "blocks = 2, at_once = true");
    let (file, out) = (place.0.join("once.toml"), place.0.join("out"));
    fs::write(&file, text).unwrap();
    done(&run(&["run".as_ref(), &file, "--out".as_ref(), &out]));
    let all = records(&out);
    assert_eq!(all.len(), 6, "{all:?}");
    for set in all.chunks(3) {
        let started = set.iter().map(|record| record["started_unix_ms"].as_u64().unwrap());
        let apart_ms = started.clone().max().unwrap() - started.min().unwrap();
        assert!(apart_ms < 500, "a trial takes longer than {apart_ms} ms");
        for record in set {
            assert_eq!(record["valid"], true, "{record}");
            let offered = record["metrics"]["offered_per_s"].as_f64().unwrap();
            assert!((40.0..180.0).contains(&offered), "{offered} of 100");
            assert!(record["metrics"]["good_per_s"].as_f64() > Some(0.0), "{record}");
        }
    }
}

/// The server is another program: the lab must find it, in the same version.
#[test]
fn a_lab_without_its_server_says_how_to_get_it() {
    let place = Place::new("alone");
    let file = place.experiment(0.5);
    executables::copy(LAB.as_ref(), &place.0.join("regatta-lab"));
    let plan = |more: &[&str]| {
        let mut command = Command::new(place.0.join("regatta-lab"));
        command.args(["lab", "run", "--plan"]).arg(&file).args(more).env("PATH", "/none");
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = plan(&[]);
    assert!(code == Some(2) && said.contains("cargo build --release -p regatta"), "{said}");
    executables::script(&place.0.join("regatta"), "echo regatta 99.0");
    let (code, said) = plan(&[]);
    assert!(code == Some(2) && said.contains("99.0") && said.contains("--any-version"), "{said}");
    assert_eq!(plan(&["--any-version"]).0, Some(0));
}

#[test]
fn a_run_is_made_and_goes_on_where_it_was() {
    let place = Place::new("whole");
    let (file, out) = (place.experiment(0.5), place.0.join("out"));
    let words: [&Path; 4] = ["run".as_ref(), &file, "--out".as_ref(), &out];
    done(&run(&words));
    let made = records(&out);
    assert_eq!(made.len(), 6, "sped, sped again and two, twice");
    for record in &made {
        assert_eq!(record["valid"], true, "{record}");
        assert!(record["metrics"]["good_per_s"].as_f64().unwrap() > 0.0, "{record}");
        assert!(record["counters"]["replies"].is_number(), "{record}");
        for name in record["metrics"].as_object().unwrap().keys() {
            let is_metric = regatta_lab_core::experiment::is_metric(name);
            assert!(is_metric, "experiments cannot ask for {name}");
        }
        assert_eq!(record["cell"]["levels"]["workload.connections"], "2");
        let rules = record["rules"].as_array().unwrap();
        let papers: Vec<&Value> = rules.iter().map(|ruled| &ruled["paper"]).collect();
        assert_eq!(papers, ["eurosys07", "systor12"], "{record}");
        assert_eq!(record["metrics"]["unverified_share"], 0.0, "{record}");
    }
    // On a busy machine a load may be over before its server's counters are read.
    let counted = |record: &Value| record["counters"]["replies"].as_f64() > Some(0.0);
    assert!(made.iter().any(counted), "not one server's replies were counted");
    assert!(!out.join("scratch").exists(), "nothing is left but results");
    // A crash in the middle of the last line: only that trial is repeated.
    let text = fs::read_to_string(out.join("results.jsonl")).unwrap();
    fs::write(out.join("results.jsonl"), &text[..text.len() - 40]).unwrap();
    done(&run(&words));
    let again = records(&out);
    assert_eq!(again[..5], made[..5]);
    assert_eq!(again[5]["trial"], made[5]["trial"]);
    // Compared with itself, it has no differences; compared with a run without trials, no rows.
    let compare = |after: &Path| run(&["compare".as_ref(), &out, after]);
    let said = done(&compare(&out));
    assert!(said.contains("| sped connections=2 |") && said.contains("too few trials"), "{said}");
    let json = |words: &[&Path]| -> Value {
        let words: Vec<&Path> = words.iter().copied().chain([Path::new("--json")]).collect();
        serde_json::from_str(&done(&run(&words))).unwrap()
    };
    let compared = json(&["compare".as_ref(), &out, &out]);
    assert_eq!(compared["asked"], serde_json::json!([]));
    assert!(compared["rows"].as_array().unwrap().iter().all(|row| row["ratio"] == 1.0));
    let reported = json(&["report".as_ref(), &out]);
    assert_eq!(reported["analysis"]["trials"], serde_json::json!([6, 0]));
    assert_eq!(json(&words), reported, "nothing is left to do");
    let bare = place.0.join("bare");
    fs::create_dir(&bare).unwrap();
    for name in ["experiment.toml", "manifest.json"] {
        fs::copy(out.join(name), bare.join(name)).unwrap();
    }
    let failed = compare(&bare);
    let said = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("no cell in common") && said.contains("template-builds"), "{said}");
    // Another experiment does not continue it.
    let other = run(&["run".as_ref(), &place.experiment(0.6), "--out".as_ref(), &out]);
    assert_eq!(other.status.code(), Some(1));
}

/// Uses a claim that most machines decide: of equal arms none peaks at 0.9 of the other.
#[test]
fn a_run_grows_until_its_claims_are_decided_or_the_time_is_over() {
    let place = Place::new("grown");
    let file = place.experiment(0.5);
    let text = fs::read_to_string(&file).unwrap();
    let text =
        text.replace("targets.sped =", "targets.inf =").replace("targets.two", "targets.one");
    let text = text
        .replace(r#"program = "regatta" }"#, r#"program = "regatta", config = {ACCEPTINF} }"#)
        .replace("{ACCEPTINF}", r#"{ server.architecture = "acceptinf" }"#)
        .replace(r#""symped""#, r#""accept1""#)
        .replace("targets.one.config.event.processes = 2\n", "")
        .replace(r#"loop = "closed""#, r#"loop = "open", rate = 300"#);
    let row = "[[claim]]\nid = \"slower\"\nsays = \"Accepting one at a time is slower\"\n\
               asks = [{ peak = [\"one\", \"inf\"], is = \"0.6..0.9\" }]\n";
    fs::write(&file, format!("{text}\n{row}")).unwrap();
    let out = place.0.join("out");
    let grow = |budget: &str| {
        let words: [&Path; 4] = ["run".as_ref(), &file, "--out".as_ref(), &out];
        let mut command = lab(&words);
        command.args(["--json", "--until-decided", "--budget", budget]);
        command.output().unwrap()
    };
    let looks = || -> Vec<u64> {
        let text = fs::read_to_string(out.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_str(&text).unwrap();
        let looks = manifest["looks"].as_array().cloned().unwrap_or_default();
        looks.iter().map(|look| look.as_u64().unwrap()).collect()
    };
    // No time at all: one block, without a look.
    done(&grow("1ms"));
    assert_eq!((records(&out).len(), looks()), (3, vec![]));
    // An ordinary run makes the blocks of the file, and growing continues from there.
    let words: [&Path; 4] = ["run".as_ref(), &file, "--out".as_ref(), &out];
    done(&run(&words));
    assert_eq!((records(&out).len(), looks()), (6, vec![]));
    let said: Value = serde_json::from_str(&done(&grow("40s"))).unwrap();
    let (made, looked) = (records(&out), looks());
    assert_eq!(looked[0], 4, "fewer blocks decide nothing");
    let last = made.iter().map(|record| record["block"].as_u64().unwrap() + 1).max();
    assert_eq!(last, looked.last().copied(), "the last look is at all there is");
    assert_eq!(said["growth"]["looks"], serde_json::json!(looked));
    let claim = &said["claims"][0];
    match claim["verdict"].as_str().unwrap() {
        "cannot-tell" => assert_eq!(said["growth"]["open"][0][0], "slower", "{said}"),
        _ => assert_eq!(claim["decided_after"].as_u64(), last, "{said}"),
    }
    // A report has the same claims, and an ordinary run has nothing to do.
    let reported = run(&["report".as_ref(), &out, "--json".as_ref()]);
    assert_eq!(serde_json::from_str::<Value>(&done(&reported)).unwrap()["claims"], said["claims"]);
    done(&run(&words));
    assert_eq!((records(&out).len(), looks()), (made.len(), looked));
    // A run without a claim does not grow.
    fs::write(&file, &text).unwrap();
    let other = place.0.join("other");
    let words: [&Path; 5] =
        ["run".as_ref(), &file, "--out".as_ref(), &other, "--until-decided".as_ref()];
    let refused = run(&words);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("names no claim"));
}

#[test]
fn each_block_can_have_a_calibration_of_its_own() {
    let place = Place::new("units");
    let file = place.experiment(0.5);
    let text = fs::read_to_string(&file).unwrap();
    let calibrate =
        r#"calibrate = { target = "sped", seconds = 0.5, tries = 1, each_block = true }"#;
    let text = text.replace(r#"loop = "closed" }"#, r#"loop = "open", rate = "0.05x" }"#);
    let text = text.replace("[guards]", &format!("{calibrate}\n[guards]"));
    let text = text.replace(r#"factors."workload.connections" = [2]"#, "");
    fs::write(&file, text).unwrap();
    let out = place.0.join("out");
    let words: [&Path; 4] = ["run".as_ref(), &file, "--out".as_ref(), &out];
    let units = || -> Value {
        done(&run(&words));
        let text = fs::read_to_string(out.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(manifest["unit"], manifest["units"]["0"], "the first block's is the run's");
        manifest["units"].clone()
    };
    let made = units();
    assert_eq!(made.as_object().map(serde_json::Map::len), Some(2), "{made}");
    for record in records(&out) {
        let unit = made[record["block"].to_string()].as_f64().unwrap();
        let offered = record["metrics"]["offered_per_s"].as_f64().unwrap();
        // Arrivals of half a second are few.
        assert!((0.5..2.0).contains(&(offered / (0.05 * unit))), "{offered} of {unit}: {record}");
    }
    assert_eq!(units(), made, "going on keeps them");
}

#[test]
fn a_saturation_search_goes_on_where_it_was() {
    let place = Place::new("knee");
    let file = place.experiment(0.5);
    // A level that always holds: four steps up, and no knee. The rates are far below any limit.
    let text = fs::read_to_string(&file).unwrap();
    let text =
        text.lines()
            .filter(|line| !line.starts_with("factors"))
            .map(|line| match line {
                line if line.starts_with("workload") => line
                    .replace(r#"loop = "closed""#, r#"loop = "open", rate = 20, slo = "p50<60s""#),
                line if line.starts_with("measure") => {
                    let knee = "knee = { trials_max = 4, overload = [] }";
                    format!("{}\n{knee}", line.replace("blocks = 2", r#"mode = "knee""#))
                }
                line => line.to_owned(),
            })
            .collect::<Vec<String>>()
            .join("\n");
    fs::write(&file, text).unwrap();
    let out = place.0.join("out");
    let words: [&Path; 4] = ["run".as_ref(), &file, "--out".as_ref(), &out];
    let said = done(&run(&words));
    assert!(said.contains("sped (again): "), "{said}");
    let made = records(&out);
    assert!(made.len() >= 12, "three arms, four probes: {}", made.len());
    assert!(made.iter().all(|record| record["probe"]["rate"].as_f64().unwrap() >= 20.0));
    let knees = fs::read_to_string(out.join("knees.jsonl")).unwrap();
    assert_eq!(knees.lines().count(), 3);
    for line in knees.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert!(row["knee"]["tried"].as_array().unwrap().len() >= 4, "{row}");
    }
    // A line that a crash cut short is repeated, and the search ends as before.
    let text = fs::read_to_string(out.join("results.jsonl")).unwrap();
    fs::write(out.join("results.jsonl"), &text[..text.len() - 40]).unwrap();
    done(&run(&words));
    assert_eq!(records(&out).len(), made.len());
}

#[test]
fn a_race_ends_with_a_configuration_that_the_server_takes() {
    let place = Place::new("best");
    for number in 0..12 {
        let path = place.0.join(format!("site/{number}.bin"));
        fs::write(&path, vec![7; 500 << number]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let (site, out) = (place.0.join("site"), place.0.join("out"));
    let mut words: Vec<&Path> = vec!["best".as_ref(), &site, "--out".as_ref(), &out];
    words.extend(["--budget", "5s", "--window", "500ms", "--foreign-max", "1"].map(Path::new));
    let said = done(&run(&words));
    let file = out.join("best.toml");
    assert_eq!(fs::read_to_string(&file).unwrap(), said);
    let check = Command::new(regatta_testkit::programs::regatta())
        .args(["check".as_ref(), "--config".as_ref(), file.as_os_str()])
        .output()
        .unwrap();
    done(&check);
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let decision: Value = serde_json::from_str(&read("decision.json")).unwrap();
    assert!(decision["blocks"].as_u64().unwrap() >= 1, "{decision}");
    assert!(said.contains("Keep the default: ") && decision["advice"].is_null(), "{said}");
    let rungs: Vec<Value> =
        read("race.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rungs.last().unwrap()["phase"], "final");
    let made = records(&out);
    for arm in ["default", "default (again)"] {
        assert!(made.iter().any(|record| record["cell"]["arm"] == arm), "{arm}");
    }
    // Each trial's whole result is there, so the page has its percentiles and its comparison.
    for record in &made {
        let (trial, attempt) = (&record["trial"], &record["attempt"]);
        let name = format!("outcomes/{:05}-{attempt}.json", trial.as_u64().unwrap());
        assert!(out.join(&name).exists(), "{name}");
    }
    let verified = &decision["verified"];
    assert!(verified["compared"].as_u64().unwrap() > 0, "{verified}");
    assert_eq!(verified["compared"], verified["answers"]);
    let page = read("report.html");
    for part in ["id=\"left\"", "id=\"verified\"", "was compared with the files"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("UNVERIFIED"), "what was advised was compared");
    assert!(!out.join("workload").exists() && !out.join("scratch").exists());
    // Everything is recorded: the same command makes no further trial.
    words.push("--json".as_ref());
    let told: Value = serde_json::from_str(&done(&run(&words))).unwrap();
    assert_eq!(records(&out), made);
    assert_eq!(told["configuration"].as_str(), Some(&*read("best.toml")));
    assert_eq!(told["decision"]["advice"], decision["advice"]);
    let output = run(&["best".as_ref(), Path::new("/dev/null"), "--out".as_ref(), &out]);
    assert_eq!(output.status.code(), Some(2), "not a directory");
}

/// Whether perf can sample another process here.
fn perf_works(folder: &Path) -> bool {
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-F", "99", "-g", "-o"]).arg(folder.join("try.data"));
    let tried = perf.args(["--", "true"]).stdin(Stdio::null()).output();
    tried.is_ok_and(|output| output.status.success())
}

#[test]
fn each_arm_is_profiled_once_beside_what_counts() {
    let place = Place::new("profile");
    let file = place.experiment(1.0);
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("blocks = 2", "blocks = 1, profile = true");
    let text = text.replace(r#"loop = "closed""#, r#"loop = "open", rate = 2000"#);
    fs::write(&file, text).unwrap();
    let out = place.0.join("out");
    let words: [&Path; 4] = ["run".as_ref(), &file, "--out".as_ref(), &out];
    done(&run(&words));
    let lines = || fs::read_to_string(out.join("profiles/index.jsonl")).unwrap();
    let profiles: Vec<Value> =
        lines().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let arms: Vec<&str> = profiles.iter().map(|one| one["cell"]["arm"].as_str().unwrap()).collect();
    assert_eq!(arms, ["sped", "two"], "the baseline once");
    assert_eq!(records(&out).len(), 3, "a profile is no trial");
    for one in &profiles {
        let shares = one["categories"].as_object().unwrap();
        let sum: f64 = shares.values().map(|share| share.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{one}");
        assert!(one["metrics"]["context_switches_per_s"].is_number(), "{one}");
    }
    let sampled: Vec<&Value> = profiles.iter().filter(|one| one["source"] == "perf").collect();
    if !perf_works(&place.0) {
        skip("needs perf");
        assert!(sampled.is_empty() && !profiles[0]["notes"].as_array().unwrap().is_empty());
        return;
    }
    assert!(!sampled.is_empty(), "{profiles:?}");
    for one in &sampled {
        let read = |key: &str| fs::read_to_string(out.join(one[key].as_str().unwrap())).unwrap();
        let count = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        let folded: u64 = read("folded").lines().map(count).sum();
        assert_eq!(Some(folded), one["samples"].as_u64());
        assert!(read("flame").starts_with("<svg ") && read("flame").ends_with("</svg>\n"));
    }
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("id=\"profile-table\"") && page.contains("flame graph of"));
    if sampled.len() == 2 {
        let said = done(&run(&["flame".as_ref(), &out, "sped".as_ref(), "two".as_ref()]));
        assert!(fs::read_to_string(said.trim()).unwrap().contains("two compared with sped"));
    }
    let said = run(&["flame".as_ref(), &out, "nobody".as_ref()]);
    assert_eq!(said.status.code(), Some(2));
    // Continuing makes none again.
    let before = lines();
    done(&run(&words));
    assert_eq!(lines(), before);
}

/// The process and all its descendants.
fn family(of: u32) -> Vec<u32> {
    let parent = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        text.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let all: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let mut found = vec![of];
    let mut at = 0;
    while let Some(above) = found.get(at).copied() {
        found.extend(all.iter().filter(|pid| parent(**pid) == Some(above)));
        at += 1;
    }
    found
}

fn is_gone(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |text| text.contains(") Z "))
}

#[test]
fn nothing_is_left_behind_when_it_is_told_to_stop() {
    for (name, signal) in [("int", Signal::INT), ("kill", Signal::KILL)] {
        let place = Place::new(name);
        let (file, out) = (place.experiment(60.0), place.0.join("out"));
        let mut running = lab(&["run".as_ref(), &file, "--out".as_ref(), &out])
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        // The lab, a load, and a server with at least one worker.
        let mut pids = family(running.id());
        while pids.len() < 4 && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
            pids = family(running.id());
        }
        assert!(pids.len() >= 4, "{pids:?}");
        let pid = Pid::from_raw(i32::try_from(running.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let status = running.wait().unwrap();
        assert_eq!(status.code(), (signal == Signal::INT).then_some(1));
        while !pids.iter().all(|pid| is_gone(*pid)) && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(pids.iter().all(|pid| is_gone(*pid)), "{pids:?}");
    }
}

#[test]
fn problems_are_told_at_once_and_plans_run_nothing() {
    let place = Place::new("told");
    let wrong = place.0.join("wrong.toml");
    fs::write(&wrong, "[experiment]\nname = \"/\"\n[workload]\nslo = \"x\"\n").unwrap();
    let output = run(&["run".as_ref(), &wrong]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("wrong.toml:2:8") && said.contains("wrong.toml:4:7"), "{said}");
    assert_eq!(run(&["run".as_ref(), "nosuch".as_ref()]).status.code(), Some(2));
    let file = place.experiment(5.0);
    let text = fs::read_to_string(&file).unwrap();
    // An unknown option, reported with its place, before anything runs.
    fs::write(&wrong, text.replace("event.processes", "event.procesess")).unwrap();
    let output = run(&["run".as_ref(), &wrong]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("wrong.toml:5:") && said.contains("mean event.processes?"), "{said}");
    // A missing program is reported with the plan.
    let gone = "targets.gone = { program = \"nginx\", binary = \"/nonexistent/nginx\" }";
    fs::write(&wrong, text.replace("targets.sped", &format!("{gone}\ntargets.sped"))).unwrap();
    let output = run(&["run".as_ref(), &wrong, "--plan".as_ref()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // The missing target is the first, and so the baseline.
    assert!(said.contains("gone is left out") && said.contains("would not be begun"), "{said}");
    assert_eq!(run(&["run".as_ref(), &wrong]).status.code(), Some(1));
    let plan = done(&run(&["run".as_ref(), &file, "--plan".as_ref()]));
    assert!(plan.contains("6 trials") && plan.contains("sped (again)"), "{plan}");
    let json = done(&run(&["run".as_ref(), &file, "--plan".as_ref(), "--json".as_ref()]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["trials"].as_u64(), json["refusal"].is_null()), (Some(6), true), "{json}");
    assert!(done(&run(&["list".as_ref()])).contains("quick"));
    let json = done(&run(&["list".as_ref(), "--json".as_ref()]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json.as_array().unwrap().iter().any(|one| one["name"] == "quick"), "{json}");
}

#[test]
fn what_is_measured_with_a_stand_in_for_the_disk_says_so() {
    const LABEL: &str = "simulated-in-process";
    let place = Place::new("stand-in");
    let file = place.experiment(0.5);
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("blocks = 2", "blocks = 1, again = false");
    let other = r#"targets.other = { program = "command", command = ["no", "{port}"] }"#;
    let text = text.replace("factors.", &format!("{other}\nfactors."));
    let disk = "[environment.disk]\nkind = \"in-process\"\nseek_ms = 20\nheads = 2\n";
    fs::write(&file, format!("{text}{disk}")).unwrap();
    let out = place.0.join("out");
    let output = run(&["run".as_ref(), &file, "--out".as_ref(), &out]);
    let before = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in [&format!("{LABEL}: regatta's servers simulate"), "other is left out: no disk"] {
        assert!(before.contains(part), "{part}: {before}");
    }
    assert!(done(&output).starts_with(&format!("{LABEL}: ")), "beside the answer");
    let made = records(&out);
    assert_eq!(made.len(), 2, "sped and two");
    for record in &made {
        assert_eq!(record["valid"], true, "{record}");
        let reasons = record["reasons"].as_array().unwrap();
        assert!(reasons.iter().any(|why| *why == format!("note: {LABEL}")), "{record}");
        assert!(record["metrics"]["disk_wait_s"].is_number(), "by the server's own count");
    }
    for name in ["manifest.json", "report.html", "report.md", "report.json"] {
        assert!(fs::read_to_string(out.join(name)).unwrap().contains(LABEL), "{name}");
    }
}

#[test]
fn every_copy_of_a_server_is_asked() {
    let place = Place::new("copies");
    let file = place.experiment(1.0);
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("blocks = 2", "blocks = 1, again = false").replace("[2]", "[4]");
    let copies = "event.copies = 2\ntargets.two.config.limits.connections_max = 4";
    let text = text.replace("server.architecture = \"symped\"", copies);
    let text = text.replace("event.processes = 2", "event.processes = 1");
    // Copies with a port each on the machine itself; then with an address each.
    let partition = "targets.two.config.event.partition = \"addresses\"\nfactors.";
    let addresses = text.replace("factors.", partition);
    let addresses = format!("{addresses}[environment.network]\naddresses = 2\n");
    for (name, text) in [("ports", text), ("addresses", addresses)] {
        fs::write(&file, &text).unwrap();
        let plan = done(&run(&["run".as_ref(), &file, "--plan".as_ref(), "--json".as_ref()]));
        let plan: Value = serde_json::from_str(&plan).unwrap();
        if let Some(lack) = plan["lacking"].as_array().unwrap().first() {
            skip(&format!("{name}: {lack}"));
            continue;
        }
        let refused = |lack: &&Value| lack.as_str().unwrap().contains("does not start here");
        assert_eq!(plan["lacks"].as_array().unwrap().iter().find(refused), None);
        // Each copy takes two connections: one alone would answer two of the four, and the others
        // once when the first have ended.
        let out = place.0.join(name);
        done(&run(&["run".as_ref(), &file, "--out".as_ref(), &out]));
        let made = records(&out);
        assert_eq!(made.len(), 2);
        for record in &made {
            assert_eq!(record["valid"], true, "{record}");
        }
        let two = made.iter().find(|record| record["cell"]["arm"] == "two").unwrap();
        let outcome =
            format!("outcomes/{:05}-{}.json", two["trial"].as_u64().unwrap(), two["attempt"]);
        let outcome = fs::read_to_string(out.join(outcome)).unwrap();
        let outcome: Value = serde_json::from_str(&outcome).unwrap();
        let clients = outcome["clients"].as_array().unwrap();
        let answered = clients.iter().filter(|client| client["good"].as_u64() >= Some(10));
        assert_eq!((answered.count(), clients.len()), (4, 4), "{name}: {clients:?}");
    }
}
