//! How many descriptors this process may have open.
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// The limits on open descriptors (`RLIMIT_NOFILE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// What is in force.
    pub soft: u64,
    /// What it may be raised to without privilege.
    pub hard: u64,
}

/// The limits as they are.
#[must_use]
pub fn descriptors() -> Descriptors {
    let limit = getrlimit(Resource::Nofile);
    Descriptors { soft: limit.current.unwrap_or(u64::MAX), hard: limit.maximum.unwrap_or(u64::MAX) }
}

/// Raises the soft limit to the hard one, and returns it. Children inherit it.
///
/// The soft limit is often 1,024 for the sake of programs that use `select` with libc's sets; this
/// one does not.
///
/// # Errors
/// None that the kernel documents.
pub fn raise_descriptors() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(descriptors().soft)
}

/// Lowers the soft limit to `most`, if it is higher. Children inherit it.
///
/// # Errors
/// None that the kernel documents.
pub fn lower_descriptors(most: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.map_or(most, |current| current.min(most));
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_can_be_raised_to_the_hard_one() {
        let hard = descriptors().hard;
        assert_eq!(raise_descriptors().unwrap(), hard);
        assert_eq!(descriptors(), Descriptors { soft: hard, hard });
    }
}
