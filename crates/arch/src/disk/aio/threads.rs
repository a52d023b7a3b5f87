//! Reads by threads, as glibc makes them (`rt/aio_misc.c`). One mutex guards all. Requests are
//! sorted by descriptor, in a list searched from its beginning; those of one descriptor run one
//! after another. A thread starts only when none is idle, and ends when idle for a second.
use super::{Aio, AioRequest, Completions, UnstartedRead, lock};
use crate::{WorkError, drive::perform};
use regatta_op::ReadReq;
use regatta_sys::{Read, StaticFile};
use std::{
    collections::VecDeque,
    fmt, io,
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Requests for which there is room without another allocation, as `aio_num` of glibc.
const ENTRIES: usize = 64;
/// The stack of a thread, bytes: its calls are shallow.
const STACK_BYTES: usize = 128 << 10;

/// Limits of the threads and their requests.
#[derive(Clone, Copy, Debug)]
pub struct ThreadLimits {
    /// The most threads; glibc's default is 20.
    pub threads_max: usize,
    /// Time that a thread waits for another request before it ends; glibc's default is 1 s.
    pub idle: Duration,
    /// The most requests that are not complete.
    pub requests_max: usize,
}

type Perform = dyn Fn(ReadReq<StaticFile>) -> Read + Send + Sync;

/// Threads that make reads.
#[derive(Debug)]
pub struct AioThreads(Arc<Shared>);

struct Shared {
    limits: ThreadLimits,
    perform: Box<Perform>,
    /// Requests that are not complete: changed under the lock, and read without.
    in_flight: AtomicUsize,
    state: Mutex<State>,
    /// Notified when a descriptor has work, or all threads are to end.
    work: Condvar,
    /// A read is complete.
    complete: Condvar,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}

struct State {
    /// Descriptors with requests, sorted by number. The first of each has begun or is to begin.
    descriptors: Vec<Descriptor>,
    /// Descriptors whose first request is to be begun, in the order in which that was possible.
    runnable: VecDeque<RawFd>,
    threads: usize,
    /// Threads that have been started and will take their first request.
    starting: usize,
    idle: usize,
    /// Reads that have completed so far, including those that others have made.
    completed: u64,
    closed: bool,
}

struct Descriptor {
    number: RawFd,
    waiting: VecDeque<(ReadReq<StaticFile>, AioRequest)>,
}

impl AioThreads {
    /// No threads yet.
    #[must_use]
    pub fn new(limits: ThreadLimits) -> Self {
        Self::with(limits, Box::new(perform::read))
    }

    /// Threads that make reads with `perform`.
    pub(super) fn with(limits: ThreadLimits, perform: Box<Perform>) -> Self {
        let state = State {
            descriptors: Vec::with_capacity(ENTRIES),
            runnable: VecDeque::with_capacity(ENTRIES),
            threads: 0,
            starting: 0,
            idle: 0,
            completed: 0,
            closed: false,
        };
        let (work, complete) = (Condvar::new(), Condvar::new());
        let (in_flight, state) = (AtomicUsize::new(0), Mutex::new(state));
        Self(Arc::new(Shared { limits, perform, in_flight, state, work, complete }))
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        lock(&self.0.state).threads
    }
}

impl Aio for AioThreads {
    fn start(&self, req: ReadReq<StaticFile>, of_engine: AioRequest) -> Result<(), UnstartedRead> {
        let mut state = lock(&self.0.state);
        if self.in_flight() >= self.0.limits.requests_max {
            return Err((req, of_engine));
        }
        let number = req.file.as_fd().as_raw_fd();
        let at = state.place(number);
        let is_first = state.descriptors.get(at).is_none_or(|found| found.number != number);
        if is_first {
            state.descriptors.insert(at, Descriptor { number, waiting: VecDeque::new() });
            state.runnable.push_back(number);
        }
        state.descriptors[at].waiting.push_back((req, of_engine));
        self.0.in_flight.fetch_add(1, Relaxed);
        if is_first && !self.0.has_helper(&mut state) {
            // Neither a thread nor one to be had: take it back.
            state.runnable.pop_back();
            self.0.in_flight.fetch_sub(1, Relaxed);
            let mut removed = state.descriptors.remove(at);
            return Err(removed.waiting.pop_front().expect("it was put there above"));
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight.load(Relaxed)
    }

    fn wake(&self) {
        lock(&self.0.state).completed += 1;
        self.0.complete.notify_one();
    }

    fn completions(&self) -> Result<Box<dyn Completions + '_>, WorkError> {
        Ok(Box::new(Looks { shared: &self.0, seen: 0 }))
    }
}

/// Ends threads that wait at once, and those that read when they have read. The drop does not wait.
impl Drop for AioThreads {
    fn drop(&mut self) {
        lock(&self.0.state).closed = true;
        self.0.work.notify_all();
    }
}

struct Looks<'a> {
    shared: &'a Shared,
    /// Reads that had completed when the last wait ended.
    seen: u64,
}

