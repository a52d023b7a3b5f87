//! Tests: schedules of processes that share a cache.
//!
//! In the random ones two to four processes add, replace, remove and send entries, and close
//! descriptors. Some die in the middle of changes. In the others threads play the processes: some
//! wait for a lock when its holder dies.
use super::{
    layout::{HEAP_LOCK, TABLE_LOCK, UPDATING},
    tests::{BOTH, FILES, Folder, Rig, Sender, rules},
    *,
};
use crate::testing::dice::{Dice, SEEDS};
use regatta_sys::hook::Held;
use regatta_testkit::waits::until;
use std::{collections::HashMap, sync::mpsc, thread, time::Duration};

/// Longest wait before the test counts as failed. No result depends on it otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// The file that must be found under each name: the one that was put last.
type Expected = HashMap<u64, u64>;

fn look_up(
    rig: &Rig,
    cache: &SharedCache<'_>,
    side: usize,
    name: u64,
    now: Tick,
    expected: &Expected,
) -> Option<Sender> {
    let found = cache.get(name.to_string().as_bytes(), now, &rig.tally(side));
    let (Lookup::Fresh(Entry::File(file)) | Lookup::Stale(Entry::File(file))) = found else {
        assert!(matches!(found, Lookup::Miss), "{found:?} under a name of files");
        return None;
    };
    let n = expected[&name];
    assert_eq!(file.identity().len(), 1 + 100 * n, "under {name} stands file {n}");
    Some(Sender { file, n })
}

/// A process dies: all that it holds stays as it is.
fn die(rig: &Rig, side: usize, dice: &mut Dice, locking: Locking) {
    let header = rig.region.layout.header;
    let member = rig.members[side];
    match dice.below(3) {
        0 => member.lock(&header[TABLE_LOCK]).leave(),
        1 if locking == Locking::TwoTier => {
            member.lock(&header[HEAP_LOCK]).leave();
            header[UPDATING].store(1, Relaxed);
        }
        _ => {}
    }
    rig.crew.mark_dead(side);
}

fn schedule(seed: u64, folder: &Arc<Folder>, hits: &mut u64) {
    let mut dice = Dice::new(seed);
    let locking = BOTH[dice.below(2)];
    let (entries_max, descriptors_max) = (3 + dice.below(8), 2 + dice.below(8));
    let processes = 2 + dice.below(3);
    let rig = Rig::with_workers(
        processes,
        Arc::clone(folder),
        locking,
        rules(entries_max, descriptors_max),
    );
    let mut sides: Vec<_> = (0..processes).map(|side| Some(rig.side(side))).collect();
    let mut senders: Vec<Vec<Sender>> = sides.iter().map(|_| Vec::new()).collect();
    let (mut expected, mut now) = (Expected::new(), 1);
    for _ in 0..150 {
        now += dice.below(400) as u64;
        let side = dice.below(processes);
        let name = dice.below(8) as u64;
        let Some(cache) = &sides[side] else { continue };
        match dice.below(12) {
            0 => cache.remove(name.to_string().as_bytes(), &rig.tally(side)),
            1 => cache.follow(&rig.tally(side)),
            2 if dice.once_in(4) => drop(cache.relieve(&rig.tally(side))),
            3 if dice.once_in(2) => {
                let _ = cache.sweep(Tick(now), &rig.tally(side));
            }
            3 | 4 => drop(dice.take(&mut senders[side])),
            5 if dice.once_in(8) && sides.iter().flatten().count() > 1 => {
                die(&rig, side, &mut dice, locking);
                std::mem::forget((sides[side].take(), std::mem::take(&mut senders[side])));
            }
            6 => {
                let n = dice.below(usize::try_from(FILES).unwrap()) as u64;
                let entry = rig.entry(rig.members[side], n);
                cache.put(name.to_string().as_bytes(), &entry, Tick(now), &rig.tally(side));
                expected.insert(name, n);
            }
            _ => match look_up(&rig, cache, side, name, Tick(now), &expected) {
                Some(sender) => {
                    *hits += 1;
                    senders[side].push(sender);
                }
                None => {
                    let entry = rig.entry(rig.members[side], name);
                    cache.put(name.to_string().as_bytes(), &entry, Tick(now), &rig.tally(side));
                    expected.insert(name, name);
                }
            },
        }
        senders.iter().flatten().for_each(Sender::check);
        if dice.once_in(10) {
            let (cached, _) = rig.crew.files();
            assert!(cached <= descriptors_max, "seed {seed}: {cached} descriptors");
        }
    }
    let alive = sides.iter().all(Option::is_some);
    drop(senders);
    for (side, cache) in sides.iter().enumerate() {
        cache.iter().for_each(|cache| cache.follow(&rig.tally(side)));
    }
    let entries = sides.iter().flatten().map(SharedCache::entries).max();
    assert!(entries.is_some_and(|entries| entries <= entries_max as u64), "seed {seed}");
    if alive {
        assert_eq!(rig.crew.files().1, 0, "seed {seed}: given up, used by nobody, and open");
    }
}

