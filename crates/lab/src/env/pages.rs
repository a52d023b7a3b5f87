//! Page cache of a directory's files: empty, or filled as far as it fits.

use super::groups::Groups;
use super::servant::Entry;
use super::spec::Pages;
use crate::stats::Random;
use crate::units::{At, walk};
use regatta_load::workload::specweb;
use regatta_sys::has_pages;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const FILES_MAX: usize = 4_000_000;

/// Writes back and drops all that the page cache holds of the files below a directory. Files of
/// other directories keep theirs: /proc/sys/vm/drop_caches would hit the whole machine.
pub(super) fn drop_all(root: &Path) -> Result<(), String> {
    each_path(root, |path| {
        let file = File::open(path)?;
        let drop_pages = || fadvise(&file, 0, None, Advice::DontNeed).map_err(io::Error::from);
        drop_pages()?;
        // Dirty pages cannot be dropped (systems.md §5.5). A sync flushes the disk even for a file
        // that has none. A read-only mount refuses to sync, and has none.
        if has_pages(&file, file.metadata()?.len()) != Some(false) {
            let _ = file.sync_data();
            drop_pages()?;
        }
        Ok(())
    })
}

/// Has the page cache hold of a directory's files what is asked for, without an environment.
pub(crate) fn settle(root: &Path, pages: Pages) -> Result<(), String> {
    match pages {
        Pages::AsIs => Ok(()),
        Pages::Cold => drop_all(root),
        Pages::Warm => read(&[root.to_string_lossy().into_owned()]),
    }
}

/// Reads all files below a directory inside the server's groups.
pub(super) fn warm(root: &Path, groups: &Groups) -> Result<(), String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let entry = Entry { groups: groups.server.clone(), ..Entry::default() };
    let mut reader = entry.command(&exe);
    reader.args([super::CHILD_WORD, "read"]).arg(root).stdin(Stdio::null());
    match reader.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("warming the page cache: {status}")),
        Err(error) => Err(format!("warming the page cache: {error}")),
    }
}

/// Seed of [`read`]'s draws: every trial finds the same pages.
const SEED: u64 = 2_007;

/// `read DIR`: reads every file below it. If not all fit, the cache ends in the state that a server
/// would reach in a long time. With independent requests the time since a file's last request is
/// exponential with its popularity as rate. Files are read in that order, the longest wait first.
pub(super) fn read(words: &[String]) -> Result<(), String> {
    let [root] = words else { return Err("read: which directory?".to_owned()) };
    let root = Path::new(root);
    let mut files = Vec::new();
    each_path(root, |path| {
        files.push((popularity(path, path.metadata()?.len()), path.to_owned()));
        Ok(())
    })?;
    // Directories give their names in any order.
    files.sort_by(|a, b| a.1.cmp(&b.1));
    let mut random = Random::new(SEED);
    let wait = |(popularity, path): (f64, PathBuf)| (random.exponential() / popularity, path);
    let mut waits: Vec<(f64, PathBuf)> = files.into_iter().map(wait).collect();
    waits.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut buffer = vec![0; 1 << 17];
    for (_, path) in waits {
        let read = File::open(&path).and_then(|mut file| {
            while file.read(&mut buffer)? > 0 {}
            Ok(())
        });
        read.at(&path)?;
    }
    Ok(())
}

/// Weight of a file's requests among others: by SPEC's laws if its name is one of theirs
/// (systems.md §3.2), else the greater the smaller the file.
fn popularity(path: &Path, bytes: u64) -> f64 {
    match path.to_str().and_then(specweb::parse_name) {
        Some((folder, class, file)) => {
            specweb::size_share(class, file) / f64::from(folder.saturating_add(1))
        }
        None => 1.0 / crate::units::real(bytes.max(1)),
    }
}

/// Visits each regular file below a directory. Links are not followed.
fn each_path(root: &Path, mut visit: impl FnMut(&Path) -> io::Result<()>) -> Result<(), String> {
    let mut files = 0;
    walk(root, |path, kind| {
        if kind.is_file() {
            files += 1;
            if files > FILES_MAX {
                return Err(io::Error::other(format!("is one of over {FILES_MAX} files")));
            }
            visit(path)?;
        }
        Ok(true)
    })
}

/// The bytes that the files below a directory take in blocks of 4 KiB, also in the page cache, and
/// how many files there are, directories included.
pub(crate) fn space(root: &Path) -> Result<(u64, u64), String> {
    let (mut bytes, mut count) = (0, 0);
    walk(root, |path, _| {
        count += 1;
        bytes += path.symlink_metadata()?.len().div_ceil(4_096) * 4_096;
        Ok(true)
    })?;
    Ok((bytes, count))
}

#[cfg(test)]
mod tests {
    use super::{drop_all, popularity, read, space};
    use crate::folder::Folder;
    use std::path::Path;

    #[test]
    fn what_is_asked_for_most_is_likeliest_read_last() {
        let of = |path: &str, bytes| popularity(Path::new(path), bytes);
        let small = of("/srv/file_set/dir00050/class1_4", 5_120);
        assert!(small > of("/srv/file_set/dir00050/class3_4", 512_000));
        assert!(small < of("/srv/file_set/dir00002/class1_4", 5_120));
        assert!(of("/srv/photo.jpg", 900_000) < of("/srv/index.html", 900));
    }

    #[test]
    fn files_are_found_measured_and_read() {
        let root = Folder::new("lab-test");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("one"), [1; 5_000]).unwrap();
        std::fs::write(root.join("a/b/two"), [2; 10]).unwrap();
        let folders = 2 * std::fs::metadata(root.join("a")).unwrap().len().div_ceil(4_096) * 4_096;
        assert_eq!(space(&root).unwrap(), (8_192 + 4_096 + folders, 4));
        drop_all(&root).unwrap();
        read(&[root.to_str().unwrap().to_owned()]).unwrap();
        std::fs::remove_dir_all(&*root).unwrap();
        assert!(drop_all(&root).is_err());
    }
}
