//! `regatta precompress`: makes the siblings `.br`, `.zst` and `.gz` of a site's files.
//!
//! A sibling is current if it decodes to its file. Times say nothing after a rollback, or where a
//! build gives all files one time. The tree is walked by descriptors, so that no link leads out of
//! it. Threads compress several files at a time.
use crate::{
    Failure, UsageFault, codings,
    config::raw::{Problem, Said},
    media::Types,
    messages,
};
use regatta_op::Coding;
use regatta_origin::{MediaTypes as _, is_compressed};
use regatta_sys::{
    guarded::is_left_behind,
    tree::{Directory, EntryKind, Tree, TreeEntry},
};
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    io::{self, Read, Seek},
    num::NonZero,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::SystemTime,
};

/// Size of a file below which the fields of a response outweigh the saving, bytes.
const FILE_BYTES_MIN: u64 = 512;
/// Limit of a file, bytes: the result of compression is in memory.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Largest useful sibling, per cent of its file's bytes.
const PERCENT_MAX: u64 = 95;
/// Age of a sibling, relative to its file, from which on it is stale, seconds: a checkout writes
/// files in any order.
const STALE_S_MIN: i64 = 60;
/// Limit of faults that are kept, each a line.
const FAULTS_MAX: usize = 1_000;
/// Bytes of a file and its sibling that are compared at once.
const COMPARE_BYTES: usize = 64 << 10;

/// Limit of threads: each may need 200 MB for a file of 256 MiB.
const THREADS_MAX: usize = 8;
/// Limit of files that wait for a thread, each with the descriptor of its directory.
const QUEUE_MAX: usize = 16;
/// Levels with the smallest results.
const GZIP_LEVEL: u32 = 9;
const ZSTD_LEVEL: i32 = codings::ZSTD_LEVEL_MAX;

/// Codings, the fastest first: if it saves too little, the others are not tried.
const CODINGS: [Coding; 3] = [Coding::Gzip, Coding::Zstd, Coding::Brotli];

/// Result of a run: numbers of siblings, and faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precompressed {
    /// Siblings made.
    pub written: u64,
    /// Siblings left unchanged: they decode to their file.
    pub current: u64,
    /// Siblings not kept, because they would save too little.
    pub useless: u64,
    /// Siblings removed: they do not decode to their file, which is not worth one.
    pub removed: u64,
    /// Files and directories that could not be handled, a line for each.
    pub faults: Vec<String>,
    /// Further faults, which are only counted.
    pub faults_more: u64,
}

impl Precompressed {
    /// Formats the result in a line, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { written, current, useless, removed, .. } = self;
        format!(
            "siblings: {written} written, {current} up to date, {removed} removed, \
             {useless} not kept because they save less than {} %\n",
            100 - PERCENT_MAX
        )
    }

    /// Formats the result for programs: a JSON object.
    #[must_use]
    pub fn json(&self) -> String {
        let Self { written, current, useless, removed, faults, faults_more } = self;
        let object = serde_json::json!({
            "written": written, "up_to_date": current, "not_kept": useless, "removed": removed,
            "faults": faults, "faults_more": faults_more,
        });
        format!("{object}\n")
    }

    /// Adds the result for other files.
    fn add(&mut self, other: Self) {
        let Self { written, current, useless, removed, mut faults, faults_more } = other;
        self.written += written;
        self.current += current;
        self.useless += useless;
        self.removed += removed;
        self.faults.append(&mut faults);
        let more = self.faults.len().saturating_sub(FAULTS_MAX);
        self.faults.truncate(FAULTS_MAX);
        self.faults_more += faults_more + more as u64;
    }

    fn fault(&mut self, path: &Path, error: &io::Error) {
        // A deploy in progress may have removed it.
        if error.kind() == io::ErrorKind::NotFound {
            return;
        }
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(format!("{}: {error}", path.display()));
        } else {
            self.faults_more += 1;
        }
    }
}

/// Makes the siblings with these suffixes that are missing or of another version, below a
/// directory. Hidden files, symbolic links, and types for which the server looks for no sibling,
/// are left alone. Files that a killed run left behind are removed once they are minutes old.
///
/// # Errors
/// The directory cannot be opened. Faults below it are in the result, and do not end the run.
pub fn run(directory: &Path, suffixes: &[String]) -> Result<Precompressed, Failure> {
    run_at(SystemTime::now(), directory, suffixes)
}

