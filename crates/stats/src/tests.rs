//! Held against scipy (`tests/oracle`), and against simulations whose truth is known.

use super::*;

const EXPECTED: &str = include_str!("../tests/oracle/expected.txt");

/// The rows of a kind: the sample and what scipy says of it.
fn rows(kind: &str) -> Vec<(Vec<f64>, Vec<f64>)> {
    let numbers =
        |text: &str| text.split(',').map(|number| number.parse().unwrap()).collect::<Vec<f64>>();
    let rows: Vec<_> = EXPECTED
        .lines()
        .filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' ')?.split_once(' '))
        .map(|(sample, said)| (numbers(sample), numbers(said)))
        .collect();
    assert!(!rows.is_empty(), "{kind}");
    rows
}

#[track_caller]
fn near(found: f64, said: f64, slack: f64) {
    assert!((found - said).abs() <= slack, "{found} is not {said}");
}

#[test]
fn rank_tests_are_scipys() {
    for kind in ["wilcoxon_exact", "wilcoxon_normal"] {
        for (sample, said) in rows(kind) {
            near(wilcoxon(&sample).unwrap(), said[1], 1e-9);
        }
    }
    assert_eq!(wilcoxon(&[0.0, 0.0]), None);
}

#[test]
fn quantile_intervals_are_scipys() {
    for (sample, said) in rows("quantile_interval") {
        match order_statistic_interval(&sample, said[0], 0.95) {
            Some(found) => assert_eq!((found.low, found.high), (said[1], said[2])),
            None => assert!(said[1].is_nan() || said[2].is_nan(), "{said:?}"),
        }
    }
    assert_eq!(order_statistic_interval(&[1.0, 2.0], 0.5, 0.95), None);
}

#[test]
fn p_values_are_scipys() {
    for (logs, said) in rows("hodges_lehmann") {
        let pairs: Vec<(f64, f64)> = logs.iter().map(|log| (log.exp(), 1.0)).collect();
        let effect = compare(&pairs).unwrap();
        near(effect.p, if logs.len() < 4 { 1.0 } else { said[3] }, 1e-9);
        let found = effect.interval.unwrap().map(f64::ln);
        near(found.low, said[1], 1e-9);
        near(found.high, said[2], 1e-9);
    }
    for (both, said) in rows("welch") {
        // The sizes of the two samples, and then their values.
        let (above, below) = both[2..].split_at(index(both[0]));
        assert_eq!(below.len(), index(both[1]));
        let found = welch(above, below).unwrap();
        let Interval { low, high } = found.interval(0.95);
        let wanted = [found.mean, low, high, found.p()];
        wanted.into_iter().zip(said).for_each(|(found, said)| near(found, said, 1e-9));
    }
    assert_eq!(welch(&[1.0], &[1.0, 2.0]), None);
    let alike = welch(&[1.0, 1.0], &[1.0, 1.0]).unwrap();
    assert_eq!((alike.p(), alike.interval(0.95)), (1.0, Interval { low: 0.0, high: 0.0 }));
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let mut random = Random::new(11);
    let runs = 300;
    let mut held = [0; 2];
    for _ in 0..runs {
        let logs: Vec<f64> = (0..6).map(|_| 0.3 + 0.1 * random.normal()).collect();
        let pairs: Vec<(f64, f64)> = logs.iter().map(|log| (log.exp(), 1.0)).collect();
        let effect = compare(&pairs).unwrap();
        let interval = effect.interval.unwrap();
        // The estimate is the middle of its interval.
        near(effect.ratio, (interval.low * interval.high).sqrt(), 1e-9);
        let many: Vec<f64> = (0..40).map(|_| random.exponential()).collect();
        let middle = order_statistic_interval(&many, 0.5, 0.95).unwrap();
        held[0] += u32::from(middle.contains(2.0_f64.ln()));
        // Two samples that vary differently.
        let few: Vec<f64> = (0..5).map(|_| 0.4 + 0.3 * random.normal()).collect();
        let apart = welch(&few, &logs).unwrap();
        held[1] += u32::from(apart.interval(0.95).contains(0.1));
    }
    // A binomial share of 300 tries at 95 % strays by 1.3 points; exact ones may hold more often.
    for (which, held) in held.into_iter().enumerate() {
        let share = f64::from(held) / 300.0;
        assert!((0.905..=0.99).contains(&share), "{which}: {share}");
    }
}

/// Logarithm of a block's ratio over the truth, in units of no meaning.
type Noise = fn(&mut Random) -> f64;

