//! Opening a path below the root and its siblings: the sequence of calls, and the results that
//! follow from theirs. The caller makes the calls and waits for them.
use crate::{
    Root, StaticFile,
    file::{device, open_fault},
    hook,
    hook::Call,
    retry_interrupted, simulated_disk,
};
use regatta_op::{Coding, OpenFault, OpenReq, Opened};
use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, OwnedFd},
};

/// Permissions of [`open_below`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenRules {
    /// Follow symbolic links, as long as they stay below the root.
    pub symlinks: bool,
}

impl OpenRules {
    /// Flags with which the kernel resolves a path.
    pub(crate) fn resolve(self) -> ResolveFlags {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        resolve.set(ResolveFlags::NO_SYMLINKS, !self.symlinks);
        resolve
    }
}

/// Result of opening a path.
pub type OpenResult = Result<Opened<StaticFile>, OpenFault>;

/// Opens a path below its root and, if it is a regular file, the siblings asked for.
///
/// The kernel resolves the path (openat2(2)). Neither `..` nor a symbolic link leads out of the
/// root, even if the tree changes meanwhile, and forbidden links are not followed. A sibling that
/// cannot be opened by the same rules, or is not a regular file, does not exist. Opening never
/// waits for the other end of a FIFO, but a device notices it: keep them out of document roots.
///
/// # Errors
/// [`OpenFault::NotFound`] also for a path too long or with a NUL. Instead of it
/// [`OpenFault::RootReplaced`] if the root's path no longer names the root. A directory that may be
/// searched but not listed is a [`Opened::Directory`] like any other.
pub fn open_below(root: &Root, req: &OpenReq, rules: OpenRules) -> OpenResult {
    let (below, path) = root.place(req);
    if path.is_empty() {
        return Ok(Opened::Directory);
    }
    simulated_disk::before_open(|| is_known(root, req, rules));
    let root = below;
    let mut opening = Opening::new(root);
    loop {
        let result = match opening.next() {
            Next::Below(suffix, flags) => open_path(root, path, suffix, flags, rules.resolve()),
            Next::Root => {
                let (path, flags) = root.path();
                rustix::fs::open(path, flags, Mode::empty())
            }
        };
        if let Some(found) = opening.take(result, root, req) {
            return found;
        }
    }
}

/// [`open_below`] as far as it needs no disk: `None` if it would block, or might (`RESOLVE_CACHED`,
/// openat2(2)). All results come from memory, the facts of the file included.
pub fn open_cached(root: &Root, req: &OpenReq, rules: OpenRules) -> Option<OpenResult> {
    open_in_memory(root, req, rules.resolve() | ResolveFlags::CACHED)
}

/// [`open_cached`] for paths that stay on the mount of their root: `None` also if the path, or a
/// sibling, leads to another mount (`RESOLVE_NO_XDEV`) or out of the root.
pub fn open_cached_on_mount(root: &Root, req: &OpenReq, rules: OpenRules) -> Option<OpenResult> {
    open_in_memory(root, req, rules.resolve() | ResolveFlags::CACHED | ResolveFlags::NO_XDEV)
}

fn open_in_memory(root: &Root, req: &OpenReq, how: ResolveFlags) -> Option<OpenResult> {
    let (root, path) = root.place(req);
    if path.is_empty() {
        return Some(Ok(Opened::Directory));
    }
    if hook::blocks() {
        return None;
    }
    let stays = how.contains(ResolveFlags::NO_XDEV);
    let mut opening = Opening::new(root);
    loop {
        let Next::Below(suffix, flags) = opening.next() else { return None };
        let result = open_path(root, path, suffix, flags, how);
        if needs_disk(&result) || stays && matches!(result, Err(Errno::XDEV)) {
            return None;
        }
        if let Some(found) = opening.take(result, root, req) {
            return Some(found);
        }
    }
}

