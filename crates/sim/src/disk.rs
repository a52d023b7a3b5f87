//! A disk in memory; each byte follows from a file's number and an offset.
use crate::dice::{Dice, index, mix};
use regatta_op::{Coding, Codings, File, FileId, Modified, OpenFault, OpenReq, Opened, ReadReq};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The second at which virtual time starts.
pub(crate) const UNIX: u64 = 1_700_000_000;

/// Converts a moment to seconds since 1970.
pub(crate) const fn unix(stamp: crate::trace::Stamp) -> u64 {
    UNIX + stamp.tick / 1000
}

/// Names on disk at first or later, including siblings of content codings.
pub(crate) const NAMES: [&str; 28] = [
    "index.html",
    "404.html",
    "a.txt",
    "a.txt.br",
    "a.txt.zst",
    "a.txt.gz",
    "b.html",
    "b.html.gz",
    "app.3f9c2ab1.js",
    "app.3f9c2ab1.js.br",
    "img.png",
    "img.png.gz",
    "docs/index.html",
    "docs/index.html.gz",
    "docs/guide.html",
    "docs/deep/x.css",
    "docs/deep/x.css.zst",
    "empty.txt",
    "big.bin",
    "mid.bin",
    ".hidden",
    ".well-known/acme",
    "with space.txt",
    "shell.html",
    "shell.html.br",
    "home.htm",
    "docs/.secret",
    "late.txt",
];

/// Content of one file, shared by all that have it open: it may shrink or grow under them.
#[derive(Debug)]
struct Inode(Mutex<FileId>);

impl Inode {
    fn id(&self) -> FileId {
        *self.facts()
    }

    fn facts(&self) -> MutexGuard<'_, FileId> {
        self.0.lock().expect("nobody panics with it")
    }
}

/// Counts the open descriptors: one for each open, regardless of clones.
#[derive(Debug)]
struct Descriptor(Arc<AtomicU64>);

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SimFile {
    id: FileId,
    inode: Arc<Inode>,
    _descriptor: Arc<Descriptor>,
}

impl File for SimFile {
    fn id(&self) -> FileId {
        self.id
    }
}

impl SimFile {
    /// Facts of the file as they are now.
    pub(crate) fn stat(&self) -> FileId {
        self.inode.id()
    }

    /// Appends the bytes of a range that exist now.
    pub(crate) fn read(&self, at: u64, len: u64, out: &mut Vec<u8>) {
        let FileId { inode, len: now, .. } = self.stat();
        append_content(inode, at..now.min(at.saturating_add(len)), out);
    }
}

/// Makes a file that is opened again for a body another one with the same facts, for
/// [`Plant::OldIdentity`]. An exchange asks for siblings, where the site has any.
///
/// [`Plant::OldIdentity`]: crate::Plant::OldIdentity
pub(crate) fn disguise(req: &OpenReq, opened: &mut Opened<SimFile>) {
    if let Opened::File { file, .. } = opened
        && req.siblings.is_empty()
        && !compressible(&req.path).is_empty()
    {
        let facts = file.stat();
        let inode = Inode(Mutex::new(FileId { inode: !facts.inode, ..facts }));
        file.inode = Arc::new(inode);
    }
}

/// Returns a range of the bytes of the file with a number.
pub(crate) fn content(inode: u64, range: Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(index(range.end - range.start));
    append_content(inode, range, &mut bytes);
    bytes
}

/// Appends such a range. Eight bytes are made at a time.
fn append_content(inode: u64, Range { start, end }: Range<u64>, out: &mut Vec<u8>) {
    let mut at = start;
    while at < end {
        let word = mix(inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (at >> 3)).to_le_bytes();
        let from = index(at & 7);
        let part = &word[from..word.len().min(from + index(end - at))];
        out.extend_from_slice(part);
        at += part.len() as u64;
    }
}

/// Result of an open, without the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "most are files")]
pub(crate) enum Seen {
    File { main: FileId, siblings: [Option<FileId>; 3] },
    Directory,
    Fault(OpenFault),
}

struct Node {
    inode: Arc<Inode>,
}

#[derive(Default)]
pub(crate) struct Disk {
    /// Names that change and are requested more often than others.
    pub(crate) hot: Vec<&'static str>,
    nodes: BTreeMap<Vec<u8>, Node>,
    faults: BTreeMap<Vec<u8>, OpenFault>,
    live: Arc<AtomicU64>,
    /// Number of files created so far.
    inodes: u64,
    /// Number of changes so far; part of times, so that no two are equal.
    changes: u32,
}

