//! The units of a process that are threads, and the end of a process although some of them block.
use crate::Env;
use crate::sync::lock;
use regatta_metrics::{Phase, Tally};
use regatta_sys::clock;
use std::{
    io,
    ops::Range,
    process,
    sync::{
        Mutex,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::{self, Builder, Scope},
    time::Duration,
};

/// Period of the checks whether units are to have left, when the first has.
const CHECK_PERIOD: Duration = Duration::from_millis(50);
/// Checks after which the process ends without them: leaving at once may take 300 ms in all.
const CHECKS_MAX: u32 = 4;

/// Starts a thread of a process. If it panics, the process ends: what the thread had would be
/// neither answered nor counted, and the master replaces a process that has died.
///
/// # Errors
/// No more threads can be started.
pub fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    stack_bytes: usize,
    life: impl FnOnce() + Send + 'scope,
) -> io::Result<()> {
    let builder = Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    let life = move || {
        let _guard = AbortOnPanic;
        life();
    };
    builder.spawn_scoped(scope, life).map(drop)
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}

/// Numbers of units that no thread has.
#[derive(Debug)]
pub struct Numbers(Mutex<Vec<usize>>);

impl Numbers {
    /// All of these are free; the least is taken first.
    #[must_use]
    pub fn new(all: Range<usize>) -> Self {
        Self(Mutex::new(all.rev().collect()))
    }

    /// A number for a thread; `None` if there are as many as may be.
    pub fn take(&self) -> Option<usize> {
        lock(&self.0).pop()
    }

    /// The thread of that number ends, or could not be started.
    pub fn give(&self, unit: usize) {
        lock(&self.0).push(unit);
    }
}

/// Scope like [`thread::scope`], for the units of a process. `first` is the life of the first unit,
/// and starts the others. When it has ended, they leave as soon as the call that they wait in, or
/// their drain, ends. If that is too late, the process ends without them.
pub fn scope<'env, R>(
    env: &Env,
    of: usize,
    first: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
) -> R {
    thread::scope(|around| {
        let (all_have_left, leave) = mpsc::channel::<()>();
        let ended = thread::scope(|units| {
            let ended = first(units);
            if env.arena.control().phase() != Phase::Run {
                let last = move || wait_for_others(env, of, &leave);
                // If there is no thread for it, the master kills the process.
                let _ = Builder::new().name("leave".to_owned()).spawn_scoped(around, last);
            }
            ended
        });
        drop(all_have_left);
        ended
    })
}

/// Waits until the other units have left, and does meanwhile what the first did; ends the process
/// when their time is over.
fn wait_for_others(env: &Env, of: usize, leave: &Receiver<()>) {
    let (slot, control) = (env.first_slot(of), env.arena.control());
    let log = (env.open_log)(Tally::Striped(slot));
    let mut checks = 0;
    while checks < CHECKS_MAX {
        if leave.recv_timeout(CHECK_PERIOD) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let now = clock::now();
        slot.set_heartbeat_ms(now.tick.0);
        log.tick(now);
        let drains = control.phase() == Phase::Drain && now.tick.0 < control.drain_deadline_ms();
        checks += u32::from(!drains);
    }
    log.flush();
    (env.end_process)();
}
