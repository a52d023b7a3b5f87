//! Sequences of events, chosen and random.
use super::*;
use SuccessionEvent::{AllReady, Asked, ExecFailed, NewFailed, OldGone, Stop, Time, TrialEnded};

const UPGRADE: Kind = Kind::Upgrade;
const RELOAD: Kind = Kind::Reload;
const ROOT: Kind = Kind::Root;
const START: Tick = Tick(1_000_000);

fn earlier(number: u64, leaves: bool) -> Earlier {
    Earlier { number, leaves }
}

/// Checks the acts after an event, all at the same time.
#[track_caller]
fn check(succession: &mut Succession, event: SuccessionEvent, acts: &[Act]) {
    assert_eq!(succession.handle(event, START), acts, "{event:?}");
}

#[test]
fn a_request_is_tried_and_then_executed() {
    let mut first = Succession::new();
    check(&mut first, AllReady, &[]);
    check(&mut first, Asked(RELOAD), &[Act::Try(RELOAD)]);
    check(&mut first, TrialEnded(TrialVerdict::Good), &[Act::Exec(RELOAD)]);
    let mut second = Succession::after_exec(vec![earlier(1, false)], first.asked(), START);
    check(&mut second, AllReady, &[Act::LeaveOld, Act::Report(Outcome::Done)]);
    check(&mut second, OldGone(1), &[]);
    // A worker that fails later is replaced as ever.
    check(&mut second, NewFailed, &[]);
    assert!(!second.is_waiting());
    assert_eq!(second.wake_at(), Tick::NEVER);
}

#[test]
fn a_faulty_trial_changes_nothing() {
    for verdict in [TrialVerdict::Faulty, TrialVerdict::Died] {
        let mut succession = Succession::new();
        check(&mut succession, Asked(UPGRADE), &[Act::Try(UPGRADE)]);
        let refused = Act::Report(Outcome::Refused(verdict));
        check(&mut succession, TrialEnded(verdict), &[refused]);
        check(&mut succession, Asked(RELOAD), &[Act::Try(RELOAD)]);
        check(&mut succession, TrialEnded(TrialVerdict::Good), &[Act::Exec(RELOAD)]);
        check(&mut succession, ExecFailed, &[Act::Report(Outcome::NotExecuted)]);
        assert!(!succession.is_waiting());
    }
}

#[test]
fn requests_that_come_meanwhile_are_one() {
    let mut succession = Succession::new();
    check(&mut succession, Asked(RELOAD), &[Act::Try(RELOAD)]);
    for kind in [RELOAD, UPGRADE, RELOAD] {
        check(&mut succession, Asked(kind), &[]);
    }
    assert_eq!(succession.asked(), Some(UPGRADE));
    let refused = Act::Report(Outcome::Refused(TrialVerdict::Faulty));
    check(&mut succession, TrialEnded(TrialVerdict::Faulty), &[refused, Act::Try(UPGRADE)]);
    // A request during the trial outlives the image.
    check(&mut succession, Asked(RELOAD), &[]);
    check(&mut succession, TrialEnded(TrialVerdict::Good), &[Act::Exec(UPGRADE)]);
    let mut next = Succession::after_exec(vec![earlier(1, false)], succession.asked(), START);
    check(&mut next, AllReady, &[Act::LeaveOld, Act::Report(Outcome::Done), Act::Try(RELOAD)]);
}

/// A moved root is followed with the configuration in force: an image with another one, which
/// cannot begin, does not follow it.
#[test]
fn a_root_is_followed_by_who_serves() {
    let not_started = Act::Report(Outcome::NotStarted);
    let mut succession = Succession::after_exec(vec![earlier(1, false)], Some(ROOT), START);
    check(&mut succession, NewFailed, &[Act::KillNew, not_started, not_started]);
    check(&mut succession, Asked(ROOT), &[]);
    check(&mut succession, Asked(RELOAD), &[Act::Try(RELOAD)]);
    let mut serving = Succession::new();
    check(&mut serving, Asked(ROOT), &[Act::Try(ROOT)]);
    // A reload uses the file as it is now.
    check(&mut serving, Asked(ROOT), &[]);
    check(&mut serving, Asked(RELOAD), &[]);
    assert_eq!(serving.asked(), Some(RELOAD));
}

