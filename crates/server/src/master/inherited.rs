//! The admin process of the image before this one.
use super::{Child, signal};
use std::os::fd::OwnedFd;

/// Admin process of the image before. It answers, about the serving workers, until this image has
/// serving workers and an admin process of its own.
#[derive(Debug)]
pub(super) struct Inherited {
    pub(super) asked: String,
    pub(super) listener: OwnedFd,
    pub(super) child: Option<Child>,
}

impl Inherited {
    /// True if the process has ended unasked: monitors would get no answer.
    pub(super) fn is_gone(&self) -> bool {
        self.child.as_ref().is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }

    pub(super) fn end(self) {
        if let Some(child) = &self.child {
            // The process has nothing to finish, and may have ended.
            let _ = child.kill(signal::Signal::Kill);
            let _ = child.wait();
        }
    }
}
