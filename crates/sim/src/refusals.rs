//! Makes the core turn requests away, as an overloaded server does.
use crate::{
    dice::Dice,
    disk::SimFile,
    link::Link,
    trace::{self, Event, Stamp},
};
use regatta_op::{Now, Op};
use regatta_origin::{Cx, Protocol as _};

/// Decides which requests are turned away.
#[derive(Debug)]
pub(crate) struct Refusals {
    /// `None` in most schedules.
    dice: Option<Dice>,
}

impl Refusals {
    /// Makes the decisions of a schedule, with dice of its own.
    pub(crate) fn new(dice: &Dice) -> Self {
        let mut dice = dice.apart(0x4ef0_5ed0_0000_0000);
        Self { dice: dice.one_in(6).then_some(dice) }
    }

    /// Occasionally turns a request away: the one that waits for the disk, or the next. Returns
    /// whether the current operation was given up for it.
    pub(crate) fn turn_away(
        &mut self,
        link: &mut Link,
        at: Stamp,
        now: Now,
        cx: &Cx<'_, SimFile>,
    ) -> bool {
        let (Some(parked), Some(conn)) = (&link.parked, &mut link.conn) else { return false };
        let meant = matches!(parked.op, Op::Recv | Op::Open(..) | Op::Read(..));
        if !meant || !self.dice.as_mut().is_some_and(|dice| dice.one_in(8)) {
            return false;
        }
        conn.turn_away(now, cx);
        conn.check_invariants();
        let dropped = conn.abandoned().is_some();
        trace::push(at, link.number, Event::TurnedAway { dropped });
        if dropped {
            link.parked = None;
        }
        let next = link.reader.count;
        let greeted = link.seal.as_ref().is_none_or(|seal| seal.greets(link.wire_received));
        let has_head =
            link.requests.get(next).is_some_and(|asked| asked.head_end <= link.delivered());
        if dropped || greeted && !has_head && !link.terminal {
            link.refused = Some(next);
        }
        dropped
    }
}
