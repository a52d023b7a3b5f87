//! `regatta film`: what each unit of a running server does for which connection, for a moment.
//!
//! The server writes records into shared memory while a word there says so. No request is sent to
//! it. A scene is what is drawn from the records; it can be kept as JSON, and several can be drawn
//! on one page.
mod scene;
#[cfg(test)]
mod tests;
mod trace;

use crate::{Failure, UsageFault, WorkFault, top};
use regatta_metrics::{FilmReader, FilmThread};
use regatta_sys::clock;
use scene::{Footage, Scene};
use serde_json::json;
use std::{
    collections::BTreeSet,
    fmt, fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// The page, without its scenes.
const PAGE: &str = include_str!("../assets/film.html");
/// Place of the scenes in the page.
const SCENES: &str = "/*scenes*/";
/// Time between two readings. A ring has room for 4096 records.
const STEP: Duration = Duration::from_millis(2);
/// Records after which a film ends: a scene needs far fewer.
const RECORDS_MAX: usize = 1_000_000;
/// Largest file with a scene, bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Most scenes on a page.
const SCENES_MAX: usize = 8;

/// Form of what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilmForm {
    /// A page for browsers that needs nothing else.
    Page,
    /// The scene, with its records.
    Json,
    /// Events of Chrome's trace viewer, which Perfetto reads too.
    TraceEvent,
}

/// Options of `regatta film`.
#[derive(Clone, Debug)]
pub struct FilmOptions {
    /// Server: its master's process identifier, or a worker's. `None`: the only one that runs.
    pub pid: Option<u32>,
    /// Length.
    pub lasts: Duration,
    /// Connections to show, by their numbers in the film; empty: all.
    pub connections: BTreeSet<u32>,
    /// Scenes that were kept, to be drawn instead of a running server.
    pub files: Vec<PathBuf>,
    /// Form of the result.
    pub form: FilmForm,
}

/// Fault in the words of a command, or in a file that it names.
#[derive(Debug)]
pub enum FilmFault {
    /// More scenes than a page shows.
    Scenes(usize),
    /// The file cannot be read.
    Unread(PathBuf, io::Error),
    /// The file has no scene.
    NoScene(PathBuf, String),
}

impl fmt::Display for FilmFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenes(count) => {
                write!(f, "{count} films are too many for a page: name at most {SCENES_MAX}")
            }
            Self::Unread(path, error) => write!(f, "{}: {error}", path.display()),
            Self::NoScene(path, why) => {
                write!(f, "{}: not a film: {why}; `regatta film --json` prints one", path.display())
            }
        }
    }
}

/// Makes a film of a running server, or reads some, and returns the text to write.
///
/// `begun` is called with the server's process once all that it does is recorded.
///
/// # Errors
/// There is no such server, another film is being made, or a file has none.
pub fn film(options: &FilmOptions, begun: impl FnOnce(u32)) -> Result<String, Failure> {
    let mut scenes = match &*options.files {
        [] => vec![Scene::of(&shoot(options, begun)?)],
        files if files.len() > SCENES_MAX => {
            return Err(usage(FilmFault::Scenes(files.len())));
        }
        files => files.iter().map(|path| read(path)).collect::<Result<_, _>>().map_err(usage)?,
    };
    if !options.connections.is_empty() {
        scenes.iter_mut().for_each(|scene| scene.keep(&options.connections));
    }
    Ok(match options.form {
        FilmForm::Page => page(scenes),
        FilmForm::Json => lines(&scenes),
        FilmForm::TraceEvent => trace::text(&scenes),
    })
}

fn usage(fault: FilmFault) -> Failure {
    Failure::Usage(UsageFault::Film(fault))
}

/// Films a running server.
fn shoot(options: &FilmOptions, begun: impl FnOnce(u32)) -> Result<Footage, Failure> {
    let server = top::attach_to_film(options.pid)?;
    let lasts_ns = u64::try_from(options.lasts.as_nanos()).unwrap_or(u64::MAX);
    let begin = clock::nanos();
    if !server.memory.lock().map_err(Failure::system("cannot lock the memory of films"))? {
        let left = Duration::from_nanos(server.film.left_ns(begin));
        return Err(Failure::Work(WorkFault::Filmed(server.pid, left)));
    }
    server.film.begin(begin, lasts_ns);
    let mut reader = FilmReader::new(server.film);
    let mut begun = Some(begun);
    while clock::nanos() - begin < lasts_ns && reader.records() < RECORDS_MAX {
        // A thread that was still in the film before may have cleared a mark.
        for slot in server.arena.slots().filter(|slot| !slot.is_filmed()) {
            slot.set_filmed(true);
        }
        if let Some(begun) = begun.take() {
            begun(server.pid);
        }
        thread::sleep(STEP.min(options.lasts));
        reader.read();
    }
    server.arena.slots().for_each(|slot| slot.set_filmed(false));
    server.film.end();
    reader.read();
    Ok(Footage {
        architecture: server.arena.architecture(),
        pid: server.pid,
        began_ns: begin,
        lasts_ns: lasts_ns.min(clock::nanos() - begin),
        threads_left_out: reader.threads_left_out(),
        threads: reader.into_threads(),
    })
}

/// Reads a scene that was kept.
fn read(path: &Path) -> Result<Scene, FilmFault> {
    let unread = |error| FilmFault::Unread(path.to_path_buf(), error);
    if fs::metadata(path).map_err(unread)?.len() > FILE_BYTES_MAX {
        let why = format!("it has more than {FILE_BYTES_MAX} bytes");
        return Err(FilmFault::NoScene(path.to_path_buf(), why));
    }
    let text = fs::read(path).map_err(unread)?;
    let no_scene = |why: String| FilmFault::NoScene(path.to_path_buf(), why);
    let scene: Scene =
        serde_json::from_slice(&text).map_err(|error| no_scene(error.to_string()))?;
    scene.check().map_err(|why| no_scene(why.to_owned()))?;
    Ok(scene)
}

/// The page with scenes. Their records are left out: they say nothing that the rest does not.
fn page(mut scenes: Vec<Scene>) -> String {
    scenes.iter_mut().for_each(|scene| scene.records.clear());
    // In a script markup means nothing but its end, and a comment.
    let data = lines(&scenes).trim_end().replace('\n', ",").replace('<', "\\u003c");
    PAGE.replacen(SCENES, &data, 1)
}

/// Scenes as JSON, one in a line.
fn lines(scenes: &[Scene]) -> String {
    scenes.iter().map(|scene| format!("{}\n", json!(scene))).collect()
}
