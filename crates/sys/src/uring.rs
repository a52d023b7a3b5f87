//! Disk operations by io_uring, one at a time. Each is submitted at once. It either completes in
//! the call that submits it, or the kernel continues it and reports it later.
//!
//! Lazy Asynchronous I/O asked that of an operating system. Every operation owns what the kernel
//! reads and writes until the kernel has reported it.
//!
//! [`WireRing`] performs the operations on sockets as well, many at a time. [`LeanRing`] is for a
//! loop that only answers.
mod buffers;
mod coalescing;
mod lean;
mod sends;
mod wire;

pub use lean::{LeanResult, LeanRing};
pub use sends::SentBytes;
pub use wire::WireRing;

use crate::{
    Bell, DiskSubject, OpenRules, Read, Root, StaticFile,
    opening::{Next as NextOpen, Opening, is_known},
    read::{COPY_BYTES, after_probe, room},
    simulated_disk,
};
use io_uring::{EnterFlags, IoUring, opcode, squeue, types};
use regatta_op::{Fault, OpenFault, OpenReq, Opened, ReadReq};
use rustix::{
    io::Errno,
    pipe::{PipeFlags, fcntl_setpipe_size, pipe_with},
};
use std::{
    collections::VecDeque,
    fmt, io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::{
        Arc,
        atomic::{Ordering::SeqCst, fence},
    },
    time::Duration,
};

/// Entries of the submission queue: one operation is in it at a time.
const ENTRIES: u32 = 16;

/// Entries of the completion queue. The kernel keeps those that do not fit.
const COMPLETIONS: u32 = 1024;

/// Attempts to submit an operation for which the kernel has no memory.
const SUBMIT_TRIES_MAX: u32 = 1000;

/// Room of a new pipe, bytes.
const PIPE_BYTES: usize = 64 << 10;

/// Most bytes that one read brings in when a range is not in memory.
const SCRATCH_BYTES: u64 = 128 << 10;

/// A disk operation.
#[derive(Debug)]
pub enum DiskOp {
    /// Open a path and its siblings, as [`crate::open_below`].
    Open(OpenReq),
    /// Read a range into memory, as [`crate::read_range`].
    Read(ReadReq<StaticFile>),
    /// Bring a range into memory: probe it as [`crate::by_nowait`] does. If that would have to
    /// wait, read all of it into a scratch buffer.
    Prefetch {
        /// The file.
        file: StaticFile,
        /// Start of the range.
        at: u64,
        /// Length of the range, bytes; a few hundred KiB.
        len: u64,
    },
    /// Move a range into an empty pipe, as much as there is room for.
    Fill {
        /// The file.
        file: StaticFile,
        /// Start of the range.
        at: u64,
        /// Length of the range, bytes.
        len: u64,
        /// The pipe.
        pipe: Pipe,
    },
}

/// A pipe through which pieces of files go to sockets.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    /// Counts the pipes of a ring.
    _one: Arc<()>,
}

impl Pipe {
    /// A pipe with room for `bytes`, as far as the system allows.
    fn new(bytes: usize, one: Arc<()>) -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        if bytes > PIPE_BYTES {
            // With less room, more pieces are moved.
            let _ = fcntl_setpipe_size(&writer, bytes);
        }
        Ok(Self { reader, writer, _one: one })
    }
}

/// Outcome of a [`DiskOp`].
#[derive(Debug)]
pub enum Finished {
    /// Outcome of [`DiskOp::Open`].
    Opened(Result<Opened<StaticFile>, OpenFault>),
    /// Outcome of [`DiskOp::Read`].
    Read(Read),
    /// Outcome of [`DiskOp::Prefetch`]. The range may be unreadable, which the read will find out.
    Prefetched,
    /// Outcome of [`DiskOp::Fill`]: the pipe, and the bytes in it. None: the file shrank.
    Filled(Pipe, Result<u64, Fault>),
}

/// Name of an operation that the kernel has not finished yet.
pub type Token = u64;

/// Message for opening a file without a root.
const NO_ROOT: &str = "a ring that opens files has a root";

