//! Time, switches and memory that a server's processes and tasks have used, each on its own. Times
//! for which they were ready to run while others had their processors. Activities of the
//! processors, as mpstat shows them.

use crate::record::Numbers;
use crate::servers::process::{self, sleep_until};
use crate::stats::count;
use crate::watch::TICKS;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A process or task: its number, and the tick in which it started, since numbers are given again.
type Key = (u32, u64);

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Used {
    processes: BTreeMap<Key, Process>,
    tasks: BTreeMap<Key, Task>,
}

/// Processor time of all that a control group has held, seconds: exact, and read at once. None
/// where the group counts none.
pub(crate) fn of_group(group: &Path) -> Option<f64> {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    // Version 2 in any group, version 1 in those of its own hierarchy.
    let two = || numbered(&read("cpu.stat")?, "usage_usec").map(|us| us / 1e6);
    let one = || read("cpuacct.usage")?.trim().parse().ok().map(|ns: f64| ns / 1e9);
    two().or_else(one)
}

/// Use by a process, with all tasks that it has had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Process {
    user_s: f64,
    kernel_s: f64,
    /// Bytes that it had brought from block devices, read-ahead included (`proc_pid_io(5)`); None
    /// where that is not for us to see.
    read_bytes: Option<f64>,
}

/// Use by a task, which the kernel forgets with it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Task {
    voluntary: f64,
    involuntary: f64,
    /// Waiting for disks (`delayacct_blkio_ticks`).
    disk_wait_s: f64,
}

impl Used {
    /// Use by some processes so far, and by their tasks.
    pub(crate) fn of(pids: &[u32]) -> Self {
        let mut used = Self::of_processes(pids);
        used.saw(&Self::of_tasks(pids));
        used
    }

    /// Use by some processes alone, read at once however many tasks they have.
    pub(crate) fn of_processes(pids: &[u32]) -> Self {
        let mut used = Self::default();
        for pid in pids {
            let place = format!("/proc/{pid}");
            let Some(stat) = Stat::read(&place) else { continue };
            let io = fs::read_to_string(format!("{place}/io")).unwrap_or_default();
            let process = Process {
                user_s: stat.ticks(14) / TICKS,
                kernel_s: stat.ticks(15) / TICKS,
                read_bytes: numbered(&io, "read_bytes:"),
            };
            used.processes.insert((*pid, stat.started()), process);
        }
        used
    }

    /// Use by the tasks of some processes alone; empty if they are too many.
    pub(crate) fn of_tasks(pids: &[u32]) -> Self {
        let mut used = Self::default();
        for (number, place) in process::few_tasks(pids) {
            used.tasks.extend(task(number, &place.to_string_lossy()));
        }
        used
    }

    /// Takes over what a later look saw; what had ended by then stays as it was last seen.
    pub(crate) fn saw(&mut self, later: &Self) {
        self.processes.extend(later.processes.iter().map(|(key, process)| (*key, *process)));
        self.tasks.extend(later.tasks.iter().map(|(key, task)| (*key, *task)));
    }

    /// Processor time since `before`, seconds.
    pub(crate) fn cpu_s(&self, before: &Self) -> f64 {
        self.processes(before, |process| process.user_s + process.kernel_s)
    }

    /// Sums since `first`; `self` is everything seen since, and `last` the end. The work of an
    /// ended task after it was last seen is unknown. If a task ended, numbers that the kernel has
    /// of tasks alone are therefore left out. The other result is the number of ended tasks.
    pub(crate) fn since(&self, first: &Self, last: &Self) -> (Numbers, usize) {
        let user_s = self.processes(first, |process| process.user_s);
        let kernel_s = self.processes(first, |process| process.kernel_s);
        let mut all =
            vec![("user_s", user_s), ("kernel_s", kernel_s), ("cpu_s", user_s + kernel_s)];
        if last.processes.values().any(|process| process.read_bytes.is_some()) {
            let bytes = self.processes(first, |process| process.read_bytes.unwrap_or_default());
            all.push(("read_bytes", bytes));
        }
        let ended = self.tasks.keys().filter(|key| !last.tasks.contains_key(key)).count();
        if ended == 0 && !last.tasks.is_empty() {
            let voluntary = self.tasks(first, |task| task.voluntary);
            let involuntary = self.tasks(first, |task| task.involuntary);
            all.extend([
                ("switches", voluntary + involuntary),
                ("voluntary_switches", voluntary),
                ("involuntary_switches", involuntary),
            ]);
            all.extend(self.waited(first).map(|waited_s| ("disk_wait_s", waited_s)));
        }
        (all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(), ended)
    }

