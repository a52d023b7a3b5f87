//! SPED that puts work on files off: it asks for the pages of a file when its request has been
//! parsed, and reads or sends them a fixed time later, whether they have arrived or not.
use crate::{
    Driver, Env, WorkError,
    architectures::event::{self, EventOptions, EventWorker},
    conn::slab::parts,
    disk::{
        at_once::{Completion, Disk, DiskResult, front},
        waiters::{Sequence, Waiters},
    },
    drive::{
        ledger::Spent,
        perform::{self, Below, timed},
    },
    options::{Kind, OptionSpec, joined, options},
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Abandoned, File, OpenReq, Outbox, ReadReq, Ticket};
use regatta_sys::{OpenResult, Read, ReadAhead, StaticFile, clock, read_ahead};
use std::{collections::BTreeMap, time::Duration};

/// The driver.
pub const DRIVER: Driver = Driver::plain(&OPTIONS, event::processes, work);

const OPTIONS: [OptionSpec; event::OPTIONS.len() + OWN.len()] = joined(event::OPTIONS, OWN);

options! {
    /// The options that no other driver has.
    struct ReadaheadOptions, OWN;

    wait_ms: u64 = OptionSpec {
        key: "readahead.wait_ms",
        kind: Kind::Millis { min: 1, max: 1000 },
        default: "10 ms",
        doc: "How long a piece of a file is waited for before the loop reads or sends it.",
        long: "The loop serves other connections meanwhile, and does not find out whether the \
               piece has arrived. Pieces that are in memory wait as well. A disk with heads takes \
               about 10 ms for a piece; more waiting hides the queue of the disk, too.",
    },
    chunk_bytes: u64 = OptionSpec {
        key: "readahead.chunk_bytes",
        kind: Kind::Bytes { min: 4096, max: 16 << 20 },
        default: "256 KiB",
        doc: "How much of a file is asked for and waited for at once.",
        long: "Pieces begin at multiples of it. Linux reads no more of a piece than one request of \
               the disk may have, or read_ahead_kb if that is more.",
    },
}

fn work(env: &Env, worker: usize) -> Result<(), WorkError> {
    let options = EventOptions::read(&env.settings);
    let own = ReadaheadOptions::read(&env.settings);
    let of = EventWorker { env, worker, options: &options, visits: None };
    event::work_with(of, |root, tally, _| {
        Ok(Box::new(ReadaheadDisk::new(Below { root, rules: env.rules }, own, tally)))
    })
}

/// Disk of a loop that opens files at once, and reads and sends them some time after it has asked
/// for their pages.
struct ReadaheadDisk<'a> {
    below: Below<'a>,
    wait_ns: u64,
    chunk_bytes: u64,
    waiters: Waiters,
    /// Operations that wait for their time. All wait equally long, so the first is due first.
    queue: BTreeMap<Sequence, Waiting>,
    /// By the number of a connection's slot: what was asked for last.
    asked: Vec<Asked>,
    tally: Tally<'a>,
}

/// A range that was asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    key: u64,
    inode: u64,
    at: u64,
    end: u64,
}

/// An operation that is due at a time.
struct Waiting {
    key: u64,
    due_ns: u64,
    ahead: ReadAhead,
    what: PutOff,
}

/// An operation that was put off.
enum PutOff {
    Read(Ticket, ReadReq<StaticFile>),
    Send { file: StaticFile, at: u64, len: u64 },
}

impl<'a> ReadaheadDisk<'a> {
    fn new(below: Below<'a>, options: ReadaheadOptions, tally: Tally<'a>) -> Self {
        let ReadaheadOptions { wait_ms, chunk_bytes } = options;
        let (waiters, queue, asked) = (Waiters::default(), BTreeMap::new(), Vec::new());
        let wait_ns = wait_ms * 1_000_000;
        Self { below, wait_ns, chunk_bytes, waiters, queue, asked, tally }
    }

