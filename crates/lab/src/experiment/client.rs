//! Clients of an experiment, and the form of their requests.

use super::{Ask, CpuLayout, Experiment, LAYOUT, Loop, Mode, Program, Target, Warm};
use crate::programs::{self, Other};
use regatta_load::named;
use std::path::PathBuf;

/// The factors that are about single requests.
pub(crate) const TARGET: &str = "workload.target";
pub(crate) const FIELDS: &str = "workload.fields";
pub(crate) const TLS: &str = "workload.tls";
pub(crate) const STREAMS: &str = "workload.streams";

/// Streams of a connection at most.
pub(super) const STREAMS_MAX: u32 = 1_000;
/// `Accept-Encoding` of [`RequestFields::Codings`].
pub(crate) const CODINGS: &str = "br;q=1, gzip;q=0.8";

named! {
    #[derive(Default)]
    pub enum Client {
        #[default]
        Regatta = "regatta",
        /// wrk: one thread, closed loop, HTTP/1.1.
        Wrk = "wrk",
        /// h2load: one thread, closed loop, HTTP/2.
        H2load = "h2load",
    }
}

impl Client {
    /// The file of a program that is not ours; `None` for ours.
    ///
    /// # Errors
    /// What to say where the program is missing, or has another version.
    pub(crate) fn program(self) -> Result<Option<PathBuf>, String> {
        match self {
            Self::Regatta => Ok(None),
            Self::Wrk => programs::wrk().map(Some),
            Self::H2load => programs::h2load().map(Some),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadNeeds {
    pub(crate) tls: Encryption,
    pub(crate) http2: bool,
    pub(crate) codings: bool,
}

named! {
    /// The field lines of requests of wrk or h2load.
    #[derive(Default)]
    pub enum RequestFields {
        #[default]
        Host = "host",
        /// The ten that Firefox sends.
        Browser = "browser",
        /// The same and a cookie that differs in each request.
        Cookie = "cookie",
        /// `Host`, and the codings of HttpArena: Brotli, else gzip.
        Codings = "codings",
    }
}

named! {
    /// Encryption of the connections of wrk or h2load, by TLS 1.3.
    #[derive(Default)]
    pub enum Encryption {
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
    pub(crate) fn encrypts(&self) -> bool {
        self.workload.tls != Encryption::Clear || self.varies(TLS)
    }
}

impl Target {
    /// Whether the lab can set it up for TLS and HTTP/2. The bare loop stays in the clear.
    pub(crate) fn speaks_tls(&self) -> bool {
        matches!(self.program, Program::Regatta | Program::Other(Other::Nginx | Other::H2o))
    }
}

/// Whether a text is the path of a request.
pub(super) fn is_target(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Requirements of an experiment that its client cannot meet.
pub(super) fn faults(experiment: &Experiment) -> Vec<String> {
    let client = experiment.workload.client;
    let wrong = match client {
        Client::Regatta => of_ours(experiment).to_vec(),
        Client::Wrk => [of_another(experiment).as_slice(), &of_wrk(experiment)].concat(),
        Client::H2load => [of_another(experiment).as_slice(), &of_h2load(experiment)].concat(),
    };
    let said = |what: &str| match client {
        Client::Regatta => what.to_owned(),
        other => format!("workload.client = {:?} {what}", other.name()),
    };
    wrong.iter().filter(|(wrong, _)| *wrong).map(|(_, what)| said(what)).collect()
}

/// Whether something is wrong, and what is to be said then.
type ClientFault = (bool, &'static str);

/// Whether a level of the factor at `path` is this one, or the experiment's own value is.
fn takes(experiment: &Experiment, path: &str, own: &str, wanted: &str) -> bool {
    let factor = experiment.factors.iter().find(|factor| factor.path == path);
    factor.map_or(own == wanted, |factor| factor.levels.iter().any(|level| level == wanted))
}

fn of_ours(experiment: &Experiment) -> [ClientFault; 5] {
    let workload = &experiment.workload;
    let one_target = workload.root.is_some() && workload.ask == Ask::Target;
    [
        (
            workload.fields != RequestFields::Host || experiment.varies(FIELDS),
            "workload.fields takes workload.client = \"wrk\" or \"h2load\"",
        ),
        (
            experiment.varies(TARGET) && !one_target,
            "the factor workload.target takes workload.root, or workload.client = \"wrk\"",
        ),
        (experiment.encrypts(), "workload.tls takes workload.client = \"wrk\" or \"h2load\""),
        (
            workload.streams != 1 || experiment.varies(STREAMS),
            "workload.streams takes workload.client = \"h2load\"",
        ),
        (
            workload.ask == Ask::Rotation,
            "workload.ask = \"rotation\" takes workload.client = \"wrk\" or \"h2load\"",
        ),
    ]
}

/// Faults of an experiment whose client is not ours.
fn of_another(experiment: &Experiment) -> [ClientFault; 7] {
    let Experiment { workload, machine, measure, .. } = experiment;
    let whole = |seconds: f64| seconds.fract() == 0.0;
    let rotates = workload.ask == Ask::Rotation;
    [
        (workload.model != Loop::Closed, "takes workload.loop = \"closed\""),
        (
            machine.layout != CpuLayout::Apart || experiment.varies(LAYOUT),
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
            workload.ask != Ask::Target && !rotates || rotates && experiment.varies(TARGET),
            "asks for one path, workload.target, or for the files of a preset: \"rotation\"",
        ),
        (!is_target(&workload.target), "takes a workload.target such as \"/a.html\""),
        (workload.idle.is_some(), "holds no silent connections: leave workload.idle out"),
    ]
}

fn of_wrk(experiment: &Experiment) -> [ClientFault; 4] {
    let workload = &experiment.workload;
    let may_encrypt = |one: &Target| one.speaks_tls() || one.program.is_bare();
    [
        (
            workload.requests_per_connection > 1,
            "takes workload.requests_per_connection = 0, or 1 for a connection a request",
        ),
        (
            experiment.encrypts() && !experiment.targets.iter().all(may_encrypt),
            "with workload.tls takes the programs regatta, nginx, h2o, and null in the clear",
        ),
        (
            workload.streams != 1 || experiment.varies(STREAMS),
            "has no streams: workload.streams is h2load's",
        ),
        (
            workload.ask == Ask::Rotation
                && takes(experiment, FIELDS, workload.fields.name(), RequestFields::Cookie.name()),
            "changes a cookie for one path, and not in a rotation",
        ),
    ]
}

fn of_h2load(experiment: &Experiment) -> [ClientFault; 4] {
    let workload = &experiment.workload;
    let is =
        |fields: RequestFields| takes(experiment, FIELDS, workload.fields.name(), fields.name());
    let resumed = Encryption::Resumed.name();
    [
        (
            workload.requests_per_connection != 0,
            "takes workload.requests_per_connection = 0: its connections stay open",
        ),
        (
            !experiment.targets.iter().all(Target::speaks_tls),
            "takes programs that speak HTTP/2: regatta, nginx, h2o",
        ),
        (
            takes(experiment, TLS, workload.tls.name(), resumed),
            "resumes no sessions: workload.tls is none or full",
        ),
        (
            is(RequestFields::Browser) || is(RequestFields::Cookie),
            "takes workload.fields = \"host\" or \"codings\"",
        ),
    ]
}
