//! Handover from one image of the master to the next, in memory with a descriptor and no name. It
//! names descriptors, the old workers, and the findings of the trial.
use crate::{Failure, WorkFault, config_text::ConfigText};
use regatta_metrics::ArenaError;
use regatta_sys::exec::{read_sealed, sealed};
use serde::{Deserialize, Serialize, Serializer};
use std::{
    fmt, io,
    ops::Range,
    os::fd::{OwnedFd, RawFd},
    path::{Path, PathBuf},
};

/// Format of the handover. Rises when a member changes its meaning; unknown members are ignored.
pub const FORMAT: u64 = 1;

/// Limit of a handover that is read, bytes: a configuration, and some hundred bytes for each of
/// some thousand workers and roots.
pub const HANDOVER_BYTES_MAX: u64 = 16 << 20;

/// Handover to the next image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// [`FORMAT`].
    pub format: u64,
    /// Pipe for faults. The image only tests whether it could serve, writes them, and exits.
    pub report: Option<RawFd>,
    /// Channel for findings of a trial. Earlier builds have none.
    #[serde(default)]
    pub findings: Option<RawFd>,
    /// Findings of the trial: descriptors, in their order. The next image then opens no path.
    #[serde(default)]
    pub found: Option<Vec<RawFd>>,
    /// Number of the generation that the next image starts.
    pub generation: u64,
    /// Start of the server: milliseconds since 1970-01-01T00:00:00Z.
    pub started_unix_ms: u64,
    /// The program that an upgrade executes.
    #[serde(serialize_with = "lossy")]
    pub program: PathBuf,
    /// Arguments of that program, its name included; `None` if one is no text.
    pub arguments: Option<Vec<String>>,
    /// Text of the configuration to use, whatever the files say; `None` if the image is to read
    /// them. Earlier builds understand the text of one file.
    pub config: Option<ConfigText>,
    /// Numbers of requests for another generation: carried out, and not.
    pub reloads: [u64; 2],
    /// Limit of reloads for one root: the wait before the next, and its end on the monotonic clock,
    /// both milliseconds. Earlier builds do not send it.
    #[serde(default)]
    pub root_reload: [u64; 2],
    /// Certificates of this image's workers. Earlier builds do not name them.
    #[serde(default)]
    pub certificates: Vec<CertificateId>,
    /// Further request: `root`, `reload` or `upgrade`.
    pub asked: Option<String>,
    /// Listening sockets.
    pub listeners: Vec<Listener>,
    /// Files of Unix sockets. Earlier builds do not name them.
    #[serde(default)]
    pub files: Option<Vec<OpenSocketFile>>,
    /// Addresses of sockets that the service manager has given. Earlier builds do not name them.
    #[serde(default)]
    pub given: Vec<String>,
    /// Rules of all roots in force, in memory of their own, for those that cannot be read.
    /// Earlier builds do not hand them over.
    #[serde(default)]
    pub rules: Option<RawFd>,
    /// Table of clients, so that a reload forgives no client its requests. Earlier builds do not
    /// hand it over.
    #[serde(default)]
    pub clients: Option<ClientWords>,
    /// Keys of session tickets, so that clients resume their sessions. Earlier builds do not hand
    /// them over.
    #[serde(default)]
    pub tickets: Option<TicketMemory>,
    /// The admin process.
    pub admin: Option<AdminProcess>,
    /// File with the master's number, if it has been written.
    pub pid_file: Option<PathBuf>,
    /// Generations that have not ended.
    pub old: Vec<OldGeneration>,
}

/// Listening socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Address as configured: port 0 stays the port that the kernel chose.
    pub asked: String,
    /// The descriptor.
    pub fd: RawFd,
}

/// File of a Unix socket, open: no other at its path is mistaken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSocketFile {
    /// The path.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The descriptor.
    pub fd: RawFd,
}

/// The table of clients, in shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientWords {
    /// Layout of the words. Rises when they change their meaning: a table of another layout is not
    /// used.
    pub layout: u64,
    /// The descriptor.
    pub fd: RawFd,
    /// Seed of its hashes.
    pub seed: u64,
}

/// Certificate of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateId {
    /// File with its chain.
    pub path: String,
    /// End of its validity, seconds since 1970-01-01T00:00:00Z.
    pub valid_until: i64,
    /// Seconds before it when a warning is due. Earlier builds do not name them.
    #[serde(default)]
    pub soon_s: i64,
}

/// Keys of session tickets, in shared memory. The first word names the layout of the others: words
/// of another layout are not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketMemory {
    /// The descriptor.
    pub fd: RawFd,
    /// Last rotation: milliseconds of the monotonic clock.
    pub rotated_ms: u64,
    /// Time between rotations, milliseconds; `None` if the keys are those of files.
    pub rotate_ms: Option<u64>,
}

