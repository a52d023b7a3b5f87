//! `regatta precompress`: makes the siblings `.br`, `.zst` and `.gz` of a site's files.
//!
//! The program of each coding compresses. A sibling has the time, the mode and the owner of its
//! file: by its time a later run sees whether it is of that file as it is.
use crate::{
    Failure,
    config::raw::{Problem, Said},
    media::Types,
};
use regatta_origin::{MediaTypes as _, is_compressed};
use regatta_sys::guarded::{Spot, is_left_behind};
use std::{
    collections::BTreeSet,
    fs::{self, File, Metadata},
    io::{self, Seek},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

/// Below this the fields of a response outweigh what is saved.
const FILE_BYTES_MIN: u64 = 512;
/// Larger files are left alone: what is made of them is held in memory.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The most that a sibling may have of its file's bytes.
const PERCENT_MAX: u64 = 95;
/// How much older than its file a sibling may be: a checkout writes files in any order.
const STALE_S_MIN: i64 = 60;

/// The suffix of a coding, its program, and the words with which that compresses standard input.
type Coding = (&'static str, &'static str, &'static [&'static str]);

/// The fastest first: what it does not make smaller, the others are not tried on.
const CODINGS: [Coding; 3] = [
    ("gz", "gzip", &["-9", "-n", "-c"]),
    ("zst", "zstd", &["-19", "-q", "-c"]),
    ("br", "brotli", &["-q", "11", "-c"]),
];

/// What has been done, in numbers of siblings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Made, for the first time or anew.
    pub written: u64,
    /// Left alone: they are of their file as it is.
    pub current: u64,
    /// Not kept, because they would save too little.
    pub useless: u64,
    /// Removed: they were older than their file, which is not worth one any more.
    pub removed: u64,
}

impl Done {
    /// In a line, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { written, current, useless, removed } = self;
        format!(
            "siblings: {written} written, {current} up to date, {removed} removed, \
             {useless} not kept because they save less than {} %\n",
            100 - PERCENT_MAX
        )
    }

    /// For programs: a JSON object.
    #[must_use]
    pub fn json(&self) -> String {
        let Self { written, current, useless, removed } = self;
        let object = serde_json::json!({
            "written": written, "up_to_date": current, "not_kept": useless, "removed": removed,
        });
        format!("{object}\n")
    }
}

/// Makes the siblings with these suffixes that are missing or stale, below a directory. Hidden
/// files, symbolic links, and types for which the server looks for no sibling, are left alone; but
/// what a run that was killed has left behind is removed, once it is some minutes old.
///
/// # Errors
/// A program is missing, or a file cannot be read or written: what was made until then is complete.
pub fn run(directory: &Path, suffixes: &[String]) -> Result<Done, Failure> {
    run_at(SystemTime::now(), directory, suffixes)
}

fn run_at(now: SystemTime, directory: &Path, suffixes: &[String]) -> Result<Done, Failure> {
    let types = Types::new(&[]).expect("there is none to be wrong");
    let mut done = Done::default();
    let Below { files, left_behind } = below(directory, now).map_err(Failure::Work)?;
    for path in left_behind {
        // It may be another run that removes it.
        let _ = fs::remove_file(path);
    }
    for path in files {
        let media_type = types.media_type(path.as_os_str().as_bytes());
        if original(&path).is_none() && !media_type.is_some_and(is_compressed) {
            make(&path, suffixes, &mut done)
                .map_err(|error| Failure::Work(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(done)
}

/// Warnings if siblings are older than their files, in whose place they are sent: one for a root.
pub(crate) fn stale(said: &Said) -> Vec<Problem> {
    let mut roots = BTreeSet::new();
    let all = std::iter::once(said).chain(&said.hosts);
    let each = all.filter(|said| roots.insert(said.settings.text("server.root")));
    each.filter_map(stale_at_root).collect()
}

fn stale_at_root(said: &Said) -> Option<Problem> {
    let key = "content.precompressed";
    if !said.settings.flag(key) {
        return None;
    }
    let root = said.settings.text("server.root");
    let is_stale = |sibling: &PathBuf| {
        let modified = |path: &Path| path.metadata().ok().map(|found| found.mtime());
        let of = original(sibling).and_then(|file| modified(&file));
        of.zip(modified(sibling)).is_some_and(|(file, made)| file >= made + STALE_S_MIN)
    };
    let files = below(Path::new(root), SystemTime::now()).ok()?.files;
    let stale: Vec<_> = files.into_iter().filter(is_stale).collect();
    let message = match &*stale {
        [] => return None,
        [one] => format!("{} is older than its file, and is sent all the same", one.display()),
        [one, ..] => {
            let (one, all) = (one.display(), stale.len());
            format!("{all} files, as {one}, are older than theirs, and are sent all the same")
        }
    };
    Some(said.problem(key, &message).hint(format!("regatta precompress {root}")))
}

/// Makes the siblings of one file.
fn make(path: &Path, suffixes: &[String], done: &mut Done) -> io::Result<()> {
    // What was a file may be a link or a pipe by now.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = File::options().read(true).custom_flags(flags).open(path)?;
    let of = file.metadata()?;
    let mut is_worth = of.is_file() && (FILE_BYTES_MIN..=FILE_BYTES_MAX).contains(&of.len());
    for coding in CODINGS.iter().filter(|(suffix, ..)| suffixes.iter().any(|one| one == suffix)) {
        let mut sibling = path.as_os_str().to_owned();
        sibling.push(".");
        sibling.push(coding.0);
        let sibling = Path::new(&sibling);
        let there = match sibling.symlink_metadata() {
            // Nothing can be called so.
            Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => continue,
            there => there.ok(),
        };
        // No program makes an empty one, but a power failure may.
        let is_current = |there: &Metadata| there.len() > 0 && time(there) == time(&of);
        if is_worth && there.as_ref().is_some_and(is_current) {
            done.current += 1;
            continue;
        }
        if is_worth {
            let bytes = compressed(&mut file, coding)?;
            if time(&file.metadata()?) != time(&of) {
                return Err(io::Error::other("it changes: run the command again"));
            }
            is_worth = bytes.len() as u64 * 100 <= of.len() * PERCENT_MAX;
            if is_worth {
                Spot::find(sibling)?.replace(&bytes, Some(&of))?;
                done.written += 1;
                continue;
            }
            done.useless += 1;
        }
        // It would be sent in the place of the file as it is now.
        if there.is_some_and(|there| time(&there) < time(&of)) {
            fs::remove_file(sibling)?;
            done.removed += 1;
        }
    }
    Ok(())
}

fn compressed(file: &mut File, (suffix, program, words): &Coding) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut command = Command::new(program);
    command.args(*words).stdin(file.try_clone()?).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(format!(
            "needs {program} (apt-get install {program}), or leave {suffix} out of --codings"
        )),
        _ => io::Error::other(format!("cannot run {program}: {error}")),
    })?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(io::Error::other(format!("{program} failed: {}", output.status))),
    }
}

