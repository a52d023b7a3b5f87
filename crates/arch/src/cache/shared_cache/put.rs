//! Changes of a shared cache: entries are added, updated in place, and removed.
use super::{
    DIRECTORY, Died, FILE, KIND, Locking, MISSING, SharedCache, fault_bits,
    heap::END,
    layout::{BYTES, CLEARED, DESCRIPTORS, ENTRY_BYTES, FRESH_ENTRY, UPDATING},
    place_of,
    table::{Node, Times, chain_parts, chain_word},
};
use regatta_metrics::{Counter, Tally};
use regatta_op::Tick;
use regatta_origin::{
    CODINGS, Entry, EntryCost, Queue as _, RELIEF_ENTRIES, Rank, Use, packed_alike,
};
use regatta_sys::{
    Bell, StaticFile,
    hook::{Held, die_locked},
};
use std::{
    hash::BuildHasher,
    sync::atomic::Ordering::{Relaxed, SeqCst},
};

/// An entry that is to be added.
struct Load<'l> {
    hash: u64,
    path: &'l [u8],
    cost: EntryCost,
    kind: u64,
    content: &'l [u8],
    /// Numbers plus one.
    files: [u64; CODINGS],
    /// Time at which it was opened; `None` for the body of an entry that is cached without one.
    opened: Option<Tick>,
}

