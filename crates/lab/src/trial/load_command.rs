//! The two halves of a trial. The server starts, is watched while a load is on, and ends. The load,
//! a command line of `regatta-lab load`, runs here or on another machine.

use super::{Bench, PATIENCE, said};
use crate::env::{self, Glance};
use crate::experiment::client::LoadNeeds;
use crate::experiment::{Client, Encryption, Loop, Machine, Program, RequestFields, Target};
use crate::group::INTERRUPTED;
use crate::machines::Far;
use crate::record::Cell;
use crate::servers::environments::Room;
use crate::servers::process::{Launch, Priority, Running, sleep_until};
use crate::servers::{self, Place, Server, Site};
use crate::units::{At, walk};
use crate::watch::perf::{Recorder, TAIL_S};
use crate::watch::{Counting, Samples, Seen, Watch, cores, workers};
use regatta_load::engine::Fate;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Directory next to a workload's `logs`: the same sessions without think times.
pub(crate) const NO_THINK: &str = "logs-without-think-times";
/// Parts of the warm-up: after each, the limit on memory follows what the server takes.
const WARM_PARTS: u32 = 8;
/// Time between looks for a load's announcement.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// Time to wait for requests in flight at a load's end, seconds.
const DRAIN_S: f64 = 0.5;

/// The log of a workload that was made from an access log.
pub(crate) fn log(workload: &Path) -> PathBuf {
    workload.join("asked.log")
}

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) model: Loop,
    pub(crate) rate: String,
    pub(crate) connections: u32,
    pub(crate) warm_s: f64,
    pub(crate) window_s: f64,
    pub(crate) seed: u64,
    pub(crate) without_think: bool,
    /// Path, if only one is asked for.
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
            // Calibrations for sessions do so, too: each session costs its making.
            (Loop::Closed, Loop::PartlyOpen) => {
                let requests = format!("{:.0}", self.requests_per_session);
                flag("--requests-per-connection", requests.into());
            }
            _ => {
                let requests = workload.requests_per_connection.to_string();
                flag("--requests-per-connection", requests.into());
            }
        }
        if let Some(idle) = workload.idle {
            flag("--idle", idle.to_string().into());
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
        // A workload compares unless told not to.
        let how = match (workload.verify && comparable, set.and(workload.preset.as_ref())) {
            (false, _) => "off".into(),
            (true, None) => self.root.clone().into(),
            (true, Some(_)) => "generated".into(),
        };
        flag("--verify", how);
        words.extend(["--json", "--announce", "--quiet"].map(OsString::from));
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

#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) arm: String,
    pub(super) target: Target,
    pub(super) options: BTreeMap<String, String>,
    pub(super) needs: LoadNeeds,
    /// Processors. Without any of the client, their distance is not measured.
    pub(super) machine: Machine,
    pub(super) counting: Counting,
    pub(super) warm_s: f64,
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
    pub(super) fn serve(&self, wanted: Wanted, cell: &Cell) -> Result<Served<'_>, String> {
        let host: IpAddr = self.far.map_or(Ipv4Addr::LOCALHOST.into(), Far::near);
        let (scratch, programs, stop) = (self.scratch.as_path(), self.programs, self.stop);
        let has_siblings = self.beside.is_some();
        let site = Site { scratch, programs, has_siblings, host, stop };
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

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.host())
    }

    /// Arguments of a load for its further addresses.
    pub(super) fn also(&self) -> Vec<OsString> {
        let flag = |address: &SocketAddr| ["--also".into(), address.to_string().into()];
        self.server.also.iter().flat_map(flag).collect()
    }

    /// Waits until a load says in its file `outcome` that it begins. False: it has ended.
    pub(super) fn wait_for_load(&self, load: &mut Running, outcome: &Path) -> Result<bool, String> {
        while fs::metadata(outcome).at(outcome)?.len() == 0 {
            if load.has_ended() {
                return Ok(false);
            }
            if !sleep_until(Instant::now() + BETWEEN_LOOKS, self.site.stop) {
                return Err(INTERRUPTED.to_owned());
            }
            self.room.make_up()?;
        }
        Ok(true)
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
        // The environment's share, taken on purpose, is not the server's.
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

/// Connections at a time for each process.
const CONNECTIONS_EACH: u64 = 2;
/// Connections at a time at least.
const CONNECTIONS_MIN: u64 = 8;
/// Requests of a connection: the next one may be another process's.
const REQUESTS_EACH: u32 = 100;
/// The longest time that a request takes on average.
const REQUEST_MAX: Duration = Duration::from_millis(2);

/// List of a workload's files, as a log of requests.
fn list_of(workload: &Path) -> PathBuf {
    workload.join("files.log")
}

/// Writes the files below `root` down as requests, unless that is done.
pub(crate) fn list_files(root: &Path, workload: &Path) -> Result<(), String> {
    let list = list_of(workload);
    if list.exists() {
        return Ok(());
    }
    let mut targets = Vec::new();
    walk(root, |path, kind| {
        let below = path.strip_prefix(root).ok().and_then(Path::to_str).filter(|_| kind.is_file());
        targets.extend(below.filter(|below| is_plain(below)).map(|below| format!("/{below}\n")));
        Ok(true)
    })?;
    targets.sort();
    fs::write(&list, targets.concat()).at(&list)
}

/// Whether a path stands in a request as it is.
fn is_plain(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte))
}

