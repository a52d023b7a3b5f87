//! Coloured events (libasync-smp: Zeldovich et al., USENIX 2003; [S] §2): threads of one process,
//! each with an event loop. A connection is a colour, which idle loops take from busy ones.
use crate::{
    Demand, Driver, Env, Units, WorkError,
    architectures::event::{self, EventOptions, PollerKind},
    cache::thread_cache::ThreadCache,
    conn::{
        accept::{AcceptOptions, AcceptRules},
        beats::Beats,
        worker::{Own, UnitNumber},
    },
    disk::at_once::InlineDisk,
    drive::perform::Below,
    loops::{
        event_loop::{EventLoop, colours::Colour},
        peers::{self, PeerThreads, Peers},
    },
    options::{Kind, OptionSpec, Settings, joined, options},
};
use regatta_sys::{
    socket::Mode,
    wait::{Poll, Poller, Select, Trigger},
};
use std::io;

/// The driver.
pub const DRIVER: Driver = Driver {
    units: |settings| match ColouredOptions::read(settings).loops {
        0 | 1 => Units::One,
        _ => Units::Several,
    },
    slots: |settings| ColouredOptions::read(settings).loops.max(1),
    demand,
    ..Driver::plain(&OPTIONS, |_, _| 1, work)
};

/// The stack of a loop that is not in the process's first thread, bytes.
const STACK_BYTES: usize = 256 << 10;

const OPTIONS: [OptionSpec; event::LOOP_OPTIONS.len() + OWN.len()] =
    joined(&event::LOOP_OPTIONS, OWN);

options! {
    /// The options that no other driver has.
    struct ColouredOptions, OWN;

    loops: usize = OptionSpec {
        key: "coloured.loops",
        kind: Kind::Count { min: 0, max: 1024 },
        default: "0",
        doc: "How many threads have an event loop; 0: as many as processors may be busy.",
        long: "Each has a poller and its part of limits.connections_max. They accept from the \
               same addresses and share one cache. There are no more of them than connections.",
    },
    steal: bool = OptionSpec {
        key: "coloured.steal",
        kind: Kind::Bool,
        default: "true",
        doc: "Whether a loop that has nothing to do takes connections from others.",
        long: "One at a time, and only one whose socket is ready while its loop has others to \
               serve. The connection stays with the loop that took it. `colour_steals` counts \
               them.",
    },
}

impl ColouredOptions {
    /// Number of loops for `connections`.
    fn count(&self, connections: usize) -> usize {
        self.loops.clamp(1, connections.max(1))
    }
}

fn demand(settings: &Settings, connections: usize) -> Demand {
    let loops = ColouredOptions::read(settings).count(connections) as u64;
    let address_bytes = (loops - 1) * STACK_BYTES as u64;
    Demand { tasks: loops, mappings: 2 * (loops - 1), address_bytes, descriptors: 0 }
}

/// Runs the process: its loops, the first in this thread.
fn work(env: &Env, process: usize) -> Result<(), WorkError> {
    let loops = Loops::new(env, process)?;
    match loops.event.poller {
        PollerKind::Epoll => loops.run(|event| event::epoll(event, Trigger::Level)),
        PollerKind::EpollEdge => loops.run(|event| event::epoll(event, Trigger::Edge)),
        PollerKind::Poll => loops.run(|_| Ok(Poll::new())),
        PollerKind::Select => loops.run(|_| Ok(Select::new())),
    }
}

/// The loops of a process, and their shared state.
struct Loops<'e> {
    env: &'e Env,
    process: usize,
    event: EventOptions,
    accept: AcceptOptions,
    /// Connections of all loops.
    connections_max: usize,
    /// Number of loops.
    count: usize,
    peers: Peers<Colour>,
    cache: ThreadCache,
    /// Proof that each loop still returns to its other duties.
    beats: Beats,
}

