//! Arrows between the modules of a crate. None may lead back to its start, and in the lab they go
//! down from floor to floor.
//!
//! A module uses another one if it names an item that is defined there, by whatever path: a module
//! that only passes a name on (`pub use`) is not used. A module includes all that is within it: its
//! parts may use its own items, and it may use them. Tests may use anything.

use super::{Source, Violation};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// Floors of `crates/lab`, from the top, each with its modules from left to right. A module uses
/// those below it, and of its own floor those to its right.
const LAB_FLOORS: [(&str, &[&str]); 5] = [
    ("what the user asks for", &["cli", "best", "film", "terminal", "verdicts", "report"]),
    ("what the data say", &["prices", "claims", "papers", "analysis", "race"]),
    ("doing it", &["run", "profile", "trial", "machines", "journal"]),
    (
        "what is to be done, and with what",
        &["watch", "servers", "experiment", "programs", "env", "group"],
    ),
    ("no knowledge of any of it", &["record", "units"]),
];
/// Most modules through which a passed-on name is followed.
const STEPS_MAX: usize = 8;

pub(crate) fn check(sources: &[Source]) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        if let Some((folder, _)) = source.path.split_once("/src/") {
            crates.entry(folder).or_default().push(source);
        }
    }
    let mut found = Vec::new();
    for (folder, sources) in crates {
        let modules = Modules::read(&sources);
        let uses = modules.uses();
        found.extend(modules.circles(&uses));
        if folder == "crates/lab" {
            found.extend(modules.against(&uses, &LAB_FLOORS));
        }
    }
    found
}

/// A path of modules or of an item in one, from the crate's root.
type Path = Vec<String>;

/// A path as it is written.
#[derive(Clone, Debug)]
struct Written {
    /// Module that contains the path, perhaps one within a file.
    base: Path,
    segments: Path,
    line: usize,
}

/// References of a file to other modules.
#[derive(Debug, Default)]
struct File {
    path: String,
    /// Imports of `use`, by their local name, and whether they are passed on.
    imports: BTreeMap<String, (Written, bool)>,
    globs: Vec<Written>,
    /// Paths anywhere else.
    named: Vec<Written>,
    /// Single words, each with the line of its first use.
    words: BTreeMap<String, usize>,
    /// Modules in separate files that only tests have.
    tests: BTreeSet<Path>,
}

/// Use of one module by another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    from: Path,
    to: Path,
    /// Name of the used item.
    name: String,
    line: usize,
}

/// A use as one between sibling modules, each with all that is within it.
#[derive(Clone, Copy, Debug)]
struct Arrow<'u> {
    from: &'u [String],
    to: &'u [String],
    by: &'u Use,
}

/// The modules of a crate.
#[derive(Debug)]
struct Modules(BTreeMap<Path, File>);

impl Modules {
    /// Reads the sources of a crate. A `main.rs` next to `lib.rs` is a program that uses the
    /// library from outside, as those in `bin` are.
    fn read(sources: &[&Source]) -> Self {
        let is_library = sources.iter().any(|source| source.path.ends_with("/src/lib.rs"));
        let is_program = |path: &str| is_library && path.ends_with("/src/main.rs");
        let mut files: BTreeMap<Path, File> = BTreeMap::new();
        for source in sources.iter().filter(|source| !is_program(&source.path)) {
            let Some(module) = module(&source.path) else { continue };
            let mut file = File { path: source.path.clone(), ..File::default() };
            file.read(source.tokens.clone(), &module);
            files.insert(module, file);
        }
        let tests: Vec<Path> = files.values().flat_map(|file| file.tests.clone()).collect();
        files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self(files)
    }

