//! Whole programs: a connection, a world of them, a configuration.
use regatta_server::config::{
    options,
    raw::{Arguments, FileText, read},
};
use regatta_sim::{run_bytes, run_wire};

/// A world of connections, in which every decision is made by the bytes, before its model.
pub fn conn(bytes: &[u8]) {
    if let Err(violation) = run_bytes(bytes) {
        panic!("{violation}");
    }
}

/// One connection, which is sent the bytes as they are.
pub fn wire(bytes: &[u8]) {
    if let Err(what) = run_wire(bytes) {
        panic!("{what}");
    }
}

/// A configuration file: every mistake is reported at a place in it, and what is good comes back
/// as it was said.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = |text| FileText { name: "fuzz.toml", text };
    let (said, problems) = read(Some(file(text)), &Arguments::default());
    for problem in &problems {
        assert!(!problem.message.is_empty());
        assert!(problem.place.to_string().starts_with("fuzz.toml:"), "{problem:?}");
    }
    let printed = options::print(&said.settings);
    let (again, problems) = read(Some(file(&printed)), &Arguments::default());
    assert!(problems.is_empty(), "{problems:?}\n{printed}");
    assert_eq!(options::print(&again.settings), printed);
}
