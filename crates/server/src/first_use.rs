//! Work on files after their first use: compressed forms (`content.compress`), and digests for
//! entity tags (`content.etag`). A thread of each worker process does it.
//!
//! Loops ask by the facts of an open file and take no system call for it. The lock is never waited
//! for: a loop that finds it taken sends the file as it is. The thread sleeps and looks at the
//! queues when it wakes, so that nothing must wake it.
use crate::codings;
use regatta_arch::{Driver, options::Settings, shared::SharedState};
use regatta_op::{Coding, File as _, FileId, ReadReq};
use regatta_origin::{COMPRESSED_FILE_BYTES_MAX, DIGESTED_FILE_BYTES_MAX, Deriver, Digest, Forms};
use regatta_sys::{StaticFile, fstat, process::lower_priority, read_range};
use sha2::{Digest as _, Sha256};
use std::{
    array,
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Most files that wait for each kind of result, each with its descriptor.
const QUEUE_MAX: usize = 64;
/// Most files whose forms are kept.
const FORMS_MAX: usize = 4_096;
/// Most files whose digests are kept. Entries of the cache keep their tags without them.
const DIGESTS_MAX: usize = 16_384;
/// Most bytes of forms that all workers of a server keep, in addition to those in their caches.
const BYTES_MAX: usize = 64 << 20;
/// Fewest bytes for one worker: the forms of the longest file.
const BYTES_MIN: usize = 2 << 20;
/// Bytes of a file that are read at once for its digest.
const READ_BYTES: u64 = 256 << 10;
/// Pause between looks at empty queues.
const PAUSE: Duration = Duration::from_millis(500);
/// Levels that cost about as much as reading the file from a disk.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 6;
/// Largest useful form, per cent of its file's bytes.
const PERCENT_MAX: usize = 95;

/// The reason why the workers of a configuration have no thread for files; `None` if they may.
pub(crate) fn obstacle(settings: &Settings, driver: &Driver) -> Option<&'static str> {
    let forks = driver.takes("flash.name_helpers_max")
        || driver.takes(KIND) && settings.text(KIND) == "processes";
    if forks {
        // A process with threads must not fork.
        Some("helpers that are processes")
    } else if SharedState::is_wanted(settings) {
        Some("event.share")
    } else {
        None
    }
}

/// The option that makes helpers processes.
const KIND: &str = "amped.helper_kind";

/// Forms and digests of the files of a process.
#[derive(Clone, Debug)]
pub(crate) struct FirstUse(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: AtomicBool,
    forms: Mutex<Results<Forms>>,
    digests: Mutex<Results<Digest>>,
}

/// Results of one kind, and the files that wait for theirs.
#[derive(Debug)]
struct Results<R> {
    queue: VecDeque<StaticFile>,
    /// By the facts of the file; `None` while the result is being made.
    made: HashMap<FileId, Option<R>>,
    /// Files with results, the oldest first.
    order: VecDeque<FileId>,
    bytes: usize,
    files_max: usize,
    bytes_max: usize,
}

/// Result that is kept.
trait Kept: Clone {
    /// Bytes that it takes on the heap.
    fn bytes(&self) -> usize;

    /// Drops parts until it takes at most this many bytes.
    fn shorten(&mut self, bytes_max: usize);
}

impl Kept for Forms {
    fn bytes(&self) -> usize {
        self.iter().flatten().map(|form| form.len()).sum()
    }

    fn shorten(&mut self, bytes_max: usize) {
        let mut bytes = self.bytes();
        // The last one is of gzip, which all clients accept.
        for form in self {
            if bytes > bytes_max {
                bytes -= form.take().map_or(0, |form| form.len());
            }
        }
    }
}

impl Kept for Digest {
    fn bytes(&self) -> usize {
        0
    }

    fn shorten(&mut self, _bytes_max: usize) {}
}

