//! The life of a user thread: accept, receive, answer, close, in the order in which a program says
//! so. Whatever would block suspends it there.
use super::{
    Wake,
    state::{Next, State},
};
use crate::drive::{Turn, perform};
use regatta_op::{Done, Op, ReadReq, Ticket};
use regatta_sys::{StaticFile, fiber::Turns, wait::Poller};
use std::{
    cell::RefCell,
    thread::{self, ThreadId},
};

/// A user thread. It borrows what it has in common with others only between two waits.
pub(super) struct Thread<'t, 's, 'y, 'a, P> {
    /// Number of the user thread.
    pub(super) at: usize,
    pub(super) state: &'s RefCell<State<'a, P>>,
    pub(super) turns: &'t Turns<'y, Wake, ()>,
    /// The kernel thread in which it began.
    pub(super) home: ThreadId,
}

/// The server ends: so does the user thread, whatever it is doing.
struct Leaves;

impl<P: Poller> Thread<'_, '_, '_, '_, P> {
    /// From its first run to its last.
    pub(super) fn live(&self, first: Wake) {
        if first == Wake::Go {
            let Err(Leaves) = self.serve();
        }
    }

    /// Serves one connection after another.
    fn serve(&self) -> Result<std::convert::Infallible, Leaves> {
        loop {
            let key = self.accept()?;
            self.converse(key)?;
        }
    }

    fn accept(&self) -> Result<u64, Leaves> {
        loop {
            // Directly first: a thread that has just closed a connection overtakes those that wait.
            if let Some(key) = self.with(|state| state.accept(self.at)) {
                return Ok(key);
            }
            self.suspend()?;
        }
    }

    /// Serves one connection until it is closed, by this thread or by the scheduler.
    fn converse(&self, mut key: u64) -> Result<(), Leaves> {
        loop {
            match self.with(|state| state.next(key)) {
                Next::Gone => return Ok(()),
                Next::Transfer => self.transfer(key)?,
                Next::SendInHelper => key = self.send_in_helper(key)?,
                Next::Op(Op::Open(ticket, req)) => {
                    self.with(|state| state.begins_on_disk(key, ticket));
                    self.yields(key)?;
                    self.with(|state| state.open(key, ticket, &req));
                }
                Next::Op(Op::Read(ticket, req)) => self.read(key, ticket, req)?,
                Next::Op(Op::Stat(ticket, file)) => {
                    // The inode of an open file is in memory: no disk is waited for here.
                    let facts = perform::stat(&file);
                    self.with(|state| state.complete(key, Done::Stat(ticket, facts)));
                }
                Next::Op(Op::Close(reason)) => {
                    self.yields(key)?;
                    self.with(|state| state.close(key, reason));
                    return Ok(());
                }
                Next::Op(_) => self.with(|state| state.shut(key)),
            }
        }
    }

    /// Receives or sends, or waits until this thread or the scheduler can.
    fn transfer(&self, key: u64) -> Result<(), Leaves> {
        let (blocked, is_over) = self.with(|state| (state.attempt(key), state.has_shaken_hands()));
        self.release_stack(is_over);
        blocked.map_or(Ok(()), |turn| self.wait(key, turn))
    }

    /// Reads, in a helper if there are any.
    fn read(&self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Result<(), Leaves> {
        self.with(|state| state.read(key, ticket, req));
        while self.with(|state| state.is_pending(key)) {
            self.wait(key, Turn::Parked)?;
        }
        Ok(())
    }

    /// Lends the connection to a helper, which sends, and says under which key it is back.
    fn send_in_helper(&self, key: u64) -> Result<u64, Leaves> {
        if let Some(turn) = self.with(|state| state.lend(key)) {
            self.wait(key, turn)?;
            return Ok(key);
        }
        loop {
            if let Some(key) = self.with(|state| state.given(self.at)) {
                return Ok(key);
            }
            self.suspend()?;
        }
    }

    /// Lets others go first, as Capriccio does around `open` and `close`.
    fn yields(&self, key: u64) -> Result<(), Leaves> {
        if !self.with(|state| state.yields(self.at, key)) {
            return Ok(());
        }
        self.suspend()?;
        self.with(|state| state.begin(key));
        Ok(())
    }

    /// Ends the turn, and waits for another.
    fn wait(&self, key: u64, turn: Turn) -> Result<(), Leaves> {
        if self.with(|state| state.waits(key, turn)) {
            self.suspend()?;
            let is_over = self.with(|state| state.begin(key));
            self.release_stack(is_over);
        }
        Ok(())
    }

    /// Releases the stack if a handshake `is_over`: that goes deeper than anything that follows.
    fn release_stack(&self, is_over: bool) {
        if is_over {
            self.turns.release_stack();
        }
    }

    fn suspend(&self) -> Result<(), Leaves> {
        let wake = self.turns.wait(());
        debug_assert_eq!(self.home, thread::current().id(), "a user thread stays where it is");
        match wake {
            Wake::Go => Ok(()),
            Wake::Leave => Err(Leaves),
        }
    }

    /// Does something with what all have in common, in which it cannot be suspended.
    fn with<R>(&self, what: impl FnOnce(&mut State<'_, P>) -> R) -> R {
        what(&mut self.state.borrow_mut())
    }
}
