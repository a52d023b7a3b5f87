//! Rules that one Rust file can break on its own.

use super::Violation;
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::visit::Visit;

const COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 800;
const DRIVER_LINES_MAX: usize = 500;
const REASON_CHARACTERS_MIN: usize = 20;
const SAFETY_CHARACTERS_MIN: usize = 40;
/// Largest distance of a comment above its unsafe block, over the lines of one statement.
const SAFETY_REACH_LINES: usize = 6;
const LONG_MARK: &str = "// tidy: long because ";
/// Phrases that say nothing about the call at hand, however long they are.
const STOCK_PHRASES: [&str; 10] = [
    "this is safe",
    "this call is safe",
    "it is safe",
    "see above",
    "same as above",
    "as above",
    "trivially safe",
    "safe because",
    "the caller guarantees",
    "the caller must ensure",
];

/// A Rust file, read and parsed.
pub(crate) struct Source {
    /// Path relative to the root.
    pub(crate) path: String,
    pub(crate) syntax: syn::File,
    lines: Vec<String>,
    /// Lines with every literal blanked, so that each remaining `//` begins a comment.
    bare: Vec<String>,
    pub(super) tokens: TokenStream,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Result<Self, Violation> {
        let wrong = |error: syn::Error| {
            Violation::new(path, error.span().start().line, format!("does not parse: {error}"))
        };
        let syntax = syn::parse_file(text).map_err(wrong)?;
        let tokens: TokenStream = syn::parse_str(text).map_err(wrong)?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut bare: Vec<Vec<char>> = lines.iter().map(|line| line.chars().collect()).collect();
        blank_literals(tokens.clone(), &mut bare);
        let bare = bare.into_iter().map(|line| line.into_iter().collect()).collect();
        Ok(Self { path: path.to_owned(), syntax, lines, bare, tokens })
    }

    pub(crate) fn check(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        self.check_lines(&mut found);
        self.check_first_sentence(&mut found);
        self.check_functions(&mut found);
        self.check_tokens(self.tokens.clone(), &mut found);
        for (at, line) in self.bare.iter().enumerate() {
            if let Some((_, comment)) = line.split_once("//") {
                found.extend(note(&self.path, at + 1, comment));
            }
        }
        found
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    pub(crate) fn bare(&self) -> &[String] {
        &self.bare
    }

    fn report(&self, line: usize, message: impl Into<String>) -> Violation {
        Violation::new(&self.path, line, message)
    }

    fn check_lines(&self, found: &mut Vec<Violation>) {
        for (at, line) in self.lines.iter().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                found
                    .push(self.report(at + 1, format!("{columns} columns, {COLUMNS_MAX} at most")));
            }
        }
        let lines_max = if is_driver(&self.path) { DRIVER_LINES_MAX } else { FILE_LINES_MAX };
        if self.lines.len() > lines_max {
            found.push(self.report(0, format!("{} lines, {lines_max} at most", self.lines.len())));
        }
    }

    fn check_first_sentence(&self, found: &mut Vec<Violation>) {
        if !self.lines.first().is_some_and(|line| line.starts_with("//! ")) {
            found.push(self.report(1, "starts with no `//! ` sentence that says what it is"));
        }
    }

    pub(super) fn functions(&self) -> Vec<Function> {
        let mut functions = Functions { of: None, found: Vec::new() };
        functions.visit_file(&self.syntax);
        functions.found
    }

    fn check_functions(&self, found: &mut Vec<Violation>) {
        for Function { name, line, lines } in self.functions() {
            if lines > FUNCTION_LINES_MAX && !self.is_long_with_a_reason(line) {
                let message = format!(
                    "function {name} has {lines} lines, {FUNCTION_LINES_MAX} at most \
                     (or `{LONG_MARK}...` directly above)"
                );
                found.push(self.report(line, message));
            }
        }
    }

    /// Looks for the mark in the comments and attributes directly above a function.
    fn is_long_with_a_reason(&self, line: usize) -> bool {
        self.lines[..line - 1]
            .iter()
            .rev()
            .map(|above| above.trim())
            .take_while(|above| above.starts_with("//") || above.starts_with("#["))
            .filter_map(|above| above.strip_prefix(LONG_MARK))
            .any(|reason| reason.chars().count() >= REASON_CHARACTERS_MIN)
    }

    fn check_tokens(&self, tokens: TokenStream, found: &mut Vec<Violation>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.check_tokens(group.stream(), found),
                TokenTree::Ident(ident) if ident == "unsafe" => {
                    self.check_unsafe(ident.span(), tokens.get(at + 1), found);
                }
                _ => {}
            }
        }
    }

    fn check_unsafe(&self, span: Span, next: Option<&TokenTree>, found: &mut Vec<Violation>) {
        let line = span.start().line;
        if !self.path.starts_with("crates/sys/") {
            found.push(self.report(line, "`unsafe` outside crates/sys"));
            return;
        }
        let needs_comment = match next {
            Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
            Some(TokenTree::Ident(ident)) => ident == "impl",
            _ => false,
        };
        if !needs_comment {
            return;
        }
        let Some(reason) = self.safety_above(line) else {
            found.push(self.report(line, "unsafe without a `// SAFETY:` comment above"));
            return;
        };
        if reason.chars().count() < SAFETY_CHARACTERS_MIN {
            let message =
                format!("SAFETY says less than {SAFETY_CHARACTERS_MIN} characters: `{reason}`");
            found.push(self.report(line, message));
        }
        let lower = reason.to_lowercase();
        if let Some(phrase) = STOCK_PHRASES.iter().find(|phrase| lower.starts_with(**phrase)) {
            let message =
                format!("SAFETY begins with `{phrase}`: say which precondition is met by what");
            found.push(self.report(line, message));
        }
    }

    /// The words after `SAFETY:` in the comment above a line of the same statement.
    fn safety_above(&self, line: usize) -> Option<String> {
        let above = &self.lines[..line - 1];
        let mut skipped = 0;
        let mut end = above.len();
        while end > 0 && !above[end - 1].trim_start().starts_with("//") {
            let text = above[end - 1].trim_end();
            let closed = text.is_empty() || text.ends_with([';', '}']);
            if closed || skipped == SAFETY_REACH_LINES {
                return None;
            }
            skipped += 1;
            end -= 1;
        }
        let start = above[..end]
            .iter()
            .rposition(|text| !text.trim_start().starts_with("//"))
            .map_or(0, |at| at + 1);
        let comment: Vec<&str> = above[start..end]
            .iter()
            .map(|text| text.trim_start().trim_start_matches('/').trim())
            .collect();
        let comment = comment.join(" ");
        comment.split_once("SAFETY:").map(|(_, reason)| reason.trim().to_owned())
    }
}

