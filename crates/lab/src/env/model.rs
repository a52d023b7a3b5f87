//! Model of a disk's time: heads that travel, a queue, and a bandwidth; without any I/O.

use super::spec::{Disk, Queue, Seek};
use crate::stats::{Random, count};
use crate::units::real;

const KIB: u64 = 1_024;
/// Wait after which `queue = nearest` serves a request next, ns. Otherwise a distant one could wait
/// for as long as others arrive.
const STARVED_NS: u64 = 500_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting<T> {
    /// Caller's data of the request.
    pub(super) tag: T,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) came_ns: u64,
}

/// Service of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Service<T> {
    pub(super) request: Waiting<T>,
    /// Start of the head's work, ns.
    pub(super) start_ns: u64,
    /// End of the head's work, ns.
    pub(super) end_ns: u64,
    pub(super) sought: bool,
    /// Requests that were there when it was taken up, itself included.
    pub(super) depth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn<T> {
    Serves(Service<T>),
    /// End of its pause, ns; another request may end it before.
    Pauses(u64),
    Idles,
}

/// The queue and the heads of one disk.
#[derive(Debug)]
pub(super) struct Model<T> {
    disk: Disk,
    size: u64,
    heads: Vec<Head>,
    queue: Vec<Waiting<T>>,
    /// Whether requests take no time yet.
    at_once: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// Position: behind the last byte that it served.
    place: u64,
    /// Until when it is busy, ns.
    free_ns: u64,
    /// Until when it waits for the next piece of the same file, ns.
    pause_ns: u64,
}

impl<T> Model<T> {
    /// An idle disk of `size` bytes; with `at_once`, requests take no time at first.
    pub(super) fn new(disk: &Disk, size: u64, at_once: bool) -> Self {
        let heads = vec![Head::default(); usize::try_from(disk.heads.max(1)).expect("a few heads")];
        Self { disk: disk.clone(), size, heads, queue: Vec::new(), at_once }
    }

    pub(super) fn take_time(&mut self) {
        self.at_once = false;
    }

    pub(super) fn arrive(&mut self, request: Waiting<T>) {
        self.queue.push(request);
    }

    /// Next act of head number `head`, idle at `now_ns`.
    ///
    /// A head that learns of a request late starts it in time: when the request had arrived and the
    /// head was free, not when its thread woke up.
    pub(super) fn take(&mut self, head: usize, now_ns: u64) -> Turn<T> {
        let Some(&Head { place, free_ns, pause_ns }) = self.heads.get(head) else {
            return Turn::Idles;
        };
        let depth = self.queue.len();
        let piece = self.piece(place);
        let Some(at) = piece.or_else(|| self.choose(head, place, now_ns)) else {
            return Turn::Idles;
        };
        if piece.is_none() && now_ns < pause_ns {
            return Turn::Pauses(pause_ns);
        }
        let request = self.queue.remove(at);
        let paused_ns = if piece.is_none() { pause_ns } else { 0 };
        let start_ns = free_ns.max(request.came_ns).max(paused_ns);
        let way = request.offset.abs_diff(place);
        let takes_ns = self.seek_ns(way) + self.transfer_ns(request.bytes);
        let nanos = if self.at_once { 0 } else { takes_ns };
        let end_ns = start_ns + nanos;
        // The kernel asks for what it reads ahead at once or in halves; less ends a file.
        let has_more = request.bytes >= (u64::from(self.disk.read_ahead_kb) * KIB / 2).max(1);
        let nanos = self.disk.queue.pause_ns();
        let pauses = has_more && nanos > 0 && !self.at_once;
        let pause_ns = if pauses { end_ns + nanos } else { 0 };
        let place = request.offset + request.bytes;
        self.heads[head] = Head { place, free_ns: end_ns, pause_ns };
        Turn::Serves(Service { request, start_ns, end_ns, sought: way > 0, depth })
    }

