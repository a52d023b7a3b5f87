//! Schedules of the loop with this disk, and its probes, opens and refusals.
use super::*;
use crate::{
    disk::{
        at_once::schedule::{CHUNK, Folder, Sums, run},
        helpers::schedule::RandomHelpers,
    },
    loops::event_loop::schedule::{
        Case, LOOP_SEEDS, Setting, check, check_frames, check_http2, check_sealed, run_all,
    },
    testing::dice::SEEDS,
};
use regatta_op::{Codings, DISK_OPS_MAX, Segment};
use regatta_origin::NoLog;
use regatta_sys::{OpenRules, Root, hook};
use regatta_testkit::counters::arena;

/// Controllers decide all the time: helpers come and go during a schedule.
const BOUNDS: HelperRules =
    HelperRules { helpers_min: 1, helpers_max: 4, period_ms: 0, wait_us_max: 10 };
const RULES: AutoRules = AutoRules {
    probe_ns: 1_000_000_000,
    chunk_bytes: CHUNK,
    send_bytes_max: 3 * CHUNK,
    queue_max: 1000,
    stall_ns: u64::MAX,
};

/// A disk with helpers that `make` makes.
fn disk<'a, C: HelperPool>(
    root: &'a Root,
    make: impl Fn() -> C + 'a,
    rules: AutoRules,
    tally: Tally<'a>,
) -> AutoDisk<'a, C> {
    let below = Below { root, rules: OpenRules::default() };
    let control = MountControl { rules: BOUNDS, mode: ControlMode::Acts, log: &NoLog };
    let mounts = Mounts::new(Box::new(move || Ok(make())), below, control, tally).unwrap();
    AutoDisk::new(mounts, below, rules, tally)
}

fn threads<'a>(root: &'a Root) -> impl Fn() -> HelperThreads<'a> {
    move || HelperThreads::noting(root, OpenRules::default()).unwrap()
}

fn random(seed: u64, root: &Root) -> RandomHelpers<'_> {
    let pool = RandomHelpers::new(seed, Some((root, OpenRules::default())));
    if seed.is_multiple_of(4) { pool.local() } else { pool }
}

fn outbox(file: &StaticFile, at: u64, len: u64) -> Outbox<StaticFile> {
    let mut outbox = Outbox::default();
    outbox.push(Segment::File { file: file.clone(), at, len });
    outbox
}

#[test]
fn every_operation_ends_once_whoever_leaves_or_dies() {
    let (folder, mut sums) = (Folder::new(), Sums::default());
    let root = &folder.root;
    for seed in 0..SEEDS {
        let arena = arena(1);
        let tally = Tally::Owned(arena.slot(0));
        let rules = AutoRules { probe_ns: seed % 3 * 1_000_000, ..RULES };
        if seed.is_multiple_of(8) {
            let mut disk = disk(root, threads(root), rules, tally);
            run(&mut disk, seed, &folder, &mut sums, |_, _, _| ());
            continue;
        }
        let mut disk = disk(root, move || random(seed, root), rules, tally);
        run(&mut disk, seed, &folder, &mut sums, |disk, dice, over| {
            disk.mounts.stir(dice, over);
        });
    }
    assert!(sums.at_once > 1000 && sums.later > 100 && sums.given_up > 10, "{sums:?}");
    assert_eq!(sums.wishes_max, DISK_OPS_MAX, "{sums:?}");
}

/// Helpers reply in any order, fail to start, and die.
#[test]
fn a_loop_with_helpers_by_mount_forgets_none() {
    fn make<'a>(setting: &Setting<'a>) -> Box<dyn Disk + 'a> {
        let &Setting { seed, root, tally, .. } = setting;
        Box::new(disk(root, move || random(seed, root).unpaced(), RULES, tally))
    }
    let test = "a_loop_with_helpers_by_mount_forgets_none";
    check(&run_all(Case::one(test), &make), 3);
    check_frames(&run_all(Case::frames(test), &make), 3);
    check_http2(&run_all(Case::http2(test), &make), 3);
    check_sealed(&run_all(Case { sealed: true, ..Case::one(test) }, &make), 2);
}

/// Helpers that never reply: every connection ends, and its slot is freed.
#[test]
fn a_mount_that_never_answers_keeps_no_slot() {
    fn make<'a>(setting: &Setting<'a>) -> Box<dyn Disk + 'a> {
        let &Setting { seed, root, tally, .. } = setting;
        let make = move || {
            RandomHelpers::new(seed, Some((root, OpenRules::default()))).unpaced().hanging()
        };
        Box::new(disk(root, make, RULES, tally))
    }
    let test = "a_mount_that_never_answers_keeps_no_slot";
    let sums = run_all(Case { hangs: true, ..Case::one(test) }, &make);
    assert!(sums.schedules < LOOP_SEEDS || sums.given_up > 0, "{sums:?}");
}

