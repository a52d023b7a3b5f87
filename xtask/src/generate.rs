//! `cargo xtask gen`: files that are made from other files.

use crate::command::{cargo, files_below, project_root, succeeds};
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// What is made if it is asked for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum What {
    /// The precompressed siblings of the example site's files.
    Site,
}

/// The documents made from tables: path below the root, and text.
pub(crate) fn documents() -> Vec<(&'static str, String)> {
    vec![
        ("docs/metrics.md", regatta_metrics::markdown()),
        ("deploy/grafana.json", crate::dashboard::dashboard()),
    ]
}

/// Rewrites the documents, or what is asked for.
pub(crate) fn run(what: Option<What>) -> Result<bool, String> {
    match what {
        None => {
            for (path, text) in documents() {
                let path = project_root().join(path);
                std::fs::write(&path, text)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                println!("wrote {}", path.display());
            }
            Ok(true)
        }
        Some(What::Site) => compress_site(&project_root().join("examples/site")),
    }
}

/// Makes the `.gz`, `.br` and `.zst` siblings of the site's files.
fn compress_site(site: &Path) -> Result<bool, String> {
    let mut program = cargo();
    program.args(["run", "--quiet", "--package", "regatta", "--", "precompress"]);
    succeeds(program.arg(site))
}

/// Each text of a site that has siblings, and its `.gz`, which stands for all three.
pub(crate) fn siblings(site: &Path) -> Vec<(PathBuf, PathBuf)> {
    let with_gz = |text: PathBuf| {
        let mut packed = text.clone().into_os_string();
        packed.push(".gz");
        (text, PathBuf::from(packed))
    };
    texts_below(site).into_iter().map(with_gz).collect()
}

/// Text files worth a sibling: below half a kilobyte the fields outweigh what is saved.
fn texts_below(folder: &Path) -> Vec<PathBuf> {
    const BYTES_MIN: u64 = 512;
    let mut files = files_below(folder);
    files.retain(|path| {
        let is_text = path
            .extension()
            .is_some_and(|suffix| ["html", "css", "js", "svg"].iter().any(|text| suffix == *text));
        is_text && path.metadata().is_ok_and(|facts| facts.len() >= BYTES_MIN)
    });
    files
}
