//! Dependencies between crates: the allowed arrows, and the attributes that each root must have.

use super::{Source, Violation};
use crate::command::{cargo, output_of};
use std::{collections::BTreeSet, path::Path};

/// Each crate of ours, and those of ours that it may depend on (tests may use more).
const ARROWS: [(&str, &[&str]); 18] = [
    ("op", &[]),
    ("http", &[]),
    ("metrics", &["op"]),
    ("origin", &["op", "http", "metrics"]),
    ("tls", &["origin"]),
    ("sys", &["op"]),
    ("arch", &["op", "origin", "metrics", "sys"]),
    ("server", &["op", "http", "origin", "tls", "metrics", "sys", "arch"]),
    ("sim", &["op", "http", "origin", "metrics"]),
    ("load", &["http", "sys", "metrics"]),
    ("stats", &[]),
    ("lab", &["load", "http", "sys", "metrics", "stats"]),
    ("regatta", &["server", "arch", "sys"]),
    ("regatta-lab", &["lab", "load", "server", "sys"]),
    ("testkit", &["metrics"]),
    ("xtask", &[]),
    ("tools", &["arch", "lab", "metrics", "origin", "server", "sys", "testkit", "xtask"]),
    ("fuzz", &["http", "lab", "load", "origin", "server", "sim", "sys", "testkit", "tls"]),
];
/// Feature with which tests replace the machine (`crates/sys/src/hook.rs`).
const HOOKS: &str = "test-hooks";
/// The page of dependencies.
const PAGE: &str = "docs/dependencies.md";

/// Checks every crate's Cargo.toml, its root file, and the page of dependencies.
pub(crate) fn check(root: &Path, sources: &[Source]) -> Vec<Violation> {
    let (mut found, mut users) = (Vec::new(), Vec::new());
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    for manifest in manifests(root) {
        let path = manifest.strip_prefix(root).unwrap_or(&manifest).to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&manifest).unwrap_or_default();
        found.extend(check_manifest(&path, &text, &page));
        users.extend(users_of(&path, &text));
    }
    found.extend(check_users(&page, &users));
    found.extend(sources.iter().filter_map(check_root));
    found.extend(check_server());
    found
}

/// Package of the server's program, and packages that measure and must not be linked into it.
const SERVER: &str = "regatta";
const NOT_IN_SERVER: [&str; 7] = [
    "regatta-lab-core",
    "regatta-load",
    "fuser",
    "perf-event2",
    "minijinja",
    "statrs",
    "hdrhistogram",
];

/// Checks all packages that are linked into the server's program.
fn check_server() -> Vec<Violation> {
    let mut tree = cargo();
    tree.args(["tree", "--offline", "--package", SERVER, "--edges", "normal"]);
    match output_of(tree.args(["--prefix", "none", "--format", "{p}"])) {
        Some(tree) => check_tree(&tree),
        None => vec![Violation::new("Cargo.lock", 0, "`cargo tree --offline` fails")],
    }
}

/// Names each package of a tree, `NAME vVERSION` in a line, that must not be in the server's.
fn check_tree(tree: &str) -> Vec<Violation> {
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let wrong = NOT_IN_SERVER.iter().filter(|name| names.contains(*name));
    let message = |name: &&str| {
        let message = format!("the server must not have `{name}` in it (`cargo tree -i {name}`)");
        Violation::new("crates/regatta/Cargo.toml", 0, message)
    };
    wrong.map(message).collect()
}