impl Disk {
    /// Makes a disk with most of [`NAMES`].
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let hot = (0..dice.between(1, 4)).map(|_| dice.pick(&NAMES)).collect();
        let mut disk = Self { hot, ..Self::default() };
        for name in NAMES {
            if disk.hot.contains(&name) || !dice.one_in(4) {
                disk.replace(name, 0, dice);
            }
        }
        disk
    }

    /// Number of open descriptors.
    pub(crate) fn live(&self) -> u64 {
        self.live.load(Relaxed)
    }

    /// Opens a path as the system would now.
    pub(crate) fn open(&self, req: &OpenReq) -> (Seen, Result<Opened<SimFile>, OpenFault>) {
        if let Some(&fault) = self.faults.get(&*req.path) {
            return (Seen::Fault(fault), Err(fault));
        }
        let Some(node) = self.nodes.get(&*req.path) else {
            let below = [&*req.path, b"/"].concat();
            let any = self.nodes.keys().any(|name| name.starts_with(&below));
            return if req.path.is_empty() || any {
                (Seen::Directory, Ok(Opened::Directory))
            } else {
                (Seen::Fault(OpenFault::NotFound), Err(OpenFault::NotFound))
            };
        };
        let file = self.descriptor(node);
        let siblings = Coding::ALL.map(|coding| {
            let name = [&*req.path, coding.suffix().as_bytes()].concat();
            let wanted = req.siblings.has(coding) && !self.faults.contains_key(&name);
            self.nodes.get(&name).filter(|_| wanted).map(|node| self.descriptor(node))
        });
        let ids = siblings.clone().map(|file| file.map(|file| file.id));
        (Seen::File { main: file.id, siblings: ids }, Ok(Opened::File { file, siblings }))
    }

    fn descriptor(&self, node: &Node) -> SimFile {
        self.live.fetch_add(1, Relaxed);
        let id = node.inode.id();
        let descriptor = Arc::new(Descriptor(Arc::clone(&self.live)));
        SimFile { id, inode: Arc::clone(&node.inode), _descriptor: descriptor }
    }

    /// Changes a random file; returns its name and the change.
    pub(crate) fn change(&mut self, tick: u64, dice: &mut Dice) -> (&'static str, &'static str) {
        let name = if dice.one_in(2) { dice.pick(&NAMES) } else { dice.pick(&self.hot) };
        let known = self.nodes.contains_key(name.as_bytes());
        let what = match dice.below(8) {
            0 | 1 => {
                self.replace(name, tick, dice);
                "replaced"
            }
            2 | 3 if known => {
                self.resize(name, tick, dice);
                "resized"
            }
            4 => {
                self.nodes.remove(name.as_bytes());
                "removed"
            }
            5 => {
                let fault = dice.pick(&[
                    OpenFault::Denied,
                    OpenFault::Exhausted,
                    OpenFault::Busy,
                    OpenFault::Other(5),
                    OpenFault::Outside,
                    OpenFault::NotAFile,
                    OpenFault::NotFound,
                ]);
                self.faults.insert(name.into(), fault);
                "made faulty"
            }
            6 => {
                self.faults.clear();
                "and all others healed"
            }
            _ => {
                self.touch(name, tick, dice);
                "touched"
            }
        };
        (name, what)
    }

    /// Puts a new file in the place of a name, as a rename does.
    fn replace(&mut self, name: &str, tick: u64, dice: &mut Dice) {
        let len = length(name, dice);
        self.inodes += 1;
        let (modified, changed) = self.times(tick, dice);
        let old = self.nodes.get(name.as_bytes());
        // The old file has one link less now.
        old.iter().for_each(|old| old.inode.facts().changed = changed);
        let id = FileId { device: 1, inode: self.inodes, len, modified, changed };
        let inode = Inode(Mutex::new(id));
        self.nodes.insert(name.into(), Node { inode: Arc::new(inode) });
    }

    /// Shortens or lengthens a file in its place.
    fn resize(&mut self, name: &str, tick: u64, dice: &mut Dice) {
        let (modified, changed) = self.times(tick, dice);
        let Some(node) = self.nodes.get(name.as_bytes()) else { return };
        let len =
            if dice.one_in(3) { length(name, dice) } else { dice.below(node.inode.id().len + 1) };
        let mut facts = node.inode.facts();
        (facts.len, facts.modified, facts.changed) = (len, modified, changed);
    }

    /// Changes a file's times and nothing else.
    fn touch(&mut self, name: &str, tick: u64, dice: &mut Dice) {
        let (modified, changed) = self.times(tick, dice);
        if let Some(node) = self.nodes.get(name.as_bytes()) {
            let mut facts = node.inode.facts();
            facts.changed = changed;
            if dice.one_in(2) {
                facts.modified = modified;
            }
        }
    }

    /// Draws a modification time in the past, now or in the future; the change time is now.
    fn times(&mut self, tick: u64, dice: &mut Dice) -> (Modified, Modified) {
        self.changes += 1;
        let now = i64::try_from(UNIX + tick / 1000).expect("virtual time is short");
        let secs = match dice.below(12) {
            0 => now + 100,
            1 => 0,
            2 => -5,
            3..6 => now,
            _ => now - 1_000,
        };
        (Modified { secs, nanos: self.changes }, Modified { secs: now, nanos: self.changes })
    }
}

fn length(name: &str, dice: &mut Dice) -> u64 {
    match name {
        "empty.txt" => 0,
        "big.bin" => dice.between(60_000, 150_000),
        "mid.bin" => dice.between(3_000, 30_000),
        _ if dice.one_in(12) => dice.pick(&[0, 1, 1023, 1024, 16_384, 16_385]),
        _ => dice.between(1, 400),
    }
}

/// Siblings worth a request, by the name alone.
pub(crate) fn compressible(name: &[u8]) -> Codings {
    if name.ends_with(b".png") || name.ends_with(b".gz") { Codings::NONE } else { Codings::ALL }
}

/// Reads a range as the system would now, into the request's buffer.
pub(crate) fn read(mut req: ReadReq<SimFile>) -> Vec<u8> {
    req.file.read(req.at, req.len, &mut req.buffer);
    req.buffer
}

/// Name of a path in the trace.
pub(crate) fn name_of(path: &[u8]) -> &'static str {
    let known = NAMES.iter().find(|name| name.as_bytes() == path);
    known.copied().unwrap_or("another name")
}
