//! Surroundings of a single worker, for tests that say what happens in each round.
use super::*;

/// Parts of the surroundings that a worker borrows.
pub(super) struct Single {
    words: Vec<AtomicU64>,
    bell: Bell,
    cache: LocalCache<StaticFile>,
    scratch: Scratch<StaticFile>,
    site: Site,
}

impl Single {
    pub(super) fn new(site: Site) -> Self {
        Self {
            words: (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect(),
            bell: Bell::new().unwrap(),
            cache: LocalCache::new(&site.caching, 1),
            scratch: Scratch::new(1),
            site,
        }
    }

    /// Makes the arena, which has one slot.
    pub(super) fn arena(&self) -> Arena<'_> {
        Arena::create(&self.words, 1)
    }

    /// Surroundings of a worker with the slot of this arena.
    pub(super) fn around<'a>(
        &'a self,
        arena: Arena<'a>,
        links: &'a dyn Links<StaticFile>,
    ) -> WorkerEnv<'a> {
        let Self { bell, cache, scratch, site, .. } = self;
        let slot = arena.slot(0);
        let tally = Tally::Owned(slot);
        WorkerEnv {
            cx: FileCx { site, cache, tally, log: &NoLog, scratch, links },
            slot,
            control: arena.control(),
            bell,
            log: &NoLog,
            stall_ns: u64::MAX,
            shared: None,
            root: None,
        }
    }
}

/// Rules that accept all at once, until this many connections are open.
pub(super) fn accepts_all(connections_max: usize) -> AcceptRules {
    let (accepts, _) = strategy(0, &mut Dice::new(1));
    AcceptRules {
        count: 0,
        events_per_accept: 0,
        on_close: false,
        when_full: WhenFull::Pause,
        connections_max,
        ..accepts
    }
}