/// Whether a file is a driver of an architecture.
fn is_driver(path: &str) -> bool {
    path.strip_prefix("crates/arch/src/architectures/").is_some_and(|rest| !rest.contains('/'))
}

/// Replaces the literals of `tokens` by spaces, but not doc comments, which arrive as literals.
fn blank_literals(tokens: TokenStream, lines: &mut [Vec<char>]) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => blank_literals(group.stream(), lines),
            TokenTree::Literal(literal) => blank(literal.span(), lines),
            _ => {}
        }
    }
}

fn blank(span: Span, lines: &mut [Vec<char>]) {
    let (start, end) = (span.start(), span.end());
    let first = lines.get(start.line - 1).map_or(&[][..], |line| &line[start.column..]);
    if matches!(first, ['/', '/' | '*', ..]) {
        return;
    }
    for at in start.line..=end.line {
        let Some(line) = lines.get_mut(at - 1) else { return };
        let from = if at == start.line { start.column } else { 0 };
        let to = if at == end.line { end.column } else { line.len() };
        line[from..to].fill(' ');
    }
}

/// Finds notes to self in a file whose comments begin with `mark`.
pub(crate) fn notes(path: &str, text: &str, mark: &str) -> Vec<Violation> {
    let comments = text.lines().enumerate().filter_map(|(at, line)| {
        let (_, comment) = line.split_once(mark)?;
        note(path, at + 1, comment)
    });
    comments.collect()
}

/// Allows a note to self only with the number of an issue: `(#12)`.
fn note(path: &str, line: usize, comment: &str) -> Option<Violation> {
    let mut words = comment.split(|c: char| !c.is_ascii_alphanumeric());
    let noted = words.any(|word| matches!(word, "TODO" | "FIXME" | "XXX"));
    let mut after_hash = comment.split('#').skip(1);
    let numbered = after_hash.any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (noted && !numbered)
        .then(|| Violation::new(path, line, "a note to self without an issue, such as (#12)"))
}

/// A function of a file.
#[derive(Debug)]
pub(super) struct Function {
    /// `name` or, in a type or trait, `Type::name`.
    pub(super) name: String,
    line: usize,
    /// Lines of its body.
    lines: usize,
}

