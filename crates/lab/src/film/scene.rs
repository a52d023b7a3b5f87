//! Scenes: files on a disk, and requests at fixed times.

use crate::experiment::{Experiment, Scale, Target, parse};
use crate::servers::process::sleep_until;
use crate::units::At;
use clap::ValueEnum;
use regatta_sys::clock;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Name of a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// A client asks for a file on a slow disk; just after it others ask for a file in memory.
    ColdFile,
}

/// A scene, which begins with the request for the cold file.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) name: &'static str,
    /// Environment of the servers, as an experiment has it.
    environment: &'static str,
    pub(super) lasts: Duration,
    /// Bytes of each of the two files.
    bytes: usize,
    /// Times after the request for the cold file at which others ask for the hot one.
    hot_after: [Duration; 3],
}

const COLD: &str = "cold.txt";
const HOT: &str = "hot.txt";
/// Requests for the hot file before the scene: it is in memory and in the server's cache then.
const WARM: usize = 3;
/// Longest wait for a response, or for a part of one.
const ANSWER_MAX: Duration = Duration::from_secs(10);

static COLD_FILE: Scene = Scene {
    name: "cold-file",
    environment: include_str!("cold-file.toml"),
    lasts: Duration::from_millis(1_000),
    bytes: 16_384,
    hot_after: [Duration::from_millis(20), Duration::from_millis(40), Duration::from_millis(60)],
};

/// Request with its response, as its client saw them. Times are the kernel's monotonic ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    name: &'static str,
    /// Before the client connected.
    from_ns: u64,
    /// After it had the whole response.
    to_ns: u64,
}

impl Answered {
    pub(super) fn seconds(&self) -> f64 {
        Duration::from_nanos(self.to_ns.saturating_sub(self.from_ns)).as_secs_f64()
    }

    /// The request as a film that began at `began_ns` has it.
    pub(super) fn in_film(&self, began_ns: u64) -> Value {
        let [from_ns, to_ns] = [self.from_ns, self.to_ns].map(|at| at.saturating_sub(began_ns));
        json!({ "name": format!("GET /{}", self.name), "from_ns": from_ns, "to_ns": to_ns })
    }
}

impl Scenario {
    pub(super) fn scene(self) -> &'static Scene {
        match self {
            Self::ColdFile => &COLD_FILE,
        }
    }
}

impl Scene {
    /// The environment of the scene, with these servers.
    pub(super) fn experiment(&self, targets: Vec<Target>) -> Experiment {
        let experiment = parse(self.name, self.environment, Scale::Quick);
        let experiment = experiment.expect("a test reads every scene");
        let baseline = targets.first().map(|target| target.name.clone()).unwrap_or_default();
        Experiment { baseline, targets, ..experiment }
    }

    /// Times of the requests for the hot file, in words.
    pub(super) fn words(&self) -> String {
        let [first, second, third] = self.hot_after.map(|after| after.as_millis());
        format!("{first}, {second} and {third} ms")
    }

    pub(super) fn write_files(&self, root: &Path) -> Result<(), String> {
        for name in [COLD, HOT] {
            let path = root.join(name);
            fs::write(&path, vec![b'.'; self.bytes]).at(&path)?;
        }
        Ok(())
    }

    /// Asks for the hot file until the server has it in memory.
    pub(super) fn warm(&self, address: SocketAddr) -> Result<(), String> {
        (0..WARM).try_for_each(|_| self.get(address, HOT).map(drop))
    }

    /// Sends the requests of the scene, each by a client of its own, and waits for the responses.
    /// The first is that for the cold file.
    pub(super) fn play(
        &self,
        address: SocketAddr,
        stop: &AtomicBool,
    ) -> Result<Vec<Answered>, String> {
        // The others follow from here on, however late this machine is.
        let (begin, cold) = (Instant::now(), SentRequest::send(address, COLD)?);
        let hot = |after: Duration| {
            sleep_until(begin + after, stop);
            self.get(address, HOT)
        };
        thread::scope(|scope| {
            let clients = self.hot_after.map(|after| scope.spawn(move || hot(after)));
            let cold = self.answered(&cold);
            let joined = |client: ScopedJoinHandle<'_, Result<Answered, String>>| {
                client.join().unwrap_or_else(|_| Err("a client has ended".to_owned()))
            };
            [cold].into_iter().chain(clients.map(joined)).collect()
        })
    }

    fn get(&self, address: SocketAddr, name: &'static str) -> Result<Answered, String> {
        self.answered(&SentRequest::send(address, name)?)
    }

    /// Receives a whole response.
    fn answered(&self, sent: &SentRequest) -> Result<Answered, String> {
        let SentRequest { name, from_ns, stream } = sent;
        let (mut stream, mut response) = (stream, Vec::new());
        let read = stream.read_to_end(&mut response);
        read.map_err(|error| format!("GET /{name}: {error}"))?;
        if response.starts_with(b"HTTP/1.1 200 ") && response.ends_with(&vec![b'.'; self.bytes]) {
            return Ok(Answered { name, from_ns: *from_ns, to_ns: clock::nanos() });
        }
        let head = response.split(|byte| *byte == b'\r').next().unwrap_or_default();
        Err(format!("GET /{name}: the server answered {:?}", String::from_utf8_lossy(head)))
    }
}

/// Request that has been sent.
#[derive(Debug)]
struct SentRequest {
    name: &'static str,
    /// Time before its client connected.
    from_ns: u64,
    stream: TcpStream,
}

impl SentRequest {
    fn send(address: SocketAddr, name: &'static str) -> Result<Self, String> {
        let from_ns = clock::nanos();
        let sent = TcpStream::connect(address).and_then(|mut stream| {
            stream.set_read_timeout(Some(ANSWER_MAX))?;
            let head = format!("GET /{name} HTTP/1.1\r\nHost: film\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes())?;
            Ok(stream)
        });
        let stream = sent.map_err(|error| format!("GET /{name}: {error}"))?;
        Ok(Self { name, from_ns, stream })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_is_read_and_has_time_for_its_requests() {
        for scenario in Scenario::value_variants() {
            let scene = scenario.scene();
            let experiment = scene.experiment(Vec::new());
            let disk = experiment.environment.disk.expect("a disk");
            let seek = Duration::from_secs_f64(disk.seek_ms / 1e3);
            assert!(scene.hot_after.iter().all(|after| *after < seek));
            assert!(2 * seek < scene.lasts, "{scene:?}");
            assert_eq!(scenario.to_possible_value().expect("a name").get_name(), scene.name);
        }
    }
}
