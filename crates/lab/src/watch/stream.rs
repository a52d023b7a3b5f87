//! How fast processors stream through memory of their own, all at once: what [G] measured on 24
//! cores to tell whether memory is what servers on many cores wait for.

use crate::group::run_on;
use std::hint::black_box;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// What each copies from one place to another: more than its share of any cache.
const BYTES: usize = 32 << 20;
/// All begin so long after they were asked, with their memory in place.
const READY: Duration = Duration::from_millis(150);
/// How long they copy.
const TIME: Duration = Duration::from_millis(150);

/// Megabytes (10^6) a second that these processors copy together. None where one of them may not be
/// run on, or was not ready in time.
pub(crate) fn mbyte_per_s(cpus: &[usize]) -> Option<f64> {
    let begin = Instant::now() + READY;
    thread::scope(|scope| {
        let one = |cpu: usize| {
            thread::Builder::new().spawn_scoped(scope, move || {
                run_on(&[cpu]).ok()?;
                copied(begin)
            })
        };
        let all: Result<Vec<_>, _> = cpus.iter().map(|cpu| one(*cpu)).collect();
        all.ok()?.into_iter().map(|thread| thread.join().ok()?).sum()
    })
}

/// What this thread copies from then on, 10^6 bytes a second.
fn copied(begin: Instant) -> Option<f64> {
    let from = vec![1_u8; BYTES];
    let mut to = from.clone();
    sleep(begin.checked_duration_since(Instant::now())?);
    let start = Instant::now();
    let mut times = 0_u32;
    while start.elapsed() < TIME {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        times += 1;
    }
    let bytes = f64::from(times) * crate::stats::count(BYTES);
    Some(bytes / 1e6 / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::mbyte_per_s;

    #[test]
    fn a_processor_copies_its_megabytes() {
        // On a busy machine it may not be ready in time.
        let found = (0..20).find_map(|_| mbyte_per_s(&[0])).expect("processor 0 is ours");
        assert!((50.0..1e6).contains(&found), "{found}");
        assert_eq!(mbyte_per_s(&[1_023]), None, "there are not so many");
    }
}
