//! `cargo xtask gen`: files that are made from other files.

use crate::command::{cargo, project_root, succeeds};
use crate::task_error::TaskError;
use clap::ValueEnum;
use regatta_server::messages::{LOG, MessageGroup, PROBLEMS};
use std::path::Path;

/// Files to make on request.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum What {
    /// The precompressed siblings of the example site's files.
    Site,
}

/// Page with the family tree of the architectures, which is made between these two lines.
const TREE_PAGE: &str = "docs/arch/README.md";
const TREE_BEGIN: &str = "<!-- tree: made by cargo xtask gen -->";
const TREE_END: &str = "<!-- end of tree -->";

/// The page with the tables of messages and of configuration problems. Each table is made between
/// a line with its title and this line.
const MESSAGES_PAGE: &str = "docs/operating.md";
const TABLE_END: &str = "<!-- end of table -->";

/// A page with this text between the two lines; unchanged if it lacks one of them.
fn replace_between(page: &str, [begin, end]: [&str; 2], text: &str) -> String {
    let Some((before, rest)) = page.split_once(begin) else { return page.to_owned() };
    let Some((_, after)) = rest.split_once(end) else { return page.to_owned() };
    format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim_end())
}

fn with_tree(page: &str, tree: &str) -> String {
    replace_between(page, [TREE_BEGIN, TREE_END], &format!("```\n{}\n```", tree.trim_end()))
}

/// A page with the table of each group.
fn with_tables<'g>(page: &str, groups: impl IntoIterator<Item = &'g MessageGroup>) -> String {
    groups.into_iter().fold(page.to_owned(), |page, group| {
        let mut table = "| id | meaning and what to do |\n|---|---|\n".to_owned();
        for message in group.messages {
            table.push_str(&format!("| `{}` | {} |\n", message.id, message.meaning));
        }
        replace_between(&page, [&table_begin(group), TABLE_END], &table)
    })
}

/// The line above the table of a group.
fn table_begin(group: &MessageGroup) -> String {
    format!("<!-- {}: made by cargo xtask gen -->", group.title)
}

/// The documents made from tables: path below the root, and text.
fn documents() -> Vec<(&'static str, String)> {
    let page = |path| std::fs::read_to_string(project_root().join(path)).unwrap_or_default();
    vec![
        (TREE_PAGE, with_tree(&page(TREE_PAGE), &regatta_server::architectures::tree())),
        (MESSAGES_PAGE, with_tables(&page(MESSAGES_PAGE), LOG.iter().chain(PROBLEMS))),
        ("docs/metrics.md", regatta_metrics::markdown()),
        ("deploy/grafana.json", crate::dashboard::dashboard()),
    ]
}

/// Rewrites the documents, or makes the requested files.
pub(crate) fn run(what: Option<What>) -> Result<bool, TaskError> {
    match what {
        None => {
            for (path, text) in documents() {
                let path = project_root().join(path);
                std::fs::write(&path, text)
                    .map_err(TaskError::attempting("write", path.display()))?;
                println!("wrote {}", path.display());
            }
            Ok(true)
        }
        Some(What::Site) => compress_site(&project_root().join("examples/site")),
    }
}

/// Makes the `.gz`, `.br` and `.zst` siblings of the site's files.
fn compress_site(site: &Path) -> Result<bool, TaskError> {
    let mut program = cargo();
    program.args(["run", "--quiet", "--package", "regatta", "--", "precompress"]);
    succeeds(program.arg(site))
}

#[cfg(test)]
mod tests {
    use super::{
        MESSAGES_PAGE, TABLE_END, TREE_BEGIN, TREE_END, documents, table_begin, with_tables,
        with_tree,
    };
    use crate::command::project_root;
    use regatta_server::messages::{LOG, MessageGroup, PROBLEMS, WORKER_BACK};

    #[test]
    fn a_tree_replaces_the_one_before() {
        let page = format!("a\n{TREE_BEGIN}\nold\n{TREE_END}\nb\n");
        let once = with_tree(&page, "new\n\n");
        assert_eq!(once, format!("a\n{TREE_BEGIN}\n\n```\nnew\n```\n\n{TREE_END}\nb\n"));
        assert_eq!(with_tree(&once, "new"), once);
        assert_eq!(with_tree("no lines", "new"), "no lines");
    }

    #[test]
    fn a_table_has_a_row_for_each_message() {
        let group = MessageGroup { title: "A", messages: &[WORKER_BACK] };
        let begin = table_begin(&group);
        let page = with_tables(&format!("{begin}\nold\n{TABLE_END}\nb\n"), [&group]);
        let row = format!("| `worker-back` | {} |", WORKER_BACK.meaning);
        let table = format!("| id | meaning and what to do |\n|---|---|\n{row}");
        assert_eq!(page, format!("{begin}\n\n{table}\n\n{TABLE_END}\nb\n"));
    }

    #[test]
    fn documents_equal_their_sources() {
        for (path, text) in documents() {
            let there = std::fs::read_to_string(project_root().join(path)).unwrap_or_default();
            assert!(there == text, "{path} differs from its table: run `cargo xtask gen`");
        }
    }

    #[test]
    fn each_group_has_its_table() {
        let page = std::fs::read_to_string(project_root().join(MESSAGES_PAGE)).unwrap();
        for group in LOG.iter().chain(PROBLEMS) {
            assert!(page.contains(&table_begin(group)), "{MESSAGES_PAGE} lacks {}", group.title);
        }
    }
}
