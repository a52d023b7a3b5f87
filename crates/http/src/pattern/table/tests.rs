//! Tests of tables of patterns.
use super::*;
use alloc::{format, string::String};

/// The patterns that match a path, in order, with what their parts stand for.
fn found(table: &Patterns<&'static str>, path: &str) -> Vec<String> {
    let mut all = Vec::new();
    table.visit(path.as_bytes(), &mut |text, captures| {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pattern = Pattern::parse(text).expect("it was read before");
        let mut line = String::from(*text);
        for at in 0..pattern.names().count() {
            line.push_str(&format!(" {}", shown(captures.named(at))));
        }
        if pattern.is_open() {
            line.push_str(&format!(" [{}]", shown(captures.rest)));
        }
        all.push(line);
        false
    });
    all
}

fn table(texts: &[&'static str]) -> Patterns<&'static str> {
    let mut table = Patterns::default();
    for text in texts {
        let pattern = Pattern::parse(text).expect("a pattern");
        assert_eq!(table.insert(&pattern, *text, MatchCost::of_value(1, 1)), Ok(()), "{text}");
    }
    table
}

#[test]
fn the_most_specific_pattern_comes_first() {
    let table = table(&["/*", "/:a/b", "/a/*", "/a/:x", "/a/b", "/a", "/:x/:y/*", "/"]);
    for (path, expected) in [
        ("", vec!["/", "/* []"]),
        ("a", vec!["/a", "/a/* []", "/* [a]"]),
        ("a/b", vec!["/a/b", "/a/:x b", "/a/* [b]", "/:a/b a", "/:x/:y/* a b []", "/* [a/b]"]),
        ("c/b", vec!["/:a/b c", "/:x/:y/* c b []", "/* [c/b]"]),
        ("a/c/d", vec!["/a/* [c/d]", "/:x/:y/* a c [d]", "/* [a/c/d]"]),
        ("A", vec!["/* [A]"]),
    ] {
        assert_eq!(found(&table, path), expected, "{path}");
    }
    assert_eq!(found(&Patterns::default(), "a"), Vec::<String>::new());
}

#[test]
fn a_visit_ends_where_it_should() {
    let table = table(&["/*", "/a/*", "/a/b"]);
    let mut seen = Vec::new();
    let ended = table.visit(b"a/b", &mut |text, _| {
        seen.push(*text);
        *text == "/a/*"
    });
    assert!(ended);
    assert_eq!(seen, ["/a/b", "/a/*"]);
}

#[test]
fn the_same_paths_are_matched_once() {
    let mut table = table(&["/a/:x", "/a/*", "/b"]);
    for (text, other) in [("/a/:y", "/a/:x"), ("//a/*", "/a/*"), ("/b/", "/b")] {
        let pattern = Pattern::parse(text).expect("a pattern");
        let found = table.insert(&pattern, "again", MatchCost::of_value(1, 1));
        assert_eq!(found, Err(Refused::Taken(&other)), "{text}");
    }
}

/// Tables and paths of two letters: a search finds what a comparison of each pattern finds.
#[test]
fn what_matches_is_found() {
    let parts = ["a", "b", ":x"];
    let mut texts = vec![String::from("/"), String::from("/*")];
    for one in parts {
        texts.extend([format!("/{one}"), format!("/{one}/*")]);
        for other in parts {
            let other = other.replace('x', "y");
            texts.extend([format!("/{one}/{other}"), format!("/{one}/{other}/*")]);
        }
    }
    let mut table = Patterns::default();
    for text in &texts {
        let pattern = Pattern::parse(text).expect("a pattern");
        assert!(table.insert(&pattern, text.clone(), MatchCost::of_value(1, 1)).is_ok(), "{text}");
    }
    for path in ["", "a", "b", "c", "a/a", "a/b", "b/c", "c/a/a", "a/b/c", "b/b/b"] {
        let mut all = Vec::new();
        table.visit(path.as_bytes(), &mut |text, _| {
            all.push(text.clone());
            false
        });
        let mut expected: Vec<_> =
            texts.iter().filter(|text| matches(text, path)).cloned().collect();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected, "{path}");
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    let split = |text: &str| -> Vec<String> {
        text.split('/').filter(|text| !text.is_empty()).map(String::from).collect()
    };
    let (pattern, path) = (split(pattern), split(path));
    let open = pattern.last().is_some_and(|last| last == "*");
    let plain = &pattern[..pattern.len() - usize::from(open)];
    let long = if open { path.len() >= plain.len() } else { path.len() == plain.len() };
    long && plain.iter().zip(&path).all(|(one, other)| one.starts_with(':') || one == other)
}

#[test]
fn a_star_stands_for_any_text() {
    let table = table(&["/*", "/*.js", "/*/p.json", "/a/x*y/z", "/a/*.js", "/a%20b*"]);
    for (path, expected) in [
        ("b.js", vec!["/*.js [b]", "/* [b.js]"]),
        ("a/b.js", vec!["/a/*.js [b]", "/*.js [a/b]", "/* [a/b.js]"]),
        ("p.json", vec!["/* [p.json]"]),
        ("c/d/p.json", vec!["/*/p.json [c/d]", "/* [c/d/p.json]"]),
        ("a/xx/yy/z", vec!["/a/x*y/z [x/y]", "/* [a/xx/yy/z]"]),
        ("a/xy/z", vec!["/a/x*y/z []", "/* [a/xy/z]"]),
        ("a/x/z", vec!["/* [a/x/z]"]),
        ("a b", vec!["/a%20b* []", "/* [a b]"]),
        ("a bc/d", vec!["/a%20b* [c/d]", "/* [a bc/d]"]),
    ] {
        assert_eq!(found(&table, path), expected, "{path}");
    }
}

#[test]
fn a_file_has_the_patterns_of_all_its_names_once() {
    let texts = "/ /* /a /a/* /a/index.html /a/index /a/:x /b /b.html /:y /b/* /*.html /*dex /a*";
    let table = table(&texts.split(' ').collect::<Vec<_>>());
    let check = |path: &'static str, clean: Option<&'static str>, folder, expected: &[&str]| {
        let clean = clean.map(str::as_bytes);
        let folder = Option::map(folder, str::as_bytes);
        let mut all = Vec::new();
        let names = Names { path: path.as_bytes(), clean, folder };
        table.visit_names(names, &mut |text| all.push(*text));
        assert_eq!(all, expected, "{path} {clean:?} {folder:?}");
    };
    check("index.html", None, Some(""), &["/", "/:y", "/*.html", "/*"]);
    check("b.html", None, None, &["/b.html", "/:y", "/*.html", "/*"]);
    check("b.html", Some("b"), None, &["/b.html", "/b", "/b/*", "/:y", "/*.html", "/*"]);
    let own = ["/a/index.html", "/a", "/a/:x", "/a/*", "/:y", "/*.html", "/a*", "/*"];
    check("a/index.html", None, Some("a"), &own);
    let all = "/a/index.html /a/index /a /a/:x /a/* /:y /*.html /*dex /a* /*";
    let all: Vec<_> = all.split(' ').collect();
    check("a/index.html", Some("a/index"), Some("a"), &all);
}

/// The cost of a path: steps, and values.
fn cost<T>(table: &Patterns<T>, names: Names<'_>, of: impl Fn(&T) -> MatchCost) -> MatchCost {
    let mut cost = MatchCost::default();
    let mut walk = Walk::new(table, names);
    walk.run(&mut |value, _| {
        cost = cost.plus(of(value));
        false
    });
    MatchCost { steps: walk.steps, ..cost }
}

/// All paths of these segments, up to a length.
fn paths(segments: &[&str], length: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..length {
        let before = all.len();
        for at in from..before {
            for segment in segments {
                let slash = if all[at].is_empty() { "" } else { "/" };
                all.push(format!("{}{slash}{segment}", all[at]));
            }
        }
        from = before;
    }
    all
}

/// Plain segments and names that both match would double the work at each segment. The table
/// refuses more, and its worst path takes no more steps than a path may.
#[test]
fn the_worst_path_of_a_table_at_its_limit_is_bounded() {
    let mut table = Patterns::default();
    let mut refused = 0;
    for number in 0..4_096_u32 {
        let part = |at: u32| if number >> at & 1 == 0 { "/a".into() } else { format!("/:n{at}") };
        let text: String = (0..12).map(part).collect();
        let text = if (number.count_ones()) > 8 { text.replace(":n1/", "a/") } else { text };
        let Ok(pattern) = Pattern::parse(&text) else { continue };
        match table.insert(&pattern, number, MatchCost::of_value(1, 1)) {
            Err(Refused::Full(why)) => {
                assert_eq!(why, Full::Steps);
                refused += 1;
            }
            Ok(()) | Err(Refused::Taken(_)) => {}
        }
    }
    assert!(refused > 2_000, "{refused}");
    assert!(table.worst().steps <= STEPS_MAX);
    let steps = |path: String| {
        let names = Names { path: path.as_bytes(), ..Names::default() };
        cost(&table, names, |_| MatchCost::of_value(1, 1)).steps
    };
    let worst = paths(&["a", "b"], 12).into_iter().map(steps).max().expect("there are paths");
    assert!(worst > STEPS_MAX / 4 && worst <= table.worst().steps, "{worst}");
}

/// Globs of as many suffixes as a configuration may have: the table refuses what would make a path
/// cost more than its bound, and the bound is not exceeded.
#[test]
fn globs_of_many_suffixes_are_bounded() {
    let mut table = Patterns::with_values_max(64, 16 << 10);
    let (mut added, mut refused) = (Vec::new(), 0);
    for number in 0..4_096_u32 {
        let glob = ["**/*.", "/a/**/*.", "/a/b/**/*."][number as usize % 3];
        let pattern = format!("{glob}s{number}");
        for text in crate::pattern::expand(&pattern).expect("a glob") {
            let pattern = Pattern::parse(&text).expect("a pattern");
            match table.insert(&pattern, number, MatchCost::of_value(1, 100)) {
                Ok(()) => added.push(number),
                Err(other) => {
                    assert_eq!(other, Refused::Full(Full::Steps));
                    refused += 1;
                }
            }
        }
    }
    assert!(added.len() > 400 && refused > 3_000, "{} {refused}", added.len());
    assert!(table.worst().steps <= STEPS_MAX);
    for number in 0..4_096 {
        let path = format!("a/b/c.s{number}");
        let names = Names { path: path.as_bytes(), ..Names::default() };
        let found = cost(&table, names, |_| MatchCost::of_value(1, 100));
        assert!(found.is_within(table.worst()), "{path} {found:?}");
        assert_eq!(found.items, u32::from(added.contains(&number)), "{path}");
    }
}

#[test]
fn a_refused_pattern_leaves_no_trace() {
    let mut table = Patterns::with_values_max(3, 100);
    let pattern = |text| Pattern::parse(text).expect("a pattern");
    assert_eq!(table.insert(&pattern("/*"), 0, MatchCost::of_value(2, 50)), Ok(()));
    assert_eq!(table.insert(&pattern("/a/b"), 1, MatchCost::of_value(1, 50)), Ok(()));
    let before = format!("{:?}", table.nodes);
    for (text, items, bytes) in
        [("/a/:x", 1, 0), ("/*.js", 2, 0), ("/a/b/*", 0, 1), ("/:x/:y", 1, 0)]
    {
        let cost = MatchCost::of_value(items, bytes);
        let refused = Err(Refused::Full(Full::Values));
        assert_eq!(table.insert(&pattern(text), 2, cost), refused, "{text}");
        assert_eq!(format!("{:?}", table.nodes), before, "{text}");
    }
    assert_eq!(table.replace(&pattern("/*"), 3, MatchCost::of_value(3, 50)), Err(Full::Values));
    assert_eq!(table.get(&pattern("/*")), Some(&0));
    assert_eq!(table.insert(&pattern("/c/b"), 2, MatchCost::of_value(1, 50)), Ok(()));
    assert_eq!(table.insert(&pattern("/b/*"), 2, MatchCost::of_value(1, 0)), Ok(()));
    assert_eq!(table.replace(&pattern("/b/*"), 3, MatchCost::of_value(0, 0)), Ok(()));
    assert_eq!(table.get(&pattern("//b/*")), Some(&3));
}

/// Tables of patterns drawn at random: no path costs more than the bound.
#[test]
fn no_path_costs_more_than_the_bound() {
    let parts = ["/a", "/b", "/:x", "/:y", "/a.html", "/b.html", "/*", "/*.html", "/a*", "/*a"];
    let paths = paths(&["a", "b", "c", "a.html", "b.html"], 4);
    let mut dice = 1_u32;
    let mut draw = |sides: usize| {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (dice >> 16) as usize % sides
    };
    for _ in 0..40 {
        let mut table = Patterns::with_values_max(40, 400);
        for _ in 0..30 {
            let text: String = (0..=draw(4)).map(|_| parts[draw(parts.len())]).collect();
            let Ok(pattern) = Pattern::parse(&text) else { continue };
            let items = u32::try_from(draw(4)).expect("a small number");
            let cost = MatchCost::of_value(items, items * 7);
            let _ = table.insert(&pattern, cost, cost);
        }
        let worst = table.worst();
        assert!(worst.is_within(table.limit));
        for path in &paths {
            let clean = path.strip_suffix(PAGE_SUFFIX).map(str::as_bytes);
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).as_bytes();
            let folder = Some(folder).filter(|_| path.ends_with('c'));
            let path = path.as_bytes();
            for names in [Names { path, ..Names::default() }, Names { path, clean, folder }] {
                let found = cost(&table, names, |&cost| cost);
                assert!(found.is_within(worst), "{names:?} {found:?} {worst:?}");
            }
        }
    }
}
