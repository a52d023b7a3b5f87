//! Prints the commit of a release build: `--version` shows it, and each run of the lab records it.
//! Other builds are too frequent to be linked again for each commit. Tests start those thousands of
//! times, so they have a fixed address: to relocate them took a tenth of a server's start.
use std::path::Path;
use std::process::Command;

fn main() {
    // Both programs are built with this file.
    println!("cargo:rerun-if-changed=../regatta/build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = commit().map_or(String::new(), |commit| format!(" ({commit})"));
    println!("cargo:rustc-env=REGATTA_VERSION={version}{commit}");
    if !is_release() {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}

fn is_release() -> bool {
    std::env::var("PROFILE").as_deref() == Ok("release")
}

/// Returns the commit of a release build, with `-dirty` where files differ from it.
fn commit() -> Option<String> {
    if !is_release() {
        return None;
    }
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12"])?;
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo:rerun-if-changed={log}");
        println!("cargo:rerun-if-changed=..");
    }
    Some(commit)
}

/// Output of git; `None` without a repository, as in an archive of the sources.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned()).filter(|said| !said.is_empty())
}
