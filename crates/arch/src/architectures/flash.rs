//! Flash (Pai, Druschel, Zwaenepoel, USENIX 1999), following its published source. AMPED with two
//! kinds of helper processes, which only bring names and chunks of files into memory. The loop then
//! opens the names itself, maps the chunks and sends from them.
use crate::{
    Demand, Driver, Env, Settings, WorkError, WorkerLog,
    architectures::event::{self, EventOptions, EventWorker},
    conn::maps::Maps,
    disk::{
        at_once::{Completion, Disk, DiskResult, count_residency, front},
        helper_processes::Processes,
        helpers::{HelperJob, HelperLimits, HelperPool, HelperTask, Helpers, Purpose},
        waiters::{Sequence, Waiters},
    },
    drive::{
        ledger::Spent,
        perform::{self, Below, TransferFailure, timed},
    },
    options::{Choice as _, Kind, OptionSpec, choice, joined, options},
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Abandoned, Codings, File as _, FileId, OpenReq, Outbox, ReadReq, Ticket};
use regatta_sys::{
    OpenResult, Read, Resident, StaticFile, by_mincore,
    socket::Connection,
    wait::{Epoll, Interest, Poller as _, Trigger},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    io,
    os::fd::{AsFd as _, BorrowedFd},
};

/// The driver.
pub const DRIVER: Driver = Driver { demand, ..Driver::plain(&OPTIONS, event::processes, work) };

const OPTIONS: [OptionSpec; event::OPTIONS.len() + OWN.len()] = joined(event::OPTIONS, OWN);

options! {
    /// The options that no other driver has.
    struct FlashOptions, OWN;

    name_helpers_max: usize = OptionSpec {
        key: "flash.name_helpers_max",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "2",
        doc: "The most helper processes of a worker that look up names.",
        long: "",
    },
    read_helpers_max: usize = OptionSpec {
        key: "flash.read_helpers_max",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "4",
        doc: "The most helper processes of a worker that read.",
        long: "Tasks that come while all helpers of their kind are busy wait in a queue; the \
               number of open connections bounds it.",
    },
    start_delay_ms: u64 = OptionSpec {
        key: "flash.start_delay_ms",
        kind: Kind::Millis { min: 0, max: 3_600_000 },
        default: "1 s",
        doc: "How long tasks must have been waiting without a break until another helper is \
              started.",
        long: "The first of each kind is started with the first task. The time begins again with \
               each helper that is started. Whether it is over is checked when a task arrives or \
               is done.",
    },
    helper_idle_ms: u64 = OptionSpec {
        key: "flash.helper_idle_ms",
        kind: Kind::Millis { min: 1, max: 86_400_000 },
        default: "30 s",
        doc: "How long a helper may have nothing to do before it is stopped.",
        long: "It is stopped when another of its kind has done a task.",
    },
    coalesce: bool = OptionSpec {
        key: "flash.coalesce",
        kind: Kind::Bool,
        default: "true",
        doc: "Whether an operation waits for the task of another one if both need the same name or \
              chunk.",
        long: "",
    },
    residency: Residency = OptionSpec {
        key: "flash.residency",
        kind: Kind::Choice(Residency::WORDS),
        default: "mincore",
        doc: "What of a chunk of a file is sent without a helper.",
        long: "`mincore`: what is mapped and in memory, from the first byte on; it is looked at \
               before each send. Linux gives a true answer only to users who own the file or may \
               write it. `mapped`: all that is mapped, as where Flash was built for Linux; if it \
               is no longer in memory, the event loop waits for the disk.",
    },
    map_bytes_max: u64 = OptionSpec {
        key: "flash.map_bytes_max",
        kind: Kind::Bytes { min: 4096, max: 1 << 40 },
        default: "32 MiB",
        doc: "How much of files a worker has mapped at once.",
        long: "What was sent from least recently is unmapped first. A chunk that is not mapped is \
               read by a helper first, in memory or not, so there should be room for all that is \
               often asked for. At most 32768 chunks are mapped, of any size. Where the system \
               refuses to map more (vm.max_map_count), chunks are sent without.",
    },
    chunk_bytes: u64 = OptionSpec {
        key: "flash.chunk_bytes",
        kind: Kind::Bytes { min: 4096, max: 16 << 20 },
        default: "64 KiB",
        doc: "How much of a file is mapped, read by a helper, and sent at once.",
        long: "Chunks begin at multiples of it.",
    },
}

