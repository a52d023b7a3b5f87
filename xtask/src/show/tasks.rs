//! What the tasks of a server did with their time: ran, waited to run, waited for the disk.

use crate::bench::{family, parent_of};
use std::collections::BTreeMap;
use std::time::Instant;

/// Ticks of /proc per second.
const TICKS: f64 = 100.0;
/// Bytes of a page.
const PAGE_BYTES: f64 = 4096.0;

/// One reading.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    at: Instant,
    /// By process and task: what it did since it started.
    tasks: BTreeMap<(u32, u32), Task>,
    /// The processes that the master started: each has an event loop as its first task.
    workers: Vec<u32>,
    /// The server's processor: idle and waiting for any disk, seconds since boot.
    idle_s: f64,
    /// Of the memory group of the server.
    cache: PageCache,
}

/// What a memory group says of its page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PageCache {
    /// Bytes that have come back so far after they had been evicted.
    refaulted: f64,
    /// Bytes used more than once, and all others.
    lists: [f64; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Task {
    run_s: f64,
    queued_s: f64,
    disk_s: f64,
}

/// What became of the time between two readings, each a share of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Shares {
    /// The processor time of all tasks.
    pub(super) used: f64,
    /// Time for which the event loops wait for the disk, mean of all; helpers left out.
    pub(super) loops_wait: f64,
    /// Tasks that wait for the disk, mean number.
    pub(super) waiting: f64,
    /// The processor's own idle time, while nobody at all uses it.
    pub(super) idle: f64,
    /// Bytes per second that came back from the disk after they had left memory not long ago.
    pub(super) refaulted: f64,
    /// Share of the page cache that has been used more than once, at the end.
    pub(super) active: f64,
    /// Time for which the busiest task was ready and did not run: what others took.
    pub(super) kept: f64,
}

impl Reading {
    /// Reads the server with this process number, and one processor.
    pub(super) fn take(master: u32, cpu: usize) -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let mut tasks = BTreeMap::new();
        for pid in family(master) {
            for entry in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten() {
                let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
                let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
                tasks.extend(Task::of(pid, tid).map(|task| ((pid, tid), task)));
            }
        }
        let is_worker = |pid: &(u32, u32)| parent_of(pid.0) == Some(master);
        let mut workers: Vec<u32> = tasks.keys().filter(|k| is_worker(k)).map(|k| k.0).collect();
        workers.dedup();
        Self {
            at: Instant::now(),
            tasks,
            workers,
            idle_s: idle_seconds(&stat, cpu).unwrap_or(f64::NAN),
            cache: PageCache::of(master),
        }
    }

    /// What became of the time until a later reading.
    pub(super) fn until(&self, later: &Self) -> Shares {
        let seconds = (later.at - self.at).as_secs_f64();
        let grown = |key, after: &Task| {
            let before = self.tasks.get(key).copied().unwrap_or_default();
            Task {
                run_s: after.run_s - before.run_s,
                queued_s: after.queued_s - before.queued_s,
                disk_s: after.disk_s - before.disk_s,
            }
        };
        let grown: Vec<_> =
            later.tasks.iter().map(|(key, after)| (*key, grown(key, after))).collect();
        let sum = |of: fn(&Task) -> f64| grown.iter().map(|(_, task)| of(task)).sum::<f64>();
        let loops: Vec<f64> = grown
            .iter()
            .filter(|((pid, tid), _)| pid == tid && self.workers.contains(pid))
            .map(|(_, task)| task.disk_s / seconds)
            .collect();
        let busiest = grown.iter().max_by(|a, b| a.1.run_s.total_cmp(&b.1.run_s));
        Shares {
            used: sum(|task| task.run_s) / seconds,
            loops_wait: if loops.is_empty() { 0.0 } else { regatta_lab::stats::mean(&loops) },
            waiting: sum(|task| task.disk_s) / seconds,
            idle: (later.idle_s - self.idle_s) / seconds,
            refaulted: (later.cache.refaulted - self.cache.refaulted) / seconds,
            active: later.cache.lists[0] / later.cache.lists.iter().sum::<f64>(),
            kept: busiest.map_or(0.0, |(_, task)| task.queued_s / seconds),
        }
    }
}

