//! Idle connections, in the order in which one of them is closed where another has no room.
use crate::conn::chain::Chains;

/// Chains: of those that wait for another request, and of those that wait for their first.
const BETWEEN: usize = 0;
const FRESH: usize = 1;

/// Idle connections. First those that have had an answer, the longest idle before all others: their
/// clients expect them to end at any time. Then those that have not sent a request yet.
#[derive(Debug)]
pub struct Idle(Chains);

impl Default for Idle {
    fn default() -> Self {
        Self(Chains::new(2))
    }
}

impl Idle {
    /// Size of an idle connection's entry, bytes.
    pub const ENTRY_BYTES: usize = Chains::LINK_BYTES;

    /// Enters a connection that is idle after `requests` requests.
    pub fn enter(&mut self, key: u64, requests: u32) {
        let chain = if requests == 0 { FRESH } else { BETWEEN };
        // A first request is awaited from when the connection came, whatever wakes it since.
        if chain == BETWEEN || self.0.find_chain(key) != Some(FRESH) {
            self.0.leave(key);
            self.0.join(key, chain);
        }
    }

    /// Puts a connection behind all others of its kind.
    pub fn postpone(&mut self, key: u64) {
        if let Some(chain) = self.0.leave(key) {
            self.0.join(key, chain);
        }
    }

    /// Takes a connection out, if it is there.
    pub fn remove(&mut self, key: u64) {
        self.0.leave(key);
    }

    /// The one to close for another.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.0.first(BETWEEN).or_else(|| self.0.first(FRESH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_comes_first_and_those_without_a_request_last() {
        let mut idle = Idle::default();
        for key in 1..=4 {
            idle.enter(key, 0);
        }
        let mut order = Vec::new();
        idle.enter(4, 1);
        idle.enter(2, 1);
        idle.enter(1, 0);
        idle.enter(4, 2);
        while let Some(key) = idle.first() {
            order.push(key);
            idle.remove(key);
        }
        assert_eq!(order, [2, 4, 1, 3]);
        for key in 1..=2 {
            idle.enter(key, 1);
        }
        idle.postpone(1);
        assert_eq!(idle.first(), Some(2));
    }
}
