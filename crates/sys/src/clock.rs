//! The clocks, through the vdso: no system call.
use crate::hook;
use regatta_op::{Now, Tick};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Deadlines and dates: the coarse clocks, up to one scheduler tick (4 ms) old.
///
/// Ticks count from boot, so all processes of a machine agree on them.
#[inline]
#[must_use]
pub fn now() -> Now {
    if let Some(now) = hook::now() {
        return now;
    }
    let tick = clock_gettime(ClockId::MonotonicCoarse);
    let unix = clock_gettime(ClockId::RealtimeCoarse);
    Now { tick: Tick(nanos_of(tick) / 1_000_000), unix: u64::try_from(unix.tv_sec).unwrap_or(0) }
}

/// Nanoseconds on the precise monotonic clock, for durations.
#[inline]
#[must_use]
pub fn nanos() -> u64 {
    if let Some(nanos) = hook::nanos() {
        return nanos;
    }
    nanos_of(clock_gettime(ClockId::Monotonic))
}

#[inline]
#[expect(clippy::cast_sign_loss, reason = "the monotonic clock starts at 0 and never goes back")]
const fn nanos_of(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
