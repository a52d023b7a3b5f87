//! Controllers of stages against recorded traces, one for each controller and each fault of
//! Sandstorm, and in closed loops in virtual time.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test fails by panicking"
)]
use regatta_arch::{
    control::{
        Adjustment, AgeRules, BatchRules, Batching, Bucket, Controller, Decided, Direct,
        DirectRules, Multiclass, PoolRules, PoolSize, Proportional, QueueMax, QueueMaxRules,
        Sample,
    },
    loops::line::gate::{Gate, GateRules},
};
use regatta_metrics::Tally;
use regatta_testkit::counters::arena;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

const POOL: PoolRules =
    PoolRules { period_ms: 2000, every: 4, queue_min: 10, threads_max: 20, finds_best: None };
const BATCHES: BatchRules =
    BatchRules { least: 1, most: 1024, window_ms: 100, weight_old_percent: 50, truncates: true };
const AGES: AgeRules =
    AgeRules { target_ms: 5000, samples: 100, period_ms: 1000, weight_old_percent: 70 };
const DIRECT: DirectRules = DirectRules {
    ages: AGES,
    first_milli: 10_000,
    most_milli: 1_000_000,
    add_milli: 500,
    divide_percent: 200,
};

/// Controllers as Sandstorm had them, by the name of their trace.
fn of_the_source(name: &str) -> Box<dyn Controller> {
    let ages = AgeRules { target_ms: 1000, samples: 10, ..AGES };
    let classes = DirectRules { ages, first_milli: 100_000, divide_percent: 120, ..DIRECT };
    let length = QueueMaxRules {
        ages: AGES,
        by_mean: false,
        first: 1,
        most: 1024,
        add_milli: 500,
        high_percent: 120,
    };
    let bottleneck = AgeRules { samples: 200, weight_old_percent: 50, ..AGES };
    let by_mean = QueueMaxRules {
        ages: bottleneck,
        by_mean: true,
        add_milli: 2000,
        high_percent: 110,
        ..length
    };
    match name {
        "pool" => Box::new(PoolSize::new(POOL, 0)),
        "batch" => Box::new(Batching::new(BATCHES, 0)),
        "direct" => Box::new(Direct::new(DIRECT, 0)),
        "multiclass" => Box::new(Multiclass::new(3, classes, 0)),
        "queue-length" => Box::new(QueueMax::new(length, 0)),
        "bottleneck" => Box::new(QueueMax::new(by_mean, 0)),
        _ => panic!("no controller {name}"),
    }
}

/// Parses ages of a trace: `10x5,20x1` is five of 10 ms and one of 20.
fn ages(words: &str) -> Vec<u64> {
    let of = |group: &str| {
        let (ms, count) = group.split_once('x').expect("age x count");
        let (ms, count) = (ms.parse::<u64>().unwrap(), count.parse::<usize>().unwrap());
        vec![ms * MS; count]
    };
    words.split(',').flat_map(of).collect()
}

fn replay(name: &str, trace: &str) {
    let mut controller = of_the_source(name);
    let lines = trace.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let (input, expected) = line.split_once(" -> ").expect("input -> decision");
        let mut words = input.split(' ');
        let at_ms: u64 = words.next().unwrap().parse().unwrap();
        let (mut sample, mut collected) = (Sample::default(), Vec::new());
        for word in words {
            let (key, value) = word.split_once('=').expect("key=value");
            let number = || value.parse::<u64>().unwrap();
            match key {
                "queue" => sample.queue = number(),
                "threads" => sample.threads = u32::try_from(number()).unwrap(),
                "takes" => sample.takes = number(),
                "class" => sample.class = u8::try_from(number()).unwrap(),
                "ages" => collected = ages(value),
                _ => panic!("no such input: {key}"),
            }
        }
        sample.ages_ns = &collected;
        let mut decided = Vec::new();
        controller.observe(&sample, at_ms * MS, &mut decided);
        assert_eq!(words_of(&decided), expected, "{name}: {input}");
    }
}

/// Renders decisions without their reasons.
fn words_of(decided: &[Decided]) -> String {
    let words = |decided: &Decided| decided.to_string().split(": ").next().unwrap().to_owned();
    let all: Vec<_> = decided.iter().map(words).collect();
    if all.is_empty() { "-".to_owned() } else { all.join("; ") }
}

