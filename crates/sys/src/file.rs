//! The document root and open files below it, with their facts.
use crate::{
    clock,
    crew::{Lease, Member, assert_unlocked},
};
use regatta_op::{Fault, File, FileId, Modified, OpenFault, OpenReq};
use rustix::{
    fs::{
        Access, AtFlags, CWD, FileType, FsWord, Mode, OFlags, ResolveFlags, Stat, Statx, StatxFlags,
    },
    io::Errno,
};
use std::{
    ffi::{CStr, CString, OsStr},
    fmt, io, iter,
    mem::ManuallyDrop,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::{self, Path},
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

/// An open file below the root: a counted descriptor, and the facts at the time of opening.
#[derive(Clone, Debug)]
pub struct StaticFile(Arc<Open>);

#[derive(Debug)]
struct Open {
    fd: ManuallyDrop<OwnedFd>,
    id: FileId,
    /// In a shared table of descriptors, the ledger decides which process closes the number.
    lease: Option<&'static Member>,
}

impl Open {
    fn new(fd: OwnedFd, id: FileId) -> Self {
        Self { fd: ManuallyDrop::new(fd), id, lease: None }
    }
}

impl Drop for Open {
    #[inline]
    fn drop(&mut self) {
        match self.lease {
            // SAFETY: this is the end of the value, so the field is not used again.
            None => unsafe { ManuallyDrop::drop(&mut self.fd) },
            Some(member) => member.let_go(self.fd.as_raw_fd().unsigned_abs()),
        }
    }
}

impl StaticFile {
    /// A file that is open under `number` in a shared table. The end of the last clone makes
    /// `member` let go of it. The caller has counted the use.
    fn leased(number: u32, id: FileId, member: &'static Member) -> Self {
        let raw = RawFd::try_from(number).expect("it was a descriptor");
        // SAFETY: the ledger keeps the number open as long as this use is counted, and this value
        // never closes it: its `Drop` leaves that to the ledger.
        let fd = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(raw) });
        Self(Arc::new(Open { fd, id, lease: Some(member) }))
    }

    /// Number of the file in a shared table; `None` if only this process has it.
    #[must_use]
    pub fn shared_number(&self) -> Option<u32> {
        self.0.lease.map(|_| self.0.fd.as_raw_fd().unsigned_abs())
    }

    /// Releases a file without clones, without closing it.
    fn into_number(self) -> Result<(u32, FileId), Self> {
        if self.0.lease.is_some() {
            return Err(self);
        }
        let open = ManuallyDrop::new(Arc::try_unwrap(self.0).map_err(Self)?);
        // The descriptor is all that it owns, and must not be closed here.
        Ok((open.fd.as_raw_fd().unsigned_abs(), open.id))
    }
}

impl Member {
    /// Enters a file that was opened just now as this worker's. It is closed with its last clone,
    /// unless the cache has taken it over.
    #[must_use]
    pub fn lend(&'static self, file: StaticFile) -> StaticFile {
        match file.into_number() {
            Ok((number, id)) => {
                self.own_in_use(number);
                StaticFile::leased(number, id, self)
            }
            Err(shared) => shared,
        }
    }
}

impl Lease {
    /// The file, with the facts known of it. Not under a lock: this allocates memory.
    #[must_use]
    pub fn file(self, id: FileId) -> StaticFile {
        assert_unlocked();
        let (number, member) = self.into_parts();
        StaticFile::leased(number, id, member)
    }
}

impl File for StaticFile {
    fn id(&self) -> FileId {
        self.0.id
    }
}

impl StaticFile {
    /// Takes over a file that another process has opened and passed on, with its current facts.
    ///
    /// # Errors
    /// [`OpenFault::NotAFile`] if it is not a regular file.
    pub fn adopt(fd: OwnedFd) -> Result<Self, OpenFault> {
        Self::open(fd)?.ok_or(OpenFault::NotAFile)
    }

    /// The opened file; `None` is a directory.
    pub(crate) fn open(fd: OwnedFd) -> Result<Option<Self>, OpenFault> {
        let stat = rustix::fs::fstat(&fd).map_err(open_fault)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some(Self(Arc::new(Open::new(fd, file_id(&stat)))))),
            FileType::Directory => Ok(None),
            _ => Err(OpenFault::NotAFile),
        }
    }
}

