//! Files below the document root: opening without leaving it, facts, and reading.
use crate::{again, chaos, chaos::Hook};
use regatta_op::{Coding, Fault, File, FileId, Modified, OpenFault, OpenReq, Opened, ReadReq};
use rustix::{
    buffer::spare_capacity,
    fs::{FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};
use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
};

/// An open file below the root: a counted descriptor, and the facts that were true when it was
/// opened.
#[derive(Clone, Debug)]
pub struct StaticFile(Arc<Open>);

#[derive(Debug)]
struct Open {
    fd: OwnedFd,
    id: FileId,
}

impl File for StaticFile {
    fn id(&self) -> FileId {
        self.0.id
    }
}

impl AsFd for StaticFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

/// The document root: the directory that every path is below.
#[derive(Debug)]
pub struct Root(OwnedFd);

impl Root {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// As open(2): not there, not a directory, not permitted.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What [`open_below`] is to allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenRules {
    /// Follow symbolic links, as long as they stay below the root.
    pub symlinks: bool,
}

/// Opens a path below the root, and the siblings asked for if it is a regular file.
///
/// # Errors
/// See [`OpenFault`].
pub fn open_below(
    root: &Root,
    req: &OpenReq,
    rules: OpenRules,
) -> Result<Opened<StaticFile>, OpenFault> {
    if req.path.is_empty() {
        return Ok(Opened::Directory);
    }
    let mut text = req.path.to_vec();
    text.push(0);
    let Found::File(file) = open_one(root, &text, rules)? else { return Ok(Opened::Directory) };
    let siblings = Coding::ALL.map(|coding| {
        if !req.siblings.has(coding) {
            return None;
        }
        text.truncate(req.path.len());
        text.extend_from_slice(coding.suffix().as_bytes());
        text.push(0);
        match open_one(root, &text, rules) {
            Ok(Found::File(file)) => Some(file),
            _ => None,
        }
    });
    Ok(Opened::File { file, siblings })
}

/// The bytes of a file range in memory; fewer than asked for mean that the file shrank.
///
/// # Errors
/// The read failed, or there is no memory for that many bytes.
pub fn read_range(req: &ReadReq<StaticFile>) -> Result<Box<[u8]>, Fault> {
    let len = usize::try_from(req.len).map_err(|_| Fault::Other(libc::ENOMEM))?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| Fault::Other(libc::ENOMEM))?;
    while bytes.len() < len {
        let at = req.at + bytes.len() as u64;
        let n = again(Hook::Read, || {
            rustix::io::pread(req.file.as_fd(), spare_capacity(&mut bytes), at)
        });
        match n {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return Err(crate::fault(&error)),
        }
    }
    bytes.truncate(len);
    Ok(bytes.into_boxed_slice())
}

enum Found {
    File(StaticFile),
    Directory,
}

fn open_one(root: &Root, text: &[u8], rules: OpenRules) -> Result<Found, OpenFault> {
    let path = CStr::from_bytes_with_nul(text).map_err(|_| OpenFault::NotFound)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if !rules.symlinks {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    chaos::slow(Hook::Open);
    let fd = again(Hook::Open, || {
        rustix::fs::openat2(root.as_fd(), path, flags, Mode::empty(), resolve)
    })
    .map_err(|error| open_fault(&error))?;
    let stat = rustix::fs::fstat(&fd).map_err(|errno| open_fault(&errno.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            Ok(Found::File(StaticFile(Arc::new(Open { fd, id: file_id(&stat) }))))
        }
        FileType::Directory => Ok(Found::Directory),
        _ => Err(OpenFault::NotAFile),
    }
}

#[expect(clippy::cast_sign_loss, reason = "sizes and nanoseconds are not negative")]
#[expect(clippy::cast_possible_truncation, reason = "nanoseconds are below 1,000,000,000")]
fn file_id(stat: &Stat) -> FileId {
    FileId {
        device: stat.st_dev,
        inode: stat.st_ino,
        len: stat.st_size as u64,
        modified: Modified { secs: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
        changed: Modified { secs: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 },
    }
}

fn open_fault(error: &io::Error) -> OpenFault {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => OpenFault::NotFound,
        Some(Errno::LOOP | Errno::XDEV) => OpenFault::Outside,
        Some(Errno::ACCESS | Errno::PERM) => OpenFault::Denied,
        Some(Errno::NXIO | Errno::NODEV) => OpenFault::NotAFile,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN) => OpenFault::Exhausted,
        other => OpenFault::Other(other.map_or(0, Errno::raw_os_error)),
    }
}
