//! Observations of servers and the machine over a stretch of time: processor time, counters,
//! instructions.

pub mod cores;
pub(crate) mod perf;
pub mod perf_script;
mod usage;

pub(crate) use usage::Samples;

use crate::record::Numbers;
use crate::servers::process::{GONE, TASKS_MAX, output_of, threads};
use crate::stats::{count, deviation, mean};
use perf_event::events::{Hardware, Raw, Software};
use perf_event::{Builder, Counter, ReadFormat};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io};
use usage::{Processors, Tasks, Used};

/// The clock ticks of `/proc`, per second (`USER_HZ`, 100 on every Linux that we run on).
pub(crate) const TICKS: f64 = 100.0;

/// Numbers that a measurement in which tasks ended cannot give.
const ENDED: &str = "voluntary_switches, involuntary_switches, disk_wait_s: tasks ended meanwhile";

/// A reading of numbers that take no time to read, so that all are of one moment.
#[derive(Debug)]
struct Reading {
    at: Instant,
    /// Use by the server's processes; with its tasks', once they are read.
    used: Used,
    /// Processor time of its control group, seconds; None: it has none of its own.
    group_s: Option<f64>,
    processors: Processors,
    counters: Numbers,
    /// Tasks that each thread of its stages took from the queue.
    takes: Takes,
    /// Workers that have been replaced; None: it has no counters.
    replaced: Option<u64>,
}

const HARDWARE: [&str; 5] =
    ["user_instructions", "kernel_instructions", "cycles", "task_ns", "switches"];

/// Counts of each task, by the processor and the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counting {
    /// [`HARDWARE`]; without it, nothing.
    pub(crate) counters: bool,
    pub(crate) stalls: bool,
    /// Whether to measure how fast the server's processors stream through memory, too
    /// ([`cores::mbyte_per_s`]).
    pub(crate) streaming: bool,
}

/// A stretch of time that is being watched.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    regatta: Option<&'a Path>,
    group: Option<PathBuf>,
    first: Reading,
    /// Time that each task had run and waited, and when that was read.
    tasks: (Instant, Tasks),
    /// Use by every process and task when last seen, ended ones included.
    used: Used,
    hardware: Vec<(&'static str, Counter)>,
    missing: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The server's processor time, switches and hardware counters.
    pub(crate) server: Numbers,
    /// Processor time by its control group's account, seconds; None: it has none of its own.
    pub(crate) group_s: Option<f64>,
    /// The server's own counters: what they grew by.
    pub(crate) counters: Numbers,
    /// Memory, files and connections that the server held at its end, however they grew.
    pub(crate) held: Numbers,
    /// Connections that its listeners dropped, from the load's start; None if unknown.
    pub(crate) drops: Option<u64>,
    /// Processes that the kernel killed for want of memory, from the server's start; None if
    /// unknown.
    pub(crate) out_of_memory: Option<u64>,
    /// Workers that its master has replaced since it started; None: it has no counters.
    pub(crate) replaced: Option<u64>,
    /// Processes that it had at the beginning and not at the end.
    pub(crate) gone: usize,
    /// Whether replies were to be compared with what they should be.
    pub(crate) compares: bool,
    /// Whether each of its `wait_changes` is a system call: it is with epoll.
    pub(crate) changes_are_calls: bool,
    pub(crate) environment: Numbers,
    /// Distance of the server's and the client's processors before the load and after it: the round
    /// trip of a cache line, nanoseconds; None if unknown.
    pub(crate) apart_ns: [Option<f64>; 2],
    pub(crate) seconds: f64,
    /// Second by second, if it was sampled ([`crate::watch::usage::Samples::seconds`]).
    pub(crate) seconds_sampled: Vec<(f64, f64)>,
    /// Share of the server's processors that other tasks used, at least.
    pub(crate) foreign: f64,
    /// Share of the time for which others kept the server from its processors, at least.
    pub(crate) kept: Option<f64>,
    /// Share of all processors that the hypervisor took.
    pub(crate) steal: f64,
    /// Activities of the server's processors, as shares of their time.
    pub(crate) shares: Numbers,
    /// Numbers that cannot be counted here, and why.
    pub(crate) missing: Vec<String>,
}