impl FirstUse {
    /// A source for each of this many workers. Made before they are forked.
    pub(crate) fn new(workers: usize) -> Self {
        let bytes_max = (BYTES_MAX / workers.max(1)).max(BYTES_MIN);
        Self(Arc::new(Inner {
            started: AtomicBool::new(false),
            forms: Mutex::new(Results::new(FORMS_MAX, bytes_max)),
            digests: Mutex::new(Results::new(DIGESTS_MAX, 0)),
        }))
    }

    /// Makes the results of all files that wait. Digests come first: they take less time.
    fn work(&self) {
        while make_next(&self.0.digests, digest_of) || make_next(&self.0.forms, forms_of) {}
    }
}

impl Deriver<StaticFile> for FirstUse {
    fn start(&self) {
        if self.0.started.swap(true, Relaxed) {
            return;
        }
        let own = self.clone();
        let work = move || {
            // Loops come first. If that is refused, they share.
            let _ = lower_priority();
            loop {
                own.work();
                thread::sleep(PAUSE);
            }
        };
        // Without a thread all files are sent as they are, with tags of their facts.
        let _ = thread::Builder::new().name("first-use".to_owned()).spawn(work);
    }

    fn forms(&self, file: &StaticFile) -> Option<Forms> {
        find(&self.0.forms, file)
    }

    fn digest(&self, file: &StaticFile) -> Option<Digest> {
        find(&self.0.digests, file)
    }
}

/// The result of a file, if it is ready and the lock is free. Otherwise the file waits for it.
fn find<R: Kept>(results: &Mutex<Results<R>>, file: &StaticFile) -> Option<R> {
    // A number of a shared table of descriptors stays with the thread that counts its uses.
    if file.shared_number().is_some() {
        return None;
    }
    results.try_lock().ok()?.find(file)
}

/// Makes the result of the next file that waits; false if none does.
fn make_next<R: Kept>(
    results: &Mutex<Results<R>>,
    make: impl FnOnce(&StaticFile) -> Option<R>,
) -> bool {
    let Some(file) = lock(results).queue.pop_front() else { return false };
    let made = make(&file);
    lock(results).finish(file.id(), made);
    true
}

fn lock<R>(results: &Mutex<Results<R>>) -> MutexGuard<'_, Results<R>> {
    results.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Kept> Results<R> {
    fn new(files_max: usize, bytes_max: usize) -> Self {
        let (made, order) = (HashMap::new(), VecDeque::new());
        Self { queue: VecDeque::new(), made, order, bytes: 0, files_max, bytes_max }
    }

    fn find(&mut self, file: &StaticFile) -> Option<R> {
        if let Some(result) = self.made.get(&file.id()) {
            return result.clone();
        }
        if self.queue.len() < QUEUE_MAX {
            self.queue.push_back(file.clone());
            self.made.insert(file.id(), None);
        }
        None
    }

    /// Keeps the result, and removes the oldest others if there is no room. Of a result that no
    /// room is enough for, a part is kept, perhaps nothing: the file is not asked for again.
    /// `None`: the file could not be read, or has changed. It may be asked for again.
    fn finish(&mut self, id: FileId, made: Option<R>) {
        let Some(mut result) = made else {
            self.made.remove(&id);
            return;
        };
        result.shorten(self.bytes_max);
        self.bytes += result.bytes();
        self.made.insert(id, Some(result));
        self.order.push_back(id);
        while self.bytes > self.bytes_max || self.order.len() > self.files_max {
            let Some(oldest) = self.order.pop_front() else { return };
            let result = self.made.remove(&oldest).flatten();
            self.bytes -= result.as_ref().map_or(0, R::bytes);
        }
    }
}

