//! Stations of a pipeline, where what travels waits for a stage. They know nothing of connections,
//! so that the model can send something else through them.
use crate::{
    loops::queue::{Fifo, Returns},
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        lock,
    },
};
use regatta_metrics::{Counter, Tally};
use std::{collections::VecDeque, io, time::Duration};

/// Item that goes from station to station.
pub trait Travels {
    /// Part of the pipeline that serves it, where stages have several.
    fn part(&self) -> usize;
}

/// Rule by which what arrives is shared out among the queues of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// To the queue of its part.
    Part,
    /// To the queues round-robin.
    Turns,
    /// To each queue an equal part of what arrives at once.
    Equal,
}

/// Source of a stage.
#[derive(Debug)]
pub enum StageEntry<J> {
    /// Results for one owner with a poller, which takes over all that has been left.
    Merged(Returns<J>),
    /// Threads take from queues.
    Queued(Vec<Fifo<J>>, Spread),
}

/// Place where what travels waits for a stage.
#[derive(Debug)]
pub struct Station<'a, J> {
    /// Work of the stage, in one word.
    pub name: &'static str,
    /// Source of the stage.
    pub entry: StageEntry<J>,
    /// Counts what is put there, whichever stage puts it: it is striped.
    pub tally: Tally<'a>,
}

/// The stations of a process, and its acceptors, which learn what has ended.
#[derive(Debug)]
pub struct Line<'a, J> {
    stations: Vec<Station<'a, J>>,
    /// For each acceptor, as many items as have ended.
    homes: Vec<Returns<()>>,
    /// Acceptors that still accept.
    accepting: AtomicUsize,
    /// Queue that comes next round-robin.
    turn: AtomicUsize,
    closed: AtomicBool,
    /// Items that were put when the line was closed, or were left then.
    late: Mutex<Vec<J>>,
}