    /// Path from the crate's root; `None` if it is not of this crate.
    fn whole(&self, file: &File, written: &Written, steps: usize) -> Option<Path> {
        let (first, rest) = written.segments.split_first()?;
        let mut base = written.base.clone();
        match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" => return Some([base, rest.to_vec()].concat()),
            "super" => {
                base.pop();
                let above = rest.iter().take_while(|segment| *segment == "super").count();
                base.truncate(base.len().saturating_sub(above));
                return Some([base, rest[above..].to_vec()].concat());
            }
            _ => base.push(first.clone()),
        }
        if self.0.contains_key(&base) {
            return Some([base, rest.to_vec()].concat());
        }
        let (import, _) = file.imports.get(first).filter(|_| steps > 0)?;
        // An import does not resolve itself.
        if import.segments.first() == Some(first) {
            return None;
        }
        let import = self.whole(file, import, steps - 1)?;
        Some([import, rest.to_vec()].concat())
    }

    /// Module that defines a path's item, and the name there; `None` for a module's own name.
    fn defined(&self, mut whole: Path) -> Option<(Path, String)> {
        for _ in 0..STEPS_MAX {
            let longest = (0..=whole.len()).rev().find(|n| self.0.contains_key(&whole[..*n]))?;
            let (module, rest) = (whole[..longest].to_vec(), &whole[longest..]);
            let name = rest.first()?.clone();
            let file = &self.0[&module];
            let passed = file.imports.get(&name);
            let onward = passed.and_then(|(import, _)| self.whole(file, import, STEPS_MAX));
            match onward {
                Some(onward) => whole = [onward, rest[1..].to_vec()].concat(),
                None => return Some((module, name)),
            }
        }
        None
    }

    fn uses(&self) -> BTreeSet<Use> {
        let mut uses = BTreeSet::new();
        for (from, file) in &self.0 {
            let mut add = |written: &Written, line: usize| {
                let whole = self.whole(file, written, STEPS_MAX);
                let Some((to, name)) = whole.and_then(|whole| self.defined(whole)) else { return };
                if to != *from {
                    uses.insert(Use { from: from.clone(), to, name, line });
                }
            };
            for written in &file.named {
                add(written, written.line);
            }
            for written in &file.globs {
                let mut everything = written.clone();
                everything.segments.push("*".to_owned());
                add(&everything, written.line);
            }
            for (name, (import, passed_on)) in &file.imports {
                let word = file.words.get(name).copied();
                if let Some(line) = word.or((!passed_on).then_some(import.line)) {
                    add(import, line);
                }
            }
        }
        uses
    }

    /// Violations: one for each set of sibling modules that all use each other, with the shortest
    /// way.
    fn circles(&self, uses: &BTreeSet<Use>) -> Vec<Violation> {
        let arrows: Vec<Arrow<'_>> = uses.iter().filter_map(Arrow::from_use).collect();
        let all: BTreeSet<&[String]> = arrows.iter().map(|arrow| arrow.from).collect();
        let mut found = Vec::new();
        let mut told: BTreeSet<&[String]> = BTreeSet::new();
        for module in all {
            let Some(way) = way_back(&arrows, module).filter(|_| !told.contains(module)) else {
                continue;
            };
            // All modules that it reaches and that reach it.
            let reaches = |from, to| ways(&arrows, from).contains_key(to);
            let reached = ways(&arrows, module).into_keys();
            let around: Vec<&[String]> = reached.filter(|other| reaches(other, module)).collect();
            let step = |arrow: &&Arrow<'_>| {
                let Use { from, to, name: what, .. } = arrow.by;
                format!("`{}` uses `{what}` of `{}`", name(from), name(to))
            };
            let message = format!(
                "{} modules use each other: {}; move what they share into a module below them",
                around.len(),
                way.iter().map(step).collect::<Vec<String>>().join(", ")
            );
            let first = way[0].by;
            found.push(Violation::new(&self.0[&first.from].path, first.line, message));
            told.extend(around);
        }
        found
    }

    /// Arrows that go up between floors, and modules that are on none.
    fn against(&self, uses: &BTreeSet<Use>, floors: &[(&str, &[&str])]) -> Vec<Violation> {
        let order: Vec<(&str, &str)> = floors
            .iter()
            .flat_map(|(floor, modules)| modules.iter().map(move |module| (*floor, *module)))
            .collect();
        let place = |path: &Path| {
            let first = path.first()?;
            order.iter().position(|(_, module)| module == first)
        };
        let mut found = Vec::new();
        for (module, file) in &self.0 {
            if !module.is_empty() && place(module).is_none() {
                let message = format!("`{}` stands on no floor (xtask, circles.rs)", name(module));
                found.push(Violation::new(&file.path, 0, message));
            }
        }
        for (floor, module) in &order {
            if !self.0.contains_key(&vec![(*module).to_owned()]) {
                let message = format!("there is no `{module}`, which the floor \"{floor}\" names");
                found.push(Violation::new("xtask/src/tidy/circles.rs", 0, message));
            }
        }
        for one in uses {
            let (Some(from), Some(to)) = (place(&one.from), place(&one.to)) else { continue };
            if to < from {
                let message = format!(
                    "`{}` (\"{}\") may not use `{}` of `{}` (\"{}\"): arrows go down",
                    name(&one.from),
                    order[from].0,
                    one.name,
                    name(&one.to),
                    order[to].0
                );
                found.push(Violation::new(&self.0[&one.from].path, one.line, message));
            }
        }
        found
    }
}

