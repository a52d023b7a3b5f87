//! Counters of the kernel during a load.

use serde::{Deserialize, Serialize};
use std::fs;

/// Counters of this network namespace and machine, as they grew while the load ran. Traffic of
/// others counts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Connections that a listener's full queue turned away (`ListenOverflows`).
    pub listen_overflows: u64,
    /// Connections that listeners dropped for any reason (`ListenDrops`).
    pub listen_drops: u64,
    /// TCP segments sent again (`RetransSegs`).
    pub segments_again: u64,
    /// Processor time that the hypervisor gave to others, ticks of 10 ms, all processors
    /// (`/proc/stat`).
    pub steal_ticks: u64,
}

impl Kernel {
    /// Reads the counters of a process's network namespace, named as `/proc` names it; what cannot
    /// be read is 0.
    #[must_use]
    pub fn read_of(process: &str) -> Self {
        let table = |name| fs::read_to_string(format!("/proc/{process}/net/{name}"));
        let netstat = table("netstat").unwrap_or_default();
        let snmp = table("snmp").unwrap_or_default();
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let steal = stat.lines().next().and_then(|line| line.split_ascii_whitespace().nth(8));
        Self {
            listen_overflows: field(&netstat, "TcpExt:", "ListenOverflows"),
            listen_drops: field(&netstat, "TcpExt:", "ListenDrops"),
            segments_again: field(&snmp, "Tcp:", "RetransSegs"),
            steal_ticks: steal.and_then(|ticks| ticks.parse().ok()).unwrap_or(0),
        }
    }

    /// Adds the counters of another machine.
    pub(super) fn add(&mut self, other: &Self) {
        self.listen_overflows += other.listen_overflows;
        self.listen_drops += other.listen_drops;
        self.segments_again += other.segments_again;
        self.steal_ticks += other.steal_ticks;
    }

    pub(super) fn until_now(self) -> Self {
        let now = Self::read_of("self");
        Self {
            listen_overflows: now.listen_overflows.saturating_sub(self.listen_overflows),
            listen_drops: now.listen_drops.saturating_sub(self.listen_drops),
            segments_again: now.segments_again.saturating_sub(self.segments_again),
            steal_ticks: now.steal_ticks.saturating_sub(self.steal_ticks),
        }
    }
}

/// A value of a table whose names stand in one line and whose values in the next.
fn field(text: &str, table: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(table));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let at = names.split_ascii_whitespace().position(|found| found == name);
    let value = at.and_then(|at| values.split_ascii_whitespace().nth(at));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_by_name() {
        let text = "TcpExt: A ListenDrops B\nTcpExt: 1 22 3\nIpExt: A\nIpExt: 9\n";
        assert_eq!(field(text, "TcpExt:", "ListenDrops"), 22);
        assert_eq!(field(text, "IpExt:", "A"), 9);
        assert_eq!(field(text, "IpExt:", "B"), 0);
        assert_eq!(field("", "IpExt:", "A"), 0);
    }
}
