//! The project's root; running cargo and other programs.

use crate::task_error::TaskError;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Cargo's variables for what one run of the tests does not use, with values that leave it out:
/// what the next build of a changed crate could use, and line tables.
const SAVED: [(&str, &str); 2] = [("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "none")];

/// Root of the workspace.
pub fn project_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies one folder below the root").to_owned()
}

/// Every file below `root` that is not built, fetched or recorded.
pub fn files_below(root: &Path) -> Vec<PathBuf> {
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
pub fn cargo() -> Command {
    let mut command = cargo_here();
    command.current_dir(project_root());
    command
}

/// The same, in the directory of the user.
fn cargo_here() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Has cargo build the project's own crates with clippy's compiler, which reports lints as
/// warnings. A separate `cargo clippy` would check all of them a second time, and all libraries.
/// Unless the user wants them, nothing is kept for the next change of a crate, and programs have no
/// line tables. The first takes a sixth of the time of a build from nothing, the second a tenth.
pub fn linted(cargo: &mut Command) -> Result<&mut Command, TaskError> {
    let sysroot = output_of(Command::new("rustc").args(["--print", "sysroot"]));
    let driver = sysroot.map(|path| PathBuf::from(path).join("bin/clippy-driver"));
    let driver = driver.filter(|driver| driver.is_file()).ok_or(TaskError::Clippy)?;
    cargo.env("RUSTC_WORKSPACE_WRAPPER", driver);
    for (variable, value) in SAVED {
        if std::env::var_os(variable).is_none() {
            cargo.env(variable, value);
        }
    }
    Ok(cargo)
}

/// Builds `regatta-tools`, and becomes it with these words. Returns only if that fails.
pub fn become_tool(words: impl Iterator<Item = OsString>) -> TaskError {
    let mut cargo = cargo_here();
    cargo.args(["run", "--quiet", "--package", "regatta-tools", "--manifest-path"]);
    cargo.arg(project_root().join("Cargo.toml")).arg("--").args(words);
    match linted(&mut cargo) {
        Ok(cargo) => TaskError::attempting("run", "cargo")(cargo.exec()),
        Err(error) => error,
    }
}

/// Builds a program, `regatta` or `regatta-lab`, as users have it.
pub fn build_release(program: &str) -> Result<PathBuf, TaskError> {
    let mut build = cargo();
    match succeeds(build.args(["build", "--package", program, "--profile", "release"]))? {
        true => Ok(target_dir().join("release").join(program)),
        false => Err(TaskError::Build(program.to_owned())),
    }
}

/// Directory for cargo's output.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| project_root().join("target"), PathBuf::from)
}

/// Runs a command to its end; true if it succeeded.
pub fn succeeds(command: &mut Command) -> Result<bool, TaskError> {
    let ended = command.status();
    let ended = ended.map_err(TaskError::attempting("run", command.get_program().display()));
    ended.map(|status| status.success())
}

/// Standard output of a program; `None` if it fails or is missing.
pub fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The platform for which rustc builds, `x86_64-unknown-linux-gnu`.
pub fn host_triple() -> Result<String, TaskError> {
    let version = output_of(Command::new("rustc").arg("-vV")).unwrap_or_default();
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or(TaskError::NoHost(version))
}

/// Path of a program, looked for where a shell would and in the system's own folders, which only
/// root's shell looks into.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(usual);
    folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))
}

/// Finds a program, or says what is needed: `needs X (apt-get install X)`.
pub fn require(program: &str, package: &str) -> Result<PathBuf, TaskError> {
    find_program(program).ok_or_else(|| TaskError::Program(program.to_owned(), package.to_owned()))
}