impl Seen {
    /// Leaves out what the environment's own task took on purpose: it ran as a program for this
    /// share of the time of each of the server's processors.
    pub(crate) fn leave_out(&mut self, taken: f64) {
        self.leave_out_load(taken);
        self.shares = usage::without(&self.shares, taken);
    }

    /// Leaves out the time of the server's processors that a load took. The shares stay those of
    /// both: the owner of an interrupt is unknown.
    pub(crate) fn leave_out_load(&mut self, held: f64) {
        self.foreign = (self.foreign - held).max(0.0);
        self.kept = self.kept.map(|kept| (kept - held).max(0.0));
    }

    /// Treats the observations as those of a load of `seconds`, before and after which the server
    /// had nothing to do. Use by others was theirs all the time.
    pub(crate) fn of_a_load(&mut self, seconds: f64) {
        self.kept = self.kept.map(|kept| kept * self.seconds / seconds);
        self.seconds = seconds;
    }

    /// Takes the server's word for how long its loops waited for a disk that it simulates itself:
    /// to the kernel that is sleep.
    pub(crate) fn stand_in(&mut self) {
        const WAITS: [&str; 3] = ["stall_open_ns", "stall_read_ns", "stall_send_ns"];
        let waits = WAITS.iter().filter_map(|name| self.counters.get(*name));
        self.server.insert("disk_wait_s".to_owned(), waits.sum::<f64>() / 1e9);
        self.shares.remove("waiting_share");
    }
}

impl<'a> Watch<'a> {
    /// Starts to watch the processes `pids`; the first is the server's master. With `regatta`, its
    /// counters are read as `regatta top` reads them; `group` contains the server and nothing else.
    pub(crate) fn start(
        pids: &[u32],
        regatta: Option<&'a Path>,
        group: Option<PathBuf>,
        counting: Counting,
    ) -> Self {
        // Slow readings are made before the stretch, and after it at its end.
        let (mut hardware, missing) = attach(pids, counting);
        let used = Used::of_tasks(pids);
        let tasks = (Instant::now(), Tasks::of(pids));
        let mut first = Reading::take(pids, regatta, group.as_deref());
        first.used.saw(&used);
        for (_, counter) in &mut hardware {
            // A counter that cannot be enabled reads 0 and is left out then.
            let _ = counter.enable();
        }
        let used = first.used.clone();
        Self { regatta, group, first, tasks, used, hardware, missing }
    }

    /// Takes note of a look in between: of tasks that will not be there at the end.
    pub(crate) fn saw(&mut self, used: &Used) {
        self.used.saw(used);
    }

    /// Ends the stretch. `pids` are those of now, and `cpus` the server's.
    pub(crate) fn stop(self, pids: &[u32], cpus: &[usize]) -> Seen {
        let Self { regatta, group, first, tasks, mut used, mut hardware, mut missing } = self;
        let mut last = Reading::take(pids, regatta, group.as_deref());
        for (_, counter) in &mut hardware {
            let _ = counter.disable();
        }
        last.used.saw(&Used::of_tasks(pids));
        used.saw(&last.used);
        let (tasks_at, tasks) = tasks;
        let kept = tasks.kept(&Tasks::of(pids), tasks_at.elapsed().as_secs_f64(), cpus.len());
        let (mut server, ended) = used.since(&first.used, &last.used);
        let mut counted = Numbers::new();
        for (name, mut counter) in hardware {
            if let Some(total) = read(&mut counter) {
                *counted.entry(name.to_owned()).or_default() += total;
            }
        }
        // Counters of the processor and the kernel replace numbers that both have.
        server.extend(counted);
        if ended > 0 {
            missing.push(ENDED.to_owned());
        }
        let seconds = (last.at - first.at).as_secs_f64();
        let group_s = last.group_s.zip(first.group_s).map(|(last, first)| last - first);
        let own = group_s.or_else(|| server.get("cpu_s").copied()).unwrap_or_default();
        let (mut used, mut stolen) = (0.0, 0.0);
        for (cpu, ticks) in &last.processors {
            let before = first.processors.get(cpu).copied().unwrap_or_default();
            stolen += ticks.steal() - before.steal();
            if cpus.contains(cpu) {
                used += ticks.busy() - before.busy();
            }
        }
        if !server.contains_key("read_bytes") {
            missing.push("blocks_in: /proc/PID/io cannot be read".to_owned());
        }
        let all = seconds * TICKS;
        let mut held = gauges(&last.counters);
        held.extend(usage::held(pids));
        let mut counters = grown(&first.counters, &last.counters);
        counters.extend(spreads(&first.takes, &last.takes));
        Seen {
            held,
            counters,
            group_s,
            replaced: last.replaced,
            gone: first.used.gone(&last.used),
            changes_are_calls: true,
            foreign: (used - own * TICKS).max(0.0) / (all * count(cpus.len().max(1))),
            kept,
            steal: stolen / (all * count(last.processors.len().max(1))),
            shares: usage::shares(&first.processors, &last.processors, cpus),
            server,
            seconds,
            missing,
            ..Seen::default()
        }
    }
}

