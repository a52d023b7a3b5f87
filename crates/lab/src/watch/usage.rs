//! What a server's processes and tasks have used, each on its own: one that ends takes nothing of
//! the sums along, and is known to have ended.

use crate::record::Numbers;
use crate::servers::process;
use crate::watch::TICKS;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A process or task: its number, and the tick in which it started, since numbers are given again.
type Key = (u32, u64);

/// One look at them.
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

/// Of a process, with all tasks that it has had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Process {
    user_s: f64,
    kernel_s: f64,
    /// Bytes that it had brought from block devices, read-ahead included (`proc_pid_io(5)`); None
    /// where that is not for us to see.
    read_bytes: Option<f64>,
}

/// Of a task, which the kernel forgets with it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Task {
    voluntary: f64,
    involuntary: f64,
    /// Waiting for disks (`delayacct_blkio_ticks`).
    disk_wait_s: f64,
}

impl Used {
    /// Of some processes so far, and of their tasks.
    pub(crate) fn of(pids: &[u32]) -> Self {
        let mut used = Self::of_processes(pids);
        used.saw(&Self::of_tasks(pids));
        used
    }

    /// Of some processes alone, which is read at once however many tasks they have.
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

    /// Of the tasks of some processes alone; of too many, nothing.
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

    /// The sums since `first`, `self` being all that was seen since and `last` the end. What an
    /// ended task did after it was last seen nobody knows, so with one the numbers that the kernel
    /// has of tasks alone are left out; how many ended is the other answer.
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

    /// How long one task waited for disks; None if several did: the kernel's account of tasks that
    /// wait together is wrong (docs/environments.md), up to the time since the machine started.
    fn waited(&self, first: &Self) -> Option<f64> {
        let before = |key| first.tasks.get(key).map_or(0.0, |task: &Task| task.disk_wait_s);
        let growth = self.tasks.iter().map(|(key, task)| task.disk_wait_s - before(key));
        let waited: Vec<f64> = growth.filter(|grown_s| *grown_s > 0.0).collect();
        (waited.len() < 2).then(|| waited.iter().sum())
    }

    /// How many processes a later look does not see.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use std::sync::mpsc;
    use std::thread;

    /// A look at one process whose tasks have switched so often and waited so many seconds.
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

    /// What threads used is their process's, whether they live or not.
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
        // 120 ms, of which the kernel tells whole ticks of each kind.
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
}
