//! What is asked of the other machine's agent and what it answers: a line of JSON each.

use super::served::Wanted;
use crate::experiment::{Experiment, Scale};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The longest line: a load's whole result is one.
pub(super) const LINE_BYTES_MAX: usize = 256 << 20;

/// A question. Each is answered by a [`Said`] of the same number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) number: u64,
    pub(super) ask: Ask,
}

/// The answer, or why there is none.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) number: u64,
    pub(super) answer: Result<serde_json::Value, String>,
}

/// What can be asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Who it is: [`Met`].
    Meet,
    /// The hash of all files below a directory: a string.
    Hash(PathBuf),
    /// To take connections at an address of its own until the next question: the socket's address.
    Listen(IpAddr),
    /// How long a connection takes to an address of ours: nanoseconds.
    Reach(SocketAddr),
    /// What it has and lacks for an experiment: a manifest.
    Look(Box<Experiment>, Scale),
    /// To start a server: [`Addresses`].
    Serve(Box<Wanted>),
    /// To watch it from now to the end of the measurement.
    Watch,
    /// To end it: what was seen of it.
    End,
    /// To run a load: [`Ran`].
    Load(Load),
}

/// Who the other machine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Met {
    /// SHA-256 of the server's program and of the lab's.
    pub(super) sha256: [String; 2],
    /// Machine and settings, by name.
    pub(super) machine: BTreeMap<String, String>,
    /// Our address as it sees it, and its own, by the ssh connection; None: sshd does not say.
    pub(super) addresses: Option<[IpAddr; 2]>,
}

/// Where a server is to be asked: first, and also.
pub(super) type Addresses = (SocketAddr, Vec<SocketAddr>);

/// A load.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) words: Vec<OsString>,
    pub(super) cpus: Vec<usize>,
    pub(super) realtime: bool,
    pub(super) seconds_max: f64,
}

/// How a load ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ran {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) errors: String,
}
