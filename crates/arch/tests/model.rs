//! Every interleaving of threads that use a queue, returns, or the stations of a pipeline. The
//! source is the server's, over locks of a model checker (`loom`).
//!
//! The condition variables know no time. A thread whose wake-up is lost sleeps forever, and the
//! model reports that it is stuck, whatever would have ended the wait later.
//!
//! A program of its own: the server's sources expect `sync` at the root of their crate.
#[path = "../src/loops"]
mod loops {
    #[expect(dead_code, unreachable_pub, reason = "it is the server's, which asks for more")]
    #[path = "queue.rs"]
    pub(crate) mod queue;

    #[path = "line"]
    pub(crate) mod line {
        #[expect(dead_code, unreachable_pub, reason = "it is the server's, which asks for more")]
        #[path = "stations.rs"]
        pub(crate) mod stations;
    }
}

/// Parts of the queues in this model, under the names of `sync.rs`.
mod sync {
    use super::unwrap_lock;
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};
    pub(crate) use std::sync::PoisonError;
    use std::{
        io,
        os::fd::{AsFd, BorrowedFd},
    };

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        unwrap_lock(mutex.lock())
    }

    /// Clock that stands still.
    pub(crate) mod clock {
        pub(crate) const fn nanos() -> u64 {
            0
        }
    }

    /// The most bells of a model.
    const BELLS_MAX: usize = 2;

    /// State of all bells.
    struct Bells {
        made: Mutex<usize>,
        /// Whether each bell has been rung.
        rung: [(Mutex<bool>, Condvar); BELLS_MAX],
    }

    loom::lazy_static! {
        /// Bells of one interleaving.
        static ref BELLS: Bells = Bells {
            made: Mutex::new(0),
            rung: std::array::from_fn(|_| (Mutex::new(false), Condvar::new())),
        };
    }

    /// Bell that may be rung only while it is silent; numbered in order of creation.
    #[derive(Debug)]
    pub(crate) struct Bell(usize);

    impl Bell {
        pub(crate) fn new() -> io::Result<Self> {
            let mut made = unwrap_lock(BELLS.made.lock());
            *made += 1;
            Ok(Self(*made - 1))
        }

        pub(crate) fn ring(&self) {
            let (rung, changed) = &BELLS.rung[self.0];
            let mut rung = unwrap_lock(rung.lock());
            assert!(!*rung, "it is rung once for each wait");
            *rung = true;
            changed.notify_all();
        }

        pub(crate) fn clear(&self) {
            let (rung, _) = &BELLS.rung[self.0];
            assert!(std::mem::take(&mut *unwrap_lock(rung.lock())), "it was rung");
        }

        /// Waits until this bell is rung, as a poller does.
        pub(crate) fn wait(number: usize) {
            let (rung, changed) = &BELLS.rung[number];
            let mut rung = unwrap_lock(rung.lock());
            while !*rung {
                rung = unwrap_lock(changed.wait(rung));
            }
        }

        pub(crate) fn is_rung(number: usize) -> bool {
            *unwrap_lock(BELLS.rung[number].0.lock())
        }
    }

    impl AsFd for Bell {
        fn as_fd(&self) -> BorrowedFd<'_> {
            unreachable!("the model waits without a poller")
        }
    }
}

use loom::{
    cell::UnsafeCell,
    model::Builder,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};
use loops::line::stations::{Barrier, Line, Spread, StageEntry, Station, Travels};
use loops::queue::{Fifo, Returns};
use regatta_metrics::{Arena, Tally};
use std::{
    collections::VecDeque,
    sync::{LazyLock, LockResult, atomic::AtomicU64},
    time::Duration,
};
use sync::Bell;

/// Unwraps a lock: no thread panics while it holds one.
fn unwrap_lock<T>(locked: LockResult<T>) -> T {
    locked.expect("no thread panics")
}

/// Longer than any wait.
const PATIENCE: Duration = Duration::MAX;
/// The most preemptions where a thread need not give way, in one interleaving.
const PREEMPTIONS: usize = 2;

/// Checks all interleavings.
fn check_interleavings(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

fn tally() -> Tally<'static> {
    static ARENA: LazyLock<Arena<'static>> = LazyLock::new(|| {
        let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
        Arena::create(words.leak(), 1)
    });
    Tally::Striped(ARENA.slot(0))
}

fn spawn<T: 'static, R: 'static>(
    of: &Arc<T>,
    run: impl FnOnce(&T) -> R + 'static,
) -> JoinHandle<R> {
    let of = of.clone();
    thread::spawn(move || run(&of))
}

#[test]
fn nobody_sleeps_while_there_is_an_item() {
    check_interleavings(|| {
        let queue = Arc::new(Fifo::new(2));
        let takers = [(); 2].map(|()| spawn(&queue, |queue| queue.take(PATIENCE, tally())));
        queue.put(1, tally()).unwrap();
        queue.put(2, tally()).unwrap();
        let taken = takers.map(|taker| taker.join().unwrap().expect("one for each"));
        assert_eq!(taken.iter().sum::<u32>(), 3);
    });
}

