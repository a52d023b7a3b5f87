//! Time that a disk takes for a request, by the number of requests that wait for it.

use super::model::{Model, Turn, Waiting};
use super::spec::Disk;
use crate::stats::{Random, count};
use crate::units::real;

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
    use super::*;
    use crate::env::spec::{Queue, Seek};

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
