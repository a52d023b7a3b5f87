//! Files: which one an error is of, and all that are below a directory.

use std::fmt::Display;
use std::fs::{self, FileType};
use std::io;
use std::path::Path;

/// Says which file an error is of.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, String>;
}

impl<T, E: Display> At<T> for Result<T, E> {
    fn at(self, path: &Path) -> Result<T, String> {
        self.map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Visits all that is below a directory. Links are not followed; what is below a directory of which
/// `each` says false is left out.
pub(crate) fn walk(
    root: &Path,
    mut each: impl FnMut(&Path, FileType) -> io::Result<bool>,
) -> Result<(), String> {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).at(&folder)? {
            let entry = entry.at(&folder)?;
            let (path, kind) = (entry.path(), entry.file_type().at(&folder)?);
            if each(&path, kind).at(&path)? && kind.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(())
}
