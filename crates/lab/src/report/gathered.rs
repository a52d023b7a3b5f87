//! Combined results of the loads of each cell: histograms added up, failures by kind, comparisons.
//! Read from the whole results in `outcomes/`, one at a time.

use crate::journal::Run;
use crate::record::{Cell, Record};
use regatta_load::engine::{Class, Fates, Outcome, Row, Sessions, Spectrum};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    /// The trials that count; None if not one has its result.
    pub(super) valid: Option<Valid>,
    /// All trials: a wrong byte is wrong wherever it was.
    pub(super) checked: Checked,
    /// Middle trial, by the deciding number, of those that count: its number, and its seconds.
    pub(super) middle: Option<(u32, Vec<Row>)>,
}

/// The trials that count, added up.
#[derive(Clone, Debug)]
pub(super) struct Valid {
    pub(super) offered: u64,
    pub(super) fates: Fates,
    /// From due (in the closed model: from the first attempt) to the last byte.
    pub(super) latency: Spectrum,
    /// From the first attempt, where that is another time.
    pub(super) service: Option<Spectrum>,
    /// By size of the file.
    pub(super) classes: Vec<Class>,
    /// Time-outs while connecting, sending, waiting, receiving.
    pub(super) timeouts: [u64; 4],
    /// Jain's index of each trial.
    pub(super) fairness: Vec<f64>,
    /// Clients that were told apart.
    pub(super) clients: usize,
    pub(super) sessions: Option<Sessions>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checked {
    pub(super) fates: Fates,
    /// Bodies compared byte by byte.
    pub(super) verified: u64,
    /// Bodies whose file changed meanwhile.
    pub(super) changed: u64,
    pub(super) statuses: [u64; 6],
    pub(super) bytes: u64,
}

pub(super) fn gather(run: &Run) -> BTreeMap<Cell, Gathered> {
    let mut all: BTreeMap<Cell, Gathered> = BTreeMap::new();
    let middles = middles(run);
    for record in &run.records {
        let Some(outcome) = run.outcome(record) else { continue };
        let one = all.entry(record.cell.clone()).or_default();
        one.checked.add(&outcome);
        if !record.valid {
            continue;
        }
        if middles.get(&record.cell) == Some(&(record.trial, record.attempt)) {
            one.middle = Some((record.trial, outcome.rows.clone()));
        }
        match &mut one.valid {
            Some(sum) => sum.add(&outcome),
            None => one.valid = Some(Valid::of(outcome)),
        }
    }
    all
}

/// Valid trial of each cell that is in the middle by the deciding number.
pub(super) fn middles(run: &Run) -> BTreeMap<Cell, (u32, u32)> {
    let mut trials: BTreeMap<Cell, Vec<&Record>> = BTreeMap::new();
    run.valid().for_each(|record| trials.entry(record.cell.clone()).or_default().push(record));
    let metric = &run.experiment.measure.metric;
    let value = |record: &Record| record.metrics.get(metric).copied().unwrap_or(0.0);
    let middle = |(cell, mut of): (Cell, Vec<&Record>)| {
        of.sort_by(|a, b| value(a).total_cmp(&value(b)));
        let middle = of.get(of.len() / 2)?;
        Some((cell, (middle.trial, middle.attempt)))
    };
    trials.into_iter().filter_map(middle).collect()
}

impl Valid {
    fn of(outcome: Outcome) -> Self {
        let Outcome { response, service, .. } = outcome;
        let (latency, service) = match response {
            Some(response) => (response, Some(service)),
            None => (service, None),
        };
        Self {
            offered: outcome.offered,
            fates: outcome.fates,
            latency,
            service,
            classes: outcome.classes,
            timeouts: outcome.phases.timeouts,
            fairness: vec![outcome.fairness],
            clients: outcome.clients.len(),
            sessions: outcome.sessions,
        }
    }

    fn add(&mut self, outcome: &Outcome) {
        self.offered += outcome.offered;
        self.fates.add(&outcome.fates);
        self.latency.add(outcome.latency());
        if let Some(service) = &mut self.service {
            service.add(&outcome.service);
        }
        self.classes.iter_mut().zip(&outcome.classes).for_each(|(sum, class)| sum.add(class));
        let timeouts = outcome.phases.timeouts;
        self.timeouts.iter_mut().zip(timeouts).for_each(|(sum, count)| *sum += count);
        self.fairness.push(outcome.fairness);
        if let (Some(sum), Some(sessions)) = (&mut self.sessions, &outcome.sessions) {
            sum.add(sessions);
        }
    }
}

impl Checked {
    fn add(&mut self, outcome: &Outcome) {
        self.fates.add(&outcome.fates);
        self.verified += outcome.verified;
        self.changed += outcome.changed;
        self.statuses.iter_mut().zip(outcome.statuses).for_each(|(sum, count)| *sum += count);
        self.bytes += outcome.bytes_received;
    }
}