impl Task {
    fn of(pid: u32, tid: u32) -> Option<Self> {
        let folder = format!("/proc/{pid}/task/{tid}");
        let sched = std::fs::read_to_string(format!("{folder}/schedstat")).ok()?;
        let stat = std::fs::read_to_string(format!("{folder}/stat")).ok()?;
        Self::parse(&sched, &stat)
    }

    /// From `schedstat` (ns running, ns waiting to run, ...) and field 42 of `stat`, block I/O
    /// delays in ticks, proc(5).
    fn parse(sched: &str, stat: &str) -> Option<Self> {
        let mut sched = sched.split_whitespace().map(str::parse::<f64>);
        let (run, queued) = (sched.next()?.ok()?, sched.next()?.ok()?);
        let after_name = stat.rsplit_once(") ")?.1;
        let ticks: f64 = after_name.split(' ').nth(39)?.parse().ok()?;
        Some(Self { run_s: run / 1e9, queued_s: queued / 1e9, disk_s: ticks / TICKS })
    }
}

impl PageCache {
    /// Of the group in which a process is.
    fn of(pid: u32) -> Self {
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let stat = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let mount = match controllers {
                "memory" => "/sys/fs/cgroup/memory",
                "" => "/sys/fs/cgroup",
                _ => return None,
            };
            std::fs::read_to_string(format!("{mount}{path}/memory.stat")).ok()
        });
        Self::parse(&stat.unwrap_or_default())
    }

    /// From `memory.stat`, of either version of control groups.
    fn parse(stat: &str) -> Self {
        let of = |name: &str| {
            let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|number| number.parse().ok()).unwrap_or(f64::NAN)
        };
        Self {
            refaulted: of("workingset_refault_file") * PAGE_BYTES,
            lists: [of("active_file"), of("inactive_file")],
        }
    }
}

/// Seconds since boot in which a processor had nothing to do, with or without a disk request out.
fn idle_seconds(stat: &str, cpu: usize) -> Option<f64> {
    let rest = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")))?;
    let ticks: Vec<f64> = rest.split(' ').map_while(|number| number.parse().ok()).collect();
    Some((ticks.get(3)? + ticks.get(4)?) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::{PageCache, Reading, Task, idle_seconds};

    #[test]
    fn a_memory_group_says_what_came_back() {
        let stat = "cache 9\nworkingset_refault_anon 3\nworkingset_refault_file 2\n\
                    inactive_file 30\nactive_file 10\n";
        let read = PageCache { refaulted: 8192.0, lists: [10.0, 30.0] };
        assert_eq!(PageCache::parse(stat), read);
        assert!(PageCache::parse("").refaulted.is_nan());
    }

    #[test]
    fn a_task_is_read_whatever_its_name() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) b) {}", fields.join(" "));
        let task = Task::parse("2000000000 500000000 9", &stat);
        assert_eq!(task, Some(Task { run_s: 2.0, queued_s: 0.5, disk_s: 0.42 }));
        assert_eq!(Task::parse("", &stat), None);
        assert_eq!(idle_seconds("cpu  9 9\ncpu1 1 2 3 400 50 6\n", 1), Some(4.5));
    }

    #[test]
    fn this_process_is_seen_running() {
        let us = std::process::id();
        let before = Reading::take(us, 0);
        let mut sum = 0_u64;
        while before.at.elapsed().as_millis() < 50 {
            sum = sum.wrapping_add(1);
        }
        let shares = before.until(&Reading::take(us, 0));
        assert!(sum > 0 && shares.used > 0.0, "{shares:?}");
    }
}
