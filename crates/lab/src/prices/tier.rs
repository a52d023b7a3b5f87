//! Verdicts on the prices of the papers: a tier of its own, never mixed with measurements.

use super::arms::PricedArm;
use super::counts::ReplyCounts;
use super::list::{PriceDraw, PriceList, papers};
use crate::claims::evidence::Evidence;
use crate::claims::functions::cap;
use crate::claims::{Claim, Verdict};
use crate::experiment::{ArmAt, ClaimAsk, ClaimRow, Compared, Comparison, RatePlace, Target};
use crate::journal::Run;
use crate::stats::{Random, count};
use serde::Serialize;
use std::sync::LazyLock;

const DRAWS: usize = 1_000;
/// Share of the draws in which a claim has to hold, or not.
const SURE: f64 = 0.95;
const SEED: u64 = 2007;

static PAPERS: LazyLock<Vec<PriceList>> = LazyLock::new(papers);

/// Verdict on the prices of a claim's paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PricedClaim {
    pub mark: String,
    pub verdict: Verdict,
    /// Share of the draws in which it holds.
    pub share: f64,
    /// Numbers at the middles of the prices.
    pub numbers: String,
}

impl PricedClaim {
    /// Verdict, share and numbers for a table.
    pub fn words(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Holds => "holds",
            Verdict::Fails => "refuted",
            Verdict::CannotTell => "undecided",
        };
        let (share, mark) = (100.0 * self.share, &self.mark);
        format!("priced: {verdict} in {share:.0} % of draws of {mark}: {}", self.numbers)
    }
}

/// Judges a claim by counts of a run and the prices of its paper.
///
/// `None` in three cases: the row compares other things than peaks and processor time; the paper
/// has no prices of what differs between the arms; or the claim is about processors or caps.
pub fn priced(run: &Run, id: &str) -> Option<PricedClaim> {
    let (paper, _) = id.split_once('-')?;
    let list = PAPERS.iter().find(|list| list.mark.trim_matches(['[', ']']) == paper)?;
    let row = run.experiment.rows.iter().find(|row| row.id == id)?;
    let is_of_processors = Claim::named(id).is_some_and(|claim| claim.processors > 0);
    if is_of_processors || row.asks.is_empty() {
        return None;
    }
    by_list(run, row, list)
}

fn by_list(run: &Run, row: &ClaimRow, list: &PriceList) -> Option<PricedClaim> {
    let evidence = Evidence::new(run);
    let priced = PricedArms::of(&evidence, row, list)?;
    let middle = PriceDraw::middle(list);
    let each = row.comparisons();
    let numbers: Vec<String> = each.map(|one| priced.says(one, &middle)).collect::<Option<_>>()?;
    let mut random = Random::new(SEED);
    let mut held = 0;
    for _ in 0..DRAWS {
        let draw = PriceDraw::random(list, &mut random);
        held += usize::from(row.asks.iter().all(|ask| priced.holds(ask, &draw)));
    }
    let share = count(held) / count(DRAWS);
    let verdict = match share {
        // Half of a claim confirms nothing, and arms that were not tried refute nothing.
        sure if sure >= SURE && row.half.is_none() => Verdict::Holds,
        sure if sure <= 1.0 - SURE && row.untried.is_none() => Verdict::Fails,
        _ => Verdict::CannotTell,
    };
    Some(PricedClaim { mark: list.mark.clone(), verdict, share, numbers: numbers.join("; ") })
}

/// Sides of a comparison that the calculator can make: of peaks, or of processor time.
fn sides(one: &Comparison) -> Option<([Vec<&str>; 2], bool)> {
    if !one.levels.is_empty() || one.at != RatePlace::Highest {
        return None;
    }
    match &one.of {
        Compared::Peak(sides) => {
            Some((sides.each_ref().map(|side| side.iter().map(String::as_str).collect()), true))
        }
        Compared::Ratio(of, arms) if of.to_string() == "cpu_us_per_reply" => {
            let is_plain = |arm: &ArmAt| arm.at.is_none();
            arms.iter()
                .all(is_plain)
                .then(|| (arms.each_ref().map(|arm| vec![arm.arm.as_str()]), false))
        }
        _ => None,
    }
}

/// Arms of a row, and the counts that prices of replies are of.
struct PricedArms {
    arms: Vec<PricedArm>,
    like: Option<ReplyCounts>,
    processors: f64,
}

impl PricedArms {
    /// `None` if something cannot be priced, or nothing that differs has a price.
    fn of(run: &Evidence<'_>, row: &ClaimRow, list: &PriceList) -> Option<Self> {
        let mut targets: Vec<&Target> = Vec::new();
        for one in row.comparisons() {
            let ([above, below], _) = sides(one)?;
            for name in above.into_iter().chain(below) {
                let target = run.regattas().find(|target| target.name == name)?;
                if !targets.iter().any(|known| known.name == name) {
                    targets.push(target);
                }
            }
        }
        let first = targets.first().map(|target| cap(target))?;
        if targets.iter().any(|target| cap(target) != first) {
            return None;
        }
        let arm = |target: &Target| PricedArm::of(run, target).ok();
        let arms = targets.into_iter().map(arm).collect::<Option<Vec<_>>>()?;
        let like = run.of(&list.like).next().and_then(arm).map(|arm| arm.counts);
        let found = Self { arms, like, processors: f64::from(list.processors.max(1)) };
        let draw = PriceDraw::middle(list);
        let peaks: Option<Vec<f64>> = found.arms.iter().map(|arm| found.peak(arm, &draw)).collect();
        let peaks = peaks?;
        // Prices that are the same for all servers say nothing of one.
        let differs = peaks.iter().any(|peak| (peak / peaks[0] - 1.0).abs() > 1e-6);
        differs.then_some(found)
    }

