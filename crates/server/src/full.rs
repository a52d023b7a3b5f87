//! Reports in the error log that workers are full.
use regatta_arch::Env;
use regatta_metrics::Counter;
use regatta_op::Tick;

/// Time between checks by the master, milliseconds.
pub(crate) const LOOK_MS: u64 = 1_000;
/// Time between two lines, milliseconds.
const QUIET_MS: u64 = 10_000;

/// Sums already reported.
#[derive(Debug, Default)]
pub(crate) struct Full {
    /// Idle connections that were closed for new ones, and times that new ones had to wait.
    said: [u64; 2],
    quiet_until: Tick,
}

impl Full {
    /// The line to write now, if any.
    pub(crate) fn line(&mut self, env: &Env, now: Tick) -> Option<String> {
        let sum = |counter| env.arena.slots().map(|slot| slot.get(counter)).sum();
        let sums = [sum(Counter::ClosedDisplaced), sum(Counter::AcceptSkippedFull)];
        let [closed, waited] = self.since_last(sums, now)?;
        let most: usize = env.shares.iter().map(|share| share.connections_max).sum();
        let who = if env.shares.len() > 1 { "its share of " } else { "" };
        let raise = match env.settings.number("limits.connections_max") {
            0 => "the limit on descriptors (ulimit -n, LimitNOFILE=)",
            _ => "limits.connections_max",
        };
        Some(format!(
            "it has {who}{most} connections; {closed} idle connections were closed for \
             new ones, and {waited} times new ones had to wait. Raise {raise}, or lower \
             limits.idle_ms_max"
        ))
    }

    /// Counts since the last line, if a line is due.
    fn since_last(&mut self, sums: [u64; 2], now: Tick) -> Option<[u64; 2]> {
        if now < self.quiet_until || sums == self.said {
            return None;
        }
        self.quiet_until = now.after(QUIET_MS);
        let before = std::mem::replace(&mut self.said, sums);
        Some([0, 1].map(|at| sums[at].saturating_sub(before[at])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_at_once_and_then_at_most_every_ten_seconds() {
        let mut full = Full::default();
        let mut at = |ms, sums| full.since_last(sums, Tick(ms));
        assert_eq!(at(5, [0, 0]), None);
        assert_eq!(at(1_000, [3, 0]), Some([3, 0]));
        assert_eq!(at(2_000, [9, 1]), None);
        assert_eq!(at(10_999, [9, 2]), None);
        assert_eq!(at(11_000, [10, 2]), Some([7, 2]));
        assert_eq!(at(30_000, [10, 2]), None, "nothing has happened since");
    }
}
