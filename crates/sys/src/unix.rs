//! Unix sockets that listen: a path in place of an address and a port, for clients on the same
//! machine (unix(7)).
use crate::{
    file::may_make_files,
    socket::{self, Steps, set_mode, set_timeouts},
};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};
use std::{
    fs::{self, File, Metadata, Permissions},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown},
    },
    path::{Path, PathBuf},
};

/// Longest path of a socket, bytes: the room in `sockaddr_un` before its last zero.
pub const PATH_BYTES_MAX: usize = 107;

/// Options of a listener at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnixSpec<'a> {
    /// Path of at most [`PATH_BYTES_MAX`] bytes.
    pub path: &'a Path,
    /// Mode of the socket's file: permission to write is permission to connect.
    pub mode: u32,
    /// New user and group of the file; `None` keeps its maker's.
    pub owner: Option<(u32, u32)>,
    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u32,
    /// Send buffer of a connection, bytes; 0 leaves it to the kernel (`SO_SNDBUF`).
    pub send_buffer_bytes: u32,
    /// Calls that wait for at most a step.
    pub steps: Steps,
}

/// Makes a listening socket, and its file. Replaces only a socket's file without a listener, as a
/// killed server leaves behind.
///
/// # Errors
/// `AddrInUse`: a socket listens there, or something else is there. Else the path is too long, its
/// folder is missing or may not be written to, or the file cannot be given away.
pub fn listen(spec: &UnixSpec<'_>) -> io::Result<(OwnedFd, SocketFile)> {
    let address = SocketAddrUnix::new(spec.path)?;
    // Anything else makes binding fail.
    if is_abandoned(spec.path, &address)? == Some(true) {
        fs::remove_file(spec.path)?;
    }
    let fd = stream(match spec.steps {
        Steps::None | Steps::Connections(_) => SocketFlags::NONBLOCK,
        Steps::All(_) => SocketFlags::empty(),
    })?;
    set_inherited(fd.as_fd(), spec)?;
    rustix::net::bind(&fd, &address)?;
    let file = SocketFile::at(spec.path)?;
    // Until it listens no client can connect, whatever the permissions are.
    let listens = file.give(spec).and_then(|()| Ok(rustix::net::listen(&fd, backlog(spec))?));
    listens.inspect_err(|_| file.remove())?;
    Ok((fd, file))
}

/// Checks that this process could listen at a path, and leaves nothing there. Returns a socket.
///
/// # Errors
/// As [`listen`].
pub fn try_at(path: &Path) -> io::Result<OwnedFd> {
    match is_abandoned(path, &SocketAddrUnix::new(path)?)? {
        None | Some(true) => may_make_files(path.parent().unwrap_or(Path::new("/")))?,
        Some(false) => return Err(io::ErrorKind::AddrInUse.into()),
    }
    stream(SocketFlags::NONBLOCK)
}

/// Applies `spec` to a listening socket, and to its file if that is ours. If it was non-blocking it
/// stays so whatever `spec` says: others may accept from it.
///
/// # Errors
/// An option is refused, or the file cannot be given away.
pub fn adopt(
    listener: BorrowedFd<'_>,
    file: Option<&SocketFile>,
    spec: &UnixSpec<'_>,
) -> io::Result<()> {
    set_inherited(listener, spec)?;
    if !matches!(spec.steps, Steps::All(_)) {
        set_mode(listener, socket::Mode::Nonblocking)?;
    }
    file.map_or(Ok(()), |file| file.give(spec))?;
    Ok(rustix::net::listen(listener, backlog(spec))?)
}

/// Sets the options that accepted connections get.
fn set_inherited(fd: BorrowedFd<'_>, spec: &UnixSpec<'_>) -> io::Result<()> {
    if let Steps::Connections(step) | Steps::All(step) = spec.steps {
        set_timeouts(fd, Some(step), Some(step))?;
    }
    if spec.send_buffer_bytes > 0 {
        let bytes = usize::try_from(spec.send_buffer_bytes).unwrap_or(usize::MAX);
        sockopt::set_socket_send_buffer_size(fd, bytes)?;
    }
    Ok(())
}

fn backlog(spec: &UnixSpec<'_>) -> i32 {
    i32::try_from(spec.backlog).unwrap_or(i32::MAX)
}

/// File of a socket that listens. It stays until it is [removed](Self::remove).
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Open, so that no other file gets its number.
    file: File,
}

impl SocketFile {
    /// Finds the socket's file at this path.
    ///
    /// # Errors
    /// The path has no such file.
    pub fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        id_of(&file.metadata()?)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Adopts the file that an earlier program of this process had, open at that path.
    ///
    /// # Errors
    /// The file is no socket's.
    pub fn adopt(path: PathBuf, file: OwnedFd) -> io::Result<Self> {
        let file = File::from(file);
        id_of(&file.metadata()?)?;
        Ok(Self { path, file })
    }