#[test]
fn what_is_sent_stays_open_whoever_forgets_it_or_dies() {
    let (folder, mut hits) = (Folder::new(), 0);
    (0..SEEDS).for_each(|seed| schedule(seed, &folder, &mut hits));
    assert!(hits > 5000, "{hits} hits");
}

/// Runs processes. The first dies with the lock `held`; each other waits for it within a call.
fn waiters_outlive_the_holder(processes: usize, locking: Locking, held: Held) {
    let rig = Arc::new(Rig::with_workers(processes, Folder::new(), locking, rules(8, 8)));
    let holder = rig.members[0];
    // The others change an entry each, or unpack the one whose lock is held.
    let name_of = |side: usize| if held == Held::Entry { 0 } else { side as u64 };
    (0..4).for_each(|name| assert!(!rig.ask(&rig.side(0), 0, name)));
    let header = rig.region.layout.header;
    match held {
        Held::Table => holder.lock(&header[TABLE_LOCK]).leave(),
        Held::Entry => {
            holder.read(&header[TABLE_LOCK]).leave();
            (1..=4).for_each(|at| holder.lock(rig.region.layout.node(at).lock()).leave());
        }
        Held::Heap => {
            holder.read(&header[TABLE_LOCK]).leave();
            holder.lock(&header[HEAP_LOCK]).leave();
            header[UPDATING].fetch_add(1, Relaxed);
        }
    }
    let (answered, answers) = mpsc::channel();
    // Not scoped: one that never returns must not keep the test from failing.
    for side in 1..processes {
        let (rig, answered, name) = (Arc::clone(&rig), answered.clone(), name_of(side));
        thread::spawn(move || {
            let (cache, path) = (rig.side(side), name.to_string());
            if held == Held::Heap {
                let entry = rig.entry(rig.members[side], 10 + name);
                cache.put(path.as_bytes(), &entry, Tick(1), &rig.tally(side));
            } else {
                rig.ask(&cache, side, name);
            }
            answered.send(side).expect("the test waits");
        });
    }
    // A lock of an entry or of the heap is waited for by readers of the table.
    let inner = held != Held::Table;
    until(PATIENCE, &format!("{processes} {locking:?} {held:?}: all wait"), || {
        !inner || (1..processes).all(|side| rig.crew.reads(side))
    });
    rig.crew.mark_dead(0);
    for _ in 1..processes {
        let answer = answers.recv_timeout(PATIENCE);
        assert!(answer.is_ok(), "{processes} {locking:?} {held:?}: {answer:?}");
    }
    assert_eq!(rig.total(Counter::CacheRepairs), 1, "{processes} {locking:?} {held:?}");
    let cache = rig.side(1);
    assert!(rig.ask(&cache, 1, 7) || rig.ask(&cache, 1, 7));
}

/// With two that survive, the one that took the lock over waited for the other, which was a reader
/// of the table and waited for that lock.
#[test]
fn all_that_wait_for_a_lock_outlive_its_holder() {
    for processes in [2, 3, 4] {
        for locking in BOTH {
            waiters_outlive_the_holder(processes, locking, Held::Table);
        }
        for held in [Held::Entry, Held::Heap] {
            waiters_outlive_the_holder(processes, Locking::TwoTier, held);
        }
    }
}