impl Completions for Looks<'_> {
    fn wait(&mut self, patience: Duration) -> io::Result<()> {
        // Reads complete without this thread.
        if !patience.is_zero() {
            let state = lock(&self.shared.state);
            let none = |state: &mut State| state.completed == self.seen;
            let waited = self.shared.complete.wait_timeout_while(state, patience, none);
            self.seen = waited.unwrap_or_else(PoisonError::into_inner).0.completed;
        }
        Ok(())
    }
}

impl State {
    /// Index of a descriptor in the list, or where it belongs: a linear search, as in glibc.
    fn place(&self, number: RawFd) -> usize {
        let found = self.descriptors.iter().position(|other| other.number >= number);
        found.unwrap_or(self.descriptors.len())
    }

    /// Takes the next request to be made. Its descriptor stays in the list until it is complete.
    fn next(&mut self) -> Option<(RawFd, ReadReq<StaticFile>, AioRequest)> {
        let number = self.runnable.pop_front()?;
        let at = self.place(number);
        let (req, request) = self.descriptors[at].waiting.pop_front()?;
        Some((number, req, request))
    }

    /// Ends the request of this descriptor that was begun: the next may begin.
    fn is_over(&mut self, number: RawFd) {
        self.completed += 1;
        let at = self.place(number);
        if self.descriptors[at].waiting.is_empty() {
            self.descriptors.remove(at);
        } else {
            self.runnable.push_back(number);
        }
    }
}

impl Shared {
    /// Wakes an idle thread, or starts one if there may be more; true if there is any.
    fn has_helper(self: &Arc<Self>, state: &mut State) -> bool {
        if state.idle > 0 {
            self.work.notify_one();
        } else if state.threads < self.limits.threads_max && state.runnable.len() > state.starting {
            let shared = Arc::clone(self);
            let builder = thread::Builder::new().name("aio".to_owned()).stack_size(STACK_BYTES);
            let started = usize::from(builder.spawn(move || shared.help()).is_ok());
            state.threads += started;
            state.starting += started;
        }
        state.threads > 0
    }

    /// The life of one thread.
    fn help(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        state.starting -= 1;
        while !state.closed {
            let Some((number, req, request)) = state.next() else {
                state = self.rest(state);
                if state.runnable.is_empty() {
                    break;
                }
                continue;
            };
            if !state.runnable.is_empty() {
                self.has_helper(&mut state);
            }
            drop(state);
            // A request that was given up is not read.
            let read = (!request.is_given_up()).then_some(req).map(&self.perform);
            state = lock(&self.state);
            state.is_over(number);
            self.in_flight.fetch_sub(1, Relaxed);
            if let Some(read) = read {
                request.complete(read);
            }
            self.complete.notify_one();
        }
        state.threads -= 1;
    }

    /// Waits for something to do.
    fn rest<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.idle += 1;
        let none = |state: &mut State| state.runnable.is_empty() && !state.closed;
        let waited = self.work.wait_timeout_while(state, self.limits.idle, none);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.idle -= 1;
        state
    }
}
