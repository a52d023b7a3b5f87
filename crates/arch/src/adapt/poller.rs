//! The poller thread of [A] (fig. 4, block c): it takes a connection from its queue, and looks
//! whether the read is complete; then it responds to the client, else it puts the connection at the
//! end of the queue.
use super::{Asked, Server, Tracked, options::Look, tracked};
use crate::kit::{
    aio::{Completions, Request},
    beats::Beat,
    dispatch::{Back, Job},
    serve::{Blocking, Means, Served, Until, attend, converse, look, unblock},
    worker::Worker,
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Done, Tick, Ticket};
use regatta_origin::Protocol as _;
use regatta_sys::{Read, clock, thread::cpu_nanos};
use std::{collections::VecDeque, time::Duration};

/// The longest sleep while reads are in progress: deadlines, and what the master wants.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// How often its processor time is counted, ms.
const COUNT_MS: u64 = 100;

pub(super) struct PollerThread<'a> {
    server: &'a Server<'a>,
    /// It is fed by the pool, and has one connection at most.
    worker: Worker<'a, Blocking>,
    means: Means<'a>,
    completions: Box<dyn Completions + 'a>,
    /// What its disk has left for later.
    asked: &'a Asked,
    tracked: VecDeque<Tracked>,
    /// When it looked last at what else there is.
    attended: Tick,
    /// Processor time that has been counted, nanoseconds, and when that was.
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
            self.take();
            if self.tracked.is_empty() {
                if self.server.pool.jobs.is_closed() {
                    self.worker.retire();
                }
                continue;
            }
            self.completions.wait(Duration::ZERO).expect(GOES_ON);
            let mut found = false;
            for _ in 0..self.tracked.len() {
                found |= self.look();
            }
            if !found && self.server.options.completions == Look::Wait {
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

    /// What a worker does besides, once in a millisecond at most while it spins: that takes the
    /// lock of the log. False if it is to leave.
    fn goes_on(&mut self) -> bool {
        let now = now();
        if now == self.attended && !self.tracked.is_empty() {
            return true;
        }
        self.attended = now;
        attend(&mut self.worker, &mut None, &mut self.means)
    }

    /// Takes what is in the queue; waits for it if there is nothing else to look at.
    fn take(&mut self) {
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

    /// Looks at the first connection; true if it need not be looked at any more.
    fn look(&mut self) -> bool {
        let Some(mut first) = self.tracked.pop_front() else { return false };
        let tally = self.tally();
        tally.add(Counter::AioLooks, 1);
        if first.reads.iter().all(|(_, request)| request.is_complete()) {
            let reads: Vec<(Ticket, Read)> = first.reads.drain(..).filter_map(finished).collect();
            let took = clock::nanos() - first.since;
            tally.add(Counter::AioCompleted, reads.len() as u64);
            tally.add(Counter::AioNs, took);
            self.server.load.took(took);
            self.respond(first.job, reads);
            return true;
        }
        if first.job.passed.deadline() <= now() {
            // What is in progress is given up: a thread tells the connection so.
            self.give(first.job);
            return true;
        }
        tally.add(Counter::AioRequeues, 1);
        self.tracked.push_back(first);
        false
    }

    /// Responds to the client, as far as it takes the response at once: a thread waits for it with
    /// the rest.
    fn respond(&mut self, Job { passed, drive }: Job, reads: Vec<(Ticket, Read)>) {
        look(&mut self.worker, &mut self.means);
        let key = self.worker.adopt(passed, drive);
        if let Some((slot, desk)) = self.worker.turn(key) {
            unblock(slot);
            for (ticket, (buffer, read)) in reads {
                let done = Done::Read(ticket, buffer, read);
                slot.conn.complete(done, desk.now, &desk.around.cx);
            }
        }
        self.asked.borrow_mut().clear();
        let (step, means) = (self.server.pool.step, &mut self.means);
        let served = converse(&mut self.worker, key, step, means, Until::Waits);
        let back = &self.server.pool.back;
        let Some((passed, drive)) = self.worker.pass(key) else { return back.put(Back::Closed) };
        let job = Job { passed, drive };
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
    fn give(&self, job: Job) {
        let Server { pool, .. } = self.server;
        if let Err(job) = pool.jobs.put(job, self.tally()) {
            pool.back.put(Back::Waits(job));
        }
    }

    /// Counts its processor time.
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

fn finished((ticket, request): (Ticket, Request)) -> Option<(Ticket, Read)> {
    Some((ticket, request.status()?))
}