    /// The request that continues at a head's place, if heads wait for such.
    fn piece(&self, place: u64) -> Option<usize> {
        let pauses = self.disk.queue.pause_ns() > 0;
        self.queue.iter().position(|request| pauses && request.offset == place)
    }

    /// The next request of another file. What another head waits for is left to that.
    fn choose(&self, head: usize, place: u64, now_ns: u64) -> Option<usize> {
        let is_free = |at: &usize| {
            let offset = self.queue[*at].offset;
            let is_left = |(number, one): (usize, &Head)| {
                number != head && one.pause_ns > now_ns && one.place == offset
            };
            !self.heads.iter().enumerate().any(is_left)
        };
        let free = || (0..self.queue.len()).filter(is_free);
        let oldest = free().min_by_key(|&i| self.queue[i].came_ns)?;
        let starved = now_ns.saturating_sub(self.queue[oldest].came_ns) > STARVED_NS;
        match self.disk.queue {
            Queue::Nearest | Queue::Anticipatory if !starved => {
                free().min_by_key(|&i| self.queue[i].offset.abs_diff(place))
            }
            _ => Some(oldest),
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1.5 s")]
    fn seek_ns(&self, way: u64) -> u64 {
        // Over all pairs of places the mean of sqrt(distance / size) is 8/15, so the mean is 1.
        let factor = match self.disk.seek {
            _ if way == 0 => 0.0,
            Seek::Fixed => 1.0,
            Seek::Distance => 0.4 + 1.125 * (way as f64 / self.size.max(1) as f64).min(1.0).sqrt(),
        };
        (self.disk.seek_ms * 1e6 * factor) as u64
    }

    fn transfer_ns(&self, bytes: u64) -> u64 {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.disk.bandwidth.max(1));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// Event-driven processes on one processor and this disk, as events: does the elevator decide what
/// several processes gain?
#[cfg(test)]
mod event_model {
    use super::{Model, Turn, Waiting};
    use crate::claims::model::preset_items;
    use crate::env::spec::{Disk, Queue};
    use crate::stats::Random;
    use std::cmp::Reverse;
    use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};

    const PIECE: u64 = 131_072;
    const CACHE_BYTES: u64 = 75 << 20;
    /// Processor time of a reply; a further piece of a file takes a tenth.
    const CPU_NS: u64 = 229_000;
    /// Time for which a client reads a piece, at 10 MB/s.
    const CLIENT_NS: u64 = 13_107_200;
    const REPLIES: u64 = 30_000;
    /// Replies after which the page cache is warm.
    const FILLS: usize = 36_000;

    /// Number of a file, and of a piece of it.
    type Piece = (usize, u64);

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        /// A process has done its turn.
        Done(usize, Piece),
        /// A client has room for a piece.
        Room(usize, Piece),
        /// A pause of the head ends.
        Kick,
        /// The disk has read a piece.
        Read(Piece),
    }

    /// Pieces in memory, least recently used first.
    #[derive(Default)]
    struct PageCache {
        at: HashMap<Piece, u64>,
        order: BTreeMap<u64, (Piece, u64)>,
        bytes: u64,
        clock: u64,
    }

    impl PageCache {
        fn uses(&mut self, piece: Piece) -> bool {
            let Some(at) = self.at.get_mut(&piece) else { return false };
            let entry = self.order.remove(at).unwrap();
            self.clock += 1;
            *at = self.clock;
            self.order.insert(self.clock, entry);
            true
        }

        fn fill(&mut self, piece: Piece, bytes: u64) {
            if self.uses(piece) {
                return;
            }
            self.clock += 1;
            self.at.insert(piece, self.clock);
            self.order.insert(self.clock, (piece, bytes));
            self.bytes += bytes;
            while self.bytes > CACHE_BYTES {
                let (_, (oldest, bytes)) = self.order.pop_first().unwrap();
                self.at.remove(&oldest);
                self.bytes -= bytes;
            }
        }
    }

    struct World {
        random: Random,
        shares: Vec<f64>,
        /// Place and size of each file.
        files: Vec<(u64, u64)>,
        cache: PageCache,
        disk: Model<Piece>,
        disk_is_busy: bool,
        events: BinaryHeap<Reverse<(u64, u64, Event)>>,
        now_ns: u64,
        /// Processes that wait for a piece.
        waiting: HashMap<Piece, Vec<usize>>,
        /// Pieces that were read from the disk: their reader reads ahead.
        read: HashSet<Piece>,
        reads: u64,
        seeks: u64,
        ready: Vec<VecDeque<Piece>>,
        can_run: VecDeque<usize>,
        is_busy: bool,
        served: u64,
    }

    impl World {
        fn new(processes: usize, queue: Queue, seed: u64) -> Self {
            let items = preset_items("quick").unwrap();
            let (mut shares, mut files, mut sum, mut place) = (Vec::new(), Vec::new(), 0.0, 0);
            for item in &items {
                sum += item.share;
                shares.push(sum);
                files.push((place, item.bytes));
                place += item.bytes.div_ceil(4_096) * 4_096;
            }
            let disk = Disk { seek_ms: 24.0, bandwidth: 17_000_000, queue, ..Disk::default() };
            let mut world = Self {
                random: Random::new(seed),
                shares,
                files,
                cache: PageCache::default(),
                disk: Model::new(&disk, place, false),
                disk_is_busy: false,
                events: BinaryHeap::new(),
                now_ns: 0,
                waiting: HashMap::new(),
                read: HashSet::new(),
                reads: 0,
                seeks: 0,
                ready: vec![VecDeque::new(); processes],
                can_run: (0..processes).collect(),
                is_busy: false,
                served: 0,
            };
            for _ in 0..FILLS {
                let file = world.draw();
                for piece in 0..world.pieces(file) {
                    let bytes = world.bytes((file, piece));
                    world.cache.fill((file, piece), bytes);
                }
            }
            world
        }

        fn draw(&mut self) -> usize {
            let at = self.random.unit() * self.shares.last().unwrap();
            self.shares.partition_point(|sum| *sum < at).min(self.shares.len() - 1)
        }

        fn pieces(&self, file: usize) -> u64 {
            self.files[file].1.div_ceil(PIECE).max(1)
        }

        fn bytes(&self, (file, piece): Piece) -> u64 {
            PIECE.min(self.files[file].1 - piece * PIECE)
        }

        fn at(&mut self, time_ns: u64, event: Event) {
            let number = self.events.len() as u64;
            self.events.push(Reverse((time_ns, number, event)));
        }

        fn ask(&mut self, piece: Piece) {
            if self.cache.at.contains_key(&piece) || self.waiting.contains_key(&piece) {
                return;
            }
            self.waiting.insert(piece, Vec::new());
            let offset = self.files[piece.0].0 + piece.1 * PIECE;
            let (bytes, came_ns) = (self.bytes(piece), self.now_ns);
            self.disk.arrive(Waiting { tag: piece, offset, bytes, came_ns });
            self.kick();
        }

        fn kick(&mut self) {
            if self.disk_is_busy {
                return;
            }
            match self.disk.take(0, self.now_ns) {
                Turn::Serves(service) => {
                    self.disk_is_busy = true;
                    self.reads += 1;
                    self.seeks += u64::from(service.sought);
                    self.at(service.end_ns, Event::Read(service.request.tag));
                }
                Turn::Pauses(until_ns) => self.at(until_ns, Event::Kick),
                Turn::Idles => {}
            }
        }

        fn run(&mut self) {
            if self.is_busy {
                return;
            }
            let Some(process) = self.can_run.pop_front() else { return };
            self.is_busy = true;
            let (piece, cost) = match self.ready[process].pop_front() {
                Some(piece) => (piece, CPU_NS / 10),
                None => ((self.draw(), 0), CPU_NS),
            };
            self.at(self.now_ns + cost, Event::Done(process, piece));
        }

        /// Sends a piece, if it is in memory; else the process waits for the disk.
        fn send(&mut self, process: usize, piece: Piece) {
            if !self.cache.uses(piece) {
                self.ask(piece);
                self.waiting.get_mut(&piece).unwrap().push(process);
                self.ready[process].push_front(piece);
                return;
            }
            let (file, number) = piece;
            let next = (file, number + 1);
            if next.1 < self.pieces(file) {
                if self.read.contains(&piece) {
                    self.ask(next);
                }
                self.at(self.now_ns + CLIENT_NS, Event::Room(process, next));
            } else {
                self.served += 1;
            }
            self.can_run.push_back(process);
        }

        /// Replies per second, and pieces for each seek.
        fn result(mut self) -> (f64, f64) {
            self.run();
            let mut start = None;
            while self.served < REPLIES {
                let Reverse((now_ns, _, event)) = self.events.pop().unwrap();
                self.now_ns = now_ns;
                match event {
                    Event::Done(process, piece) => {
                        self.is_busy = false;
                        self.send(process, piece);
                    }
                    Event::Room(process, piece) => self.ready[process].push_back(piece),
                    Event::Kick => self.kick(),
                    Event::Read(piece) => {
                        self.disk_is_busy = false;
                        let bytes = self.bytes(piece);
                        self.cache.fill(piece, bytes);
                        self.read.insert(piece);
                        let processes: BTreeSet<usize> =
                            self.waiting.remove(&piece).unwrap().into_iter().collect();
                        self.can_run.extend(processes);
                        self.kick();
                    }
                }
                self.run();
                if start.is_none() && self.served >= REPLIES / 5 {
                    start = Some((self.now_ns, self.served, self.reads, self.seeks));
                }
            }
            let (at_ns, served, reads, seeks) = start.unwrap();
            let seconds = (self.now_ns - at_ns) as f64 / 1e9;
            let pieces = (self.reads - reads) as f64 / (self.seeks - seeks) as f64;
            ((self.served - served) as f64 / seconds, pieces)
        }
    }

    /// Rates of one process over those of four, and pieces for each seek of four.
    fn compare(queue: Queue) -> (f64, f64) {
        let (mut one, mut four, mut pieces) = (0.0, 0.0, 0.0);
        for seed in 1..=3 {
            one += World::new(1, queue, seed).result().0;
            let (rate, of_seek) = World::new(4, queue, seed).result();
            (four, pieces) = (four + rate, pieces + of_seek / 3.0);
        }
        (one / four, pieces)
    }

    /// The paper has 0.63 of one process over four, with a disk whose scheduler pauses.
    #[test]
    fn pauses_keep_the_pieces_of_a_file_together() {
        let [oldest, nearest] = [Queue::Fifo, Queue::Nearest].map(compare);
        assert!(oldest.1 < 2.2 && nearest.1 < 2.2, "{oldest:?}, {nearest:?}");
        for queue in [Queue::Anticipatory, Queue::Slices] {
            let (ratio, pieces) = compare(queue);
            assert!(pieces > 2.3 && (0.6..0.8).contains(&ratio), "{queue:?}: {ratio}, {pieces}");
            assert!(ratio < oldest.0 && ratio < nearest.0, "{ratio}: {oldest:?}, {nearest:?}");
        }
    }
}

/// Requests that are served for each number.
const REQUESTS: usize = 400;
/// Size of a disk that is as large as its files, bytes.
const SIZE: u64 = 1 << 30;

/// Mean time between two completions, seconds, while 1 to `deepest` requests of `bytes` at random
/// places wait or are served. The queue sorts them, and several heads share them. No request has a
/// next piece, so that heads do not pause.
pub(crate) fn service_by_depth(disk: &Disk, bytes: u64, deepest: usize) -> Vec<f64> {
    let disk = Disk { queue: disk.queue.without_pauses(), ..disk.clone() };
    (1..=deepest).map(|depth| service_s(&disk, bytes, depth)).collect()
}

fn service_s(disk: &Disk, bytes: u64, depth: usize) -> f64 {
    let size = if disk.size == 0 { SIZE } else { disk.size };
    let mut random = Random::new(1);
    let mut request = |came_ns: u64| {
        let offset = random.bits() % size.saturating_sub(bytes).max(1);
        Waiting { tag: (), offset, bytes, came_ns }
    };
    let mut model = Model::new(disk, size, false);
    let mut coming: Vec<Waiting<()>> = (0..depth).map(|_| request(0)).collect();
    let mut free_ns = vec![0_u64; usize::try_from(disk.heads.max(1)).unwrap_or(1)];
    let (mut served, mut ended_ns) = (0, 0_u64);
    while served < REQUESTS {
        let head = (0..free_ns.len()).min_by_key(|head| free_ns[*head]).unwrap_or(0);
        let now_ns = free_ns[head];
        let (here, later): (Vec<_>, Vec<_>) =
            coming.into_iter().partition(|one| one.came_ns <= now_ns);
        coming = later;
        here.into_iter().for_each(|one| model.arrive(one));
        free_ns[head] = match model.take(head, now_ns) {
            Turn::Serves(service) => {
                served += 1;
                ended_ns = ended_ns.max(service.end_ns);
                coming.push(request(service.end_ns));
                service.end_ns
            }
            Turn::Pauses(until_ns) => until_ns,
            // Other heads serve all there are.
            Turn::Idles => coming.iter().map(|one| one.came_ns).min().unwrap_or(now_ns + 1),
        };
    }
    real(ended_ns) / 1e9 / count(served)
}

#[cfg(test)]
mod tests {
    use super::{Model, Service, Turn, Waiting, *};
    use crate::env::spec::{Disk, Queue, Seek};

