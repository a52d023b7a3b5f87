//! A bell, with which one thread or process makes another one's poller return.
use crate::crew::assert_unlocked;
use rustix::{
    event::{EventfdFlags, eventfd},
    io::Errno,
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// Descriptor that is readable from the first [`Bell::ring`] to the next [`Bell::clear`] (eventfd).
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A silent bell.
    ///
    /// # Errors
    /// No descriptors or no memory left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Adopts a bell that an earlier program of this process, or another process, made.
    #[must_use]
    pub const fn adopt(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Makes the descriptor readable. Rings before the next [`Bell::clear`] count once.
    pub fn ring(&self) {
        assert_unlocked();
        while rustix::io::write(&self.0, &1u64.to_ne_bytes()) == Err(Errno::INTR) {}
    }

    /// Makes the descriptor silent; true if it had been rung.
    pub fn clear(&self) -> bool {
        let mut count = [0; 8];
        loop {
            match rustix::io::read(&self.0, &mut count) {
                Err(Errno::INTR) => {}
                result => return result.is_ok(),
            }
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
