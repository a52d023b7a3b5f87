//! A trial: a fresh server, a load, the results of both, and whether it counts.

mod another;
pub(crate) mod beside;
mod guard;
pub(crate) mod load_command;
pub(crate) mod numbers;

pub(crate) use numbers::metrics;

use crate::experiment::client::{FIELDS, LoadNeeds, STREAMS, TARGET, TLS};
use crate::experiment::plan::{LAYOUT_TRIAL_S, LAYOUT_TRIALS, OPEN_MULTIPLES, Planned};
use crate::experiment::{
    Client, CpuLayout, Encryption, Experiment, Guards, LAYOUT, Loop, Machine, Measure,
    RequestFields, Target, Warm, multiples,
};
use crate::group::INTERRUPTED;
use crate::journal::Run;
use crate::journal::manifest::LayoutChoice;
use crate::knee::{Overload, Tried};
use crate::machines::Far;
use crate::programs::OwnPrograms;
use crate::record::{self, Cell, Probe, Record};
use crate::servers::environments::Rooms;
use crate::servers::last_message;
use crate::trial::beside::{Beside, Point};
use crate::trial::load_command::Asked;
use crate::units::unix_ms;
use crate::watch::perf::{Recorder, TAIL_S};
use crate::watch::{Counting, Seen, cores};
use load_command::Wanted;
use numbers::{series, spectrum};
use regatta_load::engine::Outcome;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time by which a load may exceed its plan.
const PATIENCE: Duration = Duration::from_secs(60);

/// An attempt at a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) number: u32,
    /// Distance that the processors should have: as before the block's first trial that counts.
    pub(crate) like: Option<f64>,
}

impl Attempt {
    /// The only one, wherever the processors are.
    pub(crate) const ONLY: Self = Self { number: 0, like: None };
}

#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) programs: &'a OwnPrograms,
    pub(crate) root: PathBuf,
    /// The workload's directory, if it was made from a preset.
    pub(crate) workload: Option<PathBuf>,
    pub(crate) scratch: PathBuf,
    pub(crate) rooms: Rooms<'a>,
    /// The calibrated rate, requests per second.
    pub(crate) unit: Option<f64>,
    /// Requests of a session, on average; 1 where there are none.
    pub(crate) requests_per_session: f64,
    /// The machine that has the loads, if that is another one.
    pub(crate) far: Option<&'a Far>,
    pub(crate) stop: &'a AtomicBool,
    /// Others run at the same time, and this one is offered its part.
    pub(crate) beside: Option<&'a Beside<'a>>,
}

/// A target by itself, as nothing of the plan.
fn alone(target: &str, levels: BTreeMap<String, String>) -> Cell {
    Cell { arm: target.to_owned(), target: target.to_owned(), levels }
}