    const MS: u64 = 1_000_000;
    const SIZE: u64 = 1_000_000_000;

    fn model(disk: Disk) -> Model<u32> {
        Model::new(&disk, SIZE, false)
    }

    fn disk() -> Disk {
        Disk { seek_ms: 4.0, bandwidth: 100_000_000, ..Disk::default() }
    }

    fn request(tag: u32, offset: u64, bytes: u64, came_ns: u64) -> Waiting<u32> {
        Waiting { tag, offset, bytes, came_ns }
    }

    /// The request that a head serves now; None: nothing.
    fn take(model: &mut Model<u32>, head: usize, now_ns: u64) -> Option<Service<u32>> {
        match model.take(head, now_ns) {
            Turn::Serves(service) => Some(service),
            Turn::Pauses(_) | Turn::Idles => None,
        }
    }

    /// Serves everything with one head, as its thread would.
    fn serve(model: &mut Model<u32>) -> Vec<Service<u32>> {
        let (mut now, mut served) = (0, Vec::new());
        loop {
            match model.take(0, now) {
                Turn::Serves(service) => {
                    now = service.end_ns;
                    served.push(service);
                }
                Turn::Pauses(until_ns) => now = until_ns,
                Turn::Idles => return served,
            }
        }
    }

    #[test]
    fn the_next_byte_costs_no_seek() {
        let mut model = model(disk());
        model.arrive(request(1, 500_000, 100_000, 0));
        model.arrive(request(2, 600_000, 100_000, 0));
        model.arrive(request(3, 0, 100_000, 0));
        let served = serve(&mut model);
        let ends: Vec<_> = served.iter().map(|s| (s.end_ns / MS, s.sought)).collect();
        assert_eq!(ends, [(5, true), (6, false), (11, true)]);
        assert_eq!(served.iter().map(|s| s.depth).collect::<Vec<_>>(), [3, 2, 1]);
    }

