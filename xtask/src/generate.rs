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

/// The page with the family tree of the architectures, which is made between these two lines.
const TREE_PAGE: &str = "docs/arch/README.md";
const TREE_BEGIN: &str = "<!-- tree: made by cargo xtask gen -->";
const TREE_END: &str = "<!-- end of tree -->";

/// A page with this text between the two lines; unchanged if it lacks one of them.
fn with_tree(page: &str, tree: &str) -> String {
    let Some((before, rest)) = page.split_once(TREE_BEGIN) else { return page.to_owned() };
    let Some((_, after)) = rest.split_once(TREE_END) else { return page.to_owned() };
    format!("{before}{TREE_BEGIN}\n\n```\n{}\n```\n\n{TREE_END}{after}", tree.trim_end())
}

/// The documents made from tables: path below the root, and text.
pub(crate) fn documents() -> Vec<(&'static str, String)> {
    let page = std::fs::read_to_string(project_root().join(TREE_PAGE)).unwrap_or_default();
    vec![
        (TREE_PAGE, with_tree(&page, &regatta_server::architectures::tree())),
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

#[cfg(test)]
mod tests {
    use super::{TREE_BEGIN, TREE_END, with_tree};

    #[test]
    fn a_tree_replaces_the_one_before() {
        let page = format!("a\n{TREE_BEGIN}\nold\n{TREE_END}\nb\n");
        let once = with_tree(&page, "new\n\n");
        assert_eq!(once, format!("a\n{TREE_BEGIN}\n\n```\nnew\n```\n\n{TREE_END}\nb\n"));
        assert_eq!(with_tree(&once, "new"), once);
        assert_eq!(with_tree("no lines", "new"), "no lines");
    }
}