/// The manifests of the workspace's members.
pub(crate) fn manifests(root: &Path) -> Vec<std::path::PathBuf> {
    let mut folders: Vec<_> = std::fs::read_dir(root.join("crates"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    folders.extend(["fuzz", "tools", "xtask"].map(|folder| root.join(folder)));
    folders.sort();
    folders.into_iter().map(|f| f.join("Cargo.toml")).filter(|m| m.is_file()).collect()
}

fn check_manifest(path: &str, text: &str, page: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let manifest: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return vec![Violation::new(path, 0, format!("does not parse: {error}"))],
    };
    let folder = path.trim_end_matches("/Cargo.toml").rsplit('/').next().unwrap_or_default();
    let allowed = ARROWS.iter().find(|(name, _)| *name == folder).map(|(_, allowed)| *allowed);
    if allowed.is_none() {
        let message = format!("`{folder}` has no row in the table of arrows (xtask, arrows.rs)");
        found.push(Violation::new(path, 0, message));
    }
    let dependencies = dependencies(&manifest);
    let asks = dependencies.iter().any(|(kind, name)| asks_for_hooks(&manifest, kind, name))
        || text.contains(&format!("/{HOOKS}"));
    // The tools are not installed; their features are those of the tests (tools/Cargo.toml).
    if asks && folder != "tools" {
        let message = format!("`{folder}` may have `{HOOKS}` for its tests only");
        found.push(Violation::new(path, 0, message));
    }
    for (kind, name) in dependencies {
        let line = text.lines().position(|l| l.starts_with(&name)).map_or(0, |at| at + 1);
        let ours = match name.as_str() {
            "regatta" | "regatta-lab" | "xtask" => Some(&*name),
            "regatta-lab-core" => Some("lab"),
            _ => name.strip_prefix("regatta-"),
        };
        let for_tests = kind == "dev-dependencies";
        let message = match (ours, allowed) {
            (Some(ours), Some(allowed)) if !for_tests && !allowed.contains(&ours) => {
                format!("`{folder}` may not depend on `{ours}`")
            }
            (None, _) if !page.contains(&format!("`{name}`")) => {
                format!("docs/dependencies.md does not say why `{name}`")
            }
            _ => continue,
        };
        found.push(Violation::new(path, line, message));
    }
    found
}

/// Use of a dependency.
struct User {
    /// The dependency.
    name: String,
    /// The crate of ours, by its folder.
    folder: String,
    /// Tests alone use it.
    is_for_tests: bool,
}

/// The dependencies of one manifest that are not ours.
fn users_of(path: &str, text: &str) -> Vec<User> {
    let Ok(manifest) = text.parse::<toml::Table>() else { return Vec::new() };
    let folder = path.trim_end_matches("/Cargo.toml").rsplit('/').next().unwrap_or_default();
    let found = dependencies(&manifest).into_iter();
    let is_ours = |name: &str| matches!(name, "regatta" | "xtask") || name.starts_with("regatta-");
    let found = found.filter(|(_, name)| !is_ours(name));
    let user = |(kind, name): (&str, String)| User {
        name,
        folder: folder.to_owned(),
        is_for_tests: kind == "dev-dependencies",
    };
    found.map(user).collect()
}

/// Compares the column *used by* of the page with the manifests.
fn check_users(page: &str, users: &[User]) -> Vec<Violation> {
    let rows = (1..).zip(page.lines()).filter(|(_, line)| line.starts_with("| `"));
    let mut found = Vec::new();
    for (number, line) in rows {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let (Some(names), Some(said)) = (cells.next(), cells.next()) else { continue };
        let names: Vec<&str> = names.split(", ").map(|name| name.trim_matches('`')).collect();
        let of = || users.iter().filter(|user| names.contains(&&*user.name));
        let folders: BTreeSet<&str> = of().map(|user| &*user.folder).collect();
        let words = |folder: &&str| {
            let own = |user: &&User| user.folder == *folder;
            match of().filter(own).all(|user| user.is_for_tests) {
                true => format!("{folder} (tests)"),
                false => (*folder).to_owned(),
            }
        };
        let expected: BTreeSet<String> = folders.iter().map(words).collect();
        if said.split(", ").map(str::to_owned).collect::<BTreeSet<_>>() != expected {
            let expected = expected.into_iter().collect::<Vec<_>>().join(", ");
            let message = format!("{} is used by {expected}, not by {said}", names.join(", "));
            found.push(Violation::new(PAGE, number, message));
        }
    }
    found
}

/// Whether a dependency of the program enables test hooks.
fn asks_for_hooks(manifest: &toml::Table, kind: &str, name: &str) -> bool {
    if kind == "dev-dependencies" {
        return false;
    }
    let dependency = manifest.get(kind).and_then(|table| table.get(name));
    let features = dependency.and_then(|dependency| dependency.get("features"));
    let features = features.and_then(|features| features.as_array());
    features.into_iter().flatten().any(|feature| feature.as_str() == Some(HOOKS))
}

/// Each dependency with its table, also those of one target only.
fn dependencies(manifest: &toml::Table) -> Vec<(&'static str, String)> {
    let mut tables = vec![manifest];
    let targets = manifest.get("target").and_then(|value| value.as_table());
    tables.extend(targets.into_iter().flatten().filter_map(|(_, value)| value.as_table()));
    let kinds = ["dependencies", "build-dependencies", "dev-dependencies"];
    let mut found = Vec::new();
    for (table, kind) in tables.iter().flat_map(|table| kinds.map(|kind| (table, kind))) {
        let named = table.get(kind).and_then(|value| value.as_table());
        found.extend(named.into_iter().flatten().map(|(name, _)| (kind, name.clone())));
    }
    found
}

/// Checks that the root file of a crate has the required attributes.
fn check_root(source: &Source) -> Option<Violation> {
    let (folder, file) = source.path.split_once("/src/")?;
    let is_root = file == "lib.rs" || file == "main.rs" || file.starts_with("bin/");
    let name = folder.rsplit('/').next()?;
    if !is_root {
        return None;
    }
    let has = |what: &str| {
        source
            .syntax
            .attrs
            .iter()
            .any(|attribute| render_attribute(&attribute.meta).ends_with(what))
    };
    (name != "sys" && !has("forbid(unsafe_code)"))
        .then(|| Violation::new(&source.path, 1, "lacks #![forbid(unsafe_code)]"))
}

/// An attribute's words without spaces: `forbid(unsafe_code)`, `cfg_attr(not(test),no_std`.
fn render_attribute(meta: &syn::Meta) -> String {
    match meta {
        syn::Meta::Path(path) => last(path),
        syn::Meta::List(list) => {
            let inner: String = list.tokens.to_string().split_whitespace().collect();
            let name = last(&list.path);
            if name == "cfg_attr" { inner } else { format!("{name}({inner})") }
        }
        syn::Meta::NameValue(pair) => last(&pair.path),
    }
}

fn last(path: &syn::Path) -> String {
    path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Source, check_manifest, check_root, check_tree, check_users, users_of};

    fn manifest(path: &str, text: &str) -> Vec<String> {
        check_manifest(path, text, "* `serde`: because").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_point_one_way() {
        let up = "[dependencies]\nregatta-origin.workspace = true\n";
        let found = "crates/op/Cargo.toml:2: `op` may not depend on `origin`";
        assert_eq!(manifest("crates/op/Cargo.toml", up), [found]);
        assert!(manifest("crates/arch/Cargo.toml", up).is_empty());
        let target = "[target.'cfg(unix)'.dependencies]\nregatta-origin = { path = \"x\" }\n";
        assert_eq!(manifest("crates/sys/Cargo.toml", target).len(), 1);
        let tests = "[dev-dependencies]\nregatta-origin.workspace = true\n";
        assert!(manifest("crates/op/Cargo.toml", tests).is_empty());
        assert!(manifest("crates/new/Cargo.toml", "")[0].contains("no row"));
        let lab = "[dependencies]\nregatta-lab-core.workspace = true\n";
        assert!(manifest("crates/regatta-lab/Cargo.toml", lab).is_empty());
        for wrong in ["server", "regatta"] {
            let path = format!("crates/{wrong}/Cargo.toml");
            let found = format!("{path}:2: `{wrong}` may not depend on `lab`");
            assert_eq!(manifest(&path, lab), [found]);
        }
    }

    #[test]
    fn the_server_s_tree_has_nothing_that_measures() {
        let tree = "regatta v0.1.0 (/x)\nregatta-server v0.1.0 (/x)\nserde v1.0.0 (*)\n";
        assert!(check_tree(tree).is_empty());
        let wrong = check_tree(&format!("{tree}fuser v0.18.0\nstatrs v0.19.0 (*)\n"));
        let said: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        assert!(said.len() == 2 && said[0].contains("must not have `fuser`"), "{said:?}");
    }

    #[test]
    fn hooks_are_for_tests() {
        let sys = |kind| format!("[{kind}]\nregatta-sys = {{ features = [\"test-hooks\"] }}\n");
        let found = "crates/arch/Cargo.toml: `arch` may have `test-hooks` for its tests only";
        assert_eq!(manifest("crates/arch/Cargo.toml", &sys("dependencies")), [found]);
        assert!(manifest("crates/arch/Cargo.toml", &sys("dev-dependencies")).is_empty());
        let feature = "[features]\nslow = [\"regatta-sys/test-hooks\"]";
        assert_eq!(manifest("crates/arch/Cargo.toml", feature).len(), 1);
    }

    #[test]
    fn every_dependency_has_its_line() {
        let text = "[dependencies]\nserde = \"1\"\ntokio = \"1\"\n";
        let found = "crates/server/Cargo.toml:3: docs/dependencies.md does not say why `tokio`";
        assert_eq!(manifest("crates/server/Cargo.toml", text), [found]);
        assert!(manifest("crates/op/Cargo.toml", "[[").join("").contains("does not parse"));
    }

    #[test]
    fn the_page_says_who_uses_what() {
        let mut users =
            users_of("crates/lab/Cargo.toml", "[dependencies]\ntoml = \"1\"\nserde = \"1\"\n");
        users.extend(users_of("xtask/Cargo.toml", "[dev-dependencies]\ntoml = \"1\"\n"));
        let said = |row: &str| {
            let page = format!("| crate | used by |\n|---|---|\n{row}\n");
            check_users(&page, &users).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(said("| `toml` | xtask (tests), lab | because |").is_empty());
        assert!(said("| `serde`, `toml` | lab, xtask (tests) | because |").is_empty());
        let wrong = "docs/dependencies.md:3: toml is used by lab, xtask (tests), not by lab, xtask";
        assert_eq!(said("| `toml` | lab, xtask | because |"), [wrong]);
    }

    #[test]
    fn roots_forbid() {
        let said = |path: &str, text: &str| {
            let source = Source::new(path, text).expect("the text is Rust");
            check_root(&source).map(|violation| violation.message)
        };
        let forbid = "#![forbid(unsafe_code)]";
        assert!(said("crates/op/src/lib.rs", "#![no_std]").is_some());
        assert_eq!(said("crates/server/src/lib.rs", forbid), None);
        assert!(said("crates/regatta/src/main.rs", "fn main() {}").is_some());
        assert_eq!(said("crates/sys/src/lib.rs", ""), None);
        assert_eq!(said("crates/server/src/a.rs", ""), None);
    }
}
