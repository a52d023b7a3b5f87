//! Schedules of whole loops: the event loop, its accept component, its poller and the disk of its
//! architecture, in surroundings that are random.
//!
//! Real are the loop, its poller, its sockets and its files. The sockets are local ones: what one
//! end writes is at the other at once, so that a seed replays. Simulated are the time, the peers,
//! which of several loops runs next, and when the poller reports events: late, in any order, more
//! than once, or falsely. See [`world::World`] for what must hold.
mod caller;
mod edges;
mod folder;
mod handshakes;
mod line;
mod lives;
mod peer;
mod poller;
mod replays;
mod single;
mod slow;
pub(crate) mod stages;
mod world;

pub(crate) use world::Sums;

use super::{
    EventLoop,
    cohort::{CohortOrder, Visits},
    colours::Colour,
};
use crate::{
    cache::shared_cache::{CacheRegion, Locking, SharedCache},
    conn::{
        accept::{AcceptRules, Acceptor, Neighbour, WhenFull},
        step::{Leaves, TurnRules, seen},
        worker::{Worker, WorkerEnv},
    },
    disk::at_once::{Disk, InlineDisk},
    drive::{FileCx, film::tape, perform::Below},
    loops::peers::Peers,
    shared::{Leased, SharedDisk},
    testing::dice::Dice,
};
use caller::Speech;
use folder::{BEGIN_NS, Folder, NAMES, UNIX};
use regatta_metrics::{Arena, Tally};
use regatta_op::{DISK_OPS_MAX, Now};
use regatta_origin::{
    BodyFiles, Cache, CachingRules, ClearHttp1, Cx, Deadlines, Links, ListenerClass, LocalCache,
    NoLog, Peer, Protocol, Scratch, Seal, Site, Toy,
};
use regatta_sim::Frames;
use regatta_sys::{
    Bell, OpenRules, Root, StaticFile,
    crew::{self, Crew, Member},
    hook,
    socket::Mode,
    wait::{Epoll, Poll, Poller, Select, Trigger},
};
use slow::Slow;
use stages::Shape;
use std::{
    io,
    ops::Range,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread,
};
use world::{Seat, Stage, World, WorldParts};

/// Variable that, set to `A..B`, makes tests of schedules run those of these seeds.
const SEEDS_VARIABLE: &str = "REGATTA_LOOP_SEEDS";
/// Schedules of whole loops that a test runs. `cargo xtask sim` runs 5,000 of each.
pub(crate) const LOOP_SEEDS: u64 = 64;
/// Descriptors that loops which share their table may have, with all that this process has.
const NUMBERS: usize = 8192;

/// The protocol of some schedules.
static FRAMES: Frames = Frames { names: &NAMES };

/// The class of listeners whose connections are sealed.
const SEALED: ListenerClass = ListenerClass(1);

/// Poller of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Epoll,
    EpollEdge,
    Poll,
    Select,
}

const WAITS: [Waits; 4] = [Waits::Epoll, Waits::EpollEdge, Waits::Poll, Waits::Select];

/// Parameters of all schedules of a test.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Case {
    /// The name of the test.
    pub(crate) test: &'static str,
    /// Poller of the loops; `None`: the seed decides.
    pub(crate) waits: Option<Waits>,
    pub(crate) loops: usize,
    /// The loops share descriptors and cache.
    pub(crate) shared: bool,
    /// Some operations of the disk never complete.
    pub(crate) hangs: bool,
    /// The protocol is not HTTP but frames: several exchanges of a connection at once.
    pub(crate) frames: bool,
    /// The protocol is HTTP/2.
    pub(crate) http2: bool,
    /// Connections are sealed.
    pub(crate) sealed: bool,
    /// Connections of the second of two listeners alone are sealed.
    pub(crate) classes: bool,
    /// The disk holds its loop up.
    pub(crate) slow: bool,
    /// In the place of a loop there are user threads.
    pub(crate) fibers: bool,
    /// Connections go from one loop to another.
    pub(crate) steals: bool,
    /// In the place of a loop there is a pipeline.
    pub(crate) line: Option<Shape>,
    /// The loops serve by stages.
    pub(crate) cohort: bool,
    /// Schedules of each accept strategy.
    pub(crate) each: u64,
}

