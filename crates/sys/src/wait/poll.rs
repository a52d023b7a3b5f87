//! poll(2): a dense array of descriptors, handed to the kernel whole.
use super::{Event, Interest, Poller, timespec};
use crate::hook::{self, Call};
use std::{
    fmt, io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr,
    time::Duration,
};

/// A [`Poller`] on poll(2). A wait costs in proportion to the number of watched descriptors.
#[derive(Default)]
pub struct Poll {
    fds: Vec<libc::pollfd>,
    /// Key of each of `fds`.
    keys: Vec<u64>,
    /// Place of each descriptor in `fds`, by its number.
    at: Vec<Option<u32>>,
    changes: u64,
}

impl fmt::Debug for Poll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poll").field("len", &self.fds.len()).finish_non_exhaustive()
    }
}

impl Poll {
    /// A poller that watches nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn find(&self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let at = self.at.get(index(fd.as_raw_fd())).copied().flatten();
        at.map(|at| at as usize).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Poller for Poll {
    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let fd = fd.as_raw_fd();
        let number = index(fd);
        if number >= self.at.len() {
            self.at.resize(number + 1, None);
        }
        if self.at[number].is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let at = u32::try_from(self.fds.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.at[number] = Some(at);
        self.fds.push(entry(fd, interest));
        self.keys.push(key);
        self.changes += 1;
        Ok(())
    }

    fn add_reader(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        self.add(fd, key, Interest::READ)?;
        let last = self.fds.last_mut().expect("it has been added");
        last.events |= libc::POLLRDHUP;
        Ok(())
    }

    fn set(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let at = self.find(fd)?;
        self.fds[at] = entry(fd.as_raw_fd(), interest);
        self.keys[at] = key;
        self.changes += 1;
        Ok(())
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let at = self.find(fd)?;
        let moved = self.at[index(fd.as_raw_fd())].take();
        self.fds.swap_remove(at);
        self.keys.swap_remove(at);
        if let Some(last) = self.fds.get(at) {
            self.at[index(last.fd)] = moved;
        }
        self.changes += 1;
        Ok(())
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        events.clear();
        if hook::fault(Call::Wait).is_some() {
            return Ok(0);
        }
        let timeout = timespec(timeout);
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let len = self.fds.len() as libc::nfds_t;
        // SAFETY: the array is `len` entries long and only the kernel's during the call; the
        // timeout is null or live; a null mask means to leave signals alone. A descriptor that was
        // closed while watched is reported as such, below.
        let ready = unsafe { libc::ppoll(self.fds.as_mut_ptr(), len, timeout, ptr::null()) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) };
        }
        let set = self.fds.iter_mut().zip(&self.keys).filter(|(entry, _)| entry.revents != 0);
        for (entry, &key) in set.take(usize::try_from(ready).unwrap_or(0)) {
            if entry.revents & libc::POLLNVAL != 0 {
                return Err(io::Error::from_raw_os_error(libc::EBADF));
            }
            if entry.events == QUIET {
                // It would be reported repeatedly: a negative number is skipped.
                entry.fd = !entry.fd;
            }
            events.push(event(key, entry));
        }
        Ok(events.len())
    }

    fn len(&self) -> usize {
        self.fds.len()
    }

    fn changes(&self) -> u64 {
        self.changes
    }
}

/// Readiness of one descriptor now, which a poller may not have reported yet.
///
/// # Errors
/// The descriptor cannot be waited for.
pub fn ready_now(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Event> {
    ready_within(fd, interest, Duration::ZERO)
}

/// Readiness of one descriptor, as soon as it has some, or after `timeout`.
///
/// # Errors
/// The descriptor cannot be waited for, or a signal arrived.
pub fn ready_within(
    fd: BorrowedFd<'_>,
    interest: Interest,
    timeout: Duration,
) -> io::Result<Event> {
    let mut one = entry(fd.as_raw_fd(), interest);
    let ms = timeout.as_micros().div_ceil(1000).try_into().unwrap_or(libc::c_int::MAX);
    // SAFETY: one entry, live across the call; the descriptor is open because it is borrowed.
    if unsafe { libc::poll(&raw mut one, 1, ms) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(event(0, &one))
}

const fn event(key: u64, entry: &libc::pollfd) -> Event {
    let broken = entry.revents & (libc::POLLHUP | libc::POLLERR) != 0;
    let hangup = broken || entry.revents & libc::POLLRDHUP != 0;
    Event {
        key,
        readable: hangup || entry.revents & libc::POLLIN != 0,
        writable: broken || entry.revents & libc::POLLOUT != 0,
        hangup,
        broken,
        urgent: false,
    }
}

/// Event to watch for where there is no interest.
const QUIET: libc::c_short = libc::POLLRDHUP;

const fn entry(fd: RawFd, interest: Interest) -> libc::pollfd {
    let read = if interest.read { libc::POLLIN } else { 0 };
    let write = if interest.write { libc::POLLOUT } else { 0 };
    let events = if read | write == 0 { QUIET } else { read | write };
    libc::pollfd { fd, events, revents: 0 }
}

/// Number of a descriptor, skipped or not.
#[expect(clippy::cast_sign_loss, reason = "one of the two is not negative")]
const fn index(fd: RawFd) -> usize {
    (if fd < 0 { !fd } else { fd }) as usize
}