    /// Time that one task waited for disks; None if several did. The kernel's account of tasks that
    /// wait together is wrong (docs/environments.md), up to the time since the machine started.
    fn waited(&self, first: &Self) -> Option<f64> {
        let before = |key| first.tasks.get(key).map_or(0.0, |task: &Task| task.disk_wait_s);
        let growth = self.tasks.iter().map(|(key, task)| task.disk_wait_s - before(key));
        let waited: Vec<f64> = growth.filter(|grown_s| *grown_s > 0.0).collect();
        (waited.len() < 2).then(|| waited.iter().sum())
    }

    /// Number of processes that a later reading does not contain.
    pub(crate) fn gone(&self, later: &Self) -> usize {
        self.processes.keys().filter(|key| !later.processes.contains_key(key)).count()
    }

    fn processes(&self, before: &Self, of: impl Fn(&Process) -> f64) -> f64 {
        grown(&self.processes, &before.processes, of)
    }

    fn tasks(&self, before: &Self, of: impl Fn(&Task) -> f64) -> f64 {
        grown(&self.tasks, &before.tasks, of)
    }
}

/// By how much all of them grew together; what is new grew from nothing.
fn grown<T>(now: &BTreeMap<Key, T>, before: &BTreeMap<Key, T>, of: impl Fn(&T) -> f64) -> f64 {
    let growth = |(key, one): (&Key, &T)| of(one) - before.get(key).map_or(0.0, &of);
    now.iter().map(growth).map(|growth| growth.max(0.0)).sum()
}

/// A task by its folder in `/proc`; None if it has just ended.
fn task(number: u32, place: &str) -> Option<(Key, Task)> {
    let stat = Stat::read(place)?;
    let status = fs::read_to_string(format!("{place}/status")).ok()?;
    let task = Task {
        voluntary: numbered(&status, "voluntary_ctxt_switches:")?,
        involuntary: numbered(&status, "nonvoluntary_ctxt_switches:")?,
        disk_wait_s: stat.ticks(42) / TICKS,
    };
    Some(((number, stat.started()), task))
}

/// The number behind a name that begins a line, in KiB where it has a unit.
pub(crate) fn numbered(text: &str, name: &str) -> Option<f64> {
    let number = |line: &str| {
        let value = line.strip_prefix(name)?.trim();
        value.strip_suffix(" kB").unwrap_or(value).parse().ok()
    };
    text.lines().find_map(number)
}

/// A line of `proc_pid_stat(5)`, from its third field on.
struct Stat(Vec<u64>);

impl Stat {
    fn read(place: &str) -> Option<Self> {
        let text = fs::read_to_string(format!("{place}/stat")).ok()?;
        // The name, which may hold anything, stands in brackets.
        let (_, rest) = text.rsplit_once(") ")?;
        Some(Self(rest.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0)).collect()))
    }

    /// A field by its number in the manual.
    fn field(&self, number: usize) -> u64 {
        self.0.get(number - 3).copied().unwrap_or_default()
    }

    fn ticks(&self, number: usize) -> f64 {
        crate::units::real(self.field(number))
    }

    fn started(&self) -> u64 {
        self.field(22)
    }
}

/// Shares of a processor's time.
const NAMES: [&str; 7] = [
    // Programs, low priority included.
    "user_share",
    // The kernel for programs.
    "system_share",
    "idle_share",
    // Nothing to do while a task waits for a disk.
    "waiting_share",
    "irq_share",
    // Work that interrupts left for later: packets that arrive, for example.
    "softirq_share",
    // Time that the hypervisor took.
    "steal_share",
];

/// Ticks of `/proc/stat` since boot of one processor (`proc_stat(5)`), in the order of [`NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ticks([f64; 7]);

