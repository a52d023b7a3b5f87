//! The load of a trial: what is offered, and the command line of `regatta-lab load` that says so.

use crate::experiment::{Client, Encryption, Loop, Machine, RequestFields};
use crate::trial::Bench;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Beside a workload's `logs`: the same sessions without think times.
pub(crate) const NO_THINK: &str = "logs-without-think-times";
/// How long requests in flight at a load's end are waited for.
const DRAIN_S: f64 = 0.5;

/// The log of a workload that was made from an access log.
pub(crate) fn log(workload: &Path) -> PathBuf {
    workload.join("asked.log")
}

/// How a load differs from what the experiment says.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) model: Loop,
    pub(crate) rate: String,
    pub(crate) connections: u32,
    pub(crate) warm_s: f64,
    pub(crate) window_s: f64,
    pub(crate) seed: u64,
    /// Without think times.
    pub(crate) without_think: bool,
    /// Where one path is asked for: that.
    pub(crate) target: String,
    /// Fields of the requests of wrk or h2load.
    pub(crate) fields: RequestFields,
    pub(crate) tls: Encryption,
    /// Requests that h2load has open on a connection.
    pub(crate) streams: u32,
}

impl Bench<'_> {
    /// `regatta-lab load` and its flags. What the bare loop answers is not `comparable`: it is
    /// always the same.
    pub(crate) fn words(
        &self,
        url: &str,
        asked: &Asked,
        machine: &Machine,
        comparable: bool,
    ) -> Vec<OsString> {
        let workload = &self.experiment.workload;
        let mut words: Vec<OsString> = vec![self.programs.lab.clone().into(), "load".into()];
        // wrk and h2load ask for paths of a workload; what compares their replies asks for one.
        let set = self.workload.as_ref().filter(|_| workload.client == Client::Regatta);
        let target = if set.is_some() { "/" } else { &asked.target };
        words.push(format!("{url}{target}").into());
        let mut flag = |name: &str, value: OsString| words.extend([name.into(), value]);
        match asked.model {
            Loop::Closed => flag("--closed", asked.connections.to_string().into()),
            Loop::Open => flag("--rate", asked.rate.clone().into()),
            Loop::PartlyOpen => {
                for log in self.logs(asked.without_think) {
                    flag("--sessions", log.into());
                }
                flag("--session-rate", asked.rate.clone().into());
            }
        }
        if asked.model != Loop::Closed {
            flag("--arrivals", workload.arrivals.clone().into());
        }
        flag("--warm-up", format!("{}s", asked.warm_s).into());
        flag("--duration", format!("{}s", asked.window_s).into());
        flag("--drain", format!("{DRAIN_S}s").into());
        flag("--timeout", workload.timeout.clone().into());
        flag("--seed", asked.seed.to_string().into());
        let share = match self.beside {
            None => machine.load_share(),
            Some(beside) => beside.share(machine),
        };
        if let Some(share) = share {
            flag("--share", share.to_string().into());
        }
        match (asked.model, workload.model) {
            // A session's connection lasts as long as it.
            (Loop::PartlyOpen, _) => {}
            // So do those that calibrate for sessions: each costs its making.
            (Loop::Closed, Loop::PartlyOpen) => {
                let requests = format!("{:.0}", self.requests_per_session);
                flag("--requests-per-connection", requests.into());
            }
            _ => {
                let requests = workload.requests_per_connection.to_string();
                flag("--requests-per-connection", requests.into());
            }
        }
        if let Some(slo) = &workload.slo {
            flag("--slo", slo.into());
        }
        if let Some(directory) = set {
            flag("--workload", directory.into());
            let log = log(directory);
            if log.exists() {
                flag("--requests-from", log.into());
            }
        }
        // Of a workload, not to compare has to be said.
        let how = match (workload.verify && comparable, set.and(workload.preset.as_ref())) {
            (false, _) => "off".into(),
            (true, None) => self.root.clone().into(),
            (true, Some(_)) => "generated".into(),
        };
        flag("--verify", how);
        words.extend(["--json", "--quiet"].map(OsString::from));
        words
    }

    fn logs(&self, without_think: bool) -> Vec<PathBuf> {
        let name = if without_think { NO_THINK } else { "logs" };
        let folder = self.workload.as_ref().map(|workload| workload.join(name));
        let entries = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
        let mut logs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        logs.sort();
        logs
    }
}
