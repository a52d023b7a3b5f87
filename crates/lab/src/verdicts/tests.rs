//! Claims over runs made up so that the answer is known.

use super::*;
use crate::analysis::tests::{named, synthetic_at};
use crate::folder::Folder;
use crate::journal::{write_archive, write_archive_below};
use crate::stats::Random;

const TEXT: &str = r#"
experiment = { name = "made-up", question = "?", expect = "!", claims = ["H-1", "H-9"] }
targets.inf.config.server.architecture = "acceptinf"
targets.one.config.server.architecture = "accept1"
workload.root = "."
measure = { blocks = 5, again = false }
[[claim]]
id = "H-1"
asks = [{ peak = ["one", "inf"], is = "0.6..0.9" }]
"#;

/// A run whose accept1 answers `ratio` of what acceptinf does, with noise by `seed`.
fn run(ratio: f64, noise: f64, seed: u32) -> Run {
    let mut run = synthetic_at(TEXT, Scale::Quick, &|cell| {
        let good = if cell.target == "one" { 1_000.0 * ratio } else { 1_000.0 };
        named([("good_per_s", good), ("wait_events", 3.0), ("wait_calls", 1.0), ("accept_ok", 1.0)])
    });
    let mut random = Random::new(u64::from(seed));
    for record in &mut run.records {
        let value = record.metrics.get_mut("good_per_s").unwrap();
        *value *= (noise * random.normal()).exp();
    }
    run.manifest.started_unix_ms += u64::from(seed) * 60_000;
    run.directory = format!("run-{seed}").into();
    run
}

fn of(verdicts: &Verdicts, id: &str) -> Claimed {
    verdicts.claims.iter().find(|one| one.judged.id == id).unwrap().clone()
}

#[test]
fn runs_of_one_question_are_one_sample() {
    let alone = of(&Verdicts::of(vec![run(0.75, 0.15, 1)], Vec::new()), "H-1");
    assert_eq!(alone.verdict_words, "cannot be told: noise");
    let [says, seen, settles] = &alone.sentences;
    assert_eq!(says, "Accept1's peak over AcceptInf's is from 0.6 to 0.9 (paper: 0.74).");
    assert!(seen.starts_with("Seen: one's peak over inf's: 0.7"), "{seen}");
    assert!(
        settles.starts_with("Too noisy: ") && settles.contains("more blocks would"),
        "{settles}"
    );
    let runs = (1..=30).map(|seed| run(0.75, 0.15, seed)).collect();
    let verdicts = Verdicts::of(runs, Vec::new());
    let pooled = of(&verdicts, "H-1");
    assert_eq!(pooled.verdict_words, "holds", "{pooled:?}");
    assert_eq!(pooled.runs, (1..=30).collect::<Vec<_>>());
    assert!(pooled.judged.why.ends_with("; 150 blocks"), "{pooled:?}");
    assert_eq!((verdicts.runs.len(), pooled.tier), (30, Some("measured")));
    let mut by_two: Vec<Run> = (1..=3).map(|seed| run(0.75, 0.15, seed)).collect();
    by_two[1].manifest.regatta_sha256 = "another".to_owned();
    let told = of(&Verdicts::of(by_two, Vec::new()), "H-1");
    assert_eq!(told.commits, ["regatta, SHA-256 ", "regatta, SHA-256 another"]);
}

#[test]
fn a_page_is_of_one_build_on_one_processor() {
    let [first, mut build, mut processor] = [1, 2, 3].map(|seed| run(0.75, 0.001, seed));
    build.manifest.regatta_sha256 = "another".to_owned();
    processor.manifest.machine.insert("processor".to_owned(), "another".to_owned());
    let (runs, others) = of_one_origin(vec![first, build, run(0.75, 0.001, 4)]);
    let names: Vec<String> = runs.iter().map(|run| run.directory.display().to_string()).collect();
    assert_eq!(names, ["run-1", "run-4"]);
    assert!(others.len() == 1 && others[0].starts_with("run-2: of another build"), "{others:?}");
    let (runs, others) = of_one_origin(runs.into_iter().chain([processor]).collect());
    assert_eq!((runs.len(), others.len()), (2, 1), "{others:?}");
}

#[test]
fn runs_that_contradict_each_other_decide_nothing() {
    let runs = vec![run(0.75, 0.001, 1), run(1.0, 0.001, 2)];
    let told = of(&Verdicts::of(runs, Vec::new()), "H-1");
    assert_eq!(told.judged.verdict, Verdict::CannotTell);
    assert!(told.sentences[2].contains("yes and another no"), "{told:?}");
}