impl Case {
    /// A loop that waits in any way, for a disk of its own.
    pub(crate) fn one(test: &'static str) -> Self {
        Self { test, loops: 1, each: LOOP_SEEDS / STRATEGIES, ..Self::default() }
    }

    /// Like [`Self::one`], with several exchanges of each connection at once.
    pub(crate) fn frames(test: &'static str) -> Self {
        Self { frames: true, ..Self::one(test) }
    }

    /// Like [`Self::one`], with HTTP/2 in the clear.
    pub(crate) fn http2(test: &'static str) -> Self {
        Self { http2: true, ..Self::one(test) }
    }

    /// The protocol of peers.
    const fn speech(&self) -> Speech {
        match self {
            Self { http2: true, .. } => Speech::Http2,
            Self { frames: true, .. } => Speech::Frames,
            _ => Speech::Http1,
        }
    }

    /// Like [`Self::one`], with two classes of listeners.
    pub(crate) fn classes(test: &'static str) -> Self {
        Self { sealed: true, classes: true, ..Self::one(test) }
    }

    /// Class of listener `at`.
    const fn class(&self, at: usize) -> ListenerClass {
        if self.sealed && (!self.classes || at % 2 == 1) { SEALED } else { ListenerClass::CLEAR }
    }

    /// Files that streams may keep open while they wait, in the schedule of this seed: few or none
    /// in half of them. No draw is taken, so that known seeds keep their schedules.
    const fn body_files(&self, seed: u64) -> u32 {
        match seed / STRATEGIES % 4 {
            0 if self.http2 => 0,
            1 if self.http2 => 2,
            _ => u32::MAX,
        }
    }

    /// Move at which a file is replaced in the schedule of this seed.
    fn replaces_at(&self, seed: u64) -> Option<u64> {
        let at = || 10 + Dice::new(seed ^ FILES_STREAM).below(100) as u64;
        (self.body_files(seed) == 0).then(at)
    }

    /// Adapts a strategy to what runs in the place of a loop.
    fn fit(&self, accepts: &mut AcceptRules) {
        if self.fibers {
            // A user thread accepts when it has closed a connection, whatever the poller says.
            (accepts.count, accepts.events_per_accept, accepts.on_close) = (0, 0, false);
        }
        if self.steals {
            // One that is full of what it was given polls no longer; one that gives has room.
            (accepts.when_full, accepts.on_close) = (WhenFull::Pause, false);
        }
        if self.line.is_some() {
            // The stage that accepts learns late of a close, and has no idle connection.
            accepts.on_close = false;
            if accepts.when_full == WhenFull::CloseIdle {
                accepts.when_full = WhenFull::Pause;
            }
        }
    }
}

/// Surroundings of a disk that is made.
pub(crate) struct Setting<'a> {
    pub(crate) seed: u64,
    pub(crate) root: &'a Root,
    pub(crate) tally: Tally<'a>,
    pub(crate) member: Option<&'static Member>,
}

/// Makes the disk of a loop.
pub(crate) type Make<'m> = dyn for<'a> Fn(&Setting<'a>) -> Box<dyn Disk + 'a> + Sync + 'm;

/// The disk of a loop that performs all operations itself.
pub(crate) fn own_disk<'a>(setting: &Setting<'a>) -> Box<dyn Disk + 'a> {
    let disk = InlineDisk(Below { root: setting.root, rules: OpenRules::default() });
    match setting.member {
        None => Box::new(disk),
        Some(member) => Box::new(SharedDisk { disk, member }),
    }
}