/// Student's t with four degrees of freedom: tails as of a machine that is sometimes disturbed.
fn heavy(random: &mut Random) -> f64 {
    let squares: f64 = (0..4).map(|_| random.normal().powi(2)).sum();
    random.normal() / (squares / 4.0).sqrt()
}

/// Two trials. Each loses twenty deviations to a neighbour one time in ten.
fn bursts(random: &mut Random) -> f64 {
    let mut trial = || {
        let slow = if random.unit() < 0.1 { 20.0 } else { 0.0 };
        random.normal() - slow
    };
    trial() - trial()
}

#[test]
fn few_blocks_promise_no_more_than_they_keep() {
    let noises: [(&str, Noise); 3] =
        [("normal", Random::normal), ("heavy tails", heavy), ("bursts", bursts)];
    let runs = 1_500;
    for blocks in 3..=7 {
        for (name, noise) in noises {
            let mut random = Random::new(19);
            let mut held = 0;
            for _ in 0..runs {
                let mut pair = || ((0.3 + 0.02 * noise(&mut random)).exp(), 1.0);
                let pairs: Vec<(f64, f64)> = (0..blocks).map(|_| pair()).collect();
                let interval = compare(&pairs).unwrap().interval.unwrap();
                held += u32::from(interval.contains(0.3_f64.exp()));
            }
            // 95 % of 1,500 stray by 0.6 points. Where the noise is normal, t is exact.
            let share = f64::from(held) / f64::from(runs);
            assert!(share >= 0.93, "{blocks} blocks, {name}: {share}");
            assert!(name != "normal" || share <= 0.97, "{blocks} blocks: {share}");
        }
    }
}

#[test]
fn warm_up_is_found() {
    let mut random = Random::new(5);
    let mut series: Vec<f64> = (0..200).map(|_| 100.0 + random.normal()).collect();
    assert!(mser5(&series).is_some_and(|cut| cut <= 25), "{:?}", mser5(&series));
    for (at, value) in series.iter_mut().enumerate().take(40) {
        *value *= count(at) / 40.0;
    }
    assert!(mser5(&series).is_some_and(|cut| (35..=60).contains(&cut)), "{:?}", mser5(&series));
    let ramp: Vec<f64> = (0..200).map(count).collect();
    assert_eq!(steady(&ramp), Steady::Never);
    assert_eq!(steady(&[1.0; 19]), Steady::Unknown);
}

#[test]
fn a_steady_trial_is_rarely_called_unsteady_and_a_step_is() {
    for seconds in [20, 40, 80, 140] {
        let (mut wrong, mut found) = (0, 0);
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let calm: Vec<f64> = (0..seconds).map(|_| 1_000.0 + 30.0 * random.normal()).collect();
            wrong += u32::from(steady(&calm) == Steady::Never);
            let late = seconds * 7 / 10;
            let step = |(at, value): (usize, &f64)| if at < late { 0.7 * value } else { *value };
            let stepped: Vec<f64> = calm.iter().enumerate().map(step).collect();
            found += u32::from(steady(&stepped) == Steady::Never);
        }
        // Of a hundred, one is expected where a difference of a twentieth is noise at all.
        assert!(wrong <= 4, "{wrong} of 100 steady ones of {seconds} s");
        // Twenty seconds show a step of six less often.
        let least = if seconds == 20 { 60 } else { 95 };
        assert!(found >= least, "{found} of 100 steps in {seconds} s");
    }
}

/// A machine whose speed drifts: a random walk, and now and then a slow stretch.
struct Drift {
    random: Random,
    level: f64,
    slow: u32,
    /// Share of trials that lose a third of their time.
    bursts: f64,
}

impl Drift {
    fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), level: 0.0, slow: 0, bursts: 0.0 }
    }

    /// Result of the next trial of a server of this `speed`.
    fn trial(&mut self, speed: f64) -> f64 {
        self.level = 0.95 * self.level + 0.015 * self.random.normal();
        if self.random.unit() < 0.02 {
            self.slow = 10;
        }
        self.slow = self.slow.saturating_sub(1);
        let slow = if self.slow > 0 { 0.15 } else { 0.0 };
        let burst = if self.random.unit() < self.bursts { 0.4 } else { 0.0 };
        speed * (self.level - slow - burst + 0.01 * self.random.normal()).exp()
    }
}

const BLOCKS: usize = 24;

