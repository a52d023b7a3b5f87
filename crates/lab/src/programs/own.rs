//! The two programs of this project, which the lab starts.

use super::find;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const REGATTA: &str = "regatta";
pub(crate) const LAB: &str = "regatta-lab";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnPrograms {
    /// `regatta`: the server, and `top`, which reads its counters.
    pub regatta: PathBuf,
    /// `regatta-lab`: the load, the workloads, the bare loop.
    pub lab: PathBuf,
}

/// Reason for which the lab starts no server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoServer {
    Missing {
        directory: PathBuf,
    },
    /// The program is of another version than the lab.
    Differs {
        regatta: PathBuf,
        /// Version of the server; None: it prints none.
        version: Option<String>,
        lab: String,
    },
}

impl OwnPrograms {
    /// Finds the server: in the directory of `lab`, then on the PATH. A server of another version
    /// than `version` is refused unless `any_version` is set.
    ///
    /// # Errors
    /// There is no server, or it is of another version.
    pub fn find(lab: PathBuf, version: &str, any_version: bool) -> Result<Self, NoServer> {
        let directory = lab.parent().unwrap_or(Path::new("/"));
        let own = Some(directory.join(REGATTA)).filter(|path| path.is_file());
        let Some(regatta) = own.or_else(|| find(REGATTA)) else {
            return Err(NoServer::Missing { directory: directory.to_owned() });
        };
        let found = version_line(&regatta);
        let found = found.and_then(|line| Some(line.strip_prefix(REGATTA)?.trim().to_owned()));
        if any_version || found.as_deref() == Some(version) {
            return Ok(Self { regatta, lab });
        }
        Err(NoServer::Differs { regatta, version: found, lab: version.to_owned() })
    }

    /// Both programs in one directory.
    #[cfg(test)]
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self { regatta: directory.join(REGATTA), lab: directory.join(LAB) }
    }

    /// Each program with the name of its file.
    pub(crate) fn each(&self) -> [(&'static str, &Path); 2] {
        [(REGATTA, &self.regatta), (LAB, &self.lab)]
    }

    /// Version line of each program, by the name of its file.
    pub(crate) fn versions(&self) -> BTreeMap<String, String> {
        let line = |(name, path): (&str, &Path)| Some((name.to_owned(), version_line(path)?));
        self.each().into_iter().filter_map(line).collect()
    }
}

/// The first line that a program prints for `--version`.
pub(crate) fn version_line(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next().filter(|_| output.status.success())?;
    Some(line.trim().to_owned())
}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { directory } => {
                // Builds without --release are in a directory of that name.
                let release = if directory.ends_with("debug") { "" } else { " --release" };
                write!(
                    f,
                    "the server's program {REGATTA} is neither in {} nor on the PATH\n  hint: \
                     build it with `cargo build{release} -p regatta`, or install the package \
                     {REGATTA}",
                    directory.display()
                )
            }
            Self::Differs { regatta, version, lab } => {
                let version = version.as_deref().unwrap_or("unknown");
                write!(
                    f,
                    "the version of {} is {version}, and that of {LAB} is {lab}\n  hint: build \
                     both from one commit (`cargo build --release -p regatta -p regatta-lab`), or \
                     measure this server with --any-version",
                    regatta.display()
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A server that prints `version`, in a directory of its own.
    fn server(folder: &Folder, version: &str) -> PathBuf {
        let path = folder.join(REGATTA);
        fs::write(&path, format!("#!/bin/sh\necho {version}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_server_of_another_version_is_refused() {
        let folder = Folder::new("own");
        let lab = folder.join(LAB);
        let regatta = server(&folder, "'regatta 1.0 (abc)'");
        let both = OwnPrograms { regatta: regatta.clone(), lab: lab.clone() };
        assert_eq!(OwnPrograms::find(lab.clone(), "1.0 (abc)", false), Ok(both.clone()));
        assert_eq!(OwnPrograms::find(lab.clone(), "1.0 (def)", true), Ok(both.clone()));
        assert_eq!(both.versions()[REGATTA], "regatta 1.0 (abc)");
        let why = OwnPrograms::find(lab.clone(), "1.0 (def)", false).unwrap_err().to_string();
        for part in ["1.0 (abc)", "1.0 (def)", "--any-version", "-p regatta -p regatta-lab"] {
            assert!(why.contains(part), "{part}: {why}");
        }
        server(&folder, "");
        let why = OwnPrograms::find(lab, "1.0", false).unwrap_err().to_string();
        assert!(why.contains("is unknown"), "{why}");
    }

    #[test]
    fn a_missing_server_is_named_with_the_command_that_builds_it() {
        let why = |directory: &str| NoServer::Missing { directory: directory.into() }.to_string();
        let said = why("/usr/bin");
        assert!(said.contains("neither in /usr/bin nor on the PATH"), "{said}");
        assert!(said.contains("`cargo build --release -p regatta`"), "{said}");
        assert!(why("/x/target/debug").contains("`cargo build -p regatta`"));
    }
}