impl Reading {
    fn take(pids: &[u32], regatta: Option<&Path>, group: Option<&Path>) -> Self {
        let top = match (regatta, pids.first()) {
            (Some(regatta), Some(pid)) => top(regatta, *pid),
            _ => Value::Null,
        };
        let (counters, takes, replaced) = (counters(&top), stage_takes(&top), replaced(&top));
        let (used, group_s) = (Used::of_processes(pids), group.and_then(usage::of_group));
        let processors = usage::now();
        Self { at: Instant::now(), used, group_s, processors, counters, takes, replaced }
    }
}

pub(crate) fn grown(before: &Numbers, after: &Numbers) -> Numbers {
    let by = |(name, value): (&String, &f64)| {
        // Marks do not grow: their last value counts.
        let before = if name.ends_with("_max") { 0.0 } else { *before.get(name)? };
        Some((name.clone(), value - before))
    };
    after.iter().filter_map(by).collect()
}

/// Output of `regatta top`; null if there is none.
fn top(regatta: &Path, pid: u32) -> Value {
    let pid = pid.to_string();
    let told = regatta.to_str().and_then(|program| {
        output_of(&[program, "top", "--pid", &pid, "--once", "--interval", "0", "--json"])
    });
    serde_json::from_str(&told.unwrap_or_default()).unwrap_or_default()
}

fn counters(top: &Value) -> Numbers {
    let counters = top["total"]["counters"].as_object();
    let number = |(name, value): (&String, &Value)| Some((name.clone(), value.as_f64()?));
    let all = counters.into_iter().flatten().filter_map(number);
    all.chain(stage_counters(top)).collect()
}

/// Counters of the regatta server whose master is `pid`; none if it does not report them.
pub(crate) fn counters_of(regatta: &Path, pid: u32) -> Numbers {
    counters(&top(regatta, pid))
}

/// Workers of the regatta server whose master is `pid`; None: it does not say.
pub(crate) fn workers(regatta: &Path, pid: u32) -> Option<u64> {
    let workers = top(regatta, pid)["workers"].as_array()?.len();
    Some(workers as u64).filter(|workers| *workers > 0)
}

/// Workers beyond the first in each slot of what `regatta top` says; None: it says nothing.
fn replaced(top: &Value) -> Option<u64> {
    let workers = top["workers"].as_array()?;
    Some(workers.iter().filter_map(|one| one["incarnation"].as_u64()?.checked_sub(1)).sum())
}

/// Gauges of a fresh server, from its counters.
fn gauges(counters: &Numbers) -> Numbers {
    let gauges = [
        ("cache_fds", "cache_fds_added", "cache_fds_removed"),
        ("cache_entries", "cache_entries_added", "cache_entries_removed"),
        ("connections_open", "connections_opened", "connections_closed"),
    ];
    let held = |(name, more, less): (&str, &str, &str)| {
        Some((name.to_owned(), counters.get(more)? - counters.get(less)?))
    };
    gauges.into_iter().filter_map(held).collect()
}

