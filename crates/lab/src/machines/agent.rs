//! The far side: `regatta-lab lab agent` starts servers and loads on its machine, watches them
//! there, and says what it saw. It, what it started and its directory are gone when its input ends,
//! or when nothing has come for a while.

use super::ask::{Addresses, Ask, Asked, LINE_BYTES_MAX, Load, Met, Ran, Said};
use super::files;
use super::served::{Served, Wanted};
use crate::journal::manifest::{self, Manifest};
use crate::programs::OwnPrograms;
use crate::servers::environments::Room;
use crate::servers::process::{Launch, Priority, Running};
use crate::servers::{Site, make_open};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::{Value, to_value};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Without a word for so long, the other side is taken for gone. It speaks every five seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How often it is looked whether to stop.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long a connection to the other machine may take.
const REACH_MAX: Duration = Duration::from_secs(5);
/// Connections of which the fastest is the round trip.
const REACHES: usize = 10;

/// Answers on standard output what is asked on standard input, until that ends; then removes
/// `directory`, in which it and all its files are.
///
/// # Errors
/// That it was not started by a lab, or that the other side cannot be answered.
pub fn run(directory: &Path, lab: &Path, stop: &AtomicBool) -> Result<(), String> {
    let named = |error: io::Error| format!("{}: {error}", directory.display());
    let directory = fs::canonicalize(directory).map_err(named)?;
    let programs = OwnPrograms::in_directory(&directory);
    if programs.lab != lab {
        return Err("is started by `regatta lab run --server` or `--load` on the other machine, \
                    in a directory that it removes"
            .to_owned());
    }
    let input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(named)?);
    let scratch = directory.join("scratch");
    let (lines, heard) = channel();
    let answered = thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, || listen(input, lines, stop)).map_err(named)?;
        let answered = make_open(&scratch).and_then(|()| {
            let (directory, scratch, programs) = (&*directory, &*scratch, &programs);
            Agent { directory, scratch, programs, stop, served: None, listener: None }
                .answer(&heard)
        });
        stop.store(true, Ordering::Relaxed);
        answered
    });
    let removed = fs::remove_dir_all(&directory).map_err(named);
    answered.and(removed)
}

/// Passes on the lines of `input` until it ends or falls silent; then says to stop.
fn listen(mut input: File, lines: Sender<String>, stop: &AtomicBool) {
    let (mut heard, mut text) = (Instant::now(), Vec::new());
    let mut chunk = vec![0; 64 << 10];
    while !stop.load(Ordering::Relaxed) && heard.elapsed() < SILENCE_MAX {
        if matches!(poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&LOOK)), Ok(0)) {
            continue;
        }
        let read = match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        heard = Instant::now();
        text.extend_from_slice(&chunk[..read]);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let _ = lines.send(String::from_utf8_lossy(&line).into_owned());
        }
        if text.len() > LINE_BYTES_MAX {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
}

/// What it has to say of a server that was not started.
const NOTHING: &str = "no server has been started";

struct Agent<'a> {
    directory: &'a Path,
    scratch: &'a Path,
    programs: &'a OwnPrograms,
    stop: &'a AtomicBool,
    served: Option<Served<'a>>,
    listener: Option<TcpListener>,
}

impl Agent<'_> {
    fn answer(mut self, lines: &Receiver<String>) -> Result<(), String> {
        loop {
            let line = match lines.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) if !self.stop.load(Ordering::Relaxed) => continue,
                Err(_) => return Ok(()),
            };
            // An empty one says that the other side is there.
            if line.trim().is_empty() {
                continue;
            }
            let asked: Asked = serde_json::from_str(&line).map_err(|error| error.to_string())?;
            let said = Said { number: asked.number, answer: self.one(asked.ask) };
            let mut text = serde_json::to_string(&said).map_err(|error| error.to_string())?;
            text.push('\n');
            let mut out = io::stdout().lock();
            let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            written.map_err(|error| error.to_string())?;
        }
    }

    fn one(&mut self, ask: Ask) -> Result<Value, String> {
        self.listener = None;
        match ask {
            Ask::Meet => value(&Met {
                sha256: self.programs.each().map(|(_, path)| manifest::sha256(path)),
                machine: manifest::machine(),
                addresses: addresses(),
            }),
            Ask::Hash(path) => value(&files::hash(&self.directory.join(path), None)?),
            Ask::Listen(address) => {
                let bound = TcpListener::bind((address, 0));
                let listener = bound.map_err(|error| format!("{address}: {error}"))?;
                let at = listener.local_addr().map_err(|error| error.to_string())?;
                self.listener = Some(listener);
                value(&at)
            }
            Ask::Reach(address) => value(&reach(address)?),
            Ask::Look(experiment, scale) => {
                value(&Manifest::take(&experiment, scale, self.programs))
            }
            Ask::Serve(wanted) => self.serve(*wanted).and_then(|addresses| value(&addresses)),
            Ask::Watch => {
                self.served.as_mut().ok_or(NOTHING)?.watch(None)?;
                Ok(Value::Null)
            }
            Ask::End => value(&self.served.take().ok_or(NOTHING)?.end()?),
            Ask::Load(load) => self.load(load).and_then(|ran| value(&ran)),
        }
    }

    fn serve(&mut self, wanted: Wanted) -> Result<Addresses, String> {
        // Two at a time would be in each other's way.
        self.served = None;
        let host = addresses().map_or(Ipv4Addr::LOCALHOST.into(), |[_, own]| own);
        let Self { scratch, programs, stop, .. } = *self;
        let room = || Ok(Room::plain(self.directory.join("root")));
        let served = Served::start(wanted, room, Site { scratch, programs, host, stop })?;
        let found = (served.server.address, served.server.also.clone());
        self.served = Some(served);
        Ok(found)
    }

    fn load(&self, load: Load) -> Result<Ran, String> {
        let [out, errors] = ["load.json", "load.err"].map(|name| self.scratch.join(name));
        let running = Running::start(&Launch {
            cpus: &load.cpus,
            priority: Priority::Everything.if_asked(load.realtime),
            ..Launch::plain(load.words, &out, &errors)
        })?;
        let limit = Duration::try_from_secs_f64(load.seconds_max);
        let limit = limit.map_err(|error| error.to_string())?;
        let code = running.wait(limit, self.stop)?;
        let [out, errors] = [out, errors].map(|path| fs::read_to_string(path).unwrap_or_default());
        Ok(Ran { code, out, errors })
    }
}

fn value(of: &impl Serialize) -> Result<Value, String> {
    to_value(of).map_err(|error| error.to_string())
}

/// The other side's address and ours, as sshd has them (ssh(1), SSH_CONNECTION).
fn addresses() -> Option<[IpAddr; 2]> {
    let said = std::env::var("SSH_CONNECTION").ok()?;
    let words: Vec<&str> = said.split(' ').collect();
    Some([words.first()?.parse().ok()?, words.get(2)?.parse().ok()?])
}

/// How long a connection to an address takes, nanoseconds: a round trip on this machine's clock.
pub(super) fn reach(address: SocketAddr) -> Result<f64, String> {
    let mut shortest = f64::INFINITY;
    for _ in 0..REACHES {
        let start = Instant::now();
        TcpStream::connect_timeout(&address, REACH_MAX)
            .map_err(|error| format!("{address} cannot be reached: {error}"))?;
        shortest = shortest.min(1e9 * start.elapsed().as_secs_f64());
    }
    Ok(shortest)
}
