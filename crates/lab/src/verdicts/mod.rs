//! What all runs together say of the papers' claims, as Markdown, as a page and as JSON.

mod pool;

use crate::claims::{CLAIMS, Claim, Finding, Judged, Open, Verdict, has_predicate, on_paper};
use crate::experiment::plan::whole_s;
use crate::experiment::{Scale, library, parse};
use crate::journal::Run;
use crate::report::{STYLE, escaped};
use crate::stats::index;
use crate::units::date::date;
use crate::units::minutes;
use minijinja::{Environment, value::Serde};
use pool::Pool;
use serde::Serialize;
use serde_json::json;
use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::sync::LazyLock;

const TEMPLATE: &str = include_str!("../../assets/verdicts.html");
/// The tiers of claims that servers were measured for, and that the workload alone decides. What
/// comes from virtual time gets a name of its own, and none is ever mixed with another.
const MEASURED: &str = "measured";
const ON_PAPER: &str = "on paper";
/// Where to read what the words mean.
const HEAD: &str = "Made by `regatta lab verdicts DIR...` from the runs listed at the end. A \
    verdict holds for the whole interval, not for its middle: a claim *fails here* where even the \
    far end of the interval contradicts it, and *cannot be told* where the limit lies within, the \
    machine is too small, or something is not built ([lab.md](lab.md), claims). Tier: *measured* \
    is from servers that ran, *on paper* from the workload alone.";
const TITLE: &str = "What the papers' claims came to";

/// Every claim of the papers with what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdicts {
    claims: Vec<Claimed>,
    runs: Vec<Source>,
    /// Directories whose runs cannot be read, and why.
    unread: Vec<String>,
}

/// A claim and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Claimed {
    #[serde(flatten)]
    judged: Judged,
    verdict_words: &'static str,
    /// The claim, what was seen, what settles it.
    sentences: [String; 3],
    /// Where the numbers come from; None: nobody looked.
    tier: Option<&'static str>,
    /// The runs that tell, as numbers of the list of runs, from 1; their blocks are pooled.
    runs: Vec<usize>,
    /// When the latest of them began, their commits, and the command that makes them again.
    date: String,
    commits: Vec<String>,
    command: String,
    /// What other runs say.
    others: Vec<String>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Source {
    number: usize,
    experiment: String,
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
        let said = manifest.versions.values().find(|version| version.starts_with("regatta"));
        let said = said.map_or("regatta", String::as_str);
        Self {
            number,
            experiment: run.experiment.name.clone(),
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
    /// Of these runs; `unread` are those that could not be read.
    pub fn of(runs: Vec<Run>, unread: Vec<String>) -> Self {
        let sources: Vec<Source> =
            runs.iter().enumerate().map(|(at, run)| Source::of(at + 1, run)).collect();
        let pools = pool::pools(runs);
        let claims = CLAIMS.iter().map(|claim| claimed(claim, &pools, &sources)).collect();
        Self { claims, runs: sources, unread }
    }

    /// How many claims have which verdict.
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
        format!("Of {} claims: {}.", self.claims.len(), told.join("; "))
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "# {TITLE}\n\n{HEAD}\n\n**{}**\n", self.summary())?;
        writeln!(out, "| claim | paper | here | tier | verdict | date | runs |")?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        for one in &self.claims {
            let Judged { id, paper, ours, .. } = &one.judged;
            let runs: Vec<String> = one.runs.iter().map(ToString::to_string).collect();
            let (paper, ours, runs) = (escaped(paper), escaped(ours), runs.join(", "));
            let tier = one.tier.unwrap_or("–");
            let (verdict, date) = (one.verdict_words, &one.date);
            writeln!(out, "| {id} | {paper} | {ours} | {tier} | {verdict} | {date} | {runs} |")?;
        }
        writeln!(out, "\n## Claim by claim")?;
        for one in &self.claims {
            writeln!(out, "\n**{}: {}**\n", one.judged.id, one.verdict_words)?;
            let beside = one.others.iter().map(|other| format!("Elsewhere: {other}."));
            for sentence in one.sentences.iter().cloned().chain(beside) {
                writeln!(out, "* {}", sentence.replace('\n', " "))?;
            }
            if !one.runs.is_empty() {
                let commits = one.commits.join("; ");
                writeln!(out, "* {}, by {commits}: `{}`", one.date, one.command)?;
            }
        }
        writeln!(out, "\n## Runs\n")?;
        for one in &self.runs {
            let Source { number, experiment, scale, date, commit, machine, .. } = one;
            let (trials, command) = (one.trials, &one.command);
            writeln!(
                out,
                "{number}. {experiment}, {scale}, {date}: {trials} trials that count, by {commit}, \
                 on {machine}: `{command}`"
            )?;
        }
        self.unread.iter().try_for_each(|why| writeln!(out, "* not read: {}", escaped(why)))
    }

    /// As a page that needs nothing else.
    pub fn page(&self) -> Result<String, String> {
        let mut environment = Environment::new();
        environment.add_template("verdicts.html", TEMPLATE).map_err(|error| error.to_string())?;
        let template = environment.get_template("verdicts.html");
        let filled = template.and_then(|template| {
            template.render(Serde(json!({ "css": STYLE, "title": TITLE, "summary": self.summary(),
                "claims": self.claims, "runs": self.runs, "unread": self.unread })))
        });
        filled.map_err(|error| error.to_string())
    }
}

/// A claim by the runs that tell most of it.
fn claimed(claim: &Claim, pools: &[Pool], sources: &[Source]) -> Claimed {
    let on_paper = on_paper(claim.id);
    let pools = pools.iter().filter(|_| on_paper.is_none());
    let told = pools.filter_map(|pool| Some((pool, pool.judged(claim.id)?)));
    let mut told: Vec<(&Pool, &Judged)> = told.collect();
    told.sort_by_key(|(pool, judged)| {
        Reverse((worth(judged), pool.run.manifest.scale, pool.latest()))
    });
    let alone = || Judged::of(claim, on_paper.unwrap_or_else(|| unmeasured(claim)));
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
            Some(_) => Some(MEASURED),
            None => Some(ON_PAPER),
        },
        date: chosen.map_or(String::new(), |pool| date(pool.latest())),
        command: chosen.map_or(String::new(), |pool| pool.run.manifest.command.clone()),
        others: others.collect(),
        runs,
        commits,
        judged,
    }
}

/// How much a verdict tells, to choose among runs: a decided claim most, then what fewer blocks
/// would decide.
fn worth(judged: &Judged) -> (u8, Reverse<usize>) {
    match (judged.verdict, &judged.open) {
        (Verdict::Holds | Verdict::Fails, _) => (5, Reverse(0)),
        (_, Some(Open::Noise { seconds: Some(seconds), .. })) => (4, Reverse(index(*seconds))),
        (_, Some(Open::Noise { .. })) => (3, Reverse(0)),
        (_, Some(Open::Machine { .. })) => (2, Reverse(0)),
        (_, Some(Open::Unmeasured { .. })) => (1, Reverse(0)),
        _ => (0, Reverse(0)),
    }
}

/// A claim of which no run tells: which one would, or what is not built.
fn unmeasured(claim: &Claim) -> Finding {
    let open = match asking(claim.id) {
        _ if !has_predicate(claim.id) => Open::NotBuilt { needs: claim.needs.to_owned() },
        None => {
            Open::NotBuilt { needs: format!("an experiment, which there is not: {}", claim.needs) }
        }
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
    /// Of each experiment the name, the claims and how long it takes: they are parsed once.
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
