//! Reads by Linux's own asynchronous I/O ([`kernel_aio`]): for the record, because it waits for the
//! disk in the thread that starts a read.
use super::{Aio, AioRequest, Completions, UnstartedRead};
use crate::WorkError;
use regatta_op::ReadReq;
use regatta_sys::{
    StaticFile,
    kernel_aio::{KernelAio, Started},
};
use std::{io, time::Duration};

/// The longest wait for the kernel: what has been completed without it is seen after that.
const WAIT_MAX: Duration = Duration::from_millis(10);

/// Reads that the kernel makes.
#[derive(Debug)]
pub struct AioKernel(KernelAio<AioRequest>);

impl AioKernel {
    /// Makes room for `requests_max` requests that are not complete.
    ///
    /// # Errors
    /// The kernel has no room for them, or no such interface: [`WorkError::KernelReads`].
    pub fn new(requests_max: usize) -> Result<Self, WorkError> {
        let most = u32::try_from(requests_max).unwrap_or(u32::MAX);
        KernelAio::new(most).map(Self).map_err(|error| WorkError::KernelReads(most, error))
    }
}

impl Aio for AioKernel {
    fn start(&self, req: ReadReq<StaticFile>, of_engine: AioRequest) -> Result<(), UnstartedRead> {
        match self.0.start(req, of_engine) {
            Started::InFlight => {}
            Started::Over(of_engine, read) => of_engine.complete(read),
            Started::Refused(of_engine, req) => return Err((req, of_engine)),
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    /// Nothing wakes io_getevents(2) but a completion of its own, so each wait is short.
    fn wake(&self) {}

    fn completions(&self) -> Result<Box<dyn Completions + '_>, WorkError> {
        Ok(Box::new(Looks(&self.0)))
    }
}

struct Looks<'a>(&'a KernelAio<AioRequest>);

impl Completions for Looks<'_> {
    fn wait(&mut self, patience: Duration) -> io::Result<()> {
        let mut over = Vec::new();
        self.0.finished(patience.min(WAIT_MAX), &mut over)?;
        for (request, read) in over {
            request.complete(read);
        }
        Ok(())
    }
}
