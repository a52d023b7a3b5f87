//! The ledger of stalls: what held up a worker for longer than its limit, and its cause.
//!
//! A *turn* that touched the disk is entered whole, under what took most of it. A *round* of the
//! loop, which is all turns between two waits, is entered whole too. A hundred turns of 5 ms each
//! are no stalls, yet no other connection was served for half a second.
use super::Turn;
use crate::options::{Kind, OptionSpec};
use regatta_metrics::{Counter, Tally};

/// Limit from which on a stall is counted; an option of every driver.
pub(crate) const STALL_US: OptionSpec = OptionSpec {
    key: "event.stall_us",
    kind: Kind::Micros { min: 1, max: 3_600_000_000 },
    default: "10 ms",
    doc: "How long a turn, or a round of turns, takes to be counted as a stall.",
    long: "A turn that spends this long on files is counted by what took most of the time: \
           `stall_open`, `stall_read` or `stall_send`. A round is all turns between two waits. One \
           that takes this long is counted as `stall_round`. It is also counted as `stall_other` \
           if it takes this long without the time spent on files. Turns that end because they have \
           used up their bytes or operations are counted as `stall_budget`, however long they \
           took.",
};

/// Time of a turn that may have gone to the disk, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// In `openat2` and `fstat`.
    pub open: u64,
    /// Reading bodies into memory.
    pub read: u64,
    /// Sending from files: in `sendfile`, or in `sendmsg` where they are mapped.
    pub send: u64,
}

impl Spent {
    /// Sum of all three.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.open + self.read + self.send
    }

    /// Counts the times, stall or not.
    pub fn count(&self, tally: Tally<'_>) {
        let Self { open, read, send } = *self;
        for (counter, ns) in
            [(Counter::OpensNs, open), (Counter::ReadsNs, read), (Counter::SendfileNs, send)]
        {
            if ns > 0 {
                tally.add(counter, ns);
            }
        }
    }

    /// Counters of what took most of the time: how often, and how long.
    const fn cause(&self) -> (Counter, Counter) {
        if self.open >= self.read && self.open >= self.send {
            (Counter::StallOpen, Counter::StallOpenNs)
        } else if self.read >= self.send {
            (Counter::StallRead, Counter::StallReadNs)
        } else {
            (Counter::StallSend, Counter::StallSendNs)
        }
    }
}

/// Round of a loop; nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Time from one wait to the next.
    pub busy: u64,
    /// Part of `busy` that the disk may have taken: [`Spent::total`] of every turn.
    pub disk: u64,
}

/// Enters a turn that touched the disk, or used up its budget.
pub fn enter(turn: Turn, spent: &Spent, stall_ns: u64, tally: Tally<'_>) {
    let total = spent.total();
    if turn == Turn::Again {
        tally.add(Counter::StallBudget, 1);
        tally.add(Counter::StallBudgetNs, total);
    }
    if total >= stall_ns {
        let (count, time) = spent.cause();
        tally.add(count, 1);
        tally.add(time, total);
    }
}

/// Enters a round.
#[inline]
pub fn enter_round(round: Round, stall_ns: u64, tally: Tally<'_>) {
    if round.busy < stall_ns {
        return;
    }
    tally.add(Counter::StallRound, 1);
    tally.add(Counter::StallRoundNs, round.busy);
    let rest = round.busy.saturating_sub(round.disk);
    if rest >= stall_ns {
        tally.add(Counter::StallOther, 1);
        tally.add(Counter::StallOtherNs, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_op::CloseReason;
    use regatta_sys::wait::Interest;
    use regatta_testkit::counters::arena;

    const STALL: u64 = 10;

    /// Counters of the ledger after `entered` that are not 0, in their order.
    fn counters_after(entered: impl FnOnce(Tally<'_>)) -> Vec<(&'static str, u64)> {
        let arena = arena(1);
        let slot = arena.slot(0);
        entered(Tally::Owned(slot));
        let values = Counter::ALL.iter().map(|counter| (counter.name(), slot.get(*counter)));
        values.filter(|(_, value)| *value > 0).collect()
    }

    #[test]
    fn a_turn_is_entered_whole_under_what_took_most_of_it() {
        type Row<'a> = ([u64; 3], &'a [(&'a str, u64)]);
        let rows: [Row<'_>; 9] = [
            ([0, 0, 0], &[]),
            ([9, 0, 0], &[]),
            ([4, 3, 2], &[]),
            ([10, 0, 0], &[("stall_open", 1), ("stall_open_ns", 10)]),
            // An ordinary miss: none of the three alone is a stall.
            ([6, 7, 6], &[("stall_read", 1), ("stall_read_ns", 19)]),
            ([5, 0, 6], &[("stall_send", 1), ("stall_send_ns", 11)]),
            // Each of the three would be a stall alone: they are one turn, and one stall.
            ([30, 20, 40], &[("stall_send", 1), ("stall_send_ns", 90)]),
            ([5, 5, 5], &[("stall_open", 1), ("stall_open_ns", 15)]),
            ([0, 5, 5], &[("stall_read", 1), ("stall_read_ns", 10)]),
        ];
        let turns = [Turn::Wait(Interest::READ), Turn::Parked, Turn::Closed(CloseReason::Finished)];
        for ([open, read, send], expect) in rows {
            let spent = Spent { open, read, send };
            for turn in turns {
                let found = counters_after(|tally| enter(turn, &spent, STALL, tally));
                assert_eq!(found, expect, "{turn:?} {spent:?}");
            }
        }
    }

    #[test]
    fn a_spent_budget_is_entered_however_long_it_took() {
        let spent = |read| Spent { read, ..Spent::default() };
        let of = |read| counters_after(|tally| enter(Turn::Again, &spent(read), STALL, tally));
        assert_eq!(of(0), [("stall_budget", 1)]);
        assert_eq!(of(3), [("stall_budget", 1), ("stall_budget_ns", 3)]);
        let long = [("stall_read", 1), ("stall_budget", 1)];
        let times = [("stall_read_ns", 12), ("stall_budget_ns", 12)];
        assert_eq!(of(12), [long, times].concat());
    }

    #[test]
    fn a_round_is_entered_with_the_disk_and_without() {
        type Row<'a> = (u64, u64, &'a [(&'a str, u64)]);
        let rows: [Row<'_>; 5] = [
            (9, 0, &[]),
            // A hundred turns, each with half a stall's time on the disk.
            (500, 495, &[("stall_round", 1), ("stall_round_ns", 500)]),
            (
                25,
                15,
                &[
                    ("stall_round", 1),
                    ("stall_other", 1),
                    ("stall_round_ns", 25),
                    ("stall_other_ns", 10),
                ],
            ),
            (25, 16, &[("stall_round", 1), ("stall_round_ns", 25)]),
            // The disk's time is from another reading of the clock.
            (25, 26, &[("stall_round", 1), ("stall_round_ns", 25)]),
        ];
        for (busy, disk, expect) in rows {
            let found = counters_after(|tally| enter_round(Round { busy, disk }, STALL, tally));
            assert_eq!(found, expect, "{disk} of {busy}");
        }
    }
}
