//! Plain language: first words of doc comments, words that have a plainer form, long sentences.
//!
//! Counts per crate and page are compared with `plain.toml`, whose numbers only shrink.

use super::{Source, Violation};
use regex_lite::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

const EXCEPTIONS: &str = "xtask/src/tidy/plain.toml";
/// First words that doc comments must not have.
const OPENERS: &str = "^(What|Who|Whom|Whose|How|Where|When|Why|Which|One|It|Its|They|Of|So|As|\
    That|There|Nobody|Somebody|Those|This one)\\b";
/// Words and phrases that have a plainer form.
const WORDS: &str = "(?i)\\b(nobody|somebody|anybody|anew|beside|of whom|of which|who has|\
    who asks|who waits|goes on|go on|gives back|takes up|has left|told of|is told|\
    cannot be told|fails here|so many|so long|so often|the dearer)\\b";
/// Most words of a sentence.
const SENTENCE_WORDS_MAX: usize = 30;
/// Most words of a page's sentences on average.
const MEAN_MAX: u64 = 16;

/// Counts of a crate or a page.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
struct Counts {
    /// Doc comments that begin with one of `OPENERS`.
    openers: u64,
    /// Lines with one of `WORDS`.
    words: u64,
    /// Sentences of more than 30 words.
    long: u64,
    /// Mean of words in a sentence, rounded up; 0 up to 16.
    mean: u64,
}

impl Counts {
    fn named(self) -> [(&'static str, u64); 4] {
        let Self { openers, words, long, mean } = self;
        [("openers", openers), ("words", words), ("long", long), ("mean", mean)]
    }
}

/// Patterns, compiled once.
#[derive(Debug)]
struct Patterns {
    openers: Regex,
    words: Regex,
    code: Regex,
    link: Regex,
    item: Regex,
    end: Regex,
    word: Regex,
}

impl Patterns {
    fn new() -> Self {
        let pattern = |text| Regex::new(text).expect("the pattern is valid");
        Self {
            openers: pattern(OPENERS),
            words: pattern(WORDS),
            code: pattern("`[^`]*`"),
            link: pattern(r"\[([^\]]*)\]\([^)]*\)"),
            item: pattern(r"^\s*([*+-]|\d+\.) "),
            end: pattern(r"[.!?]\s+"),
            word: pattern("[A-Za-z][A-Za-z0-9_'’-]*"),
        }
    }
}

/// Compares the counts of all sources and pages with the exceptions.
pub(crate) fn check(root: &Path, sources: &[Source], pages: &[(String, String)]) -> Vec<Violation> {
    let text = std::fs::read_to_string(root.join(EXCEPTIONS)).unwrap_or_default();
    match toml::from_str::<BTreeMap<String, Counts>>(&text) {
        Ok(allowed) => compare(&counted(sources, pages), &allowed),
        Err(error) => vec![Violation::new(EXCEPTIONS, 0, error.to_string())],
    }
}

fn counted(sources: &[Source], pages: &[(String, String)]) -> BTreeMap<String, Counts> {
    let (patterns, mut all) = (Patterns::new(), BTreeMap::new());
    for source in sources {
        let counts: &mut Counts = all.entry(part_of(&source.path)).or_default();
        count_comments(&patterns, source.lines(), counts);
    }
    for (path, text) in pages {
        all.insert(path.clone(), count_page(&patterns, text));
    }
    all
}

/// Crate of a file.
fn part_of(path: &str) -> String {
    let mut parts = path.split('/');
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => format!("crates/{name}"),
        (first, _) => first.unwrap_or_default().to_owned(),
    }
}

fn count_comments<'a>(
    patterns: &Patterns,
    lines: impl Iterator<Item = &'a str>,
    counts: &mut Counts,
) {
    let mut in_comment = false;
    for line in lines.map(str::trim_start) {
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(text) = text.map(str::trim) else {
            in_comment = false;
            continue;
        };
        counts.openers += u64::from(!in_comment && patterns.openers.is_match(text));
        counts.words += u64::from(patterns.words.is_match(text));
        in_comment = true;
    }
}

fn count_page(patterns: &Patterns, text: &str) -> Counts {
    let lengths = sentences(patterns, text);
    let is_long = |words: &&usize| **words > SENTENCE_WORDS_MAX;
    let (sum, count) = (lengths.iter().sum::<usize>() as u64, lengths.len().max(1) as u64);
    let mean = sum.div_ceil(count);
    Counts {
        openers: 0,
        words: text.lines().filter(|line| patterns.words.is_match(line)).count() as u64,
        long: lengths.iter().filter(is_long).count() as u64,
        mean: if mean > MEAN_MAX { mean } else { 0 },
    }
}

