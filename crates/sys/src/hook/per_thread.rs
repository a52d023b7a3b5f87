//! Faults that a test injects into its own thread: the time, and failing accepts.
use regatta_op::{Now, Tick};
use rustix::{io::Errno, net::sockopt};
use std::{cell::Cell, os::fd::OwnedFd};

thread_local! {
    static TIME: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
    static ACCEPT_FAULT: Cell<Option<Errno>> = const { Cell::new(None) };
    static ROOM: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Sets the clocks of this thread to fixed values: nanoseconds, and seconds since 1970.
pub fn set_time(nanos: u64, unix: u64) {
    TIME.set(Some((nanos, unix)));
}

/// Restores the thread's own clocks and accepts.
pub fn clear() {
    TIME.set(None);
    ACCEPT_FAULT.set(None);
    ROOM.set(None);
}

/// Limits the send buffers, bytes, of sockets that this thread accepts from now on.
pub fn set_room(bytes: usize) {
    ROOM.set(Some(bytes));
}

/// Makes the next accept of this thread fail with this error number; it accepts no peer.
pub fn fail_next_accept(errno: i32) {
    ACCEPT_FAULT.set(Some(Errno::from_raw_os_error(errno)));
}

pub(crate) fn now() -> Option<Now> {
    TIME.get().map(|(nanos, unix)| Now { tick: Tick(nanos / 1_000_000), unix })
}

pub(crate) fn nanos() -> Option<u64> {
    TIME.get().map(|(nanos, _)| nanos)
}

pub(crate) fn accept_fault() -> Option<Errno> {
    ACCEPT_FAULT.take()
}

pub(crate) fn accepted(socket: &OwnedFd) {
    if let Some(bytes) = ROOM.get() {
        let set = sockopt::set_socket_send_buffer_size(socket, bytes);
        set.expect("a socket has a send buffer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock, socket};
    use std::os::{
        fd::{AsFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr as Local, UnixListener, UnixStream},
    };

    #[test]
    fn a_thread_has_its_own_time_until_it_is_given_back() {
        set_time(5_000_001, 7);
        assert_eq!(clock::nanos(), 5_000_001);
        assert_eq!(clock::now(), Now { tick: Tick(5), unix: 7 });
        assert!(std::thread::spawn(clock::nanos).join().unwrap() > 5_000_001);
        clear();
        assert!(clock::nanos() > 5_000_001 && clock::now().unix > 7);
    }

    #[test]
    fn an_accept_fails_once_and_then_takes_who_is_there() {
        let name = format!("regatta-accept-{}", std::process::id());
        let address = Local::from_abstract_name(name).unwrap();
        let listener = OwnedFd::from(UnixListener::bind_addr(&address).unwrap());
        let accept = || socket::accept(listener.as_fd(), socket::Mode::Blocking);
        let _peer = UnixStream::connect_addr(&address).unwrap();
        fail_next_accept(libc::EMFILE);
        assert_eq!(accept().unwrap_err().raw_os_error(), Some(libc::EMFILE));
        accept().unwrap();
    }
}
