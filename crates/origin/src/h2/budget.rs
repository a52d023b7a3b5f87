//! Budget of a connection for frames that cost the server more than the client.
use regatta_op::Tick;

/// Points that a connection can spend at once.
const POINTS_MAX: u64 = 1_000;
/// Points that return in a second.
const POINTS_PER_S: u64 = 100;
/// Time in which a point returns, milliseconds.
const POINT_MS: u64 = 1_000 / POINTS_PER_S;

/// Event that is charged to the budget of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Glitch {
    /// The client has reset a stream.
    Reset,
    /// A frame of the client makes the server reset a stream.
    Fault,
    /// A request beyond the number that the settings allow.
    Excess,
    /// A head over a limit. Its block is decoded to the end, for the sake of the table.
    LargeHead,
    /// SETTINGS, PING, GOAWAY, or an acknowledgement of nothing.
    Control,
    /// DATA or CONTINUATION without bytes, which ends nothing.
    Empty,
    /// A frame that costs little, and brings less. PRIORITY, PRIORITY_UPDATE, and DATA or
    /// WINDOW_UPDATE of few bytes. WINDOW_UPDATE without DATA of ours before it, and HEADERS of a
    /// stream that is over, or beyond a number that the client has not acknowledged. SETTINGS that
    /// change the windows of a few streams.
    Hint,
    /// A window that lets a body continue by few bytes: for each a file may be read, and a frame is
    /// sent.
    Trickle,
}

/// Cost of each event, points, and whether it is odd: a good client causes none.
const COSTS: [(Glitch, u64, bool); 8] = [
    // Browsers reset all streams of a page that their user leaves: five pages of 100 streams at
    // once, and one every two seconds. The places for streams bound what resets cost the server.
    (Glitch::Reset, 2, false),
    (Glitch::Fault, 10, true),
    (Glitch::Excess, 10, true),
    (Glitch::LargeHead, 10, true),
    (Glitch::Control, 5, false),
    (Glitch::Empty, 5, true),
    (Glitch::Hint, 1, false),
    (Glitch::Trickle, 9, true),
];

impl Glitch {
    const fn points(self) -> u64 {
        COSTS[self as usize].1
    }

    /// True if good clients do not cause it.
    pub(super) const fn is_odd(self) -> bool {
        COSTS[self as usize].2
    }
}

/// Budget of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Budget {
    /// Time at which all points will have returned.
    full_at: Tick,
}

impl Budget {
    /// Charges an event this many times; false if there are too few points left.
    pub(super) fn spend(&mut self, glitch: Glitch, times: u64, now: Tick) -> bool {
        let full_at = self.full_at.max(now).after(times * glitch.points() * POINT_MS);
        let has_points = full_at <= now.after(POINTS_MAX * POINT_MS);
        if has_points {
            self.full_at = full_at;
        }
        has_points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of events that the budget allows at this time.
    fn spend_all(budget: &mut Budget, glitch: Glitch, now: Tick) -> usize {
        (0..10_000).take_while(|_| budget.spend(glitch, 1, now)).count()
    }

    #[test]
    fn costs_are_in_the_order_of_events() {
        for (at, (glitch, points, _)) in COSTS.iter().enumerate() {
            assert_eq!(*glitch as usize, at);
            assert_eq!(glitch.points(), *points);
        }
    }

    #[test]
    fn a_burst_is_bounded_and_points_return() {
        let rows = [
            (Glitch::Reset, 500),
            (Glitch::Fault, 100),
            (Glitch::Excess, 100),
            (Glitch::LargeHead, 100),
            (Glitch::Control, 200),
            (Glitch::Empty, 200),
            (Glitch::Hint, 1_000),
            (Glitch::Trickle, 111),
        ];
        for (glitch, count) in rows {
            let mut budget = Budget::default();
            assert_eq!(spend_all(&mut budget, glitch, Tick(5_000)), count, "{glitch:?}");
            // A tenth returns in a second.
            assert_eq!(spend_all(&mut budget, glitch, Tick(6_000)), count / 10, "{glitch:?}");
            assert_eq!(spend_all(&mut budget, glitch, Tick(6_000)), 0, "{glitch:?}");
            // All return in ten seconds, and no more in an hour.
            assert_eq!(spend_all(&mut budget, glitch, Tick(16_000)), count, "{glitch:?}");
            assert_eq!(spend_all(&mut budget, glitch, Tick(3_616_000)), count, "{glitch:?}");
        }
    }

    #[test]
    fn events_share_the_points() {
        let mut budget = Budget::default();
        assert_eq!((0..300).filter(|_| budget.spend(Glitch::Reset, 1, Tick(0))).count(), 300);
        assert_eq!(spend_all(&mut budget, Glitch::Control, Tick(0)), 80);
        assert!(!budget.spend(Glitch::Hint, 1, Tick(9)) && budget.spend(Glitch::Hint, 1, Tick(10)));
        assert!(!budget.spend(Glitch::Hint, 501, Tick(5_010)));
        assert!(budget.spend(Glitch::Hint, 500, Tick(5_010)));
    }
}
