//! Cached results by path: files, directories, and names that do not exist.
use alloc::sync::Arc;
use core::fmt;
use regatta_metrics::Tally;
use regatta_op::{OpenFault, Tick};

use crate::entry::Representation;

/// Meaning of a path. Clones share the file: a sender keeps it open after the cache has dropped it.
#[derive(Clone, Debug)]
pub enum Entry<F> {
    /// A regular file, in all its content codings.
    File(Arc<Representation<F>>),
    /// A directory.
    Directory,
    /// Nothing that can be served.
    Missing(OpenFault),
}

/// The result of a look-up.
#[derive(Clone, Debug)]
pub enum Lookup<F> {
    /// Nothing.
    Miss,
    /// An entry that is recent enough to use.
    Fresh(Entry<F>),
    /// An entry that must be revalidated. The cache returns this to one caller, and [`Self::Fresh`]
    /// to others meanwhile, so that a popular file is opened again once. That has a time limit:
    /// otherwise the files of a disk that hangs would never be stale.
    Stale(Entry<F>),
}

/// A map from paths to entries. It may be private to a worker or shared: the origin does not know.
///
/// Keys are decoded paths, with the prefix of their root, as in [`regatta_op::OpenReq::path`]. A
/// cache is bounded: it may drop any entry at any time, and need not accept a new one. It counts
/// look-ups, fills and evictions in the caller's tally.
pub trait Cache<F>: fmt::Debug {
    /// Looks `path` up.
    fn get(&self, path: &[u8], now: Tick, tally: &Tally<'_>) -> Lookup<F>;

    /// Calls `serve` with the file that `path` names, if it is cached and fresh. True if `serve`
    /// was called and returned true; otherwise this does not count as a look-up, and the caller
    /// uses [`get`](Self::get).
    ///
    /// No reference to the file is taken, which would cost as much as finding it. If there is no
    /// other reference, `serve` may change the file. It must not call the cache. A cache need not
    /// support this.
    #[expect(unused_variables, reason = "a cache that does not support this")]
    fn hit(
        &self,
        path: &[u8],
        now: Tick,
        tally: &Tally<'_>,
        serve: &mut dyn FnMut(&mut Arc<Representation<F>>) -> bool,
    ) -> bool {
        false
    }

    /// Stores that `path` names `entry`, by an operation that was begun at `requested_at`. Replaces
    /// the entry of an earlier operation, not that of a later one.
    fn put(&self, path: &[u8], entry: &Entry<F>, requested_at: Tick, tally: &Tally<'_>);

    /// Adds a body to a cached file that has none; the entry's age does not change. If `path` names
    /// another file by now, or is not cached, nothing happens.
    fn fill(&self, path: &[u8], file: &Arc<Representation<F>>, tally: &Tally<'_>);

    /// Closes some files because no descriptors are left. True if there are some now; false if the
    /// cache had none, or they are still in use.
    fn relieve(&self, tally: &Tally<'_>) -> bool;

    /// Continues the sweep for entries unused for [`crate::CachingRules::inactive_ms`], and removes
    /// a few, so that unused files do not stay open. Returns when to continue, at the latest;
    /// `None` if the cache is empty.
    fn sweep(&self, now: Tick, tally: &Tally<'_>) -> Option<Tick>;

    /// Removes the entry of `path`.
    fn remove(&self, path: &[u8], tally: &Tally<'_>);

    /// Removes everything: the root has been replaced. A result of an operation that was begun
    /// until `now` may be from the old root, and is not stored later either.
    fn clear(&self, now: Tick, tally: &Tally<'_>);

    /// Lets `replace` replace the root, and removes everything if it returns when it did so. Later
    /// look-ups in the new root find nothing of the old one.
    fn renew(&self, tally: &Tally<'_>, replace: &mut dyn FnMut() -> Option<Tick>) {
        if let Some(now) = replace() {
            self.clear(now, tally);
        }
    }

    /// True if one of several units of a process clears it for all of them; false if each that
    /// has one does so for itself.
    fn is_shared(&self) -> bool;
}