/// A helper opens the first file of a file system. Then the loop opens what memory knows.
#[test]
fn opens_are_inline_once_the_file_system_is_known() {
    let (folder, arena) = (Folder::new(), arena(1));
    let (root, tally) = (&folder.root, Tally::Owned(arena.slot(0)));
    let mut disk = disk(root, threads(root), RULES, tally);
    let mut open = |key| {
        let req = OpenReq { path: (*b"1").into(), siblings: Codings::NONE };
        disk.open(key, Ticket(0), req).or_else(|| {
            for _ in 0..1000 {
                if let Some(completion) = disk.next_completion() {
                    return completion.result.opened();
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            None
        })
    };
    let regatta_op::Opened::File { file, .. } = open(1).unwrap().unwrap() else { panic!("a file") };
    assert_eq!(tally.slot().get(Counter::LaioDeferred), 1, "nothing is known of the mount");
    let inline = u64::from(file.file_system().unwrap().opens_in_memory);
    assert!(open(2).is_some_and(|found| found.is_ok()));
    let counted = [Counter::LaioInline, Counter::LaioDeferred].map(|it| tally.slot().get(it));
    assert_eq!(counted, [inline, 2 - inline]);
}

/// Within `auto.probe_ms` a file is sent with the calls of `sped`: as much at once, and no probe.
#[test]
fn a_file_is_probed_once_in_its_time() {
    let (folder, arena) = (Folder::new(), arena(1));
    let (root, tally) = (&folder.root, Tally::Owned(arena.slot(0)));
    let (file, len) = folder.longest();
    if by_nowait(&file, 0, len) != Resident::Yes {
        return regatta_testkit::skips::skip("needs a file system that reads without blocking");
    }
    let mut disk = disk(root, threads(root), RULES, tally);
    let checks = || tally.slot().get(Counter::ResidencyChecks);
    let most = RULES.send_bytes_max;
    for (now, at, expect, probes) in [
        (1_000, 0, most, 3),
        (2_000, 0, most, 3),
        (3_000, most - 7, len - most + 7, 4),
        (4_000, most - 7, len - most + 7, 4),
        (1_000 + RULES.probe_ns, 0, most, 7),
    ] {
        hook::set_time(now, 0);
        let ready = disk.prefetch(1, &outbox(&file, at, len - at)).unwrap();
        assert!(ready >= expect.min(len - at), "{ready} of {expect} from {at} at {now}");
        assert_eq!(checks(), probes, "from {at} at {now}");
    }
    // A send that stalls shows that memory is short.
    let mut stalls = AutoDisk { rules: AutoRules { stall_ns: 10, ..RULES }, ..disk };
    assert!(stalls.prefetch(1, &outbox(&file, 0, 10)).is_some());
    stalls.sent(10);
    assert!(stalls.prefetch(1, &outbox(&file, 0, len)).is_some());
    hook::clear();
    assert_eq!((tally.slot().get(Counter::ResidencyFalse), checks()), (1, 10));
}

/// More tasks than may wait for a mount: the next request is answered at once.
#[test]
fn a_full_queue_refuses_opens() {
    let (folder, arena) = (Folder::new(), arena(1));
    let (root, tally) = (&folder.root, Tally::Owned(arena.slot(0)));
    let make = || RandomHelpers::new(1, Some((root, OpenRules::default())));
    let mut disk = disk(root, make, AutoRules { queue_max: 2, ..RULES }, tally);
    let req = OpenReq { path: (*b"1").into(), siblings: Codings::NONE };
    let (mut waiting, mut refused) = (0, 0);
    for key in 0..40 {
        match disk.open(key, Ticket(0), req.clone()) {
            None => waiting += 1,
            Some(Err(OpenFault::Busy)) => refused += 1,
            Some(found) => assert!(found.is_ok(), "no helper could be started: {found:?}"),
        }
    }
    assert!(waiting <= BOUNDS.helpers_max + 2 && refused > 30, "{waiting} {refused}");
    assert_eq!(tally.slot().get(Counter::HelperTasksRefused), refused);
}

#[test]
fn the_most_helpers_bound_the_least_and_freezing_wins() {
    let settings = |sets: &[(&str, &str)]| {
        let mut settings = Settings::defaults(OWN);
        for (key, text) in sets {
            let spec = OWN.iter().find(|spec| spec.key == *key).unwrap();
            settings.set(spec, spec.kind.parse(text).unwrap()).unwrap();
        }
        AutoOptions::read(&settings)
    };
    let few = settings(&[("auto.helpers_max", "2"), ("auto.dry_run", "true")]);
    assert_eq!((few.bounds().helpers_min, few.bounds().helpers_max), (2, 2));
    assert_eq!(few.mode(), ControlMode::DryRun);
    let both = settings(&[("auto.freeze", "true"), ("auto.dry_run", "true")]);
    assert_eq!(both.mode(), ControlMode::Frozen);
    assert_eq!(settings(&[]).mode(), ControlMode::Acts);
}
