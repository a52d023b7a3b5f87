//! Asynchronous reads as POSIX has them ([A]): a thread starts one and goes on, and another thread
//! looks later whether it is complete.
//!
//! Who makes the read is the engine's: threads like glibc's (`threads`), io_uring (`ring`), or
//! Linux's own asynchronous I/O (`kernel`).
mod kernel;
mod ring;
#[cfg(test)]
mod tests;
mod threads;

pub use kernel::AioKernel;
pub use ring::AioRing;
pub use threads::{AioThreads, ThreadLimits};

use super::sync::lock;
use regatta_op::ReadReq;
use regatta_sys::{Read, StaticFile};
use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Makes reads for all threads of a process.
pub trait Aio: Sync {
    /// Starts a read (aio_read(3)), whose outcome goes to the engine's half of a
    /// [`Request::pair`]. The waiter is to have the other half by then.
    ///
    /// # Errors
    /// There is no room for it now: what was given.
    fn start(&self, req: ReadReq<StaticFile>, of_engine: Request) -> Result<(), Refused>;

    /// Reads that have been started and are not complete.
    fn in_flight(&self) -> usize;

    /// A read has been completed by another than the engine: who looks for complete reads is to
    /// look, also if it waits.
    fn wake(&self);

    /// The part of the one thread that looks for complete reads; made in that thread.
    ///
    /// # Errors
    /// The system does not let it work: the message says what to do.
    fn completions(&self) -> Result<Box<dyn Completions + '_>, String>;
}

/// A read that could not be started.
pub type Refused = (ReadReq<StaticFile>, Request);

/// What the thread needs that looks for complete reads.
pub trait Completions {
    /// Lets reads complete; if none has since the last call, waits for one, for so long at most. It
    /// may return early.
    ///
    /// # Errors
    /// No read will complete any more.
    fn wait(&mut self, patience: Duration) -> io::Result<()>;
}

/// A read that has been started, and what has come of it (an `aiocb`).
///
/// A request that is dropped is given up: the engine keeps file and buffer until it has done with
/// them.
#[derive(Debug)]
pub struct Request(Arc<Mutex<Option<Read>>>);

impl Request {
    /// One for the waiter, and one for the engine.
    #[must_use]
    pub fn pair() -> (Self, Self) {
        let of_engine = Arc::new(Mutex::new(None));
        (Self(Arc::clone(&of_engine)), Self(of_engine))
    }

    /// What has come of the read, once it is complete (aio_error(3) and aio_return(3)); it is
    /// there once.
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

    /// True if nobody waits for it.
    fn is_given_up(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}
