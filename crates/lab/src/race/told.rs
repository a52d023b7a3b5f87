//! A race, as far as it has come: read from its run, and said in sentences.

use super::space::{Candidate, Means, Site};
use super::{Decision, Duel, Finalist, RUNS_MIN, Rung, Verified};
use crate::journal::Run;
use crate::knee::Found;
use crate::stats::{BLOCKS_MIN, Verdict};
use crate::units::show;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

pub(crate) const SETTLED: &str = "best.json";
pub(crate) const RUNGS_FILE: &str = "race.jsonl";
pub(crate) const DECISION: &str = "decision.json";
pub(crate) const CONFIGURATION: &str = "best.toml";

/// Factor over the rate that the default keeps beyond which the load was not the limit.
const NEAR: f64 = 1.5;

/// Settings fixed before the race: `best.json` in the run's directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    pub root: String,
    pub site: Site,
    pub means: Means,
    pub budget_s: f64,
    pub seed: u32,
    pub server_cpus: String,
    pub client_cpus: String,
    /// Whether both run before everything else.
    pub realtime: bool,
    /// Whether server and load share a processor.
    pub together: bool,
    /// Share of its processors that the server has, per cent.
    pub left: u32,
    /// Answers of the default in a closed loop, requests per second; 0: not known yet.
    pub capacity: f64,
    pub warm_s: f64,
    pub window_s: f64,
    /// Time of a trial outside its window, seconds.
    pub around_s: f64,
    pub environment: Option<String>,
    pub slo: String,
    /// The access log that says what is asked for.
    pub log: Option<PathBuf>,
    pub connections: u32,
    /// Requests on each connection; 0: no limit.
    pub requests_per_connection: u32,
    /// The most that others may use of the server's processors.
    pub foreign_max: f64,
}

/// A race, as far as it has come, for its report.
#[derive(Clone, Debug)]
pub struct Told {
    pub settled: Settled,
    pub rungs: Vec<Rung>,
    pub decision: Option<Decision>,
    /// The configuration that it ended with.
    pub configuration: Option<String>,
}

/// Reads the race of a run; None if it is no race.
pub fn told(run: &Run) -> Option<Told> {
    let read = |name: &str| fs::read_to_string(run.directory.join(name)).ok();
    let settled: Settled = serde_json::from_str(&read(SETTLED)?).ok()?;
    let rungs = read(RUNGS_FILE).unwrap_or_default();
    Some(Told {
        settled,
        rungs: rungs.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
        decision: read(DECISION).and_then(|text| serde_json::from_str(&text).ok()),
        configuration: read(CONFIGURATION),
    })
}

impl Told {
    /// Comparison of its replies with the files.
    pub fn verified(&self) -> Option<&Verified> {
        self.decision.as_ref()?.verified.as_ref()
    }

    pub fn compared(&self) -> Option<String> {
        self.verified().map(verified)
    }

    pub fn answer(&self) -> String {
        match &self.decision {
            Some(decision) => sentences(&self.settled, decision)[2..].join(" "),
            None => format!("The race has not ended: {} rungs were made.", self.rungs.len()),
        }
    }
}

/// Report on the race, each line a text of its own.
pub(crate) fn sentences(settled: &Settled, decision: &Decision) -> Vec<String> {
    let mut lines = vec![format!("The site: {}.", settled.site.words())];
    let cpus = settled.means.cpus;
    let memory = crate::units::real(settled.means.memory) / f64::from(1 << 20);
    let some = if cpus == 1 { String::new() } else { "s".to_owned() };
    let held = match settled.left {
        100 => String::new(),
        left => format!(" of which it has {left} %, as the load has to be faster than it,"),
    };
    lines.push(format!(
        "The server's part of this machine: {cpus} processor{some},{held} {memory:.0} MiB of \
         memory{}. Rates are of that part.",
        if settled.environment.is_some() { ", in the environment that was given" } else { "" }
    ));
    let slo = &settled.slo;
    let advised = decision.advice.as_ref().and_then(|_| decision.chosen());
    match advised {
        Some(one) => lines.push(format!("{} {}.", one.candidate.name(), kept(one, slo))),
        None => lines.push(format!("Keep the default: {}.", reason(settled, decision))),
    }
    if let Some(one) = advised {
        let apart = 100.0 * decision.floor;
        lines.push(format!(
            "Its saturation point is {} the default's; two searches of the default were \
             {apart:.1} % apart.",
            range(one)
        ));
    }
    for one in decision.finalists.iter().filter(|one| Some(*one) != advised) {
        let beside = match one.beside {
            Some(_) => format!("; its saturation point is {} the default's", range(one)),
            None => String::new(),
        };
        lines.push(format!("{} {}{beside}.", one.candidate.name(), kept(one, slo)));
    }
    lines.extend(decision.duels.iter().map(|duel| beside(duel, slo)));
    if decision.advice.as_ref().is_some_and(Candidate::counts_processes) {
        lines.push(format!(
            "That number of processes is for {cpus} processor{some}: with more, race on those."
        ));
    }
    lines.extend(decision.verified.as_ref().map(verified));
    lines
}