impl Bench<'_> {
    /// Makes a planned trial. What went wrong makes it invalid and is its reason. Fails only if it
    /// was interrupted.
    pub(crate) fn trial(
        &self,
        planned: &Planned,
        cell: &Cell,
        attempt: Attempt,
        outcome: &Path,
    ) -> Result<Record, String> {
        let asked = self.asked(cell, planned.seed);
        let guards = match self.beside {
            None => self.experiment.guards.clone(),
            // Only all trials together show foreign use of the processor.
            Some(_) => Guards { foreign_max: 1.0, ..self.experiment.guards.clone() },
        };
        let made = self.made(planned, cell, attempt, (asked, &guards), outcome);
        made.map(|(record, _)| record)
    }

    /// Writes down what environments turned out to be that were made for the first time.
    pub(crate) fn note_environments(&self, run: &mut Run) -> Result<(), String> {
        let known = run.manifest.environments.len();
        for (levels, record) in self.rooms.found() {
            run.manifest.environments.entry(levels).or_insert(record);
        }
        if run.manifest.environments.len() > known { run.save_manifest() } else { Ok(()) }
    }

    pub(crate) fn first_rate(&self, cell: &Cell) -> Result<f64, String> {
        let asked = self.asked(cell, 0)?;
        asked.rate.parse().map_err(|_| format!("{} is no rate", asked.rate))
    }

    /// Offers a rate for one trial of a saturation search: what the service level says of it.
    /// Requests that fail break the level, and do not make the trial worthless. Fails only if it
    /// was interrupted.
    pub(crate) fn probe(
        &self,
        planned: &Planned,
        cell: &Cell,
        attempt: Attempt,
        rate: f64,
        outcome: &Path,
    ) -> Result<Record, String> {
        let asked = self.asked(cell, planned.seed);
        let asked = asked.map(|asked| Asked { rate: format!("{rate:.3}"), ..asked });
        let guards = self.experiment.guards.overloaded();
        let (mut record, found) = self.made(planned, cell, attempt, (asked, &guards), outcome)?;
        let errors_max = self.experiment.guards.errors_max;
        let shown = shown(&record, found.as_ref(), errors_max);
        record.probe = Some(Probe { rate, times: None, shown });
        Ok(record)
    }

    /// Offers a load that goes beyond the knee and comes back. Fails only if it was interrupted.
    pub(crate) fn beyond(
        &self,
        planned: &Planned,
        cell: &Cell,
        overload: &Overload,
        outcome: &Path,
    ) -> Result<Record, String> {
        let asked = self.asked(cell, planned.seed).map(|asked| Asked {
            rate: overload.rates(),
            warm_s: 0.0,
            window_s: 3.0 * overload.stretch_s,
            ..asked
        });
        let guards = self.experiment.guards.overloaded();
        let (mut record, _) = self.made(planned, cell, Attempt::ONLY, (asked, &guards), outcome)?;
        let shown =
            if record.valid { Tried::Met } else { Tried::Invalid(record.reasons.join("; ")) };
        record.probe = Some(Probe { rate: overload.knee, times: Some(overload.times), shown });
        Ok(record)
    }

    /// Makes a trial of a load. Returns the record, and the load's own result if there is one.
    fn made(
        &self,
        planned: &Planned,
        cell: &Cell,
        Attempt { number: attempt, like }: Attempt,
        (asked, guards): (Result<Asked, String>, &Guards),
        outcome: &Path,
    ) -> Result<(Record, Option<Outcome>), String> {
        let mut record = Record {
            trial: planned.trial,
            attempt,
            block: planned.block,
            cell: cell.clone(),
            seed: planned.seed,
            started_unix_ms: unix_ms(),
            ..Record::default()
        };
        let planned_s = asked.as_ref().map_or(0.0, |asked| asked.warm_s + asked.window_s);
        let machine = self.machine(cell);
        if let (Some(like), Some(most)) = (like, guards.moved_max) {
            let stop = || self.stop.load(Ordering::Relaxed);
            cores::wait(like, most, || cores::between(&machine), stop);
        }
        match asked.and_then(|asked| self.measure(cell, &asked, outcome, None)) {
            Err(why) if why == INTERRUPTED || self.is_lost() => Err(why),
            Err(why) => {
                record.reasons.push(why);
                record.reasons.extend(self.rooms.note(cell));
                Ok((record, None))
            }
            Ok((found, seen)) => {
                record.metrics = metrics(&found, &seen);
                record.rules = record::kept(&found.rules);
                let Experiment { machine, measure, .. } = self.experiment;
                record.reasons = guard::reasons(&found, &record.metrics, guards, machine);
                let most = guards.moved_max.unwrap_or(cores::MOVED_MIN);
                let (refused, noted) = match cores::moved(seen.apart_ns, like, most) {
                    Some(_) if guards.moved_max.is_none() => (None, Some(cores::MOVED.to_owned())),
                    moved => (moved, None),
                };
                record.reasons.extend(refused);
                (record.spectrum, record.series) =
                    (spectrum(&found), series(&found, planned_s, &seen.seconds_sampled));
                let settled = match measure.warm {
                    Warm::Found => guard::settle(&mut record, measure.warm_s),
                    Warm::Fixed => Ok(None),
                };
                record.reasons.extend(settled.as_ref().err().cloned());
                record.valid = record.reasons.is_empty();
                let cold = guard::cold(&record, measure.warm_requests);
                let notes = settled.ok().flatten().into_iter().chain(seen.missing).chain(noted);
                let notes = notes.chain(cold);
                record.reasons.extend(notes.map(|what| format!("note: {what}")));
                record.reasons.extend(self.rooms.note(cell));
                record.counters = seen.counters;
                Ok((record, Some(found)))
            }
        }
    }

    /// Runs a trial that never counts, with `recorder` attached. Returns the results of the load
    /// and the machine.
    pub(crate) fn profile(
        &self,
        cell: &Cell,
        seed: u64,
        outcome: &Path,
        recorder: &mut Recorder<'_>,
    ) -> Result<(Outcome, Seen), String> {
        let mut asked = self.asked(cell, seed)?;
        asked.window_s += TAIL_S;
        self.measure(cell, &asked, outcome, Some(recorder))
    }

    /// Finds the rate that others are multiples of: the median of a few closed loops, or the most
    /// good answers of open ones.
    pub(crate) fn calibrate(&self, outcome: &Path) -> Result<Option<f64>, String> {
        let Some(calibrate) = &self.experiment.calibrate else { return Ok(None) };
        let cell = alone(&calibrate.target, BTreeMap::new());
        let good = |rate: Option<f64>| -> Result<f64, String> {
            let mut rates = Vec::new();
            for seed in 1..=u64::from(calibrate.tries) {
                let times = (0.5, calibrate.seconds);
                let (found, _) = self.uncounted(&cell, seed, rate, times, outcome)?;
                rates.push(found.good_per_s);
            }
            match crate::stats::median(&rates) {
                rate if rate > 0.0 => Ok(rate),
                _ => Err(format!("{} gave no good answer while calibrating", calibrate.target)),
            }
        };
        let closed = good(None)?;
        if calibrate.model == Loop::Closed {
            return Ok(Some(closed));
        }
        let mut peak = 0.0_f64;
        for times in OPEN_MULTIPLES {
            peak = peak.max(good(Some(times * closed))?);
        }
        Ok(Some(peak))
    }

    /// The share of the time for which the baseline waits for the disk, after a warm-up in a
    /// window, seconds; None: there is no number.
    pub(crate) fn waits_for_disk(
        &self,
        times: (f64, f64),
        outcome: &Path,
    ) -> Result<Option<f64>, String> {
        let cell = alone(&self.experiment.baseline, BTreeMap::new());
        let (found, seen) = self.uncounted(&cell, 1, None, times, outcome)?;
        let metrics = metrics(&found, &seen);
        let waited_s = metrics.get("disk_wait_s").copied();
        Ok(waited_s.filter(|_| seen.seconds > 0.0).map(|waited_s| waited_s / seen.seconds))
    }

    /// Chooses the layout: together, unless the number that decides scatters twice as much there
    /// over trials of the baseline, made alternately.
    pub(crate) fn choose_layout(&self, outcome: &Path) -> Result<LayoutChoice, String> {
        let Experiment { baseline, measure, .. } = self.experiment;
        let layouts = [CpuLayout::Apart, CpuLayout::Together];
        let mut logs = [Vec::new(), Vec::new()];
        for seed in 1..=u64::from(LAYOUT_TRIALS) {
            for (layout, logs) in layouts.iter().zip(&mut logs) {
                let levels = [(LAYOUT.to_owned(), layout.name().to_owned())].into();
                let cell = alone(baseline, levels);
                let (found, seen) = self.uncounted(&cell, seed, None, LAYOUT_TRIAL_S, outcome)?;
                let value = metrics(&found, &seen).get(&measure.metric).copied();
                logs.extend(value.filter(|value| *value > 0.0).map(f64::ln));
            }
        }
        let [apart, together] = logs.map(|logs| crate::stats::deviation(&logs));
        // Runs with another layout are not pooled with these, and the causes of scatter with
        // processors apart change by the minute. Only a clear advantage of apart is worth that. Not
        // a number if hardly a trial has the metric.
        let is_better = together.is_nan() || 2.0 * apart < together;
        let layout = if is_better { CpuLayout::Apart } else { CpuLayout::Together };
        Ok(LayoutChoice { layout, apart, together })
    }

    /// Offers a load that never counts: an open loop at a rate, or else a closed one of as many
    /// connections as calibrate. Warm-up and window are in seconds.
    fn uncounted(
        &self,
        cell: &Cell,
        seed: u64,
        rate: Option<f64>,
        (warm_s, window_s): (f64, f64),
        outcome: &Path,
    ) -> Result<(Outcome, Seen), String> {
        let Experiment { workload, calibrate, .. } = self.experiment;
        let calibrating = calibrate.as_ref().map(|calibrate| calibrate.connections);
        let asked = Asked {
            model: if rate.is_some() { Loop::Open } else { Loop::Closed },
            rate: rate.map_or(String::new(), |rate| format!("{rate:.3}")),
            connections: calibrating.unwrap_or(workload.connections),
            warm_s,
            window_s,
            seed,
            without_think: false,
            target: workload.target.clone(),
            fields: workload.fields,
            tls: workload.tls,
            streams: workload.streams,
        };
        self.measure(cell, &asked, outcome, None)
    }

    fn asked(&self, cell: &Cell, seed: u64) -> Result<Asked, String> {
        let Experiment { workload, measure, .. } = self.experiment;
        let level = |path: &str| cell.levels.get(path);
        let connections = level("workload.connections").and_then(|level| level.parse().ok());
        let rate = level("workload.rate").unwrap_or(&workload.rate);
        let (rate, multiple) = crate::experiment::rate(rate).ok_or("a rate that is none")?;
        // Requests were calibrated; the rate of sessions is the one that makes as many.
        let per_arrival =
            if workload.model == Loop::PartlyOpen { self.requests_per_session } else { 1.0 };
        let unit = match (multiple, self.unit) {
            (true, Some(unit)) => unit / per_arrival,
            (true, None) => return Err("nothing was calibrated".to_owned()),
            (false, _) => 1.0,
        };
        let all = rate * unit;
        let rate = self.beside.map_or(all, |beside| beside.part(all));
        Ok(Asked {
            model: workload.model,
            rate: format!("{rate:.3}"),
            connections: connections.unwrap_or(workload.connections),
            without_think: level("workload.think").unwrap_or(&workload.think) == "none",
            warm_s: measure.warm_s,
            window_s: measure.window_s,
            seed,
            target: level(TARGET).unwrap_or(&workload.target).clone(),
            fields: level(FIELDS)
                .and_then(|level| RequestFields::named(level))
                .unwrap_or(workload.fields),
            tls: level(TLS).and_then(|level| Encryption::named(level)).unwrap_or(workload.tls),
            streams: level(STREAMS)
                .and_then(|level| level.parse().ok())
                .unwrap_or(workload.streams),
        })
    }

    /// Connections that the load opens in a second at the calibrated rate, if they have an end.
    pub(crate) fn connections_per_s(&self) -> Option<f64> {
        let each = multiples::requests_per_connection(self.experiment, self.requests_per_session);
        Some(self.unit? / each?)
    }

    fn machine(&self, cell: &Cell) -> Machine {
        let mut machine = self.experiment.machine.at(&cell.levels);
        // Another machine has no distance, and next to other trials none is measured.
        if self.far.is_some() || self.beside.is_some() {
            machine.client_cpus.clear();
        }
        machine
    }

    /// Whether there was another machine, and is no more.
    fn is_lost(&self) -> bool {
        self.far.is_some_and(|far| far.lost().is_some())
    }

    /// The target of a cell, and what the cell's levels set, with numbers for multiples.
    fn target(&self, cell: &Cell) -> Result<(Target, BTreeMap<String, String>), String> {
        let all = &self.experiment.targets;
        let target = all.iter().find(|target| target.name == cell.target);
        let (mut target, mut options) = (target.ok_or("no such target")?.clone(), cell.options());
        let unit = self.connections_per_s();
        multiples::resolve(&mut target.config, unit);
        multiples::resolve(&mut options, unit);
        Ok((target, options))
    }

    fn measure(
        &self,
        cell: &Cell,
        asked: &Asked,
        outcome: &Path,
        recorder: Option<&mut Recorder<'_>>,
    ) -> Result<(Outcome, Seen), String> {
        let (mut target, options) = self.target(cell)?;
        let client = self.experiment.workload.client;
        let by_another = client != Client::Regatta;
        if by_another && target.program.is_bare() {
            // Any target returns the same file.
            target.config.insert("file".to_owned(), asked.target.clone());
        }
        let comparable = !target.program.is_bare();
        let (warm_s, window_s) = match by_another {
            true => another::watched_s(asked, recorder.is_some()),
            false => (asked.warm_s, asked.window_s),
        };
        let Measure { counters, stalls, streaming, .. } = self.experiment.measure;
        let wanted = Wanted {
            arm: cell.arm.clone(),
            target,
            options,
            needs: LoadNeeds {
                tls: asked.tls,
                http2: client == Client::H2load,
                codings: asked.fields == RequestFields::Codings,
            },
            machine: self.machine(cell),
            counting: Counting { counters, stalls, streaming },
            warm_s,
            window_s,
        };
        let mut served = self.serve(wanted, cell)?;
        let machine = self.experiment.machine.at(&cell.levels);
        let errors = self.scratch.join("load.err");
        if comparable {
            self.warm(&served, &asked.target, &machine, [outcome, &errors])?;
        }
        self.pass(Point::Ready);
        if by_another {
            return self.by_another(served, asked, &machine, [outcome, &errors], recorder);
        }
        let mut words = self.words(&served.url(), asked, &machine, comparable);
        words.extend(served.also());
        let limit = Duration::from_secs_f64(asked.window_s) + PATIENCE;
        let mut load = self.start_load(words, &machine, &served, [outcome, &errors])?;
        if served.wait_for_load(&mut load, outcome)? {
            served.watch(recorder)?;
        }
        let code = load.wait(limit, self.stop)?;
        self.pass(Point::Loaded);
        let mut seen = served.end()?;
        seen.compares = self.experiment.workload.verify && comparable;
        Ok((said(outcome, &errors, code)?, seen))
    }

    /// Waits for those that run at the same time, if there are any.
    fn pass(&self, point: Point) {
        if let Some(beside) = self.beside {
            beside.pass(point);
        }
    }
}

