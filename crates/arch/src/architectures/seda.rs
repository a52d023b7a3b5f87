//! SEDA (Welsh, Culler, Brewer, SOSP 2001; Haboob is its server). Between a stage that reads and
//! one that writes are stages with queues and pools of threads, under controllers.
mod options;

use crate::{
    Demand, Driver, Env, WorkError,
    architectures::pipeline::{
        self, POOLS_AT, Plan, Process, READ, SLEEP_MAX, StageWork, WRITE_POLL as WRITE,
    },
    conn::{
        step::{Leaves, Left},
        worker::{Own, StageSlot},
    },
    loops::{
        line::{
            Routes, Spread, StageJob, Station,
            gate::Gate,
            options::{Admission, LineOptions, StagesOptions},
            poll::{Does, Gated, PollStage, Takes},
            pools::{StageThreads, ThreadBounds},
            threads::{Extras, StageThread, Work},
        },
        queue::Fifo,
    },
    options::{Settings, listed_addresses},
};
use options::{OPTIONS, OnFull, SedaOptions, Threads, Wake};
use regatta_metrics::Tally;
use regatta_op::{Op, OpKind};
use std::{sync::mpsc::Receiver, thread::Scope, time::Duration};

/// The driver.
pub const DRIVER: Driver = Driver { slots: |_| SLOTS, demand, ..pipeline::driver(&OPTIONS, work) };

/// The stations. Those of the two stages with pollers come first; the others have a pool each.
const PARSE: usize = 2;
const RECV: usize = 3;
const CACHE: usize = 4;
const MISS: usize = 5;
const DISK: usize = 6;
const ROLES: [&str; 7] = ["read", "write", "parse", "recv", "cache", "miss", "disk"];
const POOLS: usize = ROLES.len() - POOLS_AT;

/// The slots of a process: the first thread's, one for each station, the control thread's.
const LISTEN: usize = 0;
const STATIONS: usize = 1;
const CONTROL: usize = STATIONS + ROLES.len();
const SLOTS: usize = CONTROL + 1;

/// Operations that require a file.
const FILES: Leaves = Leaves::new(&[OpKind::Open, OpKind::Stat, OpKind::Read]);
const SEND: Leaves = Leaves::new(&[OpKind::Send]);
const RECEIVE: Leaves = Leaves::new(&[OpKind::Recv]);

fn demand(settings: &Settings, _: usize) -> Demand {
    let options = SedaOptions::read(settings);
    let most = |ThreadBounds { least, most }| least.max(most) as usize;
    let pools: usize = (POOLS_AT..ROLES.len()).map(|at| most(options.bounds(at))).sum();
    pipeline::demand(3 + listed_addresses(settings) + pools)
}

/// Runs one process: its first thread accepts, and follows the master for all.
fn work(env: &Env, process: usize) -> Result<(), WorkError> {
    let own = Own::stage(env, process, 0, StageSlot::shared(LISTEN))?;
    let seda = Seda::new(env, process)?;
    seda.process.run(&own, |scope, ended| seda.start(scope, ended))
}

/// State that the threads of a process share.
struct Seda<'e> {
    process: Process<'e>,
    options: SedaOptions,
    gate: Gate,
}

impl SedaOptions {
    /// The least and the most threads of the stage at a station.
    const fn bounds(&self, at: usize) -> ThreadBounds {
        match at {
            DISK => ThreadBounds { least: self.disk_min, most: self.disk_max },
            _ => ThreadBounds { least: self.pool_min, most: self.pool_max },
        }
    }
}

