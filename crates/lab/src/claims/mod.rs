//! The papers' claims as predicates over a run: a claim holds, is refuted here, or is undecided.
//!
//! systems.md §9 is the index. A predicate finds its arms by their options. It compares them over
//! the rates that they share, and decides only if the interval over blocks does: a difference that
//! was not found decides nothing.

mod by_row;
mod curves;
mod derived;
pub(crate) mod evidence;
pub(crate) mod functions;
mod looks;
pub mod model;
mod on_paper;
pub(crate) mod scale;
mod shown;

use crate::experiment::claim_row::Resource;
pub use crate::experiment::claim_row::{CLAIMS, Claim};
pub(crate) use derived::is_counted;
pub use evidence::{KNOWN, KnownOptions, Variant};
pub(crate) use looks::{Growth, next_look};
pub(crate) use on_paper::on_paper;

use crate::analysis::rules;
use crate::experiment::plan::{block_s, cells, order};
use crate::experiment::{ClaimRow, Mode};
use crate::journal::Run;
use crate::journal::machine_lacks::NO_COUNTERS;
use crate::record::{Cell, PAPERS};
use crate::stats::count;
use evidence::Evidence;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// Most lines named that break a paper's rules.
const LINES_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Holds,
    Fails,
    CannotTell,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "kebab-case")]
pub enum Open {
    /// Less noise, or more blocks.
    Noise {
        whether: String,
        /// Blocks that it is from; 0 where that is not one number.
        blocks: usize,
        /// Blocks that would decide; None if unknown, or if a thousand would not.
        enough: Option<usize>,
        /// Time of the missing blocks, seconds.
        seconds: Option<f64>,
    },
    Machine {
        needs: String,
    },
    /// A replica that is nearer to the paper's machine and load.
    Replica {
        /// Numbers in which ours differs, and by what factor.
        differs: String,
    },
    Unmeasured {
        needs: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Name, such as `H-1`.
    pub id: String,
    pub gist: String,
    pub paper: String,
    pub ours: String,
    pub verdict: Verdict,
    /// Reason: the mechanism's counters if it is refuted, what is missing if it is undecided.
    pub why: String,
    #[serde(default)]
    pub open: Option<Open>,
    /// The blocks after which it was decided, in a run that grew until it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_after: Option<u32>,
}

impl Judged {
    pub(crate) fn of(claim: &Claim, found: Finding) -> Self {
        let Finding { ours, verdict, why, open } = found;
        let (id, paper) = (claim.id.clone(), claim.paper.clone());
        Self { id, gist: claim.sentence(), paper, ours, verdict, why, open, decided_after: None }
    }
}

/// Finding of a predicate: our value, the verdict, the reason, and the cause if it is open.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) ours: String,
    pub(crate) verdict: Verdict,
    pub(crate) why: String,
    pub(crate) open: Option<Open>,
}

impl Finding {
    pub(crate) fn decided(ours: String, verdict: Verdict, why: impl Into<String>) -> Self {
        Self { ours, verdict, why: why.into(), open: None }
    }

    /// With numbers, but without what it takes to decide.
    pub(crate) fn undecided(ours: String, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::open(ours, why.clone(), Open::Unmeasured { needs: why })
    }

    /// The same, but open where there are not the processors that it takes.
    pub(crate) fn on(self, processors: Result<(), String>) -> Self {
        match processors {
            Ok(()) => self,
            Err(missing) => {
                let why = format!("it takes {missing}; {}", self.why);
                Self::open(self.ours, why, Open::Machine { needs: missing })
            }
        }
    }

    /// The same, but open where a part of the claim is missing; what fails in one part fails.
    pub(crate) fn without(self, missing: Option<impl Display>) -> Self {
        match (missing, self.verdict) {
            (None, _) | (_, Verdict::Fails) => self,
            (Some(missing), _) => Self::undecided(self.ours, format!("{missing}; {}", self.why)),
        }
    }

    /// Leaves a refuted claim open if alternatives were not tried, and any of them would suffice.
    pub(crate) fn untried(self, others: Option<impl Display>) -> Self {
        match (others, self.verdict) {
            (Some(others), Verdict::Fails) => {
                Self::undecided(self.ours, format!("it takes {others}; {}", self.why))
            }
            _ => self,
        }
    }

    /// Undecided: the intervals of its numbers are too wide, by an unknown factor.
    pub(crate) fn hidden(ours: String, why: impl Into<String>) -> Self {
        let why = why.into();
        let whether = why.clone();
        Self::open(ours, why, Open::Noise { whether, blocks: 0, enough: None, seconds: None })
    }

    pub(crate) fn open(ours: String, why: String, open: Open) -> Self {
        Self { ours, verdict: Verdict::CannotTell, why, open: Some(open) }
    }
}

pub fn judge(run: &Run) -> Vec<Judged> {
    match run.manifest.looks.len() {
        0 => judge_some(run, &run.experiment.claims),
        looks => looks::judge(run, looks),
    }
}

/// Judges some claims by all blocks.
fn judge_some(run: &Run, claims: &[String]) -> Vec<Judged> {
    let evidence = Evidence::new(run);
    let breaking = PAPERS.map(|(paper, mark)| (mark, rules::breaking(run, paper)));
    claims
        .iter()
        .map(|id| {
            let mut judged = judge_one(run, &evidence, id);
            // Without observations there is nothing to caution about.
            if !judged.ours.is_empty() {
                judged.why += &unpublished(id, &breaking);
            }
            judged
        })
        .collect()
}