/// File system of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Device, as in [`FileId`].
    pub device: u64,
    /// Whether a file whose name and inode are in memory opens without a wait. A file system that
    /// asks another machine or process (NFS, FUSE) waits for it in every open.
    pub opens_in_memory: bool,
}

/// Types of file systems that open without a wait (statfs(2)). Others ask, or are not known.
const OPEN_IN_MEMORY: [FsWord; 14] = [
    0x0000_ef53, // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
    0xf2f5_2010, // f2fs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
    0x0000_9660, // isofs
    0x0000_4d44, // vfat
    0x2011_bab0, // exfat
];

/// Major and minor number of a device.
#[must_use]
pub fn device_numbers(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

impl StaticFile {
    /// File system that the file is on. May wait for it (fstatfs(2)).
    ///
    /// # Errors
    /// The file system does not answer.
    pub fn file_system(&self) -> io::Result<FileSystem> {
        let opens_in_memory = OPEN_IN_MEMORY.contains(&rustix::fs::fstatfs(self)?.f_type);
        Ok(FileSystem { device: self.id().device, opens_in_memory })
    }
}

/// Purpose of an operation on a file, as messages say it.
#[derive(Clone, Copy, Debug)]
pub enum DiskSubject<'a> {
    /// Opening a path.
    Opens(&'a OpenReq),
    /// Reading a file.
    Reads(&'a StaticFile),
}

impl fmt::Display for DiskSubject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opens(req) => {
                write!(f, "opening /{} below the root", req.below().1.escape_ascii())
            }
            Self::Reads(file) => match name(file.as_fd()) {
                Ok(path) => write!(f, "reading {}", path.as_os_str().as_bytes().escape_ascii()),
                Err(_) => {
                    let FileId { device, inode, .. } = file.id();
                    let (major, minor) = device_numbers(device);
                    write!(f, "reading inode {inode} of device {major}:{minor}")
                }
            },
        }
    }
}

impl AsFd for StaticFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

/// The document root: an open directory, and the path that names it or its future replacement. With
/// it travel the roots of further hosts.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    /// Absolute: the current directory may be renamed.
    path: CString,
    /// Roots by number from 1 on. All clones share them.
    others: Arc<[Self]>,
    /// Number of times that it was [replaced](Self::replace), times two; odd while it is.
    changes: AtomicU64,
    /// Tick at which it was first seen to be [replaced](Self::is_replaced); 0: it is not.
    replaced_at: AtomicU64,
}

/// Facts that change with the content of a file, and often without it: see [`Root::trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTrace {
    inode: u64,
    len: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl FileTrace {
    /// Number of words of an encoded trace.
    pub const WORDS: usize = 6;

    /// Encodes the trace as words, for another process.
    #[must_use]
    pub const fn to_words(self) -> [u64; Self::WORDS] {
        let Self { inode, len, modified, changed } = self;
        let (modified_s, changed_s) = (modified.0.cast_unsigned(), changed.0.cast_unsigned());
        [inode, len, modified_s, modified.1 as u64, changed_s, changed.1 as u64]
    }

    /// Decodes the words of [`FileTrace::to_words`].
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "nanoseconds are below 1,000,000,000")]
    pub const fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [inode, len, modified_s, modified_ns, changed_s, changed_ns] = words;
        Self {
            inode,
            len,
            modified: (modified_s.cast_signed(), modified_ns as u32),
            changed: (changed_s.cast_signed(), changed_ns as u32),
        }
    }
}

/// Longest time for which a replaced root counts as being replaced, milliseconds; a real
/// replacement takes less. After that its path cannot take over, and missing files are missing.
const REPLACED_MS_MAX: u64 = 3_000;

/// Current path of the file that a descriptor is open on.
///
/// # Errors
/// `/proc` is not mounted.
pub fn name(fd: BorrowedFd<'_>) -> io::Result<path::PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// State of a root's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The path names the open directory.
    Same,
    /// The path names another directory.
    Other,
    /// The path names nothing, or a disk would have to be asked.
    Unknown,
}