/// A ring of one thread, which must be the one that makes it.
///
/// The descriptor is readable while [`Ring::finished`] has work.
pub struct Ring {
    ring: IoUring,
    /// Rung by the kernel when it can continue an operation. A ring's own descriptor is then not
    /// readable if completions wait for a call.
    bell: Bell,
    /// `None`: the ring opens nothing.
    root: Option<Arc<Root>>,
    rules: OpenRules,
    /// By token. An operation stays here, untouched, until the kernel has reported it.
    running: Vec<Option<Box<Running>>>,
    free: Vec<usize>,
    done: VecDeque<(Token, i32)>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("in_flight", &(self.running.len() - self.free.len())).finish()
    }
}

/// An operation under way, and the memory that the kernel uses for it.
struct Running {
    progress: Progress,
    path: Vec<u8>,
    how: types::OpenHow,
    buffer: Vec<u8>,
    /// Delay of a simulated disk, before the first step.
    slow: Option<types::Timespec>,
}

/// Purpose of the operation with this token.
fn subject(running: &[Option<Box<Running>>], token: Token) -> Option<DiskSubject<'_>> {
    Some(running.get(usize::try_from(token).ok()?)?.as_ref()?.subject())
}

impl Running {
    const fn subject(&self) -> DiskSubject<'_> {
        match &self.progress {
            Progress::Open { req, .. } => DiskSubject::Opens(req),
            Progress::Read(ReadReq { file, .. })
            | Progress::Prefetch { file, .. }
            | Progress::Fill { file, .. } => DiskSubject::Reads(file),
        }
    }
}

enum Progress {
    /// The root stays the same for all siblings, and open for as long as the kernel may use it.
    Open {
        root: Arc<Root>,
        req: OpenReq,
        opening: Opening,
    },
    Read(ReadReq<StaticFile>),
    Prefetch {
        file: StaticFile,
        at: u64,
        end: u64,
        next: u64,
        whole: bool,
    },
    Fill {
        file: StaticFile,
        at: u64,
        len: u64,
        pipe: Pipe,
    },
}

/// Result of a step of an operation.
enum Next {
    Step(Box<Running>),
    End(Finished),
}

