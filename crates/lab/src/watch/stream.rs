//! How fast processors stream through memory of their own, all at once: what [G] measured on 24
//! cores to tell whether memory is what servers on many cores wait for.

use crate::group::run_on;
use std::hint::black_box;
use std::sync::{OnceLock, mpsc::channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// What each copies from one place to another: more than its share of any cache.
const BYTES: usize = 32 << 20;
/// They begin so long after the last of them has its memory in place, so that all are awake.
const READY: Duration = Duration::from_millis(20);
/// How long they copy.
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

/// What this thread copies from then on, 10^6 bytes a second.
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
    use super::mbyte_per_s;

    #[test]
    fn a_processor_copies_its_megabytes() {
        let found = mbyte_per_s(&[0]).expect("processor 0 is ours");
        assert!((50.0..1e6).contains(&found), "{found}");
        assert_eq!(mbyte_per_s(&[1_023]), None, "there are not so many");
    }
}
