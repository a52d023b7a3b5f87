//! A ring for the operations of an event loop: it receives, sends, opens and reads. A wait submits
//! what was begun since the last one, and collects what has completed.
mod poller;
mod sending;

use self::poller::{Polled, Watched};
use super::{
    DiskOp, Finished, Next, Pipe, Running, SUBMIT_TRIES_MAX, Token,
    buffers::{self, Buffers},
    coalescing::Coalescing,
    prepare, replace_root,
    sends::{Piece, Sending, SentBytes},
    subject,
};
use crate::{DiskSubject, OpenRules, Root, wait::Event};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue, types};
use std::{
    collections::VecDeque,
    fmt, io, mem,
    os::fd::RawFd,
    sync::Arc,
    time::{Duration, Instant},
};

/// Entries of the submission queue. A round that begins more submits in between.
const ENTRIES: u32 = 1024;
/// Entries of the completion queue. The kernel keeps those that do not fit.
const COMPLETIONS: u32 = 4096;
/// Time within which the kernel releases at the end what it can release at all.
const END_MAX: Duration = Duration::from_millis(100);
/// Buffers for pieces of files that are kept for the next ones.
const SPARES_MAX: usize = 16;

/// A ring of the thread that calls, which receives into `count` buffers of `size` bytes.
pub(super) fn ring_with_buffers(count: u16, size: usize) -> io::Result<(IoUring, Buffers)> {
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(COMPLETIONS)
        .build(ENTRIES)?;
    let buffers = Buffers::new(&ring.submitter(), count, size)?;
    Ok((ring, buffers))
}

/// Keys from here on are not of connections.
const OTHERS: u64 = 1 << 63;

/// Kinds of operations, in the top four bits of their names. A name then has a place (28 bits) and
/// the serial number of the socket at that place, or the token of an operation on a file.
const QUIET: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const POLL: u64 = 3;
const DISK: u64 = 4;

const fn name(kind: u64, place: u32, serial: u32) -> u64 {
    kind << 60 | (place as u64) << 32 | serial as u64
}

/// A ring of one thread, which must be the one that makes it.
///
/// The low 32 bits of a connection's key are its place: a small number that no other open
/// connection has.
pub struct WireRing {
    ring: IoUring,
    buffers: Buffers,
    /// By place.
    sockets: Vec<Socket>,
    /// By number of the descriptor.
    watched: Vec<Watched>,
    watched_len: usize,
    changes: u64,
    /// Listeners and bells.
    polled: Vec<Polled>,
    /// Stands for completions of sends and of operations on files where a poller is asked to watch
    /// for them.
    source: RawFd,
    /// Key under which these are reported.
    completions: Option<u64>,
    /// Serial number of the last socket.
    serial: u32,
    /// Sockets that are to receive again, with their serial numbers.
    dry: Vec<(u32, u32)>,
    /// Sockets with input in provided buffers.
    fresh: Vec<u32>,
    /// By the number in the name of each send.
    #[expect(clippy::vec_box, reason = "they stay where they are: the kernel reads from them")]
    sends: Vec<Box<Sending>>,
    free_sends: Vec<u32>,
    sent: VecDeque<SentBytes>,
    coalescing: Coalescing,
    spares: Vec<Vec<u8>>,
    /// Empty pipes.
    pipes: Vec<Pipe>,
    /// Each pipe has another of it.
    all_pipes: Arc<()>,
    root: Option<Arc<Root>>,
    rules: OpenRules,
    /// By token. An operation stays here, untouched, until the kernel has reported it.
    running: Vec<Option<Box<Running>>>,
    free: Vec<usize>,
    finished: VecDeque<(Token, Finished)>,
    /// Number of times that all entries were submitted.
    batch: u64,
    /// Entries that the kernel has and will report, those of multishot operations once.
    in_flight: u64,
    completed: Vec<(u64, i32, u32)>,
    /// Events that [`WireRing::reap`] has found.
    early: Vec<Event>,
}

impl fmt::Debug for WireRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireRing").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