impl Ring {
    /// A ring over a root of its own; with `None` it opens nothing.
    ///
    /// # Errors
    /// The kernel has no io_uring, forbids it (`kernel.io_uring_disabled`, seccomp), or is older
    /// than 6.1.
    pub fn new(root: Option<Root>, rules: OpenRules) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            // Operations continue when we ask, not whenever we are in the kernel.
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(COMPLETIONS)
            .build(ENTRIES)?;
        let bell = Bell::new()?;
        ring.submitter().register_eventfd(bell.as_fd().as_raw_fd())?;
        let (running, free, done) = (Vec::new(), Vec::new(), VecDeque::new());
        Ok(Self { ring, bell, root: root.map(Arc::new), rules, running, free, done })
    }

    /// Opens below another root from now on. Operations under way stay below the old one.
    pub fn set_root(&mut self, root: &Root) {
        replace_root(&mut self.root, root);
    }

    /// Purpose of an operation under way.
    #[must_use]
    pub fn subject(&self, token: Token) -> Option<DiskSubject<'_>> {
        subject(&self.running, token)
    }

    /// Begins an operation, which may be over on return.
    ///
    /// # Errors
    /// The token under which [`Ring::finished`] will report it.
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
        self.go_on(at, running).ok_or(at as u64)
    }

    /// Adds the operations that the kernel has finished to `out`.
    ///
    /// # Errors
    /// The ring cannot be used any more.
    pub fn finished(&mut self, out: &mut Vec<(Token, Finished)>) -> io::Result<()> {
        self.bell.clear();
        self.silence();
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: submits nothing and waits for nothing; there is no signal mask to point at.
        let entered = unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, flags, None) };
        if let Err(error) = entered
            && !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN))
        {
            return Err(error);
        }
        let seen = self.ring.completion().map(|entry| (entry.user_data(), entry.result()));
        self.done.extend(seen);
        while let Some((token, result)) = self.done.pop_front() {
            let at = usize::try_from(token).expect("tokens are places in a vector");
            let Some(running) = self.running.get_mut(at).and_then(Option::take) else { continue };
            let end = match running.waited(result) {
                Next::Step(running) => self.go_on(at, running),
                Next::End(finished) => {
                    self.free.push(at);
                    Some(finished)
                }
            };
            out.extend(end.map(|finished| (token, finished)));
        }
        self.listen();
        Ok(())
    }

    /// Turns the bell off: completions in a call of ours need none.
    fn silence(&mut self) {
        self.ring.completion().disable_eventfd();
    }

    /// Turns the kernel's ringing on again, and rings for what came meanwhile.
    fn listen(&mut self) {
        self.ring.completion().enable_eventfd();
        // The kernel notes work and then checks whether to ring. We allow it to ring and then check
        // whether there is work. One of the two sees the other.
        fence(SeqCst);
        if self.ring.submission().taskrun() || !self.done.is_empty() {
            self.bell.ring();
        }
    }

    /// Submits step after step as long as they complete at once.
    fn go_on(&mut self, at: usize, mut running: Box<Running>) -> Option<Finished> {
        let resolve = self.rules.resolve().bits();
        loop {
            // Stored first: pointers into a box do not outlive a move of it.
            let entry = self.running[at].insert(running).entry(resolve);
            let result = self.submit(at as u64, &entry)?;
            let over = self.running[at].take().expect("put there above").step(result);
            match over {
                Next::Step(next) => running = next,
                Next::End(finished) => {
                    self.free.push(at);
                    return Some(finished);
                }
            }
        }
    }

    /// Submits one entry. Returns its result if it has completed already.
    fn submit(&mut self, token: Token, entry: &squeue::Entry) -> Option<i32> {
        let entry = entry.clone().user_data(token);
        // SAFETY: the entry points into the operation in `running[token]`, which is neither touched
        // nor dropped until the kernel has reported it. `finished` and `go_on` take it out only
        // with its result in hand, and `drop` leaks it.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the queue is empty: every push is submitted at once");
        self.silence();
        for tries in 0.. {
            match self.ring.submit() {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => assert!(tries < SUBMIT_TRIES_MAX, "io_uring_enter: {error}"),
            }
        }
        let mut inline = None;
        for one in self.ring.completion() {
            if one.user_data() == token {
                inline = Some(one.result());
            } else {
                self.done.push_back((one.user_data(), one.result()));
            }
        }
        self.listen();
        inline
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Leaves to the kernel for ever what it still works on.
impl Drop for Ring {
    fn drop(&mut self) {
        self.running.drain(..).for_each(std::mem::forget);
    }
}

/// Replaces the root of a ring.
fn replace_root(own: &mut Option<Arc<Root>>, root: &Root) {
    match root.try_clone() {
        Ok(root) => *own = Some(Arc::new(root)),
        // No descriptor left: operations under way may then find siblings below the new one.
        Err(_) => drop(own.as_ref().map(|own| own.replace(root.as_fd()))),
    }
}

/// Makes the memory of an operation.
///
/// # Errors
/// The result, if the operation needs no call.
fn prepare(
    mut op: DiskOp,
    root: Option<&Arc<Root>>,
    rules: OpenRules,
) -> Result<Box<Running>, Finished> {
    match &mut op {
        DiskOp::Open(req) if req.below().1.is_empty() => {
            return Err(Finished::Opened(Ok(Opened::Directory)));
        }
        DiskOp::Read(req) => {
            if let Err(fault) = room(req) {
                return Err(Finished::Read((std::mem::take(&mut req.buffer), Err(fault))));
            }
        }
        DiskOp::Open(_) | DiskOp::Prefetch { .. } | DiskOp::Fill { .. } => {}
    }
    let slow = delay(&op, root.map(|root| &**root), rules);
    Ok(Box::new(Running::new(op, root, slow)))
}

impl Running {
    fn new(op: DiskOp, root: Option<&Arc<Root>>, slow: Option<Duration>) -> Self {
        let (progress, buffer) = match op {
            DiskOp::Open(req) => {
                let root = Arc::clone(root.expect(NO_ROOT));
                let opening = Opening::new(root.place(&req).0);
                (Progress::Open { root, req, opening }, Vec::new())
            }
            DiskOp::Read(req) => (Progress::Read(req), Vec::new()),
            DiskOp::Prefetch { file, at, len } => {
                let (end, whole) = (at + len.max(1), len <= COPY_BYTES);
                let bytes = if whole { scratch_bytes(len) } else { 0 };
                (Progress::Prefetch { file, at, end, next: at, whole }, Vec::with_capacity(bytes))
            }
            DiskOp::Fill { file, at, len, pipe } => {
                (Progress::Fill { file, at, len, pipe }, Vec::new())
            }
        };
        let (path, how) = (Vec::new(), types::OpenHow::new());
        Self { progress, path, how, buffer, slow: slow.map(types::Timespec::from) }
    }

    /// Entry of the next step. It points into this operation's heap memory.
    fn entry(&mut self, resolve: u64) -> squeue::Entry {
        if let Some(time) = &self.slow {
            return opcode::Timeout::new(std::ptr::from_ref(time)).build();
        }
        match &mut self.progress {
            Progress::Open { root, req, opening } => match opening.next() {
                NextOpen::Below(suffix, flags) => {
                    let (root, path) = root.place(req);
                    self.path.clear();
                    self.path.extend_from_slice(path);
                    self.path.extend_from_slice(suffix.as_bytes());
                    self.path.push(0);
                    self.how = types::OpenHow::new().flags(flags.bits().into()).resolve(resolve);
                    let path = self.path.as_ptr().cast();
                    let root = types::Fd(root.as_fd().as_raw_fd());
                    opcode::OpenAt2::new(root, path, &raw const self.how).build()
                }
                NextOpen::Root => {
                    let (path, flags) = root.place(req).0.path();
                    self.how = types::OpenHow::new().flags(flags.bits().into());
                    let cwd = types::Fd(libc::AT_FDCWD);
                    opcode::OpenAt2::new(cwd, path.as_ptr(), &raw const self.how).build()
                }
            },
            Progress::Read(req) => {
                let had = req.buffer.len() as u64;
                read(&req.file, req.at + had, req.len - had, &mut req.buffer)
            }
            // The read fails where a page is present, as it has no memory to copy into. Else it
            // takes all that follows for what will be read.
            Progress::Prefetch { file, next, end, whole: false, .. } => {
                let len = u32::try_from(*end - *next).unwrap_or(u32::MAX);
                let fd = types::Fd(file.as_fd().as_raw_fd());
                opcode::Read::new(fd, std::ptr::null_mut(), len).offset(*next).build()
            }
            Progress::Prefetch { file, next, .. } => {
                self.buffer.clear();
                read(file, *next, u64::MAX, &mut self.buffer)
            }
            Progress::Fill { file, at, len, pipe } => {
                let from = types::Fd(file.as_fd().as_raw_fd());
                let to = types::Fd(pipe.writer.as_raw_fd());
                let len = u32::try_from(*len).unwrap_or(u32::MAX);
                opcode::Splice::new(from, at.cast_signed(), to, -1, len).build()
            }
        }
    }

    /// Takes the result of a step.
    fn step(mut self: Box<Self>, result: i32) -> Next {
        if self.slow.take().is_some() {
            if let Progress::Read(ReadReq { file, .. })
            | Progress::Prefetch { file, .. }
            | Progress::Fill { file, .. } = &self.progress
            {
                simulated_disk::delayed(file);
            }
            return Next::Step(self);
        }
        match &mut self.progress {
            Progress::Open { root, req, opening } => {
                match opening.take(descriptor(result), root.place(req).0, req) {
                    Some(found) => Next::End(Finished::Opened(found)),
                    None => Next::Step(self),
                }
            }
            Progress::Read(req) => {
                let Ok(read) = usize::try_from(result) else {
                    if matches!(-result, libc::EINTR | libc::EAGAIN) {
                        return Next::Step(self);
                    }
                    let buffer = std::mem::take(&mut req.buffer);
                    return Next::End(Finished::Read((buffer, Err(Fault::Other(-result)))));
                };
                let len = req.buffer.len() + read;
                // SAFETY: the kernel has written `read` bytes behind the `len - read` there were;
                // it had no more room than the capacity.
                unsafe { req.buffer.set_len(len) };
                if read == 0 || len as u64 >= req.len {
                    return Next::End(Finished::Read((std::mem::take(&mut req.buffer), Ok(()))));
                }
                Next::Step(self)
            }
            Progress::Prefetch { .. } => self.prefetch_step(result),
            Progress::Fill { .. } => self.filled(result),
        }
    }

    /// Takes the result of a splice into a pipe.
    fn filled(self: Box<Self>, result: i32) -> Next {
        if matches!(-result, libc::EINTR | libc::EAGAIN) {
            return Next::Step(self);
        }
        let Progress::Fill { pipe, .. } = self.progress else {
            return Next::End(Finished::Prefetched);
        };
        let bytes = u64::try_from(result).map_err(|_| Fault::Other(-result));
        Next::End(Finished::Filled(pipe, bytes))
    }

    /// Takes the result of a step that the caller had to wait for.
    fn waited(mut self: Box<Self>, result: i32) -> Next {
        match &mut self.progress {
            Progress::Prefetch { at, end, next, whole, .. }
                if !*whole && result == -libc::EFAULT =>
            {
                *whole = true;
                *next = *at;
                self.buffer = Vec::with_capacity(scratch_bytes(*end - *at));
                Next::Step(self)
            }
            _ => self.step(result),
        }
    }

    /// Takes the result of one probe of a range, or of one piece of it.
    fn prefetch_step(mut self: Box<Self>, result: i32) -> Next {
        let Progress::Prefetch { end, next, .. } = &mut self.progress else {
            return Next::End(Finished::Prefetched);
        };
        match result {
            read if read > 0 => *next += u64::from(read.unsigned_abs()),
            // A page is present, and the read has no memory to copy into.
            fault if fault == -libc::EFAULT => *next = after_probe(*next, *end),
            _ => return Next::End(Finished::Prefetched),
        }
        if *next >= *end { Next::End(Finished::Prefetched) } else { Next::Step(self) }
    }
}

/// Buffer size for pieces of a range of this length, bytes.
fn scratch_bytes(len: u64) -> usize {
    usize::try_from(len.clamp(1, SCRATCH_BYTES)).unwrap_or(1)
}

/// Delay of an operation before its first step.
fn delay(op: &DiskOp, root: Option<&Root>, rules: OpenRules) -> Option<Duration> {
    match op {
        DiskOp::Open(req) => {
            simulated_disk::open_delay(|| is_known(root.expect(NO_ROOT), req, rules))
        }
        DiskOp::Read(ReadReq { file, at, len, .. })
        | DiskOp::Prefetch { file, at, len }
        | DiskOp::Fill { file, at, len, .. } => simulated_disk::read_delay(file, *at, *len),
    }
}

/// Result of an open.
fn descriptor(result: i32) -> Result<OwnedFd, Errno> {
    if result < 0 {
        return Err(Errno::from_raw_os_error(-result));
    }
    // SAFETY: the kernel has just made this descriptor for us, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// A read of at most `most` bytes into the spare memory of `buffer`.
fn read(file: &StaticFile, at: u64, most: u64, buffer: &mut Vec<u8>) -> squeue::Entry {
    let spare = buffer.spare_capacity_mut();
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let len = u32::try_from(spare.len().min(most)).unwrap_or(u32::MAX);
    let fd = types::Fd(file.as_fd().as_raw_fd());
    opcode::Read::new(fd, spare.as_mut_ptr().cast(), len).offset(at).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::wait::{Event, Interest, Poll, Poller};
    use regatta_op::Codings;
    use regatta_op::File;
    use regatta_testkit::skips::skip;
    use std::fs;

    fn site() -> Folder {
        let path = Folder::new("uring");
        fs::create_dir(path.join("folder")).unwrap();
        fs::write(path.join("page.html"), [7; 100_000]).unwrap();
        fs::write(path.join("page.html.gz"), b"small").unwrap();
        path
    }

    /// Waits for an operation that has not completed at once.
    fn wait(ring: &mut Ring, token: Token) -> Finished {
        let mut poller = Poll::new();
        poller.add(ring.as_fd(), 1, Interest::READ).unwrap();
        let (mut events, mut out): (Vec<Event>, _) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let ready = poller.wait(&mut events, Some(Duration::from_secs(10))).unwrap();
            assert!(ready > 0, "the bell is rung");
            ring.finished(&mut out).unwrap();
            if let Some((of, finished)) = out.pop() {
                assert_eq!(of, token);
                assert!(out.is_empty());
                return finished;
            }
        }
        panic!("never finished");
    }

    fn run(ring: &mut Ring, op: DiskOp) -> Finished {
        ring.start(op).unwrap_or_else(|token| wait(ring, token))
    }

    fn open(ring: &mut Ring, path: &str) -> Result<Opened<StaticFile>, OpenFault> {
        let req = OpenReq { path: path.as_bytes().into(), siblings: Codings::ALL };
        match run(ring, DiskOp::Open(req)) {
            Finished::Opened(found) => found,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn operations_complete_as_their_blocking_sisters() {
        let path = site();
        let root = Root::open(&path).unwrap().with(vec![Root::open(&path).unwrap()]);
        let Ok(mut ring) = Ring::new(Some(root), OpenRules::default()) else {
            return skip("needs io_uring");
        };
        let Ok(Opened::File { file, siblings }) = open(&mut ring, "page.html") else { panic!() };
        assert_eq!(file.len(), 100_000);
        assert_eq!(siblings.each_ref().map(Option::is_some), [false, false, true]);
        assert!(matches!(open(&mut ring, "folder"), Ok(Opened::Directory)));
        assert!(matches!(open(&mut ring, ""), Ok(Opened::Directory)));
        assert!(matches!(open(&mut ring, "nothing"), Err(OpenFault::NotFound)));
        assert!(matches!(open(&mut ring, "\0\0\u{1}"), Ok(Opened::Directory)));
        assert!(matches!(open(&mut ring, "\0\0\u{1}page.html"), Ok(Opened::File { .. })));
        assert!(matches!(open(&mut ring, "\0\0\u{2}page.html"), Err(OpenFault::NotFound)));
        let req = ReadReq::new(file.clone(), 1, 200_000);
        let Finished::Read((bytes, Ok(()))) = run(&mut ring, DiskOp::Read(req)) else { panic!() };
        assert_eq!(*bytes, [7; 99_999]);
        let op = DiskOp::Prefetch { file, at: 0, len: 100_000 };
        assert!(matches!(run(&mut ring, op), Finished::Prefetched));
        assert_eq!(ring.free.len(), ring.running.len());
    }

    #[test]
    fn a_cold_file_is_waited_for_and_a_warm_one_is_not() {
        let path = site();
        let root = Root::open(&path).unwrap();
        let Ok(mut ring) = Ring::new(Some(root), OpenRules::default()) else {
            return skip("needs io_uring");
        };
        let Ok(Opened::File { file, .. }) = open(&mut ring, "page.html") else { panic!() };
        rustix::fs::fsync(&file).unwrap();
        let advice = rustix::fs::Advice::DontNeed;
        // A quick disk may have read it before the ring checks.
        let is_waited_for = (0..20).any(|_| {
            rustix::fs::fadvise(&file, 0, None, advice).unwrap();
            let cold = crate::by_nowait(&file, 50_000, 1) != crate::Resident::Yes;
            rustix::fs::fadvise(&file, 0, None, advice).unwrap();
            match ring.start(DiskOp::Read(ReadReq::new(file.clone(), 0, 100_000))) {
                Ok(_) => !cold,
                Err(token) => matches!(wait(&mut ring, token), Finished::Read((_, Ok(())))),
            }
        });
        assert!(is_waited_for, "a cold file was read at once, each time");
        rustix::fs::fadvise(&file, 0, None, advice).unwrap();
        let prefetch = || DiskOp::Prefetch { file: file.clone(), at: 0, len: 100_000 };
        if let Err(token) = ring.start(prefetch()) {
            assert!(matches!(wait(&mut ring, token), Finished::Prefetched));
        }
        assert!(ring.start(prefetch()).is_ok(), "it is in memory now");
        // Not waited for: the ring is dropped, and the memory that the kernel writes to stays.
        rustix::fs::fadvise(&file, 0, None, advice).unwrap();
        let _ = ring.start(prefetch());
    }
}
