//! What a workload wants besides its logs, taken up where the options leave it open.

use super::arrivals::{Rate, Stretch};
use super::options::{LoadOptions, Model, Verify};
use crate::workload::alter::Target;
use crate::workload::manifest::{self, Files, Workload};
use crate::workload::think::{Pattern, Think};
use serde::{Deserialize, Serialize};
use std::fmt::{Debug, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time-out when neither options nor workload say.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Length of the measurement when neither options nor workload say.
const DURATION: Duration = Duration::from_secs(10);

/// What a load took from its workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The workload's name: a preset's, `from-dir` or `from-log`.
    pub name: String,
    /// What was taken, as the options that would have said the same.
    pub options: Vec<String>,
    /// What the workload wants and a load generator cannot do, in words.
    pub not_done: Vec<String>,
}

/// Fills in what the options leave open: from the workload in `dir`, if there is one.
pub(super) fn take_up(
    options: &mut LoadOptions,
    workload: Option<(&Workload, &Path)>,
) -> Result<(Option<Taken>, Option<Target>), String> {
    let mut taken = None;
    let mut altered = None;
    if let Some((workload, dir)) = workload {
        let mut of = Taken { name: workload.name.clone(), ..Taken::default() };
        logs(options, workload, dir, &mut of)?;
        model(options, workload, &mut of)?;
        times(options, workload, &mut of);
        bodies(options, workload, &mut of);
        altered = alter(options, workload, dir, &mut of)?;
        if let Some(ratio) = workload.offer.cache_ratio {
            let percent = 100.0 * ratio;
            of.not_done.push(format!(
                "page cache for {percent:.0} % of the files: limit the memory of the server"
            ));
        }
        taken = Some(of);
    } else if options.alter.is_some() {
        return Err("only a workload's file is altered: give its directory (--workload)".into());
    }
    options.timeout.get_or_insert(TIMEOUT);
    options.warm_up.get_or_insert(Duration::ZERO);
    options.requests_per_connection.get_or_insert(0);
    options.idle.get_or_insert(0);
    options.verify.get_or_insert(Verify::Off);
    // The times of a log end by themselves.
    let ends = matches!(options.model, Model::PartlyOpen { session_rate: None, .. });
    if options.count.is_none() && !ends {
        options.duration.get_or_insert(DURATION);
    }
    Ok((taken, altered))
}

/// The logs, when none was named.
fn logs(
    options: &mut LoadOptions,
    workload: &Workload,
    dir: &Path,
    taken: &mut Taken,
) -> Result<(), String> {
    let logs: Vec<PathBuf> = workload.logs.iter().map(|log| dir.join(&log.path)).collect();
    let (to, name) = match &mut options.model {
        Model::PartlyOpen { sessions, .. } => (sessions, "--sessions"),
        Model::Closed { .. } | Model::Open { .. } => {
            (&mut options.requests_from, "--requests-from")
        }
    };
    if !to.is_empty() {
        return Ok(());
    }
    let Some(first) = workload.logs.first() else {
        return Err(format!("{} holds no session log", dir.display()));
    };
    let more = match logs.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    taken.options.push(format!("{name} {}{more}", first.path));
    *to = logs;
    Ok(())
}

/// The model's own numbers.
fn model(options: &mut LoadOptions, workload: &Workload, taken: &mut Taken) -> Result<(), String> {
    let offer = &workload.offer;
    let say = &mut taken.options;
    match &mut options.model {
        Model::PartlyOpen { session_rate: None, .. } => match offer.model {
            manifest::Model::Closed => {
                let (least, most) = offer.clients.unwrap_or((1, 1));
                return Err(format!(
                    "{} is a closed workload: give --closed N, {least} to {most} in its paper",
                    workload.name
                ));
            }
            manifest::Model::PartlyOpen => return Err(no_rate(workload)),
            manifest::Model::Replay => {}
        },
        Model::PartlyOpen { session_rate: Some(rate), .. } => {
            phases(rate, &mut options.duration, options.count, offer, "--session-rate", say);
        }
        Model::Open { rate, .. } => {
            phases(rate, &mut options.duration, options.count, offer, "--rate", say);
        }
        Model::Closed { think, .. } => {
            let pattern = workload.pattern.filter(|_| offer.model == manifest::Model::Closed);
            fill(think, pattern.and_then(even_think), "--think", say);
            let lengths = pattern.map(|pattern| pattern.lengths);
            let fixed = lengths.filter(|l| l.least == l.most && l.single_share == 0.0);
            let fixed = fixed.map(|lengths| u64::from(lengths.least));
            fill(&mut options.requests_per_connection, fixed, "--requests-per-connection", say);
            if !offer.phases.is_empty() {
                let what = "its phases: they are of a rate, and a closed model has none";
                taken.not_done.push(what.to_owned());
            }
        }
    }
    Ok(())
}

