//! What could be known of the disk at any time: every open, what it found, and who waited for it.
use crate::{disk::Seen, expect::Known, trace::Stamp};
use regatta_op::OpenFault;
use regatta_origin::{CachingRules, STALE_PERIODS_MAX};
use std::collections::HashMap;

/// One open and what became of it.
#[derive(Clone, Copy, Debug)]
struct Observation {
    seen: Seen,
    link: usize,
    completed: Stamp,
    /// The seconds at which it was completed, and asked for.
    unix: u64,
    asked_unix: u64,
    /// When the cache could take it; `None` while its body is being read, or if that failed.
    put: Option<Stamp>,
}

/// A name that is being revalidated or read: until that is over, the cache calls its entry fresh.
#[derive(Clone, Copy, Debug)]
struct Lease {
    link: usize,
    started: Stamp,
    put: Option<Stamp>,
}

/// Opens by name.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    observations: HashMap<Vec<u8>, Vec<Observation>>,
    leases: HashMap<Vec<u8>, Vec<Lease>>,
}

/// The request that asks: its connection, when its head had come, and when it was answered at the
/// latest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) link: usize,
    pub(crate) asked: Stamp,
    pub(crate) answered: Stamp,
}

impl Knowledge {
    /// A connection is about to open a name, or to read its body.
    pub(crate) fn ask(&mut self, name: &[u8], link: usize, started: Stamp) {
        let lease = Lease { link, started, put: None };
        self.leases.entry(name.to_vec()).or_default().push(lease);
    }

    /// An open is complete. `put`: its body need not be read first.
    pub(crate) fn opened(
        &mut self,
        name: &[u8],
        link: usize,
        seen: Seen,
        completed: Stamp,
        unix: u64,
    ) {
        let leases = self.leases.get(name).into_iter().flatten();
        let asked = leases.rev().find(|lease| lease.link == link).map(|lease| lease.started);
        let asked_unix = asked.map_or(unix, crate::disk::unix);
        let observation = Observation { seen, link, completed, unix, asked_unix, put: None };
        self.observations.entry(name.to_vec()).or_default().push(observation);
    }

    /// The cache now has what a connection learned last about a name.
    pub(crate) fn put(&mut self, name: &[u8], link: usize, now: Stamp) {
        let Some(list) = self.observations.get_mut(name) else { return };
        let Some(known) = list.iter_mut().rev().find(|known| known.link == link) else { return };
        if passes(known.seen) {
            return;
        }
        known.put = Some(now);
        let leases = self.leases.get_mut(name).into_iter().flatten();
        if let Some(lease) = leases.rev().find(|lease| lease.link == link) {
            lease.put = Some(now);
        }
    }

    /// All that could be known of a name when a request asked.
    pub(crate) fn of(&self, name: &[u8], asker: Asker, rules: &CachingRules) -> Vec<Known> {
        let leased = self.leases.get(name).is_some_and(|list| {
            list.iter().any(|lease| {
                let own = lease.link == asker.link && lease.started.step >= asker.asked.step;
                !own && lease.started.step <= asker.answered.step
                    && lease.started.tick.saturating_add(rules.revalidate_ms) > asker.asked.tick
                    && lease.put.is_none_or(|put| put.step >= asker.asked.step)
            })
        });
        let list = self.observations.get(name).map_or(&[][..], |list| list);
        // If an entry cannot be revalidated, it is served, however old it is.
        let excused = list.iter().any(|known| {
            let own = known.link == asker.link && known.completed.step >= asker.asked.step;
            own && passes(known.seen)
        });
        let admissible = |known: &&Observation| {
            let age_max = match known.seen {
                Seen::Fault(_) => rules.negative_ms,
                Seen::File { .. } | Seen::Directory => rules.revalidate_ms,
            };
            let own = known.link == asker.link && known.completed.step >= asker.asked.step;
            let in_time = known.completed.step <= asker.answered.step;
            let cached = known.put.is_some_and(|put| {
                rules.enabled
                    && put.step <= asker.answered.step
                    && (known.completed.tick.saturating_add(age_max) > asker.asked.tick
                        || (excused || leased && self.is_bearable(name, known, put, asker, rules))
                            && !matches!(known.seen, Seen::Fault(_)))
            });
            in_time && (own || cached)
        };
        list.iter()
            .filter(admissible)
            .map(|known| Known { seen: known.seen, unix: known.unix, asked_unix: known.asked_unix })
            .collect()
    }

    /// True if an entry is no older than it may be while other requests revalidate it.
    fn is_bearable(
        &self,
        name: &[u8],
        known: &Observation,
        put: Stamp,
        asker: Asker,
        rules: &CachingRules,
    ) -> bool {
        let stale_from = known.completed.tick.saturating_add(rules.revalidate_ms);
        let leases = self.leases.get(name).into_iter().flatten();
        let doubts = leases.map(|lease| lease.started);
        let doubts = doubts.filter(|at| at.step >= put.step && at.tick >= stale_from);
        let excuse_ms = rules.revalidate_ms.saturating_mul(STALE_PERIODS_MAX + 1);
        let first = doubts.map(|at| at.tick).min();
        first.is_none_or(|first| asker.asked.tick <= first.saturating_add(excuse_ms))
    }
}

/// True for a fault that passes by itself: it is never cached.
const fn passes(seen: Seen) -> bool {
    matches!(seen, Seen::Fault(OpenFault::Exhausted | OpenFault::Busy | OpenFault::Other(_)))
}
