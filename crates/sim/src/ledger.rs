//! Checks that counters match the events of a schedule, and that nothing is kept at its end.
use crate::{BrokenCheck, closing::DISK_MS_MAX, disk::SimFile, plant::Plant, world::World};
use regatta_metrics::{Counter, Slot, Tally};
use regatta_op::{CloseReason, Tick};
use regatta_origin::{
    Cache, Entry, LocalCache, Log, Lookup, Record, ReplyOutcome, Representation, Site,
};
use std::{cell::Cell, sync::Arc};

/// Log that sums up its records.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    on: bool,
    records: Cell<u64>,
    complete: Cell<u64>,
    sent: Cell<u64>,
    forgets: bool,
}

impl Sums {
    /// Makes a log that wants records, or none, or that forgets them.
    pub(crate) fn new(on: bool, forgets: bool) -> Self {
        Self { on: on || forgets, forgets, ..Self::default() }
    }
}

impl Log for Sums {
    fn wants(&self) -> bool {
        self.on
    }

    fn record(&self, record: &Record<'_>) {
        if self.forgets {
            return;
        }
        let status = record.refused.map(|refusal| refusal.status().0);
        let refused = match record.status {
            400 | 405 | 408 | 413 | 414 | 417 | 429 | 431 | 501 | 505 => Some(record.status),
            // Or the disk has not answered.
            503 => status.and(Some(503)),
            _ => None,
        };
        assert_eq!(status, refused, "what is refused has its reason");
        self.records.set(self.records.get() + 1);
        self.sent.set(self.sent.get() + record.sent_bytes);
        if record.outcome == ReplyOutcome::Complete {
            self.complete.set(self.complete.get() + 1);
        }
    }
}

/// The cache, or a planted fault that calls everything fresh.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) cache: LocalCache<SimFile>,
    pub(crate) plant: Option<Plant>,
    /// Longest time for which an unused entry stays, milliseconds.
    idle_ms_max: u64,
}

impl Kept {
    pub(crate) fn new(site: &Site, plant: Option<Plant>) -> Self {
        let rules = &site.caching;
        // An entry's time begins at its request: the disk takes a while to open it, and to read
        // its body piece by piece.
        let reads = rules.body_bytes_max.div_ceil(rules.read_bytes_max.max(1) as u64).max(1);
        let disk_ms = (1 + reads) * DISK_MS_MAX;
        Self {
            cache: LocalCache::new(rules, site.seed),
            plant,
            idle_ms_max: rules.inactive_ms + rules.inactive_ms / 8 + 20 + disk_ms,
        }
    }
}

impl Cache<SimFile> for Kept {
    fn get(&self, path: &[u8], now: Tick, tally: &Tally<'_>) -> Lookup<SimFile> {
        let found = self.cache.get(path, now, tally);
        self.cache.check_invariants();
        match found {
            Lookup::Stale(entry) if self.plant == Some(Plant::NeverStale) => Lookup::Fresh(entry),
            other => other,
        }
    }

    fn put(&self, path: &[u8], entry: &Entry<SimFile>, now: Tick, tally: &Tally<'_>) {
        self.cache.put(path, entry, now, tally);
        self.cache.check_invariants();
    }

    fn fill(&self, path: &[u8], file: &Arc<Representation<SimFile>>, tally: &Tally<'_>) {
        self.cache.fill(path, file, tally);
        self.cache.check_invariants();
    }

    fn relieve(&self, tally: &Tally<'_>) -> bool {
        let relieved = self.cache.relieve(tally);
        self.cache.check_invariants();
        relieved
    }

    fn sweep(&self, now: Tick, tally: &Tally<'_>) -> Option<Tick> {
        let on = self.cache.sweep(now, tally);
        self.cache.check_invariants();
        let idle_ms = self.cache.idle_ms(now);
        assert!(idle_ms <= self.idle_ms_max, "unused entries go in time: {idle_ms} ms");
        on
    }

