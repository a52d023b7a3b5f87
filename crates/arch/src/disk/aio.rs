//! Asynchronous reads as in POSIX ([A]): a thread starts a read and continues, and another thread
//! checks later whether it is complete.
//!
//! The engine makes the read: threads like glibc's (`threads`), io_uring (`ring`), or Linux's own
//! asynchronous I/O (`kernel`).
mod kernel;
mod ring;
#[cfg(test)]
mod tests;
mod threads;

pub use kernel::AioKernel;
pub use ring::AioRing;
pub use threads::{AioThreads, ThreadLimits};

use crate::WorkError;
use crate::sync::lock;
use regatta_op::ReadReq;
use regatta_sys::{Read, StaticFile};
use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Makes reads for all threads of a process.
pub trait Aio: Sync {
    /// Starts a read (aio_read(3)), whose outcome goes to the engine's half of a [`Request::pair`].
    /// The waiter is to have the other half by then.
    ///
    /// # Errors
    /// No room for the read now: returns what was given.
    fn start(&self, req: ReadReq<StaticFile>, of_engine: AioRequest) -> Result<(), UnstartedRead>;

    /// Reads that have been started and are not complete.
    fn in_flight(&self) -> usize;

    /// Wakes the thread that checks for complete reads, even if it waits: another thread than the
    /// engine has completed a read.
    fn wake(&self);

    /// Returns the part of the one thread that checks for complete reads; called in that thread.
    ///
    /// # Errors
    /// The system does not let it work.
    fn completions(&self) -> Result<Box<dyn Completions + '_>, WorkError>;
}

/// A read that could not be started.
pub type UnstartedRead = (ReadReq<StaticFile>, AioRequest);

/// State of the thread that checks for complete reads.
pub trait Completions {
    /// Lets reads complete. If none has since the last call, waits at most `patience` for one. May
    /// return early.
    ///
    /// # Errors
    /// No read will complete any more.
    fn wait(&mut self, patience: Duration) -> io::Result<()>;
}

/// A read that has been started, and its outcome (an `aiocb`).
///
/// A request that is dropped is given up: the engine keeps file and buffer until it has done with
/// them.
#[derive(Debug)]
pub struct AioRequest(Arc<Mutex<Option<Read>>>);

impl AioRequest {
    /// Returns one half for the waiter, and one for the engine.
    #[must_use]
    pub fn pair() -> (Self, Self) {
        let of_engine = Arc::new(Mutex::new(None));
        (Self(Arc::clone(&of_engine)), Self(of_engine))
    }

    /// Takes the outcome of the read, once it is complete (aio_error(3), aio_return(3)); once only.
    #[must_use]
    pub fn status(&self) -> Option<Read> {
        lock(&self.0).take()
    }

    /// True if the read is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Completes the read.
    pub fn complete(&self, read: Read) {
        *lock(&self.0) = Some(read);
    }

    /// True if the waiter has dropped its half.
    fn is_given_up(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}