/// Reason for which the default is the advice.
fn reason(settled: &Settled, decision: &Decision) -> String {
    let of = |wanted: Verdict| {
        let is = |one: &&Finalist| decision.verdict(one) == wanted;
        decision.finalists.iter().find(is).map(|one| one.candidate.name())
    };
    let default = decision.finalists.iter().find(|one| one.is_default());
    let kept = default.filter(|one| one.keeps()).map_or(0.0, |one| one.rate);
    match default.map(|one| &one.found) {
        Some(Found::LimitedByClient { rate, why }) if kept == 0.0 || *rate < NEAR * kept => {
            limited(settled, *rate, why)
        }
        _ if decision.blocks < BLOCKS_MIN || decision.finalists.iter().all(|one| one.runs == 0) => {
            format!(
                "the budget is too small to tell anything (blocks of the final: {}, and \
                 {BLOCKS_MIN} and {RUNS_MIN} fresh runs of each are the fewest); give it more time \
                 (--budget)",
                decision.blocks
            )
        }
        Some(Found::NowhereAbove { rate, broken }) => format!(
            "{} is not kept even at {} requests a second ({} breaks); ask for less (--slo)",
            settled.slo,
            show(*rate),
            broken.join(", ")
        ),
        _ if decision.finalists.iter().any(|one| one.keeps() && one.rate > kept) => {
            "what keeps the level up to a higher rate was not seen to keep it surely more often \
             than the default would"
                .to_owned()
        }
        _ => match of(Verdict::More) {
            Some(one) => format!(
                "{one} has a higher saturation point, and was not seen to keep the level up to a \
                 higher rate"
            ),
            None => format!(
                "nothing surely keeps the level up to a higher rate (two searches of the default \
                 were {:.1} % apart)",
                100.0 * decision.floor
            ),
        },
    }
}

/// Explains why a load was the limit, and what helps.
fn limited(settled: &Settled, rate: f64, why: &str) -> String {
    let root = match settled.realtime {
        true => "",
        false => ", or be root, so that the server can be slowed down",
    };
    format!(
        "from {} requests a second on the load was the limit ({why}); give it more processors \
         (--client-cpus){root}",
        show(rate)
    )
}

fn kept(one: &Finalist, slo: &str) -> String {
    let (rate, met, runs) = (show(one.rate), one.met, one.runs);
    match runs {
        0 => format!("was not tried for {slo} in fresh runs"),
        _ if one.keeps() => {
            format!("keeps {slo} at {rate} requests a second ({met} of {runs} fresh runs)")
        }
        _ if met < runs => {
            let broke = runs - met;
            format!("broke {slo} at {rate} requests a second ({broke} of {runs} fresh runs)")
        }
        _ => format!("met {slo} at {rate} requests a second in only {runs} fresh runs that count"),
    }
}

/// Result of a duel.
fn beside(duel: &Duel, slo: &str) -> String {
    let [one, other] = duel.arms.each_ref().map(Candidate::name);
    let [first, second] = duel.broke;
    format!(
        "Beside each other at {} requests a second {one} broke {slo} in {first} and {other} in \
         {second} of {} fresh runs.",
        show(duel.rate),
        duel.runs
    )
}

/// Result of a comparison of replies with the files, in a sentence.
fn verified(found: &Verified) -> String {
    let Verified { arm, answers, compared, why } = found;
    if found.is_whole() {
        return format!(
            "Every byte of {answers} replies of {arm} was compared with the files, in a run of its \
             own: none was wrong."
        );
    }
    let why = why.as_deref().unwrap_or("it is not known why");
    format!(
        "UNVERIFIED: of {answers} replies of {arm} those compared with the files were {compared}: \
         {why}."
    )
}

