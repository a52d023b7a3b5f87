//! Random schedules of helpers that start or do not, answer in any order and die at any time,
//! against a plain account of who waits for what.
use super::*;
use crate::kit::dice::{Dice, SEEDS};
use regatta_metrics::{Arena, Gauge};
use regatta_op::Codings;
use regatta_sys::{Bell, OpenRules, Root, open_below, read_range};
use std::{collections::BTreeSet, os::fd::AsFd, sync::atomic::AtomicU64};

/// Helpers that the dice move.
pub(crate) struct Moved<'a> {
    dice: Dice,
    bell: Bell,
    place: Option<(&'a Root, OpenRules)>,
    helpers: Vec<State>,
    /// Which root is served, and by helper which it has.
    root: u32,
    roots: Vec<u32>,
    /// Helpers die and cannot be started.
    pub(crate) ill: bool,
    /// How much they may say before there is nothing to hear for now.
    pub(crate) breath: usize,
    /// They take breath by themselves.
    talkative: bool,
    /// The disk does not answer, now and then.
    hang: bool,
}

#[derive(Debug)]
enum State {
    Away,
    Idle,
    Busy(Errand),
    /// For ever.
    Hung,
    Dead,
}

impl<'a> Moved<'a> {
    /// None yet. They run errands below the root, or only say so.
    pub(crate) fn new(seed: u64, place: Option<(&'a Root, OpenRules)>) -> Self {
        let (dice, bell) = (Dice::new(seed ^ u64::MAX), Bell::new().unwrap());
        let (helpers, talkative, hang) = (Vec::new(), false, false);
        let (root, roots) = (0, Vec::new());
        Self { dice, bell, place, helpers, root, roots, ill: true, breath: 0, talkative, hang }
    }

    /// These, who need not be told that they may speak.
    pub(crate) fn talkative(self) -> Self {
        Self { talkative: true, ..self }
    }

    /// These, of whom some wait for the disk for ever.
    pub(crate) fn hanging(self) -> Self {
        Self { hang: true, ..self }
    }

    fn count(&self) -> usize {
        self.helpers.iter().filter(|state| !matches!(state, State::Away)).count()
    }

    fn run(&mut self, errand: Errand) -> Outcome {
        match (errand, self.place) {
            (Errand::Open(_), None) => Outcome::Found,
            (Errand::Open(req), Some((root, rules))) if self.dice.once_in(2) => {
                Outcome::Opened(open_below(root, &req, rules))
            }
            (Errand::Open(_), Some(_)) => Outcome::Found,
            (Errand::Touch(_), _) => Outcome::Touched,
            (Errand::Read(req), _) => Outcome::Read(read_range(req)),
        }
    }
}

impl Crew for Moved<'_> {
    fn hire(&mut self) -> io::Result<usize> {
        if self.ill && self.dice.once_in(4) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let free = self.helpers.iter().position(|state| matches!(state, State::Away));
        let at = free.unwrap_or(self.helpers.len());
        self.helpers.resize_with(self.helpers.len().max(at + 1), || State::Away);
        self.helpers[at] = State::Idle;
        self.roots.resize(self.helpers.len(), 0);
        self.roots[at] = self.root;
        Ok(at)
    }

    fn give(&mut self, helper: usize, errand: &mut Errand) -> io::Result<()> {
        assert_eq!(self.roots[helper], self.root, "it would look below the root of before");
        match self.helpers[helper] {
            State::Idle if self.hang && self.dice.once_in(12) => {
                self.helpers[helper] = State::Hung;
                Ok(())
            }
            State::Idle => {
                self.helpers[helper] = State::Busy(errand.lend());
                Ok(())
            }
            State::Dead => Err(io::ErrorKind::BrokenPipe.into()),
            ref state => panic!("an errand for a helper that is {state:?}"),
        }
    }

    fn dismiss(&mut self, helper: usize) {
        let state = std::mem::replace(&mut self.helpers[helper], State::Away);
        assert!(matches!(state, State::Idle | State::Dead), "dismissed while {state:?}");
    }

    fn renew_root(&mut self) {
        self.root += 1;
    }

    fn hear(&mut self) -> Option<(usize, Option<Outcome>)> {
        if self.breath == 0 {
            self.breath = if self.talkative { self.dice.below(4) } else { 0 };
            return None;
        }
        self.breath -= 1;
        let mut there: Vec<usize> = (0..self.helpers.len()).collect();
        while let Some(at) = self.dice.take(&mut there) {
            let dies = self.ill && self.dice.once_in(8);
            match std::mem::replace(&mut self.helpers[at], State::Away) {
                State::Away => {}
                State::Hung => self.helpers[at] = State::Hung,
                // Who dies without an errand is heard of later, or found out when given one.
                State::Idle if dies => self.helpers[at] = State::Dead,
                State::Idle => self.helpers[at] = State::Idle,
                State::Busy(_) if dies => {
                    self.helpers[at] = State::Dead;
                    return Some((at, None));
                }
                State::Busy(errand) => {
                    self.helpers[at] = State::Idle;
                    return Some((at, Some(self.run(errand))));
                }
                State::Dead => {
                    self.helpers[at] = State::Dead;
                    return Some((at, None));
                }
            }
        }
        None
    }