/// Runs the schedules of a test: as many as its case says, or those of the seeds in the variable.
/// The statistics of this thread's turns are those of these schedules.
pub(crate) fn run_all(case: Case, make: &Make<'_>) -> Sums {
    seen::reset();
    let folder = Folder::new();
    let books = case.shared.then(|| Books::new(case.loops));
    let mut sums = Sums::default();
    for seed in seeds(case.each * STRATEGIES) {
        sums = schedule(case, seed, &folder, books.as_ref(), make, sums);
        if case.replaces_at(seed).is_some() {
            folder.restore();
        }
    }
    println!("{}: {sums:?}", case.test);
    sums
}

fn seeds(count: u64) -> Range<u64> {
    let Ok(text) = std::env::var(SEEDS_VARIABLE) else { return 0..count };
    let (first, end) = text.split_once("..").expect("A..B");
    first.parse().expect("a number")..end.parse().expect("a number")
}

/// Shared words, which one schedule after another uses: they are never unmapped.
struct Books {
    words: &'static [AtomicU64],
    loops: usize,
}

impl Books {
    fn new(loops: usize) -> Self {
        let most = CachingRules { entries_max: 14, descriptors_max: 7, ..caching() };
        let count = Crew::count_words(loops, NUMBERS) + CacheRegion::count_words(&most);
        Self { words: crew::create_words(count).unwrap().words(), loops }
    }

    fn crew(&self, rules: &CachingRules, locking: Locking) -> (Crew, CacheRegion) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
        let (books, cache) = self.words.split_at(Crew::count_words(self.loops, NUMBERS));
        let region = CacheRegion::new(cache, rules, locking, self.loops, 7);
        (Crew::create(books, self.loops, NUMBERS).unwrap(), region)
    }
}

fn caching() -> CachingRules {
    CachingRules {
        negatives_max: 4,
        bytes_max: 256 << 10,
        body_bytes_max: 8 << 10,
        read_bytes_max: 5_000,
        copy_bytes_max: 4 << 10,
        negative_ms: 1_000,
        inactive_ms: 1_000,
        ..CachingRules::default()
    }
}

fn site(dice: &mut Dice, shared: bool) -> Site {
    let mut site = Site { seed: 7, ..Site::default() };
    site.limits.head_bytes_max = [256, 16 << 10][dice.below(2)];
    // A peer that does not stall has a turn every few hundred milliseconds.
    site.deadlines = Deadlines {
        head_ms_max: 4_000,
        first_request_ms_max: 5_000,
        handshake_ms_max: 5_000,
        idle_ms_max: 6_000,
        send_window_ms: 5_000,
        send_rate_min: 64,
        disk_ms_max: 3_000,
        half_closed_ms_max: 300,
        linger_ms_max: 2_000,
        drain_idle_ms: 100,
    };
    site.caching = CachingRules {
        enabled: shared || !dice.once_in(5),
        entries_max: 2 + dice.below(12),
        descriptors_max: 1 + dice.below(6),
        body_bytes_max: [0, 8 << 10][dice.below(2)],
        revalidate_ms: [10, 1_000, 100_000][dice.below(3)],
        ..caching()
    };
    site
}

/// The strategies of [H] §2.1: accepts for a notification; eager reads, eager writes, full reads,
/// accepts on close.
const NAMED: [(u32, [bool; 4]); 7] = [
    (1, [false, false, false, false]), // Accept1
    (0, [false, false, false, false]), // AcceptInf
    (2, [false, false, false, false]), // AcceptN
    (0, [true, true, false, false]),   // Eager
    (0, [true, true, true, false]),    // Eager+full
    (0, [true, true, false, true]),    // Eager+close
    (0, [true, true, true, true]),     // CM
];

