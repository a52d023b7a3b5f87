//! Contents of the page and its Markdown, and the page: one HTML file with everything in it.
//!
//! A kind of figure has methods of [`Report`] or `figures(&Report) -> Vec<Figure>`: one line in
//! [`MAKERS`] adds it. Section, title and caption are in `assets/figures.toml`. What the page draws
//! is a `drawing` of a kind that `assets/report/*.js` knows.

use super::figure::{Figure, Section, numbers};
use super::{Report, goodput, papers, profiles, tuning};
use crate::analysis::EffectRow;
use crate::env::Record;
use crate::env::spec::STANDS_IN;
use crate::experiment::{Client, CpuLayout, LAYOUT, words};
use crate::journal::manifest::{Other, ROUND_TRIP};
use crate::stats::{self, Interval};
use crate::units::{date, filled, real, show};
use crate::{claims, race};
use regatta_load::engine::Fate;
use regatta_load::page::render;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../assets/report.html");
const MARKDOWN: &str = include_str!("../../assets/report.md");
/// Kinds of charts that only these pages have.
pub(super) const KINDS: &[&str] = &[
    include_str!("../../assets/report/papers.js"),
    include_str!("../../assets/report/rows.js"),
    include_str!("../../assets/report/heat.js"),
    include_str!("../../assets/report/matrix.js"),
];

pub(crate) fn page(report: &Report<'_>) -> Result<String, String> {
    let figures = figures(report);
    let drawings: Map<String, Value> = figures
        .iter()
        .filter_map(|figure| Some((figure.id.clone(), figure.drawing.clone()?)))
        .collect();
    let name = &report.run.experiment.name;
    let data = json!({ "name": name, "arms": report.arms, "figures": drawings });
    render("report.html", PAGE, values(report, &figures), &data, KINDS)
}

pub(crate) fn markdown(report: &Report<'_>) -> Result<String, String> {
    filled("report.md", MARKDOWN, &values(report, &figures(report)))
}

fn values(report: &Report<'_>, figures: &[Figure]) -> Value {
    let (run, analysis) = (report.run, &report.analysis);
    let (experiment, manifest) = (&run.experiment, &run.manifest);
    json!({
        "name": experiment.name,
        "question": experiment.question,
        "expect": experiment.expect,
        "answer": analysis.answer,
        "baseline": experiment.baseline,
        "scale": manifest.scale.name(),
        "date": date(manifest.started_unix_ms),
        "command": manifest.command,
        "metric_words": words(&analysis.metric),
        "badges": report.badges(),
        "lacks": report.lacks(),
        "blocks": analysis.blocks,
        "trials": analysis.trials,
        "calibration": report.calibration(),
        "machine": report.machine(),
        "claims": report.claims.iter().map(claim).collect::<Vec<_>>(),
        "sections": report.sections(figures),
        "effects": analysis
            .effects
            .iter()
            .map(|row| effect(row, analysis.more_is_better))
            .collect::<Vec<_>>(),
        "numbers": numbers(analysis),
        "verification": report.verification(),
        "invalid": report.invalid(),
        "notes": report.notes(),
        "environment": report.environment(),
        "experiment": serde_json::to_string_pretty(experiment).unwrap_or_default(),
    })
}

fn claim(judged: &claims::Judged) -> Value {
    json!({ "id": judged.id, "gist": judged.gist, "paper": judged.paper, "ours": judged.ours,
        "why": judged.why, "verdict": judged.verdict, "verdict_words": judged.verdict_words() })
}

fn effect(row: &EffectRow, more_is_better: bool) -> Value {
    let effect = &row.effect;
    let detectable = if effect.detectable.is_finite() {
        format!("{:.1} %", 100.0 * effect.detectable)
    } else {
        "–".to_owned()
    };
    json!({ "name": row.cell.name(),
        "ratio": format!("{:.3}", effect.ratio), "interval": interval_words(row),
        "p": format!("{:.4}", effect.p), "p_rank": format!("{:.4}", effect.p_rank),
        "blocks": effect.blocks, "detectable": detectable, "verdict": row.verdict,
        "tone": tone(row.verdict, more_is_better),
        "verdict_words": effect_words(row) })
}

/// Class of a verdict on the page: more of a cost is worse.
fn tone(verdict: stats::Verdict, more_is_better: bool) -> &'static str {
    match (verdict, more_is_better) {
        (stats::Verdict::More, true) | (stats::Verdict::Less, false) => "better",
        (stats::Verdict::More, false) | (stats::Verdict::Less, true) => "worse",
        (stats::Verdict::CannotTell, _) => "cannot-tell",
        (stats::Verdict::NoDifference, _) => "",
    }
}

