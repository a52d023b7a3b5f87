//! Limits of the machine and the control group, and the defaults that follow from them.
use crate::{
    config::{
        options,
        raw::{Problem, Said},
    },
    messages,
};
use regatta_arch::{
    Architecture,
    layout::Layout,
    options::{Value, show_bytes},
    shared::SharedState,
};
use regatta_sys::{
    affinity,
    groups::{self, Group},
    limits::ThreadRoom,
};
use std::{fmt, path::Path};

const CACHE_KEY: &str = "cache.bytes_max";
const BODY_KEY: &str = "cache.body_bytes_max";
const CLEAR_BODY_KEY: &str = "cache.clear_body_bytes_max";
const SCHEDULERS_KEYS: [&str; 3] = ["fiber.schedulers", "coloured.loops", "staff.processes_min"];
/// Maximum of the option.
const SCHEDULERS_MAX: u64 = 1024;

const MIB: u64 = 1 << 20;

/// Share of the memory, one in this many, for caches and processes, unless configured. The rest is
/// for what no option bounds: connections, socket buffers, which the group pays, and bodies that
/// the cache has dropped while clients still receive them.
const MEMORY_SHARE: u64 = 2;

/// Memory of a process without its cache, bytes: measured in docs/memory.md, and page tables and
/// stacks of the kernel.
const PROCESS_BYTES: u64 = 2 * MIB;

/// Least memory of a cache, bytes: enough for the names of a small site.
const CACHE_BYTES_MIN: u64 = MIB / 4;

/// Resources that a server may use.
#[derive(Clone, Debug)]
pub struct Allowance {
    /// Descriptors that each worker may have open.
    pub descriptors_max: u64,
    /// Processors that it may run on, neighbours next to each other; at least one.
    pub cpus: Vec<usize>,
    /// Memory of the machine, bytes.
    pub machine_bytes: u64,
    /// Limits of threads.
    pub threads: ThreadRoom,
    /// Limits of its control group.
    pub group: Group,
}

impl Allowance {
    /// Reads the resources of this process, with this many descriptors.
    #[must_use]
    pub fn read_own(descriptors_max: u64) -> Self {
        // A machine with more processors than a set has room for counts as one with a single
        // processor.
        let cpus = affinity::allowed().unwrap_or_else(|_| vec![0]);
        let group = groups::read_own();
        Self {
            descriptors_max,
            cpus: affinity::neighbours(cpus, Path::new(affinity::CPUS)),
            machine_bytes: groups::machine_bytes(),
            threads: ThreadRoom::read_own(group.tasks.as_ref()),
            group,
        }
    }

    /// Number of processors that may be busy at once, and its source.
    #[must_use]
    pub fn processors(&self) -> (usize, String) {
        let cpus = self.cpus.len();
        match &self.group.quota {
            Some(quota) if quota.processors() < cpus => {
                let (time, period) = (quota.time_us, quota.period_us);
                let from = format!("{time} of {period} us",);
                (quota.processors(), in_file(&quota.file, &from))
            }
            _ => (cpus, format!("{cpus} in the affinity mask")),
        }
    }

    /// Memory, bytes, and its source.
    #[must_use]
    pub fn memory(&self) -> (u64, String) {
        match &self.group.memory {
            Some(memory) if memory.bytes < self.machine_bytes => {
                (memory.bytes, in_file(&memory.file, &mebibytes(memory.bytes)))
            }
            _ => (self.machine_bytes, format!("the machine's {}", mebibytes(self.machine_bytes))),
        }
    }
}

/// `memory.max 120 MiB in /sys/fs/cgroup/a`.
fn in_file(file: &Path, value: &str) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let folder = file.parent().unwrap_or(Path::new("/"));
    format!("{name} {value} in {}", folder.display())
}

fn mebibytes(bytes: u64) -> String {
    if bytes < MIB { show_bytes(bytes) } else { format!("{} MiB", bytes / MIB) }
}

/// Value that was left open, and the source of the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Name of the option, or `workers`.
    pub key: &'static str,
    /// Value, as on the command line.
    pub value: String,
    /// Source of the choice.
    pub from: String,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} ({})", self.key, self.value, self.from)
    }
}

/// Lists values for the first line of the error log. Neighbours with one source share it.
pub(crate) fn listed(chosen: &[Chosen]) -> String {
    let group = |group: &[Chosen]| {
        let values = group.iter().map(|one| format!("{}={}", one.key, one.value));
        format!("{} ({})", values.collect::<Vec<_>>().join(", "), group[0].from)
    };
    let groups = chosen.chunk_by(|one, next| one.from == next.from).map(group);
    groups.collect::<Vec<_>>().join(", ")
}

