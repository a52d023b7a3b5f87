//! Contracts between arena, slots and tallies.
use super::*;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::{format, string::ToString, thread, vec::Vec};

fn zeroed_words(slots: usize) -> Vec<AtomicU64> {
    (0..Arena::count_words(slots)).map(|_| AtomicU64::new(0)).collect()
}

fn arena(slots: usize) -> Arena<'static> {
    Arena::create(zeroed_words(slots).leak(), slots)
}

fn values(words: &[AtomicU64]) -> Vec<u64> {
    words.iter().map(|word| word.load(SeqCst)).collect()
}

#[test]
fn what_is_tallied_is_read_back_and_nothing_else() {
    let words = zeroed_words(3);
    let arena = Arena::create(&words, 3);
    let tally = Tally::Owned(arena.slot(1));
    for (n, &counter) in (1..).zip(Counter::ALL) {
        match counter.merge() {
            Merge::Sum => {
                tally.add(counter, n);
                tally.add(counter, 1000);
            }
            Merge::Max => {
                tally.max(counter, 1000 + n);
                tally.max(counter, n);
            }
        }
    }
    for (n, &histogram) in (1..).zip(Histogram::ALL) {
        tally.record(histogram, n);
        tally.record(histogram, 1 << n);
    }
    let view = Arena::attach(&words).unwrap();
    let slots: Vec<SlotView<'_>> = view.slots().collect();
    assert_eq!(slots.len(), 3);
    for (n, &counter) in (1..).zip(Counter::ALL) {
        assert_eq!(slots[1].get(counter), 1000 + n, "{}", counter.name());
        assert_eq!(slots[0].get(counter) + slots[2].get(counter), 0);
    }
    for (n, &histogram) in (1..).zip(Histogram::ALL) {
        let snapshot = slots[1].histogram(histogram);
        assert_eq!((snapshot.count(), snapshot.sum()), (2, n + (1 << n)));
        assert_eq!(snapshot.max(), 1 << n);
        assert_eq!(slots[0].histogram(histogram).count(), 0);
    }
}

#[test]
fn striped_tallies_lose_nothing() {
    const THREADS: usize = 4;
    const ROUNDS: u64 = 20_000;
    let arena = arena(2);
    let slots: Vec<Slot<'_>> = arena.slots().collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let tally = Tally::striped(&slots, thread);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    tally.add(Counter::RecvCalls, 1);
                    tally.max(Counter::ConnectionsOpenMax, round);
                    tally.record(Histogram::TurnNs, round);
                }
            });
        }
    });
    let totals = Totals::from_slots(arena.view().slots());
    assert_eq!(totals.get(Counter::RecvCalls), THREADS as u64 * ROUNDS);
    assert_eq!(totals.get(Counter::ConnectionsOpenMax), ROUNDS - 1);
    let turns = totals.histogram(Histogram::TurnNs);
    assert_eq!(turns.count(), THREADS as u64 * ROUNDS);
    assert_eq!(turns.sum(), THREADS as u64 * ROUNDS * (ROUNDS - 1) / 2);
    assert_eq!(turns.max(), ROUNDS - 1);
}

#[test]
fn reading_stores_nothing() {
    let words = zeroed_words(2);
    let arena = Arena::create(&words, 2);
    arena.set_server(42, 1_700_000_000_000, "eager+close");
    arena.slot(0).enter(43);
    Tally::Owned(arena.slot(0)).reply(206, 5000);
    let before = values(&words);
    let view = Arena::attach(&words).unwrap();
    let totals = Totals::from_slots(view.slots());
    assert_eq!((view.server_pid(), view.started_unix_ms()), (42, 1_700_000_000_000));
    assert_eq!(view.architecture(), "eager+close");
    assert_eq!(view.control().phase(), Phase::Run);
    assert_eq!(view.control().log_generation() + view.control().drain_deadline_ms(), 0);
    for slot in view.slots() {
        let _ = (slot.pid(), slot.incarnation(), slot.heartbeat_ms());
        let _ = Gauge::ALL.iter().map(|gauge| slot.gauge(*gauge)).sum::<u64>();
    }
    assert_eq!(totals.since(&totals).get(Counter::Replies), 0);
    assert_eq!(values(&words), before);
}

