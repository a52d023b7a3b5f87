//! `regatta reload` and `regatta upgrade`: asks a server for another generation, and waits for it.
use super::find::{self, FindError, Running};
use crate::{
    Failure, WorkFault,
    refusals::RefusedReload,
    succession::{Kind, START_MS_MAX, TRIAL_MS_MAX},
};
use regatta_sys::{clock, process, signal::Signal};
use std::{thread, time::Duration};

/// Time between two checks, milliseconds.
const LOOK_MS: u64 = 20;

/// Longest wait, milliseconds: for a request in progress, and then for this one.
const WAIT_MS_MAX: u64 = 2 * (TRIAL_MS_MAX + START_MS_MAX);

/// Formats a request that was carried out for programs: one JSON object.
#[must_use]
pub fn done_json(pid: u32) -> String {
    format!("{:#}\n", serde_json::json!({"ok": true, "pid": pid, "outcome": null, "faults": []}))
}

/// Formats a refused request likewise.
#[must_use]
pub fn refused_json(refused: &RefusedReload) -> String {
    let RefusedReload { outcome, faults, .. } = refused;
    format!("{:#}\n", serde_json::json!({"ok": false, "outcome": outcome, "faults": faults}))
}

/// Signals the server with this process, or the only running one, and waits until it reports the
/// result. Returns the process of the server.
///
/// No such server; or nothing has changed, because of a fault.
pub fn succeed(pid: Option<u32>, kind: Kind) -> Result<u32, Failure> {
    let server = find::find(pid).map_err(FindError::failure)?;
    let Running { pid, mut control, .. } = server;
    let until = clock::now().tick.after(WAIT_MS_MAX);
    // A request in progress has read another configuration, and its end would be no answer.
    while control.reloads_pending() > 0 {
        if clock::now().tick >= until {
            return Err(Failure::Work(WorkFault::Busy(pid)));
        }
        thread::sleep(Duration::from_millis(LOOK_MS));
        // The counters may be unreadable for a moment.
        control = find::find(Some(pid)).map_or(control, |server| server.control);
    }
    let before = (control.reloads(), control.reloads_refused());
    let signal = match kind {
        Kind::Root | Kind::Reload => Signal::Hangup,
        Kind::Upgrade => Signal::User2,
    };
    process::send(pid, signal).map_err(|error| Failure::Work(WorkFault::Signal(pid, error)))?;
    while clock::now().tick < until {
        thread::sleep(Duration::from_millis(LOOK_MS));
        // For a moment the server may have no readable counters.
        let Ok(Running { control, .. }) = find::find(Some(pid)) else { continue };
        if control.reloads_refused() > before.1 {
            let refused = RefusedReload::find(pid, control.reloads_refused());
            return Err(Failure::Work(WorkFault::Refused(refused.unwrap_or_default())));
        }
        if control.reloads() > before.0 {
            return Ok(pid);
        }
    }
    Err(Failure::Work(WorkFault::Unanswered(pid)))
}
