//! Reads by io_uring. A ring belongs to the thread that makes it, which also checks for complete
//! reads. Others leave what they start in a queue, and wake it if it sleeps.
use super::{Aio, AioRequest, Completions, UnstartedRead, lock};
use crate::WorkError;
use regatta_op::ReadReq;
use regatta_sys::{
    Bell, OpenRules, StaticFile,
    uring::{DiskOp, Finished, Ring, Token},
    wait::{Interest, Poll, Poller as _},
};
use std::{
    collections::{HashMap, VecDeque},
    io,
    os::fd::AsFd,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// Reads that a ring makes.
#[derive(Debug)]
pub struct AioRing {
    todo: Mutex<Todo>,
    /// Rung for the thread with the ring: something has been started, or completed by another.
    bell: Bell,
    in_flight: AtomicUsize,
    requests_max: usize,
}

#[derive(Debug, Default)]
struct Todo {
    queue: VecDeque<(ReadReq<StaticFile>, AioRequest)>,
    /// The thread with the ring is to be woken for what comes.
    sleeps: bool,
}

impl AioRing {
    /// Makes room for `requests_max` requests that are not complete.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(requests_max: usize) -> io::Result<Self> {
        Ok(Self {
            todo: Mutex::default(),
            bell: Bell::new()?,
            in_flight: AtomicUsize::new(0),
            requests_max,
        })
    }

    /// Takes what has been started. If nothing has, and the thread `sleeps`, the next start rings.
    fn take_started(&self, sleeps: bool) -> VecDeque<(ReadReq<StaticFile>, AioRequest)> {
        let mut todo = lock(&self.todo);
        todo.sleeps = sleeps && todo.queue.is_empty();
        std::mem::take(&mut todo.queue)
    }
}

impl Aio for AioRing {
    fn start(&self, req: ReadReq<StaticFile>, of_engine: AioRequest) -> Result<(), UnstartedRead> {
        if self.in_flight.fetch_add(1, Relaxed) >= self.requests_max {
            self.in_flight.fetch_sub(1, Relaxed);
            return Err((req, of_engine));
        }
        let mut todo = lock(&self.todo);
        todo.queue.push_back((req, of_engine));
        let sleeps = std::mem::take(&mut todo.sleeps);
        drop(todo);
        if sleeps {
            self.bell.ring();
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    fn wake(&self) {
        self.bell.ring();
    }

    fn completions(&self) -> Result<Box<dyn Completions + '_>, WorkError> {
        let fault = WorkError::UringForReads;
        let ring = Ring::new(None, OpenRules::default()).map_err(fault)?;
        let mut poll = Poll::new();
        poll.add(ring.as_fd(), 0, Interest::READ).map_err(fault)?;
        poll.add(self.bell.as_fd(), 1, Interest::READ).map_err(fault)?;
        let running = HashMap::new();
        Ok(Box::new(Looks { aio: self, ring, poll, running, completed: false }))
    }
}

struct Looks<'a> {
    aio: &'a AioRing,
    ring: Ring,
    poll: Poll,
    /// Requests that the kernel has, by token.
    running: HashMap<Token, AioRequest>,
    /// A read has completed in this call.
    completed: bool,
}

impl Completions for Looks<'_> {
    fn wait(&mut self, patience: Duration) -> io::Result<()> {
        self.completed = false;
        self.submit(false);
        self.finish()?;
        if self.completed || patience.is_zero() {
            return Ok(());
        }
        if !self.submit(true) {
            self.poll.wait(&mut Vec::new(), Some(patience))?;
        }
        self.submit(false);
        self.aio.bell.clear();
        self.finish()
    }
}

impl Looks<'_> {
    /// Submits what has been started; true if there was anything.
    fn submit(&mut self, sleeps: bool) -> bool {
        let started = self.aio.take_started(sleeps);
        let any = !started.is_empty();
        for (req, request) in started {
            if request.is_given_up() {
                self.aio.in_flight.fetch_sub(1, Relaxed);
                continue;
            }
            match self.ring.start(DiskOp::Read(req)) {
                Ok(finished) => self.is_over(&request, finished),
                Err(token) => drop(self.running.insert(token, request)),
            }
        }
        any
    }

    /// Takes what the kernel has completed.
    fn finish(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        self.ring.finished(&mut out)?;
        for (token, finished) in out {
            if let Some(request) = self.running.remove(&token) {
                self.is_over(&request, finished);
            }
        }
        Ok(())
    }

    fn is_over(&mut self, request: &AioRequest, finished: Finished) {
        self.aio.in_flight.fetch_sub(1, Relaxed);
        self.completed = true;
        if let Finished::Read(read) = finished {
            request.complete(read);
        }
    }
}
