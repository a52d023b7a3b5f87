//! The closed model: a fixed number of connections, each of which waits for its reply.

use super::core::{Broken, ConnId, Core, Order};
use super::exchange::Reply;
use super::fate::Fate;
use super::plan::Plan;
use super::play::Play;
use super::timers::Alarm;
use crate::number::{id, index, nanos};
use std::time::Duration;

/// One thread's part of a closed model.
#[derive(Debug)]
pub(super) struct Closed {
    slots: Vec<Option<ConnId>>,
    /// Place in the plan's order, which all threads walk together.
    next: u64,
    step: u64,
    worker: u64,
    think_ns: u64,
    left: Option<u64>,
}

/// Time before a connection that could not be made is tried again.
const RETRY_NS: u64 = 10_000_000;
/// Time between the first connects of one thread: a listener's queue is short.
const STAGGER_NS: u64 = 20_000;

impl Closed {
    pub(super) fn new(plan: &Plan, worker: u32, connections: u32, think: Duration) -> Self {
        let (worker, workers) = (u64::from(worker), u64::from(plan.workers));
        let share = |whole: u64| whole / workers + u64::from(worker < whole % workers);
        Self {
            slots: vec![None; index(share(connections.into()))],
            next: worker,
            step: workers,
            worker,
            think_ns: nanos(think),
            left: plan.options.count.map(share),
        }
    }

    /// The next request of a slot, after its think time.
    #[inline]
    fn next(&mut self, core: &mut Core<'_>, slot: u32) {
        if self.think_ns > 0 {
            let due = core.now.saturating_add(self.think_ns);
            core.timers.set(due, Alarm::Play(slot.into()));
        } else {
            self.issue(core, slot, core.now);
        }
    }

    #[inline]
    fn issue(&mut self, core: &mut Core<'_>, slot: u32, due: u64) {
        if core.ending || self.left == Some(0) {
            return;
        }
        self.left = self.left.map(|left| left - 1);
        let order = &core.plan.order;
        let target = order[index(self.next % order.len() as u64)];
        self.next += self.step;
        core.offer(due);
        let number = self.worker + u64::from(slot) * self.step;
        let client = id(index(number % u64::from(core.plan.clients)));
        self.send(core, slot, Order { target, client, due, tries: 0 });
    }

    #[inline]
    fn send(&mut self, core: &mut Core<'_>, slot: u32, order: Order) {
        let at = index(slot.into());
        let conn = match self.slots[at] {
            Some(conn) => conn,
            None => match core.open(slot, 0) {
                Ok(conn) => {
                    self.slots[at] = Some(conn);
                    conn
                }
                Err(fate) => {
                    core.lose(order, fate);
                    core.timers.set(core.now + RETRY_NS, Alarm::Play(slot.into()));
                    return;
                }
            },
        };
        core.request(conn, order);
    }
}

impl Play for Closed {
    fn begin(&mut self, core: &mut Core<'_>) {
        for slot in 0..id(self.slots.len()) {
            if slot < 64 {
                self.issue(core, slot, core.now);
            } else {
                let at = core.now + u64::from(slot) * STAGGER_NS;
                core.timers.set(at, Alarm::Play(slot.into()));
            }
        }
    }

    fn alarm(&mut self, core: &mut Core<'_>, payload: u64, due: u64) {
        if self.think_ns > 0 {
            core.lag(due);
        }
        self.issue(core, u32::try_from(payload).unwrap_or(0), due);
    }

    #[inline]
    fn reply(&mut self, core: &mut Core<'_>, conn: ConnId, reply: Reply) {
        if !reply.keep {
            core.close(conn);
            self.slots[index(reply.owner.into())] = None;
        }
        self.next(core, reply.owner);
    }

    fn broken(&mut self, core: &mut Core<'_>, _conn: ConnId, broken: Broken) {
        let slot = broken.owner;
        self.slots[index(slot.into())] = None;
        for order in broken.again {
            self.send(core, slot, order);
        }
        if broken.lost == 0 {
            return;
        }
        if matches!(broken.fate, Fate::Refused | Fate::Other) {
            core.timers.set(core.now + RETRY_NS, Alarm::Play(slot.into()));
        } else {
            self.next(core, slot);
        }
    }

    fn is_done(&self, core: &Core<'_>) -> bool {
        self.slots.is_empty() || self.left == Some(0) && core.in_flight == 0
    }
}