#[test]
fn a_name_has_its_words_and_no_others() {
    let arena = arena(1);
    assert_eq!(arena.view().architecture(), "");
    let before = arena.view().control().drain_deadline_ms();
    arena.set_server(1, 2, &"x".repeat(100));
    assert_eq!(arena.view().architecture(), "x".repeat(48));
    assert_eq!((arena.view().server_pid(), arena.view().started_unix_ms()), (1, 2));
    assert_eq!(arena.view().control().phase(), Phase::Run);
    assert_eq!(arena.view().control().drain_deadline_ms(), before);
    // Printable start of a name that another process has written.
    arena.set_server(1, 2, "sped\u{1b}[2J");
    assert_eq!(arena.view().architecture(), "sped");
}

#[test]
fn a_stage_has_its_name_and_its_dials() {
    let words = zeroed_words(2);
    let arena = Arena::create(&words, 2);
    let slot = arena.slot(1);
    assert_eq!((slot.role().as_str(), slot.dial(Dial::Threads)), ("", 0));
    slot.set_role("a-name-of-a-stage-that-is-long");
    let before = values(&words);
    for (value, dial) in (1..).zip(Dial::ALL) {
        slot.set_dial(dial, value);
    }
    assert_eq!(slot.role(), "a-name-of-a-stag");
    for (value, dial) in (1..).zip(Dial::ALL) {
        assert_eq!(slot.dial(dial), value, "{dial:?}");
    }
    assert!(Counter::ALL.iter().all(|counter| slot.get(*counter) == 0) && !slot.is_retired());
    let changed = values(&words).iter().zip(&before).filter(|(now, was)| now != was).count();
    assert_eq!(changed, Dial::ALL.len());
    slot.set_role("write\u{1b}[2J");
    assert_eq!(slot.role(), "write");
    // A new worker has a name of its own, or none.
    slot.enter(7);
    assert!(slot.role().is_empty() && Dial::ALL.iter().all(|dial| slot.dial(*dial) == 0));
}

#[test]
fn a_reply_counts_once_in_each_grouping() {
    let arena = arena(1);
    let tally = Tally::Owned(arena.slot(0));
    for (status, bytes) in [(200, 0), (206, 2048), (304, 0), (404, 200), (405, 20), (503, 2 << 20)]
    {
        tally.reply(status, bytes);
    }
    let totals = Totals::from_slots(arena.view().slots());
    let sum = |counters: &[Counter]| counters.iter().map(|counter| totals.get(*counter)).sum();
    let classes: u64 =
        sum(&[Counter::Replies2xx, Counter::Replies3xx, Counter::Replies4xx, Counter::Replies5xx]);
    let sizes: u64 = sum(&[
        Counter::RepliesBelow1k,
        Counter::RepliesBelow10k,
        Counter::RepliesBelow100k,
        Counter::RepliesBelow1m,
        Counter::RepliesFrom1m,
    ]);
    assert_eq!((totals.get(Counter::Replies), classes, sizes), (6, 6, 6));
    assert_eq!(totals.get(Counter::Replies404), 1);
    assert_eq!(totals.get(Counter::Replies4xx), 2);
}

#[test]
fn the_oldest_beat_is_told_until_another_worker_enters() {
    let arena = arena(2);
    let slot = arena.slot(0);
    assert_eq!(slot.oldest_beat(), None);
    // The largest number of a thread, and a machine that has run for a hundred years.
    for beat in [(1, 0), (4_194_303, 3_155_760_000_000)] {
        let beat = ThreadBeat { thread: beat.0, tick_ms: beat.1 };
        slot.set_oldest_beat(Some(beat));
        assert_eq!(slot.oldest_beat(), Some(beat));
    }
    assert_eq!(arena.slot(1).oldest_beat(), None);
    assert!(slot.is(&arena.slot(0)) && !slot.is(&arena.slot(1)));
    slot.enter(7);
    assert_eq!(slot.oldest_beat(), None);
}

