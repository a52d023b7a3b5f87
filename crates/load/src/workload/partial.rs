//! Directories and files that appear whole or not at all.

use super::fault::{At, Fault};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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

    /// Where to write meanwhile.
    pub(crate) fn path(&self) -> &Path {
        &self.under_way
    }

    /// Gives it its name.
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

/// Where a file is written before it gets its name.
pub(crate) fn part(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// Writes a file whole or not at all: who reads it finds what it was or what it is to be, also if
/// we end in the middle.
pub fn write_whole(path: &Path, text: &str) -> Result<(), String> {
    let part = part(path);
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        format!("{}: {error}", path.display())
    })
}