choice! {
    /// Part of a chunk that is taken to be in memory (`flash.residency`).
    enum Residency {
        /// The pages that mincore(2) says are there.
        Mincore = "mincore",
        /// All of it, once it is mapped.
        Mapped = "mapped",
    }
}

fn demand(settings: &Settings, _: usize) -> Demand {
    let own = FlashOptions::read(settings);
    Demand::with_helpers(own.name_helpers_max + own.read_helpers_max)
}

fn work(env: &Env, worker: usize) -> Result<(), WorkError> {
    let options = EventOptions::read(&env.settings);
    let own = FlashOptions::read(&env.settings);
    let of = EventWorker { env, worker, options: &options, visits: None };
    event::work_with(of, |root, tally, _| {
        let fault = WorkError::preparing("helpers");
        let pool = || Processes::new(root, env.rules, false, tally).map_err(fault);
        let (below, pools) = (Below { root, rules: env.rules }, [pool()?, pool()?]);
        let disk = FlashDisk::new(pools, &own, options.stall_ns(), below, tally);
        Ok(Box::new(disk.map_err(fault)?))
    })
}

/// Data that a helper brings into memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    /// A path, and the siblings that are looked for.
    Name(Box<[u8]>, Codings),
    /// A range of a file: its first byte, and its length.
    Range(FileId, u64, u64),
}

/// An operation of a connection, which the loop performs when a helper has done its task.
#[derive(Debug)]
enum Operation {
    Open(Ticket, OpenReq),
    Read(Ticket, ReadReq<StaticFile>),
    /// Sends bytes of a file: the first byte, and their number.
    Send(StaticFile, u64, u64),
}

impl Operation {
    /// Task of the helper, and the counter for it.
    fn task(&self, chunk_bytes: u64) -> (Target, HelperTask, Counter) {
        let touch = |file: &StaticFile, at, len| {
            let task = HelperTask::Touch(ReadReq::new(file.clone(), at, len));
            (Target::Range(file.id(), at, len), task)
        };
        let ((target, task), counter) = match self {
            Self::Open(_, req) => {
                let target = Target::Name(req.path.clone(), req.siblings);
                ((target, HelperTask::Open(req.clone())), Counter::HelperTasksOpen)
            }
            Self::Read(_, req) => (touch(&req.file, req.at, req.len), Counter::HelperTasksRead),
            // All of its chunk.
            Self::Send(file, at, len) => {
                let start = at - at % chunk_bytes;
                let end = (start + chunk_bytes).min(file.len()).max(at + len);
                (touch(file, start, end - start), Counter::HelperTasksPrefetch)
            }
        };
        (target, task, counter)
    }

    const fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Open(ticket, _) | Self::Read(ticket, _) => Some(*ticket),
            Self::Send(..) => None,
        }
    }

    /// Performs the operation. A `Send` has no result; the connection only continues.
    fn finish(self, below: Below<'_>) -> (DiskResult, Spent) {
        let mut spent = Spent::default();
        let result = match self {
            Self::Open(ticket, req) => {
                DiskResult::Opened(ticket, timed(&mut spent.open, || below.open(&req)))
            }
            Self::Read(ticket, req) => {
                DiskResult::Read(ticket, timed(&mut spent.read, || perform::read(req)))
            }
            Self::Send(_, _, len) => DiskResult::Prefetched(len),
        };
        (result, spent)
    }
}

/// The kinds of helpers.
const NAMES: usize = 0;
const READS: usize = 1;

/// Helpers of one kind, and their tasks.
struct Group<'a, C> {
    helpers: Helpers<'a, C>,
    /// Tasks, by number.
    tasks: HashMap<u64, Shared>,
    /// Numbers of the tasks that others can join.
    numbers: HashMap<Target, u64>,
}

/// A task, and the operations that wait for it: at least one.
struct Shared {
    target: Target,
    sequences: BTreeSet<Sequence>,
}

impl<'a, C: HelperPool> Group<'a, C> {
    fn new(pool: C, limits: HelperLimits, tally: Tally<'a>) -> Self {
        let helpers = Helpers::new(pool, limits, tally);
        Self { helpers, tasks: HashMap::new(), numbers: HashMap::new() }
    }

