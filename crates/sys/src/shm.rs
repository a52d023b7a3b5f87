//! Memory that all processes of a server share, and that other processes can find and read.
use rustix::{
    fs::{FallocateFlags, FileType, FlockOperation, MemfdFlags, Mode, OFlags, SealFlags, Stat},
    io::Errno,
    mm::{Advice, MapFlags, ProtFlags},
};
use std::{
    fmt, fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError, atomic::AtomicU64},
};

/// Name of the memory in `/proc/PID/fd`.
pub const NAME: &str = "regatta-arena";
/// Name of the memory of films there.
pub const FILM_NAME: &str = "regatta-film";

/// Longest memory of another process to read, bytes: enough for a thousand workers and more.
const FOREIGN_BYTES_MAX: usize = 256 << 20;

/// Words with keys of this process ([`SharedWords::protect`]).
static PROTECTED: Mutex<Vec<&[AtomicU64]>> = Mutex::new(Vec::new());

/// Zeroed words shared with every process forked from here on. The mapping lasts as long as the
/// process; other processes find it as long as this value keeps the descriptor open.
#[derive(Debug)]
pub struct SharedWords {
    fd: OwnedFd,
    words: &'static [AtomicU64],
}

impl SharedWords {
    /// Maps words that an earlier program of this process made.
    ///
    /// # Errors
    /// [`create`] did not make them, or they cannot be mapped.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        let bytes = sealed_bytes(fd.as_fd())?;
        let words = map(fd.as_fd(), bytes, MapFlags::SHARED)?;
        Ok(Self { fd, words })
    }

    /// The words.
    #[must_use]
    pub const fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    /// Keeps the words out of crash dumps, of this process and of those forked from here on, and
    /// out of swap as long as this process runs its program: for keys. [`forget_protected`] drops
    /// them.
    ///
    /// # Errors
    /// The limit on locked memory is reached ([`locked_bytes`](crate::limits::locked_bytes)), or
    /// there are no words.
    pub fn protect(&self) -> io::Result<()> {
        PROTECTED.lock().unwrap_or_else(PoisonError::into_inner).push(self.words);
        let (at, bytes) = (self.words.as_ptr().cast_mut().cast(), size_of_val(self.words));
        // SAFETY: this changes what a crash dump has of the mapping, which is ours and `bytes`
        // long, and nothing that is in it.
        unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxDontDump) }?;
        // SAFETY: the mapping is readable, `bytes` long and never unmapped. Locked pages have the
        // same contents.
        Ok(unsafe { rustix::mm::mlock(at, bytes) }?)
    }
}

impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Puts memory of this process, all 0, in the place of all words that are
/// [protected](SharedWords::protect): for a child that needs no keys. Other processes keep the
/// words.
///
/// # Panics
/// The kernel refuses: the child must not continue with the keys.
pub fn forget_protected() {
    for words in PROTECTED.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let (at, bytes) = (words.as_ptr().cast_mut().cast(), size_of_val(words));
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the pages replaced are those of one mapping of ours, which is page-aligned and
        // `bytes` long. They stay readable and writable, so that references to the words stay
        // valid; any bits are a valid AtomicU64, which may change at any time.
        let replaced = unsafe { rustix::mm::mmap_anonymous(at, bytes, prot, flags) };
        replaced.expect("pages in the place of others");
    }
}

/// Makes `count` shared words, all 0.
///
/// # Errors
/// No memory or descriptors left.
pub fn create(count: usize) -> io::Result<SharedWords> {
    create_named(NAME, count)
}

/// [`create`] under another name than [`NAME`]: memory that other programs do not look for.
///
/// # Errors
/// As [`create`].
pub fn create_named(name: &str, count: usize) -> io::Result<SharedWords> {
    let bytes = count.checked_mul(8).ok_or(io::ErrorKind::OutOfMemory)?;
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, bytes as u64)?;
    if overcommit_is_strict() && bytes > 0 {
        reserve(fd.as_fd(), bytes)?;
    }
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let words = map(fd.as_fd(), bytes, MapFlags::SHARED)?;
    Ok(SharedWords { fd, words })
}

/// True if the kernel promises no more memory than it has (`vm.overcommit_memory` 2). It would
/// refuse a page of the file at its first touch, with a SIGBUS.
fn overcommit_is_strict() -> bool {
    // Read once: a process that is confined later may not read it, nor may its children.
    static STRICT: OnceLock<bool> = OnceLock::new();
    *STRICT.get_or_init(|| {
        let mode = fs::read_to_string("/proc/sys/vm/overcommit_memory");
        mode.is_ok_and(|mode| mode.trim() == "2")
    })
}

/// Takes all pages of a file now. Without strict overcommit, untouched pages cost nothing.
fn reserve(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, bytes as u64).map_err(|error| {
        let why = format!("{bytes} bytes of shared memory cannot be reserved: {error}");
        io::Error::new(io::ErrorKind::OutOfMemory, why)
    })
}