fn run_at(now: SystemTime, root: &Path, suffixes: &[String]) -> Result<Precompressed, Failure> {
    let tree = Tree::open(root)
        .map_err(|error| Failure::Usage(UsageFault::Directory(root.to_owned(), error)))?;
    let is_wanted = |coding: &Coding| suffixes.iter().any(|one| one == suffix(*coding));
    let codings: Vec<Coding> = CODINGS.into_iter().filter(is_wanted).collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let (files, queue) = sync_channel(QUEUE_MAX);
    let (queue, codings) = (&Mutex::new(queue), &*codings);
    thread::scope(move |scope| {
        let work = move || make_all(queue, codings);
        let start = |_| thread::Builder::new().spawn_scoped(scope, work);
        let workers: io::Result<Vec<_>> = (0..threads).map(start).collect();
        let workers = workers.map_err(Failure::system("cannot start a thread"))?;
        let mut done = find_files(&tree, root, now, &files);
        // Threads end when the queue is empty.
        drop(files);
        let mut made = Precompressed::default();
        for worker in workers {
            made.add(worker.join().expect("a thread does not panic"));
        }
        made.faults.sort_unstable();
        done.add(made);
        Ok(done)
    })
}

/// Queues the files that may have siblings. The result has faults alone.
fn find_files(
    tree: &Tree,
    root: &Path,
    now: SystemTime,
    files: &SyncSender<Place>,
) -> Precompressed {
    let types = Types::new(&[]).expect("there is none to be wrong");
    let mut faults = Precompressed::default();
    walk(tree, &mut |below, found| match found {
        Err(error) => faults.fault(&root.join(below), &error),
        Ok((directory, TreeEntry { name, kind: EntryKind::File })) => {
            let path = root.join(below).join(name);
            if is_hidden(name) {
                let file = directory.stat(name);
                if file.is_ok_and(|file| is_left_behind(name, &file, now)) {
                    // Another run may have removed it.
                    let _ = directory.spot(name).and_then(|spot| spot.remove());
                }
                return;
            }
            let media_type = types.media_type(path.as_os_str().as_bytes());
            if original(name).is_some() || media_type.is_some_and(is_compressed) {
                return;
            }
            let file = Place { directory: Arc::clone(directory), name: name.clone(), path };
            files.send(file).expect("threads receive until the sender is dropped");
        }
        Ok(_) => {}
    });
    faults
}

/// Makes the siblings of files until no more are sent.
fn make_all(files: &Mutex<Receiver<Place>>, codings: &[Coding]) -> Precompressed {
    let mut done = Precompressed::default();
    loop {
        let next = files.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(file) = next else { return done };
        if let Err(error) = file.make(codings, &mut done) {
            done.fault(&file.path, &error);
        }
    }
}

/// Warns of siblings that are older than their files, but sent instead: once for each root.
pub(crate) fn stale(said: &Said) -> Vec<Problem> {
    let mut roots = BTreeSet::new();
    let all = std::iter::once(said).chain(&said.hosts);
    let each = all.filter(|said| roots.insert(said.root()));
    each.filter_map(stale_at_root).collect()
}

fn stale_at_root(said: &Said) -> Option<Problem> {
    let key = "content.precompressed";
    if !said.settings.flag(key) {
        return None;
    }
    let root = said.root();
    let tree = Tree::open(&root).ok()?;
    let (mut all, mut first) = (0_u64, None::<PathBuf>);
    walk(&tree, &mut |below, found| {
        let Ok((directory, TreeEntry { name, kind: EntryKind::File })) = found else { return };
        let modified = |name: &OsStr| directory.stat(name).ok().map(|found| found.mtime());
        let of = original(name).and_then(|file| modified(&file));
        if of.zip(modified(name)).is_some_and(|(file, made)| file >= made + STALE_S_MIN) {
            all += 1;
            first.get_or_insert_with(|| root.join(below).join(name));
        }
    });
    let one = first?;
    let one = one.display();
    let message = match all {
        1 => format!("{one} is older than its file, and is sent all the same"),
        _ => format!("{all} files, as {one}, are older than theirs, and are sent all the same"),
    };
    Some(
        said.problem(messages::SIBLINGS_STALE, key, &message)
            .hint(format!("regatta precompress {}", root.display())),
    )
}

/// Directory with a name in it, or the reason why a directory cannot be read.
type Found<'a> = io::Result<(&'a Arc<Directory>, &'a TreeEntry)>;

