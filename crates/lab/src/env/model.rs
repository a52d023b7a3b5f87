//! How long a disk takes: heads that travel, a queue, and a bandwidth; without any I/O.

use super::spec::{Disk, Queue, Seek};

/// With `queue = nearest` a request that has waited for so long is served next, ns: otherwise one
/// far away could wait for as long as others come.
const STARVED_NS: u64 = 500_000_000;

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting<T> {
    /// What it is to whoever asked.
    pub(super) tag: T,
    /// Its first byte.
    pub(super) offset: u64,
    /// Its length, bytes.
    pub(super) bytes: u64,
    /// When it came, ns.
    pub(super) came_ns: u64,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Service<T> {
    pub(super) request: Waiting<T>,
    /// When a head takes it up, ns.
    pub(super) start_ns: u64,
    /// When it is done, ns.
    pub(super) end_ns: u64,
    /// Whether the head had to travel.
    pub(super) sought: bool,
    /// Requests that were there when it was taken up, itself included.
    pub(super) depth: usize,
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
    /// Where it stands: behind the last byte that it served.
    place: u64,
    /// Until when it is busy, ns.
    free_ns: u64,
}

impl<T> Model<T> {
    /// A disk of `size` bytes with nothing to do; `at_once`: it takes no time until it is told to.
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

    /// The request that head number `head`, idle at `now_ns`, serves next; None: there is none.
    ///
    /// A head that was told of a request late begins with it in time: when the request came and
    /// the head was free, not when its thread woke up.
    pub(super) fn take(&mut self, head: usize, now_ns: u64) -> Option<Service<T>> {
        let Head { place, free_ns } = *self.heads.get(head)?;
        let depth = self.queue.len();
        let request = self.queue.remove(self.choose(place, now_ns)?);
        let start_ns = free_ns.max(request.came_ns);
        let way = request.offset.abs_diff(place);
        let takes_ns = self.seek_ns(way) + self.transfer_ns(request.bytes);
        let nanos = if self.at_once { 0 } else { takes_ns };
        let end_ns = start_ns + nanos;
        self.heads[head] = Head { place: request.offset + request.bytes, free_ns: end_ns };
        Some(Service { request, start_ns, end_ns, sought: way > 0, depth })
    }

    fn choose(&self, place: u64, now_ns: u64) -> Option<usize> {
        let oldest = (0..self.queue.len()).min_by_key(|&i| self.queue[i].came_ns)?;
        let starved = now_ns.saturating_sub(self.queue[oldest].came_ns) > STARVED_NS;
        match self.disk.queue {
            Queue::Nearest if !starved => {
                (0..self.queue.len()).min_by_key(|&i| self.queue[i].offset.abs_diff(place))
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

#[cfg(test)]
mod tests {
    use super::{Model, Service, Waiting};
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

    /// Serves everything with one head, as its thread would.
    fn serve(model: &mut Model<u32>) -> Vec<Service<u32>> {
        let mut now = 0;
        std::iter::from_fn(|| {
            let service = model.take(0, now)?;
            now = service.end_ns;
            Some(service)
        })
        .collect()
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
        assert_eq!(model.take(0, 12 * MS).unwrap().end_ns, 10 * MS);
        model.take_time();
        model.arrive(request(2, 0, 100_000, 20 * MS));
        let service = model.take(0, 20 * MS).unwrap();
        assert_eq!((service.start_ns, service.end_ns), (20 * MS, 25 * MS));
    }

    #[test]
    fn a_late_thread_does_not_slow_the_disk() {
        let mut model = model(disk());
        model.arrive(request(1, 500_000, 100_000, 10 * MS));
        let service = model.take(0, 12 * MS).unwrap();
        assert_eq!((service.start_ns, service.end_ns), (10 * MS, 15 * MS));
        assert!(model.take(0, 15 * MS).is_none());
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
        assert_eq!(nearest.take(0, 600 * MS).unwrap().request.tag, 1);
    }

    #[test]
    fn distance_counts_where_it_is_asked_for() {
        let distance = Disk { seek: Seek::Distance, ..disk() };
        for (way, least, most) in [(1, 1.6, 1.61), (SIZE, 6.1, 6.11)] {
            let mut model = model(distance.clone());
            model.arrive(request(1, way, 0, 0));
            let ms = model.take(0, 0).unwrap().end_ns as f64 / 1e6;
            assert!((least..most).contains(&ms), "{way}: {ms}");
        }
        // The mean over a grid of pairs is what was asked for.
        let model = model(distance);
        let places = (0..200).flat_map(|a| (0..200).map(move |b| (a, b)));
        let sum: u64 = places.map(|(a, b)| model.seek_ns((SIZE / 200) * u64::abs_diff(a, b))).sum();
        let mean = sum as f64 / 40_000.0 / 1e6;
        assert!((3.9..4.1).contains(&mean), "{mean}");
    }

    #[test]
    fn heads_work_at_the_same_time() {
        let mut model = model(Disk { heads: 2, ..disk() });
        model.arrive(request(1, 100, 0, 0));
        model.arrive(request(2, 200, 0, 0));
        let (a, b) = (model.take(0, 0).unwrap(), model.take(1, 0).unwrap());
        assert_eq!((a.end_ns, b.end_ns), (4 * MS, 4 * MS));
        assert!(model.take(2, 0).is_none());
    }
}
