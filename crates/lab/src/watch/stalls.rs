//! Counters of the cycles in which a processor stood still, by cause ([G] figure 3), where it has
//! them.

use perf_event::Builder;
use perf_event::events::{Hardware, Raw};
use std::fs;

/// Nothing came from the front end; the back end took nothing; nothing was finished because of what
/// memory had not brought yet.
pub(crate) const NAMES: [&str; 3] = ["stalled_frontend", "stalled_backend", "stalled_memory"];

/// This processor's event for stalls on memory; None: none is known.
pub(crate) fn memory() -> Option<u64> {
    memory_of(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// What counts one of them, given this processor's event for stalls on memory; None: nothing does.
pub(crate) fn counter(name: &str, memory: Option<u64>) -> Option<Builder<'static>> {
    match name {
        "stalled_frontend" => Some(Builder::new(Hardware::STALLED_CYCLES_FRONTEND)),
        "stalled_backend" => Some(Builder::new(Hardware::STALLED_CYCLES_BACKEND)),
        _ => memory.map(|event| Builder::new(Raw::new(event))),
    }
}

/// What of it cannot be counted here, and why.
pub(crate) fn missing() -> Vec<String> {
    let memory = memory();
    let try_out = |name: &str| {
        let why = match counter(name, memory) {
            None => NO_EVENT.to_owned(),
            Some(builder) => builder.build().err()?.to_string(),
        };
        Some(format!("{name}: {why}"))
    };
    NAMES.into_iter().filter_map(try_out).collect()
}

/// Why stalls on memory are not counted where nobody told us how.
pub(crate) const NO_EVENT: &str = "no event of this processor is known for it";

/// The raw event (`perf list` of the kernel's tools) by what `/proc/cpuinfo` says.
fn memory_of(cpus: &str) -> Option<u64> {
    let of = |name: &str| {
        let value = |line: &str| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        };
        cpus.lines().find_map(value)
    };
    let (family, model): (u32, u32) = (of("cpu family")?.parse().ok()?, of("model")?.parse().ok()?);
    match (of("vendor_id")?.as_str(), family, model) {
        // CYCLE_ACTIVITY.STALLS_MEM_ANY: Skylake to Rocket Lake, and their servers.
        (
            "GenuineIntel",
            6,
            0x4e | 0x55 | 0x5e | 0x6a | 0x6c | 0x7d | 0x7e | 0x8c | 0x8d | 0x8e | 0x9e | 0xa5
            | 0xa6 | 0xa7,
        ) => Some(0x1400_14a3),
        // EX_NO_RETIRE.LOAD_NOT_COMPLETE: Zen 4 and Zen 5.
        ("AuthenticAMD", 25, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) | ("AuthenticAMD", 26, _) => {
            Some(0xa2d6)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_known_by_their_numbers() {
        let told = |vendor: &str, family: u32, model: u32| {
            memory_of(&format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\n\
                 model\t\t: {model}\nmodel name\t: 26\nstepping\t: 1\n"
            ))
        };
        assert_eq!(told("GenuineIntel", 6, 0x6a), Some(0x1400_14a3));
        assert_eq!(told("GenuineIntel", 6, 0x8f), None, "Sapphire Rapids counts otherwise");
        assert_eq!(told("AuthenticAMD", 26, 2), Some(0xa2d6));
        assert_eq!(told("AuthenticAMD", 25, 0x11), Some(0xa2d6));
        assert_eq!(told("AuthenticAMD", 25, 1), None, "Zen 3");
        assert_eq!((told("other", 1, 1), memory_of("")), (None, None));
    }

    #[test]
    fn what_is_missing_is_told_by_name_and_with_the_reason() {
        let missing = missing();
        assert!(missing.iter().all(|line| NAMES.iter().any(|name| line.starts_with(name))));
        assert!(missing.iter().all(|line| line.len() > "stalled_frontend: ".len()), "{missing:?}");
        for (name, memory) in [("stalled_memory", None), ("stalled_memory", Some(0xa2d6))] {
            assert_eq!(counter(name, memory).is_some(), memory.is_some());
        }
    }
}
