//! Knowledge of the disk over time: every open, its result, and the connection that waited for it.
use crate::{
    disk::{self, Seen},
    expect::Known,
    trace::Stamp,
};
use regatta_op::OpenFault;
use regatta_origin::{CachingRules, STALE_PERIODS_MAX};
use std::collections::HashMap;

/// An open and its result.
#[derive(Clone, Copy, Debug)]
struct Observation {
    seen: Seen,
    link: usize,
    completed: Stamp,
    /// Second of its completion.
    unix: u64,
    /// Earliest and latest second of its request.
    asked_unix: [u64; 2],
    /// Time from which the cache could have it; `None` until its body has been read.
    put: Option<Stamp>,
}

/// A name that is being revalidated or read: until the end, the cache calls its entry fresh.
#[derive(Clone, Copy, Debug)]
struct Lease {
    link: usize,
    /// Earliest time at which the connection may have decided to ask the disk.
    decided: Stamp,
    started: Stamp,
    put: Option<Stamp>,
}

/// Opens by name.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    observations: HashMap<Vec<u8>, Vec<Observation>>,
    leases: HashMap<Vec<u8>, Vec<Lease>>,
}

/// A request: its connection, the arrival of its head, and the latest time of its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// Connection whose opens are for this request; `None`: any open may be, because a connection
    /// has several requests at once.
    pub(crate) link: Option<usize>,
    pub(crate) asked: Stamp,
    pub(crate) answered: Stamp,
}

impl Knowledge {
    /// Notes that a connection is about to open a name, or to read its body. It may have decided so
    /// at `decided`, and waited for the driver since.
    pub(crate) fn ask(&mut self, name: &[u8], link: usize, decided: Stamp, started: Stamp) {
        let lease = Lease { link, decided, started, put: None };
        self.leases.entry(name.to_vec()).or_default().push(lease);
    }

    /// Notes a completed open.
    pub(crate) fn opened(
        &mut self,
        name: &[u8],
        link: usize,
        seen: Seen,
        completed: Stamp,
        unix: u64,
    ) {
        let leases = self.leases.get(name).into_iter().flatten();
        let lease = leases.rev().find(|lease| lease.link == link);
        let asked = lease.map(|lease| [lease.decided, lease.started].map(disk::unix));
        let asked_unix = asked.unwrap_or([unix; 2]);
        let observation = Observation { seen, link, completed, unix, asked_unix, put: None };
        self.observations.entry(name.to_vec()).or_default().push(observation);
    }

    /// Notes that the cache now has the last result of a connection about a name.
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

    /// Notes that the cache may have the last result of a connection about a name from now on. The
    /// cache may still call its last entry fresh.
    pub(crate) fn may_put(&mut self, name: &[u8], link: usize, now: Stamp) {
        let list = self.observations.get_mut(name).into_iter().flatten();
        if let Some(known) = list.rev().find(|known| known.link == link)
            && !passes(known.seen)
        {
            known.put = Some(now);
        }
    }

    /// Returns every result about a name that a request could have used.
    pub(crate) fn list(&self, name: &[u8], asker: Asker, rules: &CachingRules) -> Vec<Known> {
        // A connection with several requests may revalidate a name again, with an open that it has
        // not offered yet.
        let may_renew = |lease: &Lease| asker.link.is_none() && lease.put.is_none();
        let leased = self.leases.get(name).is_some_and(|list| {
            list.iter().any(|lease| {
                let own = asker.link == Some(lease.link) && lease.started.step >= asker.asked.step;
                !own && lease.started.step <= asker.answered.step
                    && (may_renew(lease)
                        || lease.started.tick.saturating_add(rules.revalidate_ms)
                            > asker.asked.tick)
                    && lease.put.is_none_or(|put| put.step >= asker.asked.step)
            })
        });
        let list = self.observations.get(name).map_or(&[][..], |list| list);
        let is_own = |known: &Observation| {
            let is_of_link = asker.link.is_none_or(|link| link == known.link);
            is_of_link && known.completed.step >= asker.asked.step
        };
        // An entry that cannot be revalidated is served regardless of its age.
        let excused = list.iter().any(|known| is_own(known) && passes(known.seen));
        let admissible = |known: &&Observation| {
            let age_max = match known.seen {
                Seen::Fault(_) => rules.negative_ms,
                Seen::File { .. } | Seen::Directory => rules.revalidate_ms,
            };
            let own = is_own(known);
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
        let known = list.iter().filter(admissible).flat_map(|known| {
            let Observation { seen, unix, asked_unix: [first, last], .. } = *known;
            let times = [Some(last), Some(first).filter(|it| *it != last)];
            times.into_iter().flatten().map(move |asked_unix| Known { seen, unix, asked_unix })
        });
        known.collect()
    }

    /// Whether an entry is no older than allowed while other requests revalidate it.
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

/// Whether a fault is temporary: such a fault is never cached.
const fn passes(seen: Seen) -> bool {
    matches!(seen, Seen::Fault(OpenFault::Exhausted | OpenFault::Busy | OpenFault::Other(_)))
}
