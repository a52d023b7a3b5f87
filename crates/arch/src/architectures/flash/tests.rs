//! Flash's disk with random helpers, alone and below a loop, and the operations that share a task.
use super::*;
use crate::{
    disk::{
        at_once::schedule::{CHUNK, Folder, Sums, run},
        helper_threads::HelperThreads,
        helpers::schedule::RandomHelpers,
    },
    loops::event_loop::schedule::{
        Case, Setting, check, check_classes, check_frames, check_sealed, run_all,
    },
    testing::dice::{Dice, SEEDS},
};
use regatta_metrics::Slot;
use regatta_op::{Opened, Segment};
use regatta_sys::{OpenRules, Root, open_below};
use regatta_testkit::counters::arena;

/// Options, some of them chosen by the seed.
fn options(seed: u64) -> FlashOptions {
    FlashOptions {
        name_helpers_max: 2,
        read_helpers_max: 3,
        start_delay_ms: 50 * (seed % 3),
        helper_idle_ms: 1_000,
        coalesce: !seed.is_multiple_of(5),
        residency: [Residency::Mincore, Residency::Mapped][usize::from(seed % 2 == 1)],
        map_bytes_max: 3 * CHUNK,
        chunk_bytes: CHUNK,
    }
}

fn disk<'a, C: HelperPool>(
    root: &'a Root,
    pools: [C; 2],
    options: &FlashOptions,
    tally: Tally<'a>,
) -> FlashDisk<'a, C> {
    let below = Below { root, rules: OpenRules::default() };
    FlashDisk::new(pools, options, u64::MAX, below, tally).unwrap()
}

/// Helpers of each kind that do what the dice say.
fn random<'a>(seed: u64, root: &'a Root) -> [RandomHelpers<'a>; 2] {
    [seed, !seed].map(|seed| RandomHelpers::new(seed, Some((root, OpenRules::default()))))
}

#[test]
fn every_operation_ends_once_whoever_leaves_or_dies() {
    let (folder, mut sums, mut coalesced) = (Folder::new(), Sums::default(), 0);
    for seed in 0..SEEDS {
        let arena = arena(1);
        let tally = Tally::Owned(arena.slot(0));
        let (root, options) = (&folder.root, options(seed));
        if seed % 8 < 2 {
            let pool = || HelperThreads::new(root, OpenRules::default()).unwrap();
            let mut disk = disk(root, [pool(), pool()], &options, tally);
            run(&mut disk, seed, &folder, &mut sums, |_, _, _| ());
            check_empty(&disk);
            continue;
        }
        let mut disk = disk(root, random(seed, root), &options, tally);
        run(&mut disk, seed, &folder, &mut sums, |disk, dice, over| {
            disk.groups.iter_mut().for_each(|group| group.helpers.stir(dice, over));
        });
        check_empty(&disk);
        let joined = arena.slot(0).get(Counter::FlashCoalesced);
        assert!(options.coalesce || joined == 0, "seed {seed}: {joined} have joined");
        coalesced += joined;
    }
    assert!(sums.at_once > 100 && sums.later > 1000 && sums.left > 300, "{sums:?}");
    assert!(sums.given_up > 100 && coalesced > 100, "{sums:?}, {coalesced}");
}

/// Checks that nothing is kept when no operation waits.
fn check_empty<C>(disk: &FlashDisk<'_, C>) {
    assert!(disk.waiting.is_empty() && disk.waiters.is_empty() && disk.done.is_empty());
    let idle = |group: &Group<'_, C>| group.tasks.is_empty() && group.numbers.is_empty();
    assert!(disk.groups.iter().all(idle));
}

/// Helpers reply in any order, fail to start, and die.
#[test]
fn a_loop_of_flash_forgets_none() {
    fn make<'a>(setting: &Setting<'a>) -> Box<dyn Disk + 'a> {
        let &Setting { seed, root, tally, .. } = setting;
        let pools = random(seed, root).map(RandomHelpers::unpaced);
        Box::new(disk(root, pools, &options(seed), tally))
    }
    let test = "a_loop_of_flash_forgets_none";
    check(&run_all(Case::one(test), &make), 3);
    check_frames(&run_all(Case::frames(test), &make), 3);
    check_sealed(&run_all(Case { sealed: true, ..Case::one(test) }, &make), 2);
    check_classes(&run_all(Case::classes(test), &make));
}