/// The forms of a file; `None` if it is not what it was when it was opened.
fn forms_of(file: &StaticFile) -> Option<Forms> {
    let id = file.id();
    if id.len > COMPRESSED_FILE_BYTES_MAX {
        return None;
    }
    let bytes = read(file, 0, id.len, Vec::new())?;
    // After the bytes were read: a change before that shows.
    if !is_unchanged(file) {
        return None;
    }
    let mut forms = Forms::default();
    let most = bytes.len() * PERCENT_MAX / 100;
    let gzip = codings::gzip(&*bytes, GZIP_LEVEL).ok()?;
    let zstd = codings::zstd(&*bytes, id.len, ZSTD_LEVEL).ok()?;
    for (coding, form) in [(Coding::Gzip, gzip), (Coding::Zstd, zstd)] {
        forms[coding as usize] = (form.len() <= most).then(|| form.into());
    }
    Some(forms)
}

/// The digest of a file; `None` if it is not what it was when it was opened.
fn digest_of(file: &StaticFile) -> Option<Digest> {
    let id = file.id();
    if id.len > DIGESTED_FILE_BYTES_MAX {
        return None;
    }
    let (mut hash, mut at, mut bytes) = (Sha256::new(), 0, Vec::new());
    while at < id.len {
        let len = READ_BYTES.min(id.len - at);
        bytes = read(file, at, len, bytes)?;
        hash.update(&bytes);
        at += len;
    }
    let hash = hash.finalize();
    is_unchanged(file).then(|| array::from_fn(|at| hash[at]))
}

/// A range of a file, if it has all of it.
fn read(file: &StaticFile, at: u64, len: u64, buffer: Vec<u8>) -> Option<Vec<u8>> {
    let (bytes, read) = read_range(ReadReq { file: file.clone(), at, len, buffer });
    (read.is_ok() && bytes.len() as u64 == len).then_some(bytes)
}

