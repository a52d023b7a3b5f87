//! Sites that change with their roots: rules and error pages of a release belong to its files.
use crate::Site;
use alloc::{boxed::Box, sync::Arc};
use core::{
    cell::{Cell, Ref, RefCell},
    fmt,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

/// Sites that took the places of those that the process began with, by the number of their host.
/// Empty, or with a place for each host.
pub type Sites = Box<[Option<Arc<Site>>]>;

/// The sites of a process, which its units share.
pub trait ReleaseSource: Send + Sync {
    /// Another number after each change. Odd while roots are being replaced.
    fn version(&self) -> &AtomicU64;

    /// The sites, and the version from which on they are these. Waits for a change in progress.
    fn sites(&self) -> (u64, Arc<Sites>);
}

/// The sites of its process as one unit knows them. They change between the calls of the unit's
/// connections, never during one.
pub(crate) struct Releases {
    process: Arc<dyn ReleaseSource>,
    seen: Cell<u64>,
    sites: RefCell<Arc<Sites>>,
}

impl Releases {
    pub(crate) fn new(process: Arc<dyn ReleaseSource>) -> Self {
        let (seen, sites) = process.sites();
        Self { process, seen: Cell::new(seen), sites: RefCell::new(sites) }
    }

    /// True if the process has other roots than this unit knows of, or replaces them now.
    pub(crate) fn is_behind(&self) -> bool {
        self.process.version().load(SeqCst) != self.seen.get()
    }

    /// Takes the sites that the process has now.
    pub(crate) fn renew(&self) {
        let (seen, sites) = self.process.sites();
        self.seen.set(seen);
        self.sites.replace(sites);
    }

    /// The sites, unless all are those that the process began with.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<Ref<'_, Sites>> {
        Ref::filter_map(self.sites.borrow(), |sites| (!sites.is_empty()).then_some(&**sites)).ok()
    }
}

impl fmt::Debug for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Releases").field("seen", &self.seen).finish_non_exhaustive()
    }
}
