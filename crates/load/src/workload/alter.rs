//! The altered file of \[A\]'s second experiment: rewritten again and again while it is served.

use super::content::{Content, version_of};
use super::fault::{At, Fault};
use super::manifest::{Altered, Files, Way, Workload};
use crate::number::index;
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file that is rewritten, version after version, by a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    root: PathBuf,
    path: String,
    bytes: u64,
    pub altered: Altered,
}

impl Target {
    /// The one file of the workload in `dir`. Fails if there are several, if they are a user's own,
    /// or if the file does not exist.
    pub fn of(workload: &Workload, dir: &Path, altered: Altered) -> Result<Self, Fault> {
        if matches!(workload.files, Files::Users { .. }) {
            return Err(Fault::usage("a user's own files are never rewritten"));
        }
        let set = workload.file_set(dir)?;
        let mut ids = set.ids();
        let (Some(file), None) = (ids.next(), ids.next()) else {
            let what = "only a workload of one file can be altered, such as 10k-altered";
            return Err(Fault::usage(what));
        };
        let (root, path, bytes) = (workload.root(dir), set.path(file), set.bytes(file));
        let full = root.join(&path);
        if !full.is_file() {
            let full = full.display();
            return Err(Fault::usage(format!(
                "{full} is not there to be rewritten: make the workload with its files, or run \
                 `regatta workload alter` where they are and load with --alter off"
            )));
        }
        Ok(Self { root, path, bytes, altered })
    }

    /// The version that the file has now; 0 when it has none.
    pub fn version(&self) -> Result<u64, Fault> {
        let full = self.root.join(&self.path);
        let mut held = Vec::new();
        let file = File::open(&full).at(&full)?;
        file.take(self.bytes).read_to_end(&mut held).at(&full)?;
        Ok(version_of(&self.path, &held).unwrap_or(0))
    }

    pub fn write(&self, version: u64) -> Result<(), Fault> {
        write(&self.root, &self.path, self.bytes, version, self.altered.way)
    }
}

/// The clock of a [`Target`]: version after version, each when its time has come. Times that were
/// missed are left out, and counted.
#[derive(Clone, Debug)]
pub struct Rewriting {
    target: Target,
    first: u64,
    started_ns: u64,
    /// Times that have come.
    periods: u64,
    pub done: Rewritten,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewritten {
    pub versions: u64,
    /// Versions left out, since the one before had taken too long.
    pub missed: u64,
    /// Longest delay of a version, nanoseconds.
    pub late_ns: u64,
}

impl Rewriting {
    /// Starts at `now_ns`, with the version after the one that the file has.
    pub fn start(target: Target, now_ns: u64) -> Result<Self, Fault> {
        let first = target.version()?.saturating_add(1);
        Ok(Self { target, first, started_ns: now_ns, periods: 0, done: Rewritten::default() })
    }

    /// Writes the next version if its time has come, and says how long it is until the next.
    pub fn turn(&mut self, now_ns: u64) -> Result<Duration, Fault> {
        let period_ns = self.period_ns();
        let passed = now_ns.saturating_sub(self.started_ns) / period_ns;
        if passed >= self.periods {
            let due = self.started_ns.saturating_add(passed.saturating_mul(period_ns));
            self.target.write(self.first.saturating_add(passed))?;
            self.done.versions += 1;
            self.done.missed += passed - self.periods;
            self.done.late_ns = self.done.late_ns.max(now_ns.saturating_sub(due));
            self.periods = passed + 1;
        }
        let next = self.started_ns.saturating_add(self.periods.saturating_mul(period_ns));
        Ok(Duration::from_nanos(next.saturating_sub(now_ns)))
    }

    /// The first version, when it was due, and the time between versions, nanoseconds.
    pub fn clock(&self) -> (u64, u64, u64) {
        (self.first, self.started_ns, self.period_ns())
    }

    fn period_ns(&self) -> u64 {
        self.target.altered.period_ms.max(1).saturating_mul(1_000_000)
    }
}

/// Writes version `version` of `path` below `root`, `bytes` long; the first line names the version
/// (see [`Content::at_version`]).
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
    use crate::folder::Folder;
    use crate::workload::content::version_of;

    #[test]
    fn every_way_leaves_a_whole_version() {
        let scratch = Folder::new("alter");
        for (version, way) in [(1, Way::Literal), (2, Way::Renamed), (3, Way::Forced)] {
            write(&scratch, "index.html", 10_240, version, way).unwrap();
            let bytes = fs::read(scratch.join("index.html")).unwrap();
            assert_eq!((bytes.len(), version_of("index.html", &bytes)), (10_240, Some(version)));
            assert_eq!(Content::at_version("index.html", version).check(0, &bytes), Ok(()));
        }
        assert_eq!(fs::read_dir(&*scratch).unwrap().count(), 1);
    }

    #[test]
    fn versions_go_up_by_the_clock_and_go_on_where_they_were() {
        let scratch = Folder::new("rewriting");
        let altered = Altered { way: Way::Literal, period_ms: 10 };
        let (root, path) = (scratch.to_path_buf(), "index.html".to_owned());
        let target = Target { root, path, bytes: 10_240, altered };
        target.write(41).unwrap();
        let mut rewriting = Rewriting::start(target.clone(), 1_000).unwrap();
        for (now_ms, version, wait_ms) in [(0, 42, 10), (3, 42, 7), (12, 43, 8), (39, 45, 1)] {
            let wait = rewriting.turn(1_000 + now_ms * 1_000_000).unwrap();
            let found = (target.version().unwrap(), wait);
            assert_eq!(found, (version, Duration::from_millis(wait_ms)), "{now_ms} ms");
        }
        let done = Rewritten { versions: 3, missed: 1, late_ns: 9_000_000 };
        assert_eq!(rewriting.done, done);
    }
}