pub(crate) type Processors = BTreeMap<usize, Ticks>;

impl Ticks {
    /// Ticks of programs. Interrupts are the network's, and no program's.
    pub(crate) fn busy(self) -> f64 {
        self.0[0] + self.0[1]
    }

    /// Ticks that the hypervisor took.
    pub(crate) fn steal(self) -> f64 {
        self.0[6]
    }
}

/// Reads `/proc/stat` now; empty where there is none.
pub(crate) fn now() -> Processors {
    parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

pub(crate) fn parse(stat: &str) -> Processors {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu: usize = words.next()?.parse().ok()?;
        let ticks: Vec<f64> = words.map(|word| word.parse().unwrap_or(0.0)).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or_default();
        Some((cpu, Ticks([at(0) + at(1), at(2), at(3), at(4), at(5), at(6), at(7)])))
    };
    stat.lines().filter(|text| !text.starts_with("cpu ")).filter_map(line).collect()
}

/// Activities of the processors `cpus` between two readings, as shares that add up to 1; without
/// any, of all processors. Empty if no tick passed.
pub(crate) fn shares(before: &Processors, after: &Processors, cpus: &[usize]) -> Numbers {
    let mut sums = Numbers::new();
    for (cpu, ticks) in after {
        if !cpus.is_empty() && !cpus.contains(cpu) {
            continue;
        }
        let before = before.get(cpu).copied().unwrap_or_default();
        for (name, (now, then)) in NAMES.into_iter().zip(ticks.0.into_iter().zip(before.0)) {
            // The kernel's count of idle ticks can step back a little.
            *sums.entry(name.to_owned()).or_default() += (now - then).max(0.0);
        }
    }
    whole(sums)
}

/// Shares of the remaining processor time, without a program that ran for `taken` of it. They add
/// up to 1; empty if nothing remains.
pub(crate) fn without(shares: &Numbers, taken: f64) -> Numbers {
    let mut left = shares.clone();
    if let Some(share) = left.get_mut("user_share") {
        *share = (*share - taken).max(0.0);
    }
    whole(left)
}

/// Scaled so that they add up to 1; empty where they are nothing together.
fn whole(mut parts: Numbers) -> Numbers {
    let all: f64 = parts.values().sum();
    if all <= 0.0 {
        return Numbers::new();
    }
    parts.values_mut().for_each(|part| *part /= all);
    parts
}

const NS: f64 = 1e9;

/// Time of every task of a server since it started, by task: seconds for which it ran, and for
/// which it was ready and waited for a processor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tasks(BTreeMap<u32, (f64, f64)>);

impl Tasks {
    /// Times of the tasks of some processes, now; empty if the kernel does not report them, or if
    /// they are too many.
    pub(crate) fn of(pids: &[u32]) -> Self {
        let mut tasks = BTreeMap::new();
        for (task, place) in process::few_tasks(pids) {
            let text = fs::read_to_string(place.join("schedstat")).unwrap_or_default();
            tasks.extend(parse_schedstat(&text).map(|times| (task, times)));
        }
        Self(tasks)
    }

    /// Share of `seconds` until `later` for which others kept the server from its `processors`
    /// processors. A lower bound, since a task that is ready may also wait for its own kind. None
    /// if the kernel does not report it, or no longer reports some tasks, whose time would be taken
    /// for others'.
    pub(crate) fn kept(&self, later: &Self, seconds: f64, processors: usize) -> Option<f64> {
        let grown = later.0.iter().map(|(task, after)| {
            let before = self.0.get(task).copied().unwrap_or_default();
            (after.0 - before.0, after.1 - before.1)
        });
        let grown: Vec<(f64, f64)> = grown.collect();
        let ended = self.0.keys().any(|task| !later.0.contains_key(task));
        if grown.is_empty() || ended || seconds <= 0.0 {
            return None;
        }
        let all: f64 = grown.iter().map(|(ran, _)| ran).sum();
        let own_kind = |ran: f64| (all - ran) / count(processors.max(1));
        let kept = grown.iter().map(|(ran, waited)| waited - own_kind(*ran));
        Some(kept.fold(0.0, f64::max) / seconds)
    }
}

