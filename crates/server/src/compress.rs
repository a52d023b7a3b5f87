//! Compression at first use (`content.compress`): a thread of each worker process makes the forms.
//!
//! Loops ask by the facts of an open file and take no system call for it. The lock is never waited
//! for: a loop that finds it taken sends the file as it is. The thread sleeps and looks at the
//! queue when it wakes, so that nothing must wake it.
use crate::codings;
use regatta_arch::{Driver, options::Settings, shared::SharedState};
use regatta_op::{Coding, File as _, FileId, ReadReq};
use regatta_origin::{COMPRESSED_FILE_BYTES_MAX, Compressor, Forms};
use regatta_sys::{StaticFile, fstat, process::lower_priority, read_range};
use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Most files that wait, each with its descriptor.
const QUEUE_MAX: usize = 64;
/// Most files whose forms are kept.
const FILES_MAX: usize = 4_096;
/// Most bytes of forms that all workers of a server keep, in addition to those in their caches.
const BYTES_MAX: usize = 64 << 20;
/// Fewest bytes for one worker: the forms of the longest file.
const BYTES_MIN: usize = 2 << 20;
/// Pause between looks at an empty queue.
const PAUSE: Duration = Duration::from_millis(500);
/// Levels that cost about as much as reading the file from a disk.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 6;
/// Largest useful form, per cent of its file's bytes.
const PERCENT_MAX: usize = 95;

/// The reason why the workers of a configuration make no forms; `None` if they may.
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

/// Forms of the files of a process.
#[derive(Clone, Debug)]
pub(crate) struct FirstUse(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: AtomicBool,
    bytes_max: usize,
    known: Mutex<Known>,
}

/// Files that were asked for.
#[derive(Debug, Default)]
struct Known {
    queue: VecDeque<StaticFile>,
    /// By the facts of the file; `None` while the forms are being made.
    forms: HashMap<FileId, Option<Forms>>,
    /// Files with forms, the oldest first.
    order: VecDeque<FileId>,
    bytes: usize,
}

