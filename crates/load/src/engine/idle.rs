//! Idle connections: each asked once, then held open and silent beside the load.

use super::plan::Plan;
use regatta_sys::connect::{ConnectSpec, connect, connected};
use regatta_sys::wait::{Exact, WaitChange};
use regatta_sys::{recv, send_last};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Connections that may be on their way at once: a listener's queue is short.
const CONNECTING_MAX: usize = 64;
/// How long one wait for connections on their way lasts.
const WAIT: Duration = Duration::from_millis(50);

/// What became of the idle connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idled {
    /// Connections that were to be held.
    pub wanted: u32,
    /// The least that were held at any time of the run.
    pub least: u32,
    /// Connections that the server closed, and that were made again.
    pub again: u64,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// On its way.
    Connecting,
    /// Asked, and not yet answered.
    Asked,
    /// Idle.
    Held,
}

/// The idle connections of a load.
#[derive(Debug)]
pub(super) struct Idle<'p> {
    plan: &'p Plan,
    poll: Exact,
    places: Vec<Option<(OwnedFd, Stage)>>,
    empty: Vec<usize>,
    connecting: usize,
    held: u32,
    opened: usize,
    last_error: Option<io::Error>,
    /// A connection could not be made in the last turn.
    refused: bool,
    pub(super) done: Idled,
}

impl<'p> Idle<'p> {
    /// Makes all of them, and waits until each has been answered once, or `stopped` says so.
    ///
    /// # Errors
    /// Why they could not be made within the load's time-out, in one sentence.
    pub(super) fn hold(
        plan: &'p Plan,
        wanted: u32,
        stopped: &mut dyn FnMut() -> bool,
    ) -> Result<Self, String> {
        let count = usize::try_from(wanted).unwrap_or(usize::MAX);
        let poll = Exact::new().map_err(|error| format!("idle connections: {error}"))?;
        let mut idle = Self {
            plan,
            poll,
            places: (0..count).map(|_| None).collect(),
            empty: (0..count).collect(),
            connecting: 0,
            held: 0,
            opened: 0,
            last_error: None,
            refused: false,
            done: Idled { wanted, ..Idled::default() },
        };
        let timeout = Duration::from_nanos(plan.timeout_ns.min(3_600_000_000_000));
        let mut progress = (0, Instant::now());
        while idle.held < wanted && !stopped() {
            idle.turn(WAIT)?;
            if idle.refused {
                std::thread::sleep(WAIT);
            }
            if idle.held > progress.0 {
                progress = (idle.held, Instant::now());
            }
            if progress.1.elapsed() > timeout {
                let why = idle.last_error.map_or(String::new(), |error| format!(": {error}"));
                let held = idle.held;
                return Err(format!("{held} of {wanted} idle connections could be made{why}"));
            }
        }
        idle.done.least = idle.held;
        Ok(idle)
    }

    /// Makes again what the server has closed. Waits for changes for at most `wait`.
    pub(super) fn turn(&mut self, wait: Duration) -> Result<(), String> {
        self.refused = false;
        while self.connecting < CONNECTING_MAX
            && !self.refused
            && let Some(at) = self.empty.pop()
        {
            if let Err(error) = self.open(at) {
                self.fail(at, error);
            }
        }
        let changes = self.poll.wait(Some(wait)).map_err(|e| format!("idle connections: {e}"))?;
        for number in 0..changes {
            self.take(self.poll.change(number));
        }
        self.done.least = self.done.least.min(self.held);
        Ok(())
    }

    fn open(&mut self, at: usize) -> io::Result<()> {
        let (from, to) = (self.plan.source(self.opened), self.plan.server(self.opened));
        self.opened += 1;
        let fd = connect(&ConnectSpec { to, from, recv_buffer_bytes: 0 })?;
        self.poll.add(fd.as_fd(), at as u64)?;
        self.places[at] = Some((fd, Stage::Connecting));
        self.connecting += 1;
        Ok(())
    }

    fn take(&mut self, change: WaitChange) {
        let at = usize::try_from(change.key).unwrap_or(usize::MAX);
        let Some((fd, stage)) = &mut self.places[at] else { return };
        let next = match *stage {
            Stage::Connecting if !change.writable => return,
            Stage::Connecting => {
                self.connecting -= 1;
                ask(fd, self.plan).map(|()| Stage::Asked)
            }
            before => drain(fd).map(|any| if any { Stage::Held } else { before }),
        };
        match next {
            Ok(next) => {
                self.held += u32::from(*stage == Stage::Asked && next == Stage::Held);
                *stage = next;
            }
            Err(error) => {
                self.held -= u32::from(*stage == Stage::Held);
                self.done.again += u64::from(*stage != Stage::Connecting);
                self.places[at] = None;
                self.fail(at, error);
            }
        }
    }

    fn fail(&mut self, at: usize, error: io::Error) {
        self.last_error = Some(error);
        self.refused = true;
        self.empty.push(at);
    }
}

fn ask(fd: &OwnedFd, plan: &Plan) -> io::Result<()> {
    connected(fd.as_fd())?;
    // A request that does not fit in an empty send buffer is none.
    send_last(fd.as_fd(), &plan.script.targets[0].bytes)?;
    Ok(())
}

/// Throws away what has come; true if anything has.
fn drain(fd: &OwnedFd) -> io::Result<bool> {
    let mut bytes = [0; 16 << 10];
    let mut any = false;
    loop {
        match recv(fd.as_fd(), &mut bytes) {
            Ok(0) => return Err(io::ErrorKind::ConnectionReset.into()),
            Ok(_) => any = true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(any),
            Err(error) => return Err(error),
        }
    }
}
