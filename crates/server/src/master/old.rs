//! Workers of an earlier image of the master: they serve until they are told to leave.
use super::{Child, KEEPER_LEAVE_MS_MAX, LEAVE_MS_MAX, image::take, signal};
use crate::{
    handover::{HandoverError, OldChild, OldGeneration},
    heartbeat::is_recent,
};
use regatta_metrics::{OldArena, Phase};
use regatta_op::Tick;
use regatta_sys::{Bell, shm::SharedWords};
use std::{
    ops::Range,
    os::fd::{AsFd, BorrowedFd, RawFd},
};

/// The workers of one generation.
#[derive(Debug)]
pub(super) struct Old {
    pub(super) number: u64,
    words: SharedWords,
    pub(super) arena: OldArena<'static>,
    keeper: bool,
    pub(super) children: Vec<Option<(Child, Range<usize>)>>,
    pub(super) bells: Vec<Bell>,
    pub(super) drains_until: Option<Tick>,
    pub(super) kill_at: Tick,
}

impl Old {
    /// Takes over a generation from the image before: its own, or an older one.
    pub(super) fn adopt(of: OldGeneration) -> Result<Self, HandoverError> {
        let number = of.number;
        let words = SharedWords::adopt(take(of.arena)?)
            .map_err(|error| HandoverError::Map(number, error))?;
        let arena = OldArena::attach(words.words())
            .map_err(|error| HandoverError::Counters(number, error))?;
        let (mut children, mut bells) = (Vec::new(), Vec::new());
        for OldChild { pid, fd, from, to } in of.children {
            let child = Child::adopt(pid, take(fd)?).ok_or(HandoverError::NoProcess)?;
            let slots = from.min(arena.slots())..to.min(arena.slots());
            children.push(Some((child, slots)));
        }
        for bell in of.bells {
            bells.push(Bell::adopt(take(bell)?));
        }
        let (keeper, kill_at) = (of.keeper, Tick::NEVER);
        let mut this =
            Self { number, words, arena, keeper, children, bells, drains_until: None, kill_at };
        if let Some(until) = of.drains_until {
            this.note_end(Tick(until));
        }
        Ok(this)
    }

    /// Makes the record that the next image adopts. `number` gives the number of a descriptor.
    pub(super) fn hand_over<'a>(
        &'a self,
        number: &mut dyn FnMut(BorrowedFd<'a>) -> RawFd,
    ) -> OldGeneration {
        let children = self.children.iter().flatten();
        OldGeneration {
            number: self.number,
            arena: number(self.words.as_fd()),
            keeper: self.keeper,
            drains_until: self.drains_until.map(|until| until.0),
            children: children
                .map(|(child, slots)| OldChild::new(child.pid(), number(child.as_fd()), slots))
                .collect(),
            bells: self.bells.iter().map(|bell| number(bell.as_fd())).collect(),
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.children.iter().all(Option::is_none)
    }

    /// Kills the children that are left, if it is time; true if there were any.
    pub(super) fn kill_if_late(&mut self, now: Tick) -> bool {
        if self.kill_at > now {
            return false;
        }
        self.kill_at = Tick::NEVER;
        for (child, _) in self.children.iter().flatten() {
            // The child may have ended meanwhile.
            let _ = child.kill(signal::Signal::Kill);
        }
        !self.is_gone()
    }

    /// Orders the workers to leave by `until`, unless already ordered. Others accept from the
    /// listeners.
    pub(super) fn leave(&mut self, until: Tick) {
        if self.drains_until.is_none() {
            self.arena.control().leave(until.0);
            self.note_end(until);
        }
    }

    /// Orders the workers to drain by `until`, unless already ordered. No generation follows.
    pub(super) fn drain(&mut self, until: Tick) {
        if self.drains_until.is_none() {
            self.arena.control().drain(until.0);
            self.note_end(until);
        }
    }

    /// Orders the workers to leave at once.
    pub(super) fn stop(&mut self, now: Tick) {
        if self.arena.control().phase() != Phase::Stop {
            self.arena.control().stop();
            self.note_end(now);
        }
    }

    /// Notes that the workers must be gone by `until`, and rings their bells.
    fn note_end(&mut self, until: Tick) {
        let leave_ms_max = if self.keeper { KEEPER_LEAVE_MS_MAX } else { LEAVE_MS_MAX };
        self.drains_until = Some(until);
        self.kill_at = until.after(leave_ms_max);
        self.bells.iter().for_each(Bell::ring);
    }

    /// True if a worker has had a heartbeat recently.
    pub(super) fn answers(&self, now: Tick) -> bool {
        self.arena.heartbeat_ms().is_some_and(|ms| is_recent(ms, now))
    }
}
