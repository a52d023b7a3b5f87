//! What makes a trial worthless. It stays on record with the reasons, and is made again.

use crate::spec::{Guards, Machine};
use crate::watch::Numbers;
use regatta_load::engine::{Fate, Outcome};

/// The reason of a trial in which the server answered nothing well.
pub(crate) const SILENT: &str = "not one good answer";

/// Every reason why a trial does not count; none: it does.
pub(crate) fn reasons(
    outcome: &Outcome,
    metrics: &Numbers,
    guards: &Guards,
    machine: &Machine,
) -> Vec<String> {
    let mut reasons = Vec::new();
    let number = |name: &str| metrics.get(name).copied().unwrap_or_default();
    let mut over = |name: &str, limit: f64, what: &str, factor: f64, unit: &str| {
        let value = number(name);
        if value > limit {
            let (value, limit) = (value * factor, limit * factor);
            reasons.push(format!("{what}: {value:.2}{unit}, over {limit:.2}{unit}"));
        }
    };
    over("lag_p99_ms", guards.lag_p99_ms_max, "the generator was late (p99)", 1.0, " ms");
    over("client_cpu", guards.client_busy_max, "the generator was busy", 100.0, " %");
    over("steal", guards.steal_max, "the hypervisor took time", 100.0, " %");
    over("error_share", guards.errors_max, "requests failed", 100.0, " %");
    if !machine.server_cpus.is_empty() {
        over("foreign", guards.foreign_max, "others used the server's processor", 100.0, " %");
        over("kept", guards.foreign_max, "others kept the server from its processor", 100.0, " %");
    }
    for fate in [Fate::NoDescriptor, Fate::NoAddress] {
        let refused = outcome.fates.get(fate);
        if refused > 0 {
            reasons.push(format!("the generator ran out: {refused} requests {}", fate.name()));
        }
    }
    let wrong: u64 =
        Fate::ALL.into_iter().filter(|fate| fate.is_lie()).map(|f| outcome.fates.get(f)).sum();
    if wrong > 0 {
        reasons.push(format!("{wrong} replies were wrong"));
    }
    if outcome.fates.get(Fate::Good) == 0 {
        reasons.push(SILENT.to_owned());
    }
    if outcome.interrupted {
        reasons.push("interrupted".to_owned());
    }
    reasons
}
