//! Primitives of the queues between threads. The model of the queues takes the same names from
//! another place, where it tries every interleaving.
pub(crate) use regatta_sys::{Bell, clock};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic};

/// Locks even after a panic, which leaves nothing half done.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
