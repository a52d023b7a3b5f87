//! A seed is the same each time: its outcome, and its film by the clock that is made up.
use super::*;
use regatta_metrics::{FilmEvent, FilmRecord};
use std::collections::BTreeMap;

/// Records of a seed, with connections by their order: another test may take descriptors.
fn records(case: Case, seed: u64, folder: &Folder) -> Vec<FilmRecord> {
    let mut records = tape::of(|| {
        schedule(case, seed, folder, None, &own_disk, Sums::default());
    });
    let (mut numbers, mut last) = (BTreeMap::new(), 0);
    for record in &mut records {
        let descriptor = record.subject.connection;
        if record.event == FilmEvent::Accepted || !numbers.contains_key(&descriptor) {
            last += 1;
            numbers.insert(descriptor, last);
        }
        record.subject.connection = numbers[&descriptor];
    }
    records
}

/// A film of a seed is the same each time, to the nanosecond of its clock.
#[test]
fn a_film_of_a_seed_replays() {
    let folder = Folder::new();
    let test = "a_film_of_a_seed_replays";
    let fibers = Case { fibers: true, ..Case::one(test) };
    let line = Case { line: Some(SHAPES[0]), ..Case::one(test) };
    for case in [Case::one(test), fibers, line] {
        let mut closed = 0;
        for seed in 0..8 {
            let same = (0..5).any(|_| {
                let [first, second] = [(); 2].map(|()| records(case, seed, &folder));
                closed += first.iter().filter(|it| it.event == FilmEvent::Closed).count();
                first == second
            });
            assert!(same, "{case:?}, seed {seed}");
        }
        assert!(closed > 8, "{case:?}: {closed} connections end in its films");
    }
}

/// A seed has one outcome, with one loop and with several.
#[test]
fn a_seed_replays() {
    let folder = Folder::new();
    for (loops, seeds) in [(1, 0..8), (2, 0..8)] {
        let case = Case { loops, ..Case::one("a_seed_replays") };
        for seed in seeds {
            let twice = || {
                [(); 2].map(|()| schedule(case, seed, &folder, None, &own_disk, Sums::default()))
            };
            // Another test that looks through the descriptors of this process may hold a socket
            // open that has just been closed, so that its peer finds out a moment later.
            let same = (0..5).any(|_| {
                let [first, second] = twice();
                first == second
            });
            assert!(same, "{loops} loops, seed {seed}");
        }
    }
}
