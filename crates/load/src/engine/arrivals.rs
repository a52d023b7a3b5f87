//! Arrivals of requests or sessions: a schedule that is a pure function of its seed.
//!
//! Arrival `k` is due when the integral of the rate reaches the `k`-th point of a unit-rate
//! process. The points are the whole numbers (constant), a Poisson process, or uniform gaps
//! (httperf's `d`, `e`, `u`). Every worker generates the same sequence and takes its share, so that
//! the schedule does not depend on their number.

use crate::number::nanos_of;
use crate::workload::popularity::{Purpose, stream, unit};
use clap::ValueEnum;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

/// Distribution of arrivals around the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    // httperf's d, e and u.
    /// Equal gaps.
    #[default]
    Constant,
    /// A Poisson process.
    Poisson,
    /// Gaps uniform between nothing and twice the mean.
    Uniform,
}

/// Stretch of time over which the rate changes linearly from `from` to `to`, per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    pub seconds: f64,
    pub from: f64,
    pub to: f64,
}

/// A rate that may change: stretches in order, then the last rate for ever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    pub stretches: Vec<Stretch>,
}

/// The highest rate, per second.
pub const RATE_MAX: f64 = 100e6;

impl Rate {
    pub fn constant(per_s: f64) -> Self {
        Self { stretches: vec![Stretch { seconds: 1.0, from: per_s, to: per_s }] }
    }

    pub fn ramp(from: f64, to: f64, seconds: f64) -> Self {
        Self { stretches: vec![Stretch { seconds, from, to }] }
    }

    /// Reads `RATE`, `FROM:TO` (a ramp over `ramp_s` seconds), or `RATE@SECONDS,RATE@SECONDS...`
    /// (httperf's `v`, and the `spike` workload's phases).
    pub fn parse(text: &str, ramp_s: f64) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong(text));
        let rate = if let Some((from, to)) = text.split_once(':') {
            Self::ramp(number(from)?, number(to)?, ramp_s)
        } else if text.contains('@') {
            let stretches = text.split(',').map(|part| {
                let (rate, seconds) = part.split_once('@').ok_or_else(|| wrong(part))?;
                let (rate, seconds) = (number(rate)?, number(seconds)?);
                Ok(Stretch { seconds, from: rate, to: rate })
            });
            Self { stretches: stretches.collect::<Result<_, String>>()? }
        } else {
            Self::constant(number(text)?)
        };
        rate.problem().map_or(Ok(rate), Err)
    }

    pub fn problem(&self) -> Option<String> {
        let sound = |s: &Stretch| {
            let rates = [s.from, s.to].iter().all(|r| (0.0..=RATE_MAX).contains(r));
            rates && s.seconds > 0.0 && s.seconds.is_finite()
        };
        let what = "a rate is 0 to 100,000,000 per second, its stretches last some time, and one \
                    of them is not 0";
        let some = self.stretches.iter().any(|s| s.from > 0.0 || s.to > 0.0);
        (!some || !self.stretches.iter().all(sound)).then(|| what.to_owned())
    }

    /// Arrivals expected in the first `seconds`.
    pub fn expected(&self, seconds: f64) -> f64 {
        let (mut sum, mut left) = (0.0, seconds);
        for stretch in &self.stretches {
            let time = left.clamp(0.0, stretch.seconds);
            let end = stretch.from + (stretch.to - stretch.from) * time / stretch.seconds;
            sum += (stretch.from + end) / 2.0 * time;
            left -= time;
        }
        sum + self.stretches.last().map_or(0.0, |last| last.to) * left.max(0.0)
    }
}

fn wrong(text: &str) -> String {
    format!("{text:?} is not a rate: give RATE, FROM:TO, or RATE@SECONDS,...")
}

/// The times of all arrivals, or of one worker's share of them.
#[derive(Debug)]
pub struct Schedule {
    rate: Rate,
    arrivals: Arrivals,
    random: Pcg64,
    /// Point of the unit-rate process.
    point: f64,
    /// Stretch of the last arrival, its start, and the integral up to there.
    at: usize,
    start_s: f64,
    area: f64,
    number: u64,
    worker: u64,
    workers: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number in the whole schedule, from 0.
    pub number: u64,
    /// Due time, nanoseconds after the start.
    pub at_ns: u64,
}

impl Schedule {
    /// The share of `worker` among `workers` in the schedule of `seed`.
    pub fn new(rate: &Rate, arrivals: Arrivals, seed: u64, worker: u32, workers: u32) -> Self {
        Self {
            rate: rate.clone(),
            arrivals,
            random: stream(seed, 0, Purpose::Arrival),
            point: 0.0,
            at: 0,
            start_s: 0.0,
            area: 0.0,
            number: 0,
            worker: worker.into(),
            workers: u64::from(workers).max(1),
        }
    }

