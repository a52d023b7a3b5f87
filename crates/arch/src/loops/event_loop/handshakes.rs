//! Handshakes of a round. One takes as long as a dozen cached replies, so a round advances few. The
//! others wait here for the next rounds, in their order, and connections in the clear do not wait
//! for them.
use super::EventLoop;
use crate::{
    conn::{
        budget::HandshakeBudget,
        step::{Leaves, Left, ReadySlot},
    },
    drive::ledger::Spent,
};
use regatta_metrics::Counter;
use regatta_op::OpKind;
use regatta_origin::Protocol as _;
use regatta_sys::wait::Poller;
use std::collections::VecDeque;

/// Connections whose next turn may shake hands.
#[derive(Debug)]
pub(super) struct Handshakes {
    /// Turns that are left to the round.
    budget: HandshakeBudget,
    /// Each with the work that its turn begins with. All of them are queued, and open.
    waiting: VecDeque<(u64, Option<Left>)>,
}

impl Handshakes {
    pub(super) const fn new(most: u32) -> Self {
        Self { budget: HandshakeBudget::new(most), waiting: VecDeque::new() }
    }

    /// True if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of connections that wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Connections that wait, in their order.
    #[cfg(test)]
    pub(super) fn keys(&self) -> Vec<u64> {
        self.waiting.iter().map(|(key, _)| *key).collect()
    }

    pub(super) const fn begin_round(&mut self) {
        self.budget.renew();
    }

    /// Takes one of the round's turns; false if none is left.
    const fn take_turn(&mut self) -> bool {
        self.budget.spend()
    }

    fn put(&mut self, key: u64, left: Option<Left>) {
        self.waiting.push_back((key, left));
    }

    /// The next connection, if a turn is left to the round.
    fn next(&mut self) -> Option<(u64, Option<Left>)> {
        if self.budget.is_left() { self.waiting.pop_front() } else { None }
    }

    fn has(&self, key: u64) -> bool {
        self.waiting.iter().any(|(other, _)| *other == key)
    }

    /// True if received bytes of a connection wait with it.
    fn has_bytes(&self, key: u64) -> bool {
        let found = self.waiting.iter().find(|(other, _)| *other == key);
        matches!(found, Some((_, Some(Left::Received(_)))))
    }

    /// Takes a connection out, with what was left.
    fn remove(&mut self, key: u64) -> Option<Option<Left>> {
        let at = self.waiting.iter().position(|(other, _)| *other == key)?;
        self.waiting.remove(at).map(|(_, left)| left)
    }
}

