//! Check of `cargo xtask tidy`: crates that must not need an operating system have `#![no_std]`,
//! and so has each of their dependencies.
use super::{Source, Violation};
use crate::command::{cargo, host_triple, output_of};
use std::collections::BTreeSet;
use std::path::Path;

/// Folders of these crates in `crates/`.
const CRATES: [&str; 4] = ["op", "http", "metrics", "origin"];
const MANIFEST: &str = "crates/origin/Cargo.toml";

/// A library that a crate depends on, as `cargo tree` prints it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Library {
    name: String,
    version: String,
}

/// Checks the root of each crate, and all libraries below it.
pub(crate) fn check(root: &Path, sources: &[Source]) -> Vec<Violation> {
    let mut found: Vec<Violation> = sources.iter().filter_map(check_root).collect();
    let Some(metadata) = metadata(root) else {
        found.push(Violation::new("Cargo.lock", 0, "`cargo metadata --offline` fails"));
        return found;
    };
    // Origin depends on the other three, so its tree has all of them.
    let mut tree = cargo();
    tree.args(["tree", "--offline", "--package", "regatta-origin", "--prefix", "none"]);
    let tree = output_of(tree.args(["--edges", "normal,features"])).unwrap_or_default();
    for name in CRATES.map(|name| format!("regatta-{name}")) {
        if !tree.contains(&name) {
            found.push(Violation::new(MANIFEST, 0, format!("its tree lacks `{name}`")));
        }
    }
    let with_std = with_std(&tree).into_iter().map(|name| format!("`{name}` enables `std`"));
    let needing = libraries(&tree).into_iter().filter(|library| !is_no_std(&metadata, library));
    let needing = needing.map(|library| format!("`{}` is not `no_std`", library.name));
    found.extend(with_std.chain(needing).map(|fault| Violation::new(MANIFEST, 0, fault)));
    found
}

/// The root file of such a crate has the attribute.
fn check_root(source: &Source) -> Option<Violation> {
    let name = source.path.strip_prefix("crates/")?.strip_suffix("/src/lib.rs")?;
    let is_no_std = source.syntax.attrs.iter().any(|attribute| names_no_std(&attribute.meta));
    (CRATES.contains(&name) && !is_no_std)
        .then(|| Violation::new(&source.path, 1, "lacks #![no_std]"))
}

/// True for `no_std`, also in `cfg_attr(not(test), no_std)`.
fn names_no_std(meta: &syn::Meta) -> bool {
    match meta {
        syn::Meta::Path(path) => path.is_ident("no_std"),
        syn::Meta::List(list) => {
            list.path.is_ident("cfg_attr") && list.tokens.to_string().ends_with("no_std")
        }
        syn::Meta::NameValue(_) => false,
    }
}

/// The libraries whose feature `std` is enabled: lines of the form `NAME feature "std"`.
fn with_std(tree: &str) -> BTreeSet<&str> {
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    lines.filter_map(|line| line.strip_suffix(" feature \"std\"")).collect()
}

/// The libraries of other projects: lines of the form `NAME vVERSION`.
fn libraries(tree: &str) -> BTreeSet<Library> {
    let library = |line: &str| {
        let mut words = line.trim_end_matches(" (*)").split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        let is_ours = words.next().is_some_and(|word| word.starts_with('('));
        (!is_ours).then(|| Library { name: name.to_owned(), version: version.to_owned() })
    };
    tree.lines().filter_map(library).collect()
}

fn metadata(root: &Path) -> Option<serde_json::Value> {
    let mut metadata = cargo();
    metadata.current_dir(root).args(["metadata", "--offline", "--format-version", "1"]);
    // Libraries for other platforms may never have been fetched.
    metadata.args(["--filter-platform", &host_triple().ok()?]);
    serde_json::from_str(&output_of(&mut metadata)?).ok()
}

/// Whether the library's root file has the attribute, perhaps for some features only.
fn is_no_std(metadata: &serde_json::Value, library: &Library) -> bool {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut packages = packages.filter(|package| {
        package["name"] == *library.name && package["version"] == *library.version
    });
    packages.any(|package| {
        let targets = package["targets"].as_array().into_iter().flatten();
        let is_library = |target: &&serde_json::Value| {
            let kinds = target["kind"].as_array().into_iter().flatten();
            kinds.filter_map(|kind| kind.as_str()).any(|kind| kind.ends_with("lib"))
        };
        let mut roots = targets.filter(is_library).filter_map(|target| target["src_path"].as_str());
        roots.any(|path| std::fs::read_to_string(path).is_ok_and(|text| has_attribute(&text)))
    })
}

fn has_attribute(text: &str) -> bool {
    let file = syn::parse_file(text);
    file.is_ok_and(|file| file.attrs.iter().any(|attribute| names_no_std(&attribute.meta)))
}

#[cfg(test)]
mod tests {
    use super::{Source, check_root, has_attribute, libraries, with_std};

    const TREE: &str = "regatta-http v0.1.0 (/here/crates/http)\nmemchr v2.8.3\n\
                        memchr feature \"std\"\npercent-encoding feature \"alloc\"\n\
                        memchr feature \"std\" (*)\nmemchr v2.8.3 (*)\n";

    #[test]
    fn libraries_and_their_features_are_read() {
        assert_eq!(with_std(TREE).into_iter().collect::<Vec<_>>(), ["memchr"]);
        let names: Vec<String> = libraries(TREE)
            .into_iter()
            .map(|library| format!("{} {}", library.name, library.version))
            .collect();
        assert_eq!(names, ["memchr 2.8.3"]);
    }

    #[test]
    fn attributes_are_found() {
        for (text, is_there) in [
            ("#![no_std]", true),
            ("#![cfg_attr(not(feature = \"std\"), no_std)]", true),
            ("//! no_std\nuse std::fs;", false),
            ("#![cfg_attr(docsrs, feature(doc_cfg))]", false),
        ] {
            assert_eq!(has_attribute(text), is_there, "{text}");
        }
        let said = |path: &str, text: &str| {
            check_root(&Source::new(path, text).expect("the text is Rust")).map(|it| it.message)
        };
        assert_eq!(said("crates/op/src/lib.rs", "").as_deref(), Some("lacks #![no_std]"));
        assert_eq!(said("crates/op/src/lib.rs", "#![no_std]"), None);
        assert_eq!(said("crates/sys/src/lib.rs", ""), None);
    }
}
