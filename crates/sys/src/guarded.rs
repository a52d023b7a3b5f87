//! Writing files safely in directories where others may write too.
//!
//! A user that may write to a directory may replace any name in it by a link. So the last part of a
//! path is never followed. Links before it are followed only if they are root's or this process's
//! own. Before writing, the type and owner of the opened file are checked.
use rustix::{
    fs::{
        AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, fchown, fstat, linkat, openat,
        readlinkat, renameat, unlinkat,
    },
    io::Errno,
    process::geteuid,
};
use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Component, Path},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Most symbolic links on the way to a file, as in path_resolution(7).
const LINKS_MAX: u32 = 40;

/// Most attempts to open or make a file while others remove and make it.
const TRIES_MAX: u32 = 8;

/// Prefix of a file's temporary name, before the number of the process.
const UNNAMED: &str = ".regatta-new-";

/// Least age of the last change of a file left behind, seconds: far longer than writing takes.
const LEFT_BEHIND_S_MIN: u64 = 300;

/// Mode of files made here: for their owner and group.
const MODE: Mode = Mode::from_raw_mode(0o640);

/// New owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

/// Action if there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Make it, and give it to the owner if there is one, which takes root.
    Make,
    /// Fail.
    Fail,
}

/// A name in a directory.
#[derive(Debug)]
pub struct Spot {
    directory: OwnedFd,
    name: OsString,
}

impl Spot {
    /// Finds the directory of a path. Symbolic links on the way must belong to root or to this
    /// process's user.
    ///
    /// # Errors
    /// The directory is missing or may not be searched, or a link on the way has another owner.
    pub fn find(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or_else(|| refused("it has no file name"))?;
        let directory = walk(path.parent().unwrap_or(Path::new("")))?;
        Ok(Self { directory, name: name.to_owned() })
    }

    /// A name in an open directory.
    pub(crate) fn at(directory: OwnedFd, name: &OsStr) -> Self {
        Self { directory, name: name.to_owned() }
    }

    /// Opens the file for appending, without waiting: a regular file with no other name, a pipe
    /// with a reader, or a character device. It must belong to root, to this process's user, or to
    /// `owner`.
    /// process is, or of `owner`.
    ///
    /// # Errors
    /// It is something else, or may not be opened.
    pub fn append(&self, owner: Option<Owner>, absent: Absent) -> io::Result<File> {
        // Without O_NONBLOCK, opening a pipe without a reader would wait.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |more, mode| openat(&self.directory, &*self.name, flags | more, mode);
        for _ in 0..TRIES_MAX {
            match open(OFlags::empty(), Mode::empty()) {
                Err(Errno::NOENT) if absent == Absent::Make => {}
                Err(Errno::LOOP) => return Err(refused("symbolic links are not followed here")),
                found => return accept(found?, owner),
            }
            match open(OFlags::CREATE | OFlags::EXCL, MODE) {
                Err(Errno::EXIST) => {}
                made => return give(made?, owner),
            }
        }
        Err(refused("someone removes and makes it again and again"))
    }