/// The think time of a pattern in which all are the same.
fn even_think(pattern: Pattern) -> Option<Duration> {
    match pattern.think {
        Think::Constant { inactive_us, active_us } if inactive_us == active_us => {
            Some(Duration::from_micros(inactive_us).mul_f64(pattern.scale))
        }
        _ => None,
    }
}

fn no_rate(workload: &Workload) -> String {
    let mut what = "give --session-rate: the logs do not say when sessions start".to_owned();
    let (sessions, requests) = workload.logs.iter().fold((0, 0), |(sessions, requests), log| {
        (sessions + log.sessions, requests + log.requests)
    });
    if let Some((least, most)) = workload.offer.requests_per_s.filter(|_| requests > 0) {
        let each = sessions as f64 / requests as f64;
        let (from, to) = (least * each, most * each);
        // Writing to a String cannot fail.
        let _ = write!(
            what,
            " ({least:.0} to {most:.0} requests/s in its paper are {from:.0} to {to:.0} sessions/s)"
        );
    }
    what
}

/// Stretches of load, as shares of a rate that is one number.
fn phases(
    rate: &mut Rate,
    duration: &mut Option<Duration>,
    count: Option<u64>,
    offer: &manifest::Offer,
    name: &str,
    say: &mut Vec<String>,
) {
    let [Stretch { from, to, .. }] = rate.stretches[..] else { return };
    if offer.phases.is_empty() || from != to {
        return;
    }
    let stretch = |phase: &manifest::Phase| {
        let rate = from * phase.share;
        Stretch { seconds: phase.seconds.into(), from: rate, to: rate }
    };
    *rate = Rate { stretches: offer.phases.iter().map(stretch).collect() };
    let parts = rate.stretches.iter().map(|s| format!("{}@{}", s.from, s.seconds));
    say.push(format!("{name} {}", parts.collect::<Vec<_>>().join(",")));
    if count.is_none() {
        let whole = offer.phases.iter().map(|phase| u64::from(phase.seconds)).sum();
        fill(duration, Some(Duration::from_secs(whole)), "--duration", say);
    }
}

/// Time-out, warm-up, line speed and idle connections.
fn times(options: &mut LoadOptions, workload: &Workload, taken: &mut Taken) {
    let offer = &workload.offer;
    let say = &mut taken.options;
    let timeout = (offer.timeout_ms > 0).then(|| Duration::from_millis(offer.timeout_ms));
    fill(&mut options.timeout, timeout, "--timeout", say);
    let warm_up = (offer.warm_up_s > 0).then(|| Duration::from_secs(offer.warm_up_s.into()));
    fill(&mut options.warm_up, warm_up, "--warm-up", say);
    fill(&mut options.line_bits_per_s, workload.line_bits_per_s, "--line", say);
    let idle = Some(offer.idle_connections).filter(|idle| *idle > 0);
    fill(&mut options.idle, idle, "--idle", say);
}

/// Fills in what an option leaves open, and says the option that would have said the same.
fn fill<T: Copy + Debug>(
    option: &mut Option<T>,
    wanted: Option<T>,
    name: &str,
    say: &mut Vec<String>,
) {
    if let (None, Some(value)) = (*option, wanted) {
        *option = wanted;
        say.push(format!("{name} {value:?}"));
    }
}

/// What bodies are compared with: a workload knows.
fn bodies(options: &mut LoadOptions, workload: &Workload, taken: &mut Taken) {
    let given = options.verify.is_some();
    if !matches!(options.verify, None | Some(Verify::Generated)) {
        return;
    }
    let (verify, name) = match &workload.files {
        Files::Users { root } if root.is_dir() => {
            (Verify::Directory(root.clone()), root.display().to_string())
        }
        // The content is on another machine.
        Files::Users { .. } => (Verify::Hash, "hash".to_owned()),
        _ if workload.offer.altered.is_some() => (Verify::Altered, "altered".to_owned()),
        Files::Specweb { .. } | Files::Listed => (Verify::Generated, "generated".to_owned()),
    };
    if !given || verify != Verify::Generated {
        taken.options.push(format!("--verify {name}"));
    }
    options.verify = Some(verify);
}

/// The file that is rewritten while it is served.
fn alter(
    options: &LoadOptions,
    workload: &Workload,
    dir: &Path,
    taken: &mut Taken,
) -> Result<Option<Target>, String> {
    let Some(altered) = options.alter.unwrap_or(workload.offer.altered) else {
        if workload.offer.altered.is_some() {
            let what = "rewriting its file (--alter off): somebody else does it";
            taken.not_done.push(what.to_owned());
        }
        return Ok(None);
    };
    let target = Target::of(workload, dir, altered).map_err(|fault| fault.to_string())?;
    if options.alter.is_none() {
        taken.options.push(format!("--alter {altered}"));
    }
    Ok(Some(target))
}
