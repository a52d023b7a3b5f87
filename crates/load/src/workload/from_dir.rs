//! A workload from the user's own content: what `regatta serve` would serve below a directory.

use super::fault::{At, Fault, Progress, Watch, tell};
use super::files::{self, FileSet, Listed};
use super::popularity::{Purpose, shuffle, stream};
use clap::ValueEnum;
use regatta_http::target::is_hidden;
use regatta_sys::tree::{EntryKind, Tree};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

pub const FILES_MAX: usize = 1_000_000;
/// Deepest directory that is looked into.
pub const DEPTH_MAX: usize = 64;

/// Order in which files get the ranks of a Zipf popularity.
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

/// Files of a directory, and the parts of it that could not be read.
#[derive(Debug)]
pub struct Scanned {
    pub set: FileSet,
    /// A line for each directory or file that could not be read.
    pub faults: Vec<String>,
}

impl Scanned {
    pub fn whole(self) -> Result<FileSet, Fault> {
        if self.faults.is_empty() { Ok(self.set) } else { Err(Fault::Unread(self.faults)) }
    }
}

/// Lists the regular files below `root` that a server would serve: no hidden names, no odd ones
/// (not UTF-8, control characters, too long). With hashes of their contents when `hash` says so.
/// Links are not followed. A part that cannot be read is left out and named.
pub fn scan(
    root: &Path,
    ranks: Ranks,
    hash: bool,
    seed: u64,
    watch: Watch<'_>,
) -> Result<Scanned, Fault> {
    let tree = Tree::open(root).at(root)?;
    let mut scan = Scan { tree, root, files: Vec::new(), faults: Vec::new(), watch };
    scan.directory(&mut String::new(), 0)?;
    if hash {
        scan.hash()?;
    }
    let Scan { mut files, faults, .. } = scan;
    if files.is_empty() && !faults.is_empty() {
        return Err(Fault::Unread(faults));
    }
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
    Ok(Scanned { set: FileSet::listed(files)?, faults })
}

/// Reads every file below `root` and compares size and hash; files without a hash by size alone.
pub fn verify(set: &FileSet, root: &Path, watch: Watch<'_>) -> Result<(), Fault> {
    set.check(watch, |file, path| {
        let path = root.join(path);
        let same = match fs::metadata(&path) {
            Ok(found) if found.len() != set.bytes(file) => false,
            Ok(_) => match set.sha256(file) {
                Some(hash) => hash_file(&path)? == hash,
                None => true,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(source) => return Err(Fault::Io { path, source }),
        };
        Ok((!same).then(|| "changed since".to_owned()))
    })
}

struct Scan<'a> {
    tree: Tree,
    root: &'a Path,
    files: Vec<Listed>,
    faults: Vec<String>,
    watch: Watch<'a>,
}

impl Scan<'_> {
    fn directory(&mut self, below: &mut String, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            let dir = self.root.join(&*below);
            let what = format!("{} is more than {DEPTH_MAX} directories deep", dir.display());
            return Err(Fault::usage(what));
        }
        let opened = self.tree.directory(Path::new(&*below));
        let read = opened.and_then(|opened| opened.entries().map(|entries| (opened, entries)));
        let (directory, entries) = match read {
            Ok(read) => read,
            Err(error) => {
                self.fault(below, &error);
                return Ok(());
            }
        };
        for entry in entries {
            let Some(name) = entry.name.to_str() else { continue };
            if is_hidden(depth, name.as_bytes()) {
                continue;
            }
            let parent = below.len();
            if depth > 0 {
                below.push('/');
            }
            below.push_str(name);
            match entry.kind {
                EntryKind::Directory => self.directory(below, depth + 1)?,
                EntryKind::File => match directory.stat(&entry.name) {
                    Ok(found) => self.file(below, found.len())?,
                    Err(error) => self.fault(below, &error),
                },
                EntryKind::Other => {}
            }
            below.truncate(parent);
        }
        Ok(())
    }

    /// Notes the hash of every file; a file that cannot be read is left out.
    fn hash(&mut self) -> Result<(), Fault> {
        let files = std::mem::take(&mut self.files);
        let total = files.len() as u64;
        for (done, mut file) in (0..).zip(files) {
            match self.hash_of(&file.path) {
                Ok(hash) => {
                    file.sha256 = Some(hash.into());
                    self.files.push(file);
                }
                Err(error) => self.fault(&file.path, &error),
            }
            if done % 64 == 0 {
                tell(self.watch, Progress { what: "files hashed", done, total })?;
            }
        }
        Ok(())
    }

    fn hash_of(&self, path: &str) -> io::Result<String> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        hash_of(self.tree.directory(Path::new(parent))?.file(name.as_ref())?)
    }

    fn fault(&mut self, below: &str, error: &io::Error) {
        let path = self.root.join(below);
        self.faults.push(format!("{}: {error}", path.display()));
    }

    fn file(&mut self, path: &str, bytes: u64) -> Result<(), Fault> {
        let mut target = String::from("/");
        files::encode(path, &mut target);
        if files::file_of_target(&target).as_deref() != Some(path) {
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

pub fn hash_file(path: &Path) -> Result<String, Fault> {
    File::open(path).and_then(hash_of).at(path)
}

fn hash_of(mut file: File) -> io::Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer)? {
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
        let set = scan(root, ranks, true, 1, &unwatched).unwrap().whole().unwrap();
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

    /// Root can read everything: then nothing is left out.
    #[test]
    fn unreadable_parts_are_named_and_the_rest_is_listed() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = content();
        fs::create_dir(scratch.join("lost+found")).unwrap();
        let shut = [("lost+found", 0o000), ("a b/c/x.css", 0o000)];
        for (name, mode) in shut {
            fs::set_permissions(scratch.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let may_read = fs::read_dir(scratch.join("lost+found")).is_ok();
        let found = scan(&scratch, Ranks::ByName, true, 1, &unwatched).unwrap();
        fs::set_permissions(scratch.join("lost+found"), fs::Permissions::from_mode(0o700)).unwrap();
        let (files, faults) = if may_read { (4, 0) } else { (3, 2) };
        assert_eq!((found.set.len(), found.faults.len()), (files, faults), "{:?}", found.faults);
        assert_eq!(found.whole().is_ok(), may_read);
    }
}