impl<'a, J: Travels> Line<'a, J> {
    /// A line with these stations, and `homes` acceptors.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(stations: Vec<Station<'a, J>>, homes: usize) -> io::Result<Self> {
        let mut striped = stations.iter().map(|station| &station.tally);
        debug_assert!(striped.all(|tally| matches!(tally, Tally::Striped(_))), "many put there");
        Ok(Self {
            stations,
            homes: (0..homes).map(|_| Returns::new()).collect::<io::Result<_>>()?,
            accepting: AtomicUsize::new(homes),
            turn: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            late: Mutex::new(Vec::new()),
        })
    }

    /// Number of acceptors.
    #[must_use]
    pub const fn homes(&self) -> usize {
        self.homes.len()
    }

    /// Number of stations.
    #[must_use]
    pub const fn stations(&self) -> usize {
        self.stations.len()
    }

    /// The station of this number.
    #[must_use]
    pub fn station(&self, at: usize) -> &Station<'a, J> {
        &self.stations[at]
    }

    /// Ended connections of an acceptor, an item each.
    #[must_use]
    pub fn home(&self, home: usize) -> &Returns<()> {
        &self.homes[home]
    }

    /// Leaves all for a stage, in their order; with one lock for each of its queues. There is room
    /// for all; what comes when the line is closed is kept.
    pub fn put_all(&self, to: usize, jobs: &mut VecDeque<J>) {
        if jobs.is_empty() {
            return;
        }
        let Station { entry, tally, .. } = &self.stations[to];
        match entry {
            StageEntry::Merged(returns) => {
                tally.add(Counter::QueuePuts, jobs.len() as u64);
                returns.put_all(jobs);
                tally.max(Counter::QueueLenMax, returns.len() as u64);
            }
            StageEntry::Queued(queues, spread) => self.share_out(queues, *spread, jobs, *tally),
        }
        if !jobs.is_empty() {
            debug_assert!(self.is_closed(), "there is room for all");
            jobs.drain(..).for_each(|job| self.keep(job));
        }
    }

    fn share_out(
        &self,
        queues: &[Fifo<J>],
        spread: Spread,
        jobs: &mut VecDeque<J>,
        tally: Tally<'_>,
    ) {
        let count = queues.len();
        if let [queue] = queues {
            return queue.put_all(jobs, tally);
        }
        // What cannot be put is at the end then, once for each queue.
        match spread {
            Spread::Part => {
                for (part, queue) in queues.iter().enumerate() {
                    queue.put_those(jobs, |job| job.part() % count == part, tally);
                }
            }
            Spread::Turns => {
                for _ in 0..jobs.len() {
                    let at = self.turn.fetch_add(1, SeqCst) % count;
                    let put = jobs.pop_front().map(|job| queues[at].put(job, tally));
                    jobs.extend(put.and_then(Result::err));
                }
            }
            Spread::Equal => {
                let (all, first) = (jobs.len(), self.turn.fetch_add(1, SeqCst));
                for at in 0..count {
                    let mut left = all / count + usize::from(at < all % count);
                    let which = |_: &J| {
                        let is_meant = left > 0;
                        left = left.saturating_sub(1);
                        is_meant
                    };
                    // The queue that has one more is another each time.
                    queues[(first + at) % count].put_those(jobs, which, tally);
                }
            }
        }
    }

    /// Keeps an item that no stage takes any more, until all have ended.
    pub fn keep(&self, job: J) {
        lock(&self.late).push(job);
    }

    /// Notifies acceptor `home` that a connection of its own has ended: it has room for another.
    pub fn ended(&self, home: u8) {
        self.homes[usize::from(home)].put(());
    }

    /// Counts off an acceptor that accepts no longer: nothing of what it has accepted is left, or
    /// there is no more time for it. The last one closes the line.
    pub fn leaves(&self) {
        if self.accepting.fetch_sub(1, SeqCst) == 1 {
            self.close();
        }
    }

    /// Ends all stages, each after what it is in the middle of.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        for station in &self.stations {
            if let StageEntry::Queued(queues, _) = &station.entry {
                queues.iter().for_each(|queue| lock(&self.late).extend(queue.close()));
            }
        }
        self.wake_all();
    }

    /// True if the stages are to end.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Wakes all stages with a poller, to check the time, and what the master wants.
    pub fn wake_all(&self) {
        for station in &self.stations {
            if let StageEntry::Merged(returns) = &station.entry {
                returns.wake();
            }
        }
        self.homes.iter().for_each(Returns::wake);
    }

    /// Takes all that is still somewhere, when the line is closed and the stages have ended.
    #[must_use]
    pub fn rest(&self) -> Vec<J> {
        debug_assert!(self.is_closed(), "somebody may take it");
        let mut rest = std::mem::take(&mut *lock(&self.late));
        for station in &self.stations {
            if let StageEntry::Merged(returns) = &station.entry {
                rest.extend(std::iter::from_fn(|| returns.next()));
            }
        }
        rest
    }

    /// Takes what threads should have taken before this time, nanoseconds, from all queues.
    pub fn take_older(&self, before: u64, into: &mut VecDeque<J>) {
        for Station { entry, tally, .. } in &self.stations {
            if let StageEntry::Queued(queues, _) = entry {
                queues.iter().for_each(|queue| queue.take_older(before, into, *tally));
            }
        }
    }

    /// Counts how long what is in queues has waited by now.
    pub fn count_waiting(&self) {
        for Station { entry, tally, .. } in &self.stations {
            if let StageEntry::Queued(queues, _) = entry {
                queues.iter().for_each(|queue| queue.count_waiting(*tally));
            }
        }
    }

    /// Wakes a thread that waits at this station: it is to check the others.
    pub fn call(&self, station: usize) {
        let Station { entry, tally, .. } = &self.stations[station];
        if let StageEntry::Queued(queues, _) = entry {
            queues.iter().for_each(|queue| queue.call(*tally));
        }
    }

    /// Number that wait for a stage.
    #[must_use]
    pub fn len(&self, station: usize) -> usize {
        match &self.stations[station].entry {
            StageEntry::Merged(returns) => returns.len(),
            StageEntry::Queued(queues, _) => queues.iter().map(Fifo::len).sum(),
        }
    }
}

/// Barrier between two stages that work one at a time: the one that leaves a batch for the other
/// waits until all of it is done.
#[derive(Debug, Default)]
pub struct Barrier {
    /// Items of the batch that are not done.
    left: Mutex<usize>,
    changed: Condvar,
}

impl Barrier {
    /// Begins a batch of `items`, about to be left for the other stage.
    pub fn begin(&self, items: usize) {
        let mut left = lock(&self.left);
        debug_assert_eq!(*left, 0, "the other stage is at work");
        *left = items;
    }

    /// Counts `items` that the other stage has done.
    pub fn done(&self, items: usize) {
        let mut left = lock(&self.left);
        debug_assert!(*left >= items, "{items} of {} are done", *left);
        *left = left.saturating_sub(items);
        if *left == 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until all of the batch is done, for `patience` at most; true if it is.
    pub fn wait(&self, patience: Duration) -> bool {
        let left = lock(&self.left);
        if *left == 0 {
            return true;
        }
        *self.changed.wait_timeout(left, patience).unwrap_or_else(PoisonError::into_inner).0 == 0
    }
}
