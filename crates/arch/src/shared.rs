//! State that the processes of shared-SYMPED share, and its use by each of them ([E] §5.2).
use crate::{
    cache::shared_cache::{CacheRegion, Locking},
    disk::at_once::{Disk, InlineDisk},
    options::{Choice as _, Kind, OptionSpec, Settings, choice, options},
};
use regatta_op::{OpenReq, Opened, Outbox, ReadReq, Ticket};
use regatta_origin::CachingRules;
use regatta_sys::{
    OpenResult, Read, StaticFile,
    crew::{self, Crew, Member, NUMBERS_MAX},
    limits, shm,
    wait::{Event, Interest, Poller},
};
use std::{io, os::fd::BorrowedFd, time::Duration};

choice! {
    /// State that processes share in addition to the listening sockets (`event.share`).
    pub(crate) enum Sharing {
        /// Nothing.
        Nothing = "nothing",
        /// Table of descriptors and cache ([E] §5.2).
        DescriptorsAndCache = "descriptors-and-cache",
    }
}

options! {
    /// Options of processes whose loop performs disk operations itself: each enters the files that
    /// it opens for the others.
    pub(crate) struct SharingOptions, OPTIONS;

    share: Sharing = OptionSpec {
        key: "event.share",
        kind: Kind::Choice(Sharing::WORDS),
        default: "nothing",
        doc: "What the processes share besides the listening sockets.",
        long: "`descriptors-and-cache`: one table of descriptors, made with clone(2), and one \
               cache in shared memory ([E] §5.2). `limits.connections_max` and \
               `cache.descriptors_max` are then totals of all processes. It cannot be combined \
               with amped, auto, flash and laio.",
    },
    lock: Locking = OptionSpec {
        key: "shared.lock",
        kind: Kind::Choice(Locking::WORDS),
        default: "two-tier",
        doc: "How a cache that processes share is locked.",
        long: "`global`: one lock for everything ([E] §5.2). `two-tier`: one readers-writer lock \
               for all names, and one lock for each entry ([S] §4).",
    },
}

/// State made by the keeper before the first worker: the ledger of descriptors, and the cache.
#[derive(Debug)]
pub struct SharedState {
    /// Workers, and owners of descriptors.
    pub crew: Crew,
    /// The cache.
    pub region: CacheRegion,
    _memory: shm::SharedWords,
}

impl SharedState {
    /// Whether the processes share more than their listeners.
    #[must_use]
    pub fn is_wanted(settings: &Settings) -> bool {
        SharingOptions::read(settings).share == Sharing::DescriptorsAndCache
    }

    /// Makes everything that `workers` share, hashing with `seed`. Descriptors that are open now
    /// belong to no worker and stay, so call this when all others are open.
    ///
    /// # Errors
    /// No memory is left, or `/proc` is not mounted.
    pub fn new(
        settings: &Settings,
        rules: &CachingRules,
        workers: usize,
        seed: u64,
    ) -> io::Result<Self> {
        let numbers = limits::descriptors().soft.min(NUMBERS_MAX as u64);
        // The ledger has an end, so the table must have one too.
        limits::lower_descriptors(numbers)?;
        let numbers = usize::try_from(numbers).unwrap_or(NUMBERS_MAX);
        let books = Crew::count_words(workers, numbers);
        let memory = crew::create_words(books + CacheRegion::count_words(rules))?;
        let (books, cache) = memory.words().split_at(books);
        let SharingOptions { lock, .. } = SharingOptions::read(settings);
        let region = CacheRegion::new(cache, rules, lock, workers, seed);
        Ok(Self { crew: Crew::create(books, workers, numbers)?, region, _memory: memory })
    }
}

/// Disk whose files are entered in the ledger of the table that the processes share.
#[derive(Debug)]
pub struct SharedDisk<'a> {
    /// Disk that performs the operations.
    pub disk: InlineDisk<'a>,
    /// Member that enters the files: this process.
    pub member: &'static Member,
}

impl Disk for SharedDisk<'_> {
    fn open(&mut self, key: u64, ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        self.member.acquire(|| {
            let found = self.disk.open(key, ticket, req)?;
            Some(found.map(|opened| match opened {
                Opened::Directory => Opened::Directory,
                Opened::File { file, siblings } => Opened::File {
                    file: self.member.lend(file),
                    siblings: siblings.map(|file| file.map(|file| self.member.lend(file))),
                },
            }))
        })
    }

    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        self.disk.read(key, ticket, req)
    }

    fn prefetch(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64> {
        self.disk.prefetch(key, outbox)
    }
}

/// Poller whose descriptor is entered in the ledger.
#[derive(Debug)]
pub struct Leased<P: Poller> {
    /// Present until this is dropped.
    poller: Option<P>,
    member: &'static Member,
}

impl<P: Poller> Leased<P> {
    /// Makes a poller by `make`, and enters its descriptor.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn new(member: &'static Member, make: impl FnOnce() -> io::Result<P>) -> io::Result<Self> {
        let poller = member.acquire(|| {
            make().inspect(|poller| {
                poller.descriptor().into_iter().for_each(|fd| member.claim(fd));
            })
        })?;
        Ok(Self { poller: Some(poller), member })
    }

    fn poller(&self) -> &P {
        self.poller.as_ref().expect("there until it is dropped")
    }

    fn poller_mut(&mut self) -> &mut P {
        self.poller.as_mut().expect("there until it is dropped")
    }
}

impl<P: Poller> Drop for Leased<P> {
    fn drop(&mut self) {
        let closing = self.poller().descriptor().map(|fd| self.member.closing(fd));
        self.poller = None;
        drop(closing);
    }
}

impl<P: Poller> Poller for Leased<P> {
    fn edge(&self) -> bool {
        self.poller().edge()
    }

    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.poller_mut().add(fd, key, interest)
    }

    fn add_level(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.poller_mut().add_level(fd, key, interest)
    }

    fn add_listener(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        self.poller_mut().add_listener(fd, key)
    }

    fn set(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.poller_mut().set(fd, key, interest)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.poller_mut().remove(fd)
    }

    /// All share one table, in which each open file has one descriptor: closing it is enough.
    fn forget(&mut self, fd: BorrowedFd<'_>) {
        self.poller_mut().forget(fd);
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        self.poller_mut().wait(events, timeout)
    }

    fn len(&self) -> usize {
        self.poller().len()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.poller().descriptor()
    }

    fn changes(&self) -> u64 {
        self.poller().changes()
    }
}
