//! The open model: requests arrive on their own, whatever became of those before.

use super::arrivals::{Arrival, Rate};
use super::coming::Coming;
use super::core::{Broken, ConnId, Core, Order};
use super::exchange::Reply;
use super::fate::Fate;
use super::plan::Plan;
use super::play::Play;
use crate::number::index;
use std::collections::VecDeque;

/// Requests that may wait for a connection.
const WAITING_MAX: usize = 1_000_000;

/// One thread's part of an open model.
#[derive(Debug)]
pub(super) struct Open {
    coming: Coming,
    client: u32,
    idle: Vec<ConnId>,
    connections: u64,
    connections_max: u64,
    waiting: VecDeque<Order>,
}

impl Open {
    pub(super) fn new(
        plan: &Plan,
        worker: u32,
        rate: &Rate,
        connections_max: u64,
        start: u64,
    ) -> Self {
        Self {
            coming: Coming::new(plan, worker, Some(rate), start),
            client: worker % plan.clients,
            idle: Vec::new(),
            connections: 0,
            connections_max,
            waiting: VecDeque::new(),
        }
    }

    /// Sends a request on an idle connection, or a new one, or has it wait. One that is made again
    /// takes a new one if it may: a server that ends one idle connection ends others as well.
    #[inline]
    fn dispatch(&mut self, core: &mut Core<'_>, order: Order) {
        let reuses = order.tries == 0 || self.connections >= self.connections_max;
        while reuses && let Some(conn) = self.idle.pop() {
            if core.is_open(conn) {
                core.request(conn, order);
                return;
            }
        }
        if self.connections < self.connections_max {
            match core.open(0, 0) {
                Ok(conn) => {
                    self.connections += 1;
                    core.request(conn, order);
                    return;
                }
                Err(Fate::NoDescriptor | Fate::NoAddress) if self.connections > 0 => {}
                Err(fate) => {
                    core.lose(order, fate);
                    return;
                }
            }
        }
        core.tally.health.waited += 1;
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(order);
        } else {
            core.lose(order, Fate::Expired);
        }
    }

    /// The next waiting request that can still be in time.
    #[inline]
    fn take_waiting(&mut self, core: &mut Core<'_>) -> Option<Order> {
        while let Some(order) = self.waiting.pop_front() {
            if core.now.saturating_sub(order.due) <= core.plan.deadline_ns {
                return Some(order);
            }
            core.lose(order, Fate::Expired);
        }
        None
    }
}

impl Play for Open {
    #[inline]
    fn coming(&mut self) -> Option<&mut Coming> {
        Some(&mut self.coming)
    }

    #[inline]
    fn arrive(&mut self, core: &mut Core<'_>, arrival: Arrival, due: u64) {
        let order = &core.plan.order;
        let target = order[index(arrival.number % order.len() as u64)];
        core.offer(due);
        self.dispatch(core, Order { target, client: self.client, due, tries: 0 });
    }

    #[inline]
    fn reply(&mut self, core: &mut Core<'_>, conn: ConnId, reply: Reply) {
        if !reply.keep {
            core.close(conn);
            self.connections -= 1;
            if let Some(order) = self.take_waiting(core) {
                self.dispatch(core, order);
            }
        } else if let Some(order) = self.take_waiting(core) {
            core.request(conn, order);
        } else {
            self.idle.push(conn);
        }
    }

    fn broken(&mut self, core: &mut Core<'_>, _conn: ConnId, broken: Broken) {
        self.connections -= 1;
        for order in broken.again {
            self.dispatch(core, order);
        }
        if self.connections < self.connections_max
            && let Some(order) = self.take_waiting(core)
        {
            self.dispatch(core, order);
        }
    }

    fn is_done(&self, core: &Core<'_>) -> bool {
        self.coming.is_over() && core.in_flight == 0
    }

    fn give_up(&mut self, core: &mut Core<'_>) {
        while let Some(order) = self.waiting.pop_front() {
            core.lose(order, Fate::Unfinished);
        }
    }
}