/// Lists values that the architecture's name has set, and nothing else.
pub(super) fn list_named(said: &Said, architecture: &Architecture) -> Vec<Chosen> {
    let holds = |(key, value): &&(&'static str, &'static str)| {
        let spec = options::find(key).expect("architectures set options of the table");
        !said.is_said(key) && said.settings.get(key) == spec.kind.parse(value).ok().as_ref()
    };
    let from = format!("by {}", architecture.name);
    let chosen = |(key, value): &(&'static str, &'static str)| Chosen {
        key,
        value: (*value).to_owned(),
        from: from.clone(),
    };
    architecture.axes.iter().filter(holds).map(chosen).collect()
}

/// Gives each processor a kernel thread with user threads or an event loop, or a process, if their
/// number was left open.
pub(super) fn schedulers(
    said: &mut Said,
    architecture: &Architecture,
    allowance: &Allowance,
) -> Option<Chosen> {
    let key = SCHEDULERS_KEYS.into_iter().find(|key| architecture.driver.takes(key))?;
    if said.settings.number(key) > 0 {
        return None;
    }
    let (processors, from) = allowance.processors();
    let count = (processors as u64).min(SCHEDULERS_MAX);
    said.choose(key, Value::Number(count));
    Some(Chosen { key, value: count.to_string(), from })
}

/// Number of workers, if it was left open.
pub(super) fn workers(
    said: &Said,
    architecture: &Architecture,
    allowance: &Allowance,
    layout: &Layout,
) -> Option<Chosen> {
    let counted = ["event.copies", "event.processes", "uring.processes"].into_iter();
    let mut counted = counted.filter(|key| architecture.driver.takes(key));
    let open = counted.any(|key| said.settings.number(key) == 0);
    open.then(|| Chosen {
        key: "workers",
        value: layout.shares.len().to_string(),
        from: allowance.processors().1,
    })
}

/// The limit of bodies for clients in the clear, if only the one for all has been set, by the
/// configuration or the architecture's name: then it holds for them too.
pub(super) fn clear_bodies(said: &mut Said) -> Option<Chosen> {
    let bytes = said.settings.number(BODY_KEY);
    let is_set = said.is_said(BODY_KEY) || options::default(BODY_KEY) != Value::Number(bytes);
    let is_open = !said.is_said(CLEAR_BODY_KEY) && said.settings.number(CLEAR_BODY_KEY) < bytes;
    (is_set && is_open).then(|| {
        said.choose(CLEAR_BODY_KEY, Value::Number(bytes));
        let from = format!("as {BODY_KEY}");
        Chosen { key: CLEAR_BODY_KEY, value: show_bytes(bytes), from }
    })
}

