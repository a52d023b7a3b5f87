//! Reports of runs that are made up: complete, offline, small, and the same every time.

pub(crate) mod profiled;
mod whole;

use super::*;
use crate::analysis::tests::{named, synthetic};
use crate::best::BestOptions;
use crate::env::spec::IN_PROCESS;
use crate::folder::Folder;
use crate::journal::write_json;
use crate::race::space::Means;
use crate::race::{self, Decision, Settled, Site, Verified};
use std::collections::BTreeMap;

const TEXT: &str = r#"
experiment.name = "made-up"
experiment.question = "Is <b> | faster?"
experiment.expect = "</script> no"
experiment.claims = ["H-1", "H-2"]
targets = { a = {}, "b </script>" = {} }
workload = { root = ".", loop = "open" }
calibrate = {}
measure = { blocks = 6 }
[factors]
"workload.rate" = ["0.5x", "1.5x"]
"#;

fn metrics(cell: &Cell) -> BTreeMap<String, f64> {
    let rate: f64 = if cell.levels["workload.rate"] == "0.5x" { 500.0 } else { 1_500.0 };
    named([
        ("offered_per_s", rate),
        ("good_per_s", rate.min(1_000.0)),
        ("good_share", 1_000.0 / rate),
        ("p50_ms", 1.0),
        ("p99_ms", 4.0),
        ("user_s_per_reply", 1e-6),
        ("kernel_s_per_reply", 4e-6),
        ("wait_events", 3.0),
        ("wait_calls", 1.0),
        ("fate_good", 100.0),
    ])
}

#[test]
fn the_page_is_whole_offline_and_small() {
    let run = synthetic(TEXT, &metrics);
    let page = page::page(&Report::of(&run)).unwrap();
    assert!(page.len() < 3_000_000, "{}", page.len());
    let ours = page.replace(regatta_load::page::ECHARTS, "");
    for outside in ["src=\"http", "href=\"http", "@import", "url(http", "fetch("] {
        assert!(!ours.contains(outside), "{outside}");
    }
    for part in ["id=\"goodput\"", "id=\"forest\"", "id=\"spectrum\"", "id=\"costs\"", "H-1"] {
        assert!(ours.contains(part), "{part}");
    }
    assert!(!ours.contains("id=\"seconds\""), "there are no seconds, so there is no figure");
    // Words of the experiment's author are text, not HTML.
    assert_eq!(ours.matches("</script>").count(), 3, "the page's own");
    assert!(ours.contains("Is &lt;b&gt; | faster?"));
    assert_eq!(page, page::page(&Report::of(&run)).unwrap(), "a pure function");
}

#[test]
fn every_figure_that_the_page_draws_has_a_kind_that_it_knows() {
    let run = synthetic(TEXT, &metrics);
    let script = regatta_load::page::script(page::KINDS);
    let figures = page::figures(&Report::of(&run));
    assert!(figures.len() >= 6, "{}", figures.len());
    // Each drawing can be saved as numbers, and the page's own check asks for them.
    let kinds = script.lines().filter_map(|line| line.strip_prefix("KINDS.")?.split(' ').next());
    for kind in kinds {
        assert!(script.contains(&format!("\nTABLES.{kind} = ")), "{kind} has no table");
    }
    for figure in figures {
        let drawing = figure.drawing.expect("these have charts");
        let kind = drawing["kind"].as_str().unwrap();
        assert!(script.contains(&format!("\nKINDS.{kind} = ")), "{kind}");
        assert!(!figure.caption.is_empty());
    }
}