impl Root {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// As open(2): not there, not a directory, not permitted.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = CString::new(path::absolute(path)?.as_os_str().as_bytes())?;
        let fd = rustix::fs::open(&path, ROOT_FLAGS, Mode::empty())?;
        Ok(Self::new(fd, path))
    }

    fn new(fd: OwnedFd, path: CString) -> Self {
        Self {
            fd,
            path,
            others: Arc::default(),
            changes: AtomicU64::new(0),
            replaced_at: AtomicU64::new(0),
        }
    }

    /// A root for a path that cannot be opened now. No file is below it until it is
    /// [replaced](Self::replace).
    ///
    /// # Errors
    /// No descriptors left.
    pub fn closed(path: &Path) -> io::Result<Self> {
        // In place of a directory this makes every name "not found".
        let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        Self::adopt(path, fd)
    }

    /// Adopts a root that another process has opened at `path`.
    ///
    /// # Errors
    /// The path has a NUL, or is relative and there is no current directory.
    pub fn adopt(path: &Path, fd: OwnedFd) -> io::Result<Self> {
        let path = CString::new(path::absolute(path)?.as_os_str().as_bytes())?;
        Ok(Self::new(fd, path))
    }

    /// True unless the root is [closed](Self::closed).
    #[must_use]
    pub fn is_open(&self) -> bool {
        let mode = rustix::fs::fstat(&self.fd).map(|facts| facts.st_mode);
        mode.is_ok_and(|mode| FileType::from_raw_mode(mode) == FileType::Directory)
    }

    /// Facts of a file in the root that change whenever its content does, as far as memory knows.
    /// `Some(None)`: there is no such file. `None`: a disk would have to be asked. Never waits.
    #[must_use]
    pub fn trace(&self, name: &CStr) -> Option<Option<FileTrace>> {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::CACHED;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = match rustix::fs::openat2(&self.fd, name, flags, Mode::empty(), how) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NOTDIR) => return Some(None),
            Err(_) => return None,
        };
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let facts = rustix::fs::statx(&found, c"", how, StatxFlags::BASIC_STATS).ok()?;
        let at = |time: rustix::fs::StatxTimestamp| (time.tv_sec, time.tv_nsec);
        let (modified, changed) = (at(facts.stx_mtime), at(facts.stx_ctime));
        Some(Some(FileTrace { inode: facts.stx_ino, len: facts.stx_size, modified, changed }))
    }

    /// Adds the roots of further hosts, numbered from 1 on.
    #[must_use]
    pub fn with(self, others: Vec<Self>) -> Self {
        Self { others: others.into(), ..self }
    }

    /// Absolute path of the root.
    #[must_use]
    pub fn given(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.path.to_bytes()))
    }

    /// All roots, by number: this root is the first.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        iter::once(self).chain(&*self.others)
    }

    /// Device that the root is on, as memory knows it. Never waits.
    #[must_use]
    pub fn device(&self) -> Option<u64> {
        device(&self.fd)
    }

    /// The root of this number.
    #[must_use]
    pub fn nth(&self, number: usize) -> Option<&Self> {
        match number.checked_sub(1) {
            None => Some(self),
            Some(at) => self.others.get(at),
        }
    }

    /// Root of a path, and the rest of the path.
    pub(crate) fn place<'a>(&'a self, req: &'a OpenReq) -> (&'a Self, &'a [u8]) {
        match req.below() {
            (0, path) => (self, path),
            // No file has a name with a NUL: a path below no root is not found.
            (number, path) => (self.others.get(usize::from(number) - 1))
                .map_or((self, &*req.path), |root| (root, path)),
        }
    }

    /// Directory that the path names now, as far as memory knows. Never waits for a disk.
    #[must_use]
    pub fn named(&self) -> Named {
        let found =
            rustix::fs::openat2(CWD, &self.path, ROOT_FLAGS, Mode::empty(), ResolveFlags::CACHED);
        match found.map(|found| same_file(&found, &self.fd)) {
            Ok(Some(true)) => Named::Same,
            Ok(Some(false)) => Named::Other,
            Ok(None) | Err(_) => Named::Unknown,
        }
    }

    /// True if `other` is open on the same directory.
    #[must_use]
    pub fn is_same(&self, other: &OwnedFd) -> bool {
        same_file(&self.fd, other) == Some(true)
    }

    /// Current path of the open directory, for people.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn name(&self) -> io::Result<path::PathBuf> {
        name(self.fd.as_fd())
    }

    /// True if this directory has been deleted, or its path names another one: a missing file may
    /// be there. `None` if a disk would have to be asked, as when a link on the way is followed for
    /// the first time: that updates its access time (relatime).
    #[must_use]
    pub fn is_replaced(&self) -> Option<bool> {
        if facts(&self.fd).is_ok_and(|facts| facts.stx_nlink == 0) {
            return Some(true);
        }
        match self.named() {
            Named::Same => Some(false),
            Named::Other => Some(true),
            Named::Unknown => None,
        }
    }

    /// Puts `other` in the place of the open directory, under the same number.
    ///
    /// # Errors
    /// None that should occur.
    pub fn replace(&self, other: BorrowedFd<'_>) -> io::Result<()> {
        self.changes.fetch_add(1, SeqCst);
        self.replaced_at.store(0, SeqCst);
        // SAFETY: the number is this value's own and stays open throughout: it is exchanged, not
        // closed. No code relies on which directory it is: a concurrent open is below one or the
        // other.
        let done = unsafe { libc::dup3(other.as_raw_fd(), self.fd.as_raw_fd(), libc::O_CLOEXEC) };
        self.changes.fetch_add(1, SeqCst);
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Counter that each replacement by another thread changes; odd during one.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(SeqCst)
    }

    /// True while `replaced`, as just seen, has not been so for long.
    pub(crate) fn is_being_replaced(&self, replaced: bool) -> bool {
        if !replaced {
            // Write only on a change, as others read it.
            if self.replaced_at.load(Relaxed) != 0 {
                self.replaced_at.store(0, SeqCst);
            }
            return false;
        }
        let now = clock::now().tick.0.max(1);
        let since = self.replaced_at.compare_exchange(0, now, SeqCst, SeqCst);
        now.saturating_sub(since.err().unwrap_or(now)) <= REPLACED_MS_MAX
    }

    /// True if its path has been opened and names another directory.
    pub(crate) fn is_not(&self, named: &Result<OwnedFd, Errno>) -> bool {
        named.as_ref().is_ok_and(|named| same_file(named, &self.fd) == Some(false))
    }

    /// Path of the root, and the flags to open it with.
    pub(crate) fn path(&self) -> (&CStr, OFlags) {
        (&self.path, ROOT_FLAGS)
    }

    /// Duplicates the descriptor of the directory, for another thread to own.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            path: self.path.clone(),
            others: Arc::clone(&self.others),
            changes: AtomicU64::new(0),
            replaced_at: AtomicU64::new(0),
        })
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Flags to open a root with.
const ROOT_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Facts of a file or directory in memory: never waits for a file server.
fn facts(fd: &OwnedFd) -> Result<Statx, Errno> {
    let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(fd, c"", how, StatxFlags::INO | StatxFlags::NLINK)
}