/// Input and state of a connection's socket.
#[derive(Default)]
struct Socket {
    /// 0: none is at this place. A key is never 0: see `enter`.
    serial: u32,
    fd: RawFd,
    key: u64,
    /// First and last provided buffer with input.
    first: u16,
    last: u16,
    /// Bytes of the first that have been taken.
    taken: u16,
    /// A multishot receive is out.
    armed: bool,
    /// The receive has been cancelled.
    cancelled: bool,
    /// The peer sends no more, or the connection failed with this error.
    ended: Option<i32>,
    /// Input that waits longer than a round, before that in provided buffers.
    stash: Option<Box<Stash>>,
    /// Piece of a file that is sent next.
    piece: Option<Box<Piece>>,
    /// The send in flight.
    send: Option<u32>,
    /// Input has arrived since the last send was begun.
    asked: bool,
    /// Batch of its last entry.
    batch: u64,
}

/// Input in memory of its own.
#[derive(Default)]
struct Stash {
    bytes: Vec<u8>,
    taken: usize,
}

impl Socket {
    fn is_empty(&self) -> bool {
        self.first == buffers::NONE && self.stash.is_none()
    }

    /// No receive is out, and there may be more to receive.
    fn is_idle(&self) -> bool {
        !self.armed && self.ended.is_none()
    }

    /// At least this many bytes wait in memory of its own.
    fn has_much(&self, bytes: usize) -> bool {
        self.stash.as_ref().is_some_and(|stash| stash.bytes.len() - stash.taken >= bytes)
    }
}

impl WireRing {
    /// A ring over a root of its own that receives into `count` buffers of `size` bytes; with no
    /// root it opens nothing.
    ///
    /// # Errors
    /// The kernel has no io_uring, forbids it (`kernel.io_uring_disabled`, seccomp), or is older
    /// than 6.1.
    pub fn new(root: Option<Root>, rules: OpenRules, count: u16, size: usize) -> io::Result<Self> {
        let (ring, buffers) = ring_with_buffers(count, size)?;
        let coalescing = Coalescing::new(&ring);
        Ok(Self {
            ring,
            buffers,
            sockets: Vec::new(),
            watched: Vec::new(),
            watched_len: 0,
            changes: 0,
            polled: Vec::new(),
            source: -1,
            completions: None,
            serial: 0,
            dry: Vec::new(),
            fresh: Vec::new(),
            sends: Vec::new(),
            free_sends: Vec::new(),
            sent: VecDeque::new(),
            coalescing,
            spares: Vec::new(),
            pipes: Vec::new(),
            all_pipes: Arc::new(()),
            root: root.map(Arc::new),
            rules,
            running: Vec::new(),
            free: Vec::new(),
            finished: VecDeque::new(),
            batch: 0,
            in_flight: 0,
            completed: Vec::new(),
            early: Vec::new(),
        })
    }

    /// Opens below another root from now on. Operations under way stay below the old one.
    pub fn set_root(&mut self, root: &Root) {
        replace_root(&mut self.root, root);
    }

