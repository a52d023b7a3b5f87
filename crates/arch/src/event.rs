//! The event driver: an event loop over a poller. SPED is one of them ([E] §5, [H] §2.1).
use crate::{
    Driver, Env,
    drive::step::{FileCx, Rules},
    kit::{
        accept::{AcceptRules, Acceptor, WhenFull},
        disk::InlineDisk,
        event_loop::{EventLoop, Surroundings},
    },
    options::{Kind, OptionSpec, Settings},
};
use regatta_metrics::Tally;
use regatta_origin::{LocalCache, Scratch};
use regatta_sys::{
    socket::Mode,
    wait::{Epoll, Poll, Poller, Select, Trigger},
};
use std::{process, time::Duration};

/// The driver.
pub const DRIVER: Driver = Driver { options: OPTIONS, workers: |_| 1, work };

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        key: "event.poller",
        kind: Kind::Choice(&["epoll", "epoll-edge", "poll", "select"]),
        default: "epoll",
        doc: "How the loop learns which sockets are ready.",
        long: "`epoll` is level-triggered. `poll` and `select` cost time for every connection that \
               is open at every wait; they are here because the papers used them.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.send",
        kind: Kind::Choice(&["nonblocking", "blocking"]),
        default: "nonblocking",
        doc: "Whether sockets are in non-blocking or blocking mode when a response is sent.",
        long: "`blocking` sends each response with one call that may hold the whole process until \
               the peer has taken it ([E] §4.3, `sendfile-b`); a peer that takes nothing is given \
               up after `limits.send_window_ms`. Not for servers with one process and real users.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.turn_bytes_max",
        kind: Kind::Bytes { min: 4096, max: 1 << 30 },
        default: "2 MiB",
        doc: "Bytes that one connection may send before others have their turn.",
        long: "",
        since: "0.1",
    },
    OptionSpec {
        key: "event.turn_ops_max",
        kind: Kind::Count { min: 2, max: 1_000_000 },
        default: "64",
        doc: "Operations that one connection may perform before others have their turn.",
        long: "A pipelined request costs one or two.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.stall_us",
        kind: Kind::Micros { min: 1, max: 3_600_000_000 },
        default: "10 ms",
        doc: "A turn at least this long is counted as a stall, under its cause.",
        long: "Causes: opening a file, reading a body into memory, sending from a file, a budget \
               spent, anything else. See the counters `stall_*`.",
        since: "0.1",
    },
];

/// Runs one worker: a loop over the listeners, with a cache of its own.
fn work(env: &Env, worker: usize) -> Result<(), String> {
    match env.settings.text("event.poller") {
        "epoll" => with_poller(env, worker, Epoll::new(Trigger::Level)),
        "epoll-edge" => with_poller(env, worker, Epoll::new(Trigger::Edge)),
        "poll" => with_poller(env, worker, Ok(Poll::new())),
        _ => with_poller(env, worker, Ok(Select::new())),
    }
}

fn with_poller<P: Poller>(
    env: &Env,
    worker: usize,
    poller: std::io::Result<P>,
) -> Result<(), String> {
    let poller = poller.map_err(|error| format!("cannot make a poller: {error}"))?;
    let slot = env.arena.slot(worker);
    slot.enter(process::id());
    let cache = LocalCache::new(&env.site.caching, env.site.seed);
    let scratch = Scratch::new(env.site.seed ^ u64::from(process::id()));
    let log = (env.open_log)(worker);
    let cx = FileCx {
        site: &env.site,
        cache: &cache,
        tally: Tally::Owned(slot),
        log: &*log,
        scratch: &scratch,
    };
    let around = Surroundings {
        cx,
        slot,
        control: env.arena.control(),
        bell: &env.bells[worker],
        log: &*log,
        stall_ns: env.settings.number("event.stall_us") * 1000,
    };
    let acceptor = Acceptor::new(&env.listeners, accept_rules(env));
    let mut disk = InlineDisk { root: &env.root, rules: env.rules };
    EventLoop::new(poller, acceptor, rules(&env.settings), around)
        .run(&mut disk)
        .map_err(|error| format!("the event loop cannot go on: {error}"))
}

fn accept_rules(env: &Env) -> AcceptRules {
    let settings = &env.settings;
    AcceptRules {
        count: settings.number_as("accept.count"),
        eager_read: settings.flag("accept.eager_read"),
        on_close: settings.flag("accept.on_close"),
        when_full: match settings.text("accept.when_full") {
            "leave" => WhenFull::Leave,
            _ => WhenFull::Stop,
        },
        connections_max: env.connections_max,
        mode: if blocking(settings) { Mode::Blocking } else { Mode::Nonblocking },
    }
}

fn blocking(settings: &Settings) -> bool {
    settings.text("event.send") == "blocking"
}

fn rules(settings: &Settings) -> Rules {
    Rules {
        bytes_max: settings.number("event.turn_bytes_max"),
        ops_max: settings.number_as("event.turn_ops_max"),
        full_read: settings.flag("accept.full_read"),
        eager_write: settings.flag("accept.eager_write"),
        edge: false,
        patience: blocking(settings)
            .then(|| Duration::from_millis(settings.number("limits.send_window_ms"))),
    }
}