    #[test]
    fn what_is_read_beforehand_takes_no_time() {
        let mut model = Model::new(&disk(), SIZE, true);
        model.arrive(request(1, 500_000, 100_000, 10 * MS));
        assert_eq!(take(&mut model, 0, 12 * MS).unwrap().end_ns, 10 * MS);
        model.take_time();
        model.arrive(request(2, 0, 100_000, 20 * MS));
        let service = take(&mut model, 0, 20 * MS).unwrap();
        assert_eq!((service.start_ns, service.end_ns), (20 * MS, 25 * MS));
    }

    #[test]
    fn a_late_thread_does_not_slow_the_disk() {
        let mut model = model(disk());
        model.arrive(request(1, 500_000, 100_000, 10 * MS));
        let service = take(&mut model, 0, 12 * MS).unwrap();
        assert_eq!((service.start_ns, service.end_ns), (10 * MS, 15 * MS));
        assert_eq!(model.take(0, 15 * MS), Turn::Idles);
    }

    #[test]
    fn the_nearest_is_first_but_nobody_starves() {
        let mut nearest = model(Disk { queue: Queue::Nearest, ..disk() });
        for (tag, offset) in [(1, 900_000_000), (2, 10), (3, 1_000)] {
            nearest.arrive(request(tag, offset, 10, 0));
        }
        let order: Vec<_> = serve(&mut nearest).iter().map(|s| s.request.tag).collect();
        assert_eq!(order, [2, 3, 1]);
        for (tag, offset) in [(1, 900_000_000), (2, 10)] {
            nearest.arrive(request(tag, offset, 10, 0));
        }
        assert_eq!(take(&mut nearest, 0, 600 * MS).unwrap().request.tag, 1);
    }