/// Divides memory among caches without a configured size. A warning, if the configured size exceeds
/// the memory.
pub(super) fn cache(
    said: &mut Said,
    allowance: &Allowance,
    workers: usize,
) -> (Option<Chosen>, Option<Problem>) {
    if !said.settings.flag("cache.enabled") {
        return (None, None);
    }
    let workers = workers as u64;
    // Entries that workers unpack from a shared cache may take as much again.
    let caches = if SharedState::is_wanted(&said.settings) { 2 } else { workers };
    let (memory, from) = allowance.memory();
    let room = (memory / MEMORY_SHARE).saturating_sub(workers.saturating_mul(PROCESS_BYTES));
    let part = match room / caches.max(1) {
        part if part < MIB => part,
        part => part / MIB * MIB,
    };
    let most = match options::default(CACHE_KEY) {
        Value::Number(most) if said.is_said(CACHE_KEY) => most,
        // An architecture may have its own default.
        _ => said.settings.number(CACHE_KEY),
    };
    let default = part.clamp(CACHE_BYTES_MIN, most.max(CACHE_BYTES_MIN));
    let all_caches = if caches == 1 { "1 cache".to_owned() } else { format!("{caches} caches") };
    if !said.is_said(CACHE_KEY) {
        said.choose(CACHE_KEY, Value::Number(default));
        let from = match caches {
            1 => format!("of {from}"),
            _ => format!("of {from}, for {all_caches}"),
        };
        return (Some(Chosen { key: CACHE_KEY, value: show_bytes(default), from }), None);
    }
    let each = said.settings.number(CACHE_KEY);
    let all = each.saturating_mul(caches);
    let warning = (all > memory).then(|| {
        let message = format!(
            "{all_caches} of {} exceed {from}: a worker that uses so much is killed",
            show_bytes(each)
        );
        let default = show_bytes(default);
        said.problem(messages::CACHE_TOO_LARGE, CACHE_KEY, &message)
            .hint(format!("the default here is {default}"))
    });
    (None, warning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check::{
        Config,
        tests::{roomy, understood},
    };
    use regatta_sys::groups::{Memory, Quota};

    fn config(sets: &[&str], memory_mib: Option<u64>, quota: Option<(u64, u64)>) -> Config {
        let group = Group {
            memory: memory_mib
                .map(|mib| Memory { bytes: mib * MIB, file: "/g/a/memory.max".into() }),
            quota: quota.map(|(time_us, period_us)| Quota {
                time_us,
                period_us,
                file: "/g/cpu.max".into(),
            }),
            tasks: None,
        };
        understood(sets, &Allowance { cpus: vec![0, 2, 1, 3], group, ..roomy() }).unwrap()
    }

    fn chosen(config: &Config) -> Vec<String> {
        config.chosen.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn caches_share_what_memory_there_is() {
        const KNOT: &str = "server.architecture=knot-c";
        const SHARED: &str = "event.share=descriptors-and-cache";
        let [one, two, many] = ["event.processes=1", "event.processes=2", "event.processes=100"];
        for (sets, memory_mib, expect) in [
            (&[two][..], Some(120), "28 MiB (of memory.max 120 MiB in /g/a, for 2 caches)"),
            (&[one], Some(120), "58 MiB (of memory.max 120 MiB in /g/a)"),
            (&[], Some(120), "13 MiB (of memory.max 120 MiB in /g/a, for 4 caches)"),
            (&[], None, "256 MiB (of the machine's 16384 MiB, for 4 caches)"),
            // The largest number of cgroups version 1, and more than the machine has.
            (&[], Some(1 << 43), "256 MiB (of the machine's 16384 MiB, for 4 caches)"),
            (&[many], None, "79 MiB (of the machine's 16384 MiB, for 100 caches)"),
            (&[many, SHARED], Some(1024), "156 MiB (of memory.max 1024 MiB in /g/a, for 2 caches)"),
            // Processes alone take more than half: the least remains.
            (&[many], Some(120), "256 KiB (of memory.max 120 MiB in /g/a, for 100 caches)"),
            (&[one], Some(0), "256 KiB (of memory.max 0 B in /g/a)"),
            (&[KNOT], None, "1000 MiB (of the machine's 16384 MiB)"),
            (&[KNOT], Some(1002), "499 MiB (of memory.max 1002 MiB in /g/a)"),
        ] {
            let config = config(sets, memory_mib, None);
            let expect = format!("cache.bytes_max={expect}");
            assert!(chosen(&config).contains(&expect), "{expect}: {:?}", config.chosen);
            assert_eq!(config.warnings, []);
        }
        let off = config(&["cache.enabled=false"], Some(120), None);
        assert!(off.chosen.iter().all(|chosen| chosen.key != CACHE_KEY));
    }

    #[test]
    fn a_limit_of_bodies_that_is_set_holds_in_the_clear_too() {
        for (sets, expect) in [
            (&[][..], "32768"),
            (&["cache.body_bytes_max=64KiB"], "65536"),
            (&["cache.body_bytes_max=1MiB"], "1048576"),
            (&["cache.body_bytes_max=0"], "32768"),
            (&["cache.body_bytes_max=1MiB", "cache.clear_body_bytes_max=8KiB"], "8192"),
            (&["server.architecture=knot-c"], "67108864"),
            (&["server.architecture=uring"], "65536"),
        ] {
            let bytes = config(sets, None, None).settings().number(CLEAR_BODY_KEY);
            assert_eq!(bytes.to_string(), expect, "{sets:?}");
        }
        let set = config(&["cache.body_bytes_max=1MiB"], None, None);
        let expect = "cache.clear_body_bytes_max=1 MiB (as cache.body_bytes_max)";
        assert!(chosen(&set).contains(&expect.to_owned()), "{:?}", set.chosen);
    }

    #[test]
    fn a_cache_that_is_larger_than_memory_is_warned_of() {
        let sets = ["event.processes=2", "cache.bytes_max=64MiB"];
        let large = config(&sets, Some(120), None);
        assert_eq!(large.settings().number(CACHE_KEY), 64 * MIB, "it is as it was set");
        let warnings: Vec<_> = large.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            ["--set cache.bytes_max=64MiB: cache.bytes_max: 2 caches of 64 MiB exceed \
 memory.max 120 MiB in /g/a: a worker that uses so much is killed\n  \
              hint: the default here is 28 MiB"]
        );
        assert_eq!(config(&sets, Some(128), None).warnings, []);
    }

    #[test]
    fn schedulers_follow_mask_and_quota() {
        const MEANS: &str = "server.architecture=means";
        const COLOURED: &str = "server.architecture=coloured";
        for (sets, quota, expect) in [
            (&[MEANS][..], None, Some("fiber.schedulers=4 (4 in the affinity mask)")),
            (
                &[MEANS],
                Some((250_000, 100_000)),
                Some("fiber.schedulers=3 (cpu.max 250000 of 100000 us in /g)"),
            ),
            (&[MEANS, "fiber.schedulers=2"], None, None),
            (&["server.architecture=knot-c"], None, None),
            (&[COLOURED], None, Some("coloured.loops=4 (4 in the affinity mask)")),
            (&[COLOURED, "coloured.loops=3"], None, None),
        ] {
            let config = config(sets, None, quota);
            let chosen = chosen(&config);
            let is_coloured = sets[0] == COLOURED;
            let key = SCHEDULERS_KEYS[usize::from(is_coloured)];
            let found = chosen.iter().find(|chosen| chosen.starts_with(key));
            assert_eq!(found.map(String::as_str), expect);
            // Each counts in its own slot, and the helpers in another.
            let helpers = u64::from(!is_coloured);
            assert_eq!(config.layout.slots() as u64, config.settings().number(key) + helpers);
        }
    }

    #[test]
    fn workers_follow_mask_and_quota() {
        for (quota, expect) in [
            (None, "workers=4 (4 in the affinity mask)"),
            (Some((50_000, 100_000)), "workers=1 (cpu.max 50000 of 100000 us in /g)"),
            (Some((250_000, 100_000)), "workers=3 (cpu.max 250000 of 100000 us in /g)"),
            (Some((900_000, 100_000)), "workers=4 (4 in the affinity mask)"),
        ] {
            let config = config(&[], None, quota);
            assert_eq!(chosen(&config)[0], expect);
            assert_eq!(expect[8..9], config.layout.shares.len().to_string());
        }
        let asked = config(&["event.processes=3"], None, Some((50_000, 100_000)));
        assert_eq!(asked.layout.shares.len(), 3);
        assert!(asked.chosen.iter().all(|chosen| chosen.key != "workers"));
    }

    #[test]
    fn what_a_replica_sets_is_said_and_can_be_set_back() {
        for name in ["symped-b", "shared-symped-b", "accept25+$"] {
            let named = format!("server.architecture={name}");
            let replica = config(&[&named], None, None);
            let said = chosen(&replica);
            for key in ["cache.revalidate_ms=never", "content.precompressed=false"] {
                let expect = format!("{key} (by {name})");
                assert!(said.contains(&expect), "{expect}: {said:?}");
            }
            assert_eq!(replica.settings().number("cache.revalidate_ms"), u64::MAX);
            let sets = ["cache.revalidate_ms=1000", "content.precompressed=true", &named];
            let user = config(&sets, None, None);
            assert_eq!(user.settings().number("cache.revalidate_ms"), 1000);
            assert!(user.settings().flag("content.precompressed"));
            let said = chosen(&user);
            assert!(!said.iter().any(|chosen| chosen.contains("revalidate")), "{said:?}");
        }
        for name in ["sped", "symped", "shared-symped", "n-copy", "amped", "laio", "auto", "uring"]
        {
            let plain = config(&[&format!("server.architecture={name}")], None, None);
            assert_eq!(plain.settings().number("cache.revalidate_ms"), 1000, "{name}");
            assert!(plain.settings().flag("content.precompressed"), "{name}");
        }
    }

    #[test]
    fn descriptors_are_chosen_and_said() {
        let config = config(&["event.processes=2"], None, None);
        let said = chosen(&config);
        for expect in [
            "cache.descriptors_max=4984 (RLIMIT_NOFILE 20000)",
            "limits.connections_max=29904 (RLIMIT_NOFILE 20000)",
        ] {
            assert!(said.iter().any(|chosen| chosen == expect), "{expect}: {said:?}");
        }
        let both = "cache.descriptors_max=4984, limits.connections_max=29904 (RLIMIT_NOFILE 20000)";
        assert!(listed(&config.chosen).contains(both), "{}", listed(&config.chosen));
    }
}