/// The run at the larger scale comes first, although another decides: of k runs one decides by
/// chance more often than each does.
#[test]
fn the_run_that_decides_is_not_preferred() {
    let mut noisy = run(0.75, 0.15, 1);
    noisy.manifest.scale = Scale::Full;
    let told = of(&Verdicts::of(vec![noisy, run(0.75, 0.001, 2)], Vec::new()), "H-1");
    assert_eq!((told.verdict_words, told.runs), ("cannot be told: noise", vec![1]));
    assert_eq!(told.others.len(), 1);
    let other = &told.others[0];
    assert!(other.starts_with("made-up (quick) holds: Seen: one's"), "{other}");
    let mut elsewhere = run(0.75, 0.001, 3);
    elsewhere.manifest.machine.insert("processor".to_owned(), "another".to_owned());
    let told = of(&Verdicts::of(vec![run(0.75, 0.001, 2), elsewhere], Vec::new()), "H-1");
    assert_eq!((told.runs, told.others.len()), (vec![2], 1), "the later of two machines");
}

#[test]
fn one_workload_refutes_what_is_said_of_each() {
    let text = r#"
experiment = { name = "made-up", question = "?", expect = "!", claims = ["A-1"] }
targets.bio.config.server.architecture = "bio"
targets.aio.config.server.architecture = "aio"
targets.adapts.config.server.architecture = "self-adapting"
workload.root = "."
measure = { blocks = 5, again = false }
[[claim]]
id = "A-1"
asks = [{ peak = ["aio", "bio"], is = ">1" }, { peak = ["adapts", "aio"], is = ">1" }]
"#;
    let with = |workload: &str, aio: f64, minute: u64| {
        let mut run = synthetic_at(text, Scale::Quick, &|cell| {
            let good = match cell.target.as_str() {
                "bio" => 1.0,
                "aio" => aio,
                _ => 2.0 * aio,
            };
            named([("good_per_s", 1_000.0 * good)])
        });
        run.manifest.started_unix_ms += 60_000 * minute;
        run.experiment.name = workload.to_owned();
        run
    };
    let told = |runs| {
        let told = of(&Verdicts::of(runs, Vec::new()), "A-1");
        (told.verdict_words, told.runs)
    };
    let two = vec![with("cached", 0.5, 1), with("altered", 1.2, 2)];
    assert_eq!(told(two), ("fails here", vec![1]), "the later one holds");
    // A larger run with the same workload says otherwise.
    let larger = |aio: f64| {
        let mut run = with("cached", aio, 3);
        run.manifest.scale = Scale::Replica;
        run
    };
    let mended = vec![with("cached", 0.5, 1), with("altered", 1.2, 2), larger(1.2)];
    assert_eq!(told(mended), ("holds", vec![3]), "the smaller one tells less");
    let refuted = vec![with("cached", 1.2, 1), with("altered", 1.2, 2), larger(0.5)];
    assert_eq!(told(refuted), ("fails here", vec![3]));
}

#[test]
fn every_claim_says_what_would_settle_it() {
    let none = Verdicts::of(Vec::new(), vec!["x: no such file".to_owned()]);
    assert_eq!(none.claims.len(), CLAIMS.len());
    for one in &none.claims {
        if one.tier == Some("on paper") {
            assert!(one.judged.verdict == Verdict::Holds && one.runs.is_empty(), "{one:?}");
            continue;
        }
        let [says, seen, settles] = &one.sentences;
        assert!(says.contains("(paper: ") && *seen == "Seen: nothing of it yet.", "{one:?}");
        assert!(settles.starts_with("To be measured: `regatta lab run "), "{settles}");
        assert!(one.tier.is_none(), "{one:?}");
    }
    assert!(of(&none, "S-18").sentences[2].contains("4 processors for the server alone"));
    assert_eq!(of(&none, "P-2").verdict_words, "not measured");
    let mut lacks = run(0.75, 0.001, 1);
    lacks.experiment.claims = vec!["E-1".to_owned(), "S-2".to_owned()];
    lacks.manifest.lacking = vec![crate::env::Lack::of("disk", "/dev/fuse", "")];
    let lacks = Verdicts::of(vec![lacks], Vec::new());
    let told = of(&lacks, "E-1");
    assert_eq!(told.verdict_words, "cannot be told: machine");
    assert!(told.sentences[2].ends_with("disk: needs /dev/fuse."), "{told:?}");
}

