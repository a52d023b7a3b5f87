//! The event driver: processes, each with an event loop over a poller. SPED is one of them ([E] §5,
//! [H] §2.1), SYMPED several ([E] §5.1), N-copy several that do not share their sockets ([S] §4).
mod options;

pub(crate) use options::{EventOptions, OPTIONS, PollerKind};

use crate::{
    Driver, Env,
    drive::{
        perform::Below,
        step::{FileCx, Rules},
    },
    kit::{
        accept::{AcceptRules, Acceptor, WhenFull},
        disk::{Disk, InlineDisk},
        event_loop::{EventLoop, RootSource, Surroundings},
        shared_cache::SharedCache,
    },
    layout::copies_and_processes,
    options::{OptionSpec, Settings, joined},
    shared::{self, Leased, SharedDisk},
};
use regatta_metrics::Tally;
use regatta_origin::{Cache, LocalCache, Scratch};
use regatta_sys::{
    Root, StaticFile, affinity,
    crew::Member,
    socket::Mode,
    wait::{Epoll, Poll, Poller, Select, Trigger},
};
use std::{io, os::fd::AsFd, process, time::Duration};

/// The driver.
pub const DRIVER: Driver = Driver { options: &ALL, workers, work };

const ALL: [OptionSpec; OPTIONS.len() + shared::OPTIONS.len()] = joined(OPTIONS, shared::OPTIONS);

pub(crate) fn workers(settings: &Settings, processors: usize) -> usize {
    let (copies, processes) = copies_and_processes(settings, processors);
    copies * processes
}

/// Runs one worker: a loop over its listeners, with a cache of its own or a part in a shared one.
fn work(env: &Env, worker: usize) -> Result<(), String> {
    let options = EventOptions::read(&env.settings);
    work_with(env, worker, &options, |root, _, member| {
        let disk = InlineDisk(Below { root, rules: env.rules });
        match member {
            Some(member) => Ok(Box::new(SharedDisk { disk, member })),
            None => Ok(Box::new(disk)),
        }
    })
}

/// The disk of a loop, or why there is none.
type Made<'a> = Result<Box<dyn Disk + 'a>, String>;

/// Makes it below the root of its worker, with its tally; the worker may be one of a crew.
type MakeDisk<'a, 'b> =
    Box<dyn FnOnce(&'a Root, Tally<'a>, Option<&'static Member>) -> Made<'a> + 'b>;

/// [`work`], with a disk that is made in the worker.
pub(crate) fn work_with<'a>(
    env: &'a Env,
    worker: usize,
    options: &EventOptions,
    disk: impl FnOnce(&'a Root, Tally<'a>, Option<&'static Member>) -> Made<'a>,
) -> Result<(), String> {
    let cpus = &env.shares[worker].cpus;
    if !cpus.is_empty() {
        affinity::pin(cpus)
            .map_err(|error| format!("cannot run on processors {cpus:?}: {error}"))?;
    }
    let disk = Box::new(disk);
    let of = (env, worker, options);
    match options.poller {
        PollerKind::Epoll => with_poller(of, disk, || epoll(options, Trigger::Level)),
        PollerKind::EpollEdge => with_poller(of, disk, || epoll(options, Trigger::Edge)),
        PollerKind::Poll => with_poller(of, disk, || Ok(Poll::new())),
        PollerKind::Select => with_poller(of, disk, || Ok(Select::new())),
    }
}

fn epoll(options: &EventOptions, trigger: Trigger) -> io::Result<Epoll> {
    let epoll = Epoll::new(trigger)?.returning(options.wait_events_max);
    Ok(if options.is_exclusive() { epoll.exclusive() } else { epoll })
}

/// A worker, and what is asked of it.
type Of<'a, 'b> = (&'a Env, usize, &'b EventOptions);

fn with_poller<'a, P: Poller>(
    of: Of<'a, '_>,
    disk: MakeDisk<'a, '_>,
    poller: impl FnOnce() -> io::Result<P>,
) -> Result<(), String> {
    let (env, worker, _) = of;
    let failed = |error: io::Error| format!("cannot make a poller: {error}");
    let Some(shared) = &env.shared else {
        let cache = LocalCache::new(&env.site.caching, env.site.seed);
        return run(of, poller().map_err(failed)?, (&cache, None), disk);
    };
    let member = shared.crew.enter(worker);
    let member = member.map_err(|error| format!("cannot join the others: {error}"))?;
    let cache = SharedCache::new(shared.place, &env.site.caching, member, &env.bells);
    let poller = Leased::new(member, poller).map_err(failed)?;
    run(of, poller, (&cache, Some(&cache)), disk)
}

