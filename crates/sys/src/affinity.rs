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

/// Binds this thread, and those it starts from now on, to these processors.
///
/// # Errors
/// A number is beyond what a set has room for, or the process may use none of them.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_is_allowed_what_it_is_pinned_to() {
        let all = allowed().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let last = all[all.len() - 1];
                pin(&[last]).unwrap();
                assert_eq!(allowed().unwrap(), [last]);
                pin(&all).unwrap();
                assert_eq!(allowed().unwrap(), all);
            });
        });
        assert!(pin(&[CpuSet::MAX_CPU]).is_err());
        assert!(pin(&[]).is_err());
    }
}
