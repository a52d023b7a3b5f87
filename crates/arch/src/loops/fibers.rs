//! User threads: straight-line code for each connection, on a stack of its own, and a scheduler
//! that resumes them one at a time in one kernel thread (Capriccio; [E] §4).
//!
//! A user thread tries a call, and is suspended inside it while it would block. The scheduler runs
//! those that are ready, in their order; then it checks at a poll point what helpers have done,
//! which sockets are ready, and what the worker wants. Several schedulers may run side by side,
//! each in a kernel thread of its own ([`Peers`](super::peers::Peers)).
mod handshakes;
mod life;
mod state;
mod task;

pub use state::State;
pub use task::{Completed, FiberTask, Fibered, run_task};

use crate::drive::{
    film,
    perform::{Below, SendBy},
};
use crate::loops::tasks::TaskTable;
use life::Thread;
use regatta_sys::{
    fiber::{Fibers, Turns},
    wait::Poller,
};
use std::{cell::RefCell, io, thread};

/// Order that a user thread receives when it is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Check whether it can continue.
    Go,
    /// End.
    Leave,
}

/// Tasks that a scheduler has helpers for.
pub type Hands = TaskTable<FiberTask, Completed>;

/// Rules for running user threads.
#[derive(Clone, Copy, Debug)]
pub struct FiberRules<'a> {
    /// Root below which the scheduler's kernel thread opens names.
    pub below: Below<'a>,
    /// Helpers read files into memory; else the scheduler's kernel thread does.
    pub helpers_read: bool,
    /// Way in which helpers send files; `None`: the user thread sends them, like all in memory.
    pub send: Option<SendBy>,
    /// New connections come before those that are there.
    pub accepting_first: bool,
    /// The scheduler repeats a call when the socket is ready for it; else the user thread does.
    pub poller_retries: bool,
    /// A user thread lets others go first before it opens a name and before it closes a connection.
    pub yields: bool,
    /// The scheduler does not wait: it looks again and again for what has become ready.
    pub spins: bool,
    /// The most of them that continue a handshake between two poll points. The others wait.
    pub handshakes_per_round: u32,
    /// Most user threads that run between two poll points.
    pub runs_max: usize,
    /// Bytes that one of them may send before others run.
    pub bytes_max: u64,
}

/// Serves until the master says otherwise and the last connection has ended. Each connection that
/// the worker may have has a user thread. All wait to accept one now.
///
/// # Errors
/// If the poller fails, which leaves nothing to continue with, or there are not as many stacks.
pub fn run<'s, 'a: 's, P: Poller>(
    state: &'s RefCell<State<'a, P>>,
    fibers: &mut Fibers<'s, Wake, ()>,
) -> io::Result<()> {
    let mut started = 0;
    let served = schedule(state, fibers, &mut started);
    for at in 0..started {
        let waits = fibers.resume(at, Wake::Leave);
        debug_assert!(waits.is_none(), "a user thread that is to leave waits for nothing");
    }
    state.borrow_mut().leave();
    served
}

fn schedule<'s, 'a: 's, P: Poller>(
    state: &'s RefCell<State<'a, P>>,
    fibers: &mut Fibers<'s, Wake, ()>,
    started: &mut usize,
) -> io::Result<()> {
    state.borrow_mut().watch_own()?;
    let (mut events, mut runs) = (Vec::new(), 0_u32);
    let (runs_max, home) = (state.borrow().rules.runs_max, thread::current().id());
    while state.borrow().goes_on() {
        state.borrow_mut().poll(&mut events)?;
        let held_ms = state.borrow().held_ms();
        for _ in 0..runs_max {
            if state.borrow().held_ms().wrapping_sub(held_ms) >= HELD_MS_MAX {
                break;
            }
            let Some(at) = state.borrow_mut().next_ready() else { break };
            // They have their first connections in the order of their numbers, or nearly.
            while *started <= at {
                let at = *started;
                let life = move |turns: &Turns<'_, Wake, ()>, first| {
                    Thread { at, state, turns, home }.live(first);
                };
                fibers.start(life)?;
                *started += 1;
            }
            let filmed = film::is_on(state.borrow().tally());
            if filmed {
                film::set_unit(at + 1);
            }
            fibers.resume(at, Wake::Go);
            if filmed {
                film::set_unit(0);
            }
            if runs.is_multiple_of(RUNS_PER_MEASURE) {
                state.borrow().used(fibers.stack_bytes_touched(at));
            }
            runs = runs.wrapping_add(1);
        }
    }
    Ok(())
}

/// Time in calls that block after which the next poll comes early, milliseconds.
const HELD_MS_MAX: u32 = 1_000;

/// Runs per check of how much of its stack a user thread has used.
const RUNS_PER_MEASURE: u32 = 256;
