//! Executable files that tests make. Another process writes each: a child that another test of this
//! process forks could keep a file of ours open for writing, and executing that fails (ETXTBSY).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Copies a program.
///
/// # Panics
/// It cannot be copied.
#[track_caller]
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("install").args(["-m", "755"]).arg(from).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "{}", from.display());
}

/// Writes a script of the shell.
///
/// # Panics
/// It cannot be written.
#[track_caller]
pub fn script(path: &Path, text: &str) {
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut install = install.spawn().expect("install(1)");
    let mut to = install.stdin.take().expect("piped");
    to.write_all(format!("#!/bin/sh\n{text}\n").as_bytes()).expect("install reads");
    drop(to);
    assert!(install.wait().is_ok_and(|status| status.success()), "{}", path.display());
}

#[cfg(test)]
mod tests {
    use super::{copy, script};
    use crate::folder::Folder;
    use std::process::Command;

    #[test]
    fn what_is_written_runs() {
        let folder = Folder::new("executables");
        let [one, two] = ["one", "two"].map(|name| folder.join(name));
        script(&one, "exit 7");
        copy(&one, &two);
        for path in [&one, &two] {
            assert_eq!(Command::new(path).status().expect("it runs").code(), Some(7));
        }
    }
}
