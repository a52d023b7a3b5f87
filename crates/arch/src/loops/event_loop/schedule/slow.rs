//! A disk that holds its loop up: while it works time passes, and the peers do all that they can.
use super::world::Stage;
use crate::{
    disk::at_once::{Completion, Disk},
    testing::dice::Dice,
};
use regatta_op::{Abandoned, OpenReq, Outbox, ReadReq, Ticket};
use regatta_sys::{OpenResult, Read, StaticFile};
use std::{os::fd::BorrowedFd, time::Duration};

/// Distinguishes the seed of its dice.
const SLOW_STREAM: u64 = 0x736c_6f77;
/// The longest time of one operation, ms: longer than any window of [`super::site`].
const MS_MAX: usize = 8_000;

/// A disk that is slow now and then.
pub(super) struct Slow<'s, 'a, 'd> {
    disk: Box<dyn Disk + 'd>,
    stage: &'s Stage<'a>,
    dice: Dice,
}

impl<'s, 'a, 'd> Slow<'s, 'a, 'd> {
    /// The disk of loop `me` in the schedule of this seed.
    pub(super) fn new(
        disk: Box<dyn Disk + 'd>,
        stage: &'s Stage<'a>,
        me: usize,
        seed: u64,
    ) -> Self {
        Self { disk, stage, dice: Dice::new(seed ^ SLOW_STREAM ^ me as u64) }
    }

    fn hold_up(&mut self) {
        if self.dice.once_in(3) {
            let ms = self.dice.below(MS_MAX) as u64;
            self.stage.world().hold_up(ms, &mut self.dice);
        }
    }
}

impl Disk for Slow<'_, '_, '_> {
    fn open(&mut self, key: u64, ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        self.hold_up();
        self.disk.open(key, ticket, req)
    }

    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        self.hold_up();
        self.disk.read(key, ticket, req)
    }

    fn prefetch(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64> {
        self.disk.prefetch(key, outbox)
    }

    fn sent(&mut self, ns: u64) {
        self.disk.sent(ns);
    }

    fn forget(&mut self, key: u64, what: Abandoned) {
        self.disk.forget(key, what);
    }

    fn renew_root(&mut self) {
        self.disk.renew_root();
    }

    fn source(&self) -> Option<BorrowedFd<'_>> {
        self.disk.source()
    }

    fn due_in(&self) -> Option<Duration> {
        self.disk.due_in()
    }

    fn next_completion(&mut self) -> Option<Completion> {
        self.disk.next_completion()
    }
}
