//! A whole run directory made up, its report, and what a browser says of the page.

use super::*;
use crate::experiment::Client;
use crate::report::figure::{Figure, Section};
use crate::stats::{Random, index};
use crate::trial::numbers::series;
use crate::units::{escaped, real};
use regatta_load::engine::{Fate, Hdr, Outcome, Spectrum};
use regatta_testkit::skips::skip;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

const TEXT: &str = r#"
[experiment]
name = "whole"
question = "What becomes of four servers when more is asked than they can answer?"
expect = "All but the last keep their peak."
claims = ["H-1", "H-8"]
[targets]
acceptinf = {}
accept1 = {}
"a server with quite a long name" = { program = "command", command = ["it", "--port", "{port}"] }
cm = {}
ceiling = { program = "null" }
[factors]
"workload.rate" = ["0.3x", "0.6x", "0.8x", "0.95x", "2x"]
[workload]
root = "."
loop = "partly-open"
rate = 100
timeout = "900ms"
slo = "p99<100ms,errors<1%"
[calibrate]
[measure]
blocks = 4
warm_s = 2
window_s = 8
[guards]
errors_max = 1
"#;

/// Requests per second that an arm can answer.
fn capacity(cell: &Cell) -> f64 {
    match cell.target.as_str() {
        "accept1" => 800.0,
        "cm" => 950.0,
        "ceiling" => 2_600.0,
        _ => 1_000.0,
    }
}

fn offered(cell: &Cell) -> f64 {
    crate::experiment::rate(&cell.levels["workload.rate"]).unwrap().0 * 1_000.0
}

fn good(cell: &Cell) -> f64 {
    let (offered, most) = (offered(cell), capacity(cell));
    let falls = cell.target == "cm" && offered > most;
    let lost = if falls { 0.5 * (offered - most) } else { 0.0 };
    (offered.min(most) - lost).max(0.0)
}

fn mean_ms(cell: &Cell) -> f64 {
    let load = (offered(cell) / capacity(cell)).min(0.98);
    1.0 / (1.0 - load)
}

fn numbers(cell: &Cell) -> BTreeMap<String, f64> {
    let (offered, good, mean) = (offered(cell), good(cell), mean_ms(cell));
    let errors = 1.0 - good / offered;
    named([
        ("offered_per_s", offered),
        ("good_per_s", good),
        ("good_share", good / offered),
        ("error_share", errors),
        ("mean_ms", mean),
        ("p50_ms", 0.7 * mean),
        ("p99_ms", 4.6 * mean),
        ("p999_ms", 6.9 * mean),
        ("user_s_per_reply", 1e-5),
        ("kernel_s_per_reply", 4e-5),
        ("user_instructions_per_reply", 21_000.0),
        ("kernel_instructions_per_reply", 80_000.0),
        ("connections_open_at_accept_sum", 10.0 * mean),
        ("accept_ok", 1.0),
        ("wait_events", 3.0 * mean),
        ("wait_calls", 1.0),
        ("listen_overflows_per_s", (offered - capacity(cell)).max(0.0)),
    ])
}

/// Exponential times around a mean, and how many never came back.
fn spectrum(mean_ms: f64, samples: usize, censored: u64, random: &mut Random) -> Value {
    let mut times = Hdr::coarse();
    for _ in 0..samples {
        times.record(crate::units::whole(index(1e6 * mean_ms * random.exponential())));
    }
    json!(Spectrum { times, censored, waited_ns: 900_000_000, failed: 0 })
}