/// Reads `/proc/PID/task/TID/schedstat`: ns that it ran, ns that it waited to run, turns.
fn parse_schedstat(text: &str) -> Option<(f64, f64)> {
    let mut words = text.split_ascii_whitespace().map(str::parse::<f64>);
    Some((words.next()?.ok()? / NS, words.next()?.ok()? / NS))
}

/// Kernel memory for the stack of a task, KiB (x86-64 and arm64).
const KERNEL_STACK_KIB: f64 = 16.0;

/// Memory that processes hold together, MiB; a number that one of them does not report is left out.
///
/// Each page counts once for all in `pss_mib`, and for each process that has it in `rss_mib`.
pub(crate) fn held(pids: &[u32]) -> Numbers {
    let read = |file: &str| {
        let each = pids.iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/{file}")).ok());
        each.collect::<Option<Vec<String>>>().unwrap_or_default()
    };
    sums(&read("status"), &read("smaps_rollup"))
}

/// The sums over what each process tells.
fn sums(status: &[String], rollup: &[String]) -> Numbers {
    let numbers = [
        ("pss_mib", rollup, "Pss:", 1.0),
        ("rss_mib", status, "VmRSS:", 1.0),
        ("anonymous_mib", status, "RssAnon:", 1.0),
        ("page_tables_mib", status, "VmPTE:", 1.0),
        ("kernel_stacks_mib", status, "Threads:", KERNEL_STACK_KIB),
    ];
    let mib = |(name, texts, line, kib): (&str, &[String], &str, f64)| {
        let sum: Option<f64> = texts.iter().map(|text| numbered(text, line)).sum();
        let sum = sum.filter(|sum| *sum > 0.0)?;
        Some((name.to_owned(), sum * kib / 1_024.0))
    };
    numbers.into_iter().filter_map(mib).collect()
}

#[cfg(test)]
mod processors_tests {
    use super::*;
    use crate::record::numbers;

    const BEFORE: &str =
        "cpu  9 9 9 9\ncpu0 100 1 50 900 5 7 8 3 0 0\ncpu1 1 0 2 3 4 5 6 7\nintr 1\n";
    const AFTER: &str = "cpu0 110 1 70 930 15 7 28 13 0 0\ncpu1 1 0 2 3 4 5 6 7\n";

    #[test]
    fn processors_are_read() {
        let found = parse(BEFORE);
        assert_eq!((found[&0].busy(), found[&0].steal()), (151.0, 3.0));
        assert_eq!((found[&1].busy(), found[&1].0[5]), (3.0, 6.0));
        assert_eq!(found.len(), 2);
        // A line that is cut short, and none at all.
        assert_eq!(parse("cpu3 4\ncpux 1\ncpu")[&3].busy(), 4.0);
        assert!(parse("").is_empty());
    }

