//! The altered file of \[A\]'s second experiment: rewritten again and again while it is served.

use super::content::Content;
use super::fault::{At, Fault};
use super::number::index;
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::num::NonZeroU64;
use std::path::Path;

/// How the file is rewritten (§2.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// In place, through the page cache: what \[A\] says, and what forces no disk read, since the
    /// new pages are cached. A reply may be torn between two versions.
    Literal,
    /// A new file renamed over the old one: replies are whole; servers must notice the change.
    Renamed,
    /// In place, then written to disk and dropped from the page cache: the next read is the disk's.
    Forced,
}

/// What is altered, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Altered {
    /// How.
    pub way: Way,
    /// Time between versions, milliseconds.
    pub period_ms: u64,
}

/// Writes version `version` of `path` below `root`, `bytes` long; the first line names the version
/// (see [`Content::at_version`]).
///
/// # Errors
/// [`Fault::Io`].
pub fn write(root: &Path, path: &str, bytes: u64, version: u64, way: Way) -> Result<(), Fault> {
    let mut contents = vec![0; index(bytes)];
    Content::at_version(path, version).fill(0, &mut contents);
    let full = root.join(path);
    if way == Way::Renamed {
        let mut name = full.clone().into_os_string();
        name.push(".next");
        let next = Path::new(&name);
        fs::write(next, &contents).at(next)?;
        return fs::rename(next, &full).at(&full);
    }
    let open = OpenOptions::new().write(true).create(true).truncate(false).open(&full);
    let mut file = open.at(&full)?;
    file.write_all(&contents).at(&full)?;
    file.set_len(bytes).at(&full)?;
    if way == Way::Forced { drop_pages(&file, bytes).at(&full) } else { Ok(()) }
}

fn drop_pages(file: &File, bytes: u64) -> std::io::Result<()> {
    file.sync_data()?;
    Ok(fadvise(file, 0, NonZeroU64::new(bytes), Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::content::version_of;
    use crate::workload::scratch::Scratch;

    #[test]
    fn every_way_leaves_a_whole_version() {
        let scratch = Scratch::new("alter");
        for (version, way) in [(1, Way::Literal), (2, Way::Renamed), (3, Way::Forced)] {
            write(scratch.path(), "index.html", 10_240, version, way).unwrap();
            let bytes = fs::read(scratch.path().join("index.html")).unwrap();
            assert_eq!((bytes.len(), version_of("index.html", &bytes)), (10_240, Some(version)));
            assert_eq!(Content::at_version("index.html", version).check(0, &bytes), Ok(()));
        }
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }
}
