//! epoll(7), level- or edge-triggered: the [`Poller`] of most drivers, and of the bare loop.
//!
//! Helper processes, groups of helpers and scouts have one whose descriptor another poller watches.
use super::{Event, Interest, Poller};
use crate::hook::{self, Call};
use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, EventFlags as Flags},
    },
    io::Errno,
};
use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

/// Time at which an event is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// While its cause lasts.
    Level,
    /// Once per change.
    Edge,
}

/// A [`Poller`] on an epoll instance. Timeouts are rounded up to milliseconds.
///
/// Create it after forking: children share the instance that they inherit. A descriptor that is
/// closed without being removed stays watched as long as another process has it open.
pub struct Epoll {
    fd: OwnedFd,
    trigger: Trigger,
    /// Additional flags for listeners.
    listeners: Flags,
    len: usize,
    changes: u64,
    ready: Vec<epoll::Event>,
}

// SAFETY: rustix's events may hold a pointer, so they are not `Send`. Ours hold keys, which are
// numbers: nothing of them belongs to a thread. The descriptor may be used by any thread.
unsafe impl Send for Epoll {}

impl fmt::Debug for Epoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoll").field("fd", &self.fd).field("trigger", &self.trigger).finish()
    }
}

impl Epoll {
    /// An epoll instance that watches nothing yet.
    ///
    /// # Errors
    /// No descriptors or memory left.
    pub fn new(trigger: Trigger) -> io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        if trigger == Trigger::Edge {
            hook::edge_triggered();
        }
        let ready = Vec::with_capacity(EVENTS_PER_WAIT);
        Ok(Self { fd, trigger, listeners: Flags::empty(), len: 0, changes: 0, ready })
    }

    /// This instance, with a connection to a listener waking one of the waiting processes, and not
    /// all of them (`EPOLLEXCLUSIVE`, epoll_ctl(2)). More than one may wake.
    #[must_use]
    pub fn exclusive(self) -> Self {
        Self { listeners: Flags::EXCLUSIVE, ..self }
    }

    /// This instance, with at most `events_max` events per wait, and at least one.
    #[must_use]
    pub fn returning(self, events_max: usize) -> Self {
        Self { ready: Vec::with_capacity(events_max.max(1)), ..self }
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, key: u64, flags: Flags) -> io::Result<()> {
        epoll::add(&self.fd, fd, epoll::EventData::new_u64(key), flags)?;
        self.len += 1;
        self.changes += 1;
        Ok(())
    }
}

/// Readable while something that is watched is ready: one poller can watch another.
impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Poller for Epoll {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn edge(&self) -> bool {
        self.trigger == Trigger::Edge
    }

    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        match self.trigger {
            Trigger::Level => self.add_level(fd, key, interest),
            Trigger::Edge => self.watch(fd, key, edge(interest)),
        }
    }

    fn add_level(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.watch(fd, key, level(interest))
    }

    fn add_reader(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        let flags = match self.trigger {
            Trigger::Level => level(Interest::READ) | Flags::RDHUP,
            Trigger::Edge => edge(Interest::READ),
        };
        self.watch(fd, key, flags)
    }

    fn add_listener(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        self.watch(fd, key, Flags::IN | self.listeners)
    }

    fn set(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let flags = match self.trigger {
            Trigger::Level => level(interest),
            Trigger::Edge => edge(interest),
        };
        epoll::modify(&self.fd, fd, epoll::EventData::new_u64(key), flags)?;
        self.changes += 1;
        Ok(())
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        epoll::delete(&self.fd, fd)?;
        self.len -= 1;
        self.changes += 1;
        Ok(())
    }

    fn forget(&mut self, _: BorrowedFd<'_>) {
        self.len -= 1;
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        events.clear();
        self.ready.clear();
        if hook::fault(Call::Wait).is_some() {
            return Ok(0);
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let spare = spare_capacity(&mut self.ready);
        match epoll::wait(&self.fd, spare, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(0),
            Err(errno) => return Err(errno.into()),
        }
        events.extend(self.ready.iter().map(|event| {
            let flags = event.flags;
            let broken = flags.intersects(Flags::HUP | Flags::ERR);
            let hangup = broken || flags.contains(Flags::RDHUP);
            Event {
                key: event.data.u64(),
                readable: hangup || flags.intersects(Flags::IN | Flags::PRI),
                writable: broken || flags.contains(Flags::OUT),
                hangup,
                broken,
                urgent: flags.contains(Flags::PRI),
            }
        }));
        Ok(events.len())
    }

    fn len(&self) -> usize {
        self.len
    }

    fn changes(&self) -> u64 {
        self.changes
    }
}

/// [`Interest::NONE`] is watched for edges: a hangup then comes once.
fn level(interest: Interest) -> Flags {
    let mut flags = Flags::empty();
    flags.set(Flags::IN, interest.read);
    flags.set(Flags::OUT, interest.write);
    flags.set(Flags::ET | Flags::RDHUP, interest == Interest::NONE);
    flags
}

/// Reports what arrives, urgent or not, and its end, always and once. Reports room to send only
/// after interest in it: a new socket always has some.
fn edge(interest: Interest) -> Flags {
    let mut flags = Flags::IN | Flags::PRI | Flags::RDHUP | Flags::ET;
    flags.set(Flags::OUT, interest.write);
    flags
}

/// Default for the most events that one wait returns; more follow with the next.
const EVENTS_PER_WAIT: usize = 512;