    #[test]
    fn shares_add_up_to_all_of_the_time() {
        let shares = shares(&parse(BEFORE), &parse(AFTER), &[0]);
        let of = |name: &str| shares[name];
        assert_eq!((of("user_share"), of("system_share"), of("idle_share")), (0.1, 0.2, 0.3));
        assert_eq!((of("softirq_share"), of("waiting_share"), of("steal_share")), (0.2, 0.1, 0.1));
        assert!((shares.values().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(super::shares(&parse(BEFORE), &parse(AFTER), &[1]).is_empty(), "it stood still");
    }

    #[test]
    fn what_was_taken_on_purpose_is_no_share() {
        let seen = numbers([
            ("user_share", 0.64),
            ("system_share", 0.2),
            ("idle_share", 0.12),
            ("waiting_share", 0.04),
        ]);
        let left = without(&seen, 0.6);
        // Shares as if the processor had been this slow from the start.
        for (name, share) in [
            ("user_share", 0.1),
            ("system_share", 0.5),
            ("idle_share", 0.3),
            ("waiting_share", 0.1),
        ] {
            assert!((left[name] - share).abs() < 1e-9, "{left:?}");
        }
        // Ticks saw a little less of it than there was.
        let left = without(&numbers([("user_share", 0.58), ("system_share", 0.42)]), 0.6);
        assert_eq!(left, numbers([("user_share", 0.0), ("system_share", 1.0)]));
        let all = numbers([("user_share", 1.0)]);
        assert_eq!(without(&numbers([("user_share", 0.64)]), 0.0), all);
        assert!(without(&all, 1.0).is_empty() && without(&Numbers::new(), 0.0).is_empty());
    }
}

#[cfg(test)]
mod run_delay_tests {
    use super::{Tasks, parse_schedstat};

    fn tasks(times: &[(f64, f64)]) -> Tasks {
        Tasks((0_u32..).zip(times.iter().copied()).collect())
    }

    #[test]
    fn waiting_for_ones_own_kind_is_not_being_kept() {
        let none = Tasks::default();
        for (times, processors, kept) in [
            // A loop that is never kept, and one that is kept for half of the time.
            (&[(7.0, 0.1)][..], 1, 0.01),
            (&[(5.0, 5.0)], 1, 0.5),
            // Four that share a processor among themselves: they wait for each other only.
            (&[(2.5, 7.5), (2.5, 7.5), (2.5, 7.5), (2.5, 7.5)], 1, 0.0),
            // Four that share it with another that takes half of it.
            (&[(1.25, 8.75), (1.25, 8.75), (1.25, 8.75), (1.25, 8.75)], 1, 0.5),
            (&[(5.0, 5.0), (5.0, 5.0)], 2, 0.25),
        ] {
            let found = none.kept(&tasks(times), 10.0, processors).unwrap();
            assert!((found - kept).abs() < 1e-9, "{times:?}: {found}");
        }
        let (before, after) = (tasks(&[(5.0, 5.0)]), tasks(&[(6.0, 5.5)]));
        assert_eq!(before.kept(&after, 2.0, 1), Some(0.25));
        assert_eq!(none.kept(&none, 1.0, 1), None);
        // A helper that has ended had the processor meanwhile, or not.
        let with_helper = tasks(&[(5.0, 5.0), (1.0, 0.0)]);
        assert_eq!(with_helper.kept(&after, 2.0, 1), None);
        assert_eq!(parse_schedstat("2000000000 500000000 9\n"), Some((2.0, 0.5)));
        assert_eq!(parse_schedstat(""), None);
    }
}

#[cfg(test)]
mod memory_tests {
    use super::*;
    use crate::record::numbers;

    #[test]
    fn lines_are_found_by_their_names() {
        let text = "Name:\tcat\nVmRSS:\t    2048 kB\nRssAnon:\t     512 kB\nThreads:\t3\n";
        let rows =
            [("VmRSS:", Some(2_048.0)), ("Threads:", Some(3.0)), ("Rss:", None), ("Name:", None)];
        for (name, expect) in rows {
            assert_eq!(numbered(text, name), expect, "{name}");
        }
    }

    #[test]
    fn every_process_counts_or_none_does() {
        let texts = |lines: [&str; 2]| lines.map(str::to_owned);
        let status =
            texts(["VmRSS: 1024 kB\nVmPTE: 512 kB\nThreads: 3", "VmRSS: 512 kB\nThreads: 1"]);
        let sums = sums(&status, &texts(["Pss: 256 kB", "Pss: 256 kB"]));
        let expect = [("kernel_stacks_mib", 0.0625), ("pss_mib", 0.5), ("rss_mib", 1.5)];
        assert_eq!(sums, numbers(expect));
    }

    #[test]
    fn our_own_memory_is_seen() {
        let held = held(&[std::process::id()]);
        assert!(held["rss_mib"] > held["anonymous_mib"], "{held:?}");
        assert!(held["page_tables_mib"] > 0.0, "{held:?}");
        assert!(held["kernel_stacks_mib"] >= 2.0 / 64.0, "this thread and the first: {held:?}");
        assert!(super::held(&[std::process::id(), u32::MAX]).is_empty(), "one of them has ended");
    }
}

/// Between two samples.
const STEP: Duration = Duration::from_secs(1);

/// Samples of a load, from its start.
#[derive(Debug)]
pub(crate) struct Samples {
    pids: Vec<u32>,
    start: Instant,
    last: Look,
    /// Second by second: processors' worth of time that the server used, and the share of all
    /// processors' time that was stolen.
    pub(crate) seconds: Vec<(f64, f64)>,
}

/// Sample of the processes.
#[derive(Debug)]
struct Look {
    at: Instant,
    used: Used,
    /// The mean stolen time of a processor, seconds.
    stolen_s: f64,
}

impl Samples {
    pub(crate) fn start(pids: Vec<u32>, start: Instant) -> Self {
        let last = Look::take(&pids);
        Self { pids, start, last, seconds: Vec::new() }
    }

    /// Continues with these processes. Finding them reads every process of the machine, which is
    /// too much for each second.
    pub(crate) fn follow(&mut self, pids: Vec<u32>) {
        // Earlier use by new ones is not the next second's.
        let mut used = Used::of(&pids);
        used.saw(&self.last.used);
        (self.last.used, self.pids) = (used, pids);
    }

    /// Sleeps, and samples whenever a second since the start is over: `saw` receives the server's
    /// use by then. False if stopped.
    pub(crate) fn sleep_until(
        &mut self,
        end: Instant,
        stop: &AtomicBool,
        saw: &mut dyn FnMut(&Used),
    ) -> bool {
        loop {
            let done = u32::try_from(self.seconds.len()).unwrap_or(u32::MAX);
            let next = self.start + STEP * (done + 1);
            if next > end {
                return sleep_until(end, stop);
            }
            if !sleep_until(next, stop) {
                return false;
            }
            let now = Look::take(&self.pids);
            let passed = (now.at - self.last.at).as_secs_f64().max(1e-9);
            let (used, stolen) =
                (now.used.cpu_s(&self.last.used), now.stolen_s - self.last.stolen_s);
            self.seconds.push((used / passed, stolen / passed));
            saw(&now.used);
            self.last = now;
        }
    }
}

impl Look {
    fn take(pids: &[u32]) -> Self {
        let all = now();
        let stolen: f64 = all.values().map(|ticks| ticks.steal()).sum();
        let stolen_s = stolen / TICKS / count(all.len().max(1));
        Self { at: Instant::now(), used: Used::of(pids), stolen_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use std::sync::mpsc;
    use std::thread;

    /// A reading of a process with these tasks: switches, and seconds waited.
    fn look(cpu_s: f64, tasks: &[(Key, f64, f64)]) -> Used {
        let process = Process { user_s: cpu_s, kernel_s: cpu_s, read_bytes: None };
        let task = |(key, switches, disk_wait_s): &(Key, f64, f64)| {
            let task = Task { voluntary: *switches, involuntary: 1.0, disk_wait_s: *disk_wait_s };
            (*key, task)
        };
        Used { processes: [((1, 0), process)].into(), tasks: tasks.iter().map(task).collect() }
    }

    /// The sums of a stretch with looks at its start, in its middle, and at its end.
    fn sums(looks: [&Used; 3]) -> (Numbers, usize) {
        let mut all = looks[0].clone();
        looks[1..].iter().for_each(|look| all.saw(look));
        all.since(looks[0], looks[2])
    }

    #[test]
    fn all_tasks_count_and_not_the_first_alone() {
        let first = look(1.0, &[((1, 0), 10.0, 0.5), ((2, 0), 7.0, 1.0)]);
        let last = look(2.0, &[((1, 0), 12.0, 0.5), ((2, 0), 8.0, 3.25), ((3, 9), 5.0, 0.0)]);
        let (sums, ended) = sums([&first, &first, &last]);
        assert_eq!(ended, 0);
        assert_eq!((sums["cpu_s"], sums["disk_wait_s"]), (2.0, 2.25));
        assert_eq!((sums["voluntary_switches"], sums["involuntary_switches"]), (8.0, 1.0));
        assert_eq!(sums["switches"], 9.0);
        assert!(!sums.contains_key("read_bytes"), "which could not be read");
        assert_eq!(last.cpu_s(&first), 2.0);
    }

    #[test]
    fn of_tasks_that_wait_together_the_kernel_s_account_is_not_believed() {
        let first = look(1.0, &[((1, 0), 10.0, 0.5), ((2, 0), 7.0, 1.0)]);
        let last = look(2.0, &[((1, 0), 12.0, 2.0), ((2, 0), 8.0, 50_540.0)]);
        assert!(!sums([&first, &first, &last]).0.contains_key("disk_wait_s"));
        let alone = look(2.0, &[((1, 0), 12.0, 2.0), ((2, 0), 8.0, 1.0)]);
        assert_eq!(sums([&first, &first, &alone]).0["disk_wait_s"], 1.5);
    }

    #[test]
    fn what_ended_makes_no_sum_negative() {
        let (long, short) = (((1, 0), 10.0, 0.0), ((2, 0), 1_000.0, 9.0));
        let (both, one) = (look(1.0, &[long, short]), look(2.0, &[long]));
        // At the start and not at the end; between them alone; its number given to another.
        let other = look(2.0, &[long, ((2, 5), 3.0, 0.0)]);
        for looks in [[&both, &both, &one], [&one, &both, &one], [&both, &both, &other]] {
            let (sums, ended) = sums(looks);
            assert_eq!(ended, 1, "{looks:?}");
            for name in ["switches", "voluntary_switches", "involuntary_switches", "disk_wait_s"] {
                assert!(!sums.contains_key(name), "{name} of {looks:?}");
            }
            assert!(sums.values().all(|value| *value >= 0.0), "{sums:?}");
        }
        // A process that ended keeps what it had used.
        let none = Used::default();
        assert_eq!(sums([&none, &both, &none]).0["cpu_s"], 2.0);
        assert_eq!((both.gone(&none), none.gone(&both), both.gone(&one)), (1, 0, 0));
    }

    #[test]
    fn a_group_of_either_version_tells_its_processor_time() {
        let folder = Folder::new("lab-test");
        assert_eq!(of_group(&folder), None);
        // Version 1 has a file of that name, too, without the number.
        fs::write(folder.join("cpu.stat"), "nr_periods 0\nnr_throttled 0\n").unwrap();
        assert_eq!(of_group(&folder), None);
        fs::write(folder.join("cpuacct.usage"), "2500000000\n").unwrap();
        assert_eq!(of_group(&folder), Some(2.5));
        fs::write(folder.join("cpu.stat"), "usage_usec 1500000\nuser_usec 9\n").unwrap();
        assert_eq!(of_group(&folder), Some(1.5));
    }

    /// Threads' use is their process's, whether they live or not.
    #[test]
    fn threads_that_have_ended_keep_their_time() {
        let me = [std::process::id()];
        let before = Used::of_processes(&me);
        let busy = || {
            let clock = rustix::time::ClockId::ThreadCPUTime;
            while rustix::time::clock_gettime(clock).tv_nsec < 30_000_000 {
                std::hint::black_box((0..1_000_u32).sum::<u32>());
            }
        };
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(busy)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let used = Used::of_processes(&me).cpu_s(&before);
        // 120 ms, in whole ticks of each kind.
        assert!(used >= 0.09, "{used}");
    }

    #[test]
    fn the_kernels_tables_are_read() {
        let me = std::process::id();
        let (go, wait) = mpsc::channel::<()>();
        let (told, tid) = mpsc::channel();
        let sleeper = thread::spawn(move || {
            told.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ = wait.recv();
        });
        let tid = u32::try_from(tid.recv().unwrap()).unwrap();
        let seen = Used::of(&[me]);
        assert!(seen.tasks.keys().any(|(number, started)| *number == tid && *started > 0));
        assert_eq!(seen.processes.len(), 1);
        drop(go);
        sleeper.join().unwrap();
        assert!(Used::of(&[u32::MAX]).tasks.is_empty());
    }

    #[test]
    fn each_second_is_sampled_once() {
        let stop = AtomicBool::new(false);
        let start = Instant::now() - Duration::from_millis(900);
        let mut samples = Samples::start(Vec::new(), start);
        samples.follow(vec![std::process::id()]);
        let mut looks = 0;
        let mut saw = |_: &Used| looks += 1;
        assert!(samples.sleep_until(start + Duration::from_millis(1_050), &stop, &mut saw));
        assert_eq!((samples.seconds.len(), looks), (1, 1));
        let (used, stolen) = samples.seconds[0];
        assert!(used >= 0.0 && stolen >= 0.0, "{samples:?}");
    }
}
