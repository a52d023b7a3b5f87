//! Listeners, bells, and what a ring reports to its loop.
use super::{OTHERS, POLL, WireRing, name};
use crate::{
    Bell, hook,
    hook::Call,
    wait::{Event, Interest, Poller},
};
use io_uring::{opcode, types};
use std::{
    cell::RefCell,
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    time::Duration,
};

/// Use of a descriptor.
#[derive(Clone, Copy, Default)]
pub(super) enum Watched {
    #[default]
    No,
    Socket(u32),
    Polled(usize),
}

/// A listener or a bell.
pub(super) struct Polled {
    fd: RawFd,
    key: u64,
    watched: bool,
    /// A poll is out.
    armed: bool,
}

impl WireRing {
    /// A descriptor that stands for completions of sends and of operations on files: a poller that
    /// is asked to watch it ([`Poller::add_level`]) reports them under its key.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn source(&mut self) -> io::Result<Bell> {
        let bell = Bell::new()?;
        self.source = bell.as_fd().as_raw_fd();
        Ok(bell)
    }

    /// Polls what is watched. A poll reports once, so each wait finds what is left.
    pub(super) fn begin_polls(&mut self) {
        for at in 0..self.polled.len() {
            let own = &mut self.polled[at];
            if own.watched && !mem::replace(&mut own.armed, true) {
                let mask = libc::POLLIN.unsigned_abs();
                let entry = opcode::PollAdd::new(types::Fd(own.fd), mask.into()).build();
                self.push(entry, name_of_poll(at));
            }
        }
    }

    pub(super) fn has_polled(&mut self, at: usize, result: i32, events: &mut Vec<Event>) {
        let Some(own) = self.polled.get_mut(at) else { return };
        own.armed = false;
        if own.watched && result >= 0 {
            events.push(Event { key: own.key, readable: true, ..Event::default() });
        }
    }

    fn watched_at(&self, fd: RawFd) -> Watched {
        usize::try_from(fd).ok().and_then(|at| self.watched.get(at)).copied().unwrap_or_default()
    }

    pub(super) fn watch(&mut self, fd: RawFd, by: Watched) {
        let at = usize::try_from(fd).expect("descriptors are not negative");
        if at >= self.watched.len() {
            self.watched.resize(at + 1, Watched::No);
        }
        self.watched[at] = by;
        self.watched_len += 1;
        self.changes += 1;
    }

    fn unwatch(&mut self, fd: RawFd) -> io::Result<()> {
        match self.watched_at(fd) {
            Watched::No => return Err(io::ErrorKind::NotFound.into()),
            Watched::Socket(at) => {
                self.leave(at as usize);
                self.watched[usize::try_from(fd).expect("it is watched")] = Watched::No;
            }
            Watched::Polled(at) => {
                let own = &mut self.polled[at];
                if !mem::replace(&mut own.watched, false) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                if own.armed {
                    self.cancel(name_of_poll(at));
                }
            }
        }
        self.watched_len -= 1;
        self.changes += 1;
        Ok(())
    }
}

fn name_of_poll(at: usize) -> u64 {
    name(POLL, u32::try_from(at).expect("few are polled"), 0)
}

/// A poller that reports what has been received and sent, and listeners with connections. It shares
/// its ring with the rest of its loop.
///
/// Sockets are reported once for each change. They are watched for input, whatever the interest,
/// and for nothing else: [`WireRing::next_sent`] reports room.
impl Poller for &RefCell<WireRing> {
    fn edge(&self) -> bool {
        true
    }

    fn completes(&self) -> bool {
        true
    }

    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, _interest: Interest) -> io::Result<()> {
        debug_assert!(key < OTHERS, "a connection");
        self.borrow_mut().enter(fd.as_raw_fd(), key);
        Ok(())
    }

    fn add_level(&mut self, fd: BorrowedFd<'_>, key: u64, _: Interest) -> io::Result<()> {
        let (mut ring, fd) = (self.borrow_mut(), fd.as_raw_fd());
        if fd == ring.source {
            ring.completions = Some(key);
            return Ok(());
        }
        // A listener that was watched before may be polled until that is cancelled.
        let at = match ring.watched_at(fd) {
            Watched::Polled(at) => at,
            _ => {
                ring.polled.push(Polled { fd, key, watched: false, armed: false });
                ring.polled.len() - 1
            }
        };
        (ring.polled[at].watched, ring.polled[at].key) = (true, key);
        ring.watch(fd, Watched::Polled(at));
        Ok(())
    }

    fn set(&mut self, fd: BorrowedFd<'_>, _: u64, _: Interest) -> io::Result<()> {
        match self.borrow().watched_at(fd.as_raw_fd()) {
            Watched::No => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(()),
        }
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.borrow_mut().unwatch(fd.as_raw_fd())
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        events.clear();
        if hook::fault(Call::Wait).is_some() {
            return Ok(0);
        }
        let mut ring = self.borrow_mut();
        ring.begin_receives();
        ring.begin_polls();
        let is_ready = ring.has_completions() || !ring.early.is_empty();
        ring.call(if is_ready { Some(Duration::ZERO) } else { timeout })?;
        events.append(&mut ring.early);
        ring.collect(events);
        if ring.has_completions() {
            let event = |key| Event { key, readable: true, ..Event::default() };
            events.extend(ring.completions.map(event));
        }
        Ok(events.len())
    }

    fn len(&self) -> usize {
        self.borrow().watched_len
    }

    fn changes(&self) -> u64 {
        self.borrow().changes
    }
}