    /// Forgets an operation that waits for a task. A task without operations is not begun.
    fn forget(&mut self, number: u64, sequence: Sequence) {
        let Some(task) = self.tasks.get_mut(&number) else { return };
        task.sequences.remove(&sequence);
        if task.sequences.is_empty() {
            self.take(number);
            self.helpers.forget(number, Abandoned::All);
        }
    }

    /// Operations that waited for the next completed task.
    fn next_done(&mut self, below: Below<'_>) -> Option<BTreeSet<Sequence>> {
        let done = self.helpers.next_completion(below)?;
        Some(self.take(done.key).map(|task| task.sequences).unwrap_or_default())
    }

    fn take(&mut self, number: u64) -> Option<Shared> {
        let task = self.tasks.remove(&number)?;
        if self.numbers.get(&task.target) == Some(&number) {
            self.numbers.remove(&task.target);
        }
        Some(task)
    }
}

/// An operation that waits for a helper.
struct Waiting {
    key: u64,
    operation: Operation,
    /// Kind of helper, and number of the task.
    task: (usize, u64),
}

/// Disk of a loop whose helpers only bring data into memory.
struct FlashDisk<'a, C> {
    groups: [Group<'a, C>; 2],
    /// Readable while a group may have a completion.
    sources: Epoll,
    coalesce: bool,
    /// Number of the last task.
    last: u64,
    waiters: Waiters,
    waiting: BTreeMap<Sequence, Waiting>,
    /// Operations in `waiting` whose task is done.
    done: VecDeque<Sequence>,
    maps: Maps<'a>,
    residency: Residency,
    below: Below<'a>,
    stall_ns: u64,
    /// Whether the range that is being sent was found in memory.
    vouched: bool,
    tally: Tally<'a>,
}

impl<'a, C: HelperPool> FlashDisk<'a, C> {
    /// Makes a disk that maps nothing yet and has no helpers.
    fn new(
        pools: [C; 2],
        options: &FlashOptions,
        stall_ns: u64,
        below: Below<'a>,
        tally: Tally<'a>,
    ) -> io::Result<Self> {
        let limits = |helpers_max| HelperLimits {
            helpers_max,
            helpers_idle_max: 0,
            start_ns_min: options.start_delay_ms * 1_000_000,
            idle_ns_min: options.helper_idle_ms * 1_000_000,
        };
        let [names, reads] = pools;
        let groups = [
            Group::new(names, limits(options.name_helpers_max), tally),
            Group::new(reads, limits(options.read_helpers_max), tally),
        ];
        let mut sources = Epoll::new(Trigger::Level)?;
        for group in &groups {
            sources.add(group.helpers.source(), 0, Interest::READ)?;
        }
        Ok(Self {
            groups,
            sources,
            coalesce: options.coalesce,
            last: 0,
            waiters: Waiters::default(),
            waiting: BTreeMap::new(),
            done: VecDeque::new(),
            maps: Maps::new(options.chunk_bytes, options.map_bytes_max, tally),
            residency: options.residency,
            below,
            stall_ns,
            vouched: false,
            tally,
        })
    }

    /// Has a helper bring into memory what an operation needs. If there is no helper, the loop
    /// performs the operation at once and returns its result.
    fn ask(&mut self, key: u64, operation: Operation) -> Option<DiskResult> {
        let kind = if matches!(operation, Operation::Open(..)) { NAMES } else { READS };
        let (target, task, counter) = operation.task(self.maps.chunk_bytes());
        let Group { helpers, tasks, numbers } = &mut self.groups[kind];
        let number = if let Some(known) = numbers.get(&target) {
            self.tally.add(Counter::FlashCoalesced, 1);
            *known
        } else {
            self.last += 1;
            let job = HelperJob::new(self.last, Purpose::Shared(counter), task);
            if helpers.submit_or_run(job, self.below).is_some() {
                return Some(operation.finish(self.below).0);
            }
            if self.coalesce {
                numbers.insert(target.clone(), self.last);
            }
            tasks.insert(self.last, Shared { target, sequences: BTreeSet::new() });
            self.last
        };
        let sequence = self.waiters.add(key, operation.ticket());
        tasks.get_mut(&number).expect("a number that is known").sequences.insert(sequence);
        self.waiting.insert(sequence, Waiting { key, operation, task: (kind, number) });
        None
    }

