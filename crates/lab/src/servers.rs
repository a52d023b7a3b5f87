//! The programs that the lab starts as servers: how each is told what to serve and where.

use crate::env;
use crate::group::{INTERRUPTED, STEP};
use crate::process::{Launch, Priority, Running, output_of};
use crate::programs::{self, Sendfile, Serving};
use crate::rooms::Room;
use crate::spec::{Machine, Program, Target};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a server has to start.
const START_MAX: Duration = Duration::from_secs(15);

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Server {
    /// Its processes.
    pub(crate) running: Running,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Server {
    /// `http://HOST:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// What a server is to serve, and where its own files may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// Where it runs, with the directory that is served.
    pub(crate) room: &'a Room,
    /// Its own files.
    pub(crate) scratch: &'a Path,
    /// The regatta program.
    pub(crate) regatta: &'a Path,
    /// On which processors.
    pub(crate) machine: &'a Machine,
}

/// The program's file.
pub(crate) fn binary(target: &Target, regatta: &Path) -> PathBuf {
    let usual = || match &target.program {
        Program::Regatta | Program::Null => regatta.to_owned(),
        Program::Other(other) => {
            programs::find(other.program()).unwrap_or_else(|| other.program().into())
        }
        Program::Command(words) => words.first().map(PathBuf::from).unwrap_or_default(),
    };
    target.binary.as_ref().map_or_else(usual, PathBuf::from)
}

/// The program's own word for its version; None if it cannot be run.
pub(crate) fn version(target: &Target, regatta: &Path) -> Option<String> {
    let program = binary(target, regatta);
    match target.program {
        Program::Regatta | Program::Null => {
            let said = output_of(&[program.to_str()?, "--version"])?;
            said.lines().next().map(|line| line.trim().to_owned())
        }
        Program::Other(other) => other.version(&program),
        Program::Command(_) => Some("a command".to_owned()),
    }
}

/// Starts `target` with further options, and waits until it takes connections.
///
/// # Errors
/// Why it does not serve, in one sentence.
pub(crate) fn start(
    target: &Target,
    more: &BTreeMap<String, String>,
    place: &Place<'_>,
    stop: &AtomicBool,
) -> Result<Server, String> {
    let address = match place.room.address() {
        Some(address) => address,
        None => free_address()?,
    };
    let words = words(target, more, place, address)?;
    let (out, errors) = (place.scratch.join("server.out"), place.scratch.join("server.err"));
    let launch = Launch {
        words,
        cpus: &place.machine.server_cpus,
        priority: Priority::Ordinary.if_asked(place.machine.realtime),
        inside: place.room.inside(env::Place::Server),
        as_nobody: matches!(target.program, Program::Other(other) if other.as_nobody()),
        out: &out,
        errors: &errors,
    };
    let mut running = Running::start(&launch)?;
    let start = Instant::now();
    // Regatta listens before it forks; the others are asked until they answer.
    while !place.room.listens(address) {
        if stop.load(Ordering::Relaxed) {
            return Err(INTERRUPTED.to_owned());
        }
        if running.has_ended() || start.elapsed() > START_MAX {
            let said = fs::read_to_string(&errors).unwrap_or_default();
            let said = said.lines().last().unwrap_or("it said nothing").to_owned();
            return Err(format!("{} does not serve: {said}", target.name));
        }
        std::thread::sleep(STEP);
    }
    Ok(Server { running, address })
}

/// A port that nobody listens on now. Another program may take it before ours does; the trial is
/// then invalid and made again.
fn free_address() -> Result<SocketAddr, String> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    listener.local_addr().map_err(|error| error.to_string())
}

fn words(
    target: &Target,
    more: &BTreeMap<String, String>,
    place: &Place<'_>,
    address: SocketAddr,
) -> Result<Vec<OsString>, String> {
    let program = binary(target, place.regatta);
    let root = place.room.root.as_path();
    let at = address.to_string();
    let mut words = vec![program.clone().into_os_string()];
    let os = |word: &str| OsString::from(word);
    match &target.program {
        Program::Regatta => {
            words.extend([os("serve"), root.into(), os("--listen"), at.into()]);
            let mut config = target.config.clone();
            config.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
            let sets = config
                .iter()
                .flat_map(|(key, value)| [os("--set"), OsString::from(format!("{key}={value}"))]);
            words.extend(sets);
        }
        Program::Null => words.extend([os("null"), os("--listen"), at.into()]),
        Program::Command(given) => {
            let (host, port) = (address.ip().to_string(), address.port().to_string());
            let root = root.to_string_lossy();
            let fill = |word: &String| {
                let word = word.replace("{host}", &host).replace("{port}", &port);
                OsString::from(word.replace("{root}", &root))
            };
            words.extend(given.iter().skip(1).map(fill));
        }
        Program::Other(other) => {
            words = other.command(
                &program,
                &Serving {
                    address,
                    root,
                    scratch: place.scratch,
                    workers: place.machine.server_cpus.len().max(1),
                    sendfile: Sendfile::On,
                },
            )?;
        }
    }
    Ok(words)
}
