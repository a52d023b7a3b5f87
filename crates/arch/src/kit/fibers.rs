//! User threads: straight-line code for each connection, on a stack of its own, and a scheduler
//! that resumes them one at a time in one kernel thread (Capriccio; [E] §4).
//!
//! A user thread tries a call, and is suspended inside it while it would block. The scheduler runs
//! those that are ready, in their order; then it looks at a poll point what helpers have done,
//! which sockets are ready, and what the worker wants. Several schedulers may be beside each other,
//! each in a kernel thread of its own ([`Peers`]).
mod life;
mod peers;
mod state;
mod task;

pub use peers::Peers;
pub use state::State;
pub use task::{Completed, Fibered, Task, run_task};

use super::tasks::Tasks;
use crate::drive::perform::{Below, SendBy};
use life::Thread;
use regatta_sys::{
    fiber::{Fibers, Turns},
    wait::Poller,
};
use std::{cell::RefCell, io, thread};

/// What a user thread is told when it is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// To look whether it can go on.
    Go,
    /// To end.
    Leave,
}

/// What a scheduler has helpers for.
pub type Hands = Tasks<Task, Completed>;

/// How user threads run.
#[derive(Clone, Copy, Debug)]
pub struct FiberRules<'a> {
    /// Where names are opened, by the scheduler's kernel thread.
    pub below: Below<'a>,
    /// Helpers read files into memory; else the scheduler's kernel thread does.
    pub helpers_read: bool,
    /// How helpers send what is in files; `None`: the user thread sends it, as all that is in
    /// memory.
    pub send: Option<SendBy>,
    /// New connections come before those that are there.
    pub accepting_first: bool,
    /// The scheduler repeats a call when the socket is ready for it; else the user thread does.
    pub poller_retries: bool,
    /// A user thread lets others go first before it opens a name and before it closes a connection.
    pub yields: bool,
    /// The scheduler does not wait: it looks again and again for what has become ready.
    pub spins: bool,
    /// How many user threads run between two poll points.
    pub runs_max: usize,
    /// What one of them may send before others run, bytes.
    pub bytes_max: u64,
}

/// Serves until the master says otherwise and the last connection has ended: with a user thread for
/// each connection that the worker may have, all of which wait to accept one now.
///
/// # Errors
/// If the poller fails, which leaves nothing to go on with, or there are not as many stacks.
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
            fibers.resume(at, Wake::Go);
            if runs.is_multiple_of(RUNS_PER_MEASURE) {
                state.borrow().used(fibers.stack_bytes_touched(at));
            }
            runs = runs.wrapping_add(1);
        }
    }
    Ok(())
}

/// The next poll comes early where calls that block have taken so long, milliseconds.
const HELD_MS_MAX: u32 = 1_000;

/// After one run in so many it is looked how much of its stack a user thread has used.
const RUNS_PER_MEASURE: u32 = 256;
