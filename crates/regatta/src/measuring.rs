//! Commands that measure, which the program `regatta-lab` has: `regatta lab` and the others run it,
//! as git runs its subcommands.
use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::Command,
};

/// Text below the list of commands.
pub(crate) const HELP: &str = "Example: regatta serve ./public\n\n\
    Commands that measure servers come with the program regatta-lab:\n\
    regatta lab, regatta load, regatta workload, regatta null.";

/// Program that measures.
const PROGRAM: &str = "regatta-lab";
/// Commands of that program which this one passes on.
const COMMANDS: [&str; 4] = ["lab", "load", "workload", "null"];

/// Reason for which a command that measures does not run.
#[derive(Debug)]
pub(crate) struct NotRun {
    command: OsString,
    /// The directory of this program.
    directory: PathBuf,
    /// The first error other than a missing file.
    refused: Option<(PathBuf, io::Error)>,
}

/// Becomes `regatta-lab` with the same arguments, if the first of `words`, or the one after `help`,
/// is a command that measures. Returns only if it is none, or why it does not run.
pub(crate) fn run_if_asked(words: impl IntoIterator<Item = OsString>) -> Option<NotRun> {
    let words: Vec<OsString> = words.into_iter().skip(1).collect();
    let command = words.iter().find(|word| *word != "help")?.clone();
    if !COMMANDS.iter().any(|known| command == *known) {
        return None;
    }
    let own = env::current_exe().ok();
    let directory = own.and_then(|own| Some(own.parent()?.to_owned())).unwrap_or_default();
    let mut refused = None;
    // The PATH is searched for a name without a slash.
    for program in [directory.join(PROGRAM), PathBuf::from(PROGRAM)] {
        let error = Command::new(&program).args(&words).exec();
        if error.kind() != io::ErrorKind::NotFound && refused.is_none() {
            refused = Some((program, error));
        }
    }
    Some(NotRun { command, directory, refused })
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = self.command.display();
        match &self.refused {
            Some((program, error)) => {
                write!(f, "`regatta {command}` cannot run {}: {error}", program.display())?;
            }
            None => write!(
                f,
                "`regatta {command}` needs the program {PROGRAM}, which is neither in {} nor on \
                 the PATH",
                self.directory.display()
            )?,
        }
        // Builds of cargo without --release are in a directory of that name.
        let is_debug = self.directory.file_name() == Some(OsStr::new("debug"));
        let release = if is_debug { "" } else { " --release" };
        write!(
            f,
            "\n  hint: build it with `cargo build{release} -p {PROGRAM}`, or install the package \
             {PROGRAM}"
        )
    }
}