#[test]
fn text_forms_hold_the_same() {
    let run = synthetic(TEXT, &metrics);
    let report = Report::of(&run);
    let text = page::markdown(&report).unwrap();
    assert!(text.contains("| H-2 |") && text.contains("not measured"), "{text}");
    assert!(text.contains("1,500"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(json["analysis"]["trials"], serde_json::json!([36, 0]));
    for cell in json["analysis"]["cells"].as_array().unwrap() {
        assert!(cell["metrics"]["good_per_s"]["median"].is_number(), "{cell}");
    }
}

/// A line for each arm would join the settings to a zigzag.
#[test]
fn charts_over_the_rate_are_drawn_for_each_setting() {
    let text = format!("{TEXT}\"environment.disk.read_ahead_kb\" = [128, 0]\n");
    let with_disk = |cell: &Cell| {
        let mut all = metrics(cell);
        all.insert("disk_requests_per_s".to_owned(), 40.0);
        all
    };
    let run = synthetic(&text, &with_disk);
    let drawn = goodput::plain(&Report::of(&run));
    let of_disk = drawn.iter().filter(|figure| figure.id.starts_with("disk-requests"));
    let charts: Vec<_> = of_disk.filter_map(|figure| figure.drawing.as_ref()).collect();
    assert_eq!(charts.len(), 2);
    for chart in charts {
        for line in chart["lines"].as_array().expect("curves") {
            assert_eq!(line["points"].as_array().map(Vec::len), Some(2), "{line}");
        }
    }
}

#[test]
fn the_text_says_what_is_missing() {
    let mut run = synthetic(TEXT, &metrics);
    let text = page::markdown(&Report::of(&run)).unwrap();
    assert!(!text.contains("## What this run lacks") && !text.contains("do not count\n"), "{text}");
    assert!(text.contains("## Compared with a\n"), "{text}");
    run.manifest.lacks.push("disk: needs root".to_owned());
    run.manifest.left_out.insert("b".to_owned(), "needs nginx (apt-get install x)".to_owned());
    run.experiment.workload.verify = false;
    for record in run.records.iter_mut().filter(|record| record.cell.arm == "a (again)") {
        record.valid = false;
        record.reasons = vec!["late | by 7 ms".to_owned(), "others".to_owned()];
    }
    let text = page::markdown(&Report::of(&run)).unwrap();
    for part in [
        "## What this run lacks\n\n* PARTIAL: 0 of 6 blocks are whole\n* UNVERIFIED: ",
        "\n* not possible here: disk: needs root\n",
        "\n* left out: b, needs nginx (apt-get install x)\n",
        "\n## Trials that do not count\n",
        " | a (again) rate=0.5x | late \\| by 7 ms; others |\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Numbers with a label carry it everywhere.
    run.manifest.label = Some(IN_PROCESS.to_owned());
    let report = Report::of(&run);
    let page = page::page(&report).unwrap();
    let all = [page::markdown(&report).unwrap(), page, report.json().unwrap()];
    assert!(all.iter().all(|text| text.contains("simulated-in-process")));
    assert!(report.claims.iter().all(|one| one.why.starts_with("simulated-in-process")));
    // A single arm has nothing to compare with.
    let alone = TEXT.replace(", \"b </script>\" = {}", "");
    let alone = alone.replace("blocks = 6", "blocks = 6, again = false");
    let text = page::markdown(&Report::of(&synthetic(&alone, &metrics))).unwrap();
    assert!(!text.contains("## Compared with"), "{text}");
}

/// A race compares the replies of its advice alone, in a run of its own.
#[test]
fn an_advice_whose_replies_were_compared_is_not_unverified() {
    let folder = Folder::new("lab-test");
    let mut run = synthetic(TEXT, &metrics);
    run.directory = folder.to_path_buf();
    run.experiment.workload.verify = false;
    let forms = |run: &Run| {
        let report = Report::of(run);
        [page::markdown(&report), page::page(&report)].map(Result::unwrap)
    };
    assert!(forms(&run).iter().all(|text| text.contains("UNVERIFIED")));
    let options = BestOptions::new("/".as_ref());
    let all = Means { cpus: 1, memory: 1, descriptors: 20_000 };
    let settled = Settled::new(&options, "/".as_ref(), Site::default(), all, None);
    let verified = Verified { arm: "a".to_owned(), answers: 50, compared: 50, why: None };
    let decision = Decision { verified: Some(verified), ..Decision::of(Vec::new(), 0.01, 20) };
    write_json(&folder.join(race::SETTLED), &settled).unwrap();
    write_json(&folder.join(race::DECISION), &decision).unwrap();
    for text in forms(&run) {
        assert!(!text.contains("UNVERIFIED") && text.contains("Every byte of 50 replies of a"));
    }
}

#[test]
fn numbers_are_rounded_to_what_they_mean() {
    for (value, text) in [
        (0.0, "0"),
        (0.01234, "0.0123"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (1_234_567.8, "1,234,568"),
        (-1_234.0, "-1,234"),
        (f64::NAN, "–"),
    ] {
        assert_eq!(crate::units::show(value), text);
    }
}