fn map(fd: BorrowedFd<'_>, bytes: usize, flags: MapFlags) -> io::Result<&'static [AtomicU64]> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing of ours.
    let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, prot, flags, fd, 0) }?;
    // SAFETY: the mapping is page-aligned, `bytes` long, never unmapped, and cannot lose its
    // memory because the file is sealed against shrinking. Any bits are a valid AtomicU64.
    Ok(unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), bytes / 8) })
}

/// Reason why [`attach_all`] failed.
#[derive(Debug)]
pub enum AttachError {
    /// The process does not exist.
    NoProcess(u32),
    /// The process is another user's, or has dropped privileges.
    Denied(u32),
    /// The process has no such memory.
    NotAServer(u32),
    /// Another error.
    Io(io::Error),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess(pid) => write!(f, "there is no process {pid}"),
            Self::Denied(pid) => write!(
                f,
                "not permitted to look into process {pid}; \
                 try as root, or as the user that started it"
            ),
            Self::NotAServer(pid) => write!(f, "process {pid} is not a regatta server"),
            Self::Io(error) => write!(f, "cannot read the counters: {error}"),
        }
    }
}

impl std::error::Error for AttachError {}

/// Shared words of another process.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    /// The words, only to be read. A store is harmless: it neither reaches the server nor faults.
    /// But it gives this process a private page that no longer follows the server's.
    pub words: &'static [AtomicU64],
    /// Device and inode: equal for the same memory in any process.
    pub id: (u64, u64),
    /// User that made it, which only root could have changed.
    pub uid: u32,
}

/// Finds the shared words of another process, to read them while it changes them. There are several
/// while an earlier generation of its workers drains. Any user may have made memory of this name:
/// check its owner before trusting it.
///
/// # Errors
/// The process does not exist, is not a server, or may not be read.
pub fn attach_all(pid: u32) -> Result<Vec<Foreign>, AttachError> {
    map_all(pid, NAME, map_foreign)
}

/// Maps all memory of this name that a process has.
fn map_all<T>(
    pid: u32,
    name: &str,
    map: impl Fn(&Path) -> io::Result<T>,
) -> Result<Vec<T>, AttachError> {
    let mut all = Vec::new();
    for (path, _) in find_all(pid, name)? {
        all.extend(if_there(map(&path)).map_err(|error| fault(pid, error))?);
    }
    if all.is_empty() { Err(AttachError::NotAServer(pid)) } else { Ok(all) }
}

/// Shared words of another process, to store in them, too.
#[derive(Debug)]
pub struct Writable {
    /// The words.
    pub words: &'static [AtomicU64],
    /// User that made it, which only root could have changed.
    pub uid: u32,
    fd: OwnedFd,
}

impl Writable {
    /// Keeps others who call this away for as long as this value lives; false if another does.
    ///
    /// # Errors
    /// The system has no locks left.
    pub fn lock(&self) -> io::Result<bool> {
        match rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Finds the shared words of this name of another process, to store in them. Its user and root may
/// do that. Any user may have made memory of this name: check its owner before trusting it.
///
/// # Errors
/// As [`attach_all`].
pub fn attach_to_write(pid: u32, name: &str) -> Result<Vec<Writable>, AttachError> {
    map_all(pid, name, |path| {
        let (fd, stat) = open_foreign(path, OFlags::RDWR)?;
        let words = map(fd.as_fd(), sealed_bytes(fd.as_fd())?, MapFlags::SHARED)?;
        Ok(Writable { words, uid: stat.st_uid, fd })
    })
}

/// Device and inode of each memory that [`attach_all`] would map. Mappings stay, so a repeated
/// reader calls this first.
///
/// # Errors
/// As [`attach_all`].
pub fn ids(pid: u32) -> Result<Vec<(u64, u64)>, AttachError> {
    Ok(find_all(pid, NAME)?.into_iter().map(|(_, id)| id).collect())
}

fn fault(pid: u32, error: io::Error) -> AttachError {
    match error.kind() {
        io::ErrorKind::NotFound => AttachError::NoProcess(pid),
        io::ErrorKind::PermissionDenied => AttachError::Denied(pid),
        _ => AttachError::Io(error),
    }
}

/// Turns missing and unsealed memory into `None`: a process may close a descriptor while others
/// read it, open a socket with the same number (`ENXIO`), and may not have sealed its memory.
fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{InvalidData, NotFound};
    match found {
        Err(error) if matches!(error.kind(), NotFound | InvalidData) => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(None),
        found => found.map(Some),
    }
}

/// Path at which memory can be opened, with its device and inode.
type Found = (PathBuf, (u64, u64));

fn find_all(pid: u32, name: &str) -> Result<Vec<Found>, AttachError> {
    let fail = |error| fault(pid, error);
    let link = format!("/memfd:{name} (deleted)");
    let mut all = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if fs::read_link(&path).is_ok_and(|target| target.as_os_str() == link.as_str()) {
            let facts = if_there(fs::metadata(&path)).map_err(fail)?;
            all.extend(facts.map(|facts| (path, (facts.dev(), facts.ino()))));
        }
    }
    if all.is_empty() { Err(AttachError::NotAServer(pid)) } else { Ok(all) }
}

