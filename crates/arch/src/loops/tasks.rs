//! Helpers that take their tasks themselves, from one queue, and leave the results for one owner:
//! Capriccio's kernel threads for the disk ([E] §4).
//!
//! In [`crate::disk::helpers`] the event loop gives each helper its task, so a helper that has
//! finished idles until the loop looks. Here it continues with the next task, and only the
//! results wait.
use crate::loops::queue::{Fifo, Returns};
use regatta_metrics::{Counter, Tally};
use regatta_sys::clock;
use std::{
    io,
    os::fd::BorrowedFd,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

/// Tasks, and results that wait for their owner.
#[derive(Debug)]
pub struct TaskTable<T, R> {
    todo: Fifo<T>,
    done: Returns<R>,
    helpers: AtomicUsize,
}

impl<T, R> TaskTable<T, R> {
    /// Takes at most `most` tasks at once.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(most: usize) -> io::Result<Self> {
        let (todo, done) = (Fifo::new(most), Returns::new()?);
        Ok(Self { todo, done, helpers: AtomicUsize::new(0) })
    }

    /// The life of one helper: runs tasks until [`Tasks::close`].
    pub fn help(&self, tally: Tally<'_>, run: &mut dyn FnMut(T) -> R) {
        let others = self.helpers.fetch_add(1, Relaxed) as u64;
        tally.add(Counter::HelpersStarted, 1);
        tally.max(Counter::HelpersOpenMax, others + 1);
        let mut since = clock::nanos();
        while let Some(task) = self.todo.take(Duration::MAX, tally) {
            let begun = clock::nanos();
            tally.add(Counter::HelperIdleNs, begun - since);
            let result = run(task);
            since = clock::nanos();
            tally.add(Counter::HelperBusyNs, since - begun);
            tally.add(Counter::HelperCompletions, 1);
            self.done.put(result);
        }
        tally.add(Counter::HelperIdleNs, clock::nanos() - since);
        tally.add(Counter::HelpersStopped, 1);
        self.helpers.fetch_sub(1, Relaxed);
    }

    /// Gives a task to whichever helper is free first.
    ///
    /// # Errors
    /// The task, if there are as many as may be, or no more helpers.
    pub fn submit(&self, task: T, tally: Tally<'_>) -> Result<(), T> {
        self.todo.put(task, tally)
    }

    /// Tasks that no helper has begun.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.todo.len()
    }

    /// [`Returns::next`]
    pub fn next_done(&self) -> Option<R> {
        self.done.next()
    }

    /// [`Returns::falls_asleep`]
    pub fn falls_asleep(&self) -> bool {
        self.done.falls_asleep()
    }

    /// [`Returns::wakes`]
    pub fn wakes(&self) -> bool {
        self.done.wakes()
    }

    /// [`Returns::source`]
    pub fn source(&self) -> BorrowedFd<'_> {
        self.done.source()
    }

    /// Ends the helpers, each when it has finished its task, and says which tasks are left.
    pub fn close(&self) -> Vec<T> {
        self.todo.close()
    }
}

/// A helper, step by step, for schedules.
#[cfg(test)]
impl<T, R> TaskTable<T, R> {
    pub(crate) fn begin(&self, tally: Tally<'_>) -> Option<T> {
        self.todo.try_take(tally)
    }

