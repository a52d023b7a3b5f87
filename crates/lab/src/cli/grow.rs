//! `regatta lab run --until-decided`: block by block, until every claim is decided or the time is
//! over.

use crate::claims::{self, Growth, next_look};
use crate::experiment::plan::block_s;
use crate::experiment::{Experiment, Mode};
use crate::journal::Run;
use crate::stats::BLOCKS_MIN;
use std::time::{Duration, Instant};

/// Limits of a run's growth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grow {
    /// Blocks that the experiment asks for; no look precedes them.
    first: u32,
    /// No block is begun that would not be over by then.
    end: Instant,
}

impl Grow {
    /// Begins to grow a run of `experiment`, which has the blocks that its file asks for.
    pub(super) fn begin(
        run: &mut Run,
        experiment: &Experiment,
        budget: Duration,
    ) -> Result<Self, String> {
        let name = &experiment.name;
        if experiment.measure.mode == Mode::Knee {
            return Err(format!(
                "{name} is a saturation search, which ends by itself (knee.goal): run it without \
                 --until-decided"
            ));
        }
        if experiment.claims.is_empty() {
            return Err(format!(
                "{name} names no claim, so nothing can be decided: give its file a [[claim]], \
                 experiment.claims, or more measure.blocks"
            ));
        }
        let least = u32::try_from(BLOCKS_MIN).unwrap_or(u32::MAX);
        let first = experiment.measure.blocks.max(least);
        // Adds one block after the other, so that the time can be over before the first look.
        if run.manifest.looks.is_empty() {
            run.experiment.measure.blocks = run.blocks_begun().max(1);
        }
        Ok(Self { first, end: Instant::now() + budget })
    }

    /// Looks if it is time to, and says how many blocks there are to be; None: that is all.
    pub(super) fn more(&self, run: &mut Run) -> Result<Option<u32>, String> {
        let blocks = run.experiment.measure.blocks;
        let last = run.manifest.looks.last().copied();
        let is_over = Instant::now() + Duration::from_secs_f64(block_s(&run.experiment)) > self.end;
        // At the end of the time, all blocks are judged.
        let due = match last {
            Some(last) if is_over => last + 1,
            Some(last) => next_look(last),
            None => self.first,
        };
        if blocks >= due {
            run.manifest.looks.push(blocks);
            run.save_manifest()?;
        }
        let growth = Growth::of(run, &claims::judge(run));
        if is_over || growth.is_some_and(|growth| !growth.is_open()) {
            // Without a look it is an ordinary run that was interrupted.
            if run.manifest.looks.is_empty() {
                run.experiment.measure.blocks = self.first;
            }
            return Ok(None);
        }
        Ok(Some(blocks + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::synthetic;
    use std::collections::BTreeMap;

    const TEXT: &str = r#"
experiment = { name = "grown", question = "?", expect = "!", claims = ["H-1"] }
targets.a.program = "regatta"
targets.b.program = "regatta"
workload.root = "."
measure = { window_s = 1, blocks = 5 }
"#;

    #[test]
    fn only_claims_that_trials_decide_make_a_run_grow() {
        let refused = |text: &str| {
            let mut run = synthetic(text, &|_| BTreeMap::new());
            let experiment = run.experiment.clone();
            Grow::begin(&mut run, &experiment, Duration::ZERO).unwrap_err()
        };
        let none = refused(&TEXT.replace("[\"H-1\"]", "[]"));
        assert!(none.contains("names no claim") && none.contains("experiment.claims"), "{none}");
        let search = TEXT.replace("measure = {", "measure = { mode = \"knee\",");
        let open = "workload = { root = \".\", loop = \"open\", rate = 9, slo = \"p99<1s\" }";
        let search = refused(&search.replace("workload.root = \".\"", open));
        assert!(search.contains("without --until-decided"), "{search}");
    }

    #[test]
    fn time_ends_it_between_blocks() {
        let mut run = synthetic(TEXT, &|_| BTreeMap::new());
        let experiment = run.experiment.clone();
        run.records.retain(|record| record.block < 2);
        let over = Grow::begin(&mut run, &experiment, Duration::ZERO).unwrap();
        assert_eq!(run.experiment.measure.blocks, 2, "those that there are");
        assert_eq!(over.more(&mut run), Ok(None));
        assert_eq!(run.experiment, experiment, "nobody has looked");
        let grow = Grow::begin(&mut run, &experiment, Duration::from_secs(3_600)).unwrap();
        assert_eq!((grow.more(&mut run), run.manifest.looks.len()), (Ok(Some(3)), 0));
    }
}
