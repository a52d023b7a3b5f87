//! The event driver: processes, each with an event loop over a poller. SPED has one process ([E]
//! §5, [H] §2.1), SYMPED several ([E] §5.1), N-copy several with sockets of their own ([S] §4).
mod options;

pub(crate) use options::{
    EventOptions, HANDSHAKES_PER_ROUND, LOOP_OPTIONS, Listen, OPTIONS, Partition, Pin, PollerKind,
    SendMode, TURN_BYTES_MAX, TURN_OPS_MAX, WORKERS_MAX, copies_and_processes,
};

use crate::{
    Driver, Env, WorkError,
    cache::shared_cache::SharedCache,
    conn::{
        accept::{AcceptOptions, AcceptRules},
        step::{Leaves, TurnRules},
        worker::Own,
    },
    disk::at_once::{Disk, InlineDisk},
    drive::perform::Below,
    loops::event_loop::{EventLoop, cohort::Visits},
    options::{OptionSpec, Settings, joined},
    shared::{self, Leased, SharedDisk},
};
use regatta_metrics::Tally;
use regatta_origin::{Cache, LocalCache};
use regatta_sys::{
    Root, StaticFile,
    crew::Member,
    socket::Mode,
    wait::{Epoll, Poll, Poller, Select, Trigger},
};
use std::{io, time::Duration};

/// The driver.
pub const DRIVER: Driver = Driver::plain(&ALL, processes, work);

const ALL: [OptionSpec; OPTIONS.len() + shared::OPTIONS.len()] = joined(OPTIONS, shared::OPTIONS);

pub(crate) fn processes(settings: &Settings, processors: usize) -> usize {
    let (copies, processes) = copies_and_processes(settings, processors);
    copies * processes
}

/// Runs one worker: a loop over its listeners, with a cache of its own or a shared one.
fn work(env: &Env, worker: usize) -> Result<(), WorkError> {
    let options = EventOptions::read(&env.settings);
    let of = EventWorker { env, worker, options: &options, visits: None };
    work_with(of, |root, _, member| {
        let disk = InlineDisk(Below { root, rules: env.rules });
        match member {
            Some(member) => Ok(Box::new(SharedDisk { disk, member })),
            None => Ok(Box::new(disk)),
        }
    })
}

/// Disk of a loop, or the error that prevents it.
type Made<'a> = Result<Box<dyn Disk + 'a>, WorkError>;

/// Makes the disk of a worker from what the worker has. The worker may be one of a crew.
type MakeDisk<'a, 'b> =
    Box<dyn for<'o> FnOnce(&'o Own<'a>, Option<&'static Member>) -> Made<'o> + 'b>;

/// [`work`], with a disk that is made in the worker: below its root, and with its tally.
pub(crate) fn work_with<'a>(
    of: EventWorker<'a, '_>,
    disk: impl FnOnce(&'a Root, Tally<'a>, Option<&'static Member>) -> Made<'a>,
) -> Result<(), WorkError> {
    work_owning(of, move |own, member| disk(own.root, own.tally, member))
}

/// [`work_with`], with a disk that may also use the log of the worker.
pub(crate) fn work_owning<'a>(
    of: EventWorker<'a, '_>,
    disk: impl for<'o> FnOnce(&'o Own<'a>, Option<&'static Member>) -> Made<'o>,
) -> Result<(), WorkError> {
    let (disk, options) = (Box::new(disk), of.options);
    match options.poller {
        PollerKind::Epoll => with_poller(of, disk, || epoll(options, Trigger::Level)),
        PollerKind::EpollEdge => with_poller(of, disk, || epoll(options, Trigger::Edge)),
        PollerKind::Poll => with_poller(of, disk, || Ok(Poll::new())),
        PollerKind::Select => with_poller(of, disk, || Ok(Select::new())),
    }
}

/// Whether a connection wakes only one of the processes that share a listener.
#[must_use]
pub fn is_exclusive(settings: &Settings) -> bool {
    EventOptions::read(settings).is_exclusive()
}

/// Makes an epoll with these options.
pub(crate) fn epoll(options: &EventOptions, trigger: Trigger) -> io::Result<Epoll> {
    let epoll = Epoll::new(trigger)?.returning(options.wait_events_max);
    Ok(if options.is_exclusive() { epoll.exclusive() } else { epoll })
}

/// A worker of this driver.
#[derive(Clone, Copy)]
pub(crate) struct EventWorker<'a, 'b> {
    pub(crate) env: &'a Env,
    /// Index of the worker.
    pub(crate) worker: usize,
    pub(crate) options: &'b EventOptions,
    /// With visits, it serves by stages.
    pub(crate) visits: Option<Visits>,
}

fn with_poller<'a, P: Poller>(
    of: EventWorker<'a, '_>,
    disk: MakeDisk<'a, '_>,
    poller: impl FnOnce() -> io::Result<P>,
) -> Result<(), WorkError> {
    let EventWorker { env, worker, .. } = of;
    let Some(shared) = &env.shared else {
        let own = Own::new(env, worker, None)?;
        let cache = LocalCache::new(&env.site.caching, env.site.seed);
        return run(of, &own, poller().map_err(WorkError::Poller)?, &cache, None, disk);
    };
    let member = shared.crew.enter(worker).map_err(WorkError::Crew)?;
    let own = Own::new(env, worker, Some(member))?;
    let cache = SharedCache::new(shared.region, &env.site.caching, member, &env.bells);
    let poller = Leased::new(member, poller).map_err(WorkError::Poller)?;
    run(of, &own, poller, &cache, Some(&cache), disk)
}

fn run<'a, P: Poller>(
    of: EventWorker<'a, '_>,
    own: &Own<'a>,
    poller: P,
    cache: &dyn Cache<StaticFile>,
    shared: Option<&SharedCache<'_>>,
    disk: MakeDisk<'a, '_>,
) -> Result<(), WorkError> {
    let EventWorker { env, worker, options, visits } = of;
    let mut disk = disk(own, shared.map(SharedCache::member))?;
    let connections_max = env.shares[worker].connections_max;
    let (mode, exclusive) = (options.mode(), options.is_exclusive());
    let accept = AcceptOptions::read(&env.settings);
    let accepts = AcceptRules::new(&accept, connections_max, mode, exclusive);
    let worker = own.worker(cache, shared, accepts, options.stall_ns());
    let window_ms = env.site.deadlines.send_window_ms;
    let event_loop = EventLoop::new(poller, worker, rules(&accept, options, window_ms), &mut *disk);
    match visits {
        Some(visits) => event_loop.by_stages(visits),
        None => event_loop,
    }
    .run()
    .map_err(WorkError::stopped("the event loop"))
}

/// Rules of a loop with these options.
pub(crate) fn rules(
    accept: &AcceptOptions,
    options: &EventOptions,
    send_window_ms: u64,
) -> TurnRules {
    TurnRules {
        bytes_max: options.turn_bytes_max,
        ops_max: options.turn_ops_max,
        handshakes_per_round: options.handshakes_per_round,
        full_read: accept.full_read,
        eager_write: accept.eager_write,
        edge: false,
        patience: (options.mode() == Mode::Blocking).then(|| patience(send_window_ms)),
        leaves: Leaves::NONE,
    }
}

/// Longest wait of a blocking send for its peer. The kernel waits this long for each piece of a
/// call. A call that fills the socket returns after two such waits, and so may the next. All four
/// end within a window and a half.
pub(crate) const fn patience(send_window_ms: u64) -> Duration {
    Duration::from_millis(send_window_ms.div_ceil(3))
}
