//! Cohort scheduling: a loop that serves by stages. Work that turns leave waits in the queue of its
//! stage. A visit serves many, one after another, while the stage's code and data are in the
//! processor's caches (Larus, Parkes, USENIX 2002).
use super::{EventLoop, plain};
use crate::conn::step::{Leaves, Left};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Op, OpKind};
use regatta_sys::{clock, wait::Poller};
use std::{collections::VecDeque, mem};

/// Step in serving a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CohortStage {
    /// New connections are taken from a listener.
    Accept,
    /// Bytes are received, and kept.
    Receive,
    /// Received bytes are parsed, and the name in a request is looked up; or the next request is
    /// parsed, when a response has been sent.
    Parse,
    /// Files are opened and read.
    Disk,
    /// Responses are sent.
    Send,
}

impl CohortStage {
    const ALL: [Self; 5] = [Self::Accept, Self::Receive, Self::Parse, Self::Disk, Self::Send];

    /// Work that a turn here leaves to the other stages. `Disk` performs what its turn begins with.
    pub(super) const fn leaves(self) -> Leaves {
        use OpKind::{Open, Read, Recv, Send, Stat};
        let operations = match self {
            Self::Accept | Self::Parse | Self::Disk => Leaves::new(&[Recv, Send, Open, Read, Stat]),
            Self::Receive => Leaves::new(&[Send, Open, Read, Stat]),
            Self::Send => Leaves::new(&[Recv, Open, Read, Stat]),
        };
        operations.and(Leaves::PARSE)
    }

    /// Stage of the work that a turn left; `None` is a `Recv`.
    const fn from_left(left: Option<&Left>) -> Self {
        match left {
            // No turn here leaves only a buffer.
            None | Some(Left::Spare(_)) => Self::Receive,
            Some(Left::Received(_) | Left::Sent(..) | Left::Read(..)) => Self::Parse,
            Some(Left::Op(Op::Send(_))) => Self::Send,
            Some(Left::Op(_)) => Self::Disk,
        }
    }
}

crate::options::choice! {
    /// Order in which stages are visited (`cohort.order`).
    pub enum CohortOrder {
        /// The order in which a request passes through them.
        Forward = "forward",
        /// The other way round: what is nearest to its end comes first.
        Backward = "backward",
        /// Forward, then backward.
        Wave = "wave",
    }
}

/// Rules for visits of stages.
#[derive(Clone, Copy, Debug)]
pub struct Visits {
    /// Order of the stages.
    pub order: CohortOrder,
    /// Most that a visit serves; 0: all that are there, and all that come meanwhile.
    pub most: usize,
}

/// Queues of the stages.
#[derive(Debug)]
pub(super) struct Cohort {
    visits: Visits,
    /// For each stage, in the order of [`Stage::ALL`]: connections, each with what was left and the
    /// time, nanoseconds; for `Accept`, listeners.
    queues: [VecDeque<(u64, Option<Left>, u64)>; CohortStage::ALL.len()],
    rounds: u64,
    /// Number that the visit may still serve.
    rest: usize,
    /// Time at which the last visit began, nanoseconds.
    now: u64,
}

impl Cohort {
    pub(super) fn new(visits: Visits) -> Self {
        Self { visits, queues: Default::default(), rounds: 0, rest: 0, now: clock::nanos() }
    }

    /// True if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// A listener has new connections.
    pub(super) fn offer(&mut self, listener: u64, tally: Tally<'_>) {
        let queue = &self.queues[CohortStage::Accept as usize];
        // A poller may report it in each round until its stage accepts.
        if queue.iter().all(|(other, ..)| *other != listener) {
            self.put(CohortStage::Accept, listener, None, tally);
        }
    }

    /// Queues work that a turn left to another stage.
    pub(super) fn leave(&mut self, key: u64, left: Option<Left>, tally: Tally<'_>) {
        self.put(CohortStage::from_left(left.as_ref()), key, left, tally);
    }

    fn put(&mut self, stage: CohortStage, key: u64, left: Option<Left>, tally: Tally<'_>) {
        let queue = &mut self.queues[stage as usize];
        tally.add(Counter::QueuePuts, 1);
        tally.add(Counter::QueueLenSum, queue.len() as u64);
        queue.push_back((key, left, self.now));
        tally.max(Counter::QueueLenMax, queue.len() as u64);
    }

