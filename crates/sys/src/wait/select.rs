//! select(2), with sets as large as the largest descriptor needs rather than `FD_SETSIZE`.
use super::{Event, Interest, Poller, timespec};
use crate::hook::{self, Call};
use std::{
    fmt, io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr,
    time::Duration,
};

const WORD_BITS: usize = 64;

/// A [`Poller`] on select(2). The cost of a wait is proportional to the largest watched descriptor.
///
/// Libc's `fd_set` has room for 1,024 descriptors and corrupts memory beyond. The kernel takes sets
/// of any size, so these grow.
#[derive(Default)]
pub struct Select {
    /// Interest, one bit per descriptor.
    read: Vec<u64>,
    write: Vec<u64>,
    /// Descriptors watched for hangups alone.
    quiet: Vec<u64>,
    /// Sets that the kernel overwrites, one behind the other.
    ready: Vec<u64>,
    /// Key of each watched descriptor, by its number; the last one is watched.
    keys: Vec<Option<u64>>,
    len: usize,
    changes: u64,
}

impl fmt::Debug for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Select {
    /// A poller that watches nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn find(&self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let number = number(fd);
        let watched = self.keys.get(number).is_some_and(Option::is_some);
        watched.then_some(number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn want(&mut self, number: usize, interest: Interest) {
        let (word, bit) = (number / WORD_BITS, 1 << (number % WORD_BITS));
        let sets = [
            (&mut self.read, interest.read),
            (&mut self.write, interest.write),
            (&mut self.quiet, interest == Interest::NONE),
        ];
        for (set, on) in sets {
            set[word] = if on { set[word] | bit } else { set[word] & !bit };
        }
        self.changes += 1;
    }
}

impl Poller for Select {
    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let number = number(fd);
        if self.find(fd).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if number >= self.keys.len() {
            self.keys.resize(number + 1, None);
            self.read.resize(self.keys.len().div_ceil(WORD_BITS), 0);
            self.write.resize(self.read.len(), 0);
            self.quiet.resize(self.read.len(), 0);
        }
        self.keys[number] = Some(key);
        self.len += 1;
        self.want(number, interest);
        Ok(())
    }

    fn set(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let number = self.find(fd)?;
        self.keys[number] = Some(key);
        self.want(number, interest);
        Ok(())
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let number = self.find(fd)?;
        self.want(number, Interest::NONE);
        self.quiet[number / WORD_BITS] &= !(1 << (number % WORD_BITS));
        self.keys[number] = None;
        self.len -= 1;
        let used = self.keys.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.keys.truncate(used);
        Ok(())
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        events.clear();
        if hook::fault(Call::Wait).is_some() {
            return Ok(0);
        }
        let count = libc::c_int::try_from(self.keys.len()).expect("descriptors are C ints");
        let words = self.keys.len().div_ceil(WORD_BITS);
        self.ready.clear();
        let looked_at = self.read.iter().zip(&self.quiet).map(|(read, quiet)| read | quiet);
        self.ready.extend(looked_at.take(words));
        self.ready.extend_from_slice(&self.write[..words]);
        let (read, write) = self.ready.split_at_mut(words);
        let timeout = timespec(timeout);
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: for `count` descriptors the kernel reads and writes `words` words of each set,
        // the length of both. They are aligned like its own longs, and only the kernel's during
        // the call. The other pointers are null or live.
        let ready = unsafe {
            libc::pselect(
                count,
                read.as_mut_ptr().cast(),
                write.as_mut_ptr().cast(),
                ptr::null_mut(),
                timeout,
                ptr::null(),
            )
        };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) };
        }
        for (word, (&read, &write)) in read.iter().zip(&*write).enumerate() {
            let mut either = read | write;
            while either != 0 {
                let bit = either.trailing_zeros() as usize;
                either &= either - 1;
                let number = word * WORD_BITS + bit;
                let key = self.keys[number].expect("only watched ones are asked for");
                let (readable, writable) = (read >> bit & 1 != 0, write >> bit & 1 != 0);
                if self.quiet[word] >> bit & 1 == 0 {
                    events.push(Event { key, readable, writable, ..Event::default() });
                    continue;
                }
                // It would be reported repeatedly.
                self.quiet[word] &= !(1 << bit);
                let (hangup, broken) = hung_up(number);
                if hangup {
                    let event = Event {
                        key,
                        readable: true,
                        writable: broken,
                        hangup,
                        broken,
                        urgent: false,
                    };
                    events.push(event);
                }
            }
        }
        Ok(events.len())
    }

    fn len(&self) -> usize {
        self.len
    }

    fn changes(&self) -> u64 {
        self.changes
    }
}

/// Whether the peer sends no more, and whether it is gone, which select(2) does not tell from
/// bytes.
fn hung_up(number: usize) -> (bool, bool) {
    let fd = RawFd::try_from(number).expect("descriptors are C ints");
    let mut entry = libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: the array is the one entry, ours and live; the call does not wait.
    if unsafe { libc::poll(&raw mut entry, 1, 0) } <= 0 {
        return (false, false);
    }
    (
        true,
        entry.revents & libc::POLLRDHUP == 0
            || entry.revents & (libc::POLLHUP | libc::POLLERR) != 0,
    )
}

#[expect(clippy::cast_sign_loss, reason = "an open descriptor is not negative")]
fn number(fd: BorrowedFd<'_>) -> usize {
    fd.as_raw_fd() as usize
}
