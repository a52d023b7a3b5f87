//! The two halves of a trial. The server starts, is watched while a load is on, and ends. The load,
//! a command line of `regatta-lab load`, runs here or on another machine.

use super::Bench;
use crate::env::{self, Glance};
use crate::experiment::client::LoadNeeds;
use crate::experiment::{Client, Encryption, Loop, Machine, Program, RequestFields, Target};
use crate::group::INTERRUPTED;
use crate::machines::Far;
use crate::record::Cell;
use crate::servers::environments::Room;
use crate::servers::process::{Launch, Priority, Running};
use crate::servers::{self, Place, Server, Site};
use crate::watch::perf::{Recorder, TAIL_S};
use crate::watch::sample::Samples;
use crate::watch::{Counting, Seen, Watch, cores, workers};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Beside a workload's `logs`: the same sessions without think times.
pub(crate) const NO_THINK: &str = "logs-without-think-times";
/// Parts of the warm-up: after each, the limit on memory follows what the server takes.
const WARM_PARTS: u32 = 8;
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

/// Which server a trial measures, and how.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Its name in the results.
    pub(super) arm: String,
    pub(super) target: Target,
    /// What the cell's levels set.
    pub(super) options: BTreeMap<String, String>,
    pub(super) needs: LoadNeeds,
    /// Its processors. Without any of the client, how far apart they are is not measured.
    pub(super) machine: Machine,
    pub(super) counting: Counting,
    /// Before the measurement, seconds.
    pub(super) warm_s: f64,
    /// The measurement, seconds.
    pub(super) window_s: f64,
}

/// A server that is being measured. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Served<'a> {
    server: Server,
    wanted: Wanted,
    site: Site<'a>,
    room: Room,
    apart_ns: Option<f64>,
    stream_mbyte_per_s: Option<f64>,
    /// Processes that were killed for want of memory before it started.
    killed: Option<u64>,
    /// Connections that its listeners had dropped before its load.
    dropped: Option<u64>,
    seen: Seen,
    looks: [Option<Glance>; 2],
}

impl Bench<'_> {
    /// Starts a server in the place of a cell.
    pub(super) fn serve(&self, wanted: Wanted, cell: &Cell) -> Result<Served<'_>, String> {
        let host: IpAddr = self.far.map_or(Ipv4Addr::LOCALHOST.into(), Far::near);
        let (scratch, programs, stop) = (self.scratch.as_path(), self.programs, self.stop);
        let site = Site { scratch, programs, host, stop };
        Served::start(wanted, || self.rooms.enter(cell), site)
    }

    /// Starts a load of `served`, which prints into two files.
    pub(super) fn start_load(
        &self,
        words: Vec<OsString>,
        machine: &Machine,
        served: &Served<'_>,
        [out, errors]: [&Path; 2],
    ) -> Result<Running, String> {
        if let Some(far) = self.far {
            return Running::start(&Launch::plain(far.load(&words, machine), out, errors));
        }
        Running::start(&Launch {
            cpus: machine.load_cpus(),
            priority: Priority::Everything.if_asked(machine.realtime),
            inside: served.room.inside(env::Place::Client),
            ..Launch::plain(words, out, errors)
        })
    }
}

impl<'a> Served<'a> {
    /// Starts the server in the place that `enter` gives, and waits until it takes connections.
    fn start(
        wanted: Wanted,
        enter: impl FnOnce() -> Result<Room, String>,
        site: Site<'a>,
    ) -> Result<Self, String> {
        let machine = &wanted.machine;
        if machine.drop_caches {
            rustix::fs::sync();
            fs::write("/proc/sys/vm/drop_caches", "1")
                .map_err(|error| format!("cannot drop the page cache: {error}"))?;
        }
        let room = enter()?;
        let streaming = Some(&machine.server_cpus).filter(|_| wanted.counting.streaming);
        let stream_mbyte_per_s = streaming.and_then(|cpus| cores::mbyte_per_s(cpus));
        let killed = room.out_of_memory();
        let place = Place { room: &room, machine, needs: wanted.needs, site };
        let server = servers::start(&wanted.target, &wanted.options, &place)?;
        let apart_ns = cores::between(machine);
        let dropped = room.drops(&server.ports());
        let (seen, looks) = (Seen::default(), [None, None]);
        Ok(Self {
            server,
            wanted,
            site,
            room,
            apart_ns,
            stream_mbyte_per_s,
            killed,
            dropped,
            seen,
            looks,
        })
    }

    /// `HOST:PORT`.
    pub(super) fn host(&self) -> String {
        self.server.address.to_string()
    }

