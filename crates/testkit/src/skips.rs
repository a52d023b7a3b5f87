//! Reports of tests that must leave something out here. The usual harness hides the output of
//! passing tests. `cargo xtask test` reads the reports, and does not count these tests as passed.

use std::fs::File;
use std::io::Write;

/// Reports that the running test leaves something out, and why: on standard error, and in the file
/// that `cargo xtask test` names.
///
/// # Panics
/// The file cannot be written.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    // The harness names the thread after the test.
    let test = thread.name().unwrap_or("a test");
    // Cargo names the package of the tests that it runs.
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "a package".to_owned());
    let line = format!("{package}: {test}: {}\n", why.replace('\n', " "));
    // `eprint!` would pass it to the harness, which hides it.
    let _ = std::io::stderr().write_all(format!("skipped: {line}").as_bytes());
    let Some(path) = std::env::var_os("REGATTA_SKIPS") else { return };
    let file = File::options().append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("the file that `cargo xtask test` has made");
}