/// Name of a module; the root's is `crate`.
fn name(module: &Path) -> String {
    if module.is_empty() { "crate".to_owned() } else { module.join("::") }
}

/// Module of a file; `None` for a program next to the library.
fn module(path: &str) -> Option<Path> {
    let (_, file) = path.split_once("/src/")?;
    let mut parts: Path = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if parts.first().is_some_and(|first| first == "bin") {
        return None;
    }
    let is_folder = parts.last().is_some_and(|last| last == "mod");
    if is_folder || parts == ["lib"] || parts == ["main"] {
        parts.pop();
    }
    Some(parts)
}

impl<'u> Arrow<'u> {
    /// Arrow of a use between sibling modules; `None` between a module and its own part.
    fn from_use(by: &'u Use) -> Option<Self> {
        let shared = by.from.iter().zip(&by.to).take_while(|(one, other)| one == other).count();
        Some(Self { from: by.from.get(..=shared)?, to: by.to.get(..=shared)?, by })
    }
}

/// Last arrow of the shortest way to each module that `from` reaches.
fn ways<'u, 'a>(
    arrows: &'a [Arrow<'u>],
    from: &'u [String],
) -> BTreeMap<&'u [String], &'a Arrow<'u>> {
    let mut ways: BTreeMap<&[String], &Arrow<'_>> = BTreeMap::new();
    let mut next = vec![from];
    while !next.is_empty() {
        let mut after = Vec::new();
        for module in next {
            for arrow in arrows.iter().filter(|arrow| arrow.from == module) {
                if !ways.contains_key(arrow.to) {
                    ways.insert(arrow.to, arrow);
                    after.push(arrow.to);
                }
            }
        }
        next = after;
    }
    ways
}

/// Shortest way from a module back to it; `None` if there is none.
fn way_back<'u, 'a>(arrows: &'a [Arrow<'u>], module: &'u [String]) -> Option<Vec<&'a Arrow<'u>>> {
    let ways = ways(arrows, module);
    let mut way = vec![*ways.get(module)?];
    while let Some(from) = way.last().map(|arrow| arrow.from).filter(|from| *from != module) {
        way.push(ways[from]);
    }
    way.reverse();
    Some(way)
}

impl File {
    /// Reads the tokens of a module, also of one within the file.
    fn read(&mut self, tokens: TokenStream, base: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    self.attribute(&tokens[at..], base)
                }
                TokenTree::Group(group) => {
                    self.read(group.stream(), base);
                    1
                }
                TokenTree::Ident(word) if word == "use" => {
                    let end = length(&tokens[at..], ends_statement);
                    let passed_on = at > 0 && !matches!(&tokens[at - 1], TokenTree::Punct(_));
                    let tree = &tokens[at + 1..at + end];
                    self.import(tree, base, &mut Path::new(), is_pub(&tokens[..at]) && passed_on);
                    end
                }
                TokenTree::Ident(word) if word == "mod" => self.within(&tokens[at..], base),
                TokenTree::Ident(word) => {
                    let (segments, length) = path(&tokens[at..]);
                    let line = word.span().start().line;
                    self.words.entry(word.to_string()).or_insert(line);
                    if length > 1 {
                        self.named.push(Written { base: base.to_vec(), segments, line });
                    }
                    length
                }
                _ => 1,
            };
        }
    }

    /// Skips an attribute, and its item if only tests have that.
    fn attribute(&mut self, tokens: &[TokenTree], base: &[String]) -> usize {
        let Some(TokenTree::Group(group)) = tokens.get(1) else { return 1 };
        let said = group.stream().to_string().replace(' ', "");
        if !(said.starts_with("cfg(") && said.contains("test") && !said.contains("not(test")) {
            return 2;
        }
        let is_use = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "use");
        let is_body = |token: &TokenTree| {
            let TokenTree::Group(group) = token else { return false };
            group.delimiter() == Delimiter::Brace
        };
        let statement = 2 + length(&tokens[2..], ends_statement);
        let body = 2 + length(&tokens[2..], is_body);
        let imports = tokens[2..statement.min(body)].iter().any(is_use);
        let end = if imports { statement } else { statement.min(body) };
        if let [.., TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Punct(_)] =
            &tokens[..end]
            && word == "mod"
        {
            self.tests.insert([base.to_vec(), vec![name.to_string()]].concat());
        }
        end
    }

    /// A module within the file.
    fn within(&mut self, tokens: &[TokenTree], base: &[String]) -> usize {
        if let [_, TokenTree::Ident(name), TokenTree::Group(group), ..] = tokens {
            self.read(group.stream(), &[base.to_vec(), vec![name.to_string()]].concat());
            return 3;
        }
        1
    }

    /// Reads a tree of `use` below the segments `above`.
    fn import(&mut self, tree: &[TokenTree], base: &[String], above: &mut Path, passed_on: bool) {
        let mut segments = above.clone();
        let mut renamed = None;
        for (at, token) in tree.iter().enumerate() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    renamed = tree.get(at + 1).map(ToString::to_string);
                    break;
                }
                TokenTree::Ident(word) => segments.push(word.to_string()),
                TokenTree::Punct(mark) if mark.as_char() == '*' => {
                    let line = mark.span().start().line;
                    self.globs.push(Written { base: base.to_vec(), segments, line });
                    return;
                }
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    let is_comma = |token: &TokenTree| is_mark(token, ',');
                    for part in inner.split(is_comma).filter(|part| !part.is_empty()) {
                        self.import(part, base, &mut segments, passed_on);
                    }
                    return;
                }
                _ => {}
            }
        }
        // `a::{self}` is `a`.
        if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
            segments.pop();
        }
        let (Some(name), Some(first)) = (renamed.or(segments.last().cloned()), tree.first()) else {
            return;
        };
        let line = first.span().start().line;
        let written = Written { base: base.to_vec(), segments, line };
        self.imports.insert(name, (written, passed_on));
    }
}

