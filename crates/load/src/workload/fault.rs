//! Faults of a workload as values with exit codes; directories and files that appear whole or not
//! at all.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Reason why a workload could not be made, read or inspected.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Bad usage: every problem, one sentence each.
    #[error("{}", .0.join("\n"))]
    Usage(Vec<String>),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    /// An input of the command line cannot be read.
    #[error("{}: {source}", .path.display())]
    Input { path: PathBuf, source: io::Error },
    /// A file that is not in its format. Lines count from 1; 0 when no line is to blame. The path
    /// of a stream without a name is `-`.
    #[error("{}{}: {what}", .path.display(), after_path(.line))]
    Format { path: PathBuf, line: u64, what: String },
    /// A file set that is not what it claims to be.
    #[error("{files} files are not what they should be; the first: {first}")]
    Damaged { files: u64, first: String },
    /// Parts of a directory that cannot be read, a line for each; the work is done without them.
    #[error("{}", .0.join("\n"))]
    Unread(Vec<String>),
    /// The caller asked to stop; what was half made is removed.
    #[error("stopped")]
    Stopped,
}

impl Fault {
    /// Exit code of the command line: 2 for bad usage or input, 1 for work that failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Input { .. } | Self::Format { .. } => 2,
            Self::Io { .. } | Self::Damaged { .. } | Self::Unread(_) | Self::Stopped => 1,
        }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::Usage(vec![what.into()])
    }

    /// Fails with these problems of usage, if there are any.
    pub(crate) fn if_any(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self::Usage(problems)) }
    }

    pub(crate) fn format(path: &Path, line: u64, what: impl Into<String>) -> Self {
        Self::Format { path: path.to_owned(), line, what: what.into() }
    }
}

fn after_path(line: &u64) -> String {
    if *line == 0 { String::new() } else { format!(":{line}") }
}

pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, Fault>;
    /// The same for an input of the command line.
    fn input(self, path: &Path) -> Result<T, Fault>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, Fault> {
        self.map_err(|source| Fault::Io { path: path.to_owned(), source })
    }

    fn input(self, path: &Path) -> Result<T, Fault> {
        self.map_err(|source| Fault::Input { path: path.to_owned(), source })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Work, for people: "files", "requests", "lines".
    pub what: &'static str,
    pub done: u64,
    /// 0 when unknown.
    pub total: u64,
}

/// Watcher of a long piece of work. `Break` stops it: the work removes what it half made and
/// returns [`Fault::Stopped`].
pub type Watch<'a> = &'a dyn Fn(Progress) -> core::ops::ControlFlow<()>;

/// Watches nothing and never stops.
pub fn unwatched(_: Progress) -> core::ops::ControlFlow<()> {
    core::ops::ControlFlow::Continue(())
}

/// Tells the watcher, and turns its wish to stop into an error.
pub(crate) fn tell(watch: Watch<'_>, progress: Progress) -> Result<(), Fault> {
    if watch(progress).is_break() { Err(Fault::Stopped) } else { Ok(()) }
}

/// An output directory under construction, next to its final name. Dropped before
/// [`Partial::commit`], it is removed with all that is in it.
#[derive(Debug)]
pub(crate) struct Partial {
    under_way: PathBuf,
    out: PathBuf,
    done: bool,
}

impl Partial {
    /// Starts `out`, which must not exist yet or be an empty directory.
    pub(crate) fn begin(out: &Path) -> Result<Self, Fault> {
        match fs::read_dir(out).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Ok(false) => return Err(Fault::usage(format!("{} is not empty", out.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Fault::Io { path: out.to_owned(), source }),
        }
        let name = out.file_name().ok_or_else(|| {
            Fault::usage(format!("{} does not name a new directory", out.display()))
        })?;
        let mut partial_name = name.to_owned();
        partial_name.push(format!(".partial-{}", std::process::id()));
        let under_way = out.with_file_name(partial_name);
        fs::create_dir_all(&under_way).at(&under_way)?;
        Ok(Self { under_way, out: out.to_owned(), done: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.under_way
    }

    pub(crate) fn commit(mut self) -> Result<(), Fault> {
        fs::rename(&self.under_way, &self.out).at(&self.out)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.done {
            // Nothing better can be done about a failure to tidy up after a failure.
            let _ = fs::remove_dir_all(&self.under_way);
        }
    }
}

/// Path of a file until it gets its name.
pub(crate) fn part(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// Writes a file whole or not at all: a reader finds the old or the new text.
pub fn write_whole(path: &Path, text: &str) -> Result<(), String> {
    let part = part(path);
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        format!("{}: {error}", path.display())
    })
}
