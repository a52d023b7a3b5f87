//! Runs made up with profiles beside them.

use crate::analysis::tests::synthetic_at;
use crate::experiment::Scale;
use crate::experiment::plan::{cells, profiled as profiled_cells};
use crate::journal::Run;
use crate::profile::{Profile, Source};
use crate::record::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of the next directory: tests run beside each other, also two of one experiment.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory of one test's own, gone when it ends.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A run of the experiment `name` in which every cell that is to be profiled has such folded
/// stacks and categories.
pub(crate) fn profiled(
    name: &str,
    value: &dyn Fn(&Cell) -> BTreeMap<String, f64>,
    stacks: &dyn Fn(&Cell) -> String,
    categories: &[(&str, f64)],
) -> (Run, Folder) {
    let mut run =
        synthetic_at(crate::experiment::library::find(name).unwrap(), Scale::Replica, value);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = format!("regatta-profiled-{name}-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    let _ = fs::remove_dir_all(&folder);
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
    run.directory.clone_from(&folder);
    (run, Folder(folder))
}