    /// Asks for a range, and for the rest of the chunk in which it ends; `None` if it is part of
    /// what the connection asked for last.
    fn ask(&mut self, key: u64, file: &StaticFile, at: u64, len: u64) -> Option<ReadAhead> {
        let end = at.saturating_add(len);
        let inode = file.id().inode;
        let slot = parts(key).1 as usize;
        if slot >= self.asked.len() {
            self.asked.resize(slot + 1, Asked::default());
        }
        let last = &mut self.asked[slot];
        let covers = last.at <= at && end <= last.end;
        if last.key == key && last.inode == inode && covers {
            return None;
        }
        let end = end.next_multiple_of(self.chunk_bytes).min(file.len()).max(end);
        *last = Asked { key, inode, at, end };
        Some(read_ahead(file, at, end - at))
    }

    /// Puts an operation off.
    fn put_off(&mut self, key: u64, ahead: ReadAhead, what: PutOff) {
        self.tally.add(Counter::ReadaheadWaits, 1);
        let ticket = match &what {
            PutOff::Read(ticket, _) => Some(*ticket),
            PutOff::Send { .. } => None,
        };
        let due_ns = clock::nanos().saturating_add(self.wait_ns);
        self.queue.insert(self.waiters.add(key, ticket), Waiting { key, due_ns, ahead, what });
    }
}

impl Waiting {
    /// Performs the operation, whether the disk has finished or not.
    fn perform(self) -> Completion {
        let Self { key, ahead, what, .. } = self;
        let mut spent = Spent::default();
        let result = match what {
            PutOff::Read(ticket, req) => {
                let read = timed(&mut spent.read, || {
                    ahead.finish(&req.file, req.at, req.len);
                    perform::read(req)
                });
                DiskResult::Read(ticket, read)
            }
            PutOff::Send { file, at, len } => {
                timed(&mut spent.send, || ahead.finish(&file, at, len));
                DiskResult::Prefetched(len)
            }
        };
        Completion { key, result, spent }
    }
}

