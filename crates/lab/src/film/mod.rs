//! `regatta-lab film`: a ready scene in several architectures, filmed and drawn on one page.

mod scene;

use crate::env::spec::{IN_PROCESS, STANDS_IN};
use crate::env::{Lack, lacks};
use crate::experiment::client::LoadNeeds;
use crate::experiment::{Experiment, Program, Rules, Target};
use crate::group::INTERRUPTED;
use crate::programs::OwnPrograms;
use crate::record::{Cell, Numbers};
use crate::servers::environments::Rooms;
use crate::servers::process::{Launch, Running, sleep_until};
use crate::servers::{self, Place, Server, Site, last_message};
use crate::terminal::{FAILED, Form, USAGE, Working, code, print, print_json, say};
use crate::units::At;
use crate::watch;
use clap::Args;
use regatta_sys::clock;
pub use scene::Scenario;
use scene::{Answered, Scene};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::fs::Permissions;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Option that names the architecture.
const ARCHITECTURE: &str = "server.architecture";
/// Option of every server that takes it: no second worker takes the requests behind the first.
const ONE_WORKER: (&str, &str) = ("event.processes", "1");
/// Time by which a command of the server's program may exceed its plan.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time between two checks whether a film has begun.
const STEP: Duration = Duration::from_millis(1);
/// Words of `regatta film` once it has begun.
const BEGUN: &str = "send requests now";

/// Options of `regatta-lab film`.
#[derive(Args, Clone, Debug)]
pub struct FilmOptions {
    /// Architectures, up to eight, by their names in `regatta architectures`.
    #[arg(required = true, value_name = "ARCH", num_args = 1..=8)]
    pub architectures: Vec<String>,
    /// The files, the disk and the requests.
    #[arg(long, value_enum, default_value = "cold-file")]
    pub scenario: Scenario,
    /// Write the page to this file.
    #[arg(long, value_name = "FILE", default_value = "film.html")]
    pub out: PathBuf,
    /// Film the installed `regatta` though its version differs from that of `regatta-lab`.
    #[arg(long)]
    pub any_version: bool,
    /// The server's program and the lab's.
    #[arg(skip)]
    pub programs: OwnPrograms,
    /// Rules of the server's program for its options.
    #[arg(skip)]
    pub rules: Rules,
    /// Format of the result.
    #[arg(skip = Form::Text)]
    pub form: Form,
}

/// Result of the command.
#[derive(Debug, Serialize)]
struct Films {
    scenario: &'static str,
    page: PathBuf,
    /// Label of films with a disk that the servers simulate themselves.
    label: Option<&'static str>,
    films: Vec<Shot>,
}

/// Film of an architecture.
#[derive(Debug, Serialize)]
struct Shot {
    architecture: String,
    /// Time of the response with the cold file, seconds.
    cold_s: f64,
    /// Times of the responses with the hot one.
    hot_s: Vec<f64>,
    /// Growth of the server's counters during the film.
    counters: Numbers,
    /// The scene, as `regatta film --json` prints it.
    film: Value,
}

impl Films {
    fn table(&self, scene: &Scene) -> String {
        let mut out = format!("{:16}{:>12}   hot file", "", "cold file");
        let _ = writeln!(out, ", asked for {} later", scene.words());
        for Shot { architecture, cold_s, hot_s, .. } in &self.films {
            let _ = write!(out, "{architecture:16}{cold_s:>10.4} s ");
            let hot: String = hot_s.iter().map(|hot| format!("{hot:>9.4} s")).collect();
            let _ = writeln!(out, "{hot}");
        }
        let _ = writeln!(out, "{}", self.page.display());
        out
    }
}

/// Directory that is removed when this is dropped.
#[derive(Debug)]
struct FilmFolder(PathBuf);

impl FilmFolder {
    fn make() -> Result<Self, String> {
        // Files of a temporary file system, as /tmp may be, would always be in memory.
        let all = std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
        // No other user has foreseen this name.
        let name = format!("regatta-film-{}-{}", std::process::id(), clock::nanos());
        let path = all.join(name);
        make_readable(&path)?;
        Ok(Self(path))
    }
}