#[derive(Debug)]
struct Functions {
    /// Type or trait being visited.
    of: Option<String>,
    found: Vec<Function>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, body: Option<&syn::Block>) {
        let lines = body.map_or(0, |body| {
            let braces = body.brace_token.span;
            (braces.close().start().line - braces.open().start().line).saturating_sub(1)
        });
        let of = self.of.as_ref().map(|of| format!("{of}::")).unwrap_or_default();
        let name = format!("{of}{}", signature.ident);
        self.found.push(Function { name, line: signature.fn_token.span.start().line, lines });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let syn::Type::Path(path) = &*item.self_ty {
            self.of = path.path.segments.last().map(|last| last.ident.to_string());
        }
        syn::visit::visit_item_impl(self, item);
        self.of = None;
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.of = Some(item.ident.to_string());
        syn::visit::visit_item_trait(self, item);
        self.of = None;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, Some(&item.block));
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, Some(&item.block));
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.add(&item.sig, item.default.as_ref());
        syn::visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    /// Tidy's messages about a file, given by its path and its text below a first sentence.
    fn list_messages(path: &str, text: &str) -> Vec<String> {
        let text = format!("//! A file.\n{text}\nconst LAST: u8 = 0;");
        match Source::new(path, &text) {
            Ok(source) => source.check().iter().map(ToString::to_string).collect(),
            Err(violation) => vec![violation.to_string()],
        }
    }

    fn function_of(lines: usize, above: &str) -> String {
        format!("{above}\nfn long() {{\n{}}}\n", "    work();\n".repeat(lines))
    }

    fn check(path: &str, text: &str, expect: &[&str]) {
        let said = list_messages(path, text);
        assert_eq!(said.len(), expect.len(), "{said:#?}\n{text}");
        for (line, part) in said.iter().zip(expect) {
            assert!(line.contains(part), "`{line}` lacks `{part}`");
        }
    }

    const HERE: &str = "crates/arch/src/conn/a.rs";
    const SYS: &str = "crates/sys/src/a.rs";

    #[test]
    fn lengths() {
        check(HERE, &format!("// {}", "x".repeat(97)), &[]);
        check(HERE, &format!("// {}", "x".repeat(98)), &["101 columns"]);
        check(HERE, &"// x\n".repeat(797), &[]);
        check(HERE, &"// x\n".repeat(798), &["801 lines, 800"]);
        check("crates/arch/src/architectures/sped.rs", &"// x\n".repeat(498), &["501 lines, 500"]);
        check(HERE, &function_of(70, ""), &[]);
        check(HERE, &function_of(71, ""), &["function long has 71 lines"]);
        check(HERE, &function_of(71, "// tidy: long because it is one flat table"), &[]);
        check(HERE, &function_of(71, "// tidy: long because so"), &["has 71 lines"]);
        let method = format!("struct A;\nimpl A {{\n{}}}", function_of(71, "#[inline]"));
        check(HERE, &method, &["function A::long has 71 lines"]);
        let default = format!("trait A {{\n{}}}", function_of(71, ""));
        check(HERE, &default, &["function A::long has 71 lines"]);
    }

    #[test]
    fn unsafe_stays_in_sys_and_says_why() {
        let block = "fn a() {\n    unsafe { b() }\n}";
        check(HERE, block, &["`unsafe` outside"]);
        check(HERE, "macro_rules! a { () => { unsafe { b() } }; }", &["`unsafe` outside"]);
        check(HERE, "#![forbid(unsafe_code)]\n// unsafe\nconst A: &str = \"unsafe\";", &[]);
        check(SYS, block, &["unsafe without a `// SAFETY:`"]);
        let with = |reason: &str| format!("fn a() {{\n    // SAFETY: {reason}\n    {UNSAFE}\n}}");
        const UNSAFE: &str = "let c =\n        unsafe { b() };";
        check(SYS, &with("`b` needs an open descriptor, which `fd` borrows for the call."), &[]);
        check(SYS, &with("`fd` is open."), &["less than 40"]);
        let stock = "This is safe because everything here has been looked at by somebody.";
        check(SYS, &with(stock), &["SAFETY begins with `this is safe`"]);
        let far = "fn a() {\n    // SAFETY: `b` needs an open descriptor, which `fd` borrows.\n    \
                   c();\n    unsafe { b() }\n}";
        check(SYS, far, &["unsafe without"]);
        check(SYS, "unsafe impl Send for A {}", &["unsafe without"]);
        check(SYS, "unsafe fn a() {}", &[]);
    }

    #[test]
    fn nothing_is_left_undone() {
        check(HERE, "// TODO: more", &["a note to self"]);
        check(HERE, "/// FIXME", &["a note to self"]);
        check(HERE, "// TODO(#12): more", &[]);
        check(HERE, "const A: &str = \"// TODO\";", &[]);
        check(HERE, "fn (", &["does not parse"]);
        assert_eq!(super::notes("a.toml", "a = 1 # TODO", "#").len(), 1);
        let silent = Source::new(HERE, "fn a() {}").map(|source| source.check().len());
        assert_eq!(silent, Ok(1), "a file needs its sentence");
    }
}
