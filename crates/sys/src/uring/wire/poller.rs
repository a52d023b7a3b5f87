//! Listeners, bells, and what a ring reports to its loop.
use super::{ACCEPT, ARRIVALS_MAX, OTHERS, POLL, WireRing, name};
use crate::{
    Bell, hook,
    hook::Call,
    socket::{self, Connection},
    wait::{Event, Interest, Poller},
};
use std::{
    cell::RefCell,
    collections::VecDeque,
    io, mem,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

/// Use of a descriptor.
#[derive(Clone, Copy, Default)]
pub(super) enum Watched {
    #[default]
    No,
    Socket(u32),
    Listener(usize),
    Polled(usize),
}

pub(super) struct Listener {
    pub(super) fd: RawFd,
    pub(super) key: u64,
    pub(super) watched: bool,
    pub(super) armed: bool,
    pub(super) cancelled: bool,
    pub(super) arrived: VecDeque<OwnedFd>,
    pub(super) error: Option<i32>,
}

impl Listener {
    pub(super) fn has_some(&self) -> bool {
        !self.arrived.is_empty() || self.error.is_some()
    }
}

impl WireRing {
    /// Takes a connection that the ring has accepted from a listener.
    ///
    /// # Errors
    /// The errors of [`socket::accept`].
    pub fn accept(
        &mut self,
        listener: BorrowedFd<'_>,
    ) -> io::Result<(Connection, Option<SocketAddr>)> {
        let Watched::Listener(at) = self.watched_at(listener.as_raw_fd()) else {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        };
        if let Some(errno) = hook::fault(Call::Accept)
            && errno != rustix::io::Errno::INTR
        {
            return Err(errno.into());
        }
        let own = &mut self.listeners[at];
        if let Some(fd) = own.arrived.pop_front() {
            return socket::accepted(listener, fd);
        }
        Err(io::Error::from_raw_os_error(own.error.take().unwrap_or(libc::EAGAIN)))
    }

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

    pub(super) fn has_accepted(&mut self, at: usize, result: i32, more: bool) {
        let own = &mut self.listeners[at];
        if !more {
            (own.armed, own.cancelled) = (false, false);
        }
        match result {
            0.. => {
                // SAFETY: the kernel has just made this descriptor for us, and no other code knows
                // it.
                own.arrived.push_back(unsafe { OwnedFd::from_raw_fd(result) });
            }
            errno if matches!(-errno, libc::ECANCELED | libc::EINTR | libc::EAGAIN) => {}
            errno => own.error = Some(errno.saturating_neg()),
        }
        if own.arrived.len() >= ARRIVALS_MAX {
            self.accept_no_more(at);
        }
    }

    fn accept_no_more(&mut self, at: usize) {
        let own = &mut self.listeners[at];
        if own.armed && !mem::replace(&mut own.cancelled, true) {
            self.cancel(name(ACCEPT, u32::try_from(at).expect("few listeners"), 0));
        }
    }

    pub(super) fn has_polled(
        &mut self,
        at: usize,
        result: i32,
        more: bool,
        events: &mut Vec<Event>,
    ) {
        let Some(&(fd, key)) = self.polled.get(at) else { return };
        if fd < 0 {
            return; // it is no longer watched
        }
        if !more {
            self.unpolled.push(at);
        }
        if result >= 0 {
            events.push(Event { key, readable: true, ..Event::default() });
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
            Watched::Socket(at) => self.leave(at as usize),
            Watched::Listener(at) => {
                if !mem::replace(&mut self.listeners[at].watched, false) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                self.accept_no_more(at);
                self.watched_len -= 1;
                self.changes += 1;
                return Ok(()); // what has arrived stays
            }
            Watched::Polled(at) => {
                self.polled[at].0 = -1;
                self.cancel(name(POLL, u32::try_from(at).expect("few are polled"), 0));
            }
        }
        self.watched[usize::try_from(fd).expect("it is watched")] = Watched::No;
        self.watched_len -= 1;
        self.changes += 1;
        Ok(())
    }

    /// Adds events of listeners with connections, and of completions.
    fn add_events(&self, events: &mut Vec<Event>) {
        let event = |key| Event { key, readable: true, ..Event::default() };
        let has_some = |own: &&Listener| own.watched && own.has_some();
        events.extend(self.listeners.iter().filter(has_some).map(|own| event(own.key)));
        if self.has_completions() {
            events.extend(self.completions.map(event));
        }
    }
}

/// A poller that reports what has been received, sent and accepted. It shares its ring with the
/// rest of its loop.
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
        let mut ring = self.borrow_mut();
        if fd.as_raw_fd() == ring.source {
            ring.completions = Some(key);
            return Ok(());
        }
        let at = ring.polled.len();
        ring.polled.push((fd.as_raw_fd(), key));
        ring.unpolled.push(at);
        ring.watch(fd.as_raw_fd(), Watched::Polled(at));
        Ok(())
    }

    fn add_listener(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        let mut ring = self.borrow_mut();
        let fd = fd.as_raw_fd();
        if let Watched::Listener(at) = ring.watched_at(fd) {
            (ring.listeners[at].watched, ring.listeners[at].key) = (true, key);
            ring.watched_len += 1;
            ring.changes += 1;
            return Ok(());
        }
        let at = ring.listeners.len();
        let (watched, arrived) = (true, VecDeque::new());
        ring.listeners.push(Listener {
            fd,
            key,
            watched,
            armed: false,
            cancelled: false,
            arrived,
            error: None,
        });
        ring.watch(fd, Watched::Listener(at));
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
        let has_some = |own: &Listener| own.watched && own.has_some();
        let is_ready =
            ring.has_completions() || !ring.early.is_empty() || ring.listeners.iter().any(has_some);
        ring.call(if is_ready { Some(Duration::ZERO) } else { timeout })?;
        events.append(&mut ring.early);
        ring.collect(events);
        ring.add_events(events);
        Ok(events.len())
    }

    fn len(&self) -> usize {
        self.borrow().watched_len
    }

    fn changes(&self) -> u64 {
        self.borrow().changes
    }
}