impl SharedCache<'_> {
    /// Caches the entry of a name; without a time, a body of its file.
    pub(super) fn remember(
        &self,
        path: &[u8],
        entry: &Entry<StaticFile>,
        opened: Option<Tick>,
        tally: &Tally<'_>,
    ) -> Result<(), Died> {
        let cleared = self.layout().header[CLEARED].load(Relaxed);
        if opened.is_some_and(|opened| opened.0 < cleared) {
            return Ok(()); // perhaps found below an old root
        }
        let mut content = self.room.take();
        content.clear();
        let result = match self.load(path, entry, opened, &mut content) {
            Some(load) => {
                if opened.is_none() {
                    let mut known = self.known_room.borrow_mut();
                    known.clear();
                    known.reserve(load.content.len());
                }
                self.take_in(&load, tally)
            }
            None => {
                let older = |known: Times| opened.is_none_or(|opened| known.opened <= opened.0);
                self.remove_if(self.hasher.hash_one(path), path, older, tally);
                Ok(())
            }
        };
        self.room.replace(content);
        result
    }

    /// The entry to add; `None` if it would evict everything else, or is not worth its memory.
    fn load<'l>(
        &self,
        path: &'l [u8],
        entry: &Entry<StaticFile>,
        opened: Option<Tick>,
        content: &'l mut Vec<u8>,
    ) -> Option<Load<'l>> {
        let mut files = [0; CODINGS];
        let kind = match entry {
            Entry::File(file) => {
                for (place, file) in files.iter_mut().zip(file.pack(content)) {
                    if let Some(file) = file {
                        *place = u64::from(file.shared_number()?) + 1;
                    }
                }
                FILE
            }
            Entry::Directory => DIRECTORY,
            Entry::Missing(fault) => MISSING | fault_bits(*fault),
        };
        let cost = EntryCost::from_entry(entry, path.len() + ENTRY_BYTES);
        let (kind, hash) = (kind | cost.rank as u64, self.hasher.hash_one(path));
        let accepted = self.rules.accept(path, cost);
        accepted.then_some(Load { hash, path, cost, kind, content, files, opened })
    }

    fn take_in(&self, load: &Load<'_>, tally: &Tally<'_>) -> Result<(), Died> {
        if self.region.locking == Locking::TwoTier {
            let updated = self.update(load, tally);
            self.settle(tally);
            if updated? {
                return Ok(());
            }
        }
        self.exclusively(tally, |_| self.replace(load, tally));
        Ok(())
    }

    /// Puts an entry in, replacing the one of the same name. Exclusively.
    fn replace(&self, load: &Load<'_>, tally: &Tally<'_>) {
        let layout = self.layout();
        let known = layout.find(load.hash, load.path);
        let times;
        let used;
        if let Some(at) = known {
            let node = layout.node(at);
            let Some(known) = self.times(at, load) else { return };
            if self.is_same(node, load) {
                layout.set_times(at, known);
                return;
            }
            if !self.may_hold(node, load) {
                return;
            }
            times = known;
            used = node.used().word();
            self.take_out(at, &load.files, tally);
        } else {
            let Some(opened) = load.opened.filter(|_| self.owns_all(load)) else { return };
            (times, used) = (Times::since(opened), Use::first(opened));
            tally.add(Counter::CacheFills, 1);
        }
        self.insert(load, times, used, tally);
        self.evict_what_is_over(tally);
    }

    /// Exclusively.
    fn evict_what_is_over(&self, tally: &Tally<'_>) {
        while let Some(rank) = self.layout().totals().find_excess(&self.rules) {
            self.evict(rank, tally);
        }
    }

    /// Updates an entry in place, under its own lock; false if that takes the table's lock.
    fn update(&self, load: &Load<'_>, tally: &Tally<'_>) -> Result<bool, Died> {
        let layout = self.layout();
        let grip = self.table_lock(tally);
        if grip.died {
            self.clear_up(tally);
            return Ok(false);
        }
        let Some(at) = layout.find(load.hash, load.path) else { return Ok(false) };
        let node = layout.node(at);
        let entry_grip = self.entry_lock(node, tally)?;
        let Some(times) = self.times(at, load) else { return Ok(true) };
        if self.is_same(node, load) {
            layout.set_times(at, times);
            return Ok(true);
        }
        if node.rank() != load.cost.rank {
            return Ok(false);
        }
        if !self.may_hold(node, load) {
            return Ok(true);
        }
        // If this process dies before this is lowered again, the entry is half changed.
        layout.header[UPDATING].fetch_add(1, SeqCst);
        node.version().store(0, SeqCst);
        die_locked(Held::Entry);
        let heap_grip = self.heap_lock(tally)?;
        let block = layout.store(load.content);
        die_locked(Held::Heap);
        if let Some(block) = block {
            layout.free(chain_parts(node.content().load(Relaxed)).1);
            node.content().store(chain_word(load.content.len(), block), Relaxed);
        }
        drop(heap_grip);
        if block.is_none() {
            layout.change(at, layout.new_version());
            layout.header[UPDATING].fetch_sub(1, SeqCst);
            return Ok(false);
        }
        self.uncount(node, tally);
        self.give_up_files(node, &load.files);
        die_locked(Held::Entry);
        node.kind().store(load.kind, Relaxed);
        layout.set_times(at, times);
        self.enter(node, load, tally);
        layout.change(at, layout.new_version());
        layout.header[UPDATING].fetch_sub(1, SeqCst);
        drop((entry_grip, grip));
        if layout.totals().find_excess(&self.rules).is_some() {
            self.exclusively(tally, |_| self.evict_what_is_over(tally));
        }
        Ok(true)
    }

    /// The age of the entry after `load` has been put in. `None` if the entry stays as it is: its
    /// file was opened later, or `load` is the body of another file.
    fn times(&self, at: u64, load: &Load<'_>) -> Option<Times> {
        let (node, known) = (self.layout().node(at), self.layout().times(at));
        let Some(opened) = load.opened else {
            let (len, block) = chain_parts(node.content().load(Relaxed));
            let mut content = self.known_room.borrow_mut();
            if len > content.capacity() {
                // It has bodies that `load` has not: they stay. No memory is allocated here.
                return None;
            }
            self.layout().load(block, len, &mut content);
            let alike =
                node.kind().load(Relaxed) & KIND == FILE && packed_alike(&content, load.content);
            return alike.then_some(known);
        };
        (known.opened <= opened.0).then_some(Times::since(opened))
    }

    /// True if an entry equals `load` but for the descriptors: another process was faster, or
    /// nothing has changed.
    fn is_same(&self, node: Node, load: &Load<'_>) -> bool {
        let (len, block) = chain_parts(node.content().load(Relaxed));
        node.kind().load(Relaxed) == load.kind
            && len == load.content.len()
            && self.layout().holds(block, load.content)
    }

    /// True if the files of `load` are lent by this process, or the entry has them already.
    fn may_hold(&self, node: Node, load: &Load<'_>) -> bool {
        load.files.iter().all(|file| {
            *file == 0
                || self.owns(*file)
                || node.files().iter().any(|known| known.load(Relaxed) == *file)
        })
    }

    fn owns_all(&self, load: &Load<'_>) -> bool {
        load.files.iter().all(|file| *file == 0 || self.owns(*file))
    }

    fn owns(&self, file: u64) -> bool {
        u32::try_from(file - 1).is_ok_and(|number| self.member.owns(number))
    }

    /// Stores files, bytes and counts of a new entry.
    fn enter(&self, node: Node, load: &Load<'_>, tally: &Tally<'_>) {
        for (place, file) in node.files().iter().zip(load.files) {
            place.store(file, Relaxed);
            if file != 0 && self.owns(file) {
                self.member.adopt(u32::try_from(file - 1).expect("a descriptor"));
            }
        }
        let EntryCost { bytes, descriptors, .. } = load.cost;
        node.bytes().store(bytes as u64, Relaxed);
        self.layout().header[BYTES].fetch_add(bytes as u64, Relaxed);
        self.layout().header[DESCRIPTORS].fetch_add(descriptors as u64, Relaxed);
        load.cost.enter(tally);
    }

    fn uncount(&self, node: Node, tally: &Tally<'_>) {
        let cost = node.cost();
        self.layout().header[BYTES].fetch_sub(cost.bytes as u64, Relaxed);
        self.layout().header[DESCRIPTORS].fetch_sub(cost.descriptors as u64, Relaxed);
        cost.leave(tally);
    }

    /// Gives up the files of an entry, but for those in `kept`.
    fn give_up_files(&self, node: Node, kept: &[u64; CODINGS]) {
        for file in node.files() {
            let file = file.swap(0, Relaxed);
            if file != 0 && !kept.contains(&file) {
                self.give_up(file);
            }
        }
    }

    /// Exclusively.
    fn insert(&self, load: &Load<'_>, times: Times, used: u64, tally: &Tally<'_>) {
        let layout = self.layout();
        let (name, content) = loop {
            let name = layout.store(load.path);
            match name.and_then(|name| Some((name, layout.store(load.content)?))) {
                Some(stored) => break stored,
                None => {
                    layout.free(name.unwrap_or(END));
                    // Last blocks are not full, so there may be fewer free blocks than free bytes.
                    match layout.totals().first() {
                        Some(rank) => self.evict(rank, tally),
                        None => return self.retire_kept(load),
                    }
                }
            }
        };
        let at = layout.take_entry().expect("as many as the bounds allow, and one");
        let node = layout.node(at);
        node.hash().store(load.hash, Relaxed);
        node.kind().store(load.kind, Relaxed);
        layout.set_times(at, times);
        node.used().0.store(used, Relaxed);
        node.name().store(chain_word(load.path.len(), name), Relaxed);
        node.content().store(chain_word(load.content.len(), content), Relaxed);
        node.files().iter().for_each(|file| file.store(0, Relaxed));
        self.enter(node, load, tally);
        die_locked(Held::Table);
        layout.enqueue(at);
        layout.change(at, layout.new_version());
    }

    /// Gives up what was kept for an entry that is not added after all.
    fn retire_kept(&self, load: &Load<'_>) {
        for file in load.files.into_iter().filter(|file| *file != 0 && !self.owns(*file)) {
            self.give_up(file);
        }
    }

    /// Removes an entry, but for the files in `kept`. Exclusively.
    fn take_out(&self, at: u64, kept: &[u64; CODINGS], tally: &Tally<'_>) {
        let layout = self.layout();
        let node = layout.node(at);
        layout.dequeue(at);
        self.uncount(node, tally);
        die_locked(Held::Table);
        layout.change(at, 0);
        for chain in [node.name(), node.content()] {
            layout.free(chain_parts(chain.load(Relaxed)).1);
        }
        self.give_up_files(node, kept);
    }

    /// Evicts a few entries with descriptors, and asks the other processes to close those.
    #[cold]
    pub(super) fn spare(&self, tally: &Tally<'_>) {
        self.exclusively(tally, |_| {
            let open = self.layout().shelf(Rank::Open).len().load(Relaxed);
            (0..open.min(RELIEF_ENTRIES as u64)).for_each(|_| self.evict(Rank::Open, tally));
        });
        self.bells.iter().for_each(Bell::ring);
    }

    fn evict(&self, rank: Rank, tally: &Tally<'_>) {
        let at = self.layout().shelf(rank).victim();
        self.take_out(
            at.expect("only a queue with entries can be over a bound"),
            &[0; CODINGS],
            tally,
        );
        tally.add(Counter::CacheEvictions, 1);
    }

    /// The next piece of the sweep, by the first process that asks when it is due.
    pub(super) fn sweep_on(&self, now: Tick, tally: &Tally<'_>) -> Option<Tick> {
        let (layout, rules) = (self.layout(), &self.rules);
        let fresh = place_of(layout.header[FRESH_ENTRY].load(Relaxed));
        let is_idle = |place: usize| {
            let node = layout.node(place as u64 + 1);
            let used = node.used().at();
            node.version().load(Relaxed) != 0 && now.since(used) >= rules.inactive_ms
        };
        let found = layout.sweep().piece(fresh, now, rules, is_idle);
        if !found.is_empty() {
            self.exclusively(tally, |_| {
                // It may have been asked for since.
                for place in found.iter().copied().filter(|place| is_idle(*place)) {
                    self.take_out(place as u64 + 1, &[0; CODINGS], tally);
                    tally.add(Counter::CacheInactive, 1);
                }
            });
        }
        layout.totals().first().map(|_| layout.sweep().on())
    }

    /// Removes the entry of a name, if `wanted` is true of its age.
    pub(super) fn remove_if(
        &self,
        hash: u64,
        path: &[u8],
        wanted: impl Fn(Times) -> bool,
        tally: &Tally<'_>,
    ) {
        self.exclusively(tally, |_| {
            let found = self.layout().find(hash, path);
            let unwanted = |at: &u64| wanted(self.layout().times(*at));
            if let Some(at) = found.filter(unwanted) {
                self.take_out(at, &[0; CODINGS], tally);
            }
        });
    }
}
