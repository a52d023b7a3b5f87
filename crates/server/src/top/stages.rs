//! Stages of a pipeline: the sums of the slots of one name.
use super::Sample;
use regatta_metrics::{Dial, Totals};

/// A stage.
pub(super) struct Stage<'a> {
    pub(super) name: &'a str,
    /// Since the start.
    pub(super) totals: Totals,
    /// Since an earlier reading; without one, since the start.
    pub(super) since: Totals,
    dials: [u64; Dial::ALL.len()],
}

impl Stage<'_> {
    /// Sum or maximum of a setting in all processes; 0 if it has never been reported.
    pub(super) fn dial(&self, dial: Dial) -> u64 {
        self.dials[dial as usize]
    }
}

/// Lists the stages in the order of their first slots; none where workers have none.
pub(super) fn all<'a>(now: &'a Sample, earlier: Option<&Sample>) -> Vec<Stage<'a>> {
    let mut stages: Vec<Stage<'a>> = Vec::new();
    for worker in now.listed().filter(|worker| !worker.role.is_empty()) {
        let since = now.worker_since(worker, earlier);
        match stages.iter_mut().find(|stage| stage.name == worker.role) {
            Some(stage) => {
                stage.totals.merge(&worker.totals);
                stage.since.merge(&since);
                for dial in Dial::ALL {
                    let at = dial as usize;
                    stage.dials[at] = together(dial, stage.dials[at], worker.dials[at]);
                }
            }
            None => stages.push(Stage {
                name: &worker.role,
                totals: worker.totals.clone(),
                since,
                dials: worker.dials,
            }),
        }
    }
    stages
}

/// Merges a dial of two slots: settings of each slot add up; of the rest the higher one counts.
fn together(dial: Dial, one: u64, other: u64) -> u64 {
    match dial {
        Dial::Threads | Dial::AdmitMilliPerS | Dial::Decisions => one.saturating_add(other),
        Dial::BatchMost | Dial::QueueMax | Dial::AgeP90Ns => one.max(other),
    }
}
