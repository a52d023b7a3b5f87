//! Random schedules of a queue, compared with a list; and threads that use one at once.
use super::*;
use crate::kit::dice::{Dice, SEEDS};
use regatta_metrics::Arena;
use std::{sync::atomic::AtomicU64, thread, time::Instant};

fn words() -> Vec<AtomicU64> {
    (0..Arena::words(1)).map(|_| AtomicU64::new(0)).collect()
}

#[test]
fn a_queue_is_a_list_with_an_end() {
    let (mut taken, mut refused, mut left) = (0, 0, 0);
    for seed in 0..SEEDS {
        let words = words();
        let arena = Arena::create(&words, 1);
        let (tally, mut dice) = (Tally::Owned(arena.slot(0)), Dice::new(seed));
        let most = 1 + dice.below(8);
        let (queue, mut list, mut closed) = (Queue::new(most), VecDeque::new(), false);
        let (mut puts, mut sum, mut refusals) = (0, 0, 0);
        for item in 0..200 {
            match dice.below(7) {
                0..3 => match queue.put(item, tally) {
                    Ok(()) => {
                        assert!(!closed && list.len() < most);
                        (puts, sum) = (puts + 1, sum + list.len() as u64);
                        list.push_back(item);
                    }
                    Err(same) => {
                        assert!(same == item && (closed || list.len() == most));
                        refusals += 1;
                    }
                },
                3 if dice.once_in(60) => {
                    left += list.len();
                    assert!(queue.close().into_iter().eq(list.drain(..)));
                    closed = true;
                }
                3 => assert_eq!(queue.take(Duration::ZERO, tally), list.pop_front()),
                _ => {
                    taken += u64::from(!list.is_empty());
                    assert_eq!(queue.try_take(tally), list.pop_front());
                }
            }
            assert_eq!((queue.len(), queue.is_closed()), (list.len(), closed));
            assert_eq!(queue.is_empty(), list.is_empty());
        }
        let slot = arena.slot(0);
        let counters = [Counter::QueuePuts, Counter::QueueLenSum, Counter::QueueRefused];
        assert_eq!(counters.map(|counter| slot.get(counter)), [puts, sum, refusals]);
        assert!(slot.get(Counter::QueueLenMax) <= most as u64);
        refused += refusals;
    }
    assert!(taken > 10_000 && refused > 1000 && left > 100, "{taken} {refused} {left}");
}

/// Threads that wait for good are woken for each item, and each item is taken once.
#[test]
fn no_item_is_lost_among_threads() {
    const ITEMS: u64 = 2000;
    const TAKERS: usize = 4;
    const PATIENCE: Duration = Duration::from_secs(60);
    let words = words();
    let arena = Arena::create(&words, 1);
    let tally = Tally::Striped(arena.slot(0));
    for most in [1, 3, 5000] {
        let queue = Queue::new(most);
        let sums: u64 = thread::scope(|scope| {
            let take = || {
                let (mut sum, mut before) = ([0; 2], [0; 2]);
                loop {
                    let waits = Instant::now();
                    let Some((by, item)) = queue.take(PATIENCE, tally) else {
                        assert!(waits.elapsed() < PATIENCE, "nobody has said that it is over");
                        return sum.into_iter().sum::<u64>();
                    };
                    assert!(before[by] < item, "what one has put is taken in its order");
                    (before[by], sum[by]) = (item, sum[by] + item);
                }
            };
            let takers: Vec<_> = (0..TAKERS).map(|_| scope.spawn(take)).collect();
            let put = |by| {
                for item in 1..=ITEMS {
                    let mut item = (by, item);
                    while let Err(same) = queue.put(item, tally) {
                        item = same;
                        thread::yield_now();
                    }
                }
            };
            thread::scope(|scope| (0..2).for_each(|by| drop(scope.spawn(move || put(by)))));
            while !queue.is_empty() {
                thread::yield_now();
            }
            assert_eq!(queue.close(), []);
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!(sums, ITEMS * (ITEMS + 1), "with room for {most}");
    }
    assert_eq!(arena.slot(0).get(Counter::QueuePuts), 3 * 2 * ITEMS);
}
