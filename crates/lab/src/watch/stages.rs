//! What the stages of a pipeline counted: the slots of one name together.

use crate::record::Numbers;
use crate::stats::{deviation, mean};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The counters that are told of each stage, as `STAGE.COUNTER`.
const OWN: &str = "queue_puts queue_takes queue_visits queue_wait_ns queue_len_max queue_wakes \
    queue_refused merges stage_ns stage_refused decisions decisions_changed barrier_batches \
    barrier_ns threads_busy_ns threads_idle_ns threads_open_max";

/// What the threads of each stage have taken from its queues, by stage and slot.
pub(super) type Takes = BTreeMap<String, BTreeMap<u64, f64>>;

/// The slots of stages in what `regatta top` says: name, slot, counters.
fn slots(top: &Value) -> impl Iterator<Item = (&str, u64, &Map<String, Value>)> {
    top["workers"].as_array().into_iter().flatten().filter_map(|one| {
        let stage = one["role"].as_str().filter(|role| !role.is_empty())?;
        Some((stage, one["slot"].as_u64()?, one["counters"].as_object()?))
    })
}

/// The counters of all stages.
pub(super) fn counters(top: &Value) -> Numbers {
    let mut all = Numbers::new();
    for (stage, _, counters) in slots(top) {
        for name in OWN.split_whitespace() {
            let Some(value) = counters.get(name).and_then(Value::as_f64) else { continue };
            let sum = all.entry(format!("{stage}.{name}")).or_default();
            *sum = if name.ends_with("_max") { f64::max(*sum, value) } else { *sum + value };
        }
    }
    all
}

/// What the threads of all stages have taken. Queues are counted in slots without threads.
pub(super) fn takes(top: &Value) -> Takes {
    let mut all = Takes::new();
    for (stage, slot, counters) in slots(top) {
        let of = |name: &str| counters.get(name).and_then(Value::as_f64).unwrap_or_default();
        if of("threads_started") > 0.0 {
            all.entry(stage.to_owned()).or_default().insert(slot, of("queue_takes"));
        }
    }
    all
}

/// How unevenly the threads of each stage shared what it took (`STAGE.spread`): the standard
/// deviation of what each took, over the mean. Of stages with several slots of threads alone.
pub(super) fn spreads(before: &Takes, after: &Takes) -> Numbers {
    let of = |(stage, last): (&String, &BTreeMap<u64, f64>)| {
        let first = before.get(stage)?;
        let grown = last.iter().filter_map(|(slot, takes)| Some(takes - first.get(slot)?));
        let grown: Vec<f64> = grown.collect();
        let middle = mean(&grown);
        let is_spread = grown.len() > 1 && middle > 0.0;
        is_spread.then(|| (format!("{stage}.spread"), deviation(&grown) / middle))
    };
    after.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn slot(slot: u64, role: &str, started: u64, [takes, puts, most]: [u64; 3]) -> Value {
        let counters = json!({
            "threads_started": started, "queue_takes": takes, "queue_puts": puts,
            "queue_len_max": most,
        });
        json!({ "slot": slot, "role": role, "counters": counters })
    }

    #[test]
    fn slots_of_one_name_are_one_stage() {
        let top = json!({ "workers": [
            slot(0, "", 0, [9, 9, 9]),
            slot(1, "write", 0, [0, 50, 7]),
            slot(2, "write", 1, [30, 0, 0]),
            slot(3, "write", 2, [10, 0, 9]),
        ] });
        let counters = counters(&top);
        let of = |name: &str| counters.get(name).copied();
        assert_eq!((of("write.queue_takes"), of("write.queue_puts")), (Some(40.0), Some(50.0)));
        assert_eq!((of("write.queue_len_max"), of("write.merges")), (Some(9.0), None));
        assert!(counters.keys().all(|name| name.starts_with("write.")), "{counters:?}");
        assert!(super::counters(&Value::Null).is_empty());
    }

    #[test]
    fn the_spread_is_of_what_each_thread_took_meanwhile() {
        let at = |[one, other]: [u64; 2]| {
            takes(&json!({ "workers": [
                slot(1, "write", 0, [0, 500, 7]),
                slot(2, "write", 1, [one, 0, 0]),
                slot(3, "write", 1, [other, 0, 0]),
                slot(4, "read", 1, [9, 0, 0]),
            ] }))
        };
        let spread = |before, after| spreads(&at(before), &at(after)).get("write.spread").copied();
        assert_eq!(spread([100, 900], [200, 1_000]), Some(0.0), "equal, whatever was before");
        let uneven = spread([0, 0], [30, 10]).unwrap();
        assert!((uneven - 0.5_f64.sqrt()).abs() < 1e-9, "{uneven}");
        assert_eq!(spread([5, 5], [5, 5]), None, "nobody took anything");
    }
}