#[test]
fn traces_are_decided_as_in_the_source() {
    for (name, trace) in [
        ("pool", include_str!("control/pool.trace")),
        ("batch", include_str!("control/batch.trace")),
        ("direct", include_str!("control/direct.trace")),
        ("multiclass", include_str!("control/multiclass.trace")),
        ("queue-length", include_str!("control/queue-length.trace")),
        ("bottleneck", include_str!("control/bottleneck.trace")),
    ] {
        replay(name, trace);
    }
}

#[test]
fn a_decision_says_what_it_goes_by() {
    let mut decided = Vec::new();
    let sample = Sample { queue: 12, threads: 3, ..Sample::default() };
    PoolSize::new(PoolRules { every: 1, ..POOL }, 0).observe(&sample, 2 * SECOND, &mut decided);
    let sample = Sample { ages_ns: &[1_234_567; 5], ..Sample::default() };
    Direct::new(DIRECT, 0).observe(&sample, SECOND, &mut decided);
    let said: Vec<_> = decided.iter().map(Decided::to_string).collect();
    assert_eq!(
        said,
        ["threads=4: queue=12 threads=3", "rate=10.500 class=0: age_ms=1.234 served=5.000"]
    );
}

/// Seconds that a pool with constant work takes from one thread to all.
fn seconds_to_grow(rules: PoolRules) -> u64 {
    let (mut pool, mut threads, mut decided) = (PoolSize::new(rules, 0), 1, Vec::new());
    for second in 1.. {
        let sample = Sample { queue: 1000, threads, ..Sample::default() };
        pool.observe(&sample, second * SECOND, &mut decided);
        for decided in decided.drain(..) {
            match decided.decision {
                Some(Adjustment::Threads(now)) => threads = now,
                other => assert_eq!(other, None),
            }
        }
        if threads == rules.threads_max {
            return second;
        }
    }
    unreachable!("it grows")
}

#[test]
fn a_pool_of_twenty_takes_150_seconds() {
    assert_eq!(seconds_to_grow(POOL), 150);
    assert_eq!(seconds_to_grow(PoolRules { period_ms: 1000, queue_min: 20, ..POOL }), 75);
}

/// A thread that checks several pools waits for the one due first: none waits for another's period.
#[test]
fn each_pool_is_looked_at_in_its_own_period() {
    let pool = |period_ms| PoolSize::new(PoolRules { period_ms, every: 1, ..POOL }, 0);
    let mut pools = [100, 70, 1500].map(|period_ms| (pool(period_ms), 0));
    let (mut now, mut decided) = (0, Vec::new());
    while now < 21 * SECOND {
        let wait = pools.iter().map(|(pool, _)| pool.due_in(now)).min().unwrap();
        assert!(!wait.is_zero(), "each look begins another period");
        now += wait.as_nanos() as u64;
        for (pool, looks) in &mut pools {
            pool.observe(&Sample::default(), now, &mut decided);
            *looks += decided.drain(..).count();
        }
    }
    assert_eq!(pools.map(|(_, looks)| looks), [210, 300, 14]);
}

/// `autoMaxDetect` has no lower bound below which it stays. It leaves any number that is not the
/// best, and the best does not shrink with the load.
#[test]
fn whatever_is_not_the_best_number_of_threads_is_left() {
    let rules = PoolRules { finds_best: Some(7), period_ms: 1000, queue_min: 1000, ..POOL };
    let mut pool = PoolSize::new(rules, 0);
    let (mut decided, mut threads) = (Vec::new(), 12);
    for second in 1..=200 {
        // 12 threads were best once; then the load falls to a hundredth, and stays there.
        let takes = if second <= 10 { 1000 } else { 10 };
        let sample = Sample { threads, takes, ..Sample::default() };
        pool.observe(&sample, second * SECOND, &mut decided);
        if second == 10 {
            threads = 20;
        }
        for decided in decided.drain(..) {
            if let Some(Adjustment::Threads(to)) = decided.decision {
                assert!(second % 10 == 0 && (9..=12).contains(&to), "{second}: {to}");
                threads = to;
            }
        }
    }
    assert!((9..=12).contains(&threads), "{threads}");
}