    /// Gives the file its owner and permissions. Leaves a file that replaced it alone.
    fn give(&self, spec: &UnixSpec<'_>) -> io::Result<()> {
        let same = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        if let Some((user, group)) = spec.owner {
            chown(&same, Some(user), Some(group))?;
        }
        fs::set_permissions(&same, Permissions::from_mode(spec.mode))
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, and no other that has taken its place.
    pub fn remove(&self) {
        let own = self.file.metadata().and_then(|own| id_of(&own));
        let found = fs::symlink_metadata(&self.path).and_then(|found| id_of(&found));
        if found.is_ok_and(|id| own.is_ok_and(|own| own == id)) {
            // Another process may have removed it already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl AsFd for SocketFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Device and inode of a socket's file.
fn id_of(found: &Metadata) -> io::Result<(u64, u64)> {
    match found.file_type().is_socket() {
        true => Ok((found.dev(), found.ino())),
        false => Err(io::ErrorKind::AddrInUse.into()),
    }
}

fn stream(flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// True if a socket's file without a listener is there; `None` if nothing is there.
fn is_abandoned(path: &Path, address: &SocketAddrUnix) -> io::Result<Option<bool>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {}
        found => return Ok(found.ok().map(|_| false)),
    }
    // A blocking connect would wait long for a listener whose backlog is full.
    let probe = stream(SocketFlags::NONBLOCK)?;
    Ok(Some(rustix::net::connect(&probe, address) == Err(Errno::CONNREFUSED)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{folder::Folder, socket::Place};
    use std::{
        io::ErrorKind,
        os::unix::{fs::symlink, net::UnixStream},
        time::{Duration, Instant},
    };

    fn spec(path: &Path) -> UnixSpec<'_> {
        let (owner, send_buffer_bytes, steps) = (None, 0, Steps::None);
        UnixSpec { path, mode: 0o640, owner, backlog: 2, send_buffer_bytes, steps }
    }

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_that_nobody_listens_on_is_replaced() {
        let home = Folder::new("unix-replaced");
        let path = home.join("socket");
        let (listener, file) = listen(&spec(&path)).unwrap();
        assert_eq!((mode_of(&path), file.path()), (0o640, &*path));
        assert_eq!(socket::place(listener.as_fd()).unwrap(), Place::Unix(path.clone()));
        assert_eq!(listen(&spec(&path)).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert!(UnixStream::connect(&path).is_ok(), "it was left alone");
        drop(listener);
        let refused = UnixStream::connect(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let (_again, again) = listen(&UnixSpec { mode: 0o666, ..spec(&path) }).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        file.remove();
        assert_eq!(mode_of(&path), 0o666, "another's file stays");
        again.remove();
        assert!(!path.exists());
    }

    #[test]
    fn a_listener_with_a_full_backlog_is_left_alone() {
        let home = Folder::new("unix-full");
        let path = home.join("socket");
        let _listener = listen(&UnixSpec { backlog: 0, ..spec(&path) }).unwrap();
        let _waits = UnixStream::connect(&path).unwrap();
        let start = Instant::now();
        assert_eq!(listen(&spec(&path)).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert!(start.elapsed() < Duration::from_secs(5), "it does not wait");
        assert!(path.exists());
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let home = Folder::new("unix-file");
        let (path, link) = (home.join("file"), home.join("link"));
        fs::write(&path, "mine").unwrap();
        symlink(&path, &link).unwrap();
        for there in [&path, &link] {
            assert_eq!(listen(&spec(there)).unwrap_err().kind(), ErrorKind::AddrInUse);
        }
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        let long = home.join("x".repeat(PATH_BYTES_MAX + 1));
        assert!(listen(&spec(&long)).is_err());
        let nowhere = home.join("no/folder");
        assert_eq!(listen(&spec(&nowhere)).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_cannot_be_given_away_is_removed() {
        let home = Folder::new("unix-given");
        let path = home.join("socket");
        let (user, group) =
            (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let own = UnixSpec { owner: Some((user, group)), ..spec(&path) };
        let (_, file) = listen(&own).unwrap();
        file.remove();
        if user != 0 {
            assert!(listen(&UnixSpec { owner: Some((0, 0)), ..own }).is_err());
            assert!(!path.exists());
        }
    }

    #[test]
    fn connections_get_what_their_listener_has() {
        let home = Folder::new("unix-step");
        let path = home.join("socket");
        let step = Duration::from_millis(20);
        let all = UnixSpec { steps: Steps::All(step), send_buffer_bytes: 20_000, ..spec(&path) };
        let (listener, _) = listen(&all).unwrap();
        assert_eq!(socket::wait_max(listener.as_fd()).unwrap(), Some(step));
        let accept = |listener: &OwnedFd| socket::accept(listener.as_fd(), socket::Mode::Blocking);
        assert_eq!(accept(&listener).unwrap_err().kind(), ErrorKind::WouldBlock);
        let _client = UnixStream::connect(&path).unwrap();
        let (accepted, peer) = accept(&listener).unwrap();
        assert_eq!(peer, None);
        for of in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            assert_eq!(sockopt::socket_timeout(&accepted, of).unwrap(), Some(step));
        }
        assert_eq!(sockopt::socket_send_buffer_size(&accepted).unwrap(), 40_000);
        drop(listener);
        let (listener, _) = listen(&spec(&path)).unwrap();
        assert_eq!(socket::wait_max(listener.as_fd()).unwrap(), None);
        let _client = UnixStream::connect(&path).unwrap();
        let (accepted, _) = accept(&listener).unwrap();
        assert_eq!(sockopt::socket_timeout(&accepted, sockopt::Timeout::Recv).unwrap(), None);
    }
}