/// Result of a load that ended with `code`.
fn said(outcome: &Path, errors: &Path, code: Option<i32>) -> Result<Outcome, String> {
    let text = fs::read_to_string(outcome).unwrap_or_default();
    serde_json::from_str(&text).map_err(|error| {
        let said = fs::read_to_string(errors).unwrap_or_default();
        let said = last_message(&said);
        format!("the load ended with {code:?} and no result ({error}): {said}")
    })
}

/// Outcome of a probe of a saturation search.
fn shown(record: &Record, found: Option<&Outcome>, errors_max: f64) -> Tried {
    let is_note = |why: &&String| why.starts_with("note: ");
    let why = || {
        let reasons = record.reasons.iter().filter(|why| !is_note(why)).map(String::as_str);
        reasons.collect::<Vec<&str>>().join("; ")
    };
    let Some(found) = found else { return Tried::Invalid(why()) };
    let mut broken: Vec<String> =
        found.slo.iter().filter(|term| !term.met).map(|term| term.term.clone()).collect();
    if found.error_share() > errors_max {
        broken.push(format!("errors<={}%", 100.0 * errors_max));
    }
    // A server that answers nothing well breaks every level.
    let silent = record.reasons.iter().all(|why| why == guard::SILENT || is_note(&why));
    match broken.is_empty() {
        _ if !record.valid && !silent => Tried::Invalid(why()),
        true => Tried::Met,
        false => Tried::Broken(broken),
    }
}

