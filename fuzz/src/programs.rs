//! Whole programs: a connection, a world of them, a configuration.
use regatta_server::config::{
    environment::Environment,
    options,
    raw::{Arguments, FileText, read},
    rules_files,
};
use regatta_sim::{run_bytes, run_http2_wire, run_wire};
use regatta_sys::groups::limits;
use std::path::{Component, Path};

/// A world of connections, compared with its model. The bytes make every decision.
pub fn conn(bytes: &[u8]) {
    if let Err(violation) = run_bytes(bytes) {
        panic!("{violation}");
    }
}

/// A single connection that receives the bytes unchanged.
pub fn wire(bytes: &[u8]) {
    if let Err(what) = run_wire(bytes) {
        panic!("{what}");
    }
}

/// A connection of HTTP/2 that receives the bytes behind its preface.
pub fn link_h2(bytes: &[u8]) {
    if let Err(what) = run_http2_wire(bytes) {
        panic!("{what}");
    }
}

/// A configuration file: every mistake has its place, and good settings print as they were given.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = |text| FileText { name: "fuzz.toml", text };
    let (said, problems) = read(&[file(text)], &Arguments::default(), &Environment::default());
    for problem in &problems {
        assert!(!problem.message.is_empty());
        assert!(problem.place.to_string().starts_with("fuzz.toml:"), "{problem:?}");
    }
    let printed = options::print(&said.settings) + &said.print_rows();
    let (again, problems) = read(&[file(&printed)], &Arguments::default(), &Environment::default());
    assert!(problems.is_empty(), "{problems:?}\n{printed}");
    assert_eq!(options::print(&again.settings) + &again.print_rows(), printed);
}

/// A `_headers` and a `_redirects`: every mistake has its place, and so does every rule.
pub fn site_rules(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = FileText { name: "fuzz", text };
    let (mut said, _) = read(&[], &Arguments::default(), &Environment::default());
    let mut problems = rules_files::headers(file, &mut said);
    problems.extend(rules_files::redirects(file, &mut said));
    let rows = ["headers", "redirects"].map(|table| said.rows(table));
    assert!(rows.iter().all(|rows| rows.len() <= text.lines().count()));
    let places = problems.iter().map(|problem| &problem.place);
    for place in places.chain(rows.iter().flat_map(|rows| rows.iter().map(|row| &row.place))) {
        assert!(place.to_string().starts_with("fuzz:"), "{place}");
    }
}

/// `/proc/self/cgroup`, `/proc/self/mountinfo` and the text of every file of a group, between NULs.
/// Only files of groups are read, none through `..`, and a quota allows a processor.
pub fn groups(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, '\0');
    let mut next = || parts.next().unwrap_or_default();
    let (cgroup, mountinfo, value) = (next(), next(), next());
    let group = limits(cgroup, mountinfo, &|file: &Path| {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a file has a name");
        let kinds = ["cpu.", "memory.", "pids."];
        assert!(kinds.iter().any(|kind| name.starts_with(kind)), "{name}");
        // The kernel writes the mounts; any user may name a group.
        let up = |path: &Path| path.components().any(|part| part == Component::ParentDir);
        assert!(!up(file) || mountinfo.contains(".."), "{}", file.display());
        Some(value.to_owned())
    });
    assert!(group.quota.is_none_or(|quota| quota.period_us > 0 && quota.processors() > 0));
}
