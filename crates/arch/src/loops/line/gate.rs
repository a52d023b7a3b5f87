//! The entrance of a pipeline, which admits requests or turns them away. Requests take a place in
//! the line there, and release it when they leave it.
use crate::{
    control::{Adjustment, Bucket, Controller, Decided, Inputs, Sample},
    sync::lock,
};
use regatta_metrics::{Counter, Dial, Tally};
use std::{
    mem,
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
};

/// Ages that are kept between two decisions at most.
const AGES_MAX: usize = 4096;

/// Rules of a gate.
#[derive(Clone, Copy, Debug)]
pub struct GateRules {
    /// The most requests in the line; 0: no limit.
    pub requests_max: usize,
    /// The most that may wait behind the gate; 0: no limit.
    pub queue_max: u32,
    /// The rate in the beginning, thousandths of a request a second; 0: no limit.
    pub first_milli: u64,
    /// Most that are admitted at once after a while in which few came.
    pub depth: u32,
    /// The least time in which one more may come, milliseconds.
    pub refill_ms_min: u32,
    /// Classes of requests, each with a rate of its own.
    pub classes: u8,
    /// Closes connections that it turns away, without an answer.
    pub drops: bool,
}

/// The entrance of a pipeline.
#[derive(Debug)]
pub struct Gate {
    rules: GateRules,
    in_line: AtomicUsize,
    queue_max: AtomicU32,
    /// `None`: nothing is decided, and no rate limits.
    rate: Option<Mutex<Rate>>,
}

#[derive(Debug)]
struct Rate {
    controller: Box<dyn Controller>,
    classes: Vec<Class>,
    decided: Vec<Decided>,
    decisions: u64,
}

#[derive(Debug)]
struct Class {
    bucket: Bucket,
    /// Number refused by its rate.
    refused: u64,
    ages_ns: Vec<u64>,
    /// Ages that were sampled last: memory for the next ages.
    sampled_ns: Vec<u64>,
}

impl Gate {
    /// A gate whose rate, or queue, this controller sets, if one does.
    #[must_use]
    pub fn new(rules: GateRules, controller: Option<Box<dyn Controller>>, now_ns: u64) -> Self {
        let GateRules { first_milli, depth, refill_ms_min, classes, .. } = rules;
        let class = |_| Class {
            bucket: Bucket::new(first_milli, depth, refill_ms_min, now_ns),
            refused: 0,
            ages_ns: Vec::new(),
            sampled_ns: Vec::new(),
        };
        let rate = controller.map(|controller| {
            let classes = (0..classes.max(1)).map(class).collect();
            Mutex::new(Rate { controller, classes, decided: Vec::new(), decisions: 0 })
        });
        let (in_line, queue_max) = (AtomicUsize::new(0), AtomicU32::new(rules.queue_max));
        Self { rules, in_line, queue_max, rate }
    }

    /// Admits a request of this class while `waiting` wait behind the gate: true if it has a place.
    pub fn admits(&self, waiting: usize, class: u8, now_ns: u64) -> bool {
        let (all, most) = (self.rules.requests_max, self.queue_max.load(Relaxed) as usize);
        let has_room = |in_line: usize| (all == 0 || in_line < all).then_some(in_line + 1);
        let fits = most == 0 || waiting < most;
        let admitted = fits && self.in_line.fetch_update(Relaxed, Relaxed, has_room).is_ok();
        let Some(rate) = &self.rate else { return admitted };
        let mut rate = lock(rate);
        let class = rate.class(class);
        let is_within = admitted && class.bucket.admit(now_ns);
        // Where there is no room, it is not the rate that limits.
        class.refused += u64::from(admitted && !is_within);
        drop(rate);
        if admitted && !is_within {
            self.gives_back();
        }
        is_within
    }

    /// True if a controller goes by the ages of requests.
    #[must_use]
    pub const fn counts_ages(&self) -> bool {
        self.rate.is_some()
    }

    /// True if connections that are turned away get no answer.
    #[must_use]
    pub const fn drops(&self) -> bool {
        self.rules.drops
    }

