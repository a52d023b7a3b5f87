//! Distance of two processors: core-to-core latency. Speed of all of them in memory of their own.
//!
//! Data that a server and its client share moves between their processors. Where a hypervisor moves
//! a guest's processors, that takes 90 ns in one minute, within one cache, and 450 ns in the next.
//! The same server then needs twice the cycles for a reply. No other number shows it: no time is
//! stolen, and instructions are the same. The distance is therefore measured before and after each
//! trial. If the processors are no longer where the block began, that is noted, or the trial does
//! not count ([`crate::experiment::Guards::moved_max`]).

use crate::experiment::Machine;
use crate::group::run_on;
use rustix::thread::CpuSet;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// Round trips that are timed together.
const BATCH: u32 = 400;
/// Timings; the shortest counts, since something else may have run in the others.
const BATCHES: usize = 15;
/// Time limit for all of them, if another program has one of the processors.
const PATIENCE: Duration = Duration::from_millis(200);
/// Says that there will be no further round trip.
const OVER: u32 = u32::MAX;
/// Longest wait of a trial for moved processors to return, and the time between two probes.
const WAIT_MAX: Duration = Duration::from_secs(10);
const WAIT_STEP: Duration = Duration::from_millis(250);
/// Distances of one class differ less from the next one of it. Those of one place scatter by a few
/// tenths; within a cache, across caches and across sockets are each two times the one before.
const CLASS_STEP: f64 = 1.7;
/// Factor by which the distance changes of processors that moved. Within one cache 59 to 152 ns
/// were met, across caches 340 to 630.
pub const MOVED_MIN: f64 = 2.2;

/// Note on a trial that counts though they moved.
pub(crate) const MOVED: &str = "the processors moved, or were elsewhere than when the block began \
     (core_to_core_ns, core_to_core_after_ns): its times and cycles are not those of the others; \
     guards.moved_max would have refused it";

/// A word alone in its cache lines; some processors fetch two lines at once.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU32);

/// Time of a cache line from one processor to another and back, nanoseconds: the mean of 400, in
/// the shortest of 15 batches. Takes some milliseconds in which both should have little else to do.
/// None if they are the same, if either is not allowed, or if it takes longer than 200 ms.
pub fn round_trip_ns(one: usize, other: usize) -> Option<f64> {
    if one == other || one.max(other) >= CpuSet::MAX_CPU {
        return None;
    }
    let line = Line::default();
    let deadline = Instant::now() + PATIENCE;
    thread::scope(|scope| {
        let answers = thread::Builder::new().spawn_scoped(scope, || {
            if run_on(&[other]).is_ok() {
                answer(&line.0, deadline);
            }
        });
        let asks = thread::Builder::new().spawn_scoped(scope, || {
            let shortest = run_on(&[one]).ok().and_then(|()| ask(&line.0, deadline));
            line.0.store(OVER, Ordering::Release);
            shortest
        });
        answers.ok()?;
        asks.ok()?.join().ok()?
    })
}

/// Writes odd numbers and waits for the even one behind each: nanoseconds of a round trip.
fn ask(line: &AtomicU32, deadline: Instant) -> Option<f64> {
    let mut next = 0;
    let mut batch = || {
        let start = Instant::now();
        for _ in 0..BATCH {
            line.store(next + 1, Ordering::Release);
            next += 2;
            if spin(line, deadline, |seen| seen == next).is_break() {
                return None;
            }
        }
        Some(1e9 * start.elapsed().as_secs_f64() / f64::from(BATCH))
    };
    (0..BATCHES).try_fold(f64::INFINITY, |shortest, _| Some(shortest.min(batch()?)))
}

/// Answers each odd number with the next even one, until it is over.
fn answer(line: &AtomicU32, deadline: Instant) {
    while spin(line, deadline, |seen| seen % 2 == 1).is_continue() {
        let seen = line.load(Ordering::Relaxed);
        if seen == OVER {
            return;
        }
        line.store(seen + 1, Ordering::Release);
    }
}

