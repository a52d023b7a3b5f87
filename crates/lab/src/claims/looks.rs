//! Looks at a run that grows until its claims are decided.
//!
//! Repeated looks that end at the first good result mislead more often than once in 20 times. Each
//! look therefore has its share of that chance ([`Manifest::chances`]), and follows only when the
//! run has grown by a quarter. A look after every block would take a third more blocks, since
//! shares shrink with the number of looks and not with that of blocks (the epochs of Howard,
//! Ramdas, McAuliffe and Sekhon 2021). A decision at one look stays.
//!
//! [`Manifest::chances`]: crate::journal::manifest::Manifest::chances

use super::{Judged, Open, Verdict, judge_some};
use crate::experiment::plan::block_s;
use crate::journal::Run;
use crate::units::minutes;
use serde::Serialize;

/// Number of blocks at the look that follows one at `blocks`.
pub(crate) fn next_look(blocks: u32) -> u32 {
    blocks + blocks.div_ceil(4).max(1)
}

/// Judges by the first look at which a claim was decided, or by the last.
pub(super) fn judge(run: &Run, looks: usize) -> Vec<Judged> {
    let mut told = Vec::new();
    for number in 1..=looks {
        let seen = run.at_look(number);
        let open = |id: &&String| {
            let so_far = told.iter().find(|one: &&Judged| one.id == **id);
            so_far.is_none_or(|one| one.verdict == Verdict::CannotTell)
        };
        let open: Vec<String> = run.experiment.claims.iter().filter(open).cloned().collect();
        for mut judged in judge_some(&seen, &open) {
            if judged.verdict != Verdict::CannotTell {
                judged.decided_after = Some(seen.experiment.measure.blocks);
            }
            match told.iter_mut().find(|one| one.id == judged.id) {
                Some(before) => *before = judged,
                None => told.push(judged),
            }
        }
    }
    told
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Growth {
    /// The blocks at each look.
    looks: Vec<u32>,
    /// Claims that were decided, each with its verdict and after how many blocks.
    decided: Vec<(String, &'static str, u32)>,
    /// Claims that more blocks may decide: about how many more, and their time; None if unknown.
    open: Vec<(String, Option<(usize, f64)>)>,
    /// Claims that no more blocks decide, and why.
    hopeless: Vec<(String, &'static str)>,
}

impl Growth {
    /// None if the run does not grow.
    pub(crate) fn of(run: &Run, claims: &[Judged]) -> Option<Self> {
        let looks = run.manifest.looks.clone();
        let last = usize::try_from(*looks.last()?).ok()?;
        let mut growth = Self { looks, decided: vec![], open: vec![], hopeless: vec![] };
        for one in claims {
            let id = one.id.clone();
            match (&one.open, one.decided_after) {
                (_, Some(blocks)) => growth.decided.push((id, one.verdict_words(), blocks)),
                (Some(Open::Noise { enough, blocks, .. }), _) => {
                    // The claim lacks the blocks in which a trial did not count.
                    let more = enough.map(|enough| {
                        let more = enough.saturating_sub((*blocks).min(last)).max(1);
                        (more, crate::stats::count(more) * block_s(&run.experiment))
                    });
                    growth.open.push((id, more));
                }
                _ => growth.hopeless.push((id, one.verdict_words())),
            }
        }
        Some(growth)
    }

    /// Whether there is a claim that more blocks may decide.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(crate) fn words(&self) -> String {
        let decided = self
            .decided
            .iter()
            .map(|(id, verdict, blocks)| format!("{id} {verdict}, decided after {blocks} blocks"));
        let open = self.open.iter().map(|(id, more)| match more {
            Some((blocks, seconds)) => {
                format!("{id} is open: about {blocks} more blocks, {}", minutes(*seconds))
            }
            None => format!("{id} is open, and nobody knows how many blocks would decide it"),
        });
        let hopeless = self
            .hopeless
            .iter()
            .map(|(id, verdict)| format!("{id} is not decided by more blocks ({verdict})"));
        let told: Vec<String> = decided.chain(open).chain(hopeless).collect();
        let looks: Vec<String> = self.looks.iter().map(u32::to_string).collect();
        format!("Looked at after {} blocks: {}.", looks.join(", "), told.join("; "))
    }
}

impl Judged {
    /// The verdict as people read it, and what hides an open one.
    pub fn verdict_words(&self) -> &'static str {
        match (self.verdict, &self.open) {
            (Verdict::Holds, _) => "holds",
            (Verdict::Fails, _) => "fails here",
            (Verdict::CannotTell, Some(Open::Noise { .. })) => "cannot be told: noise",
            (Verdict::CannotTell, Some(Open::Machine { .. })) => "cannot be told: machine",
            (Verdict::CannotTell, Some(Open::Replica { .. })) => "replica differs",
            (Verdict::CannotTell, _) => "not measured",
        }
    }

    /// Three sentences: the claim, what was seen, what settles it.
    pub fn sentences(&self) -> [String; 3] {
        let seen = if self.ours.is_empty() { "nothing of it yet" } else { &self.ours };
        // A claim of the user's own has no paper.
        let says = match self.paper.as_str() {
            "" => ended(self.gist.clone()),
            paper => format!("{} (paper: {paper}).", self.gist),
        };
        [says, ended(format!("Seen: {seen}")), ended(self.settles())]
    }

    /// The measurement that would settle the claim; of a settled one, the one that did.
    fn settles(&self) -> String {
        match &self.open {
            None => {
                let after = self.decided_after.map(|blocks| format!(" after {blocks} blocks"));
                format!("Settled{}: {}", after.unwrap_or_default(), self.why)
            }
            Some(Open::Noise { whether, blocks, enough, seconds }) => {
                let more = match (enough, seconds) {
                    (Some(enough), Some(seconds)) => format!(
                        "About {} more blocks would tell, {} of trials: run it again into another \
                         directory, and give both to `regatta lab verdicts`",
                        enough.saturating_sub(*blocks),
                        minutes(*seconds)
                    ),
                    _ => "How many blocks would tell is not known: a quieter machine might".into(),
                };
                format!("Too noisy: {}. {more}", whether.trim_end_matches('.'))
            }
            Some(Open::Machine { needs }) => format!("It takes another machine: {needs}"),
            Some(Open::Replica { differs }) => {
                format!("The replica differs from the paper's machine and load: {differs}")
            }
            Some(Open::Unmeasured { needs }) => format!("To be measured: {needs}"),
        }
    }
}

/// A sentence with its full stop.
fn ended(sentence: String) -> String {
    format!("{}.", sentence.trim_end().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};
    use crate::claims::evidence::Evidence;
    use crate::claims::shown::{Shown, all};
    use crate::stats::{Random, count};
    use Verdict::{CannotTell, Fails, Holds};
    use std::collections::BTreeMap;

    /// Looks at `first` to `most` blocks, each with its number of chances.
    fn looks(first: u32, most: u32) -> Vec<(usize, usize)> {
        let mut manifest = synthetic(TEXT, &|_| BTreeMap::new()).manifest;
        let all = std::iter::successors(Some(first), |blocks| Some(next_look(*blocks)));
        let each = all.take_while(|blocks| *blocks <= most).map(|blocks| {
            manifest.looks.push(blocks);
            (usize::try_from(blocks).unwrap(), manifest.chances())
        });
        each.collect()
    }

    /// Number of `runs` growing runs that find a ratio above or below 1, and their mean number of
    /// blocks.
    fn decided(ratio: f64, looks: &[(usize, usize)], runs: u32) -> (u32, f64) {
        let mut random = Random::new(23);
        let (most, _) = *looks.last().unwrap();
        let (mut told, mut blocks) = (0, 0.0);
        for _ in 0..runs {
            let mut trial = || (0.1 * random.normal()).exp();
            let pairs: Vec<(f64, f64)> = (0..most).map(|_| (ratio * trial(), trial())).collect();
            let first = looks.iter().find(|(blocks, chances)| {
                let shown = Shown::ratio(&pairs[..*blocks]).unwrap().among(*chances);
                all(&[shown.above(1.0, "x")]).verdict != CannotTell
            });
            told += u32::from(first.is_some());
            blocks += count(first.map_or(most, |(blocks, _)| *blocks));
        }
        (told, blocks / f64::from(runs))
    }

    #[test]
    fn looking_until_something_is_decided_rarely_misleads() {
        let all = looks(6, 100);
        assert_eq!(all[..4], [(6, 2), (8, 6), (10, 12), (13, 20)]);
        const RUNS: u32 = 400;
        let (wrong, _) = decided(1.0, &all, RUNS);
        assert!(wrong <= RUNS / 20, "{wrong} of {RUNS}");
        // Looks as often, without paying for it.
        let plain: Vec<(usize, usize)> = all.iter().map(|(blocks, _)| (*blocks, 1)).collect();
        let (misled, _) = decided(1.0, &plain, RUNS);
        assert!(misled > RUNS / 8, "{misled} of {RUNS}");
        // Pays for all looks but the first, and grows the claims that it left open.
        let mut late = all.clone();
        late[0].1 = 1;
        let (wrong, _) = decided(1.0, &late, RUNS);
        assert!(wrong <= RUNS * 3 / 40, "{wrong} of {RUNS}");
        // The effect is found, and sooner than by a look after every block.
        let (found, blocks) = decided(1.1, &all, 200);
        let each: Vec<(usize, usize)> =
            (6..=100).map(|blocks| (blocks, (blocks - 5) * (blocks - 4))).collect();
        let (_, more) = decided(1.1, &each, 200);
        assert!(found >= 190 && blocks < more, "{found} of 200, {blocks} blocks for {more}");
    }

    const TEXT: &str = r#"
experiment = { name = "grown", question = "?", expect = "!", claims = ["H-1", "P-2"] }
targets.a.config.server.architecture = "acceptinf"
targets.b.config.server.architecture = "accept1"
factors."workload.rate" = ["0.95x", "1.2x", "1.43x"]
workload = { root = ".", loop = "open" }
calibrate = {}
measure.blocks = 13
[[claim]]
id = "H-1"
asks = [{ peak = ["b", "a"], is = "0.6..0.9" }]
"#;

    fn shown(good: f64) -> BTreeMap<String, f64> {
        named([("good_per_s", good), ("wait_events", 2.0), ("wait_calls", 1.0), ("accept_ok", 1.0)])
    }

    #[test]
    fn what_a_look_decides_stays_decided() {
        let world =
            |cell: &crate::record::Cell| shown(if cell.target == "b" { 750.0 } else { 1_000.0 });
        let mut run = synthetic(TEXT, &world);
        assert_eq!(Growth::of(&run, &super::super::judge(&run)), None);
        // From the ninth block on all are alike.
        for record in &mut run.records {
            if record.block >= 8 && record.cell.target == "b" {
                let good = record.metrics["good_per_s"] / 0.75;
                record.metrics.insert("good_per_s".to_owned(), good);
            }
        }
        let verdict = |run: &Run| super::super::judge(run)[0].verdict;
        let alone = verdict(&run);
        assert_ne!(alone, Holds, "all blocks together do not say so");
        run.manifest.looks = vec![6, 8, 10, 13];
        let claims = super::super::judge(&run);
        assert_eq!((claims[0].verdict, claims[0].decided_after), (Holds, Some(6)), "{claims:?}");
        assert!(claims[0].sentences()[2].starts_with("Settled after 6 blocks"), "{claims:?}");
        let growth = Growth::of(&run, &claims).unwrap();
        assert!(!growth.is_open(), "{growth:?}");
        let said = growth.words();
        assert!(
            said.starts_with("Looked at after 6, 8, 10, 13 blocks: H-1 holds, decided"),
            "{said}"
        );
        assert!(said.contains("P-2 is not decided by more blocks (not measured)"), "{said}");
        assert_eq!(Evidence::new(&run.at_look(2)).looks, 6);
        assert_eq!(run.at_look(2).records.iter().map(|one| one.block).max(), Some(7));
    }

    #[test]
    fn what_is_open_says_how_many_blocks_more() {
        let mut random = Random::new(3);
        let mut run = synthetic(TEXT, &|_| shown(1_000.0));
        for record in &mut run.records {
            let b = if record.cell.target == "b" { 0.97 } else { 1.0 };
            let good = 1_000.0 * b * (0.1 * random.normal()).exp();
            record.metrics.insert("good_per_s".to_owned(), good);
        }
        run.manifest.looks = vec![6, 8];
        let claims = super::super::judge(&run);
        let growth = Growth::of(&run, &claims).unwrap();
        match claims[0].verdict {
            CannotTell => assert!(growth.is_open(), "{growth:?}"),
            Holds | Fails => assert!(growth.words().contains("decided after"), "{growth:?}"),
        }
        assert!(growth.words().contains("H-1 is open"), "{}", growth.words());
    }
}
