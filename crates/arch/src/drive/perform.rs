//! Performs operations as system calls and counts them: in one place for every architecture, so
//! that the costs of replies can be compared.
//!
//! The core counts opened paths and read ranges, whichever part performs them.
use super::ledger::Spent;
use regatta_metrics::{Counter, Tally};
use regatta_op::{Fault, OpenReq, Outbox};
use regatta_sys::{
    Map, OpenResult, OpenRules, Root, SendCall, StaticFile, clock, fault, open_below,
    socket::{self, AcceptFault, Connection, Mode},
    wait::{Interest, ready_within},
};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

pub use regatta_sys::{fstat as stat, read_range as read};

/// Reason why no bytes moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferFailure {
    /// The bytes would have to wait for the peer, or have waited for as long as the socket allows.
    WouldBlock,
    /// The connection failed; the bytes never move.
    Fault(Fault),
}

impl TransferFailure {
    /// Classifies an error; counts it by the first counter if it would block, else by the second.
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
/// The response that the failure requires of the caller.
pub fn accept(
    listener: &OwnedFd,
    mode: Mode,
    tally: Tally<'_>,
) -> Result<(Connection, Option<SocketAddr>), AcceptFault> {
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

/// Receives what is there into `buffer`. Never waits, whatever the mode of the socket: a spurious
/// event must not block a loop.
///
/// # Errors
/// Nothing is there, or the connection failed.
#[inline]
pub fn recv(
    socket: &Connection,
    buffer: &mut [u8],
    tally: Tally<'_>,
) -> Result<usize, TransferFailure> {
    received(regatta_sys::recv_now(socket.as_fd(), buffer), tally)
}

/// Receives into `buffer` from a blocking socket; waits for as long as its timeout allows.
///
/// # Errors
/// Nothing arrived, or the connection failed.
pub fn recv_waiting(
    socket: &Connection,
    buffer: &mut [u8],
    tally: Tally<'_>,
) -> Result<usize, TransferFailure> {
    received(regatta_sys::recv(socket.as_fd(), buffer), tally)
}

/// Counts a receive, whichever part performed it.
///
/// # Errors
/// Nothing arrived, or the connection failed.
#[inline]
pub fn received(result: io::Result<usize>, tally: Tally<'_>) -> Result<usize, TransferFailure> {
    tally.add(Counter::RecvCalls, 1);
    match result {
        Ok(n) => {
            tally.add(Counter::RecvBytes, n as u64);
            Ok(n)
        }
        Err(error) => Err(TransferFailure::count(
            &error,
            [Counter::RecvWouldBlock, Counter::RecvFaults],
            tally,
        )),
    }
}

/// Sends from the front of an outbox, with one call that takes bytes. Sends at most `bytes_max` of
/// a file, and adds the time that a file takes to `spent`.
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
) -> Result<u64, TransferFailure> {
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
            Err(TransferFailure::count(&error, [full, Counter::SendFaults], tally))
        }
    }
}

/// Counts a send from memory that a ring has performed.
///
/// # Errors
/// The connection failed.
pub fn sent(result: io::Result<u64>, tally: Tally<'_>) -> Result<u64, Fault> {
    match result {
        Ok(bytes) => {
            tally.add(Counter::SendCalls, 1);
            tally.add(Counter::SendBytes, bytes);
            Ok(bytes)
        }
        Err(error) => {
            tally.add(Counter::SendFaults, 1);
            Err(fault(&error))
        }
    }
}