    #[test]
    fn distance_counts_where_it_is_asked_for() {
        let distance = Disk { seek: Seek::Distance, ..disk() };
        for (way, least, most) in [(1, 1.6, 1.61), (SIZE, 6.1, 6.11)] {
            let mut model = model(distance.clone());
            model.arrive(request(1, way, 0, 0));
            let ms = take(&mut model, 0, 0).unwrap().end_ns as f64 / 1e6;
            assert!((least..most).contains(&ms), "{way}: {ms}");
        }
        // The mean over a grid of pairs is what was asked for.
        let model = model(distance);
        let places = (0..200).flat_map(|a| (0..200).map(move |b| (a, b)));
        let sum: u64 = places.map(|(a, b)| model.seek_ns((SIZE / 200) * u64::abs_diff(a, b))).sum();
        let mean = sum as f64 / 40_000.0 / 1e6;
        assert!((3.9..4.1).contains(&mean), "{mean}");
    }

    /// A piece of 128 KiB takes 1.3 ms to read, another place 4 ms to reach.
    #[test]
    fn a_head_pauses_for_the_next_piece_of_a_file() {
        const PIECE: u64 = 131_072;
        // The next piece comes after the first is read, and the other file came before it.
        for (queue, next_ms, order) in [
            (Queue::Fifo, 6, [1, 3, 2]),
            (Queue::Nearest, 6, [1, 3, 2]),
            (Queue::Anticipatory, 6, [1, 2, 3]),
            (Queue::Slices, 6, [1, 2, 3]),
            (Queue::Anticipatory, 13, [1, 3, 2]),
            (Queue::Slices, 13, [1, 2, 3]),
            (Queue::Slices, 14, [1, 3, 2]),
        ] {
            let mut model = model(Disk { queue, ..disk() });
            model.arrive(request(1, 10 * PIECE, PIECE, 0));
            let mut served = vec![take(&mut model, 0, 0).unwrap()];
            model.arrive(request(3, 90 * PIECE, PIECE, MS));
            let paused = model.take(0, served[0].end_ns);
            match paused {
                Turn::Serves(service) => served.push(service),
                Turn::Pauses(until_ns) if until_ns <= next_ms * MS => {
                    served.push(take(&mut model, 0, until_ns).unwrap());
                }
                Turn::Pauses(_) | Turn::Idles => {}
            }
            model.arrive(request(2, 11 * PIECE, PIECE, next_ms * MS));
            served.extend(serve(&mut model));
            let tags: Vec<_> = served.iter().map(|service| service.request.tag).collect();
            assert_eq!(tags, order, "{queue:?}, next piece at {next_ms} ms");
        }
    }

