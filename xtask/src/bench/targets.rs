//! The servers that are compared, each as its own manual says it is fastest and with one worker.

use super::process::{Launch, Scratch};
use crate::command::{output_of, require};
use regatta_lab::programs::{Other, Sendfile, Serving};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A body of at least this many bytes is sent by the bare loop with `sendfile`.
const SENDFILE_BYTES_MIN: usize = 64 * 1024;

/// A server under one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The name in the table.
    pub(crate) name: String,
    kind: Kind,
    program: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Our server under an architecture, with further `--set` words.
    Regatta(String, Vec<String>),
    /// Our bare loop.
    Null,
    /// Somebody else's; nginx with or without `sendfile`.
    Other(Other, Sendfile),
}

/// Our own binaries.
#[derive(Debug, Clone)]
pub(crate) struct Ours {
    /// The one that is measured; None if it could not be built.
    pub(crate) regatta: Option<PathBuf>,
    /// One to compare it with.
    pub(crate) before: Option<PathBuf>,
    /// `key=value` for every Regatta.
    pub(crate) set: Vec<String>,
}

/// The names that `--targets` takes.
pub(crate) const NAMES: &str = "regatta regatta-again regatta/ARCHITECTURE regatta-before null \
     nginx nginx-copy lighttpd h2o apache apache-worker caddy";

impl Target {
    /// Finds what a name stands for and, where possible, installs what it needs.
    ///
    /// # Errors
    /// One phrase that says why this target cannot be measured here.
    pub(crate) fn find(name: &str, ours: &Ours) -> Result<Self, String> {
        let regatta = || ours.regatta.clone().ok_or("needs the regatta binary".to_owned());
        let sped = || Kind::Regatta("sped".to_owned(), ours.set.clone());
        let other = |other: Other, sendfile| {
            let program = require(other.program(), other.package())?;
            Ok::<_, String>((Kind::Other(other, sendfile), program))
        };
        let (kind, program) = match name {
            "regatta" | "regatta-again" => (sped(), regatta()?),
            "regatta-before" => {
                (sped(), ours.before.clone().ok_or("needs --before BINARY".to_owned())?)
            }
            "null" => {
                let program = regatta()?;
                let mut asked = Command::new(&program);
                if output_of(asked.args(["null", "--help"])).is_none() {
                    return Err("this regatta has no `null`".to_owned());
                }
                (Kind::Null, program)
            }
            "nginx-copy" => other(Other::Nginx, Sendfile::Off)?,
            name => match (name.strip_prefix("regatta/"), Other::named(name)) {
                (Some(name), _) => (Kind::Regatta(name.to_owned(), ours.set.clone()), regatta()?),
                (None, Some(named)) => other(named, Sendfile::On)?,
                (None, None) => return Err(format!("no such target; there are: {NAMES}")),
            },
        };
        Ok(Self { name: name.to_owned(), kind, program })
    }

    /// The program's own word for its version.
    pub(crate) fn version(&self) -> String {
        let said = match self.kind {
            Kind::Regatta(..) | Kind::Null => {
                output_of(Command::new(&self.program).arg("--version"))
            }
            Kind::Other(other, _) => other.version(&self.program),
        };
        said.unwrap_or_else(|| "unknown".to_owned())
    }

    /// What it must answer with instead of the file of `bytes` bytes, if it has bytes of its own.
    pub(crate) fn own_body(&self, bytes: usize) -> Option<Vec<u8>> {
        (self.kind == Kind::Null && bytes < SENDFILE_BYTES_MIN).then(|| vec![b'x'; bytes])
    }

    /// How to start it at `place`. Its own files go into `scratch`, what it says into `errors`.
    ///
    /// # Errors
    /// If its configuration cannot be written.
    pub(crate) fn launch<'a>(
        &self,
        place: &Place<'_>,
        scratch: &Scratch,
        errors: &'a Path,
    ) -> Result<Launch<'a>, String> {
        let mut command = Command::new(&self.program);
        let mut as_nobody = false;
        match &self.kind {
            Kind::Regatta(architecture, set) => {
                command.arg("serve").arg(place.root);
                command.args(["--listen", &place.address.to_string()]);
                command.args(["--architecture", architecture]);
                command.args(set.iter().flat_map(|pair| ["--set", pair]));
            }
            Kind::Null => {
                command.args(["null", "--listen", &place.address.to_string()]);
                command.args(null_words(place));
            }
            Kind::Other(other, sendfile) => {
                let words = other.command(
                    &self.program,
                    &Serving {
                        address: place.address,
                        root: place.root,
                        scratch: scratch.path(),
                        workers: 1,
                        sendfile: *sendfile,
                    },
                )?;
                command = Command::new(&words[0]);
                command.args(&words[1..]);
                as_nobody = other.as_nobody();
            }
        }
        Ok(Launch { command, cpu: place.cpu, errors: Some(errors), as_nobody })
    }
}

/// Where a server is to serve what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The folder that it serves.
    pub(crate) root: &'a Path,
    /// The file below it that will be asked for.
    pub(crate) file: &'a str,
    /// The file's length in bytes.
    pub(crate) bytes: usize,
    /// The CPU that it may use.
    pub(crate) cpu: Option<usize>,
}

/// The bare loop answers every request alike: with bytes from memory, or with the file.
fn null_words(place: &Place<'_>) -> Vec<std::ffi::OsString> {
    if place.bytes >= SENDFILE_BYTES_MIN {
        vec!["--file".into(), place.root.join(place.file).into()]
    } else {
        vec!["--body".into(), place.bytes.to_string().into()]
    }
}

#[cfg(test)]
mod tests {
    use super::{Ours, Target};

    #[test]
    fn unknown_targets_are_refused() {
        let ours = Ours { regatta: None, before: None, set: Vec::new() };
        assert!(Target::find("iis", &ours).is_err_and(|why| why.contains("regatta-again")));
        assert!(Target::find("regatta", &ours).is_err_and(|why| why.contains("needs")));
        assert!(Target::find("regatta-before", &ours).is_err_and(|why| why.contains("--before")));
    }
}
