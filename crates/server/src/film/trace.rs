//! Scenes as events of Chrome's trace viewer (the JSON Array Format, which Perfetto reads).
use super::scene::{Bar, Scene, Unit};
use serde_json::{Value, json};

/// All scenes in one document: processes of several servers have numbers of their own.
pub(super) fn text(scenes: &[Scene]) -> String {
    let events: Vec<Value> = scenes.iter().flat_map(events).collect();
    format!("{}\n", json!({ "displayTimeUnit": "ns", "traceEvents": events }))
}

fn events(scene: &Scene) -> Vec<Value> {
    let units = scene.units.iter().enumerate();
    let mut events: Vec<Value> = units
        .map(|(at, unit)| {
            let name = json!({ "name": format!("{} ({})", unit.name, scene.architecture) });
            let (pid, tid) = place(unit, at);
            json!({ "name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": name })
        })
        .collect();
    events.extend(scene.bars.iter().map(|bar| of_bar(scene, bar)));
    for (at, handover) in scene.handovers.iter().enumerate() {
        let ends =
            [("s", handover.from_unit, handover.from_ns), ("f", handover.to_unit, handover.to_ns)];
        events.extend(ends.map(|(phase, unit, at_ns)| {
            let (pid, tid) = place(&scene.units[unit], unit);
            json!({
                "name": "hand-over", "cat": "hand-over", "ph": phase, "bp": "e", "pid": pid,
                "tid": tid, "ts": micros(at_ns), "id": format!("{}-{at}", scene.pid),
            })
        }));
    }
    events
}

fn of_bar(scene: &Scene, bar: &Bar) -> Value {
    let (pid, tid) = place(&scene.units[bar.unit], bar.unit);
    json!({
        "name": bar.what, "cat": if bar.is_slow { "slow" } else { "work" }, "ph": "X",
        "pid": pid, "tid": tid, "ts": micros(bar.from_ns), "dur": micros(bar.to_ns - bar.from_ns),
        "args": { "connection": bar.connection, "request": bar.request },
    })
}

/// Process and thread. A user thread or a helper has no number of the kernel's: its place among
/// all, which is below those.
fn place(unit: &Unit, at: usize) -> (u32, u32) {
    let is_thread = !unit.name.starts_with("user thread") && !unit.name.starts_with("helper ");
    let tid = if is_thread { unit.thread } else { u32::try_from(at).unwrap_or(0) };
    (unit.pid, tid)
}

/// Microseconds, with nanoseconds behind the point.
#[expect(clippy::cast_precision_loss, reason = "a film lasts for a minute at most")]
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1_000.0
}
