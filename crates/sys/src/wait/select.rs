//! select(2).
use super::{Event, Interest, Poller};
use std::{io, os::fd::BorrowedFd, time::Duration};

/// A [`Poller`] on select(2).
#[derive(Debug, Default)]
pub struct Select(());

impl Select {
    /// One that watches nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Poller for Select {
    fn name(&self) -> &'static str {
        "select"
    }
    fn add(&mut self, _: BorrowedFd<'_>, _: u64, _: Interest) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn set(&mut self, _: BorrowedFd<'_>, _: u64, _: Interest) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn remove(&mut self, _: BorrowedFd<'_>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn wait(&mut self, _: &mut Vec<Event>, _: Option<Duration>) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn len(&self) -> usize {
        0
    }
    fn changes(&self) -> u64 {
        0
    }
}