/// Makes a directory that is not there. Servers that drop root's privileges read it; its owner
/// alone writes it.
fn make_readable(path: &Path) -> Result<(), String> {
    fs::create_dir(path).at(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755)).at(path)
}

impl Drop for FilmFolder {
    fn drop(&mut self) {
        // The message of what failed before matters more.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Films a scene in each architecture, and draws the page.
pub fn film(options: &FilmOptions, stop: &AtomicBool) -> u8 {
    code(try_film(options, stop))
}

fn try_film(options: &FilmOptions, stop: &AtomicBool) -> Result<u8, (u8, String)> {
    let failed = |why| (FAILED, why);
    let folder = options.out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let why = "no such directory for --out; make it first";
        return Err((FAILED, format!("{}: {why}", folder.display())));
    }
    let scene = options.scenario.scene();
    let targets = options.architectures.iter().map(|name| target(name, options.rules));
    let targets: Result<Vec<Target>, String> = targets.collect();
    let names = &options.architectures;
    if let Some(at) = (1..names.len()).find(|&at| names[..at].contains(&names[at])) {
        return Err((USAGE, format!("{} is named twice; name it once", names[at])));
    }
    let experiment = scene.experiment(targets.map_err(|why| (USAGE, why))?);
    let lacking: Vec<Lack> = experiment.specs().iter().flat_map(lacks).collect();
    let stand_in = lacking.iter().find(|lack| lack.has_stand_in());
    if let Some(lack) = lacking.first().filter(|_| stand_in.is_none()) {
        return Err((USAGE, format!("{} cannot be filmed here: {lack}", scene.name)));
    }
    let label = stand_in.map(|lack| {
        say(&format!("{IN_PROCESS}: {STANDS_IN}; a disk apart needs {}", lack.needs));
        IN_PROCESS
    });
    let working = Working::on("filming");
    let set = FilmSet::make(scene, &experiment, &lacking, options).map_err(failed)?;
    let films = set.films(stop).map_err(failed)?;
    drop(working);
    let films = Films { scenario: scene.name, page: options.out.clone(), label, films };
    Ok(match options.form {
        Form::Json => print_json(&films),
        Form::Text => print(&films.table(scene)),
    })
}

/// An architecture as a scene runs it.
fn target(name: &str, rules: Rules) -> Result<Target, String> {
    let config = BTreeMap::from([(ARCHITECTURE.to_owned(), name.to_owned())]);
    if let Some(why) = (rules.refused)(&config).first() {
        return Err(why.clone());
    }
    let mut alone = config.clone();
    alone.insert(ONE_WORKER.0.to_owned(), ONE_WORKER.1.to_owned());
    let config = if (rules.refused)(&alone).is_empty() { alone } else { config };
    Ok(Target { name: name.to_owned(), program: Program::Regatta, config, binary: None })
}

/// Place in which all films of a scene are made.
#[derive(Debug)]
struct FilmSet<'a> {
    scene: &'static Scene,
    experiment: &'a Experiment,
    options: &'a FilmOptions,
    rooms: Rooms<'a>,
    folder: FilmFolder,
}

impl<'a> FilmSet<'a> {
    fn make(
        scene: &'static Scene,
        experiment: &'a Experiment,
        lacking: &'a [Lack],
        options: &'a FilmOptions,
    ) -> Result<Self, String> {
        let folder = FilmFolder::make()?;
        let root = folder.0.join("site");
        for path in [&root, &folder.0.join("scratch")] {
            make_readable(path)?;
        }
        scene.write_files(&root)?;
        let rooms = Rooms::new(experiment, lacking, root, &folder.0)?;
        Ok(Self { scene, experiment, options, rooms, folder })
    }

    /// Makes all films, and draws the page.
    fn films(&self, stop: &AtomicBool) -> Result<Vec<Shot>, String> {
        self.rooms.build(stop)?;
        let targets = self.experiment.targets.iter();
        let shots: Vec<Shot> =
            targets.map(|target| self.shoot(target, stop)).collect::<Result<_, _>>()?;
        let kept = self.experiment.targets.iter().map(|target| self.kept(target).into());
        let out = ["--out".into(), self.options.out.clone().into()];
        match self.start(kept.chain(out))?.wait(PATIENCE, stop)? {
            Some(0) => Ok(shots),
            _ => Err(self.fault()),
        }
    }