/// Admin process: it answers until the next image has its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminProcess {
    /// Address where it listens, as configured.
    pub asked: String,
    /// Descriptor of its listening socket.
    pub fd: RawFd,
    /// Number of the process, if there is one.
    pub pid: Option<u32>,
    /// The descriptor.
    pub pidfd: Option<RawFd>,
}

/// Generation whose workers, or keeper, have not all ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldGeneration {
    /// Number of the generation.
    pub number: u64,
    /// Descriptor of its counters.
    pub arena: RawFd,
    /// Whether its child is a keeper.
    pub keeper: bool,
    /// End of its drain: milliseconds of the monotonic clock; `None` as long as it serves.
    pub drains_until: Option<u64>,
    /// The processes.
    pub children: Vec<OldChild>,
    /// Bells to ring when the control words have changed.
    pub bells: Vec<RawFd>,
}

/// Worker or keeper of an earlier image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldChild {
    /// The process.
    pub pid: u32,
    /// The descriptor.
    pub fd: RawFd,
    /// First slot that it counts in.
    pub from: usize,
    /// First slot after those.
    pub to: usize,
}

impl OldChild {
    /// Describes a process with this descriptor and these slots.
    #[must_use]
    pub const fn new(pid: u32, fd: RawFd, slots: &Range<usize>) -> Self {
        Self { pid, fd, from: slots.start, to: slots.end }
    }
}

fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

impl Handover {
    /// Writes the handover into sealed memory for the next image: hand on its descriptor.
    ///
    /// # Errors
    /// No memory or descriptors left.
    pub fn write(&self) -> io::Result<OwnedFd> {
        sealed("regatta-handover", serde_json::to_string(self)?.as_bytes())
    }

    /// Reads the handover of the image before this one.
    ///
    /// # Errors
    /// A handover that cannot be read or understood.
    pub fn read(fd: OwnedFd) -> Result<Self, HandoverError> {
        Self::from_text(&read_sealed(fd, HANDOVER_BYTES_MAX).map_err(HandoverError::Memory)?)
    }

    /// Parses the handover of an image, perhaps of another build.
    ///
    /// # Errors
    /// A handover that cannot be understood.
    pub fn from_text(text: &[u8]) -> Result<Self, HandoverError> {
        /// Part that a handover of any format has.
        #[derive(Deserialize)]
        struct Any {
            format: u64,
        }
        match serde_json::from_slice(text).map_err(HandoverError::Malformed)? {
            Any { format: FORMAT } => {
                serde_json::from_slice(text).map_err(HandoverError::Malformed)
            }
            Any { format } => Err(HandoverError::Format(format)),
        }
    }
}

/// Reason why an image cannot continue the work of the image before it.
#[derive(Debug)]
pub enum HandoverError {
    /// A descriptor cannot be taken.
    Descriptor(io::Error),
    /// The memory of the handover cannot be read.
    Memory(io::Error),
    /// The text is no handover.
    Malformed(serde_json::Error),
    /// The format is not [`FORMAT`].
    Format(u64),
    /// The counters of a generation cannot be mapped.
    Map(u64, io::Error),
    /// The counters of a generation are not those of this build.
    Counters(u64, ArenaError),
    /// The number of an old worker is that of no process.
    NoProcess,
    /// This many descriptors have arrived from the trial, of the second number.
    Missing(usize, u64),
    /// The findings of the trial cannot be understood.
    Findings(io::Error),
}

/// Argument by which an image receives the handover.
pub(crate) const INHERIT: &str = "--inherit=";

/// Advice for a handover that cannot be understood.
const ANEW: &str = "stop the server and start this program, which cannot follow the other one";

impl fmt::Display for HandoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor(error) => write!(f, "--inherit: {error}"),
            Self::Memory(error) => write!(f, "no handover: {error}; {ANEW}"),
            Self::Malformed(error) => {
                write!(f, "the handover cannot be understood: {error}; {ANEW}")
            }
            Self::Format(format) => {
                write!(f, "the handover has format {format}, not {FORMAT}; {ANEW}")
            }
            Self::Map(number, error) => {
                write!(f, "cannot map the counters of generation {number}: {error}")
            }
            Self::Counters(number, error) => write!(
                f,
                "generation {number}: {error}; this program cannot follow that one: stop the \
                 server and start this program"
            ),
            Self::NoProcess => f.write_str("the handover has no process"),
            Self::Missing(arrived, total) => write!(
                f,
                "{arrived} of {total} descriptors have come from the trial: raise the limit on \
                 descriptors (ulimit -n, LimitNOFILE=)"
            ),
            Self::Findings(error) => write!(f, "what the trial has found: {error}"),
        }
    }
}

