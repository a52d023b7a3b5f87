//! The part of a load that one shard made, with all that its sum with the others needs.

use super::arrivals::Rate;
use super::kernel::Kernel;
use super::options::{Model, Taken, Verify};
use super::plan::Plan;
use super::play::Idled;
use super::shard::Shard;
use super::tally::{Health, Second, Tally};
use crate::number::nanos;
use crate::workload::alter::Rewritten;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Facts about a load that its result needs. The shards of a load have the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Terms {
    pub(super) url: String,
    pub(super) model: String,
    pub(super) load: String,
    pub(super) protocol: String,
    pub(super) tls: bool,
    pub(super) workload: Option<Taken>,
    pub(super) seed: u64,
    /// Digest of the requests in their order; empty if the load has one shard.
    pub(super) requests_sha256: String,
    pub(super) sizes: Vec<u64>,
    /// Rate of an open loop that ends with its time.
    pub(super) rate: Option<Rate>,
    count: Option<u64>,
    pub(super) duration_ns: Option<u64>,
    pub(super) warm_up_ns: u64,
    pub(super) even: bool,
    pub(super) verifies: bool,
    pub(super) deadline_ns: u64,
    pub(super) slo: Option<String>,
}

impl Terms {
    fn new(plan: &Plan) -> Self {
        let options = &plan.options;
        let rate = match &options.model {
            Model::Open { rate, .. } if options.count.is_none() => Some(rate.clone()),
            _ => None,
        };
        let is_flat = |rate: &Rate| {
            rate.stretches.iter().all(|s| s.from == s.to && s.to == rate.stretches[0].to)
        };
        let even = match &options.model {
            Model::Open { rate, .. } | Model::PartlyOpen { session_rate: Some(rate), .. } => {
                is_flat(rate)
            }
            Model::Closed { .. } => true,
            Model::PartlyOpen { session_rate: None, .. } => false,
        };
        Self {
            url: options.url.clone(),
            model: model_name(&options.model).to_owned(),
            load: load_of(plan),
            protocol: if plan.streams > 0 { "h2" } else { "http/1.1" }.to_owned(),
            tls: plan.tls.is_some(),
            workload: plan.taken.clone(),
            seed: options.seed,
            requests_sha256: options.shard.map_or_else(String::new, |_| plan.requests_sha256()),
            sizes: plan.sizes.clone(),
            rate,
            count: options.count,
            duration_ns: options.duration.map(nanos),
            warm_up_ns: options.warm_up.map_or(0, nanos),
            even,
            verifies: options.verify.as_ref().is_some_and(|verify| *verify != Verify::Off),
            deadline_ns: plan.deadline_ns,
            slo: options.slo.clone(),
        }
    }

    /// Name of the first fact in which another load differs, with both values.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let value = |terms: &Self| serde_json::to_value(terms).expect("plain values are JSON");
        let (own, other) = (value(self), value(other));
        let mut fields = own.as_object()?.iter().filter(|(name, value)| other[*name] != **value);
        fields.next().map(|(name, value)| {
            let [value, other] = [value, &other[name]].map(|value| {
                let text = value.to_string();
                if text.len() > 60 { "other ones".to_owned() } else { text }
            });
            format!("{} {value} and {other}", name.replace('_', " "))
        })
    }
}

/// Name of the closed model.
pub(super) const CLOSED: &str = "closed";
/// Name of the partly-open model.
pub(super) const PARTLY_OPEN: &str = "partly-open";

fn model_name(model: &Model) -> &'static str {
    match model {
        Model::Closed { .. } => CLOSED,
        Model::Open { .. } => "open",
        Model::PartlyOpen { .. } => PARTLY_OPEN,
    }
}

