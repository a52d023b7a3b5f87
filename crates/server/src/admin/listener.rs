//! Listener of the admin process.
use regatta_sys::{
    socket::{Place, Steps},
    unix::{self, SocketFile, UnixSpec},
};
use std::{io, net::TcpListener, os::fd::OwnedFd};

/// Mode of the file of a socket: its owner alone may connect.
const MODE: u32 = 0o600;

/// Connections that may wait: monitors are few.
const BACKLOG: u32 = 128;

/// Listens at a place, replacing the socket that an ended server left behind. The caller removes
/// the file of the socket, if there is one: the next image of the master listens there, too.
pub(crate) fn listen(place: &Place) -> io::Result<(OwnedFd, Option<SocketFile>)> {
    let path = match place {
        Place::Inet(address) => return Ok((TcpListener::bind(address)?.into(), None)),
        Place::Unix(path) => path,
    };
    let (owner, backlog, send_buffer_bytes, steps) = (None, BACKLOG, 0, Steps::None);
    let spec = UnixSpec { path, mode: MODE, owner, backlog, send_buffer_bytes, steps };
    let (socket, file) = unix::listen(&spec)?;
    Ok((socket, Some(file)))
}

/// Tests whether it could listen at a place, and leaves nothing there.
pub(crate) fn try_listening(place: &Place) -> io::Result<()> {
    match place {
        Place::Inet(_) => listen(place).map(drop),
        Place::Unix(path) => unix::try_at(path).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use regatta_sys::socket::{self, Mode};
    use std::{
        fs,
        os::{
            fd::AsFd,
            unix::{
                fs::PermissionsExt,
                net::{UnixListener, UnixStream},
            },
        },
    };

    #[test]
    fn a_socket_is_its_owners_and_replaces_one_that_was_left_behind() {
        let folder = Folder::new("admin");
        let path = folder.join("socket");
        let at = Place::Unix(path.clone());
        // Dropping the standard library's listener leaves its file.
        drop(UnixListener::bind(&path).unwrap());
        let (listener, file) = listen(&at).unwrap();
        assert_eq!(socket::place(listener.as_fd()).unwrap(), at);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        let error = listen(&at).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "somebody listens there");
        assert_eq!(try_listening(&at).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let _client = UnixStream::connect(&path).unwrap();
        socket::accept(listener.as_fd(), Mode::Blocking).unwrap();
        drop(listener);
        assert!(path.exists() && try_listening(&at).is_ok(), "it is left behind");
        let (_listener, again) = listen(&at).unwrap();
        file.unwrap().remove();
        assert!(path.exists(), "it is another's by now");
        again.unwrap().remove();
        assert!(!path.exists() && try_listening(&at).is_ok() && !path.exists());
        fs::write(&path, "a file").unwrap();
        assert_eq!(listen(&at).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(try_listening(&at).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