/// Distance of a finalist's saturation point from the default's.
fn range(one: &Finalist) -> String {
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    one.beside.map_or("not known beside".to_owned(), |(ratio, interval)| {
        let (low, high) = (percent(interval.low), percent(interval.high));
        format!("{:+.1} % ({low:+.1} to {high:+.1} %) from", percent(ratio))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finalist(name: Option<&str>, rate: f64, met: u32) -> Finalist {
        let interval = crate::stats::Interval { low: 1.08, high: 1.31 };
        Finalist {
            candidate: name.map_or(Candidate::default(), |name| {
                Candidate::of(&[("server.architecture", name)])
            }),
            found: Found::Interrupted,
            beside: name.map(|_| (1.2, interval)),
            rate,
            met,
            runs: RUNS_MIN,
        }
    }

    #[test]
    fn a_race_says_who_keeps_the_level_and_why_not() {
        let options = crate::best::BestOptions::new("/".as_ref());
        let all = Means { cpus: 1, memory: 1 << 30, descriptors: 20_000 };
        let settled = Settled::new(&options, "/".as_ref(), Site::default(), all, None);
        let of = |amped: (f64, u32), default: (f64, u32), blocks| {
            let finalists = vec![
                finalist(Some("amped"), amped.0, amped.1),
                finalist(None, default.0, default.1),
            ];
            let decision = Decision::of(finalists, 0.01, blocks);
            let text = serde_json::to_string(&decision).unwrap();
            assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
            let older = text.replace(",\"duels\":[]", "");
            assert!(older != text && serde_json::from_str::<Decision>(&older).is_ok());
            sentences(&settled, &decision)[2..].join("\n")
        };
        let said = of((1_200.0, 8), (1_000.0, 8), 20);
        assert_eq!(
            said,
            "amped keeps p99<50ms at 1,200 requests a second (8 of 8 fresh runs).\n\
             Its saturation point is +20.0 % (+8.0 to +31.0 %) from the default's; two searches \
             of the default were 1.0 % apart.\n\
             default keeps p99<50ms at 1,000 requests a second (8 of 8 fresh runs)."
        );
        let said = of((1_200.0, 7), (1_000.0, 8), 20);
        assert!(said.starts_with("Keep the default: amped has a higher"), "{said}");
        assert!(said.contains("amped broke p99<50ms at 1,200 requests a second (1 of 8"), "{said}");
        let said = of((900.0, 8), (1_000.0, 8), 20);
        assert!(said.starts_with("Keep the default: "), "a lower rate: {said}");
        let said = of((1_200.0, 8), (1_000.0, 6), 20);
        assert!(said.starts_with("amped keeps"), "the default keeps nothing: {said}");
        let said = of((1_200.0, 8), (1_000.0, 8), 3);
        assert!(said.contains("the budget is too small"), "{said}");
    }

    #[test]
    fn who_keeps_a_higher_rate_is_run_beside_the_advice_at_that() {
        let options = crate::best::BestOptions::new("/".as_ref());
        let all = Means { cpus: 1, memory: 1 << 30, descriptors: 20_000 };
        let settled = Settled::new(&options, "/".as_ref(), Site::default(), all, None);
        let after = |broke: [u32; 2], runs: u32| {
            let mut amped = finalist(Some("amped"), 1_200.0, 8);
            let interval = crate::stats::Interval { low: 0.8, high: 1.31 };
            amped.beside = Some((1.1, interval));
            let mut decision = Decision::of(vec![finalist(None, 1_000.0, 8), amped], 0.01, 20);
            assert_eq!(decision.advice, None);
            let (rate, arms) = decision.challenge().unwrap();
            decision.learn(Duel { rate, arms, broke, runs });
            // The arm that broke it there is not tried at a higher rate.
            let loser = broke.iter().rposition(|times| *times > 0);
            let again = decision.challenge().map(|(_, arms)| arms[0] == Candidate::default());
            assert!(loser != Some(1) || again != Some(true), "{decision:?}");
            sentences(&settled, &decision)[2..].join("\n")
        };
        let said = after([0, 4], 8);
        assert!(said.starts_with("amped keeps p99<50ms at 1,200 requests a second (16 of 16"));
        assert!(said.contains("default keeps p99<50ms at 1,000 requests a second (8 of 8"));
        let beside = "Beside each other at 1,200 requests a second amped broke p99<50ms in 0 and \
                      default in 4 of 8 fresh runs.";
        assert!(said.contains(beside), "{said}");
        let said = after([0, 0], 8);
        assert!(said.starts_with("Keep the default: nothing surely keeps"), "{said}");
        assert!(said.contains("default keeps p99<50ms at 1,200 requests a second (8 of 8"));
        let said = after([1, 0], 1);
        assert!(said.contains("default keeps p99<50ms at 1,000 requests a second (8 of 8"));
        assert!(said.contains("amped broke p99<50ms at 1,200 requests a second (1 of 9"), "{said}");
        let said = after([0, 3], 8);
        assert!(said.starts_with("Keep the default: what keeps the level up to a higher rate"));
        assert!(after([0, 4], 7).starts_with("Keep the default"), "too few runs");
    }

    #[test]
    fn a_race_says_whether_its_winner_was_compared() {
        let mut found = Verified { arm: "amped".to_owned(), answers: 50, compared: 50, why: None };
        assert!(verified(&found).contains("50 replies of amped") && found.is_whole());
        (found.compared, found.why) = (0, Some("it ended".to_owned()));
        assert!(verified(&found).starts_with("UNVERIFIED: of 50 replies"), "{found:?}");
        assert!(verified(&found).ends_with("0: it ended."), "{found:?}");
    }
}