/// Events of a round for each accept beyond the first, and what distinguishes the seed of the dice.
const EVENTS_EACH: [u32; 3] = [0, 2, 16];
const EVENTS_STREAM: u64 = 0x6576_656e_7473;
/// Distinguishes the seed of the dice for handshakes of a round.
const HANDSHAKES_STREAM: u64 = 0x6861_6e64;
/// Distinguishes the seed of the dice for the order of stages.
const STAGES_STREAM: u64 = 0x7374_6167_6573;
/// Distinguishes the seed of the dice for the move at which a file is replaced.
const FILES_STREAM: u64 = 0x66_696c_6573;

/// These and a random one, which seeds take round-robin.
const STRATEGIES: u64 = NAMED.len() as u64 + 1;

/// The strategy of a seed, with limits that the dice choose.
fn strategy(seed: u64, dice: &mut Dice) -> (AcceptRules, TurnRules) {
    let mut of_events = Dice::new(seed ^ EVENTS_STREAM);
    let any = (u32::try_from(dice.below(4)).unwrap(), [(); 4].map(|()| dice.once_in(2)));
    let named = usize::try_from(seed % STRATEGIES).ok().and_then(|at| NAMED.get(at));
    let (count, [eager_read, eager_write, full_read, on_close]) = *named.unwrap_or(&any);
    let accepts = AcceptRules {
        count,
        events_per_accept: EVENTS_EACH[of_events.below(EVENTS_EACH.len())],
        eager_read,
        on_close,
        when_full: [WhenFull::Pause, WhenFull::KeepPolling, WhenFull::CloseIdle][dice.below(3)],
        connections_max: 1 + dice.below(6),
        mode: Mode::Nonblocking,
        exclusive: false,
    };
    let turns = TurnRules {
        bytes_max: [4 << 10, 2 << 20][dice.below(2)],
        ops_max: [2, 5, 64][dice.below(3)],
        handshakes_per_round: [1, 2, 8][Dice::new(seed ^ HANDSHAKES_STREAM).below(3)],
        full_read,
        eager_write,
        edge: false,
        patience: None,
        leaves: Leaves::NONE,
    };
    (accepts, turns)
}

/// Listeners on unused addresses, and these.
fn listen(count: usize) -> (Vec<OwnedFd>, Vec<SocketAddr>) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let each = |_| {
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("regatta-stage-{}-{number}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        listener.set_nonblocking(true).unwrap();
        (OwnedFd::from(listener), address)
    };
    (0..count).map(each).unzip()
}

/// State that the loops of a schedule share.
struct Scene<'s, 'a> {
    seed: u64,
    waits: Waits,
    links: &'static (dyn Links<StaticFile> + Sync),
    folder: &'s Folder,
    site: &'s Site,
    arena: Arena<'s>,
    bells: &'s [Bell],
    /// Each loop has equally many.
    listeners: &'s [OwnedFd],
    classes: &'s [ListenerClass],
    /// Each loop has its own listeners.
    copies: bool,
    accepts: AcceptRules,
    turns: TurnRules,
    crew: Option<(Crew, CacheRegion)>,
    stage: &'s Stage<'a>,
    case: Case,
    /// Open files of streams of each loop; of all together, if connections go between them.
    files: Vec<Arc<BodyFiles>>,
    /// State of schedulers of user threads that connections go between.
    peers: Option<Peers>,
    /// The same, of event loops.
    colours: Option<Peers<Colour>>,
    make: &'s Make<'s>,
}

