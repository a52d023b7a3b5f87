//! WatPipe: a pipeline of stages in threads of one process, which accept, poll for requests, poll
//! for room in sockets, read and write ([E] §6 has four stages, [S] §4 five).
mod options;
mod shape;

use crate::{
    Demand, Driver, Env, WorkError,
    architectures::{
        event::{self, EventOptions, PollerKind, SendMode},
        pipeline::{self, Plan, Process, READ, SLEEP_MAX, StageWork, WRITE_POLL},
    },
    conn::{
        step::{Leaves, TurnRules},
        worker::{Own, StageSlot},
    },
    loops::{
        line::{
            Barrier, Routes, Spread, Station,
            options::{PoolControl, StagesOptions},
            poll::{Does, PollStage, Takes},
            pools::{StageThreads, ThreadBounds},
            threads::{BatchSize, Extras, Work},
        },
        queue::Fifo,
    },
    options::{Settings, listed_addresses},
};
use options::{OPTIONS, Parts, Read, Share, WatpipeOptions};
use regatta_metrics::{Dial, Tally};
use regatta_op::OpKind;
use regatta_sys::{affinity, socket::Steps};
use shape::{
    ACCEPT, CONTROL, FIRST, POLLERS, Place, READERS, READERS_SLOTS, ROLES, SLOTS, STATIONS, Shape,
    WRITE, WRITERS_SLOTS, roles,
};
use std::{ops::Range, sync::mpsc::Receiver, thread::Scope};

/// The driver.
pub const DRIVER: Driver =
    Driver { slots: |_| SLOTS.end, steps, demand, ..pipeline::driver(&OPTIONS, work) };

/// Operations that a stage of threads leaves to the others, apart from `Send`.
const BEFORE_SEND: Leaves = Leaves::new(&[OpKind::Recv, OpKind::Open, OpKind::Read, OpKind::Stat]);
const SEND: Leaves = Leaves::new(&[OpKind::Send]);

fn steps(settings: &Settings) -> Steps {
    match EventOptions::read(settings).send {
        SendMode::Blocking => {
            Steps::Connections(event::patience(settings.number("limits.send_window_ms")))
        }
        SendMode::Nonblocking => Steps::None,
    }
}

fn demand(settings: &Settings, _: usize) -> Demand {
    let cpus = affinity::allowed().map_or(1, |cpus| cpus.len());
    let shape = Shape::new(settings, listed_addresses(settings), cpus);
    pipeline::demand(shape.threads())
}

/// Runs one process: its first thread accepts, and follows the master for all.
fn work(env: &Env, process: usize) -> Result<(), WorkError> {
    let own = Own::stage(env, process, 0, StageSlot::alone(FIRST))?;
    let pipeline = Pipeline::new(env, process)?;
    pipeline.process.run(&own, |scope, ended| pipeline.start(scope, ended))
}

/// State that the threads of a process share.
struct Pipeline<'e> {
    process: Process<'e>,
    options: WatpipeOptions,
    shape: Shape,
    /// The processors that the process may use.
    cpus: Vec<usize>,
    barrier: Barrier,
}

impl<'e> Pipeline<'e> {
    fn new(env: &'e Env, process: usize) -> Result<Self, WorkError> {
        let cpus = affinity::allowed().map_err(WorkError::Processors)?;
        let options = WatpipeOptions::read(&env.settings);
        let stages = StagesOptions::read(&env.settings);
        let listeners = env.listeners(process).len();
        let shape = Shape::new(&env.settings, listeners, cpus.len());
        let first = env.shares[process].slots.start;
        for (at, role) in roles(&shape) {
            env.arena.slot(first + at).set_role(role);
        }
        // Other threads count themselves.
        for (at, threads) in [(FIRST, shape.homes), (POLLERS.start, 1), (POLLERS.start + 1, 1)] {
            env.arena.slot(first + at).set_dial(Dial::Threads, threads as u64);
        }
        let tally = |at| Tally::Striped(env.arena.slot(first + STATIONS.start + at));
        let (writers, spread) = match options.share {
            Share::Queue => (shape.parts, Spread::Part),
            Share::RoundRobin => (shape.writers, Spread::Turns),
            Share::Batch => (shape.writers, Spread::Equal),
        };
        let most = env.shares[process].connections_max;
        let queues = |count| (0..count).map(|_| Fifo::new(most)).collect();
        let merged = |at: usize| Station::merged(ROLES[at], tally(at)).map_err(WorkError::Pipeline);
        let mut stations = vec![
            merged(READ)?,
            merged(WRITE_POLL)?,
            Station::queued(ROLES[WRITE], queues(writers), spread, tally(WRITE)),
        ];
        if shape.readers > 0 {
            let (queues, tally) = (queues(shape.parts), tally(READERS));
            stations.push(Station::queued(ROLES[READERS], queues, Spread::Part, tally));
        }
        let threads = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let bounds =
            ThreadBounds { least: threads(shape.writers), most: threads(shape.writers_max) };
        let size = stages.pool(stages.checks(), bounds.most, env.site.seed);
        let pool =
            StageThreads::new(ROLES[WRITE], bounds, size, stages.batching(), stages.reported());
        let plan = Plan {
            stations,
            pools: vec![pool],
            homes: (shape.homes, "listen on fewer addresses, or set watpipe.acceptors=one"),
            parts: shape.parts,
            lower: "watpipe.writers or watpipe.readers",
        };
        let process = Process::new(env, process, plan)?;
        Ok(Self { process, options, shape, cpus, barrier: Barrier::default() })
    }

