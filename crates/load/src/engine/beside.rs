//! What goes on beside a load, in the thread that listens to its workers: idle connections are
//! held, a file is rewritten.

use super::expect::Written;
use super::idle::{Idle, Idled};
use super::plan::Plan;
use crate::workload::alter::{Rewriting, Rewritten};
use regatta_sys::clock;
use std::time::Duration;

/// How often signals, files and idle connections are looked at.
pub(super) const TURN: Duration = Duration::from_millis(50);

/// All of it; nothing in most loads.
#[derive(Debug, Default)]
pub(super) struct Beside<'p> {
    idle: Option<Idle<'p>>,
    rewriting: Option<Rewriting>,
    problem: Option<String>,
}

impl<'p> Beside<'p> {
    /// Makes the idle connections that the plan wants, and starts to rewrite its file.
    pub(super) fn begin(plan: &'p Plan, stopped: &mut dyn FnMut() -> bool) -> Result<Self, String> {
        let idle = match plan.options.idle {
            None | Some(0) => None,
            Some(wanted) => Some(Idle::hold(plan, wanted, stopped)?),
        };
        let start = |target| Rewriting::start(target, clock::nanos());
        let rewriting = plan.altered.clone().map(start).transpose();
        let rewriting = rewriting.map_err(|fault| fault.to_string())?;
        if let Some((first, started_ns, period_ns)) = rewriting.as_ref().map(Rewriting::clock) {
            let stale_after_ns = plan.stale_after_ns;
            let written = Written { first, started_ns, period_ns, stale_after_ns };
            plan.written.set(written).map_err(|_| "a plan is carried out once".to_owned())?;
        }
        Ok(Self { idle, rewriting, problem: None })
    }

    /// Does what is due; says how long it is until the next, [`TURN`] at most. After a problem
    /// nothing more is done.
    pub(super) fn turn(&mut self) -> Duration {
        let done = self.try_turn();
        done.unwrap_or_else(|problem| {
            *self = Self { problem: Some(problem), ..Self::default() };
            TURN
        })
    }

    fn try_turn(&mut self) -> Result<Duration, String> {
        if let Some(idle) = &mut self.idle {
            idle.turn(Duration::ZERO)?;
        }
        let Some(rewriting) = &mut self.rewriting else { return Ok(TURN) };
        let next = rewriting.turn(clock::nanos()).map_err(|fault| fault.to_string())?;
        Ok(next.min(TURN))
    }

    /// Why it could not go on.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// What was done.
    pub(super) fn done(&self) -> (Option<Idled>, Option<Rewritten>) {
        let rewritten = self.rewriting.as_ref().map(|rewriting| rewriting.done);
        (self.idle.as_ref().map(|idle| idle.done), rewritten)
    }
}
