//! What is remembered by path: files, directories, and names of nothing.
use alloc::sync::Arc;
use core::fmt;
use regatta_metrics::Tally;
use regatta_op::{OpenFault, Tick};

use crate::entry::Representation;

/// What a path names. A clone shares what it holds: senders keep a file open after the cache has
/// let go of it.
#[derive(Clone, Debug)]
pub enum Entry<F> {
    /// A regular file, in all its content codings.
    File(Arc<Representation<F>>),
    /// A directory.
    Directory,
    /// Nothing that can be served.
    Missing(OpenFault),
}

/// What a cache knows of a path.
#[derive(Clone, Debug)]
pub enum Lookup<F> {
    /// Nothing.
    Miss,
    /// This, and it is recent enough to use.
    Fresh(Entry<F>),
    /// This, and it is time to see whether it changed. The cache says so to one asker and calls the
    /// entry fresh to others meanwhile, so that a popular file is opened again once; but not for
    /// ever, or what is on a disk that does not answer would never be stale.
    Stale(Entry<F>),
}

/// Path to entry: private to a worker or shared by many, the origin cannot tell.
///
/// Keys are decoded paths as in [`regatta_op::OpenReq::path`]. A cache is bounded: it may drop
/// any entry at any time, and need not take what it is given. It counts its lookups, fills and
/// evictions in the tally of whoever asks.
pub trait Cache<F>: fmt::Debug {
    /// What is known of `path`.
    fn get(&self, path: &[u8], now: Tick, tally: &Tally<'_>) -> Lookup<F>;

    /// Shows the file that `path` names to `serve`, if it is known and recent enough to use; true
    /// if `serve` was called and returned true. Only then was it a lookup; otherwise ask
    /// [`get`](Self::get).
    ///
    /// Nobody takes a reference to the file, which would cost as much as finding it; and so, if
    /// nobody has, `serve` may change the file. It must not call the cache. A cache need not have
    /// this way.
    #[expect(unused_variables, reason = "a cache without this way")]
    fn hit(
        &self,
        path: &[u8],
        now: Tick,
        tally: &Tally<'_>,
        serve: &mut dyn FnMut(&mut Arc<Representation<F>>) -> bool,
    ) -> bool {
        false
    }

    /// Remembers that `path` names `entry`, as who asked the disk at `asked` was told; replaces
    /// what was known of it, unless somebody asked later.
    fn put(&self, path: &[u8], entry: &Entry<F>, asked: Tick, tally: &Tally<'_>);

    /// Remembers a body of a file that is remembered without it: its age stays what it was. If
    /// `path` names another file by now, or is forgotten, nothing happens.
    fn fill(&self, path: &[u8], file: &Arc<Representation<F>>, tally: &Tally<'_>);

    /// There are no descriptors left: lets go of some that are held here. True if there are some
    /// now; false if none were held, or others must let go of them first.
    fn relieve(&self, tally: &Tally<'_>) -> bool;

    /// Goes on with the sweep for what nobody has asked for in
    /// [`crate::CachingRules::inactive_ms`], and forgets a little of it: what is not asked for
    /// keeps no file open. Returns when to go on, at
    /// the latest; `None` if nothing is remembered.
    fn sweep(&self, now: Tick, tally: &Tally<'_>) -> Option<Tick>;

    /// Forgets `path`.
    fn remove(&self, path: &[u8], tally: &Tally<'_>);

    /// Forgets everything: the root is another one. What was asked for until `now` and is put later
    /// was perhaps found below the one before, and is not remembered.
    fn clear(&self, now: Tick, tally: &Tally<'_>);
}
