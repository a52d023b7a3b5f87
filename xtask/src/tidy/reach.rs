//! Dead files: every Rust file must be reached from a crate's root through `mod`.

use super::{Source, Violation};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Names the files that no root reaches.
pub(crate) fn check(root: &Path, sources: &[Source]) -> Vec<Violation> {
    let manifests = super::arrows::manifests(root);
    let named = manifests.iter().flat_map(|manifest| named_roots(root, manifest)).collect();
    unreached(sources, &named)
        .into_iter()
        .map(|path| Violation::new(path, 0, "no `mod` reaches this file: it is dead"))
        .collect()
}

/// Files that a manifest names by `path`.
fn named_roots(root: &Path, manifest: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(manifest).unwrap_or_default();
    let table: toml::Table = text.parse().unwrap_or_default();
    let folder = manifest.parent().unwrap_or(root);
    let targets = ["bin", "test", "bench", "example"]
        .into_iter()
        .filter_map(|kind| table.get(kind)?.as_array())
        .flatten()
        .chain(table.get("lib"));
    targets
        .filter_map(|target| target.get("path")?.as_str())
        .map(|path| super::relative(root, &folder.join(path)))
        .collect()
}

/// Whether cargo builds this file without a manifest entry.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let after = |name: &str| {
        parts.iter().position(|part| *part == name).map(|at| &parts[at + 1..]).unwrap_or_default()
    };
    matches!(after("src"), ["lib.rs" | "main.rs"] | ["bin", _] | ["bin", _, "main.rs"])
        || ["tests", "benches", "examples", "fuzz_targets"]
            .iter()
            .any(|kind| !parts.contains(&"src") && matches!(after(kind), [_] | [_, "main.rs"]))
        || parts.last() == Some(&"build.rs")
}

/// Files of `sources` that neither are a root nor are reached from one.
fn unreached<'s>(sources: &'s [Source], named: &BTreeSet<String>) -> Vec<&'s str> {
    let by_path: BTreeMap<&str, &Source> =
        sources.iter().map(|source| (source.path.as_str(), source)).collect();
    let mut waiting: Vec<String> = by_path
        .keys()
        .filter(|path| is_root(path) || named.contains(**path))
        .map(|path| (*path).to_owned())
        .collect();
    let roots: BTreeSet<String> = waiting.iter().cloned().collect();
    let mut reached = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        let Some(source) = by_path.get(path.as_str()) else { continue };
        if !reached.insert(path.clone()) {
            continue;
        }
        let path = Path::new(&path);
        let here = path.parent().unwrap_or(path).to_owned();
        let stem = path.file_stem().unwrap_or_default();
        let owns_folder = stem == "mod" || roots.contains(&*path.to_string_lossy());
        let below = if owns_folder { here.clone() } else { here.join(stem) };
        modules(&source.syntax.items, &here, &below, &mut waiting);
    }
    by_path.keys().filter(|path| !reached.contains(**path)).copied().collect()
}

/// Adds the files that the `mod` lines of `items` may mean.
fn modules(items: &[syn::Item], here: &Path, below: &Path, waiting: &mut Vec<String>) {
    for item in items {
        let syn::Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        if let Some((_, items)) = &module.content {
            modules(items, &below.join(&name), &below.join(&name), waiting);
        } else if let Some(path) = path_attribute(&module.attrs) {
            waiting.push(plain(&here.join(path)));
        } else {
            waiting.push(plain(&below.join(format!("{name}.rs"))));
            waiting.push(plain(&below.join(name).join("mod.rs")));
        }
    }
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(literal) = &pair.value else { return None };
        let syn::Lit::Str(text) = &literal.lit else { return None };
        pair.path.is_ident("path").then(|| text.value())
    })
}

/// Removes `.` and `..` from a path.
fn plain(path: &Path) -> String {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                parts.pop();
            }
            std::path::Component::CurDir => {}
            other => parts.push(other),
        }
    }
    parts.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Source, is_root, unreached};
    use std::collections::BTreeSet;

    #[test]
    fn dead_files_are_found() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c { mod d; } #[path = \"../odd.rs\"] mod e;"),
            ("crates/a/src/b.rs", "mod f;"),
            ("crates/a/src/b/f.rs", ""),
            ("crates/a/src/c/d.rs", ""),
            ("crates/a/odd.rs", ""),
            ("crates/a/src/dead.rs", "mod deader;"),
            ("crates/a/src/dead/deader.rs", ""),
            ("crates/a/tests/suite/main.rs", "mod part;"),
            ("crates/a/tests/suite/part.rs", ""),
            ("crates/a/tests/named/odd.rs", ""),
        ];
        let source = |(path, text): (&str, &str)| Source::new(path, text).expect("it is Rust");
        let sources = files.map(source);
        let named = BTreeSet::from(["crates/a/tests/named/odd.rs".to_owned()]);
        let dead = ["crates/a/src/dead.rs", "crates/a/src/dead/deader.rs"];
        assert_eq!(unreached(&sources, &named), dead);
    }

    #[test]
    fn roots_are_what_cargo_finds() {
        for path in ["src/lib.rs", "src/bin/a.rs", "tests/a.rs", "benches/a/main.rs", "build.rs"] {
            assert!(is_root(&format!("crates/a/{path}")), "{path}");
        }
        for path in ["src/a.rs", "tests/a/b.rs", "src/tests/a.rs"] {
            assert!(!is_root(&format!("crates/a/{path}")), "{path}");
        }
    }
}