fn time(of: &Metadata) -> (i64, i64) {
    (of.mtime(), of.mtime_nsec())
}

/// The file that a sibling is of, by its name.
fn original(path: &Path) -> Option<PathBuf> {
    let suffix = path.extension()?;
    CODINGS.iter().any(|(known, ..)| suffix == *known).then(|| path.with_extension(""))
}

/// The regular files below a directory.
#[derive(Default)]
struct Below {
    /// Those that are not hidden.
    files: Vec<PathBuf>,
    /// Siblings that were being written by a process that is gone.
    left_behind: Vec<PathBuf>,
}

fn below(directory: &Path, now: SystemTime) -> Result<Below, String> {
    let (mut found, mut directories) = (Below::default(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        let fault = |error: io::Error| format!("{}: {error}", directory.display());
        for entry in fs::read_dir(&directory).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let kind = entry.file_type().map_err(fault)?;
            let name = entry.file_name();
            // It may be gone by now.
            let is_left = || entry.metadata().is_ok_and(|file| is_left_behind(&name, &file, now));
            match name.as_bytes() {
                [b'.', ..] if kind.is_file() && is_left() => found.left_behind.push(entry.path()),
                [b'.', ..] => {}
                _ if kind.is_dir() => directories.push(entry.path()),
                _ if kind.is_file() => found.files.push(entry.path()),
                _ => {}
            }
        }
    }
    found.files.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::raw::{Arguments, FileText, read},
        folder::Folder,
    };
    use std::{os::unix::fs::PermissionsExt, time::Duration};

    /// A directory of our own that goes away with this.
    struct Site(Folder);

    impl Site {
        fn new(name: &str) -> Self {
            let root = Folder::new(&format!("precompress-{name}"));
            fs::create_dir(root.join("a")).expect("a directory of our own");
            Self(root)
        }

        /// Writes a file that was modified so many seconds ago.
        fn put(&self, name: &str, bytes: &[u8], age_s: u64) {
            let path = self.0.join(name);
            fs::write(&path, bytes).expect("ours");
            let file = File::options().write(true).open(path).expect("ours");
            file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).expect("ours");
        }

        /// Runs with gzip alone, which is everywhere.
        fn run(&self) -> [u64; 4] {
            self.run_at(SystemTime::now())
        }

        fn run_at(&self, now: SystemTime) -> [u64; 4] {
            let Done { written, current, useless, removed } =
                run_at(now, &self.0, &["gz".to_owned()]).expect("gzip is there");
            [written, current, useless, removed]
        }
    }

    /// Bytes that nothing makes smaller.
    fn noise() -> Vec<u8> {
        let mut state = 1_u64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        (0..4096).map(next).collect()
    }

    #[test]
    fn siblings_are_made_once_and_again_when_their_file_changes() {
        let site = Site::new("once");
        let text = b"all work and no play ".repeat(100);
        site.put("a/page.html", &text, 100);
        site.put("small.html", &[b'x'; 511], 100);
        site.put("photo.jpg", &[b'x'; 4096], 100);
        site.put("noise.bin", &noise(), 100);
        site.put("archive.tar.gz", &[b'x'; 4096], 100);
        site.put(".hidden.html", &[b'x'; 4096], 100);
        let page = site.0.join("a/page.html");
        fs::set_permissions(&page, fs::Permissions::from_mode(0o640)).expect("ours");
        assert_eq!(site.run(), [1, 0, 1, 0]);
        let sibling = site.0.join("a/page.html.gz");
        let (file, made) = (page.metadata().expect("there"), sibling.metadata().expect("made"));
        assert_eq!((time(&file), file.mode()), (time(&made), made.mode()));
        let unpacked = Command::new("gzip").args(["-d", "-c"]).arg(&sibling).output();
        assert_eq!(unpacked.expect("gzip is there").stdout, text);
        assert_eq!(site.run(), [0, 1, 1, 0]);
        // An older file too: a release that is taken back.
        site.put("a/page.html", &text, 200);
        assert_eq!(site.run(), [1, 0, 1, 0]);
        site.put("a/page.html", b"short", 50);
        assert_eq!(site.run(), [0, 0, 1, 1]);
        assert!(!sibling.exists());
    }

    #[test]
    fn names_may_be_as_long_as_names_can_be() {
        let site = Site::new("long");
        let text = b"all work and no play ".repeat(100);
        // Behind the second no suffix has room.
        for letters in [247, 248] {
            site.put(&format!("{}.html", "x".repeat(letters)), &text, 100);
        }
        assert_eq!(site.run(), [1, 0, 0, 0]);
        assert_eq!(site.run(), [0, 1, 0, 0]);
    }

    #[test]
    fn what_a_run_that_was_killed_has_left_behind_is_removed() {
        let site = Site::new("killed");
        // No process has a number above 2^22 (proc(5)), and one is here.
        let running = format!("a/.regatta-new-{}-0123456789abcdef", std::process::id());
        let [left, others] = ["a/.regatta-new-4194305-0123456789abcdef", "a/.regatta-new-4194305"];
        for name in [left, others, &running] {
            site.put(name, b"half of it", 100);
        }
        let is_there = || [left, others, &*running].map(|name| site.0.join(name).exists());
        // Another container's process may have the number, and be writing.
        assert_eq!((site.run(), is_there()), ([0; 4], [true; 3]));
        let later = SystemTime::now() + Duration::from_secs(600);
        assert_eq!((site.run_at(later), is_there()), ([0; 4], [false, true, true]));
    }

    /// A power failure may have left the name and the time, and none of the bytes.
    #[test]
    fn an_empty_sibling_is_made_anew() {
        let site = Site::new("empty");
        site.put("a/page.html", &b"all work and no play ".repeat(100), 100);
        assert_eq!(site.run(), [1, 0, 0, 0]);
        let sibling = site.0.join("a/page.html.gz");
        let made = fs::read(&sibling).expect("made");
        let modified = sibling.metadata().and_then(|found| found.modified()).expect("made");
        let emptied = File::create(&sibling).expect("ours");
        emptied.set_modified(modified).expect("ours");
        assert_eq!(site.run(), [1, 0, 0, 0]);
        assert_eq!(fs::read(&sibling).expect("made"), made);
        assert_eq!(site.run(), [0, 1, 0, 0]);
    }

    /// Each host's root is looked at, and one that two have is looked at once.
    #[test]
    fn stale_siblings_are_found_at_every_root() {
        let [one, two, fresh] = ["one", "two", "fresh"].map(Site::new);
        for (site, age_s) in [(&one, 200), (&two, 200), (&fresh, 100)] {
            site.put("a/page.html", b"page", 100);
            site.put("a/page.html.gz", b"gz", age_s);
        }
        let root = |site: &Site| site.0.display().to_string();
        let host = |site: &Site| format!("[[hosts]]\nnames = []\nroot = \"{}\"\n", root(site));
        let text = format!("[server]\nroot = \"{}\"\n", root(&fresh));
        let text = text + &host(&one) + &host(&two) + &host(&two);
        let file = FileText { name: "r", text: &text };
        let (said, problems) = read(Some(file), &Arguments::default());
        assert_eq!(problems, []);
        let hints = stale(&said).into_iter().map(|found| found.hint.expect("it has one"));
        let expected = [&one, &two].map(|site| format!("regatta precompress {}", root(site)));
        assert_eq!(hints.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let missing = ("gz", "regatta-no-such-program", &[][..]);
        let mut file = File::open("/proc/self/exe").expect("it runs");
        let said = compressed(&mut file, &missing).expect_err("it is not there").to_string();
        assert!(said.contains("apt-get install regatta-no-such-program"), "{said}");
    }
}
