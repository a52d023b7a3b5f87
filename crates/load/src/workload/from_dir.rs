//! A workload from the user's own content: what `regatta serve` would serve below a directory.

use super::fault::{At, Fault, Progress, Watch, tell};
use super::files::{FileSet, Listed};
use super::popularity::{Purpose, shuffle, stream};
use super::uri;
use clap::ValueEnum;
use regatta_http::target::is_hidden;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The most files that are taken from a directory.
pub const FILES_MAX: usize = 1_000_000;
/// Deepest directory that is looked into.
pub const DEPTH_MAX: usize = 64;

/// In which order files get the ranks of a Zipf popularity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Ranks {
    /// No relation between size, name and popularity.
    #[default]
    Shuffled,
    /// By name.
    ByName,
    // Small files are often the popular ones.
    /// Smallest first.
    SmallestFirst,
}

/// Lists the regular files below `root` that a server would serve: no hidden names, no odd ones
/// (not UTF-8, control characters, too long). With hashes of their contents when `hash` says so.
/// Links are not followed.
///
/// # Errors
/// [`Fault::Io`]; [`Fault::Usage`] when there is none or more than [`FILES_MAX`];
/// [`Fault::Stopped`].
pub fn scan(
    root: &Path,
    ranks: Ranks,
    hash: bool,
    seed: u64,
    watch: Watch<'_>,
) -> Result<FileSet, Fault> {
    let mut scan = Scan { files: Vec::new(), watch };
    scan.directory(root, &mut String::new(), 0)?;
    let mut files = scan.files;
    if files.is_empty() {
        return Err(Fault::usage(format!("{} holds no file to serve", root.display())));
    }
    // Directories list their entries in any order; the workload must not depend on it.
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    match ranks {
        Ranks::ByName => {}
        Ranks::Shuffled => shuffle(&mut files, &mut stream(seed, 0, Purpose::Size)),
        Ranks::SmallestFirst => files.sort_by_key(|file| file.bytes),
    }
    if hash {
        let total = files.len() as u64;
        for (done, file) in (0..).zip(&mut files) {
            file.sha256 = Some(hash_file(&root.join(&file.path))?.into());
            if done % 64 == 0 {
                tell(watch, Progress { what: "files hashed", done, total })?;
            }
        }
    }
    FileSet::listed(files)
}

/// Reads every file below `root` and compares size and hash; files without a hash by size alone.
///
/// # Errors
/// [`Fault::Damaged`] with the number of files that differ, and the first.
pub fn verify(set: &FileSet, root: &Path, watch: Watch<'_>) -> Result<(), Fault> {
    let (mut files, mut first) = (0, None);
    for file in set.ids() {
        let path = root.join(set.path(file));
        let same = match fs::metadata(&path) {
            Ok(found) if found.len() != set.bytes(file) => false,
            Ok(_) => match set.sha256(file) {
                Some(hash) => hash_file(&path)? == hash,
                None => true,
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(source) => return Err(Fault::Io { path, source }),
        };
        if !same {
            files += 1;
            first.get_or_insert_with(|| format!("{}: changed since", set.path(file)));
        }
        if file.0.is_multiple_of(64) {
            let (done, total) = (file.0.into(), set.len().into());
            tell(watch, Progress { what: "files", done, total })?;
        }
    }
    first.map_or(Ok(()), |first| Err(Fault::Damaged { files, first }))
}

struct Scan<'a> {
    files: Vec<Listed>,
    watch: Watch<'a>,
}

impl Scan<'_> {
    fn directory(&mut self, root: &Path, below: &mut String, depth: usize) -> Result<(), Fault> {
        let dir = root.join(&*below);
        if depth > DEPTH_MAX {
            let what = format!("{} is more than {DEPTH_MAX} directories deep", dir.display());
            return Err(Fault::usage(what));
        }
        for entry in fs::read_dir(&dir).at(&dir)? {
            let entry = entry.at(&dir)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if is_hidden(depth, name.as_bytes()) {
                continue;
            }
            let kind = entry.file_type().at(&dir)?;
            let parent = below.len();
            if depth > 0 {
                below.push('/');
            }
            below.push_str(name);
            if kind.is_dir() {
                self.directory(root, below, depth + 1)?;
            } else if kind.is_file() {
                self.file(below, entry.metadata().at(&dir)?.len())?;
            }
            below.truncate(parent);
        }
        Ok(())
    }

    fn file(&mut self, path: &str, bytes: u64) -> Result<(), Fault> {
        let mut target = String::from("/");
        uri::encode(path, &mut target);
        if uri::file_of_target(&target).as_deref() != Some(path) {
            return Ok(());
        }
        if self.files.len() >= FILES_MAX {
            return Err(Fault::usage(format!("more than {FILES_MAX} files")));
        }
        self.files.push(Listed { path: path.to_owned(), bytes, weight: 1.0, sha256: None });
        if self.files.len().is_multiple_of(1024) {
            let done = self.files.len() as u64;
            tell(self.watch, Progress { what: "files found", done, total: 0 })?;
        }
        Ok(())
    }
}

/// SHA-256 of a file, in hexadecimal.
pub fn hash_file(path: &Path) -> Result<String, Fault> {
    let mut file = File::open(path).at(path)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer).at(path)? {
            0 => return Ok(super::hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::workload::fault::unwatched;

    fn content() -> Folder {
        let scratch = Folder::new("from-dir");
        let root = &scratch;
        for dir in ["a b/c", ".git", ".well-known"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        for (path, bytes) in [
            ("index.html", 300),
            ("a b/c/x.css", 100),
            ("a b/ü.js", 200),
            (".git/secret", 9),
            (".well-known/security.txt", 50),
            (".env", 9),
            ("bad\nname", 9),
        ] {
            fs::write(root.join(path), vec![b'x'; bytes]).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
        scratch
    }

    fn check(root: &Path, ranks: Ranks, expected: Option<&[&str]>) {
        let set = scan(root, ranks, true, 1, &unwatched).unwrap();
        let paths: Vec<String> = set.ids().map(|file| set.path(file)).collect();
        if let Some(expected) = expected {
            assert_eq!(paths, expected, "{ranks:?}");
        }
        assert_eq!((set.len(), set.total_bytes()), (4, 650));
        let index = set.find("/").unwrap();
        let hash = crate::workload::sha256_hex(&[b'x'; 300]);
        assert_eq!(set.sha256(index), Some(&*hash));
    }

    #[test]
    fn what_would_be_served_is_listed() {
        let scratch = content();
        let names = [".well-known/security.txt", "a b/c/x.css", "a b/ü.js", "index.html"];
        check(&scratch, Ranks::ByName, Some(&names));
        check(&scratch, Ranks::SmallestFirst, Some(&names));
        check(&scratch, Ranks::Shuffled, None);
        let none = scratch.join("a b/c/none");
        assert!(scan(&none, Ranks::ByName, false, 1, &unwatched).is_err());
    }
}
