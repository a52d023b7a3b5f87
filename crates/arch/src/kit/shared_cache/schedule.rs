//! Random schedules of two processes that share a cache: they add, replace, remove and send
//! entries, close descriptors, and one of them dies in the middle of a change.
use super::{
    layout::{HEAP_LOCK, TABLE_LOCK, UPDATING},
    tests::{BOTH, FILES, Folder, Rig, Sender, rules},
    *,
};
use crate::kit::dice::{Dice, SEEDS};
use std::collections::HashMap;

/// The file that must be found under each name: the one that was put last.
type Expected = HashMap<u64, u64>;

fn look(
    rig: &Rig,
    cache: &SharedCache<'_>,
    side: usize,
    (name, now): (u64, Tick),
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
    let rig = Rig::over(Arc::clone(folder), locking, rules(entries_max, descriptors_max));
    let mut sides = rig.sides().map(Some);
    let mut senders: [Vec<Sender>; 2] = Default::default();
    let (mut expected, mut now) = (Expected::new(), 1);
    for _ in 0..150 {
        now += dice.below(400) as u64;
        let side = dice.below(2);
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
            5 if dice.once_in(8) && sides.iter().all(Option::is_some) => {
                die(&rig, side, &mut dice, locking);
                std::mem::forget((sides[side].take(), std::mem::take(&mut senders[side])));
            }
            6 => {
                let n = dice.below(usize::try_from(FILES).unwrap()) as u64;
                let entry = rig.entry(rig.members[side], n);
                cache.put(name.to_string().as_bytes(), &entry, Tick(now), &rig.tally(side));
                expected.insert(name, n);
            }
            _ => match look(&rig, cache, side, (name, Tick(now)), &expected) {
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