fn is_unchanged(file: &StaticFile) -> bool {
    fstat(file) == Ok(file.id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_op::{OpenReq, Opened};
    use regatta_sys::{OpenRules, Root, open_below};
    use regatta_testkit::folder::Folder;
    use std::{
        fs::{self, File},
        io::Read as _,
    };

    fn open(root: &Root, name: &str) -> StaticFile {
        let req = OpenReq { path: name.as_bytes().into(), siblings: regatta_op::Codings::NONE };
        match open_below(root, &req, OpenRules::default()) {
            Ok(Opened::File { file, .. }) => file,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn forms_are_ready_after_the_first_use() {
        let folder = Folder::new("compress");
        let text = "all work and no play ".repeat(500);
        fs::write(folder.join("a.txt"), &text).unwrap();
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        let noise: Vec<u8> = (0..5_000).map(|_| noise()).collect();
        fs::write(folder.join("b.txt"), &noise).unwrap();
        let root = Root::open(&folder).unwrap();
        let source = FirstUse::new(1);
        let files = ["a.txt", "b.txt"].map(|name| open(&root, name));
        for file in &files {
            assert!(source.forms(file).is_none() && source.forms(file).is_none());
        }
        assert_eq!(lock(&source.0.forms).queue.len(), 2, "each waits once");
        source.work();
        let forms = source.forms(&files[0]).expect("it has been made");
        let [none, zstd, gzip] = forms.each_ref().map(Option::as_deref);
        assert!(none.is_none());
        let mut plain = String::new();
        flate2::read::GzDecoder::new(gzip.unwrap()).read_to_string(&mut plain).unwrap();
        assert_eq!(plain, text);
        assert_eq!(zstd::bulk::decompress(zstd.unwrap(), text.len()).unwrap(), text.as_bytes());
        assert_eq!(lock(&source.0.forms).bytes, gzip.unwrap().len() + zstd.unwrap().len());
        assert_eq!(source.forms(&files[1]), Some(Forms::default()), "no form of it is smaller");
    }

    /// Digests of files that are read in one piece, in several, and not at all.
    #[test]
    fn digests_are_of_all_bytes() {
        let folder = Folder::new("digests");
        let long: Vec<u8> = (0..600_000_u32).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
        let source = FirstUse::new(1);
        for (name, bytes) in [("a", &b"the old text"[..]), ("b", &long), ("c", b"")] {
            fs::write(folder.join(name), bytes).unwrap();
            let file = open(&Root::open(&folder).unwrap(), name);
            assert_eq!(source.digest(&file), None);
            source.work();
            let digest = source.digest(&file).expect("it has been made");
            assert_eq!(digest, Sha256::digest(bytes)[..16], "{name}");
        }
        let sparse = File::create(folder.join("d")).unwrap();
        sparse.set_len(DIGESTED_FILE_BYTES_MAX + 1).unwrap();
        let file = open(&Root::open(&folder).unwrap(), "d");
        assert_eq!(digest_of(&file), None, "too long");
    }

    /// A file that was written in place since it was opened has no results under its old facts.
    #[test]
    fn a_file_that_changed_has_no_results() {
        let folder = Folder::new("compress");
        let path = folder.join("a.txt");
        fs::write(&path, "before ".repeat(500)).unwrap();
        let root = Root::open(&folder).unwrap();
        let source = FirstUse::new(1);
        let file = open(&root, "a.txt");
        assert!(source.forms(&file).is_none() && source.digest(&file).is_none());
        thread::sleep(Duration::from_millis(20));
        fs::write(&path, "behind ".repeat(500)).unwrap();
        source.work();
        assert!(source.forms(&file).is_none() && source.digest(&file).is_none());
        let waiting = (lock(&source.0.forms).queue.len(), lock(&source.0.digests).queue.len());
        assert_eq!(waiting, (1, 1), "both were asked for again");
    }

    /// A file whose forms exceed the bound is compressed once, and has the form of gzip alone if
    /// that is short enough.
    #[test]
    fn forms_beyond_the_bound_are_not_made_again() {
        let folder = Folder::new("compress-long");
        let mut state = 1_u32;
        let mut digit = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b'a' + (state.to_be_bytes()[0] >> 4)
        };
        let text: Vec<u8> = (0..40_000).map(|_| digit()).collect();
        fs::write(folder.join("a.txt"), &text).unwrap();
        let file = open(&Root::open(&folder).unwrap(), "a.txt");
        for (bytes_max, expected) in
            [(60_000, [true, true]), (30_000, [false, true]), (9, [false; 2])]
        {
            let results = Mutex::new(Results::new(FORMS_MAX, bytes_max));
            assert!(find(&results, &file).is_none());
            assert!(make_next(&results, forms_of));
            let [_, forms @ ..] = find(&results, &file).expect("it has been made");
            assert_eq!(forms.map(|form| form.is_some()), expected, "{bytes_max}");
            assert!(!make_next(&results, forms_of), "it is not made again");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut results = Results::new(FORMS_MAX, 1_000);
        let id = |inode| FileId { inode, ..FileId::default() };
        let form = |len| -> Option<Forms> { Some([None, None, Some(vec![0; len].into())]) };
        for inode in 0..20 {
            results.made.insert(id(inode), None);
            results.finish(id(inode), form(300));
            assert!(results.bytes <= 1_000 && results.made.len() <= 3);
        }
        let others = results.made.len();
        results.finish(id(20), form(5_000));
        assert_eq!((results.bytes, results.made.len()), (900, others + 1));
        assert_eq!(results.made.get(&id(20)), Some(&Some(Forms::default())));
        let mut results = Results::new(FORMS_MAX, 1_000);
        for inode in 0..=FORMS_MAX as u64 {
            results.finish(id(inode), Some(Forms::default()));
        }
        assert_eq!((results.made.len(), results.order.len()), (FORMS_MAX, FORMS_MAX));
        let mut results = Results::new(DIGESTS_MAX, 0);
        for inode in 0..=DIGESTS_MAX as u64 {
            results.finish(id(inode), Some(Digest::default()));
        }
        assert_eq!((results.made.len(), results.order.len()), (DIGESTS_MAX, DIGESTS_MAX));
    }
}