/// Feeds windows of a constant rate, and returns the sizes that were decided.
fn sizes(batching: &mut Batching, windows: &mut u64, count: u64, takes: u64) -> Vec<u32> {
    let mut decided = Vec::new();
    for _ in 0..count {
        *windows += 1;
        let sample = Sample { takes, ..Sample::default() };
        batching.observe(&sample, *windows * 100 * MS, &mut decided);
    }
    let size = |decided: &Decided| match decided.decision {
        Some(Adjustment::Batch(size)) => Some(size),
        _ => None,
    };
    decided.iter().filter_map(size).collect()
}

#[test]
fn small_batches_grow_unless_sizes_are_cut_off() {
    for (truncates, grows) in [(true, vec![]), (false, vec![2, 3, 4, 3])] {
        let rules = BatchRules { most: 4, truncates, ..BATCHES };
        let (mut batching, mut windows) = (Batching::new(rules, 0), 0);
        sizes(&mut batching, &mut windows, 60, 1000);
        assert_eq!(batching.size(), 1);
        // The stage serves less than before: larger batches are to be tried, up to the largest.
        let up = sizes(&mut batching, &mut windows, 45, 800);
        assert_eq!(up, grows, "truncates {truncates}");
    }
}

/// A stage that serves less the smaller its batches are: a visit costs as much as 4 items.
#[test]
fn batches_get_small_and_little_is_lost() {
    let rules = BatchRules { truncates: false, window_ms: 5, ..BATCHES };
    let mut batching = Batching::new(rules, 0);
    let (mut decided, mut least, mut served, mut possible) = (Vec::new(), u32::MAX, 0.0, 0.0);
    for window in 1..=12_000_u64 {
        let size = f64::from(batching.size());
        let takes = 1000.0 * size / (size + 4.0);
        if window > 1000 {
            served += takes;
            possible += 1000.0 * 1024.0 / 1028.0;
            least = least.min(batching.size());
        }
        let sample = Sample { takes: takes as u64, ..Sample::default() };
        batching.observe(&sample, window * 5 * MS, &mut decided);
    }
    assert!(least < 50, "the least was {least}");
    // The controller steps down until a tenth is lost, and up until a fiftieth is.
    assert!(served / possible > 0.94, "{}", served / possible);
}

/// Number of tokens that a bucket releases in ten seconds, after it was emptied.
fn given(milli_per_s: u64, refill_ms_min: u32) -> usize {
    let mut bucket = Bucket::new(milli_per_s, 10, refill_ms_min, 0);
    assert_eq!((0..100).filter(|_| bucket.admit(0)).count(), 10, "it is full at first");
    (1..=200_000).filter(|step| bucket.admit(step * MS / 20)).count()
}

#[test]
fn a_bucket_refills_at_its_rate_and_the_source_s_not_faster_than_each_millisecond() {
    let about = |count: usize, expected: usize| {
        assert!(count.abs_diff(expected) <= 1 + expected / 1000, "{count} {expected}");
    };
    about(given(500, 1), 5);
    about(given(900_000, 1), 9000);
    about(given(5_000_000, 1), 10_000);
    about(given(5_000_000, 0), 50_000);
    let mut unlimited = Bucket::new(0, 1, 1, 0);
    assert!((0..1000).all(|_| unlimited.admit(0)));
    let mut late = Bucket::new(1000, 10, 0, 0);
    let admitted = (0..100).filter(|_| late.admit(3600 * SECOND)).count();
    assert_eq!(admitted, 10, "no more than its depth");
    late.set(2_000_000);
    assert_eq!((0..100).filter(|_| late.admit(3600 * SECOND + 2 * MS)).count(), 4);
}

/// Chance in (0, 1) for arrivals and services.
struct Chance(u64);

impl Chance {
    /// Draws a time between two events of this rate, nanoseconds.
    fn until_next(&mut self, per_s: f64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        (-unit.ln() / per_s * 1e9) as u64
    }
}

/// Outcome of a queue with one server in virtual time.
struct Ran {
    /// Time at which each request was served, and its age then, nanoseconds.
    served: Vec<(u64, u64)>,
    refused: usize,
}

