//! The papers' way to tune: the full crossing of two or three options ([E] §3.3, [S] §5), as an
//! ordinary experiment. The report draws it as a heat map with its plateau outlined.

use super::{BestOptions, experiment, text};
use crate::experiment::Scale;
use crate::experiment::plan::cells;
use crate::group::INTERRUPTED;
use crate::race::Settled;
use crate::run::{self, Ended, Options};
use crate::stats::{count, index};
use crate::terminal::{self, FAILED, USAGE};
use std::fs;
use std::path::Path;
use toml::{Table, Value};

const TARGET: &str = "matrix";
/// What a trial costs besides its window, seconds: about.
const AROUND_S: f64 = 1.4;

/// Crossings that come with the program.
const PRESETS: [(&str, &str); 3] = [
    (
        "processes",
        "[matrix]\n\"server.architecture\" = \"symped\"\n\"event.processes\" = [1, 2, 3, 4, 6, 8]\n\
         \"workload.connections\" = [8, 32, 128, 512]\n",
    ),
    (
        "cache",
        "[matrix]\n\"cache.body_bytes_max\" = [0, 4096, 16384, 65536, 262144]\n\
         \"cache.bytes_max\" = [1048576, 16777216, 67108864, 268435456]\n",
    ),
    (
        "helpers",
        "[matrix]\n\"server.architecture\" = \"amped\"\n\"amped.helpers_max\" = [1, 4, 16, 64]\n\
         \"amped.chunk_bytes\" = [65536, 262144, 1048576]\n",
    ),
];

/// Runs a crossing, or goes on with it.
pub(super) fn run(
    which: &str,
    options: &BestOptions,
    settled: &Settled,
    directory: &Path,
    asked: &Options<'_>,
) -> Result<u8, (u8, String)> {
    let text = given(which).and_then(|text| crossing(which, &text, settled));
    let text = text.map_err(|why| (USAGE, why))?;
    let experiment = experiment(&text)?;
    let failed = |why: String| (FAILED, why);
    let mut run = run::open(directory, &text, experiment, Scale::Quick, asked).map_err(failed)?;
    run.manifest.command = format!("regatta lab best {} --matrix {which}", settled.root);
    run.save_manifest().map_err(failed)?;
    terminal::warn(&run.manifest);
    let ended = run::perform(&mut run, asked).map_err(failed)?;
    let code = terminal::publish(&run, options.form).map_err(failed)?;
    match ended {
        Ended::Done => Ok(code),
        Ended::Interrupted => Err(terminal::cut_short(&run, INTERRUPTED)),
    }
}

/// The text of a preset, or of a file.
fn given(which: &str) -> Result<String, String> {
    match PRESETS.iter().find(|(name, _)| *name == which) {
        Some((_, text)) => Ok((*text).to_owned()),
        None => fs::read_to_string(which).map_err(|error| {
            let names = PRESETS.map(|(name, _)| name).join(", ");
            format!("{which} is no matrix ({names}), and as a file: {error}")
        }),
    }
}

/// The experiment of the crossing in the file `which`.
pub fn crossing(which: &str, text: &str, settled: &Settled) -> Result<String, String> {
    let wrong = |error: toml::de::Error| format!("{which}: {error}");
    let given: Table = text.parse().map_err(wrong)?;
    let Some(Value::Table(options_of)) = given.get("matrix") else {
        return Err(format!("{which} has no [matrix]"));
    };
    let mut all: Table = text::experiment(settled, &[])?.parse().map_err(wrong)?;
    let (mut config, mut factors) = (Table::new(), Table::new());
    for (key, value) in options_of {
        match value {
            Value::Array(_) if key.starts_with("workload.") => {
                factors.insert(key.clone(), value.clone());
            }
            Value::Array(_) => {
                factors.insert(format!("targets.{TARGET}.config.{key}"), value.clone());
            }
            value => {
                config.insert(key.clone(), value.clone());
            }
        }
    }
    if factors.len() < 2 {
        return Err(format!("{which}: a matrix crosses two or three options, each with a list"));
    }
    let target = Table::from_iter([
        ("program".to_owned(), Value::from("regatta")),
        ("config".to_owned(), Value::Table(config)),
    ]);
    let targets = Table::from_iter([(TARGET.to_owned(), Value::Table(target))]);
    all.insert("targets".to_owned(), Value::Table(targets));
    all.insert("factors".to_owned(), Value::Table(factors));
    set(&mut all, "workload", "loop", Value::from("closed"));
    set(&mut all, "measure", "mode", Value::from("trials"));
    set(&mut all, "guards", "client_busy_max", Value::from(1.0));
    set(&mut all, "guards", "lag_p99_ms_max", Value::from(1e6));
    set(&mut all, "experiment", "name", Value::from("matrix"));
    set(&mut all, "experiment", "baseline", Value::from(TARGET));
    let question = "What do these options do together?";
    set(&mut all, "experiment", "question", Value::from(question));
    let expect = "A plateau: several neighbours within the noise of the best.";
    set(&mut all, "experiment", "expect", Value::from(expect));
    let once = experiment(&all.to_string()).map_err(|(_, why)| why)?;
    let each = settled.warm_s + settled.window_s + AROUND_S;
    let blocks = index(settled.budget_s / (each * count(cells(&once).len()))).clamp(1, 1_000);
    let blocks = i64::try_from(blocks).unwrap_or(1);
    set(&mut all, "measure", "blocks", Value::from(blocks));
    Ok(all.to_string())
}

fn set(all: &mut Table, table: &str, key: &str, value: Value) {
    if let Some(Value::Table(table)) = all.get_mut(table) {
        table.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::parse;
    use crate::race::Site;
    use crate::race::space::Means;

    #[test]
    fn every_preset_is_an_experiment() {
        let options = BestOptions { budget_s: 600.0, ..BestOptions::new("/".as_ref()) };
        let all = Means { cpus: 2, memory: 1 << 30, descriptors: 20_000 };
        let settled = Settled::new(&options, "/".as_ref(), Site::default(), all, None);
        for (name, _) in PRESETS {
            let text = given(name).unwrap();
            let text = crossing(name, &text, &settled).unwrap();
            let experiment = parse("matrix", &text, Scale::Quick).unwrap();
            assert!(experiment.factors.len() >= 2 && experiment.measure.blocks >= 4, "{text}");
        }
        assert!(given("nosuch").unwrap_err().contains("helpers"));
    }
}