    /// The stages of a round, in their order.
    pub(super) fn round(&mut self) -> [CohortStage; CohortStage::ALL.len()] {
        let mut stages = CohortStage::ALL;
        let turns_back = match self.visits.order {
            CohortOrder::Forward => false,
            CohortOrder::Backward => true,
            CohortOrder::Wave => self.rounds % 2 == 1,
        };
        if turns_back {
            stages.reverse();
        }
        self.rounds += 1;
        stages
    }

    /// Begins to visit a stage, if anything waits there.
    pub(super) fn visit(&mut self, stage: CohortStage, tally: Tally<'_>) {
        let waiting = self.queues[stage as usize].len();
        // There are few listeners, and what they are offered is of this round.
        let limited = self.visits.most > 0 && stage != CohortStage::Accept;
        self.rest = if limited { self.visits.most } else { usize::MAX };
        if waiting > 0 {
            self.now = clock::nanos();
            tally.add(Counter::QueueVisits, 1);
        }
    }

    /// The next that the visit serves.
    pub(super) fn next(
        &mut self,
        stage: CohortStage,
        tally: Tally<'_>,
    ) -> Option<(u64, Option<Left>)> {
        self.rest = self.rest.checked_sub(1)?;
        let (key, left, since) = self.queues[stage as usize].pop_front()?;
        tally.add(Counter::QueueTakes, 1);
        tally.add(Counter::QueueWaitNs, self.now - since);
        Some((key, left))
    }

    /// Takes a connection out of its queue, wherever that is, with what was left.
    pub(super) fn remove(&mut self, key: u64, tally: Tally<'_>) -> Option<Option<Left>> {
        let [_, queues @ ..] = &mut self.queues;
        let taken = queues.iter_mut().find_map(|queue| {
            let at = queue.iter().position(|(other, ..)| *other == key)?;
            queue.remove(at)
        });
        let (_, left, _) = taken?;
        tally.add(Counter::QueueTakes, 1);
        Some(left)
    }
}

