//! Public type names have one meaning in the workspace, and errors are values, not texts.

use super::{Source, Violation};
use std::collections::BTreeMap;
use syn::visit::Visit;

/// Names that are understood with the module that they are in.
const COMMON: [&str; 5] = ["Builder", "Error", "Iter", "Kind", "Options"];

/// Sources that follow these rules. The lab and the load generator do not yet.
const SCOPE: [&str; 11] = [
    "crates/op/src/",
    "crates/http/src/",
    "crates/metrics/src/",
    "crates/origin/src/",
    "crates/arch/src/",
    "crates/sys/src/",
    "crates/server/src/",
    "crates/sim/src/",
    "crates/regatta/src/",
    "tools/src/",
    "xtask/src/",
];

/// Edge of the command line: the parser of an option's value may fail with a text.
const EDGE: &str = "crates/regatta/src/main.rs";

pub(crate) fn check(sources: &[Source]) -> Vec<Violation> {
    let mut names = BTreeMap::new();
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| is_in_scope(&source.path)) {
        let mut items = Items { source, names: &mut names, found: &mut found };
        items.visit_file(&source.syntax);
    }
    for (name, places) in names {
        let [first, others @ ..] = &*places else { continue };
        for (path, line) in others {
            let message = format!("type `{name}` is also in {first_path}", first_path = first.0);
            found.push(Violation::new(path, *line, message));
        }
    }
    found
}

fn is_in_scope(path: &str) -> bool {
    SCOPE.iter().any(|folder| path.starts_with(folder))
}

/// Items of one source.
struct Items<'a> {
    source: &'a Source,
    /// Places of each public type, by its name.
    names: &'a mut BTreeMap<String, Vec<(String, usize)>>,
    found: &'a mut Vec<Violation>,
}

impl Items<'_> {
    fn named(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        if matches!(visibility, syn::Visibility::Public(_)) && !COMMON.iter().any(|it| name == it) {
            let place = (self.source.path.clone(), name.span().start().line);
            self.names.entry(name.to_string()).or_default().push(place);
        }
    }
}

impl<'ast> Visit<'ast> for Items<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Struct(item) => self.named(&item.vis, &item.ident),
            syn::Item::Enum(item) => self.named(&item.vis, &item.ident),
            syn::Item::Union(item) => self.named(&item.vis, &item.ident),
            syn::Item::Trait(item) => self.named(&item.vis, &item.ident),
            syn::Item::Type(item) => self.named(&item.vis, &item.ident),
            syn::Item::Mod(item) if is_for_tests(&item.attrs) => return,
            _ => {}
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let is_text =
            matches!(&signature.output, syn::ReturnType::Type(_, kind) if fails_with_text(kind));
        if is_text && self.source.path != EDGE {
            let line = signature.ident.span().start().line;
            let message = format!("{} fails with a text: return an error value", signature.ident);
            self.found.push(Violation::new(&self.source.path, line, message));
        }
        syn::visit::visit_signature(self, signature);
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|it| {
        it.path().is_ident("cfg")
            && it.parse_args::<syn::Path>().is_ok_and(|it| it.is_ident("test"))
    })
}

/// True for `Result<_, String>`.
fn fails_with_text(kind: &syn::Type) -> bool {
    let syn::Type::Path(kind) = kind else { return false };
    let Some(last) = kind.path.segments.last().filter(|last| last.ident == "Result") else {
        return false;
    };
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    let Some(syn::GenericArgument::Type(syn::Type::Path(error))) = arguments.args.get(1) else {
        return false;
    };
    error.path.is_ident("String")
}

#[cfg(test)]
mod tests {
    use super::{Source, check};

    #[track_caller]
    fn says(files: &[(&str, &str)], expected: &[&str]) {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(path, text).unwrap()).collect();
        let found: Vec<String> = check(&sources).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_name_has_one_meaning() {
        let (one, other) = ("crates/op/src/a.rs", "crates/http/src/b.rs");
        let said = "crates/http/src/b.rs:2: type `Line` is also in crates/op/src/a.rs";
        says(&[(one, "pub struct Line;"), (other, "\npub enum Line { A }")], &[said]);
        says(&[(one, "pub struct Line;"), (other, "\nenum Line { A }")], &[]);
        says(&[(one, "pub struct Error;"), (other, "pub enum Error { A }")], &[]);
        let test = "#[cfg(test)] mod tests { pub struct Line; }";
        says(&[(one, "pub struct Line;"), (other, test)], &[]);
        says(&[(one, "pub struct Line;"), ("crates/lab/src/b.rs", "pub struct Line;")], &[]);
    }

    #[test]
    fn errors_are_values() {
        let said = "crates/op/src/a.rs:1: f fails with a text: return an error value";
        says(&[("crates/op/src/a.rs", "fn f() -> Result<u8, String> { g() }")], &[said]);
        says(&[("crates/op/src/a.rs", "fn f() -> Result<String, u8> { g() }")], &[]);
        says(&[("crates/regatta/src/main.rs", "fn f() -> Result<u8, String> { g() }")], &[]);
    }
}
