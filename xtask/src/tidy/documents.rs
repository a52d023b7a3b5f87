//! Documents that must exist, and those that must equal their sources.

use super::{Source, Violation};
use crate::command::files_below;
use flate2::read::GzDecoder;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use syn::visit::Visit;

/// The map of the code, and the heading above its tables of functions.
const MAP: &str = "ARCHITECTURE.md";
const MAP_HEADING: &str = "## One request";

/// Checks the pages of the architectures, the map's functions, and the example site's siblings. The
/// tests of `regatta-tools` check documents that are made from tables.
pub(crate) fn check(root: &Path, sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    let (mut tables, mut names) = (0, Vec::new());
    for source in sources.iter().filter(|source| source.path.starts_with("crates/arch/src/")) {
        for table in tables_of(source) {
            tables += 1;
            names.extend(pages_in(table).map(|(line, name)| (source.path.clone(), line, name)));
        }
    }
    if tables > 0 && names.is_empty() {
        let message = "ARCHITECTURES has no `page: \"...\"` that tidy can read";
        found.push(Violation::new("crates/arch/src", 0, message));
    }
    for (path, line, name) in names {
        let page = format!("docs/arch/{name}.md");
        let Some(text) = page_of(root, &name) else {
            let message = format!("there is no page {page}");
            found.push(Violation::new(&path, line, message));
            continue;
        };
        for part in missing(&text, |name| page_of(root, name)) {
            found.push(Violation::new(&page, 0, format!("does not say {part}")));
        }
    }
    let map = std::fs::read_to_string(root.join(MAP)).unwrap_or_default();
    found.extend(misplaced(&map, sources));
    for (text, packed) in siblings(&root.join("examples/site")) {
        if !is_packed_form(&text, &packed) {
            let message = "is not its text, compressed: run `cargo xtask gen site`";
            found.push(Violation::new(&super::relative(root, &packed), 0, message));
        }
    }
    found
}

/// Parts of an architecture's page, and the beginning of the line above each.
const PARTS: [(&str, &[&str]); 5] = [
    ("what it looks like: a picture between two ```", &["```"]),
    ("what its paper says", &["## What the paper says", "## What the papers say"]),
    ("which options it has", &["## Options"]),
    ("where it deviates", &["## Deviations"]),
    ("how it fails", &["## How it fails", "## How they fail"]),
];
/// Beginning of the line with which a page leaves all this to the page of its family.
const ELSEWHERE: &str = "Picture, options, deviations and how it fails: [";

/// The page of an architecture or a family of them.
fn page_of(root: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(root.join(format!("docs/arch/{name}.md"))).ok()
}

/// Parts that a page lacks, or that the page lacks to which it leaves them.
fn missing(text: &str, page_of: impl Fn(&str) -> Option<String>) -> Vec<&'static str> {
    let elsewhere = text.lines().find_map(|line| {
        let (_, link) = line.strip_prefix(ELSEWHERE)?.split_once("](")?;
        Some(link.split_once(".md)")?.0.to_owned())
    });
    let text = match elsewhere {
        Some(family) => page_of(&family).unwrap_or_default(),
        None => text.to_owned(),
    };
    let has = |begins: &[&str]| {
        let mut lines = text.lines();
        lines.any(|line| begins.iter().any(|begin| line.starts_with(begin)))
            && lines.take_while(|line| !line.starts_with("## ")).any(|line| !line.trim().is_empty())
    };
    PARTS.iter().filter(|(_, begins)| !has(begins)).map(|(part, _)| *part).collect()
}

/// Each text of a site that has siblings, and its `.gz`, which represents all three.
fn siblings(site: &Path) -> Vec<(PathBuf, PathBuf)> {
    let with_gz = |text: PathBuf| {
        let mut packed = text.clone().into_os_string();
        packed.push(".gz");
        (text, PathBuf::from(packed))
    };
    texts_below(site).into_iter().map(with_gz).collect()
}

/// Text files worth a sibling: below half a kilobyte the fields outweigh the savings.
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

/// Whether unpacking yields the text.
fn is_packed_form(text: &Path, packed: &Path) -> bool {
    let mut unpacked = Vec::new();
    let read = File::open(packed).and_then(|file| GzDecoder::new(file).read_to_end(&mut unpacked));
    read.is_ok() && std::fs::read(text).is_ok_and(|text| text == unpacked)
}

/// Rows of the map's tables whose function is not in their file.
fn misplaced(map: &str, sources: &[Source]) -> Vec<Violation> {
    let lines = map.lines().zip(1..).skip_while(|(line, _)| *line != MAP_HEADING).skip(1);
    let lines = lines.take_while(|(line, _)| !line.starts_with("## "));
    let rows: Vec<_> = lines.filter(|(line, _)| line.starts_with("| `")).collect();
    if rows.is_empty() {
        let message = format!("no table of functions is under \"{MAP_HEADING}\"");
        return vec![Violation::new(MAP, 0, message)];
    }
    let is_there = |function: &str, file: &str| {
        let source = sources.iter().find(|source| source.path == file);
        source.is_some_and(|source| source.functions().iter().any(|one| one.name == function))
    };
    let wrong = rows.into_iter().filter_map(|(line, at)| {
        let mut cells = line.split('|').skip(1).map(|cell| cell.trim().trim_matches('`'));
        let (function, file) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        let message = format!("there is no function `{function}` in {file}");
        (!is_there(function, file)).then(|| Violation::new(MAP, at, message))
    });
    wrong.collect()
}