/// Runs the schedule of a seed, and adds to these sums.
fn schedule(
    case: Case,
    seed: u64,
    folder: &Folder,
    books: Option<&Books>,
    make: &Make<'_>,
    sums: Sums,
) -> Sums {
    let mut dice = Dice::new(seed);
    let Case { test, loops, shared, .. } = case;
    let waits = case.waits.unwrap_or(WAITS[dice.below(WAITS.len())]);
    let site = site(&mut dice, shared);
    let (mut accepts, turns) = strategy(seed, &mut dice);
    case.fit(&mut accepts);
    let copies = loops > 1 && !shared && dice.once_in(3);
    let each = (1 + dice.below(2)).max(1 + usize::from(case.classes));
    let (listeners, addresses) = listen(if copies { loops * each } else { each });
    let classes: Vec<_> = (0..listeners.len()).map(|at| case.class(at)).collect();
    let locking = [Locking::Global, Locking::TwoTier][dice.below(2)];
    let crew = books.map(|books| books.crew(&site.caching, locking));
    let words: Vec<AtomicU64> = (0..Arena::count_words(loops)).map(|_| AtomicU64::new(0)).collect();
    let arena = Arena::create(&words, loops);
    let bells: Vec<Bell> = (0..loops).map(|_| Bell::new().unwrap()).collect();
    let replay = format!(
        "{SEEDS_VARIABLE}={seed}..{} cargo test -p regatta-arch --lib -- {test} --nocapture",
        seed + 1
    );
    let parts =
        WorldParts { folder, addresses: &addresses, arena, bells: &bells, listeners: each, case };
    let mut world = World::new(dice, replay, accepts, sums, parts);
    world.allow_faults(case.replaces_at(seed));
    world.seal(seed, &classes);
    let stage = Stage::new(world);
    let files = || Arc::new(BodyFiles::new(case.body_files(seed)));
    let all = files();
    let scene = Scene {
        seed,
        waits,
        links: if case.frames { &FRAMES } else { &ClearHttp1 },
        folder,
        site: &site,
        arena,
        bells: &bells,
        listeners: &listeners,
        classes: &classes,
        copies,
        accepts,
        turns,
        crew,
        stage: &stage,
        case,
        files: (0..loops).map(|_| if case.steals { Arc::clone(&all) } else { files() }).collect(),
        peers: case.steals.then(|| Peers::new(loops, true).unwrap()),
        colours: case.steals.then(|| Peers::new(loops, true).unwrap()),
        make,
    };
    if loops == 1 {
        scene.run(0);
    } else {
        thread::scope(|scope| {
            for me in 0..loops {
                let scene = &scene;
                scope.spawn(move || scene.run(me));
            }
        });
    }
    scene.files.iter().for_each(|files| assert_eq!(files.open(), 0, "at the end of {seed}"));
    drop(listeners);
    if let Some((crew, _)) = crew {
        close_all(crew);
    }
    stage.into_world().close()
}

/// Closes what the cache of returned loops holds open, as the end of their processes would.
fn close_all(crew: Crew) {
    let member = crew.enter(0).unwrap();
    member.retire_all();
    assert_eq!(crew.files().0, 0, "all are given up");
    member.close_all_unused();
    assert_eq!(crew.files().1, 0, "none is in use");
}

impl Scene<'_, '_> {
    /// Loop number `me`, from its beginning to its end.
    fn run(&self, me: usize) {
        let _seat = Seat(self.stage, me);
        hook::set_time(BEGIN_NS, UNIX);
        let member = self.crew.map(|(crew, _)| crew.enter(me).unwrap());
        match self.waits {
            Waits::Epoll => self.wait_by(me, member, || Epoll::new(Trigger::Level)),
            Waits::EpollEdge => self.wait_by(me, member, || Epoll::new(Trigger::Edge)),
            Waits::Poll => self.wait_by(me, member, || Ok(Poll::new())),
            Waits::Select => self.wait_by(me, member, || Ok(Select::new())),
        }
    }

    fn wait_by<P: Poller>(
        &self,
        me: usize,
        member: Option<&'static Member>,
        poller: impl FnOnce() -> io::Result<P>,
    ) {
        let Some(member) = member else {
            let caching = &self.site.caching;
            let cache = LocalCache::new(caching, self.site.seed);
            return self.play(me, poller().unwrap(), &cache, None);
        };
        let (_, region) = self.crew.expect("who is one of a crew");
        let cache = SharedCache::new(region, &self.site.caching, member, self.bells);
        let poller = Leased::new(member, poller).unwrap();
        self.play(me, poller, &cache, Some(&cache));
    }

