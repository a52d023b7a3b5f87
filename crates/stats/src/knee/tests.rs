//! The search held against queues whose knee is known.

use super::*;
use crate::Random;

/// A server with one queue, on a machine whose speed varies from trial to trial.
struct Queue {
    random: Random,
    /// Requests per second that it can serve.
    speed: f64,
    /// Whether service times are exponential; else all are alike.
    exponential: bool,
    /// Variation of the machine's speed between trials, as a share.
    noise: f64,
}

/// Requests in a trial.
const REQUESTS: usize = 8_000;

impl Queue {
    /// Response times of a Poisson load (Lindley's recursion), ascending, seconds.
    fn times(&mut self, rate: f64) -> Vec<f64> {
        let speed = self.speed * (self.noise * self.random.normal()).exp();
        let mut wait = 0.0_f64;
        let mut times: Vec<f64> = (0..REQUESTS)
            .map(|_| {
                let work = if self.exponential { self.random.exponential() } else { 1.0 } / speed;
                let time = wait + work;
                wait = (time - self.random.exponential() / rate).max(0.0);
                time
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// A trial with the level p99 < `limit` seconds.
    fn p99(&mut self, rate: f64, limit: f64) -> Tried {
        let times = self.times(rate);
        if times[REQUESTS * 99 / 100] < limit {
            return Tried::Met;
        }
        let mut terms = vec!["p99".to_owned()];
        if times[REQUESTS / 2] > limit {
            terms.push("p50".to_owned());
        }
        Tried::Broken(terms)
    }
}

#[track_caller]
fn knee(knee: &Knee) -> (f64, Interval, &str) {
    match &knee.found {
        Found::Knee { rate, interval, broken } => (*rate, *interval, broken),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_knee_of_a_queue_is_found_within_a_few_per_cent() {
    let mut held = 0;
    for seed in 0..10 {
        let random = Random::new(seed);
        let mut queue = Queue { random, speed: 1_000.0, exponential: true, noise: 0.01 };
        // M/M/1: P(T > t) = exp(-(speed - rate) t), so p99 < 0.02 s up to speed - ln(100) / 0.02.
        let truth = 1_000.0 - 100.0_f64.ln() / 0.02;
        let result = search(&Search::from(100.0), |rate| Some(queue.p99(rate, 0.02)));
        let (rate, interval, broken) = knee(&result);
        // A percentile of 8,000 waits that hang together strays more than the machine does.
        assert!((rate / truth - 1.0).abs() < 0.035, "{seed}: {rate} for {truth}");
        assert_eq!(broken, "p99");
        assert!(result.tried.len() <= 60);
        // The finite trial moves the knee by up to 1 %: the interval is of what trials show.
        held += u32::from(interval.low * 0.99 <= truth && truth <= interval.high * 1.01);
    }
    assert!(held >= 9, "{held} of 10");
}

#[test]
fn the_broken_term_is_named_where_answers_are_lost() {
    // Constant work; what waits longer than 50 ms is lost, and 1 % may be. Of M/D/1 at a load of r
    // exp(-2 (1 - r) n) wait for more than n services: the knee is at 0.954 of the speed.
    let mut queue =
        Queue { random: Random::new(3), speed: 1_000.0, exponential: false, noise: 0.01 };
    let result = search(&Search::from(250.0), |rate| {
        let times = queue.times(rate);
        let lost = times.iter().filter(|time| **time > 0.05).count();
        Some(if lost * 100 <= REQUESTS {
            Tried::Met
        } else {
            Tried::Broken(vec!["goodput".to_owned()])
        })
    });
    let (rate, _, broken) = knee(&result);
    assert!((rate / 954.0 - 1.0).abs() < 0.03, "{rate}");
    assert_eq!(broken, "goodput");
}

#[test]
fn a_trial_that_lies_costs_only_trials() {
    let mut asked = 0;
    let result = search(&Search::from(100.0), |rate| {
        asked += 1;
        let met = (rate < 777.0) != (asked % 9 == 4);
        Some(if met { Tried::Met } else { Tried::Broken(vec!["p99".to_owned()]) })
    });
    let (rate, interval, _) = knee(&result);
    assert!((rate / 777.0 - 1.0).abs() < 0.03, "{rate} {interval:?}");
}

#[test]
fn no_knee_is_an_answer_too() {
    let limits = Search { rate_max: 5_000.0, ..Search::from(100.0) };
    let found = search(&limits, |_| Some(Tried::Met)).found;
    assert_eq!(found, Found::NotUpTo { rate: 5_000.0 });
    let broken = || Some(Tried::Broken(vec!["errors".to_owned()]));
    let found = search(&limits, |_| broken()).found;
    assert!(
        matches!(&found, Found::NowhereAbove { rate, broken }
            if *rate < 0.2 && broken == &["errors"]),
        "{found:?}"
    );
    let client = |rate: f64| {
        let limit = || Tried::Invalid("a thread was busy".to_owned());
        Some(if rate < 1_000.0 { Tried::Met } else { limit() })
    };
    let found = search(&limits, client).found;
    assert!(matches!(&found, Found::LimitedByClient { rate, .. } if *rate > 1_000.0), "{found:?}");
    assert_eq!(search(&limits, |_| None).found, Found::Interrupted);
    // It never takes more trials than it may.
    let few = Search { trials_max: 3, ..limits };
    for shown in [Tried::Met, broken().unwrap(), client(2_000.0).unwrap()] {
        let knee = search(&few, |_| Some(shown.clone()));
        assert!(knee.tried.len() == 3 && knee.found != Found::Interrupted, "{knee:?}");
    }
}

#[test]
fn overload_and_recovery() {
    let overload = Overload { knee: 1_000.0, times: 2.0, stretch_s: 10.0 };
    assert_eq!(overload.rates(), "700.0@10,2000.0@10,700.0@10");
    assert_eq!(recovery_s(&[100.0, 690.0, 400.0, 700.0, 700.0, 690.0], 700.0), Some(3));
    assert_eq!(recovery_s(&[700.0; 3], 700.0), Some(0));
    assert_eq!(recovery_s(&[700.0, 0.0, 700.0], 700.0), None);
}

/// A server whose knee is at `knee`, on a machine that strays by `noise` from trial to trial and
/// moves by `drift` over sixty.
struct Machine {
    random: Random,
    noise: f64,
    drift: f64,
    trials: f64,
}

impl Machine {
    fn try_at(&mut self, knee: f64, rate: f64) -> Tried {
        let speed = self.noise * self.random.normal() + self.drift * (self.trials / 60.0 - 0.5);
        self.trials += 1.0;
        let met = rate < knee * speed.exp();
        if met { Tried::Met } else { Tried::Broken(vec!["p99".to_owned()]) }
    }
}

#[test]
fn intervals_of_the_knee_hold_it_however_noisy_the_machine() {
    const RUNS: u32 = 30;
    for (noise, drift) in [(0.05, 0.0), (0.1, 0.0), (0.25, 0.0), (0.1, 0.1)] {
        let (mut held, mut reach) = (0, 0.0);
        for seed in 0..RUNS {
            let random = Random::new(u64::from(seed));
            let mut machine = Machine { random, noise, drift, trials: 0.0 };
            let start = 300.0 * (1.0 + machine.random.unit());
            let found = search(&Search::from(start), |rate| Some(machine.try_at(1_000.0, rate)));
            let (_, interval, _) = knee(&found);
            held += u32::from(interval.contains(1_000.0));
            reach += (interval.high / interval.low).ln() / 2.0 / f64::from(RUNS);
        }
        assert!(held + 2 >= RUNS, "{noise} {drift}: {held} of {RUNS}");
        // Sixty trials that say yes or no tell a median to about half a deviation.
        assert!(reach < 0.02 + 0.5 * noise, "{noise} {drift}: {reach}");
    }
}

#[test]
fn arms_that_take_turns_are_compared_beside_a_drift_that_hits_both() {
    const RUNS: u32 = 12;
    let limits = Search { goal: 0.001, ..Search::from(500.0) };
    let (mut held, mut narrower) = (0, 0);
    for seed in 0..RUNS {
        // Of each round both see the same drift.
        let knees = [900.0, 1_000.0].map(|knee| {
            let random = Random::new(2 * u64::from(seed) + u64::from(knee < 950.0));
            let mut machine = Machine { random, noise: 0.05, drift: 0.2, trials: 0.0 };
            search(&limits, |rate| Some(machine.try_at(knee, rate)))
        });
        let (middle, interval) =
            ratio([&knees[0], &knees[1]].map(|one| &*one.tried), limits.trials_max, 0.95).unwrap();
        held += u32::from(interval.contains(0.9));
        assert!((middle / 0.9).ln().abs() < 0.12, "{middle}");
        let reach = |interval: Interval| (interval.high / interval.low).ln();
        let each = knees.each_ref().map(|one| reach(knee(one).1));
        narrower += u32::from(reach(interval) < each[0].hypot(each[1]));
    }
    assert!(held + 1 >= RUNS, "{held} of {RUNS}");
    assert!(4 * narrower >= 3 * RUNS, "{narrower} of {RUNS} are narrower than by each alone");
    assert_eq!(ratio([&[], &[]], limits.trials_max, 0.95), None);
}
