//! The poller thread of [A] (fig. 4, block c). It takes a connection from its queue and checks its
//! asynchronous reads. If all are complete it responds to the client, else it requeues the
//! connection.
use super::{Asked, Server, Tracked, options::CompletionWait, tracked};
use crate::{
    conn::{
        beats::Beat,
        serve::{Blocking, Means, Served, Until, attend, converse, read_clocks, unblock},
        worker::Worker,
    },
    disk::aio::{AioRequest, Completions},
    loops::dispatch::{Back, DispatchJob},
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Done, Tick, Ticket};
use regatta_sys::{Read, clock, thread::cpu_nanos};
use std::{collections::VecDeque, time::Duration};

/// The longest sleep while reads are in progress, for deadlines and requests of the master.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Interval between two counts of the thread's processor time, ms.
const COUNT_MS: u64 = 100;

pub(super) struct PollerThread<'a> {
    server: &'a Server<'a>,
    /// Fed by the pool; has at most one connection.
    worker: Worker<'a, Blocking>,
    means: Means<'a>,
    completions: Box<dyn Completions + 'a>,
    /// Reads that the thread's disk has noted, and that are to start as asynchronous ones.
    asked: &'a Asked,
    tracked: VecDeque<Tracked>,
    /// Time of the last [`attend`].
    attended: Tick,
    /// Processor time counted so far, nanoseconds, and the time of that count.
    counted: (u64, Tick),
}

impl<'a> PollerThread<'a> {
    pub(super) fn new(
        server: &'a Server<'a>,
        worker: Worker<'a, Blocking>,
        means: Means<'a>,
        completions: Box<dyn Completions + 'a>,
        asked: &'a Asked,
    ) -> Self {
        let worker = worker.with_pulse(server.pool.beats.pulse(false));
        let means = Means { beat: worker.beat().cloned(), ..means };
        let (tracked, attended, counted) = (VecDeque::new(), Tick(0), (0, Tick(0)));
        Self { server, worker, means, completions, asked, tracked, attended, counted }
    }

    pub(super) fn run(mut self) {
        const GOES_ON: &str = "an engine that has started a read completes it";
        while self.goes_on() {
            self.take_queued();
            if self.tracked.is_empty() {
                if self.server.pool.jobs.is_closed() {
                    self.worker.retire();
                }
                continue;
            }
            self.completions.wait(Duration::ZERO).expect(GOES_ON);
            let mut found = false;
            for _ in 0..self.tracked.len() {
                found |= self.check_first();
            }
            if !found && self.server.options.completions == CompletionWait::Wait {
                let _waits = Beat::begins_call(self.means.beat.as_deref());
                self.completions.wait(self.worker.patience(SLEEP_MAX)).expect(GOES_ON);
            }
            if now().since(self.counted.1) >= COUNT_MS {
                self.count();
            }
        }
        self.count();
        for Tracked { job, .. } in self.tracked {
            self.server.pool.back.put(Back::Waits(job));
        }
    }

    /// Does a worker's other duties; false if the worker is to leave. While the thread spins, it
    /// does them at most once per millisecond, because they take the lock of the log.
    fn goes_on(&mut self) -> bool {
        let now = now();
        if now == self.attended && !self.tracked.is_empty() {
            return true;
        }
        self.attended = now;
        attend(&mut self.worker, &mut None, &mut self.means)
    }

    /// Takes what is in the queue; waits for it if nothing is tracked.
    fn take_queued(&mut self) {
        let tally = self.tally();
        if self.tracked.is_empty() {
            let patience = self.worker.patience(self.server.pool.step);
            let _waits = Beat::begins_call(self.means.beat.as_deref());
            self.tracked.extend(self.server.tracked.take(patience, tally));
        }
        while let Some(tracked) = self.server.tracked.try_take(tally) {
            self.tracked.push_back(tracked);
        }
    }

    /// Checks the first connection; true if no further check is needed.
    fn check_first(&mut self) -> bool {
        let Some(mut first) = self.tracked.pop_front() else { return false };
        let tally = self.tally();
        tally.add(Counter::AioLooks, 1);
        if first.reads.iter().all(|(_, request)| request.is_complete()) {
            let finished = |(ticket, request): (Ticket, AioRequest)| {
                request.status().map(|read| (ticket, read))
            };
            let reads: Vec<(Ticket, Read)> = first.reads.drain(..).filter_map(finished).collect();
            let took = clock::nanos() - first.since;
            tally.add(Counter::AioCompleted, reads.len() as u64);
            tally.add(Counter::AioNs, took);
            self.server.load.took(took);
            self.respond(first.job, reads);
            return true;
        }
        if first.job.passed.deadline() <= now() {
            // The reads are given up: a thread informs the connection.
            self.give(first.job);
            return true;
        }
        tally.add(Counter::AioRequeues, 1);
        self.tracked.push_back(first);
        false
    }

    /// Responds to the client as far as the socket takes bytes. A pool thread sends the rest.
    fn respond(&mut self, DispatchJob { passed, drive }: DispatchJob, reads: Vec<(Ticket, Read)>) {
        read_clocks(&mut self.worker, &mut self.means);
        let key = self.worker.adopt(passed, drive);
        if let Some((slot, desk)) = self.worker.turn(key) {
            unblock(slot);
            for (ticket, (buffer, read)) in reads {
                let done = Done::Read(ticket, buffer, read);
                slot.complete(done, desk.now, &desk.around.cx);
            }
        }
        self.asked.borrow_mut().clear();
        let (step, means) = (self.server.pool.step, &mut self.means);
        let served = converse(&mut self.worker, key, step, means, Until::Waits);
        let back = &self.server.pool.back;
        let Some((passed, drive)) = self.worker.pass(key) else { return back.put(Back::Closed) };
        let job = DispatchJob { passed, drive };
        if served == Served::Later {
            let (tracked, starts) = tracked(job, self.asked);
            self.tracked.push_back(tracked);
            self.server.begin(starts, self.tally());
        } else if job.drive.reads() {
            back.put(Back::Waits(job));
        } else {
            self.give(job);
        }
    }

    /// Gives a connection to the threads of the pool.
    fn give(&self, job: DispatchJob) {
        let Server { pool, .. } = self.server;
        if let Err(job) = pool.jobs.put(job, self.tally()) {
            pool.back.put(Back::Waits(job));
        }
    }

    /// Counts the thread's processor time.
    fn count(&mut self) {
        let (before, used) = (self.counted.0, cpu_nanos());
        self.counted = (used, now());
        self.tally().add(Counter::AioPollerNs, used - before);
    }

    const fn tally(&self) -> Tally<'a> {
        self.worker.around().cx.tally
    }
}

fn now() -> Tick {
    Tick(clock::nanos() / 1_000_000)
}