    fn play<P: Poller>(
        &self,
        me: usize,
        poller: P,
        cache: &dyn Cache<StaticFile>,
        shared: Option<&SharedCache<'_>>,
    ) {
        let slot = self.arena.slot(me);
        slot.set_filmed(tape::is_kept());
        let tally = Tally::Owned(slot);
        let files = &self.files[me];
        let scratches =
            [(); 4].map(|()| Scratch::new(self.seed.into()).counting(Arc::clone(files)));
        let links = Toys { inner: self.links, number: AtomicU64::new(self.seed) };
        let around = |scratch| WorkerEnv {
            cx: FileCx { site: self.site, cache, tally, log: &NoLog, scratch, links: &links },
            slot,
            control: self.arena.control(),
            bell: &self.bells[me],
            log: &NoLog,
            stall_ns: u64::MAX,
            shared,
            root: None,
        };
        let member = shared.map(SharedCache::member);
        let setting = Setting { seed: self.seed, root: &self.folder.root, tally, member };
        let mut disk = (self.make)(&setting);
        if self.case.slow {
            disk = Box::new(Slow::new(disk, self.stage, me, self.seed));
        }
        let each = self.listeners.len() / if self.copies { self.bells.len() } else { 1 };
        let first = if self.copies { me * each } else { 0 };
        let mut acceptor = Acceptor::new(&self.listeners[first..first + each], self.accepts);
        acceptor.classes = &self.classes[first..first + each];
        if !self.copies {
            let others = (0..self.bells.len()).filter(|other| *other != me);
            let other = |at| Neighbour {
                slot: self.arena.slot(at),
                connections_max: self.accepts.connections_max,
                bell: None,
            };
            acceptor.others = others.map(other).collect();
        }
        let mut poller = poller::RandomPoller::new(self.stage, me, self.seed, poller);
        poller.completes = disk.wire().is_some();
        let below = Below { root: &self.folder.root, rules: OpenRules::default() };
        if self.case.fibers {
            let (worker, peers) =
                (Worker::new(acceptor, around(&scratches[0])), self.peers.as_ref());
            return lives::run(self.seed, me, poller, worker, below, peers);
        }
        if let Some(shape) = self.case.line {
            let accepting = stages::Accepting { acceptor, rules: self.turns, below };
            return stages::run(self.seed, shape, poller, accepting, &around, &scratches);
        }
        let worker = Worker::new(acceptor, around(&scratches[0]));
        let mut event_loop = EventLoop::new(poller, worker, self.turns, &mut *disk);
        if self.case.cohort {
            let mut dice = Dice::new(self.seed ^ STAGES_STREAM);
            let order =
                [CohortOrder::Forward, CohortOrder::Backward, CohortOrder::Wave][dice.below(3)];
            event_loop = event_loop.by_stages(Visits { order, most: dice.below(3) });
        }
        if let Some(peers) = &self.colours {
            event_loop = event_loop.beside(peers, me);
        }
        event_loop.run().unwrap();
    }
}

/// The schedules covered what they should, with `later` completions of the disk each on average.
pub(crate) fn check(sums: &Sums, later: u64) {
    let Sums { schedules, connections, answers, late, spurious, .. } = *sums;
    if schedules < LOOP_SEEDS {
        return; // a few are replayed
    }
    assert!(connections > 2 * schedules && answers > 2 * schedules, "{sums:?}");
    assert!(late > schedules && spurious > schedules, "{sums:?}");
    assert!(sums.later >= later * schedules, "{sums:?}");
    assert!(2 * sums.full_sockets > schedules && sums.refused > schedules, "{sums:?}");
    assert!(
        sums.accept_paused.min(sums.pauses).min(sums.expired).min(sums.drained) > schedules / 32
            && sums.displaced > schedules / 64,
        "{sums:?}"
    );
}