fn load_of(plan: &Plan) -> String {
    let rate = |rate: &Rate| {
        let parts = rate.stretches.iter().map(|s| {
            if s.from == s.to { format!("{}", s.to) } else { format!("{} to {}", s.from, s.to) }
        });
        let arrivals = format!("{:?}", plan.options.arrivals).to_lowercase();
        format!("{} per second, {arrivals} arrivals", parts.collect::<Vec<_>>().join(", then "))
    };
    match &plan.options.model {
        Model::Closed { connections, think } => {
            let think = think.filter(|think| !think.is_zero());
            let think = think.map_or("no think time".to_owned(), |t| format!("think time {t:?}"));
            let streams = match plan.streams {
                0 => String::new(),
                streams => format!(" of {streams} streams"),
            };
            format!("{connections} connections{streams}, {think}")
        }
        Model::Open { rate: offered, .. } => format!("requests {}", rate(offered)),
        Model::PartlyOpen { session_rate: Some(offered), .. } => {
            format!("sessions {}", rate(offered))
        }
        Model::PartlyOpen { session_rate: None, .. } => "sessions at the log's times".to_owned(),
    }
}

/// Counts of one shard, or of several added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub(super) terms: Terms,
    pub(super) shard: Shard,
    pub(super) started_unix_ms: u64,
    pub(super) interrupted: bool,
    pub(super) tally: Tally,
    pub(super) workers: Vec<Health>,
    pub(super) seconds: Vec<Second>,
    pub(super) kernel: Kernel,
    pub(super) idle: Option<Idled>,
    pub(super) altered: Option<Rewritten>,
}

impl Part {
    /// The part that these threads made, without what is measured for the whole process.
    pub(super) fn new(plan: &Plan, tallies: &[Tally], seconds: Vec<Second>) -> Self {
        let clients = usize::try_from(plan.clients).unwrap_or(1);
        let mut tally = Tally::new(clients, plan.sizes.len());
        tallies.iter().for_each(|thread| tally.add(thread));
        Self {
            terms: Terms::new(plan),
            shard: plan.shard,
            tally,
            workers: tallies.iter().map(|thread| thread.health).collect(),
            seconds,
            ..Self::default()
        }
    }

    /// Adds the counts of another shard.
    pub(super) fn add(&mut self, other: Self) {
        self.started_unix_ms = self.started_unix_ms.min(other.started_unix_ms);
        self.interrupted |= other.interrupted;
        self.tally.add(&other.tally);
        self.workers.extend(other.workers);
        let own = std::mem::take(&mut self.seconds);
        let mut seconds: BTreeMap<u64, Second> =
            own.into_iter().map(|second| (second.row.second, second)).collect();
        for second in other.seconds {
            let number = second.row.second;
            seconds.entry(number).or_insert_with(|| Second::new(number)).add(&second);
        }
        self.seconds = seconds.into_values().collect();
        self.kernel.add(&other.kernel);
        if let Some(idle) = other.idle {
            self.idle.get_or_insert_default().add(idle);
        }
        self.altered = self.altered.or(other.altered);
    }
}

/// Shards that a result is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shards {
    /// Shards of the whole load.
    pub count: u32,
    pub present: Vec<u32>,
    /// Shards whose results a merge lacks. The result of one shard lacks none.
    pub missing: Vec<u32>,
    /// Shards of a merge that were ended from outside before their end.
    #[serde(default)]
    pub interrupted: Vec<u32>,
    /// Time between the first start and the last, ms.
    pub apart_ms: u64,
}

impl Shards {
    pub(super) fn one(shard: Shard) -> Self {
        Self { count: shard.count, present: vec![shard.index], ..Self::default() }
    }

    /// The shards in words.
    pub(super) fn words(&self) -> String {
        match self.present[..] {
            [index] if self.missing.is_empty() => format!("shard {index}/{}", self.count),
            _ => format!("{} of {} shards", self.present.len(), self.count),
        }
    }

    /// Share of the load that the result should have.
    pub(super) fn share(&self) -> f64 {
        let expected = self.present.len() + self.missing.len();
        expected as f64 / f64::from(self.count.max(1))
    }
}