/// Tables named ARCHITECTURES in a file.
fn tables_of(source: &Source) -> impl Iterator<Item = &syn::Expr> {
    source.syntax.items.iter().filter_map(|item| match item {
        syn::Item::Static(item) if item.ident == "ARCHITECTURES" => Some(&*item.expr),
        syn::Item::Const(item) if item.ident == "ARCHITECTURES" => Some(&*item.expr),
        _ => None,
    })
}

/// Lines and texts of the `page: "..."` in a table's rows.
fn pages_in(table: &syn::Expr) -> impl Iterator<Item = (usize, String)> {
    let mut rows = Rows { pages: Vec::new() };
    rows.visit_expr(table);
    rows.pages.into_iter()
}

#[derive(Debug)]
struct Rows {
    pages: Vec<(usize, String)>,
}

impl<'ast> Visit<'ast> for Rows {
    fn visit_expr_struct(&mut self, row: &'ast syn::ExprStruct) {
        for field in &row.fields {
            let syn::Member::Named(member) = &field.member else { continue };
            let syn::Expr::Lit(value) = &field.expr else { continue };
            if let (true, syn::Lit::Str(text)) = (member == "page", &value.lit) {
                self.pages.push((text.span().start().line, text.value()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAP_HEADING, Source, misplaced, missing, pages_in, tables_of};

    const PAGE: &str = "# a\n\n```\npicture\n```\n## What the paper says\nMuch.\n## Options\n\nx\n\
        ## Deviations\n* one\n## How it fails\nOften.\n";

    #[test]
    fn a_page_says_all_there_is_to_say() {
        let none = |_: &str| None;
        assert_eq!(missing(PAGE, none), Vec::<&str>::new());
        let without = |part: &str| missing(&PAGE.replace(part, ""), none);
        assert_eq!(without("Much.\n"), ["what its paper says"], "a heading alone says nothing");
        assert_eq!(without("## Deviations\n"), ["where it deviates"]);
        assert_eq!(without("Often.\n"), ["how it fails"]);
        assert_eq!(missing("# a\n\ntext\n", none).len(), 5);
    }

    #[test]
    fn a_page_may_leave_that_to_another() {
        let page = "# b\nPicture, options, deviations and how it fails: [all](family.md); x.\n";
        let family =
            |text: &'static str| move |name: &str| (name == "family").then(|| text.to_owned());
        assert_eq!(missing(page, family(PAGE)), Vec::<&str>::new());
        assert_eq!(missing(page, family("# family\n")).len(), 5);
        assert_eq!(missing(page, |_| None).len(), 5, "a link to nowhere");
    }

    #[test]
    fn pages_are_read_from_the_table() {
        let text = "//! x.\nconst ODD: A = A { page: \"odd\" };\n\
            pub const ARCHITECTURES: &[A] = &[\n\
            A { page: \"sped\", line: \"x\" },\n crate::A { page: \"mp\" }];";
        let source = Source::new("crates/arch/src/lib.rs", text).expect("the text is Rust");
        let names: Vec<_> = tables_of(&source).flat_map(pages_in).collect();
        assert_eq!(names, [(4, "sped".to_owned()), (5, "mp".to_owned())]);
    }

    #[test]
    fn the_map_s_functions_are_where_it_says() {
        let text = "//! x.\nfn step() {}\nimpl<F> Conn<F> { fn hit(&self) {} }\n\
            trait Disk { fn open(&self); }";
        let sources = [Source::new("a.rs", text).expect("the text is Rust")];
        let head = "| function | file | decides |\n|---|---|---|\n";
        let wrong = "| `hit` | `a.rs` | x |\n| `step` | `b.rs` | x |\n| `Conn` | `a.rs` | x |";
        for (rows, lines) in [
            ("| `step` | `a.rs` | x |\n| `Conn::hit` | `a.rs` | x |", &[][..]),
            ("| `Disk::open` | `a.rs` | x |", &[]),
            (wrong, &[4, 5, 6]),
            ("", &[0]),
            ("\n## Another\n| `gone` | `a.rs` | x |", &[0]),
        ] {
            let found = misplaced(&format!("{MAP_HEADING}\n{head}{rows}\n"), &sources);
            let found: Vec<_> = found.iter().map(|violation| violation.line).collect();
            assert_eq!(found, lines, "{rows}");
        }
        assert_eq!(misplaced("", &sources).len(), 1, "a map without the heading");
    }
}
