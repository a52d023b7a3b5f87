//! Artificial runs with profiles.

use crate::analysis::tests::of_library;
use crate::experiment::Scale;
use crate::experiment::plan::{cells, profiled as profiled_cells};
use crate::folder::Folder;
use crate::journal::Run;
use crate::profile::{Profile, Source};
use crate::record::Cell;
use std::collections::BTreeMap;
use std::fs;

/// A run of the experiment `name` in which every cell that is to be profiled has such folded
/// stacks and categories.
pub(crate) fn profiled(
    name: &str,
    value: &dyn Fn(&Cell) -> BTreeMap<String, f64>,
    stacks: &dyn Fn(&Cell) -> String,
    categories: &[(&str, f64)],
) -> (Run, Folder) {
    let mut run = of_library(name, Scale::Replica, value);
    let folder = Folder::new("lab-test");
    fs::create_dir_all(folder.join("profiles")).unwrap();
    let mut index = String::new();
    for (at, cell) in profiled_cells(&run.experiment, &cells(&run.experiment)).iter().enumerate() {
        let folded = format!("profiles/{at:02}.folded");
        fs::write(folder.join(&folded), stacks(cell)).unwrap();
        let categories = categories.iter().map(|(name, share)| ((*name).to_owned(), *share));
        let profile = Profile {
            cell: cell.clone(),
            source: Source::Perf,
            categories: categories.collect(),
            replies: 1_000.0,
            folded: Some(folded),
            flame: Some(format!("profiles/{at:02}.svg")),
            samples: 1_000,
            metrics: value(cell),
            ..Profile::default()
        };
        index.push_str(&serde_json::to_string(&profile).unwrap());
        index.push('\n');
    }
    fs::write(folder.join("profiles/index.jsonl"), index).unwrap();
    run.directory = folder.to_path_buf();
    (run, folder)
}
