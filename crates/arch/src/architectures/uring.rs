//! Completion instead of readiness: an event loop whose operations on sockets and files are
//! performed by one ring of the kernel.
#[cfg(test)]
mod tests;

use crate::{
    Demand, Driver, Env, WorkError,
    architectures::event::{HANDSHAKES_PER_ROUND, TURN_BYTES_MAX, TURN_OPS_MAX, WORKERS_MAX},
    conn::{
        accept::{AcceptOptions, AcceptRules},
        step::{Leaves, TurnRules},
        worker::Own,
    },
    disk::{
        at_once::{DiskResult, Wire},
        ring_disk::{Engine, RingDisk, sent_result},
    },
    drive::{
        ledger,
        perform::{self, Below, TransferFailure},
    },
    loops::event_loop::EventLoop,
    options::{Choice as _, Kind, OptionSpec, Settings, choice, options},
};
use regatta_metrics::Tally;
use regatta_op::{Outbox, ReadReq};
use regatta_origin::LocalCache;
use regatta_sys::{
    Bell, Root, StaticFile,
    socket::{Connection, Mode},
    uring::{DiskOp, Finished, SentBytes, Token, WireRing},
};
use std::{
    cell::RefCell,
    io,
    os::fd::{AsFd, BorrowedFd},
};

/// The driver.
pub const DRIVER: Driver = Driver {
    ignores: &["accept.eager_read", "accept.eager_write", "accept.full_read"],
    demand,
    ..Driver::plain(OPTIONS, processes, work)
};

options! {
    /// The options of the driver.
    struct UringOptions, OPTIONS;

    processes: usize = OptionSpec {
        key: "uring.processes",
        kind: Kind::Count { min: 0, max: WORKERS_MAX as u64 },
        default: "1",
        doc: "How many processes serve, each with a ring.",
        long: "0 means one for each processor that the server may use (see event.processes). With \
               several, each has a socket of its own for every address (SO_REUSEPORT): the kernel \
               picks one by hash.",
    },
    buffers: usize = OptionSpec {
        key: "uring.buffers",
        kind: Kind::Count { min: 8, max: 32_768 },
        default: "512",
        doc: "How many buffers the kernel receives into, in each process.",
        long: "Rounded up to a power of two. All connections share them, and one without input has \
               none. If none is left, input waits in sockets until the next round.",
    },
    buffer_bytes: usize = OptionSpec {
        key: "uring.buffer_bytes",
        kind: Kind::Bytes { min: 256, max: 32 << 10 },
        default: "4 KiB",
        doc: "The size of each of these buffers.",
        long: "A client that sends requests faster than it takes responses has at most 33 times \
               as much in memory; the rest waits in its socket.",
    },
    chunk_bytes: u64 = OptionSpec {
        key: "uring.chunk_bytes",
        kind: Kind::Bytes { min: 4096, max: 16 << 20 },
        default: "256 KiB",
        doc: "How much of a file is read and sent at once.",
        long: "Pieces begin at multiples of it.",
    },
    body: Body = OptionSpec {
        key: "uring.body",
        kind: Kind::Choice(Body::WORDS),
        default: "read",
        doc: "How files that are not in the cache's memory reach the socket.",
        long: "`read`: a piece is read into memory, and sent with what precedes it. `splice`: a \
               piece goes to the socket through a pipe, without a copy. The kernel moves it in \
               threads of its own, cached or not.",
    },
    pipes_max: usize = OptionSpec {
        key: "uring.pipes_max",
        kind: Kind::Count { min: 1, max: 100_000 },
        default: "128",
        doc: "The most pipes in each process, with `uring.body=splice`.",
        long: "A connection has one while it is being sent a file, and a pipe has two descriptors. \
               Where all are in use, pieces are read into memory.",
    },
    operations_max: usize = OptionSpec {
        key: "uring.operations_max",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "1024",
        doc: "The most operations on files that the kernel performs at once, in each process.",
        long: "Further operations wait in a queue, for example while a disk hangs, unless they \
               need no disk.",
    },
    turn_bytes_max: u64 = TURN_BYTES_MAX,
    turn_ops_max: u32 = TURN_OPS_MAX,
    handshakes_per_round: u32 = HANDSHAKES_PER_ROUND,
    stall_us: u64 = ledger::STALL_US,
}

choice! {
    /// Way of files to sockets (`uring.body`).
    enum Body {
        /// By way of memory.
        Read = "read",
        /// By way of a pipe.
        Splice = "splice",
    }
}

fn processes(settings: &Settings, processors: usize) -> usize {
    match UringOptions::read(settings).processes {
        0 => processors.min(WORKERS_MAX),
        processes => processes,
    }
}

/// Descriptors of the ring, its completions and its root, and two of each pipe.
fn demand(settings: &Settings, _: usize) -> Demand {
    let options = UringOptions::read(settings);
    let pipes = match options.body {
        Body::Read => 0,
        Body::Splice => options.pipes_max as u64,
    };
    Demand { tasks: 1, descriptors: 3 + 2 * pipes, ..Demand::default() }
}

