//! Verdicts of all runs together on the papers' claims, as Markdown and as JSON.

use crate::claims::{self, CLAIMS, Claim, Finding, Judged, Open, Verdict, is_counted, on_paper};
use crate::experiment::plan::whole_s;
use crate::experiment::{Mode, Scale, library, parse};
use crate::journal::Run;
use crate::journal::manifest::Manifest;
use crate::prices::{PricedClaim, priced};
use crate::stats::{LEVEL, count};
use crate::units::{date, filled, minutes};
use serde::Serialize;
use serde_json::json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const MARKDOWN: &str = include_str!("../../assets/verdicts.md");
/// The tiers of claims that servers were measured for, that counts of these servers decide, and
/// that the workload alone decides. What comes from virtual time gets a name of its own, and none
/// is ever mixed with another.
const MEASURED: &str = "measured";
const COUNTED: &str = "counted";
const ON_PAPER: &str = "on paper";
const TITLE: &str = "What the papers' claims came to";

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdicts {
    claims: Vec<Claimed>,
    runs: Vec<Source>,
    /// Directories whose runs cannot be read, and why.
    unread: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Claimed {
    #[serde(flatten)]
    judged: Judged,
    verdict_words: &'static str,
    /// The claim, what was seen, what settles it.
    sentences: [String; 3],
    /// Source of the numbers; None: not measured.
    tier: Option<&'static str>,
    /// The runs that tell, as numbers of the list of runs, from 1; their blocks are pooled.
    runs: Vec<usize>,
    /// Start of the latest of them, their commits, and the command that repeats them.
    date: String,
    commits: Vec<String>,
    command: String,
    others: Vec<String>,
    /// Verdict on the prices of the claim's paper, which is no measurement; and its words.
    priced: Option<PricedClaim>,
    priced_words: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Source {
    number: usize,
    experiment: String,
    /// The experiment comes with this program; otherwise its file is in the run's directory alone.
    comes_along: bool,
    scale: &'static str,
    date: String,
    /// The regatta that ran: its own word for its version, and the beginning of its hash.
    commit: String,
    machine: String,
    trials: usize,
    command: String,
    directory: String,
}

impl Source {
    fn of(number: usize, run: &Run) -> Self {
        let manifest = &run.manifest;
        let of = |name: &str| manifest.machine.get(name).cloned().unwrap_or_default();
        let said = manifest.versions.values().find(|version| version.starts_with("regatta "));
        let said = said.map_or("regatta", String::as_str);
        Self {
            number,
            experiment: run.experiment.name.clone(),
            comes_along: library::find(&run.experiment.name).is_some(),
            scale: manifest.scale.name(),
            date: date(manifest.started_unix_ms),
            commit: format!("{said}, SHA-256 {}", manifest.hash()),
            machine: format!("{}, {} processors", of("processor"), of("processors")),
            trials: run.valid().count(),
            command: manifest.command.clone(),
            directory: run.directory.display().to_string(),
        }
    }
}

impl Verdicts {
    /// Verdicts of these runs; `unread` are those that could not be read.
    pub fn of(runs: Vec<Run>, unread: Vec<String>) -> Self {
        let sources: Vec<Source> =
            runs.iter().enumerate().map(|(at, run)| Source::of(at + 1, run)).collect();
        let pools = pools(runs);
        let claims = CLAIMS.iter().map(|claim| claimed(claim, &pools, &sources)).collect();
        Self { claims, runs: sources, unread }
    }

    /// Numbers of claims by verdict, and of verdicts that are wrong by chance.
    fn summary(&self) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for one in &self.claims {
            match counts.iter_mut().find(|(words, _)| *words == one.verdict_words) {
                Some((_, count)) => *count += 1,
                None => counts.push((one.verdict_words, 1)),
            }
        }
        counts.sort_unstable();
        let told: Vec<String> =
            counts.iter().map(|(words, count)| format!("{count} {words}")).collect();
        let is_by_chance = |one: &&Claimed| {
            one.tier == Some(MEASURED) && one.judged.verdict != Verdict::CannotTell
        };
        let verdicts = self.claims.iter().filter(is_by_chance).count();
        format!(
            "Of {} claims: {}. Of {verdicts} measured verdicts at 95 %, {:.1} are expected to be \
             wrong",
            self.claims.len(),
            told.join("; "),
            count(verdicts) * (1.0 - LEVEL)
        )
    }

    pub fn markdown(&self) -> Result<String, String> {
        let values = json!({ "title": TITLE, "summary": self.summary(), "claims": self.claims,
            "runs": self.runs, "unread": self.unread });
        filled("verdicts.md", MARKDOWN, &values)
    }
}

/// Splits runs into those on the processor of the latest and by its build, and a line for each of
/// the others: a page never joins two.
pub(crate) fn of_one_origin(runs: Vec<Run>) -> (Vec<Run>, Vec<String>) {
    let origin = |run: &Run| {
        let processor = run.manifest.machine.get("processor").cloned().unwrap_or_default();
        (processor, run.manifest.regatta_sha256.clone())
    };
    let latest = runs.iter().max_by_key(|run| run.manifest.started_unix_ms).map(origin);
    let (page, others): (Vec<Run>, Vec<Run>) =
        runs.into_iter().partition(|run| Some(origin(run)) == latest);
    let line = |run: &Run| {
        let (processor, _) = origin(run);
        let (directory, hash) = (run.directory.display(), run.manifest.hash());
        format!(
            "{directory}: of another build or processor than the latest run (SHA-256 {hash}, \
             {processor:?}); give it a page of its own"
        )
    };
    (page, others.iter().map(line).collect())
}

/// A claim by the runs that tell most of it.
fn claimed(claim: &Claim, pools: &[Pool], sources: &[Source]) -> Claimed {
    let on_paper = on_paper(&claim.id);
    let pools = pools.iter().filter(|_| on_paper.is_none());
    let told = pools.filter_map(|pool| Some((pool, pool.judged(&claim.id)?)));
    let mut told: Vec<(&Pool, &Judged)> = told.collect();
    // Never by the verdict: of k runs one decides more often by chance than each does.
    told.sort_by_key(|(pool, judged)| {
        Reverse((is_measured(judged), pool.run.manifest.scale, pool.latest()))
    });
    if claim.each_workload {
        refuting_first(&mut told);
    }
    let alone = || Judged::of(claim, on_paper.unwrap_or_else(|| unmeasured(claim)));
    let priced = told.iter().find_map(|(pool, _)| priced(&pool.run, &claim.id));
    let judged = told.first().map_or_else(alone, |(_, judged)| (*judged).clone());
    let chosen = told.first().map(|(pool, _)| *pool);
    let others = told.iter().skip(1).map(|(pool, judged)| {
        let (name, scale) = (&pool.run.experiment.name, pool.run.manifest.scale.name());
        format!("{name} ({scale}) {}: {}", judged.verdict_words(), judged.sentences()[1])
            .trim_end_matches('.')
            .to_owned()
    });
    let runs = chosen.map_or(Vec::new(), |pool| pool.numbers.clone());
    let mut commits: Vec<String> = Vec::new();
    for source in runs.iter().filter_map(|at| sources.get(at - 1)) {
        if !commits.contains(&source.commit) {
            commits.push(source.commit.clone());
        }
    }
    Claimed {
        verdict_words: judged.verdict_words(),
        sentences: judged.sentences(),
        tier: match chosen {
            _ if judged.ours.is_empty() => None,
            Some(pool) if is_counted(&pool.run, &claim.id) => Some(COUNTED),
            Some(_) => Some(MEASURED),
            None => Some(ON_PAPER),
        },
        date: chosen.map_or(String::new(), |pool| date(pool.latest())),
        command: chosen.map_or(String::new(), |pool| pool.run.manifest.command.clone()),
        others: others.collect(),
        priced_words: priced.as_ref().map_or_else(String::new, PricedClaim::words),
        priced,
        runs,
        commits,
        judged,
    }
}

/// Puts first a run that refutes the claim, among those that decide most, one for each workload. An
/// experiment is a workload.
fn refuting_first(told: &mut [(&Pool, &Judged)]) {
    let mut seen = BTreeSet::new();
    let refutes = told.iter().position(|(pool, judged)| {
        let tells_most = seen.insert(pool.run.experiment.name.as_str());
        tells_most && judged.verdict == Verdict::Fails
    });
    if let Some(at) = refutes {
        told[..=at].rotate_right(1);
    }
}

/// Whether a run could have decided a claim.
fn is_measured(judged: &Judged) -> bool {
    let is_lacking = |open: &Open| !matches!(open, Open::Noise { .. } | Open::Replica { .. });
    !judged.open.as_ref().is_some_and(is_lacking)
}

/// Finding of a claim that no run decides: the run that would.
fn unmeasured(claim: &Claim) -> Finding {
    let open = match asking(&claim.id) {
        None => Open::Unmeasured {
            needs: format!("no experiment asks for it; it takes {}", claim.needs),
        },
        Some((name, seconds)) => {
            let command = format!("`regatta lab run {name} --scale replica`");
            let place = match claim.processors {
                0 => String::new(),
                more => format!(", on a machine with {more} processors for the server alone"),
            };
            Open::Unmeasured { needs: format!("{command}, {}{place}", minutes(seconds)) }
        }
    };
    Finding::open(String::new(), String::new(), open)
}

/// The experiment that asks for a claim in the least time, and how long it takes.
fn asking(id: &str) -> Option<(&'static str, f64)> {
    /// Name, claims and time of each experiment, parsed once.
    static ASKED: LazyLock<Vec<(&str, Vec<String>, f64)>> = LazyLock::new(|| {
        let all = library::EXPERIMENTS.iter().filter_map(|(name, text)| {
            let experiment = parse(name, text, Scale::Replica).ok()?;
            let takes = whole_s(&experiment);
            Some((*name, experiment.claims, takes))
        });
        all.collect()
    });
    let all = ASKED.iter().filter(|(_, claims, _)| claims.iter().any(|claim| claim == id));
    all.map(|(name, _, takes)| (*name, *takes)).min_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests;

/// Runs that are judged as one.
#[derive(Debug)]
pub(super) struct Pool {
    /// The latest, with the blocks of all.
    pub(super) run: Run,
    /// Numbers of the runs, from 1.
    pub(super) numbers: Vec<usize>,
    judged: Vec<Judged>,
}

impl Pool {
    pub(super) fn judged(&self, id: &str) -> Option<&Judged> {
        self.judged.iter().find(|judged| judged.id == id)
    }

    pub(super) fn latest(&self) -> u64 {
        self.run.manifest.started_unix_ms
    }

    fn of(mut runs: Vec<(usize, Run)>) -> Option<Self> {
        runs.sort_by_key(|(_, run)| run.manifest.started_unix_ms);
        let numbers = runs.iter().map(|(number, _)| *number).collect();
        let alone: Vec<Vec<Judged>> = match runs.len() {
            1 => Vec::new(),
            _ => runs.iter().map(|(_, run)| claims::judge(run)).collect(),
        };
        let run = runs.into_iter().map(|(_, run)| run).reduce(with_blocks_of)?;
        let mut judged = claims::judge(&run);
        judged.iter_mut().for_each(|one| contradicted(one, &alone));
        Some(Self { run, numbers, judged })
    }
}

/// Runs by their settings and machine, each group as one.
pub(super) fn pools(runs: Vec<Run>) -> Vec<Pool> {
    let mut groups: BTreeMap<Vec<String>, Vec<(usize, Run)>> = BTreeMap::new();
    for (at, run) in runs.into_iter().enumerate() {
        groups.entry(alike(&run, at)).or_default().push((at + 1, run));
    }
    groups.into_values().filter_map(Pool::of).collect()
}

/// Facts that runs have to have alike to be one sample. Blocks, their order and the build may
/// differ: the builds are named.
fn alike(run: &Run, at: usize) -> Vec<String> {
    let mut all = run.asked();
    for own in [Run::UNIT, "measure.blocks", "measure.seed"] {
        all.remove(own);
    }
    if run.manifest.seek.is_some() {
        // The seek takes as long as the share of the time requires.
        all.remove("environment.disk.seek_ms");
    }
    let machine = &run.manifest.machine;
    let mut alike: Vec<String> = all.iter().map(|(name, what)| format!("{name}={what}")).collect();
    alike.extend(["processor", "processors"].map(|name| format!("{:?}", machine.get(name))));
    alike.push(format!("{:?} {:?}", run.manifest.label, run.manifest.lacks));
    if run.experiment.measure.mode == Mode::Knee {
        // The probes of a search build on each other, so there are no blocks to add.
        alike.push(at.to_string());
    }
    alike
}

/// The later of two runs with the blocks of both.
fn with_blocks_of(earlier: Run, later: Run) -> Run {
    let blocks = earlier.blocks_begun();
    // The looks at both runs chose what is pooled, so their chances multiply.
    let chances_added = earlier.manifest.chances() * later.manifest.chances();
    let manifest = Manifest { looks: Vec::new(), chances_added, ..later.manifest };
    let trials = earlier.records.iter().map(|record| record.trial + 1).max().unwrap_or_default();
    let mut records = earlier.records;
    records.extend(later.records.into_iter().map(|mut record| {
        record.block += blocks;
        record.trial += trials;
        record
    }));
    let mut experiment = later.experiment;
    experiment.measure.blocks += blocks;
    let (directory, profiles_kept) = (later.directory, later.profiles_kept);
    Run { directory, experiment, manifest, records, profiles_kept }
}

/// Leaves a claim open if one run alone surely confirms it and another surely refutes it.
fn contradicted(judged: &mut Judged, alone: &[Vec<Judged>]) {
    let says =
        |verdict| alone.iter().flatten().any(|one| one.id == judged.id && one.verdict == verdict);
    if !(says(Verdict::Holds) && says(Verdict::Fails)) {
        return;
    }
    let whether = "one run by itself says yes and another no, so runs differ by more than their \
                   blocks do";
    judged.verdict = Verdict::CannotTell;
    judged.why = format!("{whether}; {}", judged.why);
    judged.open =
        Some(Open::Noise { whether: whether.to_owned(), blocks: 0, enough: None, seconds: None });
}