    #[test]
    fn the_end_of_a_file_is_followed_without_a_pause() {
        let mut model = model(Disk { queue: Queue::Slices, ..disk() });
        model.arrive(request(1, 500_000, 65_535, 0));
        let first = take(&mut model, 0, 0).unwrap();
        model.arrive(request(2, 0, 4_096, 0));
        assert_eq!(take(&mut model, 0, first.end_ns).unwrap().start_ns, first.end_ns);
    }

    #[test]
    fn a_piece_is_left_to_the_head_that_waits_for_it() {
        let mut model = model(Disk { queue: Queue::Anticipatory, heads: 2, ..disk() });
        model.arrive(request(1, 131_072, 131_072, 0));
        let first = take(&mut model, 0, 0).unwrap();
        model.arrive(request(2, 262_144, 131_072, first.end_ns));
        assert_eq!(model.take(1, first.end_ns), Turn::Idles);
        let second = take(&mut model, 0, first.end_ns).unwrap();
        assert!(second.request.tag == 2 && !second.sought);
    }

    #[test]
    fn heads_that_never_pause_leave_nothing_to_each_other() {
        const PIECE: u64 = 131_072;
        for queue in [Queue::Fifo, Queue::Nearest] {
            let mut model = model(Disk { queue, heads: 2, ..disk() });
            model.arrive(request(1, PIECE, PIECE, 0));
            let first = take(&mut model, 0, 0).unwrap();
            model.arrive(request(2, 2 * PIECE, PIECE, MS));
            let second = take(&mut model, 1, MS).unwrap();
            assert!(second.start_ns == MS && MS < first.end_ns, "{queue:?}: {second:?}");
        }
    }

