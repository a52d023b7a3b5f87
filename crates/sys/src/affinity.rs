//! Which processors a thread runs on.
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The processors that this thread may run on, in order. Respects what the process was started
/// with (taskset, cgroups).
///
/// # Errors
/// The machine has more processors than the 1,024 that a set has room for.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Binds this thread, and those it starts from now on, to one processor.
///
/// # Errors
/// There is no such processor, or the process may not use it.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_is_allowed_one_processor() {
        let last = *allowed().unwrap().last().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(last).unwrap();
                assert_eq!(allowed().unwrap(), [last]);
            });
        });
        assert!(pin(CpuSet::MAX_CPU).is_err());
    }
}