/// The result of a load.
fn outcome(cell: &Cell, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let (offered, good, mean) = (offered(cell), good(cell), mean_ms(cell));
    let whole = |per_s: f64| crate::units::whole(index(8.0 * per_s));
    let late = whole(offered) - whole(good);
    let empty = || json!(Hdr::coarse());
    let class = |factor: f64, random: &mut Random| {
        json!({ "requests": whole(offered / 4.0), "good": whole(good / 4.0), "timeouts": late / 4,
            "bytes": 1_000_000, "times": spectrum(factor * mean, 500, late / 4, random) })
    };
    let classes: Vec<Value> =
        [0.5, 1.0, 2.0, 5.0].into_iter().map(|factor| class(factor, &mut random)).collect();
    let mut latency = Hdr::coarse();
    (0..1_000).for_each(|_| latency.record(crate::units::whole(index(1e6 * random.exponential()))));
    let row = |second: u64, random: &mut Random| {
        let mut per_s = |rate: f64| index(rate * (0.05 * random.normal()).exp());
        let (offered, good) = (per_s(offered), per_s(good));
        json!({ "second": second, "counts": second >= 2, "offered": offered, "good": good,
            "errors": late / 8, "bytes": 1, "p50_ns": latency.quantile(0.5),
            "p99_ns": latency.quantile(0.99), "max_ns": latency.max(), "in_flight": 12,
            "connections": 12, "sessions": 3, "lag_ns": 1_000, "cpu_ns": 300_000_000,
            "failures": { "timeout": late / 10, "refused": late / 40 },
            "spread": latency.spread() })
    };
    let rows: Vec<Value> = (0..10).map(|second| row(second, &mut random)).collect();
    let client = json!({ "requests": 1, "good": 1, "timeouts": 0, "unseen": 0, "bytes": 1 });
    let mut value = json!(Outcome::empty("http://127.0.0.1:1/"));
    let own = json!({
        "model": "partly-open", "seconds": 8.0, "fairness": 0.98, "clients": [client, client],
        "good_mbit_per_s": 1.0, "connects": 10, "bytes_received": 2_000_000_000_u64,
        "seed": seed, "offered": whole(offered), "offered_per_s": offered, "good_per_s": good,
        "fates": { "good": whole(good), "timeout": late },
        "response": spectrum(mean, 2_000, late, &mut random),
        "service": spectrum(0.8 * mean, 2_000, late, &mut random),
        "phases": { "connect": empty(), "send": empty(), "wait": empty(), "receive": empty(),
            "timeouts": [late / 2, 0, late - late / 2, 0] },
        "lag": empty(), "classes": classes, "rows": rows,
        "sessions": { "arrived": 900, "done": 850, "failed": late.min(50), "cut": 0, "most": 40,
            "lifetime": latency, "failtime": latency, "lengths": [5, 10, 30, 80, 200, 400, 125] },
        "verified": whole(good), "statuses": [0, 0, whole(good), 0, 0, 0],
    });
    let all = value.as_object_mut().unwrap();
    all.extend(own.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

/// The run with all that a run directory holds.
fn whole_run() -> (Run, Folder) {
    let path = Folder::new("lab-test");
    fs::create_dir_all(path.join("outcomes")).unwrap();
    let mut run = synthetic(TEXT, &numbers);
    run.directory = path.to_path_buf();
    // Enough of them to draw everything; the others' results are gone, as they may be.
    let drawn = gathered::middles(&run);
    for record in &mut run.records {
        if drawn[&record.cell] != (record.trial, record.attempt) {
            continue;
        }
        let outcome = outcome(&record.cell, record.seed);
        record.series = series(&outcome, 10.0, &[(0.8, 0.01); 10]);
        let file = path.join(format!("outcomes/{:05}-{}.json", record.trial, record.attempt));
        fs::write(file, serde_json::to_vec(&outcome).unwrap()).unwrap();
    }
    let other = run.records.iter_mut().find(|record| record.series.is_empty()).unwrap();
    other.valid = false;
    other.reasons.push("others used the server's processors: 31 %, over 10 %".to_owned());
    (run, path)
}

#[test]
fn the_text_has_every_table_that_the_page_has() {
    let (run, folder) = whole_run();
    let report = Report::of(&run);
    let text = page::markdown(&report).unwrap();
    let mut tables = 0;
    for figure in page::figures(&report) {
        let Some(table) = figure.table else { continue };
        tables += 1;
        let title = format!("\n### {}\n", figure.title);
        assert_eq!(text.matches(&title).count(), 1, "{title}");
        let last: Vec<String> = table.rows.last().unwrap().iter().map(|c| escaped(c)).collect();
        assert!(text.contains(&format!("| {} |\n", last.join(" | "))), "{title}: {last:?}");
    }
    assert!(tables >= 3, "{tables}");
    drop(folder);
}

#[test]
fn a_whole_run_has_every_figure_with_caption_and_numbers() {
    let (run, folder) = whole_run();
    let figures = page::figures(&Report::of(&run));
    let has =
        |id: &str| figures.iter().find(|figure| figure.id == id).unwrap_or_else(|| panic!("{id}"));
    let ids = "goodput overflows latency-p50 latency-p99 latency-p999 hockey-stick forest \
               spectrum spectrum-class clocks seconds heat costs instructions open events failures \
               fairness sessions lengths beyond verified";
    for id in ids.split_whitespace() {
        let figure = has(id);
        assert!(figure.caption.len() > 60, "{id}: {}", figure.caption);
        assert!(figure.drawing.is_some() || figure.table.is_some(), "{id}");
    }
    let goodput = has("goodput");
    assert!(goodput.drawing.as_ref().unwrap()["ceiling"].as_f64().unwrap() > 1_500.0);
    assert!(goodput.caption.contains("ceiling"), "{}", goodput.caption);
    let drawing = has("latency-p99").drawing.as_ref().unwrap();
    assert_eq!(
        (drawing["level"].as_f64(), drawing["timeout"].as_f64()),
        (Some(100.0), Some(900.0))
    );
    assert!(has("beyond").caption.contains("cm keeps"), "{}", has("beyond").caption);
    assert_eq!(has("verified").table.as_ref().unwrap().rows.len(), 6 * 5);
    let sections: Vec<Section> = figures.iter().map(|figure| figure.section).collect();
    assert!(sections.is_sorted());
    for Figure { id, title, caption, .. } in &figures {
        assert!(!format!("{id}{title}{caption}").contains('{'), "{id}: {title}: {caption}");
    }
    // Wrong replies are shouted.
    let first = run.records.iter().find(|record| run.outcome(record).is_some()).unwrap();
    let mut wrong = run.outcome(first).unwrap();
    wrong.fates.count(Fate::WrongBytes);
    fs::write(run.outcome_path(first.trial, 0), serde_json::to_vec(&wrong).unwrap()).unwrap();
    let caption = Report::of(&run).verified().unwrap().caption;
    assert!(caption.starts_with("1 REPLIES WERE WRONG"), "{caption}");
    drop(folder);
}

#[test]
fn what_was_not_compared_is_not_told_as_compared() {
    let (mut run, folder) = whole_run();
    let compared = run.records.iter().filter(|record| record.cell.target != "ceiling");
    let compared = compared.filter_map(|record| run.outcome(record));
    let compared: u64 = compared.map(|outcome| outcome.verified).sum();
    let compared = crate::units::show(real(compared));
    let said = Report::of(&run).verification();
    let told = format!(
        "Compared byte by byte: {compared} of {compared} right replies; 0 replies were wrong. \
         Without ceiling, "
    );
    assert!(said.starts_with(&told), "{said}");
    run.experiment.workload.client = Client::Wrk;
    let report = Report::of(&run);
    assert!(report.verification().contains("before and after each trial"), "wrk compares nothing");
    assert!(report.lacks().iter().any(|lack| lack.contains("not wrk's")), "{:?}", report.lacks());
    run.experiment.workload.client = Client::Regatta;
    fs::remove_dir_all(folder.join("outcomes")).unwrap();
    let said = Report::of(&run).verification();
    assert!(said.contains("results are gone"), "{said}");
}

/// A report that is open, or read while it is rewritten, is either the old or the new one.
#[test]
fn a_report_is_replaced_whole() {
    let folder = Folder::new("lab-test");
    let mut run = synthetic(super::TEXT, &metrics);
    run.directory = folder.to_path_buf();
    let (paths, _) = write(&run).unwrap();
    let opened = |at: usize| folder.join(format!("opened-{at}"));
    for (at, path) in paths.iter().enumerate() {
        fs::write(path, "as it was").unwrap();
        fs::hard_link(path, opened(at)).unwrap();
    }
    write(&run).unwrap();
    for (at, path) in paths.iter().enumerate() {
        assert_eq!(fs::read_to_string(opened(at)).unwrap(), "as it was", "{}", path.display());
        assert!(fs::metadata(path).unwrap().len() > 100, "{}", path.display());
    }
    assert_eq!(fs::read_dir(&*folder).unwrap().count(), 2 * paths.len(), "and nothing else");
}

/// The browser that is installed, whether it works or not.
fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        let tried = Command::new(name).arg("--version").stderr(Stdio::null()).output();
        !tried.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    })
}