impl Ran {
    /// Ninth decile of ages of requests served between two seconds, milliseconds.
    fn p90_ms(&self, from_s: u64, to_s: u64) -> u64 {
        let within = from_s * SECOND..to_s * SECOND;
        let mut ages: Vec<_> =
            self.served.iter().filter(|(at, _)| within.contains(at)).map(|(_, age)| *age).collect();
        ages.sort_unstable();
        ages.get(ages.len() * 9 / 10).copied().unwrap_or(0) / MS
    }

    fn served_in(&self, from_s: u64, to_s: u64) -> usize {
        let within = from_s * SECOND..to_s * SECOND;
        self.served.iter().filter(|(at, _)| within.contains(at)).count()
    }
}

/// Random times to serve a request, at a mean rate of `per_s` per second.
fn every(per_s: f64) -> impl Fn(&mut Chance) -> u64 {
    move |chance| chance.until_next(per_s)
}

/// Runs the queue with the arrivals per second, by second, and the times to serve a request.
fn run(
    controller: &mut dyn Controller,
    mut bucket: Bucket,
    arrives: impl Fn(u64) -> f64,
    takes_ns: impl Fn(&mut Chance) -> u64,
    seconds: u64,
) -> Ran {
    let mut chance = Chance(1);
    let (mut ran, mut queue) = (Ran { served: Vec::new(), refused: 0 }, VecDeque::<u64>::new());
    let (mut decided, mut next_arrival, mut busy_until) = (Vec::new(), 0, u64::MAX);
    let mut refused = 0;
    loop {
        let now = next_arrival.min(busy_until);
        if now >= seconds * SECOND {
            return ran;
        }
        if now == busy_until {
            let age = now - queue.pop_front().expect("it serves the first");
            ran.served.push((now, age));
            busy_until = if queue.is_empty() { u64::MAX } else { now + takes_ns(&mut chance) };
            let sample = Sample { takes: 1, refused, ages_ns: &[age], ..Sample::default() };
            refused = 0;
            controller.observe(&sample, now, &mut decided);
            for decided in decided.drain(..) {
                if let Some(Adjustment::Rate { milli_per_s, .. }) = decided.decision {
                    bucket.set(milli_per_s);
                }
            }
        } else {
            if bucket.admit(now) {
                queue.push_back(now);
                if queue.len() == 1 {
                    busy_until = now + takes_ns(&mut chance);
                }
            } else {
                (ran.refused, refused) = (ran.refused + 1, refused + 1);
            }
            next_arrival = now + chance.until_next(arrives(now / SECOND));
        }
    }
}

/// First rate of preset `seda`, thousandths of a request per second.
const RATE_MAX: u64 = 10_000_000_000;

/// Rules of preset `seda`, except for the target.
fn fast(target_ms: u32) -> DirectRules {
    let ages = AgeRules { target_ms, samples: 500, period_ms: 100, weight_old_percent: 70 };
    DirectRules { ages, first_milli: RATE_MAX, most_milli: RATE_MAX, ..DIRECT }
}

#[test]
fn at_twice_the_load_the_target_is_met_and_the_server_stays_busy() {
    for (target_ms, serves, settled_s) in
        [(1000, 100.0, 30), (300, 1000.0, 10), (300, 20_000.0, 10), (1000, 1000.0, 10)]
    {
        let mut controller = Proportional::new(fast(target_ms), 0);
        let bucket = Bucket::new(RATE_MAX, 64, 0, 0);
        let ran = run(&mut controller, bucket, |_| 2.0 * serves, every(serves), 60);
        let target = u64::from(target_ms);
        // The overload from which the controller learns its rate does not affect its target.
        for from_s in [settled_s, 30] {
            let p90 = ran.p90_ms(from_s, 2 * from_s);
            let met = (target * 8 / 10..=target * 12 / 10).contains(&p90);
            assert!(met, "{target}: {p90} from {from_s} s");
        }
        let share = ran.served_in(30, 60) as f64 / (30.0 * serves);
        assert!(share > 0.95, "{target}: {share}");
        for second in 30..60 {
            let p90 = ran.p90_ms(second, second + 1);
            assert!((target / 2..=target * 3 / 2).contains(&p90), "{target}: {p90} in {second}");
        }
    }
}

