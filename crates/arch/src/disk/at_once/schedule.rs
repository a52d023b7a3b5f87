//! Random schedules of connections with several operations in flight on a disk that completes them
//! later: connections give some up, or leave, and others take their slots.
use super::*;
use crate::{
    conn::slab::Slab,
    testing::{dice::Dice, folder},
};
use regatta_op::{Codings, DISK_OPS_MAX, File, OpenFault, Opened};
use regatta_sys::{
    Root,
    wait::{Interest, Poll, Poller},
};
use std::{fs, io::Write, time::Duration};

/// Longest time that the machine may take for one operation.
const PATIENCE: Duration = Duration::from_secs(60);
/// Names; those from [`FILES`] on do not exist.
const NAMES: usize = 10;
const FILES: usize = 8;
const STEPS: usize = 120;
/// Connections that may be open at once.
const CLIENTS: usize = 12;
/// The chunk size for [`front`].
pub(crate) const CHUNK: u64 = 16 << 10;

/// Files whose contents are known: each byte of file `n` is `n`.
pub(crate) struct Folder {
    _path: folder::Folder,
    pub(crate) root: Root,
    files: Vec<StaticFile>,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let path = folder::Folder::new("disk");
        let root = Root::open(&path).unwrap();
        let make = |n: usize| {
            let mut file = fs::File::create(path.join(n.to_string())).unwrap();
            file.write_all(&vec![u8::try_from(n).unwrap(); 1 + n * 9000]).unwrap();
            // Only what is on the disk can leave memory.
            file.sync_data().unwrap();
            StaticFile::adopt(fs::File::open(path.join(n.to_string())).unwrap().into()).unwrap()
        };
        Self { files: (0..FILES).map(make).collect(), _path: path, root }
    }

    /// The longest of them, and its length.
    pub(crate) fn longest(&self) -> (StaticFile, u64) {
        let file = self.files[FILES - 1].clone();
        (file, 1 + (FILES as u64 - 1) * 9000)
    }
}

fn request(n: usize) -> OpenReq {
    OpenReq { path: n.to_string().into_bytes().into(), siblings: Codings::NONE }
}

/// Operation that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Open(Ticket, usize),
    Read(Ticket, usize, u64, u64),
    /// At most this many bytes.
    Prefetch(u64),
}

impl Wish {
    /// A `Send` has none.
    const fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Open(ticket, _) | Self::Read(ticket, ..) => Some(*ticket),
            Self::Prefetch(_) => None,
        }
    }

    /// True if this is what the connection waited for.
    fn is_about(&self, result: &DiskResult) -> bool {
        match (self, result) {
            (Self::Open(ticket, _), DiskResult::Opened(of, _))
            | (Self::Read(ticket, ..), DiskResult::Read(of, _)) => ticket == of,
            (Self::Prefetch(_), DiskResult::Prefetched(_)) => true,
            _ => false,
        }
    }
}

/// Totals of the schedules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) at_once: u64,
    pub(crate) later: u64,
    pub(crate) left: u64,
    /// Operations given up by connections that stayed.
    pub(crate) given_up: u64,
    /// The most operations in flight of one connection.
    pub(crate) wishes_max: usize,
}

fn check_found(found: &OpenResult, n: usize) {
    match found {
        Ok(Opened::File { file, .. }) => assert_eq!(file.len(), 1 + n as u64 * 9000, "file {n}"),
        Err(OpenFault::NotFound) => assert!(n >= FILES, "file {n} is there"),
        other => panic!("file {n}: {other:?}"),
    }
}

fn check_bytes((bytes, read): &Read, n: usize, at: u64, len: u64) {
    let there = (1 + n as u64 * 9000).saturating_sub(at).min(len);
    assert_eq!(*read, Ok(()), "it can be read");
    assert_eq!(bytes.len() as u64, there, "{len} at {at} of {n}");
    assert!(bytes.iter().all(|byte| usize::from(*byte) == n), "of another file than {n}");
}