/// Blocks of the baseline, the baseline again and the arm, shuffled within each block: the effects
/// of the last two.
fn interleaved(seed: u64, speed: f64) -> [Effect; 2] {
    blocks_of(&mut Drift::new(seed), seed, speed, BLOCKS)
}

fn blocks_of(drift: &mut Drift, seed: u64, speed: f64, blocks: usize) -> [Effect; 2] {
    let mut order = Random::new(seed + 1_000);
    let speeds = [1.0, 1.0, speed];
    let (mut same, mut arm) = (Vec::new(), Vec::new());
    for _ in 0..blocks {
        let mut turns = [0, 1, 2];
        order.shuffle(&mut turns);
        let mut shown = [0.0; 3];
        turns.iter().for_each(|turn| shown[*turn] = drift.trial(speeds[*turn]));
        same.push((shown[1], shown[0]));
        arm.push((shown[2], shown[0]));
    }
    [same, arm].map(|pairs| compare(&pairs).unwrap())
}

/// All trials of one, then all of the other, as benchmarks usually do.
fn sequential(seed: u64, speed: f64) -> bool {
    let mut drift = Drift::new(seed);
    let first: Vec<f64> = (0..BLOCKS).map(|_| drift.trial(1.0)).collect();
    let second: Vec<f64> = (0..BLOCKS).map(|_| drift.trial(speed)).collect();
    !welch(&first, &second).unwrap().interval(0.95).contains(0.0)
}

#[test]
fn the_same_program_twice_is_not_different() {
    let (mut found, mut fooled) = (0, 0);
    for seed in 0..60 {
        let [same, _] = interleaved(seed, 1.0);
        found += u32::from(same.verdict() != Verdict::NoDifference);
        fooled += u32::from(sequential(seed, 1.0));
    }
    // 5 % are to be found by accident: 3 of 60, give or take 1.7.
    assert!(found <= 8, "{found} of 60");
    // One after the other, "surely different" is said of more than half of them.
    assert!(fooled >= 20, "{fooled} of 60");
}

#[test]
fn a_planted_slowdown_is_found_with_sign_and_size() {
    let (mut found, mut held, mut wrong) = (0, 0, 0);
    for seed in 0..20 {
        let [_, arm] = interleaved(seed, 0.95);
        found += u32::from(arm.verdict() == Verdict::Less);
        wrong += u32::from(arm.verdict() == Verdict::More);
        held += u32::from(arm.interval.unwrap().contains(0.95));
    }
    assert_eq!(wrong, 0);
    assert!(found >= 16, "{found} of 20");
    assert!(held >= 17, "{held} of 20");
}

/// A machine on which one trial in twenty loses a third of its time to a neighbour.
#[test]
fn bursts_do_not_hide_five_per_cent() {
    let (mut found, mut wrong, mut fooled) = (0, 0, 0);
    for seed in 0..20 {
        let mut drift = Drift { bursts: 0.05, ..Drift::new(seed) };
        let [same, arm] = blocks_of(&mut drift, seed, 0.95, 24);
        found += u32::from(arm.verdict() == Verdict::Less);
        wrong += u32::from(arm.verdict() == Verdict::More);
        fooled += u32::from(same.verdict() != Verdict::NoDifference);
    }
    assert!(found >= 16 && wrong == 0 && fooled <= 3, "{found} {wrong} {fooled}");
}

#[test]
fn trimmed_intervals_hold_the_truth() {
    let mut random = Random::new(17);
    let mut held = [0; 2];
    for _ in 0..400 {
        for (which, burst) in [0.0, 0.1].into_iter().enumerate() {
            let mut trial = || {
                let slow = if random.unit() < burst { 0.3 } else { 0.0 };
                (0.02 * random.normal() - slow).exp()
            };
            let pairs: Vec<(f64, f64)> = (0..12).map(|_| (0.95 * trial(), trial())).collect();
            let interval = compare(&pairs).unwrap().interval.unwrap();
            held[which] += u32::from(interval.contains(0.95));
        }
    }
    for held in held {
        let share = f64::from(held) / 400.0;
        assert!((0.92..=0.995).contains(&share), "{share}");
    }
}

