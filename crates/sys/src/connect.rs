//! TCP connections from the client's side, made without waiting.
use crate::socket::set_option;
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

/// Addresses and buffer of a connection to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectSpec {
    /// The peer.
    pub to: SocketAddr,
    /// Our address, of the peer's family; `None` leaves it to the kernel. Each address has its own
    /// ports, and all of 127.0.0.0/8 is ours.
    pub from: Option<IpAddr>,
    /// Receive buffer, bytes; 0 leaves it to the kernel (`SO_RCVBUF`). A slow reader needs a small
    /// one: the kernel reads ahead into it.
    pub recv_buffer_bytes: u32,
}

/// Starts a connection on a non-blocking socket, whose outcome [`connected`] knows once it is
/// writable.
///
/// The port is chosen as late as possible (`IP_BIND_ADDRESS_NO_PORT`), so that it only needs to be
/// unused towards this peer. Small segments are sent at once (`TCP_NODELAY`).
///
/// # Errors
/// No descriptors (`EMFILE`, `ENFILE`) or ports (`EADDRNOTAVAIL`) left; the address is not ours; or
/// the kernel knows at once that no socket listens.
pub fn connect(spec: &ConnectSpec) -> io::Result<OwnedFd> {
    let family = if spec.to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    if spec.recv_buffer_bytes > 0 {
        let bytes = usize::try_from(spec.recv_buffer_bytes).unwrap_or(usize::MAX);
        sockopt::set_socket_recv_buffer_size(&fd, bytes)?;
    }
    if let Some(from) = spec.from {
        set_option(fd.as_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &1_i32)?;
        rustix::net::bind(&fd, &SocketAddr::new(from, 0))?;
    }
    match rustix::net::connect(&fd, &spec.to) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(fd),
        Err(errno) => Err(errno.into()),
    }
}

/// Connects a non-blocking socket to the Unix socket at `path`; [`connected`] says so at once.
///
/// # Errors
/// No socket, no listener, or no permission at `path`; a path that is too long; no descriptors
/// left. A full queue of the listener is a refused connection.
pub fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&fd, &address) {
        Ok(()) => Ok(fd),
        // The queue is full, which TCP would wait for.
        Err(Errno::AGAIN) => Err(Errno::CONNREFUSED.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether the connection was made, once the socket is writable (`SO_ERROR`).
///
/// # Errors
/// The reason: refused, timed out, unreachable.
pub fn connected(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::socket_error(fd)??)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Exact;
    use std::net::TcpListener;
    use std::time::Duration;

    fn outcome(fd: &OwnedFd) -> io::Result<()> {
        let mut exact = Exact::new().unwrap();
        exact.add(fd.as_fd(), 0).unwrap();
        assert_eq!(exact.wait(Some(Duration::from_secs(5))).unwrap(), 1);
        connected(fd.as_fd())
    }

    #[test]
    fn connects_from_the_address_that_it_was_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        for from in ["127.0.0.1", "127.4.5.6"] {
            let from: IpAddr = from.parse().unwrap();
            let fd = connect(&ConnectSpec { to, from: Some(from), recv_buffer_bytes: 8192 });
            outcome(&fd.unwrap()).unwrap();
            assert_eq!(listener.accept().unwrap().1.ip(), from);
        }
        let spec = ConnectSpec { to, from: Some([203, 0, 113, 1].into()), recv_buffer_bytes: 0 };
        let refused = connect(&spec).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrNotAvailable);
    }

    #[test]
    fn connects_from_an_address_of_the_sixth_version() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        let to = listener.local_addr().unwrap();
        let spec = ConnectSpec { to, from: Some(to.ip()), recv_buffer_bytes: 0 };
        outcome(&connect(&spec).unwrap()).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), to.ip());
    }

    #[test]
    fn connects_to_a_path() {
        let folder = regatta_testkit::folder::Folder::new("connect");
        let path = folder.join("socket");
        assert_eq!(connect_unix(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        outcome(&connect_unix(&path).unwrap()).unwrap();
        drop(listener);
        let refused = connect_unix(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn says_that_nobody_listens() {
        let to = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let spec = ConnectSpec { to, from: None, recv_buffer_bytes: 0 };
        let error = match connect(&spec) {
            Ok(fd) => outcome(&fd).unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
