//! Arms of a run as the calculator sees them: counts of a reply, processes that wait, the disk.

use super::counts::ReplyCounts;
use super::demand::PriceDraw;
use super::network::replies_per_s;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Program;

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
}
