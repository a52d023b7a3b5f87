//! What queues between threads are made of. The model of them has the same names from another
//! place, where every interleaving is tried.
pub(crate) use regatta_sys::{Bell, clock};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic};

/// A panic leaves nothing behind that is half done.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
