//! Schedules of a loop whose sends complete later, in any order.
use super::*;
use crate::{
    disk::at_once::{Completion, Disk, DiskResult, InlineDisk},
    drive::ledger::Spent,
    loops::event_loop::schedule::{
        Case, Setting, Waits, check, check_frames, check_http2, check_sealed, run_all,
    },
    testing::dice::Dice,
};
use regatta_metrics::Counter;
use regatta_op::{Abandoned, OpenReq, Ticket};
use regatta_sys::{
    OpenResult, OpenRules, Read, send,
    wait::{Interest, ready_now},
};
use std::{collections::VecDeque, os::fd::OwnedFd};

/// A disk that performs at once what concerns files, and sends later.
struct LateSends<'a> {
    disk: InlineDisk<'a>,
    dice: Dice,
    bell: Bell,
    /// Sends in flight, with another descriptor of each socket.
    sends: Vec<Late>,
    done: VecDeque<Completion>,
    tally: Tally<'a>,
}

struct Late {
    key: u64,
    socket: OwnedFd,
    outbox: Outbox<StaticFile>,
    bytes_max: u64,
}

impl LateSends<'_> {
    /// Performs some of the sends.
    fn perform(&mut self) {
        let mut waiting = std::mem::take(&mut self.sends);
        while let Some(mut late) = self.dice.take(&mut waiting) {
            let full = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
            if self.dice.once_in(3) {
                self.sends.push(late);
                continue;
            }
            let sent = send(late.socket.as_fd(), &mut late.outbox, late.bytes_max);
            if sent.as_ref().is_err_and(full) {
                self.tally.add(Counter::SendWouldBlock, 1);
                self.sends.push(late);
                continue;
            }
            let sent = perform::sent(sent.map(|sent| sent.bytes), self.tally);
            self.tally.add(Counter::LaioDeferred, 1);
            let result = DiskResult::Sent(late.outbox, sent);
            self.done.push_back(Completion { key: late.key, result, spent: Spent::default() });
        }
    }
}

impl Disk for LateSends<'_> {
    fn open(&mut self, key: u64, ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        self.disk.open(key, ticket, req)
    }

    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        self.disk.read(key, ticket, req)
    }

    fn prefetch(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64> {
        self.disk.prefetch(key, outbox)
    }

    fn wire(&mut self) -> Option<&mut dyn Wire> {
        Some(self)
    }

    fn forget(&mut self, key: u64, what: Abandoned) {
        if what == Abandoned::All {
            self.sends.retain(|late| late.key != key);
            self.done.retain(|done| done.key != key);
        }
    }

    fn source(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn next_completion(&mut self) -> Option<Completion> {
        if self.done.is_empty() {
            self.perform();
        }
        self.done.pop_front()
    }
}

impl Wire for LateSends<'_> {
    fn recv(
        &mut self,
        _: u64,
        socket: &Connection,
        buffer: &mut [u8],
        tally: Tally<'_>,
    ) -> Result<usize, TransferFailure> {
        perform::recv(socket, buffer, tally)
    }

    fn send(
        &mut self,
        key: u64,
        socket: &Connection,
        outbox: Outbox<StaticFile>,
        bytes_max: u64,
    ) -> u64 {
        let socket = socket.as_fd().try_clone_to_owned().unwrap();
        let bytes = outbox.len().min(bytes_max);
        self.sends.push(Late { key, socket, outbox, bytes_max });
        bytes
    }

    fn reap(&mut self) {
        self.perform();
    }

    fn settle(&mut self, key: u64, _: Tally<'_>) -> Option<DiskResult> {
        self.perform();
        let at = self.done.iter().position(|done| done.key == key)?;
        Some(self.done.remove(at)?.result)
    }

    fn has_input(&self, _: u64, socket: &Connection) -> bool {
        ready_now(socket.as_fd(), Interest::READ).is_ok_and(|event| event.readable)
    }
}

#[test]
fn a_loop_whose_sends_complete_later_forgets_none() {
    fn make<'a>(setting: &Setting<'a>) -> Box<dyn Disk + 'a> {
        let &Setting { seed, root, tally, .. } = setting;
        let disk = InlineDisk(Below { root, rules: OpenRules::default() });
        let (dice, bell) = (Dice::new(!seed), Bell::new().unwrap());
        let (sends, done) = (Vec::new(), VecDeque::new());
        Box::new(LateSends { disk, dice, bell, sends, done, tally })
    }
    let test = "a_loop_whose_sends_complete_later_forgets_none";
    // The ring, too, reports a change once.
    let edge = |case| Case { waits: Some(Waits::EpollEdge), ..case };
    check(&run_all(edge(Case::one(test)), &make), 1);
    check_frames(&run_all(edge(Case::frames(test)), &make), 0);
    check_http2(&run_all(edge(Case::http2(test)), &make), 1);
    check_sealed(&run_all(edge(Case { sealed: true, ..Case::one(test) }), &make), 1);
}
