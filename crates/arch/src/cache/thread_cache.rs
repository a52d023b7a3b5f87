//! A cache for the threads of a process ([S] §4): a lock of readers and one writer for names, and a
//! lock per entry for what is known of it.
use regatta_metrics::{Counter, Tally};
use regatta_origin::{Lock, Locks, TableCache};
use regatta_sys::{StaticFile, clock};
use std::sync::{PoisonError, RwLock, TryLockError, TryLockResult};

/// A cache that threads share. What processes share is a [`crate::cache::shared_cache`].
pub type ThreadCache<F = StaticFile> = TableCache<F, ThreadLocks>;

/// Locks for which threads wait.
#[derive(Debug)]
pub struct ThreadLocks;

impl Locks for ThreadLocks {
    type Of<T> = ThreadLock<T>;
    const SHARED: bool = true;
}

/// A lock for which threads wait: how often and how long is counted.
#[derive(Debug)]
pub struct ThreadLock<T>(RwLock<T>);

impl<T> Lock<T> for ThreadLock<T> {
    fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    #[inline]
    fn read<R>(&self, tally: Option<&Tally<'_>>, see: impl FnOnce(&T) -> R) -> R {
        let lock = || self.0.read().unwrap_or_else(PoisonError::into_inner);
        see(&*lock_counted(self.0.try_read(), lock, tally))
    }

    #[inline]
    fn write<R>(&self, tally: &Tally<'_>, change: impl FnOnce(&mut T) -> R) -> R {
        let lock = || self.0.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut *lock_counted(self.0.try_write(), lock, Some(tally)))
    }

    fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lock that was tried for, or that `lock` waits for. Enters what that has cost.
#[inline]
fn lock_counted<G>(
    tried: TryLockResult<G>,
    lock: impl FnOnce() -> G,
    tally: Option<&Tally<'_>>,
) -> G {
    let guard = match tried {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            let start = clock::nanos();
            let guard = lock();
            if let Some(tally) = tally {
                tally.add(Counter::LockContended, 1);
                tally.add(Counter::LockWaitNs, clock::nanos() - start);
            }
            guard
        }
    };
    if let Some(tally) = tally {
        tally.add(Counter::LockAcquisitions, 1);
    }
    guard
}

/// Threads share it, and take turns with what is in it.
const _: () = {
    const fn assert_shared<T: Send + Sync>() {}
    assert_shared::<ThreadCache>();
};

#[cfg(test)]
mod tests;