#[test]
fn settling_a_dead_workers_slot_empties_its_gauges() {
    let arena = arena(1);
    let slot = arena.slot(0);
    slot.enter(7);
    slot.set_heartbeat_ms(99);
    let tally = Tally::Owned(slot);
    for gauge in Gauge::ALL {
        tally.add(gauge.up(), 10);
        tally.add(gauge.down()[0], 3);
    }
    assert!(Gauge::ALL.iter().all(|gauge| slot.gauge(*gauge) == 7));
    Slot::settle(&[slot], Counter::ClosedWorkerDied, false);
    assert!(Gauge::ALL.iter().all(|gauge| slot.gauge(*gauge) == 0));
    assert_eq!(slot.get(Counter::ClosedWorkerDied), 7);
    assert_eq!(slot.get(Counter::ConnectionsClosed), 10);
    assert_eq!((slot.pid(), slot.incarnation(), slot.heartbeat_ms()), (0, 1, 99));
    slot.enter(8);
    assert_eq!((slot.pid(), slot.incarnation()), (8, 2));
}

/// A retired worker stays marked until another starts in its place.
#[test]
fn a_worker_is_retired_until_the_next_one_starts() {
    let arena = arena(2);
    let retired = || arena.slots().map(|slot| slot.is_retired()).collect::<Vec<_>>();
    assert_eq!(retired(), [false, false]);
    arena.slot(0).enter(7);
    arena.slot(0).retire();
    assert_eq!(retired(), [true, false]);
    Slot::settle(&[arena.slot(0)], Counter::ClosedDrained, false);
    assert_eq!((arena.slot(0).pid(), retired()[0]), (0, true));
    arena.slot(0).engage();
    arena.slot(0).enter(8);
    assert_eq!(retired(), [false, false]);
}

/// Settles a process in which one unit opens what another closes.
#[test]
fn units_of_a_dead_process_are_settled_together() {
    let arena = arena(2);
    let slots = [arena.slot(0), arena.slot(1)];
    for gauge in Gauge::ALL {
        Tally::Owned(slots[1]).add(gauge.up(), 10);
        Tally::Owned(slots[0]).add(gauge.down()[0], 4);
    }
    slots.iter().for_each(|slot| slot.enter(7));
    Slot::settle(&slots, Counter::ClosedDrained, false);
    let totals = Totals::from_slots(arena.view().slots());
    assert!(Gauge::ALL.iter().all(|gauge| totals.gauge(*gauge) == 0));
    let closed = [Counter::ClosedDrained, Counter::ClosedWorkerDied];
    assert_eq!(closed.map(|closed| totals.get(closed)), [6, 0]);
    assert_eq!(slots.map(|slot| slot.pid()), [0, 0]);
}

#[test]
fn totals_merge_and_subtract() {
    let arena = arena(2);
    let count = |slot, n| {
        let tally = Tally::Owned(arena.slot(slot));
        tally.add(Counter::Requests, n);
        tally.max(Counter::WaitInterestMax, n);
        tally.record(Histogram::LoopNs, n);
    };
    count(0, 10);
    count(1, 7);
    let earlier = Totals::from_slots(arena.view().slots());
    let mut merged = Totals::default();
    arena.view().slots().for_each(|slot| merged.merge(&Totals::from_slots([slot])));
    for totals in [&earlier, &merged] {
        assert_eq!(totals.get(Counter::Requests), 17);
        assert_eq!(totals.get(Counter::WaitInterestMax), 10);
        assert_eq!(totals.histogram(Histogram::LoopNs).sum(), 17);
    }
    count(1, 5);
    let since = Totals::from_slots(arena.view().slots()).since(&earlier);
    assert_eq!((since.get(Counter::Requests), since.get(Counter::WaitInterestMax)), (5, 10));
    assert_eq!(since.histogram(Histogram::LoopNs).count(), 1);
    assert_eq!(since.gauge(Gauge::RequestsOpen), 5);
}