    /// Number of bytes that can be sent at once, of a range within one chunk.
    fn sendable(&mut self, file: &StaticFile, at: u64, len: u64) -> u64 {
        let map = self.maps.get(file, at);
        let found = match (map, self.residency) {
            (None, _) => Some(0),
            (Some(_), Residency::Mapped) => Some(len),
            (Some(map), Residency::Mincore) => map.resident(file, at, len),
        };
        if found.is_some_and(|bytes| (1..len).contains(&bytes)) {
            self.tally.add(Counter::FlashPrefixSends, 1);
        }
        let check = match found {
            Some(0) => Resident::No,
            Some(_) => Resident::Yes,
            None => Resident::Unknown,
        };
        count_residency(self.tally, check);
        found.unwrap_or(0)
    }
}

impl<C: HelperPool> Disk for FlashDisk<'_, C> {
    fn open(&mut self, key: u64, ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        self.ask(key, Operation::Open(ticket, req))?.opened()
    }

    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        if self.residency == Residency::Mincore {
            let found = by_mincore(&req.file, req.at, req.len);
            if count_residency(self.tally, found) {
                return Some(perform::read(req));
            }
        }
        self.ask(key, Operation::Read(ticket, req))?.read()
    }

    fn prefetch(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64> {
        let chunk_bytes = self.maps.chunk_bytes();
        let Some((file, at, len)) = front(outbox, chunk_bytes) else { return Some(u64::MAX) };
        let ready = self.sendable(file, at, len);
        self.vouched = ready > 0;
        if self.vouched {
            return Some(ready);
        }
        self.ask(key, Operation::Send(file.clone(), at, len)).map(|_| len)
    }

    fn maps(&self) -> bool {
        true
    }

    fn send(
        &mut self,
        socket: &Connection,
        outbox: &mut Outbox<StaticFile>,
        bytes_max: u64,
        spent: &mut Spent,
        tally: Tally<'_>,
    ) -> Result<u64, TransferFailure> {
        if let Some((file, at, _)) = front(outbox, self.maps.chunk_bytes()) {
            let file = file.clone();
            if let Some(map) = self.maps.get_or_map(&file, at) {
                let sent = perform::send_mapped(socket, outbox, map, bytes_max, spent, tally)?;
                if let Some(sent) = sent {
                    return Ok(sent);
                }
                self.maps.remove(&file, at);
            }
        }
        perform::send(socket, outbox, bytes_max, spent, tally)
    }

    fn sent(&mut self, ns: u64) {
        if std::mem::take(&mut self.vouched) && ns >= self.stall_ns {
            self.tally.add(Counter::ResidencyFalse, 1);
        }
    }

    fn forget(&mut self, key: u64, what: Abandoned) {
        let Self { waiters, waiting, groups, .. } = self;
        waiters.forget(key, what, |sequence| {
            if let Some(Waiting { task: (kind, number), .. }) = waiting.remove(&sequence) {
                groups[kind].forget(number, sequence);
            }
        });
    }

    fn renew_root(&mut self) {
        self.groups.iter_mut().for_each(|group| group.helpers.renew_root());
        // Maps would keep in use the disk of what was served before.
        self.maps.clear();
    }

    fn source(&self) -> Option<BorrowedFd<'_>> {
        Some(self.sources.as_fd())
    }

    fn check(&mut self, now_ns: u64, log: &dyn WorkerLog) {
        self.groups.iter_mut().for_each(|group| group.helpers.check("", now_ns, log));
    }

    fn next_completion(&mut self) -> Option<Completion> {
        loop {
            while let Some(sequence) = self.done.pop_front() {
                // The operation may have been forgotten meanwhile.
                let Some(Waiting { key, operation, .. }) = self.waiting.remove(&sequence) else {
                    continue;
                };
                self.waiters.remove(key, sequence);
                let (result, spent) = operation.finish(self.below);
                return Some(Completion { key, result, spent });
            }
            let below = self.below;
            let done = self.groups.iter_mut().find_map(|group| group.next_done(below))?;
            self.done.extend(done);
        }
    }
}

#[cfg(test)]
mod tests;