/// Looks until the line holds what is wanted, or gives up.
fn spin(line: &AtomicU32, deadline: Instant, wanted: impl Fn(u32) -> bool) -> ControlFlow<()> {
    let mut looks = 0_u32;
    // Without a spin-loop hint, which takes as long as what is measured.
    while !wanted(line.load(Ordering::Acquire)) {
        looks += 1;
        if looks.is_multiple_of(4096) && Instant::now() > deadline {
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}

/// Distances that were met, in classes: what a machine whose processors do not move has one of.
#[derive(Clone, Debug, PartialEq)]
pub struct Distances {
    /// The nearest and the farthest of each class, nanoseconds, in ascending order.
    classes: Vec<(f64, f64)>,
}

impl Distances {
    /// Sorts distances into classes: another one begins where the next distance is 1.7 times
    /// greater than the one before.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().filter(|ns| *ns > 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        let mut classes: Vec<(f64, f64)> = Vec::new();
        for ns in sorted {
            match classes.last_mut() {
                Some((_, farthest)) if ns <= *farthest * CLASS_STEP => *farthest = ns,
                _ => classes.push((ns, ns)),
            }
        }
        Self { classes }
    }

    pub fn classes(&self) -> &[(f64, f64)] {
        &self.classes
    }

    /// The class that a distance is in, from 0, the nearest; 0 also for one that is unknown.
    pub fn class(&self, ns: Option<f64>) -> usize {
        let Some(ns) = ns else { return 0 };
        self.classes.iter().rposition(|(nearest, _)| *nearest <= ns).unwrap_or(0)
    }
}

/// Distance of the first of the server's processors and the first of the client's; None if they
/// have none of their own.
pub(crate) fn between(machine: &Machine) -> Option<f64> {
    round_trip_ns(*machine.server_cpus.first()?, *machine.load_cpus().first()?)
}

/// Waits until two processors are as far apart as is asked for, give or take `most` times, for ten
/// seconds at the most or until told to stop. A hypervisor is more likely to move those that have
/// nothing to do.
pub fn wait(like: f64, most: f64, apart: impl Fn() -> Option<f64>, stop: impl Fn() -> bool) {
    let end = Instant::now() + WAIT_MAX;
    let far = || apart().is_some_and(|ns| !alike(ns, like, most));
    while Instant::now() < end && !stop() && far() {
        sleep(WAIT_STEP);
    }
}

/// Reason not to compare a trial with others, if there is one: the processors' distance changed
/// during it, or differs from `like`, at which the others began.
pub fn moved(apart_ns: [Option<f64>; 2], like: Option<f64>, most: f64) -> Option<String> {
    let [before, after] = [apart_ns[0]?, apart_ns[1]?];
    let whole = |why: &str| {
        let now = format!("a cache line took {before:.0} ns for a round trip, then {after:.0} ns");
        Some(format!("the processors moved{why}: {now}"))
    };
    match like {
        _ if !alike(before, after, most) => whole(""),
        Some(like) if !alike(before, like, most) => {
            whole(&format!(" since the block began ({like:.0} ns)"))
        }
        _ => None,
    }
}

/// Whether one distance is at most `most` times the other.
fn alike(one: f64, other: f64, most: f64) -> bool {
    one.max(other) <= one.min(other) * most
}

/// Bytes that each copies from one place to another: more than its share of any cache.
const BYTES: usize = 32 << 20;
/// Time from the last one's memory being in place to the start of all, so that all are awake.
const READY: Duration = Duration::from_millis(20);
const TIME: Duration = Duration::from_millis(150);

/// Megabytes (10^6) a second that these processors copy together. None where one of them may not be
/// run on.
pub(crate) fn mbyte_per_s(cpus: &[usize]) -> Option<f64> {
    let (ready, readies) = channel();
    let begin = OnceLock::new();
    thread::scope(|scope| {
        let one = |cpu: usize| {
            let (ready, begin) = (ready.clone(), &begin);
            thread::Builder::new().spawn_scoped(scope, move || {
                run_on(&[cpu]).ok()?;
                let from = vec![1_u8; BYTES];
                let to = from.clone();
                ready.send(()).ok()?;
                drop(ready);
                Some(copied(&from, to, (*begin.wait())?))
            })
        };
        let all: Vec<_> = cpus.iter().map(|cpu| one(*cpu)).collect();
        drop(ready);
        // Ends when every thread has said so or has ended.
        let every = readies.iter().count() == cpus.len();
        begin.get_or_init(|| every.then(|| Instant::now() + READY));
        all.into_iter().map(|thread| thread.ok()?.join().ok()?).sum()
    })
}

/// Rate at which this thread copies from `begin` on, 10^6 bytes a second.
fn copied(from: &[u8], mut to: Vec<u8>, begin: Instant) -> f64 {
    sleep(begin.saturating_duration_since(Instant::now()));
    let start = Instant::now();
    let mut times = 0_u32;
    while start.elapsed() < TIME {
        to.copy_from_slice(black_box(from));
        black_box(&mut to);
        times += 1;
    }
    let bytes = f64::from(times) * crate::stats::count(BYTES);
    bytes / 1e6 / start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_testkit::skips::skip;
    use rustix::thread::sched_getaffinity;

    #[test]
    fn a_line_takes_its_time_between_two_processors() {
        let set = sched_getaffinity(None).unwrap();
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
        let [one, other, ..] = cpus[..] else { return skip("needs two processors") };
        let before = sched_getaffinity(None).unwrap();
        // Something else may have one of them for long.
        let Some(ns) = (0..20).find_map(|_| round_trip_ns(one, other)) else {
            return skip("needs two processors with time");
        };
        assert!((5.0..100_000.0).contains(&ns), "{ns}");
        assert_eq!(sched_getaffinity(None).unwrap(), before, "the caller may run where it could");
        assert_eq!(round_trip_ns(one, one), None);
        assert_eq!(round_trip_ns(one, CpuSet::MAX_CPU), None);
        assert_eq!(round_trip_ns(one, CpuSet::MAX_CPU - 1), None, "there are not so many");
    }

    #[test]
    fn distances_fall_into_classes() {
        let all = Distances::of([450.0, 86.0, 376.0, f64::NAN, 122.0, 547.0, 90.0]);
        assert_eq!(all.classes(), [(86.0, 122.0), (376.0, 547.0)]);
        let classes = [86.0, 122.0, 130.0, 376.0, 900.0].map(|ns| all.class(Some(ns)));
        assert_eq!(classes, [0, 0, 0, 1, 1]);
        assert_eq!(all.class(None), 0);
        assert_eq!(Distances::of([]).classes(), []);
    }

    #[test]
    fn a_trial_counts_where_the_block_began() {
        let moved = |before, after, like| moved([Some(before), Some(after)], like, MOVED_MIN);
        assert_eq!(moved(63.0, 124.0, None), None);
        assert_eq!(moved(80.0, 120.0, Some(100.0)), None);
        let why = moved(90.0, 400.0, None).unwrap();
        assert!(
            why.ends_with("moved: a cache line took 90 ns for a round trip, then 400 ns"),
            "{why}"
        );
        let why = moved(420.0, 400.0, Some(90.0)).unwrap();
        assert!(why.starts_with("the processors moved since the block began (90 ns)"), "{why}");
        assert_eq!(
            super::moved([Some(90.0), None], Some(400.0), MOVED_MIN),
            None,
            "nobody can tell"
        );
        assert_eq!(super::moved([Some(90.0), Some(400.0)], None, 1e6), None, "nobody asked");
    }
}

#[cfg(test)]
mod stream_tests {
    use super::mbyte_per_s;

    #[test]
    fn a_processor_copies_its_megabytes() {
        let found = mbyte_per_s(&[0]).expect("processor 0 is ours");
        assert!((50.0..1e6).contains(&found), "{found}");
        assert_eq!(mbyte_per_s(&[1_023]), None, "there are not so many");
    }
}
