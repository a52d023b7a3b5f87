//! Pages for browsers: whether people can use them by keys, with a screen reader, and on phones.
//! A browser and the rules of axe-core decide: see `checks/pages.mjs`.

use crate::skips::skip;
use std::env;
use std::process::{Command, Stdio};

/// Checks these pages, each a path or a URL. Reports an omission if node, Chromium, or the packages
/// that `REGATTA_NODE_MODULES` should have are missing.
///
/// # Panics
/// A page has a fault, or the check does not end.
#[track_caller]
pub fn check(pages: &[&str]) {
    if env::var_os("REGATTA_NODE_MODULES").is_none() {
        return skip("needs axe-core and puppeteer-core in REGATTA_NODE_MODULES (CONTRIBUTING.md)");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../checks/pages.mjs");
    // `env` ends with 127 without node.
    let ran = Command::new("timeout")
        .args(["--kill-after=5", "400", "env", "node", script])
        .args(pages)
        .stdin(Stdio::null())
        .output()
        .expect("timeout(1)");
    let said = String::from_utf8_lossy(&ran.stdout);
    match ran.status.code() {
        Some(0) => {}
        Some(2) => skip(said.trim()),
        Some(127) => skip("needs node"),
        _ => panic!("{}: {said}{}", ran.status, String::from_utf8_lossy(&ran.stderr)),
    }
}