#[cfg(test)]
mod tests {
    use super::Bench;
    use crate::experiment::plan::cells;
    use crate::experiment::{Scale, parse};
    use crate::programs::OwnPrograms;
    use crate::servers::environments::Rooms;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_multiple_is_of_requests_and_a_number_of_arrivals() {
        for (model, level, rate) in [
            ("open", "\"1.5x\"", "1500.000"),
            ("partly-open", "\"1.5x\"", "150.000"),
            ("partly-open", "40", "40.000"),
        ] {
            // Sessions open the connections.
            let few = if model == "partly-open" { "\"0.5x\"" } else { "128" };
            let text = format!(
                "experiment = {{ name = \"x\", question = \"?\", expect = \"!\" }}\n\
                 targets.a.config.limits.connections_max = {few}\n\
                 targets.a.program = \"regatta\"\ncalibrate.target = \"a\"\n\
                 workload = {{ preset = \"smoke\", loop = \"{model}\" }}\n\
                 factors.\"workload.rate\" = [{level}]\n"
            );
            let experiment = parse("x", &text, Scale::Quick).unwrap();
            let bench = Bench {
                experiment: &experiment,
                programs: &OwnPrograms::default(),
                root: PathBuf::new(),
                workload: None,
                scratch: PathBuf::new(),
                rooms: Rooms::new(&experiment, &[], PathBuf::new(), Path::new("")).unwrap(),
                unit: Some(1_000.0),
                requests_per_session: 10.0,
                far: None,
                stop: &AtomicBool::new(false),
                beside: None,
            };
            let asked = bench.asked(&cells(&experiment)[0], 1).unwrap();
            assert_eq!(asked.rate, rate);
            let (target, _) = bench.target(&cells(&experiment)[0]).unwrap();
            let expect = if model == "partly-open" { "50" } else { "128" };
            assert_eq!(target.config["limits.connections_max"], expect);
            // Connections that calibrate for sessions last as long as those.
            let closed = super::Asked { model: crate::experiment::Loop::Closed, ..asked.clone() };
            let requests = |asked| {
                let words = bench.words("http://x", asked, &experiment.machine, true);
                let at = words.iter().position(|word| word == "--requests-per-connection")?;
                words[at + 1].to_str().map(str::to_owned)
            };
            let (own, calibrating) = match model {
                "open" => (Some("0"), Some("0")),
                _ => (None, Some("10")),
            };
            assert_eq!(requests(&asked).as_deref(), own);
            assert_eq!(requests(&closed).as_deref(), calibrating);
        }
    }
}