/// Visits every directory that is not hidden, and reports the names in it, hidden ones included.
fn walk(tree: &Tree, visit: &mut dyn FnMut(&Path, Found<'_>)) {
    let mut pending = vec![PathBuf::new()];
    while let Some(below) = pending.pop() {
        let opened = tree.directory(&below);
        let read =
            opened.and_then(|opened| opened.entries().map(|entries| (Arc::new(opened), entries)));
        let (directory, entries) = match read {
            Ok(read) => read,
            Err(error) => {
                visit(&below, Err(error));
                continue;
            }
        };
        for entry in &entries {
            visit(&below, Ok((&directory, entry)));
        }
        let below_it = entries.into_iter().rev();
        let below_it =
            below_it.filter(|one| one.kind == EntryKind::Directory && !is_hidden(&one.name));
        pending.extend(below_it.map(|one| below.join(one.name)));
    }
}

/// File of a site.
struct Place {
    directory: Arc<Directory>,
    name: OsString,
    path: PathBuf,
}

impl Place {
    /// Makes the siblings of the file.
    fn make(&self, codings: &[Coding], done: &mut Precompressed) -> io::Result<()> {
        let mut file = self.directory.file(&self.name)?;
        let of = file.metadata()?;
        let mut is_worth = of.is_file() && (FILE_BYTES_MIN..=FILE_BYTES_MAX).contains(&of.len());
        for &coding in codings {
            let made = self.sibling(coding, &mut file, &of, &mut is_worth, done);
            if let Err(error) = made {
                let mut path = self.path.as_os_str().to_owned();
                path.push(coding.suffix());
                done.fault(Path::new(&path), &error);
            }
        }
        Ok(())
    }

    /// Makes the sibling of one coding, unless the file `is_worth` none.
    fn sibling(
        &self,
        coding: Coding,
        file: &mut File,
        of: &Metadata,
        is_worth: &mut bool,
        done: &mut Precompressed,
    ) -> io::Result<()> {
        let mut name = self.name.clone();
        name.push(coding.suffix());
        let there = match self.directory.stat(&name) {
            // No file can have this name.
            Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            there => Some(there?),
        };
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let what = "not a regular file, so no sibling can be made: rename or remove it";
            return Err(io::Error::other(what));
        }
        let is_current = there.is_some() && self.is_current(&name, coding, file, of)?;
        if is_current {
            done.current += 1;
            return Ok(());
        }
        if *is_worth {
            let bytes = compressed(file, coding, of.len());
            // First: its change may have made the compression fail.
            check_unchanged(file, of)?;
            let bytes = bytes?;
            *is_worth = bytes.len() as u64 * 100 <= of.len() * PERCENT_MAX;
            if *is_worth {
                self.directory.spot(&name)?.replace(&bytes, Some(of))?;
                done.written += 1;
                return Ok(());
            }
            done.useless += 1;
        }
        // The server would send it instead of the file.
        if there.is_some() {
            self.directory.spot(&name)?.remove()?;
            done.removed += 1;
        }
        Ok(())
    }

    /// Whether the sibling decodes to the file. If so, it gets the time of the file.
    fn is_current(
        &self,
        name: &OsStr,
        coding: Coding,
        file: &mut File,
        of: &Metadata,
    ) -> io::Result<bool> {
        let sibling = self.directory.file(name)?;
        let there = sibling.metadata()?;
        // No coding has an empty result, but a power failure may leave one.
        if !there.is_file() || there.len() == 0 || !decodes_to(&sibling, coding, file)? {
            return Ok(false);
        }
        check_unchanged(file, of)?;
        if let Some(modified) = of.modified().ok().filter(|_| time(&there) != time(of)) {
            sibling.set_modified(modified)?;
        }
        Ok(true)
    }
}

/// Fails if a file has changed since its facts were read.
fn check_unchanged(file: &File, of: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    let version = |of: &Metadata| (time(of), of.ctime(), of.ctime_nsec(), of.len());
    match version(&now) == version(of) {
        true => Ok(()),
        false => Err(io::Error::other("the file changes: run the command again")),
    }
}

fn compressed(file: &mut File, coding: Coding, len: u64) -> io::Result<Vec<u8>> {
    file.rewind()?;
    // A file that grows meanwhile has no end.
    let input = file.take(len);
    match coding {
        Coding::Gzip => codings::gzip(input, GZIP_LEVEL),
        Coding::Zstd => codings::zstd(input, len, ZSTD_LEVEL),
        Coding::Brotli => codings::brotli(input, len),
    }
}