    /// Releases the place of a request that leaves the line without an answer, or before it is
    /// known whether there is one.
    pub fn gives_back(&self) {
        let before = self.in_line.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "who leaves has come in");
    }

    /// Releases the place of what was no whole request, and refunds what it took of the rate.
    pub fn takes_back(&self, class: u8) {
        self.gives_back();
        if let Some(rate) = &self.rate {
            lock(rate).class(class).bucket.give();
        }
    }

    /// Notes that the answer to a request has reached the end of the line, at this age.
    pub fn leaves(&self, class: u8, age_ns: u64) {
        self.gives_back();
        if let Some(rate) = &self.rate {
            let mut rate = lock(rate);
            let ages_ns = &mut rate.class(class).ages_ns;
            if ages_ns.len() < AGES_MAX {
                ages_ns.push(age_ns);
            }
        }
    }

    /// Requests that are in the line.
    #[must_use]
    pub fn in_line(&self) -> usize {
        self.in_line.load(Relaxed)
    }

    /// Ends a batch: shows the controller what has come out, does what it decides, and reports that
    /// to `tell`. The slot of `tally` shows what is set.
    pub fn decides(&self, now_ns: u64, tally: Tally<'_>, tell: &mut dyn FnMut(&Decided)) {
        let Some(rate) = &self.rate else { return };
        let mut locked = lock(rate);
        let rate = &mut *locked;
        // The highest first, as in the source: what it takes from lower ones, these do not ask for.
        for (number, class) in rate.classes.iter_mut().enumerate().rev() {
            mem::swap(&mut class.ages_ns, &mut class.sampled_ns);
            let sample = Sample {
                queue: self.in_line() as u64,
                refused: mem::take(&mut class.refused),
                takes: class.sampled_ns.len() as u64,
                ages_ns: &class.sampled_ns,
                class: u8::try_from(number).unwrap_or(u8::MAX),
                ..Sample::default()
            };
            rate.controller.observe(&sample, now_ns, &mut rate.decided);
            class.sampled_ns.clear();
        }
        let decided = mem::take(&mut rate.decided);
        for decided in &decided {
            rate.decisions += 1;
            show(decided, tally);
            tally.slot().set_dial(Dial::Decisions, rate.decisions);
            match decided.decision {
                Some(Adjustment::Rate { class, milli_per_s }) => {
                    let last = rate.classes.len() - 1;
                    rate.classes[usize::from(class).min(last)].bucket.set(milli_per_s);
                }
                Some(Adjustment::QueueMax(most)) => self.queue_max.store(most, Relaxed),
                Some(Adjustment::Threads(_) | Adjustment::Batch(_)) | None => {}
            }
        }
        // A log may wait for its disk: no request is to wait for that at the gate.
        drop(locked);
        decided.iter().for_each(tell);
    }
}

impl Rate {
    fn class(&mut self, class: u8) -> &mut Class {
        let last = self.classes.len() - 1;
        &mut self.classes[usize::from(class).min(last)]
    }
}

