//! What connections and exchanges may use besides their own state.
use crate::{Cache, Links, Log, Scratch, Site};
use core::fmt;
use regatta_metrics::Tally;

/// Everything that a connection or an exchange may use besides its own state.
///
/// All shared references, so a driver can hold one across a wait.
pub struct Cx<'a, F> {
    /// What is served, and the limits; fixed after start-up.
    pub site: &'a Site,
    /// Private to the worker or shared: the origin cannot tell.
    pub cache: &'a dyn Cache<F>,
    /// The worker's counters.
    pub tally: Tally<'a>,
    /// Takes finished records.
    pub log: &'a dyn Log,
    /// The worker's buffers.
    pub scratch: &'a Scratch<F>,
    /// The protocol of each listener.
    pub links: &'a dyn Links<F>,
}

impl<F> Clone for Cx<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Cx<'_, F> {}

impl<F> fmt::Debug for Cx<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("site", &self.site).finish_non_exhaustive()
    }
}