/// Device of a file or folder, as memory knows it. Never waits.
pub(crate) fn device(fd: &OwnedFd) -> Option<u64> {
    let facts = facts(fd).ok()?;
    Some(rustix::fs::makedev(facts.stx_dev_major, facts.stx_dev_minor))
}

fn same_file(a: &OwnedFd, b: &OwnedFd) -> Option<bool> {
    let id = |facts: Statx| (facts.stx_dev_major, facts.stx_dev_minor, facts.stx_ino);
    Some(facts(a).map(id).ok()? == facts(b).map(id).ok()?)
}

/// Checks whether this process may make files in a directory, and makes none.
///
/// # Errors
/// It may not, or there is no such directory.
pub fn may_make_files(directory: &Path) -> io::Result<()> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    // Only a directory has a `.` in it.
    Ok(rustix::fs::accessat(CWD, directory.join("."), access, AtFlags::EACCESS)?)
}

/// Current facts of an open file (fstat(2)).
///
/// # Errors
/// On a network file system: the server does not answer.
pub fn fstat(file: &StaticFile) -> Result<FileId, Fault> {
    let stat = rustix::fs::fstat(file).map_err(|errno| crate::fault(&errno.into()))?;
    Ok(file_id(&stat))
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

pub(crate) const fn open_fault(errno: Errno) -> OpenFault {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => OpenFault::NotFound,
        Errno::LOOP | Errno::XDEV => OpenFault::Outside,
        Errno::ACCESS | Errno::PERM => OpenFault::Denied,
        // A socket, or a device without a driver.
        Errno::NXIO | Errno::NODEV => OpenFault::NotAFile,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => OpenFault::Exhausted,
        Errno::AGAIN => OpenFault::Busy,
        other => OpenFault::Other(other.raw_os_error()),
    }
}