/// Counts a decision, and shows what it sets.
pub fn show(decided: &Decided, tally: Tally<'_>) {
    tally.add(Counter::Decisions, 1);
    if let Some(decision) = decided.decision {
        tally.add(Counter::DecisionsChanged, 1);
        let (dial, value) = match decision {
            Adjustment::Threads(threads) => (Dial::Threads, threads.into()),
            Adjustment::Batch(most) => (Dial::BatchMost, most.into()),
            Adjustment::Rate { milli_per_s, .. } => (Dial::AdmitMilliPerS, milli_per_s),
            Adjustment::QueueMax(most) => (Dial::QueueMax, most.into()),
        };
        tally.slot().set_dial(dial, value);
    }
    if let Inputs::Ages { age_ns, .. } = decided.inputs {
        tally.slot().set_dial(Dial::AgeP90Ns, age_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{AgeRules, DirectRules, Multiclass};
    use regatta_testkit::counters::arena;

    const RULES: GateRules = GateRules {
        requests_max: 0,
        queue_max: 0,
        first_milli: 0,
        depth: 2,
        refill_ms_min: 0,
        classes: 2,
        drops: false,
    };

    #[test]
    fn without_bounds_nobody_is_turned_away() {
        let gate = Gate::new(RULES, None, 0);
        assert!((0..10_000).all(|waiting| gate.admits(waiting, 0, 0)));
        assert_eq!(gate.in_line(), 10_000);
    }

    #[test]
    fn places_and_queues_are_bounded_and_places_are_given_back() {
        let gate = Gate::new(GateRules { requests_max: 3, queue_max: 5, ..RULES }, None, 0);
        assert!(gate.admits(4, 0, 0) && !gate.admits(5, 0, 0) && gate.admits(0, 0, 0));
        assert!(gate.admits(0, 9, 0) && !gate.admits(0, 0, 0));
        gate.leaves(0, 7);
        assert!(gate.admits(0, 0, 0) && !gate.admits(0, 0, 0));
        gate.gives_back();
        assert_eq!(gate.in_line(), 2);
    }

    /// A head may come in pieces, and each is let in before it is known to be only a piece.
    #[test]
    fn a_piece_of_a_request_costs_nothing() {
        let rules = GateRules { requests_max: 1, first_milli: 1000, depth: 1, ..RULES };
        let gate = Gate::new(rules, Some(Box::new(Script(Vec::new()))), 0);
        for _ in 0..3 {
            assert!(gate.admits(0, 0, 0) && !gate.admits(0, 0, 0));
            gate.takes_back(0);
        }
        // A whole one does.
        assert!(gate.admits(0, 0, 0));
        gate.leaves(0, 7);
        assert!(!gate.admits(0, 0, 0) && gate.in_line() == 0);
    }

    /// Checks what it has been shown, and decides what the script says.
    #[derive(Debug)]
    struct Script(Vec<Adjustment>);

    impl Controller for Script {
        fn observe(&mut self, sample: &Sample<'_>, _: u64, out: &mut Vec<Decided>) {
            if sample.class == 1 {
                assert_eq!((sample.refused, sample.ages_ns), (1, &[30, 40][..]));
                let inputs = Inputs::Ages { age_ns: 40, milli_per_s: 0 };
                out.extend(self.0.pop().map(|to| Decided { decision: Some(to), inputs }));
            }
        }
    }

    #[test]
    fn what_is_decided_is_done_shown_and_told() {
        let arena = arena(1);
        let script = Script(vec![
            Adjustment::QueueMax(1),
            Adjustment::Rate { class: 1, milli_per_s: 500_000 },
        ]);
        let rules = GateRules { first_milli: 1000, ..RULES };
        let gate = Gate::new(rules, Some(Box::new(script)), 0);
        let round = |now_ns: u64| {
            // Two tokens for each class, and what one request leaves is not the other's.
            let admitted: Vec<_> = (0..3).map(|_| gate.admits(0, 1, now_ns)).collect();
            gate.leaves(1, 30);
            gate.leaves(1, 40);
            let mut told = Vec::new();
            gate.decides(now_ns, Tally::Striped(arena.slot(0)), &mut |decided| {
                told.push(decided.to_string())
            });
            (admitted, told)
        };
        let [yes, no] = [true, false];
        let rate = "rate=500.000 class=1: age_ms=0.000 served=0.000".to_owned();
        assert_eq!(round(0), (vec![yes, yes, no], vec![rate]));
        // 4 ms at 500 a second.
        let most = "queue_max=1: age_ms=0.000 served=0.000".to_owned();
        assert_eq!(round(4_000_000), (vec![yes, yes, no], vec![most]));
        assert!(gate.admits(0, 0, 0) && !gate.admits(1, 0, 0));
        assert_eq!(gate.in_line(), 1);
        let slot = arena.view().slots().next().unwrap();
        let dials = [Dial::AdmitMilliPerS, Dial::QueueMax, Dial::AgeP90Ns, Dial::Decisions];
        assert_eq!(dials.map(|dial| slot.dial(dial)), [500_000, 1, 40, 2]);
        assert_eq!(slot.get(Counter::DecisionsChanged), 2);
    }

    #[test]
    fn a_class_that_is_late_decides_before_lower_ones() {
        let arena = arena(1);
        let ages = AgeRules { target_ms: 1000, samples: 1, period_ms: 1000, weight_old_percent: 0 };
        let rules = DirectRules {
            ages,
            first_milli: 100_000,
            most_milli: 1_000_000,
            add_milli: 500,
            divide_percent: 120,
        };
        let gate = Gate::new(RULES, Some(Box::new(Multiclass::new(2, rules, 0))), 0);
        for (class, age_ms) in [(0, 100), (1, 2000)] {
            assert!(gate.admits(0, class, 0));
            gate.leaves(class, age_ms * 1_000_000);
        }
        let mut decided = Vec::new();
        gate.decides(1, Tally::Striped(arena.slot(0)), &mut |one| decided.push(one.decision));
        let rate = |class, milli_per_s| Some(Adjustment::Rate { class, milli_per_s });
        // The lower one would have had 101.6 before it fell by ten.
        assert_eq!(decided, [rate(0, 10_000), rate(1, 83_333), None]);
    }
}