#[test]
fn a_batch_wakes_all_who_can_have_something() {
    for wakes_all in [false, true] {
        check_interleavings(move || {
            let queue = Fifo::new(2);
            let queue = Arc::new(if wakes_all { queue.waking_all() } else { queue });
            let takers = [(); 2].map(|()| {
                spawn(&queue, |queue| {
                    let mut batch = Vec::new();
                    assert_eq!(queue.take_batch(1, &mut batch, PATIENCE, tally()), 1);
                    batch[0]
                })
            });
            let mut items = VecDeque::from([1, 2, 3]);
            queue.put_all(&mut items, tally());
            assert_eq!(items, [3], "there is room for two");
            let taken = takers.map(|taker| taker.join().unwrap());
            assert_eq!(taken.iter().sum::<u32>(), 3);
        });
    }
}

/// A thread looks for items at two queues, and waits at the first. A call for the second reaches it
/// even if it has already checked the second and does not wait yet.
#[test]
fn a_call_is_heard_by_who_is_about_to_wait() {
    check_interleavings(|| {
        let queues = Arc::new([Fifo::new(1), Fifo::new(1)]);
        let taker = spawn(&queues, |[first, second]| {
            while second.is_empty() {
                assert_eq!(first.take(PATIENCE, tally()), None);
            }
            second.take(PATIENCE, tally())
        });
        let [first, second] = &*queues;
        second.put(1, tally()).unwrap();
        first.call(tally());
        assert_eq!(taker.join().unwrap(), Some(1));
    });
}

/// Each item is taken, returned by the end, or refused: once.
#[test]
fn the_end_loses_nothing_and_wakes_everybody() {
    check_interleavings(|| {
        let queue = Arc::new(Fifo::new(1));
        let taker = spawn(&queue, |queue| queue.take(PATIENCE, tally()));
        let closer = spawn(&queue, |queue| queue.close());
        let refused = queue.put(1, tally()).err();
        let (taken, left) = (taker.join().unwrap(), closer.join().unwrap());
        let all: Vec<i32> = taken.into_iter().chain(left).chain(refused).collect();
        assert_eq!(all, [1]);
        assert!(queue.is_closed() && queue.put(2, tally()).is_err());
    });
}

/// Plays the owner's part: sleeps while there is nothing, else takes it, until it has `most`.
fn collect(returns: &Returns<Job>, most: usize) -> VecDeque<Job> {
    let (mut all, mut some) = (VecDeque::new(), VecDeque::new());
    while all.len() < most {
        if returns.falls_asleep() {
            Bell::wait(0);
            assert!(returns.wakes());
            assert!(!Bell::is_rung(0));
        }
        returns.take_all(&mut some);
        all.append(&mut some);
    }
    all
}

/// A connection on its way. The model fails if two threads use it at once, or if one does not see
/// what another has done before it.
struct Job {
    touched: UnsafeCell<()>,
    /// Remaining requests.
    requests: u32,
}

impl Job {
    fn new(requests: u32) -> Self {
        Self { touched: UnsafeCell::new(()), requests }
    }

    fn touch(&self) {
        self.touched.with_mut(|_| ());
    }
}

#[test]
fn an_owner_is_rung_for_each_wait_and_no_more() {
    check_interleavings(|| {
        let returns = Arc::new(Returns::new().unwrap());
        let one = spawn(&returns, |returns| returns.put(Job::new(0)));
        let two = spawn(&returns, |returns| {
            returns.put_all(&mut VecDeque::from([Job::new(0), Job::new(0)]));
        });
        assert_eq!(collect(&returns, 3).len(), 3);
        one.join().unwrap();
        two.join().unwrap();
        assert!(returns.is_empty() && !Bell::is_rung(0));
    });
}

#[test]
fn a_call_is_heard_by_who_falls_asleep() {
    check_interleavings(|| {
        let returns = Arc::new(Returns::<Job>::new().unwrap());
        let caller = spawn(&returns, |returns| returns.wake());
        while returns.falls_asleep() {
            Bell::wait(0);
            if returns.wakes() {
                break;
            }
        }
        caller.join().unwrap();
        // A second call while the owner is awake leaves the bell silent.
        assert!(!Bell::is_rung(0));
    });
}

/// Stations of a pipeline: one of a stage with a poller, and those of threads.
const POLL: usize = 0;
const WORK: usize = 1;
const LAST: usize = 2;

impl Travels for Job {
    fn part(&self) -> usize {
        0
    }
}

/// Makes a stage with a poller, some threads whose queues have this room each, and one acceptor.
/// The bell of the first is number 0.
fn pipeline(threads: usize, room: usize) -> Arc<Line<'static, Job>> {
    let merged = StageEntry::Merged(Returns::new().expect("it has no descriptor"));
    let mut stations = vec![Station { name: "poll", entry: merged, tally: tally() }];
    stations.extend((0..threads).map(|_| {
        let entry = StageEntry::Queued(vec![Fifo::new(room)], Spread::Part);
        Station { name: "work", entry, tally: tally() }
    }));
    Arc::new(Line::new(stations, 1).expect("it has no descriptor"))
}