/// Device of the deepest folder on a path, or of its file, that memory knows; `None` if it knows
/// none below the root. Never waits for a disk.
#[must_use]
pub fn known_device(root: &Root, req: &OpenReq, rules: OpenRules) -> Option<u64> {
    let (root, path) = root.place(req);
    let how = rules.resolve() | ResolveFlags::CACHED;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    deepest(path, |path| device(&open_path(root, path, "", flags, how).ok()?))
}

/// The result for the longest beginning of a path, in whole names, that has one. Memory knows all
/// folders above one that it knows, so a few are asked about: a path may have thousands of names.
fn deepest<T>(path: &[u8], mut ask: impl FnMut(&[u8]) -> Option<T>) -> Option<T> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let ends: Vec<_> = slashes.chain([path.len()]).filter(|end| *end > 0).collect();
    let mut found = None;
    // The search continues behind each that has a result, so the last result is the deepest.
    let _ = ends.partition_point(|end| {
        let known = ask(&path[..*end]);
        let is_known = known.is_some();
        found = known.or_else(|| found.take());
        is_known
    });
    found
}

/// Whether memory knows that the path itself exists, or that it does not. Its siblings are in the
/// same directory, which has then been read.
pub(crate) fn is_known(root: &Root, req: &OpenReq, rules: OpenRules) -> bool {
    let how = rules.resolve() | ResolveFlags::CACHED;
    let (root, path) = root.place(req);
    !needs_disk(&open_path(root, path, "", OPEN_FLAGS, how))
}

/// With `RESOLVE_CACHED`: true if it would block, or if there really is nothing left. A caller that
/// may block finds out which.
fn needs_disk(result: &Result<OwnedFd, Errno>) -> bool {
    let fault = result.as_ref().err().map(|errno| open_fault(*errno));
    matches!(fault, Some(OpenFault::Busy | OpenFault::Exhausted))
}

impl Root {
    /// Makes the call that opens every file ([`crate::open_below`]), on the root itself.
    ///
    /// # Errors
    /// `ENOSYS`: the kernel has no openat2(2), or hides it. `EPERM`: a filter forbids it. `EACCES`:
    /// this user may not search the root.
    pub fn try_resolving(&self) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        open_at(self, c".", flags, OpenRules::default().resolve())?;
        Ok(())
    }
}

/// Progress in opening a path.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    stage: Stage,
    file: Option<StaticFile>,
    siblings: [Option<StaticFile>; 3],
    /// Number of changes of the tree under it.
    tries: u32,
    /// [`Root::changes`] at the start.
    began: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// The path itself.
    #[default]
    File,
    /// The path itself again, without reading it: whether it is a directory.
    Probe,
    /// The sibling of this coding.
    Sibling(Coding),
    /// The root's path: the path itself was not found.
    Root,
}

/// Next call to make.
pub(crate) enum Next {
    /// The path with this suffix, below the root.
    Below(&'static str, OFlags),
    /// [`Root::path`], from the current directory. May wait for a disk.
    Root,
}

impl Opening {
    /// Starts opening a path below this root.
    pub(crate) fn new(root: &Root) -> Self {
        Self { began: root.changes(), ..Self::default() }
    }

    /// Reason why the path was not found. `replaced`: whether the root is
    /// [replaced](Root::is_replaced) by now. A root that has been so for long stays so. If another
    /// thread has exchanged it since, the old one was searched.
    fn not_found(&self, root: &Root, replaced: bool) -> OpenFault {
        let exchanged = !self.began.is_multiple_of(2) || root.changes() != self.began;
        if exchanged || root.is_being_replaced(replaced) {
            OpenFault::RootReplaced
        } else {
            OpenFault::NotFound
        }
    }

    pub(crate) const fn next(&self) -> Next {
        match self.stage {
            Stage::File => Next::Below("", OPEN_FLAGS),
            Stage::Probe => Next::Below("", OFlags::PATH.union(OFlags::CLOEXEC)),
            Stage::Sibling(coding) => Next::Below(coding.suffix(), OPEN_FLAGS),
            Stage::Root => Next::Root,
        }
    }

