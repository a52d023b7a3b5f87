//! Names in a folder below a root, and facts of what they name: for listings.
//!
//! All calls may wait for a disk. No step leaves the root, even if the tree changes meanwhile.
use crate::{OpenRules, Root, file::open_fault, opening::open_path};
use regatta_op::{Codings, OpenFault, OpenReq};
use rustix::{
    fs::{Access, AtFlags, Dir, FileType, OFlags, StatxFlags, accessat, statx},
    io::Errno,
};
use std::os::fd::OwnedFd;

/// Attempts to open a folder while the tree changes under it.
const OPEN_TRIES_MAX: u32 = 8;

/// Folder below a root, open to read its names.
#[derive(Debug)]
pub struct ListedFolder<'r> {
    fd: OwnedFd,
    root: &'r Root,
    /// Path below `root`.
    path: Vec<u8>,
    rules: OpenRules,
}

/// Kind of what a name stands for, as the folder says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link, or the file system does not say: [`ListedFolder::facts`] decides.
    Undecided,
}

/// Facts of a folder or regular file that may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameFacts {
    /// True for a folder, false for a regular file.
    pub is_folder: bool,
    /// Length, bytes.
    pub len: u64,
    /// Time of the last change, seconds since 1970.
    pub modified_secs: i64,
}

impl<'r> ListedFolder<'r> {
    /// Opens the folder at a path with the prefix of its root, as [`OpenReq::path`] has it.
    ///
    /// # Errors
    /// As [`crate::open_below`]; also [`OpenFault::NotFound`] for what is no folder.
    pub fn open(root: &'r Root, path: &[u8], rules: OpenRules) -> Result<Self, OpenFault> {
        let req = OpenReq { path: path.into(), siblings: Codings::NONE };
        let (number, path) = req.below();
        let below = root.nth(number.into()).ok_or(OpenFault::NotFound)?;
        let name = if path.is_empty() { b"." } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut tries = 0;
        let opened = loop {
            match open_path(below, name, "", flags, rules.resolve()) {
                Err(Errno::AGAIN) if tries < OPEN_TRIES_MAX => tries += 1,
                opened => break opened,
            }
        };
        let fd = opened.map_err(open_fault)?;
        Ok(Self { fd, root: below, path: path.to_vec(), rules })
    }

    /// Passes all names to `visit`, in no order, but those of special files, `.` and `..`.
    ///
    /// # Errors
    /// The folder cannot be read, or has more than `names_max` names (`E2BIG`).
    pub fn visit(
        &self,
        names_max: usize,
        visit: &mut dyn FnMut(&[u8], NameKind),
    ) -> Result<(), OpenFault> {
        let names = Dir::read_from(&self.fd).map_err(open_fault)?;
        for (count, entry) in names.enumerate() {
            let entry = entry.map_err(open_fault)?;
            // The first two are no names of files.
            if count >= names_max.saturating_add(2) {
                return Err(open_fault(Errno::TOOBIG));
            }
            let kind = match entry.file_type() {
                FileType::Directory => NameKind::Folder,
                FileType::RegularFile => NameKind::File,
                FileType::Symlink if !self.rules.symlinks => continue,
                FileType::Symlink | FileType::Unknown => NameKind::Undecided,
                _ => continue,
            };
            match entry.file_name().to_bytes() {
                b"." | b".." => {}
                name => visit(name, kind),
            }
        }
        Ok(())
    }

    /// Facts of what a name of this folder stands for; `None` if it may not be served: a link that
    /// is not followed or leads out of the root, a special file, or one without permission.
    #[must_use]
    pub fn facts(&self, name: &[u8]) -> Option<NameFacts> {
        let wanted = StatxFlags::BASIC_STATS;
        let mut facts = statx(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
        if FileType::from_raw_mode(facts.stx_mode.into()) == FileType::Symlink {
            if !self.rules.symlinks {
                return None;
            }
            let path = if self.path.is_empty() {
                name.to_vec()
            } else {
                [&self.path, &b"/"[..], name].concat()
            };
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let found = open_path(self.root, &path, "", flags, self.rules.resolve()).ok()?;
            facts = statx(&found, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
        }
        let (is_folder, needed) = match FileType::from_raw_mode(facts.stx_mode.into()) {
            FileType::Directory => (true, Access::EXEC_OK),
            FileType::RegularFile => (false, Access::READ_OK),
            _ => return None,
        };
        let denied = accessat(&self.fd, name, needed, AtFlags::EACCESS);
        let (len, modified_secs) = (facts.stx_size, facts.stx_mtime.tv_sec);
        (denied != Err(Errno::ACCESS)).then_some(NameFacts { is_folder, len, modified_secs })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::folder::Folder;
    use std::{collections::BTreeMap, fs, os::unix::fs::symlink, os::unix::net::UnixListener};

    fn names(folder: &ListedFolder<'_>) -> BTreeMap<String, NameKind> {
        let mut found = BTreeMap::new();
        let visit = &mut |name: &[u8], kind| {
            found.insert(String::from_utf8(name.to_vec()).unwrap(), kind);
        };
        folder.visit(10, visit).unwrap();
        found
    }

    #[test]
    fn names_of_what_may_be_served_are_listed() {
        let folder = Folder::new("listed");
        let [root, outside] = ["root", "outside"].map(|name| folder.join(name));
        fs::create_dir_all(root.join("a/sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(root.join("a/file"), "12345").unwrap();
        fs::write(outside.join("f"), "x").unwrap();
        let _socket = UnixListener::bind(root.join("a/socket")).unwrap();
        symlink(&outside, root.join("a/out")).unwrap();
        symlink("../a/sub", root.join("a/in")).unwrap();
        let root = Root::open(&root).unwrap();
        for symlinks in [false, true] {
            let rules = OpenRules { symlinks };
            let a = ListedFolder::open(&root, b"a", rules).unwrap();
            let mut expected = vec![("file", NameKind::File), ("sub", NameKind::Folder)];
            if symlinks {
                let link = NameKind::Undecided;
                expected.splice(1..1, [("in", link), ("out", link)]);
            }
            let found = names(&a);
            assert!(found.iter().map(|(name, kind)| (&**name, *kind)).eq(expected), "{found:?}");
            let facts = |name: &str| a.facts(name.as_bytes()).map(|it| (it.is_folder, it.len));
            assert_eq!(facts("file"), Some((false, 5)));
            assert_eq!(facts("in").map(|it| it.0), symlinks.then_some(true));
            for name in ["out", "socket", "none"] {
                assert_eq!(facts(name), None, "{name}");
            }
            assert_eq!(a.visit(3, &mut |_, _| ()), Err(open_fault(Errno::TOOBIG)));
            let top = ListedFolder::open(&root, b"", rules).unwrap();
            assert_eq!(names(&top).len(), 1);
        }
    }

    #[test]
    fn only_folders_below_the_root_are_opened() {
        let folder = Folder::new("listed-only");
        fs::create_dir(folder.join("root")).unwrap();
        fs::write(folder.join("root/file"), "x").unwrap();
        symlink(&*folder, folder.join("root/up")).unwrap();
        let root = Root::open(&folder.join("root")).unwrap();
        for (path, fault) in [
            ("file", OpenFault::NotFound),
            ("none", OpenFault::NotFound),
            ("..", OpenFault::Outside),
            ("up", OpenFault::Outside),
        ] {
            for symlinks in [false, true] {
                let opened = ListedFolder::open(&root, path.as_bytes(), OpenRules { symlinks });
                assert_eq!(opened.err(), Some(fault), "{path}");
            }
        }
    }
}