/// Helpers that never reply: every connection ends, and its slot is freed.
#[test]
fn a_disk_that_never_answers_keeps_no_slot() {
    fn make<'a>(setting: &Setting<'a>) -> Box<dyn Disk + 'a> {
        let &Setting { seed, root, tally, .. } = setting;
        let pools = random(seed, root).map(|pool| pool.unpaced().hanging());
        Box::new(disk(root, pools, &options(seed), tally))
    }
    let test = "a_disk_that_never_answers_keeps_no_slot";
    let sums = run_all(Case { hangs: true, ..Case::one(test) }, &make);
    assert!(sums.schedules < SEEDS || sums.given_up > SEEDS / 4, "{sums:?}");
}

/// Tests a disk whose helpers do nothing until [`answered`].
fn with(options: FlashOptions, test: impl FnOnce(FlashDisk<'_, RandomHelpers<'_>>, Slot<'_>)) {
    let folder = Folder::new();
    let arena = arena(1);
    let (slot, root) = (arena.slot(0), &folder.root);
    let mut pools = random(1, root);
    pools.iter_mut().for_each(|pool| pool.failing = false);
    test(disk(root, pools, &options, Tally::Owned(slot)), slot);
}

fn name(of: &str) -> OpenReq {
    OpenReq { path: of.as_bytes().into(), siblings: Codings::NONE }
}

/// A file of a folder, to be sent from some byte on.
fn outbox(root: &Root, of: &str, at: u64) -> Outbox<StaticFile> {
    let found = open_below(root, &name(of), OpenRules::default());
    let Ok(Opened::File { file, .. }) = found else { panic!("{of} is there") };
    let (mut outbox, len) = (Outbox::default(), file.len() - at);
    outbox.push(Segment::File { file, at, len });
    outbox
}

/// Completes every task, and returns the keys of the operations that waited, sorted.
fn answered(disk: &mut FlashDisk<'_, RandomHelpers<'_>>) -> Vec<u64> {
    let mut dice = Dice::new(0);
    disk.groups.iter_mut().for_each(|group| group.helpers.stir(&mut dice, true));
    let mut keys: Vec<_> = std::iter::from_fn(|| disk.next_completion()).map(|it| it.key).collect();
    keys.sort_unstable();
    keys
}

/// An operation waits for a task that has been submitted for another one with the same target.
#[test]
fn operations_with_one_target_share_a_task() {
    with(FlashOptions { coalesce: true, ..options(0) }, |mut disk, slot| {
        let get = |counter| slot.get(counter);
        for key in 0..3 {
            assert!(disk.open(key, Ticket(0), name("1")).is_none());
        }
        assert!(disk.open(3, Ticket(0), name("2")).is_none());
        assert_eq!((get(Counter::HelperTasksOpen), get(Counter::FlashCoalesced)), (2, 2));
        // The first operation is forgotten, and the others stay.
        disk.forget(0, Abandoned::All);
        assert_eq!(answered(&mut disk), [1, 2, 3]);
        // Two places of one chunk, and another chunk.
        for (key, at) in [(4, 0), (5, 100), (6, CHUNK)] {
            let outbox = outbox(disk.below.root, "7", at);
            assert_eq!(disk.prefetch(key, &outbox), None);
        }
        assert_eq!((get(Counter::HelperTasksPrefetch), get(Counter::FlashCoalesced)), (2, 3));
        disk.forget(4, Abandoned::All);
        disk.forget(5, Abandoned::All);
        assert_eq!(answered(&mut disk), [6]);
        check_empty(&disk);
    });
}

/// A queued task without waiting operations is not begun; the next operation has its own.
#[test]
fn a_task_is_given_up_with_its_last_operation() {
    let one = FlashOptions { name_helpers_max: 1, coalesce: true, ..options(0) };
    with(one, |mut disk, slot| {
        for (key, of) in [(0, "1"), (1, "2"), (2, "2")] {
            assert!(disk.open(key, Ticket(0), name(of)).is_none());
        }
        disk.forget(1, Abandoned::One(Ticket(0)));
        disk.forget(2, Abandoned::All);
        assert!(disk.open(3, Ticket(0), name("2")).is_none());
        assert_eq!(slot.get(Counter::FlashCoalesced), 1, "the first task is gone");
        assert_eq!(answered(&mut disk), [0, 3]);
        assert_eq!(slot.get(Counter::HelperCompletions), 2, "and was never begun");
    });
}
