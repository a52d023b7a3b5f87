//! What the error log says stands in the page for operators, and nothing else does.

use super::{Source, Violation};
use std::path::Path;
use syn::visit::Visit;

const PAGE: &str = "docs/operating.md";
const HEADING: &str = "## What the error log says";
/// Where messages are written.
const WHERE: &str = "crates/server/src/";

/// Checks the table of messages against the calls of `note(level, format_args!("..."))`.
pub(crate) fn check(root: &Path, sources: &[Source]) -> Vec<Violation> {
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let sources = sources.iter().filter(|source| source.path.starts_with(WHERE));
    let sources = sources.filter(|source| !source.path.ends_with("/tests.rs"));
    compare(&page, &sources.flat_map(messages).collect::<Vec<_>>())
}

/// A message: its file, its line, its text.
type Message = (String, usize, String);

fn compare(page: &str, said: &[Message]) -> Vec<Violation> {
    let lines = page.lines().zip(1..).skip_while(|(line, _)| *line != HEADING).skip(1);
    let lines = lines.take_while(|(line, _)| !line.starts_with("## "));
    let row = |(line, at): (&str, usize)| {
        Some((line.strip_prefix("| `")?.split_once("` | ")?.0.to_owned(), at))
    };
    let rows: Vec<(String, usize)> = lines.filter_map(row).collect();
    let missing = said.iter().filter(|(.., text)| rows.iter().all(|(row, _)| row != text));
    let missing = missing.map(|(path, line, text)| {
        let message = format!("add to the table of {PAGE}: | `{text}` | what to do |");
        Violation::new(path, *line, message)
    });
    let unsaid = rows.iter().filter(|(row, _)| said.iter().all(|(.., text)| text != row));
    let unsaid = unsaid.map(|(row, at)| {
        Violation::new(PAGE, *at, format!("no `note(...)` says `{row}`: remove the row"))
    });
    missing.chain(unsaid).collect()
}

/// The messages of a file, with `\u{2026}` for what differs. One that is nothing else is put
/// together elsewhere.
fn messages(source: &Source) -> Vec<Message> {
    let mut notes = Notes(Vec::new());
    notes.visit_file(&source.syntax);
    let found = notes.0.into_iter().map(|(line, text)| (source.path.clone(), line, plain(&text)));
    found.filter(|(.., text)| text != "\u{2026}").collect()
}

/// A format with its holes filled.
fn plain(format: &str) -> String {
    let mut text = String::new();
    for (at, part) in format.split('{').enumerate() {
        let rest = if at == 0 { part } else { part.split_once('}').map_or(part, |(_, rest)| rest) };
        if at > 0 && !text.ends_with('\u{2026}') {
            text.push('\u{2026}');
        }
        text.push_str(rest);
    }
    text
}

struct Notes(Vec<(usize, String)>);

impl<'ast> Visit<'ast> for Notes {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if let (true, Some(syn::Expr::Macro(text))) = (call.method == "note", call.args.get(1))
            && let Some(literal) = text.mac.tokens.clone().into_iter().next()
            && let Ok(literal) = syn::parse2::<syn::LitStr>(literal.into())
        {
            self.0.push((literal.span().start().line, literal.value()));
        }
        syn::visit::visit_expr_method_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::{HEADING, Source, compare, messages};

    #[test]
    fn messages_and_rows_are_the_same() {
        let text =
            "//! x.\nfn f() { log.note(Level::Error, format_args!(\"worker {w}: {}{x}\", y)); }";
        let source = Source::new("crates/server/src/a.rs", text).expect("the text is Rust");
        let said = messages(&source);
        let page = |row: &str| format!("{HEADING}\n| line | x |\n|---|---|\n| `{row}` | y |\n");
        assert!(compare(&page("worker \u{2026}: \u{2026}"), &said).is_empty(), "{said:?}");
        let wrong = compare(&page("another"), &said);
        let lines: Vec<_> = wrong.iter().map(|violation| violation.line).collect();
        assert_eq!(lines, [2, 4]);
    }
}