#[test]
fn markdown_and_json_say_the_same() {
    let verdicts = Verdicts::of(vec![run(0.75, 0.001, 1)], vec!["y: broken | run".to_owned()]);
    let text = verdicts.markdown().unwrap();
    let json = serde_json::to_value(&verdicts).unwrap();
    let claims = json["claims"].as_array().unwrap();
    let told = claims.iter().find(|claim| claim["id"] == "H-1").unwrap();
    assert_eq!((&told["verdict"], &told["tier"]), (&json!("holds"), &json!("measured")));
    for one in claims {
        let (id, words) = (one["id"].as_str().unwrap(), one["verdict_words"].as_str().unwrap());
        assert!(text.contains(&format!("**{id}: {words}**")), "{id}");
    }
    let items = ["1. ", "* not read: y: broken"];
    assert!(items.iter().all(|item| text.lines().any(|line| line.starts_with(item))), "{text}");
    for part in [
        "2 holds",
        "Of 1 measured verdicts at 95 %, 0.1 are expected to be wrong",
        "regatta lab run made-up",
        "y: broken",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn kept_runs_make_the_same_page_again() {
    let folder = Folder::new("lab-test");
    let runs = || -> Vec<Run> { [1, 2].map(|seed| run(0.75, 0.05, seed)).into() };
    let file = folder.join("abc.jsonl.zst");
    write_archive(&runs(), &file).unwrap();
    let (kept, unread) = Run::all_below(&[file.clone(), file.clone()]);
    assert!(kept.len() == 2 && unread.is_empty(), "{unread:?}");
    let [told, again] = [runs(), kept].map(|runs| of(&Verdicts::of(runs, Vec::new()), "H-1"));
    assert_eq!(again, told);
    let fails = write_archive_below(&runs(), &file, 10).unwrap_err();
    assert!(fails.ends_with("bytes are more than 10; name fewer runs"), "{fails}");
    let (kept, _) = Run::all_below(std::slice::from_ref(&file));
    assert_eq!(kept.len(), 2, "what was kept before is still there");
    assert_eq!(std::fs::read_dir(&*folder).unwrap().count(), 1, "and nothing else");
    std::fs::write(&file, "no zstd").unwrap();
    let (none, unread) = Run::all_below(&[file]);
    assert!(none.is_empty() && unread[0].contains("no kept runs"), "{unread:?}");
    assert!(write_archive(&runs(), &folder.join("abc")).unwrap_err().contains(".jsonl.zst"));
}

#[test]
fn prices_have_a_column_and_decide_nothing() {
    let mut run = run(1.0, 0.001, 1);
    for record in &mut run.records {
        let waits = if record.cell.target == "one" { 1.0 } else { 1.0 / 7.0 };
        let rest = [("accept_ok", 1.0), ("accept_would_block", 0.136), ("connections_opened", 1.0)];
        record.counters.extend(named(rest));
        record.counters.extend(named([("replies", 1.0), ("wait_calls", waits)]));
    }
    let verdicts = Verdicts::of(vec![run], Vec::new());
    let told = of(&verdicts, "H-1");
    assert_eq!((told.verdict_words, told.tier), ("fails here", Some("measured")));
    let words = "priced: holds in 100 % of draws of [H]: peak of one over inf 0.75";
    assert_eq!(told.priced_words, words);
    assert!(
        verdicts.markdown().unwrap().contains(&format!(" | {words} | measured | fails here |"))
    );
    assert_eq!(of(&verdicts, "H-9").priced, None);
}

#[test]
fn runs_are_found_below_directories_and_copies_are_left_out() {
    let folder = Folder::new("lab-test");
    for (name, seed) in [("a", 1), ("below/b", 2), ("copy", 1)] {
        let Run { experiment, manifest, records, .. } = run(0.75, 0.001, seed);
        let mut begun = Run::begin(&folder.join(name), TEXT, experiment, manifest).unwrap();
        records.into_iter().for_each(|record| begun.add(record).unwrap());
    }
    std::fs::create_dir_all(folder.join("torn")).unwrap();
    std::fs::write(folder.join("torn/manifest.json"), "{").unwrap();
    let (a, file) = (Run::open(&folder.join("a")).unwrap(), folder.join("baseline.json"));
    a.save(&file).unwrap();
    let saved = Run::open(&file).unwrap();
    assert_eq!((saved.asked(), &saved.manifest.machine), (a.asked(), &a.manifest.machine));
    let numbers = |run: &Run| run.records.iter().map(|r| r.metrics.clone()).collect::<Vec<_>>();
    assert_eq!(numbers(&saved), numbers(&a));
    std::fs::write(&file, "{}").unwrap();
    assert!(Run::open(&file).unwrap_err().contains("a run saved as a baseline"));
    let (runs, unread) = Run::all_below(&[folder.to_path_buf(), folder.join("a")]);
    let names: Vec<_> = runs.iter().map(|run| run.directory.file_name().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(unread.len() == 1 && unread[0].contains("torn"), "{unread:?}");
    let told = of(&Verdicts::of(runs, unread), "H-1");
    assert!(told.judged.why.ends_with("; 10 blocks"), "{told:?}");
}
