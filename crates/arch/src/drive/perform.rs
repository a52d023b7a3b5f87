//! Where an operation becomes a system call and is counted: one place for every architecture, so
//! that what a reply costs can be compared.
//!
//! Opened paths and read ranges are counted by the core, whoever performs them.
use super::ledger::Spent;
use regatta_metrics::{Counter, Tally};
use regatta_op::{Fault, OpenReq, Outbox};
use regatta_sys::{
    OpenResult, OpenRules, Root, SendCall, StaticFile, clock, fault, open_below,
    socket::{self, AcceptFault, Connection, Mode},
};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
};

pub use regatta_sys::{look_again as stat, read_range as read};

/// Why bytes did not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// They would have to wait for the peer; or have waited, for as long as the socket allows.
    WouldBlock,
    /// They never will.
    Fault(Fault),
}

impl Failure {
    /// What an error means, counted under the first if it would block and under the second if not.
    fn count(error: &io::Error, [blocked, failed]: [Counter; 2], tally: Tally<'_>) -> Self {
        if error.kind() == io::ErrorKind::WouldBlock {
            tally.add(blocked, 1);
            Self::WouldBlock
        } else {
            tally.add(failed, 1);
            Self::Fault(fault(error))
        }
    }
}

/// Accepts one connection, with one call.
///
/// # Errors
/// What the failure asks of the caller.
pub fn accept(
    listener: &OwnedFd,
    mode: Mode,
    tally: Tally<'_>,
) -> Result<(Connection, SocketAddr), AcceptFault> {
    tally.add(Counter::AcceptCalls, 1);
    let accepted = socket::accept(listener.as_fd(), mode);
    let accepted = accepted.map_err(|error| socket::accept_fault(&error));
    tally.add(
        match accepted {
            Ok(_) => Counter::AcceptOk,
            Err(AcceptFault::WouldBlock | AcceptFault::Closed) => Counter::AcceptWouldBlock,
            Err(AcceptFault::Exhausted) => Counter::AcceptEmfilePauses,
            Err(AcceptFault::Aborted | AcceptFault::Other(_)) => Counter::AcceptFaults,
        },
        1,
    );
    accepted
}

/// Receives what is there into `buffer`, without waiting whatever the mode of the socket: a
/// spurious event must not block a loop.
///
/// # Errors
/// Nothing is there, or the connection failed.
#[inline]
pub fn recv(socket: &Connection, buffer: &mut [u8], tally: Tally<'_>) -> Result<usize, Failure> {
    received(regatta_sys::recv_now(socket.as_fd(), buffer), tally)
}

/// Receives into `buffer` from a socket that blocks: waits for as long as that allows.
///
/// # Errors
/// Nothing has come, or the connection failed.
pub fn recv_waiting(
    socket: &Connection,
    buffer: &mut [u8],
    tally: Tally<'_>,
) -> Result<usize, Failure> {
    received(regatta_sys::recv(socket.as_fd(), buffer), tally)
}

#[inline]
fn received(result: io::Result<usize>, tally: Tally<'_>) -> Result<usize, Failure> {
    tally.add(Counter::RecvCalls, 1);
    match result {
        Ok(n) => {
            tally.add(Counter::RecvBytes, n as u64);
            Ok(n)
        }
        Err(error) => {
            Err(Failure::count(&error, [Counter::RecvWouldBlock, Counter::RecvFaults], tally))
        }
    }
}

/// Sends from the front of an outbox, with one call that takes bytes; of a file at most
/// `bytes_max`. The time that a file takes is entered in `spent`.
///
/// # Errors
/// The socket takes nothing, or the connection failed.
#[inline(always)]
pub fn send(
    socket: &Connection,
    outbox: &mut Outbox<StaticFile>,
    bytes_max: u64,
    spent: &mut Spent,
    tally: Tally<'_>,
) -> Result<u64, Failure> {
    let at_file = outbox.at_file();
    let result = if at_file {
        timed(&mut spent.send, || regatta_sys::send(socket.as_fd(), outbox, bytes_max))
    } else {
        regatta_sys::send(socket.as_fd(), outbox, bytes_max)
    };
    match result {
        Ok(sent) => {
            let (calls, bytes) = match sent.call {
                SendCall::Send | SendCall::SendMsg => (Counter::SendCalls, Counter::SendBytes),
                SendCall::SendFile => (Counter::SendfileCalls, Counter::SendfileBytes),
            };
            tally.add(calls, 1);
            tally.add(bytes, sent.bytes);
            Ok(sent.bytes)
        }
        Err(error) => {
            let full = if at_file { Counter::SendfileWouldBlock } else { Counter::SendWouldBlock };
            Err(Failure::count(&error, [full, Counter::SendFaults], tally))
        }
    }
}

/// Half-closes a connection.
pub fn shut(socket: &Connection) {
    // A socket that is gone already cannot be shut, and need not be.
    let _ = socket::shutdown_write(socket.as_fd());
}

/// Where names are opened: below a root.
#[derive(Clone, Copy, Debug)]
pub struct Below<'a> {
    /// What is served.
    pub root: &'a Root,
    /// How paths below it are resolved.
    pub rules: OpenRules,
}

impl Below<'_> {
    /// Opens a path, and the siblings asked for.
    pub fn open(self, req: &OpenReq) -> OpenResult {
        open_below(self.root, req, self.rules)
    }
}

/// Runs `call` and adds the nanoseconds it took to `spent`.
#[inline]
pub fn timed<T>(spent: &mut u64, call: impl FnOnce() -> T) -> T {
    let started = clock::nanos();
    let result = call();
    *spent += clock::nanos() - started;
    result
}