/// Sends a mapped file range, and what precedes it, in one call; otherwise as [`send`]. `None`: the
/// file no longer has what is mapped, and nothing was sent. The caller then uses [`send`].
///
/// # Errors
/// Those of [`send`].
pub fn send_mapped(
    socket: &Connection,
    outbox: &mut Outbox<StaticFile>,
    map: &Map,
    bytes_max: u64,
    spent: &mut Spent,
    tally: Tally<'_>,
) -> Result<Option<u64>, TransferFailure> {
    let call = || regatta_sys::send_mapped(socket.as_fd(), outbox, map, bytes_max);
    let sent = timed(&mut spent.send, call).map_err(|error| {
        TransferFailure::count(&error, [Counter::SendWouldBlock, Counter::SendFaults], tally)
    })?;
    if let Some(bytes) = sent {
        tally.add(Counter::SendCalls, 1);
        tally.add(Counter::SendBytes, bytes);
    }
    Ok(sent)
}

/// Way in which a helper sends a file, where a wait does not hold up other user threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendBy {
    /// With one call, after the poller has reported room ([E] §4.2, the first design).
    PollFirst,
    /// With one call. If the socket takes nothing, with another when `poll` reports room or after
    /// this time ([E] §4.2, the second design).
    TryFirst(Duration),
    /// With one call in blocking mode. The call lasts until the peer has room for everything or, by
    /// [`socket::set_timeouts`], takes nothing for too long ([E] §4.3).
    Blocking,
}

/// Sends all that the file has, in a helper. The socket is nonblocking outside this call.
///
/// # Errors
/// Those of [`send`].
pub fn send_in_helper(
    socket: &Connection,
    outbox: &mut Outbox<StaticFile>,
    by: SendBy,
    tally: Tally<'_>,
) -> Result<u64, TransferFailure> {
    let mut spent = Spent::default();
    let (mut took, mut send) = (0, || send(socket, outbox, u64::MAX, &mut spent, tally));
    let sent = timed(&mut took, || match by {
        SendBy::PollFirst => send(),
        SendBy::TryFirst(patience) => match send() {
            Err(TransferFailure::WouldBlock) => {
                wait_for_room(socket, patience, tally);
                send()
            }
            sent => sent,
        },
        SendBy::Blocking => {
            let set = |mode| socket::set_mode(socket, mode);
            set(Mode::Blocking).map_err(|error| TransferFailure::Fault(fault(&error)))?;
            let sent = send();
            set(Mode::Nonblocking).map_err(|error| TransferFailure::Fault(fault(&error)))?;
            sent
        }
    });
    spent.count(tally);
    tally.add(Counter::HelperTasksSend, 1);
    tally.add(Counter::HelperSendNs, took);
    sent
}

/// Waits until the socket takes bytes, at most for `patience`.
fn wait_for_room(socket: &Connection, patience: Duration, tally: Tally<'_>) {
    tally.add(Counter::HelperPolls, 1);
    let event = ready_within(socket.as_fd(), Interest::WRITE, patience);
    // A signal ends the wait early: the send then finds out.
    if event.is_ok_and(|event| !event.writable) {
        tally.add(Counter::HelperPollsTimedOut, 1);
    }
}

/// Half-closes a connection.
pub fn shut(socket: &Connection) {
    // A socket that is gone already cannot be shut, and need not be.
    let _ = socket::shutdown_write(socket.as_fd());
}