/// Length of memory that another process made.
fn sealed_bytes(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // Without the seal it could shrink under this process. Other kinds of files have no seals.
    let seals = match rustix::fs::fcntl_get_seals(fd) {
        Err(Errno::INVAL) => SealFlags::empty(),
        seals => seals?,
    };
    if !seals.contains(SealFlags::SHRINK) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let stat = rustix::fs::fstat(fd)?;
    // Reading pages that were never written would take memory.
    let bytes = usize::try_from(stat.st_size).ok().filter(|bytes| *bytes <= FOREIGN_BYTES_MAX);
    Ok(bytes.ok_or(io::ErrorKind::InvalidData)?)
}

/// Opens memory of another process.
fn open_foreign(path: &Path, access: OFlags) -> io::Result<(OwnedFd, Stat)> {
    // Another user may have made a FIFO or a terminal of that name: neither may block this process,
    // or become its terminal.
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((fd, stat))
}

fn map_foreign(path: &Path) -> io::Result<Foreign> {
    let (fd, stat) = open_foreign(path, OFlags::RDONLY)?;
    let bytes = sealed_bytes(fd.as_fd())?;
    let words = map(fd.as_fd(), bytes, MapFlags::PRIVATE)?;
    Ok(Foreign { words, id: (stat.st_dev, stat.st_ino), uid: stat.st_uid })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::{
        fs::File,
        os::fd::AsRawFd,
        sync::atomic::{AtomicBool, Ordering::Relaxed},
        thread,
    };

    #[test]
    fn a_descriptor_that_is_closed_meanwhile_is_no_process_that_ended() {
        let stays = create(8).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    drop(create(8).unwrap());
                }
            });
            let own = std::process::id();
            let found = (0..500).try_for_each(|_| attach_all(own).map(drop));
            done.store(true, Relaxed);
            assert!(found.is_ok(), "{found:?}");
        });
        drop(stays);
    }

    /// A local user chooses the link text of a descriptor: a FIFO without a writer is skipped, and
    /// no command of root waits for it.
    #[test]
    fn what_is_no_memory_is_passed_over() {
        use crate::folder::Folder;
        let folder = Folder::new("shm-fifo");
        let path = folder.join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let refused = map_foreign(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        assert!(if_there::<Foreign>(Err(refused)).unwrap().is_none());
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", socket.as_raw_fd()));
        assert!(if_there(map_foreign(&path)).unwrap().is_none());
    }

    /// Flags of the mapping of these words, as `/proc` lists them.
    fn flags(words: &[AtomicU64]) -> Vec<String> {
        let from = format!("{:x}-", words.as_ptr().addr());
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut own = maps.lines().skip_while(|line| !line.starts_with(&from));
        let flags = own.find_map(|line| line.strip_prefix("VmFlags: ")).unwrap();
        flags.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn protected_words_are_locked_not_dumped_and_can_be_forgotten() {
        let shared = create_named("regatta-test", 8).unwrap();
        let has = |flag: &str| flags(shared.words()).iter().any(|of| of == flag);
        assert!(!has("dd") && !has("lo"));
        shared.words()[0].store(7, Relaxed);
        let locked = shared.protect();
        assert!(has("dd"));
        // A machine may allow no locked memory.
        assert_eq!(has("lo"), locked.is_ok(), "{locked:?}");
        assert_eq!(shared.words()[0].load(Relaxed), 7);
        // No other test of this process protects words.
        let other = SharedWords::adopt(shared.as_fd().try_clone_to_owned().unwrap()).unwrap();
        forget_protected();
        assert_eq!(shared.words()[0].load(Relaxed), 0);
        shared.words()[1].store(8, Relaxed);
        assert_eq!([0, 1].map(|at| other.words()[at].load(Relaxed)), [7, 0]);
    }

    #[test]
    fn words_that_are_adopted_are_the_same() {
        let made = create(64).unwrap();
        made.words()[3].store(7, Relaxed);
        let adopted = SharedWords::adopt(made.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(adopted.words().len(), 64);
        assert_eq!(adopted.words()[3].load(Relaxed), 7);
        adopted.words()[4].store(8, Relaxed);
        assert_eq!(made.words()[4].load(Relaxed), 8);
        // A file can be truncated.
        let file = File::open("/proc/self/exe").unwrap();
        let refused = SharedWords::adopt(file.into()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }
}
