//! Roots of a process, and the sites that change with them.
use regatta_origin::{ReleaseSource, Site, Sites};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, PoisonError, RwLock, RwLockWriteGuard,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

/// Builds the site of a host from the text that goes with its root. The arguments are the host's
/// number, the change of roots that brings the site, and the text.
pub type BuildSite = dyn Fn(usize, u64, &[u8]) -> Arc<Site> + Send + Sync;

/// Sites of a process that have changed with their roots. The units of the process share them.
pub struct Releases {
    shared: Arc<Shared>,
    build: Box<BuildSite>,
    hosts: usize,
}

#[derive(Default)]
struct Shared {
    version: AtomicU64,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    sites: Arc<Sites>,
    /// Texts that came with roots and have no site yet: the change, and the text.
    kept: BTreeMap<usize, (u64, Vec<u8>)>,
    /// The last change of each host.
    last: BTreeMap<usize, u64>,
}

impl Releases {
    /// Makes the sites of a process that serves this many hosts.
    #[must_use]
    pub fn new(hosts: usize, build: Box<BuildSite>) -> Self {
        Self { shared: Arc::default(), build, hosts }
    }

    /// Returns the source that units follow.
    #[must_use]
    pub fn source(&self) -> Arc<dyn ReleaseSource> {
        Arc::clone(&self.shared) as Arc<dyn ReleaseSource>
    }

    /// Builds the site of a host.
    #[must_use]
    pub fn build(&self, host: usize, release: u64, text: &[u8]) -> Arc<Site> {
        (self.build)(host, release, text)
    }

    /// Replaces roots by `replace`, and the sites of these hosts. No unit sees one without the
    /// other.
    pub fn change(&self, sites: Vec<(usize, Arc<Site>)>, replace: impl FnOnce()) {
        let mut state = self.write();
        let version = &self.shared.version;
        // Odd: what is opened now may be below either root.
        version.fetch_add(1, SeqCst);
        replace();
        let mut new = match state.sites.is_empty() {
            true => vec![None; self.hosts],
            false => state.sites.to_vec(),
        };
        for (host, site) in sites {
            state.last.insert(host, site.release);
            if let Some(place) = new.get_mut(host) {
                *place = Some(site);
            }
        }
        state.sites = Arc::new(new.into());
        version.fetch_add(1, SeqCst);
    }

    /// Keeps the text that came with a root, for processes that start later.
    pub fn keep(&self, host: usize, release: u64, text: Vec<u8>) {
        let mut state = self.write();
        state.last.insert(host, release);
        state.kept.insert(host, (release, text));
    }

    /// Whether this change of a host is newer than the last one in this process. A channel may
    /// deliver a change twice, or one that was sent before the process started.
    #[must_use]
    pub fn lacks(&self, host: usize, release: u64) -> bool {
        let state = self.shared.state.read().unwrap_or_else(PoisonError::into_inner);
        state.last.get(&host).is_none_or(|last| *last < release)
    }

    /// Returns the text that was kept of a host.
    #[must_use]
    pub fn kept(&self, host: usize) -> Option<Vec<u8>> {
        let state = self.shared.state.read().unwrap_or_else(PoisonError::into_inner);
        state.kept.get(&host).map(|(_, text)| text.clone())
    }

    /// Builds the sites of all kept texts, in a process that begins to serve.
    pub fn build_kept(&self) {
        let kept = std::mem::take(&mut self.write().kept);
        let built = kept.into_iter();
        let built = built.map(|(host, (release, text))| (host, self.build(host, release, &text)));
        let built: Vec<_> = built.collect();
        if !built.is_empty() {
            self.change(built, || {});
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.shared.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReleaseSource for Shared {
    fn version(&self) -> &AtomicU64 {
        &self.version
    }

    fn sites(&self) -> (u64, Arc<Sites>) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        (self.version.load(Relaxed), Arc::clone(&state.sites))
    }
}

impl fmt::Debug for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Releases").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_origin::Scratch;

    /// A unit is behind from before the roots change until it has taken the sites. It never has
    /// those of a change in progress.
    #[test]
    fn a_unit_is_behind_while_roots_change() {
        let build = |host: usize, release: u64, text: &[u8]| {
            assert_eq!((host, text), (1, &b"text"[..]));
            Arc::new(Site { release, ..Site::default() })
        };
        let releases = Releases::new(2, Box::new(build));
        let unit = Scratch::<u64>::new(7).following(releases.source());
        assert!(!unit.is_behind());
        let mut seen = None;
        let site = releases.build(1, 5, b"text");
        releases.change(vec![(1, site)], || seen = Some(unit.is_behind()));
        assert_eq!((seen, unit.is_behind()), (Some(true), true));
        unit.renew_sites();
        assert!(!unit.is_behind());
        let (version, sites) = releases.source().sites();
        assert!(version.is_multiple_of(2) && sites[0].is_none());
        assert_eq!(sites[1].as_ref().unwrap().release, 5);
        // A process that starts later builds the last text that was kept.
        releases.keep(1, 6, b"other".to_vec());
        releases.keep(1, 7, b"text".to_vec());
        releases.build_kept();
        assert_eq!([6, 7, 8].map(|release| releases.lacks(1, release)), [false, false, true]);
        assert_eq!(releases.source().sites().1[1].as_ref().unwrap().release, 7);
    }
}
