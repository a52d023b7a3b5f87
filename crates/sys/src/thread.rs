//! Facts and settings of the calling thread: its number, its processor time, its timers' slack, its
//! stack.
//!
//! Heartbeats and locks that outlive their holders know threads by [`number`]. The load generator
//! and the poller thread of [A] count [`cpu_nanos`]. Only the load generator sets the slack.
use crate::stack_pages::{PAGE, release_unused};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::{io, mem::MaybeUninit, ops::Range, process, ptr, time::Duration};

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

thread_local! {
    /// Addresses of the pages of this thread's stack.
    static STACK: Option<Range<usize>> = own_stack();
}

/// Releases the pages of this thread's stack that earlier, deeper calls have touched. They take
/// memory again when they are touched. Does nothing in the first thread of a process, whose stack
/// grows, and on the stack of a user thread.
pub fn release_stack() {
    STACK.with(|stack| {
        if let Some(stack) = stack {
            // SAFETY: the pages are those of this thread's stack, which grows downward and stays
            // mapped while the thread runs. The C library keeps what is its own at the top, above
            // all frames; below them are only frames of calls that have returned.
            unsafe { release_unused(stack) };
        }
    });
}

/// Finds the stack of this thread, unless it is the first of its process.
fn own_stack() -> Option<Range<usize>> {
    if number() == process::id() {
        return None;
    }
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: takes nothing and returns a handle of the calling thread.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: the thread runs, and there is room for its attributes.
    let got = unsafe { libc::pthread_getattr_np(own, attributes.as_mut_ptr()) };
    if got != 0 {
        return None;
    }
    let (mut lowest, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the call above has initialised the attributes, and there is room for both results.
    let found = unsafe {
        libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut bytes)
    };
    // SAFETY: they are initialised, and are not used afterwards.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    let end = lowest.addr() + bytes;
    (found == 0).then(|| lowest.addr().next_multiple_of(PAGE)..end / PAGE * PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack_pages::resident_bytes;
    use std::thread;

    #[test]
    fn a_thread_releases_what_deeper_calls_have_touched() {
        const BYTES: usize = 256 << 10;
        #[inline(never)]
        fn goes_deep() -> u8 {
            let deep = std::hint::black_box([7_u8; BYTES]);
            deep[BYTES / 2]
        }
        let life = || {
            let kept = std::hint::black_box([3_u8; 100]);
            let stack = own_stack().expect("it is not the first thread");
            assert_eq!(goes_deep(), 7);
            let deep = resident_bytes(&stack);
            release_stack();
            let released = resident_bytes(&stack);
            assert!(deep >= BYTES && released < deep - BYTES / 2, "{released} of {deep} bytes");
            assert_eq!((kept[99], goes_deep()), (3, 7));
        };
        let thread = thread::Builder::new().stack_size(2 << 20).spawn(life).unwrap();
        thread.join().unwrap();
    }

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