/// Takes the arrivals of the stage with a poller, which sleeps until then.
fn arrived(line: &Line<'static, Job>) -> VecDeque<Job> {
    let StageEntry::Merged(returns) = &line.station(POLL).entry else {
        unreachable!("it has a poller")
    };
    if returns.falls_asleep() {
        Bell::wait(0);
    }
    returns.wakes();
    let mut jobs = VecDeque::new();
    returns.take_all(&mut jobs);
    jobs.iter().for_each(Job::touch);
    jobs
}

/// Takes the next arrival of a thread, which sleeps until then.
fn next(line: &Line<'static, Job>, at: usize) -> Option<Job> {
    let StageEntry::Queued(queues, _) = &line.station(at).entry else {
        unreachable!("it has a queue")
    };
    let job = queues[0].take(PATIENCE, tally())?;
    job.touch();
    Some(job)
}

/// Runs the stage with a poller, which leaves arrivals to the thread until the line is closed.
fn poll(line: &Line<'static, Job>) {
    while !line.is_closed() {
        line.put_all(WORK, &mut arrived(line));
    }
}

/// Runs the thread. The first arrival goes back to the poller, and ends when it returns. Returns
/// the number that have ended.
fn work(line: &Line<'static, Job>) -> usize {
    let (mut came, mut ended) = (0, 0);
    while let Some(job) = next(line, WORK) {
        came += 1;
        if came == 1 {
            line.put_all(POLL, &mut VecDeque::from([job]));
        } else {
            ended += 1;
            line.ended(0);
        }
    }
    ended
}

/// A connection is found once when the line is closed. Two threads never touch it at once.
#[test]
fn a_line_that_is_closed_loses_no_connection() {
    check_interleavings(|| {
        let line = pipeline(1, 2);
        let worker = spawn(&line, work);
        let closer = spawn(&line, Line::close);
        line.put_all(POLL, &mut VecDeque::from([Job::new(0)]));
        poll(&line);
        let ended = worker.join().unwrap();
        closer.join().unwrap();
        let rest = line.rest();
        rest.iter().for_each(Job::touch);
        assert_eq!(ended + rest.len(), 1);
        assert_eq!(line.home(0).len(), ended);
    });
}

/// Two connections with two requests each circulate between a stage with a poller and two threads.
/// A request takes a place at the entrance and releases it in the last stage, or is turned away. A
/// queue has as many places. No thread waits forever, and no put finds a full queue.
#[test]
fn a_cycle_with_bounded_admission_does_not_stop() {
    const PLACES: usize = 1;
    check_interleavings(|| {
        let (line, places) = (pipeline(2, PLACES), Arc::new(AtomicUsize::new(PLACES)));
        let first = spawn(&line, |line| {
            while let Some(job) = next(line, WORK) {
                line.put_all(LAST, &mut VecDeque::from([job]));
            }
        });
        let free = places.clone();
        let last = spawn(&line, move |line| {
            while let Some(job) = next(line, LAST) {
                free.fetch_add(1, SeqCst);
                line.put_all(POLL, &mut VecDeque::from([job]));
            }
        });
        let (mut jobs, mut ended) = (VecDeque::from([(); 2].map(|()| Job::new(2))), 0);
        while ended < 2 {
            let (mut admitted, mut refused) = (VecDeque::new(), VecDeque::new());
            for mut job in jobs.drain(..) {
                let Some(rest) = job.requests.checked_sub(1) else {
                    ended += 1;
                    continue;
                };
                job.requests = rest;
                let has_place =
                    places.fetch_update(SeqCst, SeqCst, |free| free.checked_sub(1)).is_ok();
                (if has_place { &mut admitted } else { &mut refused }).push_back(job);
            }
            line.put_all(WORK, &mut admitted);
            line.put_all(POLL, &mut refused);
            if ended < 2 {
                jobs = arrived(&line);
            }
        }
        assert_eq!(places.load(SeqCst), PLACES, "each place has been given back");
        line.close();
        [first, last].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(line.rest().len(), 0);
    });
}

/// A thread that leaves a batch behind a barrier continues only after the whole batch is done.
#[test]
fn a_barrier_is_up_until_the_batch_is_done() {
    check_interleavings(|| {
        let parts = (Barrier::default(), Fifo::new(2), AtomicUsize::new(0));
        let parts = Arc::new(parts);
        let threads = [(); 2].map(|()| {
            spawn(&parts, |(barrier, queue, done)| {
                while let Some(job) = queue.take(PATIENCE, tally()) {
                    let job: Job = job;
                    job.touch();
                    done.fetch_add(1, SeqCst);
                    barrier.done(1);
                }
            })
        });
        let (barrier, queue, done) = &*parts;
        barrier.begin(2);
        queue.put_all(&mut VecDeque::from([Job::new(0), Job::new(0)]), tally());
        while !barrier.wait(PATIENCE) {}
        assert_eq!(done.load(SeqCst), 2);
        assert_eq!(queue.close().len(), 0);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