    fn gap(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Constant => 1.0,
            Arrivals::Poisson => -(1.0 - unit(&mut self.random)).ln(),
            Arrivals::Uniform => 2.0 * unit(&mut self.random),
        }
    }

    /// The time at which the integral of the rate reaches `point`; `None` if it never does.
    fn time_of(&mut self, point: f64) -> Option<f64> {
        loop {
            let last = self.rate.stretches.last()?.to;
            let Some(&Stretch { seconds, from, to }) = self.rate.stretches.get(self.at) else {
                return (last > 0.0).then(|| self.start_s + (point - self.area) / last);
            };
            let area = (from + to) / 2.0 * seconds;
            let rest = point - self.area;
            if rest < area {
                // rest = from·t + slope·t²/2, solved so that nothing cancels.
                let slope = (to - from) / seconds;
                let root = (from * from + 2.0 * slope * rest).max(0.0).sqrt();
                let time = if rest == 0.0 { 0.0 } else { 2.0 * rest / (from + root) };
                return Some(self.start_s + time);
            }
            self.area += area;
            self.start_s += seconds;
            self.at += 1;
        }
    }
}

impl Iterator for Schedule {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            // The first of equal gaps is due at once; random ones start with a gap.
            if self.number > 0 || self.arrivals != Arrivals::Constant {
                self.point += self.gap();
            }
            let number = self.number;
            self.number += 1;
            if number % self.workers == self.worker {
                let at_ns = nanos_of(self.time_of(self.point)?);
                return Some(Arrival { number, at_ns });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rate: &Rate, arrivals: Arrivals, count: usize) -> Vec<f64> {
        let schedule = Schedule::new(rate, arrivals, 7, 0, 1);
        schedule.take(count).map(|a| a.at_ns as f64 / 1e9).collect()
    }

    #[test]
    fn constant_gaps_are_equal_and_do_not_drift() {
        let times = times(&Rate::constant(5_000.0), Arrivals::Constant, 1_000_000);
        assert_eq!(times[0], 0.0);
        assert!((times[999_999] - 199.9998).abs() < 1e-6, "{}", times[999_999]);
    }

    #[test]
    fn random_gaps_have_the_rate_and_their_own_spread() {
        for (arrivals, cv) in [(Arrivals::Poisson, 1.0), (Arrivals::Uniform, 3.0_f64.sqrt() / 3.0)]
        {
            let times = times(&Rate::constant(100.0), arrivals, 200_001);
            let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let var = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((mean * 100.0 - 1.0).abs() < 0.01, "{mean}");
            assert!((var.sqrt() / mean / cv - 1.0).abs() < 0.02, "{}", var.sqrt() / mean);
        }
    }

    #[test]
    fn ramps_and_steps_follow_the_integral() {
        let ramp = Rate::parse("100:300", 10.0).unwrap();
        assert_eq!(ramp.expected(10.0), 2_000.0);
        assert_eq!(ramp.expected(11.0), 2_300.0);
        let all = times(&ramp, Arrivals::Constant, 3_000);
        for second in 0..12 {
            let (from, to) = (f64::from(second), f64::from(second + 1));
            let count = all.iter().filter(|&&t| (from..to).contains(&t)).count() as f64;
            let expected = ramp.expected(to) - ramp.expected(from);
            assert!((count - expected).abs() <= 1.0, "second {second}: {count}, not {expected}");
        }
        let down = Rate::parse("100:0", 2.0).unwrap();
        assert_eq!(times(&down, Arrivals::Constant, 1_000).len(), 100, "then nothing for ever");
        let steps = Rate::parse("10@2,0@3,20@1", 0.0).unwrap();
        let all = times(&steps, Arrivals::Constant, 40);
        assert_eq!(all.iter().filter(|&&t| t < 2.0).count(), 20);
        assert!(all[20] >= 5.0 - 1e-9 && all[39] < 6.0, "{} {}", all[20], all[39]);
    }

    #[test]
    fn shares_make_up_the_whole() {
        let rate = Rate::constant(1_000.0);
        let of = |worker, workers| Schedule::new(&rate, Arrivals::Poisson, 3, worker, workers);
        let mut shares: Vec<Arrival> = (0..3).flat_map(|w| of(w, 3).take(100)).collect();
        shares.sort_unstable_by_key(|a| a.number);
        assert_eq!(shares, of(0, 1).take(300).collect::<Vec<_>>());
    }

    #[test]
    fn bad_rates_are_refused() {
        for text in ["", "x", "-1", "0", "1:", "5@", "5@0", "1e9", "nan", "10@inf"] {
            assert!(Rate::parse(text, 10.0).is_err(), "{text}");
        }
    }
}
