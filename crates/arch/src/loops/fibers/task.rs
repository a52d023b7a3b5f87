//! Tasks that user threads give to helpers, and the state that a worker keeps of their connections.
use crate::{
    conn::worker::{ConnSlot, Passed},
    drive::{
        Turn, film,
        perform::{self, SendBy, TransferFailure},
    },
};
use regatta_metrics::{FilmEvent, FilmSubject, Tally};
use regatta_op::{Abandoned, Op, OpKind, Outbox, ReadReq, Ticket};
use regatta_sys::{Read, StaticFile, clock, wait::Interest};

/// Whether a connection waits to shake hands, or may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shake {
    /// Neither.
    #[default]
    Apart,
    /// Among those that wait.
    Waits,
    /// Has waited, and may at its next attempt.
    May,
}

/// State of a connection that a user thread serves.
#[derive(Debug)]
pub struct Fibered {
    /// The user thread that serves it.
    pub(super) thread: usize,
    /// Interest that the poller has been asked for; `None` while it does not watch the socket.
    pub(super) interest: Option<Interest>,
    /// A `Recv` that has been offered and not performed.
    pub(super) recv: bool,
    /// A `Send` that has been offered and not finished.
    pub(super) send: Option<Outbox<StaticFile>>,
    /// An operation that the scheduler was offered, for the user thread to perform.
    pub(super) next: Option<Box<Op<StaticFile>>>,
    /// The poller has said that there is something to receive, or it is not known.
    pub(super) readable: bool,
    /// The poller has said that the socket takes bytes, and nothing has been sent since.
    pub(super) writable: bool,
    /// The scheduler has ended its handshake, and its user thread has not run since.
    pub(super) shaken: bool,
    /// Whether it waits to shake hands, or may.
    pub(super) shake: Shake,
    /// Number and ticket of the operation that the disk has, while one is pending.
    pub(super) task: u64,
    pub(super) ticket: Ticket,
    /// [`Desk::held_ms`](crate::conn::worker::Desk::held_ms) when something was sent last, or the
    /// connection's deadline was set.
    pub(super) held_ms: u32,
}

impl Fibered {
    pub(super) const fn new(thread: usize, held_ms: u32) -> Self {
        Self {
            thread,
            interest: None,
            recv: false,
            send: None,
            next: None,
            readable: true,
            writable: false,
            shaken: false,
            shake: Shake::Apart,
            task: 0,
            ticket: Ticket(0),
            held_ms,
        }
    }

    /// True if the rest of its `Send` is in a file.
    pub(super) fn sends_file(&self) -> bool {
        self.send.as_ref().is_some_and(Outbox::at_file)
    }

    /// Returns what to wait for when nothing more can be done.
    pub(super) const fn blocked(&self) -> Turn {
        match (self.recv, self.send.is_some()) {
            (false, false) => Turn::Parked,
            (read, write) => Turn::Wait(Interest { read, write }),
        }
    }
}

/// Forgets operations that the connection has given up. The disk has one of them at most; another
/// may not have been performed yet.
pub(super) fn forget(slot: &mut ConnSlot<Fibered>, what: Abandoned) {
    let drive = &mut slot.drive;
    match what {
        Abandoned::All => {
            (drive.recv, drive.send, drive.next) = (false, None, None);
            slot.pending = 0;
        }
        Abandoned::One(ticket) => {
            drop(drive.next.take_if(|op| has_ticket(op, ticket)));
            if drive.ticket == ticket {
                slot.pending = 0;
            }
        }
    }
}

/// True if it is the operation of the disk with this ticket.
const fn has_ticket(op: &Op<StaticFile>, ticket: Ticket) -> bool {
    matches!(op, Op::Open(of, _) | Op::Read(of, _) | Op::Stat(of, _) if of.0 == ticket.0)
}

/// Work for a helper.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be allocated for every reply")]
pub enum FiberTask {
    /// Read into memory, for the operation of this number.
    Read {
        /// Connection of the operation.
        key: u64,
        /// Number of the task among all.
        number: u64,
        /// Ticket of the operation.
        ticket: Ticket,
        /// Range to read.
        req: ReadReq<StaticFile>,
        /// The connection, for a film.
        subject: FilmSubject,
    },
    /// Send on the socket of a connection that has been lent.
    Send {
        /// The connection.
        passed: Passed,
        /// State that the worker keeps of it.
        drive: Fibered,
        /// Bytes to send.
        outbox: Outbox<StaticFile>,
        /// Begin of its wait for a helper, by the precise clock.
        since: u64,
    },
}

/// Work that a helper has done.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "as a task")]
pub enum Completed {
    /// [`Task::Read`]
    Read {
        /// Connection of the operation.
        key: u64,
        /// Number of the task.
        number: u64,
        /// Ticket of the operation.
        ticket: Ticket,
        /// The result.
        read: Read,
    },
    /// [`Task::Send`]
    Send {
        /// The connection.
        passed: Passed,
        /// State that the worker keeps of it.
        drive: Fibered,
        /// Rest of what was to be sent.
        outbox: Outbox<StaticFile>,
        /// Time that it waited for a helper, milliseconds.
        waited_ms: u64,
        /// Bytes that the socket has taken.
        sent: Result<u64, TransferFailure>,
    },
}

/// Runs a task in a helper, which sends in the way `by`.
pub fn run_task(task: FiberTask, by: SendBy, tally: Tally<'_>) -> Completed {
    let (subject, kind) = match &task {
        FiberTask::Read { subject, .. } => (*subject, OpKind::Read),
        FiberTask::Send { passed, .. } => (passed.subject(), OpKind::Send),
    };
    let filmed = |event: fn(OpKind) -> FilmEvent| {
        if film::is_on(tally) {
            film::write(tally, subject, event(kind));
        }
    };
    filmed(FilmEvent::HelperBegins);
    let done = match task {
        FiberTask::Read { key, number, ticket, req, .. } => {
            Completed::Read { key, number, ticket, read: perform::read(req) }
        }
        FiberTask::Send { passed, drive, mut outbox, since } => {
            let waited_ms = clock::nanos().saturating_sub(since) / 1_000_000;
            let sent = perform::send_in_helper(passed.socket(), &mut outbox, by, tally);
            Completed::Send { passed, drive, outbox, waited_ms, sent }
        }
    };
    filmed(FilmEvent::HelperEnds);
    done
}