impl Disk for ReadaheadDisk<'_> {
    fn open(&mut self, _key: u64, _ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        Some(self.below.open(&req))
    }

    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        let Some(ahead) = self.ask(key, &req.file, req.at, req.len) else {
            return Some(perform::read(req));
        };
        self.put_off(key, ahead, PutOff::Read(ticket, req));
        None
    }

    fn prefetch(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64> {
        let Some((file, at, len)) = front(outbox, self.chunk_bytes) else { return Some(u64::MAX) };
        let Some(ahead) = self.ask(key, file, at, len) else { return Some(len) };
        self.put_off(key, ahead, PutOff::Send { file: file.clone(), at, len });
        None
    }

    fn forget(&mut self, key: u64, what: Abandoned) {
        self.waiters.forget(key, what, |sequence| drop(self.queue.remove(&sequence)));
    }

    fn due_in(&self) -> Option<Duration> {
        let (_, first) = self.queue.first_key_value()?;
        Some(Duration::from_nanos(first.due_ns.saturating_sub(clock::nanos())))
    }

    fn next_completion(&mut self) -> Option<Completion> {
        let first = self.queue.first_entry()?;
        if first.get().due_ns > clock::nanos() {
            return None;
        }
        let (sequence, waiting) = first.remove_entry();
        let waits = self.waiters.remove(waiting.key, sequence);
        debug_assert!(waits, "what is forgotten leaves the queue");
        Some(waiting.perform())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        disk::at_once::schedule::{CHUNK, Folder},
        loops::event_loop::schedule::{
            Case, Setting, check, check_frames, check_http2, check_sealed, run_all,
        },
    };
    use regatta_op::{Opened, Segment};
    use regatta_sys::{OpenRules, Root, hook};
    use regatta_testkit::counters::arena;

    const MS: u64 = 1_000_000;

    fn disk<'a>(root: &'a Root, wait_ms: u64, tally: Tally<'a>) -> ReadaheadDisk<'a> {
        let below = Below { root, rules: OpenRules::default() };
        ReadaheadDisk::new(below, ReadaheadOptions { wait_ms, chunk_bytes: CHUNK }, tally)
    }

    fn outbox(file: &StaticFile, at: u64, len: u64) -> Outbox<StaticFile> {
        let mut outbox = Outbox::default();
        outbox.push(Segment::File { file: file.clone(), at, len });
        outbox
    }

    fn is_prefetched(completion: Option<Completion>, key: u64, bytes: u64) -> bool {
        completion.is_some_and(|of| {
            of.key == key && matches!(of.result, DiskResult::Prefetched(n) if n == bytes)
        })
    }

    #[test]
    fn each_piece_waits_once_and_for_its_time() {
        hook::set_time(100 * MS, 0);
        let (folder, arena) = (Folder::new(), arena(1));
        let mut disk = disk(&folder.root, 10, Tally::Owned(arena.slot(0)));
        let (file, len) = folder.longest();
        assert!(disk.due_in().is_none() && disk.next_completion().is_none());
        assert_eq!(disk.prefetch(1, &outbox(&file, 0, len)), None);
        hook::set_time(104 * MS, 0);
        let req = ReadReq::new(file.clone(), 5, 100);
        assert!(disk.read(2, Ticket(7), req).is_none());
        assert_eq!(disk.due_in(), Some(Duration::from_millis(6)));
        assert!(disk.next_completion().is_none(), "it is early");
        hook::set_time(110 * MS, 0);
        assert_eq!(disk.due_in(), Some(Duration::ZERO));
        assert!(is_prefetched(disk.next_completion(), 1, CHUNK));
        assert!(disk.next_completion().is_none(), "the other was asked for later");
        // The socket took a part of the piece: the rest of it does not wait again.
        assert_eq!(disk.prefetch(1, &outbox(&file, 9, len - 9)), Some(CHUNK - 9));
        assert_eq!(disk.prefetch(1, &outbox(&file, CHUNK, len - CHUNK)), None, "the next does");
        hook::set_time(114 * MS, 0);
        let Some(Completion {
            key: 2, result: DiskResult::Read(Ticket(7), (bytes, Ok(()))), ..
        }) = disk.next_completion()
        else {
            panic!("the read is due");
        };
        assert_eq!(bytes.len(), 100);
        // Another connection in the same slot, with the same file.
        let other = 1 << 32 | 1;
        assert_eq!(disk.prefetch(other, &outbox(&file, CHUNK, 5)), None);
        disk.forget(1, Abandoned::All);
        hook::set_time(200 * MS, 0);
        assert!(is_prefetched(disk.next_completion(), other, 5));
        assert!(disk.next_completion().is_none() && disk.waiters.is_empty());
        assert_eq!(arena.slot(0).get(Counter::ReadaheadWaits), 4);
    }

    #[test]
    fn names_do_not_wait() {
        let (folder, arena) = (Folder::new(), arena(1));
        let mut disk = disk(&folder.root, 10, Tally::Owned(arena.slot(0)));
        let req = OpenReq { path: b"3"[..].into(), siblings: regatta_op::Codings::NONE };
        assert!(matches!(disk.open(1, Ticket(1), req), Some(Ok(Opened::File { .. }))));
    }

    #[test]
    fn a_loop_that_waits_forgets_none() {
        fn make<'a>(setting: &Setting<'a>) -> Box<dyn Disk + 'a> {
            let &Setting { seed, root, tally, .. } = setting;
            Box::new(disk(root, [1, 2, 5, 20][(seed / 8 % 4) as usize], tally))
        }
        let test = "a_loop_that_waits_forgets_none";
        check(&run_all(Case::one(test), &make), 2);
        check_frames(&run_all(Case::frames(test), &make), 2);
        check_http2(&run_all(Case::http2(test), &make), 2);
        check_sealed(&run_all(Case { sealed: true, ..Case::one(test) }, &make), 2);
    }
}