#[test]
fn too_few_blocks_tell_nothing() {
    let effect = compare(&[(1.0, 2.0), (1.0, 2.1), (1.0, 1.9)]).unwrap();
    assert!(effect.interval.unwrap().high < 1.0, "which three blocks do have");
    assert_eq!((effect.p, effect.verdict()), (1.0, Verdict::CannotTell));
    assert_eq!(compare(&[(1.0, 2.0), (1.0, 2.1)]).unwrap().interval, None);
    assert_eq!(compare(&[(0.0, 1.0), (1.0, f64::NAN)]), None);
    assert_eq!(compare(&[(1.0, 1.0); 6]).unwrap().verdict(), Verdict::NoDifference);
}

/// An effect whose own 95 % interval leaves out 1 by a little: of a family it may not be told, and
/// then its interval has to hold 1. A run once said "no difference" of 16.8 to 110.1 %.
#[test]
fn a_verdict_agrees_with_the_interval_next_to_it() {
    let mut random = Random::new(31);
    let mut family = || -> Vec<Effect> {
        let mut pair = || ((0.1 + 0.1 * random.normal()).exp(), 1.0);
        (0..6).map(|_| compare(&(0..8).map(|_| pair()).collect::<Vec<_>>()).unwrap()).collect()
    };
    let mut lost = 0;
    for _ in 0..50 {
        let mut together = family();
        let alone: Vec<Verdict> = together.iter().map(Effect::verdict).collect();
        // Rows that decide nothing by themselves do not widen the others.
        together.push(compare(&[(1.0, 2.0); 3]).unwrap());
        judge_together(together.iter_mut(), 1);
        assert_eq!(together[6].verdict(), Verdict::CannotTell);
        for (one, alone) in together.iter().zip(alone) {
            let holds_1 = one.interval.unwrap().contains(1.0);
            assert_eq!(holds_1, one.verdict() == Verdict::NoDifference, "{one:?}");
            assert_eq!(one.p < 0.05, !holds_1, "{one:?}");
            lost += u32::from(alone == Verdict::More && holds_1);
        }
    }
    assert!(lost > 20, "{lost} are told alone and not among six");
    let mut few = [compare(&[(1.0, 2.0); 3]).unwrap(), family()[0]];
    let alone = few[1];
    judge_together(few.iter_mut(), 1);
    assert_eq!(few[1], alone, "a family of one");
}

/// The level of one among fifty, where a run has many arms or is looked at often.
#[test]
fn intervals_of_a_family_are_as_sure_as_they_say() {
    let level = shared(LEVEL, 50);
    for blocks in [8, 12, 20] {
        let (mut random, mut missed) = (Random::new(41), 0);
        for _ in 0..20_000 {
            let sample: Vec<f64> = (0..blocks).map(|_| random.normal()).collect();
            missed += u32::from(!Located::of(&sample).unwrap().interval(level).contains(0.0));
        }
        // Of 20,000 a thousandth is 20.
        assert!(missed <= 26, "{blocks} blocks: {missed} of 20,000 miss the truth");
    }
}

/// The promises of the method at any noise: one program compared with itself, verdicts on planted
/// differences, and the differences that are found.
#[test]
fn errors_are_as_rare_as_is_promised() {
    let blocks_of = |random: &mut Random, ratio: f64, noise: f64, blocks: usize| {
        let mut trial = || (noise * random.normal()).exp();
        let pairs: Vec<(f64, f64)> = (0..blocks).map(|_| (ratio * trial(), trial())).collect();
        compare(&pairs).unwrap()
    };
    for (noise, seed) in [(0.05, 50), (0.1, 100), (0.25, 250)] {
        let mut random = Random::new(seed);
        for blocks in [5, 8, 12] {
            let mut held = 0;
            for _ in 0..500 {
                let same = blocks_of(&mut random, 1.0, noise, blocks);
                held += u32::from(same.verdict() == Verdict::NoDifference);
            }
            let share = f64::from(held) / 500.0;
            assert!((0.93..=0.97).contains(&share), "A/A at {noise}, {blocks} blocks: {share}");
            let mut wrong = 0;
            for run in 0..200 {
                let (ratio, opposite) = match run % 2 {
                    0 => (0.95, Verdict::More),
                    _ => (1.05, Verdict::Less),
                };
                let effect = blocks_of(&mut random, ratio, noise, blocks);
                wrong += u32::from(effect.verdict() == opposite);
            }
            assert!(wrong <= 10, "at {noise}, {blocks} blocks: {wrong} of 200 are wrong");
        }
    }
    let mut random = Random::new(5);
    for run in 0..10 {
        let effect = blocks_of(&mut random, 0.95, 0.05, 40);
        assert_eq!(effect.verdict(), Verdict::Less, "planted difference {run}: {effect:?}");
    }
}
