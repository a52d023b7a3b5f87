//! Resources of a worker before it serves: processors, log, root, a slot in the arena.
use super::{NextRoot, RootSource, Worker, WorkerEnv};
use crate::{
    Env, Share, WorkError, WorkerLog,
    cache::shared_cache::SharedCache,
    conn::accept::{AcceptRules, Acceptor, Neighbour},
    drive::FileCx,
};
use regatta_metrics::Tally;
use regatta_origin::{Cache, Lister, Scratch};
use regatta_sys::{Root, StaticFile, affinity, clock, crew::Member, heap};
use std::{os::fd::AsFd, process, sync::Arc};

/// A unit of a process, by its number.
#[derive(Clone, Copy, Debug)]
pub struct UnitNumber {
    /// The number; the first is 0.
    pub unit: usize,
    /// Units of the process.
    pub units: usize,
}

/// Slot in which a unit of a pipeline counts.
#[derive(Clone, Copy, Debug)]
pub struct StageSlot {
    /// Number of the slot in its process.
    pub at: usize,
    /// True if no other unit counts there.
    pub alone: bool,
}

impl StageSlot {
    /// A slot of one unit.
    #[must_use]
    pub const fn alone(at: usize) -> Self {
        Self { at, alone: true }
    }

    /// A slot of several units.
    #[must_use]
    pub const fn shared(at: usize) -> Self {
        Self { at, alone: false }
    }
}

/// Resources of a worker: a process, or a thread that is one of its units.
#[expect(missing_debug_implementations, reason = "holds a log that need not have one")]
pub struct Own<'a> {
    env: &'a Env,
    /// Number of its process.
    process: usize,
    /// Number of the unit in its process.
    unit: usize,
    /// Root, which it replaces when the master sends another.
    pub root: &'a Root,
    /// The counters.
    pub tally: Tally<'a>,
    log: Box<dyn WorkerLog>,
    scratch: Scratch<StaticFile>,
}

impl<'a> Own<'a> {
    /// Resources of a process that is one unit, and may be one of a crew; made in this process.
    ///
    /// # Errors
    /// The process cannot run where it should, or there are no descriptors left.
    pub fn new(
        env: &'a Env,
        process: usize,
        member: Option<&'static Member>,
    ) -> Result<Self, WorkError> {
        Self::unit(env, process, UnitNumber { unit: 0, units: 1 }, member)
    }

    /// Resources of one unit of a process, made in its thread; the first before the others are
    /// started. If there are more units than slots, all but the first share the slots,
    /// except the first one's: there the master checks whether the process is alive.
    ///
    /// # Errors
    /// Those of [`Own::new`].
    pub fn unit(
        env: &'a Env,
        process: usize,
        number: UnitNumber,
        member: Option<&'static Member>,
    ) -> Result<Self, WorkError> {
        let UnitNumber { unit, units } = number;
        let slots = env.shares[process].slots.len();
        let shares = unit > 0 && units > slots;
        debug_assert!(!shares || slots > 1, "the first unit has a slot of its own");
        let at = if shares { 1 + (unit - 1) % (slots - 1) } else { unit };
        Self::counting(env, process, unit, StageSlot { at, alone: !shares }, member)
    }

    /// Resources of a unit of a pipeline, made in its thread; the first before the others are
    /// started.
    ///
    /// # Errors
    /// Those of [`Own::new`].
    pub fn stage(
        env: &'a Env,
        process: usize,
        unit: usize,
        slot: StageSlot,
    ) -> Result<Self, WorkError> {
        Self::counting(env, process, unit, slot, None)
    }

