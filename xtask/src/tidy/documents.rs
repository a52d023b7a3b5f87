//! Documents that must exist, and those that must equal what they are made from.

use super::{Source, Violation};
use std::path::Path;
use std::process::Command;
use syn::visit::Visit;

/// Checks the pages of the architectures and the documents made from tables.
pub(crate) fn check(root: &Path, sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    let (mut tables, mut names) = (0, Vec::new());
    for source in sources.iter().filter(|source| source.path.starts_with("crates/arch/src/")) {
        for table in tables_of(source) {
            tables += 1;
            names.extend(names_in(table).map(|(line, name)| (source.path.clone(), line, name)));
        }
    }
    if tables > 0 && names.is_empty() {
        let message = "ARCHITECTURES has no `name: \"...\"` that tidy can read";
        found.push(Violation::new("crates/arch/src", 0, message));
    }
    for (path, line, name) in names {
        let page = format!("docs/arch/{name}.md");
        if !root.join(&page).is_file() {
            let message = format!("architecture `{name}` has no page {page}");
            found.push(Violation::new(&path, line, message));
        }
    }
    for (path, text) in crate::generate::documents() {
        if std::fs::read_to_string(root.join(path)).unwrap_or_default() != text {
            let message = "differs from the table it is made from: run `cargo xtask gen`";
            found.push(Violation::new(path, 0, message));
        }
    }
    for (text, packed) in crate::generate::siblings(&root.join("examples/site")) {
        if !is_packed_form(&text, &packed) {
            let message = "is not its text, compressed: run `cargo xtask gen site`";
            found.push(Violation::new(&super::relative(root, &packed), 0, message));
        }
    }
    found
}

/// Whether unpacking gives the text; true where there is no gzip to ask.
fn is_packed_form(text: &Path, packed: &Path) -> bool {
    let unpacked = Command::new("gzip").args(["-d", "-c"]).arg(packed).output();
    unpacked.is_err() || unpacked.ok().map(|output| output.stdout) == std::fs::read(text).ok()
}

/// The tables called ARCHITECTURES in a file.
fn tables_of(source: &Source) -> impl Iterator<Item = &syn::Expr> {
    source.syntax.items.iter().filter_map(|item| match item {
        syn::Item::Static(item) if item.ident == "ARCHITECTURES" => Some(&*item.expr),
        syn::Item::Const(item) if item.ident == "ARCHITECTURES" => Some(&*item.expr),
        _ => None,
    })
}

/// The lines and texts of the `name: "..."` in a table's rows.
fn names_in(table: &syn::Expr) -> impl Iterator<Item = (usize, String)> {
    let mut rows = Rows { names: Vec::new() };
    rows.visit_expr(table);
    rows.names.into_iter()
}

#[derive(Debug)]
struct Rows {
    names: Vec<(usize, String)>,
}

impl<'ast> Visit<'ast> for Rows {
    fn visit_expr_struct(&mut self, row: &'ast syn::ExprStruct) {
        for field in &row.fields {
            let syn::Member::Named(member) = &field.member else { continue };
            let syn::Expr::Lit(value) = &field.expr else { continue };
            if let (true, syn::Lit::Str(text)) = (member == "name", &value.lit) {
                self.names.push((text.span().start().line, text.value()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Source, names_in, tables_of};

    #[test]
    fn names_are_read_from_the_table() {
        let text = "//! x.\nconst ODD: A = A { name: \"odd\" };\n\
            pub const ARCHITECTURES: &[A] = &[\n\
            A { name: \"sped\", line: \"x\" },\n crate::A { name: \"mp\" }];";
        let source = Source::new("crates/arch/src/lib.rs", text).expect("the text is Rust");
        let names: Vec<_> = tables_of(&source).flat_map(names_in).collect();
        assert_eq!(names, [(4, "sped".to_owned()), (5, "mp".to_owned())]);
    }
}