    fn peak(&self, arm: &PricedArm, draw: &PriceDraw<'_>) -> Option<f64> {
        arm.peak(draw, self.like.as_ref(), self.processors)
    }

    /// Quotient of a comparison on a draw of the prices.
    fn value(&self, one: &Comparison, draw: &PriceDraw<'_>) -> Option<f64> {
        let ([above, below], of_peaks) = sides(one)?;
        let best = |names: &[&str]| {
            let arms = self.arms.iter().filter(|arm| names.contains(&arm.name.as_str()));
            let of = |arm: &PricedArm| match of_peaks {
                true => self.peak(arm, draw),
                false => Some(draw.cpu_s(&arm.counts, self.like.as_ref())),
            };
            arms.filter_map(of).reduce(f64::max).filter(|value| *value > 0.0)
        };
        Some(best(&above)? / best(&below)?)
    }

    fn is_so(&self, one: &Comparison, draw: &PriceDraw<'_>) -> bool {
        let (low, high) = one.is.limits();
        let is_within = |value: f64| (low..high).contains(&value);
        self.value(one, draw).is_some_and(|value| is_within(value) == one.is.is_inside())
    }

    fn holds(&self, ask: &ClaimAsk, draw: &PriceDraw<'_>) -> bool {
        match ask {
            ClaimAsk::One(one) => self.is_so(one, draw),
            ClaimAsk::Any(any) => any.iter().any(|all| all.iter().all(|one| self.is_so(one, draw))),
        }
    }

    /// A comparison's value in words.
    fn says(&self, one: &Comparison, draw: &PriceDraw<'_>) -> Option<String> {
        let ([above, below], of_peaks) = sides(one)?;
        let what = if of_peaks { "peak" } else { "processor time" };
        let (above, below) = (above.join(", "), below.join(", "));
        Some(format!("{what} of {above} over {below} {:.2}", self.value(one, draw)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};

    /// A run of two arms. The first asks about `asked` descriptors for each reply, and copies
    /// `copied` bytes.
    fn run(row: &str, [asked, copied]: [f64; 2]) -> Run {
        let text = format!(
            "experiment = {{ name = \"x\", question = \"?\", expect = \"!\" }}\n\
             targets.one.config.server.architecture = \"sped\"\n\
             targets.other.config = {{ server.architecture = \"symped\", event.processes = 1 }}\n\
             workload.root = \".\"\nmeasure = {{ again = false }}\n[[claim]]\n{row}\n"
        );
        synthetic(&text, &|cell| {
            let is_one = cell.target == "one";
            named([
                ("replies", 1_000.0),
                ("bytes_sent", 14_906_000.0),
                ("wait_interest_sum", 1e3 * if is_one { asked } else { 100.0 }),
                ("send_bytes", 1e3 * if is_one { copied } else { 300.0 }),
                ("good_per_s", 1_000.0),
            ])
        })
    }

    /// On the prices of [E] a reply of the second arm takes some 97 us, 12.4 of them for poll.
    /// Copying 14.9 KB takes 21 us more.
    #[test]
    fn a_claim_has_a_verdict_on_the_papers_prices() {
        let peak = "asks = [{ peak = [\"one\", \"other\"], is = ";
        let cpu = "asks = [{ ratio = [\"one\", \"other\"], of = \"cpu_us_per_reply\", is = ";
        for (ask, is, counts, verdict) in [
            (peak, "<0.9", [100.0, 14_906.0], Some(Verdict::Holds)),
            (peak, ">0.9", [100.0, 14_906.0], Some(Verdict::Fails)),
            (peak, ">1.05", [10.0, 300.0], Some(Verdict::Holds)),
            (cpu, ">1.1", [100.0, 14_906.0], Some(Verdict::Holds)),
            (cpu, ">1.5", [100.0, 14_906.0], Some(Verdict::Fails)),
            // Nothing that has a price differs.
            (peak, "<0.9", [100.0, 300.0], None),
        ] {
            let run = run(&format!("id = \"E-16\"\n{ask}{is:?} }}]"), counts);
            let found = priced(&run, "E-16");
            assert_eq!(found.as_ref().map(|one| one.verdict), verdict, "{ask}{is}: {found:?}");
        }
        let close = run(
            "id = \"E-16\"\nasks = [{ peak = [\"one\", \"other\"], is = \"<0.823\" }]",
            [100.0, 14_906.0],
        );
        let found = priced(&close, "E-16").unwrap();
        assert!(found.verdict == Verdict::CannotTell, "{found:?}");
        assert!(found.words().starts_with("priced: undecided in "), "{}", found.words());
    }

    #[test]
    fn other_comparisons_and_papers_have_no_prices() {
        for (id, asks) in [
            ("E-16", "{ ratio = [\"one\", \"other\"], of = \"p99_ms\", is = \">1\" }"),
            ("E-16", "{ kept = \"one\", is = \">1\" }"),
            ("X-7", "{ peak = [\"one\", \"other\"], is = \"<1\" }"),
            ("S-4", "{ peak = [\"one\", \"other\"], is = \"<1\" }"),
            ("G-3", "{ peak = [\"one\", \"other\"], is = \"<1\" }"),
        ] {
            let run = run(&format!("id = {id:?}\nasks = [{asks}]"), [10.0, 14_906.0]);
            assert_eq!(priced(&run, id), None, "{id}: {asks}");
        }
    }
}