    /// Processes of the server that have caches of their own.
    pub(super) fn processes(&self) -> u64 {
        let pids = self.server.running.pids();
        let Target { program, .. } = &self.wanted.target;
        let workers = match (program, pids.first()) {
            (Program::Regatta, Some(pid)) => {
                workers(&servers::binary(&self.wanted.target, self.site.programs), *pid)
            }
            _ => None,
        };
        workers.unwrap_or(pids.len() as u64).max(1)
    }

    /// `HOST:PORT` that speaks TLS.
    pub(super) fn encrypted(&self) -> Option<String> {
        self.server.encrypted.map(|address| address.to_string())
    }

    /// `HOST:PORT` that speaks HTTP/2 in the clear.
    pub(super) fn clear_http2(&self) -> String {
        self.server.clear_http2.unwrap_or(self.server.address).to_string()
    }

    /// `http://HOST:PORT`.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.host())
    }

    /// What a load's command line says of its further addresses.
    pub(super) fn also(&self) -> Vec<OsString> {
        let flag = |address: &SocketAddr| ["--also".into(), address.to_string().into()];
        self.server.also.iter().flat_map(flag).collect()
    }

    /// Watches the server from the load's start, which is now, to the end of the measurement.
    pub(super) fn watch(&mut self, mut recorder: Option<&mut Recorder<'_>>) -> Result<(), String> {
        let (start, stop) = (Instant::now(), self.site.stop);
        let Wanted { target, counting, warm_s, .. } = &self.wanted;
        let seconds = Duration::from_secs_f64;
        let pids = || self.server.running.pids();
        let mut samples = Samples::start(pids(), start);
        for part in 0..=WARM_PARTS {
            let at = start + seconds(*warm_s * f64::from(part) / f64::from(WARM_PARTS));
            if !samples.sleep_until(at, stop, &mut |_| {}) {
                return Err(INTERRUPTED.to_owned());
            }
            self.room.make_up()?;
        }
        let window_s = self.wanted.window_s - recorder.as_ref().map_or(0.0, |_| TAIL_S);
        if let Some(recorder) = &mut recorder {
            recorder.start(&pids(), window_s);
        }
        let before = self.room.look();
        let now = pids();
        // Each build reads its own counters.
        let ours = (target.program == Program::Regatta)
            .then(|| servers::binary(target, self.site.programs));
        let mut watch = Watch::start(&now, ours.as_deref(), self.room.server_group(), *counting);
        samples.follow(now);
        let end = start + seconds(warm_s + window_s);
        if !samples.sleep_until(end, stop, &mut |used| watch.saw(used)) {
            return Err(INTERRUPTED.to_owned());
        }
        let mut seen = watch.stop(&pids(), &self.wanted.machine.server_cpus);
        let after = self.room.look();
        seen.seconds_sampled = samples.seconds;
        if let Some(recorder) = recorder {
            recorder.finish(&pids())?;
        }
        let drops = self.room.drops(&self.server.ports());
        seen.drops = drops.zip(self.dropped).map(|(now, before)| now.saturating_sub(before));
        (self.seen, self.looks) = (seen, [before, after]);
        Ok(())
    }

    /// Ends the server once its load has ended: what was seen of it.
    pub(super) fn end(self) -> Result<Seen, String> {
        let Self { mut server, wanted, room, killed, mut seen, looks: [before, after], .. } = self;
        let Target { program, config, .. } = &wanted.target;
        if !matches!(program, Program::Other(_)) {
            // A command may end processes as it likes, regatta helpers; its workers are counted.
            seen.gone = 0;
        }
        let poller = wanted.options.get("event.poller").or_else(|| config.get("event.poller"));
        seen.changes_are_calls = poller.is_none_or(|poller| poller.starts_with("epoll"));
        // What is the server's, and not the environment's on purpose.
        seen.leave_out(room.taken());
        seen.leave_out_load(wanted.machine.held());
        if room.stand_in.is_some() {
            seen.stand_in();
        }
        let grown = |now: u64| killed.map(|before| now.saturating_sub(before));
        seen.out_of_memory = room.out_of_memory().and_then(grown);
        if server.running.has_ended() {
            let killed = seen.out_of_memory.filter(|killed| *killed > 0);
            let why = killed.map_or("", |_| ": the kernel killed processes for want of memory");
            return Err(format!("{} ended in the middle{why}", wanted.arm));
        }
        // The server has nothing to do any more.
        seen.apart_ns = [self.apart_ns, cores::between(&wanted.machine)];
        drop(server);
        seen.environment = room.numbers(before, after)?;
        let streamed =
            self.stream_mbyte_per_s.map(|found| ("stream_mbyte_per_s".to_owned(), found));
        seen.environment.extend(streamed);
        room.leave()?;
        Ok(seen)
    }
}
