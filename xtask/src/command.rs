//! The project's root; running cargo and other programs; signals to stop.

use crate::task_error::TaskError;
use regatta_lab_core::programs::find as find_program;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Root of the workspace.
pub(crate) fn project_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies one folder below the root").to_owned()
}

/// Every file below `root` that is not built, fetched or recorded.
pub(crate) fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let skipped = [".git", "target", "results", "artifacts", "corpus"];
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && !skipped.iter().any(|skip| name == *skip) {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    files
}

/// The cargo that runs us, or the one on the path.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(project_root());
    command
}

/// Builds a program, `regatta` or `regatta-lab`, as users have it.
pub(crate) fn build_release(program: &str) -> Result<PathBuf, TaskError> {
    let mut build = cargo();
    match succeeds(build.args(["build", "--package", program, "--profile", "release"]))? {
        true => Ok(target_dir().join("release").join(program)),
        false => Err(TaskError::Build(program.to_owned())),
    }
}

/// Directory for cargo's output.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| project_root().join("target"), PathBuf::from)
}

/// Becomes true when the user or the system asks us to stop (SIGINT, SIGTERM, SIGHUP); the second
/// signal ends us at once.
pub(crate) fn interrupt() -> Result<Arc<AtomicBool>, TaskError> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let number = signal.as_raw();
        signal_hook::flag::register_conditional_shutdown(number, 130, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(number, Arc::clone(&flag)))
            .map_err(TaskError::attempting("take", "signals"))?;
    }
    Ok(flag)
}

/// Runs a command to its end; true if it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool, TaskError> {
    let ended = command.status();
    let ended = ended.map_err(TaskError::attempting("run", command.get_program().display()));
    ended.map(|status| status.success())
}

/// Standard output of a program; `None` if it fails or is missing.
pub(crate) fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The platform for which rustc builds, `x86_64-unknown-linux-gnu`.
pub(crate) fn host_triple() -> Result<String, TaskError> {
    let version = output_of(Command::new("rustc").arg("-vV")).unwrap_or_default();
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or(TaskError::NoHost(version))
}

/// Finds a program, or says what is needed: `needs X (apt-get install X)`.
pub(crate) fn require(program: &str, package: &str) -> Result<PathBuf, TaskError> {
    find_program(program).ok_or_else(|| TaskError::Program(program.to_owned(), package.to_owned()))
}