    #[test]
    fn heads_work_at_the_same_time() {
        let mut model = model(Disk { heads: 2, ..disk() });
        model.arrive(request(1, 100, 0, 0));
        model.arrive(request(2, 200, 0, 0));
        let [a, b] = [0, 1].map(|head| take(&mut model, head, 0).unwrap());
        assert_eq!((a.end_ns, b.end_ns), (4 * MS, 4 * MS));
        assert_eq!(model.take(2, 0), Turn::Idles);
    }

    #[test]
    fn a_sorted_queue_is_faster_the_more_requests_wait() {
        let fifo = Disk { seek_ms: 4.0, bandwidth: 100_000_000, ..Disk::default() };
        let sorted = Disk { queue: Queue::Nearest, seek: Seek::Distance, ..fifo.clone() };
        let heads = Disk { heads: 2, ..fifo.clone() };
        let ms = |disk: &Disk| -> Vec<f64> {
            service_by_depth(disk, 100_000, 16).into_iter().map(|s| 1e3 * s).collect()
        };
        // A seek of 4 ms and 1 ms of transfer, however many wait.
        for queue in [Queue::Fifo, Queue::Slices, Queue::Anticipatory] {
            for (depth, ms) in ms(&Disk { queue, ..fifo.clone() }).into_iter().enumerate() {
                assert!((4.9..5.1).contains(&ms), "{queue:?}, {depth}: {ms}");
            }
        }
        let reads_nothing_ahead = ms(&Disk { read_ahead_kb: 0, ..fifo.clone() })[0];
        assert!((4.9..5.1).contains(&reads_nothing_ahead), "{reads_nothing_ahead}");
        let by_depth = ms(&sorted);
        assert!((4.7..5.3).contains(&by_depth[0]), "{by_depth:?}");
        assert!(by_depth[15] < 0.75 * by_depth[0], "{by_depth:?}");
        let two = ms(&heads);
        assert!((4.9..5.1).contains(&two[0]), "{two:?}");
        assert!((2.4..2.7).contains(&two[1]), "{two:?}");
    }
}