    /// Starts a server, films the scene in it, and ends it.
    fn shoot(&self, target: &Target, stop: &AtomicBool) -> Result<Shot, String> {
        let levels = BTreeMap::new();
        let cell = Cell { arm: target.name.clone(), target: target.name.clone(), levels };
        let room = self.rooms.enter(&cell)?;
        let site = Site {
            scratch: &self.folder.0.join("scratch"),
            programs: &self.options.programs,
            has_siblings: false,
            host: Ipv4Addr::LOCALHOST.into(),
            stop,
        };
        let machine = &self.experiment.machine;
        let place = Place { room: &room, machine, needs: LoadNeeds::default(), site };
        let server = servers::start(target, &BTreeMap::new(), &place)?;
        let shot = self.record(target, &server, stop);
        drop(server);
        room.leave()?;
        shot.map_err(|why| format!("{}: {why}", target.name))
    }

    /// Films a server while it has the requests of the scene.
    fn record(&self, target: &Target, server: &Server, stop: &AtomicBool) -> Result<Shot, String> {
        let pid = *server.running.pids().first().ok_or("its process has ended")?;
        self.scene.warm(server.address)?;
        let regatta = &self.options.programs.regatta;
        let before = watch::counters_of(regatta, pid);
        let (lasts, kept) = (format!("{}ms", self.scene.lasts.as_millis()), self.kept(target));
        let words = ["--json", "--pid", &pid.to_string(), "--for", &lasts, "--out"];
        let words = words.map(OsString::from).into_iter().chain([kept.clone().into()]);
        let mut recorder = self.start(words)?;
        let begin = Instant::now();
        while !self.said().contains(BEGUN) {
            if recorder.has_ended() && !self.said().contains(BEGUN) {
                return Err(self.fault());
            }
            if begin.elapsed() > PATIENCE {
                return Err(format!("the film has not begun after {} s", PATIENCE.as_secs()));
            }
            if !sleep_until(Instant::now() + STEP, stop) {
                return Err(INTERRUPTED.to_owned());
            }
        }
        let answered = self.scene.play(server.address, stop)?;
        if recorder.wait(self.scene.lasts + PATIENCE, stop)? != Some(0) {
            return Err(self.fault());
        }
        let counters = watch::grown(&before, &watch::counters_of(regatta, pid));
        let mut film: Value = serde_json::from_slice(&fs::read(&kept).at(&kept)?).at(&kept)?;
        let began_ns = film["began_ns"].as_u64().unwrap_or_default();
        film["clients"] = answered.iter().map(|one| one.in_film(began_ns)).collect();
        fs::write(&kept, film.to_string()).at(&kept)?;
        let mut times = answered.iter().map(Answered::seconds);
        let (architecture, cold_s) = (target.name.clone(), times.next().unwrap_or_default());
        if cold_s < self.seek_s() {
            return Err(
                "the cold file was in memory; set TMPDIR to a directory on a disk".to_owned()
            );
        }
        Ok(Shot { architecture, cold_s, hot_s: times.collect(), counters, film })
    }

    /// Time of the disk for a file, seconds.
    fn seek_s(&self) -> f64 {
        let disks = self.experiment.specs().into_iter().filter_map(|spec| spec.disk);
        disks.map(|disk| disk.seek_ms / 1e3).fold(0.0, f64::max)
    }

    /// File of an architecture's film.
    fn kept(&self, target: &Target) -> PathBuf {
        self.folder.0.join(format!("{}.json", target.name))
    }

    /// Starts `regatta film`.
    fn start(&self, words: impl Iterator<Item = OsString>) -> Result<Running, String> {
        let program = self.options.programs.regatta.clone();
        let words = [program.into(), OsString::from("film")].into_iter().chain(words).collect();
        Running::start(&Launch::plain(words, Path::new("/dev/null"), &self.messages()))
    }

    /// Messages of the last `regatta film`.
    fn said(&self) -> String {
        fs::read_to_string(self.messages()).unwrap_or_default()
    }

    fn fault(&self) -> String {
        last_message(&self.said()).trim_start_matches("regatta: ").to_owned()
    }

    fn messages(&self) -> PathBuf {
        self.folder.0.join("film.err")
    }
}