impl<'e> Seda<'e> {
    fn new(env: &'e Env, process: usize) -> Result<Self, WorkError> {
        let options = SedaOptions::read(&env.settings);
        let stages = StagesOptions::read(&env.settings);
        let line = LineOptions::read(&env.settings);
        let homes = match line.admission {
            // Requests to an address are a class: each has a thread that accepts.
            Admission::Multiclass => env.listeners(process).len().max(1),
            _ => 1,
        };
        let first = env.shares[process].slots.start;
        let roles = [(LISTEN, "listen"), (CONTROL, "control")].into_iter();
        for (at, role) in roles.chain((STATIONS..).zip(ROLES)) {
            env.arena.slot(first + at).set_role(role);
        }
        let most = env.shares[process].connections_max;
        let queue = || match options.wake {
            Wake::One => Fifo::new(most),
            Wake::All => Fifo::new(most).waking_all(),
        };
        let station = |(at, role)| {
            let tally = Tally::Striped(env.arena.slot(first + STATIONS + at));
            match at {
                READ | WRITE => Station::merged(role, tally).map_err(WorkError::Pipeline),
                _ => Ok(Station::queued(role, vec![queue()], Spread::Part, tally)),
            }
        };
        let pool = |at| {
            let bounds = options.bounds(at);
            let checks = if at == DISK { line.disk_checks() } else { stages.checks() };
            let size = stages.pool(checks, bounds.most, env.site.seed ^ at as u64);
            let pool =
                StageThreads::new(ROLES[at], bounds, size, stages.batching(), stages.reported());
            if at == DISK { pool.one_at_a_time() } else { pool }
        };
        let plan = Plan {
            stations: ROLES.into_iter().enumerate().map(station).collect::<Result<_, _>>()?,
            pools: (POOLS_AT..ROLES.len()).map(pool).collect(),
            homes: (homes, "or set stages.admission to another than multiclass"),
            parts: 1,
            lower: "seda.pool_min or seda.disk_min",
        };
        let drops = options.on_full == OnFull::Drop;
        Ok(Self {
            process: Process::new(env, process, plan)?,
            gate: line.gate(options.requests_max, options.queue_max, drops),
            options,
        })
    }

    /// Starts all threads but the first. The control thread ends when the first has ended.
    fn start<'s>(&'s self, scope: &'s Scope<'s, '_>, ended: Receiver<()>) {
        let process = &self.process;
        let serve = move |at| process.join(scope, at, move |unit| self.serve(unit, at));
        let has_pools = self.options.threads == Threads::Own;
        if has_pools {
            process.fill(&serve);
        } else {
            for _ in 0..self.options.pool_min {
                process.spawn(scope, "stages", |unit| self.serve_all(unit));
            }
        }
        process.spawn(scope, "write", |unit| self.write(unit));
        process.spawn(scope, "read", |unit| self.read(unit));
        process.spawn_acceptors(scope, "listen", LISTEN);
        if has_pools {
            process.spawn(scope, "control", move |unit| {
                process.control(unit, CONTROL, &ended, &serve)
            });
        }
    }

    /// Receives requests, and admits them. Also completes sent responses; a request behind the last
    /// one continues from here.
    fn read(&self, unit: usize) -> Result<(), WorkError> {
        self.poll(unit, READ, Gated::In(&self.gate, PARSE))
    }

    /// Sends responses.
    fn write(&self, unit: usize) -> Result<(), WorkError> {
        self.poll(unit, WRITE, Gated::Out(&self.gate, self.process.stages.reported()))
    }

    fn poll(&self, unit: usize, at: usize, gated: Gated<'_>) -> Result<(), WorkError> {
        let process = &self.process;
        let (leaves, routes) = duties(at, self.options.threads);
        let does = Does { takes: Takes::Station(at), routes, hears: false, barrier: None };
        let stage = PollStage::new(&process.line, does).gated(gated);
        process.poll(unit, StageSlot::shared(STATIONS + at), process.rules(leaves), stage)
    }

    /// Work of a thread of the stage at a station.
    fn work(&self, at: usize) -> StageWork<'_> {
        let pool = self.process.pool(at);
        let (leaves, routes) = duties(at, self.options.threads);
        let work = Work {
            at,
            part: 0,
            routes,
            reads_at: READ,
            writes_at: WRITE,
            again_at: at,
            batch: pool.batch(),
            order: if at == CACHE && self.options.cache_order { order } else { |_| {} },
            barrier: None,
        };
        let queue_max = self.options.queue_max as usize;
        // A thread that serves all stages waits where all requests arrive, including those whose
        // first part has been sent.
        let takes_all = at == PARSE && self.options.threads == Threads::Shared;
        let extras = Extras {
            relays: at == RECV || at == CACHE || takes_all,
            gate: Some(&self.gate),
            bound: (at == CACHE && queue_max > 0).then_some((MISS, queue_max)),
            watches: Some(pool),
        };
        StageWork { rules: self.process.rules(leaves), work, extras }
    }

    /// Body of a thread of a pool.
    fn serve(&self, unit: usize, at: usize) -> Result<(), WorkError> {
        let idle_max = Duration::from_millis(self.options.idle_ms);
        self.process.serve(unit, StageSlot::shared(STATIONS + at), self.work(at), Some(idle_max))
    }

    /// Body of a thread that all stages share (Sandstorm's TPPThreadManager). It has a worker for
    /// each stage, serves one stage at a time, and checks again after it has visited all.
    fn serve_all(&self, unit: usize) -> Result<(), WorkError> {
        let process = &self.process;
        let own = |at| process.own(unit, StageSlot::shared(STATIONS + at));
        let owns = (POOLS_AT..ROLES.len()).map(own).collect::<Result<Vec<_>, _>>()?;
        let mut disks: Vec<_> = owns.iter().map(|own| process.disk(own)).collect();
        let mut threads = Vec::with_capacity(POOLS);
        for ((at, own), disk) in (POOLS_AT..).zip(&owns).zip(&mut disks) {
            threads.push(process.thread(own, disk, self.work(at)));
        }
        let len = |at: usize| process.line.len(POOLS_AT + at);
        let mut schedule = Schedule::default();
        while threads.iter().all(StageThread::goes_on) {
            let next = schedule.next_stage(len);
            if (0..POOLS).map(len).sum::<usize>() > 1 {
                // Another thread has work, too; those that sleep are at the first stage.
                process.line.call(POOLS_AT);
            }
            // Jobs from elsewhere arrive at the first stage; this thread put the others there.
            let (at, patience) = next.map_or((0, SLEEP_MAX), |at| (at, Duration::ZERO));
            threads[at].visit(patience);
        }
        Ok(())
    }
}

