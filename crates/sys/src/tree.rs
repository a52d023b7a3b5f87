//! Directory trees that other processes change meanwhile: no step leaves the tree.
//!
//! A path is resolved once, by the kernel, below the descriptor of the root (openat2(2)). Files are
//! then reached by one name in the descriptor of their directory. A directory that is replaced by a
//! symbolic link between two steps is an error, and its target stays untouched.
use crate::guarded::Spot;
use rustix::{
    fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::Path,
};

/// Attempts to open a directory while the tree changes under it.
const OPEN_TRIES_MAX: u32 = 8;

/// Root of a directory tree, held open.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
}

impl Tree {
    /// Opens the root; symbolic links on the way to it are followed.
    ///
    /// # Errors
    /// No such directory, or no permission.
    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: openat(CWD, root, flags, Mode::empty())? })
    }

    /// Opens a directory below the root; the empty path is the root itself.
    ///
    /// # Errors
    /// No such directory, no permission, or a symbolic link on the way.
    pub fn directory(&self, below: &Path) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let path = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let mut tries = 0;
        loop {
            match openat2(&self.root, path, flags, Mode::empty(), resolve) {
                // A rename happened meanwhile.
                Err(Errno::AGAIN | Errno::INTR) if tries < OPEN_TRIES_MAX => tries += 1,
                opened => return Ok(Directory { fd: opened? }),
            }
        }
    }
}

/// Directory of a tree, held open.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
}

/// Name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeEntry {
    /// The name.
    pub name: OsString,
    /// Kind of file when the directory was read.
    pub kind: EntryKind,
}

/// Kind of a file in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// Anything else: a symbolic link, a socket, a device.
    Other,
}

impl Directory {
    /// All names in it but `.` and `..`, in order.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn entries(&self) -> io::Result<Vec<TreeEntry>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Directory => EntryKind::Directory,
                FileType::RegularFile => EntryKind::File,
                // Not every file system reports the kind here.
                FileType::Unknown => match self.stat(&name) {
                    Ok(of) if of.is_dir() => EntryKind::Directory,
                    Ok(of) if of.is_file() => EntryKind::File,
                    _ => EntryKind::Other,
                },
                _ => EntryKind::Other,
            };
            found.push(TreeEntry { name, kind });
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Facts of a file. A symbolic link is not followed.
    ///
    /// # Errors
    /// No such name, or no permission.
    pub fn stat(&self, name: &OsStr) -> io::Result<Metadata> {
        self.open(name, OFlags::PATH)?.metadata()
    }

    /// Opens a file for reading, without waiting for the other end of a pipe.
    ///
    /// # Errors
    /// No such name, no permission, or a symbolic link.
    pub fn file(&self, name: &OsStr) -> io::Result<File> {
        self.open(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    /// The name as a place for a new file.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn spot(&self, name: &OsStr) -> io::Result<Spot> {
        Ok(Spot::at(self.fd.as_fd().try_clone_to_owned()?, name))
    }

    fn open(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A slash would lead out of this directory.
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let resolve = match flags.contains(OFlags::PATH) {
            // The link itself is meant.
            true => ResolveFlags::BENEATH,
            false => resolve,
        };
        Ok(openat2(&self.fd, name, flags, Mode::empty(), resolve)?.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::folder::Folder;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn names_are_listed_with_their_kinds_and_links_are_refused() {
        let folder = Folder::new("tree");
        let [site, outside] = ["site", "outside"].map(|name| folder.join(name));
        fs::create_dir_all(site.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(site.join("a/f"), "x").unwrap();
        fs::write(outside.join("f"), "x").unwrap();
        symlink(&outside, site.join("a/link")).unwrap();
        let tree = Tree::open(&site).unwrap();
        let a = tree.directory(Path::new("a")).unwrap();
        let kinds: Vec<_> = a.entries().unwrap().into_iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [EntryKind::Directory, EntryKind::File, EntryKind::Other]);
        assert!(a.stat(OsStr::new("link")).unwrap().is_symlink());
        assert_eq!(tree.directory(Path::new("")).unwrap().entries().unwrap().len(), 1);
        for path in ["a/link", "..", "/tmp", "a/f", "none"] {
            assert!(tree.directory(Path::new(path)).is_err(), "{path}");
        }
        for name in ["link", "../../outside/f", "link/f"] {
            assert!(a.file(OsStr::new(name)).is_err(), "{name}");
        }
        assert_eq!(io::read_to_string(a.file(OsStr::new("f")).unwrap()).unwrap(), "x");
    }
}