impl<P: Poller> EventLoop<'_, P> {
    /// Has it serve by stages.
    #[must_use]
    pub fn by_stages(mut self, visits: Visits) -> Self {
        self.io.rules.leaves = CohortStage::Accept.leaves();
        self.cohort = Some(Cohort::new(visits));
        self
    }

    /// Visits its stages, if it has any, and serves what waits there.
    pub(super) fn visit_stages(&mut self) {
        let Some(cohort) = &mut self.cohort else { return };
        for stage in cohort.round() {
            let tally = self.worker.around().cx.tally;
            self.cohort.iter_mut().for_each(|cohort| cohort.visit(stage, tally));
            while let Some((key, left)) =
                self.cohort.as_mut().and_then(|cohort| cohort.next(stage, tally))
            {
                if stage == CohortStage::Accept {
                    self.offer(key);
                    while let Some(action) = self.worker.next_accept() {
                        self.perform(action);
                    }
                } else {
                    self.resume(key, left, stage.leaves());
                }
            }
        }
    }

    /// Keeps the work that a turn left; the connection has no other turn before that is resumed.
    pub(super) fn keep(&mut self, key: u64) {
        let (Some(cohort), Some(slot)) = (&mut self.cohort, self.worker.slot(key)) else { return };
        slot.queued = true;
        cohort.leave(key, self.io.take_left(), self.worker.around().cx.tally);
    }

    /// Resumes a connection whose turn left work; this turn leaves no more than `leaves`.
    pub(super) fn resume(&mut self, key: u64, left: Option<Left>, leaves: Leaves) {
        let Some(slot) = self.worker.slot(key) else { return };
        slot.queued = false;
        if let Some(left) = left {
            self.io.resume(left);
        }
        let before = mem::replace(&mut self.io.rules.leaves, leaves);
        self.turn(key, plain);
        self.io.rules.leaves = before;
    }

    /// Takes a connection out of the queue in which it waits, if it does. Returns what was left.
    pub(super) fn leave_stage(&mut self, key: u64) -> Option<Option<Left>> {
        let cohort = self.cohort.as_mut()?;
        let queued = self.worker.slot(key).is_some_and(|slot| slot.queued);
        queued.then(|| cohort.remove(key, self.worker.around().cx.tally)).flatten()
    }

    /// Gives up the work that a connection left, because it ends; what has been sent counts.
    pub(super) fn give_up_stage(&mut self, key: u64) {
        if let Some(Some(left)) = self.leave_stage(key)
            && let Some((slot, desk)) = self.worker.turn(key)
        {
            left.settle(slot, desk.now, &desk.around.cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::event_loop::schedule::{
        Case, check, check_frames, check_sealed, own_disk, run_all,
    };
    use regatta_testkit::counters::arena;

    /// Lists which connections the visits of some rounds serve, and in which stage. Those served in
    /// `Receive` go to `Parse`.
    fn served(visits: Visits, rounds: usize) -> String {
        let arena = arena(1);
        let tally = Tally::Owned(arena.slot(0));
        let mut cohort = Cohort::new(visits);
        let received = || Some(Left::Received(Vec::new()));
        for key in 0..3 {
            cohort.leave(key, received(), tally);
            cohort.leave(key + 3, None, tally);
        }
        let mut text = String::new();
        for _ in 0..rounds {
            for stage in cohort.round() {
                cohort.visit(stage, tally);
                while let Some((key, left)) = cohort.next(stage, tally) {
                    text.push_str(&format!("{stage:?}{key} "));
                    assert_eq!(CohortStage::from_left(left.as_ref()), stage);
                    if stage == CohortStage::Receive {
                        cohort.leave(key, received(), tally);
                    }
                }
            }
            text.push('|');
        }
        assert!(cohort.is_empty());
        let get = |counter| arena.slot(0).get(counter);
        assert_eq!(get(Counter::QueuePuts), 9);
        let taken = text.split([' ', '|']).filter(|word| !word.is_empty()).count();
        assert_eq!(get(Counter::QueueTakes), taken as u64);
        text
    }

    #[test]
    fn a_visit_serves_all_that_are_there() {
        let all = |order| served(Visits { order, most: 0 }, 2);
        let parses = "Parse0 Parse1 Parse2 ";
        let receives = "Receive3 Receive4 Receive5 ";
        let later = "Parse3 Parse4 Parse5 ";
        assert_eq!(all(CohortOrder::Forward), format!("{receives}{parses}{later}||"));
        assert_eq!(all(CohortOrder::Backward), format!("{parses}{receives}|{later}|"));
        assert_eq!(all(CohortOrder::Wave), all(CohortOrder::Forward));
    }

    #[test]
    fn a_visit_serves_no_more_than_it_may() {
        let text = served(Visits { order: CohortOrder::Wave, most: 2 }, 4);
        let rounds =
            ["Receive3 Receive4 Parse0 Parse1 ", "Parse2 Parse3 Receive5 ", "Parse4 Parse5 ", ""];
        assert_eq!(text, rounds.map(|round| format!("{round}|")).concat());
    }

    #[test]
    fn who_leaves_is_taken_out_of_its_queue() {
        let arena = arena(1);
        let tally = Tally::Owned(arena.slot(0));
        let mut cohort = Cohort::new(Visits { order: CohortOrder::Forward, most: 0 });
        cohort.offer(1, tally);
        cohort.offer(1, tally);
        cohort.leave(1, None, tally);
        cohort.leave(2, None, tally);
        assert!(matches!(cohort.remove(1, tally), Some(None)), "the connection, not the listener");
        assert!(cohort.remove(1, tally).is_none());
        assert!(cohort.next(CohortStage::Receive, tally).is_none(), "no visit has begun");
        cohort.visit(CohortStage::Receive, tally);
        assert!(matches!(cohort.next(CohortStage::Receive, tally), Some((2, None))));
        cohort.visit(CohortStage::Accept, tally);
        assert!(matches!(cohort.next(CohortStage::Accept, tally), Some((1, None))));
        assert!(cohort.next(CohortStage::Accept, tally).is_none() && cohort.is_empty());
    }

    #[test]
    fn a_loop_of_stages_forgets_none() {
        let test = "a_loop_of_stages_forgets_none";
        let of = |case: Case| Case { cohort: true, ..case };
        check(&run_all(of(Case::one(test)), &own_disk), 0);
        check(&run_all(of(Case { loops: 2, ..Case::one(test) }), &own_disk), 0);
        check_frames(&run_all(of(Case::frames(test)), &own_disk), 0);
        check_sealed(&run_all(of(Case { sealed: true, ..Case::one(test) }), &own_disk), 0);
        // While the disk's stage holds the loop up, no peer is late, and what its last turn would
        // leave to a stage is done before its deadline is met.
        check(&run_all(of(Case { slow: true, ..Case::one(test) }), &own_disk), 0);
    }
}
