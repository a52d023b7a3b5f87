//! Blocking: a thread that performs every operation of one connection, and waits for it, from
//! accept to close.
//!
//! Calls wait in steps, which the listener names ([`regatta_sys::socket::ListenSpec::wait_max`]):
//! between two of them the thread looks at the time and at what the master wants. So a deadline is
//! met as in any other architecture, and a drain is noticed one step late at most. A thread that
//! is alone in its process also writes its log between two steps: they are of a second at most.
use super::worker::{Accepted, Action, Desk, Slot, Worker};
use crate::drive::{
    Turn,
    ledger::Spent,
    perform::{self, Below, Failure, timed},
};
use regatta_op::{CloseReason, Done, Op};
use regatta_origin::Protocol as _;
use regatta_sys::{StaticFile, socket, wait::Interest};
use std::{io, os::fd::AsFd, thread, time::Duration};

/// A connection that one thread serves.
pub type BlockingSlot = Slot<Blocking>;

/// What a thread keeps of the connection that it serves.
#[derive(Debug)]
pub struct Blocking {
    /// What has waited for one step, and waits on: a `Recv` or a `Send`.
    waits: Option<Op<StaticFile>>,
    /// A step of this connection: shorter than others where its deadline comes before.
    step: Duration,
}

/// What a thread needs to serve.
#[derive(Debug)]
pub struct Means<'a> {
    /// Where names are opened.
    pub below: Below<'a>,
    /// Where received bytes land.
    pub buffer: Box<[u8]>,
    /// The most bytes of a file that one call sends.
    pub bytes_max: u64,
    /// Which of the worker's listeners it accepts from.
    pub listener: usize,
}

/// Serves one connection after another, until the worker is to leave.
///
/// # Errors
/// The listener does not block, or its calls do not end, or the worker accepts when it closes a
/// connection, which a thread does anyway: [`io::ErrorKind::InvalidInput`].
pub fn serve(worker: &mut Worker<'_, Blocking>, means: &mut Means<'_>) -> io::Result<()> {
    let step = socket::wait_max(worker.listeners()[means.listener].as_fd())?;
    let step = step.filter(|_| !worker.accept_rules().on_close);
    let step = step.ok_or(io::ErrorKind::InvalidInput)?;
    while attend(worker) {
        if !worker.is_listening() {
            thread::sleep(worker.patience(step));
        } else if let Ok(accepted) = worker.accept(means.listener, 0) {
            connection(worker, accepted, step, means);
        }
    }
    Ok(())
}

/// Serves a connection that has been accepted.
fn connection(
    worker: &mut Worker<'_, Blocking>,
    accepted: Accepted,
    step: Duration,
    means: &mut Means<'_>,
) {
    // Its time begins now, and not when the thread began to wait for it.
    let _same_root = worker.look();
    let key = worker.admit(accepted, Blocking { waits: None, step });
    loop {
        if let Turn::Closed(reason) = turn(worker, key, step, means) {
            return worker.close(key, reason);
        }
        if !attend(worker) {
            return;
        }
    }
}

/// What a worker does besides: its clocks, deadlines, log, and what the master wants. False if it
/// is to leave.
fn attend(worker: &mut Worker<'_, Blocking>) -> bool {
    let _same_root = worker.look();
    while let Some(action) = worker.next_action() {
        match action {
            Action::Close(key, reason) => worker.close(key, reason),
            Action::Expired(key, Some(_)) => {
                if let Some(slot) = worker.slot(key) {
                    slot.drive.waits = None;
                }
            }
            // Its one connection has a turn anyway.
            _ => {}
        }
    }
    worker.goes_on()
}

