//! Facts and settings of the calling thread: its number, its processor time, its timers' slack.
//!
//! Heartbeats and locks that outlive their holders know threads by [`number`]. The load generator
//! and the poller thread of [A] count [`cpu_nanos`]. Only the load generator sets the slack.
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::{io, time::Duration};

/// Processor time that this thread has used, nanoseconds.
#[must_use]
#[expect(clippy::cast_sign_loss, reason = "processor time is not negative")]
pub fn cpu_nanos() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    tv_sec as u64 * 1_000_000_000 + tv_nsec as u64
}

/// The kernel's number of this thread.
#[must_use]
pub fn number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Sets the delay by which the kernel may wake this thread late to save wake-ups: 50 microseconds
/// unless set (`PR_SET_TIMERSLACK`). Threads that it starts from now on inherit the value.
///
/// # Errors
/// None that the kernel documents.
pub fn set_timer_slack(slack: Duration) -> io::Result<()> {
    let nanos = libc::c_ulong::try_from(slack.as_nanos()).unwrap_or(libc::c_ulong::MAX);
    // 0 would mean the default.
    let nanos = nanos.max(1);
    // SAFETY: takes integers and touches no memory of ours.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos, 0, 0, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_grows_with_work_and_slack_is_kept() {
        assert!(std::path::Path::new(&format!("/proc/self/task/{}", number())).exists());
        let before = cpu_nanos();
        let mut sum = 0_u64;
        while cpu_nanos() < before + 1_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
        set_timer_slack(Duration::from_nanos(1)).unwrap();
        let slack = std::fs::read_to_string("/proc/thread-self/timerslack_ns");
        // Reading the slack may not be permitted.
        assert!(slack.map_or(true, |slack| slack.trim() == "1"));
    }
}
