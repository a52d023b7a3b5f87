//! A log that keeps the lines of the error log.
use crate::{Notice, WorkerLog};
use regatta_op::Now;
use regatta_origin::{Log, Record};
use std::{cell::RefCell, fmt, os::fd::BorrowedFd};

/// Keeps its notices.
#[derive(Default)]
pub(crate) struct Notices(RefCell<Vec<String>>);

impl Notices {
    /// The notices since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

impl Log for Notices {
    fn wants(&self) -> bool {
        false
    }
    fn record(&self, _: &Record<'_>) {}
}

impl WorkerLog for Notices {
    fn tick(&self, _: Now) {}
    fn flush(&self) {}
    fn is_due(&self) -> bool {
        false
    }
    fn each_own(&self, _: &mut dyn FnMut(BorrowedFd<'_>)) {}
    fn notice(&self, _: Notice, message: fmt::Arguments<'_>) {
        self.0.borrow_mut().push(message.to_string());
    }
}
