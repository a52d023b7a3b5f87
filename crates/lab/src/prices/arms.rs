//! Arms of a run as the calculator sees them: counts of a reply, processes that wait, the disk.

use super::counts::ReplyCounts;
use super::list::PriceDraw;
use crate::claims::evidence::{ARCHITECTURE, Evidence, Found, option};
use crate::env::service_by_depth;
use crate::experiment::Target;
use crate::record::Cell;

/// Options that say how many processes, threads or helpers may wait for a disk at once.
const WAITING: [&str; 6] = [
    "event.processes",
    "event.copies",
    "watpipe.writers",
    "fiber.helpers",
    "adapt.threads",
    "pool.threads",
];
/// Architectures that open and send files in their event loops.
const LOOPS: [&str; 5] = ["sped", "symped", "shared-symped", "n-copy", "cohort"];
/// Helpers and threads of an architecture that has them, if nothing says how many.
const HELPERS: usize = 32;
/// With more requests than this the queue of a disk is as good as it can be.
const DEPTH_MAX: usize = 64;
/// Bytes of a request of the disk if the run does not say.
const PIECE_BYTES: f64 = 65_536.0;

/// An arm at the rate where it answers most.
#[derive(Clone, Debug)]
pub(super) struct PricedArm {
    pub(super) name: String,
    pub(super) cell: Cell,
    pub(super) counts: ReplyCounts,
    customers: usize,
    /// Disk's time for a request with 1, 2 and more of them, seconds; empty without a disk.
    service_s: Vec<f64>,
}

impl PricedArm {
    /// The arm of a target; an error if its trials lack something.
    pub(super) fn of(run: &Evidence<'_>, target: &Target) -> Found<Self> {
        let mut best: Option<(f64, Cell)> = None;
        for (_, cell) in run.rates(&target.name)? {
            let good = run.metric(&cell, "good_per_s")?;
            if best.as_ref().is_none_or(|(most, _)| good > *most) {
                best = Some((good, cell));
            }
        }
        let missing = || format!("counters of {}", target.name);
        let (_, cell) = best.ok_or_else(missing)?;
        let counts = ReplyCounts::of(run.run, target, &cell).ok_or_else(missing)?;
        let customers = customers(target);
        let disk = run.run.experiment.environment.disk.as_ref();
        let service_s = disk.map_or(Vec::new(), |disk| {
            let per_s = |name: &str| run.metric(&cell, name).ok().filter(|value| *value > 0.0);
            let bytes = || Some(1e6 * per_s("disk_mbyte_per_s")? / per_s("disk_requests_per_s")?);
            let bytes = crate::stats::index(bytes().unwrap_or(PIECE_BYTES));
            service_by_depth(disk, crate::units::whole(bytes), customers.min(DEPTH_MAX))
        });
        Ok(Self { name: target.name.clone(), cell, counts, customers, service_s })
    }

    /// Disk's time for a request while `waiting` of them wait, seconds; 0 without a disk.
    fn service_s(&self, waiting: usize) -> f64 {
        let last = self.service_s.len().saturating_sub(1);
        self.service_s.get(waiting.saturating_sub(1).min(last)).copied().unwrap_or(0.0)
    }

    /// Most replies a second of `processors`; `None` if the prices are of nothing that it does.
    ///
    /// The disk's time is by its price, which is that of one waiting process; else as the
    /// environment simulates it.
    pub(super) fn peak(
        &self,
        draw: &PriceDraw<'_>,
        like: Option<&ReplyCounts>,
        processors: f64,
    ) -> Option<f64> {
        let cpu_s = draw.cpu_s(&self.counts, like) / processors;
        let (alone_s, requests) = (self.service_s(1), self.counts.get("disk"));
        let priced_s = draw.disk_s(&self.counts, like).filter(|_| alone_s > 0.0);
        let disk_s = |waiting: usize| match priced_s {
            Some(priced_s) => priced_s * self.service_s(waiting) / alone_s,
            None => requests * self.service_s(waiting),
        };
        (cpu_s > 0.0).then(|| replies_per_s(self.customers, cpu_s, disk_s))
    }
}

/// Processes, threads or helpers that wait for a disk at once.
fn customers(target: &Target) -> usize {
    let said = WAITING.iter().filter_map(|key| option(target, key).parse::<usize>().ok());
    let is_loop = LOOPS.contains(&option(target, ARCHITECTURE));
    let said = said.reduce(|one, other| one * other);
    said.unwrap_or(if is_loop { 1 } else { HELPERS }).max(1)
}

/// Replies a second of `customers` processes that compute for `cpu_s` and wait for the disk in
/// turns. The disk takes `disk_s(n)` of its time for a reply while `n` of them wait.
///
/// With G(n) = Σ over k of cpu^(n−k) · Π over j ≤ k of disk(j), the rate is G(n−1) / G(n). The
/// loop computes it from the probability that all wait for the disk, so that no power overflows.
pub(super) fn replies_per_s(customers: usize, cpu_s: f64, disk_s: impl Fn(usize) -> f64) -> f64 {
    let (mut all_wait, mut rate) = (1.0, 0.0);
    for number in 1..=customers.max(1) {
        let at_disk = disk_s(number) / cpu_s * all_wait;
        rate = 1.0 / (cpu_s * (1.0 + at_disk));
        all_wait = at_disk / (1.0 + at_disk);
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Program;
    use regatta_load::workload::model;

    #[test]
    fn options_say_how_many_wait() {
        for (options, number) in [
            ("server.architecture=sped", 1),
            ("server.architecture=amped", HELPERS),
            ("event.processes=4", 4),
            ("server.architecture=n-copy event.copies=15", 15),
            ("server.architecture=watpipe4 watpipe.writers=25", 25),
            ("server.architecture=symped-b", 100),
        ] {
            let pairs = options.split(' ').filter_map(|option| option.split_once('='));
            let config = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            let (name, program) = ("x".to_owned(), Program::Regatta);
            let target = Target { name, program, config, binary: None };
            assert_eq!(customers(&target), number, "{options}");
        }
    }

    #[test]
    fn mean_value_analysis_says_the_same() {
        for customers in [1, 2, 4, 40, 400] {
            for disk_s in [0.0, 2e-5, 1e-4, 1e-3] {
                let found = replies_per_s(customers, 1e-4, |_| disk_s);
                let processes = u32::try_from(customers).unwrap();
                let expected = model::processes(processes, 1e-4, disk_s).requests_per_s;
                let what = format!("{customers} processes, {disk_s} s");
                assert!((found / expected - 1.0).abs() < 1e-9, "{what}: {found}, {expected}");
            }
        }
    }

    /// Two processes, and a disk that is twice as fast with two requests, by balance equations.
    #[test]
    fn a_disk_that_sorts_makes_several_processes_faster() {
        let disk_s = |waiting: usize| if waiting > 1 { 0.5 } else { 1.0 };
        for (customers, rate) in [(1, 0.5), (2, 0.8)] {
            let found = replies_per_s(customers, 1.0, disk_s);
            assert!((found - rate).abs() < 1e-12, "{customers}: {found}");
        }
        let plain = replies_per_s(8, 1.0, |_| 1.0);
        assert!(replies_per_s(8, 1.0, disk_s) > plain);
    }
}
