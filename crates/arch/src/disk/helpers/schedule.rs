//! Random schedules of helpers that fail to start, reply in any order and die at any time, compared
//! with a simple list of the connections that wait.
use super::*;
use crate::testing::dice::{Dice, SEEDS};
use regatta_metrics::Gauge;
use regatta_op::Codings;
use regatta_sys::{Bell, FileSystem, OpenRules, Root, hook, open_below, read_range};
use regatta_testkit::counters::arena;
use std::{collections::BTreeSet, os::fd::AsFd};

/// Helpers that do what the dice say.
pub(crate) struct RandomHelpers<'a> {
    dice: Dice,
    bell: Bell,
    place: Option<(&'a Root, OpenRules)>,
    helpers: Vec<State>,
    /// The current root, and by helper the one that it uses.
    root: u32,
    roots: Vec<u32>,
    /// Helpers die and fail to start.
    pub(crate) failing: bool,
    /// Results that may be taken before there are none for now.
    pub(crate) results_left: usize,
    /// More results are allowed after each pause, without a call of `stir`.
    unpaced: bool,
    /// Now and then the disk never replies.
    hang: bool,
    /// The file system, as if a helper had opened a file of it.
    system: Option<FileSystem>,
}

#[derive(Debug)]
enum State {
    Away,
    Idle,
    Busy(HelperTask),
    /// For ever.
    Hung,
    Dead,
}