#[test]
fn control_words_reach_the_workers() {
    let arena = arena(1);
    let view = arena.view().control();
    arena.control().drain(1234);
    assert_eq!((view.phase(), view.drain_deadline_ms()), (Phase::Drain, 1234));
    assert!(!view.listeners_stay());
    arena.control().stop();
    assert_eq!(view.phase(), Phase::Stop);
    arena.control().leave(5678);
    assert_eq!((view.phase(), view.drain_deadline_ms()), (Phase::Drain, 5678));
    assert!(view.listeners_stay() && view.others_serve());
    arena.control().reopen_logs();
    assert_eq!(view.log_generation(), 1);

    // Who drains may have to leave the listeners to their owner.
    let arena = self::arena(1);
    let view = arena.view().control();
    arena.control().keep_listeners();
    arena.control().drain(1234);
    assert!(view.listeners_stay() && !view.others_serve());
    arena.control().leave(1234);
    assert!(view.listeners_stay() && view.others_serve());
}

#[test]
fn attaching_names_what_differs() {
    let made = zeroed_words(2);
    let _ = Arena::create(&made, 2);
    assert_eq!(
        Arena::attach(&made[..10]).unwrap_err(),
        ArenaError::Short { found: 10, expected: 32 }
    );
    let short = Arena::attach(&made[..Arena::count_words(2) - 1]).unwrap_err();
    assert!(matches!(short, ArenaError::Short { .. }), "{short}");
    // Every word of the header that says something about the layout, changed by one.
    let mut texts = Vec::new();
    for word in 0..=7 {
        made[word].fetch_add(1, Relaxed);
        texts.push(Arena::attach(&made).unwrap_err().to_string());
        made[word].fetch_sub(1, Relaxed);
    }
    assert!(Arena::attach(&made).is_ok());
    for (text, word) in texts.iter().zip([
        "not an",
        "version",
        "words",
        "counters",
        "histograms",
        "buckets",
        "hash",
    ]) {
        assert!(text.contains(word), "{text}");
    }
    assert!(texts[7].contains("where its header says"), "{}", texts[7]);
    made[7].store(u64::MAX, Relaxed);
    assert!(matches!(Arena::attach(&made), Err(ArenaError::Short { .. })));
    assert_eq!(Arena::attach(&zeroed_words(1)).unwrap_err(), ArenaError::Magic);
    let longer = zeroed_words(3);
    let _ = Arena::create(&longer, 2);
    assert_eq!(Arena::attach(&longer).unwrap().slots().len(), 2);
}

#[test]
fn slots_share_no_pair_of_cache_lines() {
    assert_eq!(SLOT_WORDS % 16, 0);
    assert_eq!(Arena::count_words(0) % 16, 0);
}

#[test]
fn the_committed_reference_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == markdown(), "docs/metrics.md is stale: run `cargo xtask gen`");
}

#[test]
fn the_reference_has_every_name() {
    let text = markdown();
    let counters = Counter::ALL.iter().map(|counter| counter.name());
    let gauges = Gauge::ALL.iter().map(|gauge| gauge.name());
    let histograms = Histogram::ALL.iter().map(|histogram| histogram.name());
    for name in counters.chain(gauges).chain(histograms) {
        assert!(text.contains(&format!("| `{name}` |")), "{name}");
    }
}

#[test]
fn the_server_says_which_generation_serves_and_how_many_were_asked_for() {
    let arena = arena(1);
    let (control, view) = (arena.control(), arena.view());
    assert_eq!(view.control().reloads_pending(), 0);
    control.set_reloads(3, 2);
    control.set_reloads_pending(1);
    assert_eq!((view.control().reloads(), view.control().reloads_refused()), (3, 2));
    assert_eq!(view.control().reloads_pending(), 1);
    assert_eq!(view.generation(), 0, "no reader of several takes it before it is whole");
    arena.set_generation(2);
    assert_eq!(view.generation(), 2);
}
