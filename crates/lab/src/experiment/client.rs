//! Who makes the requests, and what they look like.

use super::{Ask, CpuLayout, Experiment, LAYOUT, Loop, Mode, Program, Target, Warm};
use crate::programs::Other;
use regatta_load::named;
use serde::{Deserialize, Serialize};

/// The factors that are about single requests.
pub(crate) const TARGET: &str = "workload.target";
pub(crate) const FIELDS: &str = "workload.fields";
pub(crate) const TLS: &str = "workload.tls";

/// The program that makes the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    /// `regatta load`.
    #[default]
    Regatta,
    /// wrk: one thread, closed loop, one path.
    Wrk,
}

named! {
    /// The field lines of wrk's requests.
    #[derive(Default)]
    pub enum RequestFields {
        /// `Host` alone.
        #[default]
        Host = "host",
        /// The ten that Firefox sends.
        Browser = "browser",
        /// Those and a cookie that is another in each request.
        Cookie = "cookie",
    }
}

named! {
    /// Encryption of wrk's connections, by TLS 1.3.
    #[derive(Default)]
    pub enum Encryption {
        /// All connections are in the clear.
        #[default]
        Clear = "none",
        /// The servers issue no session tickets: each handshake is a full one.
        Full = "full",
        /// The servers issue session tickets. wrk resumes a session in each connection but the
        /// first of those that it opens one after the other.
        Resumed = "resumed",
    }
}

impl Experiment {
    /// Whether any connection is encrypted.
    pub(crate) fn encrypts(&self) -> bool {
        let varies = self.factors.iter().any(|factor| factor.path == TLS);
        self.workload.tls != Encryption::Clear || varies
    }
}

impl Target {
    /// Whether the lab can set it up for TLS. The bare loop stays in the clear.
    pub(crate) fn speaks_tls(&self) -> bool {
        matches!(self.program, Program::Regatta | Program::Other(Other::Nginx | Other::H2o))
    }
}

/// What is wrong with a level of a factor that is about single requests; None: nothing.
pub(super) fn level_fault(path: &str, level: &str) -> Option<String> {
    let unknown = |known: &[&str]| {
        let is_known = known.contains(&level);
        (!is_known).then(|| format!("{level:?} is none of {}", known.join(", ")))
    };
    match path {
        FIELDS => unknown(&RequestFields::ALL.map(RequestFields::name)),
        TLS => unknown(&Encryption::ALL.map(Encryption::name)),
        TARGET if !is_target(level) => Some(format!("{level:?} is no path such as \"/a.html\"")),
        _ => None,
    }
}

fn is_target(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What an experiment asks for that its client cannot do.
pub(super) fn faults(experiment: &Experiment) -> Vec<String> {
    let Experiment { workload, machine, measure, .. } = experiment;
    let varies = |path: &str| experiment.factors.iter().any(|factor| factor.path == path);
    let whole = |seconds: f64| seconds.fract() == 0.0;
    let may_encrypt = |one: &Target| one.speaks_tls() || one.program == Program::Null;
    let one_target = workload.root.is_some() && workload.ask == Ask::Target;
    let wrong: &[(bool, &str)] = if workload.client == Client::Regatta {
        &[
            (
                workload.fields != RequestFields::Host || varies(FIELDS),
                "workload.fields takes workload.client = \"wrk\"",
            ),
            (
                varies(TARGET) && !one_target,
                "the factor workload.target takes workload.root, or workload.client = \"wrk\"",
            ),
            (experiment.encrypts(), "workload.tls takes workload.client = \"wrk\""),
        ]
    } else {
        &[
            (workload.model != Loop::Closed, "takes workload.loop = \"closed\""),
            (
                machine.layout != CpuLayout::Apart || varies(LAYOUT),
                "takes machine.layout = \"apart\": it holds no share of a processor",
            ),
            (
                measure.mode != Mode::Trials || measure.warm != Warm::Fixed,
                "takes measure.mode = \"trials\" and measure.warm = \"fixed\"",
            ),
            (
                !whole(measure.warm_s) || !whole(measure.window_s),
                "counts whole seconds: measure.warm_s and measure.window_s",
            ),
            (
                workload.requests_per_connection > 1,
                "takes workload.requests_per_connection = 0, or 1 for a connection a request",
            ),
            (workload.ask != Ask::Target, "asks for one path: workload.target"),
            (!is_target(&workload.target), "takes a workload.target such as \"/a.html\""),
            (
                experiment.encrypts() && !experiment.targets.iter().all(may_encrypt),
                "with workload.tls takes the programs regatta, nginx, h2o, and null in the clear",
            ),
        ]
    };
    let said = |what: &str| match workload.client {
        Client::Regatta => what.to_owned(),
        Client::Wrk => format!("workload.client = \"wrk\" {what}"),
    };
    wrong.iter().filter(|(wrong, _)| *wrong).map(|(_, what)| said(what)).collect()
}