impl<'a> RandomHelpers<'a> {
    /// No helpers yet. They run tasks below the root, or only pretend to.
    pub(crate) fn new(seed: u64, place: Option<(&'a Root, OpenRules)>) -> Self {
        let (dice, bell) = (Dice::new(seed ^ u64::MAX), Bell::new().unwrap());
        let (helpers, unpaced, hang) = (Vec::new(), false, false);
        let (root, roots) = (0, Vec::new());
        Self {
            dice,
            bell,
            place,
            helpers,
            root,
            roots,
            failing: true,
            results_left: 0,
            unpaced,
            hang,
            system: None,
        }
    }
    /// The root is known to be on a disk of this machine.
    pub(crate) fn local(self) -> Self {
        let device = self.place.and_then(|(root, _)| root.device());
        let system = device.map(|device| FileSystem { device, opens_in_memory: true });
        Self { system, ..self }
    }
    /// Results come without a call of `stir`.
    pub(crate) fn unpaced(self) -> Self {
        Self { unpaced: true, ..self }
    }
    /// Some helpers wait for the disk for ever.
    pub(crate) fn hanging(self) -> Self {
        Self { hang: true, ..self }
    }

    fn count(&self) -> usize {
        self.helpers.iter().filter(|state| !matches!(state, State::Away)).count()
    }

    fn run(&mut self, task: HelperTask) -> TaskResult {
        match (task, self.place) {
            (HelperTask::Open(_), None) => TaskResult::Found,
            (HelperTask::Open(req), Some((root, rules))) if self.dice.once_in(2) => {
                TaskResult::Opened(open_below(root, &req, rules))
            }
            (HelperTask::Open(_), Some(_)) => TaskResult::Found,
            (HelperTask::Touch(_), _) => TaskResult::Touched,
            (HelperTask::Read(req), _) => TaskResult::Read(read_range(req)),
        }
    }
}

impl HelperPool for RandomHelpers<'_> {
    fn start(&mut self) -> io::Result<usize> {
        if self.failing && self.dice.once_in(4) {
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

    fn assign(&mut self, helper: usize, task: &mut HelperTask) -> io::Result<()> {
        assert_eq!(self.roots[helper], self.root, "it would look below the old root");
        match self.helpers[helper] {
            State::Idle if self.hang && self.dice.once_in(12) => {
                self.helpers[helper] = State::Hung;
                Ok(())
            }
            State::Idle => {
                self.helpers[helper] = State::Busy(task.lend());
                Ok(())
            }
            State::Dead => Err(io::ErrorKind::BrokenPipe.into()),
            ref state => panic!("a task for a helper that is {state:?}"),
        }
    }

    fn stop(&mut self, helper: usize) {
        let state = std::mem::replace(&mut self.helpers[helper], State::Away);
        assert!(matches!(state, State::Idle | State::Dead), "stopped while {state:?}");
    }

    fn renew_root(&mut self) {
        self.root += 1;
    }

    fn next_result(&mut self) -> Option<(usize, Option<TaskResult>)> {
        if self.results_left == 0 {
            self.results_left = if self.unpaced { self.dice.below(4) } else { 0 };
            return None;
        }
        self.results_left -= 1;
        let mut there: Vec<usize> = (0..self.helpers.len()).collect();
        while let Some(at) = self.dice.take(&mut there) {
            let dies = self.failing && self.dice.once_in(8);
            match std::mem::replace(&mut self.helpers[at], State::Away) {
                State::Away => {}
                State::Hung => self.helpers[at] = State::Hung,
                // The death of an idle helper is noticed later, or when it is given a task.
                State::Idle if dies => self.helpers[at] = State::Dead,
                State::Idle => self.helpers[at] = State::Idle,
                State::Busy(_) if dies => {
                    self.helpers[at] = State::Dead;
                    return Some((at, None));
                }
                State::Busy(task) => {
                    self.helpers[at] = State::Idle;
                    return Some((at, Some(self.run(task))));
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

    fn file_system(&self) -> Option<FileSystem> {
        self.system
    }
}

impl Helpers<'_, RandomHelpers<'_>> {
    /// Allows some results; at the end all that are left, and no more deaths.
    pub(crate) fn stir(&mut self, dice: &mut Dice, over: bool) {
        self.pool.results_left = if over { usize::MAX } else { dice.below(6) };
        self.pool.failing &= !over;
    }
}

/// The connection of a job, and its ticket.
fn name(job: &HelperJob) -> (u64, u16) {
    (job.key, job.purpose.ticket().expect("an open has one").0)
}

/// Checks what must hold between any two calls.
fn check(helpers: &Helpers<'_, RandomHelpers<'_>>, waiting: &BTreeSet<(u64, u16)>) {
    let Helpers { pool, limits, waiters: known, queue, busy, idle, count, .. } = helpers;
    assert_eq!(*count, pool.count(), "helpers counted");
    let of_old_roots = helpers.leaves.iter().filter(|leaves| **leaves).count();
    assert_eq!(helpers.leaving, of_old_roots, "helpers that leave");
    assert!(helpers.counted() <= limits.helpers_max);
    assert!(queue.is_empty() || *count > 0, "no helper would ever take from the queue");
    assert!(queue.is_empty() || idle.is_empty(), "a helper and a task wait for each other");
    let jobs = queue.values().chain(busy.iter().flatten());
    let waited = jobs.filter(|job| known.contains(job.key, job.sequence));
    let keys: Vec<_> = waited.map(name).collect();
    assert_eq!(keys.len(), waiting.len(), "each connection that waits has its job");
    assert!(queue.len() <= waiting.len() && known.len() == waiting.len(), "nothing else is queued");
    assert!(keys.iter().all(|key| waiting.contains(key)));
}

/// Takes results: each is for a connection that waits, unless it was forgotten.
fn take_results(
    helpers: &mut Helpers<'_, RandomHelpers<'_>>,
    waiting: &mut BTreeSet<(u64, u16)>,
    results_left: usize,
) {
    helpers.pool.results_left = results_left;
    while let Some((job, _)) = helpers.next_finished() {
        let waited = helpers.waiters.remove(job.key, job.sequence);
        assert_eq!(waited, waiting.remove(&name(&job)), "{} did not wait", job.key);
    }
    assert!(helpers.idle.len() <= helpers.limits.helpers_max, "those that leave are not idle");
}

/// Submits one more task, which finds all helpers idle for long.
fn ask_long_after(
    helpers: &mut Helpers<'_, RandomHelpers<'_>>,
    waiting: &mut BTreeSet<(u64, u16)>,
) {
    hook::set_time(1_000 * HelperLimits::PROMPT.idle_ns_min, 0);
    let req = OpenReq { path: (*b"a").into(), siblings: Codings::NONE };
    if helpers
        .submit(HelperJob::new(u64::MAX, Purpose::Open(Ticket(0)), HelperTask::Open(req)))
        .is_ok()
    {
        waiting.insert((u64::MAX, 0));
        take_results(helpers, waiting, usize::MAX);
    }
}

/// Every fourth seed waits before it starts further helpers.
fn limits(seed: u64, dice: &mut Dice) -> HelperLimits {
    HelperLimits {
        helpers_max: 1 + dice.below(5),
        helpers_idle_max: dice.below(4),
        start_ns_min: if seed.is_multiple_of(4) { 1_000_000_000 } else { 0 },
        ..HelperLimits::PROMPT
    }
}

#[test]
fn every_task_ends_once_whichever_helper_dies() {
    let (mut submitted, mut by_the_loop, mut lost) = (0, 0, 0);
    for seed in 0..SEEDS {
        let arena = arena(1);
        let tally = Tally::Owned(arena.slot(0));
        let mut dice = Dice::new(seed);
        let limits = limits(seed, &mut dice);
        let mut helpers = Helpers::new(RandomHelpers::new(seed, None), limits, tally);
        let mut waiting = BTreeSet::new();
        let mut asks = 0;
        for step in 0..300 {
            hook::set_time(step * limits.idle_ns_min / 8, 0);
            match dice.below(5) {
                0 | 1 => {
                    // Four of each connection.
                    asks += 1;
                    let one = (asks / 4, u16::try_from(asks % 4).unwrap());
                    let req = OpenReq { path: (*b"a").into(), siblings: Codings::NONE };
                    let purpose = Purpose::Open(Ticket(one.1));
                    match helpers.submit(HelperJob::new(one.0, purpose, HelperTask::Open(req))) {
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
                    assert!(helpers.idle.is_empty(), "idle helpers have the old root open");
                }
                _ => take_results(&mut helpers, &mut waiting, dice.below(6)),
            }
            check(&helpers, &waiting);
        }
        helpers.pool.failing = false;
        take_results(&mut helpers, &mut waiting, usize::MAX);
        check(&helpers, &waiting);
        assert!(waiting.is_empty(), "seed {seed}: {waiting:?} wait for ever");
        ask_long_after(&mut helpers, &mut waiting);
        asks += 1;
        check(&helpers, &waiting);
        hook::clear();
        let idle = helpers.idle.len();
        assert!(idle <= limits.helpers_idle_max.max(1), "seed {seed}: a reserve of {idle}");
        let slot = arena.slot(0);
        assert_eq!(slot.get(Counter::HelperTasksOpen), asks);
        assert_eq!(slot.gauge(Gauge::HelpersOpen), helpers.count as u64, "seed {seed}");
        submitted += asks;
        by_the_loop += slot.get(Counter::HelperTasksSelf);
        lost += slot.get(Counter::HelpersLost);
    }
    assert!(
        submitted > 20_000 && by_the_loop > 100 && lost > 1000,
        "{submitted} {by_the_loop} {lost}"
    );
}