/// Receives if there is nothing else to do, and performs what follows until that is so again, or a
/// peer has been waited for.
fn turn(
    worker: &mut Worker<'_, Blocking>,
    key: u64,
    step: Duration,
    means: &mut Means<'_>,
) -> Turn {
    let patience = worker.patience(step);
    let Some((slot, desk)) = worker.turn(key) else { return Turn::Closed(CloseReason::Failed) };
    wait_no_longer(slot, patience, step);
    let received = match &slot.drive.waits {
        Some(Op::Recv) => receive(slot, desk, &mut means.buffer),
        _ => None,
    };
    let begun = desk.begin(slot, received.is_some());
    let mut spent = Spent::default();
    if let Some(done) = received {
        slot.drive.waits = None;
        slot.conn.complete(done, desk.now, &desk.around.cx);
    }
    let turn = advance(slot, desk, means.below, means.bytes_max, &mut spent);
    desk.end(key, slot, begun, turn, &spent, true);
    turn
}

/// Has calls on the socket wait for so long; a longer step is worth a call if it is a whole one.
fn wait_no_longer(slot: &mut BlockingSlot, patience: Duration, step: Duration) {
    let own = slot.drive.step;
    if patience < own || own < step && patience == step {
        // Zero would be for ever.
        let patience = patience.max(Duration::from_millis(1));
        let (recv, send) = (Some(patience), Some(patience));
        if socket::set_timeouts(slot.socket.as_fd(), recv, send).is_ok() {
            slot.drive.step = patience;
        }
    }
}

/// What has come within a step, if anything has.
fn receive<'b>(
    slot: &BlockingSlot,
    desk: &mut Desk<'_>,
    buffer: &'b mut [u8],
) -> Option<Done<'b, StaticFile>> {
    let received = perform::recv_waiting(&slot.socket, buffer, desk.around.cx.tally);
    desk.look();
    match received {
        Ok(n) => Some(Done::Recv(Ok(&buffer[..n]))),
        Err(Failure::Fault(fault)) => Some(Done::Recv(Err(fault))),
        Err(Failure::WouldBlock) => None,
    }
}

/// Performs what the connection asks for until it is to receive, or its peer has not taken all of
/// a response.
fn advance(
    slot: &mut BlockingSlot,
    desk: &mut Desk<'_>,
    below: Below<'_>,
    bytes_max: u64,
    spent: &mut Spent,
) -> Turn {
    loop {
        let op = slot.drive.waits.take().or_else(|| slot.conn.next_op());
        let mut waits = false;
        let done = match op {
            Some(Op::Recv) => {
                slot.drive.waits = op;
                return Turn::Wait(Interest::READ);
            }
            Some(Op::Send(mut outbox)) => {
                let (socket, tally) = (&slot.socket, desk.around.cx.tally);
                let sent = perform::send(socket, &mut outbox, bytes_max, spent, tally);
                desk.look();
                waits = !outbox.is_empty();
                match sent {
                    Ok(bytes) => Done::Send(outbox, Ok(bytes)),
                    Err(Failure::Fault(fault)) => Done::Send(outbox, Err(fault)),
                    Err(Failure::WouldBlock) => {
                        slot.drive.waits = Some(Op::Send(outbox));
                        return Turn::Wait(Interest::WRITE);
                    }
                }
            }
            Some(Op::Open(ticket, req)) => {
                let found = timed(&mut spent.open, || below.open(&req));
                desk.look();
                Done::Open(ticket, found)
            }
            Some(Op::Read(ticket, req)) => {
                let (buffer, read) = timed(&mut spent.read, || perform::read(req));
                desk.look();
                Done::Read(ticket, buffer, read)
            }
            Some(Op::Stat(ticket, file)) => Done::Stat(ticket, perform::stat(&file)),
            Some(Op::Shut) => {
                perform::shut(&slot.socket);
                Done::Shut
            }
            Some(Op::Close(reason)) => return Turn::Closed(reason),
            None => return Turn::Parked,
        };
        slot.conn.complete(done, desk.now, &desk.around.cx);
        if waits {
            return Turn::Wait(Interest::WRITE);
        }
    }
}