/// Like [`check`], with several exchanges of a connection at once.
pub(crate) fn check_frames(sums: &Sums, later: u64) {
    check_exchanges(sums, later);
    if sums.schedules < LOOP_SEEDS {
        return; // a few are replayed
    }
    assert!(seen::both_directions() > 10 * sums.schedules, "a loop receives while it sends");
    assert!(seen::beside_send() > 0, "a `Send` that waits holds nothing else up");
    // A `Send` may wait for the disk as well.
    let least = if later > 0 { DISK_OPS_MAX } else { 0 };
    assert!(seen::pending_max() >= least, "{} operations of the disk at once", seen::pending_max());
}

/// Several exchanges of a connection at once, in frames and in HTTP/2.
#[test]
fn a_loop_forgets_none_of_many_exchanges() {
    let test = "a_loop_forgets_none_of_many_exchanges";
    check_frames(&run_all(Case::frames(test), &own_disk), 0);
    for loops in [1, 2] {
        check_http2(&run_all(Case { loops, ..Case::http2(test) }, &own_disk), 0);
    }
}

/// Like [`check_exchanges`], over HTTP/2: files are closed while their streams wait.
pub(crate) fn check_http2(sums: &Sums, later: u64) {
    check_exchanges(sums, later);
    assert!(sums.schedules < LOOP_SEEDS || sums.files_closed > sums.schedules / 4, "{sums:?}");
}

/// Checks that enough happened with several exchanges of a connection at once, in any protocol.
fn check_exchanges(sums: &Sums, later: u64) {
    let Sums { schedules, connections, answers, .. } = *sums;
    if schedules < LOOP_SEEDS {
        return; // a few are replayed
    }
    assert!(connections > 2 * schedules && answers > 10 * schedules, "{sums:?}");
    assert!(sums.later >= later * schedules && 2 * sums.full_sockets > schedules, "{sums:?}");
    assert!(
        sums.displaced > schedules / 64 && sums.expired.min(sums.drained) > schedules / 32,
        "{sums:?}"
    );
}

/// Links that seal one class of connections; `inner` chooses the protocol.
struct Toys {
    inner: &'static (dyn Links<StaticFile> + Sync),
    number: AtomicU64,
}

impl Links<StaticFile> for Toys {
    fn seal(&self, class: ListenerClass) -> Option<Box<dyn Seal>> {
        let toy = || Toy::server(self.number.fetch_add(1, Relaxed));
        (class == SEALED).then(|| Box::new(toy()) as Box<dyn Seal>)
    }

    fn protocol(
        &self,
        peer: Peer,
        agreed: &[u8],
        now: Now,
        cx: &Cx<'_, StaticFile>,
    ) -> Option<Box<dyn Protocol<StaticFile> + Send>> {
        self.inner.protocol(peer, agreed, now, cx)
    }
}

/// Like [`check`], with sealed connections: some handshakes stop, and some records are altered.
pub(crate) fn check_sealed(sums: &Sums, later: u64) {
    let Sums { schedules, connections, answers, .. } = *sums;
    if schedules < LOOP_SEEDS {
        return; // a few are replayed
    }
    assert!(connections > 2 * schedules && answers > schedules, "{sums:?}");
    assert!(sums.later >= later * schedules && 2 * sums.full_sockets > schedules, "{sums:?}");
    assert!(
        sums.unopened > schedules / 8 && sums.unshaken.min(sums.drained) > schedules / 64,
        "{sums:?}"
    );
}

/// Like [`check`], with two classes of listeners: both have connections, which get the links of
/// their class. Wrong ones would have failed the schedule.
pub(crate) fn check_classes(sums: &Sums) {
    let Sums { schedules, answers, sealed_answers, .. } = *sums;
    if schedules < LOOP_SEEDS / 4 {
        return; // a few are replayed
    }
    let each = [sealed_answers, answers - sealed_answers];
    assert!(each.iter().all(|answers| 4 * answers > schedules), "{sums:?}");
}