/// Words of each sentence of a page. Code and headings do not count; each cell of a table and each
/// item of a list is a separate text.
fn sentences(patterns: &Patterns, page: &str) -> Vec<usize> {
    let (mut texts, mut in_code) = (vec![String::new()], false);
    for line in page.lines() {
        let bare = line.trim_start();
        if bare.starts_with("```") {
            in_code = !in_code;
        }
        let is_text = !in_code && !["```", "#", "<", "!["].iter().any(|at| bare.starts_with(at));
        if bare.is_empty() || !is_text {
            texts.push(String::new());
        } else if bare.starts_with('|') {
            let cells = patterns.code.replace_all(bare, "code").replace("\\|", "/");
            texts.extend(cells.split('|').map(str::to_owned));
            texts.push(String::new());
        } else {
            if patterns.item.is_match(line) {
                texts.push(String::new());
            }
            let text = texts.last_mut().expect("there is one");
            text.push_str(line);
            text.push(' ');
        }
    }
    let count = |text: &String| {
        let text = patterns.code.replace_all(text, "code");
        let text = patterns.link.replace_all(&text, "$1");
        let lengths = patterns.end.split(&text).map(|one| patterns.word.find_iter(one).count());
        lengths.filter(|words| *words >= 3).collect::<Vec<_>>()
    };
    texts.iter().flat_map(count).collect()
}

fn compare(
    counted: &BTreeMap<String, Counts>,
    allowed: &BTreeMap<String, Counts>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, counts) in counted {
        let row = allowed.get(path).copied().unwrap_or_default();
        for ((name, count), (_, most)) in counts.named().into_iter().zip(row.named()) {
            if count > most {
                let message =
                    format!("plain language: {name} = {count}, at most {most} (STYLE.md)");
                found.push(Violation::new(path, 0, message));
            } else if count < most {
                let message = format!("{path}: lower {name} from {most} to {count}");
                found.push(Violation::new(EXCEPTIONS, 0, message));
            }
        }
    }
    let gone = allowed.keys().filter(|path| !counted.contains_key(*path));
    found.extend(gone.map(|path| Violation::new(EXCEPTIONS, 0, format!("there is no {path}"))));
    found
}

#[cfg(test)]
mod tests {
    use super::{Counts, Patterns, compare, count_comments, count_page, sentences};
    use std::collections::BTreeMap;

    #[test]
    fn comments_are_counted_by_block_and_line() {
        let text = "//! What it is.\n//! How it does.\n\n\
                    /// State of a.\nfn a() {}\n    /// It waits.\n\
                    // What this is does not count.\n/// Nobody goes on.\n";
        let mut counts = Counts::default();
        count_comments(&Patterns::new(), text.lines(), &mut counts);
        assert_eq!((counts.openers, counts.words), (3, 1));
    }

    #[test]
    fn sentences_cells_and_items_are_texts_of_their_own() {
        let page = "# A heading of four words\n\n\
                    One two `a.b. c` four. Five six\nseven eight.\n\n\
                    * an item here\n* another one [is a link](x.md) here\n\n\
                    ```\nno words at all\n```\n\
                    | a cell here | and one more `x|y` there |\n|---|---|\n";
        assert_eq!(sentences(&Patterns::new(), page), [4, 4, 3, 6, 3, 5]);
        let long = format!("{}end. Nobody is there.\n", "word ".repeat(30));
        let counts = count_page(&Patterns::new(), &long);
        assert_eq!(counts, Counts { openers: 0, words: 1, long: 1, mean: 17 });
    }

    #[test]
    fn exceptions_are_neither_exceeded_nor_left_too_wide() {
        let row =
            |openers| BTreeMap::from([("a".to_owned(), Counts { openers, ..Counts::default() })]);
        let says = |counted, allowed| {
            compare(&row(counted), &row(allowed))
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert!(says(2, 2).is_empty());
        assert_eq!(says(3, 2).len(), 1);
        assert!(says(1, 2)[0].contains("lower openers from 2 to 1"));
        assert_eq!(compare(&BTreeMap::new(), &row(1)).len(), 1, "a crate that has gone");
    }
}