fn work(env: &Env, worker: usize) -> Result<(), WorkError> {
    let options = UringOptions::read(&env.settings);
    let UringOptions { buffers, buffer_bytes, chunk_bytes, operations_max, .. } = options;
    let own = Own::new(env, worker, None)?;
    let root = own.root.try_clone().map_err(WorkError::Root)?;
    let count = u16::try_from(buffers).expect("the option's limit");
    let mut ring =
        WireRing::new(Some(root), env.rules, count, buffer_bytes).map_err(WorkError::Uring)?;
    let source = ring.source().map_err(WorkError::preparing("completions"))?;
    let ring = RefCell::new(ring);
    let engine =
        SharedRing { ring: &ring, source, body: options.body, pipes_max: options.pipes_max };
    let below = Below { root: own.root, rules: env.rules };
    let mut disk = RingDisk::new(engine, below, operations_max, chunk_bytes, own.tally);
    let cache = LocalCache::new(&env.site.caching, env.site.seed);
    let accepts = AcceptRules {
        // There is nothing to read before the ring has received it.
        eager_read: false,
        ..AcceptRules::new(
            &AcceptOptions::read(&env.settings),
            env.shares[worker].connections_max,
            Mode::Nonblocking,
            false,
        )
    };
    let rules = TurnRules {
        bytes_max: options.turn_bytes_max,
        ops_max: options.turn_ops_max,
        handshakes_per_round: options.handshakes_per_round,
        full_read: false,
        eager_write: true,
        edge: true,
        patience: None,
        leaves: Leaves::NONE,
    };
    let received = |key| ring.borrow().has_input(key);
    let worker = own.worker(&cache, None, accepts, options.stall_us * 1000);
    let worker = worker.with_received(&received);
    EventLoop::new(&ring, worker, rules, &mut disk)
        .run()
        .map_err(WorkError::stopped("the event loop"))
}

/// The ring of a loop, as its disk sees it.
struct SharedRing<'a> {
    ring: &'a RefCell<WireRing>,
    source: Bell,
    body: Body,
    pipes_max: usize,
}

impl Engine for SharedRing<'_> {
    fn start(&mut self, op: DiskOp) -> Result<Finished, Token> {
        self.ring.borrow_mut().start(op)
    }

    fn finished(&mut self, out: &mut Vec<(Token, Finished)>) -> io::Result<()> {
        let mut ring = self.ring.borrow_mut();
        out.extend(std::iter::from_fn(|| ring.next_finished()));
        Ok(())
    }

    fn describe(&self, token: Token) -> String {
        self.ring.borrow().subject(token).map_or_else(String::new, |subject| subject.to_string())
    }

    fn source(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    fn set_root(&mut self, root: &Root) {
        self.ring.borrow_mut().set_root(root);
    }

    fn is_lazy(&self) -> bool {
        false
    }

    fn wire(&mut self) -> Option<&mut dyn Wire> {
        Some(self)
    }

    fn sends_pieces(&self) -> bool {
        self.body == Body::Read
    }

    fn next_sent(&mut self) -> Option<SentBytes> {
        self.ring.borrow_mut().next_sent()
    }

    fn forget_send(&mut self, key: u64) {
        self.ring.borrow_mut().abandon_send(key);
    }

    fn piece_bytes(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> u64 {
        self.ring.borrow_mut().piece_bytes(key, outbox)
    }

    fn prepare(&mut self, key: u64, file: &StaticFile, at: u64, len: u64) -> DiskOp {
        let mut ring = self.ring.borrow_mut();
        ring.expect_piece(key, file, at);
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        // Without a pipe, memory has the piece.
        if self.body == Body::Splice
            && let Some(pipe) = ring.pipe(bytes, self.pipes_max)
        {
            return DiskOp::Fill { file: file.clone(), at, len, pipe };
        }
        DiskOp::Read(ReadReq { file: file.clone(), at, len, buffer: ring.spare() })
    }

    fn prepared(&mut self, key: u64, finished: Finished) {
        let mut ring = self.ring.borrow_mut();
        match finished {
            Finished::Read(read) => ring.keep_piece(key, read),
            Finished::Filled(pipe, filled) => ring.keep_pipe(key, pipe, filled),
            Finished::Opened(_) | Finished::Prefetched => {}
        }
    }
}

impl Wire for SharedRing<'_> {
    fn recv(
        &mut self,
        key: u64,
        _: &Connection,
        buffer: &mut [u8],
        tally: Tally<'_>,
    ) -> Result<usize, TransferFailure> {
        perform::received(self.ring.borrow_mut().recv(key, buffer), tally)
    }

    fn send(
        &mut self,
        key: u64,
        socket: &Connection,
        outbox: Outbox<StaticFile>,
        bytes_max: u64,
    ) -> u64 {
        self.ring.borrow_mut().send(key, socket, outbox, bytes_max)
    }

    fn reap(&mut self) {
        // A ring that cannot be used any more ends the next wait.
        let _ = self.ring.borrow_mut().reap();
    }

    fn settle(&mut self, key: u64, tally: Tally<'_>) -> Option<DiskResult> {
        let mut ring = self.ring.borrow_mut();
        ring.reap().ok()?;
        Some(sent_result(ring.take_sent(key)?, tally))
    }

    fn has_input(&self, key: u64, _: &Connection) -> bool {
        self.ring.borrow().has_input(key)
    }
}