    /// Begins an operation on a file.
    ///
    /// # Errors
    /// The token under which [`WireRing::next_finished`] will report it.
    ///
    /// # Panics
    /// If it is to open a file and the ring has no root.
    pub fn start(&mut self, op: DiskOp) -> Result<Finished, Token> {
        let running = match prepare(op, self.root.as_ref(), self.rules) {
            Ok(running) => running,
            Err(finished) => return Ok(finished),
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.running.push(None);
            self.running.len() - 1
        });
        self.run(at, running);
        Err(at as Token)
    }

    /// Submits the next step of an operation on a file.
    fn run(&mut self, at: usize, running: Box<Running>) {
        let resolve = self.rules.resolve().bits();
        // Stored first: pointers into a box do not outlive a move of it.
        let entry = self.running[at].insert(running).entry(resolve);
        self.push(entry, DISK << 60 | at as u64);
    }

    /// Sets how long completed sends wait for a further completion, for tests. False: the kernel
    /// cannot do so.
    pub const fn set_hold(&mut self, hold: Duration) -> bool {
        self.coalescing.set_hold(hold)
    }

    /// Purpose of an operation on a file.
    #[must_use]
    pub fn subject(&self, token: Token) -> Option<DiskSubject<'_>> {
        subject(&self.running, token)
    }

    /// The next operation on a file that has finished. Its token names others from now on.
    pub fn next_finished(&mut self) -> Option<(Token, Finished)> {
        let (token, finished) = self.finished.pop_front()?;
        self.free.push(usize::try_from(token).expect("tokens are places in a vector"));
        Some((token, finished))
    }

    /// The next send that has finished.
    pub fn next_sent(&mut self) -> Option<SentBytes> {
        self.sent.pop_front()
    }

    /// Takes what a connection has received.
    ///
    /// # Errors
    /// `WouldBlock` if no bytes are there; otherwise see [`crate::fault`].
    pub fn recv(&mut self, key: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(at) = self.find(key) else { return Err(io::ErrorKind::WouldBlock.into()) };
        let taken = self.take(at, buffer);
        let socket = &mut self.sockets[at];
        if socket.is_empty() && socket.is_idle() {
            self.receive(at);
        }
        match self.sockets[at].ended {
            _ if taken > 0 => Ok(taken),
            None => Err(io::ErrorKind::WouldBlock.into()),
            Some(0) => Ok(0),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Whether a connection has received something that has not been taken, or its end.
    #[must_use]
    pub fn has_input(&self, key: u64) -> bool {
        self.find(key).is_some_and(|at| {
            let socket = &self.sockets[at];
            !socket.is_empty() || socket.ended.is_some()
        })
    }

    /// Collects what has completed, without a wait. The next wait reports it.
    ///
    /// # Errors
    /// The ring cannot be used any more.
    pub fn reap(&mut self) -> io::Result<()> {
        self.begin_receives();
        self.call(Some(Duration::ZERO))?;
        let mut early = mem::take(&mut self.early);
        self.collect(&mut early);
        self.early = early;
        Ok(())
    }

    /// Place of a connection's socket.
    fn find(&self, key: u64) -> Option<usize> {
        let at = place(key);
        self.sockets
            .get(at)
            .is_some_and(|socket| socket.serial > 0 && socket.key == key)
            .then_some(at)
    }

    /// Enters the socket of a connection, unless it is there, and begins to receive.
    fn enter(&mut self, fd: RawFd, key: u64) -> usize {
        if let Some(at) = self.find(key) {
            return at;
        }
        let at = place(key);
        if at >= self.sockets.len() {
            self.sockets.resize_with(at + 1, Socket::default);
        }
        self.serial = self.serial.checked_add(1).unwrap_or(1);
        debug_assert!(self.sockets[at].serial == 0, "a socket is forgotten before another comes");
        let none = buffers::NONE;
        let (serial, batch) = (self.serial, self.batch);
        self.sockets[at] =
            Socket { serial, fd, key, first: none, last: none, batch, ..Socket::default() };
        self.watch(fd, Watched::Socket(u32::try_from(at).expect("places are small")));
        self.receive(at);
        at
    }

    /// Begins a multishot receive.
    fn receive(&mut self, at: usize) {
        let socket = &mut self.sockets[at];
        (socket.armed, socket.cancelled) = (true, false);
        let (fd, serial) = (types::Fd(socket.fd), socket.serial);
        let entry = opcode::RecvMulti::new(fd, buffers::GROUP).build();
        self.push(entry, name(RECEIVE, u32::try_from(at).expect("places are small"), serial));
        self.sockets[at].batch = self.batch;
    }

    /// Moves input of a socket to `buffer`; returns the number of bytes.
    fn take(&mut self, at: usize, buffer: &mut [u8]) -> usize {
        let socket = &mut self.sockets[at];
        let mut moved = 0;
        if let Some(stash) = &mut socket.stash {
            moved = copy(&stash.bytes[stash.taken..], buffer);
            stash.taken += moved;
            if stash.taken < stash.bytes.len() {
                return moved;
            }
            socket.stash = None;
        }
        while socket.first != buffers::NONE && moved < buffer.len() {
            let bytes = &self.buffers.bytes(socket.first)[usize::from(socket.taken)..];
            let copied = copy(bytes, &mut buffer[moved..]);
            moved += copied;
            if copied < bytes.len() {
                socket.taken += u16::try_from(copied).expect("buffers are below 64 KiB");
                break;
            }
            let next = self.buffers.next(socket.first);
            self.buffers.give(mem::replace(&mut socket.first, next));
            socket.taken = 0;
        }
        moved
    }

    /// Moves input that has not been taken from provided buffers, which others need, to memory of
    /// its own. A socket with much of it receives no more until it has been taken.
    fn stow(&mut self) {
        while let Some(place) = self.fresh.pop() {
            let at = place as usize;
            let Some(socket) = self.sockets.get_mut(at).filter(|socket| socket.serial > 0) else {
                continue;
            };
            if socket.first == buffers::NONE {
                continue;
            }
            let stash = socket.stash.get_or_insert_default();
            while socket.first != buffers::NONE {
                let bytes = self.buffers.bytes(socket.first);
                stash.bytes.extend_from_slice(&bytes[usize::from(socket.taken)..]);
                let next = self.buffers.next(socket.first);
                self.buffers.give(mem::replace(&mut socket.first, next));
                socket.taken = 0;
            }
            if socket.has_much(self.buffers.size()) && socket.armed && !socket.cancelled {
                socket.cancelled = true;
                let of = name(RECEIVE, place, socket.serial);
                self.cancel(of);
            }
        }
    }

    /// Begins to receive where that ended.
    fn begin_receives(&mut self) {
        self.stow();
        while let Some((place, serial)) = self.dry.pop() {
            let at = place as usize;
            let socket = &self.sockets[at];
            let waits = socket.is_idle() && !socket.has_much(self.buffers.size());
            // One with much input receives again when it has been taken.
            if socket.serial == serial && waits {
                self.receive(at);
            }
        }
    }

    /// Puts an entry into the queue.
    fn push(&mut self, entry: squeue::Entry, name: u64) {
        let entry = entry.user_data(name);
        self.in_flight += 1;
        for tries in 0..=1 {
            // SAFETY: what the entry points to lives until the kernel has reported it. Memory of an
            // operation on a file is in `running[token]`, that of a send in a box of `sends`, and
            // both are neither touched nor dropped until then; `drop` leaks them. Provided buffers
            // are a mapping that `drop` keeps while anything is in flight.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            assert!(tries == 0, "an empty queue has room");
            self.submit();
        }
    }

    /// Cancels an operation: it is reported with an error, unless it is over.
    fn cancel(&mut self, of: u64) {
        let entry = opcode::AsyncCancel::new(of).build();
        self.push(entry, QUIET);
    }

    /// Cancels everything, and waits until the kernel has reported it, for [`END_MAX`] at most.
    fn cancel_all(&mut self) {
        let begin = Instant::now();
        let all = types::CancelBuilder::any().all();
        self.push(opcode::AsyncCancel2::new(all).build(), QUIET);
        while self.in_flight > 0 && begin.elapsed() < END_MAX {
            if self.call(Some(END_MAX / 10)).is_err() {
                return;
            }
            self.gather();
            for (of, result, flags) in mem::take(&mut self.completed) {
                self.in_flight -= u64::from(!cqueue::more(flags));
                if of >> 60 == DISK
                    && let Some(running) = self.running.get_mut(token(of)).and_then(Option::take)
                {
                    // A file that it has opened is closed.
                    drop(running.step(result));
                }
            }
        }
    }

    /// Submits what is in the queue, all of it.
    fn submit(&mut self) {
        self.coalescing.take();
        for tries in 0.. {
            if self.ring.submission().is_empty() {
                break;
            }
            assert!(tries < SUBMIT_TRIES_MAX, "io_uring_enter takes nothing");
            if self.ring.submit().is_err() {
                // There may be no room for more results.
                self.gather();
            }
        }
        self.batch += 1;
    }

    /// Submits what is in the queue, and waits until something has completed or the time is up.
    fn call(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let is_ready = !self.ring.completion().is_empty() || !self.completed.is_empty();
        let result = match timeout {
            Some(time) if !time.is_zero() && !is_ready => {
                self.coalescing.wait(&mut self.ring, time)
            }
            None if !is_ready => self.ring.submit_and_wait(1),
            _ => {
                let count = u32::try_from(self.ring.submission().len()).unwrap_or(u32::MAX);
                let flags = EnterFlags::GETEVENTS.bits();
                // SAFETY: submits what `push` has put there and waits for nothing; there is no
                // signal mask to point at.
                unsafe { self.ring.submitter().enter::<libc::sigset_t>(count, 0, flags, None) }
            }
        };
        self.coalescing.take();
        // Entries of a call that failed may still be in the queue.
        self.batch += u64::from(self.ring.submission().is_empty());
        match result.map_err(|error| error.raw_os_error()) {
            Ok(_) | Err(Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => Ok(()),
            Err(errno) => Err(io::Error::from_raw_os_error(errno.unwrap_or(libc::EIO))),
        }
    }

    /// Takes completions from the queue.
    fn gather(&mut self) {
        let entries = self.ring.completion();
        let entries = entries.map(|entry| (entry.user_data(), entry.result(), entry.flags()));
        self.completed.extend(entries);
    }

    /// Handles what has completed.
    fn collect(&mut self, events: &mut Vec<Event>) {
        self.gather();
        let mut completed = mem::take(&mut self.completed);
        for (of, result, flags) in completed.drain(..) {
            let more = cqueue::more(flags);
            self.in_flight -= u64::from(!more);
            let place = u32::try_from(of >> 32 & ((1 << 28) - 1)).expect("28 bits");
            let serial = low(of);
            match of >> 60 {
                RECEIVE => self.has_received((place, serial), result, flags, events),
                SEND => self.has_sent(place, result),
                POLL => self.has_polled(place as usize, result, events),
                DISK => self.has_stepped(token(of), result),
                _ => {}
            }
        }
        // Those that a submission has gathered meanwhile.
        completed.append(&mut self.completed);
        self.completed = completed;
    }

    fn has_received(
        &mut self,
        (place, serial): (u32, u32),
        result: i32,
        flags: u32,
        events: &mut Vec<Event>,
    ) {
        let buffer = cqueue::buffer_select(flags);
        let own = self.sockets.get_mut(place as usize).filter(|socket| socket.serial == serial);
        let Some(socket) = own else {
            // Its connection has been closed.
            return buffer.into_iter().for_each(|buffer| self.buffers.give(buffer));
        };
        let more = cqueue::more(flags);
        socket.armed = more;
        let mut event = Event { key: socket.key, readable: true, ..Event::default() };
        match (result, buffer) {
            (1.., Some(buffer)) => {
                self.buffers.fill(buffer, result.unsigned_abs());
                socket.asked = true;
                if socket.first == buffers::NONE {
                    socket.first = buffer;
                    self.fresh.push(place);
                    events.push(event);
                } else {
                    self.buffers.link(socket.last, buffer);
                }
                socket.last = buffer;
                if !more {
                    self.dry.push((place, serial));
                }
                return;
            }
            (0, _) => socket.ended = Some(0),
            (errno, _) if errno == -libc::ECANCELED => {
                // It receives again when its input has been taken.
                if socket.is_empty() {
                    self.dry.push((place, serial));
                }
                return;
            }
            // No buffer was left, as others have them until the next wait.
            (errno, _) if matches!(-errno, libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => {
                return self.dry.push((place, serial));
            }
            (errno, _) => {
                socket.ended = Some(errno.saturating_neg());
                event.broken = true;
            }
        }
        event.hangup = true;
        buffer.into_iter().for_each(|buffer| self.buffers.give(buffer));
        events.push(event);
    }

    fn has_stepped(&mut self, at: usize, result: i32) {
        let Some(running) = self.running.get_mut(at).and_then(Option::take) else { return };
        match running.step(result) {
            Next::Step(running) => self.run(at, running),
            Next::End(finished) => self.finished.push_back((at as Token, finished)),
        }
    }

    /// Forgets a socket, whose descriptor is closed next.
    fn leave(&mut self, at: usize) {
        if self.sockets[at].batch == self.batch {
            // An entry that names the descriptor must not find another socket behind it.
            self.submit();
        }
        self.abandon_send(self.sockets[at].key);
        self.drop_piece(at);
        let socket = mem::take(&mut self.sockets[at]);
        let mut first = socket.first;
        while first != buffers::NONE {
            let next = self.buffers.next(first);
            self.buffers.give(mem::replace(&mut first, next));
        }
        if socket.armed && !socket.cancelled {
            self.cancel(name(RECEIVE, u32::try_from(at).expect("places are small"), socket.serial));
        }
    }

    fn has_completions(&self) -> bool {
        !self.sent.is_empty() || !self.finished.is_empty()
    }
}

/// Low half of a key or a name.
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
const fn low(of: u64) -> u32 {
    of as u32
}

/// Place of a connection.
const fn place(key: u64) -> usize {
    low(key) as usize
}

/// Place of the operation on a file with this name.
const fn token(name: u64) -> usize {
    low(name) as usize
}

/// Copies as many bytes as there is room for.
fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let len = from.len().min(to.len());
    to[..len].copy_from_slice(&from[..len]);
    len
}

/// Cancels what is in flight, and closes or frees what it used. What the kernel does not release in
/// time, such as memory that a disk which hangs writes to, stays allocated for ever.
impl Drop for WireRing {
    fn drop(&mut self) {
        self.cancel_all();
        if self.in_flight > 0 {
            self.running.drain(..).for_each(mem::forget);
            self.sends.drain(..).for_each(mem::forget);
        } else {
            // SAFETY: nothing is in flight, so no receive selects a buffer any more.
            unsafe { self.buffers.unmap() };
        }
    }
}