/// Stages that a thread has still to visit: lengths of their queues, the longest last.
///
/// Choosing the longest after each visit would starve short queues while others feed each other.
#[derive(Debug, Default)]
struct Schedule(Vec<(usize, usize)>);

impl Schedule {
    /// The next stage to visit, of those with queued jobs; `None` if all queues are empty.
    fn next_stage(&mut self, len: impl Fn(usize) -> usize) -> Option<usize> {
        if self.0.is_empty() {
            // Read each length once: it changes meanwhile.
            self.0.extend((0..POOLS).map(|at| (len(at), at)).filter(|(len, _)| *len > 0));
            self.0.sort_unstable();
        }
        self.0.pop().map(|(_, at)| at)
    }
}

/// Operations that a stage leaves to others, and their next stations.
fn duties(at: usize, threads: Threads) -> (Leaves, Routes) {
    let (opens_at, reads_at) = match threads {
        Threads::Own => (MISS, DISK),
        Threads::Shared => (PARSE, PARSE),
    };
    let (relays, opens) =
        (RECEIVE.and(FILES).and(SEND), Leaves::new(&[OpKind::Open, OpKind::Stat]));
    let (leaves, routes) = match at {
        // Bytes of a request go to be parsed; a following request continues from here.
        READ => {
            (Leaves::PARSE.and(FILES).and(SEND), Routes::all(opens_at).with(OpKind::Recv, PARSE))
        }
        WRITE => (RECEIVE.and(FILES), Routes::all(opens_at).with(OpKind::Read, reads_at)),
        PARSE => (relays, Routes::all(RECV)),
        RECV => (relays, Routes::all(CACHE)),
        CACHE => (relays, Routes::all(MISS).with(OpKind::Read, DISK)),
        MISS => (RECEIVE.and(SEND).and(Leaves::new(&[OpKind::Read])), Routes::all(DISK)),
        _ => (RECEIVE.and(SEND).and(opens).and(Leaves::READ_RESULT), Routes::all(MISS)),
    };
    let routes = match at {
        READ => routes.with(OpKind::Send, WRITE),
        PARSE | RECV => routes.with(OpKind::Recv, READ),
        _ => routes.with(OpKind::Recv, READ).with(OpKind::Send, WRITE),
    };
    (leaves, routes)
}

/// Sorts responses from memory first, small before large; then jobs that require a file.
fn order(jobs: &mut [StageJob]) {
    jobs.sort_by_key(|job| rank(job.left.as_ref()));
}

fn rank(left: Option<&Left>) -> u64 {
    match left {
        Some(Left::Op(Op::Send(outbox))) => outbox.len(),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests;
