//! The two programs, as cargo has built them for the test that runs.

use std::env;
use std::path::{Path, PathBuf};

/// Path of the server's program, `regatta`.
///
/// # Panics
/// The program is missing, or older than its sources. The message has the command that builds it.
#[track_caller]
pub fn regatta() -> PathBuf {
    built("regatta")
}

/// Path of the lab's program, `regatta-lab`.
///
/// # Panics
/// As [`regatta`].
#[track_caller]
pub fn regatta_lab() -> PathBuf {
    built("regatta-lab")
}

#[track_caller]
fn built(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    // Cargo puts tests into TARGET/PROFILE/deps and programs into TARGET/PROFILE.
    let folder = test.ancestors().nth(2).expect("a test is two folders deep");
    let path = folder.join(name);
    if let Some(fault) = fault(&path) {
        panic!("{fault}: run `{}`", command(folder));
    }
    path
}

/// Fault of a built program.
fn fault(program: &Path) -> Option<String> {
    let changed = |path: &Path| path.metadata().and_then(|about| about.modified()).ok();
    let Some(built) = changed(program) else {
        return Some(format!("{} is missing", program.display()));
    };
    // Cargo's list of sources: `program: source source`, with spaces escaped.
    let listed = std::fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    let (_, sources) = listed.split_once(": ")?;
    let sources = sources.replace("\\ ", "\0");
    let mut sources = sources.split_whitespace().map(|source| source.replace('\0', " "));
    let newer = sources.find(|source| changed(Path::new(source)).is_some_and(|at| at > built))?;
    Some(format!("{} is older than {newer}", program.display()))
}

/// The command that builds both programs into `folder`.
fn command(folder: &Path) -> String {
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => String::new(),
        Some(profile) => format!(" --profile {profile}"),
    };
    format!("cargo build{profile} -p regatta -p regatta-lab")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    #[test]
    fn the_command_builds_what_the_test_looks_for() {
        let both = "-p regatta -p regatta-lab";
        assert_eq!(command(Path::new("/t/debug")), format!("cargo build {both}"));
        assert_eq!(command(Path::new("/t/soak")), format!("cargo build --profile soak {both}"));
    }

    #[test]
    fn missing_and_outdated_programs_are_named() {
        let folder = Folder::new("programs");
        fs::create_dir_all(folder.join("a b")).unwrap();
        let (program, source) = (folder.join("regatta"), folder.join("a b/main.rs"));
        assert_eq!(fault(&program), Some(format!("{} is missing", program.display())));
        let escaped = source.display().to_string().replace(' ', "\\ ");
        fs::write(folder.join("regatta.d"), format!("{}: /none {escaped}", program.display()))
            .unwrap();
        let at = |path: &Path, seconds: u64| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds);
            File::create(path).unwrap().set_modified(time).unwrap();
        };
        at(&source, 1);
        at(&program, 2);
        assert_eq!(fault(&program), None);
        at(&source, 3);
        let said = fault(&program).unwrap_or_default();
        assert!(said.ends_with(&format!("is older than {}", source.display())), "{said}");
    }
}