/// Root and rules by which names are opened.
#[derive(Clone, Copy, Debug)]
pub struct Below<'a> {
    /// Directory that is served.
    pub root: &'a Root,
    /// Rules for resolving paths below `root`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::at_once::schedule::Folder;
    use regatta_op::Segment;
    use regatta_sys::socket::{ListenSpec, listen, local_addr, set_timeouts};
    use regatta_testkit::counters::arena;
    use std::{io::Read, net::TcpStream, thread, time::Instant};

    /// Repeats the last file of a folder `times` times, enough to fill any socket.
    fn outbox(folder: &Folder, times: u64) -> (Outbox<StaticFile>, u64) {
        let (file, len) = folder.longest();
        let mut outbox = Outbox::default();
        for _ in 0..times {
            outbox.push(Segment::File { file: file.clone(), at: 0, len });
        }
        (outbox, times * len)
    }

    /// A connection whose peer reads nothing, full to the brim, with more to send.
    struct Full {
        peer: TcpStream,
        socket: Connection,
        outbox: Outbox<StaticFile>,
        /// Bytes that the peer has not read.
        sent: u64,
        _folder: Folder,
    }

    impl Full {
        fn new(tally: Tally<'_>) -> Self {
            let folder = Folder::new();
            let listener = listen(&ListenSpec::new("127.0.0.1:0".parse().unwrap())).unwrap();
            let peer = TcpStream::connect(local_addr(listener.as_fd()).unwrap()).unwrap();
            let (socket, _) = accept(&listener, Mode::Nonblocking, tally).unwrap();
            let (mut outbox, all) = outbox(&folder, 2000);
            let (mut sent, mut before) = (0, u64::MAX);
            // Buffers grow for a while.
            while sent != before {
                before = sent;
                let mut spent = Spent::default();
                while let Ok(bytes) = send(&socket, &mut outbox, u64::MAX, &mut spent, tally) {
                    sent += bytes;
                }
                thread::sleep(Duration::from_millis(50));
            }
            assert!(sent > 0 && sent < all);
            Self { peer, socket, outbox, sent, _folder: folder }
        }

        /// Sends in a helper that waits for at most `patience`. Returns the result and the time.
        fn send(
            &mut self,
            by: fn(Duration) -> SendBy,
            patience: Duration,
            tally: Tally<'_>,
        ) -> (Result<u64, TransferFailure>, Duration) {
            set_timeouts(self.socket.as_fd(), None, Some(patience)).unwrap();
            let since = Instant::now();
            let sent = send_in_helper(&self.socket, &mut self.outbox, by(patience), tally);
            (sent, since.elapsed())
        }
    }

    #[test]
    fn a_helper_that_polls_first_does_not_wait_in_its_send() {
        let arena = arena(1);
        let tally = Tally::Owned(arena.slot(0));
        let mut full = Full::new(tally);
        let patience = Duration::from_secs(30);
        let (nothing, took) = full.send(|_| SendBy::PollFirst, patience, tally);
        assert_eq!(nothing, Err(TransferFailure::WouldBlock));
        assert!(took < patience / 3, "{took:?}");
        let get = |counter| arena.slot(0).get(counter);
        let counters = [Counter::HelperTasksSend, Counter::HelperPolls];
        assert_eq!(counters.map(get), [1, 0]);
    }

    #[test]
    fn a_helper_waits_in_its_send_as_it_is_told() {
        for (by, polls) in
            [(SendBy::TryFirst as fn(Duration) -> SendBy, [2, 1]), (|_| SendBy::Blocking, [0, 0])]
        {
            let arena = arena(1);
            let tally = Tally::Owned(arena.slot(0));
            let mut full = Full::new(tally);
            let (nothing, took) = full.send(by, Duration::from_millis(300), tally);
            assert_eq!(nothing, Err(TransferFailure::WouldBlock), "{polls:?}");
            assert!(took >= Duration::from_millis(250), "{polls:?}: {took:?}");

            let get = |counter| arena.slot(0).get(counter);
            let (mut peer, sent) = (full.peer.try_clone().unwrap(), full.sent);
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(100));
                    // A helper that polls has found no room by then.
                    while get(Counter::HelperPolls) < polls[0] {
                        thread::sleep(Duration::from_millis(1));
                    }
                    peer.read_exact(&mut vec![0; usize::try_from(sent).unwrap()]).unwrap();
                });
                let (some, _) = full.send(by, Duration::from_secs(30), tally);
                assert!(some.is_ok_and(|bytes| bytes > 0), "{polls:?}: {some:?}");
            });
            assert_eq!(get(Counter::HelperTasksSend), 2);
            assert!(get(Counter::HelperSendNs) > 250_000_000);
            assert_eq!([Counter::HelperPolls, Counter::HelperPollsTimedOut].map(get), polls);
        }
    }
}
