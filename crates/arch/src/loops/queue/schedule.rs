//! Random schedules of a queue, compared with a list; and threads that use one at once.
use super::queue::{Fifo, Returns};
use crate::testing::dice::{Dice, SEEDS};
use regatta_metrics::{Counter, Gauge, Tally};
use regatta_sys::{
    clock, hook,
    wait::{Interest, ready_now, ready_within},
};
use regatta_testkit::counters::arena;
use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

/// Longer than any wait.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_queue_is_a_list_with_an_end() {
    let (mut taken, mut refused, mut left) = (0, 0, 0);
    for seed in 0..SEEDS {
        let arena = arena(1);
        let (tally, mut dice) = (Tally::Owned(arena.slot(0)), Dice::new(seed));
        let most = 1 + dice.below(8);
        let (queue, mut list, mut closed) = (Fifo::new(most), VecDeque::new(), false);
        let (mut puts, mut sum, mut refusals) = (0, 0, 0);
        let (mut taken_here, mut visits) = (0, 0);
        for item in (0..2000).step_by(10) {
            match dice.below(9) {
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
                3 => {
                    taken_here += u64::from(!list.is_empty());
                    assert_eq!(queue.take(Duration::ZERO, tally), list.pop_front());
                }
                4 => {
                    let mut items: VecDeque<_> = (item..item + dice.below(6)).collect();
                    let room = if closed { 0 } else { most - list.len() };
                    let mut expect = items.clone();
                    for same in expect.drain(..room.min(items.len())) {
                        (puts, sum) = (puts + 1, sum + list.len() as u64);
                        list.push_back(same);
                    }
                    refusals += expect.len() as u64;
                    queue.put_all(&mut items, tally);
                    assert_eq!(items, expect, "what had no room is left");
                }
                5 => {
                    let (most, mut batch) = (dice.below(5), vec![usize::MAX]);
                    let expect: Vec<_> = list.drain(..most.min(list.len())).collect();
                    assert_eq!(queue.try_take_batch(most, &mut batch, tally), expect.len());
                    assert_eq!(batch[1..], expect);
                    (taken_here, visits) =
                        (taken_here + expect.len() as u64, visits + u64::from(!expect.is_empty()));
                }
                _ => {
                    taken_here += u64::from(!list.is_empty());
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
        let counters = [Counter::QueueTakes, Counter::QueueVisits, Counter::QueueWakes];
        assert_eq!(counters.map(|counter| slot.get(counter)), [taken_here, visits, 0]);
        assert!(closed || slot.gauge(Gauge::QueueItems) == list.len() as u64);
        (refused, taken) = (refused + refusals, taken + taken_here);
    }
    assert!(taken > 10_000 && refused > 1000 && left > 100, "{taken} {refused} {left}");
}

/// The time that items wait grows while nothing is taken, and in the end is the same.
#[test]
fn waiting_is_counted_while_it_lasts() {
    let arena = arena(1);
    let (tally, queue) = (Tally::Owned(arena.slot(0)), Fifo::new(4));
    let waited = || arena.slot(0).get(Counter::QueueWaitNs);
    let at = |ns| hook::set_time(ns, 0);
    for ns in [100, 150] {
        at(ns);
        queue.put(ns, tally).unwrap();
    }
    at(250);
    queue.count_waiting(tally);
    assert_eq!(waited(), 150 + 100, "of both, by now");
    at(300);
    assert_eq!(queue.try_take(tally), Some(100));
    at(400);
    assert_eq!(queue.try_take(tally), Some(150));
    queue.count_waiting(tally);
    assert_eq!(waited(), 200 + 250);
    hook::clear();
}

/// Threads that wait for good are woken for each item, and each item is taken once.
#[test]
fn no_item_is_lost_among_threads() {
    const ITEMS: u64 = 2000;
    const TAKERS: usize = 4;
    let arena = arena(1);
    let tally = Tally::Striped(arena.slot(0));
    for most in [1, 3, 5000] {
        let queue = Fifo::new(most);
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

/// Batches wake as many as can have an item, and no item is lost among threads that take batches;
/// whichever way they are woken.
#[test]
fn batches_wake_as_many_as_there_is_something_for() {
    for wakes_all in [false, true] {
        let arena = arena(1);
        let tally = Tally::Striped(arena.slot(0));
        let queue = Fifo::new(100);
        let queue = if wakes_all { queue.waking_all() } else { queue };
        let sum: usize = thread::scope(|scope| {
            let take = || {
                let (mut batch, mut sum) = (Vec::new(), 0);
                while queue.take_batch(3, &mut batch, PATIENCE, tally) > 0 {
                    assert!(batch.len() <= 3);
                    sum += batch.drain(..).sum::<usize>();
                }
                sum
            };
            let takers: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
            for round in 0..500 {
                let mut items: VecDeque<usize> = (0..1 + round % 40).collect();
                while !items.is_empty() {
                    queue.put_all(&mut items, tally);
                    thread::yield_now();
                }
            }
            while !queue.is_empty() {
                thread::yield_now();
            }
            assert_eq!(queue.close(), []);
            takers.into_iter().map(|taker| taker.join().unwrap()).sum::<usize>()
        });
        let expected: usize = (0..500).map(|round| (0..1 + round % 40).sum::<usize>()).sum();
        assert_eq!(sum, expected);
        let slot = arena.slot(0);
        assert_eq!(slot.get(Counter::QueueTakes), slot.get(Counter::QueuePuts));
        assert!(slot.get(Counter::QueueVisits) * 3 >= slot.get(Counter::QueueTakes));
    }
}

/// A waiter can be called away, and what has been there for too long is taken back.
#[test]
fn a_call_ends_a_wait_and_what_is_old_is_taken_back() {
    let arena = arena(1);
    let tally = Tally::Striped(arena.slot(0));
    let queue = Fifo::new(10);
    let begin = Instant::now();
    // No thread waits: the call is for the next that comes, and for no other.
    queue.call(tally);
    assert_eq!(queue.take(PATIENCE, tally), None);
    let since = Instant::now();
    assert_eq!(queue.take(Duration::from_millis(1), tally), None);
    assert!(since.elapsed() >= Duration::from_millis(1));
    thread::scope(|scope| {
        let taker = scope.spawn(|| queue.take(PATIENCE, tally));
        while !taker.is_finished() && begin.elapsed() < PATIENCE {
            queue.call(tally);
            thread::yield_now();
        }
        assert_eq!(taker.join().unwrap(), None);
    });
    assert!(begin.elapsed() < PATIENCE);
    let before = clock::nanos();
    queue.put(1, tally).unwrap();
    queue.put(2, tally).unwrap();
    let mut old = VecDeque::new();
    queue.take_older(before, &mut old, tally);
    assert!(old.is_empty());
    queue.take_older(u64::MAX, &mut old, tally);
    assert_eq!((old.make_contiguous(), queue.len()), (&mut [1, 2][..], 0));
    assert_eq!(arena.slot(0).gauge(Gauge::QueueItems), 0);
}

/// An owner collects all at once; it is woken once for a wait, and at once if it has been called.
#[test]
fn an_owner_merges_what_others_leave() {
    let (mut rung, mut called) = (0, 0);
    for seed in 0..SEEDS {
        let (returns, mut dice) = (Returns::new().unwrap(), Dice::new(seed));
        let ready = || ready_now(returns.source(), Interest::READ).unwrap().readable;
        let (mut list, mut mine) = (VecDeque::new(), VecDeque::new());
        let (mut asleep, mut rings, mut calls) = (false, false, false);
        for item in (0..2000).step_by(10) {
            match dice.below(6) {
                0 => {
                    returns.put(item);
                    list.push_back(item);
                    rings |= asleep;
                }
                1 => {
                    let mut items: VecDeque<_> = (item..item + dice.below(4)).collect();
                    rings |= asleep && !items.is_empty();
                    list.extend(&items);
                    returns.put_all(&mut items);
                    assert!(items.is_empty());
                }
                2 if dice.once_in(3) => {
                    returns.wake();
                    (rings, calls) = (rings || asleep, true);
                }
                2 => {}
                3 if asleep => {
                    assert_eq!(returns.wakes(), rings);
                    rung += u32::from(rings);
                    calls &= !rings;
                    (asleep, rings) = (false, false);
                }
                3 => {
                    asleep = returns.falls_asleep();
                    called += u32::from(calls && list.is_empty());
                    assert_eq!(asleep, list.is_empty() && !calls, "seed {seed}");
                    calls = false;
                }
                4 if !asleep => assert_eq!(returns.next(), list.pop_front()),
                _ if !asleep => {
                    returns.take_all(&mut mine);
                    assert!(mine.drain(..).eq(list.drain(..)));
                }
                _ => {}
            }
            assert_eq!((ready(), returns.len()), (rings, list.len()), "seed {seed}");
            assert_eq!(returns.is_empty(), list.is_empty());
        }
    }
    assert!(rung > 1000 && called > 100, "{rung} {called}");
}

/// An owner that rests leaves results where they are until it checks, or is called.
#[test]
fn an_owner_that_rests_is_woken_by_a_call_only() {
    let returns = Returns::new().unwrap();
    let ready = || ready_now(returns.source(), Interest::READ).unwrap().readable;
    assert!(returns.rests());
    returns.put(1);
    assert!(!ready());
    returns.wake();
    assert!(ready() && returns.wakes() && !ready());
    assert_eq!(returns.next(), Some(1));
    returns.wake();
    assert!(!returns.rests(), "it has been called");
    assert!(returns.rests() && !returns.wakes());
    assert!(returns.falls_asleep());
    returns.put(2);
    assert!(ready() && returns.wakes());
}

/// An owner that is called while it is about to fall asleep does not sleep on.
#[test]
fn a_call_is_not_lost() {
    let returns = Returns::<()>::new().unwrap();
    thread::scope(|scope| {
        for _ in 0..2000 {
            scope.spawn(|| returns.wake());
            while returns.falls_asleep() {
                let woken = ready_within(returns.source(), Interest::READ, PATIENCE);
                assert!(woken.unwrap().readable, "a call was lost");
                if returns.wakes() {
                    break;
                }
            }
        }
    });
}
