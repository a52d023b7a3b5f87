//! Words that the style page replaces must not return in code and comments.

use super::{Source, Violation};
use std::path::Path;

const PAGE: &str = "STYLE.md";
const HEADING: &str = "## Terms";

/// Searches all sources for the words between backticks in the last column.
pub(crate) fn check(root: &Path, sources: &[Source]) -> Vec<Violation> {
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let words = parse_words(&page);
    if words.is_empty() {
        return vec![Violation::new(PAGE, 0, format!("has no table below `{HEADING}`"))];
    }
    sources.iter().flat_map(|source| found(source, &words)).collect()
}

/// Each word with its replacement.
fn parse_words(page: &str) -> Vec<(&str, &str)> {
    let lines = page.lines().skip_while(|line| *line != HEADING).skip(1);
    let rows = lines.take_while(|line| !line.starts_with("## "));
    let cells = rows.filter_map(last_cell);
    cells
        .flat_map(|(left, not)| {
            let instead = left.split(" | ").next().unwrap_or_default();
            not.split('`').skip(1).step_by(2).map(move |word| (word, instead))
        })
        .collect()
}

/// Cells before the last one of a row, and the last.
fn last_cell(row: &str) -> Option<(&str, &str)> {
    row.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | ")
}

fn found(source: &Source, words: &[(&str, &str)]) -> Vec<Violation> {
    let lines = source.bare().iter().map(|line| line.to_lowercase()).zip(1..);
    let all = lines.flat_map(|(line, at)| {
        let here = words.iter().filter(move |(word, _)| holds(&line, word));
        here.map(move |(word, instead)| (at, *word, *instead)).collect::<Vec<_>>()
    });
    let says = |(at, word, instead)| {
        Violation::new(&source.path, at, format!("`{word}`: say {instead} ({PAGE}, Terms)"))
    };
    all.map(says).collect()
}

/// True if a line has a word without adjacent letters.
fn holds(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        [before, after].into_iter().flatten().all(|beside| !beside.is_alphabetic())
    })
}

#[cfg(test)]
mod tests {
    use super::{Source, found, parse_words};

    #[test]
    fn words_of_the_last_column_are_found() {
        let page = "## Terms\n\n| use | for | not |\n|---|---|---|\n| fresh | old | `stale`, x |\n\
                    | round trip | – | `to and fro` |\n\n## More\n\n| a | `b` |\n";
        let words = parse_words(page);
        assert_eq!(words, [("stale", "fresh"), ("to and fro", "round trip")]);
        let text =
            "//! X.\n// It goes to and fro.\nfn stale_one() { a(\"stale\"); }\n// Stalest.\n";
        let source = Source::new("crates/sys/src/a.rs", text).expect("the text is Rust");
        let at: Vec<_> = found(&source, &words).iter().map(|one| one.line).collect();
        assert_eq!(at, [2, 3]);
    }
}
