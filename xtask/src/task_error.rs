//! Reasons why a task cannot be done, as opposed to checks that fail.
use std::error::Error;
use std::process::ExitCode;
use std::{fmt, io};

/// Reason why a task cannot be done.
#[derive(Debug)]
pub enum TaskError {
    /// An action, its object, and the error of the system.
    System(&'static str, String, io::Error),
    /// A fault of the lab's code.
    Lab(Box<dyn Error>),
    /// A flag, its value, and the fault of the value.
    Flag(&'static str, String, Box<dyn Error>),
    /// A missing program, and the Debian package that has it.
    Program(String, String),
    /// Clippy is missing.
    Clippy,
    /// The fuzz targets are missing.
    FuzzTargets,
    /// Fuzzing lacks its program or a nightly compiler.
    CargoFuzz,
    /// The limit on descriptors is below this number.
    Descriptors(u64),
    /// A program does not build.
    Build(String),
    /// A command line that failed.
    Command(String),
    /// A signal ended the task.
    Interrupted,
    /// The server of this architecture does not start.
    NoStart(String),
    /// The server of this architecture has ended.
    Ended(String),
    /// The caches of this architecture do not fill.
    NotFull(String),
    /// An address for security reports that reaches no reader.
    Placeholder(String),
    /// The script that runs after an upgrade, which would restart the server.
    RestartingScript(String),
    /// The Debian package has no maintainer.
    NoMaintainer,
    /// Output of `rustc -vV`, which names no platform.
    NoHost(String),
}

/// Exit code of a task: 0 if it succeeded, else 1. An error is printed.
#[must_use]
pub fn exit_code(outcome: Result<bool, TaskError>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(1)
        }
    }
}

impl TaskError {
    /// Maps an error of the system to the attempt: `cannot {action} {what}`.
    pub fn attempting(action: &'static str, what: impl fmt::Display) -> impl Fn(io::Error) -> Self {
        move |error| Self::System(action, what.to_string(), error)
    }

    /// A fault of the lab's code.
    pub fn lab(error: impl Into<Box<dyn Error>>) -> Self {
        Self::Lab(error.into())
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(action, what, error) => write!(f, "cannot {action} {what}: {error}"),
            Self::Lab(error) => write!(f, "{error}"),
            Self::Flag(flag, text, error) => write!(f, "{flag} {text}: {error}"),
            Self::Program(name, package) => write!(f, "needs {name} (apt-get install {package})"),
            Self::Clippy => f.write_str("needs clippy (rustup component add clippy)"),
            Self::FuzzTargets => f.write_str("needs fuzz/Cargo.toml"),
            Self::CargoFuzz => f.write_str(
                "needs cargo-fuzz and a nightly compiler (cargo install cargo-fuzz; \
                 rustup toolchain install nightly)",
            ),
            Self::Descriptors(count) => write!(f, "needs {count} descriptors (ulimit -n)"),
            Self::Build(program) => write!(f, "{program} does not build"),
            Self::Command(line) => write!(f, "failed: {line}"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::NoStart(name) => write!(f, "{name}: the server does not start"),
            Self::Ended(name) => write!(f, "{name}: the server has ended"),
            Self::NotFull(name) => write!(f, "{name}: not all caches fill"),
            Self::Placeholder(address) => write!(
                f,
                "SECURITY.md: {address} is a placeholder; write the address that reports reach"
            ),
            Self::RestartingScript(text) => {
                write!(f, "an upgrade would restart what runs and is to be followed:\n{text}")
            }
            Self::NoMaintainer => f.write_str("deploy/debian/control has no Maintainer"),
            Self::NoHost(said) => write!(f, "rustc said {said:?}"),
        }
    }
}

impl Error for TaskError {}
