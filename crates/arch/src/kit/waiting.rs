//! Who waits for what has been asked of a disk: to forget one takes no look at the others.
use std::{cmp::Ordering, collections::HashMap};

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

/// By connection, which waits for one thing at a time: the turn of what it waits for.
///
/// The outcome of what has been forgotten still comes, perhaps when the same connection waits for
/// something else: the turn tells the two apart.
#[derive(Debug, Default)]
pub struct Waiting {
    turns: HashMap<u64, Turn>,
    last: u64,
}

impl Waiting {
    /// A connection begins to wait.
    pub fn ask(&mut self, key: u64) -> Turn {
        self.last += 1;
        let turn = Turn(self.last);
        let before = self.turns.insert(key, turn);
        debug_assert!(before.is_none(), "a connection waits for one thing at a time");
        turn
    }

    /// A connection waits no longer: for what it did, if it did.
    pub fn forget(&mut self, key: u64) -> Option<Turn> {
        self.turns.remove(&key)
    }

    /// True if a connection waits for this.
    #[must_use]
    pub fn is_waited_for(&self, key: u64, turn: Turn) -> bool {
        self.turns.get(&key) == Some(&turn)
    }

    /// There is an outcome: true if the connection still waits for it, which it then does no
    /// longer.
    pub fn is_told(&mut self, key: u64, turn: Turn) -> bool {
        self.is_waited_for(key, turn) && self.forget(key).is_some()
    }

    /// How many connections wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// True if none does.
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

    #[test]
    fn what_was_forgotten_is_not_taken_for_what_is_waited_for() {
        let mut waiting = Waiting::default();
        let (first, other) = (waiting.ask(7), waiting.ask(8));
        assert_eq!(waiting.forget(7), Some(first));
        assert_eq!(waiting.forget(7), None);
        let second = waiting.ask(7);
        assert!(first < other && other < second);
        assert!(!waiting.is_told(7, first), "it was for who waited before");
        assert!(waiting.is_told(7, second) && !waiting.is_told(7, second));
        assert_eq!(waiting.len(), 1);
        assert!(waiting.is_told(8, other) && waiting.is_empty());
    }
}