    pub(crate) fn end(&self, result: R) {
        self.done.put(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dice::{Dice, SEEDS};
    use regatta_metrics::Gauge;
    use regatta_sys::wait::{Interest, ready_now, ready_within};
    use regatta_testkit::counters::arena;
    use std::thread;

    /// Every interleaving of what is done under a lock: of an owner that submits, collects and
    /// waits, and of helpers that take a task and leave its result.
    #[test]
    fn an_owner_that_waits_is_woken_for_every_result() {
        let arena = arena(1);
        let (mut woken, mut refused) = (0, 0);
        for seed in 0..SEEDS {
            let (tally, mut dice) = (Tally::Owned(arena.slot(0)), Dice::new(seed));
            let most = 1 + dice.below(6);
            let tasks: TaskTable<u32, u32> = TaskTable::new(most).unwrap();
            let (mut helpers, mut asleep) = (vec![None; 1 + dice.below(4)], false);
            let (mut submitted, mut collected) = (0, Vec::new());
            for step in 0.. {
                let over = step > 200;
                let rings = ready(&tasks);
                let helper = dice.below(helpers.len());
                match dice.below(5) {
                    // A wait ends with the bell, or for another reason.
                    0 if asleep && (rings || !over && dice.once_in(8)) => {
                        tasks.wakes();
                        (asleep, woken) = (false, woken + u32::from(rings));
                        assert!(!ready(&tasks), "it would wait no more");
                        collected.extend(std::iter::from_fn(|| tasks.next_done()));
                    }
                    0 if !asleep => asleep = tasks.falls_asleep(),
                    1 if !asleep => collected.extend(tasks.next_done()),
                    2 | 3 if !asleep && !over => match tasks.submit(submitted, tally) {
                        Ok(()) => submitted += 1,
                        Err(task) => {
                            assert!(task == submitted && tasks.waiting() == most);
                            refused += 1;
                        }
                    },
                    _ => match helpers[helper].take() {
                        None => helpers[helper] = tasks.todo.try_take(tally),
                        Some(task) => tasks.done.put(task),
                    },
                }
                let nothing = tasks.falls_asleep();
                assert!(!asleep || nothing || ready(&tasks), "seed {seed}: nobody wakes the owner");
                if !asleep {
                    tasks.wakes();
                }
                let are_idle = helpers.iter().all(Option::is_none) && tasks.waiting() == 0;
                if over && are_idle && nothing && !ready(&tasks) {
                    break;
                }
            }
            collected.extend(std::iter::from_fn(|| tasks.next_done()));
            collected.sort_unstable();
            assert!(collected.into_iter().eq(0..submitted), "seed {seed}: each once");
        }
        assert!(woken > 1000 && refused > 1000, "{woken} {refused}");
    }

    fn ready(tasks: &TaskTable<u32, u32>) -> bool {
        ready_now(tasks.source(), Interest::READ).unwrap().readable
    }

    #[test]
    fn helpers_take_tasks_as_soon_as_they_are_free() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let arena = arena(1);
        let tally = Tally::Striped(arena.slot(0));
        let tasks: TaskTable<u64, u64> = TaskTable::new(1000).unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| tasks.help(tally, &mut |task| task * 2));
            }
            // A panic in this scope would wait for them for good.
            while arena.slot(0).gauge(Gauge::HelpersOpen) < 3 {
                thread::yield_now();
            }
            let mut sum = 0;
            for round in 1..=50 {
                (0..20).for_each(|task| tasks.submit(round * task, tally).unwrap());
                let mut left = 20;
                while left > 0 {
                    if tasks.falls_asleep() {
                        let woken = ready_within(tasks.source(), Interest::READ, PATIENCE);
                        assert!(woken.unwrap().readable, "a result was not told of");
                    }
                    tasks.wakes();
                    while let Some(result) = tasks.next_done() {
                        (sum, left) = (sum + result, left - 1);
                    }
                }
            }
            assert_eq!(sum, 2 * 190 * 1275);
            assert_eq!(tasks.close(), []);
            assert_eq!(tasks.submit(1, tally), Err(1));
        });
        let slot = arena.slot(0);
        let get = |counter| slot.get(counter);
        assert_eq!([get(Counter::QueuePuts), get(Counter::HelperCompletions)], [1000, 1000]);
        assert_eq!([get(Counter::HelpersOpenMax), get(Counter::QueueRefused)], [3, 1]);
        assert!(get(Counter::QueueLenMax) <= 20 && get(Counter::QueueLenSum) <= 50 * 190);
        assert_eq!(slot.gauge(Gauge::HelpersOpen), 0);
        assert!(get(Counter::HelperIdleNs) > 0 && get(Counter::QueueWaitNs) > 0);
    }
}