    /// Starts all threads but the first; those late on a connection's way before those that feed
    /// them. The one that starts writers ends when the first has ended.
    fn start<'s>(&'s self, scope: &'s Scope<'s, '_>, ended: Receiver<()>) {
        let process = &self.process;
        let write = move |at| process.join(scope, at, move |unit| self.writer(unit));
        process.fill(&write);
        process.spawn(scope, "write-poll", |unit| self.poll_writes(unit));
        for at in 0..self.shape.readers {
            process.spawn(scope, "reader", move |unit| self.reader(unit, at));
        }
        process.spawn(scope, "read", |unit| self.poll_reads(unit));
        process.spawn_acceptors(scope, "accept", ACCEPT);
        if self.shape.grows() {
            process.spawn(scope, "control", move |unit| {
                process.control(unit, CONTROL, &ended, &write)
            });
        }
    }

    /// First station of responses. Writers that take turns with the poller get jobs only from it.
    const fn sends_at(&self) -> usize {
        if self.process.accept.eager_write && !self.options.barrier { WRITE } else { WRITE_POLL }
    }

    /// Waits until requests arrive, and reads them or leaves that to others.
    fn poll_reads(&self, unit: usize) -> Result<(), WorkError> {
        let sends = self.sends_at();
        let (leaves, routes) = match self.options.read {
            Read::Poller => (SEND, Routes::all(sends)),
            Read::Threads => {
                (SEND.and(BEFORE_SEND), Routes::all(READERS).with(OpKind::Send, sends))
            }
        };
        self.poll(unit, READ, self.process.rules(leaves), routes)
    }

    /// Waits until there is room in sockets for what is to be sent.
    fn poll_writes(&self, unit: usize) -> Result<(), WorkError> {
        let rules = TurnRules { eager_write: false, ..self.process.rules(SEND) };
        self.poll(unit, WRITE_POLL, rules, Routes::all(WRITE))
    }

    /// Runs one of the two pollers.
    fn poll(
        &self,
        unit: usize,
        at: usize,
        rules: TurnRules,
        routes: Routes,
    ) -> Result<(), WorkError> {
        if self.options.pin_pollers {
            pin(self.cpus[at % self.cpus.len()])?;
        }
        let takes_turns = at == WRITE_POLL && self.options.barrier;
        let barrier = takes_turns.then_some((&self.barrier, WRITE));
        let does = Does { takes: Takes::Station(at), routes, hears: false, barrier };
        let stage = PollStage::new(&self.process.line, does);
        self.process.poll(unit, StageSlot::alone(POLLERS.start + at), rules, stage)
    }

    /// Reads requests, and prepares the responses.
    fn reader(&self, unit: usize, at: usize) -> Result<(), WorkError> {
        let work = Work {
            at: READERS,
            part: at % self.shape.parts,
            routes: Routes::all(self.sends_at()),
            reads_at: READ,
            writes_at: WRITE_POLL,
            again_at: READERS,
            batch: BatchSize::Most(1),
            order: |_| {},
            barrier: None,
        };
        let place = self.place(at, self.shape.readers, READERS_SLOTS);
        let does = StageWork { rules: self.rules(SEND), work, extras: Extras::default() };
        self.serve(unit, place, does, false)
    }

    /// Sends as far as there is room. Writers have the first numbers.
    fn writer(&self, unit: usize) -> Result<(), WorkError> {
        let at = unit - 1;
        let pool = self.process.pool(WRITE);
        let (part, most) = match self.options.share {
            Share::Queue => (at % self.shape.parts, 1),
            // The writer has a queue of its own, unless a controller has started it.
            Share::RoundRobin | Share::Batch => (at, usize::MAX),
        };
        let StagesOptions { batch_control, pool_control, .. } = self.process.stages;
        let work = Work {
            at: WRITE,
            part,
            routes: Routes::all(READ),
            reads_at: READ,
            writes_at: WRITE_POLL,
            again_at: WRITE_POLL,
            batch: if batch_control { pool.batch() } else { BatchSize::Most(most) },
            order: |_| {},
            barrier: self.options.barrier.then_some(&self.barrier),
        };
        let is_watched = batch_control || pool_control != PoolControl::None;
        let extras = match is_watched {
            true => Extras { watches: Some(pool), ..Extras::default() },
            false => Extras::default(),
        };
        let place = self.place(at, self.shape.writers_max, WRITERS_SLOTS);
        let does = StageWork { rules: self.rules(BEFORE_SEND), work, extras };
        self.serve(unit, place, does, at >= self.shape.writers)
    }

    /// Rules of a thread that leaves these operations to others, and sends.
    fn rules(&self, leaves: Leaves) -> TurnRules {
        // An edge-triggered poller reports a change once: a socket that took all has room for more.
        let edge = self.process.event.poller == PollerKind::EpollEdge;
        TurnRules { eager_write: true, edge, ..self.process.rules(leaves) }
    }

    /// Slot and processor of thread `at` of the `threads` of a stage.
    fn place(&self, at: usize, threads: usize, slots: Range<usize>) -> Place {
        let is_pinned = self.options.parts == Parts::Cpu;
        Place {
            slot: StageSlot { at: slots.start + at % slots.len(), alone: threads <= slots.len() },
            cpu: is_pinned.then(|| self.cpus[at % self.shape.parts]),
        }
    }

    /// Body of a thread of a stage. One that a controller has started ends before the others do.
    fn serve(
        &self,
        unit: usize,
        Place { slot, cpu }: Place,
        does: StageWork<'_>,
        is_further: bool,
    ) -> Result<(), WorkError> {
        cpu.map_or(Ok(()), pin)?;
        self.process.serve(unit, slot, does, is_further.then_some(SLEEP_MAX))
    }
}

fn pin(cpu: usize) -> Result<(), WorkError> {
    affinity::pin(&[cpu]).map_err(|error| WorkError::PinThread(cpu, error))
}

#[cfg(test)]
mod tests;