/// A load that warms a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WarmLoad {
    connections: u64,
    requests: u64,
}

impl WarmLoad {
    /// Sends `each` requests for each file and process.
    fn new(each: u32, files: u64, processes: u64) -> Self {
        Self {
            connections: (CONNECTIONS_EACH * processes).max(CONNECTIONS_MIN),
            requests: u64::from(each) * files * processes,
        }
    }
}

impl Bench<'_> {
    /// Asks every process of a server for every file, if that is wanted. Without a list of files
    /// it asks for `target`.
    pub(super) fn warm(
        &self,
        served: &Served<'_>,
        target: &str,
        machine: &Machine,
        [outcome, errors]: [&Path; 2],
    ) -> Result<(), String> {
        let each = self.experiment.measure.warm_requests;
        if each == 0 {
            return Ok(());
        }
        let list = self.workload.as_deref().map(list_of);
        let files = match &list {
            Some(list) => fs::read_to_string(list).at(list)?.lines().count() as u64,
            None => 1,
        };
        let load = WarmLoad::new(each, files, served.processes());
        let mut words: Vec<OsString> = vec![self.programs.lab.clone().into(), "load".into()];
        words.push(format!("{}{target}", served.url()).into());
        let mut flag = |name: &str, value: OsString| words.extend([name.into(), value]);
        flag("--closed", load.connections.to_string().into());
        flag("--count", load.requests.to_string().into());
        flag("--requests-per-connection", REQUESTS_EACH.to_string().into());
        if let Some(list) = list {
            flag("--requests-from", list.into());
        }
        words.extend(["--head", "--json", "--quiet"].map(OsString::from));
        words.extend(served.also());
        let requests = u32::try_from(load.requests).unwrap_or(u32::MAX);
        let limit = REQUEST_MAX.saturating_mul(requests) + PATIENCE;
        let code = self.start_load(words, machine, served, [outcome, errors])?;
        let found = said(outcome, errors, code.wait(limit, self.stop)?)?;
        match found.fates.get(Fate::Good) {
            0 => Err("not one good answer to a request that warms the caches".to_owned()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn every_process_is_asked_for_every_file() {
        for (each, files, processes, connections, requests) in [
            (20, 1_080, 1, 8, 21_600),
            (20, 1_080, 4, 8, 86_400),
            (20, 1_080, 40, 80, 864_000),
            (1, 1, 1, 8, 1),
        ] {
            let load = WarmLoad::new(each, files, processes);
            assert_eq!(load, WarmLoad { connections, requests }, "{processes} processes");
        }
    }

    #[test]
    fn the_list_has_each_file_that_a_request_can_name() {
        let place = Folder::new("lab-test");
        let (root, workload) = (place.join("root"), place.join("workload"));
        fs::create_dir_all(root.join("dir0")).unwrap();
        fs::create_dir_all(&workload).unwrap();
        for name in ["dir0/class1_2", "dir0/class0_1", "a b.html", "index.html", "x%41"] {
            fs::write(root.join(name), "x").unwrap();
        }
        list_files(&root, &workload).unwrap();
        let text = "/dir0/class0_1\n/dir0/class1_2\n/index.html\n";
        assert_eq!(fs::read_to_string(list_of(&workload)).unwrap(), text);
        fs::remove_file(root.join("index.html")).unwrap();
        list_files(&root, &workload).unwrap();
        assert_eq!(fs::read_to_string(list_of(&workload)).unwrap(), text, "written once");
    }
}