fn interval_words(row: &EffectRow) -> String {
    let words = |one: Interval| format!("{:.3} to {:.3}", one.low, one.high);
    row.effect.interval.map_or("–".to_owned(), words)
}

fn effect_words(row: &EffectRow) -> String {
    match row.verdict {
        stats::Verdict::More => "more".to_owned(),
        stats::Verdict::Less => "less".to_owned(),
        stats::Verdict::CannotTell => "too few blocks".to_owned(),
        stats::Verdict::NoDifference => {
            let reach = row.effect.interval.map_or(f64::NAN, |interval| {
                f64::max(interval.high - 1.0, 1.0 - interval.low).abs()
            });
            format!("no difference seen (±{:.1} %)", 100.0 * reach)
        }
    }
}

/// Makes the figures of a kind; none where the run has no numbers for them.
type Maker = fn(&Report<'_>) -> Vec<Figure>;

/// A line each. Within a section figures stand in this order.
const MAKERS: &[Maker] = &[
    goodput::figures,
    goodput::times,
    goodput::plain,
    |report| all([report.knees(), report.probes(), report.overload()]),
    |report| all([report.cores()]),
    |report| all([report.forest()]),
    |report| all([report.spectrum(), report.by_class(), report.by_clock()]),
    |report| all([report.seconds(), report.heat()]),
    profiles::costs,
    profiles::figures,
    profiles::calls,
    environments,
    papers::figures,
    tuning::figures,
    |report| {
        all([report.failures(), report.classes(), report.sessions(), report.session_lengths()])
    },
    |report| all([report.layouts()]),
    |report| all([report.rules()]),
    goodput::beyond,
    |report| all([report.verified()]),
];

impl Report<'_> {
    /// The parts of the page that have something to show. Some have a part that is no figure.
    fn sections(&self, figures: &[Figure]) -> Vec<Value> {
        let always = |section| match section {
            Section::Comparison => !self.analysis.effects.is_empty(),
            Section::Papers => !self.claims.is_empty(),
            Section::Verification | Section::Appendix => true,
            _ => false,
        };
        let of = |section| figures.iter().filter(move |figure| figure.section == section);
        Section::ALL
            .into_iter()
            .filter(|section| always(*section) || of(*section).next().is_some())
            .map(|section| {
                json!({ "id": section, "title": section.title(),
                    "figures": of(section).collect::<Vec<_>>() })
            })
            .collect()
    }

    /// Says how many A/A intervals hold 1.
    fn calibration(&self) -> Option<String> {
        let (held, all) = self.analysis.calibration;
        (all > 0).then(|| format!("A/A: {held} of {all} intervals hold 1"))
    }

    pub(crate) fn badges(&self) -> Vec<String> {
        let analysis = &self.analysis;
        let (planned, whole) = analysis.blocks;
        let (valid, invalid) = analysis.trials;
        let mut badges = self.lacks();
        badges.extend(self.calibration());
        if whole >= planned {
            badges.push(format!("{planned} blocks"));
        }
        let by_arm = analysis.validity.iter().filter(|(_, (valid, all))| valid < all);
        let by_arm = by_arm.map(|(arm, (valid, all))| format!("{arm}: {valid} of {all} count"));
        let by_arm: Vec<String> = by_arm.collect();
        let by_arm = match by_arm.as_slice() {
            [] => String::new(),
            lines => format!(" ({})", lines.join(", ")),
        };
        badges.push(format!("{valid} trials count, {invalid} do not{by_arm}"));
        let told = |verdict| self.claims.iter().filter(|one| one.verdict == verdict).count();
        if !self.claims.is_empty() {
            badges.push(format!(
                "claims: {} hold, {} fail, {} cannot be told",
                told(claims::Verdict::Holds),
                told(claims::Verdict::Fails),
                told(claims::Verdict::CannotTell)
            ));
        }
        if self.compared_advice() {
            badges.push("the replies of the advice were compared".to_owned());
        }
        badges
    }

    pub(super) fn lacks(&self) -> Vec<String> {
        let (workload, manifest) = (&self.run.experiment.workload, &self.run.manifest);
        let (planned, whole) = self.analysis.blocks;
        let mut lacks: Vec<String> = self.label().into_iter().collect();
        if whole < planned {
            lacks.push(format!("PARTIAL: {whole} of {planned} blocks are whole"));
        }
        if !workload.verify && !self.compared_advice() {
            lacks.push("UNVERIFIED: replies were not compared".to_owned());
        } else if workload.client != Client::Regatta {
            let name = workload.client.name();
            lacks.push(format!("replies were compared before and after {name}, not {name}'s"));
        }
        lacks.extend(manifest.lacks.iter().map(|lack| format!("not possible here: {lack}")));
        let left_out = manifest.left_out.iter();
        lacks.extend(left_out.map(|(name, why)| format!("left out: {name}, {why}")));
        lacks
    }

    /// Whether every reply of the arm that a race advises was compared.
    fn compared_advice(&self) -> bool {
        let race = race::told(self.run);
        race.as_ref().and_then(race::Told::verified).is_some_and(|found| found.is_whole())
    }

    pub(crate) fn machine(&self) -> String {
        let machine = &self.run.manifest.machine;
        let of = |name: &str| machine.get(name).cloned().unwrap_or_default();
        let place = match &self.run.manifest.other {
            None => "Server and clients on one machine, over loopback".to_owned(),
            Some(other) => {
                let theirs = |name: &str| of(&Other::names(name));
                format!(
                    "The clients on another machine, {}: {}, {} processors, {}, Linux {}; a \
                     connection between them takes {}",
                    other.destination,
                    theirs("processor"),
                    theirs("processors"),
                    theirs("memory"),
                    theirs("kernel.osrelease"),
                    of(ROUND_TRIP)
                )
            }
        };
        format!(
            "{}, {} processors, {}, Linux {}. {place}: {}.{}",
            of("processor"),
            of("processors"),
            of("memory"),
            of("kernel.osrelease"),
            self.layout(),
            self.surroundings()
        )
    }

    /// Processors of server and load, and how they were chosen.
    fn layout(&self) -> String {
        let cpus = |cpus: &[usize]| {
            let numbers: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            if numbers.is_empty() { "any".to_owned() } else { numbers.join(",") }
        };
        let placed = &self.run.experiment.machine;
        let apart = format!(
            "server on processor {}, client on {}",
            cpus(&placed.server_cpus),
            cpus(&placed.client_cpus)
        );
        let together = || {
            let (server, left) = (cpus(&placed.server_cpus), placed.left());
            format!(
                "server and client on processor {server}, of which the client holds {} % and the \
                 server has {left} %",
                100 - left
            )
        };
        let varies = self.run.experiment.factors.iter().any(|factor| factor.path == LAYOUT);
        let mut words = match placed.layout {
            _ if varies => "each layout by itself".to_owned(),
            CpuLayout::Together => together(),
            CpuLayout::Apart | CpuLayout::Auto => apart,
        };
        if let Some(choice) = self.run.manifest.layout {
            words += &format!(
                " (chosen: one server scattered by {:.1} % apart, by {:.1} % together)",
                100.0 * choice.apart,
                100.0 * choice.together
            );
        }
        if let Some(choice) = self.run.manifest.seek {
            words += &format!(
                "; with a seek of {:.1} ms one event loop waited {:.1} % of the time for the disk",
                choice.seek_ms,
                100.0 * choice.waits
            );
        }
        words
    }

    pub(crate) fn verification(&self) -> String {
        let workload = &self.run.experiment.workload;
        let sum = |name: &str| -> f64 {
            self.run.records.iter().filter_map(|record| record.metrics.get(name)).sum()
        };
        let good = show(sum("fate_good"));
        if workload.client != Client::Regatta {
            let name = workload.client.name();
            let how = if workload.verify { "every byte" } else { "status and length" };
            let clear = if self.run.experiment.encrypts() { " in the clear" } else { "" };
            return format!(
                "{name}, which counted {good} replies, compares none: before and after each trial \
                 regatta load asked over one connection{clear} and looked at {how}."
            );
        }
        if !workload.verify {
            let race = race::told(self.run).and_then(|race| race.compared());
            let rest = race.map_or(String::new(), |words| format!(" {words}"));
            return format!(
                "Replies were not compared; status and length of {good} were right.{rest}"
            );
        }
        if self.gathered.is_empty() {
            let lies = Fate::ALL.into_iter().filter(|fate| fate.is_lie());
            let wrong: f64 = lies.map(|fate| sum(&format!("fate_{}", fate.name()))).sum();
            return format!(
                "The loads' whole results are gone, and with them how many of {good} good replies \
                 were compared; {} replies were wrong.",
                show(wrong)
            );
        }
        let (mut right, mut compared, mut wrong) = (0, 0, 0);
        for (_, one) in self.gathered.iter().filter(|(cell, _)| !self.is_null(cell)) {
            let answers = one.checked.fates.sum(Fate::is_answer);
            right += answers;
            compared += one.checked.verified.min(answers);
            wrong += one.checked.fates.sum(Fate::is_lie);
        }
        let targets = self.run.experiment.targets.iter();
        let bare = targets.filter(|target| target.program.is_bare());
        let bare: Vec<&str> = bare.map(|target| target.name.as_str()).collect();
        let [right, compared, wrong] = [right, compared, wrong].map(|count| show(real(count)));
        format!(
            "Compared byte by byte: {compared} of {right} right replies; {wrong} replies were \
             wrong.{}",
            match bare.as_slice() {
                [] => String::new(),
                bare => format!(" Without {}, whose replies mean nothing.", bare.join(", ")),
            }
        )
    }

    fn invalid(&self) -> Vec<Value> {
        let records = self.run.records.iter().filter(|record| !record.valid);
        records
            .map(|record| {
                json!({ "trial": record.trial, "attempt": record.attempt,
                    "name": record.cell.name(), "why": record.reasons.join("; ") })
            })
            .collect()
    }

    /// Notes on trials, each once, with their number of trials.
    fn notes(&self) -> Vec<String> {
        let notes = self.run.records.iter().flat_map(|record| &record.reasons);
        let mut trials = BTreeMap::<&str, usize>::new();
        for note in notes.filter_map(|reason| reason.strip_prefix("note: ")) {
            *trials.entry(note).or_default() += 1;
        }
        let all = self.run.records.len();
        trials.into_iter().map(|(note, of)| format!("{note} ({of} of {all} trials)")).collect()
    }

    fn environment(&self) -> Vec<[String; 2]> {
        let manifest = &self.run.manifest;
        let mut rows: Vec<[String; 2]> = manifest
            .versions
            .iter()
            .map(|(name, version)| [format!("program of {name}"), version.clone()])
            .collect();
        let version =
            |(name, said): (&String, &String)| [format!("version of {name}"), said.clone()];
        rows.extend(manifest.programs.iter().map(version));
        rows.push(["SHA-256 of regatta".to_owned(), manifest.regatta_sha256.clone()]);
        if !manifest.lab_sha256.is_empty() {
            rows.push(["SHA-256 of regatta-lab".to_owned(), manifest.lab_sha256.clone()]);
        }
        rows.extend(manifest.machine.iter().map(|(name, value)| [name.clone(), value.clone()]));
        rows
    }

    /// Label of its numbers, and the reason; None: none.
    pub(super) fn label(&self) -> Option<String> {
        let label = self.run.manifest.label.as_ref()?;
        Some(format!("{label}: {}", STANDS_IN))
    }

    /// The environment in a sentence; empty: the machine itself.
    pub(super) fn surroundings(&self) -> String {
        let Some(record) = self.run.manifest.environments.values().next() else {
            return String::new();
        };
        let parts = record.spec.words();
        let parts: Vec<String> =
            parts.into_iter().map(|(part, what)| format!("{part}: {what}")).collect();
        let varied = if self.run.manifest.environments.len() > 1 { " (of several)" } else { "" };
        format!(" The servers' environment{varied}: {}.", parts.join("; "))
    }
}