/// A killed trial is reaped: its end must not be mistaken for that of the next.
#[test]
fn a_trial_that_takes_too_long_is_killed() {
    let mut succession = Succession::new();
    assert_eq!(succession.handle(Asked(RELOAD), START), [Act::Try(RELOAD)]);
    let late = START.after(TRIAL_MS_MAX);
    assert_eq!(succession.wake_at(), late);
    assert!(succession.handle(Time, Tick(late.0 - 1)).is_empty());
    assert_eq!(succession.handle(Time, late), [Act::KillTrial]);
    assert!(succession.handle(Time, late).is_empty(), "once");
    assert!(succession.handle(Asked(RELOAD), late).is_empty());
    // The verdict was good, and too late.
    let ended = succession.handle(TrialEnded(TrialVerdict::Good), late);
    assert_eq!(ended, [Act::Report(Outcome::Refused(TrialVerdict::Late)), Act::Try(RELOAD)]);
}

#[test]
fn workers_that_cannot_begin_leave_the_old_ones_serving() {
    for (failure, at) in [(NewFailed, START), (Time, START.after(START_MS_MAX))] {
        let old = vec![earlier(3, true), earlier(4, false)];
        let mut succession = Succession::after_exec(old, None, START);
        let acts = succession.handle(failure, at);
        assert_eq!(acts, [Act::KillNew, Act::Report(Outcome::NotStarted)]);
        assert!(succession.is_waiting());
        check(&mut succession, OldGone(3), &[]);
        // The configuration has been repaired.
        check(&mut succession, Asked(RELOAD), &[Act::Try(RELOAD)]);
        // The last serving generation has died meanwhile.
        check(&mut succession, OldGone(4), &[]);
        let refused = Act::Report(Outcome::Refused(TrialVerdict::Faulty));
        check(&mut succession, TrialEnded(TrialVerdict::Faulty), &[refused, Act::GiveUp]);
        check(&mut succession, Asked(RELOAD), &[Act::Report(Outcome::Dropped)]);
    }
}

#[test]
fn a_further_request_waits_while_too_many_generations_are_leaving() {
    let old = (1..=4).map(|number| earlier(number, number < 4)).collect();
    let mut succession = Succession::after_exec(old, None, START);
    check(&mut succession, AllReady, &[Act::LeaveOld, Act::Report(Outcome::Done)]);
    check(&mut succession, Asked(RELOAD), &[]);
    assert_eq!(succession.pending(), 0, "a command that waited for it would not ask");
    check(&mut succession, Asked(UPGRADE), &[]);
    check(&mut succession, Asked(RELOAD), &[]);
    check(&mut succession, OldGone(2), &[Act::Try(UPGRADE)]);
    assert_eq!(succession.pending(), 1);
}

#[test]
fn a_stop_ends_what_is_under_way() {
    let dropped = Act::Report(Outcome::Dropped);
    let mut trying = Succession::new();
    check(&mut trying, Asked(RELOAD), &[Act::Try(RELOAD)]);
    check(&mut trying, Asked(RELOAD), &[]);
    check(&mut trying, Stop, &[Act::KillTrial, dropped, dropped]);
    check(&mut trying, TrialEnded(TrialVerdict::Good), &[]);
    check(&mut trying, Stop, &[]);
    let mut starting = Succession::after_exec(vec![earlier(1, false)], None, START);
    check(&mut starting, Stop, &[Act::DrainOld, dropped]);
    check(&mut starting, AllReady, &[]);
    let mut waiting = Succession::after_exec(vec![earlier(1, false)], None, START);
    check(&mut waiting, NewFailed, &[Act::KillNew, Act::Report(Outcome::NotStarted)]);
    check(&mut waiting, Stop, &[Act::DrainOld]);
    check(&mut waiting, OldGone(1), &[]);
    check(&mut Succession::new(), Stop, &[]);
}

/// A generator of dice (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Model of a server: the effects of acts, and what must hold.
struct World {
    succession: Succession,
    now: Tick,
    generation: u64,
    /// All generations but that of this image.
    old: Vec<Earlier>,
    own_serves: bool,
    starting: bool,
    /// A trial that has not been reaped, and whether it was killed.
    trial: Option<bool>,
    /// The program is to be executed.
    exec: bool,
    /// Requests that were not merged with others, and the number of answers.
    requests: u64,
    reports: u64,
    ended: bool,
}

impl World {
    fn new() -> Self {
        Self {
            succession: Succession::new(),
            now: START,
            generation: 1,
            old: Vec::new(),
            own_serves: true,
            starting: false,
            trial: None,
            exec: false,
            requests: 0,
            reports: 0,
            ended: false,
        }
    }