fn run<'a, P: Poller>(
    (env, worker, options): Of<'a, '_>,
    poller: P,
    (cache, shared): (&dyn Cache<StaticFile>, Option<&SharedCache<'_>>),
    disk: MakeDisk<'a, '_>,
) -> Result<(), String> {
    let slot = env.arena.slot(worker);
    slot.enter(process::id());
    let scratch = Scratch::new(env.site.boundary_key);
    let open_log = || (env.open_log)(worker);
    let log = match shared.map(SharedCache::member) {
        None => open_log(),
        Some(member) => member.acquire(|| {
            let log = open_log();
            log.each_own(&mut |fd| member.own(fd));
            log
        }),
    };
    let member = shared.map(SharedCache::member);
    let root = own_root(env, member).map_err(|error| format!("the root: {error}"))?;
    let cx =
        FileCx { site: &env.site, cache, tally: Tally::Owned(slot), log: &*log, scratch: &scratch };
    let around = Surroundings {
        cx,
        slot,
        control: env.arena.control(),
        bell: &env.bells[worker],
        log: &*log,
        stall_ns: options.stall_ns(),
        shared,
        root: Some(RootSource { root, channel: &env.root_channels[worker] }),
    };
    let mut disk = disk(root, Tally::Owned(slot), member)?;
    let mut acceptor = Acceptor::new(env.listeners(worker), accept_rules(env, worker, options));
    let own = &env.shares[worker].listeners;
    let others = (0..env.shares.len())
        .filter(|other| *other != worker && env.shares[*other].listeners == *own);
    acceptor.others =
        others.map(|at| (env.arena.slot(at), env.shares[at].connections_max)).collect();
    acceptor.exclusive = options.is_exclusive();
    EventLoop::new(poller, acceptor, rules(&env.settings, options), around)
        .run(&mut *disk)
        .map_err(|error| format!("the event loop cannot go on: {error}"))
}

/// The root of this worker alone, which it replaces when the master sends another: where all share
/// a table of descriptors, by a number of its own.
fn own_root<'a>(env: &'a Env, member: Option<&'static Member>) -> io::Result<&'a Root> {
    let Some(member) = member else { return Ok(&env.root) };
    let root = member.acquire(|| env.root.try_clone().inspect(|root| member.own(root.as_fd())))?;
    // Once per process, as its place in the crew.
    Ok(Box::leak(Box::new(root)))
}

fn accept_rules(env: &Env, worker: usize, options: &EventOptions) -> AcceptRules {
    let settings = &env.settings;
    AcceptRules {
        count: settings.number_as("accept.count"),
        eager_read: settings.flag("accept.eager_read"),
        on_close: settings.flag("accept.on_close"),
        when_full: match settings.choice("accept.when_full") {
            // An exclusive wake is spent on whoever asks, also if there is no room: those who have
            // some would sleep on, and the connection would wait until the next one comes.
            WhenFull::Leave if options.is_exclusive() => WhenFull::Stop,
            when_full => when_full,
        },
        connections_max: env.shares[worker].connections_max,
        mode: options.mode(),
    }
}

fn rules(settings: &Settings, options: &EventOptions) -> Rules {
    Rules {
        bytes_max: options.turn_bytes_max,
        ops_max: options.turn_ops_max,
        full_read: settings.flag("accept.full_read"),
        eager_write: settings.flag("accept.eager_write"),
        edge: false,
        // The kernel waits so long for each piece of a call: a call that fills the socket returns
        // after two such waits, and so may the next. All four end within a window and a half.
        patience: (options.mode() == Mode::Blocking)
            .then(|| Duration::from_millis(settings.number("limits.send_window_ms").div_ceil(3))),
    }
}