    fn remove(&self, path: &[u8], tally: &Tally<'_>) {
        self.cache.remove(path, tally);
    }

    fn clear(&self, now: Tick, tally: &Tally<'_>) {
        self.cache.clear(now, tally);
        self.cache.check_invariants();
    }

    fn is_shared(&self) -> bool {
        self.cache.is_shared()
    }
}

/// The most plain bytes that a sealed connection seals for one `Send`.
pub(crate) const SEALED_BYTES_MAX: u64 = 64 << 10;

/// Checks the counters, the log and the descriptors of a world that has ended.
pub(crate) fn check(
    world: &World<'_>,
    slot: Slot<'_>,
    kept: &Kept,
    log: &Sums,
) -> Result<(), BrokenCheck> {
    let totals = &world.totals;
    let get = |counter: Counter| slot.get(counter);
    let cache = &kept.cache;
    let (sent, replies) = (get(Counter::BytesSent), get(Counter::Replies));
    // After an unfinished `Send`, a sealed connection knows only roughly what was taken.
    let near = sent.abs_diff(totals.sent) <= totals.torn * SEALED_BYTES_MAX;
    let behind = replies <= totals.replies && totals.replies - replies <= totals.torn;
    let mut sums = vec![
        ("bytes_sent", sent, if near { sent } else { totals.sent }),
        ("opens", get(Counter::Opens), totals.opens),
        ("open_siblings", get(Counter::OpenSiblings), totals.siblings),
        ("reads", get(Counter::Reads), totals.reads),
        ("read_bytes", get(Counter::ReadBytes), totals.read_bytes),
        ("replies", replies, if behind { replies } else { totals.replies }),
        ("requests", get(Counter::Requests), get(Counter::Replies) + get(Counter::RepliesCut)),
        ("connections", totals.opened, totals.closed.iter().sum()),
        (
            "cache_entries",
            get(Counter::CacheEntriesAdded) - get(Counter::CacheEntriesRemoved),
            (cache.entries() + cache.negatives()) as u64,
        ),
        (
            "cache_fds",
            get(Counter::CacheFdsAdded) - get(Counter::CacheFdsRemoved),
            cache.descriptors() as u64,
        ),
        (
            "cache_bytes",
            get(Counter::CacheBytesAdded) - get(Counter::CacheBytesRemoved),
            cache.bytes() as u64,
        ),
        ("descriptors that are open", world.disk.live(), cache.descriptors() as u64),
        ("cache_lookups", get(Counter::CacheLookups).min(lookups(slot)), lookups(slot)),
    ];
    let classes =
        [Counter::Replies2xx, Counter::Replies3xx, Counter::Replies4xx, Counter::Replies5xx];
    let sizes = [
        Counter::RepliesBelow1k,
        Counter::RepliesBelow10k,
        Counter::RepliesBelow100k,
        Counter::RepliesBelow1m,
        Counter::RepliesFrom1m,
    ];
    for (name, parts) in [("classes of status", &classes[..]), ("classes of size", &sizes)] {
        sums.push((name, parts.iter().map(|&part| get(part)).sum(), get(Counter::Replies)));
    }
    for reason in CloseReason::ALL {
        let counter = Counter::closed(reason as usize);
        sums.push((counter.name(), get(counter), totals.closed[reason as usize]));
    }
    if log.on {
        sums.push(("records", log.records.get(), get(Counter::Requests)));
        sums.push(("complete records", log.complete.get(), get(Counter::Replies)));
        sums.push(("bytes in records", log.sent.get(), sent));
    }
    match sums.iter().find(|(_, counted, expected)| counted != expected) {
        Some((name, counted, expected)) => {
            Err(format!("{name}: {counted} counted, {expected} happened").into())
        }
        None => Ok(()),
    }
}

/// Number of lookups whose result is counted.
fn lookups(slot: Slot<'_>) -> u64 {
    slot.get(Counter::CacheHits) + slot.get(Counter::CacheRevalidations)
}