/// Lines of a run that the claim's paper would not have published, by its own rules. For a claim of
/// no paper, the lines of each paper that has such rules. Empty: all would be published.
fn unpublished(id: &str, breaking: &[(&str, Vec<String>)]) -> String {
    let (own, _) = id.split_once('-').unwrap_or((id, ""));
    let concerned = |mark: &str| match own {
        "X" | "P" => true,
        letter => mark.trim_matches(['[', ']']) == letter,
    };
    let told = breaking.iter().filter(|(mark, lines)| concerned(mark) && !lines.is_empty());
    let told = told.map(|(mark, lines)| {
        let named: Vec<&str> = lines.iter().take(LINES_MAX).map(String::as_str).collect();
        let more = match lines.len().saturating_sub(LINES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = named.join(", ");
        format!("; by {mark}'s rules of verification not to be published: {named}{more}")
    });
    told.collect()
}

fn judge_one(run: &Run, evidence: &Evidence<'_>, id: &str) -> Judged {
    let row = run.experiment.rows.iter().find(|row| row.id == id);
    let own = row.and_then(ClaimRow::own);
    let Some(claim) = Claim::named(id).or(own.as_ref()) else {
        let unknown = Finding::undecided(String::new(), "there is no claim of that name");
        return Judged { id: id.to_owned(), ..Judged::of(&Claim::default(), unknown) };
    };
    let mut finding = on_paper(id).or_else(|| lacking(run, claim)).unwrap_or_else(|| {
        let found = match (row, predicate(id)) {
            (Some(row), _) => by_row::judge(row, claim, evidence),
            (_, Some(predicate)) => predicate(evidence),
            _ => Err(format!(
                "what {id} compares: the file of its experiment has no [[claim]] of that id"
            )),
        };
        let found = found.unwrap_or_else(|missing| {
            let why = match is_partial(run) {
                true => format!(
                    "this run has not ended, and its trials so far do not have enough of \
                     {missing}: the same command continues it"
                ),
                false => format!("this run has not enough of {missing}"),
            };
            Finding::open(String::new(), why, Open::Unmeasured { needs: missing })
        });
        Finding { open: found.open.map(|open| waits_for(open, evidence, claim)), ..found }
    });
    if let Some(row) = row.filter(|_| finding.verdict == Verdict::Fails) {
        if let Some(unknown) = scale::unknown(evidence, id, &row.decided_by) {
            finding.why = format!("{}; {unknown}", finding.why);
        }
        if let Some(differs) = scale::differs(evidence, id, &row.decided_by) {
            finding = Finding::open(finding.ours, finding.why, Open::Replica { differs });
        }
    }
    if let Some(label) = &run.manifest.label {
        finding.why = format!("{label} (waits are the server's own count): {}", finding.why);
    }
    Judged::of(claim, finding)
}

/// Whether trials of a run are missing that its experiment has.
fn is_partial(run: &Run) -> bool {
    let is_probed = |cell: &Cell| run.records.iter().any(|one| one.cell == *cell);
    match run.experiment.measure.mode {
        Mode::Trials => run.records.len() < order(&run.experiment).len(),
        // The probes of a search are known at its end.
        Mode::Knee => !cells(&run.experiment).iter().all(is_probed),
    }
}

/// Cause of an open claim, with what only the run knows: whether its machine is too small, and the
/// time of the missing blocks.
fn waits_for(open: Open, evidence: &Evidence<'_>, claim: &Claim) -> Open {
    let small = evidence.processors(claim.processors).err().filter(|_| claim.processors > 0);
    if let Some(needs) = small {
        return Open::Machine { needs };
    }
    match open {
        Open::Noise { whether, blocks, enough, .. } => {
            let missing = enough.map(|enough| count(enough.saturating_sub(blocks)));
            let seconds = missing.map(|missing| missing * block_s(&evidence.run.experiment));
            Open::Noise { whether, blocks, enough, seconds }
        }
        other => other,
    }
}

/// Finding of a claim that needs an environment, or processor counters, that this machine lacks.
fn lacking(run: &Run, claim: &Claim) -> Option<Finding> {
    let needed = |part: &str| match part {
        "disk" => claim.takes(Resource::Disk),
        "memory" => claim.takes(Resource::Memory),
        "network" | "shaping" | "rate" | "delay_ms" => claim.takes(Resource::Network),
        "groups" => {
            [Resource::Disk, Resource::Memory, Resource::Network].iter().any(|r| claim.takes(*r))
        }
        _ => false,
    };
    let lacking = run.manifest.lacking.iter();
    let lack = lacking.filter(|lack| !lack.has_stand_in()).find(|lack| needed(&lack.part));
    let counters = claim.takes(Resource::Counters);
    let mut lacks = run.manifest.lacks.iter();
    let uncounted = lacks.find(|lack| counters && lack.starts_with(NO_COUNTERS)).cloned();
    let needs = lack.map(ToString::to_string).or(uncounted)?;
    let why = format!("not possible on this machine: {needs}");
    Some(Finding::open(String::new(), why, Open::Machine { needs }))
}

/// A predicate, or what is missing to decide.
type Predicate = fn(&Evidence<'_>) -> Result<Finding, String>;

/// Whether a claim is judged without a row.
#[cfg(test)]
fn has_predicate(id: &str) -> bool {
    predicate(id).is_some() || on_paper(id).is_some()
}

/// Functions of the claims that have one.
fn predicate(id: &str) -> Option<Predicate> {
    Some(match id {
        "E-17" => functions::e17,
        "E-19" => functions::e19,
        "G-1" => functions::g1,
        "G-2" => functions::g2,
        "G-8" => functions::g8,
        "H-11" => functions::h11,
        "P-1" => functions::p1,
        "S-8b" => functions::s8b,
        "S-16" => functions::s16,
        "S-17" => functions::s17,
        "S-18" => functions::s18,
        _ => return None,
    })
}

#[cfg(test)]
mod cores;
#[cfg(test)]
mod noise;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod thread_rows;
#[cfg(test)]
mod worlds;