impl<'e> Loops<'e> {
    fn new(env: &'e Env, process: usize) -> Result<Self, WorkError> {
        let own = ColouredOptions::read(&env.settings);
        let connections_max = env.shares[process].connections_max;
        let count = own.count(connections_max);
        let peers = Peers::new(count, own.steal && count > 1)
            .map_err(WorkError::preparing("event loops that wake each other"))?;
        Ok(Self {
            env,
            process,
            event: EventOptions::of_loop(&env.settings),
            accept: AcceptOptions::read(&env.settings),
            connections_max,
            count,
            peers,
            cache: ThreadCache::new(&env.site.caching, env.site.seed),
            beats: Beats::default(),
        })
    }

    /// Runs all of them, the first in this thread.
    fn run<P: Poller>(
        self,
        poller: impl Fn(&EventOptions) -> io::Result<P> + Sync,
    ) -> Result<(), WorkError> {
        let first = self.own(0)?;
        let poller = &|| poller(&self.event);
        let threads = PeerThreads {
            env: self.env,
            process: self.process,
            name: "loop",
            stack_bytes: STACK_BYTES,
            fault: |error| WorkError::Thread { lower: "coloured.loops", error },
        };
        let life = |at| self.serve(&self.own(at)?, at, poller());
        self.peers.run(threads, || self.serve(&first, 0, poller()), life);
        self.peers.into_result()
    }

    /// Resources of loop `at` alone; the first takes its own before the others start.
    fn own(&self, at: usize) -> Result<Own<'e>, WorkError> {
        Own::unit(self.env, self.process, UnitNumber { unit: at, units: self.count }, None)
    }

    /// Runs loop `at` from its beginning to its end.
    fn serve<P: Poller>(
        &self,
        own: &Own<'_>,
        at: usize,
        poller: io::Result<P>,
    ) -> Result<(), WorkError> {
        let Self { env, accept, connections_max, count, .. } = self;
        let poller = poller.map_err(WorkError::Poller)?;
        let connections = peers::share(*connections_max, *count, at);
        let accepts = AcceptRules::new(accept, connections, Mode::Nonblocking, false);
        let worker = own.worker(&self.cache, None, accepts, self.event.stall_ns());
        let worker = worker.with_pulse(self.beats.pulse(own.is_first()));
        let rules = event::rules(accept, &self.event, env.site.deadlines.send_window_ms);
        let mut disk = InlineDisk(Below { root: own.root, rules: env.rules });
        EventLoop::new(poller, worker, rules, &mut disk)
            .beside(&self.peers, at)
            .run()
            .map_err(WorkError::stopped("an event loop"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::event_loop::schedule::{Case, LOOP_SEEDS, own_disk, run_all};

    #[test]
    fn its_options_are_those_of_a_loop() {
        let keys = OPTIONS.map(|spec| spec.key);
        let expect = [
            "event.poller",
            "event.wait_events_max",
            "event.turn_bytes_max",
            "event.turn_ops_max",
            "event.handshakes_per_round",
            "event.stall_us",
            "coloured.loops",
            "coloured.steal",
        ];
        assert_eq!(keys, expect);
    }

    /// Two loops on the same listeners, or each on its own: an idle one takes connections.
    #[test]
    fn loops_that_steal_forget_none() {
        let test = "loops_that_steal_forget_none";
        let (mut stolen, mut is_all) = (0, true);
        for case in [
            Case::one(test),
            Case::frames(test),
            Case::http2(test),
            Case { sealed: true, ..Case::one(test) },
        ] {
            let sums = run_all(Case { loops: 2, steals: true, ..case }, &own_disk);
            // A replay runs only a few schedules.
            is_all &= sums.schedules >= LOOP_SEEDS;
            assert!(!is_all || sums.answers > sums.schedules, "{sums:?}");
            stolen += sums.stolen;
        }
        assert!(!is_all || stolen > LOOP_SEEDS / 8, "{stolen} connections were taken");
    }
}