impl std::error::Error for HandoverError {}

impl From<HandoverError> for Failure {
    fn from(error: HandoverError) -> Self {
        Self::Work(WorkFault::Handover(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Handover {
        let listener = |fd| Listener { asked: "127.0.0.1:0".to_owned(), fd };
        let asked = "unix:/run/regatta.sock".to_owned();
        let path = "/etc/a.pem".to_owned();
        let certificate = CertificateId { path, valid_until: -1, soon_s: 0 };
        let children = [(4_000, 10, 0..2), (4_001, 11, 2..4)];
        let children = children.map(|(pid, fd, slots)| OldChild::new(pid, fd, &slots));
        Handover {
            format: FORMAT,
            report: Some(6),
            findings: Some(16),
            found: Some(vec![17, 18]),
            generation: 3,
            started_unix_ms: 1_700_000_000_000,
            program: "/usr/bin/regatta".into(),
            arguments: Some(vec!["regatta".to_owned(), "serve".to_owned()]),
            config: Some(ConfigText::File("[server]\nroot = \"/srv\"\n".to_owned())),
            reloads: [2, 5],
            root_reload: [4_000, 123_456],
            certificates: vec![certificate],
            asked: Some("upgrade".to_owned()),
            listeners: vec![listener(7), listener(8)],
            files: Some(vec![OpenSocketFile { path: "/run/regatta.sock".into(), fd: 19 }]),
            given: vec!["127.0.0.1:80".to_owned(), asked.clone()],
            rules: Some(21),
            clients: Some(ClientWords { layout: 1, fd: 20, seed: u64::MAX }),
            tickets: Some(TicketMemory { fd: 22, rotated_ms: 9_000, rotate_ms: Some(21_600_000) }),
            admin: Some(AdminProcess { asked, fd: 14, pid: Some(4_002), pidfd: Some(15) }),
            pid_file: Some("/run/regatta.pid".into()),
            old: vec![OldGeneration {
                number: 2,
                arena: 9,
                keeper: false,
                drains_until: Some(8_000),
                children: children.into(),
                bells: vec![12, 13],
            }],
        }
    }

    fn text(handover: &Handover) -> String {
        serde_json::to_string(handover).unwrap()
    }

    fn understood(text: &str) -> Result<Handover, HandoverError> {
        Handover::from_text(text.as_bytes())
    }

    #[test]
    fn what_is_handed_over_arrives() {
        let mut alone = some();
        alone.admin.iter_mut().for_each(|admin| (admin.pid, admin.pidfd) = (None, None));
        for handover in [some(), alone] {
            let memory = handover.write().expect("there is memory");
            assert_eq!(Handover::read(memory).expect("it is understood"), handover);
        }
    }

    /// A handover without sockets of the service manager, findings, files, ticket keys and
    /// certificates.
    #[test]
    fn an_earlier_build_is_understood() {
        let (given, files, findings, found, tickets) = (Vec::new(), None, None, None, None);
        let certificates = Vec::new();
        let without = Handover { given, files, findings, found, tickets, certificates, ..some() };
        let mut said: serde_json::Value = serde_json::from_str(&text(&some())).unwrap();
        for member in ["given", "files", "findings", "found", "tickets", "certificates"] {
            said.as_object_mut().unwrap().remove(member).expect("it is there");
        }
        assert_eq!(understood(&said.to_string()).expect("it is understood"), without);
        let bad = text(&some()).replacen("[\"127.0.0.1:80\"", "[80", 1);
        assert!(understood(&bad).is_err());
    }

    /// A later build may say more.
    #[test]
    fn members_that_are_not_known_are_passed_over() {
        let text = text(&some()).replacen('{', "{\"weather\": [1, {}], ", 1);
        assert_eq!(understood(&text).expect("it is understood"), some());
    }

    #[test]
    fn what_cannot_be_understood_is_refused_with_what_to_do() {
        let good = text(&some());
        let faults = [
            ("\"format\":1", "\"format\":2", "format 2"),
            ("\"fd\":7", "\"fd\":4294967296", "4294967296"),
            ("\"pid\":4000", "\"pid\":\"4000\"", "4000"),
            ("\"reloads\":[2,5]", "\"reloads\":[2]", "length 1"),
            ("\"keeper\":false", "\"keeper\":1", "boolean"),
            ("\"generation\":3,", "", "generation"),
        ];
        for (from, to, says) in faults {
            assert!(good.contains(from), "{from}: {good}");
            let said = understood(&good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(said.contains(says) && said.contains("stop the server"), "{said}");
        }
        for length in 0..good.len() {
            assert!(understood(&good[..length]).is_err());
        }
    }
}