/// Few requests, one of twenty, wait for a disk, 30 ms on average. All ages of one decision are
/// alike, and those of the next differ.
#[test]
fn the_target_is_met_over_a_minute_where_few_take_long() {
    let takes_ns = |chance: &mut Chance| {
        let is_miss = chance.until_next(1.0) < SECOND / 20;
        chance.until_next(if is_miss { 33.0 } else { 10_000.0 })
    };
    let mut controller = Proportional::new(fast(300), 0);
    let bucket = Bucket::new(RATE_MAX, 64, 0, 0);
    let ran = run(&mut controller, bucket, |_| 1300.0, takes_ns, 90);
    let p90 = ran.p90_ms(30, 90);
    assert!((240..=360).contains(&p90), "{p90}");
    let served = ran.served_in(30, 90) / 60;
    assert!(served > 500, "{served} of about 640 a second");
}

/// The presets differ because the source's controller admits next to nothing for minutes. It begins
/// at 10 requests per second and adds half a request per second.
#[test]
fn the_steps_of_the_source_leave_the_server_idle() {
    let rules = DirectRules { ages: AgeRules { target_ms: 1000, ..AGES }, ..DIRECT };
    let (mut controller, bucket) = (Direct::new(rules, 0), Bucket::new(10_000, 10, 1, 0));
    let ran = run(&mut controller, bucket, |_| 2000.0, every(1000.0), 80);
    assert!(ran.p90_ms(5, 80) < 100, "{}", ran.p90_ms(5, 80));
    assert!(ran.served_in(5, 80) < 75 * 60, "{}", ran.served_in(5, 80));
}

/// Without admission, ages grow with time.
#[test]
fn without_admission_the_target_is_missed() {
    let mut controller = PoolSize::new(POOL, 0);
    let ran = run(&mut controller, Bucket::new(RATE_MAX, 64, 0, 0), |_| 2000.0, every(1000.0), 20);
    assert!(ran.p90_ms(10, 20) > 5000);
    assert_eq!(ran.refused, 0);
}

#[test]
fn below_the_load_nothing_is_refused_also_after_an_overload() {
    let mut controller = Proportional::new(fast(300), 0);
    let arrives = |second| if (20..30).contains(&second) { 2000.0 } else { 500.0 };
    let ran = run(&mut controller, Bucket::new(RATE_MAX, 64, 0, 0), arrives, every(1000.0), 20);
    assert_eq!(ran.refused, 0);
    let mut controller = Proportional::new(fast(300), 0);
    let ran = run(&mut controller, Bucket::new(RATE_MAX, 64, 0, 0), arrives, every(1000.0), 60);
    let admitted = ran.served_in(35, 60) as f64 / (25.0 * 500.0);
    assert!(admitted > 0.99, "{admitted}");
}

/// Requests arrive at twice the rate that can be served, each in two pieces. The gate admits the
/// first piece, which turns out not to be a request. Served requests have paid once.
#[test]
fn requests_in_pieces_leave_the_server_busy() {
    let arena = arena(1);
    let rules = GateRules {
        requests_max: 0,
        queue_max: 0,
        first_milli: RATE_MAX,
        depth: 64,
        refill_ms_min: 0,
        classes: 1,
        drops: false,
    };
    let gate = Gate::new(rules, Some(Box::new(Proportional::new(fast(300), 0))), 0);
    let (mut queue, mut served) = (VecDeque::new(), 0);
    for now in (0..20_000).map(|ms| ms * MS) {
        for _ in 0..2 {
            if !gate.admits(queue.len(), 0, now) {
                continue;
            }
            gate.takes_back(0);
            if gate.admits(queue.len(), 0, now) {
                queue.push_back(now);
            }
        }
        if let Some(since) = queue.pop_front() {
            gate.leaves(0, now - since);
            served += u32::from(now >= 10 * SECOND);
        }
        gate.decides(now, Tally::Striped(arena.slot(0)), &mut |_| ());
    }
    assert!(served > 9000, "{served} of 10000");
}
