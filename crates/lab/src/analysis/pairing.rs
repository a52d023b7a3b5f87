//! Pairs of two arms: from one block, in which the processors were equally far apart.

use crate::journal::Run;
use crate::record::{APART, Cell, Record};
use crate::stats::{BLOCKS_MIN, Blocks};
use crate::watch::cores::Distances;
use std::collections::BTreeMap;

/// The value of a metric in a trial.
pub(crate) fn metric(name: &str) -> impl Fn(&Record) -> Option<f64> {
    move |record| record.metrics.get(name).copied()
}

/// Values of two cells in each block, for comparison. Blocks that both have count if the processors
/// were equally far apart for both, provided that these are enough. An arm measured across caches
/// and one measured within one differ twofold though they are equal. Placement has nothing to do
/// with the arm, so leaving such pairs out removes noise.
pub(crate) fn both(
    run: &Run,
    of_cells: [&Cell; 2],
    of_trial: impl Fn(&Record) -> Option<f64>,
) -> [Blocks; 2] {
    let distances = Distances::of(run.valid().flat_map(apart).flatten());
    let of = |cell| -> BTreeMap<u32, (f64, [Option<usize>; 2])> {
        let class =
            |record: &Record| apart(record).map(|ns| ns.map(|ns| distances.class(Some(ns))));
        let trial = |record: &Record| {
            let value = of_trial(record).filter(|value| value.is_finite())?;
            Some((record.block, (value, class(record))))
        };
        super::of(run, cell).filter_map(trial).collect()
    };
    let [one, other] = of_cells.map(of);
    let is_alike = |block: &&u32| {
        let class = |(_, class): &(f64, [Option<usize>; 2])| *class;
        one.get(block).map(class) == other.get(block).map(class)
    };
    let alike: Vec<u32> = one.keys().filter(is_alike).copied().collect();
    let all = alike.len() < BLOCKS_MIN;
    let left = |side: BTreeMap<u32, (f64, [Option<usize>; 2])>| -> Blocks {
        let here = side.into_iter().filter(|(block, _)| all || alike.contains(block));
        here.map(|(block, (value, _))| (block, value)).collect()
    };
    [left(one), left(other)]
}

/// Distances of the processors before a trial and after it, nanoseconds.
fn apart(record: &Record) -> [Option<f64>; 2] {
    APART.map(|name| record.metrics.get(name).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Analysis;
    use crate::analysis::tests::synthetic;
    use crate::stats::{Random, Verdict};

    const TEXT: &str = r#"
experiment = { name = "made-up", question = "?", expect = "!" }
targets = { a = {}, b = {} }
workload = { root = ".", loop = "open" }
factors."workload.rate" = [100, 200, 3000, 4000]
measure.blocks = 6
"#;

    /// A run whose arms are equal but for `b`, with this noise at low rates and at high ones, where
    /// not all is answered.
    fn noisy(b: f64, noise: [f64; 2]) -> Run {
        let mut run = synthetic(TEXT, &|_| BTreeMap::new());
        let mut random = Random::new(3);
        for record in &mut run.records {
            let high = record.cell.levels["workload.rate"].len() > 3;
            let arm = if record.cell.target == "b" { b } else { 1.0 };
            let good = 100.0 * arm * (noise[usize::from(high)] * random.normal()).exp();
            let share = if high { 0.5 } else { 1.0 };
            for (name, value) in [("good_per_s", good), ("good_share", share)] {
                record.metrics.insert(name.to_owned(), value);
            }
        }
        run
    }

    #[test]
    fn what_is_noisy_beyond_saturation_hides_nothing_below() {
        let analysis = Analysis::of(&noisy(0.97, [0.002, 0.2]));
        for row in analysis.effects.iter().filter(|row| row.cell.arm == "b") {
            let low = row.cell.levels["workload.rate"].len() == 3;
            let expect = if low { Verdict::Less } else { Verdict::NoDifference };
            assert_eq!(row.verdict, expect, "{row:?}");
        }
    }

    /// Half of the trials are made across caches, where everything takes twice as long.
    #[test]
    fn pairs_are_of_equal_distances_where_there_are_enough() {
        let mut run = noisy(0.97, [0.002, 0.002]);
        run.experiment.measure.blocks = 6;
        let mut far = 0_u32;
        for record in &mut run.records {
            // In two of the six blocks the arms are not alike.
            let is_far = match record.block {
                0 | 1 => record.cell.target == "b",
                block => block % 2 == 0,
            };
            far += u32::from(is_far);
            let ns = if is_far { 450.0 } else { 90.0 };
            record.metrics.extend(APART.map(|name| (name.to_owned(), ns)));
            if is_far {
                *record.metrics.get_mut("good_per_s").unwrap() /= 2.0;
            }
        }
        assert!(far > 0);
        let effect = |run: &Run| {
            let analysis = Analysis::of(run);
            let row = analysis.effects.iter().find(|row| row.cell.arm == "b");
            row.unwrap().effect
        };
        let found = effect(&run);
        assert_eq!(found.blocks, 4, "{found:?}");
        assert!((found.ratio - 0.97).abs() < 0.01, "{found:?}");
        // A third such block leaves too few, and all count again.
        for record in run.records.iter_mut().filter(|record| record.block == 2) {
            let ns = if record.cell.target == "b" { 450.0 } else { 90.0 };
            record.metrics.extend(APART.map(|name| (name.to_owned(), ns)));
        }
        assert_eq!(effect(&run).blocks, 6);
        // All are alike if no distance is measured, as with the load on the server's processor.
        for record in &mut run.records {
            record.metrics.retain(|name, _| !APART.contains(&name.as_str()));
        }
        assert_eq!(effect(&run).blocks, 6);
    }
}