    /// Reads at most `bytes_max` bytes of a regular file; `None` if there is no file.
    ///
    /// # Errors
    /// It is not a regular file, or may not be read.
    pub fn read(&self, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let file =
            match openat(&self.directory, &*self.name, flags | OFlags::CLOEXEC, Mode::empty()) {
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::LOOP) => return Err(refused("symbolic links are not followed here")),
                found => File::from(found?),
            };
        if !file.metadata()?.is_file() {
            return Err(refused("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(bytes_max as u64).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Replaces whatever has the name by a new file. Without `like` all may read it. With `like` it
    /// gets that file's mode, time and, if this process is root, owner, and its bytes are on the
    /// disk before it has the name.
    ///
    /// # Errors
    /// The file cannot be made; the old one stays.
    pub fn replace(&self, bytes: &[u8], like: Option<&Metadata>) -> io::Result<()> {
        // Not the name itself, which may have the maximum length already.
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&self.name);
        let beside = format!("{UNNAMED}{}-{hash:016x}", std::process::id());
        // A process with the same number may have left one behind.
        let _ = unlinkat(&self.directory, &*beside, AtFlags::empty());
        // Not every file system has files without a name, nor every process a /proc.
        let made = self
            .make_unnamed(&beside, bytes, like)
            .or_else(|_| self.make_named(&beside, bytes, like));
        let put = made
            .and_then(|()| Ok(renameat(&self.directory, &*beside, &self.directory, &*self.name)?));
        put.inspect_err(|_| {
            let _ = unlinkat(&self.directory, &*beside, AtFlags::empty());
        })
    }

    /// Makes a file that gets its name once it is whole. If this process is killed before, none
    /// remains.
    fn make_unnamed(&self, name: &str, bytes: &[u8], like: Option<&Metadata>) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let made = File::from(openat(&self.directory, ".", flags, mode(like))?);
        fill(&made, bytes, like)?;
        let it = format!("/proc/self/fd/{}", made.as_raw_fd());
        Ok(linkat(CWD, it, &self.directory, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Makes a file that has its name from the start.
    fn make_named(&self, name: &str, bytes: &[u8], like: Option<&Metadata>) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = File::from(openat(&self.directory, name, flags, mode(like))?);
        fill(&made, bytes, like)
    }

    /// Removes the name.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.directory, &*self.name, AtFlags::empty())?)
    }
}

/// True if a file has the name of one that [`Spot::replace`] was writing when its process was
/// killed, and has not changed for some minutes. Containers may share the directory, and their
/// processes are not visible here.
#[must_use]
pub fn is_left_behind(name: &OsStr, file: &Metadata, now: SystemTime) -> bool {
    let of = name.to_str().and_then(|name| name.strip_prefix(UNNAMED)?.split_once('-'));
    let pid = of.and_then(|(pid, _)| pid.parse::<u32>().ok());
    // Not the time of modification, which may be that of the imitated file.
    let changed = UNIX_EPOCH + Duration::from_secs(file.ctime().try_into().unwrap_or(0));
    let is_old = now.duration_since(changed).is_ok_and(|age| age.as_secs() >= LEFT_BEHIND_S_MIN);
    is_old && pid.is_some_and(|pid| !crate::process::exists(pid))
}

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.into())
}

fn give(made: OwnedFd, owner: Option<Owner>) -> io::Result<File> {
    if let Some(Owner { uid, gid }) = owner {
        fchown(&made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    Ok(made.into())
}

/// Mode of a new file until it is whole.
fn mode(like: Option<&Metadata>) -> Mode {
    Mode::from_raw_mode(if like.is_some() { 0o600 } else { 0o644 })
}

/// Writes a new file's bytes, and imitates `like`.
fn fill(mut made: &File, bytes: &[u8], like: Option<&Metadata>) -> io::Result<()> {
    made.write_all(bytes)?;
    if let Some(like) = like {
        imitate(made, like)?;
        // After a power failure its time would claim that it is whole.
        made.sync_all()?;
    }
    Ok(())
}

/// Gives a file the owner, the mode and the time of another.
fn imitate(made: &File, like: &Metadata) -> io::Result<()> {
    if geteuid().is_root() {
        fchown(made, Some(Uid::from_raw(like.uid())), Some(Gid::from_raw(like.gid())))?;
    }
    made.set_permissions(like.permissions())?;
    made.set_modified(like.modified()?)
}

fn accept(found: OwnedFd, owner: Option<Owner>) -> io::Result<File> {
    let stat = fstat(&found)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Fifo | FileType::CharacterDevice) {
        return Err(refused("it is neither a file nor a pipe nor a character device"));
    }
    if !is_trusted(&stat) && owner.is_none_or(|owner| owner.uid != stat.st_uid) {
        let owner = stat.st_uid;
        let why = format!("it belongs to user {owner}, neither to root nor to the server's user");
        return Err(refused(why));
    }
    if kind == FileType::RegularFile && stat.st_nlink > 1 {
        return Err(refused(
            "it has another name too (a hard link), maybe as somebody else's file",
        ));
    }
    Ok(found.into())
}

/// Whether an item belongs to root or to this process's user.
fn is_trusted(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == geteuid().as_raw()
}

/// Walks a path part by part, and opens its last directory.
fn walk(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let start = |path: &Path| {
        let start = if path.is_absolute() { "/" } else { "." };
        openat(CWD, start, flags | OFlags::DIRECTORY, Mode::empty())
    };
    let parts = |path: &Path| -> Vec<OsString> {
        let parts = path.components().rev().filter(|part| *part != Component::RootDir);
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut here, mut left, mut links) = (start(path)?, parts(path), 0);
    while let Some(part) = left.pop() {
        let next = openat(&here, &*part, flags | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = fstat(&next)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            here = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        if !is_trusted(&stat) {
            let (part, owner) = (part.display(), stat.st_uid);
            let why = format!("the symbolic link \"{part}\" on the way is user {owner}'s");
            return Err(refused(why));
        }
        let target = readlinkat(&next, "", Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.as_bytes()));
        if target.is_absolute() {
            here = start(target)?;
        }
        left.extend(parts(target));
    }
    Ok(here)
}