    /// Takes the result of a call. Returns the final result if that was the last.
    pub(crate) fn take(
        &mut self,
        result: Result<OwnedFd, Errno>,
        root: &Root,
        req: &OpenReq,
    ) -> Option<OpenResult> {
        // A rename happened while a `..` in a link was resolved.
        if matches!(result, Err(Errno::AGAIN)) && self.tries < OPEN_TRIES_MAX {
            self.tries += 1;
            return None;
        }
        match self.stage {
            Stage::File => match result {
                Err(Errno::ACCESS) => self.stage = Stage::Probe,
                result => match opened(result) {
                    Ok(Some(file)) => self.file = Some(file),
                    Ok(None) => return Some(Ok(Opened::Directory)),
                    Err(OpenFault::NotFound) => match root.is_replaced() {
                        Some(replaced) => return Some(Err(self.not_found(root, replaced))),
                        None => self.stage = Stage::Root,
                    },
                    Err(fault) => return Some(Err(fault)),
                },
            },
            Stage::Probe => {
                let directory = matches!(opened(result), Ok(None));
                return Some(if directory {
                    Ok(Opened::Directory)
                } else {
                    Err(OpenFault::Denied)
                });
            }
            Stage::Root => return Some(Err(self.not_found(root, root.is_not(&result)))),
            Stage::Sibling(coding) => {
                self.siblings[coding as usize] = opened(result).ok().flatten();
            }
        }
        let file = self.file.take()?;
        let next = match self.stage {
            Stage::Sibling(coding) => coding as usize + 1,
            _ => 0,
        };
        let mut wanted = Coding::ALL.into_iter().skip(next);
        if let Some(coding) = wanted.find(|coding| req.siblings.has(*coding)) {
            (self.stage, self.file) = (Stage::Sibling(coding), Some(file));
            return None;
        }
        Some(Ok(Opened::File { file, siblings: std::mem::take(&mut self.siblings) }))
    }
}

/// The opened file; `None` is a directory.
fn opened(result: Result<OwnedFd, Errno>) -> Result<Option<StaticFile>, OpenFault> {
    result.map_err(open_fault).and_then(StaticFile::open)
}

/// Flags to open a file for reading.
const OPEN_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens the path with this suffix.
pub(crate) fn open_path(
    root: &Root,
    path: &[u8],
    suffix: &str,
    flags: OFlags,
    how: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut stack = [0; PATH_STACK_BYTES];
    let heap;
    let len = path.len() + suffix.len();
    let text = if len < stack.len() {
        stack[..path.len()].copy_from_slice(path);
        stack[path.len()..len].copy_from_slice(suffix.as_bytes());
        &stack[..=len]
    } else if len < PATH_BYTES_MAX {
        heap = [path, suffix.as_bytes(), &[0]].concat();
        &heap[..]
    } else {
        return Err(Errno::NAMETOOLONG);
    };
    let path = CStr::from_bytes_with_nul(text).map_err(|_| Errno::NOENT)?;
    open_at(root, path, flags, how)
}

/// Makes the call that opens every file.
pub(crate) fn open_at(
    root: &Root,
    path: &CStr,
    flags: OFlags,
    how: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    retry_interrupted(Call::Open, || {
        rustix::fs::openat2(root.as_fd(), path, flags, Mode::empty(), how)
    })
}

/// Paths up to this length are terminated on the stack.
const PATH_STACK_BYTES: usize = 512;

/// Longest path that the kernel takes, its terminating NUL included (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;

/// Retries of an open while the tree changes under it.
const OPEN_TRIES_MAX: u32 = 7;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::folder::Folder;
    use regatta_op::Codings;
    use std::{fs, os::unix::fs::symlink, path::Path};