/// Number of tokens up to and with the first for which `ends` is true; all without one.
fn length(tokens: &[TokenTree], ends: impl Fn(&TokenTree) -> bool) -> usize {
    tokens.iter().position(ends).map_or(tokens.len(), |at| at + 1)
}

fn ends_statement(token: &TokenTree) -> bool {
    is_mark(token, ';')
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// Whether these tokens end with `pub` or `pub(...)`.
fn is_pub(before: &[TokenTree]) -> bool {
    let word = match before {
        [.., word, TokenTree::Group(_)] | [.., word] => word,
        [] => return false,
    };
    matches!(word, TokenTree::Ident(word) if word == "pub")
}

/// Path at the beginning of the tokens, and the number of its tokens.
fn path(tokens: &[TokenTree]) -> (Path, usize) {
    let colon = |token: Option<&TokenTree>| token.is_some_and(|token| is_mark(token, ':'));
    let mut segments = vec![tokens[0].to_string()];
    let mut at = 1;
    while colon(tokens.get(at)) && colon(tokens.get(at + 1)) {
        let Some(TokenTree::Ident(word)) = tokens.get(at + 2) else { break };
        segments.push(word.to_string());
        at += 3;
    }
    (segments, at)
}

#[cfg(test)]
mod tests {
    use super::{Modules, Source};

    fn modules(files: &[(&str, &str)]) -> Modules {
        let source = |(path, text): &(&str, &str)| {
            Source::new(&format!("crates/a/src/{path}"), text).expect("the text is Rust")
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        Modules::read(&sources.iter().collect::<Vec<_>>())
    }

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let modules = modules(files);
        let found = modules.circles(&modules.uses());
        found.into_iter().map(|one| format!("{}:{}: {}", one.path, one.line, one.message)).collect()
    }

    #[test]
    fn a_circle_is_told_with_its_shortest_way_round() {
        let three = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::d::D;\n\nuse crate::b::B;\npub struct A;"),
            ("b.rs", "use super::c;\npub struct B; fn f() { c::run() }"),
            ("c/mod.rs", "pub fn run() -> crate::a::A { crate::a::A }"),
            ("d.rs", "pub struct D;"),
        ];
        let found = "crates/a/src/a.rs:3: 3 modules use each other: `a` uses `B` of `b`, `b` uses \
                     `run` of `c`, `c` uses `A` of `a`; move what they share into a module below \
                     them";
        assert_eq!(circles(&three), [found]);
        let mut open = three;
        open[3].1 = "pub fn run() {}";
        assert!(circles(&open).is_empty());
    }

    #[test]
    fn who_passes_a_name_on_is_not_used() {
        // The parent gives its children each other's names.
        let family = [
            ("a/mod.rs", "mod b; mod c; pub use b::B; pub(crate) use c::C as Third;"),
            ("a/b.rs", "pub struct B;"),
            ("a/c.rs", "use super::B; pub struct C(B);"),
            ("d.rs", "use crate::a::{B, Third};"),
        ];
        assert!(circles(&family).is_empty());
        let used = modules(&family).uses();
        let of = |from: &str| {
            let of = |one: &&super::Use| super::name(&one.from) == from;
            let to = used.iter().filter(of).map(|one| super::name(&one.to));
            to.collect::<Vec<String>>()
        };
        assert_eq!((of("d"), of("a")), (vec!["a::b".to_owned(), "a::c".to_owned()], Vec::new()));
        // A module that also uses the name is used, and may be.
        let mut own = family;
        own[0].1 = "mod b; mod c; pub use b::B; pub struct A(B);";
        own[1].1 = "use super::A; pub struct B;";
        let uses = modules(&own).uses();
        assert!(uses.iter().any(|one| one.from == ["a"] && one.to == ["a", "b"]), "{uses:?}");
        assert!(circles(&own).is_empty());
    }

    #[test]
    fn a_module_stands_for_all_that_is_within_it() {
        let files = [
            ("a/mod.rs", "pub struct A;"),
            ("a/b.rs", "use crate::c::d::D;"),
            ("c/mod.rs", "use crate::a::A;"),
            ("c/d.rs", "pub struct D;"),
        ];
        let found = "crates/a/src/a/b.rs:1: 2 modules use each other: `a::b` uses `D` of `c::d`, \
                     `c` uses `A` of `a`; move what they share into a module below them";
        assert_eq!(circles(&files), [found]);
    }

    #[test]
    fn a_path_counts_wherever_it_stands() {
        for text in [
            "use crate::{x::{y::Y, z}};",
            "fn f() -> Option<super::y::Y> { None }",
            "fn f() { assert!(crate::y::yes()); }",
            "mod inside { use super::super::y::*; }",
            "use crate::y as other; fn f() { other::yes() }",
        ] {
            let y = ("y.rs", "use crate::x::X; pub struct Y; pub fn yes() -> bool { true }");
            let text = text.replace("x::{y::Y, z}", "y::Y");
            assert_eq!(circles(&[y, ("x.rs", &text)]).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_program_next_to_the_library_hides_none_of_its_names() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
            ("a.rs", "use crate::B; pub struct A(B);"),
            ("b.rs", "use crate::A; pub struct B(A);"),
            ("main.rs", "use own::A; fn main() {}"),
        ];
        for files in [&files[..3], &files] {
            let found = circles(files);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("`a` uses `B` of `b`"), "{found:?}");
        }
        // Without a library it is the root.
        let alone = [
            ("main.rs", "mod a; mod b; use a::A; pub(crate) use b::B;"),
            ("a.rs", "use crate::B; pub struct A(B);"),
            ("b.rs", "use crate::a::A; pub struct B(A);"),
        ];
        assert_eq!(circles(&alone).len(), 1);
    }

    #[test]
    fn tests_may_use_anything() {
        for (text, tests) in [
            ("#[cfg(test)] mod tests { use crate::y::Y; }", ""),
            ("#[cfg(test)] use crate::{y::Y}; struct X;", ""),
            ("#[cfg(test)] pub(crate) mod tests;", "use crate::y::Y;"),
            ("#[cfg(all(test, unix))] fn f() -> crate::y::Y { crate::y::Y }", ""),
        ] {
            let files = [("x.rs", text), ("y.rs", "use crate::x::X;"), ("x/tests.rs", tests)];
            assert!(circles(&files).is_empty(), "{text}");
        }
        let files = [("x.rs", "#[cfg(not(test))] use crate::y::Y;"), ("y.rs", "use crate::x::X;")];
        assert_eq!(circles(&files).len(), 1);
    }

    #[test]
    fn floors_have_stairs_down_only() {
        let floors: [(&str, &[&str]); 2] = [("above", &["a", "b"]), ("below", &["c"])];
        let said = |files: &[(&str, &str)]| {
            let modules = modules(files);
            let found = modules.against(&modules.uses(), &floors);
            found.into_iter().map(|one| one.message).collect::<Vec<String>>()
        };
        let (a, c) = (("a.rs", "use crate::b::d::B; use crate::c::C;"), ("c.rs", "pub struct C;"));
        let b = ("b/d.rs", "use crate::c::C; pub struct B;");
        assert!(said(&[("b/mod.rs", "mod d;"), a, b, c]).is_empty());
        let up = [("a.rs", ""), ("b.rs", "use crate::a::A;"), ("c.rs", "use crate::b::B;")];
        let found =
            ["`b` (\"above\") may not use `A` of `a`", "`c` (\"below\") may not use `B` of `b`"];
        assert_eq!(said(&up), found.map(|it| format!("{it} (\"above\"): arrows go down")));
        let odd = said(&[("a.rs", ""), ("b.rs", ""), ("odd.rs", "")]);
        assert!(odd[0].contains("`odd` stands on no floor"), "{odd:?}");
        assert!(odd[1].contains("no `c`"), "{odd:?}");
    }
}