/// Begins an operation of a connection; returns what it waits for, if that is left for later.
fn ask(
    disk: &mut dyn Disk,
    key: u64,
    wishes: &[Wish],
    dice: &mut Dice,
    folder: &Folder,
) -> Option<Wish> {
    let drawn = std::iter::repeat_with(|| Ticket(u16::try_from(dice.below(1 << 16)).unwrap()));
    let is_free = |ticket: &Ticket| wishes.iter().all(|wish| wish.ticket() != Some(*ticket));
    let ticket = drawn.take(1 << 20).find(is_free).expect("there are more tickets than wishes");
    let (kind, sends) = (dice.below(3), wishes.iter().any(|wish| wish.ticket().is_none()));
    if kind == 0 {
        let n = dice.below(NAMES);
        let Some(found) = disk.open(key, ticket, request(n)) else {
            return Some(Wish::Open(ticket, n));
        };
        check_found(&found, n);
        return None;
    }
    let n = dice.below(FILES);
    let file = folder.files[n].clone();
    let at = dice.below(usize::try_from(file.len()).unwrap()) as u64;
    let len = 1 + dice.below(50_000) as u64;
    if kind == 1 || sends {
        // A connection lends a buffer; one that has been used before has bytes of then.
        let buffer = vec![255; dice.below(2) * dice.below(60_000)];
        let req = ReadReq { file, at, len, buffer };
        let Some(read) = disk.read(key, ticket, req) else {
            return Some(Wish::Read(ticket, n, at, len));
        };
        check_bytes(&read, n, at, len);
        return None;
    }
    let mut outbox = Outbox::default();
    let len = len.min(file.len() - at);
    outbox.push(Segment::File { file, at, len });
    let Some(ready) = disk.prefetch(key, &outbox) else { return Some(Wish::Prefetch(len)) };
    assert!((1..=len).contains(&ready), "{ready} of {len} may be sent");
    None
}

/// Takes completions. Each is for a connection that is open and waits for just that operation.
fn take_completions(disk: &mut dyn Disk, clients: &mut Slab<Vec<Wish>>) -> u64 {
    let mut taken = 0;
    while let Some(Completion { key, result, .. }) = disk.next_completion() {
        taken += 1;
        let wishes = clients.get_mut(key).expect("result of one that has left");
        let Some(at) = wishes.iter().position(|wish| wish.is_about(&result)) else {
            panic!("waited for {wishes:?} and was told {result:?}");
        };
        match (wishes.swap_remove(at), result) {
            (Wish::Open(_, n), DiskResult::Opened(_, found)) => check_found(&found, n),
            (Wish::Read(_, n, at, len), DiskResult::Read(_, read)) => {
                check_bytes(&read, n, at, len)
            }
            (Wish::Prefetch(len), DiskResult::Prefetched(ready)) => {
                assert!((1..=len).contains(&ready))
            }
            (wish, result) => panic!("waited for {wish:?} and was told {result:?}"),
        }
    }
    taken
}

/// Runs one schedule. `stir` makes the disk fail; at the end, when it is passed `true`, the disk
/// recovers.
pub(crate) fn run<D: Disk>(
    disk: &mut D,
    seed: u64,
    folder: &Folder,
    sums: &mut Sums,
    stir: impl Fn(&mut D, &mut Dice, bool),
) {
    let (mut dice, mut others) = (Dice::new(seed), Dice::new(!seed));
    let mut clients = Slab::default();
    for _ in 0..STEPS {
        let keys = clients.keys();
        let key = keys.get(dice.below(keys.len() + 1)).copied();
        match (dice.below(8), key) {
            (0, _) | (_, None) if keys.len() < CLIENTS => drop(clients.insert(Vec::new())),
            (1, Some(key)) => {
                let wishes = clients.get_mut(key).expect("it is there");
                let one = wishes.iter().position(|wish: &Wish| wish.ticket().is_some());
                if let Some(one) = one.filter(|_| others.once_in(2)) {
                    let ticket = wishes.swap_remove(one).ticket().expect("it has one");
                    disk.forget(key, Abandoned::One(ticket));
                    sums.given_up += 1;
                } else if clients.remove(key).is_some_and(|wishes| !wishes.is_empty()) {
                    disk.forget(key, Abandoned::All);
                    sums.left += 1;
                }
            }
            // Reading again is all that takes time here.
            (2, _) if dice.once_in(6) => {
                let file = &folder.files[dice.below(FILES)];
                let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
            }
            (3 | 4, _) => {
                stir(disk, &mut dice, false);
                sums.later += take_completions(disk, &mut clients);
            }
            (_, Some(key)) => {
                let wishes = clients.get_mut(key).expect("it is there");
                // Now and then as many as may be, one after the other.
                let most = if dice.once_in(16) { 8 * DISK_OPS_MAX } else { 1 };
                for _ in 0..most {
                    if wishes.len() == DISK_OPS_MAX {
                        break;
                    }
                    let wish = ask(disk, key, wishes, &mut dice, folder);
                    sums.at_once += u64::from(wish.is_none());
                    wishes.extend(wish);
                    sums.wishes_max = sums.wishes_max.max(wishes.len());
                }
            }
            (_, None) => {}
        }
    }
    stir(disk, &mut dice, true);
    let mut poller = Poll::new();
    poller.add(disk.source().expect("it answers later"), 1, Interest::READ).unwrap();
    let mut events = Vec::new();
    loop {
        sums.later += take_completions(disk, &mut clients);
        let keys = clients.keys();
        let waits = |key: &u64| clients.get_mut(*key).is_some_and(|wishes| !wishes.is_empty());
        if !keys.iter().any(waits) {
            return;
        }
        let ready = poller.wait(&mut events, Some(PATIENCE)).unwrap();
        assert!(ready > 0, "seed {seed}: some wait for ever");
    }
}