impl FirstUse {
    /// A source for each of this many workers. Made before they are forked.
    pub(crate) fn new(workers: usize) -> Self {
        let bytes_max = (BYTES_MAX / workers.max(1)).max(BYTES_MIN);
        let (started, known) = (AtomicBool::new(false), Mutex::default());
        Self(Arc::new(Inner { started, bytes_max, known }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the forms of all files that wait.
    fn work(&self) {
        loop {
            let Some(file) = self.known().queue.pop_front() else { return };
            let forms = forms_of(&file);
            self.known().finish(file.id(), forms.ok().flatten(), self.0.bytes_max);
        }
    }
}

impl Compressor<StaticFile> for FirstUse {
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
        // Without a thread all files are sent as they are.
        let _ = thread::Builder::new().name("compress".to_owned()).spawn(work);
    }

    fn forms(&self, file: &StaticFile) -> Option<Forms> {
        // A number of a shared table of descriptors stays with the thread that counts its uses.
        if file.shared_number().is_some() {
            return None;
        }
        let mut known = self.0.known.try_lock().ok()?;
        match known.forms.get(&file.id()) {
            Some(forms) => forms.clone(),
            None => {
                known.ask(file);
                None
            }
        }
    }
}

impl Known {
    fn ask(&mut self, file: &StaticFile) {
        if self.queue.len() < QUEUE_MAX {
            self.queue.push_back(file.clone());
            self.forms.insert(file.id(), None);
        }
    }

    /// Keeps the forms, and removes the oldest others if there is no room. `None`: the file could
    /// not be read, or has changed. It may be asked for again.
    fn finish(&mut self, id: FileId, forms: Option<Forms>, bytes_max: usize) {
        let Some(forms) = forms else {
            self.forms.remove(&id);
            return;
        };
        self.bytes += size(&forms);
        self.forms.insert(id, Some(forms));
        self.order.push_back(id);
        while self.bytes > bytes_max || self.order.len() > FILES_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            let forms = self.forms.remove(&oldest).flatten();
            self.bytes -= forms.as_ref().map_or(0, size);
        }
    }
}

fn size(forms: &Forms) -> usize {
    forms.iter().flatten().map(|form| form.len()).sum()
}

/// The forms of a file; `None` if it is not what it was when it was opened.
fn forms_of(file: &StaticFile) -> io::Result<Option<Forms>> {
    let id = file.id();
    if id.len > COMPRESSED_FILE_BYTES_MAX {
        return Ok(None);
    }
    let read = ReadReq { file: file.clone(), at: 0, len: id.len, buffer: Vec::new() };
    let (bytes, read) = read_range(read);
    // After the bytes were read: a change before that shows.
    let unchanged = fstat(file) == Ok(id);
    if read.is_err() || bytes.len() as u64 != id.len || !unchanged {
        return Ok(None);
    }
    let mut forms = Forms::default();
    let most = bytes.len() * PERCENT_MAX / 100;
    let gzip = codings::gzip(&*bytes, GZIP_LEVEL)?;
    let zstd = codings::zstd(&*bytes, id.len, ZSTD_LEVEL)?;
    for (coding, form) in [(Coding::Gzip, gzip), (Coding::Zstd, zstd)] {
        forms[coding as usize] = (form.len() <= most).then(|| form.into());
    }
    Ok(Some(forms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_op::{OpenReq, Opened};
    use regatta_sys::{OpenRules, Root, open_below};
    use regatta_testkit::folder::Folder;
    use std::{fs, io::Read as _};

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
        assert_eq!(source.known().queue.len(), 2, "each waits once");
        source.work();
        let forms = source.forms(&files[0]).expect("it has been made");
        let [none, zstd, gzip] = forms.each_ref().map(Option::as_deref);
        assert!(none.is_none());
        let mut plain = String::new();
        flate2::read::GzDecoder::new(gzip.unwrap()).read_to_string(&mut plain).unwrap();
        assert_eq!(plain, text);
        assert_eq!(zstd::bulk::decompress(zstd.unwrap(), text.len()).unwrap(), text.as_bytes());
        assert_eq!(source.known().bytes, gzip.unwrap().len() + zstd.unwrap().len());
        assert_eq!(source.forms(&files[1]), Some(Forms::default()), "no form of it is smaller");
    }

    /// A file that was written in place since it was opened has no forms under its old facts.
    #[test]
    fn a_file_that_changed_has_no_forms() {
        let folder = Folder::new("compress");
        let path = folder.join("a.txt");
        fs::write(&path, "before ".repeat(500)).unwrap();
        let root = Root::open(&folder).unwrap();
        let source = FirstUse::new(1);
        let file = open(&root, "a.txt");
        assert!(source.forms(&file).is_none());
        thread::sleep(Duration::from_millis(20));
        fs::write(&path, "behind ".repeat(500)).unwrap();
        source.work();
        assert!(source.forms(&file).is_none());
        assert_eq!(source.known().queue.len(), 1, "it was asked for again");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut known = Known::default();
        let id = |inode| FileId { inode, ..FileId::default() };
        let form = |len| Some([None, None, Some(vec![0; len].into())]);
        for inode in 0..20 {
            known.forms.insert(id(inode), None);
            known.finish(id(inode), form(300), 1_000);
            assert!(known.bytes <= 1_000 && known.forms.len() <= 3);
        }
        known.finish(id(20), form(5_000), 1_000);
        assert_eq!((known.bytes, known.forms.len(), known.order.len()), (0, 0, 0));
        for inode in 0..=FILES_MAX as u64 {
            known.finish(id(inode), Some(Forms::default()), 1_000);
        }
        assert_eq!((known.forms.len(), known.order.len()), (FILES_MAX, FILES_MAX));
    }
}
