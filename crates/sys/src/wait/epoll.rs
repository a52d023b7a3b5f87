//! epoll(7), level- or edge-triggered.
use super::{Event, Interest, Poller};
use crate::chaos::{self, Hook};
use rustix::event::{Timespec, epoll};
use std::{
    fmt, io,
    os::fd::{BorrowedFd, OwnedFd},
    time::Duration,
};

/// When an event is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// For as long as its cause lasts.
    Level,
    /// Once per change.
    Edge,
}

/// A [`Poller`] on an epoll instance. Create it after forking: children share what they inherit.
pub struct Epoll {
    fd: OwnedFd,
    trigger: Trigger,
    len: usize,
    changes: u64,
    ready: Vec<epoll::Event>,
}

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
            chaos::edge_triggered();
        }
        Ok(Self { fd, trigger, len: 0, changes: 0, ready: Vec::with_capacity(512) })
    }
}

fn level(interest: Interest) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN, interest.read);
    flags.set(epoll::EventFlags::OUT, interest.write);
    flags.set(epoll::EventFlags::ET, interest == Interest::NONE);
    flags
}

impl Poller for Epoll {
    fn name(&self) -> &'static str {
        match self.trigger {
            Trigger::Level => "epoll",
            Trigger::Edge => "epoll-edge",
        }
    }

    fn edge(&self) -> bool {
        self.trigger == Trigger::Edge
    }

    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        if self.trigger == Trigger::Level {
            return self.add_level(fd, key, interest);
        }
        use epoll::EventFlags as E;
        epoll::add(
            &self.fd,
            fd,
            epoll::EventData::new_u64(key),
            E::IN | E::OUT | E::RDHUP | E::ET,
        )?;
        self.len += 1;
        self.changes += 1;
        Ok(())
    }

    fn add_level(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        epoll::add(&self.fd, fd, epoll::EventData::new_u64(key), level(interest))?;
        self.len += 1;
        self.changes += 1;
        Ok(())
    }

    fn set(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        if self.trigger == Trigger::Edge {
            return Ok(());
        }
        epoll::modify(&self.fd, fd, epoll::EventData::new_u64(key), level(interest))?;
        self.changes += 1;
        Ok(())
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        epoll::delete(&self.fd, fd)?;
        self.len -= 1;
        self.changes += 1;
        Ok(())
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        use epoll::EventFlags as E;
        events.clear();
        self.ready.clear();
        if chaos::fault(Hook::Wait).is_some() {
            return Ok(0);
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let spare = rustix::buffer::spare_capacity(&mut self.ready);
        match epoll::wait(&self.fd, spare, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(0),
            Err(errno) => return Err(errno.into()),
        }
        events.extend(self.ready.iter().map(|event| {
            let flags = event.flags;
            let hangup = flags.intersects(E::HUP | E::ERR);
            Event {
                key: event.data.u64(),
                readable: hangup || flags.intersects(E::IN | E::RDHUP),
                writable: hangup || flags.contains(E::OUT),
                hangup,
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