    fn source(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Helpers<'_, Moved<'_>> {
    /// They have something to say; in the end all that is left, and nobody dies any more.
    pub(crate) fn stir(&mut self, dice: &mut Dice, over: bool) {
        self.crew.breath = if over { usize::MAX } else { dice.below(6) };
        self.crew.ill &= !over;
    }
}

/// Whose job it is, and which of theirs.
fn name(job: &Job) -> (u64, u16) {
    (job.key, job.purpose.ticket().expect("an open has one").0)
}

/// What must hold between any two calls.
fn check(helpers: &Helpers<'_, Moved<'_>>, waiting: &BTreeSet<(u64, u16)>) {
    let Helpers { crew, limits, waiting: known, queue, busy, idle, count, .. } = helpers;
    assert_eq!(*count, crew.count(), "who is there");
    assert!(*count <= limits.helpers_max);
    assert!(queue.is_empty() || *count > 0, "nobody would ever come for the queue");
    assert!(queue.is_empty() || idle.is_empty(), "a helper and an errand wait for each other");
    let jobs = queue.values().chain(busy.iter().flatten());
    let waited = jobs.filter(|job| known.is_waited_for(job.key, job.turn));
    let keys: Vec<_> = waited.map(name).collect();
    assert_eq!(keys.len(), waiting.len(), "each waits once");
    assert!(queue.len() <= waiting.len() && known.len() == waiting.len(), "nobody else does");
    assert!(keys.iter().all(|key| waiting.contains(key)));
}

/// Takes what helpers say; each that is told of was waiting.
fn hear(helpers: &mut Helpers<'_, Moved<'_>>, waiting: &mut BTreeSet<(u64, u16)>, breath: usize) {
    helpers.crew.breath = breath;
    while let Some((job, _)) = helpers.news() {
        let told = helpers.waiting.is_told(job.key, job.turn);
        assert_eq!(told, waiting.remove(&name(&job)), "{} did not wait", job.key);
    }
    assert!(helpers.idle.len() <= helpers.limits.helpers_max);
}

#[test]
fn every_errand_ends_once_whoever_dies() {
    let words: Vec<AtomicU64> = (0..Arena::words(1)).map(|_| AtomicU64::new(0)).collect();
    let (mut asked, mut by_the_loop, mut lost) = (0, 0, 0);
    for seed in 0..SEEDS {
        words.iter().for_each(|word| word.store(0, std::sync::atomic::Ordering::Relaxed));
        let arena = Arena::create(&words, 1);
        let tally = Tally::Owned(arena.slot(0));
        let mut dice = Dice::new(seed);
        let limits = Limits { helpers_max: 1 + dice.below(5), helpers_idle_max: dice.below(4) };
        let mut helpers = Helpers::new(Moved::new(seed, None), limits, tally);
        let mut waiting = BTreeSet::new();
        let mut asks = 0;
        for _ in 0..300 {
            match dice.below(5) {
                0 | 1 => {
                    asks += 1;
                    // Four of each connection.
                    let one = (asks / 4, u16::try_from(asks % 4).unwrap());
                    let req = OpenReq { path: (*b"a").into(), siblings: Codings::NONE };
                    let purpose = Purpose::Open(Ticket(one.1));
                    match helpers.ask(Job::new(one.0, purpose, Errand::Open(req))) {
                        Ok(()) => assert!(waiting.insert(one)),
                        Err(job) => assert_eq!(name(&job), one),
                    }
                }
                2 => {
                    let ones: Vec<_> = waiting.iter().copied().collect();
                    match ones.get(dice.below(ones.len() + 1)).copied() {
                        Some((key, ticket)) if key % 2 == 0 => {
                            helpers.forget(key, Abandoned::One(Ticket(ticket)));
                            waiting.remove(&(key, ticket));
                        }
                        Some((key, _)) => {
                            helpers.forget(key, Abandoned::All);
                            waiting.retain(|(other, _)| *other != key);
                        }
                        None => {}
                    }
                }
                3 if dice.once_in(8) => {
                    helpers.renew_root();
                    assert!(helpers.idle.is_empty(), "who is idle has the root of before open");
                }
                _ => hear(&mut helpers, &mut waiting, dice.below(6)),
            }
            check(&helpers, &waiting);
        }
        helpers.crew.ill = false;
        hear(&mut helpers, &mut waiting, usize::MAX);
        check(&helpers, &waiting);
        assert!(waiting.is_empty(), "seed {seed}: {waiting:?} wait for ever");
        assert!(
            helpers.idle.len() <= limits.helpers_idle_max.max(1),
            "seed {seed}: a larger reserve"
        );
        let slot = arena.slot(0);
        assert_eq!(slot.get(Counter::HelperTasksOpen), asks);
        assert_eq!(slot.gauge(Gauge::HelpersOpen), helpers.count as u64, "seed {seed}");
        asked += asks;
        by_the_loop += slot.get(Counter::HelperTasksSelf);
        lost += slot.get(Counter::HelpersLost);
    }
    assert!(asked > 20_000 && by_the_loop > 100 && lost > 1000, "{asked} {by_the_loop} {lost}");
}
