//! Ways and order of requests, and number of threads of a stage.
use super::*;
use crate::{
    control::{BatchRules, Batching, PoolRules, PoolSize},
    loops::line::threads::BatchSize,
};
use regatta_metrics::{Counter, Dial};
use regatta_op::Outbox;
use regatta_origin::NoLog;
use regatta_testkit::counters::arena;

/// Stations that a connection with these operations passes. Each operation is offered where the
/// last one was completed; a stage performs what it does not leave.
fn way(ops: &[OpKind]) -> Vec<usize> {
    let (mut at, mut way) = (READ, Vec::new());
    let mut go = |from: &mut usize, kind| {
        *from = duties(*from, Threads::Own).1.route(kind);
        way.push(*from);
    };
    go(&mut at, OpKind::Recv);
    for kind in ops {
        while duties(at, Threads::Own).0.has(*kind) {
            go(&mut at, *kind);
        }
        if *kind == OpKind::Read {
            let leaves = duties(at, Threads::Own).0;
            assert!(leaves.includes(Leaves::READ_RESULT), "{at} reads");
            go(&mut at, *kind);
        }
    }
    way
}

/// A hit in memory passes four queues, and a miss seven, as in the source.
#[test]
fn a_hit_passes_four_queues_and_a_miss_seven() {
    use OpKind::{Open, Read, Recv, Send, Stat};
    assert_eq!(way(&[Send]), [PARSE, RECV, CACHE, WRITE]);
    assert_eq!(way(&[Open, Stat, Read, Send]), [PARSE, RECV, CACHE, MISS, DISK, MISS, WRITE]);
    // The writer sends a file that is not kept in memory.
    assert_eq!(way(&[Open, Stat, Send]), [PARSE, RECV, CACHE, MISS, WRITE]);
    // Another part of a body.
    let parts = [PARSE, RECV, CACHE, MISS, DISK, MISS, WRITE, DISK, MISS, WRITE];
    assert_eq!(way(&[Open, Read, Send, Read, Send]), parts);
    // A connection that is to receive returns to the stage that receives.
    for at in [WRITE, PARSE, RECV, CACHE, MISS, DISK] {
        let (leaves, routes) = duties(at, Threads::Own);
        assert!(leaves.has(Recv), "{at}");
        assert_eq!(routes.route(Recv), READ, "{at}");
    }
}

/// Threads that serve all stages wait for the first, because other threads put jobs only there.
#[test]
fn what_others_leave_to_shared_threads_goes_to_the_first() {
    use OpKind::{Open, Read, Recv, Send, Stat};
    let (read, write) = (duties(READ, Threads::Shared).1, duties(WRITE, Threads::Shared).1);
    assert_eq!([Open, Stat, Read, Recv].map(|kind| read.route(kind)), [PARSE; 4]);
    assert_eq!([Open, Stat, Read].map(|kind| write.route(kind)), [PARSE; 3]);
    assert_eq!([read.route(Send), write.route(Recv)], [WRITE, READ]);
    // Jobs then continue to the stages where they belong.
    let next = |at, kind| duties(at, Threads::Shared).1.route(kind);
    assert_eq!([PARSE, RECV, CACHE].map(|at| next(at, Read)), [RECV, CACHE, DISK]);
    assert_eq!([PARSE, RECV, CACHE].map(|at| next(at, Open)), [RECV, CACHE, MISS]);
}

/// With the longest queue chosen after each visit, a file would wait as long as requests arrive.
#[test]
fn each_stage_is_visited_once_in_a_schedule() {
    let (mut schedule, mut lens) = (Schedule::default(), [0; POOLS]);
    assert_eq!(schedule.next_stage(|at| lens[at]), None);
    // What is in memory continues to be sent, and one file to be read.
    lens[..4].copy_from_slice(&[9, 0, 3, 1]);
    let goes_to = [Some(1), Some(2), None, Some(4), None];
    let mut visits = Vec::new();
    for _ in 0..6 {
        let at = schedule.next_stage(|at| lens[at]).unwrap();
        visits.push(POOLS_AT + at);
        let taken = std::mem::take(&mut lens[at]);
        goes_to[at].into_iter().for_each(|to: usize| lens[to] += taken);
        // Further requests arrive.
        lens[0] += 9;
    }
    assert_eq!(visits, [PARSE, CACHE, MISS, PARSE, RECV, DISK]);
}

#[test]
fn small_responses_come_before_large_ones_and_both_before_files() {
    let send = |len| Some(Left::Op(Op::Send(Outbox::new(vec![0; len]))));
    let received = Some(Left::Received(vec![1]));
    let ranks = [send(10), send(1000), received, None].map(|left| rank(left.as_ref()));
    assert_eq!(ranks, [10, 1000, u64::MAX, u64::MAX]);
}

const RULES: PoolRules =
    PoolRules { period_ms: 0, every: 1, queue_min: 2, threads_max: 3, finds_best: None };

fn pool(size: Option<PoolSize>, batching: Option<Batching>) -> StageThreads {
    StageThreads::new("some", ThreadBounds { least: 1, most: 3 }, size, batching, None)
}

#[test]
fn a_pool_grows_while_many_wait_and_shrinks_while_nobody_does() {
    let arena = arena(1);
    let tally = Tally::Striped(arena.slot(0));
    let pool = pool(Some(PoolSize::new(RULES, 0)), None);
    let check = |queue| pool.check(queue, tally, &NoLog);
    // The pool has no thread yet.
    assert_eq!(check(0), 1);
    pool.joins();
    assert_eq!([check(1), check(2)], [1, 2]);
    pool.joins();
    assert_eq!(check(9), 3);
    pool.joins();
    assert_eq!(check(9), 3);
    // A thread that has just served stays; an idle one leaves, except for the least number.
    assert!(!pool.leaves(false));
    assert!(pool.leaves(true) && pool.leaves(true) && !pool.leaves(true));
    assert_eq!(pool.threads(), 1);
    let slot = arena.view().slots().next().unwrap();
    assert_eq!(slot.get(Counter::DecisionsChanged), 2);
    assert_eq!(slot.dial(Dial::Decisions), slot.get(Counter::Decisions));
    assert_eq!(slot.dial(Dial::Threads), 3);
}

#[test]
fn a_thread_takes_all_unless_a_controller_says_how_many() {
    let size = |pool: &StageThreads| match pool.batch() {
        BatchSize::Shared(most) => most.load(std::sync::atomic::Ordering::Relaxed),
        BatchSize::Most(most) => panic!("{most} is nobody's to change"),
    };
    assert_eq!(size(&pool(None, None)), u32::MAX);
    assert_eq!(size(&pool(None, None).one_at_a_time()), 1);
    let rules =
        BatchRules { least: 1, most: 64, window_ms: 5, weight_old_percent: 50, truncates: false };
    assert_eq!(size(&pool(None, Some(Batching::new(rules, 0)))), 64);
}
