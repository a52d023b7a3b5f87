//! epoll(7) whose timeouts are exact to the nanosecond, for a client that keeps a schedule.
use rustix::event::epoll::{self, EventFlags as Flags};
use std::{
    fmt, io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    ptr,
    time::Duration,
};

/// Edge-triggered epoll with `epoll_pwait2` (Linux 5.11). A timeout is not rounded up to a whole
/// millisecond, as [`super::Epoll`]'s are. It ends within the thread's timer slack
/// ([`crate::thread::set_timer_slack`]).
///
/// A descriptor is watched for both directions from [`Exact::add`] until it is closed. An event
/// comes once per change.
pub struct Exact {
    fd: OwnedFd,
    ready: Vec<libc::epoll_event>,
}

/// Change of a descriptor's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitChange {
    /// The key that it was added with.
    pub key: u64,
    /// Bytes, or the end of the stream, can be received.
    pub readable: bool,
    /// Bytes can be sent, or the connection is made or broken.
    pub writable: bool,
    /// The peer sends no more, or the connection broke: receive until the end.
    pub ended: bool,
}

impl fmt::Debug for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exact").field("fd", &self.fd).finish_non_exhaustive()
    }
}

/// Most changes that one wait returns; more follow with the next.
const CHANGES_PER_WAIT: usize = 256;

impl Exact {
    /// An epoll instance that watches nothing yet.
    ///
    /// # Errors
    /// No descriptors or memory left.
    pub fn new() -> io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { fd, ready: vec![libc::epoll_event { events: 0, u64: 0 }; CHANGES_PER_WAIT] })
    }

    /// Watches `fd` until it is closed; its changes carry `key`.
    ///
    /// # Errors
    /// The descriptor is watched already, cannot be waited for, or no memory is left.
    pub fn add(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(key), flags)?)
    }

    /// Waits until something changes or the time is up (`None`: never), and returns the number of
    /// changes. 0 if a signal arrived.
    ///
    /// # Errors
    /// The kernel has no `epoll_pwait2`: Linux before 5.11.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let timeout = super::timespec(timeout);
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let no_mask: *const libc::sigset_t = ptr::null();
        let (fd, len) = (self.fd.as_raw_fd(), self.ready.len());
        let ready = self.ready.as_mut_ptr();
        // SAFETY: the array is `len` entries long and only the kernel's during the call. The
        // timeout is null or live, and has the kernel's layout on 64-bit targets. A null mask of
        // size 0 leaves signals alone.
        let n = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, fd, ready, len, timeout, no_mask, 0usize)
        };
        if let Ok(n) = usize::try_from(n) {
            return Ok(n);
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) }
    }

    /// Change `at` of those that the last [`Exact::wait`] returned.
    #[inline]
    #[must_use]
    pub fn change(&self, at: usize) -> WaitChange {
        let libc::epoll_event { events, u64: key } = self.ready[at];
        let has = |flags: libc::c_int| events & flags.cast_unsigned() != 0;
        let broken = has(libc::EPOLLHUP | libc::EPOLLERR);
        let ended = broken || has(libc::EPOLLRDHUP);
        let readable = ended || has(libc::EPOLLIN);
        WaitChange { key, readable, writable: broken || has(libc::EPOLLOUT), ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Instant;

    #[test]
    fn a_change_comes_once_and_says_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        let mut exact = Exact::new().unwrap();
        exact.add(ours.as_fd(), 7).unwrap();
        assert!(exact.add(ours.as_fd(), 8).is_err());
        let second = Some(Duration::from_secs(5));
        assert_eq!(exact.wait(second).unwrap(), 1);
        let writable = WaitChange { key: 7, readable: false, writable: true, ended: false };
        assert_eq!(exact.change(0), writable);
        assert_eq!(exact.wait(Some(Duration::ZERO)).unwrap(), 0, "once");
        theirs.write_all(b"x").unwrap();
        assert_eq!(exact.wait(second).unwrap(), 1);
        assert_eq!(exact.change(0), WaitChange { readable: true, ..writable });
        drop(theirs);
        assert_eq!(exact.wait(second).unwrap(), 1);
        let change = exact.change(0);
        assert!(change.readable && change.ended);
    }

    /// Uses the best of many, since the machine may be busy: rounding would show in all.
    #[test]
    fn a_timeout_is_not_rounded_up_to_a_millisecond() {
        crate::thread::set_timer_slack(Duration::from_nanos(1)).unwrap();
        let mut exact = Exact::new().unwrap();
        let best = (0..200).map(|_| {
            let start = Instant::now();
            assert_eq!(exact.wait(Some(Duration::from_micros(100))).unwrap(), 0);
            start.elapsed()
        });
        let best = best.min().unwrap();
        assert!(best >= Duration::from_micros(100), "{best:?}");
        assert!(best < Duration::from_micros(900), "{best:?}");
    }
}