/// Like [`check`], of a pipeline: none is closed for another, and the disk keeps no connection.
fn check_line(sums: &Sums) {
    let Sums { schedules, connections, answers, late, .. } = *sums;
    if schedules < LOOP_SEEDS / 4 {
        return; // a few are replayed
    }
    assert!(connections > 2 * schedules && answers > schedules, "{sums:?}");
    // Most receive a report of room before they send.
    assert!(late > schedules && 8 * sums.full_sockets > schedules, "{sums:?}");
    assert!(sums.expired.min(sums.drained) > 0, "{sums:?}");
}

const SHAPES: [Shape; 3] = [Shape::ReadPoller, Shape::Readers, Shape::Staged];

#[test]
fn stages_forget_none() {
    for shape in SHAPES {
        let case = Case { line: Some(shape), ..Case::one("stages_forget_none") };
        check_line(&run_all(case, &own_disk));
        // Many exchanges of a connection at once, and sealed connections.
        let case = Case { each: case.each / 4, ..case };
        check_line(&run_all(Case { frames: true, ..case }, &own_disk));
        assert_eq!(seen::beside_send(), 0, "{shape:?}: the stage that sends receives or opens");
        check_line(&run_all(Case { sealed: true, ..case }, &own_disk));
    }
}

#[test]
fn a_loop_with_sealed_connections_forgets_none() {
    let test = "a_loop_with_sealed_connections_forgets_none";
    check_sealed(&run_all(Case { sealed: true, ..Case::one(test) }, &own_disk), 0);
    for loops in [1, 2] {
        let case = Case { sealed: true, loops, ..Case::frames(test) };
        check_sealed(&run_all(case, &own_disk), 0);
    }
}

/// Loops, stages and user threads: connections get the links of the class of their listener.
#[test]
fn two_classes_of_listeners_have_two_kinds_of_links() {
    let few = LOOP_SEEDS / STRATEGIES / 4;
    let case = Case::classes("two_classes_of_listeners_have_two_kinds_of_links");
    for loops in [1, 2] {
        check_classes(&run_all(Case { loops, ..case }, &own_disk));
    }
    check_classes(&run_all(Case { frames: true, each: few, ..case }, &own_disk));
    check_classes(&run_all(Case { cohort: true, each: few, ..case }, &own_disk));
    check_classes(&run_all(Case { fibers: true, each: few, ..case }, &own_disk));
    for shape in SHAPES {
        check_classes(&run_all(Case { line: Some(shape), each: few, ..case }, &own_disk));
    }
}

/// Twice as many schedules under one poller as a test of others has under all.
#[test]
fn a_loop_over_any_poller_forgets_none() {
    let test = "a_loop_over_any_poller_forgets_none";
    for waits in WAITS {
        println!("{waits:?}");
        let each = 2 * LOOP_SEEDS / STRATEGIES;
        let case = Case { waits: Some(waits), each, ..Case::one(test) };
        check(&run_all(case, &own_disk), 0);
    }
}

/// SYMPED and N-copy: on the same listeners, or each on its own. shared-SYMPED: one table of
/// descriptors, and one cache.
#[test]
fn loops_side_by_side_forget_none() {
    let test = "loops_side_by_side_forget_none";
    for shared in [false, true] {
        println!("shared: {shared}");
        let case = Case { loops: 2, shared, ..Case::one(test) };
        check(&run_all(case, &own_disk), 0);
    }
}

/// While a disk holds a loop up, no peer is late: what it has sent, and room that it has made, come
/// before its deadline.
#[test]
fn a_loop_that_is_held_up_forgets_none() {
    for loops in [1, 2] {
        let test = "a_loop_that_is_held_up_forgets_none";
        let case = Case { slow: true, loops, ..Case::one(test) };
        let sums = run_all(case, &own_disk);
        check(&sums, 0);
        assert!(sums.schedules < LOOP_SEEDS || sums.held_up > sums.schedules, "{sums:?}");
    }
}