    /// True if it is the first of its process, which hears the master.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.unit == 0
    }

    fn counting(
        env: &'a Env,
        process: usize,
        unit: usize,
        StageSlot { at, alone }: StageSlot,
        member: Option<&'static Member>,
    ) -> Result<Self, WorkError> {
        let Share { cpus, slots, .. } = &env.shares[process];
        // Threads run where the one runs that starts them.
        if unit == 0 && !cpus.is_empty() {
            affinity::pin(cpus).map_err(|error| WorkError::Pin(cpus.clone(), error))?;
        }
        let slot = env.arena.slot(slots.start + at);
        let tally = if alone { Tally::Owned(slot) } else { Tally::Striped(slot) };
        if unit == 0 {
            // Threads may come and go: the slots are entered once, for all of them.
            slots.clone().for_each(|at| env.arena.slot(at).enter(process::id()));
        }
        let log = match member {
            None => (env.open_log)(tally),
            Some(member) => member.acquire(|| {
                let log = (env.open_log)(tally);
                log.each_own(&mut |fd| member.claim(fd));
                log
            }),
        };
        // Where all share a table of descriptors, the root has a number for each of them.
        let root: &'a Arc<Root> = match member {
            None => &env.root,
            Some(member) => {
                let own = || env.root.try_clone().inspect(|root| member.claim(root.as_fd()));
                let root = member.acquire(own).map_err(WorkError::Root)?;
                // Once per process, as its place in the crew.
                Box::leak(Box::new(Arc::new(root)))
            }
        };
        let scratch = Scratch::new(env.site.boundary_key ^ mark(clock::nanos(), at, unit));
        let scratch = scratch.following(env.releases.source()).counting(Arc::clone(&env.files));
        if unit == 0 {
            env.deriver.iter().for_each(|deriver| deriver.start());
            env.lister.iter().for_each(|lister| lister.start(root, member));
        }
        let lister = env.lister.clone().map(|lister| lister as Arc<dyn Lister>);
        let scratch = scratch.deriving(env.deriver.clone()).listing(lister);
        Ok(Self { env, process, unit, root, tally, log, scratch })
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &dyn WorkerLog {
        &*self.log
    }

    /// The unit serves one connection at a time, of many: it keeps little memory for later.
    pub fn serves_one(&self) {
        self.scratch.serve_one();
        self.scratch.free_by(drop);
    }

    /// The worker, which looks into `cache`. `shared` is the same one, if other processes share it.
    pub fn worker<'w, S>(
        &'w self,
        cache: &'w dyn Cache<StaticFile>,
        shared: Option<&'w SharedCache<'w>>,
        rules: AcceptRules,
        stall_ns: u64,
    ) -> Worker<'w, S> {
        let Self { env, process, unit, .. } = *self;
        let (log, scratch) = (&*self.log, &self.scratch);
        if rules.connections_max == 1 {
            scratch.serve_one();
        } else {
            scratch.free_by(heap::release);
        }
        let around = WorkerEnv {
            cx: FileCx {
                site: &env.site,
                cache,
                tally: self.tally,
                log,
                scratch,
                links: &*env.links,
            },
            slot: self.tally.slot(),
            control: env.arena.control(),
            bell: &env.bells[process],
            log,
            stall_ns,
            shared,
            // The first unit replaces it for all, and clears the cache that the process shares.
            root: Some(if unit == 0 {
                let (channel, releases) = (&env.root_channels[process], &env.releases);
                RootSource::Master(NextRoot { root: self.root, channel, releases })
            } else {
                RootSource::Unit(env.first_slot(process))
            }),
        };
        let mut acceptor = Acceptor::new(env.listeners(process), rules);
        acceptor.classes = env.classes(process);
        let own = &env.shares[process].listeners;
        let others = env.shares.iter().enumerate();
        let others = others.filter(|(at, share)| *at != process && share.listeners == *own);
        let each = |(at, share): (usize, &Share)| {
            let (slots, bell) = (share.slots.clone(), rules.exclusive.then(|| &env.bells[at]));
            let connections_max = share.connections_max / slots.len();
            slots.map(move |slot| Neighbour { slot: env.arena.slot(slot), connections_max, bell })
        };
        acceptor.others = others.flat_map(each).collect();
        acceptor.reports_in = rules.exclusive.then(|| self.tally.slot());
        Worker::new(acceptor, around)
    }
}

/// Mark that makes the boundaries of a unit its own. A thread that serves several stages has one
/// slot for each. A thread that is started later may have the number of one that has ended. None
/// begins with the boundaries of another.
const fn mark(begun_ns: u64, at: usize, unit: usize) -> u128 {
    (begun_ns as u128) << 64 | (at as u128) << 32 | unit as u128
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_unit_has_the_mark_of_another() {
        let units = (0..3).flat_map(|unit| (0..3).map(move |at| (at, unit)));
        let marks = units.flat_map(|(at, unit)| [7, 8].map(|ns| mark(ns, at, unit)));
        assert_eq!(marks.collect::<BTreeSet<_>>().len(), 3 * 3 * 2);
    }
}
