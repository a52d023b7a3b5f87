//! Connections that wait for disk operations. Forgetting one does not search the others.
use regatta_op::{Abandoned, Ticket};
use std::{cmp::Ordering, collections::BTreeMap};

/// The sequence number of a disk operation: later ones are higher.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequence(u64);

impl Ord for Sequence {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        COMPARED.with(|count| count.set(count.get() + 1));
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Sequence {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Sequence {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Sequence {}

/// By connection: the operations that it waits for, and their tickets if they have one.
///
/// A forgotten operation still completes, perhaps while the same connection waits for another one
/// with the same ticket. The sequence number tells the two apart.
#[derive(Debug, Default)]
pub struct Waiters {
    operations: BTreeMap<(u64, Sequence), Option<Ticket>>,
    last: u64,
}

impl Waiters {
    /// Adds an operation that a connection waits for, and returns its number.
    pub fn add(&mut self, key: u64, ticket: Option<Ticket>) -> Sequence {
        self.last += 1;
        let sequence = Sequence(self.last);
        debug_assert!(
            self.list(key).all(|(_, other)| other != ticket),
            "a ticket names one operation of a connection"
        );
        self.operations.insert((key, sequence), ticket);
        sequence
    }

    /// Forgets operations that a connection has given up, and calls `each` with their numbers.
    pub fn forget(&mut self, key: u64, what: Abandoned, mut each: impl FnMut(Sequence)) {
        let is_meant = |ticket| match what {
            Abandoned::All => true,
            Abandoned::One(one) => ticket == Some(one),
        };
        loop {
            let found = self.list(key).find(|(_, ticket)| is_meant(*ticket));
            let Some((sequence, _)) = found else { return };
            self.operations.remove(&(key, sequence));
            each(sequence);
        }
    }

    /// The operations that a connection waits for.
    fn list(&self, key: u64) -> impl Iterator<Item = (Sequence, Option<Ticket>)> {
        let range = (key, Sequence(0))..=(key, Sequence(u64::MAX));
        self.operations.range(range).map(|((_, sequence), ticket)| (*sequence, *ticket))
    }

    /// True if a connection waits for this operation.
    #[must_use]
    pub fn contains(&self, key: u64, sequence: Sequence) -> bool {
        self.operations.contains_key(&(key, sequence))
    }

    /// Removes an operation that has completed: true if the connection was still waiting for it.
    pub fn remove(&mut self, key: u64, sequence: Sequence) -> bool {
        self.operations.remove(&(key, sequence)).is_some()
    }

    /// Number of operations that connections wait for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// True if no connection waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

#[cfg(test)]
thread_local! {
    static COMPARED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Number of sequence numbers that this thread has compared.
#[cfg(test)]
pub(crate) fn sequences_compared() -> u64 {
    COMPARED.with(std::cell::Cell::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forgotten(waiters: &mut Waiters, key: u64, what: Abandoned) -> Vec<Sequence> {
        let mut numbers = Vec::new();
        waiters.forget(key, what, |sequence| numbers.push(sequence));
        numbers
    }

    #[test]
    fn forgotten_operations_are_not_taken_for_later_ones() {
        let mut waiters = Waiters::default();
        let (first, other) = (waiters.add(7, None), waiters.add(8, None));
        assert_eq!(forgotten(&mut waiters, 7, Abandoned::All), [first]);
        assert_eq!(forgotten(&mut waiters, 7, Abandoned::All), []);
        let second = waiters.add(7, None);
        assert!(first < other && other < second);
        assert!(!waiters.remove(7, first), "it was forgotten");
        assert!(waiters.remove(7, second) && !waiters.remove(7, second));
        assert_eq!(waiters.len(), 1);
        assert!(waiters.remove(8, other) && waiters.is_empty());
    }

    #[test]
    fn a_connection_gives_up_one_of_several_operations() {
        let mut waiters = Waiters::default();
        let add = |waiters: &mut Waiters, n| waiters.add(7, Some(Ticket(n)));
        let numbers = [0, 1, 2].map(|n| add(&mut waiters, n));
        let prefetch = waiters.add(7, None);
        let (before, after) = (waiters.add(6, Some(Ticket(1))), waiters.add(8, Some(Ticket(1))));
        assert_eq!(forgotten(&mut waiters, 7, Abandoned::One(Ticket(1))), [numbers[1]]);
        let again = add(&mut waiters, 1);
        assert!(!waiters.remove(7, numbers[1]), "the ticket names another operation now");
        assert!(waiters.remove(7, again) && waiters.remove(7, numbers[0]));
        assert_eq!(forgotten(&mut waiters, 7, Abandoned::All), [numbers[2], prefetch]);
        assert!(waiters.remove(6, before) && waiters.remove(8, after) && waiters.is_empty());
    }
}
