//! What a worker has of its own before it serves: processors, log, root, a place in the arena.
use super::{RootSource, Surroundings, Worker};
use crate::{
    Env, WorkerLog,
    drive::FileCx,
    kit::{
        accept::{AcceptRules, Acceptor},
        shared_cache::SharedCache,
    },
};
use regatta_metrics::Tally;
use regatta_origin::{Cache, Scratch};
use regatta_sys::{Root, StaticFile, affinity, crew::Member};
use std::{os::fd::AsFd, process};

/// What a worker has of its own, in the process that it will be.
#[expect(missing_debug_implementations, reason = "holds a log that need not have one")]
pub struct Own<'a> {
    env: &'a Env,
    /// Which worker it is.
    number: usize,
    /// Its root, which it replaces when the master sends another.
    pub root: &'a Root,
    /// Its counters.
    pub tally: Tally<'a>,
    log: Box<dyn WorkerLog>,
    scratch: Scratch<StaticFile>,
}

impl<'a> Own<'a> {
    /// Of worker `number`, which may be one of a crew, in this process.
    ///
    /// # Errors
    /// It cannot run where it should, or there are no descriptors left.
    pub fn new(
        env: &'a Env,
        number: usize,
        member: Option<&'static Member>,
    ) -> Result<Self, String> {
        let cpus = &env.shares[number].cpus;
        if !cpus.is_empty() {
            affinity::pin(cpus)
                .map_err(|error| format!("cannot run on processors {cpus:?}: {error}"))?;
        }
        let slot = env.arena.slot(number);
        slot.enter(process::id());
        let log = match member {
            None => (env.open_log)(number),
            Some(member) => member.acquire(|| {
                let log = (env.open_log)(number);
                log.each_own(&mut |fd| member.own(fd));
                log
            }),
        };
        // Where all share a table of descriptors, the root has a number for each of them.
        let root = match member {
            None => &env.root,
            Some(member) => {
                let own = || env.root.try_clone().inspect(|root| member.own(root.as_fd()));
                let root = member.acquire(own).map_err(|error| format!("the root: {error}"))?;
                // Once per process, as its place in the crew.
                Box::leak(Box::new(root))
            }
        };
        let scratch = Scratch::new(env.site.boundary_key);
        Ok(Self { env, number, root, tally: Tally::Owned(slot), log, scratch })
    }

    /// The worker, which looks into this cache; if others share it, it is given in both ways.
    pub fn worker<'w, S>(
        &'w self,
        (cache, shared): (&'w dyn Cache<StaticFile>, Option<&'w SharedCache<'w>>),
        rules: AcceptRules,
        stall_ns: u64,
    ) -> Worker<'w, S> {
        let Self { env, number, .. } = *self;
        let (log, scratch) = (&*self.log, &self.scratch);
        let around = Surroundings {
            cx: FileCx { site: &env.site, cache, tally: self.tally, log, scratch },
            slot: env.arena.slot(number),
            control: env.arena.control(),
            bell: &env.bells[number],
            log,
            stall_ns,
            shared,
            root: Some(RootSource { root: self.root, channel: &env.root_channels[number] }),
        };
        let mut acceptor = Acceptor::new(env.listeners(number), rules);
        let own = &env.shares[number].listeners;
        let others = env.shares.iter().enumerate();
        let others = others.filter(|(at, share)| *at != number && share.listeners == *own);
        acceptor.others =
            others.map(|(at, share)| (env.arena.slot(at), share.connections_max)).collect();
        Worker::new(acceptor, around)
    }
}