/// Counters of the processor on every thread of `pids`; what the machine lacks is said once. At
/// most three hardware events at a time, so that they need not take turns, unless stalls are asked
/// for.
fn attach(pids: &[u32], counting: Counting) -> (Vec<(&'static str, Counter)>, Vec<String>) {
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    if !counting.counters {
        return (all, missing);
    }
    let tasks = threads(pids);
    if tasks.len() > TASKS_MAX {
        let (names, tasks) = (HARDWARE.join(", "), tasks.len());
        missing.push(format!("{names}: {tasks} tasks are more than are counted ({TASKS_MAX})"));
        return (all, missing);
    }
    let memory = counting.stalls.then(stall_event).flatten();
    let stalled = STALLS.into_iter().filter(|_| counting.stalls);
    for name in HARDWARE.into_iter().chain(stalled) {
        let open = |thread: i32| -> io::Result<Counter> {
            let mut builder = match name {
                _ if STALLS.contains(&name) => {
                    stall_counter(name, memory).ok_or_else(|| io::Error::other(NO_EVENT))?
                }
                "cycles" => Builder::new(Hardware::CPU_CYCLES),
                "task_ns" => Builder::new(Software::TASK_CLOCK),
                // Includes tasks that start and end meanwhile: a child's count is its parent's.
                "switches" => Builder::new(Software::CONTEXT_SWITCHES),
                _ => Builder::new(Hardware::INSTRUCTIONS),
            };
            builder.exclude_user(name == "kernel_instructions");
            builder.exclude_kernel(name == "user_instructions").exclude_hv(true);
            builder.observe_pid(thread).any_cpu().inherit(true);
            let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
            builder.read_format(times).build()
        };
        match each_task(tasks.iter().copied(), open) {
            Ok(counters) => all.extend(counters.into_iter().map(|counter| (name, counter))),
            Err(error) => missing.push(format!("{name}: {error}")),
        }
    }
    (all, missing)
}

/// A counter of each task. One that has just ended has nothing more to count.
fn each_task(
    tasks: impl IntoIterator<Item = i32>,
    open: impl Fn(i32) -> io::Result<Counter>,
) -> io::Result<Vec<Counter>> {
    let opened = tasks.into_iter().map(open);
    opened.filter(|one| !matches!(one, Err(why) if why.raw_os_error() == Some(GONE))).collect()
}

/// A counter's total, scaled up if it took turns with others.
fn read(counter: &mut Counter) -> Option<f64> {
    let read = counter.read_full().ok()?;
    let enabled = read.time_enabled()?.as_secs_f64();
    let running = read.time_running()?.as_secs_f64();
    let counted = read.count() as f64;
    Some(if running > 0.0 { counted * enabled / running } else { 0.0 })
}

/// The counters of each stage that are kept, as `STAGE.COUNTER`.
const STAGE_COUNTERS: &str = "queue_puts queue_takes queue_visits queue_wait_ns queue_len_max \
    queue_wakes queue_refused merges stage_ns stage_refused decisions decisions_changed \
    barrier_batches barrier_ns threads_busy_ns threads_idle_ns threads_open_max";

/// Items that the threads of each stage have taken from its queues, by stage and slot.
type Takes = BTreeMap<String, BTreeMap<u64, f64>>;

/// The slots of stages in what `regatta top` says: name, slot, counters.
fn stage_slots(top: &Value) -> impl Iterator<Item = (&str, u64, &Map<String, Value>)> {
    top["workers"].as_array().into_iter().flatten().filter_map(|one| {
        let stage = one["role"].as_str().filter(|role| !role.is_empty())?;
        Some((stage, one["slot"].as_u64()?, one["counters"].as_object()?))
    })
}

fn stage_counters(top: &Value) -> Numbers {
    let mut all = Numbers::new();
    for (stage, _, counters) in stage_slots(top) {
        for name in STAGE_COUNTERS.split_whitespace() {
            let Some(value) = counters.get(name).and_then(Value::as_f64) else { continue };
            let sum = all.entry(format!("{stage}.{name}")).or_default();
            *sum = if name.ends_with("_max") { f64::max(*sum, value) } else { *sum + value };
        }
    }
    all
}

/// Items that the threads of all stages have taken. Queues are counted in slots without threads.
fn stage_takes(top: &Value) -> Takes {
    let mut all = Takes::new();
    for (stage, slot, counters) in stage_slots(top) {
        let of = |name: &str| counters.get(name).and_then(Value::as_f64).unwrap_or_default();
        if of("threads_started") > 0.0 {
            all.entry(stage.to_owned()).or_default().insert(slot, of("queue_takes"));
        }
    }
    all
}

/// Unevenness among the threads of each stage (`STAGE.spread`): the standard deviation of the
/// items that each took, over the mean. Stages with several slots of threads alone have it.
fn spreads(before: &Takes, after: &Takes) -> Numbers {
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

/// Nothing came from the front end; the back end took nothing; nothing was finished because of what
/// memory had not brought yet.
const STALLS: [&str; 3] = ["stalled_frontend", "stalled_backend", "stalled_memory"];

/// This processor's event for stalls on memory; None: none is known.
fn stall_event() -> Option<u64> {
    stall_event_of(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// The event of one of them, given this processor's for stalls on memory; None: there is none.
fn stall_counter(name: &str, memory: Option<u64>) -> Option<Builder<'static>> {
    match name {
        "stalled_frontend" => Some(Builder::new(Hardware::STALLED_CYCLES_FRONTEND)),
        "stalled_backend" => Some(Builder::new(Hardware::STALLED_CYCLES_BACKEND)),
        _ => memory.map(|event| Builder::new(Raw::new(event))),
    }
}

/// Parts of it that cannot be counted here, and why.
pub(crate) fn missing_stalls() -> Vec<String> {
    let memory = stall_event();
    let try_out = |name: &str| {
        let why = match stall_counter(name, memory) {
            None => NO_EVENT.to_owned(),
            Some(builder) => builder.build().err()?.to_string(),
        };
        Some(format!("{name}: {why}"))
    };
    STALLS.into_iter().filter_map(try_out).collect()
}

/// Reason why stalls on memory are not counted: no event for them is known.
const NO_EVENT: &str = "no event of this processor is known for it";

/// The raw event (`perf list` of the kernel's tools) by what `/proc/cpuinfo` says.
fn stall_event_of(cpus: &str) -> Option<u64> {
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
    use crate::record::numbers;
    use serde_json::json;
    use std::process::{Command, Stdio};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    const USUAL: Counting = Counting { counters: true, stalls: false, streaming: false };
    const ALL: Counting = Counting { stalls: true, ..USUAL };

    /// Observations of a program that does nothing until its input ends.
    fn watched(counting: Counting) -> Seen {
        let mut quiet = Command::new("cat");
        let mut child = quiet.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pids = [child.id()];
        let seen = Watch::start(&pids, None, None, counting).stop(&pids, &[]);
        drop(child.stdin.take());
        child.wait().unwrap();
        seen
    }

    #[test]
    fn waits_for_a_disk_in_the_server_are_the_servers_own_count() {
        let counters = [("stall_open_ns", 1e9), ("stall_send_ns", 5e8), ("stall_round_ns", 9e9)];
        let mut seen = Seen {
            server: numbers([("disk_wait_s", 0.25)]),
            counters: numbers(counters),
            shares: numbers([("idle_share", 0.3), ("waiting_share", 0.1)]),
            ..Seen::default()
        };
        seen.stand_in();
        assert_eq!(seen.server, numbers([("disk_wait_s", 1.5)]));
        assert_eq!(seen.shares, numbers([("idle_share", 0.3)]));
    }

    #[test]
    fn our_own_work_is_seen() {
        let me = [std::process::id()];
        let watch = Watch::start(&me, None, None, ALL);
        let sum: u64 = std::hint::black_box((0..3_000_000_u64).map(std::hint::black_box).sum());
        assert!(sum > 0);
        let seen = watch.stop(&me, &[]);
        assert!(seen.seconds > 0.0 && seen.server.contains_key("cpu_s"), "{seen:?}");
        assert!(seen.held.get("pss_mib").is_none_or(|mib| *mib > 0.5), "{seen:?}");
        for name in ["user_instructions", "cycles"] {
            let missing = seen.missing.iter().any(|line| line.starts_with(name));
            assert_ne!(missing, seen.server.get(name).is_some_and(|n| *n > 1e6), "{seen:?}");
        }
        for name in STALLS {
            let missing = seen.missing.iter().any(|line| line.starts_with(name));
            assert_ne!(missing, seen.server.contains_key(name), "{name}: {seen:?}");
        }
    }

    #[test]
    fn without_counters_there_is_what_the_kernel_tells_of_processes() {
        let seen = watched(Counting { counters: false, ..USUAL });
        for name in ["cpu_s", "switches", "disk_wait_s"] {
            assert!(seen.server.contains_key(name), "{name}: {seen:?}");
        }
        for name in ["user_instructions", "cycles", "task_ns"] {
            assert!(!seen.server.contains_key(name), "{name}: {seen:?}");
            assert!(!seen.missing.iter().any(|line| line.contains(name)), "nobody asked: {seen:?}");
        }
    }

    #[test]
    fn workers_after_the_first_of_their_slot_are_replaced_ones() {
        let top = serde_json::json!({ "workers": [
            { "slot": 0, "incarnation": 1 }, { "slot": 1, "incarnation": 3 },
        ] });
        assert_eq!((replaced(&top), replaced(&Value::Null)), (Some(2), None));
    }

    #[test]
    fn every_switch_is_one_of_two_kinds() {
        let seen = watched(USUAL);
        for name in ["switches", "voluntary_switches", "involuntary_switches", "disk_wait_s"] {
            assert!(seen.server[name] >= 0.0, "{name}: {seen:?}");
        }
    }

    #[test]
    fn a_thread_that_ends_takes_no_switches_along() {
        // Each sleep is a switch, give or take some that are over before they begin.
        let sleep = || (0..1_000).for_each(|_| thread::sleep(Duration::from_micros(50)));
        let (go, wait) = mpsc::channel::<()>();
        let (told, ready) = mpsc::channel();
        let sleeper = thread::spawn(move || {
            // Before the measurement: what the sums of the living lose with it.
            sleep();
            told.send(()).unwrap();
            wait.recv().unwrap();
            sleep();
        });
        ready.recv().unwrap();
        let me = [std::process::id()];
        let watch = Watch::start(&me, None, None, USUAL);
        go.send(()).unwrap();
        sleeper.join().unwrap();
        let seen = watch.stop(&me, &[]);
        assert!(!seen.server.contains_key("voluntary_switches"), "{seen:?}");
        assert!(seen.missing.iter().any(|line| line == ENDED), "{seen:?}");
        match seen.server.get("switches") {
            Some(switches) => assert!(*switches >= 500.0, "{seen:?}"),
            None => {
                let why = seen.missing.iter().any(|line| line.starts_with("switches: "));
                assert!(why, "{seen:?}");
            }
        }
    }

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
        let counters = stage_counters(&top);
        let of = |name: &str| counters.get(name).copied();
        assert_eq!((of("write.queue_takes"), of("write.queue_puts")), (Some(40.0), Some(50.0)));
        assert_eq!((of("write.queue_len_max"), of("write.merges")), (Some(9.0), None));
        assert!(counters.keys().all(|name| name.starts_with("write.")), "{counters:?}");
        assert!(stage_counters(&Value::Null).is_empty());
    }

    #[test]
    fn the_spread_is_of_what_each_thread_took_meanwhile() {
        let at = |[one, other]: [u64; 2]| {
            stage_takes(&json!({ "workers": [
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

    #[test]
    fn processors_are_known_by_their_numbers() {
        let told = |vendor: &str, family: u32, model: u32| {
            stall_event_of(&format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\n\
                 model\t\t: {model}\nmodel name\t: 26\nstepping\t: 1\n"
            ))
        };
        assert_eq!(told("GenuineIntel", 6, 0x6a), Some(0x1400_14a3));
        assert_eq!(told("GenuineIntel", 6, 0x8f), None, "Sapphire Rapids counts otherwise");
        assert_eq!(told("AuthenticAMD", 26, 2), Some(0xa2d6));
        assert_eq!(told("AuthenticAMD", 25, 0x11), Some(0xa2d6));
        assert_eq!(told("AuthenticAMD", 25, 1), None, "Zen 3");
        assert_eq!((told("other", 1, 1), stall_event_of("")), (None, None));
    }

    #[test]
    fn what_is_missing_is_told_by_name_and_with_the_reason() {
        let missing = missing_stalls();
        assert!(missing.iter().all(|line| STALLS.iter().any(|name| line.starts_with(name))));
        assert!(missing.iter().all(|line| line.len() > "stalled_frontend: ".len()), "{missing:?}");
        for (name, memory) in [("stalled_memory", None), ("stalled_memory", Some(0xa2d6))] {
            assert_eq!(stall_counter(name, memory).is_some(), memory.is_some());
        }
    }
}