    /// Picks an event that may happen now.
    fn happens(&mut self, dice: &mut Dice) -> SuccessionEvent {
        match dice.below(12) {
            0 | 1 => Asked(match dice.below(4) {
                0 => UPGRADE,
                1 => ROOT,
                _ => RELOAD,
            }),
            2..=4 if self.trial.is_some() => TrialEnded(match dice.below(4) {
                0 => TrialVerdict::Faulty,
                1 => TrialVerdict::Died,
                _ => TrialVerdict::Good,
            }),
            5 | 6 if self.starting => AllReady,
            7 if self.starting => NewFailed,
            8 | 9 if !self.old.is_empty() => {
                let at = usize::try_from(dice.below(self.old.len() as u64)).unwrap_or(0);
                // Serving ones crash now and then; leaving ones will be gone.
                if !self.old[at].leaves && dice.below(8) != 0 {
                    return Time;
                }
                OldGone(self.old.swap_remove(at).number)
            }
            10 if dice.below(200) == 0 => Stop,
            _ => {
                self.now = self.now.after(dice.below(4_000));
                Time
            }
        }
    }

    fn step(&mut self, event: SuccessionEvent, dice: &mut Dice) {
        match event {
            // The configuration of this image is not in force.
            Asked(ROOT) if self.succession.is_waiting() => {}
            Asked(_) if self.succession.asked().is_none() => self.requests += 1,
            AllReady | NewFailed => self.starting = false,
            _ => {}
        }
        let killed = match event {
            TrialEnded(_) => self.trial.take(),
            _ => None,
        };
        let good = event == TrialEnded(TrialVerdict::Good) && killed == Some(false);
        for act in self.succession.handle(event, self.now) {
            self.act(act, event, good);
        }
        if event == Stop {
            (self.ended, self.starting) = (true, false);
        }
        if std::mem::take(&mut self.exec) {
            self.execute(dice);
        }
        let waiting = u64::from(self.succession.asked().is_some());
        assert_eq!(self.succession.pending() + waiting, self.requests - self.reports);
        let leaving = self.old.iter().filter(|old| old.leaves).count();
        assert!(leaving <= GENERATIONS_MAX, "{leaving} are leaving");
        let old_serve = self.old.iter().any(|old| !old.leaves);
        assert_eq!(self.succession.is_waiting(), !self.own_serves && !self.starting);
        assert!(
            self.ended || self.own_serves || self.starting || old_serve || self.trial.is_some(),
            "nobody serves, and nobody says so"
        );
    }

    fn act(&mut self, act: Act, event: SuccessionEvent, good: bool) {
        match act {
            Act::Try(kind) => {
                assert!(kind != ROOT || self.own_serves, "the configuration is not in force");
                assert!(self.trial.is_none() && !self.starting && !self.ended);
                self.trial = Some(false);
            }
            Act::KillTrial => {
                assert_eq!(self.trial, Some(false));
                self.trial = Some(true);
            }
            Act::Exec(_) => {
                assert!(good, "only what a trial has found good, in time");
                self.exec = true;
            }
            Act::LeaveOld => {
                assert_eq!(event, AllReady, "the new ones serve first");
                self.old.iter_mut().for_each(|old| old.leaves = true);
            }
            Act::KillNew => {
                assert!(!self.own_serves, "who serves is not killed");
                self.starting = false;
            }
            Act::DrainOld => {
                assert_eq!(event, Stop);
                self.old.iter_mut().for_each(|old| old.leaves = true);
            }
            Act::Report(outcome) => {
                self.reports += 1;
                self.own_serves |= outcome == Outcome::Done;
            }
            Act::GiveUp => {
                let old_serve = self.old.iter().any(|old| !old.leaves);
                assert!(!self.own_serves && !old_serve);
                self.ended = true;
            }
        }
    }

    fn execute(&mut self, dice: &mut Dice) {
        if dice.below(6) == 0 {
            return self.step(ExecFailed, dice);
        }
        if self.own_serves {
            self.old.push(earlier(self.generation, false));
        }
        self.generation += 1;
        (self.own_serves, self.starting) = (false, true);
        let asked = self.succession.asked();
        self.succession = Succession::after_exec(self.old.clone(), asked, self.now);
    }
}

#[test]
fn whatever_happens_somebody_serves_and_each_request_is_answered() {
    let mut outcomes = 0;
    for seed in 0..20_000 {
        let (mut world, mut dice) = (World::new(), Dice(seed));
        for _ in 0..60 {
            let event = world.happens(&mut dice);
            world.step(event, &mut dice);
            if world.ended {
                break;
            }
        }
        if !world.ended {
            world.step(Stop, &mut dice);
        }
        assert_eq!(world.reports, world.requests, "seed {seed}");
        outcomes += world.reports;
    }
    assert!(outcomes > 20_000, "{outcomes}: too little happens");
}
