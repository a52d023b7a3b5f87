//! Promises of stations: each item goes to one queue, and none is lost when the line is closed.
use super::stations::{Barrier, Line, Spread, StageEntry, Station, Travels};
use crate::{
    loops::queue::{Fifo, Returns},
    testing::dice::{Dice, SEEDS},
};
use regatta_metrics::{Arena, Counter, Gauge, Tally};
use regatta_testkit::counters::arena;
use std::{collections::VecDeque, thread, time::Duration};

/// Queues of the second station, and parts.
const PARTS: usize = 3;
const SPREADS: [Spread; 3] = [Spread::Part, Spread::Turns, Spread::Equal];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item(usize);

impl Travels for Item {
    fn part(&self) -> usize {
        self.0 % PARTS
    }
}

/// A station of a poller and one of threads; two acceptors.
fn line(arena: Arena<'_>, spread: Spread) -> Line<'_, Item> {
    let tally = Tally::Striped(arena.slot(0));
    let queues = (0..PARTS).map(|_| Fifo::new(1000)).collect();
    let merged = StageEntry::Merged(Returns::new().unwrap());
    let stations = vec![
        Station { name: "merged", entry: merged, tally },
        Station { name: "queued", entry: StageEntry::Queued(queues, spread), tally },
    ];
    Line::new(stations, 2).unwrap()
}

#[test]
fn each_goes_to_one_queue_in_its_order() {
    let arena = arena(1);
    let tally = Tally::Striped(arena.slot(0));
    for spread in SPREADS {
        let line = line(arena, spread);
        let mut all = 0;
        for batch in 0..10 {
            let mut items: VecDeque<Item> = (0..9 + batch).map(|n| Item(batch * 100 + n)).collect();
            all += items.len();
            line.put_all(1, &mut items);
            assert!(items.is_empty());
        }
        assert_eq!(line.len(1), all);
        let StageEntry::Queued(queues, _) = &line.station(1).entry else { panic!("it has queues") };
        let mut found = 0;
        for (at, queue) in queues.iter().enumerate() {
            let items: Vec<Item> = std::iter::from_fn(|| queue.try_take(tally)).collect();
            assert!(items.is_sorted(), "{spread:?}: {items:?}");
            match spread {
                Spread::Part => assert!(items.iter().all(|item| item.part() == at)),
                Spread::Turns | Spread::Equal => {
                    let share = all / PARTS;
                    assert!(items.len().abs_diff(share) <= 10, "{spread:?}: {}", items.len());
                }
            }
            found += items.len();
        }
        assert_eq!(found, all, "{spread:?}");
    }
    assert_eq!(arena.slot(0).gauge(Gauge::QueueItems), 0);
}

#[test]
fn none_is_lost_when_the_line_is_closed() {
    let (mut taken, mut left) = (0, 0);
    for seed in 0..SEEDS {
        let arena = arena(1);
        let tally = Tally::Striped(arena.slot(0));
        let mut dice = Dice::new(seed);
        let line = line(arena, SPREADS[dice.below(SPREADS.len())]);
        let (mut put, mut ended, closes) = (0, Vec::new(), dice.below(60));
        for step in 0..60 {
            if step == closes {
                line.close();
            }
            let mut items: VecDeque<Item> = (put..put + dice.below(5)).map(Item).collect();
            put += items.len();
            line.put_all(dice.below(2), &mut items);
            assert!(items.is_empty(), "there is room for all, or it is kept");
            match &line.station(dice.below(2)).entry {
                StageEntry::Merged(returns) => ended.extend(returns.next()),
                StageEntry::Queued(queues, _) => {
                    ended.extend(queues[dice.below(PARTS)].try_take(tally));
                }
            }
        }
        taken += ended.len();
        let rest = line.rest();
        left += rest.len();
        ended.extend(rest);
        ended.sort_unstable();
        assert!(ended.into_iter().eq((0..put).map(Item)), "seed {seed}: each once");
        assert_eq!(line.len(0) + line.len(1), 0);
        assert!(line.rest().is_empty());
    }
    assert!(taken > 1000 && left > 1000, "{taken} {left}");
}

#[test]
fn the_last_who_accepts_closes_the_line() {
    let arena = arena(1);
    let line = line(arena, Spread::Part);
    line.ended(1);
    assert_eq!([line.home(0).len(), line.home(1).len()], [0, 1]);
    line.leaves();
    assert!(!line.is_closed());
    line.leaves();
    assert!(line.is_closed());
    // An acceptor that is about to wait is to check first.
    assert!(!line.home(0).rests() && line.home(0).rests());
}

#[test]
fn who_takes_turns_waits_for_all_of_a_batch() {
    let barrier = Barrier::default();
    assert!(barrier.wait(Duration::ZERO), "there is no batch");
    barrier.begin(3);
    assert!(!barrier.wait(Duration::ZERO));
    thread::scope(|scope| {
        scope.spawn(|| (0..3).for_each(|_| barrier.done(1)));
        while !barrier.wait(Duration::from_secs(60)) {}
    });
    assert!(barrier.wait(Duration::ZERO));
}

/// Puts and takes are counted where they are done.
#[test]
fn what_waits_for_a_poller_is_counted() {
    let arena = arena(1);
    let line = line(arena, Spread::Part);
    line.put_all(0, &mut (0..5).map(Item).collect());
    let slot = arena.slot(0);
    assert_eq!((slot.get(Counter::QueuePuts), slot.get(Counter::QueueLenMax)), (5, 5));
    assert_eq!((line.len(0), slot.gauge(Gauge::QueueItems)), (5, 5));
}