impl<P: Poller> EventLoop<'_, P> {
    /// Queues a connection whose turn may shake hands now, unless it is queued. Any other turn of a
    /// connection that has not shaken hands is run.
    #[cold]
    pub(super) fn hold(&mut self, key: u64) {
        let Some((slot, desk)) = self.worker.turn(key) else { return };
        if slot.queued {
            return;
        }
        let leaves = self.io.rules.leaves;
        let receives = !leaves.has(OpKind::Recv) && !leaves.includes(Leaves::PARSE);
        if self.io.begins_with_bytes() || receives && slot.drive.readable {
            slot.queued = true;
            // It may have had no turn yet, which would have filed its deadline.
            desk.file(key, slot);
            desk.keep_open(key);
            return self.handshakes.put(key, self.io.put_off());
        }
        self.shake(key);
    }

    /// Gives turns to connections that wait to shake hands, until as many as the round may have
    /// received something. The first read of a new connection may find nothing.
    pub(super) fn shake_hands(&mut self) {
        while let Some((key, left)) = self.handshakes.next() {
            let Some(slot) = self.worker.slot(key) else { continue };
            slot.queued = false;
            left.into_iter().for_each(|left| self.io.resume(left));
            let (has_bytes, before) = (self.io.begins_with_bytes(), self.received());
            self.shake(key);
            if has_bytes || self.received() != before {
                self.handshakes.take_turn();
            }
        }
    }

    /// Bytes that have been received.
    fn received(&self) -> u64 {
        self.worker.around().slot.get(Counter::RecvBytes)
    }

    /// Runs a turn that may shake hands.
    fn shake(&mut self, key: u64) {
        self.turn(key, |_| Some(Spent::default()));
        if let Some(slot) = self.worker.slot(key) {
            slot.has_shaken_hands();
        }
    }

    /// Tries what a connection waits for whose deadline has passed, as any other, if the round has
    /// a handshake left for it. Its deadline is checked next. If it only waits for its turn, a
    /// drain does not end it for silence. `left`: work that it left to a stage.
    pub(super) fn shake_late(&mut self, key: u64, left: Option<Option<Left>>) {
        let has_input = self.has_input(key);
        let Some(slot) = self.worker.slot(key) else { return };
        if slot.queued && self.handshakes.has(key) {
            return note_begun(slot, self.handshakes.has_bytes(key) || has_input);
        }
        self.probe(key);
        let Some(slot) = self.worker.slot(key) else { return };
        let begins = matches!(left, Some(Some(Left::Received(_))));
        if (begins || slot.drive.readable) && !self.handshakes.take_turn() {
            note_begun(slot, begins || has_input);
            if let Some(left) = left {
                self.handshakes.put(key, left);
            }
            return;
        }
        if let Some(left) = left {
            slot.queued = false;
            left.into_iter().for_each(|left| self.io.resume(left));
        }
        self.past_stages(|this| this.shake(key));
    }

    /// A connection has expired, or not, that was shaking hands: one that is over waits no longer.
    /// What it left has been given up.
    pub(super) fn has_expired(&mut self, key: u64) {
        let Some(slot) = self.worker.slot(key) else { return };
        if slot.has_shaken_hands() && slot.queued && self.handshakes.remove(key).is_some() {
            slot.queued = false;
        }
    }

    /// Takes a connection out of the queue, if it waits there, because it ends. What has been sent
    /// counts.
    pub(super) fn give_up_handshake(&mut self, key: u64) {
        if self.handshakes.is_empty() {
            return;
        }
        let Some((slot, desk)) = self.worker.turn(key) else { return };
        if slot.shaking
            && slot.queued
            && let Some(Some(left)) = self.handshakes.remove(key)
        {
            left.settle(slot, desk.now, &desk.around.cx);
        }
    }
}

/// Reports to a connection that waits for its turn that the peer has begun the handshake, if it
/// has. `has_bytes`: the peer's bytes have been received.
fn note_begun(slot: &mut ReadySlot, has_bytes: bool) {
    if has_bytes {
        slot.conn.peer_began();
    } else {
        slot.check_begun();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_few_and_keeps_their_order() {
        let mut handshakes = Handshakes::new(2);
        (0..5).for_each(|key| handshakes.put(key, None));
        let mut round = || {
            handshakes.begin_round();
            let mut keys = Vec::new();
            while let Some((key, _)) = handshakes.next() {
                assert!(handshakes.take_turn());
                keys.push(key);
            }
            keys
        };
        assert_eq!([round(), round(), round(), round()], [vec![0, 1], vec![2, 3], vec![4], vec![]]);
        assert!(handshakes.is_empty());
        assert!(handshakes.take_turn() && handshakes.take_turn() && !handshakes.take_turn());
    }

    #[test]
    fn a_connection_that_ends_waits_no_longer() {
        let mut handshakes = Handshakes::new(8);
        (0..3).for_each(|key| handshakes.put(key, Some(Left::Received(vec![1]))));
        assert!(matches!(handshakes.remove(1), Some(Some(Left::Received(_)))));
        assert!(handshakes.remove(1).is_none() && !handshakes.has(1) && !handshakes.has_bytes(1));
        assert!(handshakes.has_bytes(2));
        assert_eq!(handshakes.keys(), [0, 2]);
    }
}