/// Whether a sibling decodes to the bytes of a file, and nothing else. Decoding ends at the first
/// difference: a sibling may have much more output.
fn decodes_to(sibling: &File, coding: Coding, file: &mut File) -> io::Result<bool> {
    file.rewind()?;
    let mut decoded = codings::decoder(coding, sibling)?;
    let (mut one, mut other) = (vec![0; COMPARE_BYTES], vec![0; COMPARE_BYTES]);
    loop {
        let read = match fill(&mut decoded, &mut one) {
            Ok(read) => read,
            // The system cannot read it.
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            // No form of this coding.
            Err(_) => return Ok(false),
        };
        if fill(file, &mut other)? != read || one[..read] != other[..read] {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full or the input ends.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The suffix of a coding's siblings, without its dot.
fn suffix(coding: Coding) -> &'static str {
    &coding.suffix()[1..]
}

fn time(of: &Metadata) -> (i64, i64) {
    (of.mtime(), of.mtime_nsec())
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// Name of the file of a sibling.
fn original(name: &OsStr) -> Option<OsString> {
    let path = Path::new(name);
    let last = path.extension()?;
    let is_sibling = CODINGS.into_iter().any(|coding| last == suffix(coding));
    is_sibling.then(|| path.with_extension("").into_os_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::raw::tests::of_good_file, folder::Folder};
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
        sync::atomic::{AtomicBool, Ordering},
        thread,
        time::Duration,
    };

    /// Temporary directory.
    struct Site(Folder);

    impl Site {
        fn new(name: &str) -> Self {
            let root = Folder::new(&format!("precompress-{name}"));
            fs::create_dir(root.join("a")).expect("a directory of our own");
            Self(root)
        }

        /// Writes a file that was modified this long ago.
        fn put(&self, name: &str, bytes: &[u8], age_s: u64) {
            let path = self.0.join(name);
            fs::write(&path, bytes).expect("ours");
            let file = File::options().write(true).open(path).expect("ours");
            file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).expect("ours");
        }

        /// Runs with gzip alone.
        fn run(&self) -> [u64; 4] {
            self.run_at(SystemTime::now())
        }

        fn run_at(&self, now: SystemTime) -> [u64; 4] {
            let done = run_at(now, &self.0, &["gz".to_owned()]).expect("the root is there");
            assert_eq!(done.faults, Vec::<String>::new());
            [done.written, done.current, done.useless, done.removed]
        }
    }

    fn unpacked(sibling: &Path) -> Vec<u8> {
        let form = File::open(sibling).expect("made");
        let (mut text, decoder) = (Vec::new(), codings::decoder(Coding::Gzip, form));
        decoder.and_then(|mut decoder| decoder.read_to_end(&mut text)).expect("a whole form");
        text
    }

    /// Incompressible bytes.
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
        assert_eq!(unpacked(&sibling), text);
        assert_eq!(site.run(), [0, 1, 1, 0]);
        // The same text with another time: the sibling gets the time.
        site.put("a/page.html", &text, 200);
        assert_eq!(site.run(), [0, 1, 1, 0]);
        let (file, made) = (page.metadata().expect("there"), sibling.metadata().expect("made"));
        assert_eq!(time(&file), time(&made));
    }

    /// A release that is rolled back is older, and a reproducible build gives all files one time.
    #[test]
    fn siblings_are_of_their_file_whatever_the_times_are() {
        let site = Site::new("times");
        let first = b"all work and no play ".repeat(100);
        let second = b"no work and all play ".repeat(100);
        let sibling = site.0.join("a/page.html.gz");
        for age_s in [50, 100, 5_000] {
            site.put("a/page.html", &first, 100);
            site.run();
            site.put("a/page.html", &second, age_s);
            assert_eq!(site.run(), [1, 0, 0, 0], "another text, {age_s} s old");
            assert_eq!(unpacked(&sibling), second);
            site.put("a/page.html", b"short", age_s);
            assert_eq!(site.run(), [0, 0, 0, 1], "a short text, {age_s} s old");
            assert!(!sibling.exists());
        }
        // A copy of both: the sibling of another version, made after the file, with its time.
        site.put("a/page.html", &first, 100);
        site.run();
        let stale = fs::read(&sibling).expect("made");
        site.put("a/page.html", &second, 100);
        site.put("a/page.html.gz", &stale, 100);
        let modified = site.0.join("a/page.html").metadata().and_then(|found| found.modified());
        let file = File::options().write(true).open(&sibling).expect("ours");
        file.set_modified(modified.expect("there")).expect("ours");
        assert_eq!(site.run(), [1, 0, 0, 0]);
    }

    #[test]
    fn faults_do_not_end_a_run() {
        let site = Site::new("faults");
        let text = b"all work and no play ".repeat(100);
        for name in ["a.js", "b.js", "c.js", "d.js"] {
            site.put(name, &text, 100);
        }
        fs::create_dir_all(site.0.join("a.js.gz/x")).expect("ours");
        symlink("/etc/hostname", site.0.join("b.js.gz")).expect("ours");
        // Root may read it all the same.
        let shut = site.0.join("lost+found");
        fs::create_dir(&shut).expect("ours");
        fs::set_permissions(&shut, fs::Permissions::from_mode(0o000)).expect("ours");
        let may_read = fs::read_dir(&shut).is_ok();
        let done = run(&site.0, &["gz".to_owned()]).expect("the root is there");
        fs::set_permissions(&shut, fs::Permissions::from_mode(0o700)).expect("ours");
        assert_eq!(done.written, 2, "{done:?}");
        let named = |name: &str| done.faults.iter().any(|fault| fault.contains(name));
        assert!(named("a.js.gz: not a regular file") && named("b.js.gz"), "{done:?}");
        assert_eq!(named("lost+found"), !may_read, "{done:?}");
        assert!(site.0.join("b.js.gz").is_symlink());
        let none = run(&site.0.join("none"), &["gz".to_owned()]).err();
        let said = match none {
            Some(Failure::Usage(fault)) => fault.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(said.ends_with("none: no such directory"), "{said}");
    }

    /// Another user exchanges a directory for a link while root runs the command.
    #[test]
    fn no_exchange_of_directories_leads_out_of_the_tree() {
        const FILES: usize = 12;
        let site = Site::new("swapped");
        let outside = Site::new("outside");
        let [inner, moved, link] = ["a", "moved", "link"].map(|name| site.0.join(name));
        for number in 0..FILES {
            // Too short to keep a sibling, and a sibling of something else.
            site.put(&format!("a/{number}.js"), b"short", 100);
            outside.put(&format!("{number}.js"), b"short", 100);
            outside.put(&format!("{number}.js.gz"), b"not ours", 200);
        }
        let is_whole = || {
            let there = |number: usize| outside.0.join(format!("{number}.js.gz")).exists();
            (0..FILES).all(there)
        };
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = fs::rename(&inner, &moved);
                    let _ = symlink(&*outside.0, &link).and_then(|()| fs::rename(&link, &inner));
                    thread::yield_now();
                    let _ = fs::remove_file(&inner);
                    let _ = fs::rename(&moved, &inner);
                }
            });
            for _ in 0..200 {
                let done = run(&site.0, &["gz".to_owned()]).expect("the root is there");
                if !is_whole() || done.written > 0 {
                    break;
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        assert!(is_whole());
    }

    #[test]
    fn names_may_be_as_long_as_names_can_be() {
        let site = Site::new("long");
        let text = b"all work and no play ".repeat(100);
        // After the second no suffix has room.
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
    fn an_empty_sibling_is_made_again() {
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

    /// Each host's root is checked, and a common one once.
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
        let found = stale(&of_good_file(&text)).into_iter();
        let hints = found.map(|found| found.hint.expect("it has one"));
        let expected = [&one, &two].map(|site| format!("regatta precompress {}", root(site)));
        assert_eq!(hints.collect::<Vec<_>>(), expected);
    }

    /// A sibling with anything behind its end, or without its end, is made again.
    #[test]
    fn siblings_are_whole_in_every_coding() {
        let site = Site::new("whole");
        site.put("a/page.html", &b"all work and no play ".repeat(100), 100);
        let suffixes = CODINGS.map(|coding| suffix(coding).to_owned());
        let run = || {
            let done = run(&site.0, &suffixes).expect("the root is there");
            assert_eq!(done.faults, Vec::<String>::new());
            [done.written, done.current]
        };
        assert_eq!(run(), [3, 0]);
        for suffix in &suffixes {
            let sibling = site.0.join(format!("a/page.html.{suffix}"));
            let made = fs::read(&sibling).expect("made");
            let longer = [&*made, b"x"].concat();
            for wrong in [&*longer, &made[..made.len() - 1], b"no form", &made.repeat(2)] {
                fs::write(&sibling, wrong).expect("ours");
                assert_eq!(run(), [1, 2], "{suffix} of {} bytes", wrong.len());
                assert_eq!(fs::read(&sibling).expect("made"), made);
            }
        }
        assert_eq!(run(), [0, 3]);
    }

    #[test]
    fn faults_are_bounded_and_in_order() {
        let faults = |name: &str| {
            let faults = (0..FAULTS_MAX).map(|number| format!("{name}{number}")).collect();
            Precompressed { faults, faults_more: 1, written: 2, ..Precompressed::default() }
        };
        let mut all = faults("a");
        all.add(faults("b"));
        assert_eq!((all.faults.len(), all.faults_more), (FAULTS_MAX, FAULTS_MAX as u64 + 2));
        assert_eq!((all.written, &*all.faults[0]), (4, "a0"));
    }
}