    /// A file missing in the old root is not reported as missing once another thread has replaced
    /// the root, although the path names the new one by then.
    #[test]
    fn a_root_that_is_exchanged_meanwhile_is_no_reason_that_a_file_is_missing() {
        let folder = Folder::new("exchanged");
        let [old, new, link, next] = ["old", "new", "link", "next"].map(|name| folder.join(name));
        fs::create_dir(&old).unwrap();
        fs::create_dir(&new).unwrap();
        symlink(&old, &link).unwrap();
        let root = Root::open(&link).unwrap();
        let req = OpenReq { path: b"a".as_slice().into(), siblings: Codings::NONE };
        let mut early = Opening::new(&root);
        symlink(&new, &next).unwrap();
        fs::rename(&next, &link).unwrap();
        root.replace(Root::open(&link).unwrap().as_fd()).unwrap();
        let mut late = Opening::new(&root);
        let missing = |opening: &mut Opening| match opening.take(Err(Errno::NOENT), &root, &req) {
            // A disk would be needed to know where the link leads.
            None => opening.take(Ok(fs::File::open(&link).unwrap().into()), &root, &req),
            found => found,
        };
        assert!(matches!(missing(&mut early), Some(Err(OpenFault::RootReplaced))));
        assert!(matches!(missing(&mut late), Some(Err(OpenFault::NotFound))));
    }

    /// `/proc` is a mount of its own everywhere.
    #[test]
    fn paths_to_another_mount_are_known_by_its_device() {
        let folder = Folder::new("mounts");
        fs::write(folder.join("page"), b"x").unwrap();
        let rules = OpenRules::default();
        let [top, proc, own] =
            [Path::new("/"), Path::new("/proc"), &folder].map(|path| Root::open(path).unwrap());
        for (root, path, device) in [
            (&top, "proc", proc.device()),
            (&top, "proc/version", proc.device()),
            (&top, "proc/none/at/all", proc.device()),
            (&own, "page", own.device()),
            (&own, "none/at/all", None),
        ] {
            let req = OpenReq { path: path.as_bytes().into(), siblings: Codings::NONE };
            assert_eq!(known_device(root, &req, rules), device, "{path}");
            let found = open_cached_on_mount(root, &req, rules);
            assert_eq!(found.is_some(), path == "page", "{path}: {found:?}");
        }
    }

    /// A client chooses the number of names in a path.
    #[test]
    fn the_device_of_a_deep_path_takes_few_calls() {
        let path = b"a/".repeat(2_048);
        let path = &path[..path.len() - 1];
        for known in [0, 1, 2, 3, 1_000, 2_047, 2_048] {
            let mut calls = 0;
            let found = deepest(path, |path| {
                calls += 1;
                let names = path.split(|byte| *byte == b'/').count();
                (names <= known).then_some(names)
            });
            assert_eq!(found, (known > 0).then_some(known));
            assert!(calls <= 12, "{calls} calls");
        }
        for path in ["", "a", "a/b"] {
            let longest = deepest(path.as_bytes(), |path| Some(path.len()));
            assert_eq!(longest, Some(path.len()).filter(|len| *len > 0));
        }
    }

    /// A root that nothing can replace makes no request wait for ever.
    #[test]
    fn what_is_missing_in_a_root_that_stays_replaced_is_missing() {
        let folder = Folder::new("replaced");
        let path = folder.join("root");
        fs::create_dir(&path).unwrap();
        let root = Root::open(&path).unwrap();
        let req = OpenReq { path: b"a".as_slice().into(), siblings: Codings::NONE };
        let missing = |ms: u64| {
            hook::set_time(ms * 1_000_000, 0);
            let found = Opening::new(&root).take(Err(Errno::NOENT), &root, &req);
            found.expect("no disk is needed for that").expect_err("there is none")
        };
        fs::rename(&path, folder.join("before")).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(missing(10_000), OpenFault::RootReplaced);
        assert_eq!(missing(13_000), OpenFault::RootReplaced);
        assert_eq!(missing(13_001), OpenFault::NotFound);
        root.replace(Root::open(&path).unwrap().as_fd()).unwrap();
        assert_eq!(missing(13_002), OpenFault::NotFound);
        fs::rename(&path, folder.join("then")).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(missing(20_000), OpenFault::RootReplaced);
        hook::clear();
    }
}