/// Draws the page in a browser without a screen; the elements that it makes of it. One that
/// crashes, hangs or prints nothing fails.
fn browse(browser: &str, page: &Path, flags: &[&str]) -> String {
    let (folder, said) = (page.with_file_name("browser"), page.with_file_name("said"));
    let ran = Command::new("timeout")
        .args(["--kill-after=5", "240", browser, "--headless=new", "--no-sandbox"])
        .args(["--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", folder.display()))
        .args(flags)
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .stderr(File::create(&said).unwrap())
        .output()
        .unwrap();
    let made = String::from_utf8_lossy(&ran.stdout).into_owned();
    let said = fs::read_to_string(said).unwrap_or_default();
    assert!(ran.status.success() && made.contains("<html"), "{browser}: {}: {said}", ran.status);
    made
}

#[test]
fn a_browser_that_is_there_must_draw() {
    let folder = Folder::new("lab-test");
    for (browser, why) in [("false", "exit status: 1"), ("true", "exit status: 0")] {
        let drawn = std::panic::catch_unwind(|| browse(browser, &folder.join("page"), &[]));
        let said = drawn.unwrap_err().downcast::<String>().unwrap();
        assert!(said.starts_with(&format!("{browser}: {why}")), "{said}");
    }
}

#[test]
fn a_browser_draws_every_figure() {
    let (run, folder) = whole_run();
    let (paths, _) = write(&run).unwrap();
    let size = fs::metadata(&paths[0]).unwrap().len();
    assert!(size < 3_000_000, "{size}");
    let Some(browser) = browser() else { return skip("needs chromium") };
    for flags in [["--window-size=1200,900", ""], ["--window-size=500,844", "--force-dark-mode"]] {
        let flags: Vec<&str> = flags.into_iter().filter(|flag| !flag.is_empty()).collect();
        let made = browse(browser, &paths[0], &flags);
        let said = made.split("data-checked=\"").nth(1).and_then(|rest| rest.split('"').next());
        assert_eq!(said, Some("ok"), "{flags:?}");
        assert!(!made.contains("data-error"), "{flags:?}");
    }
    drop(folder);
}

#[test]
fn people_can_use_a_report() {
    let (run, folder) = whole_run();
    let (paths, _) = write(&run).unwrap();
    regatta_testkit::pages::check(&[paths[0].to_str().unwrap()]);
    drop(folder);
}

/// Keeps a page to look at: `cargo test -p regatta-lab keep_a_page -- --ignored`.
#[test]
#[ignore = "leaves a page in the temporary directory, to be looked at"]
fn keep_a_page() {
    let (run, folder) = whole_run();
    let path = std::env::temp_dir().join("regatta-report.html");
    fs::copy(&write(&run).unwrap().0[0], &path).unwrap();
    drop(folder);
    assert!(run.records.len() == 120 && path.exists());
}
