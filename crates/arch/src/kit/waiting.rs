//! Who waits for what has been asked of a disk: to forget one takes no look at the others.
use regatta_op::{Abandoned, Ticket};
use std::{cmp::Ordering, collections::BTreeMap};

/// The number of something that was asked for: what is asked for later has a higher one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn(u64);

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        COMPARED.with(|count| count.set(count.get() + 1));
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Turn {}

/// By connection: the turns of what it waits for, and the tickets of those that have one.
///
/// The outcome of what has been forgotten still comes, perhaps when the same connection waits for
/// something else with the same ticket: the turn tells the two apart.
#[derive(Debug, Default)]
pub struct Waiting {
    turns: BTreeMap<(u64, Turn), Option<Ticket>>,
    last: u64,
}

impl Waiting {
    /// A connection begins to wait for one thing more.
    pub fn ask(&mut self, key: u64, ticket: Option<Ticket>) -> Turn {
        self.last += 1;
        let turn = Turn(self.last);
        debug_assert!(
            self.of(key).all(|(_, other)| other != ticket),
            "tickets name one operation each of a connection"
        );
        self.turns.insert((key, turn), ticket);
        turn
    }

    /// A connection waits no longer for what it has given up: `each` takes the turns of that.
    pub fn forget(&mut self, key: u64, what: Abandoned, mut each: impl FnMut(Turn)) {
        let is_meant = |ticket| match what {
            Abandoned::All => true,
            Abandoned::One(one) => ticket == Some(one),
        };
        loop {
            let found = self.of(key).find(|(_, ticket)| is_meant(*ticket));
            let Some((turn, _)) = found else { return };
            self.turns.remove(&(key, turn));
            each(turn);
        }
    }

    /// What a connection waits for.
    fn of(&self, key: u64) -> impl Iterator<Item = (Turn, Option<Ticket>)> {
        let turns = self.turns.range((key, Turn(0))..=(key, Turn(u64::MAX)));
        turns.map(|((_, turn), ticket)| (*turn, *ticket))
    }

    /// True if a connection waits for this.
    #[must_use]
    pub fn is_waited_for(&self, key: u64, turn: Turn) -> bool {
        self.turns.contains_key(&(key, turn))
    }

    /// There is an outcome: true if the connection still waits for it, which it then does no
    /// longer.
    pub fn is_told(&mut self, key: u64, turn: Turn) -> bool {
        self.turns.remove(&(key, turn)).is_some()
    }

    /// How many things are waited for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// True if nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
thread_local! {
    static COMPARED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many turns this thread has compared.
#[cfg(test)]
pub(crate) fn turns_compared() -> u64 {
    COMPARED.with(std::cell::Cell::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forgotten(waiting: &mut Waiting, key: u64, what: Abandoned) -> Vec<Turn> {
        let mut turns = Vec::new();
        waiting.forget(key, what, |turn| turns.push(turn));
        turns
    }

    #[test]
    fn what_was_forgotten_is_not_taken_for_what_is_waited_for() {
        let mut waiting = Waiting::default();
        let (first, other) = (waiting.ask(7, None), waiting.ask(8, None));
        assert_eq!(forgotten(&mut waiting, 7, Abandoned::All), [first]);
        assert_eq!(forgotten(&mut waiting, 7, Abandoned::All), []);
        let second = waiting.ask(7, None);
        assert!(first < other && other < second);
        assert!(!waiting.is_told(7, first), "it was for who waited before");
        assert!(waiting.is_told(7, second) && !waiting.is_told(7, second));
        assert_eq!(waiting.len(), 1);
        assert!(waiting.is_told(8, other) && waiting.is_empty());
    }

    #[test]
    fn a_connection_waits_for_several_things_and_gives_up_one() {
        let mut waiting = Waiting::default();
        let ask = |waiting: &mut Waiting, n| waiting.ask(7, Some(Ticket(n)));
        let turns = [0, 1, 2].map(|n| ask(&mut waiting, n));
        let warm = waiting.ask(7, None);
        let (before, after) = (waiting.ask(6, Some(Ticket(1))), waiting.ask(8, Some(Ticket(1))));
        assert_eq!(forgotten(&mut waiting, 7, Abandoned::One(Ticket(1))), [turns[1]]);
        let again = ask(&mut waiting, 1);
        assert!(!waiting.is_told(7, turns[1]), "the ticket names something else now");
        assert!(waiting.is_told(7, again) && waiting.is_told(7, turns[0]));
        assert_eq!(forgotten(&mut waiting, 7, Abandoned::All), [turns[2], warm]);
        assert!(waiting.is_told(6, before) && waiting.is_told(8, after) && waiting.is_empty());
    }
}
