//! Faults on demand: short reads and writes, interruptions, and full tables. Nothing at all
//! without the cargo feature `chaos`.
use rustix::io::Errno;

/// The places where faults can strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    Recv,
    Send,
    SendFile,
    Read,
    Accept,
    Open,
}

#[inline]
pub(crate) const fn fault(_: Hook) -> Option<Errno> {
    None
}

#[inline]
pub(crate) const fn shorten(_: Hook, len: usize) -> usize {
    len
}

#[inline]
pub(crate) const fn slow(_: Hook) {}
