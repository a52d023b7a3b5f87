//! Where the admin process listens.
use crate::config::address::Place;
use regatta_sys::{
    socket::Steps,
    unix::{self, UnixSpec},
};
use std::{
    fs, io,
    net::TcpListener,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixListener,
    },
    path::PathBuf,
};

/// Of a socket's file: its owner alone may connect.
const MODE: u32 = 0o600;

/// Connections that may wait: monitors are few.
const BACKLOG: u32 = 128;

/// A socket that accepts the connections of monitors. Its file stays until it is
/// [removed](Listener::remove): an image of the master that comes next listens there, too.
#[derive(Debug)]
pub(crate) enum Listener {
    /// At an internet address.
    Inet(TcpListener),
    /// At a path.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens at a place, instead of a server that left its socket behind.
    pub(crate) fn at(place: &Place) -> io::Result<Self> {
        let path = match place {
            Place::Inet(address) => return TcpListener::bind(address).map(Self::Inet),
            Place::Unix(path) => path,
        };
        let (owner, backlog, send_buffer_bytes, steps) = (None, BACKLOG, 0, Steps::None);
        let spec = UnixSpec { path, mode: MODE, owner, backlog, send_buffer_bytes, steps };
        let listener = UnixListener::from(unix::listen(&spec)?.0);
        listener.set_nonblocking(false)?;
        Ok(Self::Unix(listener, path.clone()))
    }

    /// Takes over what an earlier image of the master listens with at this place.
    pub(crate) fn adopt(place: &Place, socket: OwnedFd) -> Self {
        match place {
            Place::Inet(_) => Self::Inet(socket.into()),
            Place::Unix(path) => Self::Unix(socket.into(), path.clone()),
        }
    }

    /// Sees whether it could listen at a place, and leaves nothing there.
    pub(crate) fn try_at(place: &Place) -> io::Result<()> {
        match place {
            Place::Inet(_) => Self::at(place).map(drop),
            Place::Unix(path) => unix::try_at(path).map(drop),
        }
    }

    /// Removes its file, if it has one.
    pub(crate) fn remove(&self) {
        if let Self::Unix(_, path) = self {
            // Somebody may have removed it already.
            let _ = fs::remove_file(path);
        }
    }

    pub(super) fn accept(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Inet(listener) => listener.accept().map(|(stream, _)| stream.into()),
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| stream.into()),
        }
    }

    /// Where it listens: with the port that the kernel has chosen, if it was to.
    pub(crate) fn place(&self) -> io::Result<Place> {
        match self {
            Self::Inet(listener) => listener.local_addr().map(Place::Inet),
            Self::Unix(_, path) => Ok(Place::Unix(path.clone())),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Inet(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::{fs::PermissionsExt, net::UnixStream},
        process,
    };

    #[test]
    fn a_socket_is_its_owners_and_replaces_one_that_was_left_behind() {
        let path = std::env::temp_dir().join(format!("regatta-admin-{}", process::id()));
        let place = Place::Unix(path.clone());
        // Dropping the standard library's listener leaves its file.
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listener::at(&place).unwrap();
        assert_eq!(listener.place().unwrap(), place);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        let error = Listener::at(&place).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "somebody listens there");
        assert_eq!(Listener::try_at(&place).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // Who takes it over is who listens from then on.
        let socket = listener.as_fd().try_clone_to_owned().unwrap();
        drop(listener);
        let listener = Listener::adopt(&place, socket);
        assert_eq!(listener.place().unwrap(), place);
        let _client = UnixStream::connect(&path).unwrap();
        listener.accept().unwrap();
        drop(listener);
        assert!(path.exists() && Listener::try_at(&place).is_ok(), "it is left behind");
        let listener = Listener::at(&place).unwrap();
        listener.remove();
        assert!(!path.exists() && Listener::try_at(&place).is_ok() && !path.exists());
        fs::write(&path, "a file").unwrap();
        assert_eq!(Listener::at(&place).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(Listener::try_at(&place).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        fs::remove_file(&path).unwrap();
    }
}
