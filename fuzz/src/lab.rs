//! Inputs of the lab: experiments, perf's output, foreign run directories.
use regatta_lab_core::{
    analysis::Analysis,
    experiment::{self, CELLS_MAX, Scale, parse, plan},
    journal::{self, Run},
    profile::{Profile, categories::category, flame},
    watch::perf_script::{Folded, samples},
};

/// Experiment of the run whose records the fuzzer makes.
const EXPERIMENT: &str = r#"
experiment = { name = "fuzz", question = "?", expect = "!" }
targets.a.program = "regatta"
targets.b.program = "nginx"
workload = { root = ".", loop = "open" }
measure.blocks = 4
factors."workload.rate" = [500, 1500]
"#;
const MANIFEST: &str = r#"{
    "format": 1, "scale": "quick", "started_unix_ms": 0, "command": "regatta lab run fuzz",
    "regatta_sha256": "", "versions": {}, "left_out": {}, "unit": null, "machine": {}, "lacks": []
}"#;

/// An experiment: every problem has its place; an accepted one can be planned, within the limits.
pub fn experiment(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for scale in Scale::ALL {
        let experiment = match parse("fuzz.toml", text, scale) {
            Ok(experiment) => experiment,
            Err(problems) => {
                assert!(!problems.is_empty());
                let placed = problems.iter().all(|problem| problem.starts_with("fuzz.toml:"));
                assert!(placed, "{problems:?}");
                continue;
            }
        };
        let cells = plan::cells(&experiment);
        assert!(!cells.is_empty() && cells.len() <= 2 * CELLS_MAX, "{}", cells.len());
        assert!(cells.iter().any(|cell| cell.arm == experiment.baseline));
        let seconds = plan::predicted_s(&experiment, cells.len());
        assert!(seconds.is_finite() && seconds > 0.0, "{seconds}");
        let json = serde_json::to_string(&experiment).expect("a report holds it");
        serde_json::from_str::<experiment::Experiment>(&json).expect("and it is read again");
    }
}

/// Output of `perf script`, and folded stacks of any tool: every sample is in a stack, stacks parse
/// as they were written, and graphs of them end.
pub fn perf_script(bytes: &[u8]) {
    let (mut folded, mut count) = (Folded::default(), 0_u64);
    samples(bytes, |sample| {
        category(sample.frames.first());
        folded.add(&sample);
        count += 1;
    })
    .expect("memory can be read");
    assert_eq!(folded.0.values().sum::<u64>(), count, "each sample once");
    assert_eq!(Folded::parse(&folded.text()), folded);
    let others = Folded::parse(&String::from_utf8_lossy(bytes));
    let difference = flame::difference(("a", &folded), ("b <b>", &others));
    for graph in [flame::flame("b <b>", &others), difference] {
        assert!(graph.starts_with("<svg ") && graph.ends_with("</svg>\n"), "{graph}");
        assert!(!graph.contains("<b>") && !graph.contains("<script"), "{graph}");
    }
}

/// A run directory: no file outside it is read or linked, and any records can be analysed.
pub fn run_directory(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for profile in Profile::read(&text) {
        for path in [&profile.folded, &profile.flame].into_iter().flatten() {
            let name = path.strip_prefix("profiles/").expect("all stand there");
            assert!(name.ends_with(".folded") || name.ends_with(".svg"), "{name}");
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_+.".contains(c);
            assert!(name.chars().all(plain) && !name.contains(".."), "{name}");
        }
    }
    // Line by line, so that a wrong one does not hide the others.
    let lines = text.lines().flat_map(|line| journal::records("fuzz.jsonl", line));
    let run = Run {
        directory: "fuzz-has-no-directory".into(),
        experiment: parse("fuzz", EXPERIMENT, Scale::Quick).expect("it is a good one"),
        manifest: serde_json::from_str(MANIFEST).expect("it is a good one"),
        records: lines.flatten().collect(),
        profiles_kept: Vec::new(),
    };
    let analysis = Analysis::of(&run);
    let (valid, invalid) = analysis.trials;
    assert_eq!(valid + invalid, run.records.len());
    assert!(analysis.cells.iter().map(|cell| cell.trials).sum::<usize>() <= valid);
    assert!(!analysis.answer.is_empty());
}