fn all<const N: usize>(of: [Option<Figure>; N]) -> Vec<Figure> {
    of.into_iter().flatten().collect()
}

/// Every figure that has something to show, in the page's order.
pub(crate) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = MAKERS.iter().flat_map(|make| make(report)).collect();
    figures.sort_by_key(|figure| figure.section);
    figures
}

pub(super) fn environments(report: &Report<'_>) -> Vec<Figure> {
    let manifest = &report.run.manifest;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (levels, record) in &manifest.environments {
        rows.extend(parts(levels, record));
    }
    for lack in &manifest.lacking {
        let instead = if lack.has_stand_in() { STANDS_IN } else { "done without" };
        let needs = format!("needs {}", lack.needs);
        rows.push(vec![
            String::new(),
            lack.part.clone(),
            needs,
            format!("not possible here: {instead}"),
        ]);
    }
    let head = ["setting", "part", "asked for", "what there was"];
    Figure::of("environments", &[]).with_rows(head, rows).into_iter().collect()
}

fn parts(levels: &str, record: &Record) -> Vec<Vec<String>> {
    let (asked, got) = (record.spec.words(), record.words());
    let mut names: Vec<&str> = asked.iter().chain(&got).map(|(part, _)| *part).collect();
    names.sort_unstable();
    names.dedup();
    let of = |words: &[(&str, String)], part: &str| -> String {
        let of = words.iter().filter(|(name, _)| *name == part).map(|(_, what)| what.clone());
        of.collect::<Vec<_>>().join("; ")
    };
    let row =
        |part: &str| vec![levels.to_owned(), part.to_owned(), of(&asked, part), of(&got, part)];
    names.into_iter().map(row).collect()
}
